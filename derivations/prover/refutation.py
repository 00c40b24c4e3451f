r"""Rational numbers for the letters of an expression at which it is not 0: they refute, and never prove.

Values of undefined functions are letters too, at one time free of one another: h(t), c'(t), h(2 t).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from sympy import Derivative, Expr, Rational, S, Subs, Symbol
from sympy.core.evalf import PrecisionExhausted
from sympy.core.function import AppliedUndef

from derivations.prover import symbols

__all__ = ["NOTICEABLE", "certain_value", "free_values", "random_rational", "refuted_at"]

DIGITS = 30
# Far above the error of 30 digits, far below any difference that means something.
NOTICEABLE = Rational(1, 10**20)


def refuted_at(
    bare: Expr, meanings: Mapping[Expr, Expr], dice: random.Random, trials: int
) -> tuple[dict[Expr, Rational], Expr] | None:
    """Numbers at which the expression is not 0, and its value there; `meanings` says what its letters stand for."""
    letters = sorted(meanings, key=lambda letter: str(meanings[letter]))
    for _ in range(trials):
        values = {letter: random_rational(letter, meanings[letter], dice) for letter in letters}
        found = {meanings[letter]: value for letter, value in values.items()}
        value = certain_value(bare.xreplace(values)) if None not in found.values() and _are_apart(found, dice) else None
        if value is not None and (abs(value) > NOTICEABLE or (value.is_Rational and value != 0)):
            return found, value
    return None


def random_rational(letter: Expr, quantity: Expr, dice: random.Random) -> Rational | None:
    """A random rational number that the letter's assumptions allow; for derivatives a positive one, as for clocks."""
    for _ in range(200):
        value = Rational(dice.randint(-12, 12), dice.choice((4, 5, 6, 7)))
        if isinstance(quantity, Derivative | Subs):
            value = abs(value) + Rational(1, 8)
        if all(getattr(value, f"is_{fact}", None) in (truth, None) for fact, truth in letter.assumptions0.items()):
            return value
    return None


def certain_value(number: Expr) -> Expr | None:
    """The number to 30 digits, all of them certain; None where it is not real and finite, or its digits cancel.

    Not real: the letters left the domain on which the identity is meant.
    """
    if number.is_Rational:
        return number
    try:
        value = number.evalf(DIGITS, strict=True)
    except (PrecisionExhausted, NotImplementedError, ValueError):
        return None
    return value if value.is_number and value.is_real and value.is_finite else None


def free_values(expression: Expr) -> Iterator[Expr]:
    """The values of undefined functions and their derivatives in an expression: h(t), c'(t), ..."""
    if _is_free(expression):
        yield expression
    else:
        for argument in expression.args:
            yield from free_values(argument)


def _is_free(e: Expr) -> bool:
    """A value of an undefined function or of its derivative, which SymPy writes as a `Subs` at times like 2 t."""
    if isinstance(e, Subs):
        return isinstance(e.expr, Derivative) and _is_free(e.expr)
    return isinstance(e.expr if isinstance(e, Derivative) else e, AppliedUndef)


def _are_apart(values: Mapping[Expr, Rational], dice: random.Random) -> bool:
    """Whether h(t) and h(t + dt) are still values at two times: at dt = 0 they could not be chosen freely.

    Places are compared as numbers, for f((x + 1)^2) and f(x^2 + 2 x + 1) are one value under two names.
    """
    trial = _Trial(dict(values), dice)
    places = [trial.place(quantity) for quantity in values if not isinstance(quantity, Symbol)]
    return None not in places and len({*places, *trial.inside}) == len(places) + len(trial.inside)


class _Trial:
    """Numbers for letters and values, drawn as they are met, also for those that stand inside of arguments only."""

    def __init__(self, numbers: dict[Expr, Expr], dice: random.Random) -> None:
        self.numbers, self.dice = numbers, dice
        self.inside: dict[tuple[object, ...], Expr] = {}

    def place(self, quantity: Expr) -> tuple[object, ...] | None:
        """Which function or derivative a value belongs to, and where it is taken; None where that is no number."""
        inner = quantity.expr if isinstance(quantity, Subs) else quantity
        applied = inner.expr if isinstance(inner, Derivative) else inner
        argument = dict(zip(quantity.variables, quantity.point, strict=True)) if isinstance(quantity, Subs) else {}
        taken_at = tuple(self._digits(a.xreplace(argument)) for a in applied.args)
        by = tuple(applied.args.index(u) if u in applied.args else u for u in inner.variables) if inner != applied else ()
        return None if None in taken_at else (applied.func, by, taken_at)

    def _digits(self, e: Expr) -> str | None:
        for quantity in dict.fromkeys(free_values(e)):
            if quantity not in self.numbers:
                place = self.place(quantity)
                if place is None:
                    return None
                if place not in self.inside:
                    self.inside[place] = random_rational(symbols.stand_in(quantity), quantity, self.dice) or S.Zero
                self.numbers[quantity] = self.inside[place]
        e = e.xreplace({quantity: self.numbers[quantity] for quantity in free_values(e)})
        for letter in sorted(e.free_symbols - set(self.numbers), key=str):
            self.numbers[letter] = random_rational(letter, letter, self.dice) or S.Zero
        value = certain_value(e.xreplace(self.numbers))
        return None if value is None else str(value.evalf(DIGITS - 10))
