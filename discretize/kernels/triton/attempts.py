r"""Write a method's attempt in Triton: what leads to each of its calls of a field, to the end of a step, and back through them.

The loop over rounds is the driver's (adaptive.py), with one text of the field and one of each operation with its Jacobian J; what
is written here stands in its branches. Results of rounds lie in memory, one after the other.

    forwards     y of each round: a state where the field is called, or what is solved for, or multiplied by J; then y at the end
                 of the step, where that is not the last call's, and the error
    backwards    y of each round that is made again; q of each round back: the cotangent of a slope, or what is solved for; the
                 vectors whose products add up to the cotangent of J; and the cotangent of h
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from discretize.kernels.record.attempt import START
from discretize.kernels.record.calls import AttemptCalls
from discretize.kernels.record.phases import ProgramValues
from discretize.kernels.record.recording import UnknownOperation
from discretize.kernels.record.values import Value, ancestors
from discretize.kernels.triton.lines import Lines, Needs, padded
from discretize.kernels.triton.matrices import OPERATIONS, factoring
from discretize.kernels.triton.passes import Pass

__all__ = ["METHOD", "AttemptText", "Round", "attempt_text"]

FIRST_NAME = 1 << 20  # behind the names that the field's lines make
METHOD = 3  # the number of its program: those of a field and its derivatives are less
OF_FIELD, NOTHING = 0, -1  # kinds of rounds; those of operations with J are above 0


class Round(NamedTuple):
    """A turn of the loop: a call of the field or back through it, or an operation with J; `call`: the number of the slope;
    `place`: of the call among those that are made again, or of the matrix that is solved with."""

    kind: int
    call: int = START
    place: int = 0


Rounds: TypeAlias = tuple[Round, ...]


@dataclass(frozen=True)
class AttemptText:
    """Lines of a method by the words of adaptive.py that they stand for, and what they need, of a step and of the way back.

    rounds: of a step, those that are made again on the way back, and those that go back; factors: how many matrices a step and
    the way back factor; differentiated: the rounds of both before which derivatives of the field are made, -1 for none; pairs:
    how many products of vectors the cotangent of J is the sum of; drift: whether the derivative by the time is read, and whether
    its cotangent goes back.
    """

    lines: tuple[tuple[str, tuple[str, ...]], ...]
    forward: Needs
    backward: Needs
    rounds: tuple[Rounds, Rounds, Rounds]
    factors: tuple[int, int]
    differentiated: tuple[int, int]
    pairs: int
    drift: tuple[bool, bool]

    @property
    def evaluations(self) -> int:
        """How many calls of the field are made again on the way back."""
        return sum(each.kind == OF_FIELD for each in self.rounds[1])

    @property
    def pulled(self) -> list[int]:
        """Which of these it goes back through."""
        return [each.place for each in self.rounds[2] if each.kind == OF_FIELD]

    def words(self, end: int, reads_start: bool) -> dict[str, object]:
        """Numbers that the kernels' text has names for; end: the slope that is the next step's first, `START` for none."""
        end = START if self.drift[0] else end  # on a clock that is made of the flow at the start
        place = next(k for k, each in enumerate(self.rounds[0]) if (each.kind, each.call) == (OF_FIELD, end))
        return {
            "SLOPE_AT_END": place,
            "READS_START": int(reads_start),
            **dict(zip(("ROUNDS", "REPLAYED", "PULLED"), map(len, self.rounds), strict=True)),
            **dict(zip(("FACTORS", "FACTORS_BACK"), self.factors, strict=True)),
            **dict(zip(("DIFFERENTIATED", "DIFFERENTIATED_BACK"), self.differentiated, strict=True)),
            **dict(zip(("READS_DRIFT", "GIVES_DRIFT"), map(int, self.drift), strict=True)),
            "EVALUATIONS": self.evaluations,
            "PAIRS": self.pairs,
        }

    def table(self, nodes: Sequence[float]) -> list[tuple[float, float, float]]:
        """For each round its kind, where in the step it calls the field, and its place; a first step is guessed by a call at the
        end of one, behind the rounds of a step."""
        step, again, back = self.rounds
        rows = [*step, None, *again, *back]
        return [(OF_FIELD, 1.0, 0) if row is None else (row.kind, nodes[row.call], row.place) for row in rows]


def attempt_text(values: ProgramValues) -> AttemptText:
    """Write an attempt and its way back, of the values of an `AttemptModule` with gradients to all slopes."""
    if values.sums:
        raise UnknownOperation("its method learns, and gradients to a method's own tensors have no kernel")
    calls = AttemptCalls(values)
    step = _Step(calls)
    back = _WayBack(calls, step.reads_drift)
    return AttemptText(
        tuple((word, tuple(lines)) for word, lines in (step.text | back.text).items()),
        step.needs,
        back.needs,
        (step.rounds, back.again, back.rounds),
        (len(step.factors), len(back.factors)),
        (step.differentiated, back.differentiated),
        back.pairs,
        (step.reads_drift, back.gives_drift),
    )


class _Branches:
    """Lines for branches of one kernel, each by a pass of its own.

    lie: where values lie in memory; names: of those that have one; factors: matrices a + b J, in the order they are made in.
    """

    def __init__(self, calls: AttemptCalls) -> None:
        pool, self.calls, self.width = calls.pool, calls, calls.width
        self.last, self.scratch = Pass({}, out=Lines(made=FIRST_NAME, program=METHOD)), 0
        self.last.out.columns_of(self.width)
        self.lie = {pool.given("drift", self.width): "at_drift"}
        self.names = {pool.given("h", self.width): "h", pool.given("dt", 1): "length_of_step"}
        self.factors = list[Value]()

    @property
    def needs(self) -> Needs:
        return replace(self.last.needs, scratch=self.scratch)

    def head(self, word: str) -> dict[str, list[str]]:
        """The lines before the loop, and the weights that are read."""
        out = self.last.out
        columns = [f"c{n}, r{n} = tl.arange(0, {n})[None, :], tl.arange(0, {n})[:, None]" for n in out.columns if n > 1]
        read = [*(f"vector_{k}, " for k in out.vectors), *(f"matrix_{k}, " for k in out.matrices)]
        return {word: [*columns, *out.before], f"{word}_WEIGHTS": ["".join(read).rstrip()] if read else []}

    def lines(self, values: Mapping[str, Value], factored: Value | None = None) -> list[str]:
        """Give names these values; factored: a matrix that is made before."""
        carried = dict[Value, dict[tuple[int, int], str] | None]()
        carried |= {value: {(0, value.width): name} for value, name in self.names.items()}
        self.last = Pass(dict(self.lie), out=replace(self.last.out, step=[], unread=False), carried=carried)
        step = self.last.out.step
        if factored is not None and factored not in self.factors:
            a, b = (self.last.piece(part) for part in factored.of)
            step += factoring(len(self.factors), self.width, a, b)
            self.factors.append(factored)
        for name, value in values.items():
            whole = self.last.piece(value, 0, self.width)
            step.append(f"{name} = tl.broadcast_to({whole}, [ROWS, {padded(self.width)}])")
        self.scratch = max(self.scratch, self.last.scratch)
        return [line.replace("at_scratch", "at_method") for line in step]

    def branches(self, name: str, made: Sequence[Value | None]) -> Iterator[list[str]]:
        """Lines that give a name what each round is made of; and `of_drift` the cotangent of what the slope is a part of."""
        for value in made:
            if value is None:
                yield ["pass"]
                continue
            factored, right = value.of if value.operation == "jacobian_solve" else (None, value.of[0])
            of_drift = {"of_drift": value.of[2]} if value.operation == "pullback" and len(value.of) == 3 else {}
            yield self.lines({name: right} | of_drift, factored)

    def rounds_of(self, made: Iterable[Value | None], evaluations: Sequence[int]) -> Rounds:
        """What rounds do; evaluations: the numbers of the calls that are made again."""
        rounds = list[Round]()
        for value in made:
            if value is None:
                rounds.append(Round(NOTHING))
            elif value.operation in ("call", "pullback"):
                number = value.settings[0]
                rounds.append(Round(OF_FIELD, number, evaluations.index(number)))
            else:
                place = self.factors.index(value.of[0]) if value.operation == "jacobian_solve" else 0
                rounds.append(Round(_kind(value), START, place))
        return tuple(rounds)


class _Step(_Branches):
    """The rounds of a step."""

    def __init__(self, calls: AttemptCalls) -> None:
        super().__init__(calls)
        end, error = (calls.answer(calls.count + k) for k in (0, 1))
        order = list(ancestors([*map(calls.slope, range(calls.count)), end, error]))
        self.reads_drift: bool = any(value.operation == "drift" for value in order)
        made, self.differentiated = _reading([each for each in order if each.operation == "call" or _kind(each)], [end, error])
        self.lie |= _places(made, "at_slopes", 0, self.width)
        self.text: dict[str, list[str]] = {"$STATES": _choice("call", self.branches("y", made))}
        last = made[-1]
        is_last = calls.count > 1 and last is not None and last.operation == "call" and last.of[0] is end
        self.text["$END"] = [] if is_last else self.lines({"y": end})
        self.text["$ERROR"] = ["length_of_step = dt.to(REAL)", *self.lines({"error": error})]
        self.text["$OPERATIONS"] = _operations(made, "at_y", self.width)
        self.text |= self.head("$FORWARD")
        self.rounds: Rounds = self.rounds_of(made, range(calls.count))


class _WayBack(_Branches):
    """The rounds that are made again, and those that go back."""

    def __init__(self, calls: AttemptCalls, reads_drift: bool) -> None:
        super().__init__(calls)
        to_start = calls.to_start
        order = list(ancestors([to_start]))
        numbers = {value.settings[0] for value in order if value.operation == "call"} | ({START} if reads_drift else set())
        again, back, differentiated = self._made(to_start, sorted(numbers))
        self.differentiated: int = differentiated
        ends = {value.operation: value for value in order}
        of_jacobian, of_drift = ends.get("pull_jacobian"), ends.get("pull_drift")
        self.lie |= _places(again, "at_slopes", 0, self.width) | _places(back, "at_of_ys", 0, self.width)
        self.lie[calls.pool.given("cotangent", self.width)] = f"at_of_ys + {len(back) * self.width}"
        self.names |= {value: name for value, name in ((of_jacobian, "of_jacobian"), (of_drift, "of_time")) if value is not None}
        sides = () if of_jacobian is None else of_jacobian.of
        self.pairs, self.gives_drift = len(sides) // 2, of_drift is not None
        self.text: dict[str, list[str]] = {
            "$STATES_BACK": _choice("call", self.branches("y", again)),
            "$COTANGENTS": _choice("call", self.branches("q", back)),
            "$SIDES": _choice("pair", (self.lines({"left": sides[k], "right": sides[k + 1]}) for k in range(0, len(sides), 2))),
            "$OF_DRIFT": [] if of_drift is None else self.lines({"of_drift": of_drift.of[0]}),
            "$START": self.lines({"of_start": to_start}),
            "$OPERATIONS_AGAIN": _operations(again, "at_y", self.width),
            "$OPERATIONS_BACK": _operations(back, "at_q", self.width),
        }
        self.text |= self.head("$BACKWARD")
        self.again, self.rounds = (self.rounds_of(made, sorted(numbers)) for made in (again, back))

    def _made(self, to_start: Value, numbers: Sequence[int]) -> tuple[Sequence[Value | None], list[Value], int]:
        """What is made again, of these calls, what is made of cotangents, the slope at the start last, and where derivatives of
        the field are read first."""
        order = list(ancestors([*map(self.calls.slope, numbers), to_start]))
        going_back = set[Value]()
        for value in order:
            if value.operation in ("cotangent", "pullback") or not going_back.isdisjoint(value.of):
                going_back.add(value)
        made = [value for value in order if value.operation in ("call", "pullback") or _kind(value)]
        again, differentiated = _reading([value for value in made if value not in going_back], [to_start])
        back = [value for value in made if value in going_back]
        at_start = [value for value in back if value.operation == "pullback" and value.settings[0] == START]
        return again, [*(value for value in back if value not in at_start), *at_start], differentiated


def _kind(value: Value) -> int:
    """Which operation with J a value is of, 0 for others."""
    return 1 + 2 * [*OPERATIONS].index(value.operation) + value.settings[0] if value.operation in OPERATIONS else OF_FIELD


def _reading(made: list[Value], later: Iterable[Value]) -> tuple[Sequence[Value | None], int]:
    """The round before which derivatives of the field are made, -1 for none: one more, for nothing else, if only what comes later
    reads them."""

    def reads(values: Iterable[Value], known: Iterable[Value] = ()) -> bool:
        return any(value.operation in ("jacobian", "drift", *OPERATIONS) for value in ancestors(values) if value not in known)

    for k, value in enumerate(made):
        if _kind(value) or reads(value.of, made[:k]):
            return made, k
    return ([*made, None], len(made)) if reads(later) else (made, -1)


def _places(made: Sequence[Value | None], at: str, first: int, width: int) -> dict[Value, str]:
    return {value: f"{at} + {k * width}" for k, value in enumerate(made, first) if value is not None}


def _choice(counter: str, branches: Iterable[list[str]]) -> list[str]:
    """One branch for each number that a counter may have."""
    lines = list[str]()
    for number, branch in enumerate(branches):
        lines.append(f"{'elif' if lines else 'if'} {counter} == {number}:")
        lines += [f"    {line}" for line in branch]
    return lines


def _operations(made: Iterable[Value | None], read: str, width: int) -> list[str]:
    """Those of rounds that are made, of a vector that lies at `read`; each once."""
    kinds = {(_kind(value), value.operation, value.settings[0]) for value in made if value is not None and _kind(value)}
    lines = list[str]()
    for kind, operation, turned in sorted(kinds):
        branch = ["tl.debug_barrier()", *OPERATIONS[operation](read, width, turned)]
        lines += [f"if kind == {kind}.0:", *(f"    {line}" for line in branch)]
    return lines
