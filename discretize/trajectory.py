"""What every run returns: the times, the states at them, what it cost, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

__all__ = ["Trajectory"]


@dataclass(frozen=True, eq=False)
class Trajectory:
    r"""States at times.

    `stats` counts what the run did: "method", "nfe" (evaluations of the field), "num_steps" (attempted),
    "num_accepted_steps", "num_rejected_steps", "smallest_step" (the smallest one taken, in units of time; None without
    steps) and "smallest_step_at" (where it began).

    Shape:   ts (n,), float64; hs (n, batch, state), hs[0] the initial state.
    """

    ts: Tensor
    hs: Tensor
    stats: dict[str, Any] = field(default_factory=dict)
    status: str = "completed"

    def __len__(self) -> int:
        return len(self.ts)

    def __repr__(self) -> str:
        return f"Trajectory({len(self.ts)} times, hs {tuple(self.hs.shape)}, status={self.status!r}, stats={self.stats})"
