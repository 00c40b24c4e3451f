r"""The LSTM as a vector field on the state [h, c].

    dc/dt = (f - 1) c + i g        dh/dt = o tanh(f c + i g) - h        i, f, o = sigma(...), g = tanh(...) of x and h

Its unit Euler step is torch.nn.LSTM, to the last term, and there is no step size in it.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import Affine, WeightSettings, affine
from ctrnn.formulas import formula_of

__all__ = ["LSTMField"]


class LSTMField(VectorField):
    r"""dc/dt = (f - 1) c + i g and dh/dt = o tanh(f c + i g) - h.

    Not of product form: c has two gates where a rate would be one (f tied to 1 - i gives it back, with rate i), and h
    follows an algebraic function of c, towards which it relaxes with rate 1. The rows of the weights are i, f, g, o.

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), state [h, c] (..., 2 hidden) -> (..., 2 hidden).
    Source:  Tallec and Ollivier 2018, eqs. (11)-(15), of which it is the smooth lift; that reading is this project's.
    """

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__(input_size, hidden_size, 2 * hidden_size)
        self.gates = Affine(input_size, hidden_size, 4 * hidden_size, **settings)

    @affine
    def project(self, x: Tensor) -> Tensor:
        return self.gates.project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        hidden, cell = h.chunk(2, -1)
        return self._change(hidden, cell, self.gates.flow(projected, hidden))

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        hidden, _ = h.chunk(2, -1)
        return self._leak(hidden, self.gates.flow(projected, hidden))

    def flow_and_leak(self, projected: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        hidden, cell = h.chunk(2, -1)
        gates = self.gates.flow(projected, hidden)
        return self._change(hidden, cell, gates), self._leak(hidden, gates)

    @property
    def formula(self) -> str:
        return (
            "dh/dt = o * tanh(f * c + i * g) - h\ndc/dt = (f - 1) * c + i * g\n"
            "i, f, g, o = sigma(zi), sigma(zf), tanh(zg), sigma(zo)\n"
            f"zi, zf, zg, zo = {formula_of(self.gates)}"
        )

    def _change(self, hidden: Tensor, cell: Tensor, gates: Tensor) -> Tensor:
        i, f, g, o = gates.chunk(4, -1)
        input_gate, forget_gate, output_gate = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o)
        carried = forget_gate * cell + input_gate * torch.tanh(g)
        return torch.cat([output_gate * torch.tanh(carried) - hidden, carried - cell], -1)

    def _leak(self, hidden: Tensor, gates: Tensor) -> Tensor:
        _, f, _, _ = gates.chunk(4, -1)
        forgetting = torch.sigmoid(-f)  # 1 - f without cancellation where f is close to 1
        return torch.cat([torch.ones_like(hidden), forgetting], -1)
