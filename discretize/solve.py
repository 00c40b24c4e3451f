r"""Exact integration: dh/dt = c'(t) field(x(t), h) from h(ts[0]) = h0, to the tolerance asked for.

Every knot of the input and of its clock and every requested time is the end of a step.
"""

from __future__ import annotations

import difflib
import sys
import time
from collections.abc import Callable
from typing import NoReturn

import torch
from torch import Tensor

from ctrnn import Driven, Path, VectorField, checks
from discretize.adaptive import ADAPTIVE_METHODS, AdaptiveEngine
from discretize.errors import Failure, SolverError
from discretize.fixed import FIXED_METHODS, GridEngine, StepEngine
from discretize.segments import Segment, segments
from discretize.steps.step import Step
from discretize.tally import Tally
from discretize.trajectory import Trajectory

__all__ = ["checked_settings", "integrate"]

ELSEWHERE = {
    "fehlberg2": "its errors here are 50 to 150 times the tolerance",
    "scipy_solver": "it leaves autograd and the device",
    "explicit_adams": "its history of past steps ends at every knot",
    "implicit_adams": "its history of past steps ends at every knot",
    "fixed_adams": "its history of past steps ends at every knot",
}


def integrate(
    field: VectorField,
    path: Path,
    h0: Tensor,
    ts: Tensor,
    *,
    method: str | Step = "dopri5",
    rtol: float = 1e-5,
    atol: float = 1e-7,
    dt: float | None = None,
    speed: Path | Callable | None = None,
    adjoint: bool = False,
    progress: bool = False,
    max_num_steps: int = 1_000_000,
) -> Trajectory:
    r"""The solution of dh/dt = speed(t) field(path(t), h) at the times `ts`.

    Gradients flow through the steps that were taken, to parameters, samples of the path and h0; step sizes and times
    are numbers. In float32 states keep their dtype and times are float64 all the same.

    Args:    field: a `VectorField`; path: its input; h0: the state at ts[0]; ts: increasing times in the path's interval.
             method: dopri5, dopri8, bosh3 or adaptive_heun, whose estimated error per step is held below
             (rtol |h| + atol) / 8 in every unit of every sample, so that the result is within a few tolerances; or euler,
             midpoint, heun2, heun3 or rk4, or a step map, with equal steps of at most dt (None: one step) between knots
             and requested times.
             speed: c'(t), a warp's `speed` or a smooth function; progress: on stderr, if that is a terminal;
             max_num_steps: attempted over the whole solve, for adaptive methods.
    Shape:   h0 (batch, state), ts (n,) -> Trajectory with ts (n,), hs (n, batch, state), hs[0] = h0.
    Raises:  TypeError, ValueError for what does not fit, before anything is solved; SolverError, with the states so far,
             for a solve that fails.
    Source:  torchdiffeq; Tallec and Ollivier 2018, eq. (6), for the speed.
    """
    rtol, atol, dt = checked_settings(method, rtol, atol, dt, adjoint, max_num_steps)
    checks.is_field(field)
    # In half precision, as autocast would have it, a solver resolves the rounding of the field.
    with torch.autocast(_device_type(field), enabled=False):
        driven = Driven(field, path, speed)
        times = _inside(checks.are_times("ts", ts), driven)
        checks.is_batched_state(field, h0, driven.batch)
        checks.is_finite("h0", h0)
        driven.check_flow(times[0], h0)
        if isinstance(method, str) and method in ADAPTIVE_METHODS:
            _check_reach(rtol, atol, h0)
        tally = Tally()
        return _solve(driven, h0, times, _engine(method, rtol, atol, dt, max_num_steps, tally), tally, str(method), progress)


def _solve(
    driven: Driven,
    h0: Tensor,
    times: Tensor,
    engine: AdaptiveEngine | GridEngine | StepEngine,
    tally: Tally,
    method: str,
    progress: bool,
) -> Trajectory:
    bar = _Progress(times, progress)
    h, hs = h0, [h0]

    def trajectory(status: str) -> Trajectory:
        return Trajectory(times[: len(hs)], torch.stack(hs), tally.stats(method), status)

    try:
        for segment in segments(driven, times):
            h = engine.advance(segment, h)
            if segment.requested:
                hs.append(h)
            bar.show(segment)
    except Failure as failure:
        raise SolverError(failure, trajectory(f"failed: {failure.cause}")) from None
    finally:
        bar.close()
    return trajectory("completed")


def _engine(
    method: str | Step, rtol: float, atol: float, dt: float | None, max_num_steps: int, tally: Tally
) -> AdaptiveEngine | GridEngine | StepEngine:
    if not isinstance(method, str):
        return StepEngine(method, dt, tally)
    if method in FIXED_METHODS:
        return GridEngine(method, dt, tally)
    return AdaptiveEngine(method, rtol, atol, max_num_steps, tally)


def checked_settings(
    method: str | Step, rtol: float, atol: float, dt: float | None, adjoint: bool = False, max_num_steps: int = 1
) -> tuple[float, float, float | None]:
    """rtol, atol and dt as plain numbers; refuses what no solve could use, in the user's words."""
    if not isinstance(method, Step):
        _check_method_name(method)
    rtol, atol = checks.non_negative_number("rtol", rtol), checks.non_negative_number("atol", atol)
    if rtol == 0 and atol == 0:
        raise ValueError("`rtol` and `atol` are both 0, and no step is that exact; give one of them, say rtol=1e-5.")
    if dt is not None:
        dt = checks.positive_number("dt", dt)
        if isinstance(method, str) and method in ADAPTIVE_METHODS:
            raise ValueError(
                f"`dt` is for fixed steps, and {method} chooses its own: set `rtol` and `atol`, or take a fixed-step "
                f"method ({', '.join(FIXED_METHODS)}) or a step map."
            )
    checks.positive_size("max_num_steps", max_num_steps)
    if checks.is_flag("adjoint", adjoint):
        raise ValueError("`adjoint=True` is not available in this version; gradients flow through the solver's own steps.")
    return rtol, atol, dt


def _device_type(field: VectorField) -> str:
    return "cpu" if field.device is None or field.device.type == "meta" else field.device.type


def _inside(times: Tensor, driven: Driven) -> Tensor:
    start, end = driven.interval
    times = checks.within("ts", times, start, end)
    if not bool((times.diff() > 0).all()):
        raise ValueError(
            f"`ts` has several times within 4 ulp of one end of the interval [{start!r}, {end!r}]; keep one of them."
        )
    return times


def _check_reach(rtol: float, atol: float, h0: Tensor) -> None:
    """Refuse tolerances that no choice of steps can meet."""
    eps = torch.finfo(h0.dtype).eps
    if eps > torch.finfo(torch.float32).eps:
        raise TypeError(
            f"`h0` is {h0.dtype}, too coarse for steps chosen by their error; use float32 or float64, or fixed steps."
        )
    if max(rtol, atol) < eps / 100:
        raise ValueError(
            f"`rtol`={rtol:g} and `atol`={atol:g} are far below what {h0.dtype} can tell apart ({eps:.1e}); loosen one "
            "of them, or use float64."
        )
    if atol == 0 and bool((h0 == 0).any()):
        raise ValueError("`atol` is 0 and so are units of `h0`, whose error `rtol` alone cannot measure; give an `atol`.")


def _check_method_name(method: object) -> None:
    known = [*ADAPTIVE_METHODS, *FIXED_METHODS]
    if isinstance(method, type) and issubclass(method, Step):
        raise TypeError(f"`method` must be an instance of a step map: `{method.__name__}()`, not the class.")
    if not isinstance(method, str):
        raise TypeError(f"`method` must be the name of a method or a step map, got {method!r}.")
    if method not in known:
        _refuse_method(method, known)


def _refuse_method(method: str, known: list[str]) -> NoReturn:
    near = difflib.get_close_matches(method, known, n=1)
    if method in ELSEWHERE:
        reason = f"is not offered: {ELSEWHERE[method]}."
    else:
        reason = f"is not known; did you mean {near[0]!r}?" if near else "is not known."
    raise ValueError(f"`method` {method!r} {reason} Methods: {', '.join(known)}, or a step map such as discretize.Euler().")


class _Progress:
    """A line on stderr, where that is a terminal and the solve takes longer than a moment."""

    def __init__(self, times: Tensor, wanted: bool) -> None:
        self.start, self.end = float(times[0]), float(times[-1])
        self.wanted = wanted and sys.stderr.isatty()
        self.last, self.shown = time.monotonic(), False

    def show(self, segment: Segment) -> None:
        if not self.wanted or time.monotonic() - self.last < 0.2:
            return
        share = (segment.end - self.start) / (self.end - self.start)
        sys.stderr.write(f"\rintegrate: t = {segment.end:g} of {self.end:g} ({share:.0%}) ")
        sys.stderr.flush()
        self.last, self.shown = time.monotonic(), True

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
