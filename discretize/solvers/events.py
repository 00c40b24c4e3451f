r"""Events are found where a function of time and state crosses zero along a solve, sample by sample.

    g(t, h(t)) = 0        dt*/dp = -(dg/dp) / (dg/dt along the solution)        h(t*+) = reset(t*, h(t*))

Between two requested times the solve is made without them first. On each of its steps g is read at thirteen times, of the steps'
own continuation, which is as accurate as the solve, and steps are halved until a polynomial through five of these has no room for
two zeros. A sample is on one side of an event, which it keeps from look to look; a change of side is a crossing, and is narrowed
down. Then it is solved to these times, which carry their gradients. Where events stop samples it is solved in windows that
double: what comes after a stop may be far, or no solution at all; of a solve that fails the steps until then are looked at.

A stop may be nearer to the end of a solution than two solves agree on that, and the second one fails before it. Then that sample
is solved to shortly before, from where it comes to the state that was looked at, and time, with the gradients that it has there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.extras import needed_by
from discretize.errors import Failure, SolverError
from discretize.solvers.continuation import StatesBetween, StatesBetweenStops
from discretize.solvers.crossings import ROUNDINGS, Look
from discretize.solvers.detached import once_only
from discretize.solvers.engine import SolverStats
from discretize.solvers.equation import Shapes, joined, split
from discretize.trajectory import Trajectory

__all__ = ["WINDOWS", "CrossingTime", "Event", "EventSolve", "EventTimes", "checked_events"]

MOST_STOPS = 10_000  # of a sample between two requested times
MOST_AT_ONCE = 100  # of a sample at one time: each may lead to the next, as in a row of balls
WINDOWS = 16  # the first window is that part of the whole time
MOST_WAYS = 4  # in which states are moved by their rounding
SAME = 4 * np.finfo(float).eps  # of a time: times as near are one
RESOLVED = 64  # roundings of time that a step must last for events to be read in it
STUCK = 2.0**-30  # of a window: steps as short as solves come to where solutions end
SHORT = 16  # times as long before a stop as a solve failed before it
MOST_SHORT = 2.0**-8  # of the way to a stop: the gradient of its time is off by the square of that, where a solution has no more


@dataclass(frozen=True)
class Event:
    r"""Asks for the zeros of a function of time and state.

    Args:    g: t (batch, 1), h (batch, state) -> a number for each sample, (batch,) or (batch, 1), each sample by itself;
             direction: 1, it must rise through 0 as the solve goes on, -1 fall, 0 either; terminal: the sample ends there, and
             keeps its state; reset: (t, h) -> the state (batch, state) to go on from. Touching 0 is no crossing, nor is being 0
             at the start, nor being carried over 0 by a reset. Events at one time all happen, in the order in which they are
             given. A pulse of g that is shorter than an eighth of a step may be missed: then bound the steps, `max_step`.
             Parameters of g and reset have gradients too; second derivatives of times are refused.
    Raises:  TypeError, ValueError for what does not fit, and at a solve for a g that is not a number; SolverError where resets
             come ever faster, and time does not go on, or there are too many; and where g changes too often to be followed.
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

    def rounding(self, t: Tensor, h: Tensor, units: float) -> np.ndarray:
        """Return how far g (batch,) moves where all of t and h move by so many units in their last place, one way or another.

        Of two opposite ways the lesser counts: a jump of g at just this time is on one side, and no rounding.
        """
        step, at, numbers = units * torch.finfo(h.dtype).eps, t.to(h), torch.arange(h.shape[1], device=h.device)
        here, moved = self.g(at, h).reshape(-1), h.new_zeros(len(h))
        # Two units move apart in one of these, be g their difference.
        for bit in range(max(1, min(MOST_WAYS, h.shape[1].bit_length()))):
            ways = (1 - 2 * ((numbers >> bit) & 1)).to(h)
            sides = [self.g(at * (1 + by), h * (1 + by * ways)).reshape(-1) for by in (step, -step)]
            ahead, back = ((there - here).abs().nan_to_num(0.0, 0.0, 0.0) for there in sides)
            moved = moved.maximum(ahead.minimum(back))
        return _array(moved)

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
    after: float  # the sign of g after it


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
             failures: the same -> which samples such a solve fails for, and why; None: only the one of the error is known.
             windows: how many of the first one the whole time is; at_numbers: gets the same solves from stop to stop, with the
             times of crossings as numbers, whose steps are kept: a second graph where there are gradients; sides (events, batch):
             the sign that each event has had before, of a solve that goes on from another.
    Raises:  ValueError for events that give no numbers; SolverError, with the states so far, for solves and events that fail.
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
        sides: np.ndarray | None = None,
        failures: Callable[[Tensor, Tensor], dict[int, Failure]] | None = None,
    ) -> None:
        self.solve, self.failures, self.events, self.ts, self.h, self.direction = solve, failures, events, ts, h0, direction
        self.times: Tensor = ts if ts.dim() > 1 else ts[:, None].expand(-1, len(h0))
        self.t, self.over = self.times[0], torch.zeros(len(h0), dtype=torch.bool, device="cpu")
        with torch.no_grad():
            self.sides: np.ndarray = self._signs(h0) if sides is None else sides.copy()
        self.left_at_zero: np.ndarray = np.zeros_like(self.sides)  # by a reset of that event: the side that it came from
        self.stops: np.ndarray = np.zeros((len(events), len(h0)), dtype=int)
        self.at_once: np.ndarray = np.zeros(len(h0), dtype=int)  # stops since time has gone on
        self.found: list[list[tuple[int, Tensor, Tensor]]] = [[] for _ in events]
        self.pieces: list[Trajectory] = []  # from stop to stop
        self.looks: list[Look] = []  # to the next stops
        self.at_numbers: list[Trajectory] | None = at_numbers
        self.status: list[str] = ["completed"] * len(h0)
        self.counts: SolverStats = SolverStats(max(1, len(h0)))
        self.stats: dict[str, Any] = self.counts.stats("")
        length = max((self.times[-1] - self.times[0]).tolist(), default=0.0)
        self.window: float = length / windows if length and any(event.stops for event in events) else math.inf

    def run(self) -> Trajectory:
        hs = [self.h]
        try:
            for end in self.times[1:]:
                self._to(end)
                hs.append(self.h)
        except SolverError as error:
            raise SolverError(error._failure, self._trajectory(hs, "failed")) from None
        except Failure as failure:
            raise SolverError(replace(failure, time=self.direction * failure.time), self._trajectory(hs, "failed")) from None
        return self._trajectory(hs, "completed")

    def _trajectory(self, hs: list[Tensor], status: str) -> Trajectory:
        self.stats["status_of_samples"] = self.status
        over, between = torch.where(self.over, self.t.detach(), math.inf), None
        if self.pieces and status == "completed":
            between = StatesBetweenStops(self.h, self.pieces, over, self.direction)
        ts, events = (self.ts if self.direction > 0 else -self.ts)[: len(hs)], tuple(map(self._listed, self.found))
        return Trajectory(ts, torch.stack(hs), self.stats, status, between, events)

    def _signs(self, h: Tensor) -> np.ndarray:
        """Return the sign of each event, (events, batch)."""
        return np.stack([np.sign(_array(event(self.t[:, None].detach(), h.detach()))) for event in self.events])

    def _to(self, end: Tensor) -> None:
        """Solve to the next requested time, from stop to stop; a sample that has ended stays where it is."""
        before = self.stops.copy()
        while True:
            goal = torch.where(self.over, self.t, end)
            if not bool((self.t < goal).any()) or not self._go_on(self._crossings(goal), goal):
                return
            if (self.stops - before).max() > MOST_STOPS:
                number, sample = np.unravel_index((self.stops - before).argmax(), before.shape)
                self._refuse(int(number), int(sample), f"more than {MOST_STOPS} times between two requested times")

    def _refuse(self, number: int, sample: int, how: str) -> NoReturn:
        """Raise that an event stops a sample again and again."""
        times = [float(t.detach()) for whose, t, _ in self.found[number][-50 * len(self.status) :] if whose == sample]
        apart = f", the last {times[-1] - times[-2]:.2g} after the one before" if len(times) > 1 else ""
        raise Failure(
            f"event {number} stops the sample {how}: {self.stops[number, sample]} times in all{apart}",
            "Events may come ever faster and never end, as of a ball that comes to rest: end the sample there, by an event with "
            "`terminal=True` and a threshold above 0, or let a reset below a speed change the field. For many events that are "
            "meant ask for more `ts`.",
            float(self.t[sample].detach()),
            sample,
            None,
        )

    def _solved(self, h: Tensor, times: Tensor) -> Trajectory:
        found, counts = self.solve(h, times)
        self.counts.add(counts)
        last = {key: found.stats[key] for key in ("nfe_backward", "hint", "engine", "engine_why")}
        self.stats = self.counts.stats(found.stats["method"]) | last
        return found

    def _crossings(self, goal: Tensor) -> list[list[_Crossing]]:
        """Find what each sample crosses, in time, up to what stops it."""
        mine: list[list[_Crossing]] = [[] for _ in self.status]
        self.looks = []
        reach = torch.full_like(self.t.detach(), math.inf)
        h, t, goal, ends = self.h.detach(), self.t.detach(), goal.detach(), self.times[-1].detach().numpy()
        with torch.no_grad():
            while bool((t < goal).any()):
                until = torch.minimum(goal, t + reach.clamp(max=self.window))
                look, failure = self._look(h, t, until)
                self.looks.append(look)
                every = [self._of(look, number, look.end >= ends) for number in range(len(self.events))]
                self._take(sorted(crossing for each in every for crossing in each), mine)
                reach *= 2
                sample = None if failure is None else failure.sample
                if failure and (sample is None or not self._stopped(mine[sample])):
                    # In a window of its own time is told apart more finely, and the end of a solution may be come nearer to.
                    last = 0.0 if sample is None else look.last_step(sample)
                    if last == 0 or last > STUCK * float((until - t)[sample]):
                        raise failure
                    reach[sample] = last / STUCK**0.5
                h, t = look.state, torch.from_numpy(look.end)
                self.window *= 2
                goal = torch.where(torch.tensor([self._stopped(each) for each in mine], device="cpu"), t, goal)
        return mine

    def _take(self, crossings: list[_Crossing], mine: list[list[_Crossing]]) -> None:
        """Add to each sample's crossings those up to what stops it, and those at the same time; keep the sides after them."""
        for crossing in crossings:
            time, sample, number, after = crossing
            had = mine[sample]
            if self._stopped(had) and time > had[-1].time + SAME * abs(time):
                continue
            self.sides[number, sample] = after
            event = self.events[number]
            if event.direction in (0, after):
                at = had[-1].time if self._stopped(had) else time
                had.append(crossing._replace(time=at))

    def _stopped(self, mine: list[_Crossing]) -> bool:
        """Return whether the last crossings stop a sample."""
        return any(self.events[crossing.event].stops for crossing in mine)

    def _look(self, h: Tensor, t: Tensor, goal: Tensor) -> tuple[Look, SolverError | None]:
        """Solve up to `goal`; if that fails and events may stop it before, read the steps until then, and return the failure."""
        failure, start = None, t.numpy()
        try:
            solved = self._solved(h, torch.stack([t, goal]))
        except SolverError as error:
            failure, solved = error, error.trajectory
        steps = solved.between.continuation() if isinstance(solved.between, StatesBetween) else None
        if steps is None:
            if failure:
                raise failure
            raise ValueError(
                "`events` are looked for on the steps of a solve, and these were too many to keep; ask for more `ts`."
            )
        if failure is None:
            return Look(steps, start, goal.numpy(), solved.hs[-1]), None
        # Each sample has come to the begin of its last step at least.
        begun = [steps.begins_of(sample) for sample in range(len(start))]
        end = np.array([begins[-1] if len(begins) else t for begins, t in zip(begun, start, strict=True)])
        state, beyond = steps.last_states(solved.hs[0]), None
        if (sample := failure.sample) is not None and len(begins := begun[sample]):
            long = np.flatnonzero(np.diff(begins) >= RESOLVED * np.spacing(np.abs(begins[-1])))
            place = int(long[-1]) + 1 if len(long) else 0
            if place < len(begins) - 1:
                beyond = sample, float(begins[-1]), state[sample]
                end[sample] = begins[place]
                state = state.index_copy(0, torch.tensor([sample], device=state.device), steps.state_before(sample, place))
        return Look(steps, start, end, state, beyond), failure

    def _of(self, look: Look, number: int, last: np.ndarray) -> list[_Crossing]:
        """Find where an event crosses zero, each way, and keep where its samples are if they do not."""
        flips = look.flips(self.events[number], self.sides[number], last)
        came = self.left_at_zero[number]
        if (falls := np.flatnonzero(flips.rests & (came != 0) & (flips.left == -came))).size:
            self._refuse(number, int(falls[0]), "and leaves it at rest at g = 0, from where it is pushed on")
        crossed = np.zeros(len(came), dtype=bool)
        crossed[flips.samples] = True
        begun = np.where(self.sides[number] == 0, flips.left, self.sides[number])
        self.sides[number] = np.where(crossed, begun, flips.sides)
        self.left_at_zero[number] = np.where(flips.left == 0, came, 0)
        columns = (column.tolist() for column in (flips.times, flips.samples, flips.after))
        found = [_Crossing(time, sample, number, after) for time, sample, after in zip(*columns, strict=True)]
        if look.beyond is not None:
            sample, time, state = look.beyond
            g = self.events[number].g(torch.full((1, 1), time).to(state), state[None]).reshape(-1)
            if flips.sides[sample] and float(g.sign()) == -flips.sides[sample]:
                found.append(_Crossing(time, sample, number, float(-flips.sides[sample])))
        return found

    def _go_on(self, crossings: list[list[_Crossing]], goal: Tensor) -> bool:
        """Solve through the crossings to what stops each sample, or its goal; return whether one was stopped."""
        numbers = [[torch.tensor(crossing.time, dtype=torch.float64, device="cpu") for crossing in mine] for mine in crossings]
        asked = self._rows(crossings, numbers, goal)
        near = asked[-1].detach()
        while True:
            times = torch.where(asked > near, near, asked)
            try:
                solved = at_numbers = self._solved(self.h, times)
                if len(times) > 2 and self._has_gradients(solved.hs):
                    times = self._rows(crossings, self._with_gradients(crossings, times), torch.where(goal > near, near, goal))
                    solved = self._solved(self.h, times)
                break
            except SolverError as error:
                near = self._nearer(error, crossings, asked.detach(), near)
        if self.at_numbers is not None:
            self.at_numbers.append(at_numbers)
        self.pieces.append(solved)
        times, hs = self._moved_to(asked.detach(), near, times, solved.hs)
        for sample, mine in enumerate(crossings):
            for place, crossing in enumerate(mine, 1):
                self.found[crossing.event].append((sample, times[place, sample], hs[place, sample]))
        stopped = [crossing for mine in crossings for crossing in mine if self.events[crossing.event].stops]
        # Where a sample goes on from a stop, the time of that has a gradient.
        moves = goal.requires_grad or any(self.events[crossing.event].reset for crossing in stopped)
        self.h, self.t = hs[-1], times[-1] if moves else times[-1].detach()
        if stopped:
            # It is about as far to the next stop.
            gone = max(crossing.time - float(times[0, crossing.sample].detach()) for crossing in stopped)
            self.window = max(gone, self.window / 4)
            self._stop(stopped, times[0].detach())
        return bool(stopped)

    def _nearer(self, error: SolverError, crossings: list[list[_Crossing]], asked: Tensor, near: Tensor) -> Tensor:
        """Return until when each sample is to be solved, after one until `near` failed. Raises what is no end of a solution."""
        if error.sample is None:
            raise error
        every, near = {error.sample: error._failure}, near.clone()
        if self.failures is not None:
            every |= self.failures(self.h.detach(), asked.minimum(near))
        for sample, failure in every.items():
            begin, stop = float(asked[0, sample]), float(asked[-1, sample])
            lacks = SHORT * max(stop - self.direction * failure.time, stop - float(near[sample]), np.spacing(abs(stop)))
            if lacks > MOST_SHORT * (stop - begin) or not self._stopped(crossings[sample]):
                raise SolverError(failure, error.trajectory)
            near[sample] = stop - lacks
        return near

    def _moved_to(self, asked: Tensor, near: Tensor, times: Tensor, hs: Tensor) -> tuple[Tensor, Tensor]:
        """Move what was solved until `near` to what was looked at, where that is later; with the gradients there."""
        late = asked > near
        if not bool(late.any()):
            return times, hs
        states = self._looked_at(asked, late, hs)
        return asked + (times - times.detach()), states + (hs - hs.detach())

    @torch.no_grad()
    def _looked_at(self, times: Tensor, these: Tensor, hs: Tensor) -> Tensor:
        """Return hs (rows, batch, state), and at `these` of the times (rows, batch) the states that events were found in."""
        states = hs.detach().clone()
        for look in self.looks:
            rows = (these & (times >= torch.from_numpy(look.start)) & (times <= torch.from_numpy(look.end))).nonzero()
            if len(rows):
                row, sample = rows.unbind(1)
                states[row, sample] = look.states(times[row, sample].numpy(), sample.numpy()).to(states)
            if look.beyond is not None:
                whose, time, state = look.beyond
                states[these[:, whose] & (times[:, whose] == time), whose] = state
        return states

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

    def _stop(self, stopped: list[_Crossing], since: Tensor) -> None:
        """End samples, or set them to the states they go on from."""
        at, before = self.t[:, None].detach(), self.h.detach()
        values = [event(at, before) for event in self.events]
        for number, event in enumerate(self.events):
            here = [crossing for crossing in stopped if crossing.event == number]
            if not here:
                continue
            rows = torch.zeros(len(self.h), dtype=torch.bool, device="cpu")
            rows[[crossing.sample for crossing in here]] = True
            self.stops[number] += rows.numpy()
            if event.reset is None:
                self.over = self.over | rows  # not in place: `torch.where` keeps it for the gradients of times
                for crossing in here:
                    self.status[crossing.sample] = f"ended by event {number} at t = {self.direction * crossing.time:g}"
                continue
            after = event.reset(self.t[:, None].to(self.h), self.h)
            if not isinstance(after, Tensor) or after.shape != self.h.shape:
                came = str(tuple(after.shape)) if isinstance(after, Tensor) else type(after).__name__
                raise ValueError(f"`reset` of an Event must give states {tuple(self.h.shape)}, got {came}.")
            self.h = torch.where(rows[:, None].to(self.h.device), after, self.h)
        self._set_sides(stopped, values, before)
        self._count_at_once(stopped, since)

    def _set_sides(self, stopped: list[_Crossing], values: list[Tensor], before: Tensor) -> None:
        """Set the side of each event that resets have moved; of one that a reset has left at 0 that is to be found."""
        at, reset = self.t[:, None].detach(), np.zeros(len(self.h), dtype=bool)
        reset[[crossing.sample for crossing in stopped if self.events[crossing.event].reset]] = True
        for number, event in enumerate(self.events):
            was, now = _array(values[number]), _array(event(at, self.h.detach()))
            own = np.zeros(len(was))
            for crossing in stopped:
                if crossing.event == number:
                    own[crossing.sample] = -crossing.after
            off, rounding = np.abs(was), event.rounding(at, self.h.detach(), ROUNDINGS)
            if (near := (own != 0) & (now != was) & (np.abs(now) > rounding) & (np.abs(now) <= off)).any():
                # Near the end of a solution g may be far from 0 after a second solve, which says nothing of the reset.
                looked = self._looked_at(at.mT, torch.from_numpy(near)[None], before[None])[0]
                off = np.minimum(off, np.abs(_array(event(at, looked))))
            at_zero = np.abs(now) <= np.maximum(off, rounding)
            moved = reset & (now != was) & ~((own != 0) & at_zero)
            stays = reset & (own != 0) & at_zero
            self.sides[number] = np.where(moved, np.sign(now), np.where(stays, 0, self.sides[number]))
            self.left_at_zero[number] = np.where(stays, own, np.where(reset, 0, self.left_at_zero[number]))

    def _count_at_once(self, stopped: list[_Crossing], since: Tensor) -> None:
        for crossing in stopped:
            sample, begun = crossing.sample, float(since[crossing.sample])
            gone = crossing.time - begun > SAME * abs(crossing.time)
            self.at_once[sample] = 1 if gone else self.at_once[sample] + 1
            if self.at_once[sample] > MOST_AT_ONCE:
                self._refuse(crossing.event, sample, "again and again at one time")

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


def _array(values: Tensor) -> np.ndarray:
    found: np.ndarray = values.detach().cpu().double().numpy()
    return found
