"""Conversion of ncps' sequence modules: the same outputs, a copy of the weights, and times for each sequence of a batch."""

from __future__ import annotations

from typing import Any

from torch import nn

import ctrnn
from ctrnn.cells.published.ncps_cells import ncps_kinds
from discretize.sequences.rnn import DiscreteRNN
from discretize.steps.frozen import FrozenBackwardEuler

__all__ = ["from_ncps"]


def from_ncps(module: nn.Module, hold: str = "forward", open_interval: float | None = None) -> DiscreteRNN:
    r"""The module as ncps steps it: call it with `ts` where ncps takes `timespans`, whose running sums they are.

    ts = [0, timespans[0], timespans[0] + timespans[1], ...], one more than samples, for each sequence its own; ncps takes such
    times for a batch of one. All outputs come back, also where `return_sequences=False`.

    Args:    module: ncps.torch.LTC; hold, open_interval as for `DiscreteRNN`.
    Returns: a `DiscreteRNN` of `ctrnn.from_ncps(module)`, time- or batch-first as the module is.
    Raises:  ImportError without ncps; TypeError, ValueError as `ctrnn.from_ncps`.
    Source:  Hasani et al. 2021, as ncps 1.0 has it.
    """
    (ltc,) = ncps_kinds("LTC")
    if not isinstance(module, ltc):
        raise TypeError(f"`module` must be an LTC of ncps.torch, got {type(module).__name__}; `ctrnn.from_ncps` reads cells.")
    given: dict[str, Any] = {"hold": hold, "open_interval": open_interval, "batch_first": module.batch_first}
    given |= {"substeps": module.rnn_cell._ode_unfolds}  # type: ignore[union-attr]
    return DiscreteRNN(ctrnn.from_ncps(module), FrozenBackwardEuler(), **given).train(module.training)
