"""What every run returns: the times, the states at them, what it cost, how it ended, and the states in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ctrnn import checks

__all__ = ["Trajectory"]

Between = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Trajectory:
    r"""States at times, and, of a solve, at any time between them: `trajectory(t)`.

    `stats` counts what the run did: "method", "nfe" (calls of the field), "nfe_samples" (samples it was called with, all
    calls together), "nfe_backward" (calls made again for gradients, counted as they happen), "num_steps" (attempted),
    "num_accepted_steps", "num_rejected_steps" (of the sample that took most), "num_forced_steps" (accepted at `min_step`),
    "steps_of_samples" and of these "accepted_steps_of_samples" and "rejected_steps_of_samples", "status_of_samples" (where some
    failed and the others were kept), "smallest_step"
    (the smallest one taken, in units of time; None without steps), "smallest_step_at"
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
    between: Between | None = field(default=None)  # times (m,) or (m, batch) -> the states at them
    events: tuple[Any, ...] = ()  # what each of the events that were asked for crossed: `EventTimes`
    shapes: tuple[torch.Size, ...] | None = None  # of the parts of the state, where it was given as several tensors

    @property
    def parts(self) -> tuple[Tensor, ...]:
        """`hs` as the tensors that the state was given as: (n, batch, *shape) each; one if it was one."""
        return self.split(self.hs)

    def split(self, states: Tensor) -> tuple[Tensor, ...]:
        """States (..., state), as `trajectory(t)` gives them, as the tensors that the state was given as."""
        if self.shapes is None:
            return (states,)
        parts = states.split([shape.numel() for shape in self.shapes], -1)
        return tuple(part.unflatten(-1, shape) for part, shape in zip(parts, self.shapes, strict=True))

    def __len__(self) -> int:
        return len(self.ts)

    def __repr__(self) -> str:
        return f"Trajectory({len(self.ts)} times, hs {tuple(self.hs.shape)}, status={self.status!r}, stats={self.stats})"

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"between": None}  # what answers between the times does not travel

    def __call__(self, t: float | Tensor) -> Tensor:
        """The state at t, with the weights of the solve, whatever has become of them since.

        Where the steps were kept, by one step of the method from the step that t is in: of the order of the method. Of fixed
        steps and solves of more than 64 MiB of states, and for gradients that the steps do not have: solved on from the last
        known state, with the same settings. At `ts` it is `hs`. Gradients are those of `hs`, and flow where it has one.

        Raises:  ValueError for times outside [ts[0], ts[-1]], and where the solve is not at hand: for runs of discrete cells,
                 and copies from other processes; RuntimeError for gradients after weights were written into.
        """
        if self.between is None:
            raise ValueError("This trajectory has states at its own times only (`ts`): it is not a solve, or a copy of one.")
        times = checks.evaluation_times("t", t, 2)
        if self.ts.dim() == 1 and times.dim() < 2:
            start, end = sorted(self.ts.detach()[[0, -1]].tolist())
            states = self.between(checks.within("t", times.reshape(-1), start, end))
        else:
            states = self.between(self._of_each(times))
        return states if times.dim() else states[0]

    def _of_each(self, times: Tensor) -> Tensor:
        """Every sequence's own times, (m, batch)."""
        batch = self.hs.shape[1]
        if times.dim() < 2:
            times = times.reshape(-1, 1).expand(-1, batch)
        if times.shape[1] != batch:
            raise ValueError(f"`t` has times for {times.shape[1]} sequences, the trajectory has {batch}.")
        known = (self.ts if self.ts.dim() > 1 else self.ts[:, None].expand(-1, batch)).detach()
        return checks.within("t", times, *known[[0, -1]].sort(0).values)
