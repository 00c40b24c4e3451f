r"""Splitting steps: dh/dt = -L(h) h + N, of which the forgetting -L(h) h is solved exactly, and N added by Euler steps.

For a decay the forgetting has a closed form: e^(-S) h, or h (1 + r S |h|^r)^(-1/r), with S = rate dt.

    Lie      phi_dt(h) + dt N(h)                                       order 1
    Strang   phi_dt/2(phi_dt/2(h) + dt N(u)), rate and N at the middle  order 2

They write g f where a gate would write G f, and so miss fixed points by O(dt) and O(dt^2); the forgetting itself, of any
size and over any time, is exact.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ctrnn import VectorField
from discretize.steps.step import Step, mode

__all__ = ["Splitting", "StrangSplitting"]


class Splitting(Step):
    r"""phi_dt(h) + dt N(h), phi the exact flow of -L(h) h with the rate held. R = e^-l + z + l with l = L dt.

    Shape:   as `Step`.
    Source:  this project, result 5; the splitting is Lie's.
    """

    title = "Lie's splitting"
    family = "splitting"
    equation = "h' = forget(h, h, dt) + dt (F(h) + L(h) h)"
    keeps_and_writes: ClassVar[tuple[str, str]] = ("exp(-g)", "g")
    factor = "exp(-l) + z + l"
    error = "dt^2/2 * (F' F - L^2 h)"
    order = 1
    evaluations = 1

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        return field.forget(projected, h, h, dt) + dt * field.flow_without_leak(projected, h)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        z, leak = mode(z, leak)
        return torch.exp(-leak) + z + leak


class StrangSplitting(Step):
    r"""phi_dt/2(phi_dt/2(h) + dt N(u)) with u = phi_dt/2(h) + dt/2 N(h), and phi and N with the rate at u.

    Shape:   as `Step`.
    Source:  this project; Strang 1968 for the symmetric splitting.
    """

    title = "Strang's splitting"
    family = "splitting"
    equation = (
        "h' = forget(d, m, dt/2)\nd = forget(h, m, dt/2) + dt (F(m) + L(m) m)\nm = forget(h, h, dt/2) + dt/2 * (F(h) + L(h) h)"
    )
    keeps_and_writes: ClassVar[tuple[str, str]] = ("exp(-g)", "exp(-g/2) g")
    factor = "exp(-l/2) (exp(-l/2) + (z + l) (exp(-l/2) + (z + l)/2))"
    error = "dt^3/24 * (F'' F^2 + F (4 F'^2 + 6 F' L + 3 L^2) - L^2 h (3 F' + 2 L))"
    order = 2
    evaluations = 2

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        middle = Splitting().advance(field, projected, h, dt / 2)
        driven = field.forget(projected, h, middle, dt / 2) + dt * field.flow_without_leak(projected, middle)
        return field.forget(projected, driven, middle, dt / 2)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        z, leak = mode(z, leak)
        half, rest = torch.exp(-leak / 2), z + leak
        return half * (half + rest * (half + rest / 2))
