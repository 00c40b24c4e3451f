r"""Synapses that open with what they read, the sparse ones masked.

sum_j w_ji s_ji(u_j) e_ji        sum_j w_ji s_ji(u_j)        s_ji(u) = sigma(a_ji u + b_ji), w_ji > 0
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.calls import AnsweredInit
from ctrnn.fields.rates import SOFTPLUS

__all__ = ["Synapses", "checked_wiring", "positive", "uniform"]


class Synapses(AnsweredInit, nn.Module):
    r"""sum_j w s(u_j) e and sum_j w s(u_j), over those that there are, s(u) = sigma(a u + b).

    Args:    wiring: (sources, units) of -1, 0 and 1: where there is none, and where e starts at -1 and at 1;
             dtype, device, generator as in torch.nn.
    Shape:   u (..., sources) -> (..., 2 units), both side by side.
    Raises:  ValueError for another wiring.
    Source:  Hasani et al. 2021, eqs. (1) and (2), as ncps writes and starts them; Lechner et al. 2020 for wirings.
    """

    slope: nn.Parameter
    offset: nn.Parameter

    wiring: Tensor

    def __init__(
        self,
        wiring: Tensor,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        checks.can_make_weights(dtype, device, generator)
        self.register_buffer("wiring", checked_wiring(wiring, dtype, device))
        slope, centre = uniform(self.wiring, 3, 8, generator), uniform(self.wiring, 0.3, 0.8, generator)
        self.slope, self.offset = nn.Parameter(slope), nn.Parameter(-slope * centre)
        self.potential: nn.Parameter = nn.Parameter(self.wiring.clone())
        self.raw_weight: nn.Parameter = positive(uniform(self.wiring, 0.001, 1, generator))

    def forward(self, u: Tensor) -> Tensor:
        weight = SOFTPLUS.function(self.raw_weight) * self.wiring.abs()
        conductance = weight * torch.sigmoid(self.slope * u.unsqueeze(-1) + self.offset)
        return torch.cat([(conductance * self.potential).sum(-2), conductance.sum(-2)], -1)

    def extra_repr(self) -> str:
        return " x ".join(map(str, self.wiring.shape))


def checked_wiring(wiring: Tensor, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Tensor:
    """Return a copy of a wiring, (sources, units) of -1, 0 and 1, once it is checked."""
    signs = checks.is_tensor("wiring", wiring)
    if signs.dim() != 2 or not checks.holds(signs == signs.sign()):
        came = f"shape {tuple(signs.shape)}" if signs.dim() != 2 else f"{float(signs[signs != signs.sign()][0]):g} among them"
        raise ValueError(f"`wiring` must be (sources, units) of -1, 0 and 1, got {came}.")
    return signs.to(dtype=dtype or torch.get_default_dtype(), device=device, copy=True)


def positive(values: Tensor) -> nn.Parameter:
    """Return a parameter whose softplus is `values`; 0 becomes the smallest positive number."""
    return nn.Parameter(SOFTPLUS.inverse(values.clamp(min=torch.finfo(values.dtype).tiny)))


def uniform(like: Tensor, low: float, high: float, generator: torch.Generator | None) -> Tensor:
    """Draw numbers uniformly between `low` and `high`, in the shape of `like`."""
    return torch.empty_like(like).uniform_(low, high, generator=generator)
