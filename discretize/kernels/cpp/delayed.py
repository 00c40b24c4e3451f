r"""Solve blocks of an equation with delays by a compiled kernel: source/solves.cpp, whose field reads the past as polynomials.

The kernel makes polynomials of its steps by slopes at their stages; where a pair has no numbers for that, it computes each step
to its middle too. Later blocks of one call read these polynomials, and the way back adds to their cotangents. A call returns
states at the edges and the nodes of the polynomials, both with gradients, from which later calls read.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from ctrnn.inputs.segment_input import SegmentInput
from discretize.errors import Failure
from discretize.kernels.cpp.programs import CtrnnDense, CtrnnPast, CtrnnProblem
from discretize.kernels.cpp.solving import ALL_STEPS, KernelRun, KernelSolve, Model
from discretize.kernels.solved import Solved, SolveRequest
from discretize.solvers.adaptive import AdaptiveEngine
from discretize.solvers.continuation import BY_SLOPES, INSIDE, QUINTIC, Continuation, Pieces
from discretize.solvers.kept import MOST_BYTES, KeptSteps, StepLog
from discretize.solvers.past import PastPath
from discretize.solvers.segments import Chain

if TYPE_CHECKING:
    from discretize.solvers.tableaus import EmbeddedMethod, EmbeddedRungeKutta

__all__ = ["solved_with_past"]

POWERS = np.array(QUINTIC, dtype=np.float64)
# Nodes but the first, over dt, by the slopes at the start, at `INSIDE` and at the end, and the mean.
MIX = np.stack([np.eye(5)[0], *BY_SLOPES, np.eye(5)[4], np.eye(5)[3]])


def solved_with_past(model: Model, request: SolveRequest, tensors: Sequence[Any], whole: Chain) -> Solved | str:
    """Solve a block, or several that follow one another, by that model's kernel.

    Args:    tensors: the projected input, h0, the nodes of the past, the delays, and the weights that the model takes;
             whole: the chain as torch reads it.
    Returns: why not, where there are several blocks and the kernel makes no polynomials of its steps.
    """
    h0, several = tensors[1], request.chain.past.block[-1] > 0
    if several and not (_by_slopes(model, request.engine.control.method) or _by_halves(model, request.engine.control.method)):
        return "the kernel makes no polynomials of its steps, which later blocks read"
    wanted = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
    keep = ALL_STEPS if wanted or several else MOST_BYTES // (h0.numel() * h0.element_size())
    whole = copy.copy(whole)
    whole.own_times = True  # a kernel's samples step on their own
    run = _BlockRun(model, request, keep)
    assert isinstance(whole.driven.path, PastPath)
    run.whole, run.several, run.begins = whole, several, whole.driven.path.blocks
    states = KernelSolve.apply(run, *tensors) if wanted else run.forward(*tensors)
    hs, of_steps = run.parted(states)
    edges = run.edges[run.edges <= run.reached]
    kept = None if run.taken is None else run.of_graph(run.taken, of_steps)
    if several and kept is not None:
        passed = run.of_graph(kept, of_steps.detach())
        whole.driven.path.following = Continuation(run.control.method, whole, passed).pieces
    hs = hs if run.failed.cause == 0 else hs[: len(edges)]
    return Solved(edges, hs, run.failure(), whole, lambda: kept, run.name, differentiable=True)


class _BlockRun(KernelRun):
    """Runs blocks by the kernel.

    `whole`: their chain as torch reads it; `several`: whether there are several blocks; `begins`: the time at which each begins;
    `taken`: the steps, without gradients.
    """

    whole: Chain
    several: bool
    begins: Sequence[float]
    taken: KeptSteps | None

    def forward(self, projected: Tensor, h0: Tensor, *others: Any) -> Tensor:
        """Return the states at the wanted edges, and behind them those before the steps of each sample.

        Where steps are polynomials, their six nodes take the place of the state before: (edges batch + 6 steps, state), else
        (edges batch + steps, state).
        """
        nodes, delays, *weights = others
        self.nodes, self.delays = (tensor.detach().contiguous() for tensor in (nodes, delays))
        hs = super().forward(projected, h0, *weights)
        self.taken = super().steps()
        if self.taken is None:
            return hs.flatten(0, 1)
        return torch.cat([hs.flatten(0, 1), self._nodes() if self.polynomials else self.taken.states[0]])

    def _nodes(self) -> Tensor:
        counts = self.engine.counts.accepted
        nodes, first = self.h0.new_empty(int(counts.sum()), len(QUINTIC), self.h0.shape[1]), 0
        for row, count in enumerate(counts.tolist()):
            self.library.ctrnn_solve_nodes(self.task.pointer, row, nodes[first : first + count].data_ptr())
            first += count
        return nodes.flatten(0, 1)

    def parted(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Split what is laid out as the result of `forward` into states at edges, (edges, batch, state), and rows of steps."""
        batch = len(self.h0)
        at_edges, of_steps = states.split([len(self.edges) * batch, len(states) - len(self.edges) * batch])
        return at_edges.unflatten(0, (len(self.edges), batch)), of_steps

    def of_graph(self, taken: KeptSteps, of_steps: Tensor) -> KeptSteps:
        """Return the steps with their states, or nodes, as `forward` gave them."""
        nodes = of_steps.unflatten(0, (-1, len(QUINTIC))) if self.polynomials else None
        return replace(taken, states=[of_steps if nodes is None else nodes[:, 0]], nodes=nodes)

    def backward(self, grad: Tensor) -> list[Tensor | None]:
        of_hs, of_steps = (part.resolve_neg().contiguous() for part in self.parted(grad))
        of_steps = of_steps.clone() if self.several else of_steps  # later blocks add to them
        of_nodes, of_delays = torch.zeros_like(self.nodes), self.delays.new_zeros(len(self.delays), len(self.h0))
        self.past.of_steps, self.past.of_nodes, self.past.of_delays = (x.data_ptr() for x in (of_steps, of_nodes, of_delays))
        of_projected, of_h0, *of_weights = super().backward(of_hs)
        return [of_projected, of_h0, of_nodes, of_delays.sum(1), *of_weights]

    def failure(self) -> Failure | None:
        self.chain = self.whole
        return super().failure()

    def _problem(self, hs: Tensor) -> CtrnnProblem:
        problem, seen, edges = super()._problem(hs), self.request.chain.past, self.request.chain.edges.detach().numpy()
        assert seen is not None
        own = self.arrays["lengths"].ndim > 1
        edges = np.broadcast_to(
            edges[:, None] if own and edges.ndim == 1 else edges, (len(edges), *self.arrays["lengths"].shape[1:])
        )
        self.of_past = {
            "delays": self.delays.numpy(),
            "begins": np.ascontiguousarray(seen.pieces.begin.mT.numpy()),
            "lengths": np.ascontiguousarray(seen.pieces.length.mT.numpy()),
            "nodes": self.nodes.numpy(),
            "powers": POWERS,
            "starts": np.ascontiguousarray(edges[:-1]),
            "ends": np.ascontiguousarray(edges[1:]),
            "low": self._by_segment(seen.low, own),
            "high": self._by_segment(seen.high, own),
        }
        if self.several:
            self.of_past["blocks"] = np.diff(seen.block, prepend=0)
        arrays, halves = _addresses(self.of_past), _by_halves(self.model, self.control.method)
        self.dense = self._dense()
        if self.dense is not None:
            arrays["dense"] = ctypes.addressof(self.dense)
        self.polynomials: bool = halves or self.dense is not None
        self.used = (1 + halves) * self.used + 3 * self.polynomials  # half a step, and slopes within it or at its ends
        self.past = CtrnnPast(lags=len(self.delays), pieces=len(seen.pieces.begin), halves=int(halves), **arrays)
        problem.past = ctypes.addressof(self.past)
        return problem

    def _dense(self) -> CtrnnDense | None:
        """Return the numbers by which slopes of a pair make polynomials of its steps; None of methods without."""
        if not _by_slopes(self.model, self.control.method):
            return None
        method = cast("EmbeddedRungeKutta", self.control.method)
        self.of_dense = {
            "nodes": np.array([0, *method.nodes], dtype=np.float64),
            "a": method._matrix(),
            "b": np.array([*method.weights, 0], dtype=np.float64),
            "inside": np.array(INSIDE),
            "between": np.stack([method._between(share) for share in INSIDE]),
            "mix": MIX,
        }
        return CtrnnDense(stages=len(method.a) + 1, **_addresses(self.of_dense))

    def _by_segment(self, times: np.ndarray, own: bool) -> np.ndarray:
        shape = (len(times), *self.arrays["lengths"].shape)
        return np.ascontiguousarray(np.broadcast_to(times[..., None] if own and times.ndim == 2 else times, shape))

    def _count(self, batch: int) -> None:
        super()._count(batch)
        self.of_past["first"] = np.cumsum([0, *self.engine.counts.accepted[:-1]])
        self.past.first = self.of_past["first"].ctypes.data

    def states_by_engine(self, projected: Tensor, h0: Tensor, *others: Any) -> Tensor:
        nodes, delays, *weights = others
        past, x, seen, chain = self.whole.driven.path, self.path, self.request.chain.past, copy.copy(self.whole)
        assert isinstance(past, PastPath)
        chain.field = self.model.field(*weights)
        read = past.by(x.unchecked(projected, x.knots), Pieces(seen.pieces.begin, seen.pieces.length, nodes), delays)
        kept, sample, of_steps = {0: h0}, list[np.ndarray](), list[Tensor]()
        starts = np.flatnonzero(np.diff(seen.block, prepend=-1)).tolist()
        for first, end in pairwise([*starts, len(chain)]):
            block = chain.part(first, end)
            read.blocks = [self.begins[seen.block[first]]]
            block.path = SegmentInput(read, block.path.pieces)
            states, steps = self._steps_of(block, kept[first])
            kept |= {first + edge: h for edge, h in states.items()}
            of_steps.append(steps.polynomials().flatten(1) if self.polynomials else steps.steps.before(steps.order))
            sample.append(steps.steps.sample[steps.order])
            if self.several:
                read = read.after(steps.pieces())
        order = torch.from_numpy(np.concatenate(sample).argsort(kind="stable"))
        return torch.cat([*(kept[edge] for edge in self.edges), torch.cat(of_steps)[order].reshape(-1, h0.shape[1])])

    def _steps_of(self, block: Chain, h: Tensor) -> tuple[dict[int, Tensor], Continuation]:
        """Return the states at the edges of a block, and the steps between them."""
        engine, states = AdaptiveEngine(self.control), {0: h}
        engine.log = StepLog()
        engine.solve(block, h, engine.start(block, len(h)), states.__setitem__)
        steps = engine.log.steps()
        assert steps is not None
        return states, Continuation(self.control.method, block, steps)


def _by_halves(model: Model, method: EmbeddedMethod) -> bool:
    """Return whether the kernel makes polynomials of steps by half a step more each."""
    return model.method is not None and not method.dense


def _by_slopes(model: Model, method: EmbeddedMethod) -> bool:
    """Return whether the kernel makes polynomials of the steps of a pair by the slopes at its stages."""
    if not method.dense or (written := model.method) is None:
        return False
    numbers, calls = written.kernel.numbers, len(cast("EmbeddedRungeKutta", method).a)
    return bool(numbers.pulled == len(numbers.back) == calls)  # through a stage that nothing reads there is no way back


def _addresses(arrays: dict[str, np.ndarray]) -> dict[str, int]:
    return {name: array.ctypes.data for name, array in arrays.items()}
