r"""Copy modules with other tensors in place of their own: so a module is a function of its parameters and buffers.

as_function(module)(weights, arguments) = module(*arguments), computed with these weights
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from torch import Tensor, nn

from discretize.kernels.record.guards import attached

__all__ = ["as_function", "copied_with", "results_kept"]

Module = TypeVar("Module", bound=nn.Module)


def copied_with(
    module: Module, tensors: Iterable[Tensor], others: Iterable[Tensor], shared: Mapping[int, Any] | None = None
) -> Module:
    """Copy a module and put other tensors in place of its own, wherever it keeps them; `shared`: as for `as_function`."""
    # torch.func.functional_call would miss parameters that a module also keeps in a dict of its own.
    visited = dict(shared or {})
    for old, new in zip(tensors, others, strict=True):
        visited[id(old)] = new
        if new is not old:
            vars(new).update(attached(old))
    for parameter in module.parameters():
        if not isinstance(visited.get(id(parameter), parameter), nn.Parameter):
            visited[id(parameter)]._is_param = True  # by which torch knows them, `get_parameter` too
    return copy.deepcopy(module, visited)


def results_kept(module: nn.Module) -> dict[int, Tensor]:
    """Collect by their ids the tensors that a module has computed, as pruned weights, which torch would refuse to copy."""
    results = (value for part in module.modules() for value in vars(part).values() if isinstance(value, Tensor))
    return {id(value): value.detach() for value in results if value.grad_fn is not None}


def as_function(module: nn.Module, shared: Mapping[int, Any] | None = None) -> Callable[[Any, tuple[Any, ...]], Any]:
    """Make a module a function of its parameters and buffers too; `shared`: objects that are not copied, by their ids."""
    tensors = [*dict(module.named_parameters()).values(), *dict(module.named_buffers()).values()]
    visited: dict[int, Any] = {**results_kept(module), **(shared or {})}
    copy.deepcopy(module, visited)
    # Other tensors that the module keeps are constants: the same objects in each copy.
    same = {**{key: value for key, value in visited.items() if isinstance(value, Tensor)}, **(shared or {})}

    def called(weights: Any, arguments: tuple[object, ...]) -> Any:
        return copied_with(module, tensors, weights, same)(*arguments)

    return called
