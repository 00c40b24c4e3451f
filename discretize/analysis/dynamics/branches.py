r"""Branches of fixed points over a parameter, by continuation along their arc length, with their bifurcations.

    r(h, p) = 0,   t . (u - u_k) = s       u = (h, p), t the unit tangent at u_k, s the length of the step
    fold, branch point                     lambda = 0 of a flow, 1 of a map; at a fold p turns back
    Hopf                                   a pair of a flow on the imaginary axis
    flip, Neimark-Sacker                   lambda = -1 of a map, a pair on the unit circle

Growth rates in the order of their size are continuous in s, and so a bifurcation is a root of one of them.

Lengths are counted in sizes: of p twenty times the longest step; of a unit its largest |h_i| on the branch so far, or what it
changes by along the first tangent over the size of p, where that is larger. Each equation counts in the largest it has been.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.extras import needed_by
from discretize.analysis.dynamics.fixed_points import as_limits, check_starts
from discretize.analysis.dynamics.roots import ROUNDINGS, correction, newton
from discretize.analysis.dynamics.sizes import sizes
from discretize.analysis.dynamics.systems import Dynamics, derivative, jacobian
from discretize.errors import SolverWarning, warn_user
from discretize.progress import progress_bar

__all__ = ["Bifurcation", "Branch", "continuation"]

EASY, STRAIGHT = 3, 0.9  # iterations of a corrector, and cosine between tangents, below and above which steps grow
MOST_CORRECTIONS, SMALLEST = 8, 1e-8
LONGEST = 0.05  # step, in sizes
DEGENERATE = 1e-6  # smallest singular value, in sizes, of [dr/dh, dr/dp] at a branch point
HALVINGS, UNEVEN = 6, 0.45  # of a step around a root, not in the middle, where by symmetry a branch point may be
SAME = 1e-7  # distance, in sizes, of what passes at one place
REAL = 1e-7  # imaginary part of an eigenvalue that counts as real, relative to its size a step away


@dataclass(frozen=True, eq=False)
class Bifurcation:
    """Where stability changes: its kind, the parameter, the state (state,), and the eigenvalue that passes."""

    kind: str
    p: float
    h: Tensor
    eigenvalue: complex


@dataclass(frozen=True, eq=False)
class Branch:
    """Fixed points along a branch, in order: p (n,), h (n, state), eigenvalues (n, state), growth (n,) of the fastest mode."""

    p: Tensor
    h: Tensor
    eigenvalues: Tensor
    growth: Tensor
    bifurcations: tuple[Bifurcation, ...]

    @property
    def stable(self) -> Tensor:
        """(n,)"""
        return self.growth < 0


@torch.no_grad()
def continuation(
    system: Dynamics,
    h: Tensor,
    p: float,
    limits: tuple[float, float],
    *,
    direction: int = 1,
    step: float = 0.05,
    steps: int = 2000,
    progress: bool = False,
) -> Branch:
    r"""Follow the fixed point near h from p, past folds, until p leaves the limits.

    A step moves p by `step` at most, and a unit by a twentieth of its size at most: of the largest |h_i| so far, or of what it
    changes by along the first tangent while p changes by 20 `step`, where that is larger.

    Args:    system: a `Flow` or `Map` with a parameter; for periodic orbits of a map, its iterate; h, p: where to
             begin; direction: 1 towards larger p, -1 towards smaller; step: the longest step, in units of p; steps: how many
             at most; progress: a bar that counts points.
    Shape:   h (state,).
    Raises:  TypeError, ValueError for what does not fit, and where there is no fixed point near h. Warns, with SolverWarning, of
             a branch that ends within the limits: no further point was found, or all steps were taken.
    Source:  Keller 1977, Numerical solution of bifurcation and nonlinear eigenvalue problems.
    """
    with needed_by("discretize.analysis.continuation"):
        import scipy  # noqa: F401, PLC0415 - asked for here, and not at the first bifurcation
    check_starts(system, h, "h", one=True)
    checks.positive_number("step", step)
    checks.positive_size("steps", steps)
    p, (low, high) = checks.finite_number("p", p), as_limits(limits).tolist()
    if not low <= p <= high or direction not in (1, -1):
        raise ValueError(f"`p` must be within `limits`, and `direction` 1 or -1; got {p}, {limits} and {direction}.")
    curve = _Curve(system, h.detach(), p, step / LONGEST)
    u, found = curve.onto(torch.cat([h, h.new_tensor([p])]) / curve.size, None, 0.0)
    if not found:
        raise ValueError(f"There is no fixed point near `h` at p = {p}; begin at one of `fixed_points`.")
    u = curve.measured(u)
    again, found = curve.onto(u, None, 0.0)  # in sizes that are known now
    u = again if found else u
    point, bifurcations, length, inside = (
        curve.described(u, _towards(curve, u, direction)),
        list[Bifurcation](),
        LONGEST / 4,
        True,
    )
    points = [point]
    stepped: _Point | None = point
    with progress_bar("continuation", progress, unit="point") as show:
        while len(points) <= steps and inside:
            point = curve.grown(point)
            stepped, length = _next(curve, point, length, LONGEST)
            if stepped is None:
                break
            bifurcations += [b for b in _passed(curve, point, stepped) if low <= b.p <= high]
            beyond = not low <= stepped.p <= high
            stepped = _at_the_end(curve, point, stepped, low if stepped.p < low else high) if beyond else stepped
            if stepped is None:
                break
            point, inside = stepped, not beyond
            points.append(point)
            show(len(points))
    if inside:
        why = "no further point was found" if stepped is None else f"`steps`={steps} were taken"
        warn_user(f"The branch ends at p = {point.p:.6g}, within the limits {low:g} and {high:g}: {why}.", SolverWarning)
    us, values = torch.stack([point.at for point in points]), torch.stack([point.eigenvalues for point in points])
    return Branch(us[:, -1], us[:, :-1], values, system.growth(values).amax(-1), tuple(bifurcations))


@dataclass(frozen=True)
class _Point:
    """A point of the branch, (h, p) itself and in sizes, its unit tangent, its eigenvalues and their growth rates, the largest
    first."""

    at: Tensor
    u: Tensor
    tangent: Tensor
    eigenvalues: Tensor
    rates: Tensor

    @property
    def p(self) -> float:
        return float(self.at[-1])

    @property
    def tests(self) -> Tensor:
        """What changes its sign at a bifurcation: the rates, and how fast p moves, which is 0 where it turns."""
        return torch.cat([self.rates, self.tangent[-1:]])


class _Curve:
    """r(h, p) = 0 in u = (h, p), each in its size; each r in the largest that its derivatives have been."""

    def __init__(self, system: Dynamics, h: Tensor, p: float, size_of_p: float) -> None:
        self.system = system
        self.size = torch.cat([sizes(system, h[None], p), h.new_tensor([size_of_p])])
        self.rows = torch.ones_like(h)
        self._weigh(torch.cat([h, h.new_tensor([p])]) / self.size)

    def residual(self, u: Tensor) -> Tensor:
        at = u * self.size
        return self.system.residual(at[:, :-1], at[:, -1]) / self.rows

    def matrix(self, u: Tensor) -> Tensor:
        """Return [dr/dh, dr/dp]: (state + 1,) -> (state, state + 1)."""
        one = torch.eye(len(u), dtype=u.dtype, device=u.device)
        return derivative(self.residual, u[None], one[None])[1][0]

    def measured(self, u: Tensor) -> Tensor:
        """Take the sizes of units from the first point and its tangent; return it in these."""
        slopes = self.matrix(u)
        moved = self.size[:-1] * correction(slopes[None, :, :-1], slopes[None, :, -1])[0].abs()
        largest = torch.maximum((u * self.size)[:-1].abs(), torch.where(torch.isfinite(moved), moved, 0.0))
        # A unit that begins at 0 may stay there: it has a size of its own only above the rounding of what it is computed from.
        terms = slopes[:, :-1].abs() @ u[:-1].abs() + slopes[:, -1].abs()
        inverse = torch.linalg.inv_ex(slopes[:, :-1])[0].abs()
        rounding = ROUNDINGS * torch.finfo(u.dtype).eps * self.size[:-1] * (inverse @ terms)
        known = largest > torch.where(torch.isfinite(rounding), rounding, 0.0)
        self.rows = torch.ones_like(self.rows)  # of other sizes
        return self._resized(u, torch.where(known, largest, self.size[:-1]))

    def grown(self, point: _Point) -> _Point:
        """Return the point in larger sizes, where a unit has become twice as large as its size."""
        h, size = point.at[:-1].abs(), self.size
        if not bool((h > 2 * size[:-1]).any()):
            return point
        u = self._resized(point.u, torch.where(h > 2 * size[:-1], h, size[:-1]))
        return self.described(u, self.tangent(u, point.tangent * size / self.size))

    def _resized(self, u: Tensor, of_units: Tensor) -> Tensor:
        before = self.size
        self.size = torch.cat([of_units, before[-1:]])
        u = u * before / self.size
        self._weigh(u)
        return u

    def _weigh(self, u: Tensor) -> None:
        largest = self.rows * self.matrix(u).norm(dim=-1)
        self.rows = torch.where(self.rows == 1, largest, torch.maximum(self.rows, largest))
        self.rows = torch.where(self.rows > 0, self.rows, 1.0)

    def onto(self, u: Tensor, tangent: Tensor | None, length: float) -> tuple[Tensor, bool]:
        """Find the point of the branch on the plane across the tangent, that far from u; without one, at the same p."""
        across = torch.zeros_like(u) if tangent is None else tangent
        if tangent is None:
            across[-1] = 1.0
        guess = u + length * across

        def off(v: Tensor) -> Tensor:
            return torch.cat([self.residual(v), ((v - guess) @ across)[:, None]], 1)

        def matrix(v: Tensor) -> Tensor:
            return torch.cat([self.matrix(v[0]), across[None]])[None]

        found, solved, self.iterations = newton(off, matrix, guess[None], MOST_CORRECTIONS if tangent is not None else 50)
        return found[0], bool(solved[0])

    def tangent(self, u: Tensor, before: Tensor) -> Tensor:
        """Return the unit tangent that goes on in the direction of the one before."""
        _, _, V = torch.linalg.svd(self.matrix(u))
        return V[-1] if V[-1] @ before >= 0 else -V[-1]

    def described(self, u: Tensor, tangent: Tensor) -> _Point:
        at = u * self.size
        self._weigh(u)
        values = torch.linalg.eigvals(jacobian(self.system, at[:-1], at[-1]))
        rates = self.system.growth(values)
        order = rates.argsort(descending=True)
        return _Point(at, u, tangent, values[order], rates[order])


def _towards(curve: _Curve, u: Tensor, direction: int) -> Tensor:
    across = torch.zeros_like(u)
    across[-1] = direction
    return curve.tangent(u, across)


def _next(curve: _Curve, point: _Point, length: float, longest: float) -> tuple[_Point | None, float]:
    """Return the next point, and the length to try after it; None where even tiny steps fail."""
    while length >= SMALLEST * longest:
        u, found = curve.onto(point.u, point.tangent, length)
        if found:
            tangent = curve.tangent(u, point.tangent)
            straight = float(tangent @ point.tangent)
            if straight > STRAIGHT**2:
                easy = curve.iterations <= EASY + 1 and straight > STRAIGHT
                return curve.described(u, tangent), min(longest, 1.5 * length) if easy else length
        length /= 2
    return None, length


def _passed(curve: _Curve, a: _Point, b: _Point) -> Iterator[Bifurcation]:
    """Find the bifurcations between two neighbouring points, in the order of the branch."""
    roots = [_root(curve, a, b, k) for k in ((a.tests > 0) != (b.tests > 0)).nonzero()[:, 0].tolist()]
    last: Tensor | None = None
    for _, k, point in sorted(roots, key=lambda one: one[:2]):
        if last is None or bool(((point.u - last).abs() > SAME * point.u.abs().clamp(min=1)).any()):  # else the other of a pair
            yield _named(curve, point, k, torch.maximum(a.eigenvalues.abs(), b.eigenvalues.abs()))
        last = point.u


def _root(curve: _Curve, a: _Point, b: _Point, k: int) -> tuple[float, int, _Point]:
    """Return how far along from a the test k is 0, and the point there."""
    start = a
    for _ in range(HALVINGS):
        u, found = curve.onto(a.u, a.tangent, UNEVEN * float((b.u - a.u) @ a.tangent))
        if not found:
            break
        middle = curve.described(u, curve.tangent(u, a.tangent))
        a, b = (middle, b) if (middle.tests[k] > 0) == (a.tests[k] > 0) else (a, middle)
    length = float((b.u - a.u) @ a.tangent)

    def at(share: float) -> _Point:
        guess = _between(a, b, share)
        u, found = curve.onto(guess, a.tangent, 0.0)
        # Where branches cross no correction is well defined, and the cubic is within rounding already.
        near = found and bool((u - guess).norm() <= length**2)
        u = u if near else guess
        return curve.described(u, curve.tangent(u, a.tangent))

    from scipy.optimize import brentq  # noqa: PLC0415 - which other analyses do not need

    point = at(brentq(lambda share: float(at(share).tests[k]), 0.0, 1.0, xtol=1e-14, rtol=1e-14))
    return float((point.u - start.u) @ start.tangent), k, point


def _between(a: _Point, b: _Point, share: float) -> Tensor:
    """Evaluate Hermite's cubic through two points along their tangents."""
    chord = b.u - a.u
    bend = chord.norm() * (share * (1 - share) ** 2 * a.tangent - share**2 * (1 - share) * b.tangent)
    return a.u + share**2 * (3 - 2 * share) * chord + bend


def _named(curve: _Curve, point: _Point, k: int, before: Tensor) -> Bifurcation:
    """Name what passes by its eigenvalue; `before`: the sizes of eigenvalues on both sides."""
    if k == len(point.rates):  # p turns: what passes, or touches, is the mode that is nearest to doing so
        k = int((point.rates.abs() / before).argmin())
    value = complex(point.eigenvalues[k])
    if abs(value.imag) <= REAL * float(before[k]):
        value = complex(value.real)
    kind = curve.system.kind(value)
    if kind == "fold":
        sizes = torch.linalg.svdvals(curve.matrix(point.u))
        kind = "branch point" if sizes[-1] <= DEGENERATE else kind
    return Bifurcation(kind, point.p, point.at[:-1], value)


def _at_the_end(curve: _Curve, inside: _Point, outside: _Point, end: float) -> _Point | None:
    """Return the last point, at the limit of p itself; None where it is not found."""
    share = (end - inside.p) / (outside.p - inside.p)
    u = inside.u + share * (outside.u - inside.u)
    u[-1] = end / curve.size[-1]
    found, solved = curve.onto(u, None, 0.0)
    if not solved:
        return None
    last = curve.described(found, outside.tangent)
    return replace(last, at=torch.cat([last.at[:-1], last.at.new_tensor([end])]))
