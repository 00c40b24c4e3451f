r"""Curves that units follow between two samples, h = base + span phi(phase), and what puts them there.

state  [base, span, phase, speed]       in between  d phase/dt = speed, and the rest stands still
at a sample, with f1, f2, a, b linear in what is read:
    default    phi = sigma    base = tanh f1    span = tanh f2 - tanh f1    phase = b    speed = a
    no_gate    phi = sigma    base = tanh f1    span = tanh f2              phase = b    speed = a
    pure       phi = exp      base = A          span = -A f1                phase = 0    speed = -(|w| + |f1|)
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ctrnn import VectorField, checks
from ctrnn.fields.rates import EXPONENTIAL, SIGMOID

__all__ = ["CURVES", "Curve"]


class Curve(VectorField):
    r"""The state [base, span, phase, speed] of units that follow base + span phi(phase), of which the phase moves.

    Args:    hidden_size: units; activation: phi, "sigmoid" or "exponential".
    Shape:   h (..., 4 hidden), visible as (..., hidden). A start h_0 of so many units is [h_0, 0, 0, 0].
    Source:  this project, of Hasani et al. 2022.
    """

    def __init__(self, hidden_size: int, activation: str = "sigmoid") -> None:
        super().__init__(0, hidden_size, 4 * checks.positive_size("hidden_size", hidden_size))
        kinds = {kind.name: kind.function for kind in (SIGMOID, EXPONENTIAL)}
        self.activation = checks.one_of("activation", activation, kinds)
        self.function = kinds[activation]

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        still = torch.zeros_like(h[..., : self.hidden_size])
        return torch.cat([still, still, h[..., 3 * self.hidden_size :], still], -1)

    def visible(self, state: Tensor) -> Tensor:
        base, span, phase, _ = state.chunk(4, -1)
        return base + span * self.function(phase)


class _Masked(nn.Linear):
    """A linear map of which some weights are 0 for good."""

    mask: Tensor | None

    def __init__(self, width: int, hidden_size: int, mask: Tensor | None) -> None:
        super().__init__(width, hidden_size)
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight if self.mask is None else self.weight * self.mask, self.bias)


class _Interpolated(nn.Module):
    """tanh f1 (1 - s) + s tanh f2."""

    activation: ClassVar[str] = SIGMOID.name

    def __init__(self, width: int, hidden_size: int, mask: Tensor | None) -> None:
        super().__init__()
        self.ff1, self.ff2 = _Masked(width, hidden_size, mask), _Masked(width, hidden_size, mask)
        self.time_a, self.time_b = nn.Linear(width, hidden_size), nn.Linear(width, hidden_size)

    def forward(self, read: Tensor) -> tuple[Tensor, ...]:
        start, end = torch.tanh(self.ff1(read)), torch.tanh(self.ff2(read))
        return start, self.span(start, end), self.time_b(read), self.time_a(read)

    def span(self, start: Tensor, end: Tensor) -> Tensor:
        return end - start


class _Ungated(_Interpolated):
    """tanh f1 + s tanh f2."""

    def span(self, start: Tensor, end: Tensor) -> Tensor:
        return end


class _Pure(nn.Module):
    """A - A f1 exp(-(|w| + |f1|) t)."""

    activation: ClassVar[str] = EXPONENTIAL.name

    def __init__(self, width: int, hidden_size: int, mask: Tensor | None) -> None:
        super().__init__()
        self.ff1 = _Masked(width, hidden_size, mask)
        self.w_tau, self.A = nn.Parameter(torch.zeros(1, hidden_size)), nn.Parameter(torch.ones(1, hidden_size))

    def forward(self, read: Tensor) -> tuple[Tensor, ...]:
        f = self.ff1(read)
        return self.A.expand_as(f), -self.A * f, torch.zeros_like(f), -(self.w_tau.abs() + f.abs())


CURVES: dict[str, type[_Interpolated] | type[_Pure]] = {"default": _Interpolated, "pure": _Pure, "no_gate": _Ungated}
