r"""Fields that are networks of torch's: dh/dt = net(h) on its own, and dh = F(h) dx, which reads the slope of its input."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from ctrnn import checks
from ctrnn.fields.field import VectorField

__all__ = ["ControlledField", "NetworkField"]


class NetworkField(VectorField):
    r"""dh/dt = net(h), without input.

    Args:    net: a module (..., hidden) -> (..., hidden); hidden_size: units.
    Shape:   h (..., hidden) -> (..., hidden).
    Raises:  TypeError for what is no module.
    Source:  Chen, Rubanova, Bettencourt and Duvenaud 2018, "Neural ordinary differential equations", eq. (2).
    """

    formula = "dh/dt = net(h)"

    def __init__(self, net: nn.Module, hidden_size: int) -> None:
        super().__init__(0, hidden_size)
        self.net: nn.Module = checks.instance("net", net, nn.Module)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        derivative: Tensor = self.net(h)
        return derivative


class ControlledField(VectorField):
    r"""dh/dt = F(h) dx/dt: along `DerivativePath(path)`, how fast x is passed through does not matter, only where it leads.

    Args:    f: F, a module or function (batch, hidden) -> (batch, hidden, input), or (batch, hidden * input).
    Shape:   dx/dt (..., input), h (..., hidden) -> (..., hidden).
    Raises:  ValueError for an F of another shape.
    Source:  Kidger, Morrill, Foster and Lyons 2020, "Neural controlled differential equations", eq. (4).
    """

    formula = "dh/dt = F(h) x"

    def __init__(self, f: Callable[[Tensor], Tensor], input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        if not callable(f):
            raise TypeError(f"`f` must be a module or function of the state, got {type(f).__name__}.")
        self.f = f

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        matrix, shape = self.f(h), (*h.shape[:-1], self.hidden_size, self.input_size)
        if matrix.shape == (*h.shape[:-1], self.hidden_size * self.input_size):
            matrix = matrix.unflatten(-1, shape[-2:])
        if matrix.shape != shape:
            raise ValueError(f"`f` must give {shape} for h of shape {tuple(h.shape)}, got {tuple(matrix.shape)}.")
        return (matrix @ projected[..., None])[..., 0]
