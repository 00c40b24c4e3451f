r"""Read a recorded program in SymPy: a value for each unit of the result."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from sympy import Expr, Integer
from torch.fx import Node

from derivations.tracing.elementwise import ELEMENTWISE
from derivations.tracing.guarded import Entries, GuardedValue, exact, is_truth, number
from derivations.tracing.operations import ARRAYS, MADE, has_reading
from derivations.tracing.samples import check_samples
from discretize import compat
from discretize.kernels.record.recording import SAME_NUMBERS, ModuleRecord, UnknownOperation, operation_name, source_line

__all__ = ["UnknownOperation", "read", "values_of"]

# Where and how numbers are stored; a type that changes them is seen at the result.
WITHOUT_MEANING = {"dtype", "layout", "device", "pin_memory", "memory_format", "implicit", "out_dtype"}
Result: TypeAlias = Entries | list[Entries] | None


def read(program: ModuleRecord, letters: Mapping[str, object]) -> list[GuardedValue]:
    r"""Read what a program computes for one sample, unit by unit.

    Args:    letters: by names of parameters and of placeholders of inputs, arrays of SymPy letters.
    Raises:  ValueError where samples are mixed or drawn at random; `UnknownOperation`, with the line of code.
    """
    values = values_of(program, letters)
    return [v for leaf in program.returned for v in values[leaf.name].reshape(-1)]


def values_of(program: ModuleRecord, letters: Mapping[str, object]) -> dict[str, Any]:
    """Read all that a program computes for one sample, by names of its nodes. Raises: as `read`."""
    for node in program.graph.nodes:  # first, for an unknown operation is to be named and not said to mix samples
        if node.op == "call_function" and node.target is not operator.getitem:
            _check_known(node)
    if program.asked:
        raise ValueError(
            f"the code takes batches of certain sizes only: it, or an operation of torch in it, asks whether {program.asked}"
            f"{program.asked_at}; it must act on each sample by itself."
        )
    if program.any_batch:
        check_samples(program)
    values: dict[str, Any] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            values[node.name] = _given(program, node.name, letters)
        elif node.op == "call_function":
            values[node.name] = _typed(node, _apply(node, values))
    return values


def _check_known(node: Node) -> None:
    name = operation_name(node)
    if isinstance(node.target, compat.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags:
        raise ValueError(f"the code draws random numbers ({name}): {source_line(node)}. Call `module.eval()` if it is dropout.")
    overload = getattr(node.target, "_overloadname", "")
    if not (has_reading(name, overload) or _is_conversion(node)) and isinstance(
        node.meta.get("val"), torch.Tensor | tuple | list
    ):
        raise UnknownOperation(
            f"{node.target} has no reading in SymPy: {source_line(node)}. Write it with operations that have one, "
            f"or add it to derivations/tracing/operations.py."
        )


def _is_conversion(node: Node) -> bool:
    """Return whether an operation converts to another floating point type, which is rounding only."""
    target = node.kwargs.get("dtype") if operation_name(node) in ("_to_copy", "to") else None
    return isinstance(target, torch.dtype) and target.is_floating_point


def _given(program: ModuleRecord, name: str, letters: Mapping[str, object]) -> Entries | None:
    if name in program.constants:
        if program.constants[name].is_meta:
            raise ValueError("the module has buffers on the meta device, which have no values.")
        tensor = program.constants[name].detach().cpu()
        return _values([exact(entry) for entry in tensor.reshape(-1).tolist()], tuple(tensor.shape))
    array = np.asarray(letters[program.parameters.get(name, name)], dtype=object)
    return _values(array.reshape(-1), array.shape if name in program.parameters else (1, array.size))


def _values(entries: Sequence[Expr] | np.ndarray, shape: tuple[int, ...]) -> Entries:
    array = np.empty(len(entries), dtype=object)
    array[:] = [GuardedValue(entry) for entry in entries]
    return array.reshape(shape)


def _apply(node: Node, values: Mapping[str, Any]) -> Result:
    """Apply one operation to a batch of one sample."""
    name = operation_name(node)
    shape = tuple(1 if isinstance(n, torch.SymInt) else n for n in getattr(node.meta.get("val"), "shape", ()))
    if node.target is not operator.getitem and not isinstance(node.meta.get("val"), torch.Tensor | tuple | list):
        return None  # the size of the batch, or an assertion: shapes are read off the results
    arguments, keywords = cast(Any, torch.fx.node.map_arg((node.args, node.kwargs), lambda other: values[other.name]))
    keywords = {key: value for key, value in keywords.items() if key not in WITHOUT_MEANING}
    if node.target is operator.getitem:
        return arguments[0][arguments[1]]
    try:
        if name in MADE:
            return np.full(shape, GuardedValue(exact(_bare(MADE[name](*arguments)))), dtype=object)
        if name in SAME_NUMBERS or _is_conversion(node):
            return np.broadcast_to(arguments[0], shape) if name == "expand" else arguments[0].reshape(shape)
        return cast(Any, ELEMENTWISE.get(name) or ARRAYS[name])(*arguments, **keywords)
    except (TypeError, NotImplementedError, AttributeError) as error:
        raise UnknownOperation(f"{node.target} has no reading in SymPy with these arguments: {source_line(node)}.") from error


def _typed(node: Node, result: Result) -> Result:
    """Return the result if it fits torch's dtype: truth values do not add up, and numbers are not rounded to integers."""
    dtype = getattr(node.meta.get("val"), "dtype", None)
    if not isinstance(result, np.ndarray) or dtype is None:
        return result
    if dtype.is_floating_point and _is_conversion(node):
        return np.asarray(np.frompyfunc(lambda v: GuardedValue(number(v.expr), v.where), 1, 1)(result), dtype=object)
    if not dtype.is_floating_point:
        fits = is_truth if dtype == torch.bool else (lambda e: _is_whole(e, dtype))
        if dtype.is_complex or not all(fits(v.expr) for v in result.reshape(-1)):
            raise UnknownOperation(f"{node.target} has no reading in SymPy as {dtype}: {source_line(node)}.")
    return result


def _is_whole(e: Expr, dtype: torch.dtype) -> bool:
    """Return whether an integer fits a dtype: beyond its range torch wraps around."""
    if is_truth(e) or not e.is_integer:
        return False
    least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    if e.is_number:
        return bool(least <= e <= most)
    return dtype == torch.int64 and all(abs(a) <= most for a in e.atoms(Integer))  # counts of what is true


def _bare(value: Entries | float) -> Expr | float:
    return value.reshape(-1)[0].expr if isinstance(value, np.ndarray) else value
