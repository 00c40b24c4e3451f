"""What a kernel gives back of a solve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from discretize.errors import Failure
from discretize.solvers.continuation import KeptSteps
from discretize.solvers.segments import Chain

__all__ = ["Solved"]


@dataclass(frozen=True)
class Solved:
    """The states at the edges that were wanted, as far as all samples got, and why not further; hs (edges, batch, state).
    `chain`: as the kernel read it; `steps`: those taken on it, None if they were not kept; `engine`: what solved."""

    edges: list[int]
    hs: Tensor
    failure: Failure | None
    chain: Chain
    steps: Callable[[], KeptSteps | None]
    engine: str = "compiled"
