r"""Events are found where a function of time and state crosses zero along a solve, sample by sample.

    g(t, h(t)) = 0        dt*/dp = -(dg/dp) / (dg/dt along the solution)        h(t*+) = reset(t*, h(t*))

Between two requested times the solve is made without them first; g is looked at on the ends of its steps and between them, and
a change of sign is narrowed down on the steps' own continuation, which is as accurate as the solve. Then it is solved to these
times, which carry their gradients. Where events stop samples it is solved in windows that double: what comes after
a stop may be far, or no solution at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.extras import needed_by
from discretize.errors import SolverError
from discretize.solvers.continuation import StatesBetween, StatesBetweenStops
from discretize.solvers.detached import once_only
from discretize.solvers.engine import SolverStats
from discretize.solvers.equation import Shapes, joined, split
from discretize.trajectory import Trajectory

__all__ = ["WINDOWS", "CrossingTime", "Event", "EventSolve", "EventTimes", "checked_events"]

PER_STEP = 4  # looks at g on each step
MOST_STOPS = 10_000  # of a sample between two requested times
WINDOWS = 16  # the first window is that part of the whole time
BEFORE_FAILURE = 1 - 2**-10  # of the way to where a solve fails, up to which it is looked at again


@dataclass(frozen=True)
class Event:
    r"""Asks for the zeros of a function of time and state.

    Args:    g: t (batch, 1), h (batch, state) -> a number for each sample, (batch,) or (batch, 1), each sample by itself;
             direction: 1, it must rise through 0 as the solve goes on, -1 fall, 0 either; terminal: the sample ends there, and
             keeps its state; reset: (t, h) -> the state (batch, state) to go on from. Touching 0 is no crossing, nor is being 0
             at the start; two crossings within a quarter of a step may be missed: then bound the steps, `max_step`. Parameters
             of g and reset have gradients too; second derivatives of times are refused.
    Raises:  TypeError, ValueError for what does not fit, and at a solve for a g that is not a number.
    Source:  Shampine and Thompson 2000, "Event location for ordinary differential equations"; for the gradient Chen, Amos and
             Nickel 2021, "Learning neural event functions for ordinary differential equations".
    """

    g: Callable[[Tensor, Tensor], Tensor]
    direction: int = 0
    terminal: bool = False
    reset: Callable[[Tensor, Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        if not callable(self.g) or not (self.reset is None or callable(self.reset)):
            raise TypeError("`g` and `reset` of an Event must be functions of t and h.")
        if self.direction not in (-1, 0, 1):
            raise ValueError(f"`direction` must be 1, rising, -1, falling, or 0, either, got {self.direction!r}.")
        if checks.is_flag("terminal", self.terminal) and self.reset is not None:
            raise ValueError("An Event that ends a sample has no `reset`; give one of them.")

    def __call__(self, t: Tensor, h: Tensor) -> Tensor:
        """(batch, 1), (batch, state) -> (batch,)."""
        value = self.g(t.to(h), h)
        if not isinstance(value, Tensor) or value.shape not in (h.shape[:1], (len(h), 1)):
            came = str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"`g` of an Event must give a number for each of {len(h)} samples, got {came}.")
        if not bool(value.isfinite().all()):
            k = int((~value.reshape(-1).isfinite()).nonzero()[0])
            raise ValueError(f"`g` of an Event gives {float(value.reshape(-1)[k])} at t = {float(t[k]):g}; it must be a number.")
        return value.reshape(-1)

    @property
    def stops(self) -> bool:
        """Whether the solve stops at the event, for good or to go on from another state."""
        return self.terminal or self.reset is not None


class EventTimes(NamedTuple):
    """Holds the crossings of one event by sample and time: samples (m,), times (m,), states before a reset (m, state)."""

    samples: Tensor
    times: Tensor
    states: Tensor

    @classmethod
    def none(cls, h: Tensor) -> EventTimes:
        """Return that nothing was crossed by samples with states like h (batch, state)."""
        return cls(
            torch.zeros(0, dtype=torch.long, device="cpu"),
            torch.zeros(0, dtype=torch.float64, device="cpu"),
            h.new_zeros(0, h.shape[1]),
        )


class _Crossing(NamedTuple):
    time: float
    sample: int
    event: int


def checked_events(events: object, shapes: Shapes | None, direction: int) -> tuple[Event, ...]:
    """Check the events, and return each as one of `direction` t and of the whole state (batch, state), where that has parts of
    these shapes."""
    given = (events,) if isinstance(events, Event) else events
    if not isinstance(given, Sequence) or not all(isinstance(event, Event) for event in given):
        raise TypeError(f"`events` must be discretize.Event, or several of them, got {events!r}.")
    with needed_by("integrate(events=...)"):
        import scipy  # noqa: F401, PLC0415 - loads little yet: asked for here, and not where the first crossing is
    whole = given if shapes is None else (_of_parts(event, shapes) for event in given)
    return tuple(whole if direction > 0 else (_backwards(event) for event in whole))


def _backwards(event: Event) -> Event:
    g, reset = event.g, event.reset
    return replace(event, g=lambda t, h: g(-t, h), reset=None if reset is None else lambda t, h: reset(-t, h))


def _of_parts(event: Event, shapes: Shapes) -> Event:
    g, reset = event.g, event.reset

    def of_whole(t: Tensor, h: Tensor) -> Any:
        assert reset is not None
        return joined(reset(t, split(h, shapes)))[0]

    return replace(event, g=lambda t, h: g(t, split(h, shapes)), reset=None if reset is None else of_whole)


class EventSolve:
    r"""Solves from one requested time to the next, and finds what happens in between.

    Args:    solve: (states, times (n, batch)) -> the solve from these, by an adaptive method, and what it counted; events; h0
             (batch, state); ts (n,) or (n, batch), increasing: the user's times, or where `direction` is -1 these negative.
             windows: how many of the first one the whole time is; at_numbers: gets the same solves from stop to stop, with the
             times of crossings as numbers, whose steps are kept: a second graph where there are gradients.
    Raises:  ValueError for events that leave no end, or that give no numbers.
    """

    solve: Callable[[Tensor, Tensor], tuple[Trajectory, SolverStats]]
    events: tuple[Event, ...]
    ts: Tensor
    direction: int
    t: Tensor
    over: Tensor
    h: Tensor

    def __init__(
        self,
        solve: Callable[[Tensor, Tensor], tuple[Trajectory, SolverStats]],
        events: tuple[Event, ...],
        h0: Tensor,
        ts: Tensor,
        direction: int = 1,
        windows: int = WINDOWS,
        at_numbers: list[Trajectory] | None = None,
    ) -> None:
        self.solve, self.events, self.ts, self.h, self.direction = solve, events, ts, h0, direction
        self.times: Tensor = ts if ts.dim() > 1 else ts[:, None].expand(-1, len(h0))
        self.t, self.over = self.times[0], torch.zeros(len(h0), dtype=torch.bool, device="cpu")
        self.just: np.ndarray = np.full(len(h0), -1)  # the event that a sample has just been reset by
        self.found: list[list[tuple[int, Tensor, Tensor]]] = [[] for _ in events]
        self.pieces: list[Trajectory] = []  # from stop to stop
        self.at_numbers: list[Trajectory] | None = at_numbers
        self.status: list[str] = ["completed"] * len(h0)
        self.counts: SolverStats = SolverStats(max(1, len(h0)))
        self.stats: dict[str, Any] = self.counts.stats("")
        length = max((self.times[-1] - self.times[0]).tolist(), default=0.0)
        self.window: float = length / windows if length and any(event.stops for event in events) else math.inf

    def run(self) -> Trajectory:
        hs = [self.h]
        for end in self.times[1:]:
            self._to(end)
            hs.append(self.h)
        self.stats["status_of_samples"] = self.status
        between = StatesBetweenStops(self.h, self.pieces, self.direction) if self.pieces else None
        ts, events = self.ts if self.direction > 0 else -self.ts, tuple(map(self._listed, self.found))
        return Trajectory(ts, torch.stack(hs), self.stats, between=between, events=events)

    def _to(self, end: Tensor) -> None:
        """Solve to the next requested time, from stop to stop; a sample that has ended stays where it is."""
        for _ in range(MOST_STOPS):
            goal = torch.where(self.over, self.t, end)
            if not bool((self.t < goal).any()) or not self._go_on(self._crossings(goal), goal):
                self.just[:] = -1
                return
        last = self.direction * float(end.detach().max())
        raise ValueError(f"`events` stop a sample more than {MOST_STOPS} times before t = {last:g}.")

    def _solved(self, h: Tensor, times: Tensor) -> Trajectory:
        found, counts = self.solve(h, times)
        self.counts.add(counts)
        last = {key: found.stats[key] for key in ("nfe_backward", "hint", "engine", "engine_why")}
        self.stats = self.counts.stats(found.stats["method"]) | last
        return found

    def _crossings(self, goal: Tensor) -> list[list[_Crossing]]:
        """Find what each sample crosses, in time, up to what stops it."""
        mine: list[list[_Crossing]] = [[] for _ in self.status]
        h, t, goal, just = self.h.detach(), self.t.detach(), goal.detach(), self.just
        with torch.no_grad():
            while bool((t < goal).any()):
                look, failure = self._look(h, t, torch.minimum(goal, t + self.window))
                every = [crossing for number in range(len(self.events)) for crossing in self._of(look, number, just == number)]
                for crossing in sorted(every):
                    if not self._stopped(mine[crossing.sample]):
                        mine[crossing.sample].append(crossing)
                if failure and (failure.sample is None or not self._stopped(mine[failure.sample])):
                    raise failure
                h, t, just = look.end, look.goal, np.full_like(just, -1)
                self.window *= 2
                goal = torch.where(torch.tensor([self._stopped(each) for each in mine], device="cpu"), t, goal)
        return mine

    def _stopped(self, mine: list[_Crossing]) -> bool:
        """Return whether the last crossing stops a sample."""
        return bool(mine) and self.events[mine[-1].event].stops

    def _look(self, h: Tensor, t: Tensor, goal: Tensor) -> tuple[_Look, SolverError | None]:
        """Solve up to `goal`; if that fails and events may stop it before, up to shortly before, and return the failure."""
        try:
            return _Look(self._solved(h, torch.stack([t, goal]))), None
        except SolverError as error:
            if error.time is None or error.sample is None or math.isinf(self.window):
                raise
            start = float(t[error.sample])
            before = start + BEFORE_FAILURE * (self.direction * error.time - start)
            if not before > start:
                raise
            nearer, earlier = self._look(h, t, goal.clamp(max=before).maximum(t))
            return nearer, earlier or error

    def _of(self, look: _Look, number: int, just: np.ndarray) -> list[_Crossing]:
        """Find where an event crosses zero; `just`: the samples that it has just reset."""
        event = self.events[number]
        signs = np.sign(look.on_grid(event))
        signs[0, just] = 0
        for row in range(len(signs) - 2, -1, -1):  # where it is 0 it has the sign that it goes to
            signs[row] = np.where(signs[row] == 0, signs[row + 1], signs[row])
        before, after = signs[:-1], signs[1:]
        rises, falls = (before < 0) & (after >= 0), (before > 0) & (after <= 0)
        rows, samples = np.nonzero((rises & (event.direction >= 0)) | (falls & (event.direction <= 0)))
        return [
            _Crossing(time, int(sample), number)
            for time, sample in zip(look.roots(event, rows, samples, before[rows, samples]), samples, strict=True)
        ]

    def _go_on(self, crossings: list[list[_Crossing]], goal: Tensor) -> bool:
        """Solve through the crossings to what stops each sample, or its goal; return whether one was stopped."""
        numbers = [[torch.tensor(crossing.time, dtype=torch.float64, device="cpu") for crossing in mine] for mine in crossings]
        times = self._rows(crossings, numbers, goal)
        solved = self._solved(self.h, times)
        if self.at_numbers is not None:
            self.at_numbers.append(solved)
        if len(times) > 2 and self._has_gradients(solved.hs):
            times = self._rows(crossings, self._with_gradients(crossings, times), goal)
            solved = self._solved(self.h, times)
        self.pieces.append(solved)
        hs = solved.hs
        for sample, mine in enumerate(crossings):
            for place, crossing in enumerate(mine, 1):
                self.found[crossing.event].append((sample, times[place, sample], hs[place, sample]))
        stopped = [mine[-1] for mine in crossings if self._stopped(mine)]
        # Where a sample goes on from a stop, the time of that has a gradient.
        moves = goal.requires_grad or any(self.events[crossing.event].reset for crossing in stopped)
        self.h, self.t, self.just[:] = hs[-1], times[-1] if moves else times[-1].detach(), -1
        if stopped:
            # It is about as far to the next stop.
            gone = max(crossing.time - float(times[0, crossing.sample].detach()) for crossing in stopped)
            self.window = max(gone, self.window / 4)
        for number, event in enumerate(self.events):
            if here := [crossing for crossing in stopped if crossing.event == number]:
                self._stop(number, event, here)
        return bool(stopped)

    def _rows(self, crossings: list[list[_Crossing]], times: list[list[Tensor]], goal: Tensor) -> Tensor:
        """Return (rows, batch): each sample's time, its crossings, and, repeated as needed, its stop or goal."""
        rows = max(map(len, times)) + 2
        columns = []
        for sample, (mine, crossed) in enumerate(zip(crossings, times, strict=True)):
            last = crossed[-1] if self._stopped(mine) else goal[sample]
            columns.append(torch.stack([self.t[sample], *crossed, *[last] * (rows - 1 - len(crossed))]))
        return torch.stack(columns, 1)

    def _has_gradients(self, hs: Tensor) -> bool:
        """Return whether crossings depend on anything with a gradient: the states, or what the events themselves hold."""
        at = self.t[:, None]
        return torch.is_grad_enabled() and (hs.requires_grad or any(event(at, self.h).requires_grad for event in self.events))

    def _with_gradients(self, crossings: list[list[_Crossing]], times: Tensor) -> list[list[Tensor]]:
        """Return the times of crossings with their gradients, by the implicit function theorem."""
        leaves = times[1:-1].detach().requires_grad_()
        hs = self._solved(self.h, torch.cat([times[:1], leaves])).hs[1:]
        moved = [[leaves[0, 0]] * len(mine) for mine in crossings]
        for number, event in enumerate(self.events):
            which = [(p, s) for s, mine in enumerate(crossings) for p, crossing in enumerate(mine) if crossing.event == number]
            if not which:
                continue
            places, samples = (torch.tensor(index, device="cpu") for index in zip(*which, strict=True))
            values = event(leaves[places, samples][:, None], hs[places, samples])
            if not values.requires_grad:  # g is a constant there, after a jump: the time has no gradient
                for place, sample in which:
                    moved[sample][place] = leaves[place, sample].detach()
                continue
            (slopes,) = torch.autograd.grad(values.sum(), leaves, retain_graph=True)
            at = CrossingTime.apply(leaves[places, samples].detach(), slopes[places, samples], values)
            for (place, sample), time in zip(which, at, strict=True):
                moved[sample][place] = time
        return moved

    def _stop(self, number: int, event: Event, here: list[_Crossing]) -> None:
        rows = torch.zeros(len(self.h), dtype=torch.bool, device="cpu")
        rows[[crossing.sample for crossing in here]] = True
        if event.reset is None:
            self.over = self.over | rows  # not in place: `torch.where` keeps it for the gradients of times
            for crossing in here:
                self.status[crossing.sample] = f"ended by event {number} at t = {self.direction * crossing.time:g}"
            return
        after = event.reset(self.t[:, None].to(self.h), self.h)
        if not isinstance(after, Tensor) or after.shape != self.h.shape:
            came = str(tuple(after.shape)) if isinstance(after, Tensor) else type(after).__name__
            raise ValueError(f"`reset` of an Event must give states {tuple(self.h.shape)}, got {came}.")
        self.h, self.just[rows.numpy()] = torch.where(rows[:, None].to(self.h.device), after, self.h), number

    def _listed(self, found: list[tuple[int, Tensor, Tensor]]) -> EventTimes:
        if not found:
            return EventTimes.none(self.h)
        samples, times, states = zip(*sorted(found, key=lambda one: one[0]), strict=True)  # of one sample they are in time
        crossed = torch.stack(times)
        return EventTimes(torch.tensor(samples, device="cpu"), crossed if self.direction > 0 else -crossed, torch.stack(states))


class CrossingTime(torch.autograd.Function):
    """Gives t* of g(t*, p) = 0 its derivative, -(dg/dp) / (dg/dt)."""

    @staticmethod
    def forward(ctx: Any, times: Tensor, slopes: Tensor, values: Tensor) -> Tensor:
        ctx.save_for_backward(slopes, values)
        return times.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        slopes, values = ctx.saved_tensors
        return None, None, *once_only("events", [(-grad / slopes).to(values)], [grad, values])


class _Look:
    """Evaluates events on the ends of every sample's steps of a solve and between them: times (rows, batch)."""

    def __init__(self, solved: Trajectory) -> None:
        assert isinstance(solved.between, StatesBetween)
        self.between, steps = solved.between, solved.between.continuation()
        if steps is None:
            raise ValueError(
                "`events` are looked for on the steps of a solve, and these were too many to keep; ask for more `ts`."
            )
        start, end = solved.ts[[0, -1]].numpy()
        columns = []
        for sample in range(len(start)):
            ends = np.append(steps.begins_of(sample), end[sample])
            inner = [ends[:-1] + share * np.diff(ends) for share in np.arange(PER_STEP) / PER_STEP]
            columns.append(np.append(np.stack(inner, 1).reshape(-1), end[sample]))
        most = max(map(len, columns))
        self.times = np.stack([np.append(column, np.full(most - len(column), column[-1])) for column in columns], 1)
        self.states, self.start = self.between(torch.from_numpy(self.times)), start
        self.end, self.goal = solved.hs[-1], solved.ts[-1]

    def on_grid(self, event: Event) -> np.ndarray:
        """Return g, (rows, batch)."""
        values = event(torch.from_numpy(self.times).reshape(-1, 1), self.states.flatten(0, 1))
        return values.cpu().double().numpy().reshape(self.times.shape)

    def roots(self, event: Event, rows: np.ndarray, samples: np.ndarray, signs: np.ndarray) -> list[float]:
        """Return the first zeros after these rows of the grid, on which g has these signs."""
        if not len(rows):
            return []
        from scipy.optimize import elementwise  # noqa: PLC0415 - 32 MB, and a third of a second

        def g(times: np.ndarray, whose: np.ndarray, before: np.ndarray) -> np.ndarray:
            flat, sample = times.reshape(-1), whose.reshape(-1).astype(int)
            order = np.argsort(sample, kind="stable")
            place = np.empty_like(order)  # its number among those of the same sample
            place[order] = np.arange(len(sample)) - np.searchsorted(sample[order], sample[order])
            asked = np.repeat(self.start[None], place.max() + 1, 0)
            asked[place, sample] = flat
            states = self.between(torch.from_numpy(asked))[place, sample]
            values = event(torch.from_numpy(flat)[:, None], states).cpu().double().numpy().reshape(times.shape)
            # g may stay at 0: the first of these times is looked for. Of the ends of a bracket that of the least |g| is taken.
            return np.where(values == 0, -1e-290 * before, values)

        ends = self.times[rows, samples], self.times[rows + 1, samples]
        # Neighbouring numbers are eps apart at most: at eps itself the search would go on between them.
        tolerances = {"xatol": 0.0, "xrtol": 1.01 * np.finfo(float).eps}
        found = elementwise.find_root(g, ends, args=(samples, signs), tolerances=tolerances)
        # States below the tolerance may be read with another sign than on the grid, and no root is found: the nearer end then.
        nearer = np.where(np.abs(found.f_bracket[0]) < np.abs(found.f_bracket[1]), *found.bracket)
        times: list[float] = np.where(np.isnan(found.x), nearer, found.x).tolist()
        return times
