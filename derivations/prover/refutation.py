"""Numbers to 30 digits, all of them certain: they refute, and never prove.

By balls that certainly contain the number, each part of an expression computed once however often it stands there: SymPy asks
for more digits wherever some cancel, again in each part of a part, and of steps within steps it does not come to an end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy
from flint import arb, ctx, fmpq
from sympy import Basic, Expr, Float, Rational
from sympy.core.evalf import PrecisionExhausted
from sympy.core.relational import Relational

__all__ = ["NOTICEABLE", "certain_value"]

DIGITS = 30
BITS = 256
# Far above the error of 30 digits, far below any difference that means something.
NOTICEABLE = Rational(1, 10**20)


class _UncertainError(Exception):
    """A number that is not real and finite, or a case that its digits do not tell."""


def certain_value(e: Expr, point: Mapping[Expr, Expr]) -> Expr | None:
    """The expression to 30 digits, all of them certain, with rational numbers for its letters; None where it is not real and
    finite, or its digits cancel.

    Not real: the letters left the domain on which the identity is meant.
    """
    before, ctx.prec = ctx.prec, BITS
    try:
        found = _ball(e, {letter: arb(fmpq(int(value.p), int(value.q))) for letter, value in point.items()})
        certain = found.rel_accuracy_bits() > 4 * DIGITS
        return Float(found.mid().str(DIGITS, radius=False), DIGITS) if certain else None
    except _UncertainError:
        return None
    except KeyError:  # a function that has no balls here
        return _by_sympy(e.xreplace(dict(point)))
    finally:
        ctx.prec = before


def _by_sympy(number: Expr) -> Expr | None:
    if number.is_Rational:
        return number
    try:
        value = number.evalf(DIGITS, strict=True)
    except (PrecisionExhausted, NotImplementedError, ValueError):
        return None
    return value if value.is_number and value.is_real and value.is_finite else None


def _ball(e: Basic, known: dict[Basic, arb]) -> arb:
    """Raises: KeyError for what there is no rule for."""
    if e not in known:
        if isinstance(e, sympy.Piecewise):
            value = _ball(next(part for part, condition in e.args if _holds(condition, known)), known)
        elif isinstance(e, Rational):
            value = arb(fmpq(int(e.p), int(e.q)))
        elif isinstance(e, sympy.Pow) and e.exp.is_Rational:
            value = _power(_ball(e.base, known), e.exp)
        else:
            value = RULES[e.func](*(_ball(part, known) for part in e.args))
        if not value.is_finite():
            raise _UncertainError
        known[e] = value
    return known[e]


def _holds(condition: Basic, known: dict[Basic, arb]) -> bool:
    if condition in (sympy.true, sympy.false):
        return bool(condition)
    if isinstance(condition, Relational):
        a, b = (_ball(side, known) for side in (condition.lhs, condition.rhs))
        holds, fails = COMPARISONS[condition.rel_op](a, b)
        if not (holds or fails):
            raise _UncertainError
        return bool(holds)
    if isinstance(condition, sympy.And | sympy.Or):
        return (all if isinstance(condition, sympy.And) else any)(_holds(part, known) for part in condition.args)
    if isinstance(condition, sympy.Not):
        return not _holds(condition.args[0], known)
    raise KeyError(condition.func)


def _power(base: arb, exponent: Any) -> arb:
    if exponent.is_Integer:
        return base ** int(exponent)
    if base.is_zero() and exponent > 0:
        return base
    if not base > 0:
        raise _UncertainError
    return base ** arb(fmpq(int(exponent.p), int(exponent.q)))


def _sign(x: arb) -> arb:
    if x.is_zero() or x > 0 or x < 0:
        return arb(int(x > 0) - int(x < 0))
    raise _UncertainError


def _sum(*parts: arb) -> arb:
    return sum(parts, arb(0))


def _product(*parts: arb) -> arb:
    total = arb(1)
    for part in parts:
        total = total * part
    return total


def _general_power(base: arb, exponent: arb) -> arb:
    if not base > 0:
        raise _UncertainError
    return base**exponent


COMPARISONS: Mapping[str, Callable[[arb, arb], tuple[bool, bool]]] = {
    "<": lambda a, b: (a < b, a >= b),
    "<=": lambda a, b: (a <= b, a > b),
    ">": lambda a, b: (a > b, a <= b),
    ">=": lambda a, b: (a >= b, a < b),
    "==": lambda a, b: (a.is_exact() and b.is_exact() and a == b, a != b),
    "!=": lambda a, b: (a != b, a.is_exact() and b.is_exact() and a == b),
}
RULES: Mapping[Any, Callable[..., arb]] = {
    sympy.Add: _sum,
    sympy.Mul: _product,
    sympy.Pow: _general_power,
    type(sympy.pi): arb.pi,
    type(sympy.E): lambda: arb(1).exp(),
    sympy.Abs: abs,
    sympy.sign: _sign,
    sympy.Max: lambda *parts: _extreme(arb.max, parts),
    sympy.Min: lambda *parts: _extreme(arb.min, parts),
    **{getattr(sympy, name): getattr(arb, name) for name in ("exp", "log", "tanh", "sinh", "cosh", "sin", "cos", "atan", "erf")},
}


def _extreme(of_two: Callable[[arb, arb], arb], parts: tuple[arb, ...]) -> arb:
    found, *rest = parts
    for part in rest:
        found = of_two(found, part)
    return found
