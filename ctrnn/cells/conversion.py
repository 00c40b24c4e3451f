r"""Conversion of torch.nn's cells to fields and back: the same equation, with a copy of the weights.

torch keeps two biases that add, b_ih + b_hh; a field keeps their sum, the one b of its equation. The GRU's n needs both,
since its reset gate stands between them. torch's z multiplies the old state, the rate is g = 1 - z: all its signs turn.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from ctrnn.cells import named
from ctrnn.cells.lstm import LSTMField
from ctrnn.fields.candidates import ResetCandidate, TanhCandidate
from ctrnn.fields.decays import LinearDecay
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import Affine
from ctrnn.fields.rates import FixedRate, GateRate
from ctrnn.fields.relaxation import Relaxation

__all__ = ["from_torch", "to_torch"]

C = TypeVar("C", nn.RNNCell, nn.LSTMCell)


def from_torch(module: nn.Module) -> VectorField:
    r"""The field whose unit Euler step is the module, on a copy of its weights (same dtype, device, gradients required).

    Args:    module: nn.RNNCell, GRUCell or LSTMCell, or an nn.RNN, GRU or LSTM of one layer and one direction.
    Returns: a plain, gru or lstm field.
    Raises:  TypeError for other modules, ValueError for settings that the field does not have.
    Source:  torch.nn's equations; Tallec and Ollivier 2018, eqs. (2), (11)-(15).
    """
    for kinds, read in (
        ((nn.RNNCell, nn.RNN, nn.LSTMCell, nn.LSTM), _of_one_affine),
        ((nn.GRUCell, nn.GRU), _gru_from),
    ):
        if isinstance(module, kinds):
            _check_settings(module)
            return read(module)
    raise TypeError(
        f"`module` must be an RNNCell, GRUCell or LSTMCell, or a one-layer one-direction RNN, GRU or LSTM of torch.nn; "
        f"got {type(module).__name__}."
    )


def to_torch(field: VectorField) -> nn.RNNCell | nn.GRUCell | nn.LSTMCell:
    r"""The torch cell that the field's unit Euler step is, on a copy of its weights; torch's second bias is zero.

    Raises:  TypeError for a field that torch has no cell for.
    Source:  as `from_torch`.
    """
    if isinstance(field, LSTMField):
        return _to_one_affine(nn.LSTMCell, field, field.gates)
    if isinstance(field, Relaxation) and type(field.decay) is LinearDecay:
        candidate, rate = field.candidate, field.rate
        if type(candidate) is TanhCandidate and type(rate) is FixedRate and rate.alpha == 1.0:
            return _to_one_affine(nn.RNNCell, field, candidate)
        if type(candidate) is ResetCandidate and type(rate) is GateRate:
            return _to_gru(field, candidate, rate)
    raise TypeError(f"torch has a cell for plain, gru and lstm fields only, not for this one:\n{field}")


def _check_settings(module: nn.Module) -> None:
    settings: list[tuple[str, Any]] = [
        ("num_layers", 1), ("bidirectional", False), ("proj_size", 0), ("nonlinearity", "tanh"),
    ]  # fmt: skip
    for name, wanted in settings:
        if getattr(module, name, wanted) != wanted:
            raise ValueError(
                f"`module` has {name}={getattr(module, name)!r}; a field can be taken from {name}={wanted!r} only. "
                "Convert the layers of a stack one by one, each copied into a module of its own."
            )


def _weights(module: nn.Module) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """weight_ih, weight_hh, bias_ih, bias_hh, from a cell or from the first layer of a sequence module."""
    suffix = "" if isinstance(module, nn.RNNCellBase) else "_l0"
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    weight_x, weight_h, bias_x, bias_h = (getattr(module, name + suffix, None) for name in names)
    if not module.bias:
        return weight_x, weight_h, None, None  # type: ignore[return-value]
    return weight_x, weight_h, bias_x, bias_h  # type: ignore[return-value]


def _settings(module: nn.Module, weight: Tensor) -> dict[str, Any]:
    return {"bias": bool(module.bias), "dtype": weight.dtype, "device": weight.device}


def _sum(bias_x: Tensor | None, bias_h: Tensor | None) -> Tensor | None:
    return None if bias_x is None or bias_h is None else bias_x + bias_h


@torch.no_grad()
def _fill(affine: Affine, weight_x: Tensor, weight_h: Tensor, bias: Tensor | None) -> None:
    affine.weight_x.copy_(weight_x)
    affine.weight_h.copy_(weight_h)
    if bias is not None and affine.bias is not None:
        affine.bias.copy_(bias)


def _of_one_affine(module: nn.Module) -> VectorField:
    """The plain field or the LSTM's, all of whose weights are one affine map."""
    weight_x, weight_h, bias_x, bias_h = _weights(module)
    make = named.lstm if isinstance(module, nn.LSTMCell | nn.LSTM) else named.plain
    field = make(module.input_size, module.hidden_size, **_settings(module, weight_x))  # type: ignore[arg-type]
    affine = field.gates if isinstance(field, LSTMField) else field.candidate
    _fill(cast(Affine, affine), weight_x, weight_h, _sum(bias_x, bias_h))
    return field


@torch.no_grad()
def _gru_from(module: nn.Module) -> Relaxation:
    weight_x, weight_h, bias_x, bias_h = _weights(module)
    made = named.gru(module.input_size, module.hidden_size, **_settings(module, weight_x))  # type: ignore[arg-type]
    field = cast(Relaxation, made)
    candidate, rate = cast(ResetCandidate, field.candidate), cast(GateRate, field.rate)
    (reset_x, keep_x, pull_x), (reset_h, keep_h, pull_h) = weight_x.chunk(3), weight_h.chunk(3)
    reset = keep = pull = None
    if bias_x is not None and bias_h is not None and candidate.bias_h is not None:
        reset, keep, _ = (bias_x + bias_h).chunk(3)
        keep, pull = -keep, bias_x.chunk(3)[2]
        candidate.bias_h.copy_(bias_h.chunk(3)[2])
    _fill(candidate.reset, reset_x, reset_h, reset)
    _fill(rate, -keep_x, -keep_h, keep)
    _fill(candidate.pull, pull_x, pull_h, pull)
    return field


@torch.no_grad()
def _copy_to(cell: nn.RNNCellBase, weight_x: Tensor, weight_h: Tensor, bias_x: Tensor | None, bias_h: Tensor | None) -> None:
    cell.weight_ih.copy_(weight_x)
    cell.weight_hh.copy_(weight_h)
    if bias_x is not None:
        cell.bias_ih.copy_(bias_x)
        cell.bias_hh.zero_() if bias_h is None else cell.bias_hh.copy_(bias_h)


def _to_one_affine(kind: type[C], field: VectorField, affine: Affine) -> C:
    cell = kind(field.input_size, field.hidden_size, affine.bias is not None, dtype=field.dtype, device=field.device)
    _copy_to(cell, affine.weight_x, affine.weight_h, affine.bias, None)
    return cell


def _to_gru(field: Relaxation, candidate: ResetCandidate, rate: GateRate) -> nn.GRUCell:
    reset, pull = candidate.reset, candidate.pull
    biases = [reset.bias, rate.bias, pull.bias, candidate.bias_h]
    has_bias = any(bias is not None for bias in biases)
    cell = nn.GRUCell(field.input_size, field.hidden_size, has_bias, dtype=field.dtype, device=field.device)
    weight_x = torch.cat([reset.weight_x, -rate.weight_x, pull.weight_x])
    weight_h = torch.cat([reset.weight_h, -rate.weight_h, pull.weight_h])
    bias_x = bias_h = None
    if has_bias:  # torch's cell has all of its biases or none; those that the field has not are 0
        none = pull.weight_h.new_zeros(field.hidden_size)
        r, g, n, n_h = (none if bias is None else bias for bias in biases)
        bias_x, bias_h = torch.cat([r, -g, n]), torch.cat([none, none, n_h])
    _copy_to(cell, weight_x, weight_h, bias_x, bias_h)
    return cell
