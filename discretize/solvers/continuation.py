r"""The steps of a solve are kept, and give the states between their ends.

    h(t) = the step of the same method from (t_n, h_n) to t        t_n <= t <= t_n+1

That is continuous, ends where the step did, and is of the method's own order: as accurate as the solve, for one evaluation
of each stage. (Interpolants of the stages are of order 4 or less, and held inputs invite steps as long as a sample.) Where
many times are asked for in one step, or its slopes were kept, a polynomial of degree 5 is as accurate: of dopri5 and tsit5 by
two more evaluations in states of order 4, of others through three such states, and with their slopes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from ctrnn import VectorField, checks
from discretize.solvers.detached import Found, ParameterSnapshot
from discretize.solvers.engine import SolverStats
from discretize.solvers.kept import KeptSteps
from discretize.solvers.segments import Chain, Places, Segment
from discretize.solvers.tableaus import EmbeddedMethod, EmbeddedRungeKutta, slopes_of, weighted

__all__ = ["BY_SLOPES", "INSIDE", "INTERPOLATED", "QUINTIC", "Continuation", "Pieces", "StatesBetween", "quintic"]

INTERPOLATED = 5  # the highest order of which a polynomial of degree 5 is no worse than a step
AT_ONCE = 2**22  # numbers of states that are computed in one call
PER_STEP = 2  # times in a step from which on that takes fewer evaluations


@dataclass(frozen=True)
class Pieces:
    r"""A solution as a polynomial of degree 5 for each step of each sample; where a sample has fewer, the rest is never read.

    begin, length (pieces, batch): when they begin, in order, and how long they last; nodes (pieces, batch, 6, state): see
    `quintic`, slopes times the length.
    """

    begin: Tensor
    length: Tensor
    nodes: Tensor

    @classmethod
    def joined(cls, several: Sequence[Pieces]) -> Pieces:
        """Join those that follow one another."""
        return cls(*(torch.cat([getattr(each, name) for each in several]) for name in ("begin", "length", "nodes")))

    @classmethod
    def constant(cls, begin: Tensor, h: Tensor) -> Pieces:
        """Stay at h (batch, state) from the times (batch,) on."""
        nodes = torch.stack([h, *[torch.zeros_like(h)] * 5], 1)
        return cls(begin[None], torch.ones_like(begin)[None], nodes[None])

    def at(self, samples: Tensor, times: Tensor, inside: Tensor | None = None) -> Tensor:
        """Return the states of these samples at these times, (n,), (n,) -> (n, state); inside: times on the side of them that is
        meant, where slopes jump."""
        place = self._places(samples, times.detach() if inside is None else inside)
        begin, length = self.begin[place, samples], self.length[place, samples]
        share = ((times - begin) / torch.where(length > 0, length, 1.0)).to(self.nodes.dtype)
        weights = checks.time_on(quintic(share), self.nodes.device)
        nodes = self.nodes[place.to(self.nodes.device), samples.to(self.nodes.device)]
        return (weights[..., None] * nodes).sum(1)

    def _places(self, samples: Tensor, times: Tensor) -> Tensor:
        """Return the numbers of the pieces that times are in.

        Of two that meet at a time it is the earlier: they agree there, and the later may be one that is never read.
        """
        if len(self.begin) * len(times) <= AT_ONCE:
            begins = self.begin.mT[samples].contiguous()
            return (torch.searchsorted(begins, times[:, None].contiguous())[:, 0] - 1).clamp(min=0)
        place = torch.empty_like(samples)
        for sample, begins in enumerate(self.begin.mT.contiguous()):
            mine = (samples == sample).nonzero()[:, 0]
            place[mine] = torch.searchsorted(begins, times[mine]) - 1
        return place.clamp(min=0)


class Continuation:
    r"""Computes the states at any time of a solve from its steps: by one step of the method from where the step began.

    Where several times are in a step of an explicit method of order 5 or less, two such steps serve them all, to its middle and
    its end: between is the polynomial of degree 5 that has the states and slopes at the three.

    Args:    method, chain: of the solve; steps: all that were taken. `counts`: what its polynomials have cost.
    Shape:   times (n, batch), float64 -> (n, batch, state).
    """

    method: EmbeddedMethod
    chain: Chain
    steps: KeptSteps
    counts: SolverStats

    def __init__(self, method: EmbeddedMethod, chain: Chain, steps: KeptSteps) -> None:
        self.method, self.chain, self.steps, self.counts = method, chain, steps, SolverStats()
        self.order: np.ndarray = np.argsort(steps.sample, kind="stable")
        self.first: np.ndarray = np.searchsorted(steps.sample[self.order], np.arange(chain.driven.batch + 1))
        edges = chain.edges.detach().numpy()
        self.begins: np.ndarray = (edges[steps.segment, steps.sample] if chain.own else edges[steps.segment]) + steps.tau
        self.ends: np.ndarray = np.empty_like(self.begins)
        last = steps.sample[self.order[1:]] != steps.sample[self.order[:-1]]
        self.ends[self.order] = np.append(np.where(last, 0.0, self.begins[self.order[1:]]), 0.0)
        final = self.order[np.append(last, True)] if len(self.order) else self.order
        self.ends[final] = edges[-1, steps.sample[final]] if chain.own else edges[-1]
        self.together: bool = not (chain.own or chain.own_times)
        self.one_by_one: bool = not method.interpolated or method.implicit or method.order > INTERPOLATED

    def __call__(self, times: Tensor) -> Tensor:
        return self._shared(times) if self.together else self._own(times)

    def begins_of(self, sample: int) -> np.ndarray:
        """Return the times at which a sample's steps began."""
        mine = 0 if self.together else sample
        return self.begins[self.order[self.first[mine] : self.first[mine + 1]]]

    def before_failure(self) -> Continuation:
        """Return that of the steps of each sample after which another one began, in a state that is finite."""
        numbers, rows = self.steps.place[self.order].T
        finite = [torch.isfinite(h).all(1).cpu().numpy() for h in self.steps.states]
        begins = np.array([finite[number][row] for number, row in zip(numbers, rows, strict=True)], dtype=bool)
        same = np.append(np.diff(self.steps.sample[self.order]) == 0, False)
        kept = np.sort(self.order[begins & same & np.append(begins[1:], False)])
        columns = {name: getattr(self.steps, name)[kept] for name in ("sample", "segment", "tau", "place")}
        return Continuation(self.method, self.chain, replace(self.steps, **columns))

    def last_states(self, h: Tensor) -> Tensor:
        """Return the states at the begins of each sample's last step, of one that has taken none that of h (batch, state)."""
        if self.together:
            return self.steps.states[self.steps.place[self.order[-1], 0]] if len(self.order) else h
        some = np.flatnonzero(np.diff(self.first))
        if not len(some):
            return h
        last = self.steps.before(self.order[self.first[some + 1] - 1])
        return h.index_copy(0, torch.from_numpy(some).to(h.device), last.to(h))

    def state_before(self, sample: int, number: int) -> Tensor:
        """Return the state at the begin of one of the steps of a sample, (1, state)."""
        return self.steps.before(self.order[[self.first[sample] + number]])

    def step_into(self, time: float, sample: int) -> int:
        """Return the step of a sample that a time is in; at an end, the one that ends there."""
        mine = self.order[self.first[sample] : self.first[sample + 1]]
        return int(mine[max(1, int(np.searchsorted(self.begins[mine], time))) - 1])

    def stepping(self, times: Tensor, samples: Tensor, begins: Tensor, h: Tensor) -> Callable[[Tensor], Tensor]:
        """Return what gives the states at times (m,), the lengths of steps into these being tensors; each is near one of `times`.

        begins (m,), h (m, state): when the steps begin and the states there. They may be of another solve to the same tolerance,
        which near the end of a solution is far from this one: a derivative is along one of the two.
        """
        steps = np.array([self.step_into(*each) for each in zip(times.tolist(), samples.tolist(), strict=True)], dtype=int)
        tau = torch.from_numpy(self.steps.tau[steps]) + (begins - torch.from_numpy(self.begins[steps]))
        # Anew: what it has read of its input may have been read without gradients.
        afresh = Continuation(self.method, Chain(self.chain.driven, self.chain.edges, self.chain.places), self.steps)
        return lambda at: afresh._each(afresh._moved, steps, samples.numpy(), at - begins, tau, h)[0]

    def _shared(self, times: Tensor) -> Tensor:
        distinct, place = times.unique(return_inverse=True)
        states: list[Tensor] = []
        for k, t in zip(self._step_of(distinct.numpy(), 0), distinct.tolist(), strict=True):
            tau = torch.tensor([[self.steps.tau[k]]], dtype=torch.float64, device="cpu")
            h = self.steps.states[self.steps.place[k, 0]]
            segment = self.chain.segment(int(self.steps.segment[k]))
            states += self._moved(segment, tau, torch.tensor([[t - self.begins[k]]], device="cpu"), h)
        place, samples = place.to(states[0].device), torch.arange(times.shape[1], device=states[0].device)
        return torch.stack(states)[place, samples]

    def _own(self, times: Tensor) -> Tensor:
        batch = times.shape[1]
        steps = np.stack([self._step_of(mine.numpy(), row) for row, mine in enumerate(times.unbind(1))], 1).reshape(-1)
        passed, samples = times.reshape(-1).numpy() - self.begins[steps], np.arange(len(steps)) % batch
        distinct, place = np.unique(steps, return_inverse=True)
        kept = self.steps.nodes is not None or (not self.one_by_one and self.steps.stages(distinct) is not None)
        if self.one_by_one or (PER_STEP * len(distinct) > len(steps) and not kept):
            return self._each(self._moved, steps, samples, torch.from_numpy(passed))[0].reshape(len(times), batch, -1)
        whole = self.ends[distinct] - self.begins[distinct]
        nodes = self._polynomials(distinct, whole).unbind(1)
        share = torch.from_numpy(passed / np.where(whole > 0, whole, 1.0)[place]).to(nodes[0])
        weights = zip(nodes, quintic(share).unbind(1), strict=True)
        rows = torch.from_numpy(place).to(share.device)
        state: Tensor = sum((node.index_select(0, rows) * weight[:, None] for node, weight in weights), share.new_zeros(1))
        return state.reshape(len(times), batch, -1)

    def pieces(self) -> Pieces:
        """Return all steps as polynomials, which can be read wherever the solution is an input again."""
        batch, begins, lengths = self.chain.driven.batch, self.begins[self.order], (self.ends - self.begins)[self.order]
        if self.together:
            each = []
            for k, whole in zip(self.order, lengths, strict=True):
                tau, dt = (torch.tensor([[x]], dtype=torch.float64, device="cpu") for x in (self.steps.tau[k], whole))
                h = self.steps.states[self.steps.place[k, 0]]
                each.append(torch.stack(self._nodes(self.chain.segment(int(self.steps.segment[k])), tau, dt, h), 1))
            begin, length = (torch.from_numpy(x)[:, None].expand(-1, batch) for x in (begins, lengths))
            return Pieces(begin, length, torch.stack(each))
        polynomials = self.polynomials()
        counts = np.diff(self.first)
        row, sample = np.arange(len(begins)) - np.repeat(self.first[:-1], counts), np.repeat(np.arange(batch), counts)
        size = (int(counts.max()), batch)
        end = np.broadcast_to(self.chain.edges.detach().numpy()[-1], batch)
        begun, lasts = np.tile(end, (size[0], 1)), np.ones(size)
        begun[row, sample], lasts[row, sample] = begins, lengths
        where = tuple(torch.from_numpy(x).to(polynomials.device) for x in (row, sample))
        nodes = polynomials.new_zeros(*size, *polynomials.shape[1:]).index_put(where, polynomials)
        return Pieces(torch.from_numpy(begun), torch.from_numpy(lasts), nodes)

    def polynomials(self) -> Tensor:
        """Return the nodes of all steps, those of one sample after those of another, (steps, 6, state); see `quintic`."""
        return self._polynomials(self.order, (self.ends - self.begins)[self.order])

    def _polynomials(self, steps: np.ndarray, lengths: np.ndarray) -> Tensor:
        if self.steps.nodes is None:
            return torch.stack(self._each(self._nodes, steps, self.steps.sample[steps], torch.from_numpy(lengths)), 1)
        if self.method.dense:  # of others a kernel counts what it takes for them
            self.counts.call(len(INSIDE), len(steps))
        return self.steps.nodes[torch.from_numpy(self.steps.place[steps, 1])]

    def _each(
        self,
        ahead: Callable[..., tuple[Tensor, ...]],
        steps: np.ndarray,
        samples: np.ndarray,
        dt: Tensor,
        tau: Tensor | None = None,
        h: Tensor | None = None,
    ) -> list[Tensor]:
        """Go dt ahead from where these steps of these samples began."""
        h = self.steps.before(steps) if h is None else h
        tau = torch.from_numpy(self.steps.tau[steps]) if tau is None else tau
        numbers, rows, found = torch.from_numpy(self.steps.segment[steps]), torch.from_numpy(samples), []
        ks = self.steps.stages(steps) if ahead == self._nodes else None
        for here in torch.arange(len(steps), device="cpu").split(max(1, AT_ONCE // h.shape[1])):
            begin, length = (checks.time_on(x[here, None], h.device) for x in (tau, dt))
            mine = here.to(h.device)
            more = () if ks is None else ([k.index_select(0, mine) for k in ks],)
            found.append(ahead(Places(self.chain, numbers[here], rows[here]), begin, length, h.index_select(0, mine), *more))
        return [torch.cat(column) for column in zip(*found, strict=True)]

    def _nodes(
        self, slope: Segment, tau: Tensor, dt: Tensor, h: Tensor, ks: Sequence[Tensor] | None = None
    ) -> tuple[Tensor, ...]:
        """Return the states where steps begin, how far they move halfway and to the end, and dt times the slopes at the three.

        ks: the slopes at the stages of these steps, where they were kept."""
        length = dt.to(h)
        if self.method.dense:
            return self._nodes_of(cast("EmbeddedRungeKutta", self.method), slope, tau, dt, h, ks)
        start = slope(tau, h)
        self.counts.call(1, len(h))
        states, slopes = [h], [length * start]
        for ahead in (dt / 2, dt):
            attempt = self.method.attempt(slope, tau, ahead, h, start)
            self.counts.call(self.method.attempt_cost(slope, h.shape[-1]) + (attempt.end is None), len(h))
            states.append(attempt.h)
            slopes.append(length * (slope(tau + ahead, attempt.h) if attempt.end is None else attempt.end))
        begin, half, end = slopes
        moved = [
            _difference(h, state, by_slopes)
            for state, by_slopes in zip(
                states[1:], ((5 * begin + 8 * half - end) / 24, (begin + 4 * half + end) / 6), strict=True
            )
        ]
        return h, begin, moved[0], half, moved[1], end

    def _nodes_of(
        self, pair: EmbeddedRungeKutta, slope: Segment, tau: Tensor, dt: Tensor, h: Tensor, ks: Sequence[Tensor] | None
    ) -> tuple[Tensor, ...]:
        """As `_nodes`, by two more evaluations of the field, in states of order 4 within a step: a polynomial with these slopes,
        those at the ends, and the step's own end is of order 5.

        Source: Enright, Jackson, Norsett and Thomsen 1986, Interpolants for Runge-Kutta formulas.
        """
        length = dt.to(h)
        if ks is None:
            ks = slopes_of(pair.attempt(slope, tau, dt, h, None), pair)
            assert ks is not None
            self.counts.call(len(ks), len(h))
        inside = [slope(tau + s * dt, torch.addcmul(h, length, pair.between(s, ks))) for s in INSIDE]
        self.counts.call(len(INSIDE), len(h))
        known = [ks[0], *inside, ks[-1], weighted(pair.weights, ks)]
        half, at_half = (length * weighted(weights, known) for weights in BY_SLOPES)
        return h, length * known[0], half, at_half, length * known[-1], length * known[-2]

    def _moved(self, slope: Segment, tau: Tensor, dt: Tensor, h: Tensor) -> tuple[Tensor]:
        return (self.method.attempt(slope, tau, dt, h, None).h,)

    def _step_of(self, times: np.ndarray, sample: int) -> np.ndarray:
        """Return the step of a sample that each time is in; at an end, the one that begins there."""
        mine = self.order[self.first[sample] : self.first[sample + 1]]
        if not len(mine):  # no time goes by for it: any step will do, as its states are known
            return np.zeros(len(times), dtype=int)
        return mine[np.searchsorted(self.begins[mine], times, side="right").clip(1) - 1]


def _difference(h: Tensor, state: Tensor, by_slopes: Tensor) -> Tensor:
    """Return state - h, by the integral of the slopes where the two are the same to rounding.

    Of a step that is short for its dtype, as between two delays that differ by 1e-8, the difference is rounding alone, and the
    slope of the polynomial, by which delays are learned, would be that over the length.
    """
    moved = state - h
    rounding = 4 * torch.finfo(h.dtype).eps * (state.detach().abs() + h.detach().abs())
    return torch.where((moved - by_slopes).detach().abs() <= rounding, by_slopes, moved)


# Where slopes are read in a step: far from Lobatto's points, where the integral of the four says nothing new. And the weights,
# of the slopes at 0, these and 1, and of the mean slope, for the integral to 1/2 and the slope there, of the quartic so given.
INSIDE = (1 / 6, 5 / 6)
_QUARTIC = np.linalg.inv([*([s**j for j in range(5)] for s in (0, *INSIDE, 1)), [1 / (j + 1) for j in range(5)]])
BY_SLOPES = np.array([[0.5 ** (j + 1) / (j + 1) for j in range(5)], [0.5**j for j in range(5)]]) @ _QUARTIC

# The powers of s by the value at 0, the differences from it at 1/2 and 1, and the slopes at the three, of the polynomial of
# degree 5 that has them.
QUINTIC = (
    (1, 0, 0, 0, 0, 0),
    (0, 1, 0, 0, 0, 0),
    (0, -6, 16, -8, 7, -1),
    (0, 13, -32, 32, -34, 5),
    (0, -12, 16, -40, 52, -8),
    (0, 4, 0, 16, -24, 4),
)


def quintic(s: Tensor) -> Tensor:
    """Return the weights, at s, of value, slope, difference, slope, difference, slope: (n,) -> (n, 6); see `QUINTIC`."""
    square, cube = s * s, s * s * s  # not s ** k, whose second derivative is nan at 0
    powers = torch.stack([torch.ones_like(s), s, square, cube, square * square, square * cube], -1)
    return powers @ torch.tensor(QUINTIC, dtype=s.dtype, device=s.device)


class StatesBetween:
    r"""Computes states between known times, by the steps of the solve if they were kept, else solving on from a known state.

    Args:    field; ts, hs: the known times, (n,) or (n, batch), and states; solve: (state, times) -> the states at the times,
             the first of which is the state's own; continuation: makes one of the steps, None where there is none.
             differentiable: whether the steps have the graph of the solve; found: as for `ParameterSnapshot`.
    Shape:   times (m,), or (m, batch) -> (m, batch, state).
    Raises:  RuntimeError where gradients are wanted and weights were written into since the solve.
    """

    snapshot: ParameterSnapshot
    ts: Tensor
    hs: Tensor
    solve: Callable[[Tensor, Tensor], Tensor]
    continuation: Callable[[], Continuation | None]
    differentiable: bool

    def __init__(
        self,
        field: VectorField,
        ts: Tensor,
        hs: Tensor,
        solve: Callable[[Tensor, Tensor], Tensor],
        continuation: Callable[[], Continuation | None],
        differentiable: bool,
        found: Found | None = None,
    ) -> None:
        self.snapshot, self.ts, self.hs = ParameterSnapshot(field, copied=True, found=found), ts, hs
        self.solve, self.continuation, self.differentiable = solve, functools.cache(continuation), differentiable

    def __call__(self, times: Tensor) -> Tensor:
        if not (torch.is_grad_enabled() and self.hs.requires_grad):
            with torch.no_grad():
                return self.snapshot.run_copies(lambda: self._states(times))
        if name := self.snapshot.changed():
            raise RuntimeError(
                f"`{name}` was written into since the solve, whose gradient between its times needs it as it was. Ask before "
                "that, or under `torch.no_grad()`, or for these times in the solve itself (`ts`)."
            )
        return self.snapshot.run(lambda: self._states(times))

    def _states(self, times: Tensor) -> Tensor:
        continuation = self.continuation() if len(times) else None
        wanted = torch.is_grad_enabled()
        if continuation and (self.differentiable or not wanted):
            return self._by_steps(times, continuation)
        solved = self._own(times) if self.ts.dim() > 1 or times.dim() > 1 else self._shared(times)
        if not continuation:
            return solved
        with torch.no_grad():  # the same numbers whether or not a gradient is wanted
            apart = self._by_steps(times, continuation) - solved
        return solved + apart

    def _by_steps(self, times: Tensor, continuation: Continuation) -> Tensor:
        times, known = self._columns(times), self._columns(self.ts.detach())
        states = continuation(times)
        # At known times the known states, to the bit.
        place = torch.searchsorted(known.mT.contiguous(), times.mT.contiguous()).mT.clamp(max=len(known) - 1)
        samples = torch.arange(self.hs.shape[1], device=self.hs.device)
        state = self.hs[place.to(self.hs.device), samples]
        return torch.where((known.gather(0, place) == times).to(self.hs.device)[..., None], state, states)

    def _columns(self, times: Tensor) -> Tensor:
        return times if times.dim() > 1 else times[:, None].expand(-1, self.hs.shape[1])

    def _shared(self, times: Tensor) -> Tensor:
        """Solve on to times in any order, those after the same known state in one solve."""
        if not len(times):
            return self.hs[:0]
        known = self.ts.detach()
        after = (torch.searchsorted(known, times, right=True) - 1).tolist()
        states: list[Tensor] = [self.hs[0]] * len(times)
        for k in set(after):
            mine = [i for i, place in enumerate(after) if place == k]
            asked, places = times[mine].unique(return_inverse=True)
            new = asked[asked > known[k]]
            solved = self.hs[k : k + 1] if not len(new) else self.solve(self.hs[k], torch.cat([self.ts[k : k + 1], new]))
            first = 0 if len(asked) > len(new) else 1  # the known time itself may be among those asked for
            for i, place in zip(mine, places.tolist(), strict=True):
                states[i] = solved[place + first]
        return torch.stack(states)

    def _own(self, times: Tensor) -> Tensor:
        """Solve for every sequence at its own times, from the start through what is known."""
        times, known = self._columns(times), self._columns(self.ts)
        # Through all that is known: fixed steps end there too.
        every = torch.cat([known[1:].detach(), times])
        ordered, order = every.sort(dim=0, stable=True)
        solved = self.solve(self.hs[0], torch.cat([known[:1], ordered]))[1:]
        back = order.argsort(dim=0)[len(known) - 1 :].to(solved.device)
        return solved[back, torch.arange(solved.shape[1], device=solved.device)]
