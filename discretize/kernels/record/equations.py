r"""Record the equation of an implicit step, u = a + tau F(u), as one operation, and its way back.

    u           the solution near a guess, by Newton's method, sample by sample
    A^-T q      for a cotangent q of u, A = 1 - tau J(u): the cotangent of a + tau F(u), u held, by the implicit function theorem

So F is recorded once, where it is differentiated; what iterates reads it as programs of their own, `EquationModule` and
`EquationJVP`.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

from ctrnn import VectorField
from discretize.kernels.record.recording import UnknownOperation
from discretize.steps.algebra.jacobian import declares_jacobian

__all__ = ["no_matrix", "one_iteration", "recorded_solution"]


def recorded_solution(
    stepped: VectorField | None, field: VectorField, projected: Tensor, a: Tensor, tau: float | Tensor, guess: Tensor
) -> Tensor:
    """Record the solution of an equation of the field that is stepped, as `SOLUTION` takes it. Raises: UnknownOperation."""
    if field is not stepped:
        raise UnknownOperation("it solves an equation of another field than the one that is stepped")
    if declares_jacobian(field):
        raise UnknownOperation("a field's own `jacobian`, or its `bandwidths`, are for steps in torch")
    if projected.dim() != 2:
        raise UnknownOperation("it solves an equation whose input is no vector of each sample, (batch, projected)")
    batch = projected.shape[0]
    a, guess = (each.expand(batch, field.state_size) for each in (a, guess))
    tau = tau.expand(batch, 1) if isinstance(tau, Tensor) else torch.full_like(a[:, :1], tau)
    given = [each.detach() for each in (projected, a, tau, guess)]
    u: Tensor = torch.ops.ctrnn.solution(*given)
    solution: Tensor = _EquationSolution.apply(a + tau * field.flow(projected, u), u, given[0], given[2])
    return solution


def one_iteration(field: VectorField, projected: Tensor, a: Tensor, tau: float | Tensor, guess: Tensor) -> Tensor:
    """Return a function of all that the equation reads, in place of its solution: where only what is read counts."""
    slope, leak = field.flow_and_leak(projected, guess)
    return a + tau * field.flow(projected, guess) + tau * slope / (1 + tau * leak)


def no_matrix(*_: object) -> NoReturn:
    """Refuse a Jacobian as a matrix of each sample. Raises: UnknownOperation."""
    raise UnknownOperation("it computes with the field's Jacobian as a matrix, and kernels of sequences solve equations alone")


class _EquationSolution(torch.autograd.Function):
    """u, as a function of a + tau F(u)."""

    @staticmethod
    def forward(ctx: Any, right: Tensor, u: Tensor, projected: Tensor, tau: Tensor) -> Tensor:
        ctx.save_for_backward(u, projected, tau)
        return u.clone()

    @staticmethod
    def backward(ctx: Any, of_u: Tensor) -> Any:
        if torch.is_grad_enabled():  # as for a derivative that is differentiated again
            raise UnknownOperation("it differentiates the solution of an equation along a vector")
        return torch.ops.ctrnn.solution_pull(of_u, *ctx.saved_tensors), None, None, None


# Operations of torch's library, which kernels find in what they record, and which have no values elsewhere.


def _recorded_only(*_: Tensor) -> Tensor:
    raise NotImplementedError("an equation is solved by `solve_step`, and by kernels")


for name, given in (
    ("solution", "Tensor projected, Tensor a, Tensor tau, Tensor guess"),
    ("solution_pull", "Tensor cotangent, Tensor u, Tensor projected, Tensor tau"),
):
    torch.library.define(f"ctrnn::{name}", f"({given}) -> Tensor")
    torch.library.impl(f"ctrnn::{name}", "CompositeExplicitAutograd")(_recorded_only)
torch.library.register_fake("ctrnn::solution")(lambda projected, a, *_: torch.empty_like(a))
torch.library.register_fake("ctrnn::solution_pull")(lambda cotangent, *_: torch.empty_like(cotangent))
