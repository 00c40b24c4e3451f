r"""Map torch's elementwise operations to Triton expressions, as record/functions.py does to C++.

Only what Triton has on every device, its interpreter too: no libdevice. A truth is the number 1 or 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

__all__ = ["FUNCTIONS", "expression", "number", "preamble"]

REALS = {torch.float32: "tl.float32", torch.float64: "tl.float64"}
TERMS = {torch.float32: 10, torch.float64: 18}  # of series at arguments up to 1/2 and 1/3: the next term is less than rounding


def number(value: float) -> str:
    """Write a number in Triton, nan and infinities too."""
    return repr(value) if math.isfinite(value) else f"float({str(value)!r})"


# `a`, `b`, `c` stand for arguments.
FUNCTIONS: dict[str, str] = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "{a} / {b}",
    "neg": "-{a}",
    "reciprocal": "1.0 / {a}",
    "square": "{a} * {a}",
    "spread": "{a}",
    "abs": "tl.abs({a})",
    "relu": "tl.where({a} <= 0.0, 0.0, {a})",
    **dict.fromkeys(("sign", "sgn"), "({a} > 0.0).to(REAL) - ({a} < 0.0).to(REAL)"),
    "maximum": "tl.where(({a} > {b}) | ({a} != {a}), {a}, {b})",
    "minimum": "tl.where(({a} < {b}) | ({a} != {a}), {a}, {b})",
    "where": "tl.where({a} != 0.0, {b}, {c})",
    **{
        name: f"({{a}} {sign} {{b}}).to(REAL)"
        for name, sign in {"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "eq": "==", "ne": "!="}.items()
    },
    "isnan": "({a} != {a}).to(REAL)",
    "logical_and": "(({a} != 0.0) & ({b} != 0.0)).to(REAL)",
    "logical_or": "(({a} != 0.0) | ({b} != 0.0)).to(REAL)",
    "logical_xor": "(({a} != 0.0) ^ ({b} != 0.0)).to(REAL)",
    "logical_not": "({a} == 0.0).to(REAL)",
    "sigmoid": "1.0 / (1.0 + tl.exp(-{a}))",
    **{name: f"tl.{name}({{a}})" for name in ("exp", "log", "sin", "cos", "erf", "floor", "ceil")},
    "sqrt": "tl.sqrt({a})",
    "rsqrt": "1.0 / tl.sqrt({a})",
    "erfc": "1.0 - tl.erf({a})",
    "tan": "tl.sin({a}) / tl.cos({a})",
    "trunc": "tl.where({a} < 0.0, tl.ceil({a}), tl.floor({a}))",
    **{name: f"{name}({{a}})" for name in ("tanh", "expm1", "log1p", "sinh", "cosh", "asinh", "atanh", "atan")},
    "asin": "atan({a} / tl.sqrt((1.0 - {a}) * (1.0 + {a})))",
    "acos": "2.0 * atan(tl.sqrt((1.0 - {a}) / (1.0 + {a})))",
    "atan2": "atan2({a}, {b})",
    "acosh": "tl.log({a} + tl.sqrt({a} - 1.0) * tl.sqrt({a} + 1.0))",
    "round": "round_to_even({a})",
    "pow": "power({a}, {b})",
    "remainder": "remainder({a}, {b})",
    "fmod": "fmod({a}, {b})",
}


def expression(operation: str, arguments: Sequence[str], settings: Sequence[float] = ()) -> str:
    """Write an operation of these arguments."""
    if operation == "weighted_sum":
        parts = (f"({part}).to(tl.float64) * {weight!r}" for part, weight in zip(arguments, settings, strict=True))
        return f"({' + '.join(parts)}).to(REAL)"
    return FUNCTIONS[operation].format(**dict(zip("abc", arguments, strict=False)))


def preamble(dtype: torch.dtype) -> str:
    """What written kernels begin with: functions that Triton lacks. Near 0 a series, where a difference would lose digits."""
    terms = TERMS[dtype]
    exponential, logarithm, arc = "1.0", f"1.0 / {2 * terms - 1}", f"{(-1) ** (terms - 1)}.0 / {2 * terms - 1}"
    for k in range(terms, 1, -1):
        exponential = f"1.0 + a / {k}.0 * ({exponential})"
    for k in range(2 * terms - 3, 0, -2):
        logarithm, arc = f"1.0 / {k} + ss * ({logarithm})", f"{(-1) ** (k // 2)}.0 / {k} + ss * ({arc})"
    return PREAMBLE.format(real=REALS[dtype], exponential=exponential, logarithm=logarithm, arc=arc)


PREAMBLE = """# Written by discretize/kernels/triton.
import triton
import triton.language as tl

REAL = tl.constexpr({real})


@triton.jit
def expm1(a):
    return tl.where(tl.abs(a) < 0.5, a * ({exponential}), tl.exp(a) - 1.0)


@triton.jit
def log1p(a):
    s = a / (2.0 + a)
    ss = s * s
    return tl.where(tl.abs(a) < 0.5, 2.0 * s * ({logarithm}), tl.log(1.0 + a))


@triton.jit
def tanh(a):
    e = expm1(-2.0 * tl.abs(a))
    found = -e / (2.0 + e)
    return tl.where(a < 0.0, -found, found)


@triton.jit
def sinh(a):
    e = expm1(tl.abs(a))
    found = tl.where(e < 1e10, 0.5 * (e + e / (1.0 + e)), 0.5 * e)
    return tl.where(a < 0.0, -found, found)


@triton.jit
def cosh(a):
    e = tl.exp(tl.abs(a))
    return 0.5 * (e + 1.0 / e)


@triton.jit
def asinh(a):
    of = tl.abs(a)
    found = tl.where(of < 1e10, log1p(of + of * of / (1.0 + tl.sqrt(1.0 + of * of))), tl.log(of) + 0.6931471805599453)
    return tl.where(a < 0.0, -found, found)


@triton.jit
def atanh(a):
    return 0.5 * (log1p(a) - log1p(-a))


@triton.jit
def atan(a):
    of = tl.abs(a)
    s = tl.where(of > 1.0, 1.0 / of, of)
    s = s / (1.0 + tl.sqrt(1.0 + s * s))  # the tangent of half the angle, and of a quarter, at most pi / 16
    s = s / (1.0 + tl.sqrt(1.0 + s * s))
    ss = s * s
    found = 4.0 * s * ({arc})
    found = tl.where(of > 1.0, 1.5707963267948966 - found, found)
    return tl.where(a < 0.0, -found, found)


@triton.jit
def atan2(a, b):
    of, by = tl.abs(a), tl.abs(b)
    found = atan(tl.where(of == by, 1.0, of / by))  # both may be infinite
    found = tl.where((a == 0.0) & (b == b), 0.0, found)
    found = tl.where(b < 0.0, 3.141592653589793 - found, found)
    return tl.where(a < 0.0, -found, found)


@triton.jit
def fmod(a, b):
    of, by = tl.abs(a), tl.abs(b)
    rest = of - tl.floor(of / by) * by
    # The quotient may have been rounded to a whole number: what is a multiple but for rounding is taken as one.
    rest = tl.where(rest < 0.0, rest + by, tl.where(rest >= by, rest - by, rest))
    rest = tl.where(of < by, of, rest)
    return tl.where(a < 0.0, -rest, rest)


@triton.jit
def remainder(a, b):
    rest = fmod(a, b)
    return tl.where((rest != 0.0) & ((rest < 0.0) != (b < 0.0)), rest + b, rest)


@triton.jit
def round_to_even(a):
    low = tl.floor(a)
    rest = a - low
    odd = low - 2.0 * tl.floor(0.5 * low)
    return tl.where((rest > 0.5) | ((rest == 0.5) & (odd == 1.0)), low + 1.0, low)


@triton.jit
def power(a, b):
    size = tl.exp(b * tl.log(tl.abs(a)))
    whole = tl.floor(b) == b
    odd = b - 2.0 * tl.floor(0.5 * b) == 1.0
    of_negative = tl.where(whole, tl.where(odd, -size, size), float("nan"))
    return tl.where((b == 0.0) | (a == 1.0), 1.0, tl.where(a < 0.0, of_negative, size))


@triton.jit
def normal(low, middle, high, cell, node, units, quarter):
    # As discretize/noise/generator.py: Philox4x32-10, and Box and Muller.
    key, part = low.to(tl.int64) + (middle.to(tl.int64) << 21) + (high.to(tl.int64) << 42), units // quarter
    zero = (key + units) * 0
    unit, cell = (zero + units % quarter).to(tl.uint32), (zero + cell.to(tl.int64)).to(tl.uint32)
    a, b, c, d = tl.philox(zero + key, unit, cell, (zero + node).to(tl.uint32), unit * 0)
    size, turn = uniform(tl.where(part < 2, a, c)), uniform(tl.where(part < 2, b, d))
    size = tl.sqrt(-2.0 * tl.where(size < 0.5, tl.log(size), log1p(size - 1.0)))
    return size * tl.where(part % 2 == 0, tl.cos(6.283185307179586 * turn), tl.sin(6.283185307179586 * turn))


@triton.jit
def uniform(word):
    return word.to(REAL) * 2.3283064365386963e-10 + 1.1641532182693481e-10

"""
