r"""Computes the Jacobian of a field in its state, by forward mode or by the field's own method, which is checked against `flow`.

    J v = d/ds F(h + s v) at s = 0        v dense, so that an entry outside the declared bandwidths is missed too

Rosenbrock methods have their order with the exact Jacobian only, and nothing else tells a wrong one.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ctrnn import DelayedField, Relaxation, VectorField, checks
from ctrnn.forward import jvp
from discretize.steps.algebra.exchanged import JACOBIAN

__all__ = [
    "JacobianCheck",
    "checked_jacobian",
    "declares_jacobian",
    "jacobian",
    "jacobian_cost",
    "over_matrices",
]


def jacobian(field: VectorField, projected: Tensor, h: Tensor) -> Tensor:
    """dF_i/dh_k, itself differentiable: (..., projected), (..., state) -> (..., state, state)."""
    if (other := JACOBIAN.other) is not None:
        return other(field, projected, h)
    check = None if torch.compiler.is_compiling() or not declares_jacobian(field) else _CHECKS.setdefault(field, JacobianCheck())
    matrix = checked_jacobian(field, projected, h, check)
    return torch.diag_embed(matrix) if field.bandwidths == (0, 0) else matrix


def checked_jacobian(field: VectorField, projected: Tensor, h: Tensor, check: JacobianCheck | None) -> Tensor:
    r"""Return `VectorField.jacobian`, checked where the field declares anything about it.

    Raises:  TypeError, ValueError for bandwidths that are none, for another shape, dtype or device, and by `check`.
    """
    if not declares_jacobian(field):
        return field.jacobian(projected, h)
    _check_bandwidths(field.bandwidths)
    matrix = _called(field, projected, h)
    _check_like(matrix, h, diagonal=field.bandwidths == (0, 0))
    if check is not None:
        check(field, projected, h, matrix)
    return matrix


def jacobian_cost(field: VectorField | DelayedField) -> int:
    """Return the cost of a Jacobian in evaluations of the field: one for each direction, or one for the field's own."""
    if isinstance(field, DelayedField):  # whose past is held
        return field.state_size
    _check_bandwidths(field.bandwidths)
    if _own(field):
        return 1
    return field.state_size if field.bandwidths is None else min(sum(field.bandwidths) + 1, field.state_size)


def over_matrices(dt: float | Tensor) -> float | Tensor:
    """Reshape dt to multiply matrices: a number or a scalar as it is, a length for each sample (..., 1) -> (..., 1, 1)."""
    return dt.unsqueeze(-1) if isinstance(dt, Tensor) and dt.dim() else dt


class JacobianCheck:
    r"""Compares a field's Jacobians with the derivative of `flow` along one direction: the first, second, fourth, eighth ...

    Not the first alone: sequences start at h = 0, where a wrong power of h is right.

    Raises:  ValueError where they differ by more than rounding, or where autograd goes through `flow` and not the Jacobian.
    """

    def __init__(self) -> None:
        self.calls: int = 0

    def __call__(self, field: VectorField, projected: Tensor, h: Tensor, found: Tensor) -> None:
        self.calls += 1
        if self.calls & (self.calls - 1) or not h.numel():
            return
        # No two columns have the same weight, and none has 0: the golden ratio's multiples are evenly spread.
        weights = 1 + torch.arange(h.shape[-1], dtype=torch.float64, device=h.device) * 0.6180339887498949 % 1
        # Every unit moves by a share of its own size; of one at 0 nothing but the others' is known.
        with torch.no_grad():
            others = h.abs().amax(-1, keepdim=True)
            direction = weights.to(h.dtype) * torch.where(h != 0, h.abs(), torch.where(others > 0, others, 1.0))
        value, expected, tolerance = _along(field, projected, h, direction)
        if expected.requires_grad and not found.requires_grad:
            raise ValueError(
                "The field's `jacobian` is cut off from autograd, and gradients of the solve go through it; compute it with "
                "torch's functions of h and the parameters, without .detach(), .item() and torch.no_grad(), or solve under "
                "torch.no_grad()."
            )
        with torch.no_grad():
            _compare(field, found, direction, value, expected, tolerance)


_CHECKS: WeakKeyDictionary[VectorField, JacobianCheck] = WeakKeyDictionary()  # of step maps, which know no solve


def _called(field: VectorField, projected: Tensor, h: Tensor) -> Tensor:
    try:
        return field.jacobian(projected, h)
    except RuntimeError as error:  # not to be taken for what torch.func says of `flow`
        if not _own(field):
            raise
        raise ValueError(f"The field's `jacobian` fails for a state of shape {tuple(h.shape)}: {error}") from error


def _along(field: VectorField, projected: Tensor, h: Tensor, direction: Tensor) -> tuple[Tensor, Tensor, float]:
    """Return `flow`, its derivative along the direction, and the relative accuracy of that."""
    eps = torch.finfo(h.dtype).eps
    try:
        value, along = jvp(lambda u: field.flow(projected, u), (h,), (direction,))
        return value, along, eps**0.5
    except (RuntimeError, NotImplementedError):  # what torch.func cannot follow has its own Jacobian for just that
        with torch.no_grad():
            width = eps ** (1 / 3)
            ahead, behind = (field.flow(projected, h + side * width * direction) for side in (1, -1))
            return (ahead + behind) / 2, (ahead - behind) / (2 * width), eps**0.25


def _compare(field: VectorField, found: Tensor, direction: Tensor, value: Tensor, expected: Tensor, tolerance: float) -> None:
    matrix = torch.diag_embed(found) if field.bandwidths == (0, 0) else found
    product, size = (torch.matmul(m, direction.unsqueeze(-1)).squeeze(-1) for m in (matrix, matrix.abs()))
    # Relative to each unit's own terms, for units are fast and slow; what is rounding to the fastest is not judged.
    largest = (size + value.abs()).amax(-1, keepdim=True)
    allowed = tolerance * (size + expected.abs()) + 64 * tolerance**2 * largest
    # Of states that run away no formula is wrong: one unit that is infinite makes `largest` so.
    judged = (torch.isfinite(expected) & torch.isfinite(value)).all(-1, keepdim=True)
    wrong = judged & ~(torch.isfinite(product) & ((product - expected).abs() <= allowed))
    if checks.holds(~wrong):
        return
    worst = int(torch.where(wrong, ((product - expected).abs() / allowed).nan_to_num(torch.inf), -1.0).argmax())
    unit = worst % product.shape[-1]
    told, true = float(product.flatten()[worst]), float(expected.flatten()[worst])
    where = f"along one direction it gives {told:.6g} for unit {unit}, and `flow` changes by {true:.6g}"
    if _own(field):
        raise ValueError(f"The field's `jacobian` is not that of its `flow`: {where}; mend the formula, or leave it out.")
    raise ValueError(
        f"The field's `bandwidths` {field.bandwidths} leave out entries of its Jacobian: {where}; widen them, or set None."
    )


def _own(field: VectorField) -> bool:
    return getattr(field.jacobian, "__func__", None) not in (VectorField.jacobian, Relaxation.jacobian)


def declares_jacobian(field: VectorField) -> bool:
    """Return whether a field declares a `jacobian` or bandwidths."""
    return field.bandwidths is not None or _own(field)


def _check_bandwidths(given: object) -> None:
    if given is None:
        return
    if not isinstance(given, tuple) or len(given) != 2 or not all(type(width) is int and width >= 0 for width in given):
        raise ValueError(
            "The field's `bandwidths` must be a tuple of two integers, entries below and above the diagonal, at least 0, or "
            f"None, got {given!r}."
        )


def _check_like(found: object, h: Tensor, diagonal: bool) -> None:
    if not isinstance(found, Tensor):
        raise TypeError(f"The field's `jacobian` gives {type(found).__name__}, not a tensor.")
    shape = h.shape if diagonal else (*h.shape, h.shape[-1])
    if found.shape != shape:
        what = "its diagonal, for `bandwidths` are (0, 0)" if diagonal else "rows for dF_i, columns for dh_k, of each sample"
        raise ValueError(
            f"The field's `jacobian` gives shape {tuple(found.shape)} for a state of shape {tuple(h.shape)}; it must be "
            f"{tuple(shape)}: {what}; expand one that is the same for all."
        )
    if found.dtype != h.dtype or found.device != h.device:
        raise TypeError(
            f"The field's `jacobian` gives {found.dtype} on {found.device} for a state of {h.dtype} on {h.device}; make it alike."
        )
