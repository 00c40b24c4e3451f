"""A program as C++ text, and numbers that describe it to drivers."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["CallNumbers", "CppText"]


@dataclass
class CallNumbers:
    """The calls of a field in a method's passes.

    following: the call at the state that a step leads to, None if there is none; back: which slope each call of the way back
    gives; pulled: of how many of them, the first, the cotangents go back into the field; factors, factors_back: how many matrices
    a + b J are factored; pairs: of how many products of two vectors the cotangent of J is the sum; drift: whether the derivative
    by the time is read.
    """

    following: int | None
    back: list[int]
    pulled: int
    factors: int = 0
    factors_back: int = 0
    pairs: int = 0
    drift: bool = False


@dataclass
class CppText:
    """A program as C++ text.

    sizes: that it refers to; kept: the widths of what is kept; sums: heights and widths of sums over samples; columns: whether
    there is a pass for the columns of a Jacobian; lanes: whether it is for samples side by side; counted: as of `ProgramValues`;
    equation: of how many numbers the input of the equations is that a step solves, None without any;
    products: numbers that describe them (see `CtrnnProgram` of source/rows.h); counts: how many products there are, and how many
    of the forward pass; calls: those of a method's attempt.
    """

    text: str
    sizes: list[int]
    kept: list[int]
    sums: list[tuple[int, int]]
    columns: bool = False
    lanes: bool = False
    counted: int | None = None
    products: list[int] = field(default_factory=list)
    counts: tuple[int, int] = (0, 0)
    calls: CallNumbers | None = None
    equation: int | None = None
