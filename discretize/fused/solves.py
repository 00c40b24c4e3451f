r"""Exact solves of named fields along held and straight inputs by a compiled kernel: kernels/solves.cpp.

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
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ctrnn import Driven, HeldPath, LinearPath
from ctrnn.inputs.segment_input import SegmentInput
from discretize.errors import Failure
from discretize.fused import reference
from discretize.fused.build import Unavailable
from discretize.fused.eligibility import device_reason, setting_reason, tensor_reason, tracing_reason, warn_once
from discretize.fused.kernel_spec import CellInputs, Kind, kind_of, stacked_weights
from discretize.fused.libraries import Problem, Report, address, solves_library
from discretize.gradients.checkpointing import Blocks
from discretize.solvers.adaptive import ADAPTIVE_METHODS, AdaptiveEngine
from discretize.solvers.continuation import MOST_BYTES, KeptSteps
from discretize.solvers.control import StepControl
from discretize.solvers.diagnosis import diagnosis
from discretize.solvers.embedded import Attempt, EmbeddedRungeKutta
from discretize.solvers.segments import Chain, chain_of

__all__ = ["Solved", "solve"]

METHODS = ("dopri5", "tsit5", "dopri8")
ALL_STEPS = 2**62
SLICE = 0.2  # seconds in the kernel, after which Ctrl-C is heeded and progress is shown


@dataclass(frozen=True)
class Solved:
    """The states at the edges that were wanted, as far as all samples got, and why not further; hs (edges, batch, state).
    `steps`: the steps that were taken, None if they were not kept."""

    edges: list[int]
    hs: Tensor
    failure: Failure | None
    steps: Callable[[], KeptSteps | None]


def solve(
    chain: Chain, h0: Tensor, engine: AdaptiveEngine, fused: bool, show: Callable[[int], None], stats: dict[str, Any]
) -> Solved | str:
    r"""The solve by a kernel, counted in the engine's counts; or why there is none.

    Args:    show: called now and then with the number of segments done; stats: where evaluations made again for gradients
             are counted.
    Raises:  MemoryError.
    """
    kind = _eligible_kind(chain, h0, engine, fused)
    if isinstance(kind, str):
        return kind
    try:
        library = solves_library(kind, h0.dtype)
    except Unavailable as error:
        return warn_once(str(error))
    if why := reference.disagreement(library, kind, h0.dtype, partial(_by_kernel, kind), partial(_by_engine, kind)):
        return warn_once(why)
    tensors = SolveInputs(_projected(chain).xs, h0, *stacked_weights(chain.field)[2:])
    wanted = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
    keep = ALL_STEPS if wanted else MOST_BYTES // (h0.numel() * h0.element_size())
    run = _KernelRun(kind, chain, engine, show, stats, keep)
    hs = _Solve.apply(run, *tensors)
    failure = run.failure()
    edges = run.edges if failure is None else [edge for edge in run.edges if edge <= run.failed.segment]
    return Solved(edges, hs if failure is None else hs[: len(edges)], failure, run.steps)


def _eligible_kind(chain: Chain, h0: Tensor, engine: AdaptiveEngine, fused: bool) -> Kind | str:
    why = setting_reason(fused) or tracing_reason() or _no_kernel(chain, engine)
    if why:
        return why
    kind = kind_of(chain.field)
    if isinstance(kind, str):
        return kind
    return (
        device_reason(h0) or tensor_reason([_projected(chain).xs, h0, *chain.field.parameters(), *chain.field.buffers()]) or kind
    )


def _no_kernel(chain: Chain, engine: AdaptiveEngine) -> str | None:
    path = chain.driven.path
    if engine.control.method.name not in METHODS:
        return f"{engine.control.method.name} has no kernel; {', '.join(METHODS)} have"
    if isinstance(engine.control.atol, Tensor):
        return "an `atol` for each unit has no kernel"
    if chain.speed is not None:
        return "a clock `speed` is evaluated in Python"
    if type(path) not in (HeldPath, LinearPath) or type(chain.path.path) is not type(path):
        return f"{type(path).__name__} has no kernel; HeldPath and LinearPath have"
    if chain.differentiable or chain.requested is not None:
        return "gradients to times are wanted"
    return None if len(chain) else "there is nothing to solve"


def _projected(chain: Chain) -> HeldPath | LinearPath:
    """The path through the projected samples (time, batch, columns)."""
    assert isinstance(chain.path.path, HeldPath | LinearPath)
    return chain.path.path


class SolveInputs(NamedTuple):
    """The tensors of a solve; gradients to them come in the same order."""

    projected: Tensor
    h0: Tensor
    weight_h: Tensor
    bias_h: Tensor | None
    rates: Tensor | None


@dataclass(eq=False)
class _KernelRun:
    """One solve by the kernel: its arguments, the memory that the kernel keeps of it, and its report."""

    kind: Kind
    chain: Chain
    engine: AdaptiveEngine
    show: Callable[[int], None]
    stats: dict[str, Any]
    keep: int  # steps of each sample, for gradients and states between

    def __post_init__(self) -> None:
        self.edges = sorted(self.chain.wanted())
        self.arrays: dict[str, np.ndarray] = {}
        self.failed, self.row = Report(), 0

    def forward(self, tensors: SolveInputs) -> Tensor:
        """(wanted edges, batch, state)."""
        self.inputs = SolveInputs(*(None if t is None else t.detach().contiguous() for t in tensors))  # type: ignore[arg-type]
        h0 = self.inputs.h0
        hs = h0.new_empty(len(self.edges), *h0.shape)
        self.library = solves_library(self.kind, h0.dtype)
        problem = self._problem(self.inputs, hs)
        self.task = _Task(self.library, self.library.ctrnn_solve_open(ctypes.byref(problem)))
        self.task.run(self._progress)
        self._count(len(h0))
        return hs

    def backward(self, grad: Tensor) -> list[Tensor | None]:
        """The gradients to the inputs."""
        projected, h0, *weights = self.inputs
        grad = grad.contiguous()
        of_projected, of_h0 = torch.zeros_like(projected), torch.empty_like(h0)
        of_weights = [None if t is None else torch.empty_like(t) for t in weights]
        pointers = map(address, (grad, of_projected, of_h0))
        way = _Task(self.library, self.library.ctrnn_return_open(self.task.pointer, *pointers))
        way.run()
        self.library.ctrnn_return_sums(way.pointer, *map(address, of_weights))
        self.stats["nfe_backward"] += self.used * int(self.engine.counts.accepted.max())
        return [of_projected, of_h0, *of_weights]

    def steps(self) -> KeptSteps | None:
        """The steps that every sample took, None where they were more than were kept."""
        counts, width = self.engine.counts.accepted, self.chain.field.state_size
        if not 0 < counts.max() <= self.keep:
            return None
        total = int(counts.sum())
        segment, tau, sample = np.empty(total, np.int64), np.empty(total), np.repeat(np.arange(len(counts)), counts)
        h, first = self.inputs.h0.new_empty(total, width), 0
        for row, count in enumerate(counts):
            mine = slice(first, first := first + int(count))
            to = (array[mine].ctypes.data for array in (segment, tau))
            self.library.ctrnn_solve_steps(self.task.pointer, row, *to, h[mine].data_ptr())
        return KeptSteps(sample, segment, tau, np.stack([np.zeros(total, np.int64), np.arange(total)], 1), [h])

    def failure(self) -> Failure | None:
        """Why the solve ended early, as the engine would say it."""
        if not self.failed.cause:
            return None
        said, row = self.failed, self.row
        h, error = (torch.zeros(1, self.chain.field.state_size, dtype=self.inputs.h0.dtype) for _ in range(2))
        self.library.ctrnn_solve_failure(self.task.pointer, row, address(h), address(error))
        last = Attempt(h, error, None) if said.rejected_last else None
        control = self.engine.control
        too_many = {
            1: f"{control.max_num_steps} steps were not enough",
            3: f"{said.accepted + said.rejected} steps on the whole way were not enough",
        }.get(said.cause)
        segment = self.chain.segment(int(said.segment), torch.tensor([row]))
        return diagnosis(control, segment, h, last, 0, said.tau, said.step, too_many)

    def _problem(self, inputs: SolveInputs, hs: Tensor) -> Problem:
        control = self.engine.control
        method = control.method
        assert isinstance(method, EmbeddedRungeKutta)
        self._segment_arrays()
        self._tableau_arrays(method)
        arrays = {name: array.ctypes.data for name, array in self.arrays.items()}
        return Problem(
            batch=len(inputs.h0),
            hidden=self.chain.field.hidden_size,
            segments=len(self.chain),
            own=int(self.arrays["lengths"].ndim > 1),
            threads=torch.get_num_threads(),
            keep=self.keep,
            projected=address(inputs.projected),
            h0=address(inputs.h0),
            w=address(inputs.weight_h),
            bias_h=address(inputs.bias_h),
            rates=address(inputs.rates),
            exponent=self.kind.exponent,
            stages=len(method.c),
            order=method.order,
            rtol=control.rtol,
            atol=float(control.atol),
            min_step=control.min_step,
            max_step=control.max_step,
            first_step=control.given_first_step or 0.0,
            max_num_steps=min(control.max_num_steps, ALL_STEPS),
            most_steps=min(control.most_steps(len(self.chain)), ALL_STEPS),
            hs=address(hs),
            **arrays,
        )

    def _segment_arrays(self) -> None:
        """How long each segment is, and which piece of the input is read there."""
        chain, path = self.chain, _projected(self.chain)
        edges, knots, pieces, batch = chain.edges.detach(), path.knots.detach(), chain.path.pieces, path.batch
        own = chain.own or pieces.dim() > 1
        if own:
            edges = edges if edges.dim() > 1 else edges[:, None].expand(-1, batch)
            pieces = pieces if pieces.dim() > 1 else pieces[:, None].expand(-1, batch)
            knots = knots if knots.dim() > 1 else knots[:, None].expand(-1, batch)
        self.arrays = {"lengths": _array(edges.diff(dim=0), np.float64), "pieces": _array(pieces, np.int64)}
        if isinstance(path, LinearPath):
            starts, ends = (knots.gather(0, pieces + i) if own else knots[pieces + i] for i in (0, 1))
            # A sequence that is over stands in a piece of no width.
            width = torch.where(ends > starts, ends - starts, 1.0)
            self.arrays["share"] = _array((edges[:-1] - starts) / width, np.float64)
            self.arrays["share_rate"] = _array(1 / width, np.float64)
        places = np.full(len(chain) + 1, -1, dtype=np.int64)
        places[self.edges] = np.arange(len(self.edges))
        self.arrays["places"] = places

    def _tableau_arrays(self, method: EmbeddedRungeKutta) -> None:
        """The Butcher tableau, padded with zeros."""
        stages = len(method.c)
        a = np.zeros((stages, stages))
        for i, row in enumerate(method.a):
            a[i, : len(row)] = row
        weights = np.zeros((2, stages + 1))
        for to, values in zip(weights, (method.b or (), method.e), strict=True):
            to[: len(values)] = values
        self.used = stages + (method.b is not None)  # slopes that the end of a step depends on
        self.arrays |= {"c": np.array(method.c, dtype=np.float64), "a": a, "e": weights[1]}
        if method.b is not None:
            self.arrays["b"] = weights[0]

    def _progress(self) -> None:
        self.show(math.floor(self.library.ctrnn_solve_progress(self.task.pointer) * len(self.chain)))

    def _count(self, batch: int) -> None:
        """Adds every sample's steps to the statistics; evaluations of the one that took most, and of all."""
        counts = self.engine.counts
        reports = (Report * batch)()
        for row, said in enumerate(reports):
            self.library.ctrnn_solve_report(self.task.pointer, row, ctypes.byref(said))
        counts.accepted[:] = [said.accepted for said in reports]
        counts.rejected[:] = [said.rejected for said in reports]
        counts.evaluations += max(said.evaluations for said in reports)
        counts.work += sum(said.evaluations for said in reports)
        stepped = [row for row in range(batch) if reports[row].accepted]
        if stepped:
            row = min(stepped, key=lambda row: reports[row].smallest)
            said = reports[row]
            counts.smaller(said.smallest, self.chain.segment(said.smallest_segment).when(said.smallest_tau, row))
        forced = [row for row in range(batch) if reports[row].forced]
        if forced:
            row = min(forced, key=lambda row: reports[row].forced_segment)
            said = reports[row]
            counts.forced = sum(said.forced for said in reports)
            counts.forced_at = self.chain.segment(said.forced_segment).when(said.forced_tau, row), said.forced_error
        failed = [row for row in range(batch) if reports[row].cause]
        if failed:
            self.row = min(failed, key=lambda row: reports[row].segment)
            self.failed = reports[self.row]


class _Task:
    """Work of the kernel's, freed with the last reference to this."""

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


class _Solve(torch.autograd.Function):
    """A run of the kernel and its inputs -> the states at the wanted edges."""

    @staticmethod
    def forward(ctx: Any, run: _KernelRun, *tensors: Any) -> Tensor:
        ctx.run = run
        ctx.save_for_backward(*tensors)
        return run.forward(SolveInputs(*tensors))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        needed, tensors = ctx.needs_input_grad[1:], ctx.saved_tensors
        if reference.needs_graph(grad):
            found = reference.gradients(partial(_states_by_engine, ctx.run), tensors, needed, grad)
        else:
            found = ctx.run.backward(grad)
        return None, *(gradient if need else None for gradient, need in zip(found, needed, strict=True))


def _example_run(kind: Kind, inputs: CellInputs) -> tuple[_KernelRun, SolveInputs]:
    """A short solve, to be compared."""
    tensors = SolveInputs(inputs.projected(), *inputs[1:2], *inputs[5:])
    field = reference.StackedField(kind, *tensors[2:])
    # A few steps, for the engine in torch takes 1 ms for each.
    driven = Driven(field, HeldPath.unchecked(tensors.projected, torch.arange(len(inputs.xs) + 1, dtype=torch.float64) / 4))
    control = StepControl(ADAPTIVE_METHODS["dopri5"], 1e-2, 1e-2, max_num_steps=100)
    chain = chain_of(driven, driven.knots)
    return _KernelRun(kind, chain, AdaptiveEngine(control), lambda done: None, {"nfe_backward": 0}, keep=ALL_STEPS), tensors


def _by_kernel(kind: Kind, inputs: CellInputs) -> list[Tensor]:
    """States and gradients of their sum, nan for a sample that could not be solved."""
    run, tensors = _example_run(kind, inputs)
    run.engine.start(run.chain, len(tensors.h0))
    hs = run.forward(tensors)
    if run.failed.cause:
        hs[:, run.row] = math.nan
        return [hs]
    return [hs, *(gradient for gradient in run.backward(torch.ones_like(hs)) if gradient is not None)]


def _by_engine(kind: Kind, inputs: CellInputs) -> list[Tensor]:
    run, tensors = _example_run(kind, inputs)
    hs = _states_by_engine(run, *tensors)
    return [hs, *torch.autograd.grad(hs.sum(), [tensor for tensor in tensors if tensor is not None])]


def _states_by_engine(run: _KernelRun, projected: Tensor, h0: Tensor, *weights: Any) -> Tensor:
    """The same states by the engine that is written in torch, which autograd differentiates."""
    path, chain = _projected(run.chain), copy.copy(run.chain)
    chain.field = reference.StackedField(run.kind, *weights)
    chain.path = SegmentInput(path.unchecked(projected, path.knots), run.chain.path.pieces)
    anew = AdaptiveEngine(run.engine.control)
    kept = {0: h0}
    Blocks(anew, chain, None, {}).run(h0, anew.start(chain, len(h0)), kept.__setitem__)
    return torch.stack([kept[edge] for edge in run.edges])


def _array(tensor: Tensor, dtype: type) -> np.ndarray:
    return np.array(tensor.numpy(), dtype=dtype, order="C")


def _no_memory() -> MemoryError:
    return MemoryError(
        "There is no memory for the steps of this solve; set `gradient=discretize.Checkpointed(bytes)`, or take shorter pieces "
        "or smaller batches."
    )
