r"""Check quickly whether everything that code may read is as it was when it was last looked through.

    containers    the same objects in the same places: dicts, lists, what names of modules and classes lead to
    tensors       the same shapes, strides, dtypes, devices and requires_grad; of constants, the same numbers
    all else      looked through again: arrays, sets, objects with a way of their own to be copied

What is not the same object may still be equal: where the check fails, one looks through everything again. Where dicts hold all
of it, their versions, which Python counts and torch reads, tell sooner that nothing was written.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, ValuesView
from functools import cache
from itertools import chain
from operator import attrgetter, is_, itemgetter
from types import FunctionType, MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from discretize import compat

__all__ = [
    "OF_CLASS",
    "OF_FUNCTIONS",
    "Guards",
    "UnchangedClasses",
    "Unwritten",
    "attached",
    "counts_writes",
    "dict_of",
    "is_plain",
    "layout",
]

COPYING = ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__", "__getattribute__")
OF_CLASS = attrgetter("__mro__")
OF_FUNCTIONS = tuple(map(attrgetter, ("__code__", "__defaults__", "__kwdefaults__")))
OF_TORCH = "_is_param", "_dynamo", "_fake_device"  # begin names of what torch notes on tensors
WRITTEN_IN_PYTHON = 1 << 9  # or at least in memory of its own: Py_TPFLAGS_HEAPTYPE


class Guards:
    """Collects what is to be compared while code is looked through; `owner` is given at each check, and not kept alive."""

    refused: bool
    owner_kind: type[object]
    owner_dict: Any | None
    owner: object

    def __init__(self, owner: object = None) -> None:
        self.owner, self.refused = owner, False  # because what is compared would keep the owner alive
        self.owner_kind, self.owner_dict = type(owner), getattr(owner, "__dict__", None)
        self._views, self._lookups = list[Any](), dict[int, tuple[Any, list[str]]]()
        self._written = set[type]()
        self._with_dict, self._without = list[Any](), list[Any]()
        self._reads, self._tensors = list[tuple[Callable[[Any], Any], Any]](), list[Tensor]()
        self._readers, self._classes = list[Callable[[], Any]](), set[type]()

    def mapping(self, container: Any) -> None:
        self._views += [container, container.values()]

    def sequence(self, container: list[Any]) -> None:
        self._views.append(container)

    def names(self, namespace: Mapping[str, Any], names: Iterable[str]) -> None:
        """Those of a dict, or of the dict of a class, there or not."""
        self._lookups.setdefault(id(namespace), (namespace, []))[1].extend(names)

    def written(self, kind: type) -> None:
        """Compare all that is in a class."""
        self._written.add(kind)

    def is_new(self, kind: type) -> bool:
        """Return whether a class is met for the first time, as the base of many."""
        before = len(self._classes)
        self._classes.add(kind)
        return len(self._classes) > before

    def kind(self, value: Any) -> None:
        """Return the class of an object, and which dict it has."""
        if value is not self.owner:
            (self._with_dict if hasattr(value, "__dict__") and not isinstance(value, type) else self._without).append(value)

    def tensor(self, tensor: Tensor) -> None:
        self._tensors.append(tensor)

    def read(self, of: object, *getters: Callable[[Any], object]) -> None:
        """Return what is read of an object."""
        self._reads += [(get, of) for get in getters]

    def value(self, read: Callable[[], object]) -> None:
        """Return what `read` gives, the same object where it is equal."""
        self._readers.append(read)

    def complete(self) -> Guards:
        """Ask from here on for what is there now."""
        self.owner = None
        self._lengths = [*map(len, self._views)]
        self._filled = [view for view in self._views if len(view)]  # others need no more than their lengths
        there = [(namespace, [name for name in names if name in namespace]) for namespace, names in self._lookups.values()]
        self._getters = [(_getter(names), namespace) for namespace, names in there if names]
        self._absent = [(namespace.keys(), {*names} - {*namespace}) for namespace, names in self._lookups.values() if names]
        self._objects = [*self._with_dict, *self._without]
        self._unchanged = UnchangedClasses(self._written)
        self._same = [*self._now()]
        self._layouts = [*map(layout, self._tensors)]
        self._values = [read() for read in self._readers]
        return self

    def _now(self) -> Iterator[object]:
        """List all that has to be the same objects: as many as there were, for lengths and getters are the same."""
        return chain(
            chain.from_iterable(self._filled),
            map(type, self._objects),
            map(vars, self._with_dict),
            [get(of) for get, of in self._reads],
            chain.from_iterable([get(namespace) for get, namespace in self._getters]),
        )

    def hold(self, owner: object = None) -> bool:
        try:
            return (
                type(owner) is self.owner_kind
                and getattr(owner, "__dict__", None) is self.owner_dict
                and [*map(len, self._views)] == self._lengths
                and self._unchanged.hold()
                and all(map(is_, self._now(), self._same))
                and all([keys.isdisjoint(names) for keys, names in self._absent])  # noqa: C419 - in half the time
                and [*map(layout, self._tensors)] == self._layouts
                and (not self._readers or all(read() == value for read, value in zip(self._readers, self._values, strict=True)))
            )
        except Exception:  # what is read there is the user's
            return False

    def dicts(self) -> list[dict[Any, Any]] | None:
        """Return the dicts that hold what is compared, but for what `Unwritten` asks of objects; None where others hold some."""
        views = [view for view in self._views if not isinstance(view, ValuesView)]
        given = [*views, *(given for given, _ in self._lookups.values())]
        # The order of an OrderedDict is in no version.
        if self._readers or not all(type(each) in (dict, MappingProxyType) or each == {} for each in given):
            return None
        return [*(each if isinstance(each, dict) else _behind(each) for each in given), *map(dict_of, self._written)]


class UnchangedClasses:
    """Tells that there is in classes what there was, by equality, as lists do sooner than by `is_`; a function equals itself
    alone."""

    def __init__(self, kinds: Iterable[type]) -> None:
        self._views = [vars(kind).values() for kind in kinds]
        self._before = [*map(list, self._views)]

    def hold(self) -> bool:
        try:
            return [*map(list, self._views)] == self._before
        except Exception:  # a tensor in the place of another one
            return False


def dict_of(kind: type) -> dict[str, Any]:
    """Return the dict that holds what is in a class."""
    return _behind(vars(kind))


def _behind(view: object) -> dict[Any, Any]:
    found: Any = gc.get_referents(view)[0]
    assert isinstance(found, dict)
    return found


class Unwritten:
    """Tells that nothing was written into dicts, and that objects have the same dicts and classes. Most dicts are empty, as those
    of hooks are, and are quicker asked whether they are; and what objects refer to is quicker listed than asked of each."""

    def __init__(self, guards: Sequence[tuple[object, Guards]], dicts: Iterable[dict[Any, Any]]) -> None:
        """guards: with their owners, which are kept alive."""
        owners, given = [owner for owner, _ in guards], {id(each): each for each in dicts}.values()
        self._version: Callable[[Any], int] = compat.dict_version
        self._empty, self._filled = tuple(each for each in given if not each), tuple(each for each in given if each)
        self._versions = [*map(self._version, self._filled)]
        with_dict = [*owners, *chain.from_iterable(each._with_dict for _, each in guards)]
        asked: list[tuple[Callable[[Any], Any], Any]] = [
            *((type, each) for each in [*owners, *chain.from_iterable(each._objects for _, each in guards)]),
            *((vars, each) for each in with_dict),
            *chain.from_iterable(each._reads for _, each in guards),
        ]
        self._listed = tuple({id(of): of for get, of in asked if _is_listed(get, of)}.values())
        self._asked = [(get, of) for get, of in asked if not _is_listed(get, of)]
        self._referents, self._answers = gc.get_referents(*self._listed), [get(of) for get, of in self._asked]

    def hold(self) -> bool:
        now = gc.get_referents(*self._listed)
        return (
            not any(self._empty)
            and [*map(self._version, self._filled)] == self._versions
            and len(now) == len(self._referents)
            and all(map(is_, now, self._referents))
            and (not self._asked or all(map(is_, [get(of) for get, of in self._asked], self._answers)))
        )


def _is_listed(get: Callable[[Any], Any], of: object) -> bool:
    """Return whether the garbage collector lists an answer among what an object refers to, which then changes with it."""
    if isinstance(of, FunctionType):
        return get in OF_FUNCTIONS
    if get not in (type, vars, OF_CLASS):
        return False
    referents = gc.get_referents(of)  # an object's class and dict; or, where it has made none, its attributes
    return any(each is get(of) for each in referents) and (isinstance(of, type) or len(referents) == 2)


@cache
def counts_writes() -> bool:
    """Return whether Python counts writes into dicts, those of classes and of objects too, and torch reads the number.

    Python 3.13 counts no attributes that are set by `object.__setattr__`, as modules of torch set theirs.
    """
    if compat.missing(["dict_version"]):
        return False
    kind: Any = type("Kind", (), {"a": 1})
    each, dicts = kind(), [{"a": 1, "b": 1}, dict_of(kind)]
    object.__setattr__(each, "a", 1)
    object.__setattr__(each, "b", 1)
    dicts.append(vars(each))

    def versions() -> tuple[int, ...]:
        return tuple(map(compat.dict_version, dicts))

    seen = [versions(), versions()]
    for value in (2, 1):  # of which the second is what was there
        dicts[0]["a"] = kind.a = value
        object.__setattr__(each, "a", value)
        seen.append(versions())
    del dicts[0]["b"]
    kind.b = 1
    object.__delattr__(each, "b")
    seen.append(versions())
    return seen[0] == seen[1] and all(len({*each}) == len(seen) - 1 for each in zip(*seen, strict=True))


def _getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    return itemgetter(*names, names[0])  # a tuple of one name too


def layout(tensor: Tensor) -> tuple[Any, ...]:
    """Return all that code can know of a tensor but its numbers."""
    strides = tensor.stride() if tensor.layout == torch.strided else tensor.layout
    return type(tensor), tensor.shape, strides, tensor.dtype, tensor.device, tensor.requires_grad


def attached(tensor: Tensor) -> dict[str, Any]:
    """Return the attributes that someone has set on a tensor, as in `weight.scale = 2`; those that torch sets aside."""
    own, kind = vars(tensor), type(tensor)
    if not own:
        return {}
    set_aside = {name for name in own if name.startswith(OF_TORCH) or _is_noted_by(kind, name) or _wraps(kind, own[name])}
    return {name: value for name, value in own.items() if name not in set_aside}


def _wraps(kind: type[Tensor], value: object) -> bool:
    """Return whether this is a tensor that tensors of a class wrap, and take their values from."""
    return isinstance(value, Tensor) and kind.__torch_dispatch__ is not Tensor.__torch_dispatch__


def _is_noted_by(kind: type, name: str) -> bool:
    """Return whether tensors of a class of torch's own, as those without values, have an attribute of that name themselves."""
    if kind in (Tensor, nn.Parameter) or not kind.__module__.startswith("torch."):
        return False
    return hasattr(kind, name) or name in kind.__annotations__ or "_memo" in name


def is_plain(value: object) -> bool:
    """Return whether all that an object is are its class and its `__dict__`, as `object` itself copies it."""
    kinds = type(value).__mro__[:-1]
    if any(name in vars(kind) for kind in kinds for name in COPYING) or any(vars(kind).get("__slots__") for kind in kinds):
        return False
    return all(kind.__flags__ & WRITTEN_IN_PYTHON for kind in kinds) and not isinstance(value, type)
