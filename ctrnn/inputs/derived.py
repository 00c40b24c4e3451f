r"""Paths made of others: time itself, the derivative of a path, a path for many sequences, and a path played backwards."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.inputs.path import Data, GatheredPath, MappedPath, Path, across
from ctrnn.inputs.samples import SampledPath

__all__ = ["DerivativePath", "ReversedPath", "TimePath", "for_many"]


class TimePath(GatheredPath):
    r"""x(t) = t, one feature, for fields that read the time.

    A field that jumps at a time, `if t < 0.7`, has that time among the knots. On the piece that ends there x stays below the
    knot and below what the knot is rounded to in the dtype of x, on the next x is below neither: each sees one side of the jump.

    Args:    interval: (start, end), or these and knots between them; batch: how many sequences; dtype, device: of x.
    Shape:   as of every path.
    """

    least: Tensor
    most: Tensor

    degree: int | None = 1
    equations: tuple[str, ...] = ("x(t) = t",)

    def __init__(
        self,
        interval: tuple[float, float] | Tensor,
        batch: int = 1,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        self.knots: Tensor = checks.are_times("interval", interval)
        if len(self.knots) < 2:
            raise ValueError(f"`interval` must be (start, end), perhaps with knots between them, got {len(self.knots)} times.")
        self.zero: Tensor = torch.zeros(checks.size("batch", batch), 1, dtype=dtype, device=device)
        inner = checks.time_on(self.knots[1:-1], self.zero.device)
        near = inner.to(self.zero.dtype)
        below, above = (torch.nextafter(near, torch.full_like(near, to)) for to in (-torch.inf, torch.inf))
        above = torch.where(near.double() < inner, above, near)
        beyond = self.zero.new_full((1,), torch.inf)  # nothing jumps at the ends of the whole
        self.least, self.most = torch.cat([-beyond, above]), torch.cat([below, beyond])

    def gather(self, k: int | Tensor) -> Data:
        numbers = torch.as_tensor(k, device="cpu")
        zero = self.zero.expand(*numbers.shape[:1], *self.zero.shape)
        if len(self.most) == 1:
            return (zero,)
        shape = (*numbers.shape, *[1] * (zero.dim() - numbers.dim()))
        return zero, *(bound[k].reshape(shape).expand_as(zero) for bound in (self.least, self.most))

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        zero, *bounds = data
        x = zero + across(t, zero)
        return x + (x.clamp(*bounds) - x).detach() if bounds else x

    def differentiate(self, data: Data, t: Tensor) -> Tensor:
        return torch.ones_like(self.evaluate(data, t))


class DerivativePath(GatheredPath):
    r"""dx/dt of a path, which drives a `ControlledField`.

    Args:    path: x, differentiable between its knots: a straight line gives a held slope, a Hermite path a continuous one.
    Shape:   as of `path`.
    Raises:  NotImplementedError for a second derivative.
    Source:  Kidger, Morrill, Foster and Lyons 2020, "Neural controlled differential equations", eq. (4).
    """

    path: Path
    knots: Tensor
    own_times: bool

    def __init__(self, path: Path) -> None:
        if checks.instance("path", path, Path).steady:
            raise ValueError(
                f"A {type(path).__name__} moves by jumps alone, its derivative is 0; take a LinearPath or HermitePath."
            )
        self.path, self.knots, self.own_times = path, path.knots, path.own_times
        self.degree: int | None = None if path.degree is None else max(path.degree - 1, 0)
        self.equations: tuple[str, ...] = path.made_into(lambda x: rf"\frac{{d{x}}}{{dt}}(t)")

    def _made_of(self) -> str:
        return repr(self.path)

    def gather(self, k: int | Tensor) -> Data:
        return self.path.gather(k)

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        return self.path.differentiate(data, t)

    def differentiate(self, data: Data, t: Tensor) -> Tensor:
        raise NotImplementedError("The second derivative of a path is not known; take a method that does not ask for it, dopri5.")


class _ForMany(Path):
    """A path of one sequence, for many."""

    def __init__(self, path: Path, batch: int) -> None:
        self.path, self.many, self.knots = path, batch, path.knots
        self.steady, self.degree = path.steady, path.degree

    def probe(self) -> Path:
        return self.path.probe()

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        return self._spread(self.path.at(k, t))

    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        return self._spread(self.path.slope(k, t))

    def _spread(self, x: Tensor) -> Tensor:
        return x.expand(*x.shape[:-2], self.many, x.shape[-1])

    def map(self, f: Callable[[Tensor], Tensor], affine: bool = False) -> Path:
        return _ForMany(self.path.map(f, affine), self.many)


class ReversedPath(GatheredPath):
    r"""x(-t), on the negative times.

    Args:    path: x.
    Shape:   as of `path`.
    """

    path: Path
    knots: Tensor
    steady: bool
    own_times: bool
    degree: int | None

    def __init__(self, path: Path) -> None:
        self.path, self.knots = path, -path.knots.flip(0)
        self.steady, self.own_times, self.degree = path.steady, path.own_times, path.degree

    def probe(self) -> Path:
        return ReversedPath(self.path.probe())

    def gather(self, k: int | Tensor) -> Data:
        return self.path.gather(len(self.knots) - 2 - torch.as_tensor(k, device="cpu"))

    def evaluate(self, data: Data, t: Tensor) -> Tensor:
        return self.path.evaluate(data, -t)

    def differentiate(self, data: Data, t: Tensor) -> Tensor:
        return -self.path.differentiate(data, -t)

    def map(self, f: Callable[[Tensor], Tensor], affine: bool = False) -> Path:
        return ReversedPath(self.path.map(f, affine))


def for_many(path: Path, batch: int) -> Path:
    """Repeat a path of one sequence for `batch` sequences; return other paths as they are."""
    if path.batch != 1 or batch == 1:
        return path
    if isinstance(path, SampledPath) and path.is_made_of_samples:
        knots = path.knots if path.knots.dim() == 1 else path.knots.expand(-1, batch)
        return path.through(lambda x: x.expand(-1, batch, -1), knots)
    if isinstance(path, MappedPath):
        return MappedPath(for_many(path.path, batch), path.f)
    return _ForMany(path, batch)
