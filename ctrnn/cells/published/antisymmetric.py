r"""Antisymmetric networks: nothing is forgotten and nothing grows, but by the diffusion gamma.

    dh/dt = tanh((W - W^T - gamma) h + V x + b)                                  and gated
    dh/dt = sigma((W - W^T - gamma) h + Vz x + bz) * tanh((W - W^T - gamma) h + V x + b)

The eigenvalues of W - W^T - gamma have the real part -gamma, whatever W. The Euler step with dt = epsilon is the published
cell, h <- h + epsilon tanh(...).
"""

from __future__ import annotations

import math
from typing import ClassVar, Unpack, overload

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.cells.stack import Stack, layered
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import WeightSettings, affine
from ctrnn.formulas import Published

__all__ = ["AntisymmetricField", "GatedAntisymmetricField", "antisymmetric"]


class _Antisymmetric(VectorField):
    """V x + b of as many `rows` for each unit, and the recurrence (W - W^T - gamma) h that all of them share."""

    weight_x: nn.Parameter
    weight_h: nn.Parameter

    rows: ClassVar[int]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        gamma: float = 0.01,
        *,
        bias: bool = True,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size)
        checks.can_make_weights(dtype, device, generator)
        self.gamma: float = checks.non_negative_number("gamma", gamma)

        def normal(*shape: int) -> nn.Parameter:
            deviation = 1 / math.sqrt(max(1, shape[1]))
            return nn.Parameter(torch.empty(shape, dtype=dtype, device=device).normal_(0, deviation, generator=generator))

        outputs = self.rows * self.hidden_size
        self.weight_x, self.weight_h = normal(outputs, self.input_size), normal(self.hidden_size, self.hidden_size)
        self.bias: nn.Parameter | None = (
            nn.Parameter(torch.zeros_like(self.weight_x[:, :1]).flatten()) if checks.is_flag("bias", bias) else None
        )

    @affine
    def project(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight_x, self.bias)

    def turned(self, h: Tensor) -> Tensor:
        """(W - W^T - gamma) h: (..., hidden) -> (..., hidden)."""
        return nn.functional.linear(h, self.weight_h - self.weight_h.mT) - self.gamma * h


class AntisymmetricField(_Antisymmetric):
    r"""tanh((W - W^T - gamma) h + V x + b).

    W starts normal with variance 1/hidden, V with 1/input, and b is 0: sums of so many terms have variance 1. That and the 0.01
    are this project's.

    Args:    input_size, hidden_size; gamma: diffusion, >= 0; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> dh/dt (..., hidden).
    Raises:  ValueError for a negative gamma.
    Source:  Chang, Chen, Haber and Chi 2019, "AntisymmetricRNN: a dynamical system view on recurrent neural networks".
    """

    rows = 1
    letters: ClassVar[dict[str, str]] = {"V": "weight_x", "W": "weight_h", "b": "bias"}
    published: Published = Published("Euler", "h' = h + dt tanh(W h - W^T h - {gamma} h + V x + b)")

    @property
    def formula(self) -> str:
        return f"dh/dt = tanh(A h + V x{' + b' * (self.bias is not None)})\nA = W - W^T - {{gamma}} I"

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(projected + self.turned(h))


class GatedAntisymmetricField(_Antisymmetric):
    r"""sigma((W - W^T - gamma) h + Vz x + bz) * tanh((W - W^T - gamma) h + V x + b); one W for both.

    The rows of V are those of the tanh, then those of the gate; weights start as in `AntisymmetricField`.

    Args:    as for `AntisymmetricField`.
    Shape:   x (..., input), h (..., hidden) -> dh/dt (..., hidden).
    Raises:  ValueError for a negative gamma.
    Source:  Chang, Chen, Haber and Chi 2019, the model "with gating".
    """

    rows = 2
    letters: ClassVar[dict[str, str]] = {"V; Vg": "weight_x", "W": "weight_h", "b; bg": "bias"}
    published: Published = Published(
        "Euler",
        "h' = h + dt z * tanh(W h - W^T h - {gamma} h + V x + b)\nz = sigma(W h - W^T h - {gamma} h + Vg x + bg)",
    )

    @property
    def formula(self) -> str:
        b, bg = ("", "") if self.bias is None else (" + b", " + bg")
        return f"dh/dt = sigma(A h + Vg x{bg}) * tanh(A h + V x{b})\nA = W - W^T - {{gamma}} I"

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        turned = self.turned(h)
        to_tanh, to_gate = projected.chunk(2, -1)
        return torch.sigmoid(to_gate + turned) * torch.tanh(to_tanh + turned)


@overload
def antisymmetric(
    input_size: int, hidden_size: int, gamma: float = ..., gated: bool = ..., **settings: Unpack[WeightSettings]
) -> AntisymmetricField | GatedAntisymmetricField: ...
@overload
def antisymmetric(
    input_size: int,
    hidden_size: int,
    gamma: float = ...,
    gated: bool = ...,
    *,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> AntisymmetricField | GatedAntisymmetricField | Stack: ...
def antisymmetric(
    input_size: int,
    hidden_size: int,
    gamma: float = 0.01,
    gated: bool = False,
    *,
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> AntisymmetricField | GatedAntisymmetricField | Stack:
    r"""dh/dt = tanh((W - W^T - gamma) h + V x + b), perhaps gated; its Euler step with dt = epsilon is the antisymmetric RNN.

    Args:    input_size, hidden_size: features and units; gamma: diffusion, >= 0; gated: times a gate of the same recurrence;
             num_layers: above 1, a `Stack` of so many; bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), h (..., hidden) -> dh/dt (..., hidden).
    Raises:  ValueError for a negative gamma.
    Source:  Chang, Chen, Haber and Chi 2019, "AntisymmetricRNN: a dynamical system view on recurrent neural networks".
    """
    kind = GatedAntisymmetricField if checks.is_flag("gated", gated) else AntisymmetricField
    return layered(lambda read: kind(read, hidden_size, gamma, **settings), input_size, hidden_size, num_layers)
