r"""Points of rest of flows and of maps, found from many starts, points where they are slow, and the modes around them.

flow   F(x, h) = 0           dh = sum of e^(lambda t) v         stable where every Re lambda < 0
map    step(h) = h           dh <- sum of lambda v              stable where every |lambda| < 1
slow   |F(x, h)| small       met on the way down |F|^2
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ctrnn import VectorField, checks, timescales
from ctrnn.fields.field import check_state
from discretize.analysis.dynamics.delayed_modes import delayed_modes
from discretize.analysis.dynamics.roots import ROUNDINGS, descend, newton, with_derivatives
from discretize.analysis.dynamics.sizes import powers_of_two, sizes
from discretize.analysis.dynamics.systems import Dynamics, Flow, as_parameters, at_rest, check_system, jacobian, parts_at_rest
from discretize.progress import progress_bar
from discretize.text_report import TextReport

__all__ = ["FixedPoints", "as_limits", "check_starts", "distinct", "fixed_points", "near", "rest"]


SHOWN = 24  # points of a table
TOGETHER = 2**16  # rows of Jacobians computed at once
FAR = 3.0  # times the starts' reach from their median: what is further away is no point of theirs
APART = 0.02  # of slow points, from one another and from fixed points: of the same distance
REACH = 2.0  # times the median distance of the starts, which is the largest where they lie evenly; one that is far away is none


@dataclass(frozen=True, eq=False, repr=False)
class FixedPoints(TextReport):
    r"""Fixed points, those of one parameter after those of another, then slow points, if asked for; and their linear modes.

    `h` and `p`; `index`: of which parameter of those given; `jacobian`; `eigenvalues`; `eigenvectors` in columns; `rates`: at
    which modes grow, per unit of time or per application, 0 where a turn leaves no more than rounding; `growth`: that of the
    fastest; `time_constants` and `periods`: the times in which modes grow or fall by e, and in which they turn once, infinite
    where they do not; `speed`: |F|, or the length of a step of a map, a rounding at points of rest; `fixed`: which are. All but
    `index` and `fixed` are differentiable, eigenvectors up to their phase. `unit`: the time constant of the field, where all its
    units share one; times are given in it in the table that is printed.

    Shape:   h (k, state), p, index, growth, speed and fixed (k,), jacobian and eigenvectors (k, state, state), eigenvalues,
             rates, time_constants and periods (k, state).
    """

    h: Tensor
    p: Tensor
    index: Tensor
    jacobian: Tensor
    eigenvalues: Tensor
    eigenvectors: Tensor
    rates: Tensor
    periods: Tensor
    speed: Tensor
    fixed: Tensor
    unit: float | None = None

    @property
    def growth(self) -> Tensor:
        return self.rates.amax(-1)

    @property
    def time_constants(self) -> Tensor:
        return 1 / self.rates.abs()

    @property
    def stable(self) -> Tensor:
        """(k,): fixed points that all modes come back to; of slow points, those without a mode that grows."""
        return self.growth < 0

    def __len__(self) -> int:
        return len(self.h)

    def __str__(self) -> str:
        rows = [("", "|h|", "speed", "leading eigenvalues", "")]
        sizes = zip(self.h.detach().norm(dim=-1).tolist(), self.speed.tolist(), strict=True)
        for k, (size, speed) in list(enumerate(sizes))[:SHOWN]:
            leading = ", ".join(_number(value) for value in self._leading(k)[:2])
            rows.append((str(k), f"{size:.3g}", f"{speed:.1g}", leading, self._in_words(k)))
        width = [max(len(row[column]) for row in rows) for column in range(4)]
        if not len(self):
            return "no fixed points"
        lines = ["  ".join([*(cell.rjust(n) for cell, n in zip(row, width, strict=False)), row[4]]).rstrip() for row in rows]
        if len(self) > SHOWN:
            lines.append(f"and {len(self) - SHOWN} more")
        fixed, stable = int(self.fixed.sum()), int((self.fixed & self.stable).sum())
        slow = f"; {_count(len(self) - fixed, 'slow point')}" if fixed < len(self) else ""
        return "\n".join([f"{_count(fixed, 'fixed point')}, {stable} of them stable{slow}", *lines])

    def _leading(self, k: int) -> list[complex]:
        """Return the eigenvalues of a point, that which grows fastest first, and one of each conjugate pair."""
        order = self.rates[k].argsort(descending=True, stable=True)
        return [complex(value) for value in self.eigenvalues[k, order].tolist() if value.imag >= 0]

    def _in_words(self, k: int) -> str:
        count, state, place = int((self.rates[k] > 0).sum()), self.h.shape[-1], int(self.rates[k].argmax())
        period = self.periods[k].tolist()[place]
        turns = f", turning in {self._time(period)}" if period < torch.inf else ""
        time = self._time(self.time_constants[k].tolist()[place]) + turns
        if not bool(self.fixed[k]):
            said = _count(count, "unstable direction") if count else "no unstable direction"
            return f"slow point, {said}, {time}"
        if not count and bool(self.growth[k] == 0):
            return f"centre{turns}" if turns else "neutral point"
        if not count:
            return f"stable {'focus' if turns else 'node'}, {time}"
        kind = "saddle" if count < state else f"unstable {'focus' if turns else 'node'}"
        return f"{kind}, {_count(count, 'unstable direction')}, {time}"

    def _time(self, time: float) -> str:
        if not time < torch.inf:
            return "infinite"
        return f"{time:.3g}" if self.unit is None else f"{time / self.unit:.3g} tau"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'s' * (number != 1)}"


def _number(value: complex) -> str:
    return f"{value.real:.3g}" if not value.imag else f"{value.real:.3g} ± {abs(value.imag):.3g}i"


def fixed_points(
    system: Dynamics,
    starts: Tensor,
    p: Tensor | float | None = None,
    *,
    tolerance: float = 1e-6,
    slow: float = 0.0,
    progress: bool = False,
) -> FixedPoints:
    r"""Find the distinct fixed points from every start at every parameter, and points where the system is slow.

    Newton's method goes from each start to a fixed point. With a speed `slow` the search goes down |F|^2 first, as from states of
    trajectories near which no point need exist, and Newton's method goes on from the end. The first state on the way that is as
    slow as that is a slow point, unless another point is within a fiftieth of the starts' reach, twice the median distance from
    their median. Points three times as far from the median, or three times the median's own size, are left out: whichever is
    farther.

    Each unit is measured by a size of its own, the median of |h_i| over the starts, so that the answer is the same in any units,
    and beside a start, or a unit, that is far away. Where that is 0 it is what Newton's first correction moves the unit by.

    No search finds all points: of the 161 found in 80 random networks Newton's method alone found 138, and 153 after the descent,
    in twice the time. Give many starts, and a small `slow` where each point counts.

        >>> bistable = discretize.Flow(lambda p, h: h - h**3)
        >>> found = fixed_points(bistable, torch.tensor([[-2.0], [0.1], [2.0]]))
        >>> sorted(round(value, 3) for value in found.h[:, 0].tolist()), int(found.stable.sum())
        ([-1.0, 0.0, 1.0], 2)

    Args:    system: a `Flow` or `Map`; starts: states, such as those of trajectories; p: one parameter or several;
             tolerance: points that are no further apart than this in any unit, relative to |h_i| or to the unit's size, where
             that is larger, are one; slow: a speed |F|, per unit of time, or |step(h) - h|; 0 for fixed points only;
             progress: a bar that counts iterations of the search.
    Shape:   starts (..., state), p a number or (m,) -> a `FixedPoints` of k points.
             Of a `DelayedField` a point rests with a past that is as it is; its modes are infinitely many, and as many are given
             as it has units, those that grow fastest. `jacobian` is that of the field with this past.
    Raises:  TypeError, ValueError for what does not fit.
    Source:  Sussillo and Barak 2013, "Opening the black box", for slow points; of the derivatives, the implicit function theorem.
    """
    starts = starts.reshape(-1, starts.shape[-1]) if isinstance(starts, Tensor) and starts.dim() > 2 else starts
    check_starts(system, starts, takes_delays=True)
    starts = starts.detach()
    checks.positive_number("tolerance", tolerance)
    speed = checks.non_negative_number("slow", slow)
    parameters = as_parameters(p, starts).reshape(-1)
    checks.is_finite("p", parameters)
    size = sizes(system, starts, parameters)
    index = torch.arange(len(parameters), device=starts.device).repeat_interleave(len(starts))
    at, begun = parameters.repeat_interleave(len(starts)), starts.repeat(len(parameters), 1)
    rows = max(1, TOGETHER // starts.shape[-1])
    with progress_bar("fixed_points", progress, unit="iteration") as show:
        count = itertools.count(1)
        parts = [
            _searched(system, h, q, size, speed, lambda: show(next(count)))
            for h, q in zip(begun.split(rows), at.split(rows), strict=True)
        ]
    first, h, found = (torch.cat(part) for part in zip(*parts, strict=True))
    middle, reach = _reach(starts / size)
    if speed and len(starts) > 1:
        far = FAR * max(reach, float(middle.norm()))  # starts may lie close together, beside the point that they come to
        found &= (h / size - middle).norm(dim=-1) <= far
        first[(first / size - middle).norm(dim=-1) > far] = torch.nan
    kept = found.nonzero()[:, 0]
    kept = kept[distinct(h[kept], index[kept], tolerance, size)]
    met = torch.isfinite(first).all(-1).nonzero()[:, 0]
    new = distinct(torch.cat([h[kept], first[met]]), torch.cat([index[kept], index[met]]), APART * reach, size, relative=False)
    met = met[new[len(kept) :]]
    fixed = rest(system, h[kept], at[kept])
    places, is_fixed = torch.cat([kept, met]), torch.arange(len(kept) + len(met), device=kept.device) < len(kept)
    return _described(system, torch.cat([fixed, first[met]]), at[places], index[places], is_fixed)


def _reach(starts: Tensor) -> tuple[Tensor, float]:
    """Return the median of states in sizes of their units, and how far they lie from it; of one state its own size."""
    middle = starts.median(0).values
    reach = REACH * float((starts - middle).norm(dim=-1).median())
    return middle, reach or float(middle.norm()) or 1.0


def _searched(
    system: Dynamics, h: Tensor, p: Tensor, size: Tensor, slow: float, show: Callable[[], object]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return slow points, nan where there are none, the ends of searches, and which of them are fixed points; `show` is called
    once an iteration."""
    one = powers_of_two(size)

    def residual(u: Tensor) -> Tensor:
        return system.residual(u * one, p).detach() / one

    def matrix(u: Tensor) -> Tensor:
        show()
        return at_rest(system, u * one, p).detach() * (one / one[:, None])

    first, u = torch.full_like(h, torch.nan), h / one
    if slow:
        first, u = descend(residual, matrix, u, lambda off: (off * one).norm(dim=-1) <= slow)
    u, found, _ = newton(residual, matrix, u)
    return first * one, u * one, found


def rest(system: Dynamics, h: Tensor, p: Tensor) -> Tensor:
    """Return fixed points with their derivatives."""
    return with_derivatives(lambda u: system.residual(u, p), lambda u: at_rest(system, u, p), h)


def _described(system: Dynamics, h: Tensor, p: Tensor, index: Tensor, fixed: Tensor) -> FixedPoints:
    parts = [
        jacobian(system, *part) for part in zip(*(each.split(max(1, TOGETHER // h.shape[-1])) for each in (h, p)), strict=True)
    ]
    matrix = torch.cat(parts)
    if system.delayed is None:
        values, vectors = torch.linalg.eig(matrix)
    else:
        values, vectors = delayed_modes(system.delayed, *parts_at_rest(system, h, p))
    rates, speed = system.growth(values), system.residual(h, p).norm(dim=-1)
    rates = torch.where(rates.abs() <= ROUNDINGS * torch.finfo(h.dtype).eps * values.abs(), 0.0, rates)
    return FixedPoints(h, p, index, matrix, values, vectors, rates, system.period(values), speed, fixed, _unit(system))


@torch.no_grad()
def _unit(system: Dynamics) -> float | None:
    """Return the time constant that all units of a flow share, if they do."""
    if not isinstance(system, Flow) or not isinstance(system.field, VectorField) or system.delayed is not None:
        return None
    try:
        times = timescales(system.field)
    except TypeError:
        return None
    return float(times[0]) if bool(((times - times[0]).abs() <= 1e-6 * times[0]).all()) else None


def distinct(h: Tensor, index: Tensor, tolerance: float, size: Tensor, *, relative: bool = True) -> Tensor:
    """Return which points have none of the same index before them, as near as the tolerance in each unit: (k,)."""
    new = torch.ones(len(h), dtype=torch.bool, device=h.device)
    for k in index.unique():
        mine = (index == k).nonzero()[:, 0]
        points = h[mine]
        close = torch.ones(len(mine), len(mine), dtype=torch.bool, device=h.device)
        for unit, values in enumerate(points.unbind(-1)):  # not all at once, which would take k^2 states
            nearest = near(values, size[unit], tolerance) if relative else tolerance * size[unit]
            close &= (values[:, None] - values).abs() <= nearest
        new[mine] = ~close.tril(-1).any(-1)
    return new


def near(h: Tensor, size: Tensor, tolerance: float) -> Tensor:
    """Return how far from h a unit may be and is at the same point: a share of its value or its size, no less than rounding."""
    return max(tolerance, ROUNDINGS * torch.finfo(h.dtype).eps) * torch.maximum(h.abs(), size)


def check_starts(
    system: Dynamics, starts: Tensor, name: str = "starts", *, one: bool = False, takes_delays: bool = False
) -> None:
    """Check a flow or a map, and finite states of it: (n, state), at least one, or a single (state,)."""
    check_system(system, takes_delays)
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
