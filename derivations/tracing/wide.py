r"""Prove a module for every width: a program recorded at unknown sizes, against equations for the i-th unit.

    r = sigma(W x + b):     Eq(r[i], sigma(sum_k W[i, k] x[k] + b[i])),    W of n x m, for all n and m

torch records the module with weights of the shapes that the equations give them, in letters; the sizes may be anything from
2 on if it asks nothing of them on the way. Sums over units are taken apart by linearity, and equal where their terms are.

What a certificate shows, and what is trusted: the equation of the i-th unit is one between numbers, in which W(i_0, k_1) is an
entry of W and total(e, n) the sum of e over k_1 = 0, ..., n - 1. To the checker these are letters that may be any real numbers;
that both sides are equal for all of them it sees by itself. That products of matrices are these totals, where blocks of a matrix
begin, and that torch's record is for all sizes, is the work of this file and of `blocks` and `recorded`, and is trusted.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import sympy
import torch
from sympy import Basic, Expr, Function, S, Sum
from sympy.matrices.expressions.matexpr import MatrixElement
from torch import nn
from torch.fx import Node

from derivations.prover.verdict import Verdict
from derivations.tracing.blocks import Blocks, Unwide, contracted, each, place, total
from derivations.tracing.decision import decide
from derivations.tracing.elementwise import ELEMENTWISE
from derivations.tracing.guarded import conditions_of, exact
from derivations.tracing.operations import MADE
from derivations.tracing.recorded import check_widths, record_wide
from derivations.tracing.remade import MADE_AT, which_numbers
from derivations.tracing.samples import check_samples
from derivations.tracing.sizes import matrices
from derivations.twins.cells import UnitEquations
from discretize.kernels.record.recording import SAME_NUMBERS, ModuleRecord, operation_name

__all__ = ["certificates_for_every_width"]

Sizes = Mapping[Expr, Expr]  # of torch's symbols, the letters of the equations


def certificates_for_every_width(module: nn.Module, equations: UnitEquations) -> tuple[tuple[Any, ...], str]:
    r"""Prove that the equations hold at unknown sizes; return a certificate for the i-th unit of each part of the state, and
    which numbers of the module are held, in words.

    Raises:  `Unwide` where that was not proved, with the reason.
    """
    try:
        program, sizes = record_wide(module, matrices(equations), equations.inputs)
        steps = tuple(step for verdict in _decided(module, equations, program, sizes) for step in verdict.certificate)
        check_widths(module, matrices(equations), equations.inputs, program)
        return steps, which_numbers(module, equations, program)
    except Unwide as reason:
        raise Unwide(reason if str(reason).startswith(MADE_AT) else f"not followed at unknown sizes: {reason}") from reason
    except (ValueError, NotImplementedError, AttributeError, TypeError, RuntimeError) as reason:
        words = str(reason).splitlines()[0] if str(reason) else type(reason).__name__
        raise Unwide(f"not followed at unknown sizes: {words}") from reason


def _decided(module: nn.Module, equations: UnitEquations, program: ModuleRecord, sizes: Sizes) -> Iterator[Verdict]:
    check_samples(program)
    values = _read(program, sizes)
    for leaf, rhs in zip(program.returned, equations.units.values(), strict=True):
        result = values[leaf.name]
        if result.values.size > 1:
            raise Unwide("a state put together from parts")
        (value,) = result.values.reshape(-1)
        claimed = _as_read(rhs.xreplace({equations.index: place(0)}), module)
        verdict = decide([value.expr], [claimed], {*value.where, *conditions_of(claimed)})
        if verdict.holds is not True:
            raise Unwide("it was not decided")
        yield verdict


def _as_read(e: Basic, module: nn.Module) -> Expr:
    """Write entries of matrices as functions of their places, and sums as totals, from the inside out."""
    vectors = {name for name, p in module.named_parameters() if p.dim() == 1}
    if isinstance(e, MatrixElement):
        matrix, row, column = e.args
        short = column == 0 and (matrix.name in vectors or matrix.name not in dict(module.named_parameters()))
        return Function(matrix.name, real=True)(*((row,) if short else (row, column)))
    if isinstance(e, Sum):
        inner = _as_read(e.function, module)
        for along, low, high in e.limits:
            inner = total(inner.xreplace({along: along + low}) if low != 0 else inner, along, sympy.expand(high - low + 1))
        return inner
    return e.func(*(_as_read(a, module) for a in e.args)) if e.args else e


def _read(program: ModuleRecord, sizes: Sizes) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            shape = _shape(node, sizes)
            places = [place(len(shape) - 1 - axis) if n != 1 else S.Zero for axis, n in enumerate(shape)]
            inputs = {name for names in program.inputs.values() for name in names}
            letter = Function(program.parameters[node.name], real=True)(*(places[1:] if node.name in inputs else places))
            values[node.name] = Blocks.of(letter, shape)
        elif node.op == "call_function":
            values[node.name] = _apply(node, values, sizes)
    return values


def _shape(node: Any, sizes: Sizes) -> tuple[Expr, ...]:
    value = node.meta["val"] if isinstance(node, Node) else node
    return tuple(_size(n, sizes) for n in value.shape)


def _size(n: int | torch.SymInt, sizes: Sizes) -> Expr:
    """Write a length in the letters of the equations; the batch is one sample."""
    return sympy.expand(n.node.expr.xreplace(sizes)) if isinstance(n, torch.SymInt) else sympy.Integer(n)


def _apply(node: Node, values: Mapping[str, Any], sizes: Sizes) -> Any:
    name, value = operation_name(node), node.meta.get("val")
    if isinstance(value, torch.SymInt):
        return _size(value, sizes)
    arguments: Any = torch.fx.node.map_arg(node.args, lambda other: values[other.name])
    if node.target is operator.getitem:
        return arguments[0][arguments[1]]
    keywords = {k: v for k, v in node.kwargs.items() if k in ("alpha", "approximate", "min", "max")}
    if name in ELEMENTWISE:
        return each(name, arguments, cast(Any, torch.fx.node.map_arg(keywords, lambda other: values[other.name])))
    if name in MADE or name == "expand":
        made = Blocks.of(S.Zero if name == "expand" else exact(MADE[name](*arguments)), _shape(node, sizes))
        return each("add", (arguments[0], made), {}) if name == "expand" else made
    if name not in WIDE and name not in SAME_NUMBERS:
        raise Unwide(f"{node.target}")
    return arguments[0].reshaped(_shape(node, sizes)) if name in SAME_NUMBERS else WIDE[name](node, sizes, *arguments)


def _split(node: Node, sizes: Sizes, x: Blocks, _: object, dim: int = 0) -> list[Blocks]:
    axis = dim % len(x.axes)
    segments = tuple(_shape(part, sizes)[axis] for part in node.meta["val"])
    whole = x.cut(axis, segments)
    return [_segment(whole, axis, k) for k in range(len(segments))]


def _segment(x: Blocks, axis: int, k: int) -> Blocks:
    return Blocks((*x.axes[:axis], (x.axes[axis][k],), *x.axes[axis + 1 :]), np.take(x.values, [k], axis=axis))


def _slice(node: Node, sizes: Sizes, x: Blocks, dim: int = 0, start: int = 0, end: int | None = None, step: int = 1) -> Blocks:
    if step != 1:
        raise Unwide(f"a slice in steps of {step}")
    axis = dim % len(x.axes)
    length, whole = _shape(node, sizes)[axis], x.shape[axis]
    if length == whole:
        return x
    segments = (sympy.sympify(start or 0), length, sympy.expand(whole - (start or 0) - length))
    lengths = [n for n in segments if n != 0]
    return _segment(x.cut(axis, lengths), axis, 0 if segments[0] == 0 else 1)


def _cat(node: Node, sizes: Sizes, parts: list[Blocks], dim: int = 0) -> Blocks:
    axis = dim % len(parts[0].axes)
    if len({(p.axes[:axis], p.axes[axis + 1 :]) for p in parts}) > 1:
        raise Unwide("parts put together that are cut otherwise along another axis")
    axes = (*parts[0].axes[:axis], tuple(n for p in parts for n in p.axes[axis]), *parts[0].axes[axis + 1 :])
    return Blocks(axes, np.concatenate([p.values for p in parts], axis=axis))


def _sum(node: Node, sizes: Sizes, x: Blocks, dims: Sequence[int] | None = None, *_: object) -> Blocks:
    for axis in range(len(x.axes)) if dims is None or dims == [] else [d % len(x.axes) for d in dims]:
        x = x.summed(axis)
    return x.reshaped(_shape(node, sizes))


def _mean(node: Node, sizes: Sizes, x: Blocks, dims: Sequence[int] | None = None, *_: object) -> Blocks:
    total_sum = _sum(node, sizes, x, dims)
    count = sympy.prod([x.shape[d] for d in (range(len(x.axes)) if dims is None else dims)])
    return each("div", (total_sum, Blocks.of(count, ())), {})


def _plus_product(node: Node, sizes: Sizes, c: Blocks, a: Blocks, b: Blocks) -> Blocks:
    if {"alpha", "beta"} & set(node.kwargs):
        raise Unwide(f"{node.target} with factors")
    return each("add", (_product(node, sizes, a, b), c), {})


def _product(node: Node, sizes: Sizes, a: Blocks, b: Blocks) -> Blocks:
    order = [*range(len(b.axes) - 2), len(b.axes) - 1, len(b.axes) - 2]
    return contracted(a, b.permuted(order)).reshaped(_shape(node, sizes))


WIDE: Mapping[str, Any] = {
    "mm": _product,
    "bmm": _product,
    "addmm": _plus_product,
    "split": _split,
    "split_with_sizes": _split,
    "slice": _slice,
    "cat": _cat,
    "sum": _sum,
    "mean": _mean,
    "log_sigmoid_forward": lambda node, sizes, x: [each("log_sigmoid", (x,), {}), None],
    "permute": lambda node, sizes, x, order: x.permuted([k % len(x.axes) for k in order]),
    "t": lambda node, sizes, x: x.permuted(range(len(x.axes))[::-1]),
    "transpose": lambda node, sizes, x, a, b: x.permuted(_exchanged(len(x.axes), a, b)),
}


def _exchanged(rank: int, a: int, b: int) -> list[int]:
    order = list(range(rank))
    order[a], order[b] = order[b], order[a]
    return order
