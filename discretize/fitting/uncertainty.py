r"""Standard errors of a fit, and which parameters its data do not tell.

    J = d residuals / du,   its columns of length 1:   J = U S V^T
    covariance = V S^-2 V^T        without the singular values that are 0 as far as the solve is exact
    a row of V^T of such a value   a direction along which the data do not change, once its entries are in sizes again

A parameter that moves along such a direction has no standard error; the others have theirs, which do not hang on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Uncertainty", "uncertainty"]

TRUSTED = 100  # times the tolerance of the solve: a singular value is then known to 1 %
MOVES = 0.01  # part of itself by which a parameter changes where others do by all of theirs
AT_BOUND = 0.01  # standard errors, all else held


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """The unknowns that are identified, by index, their covariance in sizes, and of the others why they are not."""

    identified: list[int]
    covariance: np.ndarray
    why: dict[int, str]
    directions: list[np.ndarray]  # in sizes
    decrement: float  # of chi2, by a step to where it would be smallest if it were a parabola


def uncertainty(
    J: np.ndarray,
    residuals: np.ndarray,
    level: float,
    rtol: float,
    u: np.ndarray,
    first: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
) -> Uncertainty:
    """Judge a fit by its Jacobian (m, unknowns), of u in sizes.

    level: the length of what the residuals would be if the model gave 0; first: the sizes that the unknowns had at the start.
    """
    trusted = max(TRUSTED * rtol, len(J) * np.finfo(float).eps)
    lengths = np.linalg.norm(J, axis=0)
    why: dict[int, str] = {}
    for c in np.flatnonzero(lengths * np.maximum(first, 1) <= trusted * level):
        why[int(c)] = "the data do not change with it"
    gradient = J.T @ residuals
    for bound, sign, words in ((bounds[0], 1, "lower"), (bounds[1], -1, "upper")):
        for c in np.flatnonzero(np.abs(u - bound) < AT_BOUND / np.where(lengths > 0, lengths, np.inf)):
            if sign * gradient[c] >= 0 and int(c) not in why:
                why[int(c)] = f"it is at its {words} bound"
    kept = np.array([c for c in range(len(u)) if c not in why], dtype=int)
    if not len(kept):
        return Uncertainty([], np.empty((0, 0)), why, [], 0.0)
    _, S, V = np.linalg.svd(J[:, kept] / lengths[kept], full_matrices=True)
    S = np.concatenate([S, np.zeros(len(kept) - len(S))])
    null = trusted * S[0] >= S
    moves = np.linalg.qr((V[null] / lengths[kept]).T)[0].T  # in sizes, each of length 1
    free = np.linalg.norm(moves, axis=0) > MOVES
    directions = [np.zeros(len(u)) for _ in moves]
    for direction, sparse in zip(directions, _sparse(moves), strict=True):
        direction[kept] = sparse
    for c in kept[free]:
        why[int(c)] = "it is not identified by itself"
    covariance = (V[~null].T / S[~null] ** 2) @ V[~null]
    covariance = covariance / lengths[kept] / lengths[kept][:, None]
    decrement = float(gradient[kept] @ covariance @ gradient[kept])
    return Uncertainty([int(c) for c in kept[~free]], covariance[np.ix_(~free, ~free)], why, directions, decrement)


def _sparse(basis: np.ndarray) -> np.ndarray:
    """Return the same space by vectors that share as few entries as they can: a row echelon form."""
    from scipy.linalg import qr  # noqa: PLC0415 - of an extra

    if not len(basis):
        return basis
    *_, order = qr(basis, pivoting=True, mode="economic")
    solution = np.linalg.solve(basis[:, order[: len(basis)]], basis)
    return np.where(np.abs(solution) > MOVES, solution, 0)
