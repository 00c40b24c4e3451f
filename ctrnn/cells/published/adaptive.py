r"""Firing rates with a threshold that adapts: what has fired needs more to fire again.

    dr/dt = alpha (sigma(Wx x + Wh r + b - beta a) - r)        da/dt = rho (r - a)

The threshold rises by beta a, and a follows the rate r slowly. It is the adaptive threshold of spiking networks (ALIF) with a
rate in place of spikes; their decays e^(-dt/tau) are those of its exponential Euler step.
"""

from __future__ import annotations

from typing import Unpack, overload

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.cells.stack import Stack, layered
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import Affine, Part, WeightSettings, affine, check_width, read_sizes
from ctrnn.fields.rates import ConstantRate

__all__ = ["AdaptiveField", "adaptive"]


class AdaptiveField(VectorField):
    r"""dr/dt = rate (sigma(drive(x, r) - beta a) - r) and da/dt = adaptation (r - a); r is visible.

    Args:    drive: a `Part` that knows its `input_size` and `hidden_size`; rate, adaptation: a `Part`; beta: >= 0.
    Shape:   x (..., input), state [r, a] (..., 2 hidden) -> (..., 2 hidden).
    Raises:  TypeError for what is no part, or of another dtype; ValueError for other sizes or devices, or a negative beta.
    Source:  the threshold: Bellec, Salaj, Subramoney, Legenstein and Maass 2018, "Long short-term memory and learning-to-learn in
             networks of spiking neurons"; rates in place of spikes: this project.
    """

    drive: Part
    rate: Part
    adaptation: Part

    def __init__(self, drive: Part, rate: Part, adaptation: Part, beta: float = 1.8) -> None:
        parts: list[tuple[str, Part]] = [("drive", drive), ("rate", rate), ("adaptation", adaptation)]
        for name, part in parts:
            if not isinstance(part, Part):
                raise TypeError(f"`{name}` must be a ctrnn.parts.Part, got {type(part).__name__}.")
        inputs, hidden = read_sizes("drive", drive, rate=rate, adaptation=adaptation)
        super().__init__(inputs, hidden, 2 * hidden)
        checks.same_settings(parts)
        self.drive, self.rate, self.adaptation = drive, rate, adaptation
        self.beta: float = checks.non_negative_number("beta", beta)
        h = self.visible(self.initial_state(1))
        with torch.no_grad():
            for name, part in parts:
                check_width(name, part(h.new_zeros(1, inputs), h), h)

    formula = "dh/dt = alpha * (sigma({drive} - {beta} a) - h)\nda/dt = rho * (h - a)\nalpha = {rate:u}\nrho = {adaptation:v}"

    @affine
    def project(self, x: Tensor) -> Tensor:
        return torch.cat([self.drive.project(x), self.rate.project(x), self.adaptation.project(x)], -1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return AdaptiveField.flow_and_leak(self, projected, h)[0]

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return AdaptiveField.flow_and_leak(self, projected, h)[1]

    def flow_and_leak(self, projected: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        r, a = h.chunk(2, -1)
        first, second, third = projected.split([part.projected_size for part in (self.drive, self.rate, self.adaptation)], -1)
        fired = torch.sigmoid(self.drive.flow(first, r) - self.beta * a)
        speeds = [part.flow(own, r).expand_as(r) for part, own in ((self.rate, second), (self.adaptation, third))]
        rates = torch.cat(speeds, -1)
        return rates * (torch.cat([fired, r], -1) - h), rates


@overload
def adaptive(
    input_size: int, hidden_size: int, alpha: float = ..., rho: float = ..., beta: float = ..., **settings: Unpack[WeightSettings]
) -> AdaptiveField: ...
@overload
def adaptive(
    input_size: int,
    hidden_size: int,
    alpha: float = ...,
    rho: float = ...,
    beta: float = ...,
    *,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> AdaptiveField | Stack: ...
def adaptive(
    input_size: int,
    hidden_size: int,
    alpha: float = 0.5,
    rho: float = 0.05,
    beta: float = 1.8,
    *,
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> AdaptiveField | Stack:
    r"""dr/dt = alpha (sigma(Wx x + Wh r + b - beta a) - r), da/dt = rho (r - a): rates with thresholds that adapt.

    alpha and rho are learned, one for each unit, and stay above 0.

    Args:    input_size, hidden_size: features and visible units; alpha, rho: rates per unit of time, > 0, at the start;
             beta: how much the threshold rises, >= 0; num_layers: above 1, a `Stack` of so many;
             bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), [r, a] (..., 2 hidden) -> (..., 2 hidden).
    Raises:  ValueError if alpha or rho is not positive, or beta negative.
    Source:  as `AdaptiveField`.
    """

    def build(read: int) -> AdaptiveField:
        drive = Affine(read, hidden_size, hidden_size, **settings)
        rates = [checks.positive_number(name, rate) for name, rate in (("alpha", alpha), ("rho", rho))]
        of_units = (torch.full((hidden_size,), rate, dtype=torch.float64) for rate in rates)
        fast, slow = (ConstantRate(each, dtype=drive.weight_h.dtype, device=drive.weight_h.device) for each in of_units)
        return AdaptiveField(drive, fast, slow, beta)

    return layered(build, input_size, hidden_size, num_layers)
