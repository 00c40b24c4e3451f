"""Adaptive solves of any field by kernels in Triton: for GPUs, and under Triton's interpreter anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from discretize.compiler.program import FlowModule, Program, Writer
from discretize.compiler.solves import Needs, SolveEngine, disagreement, solve_by
from discretize.compiler.triton.kernels import triton_reason
from discretize.compiler.triton.solve_run import SolveKernel, TritonModel, TritonRun
from discretize.compiler.triton.solve_writing import solve_writer
from discretize.fused.blocked_run import solved_within
from discretize.fused.kernel_run import EXPLICIT_METHODS, Solved
from discretize.solvers.segments import Chain

__all__ = ["solve_triton"]


def _made(module: FlowModule, dtype: torch.dtype, needs: Needs, program: Program) -> SolveKernel | str:
    kernel = SolveKernel(program, needs.stored)
    for each in dict.fromkeys((needs, replace(needs, stored=None))):  # the second to finer rounding
        run = partial(TritonRun, TritonModel(replace(kernel, stored=each.stored), module))
        if why := disagreement(run, module, dtype, each):
            return why
    return kernel


def _writers(chain: Chain, needs: Needs, dtype: torch.dtype) -> Sequence[Writer]:
    return (solve_writer(dtype),)


def _solved(kernel: SolveKernel, module: FlowModule, *call: Any) -> Solved | str:
    return solved_within(TritonRun, TritonModel(kernel, module), *call)


solve_triton = partial(solve_by, SolveEngine(EXPLICIT_METHODS, triton_reason, _writers, _made, _solved))
