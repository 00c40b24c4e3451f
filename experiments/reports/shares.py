r"""Shares of runs, with the exact intervals of Clopper and Pearson: k of n, both ends by the binomial law.

    low     P(k or more of n) = chance/2          high     P(k or fewer of n) = chance/2

The interval holds the true share in at least 1 - chance of all cases, at any n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from experiments.reports.spreads import NotEnoughError, Spread

__all__ = ["ExactShare", "exact_share"]


@dataclass(frozen=True)
class ExactShare(Spread):
    """Holds how far a share of `count` is beyond another one, `beyond`, with its exact 95 % interval."""

    beyond: float = 0.0

    @property
    def hits(self) -> int:
        """Return how many of `count` they are."""
        return round((self.mean + self.beyond) * self.count)

    def erring(self, chance: float) -> ExactShare:
        """Widen or narrow the interval to one that errs by another chance than 0.05."""
        low, high = _ends(self.hits, self.count, chance)
        return replace(self, low=low - self.beyond, high=high - self.beyond)

    @property
    def p(self) -> float:
        """Compute the p of the test by signs, twice that of the smaller side, by which `beyond` is no true share."""
        from scipy.special import bdtr, bdtrc  # noqa: PLC0415 - in a thirtieth of the time of scipy.stats

        at_least = float(bdtrc(self.hits - 1, self.count, self.beyond)) if self.hits else 1.0
        return min(1.0, 2 * min(at_least, float(bdtr(self.hits, self.count, self.beyond))))

    def told_apart(self, power: float = 0.8) -> float:
        """Compute how far a true share has to be beyond the other one for the 95 % interval to be, too, with a chance `power`.

        Infinite where no count of so few would tell.
        """
        telling = next((k for k in range(1, self.count + 1) if _ends(k, self.count, 0.05)[0] > self.beyond), None)
        return math.inf if telling is None else self.share_of(telling, power) - self.beyond

    def share_of(self, hits: int, chance: float) -> float:
        """Return the true share at which so many or more of `count` are seen with a chance; infinite for more than there are."""
        from scipy.special import betaincinv  # noqa: PLC0415

        return float(betaincinv(hits, self.count - hits + 1, chance)) if hits <= self.count else math.inf


def exact_share(hits: int, of: int, beyond: float = 0.0) -> ExactShare:
    """Compute by how much a share is beyond another. Raises: NotEnoughError for one of none; ValueError for hits of no count."""
    if not of:
        raise NotEnoughError("a share of no runs is none")
    if not 0 <= hits <= of:
        raise ValueError(f"`hits` must be from 0 to {of}, got {hits}.")
    low, high = _ends(hits, of, 0.05)
    return ExactShare(hits / of - beyond, low - beyond, high - beyond, of, beyond=beyond)


def _ends(hits: int, of: int, chance: float) -> tuple[float, float]:
    """By the beta law, whose quantiles are those ends, and which knows chances as small as numbers are."""
    from scipy.special import betaincinv  # noqa: PLC0415

    low = float(betaincinv(hits, of - hits + 1, chance / 2)) if hits else 0.0
    return low, 1 - (float(betaincinv(of - hits, hits + 1, chance / 2)) if hits < of else 0.0)
