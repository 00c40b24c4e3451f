"""Parametrized weights (torch.nn.utils.parametrize), computed once for a whole sequence or solve and not at each use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn
from torch.nn.utils.parametrize import type_before_parametrizations

__all__ = ["with_computed_weights", "with_free_weights"]

Module = TypeVar("Module", bound=nn.Module)


def with_computed_weights(module: Module) -> Module:
    """Copy a module with the weights that its parametrizations give, as tensors of the graph, in place of these; return the
    module itself where it has none, and where torch.compile traces, which finds equal expressions by itself.

    Not `parametrize.cached()`: what is first read under `torch.no_grad()` would stay without a gradient, and kernels know the
    parts of a field by their own types.
    """
    # As buffers, which a solve keeps for its backward pass beside the parameters.
    return module if torch.compiler.is_dynamo_compiling() else _copied(module, {}, "_buffers", lambda weight: weight)


def with_free_weights(module: Module) -> Module:
    """Copy a module with parameters of their own in place of weights that parametrizations compute: what its equations say of
    all weights they say of those. Return the module itself where it has none."""
    return _copied(module, {}, "_parameters", lambda weight: nn.Parameter(weight.detach()))


def _copied(
    module: Module, copies: dict[nn.Module, nn.Module], place: str, kept: Callable[[torch.Tensor], torch.Tensor]
) -> Module:
    if not _is_parametrized(module):
        return module
    if module not in copies:
        kind = type_before_parametrizations(module)
        plain: nn.Module = object.__new__(kind)
        copies[module] = plain
        plain.__dict__ = module.__dict__ | {name: dict(vars(module)[name]) for name in ("_parameters", "_buffers")}
        children = {name: child for name, child in module._modules.items() if name != "parametrizations"}
        plain._modules = {name: child and _copied(child, copies, place, kept) for name, child in children.items()}
        if len(children) < len(module._modules):
            computed = {name: kept(getattr(module, name)) for name in module.parametrizations}  # type: ignore[union-attr]
            vars(plain)[place].update(computed)
    return copies[module]  # type: ignore[return-value]


def _is_parametrized(module: nn.Module | None) -> bool:
    # Not by `module.modules()`, which takes three times as long: every call of a cell asks.
    return module is not None and ("parametrizations" in module._modules or any(map(_is_parametrized, module._modules.values())))
