r"""Paths through samples (time, batch, feature), checks of these and of their time stamps, and the choice of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.inputs.path import GatheredPath, MappedPath, Path
from ctrnn.own_code import own_code

__all__ = ["SampledPath", "check_batch", "checked_samples", "ends_of", "recorded", "rows_of", "stamped"]


class SampledPath(GatheredPath):
    """A path through samples `xs`, which are not copied, so that they can be learned."""

    xs: Tensor
    knots: Tensor

    def _set(self, xs: Tensor, knots: Tensor) -> None:
        self.xs, self.knots = xs, knots

    @property
    def batch(self) -> int:
        return self.xs.shape[1]

    @property
    def example(self) -> Tensor:
        return self.xs[0] if type(self).__module__.startswith("ctrnn.") else super().example

    @property
    def is_made_of_samples(self) -> bool:
        """Return whether samples and knots alone give the values; not so if a subclass overrides how they are evaluated."""
        kind = next(kind for kind in type(self).__mro__ if kind.__module__.startswith("ctrnn."))
        return own_code(self, kind) is None

    def _made_of(self) -> str:
        return f"xs {tuple(self.xs.shape)}"

    @classmethod
    def unchecked(cls, xs: Tensor, knots: Tensor) -> Self:
        """Make a path for callers that did the checks; with knots (.., batch) a sequence that is over repeats its last time."""
        path = cls.__new__(cls)
        path._set(xs, knots)
        return path

    def map(self, f: Callable[[Tensor], Tensor], affine: bool = False) -> Path:
        """Map in one product for the whole sequence where f goes through the interpolation: A x + b does, and any f of held x."""
        return self.through(f, self.knots) if affine or self.steady else MappedPath(self, f)

    def through(self, f: Callable[[Tensor], Tensor], knots: Tensor) -> Self:
        """Return the path of f(x) with these knots: f(x) = A x + b, or any f of held x."""
        return self.unchecked(f(self.xs), knots)


def checked_samples(xs: Tensor, name: str = "xs") -> Tensor:
    """Check samples (time, batch, feature): floating point, finite, at least one in time."""
    fill = (
        "where values are missing, `ctrnn.inputs.hold_missing` fills in the last one seen, in a DataLoader `Collate(missing=...)`"
    )
    checks.is_finite(name, recorded(xs, name), fill)
    return xs


def recorded(xs: Tensor, name: str = "xs") -> Tensor:
    """Check samples (time, batch, feature), of which some may be missing."""
    checks.is_tensor(name, xs)
    if not xs.is_floating_point():
        raise TypeError(f"`{name}` must be floating point, got {xs.dtype}; convert it, for instance with `{name}.double()`.")
    if xs.dim() != 3:
        raise ValueError(
            f"`{name}` must be (time, batch, feature), got shape {tuple(xs.shape)}; add an axis with `{name}[:, None]`."
        )
    # A batch of 0 is one, as in torch.nn; no features are those of a field without an input. Not `len`: torch.export fixes that.
    if not xs.shape[0]:
        raise ValueError(f"`{name}` is empty: shape {tuple(xs.shape)}; give at least one sample.")
    return xs


def stamped(xs: Tensor, ts: Tensor | None, kind: str) -> tuple[Tensor, Tensor]:
    """Check samples and their stamps, for paths that have a sample at each knot."""
    xs = checked_samples(xs)
    if len(xs) < 2:
        raise ValueError(f"A {kind} path needs at least two samples, got 1; use `HeldPath` for a single one.")
    knots = torch.arange(len(xs), dtype=torch.float64, device="cpu") if ts is None else checks.are_stamps("ts", ts, 2)
    if len(knots) != len(xs):
        raise ValueError(f"`ts` has {len(knots)} stamps for {len(xs)} samples; a {kind} path needs one for each.")
    return xs, check_batch(xs, knots)


def check_batch(xs: Tensor, knots: Tensor) -> Tensor:
    """Return the knots, if they are shared or one column for each sequence."""
    if knots.dim() > 1 and knots.shape[1] != xs.shape[1]:
        raise ValueError(f"`ts` has times for {knots.shape[1]} sequences, `xs` has {xs.shape[1]}: shape {tuple(xs.shape)}.")
    return knots


def rows_of(x: Tensor, k: int | Tensor) -> Tensor:
    """Choose rows k of samples or knots: k (), (n,), or (n, batch), for every sequence its own row.

    Shape:   samples (time, batch, feature) -> (*k, batch, feature), or (n, batch, feature) where k has a batch axis;
             knots (time,) or (time, batch) -> like k, and (n, batch, 1) where k has a batch axis.
    """
    if isinstance(k, int) or k.dim() == 0:
        return x[int(k)]
    if k.dim() > 1:
        if x.dim() > 2:
            return x[k.to(x.device), torch.arange(x.shape[1], device=x.device)]
        return (x[k] if x.dim() == 1 else x.gather(0, k))[..., None]
    one_after_another = len(k) > 1 and bool((k.diff() == 1).all())
    return x[int(k[0]) : int(k[-1]) + 1] if one_after_another else x[k.to(x.device)]  # a view, for most solves


def ends_of(path: SampledPath, k: int | Tensor) -> tuple[Tensor, Tensor]:
    """Return the knots at both ends of pieces k, on the device of the samples: times are asked for there, piece after piece."""
    start, end = (checks.time_on(rows_of(path.knots, number), path.xs.device) for number in (k, k + 1))
    return start, end
