r"""torchdde: a network with a delay, by its dopri5, all samples by the same steps, which it does in float32 alone.

Gradients go through the steps, as ours do; its adjoint is of the continuous equation.
"""

from __future__ import annotations

import torch
import torchdde
from torch import Tensor, nn

from experiments.bench.parts.problems import BenchProblem
from experiments.bench.parts.solves import Solution, in_torch

__all__ = ["CANDIDATES"]

FIRST, MOST_STEPS = 0.1, 100_000


class _Called(nn.Module):
    """The field as it is called there, and how often."""

    def __init__(self, problem: BenchProblem) -> None:
        super().__init__()
        self.field, self.delays, self.calls = problem.field, problem.field.delays.float(), 0

    def forward(self, t: Tensor, h: Tensor, args: object, *, history: list[Tensor]) -> Tensor:
        self.calls += 1
        flow: Tensor = self.field.flow(h, h, (history[0],))
        return flow


def _solve(problem: BenchProblem, tolerance: float) -> Solution:
    called, times, h0 = _Called(problem), problem.times.float(), problem.h0
    hs = torchdde.integrate(
        called,
        torchdde.Dopri5(),
        times[0],
        times[-1],
        times,
        lambda t: h0,
        None,
        torchdde.AdaptiveStepSizeController(atol=tolerance, rtol=tolerance),
        dt0=torch.tensor(FIRST, device=h0.device),
        delays=called.delays,
        discretize_then_optimize=True,
        max_steps=MOST_STEPS,
    )
    return Solution(hs.transpose(0, 1), called.calls)


CANDIDATES = {"delays": lambda: [in_torch("torchdde dopri5", _solve, expected=1e-6)]}
