r"""Decays: how a state forgets when nothing drives it; decay(h) = leak(h) h.

linear   decay(h) = h          h exp(-s) after s                      one time constant for all sizes
power    decay(h) = |h|^r h    h (1 + r s |h|^r)^(-1/r) after s       slower than any exponential once |h| is small
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from ctrnn import checks

__all__ = ["Decay", "LinearDecay", "PowerDecay"]


class Decay(nn.Module, ABC):
    r"""decay(h) = leak(h) h with leak(h) >= 0, elementwise.

    Shape:   h (..., hidden) -> (..., hidden).
    Source:  this project.
    """

    def forward(self, h: Tensor) -> Tensor:
        return self.leak(h) * h

    @abstractmethod
    def leak(self, h: Tensor) -> Tensor:
        """(..., hidden) -> (..., hidden), at least 0."""

    def after(self, h: Tensor, s: Tensor) -> Tensor:
        """h after s of dh/ds = -decay(h): h, s (..., hidden) -> (..., hidden); here with the leak it starts with."""
        return h * torch.exp(-s * self.leak(h))


class LinearDecay(Decay):
    r"""decay(h) = h. With candidate 0 and rate alpha: h(t) = h0 exp(-alpha t).

    Shape:   h (..., hidden) -> (..., hidden).
    Source:  Tallec and Ollivier 2018, eq. (3) and footnote 3.
    """

    formula = "h"

    def forward(self, h: Tensor) -> Tensor:
        return h

    def leak(self, h: Tensor) -> Tensor:
        return torch.ones_like(h)

    def after(self, h: Tensor, s: Tensor) -> Tensor:
        return h * torch.exp(-s)


class PowerDecay(Decay):
    r"""decay(h) = |h|^r h, elementwise.

    With candidate 0, rate 1 and r > 0: h(t) = h0 (1 + r |h0|^r t)^(-1/r).

    Args:    exponent: r >= 0, no unit; r = 0 is `LinearDecay`.
    Shape:   h (..., hidden) -> (..., hidden).
    Raises:  ValueError if exponent < 0.
    Source:  Ohno and Kumagai 2021, eqs. (19), (20) and (22).
    """

    def __init__(self, exponent: float) -> None:
        super().__init__()
        number = checks.finite_number("exponent", exponent)
        if number < 0:
            raise ValueError(f"`exponent` must be at least 0, got {number}: |h|^r is unbounded at h = 0.")
        self.exponent = number

    def forward(self, h: Tensor) -> Tensor:
        # Not h * |h|**r, nor sign(h) |h|**(r + 1): every sequence starts at h = 0, where autograd's first and second
        # derivatives of those are nan for 0 < r < 1.
        return self.leak(h) * h if self.exponent else h

    def after(self, h: Tensor, s: Tensor) -> Tensor:
        if not self.exponent:
            return h * torch.exp(-s)
        return h * torch.exp(-torch.log1p(self.exponent * s * self.leak(h)) / self.exponent)

    def leak(self, h: Tensor) -> Tensor:
        if not self.exponent:
            return torch.ones_like(h)
        # |h|^r has no finite slope at 0 for r < 1; its subgradient 0 is taken there, by never sending 0 through the power.
        at_rest = h == 0
        return torch.where(at_rest, torch.zeros_like(h), torch.where(at_rest, torch.ones_like(h), h).abs() ** self.exponent)

    @property
    def formula(self) -> str:
        power = "" if self.exponent == 1 else f"^{self.exponent:g}"
        return f"|h|{power} h" if self.exponent else "h"

    def extra_repr(self) -> str:
        return f"{self.exponent:g}"
