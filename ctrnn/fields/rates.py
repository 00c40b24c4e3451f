r"""Rates: how fast the state moves towards its candidate, per unit of time.

    fixed              1, or any constant                    plain        Tallec and Ollivier 2018, eq. (3)
    constant           alpha = exp(a) > 0, learnable         leaky        eq. (4)
    sigmoid constant   alpha = sigma(a) in (0, 1)            leaky as in the papers' discrete cells, eq. (5)
    global gate        g = sigma(wx x + wh h + b)            one clock    eq. (7)
    gate               g_i = sigma(...) for each unit i      own clocks   eq. (10)

Rates without an upper bound are in positive_rates.py. 1/rate is the forgetting time: what the rate multiplies decays by a
factor e in it.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.fields.parts import Affine, Part, WeightSettings

__all__ = ["ConstantRate", "FixedRate", "GateRate", "GlobalGateRate", "SigmoidConstantRate"]


class InputFreeRate(Part):
    """A rate that reads neither x nor h: its projection has no columns."""

    projected_size = 0

    @property
    def projects_affinely(self) -> bool:
        return type(self).project is InputFreeRate.project

    def project(self, x: Tensor) -> Tensor:
        return x[..., :0]


def rates_tensor(alpha: float | Tensor, below: float, dtype: torch.dtype | None, device: torch.device | str | None) -> Tensor:
    given = alpha.detach() if isinstance(alpha, Tensor) else alpha
    try:
        if torch.as_tensor(given).dtype == torch.bool:
            raise TypeError("a truth value is no rate")
        values = torch.as_tensor(given, dtype=dtype or torch.get_default_dtype())
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"`alpha` must be a rate, or one rate per unit, got {alpha!r}.") from error
    if values.dim() > 1 or values.numel() == 0:
        raise ValueError(f"`alpha` must be one rate or a vector of one per unit, got shape {tuple(values.shape)}.")
    if not bool(((values > 0) & (values < below)).all()):
        bounds = "positive and finite" if below == float("inf") else f"strictly between 0 and {below:g}"
        raise ValueError(f"`alpha` must be {bounds}, got {values.tolist()}.")
    return values.clone().to(device=device)


class FixedRate(InputFreeRate):
    r"""A constant that is not learned; 1 gives the plain cell.

    Args:    alpha: rate per unit of time, > 0.
    Shape:   -> (), for all units.
    Raises:  ValueError if alpha is not positive and finite.
    Source:  Tallec and Ollivier 2018, eq. (3).
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha = checks.positive_number("alpha", alpha)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return h.new_full((), self.alpha)

    def extra_repr(self) -> str:
        return f"{self.alpha:g}"


class ConstantRate(InputFreeRate):
    r"""alpha = exp(a) > 0, learnable: one for all units, or one per unit if given as a vector.

    Args:    alpha: rate per unit of time, > 0, a number or a tensor (hidden,); dtype, device as in torch.nn.
    Shape:   -> () or (hidden,).
    Raises:  ValueError if alpha is not positive and finite.
    Source:  Tallec and Ollivier 2018, eq. (4); kept as log alpha so that learning cannot leave alpha > 0.
    """

    def __init__(
        self,
        alpha: float | Tensor,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(rates_tensor(alpha, float("inf"), dtype, device).log())

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.exp(self.log_alpha)


class SigmoidConstantRate(InputFreeRate):
    r"""alpha = sigma(a) in (0, 1), learnable: the constant gate of the papers' discrete leaky cells.

    Args:    alpha: rate per unit of time, 0 < alpha < 1, a number or a tensor (hidden,); dtype, device as in torch.nn.
    Shape:   -> () or (hidden,).
    Raises:  ValueError if alpha is not strictly between 0 and 1.
    Source:  Tallec and Ollivier 2018, sec. 3 ("a constant learnable gate between 0 and 1"); Ohno and Kumagai 2021, eq. (2).
    """

    def __init__(
        self,
        alpha: float | Tensor,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        self.logit_alpha = nn.Parameter(rates_tensor(alpha, 1.0, dtype, device).logit())

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.sigmoid(self.logit_alpha)


class GateRate(Affine):
    r"""g_i(x, h) = sigma(Wx x + Wh h + b)_i in (0, 1): every unit runs on its own learned clock.

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., hidden).
    Source:  Tallec and Ollivier 2018, eqs. (9) and (10), with h^g the state itself.
    """

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__(input_size, hidden_size, hidden_size, **settings)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.sigmoid(super().flow(projected, h))


class GlobalGateRate(Affine):
    r"""g(x, h) = sigma(wx x + wh h + b) in (0, 1): one learned clock for all units.

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., 1).
    Source:  Tallec and Ollivier 2018, eqs. (7) and (9), with h^g the state itself.
    """

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__(input_size, hidden_size, 1, **settings)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.sigmoid(super().flow(projected, h))
