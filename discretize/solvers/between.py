"""The states of a finished solve between the times that were asked for, with the weights it was solved with."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ctrnn import VectorField
from discretize.solvers.continuation import Continuation
from discretize.solvers.detached import ParameterSnapshot
from discretize.trajectory import Trajectory

__all__ = ["StatesBetween", "StatesBetweenStops"]


class StatesBetween:
    r"""Times -> states, by the steps of the solve where they are at hand, else solved on from the last known state.

    Args:    field; ts, hs: the known times, (n,) or (n, batch), and states; solve: (state, times) -> the states at the times,
             the first of which is the state's own; continuation: makes one of the steps, None where there is none.
             differentiable: whether the steps have the graph of the solve.
    Shape:   times (m,), or (m, batch) -> (m, batch, state).
    Raises:  RuntimeError where gradients are wanted and weights were written into since the solve.
    """

    def __init__(
        self,
        field: VectorField,
        ts: Tensor,
        hs: Tensor,
        solve: Callable[[Tensor, Tensor], Tensor],
        continuation: Callable[[], Continuation | None],
        differentiable: bool,
    ) -> None:
        self.snapshot, self.ts, self.hs = ParameterSnapshot(field, copied=True), ts, hs
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
        found = self.hs[place.to(self.hs.device), samples]
        return torch.where((known.gather(0, place) == times).to(self.hs.device)[..., None], found, states)

    def _columns(self, times: Tensor) -> Tensor:
        return times if times.dim() > 1 else times[:, None].expand(-1, self.hs.shape[1])

    def _shared(self, times: Tensor) -> Tensor:
        """Solved on, times in any order: those after the same known state in one solve."""
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
        """Every sequence at its own times, in one solve from the start through what is known."""
        times, known = self._columns(times), self._columns(self.ts)
        # Through all that is known: fixed steps end there too.
        every = torch.cat([known[1:].detach(), times])
        ordered, order = every.sort(dim=0, stable=True)
        solved = self.solve(self.hs[0], torch.cat([known[:1], ordered]))[1:]
        back = order.argsort(dim=0)[len(known) - 1 :].to(solved.device)
        return solved[back, torch.arange(solved.shape[1], device=solved.device)]


class StatesBetweenStops:
    r"""Times -> states of a solve from stop to stop: those of the last piece that has begun; after its end a sample stays there.

    Args:    last: the states at the end (batch, state); pieces: solves, each from where the one before stopped each sample.
    Shape:   times (m,), or (m, batch) -> (m, batch, state).
    """

    def __init__(self, last: Tensor, pieces: Sequence[Trajectory]) -> None:
        self.last, self.pieces = last, pieces

    def __call__(self, times: Tensor) -> Tensor:
        asked = times if times.dim() > 1 else times[:, None].expand(-1, len(self.last))
        states = self.last.expand(len(asked), *self.last.shape)
        begun = asked.new_full(asked.shape, -1).long()  # the number of the piece
        for number, piece in enumerate(self.pieces):
            begun[piece.ts[0].detach() <= asked] = number
        for number, piece in enumerate(self.pieces):
            mine = begun == number
            rows = mine.any(1)
            if bool(rows.any()):
                found = piece(asked[rows].clamp(piece.ts[0].detach(), piece.ts[-1].detach()))
                here = mine[rows].to(found.device)[..., None]
                states = states.index_put((rows.to(found.device).nonzero()[:, 0],), torch.where(here, found, states[rows]))
        return states
