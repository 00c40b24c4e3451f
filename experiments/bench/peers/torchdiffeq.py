r"""torchdiffeq: on held inputs as users write it and with its best options, and on an equation from many starts.

sample found in the field      x[int(t)] inside the right side: steps cross edges that the solver does not know of
`jump_t`                       projected once, every edge given, the largest error as norm, as `integrate` does
a call for each sample         the same, with the step size carried from call to call as far as torchdiffeq reports it
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torchdiffeq
from torch import Tensor

from ctrnn import VectorField
from experiments.bench.parts.problems import BenchProblem
from experiments.bench.parts.solves import Solution, in_torch

__all__ = ["CANDIDATES"]


class _Counted:
    """A right-hand side, dh/dt of t and h, that counts its calls."""

    def __init__(self, slope: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.slope, self.calls = slope, 0
        self.callback_step: Callable[[Tensor, Tensor, Tensor], None] = lambda t, h, step: None  # by torchdiffeq

    def __call__(self, t: Tensor, h: Tensor) -> Tensor:
        self.calls += 1
        return self.slope(t, h)


def _largest(errors: Tensor) -> Tensor:
    return errors.abs().max()


def _as_users_write_it(method: str, problem: BenchProblem, tolerance: float) -> Solution:
    field, xs = problem.field, problem.xs
    slope = _Counted(lambda t, h: field(xs[min(int(t), len(xs) - 1)], h))
    hs = torchdiffeq.odeint(slope, problem.h0, problem.times, rtol=tolerance, atol=tolerance, method=method)
    return Solution(hs, slope.calls)


def _with_jumps(method: str, problem: BenchProblem, tolerance: float) -> Solution:
    field, ts = problem.field, problem.times
    projected = field.project(problem.xs).unbind(0)
    slope = _Counted(lambda t, h: field.flow(projected[min(int(t), len(projected) - 1)], h))
    options = {"jump_t": ts[1:-1], "norm": _largest}
    hs = torchdiffeq.odeint(slope, problem.h0, ts, rtol=tolerance, atol=tolerance, method=method, options=options)
    return Solution(hs, slope.calls)


def _held(field: VectorField, projected: Tensor, t: Tensor, h: Tensor) -> Tensor:
    return field.flow(projected, h)


def _sample_by_sample(method: str, problem: BenchProblem, tolerance: float) -> Solution:
    h, hs, calls, first, steps = problem.h0, [problem.h0], 0, 0.01, [0.0]
    ts = torch.tensor([0.0, 1.0], dtype=torch.float64, device=h.device)
    for projected in problem.field.project(problem.xs).unbind(0):
        slope = _Counted(partial(_held, problem.field, projected))
        steps.clear()
        slope.callback_step = lambda t, h, step: steps.append(float(step))
        options = {"step_t": ts[1:], "norm": _largest, "first_step": first}
        h = torchdiffeq.odeint(slope, h, ts, rtol=tolerance, atol=tolerance, method=method, options=options)[-1]
        calls, first = calls + slope.calls, max(steps)
        hs.append(h)
    return Solution(torch.stack(hs), calls)


def _from_starts(problem: BenchProblem, tolerance: float) -> Solution:
    slope = _Counted(lambda t, h: problem.field.flow(h, h))
    settings: dict[str, Any] = {"rtol": tolerance, "atol": tolerance, "method": "dopri5", "options": {"norm": _largest}}
    return Solution(torchdiffeq.odeint(slope, problem.h0, problem.times, **settings), slope.calls)


HELD = [
    in_torch("torchdiffeq dopri5, sample found in the field", partial(_as_users_write_it, "dopri5"), expected=3e-10, slow=True),
    in_torch("torchdiffeq dopri5, `jump_t`", partial(_with_jumps, "dopri5"), expected=1e-6),
    in_torch("torchdiffeq dopri8, `jump_t`", partial(_with_jumps, "dopri8"), expected=3e-9),
    in_torch("torchdiffeq dopri5, a call for each sample", partial(_sample_by_sample, "dopri5"), expected=1e-6),
    in_torch("torchdiffeq dopri8, a call for each sample", partial(_sample_by_sample, "dopri8"), expected=1e-2),
]
CANDIDATES = {
    "held": lambda: HELD,
    "stiff": lambda: HELD,
    "starts": lambda: [in_torch("torchdiffeq dopri5", _from_starts, expected=1e-7)],  # all with one step size
}
