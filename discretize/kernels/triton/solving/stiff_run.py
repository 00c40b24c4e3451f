r"""A stiff solve by a kernel in Triton: as an explicit one, with another method's numbers and more to keep of a step.

Experimental: no such solve has run on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import torch

from discretize.kernels.cpp.solves import Needs
from discretize.kernels.record.program import FlowModule, InputJVP, Program, StateJVP, Writer
from discretize.kernels.record.stored import Recorder
from discretize.kernels.triton.models import SolveKernel
from discretize.kernels.triton.solving.elimination import MOST_UNITS, units_of
from discretize.kernels.triton.solving.recorded import Recorded
from discretize.kernels.triton.solving.run import TritonRun
from discretize.kernels.triton.solving.stiff_writing import stiff_text
from discretize.solvers import rodas
from discretize.solvers.rodas import Rodas5P

__all__ = ["StiffRun", "recorder", "stiff_kernel"]


@dataclass(eq=False)
class StiffRun(TritonRun):
    """One solve by rodas5p."""

    @property
    def width(self) -> int:
        return max(super().width, units_of(self.h0.shape[1]) ** 2)

    @property
    def evaluations(self) -> tuple[int, ...]:
        return (self.stages, self.stages, 1)[: len(self.kernel.programs)]

    def _widths(self, state: int) -> tuple[int, int]:
        text, matrices = self.text, 2 * state * state
        forward = (self.stages + 8) * state + matrices + 2 * text.columns
        back = (3 * self.stages + 10) * state + matrices + 4 * text.columns
        return text.forward.scratch + forward, text.backward.scratch + back

    def _read_method(self) -> None:
        r"""The method's numbers and the settings.

        table (stages + 1, 2 stages + 2): a, C, c and d of each stage, and last gamma and what a Jacobian costs. columns
        (stages, 2 stages): for each u where it is added to later stages' places and right sides.
        """
        method = self.engine.control.method
        assert isinstance(method, Rodas5P)
        numbers = self._rosenbrock_arrays(method)
        self.stages, self.last_is_next = (stages := numbers["stages"]), False
        a, coupled = self.arrays["a"], self.arrays["b"]
        table = np.zeros((stages + 1, 2 * stages + 2))
        table[:stages] = np.concatenate([a, coupled, np.array([rodas.NODES, rodas.FROM_TIME]).T], 1)
        table[stages, :2] = numbers["gamma"], numbers["jacobian_cost"]
        columns = np.concatenate([a, coupled]).T.copy()  # row after row in memory
        self.table, self.columns = (torch.from_numpy(each).to(self.h0.device) for each in (table, columns))
        self._read_settings()


@cache
def recorder(number: int) -> Writer:
    """What makes of a program one of several in a kernel."""
    return partial(Recorded, number=number)


def stiff_kernel(module: FlowModule, dtype: torch.dtype, needs: Needs, flow: Program, recorded: Recorder) -> SolveKernel | str:
    """The kernel of a field's flow, which `recorder(0)` has read, and of its derivatives; or why there is none."""
    if (units := module.field.state_size) > MOST_UNITS:
        return f"rodas5p has kernels for GPUs for {MOST_UNITS} units or fewer, and this state has {units}"
    programs = [flow]
    for number, kind in enumerate((StateJVP, InputJVP)[: 1 + needs.drift], 1):
        programs.append(recorded.program(kind(module.field, module.columns), {"x": needs.x}, dtype, recorder(number)))
    if needs.drift and not programs[2].written.columns:  # what does not read the input does not move with it
        programs.pop()
    return SolveKernel(programs, stiff_text([program.written for program in programs], dtype), needs.stored)
