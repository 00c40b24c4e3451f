r"""Statements that are decided by computing: all cases of a finite set, or a mean of random draws with its interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from flint import fmpq
from scipy import stats
from sympy import Basic, Expr, Float, Rational, Symbol

from derivations.prover.verdict import FAILS, HOLDS, SECONDS, UNDECIDED, Verdict, timed
from derivations.rules.conclusions import is_true

__all__ = ["IN_PRINT", "Cases", "Every", "Measured", "printed", "said", "spelt"]

# Of words, typed in here from a text: a remark on it, and no proof.
IN_PRINT = "comparison of words in print"


Cases = Iterable[tuple[Mapping[str, Any], tuple[Any, str, Any]]]


@dataclass(frozen=True)
class Every:
    r"""All cases of a finite set, each a comparison: a proof for these cases, and said to be for no more.

    Args:    words: which cases; cases: gives (case as numbers by name, the comparison that is claimed of it, as
             (found, "<=", bound)), one at a time; relations, and what they compare, are those of `is_true`;
             kind: `IN_PRINT` of words that are compared as they were typed in.
    """

    words: str
    cases: Callable[[], Cases]
    kind: str = "enumeration"

    def formulas(self) -> tuple[Basic, ...]:
        return ()

    def says(self) -> dict[str, Any]:
        return {"kind": "cases", "comparisons": [_as_data(comparison) for _, comparison in self.cases()]}

    def decide(self, seconds: float | None = SECONDS) -> Verdict:
        return timed(self._decide, self.kind, seconds)

    def _decide(self) -> Verdict:
        seen: list[Any] = []
        certificate = ({"rule": "cases", "comparisons": seen},)
        for n, (case, comparison) in enumerate(self.cases(), 1):
            seen.append(_as_data(comparison))
            if not is_true(seen[-1]):
                found, evidence = {Symbol(name): value for name, value in case.items()}, f"case {n} of {self.words} is otherwise"
                return Verdict(FAILS, 0.0, evidence, found, certificate=certificate)
        return Verdict(HOLDS if seen else UNDECIDED, 0.0, f"all {len(seen)} cases: {self.words}", certificate=certificate)


def spelt(*words: tuple[str, str, str, str]) -> Every:
    """Compare sequences of letters, as a task has them, with others: (which, letters, which, letters)."""
    return Every("words of two places", lambda: (({a: one, b: other}, (one, "=", other)) for a, one, b, other in words))


def said(*words: tuple[str, str, str, str]) -> Every:
    """Compare words of one place in print with those of another: (place, words, place, words)."""
    return replace(spelt(*words), kind=IN_PRINT)


def printed(place: str, words: tuple[str, ...], *wanted: str) -> Every:
    """Look for what is wanted among the words of a place."""
    return Every(f"what is printed in {place}", lambda: (({"wanted": word}, (word, "in", words)) for word in wanted), IN_PRINT)


def _as_data(x: object) -> Any:
    """Convert numbers for the check."""
    if isinstance(x, Rational):
        return int(x) if x.q == 1 else fmpq(int(x.p), int(x.q))
    if isinstance(x, set | frozenset):
        return tuple(sorted(map(_as_data, x)))
    return tuple(map(_as_data, x)) if isinstance(x, tuple | list) else x


@dataclass(frozen=True)
class Measured:
    r"""The mean of what is drawn is the claimed value to within a tolerance: statistics, for what is random by nature.

    Holds if the whole confidence interval of the mean (Student's t) lies within the tolerance of the claimed value, fails
    if it lies outside, and is undecided otherwise.

    Args:    words: what is drawn; draw: (generator, n) -> n independent numbers; claimed; tolerance: absolute; n: sample
             size; significance: 1 - level of the interval; seed.
    """

    words: str
    draw: Callable[[np.random.Generator, int], Any]
    claimed: Expr
    tolerance: Rational
    n: int = 100_000
    significance: Rational = field(default_factory=lambda: Rational(1, 1000))
    seed: int = 0
    kind = "statistics"

    def formulas(self) -> tuple[Basic, ...]:
        return ()

    def says(self) -> None:
        return None

    def decide(self, seconds: float | None = SECONDS) -> Verdict:
        return timed(self._decide, self.kind, seconds)

    def _decide(self) -> Verdict:
        sample = np.asarray(self.draw(np.random.default_rng(self.seed), self.n), dtype=float)
        spread = stats.t.ppf(1 - float(self.significance) / 2, self.n - 1) * sample.std(ddof=1) / np.sqrt(self.n)
        mean, claimed, tolerance = sample.mean(), float(self.claimed), float(self.tolerance)
        evidence = (
            f"mean of {self.n} draws ({self.words}) {mean:.6g}, {100 * (1 - float(self.significance)):g} % interval "
            f"+-{spread:.2g} (Student's t); claimed {claimed:.6g} +- {tolerance:g}"
        )
        if abs(mean - claimed) + spread <= tolerance:
            return Verdict(HOLDS, 0.0, evidence)
        if abs(mean - claimed) - spread > tolerance:
            return Verdict(FAILS, 0.0, evidence, {Symbol("mean"): Float(mean, 6)})
        return Verdict(UNDECIDED, 0.0, evidence)
