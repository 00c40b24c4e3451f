r"""Sums up g dt, rate times length, of the steps in which a model is trained: in the rows of metrics.csv, and of all of them.

g_dt_median, g_dt_high, g_dt_largest    over units, samples and sequences: half, 99 % and all of the finite ones are not above
g_dt_unit                               the unit of the largest
capped                                  the share above the cap of the step, which are shortened; a step without a cap has none

Of a field that declares no leak nothing is known: all its g dt are 0, and it has no row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn

from discretize.sequences.overshoot import OvershootWatch

__all__ = ["COLUMNS", "LEVELS", "GDtSummary"]

COLUMNS = ("g_dt_median", "g_dt_high", "g_dt_largest", "g_dt_unit", "capped")
EVERY = 5  # steps, of which one is looked at: that takes a tenth of a step of a small model
LEVELS = (1.0, 2.0)  # from where on Euler's step overshoots, and diverges
MOST = 1024  # numbers of which the median is taken: to sort all takes as long as the step
GOLDEN = (5**0.5 - 1) / 2  # whose multiples are spread evenly over units, samples and sequences


class GDtSummary:
    """Is called with g dt (n, state) of what a watch looks at; cleared before each step of training.

    Args:    cap: of the step map, infinite for one that has none; watch: that of the module, None for one without.
    Attributes: largest, unit: the largest finite g dt since it was cleared, and of which unit; finite: whether all were; passed:
             level -> step, unit and g dt of the first step of training whose largest is above it, for those that were passed.
    """

    def __init__(self, cap: float = math.inf, watch: OvershootWatch | None = None) -> None:
        self.cap, self.watch = cap, watch
        self.passed: dict[float, tuple[int, int, float]] = {}
        self.clear()

    @classmethod
    def of(cls, rnn: nn.Module) -> Self:
        """Make that of a sequence module."""
        return cls(getattr(getattr(rnn, "step", None), "cap", math.inf), getattr(rnn, "watch", None))

    def due(self, step: int) -> bool:
        """Return whether to look after so many steps: at each where g dt was above 1 before, else at one in some."""
        return step % EVERY == 0 or self.largest > 1

    @contextmanager
    def looking(self, step: int) -> Iterator[None]:
        """Sum up g dt of the calls of the module within this context, those of this step of training."""
        self.clear()
        if self.watch is not None:
            self.watch.listener = self
        try:
            yield
        finally:
            if self.watch is not None:
                self.watch.listener = None
            self._note(step)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"last_g_dt": self.largest, "passed": {str(level): list(where) for level, where in self.passed.items()}}

    def load(self, state: Mapping[str, Any]) -> None:
        """Restore it, also of a checkpoint without."""
        self.largest = state.get("last_g_dt", 0.0)
        self.passed = {float(level): tuple(where) for level, where in state.get("passed", {}).items()}

    def clear(self) -> None:
        self.count = self.capped = 0
        self.largest, self.unit, self.finite, self.known = 0.0, 0, True, False
        self.values: list[Tensor] = []

    def __call__(self, g_dt: Tensor) -> None:
        if not g_dt.numel():
            return
        self.known = self.known or bool((g_dt != 0).any())
        finite = g_dt.isfinite()
        known = g_dt.where(finite, -math.inf)
        largest, place = known.flatten().max(0)
        if math.isfinite(float(largest)) and (float(largest) > self.largest or not any(map(len, self.values))):
            self.largest, self.unit = float(largest), int(place) % g_dt.shape[-1]
        self.finite = self.finite and bool(finite.all())
        self.count += g_dt.numel()
        self.capped += int((g_dt > self.cap).sum())
        some = known.flatten()
        if len(some) > MOST:
            some = some[(torch.arange(MOST, dtype=torch.float64, device=some.device) * GOLDEN % 1 * len(some)).long()]
        self.values.append(some[some.isfinite()].float())

    def _note(self, step: int) -> None:
        """Note which levels the g dt of this step of training is the first to pass."""
        for level in LEVELS:
            if self.largest > level:
                self.passed.setdefault(level, (step, self.unit, self.largest))

    def row(self) -> dict[str, float]:
        """Return the columns of a row; {} where nothing was looked at, or the field declares no leak."""
        if not self.known:
            return {}
        values = torch.cat(self.values).sort().values
        median, high = (float(values[int(share * (len(values) - 1))]) if len(values) else math.nan for share in (0.5, 0.99))
        numbers = (median, high, self.largest, self.unit, self.capped / self.count)
        return {name: float(f"{number:.6g}") for name, number in zip(COLUMNS, numbers, strict=True) if math.isfinite(number)}
