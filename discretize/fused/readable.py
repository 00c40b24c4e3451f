r"""A chain as kernels read it: an input whose pieces are polynomials of time, and a clock whose speed is one in each segment.

Held and straight inputs, Hermite's cubics and what straight clocks make of these are such; splines, smooth clocks and
functions of time are so to rounding, with as many terms as it takes.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor

from ctrnn import HeldPath, LinearPath, VectorField
from ctrnn.fields.parts import projects_affinely
from ctrnn.inputs.derived import for_many
from ctrnn.inputs.pieces.polynomial import MOST_TERMS, PolynomialPath, coefficients, nodes, polynomial_of, terms_needed
from ctrnn.inputs.pieces.segment_input import SegmentInput
from discretize.solvers.adaptive import AdaptiveEngine
from discretize.solvers.segments import Chain

__all__ = ["Pieces", "projected_of", "readable", "rows_of_pieces"]

Pieces = HeldPath | LinearPath | PolynomialPath  # what a kernel reads


class _WithProjection(VectorField):
    """A field whose projection is a part of its flow."""

    def __init__(self, field: VectorField) -> None:
        super().__init__(field.input_size, field.hidden_size, field.state_size)
        self.field = field

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(self.field.project(projected), h)


def readable(chain: Chain, engine: AdaptiveEngine, projecting: bool = False) -> Chain | str:
    """The chain so, and the engine begun for it, every sample with steps of its own; or why it cannot be.

    `projecting`: where a projection bends the input, it may become a part of the flow.
    """
    speeds = _speeds(chain)
    if isinstance(speeds, str):
        return speeds
    field, path = chain.field, _projected(chain)
    if isinstance(path, str) and projecting and not isinstance(given := _given(chain), str):
        field, path = _WithProjection(field), given
    if isinstance(path, str):
        return path
    found = copy.copy(chain)
    found.field, found.path, found.speeds = field, SegmentInput(path, chain.path.pieces), speeds
    found.steady, found.own_times = path.steady and chain.speed is None, True
    engine.start(found, chain.driven.batch)
    return found


def projected_of(chain: Chain) -> Pieces:
    """The path through the projected samples, rows (.., batch, columns), of a readable chain."""
    path = chain.path.path
    assert isinstance(path, Pieces)
    return path


def rows_of_pieces(path: Pieces) -> tuple[int, int]:
    """How many rows of its samples a piece reads, and by how many those of the next one begin later."""
    if isinstance(path, PolynomialPath):
        return path.terms, path.terms
    return (1, 1) if isinstance(path, HeldPath) else (2, 1)


def _projected(chain: Chain) -> Pieces | str:
    """Of the projected input: as it is, or of the input, and then projected, which keeps the weights' gradients."""
    path = polynomial_of(chain.path.path)
    if not isinstance(path, str):
        return path
    given = _given(chain)
    if isinstance(given, str):
        return given
    return given.map(chain.field.project, True) if projects_affinely(chain.field) else path  # type: ignore[return-value]


def _given(chain: Chain) -> Pieces | str:
    return polynomial_of(for_many(chain.driven.path, chain.driven.batch))


def _speeds(chain: Chain) -> np.ndarray | str | None:
    if chain.speed is None:
        return None
    if _speeds_at(chain, nodes(1)).requires_grad:
        return "gradients to the clock's `speed` are wanted"
    with torch.no_grad():
        rounding = torch.full((len(chain),), 16 * torch.finfo(torch.float64).eps)
        terms = terms_needed(lambda count: _speeds_at(chain, nodes(count))[..., None], rounding)
        if terms is None:
            return f"the clock's `speed` is no polynomial of {MOST_TERMS} terms, to rounding, between the times of this solve"
        found = coefficients(_speeds_at(chain, nodes(terms)))
    found = found.movedim(1, -1)
    return np.ascontiguousarray((found if chain.own else found[:, 0]).numpy())


def _speeds_at(chain: Chain, shares: Tensor) -> Tensor:
    """c' at these shares of each segment: (segments, shares, 1), or (segments, shares, batch)."""
    assert chain.speed is not None
    edges = chain.edges.detach() if chain.own else chain.edges.detach()[:, None]
    t = edges[:-1, None] + edges.diff(dim=0)[:, None] * shares[:, None]
    pieces = chain.speed.pieces if chain.speed.pieces.dim() > 1 else chain.speed.pieces[:, None]
    k = pieces[:, None].expand_as(t)
    path = chain.speed.path
    return path.evaluate(path.gather(k.flatten()), t.flatten()).reshape(t.shape).double()
