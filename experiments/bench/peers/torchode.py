r"""torchode: held inputs by a call for each sample, and an equation from many starts; each sequence has its own steps.

On held inputs step sizes are carried over. Projected once, the largest error as norm, no gradients through the step size, no
statistics. Compiling the solver with TorchScript, which its authors recommend, fails in torch 2.13.
"""

from __future__ import annotations

from typing import Any

import torch
import torchode
from torch import Tensor
from torchode.step_size_controllers import max_norm

from experiments.bench.parts.problems import BenchProblem
from experiments.bench.parts.solves import Solution, SolveCandidate, in_torch

__all__ = ["CANDIDATES"]


class _RecordingController(torchode.IntegralController):
    """An integral controller that records each sequence's longest step, taken or proposed."""

    longest: Tensor

    def adapt_step_size(self, t0: Tensor, dt: Tensor, *rest: object) -> Any:
        accept, following, *others = super().adapt_step_size(t0, dt, *rest)
        steps = torch.maximum(dt, following).detach()
        self.longest = torch.where(accept, torch.maximum(self.longest, steps), self.longest)
        return accept, following, *others


def _piece_by_piece(name: str, method: Any, expected: float) -> SolveCandidate:
    def solve(problem: BenchProblem, tolerance: float) -> Solution:
        field, h, hs = problem.field, problem.h0, [problem.h0]
        term = torchode.ODETerm(lambda t, h, projected: field.flow(projected, h), with_stats=False, with_args=True)
        controller = _RecordingController(atol=tolerance, rtol=tolerance, term=term, norm=max_norm)
        stepper = method(term=term).to(h)
        solver = torchode.AutoDiffAdjoint(stepper, controller.to(h), backprop_through_step_size_control=False)
        begin = h.new_zeros(len(h))
        end, dt, steps = begin + 1, begin + 0.3, 0
        for projected in field.project(problem.xs).unbind(0):
            controller.longest = begin
            solved = solver.solve(torchode.InitialValueProblem(y0=h, t_start=begin, t_end=end), dt0=dt, args=projected)
            h, dt = solved.ys[:, -1], controller.longest.clamp(1e-6, 1.0)
            steps += int(solved.stats["n_steps"].max())
            hs.append(h)
        # Of 7 stages the first is the last one of the step before.
        return Solution(torch.stack(hs), 6 * steps + len(hs) - 1)

    return in_torch(f"torchode {name}, a call for each sample", solve, expected=expected)


def _from_starts(problem: BenchProblem, tolerance: float) -> Solution:
    h0, ts = problem.h0, problem.times
    term = torchode.ODETerm(lambda t, h: problem.field.flow(h, h), with_stats=False)
    controller = torchode.IntegralController(atol=tolerance, rtol=tolerance, term=term, norm=max_norm).to(h0)
    solver = torchode.AutoDiffAdjoint(torchode.Tsit5(term=term).to(h0), controller, backprop_through_step_size_control=False)
    begin, end = ts.expand(len(h0), 2).unbind(1)
    solved = solver.solve(torchode.InitialValueProblem(y0=h0, t_start=begin, t_end=end))
    return Solution(torch.stack([h0, solved.ys[:, -1]]), 6 * int(solved.stats["n_steps"].max()) + 2)


HELD = [_piece_by_piece("dopri5", torchode.Dopri5, 1e-6), _piece_by_piece("tsit5", torchode.Tsit5, 3e-6)]
CANDIDATES = {
    "held": lambda: HELD,
    "stiff": lambda: HELD,
    "starts": lambda: [in_torch("torchode tsit5", _from_starts, expected=3e-7)],  # each with steps of its own
}
