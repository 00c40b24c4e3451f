"""Adaptive solves of any field by kernels in Triton: for GPUs, and under Triton's interpreter anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from discretize.compiler.program import FlowModule, Program, Writer
from discretize.compiler.solves import Needs, SolveEngine, disagreement, solve_by
from discretize.compiler.triton.kernels import triton_reason
from discretize.compiler.triton.solve_run import TritonModel, TritonRun
from discretize.compiler.triton.solve_writing import solve_writer
from discretize.fused.kernel_run import ALL_STEPS, EXPLICIT_METHODS, Solved, finished
from discretize.solvers.adaptive import AdaptiveEngine
from discretize.solvers.continuation import MOST_BYTES
from discretize.solvers.segments import Chain

__all__ = ["solve_triton"]


def _made(module: FlowModule, dtype: torch.dtype, needs: Needs, program: Program) -> Program | str:
    return disagreement(partial(TritonRun, TritonModel(program, module)), module, dtype, needs) or program


def _writers(chain: Chain, needs: Needs, dtype: torch.dtype) -> Sequence[Writer]:
    return (solve_writer(dtype),)


def _solved(
    program: Program,
    module: FlowModule,
    chain: Chain,
    tensors: Sequence[Any],
    engine: AdaptiveEngine,
    show: Callable[[int], None],
    stats: dict[str, Any],
    memory: float | None,
) -> Solved | str:
    h0 = tensors[1]
    wanted = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
    if wanted and memory is not None:
        return "kernels for GPUs keep all steps, and `gradient`=Checkpointed bounds what is kept"
    keep = ALL_STEPS if wanted else math.ceil(MOST_BYTES / (h0.numel() * h0.element_size()))
    return finished(TritonRun(TritonModel(program, module), chain, engine, show, stats, keep), tensors)


solve_triton = partial(solve_by, SolveEngine(EXPLICIT_METHODS, triton_reason, _writers, _made, _solved))
