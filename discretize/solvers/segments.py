r"""The segments of a solve, cut at every knot of the input and its clock and at every requested time.

Within one the right-hand side is smooth, and it is evaluated by the segment's number: no solver has to find the sample from
a rounded time. Solvers use the time since the segment's start, tau = t - start, where a short segment late in a long
recording has as many digits as an early one.

Where every sequence has times of its own, segment j is the j-th of each of them: one common clock counts segments, and by the
warp theorem sequence b runs along it at the speed (length of its segment j). One that is over has speed 0.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ctrnn import Driven, Path, VectorField, checks
from ctrnn.forward import jacobian_of, jvp
from ctrnn.inputs.path import Data, piece_numbers
from ctrnn.inputs.segment_input import Rows, SegmentInput, select
from discretize.steps.algebra.jacobian import JacobianCheck, checked_jacobian, jacobian, jacobian_cost, over_matrices

__all__ = ["Chain", "HeldSlope", "Places", "RightHandSide", "Segment", "SlopeFunction", "chain_of"]


class Chain:
    """Holds the segments of a solve, one after another.

    `edges` (segments + 1,) or (segments + 1, batch), float64, perhaps with a gradient; `places`: which edge each requested
    time is, (n,) or (n, batch); `requested`: the requested times, like `places`, where gradients to times matter; `path`, the
    projected input, and `speed`, by segment index; `lengths`: numbers, (segments, 1) or (segments, batch); `own`: every
    sequence has times of its own; `steady` and `own_times`: as of a path, for the whole right-hand side.
    """

    driven: Driven
    field: VectorField
    path: SegmentInput
    edges: Tensor
    places: Tensor
    requested: Tensor | None
    own: bool
    differentiable: bool

    def __init__(self, driven: Driven, edges: Tensor, places: Tensor, requested: Tensor | None = None) -> None:
        self.driven, self.field, self.path = driven, driven.field, _by_segment(driven.projected, edges)
        self.speed: SegmentInput | None = None if driven.speed is None else _by_segment(driven.speed, edges)
        self.speeds: np.ndarray | None = None  # for kernels: discretize/kernels/pieces.py
        self.past: Any = None  # likewise: a SeenPast
        self.steady: bool = self.path.steady and self.speed is None
        self.own_times: bool = self.path.own_times and (self.speed is None or self.speed.own_times)
        self.edges, self.places, self.requested = edges, places, requested
        self.own, self.differentiable = edges.dim() > 1, edges.requires_grad
        self.lengths: np.ndarray = _numbers(edges.detach().diff(dim=0)).reshape(len(edges) - 1, edges.shape[1] if self.own else 1)
        self.jacobian_check: JacobianCheck = JacobianCheck()
        self._edges: dict[torch.device, Rows] = {}

    def __len__(self) -> int:
        return len(self.edges) - 1

    def segment(self, j: int, rows: Tensor | None = None) -> Segment:
        return Segment(self, j, rows)

    def part(self, first: int, end: int) -> Chain:
        """Return the segments from `first` to before `end`, and want the state at their end."""
        found, apart = copy.copy(self), slice(first, end)
        found.edges, found.lengths, found._edges = self.edges[first : end + 1], self.lengths[apart], {}
        found.places, found.requested = torch.tensor([end - first], device="cpu"), None
        found.path = SegmentInput(self.path.path, self.path.pieces[apart])
        found.speed = None if self.speed is None else SegmentInput(self.speed.path, self.speed.pieces[apart])
        found.speeds = None if self.speeds is None else self.speeds[apart]
        return found

    def ends_on(self, j: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the edges of segment j, () or (batch, 1), moved to a device once and not at each evaluation."""
        if device not in self._edges:
            with torch.enable_grad():  # the first caller may want none
                edges = checks.time_on(self.edges, device)
                edges = edges[..., None] if self.own else edges
                self._edges[device] = Rows([edges[:-1], edges[1:]])
        start, end = self._edges[device][j]
        return start, end

    def arrival(self, edge: int, h: Tensor) -> Tensor:
        """Return dh/dt at an edge, on the segment that ends there; at the first edge, on the one that begins."""
        if edge == 0:
            return self.segment(0)(torch.zeros((), dtype=checks.time_dtype(h.device), device=h.device), h)
        segment = self.segment(edge - 1)
        return segment(segment.length(segment.times_on(h.device)), h)

    def arrivals(self, edges: np.ndarray, hs: Tensor) -> Tensor:
        """Return dh/dt at several edges by one call, of a field that kernels run, whose samples do not act on one another."""
        numbers, t = torch.from_numpy(np.maximum(edges - 1, 0)), self.edges[torch.from_numpy(edges)]
        data = self.path.path.gather(self.path.pieces[numbers])
        xs = self.path.path.evaluate(data, t[..., None] if self.own else t)
        slopes = self.field.flow(xs.flatten(0, 1), hs.flatten(0, 1)).unflatten(0, hs.shape[:2])
        if self.speed is None:
            return slopes
        pieces, path = self.speed.pieces[numbers], self.speed.path
        speeds = path.evaluate(path.gather(pieces.flatten()), t.flatten()).reshape(len(t), -1, 1)
        return speeds.to(device=hs.device, dtype=hs.dtype) * slopes

    def begun(self, h0: Tensor) -> Tensor:
        """Return the state that a solve starts from, with the gradient of the first time where the edges have none: to start
        later is to start from further back."""
        if self.requested is None or self.differentiable or not len(self):
            return h0
        start = self.requested[0]
        later = (start - start.detach()).to(device=h0.device, dtype=h0.dtype)
        return h0 - self.arrival(0, h0) * (later[:, None] if self.own else later)

    def wanted(self) -> np.ndarray:
        """Return the edges whose states have to be kept, in order."""
        return _numbers(self.places.unique() if self.places.dim() > 1 else self.places)

    def states(self, edges: np.ndarray, hs: Tensor, by_kernel: bool) -> Tensor:
        """Return the states at the requested times, (n, batch, state), from those at the wanted edges that the solve reached,
        (edges, batch, state)."""
        states = self._at_places(edges, hs)
        if self.requested is None or not len(self):
            return states
        # Where the edge is a knot or an equal time, its gradient is theirs; that of the requested time is dh/dt. As a number
        # the difference is 0.
        if by_kernel:
            slopes = self.arrivals(edges, hs)
        else:
            slopes = torch.stack([self.arrival(edge, h) for edge, h in zip(edges.tolist(), hs, strict=True)])
        slopes = self._at_places(edges, slopes)
        requested, places = self.requested[: len(states)], self.places[: len(states)]
        apart = requested - (self.edges.gather(0, places) if self.own else self.edges[places])
        apart = (apart - apart.detach()).to(device=states.device, dtype=states.dtype)
        return states + slopes * (apart[..., None] if self.own else apart[:, None, None])

    def _at_places(self, edges: np.ndarray, hs: Tensor) -> Tensor:
        if self.places.dim() == 1:  # shared times are places of their own
            return hs
        places = self.places[(self.places <= int(edges[-1])).all(1)].contiguous()
        rows = torch.searchsorted(torch.from_numpy(edges), places)
        if len(rows) == len(edges) and bool((rows == torch.arange(len(edges), device="cpu")[:, None]).all()):
            return hs
        return hs[rows.to(hs.device), torch.arange(hs.shape[1], device=hs.device)]


def _numbers(x: Tensor) -> np.ndarray:
    try:
        return x.numpy()
    except RuntimeError:  # torch.func's tensors have lists alone
        return np.array(x.tolist())


def _by_segment(path: Path, edges: Tensor) -> SegmentInput:
    if edges is path.knots and edges.dim() == 1:
        return SegmentInput(path, torch.arange(len(edges) - 1, device="cpu"))
    return SegmentInput(path, piece_numbers(path.knots.detach(), edges[:-1].detach()))


class SlopeFunction(ABC):
    """dh/dt as a method reads it. `steady`: tau does not matter; `differentiable_in_time`: torch.func can differentiate by it."""

    steady = differentiable_in_time = False

    @abstractmethod
    def __call__(self, tau: Tensor, h: Tensor) -> Tensor:
        """Return dh/dt."""

    def jacobian(self, tau: Tensor, h: Tensor) -> Tensor:
        """Return the Jacobian of dh/dt in h, as `VectorField.jacobian`."""
        return jacobian_of(lambda u: self(tau, u), h)

    def jacobian_cost(self, state: int) -> int:
        """Return how many evaluations a Jacobian of so many units takes."""
        return state

    def time_derivative(self, tau: Tensor, dt: Tensor, h: Tensor) -> Tensor:
        """Return the derivative of dh/dt by tau at (tau, h): exact where the input is made of torch's functions of time, else by
        three points in a step of length dt."""
        if self.differentiable_in_time:
            # If torch.func cannot differentiate the field, its time derivative is taken like that of a user's function.
            with suppress(RuntimeError, NotImplementedError):
                return jvp(lambda s: self(s, h), (tau,), (torch.ones_like(tau),))[1]
        # Differences of float32 over 1e-4 dt, enough for float64, are mostly rounding.
        width = torch.finfo(h.dtype).eps ** 0.25 * dt
        rise = 4 * (self(tau + width, h) - self(tau, h)) - (self(tau + 2 * width, h) - self(tau, h))
        # A sample that stands still (dt = 0) has no use for it.
        return rise / torch.where(width > 0, 2 * width, 1.0).to(device=h.device, dtype=h.dtype, non_blocking=True)


class HeldSlope(SlopeFunction):
    """A field whose projected input is held: dh/dt at any time."""

    steady = True

    def __init__(self, field: VectorField, projected: Tensor) -> None:
        self.field, self.projected = field, projected

    def __call__(self, tau: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(self.projected, h)

    def jacobian(self, tau: Tensor, h: Tensor) -> Tensor:
        return jacobian(self.field, self.projected, h)

    def jacobian_cost(self, state: int) -> int:
        return jacobian_cost(self.field)


class RightHandSide(SlopeFunction):
    """dh/dt on an interval on which it is smooth, by tau, the time since its start, for all samples or for `rows` of them.

    `lengths`: as numbers, of all samples or one for all; `differentiable`: the length has a gradient. tau is () or (rows, 1),
    float64.
    """

    rows: Tensor | None = None
    lengths: np.ndarray
    differentiable = False

    @abstractmethod
    def of(self, rows: Tensor) -> RightHandSide:
        """Return the right-hand side of some of its samples."""

    @abstractmethod
    def length(self, device: torch.device) -> Tensor:
        """Return the length, () or (rows, 1), with a gradient where `differentiable`."""

    @abstractmethod
    def times_on(self, device: torch.device) -> torch.device:
        """Return where tau has to be for states on a device."""

    @abstractmethod
    def when(self, tau: float, sample: int | None) -> float:
        """Return the user's time at tau, of one sample, as a number."""

    @abstractmethod
    def read(self, tau: Tensor) -> Tensor:
        """Return the projected input at tau: (rows, projected)."""


class Segment(RightHandSide):
    """Segment `number` of a chain, for all samples or for `rows`: dh/dt = speed(t) field(path(t), h)."""

    chain: Chain
    number: int
    rows: Tensor | None
    lengths: np.ndarray
    steady: bool
    differentiable: bool
    differentiable_in_time: bool

    def __init__(self, chain: Chain, number: int, rows: Tensor | None = None) -> None:
        self.chain, self.number, self.rows, self.lengths = chain, number, rows, chain.lengths[number]
        self.steady, self.differentiable, self.differentiable_in_time = chain.steady, chain.differentiable, chain.own_times
        self._ends_on: dict[torch.device, tuple[Tensor, Tensor]] = {}

    @cached_property
    def _reads(self) -> tuple[Data, Data]:
        """What the input and the speed are made of here, gathered at the first evaluation."""
        with torch.enable_grad():  # the first caller may want none
            return self._gathered(self.chain.path), () if self.chain.speed is None else self._gathered(self.chain.speed)

    def _gathered(self, path: SegmentInput) -> Data:
        return path.data(self.number, self.rows)

    def __call__(self, tau: Tensor, h: Tensor) -> Tensor:
        t = self._time_to_read(tau, h)
        flow = self.chain.field.flow(self.input_at(t), h)
        return flow if self.chain.speed is None else self.speed_at(t, h) * flow

    def jacobian(self, tau: Tensor, h: Tensor) -> Tensor:
        t = self._time_to_read(tau, h)
        matrix = checked_jacobian(self.chain.field, self.input_at(t), h, self.chain.jacobian_check)
        if self.chain.speed is None:
            return matrix
        speed = self.speed_at(t, h)
        return (speed if matrix.dim() == h.dim() else over_matrices(speed)) * matrix

    def jacobian_cost(self, state: int) -> int:
        return jacobian_cost(self.chain.field)

    def of(self, rows: Tensor) -> Segment:
        return Segment(self.chain, self.number, rows)

    def when(self, tau: float, sample: int | None) -> float:
        start = self.chain.edges[self.number].detach()
        return self.chain.driven.direction * (float(start if start.dim() == 0 else start[sample or 0]) + tau)

    def time(self, tau: Tensor) -> Tensor:
        """Return the time at tau, clamped to the segment: rounding may put it an ulp outside, a guessed first step beyond."""
        start, end = self.ends(tau.device)
        if start.dim() == 0:
            tau = tau.reshape(()) if tau.numel() == 1 else tau
        return _clamped(start + tau, start, end)

    def _time_to_read(self, tau: Tensor, h: Tensor) -> Tensor:
        return self.ends(h.device)[0] if self.steady else self.time(tau)

    def read(self, tau: Tensor) -> Tensor:
        return self.input_at(self.time(tau))

    def input_at(self, t: Tensor) -> Tensor:
        """Return the projected input at the time t, () or (rows, 1)."""
        return self.chain.path.path.evaluate(self._reads[0], t)

    def speed_at(self, t: Tensor, h: Tensor) -> Tensor:
        """Return c'(t), () or (rows, 1), in the dtype of h; of a chain with a speed."""
        assert self.chain.speed is not None
        speed = self.chain.speed.path.evaluate(self._reads[1], t)
        return speed.to(h.dtype) if speed.dim() == 0 else speed.to(device=h.device, dtype=h.dtype, non_blocking=True)

    def times_on(self, device: torch.device) -> torch.device:
        # Functions of one time read it on the CPU, and would wait for another device.
        return device if self.chain.own_times else torch.device("cpu")

    def ends(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return its start and end, () or (rows, 1), with the gradient of the edges."""
        if device not in self._ends_on:
            with torch.enable_grad():
                self._ends_on[device] = self._edges(device)
        return self._ends_on[device]

    def _edges(self, device: torch.device) -> tuple[Tensor, Tensor]:
        start, end = self.chain.ends_on(self.number, device)
        return select(start, self.rows), select(end, self.rows)

    def length(self, device: torch.device) -> Tensor:
        start, end = self.ends(device)
        return end - start


class Places(Segment):
    """The right-hand side at places in several segments of a chain, each of a row: their numbers, and whose they are, (rows,)."""

    def __init__(self, chain: Chain, numbers: Tensor, rows: Tensor) -> None:
        super().__init__(chain, 0, rows)
        self.numbers: Tensor = numbers

    def _gathered(self, path: SegmentInput) -> Data:
        assert self.rows is not None
        return path.data_at(self.numbers, self.rows, self.chain.driven.batch if path is self.chain.path else None)

    def _edges(self, device: torch.device) -> tuple[Tensor, Tensor]:
        edges, numbers = self.chain.edges, self.numbers
        start, end = (edges[each, self.rows] if self.chain.own else edges[each] for each in (numbers, numbers + 1))
        return checks.time_on(start[:, None], device), checks.time_on(end[:, None], device)


def chain_of(driven: Driven, ts: Tensor, by_slope: bool = False) -> Chain:
    """Cut the time from ts[0] to ts[-1] at every time of `ts` and every knot between them; ts (n,) or (n, batch).

    The edges have the gradients of the times they are. Where a requested time is a knot too, the edge is the knot, where the
    input changes; the requested time moves its own state only: see `Chain.states`. `by_slope`: where knots have no gradient the
    edges have none, and every requested time moves its own state so.
    """
    if ts is driven.path.knots and driven.speed is None and ts.dim() == 1 and not ts.requires_grad:
        return Chain(driven, ts, torch.arange(len(ts), device="cpu"))
    knots = [path.knots for path in (driven.path, driven.speed) if path is not None]
    times = ts.detach() if by_slope and not any(k.requires_grad for k in knots) else ts
    if ts.dim() == 1 and all(k.dim() == 1 for k in knots):
        edges, places, requested = *_shared(torch.cat(knots), times), ts
    else:
        requested, times = (each if each.dim() > 1 else each[:, None].expand(-1, driven.batch) for each in (ts, times))
        edges, places = _own([k if k.dim() > 1 else k[:, None].expand(-1, driven.batch) for k in knots], times)
    differentiated = ts.requires_grad or edges.requires_grad
    return Chain(driven, edges, places, requested if differentiated else None)


def _shared(knots: Tensor, ts: Tensor) -> tuple[Tensor, Tensor]:
    if torch.equal(knots.detach(), ts.detach()):
        return torch.cat([ts[:1], knots[1:-1], ts[-1:]]), torch.arange(len(ts), device="cpu")
    inside = (knots.detach() > ts[0].detach()) & (knots.detach() < ts[-1].detach())
    # Of equal times the first stays: a knot where there is one.
    every = torch.cat([ts[:1], knots[inside], ts[1:]])
    values, order = every.detach().sort(stable=True)
    first = torch.cat([torch.ones(1, dtype=torch.bool, device="cpu"), values.diff() > 0])
    return every[order[first]], torch.searchsorted(values[first], ts.detach())


def _own(knots: list[Tensor], ts: Tensor) -> tuple[Tensor, Tensor]:
    # Where a knot is the last time, the edge is that time, as where times are shared: see `_shared`.
    within = (torch.where(k.detach() < ts[-1].detach(), _clamped(k, ts[0], ts[-1]), ts[-1]) for k in knots)
    every = torch.cat([ts[:1], *within, ts[1:]])
    values, order = every.detach().sort(dim=0, stable=True)
    new = torch.cat([torch.ones_like(values[:1], dtype=torch.bool), values.diff(dim=0) > 0])
    # Equal times are the first of them, gradient and all: no segment between them, and the next begins where they are.
    numbers = torch.where(new, torch.arange(len(values), device="cpu")[:, None], 0).cummax(0).values
    moves = new.any(1)
    edges, values = every.gather(0, order.gather(0, numbers))[moves], values[moves]
    places = torch.searchsorted(values.mT.contiguous(), ts.detach().mT.contiguous()).mT
    return edges, places


def _clamped(times: Tensor, start: Tensor, end: Tensor) -> Tensor:
    # Not minimum and maximum: at a tie they give each side half of the derivative.
    times = torch.where(times > end, end, times)
    return torch.where(times < start, start, times)
