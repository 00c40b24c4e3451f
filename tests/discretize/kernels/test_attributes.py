"""What a kernel is remembered by: everything that the field's code may read, down to numbers in objects, closures and globals."""

import copy
import functools
import math
import sys
import threading
import types
from contextvars import ContextVar, copy_context
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from cases import each
from torch import nn

import ctrnn
from discretize.kernels.record.attributes import Attributes, GlobalReads, attributes_of

SCALE = 1.0
SETTINGS = types.SimpleNamespace(scale=1.0)


@dataclass(slots=True)
class Slots:
    scale: float = 1.0


class Scaling:
    scale = 1.0

    def __init__(self):
        self.own = 1.0

    def __call__(self, v):
        return v * self.own * self.scale


class Own(ctrnn.VectorField):
    factor = 1.0

    def __init__(self):
        super().__init__(1, 2)
        self.weight, self.nested = nn.Parameter(torch.ones(2)), {"a": [1, (2.0, {"b"})], "nothing": math.nan}
        self.array, self.slots, self.call = np.ones(2), Slots(), Scaling()
        self.part, self.partial = nn.Dropout(), functools.partial(torch.add, alpha=1)
        cell = [1.0]
        self.cell, self.function = cell, lambda v: v * cell[0]
        self.parent, self.constant = [self], torch.ones(2)

    def flow(self, projected, h):
        return -h


def replaced_flow(self, projected, h):
    return h


CHANGES = {
    "a number in a list": lambda field: field.nested["a"].__setitem__(0, 3),
    "a set in a tuple": lambda field: field.nested["a"][1][1].add("c"),
    "the sign of zero": lambda field: setattr(field, "zero", -0.0),
    "an array": lambda field: field.array.fill(2),
    "an object without __dict__": lambda field: setattr(field.slots, "scale", 2.0),
    "an object that is called": lambda field: setattr(field.call, "own", 2.0),
    "a class attribute of such an object": lambda field: setattr(Scaling, "scale", 2.0),
    "a class attribute": lambda field: setattr(Own, "factor", 2.0),
    "a method": lambda field: setattr(Own, "flow", replaced_flow),
    "a function": lambda field: setattr(field, "function", lambda v: v),
    "what a function closes over": lambda field: field.cell.__setitem__(0, 2.0),
    "a partial": lambda field: setattr(field, "partial", functools.partial(torch.add, alpha=2)),
    "training": lambda field: field.eval(),
    "a part": lambda field: setattr(field, "part", nn.Identity()),
    "freezing": lambda field: field.weight.requires_grad_(False),
    "tying": lambda field: setattr(field, "other", field.weight),
    "a shape": lambda field: setattr(field, "constant", torch.ones(3)),
    "the order of numbers in memory": lambda field: setattr(field, "constant", torch.ones(4)[::2]),
}


@each("change", CHANGES)
def test_whatever_changes_is_seen(change):
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((Scaling, "scale"), (Own, "factor"), (Own, "flow")):
            patch.setattr(owner, name, getattr(owner, name))
        field = Own()
        field.zero = 0.0
        before = attributes_of(field)
        assert attributes_of(field).values == before.values
        CHANGES[change](field)
        assert attributes_of(field).values != before.values


def test_fields_of_the_same_code_and_numbers_have_one_kernel():
    one, other = Own(), Own()
    one.function = other.function = None  # each has its own list
    assert attributes_of(one).values == attributes_of(other).values == attributes_of(copy.deepcopy(one)).values


def test_all_tensors_are_found_once_wherever_they_are_kept():
    field = Own()
    field.tied, field.more, field.unregistered = field.weight, [torch.zeros(3)], [nn.Linear(2, 2)]
    found = attributes_of(field).tensors
    assert {id(tensor) for tensor in found} == {
        id(tensor) for tensor in (field.weight, field.constant, *field.more, *field.unregistered[0].parameters())
    }
    assert len(found) == 5


def test_what_cannot_be_compared_is_named():
    field = Own()
    field.lock = threading.Lock()
    assert attributes_of(field) == "it keeps a lock, of which no copy can be made"
    field.lock, field.many = None, [*range(30_000)]
    assert attributes_of(field) == "it keeps more than 20,000 values, too many to compare at each call"
    hook = nn.modules.module.register_module_forward_hook(lambda module, given, found: None)
    assert attributes_of(field) == "there are hooks on all modules"
    hook.remove()


OTHER = types.ModuleType("other_file")  # of the user's
OTHER.settings, OTHER.table, OTHER.function = types.SimpleNamespace(scale=1.0), {"a": [1.0]}, abs
OTHER.within, OTHER.by_word, OTHER.imported = types.ModuleType("within"), 1.0, 1.0
OTHER.within.scale = 1.0
CONTEXT = ContextVar("CONTEXT", default=1.0)


def reader(module):
    return helper() * SETTINGS.scale * module.pi * THREE.numel()


def reader_of_other_files():
    from other_file import imported  # noqa: PLC0415

    numbers = [OTHER.settings.scale, OTHER.table["a"], OTHER.within.scale, getattr(OTHER, "by_word"), globals()["SCALE"]]  # noqa: B009
    return [OTHER.function, *numbers, imported, CONTEXT.get(), helper.scale]


def helper():
    return SCALE


helper.scale = 1.0

THREE = torch.zeros(3)


@each(
    "change",
    [
        lambda patch: patch.setitem(globals(), "SCALE", 2.0),
        lambda patch: patch.setattr(SETTINGS, "scale", 2.0),
        lambda patch: patch.setitem(globals(), "helper", lambda: 1.0),
        lambda patch: patch.setitem(globals(), "THREE", torch.zeros(3)),
        lambda patch: patch.setattr(math, "pi", 3.0),
    ],
)
def test_globals_that_code_has_read_are_compared(change):
    reads = GlobalReads()
    with reads.noted():
        reader(math)
        math_of_its_own()
    before = reads.now()
    assert isinstance(before, Attributes)
    assert reads.now().values == before.values
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "CHANGES", {})  # which it has not read
        assert reads.now().values == before.values
        change(patch)
        assert reads.now().values != before.values


def math_of_its_own():
    return math.pi


OF_OTHER_FILES = {
    "an object of a module": lambda patch: patch.setattr(OTHER.settings, "scale", 2.0),
    "a number in its table": lambda patch: patch.setitem(OTHER.table, "a", [2.0]),
    "its function": lambda patch: patch.setattr(OTHER, "function", float),
    "a number of a module within": lambda patch: patch.setattr(OTHER.within, "scale", 2.0),
    "what is asked for by a word": lambda patch: patch.setattr(OTHER, "by_word", 2.0),
    "a global so": lambda patch: patch.setitem(globals(), "SCALE", 2.0),
    "what is imported when it runs": lambda patch: patch.setattr(OTHER, "imported", 2.0),
    "a context variable": lambda patch: CONTEXT.set(2.0),
    "what a function keeps": lambda patch: patch.setattr(helper, "scale", 2.0),
}


def test_so_is_what_code_reads_of_other_files(monkeypatch):
    monkeypatch.setitem(sys.modules, "other_file", OTHER)
    reads = GlobalReads()
    with reads.noted():
        reader_of_other_files()
    before = reads.now()
    for what, change in OF_OTHER_FILES.items():
        with pytest.MonkeyPatch.context() as patch:
            context = copy_context()
            context.run(change, patch)
            assert context.run(reads.now).values != before.values, what
        assert reads.now().values == before.values, what
