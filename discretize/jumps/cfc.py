r"""Closed-form continuous-time networks: at each sample every unit is put on a curve, and follows it while the sample acts.

    h(s) = base + span phi(b + a s)        s since the sample; base, span, a, b linear in a backbone of [x, h], see curves.py

By default it is the logistic curve from tanh f1 to tanh f2. It begins where b says, wherever h was: what is known of h is known
through the backbone alone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypedDict, Unpack

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.cells.published.liquid.synapses import checked_wiring
from discretize.jumps.curves import CURVES, Curve
from discretize.jumps.held import HeldJumpRNN
from discretize.jumps.jump import Jump
from discretize.steps.euler import Euler

__all__ = ["ACTIVATIONS", "CfCJump", "cfc"]


class _LeCunTanh(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 1.7159 * torch.tanh(0.666 * x)


ACTIVATIONS = {"lecun_tanh": _LeCunTanh, "tanh": nn.Tanh, "relu": nn.ReLU, "silu": nn.SiLU, "gelu": nn.GELU}


class BackboneSettings(TypedDict, total=False):
    """Keywords of a `CfCJump`."""

    activation: str
    units: int
    layers: int
    dropout: float
    wiring: Tensor | None


class CfCJump(Jump):
    r"""Puts the units of a `Curve` on the curves that a sample and the state choose; with values and without missing ones.

    Args:    input_size, hidden_size; mode: "default", "pure" or "no_gate"; activation: of the backbone, "lecun_tanh", "tanh",
             "relu", "silu" or "gelu"; units, layers, dropout: of the backbone, none where layers is 0; wiring: without backbone,
             (input + hidden, hidden) of -1, 0 and 1, 0 where f1 and f2 of a unit do not read.
    Raises:  ValueError for other words and wirings.
    Source:  Hasani et al. 2022, "Closed-form continuous-time neural networks", as ncps writes it.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        mode: str = "default",
        activation: str = "lecun_tanh",
        units: int = 128,
        layers: int = 1,
        dropout: float = 0.0,
        wiring: Tensor | None = None,
    ) -> None:
        super().__init__()
        curve = CURVES[checks.one_of("mode", mode, CURVES)]
        bend = ACTIVATIONS[checks.one_of("activation", activation, ACTIVATIONS)]
        self.input_size = checks.positive_size("input_size", input_size)
        self.field = Curve(hidden_size, curve.activation)
        self.hidden_size, self.state_size, self.mode, self.activation = hidden_size, self.field.state_size, mode, activation
        self.units, self.layers = checks.positive_size("units", units), checks.size("layers", layers)
        self.dropout = checks.probability("dropout", dropout)
        widths = [input_size + hidden_size] + [units] * layers
        self.wiring = wiring if wiring is None else checked_wiring(wiring)
        if self.wiring is not None and (layers or self.wiring.shape != (widths[0], hidden_size)):
            got = tuple(self.wiring.shape)
            raise ValueError(f"`wiring` must be {(widths[0], hidden_size)}, with layers=0, got {got}, {layers=}.")
        self.backbone = nn.Sequential()
        for k, (read, width) in enumerate(pairwise(widths)):
            self.backbone.extend([nn.Linear(read, width), bend()])
            if k and dropout:
                self.backbone.append(nn.Dropout(dropout))
        self.curve = curve(widths[-1], hidden_size, None if self.wiring is None else self.wiring.T.abs())
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)

    def forward(self, x: Tensor, observed: Tensor, h: Tensor) -> Tensor:
        return torch.cat(self.curve(self.backbone(torch.cat([x, self.field.visible(h)], -1))), -1)


def cfc(
    input_size: int,
    hidden_size: int,
    mode: str = "default",
    *,
    hold: str = "forward",
    open_interval: float | None = None,
    batch_first: bool = False,
    **backbone: Unpack[BackboneSettings],
) -> HeldJumpRNN:
    r"""A closed-form continuous-time network. Between samples only phases move, which one step of Euler's counts exactly.

    Args:    input_size, hidden_size, mode, and activation, units, layers, dropout, wiring, as for `CfCJump`; hold, open_interval,
             batch_first as for `HeldJumpRNN`.
    Source:  Hasani et al. 2022.
    """
    jump = CfCJump(input_size, hidden_size, mode, **backbone)
    return HeldJumpRNN(jump.field, jump, method=Euler(), hold=hold, open_interval=open_interval, batch_first=batch_first)
