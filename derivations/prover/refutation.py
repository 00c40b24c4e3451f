"""Numbers to 30 digits, all of them certain: they refute, and never prove."""

from __future__ import annotations

from sympy import Expr, Rational
from sympy.core.evalf import PrecisionExhausted

__all__ = ["NOTICEABLE", "certain_value"]

DIGITS = 30
# Far above the error of 30 digits, far below any difference that means something.
NOTICEABLE = Rational(1, 10**20)


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
