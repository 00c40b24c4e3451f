r"""Splines of other libraries as paths: objects with the interface of torchcde's.

    grid_points    the knots, increasing
    interval       first and last of them
    evaluate(t)    x(t), t of any shape: (batch, ..., *t, channels)
    derivative(t)  dx/dt, likewise

No library is imported. Coefficients keep their gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.inputs.function import OneSidedTimes
from ctrnn.inputs.path import Path

__all__ = ["Spline", "SplinePath", "as_path", "is_spline"]


class Spline(Protocol):
    """The interface of `torchcde.InterpolationBase`."""

    @property
    def grid_points(self) -> Tensor: ...

    @property
    def interval(self) -> Tensor: ...

    def evaluate(self, t: Tensor) -> Tensor: ...

    def derivative(self, t: Tensor) -> Tensor: ...


def as_path(value: object) -> Path:
    """Return a path as it is and a spline as a path; refuse anything else."""
    if isinstance(value, Path):
        return value
    if is_spline(value):
        return SplinePath(value)  # type: ignore[arg-type]
    hint = ", a function of time in `ctrnn.FunctionPath`" if callable(value) else ""
    raise TypeError(f"`path` must be a ctrnn.inputs.Path, got {type(value).__name__}; wrap samples in `ctrnn.HeldPath`{hint}.")


def is_spline(value: object) -> bool:
    """Return whether the value has the interface of `Spline`."""
    if isinstance(value, type) or not (hasattr(value, "grid_points") and hasattr(value, "interval")):
        return False
    return callable(getattr(value, "evaluate", None)) and callable(getattr(value, "derivative", None))


class SplinePath(Path):
    r"""A spline as a path, with one-sided limits at both ends of each piece.

    A spline finds its piece from the time, and at a grid point takes one of two: so it is evaluated one ulp inside the
    piece. A torch module of lower precision is evaluated in float64, where late times keep their digits, and its values
    are rounded to its own; another spline is evaluated as it is, at times rounded as it rounds them.

    Args:    spline: an object with torchcde's interface; coefficients, and grid points, may require a gradient.
    Shape:   coefficients (batch, time, channels) -> x (batch, channels); further batch axes are one; none are a batch of 1.
    Raises:  TypeError, ValueError for grid points that do not increase, or values that are no floating-point tensors.
    Source:  torchcde 0.2.5; Kidger, Morrill, Foster and Lyons 2020.
    """

    dtype: torch.dtype

    def __init__(self, spline: Spline) -> None:
        grid = spline.grid_points
        self.knots: Tensor = checks.are_times("grid_points", grid, differentiable=True)
        if len(self.knots) < 2:
            raise ValueError("`grid_points` holds one time; a spline needs two, and a piece between them.")
        first = spline.evaluate(grid[0].detach() if isinstance(grid, Tensor) else self.knots[0].detach())
        if not isinstance(first, Tensor) or not first.is_floating_point() or first.dim() == 0:
            came = f"{first.dtype} of shape {tuple(first.shape)}" if isinstance(first, Tensor) else type(first).__name__
            raise TypeError(f"`evaluate` of a {type(spline).__name__} must give floating point, (.., channels), got {came}.")
        self.dtype, self._method = first.dtype, _Method(spline)
        floating = {name: value for name, value in self._method.state() if value.is_floating_point()}
        # Once, and not at each call: they are as long as the recording.
        precise = {name: value.to(checks.time_dtype(value.device)) for name, value in floating.items()}
        self._precise = precise if any(precise[name] is not value for name, value in floating.items()) else {}
        as_it_is = not floating and isinstance(grid, Tensor) and grid.is_floating_point()
        self._one_sided = OneSidedTimes("grid_points", grid.cpu() if as_it_is else self.knots)

    def at(self, k: int | Tensor, t: Tensor) -> Tensor:
        return self._call("evaluate", k, t)

    def slope(self, k: int | Tensor, t: Tensor) -> Tensor:
        return self._call("derivative", k, t)

    def _call(self, name: str, k: int | Tensor, t: Tensor) -> Tensor:
        times = self._one_sided(k, checks.time_on(t, torch.device("cpu")))
        values = torch.func.functional_call(self._method, self._precise, (name, times)).to(self.dtype)
        if t.dim() == 0:
            return values.reshape(-1, values.shape[-1])
        return values.movedim(-2, 0).reshape(len(t), math.prod(values.shape[:-2]), values.shape[-1])


class _Method(nn.Module):
    """A method of a spline by its name, as a module, so that torch can call it with other tensors."""

    def __init__(self, spline: Spline) -> None:
        super().__init__()
        self.spline = spline

    def state(self) -> Iterator[tuple[str, Tensor]]:
        yield from self.named_parameters()
        yield from self.named_buffers()

    def forward(self, name: str, t: Tensor) -> Tensor:
        return getattr(self.spline, name)(t)
