r"""Newton's method with a line search for many equations r(u) = 0 at once, and the derivatives of their solutions.

r'(u) c = -r(u),   u <- u + a c        a halved until |r| falls; every sample has its own a and its own end
dr/dq + r'(u) du/dq = 0                du/dq of a solution: the implicit function theorem
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["correction", "newton", "with_derivatives"]

Residual = Callable[[Tensor], Tensor]
Matrix = Callable[[Tensor], Tensor]

MOST_ITERATIONS, MOST_HALVINGS = 50, 10
ROUNDINGS = 64.0  # of a correction, relative to the solution


@torch.no_grad()
def newton(residual: Residual, matrix: Matrix, u: Tensor, iterations: int = MOST_ITERATIONS) -> tuple[Tensor, Tensor, int]:
    r"""Find solutions near u; return them, which were found, and how many iterations it took.

    Shape:   u (n, unknowns), residual the same, matrix (n, unknowns, unknowns) -> (n, unknowns), (n,).
    Source:  Deuflhard 2004, Newton Methods for Nonlinear Problems.
    """
    found = torch.zeros(len(u), dtype=torch.bool, device=u.device)
    share = u.new_ones(len(u), 1)
    off, rounding, count = residual(u), ROUNDINGS * torch.finfo(u.dtype).eps, 0
    for _ in range(iterations):
        count += 1
        move = correction(matrix(u), off)
        # What a correction leaves is about its square: one that is down to the root of a rounding is the last.
        last = (move.abs().amax(-1) <= rounding**0.5 * 1e-2 * (1 + u.abs().amax(-1))) & ~found
        share = torch.where(last.unsqueeze(-1), 1.0, (2 * share).clamp(max=1.0))
        for _ in range(MOST_HALVINGS):
            moved = torch.where(found.unsqueeze(-1), u, u + share * move)
            there = residual(moved)
            better = (there.norm(dim=-1) <= (1 - share[:, 0] / 4) * off.norm(dim=-1)) | last | found
            if bool(better.all()):
                break
            share = torch.where(better.unsqueeze(-1), share, share / 2)
        u, off, found = moved, there, found | last
        stuck = (share[:, 0] <= 2.0**-MOST_HALVINGS) | ~torch.isfinite(u).all(-1)
        if bool((found | stuck).all()):
            break
    return u, found & torch.isfinite(u).all(-1), count


def with_derivatives(residual: Residual, matrix: Matrix, u: Tensor) -> Tensor:
    """Return solutions that carry their first and second derivatives in all that the residual reads."""
    u = u.detach()
    with torch.no_grad():
        held = matrix(u)
    # With the matrix held, one correction takes on the first derivatives and a second one the second.
    for _ in range(2):
        u = u + correction(held, residual(u))
    return u


def correction(matrix: Tensor, off: Tensor) -> Tensor:
    """Solve matrix c = -off; c is not finite where the matrix is singular."""
    found, failed = torch.linalg.solve_ex(matrix, -off.unsqueeze(-1))
    return torch.where((failed != 0).reshape(-1, 1), torch.nan, found.squeeze(-1))
