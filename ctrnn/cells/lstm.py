r"""The LSTM as a vector field on the state [h, c].

    dc/dt = i g - (1 - f) decay(c)        dh/dt = o tanh(c + dc/dt) - h        i, f, o = sigma(...), g = tanh(...) of x and h

With the decay c this is dc/dt = (f - 1) c + i g, dh/dt = o tanh(f c + i g) - h, whose unit Euler step is torch.nn.LSTM, to the
last term; there is no step size in it. With |c|^r c the cell forgets slowly, and h follows the cell that is then new.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.fields.decays import Decay, LinearDecay
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import Affine, WeightSettings, affine, read_sizes
from ctrnn.formulas import formula_of

__all__ = ["LSTMField"]


class LSTMField(VectorField):
    r"""dc/dt = i g - (1 - f) decay(c) and dh/dt = o tanh(c + dc/dt) - h.

    Not of product form: c has two gates where a rate would be one (f tied to 1 - i gives it back, with rate i), and h
    follows an algebraic function of c, towards which it relaxes with rate 1. The rows of the weights are i, f, g, o.

    Args:    input_size, hidden_size; decay: of the cell state, linear if not given; bias, dtype, device, generator as in
             torch.nn.
    Shape:   x (..., input), state [h, c] (..., 2 hidden) -> (..., 2 hidden).
    Raises:  TypeError for what is no decay, or of another dtype; ValueError for one of another width or device.
    Source:  Tallec and Ollivier 2018, eqs. (11)-(15), of which it is the smooth lift; that reading is this project's. With
             `PowerDecay`: this project, after Ohno and Kumagai 2021, eqs. (6) and (22).
    """

    def __init__(
        self, input_size: int, hidden_size: int, *, decay: Decay | None = None, **settings: Unpack[WeightSettings]
    ) -> None:
        super().__init__(input_size, hidden_size, 2 * hidden_size)
        self.gates: Affine = Affine(input_size, hidden_size, 4 * hidden_size, **settings)
        self.decay: Decay = LinearDecay() if decay is None else decay
        checks.instance("decay", self.decay, Decay, "; make one, such as `ctrnn.parts.PowerDecay(2.0)`")
        read_sizes("gates", self.gates, decay=self.decay)
        checks.same_settings([("gates", self.gates), ("decay", self.decay)])

    @affine
    def project(self, x: Tensor) -> Tensor:
        return self.gates.project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        hidden, cell = h.chunk(2, -1)
        return self._change(hidden, cell, self.gates.flow(projected, hidden))

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        hidden, cell = h.chunk(2, -1)
        return self._leak(hidden, cell, self.gates.flow(projected, hidden))

    def flow_and_leak(self, projected: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        hidden, cell = h.chunk(2, -1)
        gates = self.gates.flow(projected, hidden)
        return self._change(hidden, cell, gates), self._leak(hidden, cell, gates)

    def flow_without_leak(self, projected: Tensor, h: Tensor) -> Tensor:
        hidden, cell = h.chunk(2, -1)
        gates = self.gates.flow(projected, hidden)
        written, next_cell, output_gate = self._written(cell, gates)
        return torch.cat([output_gate * torch.tanh(next_cell), written], -1)

    def forget(self, projected: Tensor, h: Tensor, at: Tensor, dt: float | Tensor) -> Tensor:
        hidden, cell = h.chunk(2, -1)
        _, f, _, _ = self.gates.flow(projected, at.chunk(2, -1)[0]).chunk(4, -1)
        return torch.cat([hidden * torch.exp(-dt * torch.ones_like(hidden)), self.decay.after(cell, dt * torch.sigmoid(-f))], -1)

    @property
    def formula(self) -> str:
        decay = formula_of(self.decay)
        linear = decay is not None and decay.text == "h"
        change = "(f - 1) * c + i * g" if linear else "i * g - (1 - f) * ({decay:|h=c})"
        return (
            f"dh/dt = o * tanh({'f * c + i * g' if linear else f'c + {change}'}) - h\ndc/dt = {change}\n"
            "i, f, g, o = sigma(zi), sigma(zf), tanh(zg), sigma(zo)\nzi, zf, zg, zo = {gates}"
        )

    def _change(self, hidden: Tensor, cell: Tensor, gates: Tensor) -> Tensor:
        _, next_cell, output_gate = self._written(cell, gates)
        return torch.cat([output_gate * torch.tanh(next_cell) - hidden, next_cell - cell], -1)

    def _written(self, cell: Tensor, gates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """i g, the cell after a unit Euler step, and o."""
        i, f, g, o = gates.chunk(4, -1)
        written, decayed = torch.sigmoid(i) * torch.tanh(g), self.decay(cell)
        # In this order the decay c gives f c + i g to the last bit, as in torch.nn.LSTM.
        next_cell = torch.sigmoid(f) * decayed + written + (cell - decayed)
        return written, next_cell, torch.sigmoid(o)

    def _leak(self, hidden: Tensor, cell: Tensor, gates: Tensor) -> Tensor:
        _, f, _, _ = gates.chunk(4, -1)
        forgetting = torch.sigmoid(-f)  # 1 - f without cancellation where f is close to 1
        return torch.cat([torch.ones_like(hidden), forgetting * self.decay.leak(cell)], -1)
