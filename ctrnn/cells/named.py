r"""Named fields: a table of parts.

    name     candidate    rate                      decay      source
    plain    tanh, relu   1                         h          Tallec and Ollivier 2018, eq. (3)
    leaky    tanh, others alpha, or 1 / tau         h          eq. (4)
    additive Wh r(h) + .. 1 / tau                   h          Hopfield 1984, eq. (5)
    gated    tanh         g(x, h), one or per unit  h          eqs. (7) and (10)
             tanh         g(x, h^g), h^g a network  h          eq. (9), see network_gate.py
    gru      reset tanh   g(x, h) per unit          h          torch.nn.GRU, with g = 1 - z; Cho et al. 2014, Keras
    lstm     (not of this form, see lstm.py)                   eqs. (11)-(15)

`gated` takes rates without an upper bound in place of the sigmoid: softplus and exponential, see rates.py.
All but `plain` take another decay: with `PowerDecay(r)` they forget slowly, Ohno and Kumagai 2021, eq. (22), the LSTM in c.
With `num_layers` above 1 each gives a `Stack` of such fields, every one with weights of its own, see stack.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Unpack, overload

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.cells.lstm import LSTMField
from ctrnn.cells.network_gate import NetworkGated
from ctrnn.cells.stack import Stack, layered
from ctrnn.fields.candidates import AdditiveCandidate, ResetCandidate, ResetStateCandidate, TanhCandidate, candidate_of
from ctrnn.fields.decays import Decay, LinearDecay
from ctrnn.fields.nonlinearities import Function, Nonlinearity
from ctrnn.fields.parts import Affine, Part, WeightSettings
from ctrnn.fields.rates import RATES, ConstantRate, FixedRate, Gate, GateRate, GlobalGateRate, InputFreeRate, rate_of
from ctrnn.fields.relaxation import Relaxation

__all__ = ["additive", "gated", "gru", "leaky", "lstm", "plain"]


@overload
def plain(
    input_size: int,
    hidden_size: int,
    nonlinearity: Literal["tanh", "relu"] = ...,
    **settings: Unpack[WeightSettings],
) -> Relaxation[Affine, FixedRate]: ...
@overload
def plain(
    input_size: int,
    hidden_size: int,
    nonlinearity: Literal["tanh", "relu"] = ...,
    *,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> Relaxation[Affine, FixedRate] | Stack: ...
def plain(
    input_size: int,
    hidden_size: int,
    nonlinearity: Literal["tanh", "relu"] = "tanh",
    *,
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> Relaxation[Affine, FixedRate] | Stack:
    r"""dh/dt = tanh(Wx x + Wh h + b) - h; its unit Euler step is `torch.nn.RNN`.

        >>> ctrnn.plain(1, 4)(torch.zeros(3, 1), torch.zeros(3, 4)).shape  # dh/dt for a batch of 3
        torch.Size([3, 4])

    Args:    input_size, hidden_size: features and units; nonlinearity: "tanh", or "relu" for max(0, .) in its place;
             num_layers: above 1, a `Stack` of so many; bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), h (..., hidden) -> dh/dt (..., hidden).
    Raises:  ValueError for another nonlinearity.
    Source:  Tallec and Ollivier 2018, eq. (3).
    """
    checks.one_of("nonlinearity", nonlinearity, ("tanh", "relu"))

    def build(read: int) -> Relaxation:
        return Relaxation(candidate_of(nonlinearity, read, hidden_size, **settings), FixedRate(1.0), LinearDecay())

    return layered(build, input_size, hidden_size, num_layers)


@overload
def leaky(
    input_size: int,
    hidden_size: int,
    alpha: float | None = ...,
    per_unit: bool = ...,
    *,
    nonlinearity: Nonlinearity | Function = ...,
    tau: float | Tensor | None = ...,
    learn_tau: bool | None = ...,
    decay: Decay | None = ...,
    **settings: Unpack[WeightSettings],
) -> Relaxation[Affine, InputFreeRate]: ...
@overload
def leaky(
    input_size: int,
    hidden_size: int,
    alpha: float | None = ...,
    per_unit: bool = ...,
    *,
    nonlinearity: Nonlinearity | Function = ...,
    tau: float | Tensor | None = ...,
    learn_tau: bool | None = ...,
    decay: Decay | None = ...,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> Relaxation[Affine, InputFreeRate] | Stack: ...
def leaky(
    input_size: int,
    hidden_size: int,
    alpha: float | None = None,
    per_unit: bool = False,
    *,
    nonlinearity: Nonlinearity | Function = "tanh",
    tau: float | Tensor | None = None,
    learn_tau: bool | None = None,
    decay: Decay | None = None,
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> Relaxation[Affine, InputFreeRate] | Stack:
    r"""dh/dt = alpha (tanh(Wx x + Wh h + b) - h), alpha > 0 learnable, kept as log alpha; or tau dh/dt = f(...) - h.

        >>> field = ctrnn.leaky(1, 4, alpha=0.1)  # forgets in 10 units of time
        >>> round(field.leak(field.project(torch.zeros(1, 1)), torch.zeros(1, 4)).mean().item(), 3)
        0.1

    Args:    input_size, hidden_size: features and units; alpha: rate per unit of time, > 0, at the start, 0.1 if neither it nor
             tau is given; per_unit: one alpha per unit instead of one for all; nonlinearity: a word or a function of tensors,
             elementwise; tau: in place of alpha, time constants that stay, a number or (hidden,), in the units of `ts` and `dt`;
             learn_tau: learn them too, as alpha is; decay: linear if not given;
             num_layers: above 1, a `Stack` of so many; bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), h (..., hidden) -> dh/dt (..., hidden).
    Raises:  TypeError, ValueError if alpha or tau is not positive, or both are given, or the nonlinearity is none.
    Source:  Tallec and Ollivier 2018, eq. (4); with `PowerDecay`, Ohno and Kumagai 2021, eq. (22).
    """

    def build(read: int) -> Relaxation:
        candidate, rate = candidate_of(nonlinearity, read, hidden_size, **settings), constant()
        return Relaxation(candidate, rate, LinearDecay() if decay is None else decay)

    def constant() -> InputFreeRate:
        if tau is not None:
            if alpha is not None or per_unit:
                raise ValueError("`leaky` takes either `alpha` (and `per_unit`) or `tau`; a `tau` for each unit is a tensor.")
            return rate_of(tau, hidden_size, bool(learn_tau), **settings)
        start = checks.positive_number("alpha", 0.1 if alpha is None else alpha)
        alphas = torch.full((hidden_size,), start, dtype=torch.float64) if per_unit else start
        return ConstantRate(alphas, dtype=settings.get("dtype"), device=settings.get("device"))

    return layered(build, input_size, hidden_size, num_layers)


@overload
def additive(
    input_size: int,
    hidden_size: int,
    nonlinearity: Nonlinearity | Function = ...,
    tau: float | Tensor = ...,
    *,
    learn_tau: bool = ...,
    visible: Literal["rates", "potentials"] = ...,
    **settings: Unpack[WeightSettings],
) -> Relaxation[AdditiveCandidate, InputFreeRate]: ...
@overload
def additive(
    input_size: int,
    hidden_size: int,
    nonlinearity: Nonlinearity | Function = ...,
    tau: float | Tensor = ...,
    *,
    learn_tau: bool = ...,
    visible: Literal["rates", "potentials"] = ...,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> Relaxation[AdditiveCandidate, InputFreeRate] | Stack: ...
def additive(
    input_size: int,
    hidden_size: int,
    nonlinearity: Nonlinearity | Function = "tanh",
    tau: float | Tensor = 1.0,
    *,
    learn_tau: bool = False,
    visible: Literal["rates", "potentials"] = "rates",
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> Relaxation[AdditiveCandidate, InputFreeRate] | Stack:
    r"""tau dv/dt = -v + W r(v) + Wx x + b, the CTRNN of neuroscience and robotics; its outputs are the rates r(v).

    The rate form, tau dr/dt = -r + f(W r + Wx x + b), is `leaky(..., nonlinearity=f, tau=tau)`.

        >>> ctrnn.additive(2, 6).state_size
        6

    Args:    input_size, hidden_size: features and units; nonlinearity: r, a word or a function of tensors, elementwise; tau: time
             constants, a number or (hidden,), in the units of `ts` and `dt`; learn_tau: whether they are learned, as
             log(1 / tau); visible: what outputs are read from, "rates" r(v) or "potentials" v;
             num_layers: above 1, a `Stack` of so many; bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), v (..., hidden) -> dv/dt (..., hidden).
    Raises:  TypeError, ValueError if tau is not positive, or for a nonlinearity that is none.
    Source:  Hopfield 1984, eq. (5); Beer 1995, eq. (1).
    """

    def build(read: int) -> Relaxation:
        candidate = AdditiveCandidate(read, hidden_size, nonlinearity, visible, **settings)
        return Relaxation(candidate, rate_of(tau, hidden_size, learn_tau, **settings), LinearDecay())

    return layered(build, input_size, hidden_size, num_layers)


@overload
def gated(
    input_size: int,
    hidden_size: int,
    gate: Literal["unit"] = ...,
    *,
    rate: Literal["sigmoid"] = ...,
    decay: Decay | None = ...,
    **settings: Unpack[WeightSettings],
) -> Relaxation[TanhCandidate, GateRate]: ...
@overload
def gated(
    input_size: int,
    hidden_size: int,
    gate: Literal["global"],
    *,
    rate: Literal["sigmoid"] = ...,
    decay: Decay | None = ...,
    **settings: Unpack[WeightSettings],
) -> Relaxation[TanhCandidate, GlobalGateRate]: ...
@overload
def gated(
    input_size: int,
    hidden_size: int,
    gate: Literal["unit", "global"] = ...,
    *,
    rate: Literal["sigmoid", "softplus", "exponential"] = ...,
    decay: Decay | None = ...,
    **settings: Unpack[WeightSettings],
) -> Relaxation[TanhCandidate, Gate]: ...
@overload
def gated(
    input_size: int,
    hidden_size: int,
    gate: Literal["network"],
    *,
    rate: Literal["sigmoid", "softplus", "exponential"] = ...,
    decay: Decay | None = ...,
    **settings: Unpack[WeightSettings],
) -> NetworkGated: ...
@overload
def gated(
    input_size: int,
    hidden_size: int,
    gate: Literal["unit", "global", "network"] = ...,
    *,
    rate: Literal["sigmoid", "softplus", "exponential"] = ...,
    decay: Decay | None = ...,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> Relaxation[TanhCandidate, Gate] | NetworkGated | Stack: ...
def gated(
    input_size: int,
    hidden_size: int,
    gate: Literal["unit", "global", "network"] = "unit",
    *,
    rate: Literal["sigmoid", "softplus", "exponential"] = "sigmoid",
    decay: Decay | None = None,
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> Relaxation[TanhCandidate, Gate] | NetworkGated | Stack:
    r"""dh/dt = g (tanh(Wx x + Wh h + b) - h) with a learned clock speed g = sigma(...), or of any size.

        >>> output, h_n = discretize.DiscreteRNN(ctrnn.gated(2, 8))(torch.randn(20, 4, 2))
        >>> output.shape
        torch.Size([20, 4, 8])

    Args:    input_size, hidden_size: features and units; gate: "unit", one g(x, h) per unit; "global", one for all;
             "network", one for all that reads h^g, a plain field of its own, on the state [h, h^g];
             rate: "sigmoid", g in (0, 1); "softplus" or "exponential", any g > 0;
             decay: linear if not given; num_layers: above 1, a `Stack` of so many;
             bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), h (..., hidden) -> dh/dt (..., hidden); twice as wide a state with "network".
    Raises:  ValueError for an unknown gate or rate.
    Source:  Tallec and Ollivier 2018, eqs. (7), (9) and (10), with the sigmoid; Gu and Dao 2023, Theorem 1, with the softplus.
    """
    shared, put_together = GATED[checks.one_of("gate", gate, GATED)]
    gates = GATES[checks.one_of("rate", rate, GATES)]

    def build(read: int) -> Relaxation | NetworkGated:
        candidate = TanhCandidate(read, hidden_size, **settings)
        made = gates[shared](read, hidden_size, **settings)
        return put_together(candidate, made, LinearDecay() if decay is None else decay, **settings)

    return layered(build, input_size, hidden_size, num_layers)


def _relaxation(candidate: Part, rate: Part, decay: Decay, **_: Unpack[WeightSettings]) -> Relaxation:
    return Relaxation(candidate, rate, decay)


def _with_a_network(candidate: TanhCandidate, rate: Part, decay: Decay, **settings: Unpack[WeightSettings]) -> NetworkGated:
    return NetworkGated(candidate, rate, decay, plain(candidate.input_size, candidate.hidden_size, **settings))


# Whether one gate serves all units, and what the field is put together by.
GATED: dict[str, tuple[bool, Callable[..., Relaxation | NetworkGated]]] = {
    "unit": (False, _relaxation),
    "global": (True, _relaxation),
    "network": (True, _with_a_network),
}
GATES = {activation.name: gates for activation, (_, *gates) in RATES.items()}


@overload
def gru(
    input_size: int,
    hidden_size: int,
    *,
    reset: Literal["after", "before"] = ...,
    decay: Decay | None = ...,
    **settings: Unpack[WeightSettings],
) -> Relaxation[ResetCandidate | ResetStateCandidate, GateRate]: ...
@overload
def gru(
    input_size: int,
    hidden_size: int,
    *,
    reset: Literal["after", "before"] = ...,
    decay: Decay | None = ...,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> Relaxation[ResetCandidate | ResetStateCandidate, GateRate] | Stack: ...
def gru(
    input_size: int,
    hidden_size: int,
    *,
    reset: Literal["after", "before"] = "after",
    decay: Decay | None = None,
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> Relaxation[ResetCandidate | ResetStateCandidate, GateRate] | Stack:
    r"""dh/dt = g(x, h) (n(x, h) - h) with the reset-gated candidate n; its unit Euler step is `torch.nn.GRU`, or Keras' GRU.

    The rate g is 1 - z for torch's and Keras' z, which multiplies the old state; `from_torch` turns the signs.

        >>> field = ctrnn.gru(3, 5)
        >>> x, h = torch.randn(4, 3), torch.zeros(4, 5)
        >>> ctrnn.to_torch(field)(x, h).allclose(h + field(x, h), atol=1e-6)  # torch's GRU is one Euler step
        True

    Args:    input_size, hidden_size: features and units; reset: whether r multiplies Wh h + bh, "after" the product, as in torch
             and in Keras with `reset_after=True`, or the state "before" it, Wh (r h), as Cho et al. and Chung et al. print it and
             Keras computes with `reset_after=False`; decay: linear if not given;
             num_layers: above 1, a `Stack` of so many; bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), h (..., hidden) -> dh/dt (..., hidden).
    Raises:  ValueError for another `reset`.
    Source:  torch.nn.GRUCell's equations; with the reset before the product, Cho et al. 2014, eqs. (5)-(8); Tallec and Ollivier
             2018, eq. (10); with `PowerDecay`, after Ohno and Kumagai 2021, eqs. (6) and (22).
    """
    candidate_kind = RESETS[checks.one_of("reset", reset, RESETS)]

    def build(read: int) -> Relaxation:
        candidate, rate = candidate_kind(read, hidden_size, **settings), GateRate(read, hidden_size, **settings)
        return Relaxation(candidate, rate, LinearDecay() if decay is None else decay)

    return layered(build, input_size, hidden_size, num_layers)


RESETS = {"after": ResetCandidate, "before": ResetStateCandidate}


@overload
def lstm(
    input_size: int,
    hidden_size: int,
    *,
    decay: Decay | None = ...,
    **settings: Unpack[WeightSettings],
) -> LSTMField: ...
@overload
def lstm(
    input_size: int,
    hidden_size: int,
    *,
    decay: Decay | None = ...,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> LSTMField | Stack: ...
def lstm(
    input_size: int,
    hidden_size: int,
    *,
    decay: Decay | None = None,
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> LSTMField | Stack:
    r"""dc/dt = (f - 1) c + i g, dh/dt = o tanh(f c + i g) - h; its unit Euler step is `torch.nn.LSTM`.

        >>> ctrnn.lstm(3, 5).state_size  # [h, c]
        10

    Args:    input_size, hidden_size: features and visible units; decay: of c, linear if not given;
             num_layers: above 1, a `Stack` of so many; bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), [h, c] (..., 2 hidden) -> (..., 2 hidden).
    Source:  Tallec and Ollivier 2018, eqs. (11)-(15); with `PowerDecay`, dc/dt = i g - (1 - f) |c|^r c, this project.
    """
    return layered(lambda read: LSTMField(read, hidden_size, decay=decay, **settings), input_size, hidden_size, num_layers)
