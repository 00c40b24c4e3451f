r"""A network as a field that runs on its own: dh/dt = net(h)."""

from __future__ import annotations

from torch import Tensor, nn

from ctrnn.fields.field import VectorField

__all__ = ["NetworkField"]


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
        if not isinstance(net, nn.Module):
            raise TypeError(f"`net` must be a torch.nn.Module, got {type(net).__name__}.")
        self.net = net

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        derivative: Tensor = self.net(h)
        return derivative
