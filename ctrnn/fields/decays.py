r"""Decays: how a state forgets when nothing drives it; decay(h) = leak(h) h.

linear   decay(h) = h          h exp(-s) after s                      one time constant for all sizes
power    decay(h) = |h|^r h    h (1 + r s |h|^r)^(-1/r) after s       slower than any exponential once |h| is small
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.calls import AnsweredInit
from ctrnn.fields.rates import SOFTPLUS
from ctrnn.own_code import inherits_beside, without_derived

__all__ = ["Decay", "LinearDecay", "PowerDecay"]


class Decay(AnsweredInit, nn.Module, ABC):
    r"""decay(h) = leak(h) h with leak(h) >= 0, elementwise.

    Subclasses define `leak`. A subclass of another decay that overrides `forward` must override `leak` too.

    Shape:   h (..., hidden) -> (..., hidden).
    Raises:  TypeError for a class that overrides `forward` and inherits the `leak` of another decay.
    """

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        if inherits_beside(cls, "forward", "leak", Decay):
            raise TypeError(
                f"The decay {cls.__name__} overrides `forward` and inherits the `leak` of another decay; define its `leak` too, "
                "which steps and time scales read: decay(h) = leak(h) h."
            )
        without_derived(cls, Decay, ["leak"], ["forward", "after"])

    def forward(self, h: Tensor) -> Tensor:
        return self.leak(h) * h

    @abstractmethod
    def leak(self, h: Tensor) -> Tensor:
        """(..., hidden) -> (..., hidden), at least 0."""

    def after(self, h: Tensor, s: Tensor) -> Tensor:
        """Solve dh/ds = -decay(h) for s: h, s (..., hidden) -> (..., hidden); here with the leak it starts with."""
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
    r"""decay(h) = |h|^r h, elementwise, with r fixed, or learned as r = softplus(a) > 0.

    With candidate 0, rate 1 and r > 0: h(t) = h0 (1 + r |h0|^r t)^(-1/r). Of softplus, and not of exp, since a step of a
    then moves r by no more than itself however large r is, and learning still cannot leave r > 0.

        >>> ctrnn.PowerDecay(2.0)(torch.tensor([-0.5, 0.0, 2.0])).tolist()
        [-0.125, 0.0, 8.0]

    Args:    exponent: r >= 0, no unit; r = 0 is `LinearDecay`. Or a tensor (hidden,), one for each unit, if learned;
             learnable: whether r is learned, from `exponent` > 0 on; hidden_size: then as many of them, None for one r for
             all units; dtype, device of what is learned, as in torch.nn.
    Shape:   h (..., hidden) -> (..., hidden).
    Raises:  ValueError if exponent < 0, or not > 0 and learned; or for `hidden_size` where nothing is learned.
    Source:  Ohno and Kumagai 2021, eqs. (19), (20) and (22).
    """

    letters: ClassVar[dict[str, str]] = {"r": "exponent_argument"}

    def __init__(
        self,
        exponent: float | Tensor,
        learnable: bool = False,
        hidden_size: int | None = None,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.learnable: bool = checks.is_flag("learnable", learnable)
        self.hidden_size: int | None = None if hidden_size is None else checks.positive_size("hidden_size", hidden_size)
        if self.learnable:
            checks.can_make_weights(dtype, device)
            argument = SOFTPLUS.inverse(_starts(exponent, self.hidden_size)).to(dtype or torch.get_default_dtype())
            self.exponent_argument: nn.Parameter = nn.Parameter(argument.to(device or torch.get_default_device()))
            return
        number = checks.finite_number("exponent", exponent)  # type: ignore[arg-type]
        if number < 0:
            raise ValueError(f"`exponent` must be at least 0, got {number}: |h|^r is unbounded at h = 0.")
        if hidden_size is not None:
            raise ValueError("`hidden_size` is for exponents that are learned; give `learnable=True` too, or leave it out.")
        self.fixed_exponent = number

    @property
    def exponent(self) -> float | Tensor:
        """r, a number where it is fixed, else () or (hidden,)."""
        return SOFTPLUS.function(self.exponent_argument) if self.learnable else self.fixed_exponent

    @property
    def is_linear(self) -> bool:
        """Whether r is 0 for good."""
        return not self.learnable and self.fixed_exponent == 0

    def forward(self, h: Tensor) -> Tensor:
        if self.is_linear:
            return h
        # Not h * |h|**r, whose derivatives by autograd pass through |h|^(r - 1) and |h|^(r - 2), which overflow near 0. And
        # 0, where every sequence starts, goes through no power: its derivatives there would be nan.
        at_rest = h == 0
        size = torch.where(at_rest, torch.ones_like(h), h).abs()
        return torch.where(at_rest, torch.zeros_like(h), h.sign() * size ** (self.exponent + 1))

    def after(self, h: Tensor, s: Tensor) -> Tensor:
        if self.is_linear:
            return h * torch.exp(-s)
        if h.dtype == torch.float16:  # in which |h|^r overflows from 2^16 on, for h of no great size
            return self.after(h.float(), s.float()).to(h.dtype)
        r = self.exponent
        h = _bounded(h, r)
        return h * torch.exp(-torch.log1p(r * s * self.leak(h)) / r)

    def leak(self, h: Tensor) -> Tensor:
        if self.is_linear:
            return torch.ones_like(h)
        r, at_rest = self.exponent, h == 0
        size = torch.where(at_rest, torch.ones_like(h), h).abs()
        # |h|^r has no finite slope at 0 for r < 1, nor one below the smallest normal number that all floats could hold: its
        # subgradient 0 is taken there, at 0 by sending nothing through the power.
        if isinstance(r, Tensor) or r < 1:
            size = torch.where(_is_subnormal(size) & (r < 1), size.detach(), size)
        return torch.where(at_rest, torch.zeros_like(h), size**r)

    @property
    def formula(self) -> str:
        if self.is_linear:
            return "h"
        if self.learnable:
            return "|h|^(softplus(r)) h"
        return "|h| h" if self.fixed_exponent == 1 else "|h|^{fixed_exponent} h"

    def extra_repr(self) -> str:
        if not self.learnable:
            return f"{self.fixed_exponent:g}"
        return f"learnable=True, hidden_size={self.hidden_size}"


def _starts(exponent: float | Tensor, hidden_size: int | None) -> Tensor:
    """Return the exponents that learning starts from, () or (hidden,), in float64."""
    if isinstance(exponent, Tensor) and exponent.dim() == 1 and len(exponent) == hidden_size:
        starts = exponent.detach().to("cpu", torch.float64)
    else:
        starts = torch.full(() if hidden_size is None else (hidden_size,), 0.0, dtype=torch.float64, device="cpu")
        starts += checks.finite_number("exponent", exponent)  # type: ignore[arg-type]
    if not bool(((starts > 0) & torch.isfinite(starts)).all()):
        raise ValueError(f"`exponent` must be positive and finite where it is learned, got {starts.tolist()}.")
    return starts


def _is_subnormal(size: Tensor) -> Tensor:
    return size < torch.finfo(size.dtype).tiny


def _bounded(h: Tensor, r: float | Tensor) -> Tensor:
    """Clamp h to where |h|^r nearly overflows: beyond, after any s > 0, (r s)^(-1/r) is left of every h, to the last bit."""
    largest = math.log2(torch.finfo(h.dtype).max)
    if isinstance(r, Tensor):
        most = torch.exp2((largest - 20) / r.detach())
        return torch.minimum(torch.maximum(h, -most), most)
    bits = (largest - 20) / r
    return h.clamp(-(2.0**bits), 2.0**bits) if bits < largest else h
