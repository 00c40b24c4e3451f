r"""Exact solves of held inputs to the same measured error: every candidate at the loosest tolerance that meets it.

    forward              the states at the edges of the samples
    forward + backward   and gradients to the field's parameters, of the sum of all states

The gated field, float64. The error is the largest of any state, against a solve a thousand times tighter; a candidate that
meets the target at no tolerance is named and not timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

import discretize
from experiments.bench.parts.problems import Problem, StiffSizes, batches
from experiments.bench.rows import FORWARD, WORKS, Row
from experiments.bench.session import COMPILED, STEPS, Job, Session, wrong_engine

__all__ = [
    "TARGET",
    "Solution",
    "SolveCandidate",
    "Solver",
    "Tuned",
    "in_torch",
    "ours",
    "solve_job",
    "solve_rows",
    "stiff_rows",
    "tune",
    "tuned_solvers",
]

TOLERANCES = [10 ** (-k / 2) for k in range(4, 25)]  # from 1e-2 to 1e-12
EXPECTED = {"dopri8": 1e-2, "tsit5": 1e-4, "dopri5": 1e-5, "rodas5p": 1e-5}  # of ours, for an error of 1e-6
TARGET, STIFF_TARGET = 1e-6, 1e-5
PATIENCE, STIFF_PATIENCE = 20.0, 10.0  # seconds


@dataclass(frozen=True)
class Solution:
    """States, evaluations of the field (calls for the whole batch), and why another engine made them than intended."""

    hs: Tensor
    evaluations: int
    wrong: str | None = None


class Solver(Protocol):
    """A way to solve one problem; gradients are to its variables, in their order, and `prepare` compiles ahead."""

    compile_seconds: float

    def prepare(self) -> None: ...
    def states(self, tolerance: float) -> Solution: ...
    def gradients(self, tolerance: float) -> list[Tensor]: ...


@dataclass
class InTorch:
    """A solver in torch, (problem, tolerance) -> states, differentiated by autograd."""

    problem: Problem
    solve: Callable[[Problem, float], Solution]
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
    ready: Callable[[Problem], Solver]
    own: bool = False
    expected: float = 1e-5
    slow: bool = False


def in_torch(name: str, solve: Callable[[Problem, float], Solution], **more: Any) -> SolveCandidate:
    """A candidate whose solves are differentiated by autograd."""
    return SolveCandidate(name, lambda problem: InTorch(problem, solve), **more)


def ours(method: str, fused: bool, **settings: Any) -> SolveCandidate:
    """`discretize.integrate`, by kernels or step by step."""
    engine = COMPILED if fused else STEPS

    def solve(problem: Problem, tolerance: float) -> Solution:
        solved = discretize.integrate(
            problem.field,
            problem.path,
            problem.h0,
            problem.times,
            method=method,
            rtol=tolerance,
            atol=tolerance,
            fused="always" if fused else False,
            **settings,
        )
        return Solution(solved.hs, solved.stats["nfe"], wrong_engine(solved.stats, engine))

    return in_torch(f"`integrate`, {method}, {engine}", solve, expected=EXPECTED.get(method, 1e-5), own=True)


@dataclass(frozen=True)
class Tuned:
    """A solver, and the tolerance found for it."""

    candidate: SolveCandidate
    solver: Solver
    tolerance: float
    error: float
    solution: Solution


def tune(candidate: SolveCandidate, problem: Problem, target: float) -> Tuned:
    """Find the loosest tolerance of the list that meets the target, as far as errors fall with it; the tightest where none does.

    The search begins at the expected tolerance, and for a slow candidate does not go beyond it.
    """
    solver = candidate.ready(problem)

    def at(k: int) -> Tuned:
        solution = solver.states(TOLERANCES[k])
        return Tuned(candidate, solver, TOLERANCES[k], problem.error(solution.hs), solution)

    k = min(range(len(TOLERANCES)), key=lambda k: abs(math.log(TOLERANCES[k] / candidate.expected)))
    found = at(k)
    if found.error < target:
        while not candidate.slow and k and (looser := at(k - 1)).error < target:
            k, found = k - 1, looser
        return found
    while not found.error < target and k + 1 < len(TOLERANCES):
        k += 1
        found = at(k)
    return found


def tuned_solvers(
    session: Session, part: str, problem: Problem, candidates: Sequence[SolveCandidate], target: float
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
    problem: Problem,
    candidates: Sequence[SolveCandidate],
    target: float = TARGET,
    part: str = "solves",
    works: Sequence[str] = WORKS,
    **facts: object,
) -> Iterator[Row]:
    """Time all candidates that meet the target."""
    tuned, jobs = list(tuned_solvers(session, part, problem, candidates, target)), []
    for each in tuned:
        found = {"tolerance": each.tolerance, "error": each.error, "evaluations": each.solution.evaluations}
        jobs += [solve_job(each, each.solver, work, **found, **facts) for work in works]
    solvers = [each.solver for each in tuned for _ in works]
    for row, solver in zip(session.rows(part, problem.name, jobs, PATIENCE), solvers, strict=True):
        yield replace(row, facts={**row.facts, "compile_seconds": solver.compile_seconds})  # known once all have run


def solve_job(tuned: Tuned, solver: Solver, work: str, **facts: object) -> Job:
    """A solve at the tuned tolerance."""
    call = solver.states if work == FORWARD else solver.gradients
    return Job(tuned.candidate.name, work, lambda: call(tuned.tolerance), facts, warm=tuned.candidate.slow)


def stiff_rows(session: Session, sizes: StiffSizes, candidates: Sequence[SolveCandidate]) -> Iterator[Row]:
    """Time all three batches, at the loosest tolerance that meets the target with the stiff sample."""
    problems, jobs = batches(sizes, session.device), []
    for tuned in tuned_solvers(session, "stiff", problems["with"], candidates, STIFF_TARGET):
        for variant, problem in problems.items():
            facts = {"tolerance": tuned.tolerance, "error": tuned.error, "variant": variant}
            solver = tuned.candidate.ready(problem)
            jobs += [solve_job(tuned, solver, work, **facts) for work in WORKS]
    yield from session.rows("stiff", str(sizes), jobs, STIFF_PATIENCE)
