r"""Whether modules are the same but for the numbers in their tensors; if not, which of them differs, and in what."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import type_before_parametrizations

from discretize.compiler.attributes import HOOKS, attributes_of

__all__ = ["checked_networks"]

OF_TORCH = frozenset(vars(nn.Module()))
OF_CALLS = ("stats", "watch")  # what a module notes of its calls


def checked_networks(networks: object) -> list[nn.Module]:
    """The modules. Raises: TypeError, ValueError, naming the first that is not like the one before all."""
    if (isinstance(networks, nn.Module) and not isinstance(networks, nn.ModuleList)) or not isinstance(networks, Iterable):
        raise TypeError(f"`networks` must be a list of modules, got {type(networks).__name__}.")
    modules: list[nn.Module] = list(networks)
    if not modules:
        raise ValueError("`networks` is empty; give at least one module.")
    for k, module in enumerate(modules):
        if not isinstance(module, nn.Module):
            raise TypeError(f"`networks[{k}]` must be a torch.nn.Module, got {type(module).__name__}.")
    theirs = _facts(modules[0])
    for k, module in enumerate(modules[1:], 1):
        mine = _facts(module)
        for name in [*theirs, *mine]:
            if name not in mine or name not in theirs or not _same(mine[name], theirs[name]):
                raise ValueError(
                    f"`networks[{k}]` differs from `networks[0]` in `{name}`: {_words(mine, name)}, and {_words(theirs, name)} "
                    "there. An ensemble is of modules of the same code, sizes and settings; what may differ is the numbers in "
                    "parameters and buffers."
                )
    return modules


def _facts(module: nn.Module) -> dict[str, Any]:
    """What must be the same, by name: types and settings of all parts, sizes of parameters and buffers."""
    facts: dict[str, Any] = {}
    for name, part in module.named_modules():
        dot = f"{name}." if name else ""
        facts |= {dot + "__class__": type_before_parametrizations(part), dot + "training": part.training}
        for key, value in vars(part).items():
            if is_dataclass(value):
                facts |= {f"{dot}{key}.{name}": each for name, each in vars(value).items()}
            elif key not in OF_TORCH and key not in OF_CALLS:
                facts[dot + key] = value
        hooks = {f"{dot}{kind}[{k}]": hook for kind in HOOKS for k, hook in enumerate(vars(part)[kind].values())}
        facts |= {name: _Hook(hook) for name, hook in hooks.items()}
    tensors = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    owners = {id(tensor): name for name, tensor in reversed(tensors)}
    for name, tensor in tensors:  # a weight with two names has them everywhere
        about = [f"{tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}"]
        about += ["frozen"] if isinstance(tensor, nn.Parameter) and not tensor.requires_grad else []
        about += [f"the same as `{owners[id(tensor)]}`"] if owners[id(tensor)] != name else []
        facts[name] = _About(", ".join(about))
    return facts


class _Hook(NamedTuple):
    """One of a module's hooks, of which the ensemble runs the first module's."""

    hook: Callable[..., Any]


class _About(str):
    """What is said of a tensor."""

    __slots__ = ()


def _words(facts: dict[str, Any], name: str) -> str:
    if name not in facts:
        return "it has none"
    value = facts[name]
    if isinstance(value, _Hook):
        value = value.hook
    if isinstance(value, _About):
        return f"it is {value}"
    text = value.__name__ if isinstance(value, type) else repr(value)
    return f"it is {text}" if len(text) < 100 else "it is another"


def _same(mine: Any, other: Any) -> bool:
    if isinstance(mine, _Hook) and isinstance(other, _Hook):
        # One that cannot be looked into may do anything.
        return mine.hook is other.hook or (not isinstance(attributes_of([mine.hook]), str) and _same(mine.hook, other.hook))
    here, there = attributes_of([mine]), attributes_of([other])
    if isinstance(here, str) or isinstance(there, str):
        return type(mine) is type(other)  # what cannot be looked into
    return here.values == there.values and all(map(_equal, here.tensors, there.tensors))


def _equal(mine: Tensor, other: Tensor) -> bool:
    return mine.is_meta or torch.equal(mine, other)
