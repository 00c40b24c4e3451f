r"""Take the unit Euler step of a plain, GRU or LSTM field by torch's functions, where the field is the cell that torch has.

    plain    f(Wx x + Wh h + b)            torch.rnn_tanh_cell, rnn_relu_cell
    LSTM     c' = f c + i g, o tanh(c')    torch.lstm_cell, whose rows have the same order
    GRU      h + g (n - h)                 six products: torch's own cell keeps 1 - g, and would need copies of the weights

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
from ctrnn.fields.candidates import ReluCandidate

__all__ = ["UnitStep", "unit_step"]

# x (batch, input), h (batch, state), and the tensor that h is all of: (1, batch, state) or h itself
# -> what is seen, (batch, hidden), and the state, shaped like that tensor, in memory of its own. RuntimeError where the field is
# no longer that of the cell.
UnitStep = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def unit_step(field: VectorField) -> UnitStep | None:
    """Return the function of a field that torch has a cell for; None for others, and where weights are no parameters."""
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


def _gru(reset_gate: nn.Module, rate_gate: nn.Module, pull: nn.Module, candidate: nn.Module) -> UnitStep:
    def step(x: Tensor, h: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
        r: Any = reset_gate._parameters
        g: Any = rate_gate._parameters
        n: Any = pull._parameters
        inside: Any = candidate._parameters
        # In place where a result is read once, which autograd allows.
        reset = linear(x, r["weight_x"], r.get("bias")).addmm_(h, r["weight_h"].t()).sigmoid_()
        rate = linear(x, g["weight_x"], g.get("bias")).addmm_(h, g["weight_h"].t()).sigmoid_()
        pulled = linear(h, n["weight_h"], inside.get("bias_h"))
        target = torch.addcmul(linear(x, n["weight_x"], n.get("bias")), reset, pulled).tanh_()
        return h.lerp(target, rate), whole.lerp(target, rate)

    return step
