r"""Run an exact solve along an input in polynomial pieces by a compiled kernel, whatever the field: source/solves.cpp.

Every sample takes the steps that the engine in adaptive.py would take, without waiting for its neighbours; gradients are
those of the steps. What second derivatives need is solved again by that engine.

From the projected input on, a sample's states and gradients have the same bits in any batch and with any number of threads;
the projection is a product of torch's, and the same to rounding.
"""

from __future__ import annotations

import copy
import ctypes
import math
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from ctrnn import VectorField
from ctrnn.inputs.polynomial import PolynomialPath
from ctrnn.inputs.segment_input import SegmentInput
from discretize.errors import Failure
from discretize.kernels import reference
from discretize.kernels.cpp.methods import WrittenMethod
from discretize.kernels.cpp.programs import CtrnnProblem, CtrnnReport, address
from discretize.kernels.pieces import projected_of, rows_of_pieces
from discretize.kernels.record.program import FlowModule, with_weights
from discretize.kernels.record.tableau import tableau_of
from discretize.kernels.solved import Solved, SolveRequest
from discretize.solvers.adaptive import AdaptiveEngine
from discretize.solvers.control import StepControl
from discretize.solvers.detached import ModuleSettings
from discretize.solvers.diagnosis import diagnosis
from discretize.solvers.kept import MOST_BYTES, KeptSteps
from discretize.solvers.segments import Chain
from discretize.solvers.tableaus import Attempt, EmbeddedMethod

__all__ = [
    "ALL_STEPS",
    "KernelRun",
    "KernelSolve",
    "Model",
    "SolveKernel",
    "WrittenField",
    "is_program",
    "no_kernel",
    "solved",
    "states_by_engine",
]

ALL_STEPS = 2**62
REPORT = np.dtype(CtrnnReport)  # which takes long to find out
SLICE = 0.2  # seconds in the kernel, after which Ctrl-C is heeded and progress is shown


class WrittenField(VectorField):
    """A module's `flow` at any weights, a function of the projected input."""

    def __init__(self, module: FlowModule, weights: Sequence[Tensor]) -> None:
        super().__init__(module.columns, module.field.state_size)
        self.code = with_weights(module, weights).forward  # not its tensors, which are the caller's

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.code(projected, h)


class SolveKernel(Protocol):
    """A kernel that solves fields of one code; `run` is the class of its solves; `by_program`: whether it takes methods that are
    programs; `key`: of what it is made of on disk, None where that is never kept."""

    @property
    def key(self) -> str | None: ...

    @property
    def run(self) -> type[KernelRun]: ...

    @property
    def by_program(self) -> bool: ...


class Model:
    """A field as a kernel solves it: the `module` whose weights are given, each once, with its settings at the call; `method`: of
    solves by a method that is a program, its own, and the tensors that this reads."""

    module: FlowModule

    def __init__(self, kernel: SolveKernel, module: FlowModule, method: WrittenMethod | None = None) -> None:
        self.kernel: Any = kernel  # of the kind that its `run` takes
        self.method = method
        self.module = module
        self.settings: ModuleSettings | None = ModuleSettings(module) if torch.is_grad_enabled() else None

    def field(self, *weights: Any) -> VectorField:
        """The same in torch, of the projected input."""
        with nullcontext() if self.settings is None else self.settings.restored():
            return WrittenField(self.module, weights)


def solved(model: Model, request: SolveRequest, tensors: Sequence[Any]) -> Solved:
    """The solve by that model's kernel; tensors: the projected input, h0, and the weights that the model takes."""
    h0 = tensors[1]
    wanted = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
    keep = ALL_STEPS if wanted else MOST_BYTES // (h0.numel() * h0.element_size()) if request.dense else 0
    run = model.kernel.run(model, request, keep)
    hs = KernelSolve.apply(run, *tensors) if wanted else run.forward(*tensors)
    edges = run.edges[run.edges <= run.reached]
    return Solved(edges, hs if run.failed.cause == 0 else hs[: len(edges)], run.failure(), request.chain, run.steps, run.name)


def no_kernel(chain: Chain) -> str | None:
    """Return why a solve has no kernel, whatever its field and method; None where it may have one."""
    return None if len(chain) else "there is nothing to solve"


def is_program(method: EmbeddedMethod) -> bool:
    """Return whether a method's attempt is recorded for a kernel; that of a tableau is written from its numbers instead."""
    return tableau_of(method) is None


@dataclass(eq=False)
class KernelRun:
    """One solve by the kernel: its arguments, the memory that the kernel keeps of it, and its report."""

    name: ClassVar[str] = "compiled"

    model: Model
    request: SolveRequest
    keep: int  # steps of each sample, for gradients and states between
    carried: tuple[np.ndarray, np.ndarray] | None = None  # of a solve that goes on: next steps, 0 for a guess, and steps taken
    most: int | None = None  # steps of a sample, if the chain is not all of the solve

    def __post_init__(self) -> None:
        self.chain: Chain = self.request.chain
        self.engine: AdaptiveEngine = self.request.engine
        self.control: StepControl = self.engine.control
        by_code = self.model.method is not None and self.model.method.kernel.read is not None
        if by_code and torch.is_grad_enabled():  # as the method is now, for derivatives later
            self.control = replace(self.control, method=copy.deepcopy(self.control.method))
        if self.carried is None and self.engine.carried is not None:
            self.carried = self.engine.carried, np.zeros(len(self.engine.carried), np.int64)
        self.edges: np.ndarray = self.chain.wanted()
        self.num_segments, self.path = len(self.chain), projected_of(self.chain)
        self.arrays: dict[str, np.ndarray] = {}
        self.failed: Any = CtrnnReport()
        self.row: int = 0

    def forward(self, projected: Tensor, h0: Tensor, *weights: Tensor | None) -> Tensor:
        """(wanted edges, batch, state)."""
        self.projected, self.h0 = (tensor.detach().contiguous() for tensor in (projected, h0))
        self.weights: list[Tensor | None] = [None if t is None else t.detach().contiguous() for t in weights]
        hs = self.h0.new_empty(len(self.edges), *h0.shape)
        self.library, self.given = self.model.kernel.library, self.model.kernel.given(self.weights)
        problem = self._problem(hs)
        self.task: _Task = _Task(self.library, self.library.ctrnn_solve_open(ctypes.byref(problem)))
        self.task.run(self._progress)
        self._count(len(h0))
        return hs

    def backward(self, grad: Tensor) -> list[Tensor | None]:
        """The gradients to the inputs."""
        grad = grad.resolve_neg().contiguous()
        of_projected, of_h0 = torch.zeros_like(self.projected), torch.empty_like(self.h0)
        pointers = map(address, (grad, of_projected, of_h0))
        way = _Task(self.library, self.library.ctrnn_return_open(self.task.pointer, *pointers))
        way.run()
        of_weights = self.model.kernel.gradients(partial(self.library.ctrnn_return_sums, way.pointer), self.weights)
        self.request.stats["nfe_backward"] += self.used * int(self.engine.counts.accepted.max())
        return [of_projected, of_h0, *of_weights]

    def states_by_engine(self, *tensors: Any) -> Tensor:
        """Compute by the engine in torch what `forward` returns."""
        return states_by_engine(self, *tensors)

    def steps(self) -> KeptSteps | None:
        """The steps that every sample took, None where they were more than were kept."""
        counts, width = self.engine.counts.accepted, self.chain.field.state_size
        if not 0 < counts.max() <= self.keep:
            return None
        total = int(counts.sum())
        segment, tau, sample = np.empty(total, np.int64), np.empty(total), np.repeat(np.arange(len(counts)), counts)
        h, first = self.h0.new_empty(total, width), 0
        for row, count in enumerate(counts):
            mine = slice(first, first := first + int(count))
            to = (array[mine].ctypes.data for array in (segment, tau))
            self.library.ctrnn_solve_steps(self.task.pointer, row, *to, h[mine].data_ptr())
        return KeptSteps(sample, segment, tau, np.stack([np.zeros(total, np.int64), np.arange(total)], 1), [h])

    def end(self, hs: Tensor) -> Tensor:
        """The states from which another solve goes on, of one that reached its end; hs: what `forward` gave."""
        return hs[-1]

    @property
    def reached(self) -> int:
        """The last edge that all samples reached."""
        return int(self.failed.segment) if self.failed.cause else self.num_segments

    @property
    def rows_of_steps(self) -> int:
        """How many steps of samples there would be to keep."""
        return int(self.engine.counts.accepted.sum())

    def failure(self) -> Failure | None:
        """Why the solve ended early, as the engine would say it."""
        if not self.failed.cause:
            return None
        said, row = self.failed, self.row
        h, error = self._end_of(row)
        last = Attempt(h, error, None) if said.rejected_last else None
        control = self.engine.control
        too_many = {
            1: f"{control.max_num_steps} steps were not enough",
            3: f"{self.following[1][row]} steps on the whole way were not enough",
        }.get(said.cause)
        segment = self.chain.segment(int(said.segment), torch.tensor([row], device=self.h0.device))
        return diagnosis(control, segment, h, last, 0, said.tau, said.step, too_many)

    def _end_of(self, row: int) -> tuple[Tensor, Tensor]:
        """Where a sample failed: its state, and the error of its last try."""
        h, error = (torch.zeros(1, self.chain.field.state_size, dtype=self.h0.dtype, device="cpu") for _ in range(2))
        self.library.ctrnn_solve_failure(self.task.pointer, row, address(h), address(error))
        return h, error

    def _reports(self, batch: int) -> ctypes.Array[CtrnnReport]:
        reports = (CtrnnReport * batch)()
        self.library.ctrnn_solve_reports(self.task.pointer, reports)
        return reports

    def _problem(self, hs: Tensor) -> CtrnnProblem:
        control = self.engine.control
        method = control.method
        self._segment_arrays()
        written = self.model.method
        assert written is not None
        atol = control.atol.double().cpu().numpy() if isinstance(control.atol, Tensor) else control.atol
        self.arrays["atol"] = np.full(self.h0.shape[-1], atol)
        if self.carried is not None:
            self.arrays |= dict(zip(("steps", "taken"), self.carried, strict=True))
        arrays = {name: array.ctypes.data for name, array in self.arrays.items()}
        return CtrnnProblem(
            batch=len(self.h0),
            segments=self.num_segments,
            own=int(self.arrays["lengths"].ndim > 1),
            terms=self.terms,
            chebyshev=int(isinstance(self.path, PolynomialPath)),
            speed_terms=0 if self.chain.speeds is None else self.chain.speeds.shape[-1],
            threads=torch.get_num_threads(),
            keep=self.keep,
            model=ctypes.addressof(self.given[0]),
            projected=self.projected.data_ptr(),
            h0=self.h0.data_ptr(),
            **self._program_numbers(written, method),
            order=method.error_order,
            rtol=control.rtol,
            min_step=control.min_step,
            max_step=control.max_step,
            first_step=control.given_first_step or 0.0,
            max_num_steps=min(control.max_num_steps, ALL_STEPS),
            most_steps=min(self.most or control.most_steps(self.num_segments), ALL_STEPS),
            hs=hs.data_ptr(),
            **arrays,
        )

    def _segment_arrays(self) -> None:
        """How long each segment is, and which piece of the input is read there."""
        chain, path = self.chain, self.path
        edges, knots, pieces, batch = chain.edges.detach(), path.knots.detach(), chain.path.pieces, path.batch
        own = chain.own or pieces.dim() > 1
        if own:
            edges = edges if edges.dim() > 1 else edges[:, None].expand(-1, batch)
            pieces = pieces if pieces.dim() > 1 else pieces[:, None].expand(-1, batch)
            knots = knots if knots.dim() > 1 else knots[:, None].expand(-1, batch)
        self.terms, apart = rows_of_pieces(path)
        self.arrays = {"lengths": _array(edges.diff(dim=0), np.float64), "pieces": _array(pieces * apart, np.int64)}
        if chain.speeds is not None:
            self.arrays["speeds"] = np.ascontiguousarray(chain.speeds)
        if self.terms > 1:
            starts, ends = (knots.gather(0, pieces + i) if own else knots[pieces + i] for i in (0, 1))
            # A sequence that is over stands in a piece of no width.
            width = torch.where(ends > starts, ends - starts, 1.0)
            self.arrays["share"] = _array((edges[:-1] - starts) / width, np.float64)
            self.arrays["share_rate"] = _array(1 / width, np.float64)
        places = np.full(self.num_segments + 1, -1, dtype=np.int64)
        places[self.edges] = np.arange(len(self.edges))
        self.arrays["places"] = places

    def _program_numbers(self, written: WrittenMethod, method: EmbeddedMethod) -> dict[str, Any]:
        """The program of a method, and what its derivatives cost."""
        self.of_method: Any = written.given
        derivatives = 0
        if method.implicit:
            cost = method.attempt_cost(self.chain.segment(0), self.chain.field.state_size)
            derivatives = cost - (method.evaluations - method.reads_start)
        self.used: int = written.evaluations_back + derivatives + written.pairs
        return {"method": ctypes.addressof(self.of_method[0]), "jacobian_cost": derivatives}

    def _progress(self) -> None:
        self.request.show(math.floor(self.library.ctrnn_solve_progress(self.task.pointer) * self.num_segments))

    def _count(self, batch: int) -> None:
        """Adds every sample's steps to the statistics; evaluations of the one that took most, and of all."""
        counts = self.engine.counts
        reports = self._reports(batch)
        said = np.frombuffer(memoryview(reports), REPORT)
        counts.accepted[:], counts.rejected[:] = said["accepted"], said["rejected"]
        taken = counts.attempted + (0 if self.carried is None else self.carried[1])
        self.following = said["step"].copy(), taken
        counts.evaluations += int(said["evaluations"].max())
        counts.work += int(said["evaluations"].sum())
        stepped = np.flatnonzero(said["accepted"])
        if len(stepped):
            row = int(stepped[said["smallest"][stepped].argmin()])
            at = reports[row]
            counts.smaller(at.smallest, self.chain.segment(at.smallest_segment).when(at.smallest_tau, row))
        forced = np.flatnonzero(said["forced"])
        if len(forced):
            row = int(forced[said["forced_segment"][forced].argmin()])
            at = reports[row]
            counts.forced = int(said["forced"].sum())
            counts.forced_at = self.chain.segment(at.forced_segment).when(at.forced_tau, row), at.forced_error
        failed = np.flatnonzero(said["cause"])
        if len(failed):
            self.row = int(failed[said["segment"][failed].argmin()])
            self.failed = reports[self.row]


class _Task:
    """A kernel's task, freed with the last reference to this object."""

    pointer: int

    def __init__(self, library: ctypes.CDLL, pointer: int | None) -> None:
        if not pointer:
            raise _no_memory()
        self.library, self.pointer = library, pointer
        weakref.finalize(self, library.ctrnn_close, pointer)

    def run(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        while state := self.library.ctrnn_run(self.pointer, SLICE):
            if state == 2:
                raise _no_memory()
            meanwhile()


class KernelSolve(torch.autograd.Function):
    """A run of the kernel and its inputs -> the states at the wanted edges."""

    @staticmethod
    def forward(ctx: Any, run: KernelRun, *tensors: Any) -> Tensor:
        ctx.run = run
        ctx.save_for_backward(*tensors)
        return run.forward(*tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        needed, tensors = ctx.needs_input_grad[1:], ctx.saved_tensors
        if reference.needs_graph(grad):
            gradients = reference.gradients(ctx.run.states_by_engine, tensors, needed, grad)
        else:
            gradients = ctx.run.backward(grad)
        return None, *(gradient if need else None for gradient, need in zip(gradients, needed, strict=True))


def states_by_engine(run: KernelRun, projected: Tensor, h0: Tensor, *weights: object) -> Tensor:
    """Compute the states of a run by the engine in torch, which autograd differentiates."""
    path, chain = run.path, copy.copy(run.chain)
    chain.field = run.model.field(*weights)
    chain.path = SegmentInput(path.unchecked(projected.to(h0.dtype), path.knots), run.chain.path.pieces)
    anew = AdaptiveEngine(run.control)
    kept = {0: h0}
    anew.solve(chain, h0, anew.start(chain, len(h0)), kept.__setitem__)
    return torch.stack([kept[edge] for edge in run.edges])


def _array(tensor: Tensor, dtype: type) -> np.ndarray:
    return np.array(tensor.numpy(), dtype=dtype, order="C")


def _no_memory() -> MemoryError:
    return MemoryError(
        "There is no memory for the steps of this solve; set `gradient=discretize.Checkpointed(bytes)`, or take shorter pieces "
        "or smaller batches."
    )
