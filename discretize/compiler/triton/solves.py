"""Adaptive solves of any field by kernels in Triton: for GPUs, and under Triton's interpreter anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from discretize.compiler.program import FlowModule, Program, Writer
from discretize.compiler.solves import Needs, SolveEngine, disagreement, solve_by
from discretize.compiler.triton.kernels import triton_reason
from discretize.compiler.triton.solve_run import TritonModel, TritonRun
from discretize.compiler.triton.solve_writing import solve_writer
from discretize.fused.blocked_run import solved_within
from discretize.fused.kernel_run import EXPLICIT_METHODS, Solved
from discretize.solvers.segments import Chain

__all__ = ["solve_triton"]


def _made(module: FlowModule, dtype: torch.dtype, needs: Needs, program: Program) -> Program | str:
    return disagreement(partial(TritonRun, TritonModel(program, module)), module, dtype, needs) or program


def _writers(chain: Chain, needs: Needs, dtype: torch.dtype) -> Sequence[Writer]:
    return (solve_writer(dtype),)


def _solved(program: Program, module: FlowModule, *call: Any) -> Solved | str:
    return solved_within(TritonRun, TritonModel(program, module), *call)


solve_triton = partial(solve_by, SolveEngine(EXPLICIT_METHODS, triton_reason, _writers, _made, _solved))
