r"""Closed-form continuous-time networks: at each sample every unit is put on a curve, and follows it while the sample acts.

    h(s) = base + span phi(phase + speed s)        s since the sample; f1, f2, a, b linear in a backbone of [x, h]

    state  [base, span, phase, speed]       in between  d phase/dt = speed, and the rest stands still
    default    phi = sigma    base = tanh f1    span = tanh f2 - tanh f1    phase = b    speed = a
    no_gate    phi = sigma    base = tanh f1    span = tanh f2              phase = b    speed = a
    pure       phi = exp      base = A          span = -A f1                phase = 0    speed = -(|w| + |f1|)

The curve begins where b says, wherever h was: what is known of h is known through the backbone alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar, TypedDict, Unpack

import torch
from torch import Tensor, nn

from ctrnn import VectorField, checks
from ctrnn.cells.published.liquid.synapses import checked_wiring
from ctrnn.fields.rates import EXPONENTIAL, SIGMOID
from discretize.jumps.jump import Jump
from discretize.jumps.rnn import HeldJumpRNN
from discretize.steps.euler import Euler

__all__ = ["ACTIVATIONS", "CfCJump", "Curve", "cfc"]


class Curve(VectorField):
    r"""Moves the phase of units that follow base + span phi(phase); the state is [base, span, phase, speed].

    Args:    hidden_size: units; activation: phi, "sigmoid" or "exponential".
    Shape:   h (..., 4 hidden), visible as (..., hidden). A start h_0 of so many units is [h_0, 0, 0, 0].
    Source:  of Hasani et al. 2022.
    """

    def __init__(self, hidden_size: int, activation: str = "sigmoid") -> None:
        super().__init__(0, hidden_size, 4 * checks.positive_size("hidden_size", hidden_size))
        kinds = {kind.name: kind.function for kind in (SIGMOID, EXPONENTIAL)}
        self.activation: str = checks.one_of("activation", activation, kinds)
        self.function: Callable[[Tensor], Tensor] = kinds[activation]

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        still = torch.zeros_like(h[..., : self.hidden_size])
        return torch.cat([still, still, h[..., 3 * self.hidden_size :], still], -1)

    def visible(self, state: Tensor) -> Tensor:
        base, span, phase, _ = state.chunk(4, -1)
        return base + span * self.function(phase)


class _Masked(nn.Linear):
    """Applies a linear map of which some weights stay 0."""

    mask: Tensor | None

    def __init__(self, width: int, hidden_size: int, mask: Tensor | None) -> None:
        super().__init__(width, hidden_size)
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight if self.mask is None else self.weight * self.mask, self.bias)


class _Interpolated(nn.Module):
    """Computes tanh f1 (1 - s) + s tanh f2."""

    ff1: _Masked
    ff2: _Masked
    time_a: nn.Linear
    time_b: nn.Linear

    activation: ClassVar[str] = SIGMOID.name

    def __init__(self, width: int, hidden_size: int, mask: Tensor | None) -> None:
        super().__init__()
        self.ff1, self.ff2 = _Masked(width, hidden_size, mask), _Masked(width, hidden_size, mask)
        self.time_a, self.time_b = nn.Linear(width, hidden_size), nn.Linear(width, hidden_size)

    def forward(self, read: Tensor) -> tuple[Tensor, ...]:
        start, end = torch.tanh(self.ff1(read)), torch.tanh(self.ff2(read))
        return start, self.span(start, end), self.time_b(read), self.time_a(read)

    def span(self, start: Tensor, end: Tensor) -> Tensor:
        return end - start


class _Ungated(_Interpolated):
    """Computes tanh f1 + s tanh f2."""

    def span(self, start: Tensor, end: Tensor) -> Tensor:
        return end


class _Pure(nn.Module):
    """Computes A - A f1 exp(-(|w| + |f1|) t)."""

    w_tau: nn.Parameter

    activation: ClassVar[str] = EXPONENTIAL.name

    def __init__(self, width: int, hidden_size: int, mask: Tensor | None) -> None:
        super().__init__()
        self.ff1: _Masked = _Masked(width, hidden_size, mask)
        self.w_tau, self.A = nn.Parameter(torch.zeros(1, hidden_size)), nn.Parameter(torch.ones(1, hidden_size))

    def forward(self, read: Tensor) -> tuple[Tensor, ...]:
        f = self.ff1(read)
        return self.A.expand_as(f), -self.A * f, torch.zeros_like(f), -(self.w_tau.abs() + f.abs())


CURVES: dict[str, type[_Interpolated] | type[_Pure]] = {"default": _Interpolated, "pure": _Pure, "no_gate": _Ungated}


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

    hidden_size: int
    state_size: int
    mode: str
    activation: str
    units: int
    layers: int

    reads_gaps = False

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
        self.input_size: int = checks.positive_size("input_size", input_size)
        self.field: Curve = Curve(hidden_size, curve.activation)
        self.hidden_size, self.state_size, self.mode, self.activation = hidden_size, self.field.state_size, mode, activation
        self.units, self.layers = checks.positive_size("units", units), checks.size("layers", layers)
        self.dropout: float = checks.probability("dropout", dropout)
        widths = [input_size + hidden_size] + [units] * layers
        self.wiring: Tensor | None = wiring if wiring is None else checked_wiring(wiring)
        if self.wiring is not None and (layers or self.wiring.shape != (widths[0], hidden_size)):
            got = tuple(self.wiring.shape)
            raise ValueError(f"`wiring` must be {(widths[0], hidden_size)}, with layers=0, got {got}, {layers=}.")
        self.backbone: nn.Sequential = nn.Sequential()
        for k, (read, width) in enumerate(pairwise(widths)):
            self.backbone.extend([nn.Linear(read, width), bend()])
            if k and dropout:
                self.backbone.append(nn.Dropout(dropout))
        self.curve: _Interpolated | _Pure = curve(widths[-1], hidden_size, None if self.wiring is None else self.wiring.T.abs())
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
    dt: float | None = None,
    **backbone: Unpack[BackboneSettings],
) -> HeldJumpRNN:
    r"""Return a closed-form continuous-time network. Between samples only phases move, and one Euler step is exact.

    Args:    input_size, hidden_size, mode, and activation, units, layers, dropout, wiring, as for `CfCJump`; hold, open_interval,
             batch_first, dt as for `HeldJumpRNN`.
    Source:  Hasani et al. 2022.
    """
    jump = CfCJump(input_size, hidden_size, mode, **backbone)
    held: Any = {"hold": hold, "open_interval": open_interval, "batch_first": batch_first, "dt": dt}
    return HeldJumpRNN(jump.field, jump, method=Euler(), **held)
