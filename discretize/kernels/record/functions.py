r"""Map torch's elementwise operations to C++ expressions over the vectors of source/simd.h.

A truth is the number 1 or 0. What is nan stays nan, as in torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

__all__ = ["CHEAP", "FUNCTIONS", "expression", "number"]


def number(value: float) -> str:
    """Write a number in C++, nan and infinities too."""
    if math.isfinite(value):
        return f"real({value!r})"
    return "NO_NUMBER" if math.isnan(value) else "INFINITE" if value > 0 else "-INFINITE"


def _infix(sign: str) -> Callable[[str, str], str]:
    return lambda a, b: f"({a} {sign} {b})"


def _truth(sign: str) -> Callable[[str, str], str]:
    return lambda a, b: f"truth({a} {sign} {b})"


def _call(name: str) -> Callable[..., str]:
    return lambda *arguments: f"{name}({', '.join(arguments)})"


def _by_lane(name: str) -> Callable[..., str]:
    """A function of the standard library, lane by lane: right, and slow."""
    return lambda *arguments: f"by_lane([](auto... v) {{ return std::{name}(v...); }}, {', '.join(arguments)})"


CHEAP: dict[str, Callable[..., str]] = {
    "add": _infix("+"),
    "sub": _infix("-"),
    "mul": _infix("*"),
    "div": _infix("/"),
    "neg": lambda a: f"(-{a})",
    "reciprocal": lambda a: f"(real(1) / {a})",
    "square": lambda a: f"({a} * {a})",
    "spread": lambda a: a,
    "abs": _call("absolute"),
    "relu": _call("positive_part"),
    "sign": _call("sign_of"),
    "sgn": _call("sign_of"),
    "maximum": _call("larger"),
    "minimum": _call("smaller"),
    "where": lambda a, b, c: f"({a} != real(0) ? {b} : {c})",
    "gt": _truth(">"),
    "ge": _truth(">="),
    "lt": _truth("<"),
    "le": _truth("<="),
    "eq": _truth("=="),
    "ne": _truth("!="),
    "isnan": lambda a: f"truth({a} != {a})",
    "logical_and": lambda a, b: f"truth(({a} != real(0)) & ({b} != real(0)))",
    "logical_or": lambda a, b: f"truth(({a} != real(0)) | ({b} != real(0)))",
    "logical_xor": lambda a, b: f"truth(({a} != real(0)) ^ ({b} != real(0)))",
    "logical_not": lambda a: f"truth({a} == real(0))",
}

FUNCTIONS: dict[str, Callable[..., str]] = CHEAP | {
    "tanh": _call("hyperbolic_tangent"),
    "sigmoid": _call("logistic"),
    "exp": _call("natural_exponential"),
    "expm1": _call("natural_exponential_less_1"),
    "log": _call("natural_logarithm"),
    "log1p": _call("natural_logarithm_of_1_and"),
    "sqrt": _call("root"),
    "rsqrt": lambda a: f"(real(1) / root({a}))",
    "pow": _by_lane("pow"),
    **{name: _by_lane(name) for name in ("sin", "cos", "tan", "sinh", "cosh", "asinh", "acosh", "atanh", "asin", "acos", "atan")},
    **{name: _by_lane(name) for name in ("atan2", "erf", "erfc", "floor", "ceil", "trunc", "fmod")},
    "remainder": _call("remainder_of"),
    "round": _by_lane("nearbyint"),
}


def expression(operation: str, arguments: Iterable[str], settings: Sequence[float] = ()) -> str:
    """Write a function of the numbers of a unit, which are called so."""
    if operation == "weighted_sum":
        return (
            f"narrowed({' + '.join(f'widened({part}) * {weight!r}' for part, weight in zip(arguments, settings, strict=True))})"
        )
    return FUNCTIONS[operation](*arguments)
