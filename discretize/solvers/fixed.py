r"""Fixed steps divide each segment into equal ones, none longer than max_step.

By an explicit Runge-Kutta method, which sees the input move within a step, or by a step map, which holds the input (and
the clock's speed) at what they are when the step begins: h <- step(field, x(t), h, c'(t) dt).
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks
from discretize.errors import Failure, StepError
from discretize.solvers.engine import MOST_UNSEEN, Engine, SolverState, column, waits_for
from discretize.solvers.segments import Chain, RightHandSide, Segment
from discretize.steps.runge_kutta import ExplicitRungeKutta, ForwardEuler, Heun, Heun3, Midpoint, ThreeEighths
from discretize.steps.step import Step

__all__ = ["FIXED_METHODS", "GridEngine", "StepEngine", "num_steps"]

FIXED_METHODS: dict[str, ExplicitRungeKutta] = {
    "euler": ForwardEuler(),
    "midpoint": Midpoint(),
    "heun2": Heun(),
    "heun3": Heun3(),
    "rk4": ThreeEighths(),
}


def num_steps(length: float, max_step: float | None) -> int:
    """Return how many equal steps a segment takes."""
    if max_step is None:
        return 1
    # Segments are differences of times: 0.30000000000000004 is three steps of 0.1, not four.
    return max(1, math.ceil(length / max_step * (1 - 1e-12)))


class FixedEngine(Engine):
    """Takes equal steps, at most `max_step` long (one a segment where that is None); refuses states that are not finite.

    Raises:  Failure for a state that is not finite.
    """

    hint = "Take shorter steps (`max_step`), or a method that chooses its own, such as dopri5."
    on_device = True  # whether the length of a step of all samples has to be where the states are

    def __init__(self, max_step: float | None) -> None:
        super().__init__()
        self.max_step = max_step
        self.unseen: list[tuple[Segment, Tensor]] = []  # segments whose last states were not looked at

    def start(self, chain: Chain, batch: int) -> SolverState:
        self.unseen = []
        return super().start(chain, batch)

    def segment(self, segment: RightHandSide, state: SolverState, h: Tensor, limit: float = math.inf) -> tuple[Tensor, int]:
        assert isinstance(segment, Segment)
        lengths = segment.lengths
        # What a sequence gets does not hang on its neighbours: the steps are counted for each.
        steps = np.array([num_steps(float(length), self.max_step) for length in lengths])
        h = self._run(segment, h, steps)
        state.tau = lengths.copy()
        self.counts.accepted += np.where(lengths > 0, steps, 0)
        shortest = int(np.where(lengths > 0, lengths / steps, np.inf).argmin())
        self.counts.smaller(float(lengths[shortest] / steps[shortest]), segment.when(0.0, shortest))
        self.unseen.append((segment, h.detach()))
        over = segment.number == len(segment.chain) - 1
        if over or len(self.unseen) == MOST_UNSEEN or not waits_for(h.device):
            self.look()
        return h, int(steps.max())

    def look(self) -> None:
        """Refuse the first states that are not finite, of the segments since the last look."""
        seen, self.unseen = self.unseen, []
        if not seen or checks.holds(torch.isfinite(torch.stack([h.sum() for _, h in seen]))):
            return
        for segment, h in seen:
            if checks.holds(torch.isfinite(h)):
                continue
            sample, unit = torch.nonzero(~torch.isfinite(h))[0].tolist()
            length = float(segment.lengths[sample % len(segment.lengths)])
            raise Failure(
                cause=f"the state became {float(h[sample, unit])} with steps of {length / num_steps(length, self.max_step):.3g}",
                hint=self.hint,
                time=segment.when(length, sample), sample=sample, unit=unit, edge=segment.number,
            )  # fmt: skip

    def _run(self, segment: Segment, h: Tensor, steps: np.ndarray) -> Tensor:
        """Take so many equal steps, (1,) for all samples or (batch,); a sequence that has taken its own waits."""
        times = segment.times_on(h.device)
        if len(steps) == 1:
            dt = segment.length(times if self.on_device else torch.device("cpu")) / int(steps[0])
            for i in range(int(steps[0])):
                before, h = h, self.step(segment, i * dt, dt, h)
                if self.on_attempt is not None:
                    self.on_attempt(segment.when(float(i * dt), 0), before, float(dt), True)
            return h
        own = column(steps).to(times, non_blocking=True)
        dt = segment.length(times) / own
        for i in range(int(steps.max())):
            h = self.step(segment, torch.clamp(own, max=i) * dt, torch.where(own > i, dt, 0.0), h)
        return h

    @abstractmethod
    def step(self, segment: Segment, begin: Tensor, dt: Tensor, h: Tensor) -> Tensor:
        """Take one step from `begin`, a time since the segment's start; dt () or (batch, 1), 0 for a sequence that waits."""


class GridEngine(FixedEngine):
    r"""Steps by the explicit Runge-Kutta methods that torchdiffeq has for fixed grids.

    Args:    method: a name in `FIXED_METHODS`; max_step: longest step, or None.
    Source:  Hairer, Norsett and Wanner 1993, sec. II.1. Not torchdiffeq's own: they write in place, which `torch.func.vmap`
             refuses.
    """

    def __init__(self, method: str, max_step: float | None) -> None:
        super().__init__(max_step)
        self.method: ExplicitRungeKutta = FIXED_METHODS[method]

    def step(self, segment: Segment, begin: Tensor, dt: Tensor, h: Tensor) -> Tensor:
        def slope(share: float, h: Tensor) -> Tensor:
            self.counts.call(1, len(h))
            return segment(begin + share * dt, h)

        return self.method.along(slope, h, dt.to(device=h.device, dtype=h.dtype))


class StepEngine(FixedEngine):
    r"""Steps by a step map, the same one that makes discrete cells.

    Args:    map: a `Step`; max_step: longest step, or None.
    """

    on_device = False  # a number, for which no device has to be asked

    def __init__(self, map: Step, max_step: float | None) -> None:
        super().__init__(max_step)
        self.map = map

    def step(self, segment: Segment, begin: Tensor, dt: Tensor, h: Tensor) -> Tensor:
        t = segment.time(begin)
        length = self.length(dt, h)
        if segment.chain.speed is not None:
            length = length * segment.speed_at(t, h)
        try:
            h, cost = self.map.counted(segment.chain.field, segment.input_at(t), h, length)
        except StepError as error:
            self.look()  # what was not finite before it comes first
            at = float((t if t.dim() == 0 else t[error.sample]).detach())
            raise Failure(cause=error.cause, hint=error.hint, time=at, sample=error.sample, unit=error.unit) from error
        self.counts.call(cost, len(h))
        return h

    def length(self, dt: Tensor, h: Tensor) -> float | Tensor:
        """Convert dt to what `Step.advance` takes."""
        return dt.to(device=h.device, dtype=h.dtype) if dt.dim() or dt.requires_grad else float(dt)
