"""An engine carries states along segments; all engines share this state and these counts of a solve."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discretize.solvers.segments import Chain, RightHandSide

__all__ = ["MOST_UNSEEN", "Engine", "OnAttempt", "SolverState", "SolverStats", "column", "waits_for"]

OnAttempt = Callable[[float, Tensor, float, bool], None]  # (t, the state there, dt, whether accepted) of a step

MOST_UNSEEN = 16  # rounds of steps, or segments of fixed steps, between two looks at a GPU


@dataclass
class SolverState:
    """Holds the place of a solve: a segment, how far into it each sample has come, and the step each would take next."""

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


class SolverStats:
    r"""Counts calls of the field for the batch, and steps for each of its `rows`: the samples that step on their own, or 1."""

    def __init__(self, rows: int = 1) -> None:
        self.evaluations: int = 0  # calls of the field
        self.work: int = 0  # samples it was called with, all calls together
        self.accepted: np.ndarray = np.zeros(rows, dtype=np.int64)
        self.rejected: np.ndarray = np.zeros(rows, dtype=np.int64)
        self.forced: int = 0  # steps accepted at their minimum
        self.forced_at: tuple[float, float] | None = None  # the first of them, and its error in tolerances
        self.smallest: float | None = None
        self.smallest_at: float | None = None

    @property
    def attempted(self) -> np.ndarray:
        return self.accepted + self.rejected

    def call(self, calls: int, rows: int) -> None:
        self.evaluations += calls
        self.work += calls * rows

    def force(self, steps: int, at: float, error: float) -> None:
        self.forced += steps
        self.forced_at = self.forced_at or (at, error)

    def add(self, later: SolverStats) -> None:
        """Add the counts of a later part of the same solve."""
        self.evaluations, self.work = self.evaluations + later.evaluations, self.work + later.work
        self.accepted, self.rejected = self.accepted + later.accepted, self.rejected + later.rejected
        if later.forced_at is not None:
            self.force(later.forced, *later.forced_at)
        if later.smallest is not None and later.smallest_at is not None:
            self.smaller(later.smallest, later.smallest_at)

    def smaller(self, step: float, at: float) -> None:
        if self.smallest is None or step < self.smallest:
            self.smallest, self.smallest_at = step, at

    def stats(self, method: str) -> dict[str, Any]:
        """Return the numbers by the names in `Trajectory.stats`; of steps, those of the sample that took most."""
        busiest = int((attempted := self.attempted).argmax())
        return {
            "method": method,
            "nfe": self.evaluations,
            "nfe_samples": self.work,
            "nfe_backward": 0,  # added to in the backward pass, by whatever computes there
            "num_steps": int(attempted[busiest]),
            "num_accepted_steps": int(self.accepted[busiest]),
            "num_rejected_steps": int(self.rejected[busiest]),
            "num_forced_steps": self.forced,
            "smallest_step": self.smallest,
            "smallest_step_at": self.smallest_at,
            "steps_of_samples": attempted.tolist(),
            "accepted_steps_of_samples": self.accepted.tolist(),
            "rejected_steps_of_samples": self.rejected.tolist(),
            "hint": None,
            "engine": "steps",
            "engine_why": None,
        }


class Engine(ABC):
    """Carries states through the segments of a chain, and counts. `name`: in a solve's stats; `on_attempt` and
    `on_backward_attempt`: called after every step that was tried, of the solve and of its backward pass, where all samples
    step together; `look`: called before every round of steps or segment of fixed ones, says once that the solve takes long;
    `carried` (batch,): the steps to begin with, where they are chosen and the solve goes on from another; 0: to be guessed."""

    name = "steps"
    few = 1  # segments: fewer are stepped through sooner than a kernel is called
    look: Callable[[], bool] | None = None
    on_attempt: OnAttempt | None = None
    on_backward_attempt: OnAttempt | None = None
    carried: np.ndarray | None = None

    def __init__(self) -> None:
        self.counts: SolverStats = SolverStats()

    def start(self, chain: Chain, batch: int) -> SolverState:
        """Return the state before the first step; count anew."""
        self.counts = SolverStats(self.rows(chain, batch))
        return SolverState(0, np.zeros(len(self.counts.accepted)))

    def rows(self, chain: Chain, batch: int) -> int:
        """Return how many samples step on their own, 1 if all step together."""
        return batch if chain.own else 1

    @abstractmethod
    def segment(self, segment: RightHandSide, state: SolverState, h: Tensor, limit: float = math.inf) -> tuple[Tensor, int]:
        """Solve to the end of the segment, or until `limit` steps were tried; return the states there, and the tries."""

    def leaves(self, segment: RightHandSide, state: SolverState) -> bool:
        """Return whether all samples have come to the end of the segment, and set them to the start of the next."""
        if not bool((state.tau >= segment.lengths).all()):
            return False
        state.tau, state.held_back, state.tried = state.tau * 0.0, None, None
        return True

    def solve(
        self, chain: Chain, h: Tensor, state: SolverState, at_edge: Callable[[int, Tensor], object], limit: float = math.inf
    ) -> Tensor:
        """Solve to the end of the chain, or until `limit` steps were tried; call `at_edge(edge, h)` at every edge."""
        while state.segment < len(chain) and limit > 0:
            segment = chain.segment(state.segment)
            h, tries = self.segment(segment, state, h, limit)
            limit -= tries
            if self.leaves(segment, state):
                state.segment += 1
                at_edge(state.segment, h)
        return h

    @contextmanager
    def counting_apart(self, on_attempt: OnAttempt | None = None) -> Iterator[SolverStats]:
        """Within, count into statistics of their own, which are yielded, call `on_attempt`, and give way to no kernel."""
        kept = self.counts, self.on_attempt, self.look
        self.counts, self.on_attempt, self.look = SolverStats(len(self.counts.accepted)), on_attempt, None
        try:
            yield self.counts
        finally:
            self.counts, self.on_attempt, self.look = kept


def column(values: np.ndarray, like: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """Return (rows,) numbers as (rows, 1), like a tensor's dtype and device unless said otherwise."""
    # A copy: numbers kept for a gradient must not change with the state they come from.
    numbers = torch.from_numpy(np.array(values))[:, None]
    return numbers if like is None else numbers.to(device=like.device, dtype=dtype or like.dtype, non_blocking=True)


def waits_for(device: torch.device) -> bool:
    """Return whether reading a number has to wait for the device, which works on by itself."""
    return device.type != "cpu"
