r"""One stiff sample among quiet ones: what the batch costs with it, without it, and what the stiff one costs alone.

    dh/dt = e^z (tanh(Wx x + Wh h + b) - h),  z the last input: 0 for quiet samples, log 400 for the stiff one

Where all samples share their steps, all of them take the steps of the stiff one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

import ctrnn
from experiments.bench.parts.solves import Problem, SolveCandidate, solve_job, tuned_solvers
from experiments.bench.rows import WORKS, Row
from experiments.bench.session import Session

__all__ = ["VARIANTS", "StiffSizes", "batches", "stiff_rows"]

VARIANTS = {"without": slice(1, None), "with": slice(0, None), "alone": slice(0, 1)}  # samples of the batch
TARGET = 1e-5
PATIENCE = 10.0  # seconds


@dataclass(frozen=True)
class StiffSizes:
    """Sizes of the batch and of the field, and the rate of the stiff sample."""

    time: int
    batch: int
    hidden: int
    rate: float = 400.0

    def __str__(self) -> str:
        return f"one sample of rate {self.rate:g} among {self.batch}, T {self.time}, H {self.hidden}"


def batches(sizes: StiffSizes, device: str = "cpu") -> dict[str, Problem]:
    """The same field on the batch without its stiff sample, with it, and on that one alone."""
    generator = torch.Generator().manual_seed(0)
    field: Any = ctrnn.gated(4, sizes.hidden, rate="exponential", dtype=torch.float64, generator=generator)
    with torch.no_grad():
        for weights in (field.rate.weight_x, field.rate.weight_h, field.rate.bias, field.candidate.weight_x[:, -1]):
            weights.zero_()
        field.rate.weight_x[:, -1] = 1.0
    xs = torch.randn(sizes.time, sizes.batch, 4, dtype=torch.float64, generator=generator)
    xs[..., -1] = 0.0
    xs[:, 0, -1] = math.log(sizes.rate)
    whole = Problem.of(str(sizes), field.to(device), xs.to(device))
    return {
        variant: replace(whole, xs=whole.xs[:, part], h0=whole.h0[part], exact=whole.exact[:, part])
        for variant, part in VARIANTS.items()
    }


def stiff_rows(session: Session, sizes: StiffSizes, candidates: Sequence[SolveCandidate]) -> Iterator[Row]:
    """Times in all three batches, at the loosest tolerance that meets the target with the stiff sample."""
    problems, jobs = batches(sizes, session.device), []
    for tuned in tuned_solvers(session, "stiff", problems["with"], candidates, TARGET):
        for variant, problem in problems.items():
            facts = {"tolerance": tuned.tolerance, "error": tuned.error, "variant": variant}
            solver = tuned.candidate.ready(problem)
            jobs += [solve_job(tuned, solver, work, **facts) for work in WORKS]
    yield from session.rows("stiff", str(sizes), jobs, PATIENCE)
