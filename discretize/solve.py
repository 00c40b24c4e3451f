r"""Exact integration: dh/dt = c'(t) field(x(t), h) from h(ts[0]) = h0, to a tolerance.

Every knot of the input and of its clock and every requested time is the end of a step. `integrate` checks what it is given and
joins it to one right-hand side; `Solve` runs that, by a kernel or by the steps of an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np
import torch
from torch import Tensor

from ctrnn import Driven, HeldPath, Path, VectorField, checks
from ctrnn.autocast import cast_for, casts, without_autocast
from ctrnn.calls import ORDERS
from ctrnn.combinations import Trait, refuse
from ctrnn.fields.computed import with_computed_weights
from ctrnn.fields.delayed import Delay, DelayedField
from ctrnn.fields.dropout import masked
from ctrnn.fields.field import check_batched_state, check_input
from ctrnn.inputs.splines import as_path
from discretize.graphs import whole
from discretize.kernels.eligibility import HALF, Fused
from discretize.loop.checking import (
    check_call,
    check_flow,
    check_settings,
    check_setup,
    check_solve,
    check_start,
    in_float32,
    stored_dtype,
    warn_of_atol,
)
from discretize.loop.delayed import solve_stepped
from discretize.loop.held import solve_held
from discretize.loop.solving import NoKernel, Solve, rounded
from discretize.noise.brownian import BrownianPath, Cells
from discretize.noise.generator import Seed, check_no_seed, fresh_keys
from discretize.settings import MAX_NUM_STEPS, Gradient, Method, Settings
from discretize.solvers.continuation import StatesBetween
from discretize.solvers.delays import History, solve_delayed
from discretize.solvers.engine import SolverStats
from discretize.solvers.equation import as_driven_field, driven_in, increasing_times, joined, times_within
from discretize.solvers.event_solve import EventSolve
from discretize.solvers.events import Event, checked_events
from discretize.solvers.fixed import FixedEngine, num_steps
from discretize.solvers.kept import StepLog
from discretize.solvers.stochastic import solve_path
from discretize.steps.along import HeldProblem
from discretize.steps.step import key_of
from discretize.trajectory import Trajectory

if TYPE_CHECKING:
    from discretize.kernels.plan import Plan

__all__ = ["integrate", "solve", "solve_samples", "solve_with_past"]

NUMBERS = frozenset({bool, int, float, str, type(None)})
MOST_PLANNED = 256  # fields and settings that a process remembers


@whole
def integrate(
    field: VectorField | Callable[..., Any],
    path: Path | None,
    h0: Tensor | Sequence[Tensor] | None = None,
    ts: Tensor | None = None,
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

        >>> solved = integrate(lambda t, h: -h, None, torch.ones(1, 1), torch.tensor([0.0, 1.0]))
        >>> round(solved.hs[-1].item(), 3)
        0.368

    Args:    field: a `VectorField`; path: its input, of as many sequences as there are states, or of one, which all read; None
             for a field without input. Or field: a function or module f(t, h), path: None; t is (batch, 1), and f acts on each
             sample by itself. h0: the state at ts[0], not given that in which a field begins, `initial_state`; for an f(t, h)
             perhaps several tensors (batch, ...), then h and dh/dt are tuples, and the result's `parts`. ts: times in the path's
             interval, always given, increasing, or decreasing to run backwards; shared, or for every sequence its own, which
             then may repeat.
             method: dopri5, tsit5, dopri8, bosh3, adaptive_heun, or rodas5p for stiff fields, a pair of your own
             (`EmbeddedRungeKutta`, `EmbeddedMethod`) or a `StepDoubling` of any step, whose estimated error per
             step is held below (rtol |h| + atol) / 8 in every unit of every sample, so that the result is within a few
             tolerances; or euler, midpoint, heun2, heun3 or rk4, or a step map by object or name, with equal steps between
             knots and requested times; for a field with noise a step map for it, or a `StepDoubling` of one; or
             "torchdiffeq:NAME", any method of the installed torchdiffeq, from knot to knot, all samples by the same steps, with
             `rtol`, `atol` and gradient=Adjoint() (its `odeint_adjoint`) as it takes them.
             atol: a number, or (state,), one for each unit.
             max_step: no step is longer, of fixed ones by more than the thousandth that float32 leaves open; None: one step
             between knots and requested times for methods of fixed steps, no bound for adaptive ones. An input or a field
             that reads time may have a pulse that longer steps do not see: then
             set it to half the length of the pulse, or put knots at its ends. first_step: the first one to try, of adaptive
             methods, in place of a guess from the field at the start. speed: c'(t), a warp's `speed` or a smooth function.
             gradient: None, that of the steps taken, all kept; `Checkpointed(bytes)`, the same in bounded memory;
             `Adjoint()`, that of the exact solution. progress: a bar on stderr, or of the notebook.
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
             need not end in h0. While a function is read that no polynomial gives to rounding, or a trajectory that is none of an
             adaptive solve with delays, as long as they are, all samples take the same steps. Adaptive methods solve all by the
             method of steps, with knots where jumps are seen again; steps of fixed length read between the states they ended
             with. Gradients go to delays and the history too. Forwards in time, events without `reset`.
             events: `Event`s, found to the tolerance of the solve, sample by sample; of fixed steps between their ends, a step
             to a time within one being the same step, shorter; after a stop steps begin anew, adaptive ones with the longest
             before it. Crossings nearer than rounding moves them are at one time. The result's `events` has what they crossed.
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
    if ts is None:
        raise TypeError(f"`integrate` needs `ts`. {ORDERS['integrate']}")
    h0 = _own_start(field, path) if h0 is None else h0
    given = (method, rtol, atol, max_step, gradient, max_num_steps, min_step, first_step, progress, fused, on_failure)
    plain = speed is seed is delays is history is None and not events
    if plain and (solved := _as_planned(field, path, h0, ts, given)) is not None:
        return solved
    settings = Settings(*given)
    settings.say_unread()
    if delays is not None or isinstance(field, DelayedField):
        drawn: dict[Trait, str] = {} if seed is None else {"noise": "seed"}
        return solve_with_past(field, path, h0, ts, settings, speed, events, delays, history, drawn)
    if history is not None:
        raise TypeError("`history` is for a ctrnn.DelayedField, or an equation with `delays`; this one reads no past.")
    solved = solve(field, path, h0, ts, settings, speed, events, seed=seed)
    if plain:
        _keep_plan(field, path, h0, solved, settings, given)
    return solved


def _own_start(field: object, path: Any) -> Tensor:
    """The state that a field starts from by itself, of as many sequences as its input has."""
    if not isinstance(field, VectorField | DelayedField):
        raise TypeError("`h0` is missing: an equation f(t, h) has no state of its own to start from. Give it, (batch, state).")
    return field.initial_state(1 if path is None else as_path(path).batch)


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
    by_steps = replace(settings, progress=False)
    happens = checked_events(events, None, 1) if events else ()
    times, direction = increasing_times(ts)
    reads: dict[Trait, str] = {"delays": type(field).__name__ if delays is None else "delays", **(noise or {})}
    if settings.noisy:
        reads.setdefault("noise", f"method={settings.method!r}")
    check_call(settings, reads, direction, times.requires_grad, happens)
    if happens and not settings.adaptive:
        refuse("stepped past", "events", f"method={settings.method!r} with delays", "events")

    def check(driven: Driven, times: Tensor, h: Tensor) -> None:
        check_solve(driven.field, driven, times, h, by_steps, by_steps.may_draw)

    def block(driven: Driven, first: bool, h: Tensor, times: Tensor, at_once: bool) -> tuple[Trajectory, SolverStats] | None:
        if first:
            check(driven, times, h)
        part = Solve(driven, h, times, by_steps, needs_kernel=at_once)
        try:
            return part.run(), part.engine.counts
        except NoKernel:
            return None

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
    search: Mapping[str, Any] | None = None,
    seed: Seed | BrownianPath | Cells = None,
) -> Trajectory:
    """Solve as `integrate` does, with settings that were checked before; search: how, for an `EventSolve`."""
    if isinstance(path, Tensor):
        got = f"`path` must be a ctrnn.inputs.Path, got {type(path).__name__}; wrap samples in `ctrnn.HeldPath`."
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
    check_call(settings, drawn, direction, times.requires_grad or path.knots.requires_grad, happens)
    if casts(field):  # under autocast, which samples and functions of time may not have in the field's dtype
        path = path.map(partial(Tensor.to, dtype=field.dtype), affine=True)
    if happens and isinstance(state, Tensor) and state.dtype in HALF:
        raise TypeError(f"`events` do not go with `h0` of {state.dtype}: they are found in float32 or float64. Convert it.")
    if stored := stored_dtype(settings, state):
        field, path, state = in_float32(field, path, state)
    with without_autocast(field.device):
        drawing = _drawn_once(seed, settings, state)
        plain = direction > 0 and speed is None and not happens
        if plain and (solved := _solve_held(given, field, path, state, ts if ts is path.knots else times, settings, drawing)):
            return solved
        driven = driven_in(direction, field, path, speed, state)
        _ = driven.projected  # here, in the caller's mode: checks run without gradients
        times = times_within(driven, times)
        check_setup(driven, times, state, settings)
        check = partial(check_flow, given, driven, times, state, settings, settings.may_draw and not happens)
        if happens:
            check()
            quiet = replace(settings, progress=False)

            def to_next_stops(h: Tensor, times: Tensor, steps: np.ndarray | None) -> tuple[Trajectory, SolverStats]:
                part = Solve(driven, h, times, quiet)
                part.engine.carried = steps
                part.direction = 1  # its times are those that are asked for
                if isinstance(part.engine, FixedEngine) and not torch.is_grad_enabled():
                    part.engine.log = StepLog()  # a look
                return part.run(), part.engine.counts

            more: Mapping[str, Any] = {
                "failures": (lambda h, times: Solve(driven, h, times, quiet).failures()) if settings.adaptive else None,
                "steps_in": None if settings.adaptive else partial(num_steps, max_step=settings.max_step),
                **(search or {}),
            }
            knots = [path.knots for path in (driven.path, driven.speed) if path is not None]
            solved = EventSolve(to_next_stops, happens, state, times, direction, knots=knots, **more).run()
        elif driven.batch:
            noise = solve_path(drawing, driven.path.knots, channels, state) if settings.noisy else None
            solved = Solve(driven, state, times, settings, stored, noise, check=check).run()
        else:
            check()
            solved = rounded(_empty_trajectory(driven, state, times, settings), stored)
    warn_of_atol(solved, settings)
    return solved if shapes is None else replace(solved, shapes=shapes)


def _drawn_once(seed: Seed | BrownianPath | Cells, settings: Settings, h0: Tensor) -> BrownianPath | Cells | None:
    """Return the noise of a solve, None for one without."""
    if isinstance(seed, BrownianPath | Cells):
        return seed
    return Cells(fresh_keys(seed, len(h0)), 0) if settings.noisy else None


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
    check = partial(check_start, given, field, xs, h0, times, settings)
    return _along_samples(field, path, xs, h0, times, settings, seed, check)


def _along_samples(
    field: VectorField,
    path: Path,
    xs: Tensor,
    h0: Tensor,
    times: Tensor,
    settings: Settings,
    seed: Cells | BrownianPath | None,
    check: Callable[[], object],
    plan: Plan | None = None,
) -> Trajectory | None:
    solution = solve_held(field, xs, h0, times, settings, seed, check, plan)
    if solution is None:
        return None

    def solve_on(h: Tensor, ts: Tensor) -> Tensor:
        with without_autocast(field.device):
            noise = solve_path(seed, path.knots, field.noise_channels, h0) if settings.noisy else None
            return Solve(driven_in(1, field, path, None, h), h.to(h0.dtype), ts, settings, noise=noise).run().hs

    hs = torch.cat([h0[None], solution[0]])
    between = StatesBetween(field, times, hs, solve_on, lambda: None, False, None if plan is None else plan.kept)
    if plan is not None:
        plan.kept = between.snapshot.found
    return Trajectory(times, hs, solution[1], between=between)


class _Planned(NamedTuple):
    """How a field that lives is solved with settings that were checked."""

    plan: Plan
    settings: Settings
    field: ref[VectorField]  # whose end is the plan's


_planned = dict[tuple[object, ...], _Planned]()  # by the ids of fields, whether there are gradients, and what was given


def _key_of(given: Sequence[object]) -> object:
    """What was given as settings, as a key; None for what may change, as tensors do."""
    method, *others = given
    kinds = [*map(type, others)]
    return (key_of(method), *others, *kinds) if NUMBERS.issuperset(kinds) else None


def _keep_plan(field: object, path: object, h0: object, solved: Trajectory, settings: Settings, given: Sequence[object]) -> None:
    """Keep how a field was solved, for others like it."""
    step = settings.fixed or settings.pair
    if step is None or solved.stats["engine"] != "compiled" or (key := _key_of(given)) is None:
        return
    if not (isinstance(field, VectorField) and type(path) is HeldPath and isinstance(h0, Tensor)):
        return
    if path.knots.dim() == 1 and path.xs.shape[:2] == (len(solved.hs) - 1, len(h0)):  # from sample to sample, each of its own
        from discretize.kernels.plan import plan_of_field  # noqa: PLC0415 - loads kernels

        problem = HeldProblem(field, step, path.xs, h0, 1.0, settings.pair is None)
        if (plan := plan_of_field(problem, settings.fused)) is not None:
            place = _place(field, path, key)
            _planned[place] = _Planned(plan, settings, ref(field, lambda _: _planned.pop(place, None)))
            if len(_planned) > MOST_PLANNED:
                _planned.pop(next(iter(_planned)))


def _place(field: object, path: HeldPath, key: object) -> tuple[object, ...]:
    return id(field), path.xs.requires_grad, torch.is_grad_enabled(), key


def _as_planned(field: object, path: object, h0: object, ts: object, given: Sequence[object]) -> Trajectory | None:
    """Solve as before from sample to sample, without deciding anew; None for what is not like that."""
    if not _planned or type(path) is not HeldPath or torch.compiler.is_compiling() or (key := _key_of(given)) is None:
        return None
    kept, knots = _planned.get(_place(field, path, key)), path.knots
    if kept is None or not isinstance(field, VectorField) or not kept.plan.fits(field, path.xs):
        return None
    if not (type(h0) is type(ts) is Tensor and h0.dim() == 2 and ts.dtype == torch.float64 and ts.device == knots.device):
        return None
    if ts.requires_grad or knots.requires_grad or knots.dim() > 1 or ts.shape != knots.shape or not torch.equal(ts, knots):
        return None
    h, times = kept.plan.start(field, path.xs, h0), ts.clone()
    if h is not None and kept.plan.solves:
        return solve_samples(field, HeldPath.unchecked(path.xs, times), h, kept.settings, kept.plan, dense=True)
    return h if h is None else _along_samples(field, path, path.xs, h, times, kept.settings, None, lambda: None, kept.plan)


@whole
def solve_samples(
    field: VectorField, path: Path, h0: Tensor, settings: Settings, plan: Plan | None = None, dense: bool = False
) -> Trajectory:
    """Solve along all knots of a path, without noise, what a sequence module has checked: samples, states and times, masks drawn
    and weights computed. plan: one that fits; dense: whether states between the knots may be asked for."""

    def check() -> None:
        settings.check_noise(field)
        check_flow(field, driven, times, state, settings, settings.may_draw)

    driven_field, state, stored = field, h0, None
    if plan is None and (stored := stored_dtype(settings, state)):
        driven_field, path, state = in_float32(field, path, state)
    times = path.knots
    with nullcontext() if plan else without_autocast(field.device):
        driven = Driven.unchecked(driven_field, path)
        _ = driven.projected  # as in `solve`
        if plan is None:
            check_settings(driven, times, state, settings)
        else:
            settings.check_reach(state)
        part = Solve(driven, state, times, settings, stored, dense=dense, check=check, plan=plan)
        solved = part.run()
        warn_of_atol(solved, settings, part.with_states_between)
    return solved


def _empty_trajectory(driven: Driven, h0: Tensor, times: Tensor, settings: Settings) -> Trajectory:
    """Return the trajectory of a batch of 0: no states, whose gradients are 0 and not missing, as in torch.nn."""
    start = driven.knots[0] if driven.knots.dim() > 1 else times[0]
    hs = (h0 + 0 * driven.field.flow(driven.projected(start) if start.dim() == 0 else h0.new_zeros(0, 0), h0))[None]
    stats = SolverStats().stats(str(settings.method))
    hs = hs.expand(len(times), *h0.shape)
    return Trajectory(driven.direction * times, hs, stats, between=lambda t: hs[:1].expand(len(t), *h0.shape))
