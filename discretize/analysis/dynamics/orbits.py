r"""Periodic orbits of maps, as fixed points of iterates, and the period that a trajectory settles into.

h_(k + 1) = step(h_k), h_n = h_0, and no smaller n does        multipliers: eigenvalues of the product of the n Jacobians
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ctrnn import checks
from discretize.analysis.dynamics.fixed_points import check_starts, fixed_points, near
from discretize.analysis.dynamics.sizes import sizes
from discretize.analysis.dynamics.systems import Map

__all__ = ["PeriodicOrbit", "periodic_orbits", "settled_periods"]


@dataclass(frozen=True, eq=False)
class PeriodicOrbit:
    r"""A periodic orbit: its states in the order of time, from the one whose first unit is least.

    `growth`: of the fastest mode, per turn.

    Shape:   hs (period, state), p (), multipliers (state,).
    """

    hs: Tensor
    p: Tensor
    multipliers: Tensor
    growth: Tensor

    @property
    def period(self) -> int:
        """The number of steps in a turn."""
        return len(self.hs)

    @property
    def stable(self) -> bool:
        """Whether nearby states approach the orbit."""
        return bool(self.growth < 0)


def periodic_orbits(
    system: Map, most: int, starts: Tensor, p: Tensor | float | None = None, *, tolerance: float = 1e-6
) -> list[PeriodicOrbit]:
    r"""Find the orbits of least period 1, 2, ..., `most` by Newton's method, from every start at every parameter.

    Args:    system: a `Map`; most: the longest period; starts, p, tolerance: as for `fixed_points`. Long unstable
             orbits need many starts: one is found from where the iterate is nearly linear around it.
    Shape:   starts (n, state), p a number or (m,).
    Raises:  TypeError, ValueError for what does not fit.
    """
    check_starts(system, starts)
    if not isinstance(system, Map):
        raise TypeError("`system` is a flow; the periodic orbits found here are those of a discretize.analysis.Map.")
    size = sizes(system, starts, p)
    orbits: list[PeriodicOrbit] = []
    for period in range(1, checks.positive_size("most", most) + 1):
        points = fixed_points(system.iterated(period), starts, p, tolerance=tolerance)
        fresh = [True] * len(points)
        for k in range(len(points)):
            if not fresh[k]:
                continue
            turn = _turn(system, points.h[k], points.p[k], period)
            if any(_same(turn[n], turn[0], tolerance, size) for n in range(1, period)):
                continue
            for other in range(k + 1, len(points)):
                if points.index[other] == points.index[k] and any(_same(h, points.h[other], tolerance, size) for h in turn):
                    fresh[other] = False
            first = int(turn[:, 0].detach().argmin())
            orbits.append(PeriodicOrbit(turn.roll(-first, 0), points.p[k], points.eigenvalues[k], points.growth[k]))
    return orbits


def _turn(system: Map, h: Tensor, p: Tensor, period: int) -> Tensor:
    turn = [h]
    for _ in range(period - 1):
        turn.append(system(turn[-1], p))
    return torch.stack(turn)


def _same(a: Tensor, b: Tensor, tolerance: float, size: Tensor) -> bool:
    # As fixed points of an iterate, whose tolerance they had, an orbit's points are known a little less well.
    return bool(((a - b).abs() <= 10 * near(b, size, tolerance)).all())


@torch.no_grad()
def settled_periods(
    system: Map,
    h: Tensor,
    most: int,
    p: Tensor | float | None = None,
    *,
    tolerance: float = 1e-6,
    size: Tensor | None = None,
) -> Tensor:
    r"""Find the least period at which trajectories come back to h, which should be on an attractor; 0: none up to `most`.

    Args:    tolerance: how near a unit comes back, relative to |h_i| or to `size`, where that is larger; size: of each unit; if
             not given its largest value on the way, of each trajectory its own. What falls to 0 for ever has no size on its way.
    Shape:   h (n, state), size (state,) or (n, state) -> (n,), whole numbers.
    """
    moved, states = h, [h]
    for _ in range(most):
        moved = system(moved, p)
        states.append(moved)
    way = torch.stack(states)
    close = near(h, way.abs().amax(0) if size is None else size, tolerance)
    back = ((way[1:] - h).abs() <= close).all(-1)
    return torch.where(back.any(0), 1 + back.long().argmax(0), 0)
