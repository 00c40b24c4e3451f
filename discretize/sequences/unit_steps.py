r"""Take the unit Euler step of a plain, gated, GRU or LSTM field by torch's functions.

    plain    f(Wx x + Wh h + b)            torch.rnn_tanh_cell, rnn_relu_cell
    LSTM     c' = f c + i g, o tanh(c')    torch.lstm_cell, whose rows have the same order
    GRU      h + g (n - h)                 six products: torch's own cell keeps 1 - g, and would need copies of the weights
    gated    h + g (f - h)                 four

Weights are read from the field at every call and never copied, so that whoever writes into them has written into the cell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ctrnn import VectorField
from ctrnn.cells.conversion import torch_kind
from ctrnn.fields.candidates import ReluCandidate, TanhCandidate
from ctrnn.fields.decays import LinearDecay
from ctrnn.fields.rates import GateRate, GlobalGateRate
from ctrnn.fields.relaxation import Relaxation
from ctrnn.own_code import computes_as

__all__ = ["UnitStep", "unit_step"]

# x (batch, input), h (batch, state), and the tensor that h is all of: (1, batch, state) or h itself
# -> what is seen, (batch, hidden), and the state, shaped like that tensor, in memory of its own. RuntimeError where the field is
# no longer that of the cell.
UnitStep = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def unit_step(field: VectorField) -> UnitStep | None:
    """Return the function of such a field; None for others, and where weights are no parameters."""
    kind = torch_kind(field)
    given: Any = field
    made: Callable[..., UnitStep]
    if kind is nn.LSTMCell:
        made, parts = _lstm, [given.gates]
    elif kind is nn.RNNCell:
        cell = torch.rnn_relu_cell if isinstance(given.candidate, ReluCandidate) else torch.rnn_tanh_cell
        made, parts = partial(_plain, cell), [given.candidate, given.rate]
    elif kind is nn.GRUCell:
        made, parts = _gru, [given.candidate.reset, given.rate, given.candidate.pull, given.candidate]
    elif _is_gated(given):
        made = partial(_gated, torch.relu_ if isinstance(given.candidate, ReluCandidate) else torch.tanh_)
        parts = [given.candidate, given.rate]
    else:
        return None
    names = "weight_x", "weight_h", "bias", "bias_h"
    if any(getattr(part, name, None) is not part._parameters.get(name) for part in parts for name in names):
        return None
    return made(*parts)


def _like(following: Tensor, whole: Tensor) -> Tensor:
    """A copy: whoever masks the output must not change the state to go on from."""
    return torch.stack((following,)) if whole.dim() > 2 else following.clone()


def _plain(cell: Callable[..., Tensor], candidate: nn.Module, rate: Any) -> UnitStep:
    def step(x: Tensor, h: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
        if rate.alpha != 1.0:
            raise RuntimeError("The rate is no longer 1.")
        w: Any = candidate._parameters
        following = cell(x, h, w["weight_x"], w["weight_h"], w.get("bias"))
        return following, _like(following, whole)

    return step


def _lstm(part: nn.Module) -> UnitStep:
    def step(x: Tensor, h: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
        w: Any = part._parameters
        hidden, cell = torch.lstm_cell(x, h.chunk(2, -1), w["weight_x"], w["weight_h"], w.get("bias"))
        state = torch.cat((hidden, cell), -1)
        return hidden, state.unsqueeze(0) if whole.dim() > 2 else state

    return step


def _is_gated(field: Any) -> bool:
    """Whether a field is g (f - h), with a gate g for each unit or for all, and f tanh or relu."""
    if not computes_as(field, Relaxation) or not computes_as(field.decay, LinearDecay):
        return False
    return computes_as(field.candidate, TanhCandidate, ReluCandidate) and computes_as(field.rate, GateRate, GlobalGateRate)


def _gated(function: Callable[[Tensor], Tensor], candidate: nn.Module, gate: nn.Module) -> UnitStep:
    def step(x: Tensor, h: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
        x, seen = (x[0], h[0]) if len(x) == 1 else (x, h)
        rate = _argument(x, seen, gate._parameters).sigmoid_()
        target = function(_argument(x, seen, candidate._parameters))
        return h.lerp(target, rate), whole.lerp(target, rate)

    return step


def _gru(reset_gate: nn.Module, rate_gate: nn.Module, pull: nn.Module, candidate: nn.Module) -> UnitStep:
    def step(x: Tensor, h: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
        n: Any = pull._parameters
        x, seen = (x[0], h[0]) if len(x) == 1 else (x, h)
        reset = _argument(x, seen, reset_gate._parameters).sigmoid_()
        rate = _argument(x, seen, rate_gate._parameters).sigmoid_()
        pulled = _product(seen, n["weight_h"], candidate._parameters.get("bias_h"))
        target = torch.addcmul(_product(x, n["weight_x"], n.get("bias")), reset, pulled).tanh_()
        return h.lerp(target, rate), whole.lerp(target, rate)

    return step


def _argument(x: Tensor, h: Tensor, weights: Any) -> Tensor:
    """Wx x + Wh h + b; in place where a result is read once, which autograd allows."""
    if x.dim() == 1:
        return _product(x, weights["weight_x"], weights.get("bias")).addmv_(weights["weight_h"], h)
    return linear(x, weights["weight_x"], weights.get("bias")).addmm_(h, weights["weight_h"].t())


def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """W x + b; of one sample, a vector, in three quarters of the time that a batch takes."""
    if x.dim() == 1:
        return torch.mv(weight, x) if bias is None else torch.addmv(bias, weight, x)
    return linear(x, weight, bias)
