"""The search for the best parameters: starts, pieces, rounds in which sizes and noise levels become those of the fit."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discretize.errors import SolverWarning
from discretize.fitting.problem import Problem
from discretize.fitting.search import least_squares_from
from discretize.fitting.shooting import Shooting, Solver

__all__ = ["Optimum", "StartSearch", "scales_of"]

GAPS = (1.0, 0.1)  # between pieces, one after the other, in noise levels
SPREAD = 0.1  # noise levels that are not known, to begin with, in what an output varies by; gaps of states that are not seen
INSIDE = 0.01  # sizes, from a bound to a start: from the bound itself SciPy's steps are too short to leave it
SMALLEST = 1e-4  # size of an unknown, in that of its start: one that ends at 0 has no size of its own
ROUNDS, SAME = 20, 1e-4  # of sizes and noise levels; how much these change in the last one


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where a search ended: x (unknowns,) in sizes, noise (outputs,), the residuals and J there, and what it took."""

    x: np.ndarray
    sizes: np.ndarray
    noise: np.ndarray
    residuals: np.ndarray
    J: np.ndarray
    converged: bool
    stats: dict[str, Any]


@dataclass(eq=False)
class StartSearch:
    """Searches from starts (starts, unknowns); noise (outputs,) known, or None."""

    problem: Problem
    solver: Solver
    noise: np.ndarray | None
    max_nfev: int
    counts: dict[str, int] = field(default_factory=lambda: {"solves": 0, "trials": 0})

    def run(self, starts: np.ndarray, pieces: int = 1) -> Optimum:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore", SolverWarning)  # of wild trials
            return self._run(starts, pieces)

    def _run(self, starts: np.ndarray, pieces: int) -> Optimum:
        sizes, noise = np.array([each.size for each in self.problem.unknowns]), self._first_noise()
        low, high = (np.array([getattr(each, side) for each in self.problem.unknowns]) for side in ("low", "high"))
        inside = INSIDE * np.minimum(sizes, high - low)
        starts = np.clip(starts, low + inside, high - inside)
        if pieces > 1:
            starts = self._in_pieces(starts, sizes, noise, pieces)
        single = Shooting(self.problem, self.solver, sizes)
        results = self.from_starts(single, starts / sizes, noise)
        costs = np.array([np.inf if result is None else result.cost for result in results])
        if not np.isfinite(costs).any():
            self._say_why(single, starts[0] / sizes)
        best, first = results[int(costs.argmin())], sizes
        ends = np.sort(2 * costs)
        for _ in range(ROUNDS):
            x = best.x * sizes
            sizes, before = np.maximum(np.abs(x), SMALLEST * first), noise
            noise = self._noise_of(single, best.x, noise)
            single = Shooting(self.problem, self.solver, sizes)
            (again,) = self.from_starts(single, (x / sizes)[None], noise)
            assert again is not None, "the search ended here before"
            best = again
            if self.noise is not None or len(noise) == 1 or np.allclose(noise, before, rtol=SAME, atol=0):
                break
        noise = self._noise_of(single, best.x, noise)
        residuals = self.ask(single, noise)("residuals", best.x[None])[0]
        stats = {**self.counts, "chi2_of_starts": ends.tolist(), "message": best.message}
        return Optimum(
            best.x, sizes, noise, residuals, self.ask(single, noise)("jacobian", best.x[None])[0], best.status > 0, stats
        )

    def from_starts(
        self, shooting: Shooting, starts: np.ndarray, noise: np.ndarray, gap: float = 1.0, held: int | None = None
    ) -> list[Any]:
        """Search from starts in sizes; held: an unknown that stays."""
        bounds = [np.full(len(shooting.sizes), fill) for fill in (-np.inf, np.inf)]
        for bound, name in zip(bounds, ("low", "high"), strict=True):
            known = np.array([getattr(each, name) for each in self.problem.unknowns])
            bound[: len(known)] = known / shooting.sizes.numpy()[: len(known)]
        return least_squares_from(self.ask(shooting, noise, gap), starts, bounds[0], bounds[1], self.max_nfev, held)

    def _in_pieces(self, starts: np.ndarray, sizes: np.ndarray, noise: np.ndarray, pieces: int) -> np.ndarray:
        """Return where searches over pieces end, in units; of those that cannot begin, the start."""
        shooting = Shooting(self.problem, self.solver, sizes, pieces)
        trials = shooting.begin(starts / sizes)
        for gap in GAPS:
            results = self.from_starts(shooting, trials, noise, gap)
            trials = np.stack([trial if result is None else result.x for trial, result in zip(trials, results, strict=True)])
        return trials[:, : len(sizes)] * sizes

    def ask(self, shooting: Shooting, noise: np.ndarray, gap: float = 1.0) -> Any:
        gaps = SPREAD * self.solver.scales
        for output, at in enumerate(self.problem.observe):
            if isinstance(at, int):
                gaps[at] = noise[output]
        levels = torch.as_tensor(noise)

        def answer(kind: str, x: np.ndarray) -> np.ndarray:
            self.counts["solves"] += 1
            self.counts["trials"] += len(x)
            return getattr(shooting, kind)(torch.as_tensor(x), levels, gap * gaps).numpy()

        return answer

    def _first_noise(self) -> np.ndarray:
        return SPREAD * _spread(self.problem) if self.noise is None else self.noise

    def _noise_of(self, shooting: Shooting, x: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Return the noise levels of a fit, each unknown taking a share of every output; never below the error of the solve."""
        if self.noise is not None:
            return self.noise
        raw, output = self.ask(shooting, np.ones_like(noise))("residuals", x[None])[0], shooting.entries[:, 2].numpy()
        mean = np.array([np.square(raw[output == k]).mean() for k in range(len(noise))])
        return np.maximum(np.sqrt(mean / (1 - len(x) / len(raw))), self.solver.rtol * _largest(self.problem))

    def _say_why(self, shooting: Shooting, x: np.ndarray) -> None:
        """Raise the error of a solve that fails at the start."""
        self.solver.settings.pop("on_failure", None)
        shooting.solve(torch.as_tensor(x)[None])
        raise ValueError("What is observed of the states, or a derivative of it, is not finite at the start; give another one.")


def _spread(problem: Problem) -> np.ndarray:
    """Return what each output varies by in all series, or, where it does not, its size."""
    values = torch.cat([one.values for one in problem.series]).numpy()
    wide, largest = np.nanmax(values, 0) - np.nanmin(values, 0), _largest(problem)
    return np.where(wide > 0, wide, np.where(largest > 0, largest, 1.0))


def _largest(problem: Problem) -> np.ndarray:
    return np.nanmax(np.abs(torch.cat([one.values for one in problem.series]).numpy()), 0)


def scales_of(problem: Problem, solver: Solver, starts: np.ndarray) -> Tensor:
    """Return the size of each state: what its values vary by, and of one that is not seen its largest from the starts."""
    n = len(problem.states)
    scales = torch.zeros(n, dtype=torch.float64)
    for width, at in zip(_spread(problem), problem.observe, strict=True):
        if isinstance(at, int):
            scales[at] = float(width)
    sizes = np.array([each.size for each in problem.unknowns])
    rough = Solver(torch.ones(n, dtype=torch.float64), 1e-3, solver.settings)
    shooting, trials = Shooting(problem, rough, sizes), torch.as_tensor(starts / sizes)
    h0, q = (each.flatten(0, 1) for each in shooting.rows_of(trials))
    t = shooting.ts[:1].repeat(1, len(trials)).T
    length = (shooting.ts[-1] - shooting.ts[0]).repeat(len(trials))[:, None]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", SolverWarning)
        moved = torch.maximum(h0.abs(), (problem.equation(t, h0, q * shooting.q_sizes) * length).abs()).nan_to_num(0, 0, 0)
        bound = torch.where(scales > 0, scales, moved.amax(0))
        rough = Solver(torch.where(bound > 0, bound, 1.0), 1e-3, solver.settings)
        h = Shooting(problem, rough, sizes).solve(trials).flatten(0, 2)
    largest = torch.where(h.isfinite(), h.abs(), 0).amax(0)
    found = torch.where(scales > 0, scales, torch.where(largest > 0, largest, bound))
    return torch.where(found > 0, found, 1.0)
