r"""Convert a chain to what kernels read: an input and a clock's speed that are polynomials of time in each segment.

Held and straight inputs, Hermite's cubics and what straight clocks make of these are such; splines, smooth clocks and
functions of time are so to rounding, with as many terms as it takes. A clock that is learned becomes a part of the field.
"""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
from torch import Tensor

from ctrnn import HeldPath, LinearPath, VectorField
from ctrnn.fields.parts import projects_affinely
from ctrnn.inputs.derived import for_many
from ctrnn.inputs.path import Path
from ctrnn.inputs.polynomial import (
    MOST_COMPARED,
    MOST_TERMS,
    PolynomialPath,
    coefficients,
    gives,
    nodes,
    polynomial_of,
    terms_needed,
)
from ctrnn.inputs.segment_input import SegmentInput
from discretize.solvers.adaptive import AdaptiveEngine
from discretize.solvers.past import PastPath
from discretize.solvers.segments import Chain

__all__ = ["Pieces", "projected_of", "readable", "reads_samples", "rows_of_pieces"]

Pieces = HeldPath | LinearPath | PolynomialPath  # what a kernel reads
NO_POLYNOMIAL = f"{{}} is no polynomial of {MOST_TERMS} terms between {{}}, at times half as far apart as steps can be"


class _WithProjection(VectorField):
    """A field whose projection is a part of its flow."""

    def __init__(self, field: VectorField) -> None:
        super().__init__(field.input_size, field.hidden_size, field.state_size)
        self.field = field

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(self.field.project(projected), h)


class _Clocked(VectorField):
    """A field on a clock whose speed is the last of its projected inputs."""

    def __init__(self, field: VectorField) -> None:
        super().__init__(field.input_size, field.hidden_size, field.state_size)
        self.field = field

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return projected[..., -1:] * self.field.flow(projected[..., :-1], h)


def readable(chain: Chain, engine: AdaptiveEngine, any_flow: bool = False) -> Chain | str:
    """Convert a chain to polynomial pieces and start its engine; return a reason if that is impossible.

    `any_flow`: a projection that bends the input, and a clock that is learned, may become parts of the flow. Functions of time
    are compared with their polynomials at times half as far apart as steps can be: these would see a pulse between.
    """
    spacing = engine.control.max_step / 2
    if isinstance(chain.driven.path, PastPath):
        found = _with_past(chain, chain.driven.path, spacing)
    elif _learns_its_clock(chain):
        found = _clocked(chain) if any_flow else "gradients to knots, or to the clock's `speed`, are wanted"
    else:
        found = _in_pieces(chain, any_flow, spacing)
    if not isinstance(found, str):
        found.own_times = True
        engine.start(found, chain.driven.batch)
    return found


def _in_pieces(chain: Chain, any_flow: bool, spacing: float) -> Chain | str:
    """The pieces of its input and of its clock as polynomials."""
    speeds = _speeds(chain, spacing)
    if isinstance(speeds, str):
        return speeds
    field, path = chain.field, _projected(chain, spacing)
    if isinstance(path, str) and any_flow and not isinstance(given := _given(chain, spacing), str):
        field, path = _WithProjection(field), given
    if isinstance(path, str):
        return path
    found = copy.copy(chain)
    found.field, found.path, found.speeds = field, SegmentInput(path, chain.path.pieces), speeds
    found.steady = path.steady and chain.speed is None
    return found


def _with_past(chain: Chain, path: PastPath, spacing: float) -> Chain | str:
    """x as polynomials, and beside it what is seen of the past."""
    if _learns_its_clock(chain):
        return "gradients to the clock's `speed` are wanted, and delays"
    x = _compared(path.polynomial, path.path, chain, spacing)  # type: ignore[arg-type]
    speeds, seen = _speeds(chain, spacing), path.seen_in(chain.path.pieces, chain.edges[:-1].detach().numpy())
    if isinstance(speeds, str):
        return speeds
    if isinstance(x, str):
        return x
    if isinstance(seen, str):
        return seen
    found = copy.copy(chain)
    found.path, found.speeds, found.past, found.steady = SegmentInput(x, seen.of_path), speeds, seen, False
    return found


def _learns_its_clock(chain: Chain) -> bool:
    # At the ends of segments, where a straight speed is least: nodes are all inside, and one below 0 is refused.
    speeds = None if chain.speed is None else _speeds_at(chain, torch.tensor([0.0, 1.0], dtype=torch.float64, device="cpu"))
    return chain.differentiable or (speeds is not None and speeds.requires_grad)


def _clocked(chain: Chain) -> Chain | str:
    """Over segments of lengths that nothing learns, by the warp theorem: a segment that grows is one whose clock runs faster.

    Its input and its speed are polynomials in the share of the segment that is over, with the gradients of its ends.
    """
    field, path = chain.field, chain.driven.projected
    if path.degree is None:
        field, path = _WithProjection(field), for_many(chain.driven.path, chain.driven.batch)
    degrees = [each.degree for each in (path, *([chain.speed.path] if chain.speed else []))]
    terms = 1 + max(-1 if degree is None else degree for degree in degrees)
    if None in degrees:
        return "gradients to knots, or to the clock's `speed`, are wanted, and its pieces or the input's are no known polynomials"
    edges = chain.edges if chain.own else chain.edges[:, None]
    lengths = edges.diff(dim=0)[:, None]
    rates = lengths / torch.where(lengths > 0, lengths, 1).detach()
    if chain.speed is not None:
        rates = rates * _speeds_at(chain, nodes(terms))
    xs = _values_at(chain, path, nodes(terms))
    read = torch.cat([xs, rates[..., None].to(xs).expand(*xs.shape[:-1], 1)], -1)
    found, knots = copy.copy(chain), chain.edges.detach()
    kind = HeldPath if terms == 1 else PolynomialPath
    pieces = torch.arange(len(chain), device="cpu")
    pieces = pieces[:, None].expand(-1, chain.driven.batch) if chain.own else pieces
    found.field, found.path = _Clocked(field), SegmentInput(kind.unchecked(coefficients(read).flatten(0, 1), knots), pieces)
    found.edges, found._edges, found.differentiable = knots, {}, False
    found.speed, found.steady = None, terms == 1
    return found


def projected_of(chain: Chain) -> Pieces:
    """The path through the projected samples, rows (.., batch, columns), of a readable chain."""
    path = chain.path.path
    assert isinstance(path, Pieces)
    return path


def reads_samples(chain: Chain) -> bool:
    """Whether the rows of a readable chain are samples, and not coefficients or the speed of a clock."""
    return isinstance(projected_of(chain), HeldPath | LinearPath) and not isinstance(chain.field, _Clocked)


def rows_of_pieces(path: Pieces) -> tuple[int, int]:
    """How many rows of its samples a piece reads, and by how many those of the next one begin later."""
    if isinstance(path, PolynomialPath):
        return path.terms, path.terms
    return (1, 1) if isinstance(path, HeldPath) else (2, 1)


def _projected(chain: Chain, spacing: float) -> Pieces | str:
    """Of the projected input: as it is, or of the input, and then projected, which keeps the weights' gradients."""
    path = _compared(polynomial_of(chain.path.path), chain.path.path, chain, spacing)
    if not isinstance(path, str):
        return path
    given = _given(chain, spacing)
    if isinstance(given, str):
        return given
    return given.map(chain.field.project, True) if projects_affinely(chain.field) else path  # type: ignore[return-value]


def _given(chain: Chain, spacing: float) -> Pieces | str:
    path = for_many(chain.driven.path, chain.driven.batch)
    return _compared(polynomial_of(path), path, chain, spacing)


def _compared(polynomial: Pieces | str, path: Path, chain: Chain, spacing: float) -> Pieces | str:
    """Return a path's polynomials, or that they are not the path at times so far apart, where steps would look at it.

    No step is longer than a segment; of many requested times as many are looked at as may be.
    """
    if isinstance(polynomial, str) or polynomial is path or path.degree is not None:
        return polynomial
    segment, widest = (float(of.detach().diff(dim=0).max()) for of in (chain.edges, path.knots))
    spacing = min(spacing, max(segment / 2, 2 * widest / MOST_COMPARED))
    return polynomial if gives(polynomial, path, spacing) else NO_POLYNOMIAL.format(f"a {type(path).__name__}", "its knots")


def _speeds(chain: Chain, spacing: float) -> np.ndarray | str | None:
    if chain.speed is None:
        return None
    with torch.no_grad():
        rounding = torch.full((len(chain),), 16 * torch.finfo(torch.float64).eps, device="cpu")
        terms = terms_needed(lambda count: _speeds_at(chain, nodes(count))[..., None], rounding)
        if terms is None:
            return f"the clock's `speed` is no polynomial of {MOST_TERMS} terms, to rounding, between the times of this solve"
        found = coefficients(_speeds_at(chain, nodes(terms)))
        if chain.speed.path.degree is None and not math.isinf(spacing) and not _gives_speeds(found, chain, spacing):
            return NO_POLYNOMIAL.format("the clock's `speed`", "the times of this solve")
    found = found.movedim(1, -1)
    return np.ascontiguousarray((found if chain.own else found[:, 0]).numpy())


def _gives_speeds(found: Tensor, chain: Chain, spacing: float) -> bool:
    """Return whether (segments, terms, batch) coefficients give the speeds at times at most so far apart."""
    count = math.ceil(2 * float(chain.edges.detach().diff(dim=0).max()) / spacing)
    if count <= MOST_TERMS:
        return True
    if count > MOST_COMPARED:
        return False
    expected, orders = _speeds_at(chain, nodes(count)), torch.arange(found.shape[1], dtype=torch.float64, device="cpu")
    basis = torch.cos(orders * torch.acos((2 * nodes(count) - 1).clamp(-1, 1))[:, None])
    off = (torch.einsum("nd,pd...->pn...", basis, found) - expected).abs()
    return bool((off <= 1e3 * torch.finfo(torch.float64).eps * expected.abs().amax()).all())


def _speeds_at(chain: Chain, shares: Tensor) -> Tensor:
    """c' at these shares of each segment: (segments, shares, 1), or (segments, shares, batch)."""
    assert chain.speed is not None
    t, path = _times_at(chain, shares), chain.speed.path
    pieces = chain.speed.pieces if chain.speed.pieces.dim() > 1 else chain.speed.pieces[:, None]
    k = pieces[:, None].expand_as(t)
    return path.evaluate(path.gather(k.flatten()), t.flatten()).reshape(t.shape).double()


def _values_at(chain: Chain, path: Path, shares: Tensor) -> Tensor:
    """A path of the chain's pieces there: (segments, shares, batch, feature)."""
    t, pieces = _times_at(chain, shares), chain.path.pieces
    k = pieces.repeat_interleave(len(shares), 0)
    if chain.own:
        k, t = k if k.dim() > 1 else k[:, None].expand(-1, chain.driven.batch), t.flatten(0, 1)[..., None]
    else:
        t = t.flatten()
    return path.evaluate(path.gather(k), t).unflatten(0, (len(chain), len(shares)))


def _times_at(chain: Chain, shares: Tensor) -> Tensor:
    """(segments, shares, 1), or (segments, shares, batch), with the gradients of the segments' ends."""
    edges = chain.edges if chain.own else chain.edges[:, None]
    return edges[:-1, None] + edges.diff(dim=0)[:, None] * shares[:, None]
