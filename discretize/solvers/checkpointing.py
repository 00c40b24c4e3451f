r"""Gradients in bounded memory: a long solve runs in blocks of steps, each computed again in the backward pass.

Kept are the states between blocks and, at any moment, the graph of one block. A block repeats the very steps it took the
first time, so the gradient is that of the solve that was computed, up to the order in which its parts are added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.combinations import Trait
from discretize.solvers.detached import ParameterSnapshot, check_same_states, detached_chain, refuse_captured
from discretize.solvers.engine import Engine, SolverState
from discretize.solvers.segments import Chain

__all__ = ["Checkpointed", "CheckpointedSolve"]

SETTING = "gradient=Checkpointed"
BYTES_OF_A_NODE = 1024  # of the graph, beside the tensors it keeps: what was seen, rounded up


@dataclass(frozen=True)
class Checkpointed:
    r"""The gradient of the steps taken, in bounded memory: blocks of steps are computed again in the backward pass.

    No second derivatives, and no gradients to the times of samples; to those asked for of adaptive methods.

    Args:    bytes: > 0, what the steps kept for gradients may take at any moment, beside one state a block.
    Raises:  TypeError, ValueError for anything but a number above 0.
    Source:  Chen et al. 2016, Training deep nets with sublinear memory cost.
    """

    bytes: float

    trait: ClassVar[Trait] = "checkpointed"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes", checks.positive_number("bytes", self.bytes))


class CheckpointedSolve:
    r"""Runs an engine along a chain in blocks of as many steps as fit into `memory` bytes.

    Args:    engine, chain; memory: bytes; stats: where evaluations made again are counted.
    Raises:  ValueError for tensors that require a gradient and would not get one.
    """

    engine: Engine
    chain: Chain
    memory: float
    stats: dict[str, Any]

    def __init__(self, engine: Engine, chain: Chain, memory: float, stats: dict[str, Any]) -> None:
        self.engine, self.chain, self.memory, self.stats = engine, chain, memory, stats
        self.snapshot: ParameterSnapshot = ParameterSnapshot(chain.field)

    def run(self, h: Tensor, state: SolverState, at_edge: Callable[[int, Tensor], object]) -> Tensor:
        """Solve as `Engine.solve` does."""
        if not len(self.chain):  # one time, and nothing to solve
            return h
        refuse_captured(self.chain, self.snapshot.learned, h, SETTING)
        limit = max(1, int(self.memory / max(1, self._bytes_of_a_step(h, state))))
        while state.segment < len(self.chain):
            h = self._block(h, state, limit, at_edge)
        return h

    def _block(self, h: Tensor, state: SolverState, limit: int, at_edge: Callable[[int, Tensor], object]) -> Tensor:
        """Solve one block without its graph, with a backward pass that computes it again."""
        before, kept = state.copy(), dict[int, Tensor]()
        with torch.no_grad():
            end = self.engine.solve(self.chain, h.detach(), state, kept.__setitem__, limit)
        numbers = range(before.segment, min(state.segment + 1, len(self.chain)))
        read = [tensor for j in numbers for tensor in self.chain.path.learned(j)]
        gradients = partial(self._gradients, before, limit, numbers)
        inputs = [h, *self.snapshot.learned, *read]
        end, *hs = self.snapshot.with_gradients(SETTING, gradients, [end, *kept.values()], inputs)
        for edge, passed in zip(kept, hs, strict=True):
            at_edge(edge, passed)
        return end

    def _gradients(
        self,
        before: SolverState,
        limit: int,
        numbers: range,
        cotangents: Sequence[Tensor],
        states: Sequence[Tensor],
        inputs: Sequence[Tensor],
    ) -> list[Tensor | None]:
        """Take the steps of a block again, with their graph, and differentiate them."""
        chain, path = detached_chain(self.chain)
        start, kept = inputs[0].detach().requires_grad_(), dict[int, Tensor]()
        with torch.enable_grad(), self.engine.counting_apart(self.engine.on_backward_attempt) as counts:
            end = self.engine.solve(chain, start, before.copy(), kept.__setitem__, limit)
        self.stats["nfe_backward"] += counts.evaluations
        hs = [end, *kept.values()]
        if len(hs) != len(states):
            raise RuntimeError(
                "A block of the solve took other steps when it was computed again: the field does not give the same twice. "
                "Leave `gradient=Checkpointed` out, or make it (no dropout, no running statistics)."
            )
        for again, state in zip(hs, states, strict=True):
            check_same_states(again, state, SETTING)
        # A segment that was not entered was not read.
        read = [tensor for j in numbers for tensor in path.leaves.get(j, self.chain.path.learned(j))]
        targets = [start, *self.snapshot.learned, *read]
        reached = [(h, cotangent) for h, cotangent in zip(hs, cotangents, strict=True) if h.requires_grad]
        outputs, pulled_by = ([pair[i] for pair in reached] for i in (0, 1))
        wanted = [target for target in targets if target.requires_grad]
        gradients = iter(torch.autograd.grad(outputs, wanted, pulled_by, allow_unused=True))
        return [next(gradients) if target.requires_grad else None for target in targets]

    def _bytes_of_a_step(self, h: Tensor, state: SolverState) -> int:
        """Measure what one step keeps for its gradient, by taking one."""
        sizes: dict[int, int] = {}
        nodes = 0

        def weigh(kept: Tensor) -> None:  # not the tensor: a node that keeps its own output is never freed
            nonlocal nodes
            nodes += 1
            if not kept.is_leaf:
                sizes[kept.data_ptr()] = kept.numel() * kept.element_size()

        with self.engine.counting_apart(), torch.autograd.graph.saved_tensors_hooks(weigh, lambda _: _):
            self.engine.segment(self.chain.segment(state.segment), state.copy(), h.detach().requires_grad_(), 1)
        return sum(sizes.values()) + nodes * BYTES_OF_A_NODE
