r"""Write a method's attempt in C++, for source/attempt.cpp: a step of rows, and the way back through it.

Between its functions of each unit stand calls of the field, which the driver makes for all rows at once, whatever the field is.
So one library serves all fields, and what is written is as long as the method's own text.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from discretize.kernels.cpp.rows import PREAMBLE, CallNumbers, CppText, RowPass, structure
from discretize.kernels.record.phases import ProgramValues, phases
from discretize.kernels.record.recording import UnknownOperation
from discretize.kernels.record.values import Value, ValuePool, ancestors, is_zero

__all__ = ["attempt_written"]

LINEAR = ("add", "sub", "neg", "sum", "spread", "slice", "cat", "strided")


@dataclass
class _Rewritten:
    """The values of an attempt in which slopes are calls of the field at a state, and cotangents of states are pulled back."""

    given: ProgramValues
    pool: ValuePool = field(default_factory=ValuePool)
    made: dict[Value, Value] = field(default_factory=dict)
    parts: dict[tuple[str, int], Value] = field(default_factory=dict)
    nothing: set[Value] = field(default_factory=set)  # cotangents that come of slopes through which nothing goes back

    @property
    def width(self) -> int:
        return self.given.gradients["h"].width

    @property
    def count(self) -> int:
        """How many slopes there are."""
        return self.given.following.width // self.width - 2

    def answer(self, place: int) -> Value:
        """The state at that place: one of a slope, then the next one and the error."""
        return self.of(self.pool.slice(self.given.following, place * self.width, self.width))

    def of(self, value: Value) -> Value:
        """The value so rewritten."""
        for each in ancestors([value], set(self.made)):
            if each.operation == "slope":
                self.made[each] = self._slope(each.settings[0])
            elif each.operation == "slice" and each.of[0].operation == "cotangent":
                self.made[each] = self._cotangent(each.settings[0], each.width)
                self.nothing |= {each} if is_zero(self.made[each]) else set()
            elif self._is_nothing(each):
                self.made[each] = self.pool.make("spread", [self.pool.number(0.0)], each.width)
                self.nothing.add(each)
            else:
                self.made[each] = self.pool.make(each.operation, [self.made[part] for part in each.of], each.width, each.settings)
        return self.made[value]

    def _is_nothing(self, value: Value) -> bool:
        nothing = [part in self.nothing for part in value.of]
        if value.operation in ("mul", "div"):
            return nothing[0] or (nothing[1] and value.operation == "mul")
        return value.operation in LINEAR and all(nothing)

    def _slope(self, number: int) -> Value:
        if ("call", number) not in self.parts:
            self.parts["call", number] = self.pool.make("call", [self.answer(number)], self.width, (number,))
        return self.parts["call", number]

    def _cotangent(self, first: int, width: int) -> Value:
        """That of a state at which a slope is taken, of what comes of the slope; that of the next state is given."""
        number, place = divmod(first, self.width)
        if place + width > self.width:
            raise UnknownOperation("the way back reads cotangents of several states at once")
        if number == self.count:
            whole = self.pool.given("cotangent", self.width)
        elif ("pullback", number) in self.parts:
            whole = self.parts["pullback", number]
        else:
            gradient = self.of(self.given.gradients[f"slope {number}"])
            whole = (
                gradient
                if is_zero(gradient)
                else self.pool.make("pullback", [gradient, self._slope(number)], self.width, (number,))
            )
            self.parts["pullback", number] = whole
        return self.pool.slice(whole, place, width)


def attempt_written(given: ProgramValues) -> CppText:
    """Write an attempt and its way back, of the values of an `AttemptModule` with gradients to all slopes."""
    if given.sums:
        raise UnknownOperation("its method learns, and gradients to a method's own tensors have no kernel")
    rewritten, sizes = _Rewritten(given), list[int]()
    forward, following = _forward(rewritten, sizes)
    backward, back, pulled = _backward(rewritten, sizes, forward.products)
    body = "\n".join([structure("Attempt", forward, FORWARD), backward, ""])
    text = "\n".join([PREAMBLE.replace("rows.h", "attempt.h"), *(["#include <cmath>\n"] if "by_lane(" in body else []), body])
    told = [number for product in forward.products for number in product]
    calls = CallNumbers(following, back, pulled)
    return CppText(text, sizes, [], [], products=told, counts=(len(forward.products),) * 2, calls=calls)


FORWARD = (
    "void run(std::size_t rows, const real* const* h, const real* dt, FieldCalls& calls, real* const* next, real* const* error)"
)
BACKWARD = (
    "void run(std::size_t rows, const real* const* h, const real* dt, FieldCalls& calls, const real* const* cotangent,\n"
    "             real* const* to_h)"
)


def _forward(rewritten: _Rewritten, sizes: list[int]) -> tuple[RowPass, int | None]:
    """The pass of a step, and the call at the state that it leads to."""
    count = rewritten.count
    start, *calls = [rewritten._slope(number) for number in range(count)]
    following, error = (rewritten.answer(count + k) for k in (0, 1))
    done = RowPass(sizes, {}, [], calls={number: number for number in range(count)})
    done.placed[start] = "calls.slopes[0][m]", False
    at = next((number for number, call in enumerate(calls, 1) if call.of[0] is following), None)
    _write(done, {following: "next[m]" if at is None else f"calls.states[{at}][m]", error: "error[m]"}, calls, frozenset([start]))
    return done, at


def _backward(rewritten: _Rewritten, sizes: list[int], products: list[list[int]]) -> tuple[str, list[int], int]:
    """The text of the way back, which slope each of its calls gives, and how many of them are pulled back."""
    to_h = rewritten.of(rewritten.given.gradients["h"])
    order = list(ancestors([to_h]))
    pulled = sorted({value.settings[0] for value in order if value.operation == "pullback"})
    back = pulled + sorted({value.settings[0] for value in order if value.operation == "call"} - {*pulled})
    done = RowPass(sizes, {}, products, calls={number: k for k, number in enumerate(back)})
    _write(done, {to_h: "to_h[m]"}, [], frozenset())
    return structure("AttemptReturn", done, BACKWARD), back, len(pulled)


def _write(done: RowPass, wanted: dict[Value, str], others: list[Value], known: frozenset[Value]) -> None:
    """Write what computes the wanted values, each to its place, and others."""
    goes = {value for value, to in wanted.items() if done.place(value, to)}
    done.write(phases([*wanted, *others], known))
    for value, to in wanted.items():
        if value not in goes and done.placed.get(value, ("", False))[0] != to:
            done.lines.append(f"for (std::size_t m = 0; m < rows; ++m) {done.copied(value, to, value.width)}")
