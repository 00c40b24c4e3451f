r"""Input signals x(t): knots t_0 < t_1 < ... < t_n, and between two of them a smooth piece.

    held     x(t) = x_k on [t_k, t_k+1)             what a discrete cell sees
    linear   straight from (t_k, x_k) to the next   a sampled recording read as a continuous one

Smooth ones through samples are in hermite.py, formulas in function_path.py, the splines of torchcde in splines.py.

A piece is called by its number, never found by rounding a time: at a knot both neighbours are defined, and a solver that
works on piece k must get piece k. Times are float64 whatever the samples are. Knots are shared by a batch, or every sequence
has its own: (pieces + 1, batch).
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.inputs.along import Along, AnyAlong, HeldAlong, LinearAlong, MappedAlong, Pieces
from ctrnn.inputs.samples import checked_samples, interval_edges, stamped

__all__ = ["HeldPath", "LinearPath", "MappedPath", "Path", "Piece"]


@dataclass(frozen=True)
class Piece:
    """Piece k of a path: smooth on [start, end], ends included."""

    path: Path
    number: int

    def __call__(self, t: float | Tensor) -> Tensor:
        return self.path.at(*self._placed(t))

    def derivative(self, t: float | Tensor) -> Tensor:
        return self.path.slope(*self._placed(t))

    def _placed(self, t: float | Tensor) -> tuple[int | Tensor, Tensor]:
        times = checks.within("t", checks.evaluation_times("t", t), self.start, self.end)
        return (torch.full(times.shape, self.number) if times.dim() else self.number), times

    @property
    def start(self) -> float:
        return float(self.path.knots[self.number].detach())

    @property
    def end(self) -> float:
        return float(self.path.knots[self.number + 1].detach())


class Path(ABC):
    r"""A function of time made of smooth pieces; subclasses give `knots`, `at` and `slope`.

    Shape:   path(t): t () -> (batch, feature); t (n,) -> (n, batch, feature); t (n, batch), a time for each sequence, likewise.
             `knots` is (pieces + 1,) or (pieces + 1, batch), float64.
    Raises:  ValueError for times outside the interval (beyond an end by at most 4 ulp they are the end).
    Source:  this project.
    """

    knots: Tensor

    @abstractmethod
    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        """Value of piece k at time t, in or near its interval: both scalars, or both (n,)."""

    @abstractmethod
    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        """Derivative of piece k at time t, as `at`."""

    def along(self, pieces: Pieces) -> Along:
        """The path read piece by piece, as a solve comes to them."""
        return AnyAlong(self, pieces)

    @property
    def interval(self) -> tuple[float, float]:
        """First and last time; of sequences with times of their own, those they have in common."""
        return float(self.knots[0].detach().max()), float(self.knots[-1].detach().min())

    def piece(self, k: int) -> Piece:
        """Piece k, smooth on [knots[k], knots[k + 1]]; k counts from the end where negative, as in a list."""
        pieces = len(self.knots) - 1
        if self.knots.dim() > 1:
            raise ValueError("Every sequence of this path has its own knots, and no piece is everyone's; evaluate it at times.")
        try:
            number = operator.index(k)
        except TypeError as error:
            raise TypeError(f"`k` must be a whole number, got {k!r}.") from error
        if not -pieces <= number < pieces:
            raise IndexError(f"There is no piece {number}: the path has {pieces}.")
        return Piece(self, number % pieces)

    def __call__(self, t: float | Tensor) -> Tensor:
        times = checks.evaluation_times("t", t, 2)
        return self._at_own(times) if self.knots.dim() > 1 or times.dim() > 1 else self.at(*self._locate(times))

    def derivative(self, t: float | Tensor) -> Tensor:
        """dx/dt, at a knot that of the piece that begins there; shapes as of the path itself."""
        return self.slope(*self._locate(checks.evaluation_times("t", t)))

    def map(self, f: Callable[[Tensor], Tensor], affine: bool = False) -> Path:
        """The path f(x(t)), for an f that keeps the leading axes; `affine` if f(x) = A x + b."""
        return MappedPath(self, f)

    def _locate(self, t: Tensor) -> tuple[int | Tensor, Tensor]:
        if self.knots.dim() > 1:
            raise ValueError("Every sequence of this path has its own knots; only `path(t)` is there for such paths.")
        times = checks.within("t", t, *self.interval)
        k = piece_numbers(self.knots, times)
        return (k, times) if times.dim() else (int(k), times)

    def _at_own(self, t: Tensor) -> Tensor:
        """Every sequence at times of its own, (n, batch), or at shared ones of which each finds its own piece."""
        batch = self.knots.shape[1] if self.knots.dim() > 1 else t.shape[1]
        if t.dim() > 1 and t.shape[1] != batch:
            raise ValueError(f"`t` has times for {t.shape[1]} sequences, the path has {batch}.")
        times = t if t.dim() > 1 else t.reshape(-1, 1).expand(-1, batch)
        knots = self.knots.detach()
        times = checks.within_own("t", times, knots[0].expand(batch), knots[-1].expand(batch))
        along = self.along(piece_numbers(knots, times))
        values = torch.stack([along.at(j, row[:, None]) for j, row in enumerate(times)])
        if values.shape[1] != batch:
            raise ValueError(f"`t` has times for {batch} sequences, the path has {values.shape[1]}.")
        return values if t.dim() else values[0]


def piece_numbers(knots: Tensor, times: Tensor) -> Tensor:
    """The number of the piece that each time is in; a knot belongs to the piece that begins there, the last to the last.

    Shape:   knots (n,), times of any shape; or knots (n, batch), times (m, batch); or knots (n,), times (m, batch).
    """
    if knots.dim() == 1:
        numbers = torch.searchsorted(knots, times.contiguous(), right=True)
    else:
        numbers = torch.searchsorted(knots.mT.contiguous(), times.mT.contiguous(), right=True).mT
    return (numbers - 1).clamp(0, len(knots) - 2)


class _SampledPath(Path):
    """What sampled paths share: checked samples, not copied, so that they can be learned."""

    def __init__(self, xs: Tensor, knots: Tensor) -> None:
        self.xs, self.knots = xs, knots
        if knots.dim() > 1 and knots.shape[1] != xs.shape[1]:
            raise ValueError(f"`ts` has times for {knots.shape[1]} sequences, `xs` has {xs.shape[1]}: shape {tuple(xs.shape)}.")

    def _sample(self, k: int | Tensor) -> Tensor:
        return self.xs[k] if isinstance(k, int) else self.xs[k.to(self.xs.device)]


class HeldPath(_SampledPath):
    r"""Sample k is held on [t_k, t_k+1): piecewise constant, right-continuous.

    Args:    xs: samples; ts: (time + 1,) edges of the intervals, or (time,) stamps, of which the last is held for as
             long as the one before it (a single one: for 1). Default: 0, 1, ..., time. With a second axis, (.., batch), every
             sequence has its own. They may require a gradient.
    Shape:   xs (time, batch, feature).
    Raises:  TypeError, ValueError for samples that are not finite floating point (time, batch, feature), or times that
             do not increase or do not fit.
    Source:  this project; "sample and hold".
    """

    def __init__(self, xs: Tensor, ts: Tensor | None = None) -> None:
        xs = checked_samples(xs)
        super().__init__(xs, interval_edges(len(xs), ts))

    @classmethod
    def on_edges(cls, xs: Tensor, edges: Tensor) -> HeldPath:
        """Unchecked, for modules that have looked: edges (time + 1,) or (time + 1, batch), in which a sequence that is over
        repeats its last time."""
        path = cls.__new__(cls)
        super(HeldPath, path).__init__(xs, edges)
        return path

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        return self._sample(k)

    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        return torch.zeros_like(self._sample(k))

    def along(self, pieces: Pieces) -> Along:
        return HeldAlong(self.xs, pieces)

    def map(self, f: Callable[[Tensor], Tensor], affine: bool = False) -> HeldPath:
        return HeldPath.on_edges(f(self.xs), self.knots)  # held values: one product for the whole sequence


class LinearPath(_SampledPath):
    r"""Straight lines between samples that stand at the knots; continuous.

    Args:    xs: samples, at least two; ts: (time,) their stamps, or (time, batch), for every sequence its own; they may
             require a gradient. Default: 0, 1, ..., time - 1.
    Shape:   xs (time, batch, feature).
    Raises:  TypeError, ValueError as `HeldPath`, and for fewer than two samples.
    Source:  this project.
    """

    def __init__(self, xs: Tensor, ts: Tensor | None = None) -> None:
        super().__init__(*stamped(xs, ts, "linear"))

    @classmethod
    def through(cls, xs: Tensor, knots: Tensor) -> LinearPath:
        """Unchecked, for those who have looked: a sample at each knot."""
        path = cls.__new__(cls)
        super(LinearPath, path).__init__(xs, knots)
        return path

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        left, right = self._sample(k), self._sample(k + 1)
        # In float64 until here: a float32 time of 1e4 knows its place in a unit piece to three digits only.
        return torch.lerp(left, right, over_samples(self.share(k, t)[0], left))

    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        left, right = self._sample(k), self._sample(k + 1)
        return (right - left) / over_samples(self.share(k, t)[1], left)

    def share(self, k: int | Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """How far t is through piece k, as a share of its width; and the width."""
        start = self.knots[k]
        width = self.knots[k + 1] - start
        return (t.to(start.device) - start) / width, width

    def along(self, pieces: Pieces) -> Along:
        return LinearAlong(self.xs, self.knots, pieces)

    def map(self, f: Callable[[Tensor], Tensor], affine: bool = False) -> Path:
        if not affine:
            return MappedPath(self, f)
        return LinearPath.through(f(self.xs), self.knots)  # affine goes through straight lines: one product for the sequence


def over_samples(scalar: Tensor, like: Tensor) -> Tensor:
    """() or (n,) float64 -> what multiplies (batch, feature) or (n, batch, feature); a number stays where it is."""
    scalar = scalar.to(like.dtype)
    return scalar if scalar.dim() == 0 else scalar[:, None, None].to(like.device)


class MappedPath(Path):
    r"""f(x(t)), evaluated when asked; what `Path.map` gives where nothing better is known.

    Args:    path: any path; f: (..., feature) -> (..., other), smooth, keeping the leading axes.
    Source:  this project.
    """

    def __init__(self, path: Path, f: Callable[[Tensor], Tensor]) -> None:
        self.path, self.f, self.knots = path, f, path.knots

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        return self.f(self.path.at(k, t))

    def along(self, pieces: Pieces) -> Along:
        return MappedAlong(self.path.along(pieces), self.f)

    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        x, slope = self.path.at(k, t), self.path.slope(k, t)
        return torch.func.jvp(self.f, (x,), (slope,))[1]
