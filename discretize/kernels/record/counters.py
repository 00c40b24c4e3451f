r"""Leave counters out of recorded code: numbers that a module only adds to, as `self.nfe += 1`; a solve adds to them afterwards.

While code is recorded a counter is a `Count`, that can be added to and not read: code that reads one has no kernel.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import NoReturn, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn

from discretize.kernels.record.recording import UnknownOperation

__all__ = ["count_calls", "without_counters"]

Module = TypeVar("Module", bound=nn.Module)


class Count:
    """Stands for a number that may be added to. Raises: Unknown where it is read."""

    def __add__(self, more: object) -> Count:
        return self if type(more) is int else self._read()

    __radd__ = __add__

    def _read(self, *_: object) -> NoReturn:
        raise UnknownOperation("its code reads a number that it counts up")

    __bool__ = __eq__ = __lt__ = __le__ = __gt__ = __ge__ = _read
    __int__ = __float__ = __index__ = __mod__ = __mul__ = __sub__ = __neg__ = __str__ = __format__ = _read
    __hash__ = object.__hash__


def without_counters(module: Module) -> Module:
    """Return the module with a `Count` for each of its counters; itself if it has none."""
    return _twin(module, {}) if any(True for _ in _counters(module)) else module


@torch.no_grad()
def count_calls(module: nn.Module, calls: int, call: Callable[[], object]) -> None:
    """Let a module's counters say that it was called so often, where a kernel was in its place; call: calls it once."""
    before = [(part, name, getattr(part, name)) for part, name in _counters(module)]
    if before:
        call()
    for part, name, old in before:
        vars(part)[name] = old + calls * (getattr(part, name) - old)


def _counters(module: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    """A module's parts with the names of their counters."""
    for part in module.modules():
        for name in _counters_of(part):
            yield part, name


def _counters_of(part: nn.Module) -> list[str]:
    """The names of one part's own counters; what its class begins with, `nfe = 0` in its body, is its own with the first call."""
    kind = type(part)
    return [name for name in _counted_by(kind) if type(vars(part).get(name, getattr(kind, name, None))) is int]


def _twin(module: Module, made: dict[int, nn.Module]) -> Module:
    """The module, its parts with counters exchanged, all else shared."""
    if id(module) not in made:
        twin = made[id(module)] = object.__new__(type(module))
        vars(twin).update(vars(module))
        counted = _counters_of(module)
        vars(twin).update(dict.fromkeys(counted, Count()))
        parts = {name: part and _twin(part, made) for name, part in module._modules.items()}
        vars(twin)["_modules"] = parts
        if not counted and all(parts[name] is part for name, part in module._modules.items()):
            made[id(module)] = module
    return made[id(module)]  # type: ignore[return-value]


def _counted_by(kind: type) -> frozenset[str]:
    """The attributes that a class's methods count up, as the class was when it was met first."""
    if kind not in _known:
        _known[kind] = _found_in(kind)
    return _known[kind]


def _found_in(kind: type) -> frozenset[str]:
    methods = (method for each in kind.__mro__ if _may_count(each) for method in vars(each).values())
    return frozenset[str]().union(*(_counted_in(method.__code__) for method in methods if isinstance(method, FunctionType)))


_known: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()


def _may_count(kind: type) -> bool:
    return kind.__module__.partition(".")[0] not in ("torch", "builtins", "ctrnn", "discretize")


@lru_cache(10_000)
def _counted_in(code: CodeType) -> frozenset[str]:
    """Of `self.n += 1` and `self.n = self.n + 1`, the names n."""
    lines, names = [*dis.get_instructions(code)], set[str]()
    for load, number, add, *others in zip(lines, lines[1:], lines[2:], lines[3:], lines[4:], strict=False):
        adds = add.opname == "BINARY_OP" and add.argrepr in ("+=", "+") and type(number.argval) is int
        if load.opname == "LOAD_ATTR" and adds and any(_stores(each, load.argval) for each in others):
            names.add(str(load.argval))
    return frozenset(names)


def _stores(line: dis.Instruction, name: object) -> bool:
    return line.opname == "STORE_ATTR" and line.argval == name
