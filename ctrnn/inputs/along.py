r"""A path laid along the segments of a solve: row j says which piece every sample reads there.

    at(j, t)        on segment j at time t: one time for all, or (batch, 1), one for each sample
    rows            only these samples, for solvers that go on with some of a batch

Segments follow one another in every sample, but they need not begin or end together: what samples are read when is settled
once, before the solve, and gathered in one go.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from ctrnn.inputs.paths import Path

__all__ = ["Along", "AnyAlong", "HeldAlong", "LinearAlong", "MappedAlong", "Pieces"]

Pieces = list[int] | Tensor  # the piece of each segment: shared by the batch, or (segments, batch)


class Along(ABC):
    r"""x(t) by the number of a segment.

    `steady`: x does not depend on t within a segment. `own_times`: t may be (batch, 1) at no extra cost.

    Shape:   at(j, t, rows): t () or (rows, 1), float64 -> (rows, feature); rows None: all samples.
    Source:  this project.
    """

    steady = False
    own_times = True

    @abstractmethod
    def at(self, j: int, t: Tensor, rows: Tensor | None = None) -> Tensor: ...

    def tensors(self, j: int) -> list[Tensor]:
        """What segment j is made of, as far as it is known: where gradients to the path begin."""
        return []

    def on(self, j: int, tensors: list[Tensor]) -> Along:
        """The path on segment j made of other tensors than `tensors(j)`."""
        return self


def only(x: Tensor, rows: Tensor | None) -> Tensor:
    """The chosen rows of what has one for each sample; what is shared by all stays as it is."""
    return x if rows is None or x.dim() == 0 or len(x) == 1 else x.index_select(0, rows.to(x.device))


def gathered(xs: Tensor, pieces: Pieces, step: int = 0) -> list[Tensor]:
    """Sample `piece + step` of each segment: (time, batch, feature) -> segments times (batch, feature), in one go."""
    if isinstance(pieces, Tensor):
        chosen = (pieces + step).to(xs.device)
        return list(xs[chosen, torch.arange(xs.shape[1], device=xs.device)].unbind(0))
    # Taken apart once: xs[k] in a loop costs a gradient of full size for each k.
    apart = xs.unbind(0)
    return [apart[k + step] for k in pieces]


def placed(knots: Tensor, pieces: Pieces, step: int = 0) -> list[Tensor]:
    """Knot `piece + step` of each segment, () or (batch, 1)."""
    if isinstance(pieces, Tensor):
        chosen = pieces + step
        rows = knots[chosen] if knots.dim() == 1 else knots.gather(0, chosen)
        return list(rows[..., None].unbind(0))
    apart = knots.unbind(0)
    return [apart[k + step] for k in pieces]


class HeldAlong(Along):
    """The sample whose turn it is."""

    steady = True

    def __init__(self, xs: Tensor, pieces: Pieces) -> None:
        self.values = gathered(xs, pieces)

    def at(self, j: int, t: Tensor, rows: Tensor | None = None) -> Tensor:
        return only(self.values[j], rows)

    def tensors(self, j: int) -> list[Tensor]:
        return [self.values[j]]

    def on(self, j: int, tensors: list[Tensor]) -> Along:
        return changed(self, values={j: tensors[0]})


class LinearAlong(Along):
    """Straight from the sample at the piece's start to the one at its end."""

    def __init__(self, xs: Tensor, knots: Tensor, pieces: Pieces) -> None:
        self.left, self.right = gathered(xs, pieces), gathered(xs, pieces, 1)
        self.start, self.end = placed(knots, pieces), placed(knots, pieces, 1)

    def share(self, j: int, t: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor]:
        """How far t is through the piece, as a share of its width; and the width."""
        start, end = only(self.start[j], rows), only(self.end[j], rows)
        width = end - start
        # A sequence that is over stands in a piece of no width.
        width = torch.where(width > 0, width, 1.0)
        return (t - start.to(t.device)) / width.to(t.device), width

    def at(self, j: int, t: Tensor, rows: Tensor | None = None) -> Tensor:
        left, right = only(self.left[j], rows), only(self.right[j], rows)
        # In float64 until here: a float32 time of 1e4 knows its place in a unit piece to three digits only.
        weight, _ = self.share(j, t, rows)
        return torch.lerp(left, right, over(weight, left))

    def tensors(self, j: int) -> list[Tensor]:
        return [self.left[j], self.right[j]]

    def on(self, j: int, tensors: list[Tensor]) -> Along:
        return changed(self, left={j: tensors[0]}, right={j: tensors[1]})


def changed(along: Along, **changes: object) -> Along:
    """A copy with some attributes set anew."""
    twin = copy.copy(along)
    twin.__dict__.update(changes)
    return twin


def over(weight: Tensor, like: Tensor) -> Tensor:
    """() or (rows, 1) float64 -> what multiplies (rows, feature); a number stays where it is, torch takes it anywhere."""
    return weight.to(like.dtype) if weight.dim() == 0 else weight.to(device=like.device, dtype=like.dtype)


class MappedAlong(Along):
    """f(x(t))."""

    def __init__(self, inner: Along, f: Callable[[Tensor], Tensor]) -> None:
        self.inner, self.f = inner, f
        self.steady, self.own_times = inner.steady, inner.own_times

    def at(self, j: int, t: Tensor, rows: Tensor | None = None) -> Tensor:
        return self.f(self.inner.at(j, t, rows))

    def tensors(self, j: int) -> list[Tensor]:
        return self.inner.tensors(j)

    def on(self, j: int, tensors: list[Tensor]) -> Along:
        return changed(self, inner=self.inner.on(j, tensors))


class AnyAlong(Along):
    """A path that knows nothing of segments; a time for each sample costs it an evaluation for each."""

    own_times = False

    def __init__(self, path: Path, pieces: Pieces) -> None:
        self.path, self.pieces = path, pieces

    def at(self, j: int, t: Tensor, rows: Tensor | None = None) -> Tensor:
        piece = self.pieces[j]
        if isinstance(piece, int) and t.dim() == 0:
            return only(self.path.at(piece, t), rows)
        samples = range(len(t)) if rows is None else rows.tolist()
        own = [piece if isinstance(piece, int) else int(piece[i]) for i in samples]
        values = [self.path.at(k, time) for k, time in zip(own, t.reshape(-1), strict=True)]
        return torch.stack([value[i if len(value) > 1 else 0] for value, i in zip(values, samples, strict=True)])
