r"""Exact solves to the same measured error: `integrate`, torchdiffeq as users write it, torchdiffeq with its best flags.

    python -m experiments.bench.solves

The gated field over held samples, T = 100, B = 32, H = 64, float64. Every candidate gets the loosest tolerance at which its
largest error over all states is below 1e-6; then all are run in turn, several times. A table in Markdown on stdout.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
import torchdiffeq
import tyro
from torch import Tensor

import ctrnn
import discretize

__all__ = ["Candidate", "Problem", "compare", "main"]

TOLERANCES = [10 ** (-k / 2) for k in range(4, 25)]  # from 1e-2 to 1e-12


@dataclass(frozen=True)
class Problem:
    """A field, its held input, a start; and the states after each sample, solved far more tightly."""

    field: ctrnn.VectorField
    xs: Tensor
    h0: Tensor
    exact: Tensor

    @classmethod
    def gated(cls, time: int = 100, batch: int = 32, features: int = 10, hidden: int = 64, seed: int = 0) -> Problem:
        generator = torch.Generator().manual_seed(seed)
        field = ctrnn.gated(features, hidden, dtype=torch.float64, generator=generator)
        xs = torch.randn(time, batch, features, dtype=torch.float64, generator=generator)
        h0 = field.initial_state(batch)
        with torch.no_grad():
            solved = discretize.integrate(field, ctrnn.HeldPath(xs), h0, edges(xs), method="dopri8", rtol=1e-11, atol=1e-12)
        return cls(field, xs, h0, solved.hs)

    def error(self, hs: Tensor) -> float:
        return float((hs - self.exact).abs().max())


def edges(xs: Tensor) -> Tensor:
    return torch.arange(len(xs) + 1, dtype=torch.float64)


@dataclass
class Candidate:
    """A way to solve: (problem, tolerance) -> states and evaluations of the field."""

    name: str
    solve: Callable[[Problem, float], tuple[Tensor, int]]
    tolerance: float = float("nan")
    error: float = float("nan")
    evaluations: int = 0

    def tune(self, problem: Problem, target: float) -> None:
        """The loosest tolerance of the list that meets the target, as far as errors fall with it."""
        low, high = 0, len(TOLERANCES) - 1
        with torch.no_grad():
            while low < high:
                middle = (low + high) // 2
                hs, _ = self.solve(problem, TOLERANCES[middle])
                low, high = (low, middle) if problem.error(hs) < target else (middle + 1, high)
            self.tolerance = TOLERANCES[low]
            hs, self.evaluations = self.solve(problem, self.tolerance)
        self.error = problem.error(hs)

    def seconds(self, problem: Problem, backward: bool) -> float:
        begin = time.perf_counter()
        if backward:
            hs, _ = self.solve(problem, self.tolerance)
            torch.autograd.grad(hs.sum(), list(problem.field.parameters()))
        else:
            with torch.no_grad():
                self.solve(problem, self.tolerance)
        return time.perf_counter() - begin


def ours(method: str) -> Candidate:
    def solve(problem: Problem, tolerance: float) -> tuple[Tensor, int]:
        path, ts = ctrnn.HeldPath(problem.xs), edges(problem.xs)
        solved = discretize.integrate(problem.field, path, problem.h0, ts, method=method, rtol=tolerance, atol=tolerance)
        return solved.hs, solved.stats["nfe"]

    return Candidate(f"`integrate`, {method}", solve)


def as_users_write_it(method: str) -> Candidate:
    def solve(problem: Problem, tolerance: float) -> tuple[Tensor, int]:
        field, xs, calls = problem.field, problem.xs, 0

        def slope(t: Tensor, h: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            return field(xs[min(int(t), len(xs) - 1)], h)

        return torchdiffeq.odeint(slope, problem.h0, edges(xs), rtol=tolerance, atol=tolerance, method=method), calls

    return Candidate(f"torchdiffeq {method}, sample found in the field", solve)


def with_flags(method: str, at_edges: str) -> Candidate:
    """Projected once, told of every edge, and with the largest error for a norm, as is done here."""

    def solve(problem: Problem, tolerance: float) -> tuple[Tensor, int]:
        field, ts, calls = problem.field, edges(problem.xs), 0
        projected = field.project(problem.xs).unbind(0)

        def slope(t: Tensor, h: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            return field.flow(projected[min(int(t), len(projected) - 1)], h)

        options = {at_edges: ts[1:-1], "norm": lambda errors: errors.abs().max()}
        solved = torchdiffeq.odeint(slope, problem.h0, ts, rtol=tolerance, atol=tolerance, method=method, options=options)
        return solved, calls

    return Candidate(f"torchdiffeq {method}, projected ahead, `{at_edges}`, largest norm", solve)


def piece_by_piece(method: str) -> Candidate:
    """A call for each sample, with the step size carried over as far as torchdiffeq tells it."""

    def solve(problem: Problem, tolerance: float) -> tuple[Tensor, int]:
        field, calls, first, steps = problem.field, 0, 0.01, [0.0]
        h, hs, clock = problem.h0, [problem.h0], torch.tensor([0.0, 1.0], dtype=torch.float64)
        for projected in field.project(problem.xs).unbind(0):

            def slope(t: Tensor, h: Tensor, projected: Tensor = projected) -> Tensor:
                nonlocal calls
                calls += 1
                return field.flow(projected, h)

            steps.clear()
            slope.callback_step = lambda t, h, step: steps.append(float(step))  # type: ignore[attr-defined]
            options = {"step_t": clock[1:], "norm": lambda errors: errors.abs().max(), "first_step": first}
            h = torchdiffeq.odeint(slope, h, clock, rtol=tolerance, atol=tolerance, method=method, options=options)[-1]
            first = max(steps)
            hs.append(h)
        return torch.stack(hs), calls

    return Candidate(f"torchdiffeq {method}, projected ahead, a call for each sample, step carried", solve)


def compare(
    problem: Problem, candidates: list[Candidate], target: float = 1e-6, repeats: int = 5
) -> list[dict[str, float | str]]:
    """A row for each candidate that meets the target: tolerance, error, evaluations, median seconds forward and with
    backward; run in turn."""
    for candidate in candidates:
        candidate.tune(problem, target)
    candidates = [candidate for candidate in candidates if candidate.error < target]
    times: dict[tuple[str, bool], list[float]] = {(c.name, backward): [] for c in candidates for backward in (False, True)}
    for _ in range(repeats):
        for backward in (False, True):
            for candidate in candidates:
                times[candidate.name, backward].append(candidate.seconds(problem, backward))
    return [
        {
            "name": c.name,
            "tolerance": c.tolerance,
            "error": c.error,
            "evaluations": c.evaluations,
            "forward": statistics.median(times[c.name, False]),
            "both": statistics.median(times[c.name, True]),
        }
        for c in candidates
    ]


def table(rows: list[dict[str, float | str]]) -> str:
    first = rows[0]
    lines = [
        "| candidate | tolerance | error | evaluations | forward, s | ratio | with backward, s | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        forward, both = (float(row[key]) / float(first[key]) for key in ("forward", "both"))
        lines.append(
            f"| {row['name']} | {row['tolerance']:.0e} | {row['error']:.1e} | {row['evaluations']} | {row['forward']:.3f} | "
            f"{forward:.1f} | {row['both']:.3f} | {both:.1f} |"
        )
    return "\n".join(lines)


def main(
    repeats: Annotated[int, tyro.conf.arg(metavar="N")] = 5, threads: Annotated[int, tyro.conf.arg(metavar="N")] = 1
) -> None:
    """Compare exact solves at equal measured error."""
    torch.set_num_threads(threads)
    theirs = [with_flags("dopri5", "jump_t"), with_flags("dopri8", "jump_t"), as_users_write_it("dopri5")]
    pieces = [piece_by_piece(method) for method in ("dopri5", "dopri8")]
    candidates = [ours("dopri8"), ours("tsit5"), ours("dopri5"), *pieces, *theirs]
    rows = compare(Problem.gated(), candidates, repeats=repeats)
    reached = {row["name"] for row in rows}
    print(table(rows))
    for candidate in candidates:
        if candidate.name not in reached:
            print(f"\n{candidate.name}: no tolerance was found at which its error is below 1e-6.")
    python, cores = platform.python_version(), os.cpu_count()
    print(
        f"\ntorch {torch.__version__}, torchdiffeq {torchdiffeq.__version__}, python {python}, {threads} thread(s) of {cores} "
        f"cores, {repeats} runs, medians",
        file=sys.stderr,
    )


if __name__ == "__main__":
    tyro.cli(main)
