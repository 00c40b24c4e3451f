"""Counting what a solve does: calls of the field for the batch, steps for each of its samples."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["SolverStats", "added"]


class SolverStats:
    r"""Counts; `rows` is the number of samples that step on their own, 1 where all step together."""

    def __init__(self, rows: int = 1) -> None:
        self.evaluations = 0  # calls of the field
        self.work = 0  # samples it was called with, all calls together
        self.accepted = np.zeros(rows, dtype=np.int64)
        self.rejected = np.zeros(rows, dtype=np.int64)
        self.forced = 0  # steps accepted at their minimum
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
        """What a later part of the same solve counted."""
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
        """The numbers under the names that trajectories give them; of steps, those of the sample that took most."""
        busiest = int(self.attempted.argmax())
        return {
            "method": method,
            "nfe": self.evaluations,
            "nfe_samples": self.work,
            "nfe_backward": 0,  # added to in the backward pass, by whatever computes there
            "num_steps": int(self.attempted[busiest]),
            "num_accepted_steps": int(self.accepted[busiest]),
            "num_rejected_steps": int(self.rejected[busiest]),
            "num_forced_steps": self.forced,
            "smallest_step": self.smallest,
            "smallest_step_at": self.smallest_at,
            "steps_of_samples": self.attempted.tolist(),
            "accepted_steps_of_samples": self.accepted.tolist(),
            "rejected_steps_of_samples": self.rejected.tolist(),
            "hint": None,
            "engine": "steps",
            "engine_why": None,
        }


def added(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The stats of two solves of the same samples, each stepping on its own, together."""
    kinds = ("steps", "accepted_steps", "rejected_steps")
    both = {f"{kind}_of_samples": np.add(before[f"{kind}_of_samples"], after[f"{kind}_of_samples"]).tolist() for kind in kinds}
    busiest = int(np.argmax(both["steps_of_samples"]))
    counts = {key: before[key] + after[key] for key in ("nfe", "nfe_samples", "num_forced_steps")}
    counts |= {f"num_{kind}": both[f"{kind}_of_samples"][busiest] for kind in kinds}
    taken = [stats for stats in (before, after) if stats["smallest_step"] is not None]
    smallest = min(taken, key=lambda stats: stats["smallest_step"], default=after)
    return {**after, **both, **counts, **{key: smallest[key] for key in ("smallest_step", "smallest_step_at")}}
