r"""Convert a chain to what kernels read: an input and a clock's speed that are polynomials of time in each segment.

Held and straight inputs, Hermite's cubics and what straight clocks make of these are such; splines, smooth clocks and
functions of time are so to rounding, with as many terms as it takes. A clock that is learned becomes a part of the field.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from ctrnn import HeldPath, LinearPath, VectorField
from ctrnn.fields.parts import projects_affinely
from ctrnn.inputs.derived import for_many
from ctrnn.inputs.path import Data, Path
from ctrnn.inputs.polynomial import (
    MOST_COMPARED,
    MOST_TERMS,
    PathError,
    PolynomialPath,
    coefficients,
    name_of,
    nodes,
    path_error,
    polynomial_of,
    seen_by_steps,
    terms_needed,
)
from ctrnn.inputs.segment_input import SegmentInput
from discretize.solvers.adaptive import AdaptiveEngine
from discretize.solvers.control import StepControl
from discretize.solvers.past import PastPath
from discretize.solvers.segments import Chain

__all__ = ["Pieces", "projected_of", "readable", "reads_samples", "rows_of_pieces"]

Pieces = HeldPath | LinearPath | PolynomialPath  # what a kernel reads
OF_CLOCK = "a clock's `speed`", "knots or requested times"  # of a function, which has no knots, its pieces end at these


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
    control = engine.control
    if isinstance(chain.driven.path, PastPath):
        found = _with_past(chain, chain.driven.path, control)
    elif _learns_its_clock(chain):
        found = _clocked(chain) if any_flow else "gradients to knots, or to the clock's `speed`, are wanted"
    else:
        found = _in_pieces(chain, any_flow, control)
    if not isinstance(found, str):
        found.own_times = True
        engine.start(found, chain.driven.batch)
    return found


def _in_pieces(chain: Chain, any_flow: bool, control: StepControl) -> Chain | str:
    """The pieces of its input and of its clock as polynomials."""
    speeds = _speeds(chain, control)
    if isinstance(speeds, str):
        return speeds
    field, path = chain.field, _projected(chain, control)
    if isinstance(path, str) and any_flow and not isinstance(given := _given(chain, control), str):
        field, path = _WithProjection(field), given
    if isinstance(path, str):
        return path
    found = copy.copy(chain)
    found.field, found.path, found.speeds = field, SegmentInput(path, chain.path.pieces), speeds
    found.steady = path.steady and chain.speed is None
    return found


def _with_past(chain: Chain, path: PastPath, control: StepControl) -> Chain | str:
    """x as polynomials, and beside it what is seen of the past."""
    if _learns_its_clock(chain):
        return "gradients to the clock's `speed` are wanted, and delays"
    x = _compared(path.polynomial, path.path, chain, control)  # type: ignore[arg-type]
    speeds, seen = _speeds(chain, control), path.seen_in(chain.path.pieces, chain.edges[:-1].detach().numpy())
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


def _projected(chain: Chain, control: StepControl) -> Pieces | str:
    """Return the projected input as polynomials.

    A function of time becomes polynomials before it is projected, where that gives the same: it has fewer numbers, and weights
    keep their gradients.
    """
    path = chain.path.path
    if path.degree is not None or not projects_affinely(chain.field):
        return _compared(polynomial_of(path), path, chain, control)
    given = _given(chain, control)
    return given if isinstance(given, str) else given.map(chain.field.project, True)  # type: ignore[return-value]


def _given(chain: Chain, control: StepControl) -> Pieces | str:
    path = for_many(chain.driven.path, chain.driven.batch)
    return _compared(polynomial_of(path), path, chain, control)


def _compared(polynomial: Pieces | str, path: Path, chain: Chain, control: StepControl) -> Pieces | str:
    """Return a path's polynomials, or a reason if they differ from it at times at which steps would read it."""
    if isinstance(polynomial, str) or polynomial is path or path.degree is not None:
        return polynomial
    times, name = _seen(chain.edges, path, control), f"a {name_of(path)}"
    if times is None:
        return _too_many(name, control)
    error = path_error(polynomial, path, times, control.rtol)
    return polynomial if error is None else _no_polynomial(name, "knots", error)


def _too_many(name: str, control: StepControl) -> str:
    return (
        f"{name} would be read at more than {MOST_COMPARED} times: steps of at most {control.max_step:g} are short for this solve"
    )


def _no_polynomial(name: str, knots: str, error: PathError | None) -> str:
    off = "do not give it to rounding" if error is None else f"are off by {error}"
    return (
        f"kernels read {name} as polynomials of up to {MOST_TERMS} terms between its {knots}, which {off}; {knots} where it "
        "changes fast, or by powers of ten, would make its pieces shorter"
    )


def _seen(edges: Tensor, path: Path, control: StepControl) -> Tensor | None:
    """Return the times of `seen_by_steps`.

    Sequences that share the knots of a path have their times joined: of those that are closer than times of one sequence, to a
    factor of two, one is kept.
    """
    times = seen_by_steps(edges, control.max_step, control.rtol)
    if times is None or times.dim() == 1 or path.knots.dim() > 1:
        return times
    apart = torch.cat([times.diff(dim=0), times[-1:] - times[-2:-1]])
    times, apart = times[apart > 0], apart[apart > 0]
    octaves = torch.floor(torch.log2(apart))
    cells = torch.stack([octaves, torch.floor(times / 2**octaves)])
    return times[torch.from_numpy(np.unique(cells.numpy(), axis=1, return_index=True)[1])]


def _speeds(chain: Chain, control: StepControl) -> np.ndarray | str | None:
    if chain.speed is None:
        return None
    with torch.no_grad():
        rounding = torch.full((len(chain),), 16 * torch.finfo(torch.float64).eps, device="cpu")
        terms = terms_needed(lambda count: _speeds_at(chain, nodes(count))[..., None], rounding)
        if terms is None:
            return _no_polynomial(*OF_CLOCK, None)
        found = coefficients(_speeds_at(chain, nodes(terms)))
        if isinstance(reason := _compared_speeds(found, chain, control), str):
            return reason
    found = found.movedim(1, -1)
    return np.ascontiguousarray((found if chain.own else found[:, 0]).numpy())


class _SegmentSpeed:
    """The speed of a clock by the number of a segment."""

    def __init__(self, speed: SegmentInput, edges: Tensor) -> None:
        self.speed, self.knots = speed, edges

    def gather(self, k: Tensor) -> tuple[Tensor]:
        pieces = self.speed.pieces
        return (pieces.gather(0, k) if pieces.dim() > 1 else pieces[k],)

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        path, (pieces,) = self.speed.path, data
        found = path.evaluate(path.gather(pieces.flatten()), t.flatten()).double()
        return found.reshape(*pieces.shape, 1) if pieces.dim() > 1 else found.reshape(-1, 1, 1)


def _compared_speeds(found: Tensor, chain: Chain, control: StepControl) -> str | None:
    """Return why (segments, terms, batch) coefficients do not give the speeds at times at which steps would read them."""
    assert chain.speed is not None
    if chain.speed.path.degree is not None:
        return None
    edges, times = chain.edges.detach(), seen_by_steps(chain.edges, control.max_step, control.rtol)
    if times is None:
        return _too_many(OF_CLOCK[0], control)
    polynomial = PolynomialPath.unchecked(found.flatten(0, 1)[..., None], edges)
    error = path_error(polynomial, _SegmentSpeed(chain.speed, edges), times, control.rtol)
    return None if error is None else _no_polynomial(*OF_CLOCK, error)


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
