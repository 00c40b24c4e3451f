r"""Tells whether an object computes what a known class computes, or overrides some of that class's methods.

    class Logged(nn.GRU): def report(self): ...      adds a method: still an nn.GRU
    class Mine(nn.GRU): def forward(self, x): ...    overrides `forward`: another network, though isinstance(mine, nn.GRU)

Code that reads an object's weights and assumes its class's equation asks here first. A class that overrides one method of ours
does not inherit the methods that we derived from the original one.
"""

from __future__ import annotations

import collections
import os
import typing
from collections.abc import Iterable
from operator import is_
from types import CodeType
from typing import NamedTuple, TypeGuard, TypeVar, overload

from torch import nn

__all__ = [
    "HOOKS",
    "ClassContents",
    "computes_as",
    "contents_of",
    "described",
    "exchanged_method",
    "inherits_beside",
    "is_of_ours",
    "nearest",
    "own_code",
    "without_derived",
]

A = TypeVar("A")
B = TypeVar("B")

# What a subclass may override, or an object keep, without computing something else.
WORDS = {
    "__init__",
    "__repr__",
    "__str__",
    "__setstate__",
    "__getstate__",
    "__reduce__",
    "__reduce_ex__",
    "__deepcopy__",
    "__copy__",
}
WORDS |= {"__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__parameters__", "__slots__"}
WORDS |= {"__abstractmethods__", "_abc_impl", "__annotate__", "__annotate_func__", "__firstlineno__", "__static_attributes__"}
WORDS |= {"__eq__", "__hash__", "__setattr__", "__init_subclass__", "__orig_bases__", "__type_params__", "__constants__"}
WORDS |= {"extra_repr", "reset_parameters", "flatten_parameters", "formula", "equations", "letters", "published", "title"}
OURS = ("ctrnn", "discretize")
WORDS |= {"train", "eval", "to", "_apply", "state_dict", "load_state_dict", "_save_to_state_dict", "_load_from_state_dict"}
WORDS |= {"parameters", "named_parameters", "zero_grad", "__dir__", "__sizeof__"}
FOLDERS = tuple(os.path.join(os.path.dirname(os.path.dirname(__file__)), package, "") for package in OURS)
DECORATORS = ("contextlib.py", "_contextlib.py", "functools.py")  # of the standard library and torch, around our functions
GENERATORS = (collections.__file__, typing.__file__)  # of methods of named tuples and protocols
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")  # tables of an nn.Module

NUMBERS = (bool, int, float, str, tuple, type(None))  # constants of classes


class ClassContents(NamedTuple):
    """Holds what is in a class of this project.

    `values`: all of it; `exchanged`: the names of methods that other code has put there; `constants`: those of its numbers, words
    and tuples; `first`: the names that were there when the class was looked at first.
    """

    values: tuple[object, ...]
    exchanged: tuple[str, ...]
    constants: tuple[str, ...]
    first: frozenset[str]


_contents: dict[type, ClassContents] = {}  # as they were when a class was looked at last


def own_code(thing: object, kind: type) -> str | None:
    """Name the first method that an object or its class overrides of `kind`, a hook of it, or a method that was exchanged on
    `kind` itself; None if there is none."""
    for cls in type(thing).__mro__:
        if cls is kind:
            break
        for name in vars(cls):
            if name not in WORDS and hasattr(kind, name) and not (is_of_ours(cls) and _is_put_back(cls, name)):
                return f"`{cls.__name__}.{name}`"
    for name in vars(thing):
        if name not in WORDS and callable(getattr(kind, name, None)):
            return f"`{name}`, set on the object"
    if isinstance(thing, nn.Module):
        for name in HOOKS:
            for hook in getattr(thing, name).values():
                return f"a hook, {getattr(hook, '__qualname__', type(hook).__name__)}"
    return exchanged_method(kind)


def exchanged_method(kind: type) -> str | None:
    """Name the first method of a class of this project, or of one that it inherits, that others put there; None without one."""
    for cls in filter(is_of_ours, kind.__mro__):
        for name in contents_of(cls).exchanged:
            return f"`{cls.__name__}.{name}`, exchanged on the class"
    return None


def is_of_ours(kind: type) -> bool:
    """Return whether a class is one of this project's."""
    return kind.__module__.partition(".")[0] in OURS


def contents_of(kind: type) -> ClassContents:
    """Return what is in a class of this project now, inherited things aside."""
    values, before = vars(kind).values(), _contents.get(kind)
    if before is not None and len(values) == len(before.values) and all(map(is_, values, before.values)):
        return before
    items = [(name, value) for name, value in vars(kind).items() if name not in WORDS]
    first = frozenset(vars(kind)) if before is None else before.first
    theirs = [name for name, value in items if not _is_written_for(value, name, kind)]
    exchanged = tuple(name for name in theirs if name in first or not _is_inherited(kind, name))
    constants = tuple(name for name, value in items if isinstance(value, NUMBERS))
    contents = _contents[kind] = ClassContents((*values,), exchanged, constants, first)
    return contents


def _is_put_back(kind: type, name: str) -> bool:
    """Return whether a class of this project has what it inherits under a name, by assignment after an exchange."""
    return name not in contents_of(kind).first and _is_inherited(kind, name)


def _is_inherited(kind: type, name: str) -> bool:
    base = next((base for base in kind.__mro__[1:] if name in vars(base)), None)
    return base is not None and vars(base)[name] is vars(kind)[name]


def _is_written_for(value: object, name: str, kind: type) -> bool:
    """Return whether what is in a class is a method that this project wrote for it under that name, or no method."""
    function = getattr(value, "fget", None) or getattr(value, "func", None) or getattr(value, "__func__", value)
    if not callable(function):
        return True
    code = getattr(function, "__code__", None)
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None and (code is None or code.co_filename.startswith(FOLDERS) or _file(code) in DECORATORS):
        return _is_written_for(wrapped, name, kind)
    if code is None:
        return False
    if not code.co_filename.startswith(FOLDERS):
        is_generated = name.startswith("__") and name != "__call__" and code.co_filename == "<string>"  # as dataclasses write
        return is_generated or (name.startswith("_") and code.co_filename in GENERATORS)
    owner, _, own_name = code.co_qualname.rpartition(".")
    if name.startswith("_"):  # which may be taken from a base, or be one method under two names
        return owner in {cls.__qualname__ for cls in kind.__mro__}
    return owner == kind.__qualname__ and own_name in (name, "<lambda>")


def _file(code: CodeType) -> str:
    return os.path.basename(code.co_filename)


def nearest(thing: object, *kinds: type[A]) -> type[A] | None:
    """Return the first of these classes that an object is an instance of; None if there is none."""
    return next((kind for kind in kinds if isinstance(thing, kind)), None)


@overload
def computes_as(thing: object, kind: type[A], /) -> TypeGuard[A]: ...
@overload
def computes_as(thing: object, kind: type[A], other: type[B], /) -> TypeGuard[A | B]: ...
@overload
def computes_as(thing: object, /, *kinds: type) -> bool: ...
def computes_as(thing: object, /, *kinds: type) -> bool:
    """Return whether an object is an instance of one of these classes and overrides nothing of it."""
    return any(isinstance(thing, kind) and own_code(thing, kind) is None for kind in kinds)


def described(thing: object, *kinds: type) -> str:
    """Name an object's class, and what it overrides of the first of these that it is an instance of."""
    name = type(thing).__name__
    kind: type | None = nearest(thing, *kinds)
    own = None if kind is None else own_code(thing, kind)
    return f"a {name}, which changes what {kind.__name__} computes by {own}" if kind and own else name


def without_derived(cls: type, base: type, of: Iterable[str], derived: Iterable[str]) -> None:
    """Replace inherited methods that were derived from a method which the class overrides by the general ones of `base`.

    Args:    of: the methods that others are derived from; derived: these others.
    """
    source = min(of, key=lambda name: _distance(cls, name))
    for name in derived:
        if inherits_beside(cls, source, name, base):
            setattr(cls, name, vars(base)[name])


def inherits_beside(cls: type, source: str, name: str, base: type) -> bool:
    """Return whether a class overrides `source` and inherits `name`, which an ancestor wrote for its own `source`.

    Only ancestors of this project count, whose methods do not call one another; a user's may.
    """
    near, far = _distance(cls, source), _distance(cls, name)
    if not near < far < len(cls.__mro__) or cls.__mro__[far] is base or not _is_ours(cls.__mro__[far], base):
        return False
    others = (vars(kind)[source] for kind in cls.__mro__[near + 1 :] if source in vars(kind))
    other = next(others, None)
    return other is not None and not getattr(other, "__isabstractmethod__", False)


def _is_ours(kind: type, base: type) -> bool:
    return issubclass(kind, base) and kind.__module__.partition(".")[0] in OURS


def _distance(cls: type, name: str) -> int:
    """Return the index in the method resolution order of the class that defines a method; its length if none does."""
    return next((k for k, kind in enumerate(cls.__mro__) if name in vars(kind)), len(cls.__mro__))
