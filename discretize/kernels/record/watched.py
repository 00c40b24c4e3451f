r"""Refuse code that asks for what cannot be compared between calls; kernels and proofs share one list.

    its arguments, what its module keeps, globals, what functions close over    compared: `attributes.py`, `global_reads.py`
    functions of their arguments: torch's, numpy's, those of math, operator...  they stay what they are
    the time, chance, files, threads, modes and flags of torch, whether a
    tensor has a gradient, names of modules or globals that are computed        cannot be compared: `Unwatched`

Functions are judged by the library that they are from, in the code's instructions before it runs and at each call that it makes.
"""

from __future__ import annotations

import builtins
import dis
import os
import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

__all__ = ["Unwatched", "asked_by_call", "asked_in", "is_installed", "refused", "unwatched"]

# Of the standard library: functions of their arguments.
OF_ARGUMENTS = set(
    "abc bisect builtins cmath codecs collections contextlib contextvars copy copyreg dataclasses enum fractions "  # noqa: SIM905
    "functools heapq itertools keyword math numbers operator re reprlib string textwrap types typing unicodedata".split()
)
CONSTANTS = {"sys.float_info", "sys.maxsize", "sys.version_info", "sys.platform", "os.path", "os.sep"}
# In the libraries that are otherwise functions of their arguments: modules, and what is in them. Words may name what they are
# filled in with: "{0.scale}".format(module).
ASKING = set(
    "builtins.__import__ builtins.breakpoint builtins.compile builtins.eval builtins.exec builtins.hash builtins.id "  # noqa: SIM905
    "builtins.format builtins.format_map builtins.input builtins.open builtins.print operator.attrgetter "
    "operator.methodcaller string.Formatter numpy.random numpy.datetime64 numpy.geterr numpy.get_printoptions torch._C "
    "torch._dynamo torch._guards torch._subclasses torch._tensor.__format__ torch._tensor.__repr__ torch.accelerator "
    "torch.autograd.profiler torch.backends torch.compiler torch.cpu torch.cuda torch.distributed torch.fx torch.Generator "
    "torch.hub torch.jit torch.mps torch.mtia torch.multiprocessing torch.overrides torch.profiler torch.random "
    "torch.utils._python_dispatch torch.utils._traceback torch.utils.data torch.xpu".split()
)
KINDS_OF = ("os", "random", "weakref", "_thread", "threading", "_io")  # modules whose objects answer so, too
OF_TORCH_ITSELF = ("is_tensor", "typename", "sym_")  # functions of torch/__init__.py; the others there are settings
# Of tensors: whether and how they are differentiated, and how they lie in memory.
OF_TENSORS = set(
    "__getattribute__ _base _grad _is_view _version backward data_ptr grad grad_fn is_contiguous is_inference is_leaf "  # noqa: SIM905
    "is_pinned is_shared output_nr register_hook register_post_accumulate_grad_hook requires_grad retain_grad retains_grad "
    "storage storage_offset stride untyped_storage".split()
)
OF_ANYTHING = set(
    "__builtins__ __dir__ __getattribute__ __globals__ __subclasses__ cache_clear cache_info f_back f_globals tb_frame".split()  # noqa: SIM905
)
BY_NAME = (getattr, hasattr, setattr, delattr)  # of an object and a name
BY_ALL_NAMES = (vars, dir)
SILENT = {
    "CACHE",
    "COPY_FREE_VARS",
    "EXTENDED_ARG",
    "KW_NAMES",
    "MAKE_CELL",
    "NOP",
    "NOT_TAKEN",
    "PRECALL",
    "PUSH_NULL",
    "RESUME",
}
ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM")
UNKNOWN = object()


class Unwatched(BaseException):  #  code that catches every Exception must not catch it
    """What code asks for cannot be compared between calls, and what that is."""


def unwatched(name: str) -> str:
    """Say that code asks for what cannot be compared between calls."""
    return f"its code asks for `{name}`, which cannot be compared from call to call"


@lru_cache(maxsize=10_000)
def is_installed(file: str | None) -> bool:
    """Return whether a file belongs to an installed package: by the folder's name, or by pip's records in it."""
    if not file:
        return False
    return any(name in file for name in ("site-packages", "dist-packages")) or file.startswith(_folders_of_packages())


@cache
def _folders_of_packages() -> tuple[str, ...]:
    """The folders of the path, as Python found it, in which pip has put packages, as by `pip install --target`."""
    folders = {os.path.abspath(folder) for folder in sys.path if folder}
    return tuple(os.path.join(folder, "") for folder in sorted(folders) if next(Path(folder).glob("*.dist-info"), None))


def refused(value: object) -> str | None:
    """The name of a module, a function or a source of chance whose answers are not of arguments alone; None for all else."""
    if isinstance(value, ModuleType):
        return _refused_name(value.__name__)
    if isinstance(value, type | FunctionType):
        return _refused_name(f"{value.__module__}.{value.__qualname__}", isinstance(value, FunctionType))
    if isinstance(value, BuiltinFunctionType):
        owner = value.__self__
        if isinstance(owner, ModuleType):
            home = owner.__name__
        else:
            home = (value if owner is None else owner if isinstance(owner, type) else type(owner)).__module__
        if home == "torch._C" and value.__name__ == "get_default_dtype":  # which kernels are remembered by
            return None
        if isinstance(owner, Tensor) and value.__name__ in OF_TENSORS:
            return f"Tensor.{value.__name__}"
        return _refused_name(f"{home}.{value.__name__}")
    kind = type(value)
    asks = isinstance(value, torch.Generator) or kind.__module__.startswith((*KINDS_OF, "numpy.random"))
    return f"{kind.__module__}.{kind.__name__}" if asks else None


def _refused_name(name: str, function: bool = False) -> str | None:
    """`function`: one that is written in Python."""
    root, _, rest = name.partition(".")
    root = {"_io": "io", "posix": "os", "nt": "os"}.get(root, root.lstrip("_") if root != "__main__" else root)
    name = f"{root}.{rest}".strip(".")
    if root in sys.stdlib_module_names and root not in OF_ARGUMENTS:
        return name
    if function and root == "torch" and "." not in rest and not rest.startswith(OF_TORCH_ITSELF):
        return name
    asks = any(name == each or name.startswith(f"{each}.") for each in ASKING)
    return name if asks and not name.startswith(("torch._C._", "torch._C.Size")) else None


def asked_by_call(frame: FrameType, function: object = None) -> str | None:
    """Why a call cannot be watched: of a builtin function, or of the code of a library in a frame."""
    if frame.f_code.co_filename.startswith("<frozen importlib"):  # of an import, whose name was looked at
        return None
    asked = _called(frame, function)
    return None if asked is None else unwatched(asked)


def _called(frame: FrameType, function: object) -> str | None:
    if function is not None:
        return refused(function)
    home, name = frame.f_globals.get("__name__"), frame.f_code.co_name
    if home in ("weakref", "_weakrefset") or name in ("<lambda>", "__del__"):  # run as an object dies, called by no code
        return None
    return _refused_name(f"{home}.{name}", function=True)


class _Chain(NamedTuple):
    """A name and attributes of it that instructions load one after the other, what they are, and where the next one is."""

    names: list[str]
    values: list[Any]
    end: int

    @property
    def words(self) -> str:
        return ".".join(self.names)


def asked_in(code: CodeType, names: Mapping[str, object], own: Mapping[str, object]) -> str | None:
    r"""Why code cannot be watched, as its instructions say; before it runs.

    Args:    names: its globals; own: its arguments and what it closes over.
    """
    lines = [each for each in dis.get_instructions(code) if each.opname not in SILENT]
    stored = {name for each in lines if each.opname.startswith("STORE_") for name in _names(each)}
    scope = {**vars(builtins), **names}, {name: value for name, value in own.items() if name not in stored}
    at = 0
    while at < len(lines):
        if lines[at].opname == "MATCH_CLASS" and (asked := _asked_by_pattern(lines[at - 1].argval)) is not None:
            return unwatched(asked)
        chain = _chain(lines, at, scope)
        if chain is None:
            at += 1
            continue
        at = chain.end
        if (asked := _asked_by(chain) or _asked_by_name(chain, lines, scope)) is not None:
            return unwatched(asked)
    return None


def _chain(lines: list[dis.Instruction], at: int, scope: tuple[Mapping[str, object], Mapping[str, object]]) -> _Chain | None:
    """The one that begins at an instruction, or anything that attributes are taken of."""
    each, (names, own) = lines[at], scope
    if each.opname in ATTRIBUTE:
        chain = _Chain(["..."], [UNKNOWN], at)
    elif each.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
        chain = _Chain([str(each.argval)], [names.get(each.argval, UNKNOWN)], at + 1)
    elif each.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "STORE_FAST_LOAD_FAST")):
        name = _names(each)[-1]
        chain = _Chain([name], [own.get(name, UNKNOWN)], at + 1)
    elif each.opname == "IMPORT_NAME":
        module = sys.modules.get(each.argval, UNKNOWN)
        chain = _Chain([each.argval], [module if module is not UNKNOWN else ModuleType(each.argval or ".")], at + 1)
    else:
        return None
    end = chain.end
    while end < len(lines) and lines[end].opname in ATTRIBUTE:
        chain.names.append(str(lines[end].argval))
        chain.values.append(_attribute(chain.values[-1], chain.names[-1]))
        end += 1
    return chain._replace(end=end)


def _names(each: dis.Instruction) -> tuple[str, ...]:
    return tuple(map(str, each.argval)) if isinstance(each.argval, tuple) else (str(each.argval),)


def _attribute(value: object, name: str) -> Any:
    """Of modules and objects, without running code of theirs."""
    if value is UNKNOWN or isinstance(value, Tensor | type):
        return UNKNOWN
    own: Mapping[str, Any] = getattr(value, "__dict__", {})
    of_module = ("_parameters", "_buffers", "_modules") if isinstance(value, nn.Module) else ()
    places = [own, *(own.get(part, {}) for part in of_module)]
    return next((each[name] for each in places if name in each), UNKNOWN)


def _asked_by(chain: _Chain) -> str | None:
    for k, value in enumerate(chain.values):
        shown = ".".join(chain.names[: k + 1])
        if k and chain.names[k] in OF_ANYTHING:
            return shown
        if k and chain.names[k] in OF_TENSORS and _may_be_a_tensor(chain.values[k - 1]):
            return shown
        if k and chain.names[k] == "__dict__" and isinstance(chain.values[k - 1], ModuleType):
            return shown
        if isinstance(value, ModuleType) and ".".join([value.__name__, *chain.names[k + 1 : k + 2]]) in CONSTANTS:
            return None
        if refused(value) is not None:
            return chain.words
    return None


def _asked_by_pattern(names: object) -> str | None:
    """Of `case Kind(name=...)`, whatever is matched."""
    asked = {*names} & (OF_ANYTHING | OF_TENSORS) if isinstance(names, tuple) else set()
    return f"case ...({min(asked)}=...)" if asked else None


def _asked_by_name(chain: _Chain, lines: list[dis.Instruction], scope: Any) -> str | None:
    """Of the functions that look names up: which name they are asked for, where that is known."""
    value, after = chain.values[-1], [*lines[chain.end :], *lines[-1:] * 3]
    if value is globals:
        return None if after[0].opname == "CALL" and _is_word(after[1]) and _is_item(after[2]) else "globals()"
    if not any(value is each for each in (*BY_NAME, *BY_ALL_NAMES)):
        return None
    of = _chain(lines, chain.end, scope) if chain.end < len(lines) else None
    if of is not None and any(value is each for each in BY_NAME) and _is_word(lines[of.end]) and not _is_item(lines[of.end + 1]):
        word = lines[of.end].argval
        is_asked = word in OF_ANYTHING or (word in OF_TENSORS and _may_be_a_tensor(of.values[-1]))
        return f"{chain.words}({of.words}, {word!r})" if is_asked else None
    # An object is compared with all its attributes; a library stays as it is.
    known = of is not None and not _may_be_a_tensor(of.values[-1])
    if of is not None and isinstance(module := of.values[-1], ModuleType):
        known = module.__name__.partition(".")[0] in ("torch", "numpy", *OF_ARGUMENTS)
    name = "" if any(value is each for each in BY_ALL_NAMES) else ", a name that is computed"
    return None if known else f"{chain.words}({of.words if of else '...'}{name})"


def _may_be_a_tensor(value: object) -> bool:
    return value is UNKNOWN or isinstance(value, Tensor) or (isinstance(value, type) and issubclass(value, Tensor))


def _is_word(each: dis.Instruction) -> bool:
    return each.opname.startswith(("LOAD_CONST", "RETURN_CONST")) and isinstance(each.argval, str)


def _is_item(each: dis.Instruction) -> bool:
    return each.opname == "BINARY_SUBSCR" or (each.opname == "BINARY_OP" and each.argrepr == "[]")
