r"""What must be true for an expression c(t) to be a clock: differentiable for t > 0, and increasing.

    differentiable   made of polynomials and entire functions; of logarithms, roots and quotients where what they are taken
                     of is proved positive, or not zero
    increasing       c' >= 0, and 0 at single moments only: where c is analytic, wherever c' is not 0 throughout

Each part is proved, or refuted at a moment, or left as a condition.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sympy import (
    Basic,
    Derivative,
    Dummy,
    Expr,
    GreaterThan,
    Ne,
    Rational,
    S,
    StrictGreaterThan,
    Subs,
    Symbol,
    asinh,
    atan,
    cos,
    cosh,
    erf,
    exp,
    lambdify,
    log,
    oo,
    sin,
    sinh,
    tanh,
)
from sympy.core.function import AppliedUndef

from derivations.prover.inequalities import Less

__all__ = ["clock_conditions"]

SMOOTH = (exp, sin, cos, tanh, sinh, cosh, atan, asinh, erf)
# Numbers a hint is looked for at; what is found there is then proved.
MOMENTS = np.concatenate([np.linspace(0, 50, 20011)[1:], np.geomspace(1e-6, 1e9, 6007)])
EDGE = Rational(1001, 1000)


def clock_conditions(c: Expr, t: Symbol) -> tuple[Basic, ...]:
    r"""The conditions under which c is a clock for t > 0, as relations; empty where it is proved to be one.

    Raises:  TypeError for what is no expression; ValueError for what is proved to be none, or has corners.
    Source:  Tallec and Ollivier 2018, sec. 1: "any increasing differentiable function".
    """
    if not isinstance(c, Expr):
        raise TypeError(f"`c` must be a SymPy expression in {t}, got {type(c).__name__}; for instance alpha * t.")
    if t not in c.free_symbols:
        raise ValueError(f"`c` = {c} does not depend on {t}: a clock must run.")
    moment = Dummy(t.name, positive=True)
    reading = c.xreplace({t: moment})
    if any(e.is_extended_real is False for e in (c, c.diff(t), reading, reading.diff(moment))):
        raise ValueError(f"`c` = {c} is not real.")
    try:
        conditions, speed = [*_differentiable(reading, moment)], reading.diff(moment)
        # A speed that may not be defined everywhere is not worth a proof of its sign.
        conditions += [_runs(speed, moment)] if conditions else _increasing(speed, moment)
    except _NoClock as found:
        raise ValueError(f"`c` = {c} {str(found).replace(str(moment), str(t))}") from None
    return tuple(dict.fromkeys(condition.xreplace({moment: t}) for condition in conditions))


class _NoClock(ValueError):  # noqa: N818 - said of the expression
    """Why an expression is no clock."""


def _differentiable(e: Expr, t: Symbol) -> Iterator[Basic]:
    """Conditions for a derivative at every t > 0; all that passes is analytic there but for functions without a rule."""
    if t not in e.free_symbols or isinstance(e, Symbol | Derivative | Subs):
        return
    if e.is_Pow and not (e.exp.is_Integer and e.exp.is_positive):
        yield from _not_zero(e.base, t) if e.exp.is_Integer else _positive(e.base, t)
    elif isinstance(e, log):
        yield from _positive(e.args[0], t)
    elif not (e.is_Add or e.is_Mul or e.is_Pow or isinstance(e, (*SMOOTH, AppliedUndef))):
        raise _NoClock(f"has corners, or may have them, in {e}; change time on each smooth piece by itself.")
    for part in e.args:
        yield from _differentiable(part, t)


def _positive(e: Expr, t: Symbol) -> Iterator[Basic]:
    verdict = Less(S.Zero, e, strict=True, region={t: (0, oo)}).decide()
    if verdict.holds is False and _is_known(e, t):
        raise _NoClock(f"is not real, or has no derivative, at {t} = {_moment(verdict.counterexample, t)}, where {e} <= 0.")
    yield from verdict.defined_on
    if not verdict.holds and not _waves_hold(e, t, strict=True):
        yield StrictGreaterThan(e, 0, evaluate=False)


def _not_zero(e: Expr, t: Symbol) -> Iterator[Basic]:
    signs = [Less(*sides, strict=True, region={t: (0, oo)}).decide() for sides in ((S.Zero, e), (e, S.Zero))]
    yield from (condition for sign in signs for condition in sign.defined_on)
    if all(sign.holds is False for sign in signs) and _is_known(e, t):
        raise _NoClock(f"has a pole where {e} = 0, or jumps: it takes both signs.")
    if not any(signs) and not any(_waves_hold(s * e, t, strict=True) for s in (1, -1)):
        yield Ne(e, 0, evaluate=False)


def _increasing(speed: Expr, t: Symbol) -> Iterator[Basic]:
    """Nothing where the speed is proved to be >= 0 and not 0 throughout; else the condition."""
    region = {t: (S.Zero, oo)}
    runs = Less(S.Zero, speed, strict=True, region=region).decide()
    yield from runs.defined_on
    if runs or _waves_hold(speed, t, strict=True):
        return
    stands = Less(speed, S.Zero, region=region).decide()
    if stands or _waves_hold(-speed, t, strict=False):
        raise _NoClock(f"does not increase: its speed is {speed}.")
    if _is_known(speed, t):
        if (moment := _backwards(speed, t)) is not None:
            value = speed.xreplace({t: moment}).evalf(6)
            raise _NoClock(f"runs backwards: its speed at {t} = {moment} is {value}.")
        never = Less(S.Zero, speed, region=region).decide() or _waves_hold(speed, t, strict=False)
        if never and stands.holds is False:  # it moves at one moment, and an analytic speed is then 0 at single ones only
            return
    yield _runs(speed, t)


def _runs(speed: Expr, t: Symbol) -> Basic:
    """The condition on a speed: it may be 0 at single moments if it varies."""
    return (GreaterThan if t in speed.free_symbols else StrictGreaterThan)(speed, 0, evaluate=False)


def _waves_hold(e: Expr, t: Symbol, strict: bool) -> bool:
    """Whether e > 0, or >= 0, with any numbers between -1 and 1, ends included, in place of sines and cosines."""
    waves = {wave: Dummy("wave", real=True) for wave in e.atoms(sin, cos) if wave.args[0].is_extended_real}
    bare = e.xreplace(waves)
    used = [u for u in waves.values() if u in bare.free_symbols]
    if not used or not bare.is_polynomial(*used):
        return False
    # Strictly: on a little more. Else on the open interval, and at its ends by continuity.
    edge = EDGE if strict else S.One
    return bool(Less(S.Zero, bare, strict=strict, region={t: (0, oo), **dict.fromkeys(used, (-edge, edge))}).decide())


def _is_known(e: Expr, t: Symbol) -> bool:
    """Whether it is a number at each moment."""
    return e.free_symbols <= {t} and not e.atoms(AppliedUndef)


def _backwards(speed: Expr, t: Symbol) -> Expr | None:
    """A moment at which the speed is proved to be negative, if one is found."""
    verdict = Less(S.Zero, speed, region={t: (0, oo)}).decide()
    if verdict.holds is False:
        return _moment(verdict.counterexample, t)
    with np.errstate(all="ignore"):
        speeds = np.broadcast_to(lambdify(t, speed, ["scipy", "numpy"])(MOMENTS), MOMENTS.shape)
    real = np.where(np.isreal(speeds) & np.isfinite(speeds), np.real(speeds), np.inf)
    for place in ((real < 0).argmax(), real.argmin()):
        moment = Rational(*float(MOMENTS[place]).as_integer_ratio()).limit_denominator(10**6)
        if moment > 0 and Less(S.Zero, speed.xreplace({t: moment})).decide().holds is False:
            return moment
    return None


def _moment(numbers: object, t: Symbol) -> Expr:
    assert isinstance(numbers, dict)
    return numbers.get(t, S.One)
