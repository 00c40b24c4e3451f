"""What a solver runs along, keeps between calls, and offers: a segment, a state, an engine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from discretize.solvers.embedded import Slope
from discretize.solvers.segments import Chain, Segment
from discretize.solvers.statistics import SolverStats

__all__ = ["MOST_UNSEEN", "Engine", "SegmentSlope", "SolverState", "column", "counting_apart", "waits_for"]

MOST_UNSEEN = 16  # rounds of steps, or segments of fixed steps, between two looks at a GPU


class SegmentSlope(Slope, Protocol):
    """dh/dt on an interval on which it is smooth, for all samples or for `rows` of them; a `Segment`, or a step run backwards."""

    @property
    def lengths(self) -> np.ndarray:
        """As numbers, of all samples or one for all."""

    def length(self, device: torch.device) -> Tensor:
        """() or (rows, 1), with a gradient where `differentiable`."""

    def times_on(self, device: torch.device) -> torch.device:
        """Where tau has to be for states on a device."""

    @property
    def differentiable(self) -> bool: ...
    @property
    def rows(self) -> Tensor | None: ...
    def of(self, rows: Tensor) -> SegmentSlope: ...
    def when(self, tau: float, sample: int | None) -> float: ...
    def read(self, tau: Tensor) -> Tensor: ...


@dataclass
class SolverState:
    """Where a solve is: a segment, how far into it each sample has come, and the step each would take next."""

    segment: int
    tau: np.ndarray
    step: np.ndarray | None = None
    held_back: np.ndarray | None = None  # whose last step was rejected
    tried: np.ndarray | None = None  # steps in this segment
    failed: np.ndarray | None = None  # who is left behind where it failed; None: a failure ends the solve
    unseen: int = 1  # rounds of steps that the next look at a device may wait for

    def copy(self) -> SolverState:
        names = ("tau", "step", "held_back", "tried", "failed")
        return replace(self, **{name: getattr(self, name).copy() for name in names if getattr(self, name) is not None})


class Engine(Protocol):
    """Carries states through the segments of a chain, and counts."""

    name: str  # in a solve's stats
    counts: SolverStats

    def start(self, chain: Chain, batch: int) -> SolverState:
        """Before the first step."""

    def segment(self, segment: Segment, state: SolverState, h: Tensor, limit: float = math.inf) -> tuple[Tensor, int]:
        """On to the end of the segment, or until `limit` steps were tried; the states there, and the tries."""


@contextmanager
def counting_apart(engine: Engine) -> Iterator[SolverStats]:
    """Within, the engine counts into statistics of their own, which are given."""
    kept, engine.counts = engine.counts, SolverStats(len(engine.counts.accepted))
    try:
        yield engine.counts
    finally:
        engine.counts = kept


def column(values: np.ndarray, like: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """(rows,) numbers as (rows, 1), like a tensor's dtype and device unless said otherwise."""
    # A copy: numbers kept for a gradient must not change with the state they come from.
    numbers = torch.from_numpy(np.array(values))[:, None]
    return numbers if like is None else numbers.to(device=like.device, dtype=dtype or like.dtype, non_blocking=True)


def waits_for(device: torch.device) -> bool:
    """Whether a look at a number has to wait for the device: it works on by itself."""
    return device.type != "cpu"
