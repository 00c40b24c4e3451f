"""Adaptive solves of any field by kernels in Triton: for GPUs, and under Triton's interpreter anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from discretize.kernels.cpp.blocks import solved_within
from discretize.kernels.cpp.solves import METHODS, Needs, SolveEngine, disagreement, solve_by
from discretize.kernels.record.program import FlowModule, Program, Writer
from discretize.kernels.record.stored import Recorder
from discretize.kernels.solved import Solved
from discretize.kernels.triton.kernels import triton_reason
from discretize.kernels.triton.models import SolveKernel, TritonModel
from discretize.kernels.triton.solving.run import TritonRun
from discretize.kernels.triton.solving.stiff_run import StiffRun, recorder, stiff_kernel
from discretize.kernels.triton.solving.writing import solve_writer
from discretize.solvers.detached import ModuleSettings

__all__ = ["solve_triton"]


def _made(module: FlowModule, dtype: torch.dtype, needs: Needs, program: Program, recorder: Recorder) -> SolveKernel | str:
    explicit = SolveKernel([program], program.written, needs.stored)
    kernel = stiff_kernel(module, dtype, needs, program, recorder) if needs.implicit else explicit
    if isinstance(kernel, str):
        return kernel
    for each in dict.fromkeys((needs, replace(needs, stored=None))):  # the second to finer rounding
        run = partial(_kind(kernel), TritonModel(replace(kernel, stored=each.stored), module, ModuleSettings(module)))
        if why := disagreement(run, module, dtype, each):
            return why
    return kernel


def _writers(module: FlowModule, needs: Needs, dtype: torch.dtype) -> Sequence[Writer]:
    return (recorder(0) if needs.implicit else solve_writer(dtype),)


def _solved(kernel: SolveKernel, module: FlowModule, *call: Any) -> Solved | str:
    return solved_within(_kind(kernel), TritonModel(kernel, module, ModuleSettings(module)), *call)


def _kind(kernel: SolveKernel) -> type[TritonRun]:
    return TritonRun if len(kernel.programs) == 1 else StiffRun


solve_triton = partial(solve_by, SolveEngine(METHODS, triton_reason, _writers, _made, _solved))
