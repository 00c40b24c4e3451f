r"""One stiff sample among quiet ones: what the batch costs with it, without it, and what the stiff one costs alone.

    dh/dt = e^z (tanh(Wx x + Wh h + b) - h),  z the last input: 0 for quiet samples, log 400 for the stiff one

Where all samples share their steps, all of them take the steps of the stiff one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

import ctrnn
from experiments.bench.interleaved import interleaved
from experiments.bench.rows import BACKWARD, FORWARD, Row
from experiments.bench.solves import Candidate, Problem, checked, timed

__all__ = ["VARIANTS", "StiffSizes", "batches", "stiff_rows"]

VARIANTS = ("without", "with", "alone")
TARGET = 1e-5
PATIENCE = 10.0  # seconds
WORKS = (FORWARD, BACKWARD)


@dataclass(frozen=True)
class StiffSizes:
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
    field, xs = field.to(device), xs.to(device)
    whole = Problem.of(str(sizes), field, xs)
    rest, first = slice(1, None), slice(0, 1)
    cut = {"without": rest, "alone": first}
    return {"with": whole} | {name: _part(whole, samples) for name, samples in cut.items()}


def _part(whole: Problem, samples: slice) -> Problem:
    return replace(whole, xs=whole.xs[:, samples], h0=whole.h0[samples], exact=whole.exact[:, samples])


def stiff_rows(
    sizes: StiffSizes, candidates: Sequence[Candidate], rounds: int, *, device: str, skip: Callable[[str, str], None],
    tell: Callable[[str], None], settle: Callable[[], None],
) -> Iterator[Row]:  # fmt: skip
    """Each at the loosest tolerance that meets the error with the stiff sample, in all three batches; all in the same rounds."""
    problems, ready = batches(sizes, device), {}
    for candidate in candidates:
        tell(f"stiff: looking for the tolerance of {candidate.name}")
        found = checked(candidate, problems["with"], TARGET, "stiff", skip)
        if found is not None:
            ready[candidate.name] = candidate, found[1]
    jobs: dict[tuple[str, str, str], Callable[[], object]] = {}
    for name, (candidate, tuned) in ready.items():
        for variant in VARIANTS:
            solver = candidate.ready(problems[variant])
            jobs |= {(name, variant, work): timed(solver, tuned, work, settle) for work in WORKS}
    times = interleaved(jobs, rounds, patience=PATIENCE, tell=lambda key: tell(f"stiff: {', '.join(key)}"))
    for (name, variant, work), values in times.items():
        tuned = ready[name][1]
        facts: dict[str, Any] = {"tolerance": tuned.tolerance, "error": tuned.error, "variant": variant}
        yield Row("stiff", str(sizes), name, work, values, facts=facts)
