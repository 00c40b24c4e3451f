r"""Comparable values of what networks share: equal where no code can see a difference.

numbers, words, and lists, dicts and dataclasses of those    copies
tensors                                                      their bits, and how often they were written into
a threading.local                                            what it keeps in this thread
a generator that runs                                        where it stands, and its local variables
a cache of functools                                         the results that are in it, one that is new aside
an executor of concurrent.futures                            which it is: threads and queues come and go with its work
other objects that cannot be copied, as a queue.Queue        what their attributes keep
"""

from __future__ import annotations

import gc
import random
from array import array
from dataclasses import is_dataclass
from enum import Enum
from functools import lru_cache
from threading import local
from types import BuiltinFunctionType, FunctionType, GeneratorType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discretize.kernels.eligibility import is_plain
from discretize.kernels.record.attributes import PLAIN, Attributes, attributes_of, attributes_shown

__all__ = ["CachedResults", "RandomNumbers", "ResultsCache", "TensorBits", "compared", "copied"]

SIMPLE = frozenset({*PLAIN, bool})
ResultsCache: Any = type(lru_cache(lambda: None))  # which functools has no name for
# A tensor that a call writes into is one of torch's errors, or seen by its bits at the next call.
UNCHANGING = (*PLAIN, tuple, frozenset, type, Enum, FunctionType, BuiltinFunctionType, Tensor)
OF_CACHES = (type, FunctionType)  # what a cache refers to beside tables, results and arguments


def copied(value: Any) -> Any:
    """Copy numbers, words, members of an Enum, and lists, dicts and dataclasses of those, of any length; None for others."""
    kind = type(value)
    if kind in SIMPLE or isinstance(value, Enum):
        return kind, value
    if kind in (list, tuple) and SIMPLE.issuperset(map(type, value)):
        return kind, [*value]
    table = value if kind is dict else vars(value) if is_dataclass(kind) and hasattr(value, "__dict__") else None
    if table and SIMPLE.issuperset(map(type, table)) and SIMPLE.issuperset(map(type, table.values())):
        return kind, [*table], [*table.values()]
    return None


def compared(value: Any, names: dict[int, str], held: list[Attributes]) -> Any:
    """Return what is equal before and after a call that changes nothing of a value.

    Args:    names: of the module's parts, by their ids; held: collects what must live until then, so that no id is another's.
    """
    if isinstance(value, ResultsCache):
        return CachedResults(value, names, held)
    if isinstance(value, local | GeneratorType | array):
        return id(value), _inside(value, names, held)
    try:
        kept = attributes_of([value], most=float("inf"), names=names)
        if isinstance(kept, str):
            kept = attributes_shown(value, names)
        tensors = [(id(each), None if each.is_inference() else each._version, TensorBits(each)) for each in kept.tensors]
    except RuntimeError:  # a tensor that a transform has left behind
        return object()  # equal to nothing
    held.append(kept)
    return kept.values, tensors


def _inside(value: Any, names: dict[int, str], held: list[Attributes]) -> Any:
    if isinstance(value, array):
        return value.tobytes()
    if isinstance(value, local):
        return compared({**vars(value)}, names, held)
    frame = value.gi_frame
    return frame and (frame.f_lasti, compared({**frame.f_locals}, names, held), repr(value.gi_yieldfrom))


class CachedResults:
    """Compares the results that two looks at a cache of functools have both found: those that calls add are no state."""

    def __init__(self, cache: Any, names: dict[int, str], held: list[Attributes]) -> None:
        found = [each for each in gc.get_referents(cache) if not (isinstance(each, OF_CACHES) or each is vars(cache))]
        tables = [each for each in found if type(each) is dict]
        if cache.cache_parameters()["maxsize"] is None:
            found = [each for table in tables for each in table.values()]
        # A cache of limited size refers to its results, and by a table to links between them.
        self.results: list[Any] = [each for each in found if not (type(each) is dict and _leads_to_links(each))]
        self.found: dict[int, Any] = {id(each): copied(each) or compared(each, names, held) for each in self.results}

    def has_new_containers(self, before: object) -> bool:
        """Return whether a result was added that code can write into without being seen, as a list is."""
        known = before.found if isinstance(before, CachedResults) else {}
        return any(id(each) not in known and not isinstance(each, UNCHANGING) for each in self.results)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CachedResults) and all(
            self.found[each] == other.found[each] for each in self.found.keys() & other.found.keys()
        )

    __hash__ = None  # type: ignore[assignment]


def _leads_to_links(table: dict[Any, Any]) -> bool:
    return any(type(each).__name__ == "_lru_list_elem" for each in table.values())


class TensorBits:
    """Compares the bits of a tensor, which `tensor.data[0] = 1` changes without a new version; nan is equal to itself."""

    def __init__(self, tensor: Tensor) -> None:
        seen = is_plain(tensor) and tensor.layout == torch.strided and not tensor.is_meta
        self.bits = tensor.detach().flatten().clone().view(torch.uint8) if seen else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorBits) and (self.bits is other.bits or torch.equal(self.bits, other.bits))  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]


class RandomNumbers:
    """Compares the states of Python's and NumPy's global random numbers, and restores them."""

    def __init__(self) -> None:
        self.python, self.numpy = random.getstate(), np.random.get_state()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RandomNumbers) and self._words() == other._words()

    __hash__ = None  # type: ignore[assignment]

    def _words(self) -> tuple[Any, ...]:
        return self.python, *((each.tolist() if isinstance(each, np.ndarray) else each) for each in self.numpy)

    def restore(self) -> None:
        random.setstate(self.python)
        np.random.set_state(self.numpy)
