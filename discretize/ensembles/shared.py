r"""Networks of an ensemble share all that a module keeps beside its parameters and buffers, which no call may change.

One module that is run with the tensors of each network does what a loop over the networks does, if what they share is equal at
the start and no call changes it. `checked_networks` compares the first, `SharedState` the second, before and after each call.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cached_property, lru_cache, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType, TracebackType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrize import type_before_parametrizations

from ctrnn.own_code import HOOKS
from ctrnn.storage.comparison import NOTES
from ctrnn.storage.comparison import overlap as share_memory
from discretize.ensembles.values import CachedResults, RandomNumbers, ResultsCache, TensorBits, compared, copied
from discretize.kernels.eligibility import is_plain
from discretize.kernels.record.attributes import LIBRARIES, PLAIN, Attributes, attributes_of, stays_as_is
from discretize.kernels.record.guards import attached
from discretize.kernels.record.watched import is_installed

__all__ = [
    "RANDOM_NUMBERS",
    "SharedState",
    "buffers_of",
    "change_words",
    "check_attached",
    "checked_networks",
    "overlap",
    "parameter_names",
    "tensors_of",
]

LEFT_OUT = (frozenset(vars(nn.Module())) - {"training"}) | NOTES | {"dt_given"}  # torch's, and what a module notes of its calls
TABLES = ("_parameters", "_buffers", "_modules", *HOOKS)
RANDOM_NUMBERS = "Python's and NumPy's random numbers"
DRAWN = "", RANDOM_NUMBERS
CONTAINERS = (list, tuple, dict, set, frozenset, str, bytes, bytearray, deque)
MOST_COMPARED = 20_000  # numbers of a global
WRAPPED: dict[type, str] = {property: "fget", cached_property: "func", partial: "func"}
WRAPPED |= dict.fromkeys((staticmethod, classmethod, MethodType), "__func__")
BOUND = (BuiltinFunctionType, MethodType)


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by all their names, those of a part that has two names by the first."""
    return {
        f"{name}.{key}".lstrip("."): tensor
        for name, part in module.named_modules()
        for table in (part._parameters, part._buffers)
        for key, tensor in table.items()
        if tensor is not None
    }


def parameter_names(module: nn.Module) -> set[str]:
    return {name for name, _ in module.named_parameters(remove_duplicate=False)}


def buffers_of(module: nn.Module, name: str) -> dict[str, Tensor | None]:
    """Return the table that has a buffer of that name."""
    return module.get_submodule(name.rpartition(".")[0])._buffers


def _attributes(module: nn.Module) -> Iterator[tuple[str, str, Any]]:
    """Yield what the parts keep beside parameters and buffers, hooks too, and what these keep: (part, key, value)."""
    for name, part in module.named_modules():
        kept = vars(part)
        yield from [(name, key, kept[key]) for key in kept if key not in LEFT_OUT]
        for key in HOOKS:
            yield from ((name, f"{key}[{k}]", hook) for k, hook in enumerate(kept[key].values()))
        for key, tensor in itertools.chain(part._parameters.items(), part._buffers.items()):
            if tensor is not None:
                yield from ((name, f"{key}.{own}", value) for own, value in attached(tensor).items())


def _kept_in(module: nn.Module, value: object) -> Attributes | str:
    """Describe an attribute of the module, parts and their tensors by name; or return why it cannot be compared."""
    names = {id(part): f"part {name}" for name, part in module.named_modules()}
    names |= {id(tensor): name for name, tensor in tensors_of(module).items()}
    return attributes_of([value], most=float("inf"), names=names)


def change_words(name: str) -> str:
    """Say that a call has changed what networks share."""
    return (
        f"A call of the networks changes `{name}`, and the networks of an ensemble share all that is no parameter or "
        "buffer: one would go on with what another left there. Keep a tensor in a buffer, "
        f"`register_buffer({name.rpartition('.')[2]!r}, ...)`, return other things, or call the networks in a loop."
    )


def check_attached(name: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Raise ValueError if a call has set another attribute on the tensor of that name."""
    for key in {**before, **after}:
        if key not in before or key not in after or before[key] is not after[key]:
            raise ValueError(change_words(f"{name}.{key}"))


def overlap(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors share memory; False where that is not known."""
    return all(each.layout == torch.strided and is_plain(each) for each in (one, other)) and share_memory(one, other)


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
            own_way = "`discretize.layers_from_torch` gives the same network"
            yield f"{f'`{name}`' if name else 'it'} is one of torch's, which keeps its weights twice; {own_way}"
    own: dict[int, Any] = {id(each): each for each in (*module.modules(), *tensors.values())}
    for name, key, value in _attributes(module):
        if not isinstance(value, PLAIN):
            yield from _reasons_of(f"{name}.{key}".lstrip("."), value, module, own)


def _reasons_of(name: str, value: object, module: nn.Module, own: dict[int, Any]) -> Iterator[str]:
    try:
        copy.deepcopy(value, {**own})
    except Exception as error:
        said = str(error).partition("\n")[0]
        yield f"`{name}`, a {type(value).__name__}, cannot be copied ({said}); make it in `forward`, or outside of the module"
        return
    kept = _kept_in(module, value)
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
    for name, key, value in _attributes(module):
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
    """Return a tensor's dtype, shape and device in words."""

    __slots__ = ()


def _words(facts: dict[str, Any], name: str) -> str:
    if name not in facts:
        return "it has none"
    value = facts[name]
    if isinstance(value, _About):
        return f"it is {value}"
    text = value.__name__ if isinstance(value, type) else repr(value)
    return f"it is {text}" if len(text) < 100 else "it is another"


def _same(mine: object, other: object, module: nn.Module, first: nn.Module) -> bool:
    if mine is other:
        return True
    here, there = _kept_in(module, mine), _kept_in(first, other)
    if isinstance(here, str) or isinstance(there, str):
        return False  # what cannot be looked into
    return here.values == there.values and [*map(TensorBits, here.tensors)] == [*map(TensorBits, there.tensors)]


class SharedState:
    """Compares what networks share before a call, in a `with`, and after it; what a call has put in its place is undone.

    writes: whether a call that ends well may have written into parameters, and what it draws of `RANDOM_NUMBERS` is compared;
    changed: the name of what the call changed, None if nothing; lasting: whether it could not be undone; filled: whether a cache
    of functools has got lists or the like, into which the call may have written, as another call will tell.
    """

    module: nn.Module
    writes: bool
    lasting: bool

    changed: str | None = None
    lasting = False
    filled = False

    def __init__(self, module: nn.Module, writes: bool) -> None:
        self.module, self.writes = module, writes

    def __enter__(self) -> SharedState:
        self.held: list[Attributes] = list[Attributes]()  # so that no id is another's
        self.before: dict[tuple[str, str], Any] = self._snapshot()
        self.versions: dict[str, int | None] = _versions(self.module)
        self.parts: list[tuple[nn.Module, dict[str, Any], dict[str, dict[Any, Any]]]] = [
            (part, {**vars(part)}, {key: {**vars(part)[key]} for key in TABLES}) for part in self.module.modules()
        ]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        difference = None if error else self._difference()  # after an error all is undone anyway
        if error or difference:
            self._undo()
        left = self._difference() if error or difference else None
        left = left or (self._written() if error or not self.writes else None)
        self.changed, self.lasting = difference or left, left is not None

    def _snapshot(self) -> dict[tuple[str, str], Any]:
        snapshot = _snapshot(self.module, self.held)
        if not self.writes:
            snapshot.pop(DRAWN, None)
        return snapshot

    def _difference(self) -> str | None:
        now = self._snapshot()
        caches = ((name, each) for name, each in now.items() if isinstance(each, CachedResults))
        self.filled = any(each.has_new_containers(self.before.get(name)) for name, each in caches)
        every = {**self.before, **now}
        return next((".".join(filter(None, name)) for name in every if self.before.get(name, now) != now.get(name, now)), None)

    def _written(self) -> str | None:
        now = _versions(self.module)
        return next((name for name, version in self.versions.items() if now.get(name) != version), None)

    def _undo(self) -> None:
        for part, before, tables in self.parts:
            vars(part).clear()
            vars(part).update(before)
            for key, table in tables.items():
                vars(part)[key].clear()
                vars(part)[key].update(table)
        if DRAWN in self.before:
            self.before[DRAWN].restore()


def _snapshot(module: nn.Module, held: list[Attributes]) -> dict[tuple[str, str], Any]:
    """Return comparable values of the attributes by name; equal if no code can see a difference."""
    snapshot: dict[tuple[str, str], Any] = {}
    parts = dict(module.named_modules())
    for name, part in parts.items():
        snapshot[name, "__class__"] = type(part)
        snapshot |= {(name, key): id(each) for table in (part._parameters, part._modules) for key, each in table.items()}
    classes = {each: None for kind in dict.fromkeys(map(type, parts.values())) for each in kind.__mro__}
    own = [each for each in classes if _is_own(each)]
    attributes = [*_attributes(module)]
    of_classes = [*itertools.chain.from_iterable(map(_kept_by_class, own))]
    names = {id(part): name for name, part in parts.items()}
    functions = [function for *_, value in (*attributes, *of_classes) if (function := _function(value))]
    for name, key, value in itertools.chain(attributes, of_classes, _read_by_code([*classes], functions)):
        snapshot[name, key] = value if isinstance(value, RandomNumbers) else copied(value) or compared(value, names, held)
    return snapshot


def _kept_by_class(kind: type) -> Iterator[tuple[str, str, Any]]:
    """Yield what a class keeps beside its methods, and beside the tables of an Enum: (class, key, value)."""
    for key, value in vars(kind).items():
        if not (key.startswith("__") or (key.startswith("_") and key.endswith("_")) or _function(value)):
            yield kind.__name__, key, value


def _is_own(code: Any) -> bool:
    return code.__module__ is not None and code.__module__.partition(".")[0] not in LIBRARIES


def _read_by_code(classes: list[type], functions: list[FunctionType]) -> Iterator[tuple[str, str, Any]]:
    """Yield defaults, closures and globals of code that a call may run: functions, methods of classes that libraries know by
    name, such as `forward`, and what those name: (place, name, value)."""
    of_libraries = {key for kind in classes if not _is_own(kind) for key in vars(kind)} - {"__init__"}
    methods: dict[str, list[FunctionType]] = {}
    for kind in filter(_is_own, classes):
        for key, value in vars(kind).items():
            if function := _function(value):
                methods.setdefault(key, []).append(function)
    functions += [function for key, each in methods.items() if key in of_libraries for function in each]
    codes: set[CodeType] = set()
    while functions:
        function = functions.pop()
        if function.__code__ in codes or not _is_own(function):
            continue
        codes.add(function.__code__)
        place = function.__qualname__.rpartition("<locals>.")[2]
        kept = {"": function.__defaults__, "__kwdefaults__": function.__kwdefaults__, "__dict__": vars(function)}
        is_users = not is_installed(function.__code__.co_filename)  # the caches of an installed package are no state
        if is_users:
            yield from ((place, key, value) for key, value in kept.items() if value)
        for where, name, value in [*_read_by_name(function), *((place, name, value) for name, value in _closure(function))]:
            functions += methods.get(name, [])
            of = value.__self__ if isinstance(value, BOUND) else None
            if name == "random" or value is random or value is np.random or isinstance(of, random.Random | np.random.RandomState):
                yield *DRAWN, RandomNumbers()
            elif isinstance(value, FunctionType):
                functions.append(value)
            elif isinstance(value, ResultsCache) and is_users:
                functions += [value.__wrapped__] if isinstance(value.__wrapped__, FunctionType) else []
                yield where, name, value
            elif is_users and isinstance(value, type):
                of_users = (kind for kind in value.__mro__ if not stays_as_is(kind.__module__))
                yield from ((of, key, _if_small(each)) for kind in of_users for of, key, each in _kept_by_class(kind))
            elif is_users and not isinstance(value, BuiltinFunctionType | ModuleType | None):
                yield where, name, _if_small(value)


def _read_by_name(function: FunctionType) -> Iterator[tuple[str, str, Any]]:
    """Yield globals that the code names, and what it may read of the user's modules among them: (module, name, value)."""
    modules = {function.__module__: function.__globals__}
    left = [*modules]
    while left:
        module = left.pop()
        for name in _names_in(function.__code__):
            value = modules[module].get(name)
            yield module, name, value
            if isinstance(value, ModuleType) and value.__name__ not in modules and not stays_as_is(value.__name__):
                modules[value.__name__] = vars(value)
                left.append(value.__name__)


def _if_small(value: Any) -> Any:
    """Return the value, or of a large one which it is and its size, of tensors how often they were written into."""
    if isinstance(value, Tensor | nn.Module):
        tensors = [value] if isinstance(value, Tensor) else tensors_of(value).values()
        return id(value), *(None if each.is_inference() else each._version for each in tensors)
    size = value.size if isinstance(value, np.ndarray) else len(value) if isinstance(value, CONTAINERS) else 0
    return value if size <= MOST_COMPARED else (id(value), size)


def _closure(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # of one that is empty
            yield name, cell.cell_contents


def _function(value: object) -> FunctionType | None:
    """Return the function that a class keeps so, perhaps as a property or a static method."""
    kept = next((getattr(value, key) for kind, key in WRAPPED.items() if isinstance(value, kind)), value)
    return kept if isinstance(kept, FunctionType) else None


@lru_cache(1000)
def _names_in(code: CodeType) -> tuple[str, ...]:
    """Return the names that code reads, and the code within it: of globals, and of attributes."""
    within = (each for each in code.co_consts if isinstance(each, CodeType))
    return tuple(dict.fromkeys(itertools.chain(code.co_names, *map(_names_in, within))))


def _versions(module: nn.Module) -> dict[str, int | None]:
    """Return how often parameters have been written into."""
    return {name: None if each.is_inference() else each._version for name, each in module.named_parameters()}
