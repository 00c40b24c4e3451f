r"""Coupled oscillators: coRNN, a network of driven, damped pendulums.

    y'' = tanh(W y + U y' + V x + b) - gamma y - epsilon y'            on the state [y, z], z = y'

The published cell is the symplectic Euler step: z by the old y and z, then y by the new z. (The paper also has z damped by
the new z, z <- (...)/(1 + epsilon dt); its experiments, as the authors' code has them, do not.)
"""

from __future__ import annotations

import math
from typing import ClassVar, Unpack, overload

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.cells.stack import Stack, layered
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import Affine, WeightSettings, affine
from ctrnn.formulas import Published

__all__ = ["CoRNNField", "cornn"]


class CoRNNField(VectorField):
    r"""dy/dt = z and dz/dt = tanh(W y + U z + V x + b) - gamma y - epsilon z; y is visible.

    The columns of `force.weight_h` are those of W, then of U. Weights start uniform on +-1/sqrt(input + 2 hidden).

    Args:    input_size, hidden_size; gamma: stiffness, epsilon: damping, both >= 0;
             bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), state [y, z] (..., 2 hidden) -> (..., 2 hidden).
    Raises:  ValueError for a negative gamma or epsilon.
    Source:  Rusch and Mishra 2021, "Coupled oscillatory recurrent neural network (coRNN)", and the authors' code.
    """

    def __init__(
        self, input_size: int, hidden_size: int, gamma: float = 1.0, epsilon: float = 1.0, **settings: Unpack[WeightSettings]
    ) -> None:
        super().__init__(input_size, hidden_size, 2 * hidden_size)
        self.gamma: float = checks.non_negative_number("gamma", gamma)
        self.epsilon: float = checks.non_negative_number("epsilon", epsilon)
        self.force: Affine = Affine(input_size, self.state_size, hidden_size, **settings)
        bound = 1 / math.sqrt(self.input_size + self.state_size)
        for weights in self.force.parameters():
            torch.nn.init.uniform_(weights, -bound, bound, generator=settings.get("generator"))

    letters: ClassVar[dict[str, str]] = {"W, U": "force.weight_h", "V": "force.weight_x", "b": "force.bias"}
    published: Published = Published(
        "SymplecticEuler", "z' = z + dt (tanh(W h + U z + V x + b) - {gamma} h - {epsilon} z)\nh' = h + dt z'"
    )

    @property
    def formula(self) -> str:
        bias = "" if self.force.bias is None else " + b"
        return f"dh/dt = z\ndz/dt = tanh(W h + U z + V x{bias}) - {{gamma}} h - {{epsilon}} z"

    @affine
    def project(self, x: Tensor) -> Tensor:
        return self.force.project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        y, z = h.chunk(2, -1)
        return torch.cat([z, torch.tanh(self.force.flow(projected, h)) - self.gamma * y - self.epsilon * z], -1)

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        y, z = h.chunk(2, -1)
        return torch.cat([torch.zeros_like(y), torch.full_like(z, self.epsilon)], -1)


@overload
def cornn(
    input_size: int, hidden_size: int, gamma: float = ..., epsilon: float = ..., **settings: Unpack[WeightSettings]
) -> CoRNNField: ...
@overload
def cornn(
    input_size: int,
    hidden_size: int,
    gamma: float = ...,
    epsilon: float = ...,
    *,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> CoRNNField | Stack: ...
def cornn(
    input_size: int,
    hidden_size: int,
    gamma: float = 1.0,
    epsilon: float = 1.0,
    *,
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> CoRNNField | Stack:
    r"""y'' = tanh(W y + U y' + V x + b) - gamma y - epsilon y'; its symplectic Euler step is coRNN.

    Args:    input_size, hidden_size: features and visible units; gamma: stiffness, epsilon: damping, both >= 0;
             num_layers: above 1, a `Stack` of so many; bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), [y, y'] (..., 2 hidden) -> (..., 2 hidden).
    Raises:  ValueError for a negative gamma or epsilon.
    Source:  Rusch and Mishra 2021, "Coupled oscillatory recurrent neural network (coRNN)".
    """
    return layered(lambda read: CoRNNField(read, hidden_size, gamma, epsilon, **settings), input_size, hidden_size, num_layers)
