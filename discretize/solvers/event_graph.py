r"""Give the windows of a solve with events, and the crossings in them, their gradients.

h_b        the state where the step begins that a crossing is in, of a solve with its graph
h(t)       one step of the method from there, of length t - b
g(t, h(t)) = 0        dt*/dp = -(dg/dp) / (dg/dt)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from discretize.errors import Failure, SolverError
from discretize.solvers.crossings import Look
from discretize.solvers.events import CrossingTime, Event
from discretize.trajectory import Trajectory

__all__ = ["Crossing", "Graph", "GraphBetween", "GraphSolve", "StatesBetweenStops", "StepGrid", "Window"]

SHORT = 16  # times as long before a stop as a solve failed before it
MOST_SHORT = 2.0**-8  # of the way to a stop: the gradient of its time is off by the square of that, where a solution has no more


class Crossing(NamedTuple):
    """Holds when a sample crosses zero of an event, the sign of g after it, by how much rounding may move the time, and the
    number of the window it was found in."""

    time: float
    sample: int
    event: int
    after: float
    moves: float
    window: int = 0


@dataclass(frozen=True)
class Window:
    """Holds a solve of a window: what reads its steps; times (rows, batch), the start, requested ones and the end, and the states
    at them; the number of the first requested time after the start, of each sample."""

    look: Look
    times: Tensor
    hs: Tensor
    solved: Trajectory
    first: Tensor


@dataclass(frozen=True)
class Graph:
    """Holds a solve of windows with its graph: times (rows, batch) with their gradients, and the states at them; `looked`: which
    are those that were looked at, and only the gradient is from here; `reach` (batch,): until when it was solved; places: the
    rows and samples (m, 2) of the begins of steps that crossings are in, None where these have no gradients."""

    windows: list[Window]
    solved: Trajectory
    times: Tensor
    hs: Tensor
    looked: Tensor
    reach: Tensor
    places: Tensor | None

    def found(
        self, events: Sequence[Event], every: list[Crossing], rows: Tensor, end: Tensor, times: Tensor, states: Tensor
    ) -> tuple[Tensor, ...]:
        """Return states at the requested times, the end and its times, and times and states of crossings, with their graph."""
        first, last = 1 + len(rows), len(self.times) - 1
        numbers = torch.cat([self.hs[:1].detach(), rows, self.hs[first:last].detach(), end[None]])
        hs = torch.where(self.looked[..., None], numbers, self.hs.detach()) + (self.hs - self.hs.detach())
        rows, end, until = hs[1:first], hs[-1], self.times[-1]
        if self.places is None:
            return rows, end, until, times, states
        moved, reached = times, states
        for number, window in enumerate(self.windows):
            if not (here := [place for place, crossing in enumerate(every) if crossing.window == number]):
                continue
            crossings, index = [every[place] for place in here], torch.tensor(here, device="cpu")
            arrived = arrive(
                window.look,
                events,
                crossings,
                self,
                self.places[index],
                times[index],
                states.index_select(0, index.to(states.device)),
            )
            moved, reached = moved.index_put((index,), arrived[0]), reached.index_put((index.to(end.device),), arrived[1])
        return rows, end, until, moved, reached


class GraphBetween:
    """Computes states between those of a window, with the gradients of the solve that has a graph."""

    def __init__(self, numbers: Any, graph: Trajectory) -> None:
        self.numbers, self.graph = numbers, graph

    @property
    def continuation(self) -> Callable[[], Any]:
        """What finds the steps of the window."""
        found: Callable[[], Any] = self.numbers.continuation
        return found

    def __call__(self, times: Tensor) -> Tensor:
        with torch.no_grad():
            numbers: Tensor = self.numbers(times)
        if not (torch.is_grad_enabled() and self.graph.hs.requires_grad):
            return numbers
        first, last = self.graph.ts.detach()[[0, -1]]
        moves = self.graph(times.clamp(first, last))
        return numbers + (moves - moves.detach())


class StatesBetweenStops:
    r"""Computes states of a solve with stops: those of the last piece that has begun; after its end a sample stays there.

    Args:    last: the states at the end (batch, state); pieces: solves, each from where the one before stopped each sample;
             over (batch,): from when on samples stay there, infinity if they do not; direction: -1
             where their times are the user's negative.
    Shape:   times (m,), or (m, batch) -> (m, batch, state).
    """

    last: Tensor
    pieces: Sequence[Trajectory]
    over: Tensor
    direction: int

    def __init__(self, last: Tensor, pieces: Sequence[Trajectory], over: Tensor, direction: int = 1) -> None:
        self.last, self.pieces, self.over, self.direction = last, pieces, over, direction

    def arriving(self, time: Tensor) -> Tensor:
        """Return the states (batch, state) at a time () in the last piece, at its end those before the stop."""
        (found,) = self.pieces[-1](self.direction * time[None])
        return found

    def __call__(self, times: Tensor) -> Tensor:
        times = times if self.direction > 0 else -times
        asked = times if times.dim() > 1 else times[:, None].expand(-1, len(self.last))
        states = self.last.expand(len(asked), *self.last.shape)
        begun = asked.new_full(asked.shape, -1).long()  # the number of the piece
        for number, piece in enumerate(self.pieces):
            begun[(piece.ts[0].detach() <= asked) & (asked < self.over)] = number
        for number, piece in enumerate(self.pieces):
            mine = begun == number
            rows = mine.any(1)
            if bool(rows.any()):
                found = piece(asked[rows].clamp(piece.ts[0].detach(), piece.ts[-1].detach()))
                here = mine[rows].to(found.device)[..., None]
                states = states.index_put((rows.to(found.device).nonzero()[:, 0],), torch.where(here, found, states[rows]))
        return states


class StepGrid:
    """Tells where fixed steps end: equal ones from a start, or a time of the grid, to the next.

    Args:    grid (n, batch): knots and requested times, in order; steps_in: how many steps lengths take.
    """

    def __init__(self, grid: Tensor, steps_in: Callable[[np.ndarray], np.ndarray]) -> None:
        self.grid, self.steps_in, self.numbers = grid, steps_in, grid.detach().mT.contiguous()

    def ends(self, t: Tensor, times: Tensor, up: bool = False) -> Tensor:
        """Return the ends of steps from t (batch,) on that are nearest to the times (rows, batch), or not before them, `up`.

        They move with what is at both ends of their segment; nearest ones are the numbers that came.
        """
        after = torch.searchsorted(self.numbers, times.detach().mT.contiguous(), right=not up).mT.clamp(1, len(self.grid) - 1)
        low, high = self.grid.gather(0, after - 1), self.grid.gather(0, after)
        low = torch.where(low.detach() < t.detach(), t, low)
        length = (high - low).detach()
        steps = torch.from_numpy(self.steps_in(length.numpy()))
        place = (times.detach() - low.detach()) / torch.where(length > 0, length, 1.0) * steps
        share = ((place - 1e-9).ceil() if up else place.round()) / steps
        ends = torch.where(share == 1, high, low + (high - low) * share)
        return ends.detach() if up else times.detach() + (ends - ends.detach())


class GraphSolve:
    r"""Solves windows once more with their graph, to where samples stop, through the steps that crossings are in.

    Args:    as of an `EventSolve`; grid (n, batch): knots and requested times, in order; steps: fixed ones.
    """

    def __init__(
        self,
        solve: Callable[[Tensor, Tensor], Trajectory],
        events: Sequence[Event],
        times: Tensor,
        direction: int,
        grid: Tensor,
        steps: StepGrid | None,
        failures: Callable[[Tensor, Tensor], dict[int, Failure]] | None,
        at_numbers: list[Trajectory] | None,
    ) -> None:
        self.solve, self.events, self.times, self.direction, self.grid = solve, events, times, direction, grid
        self.steps, self.failures, self.at_numbers = steps, failures, at_numbers
        self.has_graph: bool | None = None  # of solves from states that have none; None: not known yet

    def run(self, h: Tensor, t: Tensor, windows: list[Window], every: list[Crossing], ends: Tensor) -> Graph | None:
        """Return the solve from h at t to `ends` (batch,); None where no gradients are wanted, or nothing has one."""
        if self.at_numbers is None and not torch.is_grad_enabled():
            return None
        at, flat = t[:, None], not h.requires_grad
        holds = bool(every) and any(event(at, h).requires_grad for event in self.events)
        if self.at_numbers is None and flat and self.has_graph is False and not holds:
            return None
        begins, places = self._begins(t, windows, every, 1 + sum(len(window.times) for window in windows))
        until = self._on_grid(ends) if self.steps is None else self.steps.ends(t, ends[None])[0]
        until = torch.where(_stopped(every, self.events, len(t)), ends, until)
        asked = torch.cat([t[None], *(self._asked_in(window, ends) for window in windows), begins, until[None]])
        near = ends
        while True:
            times = torch.where(asked > near, near, asked)
            order = times.detach().sort(dim=0, stable=True).indices
            try:
                solved = self.solve(h, times.gather(0, order))
                break
            except SolverError as error:
                near = self._nearer(error, h, every, asked.detach(), near)
        if self.at_numbers is not None:
            self.at_numbers.append(solved)
        if flat and self.has_graph is None:
            self.has_graph = solved.hs.requires_grad
        if not solved.hs.requires_grad and not holds:
            if self.at_numbers is None:
                return None
            places = None
        hs = solved.hs[order.argsort(0).to(solved.hs.device), torch.arange(len(ends), device=solved.hs.device)]
        late = torch.ones_like(asked, dtype=torch.bool) if self.at_numbers is None else asked > near
        return Graph(windows, solved, asked, hs, late.to(hs.device), near, places)

    def _asked_in(self, window: Window, ends: Tensor) -> Tensor:
        """Return the times of a window, none after `ends`, requested ones with their gradients."""
        times = window.times.minimum(ends)
        number = window.first + torch.arange(len(times) - 2, device="cpu")[:, None]
        asked = self.times.gather(0, number.clamp(max=len(self.times) - 1))
        inside = (number < len(self.times)) & (asked.detach() <= ends)
        return torch.cat([times[:1], torch.where(inside, asked, times[1:-1]), times[-1:]])

    def _on_grid(self, times: Tensor) -> Tensor:
        """Return times (batch,), with the gradient of knots and requested times that they are."""
        if not self.grid.requires_grad:
            return times
        place = torch.searchsorted(self.grid.detach().mT.contiguous(), times[:, None]).clamp(max=len(self.grid) - 1)
        there = self.grid.gather(0, place.mT)[0]
        return torch.where(there.detach() == times, there, times)

    def _begins(self, t: Tensor, windows: list[Window], every: list[Crossing], first: int) -> tuple[Tensor, Tensor | None]:
        """Return when the steps begin that crossings are in, (rows, batch), and the row, from `first` on, and sample of each."""
        count, places = [0] * len(t), []
        for crossing in every:
            places.append((count[crossing.sample], crossing.sample))
            count[crossing.sample] += 1
        begins = t.detach().expand(max(count, default=0), len(count)).clone()
        for crossing, (row, sample) in zip(every, places, strict=True):
            look = windows[crossing.window].look
            begins[row, sample] = look.steps.begins[look.steps.step_into(crossing.time, sample)]
        found = torch.tensor(places, dtype=torch.long, device="cpu").reshape(-1, 2) + torch.tensor([first, 0], device="cpu")
        return (self.steps.ends(t, begins) if self.steps and places else begins), found

    def _nearer(self, error: SolverError, h: Tensor, every: list[Crossing], asked: Tensor, near: Tensor) -> Tensor:
        """Return until when each sample is to be solved, after one until `near` failed. Raises what is no end of a solution."""
        if error.sample is None:
            raise error
        failed, near = {error.sample: error._failure}, near.clone()
        if self.failures is not None:
            failed |= self.failures(h.detach(), asked.minimum(near).sort(0).values)
        for sample, failure in failed.items():
            begin, stop = float(asked[0, sample]), float(asked[-1, sample])
            lacks = SHORT * max(stop - self.direction * failure.time, stop - float(near[sample]), np.spacing(abs(stop)))
            if lacks > MOST_SHORT * (stop - begin) or not _stopped(every, self.events, len(near))[sample]:
                raise SolverError(failure, error.trajectory)
            near[sample] = stop - lacks
        return near


def _stopped(every: list[Crossing], events: Sequence[Event], batch: int) -> Tensor:
    """Return which samples (batch,) a crossing stops."""
    stopped = torch.zeros(batch, dtype=torch.bool, device="cpu")
    stopped[[crossing.sample for crossing in every if events[crossing.event].stops]] = True
    return stopped


def arrive(
    look: Look, events: Sequence[Event], crossings: list[Crossing], graph: Graph, places: Tensor, times: Tensor, states: Tensor
) -> tuple[Tensor, Tensor]:
    """Return times (m,) and states (m, state) of the crossings of one window, numbers so far, with their gradients.

    Where the graph ends before such a step, near the end of a solution, they are those of where it ends.
    """
    row, samples = places.unbind(1)
    begins, h = graph.times[row, samples], graph.hs[row.to(states.device), samples.to(states.device)]
    ends = begins.detach() > graph.reach[samples]
    begins = torch.where(ends, graph.reach[samples], begins)
    step_to = look.steps.stepping(times, samples, begins, h)
    at, apart = torch.where(ends, begins.detach(), times), torch.zeros_like(times)
    reached, leaves = step_to(at), at.clone().requires_grad_()
    # Without what comes before, whose graph is long.
    along = look.steps.stepping(times, samples, begins.detach(), h.detach())(leaves)
    for number, event in enumerate(events):
        here = torch.tensor([place for place, one in enumerate(crossings) if one.event == number], dtype=torch.long, device="cpu")
        if not len(here):
            continue
        values, moving = event(at[here, None], reached[here.to(h.device)]), event(leaves[here, None], along[here.to(h.device)])
        if not (values.requires_grad and moving.requires_grad):  # g is a constant there, after a jump: the time has no gradient
            continue
        (slopes,) = torch.autograd.grad(moving.sum(), leaves, retain_graph=True)
        apart = apart.index_put((here,), CrossingTime.apply(apart[here], slopes[here], values))
    after = step_to(at + apart) if apart.requires_grad else reached
    return times + apart, states + (after - after.detach())
