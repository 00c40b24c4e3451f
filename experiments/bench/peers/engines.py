"""Engines of this toolkit: compiled kernels, one function of plain torch, or single steps in Python.

compiled   DiscreteRNN(..., fused=True), integrate(..., fused=True)      where there is a compiler; on a GPU, Triton
torch      the same sequence function in plain torch                     without one
steps      fused=False, or CTRNN_FUSED=0                                 every field and step, any of torch's transforms
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

import ctrnn
import discretize
from discretize.kernels.named import cells, kernel_spec

__all__ = ["COMPILED", "ENGINES", "STEPS", "TORCH", "cell_engine", "wrong_engine"]

COMPILED, TORCH, STEPS = "compiled", "torch", "steps"
ENGINES = (COMPILED, TORCH, STEPS)
KERNELS = {COMPILED: (COMPILED, "triton")}  # as `stats` tells them apart: those of the CPU, and of a GPU
NAMES = {discretize.Euler: "euler", discretize.ExponentialEuler: "exponential"}


def wrong_engine(stats: Mapping[str, Any], wanted: str) -> str | None:
    """Which other engine ran, and why; None if the wanted one did."""
    if stats["engine"] in KERNELS.get(wanted, (wanted,)):
        return None
    return f"it ran by {stats['engine']!r}" + (f": {stats['engine_why']}" if stats["engine_why"] else "")


def cell_engine(field: ctrnn.VectorField, step: discretize.Step, engine: str, x: Tensor) -> Callable[[Tensor], Tensor] | str:
    """x (time, batch, input) -> output (time, batch, hidden) by that engine; or the reason why there is none."""
    if engine == TORCH:
        return _plain_torch(field, step)
    rnn = discretize.DiscreteRNN(field, step, fused=engine == COMPILED)

    def run(x: Tensor) -> Tensor:
        return rnn(x)[0]

    with torch.no_grad():
        run(x[:, :2])  # compiles, if the engine does, and if there are steps enough
    return wrong_engine(rnn.stats, engine) or run


def _plain_torch(field: ctrnn.VectorField, step: discretize.Step) -> Callable[[Tensor], Tensor] | str:
    """The engine for machines without a compiler, called directly: `DiscreteRNN` prefers kernels where it can."""
    kind = kernel_spec.kind_of(field)
    if isinstance(kind, str) or type(step) not in NAMES:
        return kind if isinstance(kind, str) else f"{step!r} has no fused form"

    engine = cells.torch_engine(kind)

    def run(x: Tensor) -> Tensor:
        h0, weights = x.new_zeros(x.shape[1], field.state_size), kernel_spec.stacked_weights(field)
        return field.visible(cells.run_engine(engine, kind, NAMES[type(step)], weights, x, h0, 1.0, 1))

    return run
