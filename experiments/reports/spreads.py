r"""Numbers that differ over runs, in words: mean, least and largest, with as many digits as their spread leaves meaning to.

A number alone has three digits. What is below 1 is never rounded to 1.
"""

from __future__ import annotations

import decimal
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

__all__ = [
    "NotEnoughError",
    "Spread",
    "at_least",
    "at_most",
    "cell_text",
    "difference",
    "holm",
    "markdown",
    "number",
    "paired",
    "spread",
]

MISSING = "–"


class NotEnoughError(ValueError):
    """These records do not decide: the runs that would are not done yet. Its text says what is missing."""


@dataclass(frozen=True)
class Spread:
    """Holds the mean, smallest and largest of `count` numbers; or a mean, its 95 % interval and the degrees of freedom."""

    mean: float
    low: float
    high: float
    count: int
    freedom: float = math.inf

    def erring(self, chance: float) -> Spread:
        """Widen or narrow a 95 % interval to one that errs by another chance than 0.05, which may be as small as numbers are.

        As Student's t does; with no end of freedom as the normal law.
        """
        from scipy.special import stdtrit  # noqa: PLC0415 - Student's quantiles, in a thirtieth of the time of scipy.stats

        scale = float(stdtrit(self.freedom, chance / 2) / stdtrit(self.freedom, 0.025))
        low, high = (self.mean + scale * (end - self.mean) if math.isfinite(end) else end for end in (self.low, self.high))
        return replace(self, low=low, high=high)

    @property
    def p(self) -> float:
        """Compute the p of the t test by which 0 is no mean, of an interval that has a width."""
        from scipy.special import stdtr, stdtrit  # noqa: PLC0415

        beyond = 2 * abs(self.mean) / (self.high - self.low) * stdtrit(self.freedom, 0.975)
        return float(2 * stdtr(self.freedom, -beyond))

    def told_apart(self, power: float = 0.8) -> float:
        """Compute how far a true mean has to be beyond a bound for the 95 % interval to be beyond it, too, with a chance `power`.

        By the law of t that is not central, of this interval's width and degrees of freedom.
        """
        from scipy.special import nctdtrinc, stdtrit  # noqa: PLC0415

        if self.high == self.low:
            return 0.0
        ends = float(stdtrit(self.freedom, 0.975))
        return float(nctdtrinc(self.freedom, 1 - power, ends)) * (self.high - self.low) / (2 * ends)

    def __str__(self) -> str:
        """0.52 (0.48–0.55): two digits of what they differ by; one number alone has three digits."""
        apart = self.high - self.low
        if self.count == 1 or not math.isfinite(apart) or apart == 0:
            return number(self.mean)
        largest = max(abs(self.low), abs(self.high))
        magnitude, places = math.floor(math.log10(largest)), 1 - math.floor(math.log10(max(apart, 1e-9 * largest)))
        if not -4 <= magnitude < 6:
            mean, low, high = (f"{value:.{max(1, magnitude + places)}e}" for value in (self.mean, self.low, self.high))
            return f"{mean} ({low}–{high})"
        mean, low, high = (_places(value, places) for value in (self.mean, self.low, self.high))
        return f"{mean} ({low}–{high})"

    def __format__(self, form: str) -> str:
        """Write f"{spread:.3f}" as "0.123 (0.100 to 0.141)"; the mean alone where there is no interval, or one of no width."""
        if not form:
            return str(self)
        known = math.isfinite(self.high - self.low) and self.high > self.low
        return f"{self.mean:{form}}" + (f" ({self.low:{form}} to {self.high:{form}})" if known else "")


def spread(values: Iterable[float]) -> Spread:
    """Compute the spread; what is not finite makes the mean not finite. Raises: NotEnoughError for no values."""
    found = [float(value) for value in values]
    if not found:
        raise NotEnoughError("none of these runs is done")
    finite = [value for value in found if math.isfinite(value)] or found
    mean = sum(found) / len(found)
    # The mean of equal numbers is theirs, and of others between them, whatever the rounding of the sum.
    return Spread(min(max(mean, min(finite)), max(finite)) if math.isfinite(mean) else mean, min(finite), max(finite), len(found))


def difference(one: Iterable[float], other: Iterable[float]) -> Spread:
    """Compute the difference of the means, with its 95 % interval by Welch's t, infinite where a side has fewer than two numbers.

    Raises: NotEnoughError where a side has none.
    """
    from scipy.stats import ttest_ind  # noqa: PLC0415

    a, b = list(one), list(other)
    if not a or not b:
        raise NotEnoughError("of one of two sides that are compared no run is done")
    mean = sum(a) / len(a) - sum(b) / len(b)
    if min(len(a), len(b)) < 2 or len({*a}) == len({*b}) == 1:
        return Spread(mean, float("-inf"), float("inf"), len(a))
    return _by_t(mean, len(a), ttest_ind, a, b, equal_var=False)


def paired(differences: Iterable[float]) -> Spread:
    """Compute the mean of differences between pairs, with its 95 % interval by Student's t, infinite for fewer than two.

    Pairs that all differ by the same, nothing say, have an interval of no width.
    """
    from scipy.stats import ttest_1samp  # noqa: PLC0415

    found = [float(value) for value in differences]
    mean = sum(found) / len(found) if found else math.nan
    if len(found) < 2:
        return Spread(mean, -math.inf, math.inf, len(found))
    if len({*found}) == 1:
        return Spread(found[0], found[0], found[0], len(found))
    return _by_t(mean, len(found), ttest_1samp, found, 0.0)


def _by_t(mean: float, count: int, test: Callable[..., Any], *samples: object, **options: object) -> Spread:
    """Give a mean the 95 % interval of a t test of SciPy's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # nearly equal numbers lose digits, and their interval is short
        found = test(*samples, **options)
        interval = found.confidence_interval(0.95)
    return Spread(mean, float(interval.low), float(interval.high), count, float(found.df))


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust the p of tests that are made together (Holm 1979); a nan is no test, and stays."""
    tested, found, largest = sorted((p, k) for k, p in enumerate(ps) if not math.isnan(p)), list(ps), 0.0
    for rank, (p, k) in enumerate(tested):
        largest = max(largest, min(1.0, p * (len(tested) - rank)))
        found[k] = largest
    return found


def number(value: float, digits: int = 3) -> str:
    """Write a number with so many significant digits; as many more as it takes not to round what is below 1 to 1."""
    if not math.isfinite(value):
        return "not finite"
    if value == int(value) and abs(value) < 10**digits:
        return str(int(value))
    if 0.9 < value < 1:
        return _places(value, min(9, max(digits, math.ceil(-math.log10(1 - value)))))
    # What rounds up to the next power of ten has one place less.
    magnitude = math.floor(math.log10(float(f"{abs(value):.{digits - 1}e}")))
    return f"{value:.{digits - 1}e}" if not -4 <= magnitude < 6 else _places(value, digits - 1 - magnitude)


def at_least(value: float, digits: int = 3) -> str:
    """Write a lower bound as `number` does, rounded down: 1.66 of 1.6656, for the truth may be 1.666."""
    return number(_rounded(value, digits, decimal.ROUND_FLOOR), digits)


def at_most(value: float, digits: int = 3) -> str:
    """Write an upper bound as `number` does, rounded up."""
    return number(_rounded(value, digits, decimal.ROUND_CEILING), digits)


def _rounded(value: float, digits: int, way: str) -> float:
    exact = float(f"{value:.9g}")  # 2.9999999999999996, as log2 and its inverse leave of 3, is 3
    return float(decimal.Context(prec=digits, rounding=way).create_decimal_from_float(exact))


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a pipe table, its cells as `cell_text` writes them."""
    lines = [head, ["---"] * len(head), *([cell_text(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell_text(cell: object) -> str:
    """Write a cell of a table in one line: numbers as `number` writes them, None as a dash, spreads as they are written."""
    if cell is None:
        return MISSING
    return (number(cell) if isinstance(cell, float) else str(cell)).replace("\n", " ")


def _places(value: float, places: int) -> str:
    if not math.isfinite(value):
        return "not finite"
    rounded = round(value, places)
    return f"{rounded + 0.0:.{max(0, places)}f}"
