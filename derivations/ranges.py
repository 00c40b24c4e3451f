r"""The set of values that an expression takes while some of its letters take all of theirs.

Each letter stands in one place, each step is a monotone function of an interval: then the set is exact, whatever the values
of all other letters. Where that does not show, there is no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from sympy import Abs, Expr, Interval, Number, S, Symbol, Union, atan, exp, log, oo, tanh
from sympy import Set as NumberSet

__all__ = ["POSITIVE", "REALS", "inside", "is_cone", "named", "values_of"]

REALS, POSITIVE, NOT_NEGATIVE = Interval(-oo, oo), Interval.open(0, oo), Interval(0, oo)
NOT_ZERO = Union(Interval.open(-oo, 0), POSITIVE)


def values_of(e: Expr, letters: Set[Symbol]) -> NumberSet | None:
    """All values of e over all values of these letters, if it is one set for any real values of the others; else None."""
    if isinstance(e, Symbol):
        return _of_letter(e) if e in letters else None
    if e.is_Add:
        return _of_sum(e, letters)
    factor, rest = e.as_coeff_Mul()
    if len(e.args) != 1 and factor == 1 and not e.is_Pow:
        return None
    argument = rest if factor != 1 else e.args[0]
    inner = values_of(argument, letters) if argument.free_symbols & letters else None
    if inner is None:
        return None
    if factor != 1:
        return _image(inner, lambda v: factor * v) if isinstance(factor, Number) else None
    return _of_power(inner, e.exp) if e.is_Pow else _of_function(e, inner)


def _of_function(e: Expr, inner: NumberSet) -> NumberSet | None:
    if isinstance(e, Abs):
        return _of_power(inner, S(2)) if inner in (REALS, NOT_ZERO) else inner if inner.is_subset(NOT_NEGATIVE) else None
    if isinstance(e, log):
        return _image(inner, lambda v: -oo if v == 0 else log(v)) if inner.is_subset(POSITIVE) else None
    return _image(inner, e.func) if isinstance(e, exp | tanh | atan) else None


def _of_letter(letter: Symbol) -> NumberSet | None:
    if letter.is_integer is not None or not letter.is_real:
        return None
    if letter.is_positive or letter.is_nonnegative:
        return POSITIVE if letter.is_positive else NOT_NEGATIVE
    if letter.is_nonpositive:
        return Interval(-oo, 0, right_open=bool(letter.is_negative))
    return REALS if letter.is_zero is None else NOT_ZERO


def _of_sum(e: Expr, letters: Set[Symbol]) -> NumberSet | None:
    total: NumberSet | None = Interval(0, 0)
    for term in e.args:
        own = (term.free_symbols & letters).difference(*(other.free_symbols for other in e.args if other != term))
        interval = Interval(term, term) if isinstance(term, Number) else values_of(term, own)
        if interval == REALS:
            return REALS
        total = None if total is None or interval is None else _plus(total, interval)
    return total


def _plus(a: NumberSet, b: NumberSet) -> NumberSet | None:
    if isinstance(a, Union) or isinstance(b, Union):
        return None
    left, right = (any(end in (-oo, oo) or end not in u for u, end in ((a, ends[0]), (b, ends[1]))) for ends in
                   ((a.inf, b.inf), (a.sup, b.sup)))  # fmt: skip
    return Interval(a.inf + b.inf, a.sup + b.sup, left, right)


def _of_power(values: NumberSet, n: Expr) -> NumberSet | None:
    if not isinstance(n, Number):
        return None
    if values in (REALS, NOT_ZERO) and n.is_Integer:
        with_zero = values == REALS and n > 0
        if n.is_even:
            return NOT_NEGATIVE if with_zero else POSITIVE
        return REALS if with_zero else NOT_ZERO
    if values.is_subset(POSITIVE) or (n > 0 and values.is_subset(NOT_NEGATIVE)):
        return _image(values, lambda v: oo if v == 0 and n < 0 else S.Zero if v == oo and n < 0 else v**n)
    return None


def _image(values: NumberSet, monotone: Callable[[Expr], Expr]) -> NumberSet:
    """The image of an interval, or of several, under a continuous monotone function."""
    if isinstance(values, Union):
        return Union(*(_image(part, monotone) for part in values.args))
    ends = [(monotone(end), end not in values) for end in (values.inf, values.sup)]
    (low, left_open), (high, right_open) = ends if ends[0][0] <= ends[1][0] else reversed(ends)
    return Interval(low, high, left_open, right_open)


def is_cone(values: NumberSet) -> bool:
    """Whether it holds the positive multiples of all its numbers."""
    return values.boundary.is_subset(Interval(0, 0))


def inside(value: Expr, values: NumberSet) -> str:
    """In words, that a value is one of these numbers; empty where every real number is."""
    if isinstance(values, Union):
        return f"{value} is not 0"
    low = "" if values.inf == -oo else f"{values.inf} {'<' if values.inf not in values else '<='} "
    high = "" if values.sup == oo else f" {'<' if values.sup not in values else '<='} {values.sup}"
    return f"{low}{value}{high}" if low or high else ""


def named(values: NumberSet) -> str:
    """Write a set of numbers as (0, 1), [0, oo), or all but 0."""
    if isinstance(values, Union):
        return "all but 0"
    left, right = "(" if values.inf not in values else "[", ")" if values.sup not in values else "]"
    return f"{left}{values.inf}, {values.sup}{right}"
