"""A `Refinement` holds distances from the equation as steps are refined, and says in words what they mean."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discretize.text_report import TextReport

__all__ = ["CLOSE", "LEFT", "STILL", "VISIBLE", "Refinement", "share_in_words"]

CLOSE, VISIBLE = 0.01, 0.1  # of the spread of the states
MANY = 100.0  # times the spread, which are written so
ORDER_WITHIN = 0.35
STILL, LEFT = 0.01, 0.05  # of the spread of the states, what counts as rest; of a movement, what counts as nothing left of it


@dataclass(frozen=True, repr=False)
class Refinement(TextReport):
    r"""Distances of a model's states from the exact ones, as its steps are refined.

    `substeps`: steps a sample, times what the model has; `drift`: root mean square distance of the states from the exact
    ones, for each; `largest`: its largest; `metrics`: the metric for each, and `exact_metric`; `orders`: observed between
    neighbours; `order`: the declared one; `spread`: of the exact states over time, batch and calls, what drifts are measured by;
    what is beyond the end of a sequence, padding, belongs to none of these;
    `rounding`: what their dtype cannot tell apart; `step`: (shortest, longest) dt/tau of a step, of units with time constants
    tau and steps that are all as long, else None; `held`: (under the steps, in the equation) how much the states of each of the
    first 16 sequences still move, a root mean square deviation in time, once the last inputs have been held for 1500 samples,
    or up to 16,000 where that still changes, inf of those that leave all bounds or still double then, nan in the equation of
    those that had left them before, with samples as long as the last one, or as the median one where each sequence has times of
    its own; None for models with noise, with delays or with several `DiscreteRNN`s, or called with resets; `factors`: by how
    much a step multiplies a small difference where the equation came to rest, the eigenvalue of largest size, nan where it did
    not.
    """

    substeps: tuple[int, ...]
    drift: tuple[float, ...]
    largest: tuple[float, ...]
    orders: tuple[float, ...]
    order: float
    spread: float
    rounding: float
    metrics: tuple[float, ...] | None
    exact_metric: float | None
    step: tuple[float, float] | None = None
    held: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    factors: tuple[complex, ...] | None = None

    @property
    def share(self) -> float:
        """The drift of the model as it is, as a share of the spread of its states; infinite where they left all bounds."""
        if not self.spread:  # the equation's states stand still
            return 0.0 if self.drift[0] <= self.rounding else math.inf
        return self.drift[0] / self.spread

    @property
    def is_an_ode(self) -> bool:
        """As it is stepped, to a hundredth of the spread of its states."""
        return self.share <= CLOSE

    @property
    def converges(self) -> bool:
        """The last refinement falls at least as fast as the order declared says, or is down to rounding."""
        return self.drift[-1] <= self.rounding or (len(self.orders) > 0 and self.orders[-1] >= self.order - ORDER_WITHIN)

    @property
    def verdict(self) -> str:
        """In words."""
        return " ".join(filter(None, [self._drift_in_words(), self._rhythm_in_words()]))

    def _rhythm_in_words(self) -> str:
        """Say of sequences that do not come to rest while their input is held whether the equation's do."""
        pairs = [] if self.held is None else list(zip(*self.held, strict=True))
        lost = [exact for stepped, exact in pairs if math.isinf(stepped) and not math.isnan(exact)]
        factors = self.factors or (math.nan,) * len(pairs)
        moving = [
            (stepped, exact, factor)
            for (stepped, exact), factor in zip(pairs, factors, strict=True)
            if STILL * self.spread < stepped < math.inf and exact < math.inf
        ]
        return " ".join(filter(None, [_lost_in_words(lost, len(pairs)), self._moving_in_words(moving, len(pairs))]))

    @staticmethod
    def _moving_in_words(moving: list[tuple[float, float, complex]], sequences: int) -> str:
        if not moving:
            return ""
        at_rest = [factor for stepped, exact, factor in moving if exact <= LEFT * stepped]
        moves = f"With the last inputs held {len(moving)} of {sequences} sequences go on moving"
        if at_rest:
            which = "all" if len(at_rest) == len(moving) else f"{len(at_rest)}"
            swings = [factor.real for factor in at_rest if factor.real < -1 and not factor.imag]
            why = "their rhythm is the step's"
            if swings:
                whose = "" if len(swings) == len(at_rest) else f", for {len(swings)},"
                why = f"the step swings past it{whose or ','} ever further: there it multiplies a difference by {min(swings):.3g}"
            return f"{moves}; in the equation {which} of these come to rest, and {why}."
        size = sum(exact for _, exact, _ in moving) / sum(stepped for stepped, _, _ in moving)
        return f"{moves}, in the equation {size:.2f} times as far."

    def _drift_in_words(self) -> str:
        low, high = self.step or (0.0, 0.0)
        at = "" if self.step is None else f" at dt/tau = {high:.3g}" if high < 1.001 * low else f" at dt/tau up to {high:.3g}"
        drift = f"its states are {share_in_words(self.share, 'their spread')} from those of the equation{at}"
        if not math.isfinite(self.drift[0]):
            drift = "its states leave all bounds, which those of the equation do not"
        elif not math.isfinite(self.share):
            drift = f"its states are {self.drift[0]:.3g} from those of the equation, which do not move{at}"
        metric = ""
        if self.metrics is not None and self.exact_metric is not None:
            metric = f"; the metric is {_in_words(self.metrics[0])} as stepped and {_in_words(self.exact_metric)} when solved"
        known = bool(self.orders) and math.isfinite(self.orders[-1])
        if not self.converges:
            fate = f"and refining {self.substeps[-1]} times does not bring them in at order {self.order}"
            observed = f" (observed {self.orders[-1]:.2f})" if known else ""
            return f"Not known: {drift}, {fate}{observed}{metric}. Refine further, or take a step of higher order."
        last = f"order {self.orders[-1]:.2f}" if known else "an order that is not known"
        if self.is_an_ode:
            falls = f"and fall at {last} as the step is refined" if self.drift[0] else "and are so at every step"
            return f"Yes: {drift}, {falls}{metric}."
        nearly = "Nearly" if self.share <= VISIBLE else "No"
        enough = next((n for n, off in zip(self.substeps, self.drift, strict=True) if off <= CLOSE * self.spread), None)
        cure = (
            f"{enough} times as many steps bring them within 1 %" if enough else "more steps than were tried would bring them in"
        )
        return f"{nearly}: {drift}; they fall at {last} as the step is refined, and {cure}{metric}."

    @property
    def _headline(self) -> str:
        return self.verdict

    def __str__(self) -> str:
        lines = [
            f"{'steps':>6}{'r.m.s. drift':>14}{'largest':>10}{'order':>7}" + ("" if self.metrics is None else f"{'metric':>12}")
        ]
        for k, n in enumerate(self.substeps):
            order = f"{self.orders[k - 1]:.2f}" if k else ""
            metric = "" if self.metrics is None else f"{self.metrics[k]:>12.5g}"
            lines.append(f"{f'x {n}':>6}{self.drift[k]:>14.3g}{self.largest[k]:>10.3g}{order:>7}{metric}")
        if self.exact_metric is not None:
            lines.append(f"{'exact':>6}{'':>31}{self.exact_metric:>12.5g}")
        return "\n".join([*lines, self.verdict])


def _lost_in_words(lost: list[float], sequences: int) -> str:
    """Say of sequences that leave all bounds whether the equation's do: what goes to infinity has no rhythm."""
    if not lost:
        return ""
    stay = sum(map(math.isfinite, lost))
    how = "none of these does, and it is the step that diverges" if stay == len(lost) else f"{len(lost) - stay} of these do too"
    return f"With the last inputs held {len(lost)} of {sequences} sequences leave all bounds; in the equation {how}."


def share_in_words(share: float, of: str = "") -> str:
    """Write 0.024 as "2.40% of their spread", and from a hundred on "7.7e+20 times their spread"."""
    if MANY <= share < math.inf:
        return f"{share:.2g} times {of}".rstrip()
    return f"{share:.2%} of {of}" if of else f"{share:.2%}"


def _in_words(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "not a number" if math.isnan(value) else "infinite"
