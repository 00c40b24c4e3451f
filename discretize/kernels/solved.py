"""What a kernel is asked to solve, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discretize.errors import Failure
from discretize.solvers.adaptive import AdaptiveEngine
from discretize.solvers.kept import KeptSteps
from discretize.solvers.segments import Chain

__all__ = ["SolveRequest", "Solved"]


@dataclass(frozen=True)
class SolveRequest:
    """A solve from `h0` along a chain, counted in the engine's counts.

    Args:    show: called now and then with the number of segments done; stats: where evaluations made again for gradients are
             counted; memory: bytes for the steps that gradients need, None for all of them; stored: the dtype of what is kept,
             None for that of the solve; dense: whether steps are kept for the states between; check: called before a
             kernel is made that is not known.
    """

    chain: Chain
    h0: Tensor
    engine: AdaptiveEngine
    show: Callable[[int], None]
    stats: dict[str, Any]
    memory: float | None = None
    stored: torch.dtype | None = None
    dense: bool = True
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Solved:
    """The states at the edges that were wanted, as far as all samples got, and why not further; hs (edges, batch, state).
    `chain`: as the kernel read it; `steps`: those taken on it, None if they were not kept; `engine`: what solved;
    `differentiable`: whether these steps have the gradient of the solve."""

    edges: np.ndarray
    hs: Tensor
    failure: Failure | None
    chain: Chain
    steps: Callable[[], KeptSteps | None]
    engine: str = "compiled"
    differentiable: bool = False
