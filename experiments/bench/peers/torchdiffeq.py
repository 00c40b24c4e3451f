r"""torchdiffeq on held inputs: as users write it, and with its best options.

sample found in the field      x[int(t)] inside the right side: steps cross edges that the solver does not know of
`jump_t`                       projected once, every edge given, the largest error as norm, as `integrate` does
a call for each sample         the same, with the step size carried from call to call as far as torchdiffeq reports it
"""

from __future__ import annotations

import torch
import torchdiffeq
from torch import Tensor

from experiments.bench.solves import Problem, Solution, SolveCandidate, edges, in_torch

__all__ = ["torchdiffeq_candidates"]


def torchdiffeq_candidates() -> list[SolveCandidate]:
    return [
        _as_users_write_it("dopri5"),
        *(_with_flags(method, expected) for method, expected in (("dopri5", 1e-6), ("dopri8", 3e-9))),
        *(_piece_by_piece(method, expected) for method, expected in (("dopri5", 1e-6), ("dopri8", 1e-2))),
    ]


def _as_users_write_it(method: str) -> SolveCandidate:
    def solve(problem: Problem, tolerance: float) -> Solution:
        field, xs, calls = problem.field, problem.xs, 0

        def slope(t: Tensor, h: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            return field(xs[min(int(t), len(xs) - 1)], h)

        hs = torchdiffeq.odeint(slope, problem.h0, edges(xs), rtol=tolerance, atol=tolerance, method=method)
        return Solution(hs, calls)

    return in_torch(f"torchdiffeq {method}, sample found in the field", solve, expected=3e-10, slow=True)


def _with_flags(method: str, expected: float) -> SolveCandidate:
    def solve(problem: Problem, tolerance: float) -> Solution:
        field, ts, calls = problem.field, edges(problem.xs), 0
        projected = field.project(problem.xs).unbind(0)

        def slope(t: Tensor, h: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            return field.flow(projected[min(int(t), len(projected) - 1)], h)

        options = {"jump_t": ts[1:-1], "norm": lambda errors: errors.abs().max()}
        hs = torchdiffeq.odeint(slope, problem.h0, ts, rtol=tolerance, atol=tolerance, method=method, options=options)
        return Solution(hs, calls)

    return in_torch(f"torchdiffeq {method}, `jump_t`", solve, expected=expected)


def _piece_by_piece(method: str, expected: float) -> SolveCandidate:
    def solve(problem: Problem, tolerance: float) -> Solution:
        field, calls, first, steps = problem.field, 0, 0.01, [0.0]
        h, hs = problem.h0, [problem.h0]
        clock = torch.tensor([0.0, 1.0], dtype=torch.float64, device=h.device)
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
        return Solution(torch.stack(hs), calls)

    return in_torch(f"torchdiffeq {method}, a call for each sample", solve, expected=expected)
