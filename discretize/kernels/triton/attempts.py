r"""Write a method's attempt in Triton: what leads to each of its calls of a field, to the end of a step, and back through them.

The loop over calls is the driver's (adaptive.py), with one text of the field, whichever it is; what is written here stands in its
branches. Slopes, and on the way back cotangents of states, lie in memory, one after the other.

    forwards     y of call 1, 2, ...; then y at the end of the step, where that is not the last call's, and the error
    backwards    y of each call that is made again; q, the cotangent of a slope, from the last one to the first; and that of h
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from discretize.kernels.record.calls import AttemptCalls
from discretize.kernels.record.phases import ProgramValues
from discretize.kernels.record.recording import UnknownOperation
from discretize.kernels.record.values import Value, ancestors
from discretize.kernels.triton.lines import Lines, Needs, padded
from discretize.kernels.triton.passes import Pass

__all__ = ["METHOD", "AttemptText", "attempt_text"]

FIRST_NAME = 1 << 20  # behind the names that the field's lines make
METHOD = 1  # the number of its program: the field's is 0


@dataclass(frozen=True)
class AttemptText:
    """Lines of a method by the words of adaptive.py that they stand for, and what they need, of a step and of the way back.

    count: of slopes; back: which of them are computed again on the way back; pulled: those that it goes back through.
    """

    lines: tuple[tuple[str, tuple[str, ...]], ...]
    forward: Needs
    backward: Needs
    count: int
    back: tuple[int, ...]
    pulled: tuple[int, ...]

    @property
    def pulled_places(self) -> list[int]:
        """Where these are among the calls of the way back, the last one first."""
        return [self.back.index(number) for number in reversed(self.pulled)]


def attempt_text(values: ProgramValues) -> AttemptText:
    """Write an attempt and its way back, of the values of an `AttemptModule` with gradients to all slopes."""
    if values.sums:
        raise UnknownOperation("its method learns, and gradients to a method's own tensors have no kernel")
    calls = AttemptCalls(values)
    forward = _Branches(calls, {number: number for number in range(calls.count)})
    end = calls.answer(calls.count)
    lines = {"$STATES": forward.choice("y", {number: calls.answer(number) for number in range(1, calls.count)})}
    is_last = calls.count > 1 and end is calls.answer(calls.count - 1)
    lines["$END"] = [] if is_last else forward.lines("y", end)
    lines["$ERROR"] = ["length_of_step = dt.to(REAL)", *forward.lines("error", calls.answer(calls.count + 1))]
    to_start = calls.to_start
    order = list(ancestors([to_start]))
    pulls = {value.settings[0]: value.of[0] for value in order if value.operation == "pullback"}
    back = sorted({value.settings[0] for value in order if value.operation == "call"})
    places = {number: place for place, number in enumerate(back)}
    backward = _Branches(calls, places)
    lines["$STATES_BACK"] = backward.choice("y", {places[number]: calls.answer(number) for number in back})
    lines["$COTANGENTS"] = backward.choice("q", {places[number]: pulls[number] for number in sorted(pulls)})
    lines["$START"] = backward.lines("of_start", to_start)
    for word, last in (("$FORWARD", forward.last), ("$BACKWARD", backward.last)):
        columns = [f"c{n}, r{n} = tl.arange(0, {n})[None, :], tl.arange(0, {n})[:, None]" for n in last.out.columns if n > 1]
        lines[word] = [*columns, *last.out.before]
        read = [*(f"vector_{k}, " for k in last.out.vectors), *(f"matrix_{k}, " for k in last.out.matrices)]
        lines[f"{word}_WEIGHTS"] = ["".join(read).rstrip()] if read else []
    needs = forward.needs, backward.needs
    written = tuple((word, tuple(some)) for word, some in lines.items())
    return AttemptText(written, *needs, calls.count, tuple(back), tuple(sorted(pulls)))


class _Branches:
    """Lines for branches of one kernel, each by a pass of its own; `places`: where the slope of each call lies."""

    def __init__(self, calls: AttemptCalls, places: Mapping[int, int]) -> None:
        self.calls, self.places, self.width = calls, places, calls.width
        self.last, self.scratch = Pass({}, out=Lines(made=FIRST_NAME, program=METHOD)), 0
        self.last.out.columns_of(self.width)

    @property
    def needs(self) -> Needs:
        return replace(self.last.needs, scratch=self.scratch)

    def choice(self, name: str, values: Mapping[int, Value]) -> list[str]:
        """Give a name the value of the call at hand, if it has one."""
        lines = list[str]()
        for number, value in values.items():
            lines.append(f"{'elif' if lines else 'if'} call == {number}:")
            lines += [f"    {line}" for line in self.lines(name, value)]
        return lines

    def lines(self, name: str, value: Value) -> list[str]:
        """Give a name that value."""
        pool, lie = self.calls.pool, dict[Value, str]()
        for number, place in self.places.items():
            lie[self.calls.slope(number)] = f"at_slopes + {place * self.width}"
        for (kind, number), pulled in self.calls.parts.items():
            if kind == "pullback" and pulled.operation == kind:
                lie[pulled] = f"at_of_ys + {self.places[number] * self.width}"
        lie[pool.given("cotangent", self.width)] = f"at_of_ys + {len(self.places) * self.width}"
        here: dict[Value, dict[tuple[int, int], str] | None]
        here = {pool.given("h", self.width): {(0, self.width): "h"}, pool.given("dt", 1): {(0, 1): "length_of_step"}}
        out = replace(self.last.out, step=[], unread=False)
        self.last = Pass(lie, out=out, carried=here)
        whole = self.last.piece(value, 0, self.width)
        self.scratch = max(self.scratch, self.last.scratch)
        self.last.out.step.append(f"{name} = tl.broadcast_to({whole}, [ROWS, {padded(self.width)}])")
        return [line.replace("at_scratch", "at_method") for line in self.last.out.step]
