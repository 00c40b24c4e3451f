r"""Finds the units of expressions, and what must agree for them to have one: terms of a sum, both sides, arguments.

A unit is a product of powers of base units, as pint has them: nF mV/ms and uS mV are nA. Those of one kind that differ by a
factor, ms and s, are neither equal nor unequal: nothing is converted. A radian is 1. What has a letter of which no unit is said
has an unknown one, which agrees with all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

from sympy import Abs, Derivative, Dummy, Expr, Integral, Limit, Max, Mul, Number, NumberSymbol, Pow, Rational, Subs, Sum, Symbol
from sympy.core.function import AppliedUndef

from derivations.papers.names import GREEK

__all__ = ["NO_UNIT", "Compared", "Unit", "Units", "unit_of"]

ONE = Rational(1)
# What is counted is no unit of pint's, or one that equals another.
COUNTED = ("spike", "sample", "step", "nat", "bit", "px")
# What pint reads as units: English words, letters and constants, and acidity, as picohenry.
NOT_UNITS = {*GREEK, "in", "a", "and", "or", "is", "of", "at", "to", "c", "e", "k", "R", "hbar", "pH"}


@dataclass(frozen=True)
class Unit:
    """A unit: the powers of base units, their factor, and how it was written."""

    powers: tuple[tuple[str, Rational], ...] = ()
    factor: Any = ONE
    words: tuple[tuple[str, Rational], ...] = ()

    def __str__(self) -> str:
        """Write it as a reader would: 1/ms."""
        above = [f"{word}^{power}" if power != 1 else word for word, power in self.words if power > 0]
        below = [f"{word}^{-power}" if power != -1 else word for word, power in self.words if power < 0]
        return "/".join([" ".join(above) or "1", *below])

    def same(self, other: Unit) -> bool:
        return (self.powers, self.factor) == (other.powers, other.factor)

    def times(self, other: Unit) -> Unit:
        return Unit(_added(self.powers, other.powers), self.factor * other.factor, _added(self.words, other.words))

    def to_the(self, power: Rational) -> Unit:
        powers, words = (tuple((word, k * power) for word, k in part if power) for part in (self.powers, self.words))
        return Unit(powers, self.factor**power, words)


Compared: TypeAlias = tuple[str, Unit, str, Unit]
NO_UNIT = Unit()


def _added(*parts: tuple[tuple[str, Rational], ...]) -> tuple[tuple[str, Rational], ...]:
    powers: dict[str, Rational] = {}
    for word, power in (pair for part in parts for pair in part):
        powers[word] = powers.get(word, Rational(0)) + power
    return tuple((word, power) for word, power in sorted(powers.items()) if power)


@cache
def _registry() -> Any:
    from pint import UnitRegistry  # noqa: PLC0415 - half a second

    registry: Any = UnitRegistry(non_int_type=Fraction)
    for word in COUNTED:
        registry.define(f"counted_{word} = [counted_{word}]")
    registry.define("@alias ohm = Ohm")
    return registry


@cache
def _word(word: str) -> Unit:
    """Read one word. Raises: ValueError for one that pint does not know."""
    registry, one = _registry(), ((word, Rational(1)),)
    singular = word.removesuffix("s") if word.removesuffix("s") in COUNTED else word
    try:
        if word in NOT_UNITS:
            raise ValueError
        name = f"counted_{singular}" if singular in COUNTED else word
        unit, none = (registry.Quantity(Fraction(count), name).to_base_units() for count in (1, 0))
        if none.magnitude:  # degrees Celsius, whose 0 is none
            raise ValueError
        factor = Fraction(unit.magnitude)
        powers = tuple(sorted((base, Rational(str(Fraction(power)))) for base, power in unit.unit_items() if base != "radian"))
    except Exception:  # of many kinds
        raise ValueError(f"{word!r} is no word and no unit that is read; a unit is written as ms, 1/ms, mV/ms or ms^-1") from None
    return Unit(powers, Rational(factor.numerator, factor.denominator), one)


def unit_of(words: str) -> Unit:
    r"""Read a unit: ms, 1/ms, mV/ms, ms^-1, mV*ms, nF mV/ms, or 1 for none.

    Raises:  ValueError for what is no unit, and for one with a word behind a / that may be above or below the line, J/kg K.
    """
    unit, below = NO_UNIT, False
    parts = re.split(r"\s*([*/])\s*|\s+", words.strip())  # words, and what stands between them, None for a space
    for sign, word in zip(["*", *parts[1::2]], parts[::2], strict=True):
        factor = re.fullmatch(r"([A-Za-z]+)(?:\^(-?\d+))?|1", word)
        if factor is None:
            raise ValueError(f"{words!r} is no word and no unit that is read; a unit is written as ms, 1/ms, mV/ms or ms^-1")
        below |= sign == "/"
        if below and sign != "/":
            raise ValueError(f"is {word!r} of the unit {words!r} above or below the line? write it first, or / before it")
        if factor[1]:
            unit = unit.times(_word(factor[1]).to_the(Rational((-1 if below else 1) * int(factor[2] or 1))))
    return unit


class Units:
    """Finds units by those of letters, and the arguments of functions; notes what must be equal: (words, unit, words, unit)."""

    def __init__(self, of_letter: Callable[[str], Unit | None], arguments: Callable[[str], Sequence[str]]) -> None:
        self._of_letter, self._arguments = of_letter, arguments
        self.compared: list[Compared] = []
        self._bound: dict[Expr, Unit | None] = {}  # letters of integrals and sums, which are others than those declared

    def of(self, e: Expr) -> Unit | None:
        """Return the unit of an expression; None where it is not known, or 0, which has all."""
        if isinstance(e, Symbol | Number | NumberSymbol):
            by_name = self._of_letter(e.name) if isinstance(e, Symbol) else None if e == 0 else NO_UNIT
            return self._bound.get(e, by_name)
        if e.is_Add or isinstance(e, Max):
            return self.same(*e.args)
        if isinstance(e, Mul):
            return _product([self.of(factor) for factor in e.args])
        if isinstance(e, Pow):
            return self._of_power(*e.args)
        if isinstance(e, Integral | Derivative | Sum | Limit):
            return self._of_bound(e)
        return self._of_function(e)

    def _of_function(self, e: Expr) -> Unit | None:
        units = [(argument, self.of(argument)) for argument in (e.args[:1] if isinstance(e, Subs) else e.args)]
        if isinstance(e, AppliedUndef):
            for (argument, unit), letter in zip(units, self._arguments(e.func.__name__), strict=False):
                wanted = self._of_letter(letter)
                if wanted is not None and argument.free_symbols and str(argument) != letter:
                    self._note(argument, unit, letter, wanted)
            return self._of_letter(e.func.__name__)
        if isinstance(e, Abs | Subs):
            return units[0][1]
        for argument, unit in units:
            self._note(argument, unit, "the argument of a function", NO_UNIT)
        return NO_UNIT

    def same(self, *terms: Expr) -> Unit | None:
        """Note that terms must have one unit, and return it."""
        known = [(term, unit) for term in terms if (unit := self.of(term)) is not None]
        for term, unit in known[1:]:
            self._note(term, unit, _words(known[0][0]), known[0][1])
        return known[0][1] if known else None

    def _of_power(self, base: Expr, exponent: Expr) -> Unit | None:
        self._note(exponent, self.of(exponent), "an exponent", NO_UNIT)
        unit = self.of(base)
        power = exponent.doit()
        if unit is None or isinstance(power, Rational):
            return None if unit is None else unit.to_the(power)
        self._note(base, unit, "what is raised to a power that is a letter", NO_UNIT)
        return NO_UNIT

    def _of_bound(self, e: Expr) -> Unit | None:
        if isinstance(e, Integral):
            letter, *ends = e.limits[0]
            self._bound[letter] = self.same(*(end for end in ends if end.free_symbols)) or self._of_letter(letter.name)
            by = self.same(letter, *(end for end in ends if end.is_finite is not False))
            return _product([self.of(e.args[0]), by])
        if isinstance(e, Sum):
            self._bound[e.limits[0][0]] = None
        body = self.of(e.args[0])
        return _product([body, *self._of_variables(e)]) if isinstance(e, Derivative) else body

    def _of_variables(self, e: Derivative) -> Iterator[Unit | None]:
        for letter, count in e.variable_count:
            unit = self.of(letter)
            yield None if unit is None else unit.to_the(-count)

    def _note(self, term: Expr, unit: Unit | None, other: str, wanted: Unit) -> None:
        if unit is not None:
            self.compared.append((_words(term), unit, other, wanted))


def _product(units: Sequence[Unit | None]) -> Unit | None:
    found = NO_UNIT
    for unit in units:
        if unit is None:
            return None
        found = found.times(unit)
    return found


def _words(e: Expr) -> str:
    """Write an expression; the derivative of a function at a place as h'(0)."""
    there = {
        s: Symbol(f"{s.expr.expr.func.__name__}{chr(39) * int(s.expr.derivative_count)}({s.point[0]})") for s in e.atoms(Subs)
    }
    return str(e.xreplace({**there, **{u: Symbol(u.name) for u in e.atoms(Dummy)}}))
