r"""Rates without an upper bound, so that a step of rate times dt can pass 1; and the gate that is one of them.

    softplus        g_i = log(1 + e^z_i) > 0, z = Wx x + Wh h + b        grows like z
    exponential     g_i = e^z_i > 0                                      time constants e^-z over all orders of magnitude

    sigma(z) = 1 - e^-softplus(z)

So h + sigma(z) (f - h), the Euler step of the rate sigma(z), is the exponential Euler step of the rate softplus(z): the
same weights, read either way, give the same cell.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from ctrnn.fields.decays import LinearDecay, PowerDecay
from ctrnn.fields.parts import Affine, Part, WeightSettings
from ctrnn.fields.rates import GateRate, GlobalGateRate, InputFreeRate, SigmoidConstantRate, rates_tensor
from ctrnn.fields.relaxation import Relaxation

__all__ = [
    "ExponentialRate",
    "GlobalExponentialRate",
    "GlobalSoftplusRate",
    "SoftplusConstantRate",
    "SoftplusRate",
    "softplus_clock",
]


def softplus(z: Tensor) -> Tensor:
    """log(1 + e^z), also far to the right, where torch's own is z."""
    return -logsigmoid(-z)


class SoftplusRate(Affine):
    r"""g_i(x, h) = softplus(Wx x + Wh h + b)_i > 0: every unit runs on its own clock, of any speed.

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., hidden).
    Source:  this project, result 1.
    """

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__(input_size, hidden_size, hidden_size, **settings)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return softplus(super().flow(projected, h))


class GlobalSoftplusRate(Affine):
    r"""g(x, h) = softplus(wx x + wh h + b) > 0: one clock of any speed for all units.

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., 1).
    Source:  this project, result 1.
    """

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__(input_size, hidden_size, 1, **settings)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return softplus(super().flow(projected, h))


class ExponentialRate(Affine):
    r"""g_i(x, h) = exp(Wx x + Wh h + b)_i > 0: every unit runs on its own clock, of any speed.

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., hidden).
    Source:  this project; the input-dependent form of alpha = exp(a), Tallec and Ollivier 2018, eq. (4).
    """

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__(input_size, hidden_size, hidden_size, **settings)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.exp(super().flow(projected, h))


class GlobalExponentialRate(Affine):
    r"""g(x, h) = exp(wx x + wh h + b) > 0: one clock of any speed for all units.

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., 1).
    Source:  this project, as `ExponentialRate`.
    """

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__(input_size, hidden_size, 1, **settings)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.exp(super().flow(projected, h))


class SoftplusConstantRate(InputFreeRate):
    r"""alpha = softplus(a) > 0, learnable: the rate whose exponential unit step has the gate sigma(a).

    Args:    alpha: rate per unit of time, > 0, a number or a tensor (hidden,); dtype, device as in torch.nn.
    Shape:   -> () or (hidden,).
    Raises:  ValueError if alpha is not positive and finite.
    Source:  this project, result 1. a is kept under the name that `SigmoidConstantRate` gives it: it is that gate's logit.
    """

    def __init__(
        self, alpha: float | Tensor, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> None:
        super().__init__()
        alphas = rates_tensor(alpha, float("inf"), dtype, device)
        # log(e^alpha - 1), without e^alpha, which may overflow.
        self.logit_alpha = nn.Parameter(alphas + torch.log(-torch.expm1(-alphas)))

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return softplus(self.logit_alpha)


def softplus_clock(field: Relaxation) -> Relaxation:
    r"""The same weights, shared, with every gate sigma(z) read as the rate softplus(z).

    Its unit exponential Euler step is the unit Euler step of `field`: what is known of the familiar cell holds of an ODE
    with rates of any size. Training the one trains the other.

    Args:    field: a `Relaxation` with a sigmoid rate and the decay h, such as `plain`'s gated relatives and the GRU.
    Shape:   a field as `field`, whose parameters it shares.
    Raises:  TypeError, ValueError for a field that this identity is not about.
    Source:  this project, result 1.
    """
    if not isinstance(field, Relaxation):
        raise TypeError(f"`field` must be a ctrnn.Relaxation, rate * (candidate - decay), got {type(field).__name__}.")
    linear = isinstance(field.decay, LinearDecay) or (isinstance(field.decay, PowerDecay) and field.decay.exponent == 0)
    if not linear:
        raise ValueError(f"`field` forgets by {field.decay!r}; sigma(z) = 1 - e^-softplus(z) is about the decay h.")
    return Relaxation(field.candidate, _as_softplus(field.rate), field.decay)


def _as_softplus(rate: Part) -> Part:
    kinds = {GateRate: SoftplusRate, GlobalGateRate: GlobalSoftplusRate}
    if isinstance(rate, SigmoidConstantRate):
        constant = SoftplusConstantRate(1.0, device="meta")
        constant.logit_alpha = rate.logit_alpha
        return constant
    if type(rate) not in kinds:
        known = ", ".join(kind.__name__ for kind in (*kinds, SigmoidConstantRate))
        raise ValueError(f"`field` has the rate {type(rate).__name__}, which is no sigmoid; those are {known}.")
    assert isinstance(rate, Affine)
    # On no device: no memory is taken and no random number drawn for weights that are replaced at once.
    shared = kinds[type(rate)](rate.input_size, rate.hidden_size, bias=rate.bias is not None, device="meta")
    shared.weight_x, shared.weight_h, shared.bias = rate.weight_x, rate.weight_h, rate.bias
    return shared
