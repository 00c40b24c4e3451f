r"""Rates: how fast the state moves towards its candidate, per unit of time. An activation, and what it is applied to.

    activation                       of a constant a          of z_i = (Wx x + Wh h + b)_i, or one z for all units
    sigmoid       in (0, 1)          SigmoidConstantRate      GateRate            GlobalGateRate
    softplus      log(1 + e^z) > 0   SoftplusConstantRate     SoftplusRate        GlobalSoftplusRate
    exponential   e^z > 0            ConstantRate             ExponentialRate     GlobalExponentialRate

and `FixedRate`, which is not learned. 1/rate is the forgetting time: what the rate multiplies decays by a factor e in it.
Softplus and exponential have no upper bound, so that a step of rate times dt can pass 1, and

    sigma(z) = 1 - e^-softplus(z)

makes h + sigma(z) (f - h), the Euler step of the rate sigma(z), the exponential Euler step of the rate softplus(z), of one unit;
see `softplus_clock` for longer ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Unpack

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from ctrnn import checks
from ctrnn.fields.parts import Affine, Part, WeightSettings, affine

__all__ = [
    "FixedRate",
    "ConstantRate",
    "SigmoidConstantRate",
    "SoftplusConstantRate",
    "GateRate",
    "GlobalGateRate",
    "SoftplusRate",
    "GlobalSoftplusRate",
    "ExponentialRate",
    "GlobalExponentialRate",
    "RateFunction",
    "InputFreeRate",
    "SIGMOID",
    "SOFTPLUS",
    "EXPONENTIAL",
    "LearnedConstant",
    "Gate",
    "RATES",
    "rate_of",
]


@dataclass(frozen=True)
class RateFunction:
    """An increasing function from all numbers onto (0, bound), and its inverse, both elementwise."""

    name: str
    symbol: str
    function: Callable[[Tensor], Tensor]
    inverse: Callable[[Tensor], Tensor]
    bound: float = math.inf


def _softplus(z: Tensor) -> Tensor:
    """Compute log(1 + e^z), also far to the right, where torch's own is z."""
    return -logsigmoid(-z)


def _softplus_inverse(rate: Tensor) -> Tensor:
    """Compute log(e^rate - 1) without e^rate, which may overflow."""
    return rate + torch.log(-torch.expm1(-rate))


SIGMOID = RateFunction("sigmoid", "sigma", torch.sigmoid, torch.logit, bound=1.0)
SOFTPLUS = RateFunction("softplus", "softplus", _softplus, _softplus_inverse)
EXPONENTIAL = RateFunction("exponential", "exp", torch.exp, torch.log)


class InputFreeRate(Part):
    """A rate that reads neither x nor h: its projection has no columns."""

    projected_size = 0

    @affine
    def project(self, x: Tensor) -> Tensor:
        return x[..., :0]


class FixedRate(InputFreeRate):
    r"""A constant that is not learned; 1 gives the plain cell.

    Args:    alpha: rate per unit of time, > 0.
    Shape:   -> (), for all units.
    Raises:  ValueError if alpha is not positive and finite.
    Source:  Tallec and Ollivier 2018, eq. (3).
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self.alpha: float = checks.positive_number("alpha", alpha)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return h.new_full((), self.alpha)

    formula = "{alpha}"

    def extra_repr(self) -> str:
        return f"{self.alpha:g}"


class LearnedConstant(InputFreeRate):
    r"""alpha = activation(a), one for all units, or one per unit if given as a vector; a is the parameter `argument`.

    Args:    alpha: rate per unit of time, a number or a tensor (hidden,); dtype, device as in torch.nn.
    Shape:   -> () or (hidden,).
    Raises:  ValueError if alpha is not strictly between 0 and the activation's bound.
    Source:  that of its subclasses.
    """

    activation: ClassVar[RateFunction]
    argument: ClassVar[str]

    def __init__(
        self, alpha: float | Tensor, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> None:
        super().__init__()
        checks.can_make_weights(dtype, device)
        alphas = _as_rates(alpha, self.activation.bound, dtype)
        alphas = alphas.to(device=device or (alphas.device if alphas.device.type != "cpu" else torch.get_default_device()))
        self.register_parameter(self.argument, nn.Parameter(self.activation.inverse(alphas)))

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.activation.function(getattr(self, self.argument))

    @property
    def formula(self) -> str:
        return f"{self.activation.symbol}(a)"

    @property
    def letters(self) -> dict[str, str]:
        return {"a": self.argument}


class ConstantRate(LearnedConstant):
    """alpha = exp(a) > 0: learning cannot leave alpha > 0.

    Source:  Tallec and Ollivier 2018, eq. (4).
    """

    activation: ClassVar[RateFunction] = EXPONENTIAL
    argument: ClassVar[str] = "log_alpha"


class SigmoidConstantRate(LearnedConstant):
    """alpha = sigma(a) in (0, 1): the constant gate of the papers' discrete leaky cells.

    Source:  Tallec and Ollivier 2018, sec. 3 ("a constant learnable gate between 0 and 1"); Ohno and Kumagai 2021, eq. (2).
    """

    activation: ClassVar[RateFunction] = SIGMOID
    argument: ClassVar[str] = "logit_alpha"


class SoftplusConstantRate(LearnedConstant):
    """alpha = softplus(a) > 0: the rate whose exponential unit step has the gate sigma(a), of which a is the logit.

    Source:  docs/derivations.md, result 1.
    """

    activation: ClassVar[RateFunction] = SOFTPLUS
    argument: ClassVar[str] = "logit_alpha"


class Gate(Affine):
    r"""activation(Wx x + Wh h + b): every unit runs on its own learned clock, or with `shared` all on one.

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., hidden), or (..., 1) if shared.
    Source:  that of its subclasses.
    """

    activation: ClassVar[RateFunction]
    shared: ClassVar[bool]
    argument: ClassVar[str] = "bias"  # what the activation is applied to where x and h are 0

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__(input_size, hidden_size, 1 if self.shared else hidden_size, **settings)

    def function(self, argument: Tensor) -> Tensor:
        return self.activation.function(argument)

    @property
    def formula(self) -> str:
        one = self.affine_formula.replace("W", "w")  # rows, for one number
        return f"{self.activation.symbol}({one if self.shared else self.affine_formula})"


class GateRate(Gate):
    """g_i(x, h) = sigma(Wx x + Wh h + b)_i in (0, 1), one for each unit.

    Source:  Tallec and Ollivier 2018, eqs. (9) and (10), with h^g the state itself.
    """

    activation: ClassVar[RateFunction] = SIGMOID
    shared: ClassVar[bool] = False


class GlobalGateRate(Gate):
    """g(x, h) = sigma(wx x + wh h + b) in (0, 1), one for all units.

    Source:  Tallec and Ollivier 2018, eqs. (7) and (9), with h^g the state itself.
    """

    activation: ClassVar[RateFunction] = SIGMOID
    shared: ClassVar[bool] = True


class SoftplusRate(Gate):
    """g_i(x, h) = softplus(Wx x + Wh h + b)_i > 0, one for each unit.

    Source:  docs/derivations.md, result 1.
    """

    activation: ClassVar[RateFunction] = SOFTPLUS
    shared: ClassVar[bool] = False


class GlobalSoftplusRate(Gate):
    """g(x, h) = softplus(wx x + wh h + b) > 0, one for all units.

    Source:  docs/derivations.md, result 1.
    """

    activation: ClassVar[RateFunction] = SOFTPLUS
    shared: ClassVar[bool] = True


class ExponentialRate(Gate):
    """g_i(x, h) = exp(Wx x + Wh h + b)_i > 0, one for each unit: time constants over all orders of magnitude.

    Source:  the input-dependent form of alpha = exp(a), Tallec and Ollivier 2018, eq. (4).
    """

    activation: ClassVar[RateFunction] = EXPONENTIAL
    shared: ClassVar[bool] = False


class GlobalExponentialRate(Gate):
    """g(x, h) = exp(wx x + wh h + b) > 0, one for all units."""

    activation: ClassVar[RateFunction] = EXPONENTIAL
    shared: ClassVar[bool] = True


# The learned rates of an activation: a constant, a gate for each unit, one gate for all.
RATES: dict[RateFunction, tuple[type[LearnedConstant], type[Gate], type[Gate]]] = {
    SIGMOID: (SigmoidConstantRate, GateRate, GlobalGateRate),
    SOFTPLUS: (SoftplusConstantRate, SoftplusRate, GlobalSoftplusRate),
    EXPONENTIAL: (ConstantRate, ExponentialRate, GlobalExponentialRate),
}


def rate_of(tau: float | Tensor, hidden_size: int, learned: bool, **settings: Unpack[WeightSettings]) -> InputFreeRate:
    r"""Return the rate 1 / tau: a number that stays, or log(1 / tau) as a parameter, which is learned or not.

    Args:    tau: time constants > 0, a number or (hidden,); learned: whether the parameter requires a gradient.
    Raises:  TypeError, ValueError for what is not positive, or of another size.
    """
    checks.is_flag("learn_tau", learned)
    if not isinstance(tau, Tensor):
        alpha = 1 / checks.positive_number("tau", tau)
        if not learned:
            return FixedRate(alpha)
    else:
        if tau.dim() and tau.shape != (hidden_size,):
            raise ValueError(f"`tau` must be a number or one for each unit, ({hidden_size},), got shape {tuple(tau.shape)}.")
        if not checks.holds(tau.detach() > 0):
            raise ValueError(f"`tau` must be positive, got {float(tau.detach().min())}.")
    rate = ConstantRate(1 / tau, dtype=settings.get("dtype"), device=settings.get("device"))
    rate.requires_grad_(learned)
    return rate


def _as_rates(alpha: float | Tensor, bound: float, dtype: torch.dtype | None) -> Tensor:
    given = alpha.detach() if isinstance(alpha, Tensor) else alpha
    try:
        if torch.as_tensor(given, device="cpu").dtype == torch.bool:
            raise TypeError("a truth value is no rate")
        own = given.device if isinstance(given, Tensor) else "cpu"
        values = torch.as_tensor(given, dtype=dtype or torch.get_default_dtype(), device=own)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(f"`alpha` must be a rate, or one rate per unit, got {alpha!r}.") from error
    if values.dim() > 1 or values.numel() == 0:
        raise ValueError(f"`alpha` must be one rate or a vector of one per unit, got shape {tuple(values.shape)}.")
    if not bool(((values > 0) & (values < bound)).all()):
        bounds = "positive and finite" if bound == math.inf else f"strictly between 0 and {bound:g}"
        raise ValueError(f"`alpha` must be {bounds}, got {values.tolist()}.")
    return values.clone()
