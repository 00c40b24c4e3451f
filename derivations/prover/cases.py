r"""What is decided by computing cases: all cases of a finite set, or a mean of random draws with its interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from scipy import stats
from sympy import Basic, Expr, Float, Rational, Symbol

from derivations.prover.verdict import FAILS, HOLDS, UNDECIDED, Verdict

__all__ = ["Every", "Measured"]


@dataclass(frozen=True)
class Every:
    r"""All cases of a finite set, each computed: a proof for these cases, and said to be for no more.

    Args:    words: which cases; cases: gives (case as numbers by name, whether it is as claimed), one at a time; shown:
             the formula that each case checks.
    Source:  this project.
    """

    words: str
    cases: Callable[[], Iterable[tuple[Mapping[str, Any], bool]]]
    shown: Basic | None = None
    kind = "enumeration"

    def formulas(self) -> tuple[Basic, ...]:
        return () if self.shown is None else (self.shown,)

    def decide(self) -> Verdict:
        start, n = perf_counter(), 0
        for n, (case, right) in enumerate(self.cases(), 1):
            if not right:
                found = {Symbol(name): value for name, value in case.items()}
                return Verdict(FAILS, perf_counter() - start, f"case {n} of {self.words} is otherwise", found)
        word = HOLDS if n else UNDECIDED
        return Verdict(word, perf_counter() - start, f"all {n} cases: {self.words}")


@dataclass(frozen=True)
class Measured:
    r"""The mean of what is drawn is the claimed value to within a tolerance: statistics, for what is random by nature.

    Holds if the whole confidence interval of the mean (Student's t) lies within the tolerance of the claimed value, fails
    if it lies outside, and is undecided otherwise.

    Args:    words: what is drawn; draw: (generator, n) -> n independent numbers; claimed; tolerance: absolute; n: sample
             size; significance: 1 - level of the interval; seed.
    Source:  this project.
    """

    words: str
    draw: Callable[[np.random.Generator, int], Any]
    claimed: Expr
    tolerance: Rational
    n: int = 100_000
    significance: Rational = field(default_factory=lambda: Rational(1, 1000))
    seed: int = 0
    shown: Basic | None = None
    kind = "statistics"

    def formulas(self) -> tuple[Basic, ...]:
        return () if self.shown is None else (self.shown,)

    def decide(self) -> Verdict:
        start = perf_counter()
        sample = np.asarray(self.draw(np.random.default_rng(self.seed), self.n), dtype=float)
        spread = stats.t.ppf(1 - float(self.significance) / 2, self.n - 1) * sample.std(ddof=1) / np.sqrt(self.n)
        mean, claimed, tolerance = sample.mean(), float(self.claimed), float(self.tolerance)
        evidence = (
            f"mean of {self.n} draws ({self.words}) {mean:.6g}, {100 * (1 - float(self.significance)):g} % interval "
            f"+-{spread:.2g} (Student's t); claimed {claimed:.6g} +- {tolerance:g}"
        )
        if abs(mean - claimed) + spread <= tolerance:
            return Verdict(HOLDS, perf_counter() - start, evidence)
        if abs(mean - claimed) - spread > tolerance:
            return Verdict(FAILS, perf_counter() - start, evidence, {Symbol("mean"): Float(mean, 6)})
        return Verdict(UNDECIDED, perf_counter() - start, evidence)
