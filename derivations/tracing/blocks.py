r"""Arrays of unknown size: values along axes that are cut into segments, one expression for all places of a segment.

    W of shape (3 n, m), cut as (n, n, n) x (m):   W(i_1, i_0),  W(n + i_1, i_0),  W(2 n + i_1, i_0)

i_0, i_1, ... are the places in a segment along the last axis, the one before, and so on. A sum over an axis of unknown length
is a letter of its own, total(summand, length), with the place summed over called k_1, k_2, ... by depth: equal summands make
equal letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy
from sympy import Add, Basic, Expr, Function, S, Symbol, expand_mul

from derivations.tracing.elementwise import ELEMENTWISE
from derivations.tracing.guarded import Entries, GuardedValue

__all__ = ["Blocks", "Unwide", "contracted", "each", "place", "total"]

TOTAL = Function("total", real=True)


class Unwide(Exception):  # noqa: N818 - no error: a proof for all widths is not to be had this way
    """The program does something that is not followed at unknown sizes."""


def place(axis: int) -> Symbol:
    """The place along an axis, counted from the last one as 0."""
    return Symbol(f"i_{axis}", integer=True, nonnegative=True)


def total(e: Expr, along: Symbol, length: Expr) -> Expr:
    """The sum of e over along = 0, ..., length - 1, taken apart as far as sums are linear."""
    terms = S.Zero
    for term in Add.make_args(expand_mul(e, deep=False)):
        factor, summand = term.as_independent(along, as_Add=False)
        bound = Symbol(f"k_{_depth(summand) + 1}", integer=True, nonnegative=True)
        terms += factor * (length if summand == 1 else TOTAL(summand.xreplace({along: bound}), length))
    return terms


def _depth(e: Basic) -> int:
    return max((int(u.name[2:]) for u in e.free_symbols if u.name.startswith("k_")), default=0)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Segments' lengths for each axis, and a value for each combination of segments."""

    axes: tuple[tuple[Expr, ...], ...]
    values: Entries

    @staticmethod
    def of(e: Expr, shape: Sequence[Expr]) -> Blocks:
        values = np.empty((1,) * len(shape), dtype=object)
        values[(0,) * len(shape)] = GuardedValue(e)
        return Blocks(tuple((sympy.sympify(n),) for n in shape), values)

    @property
    def shape(self) -> tuple[Expr, ...]:
        return tuple(sympy.expand(sum(segments)) for segments in self.axes)

    def renamed(self, letters: dict[Any, Any]) -> Entries:
        def rename(v: GuardedValue) -> GuardedValue:
            return GuardedValue(v.expr.xreplace(letters), frozenset(c.xreplace(letters) for c in v.where))

        return np.asarray(np.frompyfunc(rename, 1, 1)(self.values), dtype=object)

    def permuted(self, order: Sequence[int]) -> Blocks:
        """Axis k of the result is axis order[k]."""
        rank = len(self.axes)
        letters = {place(rank - 1 - old): place(rank - 1 - new) for new, old in enumerate(order)}
        return Blocks(tuple(self.axes[k] for k in order), np.transpose(self.renamed(letters), order))

    def reshaped(self, shape: Sequence[Expr]) -> Blocks:
        """Axes of length 1 put in or left out; nothing else is followed."""
        old = [k for k, n in enumerate(self.shape) if n != 1]
        new = [k for k, n in enumerate(shape) if n != 1]
        if [self.shape[k] for k in old] != [shape[k] for k in new]:
            raise Unwide(f"a reshape of {self.shape} to {tuple(shape)}")
        letters = {place(len(self.axes) - 1 - a): place(len(shape) - 1 - b) for a, b in zip(old, new, strict=True)}
        axes = [(S.One,)] * len(shape)
        for a, b in zip(old, new, strict=True):
            axes[b] = self.axes[a]
        return Blocks(tuple(axes), self.renamed(letters).reshape([len(segments) for segments in axes]))

    def cut(self, axis: int, segments: Sequence[Expr]) -> Blocks:
        """One segment along an axis cut into several."""
        if self.axes[axis] == tuple(segments):
            return self
        if len(self.axes[axis]) > 1 or sympy.expand(self.axes[axis][0] - sum(segments)) != 0:
            raise Unwide(f"an axis of segments {self.axes[axis]} cut as {tuple(segments)}")
        here, start, parts = place(len(self.axes) - 1 - axis), S.Zero, []
        for length in segments:
            parts.append(self.renamed({here: start + (here if length != 1 else 0)}))
            start += length
        axes = (*self.axes[:axis], tuple(segments), *self.axes[axis + 1 :])
        return Blocks(axes, np.concatenate(parts, axis=axis))

    def summed(self, axis: int) -> Blocks:
        """The sum over an axis, which stays with length 1."""
        along, parts = place(len(self.axes) - 1 - axis), []
        for length, values in zip(self.axes[axis], np.split(self.values, len(self.axes[axis]), axis), strict=True):
            if length != 1 and any(along in c.free_symbols for v in values.reshape(-1) for c in v.where):
                raise Unwide("a condition on every term of a sum")
            fold = (lambda v: v) if length == 1 else (lambda v, n=length: GuardedValue(total(v.expr, along, n), v.where))
            parts.append(np.asarray(np.frompyfunc(fold, 1, 1)(values), dtype=object))
        axes = (*self.axes[:axis], (S.One,), *self.axes[axis + 1 :])
        return Blocks(axes, sum(parts[1:], parts[0]))


def each(name: str, arguments: Sequence[object], keywords: dict[str, Any]) -> Blocks:
    """An operation on single entries, with torch's broadcasting."""
    rank = max(len(b.axes) for b in arguments if isinstance(b, Blocks))
    wide = [_padded(b, rank) if isinstance(b, Blocks) else b for b in arguments]
    axes = []
    for axis in range(rank):
        cuts = [b.axes[axis] for b in wide if isinstance(b, Blocks)]
        finest = max(cuts, key=lambda segments: (segments != (S.One,), len(segments)))
        wide = [b.cut(axis, finest) if isinstance(b, Blocks) and b.axes[axis] != (S.One,) else b for b in wide]
        axes.append(finest)
    values = ELEMENTWISE[name](*(b.values if isinstance(b, Blocks) else b for b in wide), **keywords)
    return Blocks(tuple(axes), values)


def _padded(b: Blocks, rank: int) -> Blocks:
    missing = rank - len(b.axes)
    return Blocks(((S.One,),) * missing + b.axes, b.values.reshape((1,) * missing + b.values.shape))


def contracted(a: Blocks, b: Blocks) -> Blocks:
    """a (..., i, k) and b (..., j, k), summed over k: (..., i, j)."""
    left = a.reshaped((*a.shape[:-1], S.One, a.shape[-1])) if len(a.axes) > 1 else a
    right = b.reshaped((*b.shape[:-2], S.One, *b.shape[-2:])) if len(b.axes) > 1 else b
    product = each("mul", (left, right), {})
    summed = product.summed(len(product.axes) - 1)
    return summed.reshaped(summed.shape[:-1])
