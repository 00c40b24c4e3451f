r"""Run adaptive solves by kernels in Triton: on GPUs, and under Triton's interpreter anywhere.

forwards    every sample with its own steps, which are kept as far as there is room; where gradients need more than that
            the solve runs once more with room for all
backwards   a few steps of each sample a launch, whose values for the weights' gradients fill `MOST_VALUES` bytes

Stiff solves are experimental: none has run on a GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ctrnn.inputs.polynomial import PolynomialPath
from discretize.kernels.cpp.methods import WrittenMethod, method_of
from discretize.kernels.cpp.programs import CtrnnReport
from discretize.kernels.cpp.solves import SolveEngine, SolveNeeds, disagreement, plan_by, total
from discretize.kernels.cpp.solving import ALL_STEPS, KernelRun
from discretize.kernels.pieces import projected_of
from discretize.kernels.record.program import FlowModule, InputJVP, Program, StateJVP, Weights, Writer
from discretize.kernels.record.stored import Recorder
from discretize.kernels.triton.attempts import AttemptText
from discretize.kernels.triton.kernels import launch, summed, triton_reason
from discretize.kernels.triton.lines import WEIGHTS, Needs, padded
from discretize.kernels.triton.matrices import MOST_UNITS, units_of
from discretize.kernels.triton.methods import TRITON
from discretize.kernels.triton.shapes import many
from discretize.kernels.triton.solve_writing import COUNTS, NUMBERS, SolvePasses, SolveText, solve_text, solve_writer, with_method
from discretize.solvers.adaptive import ADAPTIVE_METHODS
from discretize.solvers.kept import KeptSteps
from discretize.solvers.tableaus import EmbeddedMethod

__all__ = ["TritonRun", "TritonSolveKernel", "plan_triton", "recorder"]


@dataclass(frozen=True, eq=False)
class TritonSolveKernel:
    """A text, and the programs that it is made of; `stored`: the dtype of matrices, of states given back and of those kept, None
    for that of h0."""

    programs: Sequence[Program[Any]]
    text: SolveText
    stored: torch.dtype | None
    key: ClassVar = None
    by_program: ClassVar = True

    @property
    def run(self) -> type[TritonRun]:
        return TritonRun

    def read(self, weights: Weights, h0: Tensor) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """The vectors and matrices that the text reads, by number."""
        vectors, matrices = dict[int, Tensor](), dict[int, Tensor]()
        for program, first in zip(self.programs, range(0, len(self.programs) * WEIGHTS, WEIGHTS), strict=True):
            some, others = program.read(weights)
            vectors |= {first + k: vector.to(h0.device) for k, vector in enumerate(some)}
            matrices |= {first + k: matrix.to(h0.device, self.stored or h0.dtype) for k, matrix in enumerate(others)}
        return vectors, matrices

    def gradients(self, weights: Weights, sums: Sequence[Sequence[Tensor]]) -> list[Tensor | None]:
        """To the weights, from each program's sums."""
        results = [program.gradients(weights, mine) for program, mine in zip(self.programs, sums, strict=True)]
        return [total(each) for each in zip(*results, strict=True)]


STEPS_A_SEGMENT, STEPS_AT_ALL = 4, 32  # for which there is room at first
MOST_VALUES = 2**26


@dataclass(eq=False)
class TritonRun(KernelRun):
    """One solve by a kernel in Triton."""

    name = "triton"

    def forward(self, projected: Tensor, h0: Tensor, *weights: Tensor | None) -> Tensor:
        """(wanted edges, batch, state)."""
        self.projected, self.h0 = (tensor.detach().contiguous() for tensor in (projected, h0))
        self.weights: list[Tensor | None] = [None if weight is None else weight.detach() for weight in weights]
        self.kernel: TritonSolveKernel = self.model.kernel
        self.text, self.stored = self.kernel.text, self.kernel.stored or h0.dtype
        self.vectors, self.matrices = self.kernel.read(self.weights, self.h0)
        self._read_segments()
        self._read_method()
        room = max(1, min(self.keep, STEPS_A_SEGMENT * len(self.chain) + STEPS_AT_ALL))
        hs = self._forward(room)
        needed = int(self.counts[:, 0].max())
        if needed > room and self.keep == ALL_STEPS:
            hs = self._forward(needed)
        self._count(len(h0))
        return hs

    def backward(self, grad: Tensor) -> list[Tensor | None]:
        """The gradients to the inputs."""
        text, like, batch, grad = self.text, self.h0, len(self.h0), grad.resolve_neg()
        of_projected, of_h0 = torch.zeros_like(self.projected, dtype=like.dtype), torch.zeros_like(like)
        edges = torch.full((batch,), len(self.chain) + 1, dtype=torch.int64, device=like.device)
        # One turn more than there are steps, for what is wanted at the start.
        turns = int(self.counts[:, 0].max()) + 1
        each = list(zip(text.programs, self.evaluations, strict=True))
        a_turn = sum(count * batch * (kept.kept + kept.operands) for kept, count in each) * like.element_size()
        many = max(1, min(turns, MOST_VALUES // max(1, a_turn)))
        scratch = like.new_empty(batch, width := self.widths[1])
        sums = [[like.new_zeros(shape) for shape in program.sums] for program in self.kernel.programs]
        for first in range(0, turns, many):
            rows = [
                {
                    "kept": like.new_zeros(many, count, batch, kept.kept),
                    "operands": like.new_zeros(many, count, batch, kept.operands),
                }
                for kept, count in each
            ]
            given = (
                *(self.projected, *self.segments, self.table, grad.contiguous(), self.counts, self.steps_taken),
                *(self.states, of_projected, of_h0, edges, scratch, *(buffer for of_one in rows for buffer in of_one.values())),
            )
            sizes = (batch, first, many, *self.strides, width)
            self._launch("backward", given, text.backward, sizes)
            rows[0] = self._differentiated(rows[0])
            for totals, of_one, (kept, _) in zip(sums, rows, each, strict=True):
                for to, (left, right) in zip(totals, kept.sums, strict=True):
                    to.add_(summed(of_one, left, right, to.dtype).reshape(to.shape))
        of_weights = self.kernel.gradients(self.weights, sums)
        self.request.stats["nfe_backward"] += self.used * int(self.engine.counts.accepted.max())
        return [of_projected.to(self.projected.dtype), of_h0, *of_weights]

    def steps(self) -> KeptSteps | None:
        """The steps that every sample took, None where they were more than were kept."""
        counts = self.engine.counts.accepted
        if not 0 < counts.max() <= len(self.states):
            return None
        sample = np.repeat(np.arange(len(counts)), counts)
        number = np.concatenate([np.arange(count) for count in counts])
        at = tuple(torch.from_numpy(index).to(self.h0.device) for index in (number, sample))
        segment, tau, _ = self.steps_taken[at].T.cpu().numpy()
        place = np.stack([np.zeros(len(sample), np.int64), np.arange(len(sample))], 1)
        return KeptSteps(sample, segment.astype(np.int64), tau, place, [self.states[at].to(self.h0.dtype)])

    def end(self, hs: Tensor) -> Tensor:
        return self.ends[0]

    @property
    def width(self) -> int:
        """Numbers of a sample that a program has in registers at once."""
        state = self.h0.shape[1]
        return max(self.text.columns, units_of(state) ** 2 if self.text.implicit else state)

    @property
    def evaluations(self) -> tuple[int, ...]:
        """Of each program in a step on the way back."""
        return (self.method.evaluations, self.method.pairs, 1)[: len(self.text.programs)]

    def _differentiated(self, rows: dict[str, Tensor]) -> dict[str, Tensor]:
        """Those of the evaluations that a method goes back through."""
        pulled = self.method.pulled
        if sorted(pulled) == [*range(self.method.evaluations)]:
            return rows
        return {name: each[:, pulled] for name, each in rows.items()}

    def _forward(self, room: int) -> Tensor:
        like, text, (batch, state) = self.h0, self.text, self.h0.shape
        hs = like.new_empty(len(self.edges), batch, state, dtype=self.stored)
        self.states: Tensor = like.new_empty(room, batch, state, dtype=self.stored)
        self.steps_taken: Tensor = like.new_empty(room, batch, 3, dtype=torch.float64)
        self.numbers: Tensor = like.new_empty(batch, len(NUMBERS), dtype=torch.float64)
        self.counts: Tensor = like.new_empty(batch, len(COUNTS), dtype=torch.int64)
        self.ends: Tensor = like.new_empty(2, batch, state)
        width = self.widths[0]
        given = (
            *(self.projected, like, *self.segments, self.table, self.settings, self.atols, self.limits, *self.before),
            *(hs, self.states, self.steps_taken, self.numbers, self.counts, self.ends, like.new_empty(batch, width)),
        )
        sizes = (batch, len(self.chain), room, *self.strides, width)
        self._launch("forward", given, text.forward, sizes)
        return hs

    def _launch(self, name: str, given: Sequence[Tensor], needs: Sequence[Needs], sizes: Sequence[int]) -> None:
        speeds = 0 if self.chain.speeds is None else self.chain.speeds.shape[-1]
        chebyshev = isinstance(projected_of(self.chain), PolynomialPath)
        how = {"TERMS": self.terms, "CHEBYSHEV": chebyshev, "SPEEDS": speeds}
        weights = [each[k] for of in needs for each, ks in ((self.vectors, of.vectors), (self.matrices, of.matrices)) for k in ks]
        launch(self.text.text, name, self.h0, many(self.width), (*given, *weights, *sizes), how)

    def _read_segments(self) -> None:
        """What the kernel reads of the segments, on its device."""
        self._segment_arrays()
        none = np.zeros(1)
        names = ("lengths", "pieces", "share", "share_rate", "speeds", "places")
        self.segments: list[Tensor] = [torch.from_numpy(self.arrays.get(name, none)).to(self.h0.device) for name in names]
        self.strides = (len(self.h0), 1) if self.arrays["lengths"].ndim > 1 else (1, 0)

    def _read_method(self) -> None:
        """The method's text and tensors, and the settings."""
        written = self.model.method
        assert written is not None
        code, calls, rule = written.kernel, written.calls, self.engine.control.method
        self.method: AttemptText = code.text
        self.text = with_method(self.kernel.text, self.method, calls.end or 0, code.reads_start)
        self.widths = self.text.widths(self.method)
        vectors, matrices = code.operands(written.tensors, self.h0.device)
        self.vectors, self.matrices = self.vectors | vectors, self.matrices | matrices
        self.table: Tensor = torch.tensor(self.method.table(calls.nodes), dtype=torch.float64, device=self.h0.device)
        derivatives = rule.attempt_cost(self.chain.segment(0), self.chain.field.state_size) - rule.evaluations + rule.reads_start
        self.used = self.method.evaluations + derivatives + self.method.pairs
        self._read_settings(derivatives)

    def _read_settings(self, derivatives: int) -> None:
        """derivatives: what those of the field cost at a state, in evaluations."""
        control = self.engine.control
        settings = [control.rtol, 1 / control.method.error_order, control.min_step, control.max_step, max(derivatives, 0)]
        most = (control.max_num_steps, self.most or control.most_steps(len(self.chain)))
        self.settings: Tensor = torch.tensor(settings, dtype=torch.float64, device=self.h0.device)
        atol, state = torch.as_tensor(control.atol, dtype=self.h0.dtype, device=self.h0.device), self.h0.shape[-1]
        self.atols: Tensor = self.h0.new_ones(padded(state))  # beyond the units as well, where nothing is masked
        self.atols[:state] = atol
        self.limits: Tensor = torch.tensor([min(each, ALL_STEPS) for each in most], device=self.h0.device)
        batch, first = len(self.h0), control.given_first_step or 0.0
        before = self.carried or (np.full(batch, first), np.zeros(batch, np.int64))
        self.before: list[Tensor] = [torch.from_numpy(each).to(self.h0.device) for each in before]

    @property
    def rows_of_steps(self) -> int:
        counts = self.engine.counts.accepted
        return int(counts.max()) * len(counts)  # a row of all samples for each

    def _end_of(self, row: int) -> tuple[Tensor, Tensor]:
        return self.ends[0, row : row + 1], self.ends[1, row : row + 1]

    def _reports(self, batch: int) -> ctypes.Array[CtrnnReport]:
        reports = (CtrnnReport * batch)()
        rows, names = np.ctypeslib.as_array(reports), (*NUMBERS, *COUNTS)
        for name, column in zip(names, (*self.numbers.T.cpu().numpy(), *self.counts.T.cpu().numpy()), strict=True):
            rows["rejected_last" if name == "held_back" else name] = column
        return reports


@cache
def recorder(number: int) -> Writer[SolvePasses]:
    """A writer that keeps a program as one of several in a kernel."""
    return partial(SolvePasses, number=number)


def _stiff_kernel(
    module: FlowModule, dtype: torch.dtype, needs: SolveNeeds, flow: Program[SolvePasses], recorded: Recorder
) -> TritonSolveKernel | str:
    """The kernel of a field's flow, which `recorder(0)` has read, and of its derivatives; or why there is none."""
    if (units := module.field.state_size) > MOST_UNITS:
        return f"methods that read Jacobians have kernels for GPUs for {MOST_UNITS} units or fewer, and this state has {units}"
    programs = [flow]
    for number, kind in enumerate((StateJVP, InputJVP)[: 1 + needs.drift], 1):
        programs.append(recorded.program(kind(module.field, module.columns), {"x": needs.x}, dtype, recorder(number)))
    if needs.drift and not programs[2].written.columns:  # what does not read the input does not move with it
        programs.pop()
    return TritonSolveKernel(programs, solve_text([program.written for program in programs], dtype), needs.stored)


def _made(
    module: FlowModule, dtype: torch.dtype, needs: SolveNeeds, program: Program[Any], recorder: Recorder
) -> TritonSolveKernel | str:
    explicit = TritonSolveKernel([program], program.written, needs.stored)
    kernel = _stiff_kernel(module, dtype, needs, program, recorder) if needs.implicit else explicit
    if isinstance(kernel, str):
        return kernel
    # It is compared with each method later, as it is; and here to finer rounding.
    if needs.stored:
        finer = replace(needs, stored=None)
        if why := disagreement(replace(kernel, stored=None), module, dtype, finer, *_method(module, needs, dtype)):
            return why
    return kernel


def _method(module: FlowModule, needs: SolveNeeds, dtype: torch.dtype) -> tuple[EmbeddedMethod, WrittenMethod]:
    """A method and its program, by which a kernel is compared."""
    method = ADAPTIVE_METHODS["rodas5p" if needs.implicit else "dopri5"]
    written = method_of(TRITON, method, module.field.state_size, dtype, wait=True)
    assert not isinstance(written, str)
    return method, written


def _writers(module: FlowModule, needs: SolveNeeds, dtype: torch.dtype) -> Sequence[Writer[Any]]:
    return (recorder(0) if needs.implicit else solve_writer(dtype),)


plan_triton = partial(plan_by, SolveEngine(triton_reason, _writers, _made, TRITON, reads_past=False))
