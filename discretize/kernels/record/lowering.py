r"""A recorded graph read: every operation as a value of a sample, as a sum over samples, or as what comes before or after."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from discretize.kernels.record.functions import FUNCTIONS
from discretize.kernels.record.operations.arithmetic import ARITHMETIC
from discretize.kernels.record.operations.layout import LAYOUT
from discretize.kernels.record.operations.products import PRODUCTS
from discretize.kernels.record.operations.reader import Reader
from discretize.kernels.record.operations.sums import SUMS
from discretize.kernels.record.recording import operation_name
from discretize.kernels.record.values import Value
from discretize.kernels.record.zones import SumOverSamples, Zones

__all__ = ["is_known", "zones_of"]

OPERATIONS = {**ARITHMETIC, **PRODUCTS, **SUMS, **LAYOUT}
COUNTS = {"sum", "_to_copy", "where"}  # in whole numbers
VIEWS = {"view", "reshape", "_unsafe_view"}
# Of the same names as what is read, and something else.
OTHERS = {
    *(("view", "dtype"), ("div", "Tensor_mode"), ("div", "Scalar_mode"), ("round", "decimals")),
    *(("var", "dim"), ("var_mean", "dim")),
}


def is_known(name: str, overload: str) -> bool:
    """Whether an operation is read as it is."""
    return (name, overload) not in OTHERS and (name in FUNCTIONS or name in OPERATIONS)


def zones_of(graph: Graph, samples: Mapping[str, str], dtype: torch.dtype) -> Zones:
    r"""Read a graph.

    Args:    samples: by placeholder of what each sample has its own of, "x", "h", "dt" or "cotangent"; dtype: of the samples.
    Raises:  Unknown, with the line of code.
    """
    zones = Zones(graph, dtype)
    for node in graph.nodes:
        if node.op == "placeholder" and node.name in samples:
            zones.rows[node] = zones.values.make(samples[node.name], width=node.meta["val"].shape[-1])
        elif node.op == "call_function" and any(source in zones.rows or source in zones.after for source in node.all_input_nodes):
            _read(zones, dtype, node)
    return zones


def _read(zones: Zones, dtype: torch.dtype, node: Node) -> None:
    reader = Reader(zones, dtype, node)
    if any(source in zones.after for source in node.all_input_nodes):
        if any(zones.rows.get(source) is not None for source in node.all_input_nodes):
            raise reader.unknown("it mixes samples")
        zones.after.add(node)
        return
    found = _result(reader, node)
    if isinstance(found, SumOverSamples):
        zones.sums[node] = found
        zones.after.add(node)
    else:
        zones.rows[node] = found
        _note_order(zones, reader, node)


def _note_order(zones: Zones, reader: Reader, node: Node) -> None:
    """Where numbers of a sample lie along the batch's axis, in which order they do, to refuse other orders beside it."""
    if not isinstance(zones.rows[node], Value) or not reader.sizes() or reader.sizes()[reader.batch()] == 1:
        return
    read = node.all_input_nodes if node.target is not operator.getitem else node.all_input_nodes[0].all_input_nodes
    sources = [source for source in read if isinstance(zones.rows.get(source), Value) and reader.sizes(source)]
    if operation_name(node) in VIEWS:
        sources = sources[:1]
        found = {reader.outside(source) * reader.inside(source) // reader.outside(node) for source in sources}
    else:
        found = {reader.inside(source) for source in sources if reader.sizes(source)[reader.batch(source)] != 1}
    if len(found) > 1:
        raise reader.unknown("it mixes samples")
    zones.inside[node] = found.pop() if found else 1


def _result(reader: Reader, node: Node) -> Any:
    value, name = node.meta.get("val"), operation_name(node)
    if isinstance(value, torch.SymInt | int):
        return None  # the size of the batch
    if node.target is operator.getitem:
        source, place = node.args
        return reader.own(source)[place]
    known = {reader.dtype, torch.bool, *((torch.int64,) if name in COUNTS else ())}
    if isinstance(value, Tensor) and value.dtype not in known:
        raise reader.unknown(f"it computes in {str(value.dtype).removeprefix('torch.')}")
    if not is_known(name, str(node.target).rpartition(".")[2]):
        raise reader.unknown("no kernel is written for it")
    if name in OPERATIONS:
        return OPERATIONS[name](reader, *node.args, **node.kwargs)
    if node.kwargs:
        raise reader.unknown(f"no kernel is written for its {', '.join(node.kwargs)}")
    return reader.by_unit(name, *node.args)
