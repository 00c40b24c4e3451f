r"""Gradients in bounded memory: a long solve as a chain of blocks, each computed again when the backward pass comes to it.

Kept are the states between blocks and, at any moment, the graph of one block. A block repeats the very steps it took the
first time, so the gradient is that of the solve that was computed, up to the order in which its parts are added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discretize.gradients.detached import ParameterSnapshot, detached_chain, once_only, refuse_captured
from discretize.solvers.adaptive import AdaptiveEngine, SolverState
from discretize.solvers.segments import Chain
from discretize.solvers.statistics import SolverStats

if TYPE_CHECKING:
    from discretize.solvers.fixed import GridEngine, StepEngine

__all__ = ["Blocks"]

Arrived = Callable[[int, Tensor], None]

BYTES_OF_A_NODE = 1024  # of the graph, beside the tensors it keeps: what was seen, rounded up


class Blocks:
    r"""Runs an engine along a chain; in blocks of as many steps as fit into `memory` bytes, where gradients are wanted.

    Args:    engine, chain; memory: bytes, None for one block that keeps all; stats: where evaluations made again are counted.
    Raises:  ValueError, with `memory`, for tensors that require a gradient and would not get one.
    Source:  Chen et al. 2016, Training deep nets with sublinear memory cost.
    """

    def __init__(
        self, engine: AdaptiveEngine | GridEngine | StepEngine, chain: Chain, memory: float | None, stats: dict[str, Any]
    ) -> None:
        self.engine, self.chain, self.memory, self.stats = engine, chain, memory, stats

    def run(self, h: Tensor, flight: SolverState, arrived: Arrived) -> Tensor:
        """From the flight to the end of the chain; `arrived(edge, h)` is called at every edge. Returns the last state."""
        if self.memory is None or not torch.is_grad_enabled():
            return self.fly(self.chain, h, flight, math.inf, arrived)
        self.field = ParameterSnapshot(self.chain.course.field)
        refuse_captured(self.chain, self.field.learned, h, "memory=")
        limit = max(1, int(self.memory / max(1, self._bytes_of_a_step(h, flight))))
        while flight.segment < len(self.chain):
            h = self._attached(h, flight, limit, arrived)
        return h

    def fly(self, chain: Chain, h: Tensor, flight: SolverState, limit: float, arrived: Arrived) -> Tensor:
        """On to the end of the chain, or until `limit` steps were tried."""
        while flight.segment < len(chain) and limit > 0:
            h, tries = self.engine.segment(chain, flight, h, limit)
            limit -= tries
            if bool((flight.tau >= chain.lengths[flight.segment]).all()):
                flight.segment += 1
                flight.tau, flight.held_back = flight.tau * 0.0, None
                arrived(flight.segment, h)
        return h

    def _attached(self, h: Tensor, flight: SolverState, limit: int, arrived: Arrived) -> Tensor:
        """One block, without its graph, and with a way back that computes it again."""
        before, edges, states = flight.copy(), [], []

        def passed(edge: int, h: Tensor) -> None:
            edges.append(edge)
            states.append(h)

        with torch.no_grad():
            end = self.fly(self.chain, h.detach(), flight, limit, passed)
        numbers = range(before.segment, min(flight.segment + 1, len(self.chain)))
        read = [tensor for j in numbers for tensor in self.chain.course.path.tensors(j)]
        block = _Block(self, before, limit, numbers)
        end, *states = _Replay.apply(block, len(states) + 1, end, *states, h, *self.field.learned, *read)
        for edge, state in zip(edges, states, strict=True):
            arrived(edge, state)
        return end

    def _bytes_of_a_step(self, h: Tensor, flight: SolverState) -> int:
        """What one step keeps for its gradient, found by taking one."""
        sizes: dict[int, int] = {}
        nodes = 0

        def weigh(kept: Tensor) -> Tensor:
            nonlocal nodes
            nodes += 1
            if not kept.is_leaf:
                sizes[kept.data_ptr()] = kept.numel() * kept.element_size()
            return kept

        counted, self.engine.tally = self.engine.tally, SolverStats(len(flight.tau))
        try:
            with torch.autograd.graph.saved_tensors_hooks(weigh, lambda kept: kept):
                self.engine.segment(self.chain, flight.copy(), h.detach().requires_grad_(), 1)
        finally:
            self.engine.tally = counted
        return sum(sizes.values()) + nodes * BYTES_OF_A_NODE


class _Block:
    """Steps to take again: from where, how many, over which segments."""

    def __init__(self, blocks: Blocks, before: SolverState, limit: int, numbers: range) -> None:
        self.blocks, self.before, self.limit, self.numbers = blocks, before, limit, numbers

    def again(self, h: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The block's last state and those at the edges it passed, with their graph; and the tensors it reads."""
        blocks, states = self.blocks, []
        chain, path = detached_chain(blocks.chain)
        counted, blocks.engine.tally = blocks.engine.tally, SolverStats(len(self.before.tau))
        try:
            end = blocks.fly(chain, h, self.before.copy(), self.limit, lambda edge, state: states.append(state))
        finally:
            counted.backward += blocks.engine.tally.evaluations
            blocks.engine.tally = counted
            blocks.stats["nfe_backward"] = counted.backward
        # A segment that was not entered was not read.
        unread = {j: blocks.chain.course.path.tensors(j) for j in self.numbers if j not in path.leaves}
        return [end, *states], [tensor for j in self.numbers for tensor in path.leaves.get(j, unread.get(j, []))]


class _Replay(torch.autograd.Function):
    """A block's states as they are, forwards; the block again, with its graph, backwards."""

    @staticmethod
    def forward(ctx: Any, block: _Block, outputs: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.block, ctx.outputs = block, outputs
        ctx.save_for_backward(*tensors[outputs:])
        return tuple(tensor.clone() for tensor in tensors[:outputs])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        block: _Block = ctx.block
        with torch.enable_grad():
            h = ctx.saved_tensors[0].detach().requires_grad_()
            states, read = block.blocks.field.run(lambda: block.again(h))
        if len(states) != ctx.outputs:
            raise RuntimeError(
                "A block of the solve took other steps when it was computed again: the field does not give the same twice. "
                "Leave `memory` out, or make it (no dropout, no running statistics)."
            )
        targets = [h, *block.blocks.field.learned, *read]
        wanted = [target for target in targets if target.requires_grad]
        reached = [(state, along) for state, along in zip(states, cotangents, strict=True) if state.requires_grad]
        found = iter(torch.autograd.grad([s for s, _ in reached], wanted, [along for _, along in reached], allow_unused=True))
        gradients = [next(found) if target.requires_grad else None for target in targets]
        gradients = once_only("memory", gradients, [*cotangents, *ctx.saved_tensors])
        return (None, None, *[None] * ctx.outputs, *gradients)
