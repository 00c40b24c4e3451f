r"""Fixed steps: equal ones in each segment, none longer than dt, the last one ending on the segment's end.

By torchdiffeq's fixed-grid methods, which see the input move within a step, or by a step map, which holds the input (and
the clock's speed) at what they are when the step begins: h <- step(field, x(t), h, c'(t) dt).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torchdiffeq import odeint

from discretize.errors import Failure, StepError
from discretize.segments import Segment
from discretize.steps.step import Step
from discretize.tally import Tally

__all__ = ["FIXED_METHODS", "GridEngine", "StepEngine"]

FIXED_METHODS = ("euler", "midpoint", "heun2", "heun3", "rk4")


class _FixedEngine(ABC):
    """Equal steps, at most `dt` long (one a segment where dt is None); refuses states that are not finite."""

    def __init__(self, dt: float | None, tally: Tally) -> None:
        self.dt, self.tally = dt, tally

    def advance(self, segment: Segment, h: Tensor) -> Tensor:
        """The state at the end of the segment: (batch, state) -> (batch, state)."""
        steps = self._steps(segment.length)
        h = self._run(segment, h, steps)
        self.tally.accept(segment.start, segment.length / steps, steps)
        if not bool(torch.isfinite(h).all()):
            sample, unit = torch.nonzero(~torch.isfinite(h))[0].tolist()
            raise Failure(
                cause=f"the state became {float(h[sample, unit].detach())} with steps of {segment.length / steps:.3g}",
                hint="Take shorter steps (`dt`), or a method that chooses its own, such as dopri5.",
                time=segment.end, sample=sample, unit=unit,
            )  # fmt: skip
        return h

    def _steps(self, length: float) -> int:
        if self.dt is None:
            return 1
        # Segments are differences of times: 0.30000000000000004 is three steps of 0.1, not four.
        return max(1, math.ceil(length / self.dt * (1 - 1e-12)))

    @abstractmethod
    def _run(self, segment: Segment, h: Tensor, steps: int) -> Tensor: ...


class GridEngine(_FixedEngine):
    r"""torchdiffeq's fixed-grid methods.

    Args:    method: a name in `FIXED_METHODS`; dt: longest step, or None; tally: counted into.
    Raises:  Failure for a state that is not finite.
    Source:  torchdiffeq 0.2.5; its rk4 is the 3/8 rule.
    """

    def __init__(self, method: str, dt: float | None, tally: Tally) -> None:
        super().__init__(dt, tally)
        self.method = method

    def _run(self, segment: Segment, h: Tensor, steps: int) -> Tensor:
        flow = segment.flow()

        def counted(tau: Tensor, h: Tensor) -> Tensor:
            self.tally.evaluations += 1
            return flow(tau, h)

        clock = torch.linspace(0.0, segment.length, steps + 1, dtype=torch.float64, device=h.device)
        return odeint(counted, h, clock, method=self.method)[-1]


class StepEngine(_FixedEngine):
    r"""A step map of this project, the same one that makes discrete cells.

    Args:    step: a `Step`; dt: longest step, or None; tally: counted into.
    Raises:  Failure for a state that is not finite.
    Source:  this project.
    """

    def __init__(self, step: Step, dt: float | None, tally: Tally) -> None:
        super().__init__(dt, tally)
        self.step = step

    def _run(self, segment: Segment, h: Tensor, steps: int) -> Tensor:
        driven, piece, dt = segment.driven, segment.piece, segment.length / steps
        for i in range(steps):
            t = segment.time(torch.tensor(i * dt, dtype=torch.float64, device=h.device))
            speed = driven.speed_at(piece, t)
            length = dt if speed is None else dt * speed
            try:
                h, cost = self.step.counted(driven.field, driven.input_at(piece, t), h, length)
            except StepError as error:
                raise Failure(cause=error.cause, hint=error.hint, time=float(t), sample=error.sample, unit=error.unit) from error
            self.tally.evaluations += cost
        return h
