"""What a kernel is remembered by: everything that the field's code may read, down to numbers in objects, closures and globals.

The quick check between calls notices every write that the full look at a field's attributes does.
"""

import copy
import functools
import gc
import math
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import ctrnn
from discretize.kernels.record.attributes import attributes_of
from discretize.kernels.record.global_reads import GlobalReads
from discretize.kernels.record.guards import Guards

CONTEXT = ContextVar("CONTEXT", default=1.0)
IN_CONTEXT = ContextVar("IN_CONTEXT", default={"scale": 1.0})  # noqa: B039 - into which a test writes
SCALE, TABLE, CONSTANT = 1.0, {"a": [1.0]}, torch.ones(2)
MODULE = types.ModuleType("of_the_user")
MODULE.scale, MODULE.by_word, MODULE.imported, MODULE.function = 1.0, 1.0, 1.0, abs
MODULE.within = types.ModuleType("within")
MODULE.within.scale, BY_WORD = 1.0, 1.0


@dataclass
class Inner:
    scale: float = 1.0


@dataclass
class Outer:
    inner: Inner = field(default_factory=Inner)
    numbers: list = field(default_factory=lambda: [1.0])


@dataclass(slots=True)
class Slots:
    scale: float = 1.0


class Kind(type):
    scale = 1.0

    def __call__(cls):
        return super().__call__()


class Thing(metaclass=Kind):
    @property
    def scale(self):
        return self.own

    @staticmethod
    def constant():
        return 1.0

    def __init__(self):
        self.own = 1.0


class OtherThing(Thing):
    pass


class Base:
    factor = 1.0


class OtherBase:
    factor = 2.0


class Counted(dict):
    pass


class Own(Base, ctrnn.VectorField):
    factor_of_class = 1.0

    def __init__(self):
        super().__init__(1, 2)
        self.weight, self.linear, self.linears = nn.Parameter(torch.ones(2)), nn.Linear(2, 2), nn.ModuleList([nn.Tanh()])
        self.register_buffer("mask", torch.ones(2))
        self.number, self.none, self.outer, self.slots, self.thing = 1.0, None, Outer(), Slots(), Thing()
        self.table, self.ordered, self.counted = {"a": {"b": [1, 2]}}, OrderedDict(a=1.0), Counted(a=1.0)
        self.array, self.set, self.deque, self.dice = np.ones(3), {1.0}, deque([1.0]), torch.Generator()
        self.list, self.last, cell = [1.0, [2.0]], {"x": 1.0}, 1.0
        self.zero, self.nan, self.nested = 0.0, math.nan, ({"b"},)
        self.tensor, self.partial = torch.ones(2, 2), functools.partial(torch.add, alpha=1)

        def function(v, scale=1.0, *, offset=1.0):
            return v * cell * scale + offset

        def rebound(value):
            nonlocal cell
            cell = value

        self.function = function
        REBIND[function] = rebound

    def flow(self, projected, h):
        return -h

    def initial(self):
        return self.number


REBIND = weakref.WeakKeyDictionary()


def renamed(given):
    given["y"] = given.pop("x")


def with_other_defaults(v, scale=2.0, *, offset=1.0):
    return v


def swapped(field):
    field.linear.bias, field.linear.weight = nn.Parameter(torch.zeros(2)), field.linear.weight


def to_data(field):
    field.weight.data = torch.ones(3)


def parametrized(field):
    parametrize.register_parametrization(field.linear, "weight", nn.Identity())


WRITES = {
    "an attribute": lambda f: setattr(f, "number", 2.0),
    "an attribute of another type": lambda f: setattr(f, "number", 1),
    "a bool for a number": lambda f: setattr(f, "number", True),
    "None": lambda f: setattr(f, "none", 0.0),
    "a new attribute": lambda f: setattr(f, "new", 1.0),
    "a deleted attribute": lambda f: delattr(f, "number"),
    "another name for the same": lambda f: renamed(f.last),
    "a list that grows": lambda f: f.list.append(1.0),
    "a list within": lambda f: f.list[1].__setitem__(0, 3.0),
    "a dict within": lambda f: f.table["a"]["b"].append(3),
    "a dict": lambda f: f.table.update(c=1),
    "an ordered dict": lambda f: f.ordered.update(a=2.0),
    "a dict of a class of one's own": lambda f: f.counted.update(a=2.0),
    "an attribute of such a dict": lambda f: setattr(f.counted, "scale", 2.0),
    "a set": lambda f: f.set.add(2.0),
    "a deque": lambda f: f.deque.append(2.0),
    "a generator's state": lambda f: f.dice.manual_seed(3),
    "an array": lambda f: f.array.fill(2),
    "a dataclass within": lambda f: setattr(f.outer.inner, "scale", 2.0),
    "a list in a dataclass": lambda f: f.outer.numbers.append(2.0),
    "slots": lambda f: setattr(f.slots, "scale", 2.0),
    "what a property reads": lambda f: setattr(f.thing, "own", 2.0),
    "the class of an object": lambda f: setattr(f.thing, "__class__", OtherThing),
    "the dict of an object": lambda f: setattr(f.thing, "__dict__", {"own": 1.0, "more": 2.0}),
    "its class on the instance": lambda f: setattr(f, "__class__", type("Own", (Own,), {"flow": lambda self, x, h: h})),
    "a method on the instance": lambda f: setattr(f, "flow", lambda projected, h: h),
    "a method of a part": lambda f: setattr(f.linear, "forward", lambda h: h),
    "a part": lambda f: setattr(f, "linear", nn.Linear(2, 2)),
    "a part of another kind": lambda f: f.linears.__setitem__(0, nn.ReLU()),
    "a part more": lambda f: f.linears.append(nn.ReLU()),
    "a part's number": lambda f: setattr(f.linear, "out_features", 3),
    "training": lambda f: f.eval(),
    "training of a part": lambda f: f.linear.eval(),
    "a weight": lambda f: setattr(f, "weight", nn.Parameter(torch.ones(2))),
    "a weight of a part": swapped,
    "a weight's data": to_data,
    "a frozen weight": lambda f: f.weight.requires_grad_(False),
    "another buffer": lambda f: setattr(f, "mask", torch.ones(2)),
    "a buffer's dtype": lambda f: f.float(),
    "strides": lambda f: f.tensor.t_(),
    "a tied weight": lambda f: setattr(f, "mask", f.mask.clone()),
    "a parametrization": parametrized,
    "a hook": lambda f: f.linear.register_forward_hook(lambda *_: None),
    "a hook before": lambda f: f.register_forward_pre_hook(lambda *_: None),
    "a default": lambda f: setattr(f.function, "__defaults__", (2.0,)),
    "a default by name": lambda f: f.function.__kwdefaults__.update(offset=2.0),
    "the code of a function": lambda f: setattr(f.function, "__code__", (lambda v: (f, v)).__code__),
    "what a function closes over": lambda f: REBIND[f.function](2.0),
    "what a function keeps": lambda f: setattr(f.function, "scale", 2.0),
    "a function": lambda f: setattr(f, "function", with_other_defaults),
    "a partial": lambda f: f.partial.keywords.update(alpha=2),
    "the sign of zero": lambda f: setattr(f, "zero", -0.0),
    "a set in a tuple": lambda f: f.nested[0].add("c"),
    "a shape": lambda f: setattr(f, "tensor", torch.ones(3)),
    "the order of numbers in memory": lambda f: setattr(f, "tensor", torch.ones(4, 2)[::2]),
    "an attribute of a weight": lambda f: setattr(f.weight, "scale", 2.0),
    "an attribute of a buffer": lambda f: setattr(f.mask, "scale", 2.0),
    "tying": lambda f: setattr(f, "other", f.weight),
}
OF_CLASSES = {
    "a number": lambda patch: patch.setattr(Own, "factor_of_class", 2.0),
    "a number of a base": lambda patch: patch.setattr(Base, "factor", 2.0),
    "a new one": lambda patch: patch.setattr(Own, "new", 2.0, raising=False),
    "a deleted one": lambda patch: patch.delattr(Own, "factor_of_class"),
    "a method": lambda patch: patch.setattr(Own, "flow", Own.initial),
    "a method that a library gave": lambda patch: patch.setattr(Own, "project", Own.initial, raising=False),
    "a library's method": lambda patch: patch.setattr(nn.Linear, "forward", lambda self, h: h),
    "a library's method where there was none": lambda patch: patch.setattr(nn.Tanh, "flow", 1, raising=False),
    "a metaclass": lambda patch: patch.setattr(Kind, "scale", 2.0),
    "a property": lambda patch: patch.setattr(Thing, "scale", property(lambda self: 2.0)),
    "a static method": lambda patch: patch.setattr(Thing, "constant", staticmethod(lambda: 2.0)),
}


def guards_of(given):
    guards = Guards(given)
    attributes_of(nn.ModuleDict({"field": given}), guards=guards)
    assert not guards.refused
    return guards.complete()


@pytest.mark.parametrize("write", WRITES)
def test_a_write_to_a_field_is_noticed(write):
    given = Own()
    guards, before = guards_of(given), attributes_of(given)
    assert guards.hold(given)
    assert attributes_of(given).values == before.values
    WRITES[write](given)
    assert not guards.hold(given)
    now = attributes_of(given)
    assert isinstance(now, str) or (now.values, *map(id, now.tensors)) != (before.values, *map(id, before.tensors))


@pytest.mark.parametrize("write", OF_CLASSES)
def test_a_write_to_a_class_is_noticed(write):
    given = Own()
    guards, before = guards_of(given), attributes_of(given).values
    with pytest.MonkeyPatch.context() as patch:
        OF_CLASSES[write](patch)
        assert not guards.hold(given)
        assert attributes_of(given).values != before


def test_other_bases_of_a_class_are_noticed():
    given, bases = Own(), Own.__bases__
    guards = guards_of(given)
    try:
        Own.__bases__ = (OtherBase, ctrnn.VectorField)
        assert not guards.hold(given)
    finally:
        Own.__bases__ = bases


def test_a_hook_on_all_modules_is_noticed():
    given = Own()
    guards = guards_of(given)
    with nn.modules.module.register_module_forward_hook(lambda *_: None):
        assert not guards.hold(given)
    assert guards.hold(given)


def test_another_field_is_not_taken_for_one_that_was_looked_at():
    given = Own()
    guards = guards_of(given)
    assert not guards.hold(copy.deepcopy(given))
    assert not guards.hold(Own())


def test_numbers_of_weights_may_change():
    given = Own()
    guards = guards_of(given)
    with torch.no_grad():
        given.weight.mul_(2)
    given.weight.data.mul_(2)
    given.load_state_dict(given.state_dict())
    assert guards.hold(given)


def reader():
    from other_file import imported  # noqa: PLC0415

    by_words = getattr(MODULE, "by_word"), globals()["BY_WORD"]  # noqa: B009
    of_others = of_module(math), MODULE.within.scale, MODULE.function, imported, by_words
    return (
        SCALE,
        TABLE["a"],
        CONSTANT,
        CONTEXT.get(),
        IN_CONTEXT.get()["scale"],
        MODULE.scale,
        helper(1.0),
        helper.scale,
        of_others,
    )


def of_module(module):
    return module.pi


def helper(v, scale=1.0):
    return v * scale


helper.scale = 1.0

OF_GLOBALS = {
    "a number": lambda patch: patch.setitem(globals(), "SCALE", 2.0),
    "a table": lambda patch: patch.setitem(TABLE, "a", [2.0]),
    "another constant": lambda patch: patch.setitem(globals(), "CONSTANT", torch.ones(2)),
    "a constant's numbers": lambda patch: patch.setattr(CONSTANT, "data", torch.zeros(2)),
    "what is written into it uncounted": lambda patch: CONSTANT.numpy().__setitem__(0, CONSTANT[0].item() + 1),
    "a context variable": lambda patch: CONTEXT.set(2.0),
    "what a context variable is by default": lambda patch: patch.setitem(IN_CONTEXT.get(), "scale", 2.0),
    "a module": lambda patch: patch.setitem(globals(), "MODULE", types.ModuleType("of_the_user")),
    "a number of a module": lambda patch: patch.setattr(MODULE, "scale", 2.0),
    "a function": lambda patch: patch.setitem(globals(), "helper", with_other_defaults),
    "its defaults": lambda patch: patch.setattr(helper, "__defaults__", (2.0,)),
    "what it keeps": lambda patch: patch.setattr(helper, "scale", 2.0),
    "a number of a library that is handed on": lambda patch: patch.setattr(math, "pi", 3.0),
    "a number of a module within": lambda patch: patch.setattr(MODULE.within, "scale", 2.0),
    "a function of a module": lambda patch: patch.setattr(MODULE, "function", float),
    "what is asked for by a word": lambda patch: patch.setattr(MODULE, "by_word", 2.0),
    "a global so": lambda patch: patch.setitem(globals(), "BY_WORD", 2.0),
    "what is imported when it runs": lambda patch: patch.setattr(MODULE, "imported", 2.0),
}


@pytest.mark.parametrize("write", OF_GLOBALS)
def test_a_write_to_a_global_is_noticed(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "other_file", MODULE)
    reads, guards = GlobalReads(), Guards()
    with reads.noted():
        reader()
    reads.now(guards)
    guards.complete()
    assert guards.hold()
    before = reads.now()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "WRITES", {})  # which it has not read
        assert reads.now().values == before.values
        context = copy_context()
        context.run(OF_GLOBALS[write], patch)
        assert not context.run(guards.hold)
        assert context.run(reads.now).values != before.values


def test_fields_that_hold_themselves_are_looked_through_each_time():
    for hold in (lambda f: [f], lambda f: f.initial, lambda f: functools.partial(f.initial), lambda f: lambda: f):
        given, guards = Own(), Guards()
        given.itself = hold(given)
        guards = Guards(given)
        attributes_of(nn.ModuleDict({"field": given}), guards=guards)
        assert guards.refused


@pytest.mark.usefixtures("only_new_garbage")
def test_what_is_compared_does_not_keep_a_field_alive():
    given = Own()
    guards, end = guards_of(given), weakref.ref(given)
    del given
    gc.collect()
    assert end() is None
    assert not guards.hold(None)


def test_fields_of_the_same_code_and_numbers_have_one_kernel():
    one, other = Own(), Own()
    one.function = other.function = one.array = other.array = None  # each has its own cell
    assert attributes_of(one).values == attributes_of(other).values == attributes_of(copy.deepcopy(one)).values


def test_all_tensors_are_found_once_wherever_they_are_kept():
    field = Own()
    field.tied, field.more, field.unregistered = field.weight, [torch.zeros(3)], [nn.Linear(2, 2)]
    found = attributes_of(field).tensors
    assert {id(tensor) for tensor in found} == {
        id(tensor) for tensor in (*field.parameters(), field.mask, field.tensor, *field.more, *field.unregistered[0].parameters())
    }
    assert len(found) == 8


class Unsaid:
    """Says of a copy that it is a new one."""

    __slots__ = ("empty", "scale")

    def __init__(self):
        self.scale = 1.0

    def __reduce__(self):
        return Unsaid, ()


def test_attributes_of_which_an_object_says_nothing_when_it_is_copied_are_compared():
    field = Own()
    field.unsaid = Unsaid()
    before = attributes_of(field).values
    assert attributes_of(field).values == before
    field.unsaid.scale = 2.0
    assert attributes_of(field).values != before


def test_what_cannot_be_compared_is_named():
    field = Own()
    field.lock = threading.Lock()
    assert attributes_of(field) == "it keeps a lock, of which no copy can be made"
    field.lock, field.many = None, [*range(30_000)]
    assert attributes_of(field) == "it keeps more than 20,000 values, too many to compare at each call"
    hook = nn.modules.module.register_module_forward_hook(lambda module, given, found: None)
    assert attributes_of(field) == "there are hooks on all modules"
    hook.remove()
