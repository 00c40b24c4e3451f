"""Rewrite the values of an attempt so that slopes are calls of a field, and cotangents of states come back through these."""

from __future__ import annotations

from dataclasses import dataclass, field

from discretize.kernels.record.attempt import START
from discretize.kernels.record.phases import ProgramValues
from discretize.kernels.record.recording import UnknownOperation
from discretize.kernels.record.values import Value, ValuePool, ancestors, is_zero

__all__ = ["AttemptCalls"]

LINEAR = ("add", "sub", "neg", "sum", "spread", "slice", "cat", "strided", "jacobian_product")


@dataclass
class AttemptCalls:
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
        """Return the number of slopes."""
        return self.given.following.width // self.width - 2

    def answer(self, place: int) -> Value:
        """Return the state at that place: those at which slopes are taken, then the next one and the error."""
        return self.of(self.pool.slice(self.given.following, place * self.width, self.width))

    def of(self, value: Value) -> Value:
        """Return the rewritten value."""
        for each in ancestors([value], set(self.made)):
            if each.operation == "slope":
                self.made[each] = self.slope(each.settings[0])
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
        if value.operation == "jacobian_solve":
            return nothing[1]
        return value.operation in LINEAR and all(nothing)

    def slope(self, number: int) -> Value:
        if ("call", number) not in self.parts:
            self.parts["call", number] = self.pool.make("call", [self.answer(number)], self.width, (number,))
        return self.parts["call", number]

    def _cotangent(self, first: int, width: int) -> Value:
        """Return the cotangent of a state: that of the next one is given, others come back through their slopes."""
        number, place = divmod(first, self.width)
        if place + width > self.width:
            raise UnknownOperation("the way back reads cotangents of several states at once")
        if number == self.count:
            whole = self.pool.given("cotangent", self.width)
        elif ("pullback", number) in self.parts:
            whole = self.parts["pullback", number]
        else:
            whole = self.parts["pullback", number] = self._pullback(number)
        return self.pool.slice(whole, place, width)

    def _pullback(self, number: int) -> Value:
        gradient = self.of(self.given.gradients[f"slope {number}"])
        # On a clock the derivative by the time is made of the slope at the start, too.
        drift = [] if number != START or is_zero(drift := self._of_drift()) else [drift]
        if is_zero(gradient) and not drift:
            return gradient
        return self.pool.make("pullback", [gradient, self.slope(number), *drift], self.width, (number,))

    def _of_drift(self) -> Value:
        """The cotangent of the derivative by the time."""
        given = self.given.gradients.get("drift")
        return self.pool.number(0.0) if given is None else self.of(given)

    @property
    def to_start(self) -> Value:
        """The cotangent of the state that a step begins in."""
        total, drift = self.of(self.given.gradients["h"]), self._of_drift()
        pairs = [] if (given := self.given.gradients.get("jacobian")) is None else self._pairs(given)
        if pairs:
            sides = [side for pair in pairs for side in pair]
            total = self.pool.make("add", [total, self.pool.make("pull_jacobian", sides, self.width)], self.width)
        if not is_zero(drift):
            total = self.pool.make("add", [total, self.pool.make("pull_drift", [drift], self.width)], self.width)
        return total

    def _pairs(self, of_jacobian: Value) -> list[tuple[Value, Value]]:
        """The products of two vectors whose sum is the cotangent of the Jacobian."""
        if of_jacobian.operation == "jacobian_outer":
            left, right = map(self.of, of_jacobian.of)
            return [] if left in self.nothing or is_zero(left) else [(left, right)]
        if of_jacobian.operation == "add":
            return [pair for each in of_jacobian.of for pair in self._pairs(each)]
        assert is_zero(of_jacobian), of_jacobian.operation
        return []
