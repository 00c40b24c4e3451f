r"""Bound the memory of a compiled solve: each block of segments is solved again in the backward pass.

    forwards    a block keeps nothing but the state, the next step and the count of steps of each sample at its end
    backwards   from there it takes the very same steps again, keeps them, and goes back through them

So states are those of the solve in one piece to the bit, and gradients up to the order in which blocks are added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ctrnn.inputs.segment_input import SegmentInput
from discretize.errors import Failure
from discretize.kernels.cpp.solving import KernelRun, Model, solved
from discretize.kernels.pieces import projected_of, rows_of_pieces
from discretize.kernels.solved import Solved, SolveRequest
from discretize.solvers.adaptive import AdaptiveEngine
from discretize.solvers.detached import ParameterSnapshot, check_same_states, once_only, refuse_captured

__all__ = ["solved_within"]

GUESS = 4  # steps a segment, for the first block
BYTES_OF_A_STEP = 24  # beside its state
ROOM = 2  # times what is kept: room grows by doubling


class _TooLong(Exception):  # noqa: N818 - an answer
    """Raised where the steps of one segment alone are more than may be kept."""


@dataclass
class _SegmentBlock:
    """Segments from `first` on to `end`, and what their solve began with."""

    first: int
    end: int
    h0: Tensor
    carried: tuple[np.ndarray, np.ndarray]
    most: int = 0  # steps of a sample


@dataclass(eq=False)
class _BlockedRun:
    """A solve in blocks: what was given, the blocks, and why it failed."""

    model: Model
    request: SolveRequest
    memory: float
    blocks: list[_SegmentBlock] = field(default_factory=list)
    failure: Failure | None = None
    reached: int = 0  # the last edge that all samples reached
    last: Tensor | None = None  # the state at the end

    def __post_init__(self) -> None:
        self.chain, self.engine = self.request.chain, self.request.engine
        self.edges: np.ndarray = self.chain.wanted()

    def forward(self, projected: Tensor, h0: Tensor, *weights: Tensor | None) -> Tensor:
        """(wanted edges, batch, state); those that were not reached are 0."""
        hs = h0.new_zeros(len(self.edges), *h0.shape)
        if self.edges[0] == 0:
            hs[0] = h0.detach()
        batch, h = len(h0), h0.detach()
        carried, a_step = (np.zeros(batch), np.zeros(batch, np.int64)), self._bytes_of_a_step(h0)
        segments = max(1, int(self.memory / (a_step * GUESS * batch)))
        while self.reached < len(self.chain) and self.failure is None:
            block = _SegmentBlock(self.reached, min(self.reached + segments, len(self.chain)), h, carried)
            run = self._run(block, keep=0)
            states = run.forward(self._read(projected, block), h, *weights)
            taken = run.rows_of_steps
            if taken * a_step > self.memory and not run.failed.cause:
                if block.end - block.first == 1:
                    raise _TooLong
                segments = max(1, (block.end - block.first) // 2)
                continue
            self._take(block, run, states, hs)
            h, carried = run.end(states), run.following
            segments = max(1, int(0.8 * self.memory * (block.end - block.first) / (a_step * max(1, taken))))
        self.last = h
        return hs

    def backward(self, tensors: Sequence[Any], grad: Tensor) -> list[Tensor | None]:
        """The gradients to the inputs."""
        projected, h0, *weights = tensors
        of_projected, of_h = torch.zeros_like(projected), torch.zeros_like(h0)
        totals: list[Tensor | None] = [None] * len(weights)
        last = self.last
        for block in reversed(self.blocks):
            run, rows = self._run(block, keep=block.most), self._rows(block)
            assert last is not None
            check_same_states(run.end(run.forward(projected[rows], block.h0, *weights)), last, "gradient=Checkpointed")
            last = block.h0
            wanted = grad[self._wanted(block)]
            of_hs = of_h.new_zeros(len(self._ends(block)), *of_h.shape)
            of_hs[: len(wanted)] = wanted
            of_hs[-1] += of_h
            of_read, of_start, *gradients = run.backward(of_hs)
            assert of_read is not None
            assert of_start is not None
            of_projected[rows] += of_read
            of_h = of_start
            totals = [_sum(one, other) for one, other in zip(totals, gradients, strict=True)]
            self.request.stats["nfe_backward"] += run.engine.counts.evaluations
        return [of_projected, of_h + grad[0] if self.edges[0] == 0 else of_h, *totals]

    def _bytes_of_a_step(self, h0: Tensor) -> int:
        return ROOM * (h0.shape[1] * h0.element_size() + BYTES_OF_A_STEP)

    def _take(self, block: _SegmentBlock, run: KernelRun, found: Tensor, hs: Tensor) -> None:
        """Add a solved block's states and counts to the whole."""
        block.most = int(run.engine.counts.accepted.max())
        self.blocks.append(block)
        last = block.first + run.reached
        wanted = self._wanted(block, last)
        hs[wanted] = found[: wanted.stop - wanted.start]
        self.engine.counts.add(run.engine.counts)
        self.failure, self.reached = run.failure(), last

    def _wanted(self, block: _SegmentBlock, last: int | None = None) -> slice:
        """Which of the wanted edges a block reaches, up to the last."""
        return slice(*np.searchsorted(self.edges, (block.first, block.end if last is None else last), side="right").tolist())

    def _ends(self, block: _SegmentBlock) -> np.ndarray:
        """The edges of a block whose states are wanted, and its last."""
        wanted = self.edges[self._wanted(block)]
        return wanted if len(wanted) and wanted[-1] == block.end else np.append(wanted, block.end)

    def _rows(self, block: _SegmentBlock) -> slice:
        """The samples of the input that a block reads."""
        rows, apart = rows_of_pieces(projected_of(self.chain))
        first, last = self._pieces(block)
        return slice(first * apart, last * apart + rows)

    def _pieces(self, block: _SegmentBlock) -> tuple[int, int]:
        """The first and the last piece that a block reads."""
        pieces = self.chain.path.pieces[block.first : block.end]
        return int(pieces.min()), int(pieces.max())

    def _read(self, projected: Tensor, block: _SegmentBlock) -> Tensor:
        return projected.detach()[self._rows(block)]

    def _run(self, block: _SegmentBlock, keep: int) -> KernelRun:
        """Prepare the solve of a block alone."""
        chain, rows, path = self.chain.part(block.first, block.end), self._rows(block), projected_of(self.chain)
        first, last = self._pieces(block)
        chain.places = torch.from_numpy(self._ends(block) - block.first)
        pieces = chain.path.pieces - first
        chain.path = SegmentInput(path.unchecked(path.xs.detach()[rows], path.knots[first : last + 2]), pieces)
        engine = AdaptiveEngine(self.engine.control)
        engine.start(chain, len(block.h0))
        request = replace(self.request, chain=chain, engine=engine, show=self._show_from(block.first), stats={"nfe_backward": 0})
        most = self.engine.control.most_steps(len(self.chain))
        return self.model.kernel.run(self.model, request, keep, block.carried, most)

    def _show_from(self, first: int) -> Callable[[int], None]:
        show = self.request.show
        return lambda done: show(first + done)


def _sum(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: _BlockedRun, *tensors: Any) -> Tensor:
        ctx.run = run
        ctx.save_for_backward(*tensors)
        return run.forward(*tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors
        with torch.no_grad():
            gradients = ctx.run.backward([None if t is None else t.detach() for t in tensors], grad)
        wanted = [gradient if need else None for gradient, need in zip(gradients, ctx.needs_input_grad[1:], strict=True)]
        inputs = [grad, *(tensor for tensor in tensors if tensor is not None)]
        return None, *once_only("gradient=Checkpointed", wanted, inputs)


def solved_within(model: Model, request: SolveRequest, tensors: Sequence[Any]) -> Solved | str:
    r"""As `solved`, with the steps that gradients need kept in the request's memory; or why not.

    Raises:  ValueError for tensors that require a gradient and would not get one.
    """
    wanted = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
    if request.memory is None or not wanted:
        return solved(model, request, tensors)
    chain = request.chain
    refuse_captured(chain, ParameterSnapshot(chain.field).learned, tensors[1], "gradient=Checkpointed")
    run = _BlockedRun(model, request, request.memory)
    try:
        hs = _Blocks.apply(run, *tensors)
    except _TooLong:
        request.engine.start(chain, len(tensors[1]))
        return f"the steps of one interval alone take more than {request.memory:,.0f} bytes"
    edges = run.edges[run.edges <= run.reached]
    return Solved(edges, hs[: len(edges)], run.failure, chain, lambda: None, model.kernel.run.name)
