r"""Solves to the same measured error: every candidate at the loosest tolerance that meets it.

    forward              the states at the edges of the samples
    forward + backward   and gradients to the problem's variables, of the sum of all states

The error is the largest of any state, against a far tighter solve; a candidate that meets the target at no tolerance is named
and not timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import discretize
from experiments.bench.parts.problems import BenchProblem, StiffSizes, with_a_stiff_sample
from experiments.bench.peers.registry import named, of_peers
from experiments.bench.rows import FORWARD, WORKS, Row
from experiments.bench.session import COMPILED, STEPS, Job, Session, wrong_engine

__all__ = [
    "FEWER",
    "Solution",
    "SolveCandidate",
    "BenchSolver",
    "Tuned",
    "in_torch",
    "ours",
    "problem_rows",
    "solve_rows",
    "solver_candidates",
    "stiff_rows",
    "tune",
    "tuned_solvers",
]

TOLERANCES = [10 ** (-k / 2) for k in range(4, 25)]  # from 1e-2 to 1e-12
EXPECTED = {"dopri8": 1e-2, "tsit5": 1e-4, "dopri5": 1e-5, "rodas5p": 1e-5}  # of ours, for an error of 1e-6
STIFF_TARGET, FEWER = 1e-5, 2  # rounds are enough for what is shown without quartiles
PATIENCE, STIFF_PATIENCE = 20.0, 10.0  # seconds


@dataclass(frozen=True)
class Solution:
    """States, evaluations of the field (calls for the whole batch), and why another engine made them than intended."""

    hs: Tensor
    evaluations: int
    wrong: str | None = None


@dataclass
class BenchSolver:
    """Solves one problem in torch, (problem, tolerance) -> states, differentiated by autograd; `prepare` compiles ahead."""

    problem: BenchProblem
    solve: Callable[[BenchProblem, float], Solution]
    compile_seconds: float = 0.0

    def prepare(self) -> None:
        """Nothing is compiled ahead."""

    def states(self, tolerance: float) -> Solution:
        with torch.no_grad():
            return self.solve(self.problem, tolerance)

    def gradients(self, tolerance: float) -> list[Tensor]:
        return list(torch.autograd.grad(self.solve(self.problem, tolerance).hs.sum(), self.problem.variables))


@dataclass(frozen=True)
class SolveCandidate:
    """A way to solve. `own`: this project's; `expected`: the tolerance at which the search begins; `slow`: not warmed up, and
    no looser tolerance is tried than the expected one."""

    name: str
    ready: Callable[[BenchProblem], BenchSolver]
    own: bool = False
    expected: float = 1e-5
    slow: bool = False


def in_torch(name: str, solve: Callable[[BenchProblem, float], Solution], **more: Any) -> SolveCandidate:
    """A candidate whose solves are differentiated by autograd."""
    return SolveCandidate(name, lambda problem: BenchSolver(problem, solve), **more)


def ours(method: str, engine: str, **settings: Any) -> SolveCandidate:
    """`discretize.integrate`, by kernels or step by step."""
    settings |= {"method": method, "fused": "always" if engine == COMPILED else False}

    def solve(problem: BenchProblem, tolerance: float) -> Solution:
        how = {"rtol": tolerance, "atol": tolerance, **settings}
        solved = discretize.integrate(problem.field, problem.path, problem.h0, problem.times, **how)
        return Solution(solved.hs, solved.stats["nfe"], wrong_engine(solved.stats, engine))

    return in_torch(f"`integrate`, {method}, {engine}", solve, expected=EXPECTED.get(method, 1e-5), own=True)


def solver_candidates(session: Session, methods: Sequence[str], kind: str = "held") -> list[SolveCandidate]:
    """Ours by these methods, then those of the peers for this kind."""
    return [*(ours(method, engine) for method in methods for engine in (COMPILED, STEPS)), *of_peers(session, kind)]


@dataclass(frozen=True)
class Tuned:
    """A solver, and the tolerance found for it."""

    candidate: SolveCandidate
    solver: BenchSolver
    tolerance: float
    error: float
    solution: Solution

    def job(self, work: str, solver: BenchSolver | None = None, **facts: Any) -> Job:
        """Solve at the tuned tolerance, perhaps another problem."""
        call = (solver or self.solver).states if work == FORWARD else (solver or self.solver).gradients
        facts = {"tolerance": self.tolerance, "error": self.error, **facts}
        return Job(self.candidate.name, work, lambda: call(self.tolerance), facts, warm=self.candidate.slow)


def tune(candidate: SolveCandidate, problem: BenchProblem, target: float) -> Tuned:
    """Find the loosest tolerance of the list that meets the target, as far as errors fall with it; the tightest where none does.

    The search begins at the expected tolerance, and for a slow candidate does not go beyond it.
    """
    solver = candidate.ready(problem)

    def at(k: int) -> Tuned:
        solution = solver.states(TOLERANCES[k])
        return Tuned(candidate, solver, TOLERANCES[k], problem.error(solution.hs), solution)

    k = min(range(len(TOLERANCES)), key=lambda k: abs(math.log(TOLERANCES[k] / candidate.expected)))
    loosest = at(k)
    if loosest.error < target:
        while not candidate.slow and k and (looser := at(k - 1)).error < target:
            k, loosest = k - 1, looser
        return loosest
    while not loosest.error < target and k + 1 < len(TOLERANCES):
        k += 1
        loosest = at(k)
    return loosest


def tuned_solvers(
    session: Session, part: str, problem: BenchProblem, candidates: Sequence[SolveCandidate], target: float
) -> Iterator[Tuned]:
    """Yield the candidates that meet the target; skip the others, with the reason."""
    for candidate in candidates:
        session.show(f"{part}: {problem.name}: looking for the tolerance of {candidate.name}")
        try:
            tuned = tune(candidate, problem, target)
        except Exception as error:
            if candidate.own:  # ours must not fail unseen
                raise
            why: str | None = f"it fails here: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        else:
            missed = f"at no tolerance was its error below {target:g}"
            why = tuned.solution.wrong if tuned.error < target else missed
        if why:
            session.skip(f"{part}: {candidate.name}", why)
        else:
            yield tuned


def solve_rows(
    session: Session,
    problem: BenchProblem,
    candidates: Sequence[SolveCandidate],
    part: str = "solves",
    works: Sequence[str] = WORKS,
    **facts: Any,
) -> Iterator[Row]:
    """Time all candidates that meet the problem's target."""
    tuned = [*tuned_solvers(session, part, problem, candidates, problem.target)]
    jobs = [each.job(work, evaluations=each.solution.evaluations, **facts) for each in tuned for work in works]
    solvers = [each.solver for each in tuned for _ in works]
    for row, solver in zip(session.rows(part, problem.name, jobs, PATIENCE), solvers, strict=True):
        yield replace(row, facts={**row.facts, "compile_seconds": solver.compile_seconds})  # known once all have run


def problem_rows(
    session: Session,
    part: str,
    kind: str,
    pose: Callable[..., BenchProblem],
    methods: Sequence[str] = ("tsit5",),
    names: Sequence[str] = ("",),
) -> Iterator[Row]:
    """Time the candidates of a kind, of those whose names begin so, on a problem."""
    yield from solve_rows(session, pose(device=session.device), named(solver_candidates(session, methods, kind), *names), part)


def stiff_rows(session: Session, sizes: StiffSizes, names: Sequence[str] = ("",)) -> Iterator[Row]:
    """Time a batch without its stiff sample, with it, and that one alone, at the tolerance that meets the target with it."""
    session = replace(session, rounds=min(session.rounds, FEWER))  # shares what is skipped
    problems, jobs = with_a_stiff_sample(sizes, session.device), []
    # Of explicit methods, which are slowed by the stiff sample.
    candidates = [one for one in named(solver_candidates(session, ("tsit5",), "stiff"), *names) if "kvaerno" not in one.name]
    for tuned in tuned_solvers(session, "stiff", problems["with"], candidates, STIFF_TARGET):
        for variant, problem in problems.items():
            solver = tuned.candidate.ready(problem)
            jobs += [tuned.job(work, solver, variant=variant) for work in WORKS]
    yield from session.rows("stiff", str(sizes), jobs, STIFF_PATIENCE)
