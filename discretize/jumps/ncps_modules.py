"""Modules of ncps are converted: the same outputs, a copy of the weights, and times for each sequence of a batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import ctrnn
from ctrnn.cells.published.liquid.ncps_cells import check_ncps_own, ncps_kinds
from discretize.jumps.cfc import ACTIVATIONS, CfCJump
from discretize.jumps.rnn import HeldJumpRNN
from discretize.sequences.rnn import DiscreteRNN
from discretize.steps.euler import Euler
from discretize.steps.frozen import FrozenBackwardEuler

__all__ = ["from_ncps"]


def from_ncps(module: nn.Module, hold: str = "forward", open_interval: float | None = None) -> DiscreteRNN | HeldJumpRNN:
    r"""Convert a module, which steps as ncps does: call it with `ts` where ncps takes `timespans`, whose running sums they are.

    ts = [0, timespans[0], timespans[0] + timespans[1], ...], one more than samples, for each sequence its own; ncps takes such
    times for a batch of one. All outputs come back, also where `return_sequences=False`. A CfC starts from a state h_0 of ncps as
    [h_0, 0, 0, 0].

    Args:    module: ncps.torch.LTC, CfC or CfCCell; hold, open_interval as for `DiscreteRNN`.
    Returns: of an LTC a `DiscreteRNN` of `ctrnn.cells.from_ncps(module)`, of a CfC a `HeldJumpRNN` as of `cfc`; time- or
             batch-first as the module is.
    Raises:  ImportError without ncps; TypeError for other modules, and subclasses that override a method; ValueError for
             `mixed_memory`, `proj_size` and a wired CfC.
    Source:  Hasani et al. 2021 and 2022, as ncps 1.0 has them.
    """
    ltc, *closed = ncps_kinds("LTC", "CfC", "CfCCell")
    given: dict[str, Any] = {"hold": hold, "open_interval": open_interval, "batch_first": getattr(module, "batch_first", False)}
    if isinstance(module, ltc):
        given |= {"substeps": module.rnn_cell._ode_unfolds}  # type: ignore[union-attr]
        return DiscreteRNN(ctrnn.from_ncps(module), FrozenBackwardEuler(), **given).train(module.training)
    if not isinstance(module, tuple(closed)):
        hint = "; `ctrnn.cells.from_ncps` reads an LTCCell" if "LTC" in type(module).__name__ else ""
        raise TypeError(f"`module` must be an LTC, CfC or CfCCell of ncps.torch, got {type(module).__name__}{hint}.")
    check_ncps_own(module, *closed)
    jump = _jump(_cell(module))
    return HeldJumpRNN(jump.field, jump, method=Euler(), **given).train(module.training)


def _cell(module: nn.Module) -> Any:
    cell: Any = getattr(module, "rnn_cell", module)
    check_ncps_own(cell, *ncps_kinds("CfCCell"))
    if hasattr(cell, "num_layers"):
        raise ValueError(
            "`module` is a wired CfC, layers of different sizes; convert each, `from_ncps(module.rnn_cell.layer_0)` and so on, "
            "and let the output of one be the input of the next."
        )
    if getattr(module, "use_mixed", False):
        raise ValueError("`module` has mixed_memory=True, an LSTM before its cell; convert its `rnn_cell` alone.")
    if getattr(module, "proj_size", None) is not None:
        raise ValueError("`module` has a `proj_size`; convert its `rnn_cell`, and put its `fc` after it.")
    return cell


def _jump(cell: Any) -> CfCJump:
    layers = list(cell.backbone or [])
    dropout = next((part.p for part in layers if isinstance(part, nn.Dropout)), 0.0)
    words = {"LeCun": "lecun_tanh"} | {kind.__name__: word for word, kind in ACTIVATIONS.items()}
    activation, units = (words[type(layers[1]).__name__], layers[0].out_features) if layers else ("lecun_tanh", 1)
    wiring = None if cell.sparsity_mask is None else cell.sparsity_mask.detach().T
    jump = CfCJump(cell.input_size, cell.hidden_size, cell.mode, activation, units, cell.backbone_layers, dropout, wiring).to(
        cell.ff1.weight
    )  # its dtype and device
    weights = {name if name.startswith("backbone") else f"curve.{name}": value for name, value in cell.state_dict().items()}
    weights.pop("curve.sparsity_mask", None)
    masks = {name: value for name, value in jump.state_dict().items() if name.endswith("mask")}
    jump.load_state_dict({name: torch.clone(value) for name, value in weights.items()} | masks)
    theirs = dict(cell.named_parameters())
    for name, weight in jump.named_parameters():
        weight.requires_grad_(theirs[name.removeprefix("curve.")].requires_grad)
    return jump
