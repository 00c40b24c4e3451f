r"""Keep programs on disk beside the libraries that are made of them, so that a second process records nothing.

    key     fingerprints of what the module keeps, of the code that ran and of the globals that it read; `surroundings`; compiler,
            flags and processor; and how the program is wanted

So the code runs once in each process, on a few numbers, before a program is sought: what it reads then is part of the key. Kept
are programs whose kernel agreed with torch, or is compared with each method; which pairs of field and method agreed is kept
beside them. They are written as JSON, and of nothing else than operations and types that are
listed here.
"""

from __future__ import annotations

import base64
import dataclasses
import importlib
import json
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from discretize import compat
from discretize.kernels.build import toolchain
from discretize.kernels.cache import Cache
from discretize.kernels.record.attributes import Attributes, attributes_of
from discretize.kernels.record.fingerprint import digest, fingerprint, surroundings
from discretize.kernels.record.global_reads import GlobalReads
from discretize.kernels.record.program import CodeModule, Program, Text, Writer, program_of

__all__ = ["Agreement", "Recorder", "is_stored", "program_key"]

SUFFIX = ".json"
FUNCTIONS: dict[str, Callable[..., Any]] = {"stack": torch.stack, "getitem": operator.getitem}
METHODS = ("contiguous", "expand", "reshape", "select", "sum", "t", "to")
NAMESPACES = ("aten", "prims")
OURS = "discretize.kernels."  # whose dataclasses may be parts of a program


class _Unwritable(Exception):  # noqa: N818 - an answer
    """Raised for a part of a program that cannot be stored."""


class Recorder:
    """Programs of modules whose code has run under `reads`: those that an earlier process has kept, or recorded."""

    def __init__(self, reads: GlobalReads) -> None:
        self.globals: str | None = fingerprint(reads.now(), reads.reads)
        self.cache: Cache = Cache()
        self.new: dict[str | None, Program[Any]] = {}
        self.keys: list[str | None] = []

    @property
    def key(self) -> str | None:
        """Return the key of all its programs so far; None where one of them is never kept."""
        return None if None in self.keys else digest(self.keys)

    def program(self, module: CodeModule, wanted: Mapping[str, bool], dtype: torch.dtype, write: Writer[Text]) -> Program[Text]:
        """As `program_of`."""
        key = program_key(attributes_of(module), wanted, dtype, write)
        key = key + self.globals if key and self.globals else None
        self.keys.append(key)
        for content in self.cache.contents(key, SUFFIX) if key else ():
            with suppress(Exception):  # whatever is not what it should be counts as absent
                return _program(json.loads(content))
        program = self.new[key] = program_of(module, wanted, dtype, write)
        return program

    def keep(self) -> None:
        """Those that were recorded, for later processes."""
        for key, program in self.new.items():
            with suppress(_Unwritable):
                if key:
                    self.cache.keep(json.dumps(_written(program)).encode(), key, SUFFIX)


class Agreement:
    """Tells later processes that a kernel agreed with torch; keys: of all that it is made of, None for what is never kept."""

    def __init__(self, *keys: str | None) -> None:
        self.key: str | None = None if None in keys else digest("agreed", *keys)

    def __bool__(self) -> bool:
        """Whether an earlier process has kept it."""
        return self.key is not None and any(True for _ in Cache().contents(self.key, SUFFIX))

    def keep(self) -> None:
        if self.key is not None:
            Cache().keep(b"true", self.key, SUFFIX)


def program_key(attributes: Attributes | str, wanted: Mapping[str, bool], dtype: torch.dtype, write: Writer[Any]) -> str | None:
    """Of a module's program, globals aside; None for one that is never kept."""
    how = sorted(wanted.items(), key=str), dtype, torch.get_default_dtype(), write
    words = fingerprint(attributes, (), *how)
    return words and digest(words, surroundings(), toolchain())


def is_stored(key: str) -> bool:
    """Whether there is a program of that `program_key`, for some values of the globals that its code reads."""
    folder = Cache().folder
    return folder is not None and any(folder.glob(f"{key}*{SUFFIX}"))


# Programs as JSON, and back


def _written(program: Program[Any]) -> dict[str, Any]:
    return {
        "before": _graph(program.before.graph),
        "after": _graph(program.after.graph),
        "nobody": len(program.nobody),
        **{name: _value(getattr(program, name), {}) for name in ("written", "sums", "constants")},
    }


def _program(parts: dict[str, Any]) -> Program[Any]:
    graphs: Any = {name: GraphModule(torch.nn.Module(), _read_graph(parts[name])) for name in ("before", "after")}
    others = {name: _read(parts[name], []) for name in ("written", "sums", "constants")}
    return Program(**graphs, **others, nobody=(None,) * parts["nobody"])


def _graph(graph: Graph) -> list[Any]:
    places = {node: place for place, node in enumerate(graph.nodes)}
    return [[node.op, _target(node), _value(node.args, places), _value(dict(node.kwargs), places)] for node in graph.nodes]


def _target(node: Node) -> str | None:
    target: Any = node.target
    if node.op in ("placeholder", "output"):
        return None
    if node.op == "call_function":
        if isinstance(target, compat.OpOverload) and target.namespace in NAMESPACES:
            return str(target)
        if target in FUNCTIONS.values():
            return next(name for name, function in FUNCTIONS.items() if function is target)
    elif node.op == "call_method" and target in METHODS:
        return str(target)
    raise _Unwritable


def _read_graph(operations: list[Any]) -> Graph:
    graph, nodes = Graph(), list[Node]()
    for op, name, args, kwargs in operations:
        values, more = _read(args, nodes), _read(kwargs, nodes)
        if op == "placeholder":
            nodes.append(graph.placeholder(f"given_{len(nodes)}"))
        elif op == "output":
            nodes.append(graph.output(*values))
        elif op == "call_method" and name in METHODS:
            nodes.append(graph.call_method(name, values, more))
        elif op == "call_function":
            nodes.append(graph.call_function(_function(name), values, more))
    return graph


def _function(name: str) -> Callable[..., Any]:
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    namespace, operation, overload = name.split(".")
    assert namespace in NAMESPACES
    function: Callable[..., Any] = getattr(getattr(getattr(torch.ops, namespace), operation), overload)
    return function


def _value(value: object, places: Mapping[Node, int]) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Node):
        return {"node": places[value]}
    if isinstance(value, list):
        return [_value(each, places) for each in value]
    name, parts = next((name, parts) for name, (kind, parts, _) in KINDS.items() if isinstance(value, kind))
    return {name: _value(parts(value), places)}


def _read(written: object, nodes: Sequence[Node]) -> Any:
    if isinstance(written, list):
        return [_read(each, nodes) for each in written]
    if not isinstance(written, dict):
        return written
    ((name, parts),) = written.items()
    return nodes[parts] if name == "node" else KINDS[name].made(_read(parts, nodes))


class _Kind(NamedTuple):
    """How a type that JSON lacks is written as `parts` and `made` of them again."""

    kind: type
    parts: Callable[[Any], Any]
    made: Callable[[Any], Any]


def _of_torch(kind: type) -> _Kind:
    """A constant of torch's, by its name."""

    def made(name: str) -> Any:
        assert isinstance(getattr(torch, name), kind)
        return getattr(torch, name)

    return _Kind(kind, lambda constant: str(constant).removeprefix("torch."), made)


def _numbers(tensor: Tensor) -> list[Any]:
    if not tensor.is_contiguous():
        raise _Unwritable
    numbers = tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
    return [base64.b64encode(numbers).decode(), tensor.dtype, list(tensor.shape), tensor.device]


def _tensor(parts: list[Any]) -> Tensor:
    numbers, dtype, shape, device = parts
    flat = np.frombuffer(bytearray(base64.b64decode(numbers)), np.uint8)
    return torch.from_numpy(flat).view(dtype).reshape(shape).to(device)


def _fields(value: object) -> list[Any]:
    kind = type(value)
    # Not of what is told from its like by being another object.
    if not dataclasses.is_dataclass(kind) or not kind.__module__.startswith(OURS) or kind.__eq__ is object.__eq__:
        raise _Unwritable
    return [kind.__module__, kind.__qualname__, *([each.name, getattr(value, each.name)] for each in dataclasses.fields(kind))]


def _dataclass(parts: list[Any]) -> Any:
    module, name, *fields = parts
    assert module.startswith(OURS)
    kind = getattr(importlib.import_module(module), name)
    assert dataclasses.is_dataclass(kind)
    return kind(**dict(fields))  # type: ignore[operator]


KINDS = {
    "tuple": _Kind(tuple, list, tuple),
    "dict": _Kind(dict, lambda value: [list(item) for item in value.items()], dict),
    "slice": _Kind(slice, lambda value: [value.start, value.stop, value.step], lambda parts: slice(*parts)),
    "device": _Kind(torch.device, str, torch.device),
    "dtype": _of_torch(torch.dtype),
    "layout": _of_torch(torch.layout),
    "memory_format": _of_torch(torch.memory_format),
    "tensor": _Kind(Tensor, _numbers, _tensor),
    "dataclass": _Kind(object, _fields, _dataclass),
}
