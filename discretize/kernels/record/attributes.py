r"""Collect what code may read beside its samples: the tensors of its module, and all else that it keeps.

    tensors    wherever the module keeps them: given to kernels anew at each call
    values     all else, equal where the code has the same before it, down to the numbers in objects, classes and closures

Globals are in `global_reads.py`; what code asks for beside these cannot be watched: `watched.py`. Libraries are taken to stay as
they are.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import sysconfig
from collections.abc import Collection, Container, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from math import inf
from operator import attrgetter, methodcaller
from queue import SimpleQueue
from types import (
    BuiltinFunctionType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ctrnn.own_code import HOOKS, contents_of, is_of_ours
from discretize import compat
from discretize.kernels.record.guards import OF_CLASS, OF_FUNCTIONS, Guards, attached, is_plain, layout
from discretize.kernels.record.sources import PACKAGES
from discretize.kernels.record.watched import is_installed, refused, unwatched

__all__ = [
    "GLOBAL_HOOKS",
    "LIBRARIES",
    "OF_TORCH",
    "OURS",
    "PLACES",
    "PLAIN",
    "Attributes",
    "ById",
    "attributes_of",
    "attributes_read",
    "attributes_shown",
    "beside_tensors",
    "stays_as_is",
    "what_shows",
]

NO_ROOT = nn.Module()
PLAIN = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
OF_TORCH = (frozenset(vars(nn.Module())) | {"_flat_weight_refs"}) - {"training", "_parameters", "_buffers", "_modules"}
GLOBAL_HOOKS = tuple(f"global{name}" for name in HOOKS)  # as compat.py knows them
WRAPPED = ("fget", "__func__", "func")  # by properties, static methods and the like
CALLED = ("forward", "flow", "project", "leak", "advance", "attempt", "__call__")
LruCache = type(lru_cache(lambda: None))
# What classes have beside attributes of their own.
OF_CLASSES = set(
    "__abstractmethods__ __annotations__ __dataclass_fields__ __dataclass_params__ __dict__ __doc__ __module__ "  # noqa: SIM905
    "__qualname__ __weakref__ _abc_impl __firstlineno__ __static_attributes__".split()
)
MOST = 20_000  # values that are compared at each call
UNCHANGING = {"torch", "numpy", "builtins"}  # whose functions are known by their ids
LIBRARIES = {"torch", "numpy", "ctrnn", "discretize", *sys.stdlib_module_names}  # whose classes and code stay as they are
OURS = tuple(os.path.join(place, "") for place in PACKAGES.values())
PLACES = (*OURS, os.path.join(sysconfig.get_paths()["stdlib"], ""), "<frozen ")


class ById(NamedTuple):
    """A library's object, compared by its id alone."""

    value: Any


class Attributes(NamedTuple):
    """`tensors`: each once; `values`: equal where code has the same before it; `objects`: those that are known by their ids."""

    tensors: tuple[Tensor, ...]
    values: tuple[Any, ...]
    objects: tuple[Any, ...]


def attributes_of(
    value: object, most: float = MOST, names: Mapping[int, str] | None = None, guards: Guards | None = None
) -> Attributes | str:
    """What a module, or anything else, keeps; or why that cannot be told.

    Args:    most: values that are told; names: of objects that are told by those and not looked into, by their ids; guards:
             collects what is looked at, but for what `value` itself has.
    """
    walk = _Walk(most=most, names=names or {}, guards=guards or Guards())
    walk.root = value if isinstance(value, nn.Module) else NO_ROOT
    return _told(walk, value, copied=True)


def attributes_read(values: Sequence[object], guards: Guards) -> Attributes | str:
    """As `attributes_of`, of what code reads outside of its module, which its copies read too."""
    return _told(_Walk(guards=guards), list(values), copied=False)


def what_shows(read: Sequence[object], others: Sequence[object]) -> list[Any]:
    """Values of what code reads outside of its module, and of others, and what shows of those that cannot be compared."""
    walk = _WhatShows()
    for value, copied in [*((value, False) for value in read), *((value, True) for value in others)]:
        walk.visit(value, copied)
    return walk.values


def attributes_shown(value: object, names: Mapping[int, str]) -> Attributes:
    """As `attributes_of`, of something that cannot be compared: what shows of it."""
    shown = _told(_WhatShows(names=names), value, copied=True)
    assert not isinstance(shown, str)
    return shown


def _told(walk: _Walk, value: object, copied: bool) -> Attributes | str:
    try:
        walk.visit(value, copied)
    except _Hidden as error:
        return str(error)
    walk.guards.refused |= walk.is_among(walk.guards.owner)
    return Attributes(tuple(walk.tensors), tuple(walk.values), tuple(walk.objects))


class _Hidden(Exception):  # noqa: N818 - an answer, and nothing went wrong
    """Raised when an attribute cannot be compared between calls."""


@dataclass
class _Walk:
    """Everything that can be reached from an object, once.

    What is `copied` with a module has its tensors exchanged for those of a call; closures, classes and globals are no part of
    a copy, so tensors in them are constants, known by their ids.
    """

    values: list[Any] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    objects: list[Any] = field(default_factory=list)
    seen: dict[tuple[int, bool], tuple[int, Any]] = field(default_factory=dict)  # objects too: an id is one's own while it lives
    most: float = MOST
    names: Mapping[int, str] = field(default_factory=dict)
    guards: Guards = field(default_factory=Guards)
    root: nn.Module = field(default_factory=lambda: NO_ROOT)
    again: set[int] = field(default_factory=set)

    def is_among(self, owner: object) -> bool:
        """Whether an object is held by what was looked at, beside the root."""
        others = ((id(owner), False), *([(id(owner), True)] if self.root is NO_ROOT else []))
        return owner is not None and (id(owner) in self.again or any(other in self.seen for other in others))

    def visit(self, value: object, copied: bool = True) -> None:
        if len(self.values) > self.most:
            raise _Hidden(f"it keeps more than {self.most:,} values, too many to compare at each call")
        if type(value) in PLAIN or (isinstance(value, PLAIN) and _is_of_a_library(type(value))):
            # repr: nan is not equal to itself, and 0.0 is to -0.0
            self.values.append((type(value), repr(value) if isinstance(value, float | complex) else value))
        elif type(value) is ById:
            self._by_id(value.value)
        elif (id(value), copied) in self.seen:
            self.values.append(("again", self.seen[id(value), copied][0]))
            self.again.add(id(value))
        elif copied and id(value) in self.names:
            self.values.append(("named", self.names[id(value)]))
        else:
            self.seen[id(value), copied] = len(self.seen), value
            self._inside(value, copied)

    def _inside(self, value: object, copied: bool) -> None:
        kind = type(value)
        if isinstance(value, Tensor):
            self._tensor(value, copied)
        elif isinstance(value, BuiltinFunctionType) and (asked := refused(value)):
            raise _Hidden(unwatched(asked))
        elif kind in (list, tuple, dict, MappingProxyType):
            self._container(value, copied)
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self.visit(value.__func__, copied)
            self.visit(value.__self__, copied)
        elif isinstance(value, ContextVar):
            self._by_id(value)
            self.guards.read(value, _in_context)
            self.visit(_in_context(value), False)
        elif isinstance(value, type | property | staticmethod | classmethod | cached_property):
            self._class(value, copied)
        elif isinstance(value, nn.Module):
            self._module(value, copied)
        elif isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, ModuleType | type | None):
            self._parts([value.__name__, value.__self__], False)  # of a list, say, or of an iterator
        elif callable(value) and _is_of_a_library(type(value), UNCHANGING):
            self._by_id(value)
        else:
            self._object(value, copied)

    def _container(self, container: Any, copied: bool) -> None:
        if type(container) in (dict, MappingProxyType):
            if not any(container is own for own in vars(self.root).values()):
                self.guards.mapping(container)
            return self._items(container, copied)
        if type(container) is list:
            self.guards.sequence(container)
        self._parts(container, copied)

    def _function(self, function: FunctionType) -> None:
        cells = function.__closure__ or ()
        self.guards.read(function, *OF_FUNCTIONS)
        for cell in cells:
            self.guards.read(cell, _content)
        self._by_id(function.__code__)
        contents = [content for content in map(_content, cells) if content is not None]
        self._parts([function.__defaults__, function.__kwdefaults__, vars(function), *contents], False)

    def _parts(self, parts: Sequence[object], copied: bool) -> None:
        self.values.append((type(parts), len(parts)))
        for each in parts:
            self.visit(each, copied)

    def _items(self, mapping: Mapping[Any, object], copied: bool, but: Collection[str] = ()) -> None:
        items = [(key, value) for key, value in mapping.items() if key not in but] if but else mapping.items()
        self.values.append((type(mapping), len(items)))
        for key, value in items:
            self.visit(key, copied)
            self.visit(value, copied)

    def _tensor(self, tensor: Tensor, copied: bool) -> None:
        if copied:
            self.tensors.append(tensor)
            self.guards.tensor(tensor)
            self.values.append(layout(tensor))
        else:
            self._by_id(tensor)
            self.guards.value(partial(_numbers, tensor))
            self.values.append(_numbers(tensor))
        self.guards.mapping(vars(tensor))
        if own := attached(tensor):  # which copies share, tensors too
            self._items(own, False)

    def _module(self, module: nn.Module, copied: bool) -> None:
        if any(vars(module)[name] for name in HOOKS):
            raise _Hidden(f"its {type(module).__name__} has hooks")
        if any(getattr(compat, name, None) for name in GLOBAL_HOOKS):
            raise _Hidden("there are hooks on all modules")
        if module is self.root:
            for hooks in GLOBAL_HOOKS:
                self.guards.sequence(getattr(compat, hooks))
        else:
            self._guard_module(module)
        self.visit(type(module))
        self._items(vars(module), copied, OF_TORCH)

    def _guard_module(self, module: nn.Module) -> None:
        own = vars(module)
        self.guards.kind(module)
        self.guards.mapping(own)
        for hooks in HOOKS:
            self.guards.sequence(own[hooks])
        # Hooks of other kinds, which nothing here asks for, may hold the field.
        self.guards.refused |= any(isinstance(own.get(name), dict) and own[name] for name in OF_TORCH)

    def _class(self, kind: object, copied: bool) -> None:
        if not isinstance(kind, type):
            self.guards.read(kind, *(attrgetter(name) for name in WRAPPED if hasattr(kind, name)))
            return self._parts([getattr(kind, name, None) for name in WRAPPED], copied)
        self.guards.kind(kind)
        self.guards.read(kind, OF_CLASS)
        for each in kind.__mro__:
            self._by_id(each)
            own, is_new = vars(each), self.guards.is_new(each)
            if is_of_ours(each):  # whose methods may have been exchanged
                self.guards.written(each)
                self._exchanged(each)
            elif _is_of_a_library(each):
                self.guards.names(own, CALLED if is_new else ())
                for name in CALLED:
                    if name in own:
                        self._by_id(own[name])
            else:
                if is_new:
                    self.guards.mapping(own)
                self._items(own, False, OF_CLASSES)
        if not _is_of_a_library(type(kind)):
            self.visit(type(kind))

    def _exchanged(self, kind: type) -> None:
        """Visit what may differ in a class of this project from what its text says."""
        own, contents = vars(kind), contents_of(kind)
        for name in CALLED:
            if name in own and name not in contents.exchanged:
                self._by_id(own[name])
        for name in (*contents.exchanged, *contents.constants):
            self.values.append(name)
            self.visit(own[name], False)

    def _object(self, value: object, copied: bool) -> None:
        if is_plain(value):
            self.guards.kind(value)
            if hasattr(value, "__dict__"):
                self.guards.mapping(vars(value))
            return self._in_object(value, copied)
        guards, self.guards = self.guards, Guards()
        self._in_object(value, copied)
        self.guards = guards
        guards.value(partial(_by_itself, value, copied))

    def _in_object(self, value: object, copied: bool) -> None:
        if isinstance(value, torch.Generator):
            return self.visit(value.get_state().numpy().tobytes())
        kind = type(value)
        if isinstance(value, ModuleType) and not stays_as_is(value.__name__):
            raise _Hidden(f"it reaches the module `{value.__name__}` by no name, which cannot be compared from call to call")
        if kind in (attrgetter, methodcaller) or (kind is LruCache and not stays_as_is(value.__module__)):
            raise _Hidden(unwatched(getattr(value, "__qualname__", kind.__name__)))
        try:
            made = value.__reduce_ex__(4)
        except Exception as error:
            is_of_a_package = callable(value) and kind.__module__ not in sys.stdlib_module_names
            is_lock = kind.__module__ == "_thread" and not hasattr(value, "__dict__")  # which holds nothing
            if copied or not (is_of_a_package or is_lock):
                raise _Hidden(f"it keeps a {kind.__name__}, of which no copy can be made") from error
            made = ""
        if isinstance(value, ModuleType) or isinstance(made, str):
            return self._by_id(value)
        self.visit(kind)
        self._parts([list(part) if hasattr(type(part), "__next__") else part for part in made], copied)
        if not _is_of_a_library(kind):
            self._attributes(value, copied)  # of which copies need know nothing

    def _attributes(self, value: object, copied: bool) -> None:
        if isinstance(getattr(value, "__dict__", None), dict):
            self.visit(vars(value), copied)
        for slot in _slots(type(value)):
            with suppress(AttributeError):  # there is nothing in it
                self.visit(slot.__get__(value), copied)

    def _by_id(self, value: object) -> None:
        self.objects.append(value)
        self.values.append(("id", id(value)))


@dataclass
class _WhatShows(_Walk):
    """Goes on where something cannot be compared: with its attributes, its memory, or where a generator is in its code."""

    most: float = inf

    def _inside(self, value: object, copied: bool) -> None:
        if isinstance(value, Executor) and stays_as_is(type(value).__module__):
            return self._by_id(value)  # its threads and queues come and go with work, and say nothing to it
        try:
            super()._inside(value, copied)
        except _Hidden:
            self.values.append(("shows", type(value)))
            if isinstance(value, GeneratorType):
                frame = value.gi_frame
                self.visit(None if frame is None else [frame.f_lasti, dict(frame.f_locals), value.gi_yieldfrom], copied)
            if isinstance(value, SimpleQueue):
                self._parts(gc.get_referents(value), copied)
            with suppress(TypeError, ValueError, BufferError):
                self.visit(memoryview(value).tobytes())  # type: ignore[arg-type]
            if isinstance(value, ModuleType):
                self._parts([each for each in vars(value).values() if type(each) in PLAIN], copied)
            else:
                self._attributes(value, copied)


class _BesideTensors(_WhatShows):
    """Tells numbers and words, wherever they are, and of tensors only what is attached to them."""

    def visit(self, value: object, copied: bool = True) -> None:
        if value is not None:  # in whose place a tensor may be
            super().visit(value, copied)

    def _tensor(self, tensor: Tensor, copied: bool) -> None:
        if own := attached(tensor):
            self._items(own, copied)


def beside_tensors(value: object) -> list[Any]:
    """Return the numbers and words that can be reached from an object, in its dicts, lists, objects and closures."""
    walk = _BesideTensors()
    walk.visit(value)
    return walk.values


def _is_of_a_library(kind: type, libraries: Container[str] = LIBRARIES) -> bool:
    return kind.__module__.partition(".")[0] in libraries


def _slots(kind: type) -> list[MemberDescriptorType]:
    """Return the slots of a class: what gives the attributes of its objects that are not in a dict."""
    return [slot for each in kind.__mro__ for slot in vars(each).values() if isinstance(slot, MemberDescriptorType)]


def stays_as_is(module: str) -> bool:
    """Whether a module of that name is of a library, or of a package that is installed."""
    return module.partition(".")[0] in LIBRARIES or is_installed(getattr(sys.modules.get(module), "__file__", ""))


def _numbers(tensor: Tensor) -> Any:
    """Of a tensor that is a constant of the code; by `.data` and as an array it may be written into uncounted."""
    if tensor.device.type == "cpu" and tensor.layout == torch.strided and type(tensor) in (Tensor, nn.Parameter):
        memory = tensor.untyped_storage()
        return ctypes.string_at(memory.data_ptr(), memory.nbytes())
    return None if tensor.is_inference() else tensor._version


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _in_context(variable: ContextVar[Any]) -> Any:
    try:
        return variable.get()  # its default, where nothing was set
    except LookupError:
        return None


def _by_itself(value: object, copied: bool) -> Any:
    """What there is to say of an object alone, tensors and all else that is known by ids included."""
    told = _told(_Walk(), value, copied)
    return told if isinstance(told, str) else (told.values, *(tuple(map(id, each)) for each in (told.tensors, told.objects)))
