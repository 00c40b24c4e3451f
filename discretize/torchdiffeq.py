r"""Offer torchdiffeq's functions on the solvers of this library: change the import, and nothing else.

    from discretize.torchdiffeq import odeint, odeint_adjoint, odeint_event

    dy/dt = func(t, y)        y of any shape, or a tuple of tensors: one system, one step for all of it
                              options={"per_sample": True}: y (batch, ...), each sample takes its own steps

The tolerance holds for every unit, not for a mean over all of them. `rtol` is never below the rounding of y0's dtype, as
torchdiffeq's default is in float32; another that is below is raised with a warning. `atol` is what was given; its
default is at least that rounding of where each unit begins. Methods that are missing here, such as `implicit_adams`, and events
on fixed steps are solved by torchdiffeq itself.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from ctrnn import Driven, TimePath, checks
from ctrnn.extras import needed_by
from discretize.kernels.eligibility import refuse_steps
from discretize.loop.rows import by_kernel, forbids_kernel, samples_of, steps_in_place_of
from discretize.loop.solving import NoKernel
from discretize.settings import Settings
from discretize.solve import solve
from discretize.solvers.adaptive import ADAPTIVE_METHODS
from discretize.solvers.adjoint import Adjoint
from discretize.solvers.by_torchdiffeq import torchdiffeq_methods
from discretize.solvers.checkpointing import Checkpointed
from discretize.solvers.continuation import INTERPOLATED
from discretize.solvers.engine import OnAttempt
from discretize.solvers.equation import Equation
from discretize.solvers.event_graph import StatesBetweenStops
from discretize.solvers.events import CrossingTime, Event
from discretize.solvers.fixed import FIXED_METHODS
from discretize.solvers.layout import ATOL, RTOL, CalledFlow, Function, Layout, State, first_of, parts_of
from discretize.trajectory import Trajectory

__all__ = ["SOLVERS", "odeint", "odeint_adjoint", "odeint_event"]  # noqa: F822 - made when it is asked for

HERE = {**ADAPTIVE_METHODS, **FIXED_METHODS}
FARTHEST = 2.0**80  # how far is looked for an event, in windows that double
SHORTEST = 2.0**-16  # of the first one, which lasts 1, or less where the state changes faster:
CHANGES = 2.0  # times as long as it takes to change by its size
BYTES = 2.0**28  # that `odeint_adjoint` keeps of fixed steps
CALLBACKS = ("callback_step", "callback_accept_step", "callback_reject_step")
BOUNDS = ("min_step", "max_step", "first_step", "max_num_steps")  # of methods that choose their steps
OPTIONS = {"per_sample", "jump_t", "step_t", "fused"}
ADAPTIVE_OPTIONS, FIXED_OPTIONS = OPTIONS | {*BOUNDS}, OPTIONS | {"step_size", "grid_constructor", "interp"}
REFUSED = {
    "norm": "the error is the largest over all units, so that tolerances hold in each",
    "perturb": "name the times at which `func` jumps, options={'jump_t': ...}, and it is evaluated on both sides of them",
    "dtype": "times are float64 here, whatever the state is",
    **dict.fromkeys(("safety", "ifactor", "dfactor"), "the next step is chosen by a rule of this library's own"),
}


def odeint(
    func: Function,
    y0: State,
    t: Tensor,
    *,
    rtol: float | Tensor = RTOL,
    atol: float | Tensor | Sequence[float | Tensor] = ATOL,
    method: str | None = None,
    options: Mapping[str, Any] | None = None,
    event_fn: Function | None = None,
) -> Any:
    r"""Solve dy/dt = func(t, y) from y(t[0]) = y0, as torchdiffeq's function of this name.

    Args:    func: t () and y like y0 -> dy/dt. If it has `callback_step`, `callback_accept_step` or `callback_reject_step`, these
             are called with (t0, y0, dt) after each attempted step. y0: a tensor of any shape, or a tuple of them. t: increasing
             or decreasing, perhaps with a gradient. rtol: a number; atol: a number, one for each tensor of a tuple, or a tensor
             like y0. method: a name in `SOLVERS`; dopri5 if None.
             options: "jump_t", times at which func jumps, evaluated on both sides (the knots of a `ctrnn.Driven` are added);
             "step_t", times at which steps end; for adaptive methods "min_step", "max_step", "first_step", "max_num_steps"; for
             fixed steps "step_size" and "grid_constructor" (steps end at every time in t, so "interp" changes nothing);
             "fused": True, a kernel where there is one (docs/torchdiffeq.md), "always" or False, as for `integrate`;
             "per_sample": True, each sample of y (batch, ...) takes its own steps: func then gets t as (batch, 1, ...), and
             sometimes only some of the samples, so it must treat each by itself.
             event_fn: (t, y) -> numbers; the solve ends where one of them is 0, and t gives the start and the direction only.
             With "per_sample": (batch,), and every sample ends at its own time.
    Shape:   t (n,) -> (n, *y0.shape), or a tuple of such; with `event_fn` (event_t, (2, *y0.shape)), event_t () or (batch,).
    Raises:  ValueError for options that have no meaning here, with what to do instead, and for what does not fit; SolverError
             for a solve that fails.
    Source:  Chen, torchdiffeq, https://github.com/rtqichen/torchdiffeq.
    """
    if not _is_here(method, event_fn):
        _refuse_per_sample(options, method)
        return _theirs("odeint")(func, y0, t, rtol=rtol, atol=atol, method=method, options=options, event_fn=event_fn)
    problem = _Problem(func, y0, t, rtol, atol, method, options)
    return problem.solution(t, y0) if event_fn is None else problem.solution_to_event(t, y0, event_fn)


def odeint_adjoint(
    func: Function,
    y0: State,
    t: Tensor,
    *,
    rtol: float | Tensor = RTOL,
    atol: float | Tensor | Sequence[float | Tensor] = ATOL,
    method: str | None = None,
    options: Mapping[str, Any] | None = None,
    event_fn: Function | None = None,
    adjoint_rtol: float | Tensor | None = None,
    adjoint_atol: float | Tensor | Sequence[float | Tensor] | None = None,
    adjoint_method: str | None = None,
    adjoint_options: Mapping[str, Any] | None = None,
    adjoint_params: Sequence[Tensor] | None = None,
) -> Any:
    r"""Solve as `odeint` does, with gradients in bounded memory, as torchdiffeq's function of this name.

    Explicit adaptive methods solve the adjoint equation, as `Adjoint` does: its step sizes ignore the integrals over parameters,
    like torchdiffeq's "seminorm". Other methods differentiate the steps that were taken, in blocks, as `Checkpointed` does.

    Args:    as of `odeint`; adjoint_params: tensors that func uses besides its own parameters, if it is a module.
             adjoint_rtol, adjoint_atol: not below rtol and atol, to which the backward pass keeps. func's
             `callback_step_adjoint` and the like are called after each step of the backward pass.
    Shape:   as of `odeint`.
    Raises:  as `odeint`; ValueError for tensors that require a gradient and are none of these, and for settings of the adjoint
             that would have no effect.
    Source:  Chen et al. 2018, Neural ordinary differential equations.
    """
    if adjoint_params is None and not isinstance(func, nn.Module):
        raise ValueError("`func` must be a torch.nn.Module, whose parameters get gradients, or `adjoint_params` must name them.")
    backwards: dict[str, Any] = {"rtol": adjoint_rtol, "atol": adjoint_atol, "method": adjoint_method, "options": adjoint_options}
    if not (_is_here(method, event_fn) and _is_here(adjoint_method or method, event_fn)):
        _refuse_per_sample(options, method)
        given = {f"adjoint_{name}": value for name, value in backwards.items()} | {"adjoint_params": adjoint_params}
        forwards = {"rtol": rtol, "atol": atol, "method": method, "options": options, "event_fn": event_fn}
        return _theirs("odeint_adjoint")(func, y0, t, **forwards, **given)
    problem = _Problem(func, y0, t, rtol, atol, method, options, tuple(adjoint_params or ()))
    problem.solve_backwards_by(**backwards)
    return problem.solution(t, y0) if event_fn is None else problem.solution_to_event(t, y0, event_fn)


def odeint_event(
    func: Function,
    y0: State,
    t0: Tensor,
    *,
    event_fn: Function,
    reverse_time: bool = False,
    odeint_interface: Callable[..., Any] = odeint,
    **settings: Any,
) -> Any:
    r"""Solve from t0 until an event, as torchdiffeq's function of this name; the time and the state there have gradients.

    Args:    as of `odeint`; t0: (); reverse_time: go back from t0; odeint_interface: `odeint` or `odeint_adjoint` of this module.
    Shape:   (event_t, (2, *y0.shape)), or a tuple of such.
    Raises:  as `odeint`.
    Source:  Chen, Amos and Nickel 2021, "Learning neural event functions for ordinary differential equations".
    """
    ours = {odeint: "odeint", odeint_adjoint: "odeint_adjoint"}
    is_theirs = str(getattr(odeint_interface, "__module__", "")).partition(".")[0] == "torchdiffeq"
    if is_theirs or (odeint_interface in ours and not _is_here(settings.get("method"), event_fn)):
        interface = odeint_interface if is_theirs else _theirs(ours[odeint_interface])
        given = {"event_fn": event_fn, "reverse_time": reverse_time, "odeint_interface": interface}
        return _theirs("odeint_event")(func, y0, t0, **given, **settings)
    start = t0.reshape(())
    t = torch.stack([start, start.detach() + (-1.0 if reverse_time else 1.0)])
    return odeint_interface(func, y0, t, event_fn=event_fn, **settings)


def __getattr__(name: str) -> Any:
    if name == "SOLVERS":  # by name: what this library has, and what torchdiffeq solves
        return {**torchdiffeq_methods(), **HERE}
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _theirs(name: str) -> Callable[..., Any]:
    with needed_by(f"discretize.torchdiffeq, for torchdiffeq's own {name},"):
        return getattr(import_module("torchdiffeq"), name)  # it loads SciPy


def _is_here(method: str | None, event_fn: object) -> bool:
    """Return whether this library solves it, and not torchdiffeq. Raises: ValueError for a method that neither has."""
    if method is None or method in HERE:
        return method not in FIXED_METHODS or event_fn is None
    if method not in torchdiffeq_methods():
        raise ValueError(f'Invalid method "{method}". Must be one of {", ".join({**HERE, **torchdiffeq_methods()})}.')
    return False


def _refuse_per_sample(options: Mapping[str, Any] | None, method: str | None) -> None:
    if "per_sample" in (options or {}):
        raise ValueError(
            f"options={{'per_sample': ...}} needs a method of this library that chooses its steps; {method} is none."
        )


def _check_options(options: Mapping[str, Any], method: str) -> None:
    known = ADAPTIVE_OPTIONS if method in ADAPTIVE_METHODS else FIXED_OPTIONS
    for name, value in options.items():
        if name not in known and not (name == "perturb" and value is False):
            reason = REFUSED.get(name, f"{method} knows {', '.join(sorted(known))}")
            raise ValueError(f"options={{{name!r}: ...}} has no meaning here: {reason}.")


class _Problem:
    """Solves a system of torchdiffeq's as the equation of a batch."""

    def __init__(
        self,
        func: Function,
        y0: State,
        t: Tensor,
        rtol: float | Tensor,
        atol: float | Tensor | Sequence[float | Tensor],
        method: str | None,
        options: Mapping[str, Any] | None,
        params: Sequence[Tensor] = (),
    ) -> None:
        if not isinstance(options, Mapping | None):
            raise TypeError(f"`options` must be a dict of options by name, got {options!r}.")
        given, method = dict(options or {}), method or "dopri5"
        times = checks.as_times("t", checks.is_tensor("t", t), differentiable=True)
        first = times.detach().reshape(-1)[:2].diff()
        checks.are_stamps("t", -times if len(first) and bool(first < 0) else times, given=t.dtype)
        _check_options(given, method)
        alone = checks.is_flag("options['per_sample']", given.get("per_sample", False))
        if alone:
            _refuse_per_sample(given if method in FIXED_METHODS else None, method)
        self.layout, self.func = Layout.of(y0, alone), func
        known = func.knots if isinstance(func, Driven) else None
        self.jumps, self.ends = torch.cat([_times(given.get("jump_t")), _times(known)]), _times(given.get("step_t"))
        if grid := given.get("grid_constructor"):
            self.ends = torch.cat([self.ends, _times(grid(func, y0, t))])
        bounds = {name: given[name] for name in BOUNDS if name in given}
        bounds["max_step"] = given.get("step_size", given.get("max_step"))
        if bounds["max_step"] == torch.inf:
            bounds["max_step"] = None
        self.params, self.like = params, parts_of(y0)[0]
        self.settings = Settings(method, *self.layout.bounds(rtol, atol, y0), **bounds, fused=given.get("fused", True))
        self.rtol = float(rtol)  # as it was given
        forwards, backwards = self._callback(""), self._callback("_adjoint")
        if forwards or backwards:
            self.settings = replace(self.settings, on_attempt=forwards, on_backward_attempt=backwards)

    @cached_property
    def equation(self) -> Equation:
        """All of y as the one sample of a batch, or samples as they are."""
        return Equation(CalledFlow(self.func, self.layout, self.params, self.like), self.layout.width, None)

    def solve_backwards_by(self, rtol: Any, atol: Any, method: str | None, options: Mapping[str, Any] | None) -> None:
        """Take gradients in bounded memory. Refuse settings of the backward pass that it would not follow."""
        if method not in (None, self.settings.method):
            raise ValueError(f"`adjoint_method` must be that of the solve here, {self.settings.method!r}, got {method!r}.")
        asked_for = {} if atol is None else {"atol": (self.layout.tolerances("adjoint_atol", atol), self.settings.atol)}
        asked_for |= {} if rtol is None else {"rtol": (torch.as_tensor(rtol, device="cpu").double(), self.rtol)}
        for name, (asked, own) in asked_for.items():
            if bool((asked < torch.as_tensor(own, device="cpu")).any()):
                raise ValueError(f"`adjoint_{name}` is below `{name}`, to which the backward pass keeps here; lower `{name}`.")
        method = str(self.settings.method)
        _check_options({name: value for name, value in (options or {}).items() if value != "seminorm"}, method)
        explicit = method in ADAPTIVE_METHODS and not ADAPTIVE_METHODS[method].implicit
        self.settings = replace(self.settings, gradient=Adjoint() if explicit else Checkpointed(BYTES))

    def solution(self, t: Tensor, y0: State) -> State:
        """Return y at the times t, by a kernel if there is one for samples that y can be taken apart into."""
        forbidden = forbids_kernel(self.settings, self.layout, len(self.jumps), t)
        first, whys = None, [forbidden] if forbidden else []
        for layout, equation in samples_of(self.func, y0, self.params) if not forbidden else ():
            first, problem = first or equation, copy.copy(self)
            problem.layout, problem.equation = layout, equation
            if isinstance(self.settings.atol, Tensor):
                problem.settings = replace(self.settings, atol=layout.tolerances_from(self.layout, self.settings.atol))
            run = partial(by_kernel, func=self.func, layout=layout)
            try:
                return layout.split(problem._solved(t, layout.join(y0), run=run)[1])
            except NoKernel as error:
                whys.append(str(error))
        if not self.layout.alone:
            refuse_steps(self.settings.fused, "; ".join(whys))
        with steps_in_place_of(first, self.settings.fused):
            return self.layout.split(self._states(t, self.layout.join(y0)))

    def solution_to_event(self, t: Tensor, y0: State, event_fn: Function) -> tuple[Tensor, State]:
        """Return the time of the event, and y at the start and there."""
        if len(t) != 2:
            raise ValueError(f"With `event_fn` t must be two times, the start and one that says the direction, got {len(t)}.")
        event_t, hs = self._to_event(t, self.layout.join(y0), event_fn)
        return event_t, self.layout.split(hs)

    def _states(self, t: Tensor, h0: Tensor) -> Tensor:
        """Return the states (n, batch, state) at the times t."""
        graph, adjoint = torch.is_grad_enabled(), isinstance(self.settings.gradient, Adjoint)
        between = self._reads_between and len(t) > 2 and not (graph and (self.settings.gradient or self.layout.alone))
        if between and not (graph and t.requires_grad):
            return self._solved(t[[0, -1]], h0, gradient=None)[0](t.detach())
        if not t.requires_grad or (self.settings.gradient is None and not between):
            return self._solved(t, h0)[1]
        if not (adjoint or between):  # of fixed steps times have gradients where all are kept
            return self._solved(t, h0, gradient=None)[1]
        # The state asked for at a time moves by dh/dt; to start later is to start from further back.
        moved, times = (t - t.detach()).to(h0), t.detach()
        begun = h0 - self._slope(t[0], h0) * moved[0]
        hs = self._solved(times[[0, -1]], begun)[0](times) if between else self._solved(times, begun)[1]
        return torch.stack([h0, *(h + self._slope(at, h) * by for at, h, by in zip(t[1:], hs[1:], moved[1:], strict=True))])

    @property
    def _reads_between(self) -> bool:
        """Whether requested times are interpolated within steps; else each ends a step."""
        method = ADAPTIVE_METHODS.get(str(self.settings.method))
        return method is not None and not method.implicit and method.order <= INTERPOLATED

    @torch.no_grad()
    def _slope(self, t: Tensor, h: Tensor) -> Tensor:
        return self.equation.flow(t.to(h).expand(len(h), 1), h)

    def _solved(self, t: Tensor, h0: Tensor, run: Callable[..., Trajectory] = solve, **changes: Any) -> tuple[Trajectory, Tensor]:
        """Solve, by `run`; return that, and the states at the times t alone."""
        times = checks.as_times("t", t, differentiable=True)
        low, high = sorted(times.detach()[[0, -1]].tolist())
        ends = self.ends[(self.ends > low) & (self.ends < high) & ~torch.isin(self.ends, times.detach())].unique()
        every = torch.cat([times, ends])
        order = every.detach().argsort(descending=bool(len(times) > 1 and times[1] < times[0]))
        jumps = self.jumps[(self.jumps > low) & (self.jumps < high)].unique().tolist()
        interval = torch.tensor([low, *jumps, high if high > low else low + 1], dtype=torch.float64, device="cpu")
        path = TimePath(interval, len(h0), h0.dtype, h0.device)
        settings = replace(self.settings, **changes)
        solved = run(self.equation, path, h0, every[order], settings)
        return solved, solved.hs[order.argsort()[: len(times)].to(h0.device)] if len(ends) else solved.hs

    def _to_event(self, t: Tensor, h0: Tensor, event_fn: Function) -> tuple[Tensor, Tensor]:
        """Return the time of the event, () or (batch,), and the states (2, batch, state) at the start and there."""
        g = self._event_values(event_fn, t[0].detach().double().cpu(), h0.detach())
        if g is None:
            return t[0], torch.stack([h0, h0])
        if self.layout.alone:
            if self.settings.gradient is not None:
                raise ValueError("`odeint_adjoint` finds no events of samples that step on their own; take `odeint`.")
            times, states, _ = self._look(t, h0, g)
            return times, torch.stack([h0, states])
        look, begin = copy.copy(self), t[0]
        look.settings = replace(self.settings, gradient=None, fused=False)
        # To start later is to start from further back.
        h = h0 - self._slope(begin, h0) * (begin - begin.detach()).to(h0) if begin.requires_grad else h0
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.settings.gradient is None):
            (at,), there, solved = look._look(t.detach(), h, g)
        if not torch.is_grad_enabled():
            return at, torch.stack([h0, there])
        if self.settings.gradient is None:
            assert isinstance(solved.between, StatesBetweenStops)
            reached = solved.between.arriving(at.double().cpu())
        else:
            reached = self._solved_to(at, begin, h)
        h = there + (reached - reached.detach())
        slope, moving = self._slope(at, there), at.detach().double().requires_grad_()
        value = g(moving.reshape(1, 1), there + slope * (moving - at).to(there))
        if not value.requires_grad:  # g is a constant there, after a jump: the time has no gradient
            return at, torch.stack([h0, h])
        (by_time,) = torch.autograd.grad(value.sum(), moving)
        event_t = CrossingTime.apply(at.reshape(1), by_time.reshape(1), g(at.reshape(1, 1), h))[0]
        return event_t, torch.stack([h0, h + slope * (event_t - at).to(h)])

    def _solved_to(self, at: Tensor, begin: Tensor, h0: Tensor) -> Tensor:
        """Return the states at a time with the gradients that `odeint_adjoint` gives."""
        if bool(at == begin):
            return h0
        y = parts_of(self.solution(torch.stack([begin.detach(), at]), first_of(self.layout.split(h0[None]))))
        return self.layout.join(tuple(part[1] for part in y))

    def _look(self, t: Tensor, h0: Tensor, g: Function) -> tuple[Tensor, Tensor, Trajectory]:
        """Return when the event happens, (batch,), the states there, and the solve."""
        start, direction = t[0].double().cpu(), 1.0 if t[1] > t[0] else -1.0
        end = start.detach() + direction * FARTHEST
        changes = h0.detach().abs().amax(1) / self._slope(t[0], h0.detach()).abs().amax(1)
        window = min([1.0, *(max(SHORTEST, CHANGES * each) for each in changes.tolist() if each > 0)])
        search = {"windows": FARTHEST / window, "to_stop": True, "once": not self.layout.alone}
        solved, _ = self._solved(torch.stack([start, end]), h0, partial(solve, events=Event(g, terminal=True), search=search))
        (crossed,) = solved.events
        if len(crossed.samples) < len(h0):
            raise ValueError(f"`event_fn` has not become 0 up to t = {float(end):g}.")
        return crossed.times.to(t) if t.is_floating_point() else crossed.times, crossed.states, solved

    def _event_values(self, event_fn: Function, start: Tensor, h0: Tensor) -> Function | None:
        """Return g of an `Event`, t (m, 1), h (m, state) -> (m,); None if it is 0 at the start.

        Of several numbers each is brought above 0 at the start, and the least of them counts.
        """

        def values(t: Tensor, h: Tensor) -> Tensor:
            value = self.layout.call(event_fn, t.to(h), h)
            if wrong := [type(each).__name__ for each in value if not isinstance(each, Tensor)]:
                raise TypeError(f"`event_fn` must give a tensor of numbers, got {wrong[0]}.")
            return torch.cat([each.reshape(len(h) if self.layout.alone else 1, -1) for each in value])

        if self.layout.alone:
            return values
        with torch.no_grad():
            begun = values(start.expand(1, 1), h0)
        if not bool(begun.isfinite().all()):
            raise ValueError(f"`event_fn` must give numbers, got {begun[0].tolist()} at t = {float(start):g}.")
        signs = begun.sign()
        return (lambda t, h: (values(t, h) * signs).amin(1)) if bool((signs != 0).all()) else None

    def _callback(self, suffix: str) -> OnAttempt | None:
        """Return what is called after each step, from the callbacks that func has by torchdiffeq's names, if it has any."""
        step, accept, reject = (getattr(self.func, name + suffix, None) for name in CALLBACKS)
        if not self.settings.adaptive and (accept or reject):
            warnings.warn(f"{self.settings.method} accepts every step; only its `callback_step{suffix}` is called.", stacklevel=4)
            accept = reject = None
        if not (step or accept or reject):
            return None
        if self.layout.alone:
            raise ValueError("`func` has callbacks, and with 'per_sample' there is no one step to call them after.")

        def on_attempt(t: float, h: Tensor, dt: float, accepted: bool) -> None:
            # In the backward pass of the adjoint h is the state and its adjoint.
            (given,) = self.layout.call(lambda t, y: (t, y), h.new_tensor([[t]]), h.detach()[:, : self.layout.width])
            for callback in (step, accept if accepted else reject):
                if callback is not None:
                    callback(*given, h.new_tensor(dt))

        return on_attempt


def _times(given: Tensor | None) -> Tensor:
    """Return times of an option as float64 numbers on the CPU."""
    none = torch.zeros(0, dtype=torch.float64, device="cpu")
    return none if given is None else torch.as_tensor(given, device="cpu").detach().to(none).reshape(-1)
