r"""Populations that excite and inhibit one another, of which a share is refractory.

    tau dh/dt = -h + (k - r h) S(W h + Wx x)        S(a) = sigma(a + b) - sigma(b), 0 where nothing comes in;  k = 1 - sigma(b)

Wilson and Cowan's response of a population has a slope a and a threshold theta, 1/(1 + e^(-a (y - theta))) - 1/(1 + e^(a theta)):
the slope is one of weights, a w, and b = -a theta.
"""

from __future__ import annotations

from typing import Unpack, overload

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.cells.stack import Stack, layered
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import Affine, Part, WeightSettings, affine, check_width, read_sizes
from ctrnn.fields.rates import rate_of
from ctrnn.fields.relaxation import relaxation_formula

__all__ = ["WilsonCowanField", "wilson_cowan"]


class WilsonCowanField(VectorField):
    r"""rate ((1 - sigma(b) - refractory h) (sigma(Wx x + Wh h + b) - sigma(b)) - h).

    Args:    drive: an `Affine` with as many outputs as units, and a bias; rate: a `Part`; refractory: r >= 0.
    Shape:   x (..., input), h (..., hidden) -> dh/dt (..., hidden).
    Raises:  TypeError, ValueError for parts that do not fit, or a negative r.
    Source:  Wilson and Cowan 1972, "Excitatory and inhibitory interactions in localized populations of model neurons", eqs. (11),
             (12) and (15).
    """

    drive: Affine
    rate: Part

    def __init__(self, drive: Affine, rate: Part, refractory: float = 1.0) -> None:
        checks.instance("drive", drive, Affine)
        checks.instance("rate", rate, Part)
        super().__init__(*read_sizes("drive", drive, rate=rate))
        if drive.bias is None:
            raise ValueError("`drive` has no bias, and the threshold of a population is one; make it with bias=True.")
        checks.same_settings([("drive", drive), ("rate", rate)])
        self.drive, self.rate = drive, rate
        self.refractory: float = checks.non_negative_number("refractory", refractory)
        with torch.no_grad():
            h = self.initial_state(1)
            check_width("drive", drive(h.new_zeros(1, self.input_size), h), h)

    @property
    def formula(self) -> str:
        return relaxation_formula(self.rate, pull="(1 - sigma(b) - {refractory} h) * (sigma({drive}) - sigma(b)) - h")

    @affine
    def project(self, x: Tensor) -> Tensor:
        return torch.cat([self.drive.project(x), self.rate.project(x)], -1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        rate, response, most = self._of(projected, h)
        return rate * ((most - self.refractory * h) * response - h)

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        rate, response, _ = self._of(projected, h)
        return rate * (1 + self.refractory * response)

    def _of(self, projected: Tensor, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        to_drive, to_rate = projected.split([self.drive.projected_size, self.rate.projected_size], -1)
        least = torch.sigmoid(self.drive.bias)
        return self.rate.flow(to_rate, h), torch.sigmoid(self.drive.preactivation(to_drive, h)) - least, 1 - least


@overload
def wilson_cowan(
    input_size: int,
    hidden_size: int,
    tau: float | Tensor = ...,
    refractory: float = ...,
    *,
    learn_tau: bool = ...,
    **settings: Unpack[WeightSettings],
) -> WilsonCowanField: ...
@overload
def wilson_cowan(
    input_size: int,
    hidden_size: int,
    tau: float | Tensor = ...,
    refractory: float = ...,
    *,
    learn_tau: bool = ...,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> WilsonCowanField | Stack: ...
def wilson_cowan(
    input_size: int,
    hidden_size: int,
    tau: float | Tensor = 1.0,
    refractory: float = 1.0,
    *,
    learn_tau: bool = False,
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> WilsonCowanField | Stack:
    r"""tau dh/dt = -h + (k - r h) S(W h + Wx x), Wilson and Cowan's populations: two of them, or any number.

    Args:    input_size, hidden_size: features and populations; tau: time constants, a number or (hidden,); refractory: r;
             learn_tau: whether tau is learned; num_layers: above 1, a `Stack` of so many; dtype, device, generator as in
             torch.nn.
    Shape:   a field x (..., input), h (..., hidden) -> dh/dt (..., hidden).
    Raises:  TypeError, ValueError if tau is not positive, or refractory negative.
    Source:  Wilson and Cowan 1972, "Excitatory and inhibitory interactions in localized populations of model neurons", eqs. (11),
             (12) and (15).
    """
    return layered(
        lambda read: WilsonCowanField(
            Affine(read, hidden_size, hidden_size, **settings), rate_of(tau, hidden_size, learn_tau, **settings), refractory
        ),
        input_size,
        hidden_size,
        num_layers,
    )
