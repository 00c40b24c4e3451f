r"""Exact integration: dh/dt = c'(t) field(x(t), h) from h(ts[0]) = h0, to a tolerance.

Every knot of the input and of its clock and every requested time is the end of a step. `integrate` checks what it is given and
joins it to one right-hand side; `Solve` runs that, by a kernel or by the steps of an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from ctrnn import Driven, HeldPath, Path, TimePath, VectorField, checks
from ctrnn.autocast import cast_for, casts, without_autocast
from ctrnn.calls import ORDERS
from ctrnn.combinations import Trait, check_pairs, refuse
from ctrnn.extras import needed_by
from ctrnn.fields.computed import with_computed_weights
from ctrnn.fields.delayed import Delay, DelayedField
from ctrnn.fields.dropout import masked
from ctrnn.fields.field import check_batched_state, check_input, check_state
from ctrnn.fields.probes import COUPLED, couples_samples, moved
from ctrnn.inputs.splines import as_path
from discretize.errors import Failure, SolverError, SolverWarning, warn_user
from discretize.graphs import check_values, whole
from discretize.kernels.choose import run_fixed, run_solve, solve_by_steps
from discretize.kernels.eligibility import HALF, Fused, takes_triton
from discretize.kernels.price import KernelReady, Stopwatch, Waiting
from discretize.kernels.solved import Solved, SolveRequest
from discretize.loop.delayed import solve_stepped
from discretize.loop.held import solve_held
from discretize.noise.brownian import BrownianPath, Cells
from discretize.noise.generator import Seed, check_no_seed, fresh_keys
from discretize.settings import MAX_NUM_STEPS, Gradient, Method, Settings
from discretize.solvers.adaptive import AdaptiveEngine
from discretize.solvers.adjoint import Adjoint, AdjointBackward, EdgeLog
from discretize.solvers.checkpointing import Checkpointed, CheckpointedSolve
from discretize.solvers.continuation import Continuation, StatesBetween, StepLog
from discretize.solvers.delays import History, solve_delayed
from discretize.solvers.diagnosis import STIFF_STEPS, slow_hint
from discretize.solvers.doubling import DoublingEngine
from discretize.solvers.engine import Engine, SolverState, SolverStats
from discretize.solvers.equation import NumbersRefused, as_driven_field, driven_in, increasing_times, joined, times_within
from discretize.solvers.event_solve import WINDOWS, EventSolve
from discretize.solvers.events import Event, checked_events
from discretize.solvers.fixed import FixedEngine, OwnStep, num_steps
from discretize.solvers.segments import Chain, chain_of
from discretize.solvers.stochastic import solve_path
from discretize.trajectory import Trajectory

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = [
    "Solve",
    "check_solve",
    "check_start",
    "in_float32",
    "integrate",
    "named",
    "solve",
    "solve_samples",
    "solve_with_past",
    "stored_dtype",
    "warn_of_atol",
]

WARN_STEPS = 1_000  # of one sample: from here on it is warned of
LOOKS = 64  # at times between, where all states asked for are below `atol`
BAR: dict[str, Any] = {"desc": "integrate", "unit": "segment", "leave": False, "delay": 0.2}  # tqdm's, on stderr
CALLED: dict[Trait, str] = {"backwards": "decreasing ts", "moving times": "ts with a gradient", "events": "events"}
VMAPPED = (
    "the samples of a batch step on their own in one call, and `torch.func.jacrev` of their losses has a gradient for each; or "
    "take fixed steps: method='rk4', say, or a step map"
)


@whole
def integrate(
    field: VectorField | Callable[..., Any],
    path: Path | None,
    h0: Tensor | Sequence[Tensor],
    ts: Tensor,
    *,
    method: Method = "dopri5",
    rtol: float = 1e-5,
    atol: float | Tensor = 1e-7,
    max_step: float | None = None,
    speed: Path | Callable | None = None,
    gradient: Gradient = None,
    progress: bool = False,
    max_num_steps: int = MAX_NUM_STEPS,
    min_step: float = 0.0,
    first_step: float | None = None,
    fused: Fused = True,
    on_failure: str = "raise",
    events: Event | Sequence[Event] = (),
    seed: Seed | BrownianPath = None,
    delays: float | Sequence[Delay] | Tensor | None = None,
    history: History = None,
) -> Trajectory:
    r"""Solve dh/dt = speed(t) field(path(t), h) for the states at the times `ts`.

    Every sample takes steps of its own. Gradients flow through the steps that were taken, to parameters, samples of the
    path, h0, and times and knots that require one: a time moves the state that is asked for at it by dh/dt, the first one the
    whole solution; where knots move, or steps are equal ones, step sizes count as shares of the time between them. In float32
    states keep their dtype and times are float64 all the same, but f(t, h) and events read t in the dtype of h: count late times
    from the start. In bfloat16 and float16 adaptive methods solve on GPUs alone.

    Args:    field: a `VectorField`; path: its input, of as many sequences as there are states, or of one, which all read; None
             for a field without input. Or field: a function or module f(t, h), path: None; t is (batch, 1), and f acts on each
             sample by itself. h0: the state at ts[0]; for an f(t, h) perhaps several tensors (batch, ...), then h and dh/dt are
             tuples, and the result's `parts`. ts: times in the path's interval, increasing, or decreasing to run backwards;
             shared, or for every sequence its own, which then may repeat.
             method: dopri5, tsit5, dopri8, bosh3, adaptive_heun, or rodas5p for stiff fields, a pair of your own
             (`EmbeddedRungeKutta`, `EmbeddedMethod`) or a `StepDoubling` of any step, whose estimated error per
             step is held below (rtol |h| + atol) / 8 in every unit of every sample, so that the result is within a few
             tolerances; or euler, midpoint, heun2, heun3 or rk4, or a step map by object or name, with equal steps between
             knots and requested times; for a field with noise a step map for it, or a `StepDoubling` of one; or
             "torchdiffeq:NAME", any method of the installed torchdiffeq, from knot to knot, all samples by the same steps, with
             `rtol`, `atol` and gradient=Adjoint() (its `odeint_adjoint`) as it takes them.
             atol: a number, or (state,), one for each unit.
             max_step: no step is longer; None: one step between knots and requested times for methods of fixed steps, no
             bound for adaptive ones. An input or a field that reads time may have a pulse that longer steps do not see: then
             set it to half the length of the pulse, or put knots at its ends. first_step: the first one to try, of adaptive
             methods, in place of a guess from the field at the start. speed: c'(t), a warp's `speed` or a smooth function.
             gradient: None, that of the steps taken, all kept; `Checkpointed(bytes)`, the same in bounded memory;
             `Adjoint()`, that of the exact solution. progress: on stderr, if that is a terminal.
             max_num_steps: attempted by a sample between two knots or requested times; over the whole solve that and 1000
             more for each of these segments. min_step: steps this short are accepted whatever their error, with a warning.
             Both for adaptive methods.
             fused: solve by explicit pairs, rodas5p and steps of fixed length in a compiled kernel, which takes the same
             steps: True, "always" or False, as for `DiscreteRNN`; the environment variable CTRNN_FUSED=0 turns that off
             everywhere.
             seed: of the noise of a field that has some, whose method is a step for noise, as `EulerMaruyama()`: a whole number,
             (batch,) keys of the samples, a `BrownianPath`, or None, drawn from torch's generator. The cells of the path
             lie between the knots of the input, whatever steps and times are taken: the noise is that of a `DiscreteRNN` on the
             same samples. On a clock of `speed` c' the drift is multiplied by c', the noise by its root. Only forwards in time.
             delays: of an equation f(t, h, past), past[k] the state delay k ago: positive numbers, a tensor of them, which may
             require a gradient, or functions t -> d(t). A `DelayedField` has its own. history: what such a field or equation was
             before ts[0]: a state, held; a path; a function t -> (batch, state), or another `Trajectory`; None: h0, held. It
             need not end in h0. Adaptive methods solve all by the method of steps, with knots where jumps are seen again; steps
             of fixed length read between the states they ended with. Gradients go to delays and the history too. Forwards in
             time, events without `reset`.
             events: `Event`s, found to the tolerance of the solve, sample by sample; of fixed steps between their ends, a step
             to a time within one being the same step, shorter; after a stop steps begin anew. The result's `events` has what
             they crossed.
             on_failure: "raise" a SolverError, or "keep" the other samples, their states and gradients whole: of one that
             failed, states from then on are nan, none has a gradient, and `stats["status_of_samples"]` says why. For adaptive
             methods where samples step on their own.
             A field that draws random numbers at each call is refused, but by `euler` and step maps of one evaluation, which may
             draw at each step.
    Shape:   h0 (batch, state), ts (n,) or (n, batch) -> Trajectory with ts as given, hs (n, batch, state), hs[0] = h0.
    Raises:  TypeError, ValueError for what does not fit, before anything is solved; SolverError, with the states so far,
             for a solve that fails. Warns with SolverWarning of steps accepted at `min_step`, of stiffness, and of
             tolerances near the rounding of the dtype.
    Source:  Hairer, Norsett and Wanner, Solving ODEs I; Tallec and Ollivier 2018, eq. (6), for the speed.
    """
    settings = Settings(method, rtol, atol, max_step, gradient, max_num_steps, min_step, first_step, progress, fused, on_failure)
    if delays is not None or isinstance(field, DelayedField):
        drawn: dict[Trait, str] = {} if seed is None else {"noise": "seed"}
        return solve_with_past(field, path, h0, ts, settings, speed, events, delays, history, drawn)
    if history is not None:
        raise TypeError("`history` is for a ctrnn.DelayedField, or an equation with `delays`; this one reads no past.")
    return solve(field, path, h0, ts, settings, speed, events, seed=seed)


def solve_with_past(
    field: DelayedField | Callable[..., Any],
    path: Path | None,
    h0: Any,
    ts: Tensor,
    settings: Settings,
    speed: Path | Callable | None = None,
    events: Event | Sequence[Event] = (),
    delays: float | Sequence[Delay] | Tensor | None = None,
    history: History = None,
    noise: Mapping[Trait, str] | None = None,
) -> Trajectory:
    """Solve as `integrate` does a field with delays, with settings that were checked before; noise: that was asked for."""
    by_steps = replace(settings, fused=settings.fused and not settings.adaptive, progress=False)
    happens = checked_events(events, None, 1) if events else ()
    times, direction = increasing_times(ts)
    reads: dict[Trait, str] = {"delays": type(field).__name__ if delays is None else "delays", **(noise or {})}
    _check_call(settings, reads, direction, times.requires_grad, happens)
    if happens and not settings.adaptive:
        refuse("stepped past", "events", f"method={settings.method!r} with delays", "events")

    def check(driven: Driven, times: Tensor, h: Tensor) -> None:
        check_solve(driven.field, driven, times, h, by_steps, by_steps.may_draw)

    def block(driven: Driven, first: bool, h: Tensor, times: Tensor) -> tuple[Trajectory, SolverStats]:
        if first:
            check(driven, times, h)
        part = Solve(driven, h, times, by_steps)
        return part.run(), part.engine.counts

    solved = solve_delayed(field, path, h0, ts, by_steps, speed, delays, history, check, block, solve_stepped, happens)
    warn_of_atol(solved, settings)
    return solved


@whole
def solve(
    field: VectorField | Callable[..., Any],
    path: Path | None,
    h0: Tensor | Sequence[Tensor],
    ts: Tensor,
    settings: Settings,
    speed: Path | Callable | None = None,
    events: Event | Sequence[Event] = (),
    windows: int = WINDOWS,
    seed: Seed | BrownianPath | Cells = None,
) -> Trajectory:
    """Solve as `integrate` does, with settings that were checked before; windows: see `EventSolve`."""
    if isinstance(path, Tensor):
        got = f"`path` must be a ctrnn.Path, got {type(path).__name__}; wrap samples in `ctrnn.HeldPath`."
        raise TypeError(f"{got} {ORDERS['integrate']}")
    times, direction = increasing_times(ts)
    given, (state, shapes) = field, joined(h0)
    happens = checked_events(events, shapes, direction) if events else ()
    field, path = as_driven_field(field, path, state, shapes, direction * times, speed)
    settings.check_noise(field)
    channels, field = field.noise_channels, with_computed_weights(field)
    state, path = cast_for(field, state), as_path(path)
    if not settings.noisy:
        check_no_seed(seed)
    drawn: dict[Trait, str] = {"noise": type(field).__name__} if channels else {}
    _check_call(settings, drawn, direction, times.requires_grad or path.knots.requires_grad, happens)
    if casts(field):  # under autocast, which samples and functions of time may not have in the field's dtype
        path = path.map(partial(Tensor.to, dtype=field.dtype), affine=True)
    if happens and isinstance(state, Tensor) and state.dtype in HALF:
        raise TypeError(f"`events` do not go with `h0` of {state.dtype}: they are found in float32 or float64. Convert it.")
    if stored := stored_dtype(settings, state):
        field, path, state = in_float32(field, path, state)
    with without_autocast(field.device):
        if settings.noisy and not isinstance(seed, BrownianPath | Cells):
            seed = Cells(fresh_keys(seed, len(state)), 0)  # drawn once
        plain = direction > 0 and speed is None and not happens
        if plain and (solved := _solve_held(given, field, path, state, ts if ts is path.knots else times, settings, seed)):
            return solved
        driven = driven_in(direction, field, path, speed, state)
        _ = driven.projected  # here, in the caller's mode: checks run without gradients
        times = times_within(driven, times)
        _check_start(driven, times, state, settings)
        check = partial(_check_flow, given, driven, times, state, settings, settings.may_draw and not happens)
        if happens:
            check()

            def to_next_stops(h: Tensor, times: Tensor) -> tuple[Trajectory, SolverStats]:
                part = Solve(driven, h, times, replace(settings, progress=False))
                part.direction = 1  # its times are those that are asked for
                if isinstance(part.engine, FixedEngine) and not torch.is_grad_enabled():
                    part.engine.log = StepLog()  # a look
                return part.run(), part.engine.counts

            def failures(h: Tensor, times: Tensor) -> dict[int, Failure]:
                return Solve(driven, h, times, replace(settings, progress=False)).failures()

            known = {"failures": failures} if settings.adaptive else {"steps_in": partial(num_steps, max_step=settings.max_step)}
            knots = [path.knots for path in (driven.path, driven.speed) if path is not None]
            solved = EventSolve(to_next_stops, happens, state, times, direction, windows, knots=knots, **known).run()
        elif driven.batch:
            noise = solve_path(seed, driven.path.knots, channels, state) if settings.noisy else None
            solved = Solve(driven, state, times, settings, stored, noise, check=check).run()
        else:
            check()
            solved = _rounded(_empty_trajectory(driven, state, times, settings), stored)
    warn_of_atol(solved, settings)
    return solved if shapes is None else replace(solved, shapes=shapes)


def _solve_held(
    given: Any, field: VectorField, path: Path, h0: Tensor, times: Tensor, settings: Settings, seed: Cells | BrownianPath | None
) -> Trajectory | None:
    """Solve where the times that are asked for are the edges of held samples, and steps have one length; else return None."""
    if settings.fixed is None or type(path) is not HeldPath or not isinstance(h0, Tensor) or h0.dim() != 2:
        return None
    if times is not path.knots:
        differentiated = times.requires_grad or path.knots.requires_grad
        if differentiated or times.shape != path.knots.shape or not torch.equal(times, path.knots):
            return None
    check_input(field, path.xs, "path")
    check_batched_state(field, h0, len(h0) if path.xs.shape[1] == 1 else path.xs.shape[1])
    checks.is_finite("h0", h0)
    field, xs = masked(field, (len(h0),)), path.xs.expand(-1, len(h0), -1)
    found = solve_held(field, xs, h0, times, settings, seed, partial(check_start, given, field, xs, h0, times, settings))
    if found is None:
        return None

    def solve_on(h: Tensor, ts: Tensor) -> Tensor:
        with without_autocast(field.device):
            noise = solve_path(seed, path.knots, field.noise_channels, h0) if settings.noisy else None
            return Solve(driven_in(1, field, path, None, h), h.to(h0.dtype), ts, settings, noise=noise).run().hs

    hs = torch.cat([h0[None], found[0]])
    return Trajectory(times, hs, found[1], between=StatesBetween(field, times, hs, solve_on, lambda: None, False))


def check_start(given: Any, field: VectorField, xs: Tensor, h0: Tensor, edges: Tensor, settings: Settings) -> None:
    """Evaluate the field once at the start of held samples, and refuse what cannot be stepped so."""
    driven = Driven(field, HeldPath.unchecked(xs[:1], edges[:2]), None, len(h0))
    check_solve(given, driven, edges[:2], h0, settings, settings.may_draw)


@whole
def solve_samples(field: VectorField, path: Path, h0: Tensor, settings: Settings) -> Trajectory:
    """Solve along all knots of a path, without noise, what a sequence module has checked: samples, states and times, masks drawn
    and weights computed. Of the states those at the knots alone may be asked for."""

    def check() -> None:
        settings.check_noise(field)
        _check_flow(field, driven, times, state, settings, settings.may_draw)

    driven_field, state = field, h0
    if stored := stored_dtype(settings, state):
        driven_field, path, state = in_float32(field, path, state)
    times = path.knots
    with without_autocast(field.device):
        driven = Driven.unchecked(driven_field, path)
        _ = driven.projected  # as in `solve`
        _check_settings(driven, times, state, settings)
        part = Solve(driven, state, times, settings, stored, dense=False, check=check)
        solved = part.run()
        warn_of_atol(solved, settings, part.with_states_between)
    return solved


@torch.no_grad()
def warn_of_atol(solved: Trajectory, settings: Settings, again: Callable[[Trajectory], Trajectory] | None = None) -> None:
    """Warn where all states are smaller than the error they may have, unless steps are bounded, or no accuracy is asked for.

    again: gives the states between those of a solve that was not asked for them.
    """
    if not settings.adaptive or settings.max_step is not None or settings.rtol >= 1:
        return
    atol = settings.atol.to(solved.hs) if isinstance(settings.atol, Tensor) else settings.atol

    def are_below(hs: Tensor) -> bool:
        return bool((hs.abs() < atol).all())

    # The last state first: of most solves it is enough.
    if not (solved.hs.numel() and are_below(solved.hs[-1]) and are_below(solved.hs)) or not bool(solved.hs.any()):
        return
    solved = solved if again is None or solved.between is not None else again(solved)
    start, end = solved.ts.detach()[0], solved.ts.detach()[-1]
    shares = torch.linspace(0, 1, LOOKS, dtype=torch.float64, device="cpu").reshape(-1, *[1] * start.dim())
    if solved.between is not None and not are_below(solved(start + (end - start) * shares)):  # as after a pulse, at rest again
        return
    asked, largest = float(torch.as_tensor(settings.atol, device="cpu").max()), float(solved.hs.detach().abs().max())
    warn_user(
        f"All states of this solve stay below `atol`={asked:g}, the largest is {largest:.2g}: an error as large as they are "
        f"is within the tolerance. Give an `atol` in their unit, far below them, say {largest / 1000:.0e}.",
        SolverWarning,
    )


def check_solve(given: Any, driven: Driven, times: Tensor, state: Tensor, settings: Settings, may_draw: bool) -> None:
    """Refuse what cannot be solved so; `given`: the field as it came; may_draw: whether it may draw random numbers."""
    _check_start(driven, times, state, settings)
    _check_flow(given, driven, times, state, settings, may_draw)


def _check_flow(given: Any, driven: Driven, times: Tensor, state: Tensor, settings: Settings, may_draw: bool) -> None:
    """Evaluate the field once at the start; a kernel that is there for its code has been through that."""
    with nullcontext() if isinstance(given, VectorField) else NumbersRefused():
        slope = driven.check_flow(times[0], state, may_draw)
        _check_samples(given, driven, times, state, slope, settings)
    _check_readable(slope, settings)


def _check_readable(value: Tensor, settings: Settings) -> None:
    if settings.adaptive or settings.of_torchdiffeq:
        check_values(value, f"{settings.method} {'chooses' if settings.adaptive else 'takes'} its steps", VMAPPED)


def _check_start(driven: Driven, times: Tensor, state: Tensor, settings: Settings) -> None:
    check_batched_state(driven.field, state, driven.batch)
    checks.is_finite("h0", state)
    _check_settings(driven, times, state, settings)


def _check_settings(driven: Driven, times: Tensor, state: Tensor, settings: Settings) -> None:
    _check_readable(state, settings)
    settings.check_reach(state)
    moves = [driven.path.knots, *([times] if isinstance(settings.gradient, Adjoint) or not settings.adaptive else [])]
    if settings.gradient is not None and any(t.requires_grad for t in moves):
        what = "times" if times.requires_grad else "the times of samples"
        raise ValueError(f"`gradient`={settings.gradient} has no gradients to {what}; detach them, or leave `gradient` out.")


@torch.no_grad()
def _check_samples(given: Any, driven: Driven, times: Tensor, h: Tensor, slope: Tensor, settings: Settings) -> None:
    """Check once whether samples act on one another: with adaptive steps each steps on its own."""
    if len(h) < 2:
        return
    training, known = bool(getattr(given, "training", False)), True
    try:
        found = _couples.setdefault(given, {})
    except TypeError:  # what cannot be kept track of
        found = {}
    if training not in found:
        projected, known = driven.read_at(times[0]), False
        # A function of time is asked at times of the solve only.
        other = moved(projected) if isinstance(given, VectorField) else driven.read_at((times[0] + times[-1]) / 2)
        found[training] = couples_samples(driven.field, projected, h, other, slope)
    if found[training]:
        coupled: dict[Trait, str] = {"coupled samples": "field"}
        check_pairs(coupled | settings.traits)
    if found[training] and not known:
        warn_user(f"In this solve {COUPLED}", UserWarning)


_couples: MutableMapping[Any, dict[bool, bool]] = WeakKeyDictionary()  # of fields and functions: in training or not, its samples


def _check_call(settings: Settings, field: dict[Trait, str], direction: int, moving: bool, events: tuple[Event, ...]) -> None:
    """Refuse what does not go together in one call; field: its noise or its delays; moving: whether times have gradients."""
    called: dict[Trait, bool] = {"backwards": direction < 0, "moving times": moving, "events": bool(events)}
    if field or any(called.values()):
        check_pairs(field | {trait: CALLED[trait] for trait, there in called.items() if there} | settings.traits)


def _empty_trajectory(driven: Driven, h0: Tensor, times: Tensor, settings: Settings) -> Trajectory:
    """Return the trajectory of a batch of 0: no states, whose gradients are 0 and not missing, as in torch.nn."""
    start = driven.knots[0] if driven.knots.dim() > 1 else times[0]
    hs = (h0 + 0 * driven.field.flow(driven.projected(start) if start.dim() == 0 else h0.new_zeros(0, 0), h0))[None]
    stats = SolverStats().stats(str(settings.method))
    hs = hs.expand(len(times), *h0.shape)
    return Trajectory(driven.direction * times, hs, stats, between=lambda t: hs[:1].expand(len(t), *h0.shape))


def stored_dtype(settings: Settings, h0: object) -> torch.dtype | None:
    """Return the half precision that a solve in float32 has to store; None for other solves, or without such kernels."""
    if not settings.steps_alone or not isinstance(h0, Tensor) or h0.dtype not in HALF:
        return None
    return h0.dtype if takes_triton(h0.device) else None


def in_float32(field: VectorField, path: Path, h0: Tensor) -> tuple[VectorField, Path, Tensor]:
    """Convert to float32. Raises TypeError, ValueError where field, path and state are not of one dtype."""
    from discretize.kernels.record.program import weights_of, with_weights  # noqa: PLC0415 - of kernels

    check_state(field, h0, "h0")
    check_input(field, path(path.knots[:1].detach())[0], "path")
    wide = with_weights(field, [w.float() if w.dtype in HALF else w for w in weights_of(field)])
    if isinstance(path, TimePath):  # time itself is not rounded
        return wide, TimePath(path.knots, path.batch, torch.float32, h0.device), h0.float()
    return wide, path.map(Tensor.float, affine=True), h0.float()


def _rounded(solved: Trajectory, dtype: torch.dtype | None) -> Trajectory:
    """Round the states to that dtype, also those between."""
    if dtype is None:
        return solved
    between = solved.between
    return replace(solved, hs=solved.hs.to(dtype), between=None if between is None else lambda t: between(t).to(dtype))


class Solve:
    r"""Runs a solve that was checked, and gives it its gradient, statistics and warnings.

    Args:    driven: field, path and speed; h0 (batch, state); times: the requested ones; settings: how. stored: a dtype in which
             the states are given back, and a kernel stores what it can; noise: the path of a method for fields with noise; dense:
             whether the states between the times may be asked for, for which steps and weights are kept; check: of the field,
             made where no kernel is known for it.
    Raises:  SolverError, with the states so far, for a solve that fails; TypeError where there is no such kernel.
    """

    driven: Driven
    times: Tensor
    settings: Settings
    stored: torch.dtype | None
    noise: BrownianPath | None
    h0: Tensor
    kept: dict[int, Tensor]

    def __init__(
        self,
        driven: Driven,
        h0: Tensor,
        times: Tensor,
        settings: Settings,
        stored: torch.dtype | None = None,
        noise: BrownianPath | None = None,
        dense: bool = True,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.driven, self.times, self.settings, self.stored, self.noise = driven, times, settings, stored, noise
        self.direction: int = driven.direction
        self.dense = dense
        self.check: Callable[[], None] = _once(check)  # no method: kernels' graphs keep it
        self.chain: Chain = self._segments()
        self.h0 = h0 = self.chain.begun(h0)
        self.stats: dict[str, Any] = {}
        self.engine: Engine = self._new_engine()
        self.kept = {0: h0}  # of steps
        self.kernel: Solved | None = None  # what a kernel gave
        self.why: str | None = None  # no engine that comes before the one that ran
        self.log: EdgeLog | None = None  # for the adjoint
        if isinstance(settings.gradient, Adjoint) and settings.steps_alone and torch.is_grad_enabled():
            self.log = EdgeLog()
            self.log.add(h0, self.engine.start(self.chain, len(h0)), self.engine.counts)

    def _segments(self) -> Chain:
        return chain_of(self.driven, self.times, by_slope=self.settings.adaptive)

    def run(self) -> Trajectory:
        with _bar(len(self.chain), self.settings.progress) as self.bar:
            self._try_kernel(self.settings.fused)
            if self.stored and self.kernel is None:
                raise self._too_coarse()
            try:
                h = self._at_end()
            except Failure as failure:
                self._count()
                self.dense = True  # what was reached is looked at
                failure = named(failure, self.driven.field)
                if self.settings.on_failure == "keep" and (self.chain.own or self.chain.own_times):
                    return self._without_failed()
                raise SolverError(failure, self._trajectory(f"failed: {failure.cause}", failure.edge)) from None
        self._count()
        solved = self._trajectory("completed")
        if isinstance(self.engine, AdaptiveEngine | DoublingEngine):
            self._warn_of_forced_steps(self.engine)
        if isinstance(self.engine, AdaptiveEngine):
            self.stats["hint"] = self._hint(self.engine, h)
            if self.log is not None:
                adjoint = AdjointBackward(self.engine, self.chain, self.log, self.stats)
                hs = adjoint.attach(solved.hs.detach(), self.h0)
                return replace(solved, hs=hs, between=self._between(hs) if self.dense else None)
        return solved

    def _too_coarse(self) -> TypeError:
        return TypeError(
            f"`h0` is {self.stored}, too coarse for steps chosen by their error but in a kernel for GPUs, and there is none: "
            f"{self.why}. Use float32 or float64, or fixed steps."
        )

    def _at_end(self) -> Tensor:
        """Return the states at the end, by steps that give way to a kernel where they take long, or by the one there is."""
        if self.kernel is None:
            self.check()
            self.state: SolverState = self.engine.start(self.chain, len(self.h0))  # a kernel may have begun and given up
            engine = self.engine
            engine.look = partial(self._look, Stopwatch(), torch.is_grad_enabled())
            try:
                return self._by_steps(self.h0, self.state, self._at_edge)
            except KernelReady:
                self.kept = {0: self.h0}
            finally:
                engine.look = None  # graphs of blocks keep the engine, and a Solve keeps the states
        assert self.kernel is not None
        return self._take(self.kernel)

    def _look(self, watch: Stopwatch, graph: bool) -> bool:
        """Return once that the solve takes long. Raises: KernelReady where a kernel is to be had by then."""
        if not watch.rings():
            return False
        if isinstance(self.why, Waiting):
            engine, self.engine = self.engine, self._new_engine()
            with torch.set_grad_enabled(graph):
                self._try_kernel("always")
            if self.kernel is not None:
                raise KernelReady
            self.engine = engine
        return True

    def _new_engine(self) -> Engine:
        engine = self.settings.engine(self.h0, self.stats, self.noise)
        # Gradients to times move the steps: a state between is then solved for.
        keeps = self.dense and self.settings.gradient is None
        keeps = keeps and not self.chain.differentiable and self.chain.requested is None
        if keeps and isinstance(engine, AdaptiveEngine):
            engine.log = StepLog()
        return engine

    def _try_kernel(self, fused: Fused) -> None:
        """Run the whole solve by a compiled kernel, if there is one."""
        settings = self.settings
        if settings.of_torchdiffeq or isinstance(self.engine, DoublingEngine):
            self.why = "torchdiffeq has no kernels" if settings.of_torchdiffeq else "solves with noise have no kernel"
        elif isinstance(settings.gradient, Adjoint):
            self.why = f"`gradient`={settings.gradient} takes its own backward pass"
        elif settings.on_attempt is not None:
            self.why = "every step that is tried is called back"
        elif isinstance(self.engine, FixedEngine):
            self.check()
            self.engine.start(self.chain, len(self.h0))
            if isinstance(settings.gradient, Checkpointed):
                self.why = f"`gradient`={settings.gradient} takes fixed steps one by one"
            elif isinstance(found := run_fixed(self.chain, self.engine, self.h0, fused), Solved):
                self.kernel, self.why = found, None
            else:
                self.why = found
        else:
            assert isinstance(self.engine, AdaptiveEngine)
            memory = settings.gradient.bytes if isinstance(settings.gradient, Checkpointed) else None
            # Not a method: the states' graph keeps what the kernel was called with, and a Solve keeps the states.
            show = partial(_show, self.bar)
            how = (show, self.stats, memory, self.stored, self.dense, self.check)
            request = SolveRequest(self.chain, self.h0, self.engine, *how)
            found, self.why = run_solve(request, fused)
            if isinstance(found, Solved):
                self.kernel = found
            else:
                self.why = found

    def _take(self, kernel: Solved) -> Tensor:
        if kernel.failure is not None:
            raise kernel.failure
        return kernel.hs[-1].to(self.h0.dtype)

    def _by_steps(self, h0: Tensor, state: SolverState, at_edge: Callable[[int, Tensor], None]) -> Tensor:
        gradient, graph = self.settings.gradient, torch.is_grad_enabled() and self.log is None
        with torch.set_grad_enabled(graph), solve_by_steps(self.chain, self.engine, self.settings.fused):
            if isinstance(gradient, Checkpointed) and graph:
                return CheckpointedSolve(self.engine, self.chain, gradient.bytes, self.stats).run(h0, state, at_edge)
            return self.engine.solve(self.chain, h0, state, at_edge)

    @cached_property
    def wanted(self) -> frozenset[int]:
        """The edges whose states are kept."""
        return frozenset(self.chain.wanted().tolist())

    def _at_edge(self, edge: int, h: Tensor) -> None:
        if edge in self.wanted:
            self.kept[edge] = h
        if self.log is not None:
            self.log.add(h, self.state, self.engine.counts)
        _show(self.bar, edge)

    def _without_failed(self) -> Trajectory:
        """Solve step by step, leaving samples behind where they fail; and once more without them, for the graph."""
        self.kernel, self.why = None, "samples failed, and others were kept"
        with torch.no_grad():
            kept, failures = self._left_behind(self.h0.detach(), [])
        bad = self._of(failures)
        for edge, h in kept.items():
            over = self._of(sample for sample, (segment, _) in failures.items() if edge > segment)
            kept[edge] = h.masked_fill(over, torch.nan)
        if torch.is_grad_enabled():
            whole, _ = self._left_behind(self.h0, list(failures))
            kept = {edge: torch.where(bad, kept[edge], h) for edge, h in whole.items()}
        self.kept = kept
        self._count()
        status = ["completed"] * len(self.h0)
        for sample, (_, failure) in failures.items():
            status[sample] = f"failed at t = {failure.time:g}: {failure.cause}"
        self.stats["status_of_samples"] = status
        said = f"completed but for {len(failures)} of {len(self.h0)} samples"
        return replace(self._trajectory(said), between=None)

    @torch.no_grad()
    def failures(self) -> dict[int, Failure]:
        """Return which samples fail, and why, of a solve whose samples step on their own."""
        return {sample: failure for sample, (_, failure) in self._left_behind(self.h0, [])[1].items()}

    def _of(self, samples: Iterable[int]) -> Tensor:
        """Return a mask of these samples, (batch, 1), on the device of the states."""
        found = torch.zeros(len(self.h0), 1, dtype=torch.bool, device="cpu")
        found[list(samples)] = True
        return found.to(self.h0.device)

    def _left_behind(self, h0: Tensor, known: list[int]) -> tuple[dict[int, Tensor], dict[int, tuple[int, Failure]]]:
        """Return the states at the wanted edges, and why samples failed; the `known` ones are left out from the start."""
        self.engine = engine = self.settings.engine(h0, self.stats)
        assert isinstance(engine, AdaptiveEngine)
        state, kept = engine.start(self.chain, len(h0)), {0: h0.clone()}
        state.failed = np.isin(np.arange(len(h0)), known)

        def keep(edge: int, h: Tensor) -> None:
            if edge in self.wanted:
                kept[edge] = h if torch.is_grad_enabled() else h.clone()

        self._by_steps(h0, state, keep)
        return kept, engine.failures

    def _count(self) -> None:
        ran = {
            "engine": self.engine.name if self.kernel is None else self.kernel.engine,
            "engine_why": self.why and str(self.why),
        }
        self.stats.update(self.engine.counts.stats(str(self.settings.method)) | ran)

    def _trajectory(self, status: str, last: int | None = None) -> Trajectory:
        """Return the states at the requested times, up to the last edge."""
        if self.kernel is not None:
            edges, hs = self.kernel.edges, self.kernel.hs if self.chain.requested is None else self.kernel.hs.to(self.h0.dtype)
        else:
            edges = np.array(sorted(self.kept))
            hs = torch.stack([self.kept[edge].to(self.h0.dtype) for edge in edges.tolist()])
        reached = len(edges) if last is None else int((edges <= last).sum())
        hs = self.chain.states(edges[:reached], hs[:reached], by_kernel=self.kernel is not None)
        ts = self.times[: len(hs)]
        between = self._between(hs) if self.dense else None
        return _rounded(Trajectory(ts if self.direction > 0 else -ts, hs, self.stats, status, between), self.stored)

    def with_states_between(self, solved: Trajectory) -> Trajectory:
        """Return what `run` gave with the states between its times, of the field as it is now."""
        return replace(solved, between=self._between(solved.hs))

    def _between(self, hs: Tensor) -> Callable[[Tensor], Tensor]:
        has_graph = self.kernel is None
        between = StatesBetween(self.driven.field, self.times[: len(hs)], hs, self._solve_on, self._continuation, has_graph)
        return between if self.direction > 0 else lambda t: between(-t)

    def _continuation(self) -> Continuation | None:
        """Return the steps that were taken, if they were kept."""
        if not isinstance(self.engine, AdaptiveEngine | FixedEngine) or self.engine.log is None:
            return None
        method = self.engine.control.method if isinstance(self.engine, AdaptiveEngine) else OwnStep(self.engine)
        # A kernel's samples step on their own, whatever drives them.
        chain, log = (self.chain, self.engine.log) if self.kernel is None else (self.kernel.chain, self.kernel)
        steps = log.steps()
        return None if steps is None else Continuation(method, chain, steps)

    def _solve_on(self, h: Tensor, ts: Tensor) -> Tensor:
        """Solve on from a known state, with the same settings."""
        with without_autocast(self.driven.field.device):
            settings = replace(self.settings, progress=False)
            return Solve(self.driven, h.to(self.h0.dtype), ts, settings, noise=self.noise).run().hs

    def _warn_of_forced_steps(self, engine: AdaptiveEngine | DoublingEngine) -> None:
        if engine.counts.forced_at is None:
            return
        at, error = engine.counts.forced_at
        warn_user(
            f"{engine.counts.forced} step(s) were accepted at min_step={self.settings.min_step:g} in spite of their error, the "
            f"first at t = {at:g} with {error:.3g} tolerances; the result is not to the tolerance asked for.",
            SolverWarning,
        )

    def _hint(self, engine: AdaptiveEngine, h: Tensor) -> str | None:
        """Return what would have been easier; warn if it cost many steps."""
        chain, counts = self.chain, engine.counts
        row = int(counts.attempted.argmax())
        steps = int(counts.attempted[row])
        if steps <= STIFF_STEPS * len(chain):
            return None
        spans = chain.lengths.sum(0)
        typical = float(spans[row % len(spans)]) / max(1, int(counts.accepted[row]))
        start = torch.zeros((), dtype=checks.time_dtype(h.device), device=h.device)
        last = chain.segment(len(chain) - 1)
        hint = slow_hint(engine.control.method.implicit, last, start, h.detach(), row % len(h), typical)
        if hint and steps > WARN_STEPS and not engine.warned:
            warn_user(f"The solve took {steps} steps. {hint}", SolverWarning)
        return hint


def _once(work: Callable[[], None] | None) -> Callable[[], None]:
    """Do something at the first call alone."""
    left = [work] if work else []

    def run() -> None:
        while left:
            left.pop()()

    return run


def _bar(edges: int, shown: bool) -> AbstractContextManager[tqdm[NoReturn] | None]:
    if not shown:
        return nullcontext()
    with needed_by("integrate(progress=True)"):
        from tqdm import tqdm  # noqa: PLC0415 - which solves without a bar do not need
    return tqdm(total=edges, disable=None, **BAR)


def _show(bar: tqdm[NoReturn] | None, edge: int) -> None:
    if bar is not None:
        bar.update(edge - bar.n)


def named(failure: Failure, field: VectorField) -> Failure:
    """Name a weight that is not finite as the cause: whatever it reaches, the input's projection too, is so then."""
    for name, parameter in field.named_parameters():
        bad = parameter.detach()[~torch.isfinite(parameter.detach())]
        if len(bad):
            hint = "Weights become so where training diverges: load them from before, and train at a smaller rate."
            return replace(failure, cause=f"the field's parameter `{name}` holds {float(bad[0])}", hint=hint)
    return failure
