r"""Readings of torch's operations on single entries: functions of expressions, which give one or a `GuardedValue`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import numpy as np
import sympy
from sympy import Abs, Basic, Eq, Expr, Max, Min, Ne, Piecewise, Rational, S, erf, exp, tanh

from derivations.tracing.guarded import (
    DOMAINS,
    Entries,
    GuardedValue,
    exact,
    guarded,
    is_truth,
    log,
    number,
    partial,
    power,
    softplus_everywhere,
)

__all__ = ["ELEMENTWISE"]

Reading = Callable[..., Expr | GuardedValue]  # of the entries, as SymPy has them

# torch's defaults: F.softplus is linear above this, F.leaky_relu has this slope below 0.
THRESHOLD, SLOPE = S(20), 0.01


def _entrywise(function: Reading) -> Callable[..., Entries]:
    """Entry by entry, with torch's broadcasting, which is numpy's."""

    def over_all(*arrays: Entries | float, **keywords: float) -> Entries:
        def one(*values: GuardedValue | float) -> GuardedValue:
            result = function(*(v.expr if isinstance(v, GuardedValue) else exact(v) for v in values), **keywords)
            result = result if isinstance(result, GuardedValue) else GuardedValue(result)
            # What is undefined stays so, times 0 or not; `where` alone leaves a case out.
            return (
                result
                if function is _where
                else GuardedValue(result.expr, result.where.union(*(v.where for v in values if isinstance(v, GuardedValue))))
            )

        if function is _where:
            return np.asarray(np.frompyfunc(_where, 3, 1)(*arrays), dtype=object)
        return np.asarray(np.frompyfunc(one, len(arrays), 1)(*arrays), dtype=object)

    return over_all


def _of_numbers(function: Reading) -> Reading:
    """A function of numbers; truth values count as 1 and 0, keywords as the rationals they are."""

    def of(*values: Basic, **keywords: float) -> Expr | GuardedValue:
        return function(*map(number, values), **{key: exact(value) for key, value in keywords.items()})

    return of


def _cases(then: Expr, condition: Basic, otherwise: Expr) -> Expr:
    return Piecewise((then, condition), (otherwise, True))


def _where(condition: GuardedValue, then: GuardedValue, otherwise: GuardedValue) -> GuardedValue:
    """By cases; but `otherwise` alone where the value that an equation singles out is the one it has there anyway."""
    condition, then, otherwise = (
        v if isinstance(v, GuardedValue) else GuardedValue(exact(v)) for v in (condition, then, otherwise)
    )
    test, a, b = _truth(condition.expr), number(then.expr), number(otherwise.expr)
    if test in (S.true, S.false):
        return GuardedValue(a if test else b, condition.where | (then if test else otherwise).where)
    needed = condition.where | guarded(test, then.where) | guarded(sympy.Not(test), otherwise.where)
    if isinstance(test, Eq):
        b = b.replace(lambda e: isinstance(e, Piecewise) and e.args[0].cond == test, lambda e: e.args[-1].expr)
        if not otherwise.where and b.subs(test.lhs, test.rhs) == a:
            return GuardedValue(b, needed)
    return GuardedValue(_cases(a, test, b), needed)


def _truth(e: Basic) -> Basic:
    return e if is_truth(e) else Ne(e, 0)


def _logical(function: Reading) -> Reading:
    return lambda *values: function(*map(_truth, values))


def _of_truths(function: Reading) -> Reading:
    def of(*values: Basic) -> Expr | GuardedValue:
        if not all(map(is_truth, values)):
            raise NotImplementedError
        return function(*values)

    return of


def _gelu(a: Basic, *, approximate: str = "none") -> Expr:
    a = number(a)
    if approximate == "none":
        return a * (1 + erf(a / sympy.sqrt(2))) / 2
    return a * (1 + tanh(sympy.sqrt(2 / sympy.pi) * (a + exact(0.044715) * a**3))) / 2


def _elu(a: Expr, alpha: Expr = S.One, scale: Expr = S.One, input_scale: Expr = S.One) -> Expr:
    return _cases(scale * a, a > 0, scale * alpha * (exp(input_scale * a) - 1))


def _softplus(a: Expr, beta: Expr = S.One, threshold: Expr = THRESHOLD) -> Expr:
    if threshold == THRESHOLD and beta.is_positive and (factor := softplus_everywhere(beta)) is not None:
        return factor * sympy.log(1 + exp(beta * a)) / beta
    return _cases(a, beta * a > threshold, sympy.log(1 + exp(beta * a)) / beta)


def _clamp(a: Expr, low: Expr | None = None, high: Expr | None = None) -> Expr:
    # torch's order: where the bounds cross, the upper one wins.
    a = a if low is None else Max(a, low)
    return a if high is None else Min(a, high)


def _div(a: Expr, b: Expr) -> GuardedValue:
    return partial(a / b, Ne(b, 0))


def _log_of_sum(a: Expr, b: Expr, base: Expr = sympy.E) -> Expr:
    return sympy.log(base**a + base**b) / sympy.log(base)


def _within(function: Callable[[Expr], Expr]) -> Callable[[Expr], GuardedValue]:
    return lambda a: partial(function(a), DOMAINS[function](a))  # type: ignore[index]


def _sigma(a: Expr) -> Expr:
    return 1 / (1 + exp(-a))


NUMBERS: Mapping[str, Reading] = {
    "add": lambda a, b, *, alpha=S.One: a + alpha * b,
    "sub": lambda a, b, *, alpha=S.One: a - alpha * b,
    "rsub": lambda a, b, *, alpha=S.One: b - alpha * a,
    "mul": operator.mul,
    "div": _div,
    "reciprocal": lambda a: _div(S.One, a),
    "neg": operator.neg,
    "abs": Abs,
    "sign": sympy.sign,
    "sgn": sympy.sign,
    "square": lambda a: a**2,
    "pow": power,
    "sqrt": lambda a: power(a, Rational(1, 2)),
    "rsqrt": lambda a: power(a, -Rational(1, 2)),
    "exp": exp,
    "exp2": lambda a: 2**a,
    "expm1": lambda a: exp(a) - 1,
    "log1p": lambda a: log(1 + a),
    "log2": lambda a: partial(sympy.log(a) / sympy.log(2), a > 0),
    "log10": lambda a: partial(sympy.log(a) / sympy.log(10), a > 0),
    **{function.__name__: _within(function) for function in DOMAINS},
    "logaddexp": _log_of_sum,
    "logaddexp2": lambda a, b: _log_of_sum(a, b, S(2)),
    "hypot": lambda a, b: power(a**2 + b**2, Rational(1, 2)),
    "sin": sympy.sin,
    "cos": sympy.cos,
    "atan": sympy.atan,
    "sinh": sympy.sinh,
    "cosh": sympy.cosh,
    "tanh": tanh,
    "asinh": sympy.asinh,
    "erf": erf,
    "erfc": lambda a: 1 - erf(a),
    "sigmoid": _sigma,
    "log_sigmoid": lambda a: -sympy.log(1 + exp(-a)),
    "mish": lambda a: a * tanh(sympy.log(1 + exp(a))),
    "silu": lambda a: a * _sigma(a),
    "relu": lambda a: Max(a, 0),
    "leaky_relu": lambda a, slope=SLOPE: _cases(a, a > 0, exact(slope) * a),
    "elu": _elu,
    "softplus": _softplus,
    "hardtanh": lambda a, low=S.NegativeOne, high=S.One: _clamp(a, low, high),
    "maximum": Max,
    "minimum": Min,
    "floor": sympy.floor,
    "ceil": sympy.ceiling,
    "eq": Eq,
    "ne": Ne,
    "lt": sympy.Lt,
    "le": sympy.Le,
    "gt": sympy.Gt,
    "ge": sympy.Ge,
}

TRUTHS: Mapping[str, Reading] = {
    "logical_and": _logical(sympy.And),
    "logical_or": _logical(sympy.Or),
    "logical_not": _logical(sympy.Not),
    "logical_xor": _logical(sympy.Xor),
    "bitwise_and": _of_truths(sympy.And),
    "bitwise_or": _of_truths(sympy.Or),
    "bitwise_not": _of_truths(sympy.Not),
}

ELEMENTWISE: Mapping[str, Callable[..., Entries]] = {
    **{name: _entrywise(_of_numbers(function)) for name, function in NUMBERS.items()},
    **{name: _entrywise(function) for name, function in TRUTHS.items()},
    "gelu": _entrywise(_gelu),
    "where": _entrywise(_where),
    "clamp": lambda a, low=None, high=None, **given: _bounds(a, given.pop("min", low), given.pop("max", high)),
    "clamp_min": lambda a, low: _bounds(a, low, None),
    "clamp_max": lambda a, high: _bounds(a, None, high),
}


def _bounds(a: Entries, low: Entries | float | None, high: Entries | float | None) -> Entries:
    a = a if low is None else ELEMENTWISE["maximum"](a, low)
    return a if high is None else ELEMENTWISE["minimum"](a, high)
