"""Counting what a solve does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Tally"]


@dataclass
class Tally:
    evaluations: int = 0
    accepted: int = 0
    rejected: int = 0
    smallest: float | None = None
    smallest_at: float | None = None

    @property
    def attempted(self) -> int:
        return self.accepted + self.rejected

    def accept(self, at: float, step: float, steps: int = 1) -> None:
        self.accepted += steps
        if self.smallest is None or step < self.smallest:
            self.smallest, self.smallest_at = step, at

    def stats(self, method: str) -> dict[str, Any]:
        """The numbers under the names that trajectories give them."""
        return {
            "method": method,
            "nfe": self.evaluations,
            "num_steps": self.attempted,
            "num_accepted_steps": self.accepted,
            "num_rejected_steps": self.rejected,
            "smallest_step": self.smallest,
            "smallest_step_at": self.smallest_at,
        }
