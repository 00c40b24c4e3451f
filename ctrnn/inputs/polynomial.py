"""Paths whose pieces are polynomials of time, and any smooth path as one of these, to rounding.

    x(t) = sum_d c_kd T_d(2 s - 1),      s = (t - t_k) / (t_{k+1} - t_k),      T_d Chebyshev's polynomials

The coefficients of a piece are those of the polynomial through its values at Chebyshev's nodes: exact for a polynomial of
that degree, and for a smooth function as good as its last coefficients are small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.inputs.held import HeldPath
from ctrnn.inputs.interpolated import LinearPath
from ctrnn.inputs.path import Data, MappedPath, Path, across, piece_numbers
from ctrnn.inputs.samples import SampledPath, ends_of, rows_of
from ctrnn.own_code import computes_as

__all__ = [
    "MOST_COMPARED",
    "MOST_TERMS",
    "PathError",
    "PolynomialPath",
    "coefficients",
    "name_of",
    "nodes",
    "path_error",
    "polynomial_of",
    "seen_by_steps",
    "terms_needed",
]

MOST_TERMS = 32  # from here on a piece is not taken for a polynomial
MOST_COMPARED = 1 << 20  # times of a solve, to tell whether a path is a polynomial there
TIMES_AT_ONCE = 512  # of these
SPARE = 2  # coefficients beyond the last that matters, by which a polynomial is known
ROUNDING = 16  # times what a float leaves out
AT_ENDS = 4  # times that, where a polynomial is evaluated near the ends of a piece
COARSE, FINEST = 1e-3, 1e-9  # tolerances: from where on steps shorten, and until where times of comparison follow them
STEPS_ORDER = 5  # of the methods whose steps shorten so


class PolynomialPath(SampledPath):
    r"""Pieces that are polynomials, `terms` coefficients each, those of piece k the rows from k terms on.

    Shape:   xs (pieces terms, batch, feature), knots (pieces + 1,) or (pieces + 1, batch).
    Source:  Trefethen 2013, "Approximation theory and approximation practice", ch. 3.
    """

    def _set(self, xs: Tensor, knots: Tensor) -> None:
        super()._set(xs, knots)
        self.terms: int = len(xs) // (len(knots) - 1)
        self.degree: int = self.terms - 1

    @classmethod
    def highest(cls, knots: Tensor, degree: int) -> Self:
        """Return T_degree on each piece, one feature, in float64."""
        basis = torch.eye(degree + 1, dtype=torch.float64, device="cpu")[:, degree]
        return cls.unchecked(basis.repeat(len(knots) - 1)[:, None, None], knots.detach())

    def gather(self, k: int | Tensor) -> Data:
        first = torch.as_tensor(k, device="cpu") * self.terms
        return *(rows_of(self.xs, first + d) for d in range(self.terms)), *ends_of(self, k)

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        *found, start, end = data
        share, _ = LinearPath.share((start, end), t)
        z, low, high = 2 * share - 1, torch.ones_like(share), 2 * share - 1  # T_0 and T_1 there
        total = found[0]
        for coefficient in found[1:]:
            total = total + across(high, coefficient) * coefficient
            low, high = high, 2 * z * high - low
        return total

    def differentiate(self, data: Data, t: Tensor) -> Tensor:
        *found, start, end = data
        share, width = LinearPath.share((start, end), t)
        z, low, high = 2 * share - 1, torch.zeros_like(share), torch.ones_like(share)  # of the second kind: T_d' = d U_(d-1)
        total = torch.zeros_like(found[0])
        for d, coefficient in enumerate(found[1:], 1):
            total = total + across(2 * d / width * high, coefficient) * coefficient
            low, high = high, 2 * z * high - low
        return total

    def map(self, f: Callable[[Tensor], Tensor], affine: bool = False) -> Path:
        if not affine:
            return MappedPath(self, f)
        # A x + b: b goes to the mean alone.
        mapped, offset = f(self.xs), f(torch.zeros_like(self.xs[:1]))
        later = (torch.arange(len(self.xs), device=self.xs.device) % self.terms > 0)[:, None, None]
        return self.unchecked(torch.where(later, mapped - offset, mapped), self.knots)


def polynomial_of(path: Path) -> HeldPath | LinearPath | PolynomialPath | str:
    """Convert a path to pieces that are polynomials, to rounding; or return why that is impossible."""
    if isinstance(path, HeldPath | LinearPath | PolynomialPath) and computes_as(path, HeldPath, LinearPath, PolynomialPath):
        return path
    terms = path.degree + 1 if path.degree is not None else _terms(path)
    if isinstance(terms, str):
        return terms
    polynomial = coefficients(_values(path, terms))
    return (HeldPath if terms == 1 else PolynomialPath).unchecked(polynomial.flatten(0, 1), path.knots)


def seen_by_steps(edges: Tensor, longest: float, rtol: float = COARSE) -> Tensor | None:
    """Return times in each segment, both ends among them; None if there would be more than `MOST_COMPARED`.

    They are no further apart than half of the segment, half of the longest step, and a `MOST_TERMS`th of all segments; where rtol
    is smaller than 1e-3 by as much less as steps of order 5 are shorter.

    Shape:   edges (segments + 1,) or (segments + 1, batch) -> (n,) or (n, batch).
    """
    edges = edges.detach()
    lengths = edges.diff(dim=0)
    shorter = min(max(rtol, FINEST) / COARSE, 1.0) ** (1 / STEPS_ORDER)
    finest = min(longest / 2, float(lengths.sum(0).max()) * shorter / MOST_TERMS)
    counts = torch.ceil(lengths.reshape(len(lengths), -1).amax(1) / finest).clamp(min=2)
    if float(counts.sum()) > MOST_COMPARED:
        return None
    counts = counts.long()
    of = torch.arange(len(lengths), device="cpu").repeat_interleave(counts)
    within = torch.arange(len(of), device="cpu") - (counts.cumsum(0) - counts)[of]
    share = within / counts[of]
    return torch.cat([edges[of] + lengths[of] * (share[:, None] if edges.dim() > 1 else share), edges[-1:]])


class PiecewiseFunction(Protocol):
    """Evaluates a function of time piece by piece: a path, or the speed of a clock."""

    @property
    def knots(self) -> Tensor: ...
    def gather(self, k: Tensor, /) -> Data: ...
    def evaluate(self, data: Data, t: Tensor, /) -> Tensor: ...


class PathError(NamedTuple):
    """Says at which time a path differs from its polynomials, by how much, and which difference is allowed there."""

    time: float
    difference: float
    allowed: float

    def __str__(self) -> str:
        return f"{self.difference:.2g} at t = {self.time:.6g}, where {self.allowed:.2g} would be rounding"


def path_error(polynomial: Path, path: PiecewiseFunction, times: Tensor, rtol: float = 0.0) -> PathError | None:
    """Return where a path differs from a polynomial that was made of it, of times (n,) or (n, batch); None if nowhere.

    It may by rounding of what is largest on a piece; and, where the path grows or falls, as an exponential does, by rtol of
    what is largest until half a piece later, and from half a piece earlier on: solutions may be as small as it is.
    """
    with torch.no_grad():
        values = _values(polynomial, MOST_TERMS + 1).flip(1).abs()  # in order of time
        rounding = AT_ENDS * checks.time_on(_rounding(path), values.device)[:, None, None].to(values)
        largest = values.amax(1)
        allowed = torch.maximum(rounding * largest, torch.finfo(values.dtype).eps * largest.amax(0))
        until, since = values.flatten(0, 1).cummax(0).values, values.flatten(0, 1).flip(0).cummax(0).values.flip(0)
        for t in times.split(TIMES_AT_ONCE):
            k, at = piece_numbers(path.knots.detach(), t), t[..., None] if t.dim() > 1 else t
            off = (polynomial.evaluate(polynomial.gather(k), at) - path.evaluate(path.gather(k), at)).abs()
            start, end = (rows_of(path.knots.detach(), ends).reshape(k.shape) for ends in (k, k + 1))
            before = torch.searchsorted(nodes(values.shape[1]).flip(0), LinearPath.share((start, end), t)[0].contiguous())
            later = k * values.shape[1] + before + MOST_TERMS // 2
            near = rows_of(until, later.clamp(max=len(until) - 1))
            near = torch.minimum(near, rows_of(since, (later - 1 - 2 * (MOST_TERMS // 2)).clamp(min=0)))
            changing = rows_of(rounding.expand_as(allowed), k).clamp(min=rtol / 8) * near
            most = torch.minimum(rows_of(allowed, k), changing).expand_as(off)
            if not bool((off <= most).all()):
                return _worst(off, most, t)
    return None


def _worst(off: Tensor, most: Tensor, t: Tensor) -> PathError:
    share = torch.where(off <= most, 0.0, (off / most).nan_to_num(math.inf, math.inf))
    place = int(share.argmax())
    times = t if t.dim() > 1 else t[:, None]
    time = times[..., None].expand(len(off), -1, off.shape[-1]).expand_as(off)
    return PathError(*(float(x.reshape(-1)[place]) for x in (time, off, most)))


def nodes(terms: int) -> Tensor:
    """Return Chebyshev's nodes as shares of a piece: (terms,), float64."""
    return (1 + torch.cos(math.pi * (torch.arange(terms, dtype=torch.float64, device="cpu") + 0.5) / terms)) / 2


def coefficients(values: Tensor) -> Tensor:
    """Return the coefficients of the polynomials through values at the nodes: (pieces, terms, ...) -> (pieces, terms, ...)."""
    terms = values.shape[1]
    angles = math.pi * (torch.arange(terms, dtype=torch.float64, device="cpu") + 0.5) / terms
    basis = torch.cos(torch.arange(terms, dtype=torch.float64, device="cpu")[:, None] * angles) * 2 / terms
    basis[0] /= 2
    return torch.einsum("dn,pn...->pd...", basis.to(values), values)


def terms_needed(values: Callable[[int], Tensor], rounding: Tensor) -> int | None:
    """Count the terms that give a function to rounding, (pieces,), of each sample's largest values; None: too many.

    `values` at so many nodes: (pieces, nodes, batch, feature).
    """
    for count in (8, 16, MOST_TERMS):
        sizes = coefficients(values(count)).abs()
        least = checks.time_on(rounding, sizes.device)[:, None, None, None] * sizes.amax((0, 1))
        matter = (sizes > least).transpose(0, 1).flatten(1).any(1).nonzero()
        terms = int(matter.max()) + 1 if len(matter) else 1
        if terms + SPARE <= count:
            return terms
    return None


def name_of(path: Path) -> str:
    """Return the class of the path that a user made, of one that was made of it for a solve."""
    while (type(path).__name__.startswith("_") or isinstance(path, MappedPath)) and hasattr(path, "path"):
        path = path.path
    return type(path).__name__


def _terms(path: Path) -> int | str:
    probe = path.probe()
    if _values(probe, 1).requires_grad:
        return f"gradients are wanted through a {name_of(path)}, whose pieces are no known polynomials"
    with torch.no_grad():
        terms = terms_needed(lambda count: _values(probe, count), _rounding(path))
    return terms or (
        f"kernels read a {name_of(path)} as polynomials of up to {MOST_TERMS} terms between its knots, which do not give it to "
        "rounding; knots where it changes fast would make its pieces shorter"
    )


def _rounding(path: PiecewiseFunction) -> Tensor:
    """Bound the rounding of the values on each piece, and of the times in it: (pieces,)."""
    knots = path.knots.detach().reshape(len(path.knots), -1)
    widths = knots.diff(dim=0)
    late = torch.maximum(knots[1:].abs(), knots[:-1].abs()) / torch.where(widths > 0, widths, math.inf)
    return ROUNDING * (torch.finfo(_values(path, 1).dtype).eps + torch.finfo(torch.float64).eps * late.amax(1))


def _values(path: PiecewiseFunction, count: int) -> Tensor:
    """Evaluate a path at the nodes of each piece: (pieces, count, batch, feature)."""
    pieces = len(path.knots) - 1
    k = torch.arange(pieces, device="cpu").repeat_interleave(count)
    starts, widths = path.knots[:-1].detach(), path.knots.detach().diff(dim=0)
    shares = checks.time_on(nodes(count), starts.device)
    if starts.dim() > 1:
        t = (starts[:, None] + widths[:, None] * shares[:, None]).flatten(0, 1)[..., None]
        k = k[:, None].expand(-1, starts.shape[1])
    else:
        t = (starts[:, None] + widths[:, None] * shares).flatten()
    return path.evaluate(path.gather(k), t).unflatten(0, (pieces, count))
