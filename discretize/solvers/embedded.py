r"""Steps that estimate their own error: what a solver tries, judges, and takes or shortens.

    h_1 = h + dt sum_i b_i k_i        error = dt sum_i e_i k_i        k_i = f(t + c_i dt, h + dt sum_j a_ij k_j)

Each sample may take a dt of its own; a dt of 0 leaves it where it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

__all__ = ["Attempt", "EmbeddedMethod", "EmbeddedRungeKutta", "Slope", "weighted"]


class Slope(Protocol):
    """dh/dt on one segment, by the time since its start: tau () or (rows, 1), float64; `steady` if tau does not matter."""

    @property
    def steady(self) -> bool: ...

    def __call__(self, tau: Tensor, h: Tensor, /) -> Tensor: ...


class Attempt(NamedTuple):
    """The state a step leads to, the error it estimates, and dh/dt at its end where that is known."""

    h: Tensor
    error: Tensor
    end: Tensor | None


class EmbeddedMethod(ABC):
    r"""A step with an error estimate, of size O(dt^order) relative to the solution that goes on.

    `evaluations` of the field in an attempt whose first slope is known; `implicit` methods also need a Jacobian.

    Shape:   tau, dt (1, 1) or (batch, 1), float64; h, start (batch, state) -> (batch, state).
    Source:  this project.
    """

    name: str
    order: int
    evaluations: int
    implicit = False

    @abstractmethod
    def attempt(self, slope: Slope, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor | None) -> Attempt:
        """One step from h at tau; `start` is dh/dt there."""

    def cost(self, slope: Slope, state: int) -> int:
        """Evaluations of the field in an attempt, a derivative along a vector counting as one."""
        return self.evaluations


@dataclass(frozen=True)
class EmbeddedRungeKutta(EmbeddedMethod):
    r"""An explicit Runge-Kutta pair from its tableau.

    Args:    name, order; c: nodes of the stages after the first; a: their rows; b: weights, or None where the last row is
             b and so its slope the next step's first; e: b less the weights of the companion.
    Source:  Butcher's notation.
    """

    name: str
    order: int
    c: Sequence[float]
    a: Sequence[Sequence[float]]
    b: Sequence[float] | None
    e: Sequence[float]

    @property
    def evaluations(self) -> int:  # type: ignore[override]
        return len(self.c)

    def attempt(self, slope: Slope, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor | None) -> Attempt:
        step = dt.to(device=h.device, dtype=h.dtype, non_blocking=True)
        ks = [slope(tau, h) if start is None else start]
        following = h
        for c, row in zip(self.c, self.a, strict=True):
            following = torch.addcmul(h, step, weighted(row, ks))
            ks.append(slope(tau if slope.steady else tau + c * dt, following))
        last_is_next = self.b is None
        if self.b is not None:
            following = torch.addcmul(h, step, weighted(self.b, ks))
        return Attempt(following, step * weighted(self.e, ks), ks[-1] if last_is_next else None)


def weighted(weights: Sequence[float], ks: Sequence[Tensor]) -> Tensor:
    """sum_i w_i k_i over the weights that are not 0."""
    total: Tensor | None = None
    for weight, k in zip(weights, ks, strict=False):
        if weight:
            total = weight * k if total is None else torch.add(total, k, alpha=weight)
    assert total is not None
    return total
