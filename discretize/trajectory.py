"""What every run returns: the times, the states at them, what it cost, how it ended, and the states in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ctrnn import checks

__all__ = ["Trajectory"]

Resume = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Trajectory:
    r"""States at times, and, of a solve, at any time between them: `trajectory(t)`.

    `stats` counts what the run did: "method", "nfe" (calls of the field), "nfe_samples" (samples it was called with, all
    calls together), "nfe_backward" (calls made again for gradients, counted as they happen), "num_steps" (attempted),
    "num_accepted_steps", "num_rejected_steps" (of the sample that took most), "num_forced_steps" (accepted at `min_step`),
    "steps_of_samples", "smallest_step" (the smallest one taken, in units of time; None without steps), "smallest_step_at"
    (where it began), "hint" (what would have been easier, or None), "engine" ("compiled", "torch" or "steps": see docs/speed.md)
    and "engine_why" (why nothing faster ran, or None). Samples in a compiled solve do not wait for one another, and "nfe" is
    that of the one that took most.

    Shape:   ts (n,), or (n, batch) where every sequence was asked for at times of its own, float64; hs (n, batch, state),
             hs[0] the initial state. trajectory(t): t () -> (batch, state); (m,) or (m, batch) -> (m, batch, state).
    """

    ts: Tensor
    hs: Tensor
    stats: dict[str, Any] = field(default_factory=dict)
    status: str = "completed"
    resume: Resume | None = field(default=None)  # (state, times) -> the states at the times, the first its own

    def __len__(self) -> int:
        return len(self.ts)

    def __repr__(self) -> str:
        return f"Trajectory({len(self.ts)} times, hs {tuple(self.hs.shape)}, status={self.status!r}, stats={self.stats})"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"resume": None}  # what solves on does not travel

    def __call__(self, t: float | Tensor) -> Tensor:
        """The state at t, as if it had been asked for: solved anew from the last known state before, with the same settings.

        Gradients flow. Raises ValueError for times outside [ts[0], ts[-1]], and where the solve is not at hand: for runs
        of discrete cells, and copies from other processes.
        """
        if self.resume is None:
            raise ValueError("This trajectory has states at its own times only (`ts`): it is not a solve, or a copy of one.")
        times = checks.evaluation_times("t", t, 2)
        if self.ts.dim() == 1 and times.dim() < 2:
            start, end = self.ts.detach()[[0, -1]].tolist()
            asked = checks.within("t", times.reshape(-1), start, end)
            states = self._between(asked)
        else:
            states = self._of_each(times)
        return states if times.dim() else states[0]

    def _between(self, times: Tensor) -> Tensor:
        """Shared times, in any order: those after the same known state in one solve."""
        assert self.resume is not None
        if not len(times):
            return self.hs[:0]
        known = self.ts.detach()
        after = (torch.searchsorted(known, times, right=True) - 1).tolist()
        states: list[Tensor] = [self.hs[0]] * len(times)
        for k in set(after):
            mine = [i for i, place in enumerate(after) if place == k]
            asked, places = times[mine].unique(return_inverse=True)
            new = asked[asked > known[k]]
            solved = self.hs[k : k + 1] if not len(new) else self.resume(self.hs[k], torch.cat([self.ts[k : k + 1], new]))
            first = 0 if len(asked) > len(new) else 1  # the known time itself may be among those asked for
            for i, place in zip(mine, places.tolist(), strict=True):
                states[i] = solved[place + first]
        return torch.stack(states)

    def _of_each(self, times: Tensor) -> Tensor:
        """Every sequence at its own times, in one solve from the start through what is known."""
        assert self.resume is not None
        batch = self.hs.shape[1]
        if times.dim() < 2:
            times = times.reshape(-1, 1).expand(-1, batch)
        if times.shape[1] != batch:
            raise ValueError(f"`t` has times for {times.shape[1]} sequences, the trajectory has {batch}.")
        known = self.ts if self.ts.dim() > 1 else self.ts[:, None].expand(-1, batch)
        times = checks.within("t", times, known.detach()[0], known.detach()[-1])
        # Through all that is known: fixed steps end there too.
        every = torch.cat([known[1:].detach(), times])
        ordered, order = every.sort(dim=0, stable=True)
        solved = self.resume(self.hs[0], torch.cat([known[:1], ordered]))[1:]
        back = order.argsort(dim=0)[len(known) - 1 :].to(solved.device)
        return solved[back, torch.arange(batch, device=solved.device)]
