r"""Write a method's attempt in C++, for source/attempt.cpp: a step of rows, and the way back through it.

Between its functions of each unit stand calls of the field, which the driver makes for all rows at once, whatever the field is.
So one library serves all fields, and what is written is as long as the method's own text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from discretize.kernels.cpp.rows import PREAMBLE, RowPass, structure
from discretize.kernels.cpp.text import CallNumbers, CppText
from discretize.kernels.record.calls import AttemptCalls
from discretize.kernels.record.functions import number
from discretize.kernels.record.phases import ProgramValues, phases
from discretize.kernels.record.recording import UnknownOperation
from discretize.kernels.record.values import CALLS, Axes, Value, ancestors

__all__ = ["attempt_written"]


@dataclass
class _AttemptPass(RowPass):
    """A pass with calls of a field, which the driver runs for all rows; `calls`: of slopes, by their numbers, those of this pass;
    `factors`: those of matrices a + b J, in the order in which they are made; `once`: values that one value alone reads."""

    calls: dict[int, int] = field(default_factory=dict)
    factors: list[Value] = field(default_factory=list)
    once: set[Value] = field(default_factory=set)
    maps: ClassVar[str] = "mapped"

    def count(self, number: int) -> str:
        self.size(number)
        return f"shared.program.size[{self.sizes.index(number)}]"

    def one(self, value: Value) -> str:
        return f"each_one(shared, {self.address(value)}, s)"

    def over(self, width: int, before: Sequence[str], body: Sequence[str]) -> list[str]:
        head = f"for (std::size_t i = s; i < {self.size(width)}; i += across) {{"
        lines = [*before, head, *(f"    {line}" for line in body), "}"]
        return ["for (std::size_t s = 0; s < across; s += LANES) {", *(f"    {line}" for line in lines), "}"]

    def axes(self, axes: Axes) -> tuple[str, str]:
        listed, count = super().axes(axes)
        return f"{listed}, {{shared.slots, 1}}", f"{count} + (shared.slots > 1)"

    def copied(self, value: Value, target: str, width: int) -> str:
        if value.width == 1 and width > 1 and value.operation != "number":
            return f"spread(shared, {self.address(value)}, {target}, {self.size(width)});"
        return super().copied(value, target, width)

    def place_arguments(self, value: Value) -> None:
        for argument, to in self._arguments(value):
            if to.startswith("calls.of_slopes") and argument not in self.once:
                continue  # on a clock the driver writes over it
            if argument.operation == "jacobian_solve" and argument not in self.placed:
                self.placed[argument] = to, False
            if argument.width == value.width:
                self.place(argument, to)

    def _arguments(self, value: Value) -> list[tuple[Value, str]]:
        """What a call is given, and where it reads it."""
        if value.operation == "call":
            return [(value.of[0], f"calls.states[{self.calls[value.settings[0]]}][m]")]
        if value.operation == "pullback":
            places = [f"calls.of_slopes[{self.calls[value.settings[0]]}][m]", "", "calls.of_drift[m]"]
            return [(argument, to) for argument, to in zip(value.of, places, strict=False) if to]
        if value.operation == "pull_drift":
            return [(value.of[0], "calls.of_drift[m]")]
        if value.operation == "pull_jacobian":
            return [(side, f"calls.{'rights' if k % 2 else 'lefts'}[{k // 2}][m]") for k, side in enumerate(value.of)]
        if value.operation == "jacobian_solve" and value.of[1] in self.once:  # solved for in its place
            return [(value.of[1], self.target(value))]
        return []

    def call(self, value: Value) -> None:
        for argument, to in self._arguments(value):
            if self.placed.get(argument, ("", False))[0] != to:
                self._by_row(self.copied(argument, to, value.width))
        if value.operation == "call":
            self._by_driver(value, "evaluate", f"{self.calls[value.settings[0]]}, rows", "slopes")
        elif value.operation == "pullback":
            self._by_driver(value, "pull", f"{self.calls[value.settings[0]]}, rows", "of_states")
        elif value.operation in ("pull_jacobian", "pull_drift"):
            self.lines.append(f"calls.{value.operation}(rows);")
            self.placed[value] = f"calls.{value.operation.replace('pull', 'from')}[m]", False
        elif value.operation == "factored":
            self._by_row(f"calls.factor({len(self.factors)}, m, {', '.join(map(self._scalar, value.of))});")
            self.factors.append(value)
        elif value.operation == "jacobian_solve":
            factored, right = value.of
            if self.placed.get(right, ("", False))[0] != self.target(value):
                self._by_row(self.copied(right, self.target(value), value.width))
            self._by_row(f"calls.solve_for({self.factors.index(factored)}, m, {self.target(value)}, {self._turned(value)});")
        else:
            source = self._row(value.of[0], value.width)
            self._by_row(f"calls.multiply(m, {source}, {self.target(value)}, {self._turned(value)});")

    def _by_driver(self, value: Value, name: str, arguments: str, result: str) -> None:
        self.lines.append(f"calls.{name}({arguments});")
        self.placed[value] = f"calls.{result}[{self.calls[value.settings[0]]}][m]", False

    def _by_row(self, line: str) -> None:
        self.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {line}")

    def _turned(self, value: Value) -> str:
        return str(value.settings[0]).lower()

    def _scalar(self, value: Value) -> str:
        """One number of row m."""
        if value.operation == "number":
            return number(value.settings[0])
        if value.operation == "count":
            return f"real({self.size(value.settings[0])})"
        return "dt[m]" if value.operation == "dt" else f"({self.address(value)})[0]"


def attempt_written(given: ProgramValues) -> CppText:
    """Write an attempt and its way back, of the values of an `AttemptModule` with gradients to all slopes."""
    if given.sums:
        raise UnknownOperation("its method learns, and gradients to a method's own tensors have no kernel")
    rewritten, sizes = AttemptCalls(given), list[int]()
    forward, following = _forward(rewritten, sizes)
    backward, calls = _backward(rewritten, sizes, forward)
    calls.following, calls.factors = following, len(forward.factors)
    for each in (forward, backward):
        each.lines.insert(0, "const std::size_t across = shared.across;")
    body = "\n".join([structure("Attempt", forward, FORWARD), structure("AttemptReturn", backward, BACKWARD), ""])
    text = "\n".join([PREAMBLE.replace("rows.h", "attempt.h"), *(["#include <cmath>\n"] if "by_lane(" in body else []), body])
    numbers = [number for product in forward.products for number in product]
    return CppText(text, sizes, [], [], products=numbers, counts=(len(forward.products),) * 2, calls=calls)


FORWARD = (
    "void run(std::size_t rows, const real* const* h, const real* dt, FieldCalls& calls, real* const* next, real* const* error)"
)
BACKWARD = (
    "void run(std::size_t rows, const real* const* h, const real* dt, FieldCalls& calls, const real* const* cotangent,\n"
    "             real* const* to_h)"
)


def _forward(rewritten: AttemptCalls, sizes: list[int]) -> tuple[_AttemptPass, int | None]:
    """The pass of a step, and the call at the state that it leads to."""
    count = rewritten.count
    start, *calls = [rewritten.slope(number) for number in range(count)]
    following, error = (rewritten.answer(count + k) for k in (0, 1))
    done = _pass(rewritten, sizes, [], range(count))
    done.placed[start] = "calls.slopes[0][m]", False
    at = next((number for number, call in enumerate(calls, 1) if call.of[0] is following), None)
    _write(done, {following: "next[m]" if at is None else f"calls.states[{at}][m]", error: "error[m]"}, calls, frozenset([start]))
    return done, at


def _backward(rewritten: AttemptCalls, sizes: list[int], forward: _AttemptPass) -> tuple[_AttemptPass, CallNumbers]:
    """The way back, and which calls it has; its products are added to those of the step."""
    to_h = rewritten.to_start
    order = list(ancestors([to_h]))
    pulled = sorted({value.settings[0] for value in order if value.operation == "pullback"})
    back = pulled + sorted({value.settings[0] for value in order if value.operation == "call"} - {*pulled})
    done = _pass(rewritten, sizes, forward.products, back)
    _write(done, {to_h: "to_h[m]"}, [], frozenset())
    pairs = sum(len(value.of) // 2 for value in order if value.operation == "pull_jacobian")
    return done, CallNumbers(None, back, len(pulled), 0, len(done.factors), pairs, "drift" in rewritten.given.gradients)


def _pass(rewritten: AttemptCalls, sizes: list[int], products: list[list[int]], calls: Iterable[int]) -> _AttemptPass:
    done = _AttemptPass(sizes, {}, products, calls={number: place for place, number in enumerate(calls)})
    done.placed[rewritten.pool.given("drift", rewritten.width)] = "calls.drift[m]", False
    return done


def _write(done: _AttemptPass, wanted: dict[Value, str], others: list[Value], known: frozenset[Value]) -> None:
    """Write what computes the wanted values, each to its place, and others."""
    goes = {value for value, to in wanted.items() if done.place(value, to)}
    order = list(ancestors([*wanted, *others], known))
    readers = Counter(part for value in order for part in value.of)
    done.once = {value for value, count in readers.items() if count == 1 and value not in wanted}
    for value in reversed(order):  # what a solve leaves behind is wanted elsewhere
        if value.operation in CALLS:
            done.place_arguments(value)
    done.write(phases([*wanted, *others], known))
    for value, to in wanted.items():
        if value not in goes and done.placed.get(value, ("", False))[0] != to:
            done.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {done.copied(value, to, value.width)}")
