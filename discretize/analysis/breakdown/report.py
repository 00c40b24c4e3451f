r"""Is a trained model its equation, or its step? By unit, by time, by other steps, and while inputs are held.

its equation    states within 1 % of their spread of the equation's, and the same becomes of them while inputs are held
a nearby one    within 10 %
the step's      further, or what moves while inputs are held moves by the step alone
diverges        the steps leave all bounds where the equation does not
"""

from __future__ import annotations

import copy
import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.extras import needed_by
from discretize.analysis.breakdown.held import CHAOS, CYCLE, NO_BOUND, REST, fates
from discretize.analysis.breakdown.modes import Modes, modes_along
from discretize.analysis.breakdown.moments import Moments, moments
from discretize.analysis.breakdown.substitutes import STEPS, Substitute, own_steps, substitutes
from discretize.analysis.breakdown.taken import StepsTaken, watched
from discretize.analysis.refine import FINER, refine, root_mean_square, run_with, solved
from discretize.analysis.refinement import CLOSE, VISIBLE, Refinement
from discretize.errors import StepWarning
from discretize.sequences.batches import Batch
from discretize.sequences.rnn import DiscreteRNN

if TYPE_CHECKING:
    from discretize.analysis.drawing import ShownFigure

__all__ = ["VERDICTS", "Breakdown", "breakdown"]

VERDICTS = ("its equation", "a nearby one", "the step's", "diverges")
EQUATION, NEARBY, STEP, DIVERGES = VERDICTS
SUBSTEPS = (1, 2, 4)  # of other steps
UNITS = 3  # that are named
RTOL, ATOL = 1e-8, 1e-9  # of the solution, the second in sizes of the states, which are found by a
COARSE = 1e-3  # solution


@dataclass(frozen=True, eq=False)
class Breakdown:
    r"""Where a model's steps stop being its equation, on data; `print` says it in words, `figure()` draws it.

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
        """How many sequences move under the steps while the equation rests."""
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


@torch.no_grad()
def breakdown(
    model: nn.Module,
    batch: Batch | Tensor | tuple[Any, ...],
    targets: Any = None,
    metric: Callable[..., float] | None = None,
    halvings: int = 4,
    steps: Sequence[str] = STEPS,
) -> Breakdown:
    r"""Say of a trained model whether it is its equation on data, or one that its step makes.

    Its weights stay. It is run as it is, with steps of dt/2, dt/4, ..., solved, and under other steps; small differences are
    followed along the data, and what becomes of states while the last inputs are held.

    Args:    model: a `DiscreteRNN`, or a module with some in it; batch: a `Batch`, or what it is called with, as a tensor or a
             tuple; targets: what the metric compares with, of a `Batch` its own; metric: metric(outputs, targets) -> a number, or
             metric(outputs) without targets; if not given, whole numbers mean accuracy, of outputs (..., classes), others the
             mean squared error; halvings: of the step, see `refine`; steps: names of others to run the weights under.
    Returns: a `Breakdown`.
    Raises:  TypeError, ValueError for what cannot be looked at so, noise and delays among it; SolverError where the equation has
             no solution on the data.
    Source:  docs/derivations.md, results 3 and 6; Kreiss matrices and non-normal growth: Trefethen and Embree 2005, Spectra and
             Pseudospectra, ch. 14.
    """
    checks.instance("model", model, nn.Module)
    if isinstance(batch, Batch):
        counts, targets = batch.counts, batch.targets if targets is None else targets
        data: tuple[Any, ...] = (batch.xs,)
        named = {name: value for name, value in (("ts", batch.ts), ("lengths", batch.lengths)) if value is not None}
    else:
        data, named, counts = batch if isinstance(batch, tuple) else (batch,), {}, None
    call = partial(model, *data, **named)
    parts = [part for part in model.modules() if isinstance(part, DiscreteRNN)]
    if not parts:
        raise ValueError(
            "`model` has no discretize.DiscreteRNN in it, so that there are no steps to look at. For the weights of a model that "
            "is solved: `model.under(discretize.DiscreteRNN(model.field))`."
        )
    score = _metric(targets, metric, counts, padded="lengths" in named or len(data) > 2)
    training = {part: part.training for part in model.modules()}
    kept: list[Any] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepWarning)
        try:
            model.eval()
            dice = torch.get_rng_state()
            noisy = any(part.noisy for part in parts)
            with nullcontext(StepsTaken()) if noisy else watched(parts[0]) as taken:
                stepped, _ = run_with(parts, call, dice, over_time=True)
            with solved(parts, COARSE, ATOL, 1):
                coarse, _ = run_with(parts, call, dice)
            size = root_mean_square([states.double() for states in coarse])
            atol = ATOL * size if 0 < size < math.inf else ATOL
            refinement = refine(model, *data, metric=score, halvings=halvings, rtol=RTOL, atol=atol, held_states=kept, **named)
            torch.set_rng_state(dice)
            with solved(parts, RTOL, atol, FINER << halvings):
                exact, _ = run_with(parts, call, dice, over_time=True)
                flat, _ = run_with(parts, call, dice)
            noise = moments(parts[0], call, halvings, exact[0], dice) if noisy else None
            others = own_steps(parts, refinement)
            if not noisy:
                others += substitutes(parts, call, flat, refinement.spread, score, steps, SUBSTEPS, dice)
        finally:
            for part, was in training.items():
                part.training = was
        off = ((stepped[0] - exact[0]).double() / (refinement.spread or 1.0)).square()
        held = kept[0] if kept else None
        first = parts[0]
        words = None
        if held is not None:
            words = fates(held, copy.deepcopy(first.field).double(), first, refinement.spread)
    g_dt = torch.stack(taken.g_dt) if taken.g_dt else torch.zeros(1, 1, 1)
    known = bool((g_dt.nan_to_num(1.0) != 0).any())
    live = ~g_dt.isnan()
    over = [((g_dt > limit) & live).sum((0, 1)) / live.sum((0, 1)).clamp(min=1) for limit in (1.0, 2.0)]
    return Breakdown(
        step=repr(first.step),
        refinement=refinement,
        g_dt=g_dt.nan_to_num(-math.inf).amax(1) if known else None,
        above=torch.stack(over, 1) if known else None,
        modes=modes_along(first.field, first.step, taken.places),
        others=() if noisy else tuple(others),
        over_time=off.nanmean((1, 2)).sqrt(),
        by_unit=off.nanmean((0, 1)).sqrt(),
        by_sequence=off.nanmean((0, 2)).sqrt(),
        held=None if words is None else (tuple(words[0]), tuple(words[1])),
        noise=noise,
    )


def _metric(
    targets: Any, metric: Callable[..., float] | None, counts: Tensor | None, padded: bool
) -> Callable[[Any], float] | None:
    """Return what scores the model's outputs."""
    if metric is not None:
        if not callable(metric):
            raise TypeError(f"`metric` must be a function of the outputs and the targets, got {type(metric).__name__}.")
        return metric if targets is None else lambda outputs: metric(outputs, targets)
    if targets is None:
        return None
    checks.is_tensor("targets", targets)
    if padded and counts is None:
        raise ValueError(
            "`targets` of sequences of different lengths need a `metric`: what counts beyond an end is not known here."
        )
    classes = not targets.is_floating_point()

    def score(outputs: Any) -> float:
        if not isinstance(outputs, Tensor):
            raise TypeError(f"`model` returns {type(outputs).__name__}, of which no score is known; give a `metric`.")
        shape = outputs.shape[:-1] if classes else outputs.shape
        if shape != targets.shape:
            raise ValueError(
                f"`targets` are {tuple(targets.shape)} and the outputs {tuple(outputs.shape)}; give a `metric`, or targets of "
                f"shape {tuple(shape)}."
            )
        right = outputs.argmax(-1) == targets if classes else (outputs - targets.to(outputs)).square()
        if counts is None:
            return float(right.double().mean())
        weights = counts.to(right.device).double().reshape(*counts.shape, *[1] * (right.dim() - counts.dim())).expand(right.shape)
        return float((right.double() * weights).nan_to_num(0.0).sum() / weights.sum())

    return score
