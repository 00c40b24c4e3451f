r"""Solve sequences that have times of their own where a field reads its past: those with one clock together.

t   0 1 2 3        one clock, the second ends earlier: its dh/dt is 0 from then on
    0 1 1 1
    0 2 5 7        another clock, another solve
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ctrnn import HeldPath, HermitePath, LinearPath, Path
from ctrnn.fields.delayed import DelayedField
from discretize.trajectory import Trajectory

__all__ = ["solve_by_clock"]

Solved = Callable[[DelayedField, Path, Tensor, Tensor], Trajectory]  # what reads a path, from states, at times
COUNTED = ("nfe", "nfe_samples", "num_forced_steps")


class Running(DelayedField):
    """Computes dh/dt times the last feature of the input: 1 of a sequence that runs, 0 of one that is over."""

    def __init__(self, field: DelayedField) -> None:
        given = list(field.of_time) or field.delays.detach()
        super().__init__(field.input_size + 1, field.hidden_size, given, state_size=field.state_size)
        self.field: DelayedField = field
        self._buffers["delays"] = field.delays  # with its gradient

    @property
    def dtype(self) -> torch.dtype | None:
        return self.field.dtype

    @property
    def device(self) -> torch.device | None:
        return self.field.device

    def project(self, x: Tensor) -> Tensor:
        return torch.cat([self.field.project(x[..., :-1]), x[..., -1:]], -1)

    def flow(self, projected: Tensor, h: Tensor, past: tuple[Tensor, ...]) -> Tensor:
        return projected[..., -1:] * self.field.flow(projected[..., :-1], h, past)


def solve_by_clock(
    field: DelayedField, path: type[HeldPath | LinearPath | HermitePath], xs: Tensor, h0: Tensor, knots: Tensor, solve: Solved
) -> Trajectory:
    r"""Solve every sequence along its own knots; xs (time, batch, input), knots (n, batch) that stay where a sequence is over."""
    ends = (knots.detach().diff(dim=0) > 0).sum(0)  # the number of each sequence's last knot
    groups, solved = _groups(knots.detach(), ends.tolist(), path is HeldPath), list[Trajectory]()
    for rows in groups:
        own, longest = ends[rows], int(ends[rows].max())
        there, reads = rows.to(xs.device), field
        clock = knots[: longest + 1, rows[int(own.argmax())]].contiguous()
        cut = xs[: len(xs) - (len(knots) - 1 - longest)].index_select(1, there)
        if bool((own < longest).any()):
            runs = torch.arange(longest, device="cpu")[:, None] < own
            cut, reads = torch.cat([cut, runs[..., None].to(cut)], -1), Running(field)
        solved.append(solve(reads, path.unchecked(cut, clock), h0.index_select(0, there), clock))
    order = torch.cat(groups).argsort()

    def joined(parts: list[Tensor]) -> Tensor:
        return torch.cat(parts, 1).index_select(1, order.to(xs.device))

    def between(t: Tensor) -> Tensor:
        times = t if t.dim() > 1 else t[:, None].expand(-1, len(order))
        return joined([one(_within(times[:, rows], knots.detach()[:, rows])) for one, rows in zip(solved, groups, strict=True)])

    last = torch.arange(len(knots), device="cpu")
    hs = joined([one.hs[last.clamp(max=len(one.hs) - 1)] for one in solved])
    return Trajectory(knots, hs, _stats([one.stats for one in solved], order), between=between)


def _groups(knots: Tensor, ends: list[int], held: bool) -> list[Tensor]:
    """Return the numbers of sequences that share a clock, up to where each of them is over; all of it but for held samples."""
    groups: list[list[int]] = []
    for number in sorted(range(knots.shape[1]), key=lambda number: -ends[number]):
        mine = knots[: ends[number] + 1, number]
        alike = (group for group in groups if held or ends[group[0]] == ends[number])
        group = next((group for group in alike if torch.equal(knots[: len(mine), group[0]], mine)), None)
        if group is None:
            groups.append([number])
        else:
            group.append(number)
    return [torch.tensor(group, device="cpu") for group in groups]


def _within(times: Tensor, knots: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(times, knots[0]), knots[-1])


def _stats(parts: list[dict[str, Any]], order: Tensor) -> dict[str, Any]:
    """Return counts of all, and of steps those of the sample that took most, which its own part tells."""
    longest = max(parts, key=lambda stats: stats["num_steps"])
    found = longest | {name: sum(stats[name] for stats in parts) for name in COUNTED}
    smallest = min(
        (stats for stats in parts if stats["smallest_step"] is not None), key=lambda s: s["smallest_step"], default=longest
    )
    found |= {name: smallest[name] for name in ("smallest_step", "smallest_step_at")}
    for name in ("steps_of_samples", "accepted_steps_of_samples", "rejected_steps_of_samples"):
        every = [count for stats in parts for count in stats[name]]
        found[name] = [every[k] for k in order.tolist()] if len(every) == len(order) else every
    return found
