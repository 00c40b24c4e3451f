r"""Basins of attraction: which of some attractors each start ends on.

A map is applied so many times, a flow solved for so long; a start belongs to the attractor whose points its end is near.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ctrnn import HeldPath, VectorField, checks
from discretize.analysis.dynamics.fixed_points import check_starts
from discretize.analysis.dynamics.orbits import PeriodicOrbit
from discretize.analysis.dynamics.sizes import powers_of_two, sizes
from discretize.analysis.dynamics.systems import Dynamics, Flow, check_no_noise_in
from discretize.errors import SolverWarning, warn_user
from discretize.solve import integrate

__all__ = ["basins", "run"]

ABSOLUTE = 1e-7  # absolute tolerance of a solve, of the size of each unit


@torch.no_grad()
def basins(
    system: Dynamics,
    starts: Tensor,
    attractors: Sequence[Tensor | PeriodicOrbit],
    p: Tensor | float | None = None,
    *,
    length: float,
    tolerance: float = 1e-3,
) -> Tensor:
    r"""Return the index of the attractor that each start ends on; -1 where it is on none, or has left all bounds.

    Args:    system: a `Flow` or `Map`; attractors: fixed points (state,), orbits, or points (k, state) on others;
             p: the parameter, one or one for each start; length: time of a flow, applications of a map; tolerance: how near
             counts in each unit, relative to |h_i| of the point or to the unit's size, the median of |h_i| over the starts (as
             for `fixed_points`), where that is larger.
    Shape:   starts (n, state) -> (n,), whole numbers.
    Raises:  TypeError, ValueError for what does not fit. Warns of starts from which a flow cannot be solved to the end.
    """
    check_starts(system, starts)
    checks.positive_number("tolerance", tolerance)
    points_of = _points(attractors, starts.shape[-1])
    size = sizes(system, starts, p)
    end = run(system, starts, p, length, 1, size)[-1]
    owners = torch.full((len(starts),), -1, device=starts.device)
    nearest = torch.full_like(end[:, 0], tolerance)
    for k, points in enumerate(points_of):
        off = ((end[:, None] - points).abs() / torch.maximum(points.abs(), size)).amax(-1)
        here = off.amin(-1).nan_to_num(torch.inf)
        owners, nearest = torch.where(here < nearest, k, owners), torch.minimum(nearest, here)
    return owners


def _points(attractors: Sequence[Tensor | PeriodicOrbit], units: int) -> list[Tensor]:
    """Return the points of each attractor, (k, state)."""
    try:
        found = [attractor.hs if isinstance(attractor, PeriodicOrbit) else attractor for attractor in attractors]
    except TypeError as error:
        came = type(attractors).__name__
        raise TypeError(f"`attractors` must be a list, got {came}; of fixed points found, `list(found.h)`.") from error
    for k, points in enumerate(found):
        if not isinstance(points, Tensor) or points.dim() not in (1, 2) or points.shape[-1] != units:
            came = f"shape {tuple(points.shape)}" if isinstance(points, Tensor) else type(points).__name__
            raise ValueError(f"`attractors[{k}]` must be an orbit, a state ({units},) or several (k, {units}), got {came}.")
    return [points.reshape(-1, units) for points in found]


def run(system: Dynamics, h0: Tensor, p: Tensor | float | None, length: float, pieces: int, size: Tensor | None = None) -> Tensor:
    """Run for a given number of segments (flow) or steps (map); nan, with a warning, from where a flow cannot be solved.

    Shape:   h0 (n, state), size (state,) -> (pieces + 1, n, state).
    """
    length = checks.positive_number("length", length)
    check_no_noise_in(system, "basins")
    if not isinstance(system, Flow):
        if not length.is_integer():
            raise ValueError(f"`length` of a map is how often it is applied, a whole number, got {length}.")
        hs = [h0]
        for _ in range(int(length)):
            hs.append(system(hs[-1], p))
        return torch.stack(hs)
    ts = torch.linspace(0, length, pieces + 1, dtype=h0.dtype, device=h0.device)
    path = HeldPath(system.parameter(h0, p).reshape(1, -1, 1), ts[[0, -1]])
    one = powers_of_two(sizes(system, h0, p) if size is None else size)
    field = _AtParameter(system, one)
    solved = integrate(field, path, h0 / one, ts, atol=ABSOLUTE, on_failure="keep")
    status = solved.stats.get("status_of_samples", ["completed"])
    failed = [f"start {sample}: {why}" for sample, why in enumerate(status) if why != "completed"]
    if failed:
        warn_user(f"{len(failed)} of {len(h0)} starts could not be followed to the end; the first is {failed[0]}.", SolverWarning)
    return solved.hs * one


class _AtParameter(VectorField):
    """A flow in sizes of its units, whose input is its parameter, and so is that of the same sample where others are solved on
    without it."""

    def __init__(self, system: Flow, one: Tensor) -> None:
        super().__init__(1, len(one))
        self.system, self.one = system, one

    def flow(self, p: Tensor, h: Tensor) -> Tensor:
        return self.system(h * self.one, p[:, 0]) / self.one
