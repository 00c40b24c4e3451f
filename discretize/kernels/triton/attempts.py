r"""Write a method's attempt in Triton: what leads to each of its calls of a field, to the end of a step, and back through them.

The loop over rounds is the driver's (adaptive.py), with one text of the field and one of each operation with its Jacobian J; what
is written here stands in its branches. Results of rounds lie in memory, one after the other.

    forwards     to at_y, for each round a state where the field is called, or what is solved for, or multiplied by J; then y at
                 the end of the step, and the error
    backwards    to at_kept or at_y, the same for each round that is made again; to at_q, for each round back the cotangent of a
                 slope, or what is solved for; the vectors whose products add up to the cotangent of J; and the cotangent of h

Rounds that differ in numbers alone share a branch, which reads these in the kernels' table, and sums of results by weights are
loops over numbers there: to find layouts, Triton's compiler looks at all operations for each read and write, and with a branch
for each round and every term written out it took 2.5 times as long for the way back of rodas5p.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import ClassVar, NamedTuple, TypeAlias

from discretize.kernels.record.attempt import START
from discretize.kernels.record.calls import AttemptCalls
from discretize.kernels.record.phases import ProgramValues
from discretize.kernels.record.recording import UnknownOperation
from discretize.kernels.record.values import Value, ancestors
from discretize.kernels.triton.functions import number as written_number
from discretize.kernels.triton.lines import Lines, Needs, padded
from discretize.kernels.triton.matrices import OPERATIONS, factoring
from discretize.kernels.triton.passes import Pass

__all__ = ["METHOD", "AttemptRound", "AttemptText", "attempt_text"]

FIRST_NAME = 1 << 20  # behind the names that the field's lines make
METHOD = 3  # the number of its program: those of a field and its derivatives are less
NUMBER = re.compile(r"\{([^}]*)\}")  # in lines of a branch, which others may have otherwise: a place, or =, and a number in REAL
MADE = re.compile(r"^\s*(v\d+) = ", re.MULTILINE)
OF_FIELD, NOTHING = 0, -1  # kinds of rounds; those of operations with J are above 0


class AttemptRound(NamedTuple):
    """A turn of the loop: a call of the field or back through it, or an operation with J; `call`: the number of the slope;
    `place`: of the call among those that are made again, or of the matrix that is solved with; `branch` and `numbers`: which
    lines lead to it, and what these read."""

    kind: int
    call: int = START
    place: int = 0
    branch: int = -1
    numbers: tuple[float, ...] = ()


Rounds: TypeAlias = tuple[AttemptRound, ...]
Led: TypeAlias = tuple[int, tuple[float, ...]]
Term: TypeAlias = tuple[str, int, float, int]


@dataclass(frozen=True)
class AttemptText:
    """Lines of a method by the words of adaptive.py that they stand for, and what they need, of a step and of the way back.

    rounds: of a step, those that are made again on the way back, those that go back, and those of the products of vectors that
    the cotangent of J is the sum of; factors: how many matrices a step and the way back factor; differentiated: the rounds of
    both before which derivatives of the field are made, -1 for none; drift: whether the derivative by the time is read, and
    whether its cotangent goes back; sums: the weights of those of a step, and of the way back.
    """

    lines: tuple[tuple[str, tuple[str, ...]], ...]
    forward: Needs
    backward: Needs
    rounds: tuple[Rounds, Rounds, Rounds, Rounds]
    factors: tuple[int, int]
    differentiated: tuple[int, int]
    drift: tuple[bool, bool]
    sums: tuple[tuple[float, ...], tuple[float, ...]]

    @property
    def evaluations(self) -> int:
        """Count the calls of the field that the way back repeats."""
        return sum(each.kind == OF_FIELD for each in self.rounds[1])

    @property
    def pairs(self) -> int:
        """Count the derivatives along vectors that it goes back through."""
        return len(self.rounds[3])

    @property
    def row(self) -> int:
        """Count the numbers that each round has in the table."""
        return 4 + max(len(each.numbers) for rounds in self.rounds for each in rounds)

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
            **dict(zip(("ROUNDS", "REPLAYED", "PULLED", "PAIRS"), map(len, self.rounds), strict=True)),
            "ROW": self.row,
            **dict(zip(("FACTORS", "FACTORS_BACK"), self.factors, strict=True)),
            **dict(zip(("DIFFERENTIATED", "DIFFERENTIATED_BACK"), self.differentiated, strict=True)),
            **dict(zip(("READS_DRIFT", "GIVES_DRIFT"), map(int, self.drift), strict=True)),
            "SUMS": (behind := self.row * (1 + sum(map(len, self.rounds)))),
            "SUMS_BACK": behind + len(self.sums[0]),
            "EVALUATIONS": self.evaluations,
        }

    def table(self, nodes: Sequence[float]) -> list[float]:
        """For each round its kind, where in the step it calls the field, its place, its branch and the numbers of that; a first
        step is guessed by a call at the end of one, behind the rounds of a step. Then the weights of sums."""
        step, *others = self.rounds
        table = list[float]()
        for each in (*step, None, *(each for rounds in others for each in rounds)):
            at = AttemptRound(OF_FIELD) if each is None else each
            row = [at.kind, 1.0 if each is None else nodes[at.call], at.place, at.branch, *at.numbers]
            table += [*row, *[0.0] * (self.row - len(row))]
        return [*table, *self.sums[0], *self.sums[1]]


def attempt_text(values: ProgramValues) -> AttemptText:
    """Write an attempt and its way back, of the values of an `AttemptModule` with gradients to all slopes."""
    if values.sums:
        raise UnknownOperation("its method learns, and gradients to a method's own tensors have no kernel")
    calls = AttemptCalls(values)
    step = _StepRounds(calls)
    back = _BackRounds(calls, step.reads_drift)
    return AttemptText(
        tuple((word, tuple(lines)) for word, lines in (step.text | back.text).items()),
        step.needs,
        back.needs,
        (step.rounds, back.again, back.rounds, back.pairs),
        (len(step.factors), len(back.factors)),
        (step.differentiated, back.differentiated),
        (step.reads_drift, back.gives_drift),
        (tuple(step.weights), tuple(back.weights)),
    )


class _Branches:
    """Writes lines for branches of one kernel, each by a pass of its own.

    results: of rounds, which buffer they lie in and where; names: of values that have one; shared: of pieces that are named
    before the loop; fewest: terms of a sum that is a loop; factors: matrices a + b J, in the order they are made in; weights: of
    sums, behind `table + sums`.
    """

    sums: ClassVar[str]
    fewest = 1

    def __init__(self, calls: AttemptCalls) -> None:
        pool, self.calls, self.width = calls.pool, calls, calls.width
        self.last, self.scratch = Pass({}, out=Lines(made=FIRST_NAME, program=METHOD)), 0
        self.last.out.columns_of(self.width)
        self.results, self.weights = dict[Value, tuple[str, int]](), list[float]()
        self.names = {pool.given("h", self.width): "h", pool.given("dt", 1): "length_of_step"}
        self.factors, self.shared = list[Value](), dict[tuple[Value, int, int], str]()

    @property
    def needs(self) -> Needs:
        return replace(self.last.needs, scratch=self.scratch)

    def head(self, word: str) -> dict[str, list[str]]:
        """Return the lines before the loop, and the weights that are read."""
        out = self.last.out
        columns = [f"c{n}, r{n} = tl.arange(0, {n})[None, :], tl.arange(0, {n})[:, None]" for n in out.columns if n > 1]
        read = [*(f"vector_{k}, " for k in out.vectors), *(f"matrix_{k}, " for k in out.matrices)]
        return {word: [*columns, *out.before], f"{word}_WEIGHTS": ["".join(read).rstrip()] if read else []}

    def lines(self, name: str, value: Value) -> list[str]:
        """Give a name a value."""
        self._begin()
        self._sum_up(value)
        whole = self.last.piece(value, 0, self.width)
        self.last.out.step.append(f"{name} = tl.broadcast_to({whole}, [ROWS, {padded(self.width)}])")
        return [NUMBER.sub(lambda number: _constant(number[1]), line) for line in self._ended()]

    def stores(self, values: Mapping[str, Value], factored: Value | None = None) -> list[str]:
        """Store values, by places; factored: a matrix that is made before."""
        self._begin()
        if factored is not None and factored not in self.factors:
            a, b = (self.last.piece(part) for part in factored.of)
            self.last.out.step += factoring(len(self.factors), self.width, a, b)
            self.factors.append(factored)
        for place, value in values.items():
            self._sum_up(value)
            self.last.out.store(self.last.piece(value, 0, self.width), place, self.width)
        return self._ended()

    def _begin(self) -> None:
        carried = dict[Value, dict[tuple[int, int], str] | None]()
        carried |= {value: {(0, value.width): name} for value, name in self.names.items()}
        numbers = (value for value in self.calls.pool.made.values() if value.operation == "number")
        carried |= {value: {(0, 1): f"{{={value.settings[0]!r}}}"} for value in numbers}
        lie = {value: f"{at} + {{{place * self.width}}}" for value, (at, place) in self.results.items()}
        lie[self.calls.pool.given("drift", self.width)] = "at_drift"
        self.last = Pass(lie, out=replace(self.last.out, step=[], unread=False), carried=carried, names=dict(self.shared))

    def _ended(self) -> list[str]:
        self.scratch = max(self.scratch, self.last.scratch)
        self.shared |= {piece: name for piece, name in self.last.names.items() if piece[0].operation in ("count", "shared")}
        return [line.replace("at_scratch", "at_method") for line in self.last.out.step]

    def _sum_up(self, value: Value) -> None:
        """Give names to the sums of results by weights that a value is made of."""
        waiting = [value]
        while waiting:
            each = waiting.pop()
            if each not in self.last.carried and each not in self.results:
                terms = self._terms(each) if each.operation in ("add", "mul") else []
                if len(terms) >= self.fewest and len({(at, steps) for at, _, _, steps in terms}) == 1:
                    self.last.carried[each] = {(0, self.width): self._summed(terms)}
                else:
                    waiting += each.of

    def _summed(self, terms: Sequence[Term]) -> str:
        """The name of a sum of results, whose places are one as far from the other as they allow."""
        (at, _, _, steps), weights = terms[0], dict[int, float]()
        for _, place, weight, _ in terms:
            weights[place] = weights.get(place, 0.0) + weight
        first, last = min(weights), max(weights)
        apart = gcd(*(place - first for place in weights)) or 1
        columns, mask = self.last.out.columns_of(self.width)
        # As wide as what is loaded, where every column of a tile is a unit.
        mask = f"{mask} & ({columns.removeprefix(' + ')} < {self.width})" if mask == "inside" and columns else mask
        row, count = f"table + {self.sums} + {{{len(self.weights)}}}", (last - first) // apart + 1
        self.weights += [weights.get(place, 0.0) for place in range(first, last + 1, apart)]
        found = f"weighted({row}, {{{count}}}, {at} + {{{first * self.width}}}{columns}, {{{apart * self.width}}}, {mask})"
        return self.last.out.named("length_of_step * " * steps + found)

    def _terms(self, value: Value, times: float = 1.0, steps: int = 0) -> list[Term]:
        """Results, their weights, and how often they are multiplied by dt, of which a value is the sum; none for others."""
        if value in self.results:
            return [(*self.results[value], times, steps)]
        if value.operation == "add":
            sides = [self._terms(each, times, steps) for each in value.of]
            return [term for side in sides for term in side] if all(sides) else []
        if value.operation == "mul":
            for factor, other in (value.of, value.of[::-1]):
                if factor.operation in ("number", "dt"):
                    by = factor.settings[0] if factor.operation == "number" else 1.0
                    return self._terms(other, times * by, steps + (factor.operation == "dt"))
        return []

    def branches(self, to: str, made: Sequence[Value | None], of_calls: str | None = None) -> Iterator[list[str]]:
        """Lines that store what each round is made of, calls elsewhere; and the cotangent of a drift that it is a part of."""
        for value in made:
            if value is None:
                yield ["pass"]
                continue
            factored, right = value.of if value.operation == "jacobian_solve" else (None, value.of[0])
            stored = {of_calls if of_calls and value.operation == "call" else to: right}
            if value.operation == "pullback" and len(value.of) == 3:
                stored["at_of_drift"] = value.of[2]
            yield self.stores(stored, factored)

    def rounds_of(self, made: Iterable[Value | None], evaluations: Sequence[int], led: Sequence[Led]) -> Rounds:
        """What rounds do; evaluations: the numbers of the calls that are made again."""
        rounds = list[AttemptRound]()
        for value, by in zip(made, led, strict=True):
            if value is None:
                rounds.append(AttemptRound(NOTHING, START, 0, *by))
            elif value.operation in ("call", "pullback"):
                number = value.settings[0]
                rounds.append(AttemptRound(OF_FIELD, number, evaluations.index(number), *by))
            else:
                place = self.factors.index(value.of[0]) if value.operation == "jacobian_solve" else 0
                rounds.append(AttemptRound(_kind(value), START, place, *by))
        return tuple(rounds)


class _StepRounds(_Branches):
    """List the rounds of a step."""

    sums = "SUMS"

    def __init__(self, calls: AttemptCalls) -> None:
        super().__init__(calls)
        end, error = (calls.answer(calls.count + k) for k in (0, 1))
        order = list(ancestors([*map(calls.slope, range(calls.count)), end, error]))
        self.reads_drift: bool = any(value.operation == "drift" for value in order)
        made, self.differentiated = _reading([each for each in order if each.operation == "call" or _kind(each)], [end, error])
        self.results = _places(made, "at_slopes")
        states, led = _choice(self.branches("at_y", made))
        self.text: dict[str, list[str]] = {"$STATES": states}
        last = made[-1]
        is_last = calls.count > 1 and last is not None and last.operation == "call" and last.of[0] is end
        columns, mask = self.last.out.columns_of(self.width)
        self.text["$END"] = [f"y = tl.load(at_y{columns}, mask={mask}, other=0.0)"] if is_last else self.lines("y", end)
        self.text["$ERROR"] = ["length_of_step = dt.to(REAL)", *self.lines("error", error)]
        self.text["$OPERATIONS"] = _operations(made, "at_y", self.width)
        self.text |= self.head("$FORWARD")
        self.rounds: Rounds = self.rounds_of(made, range(calls.count), led)


class _BackRounds(_Branches):
    """List the rounds that are made again, and those that go back."""

    sums = "SUMS_BACK"

    def __init__(self, calls: AttemptCalls, reads_drift: bool) -> None:
        super().__init__(calls)
        to_start = calls.to_start
        order = list(ancestors([to_start]))
        numbers = {value.settings[0] for value in order if value.operation == "call"} | ({START} if reads_drift else set())
        again, back, differentiated = self._made(to_start, sorted(numbers))
        self.differentiated: int = differentiated
        ends = {value.operation: value for value in order}
        of_jacobian, of_drift = ends.get("pull_jacobian"), ends.get("pull_drift")
        self.results = _places(again, "at_slopes") | _places([*back, calls.pool.given("cotangent", self.width)], "at_of_ys")
        self.names |= {value: name for value, name in ((of_jacobian, "of_jacobian"), (of_drift, "of_time")) if value is not None}
        sides, right = () if of_jacobian is None else of_jacobian.of, f"at_kept + {self.width}"
        self.gives_drift: bool = of_drift is not None
        states, led_again = _choice(self.branches("at_y", again, "at_kept"))
        self.fewest = 2
        cotangents, led_back = _choice(self.branches("at_q", back))
        pairs, led = _choice(self.stores({"at_q": sides[k], right: sides[k + 1]}) for k in range(0, len(sides), 2))
        self.text: dict[str, list[str]] = {
            "$STATES_BACK": states,
            "$COTANGENTS": cotangents,
            "$SIDES": pairs,
            "$START": self.lines("of_start", to_start),
            "$OPERATIONS_AGAIN": _operations(again, "at_y", self.width),
            "$OPERATIONS_BACK": _operations(back, "at_q", self.width),
        }
        self.text |= self.head("$BACKWARD")
        self.again: Rounds = self.rounds_of(again, sorted(numbers), led_again)
        self.rounds: Rounds = self.rounds_of(back, sorted(numbers), led_back)
        self.pairs: Rounds = tuple(AttemptRound(OF_FIELD, START, 0, *by) for by in led)

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
    """Return which operation with J a value is of, 0 for others."""
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


def _places(made: Sequence[Value | None], at: str) -> dict[Value, tuple[str, int]]:
    return {value: (at, k) for k, value in enumerate(made) if value is not None}


def _choice(branches: Iterable[list[str]]) -> tuple[list[str], list[Led]]:
    """Branches of which each round takes one, those that differ in numbers alone once; and which it takes, with what numbers."""
    alike = dict[tuple[str, ...], list[tuple[int, list[str]]]]()
    for number, branch in enumerate(branches):
        text = "\n".join(branch)
        for k, name in enumerate(dict.fromkeys(MADE.findall(text))):
            text = re.sub(rf"\b{name}\b", f"w{k}", text)
        alike.setdefault(tuple(NUMBER.sub("{}", text).splitlines()), []).append((number, NUMBER.findall(text)))
    lines, led = ["branch = tl.load(at_round + 3)"] if alike else [], dict[int, Led]()
    for place, (template, rounds) in enumerate(alike.items()):
        columns = [*zip(*(numbers for _, numbers in rounds), strict=True)]
        read = [*dict.fromkeys(column for column in columns if len({*column}) > 1)]
        kinds = ["REAL" if column[0].startswith("=") else "tl.int32" for column in read]
        lines += [f"if branch == {place}.0:", *(f"    n{k} = tl.load(at_round + {4 + k}).to({of})" for k, of in enumerate(kinds))]
        words = [f"n{read.index(column)}" if column in read else _constant(column[0]) for column in columns]
        lines += [f"    {line}" for line in "\n".join(template).format(*words).splitlines()]
        led |= {n: (place, tuple(float(column[k].lstrip("=")) for column in read)) for k, (n, _) in enumerate(rounds)}
    return lines, [led[number] for number in sorted(led)]


def _constant(number: str) -> str:
    return f"tl.full([1, 1], {written_number(float(number[1:]))}, REAL)" if number.startswith("=") else number


def _operations(made: Iterable[Value | None], read: str, width: int) -> list[str]:
    """Those of rounds that are made, of a vector that lies at `read`; each once."""
    kinds = {(_kind(value), value.operation, value.settings[0]) for value in made if value is not None and _kind(value)}
    lines = list[str]()
    for kind, operation, turned in sorted(kinds):
        branch = ["tl.debug_barrier()", *OPERATIONS[operation](read, width, turned)]
        lines += [f"if kind == {kind}.0:", *(f"    {line}" for line in branch)]
    return lines
