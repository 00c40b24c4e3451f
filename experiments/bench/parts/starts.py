r"""One small equation from many starts: Lorenz's, without input, and the gradient of all ends by their starts.

    dx/dt = 10 (y - x),   dy/dt = x (28 - z) - y,   dz/dt = x y - 8/3 z

Float64, from t = 0 to 1. Here an evaluation is a few additions, so that what is compared is the solver itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import ctrnn
import discretize
from experiments.bench.parts.solves import Problem

__all__ = ["TARGET", "Lorenz", "Starts"]

TARGET = 5e-3  # the largest error of all starts and coordinates, which are up to 40; some neighbours part by e^4 until then
UNTIL = 1.0


class Lorenz(ctrnn.VectorField):
    """Lorenz's equation of 1963 as a field without input."""

    def __init__(self) -> None:
        super().__init__(0, 3)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        x, y, z = h.unbind(-1)
        return torch.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)


@dataclass(frozen=True)
class Starts(Problem):
    """The states at the start and at the end."""

    path = None

    @classmethod
    def lorenz(cls, batch: int, device: str = "cpu") -> Starts:
        """Starts drawn around the middle of the attractor, with a standard deviation of 5 in each direction."""
        dice = torch.Generator().manual_seed(0)
        h0 = 5 * torch.randn(batch, 3, dtype=torch.float64, generator=dice) + torch.tensor([0, 0, 25], dtype=torch.float64)
        h0, field = h0.to(device).requires_grad_(), Lorenz()
        found = cls(f"Lorenz, {batch:,} starts", field, h0.new_empty(0), h0, h0)
        with torch.no_grad():  # by another method and step by step: it is none of those compared
            exact = discretize.integrate(field, None, h0, found.times, method="dopri8", rtol=1e-11, atol=1e-11, fused=False)
        return cls(found.name, field, found.xs, h0, exact.hs)

    @property
    def times(self) -> Tensor:
        return torch.tensor([0.0, UNTIL], dtype=torch.float64, device=self.h0.device)

    @property
    def variables(self) -> list[Tensor]:
        return [self.h0]
