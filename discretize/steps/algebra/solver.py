"""Have another function solve the equations of implicit steps, as code that is recorded for a kernel does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from torch import Tensor

from ctrnn import VectorField

__all__ = ["other_solver", "solved_by"]

Solver: TypeAlias = Callable[[VectorField, Tensor, Tensor, "float | Tensor", Tensor], Tensor]


@contextmanager
def solved_by(solver: Solver) -> Iterator[None]:
    """While it is entered, equations are solved by that function of the arguments of `solve_step`, which gives u alone."""
    before = _solver.set(solver)
    try:
        yield
    finally:
        _solver.reset(before)


def other_solver() -> Solver | None:
    """The function that solves equations in place of Newton's method in torch, if there is one."""
    return _solver.get()


_solver: ContextVar[Solver | None] = ContextVar("_solver", default=None)
