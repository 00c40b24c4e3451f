"""Hooks for torch.compile, imported lazily because they load dynamo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from discretize.kernels.graphs import node_for

__all__ = ["node_in_graph", "run_uncompiled"]


def _call(function: Callable[..., object], *given: object, **keywords: object) -> Any:
    return function(*given, **keywords)


run_uncompiled: Callable[..., Any] = torch.compiler.disable(
    _call,
    reason="solves, and sequences step by step, are run as they are: their loops are of the data's length. With `fullgraph=True` "
    "compile a `DiscreteCell`, or under torch 2.12 a `DiscreteRNN` that has a compiled kernel, called without `ts` and `lengths`",
)
node_in_graph: Callable[..., Any] = torch.compiler.assume_constant_result(node_for)
