"""Name the sample whose step has no solution, by steps of it alone, where a kernel has left a sequence unsolved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from discretize.errors import StepError
from discretize.noise.increments import NoiseInput
from discretize.steps.along import HeldProblem, step_along

__all__ = ["check_solutions"]


@torch.no_grad()
def check_solutions(problem: HeldProblem, is_solved: Callable[[HeldProblem], bool]) -> None:
    """Step the samples that a kernel does not solve, without the others. Raises: StepError where one of them has no solution."""
    if isinstance(problem.field, NoiseInput):  # whose increments are drawn as its own loop draws them
        return
    unsolved = _unsolved(problem, [*range(len(problem.h0))], is_solved)
    if not unsolved:
        return
    try:
        step_along(_of(problem, unsolved), lambda: None, lambda *_: None)
    except StepError as error:
        raise StepError(error.cause, error.hint, unsolved[error.sample], error.unit) from None


def _unsolved(problem: HeldProblem, samples: Sequence[int], is_solved: Callable[[HeldProblem], bool]) -> Sequence[int]:
    """Find, by halves, which of n samples a kernel does not solve, where it does not solve all: one takes 2 log2 n calls."""
    if len(samples) < 2:
        return samples
    middle = len(samples) // 2
    halves = [half for half in (samples[:middle], samples[middle:]) if not is_solved(_of(problem, half))]
    return [sample for half in halves for sample in _unsolved(problem, half, is_solved)]


def _of(problem: HeldProblem, samples: Sequence[int]) -> HeldProblem:
    dt = problem.dt
    if isinstance(dt, Tensor) and dt.shape[1] > 1:
        dt = dt[:, samples]
    return problem._replace(xs=problem.xs[:, samples], h0=problem.h0[samples], dt=dt)
