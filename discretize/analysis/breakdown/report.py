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
from discretize.analysis.breakdown.moments import StateMoments
from discretize.analysis.breakdown.scores import Scores
from discretize.analysis.breakdown.substitutes import Substitute
from discretize.analysis.refinement import CLOSE, VISIBLE, Refinement, share_in_words
from discretize.text_report import TextReport

if TYPE_CHECKING:
    from discretize.analysis.drawing import ShownFigure

__all__ = ["VERDICTS", "Breakdown"]

VERDICTS = ("its equation", "a nearby one", "the step's", "diverges")
EQUATION, NEARBY, STEP, DIVERGES = VERDICTS
UNITS, NAMED = 3, 8  # units and sequences that are named


@dataclass(frozen=True, eq=False, repr=False)
class Breakdown(TextReport):
    r"""Tells where a model's steps stop being its equation, on data; `print` says it in words, `figure()` draws it.

    `verdict`: a word of "its equation", "a nearby one", "the step's" and "diverges"; `decided`: by which numbers; `reasons`: what
    else is known; `advice`: what to do; `refinement`: the same weights at dt/2, dt/4, ... and solved, its `spread` the size of
    the states where these are all one; `g_dt` (steps, state): rate times step of each unit, the largest over sequences, None for
    a field that declares no rate; `above` (state, 2): the shares of a unit's steps in which it is above 1, and above 2; `modes`:
    of small differences, see `Modes`; `others`: its own and other steps under the same weights; `over_time` (time,), `by_unit`
    (units,), `by_sequence` (batch,): distances from the equation's states as shares of the spread, inf where they left all
    bounds; `held`: (under the steps, in the equation) what becomes of each of the first 16 sequences while its last input is
    held, "rest", "cycle" (what moves on and is no chaos), "chaos" or "no bound", None where that is not known; `scores`: of each
    sequence, see `Scores`; `noise`: moments and spectra of a field with noise, whose g dt, modes and other steps are not looked
    at. Of the `modules` of a model g dt, modes and distances by time, unit and sequence are those of the first.
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
    scores: Scores
    noise: tuple[StateMoments, ...] | None = None
    modules: int = 1

    @property
    def verdict(self) -> str:
        return self._judged[0]

    @property
    def decided(self) -> str:
        """The numbers that decide the verdict, with the limits they are held against."""
        return self._judged[1]

    @property
    def _judged(self) -> tuple[str, str]:
        apart, pairs = self.refinement.share, self._pairs()
        held = f"of {len(pairs)} sequences {'{}'} while their last input is held"
        states, error = f"states are {share_in_words(apart, 'their spread')} from those of the equation", self._error_of_share()
        if not math.isfinite(apart):
            states = f"states are {self.refinement.drift[0]:.3g} from those of the equation, which stay 0"
        near = [limit for limit in (CLOSE, VISIBLE) if abs(apart - limit) < 2 * error]
        hint = f" (so near to {near[0]:.0%} that sequences decide: a standard error of {error:.2%})" if near else ""
        if not math.isfinite(self.refinement.drift[0]):
            return DIVERGES, "states leave all bounds on the data, which those of the equation do not"
        if lost := sum(stepped == NO_BOUND != exact for stepped, exact in pairs):
            return DIVERGES, f"{lost} {held.format('leave all bounds')}, which they do not in the equation"
        moved = sum(stepped in (CYCLE, CHAOS) and exact == REST for stepped, exact in pairs)
        decisive = [f"{states}, more than {VISIBLE:.0%}{hint}"] * (apart > VISIBLE)
        decisive += [f"{moved} {held.format('go on moving')}, which rest in the equation"] * (moved > 0)
        if decisive:
            return STEP, ", and ".join(decisive)
        unlike = sum(stepped != exact for stepped, exact in pairs)
        decisive = [f"{states}, more than {CLOSE:.0%}{hint}"] * (apart > CLOSE)
        decisive += [f"{unlike} {held.format('come to something else than in the equation')}"] * (unlike > 0)
        if decisive:
            return NEARBY, ", and ".join(decisive)
        alike = ", and the same becomes of all while inputs are held" if pairs else ""
        return EQUATION, f"{states}, at most {CLOSE:.0%}{hint}{alike}"

    def _error_of_share(self) -> float:
        """Return the standard error of the states' distance as a share, were sequences drawn anew; 0 of one sequence."""
        squares = self.by_sequence.square()
        if len(squares) < 2 or not bool(squares.isfinite().all()) or not float(squares.mean()):
            return 0.0
        return self.refinement.share * float(squares.std() / squares.mean()) / (2 * math.sqrt(len(squares)))

    def _pairs(self) -> list[tuple[str, str]]:
        return [] if self.held is None else list(zip(*self.held, strict=True))

    @property
    def reasons(self) -> tuple[str, ...]:
        parts = [self._of_states(), self._of_sequences(), self._of_g_dt(), self._of_modes(), self._of_held()]
        return tuple(filter(None, [*parts, *map(str, self.noise or ())]))

    def _of_states(self) -> str:
        found = self.refinement
        first = f" (of the first of {self.modules} modules)" if self.modules > 1 else ""
        lost = [int((~each.isfinite()).sum()) for each in (self.by_unit, self.by_sequence)]
        if lost[0]:
            said = f"From the equation's states {lost[0]} of {len(self.by_unit)} units are without bound, in {lost[1]} of "
            said += f"{len(self.by_sequence)} sequences{first}."
        else:
            worst = int(self.by_unit.argmax())
            said = f"From the equation's states unit {worst} is the furthest, by {share_in_words(float(self.by_unit[worst]))}; "
            near, far = (share_in_words(float(end)) for end in (self.by_sequence.min(), self.by_sequence.max()))
            said += f"sequences are {near} to {far} away{first}."
        finer = zip(found.orders, found.drift[1:], strict=True)
        known = [order for order, drift in finer if math.isfinite(order) and drift > found.rounding]
        if known:
            said += f" Distances fall at order {known[0]:.2f} in the first halving of the step and {known[-1]:.2f} in the last"
            said += f"; the step's own is {found.order}." if found.converges else (
                f", not the step's own {found.order}: its steps are too long, or the field is not smooth or chaotic, and what "
                "they are at shorter steps does not follow."
            )  # fmt: skip
        if found.metrics is not None and found.exact_metric is not None:
            said += f" The metric is {found.metrics[0]:.4g} as stepped and {found.exact_metric:.4g} when solved."
        return said

    def _of_sequences(self) -> str:
        known, size, said = self.scores, len(self.by_sequence), ""
        if known.changed is not None:
            others = known.changed > 0
            names = ", ".join(map(str, others.nonzero()[:NAMED, 0].tolist())) + ", ..." * (int(others.sum()) > NAMED)
            said = f"{int(others.sum())} of {size} sequences answer otherwise when solved" + f" ({names})" * bool(others.any())
            if 0 < int(others.sum()) < size:
                apart = self.by_sequence.cpu()
                middle, rest = (share_in_words(float(apart[which].median())) for which in (others, ~others))
                said += f", at the median {middle} away, the rest {rest}"
            said += ". "
        if known.stepped is not None:
            lower, higher, chance = known.uneven
            said += f"The metric is lower when solved in {lower} of {size} sequences and higher in {higher}"
            said += f", which chance makes as uneven with p = {chance:.2g}." if lower + higher else "."
        return said.strip()

    def _of_g_dt(self) -> str:
        if self.g_dt is None or self.above is None:
            return "" if self.noise else "The field declares no rate, so that g dt is not known."
        finite = self.g_dt.nan_to_num(-math.inf, math.inf)
        at, unit = divmod(int(finite.argmax()), finite.shape[1])
        beyond = " and ".join(f"above {k + 1} in {float(self.above[:, k].mean()):.2%}" for k in range(2))
        return (
            f"g dt is at most {float(finite.max()):.3g}, in unit {unit} at step {at}; {beyond} of all steps, units and sequences."
        )

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
            return (
                "What becomes of states while inputs are held is not known: with noise, delays, resets or several modules, and "
                "where the equation leaves all bounds from where the steps came to."
            )
        counted = Counter(pairs).most_common()
        parts = [
            f"{count} come to {stepped} under the steps and to {exact} in the equation" for (stepped, exact), count in counted
        ]
        factors = [factor.real for factor in self.refinement.factors or () if factor.real < -1 and not factor.imag]
        swings = f" Where it rests, a step multiplies a difference by {min(factors):.3g}." if factors else ""
        return f"With the last input held, of {len(pairs)} sequences {'; '.join(parts)}.{swings}"

    @property
    def cure(self) -> Substitute | None:
        """The cheapest step that brings the weights within 1 % of their equation, with more of its steps too: one in which errors
        happen to cancel is none."""
        far = [other for other in self.others if not other.share <= CLOSE]
        near = [
            other
            for other in self.others[1:]
            if not any(one.step == other.step and one.substeps >= other.substeps for one in far)
        ]
        return min(near, key=lambda other: other.evaluations, default=None)

    @property
    def advice(self) -> str:
        if self.verdict == EQUATION:
            return "Nothing is to be done: on such data the weights mean the same under any accurate step or solver."
        if (best := self.cure) is None:
            other = "with a step of higher strong order" if self.noise else "as a ContinuousRNN"
            return (
                "No step that was tried comes within 1 %. Keep the step for these weights, which use it; for a model that is its "
                f"equation train with more `substeps`, or {other}, and look again."
            )
        # Of a step of the library's, by name, or of the model's own as it prints.
        name = best.step if best.step.endswith(")") else repr(best.step)
        score = ""
        if best.score is not None and self.refinement.metrics is not None:
            score = f", where the metric is {best.score:.4g} for {self.refinement.metrics[0]:.4g}"
        return (
            f"step={name}, substeps={best.substeps} brings these weights within 1 % of their equation for {best.evaluations} "
            f"evaluations of the field a sample{score}. Run by it what was trained as its equation; for a model that is its "
            "equation train by it, and look again, for training moves the weights; weights that use their step are kept with it."
        )

    def __str__(self) -> str:
        scored = self.refinement.metrics is not None
        lines = [f"{'step':<24}{'substeps':>9}{'evaluations':>13}{'states apart':>14}" + (f"{'metric':>11}" if scored else "")]
        for other in self.others:
            score = "" if other.score is None else f"{other.score:>11.4g}"
            share = "refused" if other.refused else share_in_words(other.share) if math.isfinite(other.share) else "diverges"
            lines.append(f"{other.step:<24}{other.substeps:>9}{other.evaluations:>13}{share:>14}{score}")
        said = f"The model as stepped by {self.step}: {self.verdict}, for {self.decided}."
        return "\n".join([said, *self.reasons, "", *lines, "", self.advice])

    def figure(self) -> ShownFigure:
        """Draw g dt over time and by unit, the modes, and distances by step, time, unit and sequence. Raises:
        MissingPackageError."""
        with needed_by("Breakdown.figure"):
            from discretize.analysis.breakdown.figure import drawn  # noqa: PLC0415 - Matplotlib
        return drawn(self)
