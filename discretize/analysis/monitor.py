r"""A monitor that rides along: how long the steps of a model are for what they step, unit by unit.

    g dt    the field's leak times the length of the step, for every unit of every sample of every step
    region  by R(-g dt): monotone, overshooting, marginal, divergent

It watches the step maps of the `DiscreteCell`s and `DiscreteRNN`s in a model, in training and inference alike, and changes
nothing. Off, nothing of it is left in the model.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

import torch
from torch import Tensor, nn

from ctrnn import VectorField, checks
from discretize.analysis.stability import DIVERGENT, MONOTONE, OVERSHOOTING, REGIONS, regions_of_factors
from discretize.sequences.cell import DiscreteCell
from discretize.sequences.rnn import DiscreteRNN
from discretize.steps.step import Step

__all__ = ["LongStep", "Monitor", "Record", "StepWarning"]

MOST_WAITING = 128  # steps that are looked at together
FIRST_DECADE, LAST_DECADE, BINS_A_DECADE = -6, 4, 8
WARN_FROM = {"overshooting": OVERSHOOTING, "divergent": DIVERGENT, "never": len(REGIONS)}


class StepWarning(UserWarning):
    """Steps have left the region in which they behave as the equation does."""


@dataclass(frozen=True)
class LongStep:
    r"""The largest g dt seen, and where: `unit`; `sample` of the batch; `time` at which the step began, counted from the
    start of the sequence; `call`, the number of the call of the model, from 0."""

    g_dt: float
    unit: int
    sample: int
    time: float
    call: int


class Record:
    r"""What a monitor has seen of one module.

    `counts` (state, 4): steps by unit and region, in the order of `REGIONS`; `histogram` (state, bins): steps by unit and
    size of g dt, on `edges`, of which the first bin begins at 0 and the last one has no end; `largest`: the worst step.
    """

    def __init__(self, name: str, step: Step, warn_from: int, every: int = 1) -> None:
        self.name, self.step, self.every = name, step, every
        self.calls = -1
        self.time: float | Tensor = 0.0  # (samples,) where each has steps of its own length
        self._largest: LongStep | None = None
        self._counts = torch.zeros(0, len(REGIONS), dtype=torch.int64)
        self._histogram = torch.zeros(0, 0, dtype=torch.int64)
        self._waiting: list[Tensor] = []
        self._times: list[float | Tensor] = []
        self._taken: list[Tensor] = []
        self._warn_from, self._warned = warn_from, len(REGIONS)
        decades = torch.arange(FIRST_DECADE * BINS_A_DECADE, LAST_DECADE * BINS_A_DECADE + 1, dtype=torch.float64)
        self.edges = 10 ** (decades / BINS_A_DECADE)

    @property
    def counts(self) -> Tensor:
        self.settle()
        return self._counts

    @property
    def histogram(self) -> Tensor:
        self.settle()
        return self._histogram

    @property
    def largest(self) -> LongStep | None:
        self.settle()
        return self._largest

    @property
    def shares(self) -> dict[str, float]:
        """The share of all steps in each region."""
        counts = self.counts.sum(0)
        return {region: float(n) / max(1, int(counts.sum())) for region, n in zip(REGIONS, counts, strict=True)}

    def quantile(self, share: float) -> Tensor:
        """For each unit a g dt that `share` of its steps do not exceed, to the width of a bin: (state,)."""
        reached = self.histogram.cumsum(-1) >= share * self.histogram.sum(-1, keepdim=True)
        ends = torch.cat([self.edges, torch.tensor([math.inf], dtype=torch.float64)])
        return ends[reached.long().argmax(-1)]

    def __str__(self) -> str:
        if self.largest is None:
            return f"{self.name}: no steps yet"
        shares = ", ".join(f"{region} {share:.2%}" for region, share in self.shares.items())
        worst = self.largest
        return (
            f"{self.name}: {int(self.counts.sum())} steps of {self.step!r}: {shares}; g dt at most {worst.g_dt:.3g}, in unit "
            f"{worst.unit}, sample {worst.sample}, at time {worst.time:.5g} of call {worst.call}"
        )

    def begin(self) -> None:
        """A new call of the module: its time begins anew."""
        self.settle()
        self.calls, self.time = self.calls + 1, 0.0

    @property
    def looking(self) -> bool:
        """Whether the steps of this call are looked at."""
        return self.calls % self.every == 0 or self.calls < 0

    def see(self, g_dt: Tensor, length: float | Tensor) -> None:
        """A step of this length, or (samples,) lengths; a sample that takes 0 takes no step."""
        self.calls = max(self.calls, 0)
        flat = g_dt.reshape(-1, g_dt.shape[-1])
        if isinstance(self.time, Tensor) and len(self.time) != len(flat):
            self.time = 0.0  # a cell that has come to another batch
        if self._waiting and (self._waiting[0].shape != flat.shape or len(self._waiting) >= MOST_WAITING):
            self.settle()
        self._waiting.append(flat)
        self._times.append(self.time)
        self._taken.append((flat.new_zeros(len(flat)) + length) > 0)
        self.time = self.time + length

    def settle(self) -> None:
        """Count what is waiting; warn if it is outside."""
        if not self._waiting:
            return
        seen, taken = torch.stack(self._waiting), torch.stack(self._taken).cpu()  # (steps, samples, state), (steps, samples)
        times, self._waiting, self._times, self._taken = self._times, [], [], []
        regions = regions_of_factors(self.step.stability(-seen), seen).cpu()
        seen = seen.cpu()
        state = seen.shape[-1]
        if len(self._counts) != state:
            self._counts = torch.zeros(state, len(REGIONS), dtype=torch.int64)
            self._histogram = torch.zeros(state, len(self.edges) + 1, dtype=torch.int64)
        self._counts += _counted(regions[taken], len(REGIONS))
        self._histogram += _counted(torch.bucketize(seen[taken], self.edges.to(seen.dtype)), len(self.edges) + 1)
        self._keep_the_largest(seen, times)
        self._warn(seen, regions, taken, times)

    def _keep_the_largest(self, seen: Tensor, times: list[float | Tensor]) -> None:
        found = self._at(seen, int(seen.nan_to_num(torch.inf).argmax()), times)
        if self._largest is None or not found.g_dt <= self._largest.g_dt:
            self._largest = found

    def _at(self, seen: Tensor, index: int, times: list[float | Tensor]) -> LongStep:
        k, sample, unit = (int(i) for i in torch.unravel_index(torch.tensor(index), seen.shape))
        time = times[k]
        time = float(time[sample]) if isinstance(time, Tensor) else time
        return LongStep(float(seen[k, sample, unit]), unit, sample, time, self.calls)

    def _warn(self, seen: Tensor, regions: Tensor, taken: Tensor, times: list[float | Tensor]) -> None:
        """Once for leaving the monotone region, and once more for what is worse."""
        worst = int(regions.max())
        already = self._warned if self._warned < len(REGIONS) else MONOTONE
        if worst < self._warn_from or worst <= already:
            return
        self._warned = worst
        first = self._at(seen, int((regions == worst).flatten().long().argmax()), times)
        share = float((regions[taken] >= self._warn_from).double().mean())
        warnings.warn(
            f"{self.name}: a step of {self.step!r} is {REGIONS[worst]} where the equation is not: g dt = {first.g_dt:.4g} in "
            f"unit {first.unit}, sample {first.sample}, at time {first.time:.5g} of call {first.call} ({share:.1%} of the steps "
            "just taken are outside). Take more substeps, or a step that follows any rate, such as ExponentialEuler.",
            StepWarning,
            stacklevel=2,
        )


def _counted(found: Tensor, kinds: int) -> Tensor:
    """(steps, state) of numbers below `kinds` -> how often each occurs, (state, kinds)."""
    state = found.shape[-1]
    places = (found + kinds * torch.arange(state)).flatten()
    return torch.bincount(places, minlength=state * kinds).reshape(state, kinds)


class _Watched(Step):
    """A step map with a record that is told of each step."""

    def __init__(self, step: Step, record: Record) -> None:
        self.step, self.record = step, record
        self.order, self.evaluations = step.order, step.evaluations  # type: ignore[misc]
        self.tangents, self.jacobians = step.tangents, step.jacobians  # type: ignore[misc]

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        self._look(field, projected, h, dt)
        return self.step.advance(field, projected, h, dt)

    def counted(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> tuple[Tensor, int]:
        self._look(field, projected, h, dt)
        return self.step.counted(field, projected, h, dt)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        return self.step.stability(z, leak)

    @torch.no_grad()
    def _look(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> None:
        if self.record.looking:
            length = dt.detach() if isinstance(dt, Tensor) else dt
            own = length.reshape(-1) if isinstance(length, Tensor) and length.dim() else float(length)
            self.record.see((dt * field.leak(projected, h)).detach(), own)

    def __repr__(self) -> str:
        return repr(self.step)


class Monitor:
    r"""Watches every `DiscreteCell` and `DiscreteRNN` in a model until `remove`, or as a context.

    Costs an evaluation of the leak and its counting for each step it looks at; a model that is not watched runs as if there
    were none. A leak of 0, that of a field which declares none, is always monotone: nothing is known of it.

    Args:    model: a module; warn: "overshooting" or "divergent", the first region of which a `StepWarning` tells, or "never";
             every: 1 to look at each call of the model, n to look at every n-th one.
    Attributes: records, a `Record` for each watched module, by its name in the model ("" for the model itself).
    Raises:  TypeError for what is no module; ValueError where there is nothing to watch, or another monitor does already.
    Source:  this project.
    """

    def __init__(self, model: nn.Module, warn: str = "overshooting", every: int = 1) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"`model` must be a torch.nn.Module, got {type(model).__name__}.")
        if warn not in WARN_FROM:
            raise ValueError(f"`warn` must be one of {', '.join(map(repr, WARN_FROM))}, got {warn!r}.")
        watched = {name: part for name, part in model.named_modules() if isinstance(part, DiscreteCell | DiscreteRNN)}
        if not watched:
            raise ValueError("`model` has no discretize.DiscreteCell or DiscreteRNN in it, so that there are no steps to watch.")
        taken = [name for name, part in watched.items() if isinstance(part.step, _Watched)]
        if taken:
            raise ValueError(f"`model` is watched already, in {', '.join(taken) or 'itself'}; `remove` that monitor first.")
        self.records: dict[str, Record] = {}
        self._undo: list[Callable[[], None]] = []
        for name, part in watched.items():
            self._watch(name, part, WARN_FROM[warn], checks.positive_size("every", every))

    def _watch(self, name: str, part: DiscreteCell | DiscreteRNN, warn_from: int, every: int) -> None:
        step, record = part.step, Record(name or type(part).__name__, part.step, warn_from, every)
        self.records[name] = record
        part.step = _Watched(step, record)
        self._undo.append(lambda: setattr(part, "step", step))
        if isinstance(part, DiscreteRNN):  # a cell alone is called once a step, and knows of no sequence
            self._undo.append(part.register_forward_pre_hook(lambda *_: record.begin()).remove)
            self._undo.append(part.register_forward_hook(lambda *_: record.settle()).remove)

    def remove(self) -> None:
        """Give the model its own steps back; what was seen stays."""
        for undo in self._undo:
            undo()
        self._undo.clear()
        for record in self.records.values():
            record.settle()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    def __str__(self) -> str:
        return "\n".join(map(str, self.records.values()))
