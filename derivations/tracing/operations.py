r"""Readings of torch's tensor operations in SymPy, by their names: arrays of values in, arrays of values out.

entry by entry     `derivations.tracing.elementwise`
arrays             a function of arrays
the same numbers   in another shape: that which torch recorded for the result
made               an array of one number, in the shape that torch recorded
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from sympy import Integer

from derivations.tracing.elementwise import ELEMENTWISE
from derivations.tracing.guarded import Entries, GuardedValue
from discretize.kernels.record.recording import FILLED, FILLED_BY, SAME_NUMBERS

__all__ = ["ARRAYS", "MADE", "has_reading"]

MOST_SORTED = 4  # entries; of more, torch's order is refused: the expressions grow as 2^n
Dims = int | Sequence[int] | None  # of a reduction


def _fold(function: Callable[[Entries, Entries], Entries]) -> Callable[..., Entries]:
    """Make a reduction over axes, over all of them where none is given."""

    def folded(x: Entries, dim: Dims = None, keepdim: bool = False, **_: object) -> Entries:
        axes = _axes(x, dim)
        if not axes:
            return x
        moved = np.moveaxis(x, axes, range(len(axes)))
        rows = moved.reshape(prod(moved.shape[: len(axes)]), *moved.shape[len(axes) :])
        folded_rows = np.asarray(reduce(function, rows), dtype=object)
        return np.expand_dims(folded_rows, axes) if keepdim else folded_rows

    return folded


def _axes(x: Entries, dim: Dims) -> tuple[int, ...]:
    dims = range(x.ndim) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    return tuple(axis % x.ndim for axis in dims)


_sum = _fold(operator.add)
_most, _least = ELEMENTWISE["maximum"], ELEMENTWISE["minimum"]
_max, _min = _fold(_most), _fold(_least)


def _mean(x: Entries, dim: Dims = None, keepdim: bool = False, **_: object) -> Entries:
    return ELEMENTWISE["div"](_sum(x, dim, keepdim), prod(x.shape[axis] for axis in _axes(x, dim)))


def _variance(x: Entries, dim: Dims = None, *, correction: float = 1, keepdim: bool = False) -> Entries:
    squares = ELEMENTWISE["square"](ELEMENTWISE["sub"](x, _mean(x, dim, True)))
    return ELEMENTWISE["div"](_sum(squares, dim, keepdim), prod(x.shape[axis] for axis in _axes(x, dim)) - correction)


def _softmax(x: Entries, dim: int, _: bool = False) -> Entries:
    weights = ELEMENTWISE["exp"](x)
    return ELEMENTWISE["div"](weights, _sum(weights, dim, True))


def _log_sum_exp(x: Entries, dim: Dims, keepdim: bool = False) -> Entries:
    return ELEMENTWISE["log"](_sum(ELEMENTWISE["exp"](x), dim, keepdim))


def _norm(x: Entries, order: float = 2, dim: Dims = None, keepdim: bool = False, **_: object) -> Entries:
    sizes = ELEMENTWISE["abs"](x)
    if order in (float("inf"), 1):
        return (_max if order != 1 else _sum)(sizes, dim, keepdim)
    if order != 2:
        raise NotImplementedError
    return ELEMENTWISE["sqrt"](_sum(ELEMENTWISE["square"](x), dim, keepdim))


def _layer_norm(
    x: Entries, shape: Sequence[int], weight: Entries | None, bias: Entries | None, eps: float
) -> list[Entries | None]:
    axes = list(range(x.ndim - len(shape), x.ndim))
    spread = ELEMENTWISE["add"](_variance(x, axes, correction=0, keepdim=True), eps)
    normal = ELEMENTWISE["mul"](ELEMENTWISE["sub"](x, _mean(x, axes, True)), ELEMENTWISE["rsqrt"](spread))
    normal = normal if weight is None else ELEMENTWISE["mul"](normal, weight)
    return [normal if bias is None else ELEMENTWISE["add"](normal, bias), None, None]


def _batch_norm(
    x: Entries, weight: Entries | None, bias: Entries | None, mean: Entries, variance: Entries, _: float, eps: float
) -> list[Entries | None]:
    """By numbers that the module keeps, in evaluation mode; units are along axis 1."""
    shape = [1, -1, *[1] * (x.ndim - 2)]
    mean, spread = mean.reshape(shape), ELEMENTWISE["rsqrt"](ELEMENTWISE["add"](variance, eps)).reshape(shape)
    normal = ELEMENTWISE["mul"](ELEMENTWISE["sub"](x, mean), spread)
    normal = normal if weight is None else ELEMENTWISE["mul"](normal, weight.reshape(shape))
    return [normal if bias is None else ELEMENTWISE["add"](normal, bias.reshape(shape)), None, None]


def _log_sigmoid(x: Entries) -> list[Entries]:
    """And e^-|x|, which torch keeps for the gradient."""
    return [ELEMENTWISE["log_sigmoid"](x), ELEMENTWISE["exp"](ELEMENTWISE["neg"](ELEMENTWISE["abs"](x)))]


def _product(a: Entries, b: Entries) -> Entries:
    return np.asarray(np.matmul(a, b) if a.ndim and b.ndim else a * b, dtype=object)


def _plus_product(c: Entries, a: Entries, b: Entries, *, beta: float = 1, alpha: float = 1) -> Entries:
    scaled = ELEMENTWISE["mul"](_product(a, b), alpha)
    return ELEMENTWISE["add"](scaled, c if beta == 1 else ELEMENTWISE["mul"](c, beta))


def _split(x: Entries, size: int | list[int], dim: int = 0) -> list[Entries]:
    # torch's parts are of one size, but for a smaller last one: numpy's array_split shares out otherwise.
    ends = np.cumsum(size)[:-1] if isinstance(size, list | tuple) else range(size, x.shape[dim], size)
    return np.split(x, list(ends), axis=dim)


def _slice(x: Entries, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Entries:
    return np.moveaxis(np.moveaxis(x, dim, 0)[slice(start, end, step)], 0, dim)


def _slice_scatter(
    x: Entries, part: Entries, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Entries:
    whole = x.copy()
    np.moveaxis(whole, dim, 0)[slice(start, end, step)] = np.moveaxis(part, dim, 0)
    return whole


def _select_scatter(x: Entries, part: Entries, dim: int, index: int) -> Entries:
    whole = x.copy()
    np.moveaxis(whole, dim, 0)[index] = part
    return whole


def _integers(x: Entries) -> npt.NDArray[np.int_]:
    return np.asarray(np.vectorize(lambda v: int(v.expr), otypes=[int])(x))


def _index(x: Entries, indices: Iterable[Entries | None]) -> Entries:
    return x[tuple(slice(None) if i is None else _integers(i) for i in indices)]


def _gather(x: Entries, dim: int, index: Entries, sparse_grad: bool = False) -> Entries:
    """Only by positions that are numbers of the code; torch takes the first entries along the other axes."""
    axis = dim % x.ndim
    first = tuple(slice(None) if k == axis else slice(n) for k, n in enumerate(index.shape))
    return np.asarray(np.take_along_axis(x[first], _integers(index), axis), dtype=object)


def _ranked(x: Entries, dim: int) -> Entries:
    """Sort a few entries: the k-th smallest is the least of the largest of every k entries."""
    rows = np.moveaxis(x, dim, 0)
    if len(rows) > MOST_SORTED:
        raise NotImplementedError
    ranks = (reduce(_least, [reduce(_most, some) for some in combinations(rows, k)]) for k in range(1, len(rows) + 1))
    return np.moveaxis(np.asarray(list(ranks), dtype=object).reshape(rows.shape), 0, dim)


def _sort(x: Entries, dim: int = -1, descending: bool = False, **_: object) -> list[Entries | None]:
    ranked = _ranked(x, dim)
    return [np.flip(ranked, dim) if descending else ranked, None]


def _topk(x: Entries, k: int, dim: int = -1, largest: bool = True, in_order: bool = True) -> list[Entries | None]:
    if not in_order:
        raise NotImplementedError
    return [_slice(_sort(x, dim, largest)[0], dim, 0, k), None]  # type: ignore[arg-type]


def _median(x: Entries, dim: int, keepdim: bool = False) -> list[Entries | None]:
    middle = (x.shape[dim] - 1) // 2
    median = _slice(_ranked(x, dim), dim, middle, middle + 1)
    return [median if keepdim else np.squeeze(median, dim), None]


def _roll(x: Entries, shifts: int | Sequence[int], dims: Sequence[int] = ()) -> Entries:
    return np.roll(x, shifts, axis=tuple(dims) or None)


ARRAYS: Mapping[str, Callable[..., Any]] = {
    "mm": _product,
    "bmm": _product,
    "mv": _product,
    "dot": _product,
    "addmm": _plus_product,
    "baddbmm": _plus_product,
    "sum": _sum,
    "mean": _mean,
    "prod": _fold(operator.mul),
    "amax": _max,
    "amin": _min,
    "max": lambda x, dim=None, keepdim=False: _max(x, dim, keepdim) if dim is None else [_max(x, dim, keepdim), None],
    "min": lambda x, dim=None, keepdim=False: _min(x, dim, keepdim) if dim is None else [_min(x, dim, keepdim), None],
    "var": _variance,
    "cumsum": lambda x, dim: np.add.accumulate(x, axis=dim, dtype=object),
    "_softmax": _softmax,
    "_log_softmax": lambda x, dim, _=False: ELEMENTWISE["sub"](x, _log_sum_exp(x, dim, True)),
    "logsumexp": _log_sum_exp,
    "linalg_vector_norm": _norm,
    "native_layer_norm": _layer_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "log_sigmoid_forward": _log_sigmoid,
    "cat": lambda xs, dim=0: np.concatenate(xs, axis=dim),
    "stack": lambda xs, dim=0: np.stack(xs, axis=dim),
    "split": _split,
    "split_with_sizes": _split,
    "slice": _slice,
    "slice_scatter": _slice_scatter,
    "select_scatter": _select_scatter,
    "copy": lambda x, other, *_: np.broadcast_to(other, x.shape),
    "gather": _gather,
    "sort": _sort,
    "topk": _topk,
    "median": _median,
    "select": lambda x, dim, index: np.asarray(np.take(x, index, axis=dim), dtype=object),
    "flip": np.flip,
    "roll": _roll,
    "index": _index,
    "index_select": lambda x, dim, index: np.take(x, _integers(index), axis=dim),
    "arange": lambda *limits: np.array([GuardedValue(Integer(k)) for k in range(*limits)], dtype=object),
    "permute": np.transpose,
    "transpose": np.swapaxes,
    "t": lambda x: x.T,
}

# Tensors out of nothing but a shape: what is the number in them.
MADE: Mapping[str, Callable[..., Any]] = {
    **{name: lambda *arguments, place=place: arguments[place] for name, place in FILLED_BY.items()},
    **{name: lambda *_, number=number: number for name, number in FILLED.items()},
}


def has_reading(name: str, overload: str) -> bool:
    """Return whether an operation has a reading; `view` as another dtype has none."""
    return (name, overload) != ("view", "dtype") and any(name in table for table in (ELEMENTWISE, ARRAYS, SAME_NUMBERS, MADE))
