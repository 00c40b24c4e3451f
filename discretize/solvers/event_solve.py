r"""Solve with events: look for what crosses zero along the steps, stop samples there, and go on.

    look      solve a window without events, and read them on its steps (`crossings`)
    stop      a sample stays at its stop, or goes on from the state of a reset
    graph     where gradients are wanted the window is solved once more, through the begins of the steps that events are in;
              from there a step of the method, whose length is a tensor, comes to each event, and its time is implicit

The numbers are those of the look: asking for gradients, or for an event that stops nothing, changes none. Where events stop
samples windows double: what comes after a stop may be far, or no solution at all; of a solve that fails the steps until then are
looked at.

Fixed steps are equal up to the next knot or requested time, as without events, and begin anew at each stop; windows end where
such steps do, so that no number depends on them.

A stop may be nearer to the end of a solution than two solves agree on that, and the second one fails before it. Then that sample
is solved to shortly before, from where it has the gradients of there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from discretize.errors import Failure, SolverError
from discretize.solvers.continuation import StatesBetween
from discretize.solvers.crossings import ROUNDINGS, Look
from discretize.solvers.engine import SolverStats
from discretize.solvers.event_graph import Crossing, Graph, GraphBetween, GraphSolve, StatesBetweenStops, StepGrid, Window
from discretize.solvers.events import Event, EventTimes, as_array
from discretize.trajectory import Trajectory

__all__ = ["WINDOWS", "EventSolve"]

MOST_STOPS = 10_000  # of a sample between two requested times
MOST_AT_ONCE = 100  # of a sample at one time: each may lead to the next, as in a row of balls
WINDOWS = 16  # the first window is that part of the whole time
NARROWEST = 2.0**-16  # of the first one: a window whose steps are too many to keep still
FARTHER = 1.5  # times as far as to the last stop: the next window
RESOLVED = 64  # roundings of time that a step must last for events to be read in it
STUCK = 2.0**-30  # of a window: steps as short as solves come to where solutions end


class EventSolve:
    r"""Solves to the last requested time, and finds what happens on the way.

    Args:    solve: (states, times (n, batch), steps) -> the solve from these, and what it counted; steps (batch,): to begin with,
             the longest that samples took before, None for a guess; events; h0 (batch, state); ts (n,) or (n, batch), increasing:
             the user's times, or where `direction` is -1 these negative. windows: how many of the first one the whole time is;
             once: gradients go through the steps that are looked at, in `between` alone; to_stop: the end is only as far as a
             stop is looked for, and what is 0 where a window ends has come there; at_numbers: gets the solves from stop to stop
             that have a graph, whose states are then taken; sides (events, batch): the sign that each event has had before, of
             a solve that goes on from another; failures: as `solve` -> which samples such a solve fails for, and why; None: only
             the one of the error is known. knots (k,) or (k, batch) each: of the input and its clock; steps_in: how many steps a
             length takes, of methods of fixed steps.
    Raises:  ValueError for events that give no numbers; SolverError, with the states so far, for solves and events that fail.
    """

    def __init__(
        self,
        solve: Callable[[Tensor, Tensor, np.ndarray | None], tuple[Trajectory, SolverStats]],
        events: tuple[Event, ...],
        h0: Tensor,
        ts: Tensor,
        direction: int = 1,
        windows: float = WINDOWS,
        once: bool = False,
        to_stop: bool = False,
        at_numbers: list[Trajectory] | None = None,
        sides: np.ndarray | None = None,
        failures: Callable[[Tensor, Tensor], dict[int, Failure]] | None = None,
        knots: Sequence[Tensor] = (),
        steps_in: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.solve, self.events, self.ts, self.direction = solve, events, ts, direction
        self.to_stop, self.once = to_stop, once and torch.is_grad_enabled()
        self.times: Tensor = ts if ts.dim() > 1 else ts[:, None].expand(-1, len(h0))
        self.asked: Tensor = self.times.detach()
        self.t: Tensor = self.times[0]
        self.h: Tensor = h0
        self.carried: np.ndarray | None = None
        self.over: Tensor = torch.zeros(len(h0), dtype=torch.bool, device="cpu")
        with torch.no_grad():
            self.sides: np.ndarray = self._signs(h0) if sides is None else sides.copy()
        self.left_at_zero: np.ndarray = np.zeros_like(self.sides)  # by a reset of that event: the side that it came from
        self.left_then: np.ndarray = np.zeros_like(self.sides)  # when
        self.stops: np.ndarray = np.zeros((len(events), len(h0)), dtype=int)
        self.stops_before: np.ndarray = self.stops.copy()  # the last requested time
        self.at_once: np.ndarray = np.zeros(len(h0), dtype=int)  # stops since time has gone on
        self.found: list[list[tuple[Tensor, Tensor, Tensor]]] = [[] for _ in events]
        self.pieces: list[Trajectory] = []  # from stop to stop
        self.windows: list[Window] = []  # to the next stops
        self.rows: list[Tensor] = [h0[None]]  # states, (rows, batch, state) each
        self.places: Tensor = torch.where(self.asked <= self.asked[:1], 0, -1)  # the row of each requested time, -1: none yet
        self.status: list[str] = ["completed"] * len(h0)
        self.counts: SolverStats = SolverStats(max(1, len(h0)))
        self.stats: dict[str, Any] = self.counts.stats("")
        first = max((self.asked[-1] - self.asked[0]).tolist(), default=0.0) / windows
        stops = first and any(event.stops for event in events)
        self.window: Tensor = torch.full_like(self.asked[0], first if stops else math.inf)  # of each sample
        self.narrowest: float = NARROWEST * first
        self.widest: float = math.inf  # a window whose steps can be kept
        self.reach: Tensor = torch.full_like(self.asked[0], math.inf)  # how far a sample whose solve has failed is solved next
        every = torch.cat([*(each if each.dim() > 1 else each[:, None].expand(-1, len(h0)) for each in knots), self.times])
        self.grid: Tensor = every.gather(0, every.detach().sort(dim=0, stable=True).indices)  # where fixed steps end anyway
        self.steps: StepGrid | None = None if steps_in is None else StepGrid(self.grid, steps_in)
        self.graph: GraphSolve = GraphSolve(
            self._solved, events, self.times, direction, self.grid, self.steps, failures, at_numbers
        )

    def run(self) -> Trajectory:
        try:
            while bool((self.t.detach() < (goal := self._goal())).any()):
                self._go_on(goal)
        except SolverError as error:
            raise SolverError(error._failure, self._trajectory("failed")) from None
        except Failure as failure:
            raise SolverError(replace(failure, time=self.direction * failure.time), self._trajectory("failed")) from None
        return self._trajectory("completed")

    def _goal(self) -> Tensor:
        return torch.where(self.over, self.t.detach(), self.asked[-1])

    def _trajectory(self, status: str) -> Trajectory:
        self.stats["status_of_samples"] = self.status
        ends = torch.where(self.over, self.direction * self.t.detach(), self.direction * math.inf)
        self.stats["ends_of_samples"] = ends.tolist()
        known = int((self.places >= 0).all(1).int().cumprod(0).sum())
        samples = torch.arange(len(self.h), device=self.h.device)
        hs = torch.cat(self.rows)[self.places[:known].to(self.h.device), samples]
        over, between = torch.where(self.over, self.t.detach(), math.inf), None
        if self.pieces and status == "completed":
            between = StatesBetweenStops(self.h, self.pieces, over, self.direction)
        ts, events = (self.ts if self.direction > 0 else -self.ts)[:known], tuple(map(self._listed, self.found))
        return Trajectory(ts, hs, self.stats, status, between, events)

    def _signs(self, h: Tensor) -> np.ndarray:
        """Return the sign of each event, (events, batch)."""
        return np.stack([np.sign(as_array(event(self.t[:, None].detach(), h.detach()))) for event in self.events])

    def _refuse(self, number: int, sample: int, how: str) -> NoReturn:
        """Raise that an event stops a sample again and again."""
        times = [float(t) for whose, at, _ in self.found[number][-50:] for t in at.detach()[whose == sample]]
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
        found, counts = self.solve(h, times, self.carried)
        self.counts.add(counts)
        last = {key: found.stats[key] for key in ("nfe_backward", "hint", "engine", "engine_why")}
        self.stats = self.counts.stats(found.stats["method"]) | last
        return found

    def _go_on(self, goal: Tensor) -> None:
        """Look ahead for what each sample crosses, and take all samples to where they stop, or to the end of the window."""
        mine, since = self._crossings(goal), self.t.detach()
        every = [crossing for each in mine for crossing in each]
        stops = {one.sample: place for place, one in enumerate(every) if self._stopped(mine[one.sample])}  # the last of each
        ends, whose, last = torch.from_numpy(self.windows[-1].look.end.copy()), list(stops), list(stops.values())
        ends[whose] = torch.tensor([every[place].time for place in last], dtype=ends.dtype, device="cpu")
        rows, end, until = torch.cat([window.hs for window in self.windows]), self.windows[-1].look.state, ends
        times, states = self._found(every)
        if (graph := None if self.once else self.graph.run(self.h, self.t, self.windows, every, ends)) is not None:
            rows, end, until, times, states = graph.found(self.events, every, rows, end, times, states)
        self._keep(ends, rows, graph)
        for number, found in enumerate(self.found):
            if here := [place for place, crossing in enumerate(every) if crossing.event == number]:
                samples = torch.tensor([every[place].sample for place in here], device="cpu")
                found.append((samples, times[here], _at(states, here)))
        self.h, self.t, self.carried = end, until, self.windows[-1].look.longest
        if whose:
            stopped = [one for one in every if self.events[one.event].stops]
            again = [place for place, one in zip(last, whose, strict=True) if self._goes_on(mine[one])]
            at = times.detach()
            at = at.index_put((torch.tensor(again, device="cpu"),), times[again]) if again else at
            samples = torch.tensor(whose, device="cpu")
            self.t = self.t.index_put((samples,), at[last])
            self.h = end.index_put((samples.to(end.device),), _at(states, last))
            # It is about as far to the next stop.
            self.window[samples] = torch.maximum(FARTHER * (ends - since), self.window / 4)[samples].clamp(max=self.widest)
            self.reach[samples] = math.inf
            self._stop(stopped, since)
            self._keep_after(whose, ends)

    def _goes_on(self, mine: list[Crossing]) -> bool:
        """Return whether the last crossings of a sample set it to another state."""
        return any(self.events[crossing.event].reset for crossing in mine)

    def _keep(self, ends: Tensor, rows: Tensor, graph: Graph | None) -> None:
        """Keep the states at the requested times until `ends`, and what gives those between."""
        begin = sum(map(len, self.rows))
        self.rows.append(rows)
        for window in self.windows:
            number = window.first + torch.arange(len(window.times) - 2, device="cpu")[:, None]
            inside = (number < len(self.asked)) & (self.asked.gather(0, number.clamp(max=len(self.asked) - 1)) <= ends)
            row, sample = inside.nonzero().unbind(1)
            self.places[number[row, sample], sample] = begin + 1 + row
            self.stops_before[:, sample.numpy()] = self.stops[:, sample.numpy()]
            begin += len(window.times)
            span = torch.stack([window.times[0], torch.from_numpy(window.look.end).minimum(ends)])
            between = window.solved.between if graph is None else GraphBetween(window.solved.between, graph.solved)
            self.pieces.append(replace(window.solved, ts=span, hs=torch.stack([window.hs[0], window.hs[-1]]), between=between))

    def _keep_after(self, whose: list[int], ends: Tensor) -> None:
        """Keep the states after stops, for requested times there, and of samples that have ended for all that follow."""
        after = self.asked[:, whose]
        takes = (after == ends[whose]) | (self.over[whose] & (after > ends[whose]))
        self.places[:, whose] = torch.where(takes, sum(map(len, self.rows)), self.places[:, whose])
        self.rows.append(self.h[None])

    def _crossings(self, goal: Tensor) -> list[list[Crossing]]:
        """Find what each sample crosses in the next window, in time, up to what stops it."""
        mine: list[list[Crossing]] = [[] for _ in self.status]
        self.windows = []
        h, t, ends = self.h if self.once else self.h.detach(), self.t.detach(), self.asked[-1].numpy()
        while bool((t < goal).any()):
            with torch.set_grad_enabled(self.once):
                window, failure = self._look(h, t, goal)
            self.windows.append(window)
            look = window.look
            with torch.no_grad():
                self._take(sorted(self._flips(look, (look.end >= ends) | self.to_stop)), mine)
            self.reach *= 2
            sample = None if failure is None else failure.sample
            if failure and (sample is None or not self._stopped(mine[sample])):
                # In a window of its own time is told apart more finely, and the end of a solution may be come nearer to.
                last = 0.0 if sample is None else look.last_step(sample)
                if last == 0 or self.steps is not None or last > STUCK * float((window.times[-1] - t)[sample]):
                    raise failure
                self.reach[sample] = last / STUCK**0.5
            h, t = look.state, torch.from_numpy(look.end)
            self.window = (2 * self.window).clamp(max=self.widest)
            goal = torch.where(torch.tensor([self._stopped(each) for each in mine], device="cpu"), t, goal)
            if not bool((self.reach.isfinite() & (t < goal)).any()):
                break
        return mine

    def _until(self, t: Tensor, goal: Tensor) -> Tensor:
        """Return the ends of the next window; of fixed steps where they end anyway."""
        until = torch.minimum(goal, t + torch.minimum(self.reach, self.window))
        return until if self.steps is None else torch.minimum(goal, self.steps.ends(t, until[None], up=True)[0])

    def _take(self, crossings: list[Crossing], mine: list[list[Crossing]]) -> None:
        """Add to each sample's crossings those up to what stops it, and those at the same time; keep the sides after them."""
        for crossing in crossings:
            time, sample, number, after, moves, _ = crossing
            had = mine[sample]
            if self._stopped(had) and time > had[-1].time + had[-1].moves + moves:  # not the same but for rounding
                continue
            self.sides[number, sample] = after
            event = self.events[number]
            if event.direction in (0, after):
                at, window = (had[-1].time, had[-1].window) if self._stopped(had) else (time, len(self.windows) - 1)
                had.append(crossing._replace(time=at, window=window))

    def _stopped(self, mine: list[Crossing]) -> bool:
        """Return whether the last crossings stop a sample."""
        return any(self.events[crossing.event].stops for crossing in mine)

    def _look(self, h: Tensor, t: Tensor, goal: Tensor) -> tuple[Window, SolverError | None]:
        """Solve the next window; of one that fails return the failure, and the steps until then: events may come before."""
        first, failure = (self.asked <= t).sum(0), None
        while True:
            until = self._until(t, goal)
            most = int(((self.asked > t) & (self.asked <= until)).sum(0).max())
            number = (first + torch.arange(most, device="cpu")[:, None]).clamp(max=len(self.asked) - 1)
            times = torch.cat([t[None], self.asked.gather(0, number).minimum(until), until[None]])
            try:
                solved = self._solved(h, times)
            except SolverError as error:
                failure, solved = error, error.trajectory
            steps = solved.between.continuation() if isinstance(solved.between, StatesBetween) else None
            if steps is not None:
                break
            if failure:
                raise failure
            self.widest = float((until - t).max()) / 2
            self.window = self.window.clamp(max=self.widest)
            if self.widest < self.narrowest or bool((self._until(t, goal) == until).all()):
                raise ValueError(
                    "`events` are looked for on the steps of a solve, and these were too many to keep; ask for more `ts`."
                )
        start = t.numpy()
        if failure is None:
            return Window(Look(self.events, steps, start, until.numpy(), solved.hs[-1]), times, solved.hs, solved, first), None
        # Each sample has come to the begin of its last step at least; fixed steps go on in what is not finite.
        steps = steps if self.steps is None else steps.before_failure()
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
        look = Look(self.events, steps, start, end, state, beyond)
        times = torch.cat([times[:-1].minimum(torch.from_numpy(end)), until[None]])
        hs = torch.cat([h[None].expand(len(times) - 1, *h.shape), state[None]])
        later = (times > t) & (torch.arange(len(times), device="cpu") < len(times) - 1)[:, None]
        if bool(later.any()):
            row, whose = later.nonzero().unbind(1)
            hs = hs.index_put((row, whose), look.states(times[row, whose].numpy(), whose.numpy()).to(hs))
        return Window(look, times, hs, solved, first), failure

    def _flips(self, look: Look, last: np.ndarray) -> list[Crossing]:
        """Find where events cross zero, each way, and keep where samples are that do not."""
        came = self.left_at_zero
        flips = look.flips(self.sides, last, np.where(came == 0, look.start, self.left_then))
        for number, sample in np.argwhere(flips.rests & (came != 0) & (flips.left == -came)).tolist():
            self._refuse(number, sample, "and leaves it at rest at g = 0, from where it is pushed on")
        crossed = np.zeros(came.shape, dtype=bool)
        crossed[flips.events, flips.samples] = True
        begun = np.where(self.sides == 0, flips.left, self.sides)
        self.sides = np.where(crossed, begun, flips.sides)
        self.left_at_zero = np.where(flips.left == 0, came, 0)
        columns = (column.tolist() for column in (flips.times, flips.samples, flips.events, flips.after, flips.moves))
        crossings = [Crossing(*each) for each in zip(*columns, strict=True)]
        if look.beyond is not None:
            sample, time, state = look.beyond
            at = torch.full((1, 1), time).to(state)
            for number, event in enumerate(self.events):
                side, there = flips.sides[number, sample], float(event.g(at, state[None]).reshape(-1).sign())
                if side and there == -side:
                    crossings.append(Crossing(time, sample, number, there, np.spacing(abs(time))))
        return crossings

    @torch.no_grad()
    def _found(self, every: list[Crossing]) -> tuple[Tensor, Tensor]:
        """Return times (m,) and states (m, state) of crossings, as they were looked at."""
        times = torch.tensor([crossing.time for crossing in every], dtype=torch.float64, device="cpu")
        states = self.h.detach().new_zeros(len(every), self.h.shape[1])
        for number, window in enumerate(self.windows):
            if not (here := [place for place, crossing in enumerate(every) if crossing.window == number]):
                continue
            look, samples = window.look, np.array([every[place].sample for place in here])
            found = look.states(times[here].numpy(), samples).to(states)
            states = states.index_copy(0, torch.tensor(here, device="cpu").to(states.device), found)
            if look.beyond is not None:
                whose, time, state = look.beyond
                these = [place for place in here if every[place].sample == whose and every[place].time == time]
                states = states.index_copy(
                    0, torch.tensor(these, device="cpu").long().to(states.device), state.expand(len(these), -1)
                )
        return times, states

    def _stop(self, stopped: list[Crossing], since: Tensor) -> None:
        """End samples, or set them to the states they go on from."""
        at = self.t[:, None].detach()
        resets = any(self.events[crossing.event].reset for crossing in stopped)
        values = [event(at, self.h.detach()) for event in self.events] if resets else []
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
        if resets:
            self._set_sides(stopped, values)
        if (often := self.stops - self.stops_before).max() > MOST_STOPS:
            number, sample = np.unravel_index(often.argmax(), often.shape)
            self._refuse(int(number), int(sample), f"more than {MOST_STOPS} times between two requested times")
        self._count_at_once(stopped, since)

    def _set_sides(self, stopped: list[Crossing], values: list[Tensor]) -> None:
        """Set the side of each event that resets have moved; of one that a reset has left at 0 that is to be found."""
        at, reset = self.t[:, None].detach(), np.zeros(len(self.h), dtype=bool)
        reset[[crossing.sample for crossing in stopped if self.events[crossing.event].reset]] = True
        for number, event in enumerate(self.events):
            was, now = as_array(values[number]), as_array(event(at, self.h.detach()))
            own = np.zeros(len(was))
            for crossing in stopped:
                if crossing.event == number:
                    own[crossing.sample] = -crossing.after
            off, rounding = np.abs(was), event.rounding(at, self.h.detach(), ROUNDINGS)
            at_zero = np.abs(now) <= np.maximum(off, rounding)
            stays = reset & (own != 0) & at_zero
            moved = reset & (now != was) & ~stays
            self.sides[number] = np.where(moved, np.sign(now), np.where(stays, 0, self.sides[number]))
            self.left_then[number] = np.where(stays, self.t.detach(), self.left_then[number])
            self.left_at_zero[number] = np.where(stays, own, np.where(reset, 0, self.left_at_zero[number]))

    def _count_at_once(self, stopped: list[Crossing], since: Tensor) -> None:
        for crossing in stopped:
            sample, begun = crossing.sample, float(since[crossing.sample])
            gone = crossing.time - begun > 2 * crossing.moves
            self.at_once[sample] = 1 if gone else self.at_once[sample] + 1
            if self.at_once[sample] > MOST_AT_ONCE:
                self._refuse(crossing.event, sample, "again and again at one time")

    def _listed(self, found: list[tuple[Tensor, Tensor, Tensor]]) -> EventTimes:
        if not found:
            return EventTimes.none(self.h)
        samples, times, states = (torch.cat(column) for column in zip(*found, strict=True))
        order = samples.argsort(stable=True)  # of one sample they are in time
        return EventTimes(samples[order], self.direction * times[order], states[order.to(states.device)])


def _at(states: Tensor, rows: list[int]) -> Tensor:
    """Return these rows: a list would be an index on the CPU, which not every device takes."""
    return states.index_select(0, torch.tensor(rows, device="cpu").to(states.device))
