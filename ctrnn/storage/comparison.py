r"""Compares a model with the one that its file gives: classes, modes, tensors, and whatever else its parts keep.

    model -> words and numbers -> model'        equal, or `difference` names the first thing that is not

Two objects are equal if pickle would keep the same of both; functions, if they have the same code and hold the same.
"""

from __future__ import annotations

import functools
import math
import operator
import re
import weakref
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList, type_before_parametrizations

from ctrnn.own_code import HOOKS

__all__ = ["NOTES", "difference", "named_tensors", "overlap"]

TABLES = frozenset(vars(nn.Module())) - {"training", *HOOKS}
NOTES = {"_batch_before", "_plan", "_repeats", "_unplanned", "_why", "crossed", "stats", "watch"}  # of calls, in our modules
NOT_KEPT = {ParametrizationList: {"unsafe"}, nn.RNNBase: {"_flat_weight_refs"}}  # how it was registered; references for torch
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
MOST_SHOWN = 80  # characters of a value


def named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by all their names, those that a `state_dict` leaves out too."""
    return {
        f"{name}.{key}".lstrip("."): tensor
        for name, part in model.named_modules(remove_duplicate=False)
        for table in (part._parameters, part._buffers)
        for key, tensor in table.items()
        if tensor is not None
    }


def overlap(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors with values share memory."""
    if not (one.numel() and other.numel()) or one.untyped_storage()._cdata != other.untyped_storage()._cdata:
        return False
    if one.itemsize != other.itemsize:
        return True  # views of two dtypes
    places = torch.arange(one.untyped_storage().nbytes() // one.itemsize, device="cpu")
    mine, theirs = (places.as_strided(each.shape, each.stride(), each.storage_offset()).flatten() for each in (one, other))
    return bool(torch.isin(mine, theirs).any())


def difference(model: nn.Module, made: nn.Module, ours: tuple[str, ...]) -> str | None:
    """Say in which the second model is not the first; None if in nothing. `ours`: packages whose modules take notes of calls."""
    return next(_Comparison(ours).of_modules("model", model, made), None)


class _Comparison:
    """Compares what two models keep, with what is one thing in the first a thing in the second, too."""

    def __init__(self, ours: tuple[str, ...]) -> None:
        self.ours = ours
        self.pairs: dict[int, object] = {}
        self.begun: dict[tuple[int, int], object] = {}  # with what they are of, so that no id is another's
        self.ways: dict[type, Callable[[Any, Any], bool]] = {
            Tensor: _same_numbers,
            nn.Parameter: _same_numbers,
            **dict.fromkeys((bool, int, str, bytes, complex, set, frozenset), operator.eq),
            float: _numbers,
            **dict.fromkeys((list, tuple), lambda one, other: len(one) == len(other) and all(map(self.same, one, other))),
            dict: lambda one, other: one.keys() == other.keys() and all(self.same(one[key], other[key]) for key in one),
            FunctionType: self._functions,
            MethodType: lambda one, other: self.same(one.__func__, other.__func__) and self.same(one.__self__, other.__self__),
            weakref.ref: lambda one, other: self.same(one(), other()),
        }

    def of_modules(self, name: str, model: nn.Module, made: nn.Module) -> Iterator[str]:
        parts, others = (dict(each.named_modules(remove_duplicate=False)) for each in (model, made))
        for path in {**parts, **others}:
            where = f"{name}.{path}".rstrip(".")
            if path not in parts or path not in others:
                yield f"`{where}` is there in one of both only"
                return
            kind, other = (type_before_parametrizations(each[path]) for each in (parts, others))
            if kind is not other:
                yield f"`{where}` is a {kind.__name__}, and would be a {other.__name__}"
                return
            self.pairs[id(parts[path])] = others[path]
            yield from self._tensors(where, parts[path], others[path])
        for path, part in parts.items():
            yield from self._attributes(f"{name}.{path}".rstrip("."), part, others[path])

    def _tensors(self, where: str, part: nn.Module, other: nn.Module) -> Iterator[str]:
        for table, kind in (("_parameters", "parameter"), ("_buffers", "buffer")):
            mine, theirs = getattr(part, table), getattr(other, table)
            for key in {**mine, **theirs}:
                one, two = mine.get(key), theirs.get(key)
                if (one is None) != (two is None):
                    yield f"`{where}.{key}` is a {kind} in one of both only"
                elif one is not None:
                    if one.requires_grad != two.requires_grad:
                        yield f"`{where}.{key}` has requires_grad={one.requires_grad}, and would have {two.requires_grad}"
                    if self.pairs.setdefault(id(one), two) is not two:
                        yield f"`{where}.{key}` is the same tensor as another one, and would not be"
                    if (key in part._non_persistent_buffers_set) != (key in other._non_persistent_buffers_set):
                        yield f"`{where}.{key}` is persistent in one of both only"
                    if not _same_numbers(one, two):
                        yield f"`{where}.{key}` would have other numbers"

    def _attributes(self, where: str, part: nn.Module, other: nn.Module) -> Iterator[str]:
        left_out = TABLES | next((keys for kind, keys in NOT_KEPT.items() if isinstance(part, kind)), set())
        if type(part).__module__.partition(".")[0] in self.ours:
            left_out |= NOTES
        mine, theirs = ({key: value for key, value in vars(each).items() if key not in left_out} for each in (part, other))
        for key in HOOKS:
            mine[key], theirs[key] = ([*getattr(each, key).values()] for each in (part, other))
        for key in {**mine, **theirs}:
            if isinstance(getattr(type(part), key, None), functools.cached_property):
                continue
            if key not in theirs:
                yield f"`{where}.{key}` is {_shown(mine[key])}, and would not be there"
            elif key not in mine:
                yield f"`{where}.{key}` is not there, and would be {_shown(theirs[key])}"
            elif not self.same(mine[key], theirs[key]):
                yield f"`{where}.{key}` is {_shown(mine[key])}, and would be {_shown(theirs[key], mine[key])}"

    def same(self, one: Any, other: Any) -> bool:
        """Return whether two values are equal, as far as code can tell; False for what cannot be looked into."""
        if one is other:
            return True
        if id(one) in self.pairs:
            return self.pairs[id(one)] is other
        if isinstance(one, nn.Module) and isinstance(other, nn.Module):
            return next(self.of_modules("", one, other), None) is None
        if type(one) is not type(other) or (id(one), id(other)) in self.begun:  # in the latter it holds itself
            return type(one) is type(other)
        self.begun[id(one), id(other)] = one, other
        return bool(self.ways.get(type(one), self._by_pickle)(one, other))

    def _functions(self, one: FunctionType, other: FunctionType) -> bool:
        holds = [(each.__defaults__, each.__kwdefaults__, vars(each), _held(each)) for each in (one, other)]
        return one.__code__ == other.__code__ and one.__globals__ is other.__globals__ and self.same(*holds)

    def _by_pickle(self, one: Any, other: Any) -> bool:
        try:
            kept = [_kept(each.__reduce_ex__(4)) for each in (one, other)]
        except Exception:  # what pickle cannot keep
            return bool(one == other)
        return self.same(*kept)


def _numbers(one: Any, other: Any) -> bool:
    return bool(one == other) or (math.isnan(one) and math.isnan(other))


def _kept(reduced: Any) -> Any:
    """Return what pickle keeps of an object, iterators as lists."""
    if isinstance(reduced, str):
        return reduced
    return tuple([*each] if k > 2 and each is not None and not callable(each) else each for k, each in enumerate(reduced))


def _held(function: FunctionType) -> list[object]:
    cells = function.__closure__ or ()
    return [cell.cell_contents for cell in cells if _is_filled(cell)]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell.cell_contents
    except ValueError:
        return False


def _same_numbers(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors have the same dtype, shape and numbers, nan among them."""
    about = [(type(each), each.dtype, each.shape, each.layout, each.requires_grad, each.is_meta) for each in (one, other)]
    if about[0] != about[1] or one.is_meta:
        return about[0] == about[1]
    mine, theirs = one.detach(), other.detach().to(one.device)
    if mine.data_ptr() == theirs.data_ptr() and mine.stride() == theirs.stride():
        return True
    return bool(((mine == theirs) | (mine.isnan() & theirs.isnan())).all())


def _shown(value: object, beside: object = None) -> str:
    """Show a value; `another` where it reads as the one beside it."""
    if isinstance(value, Tensor):
        return "a tensor without values" if value.is_meta else f"a tensor {tuple(value.shape)} of {value.dtype}"
    if isinstance(value, Mapping | list | tuple) and len(str(value)) > MOST_SHOWN:
        return f"another {type(value).__name__}" if beside is not None else f"a {type(value).__name__}"
    text = ADDRESS.sub("", repr(value))
    if beside is not None and text == ADDRESS.sub("", repr(beside)):
        return "another one"
    return text if len(text) <= MOST_SHOWN else f"a {type(value).__name__}"
