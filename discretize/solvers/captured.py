r"""Make functions modules, whose parts are the modules and tensors that they close over, so that these are seen.

    net = Net();  lambda t, h: net(h) * k        CapturedFunction, with `net` as its submodule, and k as its parameter

Found are modules, and tensors that require a gradient, in closures, defaults, globals that the code names, arguments that
`functools.partial` binds and objects of bound methods; in dicts, lists and tuples there, and in functions there. A name that
code rebinds, by `nonlocal` or `global`, stays as it is, and so do attributes of objects that are no modules.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from torch import Tensor, nn

__all__ = ["CapturedFunction", "CapturedGlobals", "all_globals", "captured"]

BY_NAME = {"globals", "eval", "exec"}  # which ask for globals by names that the code does not tell


class CapturedGlobals(dict[str, Any]):
    """The globals of a function, some of which are exchanged: `origin` has the others."""

    origin: dict[str, Any]

    def __missing__(self, name: str) -> Any:
        return self.origin[name]


def all_globals(names: dict[str, Any]) -> dict[str, Any]:
    """Return the globals of a function's module, none exchanged."""
    return names.origin if isinstance(names, CapturedGlobals) else names


class CapturedFunction(nn.Module):
    """Calls a function with the parts of this module in place of the modules and tensors that it closes over."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._numbers: dict[int, str] = {}  # names of parts, by the ids of what they are
        self.made = _maker(function, self, "function", ())
        self._numbers.clear()

    def part(self, name: str, value: nn.Module | Tensor) -> str:
        """Take in a module or a tensor, once; return the name that it has here."""
        if id(value) not in self._numbers:
            free = name.isidentifier() and not hasattr(self, name)
            own = self._numbers[id(value)] = name if free else f"{name.replace('.', '_')}_{len(self._numbers)}"
            if isinstance(value, nn.Module):
                self.add_module(own, value)
            elif isinstance(value, nn.Parameter):
                self.register_parameter(own, value)
            else:
                self.register_buffer(own, value, persistent=False)
        return self._numbers[id(value)]

    def forward(self, *arguments: Any) -> Any:
        assert self.made is not None
        return self.made(self)(*arguments)


def captured(function: Any, like: Tensor) -> Any:
    """Return the function as a module of what it closes over; itself if it is a module, or there is nothing of that kind, or
    what there is differs from the states in dtype or device: such code converts them itself."""
    if isinstance(function, nn.Module):
        return function
    twin = CapturedFunction(function)
    parts = [part for part in (*twin.parameters(), *twin.buffers()) if part.is_floating_point()]
    differ = any(part.dtype != like.dtype or part.device != like.device for part in parts)
    return function if twin.made is None or differ else twin


Maker = Callable[[CapturedFunction], Any]  # makes a value of the parts that the module has now


@dataclass(frozen=True)
class _Part:
    name: str

    def __call__(self, module: CapturedFunction) -> Any:
        return getattr(module, self.name)


@dataclass(frozen=True)
class _Items:
    """A dict, list or tuple; `items`: makers of those that have parts, by key or place."""

    given: Any
    items: Mapping[Any, Maker]

    def __call__(self, module: CapturedFunction) -> Any:
        made = dict(self.given) if isinstance(self.given, dict) else list(self.given)
        for key, make in self.items.items():
            made[key] = make(module)
        return tuple(made) if isinstance(self.given, tuple) else made


@dataclass(frozen=True)
class _Bound:
    """A bound method of a module, or `functools.partial`."""

    kind: type
    arguments: tuple[Any, ...]
    keywords: Any
    function: Any

    def __call__(self, module: CapturedFunction) -> Any:
        arguments: Any
        keywords: Any
        arguments, keywords, function = (
            each(module) if isinstance(each, _Items | _Part | _CapturedFunction | _Bound) else each
            for each in (self.arguments, self.keywords, self.function)
        )
        return self.kind(function, *arguments, **keywords)


@dataclass(frozen=True)
class _CapturedFunction:
    """A function; `bare`: without what it closes over, which the makers make anew."""

    bare: FunctionType
    cells: Mapping[int, Maker]
    globals: Mapping[str, Maker]
    defaults: Maker | None
    keywords: Maker | None

    def __call__(self, module: CapturedFunction) -> FunctionType:
        bare, names = self.bare, self.bare.__globals__
        if self.globals:
            names = CapturedGlobals({name: make(module) for name, make in self.globals.items()})
            names.origin = bare.__globals__
            names["__builtins__"] = bare.__globals__["__builtins__"]
        cells = list(bare.__closure__ or ())
        for place, make in self.cells.items():
            cells[place] = CellType(make(module))
        made = FunctionType(bare.__code__, names, bare.__name__, bare.__defaults__, tuple(cells))
        if self.defaults is not None:
            made.__defaults__ = self.defaults(module)
        made.__kwdefaults__ = bare.__kwdefaults__ if self.keywords is None else self.keywords(module)
        made.__dict__.update(bare.__dict__)
        return made


def _maker(value: Any, to: CapturedFunction, name: str, within: tuple[int, ...]) -> Maker | None:
    """What makes a value of the parts of the module `to`; None where there are none in it. within: what it is found in."""
    if isinstance(value, nn.Module) or (isinstance(value, Tensor) and value.requires_grad):  # others are constants
        return _Part(to.part(name, value))
    if id(value) in within:
        return None
    within = (*within, id(value))
    if type(value) in (dict, list, tuple):
        return _of_items(value, to, name, within)
    if isinstance(value, MethodType):
        function = value.__func__
        owner = _maker(value.__self__, to, name, within)
        return None if owner is None else _Bound(MethodType, _Items((None,), {0: owner}), {}, function)  # type: ignore[arg-type]
    if type(value) is functools.partial:
        parts = [_maker(each, to, name, within) for each in (value.args, value.keywords, value.func)]
        given = (value.args, value.keywords, value.func)
        made = [own if make is None else make for make, own in zip(parts, given, strict=True)]
        return None if parts == [None] * 3 else _Bound(functools.partial, *made)  # type: ignore[arg-type]
    return _of_function(value, to, name, within) if isinstance(value, FunctionType) else None


def _of_items(given: Any, to: CapturedFunction, name: str, within: tuple[int, ...]) -> Maker | None:
    items = given.items() if isinstance(given, dict) else enumerate(given)
    made = {key: _maker(value, to, f"{name}_{key}", within) for key, value in items}
    makers = {key: make for key, make in made.items() if make is not None}
    if not makers:
        return None
    # The parts are left out here: they are the module's.
    bare = {k: None if k in makers else v for k, v in items} if isinstance(given, dict) else [*given]
    for key in makers:
        bare[key] = None
    return _Items(tuple(bare) if isinstance(given, tuple) else bare, makers)


def _of_function(given: FunctionType, to: CapturedFunction, name: str, within: tuple[int, ...]) -> Maker | None:
    names, rebound = _globals_of(given.__code__), _rebound(given.__code__)
    free = zip(given.__code__.co_freevars, given.__closure__ or (), strict=True)
    closed = {k: (own, _content(cell)) for k, (own, cell) in enumerate(free) if own not in rebound}
    cells = _found({k: _maker(value, to, own, within) for k, (own, value) in closed.items()})
    known = {each: given.__globals__[each] for each in names - rebound if each in given.__globals__}
    others = _found({each: _maker(value, to, each, within) for each, value in known.items() if _may_hold(value)})
    defaults, keywords = (_maker(each, to, "default", within) for each in (given.__defaults__, given.__kwdefaults__))
    if not (cells or others or defaults or keywords):
        return None
    closure = tuple(CellType() if k in cells else cell for k, cell in enumerate(given.__closure__ or ()))
    bare = FunctionType(given.__code__, given.__globals__, given.__name__, None if defaults else given.__defaults__, closure)
    bare.__kwdefaults__ = None if keywords else given.__kwdefaults__
    bare.__dict__.update(given.__dict__)
    return _CapturedFunction(bare, cells, others, defaults, keywords)


def _found(made: Mapping[Any, Maker | None]) -> dict[Any, Maker]:
    return {key: make for key, make in made.items() if make is not None}


def _may_hold(value: object) -> bool:
    """Whether a global is looked into: functions of libraries are not."""
    if isinstance(value, FunctionType):
        return str(value.__module__).partition(".")[0] not in ("torch", "ctrnn", "discretize", "numpy")
    return isinstance(value, nn.Module | Tensor | dict | list | tuple | functools.partial | MethodType)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


@functools.lru_cache(1000)
def _globals_of(code: CodeType) -> frozenset[str]:
    """The globals that code names, functions in it included; none where it asks for them by words."""
    lines = [line for each in _codes(code) for line in dis.get_instructions(each)]
    names = {str(line.argval) for line in lines if line.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return frozenset() if names & BY_NAME else frozenset(names)


@functools.lru_cache(1000)
def _rebound(code: CodeType) -> frozenset[str]:
    """The names of others that code writes to."""
    lines = [line for each in _codes(code) for line in dis.get_instructions(each)]
    writes = ("STORE_GLOBAL", "STORE_DEREF", "DELETE_GLOBAL", "DELETE_DEREF")
    return frozenset(str(line.argval) for line in lines if line.opname in writes)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None
