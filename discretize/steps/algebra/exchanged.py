"""Jacobians and solutions of equations that are computed otherwise while a step is recorded for a kernel."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ctrnn import VectorField
from ctrnn.rewriting import Exchangeable

__all__ = ["JACOBIAN", "SOLUTION"]

JACOBIAN: Exchangeable[Callable[[VectorField, Tensor, Tensor], Tensor]] = Exchangeable("jacobian")  # as `jacobian`
# As `solve_step`, the cost aside.
SOLUTION: Exchangeable[Callable[[VectorField, Tensor, Tensor, float | Tensor, Tensor], Tensor]] = Exchangeable("solution")
