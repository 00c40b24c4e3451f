r"""Counts of the steps of one module, unit by unit: by region of R(-g dt), by size of g dt, and the largest of them.

Steps are kept as they come, and counted many at a time: an accelerator is waited for once in `STEPS_AT_ONCE` steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from discretize.analysis.stability import MONOTONE, REGIONS, regions_of_factors
from discretize.errors import StepWarning, warn_user
from discretize.steps.step import Step
from discretize.text_report import TextReport

__all__ = ["LongStep", "Record"]

STEPS_AT_ONCE = 128
FIRST_DECADE, LAST_DECADE, BINS_A_DECADE = -6, 4, 8


@dataclass(frozen=True)
class LongStep:
    r"""A g dt of a record, its largest say, and where: `unit`; `sample` of the batch; `time` at which the step began, counted
    from the start of the sequence; `call`, the number of the call of the model, from 0."""

    g_dt: float
    unit: int
    sample: int
    time: float
    call: int

    def __str__(self) -> str:
        return f"in unit {self.unit}, sample {self.sample}, at time {self.time:.5g} of call {self.call}"


class _Taken(NamedTuple):
    """A step of a batch: g dt (samples, state), the time it began at, and which samples it moved (samples,): others are over."""

    g_dt: Tensor
    began: float | Tensor
    moved: Tensor


class Record(TextReport):
    r"""The steps of one module, counted.

    `counts` (state, 4): steps by unit and region, in the order of `REGIONS`; `histogram` (state, bins): steps by unit and
    size of g dt, on `edges`, of which the first bin begins at 0 and the last one has no end; `largest`: the one with the largest
    finite g dt; `lost`: the first one whose g dt is infinite or no number, since weights or states had left all bounds. What is
    beyond the end of a sequence, padding, is no step.
    """

    name: str
    step: Step
    every: int

    def __init__(self, name: str, step: Step, warn_from: int, every: int = 1) -> None:
        self.name, self.step, self.every = name, step, every
        self.calls: int = -1
        self.time: float | Tensor = 0.0  # (samples,) where each has steps of its own length
        decades = torch.arange(FIRST_DECADE * BINS_A_DECADE, LAST_DECADE * BINS_A_DECADE + 1, dtype=torch.float64, device="cpu")
        self.edges: Tensor = 10 ** (decades / BINS_A_DECADE)
        self._largest: LongStep | None = None
        self._lost: LongStep | None = None
        self._order: Tensor | None = None  # of the samples of a call among the caller's
        self._counts = torch.zeros(0, len(REGIONS), dtype=torch.int64, device="cpu")
        self._histogram = torch.zeros(0, len(self.edges) + 1, dtype=torch.int64, device="cpu")
        self._uncounted: list[_Taken] = []
        self._warn_from, self._warned = warn_from, MONOTONE

    @property
    def counts(self) -> Tensor:
        """Steps by unit and region: (state, 4)."""
        self.count()
        return self._counts

    @property
    def histogram(self) -> Tensor:
        """Steps by unit and size of g dt: (state, bins)."""
        self.count()
        return self._histogram

    @property
    def largest(self) -> LongStep | None:
        """The step with the largest finite g dt, None before the first."""
        self.count()
        return self._largest

    @property
    def lost(self) -> LongStep | None:
        """The first step whose g dt is not finite, None where all are."""
        self.count()
        return self._lost

    @property
    def shares(self) -> dict[str, float]:
        """The share of all steps in each region."""
        counts = self.counts.sum(0)
        return {region: float(n) / max(1, int(counts.sum())) for region, n in zip(REGIONS, counts, strict=True)}

    def quantile(self, share: float) -> Tensor:
        """Return for each unit a g dt that `share` of its steps do not exceed, to the width of a bin: (state,)."""
        reached = self.histogram.cumsum(-1) >= share * self.histogram.sum(-1, keepdim=True)
        ends = torch.cat([self.edges, torch.tensor([math.inf], dtype=torch.float64, device="cpu")])
        return ends[reached.long().argmax(-1)]

    def __str__(self) -> str:
        if self.largest is None and self.lost is None:
            return f"{self.name}: no steps yet"
        steps = f"{self.name}: {int(self.counts.sum())} steps of {self.step!r}"
        if self.largest is not None and self.largest.g_dt == 0 and self.lost is None:
            return (
                f"{steps}: g dt is not known, for the field declares no leak; its class may read one, `leak = ctrnn.traced_leak`"
            )
        steps += ": " + ", ".join(f"{region} {share:.2%}" for region, share in self.shares.items())
        lines = []
        if self.largest is not None:
            lines.append(f"; g dt at most {self.largest.g_dt:.3g}, {self.largest}")
        if self.lost is not None:
            lines.append(f"; g dt is {'infinite' if self.lost.g_dt > 0 else 'not a number'} from there on: {self.lost}")
        return "".join([steps, *lines])

    def begin(self, order: Tensor | None = None) -> None:
        """Begin a new call of the module, and its time anew; `order`: which of the caller's sequences each one is."""
        self.count()
        self.calls, self.time, self._order = self.calls + 1, 0.0, order

    @property
    def active(self) -> bool:
        """Whether the steps of this call are recorded: one call in `every` is."""
        return self.calls % self.every == 0 or self.calls < 0

    def add(self, g_dt: Tensor, length: float | Tensor) -> None:
        """Add a step of this length, or (samples,) lengths; a sample whose length is 0 takes no step."""
        self.calls = max(self.calls, 0)
        flat = g_dt.reshape(-1, g_dt.shape[-1])
        if isinstance(self.time, Tensor) and len(self.time) != len(flat):
            self.time = 0.0  # a cell alone, called with another batch
        if self._uncounted and (self._uncounted[0].g_dt.shape != flat.shape or len(self._uncounted) >= STEPS_AT_ONCE):
            self.count()
        self._uncounted.append(_Taken(flat, self.time, (flat.new_zeros(len(flat)) + length) > 0))
        self.time = self.time + length

    def count(self) -> None:
        """Count the steps added since the last time; warn if some are outside."""
        if not self._uncounted:
            return
        steps, self._uncounted = self._uncounted, []
        g_dt, moved = torch.stack([step.g_dt for step in steps]), torch.stack([step.moved for step in steps]).cpu()
        regions = regions_of_factors(self.step.stability(-g_dt), g_dt).cpu()  # (steps, samples, state)
        regions, g_dt = regions.masked_fill(~moved[..., None], MONOTONE), g_dt.cpu()
        if len(self._counts) != g_dt.shape[-1]:
            self._counts = torch.zeros(g_dt.shape[-1], len(REGIONS), dtype=torch.int64, device="cpu")
            self._histogram = torch.zeros(g_dt.shape[-1], len(self.edges) + 1, dtype=torch.int64, device="cpu")
        self._counts += _frequencies(regions[moved], len(REGIONS))
        self._histogram += _frequencies(torch.bucketize(g_dt[moved], self.edges.to(g_dt.dtype)), len(self.edges) + 1)
        there = moved[..., None] & g_dt.isfinite()
        if bool(there.any()):
            longest = self._at(g_dt, int(g_dt.masked_fill(~there, -1.0).argmax()), steps)
            if self._largest is None or longest.g_dt > self._largest.g_dt:
                self._largest = longest
        lost = moved[..., None] & ~g_dt.isfinite()
        if self._lost is None and bool(lost.any()):
            self._lost = self._at(g_dt, int(lost.flatten().long().argmax()), steps)
        worst = int(regions.max())
        # Once for leaving the monotone region, and once more for what is worse.
        if worst >= self._warn_from and worst > self._warned:
            self._warned = worst
            first = self._at(g_dt, int((regions == worst).flatten().long().argmax()), steps)
            self._warn(REGIONS[worst], first, float((regions[moved] >= self._warn_from).double().mean()))

    def _at(self, g_dt: Tensor, index: int, steps: list[_Taken]) -> LongStep:
        k, sample, unit = (int(i) for i in torch.unravel_index(torch.tensor(index, device="cpu"), g_dt.shape))
        began = steps[k].began
        time = float(began[sample]) if isinstance(began, Tensor) else began
        value = float(g_dt[k, sample, unit])
        return LongStep(value, unit, sample if self._order is None else int(self._order[sample]), time, self.calls)

    def _warn(self, region: str, first: LongStep, share: float) -> None:
        g_dt = "is not a number" if math.isnan(first.g_dt) else f"= {first.g_dt:.4g}"
        warn_user(
            f"{self.name}: a step of {self.step!r} is {region} where the equation is not: g dt {g_dt} {first} "
            f"({share:.1%} of the steps just taken are outside). Take more substeps, or a step that follows any rate, such as "
            "ExponentialEuler.",
            StepWarning,
        )


def _frequencies(values: Tensor, below: int) -> Tensor:
    """Count how often each whole number occurs in a column: (steps, state) -> (state, below)."""
    state = values.shape[-1]
    places = (values + below * torch.arange(state, device="cpu")).flatten()
    return torch.bincount(places, minlength=state * below).reshape(state, below)
