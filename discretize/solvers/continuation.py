r"""The steps of a solve, kept, and the states between their ends.

    h(t) = the step of the same method from (t_n, h_n) to t        t_n <= t <= t_n+1

That is continuous, ends where the step did, and is of the method's own order: as accurate as the solve, for one evaluation
of each stage. (Interpolants of the stages are of order 4 or less, and held inputs invite steps as long as a sample.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from discretize.solvers.embedded import EmbeddedMethod
from discretize.solvers.segments import Chain

__all__ = ["MOST_BYTES", "Continuation", "KeptSteps", "StepLog"]

MOST_BYTES = 2**26  # of states at the begins of steps; a solve that took more keeps none, and is solved on


@dataclass
class KeptSteps:
    r"""Steps in the order in which each sample took them.

    sample, segment, tau (steps,): whose, where it began, as the time since the segment's start; place (steps, 2): the tensor
    and its row that the state before it stands in; where all samples step together, sample and row are 0.
    """

    sample: np.ndarray
    segment: np.ndarray
    tau: np.ndarray
    place: np.ndarray
    states: list[Tensor]

    def before(self, steps: np.ndarray) -> Tensor:
        """The states before these steps, (n,) -> (n, state)."""
        numbers, rows = self.place[steps].T
        order = np.argsort(numbers, kind="stable")
        back = torch.from_numpy(np.argsort(order, kind="stable"))
        found = []
        for number in np.unique(numbers):
            state = self.states[number]
            found.append(state.index_select(0, torch.from_numpy(rows[numbers == number]).to(state.device)))
        return torch.cat(found).index_select(0, back.to(found[0].device))


@dataclass
class StepLog:
    """The steps that an engine takes, as it takes them: references only, until they come to `MOST_BYTES`."""

    entries: list[tuple[int, np.ndarray | None, np.ndarray, np.ndarray, Tensor]] = field(default_factory=list)
    size: int = 0

    def add(self, segment: int, rows: np.ndarray | None, tau: np.ndarray, took: np.ndarray, h: Tensor) -> None:
        """A step of the rows that took it, from tau and h (rows, state); rows None: all."""
        self.size += h.numel() * h.element_size()
        if self.size > MOST_BYTES:
            self.entries.clear()
        else:
            self.entries.append((segment, rows, tau.copy(), took, h))

    def steps(self) -> KeptSteps | None:
        """None where they were too many."""
        if not self.entries:
            return None
        columns = zip(*(self._columns(number) for number in range(len(self.entries))), strict=True)
        sample, segment, tau, place = (np.concatenate(column) for column in columns)
        return KeptSteps(sample, segment, tau, place, [entry[-1] for entry in self.entries])

    def _columns(self, number: int) -> tuple[np.ndarray, ...]:
        segment, rows, tau, took, _ = self.entries[number]
        row = np.flatnonzero(took)
        sample = row if rows is None else rows[row]
        return sample, np.full(len(row), segment), tau[row], np.stack([np.full(len(row), number), row], 1)


class Continuation:
    r"""The states at any time of a solve, from its steps.

    Args:    method, chain: of the solve; steps: all that were taken.
    Shape:   times (n, batch), float64 -> (n, batch, state).
    """

    def __init__(self, method: EmbeddedMethod, chain: Chain, steps: KeptSteps) -> None:
        self.method, self.chain, self.steps = method, chain, steps
        self.order = np.argsort(steps.sample, kind="stable")
        self.first = np.searchsorted(steps.sample[self.order], np.arange(chain.driven.batch + 1))
        edges = chain.edges.detach().numpy()
        self.begins = (edges[steps.segment, steps.sample] if chain.own else edges[steps.segment]) + steps.tau
        self.together = not (chain.own or chain.own_times)

    def __call__(self, times: Tensor) -> Tensor:
        return self._shared(times) if self.together else self._own(times)

    def begins_of(self, sample: int) -> np.ndarray:
        """The times at which a sample's steps began."""
        mine = 0 if self.together else sample
        return self.begins[self.order[self.first[mine] : self.first[mine + 1]]]

    def _shared(self, times: Tensor) -> Tensor:
        distinct, place = times.unique(return_inverse=True)
        states = []
        for k, t in zip(self._step_of(distinct.numpy(), 0), distinct.tolist(), strict=True):
            tau = torch.tensor([[self.steps.tau[k]]], dtype=torch.float64)
            h = self.steps.states[self.steps.place[k, 0]]
            states.append(self._moved(int(self.steps.segment[k]), None, tau, torch.tensor([[t - self.begins[k]]]), h))
        place, samples = place.to(states[0].device), torch.arange(times.shape[1], device=states[0].device)
        return torch.stack(states)[place, samples]

    def _own(self, times: Tensor) -> Tensor:
        batch = times.shape[1]
        steps = np.stack([self._step_of(mine.numpy(), row) for row, mine in enumerate(times.unbind(1))], 1).reshape(-1)
        h = self.steps.before(steps)
        samples = torch.arange(len(steps)) % batch
        tau, dt = (torch.from_numpy(x) for x in (self.steps.tau[steps], times.reshape(-1).numpy() - self.begins[steps]))
        found, places = [], []
        for segment, here in self._by_segment(steps):
            at = here.to(h.device)
            rows = (samples[here].to(h.device), tau[here][:, None].to(h.device), dt[here][:, None].to(h.device))
            found.append(self._moved(segment, *rows, h.index_select(0, at)))
            places.append(here)
        back = torch.cat(places).argsort().to(h.device)
        return torch.cat(found).index_select(0, back).reshape(len(times), batch, -1)

    def _by_segment(self, steps: np.ndarray) -> Iterator[tuple[int, Tensor]]:
        segments = self.steps.segment[steps]
        for segment in np.unique(segments):
            yield int(segment), torch.from_numpy(np.flatnonzero(segments == segment))

    def _moved(self, segment: int, rows: Tensor | None, tau: Tensor, dt: Tensor, h: Tensor) -> Tensor:
        return self.method.attempt(self.chain.segment(segment, rows), tau, dt, h, None).h

    def _step_of(self, times: np.ndarray, sample: int) -> np.ndarray:
        """The step of a sample that each time is in; at an end, the one that begins there."""
        mine = self.order[self.first[sample] : self.first[sample + 1]]
        if not len(mine):  # no time goes by for it: any step will do, as its states are known
            return np.zeros(len(times), dtype=int)
        return mine[np.searchsorted(self.begins[mine], times, side="right").clip(1) - 1]
