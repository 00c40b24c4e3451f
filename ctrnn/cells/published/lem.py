r"""Long expressive memory: two states that pull each other, each unit of each on a learned clock.

    dy/dt = g2 (tanh(Wy z + Vy x + by) - y)        g2 = sigma(W2 y + V2 x + b2)
    dz/dt = g1 (tanh(Wz y + Vz x + bz) - z)        g1 = sigma(W1 y + V1 x + b1)

The published cell is the symplectic Euler step of length dt: z by the old y, then y by the new z, with the gates of the old y.
"""

from __future__ import annotations

from typing import Unpack, overload

import torch
from torch import Tensor

from ctrnn.cells.stack import Stack, layered
from ctrnn.fields.candidates import TanhCandidate
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import Affine, WeightSettings, affine
from ctrnn.formulas import Published

__all__ = ["LEMField", "lem"]


class LEMField(VectorField):
    r"""dy/dt = g2 (tanh(Wy z + Vy x + by) - y) and dz/dt = g1 (tanh(Wz y + Vz x + bz) - z); y is visible.

    The rows of `gates` are those of g2, g1 and Wz, which read y; `candidate` reads z.

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), state [y, z] (..., 2 hidden) -> (..., 2 hidden).
    Source:  Rusch, Mishra, Erichson and Mahoney 2022, "Long expressive memory for sequence modeling".
    """

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__(input_size, hidden_size, 2 * hidden_size)
        self.gates: Affine = Affine(input_size, hidden_size, 3 * hidden_size, **settings)
        self.candidate: TanhCandidate = TanhCandidate(input_size, hidden_size, **settings)

    formula = "dh/dt = g * ({candidate:|h=z} - h)\ndz/dt = f * (tanh(p) - z)\ng, f = sigma(q), sigma(r)\nq, r, p = {gates:g}"

    published: Published = Published(
        "SymplecticEuler",
        "h' = (1 - dt g) * h + dt g * tanh(Wx x + Wh z' + b)\nz' = (1 - dt f) * z + dt f * tanh(p)\n"
        "g, f = sigma(q), sigma(r)\nq, r, p = Wgx x + Wgh h + bg",
    )

    @affine
    def project(self, x: Tensor) -> Tensor:
        return torch.cat([self.gates.project(x), self.candidate.project(x)], -1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return LEMField.flow_and_leak(self, projected, h)[0]

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return LEMField.flow_and_leak(self, projected, h)[1]

    def flow_and_leak(self, projected: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        y, z = h.chunk(2, -1)
        to_gates, to_candidate = projected.split([self.gates.projected_size, self.candidate.projected_size], -1)
        of_y, of_z, pull = self.gates.flow(to_gates, y).chunk(3, -1)
        rates = torch.sigmoid(torch.cat([of_y, of_z], -1))
        return rates * (torch.cat([self.candidate.flow(to_candidate, z), torch.tanh(pull)], -1) - h), rates


@overload
def lem(input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> LEMField: ...
@overload
def lem(input_size: int, hidden_size: int, *, num_layers: int, **settings: Unpack[WeightSettings]) -> LEMField | Stack: ...
def lem(input_size: int, hidden_size: int, *, num_layers: int = 1, **settings: Unpack[WeightSettings]) -> LEMField | Stack:
    r"""dy/dt = g2 (tanh(Wy z + Vy x + by) - y), dz/dt = g1 (tanh(Wz y + Vz x + bz) - z); its symplectic Euler step is LEM.

    Args:    input_size, hidden_size: features and visible units; num_layers: above 1, a `Stack` of so many;
             bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), [y, z] (..., 2 hidden) -> (..., 2 hidden).
    Source:  Rusch, Mishra, Erichson and Mahoney 2022, "Long expressive memory for sequence modeling".
    """
    return layered(lambda read: LEMField(read, hidden_size, **settings), input_size, hidden_size, num_layers)
