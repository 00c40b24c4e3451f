r"""Candidates: the values that the state relaxes towards.

tanh     tanh(Wx x + Wh h + b)                          Tallec and Ollivier 2018, eq. (3)
relu     max(0, Wx x + Wh h + b)                        torch.nn.RNN with nonlinearity="relu"
reset    tanh(Wx x + b + r * (Wh h + b_h)), r a gate    the GRU's, as torch.nn.GRU computes it
"""

from __future__ import annotations

from typing import ClassVar, Unpack

import torch
from torch import Tensor, nn

from ctrnn.fields.parts import Affine, Part, WeightSettings, affine

__all__ = ["ReluCandidate", "ResetCandidate", "TanhCandidate"]


class TanhCandidate(Affine):
    r"""tanh(Wx x + Wh h + b), a value per unit in (-1, 1).

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., hidden).
    Source:  Tallec and Ollivier 2018, eq. (3).
    """

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__(input_size, hidden_size, hidden_size, **settings)

    def function(self, argument: Tensor) -> Tensor:
        return torch.tanh(argument)

    @property
    def formula(self) -> str:
        return f"tanh({self.affine_formula})"


class ReluCandidate(Affine):
    r"""max(0, Wx x + Wh h + b), a value per unit from 0 on, without an upper bound; so states may grow, as torch's may.

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., hidden).
    Source:  torch.nn.RNN with nonlinearity="relu".
    """

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__(input_size, hidden_size, hidden_size, **settings)

    def function(self, argument: Tensor) -> Tensor:
        return torch.relu(argument)

    @property
    def formula(self) -> str:
        return f"relu({self.affine_formula})"


class ResetCandidate(Part):
    r"""tanh(Wx x + b + r * (Wh h + b_h)) with the reset gate r = sigma(Wrx x + Wrh h + b_r).

    The reset comes after the product, as in torch.nn.GRU; Chung et al. 2014 and Ohno and Kumagai 2021 print
    Wh (r * h) instead, which is another cell.

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., hidden).
    Source:  torch.nn.GRUCell's equations for r and n.
    """

    letters: ClassVar = {"Wx": "pull.weight_x", "Wh": "pull.weight_h", "b": "pull.bias", "bh": "bias_h"}

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__()

        def affine() -> Affine:
            return Affine(input_size, hidden_size, hidden_size, **settings)

        self.reset, self.pull = affine(), affine()
        self.input_size, self.hidden_size = self.pull.input_size, self.pull.hidden_size
        # Inside the reset, so that it cannot be merged with b.
        self.bias_h = nn.Parameter(torch.zeros_like(self.pull.bias)) if self.pull.bias is not None else None
        self.projected_size = 2 * self.hidden_size

    @affine
    def project(self, x: Tensor) -> Tensor:
        return torch.cat([self.reset.project(x), self.pull.project(x)], -1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(self.preactivation(projected, h))

    def preactivation(self, projected: Tensor, h: Tensor) -> Tensor:
        """Wx x + b + r * (Wh h + b_h): (..., 2 hidden), (..., hidden) -> (..., hidden)."""
        to_reset, to_pull = projected.chunk(2, -1)
        return to_pull + torch.sigmoid(self.reset.flow(to_reset, h)) * self.recurrent(h)

    def recurrent(self, h: Tensor) -> Tensor:
        """Wh h + b_h, what the gate resets: (..., hidden) -> (..., hidden)."""
        return nn.functional.linear(h, self.pull.weight_h, self.bias_h)

    @property
    def formula(self) -> str:
        biased = self.bias_h is not None
        pulled = "sigma({reset:r}) * (Wh h" + " + bh" * biased + ")"
        return f"tanh({' + '.join(['Wx x'] * (self.input_size > 0) + ['b'] * biased + [pulled])})"
