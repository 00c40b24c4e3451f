r"""Lyapunov exponents: the mean rates at which small differences grow, by QR along a trajectory.

    Q R = (the derivative of an interval) Q        exponents = mean of log |R_ii| over all intervals, by their length

An interval is one application of a map, or a stretch of time of a flow, solved with its tangents. Standard errors are those of
means over blocks of intervals: neighbouring intervals are alike, distant blocks are not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ctrnn import HeldPath, VectorField, checks
from ctrnn.fields.field import check_input
from discretize.analysis.dynamics.fixed_points import check_starts
from discretize.analysis.dynamics.sizes import powers_of_two, sizes
from discretize.analysis.dynamics.systems import Dynamics, Flow, check_no_noise_in, derivative
from discretize.errors import warn_user
from discretize.progress import progress_bar
from discretize.solve import integrate

__all__ = ["LyapunovSpectrum", "lyapunov"]

BLOCKS = 16
PATIENCE = 60.0  # seconds
ABSOLUTE = 0.01  # tolerance, of rtol, in sizes of units
Interval = Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class LyapunovSpectrum:
    r"""Exponents, the largest first, per application of a map or per unit of time of a flow.

    `errors`: their standard errors, from means over blocks of the run; `h`: the states at the end. A run that left all bounds
    has nan. An exponent is -inf, and its error nan, along what a map sends to one point, as a relu that is off does.

    Shape:   exponents and errors (n, count), h (n, state).
    """

    exponents: Tensor
    errors: Tensor
    h: Tensor

    @property
    def dimension(self) -> Tensor:
        """(n,): Kaplan and Yorke's, j + (l_1 + ... + l_j) / |l_(j + 1)|, j the most exponents whose sum is not negative; nan
        where `count` left out those that it needs."""
        sums = self.exponents.cumsum(-1)
        j = (sums >= 0).sum(-1)
        inside = (j > 0) & (j < self.exponents.shape[-1])
        unknown = sums[..., -1].isnan() | (sums[..., -1] >= 0) & (self.exponents.shape[-1] < self.h.shape[-1])
        last = (j - 1).clamp(min=0).unsqueeze(-1)
        following = self.exponents.gather(-1, j.clamp(max=self.exponents.shape[-1] - 1).unsqueeze(-1)).abs()
        sums_to = torch.where(inside, j + (sums.gather(-1, last) / following).squeeze(-1), j.to(sums.dtype))
        return sums_to.masked_fill(unknown, torch.nan)


@torch.no_grad()
def lyapunov(
    system: Dynamics,
    h0: Tensor,
    p: Tensor | float | None = None,
    *,
    intervals: int | None = None,
    xs: Tensor | None = None,
    transient: int | None = None,
    count: int | None = None,
    interval: float = 1.0,
    rtol: float = 1e-6,
    atol: float | Tensor | None = None,
    progress: bool = False,
) -> LyapunovSpectrum:
    r"""Compute the Lyapunov exponents along the trajectories from h0, all at once.

    Differences are measured in sizes of the units, the medians of |h_i| over h0 to a power of two, or as `fixed_points` has them
    where that is 0. Fewer exponents than units begin with directions drawn once for all, so that none is missed that the first
    units do not feel.

        >>> logistic = discretize.Map(lambda r, h: r * h * (1 - h))
        >>> bool(lyapunov(logistic, torch.tensor([[0.2]]), 4.0, intervals=200).exponents[0, 0] > 0.6)  # log 2
        True

    Args:    system: a `Flow` or `Map`; p: its parameter, one or one for each; intervals: how many are averaged, at
             least 16; xs: inputs, held for an interval each, in place of the system's own: a driven trajectory; transient:
             intervals before the first that counts, a tenth of all if not given; count: how many exponents, all if not given;
             interval: of a flow, the time until its tangents are made orthonormal again; rtol, atol: of its solves, atol a
             number or (state,), a hundredth of rtol, of the size of each unit, if not given, and for tangents; progress:
             a bar of the intervals.
    Shape:   h0 (n, state), xs (time, n, input) or (time, 1, input) -> a `LyapunovSpectrum`.
    Raises:  TypeError, ValueError for what does not fit; SolverError where a flow cannot be solved. Warns, after two intervals,
             of a run that will take more than a minute, and says how long.
    Source:  Benettin, Galgani, Giorgilli and Strelcyn 1980, Lyapunov characteristic exponents, part 2, Meccanica 15.
    """
    check_starts(system, h0, "h0")
    check_no_noise_in(system, "lyapunov")
    if (intervals is None) == (xs is None):
        raise ValueError("Give `intervals`, how many are averaged, or `xs`, whose inputs are read one an interval.")
    given = checks.positive_size("intervals", intervals) if xs is None else _inputs(system, xs, len(h0))  # type: ignore[arg-type]
    before = given // 10 if transient is None else checks.size("transient", transient)
    total = given + before if xs is None else given
    if total - before < BLOCKS:
        raise ValueError(f"{total - before} intervals are left to average; give at least {BLOCKS}.")
    units = h0.shape[-1]
    k = units if count is None else min(checks.positive_size("count", count), units)
    length = checks.positive_number("interval", interval) if isinstance(system, Flow) else 1.0
    one = powers_of_two(sizes(system, h0, p))
    of_flow = partial(_solved, length=length, rtol=rtol, atol=atol)
    over = (of_flow if isinstance(system, Flow) else _stepped)(_InSizes(system, one), p)
    h, Q = h0 / one, _first_directions(units, k).to(h0).repeat(len(h0), 1, 1)
    logs = []
    began = 0.0
    with progress_bar("lyapunov", progress, total, "interval") as show:
        for n in range(total):
            if n == 1:  # what is loaded at the first is over
                began = time.perf_counter()
            if n == 2:
                _say_cost(time.perf_counter() - began, total, k, units)
            h, moved = over(h, Q, None if xs is None else xs[n])
            Q, stretched = _orthonormal(moved)
            if n >= before:
                logs.append(stretched.log() / length)
            show(n + 1)
    return _averaged(torch.stack(logs), h * one)


class _InSizes:
    """A system whose states are counted in sizes of their units."""

    def __init__(self, system: Dynamics, one: Tensor) -> None:
        self.system, self.one = system, one

    def __call__(self, u: Tensor, p: Tensor, x: Tensor | None) -> Tensor:
        return self.system(u * self.one, p, x) / self.one

    def parameter(self, u: Tensor, p: Tensor | float | None) -> Tensor:
        return self.system.parameter(u, p)


def _first_directions(units: int, count: int) -> Tensor:
    if count == units:
        return torch.eye(units, dtype=torch.float64)
    dice = torch.Generator().manual_seed(0)
    return torch.linalg.qr(torch.randn(units, count, dtype=torch.float64, generator=dice, device="cpu"))[0]


def _say_cost(seconds: float, total: int, count: int, units: int) -> None:
    if seconds * total > PATIENCE:
        less = f"; `count=1`, for the largest, takes about 1/{count} of that" if count > 1 else ""
        warn_user(
            f"{count} of {units} exponents over {total} intervals will take about {seconds * total:.0f} s here{less}. Fewer "
            "`intervals`, larger `rtol` and `atol`, and a `Map` in place of a flow are faster too.",
            UserWarning,
        )


def _inputs(system: Dynamics, xs: Tensor, samples: int) -> int:
    """Check the inputs, one an interval, and count them."""
    if isinstance(system.field, VectorField):
        check_input(system.field, xs, "xs")
    if checks.is_tensor("xs", xs).dim() != 3 or xs.shape[1] not in (1, samples):
        raise ValueError(f"`xs` must be (time, {samples}, input) or (time, 1, input), got shape {tuple(xs.shape)}.")
    checks.is_finite("xs", xs)
    return len(xs)


def _averaged(rates: Tensor, h: Tensor) -> LyapunovSpectrum:
    blocks = torch.stack([block.mean(0) for block in rates.tensor_split(BLOCKS)])
    exponents, errors = rates.mean(0), blocks.std(0) / math.sqrt(BLOCKS)
    order = exponents.argsort(-1, descending=True)
    lost = ~torch.isfinite(h).all(-1, keepdim=True)
    return LyapunovSpectrum(exponents.gather(-1, order).masked_fill(lost, torch.nan), errors.gather(-1, order), h)


def _orthonormal(moved: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q and |R_ii|."""
    if moved.shape[-1] == 1:  # without LAPACK, which takes its matrices one by one
        size = moved.norm(dim=-2, keepdim=True)
        anywhere = torch.full_like(moved, moved.shape[-2] ** -0.5)  # where nothing is left, as a matrix of zeros has a Q
        return torch.where(size == 0, anywhere, moved / size), size[..., 0]
    Q, R = torch.linalg.qr(moved)
    return Q, R.diagonal(dim1=-2, dim2=-1).abs()


def _stepped(system: _InSizes, p: Tensor | float | None) -> Interval:
    def over(h: Tensor, Q: Tensor, x: Tensor | None) -> tuple[Tensor, Tensor]:
        return _pushed(system, h, Q, p, x)

    return over


def _pushed(system: _InSizes, h: Tensor, Q: Tensor, p: Tensor | float | None, x: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the system at h, and its derivatives along the columns of Q."""
    k = Q.shape[-1]
    at = system.parameter(h, p).repeat(k)
    given = None if x is None else x.expand(len(h), x.shape[-1]).repeat(k, 1)
    return derivative(lambda u: system(u, at, given), h, Q)


def _solved(system: _InSizes, p: Tensor | float | None, length: float, rtol: float, atol: float | Tensor | None) -> Interval:
    one = system.one
    of_units = None if atol is None else torch.as_tensor(atol, dtype=one.dtype).to(one) / one

    def over(h: Tensor, Q: Tensor, x: Tensor | None) -> tuple[Tensor, Tensor]:
        units, at = h.shape[-1], system.parameter(h, p).unsqueeze(-1)
        given = at if x is None else torch.cat([at, x.expand(len(h), x.shape[-1])], 1)
        ends = torch.tensor([0.0, length], dtype=h.dtype, device=h.device)
        path, state = HeldPath(given.expand(1, *given.shape), ends), torch.cat([h, Q.flatten(1)], 1)
        least = ABSOLUTE * rtol  # one number, as kernels take it
        tolerances = least if of_units is None else torch.cat([of_units, torch.full_like(Q[0].flatten(), least)])
        field = _Variational(system, given.shape[1], *Q.shape[1:])
        end = integrate(field, path, state, ends, rtol=rtol, atol=tolerances).hs[-1]
        return end[:, :units], end[:, units:].reshape(Q.shape)

    return over


class _Variational(VectorField):
    """A flow and its derivatives along the columns of Q; its input is the flow's parameter, then its own if it has any."""

    def __init__(self, system: _InSizes, inputs: int, units: int, count: int) -> None:
        super().__init__(inputs, units * (1 + count))
        self.system, self.units, self.count = system, units, count

    def flow(self, given: Tensor, state: Tensor) -> Tensor:
        h, Q = state[:, : self.units], state[:, self.units :].unflatten(-1, (self.units, self.count))
        x = given[:, 1:] if given.shape[-1] > 1 else None
        slope, along = _pushed(self.system, h, Q, given[:, 0], x)
        return torch.cat([slope, along.flatten(1)], 1)
