r"""Give a noisy field the increments of its Brownian motion: columns beside its input, which go with each sample.

    given     dW, and int (W - W(start)) dt where the step reads it, as numbers
    keyed     a key, a cell and the terms of `cell_terms`, from which the numbers are drawn where they are used: in a kernel too

Steps for noise find them by `NoiseInput.increments`.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from ctrnn import VectorField
from ctrnn.fields.parts import affine
from discretize.noise.generator import KEY_COLUMNS, normals_of_columns

__all__ = ["ADDRESS", "GivenIncrements", "KeyedIncrements", "NoiseInput"]

ADDRESS = KEY_COLUMNS + 1  # of a key and a cell


class NoiseInput(VectorField):
    """A field whose input has columns for noise; all else is as in the field, which is shared, not copied."""

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
    """The columns are a key in three parts, a cell, and of each term its node and its coefficients."""

    def __init__(self, field: VectorField, terms: int, integral: bool) -> None:
        super().__init__(field, ADDRESS + terms * (3 if integral else 2))
        self.terms, self.integral = terms, integral

    def increments(self, projected: Tensor) -> tuple[Tensor, Tensor | None]:
        columns, width = projected[..., -self.columns :], self.field.noise_channels
        address, rest = columns[..., :ADDRESS], columns[..., ADDRESS:]
        w: Tensor | None = None
        integral: Tensor | None = None
        for term in rest.split(3 if self.integral else 2, -1):
            numbers = normals_of_columns(address, term[..., :1], width)
            of_w = term[..., 1:2] * numbers
            w = of_w if w is None else w + of_w
            if self.integral:
                of_integral = term[..., 2:3] * numbers
                integral = of_integral if integral is None else integral + of_integral
        assert w is not None
        return w, integral
