"""What a solver runs along, keeps between calls, and offers: segments, a state, an engine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from discretize.solvers.embedded import Slope
from discretize.solvers.segments import Chain
from discretize.solvers.statistics import SolverStats

__all__ = ["Engine", "SegmentSlope", "Segments", "SolverState", "column"]


class Segments(Protocol):
    """Consecutive intervals on which dh/dt is smooth; a `Chain`, or a step of one run backwards."""

    @property
    def own(self) -> bool: ...
    @property
    def differentiable(self) -> bool: ...
    @property
    def lengths(self) -> np.ndarray: ...
    def segment(self, j: int, rows: Tensor | None = None) -> SegmentSlope: ...
    def time(self, j: int, tau: float, sample: int | None) -> float: ...


class SegmentSlope(Slope, Protocol):
    """dh/dt on segment `number`, for all samples or for `rows` of them."""

    @property
    def chain(self) -> Segments: ...
    @property
    def number(self) -> int: ...
    @property
    def rows(self) -> Tensor | None: ...
    @property
    def length(self) -> Tensor: ...
    def read(self, tau: Tensor) -> Tensor: ...


@dataclass
class SolverState:
    """Where a solve is: a segment, how far into it each sample has come, and the step each would take next."""

    segment: int
    tau: np.ndarray
    step: np.ndarray | None = None
    held_back: np.ndarray | None = None  # whose last step was rejected

    def copy(self) -> SolverState:
        step, held_back = (None if of_all is None else of_all.copy() for of_all in (self.step, self.held_back))
        return SolverState(self.segment, self.tau.copy(), step, held_back)


class Engine(Protocol):
    """Carries states through the segments of a chain, and counts."""

    counts: SolverStats

    def start(self, chain: Chain, batch: int) -> SolverState:
        """Before the first step."""

    def segment(self, chain: Chain, state: SolverState, h: Tensor, limit: float = math.inf) -> tuple[Tensor, int]:
        """On to the end of the state's segment, or until `limit` steps were tried; the states there, and the tries."""


def column(values: np.ndarray, like: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """(rows,) numbers as (rows, 1), like a tensor's dtype and device unless said otherwise."""
    # A copy: numbers kept for a gradient must not change with the state they come from.
    numbers = torch.from_numpy(np.array(values))[:, None]
    return numbers if like is None else numbers.to(device=like.device, dtype=dtype or like.dtype)
