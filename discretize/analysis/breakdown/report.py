r"""A `Breakdown` says whether a trained model is its equation or its step, with the numbers that decide.

its equation    states within 1 % of their spread of the equation's, and the same becomes of them while inputs are held
a nearby one    within 10 %
the step's      further, or what moves while inputs are held moves by the step alone
diverges        the steps leave all bounds where the equation does not
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from ctrnn.extras import needed_by
from discretize.analysis.breakdown.held import CHAOS, CYCLE, NO_BOUND, REST
from discretize.analysis.breakdown.modes import Modes
from discretize.analysis.breakdown.moments import Moments
from discretize.analysis.breakdown.substitutes import Substitute
from discretize.analysis.refinement import CLOSE, VISIBLE, Refinement

if TYPE_CHECKING:
    from discretize.analysis.drawing import ShownFigure

__all__ = ["VERDICTS", "Breakdown"]

VERDICTS = ("its equation", "a nearby one", "the step's", "diverges")
EQUATION, NEARBY, STEP, DIVERGES = VERDICTS
UNITS = 3  # that are named


@dataclass(frozen=True, eq=False)
class Breakdown:
    r"""Tells where a model's steps stop being its equation, on data; `print` says it in words, `figure()` draws it.

    `verdict`: a word of "its equation", "a nearby one", "the step's" and "diverges"; `reasons`: the numbers that decided it;
    `advice`: what to do; `refinement`: the same weights at dt/2, dt/4, ... and solved; `g_dt` (steps, state): rate times step of
    each unit, the largest over sequences, None for a field that declares no rate; `above` (state, 2): the shares of a unit's
    steps in which it is above 1, and above 2; `modes`: of small differences, see `Modes`; `others`: other steps under the same
    weights; `over_time` (time,), `by_unit` (units,), `by_sequence` (batch,): distances from the equation's states as shares of
    the spread; `held`: (under the steps, in the equation) what becomes of each of the first 16 sequences while its last input
    is held, "rest", "cycle", "chaos" or "no bound", None where that is not known; `noise`: moments and spectra of a field with
    noise, whose g dt, modes and other steps are not looked at. For models with several
    modules g dt, modes and distances are those of the first.
    """

    step: str
    refinement: Refinement
    g_dt: Tensor | None
    above: Tensor | None
    modes: Modes | None
    others: tuple[Substitute, ...]
    over_time: Tensor
    by_unit: Tensor
    by_sequence: Tensor
    held: tuple[tuple[str, ...], tuple[str, ...]] | None
    noise: tuple[Moments, ...] | None = None

    @property
    def verdict(self) -> str:
        if not math.isfinite(self.refinement.drift[0]) or self._lost():
            return DIVERGES
        if self.refinement.share > VISIBLE or self._moved_by_the_step():
            return STEP
        return NEARBY if self.refinement.share > CLOSE or self._unlike() else EQUATION

    def _pairs(self) -> list[tuple[str, str]]:
        return [] if self.held is None else list(zip(*self.held, strict=True))

    def _lost(self) -> int:
        return sum(stepped == NO_BOUND != exact for stepped, exact in self._pairs())

    def _moved_by_the_step(self) -> int:
        """Count the sequences that move under the steps while the equation rests."""
        return sum(stepped in (CYCLE, CHAOS) and exact == REST for stepped, exact in self._pairs())

    def _unlike(self) -> int:
        return sum(stepped != exact for stepped, exact in self._pairs())

    @property
    def reasons(self) -> tuple[str, ...]:
        parts = [self._of_states(), self._of_g_dt(), self._of_modes(), self._of_held()]
        return tuple(filter(None, [*parts, *map(str, self.noise or ())]))

    def _of_states(self) -> str:
        found = self.refinement
        if not math.isfinite(found.drift[0]):
            said = "States leave all bounds, which those of the equation do not."
        else:
            worst = int(self.by_unit.nan_to_num(math.inf).argmax())
            said = (
                f"States are {found.share:.2%} of their spread from those of the equation, unit {worst} the furthest; by "
                f"sequence {float(self.by_sequence.min()):.2%} to {float(self.by_sequence.max()):.2%}."
            )
        if found.orders and math.isfinite(found.orders[-1]):
            said += f" Refined {found.substeps[-1]} times they fall at order {found.orders[-1]:.2f}; the step's is {found.order}."
        if found.metrics is not None and found.exact_metric is not None:
            said += f" The metric is {found.metrics[0]:.4g} as stepped and {found.exact_metric:.4g} when solved."
        return said

    def _of_g_dt(self) -> str:
        if self.g_dt is None or self.above is None:
            return "" if self.noise else "The field declares no rate, so that g dt is not known."
        finite = self.g_dt.nan_to_num(-math.inf, math.inf)
        at, unit = divmod(int(finite.argmax()), finite.shape[1])
        beyond = " and ".join(f"above {k + 1} in {float(self.above[:, k].mean()):.2%}" for k in range(2))
        return f"g dt is at most {float(finite.max()):.3g}, in unit {unit} at step {at}; {beyond} of all steps and units."

    def _of_modes(self) -> str:
        if self.modes is None:
            return ""
        (stepped, exact), growth = self.modes.largest, self.modes
        units = ", ".join(map(str, growth.units.topk(min(UNITS, len(growth.units))).indices.tolist()))
        more = growth.growth_stepped.shape[1]
        return (
            f"Along the data a step multiplies small differences by up to {stepped:.3g} (the equation by {exact:.3g}), most in "
            f"units {units}; {more} steps by up to {float(growth.growth_stepped[:, -1].max()):.3g} "
            f"({float(growth.growth_exact[:, -1].max()):.3g}). In {growth.apart:.0%} of the places only the step lets one grow, "
            f"in {growth.swings:.0%} one changes its sign in a step."
        )

    def _of_held(self) -> str:
        if not (pairs := self._pairs()):
            return ""
        counted = Counter(pairs).most_common()
        parts = [
            f"{count} come to {stepped} under the steps and to {exact} in the equation" for (stepped, exact), count in counted
        ]
        factors = [factor.real for factor in self.refinement.factors or () if factor.real < -1 and not factor.imag]
        swings = f" Where it rests, a step multiplies a difference by {min(factors):.3g}." if factors else ""
        return f"Of {len(pairs)} sequences with their last input held {'; '.join(parts)}.{swings}"

    @property
    def advice(self) -> str:
        if self.verdict == EQUATION:
            return "Nothing: the weights mean the same under any accurate solver."
        near = [other for other in self.others if other.share <= CLOSE]
        if self.noise:
            return "Train with more `substeps`, or a step of higher strong order, and look again."
        if not near:
            return (
                "No step that was tried comes within 1 %: train with more `substeps`, or as a ContinuousRNN, and look again; "
                "these weights use their step."
            )
        best = min(near, key=lambda other: other.evaluations)
        how = f"{best.step!r}" + (f" with substeps={best.substeps}" if best.substeps > 1 else "")
        score = "" if best.score is None else f", with a metric of {best.score:.4g}"
        return (
            f"{how} brings these weights within 1 % of their equation for {best.evaluations} evaluations a sample{score}. "
            "What is trained with it is its equation's."
        )

    def __str__(self) -> str:
        if not self.others:
            return "\n".join([f"The model as stepped by {self.step}: {self.verdict}.", *self.reasons, self.advice])
        scored = self.refinement.metrics is not None
        lines = [f"{'step':<24}{'substeps':>9}{'evaluations':>13}{'states apart':>14}" + (f"{'metric':>11}" if scored else "")]
        for other in self.others:
            score = "" if other.score is None else f"{other.score:>11.4g}"
            share = "refused" if other.refused else f"{other.share:.2%}" if math.isfinite(other.share) else "diverges"
            lines.append(f"{other.step:<24}{other.substeps:>9}{other.evaluations:>13}{share:>14}{score}")
        return "\n".join([f"The model as stepped by {self.step}: {self.verdict}.", *self.reasons, "", *lines, "", self.advice])

    def figure(self) -> ShownFigure:
        """Draw g dt over time and by unit, the modes, and distances by step, time and unit. Raises: MissingPackageError."""
        with needed_by("Breakdown.figure"):
            from discretize.analysis.breakdown.figure import drawn  # noqa: PLC0415 - Matplotlib
        return drawn(self)
