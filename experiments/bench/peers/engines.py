"""Engines of this toolkit: compiled kernels, or single steps in Python.

compiled   DiscreteRNN(..., fused="always"), integrate(...)              where there is a compiler; on a GPU, Triton
steps      fused=False, or CTRNN_FUSED=0                                 every field and step, any of torch's transforms
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

import ctrnn
import discretize

__all__ = ["COMPILED", "ENGINES", "STEPS", "cell_engine", "wrong_engine"]

COMPILED, STEPS = "compiled", "steps"
ENGINES = (COMPILED, STEPS)
KERNELS = {COMPILED: (COMPILED, "triton")}  # as `stats` tells them apart: those of the CPU, and of a GPU


def wrong_engine(stats: Mapping[str, Any], wanted: str) -> str | None:
    """Which other engine ran, and why; None if the wanted one did."""
    if stats["engine"] in KERNELS.get(wanted, (wanted,)):
        return None
    return f"it ran by {stats['engine']!r}" + (f": {stats['engine_why']}" if stats["engine_why"] else "")


def cell_engine(field: ctrnn.VectorField, step: discretize.Step, engine: str, x: Tensor) -> Callable[[Tensor], Tensor] | str:
    """x (time, batch, input) -> output (time, batch, hidden) by that engine; or the reason why there is none."""
    rnn = discretize.DiscreteRNN(field, step, fused="always" if engine == COMPILED else False)

    def run(x: Tensor) -> Tensor:
        return rnn(x)[0]

    with torch.no_grad():
        run(x[:, :2])  # compiles, if the engine does, and if there are steps enough
    return wrong_engine(rnn.stats, engine) or run
