"""The steps that a solve took, kept to answer for the times between."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

__all__ = ["MOST_BYTES", "KeptSteps", "StepLog"]

MOST_BYTES = 2**26  # of states at the begins of steps; a solve that took more keeps none, and is solved on


@dataclass
class KeptSteps:
    r"""Holds steps in the order in which each sample took them.

    sample, segment, tau (steps,): whose, where it began, as the time since the segment's start; place (steps, 2): the tensor
    and its row that the state before it stands in; where all samples step together, sample and row are 0. nodes (rows, 6, state):
    of the polynomials of steps from the rows of one tensor of states, where these were made with the steps.
    """

    sample: np.ndarray
    segment: np.ndarray
    tau: np.ndarray
    place: np.ndarray
    states: list[Tensor]
    slopes: list[tuple[Tensor, ...] | None] = field(default_factory=list)  # of the stages from each of `states`, where kept
    nodes: Tensor | None = None
    _every: Tensor | None = None
    _stages: list[Tensor] | None = None

    def before(self, steps: np.ndarray) -> Tensor:
        """Return the states before these steps, (n,) -> (n, state)."""
        if self._every is None:
            with torch.enable_grad():  # the first caller may want none
                self._every = torch.cat(self.states)
        first = np.cumsum([0, *map(len, self.states)])[self.place[steps, 0]]
        return self._every.index_select(0, torch.from_numpy(first + self.place[steps, 1]).to(self._every.device))

    def stages(self, steps: np.ndarray) -> list[Tensor] | None:
        """Return the slopes at the stages of these steps, (n, state) each; None where some were not kept."""
        if not self.slopes or any(self.slopes[number] is None for number in np.unique(self.place[steps, 0])):
            return None
        if self._stages is None:
            with torch.enable_grad():
                self._stages = [torch.cat(column) for column in zip(*(k for k in self.slopes if k is not None), strict=True)]
        lengths = [0 if k is None else len(h) for k, h in zip(self.slopes, self.states, strict=True)]
        rows = torch.from_numpy(np.cumsum([0, *lengths])[self.place[steps, 0]] + self.place[steps, 1])
        return [column.index_select(0, rows.to(column.device)) for column in self._stages]


@dataclass
class StepLog:
    """Records the steps that an engine takes: references only, until they come to `MOST_BYTES`; slopes until these do."""

    entries: list[tuple[int, np.ndarray | None, np.ndarray, np.ndarray, Tensor]] = field(default_factory=list)
    slopes: list[tuple[Tensor, ...] | None] = field(default_factory=list)  # at the stages of each
    size: int = 0

    def add(
        self,
        segment: int,
        rows: np.ndarray | None,
        tau: np.ndarray,
        took: np.ndarray,
        h: Tensor,
        slopes: tuple[Tensor, ...] | None = None,
    ) -> None:
        """Add a step of the rows that took it, from tau and h (rows, state), and slopes at its stages; rows None: all."""
        self.size += h.numel() * h.element_size()
        if self.size > MOST_BYTES:
            self.entries.clear()
            self.slopes.clear()
        else:
            self.entries.append((segment, rows, tau.copy(), took, h))
            self.slopes.append(None if slopes is None or self.size * len(slopes) > MOST_BYTES else slopes)

    def steps(self) -> KeptSteps | None:
        """Return the steps, None if they were too many."""
        if not self.entries:
            return None
        columns = zip(*(self._columns(number) for number in range(len(self.entries))), strict=True)
        sample, segment, tau, place = (np.concatenate(column) for column in columns)
        return KeptSteps(sample, segment, tau, place, [entry[-1] for entry in self.entries], self.slopes)

    def _columns(self, number: int) -> tuple[np.ndarray, ...]:
        segment, rows, tau, took, _ = self.entries[number]
        row = np.flatnonzero(took)
        sample = row if rows is None else rows[row]
        return sample, np.full(len(row), segment), tau[row], np.stack([np.full(len(row), number), row], 1)
