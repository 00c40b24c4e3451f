r"""Newton's method runs a discrete cell over a sequence for all times at once.

    F_k = h_k+1 - f(x_k, h_k) = 0 for all k,     J_k = df/dh at the guess
    h_k+1 <- f(x_k, guess_k) + (1 - damping) J_k (h_k - guess_k)            a linear recurrence, solved by a scan

Whatever the guess, k iterations make the first k states exact; where f contracts, a few make all of them. Each state is accepted
by its residual F_k alone, unit by unit. If f is a contraction with factor L, the error is at most max |F| / (1 - L);
where it expands, as chaos does, small residuals are no small errors, and iterations grow with the length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from ctrnn import VectorField, checks
from ctrnn.combinations import refuse
from ctrnn.fields.computed import with_computed_weights
from ctrnn.fields.delayed import DelayedField
from ctrnn.fields.dropout import masked
from ctrnn.forward import jacobian_of, jvp
from discretize.errors import SolverWarning, warn_user
from discretize.loop.delayed import step_with_past
from discretize.loop.noise import addressed, given_samples
from discretize.noise.brownian import BrownianPath
from discretize.noise.generator import Seed, check_no_seed
from discretize.noise.increments import ADDRESS, GivenIncrements
from discretize.parallel.scan import recurrence, reversed_recurrence
from discretize.sequences.cell import DiscreteCell
from discretize.sequences.unroll import checked_call, trajectory_of
from discretize.solvers.engine import SolverStats
from discretize.steps.along import HeldProblem
from discretize.steps.stochastic import StochasticStep
from discretize.trajectory import Trajectory

__all__ = ["unroll_parallel"]


def unroll_parallel(
    cell: DiscreteCell,
    xs: Tensor,
    h0: Tensor | None = None,
    *,
    method: Literal["newton", "quasi"] = "newton",
    damping: float = 0.0,
    tolerance: float | None = None,
    max_iterations: int = 100,
    seed: Seed | BrownianPath = None,
) -> Trajectory:
    r"""Run a cell as `unroll` does, to a tolerance, by Newton's method over the whole sequence.

    Args:    cell, xs, h0: as for `unroll`; method: "newton" with all of the step's Jacobian, or "quasi" with its diagonal;
             damping: 0 to 1, what is taken off the Jacobian, with which products of many stay bounded where the step expands;
             tolerance: of |h_k+1 - f(x_k, h_k)| of each unit, relative to the largest |h| that it has had in its sample so far,
             64 roundings if not given; max_iterations: after them the rest is computed step by step, with a `SolverWarning`;
             seed: of the noise, as for `unroll`: the same path.
    Gives:   a trajectory, with "iterations", "residual", so measured, and "sequential_samples" among its `stats`. Its gradient is
             that of the recurrence at these states, by one reversed scan with the full Jacobians, (time, batch, state, state)
             in memory.
    Shape:   as `unroll`.
    Raises:  TypeError, ValueError for what does not fit, and for Zoneout, which draws anew at each evaluation;
             RuntimeError for derivatives of its gradient.
    Source:  Lim et al. 2023 (DEER), Gonzalez et al. 2024 (the diagonal, quasi-DEER; its damping ELK is another than this one).
    """
    xs, h = checked_call(cell, xs, h0)
    if method not in ("newton", "quasi"):
        raise ValueError(f'`method` must be "newton" or "quasi", got {method!r}.')
    if not 0 <= damping <= 1:
        raise ValueError(f"`damping` must be between 0 and 1, got {damping}.")
    if cell.step.draws:
        refuse("zoneout", "parallel", repr(cell.step), "unroll_parallel")
    tolerance = 64 * torch.finfo(h.dtype).eps if tolerance is None else checks.positive_number("tolerance", tolerance)
    field, parts = masked(with_computed_weights(cell.field), (xs.shape[1],)), list[_Sequence]()
    settings = (method == "quasi", damping, tolerance, checks.positive_size("max_iterations", max_iterations))

    def run(problem: HeldProblem, *_: object) -> tuple[Tensor, dict[str, Any]]:
        parts.append(_Sequence(problem))
        return parts[-1].with_gradient(parts[-1].solved(*settings)), {"engine": f"parallel, {method}", "engine_why": None}

    problem = HeldProblem(field, cell.step, xs, h, cell.dt)
    if isinstance(field, DelayedField):  # as far as the past is known, all times at once
        check_no_seed(seed)
        edges = cell.dt * torch.arange(len(xs) + 1, dtype=torch.float64, device="cpu")
        states, ran, _ = step_with_past(problem, edges, False, run)
    else:
        reads, given = _with_noise(field, cell, xs, seed)
        states, ran = run(problem._replace(field=reads, xs=given))
    ran |= {name: sum(part.report[name] for part in parts) for name in ("iterations", "sequential_samples")}
    ran["residual"] = max(part.report["residual"] for part in parts)
    for part in parts[1:]:
        parts[0].counts.add(part.counts)
    return trajectory_of(cell, field, xs, torch.cat([h[None], states]), parts[0].counts, ran)


def _with_noise(field: VectorField, cell: DiscreteCell, xs: Tensor, seed: Seed | BrownianPath) -> tuple[VectorField, Tensor]:
    """Put the increments of each step beside its sample, drawn once: Newton's method evaluates a step many times."""
    if not cell.step.noisy:
        check_no_seed(seed)
        return field, xs
    assert isinstance(cell.step, StochasticStep)
    cell.step.check_noise(cell.field)  # G may have been 0 before it was learned
    own, integral = field.input_size, cell.step.reads_integral
    every = addressed(seed, xs, field, cell.step, cell.dt * torch.arange(len(xs) + 1, dtype=torch.float64, device="cpu"))
    if isinstance(seed, BrownianPath):
        return GivenIncrements(field, integral), torch.cat([xs, every[..., own + ADDRESS :].to(xs)], -1)
    laid = given_samples(field, xs, every[..., own : own + ADDRESS], cell.dt, 1, integral)
    return laid.field, laid.xs


class _Sequence:
    """Solves the equations of one sequence, and gives the solution its gradient."""

    def __init__(self, problem: HeldProblem) -> None:
        self.field, self.step, xs, self.h0, dt, _ = problem
        assert not isinstance(dt, Tensor)
        self.dt, self.projected, self.counts = dt, self.field.project(xs), SolverStats()
        self.report: dict[str, Any] = {}

    def steps(self, begin: int) -> Callable[[Tensor], Tensor]:
        """Return f of all samples from `begin` on."""
        projected = self.projected[begin:]
        return lambda h: self.step.advance(self.field, projected, h, self.dt)

    @torch.no_grad()
    def solved(self, diagonal: bool, damping: float, tolerance: float, most: int) -> Tensor:
        """Return the states after each sample; those that satisfy their equations, from the first on, are not computed again."""
        batch, total = len(self.h0), len(self.projected)
        hs, right, iterations = self.h0.expand(total + 1, *self.h0.shape).clone(), 0, 0
        cost = self.step.cost(self.field)
        while True:
            step, before = self.steps(right), hs[right:-1]
            ahead = step(before)
            self.counts.call(cost, (total - right) * batch)
            right_now = _satisfied(ahead, hs, right, tolerance)
            if right + right_now == total or iterations == most:
                right += right_now
                break
            ahead, before, right = ahead[right_now:], before[right_now:], right + right_now
            jacobian = (_diagonal if diagonal else jacobian_of)(self.steps(right), before)
            self.counts.call(cost * before.shape[-1], (total - right) * batch)
            # Of the changes, whose rounding is theirs: that of f - J guess would be of all that weights bring in.
            changes = recurrence((1 - damping) * jacobian, ahead - hs[right + 1 :], torch.zeros_like(ahead[0]))
            following = hs[right + 1 :] + changes
            # Products of many Jacobians may overflow; then any guess will do, and the first state is exact anyway.
            hs[right + 1 :] = torch.where(torch.isfinite(following), following, 0.0)
            hs[right + 1] = ahead[0]
            iterations += 1
        self._finish(hs, right, cost)
        largest = float(_residuals(self.steps(0)(hs[:-1]), hs, 0).max()) if total else 0.0
        self.report = {"iterations": iterations, "residual": largest, "sequential_samples": total - right}
        return hs[1:]

    def _finish(self, hs: Tensor, right: int, cost: int) -> None:
        rest = len(self.projected) - right
        if not rest:
            return
        for k in range(right, right + rest):
            hs[k + 1] = self.step.advance(self.field, self.projected[k], hs[k], self.dt)
        self.counts.call(cost * rest, hs.shape[1])
        warn_user(
            f"Newton's method had the first {right} of {right + rest} samples when its iterations ended; the other {rest} were "
            "computed step by step. The step may expand errors, as chaos does: `discretize.analysis.lyapunov` measures it; a "
            '`damping`, method="newton" and more `max_iterations` may help, `unroll` will do.',
            SolverWarning,
        )

    def with_gradient(self, hs: Tensor) -> Tensor:
        """Give the solution its gradient: one step from known states, and the adjoint of the equations behind it."""
        if not torch.is_grad_enabled():
            return hs
        ahead = self.steps(0)(torch.cat([self.h0[None], hs[:-1]]))
        if not ahead.requires_grad:
            return hs
        with torch.no_grad():
            jacobian = jacobian_of(self.steps(0), torch.cat([self.h0[None], hs[:-1]]))
        return _Solution.apply(ahead, hs, jacobian)


class _Solution(torch.autograd.Function):
    """The states for the derivative of h_k+1 = f(x_k, h_k): dL/df_k = dL/dh_k+1 + J_k+1^T dL/df_k+1."""

    @staticmethod
    def forward(ctx: FunctionCtx, ahead: Tensor, hs: Tensor, jacobian: Tensor) -> Tensor:
        ctx.save_for_backward(jacobian)
        return hs.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        if torch.is_grad_enabled():
            raise RuntimeError("`unroll_parallel` has first derivatives only; use `unroll` for derivatives of gradients.")
        return reversed_recurrence(ctx.saved_tensors[0], grad), None, None


def _satisfied(ahead: Tensor, hs: Tensor, begin: int, tolerance: float) -> int:
    """Return how many states from `begin` on satisfy their equations, up to the first that does not."""
    wrong = ~(_residuals(ahead, hs, begin) <= tolerance).all(2).all(1)
    return int(wrong.int().argmax()) if bool(wrong.any()) else len(wrong)


def _residuals(ahead: Tensor, hs: Tensor, begin: int) -> Tensor:
    """Return |h_k+1 - f(h_k)| from `begin` on, of each unit in terms of the largest that it has been: (time, batch, state)."""
    off, size = (hs[begin + 1 :] - ahead).abs(), torch.maximum(ahead.abs(), hs.abs().cummax(0).values[begin:-1])
    return torch.where(off == 0, 0.0, off / size)


def _diagonal(f: Callable[[Tensor], Tensor], h: Tensor) -> Tensor:
    """Return df_i/dh_i, a column of the Jacobian at a time, so that no more than a state is kept."""
    diagonal = torch.empty_like(h)
    for unit in range(h.shape[-1]):
        direction = torch.zeros_like(h)
        direction[..., unit] = 1
        diagonal[..., unit] = jvp(f, (h,), (direction,))[1][..., unit]
    return diagonal
