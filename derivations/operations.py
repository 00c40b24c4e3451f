r"""Readings of torch's tensor operations in SymPy, by their names: arrays of expressions in, arrays of expressions out."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any

import numpy as np
import sympy
from sympy import Abs, Eq, Integer, Rational, S, sign, tanh

__all__ = ["OPERATIONS", "Entries", "exact"]

Entries = np.ndarray[Any, np.dtype[np.object_]]


def exact(number: Any) -> Any:
    """The rational number that a float is; everything else as it comes."""
    if isinstance(number, float):
        if not isfinite(number):
            raise ValueError(f"the field's code contains the constant {number}, which is no real number.")
        return Rational(*number.as_integer_ratio())
    return Integer(number) if isinstance(number, int) else number


def _each(function: Callable[..., Any]) -> Callable[..., Entries]:
    """Entry by entry, with torch's broadcasting, which is numpy's."""
    over_all = np.frompyfunc(lambda *entries: function(*map(exact, entries)), _arity(function), 1)
    # frompyfunc gives a bare object for what has no axes.
    return lambda *arrays: np.asarray(over_all(*arrays), dtype=object)


def _arity(function: Callable[..., Any]) -> int:
    if function is _where:
        return 3
    return 2 if function in (operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, Eq) else 1


def _weighted(function: Callable[..., Any]) -> Callable[..., Entries]:
    """add and sub of torch: a + alpha b."""
    return lambda a, b, *, alpha=1: _each(function)(a, _each(operator.mul)(alpha, b))


def _linear(x: Entries, weight: Entries, bias: Entries | None = None) -> Entries:
    product = np.asarray(x @ weight.T, dtype=object)
    return product if bias is None else _each(operator.add)(product, bias)


def _split(x: Entries, sizes: list[int], dim: int = 0) -> list[Entries]:
    return np.split(x, np.cumsum(sizes)[:-1], axis=dim)


def _chunk(x: Entries, chunks: int, dim: int = 0) -> list[Entries]:
    # torch's chunks are of one size, but for a smaller last one: numpy's array_split shares out otherwise.
    width = -(-x.shape[dim] // chunks)
    return np.split(x, list(range(width, x.shape[dim], width)), axis=dim)


def _slice(x: Entries, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Entries:
    return np.moveaxis(np.moveaxis(x, dim, 0)[slice(start, end, step)], 0, dim)


def _full(shape: Iterable[int], value: Any) -> Entries:
    return np.full(tuple(shape), exact(value), dtype=object)


def _sum(x: Entries, dim: Any = None, keepdim: bool = False) -> Entries:
    axes = tuple(dim) if dim else None
    return np.asarray(np.sum(x, axis=axes, keepdims=keepdim, initial=S.Zero), dtype=object)


def _where(condition: Any, then: Any, otherwise: Any) -> Any:
    """`otherwise`, where the value singled out by an equation is the one that it has there anyway; else by cases."""

    def pick(cases: sympy.Piecewise) -> Any:
        return cases.args[-1].expr

    otherwise = otherwise.replace(lambda e: isinstance(e, sympy.Piecewise) and e.args[0].cond == condition, pick)
    if isinstance(condition, Eq) and otherwise.subs(condition.lhs, condition.rhs) == then:
        return otherwise
    return sympy.Piecewise((then, condition), (otherwise, True))


def _same(x: Entries, *_: Any, **__: Any) -> Entries:
    return x


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "aten.linear.default": _linear,
    "aten.matmul.default": lambda a, b: np.asarray(a @ b, dtype=object),
    "aten.mm.default": lambda a, b: np.asarray(a @ b, dtype=object),
    "aten.add.Tensor": _weighted(operator.add),
    "aten.sub.Tensor": _weighted(operator.sub),
    "aten.rsub.Scalar": lambda a, b: _each(operator.sub)(b, a),
    "aten.mul.Tensor": _each(operator.mul),
    "aten.div.Tensor": _each(operator.truediv),
    "aten.reciprocal.default": _each(lambda a: 1 / a),
    "aten.neg.default": _each(operator.neg),
    "aten.abs.default": _each(Abs),
    "aten.sign.default": _each(sign),
    "aten.square.default": _each(lambda a: a**2),
    "aten.pow.Tensor_Scalar": _each(operator.pow),
    "aten.pow.Tensor_Tensor": _each(operator.pow),
    "aten.eq.Scalar": _each(Eq),
    "aten.where.self": _each(_where),
    "aten.exp.default": _each(sympy.exp),
    "aten.log.default": _each(sympy.log),
    "aten.sqrt.default": _each(sympy.sqrt),
    "aten.sin.default": _each(sympy.sin),
    "aten.cos.default": _each(sympy.cos),
    "aten.tanh.default": _each(tanh),
    "aten.sigmoid.default": _each(lambda a: 1 / (1 + sympy.exp(-a))),
    "aten.log_sigmoid.default": _each(lambda a: -sympy.log(1 + sympy.exp(-a))),
    "aten.cat.default": lambda xs, dim=0: np.concatenate(xs, axis=dim),
    "aten.stack.default": lambda xs, dim=0: np.stack(xs, axis=dim),
    "aten.chunk.default": _chunk,
    "aten.split_with_sizes.default": _split,
    "aten.slice.Tensor": _slice,
    "aten.select.int": lambda x, dim, index: np.asarray(np.take(x, index, axis=dim), dtype=object),
    "aten.unsqueeze.default": np.expand_dims,
    "aten.transpose.int": np.swapaxes,
    "aten.t.default": lambda x: x.T,
    "aten.reshape.default": lambda x, shape: x.reshape(shape),
    "aten.view.default": lambda x, shape: x.reshape(shape),
    "aten.sum.dim_IntList": _sum,
    "aten.ones.default": lambda shape, **_: _full(shape, 1),
    "aten.zeros.default": lambda shape, **_: _full(shape, 0),
    "aten.full.default": lambda shape, value, **_: _full(shape, value),
    "aten.new_full.default": lambda x, shape, value, **_: _full(shape, value),
    "aten.full_like.default": lambda x, value, **_: _full(x.shape, value),
    "aten.ones_like.default": lambda x, **_: _full(x.shape, 1),
    "aten.zeros_like.default": lambda x, **_: _full(x.shape, 0),
    "aten.clone.default": _same,
    "aten.alias.default": _same,
    "aten.detach.default": _same,
    "aten.lift_fresh_copy.default": _same,
}
