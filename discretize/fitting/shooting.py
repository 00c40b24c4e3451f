r"""Residuals of a fit and their Jacobian, of many trials in one solve: rows are pieces of series.

    data          (seen(h(t_k)) - value_k) / noise
    continuity    (end of a piece - start of the next) / gap         of pieces alone (multiple shooting)

A row has a start and times of its own. The Jacobian takes a row for each piece and each unknown that it hangs on: parameters,
and its own start. All unknowns u are counted in their sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discretize.fitting.equation import RowEquation, Sensitivities
from discretize.fitting.problem import Problem
from discretize.kernels.record.program import jvp_in_reverse
from discretize.settings import Settings
from discretize.solve import integrate

__all__ = ["Shooting", "Solver"]

# Of rtol, in sizes of states: an epidemic of one in 1e8 grows from that, and a logarithm is taken of what has decayed. With a
# hundredth the first was off by 7e-3 of its peak; a millionth takes 1.3 times as many steps of it, 1.6 of a decay, else none.
ABSOLUTE, LEAST = 1e-6, 1e-14


@dataclass(frozen=True)
class Solver:
    """How rows are solved: scales (state,), the size of each state, in which states are counted; and what `integrate` takes."""

    scales: Tensor
    rtol: float
    settings: dict[str, Any]

    def run(self, equation: RowEquation, z0: Tensor, ts: Tensor) -> Tensor:
        """Solve rows (rows, ...) at their own times (n, rows); states of those that fail are nan from there on."""
        return integrate(equation, None, z0, ts, **self._tolerances(), **self.settings).hs

    def _tolerances(self) -> dict[str, Any]:
        """Return what methods that choose their steps read."""
        return {"rtol": self.rtol, "atol": max(ABSOLUTE * self.rtol, LEAST)} if Settings(**self.settings).adaptive else {}


class Shooting:
    """Residuals (trials, m) and Jacobians (trials, m, unknowns) of trials u (trials, unknowns)."""

    def __init__(self, problem: Problem, solver: Solver, sizes: np.ndarray, pieces: int = 1) -> None:
        self.problem, self.solver = problem, solver
        self.rows = [
            (k, int(i), int(j))
            for k, one in enumerate(problem.series)
            for cuts in [np.linspace(0, len(one.ts) - 1, min(pieces, len(one.ts) - 1) + 1).astype(int)]
            for i, j in pairwise(cuts)
        ]
        longest, count = max(j - i for _, i, j in self.rows) + 1, len(self.rows)
        self.ts = torch.stack([_padded(problem.series[k].ts[i : j + 1], longest) for k, i, j in self.rows], 1)
        self.which = torch.tensor([k for k, *_ in self.rows])
        self.at = problem.start_at[self.which].clone()
        self.known = problem.start[self.which].clone()
        columns = len(problem.unknowns)
        for r, (_, i, _) in enumerate(self.rows):
            if i:
                self.at[r] = torch.arange(columns, columns + len(problem.states))
                columns += len(problem.states)
        scales = np.concatenate([sizes, np.tile(solver.scales.numpy(), (columns - len(sizes)) // len(problem.states))])
        self.sizes = torch.as_tensor(scales)
        self.constants = problem.constants
        largest = self.constants.abs().amax(0)
        self.q_sizes = torch.cat([self.sizes[: problem.params], torch.where(largest > 0, largest, 1.0)])
        self.equation = RowEquation(problem.equation, solver.scales, self.q_sizes)
        self.sensitivities = Sensitivities(problem.equation, solver.scales, self.q_sizes)
        self._find_data(count)
        self._find_directions()

    def _find_data(self, count: int) -> None:
        """Find which entry of (time, row, output) each number measured is, and which rows are followed by another one."""
        entries, values = [], []
        for r, (k, i, j) in enumerate(self.rows):
            last = j + 1 if r + 1 == count or self.rows[r + 1][0] != k else j  # the first one of the next piece is its
            there = self.problem.series[k].values[i:last]
            at = (~there.isnan()).nonzero()
            entries.append(torch.stack([at[:, 0], torch.full_like(at[:, 0], r), at[:, 1]], 1))
            values.append(there[at[:, 0], at[:, 1]])
        self.entries, self.values = torch.cat(entries), torch.cat(values)
        self.followed = torch.tensor([r for r in range(count - 1) if self.rows[r + 1][0] == self.rows[r][0]], dtype=torch.long)

    def _find_directions(self) -> None:
        """List (row, unknown) of all pairs of which the one moves with the other, and the pairs of entry and direction."""
        params = self.problem.params
        r, c = torch.meshgrid(torch.arange(len(self.rows)), torch.arange(params), indexing="ij")
        starts = (self.at >= params).nonzero()
        starts_at = self.at[*starts.T]
        self.directions = torch.cat([torch.stack([r.flatten(), c.flatten()], 1), torch.stack([starts[:, 0], starts_at], 1)])
        self.s0 = torch.zeros(len(self.directions), len(self.problem.states), dtype=torch.float64)
        self.s0[range(r.numel(), len(self.directions)), starts[:, 1]] = 1.0
        r_shared, i_shared = ((self.at >= 0) & (self.at < params)).nonzero().T  # starts that are parameters
        shared = self.at[r_shared, i_shared]
        self.s0[r_shared * params + shared, i_shared] = self.sizes[shared] / self.solver.scales[i_shared]
        self.e = torch.zeros(len(self.directions), len(self.q_sizes), dtype=torch.float64)
        self.e[range(r.numel()), c.flatten()] = 1.0
        # A start moves by the scale of its state in the solve, and by its own size in the Jacobian.
        self.per_size = torch.ones(len(self.directions), dtype=torch.float64)
        self.per_size[r.numel() :] = self.sizes[starts_at] / self.solver.scales[starts[:, 1]]
        self.pairs = (self.entries[:, 1, None] == self.directions[:, 0]).nonzero()
        self.ends = (self.followed[:, None] == self.directions[:, 0]).nonzero()

    def begin(self, x: np.ndarray) -> np.ndarray:
        """Return trials of all unknowns from those of the problem (trials, unknowns), in sizes.

        A piece starts where the data are, and in what they do not tell, where its series does.
        """
        starts = [x]
        start = torch.where(self.problem.start_at >= 0, torch.as_tensor(x)[:, self.problem.start_at.clamp(min=0)] * self.sizes[
            self.problem.start_at.clamp(min=0)], self.problem.start)  # fmt: skip
        for k, i, _ in self.rows:
            if i:
                piece, one = start[:, k].clone(), self.problem.series[k]
                for output, at in enumerate(self.problem.observe):
                    there = ~one.values[:, output].isnan().numpy()
                    if isinstance(at, int) and there.any():
                        known = one.ts.numpy()[there], one.values[:, output].numpy()[there]
                        piece[:, at] = float(np.interp(float(one.ts[i]), *known))
                starts.append((piece / self.solver.scales).numpy())
        return np.concatenate(starts, 1)

    def rows_of(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return starts (trials, rows, state) and parameters in their sizes (trials, rows, numbers) of trials."""
        h0 = torch.where(self.at >= 0, (u * self.sizes)[:, self.at.clamp(min=0)], self.known)
        own = (self.constants / self.q_sizes[self.problem.params :])[self.which].expand(len(u), -1, -1)
        return h0, torch.cat([u[:, None, : self.problem.params].expand(-1, len(self.rows), -1), own], 2)

    def solve(self, u: Tensor) -> Tensor:
        """Return states (time, trials, rows, state)."""
        h0, q = self.rows_of(u)
        z0 = torch.cat([h0 / self.solver.scales, q], 2).flatten(0, 1)
        z = self.solver.run(self.equation, z0, self.ts.repeat(1, len(u)))
        return z[..., : h0.shape[2]].unflatten(1, h0.shape[:2]) * self.solver.scales

    def residuals(self, u: Tensor, noise: Tensor, gap: Tensor) -> Tensor:
        """Return residuals (trials, data and continuity); noise: of each output, gap: of each state."""
        (h0, q), h = self.rows_of(u), self.solve(u)
        values = self._seen(h.flatten(0, 2), q.expand(len(h), -1, -1, -1).flatten(0, 2)).unflatten(0, h.shape[:3])
        time, row, output = self.entries.T
        data = (values[time, :, row, output].T - self.values) / noise[output]
        apart = (h[self._last, :, self.followed].movedim(0, 1) - h0[:, self.followed + 1]) / gap
        return torch.cat([data, apart.flatten(1)], 1)

    def jacobian(self, u: Tensor, noise: Tensor, gap: Tensor) -> Tensor:
        """Return d residuals / du, (trials, residuals, unknowns)."""
        n, (h0, q), trials = len(self.problem.states), self.rows_of(u), len(u)
        row_of, column = self.directions.T
        rows = [h0[:, row_of] / self.solver.scales, self.s0.expand(trials, -1, -1), q[:, row_of], self.e.expand(trials, -1, -1)]
        z = self.solver.run(self.sensitivities, torch.cat(rows, 2).flatten(0, 1), self.ts[:, row_of].repeat(1, trials))
        h, s = z[..., :n] * self.solver.scales, z[..., n : 2 * n] * self.solver.scales
        t = self.ts[:, row_of].repeat(1, trials).flatten()[:, None]
        every = len(self.ts)
        at = torch.cat([h.flatten(0, 1), rows[2].flatten(0, 1).repeat(every, 1)], 1)
        move = torch.cat([s.flatten(0, 1), rows[3].flatten(0, 1).repeat(every, 1)], 1)
        moved = jvp_in_reverse(lambda v: self.problem.seen(v[:, :n], t, v[:, n:] * self.q_sizes), at, move).detach()
        shape = (every, trials, len(self.directions))
        moved, s = (moved.unflatten(0, shape) * self.per_size[:, None], s.unflatten(1, shape[1:]) * self.per_size[:, None])
        matrix = u.new_zeros(trials, len(self.values) + len(self.followed) * n, len(self.sizes))
        k, d = self.pairs.T
        time, _, output = self.entries[k].T
        matrix[:, k, column[d]] = moved[time, :, d, output].T / noise[output]
        if len(self.followed):
            below = matrix[:, len(self.values) :].unflatten(1, (len(self.followed), n))
            k, d = self.ends.T
            below[:, k, :, column[d]] = s[self._last[k], :, d] / gap
            k, i = torch.meshgrid(torch.arange(len(self.followed)), torch.arange(n), indexing="ij")
            next_start = self.at[self.followed + 1]
            below[:, k, i, next_start] = -(self.sizes[next_start] / gap)
        return matrix

    @property
    def _last(self) -> Tensor:
        """Return the index of the last time of each row that is followed by another one."""
        return torch.tensor([self.rows[r][2] - self.rows[r][1] for r in self.followed.tolist()], dtype=torch.long)

    def _seen(self, h: Tensor, q: Tensor) -> Tensor:
        t = self.ts[:, None].expand(-1, len(h) // self.ts.numel(), -1).flatten()[:, None]
        return self.problem.seen(h, t, q * self.q_sizes)


def _padded(ts: Tensor, length: int) -> Tensor:
    return torch.cat([ts, ts[-1:].expand(length - len(ts))])
