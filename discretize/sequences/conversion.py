r"""Convert torch.nn's recurrent modules to layers of sequence modules and back: the same outputs, a copy of the weights.

torch's weights `weight_ih_l{layer}` and, of the direction that reads backwards, `weight_ih_l{layer}_reverse`, are those of a
cell each, which `ctrnn.from_torch` makes a field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

import ctrnn
from ctrnn.cells.conversion import check_torchs_own, nonlinearity_of
from ctrnn.own_code import computes_as, described
from discretize.sequences.layers import Layers
from discretize.sequences.rnn import DiscreteRNN
from discretize.steps.euler import Euler

__all__ = ["layers_from_torch", "layers_to_torch"]

KINDS = {nn.RNN: nn.RNNCell, nn.GRU: nn.GRUCell, nn.LSTM: nn.LSTMCell}


def layers_from_torch(module: nn.RNNBase) -> Layers:
    r"""The module as unit Euler steps of fields, on a copy of its weights: call it like the module, for the same results.

    Layers, directions, dropout, batch_first, bias, dtype and device are the module's; so is its mode, training or not. Of an
    nn.LSTM the final states are torch's pair (h_n, c_n). The fields are `layers.layers[l][d].field`.

    Args:    module: nn.RNN, nn.GRU or nn.LSTM.
    Returns: `Layers` of `DiscreteRNN`s.
    Raises:  TypeError for other modules, subclasses of these that override `forward` or another method, and modules with hooks or
             parametrizations; ValueError for an LSTM with projections.
    Source:  torch.nn's equations.
    """
    kind = next((cell for kind, cell in KINDS.items() if isinstance(module, kind)), None)
    if kind is None:
        hint = "; `ctrnn.from_torch` makes a field of a cell" if isinstance(module, nn.RNNCellBase) else ""
        raise TypeError(f"`module` must be an nn.RNN, nn.GRU or nn.LSTM, got {type(module).__name__}{hint}.")
    check_torchs_own(module)
    if module.proj_size:
        raise ValueError(f"`module` has proj_size={module.proj_size}; no field here has a projected state, take proj_size=0.")
    directions = 2 if module.bidirectional else 1
    rnns = [DiscreteRNN(ctrnn.from_torch(_cell(module, kind, suffix))) for suffix in _suffixes(module)]
    rows = [rnns[k : k + directions] for k in range(0, len(rnns), directions)]
    dropout = module.dropout if len(rows) > 1 else 0.0
    return Layers(rows, dropout, module.batch_first, pair=kind is nn.LSTMCell).train(module.training)


@torch.no_grad()
def layers_to_torch(module: Layers | DiscreteRNN) -> nn.RNN | nn.GRU | nn.LSTM:
    r"""The torch module that unit Euler steps of plain, gru or lstm fields are, on a copy of their weights.

    Args:    module: `Layers` of `DiscreteRNN`s, or one, whose step is `Euler` itself, with dt = 1 and one substep.
    Raises:  TypeError for fields that torch has no module for, or not all of one kind; ValueError for other steps.
    Source:  as `layers_from_torch`.
    """
    if not computes_as(module, Layers, DiscreteRNN):
        hint = "; `ctrnn.to_torch` makes a cell of a field" if isinstance(module, ctrnn.VectorField) else ""
        raise TypeError(
            f"`module` must be a discretize.Layers or DiscreteRNN, got {described(module, Layers, DiscreteRNN)}{hint}."
        )
    rows = module.layers if isinstance(module, Layers) else [[module]]
    cells = [_torch_cell(rnn) for row in rows for rnn in row]  # type: ignore[union-attr]
    first = cells[0]
    if len({(type(cell), getattr(cell, "nonlinearity", None)) for cell in cells}) > 1:
        raise TypeError(f"`module` has fields of several kinds, {', '.join(type(c).__name__ for c in cells)}; torch's has one.")
    if not first.input_size:
        raise ValueError("`module` has no input (`input_size=0`), and torch has no module without one.")
    settings = {"nonlinearity": first.nonlinearity} if isinstance(first, nn.RNNCell) else {}
    made = next(kind for kind, cell in KINDS.items() if type(first) is cell)(
        *(first.input_size, first.hidden_size, len(rows)),
        bias=any(cell.bias for cell in cells),
        batch_first=module.batch_first,
        dropout=module.dropout if isinstance(module, Layers) else 0.0,
        bidirectional=module.bidirectional,
        dtype=first.weight_ih.dtype,
        device=first.weight_ih.device,
        **settings,
    )
    for suffix, cell in zip(_suffixes(made), cells, strict=True):
        for name in _names(made):
            row = getattr(made, name + suffix)
            own = getattr(cell, name, None)
            row.copy_(torch.zeros_like(row) if own is None else own)
            row.requires_grad_(own is None or own.requires_grad)
    return made.train(module.training)


def _suffixes(module: nn.RNNBase) -> Iterator[str]:
    for layer in range(module.num_layers):
        yield f"_l{layer}"
        if module.bidirectional:
            yield f"_l{layer}_reverse"


def _names(module: nn.RNNBase) -> tuple[str, ...]:
    return ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if module.bias else ()))


@torch.no_grad()
def _cell(module: nn.RNNBase, kind: type[nn.RNNCellBase], suffix: str) -> nn.RNNCellBase:
    """One layer in one direction, as a cell."""
    weight = getattr(module, "weight_ih" + suffix)
    settings: dict[str, Any] = {"nonlinearity": nonlinearity_of(module)} if kind is nn.RNNCell else {}
    settings |= {"bias": module.bias, "dtype": weight.dtype, "device": weight.device}
    cell = kind(weight.shape[1], module.hidden_size, **settings)
    for name in _names(module):
        theirs = getattr(module, name + suffix)
        getattr(cell, name).copy_(theirs).requires_grad_(theirs.requires_grad)
    return cell.train(module.training)


def _torch_cell(rnn: object) -> nn.RNNCellBase:
    if not isinstance(rnn, DiscreteRNN):
        raise TypeError(f"`module` has a {type(rnn).__name__}, which solves where torch's modules step; take DiscreteRNN.")
    if not computes_as(rnn, DiscreteRNN):
        raise TypeError(f"`module` has {described(rnn, DiscreteRNN)}; code is not read.")
    if type(rnn.step) is not Euler or rnn.dt != 1 or rnn.substeps != 1:
        raise ValueError(f"`module` takes other steps than torch's, of Euler with dt=1: {rnn.extra_repr()}.")
    return ctrnn.to_torch(rnn.field)
