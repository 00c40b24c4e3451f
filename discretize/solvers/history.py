"""What a user says was before a solve with delays, as a path: a state, a path, a function of time, or a trajectory.

A function that a polynomial gives to rounding is read as that, by kernels and by steps in torch, and a solve that is as long as
the delays as those of its steps, so that each sample takes steps of its own. Other functions and trajectories tell one time at
once: as long as they are read all samples step together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.inputs.derived import for_many
from ctrnn.inputs.function import FunctionPath
from ctrnn.inputs.held import HeldPath
from ctrnn.inputs.path import Path
from ctrnn.inputs.polynomial import path_error, polynomial_of, seen_by_steps
from discretize.solvers.past import Lag
from discretize.trajectory import Trajectory

__all__ = ["Beginning", "History", "check_knots"]

History = Tensor | Path | Trajectory | Callable[[Tensor], Tensor] | None


def check_knots(name: str, path: Path) -> None:
    if path.steady and path.knots.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            f"`{name}` jumps at times that require a gradient, which a solve with delays does not have; detach them."
        )


@dataclass(frozen=True)
class Beginning:
    """Makes a path of what a user says was before the start of a solve from h0 (batch, state).

    times, rtol, max_step: of that solve, by which a function of time is compared with the polynomial that is read in its place.
    """

    h0: Tensor
    lags: Sequence[Lag]
    times: Tensor
    rtol: float
    max_step: float = math.inf

    @property
    def start(self) -> float:
        return float(self.times[0].min())

    def earliest(self, t: float) -> float:
        """Return the earliest time that is read at t."""
        at = torch.tensor(t, dtype=torch.float64, device="cpu")
        with torch.no_grad():
            return float(min(lag.before(at) for lag in self.lags))

    def check_batch(self, name: str, path: Path) -> None:
        if path.batch not in (1, len(self.h0)):
            raise ValueError(f"`{name}` has {path.batch} sequences, and `h0` has {len(self.h0)} samples.")

    def history(self, given: History) -> Path:
        begin, h0 = self.earliest(self.start), self.h0
        ends = torch.tensor([begin, self.start], dtype=torch.float64, device="cpu")
        if given is None or (isinstance(given, Tensor) and given.dim() > 0):
            held = h0 if given is None else given
            if held.shape not in (h0.shape, h0.shape[1:], (1, h0.shape[1])) or held.dtype != h0.dtype:
                came = f"{tuple(held.shape)}, {held.dtype}"
                raise ValueError(f"`history` must be a state like h0, {tuple(h0.shape)}, {h0.dtype}, got {came}.")
            checks.is_finite("history", held)
            return HeldPath.unchecked(held.expand_as(h0)[None], ends)
        goes_on = isinstance(given, Trajectory)
        if isinstance(given, Trajectory):
            given = self._going_on(given, ends)
        if not isinstance(given, Path):
            if not callable(given):
                raise TypeError(f"`history` must be a state, a path, or a function of time, got {type(given).__name__}.")
            given = FunctionPath(given, ends, h0.shape[1])
        check_knots("history", given)
        first, last = given.interval
        margin = 4 * torch.finfo(torch.float64).eps * max(abs(begin), abs(self.start))
        if first > begin + margin or last < self.start - margin:
            raise ValueError(
                f"`history` is known on [{first:g}, {last:g}], and the longest delay reads it on [{begin:g}, {self.start:g}]."
            )
        states = given.at(0, given.knots[0].detach())
        if states.shape[-1] != h0.shape[1] or states.dtype != h0.dtype:
            came = f"{states.shape[-1]} of {states.dtype}"
            raise ValueError(f"`history` must give states like h0, {h0.shape[1]} units of {h0.dtype}, got {came}.")
        self.check_batch("history", given)
        return for_many(given if goes_on else self._as_polynomial(given), len(h0))

    def _going_on(self, earlier: Trajectory, ends: Tensor) -> Path:
        """The path of another solve; of one with delays it has slopes, which learned delays need."""
        known = earlier.ts.detach()
        start, stop = float(known[0].max()), float(known[-1].min())
        run = getattr(earlier.between, "__self__", None)
        if until := getattr(run, "until", None) or getattr(getattr(run, "past", None), "until", None):
            passed: Path = until(stop, float(ends[0]))
            return passed
        if torch.is_grad_enabled() and any(lag.shift(self.start) is not None for lag in self.lags):
            raise ValueError(
                "`history` is of a solve without delays, whose slope in time has no graph, and delays are learned; give a path "
                "or a function of time."
            )
        return FunctionPath(earlier, (start, stop), self.h0.shape[1])

    def _as_polynomial(self, path: Path) -> Path:
        """Return a function of time as the polynomial that gives it where steps look at it; as it is where none does, or it has
        gradients."""
        if type(path) is not FunctionPath or isinstance(polynomial := polynomial_of(path), str):
            return path
        ends, shared = path.knots.detach()[[0, -1]], self.times.detach().flatten()
        with torch.no_grad():  # a delay that is a function of time is one of a single time
            seen = [lag.before(t) for lag in self.lags for t in ((shared,) if isinstance(lag.delay, Tensor) else shared)]
        edges = torch.cat([ends, *(each.reshape(-1) for each in seen)]).clamp(*ends).unique()
        times = seen_by_steps(edges, self.max_step, self.rtol)
        return polynomial if times is not None and path_error(polynomial, path, times, self.rtol) is None else path
