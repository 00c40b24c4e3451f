r"""Undamped, uncoupled oscillators with learned clocks: UnICORNN.

    dy/dt = g z        dz/dt = -g (tanh(w y + V x + b) + alpha y)        g = sigma(c), one number for each unit

Where x is held, g (z^2/2 + alpha y^2/2 + log cosh(w y + V x + b)/w) of each unit stays as it is: the system is Hamiltonian.
The published cell is its symplectic Euler step. Units of a layer hear of one another only through the next layer.
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

__all__ = ["UnICORNNField", "unicornn"]


class UnICORNNField(VectorField):
    r"""dy/dt = g z and dz/dt = -g (tanh(w y + V x + b) + alpha y), g = sigma(c); y is visible.

    V starts Kaiming-uniform with slope 8, w uniform on [0, 1], c on [-0.1, 0.1], and b is 0, as in the authors' code.

    Args:    input_size, hidden_size; alpha: stiffness, >= 0; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), state [y, z] (..., 2 hidden) -> (..., 2 hidden).
    Raises:  ValueError for a negative alpha.
    Source:  Rusch and Mishra 2021, "UnICORNN: a recurrent model for learning very long time dependencies".
    """

    weight_h: nn.Parameter
    c: nn.Parameter

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        alpha: float = 1.0,
        *,
        bias: bool = True,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, 2 * hidden_size)
        checks.can_make_weights(dtype, device, generator)
        self.alpha: float = checks.non_negative_number("alpha", alpha)

        def uniform(low: float, high: float, *shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, dtype=dtype, device=device).uniform_(low, high, generator=generator))

        bound = math.sqrt(6 / (65 * max(1, self.input_size)))
        self.weight_x: nn.Parameter = uniform(-bound, bound, self.hidden_size, self.input_size)
        self.weight_h, self.c = uniform(0, 1, self.hidden_size), uniform(-0.1, 0.1, self.hidden_size)
        self.bias: nn.Parameter | None = nn.Parameter(torch.zeros_like(self.c)) if checks.is_flag("bias", bias) else None

    letters: ClassVar[dict[str, str]] = {"V": "weight_x", "w": "weight_h", "b": "bias"}
    # The paper's speed of a unit is 1/2 + tanh(c/2)/2.
    published: Published = Published(
        "SymplecticEuler",
        "z' = z - dt g * (tanh(w * h + V x + b) + {alpha} h)\nh' = h + dt g * z'\ng = 1/2 + tanh(c/2)/2",
    )

    @property
    def formula(self) -> str:
        bias = "" if self.bias is None else " + b"
        return f"dh/dt = g * z\ndz/dt = -g * (tanh(w * h + V x{bias}) + {{alpha}} h)\ng = sigma(c)"

    @affine
    def project(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight_x, self.bias)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        y, z = h.chunk(2, -1)
        speed = torch.sigmoid(self.c)
        return torch.cat([speed * z, -speed * (torch.tanh(self.weight_h * y + projected) + self.alpha * y)], -1)

    def jacobian(self, projected: Tensor, h: Tensor) -> Tensor:
        # Of a unit only its own y and z: four diagonals, where forward mode would need a direction for each of them.
        y, z = h.chunk(2, -1)
        speed = torch.sigmoid(self.c).expand_as(y)
        bend = 1 - torch.tanh(self.weight_h * y + projected) ** 2
        blocks = [torch.zeros_like(y), speed, -speed * (self.weight_h * bend + self.alpha), torch.zeros_like(z)]
        above_left, above_right, below_left, below_right = map(torch.diag_embed, blocks)
        return torch.cat([torch.cat([above_left, above_right], -1), torch.cat([below_left, below_right], -1)], -2)


@overload
def unicornn(input_size: int, hidden_size: int, alpha: float = ..., **settings: Unpack[WeightSettings]) -> UnICORNNField: ...
@overload
def unicornn(
    input_size: int, hidden_size: int, alpha: float = ..., *, num_layers: int, **settings: Unpack[WeightSettings]
) -> UnICORNNField | Stack: ...
def unicornn(
    input_size: int, hidden_size: int, alpha: float = 1.0, *, num_layers: int = 1, **settings: Unpack[WeightSettings]
) -> UnICORNNField | Stack:
    r"""dy/dt = g z, dz/dt = -g (tanh(w y + V x + b) + alpha y), g = sigma(c); its symplectic Euler step is UnICORNN.

    Args:    input_size, hidden_size: features and visible units; alpha: stiffness, >= 0;
             num_layers: above 1, a `Stack` of so many; bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), [y, z] (..., 2 hidden) -> (..., 2 hidden).
    Raises:  ValueError for a negative alpha.
    Source:  Rusch and Mishra 2021, "UnICORNN: a recurrent model for learning very long time dependencies".
    """
    return layered(lambda read: UnICORNNField(read, hidden_size, alpha, **settings), input_size, hidden_size, num_layers)
