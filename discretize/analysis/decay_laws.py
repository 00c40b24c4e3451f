r"""Whether something falls exponentially or polynomially: one family that holds both, fitted, with an interval.

    N(n) = A (1 + kappa lambda n)^(-1/kappa)      lambda   rate at n = 0
                                                  kappa    0: A e^(-lambda n)      above 0: n^(-1/kappa) in the end
                                                           below 0: faster than any exponential, 0 at n = -1/(kappa lambda)

What |h|^r h forgets without input has kappa = r; its derivative dh_n/dh_0 has kappa = r / (r + 1), and dh_T/dh_(T - n), from
states that were larger the earlier they are, kappa = -r / (r + 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ctrnn import checks
from discretize.text_report import TextReport

__all__ = ["DecayLaw", "decay_law"]

BENT = 0.1  # |kappa| from which a law is no exponential: its tail falls as n^-10
FLOOR = 64.0  # roundings of the largest value; what is smaller is not looked at
LEAST = 8  # values to fit
CONFIDENCE = 0.95
# 1 + kappa lambda n at the last n, from almost 0, where the values would have ended, to far into the tail; 1 is left out.
BENDS = np.exp(np.linspace(-7.0, 14.0, 2000))


@dataclass(frozen=True, repr=False)
class DecayLaw(TextReport):
    r"""A (1 + kappa lambda n)^(-1/kappa), fitted to logarithms.

    rate: lambda, per sample, at n = 0, below 0 where the values rise, 0 where they are one to rounding; bend: kappa; interval: of
    kappa, 95 %, over sequences drawn again; misfit: root mean square of what the fit leaves of the logarithm, in nats; fitted:
    how many values, from n = 0 on, are above rounding.
    """

    rate: float
    bend: float
    interval: tuple[float, float]
    misfit: float
    fitted: int

    @property
    def name(self) -> str:
        """By the interval of kappa: "exponential" inside +-0.1, "polynomial" above, "faster than exponential" below; across
        one of these borders "undecided"; "growing" where the values rise, "constant" where they change by rounding alone."""
        low, high = self.interval
        if self.rate <= 0:
            return "growing" if self.rate else "constant"
        if low > -BENT and high < BENT:
            return "exponential"
        return "polynomial" if low > BENT else "faster than exponential" if high < -BENT else "undecided"

    @property
    def exponent(self) -> float:
        """p of the tail n^-p, inf where there is none."""
        return 1 / self.bend if self.bend > 0 else np.inf

    def __str__(self) -> str:
        low, high = self.interval
        if not self.rate:
            return f"{self.name}: the first {self.fitted} values are one, to rounding"
        interval = f"95 %: {low:.2g} to {high:.2g}" if np.isfinite([low, high]).all() else "of one sequence, without an interval"
        return f"{self.name}: kappa {self.bend:.2g} ({interval}), rate {self.rate:.2g} a sample"


def decay_law(values: Tensor, resamples: int = 200) -> DecayLaw:
    r"""Fit how values fall with n = 0, 1, ...: which law, and how sure that is.

    The mean over sequences of the logarithm is fitted by least squares. The interval of kappa comes from sequences drawn
    again with replacement; of one sequence nothing is known of it, (-inf, inf). The first value that is not above the
    rounding of the largest one ends what is fitted.

    Args:    values: norms, such as `state_jacobians(.., fixed="start")`; resamples: of the sequences.
    Shape:   values (n,) or (n, sequences).
    Raises:  TypeError, ValueError for what does not fit, and where fewer than 8 values are above rounding.
    Source:  Ohno and Kumagai 2021, eqs. (20) and (21), for the law without input.
    """
    if not checks.is_tensor("values", values).is_floating_point() or values.dim() not in (1, 2) or 0 in values.shape:
        raise ValueError(f"`values` must be floating point, (n,) or (n, sequences), got {values.dtype}, {tuple(values.shape)}.")
    checks.is_finite("values", values)
    if bool((values < 0).any()):
        raise ValueError(f"`values` must be norms, not negative, since their logarithm is fitted; got {float(values.min()):g}.")
    resamples = checks.positive_size("resamples", resamples)
    each = values.detach().double().reshape(len(values), -1).cpu()
    above = (each > FLOOR * torch.finfo(values.dtype).eps * each.amax(0)).all(1)
    fitted = int(above.long().cumprod(0).sum())
    if fitted < LEAST:
        raise ValueError(f"`values` are above their rounding at the first {fitted} n only; a law is fitted to at least {LEAST}.")
    logs = each[:fitted].log().numpy()
    if np.ptp(logs.mean(1)) <= FLOOR * torch.finfo(values.dtype).eps:  # its shape, and so kappa, would be that of roundings
        return DecayLaw(0.0, 0.0, (-np.inf, np.inf), float(logs.mean(1).std()), fitted)
    (rate,), (bend,), (misfit,) = _fits(logs.mean(1, keepdims=True))
    return DecayLaw(float(rate), float(bend), _interval(logs, resamples), float(misfit), fitted)


def _interval(logs: NDArray[np.float64], resamples: int) -> tuple[float, float]:
    sequences = logs.shape[1]
    if sequences == 1:
        return -np.inf, np.inf
    drawn = np.random.default_rng(0).multinomial(sequences, np.full(sequences, 1 / sequences), size=resamples)
    low, high = np.quantile(_fits(logs @ drawn.T / sequences)[1], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def _fits(logs: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Return lambda, kappa and misfit of each column: with the end of 1 + kappa lambda n given, a line in log(1 + ...)."""
    n = np.linspace(0.0, 1.0, len(logs))
    last = BENDS - 1  # kappa lambda times the last n
    bent = np.log1p(np.outer(last, n)) / last[:, None]
    bent -= bent.mean(1, keepdims=True)
    centred = logs - logs.mean(0)
    slopes = bent @ centred / (bent**2).sum(1)[:, None]  # (bends, columns): -lambda times the last n
    left = (centred**2).sum(0) - slopes**2 * (bent**2).sum(1)[:, None]
    best, columns = left.argmin(0), np.arange(logs.shape[1])
    fall = -slopes[best, columns]
    misfit = np.sqrt(np.maximum(left[best, columns], 0.0) / len(logs))
    with np.errstate(divide="ignore"):
        return fall / (len(logs) - 1), last[best] / fall, misfit
