r"""Fixed steps of fields with noise, along one Brownian path for each sample.

    h <- step(field, x(t), h, c' dt, sqrt(c') w, c'^(3/2) z)      w = W(t + dt) - W(t), z = int_t^t+dt (W(s) - W(t)) ds

The path's cells lie between the knots of the input, whatever times are asked for and however fast the clock runs: on the clock c
dh = F dt + G dW is dh = c' F dt + sqrt(c') G dW, of the same law as h(c(t)).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from discretize.noise.brownian import BrownianPath, Cells
from discretize.noise.generator import Seed
from discretize.solvers.engine import SolverState
from discretize.solvers.fixed import StepEngine, num_steps
from discretize.solvers.segments import Chain, Segment
from discretize.steps.stochastic import StochasticStep

__all__ = ["StochasticEngine", "driven_by", "solve_path"]

MOST_DRAWN = 1 << 13  # steps of samples whose increments are drawn at once: more leave the caches


def solve_path(seed: Seed | BrownianPath | Cells, knots: Tensor, channels: int, like: Tensor) -> BrownianPath:
    r"""Return the path of a solve, of cells between the knots of its input; like: (batch, state).

    Raises:  TypeError, ValueError for seeds and paths that do not fit.
    """
    batch = len(like)
    if isinstance(seed, BrownianPath):
        if (seed.units, len(seed.keys)) != (channels, batch):
            raise ValueError(
                f"`seed` is a path of {seed.units} units for {len(seed.keys)} samples, and there are {channels} Brownian motions "
                f"of the field and {batch} samples."
            )
        return seed
    given = knots.detach()
    if given.dim() > 1:
        # Of sequences that are over knots repeat, and nobody asks what the path is beyond.
        over = torch.cat([torch.zeros_like(given[:1]), (given.diff(dim=0) <= 0).to(given)])
        given = (given + over.cumsum(0))[:, 0] if given.shape[1] == 1 else given + over.cumsum(0)
    drawing = torch.float64 if like.dtype == torch.float64 else torch.float32
    keys, first = seed if isinstance(seed, Cells) else (seed, 0)
    return BrownianPath(keys, given, channels, batch, first=first, dtype=drawing)


def driven_by(step: StochasticStep, segment: Segment, t: Tensor, h: Tensor, dt: float | Tensor, w: Tensor, z: Tensor) -> Tensor:
    r"""Take a step from the time t on; t () or (rows, 1), dt a number or (rows, 1), w and z (rows, channels) of the time t."""
    if segment.chain.speed is not None:
        speed = segment.speed_at(t, h)
        root = torch.where(speed > 0, speed, 1).sqrt() * (speed > 0)
        dt, w, z = dt * speed, root * w, root * speed * z
    return step.moved(segment.chain.field, segment.input_at(t), h, dt, w, z if step.reads_integral else None)


class StochasticEngine(StepEngine):
    r"""Takes equal steps by a step map for noise.

    Where times have gradients, increments scale as those of a path that is stretched with them.

    Args:    map: a `StochasticStep`; max_step: longest step, or None; path: the Brownian motions of the samples.
    """

    hint = "Take shorter steps (`max_step`)."

    def __init__(self, map: StochasticStep, max_step: float | None, path: BrownianPath) -> None:
        super().__init__(map, max_step)
        self.path = path
        self._chain: Chain | None = None
        self._drawn: dict[int, tuple[Tensor, Tensor]] = {}  # of the segments that come next
        self._left: Iterator[tuple[Tensor, Tensor]] = iter(())  # of the segment that is being solved

    def no_sequence(self, chain: Chain) -> str | None:
        return "with noise only held samples, asked for at their own times, have a kernel"

    def start(self, chain: Chain, batch: int) -> SolverState:
        self._chain, self._drawn = chain, {}
        return super().start(chain, batch)

    def _run(self, segment: Segment, h: Tensor, steps: np.ndarray) -> Tensor:
        if segment.number not in self._drawn:
            self._drawn = self._draw(segment.number)
        w, z = (each.to(h) for each in self._drawn[segment.number])
        self._left = zip(w, z, strict=True)
        return super()._run(segment, h, steps)

    def step(self, segment: Segment, begin: Tensor, dt: Tensor, h: Tensor) -> Tensor:
        assert isinstance(self.map, StochasticStep)
        w, z = next(self._left)
        length = self.length(dt, h)
        if isinstance(length, Tensor) and length.requires_grad:
            known = length.detach()
            stretched = torch.where(known > 0, length / torch.where(known > 0, known, 1), 1)
            w, z = stretched.sqrt() * w, stretched.sqrt() * stretched * z
        h = driven_by(self.map, segment, segment.time(begin), h, length, w, z)
        self.counts.call(self.map.cost(segment.chain.field), len(h))
        return h

    def _draw(self, number: int) -> dict[int, tuple[Tensor, Tensor]]:
        """Draw the increments of the steps of a segment, (steps, batch, channels), and of as many more as are drawn at once."""
        assert self._chain is not None
        edges, times, counts = self._chain.edges.detach(), list[Tensor](), list[int]()
        room = MOST_DRAWN // (len(self.path.keys) * -(-self.path.units // 4))
        for j in range(number, len(self._chain)):
            steps = torch.from_numpy(num_steps(self._chain.lengths[j], self.max_step))
            count = int(steps.max())
            if counts and sum(counts) + count > room:
                break
            share = torch.minimum(torch.arange(count, device="cpu")[:, None], steps).to(torch.float64) / steps
            start, end = edges[j], edges[j + 1]
            times.append(start + (share if edges.dim() > 1 else share[:, 0]) * (end - start))
            counts.append(count)
        last = edges[number + len(counts)]
        w, z = self.path.increments(torch.cat([*times, last[None]]))
        return dict(zip(range(number, number + len(counts)), zip(w.split(counts), z.split(counts), strict=True), strict=True))
