r"""Give a noisy field the increments of its Brownian motion: columns beside its input, which go with each sample.

    given     dW, and int (W - W(start)) dt where the step reads it, as numbers
    keyed     a key, a cell and which of its parts, from which the numbers are drawn where they are used: in a kernel too

Steps for noise find them by `NoiseInput.increments`.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from ctrnn import VectorField
from ctrnn.fields.parts import affine
from discretize.noise.generator import KEY_COLUMNS, key_columns
from discretize.noise.operation import PLACE, cell_increments

__all__ = ["ADDRESS", "GivenIncrements", "KeyedIncrements", "NoiseInput"]

ADDRESS = KEY_COLUMNS + 1  # of a key and a cell


class NoiseInput(VectorField):
    """A field whose input has columns for noise; all else is as in the field, which is shared, not copied."""

    field: VectorField
    columns: int
    bandwidths: tuple[int, int] | None

    def __init__(self, field: VectorField, columns: int) -> None:
        super().__init__(field.input_size + columns, field.hidden_size, field.state_size)
        self.field, self.columns, self.bandwidths = field, columns, field.bandwidths

    @affine
    def project(self, x: Tensor) -> Tensor:
        return torch.cat([self.field.project(x[..., : -self.columns]), x[..., -self.columns :]], -1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(projected[..., : -self.columns], h)

    @abstractmethod
    def increments(self, projected: Tensor) -> tuple[Tensor, Tensor | None]:
        r"""Return dW and int (W - W(start)) dt of a step, None where it was not asked for.

        Shape:   (..., projected + columns) -> (..., channels).
        """

    @property
    def kind(self) -> tuple[object, ...]:
        """What it is beside its field."""
        return type(self), self.columns

    def own(self, projected: Tensor) -> Tensor:
        """Return what the field itself reads."""
        return projected[..., : -self.columns]


class GivenIncrements(NoiseInput):
    """The columns are the increments."""

    def __init__(self, field: VectorField, integral: bool) -> None:
        super().__init__(field, field.noise_channels * (2 if integral else 1))
        self.integral = integral

    def increments(self, projected: Tensor) -> tuple[Tensor, Tensor | None]:
        columns, channels = projected[..., -self.columns :], self.field.noise_channels
        return columns[..., :channels], columns[..., channels:] if self.integral else None


class KeyedIncrements(NoiseInput):
    """The columns are a place, see `cell_increments`, and the lengths by which a cell's increments are multiplied, one each."""

    parts: int
    integral: bool

    def __init__(self, field: VectorField, parts: int, integral: bool) -> None:
        super().__init__(field, PLACE + 1 + integral)
        self.parts, self.integral = parts, integral

    @property
    def kind(self) -> tuple[object, ...]:
        return *super().kind, self.parts

    def with_places(self, xs: Tensor, dice: torch.Generator) -> Tensor:
        """Put places beside samples of any numbers, some with the cell of the step before: to run code on a few numbers."""
        (time, batch, _), own = xs.shape, self.field.input_size
        keys = key_columns(torch.randint(1 << 62, (batch,), generator=dice, device="cpu")).expand(time, -1, -1)
        cell = torch.arange(time, device="cpu")[:, None, None].expand(-1, batch, 1) // 2
        places = torch.cat([keys, cell, torch.zeros_like(cell)], -1)
        return torch.cat([xs[..., :own], places.to(xs), xs[..., own + PLACE :]], -1)

    def at_part(self, xs: Tensor, part: int) -> Tensor:
        """Samples whose column of parts says which substep it is; kernels write its number there."""
        place = self.field.input_size + PLACE
        return torch.cat([xs[..., : place - 1], torch.full_like(xs[..., :1], part), xs[..., place:]], -1)

    def increments(self, projected: Tensor) -> tuple[Tensor, Tensor | None]:
        columns = projected[..., -self.columns :]
        numbers = cell_increments(columns[..., :PLACE], self.parts, self.integral, self.field.noise_channels)
        w, *z = (columns[..., PLACE + k, None] * numbers[..., k, :] for k in range(1 + self.integral))
        return w, z[0] if z else None
