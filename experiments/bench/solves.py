r"""Exact solves of held inputs to the same measured error: every candidate at the loosest tolerance that gets it there.

    forward              the states at the edges of the samples
    forward + backward   and gradients to the field's parameters, of the sum of all states

The gated field, float64. The error is the largest of any state, against a solve a thousand times tighter; a candidate that
meets the target at no tolerance is named and not timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

import ctrnn
import discretize
from experiments.bench.interleaved import interleaved
from experiments.bench.peers.engines import COMPILED, STEPS, wrong_engine
from experiments.bench.rows import BACKWARD, FORWARD, Row

__all__ = [
    "Candidate", "Problem", "Solved", "Solver", "Tuned", "checked", "edges", "in_torch", "measured", "ours",
    "timed", "tune",
]  # fmt: skip

TOLERANCES = [10 ** (-k / 2) for k in range(4, 25)]  # from 1e-2 to 1e-12
EXPECTED = {"dopri8": 1e-2, "tsit5": 1e-4, "dopri5": 1e-5, "rodas5p": 1e-5}  # of ours, for an error of 1e-6


@dataclass(frozen=True)
class Problem:
    """A field, its held input, a start; and the states after each sample, solved far more tightly."""

    name: str
    field: ctrnn.VectorField
    xs: Tensor
    h0: Tensor
    exact: Tensor

    @classmethod
    def of(cls, name: str, field: ctrnn.VectorField, xs: Tensor) -> Problem:
        h0 = field.initial_state(xs.shape[1])
        settings: dict[str, Any] = {"method": "dopri8", "rtol": 1e-11, "atol": 1e-12}
        with torch.no_grad():  # step by step: the judge is none of those judged
            solved = discretize.integrate(field, ctrnn.HeldPath(xs), h0, edges(xs), fused=False, **settings)
        return cls(name, field, xs, h0, solved.hs)

    @classmethod
    def gated(
        cls, time: int = 100, batch: int = 32, hidden: int = 64, inputs: int = 10, device: str = "cpu", seed: int = 0
    ) -> Problem:
        generator = torch.Generator().manual_seed(seed)
        field = ctrnn.gated(inputs, hidden, dtype=torch.float64, generator=generator)
        xs = torch.randn(time, batch, inputs, dtype=torch.float64, generator=generator)
        return cls.of(f"T {time}, B {batch}, I {inputs}, H {hidden}", field.to(device), xs.to(device))

    def error(self, hs: Tensor) -> float:
        return float((hs.to(self.exact) - self.exact).abs().max())

    @property
    def parameters(self) -> list[torch.nn.Parameter]:
        return list(self.field.parameters())


def edges(xs: Tensor) -> Tensor:
    return torch.arange(len(xs) + 1, dtype=torch.float64, device=xs.device)


@dataclass(frozen=True)
class Solved:
    """States, evaluations of the field (calls for the whole batch), and whether another engine made them than was asked for."""

    hs: Tensor
    evaluations: int
    wrong: str | None = None


@dataclass(frozen=True)
class Tuned:
    """Where a candidate was found to meet the target."""

    tolerance: float
    error: float
    evaluations: int
    wrong: str | None = None


class Solver(Protocol):
    """A problem made ready: `states` by a tolerance, and `gradients` to the parameters, in the field's order; `prepare` compiles
    ahead what they would compile when first called."""

    compile_seconds: float

    def prepare(self) -> None: ...
    def states(self, tolerance: float) -> Solved: ...
    def gradients(self, tolerance: float) -> list[Tensor]: ...


@dataclass
class InTorch:
    """A solver in torch, (problem, tolerance) -> states, differentiated by autograd."""

    problem: Problem
    solve: Callable[[Problem, float], Solved]
    compile_seconds: float = 0.0

    def prepare(self) -> None:
        """Nothing is compiled ahead."""

    def states(self, tolerance: float) -> Solved:
        with torch.no_grad():
            return self.solve(self.problem, tolerance)

    def gradients(self, tolerance: float) -> list[Tensor]:
        return list(torch.autograd.grad(self.solve(self.problem, tolerance).hs.sum(), self.problem.parameters))


@dataclass(frozen=True)
class Candidate:
    """A way to solve. `own`: ours; `expected`: the tolerance it is known to need on the problem of the table, where to look
    first; `slow`: not warmed up, and no looser tolerance is tried than the one expected."""

    name: str
    ready: Callable[[Problem], Solver]
    own: bool = False
    expected: float = 1e-5
    slow: bool = False


def in_torch(name: str, solve: Callable[[Problem, float], Solved], **more: Any) -> Candidate:
    return Candidate(name, lambda problem: InTorch(problem, solve), **more)


def ours(method: str, fused: bool, **settings: Any) -> Candidate:
    engine = COMPILED if fused else STEPS

    def solve(problem: Problem, tolerance: float) -> Solved:
        path, ts = ctrnn.HeldPath(problem.xs), edges(problem.xs)
        solved = discretize.integrate(
            problem.field, path, problem.h0, ts, method=method, rtol=tolerance, atol=tolerance, fused=fused, **settings
        )
        return Solved(solved.hs, solved.stats["nfe"], wrong_engine(solved.stats, engine))

    return in_torch(f"`integrate`, {method}, {engine}", solve, expected=EXPECTED.get(method, 1e-5), own=True)


def tune(solver: Solver, problem: Problem, target: float, expected: float, loosen: bool = True) -> Tuned:
    """The loosest tolerance of the list that meets the target, as far as errors fall with it, looked for from the one
    expected (and not beyond that unless `loosen`); the tightest where none does."""

    def at(k: int) -> Tuned:
        solved = solver.states(TOLERANCES[k])
        return Tuned(TOLERANCES[k], problem.error(solved.hs), solved.evaluations, solved.wrong)

    k = min(range(len(TOLERANCES)), key=lambda k: abs(math.log(TOLERANCES[k] / expected)))
    found = at(k)
    if found.error < target:
        while loosen and k and (looser := at(k - 1)).error < target:
            k, found = k - 1, looser
        return found
    while not found.error < target and k + 1 < len(TOLERANCES):
        k += 1
        found = at(k)
    return found


def measured(
    problem: Problem,
    candidates: Sequence[Candidate],
    rounds: int,
    *,
    skip: Callable[[str, str], None],
    tell: Callable[[str], None],
    target: float = 1e-6,
    works: Sequence[str] = (FORWARD, BACKWARD),
    part: str = "solves",
    facts: dict[str, Any] | None = None,
    settle: Callable[[], None] = lambda: None,
    patience: float = 20.0,
) -> Iterator[Row]:
    """All that meet the target, in the same rounds. `settle` waits for the device."""
    ready: dict[str, tuple[Solver, Tuned]] = {}
    for candidate in candidates:
        tell(f"{part}: {problem.name}: looking for the tolerance of {candidate.name}")
        found = checked(candidate, problem, target, part, skip)
        if found is not None:
            ready[candidate.name] = found
    slow = [candidate.name for candidate in candidates if candidate.slow]
    jobs = {(name, work): timed(*ready[name], work, settle) for name in ready for work in works}
    warm = [key for key in jobs if key[0] in slow]
    times = interleaved(
        jobs, rounds, warm=warm, patience=patience, tell=lambda key: tell(f"{part}: {problem.name}: {', '.join(key)}")
    )
    for (name, work), values in times.items():
        solver, tuned = ready[name]
        told = {"tolerance": tuned.tolerance, "error": tuned.error, "evaluations": tuned.evaluations}
        told |= {"compile_seconds": solver.compile_seconds, **(facts or {})}
        yield Row(part, problem.name, name, work, values, facts=told)


def checked(
    candidate: Candidate, problem: Problem, target: float, part: str, skip: Callable[[str, str], None]
) -> tuple[Solver, Tuned] | None:
    """The candidate ready and tuned; or None and a word why not."""
    try:
        solver = candidate.ready(problem)
        tuned = tune(solver, problem, target, candidate.expected, not candidate.slow)
    except Exception as error:
        if candidate.own:  # ours must not fail unseen
            raise
        skip(f"{part}: {candidate.name}", f"it fails here: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
        return None
    if not tuned.error < target:
        skip(f"{part}: {candidate.name}", f"at no tolerance was its error below {target:g}")
    elif tuned.wrong:
        skip(f"{part}: {candidate.name}", tuned.wrong)
    else:
        return solver, tuned
    return None


def timed(solver: Solver, tuned: Tuned, work: str, settle: Callable[[], None]) -> Callable[[], None]:
    call = solver.states if work == FORWARD else solver.gradients

    def run() -> None:
        settle()
        call(tuned.tolerance)
        settle()

    return run
