r"""Newton's method for the equation of an implicit step, u = a + tau F(u), and the derivatives of its solution.

    A (u' - u) = a + tau F(u) - u,    A = 1 - tau J(u),    J = dF/du

Every sample is solved on its own: its correction is damped until the next one would be smaller, and its iteration ends when
every unit's correction is down to rounding, of that unit or its guess, or its residual to that of its own terms.
So units may be of any sizes beside one another. Where that fails, u first follows
du/ds = a + tau F(u) - u in pseudo-time, whose stationary points are the solutions, by linearly implicit steps that grow
towards them. It follows that at once where det A < 0 at the guess: tau J has grown through 1 since tau = 0, and Newton's method
goes to another solution than a state that grows, often to one that is unstable.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn import VectorField
from ctrnn.autocast import without_autocast
from discretize.errors import StepError
from discretize.graphs import check_values, whole
from discretize.steps.algebra.exchanged import SOLUTION
from discretize.steps.algebra.jacobian import jacobian, jacobian_cost, over_matrices

__all__ = ["solve_step"]

Factors = tuple[Tensor, Tensor]

MOST_ITERATIONS, MOST_HALVINGS = 25, 10
MOST_RELAXATIONS, MOST_BEYOND, LONGEST_RELAXATION, STATIONARY, MOST_TURN = 250, 40, 4.0, 1e-6, 0.9
ROUNDINGS = 64.0  # residual of a unit's equation, relative to its terms


def solve_step(field: VectorField, projected: Tensor, a: Tensor, tau: float | Tensor, guess: Tensor) -> tuple[Tensor, int]:
    r"""u = a + tau F(u) near `guess`, and its cost in evaluations, a Jacobian counting as `jacobian_cost` says.

    First and second derivatives with respect to all that the equation reads are those of its solution.

    Shape:   projected (..., projected), a and guess (..., state), tau a number or (..., 1) -> (..., state).
    Raises:  StepError where a sample's iteration does not end.
    Source:  Deuflhard 2004 for the damped iteration, and Kelley and Keyes 1998 for pseudo-time; this project
             for the derivatives.
    """
    if (other := SOLUTION.other) is not None:
        return other(field, projected.to(a.dtype), a, tau, guess), 0
    return _checked(field, projected, a, tau, guess)


@whole
def _checked(field: VectorField, projected: Tensor, a: Tensor, tau: float | Tensor, guess: Tensor) -> tuple[Tensor, int]:
    check_values(a, "Newton's method iterates", "take an explicit or exponential step, such as ExponentialEuler")
    with without_autocast(a.device):
        return _solve(field, projected.to(a.dtype), a, tau, guess)


def _solve(field: VectorField, projected: Tensor, a: Tensor, tau: float | Tensor, guess: Tensor) -> tuple[Tensor, int]:
    with torch.no_grad():
        still = tau.detach() if isinstance(tau, Tensor) else tau
        equation = _Equation(field, projected.detach(), a.detach(), still)
        u = _solution(equation, guess.detach())
        factors = equation.factors(equation.pull(u))
    # u is a constant here. An iteration with the matrix of the solution leaves the value as it is and takes on the
    # solution's first derivatives, by the implicit function theorem; a second one takes on the second.
    for _ in range(2):
        u = u + _solved(factors, a + tau * field.flow(projected, u) - u)
    return u, equation.cost + 2


class _Equation:
    """u = a + tau F(u): its residual, its matrix A, and the evaluations they cost."""

    def __init__(self, field: VectorField, projected: Tensor, a: Tensor, tau: float | Tensor) -> None:
        self.field, self.projected, self.a, self.tau = field, projected, a, tau
        self.cost = 0

    def residual(self, u: Tensor) -> Tensor:
        self.cost += 1
        return self.a + self.tau * self.field.flow(self.projected, u) - u

    def pull(self, u: Tensor) -> Tensor:
        """tau J, by which units act on one another within a step."""
        self.cost += jacobian_cost(self.field)
        return over_matrices(self.tau) * jacobian(self.field, self.projected, u)

    def factors(self, pull: Tensor, friction: Tensor | float = 0.0) -> Factors:
        """Factor the transpose of A + friction = 1 - tau J + friction; friction a number or (..., 1).

        So rounding is relative to the largest number of a row of A, and a slow unit keeps its digits beside a stiff one.
        """
        matrices = -pull
        matrices.diagonal(dim1=-2, dim2=-1).add_(1 + friction)
        return torch.linalg.lu_factor_ex(matrices.transpose(-2, -1))[:2]

    def rounding(self, u: Tensor, acts: Tensor) -> Tensor:
        """Return what rounding of its own terms leaves of each unit's residual; acts: |tau J|."""
        # Below the least normal number digits are lost: a decayed state is solved to what is left of them.
        number = torch.finfo(u.dtype)
        return ROUNDINGS * number.eps * (self.a.abs() + u.abs() + _times(acts, u.abs())).clamp(min=number.tiny)


def _solution(equation: _Equation, guess: Tensor) -> Tensor:
    if not bool(torch.isfinite(equation.a).all()):
        raise _failed(equation, guess, ~torch.isfinite(equation.a).all(-1, keepdim=True))
    all_samples = torch.ones_like(guess[..., :1], dtype=torch.bool)
    u, unsolved, beyond = _newton(equation, guess, all_samples, guess, from_start=True)
    if not bool(unsolved.any()):
        return u
    for start, those in (
        (_relaxed_soon, beyond),
        (_as_given, beyond),
        (_linearly_implicit, all_samples),
        (_relaxed, all_samples),
    ):
        tried = unsolved & those
        if bool(tried.any()):
            u, left, _ = _newton(equation, torch.where(tried, start(equation, guess), u), tried, guess)
            unsolved = (unsolved & ~those) | left
    if bool(unsolved.any()):
        raise _failed(equation, u, unsolved)
    return u


def _passes_solutions(factors: Factors) -> Tensor:
    """Return whether the determinant of A is negative, (..., 1): tau J has grown through 1, where a solution was lost."""
    lu, exchanged = factors
    unmoved = torch.arange(1, lu.shape[-1] + 1, dtype=exchanged.dtype, device=lu.device)
    signs = (lu.diagonal(dim1=-2, dim2=-1) < 0) ^ (exchanged != unmoved)
    return (signs.sum(-1, keepdim=True) % 2).bool()


def _as_given(equation: _Equation, guess: Tensor) -> Tensor:
    return guess


def _linearly_implicit(equation: _Equation, guess: Tensor) -> Tensor:
    """The solution with what drives the state and its leak held: beyond the solution, where a decay holds the state in."""
    u = guess
    for _ in range(3):
        u = u + equation.residual(u) / (1 + equation.tau * equation.field.leak(equation.projected, u))
    return u


def _newton(
    equation: _Equation, u: Tensor, unsolved: Tensor, guess: Tensor, from_start: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Iterate the unsolved samples from u by damped Newton's method; return which are unsolved after that, too.

    And which stay at u, where they would go past solutions, if they come `from_start`.
    """
    beyond = torch.zeros_like(unsolved)
    off, share, moves = equation.residual(u), torch.ones_like(u[..., :1]), unsolved
    reached, small = u.abs(), (1e-3 * ROUNDINGS * torch.finfo(u.dtype).eps) ** 0.5
    for iteration in range(MOST_ITERATIONS):
        pull = equation.pull(u)
        factors, acts = equation.factors(pull), pull.abs()
        if from_start and iteration == 0:
            beyond = _passes_solutions(factors)
            moves = moves & ~beyond
        correction = _solved(factors, off)
        # What a correction leaves is about its square: one that is down to the root of a rounding is the last.
        # Not in terms of `reached`: far from all solutions, where u has been once, all that follows is small.
        is_small = correction.abs() <= small * guess.abs().maximum(u.abs())
        last = (is_small | (off.abs() <= equation.rounding(u, acts))).all(-1, keepdim=True)
        share = torch.where(last, torch.ones_like(share), (2 * share).clamp(max=1.0))
        # A unit's size is what it has been on the way, or moves by, or is moved by the others: never theirs.
        size = reached.maximum(correction.abs()).maximum(_times(acts, correction.abs()))
        before = _largest(correction, size)
        for _ in range(MOST_HALVINGS):
            moved = torch.where(moves, u + share * correction, u)
            there = equation.residual(moved)
            # Measured by the corrections that it would take, which do not depend on the units of the residual.
            better = (_largest(_solved(factors, there), size) <= (1 - share / 4) * before) | last | ~moves
            if bool(better.all()):
                break
            share = torch.where(better, share, share / 2)
        u, off = moved, there
        reached = reached.maximum(u.abs())
        unsolved = unsolved & ~(moves & last)
        # A sample whose shares have shrunk to nothing is stuck, and stays where it is while others go on.
        moves = moves & ~last & (share > 2.0**-MOST_HALVINGS)
        if not bool(moves.any()):
            break
    return u, unsolved, beyond


def _relaxed_soon(equation: _Equation, guess: Tensor) -> Tensor:
    """Not where it takes long: a state almost at rest stays near that by Newton's method, and one without a bound never rests."""
    return _relaxed(equation, guess, MOST_BEYOND)


def _relaxed(equation: _Equation, guess: Tensor, most: int = MOST_RELAXATIONS) -> Tensor:
    """Follow du/ds = a + tau F(u) - u from `guess` until near its stationary point, by linearly implicit steps of pseudo-time.

    They pass the points where two solutions have just merged and vanished, at which Newton's method stays. Where u runs away from
    a solution, as exp(z), a long step goes back, or anywhere. So one is taken if it goes where the residual points, and another
    one by its matrix would differ from it by no more than `MOST_TURN` of it: if z < 0.47.
    """
    u, off, reached = guess, equation.residual(guess), guess.abs()
    pull, size = equation.pull(u), reached.maximum(off.abs())
    step, moves = 1 / (1 + _largest(_times(pull.abs(), size), size)), torch.ones_like(u[..., :1], dtype=torch.bool)
    for _ in range(most):
        factors = equation.factors(pull, 1 / step)
        motion = _solved(factors, off)
        there = equation.residual(u + motion)
        size = reached.maximum(motion.abs())
        turn, along = _largest(_solved(factors, there) - motion, size), _relative(motion, size) * _relative(off, size)
        is_safe = (turn <= MOST_TURN * _largest(motion, size)) & (along.sum(-1, keepdim=True) >= 0)
        taken = is_safe & moves
        u, off = torch.where(taken, u + motion, u), torch.where(taken, there, off)
        reached, pull = reached.maximum(u.abs()), equation.pull(u)
        rests = is_safe & (motion.abs() <= STATIONARY * step.clamp(max=1.0) * reached)  # a short step moves little anywhere
        rests |= off.abs() <= equation.rounding(u, pull.abs())
        moves = moves & ~rests.all(-1, keepdim=True)
        if not bool(moves.any()):
            break
        step = torch.where(is_safe, (2 * step).clamp(max=LONGEST_RELAXATION), step / 4)
    return u


def _solved(factors: Factors, off: Tensor) -> Tensor:
    return torch.linalg.lu_solve(*factors, off.unsqueeze(-1), adjoint=True).squeeze(-1)


def _times(matrices: Tensor, u: Tensor) -> Tensor:
    # Not @, which takes a small product for each sample: three times as long for 64 samples of 64 units.
    return (matrices * u.unsqueeze(-2)).sum(-1)


def _largest(u: Tensor, size: Tensor) -> Tensor:
    """Return the largest of the units of each sample, in terms of its size; a unit without one does not count."""
    return _relative(u.abs(), size).amax(-1, keepdim=True)


def _relative(u: Tensor, size: Tensor) -> Tensor:
    return torch.where(size > 0, u / size, 0.0)


def _failed(equation: _Equation, u: Tensor, unsolved: Tensor) -> StepError:
    off = equation.residual(u).abs().nan_to_num(torch.inf).reshape(-1, u.shape[-1])
    size = (equation.a.abs() + u.abs()).nan_to_num(1.0).reshape(off.shape)
    worst = torch.where(unsolved.reshape(-1, 1), off / size.clamp(min=torch.finfo(u.dtype).tiny), -1.0)
    sample, unit = divmod(int(worst.argmax()), u.shape[-1])
    tau = torch.as_tensor(equation.tau, device=u.device).expand_as(u).reshape(off.shape)[sample, unit]
    return StepError(
        cause=f"no solution of u = a + tau F(u), tau = {float(tau):.3g}, was found, and u is off by "
        f"{float(off[sample, unit]):.2g}",
        hint="Take shorter steps (`dt`, `substeps`), or a step without an equation to solve, such as ExponentialEuler.",
        sample=sample,
        unit=unit,
    )
