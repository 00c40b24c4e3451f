r"""Points of rest of flows and of maps, found from many starts, and the modes around them.

flow   F(x, h) = 0           dh = sum of e^(lambda t) v         stable where every Re lambda < 0
map    step(h) = h           dh <- sum of lambda v              stable where every |lambda| < 1
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ctrnn import VectorField, checks
from ctrnn.fields.field import check_state
from discretize.analysis.dynamics.roots import newton, with_derivatives
from discretize.analysis.dynamics.systems import Dynamics, Map, as_parameters, check_system, jacobian

__all__ = ["FixedPoints", "as_limits", "check_starts", "distinct", "fixed_points", "rest"]


@dataclass(frozen=True, eq=False)
class FixedPoints:
    r"""Fixed points, those of one parameter after those of another, and their linear modes.

    `h` and `p`; `index`: of which parameter of those given; `jacobian`; `eigenvalues`; `eigenvectors` in columns; `growth`:
    the rate of the fastest mode, per unit of time or per application. All but `index` are differentiable, eigenvectors up to
    their phase.

    Shape:   h (k, state), p and index and growth (k,), jacobian and eigenvectors (k, state, state), eigenvalues (k, state).
    """

    h: Tensor
    p: Tensor
    index: Tensor
    jacobian: Tensor
    eigenvalues: Tensor
    eigenvectors: Tensor
    growth: Tensor

    @property
    def stable(self) -> Tensor:
        """(k,)"""
        return self.growth < 0

    def __len__(self) -> int:
        return len(self.h)


def fixed_points(system: Dynamics, starts: Tensor, p: Tensor | float | None = None, *, tolerance: float = 1e-6) -> FixedPoints:
    r"""Find the distinct fixed points that Newton's method gives, from every start at every parameter.

    Args:    system: a `discretize.Flow` or `Map`; starts: states; p: one parameter or several; tolerance: points that are no
             further apart than this, relative to 1 + |h|, are one.
    Shape:   starts (n, state), p a number or (m,) -> a `FixedPoints` of k <= n m points.
    Raises:  TypeError, ValueError for what does not fit.
    Source:  of the derivatives, the implicit function theorem.
    """
    check_starts(system, starts)
    checks.positive_number("tolerance", tolerance)
    parameters = as_parameters(p, starts).reshape(-1)
    checks.is_finite("p", parameters)
    index = torch.arange(len(parameters), device=starts.device).repeat_interleave(len(starts))
    at = parameters.repeat_interleave(len(starts))
    h, found, _ = newton(lambda u: system.residual(u, at), lambda u: _matrix(system, u, at), starts.repeat(len(parameters), 1))
    kept = found.nonzero()[:, 0]
    kept = kept[distinct(h[kept], index[kept], tolerance)]
    return _described(system, rest(system, h[kept], at[kept]), at[kept], index[kept])


def rest(system: Dynamics, h: Tensor, p: Tensor) -> Tensor:
    """Return fixed points with their derivatives."""
    return with_derivatives(lambda u: system.residual(u, p), lambda u: _matrix(system, u, p), h)


def _matrix(system: Dynamics, h: Tensor, p: Tensor) -> Tensor:
    found = jacobian(system, h, p)
    return found - torch.eye(h.shape[-1], dtype=h.dtype, device=h.device) if isinstance(system, Map) else found


def _described(system: Dynamics, h: Tensor, p: Tensor, index: Tensor) -> FixedPoints:
    matrix = jacobian(system, h, p)
    values, vectors = torch.linalg.eig(matrix)
    return FixedPoints(h, p, index, matrix, values, vectors, system.growth(values).amax(-1))


def distinct(h: Tensor, index: Tensor, tolerance: float) -> Tensor:
    """Return which points have none before them within the tolerance, of the same index: (k,)."""
    new = torch.ones(len(h), dtype=torch.bool, device=h.device)
    for k in index.unique():
        mine = (index == k).nonzero()[:, 0]
        points = h[mine]
        near = torch.cdist(points, points, p=torch.inf, compute_mode="donot_use_mm_for_euclid_dist")
        close = near <= tolerance * (1 + points.abs().amax(-1))
        new[mine] = ~close.tril(-1).any(-1)
    return new


def check_starts(system: Dynamics, starts: Tensor, name: str = "starts", *, one: bool = False) -> None:
    """Check a flow or a map, and finite states of it: (n, state), at least one, or a single (state,)."""
    check_system(system)
    states = checks.is_tensor(name, starts)
    if states.dim() != (1 if one else 2) or not states.numel() or not states.is_floating_point():
        wanted = "one state (state,)" if one else "states (n, state), one or more,"
        raise ValueError(f"`{name}` must be {wanted} in floating point, got {states.dtype} {tuple(states.shape)}.")
    checks.is_finite(name, states)
    if isinstance(system.field, VectorField):
        check_state(system.field, starts, name)


def as_limits(limits: object, *units: int) -> Tensor:
    """Check (low, high), which may be infinite, of so many units: (*units, 2)."""
    try:
        ends = torch.as_tensor(limits, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        ends = torch.empty(0)
    if ends.shape != (*units, 2) or not bool((ends[..., 0] < ends[..., 1]).all()):
        whose = " of each of two units" if units else ""
        raise ValueError(f"`limits` must be (low, high){whose}, with low < high, got {limits!r}.")
    return ends
