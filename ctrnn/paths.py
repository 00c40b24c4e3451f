r"""Input signals x(t): knots t_0 < t_1 < ... < t_n, and between two of them a smooth piece.

    held     x(t) = x_k on [t_k, t_k+1)             what a discrete cell sees
    linear   straight from (t_k, x_k) to the next   a sampled recording read as a continuous one

A piece is called by its number, never found by rounding a time: at a knot both neighbours are defined, and a solver that
works on piece k must get piece k. Times are float64 whatever the samples are.
"""

from __future__ import annotations

import copy
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from ctrnn import checks

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
        return float(self.path.knots[self.number])

    @property
    def end(self) -> float:
        return float(self.path.knots[self.number + 1])


class Path(ABC):
    r"""A function of time made of smooth pieces; subclasses give `knots`, `at` and `slope`.

    Shape:   path(t): t () -> (batch, feature); t (n,) -> (n, batch, feature). `knots` is (pieces + 1,), float64.
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

    @property
    def interval(self) -> tuple[float, float]:
        """First and last time."""
        return float(self.knots[0]), float(self.knots[-1])

    def piece(self, k: int) -> Piece:
        """Piece k, smooth on [knots[k], knots[k + 1]]; k counts from the end where negative, as in a list."""
        pieces = len(self.knots) - 1
        try:
            number = operator.index(k)
        except TypeError as error:
            raise TypeError(f"`k` must be a whole number, got {k!r}.") from error
        if not -pieces <= number < pieces:
            raise IndexError(f"There is no piece {number}: the path has {pieces}.")
        return Piece(self, number % pieces)

    def __call__(self, t: float | Tensor) -> Tensor:
        return self.at(*self._locate(t))

    def derivative(self, t: float | Tensor) -> Tensor:
        """dx/dt, at a knot that of the piece that begins there; shapes as of the path itself."""
        return self.slope(*self._locate(t))

    def map(self, f: Callable[[Tensor], Tensor]) -> Path:
        """The path f(x(t)), for an f that keeps the leading axes."""
        return MappedPath(self, f)

    def _locate(self, t: float | Tensor) -> tuple[int | Tensor, Tensor]:
        times = checks.within("t", checks.evaluation_times("t", t), *self.interval)
        k = piece_numbers(self.knots, times)
        return (k, times) if times.dim() else (int(k), times)


def piece_numbers(knots: Tensor, times: Tensor) -> Tensor:
    """The number of the piece that each time is in; a knot belongs to the piece that begins there, the last to the last."""
    return (torch.searchsorted(knots, times, right=True) - 1).clamp(0, len(knots) - 2)


class _SampledPath(Path):
    """What held and linear paths share: checked samples, not copied, so that they can be learned."""

    def __init__(self, xs: Tensor, knots: Tensor) -> None:
        self.xs, self.knots = xs, knots
        self._one_by_one: tuple[Tensor, ...] | None = None

    def _for_a_solve(self, xs: Tensor) -> Self:
        """The path on samples taken apart, once for a solve: xs[k] in a loop costs a gradient of full size for each k."""
        apart = copy.copy(self)
        apart.xs, apart._one_by_one = xs, xs.unbind(0)
        return apart

    def _sample(self, k: int | Tensor) -> Tensor:
        if isinstance(k, int):
            return self.xs[k] if self._one_by_one is None else self._one_by_one[k]
        return self.xs[k.to(self.xs.device)]


class HeldPath(_SampledPath):
    r"""Sample k is held on [t_k, t_k+1): piecewise constant, right-continuous.

    Args:    xs: samples; ts: (time + 1,) edges of the intervals, or (time,) stamps, of which the last is held for as
             long as the one before it (a single one: for 1). Default: 0, 1, ..., time.
    Shape:   xs (time, batch, feature).
    Raises:  TypeError, ValueError for samples that are not finite floating point (time, batch, feature), or times that
             do not increase or do not fit.
    Source:  this project; "sample and hold".
    """

    def __init__(self, xs: Tensor, ts: Tensor | None = None) -> None:
        xs = checked_samples(xs)
        super().__init__(xs, interval_edges(len(xs), ts))

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        return self._sample(k)

    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        return torch.zeros_like(self._sample(k))

    def map(self, f: Callable[[Tensor], Tensor]) -> HeldPath:
        return self._for_a_solve(f(self.xs))  # held values: one product for the whole sequence


class LinearPath(_SampledPath):
    r"""Straight lines between samples that stand at the knots; continuous.

    Args:    xs: samples, at least two; ts: (time,) their stamps. Default: 0, 1, ..., time - 1.
    Shape:   xs (time, batch, feature).
    Raises:  TypeError, ValueError as `HeldPath`, and for fewer than two samples.
    Source:  this project.
    """

    def __init__(self, xs: Tensor, ts: Tensor | None = None) -> None:
        xs = checked_samples(xs)
        if len(xs) < 2:
            raise ValueError("A linear path needs at least two samples, got 1; use `HeldPath` for a single one.")
        knots = torch.arange(len(xs), dtype=torch.float64) if ts is None else checks.are_times("ts", ts)
        if len(knots) != len(xs):
            raise ValueError(f"`ts` has {len(knots)} stamps for {len(xs)} samples; a linear path needs one for each.")
        super().__init__(xs, knots)

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        left, right, start, width = self._ends(k)
        # In float64 until here: a float32 time of 1e4 knows its place in a unit piece to three digits only.
        weight = _over_samples((t.to(start.device) - start) / width, left)
        return torch.lerp(left, right, weight)

    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        left, right, _, width = self._ends(k)
        return (right - left) / _over_samples(width, left)

    def map(self, f: Callable[[Tensor], Tensor]) -> MappedPath:
        return MappedPath(self._for_a_solve(self.xs), f)

    def _ends(self, k: int | Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        left, right = self._sample(k), self._sample(k + 1)
        start = self.knots[k]
        width = self.knots[k + 1] - start
        # A scalar stays where it is: torch takes scalars from the CPU into work on any device.
        return left, right, start, width


def _over_samples(scalar: Tensor, like: Tensor) -> Tensor:
    """() or (n,) float64 -> something that multiplies (batch, feature) or (n, batch, feature)."""
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

    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        x, slope = self.path.at(k, t), self.path.slope(k, t)
        return torch.func.jvp(self.f, (x,), (slope,))[1]


def checked_samples(xs: Tensor, name: str = "xs") -> Tensor:
    """Samples (time, batch, feature): floating point, finite, at least one of each axis."""
    checks.is_tensor(name, xs)
    if xs.layout != torch.strided or xs.is_nested:
        raise TypeError(f"`{name}` must be a plain tensor, not a sparse or nested one; convert it with `{name}.to_dense()`.")
    if not xs.is_floating_point():
        raise TypeError(f"`{name}` must be floating point, got {xs.dtype}; convert it, for instance with `{name}.double()`.")
    if xs.dim() != 3:
        raise ValueError(
            f"`{name}` must be (time, batch, feature), got shape {tuple(xs.shape)}; add an axis with `{name}[:, None]`."
        )
    if xs.numel() == 0:
        raise ValueError(f"`{name}` is empty: shape {tuple(xs.shape)}; give at least one sample, sequence and feature.")
    checks.is_finite(name, xs)
    return xs


def interval_edges(samples: int, ts: Tensor | None) -> Tensor:
    """The (samples + 1,) edges of the intervals on which samples are held, from edges, stamps or nothing."""
    if ts is None:
        return torch.arange(samples + 1, dtype=torch.float64)
    times = checks.are_times("ts", ts)
    if len(times) == samples + 1:
        return times
    if len(times) != samples:
        raise ValueError(f"`ts` has {len(times)} times for {samples} samples; give {samples + 1} edges or {samples} stamps.")
    last = times[-1] - times[-2] if samples > 1 else torch.ones((), dtype=torch.float64)
    return torch.cat([times, (times[-1] + last)[None]])
