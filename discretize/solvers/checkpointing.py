r"""Gradients in bounded memory: a long solve in blocks of steps, each computed again when the backward pass comes to it.

Kept are the states between blocks and, at any moment, the graph of one block. A block repeats the very steps it took the
first time, so the gradient is that of the solve that was computed, up to the order in which its parts are added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from discretize.solvers.detached import ParameterSnapshot, check_same_states, detached_chain, once_only, refuse_captured
from discretize.solvers.engine import Engine, SolverState, counting_apart
from discretize.solvers.segments import Chain

__all__ = ["Blocks"]

AtEdge = Callable[[int, Tensor], None]

BYTES_OF_A_NODE = 1024  # of the graph, beside the tensors it keeps: what was seen, rounded up


class Blocks:
    r"""Runs an engine along a chain; in blocks of as many steps as fit into `memory` bytes, where gradients are wanted.

    Args:    engine, chain; memory: bytes, None for one block that keeps all; stats: where evaluations made again are counted.
    Raises:  ValueError, with `memory`, for tensors that require a gradient and would not get one.
    Source:  Chen et al. 2016, Training deep nets with sublinear memory cost.
    """

    def __init__(self, engine: Engine, chain: Chain, memory: float | None, stats: dict[str, Any]) -> None:
        self.engine, self.chain, self.memory, self.stats = engine, chain, memory, stats

    def run(self, h: Tensor, state: SolverState, at_edge: AtEdge) -> Tensor:
        """From the state to the end of the chain; `at_edge(edge, h)` is called at every edge. Returns the last h."""
        if self.memory is None or not torch.is_grad_enabled():
            return self.solve(self.chain, h, state, math.inf, at_edge)
        self.field = ParameterSnapshot(self.chain.field)
        refuse_captured(self.chain, self.field.learned, h, "gradient=Checkpointed")
        limit = max(1, int(self.memory / max(1, self._bytes_of_a_step(h, state))))
        while state.segment < len(self.chain):
            h = self._attached(h, state, limit, at_edge)
        return h

    def solve(self, chain: Chain, h: Tensor, state: SolverState, limit: float, at_edge: AtEdge) -> Tensor:
        """On to the end of the chain, or until `limit` steps were tried."""
        while state.segment < len(chain) and limit > 0:
            h, tries = self.engine.segment(chain.segment(state.segment), state, h, limit)
            limit -= tries
            if bool((state.tau >= chain.lengths[state.segment]).all()):
                state.segment += 1
                state.tau, state.held_back, state.tried = state.tau * 0.0, None, None
                at_edge(state.segment, h)
        return h

    def _attached(self, h: Tensor, state: SolverState, limit: int, at_edge: AtEdge) -> Tensor:
        """One block, without its graph, and with a backward pass that computes it again."""
        before, edges, hs = state.copy(), [], []

        def keep(edge: int, h: Tensor) -> None:
            edges.append(edge)
            hs.append(h)

        with torch.no_grad():
            end = self.solve(self.chain, h.detach(), state, limit, keep)
        numbers = range(before.segment, min(state.segment + 1, len(self.chain)))
        read = [tensor for j in numbers for tensor in self.chain.path.learned(j)]
        block = _Block(self, before, limit, numbers)
        end, *hs = _Recomputed.apply(block, len(hs) + 1, end, *hs, h, *self.field.learned, *read)
        for edge, passed in zip(edges, hs, strict=True):
            at_edge(edge, passed)
        return end

    def _bytes_of_a_step(self, h: Tensor, state: SolverState) -> int:
        """What one step keeps for its gradient, found by taking one."""
        sizes: dict[int, int] = {}
        nodes = 0

        def weigh(kept: Tensor) -> None:  # not the tensor: a node that keeps its own output is never freed
            nonlocal nodes
            nodes += 1
            if not kept.is_leaf:
                sizes[kept.data_ptr()] = kept.numel() * kept.element_size()

        with counting_apart(self.engine), torch.autograd.graph.saved_tensors_hooks(weigh, lambda _: _):
            self.engine.segment(self.chain.segment(state.segment), state.copy(), h.detach().requires_grad_(), 1)
        return sum(sizes.values()) + nodes * BYTES_OF_A_NODE


class _Block:
    """Steps to take again: from where, how many, over which segments."""

    def __init__(self, blocks: Blocks, before: SolverState, limit: int, numbers: range) -> None:
        self.blocks, self.before, self.limit, self.numbers = blocks, before, limit, numbers

    def recompute(self, h: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The block's last state and those at the edges it passed, with their graph; and the tensors it reads."""
        blocks, hs = self.blocks, []
        chain, path = detached_chain(blocks.chain)
        with counting_apart(blocks.engine) as counts:
            end = blocks.solve(chain, h, self.before.copy(), self.limit, lambda edge, h: hs.append(h))
        blocks.stats["nfe_backward"] += counts.evaluations
        # A segment that was not entered was not read.
        unread = {j: blocks.chain.path.learned(j) for j in self.numbers if j not in path.leaves}
        return [end, *hs], [tensor for j in self.numbers for tensor in path.leaves.get(j, unread.get(j, []))]


class _Recomputed(torch.autograd.Function):
    """A block's states as they are, forwards; the block again, with its graph, backwards."""

    @staticmethod
    def forward(ctx: Any, block: _Block, outputs: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.block, ctx.outputs = block, outputs
        states = tuple(tensor.clone() for tensor in tensors[:outputs])
        ctx.save_for_backward(*tensors[outputs:], *states)
        return states

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        block: _Block = ctx.block
        given, states = ctx.saved_tensors[: -ctx.outputs], ctx.saved_tensors[-ctx.outputs :]
        with torch.enable_grad():
            start = given[0].detach().requires_grad_()
            hs, read = block.blocks.field.run(lambda: block.recompute(start))
        if len(hs) != ctx.outputs:
            raise RuntimeError(
                "A block of the solve took other steps when it was computed again: the field does not give the same twice. "
                "Leave `gradient=Checkpointed` out, or make it (no dropout, no running statistics)."
            )
        for again, before in zip(hs, states, strict=True):
            check_same_states(again, before, "gradient=Checkpointed")
        targets = [start, *block.blocks.field.learned, *read]
        wanted = [target for target in targets if target.requires_grad]
        reached = [(h, cotangent) for h, cotangent in zip(hs, cotangents, strict=True) if h.requires_grad]
        outputs, pulled_by = ([pair[i] for pair in reached] for i in (0, 1))
        found = iter(torch.autograd.grad(outputs, wanted, pulled_by, allow_unused=True))
        gradients = [next(found) if target.requires_grad else None for target in targets]
        gradients = once_only("gradient=Checkpointed", gradients, [*cotangents, *given])
        return (None, None, *[None] * ctx.outputs, *gradients)
