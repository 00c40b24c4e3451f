r"""Modules are compared: they must be the same but for the numbers in their tensors."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import type_before_parametrizations

from discretize.ensembles.shared import TensorBits, attributes, kept_in, overlap, tensors_of
from discretize.kernels.record.attributes import PLAIN

__all__ = ["checked_networks"]


def checked_networks(networks: object) -> list[nn.Module]:
    """Return the modules. Raises: TypeError, ValueError, naming the first that differs from networks[0] or cannot be stacked."""
    if (isinstance(networks, nn.Module) and not isinstance(networks, nn.ModuleList)) or not isinstance(networks, Iterable):
        raise TypeError(f"`networks` must be a list of modules, got {type(networks).__name__}.")
    modules: list[nn.Module] = list(networks)
    if not modules:
        raise ValueError("`networks` is empty; give at least one module.")
    for k, module in enumerate(modules):
        if not isinstance(module, nn.Module):
            raise TypeError(f"`networks[{k}]` must be a torch.nn.Module, got {type(module).__name__}.")
    theirs: dict[str, Any] = {}
    for k, module in enumerate(modules):
        for why in _reasons(module):
            raise ValueError(f"`networks[{k}]` cannot be in an ensemble: {why}.")
        mine = _facts(module)
        theirs = theirs or mine
        for name in [*theirs, *mine]:
            if name not in mine or name not in theirs or not _same(mine[name], theirs[name], module, modules[0]):
                raise ValueError(
                    f"`networks[{k}]` differs from `networks[0]` in `{name}`: {_words(mine, name)}, and {_words(theirs, name)} "
                    "there. An ensemble is of modules of the same code, sizes and settings; what may differ is the numbers in "
                    "parameters and buffers."
                )
    return modules


def _reasons(module: nn.Module) -> Iterator[str]:
    """Yield why this module cannot be stacked: it keeps its weights a second time, or what cannot be copied or compared."""
    tensors = tensors_of(module)
    yield from (f"`{name}` has no size yet; call the module once before" for name, one in tensors.items() if is_lazy(one))
    for name, other in itertools.combinations(tensors, 2):
        if tensors[name] is not tensors[other] and overlap(tensors[name], tensors[other]):
            yield (
                f"`{name}` and `{other}` are views of the same memory, which stacked they would not be; compute one of the other "
                "in `forward`, or register the same tensor under both names"
            )
    for name, part in module.named_modules():
        if isinstance(part, nn.RNNBase):
            yield f"`{name}` is one of torch's, which keeps its weights twice; `discretize.from_torch` gives the same network"
    own: dict[int, Any] = {id(each): each for each in (*module.modules(), *tensors.values())}
    for name, key, value in attributes(module):
        if not isinstance(value, PLAIN):
            yield from _reasons_of(f"{name}.{key}".lstrip("."), value, module, own)


def _reasons_of(name: str, value: Any, module: nn.Module, own: dict[int, Any]) -> Iterator[str]:
    try:
        copy.deepcopy(value, {**own})
    except Exception as error:
        said = str(error).partition("\n")[0]
        yield f"`{name}`, a {type(value).__name__}, cannot be copied ({said}); make it in `forward`, or outside of the module"
        return
    kept = kept_in(module, value)
    if isinstance(kept, str):
        yield f"`{name}` cannot be compared: {kept}"
        return
    views = [each for each in (*kept.tensors, *kept.objects) if isinstance(each, Tensor)]
    for owner, tensor in tensors_of(module).items():
        if ("named", owner) in kept.values or any(overlap(each, tensor) for each in views):
            yield f"`{name}` keeps `{owner}`, or a view of it, which would be that of one network; read `{owner}` in `forward`"
    if any(each.requires_grad for each in kept.tensors):
        yield f"`{name}` keeps a tensor with a gradient, which is no parameter; register it, modules in an nn.ModuleList"


def _facts(module: nn.Module) -> dict[str, Any]:
    """Return what must be the same, by name: types and settings of all parts, sizes of parameters and buffers."""
    facts: dict[str, Any] = {}
    for name, part in module.named_modules(remove_duplicate=False):  # a part with two names has them everywhere
        facts[f"{name}.__class__".lstrip(".")] = type_before_parametrizations(part)
    for name, key, value in attributes(module):
        dot = f"{name}." if name else ""
        if is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__dict__"):
            facts[f"{dot}{key}.__class__"] = type(value)
            facts |= {f"{dot}{key}.{field}": each for field, each in vars(value).items()}
        else:
            facts[dot + key] = value
    tensors = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    owners = {id(tensor): name for name, tensor in reversed(tensors)}
    for name, tensor in tensors:  # a weight with two names has them everywhere
        about = [f"{tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}"]
        about += ["frozen"] if isinstance(tensor, nn.Parameter) and not tensor.requires_grad else []
        about += [f"the same as `{owners[id(tensor)]}`"] if owners[id(tensor)] != name else []
        facts[name] = _About(", ".join(about))
    return facts


class _About(str):
    """A tensor's dtype, shape and device in words."""

    __slots__ = ()


def _words(facts: dict[str, Any], name: str) -> str:
    if name not in facts:
        return "it has none"
    value = facts[name]
    if isinstance(value, _About):
        return f"it is {value}"
    text = value.__name__ if isinstance(value, type) else repr(value)
    return f"it is {text}" if len(text) < 100 else "it is another"


def _same(mine: Any, other: Any, module: nn.Module, first: nn.Module) -> bool:
    if mine is other:
        return True
    here, there = kept_in(module, mine), kept_in(first, other)
    if isinstance(here, str) or isinstance(there, str):
        return False  # what cannot be looked into
    return here.values == there.values and [*map(TensorBits, here.tensors)] == [*map(TensorBits, there.tensors)]
