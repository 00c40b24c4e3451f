r"""Exact integration: dh/dt = c'(t) field(x(t), h) from h(ts[0]) = h0, to the tolerance asked for.

Every knot of the input and of its clock and every requested time is the end of a step.
"""

from __future__ import annotations

import difflib
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn

import torch
from torch import Tensor

from ctrnn import Driven, Path, VectorField, checks
from ctrnn.fields.field import check_batched_state, check_field
from discretize.errors import Failure, SolverError, SolverWarning
from discretize.fused.solves import Solved, solve
from discretize.gradients.adjoint import AdjointBackward
from discretize.gradients.checkpointing import Blocks
from discretize.solvers.adaptive import ADAPTIVE_METHODS, AdaptiveEngine
from discretize.solvers.diagnosis import stiff_hint
from discretize.solvers.fixed import FIXED_METHODS, GridEngine, StepEngine
from discretize.solvers.segments import Chain, chain_of
from discretize.solvers.statistics import SolverStats
from discretize.steps.step import Step
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
    min_step: float = 0.0,
    memory: float | None = None,
    fused: bool = True,
) -> Trajectory:
    r"""The solution of dh/dt = speed(t) field(path(t), h) at the times `ts`.

    Every sample takes steps of its own. Gradients flow through the steps that were taken, to parameters, samples of the
    path, h0, and times and knots that require one; step sizes count as shares of the time between two knots. In float32
    states keep their dtype and times are float64 all the same.

    Args:    field: a `VectorField`; path: its input; h0: the state at ts[0]; ts: increasing times in the path's interval,
             shared, or for every sequence its own, which then may repeat.
             method: dopri5, tsit5, dopri8, bosh3, adaptive_heun, or rodas5p for stiff fields, whose estimated error per
             step is held below (rtol |h| + atol) / 8 in every unit of every sample, so that the result is within a few
             tolerances; or euler, midpoint, heun2, heun3 or rk4, or a step map, with equal steps of at most dt (None: one
             step) between knots and requested times.
             speed: c'(t), a warp's `speed` or a smooth function; progress: on stderr, if that is a terminal;
             max_num_steps: attempted by a sample over the whole solve; min_step: steps this short are accepted whatever
             their error, with a warning; both for adaptive methods.
             memory: bytes that the steps kept for gradients may take; more are computed again, block by block, in the
             backward pass, from states kept between blocks: no second derivatives, none by times. None keeps all.
             fused: solve named fields along held and linear paths by dopri5, tsit5 and dopri8 in a compiled kernel, which
             takes the same steps; the environment variable CTRNN_FUSED=0 turns that off everywhere.
             adjoint: gradients by the adjoint equation, solved backwards: those of the exact solution instead of those of
             the steps, within tolerance; explicit adaptive methods only, no second derivatives, none by times.
    Shape:   h0 (batch, state), ts (n,) or (n, batch) -> Trajectory with ts as given, hs (n, batch, state), hs[0] = h0.
    Raises:  TypeError, ValueError for what does not fit, before anything is solved; SolverError, with the states so far,
             for a solve that fails. Warns with SolverWarning of steps accepted at `min_step` and of stiffness.
    Source:  Hairer, Norsett and Wanner, Solving ODEs I; torchdiffeq for fixed steps; Tallec and Ollivier 2018, eq. (6), for
             the speed.
    """
    settings = checked_settings(method, rtol, atol, dt, adjoint, max_num_steps, min_step, memory, fused)
    check_field(field)
    checks.is_flag("progress", progress)
    # In half precision, as autocast would have it, a solver resolves the rounding of the field.
    with torch.autocast(_device_type(field), enabled=False):
        driven = Driven(field, path, speed)
        times = _inside(checks.are_times("ts", ts, 2, differentiable=True, strict=False), driven)
        check_batched_state(field, h0, driven.batch)
        checks.is_finite("h0", h0)
        driven.check_flow(times[0], h0)
        if settings.adaptive:
            _check_reach(settings.rtol, settings.atol, h0)
        if (settings.adjoint or settings.memory) and any(t.requires_grad for t in (times, driven.path.knots)):
            name = "adjoint" if settings.adjoint else "memory"
            raise ValueError(f"With `{name}` there are no gradients to times; detach them, or leave `{name}` out.")
        return _solve(driven, h0, times, settings, progress)


@dataclass(frozen=True)
class Settings:
    """How to solve, checked."""

    method: str | Step
    rtol: float
    atol: float
    dt: float | None
    max_num_steps: int
    min_step: float
    memory: float | None
    adjoint: bool
    fused: bool

    @property
    def adaptive(self) -> bool:
        return isinstance(self.method, str) and self.method in ADAPTIVE_METHODS

    def engine(self, tally: SolverStats) -> AdaptiveEngine | GridEngine | StepEngine:
        if not isinstance(self.method, str):
            return StepEngine(self.method, self.dt, tally)
        if self.method in FIXED_METHODS:
            return GridEngine(self.method, self.dt, tally)
        return AdaptiveEngine(self.method, self.rtol, self.atol, self.max_num_steps, self.min_step, tally)


def _solve(driven: Driven, h0: Tensor, times: Tensor, settings: Settings, progress: bool) -> Trajectory:
    chain = chain_of(driven, times)
    tally = SolverStats()
    engine = settings.engine(tally)
    flight = engine.start(chain, len(h0))
    tally.widen(len(flight.tau))
    kept, wanted = {0: h0}, chain.wanted()
    way_back = settings.adjoint and torch.is_grad_enabled()
    states, steps, taken = [h0.detach()], [flight.step], [tally.accepted.copy()]
    bar = _Progress(chain, progress)
    ran: dict = {"engine": "steps", "engine_why": None}
    stats: dict = {}

    def resume(h: Tensor, ts: Tensor) -> Tensor:
        with torch.autocast(_device_type(driven.field), enabled=False):
            return _solve(driven, h, ts, settings, False).hs

    def trajectory(status: str, hs: Tensor | None = None) -> Trajectory:
        stats.update(tally.stats(str(settings.method)) | ran)
        hs = chain.states(kept) if hs is None else hs
        return Trajectory(times[: len(hs)], hs, stats, status, resume)

    def arrived(edge: int, h: Tensor) -> None:
        if edge in wanted:
            kept[edge] = h
        if way_back:
            states.append(h)
            steps.append(flight.copy().step)
            taken.append(tally.accepted.copy())
        bar.show(edge)

    try:
        whole = _by_kernel(driven, chain, h0, engine, times, settings, bar, stats)
        if isinstance(whole, Solved):
            ran["engine"] = "compiled"
            kept |= dict(zip(whole.edges, whole.hs.unbind(0), strict=True))
            h = whole.hs[-1]
            if whole.failure is not None:
                raise whole.failure
        else:
            ran["engine_why"] = whole
            with torch.set_grad_enabled(torch.is_grad_enabled() and not way_back):
                h = Blocks(engine, chain, settings.memory, stats).run(h0, flight, arrived)
    except Failure as failure:
        raise SolverError(failure, trajectory(f"failed: {failure.cause}")) from None
    finally:
        bar.close()
    # One row of states for every requested time, as they came, where no two sequences ask for times of their own.
    solved = trajectory("completed", whole.hs if isinstance(whole, Solved) and not chain.own else None)
    if isinstance(engine, AdaptiveEngine):
        stats["hint"] = _hint(engine, chain, h)
    if way_back and isinstance(engine, AdaptiveEngine):
        return replace(solved, hs=AdjointBackward(engine, chain, states, steps, taken, stats).attach(solved.hs.detach(), h0))
    return solved


def _by_kernel(
    driven: Driven,
    chain: Chain,
    h0: Tensor,
    engine: AdaptiveEngine | GridEngine | StepEngine,
    times: Tensor,
    settings: Settings,
    bar: _Progress,
    stats: dict,
) -> Solved | str:
    """The whole solve by a compiled kernel, or why not."""
    if not isinstance(engine, AdaptiveEngine):
        return "steps of fixed length have no kernel"
    if settings.adjoint or settings.memory is not None:
        return f"`{'adjoint' if settings.adjoint else 'memory'}` has its own way back"
    return solve(driven, chain, h0, engine, times, settings.fused, bar.show, stats)


def _hint(engine: AdaptiveEngine, chain: Chain, h: Tensor) -> str | None:
    """What a solve that got there had better done; warned of where it cost a thousand steps, as are forced steps."""
    tally = engine.tally
    if tally.forced_at is not None:
        at, error = tally.forced_at
        warnings.warn(
            f"{tally.forced} step(s) were accepted at min_step={engine.min_step:g} in spite of their error, the first at "
            f"t = {at:g} with {error:.3g} tolerances; the result is not to the tolerance asked for.",
            SolverWarning,
            stacklevel=4,
        )
    row = int(tally.attempted.argmax())
    steps = int(tally.attempted[row])
    if steps <= 50 * len(chain):
        return None
    spans = chain.lengths.sum(0)
    typical = float(spans[row % len(spans)]) / max(1, int(tally.accepted[row]))
    zero = torch.zeros((), dtype=torch.float64, device=h.device)
    hint = stiff_hint(engine.method.implicit, chain.segment(len(chain) - 1), zero, h.detach(), row % len(h), typical)
    if hint and steps > 1000:
        warnings.warn(f"The solve took {steps} steps. {hint}", SolverWarning, stacklevel=4)
    return hint


def checked_settings(
    method: str | Step,
    rtol: float,
    atol: float,
    dt: float | None,
    adjoint: bool = False,
    max_num_steps: int = 1,
    min_step: float = 0.0,
    memory: float | None = None,
    fused: bool = True,
) -> Settings:
    """How to solve, as plain numbers; refuses what no solve could use, in the user's words."""
    if not isinstance(method, Step):
        _check_method_name(method)
    rtol, atol = checks.non_negative_number("rtol", rtol), checks.non_negative_number("atol", atol)
    if rtol == 0 and atol == 0:
        raise ValueError("`rtol` and `atol` are both 0, and no step is that exact; give one of them, say rtol=1e-5.")
    adaptive = isinstance(method, str) and method in ADAPTIVE_METHODS
    if dt is not None:
        dt = checks.positive_number("dt", dt)
        if adaptive:
            raise ValueError(
                f"`dt` is for fixed steps, and {method} chooses its own: set `rtol` and `atol`, or take a fixed-step "
                f"method ({', '.join(FIXED_METHODS)}) or a step map."
            )
    checks.positive_size("max_num_steps", max_num_steps)
    min_step = checks.non_negative_number("min_step", min_step)
    if min_step and not adaptive:
        raise ValueError(f"`min_step` is for methods that choose their steps, and {method} does not; set `dt`.")
    if memory is not None:
        memory = checks.positive_number("memory", memory)
    if checks.is_flag("adjoint", adjoint):
        _check_adjoint(method, memory)
    checks.is_flag("fused", fused)
    return Settings(method, rtol, atol, dt, max_num_steps, min_step, memory, adjoint, fused)


def _check_adjoint(method: str | Step, memory: float | None) -> None:
    if not isinstance(method, str) or method not in ADAPTIVE_METHODS:
        raise ValueError(
            f"`adjoint=True` solves the adjoint of the differential equation, and {method} makes steps that are not its "
            "solution: the gradient would be wrong. Leave it out; gradients then are those of the steps."
        )
    if ADAPTIVE_METHODS[method].implicit:
        raise ValueError(
            f"`adjoint=True` runs each step backwards, and over the long steps of {method} what forgets fast would explode. "
            "Leave it out; `memory` bounds what gradients then take."
        )
    if memory is not None:
        raise ValueError("`adjoint=True` keeps no steps, and `memory` is for those that are kept; give one of them.")


def _device_type(field: VectorField) -> str:
    return "cpu" if field.device is None or field.device.type == "meta" else field.device.type


def _inside(times: Tensor, driven: Driven) -> Tensor:
    if times.dim() > 1 and times.shape[1] != driven.batch:
        raise ValueError(f"`ts` has times for {times.shape[1]} sequences, the path has {driven.batch}.")
    if times.dim() > 1 or driven.knots.dim() > 1:
        ends = [knots.expand(driven.batch) for knots in (driven.knots[0], driven.knots[-1])]
        own = times if times.dim() > 1 else times[:, None].expand(-1, driven.batch)
        within = checks.within_own("ts", own, *ends)
        return within if times.dim() > 1 else times
    start, end = driven.interval
    times = checks.within("ts", times, start, end)
    if not bool((times.detach().diff() > 0).all()):
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

    def __init__(self, chain: Chain, wanted: bool) -> None:
        self.chain = chain
        self.wanted = wanted and sys.stderr.isatty()
        self.last, self.shown = time.monotonic(), False

    def show(self, edge: int) -> None:
        if not self.wanted or time.monotonic() - self.last < 0.2:
            return
        start, now, end = (float(self.chain.edges[j].detach().max()) for j in (0, edge, -1))
        sys.stderr.write(f"\rintegrate: t = {now:g} of {end:g} ({(now - start) / (end - start):.0%}) ")
        sys.stderr.flush()
        self.last, self.shown = time.monotonic(), True

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
