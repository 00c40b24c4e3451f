r"""Describe code in words that are the same in another process: what `attributes_of` compares, and what ids stand for.

    code of functions      its instructions, constants and names; neither its file nor its lines
    classes                their names; `attributes_of` looks into those that are of no library
    functions of libraries their names, and code; torch, NumPy and Python by their versions
    of these packages      the files that define classes and functions, and all files that these import; `surroundings` has those
                           that record and write programs. No other file runs, and an edit of one changes nothing

What an id stands for in other packages cannot be told: there is no fingerprint.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from functools import cache, partial, singledispatch
from types import (
    BuiltinFunctionType,
    CodeType,
    EllipsisType,
    FunctionType,
    GetSetDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discretize import compat
from discretize.kernels.record.attributes import LIBRARIES, PLACES, Attributes
from discretize.kernels.record.sources import PACKAGES, files_behind, module_of, text_of
from discretize.kernels.record.watched import is_installed

__all__ = ["digest", "fingerprint", "surroundings"]

OF_LIBRARIES = (*PLACES, *(os.path.join(os.path.dirname(str(each.__file__)), "") for each in (torch, np)))
MAKING = tuple(f"discretize.kernels.{room}.*" for room in ("cpp", "record", "triton"))  # whatever records and writes programs


class _Nameless(Exception):  # noqa: N818 - an answer
    """Raised for objects that are known in this process only."""


def fingerprint(attributes: Attributes | str, ran: Iterable[CodeType] = (), *others: object) -> str | None:
    """Of what code keeps, code that ran, and other values; None where there is none."""
    if isinstance(attributes, str):
        return None
    objects = iter(attributes.objects)
    try:
        values = [_words(next(objects) if type(each) is tuple and each[0] == "id" else each) for each in attributes.values]
        return digest(values, [_words(each) for each in ran], _words(others))
    except _Nameless:
        return None


def digest(*words: object) -> str:
    """Hash words; equal words have equal digests in every process."""
    return hashlib.sha256(ascii(words).encode()).hexdigest()[:32]


@cache
def surroundings() -> str:
    """The libraries' versions, and the files that record and write programs, which are edited without a new version."""
    # By what is in them: times are those of an installation or a checkout. 115 files take 45 ms.
    return digest(sys.version, platform.machine(), torch.__version__, torch.version.git_version, np.__version__, _texts(*MAKING))


@cache
def _texts(*modules: str) -> str:
    """Those of the files of these packages that modules of them depend on."""
    return digest([text_of(path) for path in files_behind(modules)])


@singledispatch
def _words(value: object) -> Any:
    if isinstance(value, compat.OpOverload):
        return "operation", str(value)
    if type(value).__module__ == "_thread":  # a lock
        return "lock", type(value).__name__
    raise _Nameless


@_words.register(type(None) | bool | int | float | complex | str | EllipsisType)
@_words.register(torch.dtype | torch.device | torch.layout | torch.memory_format)
def _(value: object) -> Any:
    return type(value).__name__, repr(value)


@_words.register
def _(value: bytes) -> Any:
    return "bytes", hashlib.sha256(value).hexdigest()


@_words.register
def _(value: list | tuple) -> Any:
    return type(value).__name__, [_words(each) for each in value]


@_words.register
def _(value: frozenset) -> Any:
    return "frozenset", sorted(map(ascii, map(_words, value)))


@_words.register
def _(value: type) -> Any:
    return "type", _named(value.__module__), value.__qualname__


@_words.register
def _(value: ModuleType) -> Any:
    return "module", _named(value.__name__, must_stay=True)


@_words.register
def _(value: ContextVar) -> Any:
    return "context", value.name  # whose value is told beside it


@_words.register
def _(value: partial) -> Any:
    return "partial", _words([value.func, value.args, *sorted(value.keywords.items())])


@_words.register
def _(value: Tensor) -> Any:
    # Its numbers are told beside it, if they lie in this memory.
    if value.device.type != "cpu" or value.layout != torch.strided or type(value) not in (Tensor, nn.Parameter):
        raise _Nameless
    return "tensor", _words([value.shape, value.stride(), value.storage_offset(), value.dtype, value.requires_grad])


@_words.register
def _(value: FunctionType) -> Any:
    if not value.__code__.co_filename.startswith(OF_LIBRARIES):  # in the place of a library's: it may read anything
        raise _Nameless
    return "function", value.__module__, value.__qualname__, value.__name__, _words(value.__code__)


@_words.register
def _(value: np.ufunc) -> Any:
    if getattr(np, value.__name__, None) is not value:
        raise _Nameless
    return "ufunc", value.__name__


@_words.register(BuiltinFunctionType | MethodDescriptorType | WrapperDescriptorType | GetSetDescriptorType)
def _(value: Any) -> Any:
    owner = getattr(value, "__self__", None) or getattr(value, "__objclass__", None)
    home = owner.__name__ if isinstance(owner, ModuleType) else getattr(owner, "__module__", None) or value.__module__
    return type(value).__name__, _named(str(home), must_stay=True), value.__qualname__


@_words.register
def _(value: CodeType) -> Any:
    file = value.co_filename
    if is_installed(file) and not file.startswith(OF_LIBRARIES):
        raise _Nameless
    names = (value.co_name, value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
    counts = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)
    texts = _texts(module) if (module := module_of(file)) else ""
    code = hashlib.sha256(value.co_code + value.co_exceptiontable).hexdigest()
    return "code", code, names, counts, texts, _words(value.co_consts)


def _named(module: str, must_stay: bool = False) -> Any:
    """The name of a module, which is of a known library or, unless it must be, the user's own."""
    if module.partition(".")[0] in PACKAGES:
        return module, _texts(module)
    if module.partition(".")[0] in LIBRARIES:
        return module
    if must_stay or is_installed(getattr(sys.modules.get(module), "__file__", "")):
        raise _Nameless
    return module
