r"""The minimal gated unit: one gate is rate and reset in one.

    dh/dt = f (tanh(Wx x + Wh (f h) + b) - h)        f = sigma(Vx x + Vh h + c)

Its unit Euler step is the published cell, h <- (1 - f) h + f tanh(...). The gate comes before the product, where that of
`ctrnn.gru`'s reset, as torch's, comes after.
"""

from __future__ import annotations

from typing import Unpack, overload

import torch
from torch import Tensor

from ctrnn.cells.stack import Stack, layered
from ctrnn.fields.candidates import TanhCandidate
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import WeightSettings, affine
from ctrnn.fields.rates import GateRate
from ctrnn.formulas import Published

__all__ = ["MGUField", "mgu"]


class MGUField(VectorField):
    r"""f (tanh(Wx x + Wh (f h) + b) - h), f = sigma(Vx x + Vh h + c).

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> dh/dt (..., hidden).
    Source:  Zhou, Wu, Zhang and Zhou 2016, "Minimal gated unit for recurrent neural networks".
    """

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__(input_size, hidden_size)
        self.candidate: TanhCandidate = TanhCandidate(input_size, hidden_size, **settings)
        self.rate: GateRate = GateRate(input_size, hidden_size, **settings)

    formula = "dh/dt = f * ({candidate:|h=(f * h)} - h)\nf = {rate:f}"
    published: Published = Published(
        "Euler", "h' = h + dt (f * tanh(Wx x + Wh (f * h) + b) - f * h)\nf = sigma(Wfx x + Wfh h + bf)"
    )

    @affine
    def project(self, x: Tensor) -> Tensor:
        return torch.cat([self.candidate.project(x), self.rate.project(x)], -1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return MGUField.flow_and_leak(self, projected, h)[0]

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.rate.flow(projected.chunk(2, -1)[1], h)

    def flow_and_leak(self, projected: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        gate = MGUField.leak(self, projected, h)
        return gate * (self.candidate.flow(projected.chunk(2, -1)[0], gate * h) - h), gate


@overload
def mgu(input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> MGUField: ...
@overload
def mgu(input_size: int, hidden_size: int, *, num_layers: int, **settings: Unpack[WeightSettings]) -> MGUField | Stack: ...
def mgu(input_size: int, hidden_size: int, *, num_layers: int = 1, **settings: Unpack[WeightSettings]) -> MGUField | Stack:
    r"""dh/dt = f (tanh(Wx x + Wh (f h) + b) - h) with the gate f = sigma(Vx x + Vh h + c); its unit Euler step is the MGU.

    Args:    input_size, hidden_size: features and units; num_layers: above 1, a `Stack` of so many;
             bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), h (..., hidden) -> dh/dt (..., hidden).
    Source:  Zhou, Wu, Zhang and Zhou 2016, "Minimal gated unit for recurrent neural networks".
    """
    return layered(lambda read: MGUField(read, hidden_size, **settings), input_size, hidden_size, num_layers)
