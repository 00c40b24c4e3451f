r"""Fields whose values or solutions are known in closed form, and the tables of the named ones and of all step maps.

free leaky    dh/dt = -alpha h          h(t) = h0 exp(-alpha t)
free power    dh/dt = -|h|^r h          h(t) = h0 (1 + r |h0|^r t)^(-1/r)
linear        dh/dt = A h + B x         h(t) = exp(A t) h0 + A^-1 (exp(A t) - 1) B x     for a constant x
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import ctrnn
import discretize
from ctrnn.cells.catalog import constructors
from ctrnn.fields.rates import ConstantRate, FixedRate, SigmoidConstantRate
from discretize.steps.catalog import steps

NAMED_FIELDS: dict[str, Callable[..., ctrnn.VectorField]] = {
    "plain": ctrnn.plain,
    "leaky": ctrnn.leaky,
    "leaky per unit": lambda *sizes, **settings: ctrnn.leaky(*sizes, 0.3, True, **settings),
    "leaky power 2": lambda *sizes, **settings: ctrnn.leaky(*sizes, 0.3, decay=ctrnn.PowerDecay(2), **settings),
    "gated per unit": ctrnn.gated,
    "gated global": lambda *sizes, **settings: ctrnn.gated(*sizes, "global", **settings),
    "gated power 0": lambda *sizes, **settings: ctrnn.gated(*sizes, decay=ctrnn.PowerDecay(0), **settings),
    "gated power 0.5": lambda *sizes, **settings: ctrnn.gated(*sizes, decay=ctrnn.PowerDecay(0.5), **settings),
    "gated power 1": lambda *sizes, **settings: ctrnn.gated(*sizes, decay=ctrnn.PowerDecay(1), **settings),
    "gated power 2": lambda *sizes, **settings: ctrnn.gated(*sizes, decay=ctrnn.PowerDecay(2), **settings),
    "gated power 3": lambda *sizes, **settings: ctrnn.gated(*sizes, "global", decay=ctrnn.PowerDecay(3), **settings),
    "gated softplus": lambda *sizes, **settings: ctrnn.gated(*sizes, rate="softplus", **settings),
    "gated exponential": lambda *sizes, **settings: ctrnn.gated(*sizes, "global", rate="exponential", **settings),
    "gated network": lambda *sizes, **settings: ctrnn.gated(*sizes, "network", **settings),
    "gru": ctrnn.gru,
    "lstm": ctrnn.lstm,
}
# The cells of the literature: every constructor but those of the table above.
PUBLISHED = {name: make for name, make in constructors().items() if name not in ("plain", "leaky", "gated", "gru", "lstm")}
# One of each kind; the others are variants of them, for the long tests.
KINDS = ("gated per unit", "gated power 2", "gated exponential", "gated network", "gru", "lstm")
STEPS: dict[str, discretize.Step] = {name: step() for name, step in steps().items()}


def thinned(names: Iterable[str], kept: Iterable[str] = KINDS) -> list:
    """Test parameters: those kept as they are, the others marked slow."""
    return [name if name in kept else pytest.param(name, marks=pytest.mark.slow) for name in names]


def sigmoid_leaky(input_size: int, hidden_size: int, alpha: float = 0.3) -> ctrnn.Relaxation:
    """The leaky field of the papers' discrete cells: alpha = sigma(a)."""
    return ctrnn.Relaxation(ctrnn.TanhCandidate(input_size, hidden_size), SigmoidConstantRate(alpha), ctrnn.LinearDecay())


class Nowhere(ctrnn.Part):
    """The candidate 0: a state that is pulled nowhere is free."""

    projected_size = 0

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size

    def project(self, x: Tensor) -> Tensor:
        return x[..., :0]

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.zeros_like(h)


class LinearField(ctrnn.VectorField):
    """dh/dt = A h + B x, with A (state, state) and B (state, input)."""

    def __init__(self, A: Tensor, B: Tensor) -> None:
        super().__init__(B.shape[1], A.shape[0])
        self.A, self.B = nn.Parameter(A), nn.Parameter(B)

    def project(self, x: Tensor) -> Tensor:
        return x @ self.B.mT

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return projected + h @ self.A.mT


class Spiral(ctrnn.VectorField):
    """No parameters, no projection, `flow` only: dh/dt = x - h turned by a right angle; the least a user writes."""

    def __init__(self) -> None:
        super().__init__(2, 2)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return projected - torch.stack([-h[..., 1], h[..., 0]], -1)


@dataclass(frozen=True)
class Problem:
    """A field, a constant input (batch, input), a start (batch, state), and the state at every time t (a float)."""

    field: ctrnn.VectorField
    x: Tensor
    h0: Tensor
    solution: Callable[[Tensor], Tensor]


def free_leaky(alpha: float = 0.3, batch: int = 4, hidden: int = 3) -> Problem:
    field = ctrnn.Relaxation(Nowhere(2, hidden), ConstantRate(alpha), ctrnn.LinearDecay())
    h0 = torch.randn(batch, hidden)
    return Problem(field, torch.zeros(batch, 2), h0, lambda t: h0 * torch.exp(-alpha * torch.as_tensor(t)))


def free_power(exponent: float = 2.0, batch: int = 4, hidden: int = 3) -> Problem:
    field = ctrnn.Relaxation(Nowhere(2, hidden), FixedRate(1.0), ctrnn.PowerDecay(exponent))
    h0 = torch.randn(batch, hidden)

    def solution(t: Tensor) -> Tensor:
        return h0 * (1 + exponent * h0.abs() ** exponent * t) ** (-1 / exponent)

    return Problem(field, torch.zeros(batch, 2), h0, solution)


def linear(batch: int = 4, hidden: int = 3, features: int = 2) -> Problem:
    """A stable, non-normal, turning matrix with known entries; the input is constant."""
    A = torch.full((hidden, hidden), 0.4).triu(1) - torch.full((hidden, hidden), 0.2).tril(-1) - torch.eye(hidden)
    B = torch.randn(hidden, features)
    x, h0 = torch.randn(batch, features), torch.randn(batch, hidden)

    def solution(t: Tensor) -> Tensor:
        moved = torch.linalg.matrix_exp(A * torch.as_tensor(t))
        forced = torch.linalg.solve(A, (moved - torch.eye(hidden)) @ (B @ x.mT))
        return (moved @ h0.mT + forced).mT

    return Problem(LinearField(A, B), x, h0, solution)
