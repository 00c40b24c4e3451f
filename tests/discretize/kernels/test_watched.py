"""Whatever a field's code reads: between two calls it changes, and a kernel either notices that or was never written."""

import argparse
import contextlib
import ctypes
import dataclasses
import enum
import functools
import gc
import importlib
import io
import itertools
import math
import operator
import os
import random
import re
import string
import sys
import threading
import time
import types
import weakref
from contextvars import ContextVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close

import ctrnn
from discretize import DiscreteRNN
from discretize.kernels import registry as written_kernels
from discretize.kernels.record import watched
from discretize.kernels.record.attributes import attributes_of
from discretize.kernels.record.global_reads import GlobalReads

pytestmark = pytest.mark.records
SCALE = 1.0
NUMBERS = {"scale": 1.0}
TENSOR = torch.ones((), dtype=torch.float64)
OTHER = types.ModuleType("other_file")  # of the user's
OTHER.scale, OTHER.settings, OTHER.function = 1.0, types.SimpleNamespace(scale=1.0), lambda: 1.0
OTHER.within = types.ModuleType("within")
OTHER.within.scale = 1.0
MODULES = [OTHER]
CONTEXT, LOCAL = ContextVar("CONTEXT", default=1.0), threading.local()
LOCAL.scale = 1.0
CELL, ALIVE = ctypes.c_double(1.0), argparse.Namespace(scale=1.0)
POINTER = ctypes.pointer(CELL)
BYTES = bytearray(b"\1")
VIEW = memoryview(BYTES)
FILE = io.StringIO("1" * 100_000)
NAMESPACE, ARRAY = argparse.Namespace(scale=1.0), np.ones(2)
COUNT, DRAWS, TORCH_DRAWS = itertools.count(), random.Random(0), torch.Generator()
ARRAY_DRAWS = np.random.default_rng(0)


@dataclasses.dataclass
class Data:
    scale: float = 1.0


class Kinds(enum.Enum):
    ONE = 1.0


class Number(float):
    unit = 1.0


class Hiding:
    """Copies of it know nothing of its number."""

    def __init__(self):
        self.scale = 1.0

    def __getstate__(self):
        return {}


class Settings(type):
    size = 1.0

    @property
    def scale(cls):
        return cls.size


class Meta(metaclass=Settings):
    pass


class Answering:
    def __init__(self):
        self.known = {"scale": 1.0}

    def __getattr__(self, name):
        if name == "known":
            raise AttributeError
        return self.known[name]


class Dunder:
    __scale__ = 1.0


class Descriptor:
    number = 1.0

    def __get__(self, owner, kind=None):
        return self.number


class Described:
    scale = Descriptor()


NUMBER, DATA, HIDING, ANSWERING, DESCRIBED, REF = Number(1), Data(), Hiding(), Answering(), Described(), weakref.ref(ALIVE)


@functools.lru_cache
def cached():
    return SCALE


@functools.singledispatch
def dispatched(value):
    return SCALE


@contextlib.contextmanager
def entered():
    yield SCALE


def with_default(numbers=[1.0]):  # noqa: B006 - it is what is tried
    return numbers[0]


def closing_over():
    numbers = [1.0]

    def told():
        return numbers[0]

    return told, numbers


CLOSURE, CLOSED = closing_over()


def scale_of(module):
    return module.scale


def other():
    return OTHER


def in_a_closure():
    module = OTHER

    def told():
        return module.scale

    return told()


def in_a_pattern(value):
    match value:
        case types.ModuleType(scale=scale):
            return scale


def grad_in_a_pattern(h):
    match h:
        case torch.Tensor(requires_grad=True):
            return 2.0
    return 1.0


class Giving:
    @property
    def module(self):
        return OTHER


GIVING = Giving()
PARTIAL = functools.partial(operator.getitem, NUMBERS, "scale")
GETTER = operator.attrgetter("scale")
DIGITS = iter([1.0] * 10**5)


def generated():
    while True:
        yield SCALE


GENERATOR = generated()


class Field(ctrnn.VectorField):
    """dh/dt = -number() h."""

    def __init__(self, number):
        super().__init__(1, 2)
        self.number, self.name, self.weight = number, "scale", nn.Parameter(torch.ones(2))

    def flow(self, projected, h):
        return -self.number(self, h) * h * self.weight


def set_item(of, key, value):
    def change(patch):
        patch.callback(of.__setitem__, key, of[key].copy() if isinstance(of, np.ndarray) else of[key])
        of[key] = value

    return change


def set_attribute(of, name, value):
    return lambda patch: patch.setattr(of, name, value)


def set_global(name="SCALE", value=2.0):
    return lambda patch: patch.setitem(globals(), name, value)


def environment(patch):
    patch.setenv("CTRNN_SCALE", "2.0")


def written_into(tensor):
    def change(patch):
        tensor.mul_(2)
        patch.callback(lambda: tensor.div_(2))

    return change


def called(do, undo):
    def change(patch):
        do()
        patch.callback(undo)

    return change


def truth(condition):
    return 2.0 if condition else 1.0


WATCHED = {
    "a global": (lambda self, h: SCALE, set_global()),
    "a global by its name": (lambda self, h: globals()["SCALE"], set_global()),
    "an item of a global": (lambda self, h: NUMBERS["scale"], set_item(NUMBERS, "scale", 2.0)),
    "a module's number": (lambda self, h: OTHER.scale, set_attribute(OTHER, "scale", 2.0)),
    "an object of a module": (lambda self, h: OTHER.settings.scale, set_attribute(OTHER.settings, "scale", 2.0)),
    "a function of a module": (lambda self, h: OTHER.function(), set_attribute(OTHER, "function", lambda: 2.0)),
    "a module within that a function is given": (
        lambda self, h: scale_of(OTHER.within),
        set_attribute(OTHER.within, "scale", 2.0),
    ),
    "a module that a function gives": (lambda self, h: other().scale, set_attribute(OTHER, "scale", 2.0)),
    "a module that a property gives": (lambda self, h: GIVING.module.scale, set_attribute(OTHER, "scale", 2.0)),
    "a module in a pattern": (lambda self, h: in_a_pattern(OTHER), set_attribute(OTHER, "scale", 2.0)),
    "a namespace": (lambda self, h: NAMESPACE.scale, set_attribute(NAMESPACE, "scale", 2.0)),
    "a namespace by a name": (lambda self, h: getattr(NAMESPACE, self.name), set_attribute(NAMESPACE, "scale", 2.0)),
    "a context variable": (lambda self, h: CONTEXT.get(), called(lambda: CONTEXT.set(2.0), lambda: CONTEXT.set(1.0))),
    "an array": (lambda self, h: float(ARRAY[0]), set_item(ARRAY, 0, 2.0)),
    "a tensor of no module": (lambda self, h: TENSOR, written_into(TENSOR)),
    "a tensor written into by an array": (lambda self, h: TENSOR, set_item(TENSOR.numpy(), (), 2.0)),
    "a dataclass": (lambda self, h: DATA.scale, set_attribute(DATA, "scale", 2.0)),
    "a number with an attribute": (lambda self, h: 1.0 * NUMBER.unit, set_attribute(NUMBER, "unit", 2.0)),
    "a number's class": (lambda self, h: 1.0 * NUMBER.unit, set_attribute(Number, "unit", 2.0)),
    "an enum": (lambda self, h: Kinds.ONE.value, set_attribute(Kinds.ONE, "_value_", 2.0)),
    "an object whose copies hide it": (lambda self, h: HIDING.scale, set_attribute(HIDING, "scale", 2.0)),
    "a property of a class of classes": (lambda self, h: Meta.scale, set_attribute(Settings, "size", 2.0)),
    "an attribute that is made up": (lambda self, h: ANSWERING.scale, set_item(ANSWERING.known, "scale", 2.0)),
    "a name between underscores": (lambda self, h: Dunder.__scale__, set_attribute(Dunder, "__scale__", 2.0)),
    "a descriptor": (lambda self, h: DESCRIBED.scale, set_attribute(Descriptor, "number", 2.0)),
    "a default": (lambda self, h: with_default(), set_item(with_default.__defaults__[0], 0, 2.0)),
    "a closure": (lambda self, h: CLOSURE(), set_item(CLOSED, 0, 2.0)),
    "a partial": (lambda self, h: PARTIAL(), set_item(NUMBERS, "scale", 2.0)),
    "a context manager": (lambda self, h: contextlib.ExitStack().enter_context(entered()), set_global()),
    "the default type of numbers": (
        lambda self, h: truth(torch.get_default_dtype() == torch.float32),
        lambda patch: (
            patch.callback(torch.set_default_dtype, torch.get_default_dtype()),
            torch.set_default_dtype(torch.float16),
        ),
    ),
    "a function of the standard library": (lambda self, h: math.floor(1.5), set_attribute(math, "floor", lambda x: 2.0)),
    "a layer's code": (lambda self, h: nn.Identity()(1.0), set_attribute(nn.Identity, "forward", lambda self, x: 2.0)),
}
UNWATCHED = {
    "a module by a name that is computed": (lambda self, h: getattr(OTHER, self.name), set_attribute(OTHER, "scale", 2.0)),
    "a module within": (lambda self, h: getattr(OTHER.within, self.name), set_attribute(OTHER.within, "scale", 2.0)),
    "a module of a list": (lambda self, h: getattr(MODULES[0], self.name), set_attribute(OTHER, "scale", 2.0)),
    "a module's dict": (lambda self, h: vars(OTHER)[self.name], set_attribute(OTHER, "scale", 2.0)),
    "a module's __dict__": (lambda self, h: OTHER.__dict__[self.name], set_attribute(OTHER, "scale", 2.0)),
    "a global by a name that is computed": (lambda self, h: globals()[self.name.upper()], set_global()),
    "the globals of a function": (lambda self, h: with_default.__globals__["SCALE"], set_global()),
    "a module that is looked up": (lambda self, h: sys.modules[__name__].SCALE, set_global()),
    "a module that is imported": (lambda self, h: importlib.import_module(__name__).SCALE, set_global()),
    "code in words": (lambda self, h: eval("SCA" + "LE"), set_global()),
    "an attribute's getter": (lambda self, h: operator.attrgetter(self.name)(OTHER), set_attribute(OTHER, "scale", 2.0)),
    "a name in words": (lambda self, h: float("{.scale}".format(OTHER)), set_attribute(OTHER, "scale", 2.0)),  # noqa: UP032
    "a name in words by their class": (lambda self, h: float(str.format("{0.scale}", OTHER)), set_attribute(OTHER, "scale", 2.0)),
    "a name in words by a formatter": (
        lambda self, h: float(string.Formatter().format("{0.scale}", OTHER)),
        set_attribute(OTHER, "scale", 2.0),
    ),
    "the way of a module to look up": (lambda self, h: OTHER.__getattribute__(self.name), set_attribute(OTHER, "scale", 2.0)),
    "the way of a function to look up": (lambda self, h: with_default.__getattribute__("__globals__")["SCALE"], set_global()),
    "a list of names": (
        lambda self, h: truth("twice" in OTHER.__dir__()),
        lambda patch: patch.setattr(OTHER, "twice", 1, raising=False),
    ),
    "a cache": (
        lambda self, h: cached(),
        lambda patch: (set_global()(patch), called(cached.cache_clear, cached.cache_clear)(patch), cached()),
    ),
    "a weak reference": (lambda self, h: REF().scale, set_attribute(ALIVE, "scale", 2.0)),
    "a number of the thread": (lambda self, h: LOCAL.scale, set_attribute(LOCAL, "scale", 2.0)),
    "a pointer": (lambda self, h: POINTER.contents.value, set_attribute(CELL, "value", 2.0)),
    "a view of memory": (lambda self, h: VIEW[0], set_item(BYTES, 0, 2)),
    "a generator": (lambda self, h: next(GENERATOR), set_global()),
    "a file": (lambda self, h: float(FILE.read(1)), set_global("FILE", io.StringIO("2" * 100_000))),
    "the environment": (lambda self, h: float(os.environ.get("CTRNN_SCALE", "1.0")), environment),
    "the environment, in passing": (lambda self, h: float(next(map(os.getenv, ["CTRNN_SCALE"])) or 1.0), environment),
    "the folder": (lambda self, h: truth(os.getcwd() == "/"), lambda patch: patch.chdir("/")),
    "the limit of recursion": (
        lambda self, h: truth(sys.getrecursionlimit() == 4321),
        called(functools.partial(sys.setrecursionlimit, 4321), functools.partial(sys.setrecursionlimit, sys.getrecursionlimit())),
    ),
    "what the collector does": (lambda self, h: truth(not gc.isenabled()), called(gc.disable, gc.enable)),
    "torch's seed": (
        lambda self, h: truth(torch.initial_seed() == 1234),
        called(lambda: torch.manual_seed(1234), lambda: torch.manual_seed(0)),
    ),
    "the number of threads": (
        lambda self, h: truth(torch.get_num_threads() == 3),
        lambda patch: patch.setting(torch.get_num_threads, torch.set_num_threads, 3),
    ),
    "a flag of torch": (
        lambda self, h: truth(torch.backends.opt_einsum.strategy == "greedy"),
        set_attribute(torch.backends.opt_einsum, "strategy", "greedy"),
    ),
    "an exact torch": (
        lambda self, h: truth(torch.are_deterministic_algorithms_enabled()),
        called(lambda: torch.use_deterministic_algorithms(True), lambda: torch.use_deterministic_algorithms(False)),
    ),
    "a mode of torch": (
        lambda self, h: truth(torch.is_anomaly_enabled()),
        lambda patch: patch.entered(torch.autograd.set_detect_anomaly(True)),
    ),
    "gradients": (lambda self, h: truth(not torch.is_grad_enabled()), lambda patch: patch.entered(torch.no_grad())),
    "inference": (lambda self, h: truth(torch.is_inference_mode_enabled()), lambda patch: patch.entered(torch.inference_mode())),
    "autocast": (
        lambda self, h: truth(torch.get_autocast_dtype("cpu") == torch.float16),
        called(lambda: torch.set_autocast_dtype("cpu", torch.float16), lambda: torch.set_autocast_dtype("cpu", torch.bfloat16)),
    ),
    "a state that requires its gradient": (lambda self, h: truth(h.requires_grad), lambda patch: patch.entered(torch.no_grad())),
    "the same by a word": (lambda self, h: truth(getattr(h, "requires_grad")), lambda patch: patch.entered(torch.no_grad())),  # noqa: B009
    "the same by a name": (lambda self, h: truth(getattr(h, "requires_" + "grad")), lambda patch: patch.entered(torch.no_grad())),
    "the same in a pattern": (lambda self, h: grad_in_a_pattern(h), lambda patch: patch.entered(torch.no_grad())),
    "the same in words": (lambda self, h: truth("grad" in str(h * 1)), lambda patch: patch.entered(torch.no_grad())),
    "a state of other code": (lambda self, h: truth(h.grad_fn is not None), lambda patch: patch.entered(torch.no_grad())),
    "a gradient that is there": (
        lambda self, h: truth(self.weight.grad is not None),
        lambda patch: setattr(patch.field.weight, "grad", torch.ones(2)),
    ),
    "a weight that was written into": (
        lambda self, h: truth(self.weight._version > 5),
        lambda patch: [patch.field.weight.detach().mul_(1) for _ in range(9)],
    ),
}
DRAWN = {
    "Python's draws": lambda self, h: random.random(),
    "draws of a source": lambda self, h: DRAWS.random(),
    "draws of one in a list": lambda self, h: [DRAWS][0].random(),
    "numpy's": lambda self, h: np.random.rand(),
    "those of a source of numpy's": lambda self, h: ARRAY_DRAWS.random(),
    "torch's": lambda self, h: torch.rand((), dtype=h.dtype),
    "those of a source of torch's": lambda self, h: torch.rand((), dtype=h.dtype, generator=TORCH_DRAWS),
    "dropout": lambda self, h: nn.functional.dropout(torch.ones_like(h)),
}


class Changed(pytest.MonkeyPatch):
    """Where a field's surroundings are changed, by monkeypatch and in other ways."""

    def __init__(self, field):
        super().__init__()
        self.field, self.stack = field, contextlib.ExitStack()
        self.callback, self.entered = self.stack.callback, self.stack.enter_context

    def setting(self, get, put, value):
        self.callback(put, get())
        put(value)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stack.close()
        self.undo()


def sources():
    """The states of all sources of chance."""
    states = random.getstate(), DRAWS.getstate(), np.random.get_state(), ARRAY_DRAWS.bit_generator.state
    return [*map(repr, states), *map(repr, (torch.get_rng_state().tolist(), TORCH_DRAWS.get_state().tolist()))]


def seed():
    random.seed(0), DRAWS.seed(0), np.random.seed(0), torch.manual_seed(0), TORCH_DRAWS.manual_seed(0)
    ARRAY_DRAWS.bit_generator.state = np.random.default_rng(0).bit_generator.state


def states(field, fused=True):
    rnn = DiscreteRNN(field, dt=0.25, fused=fused)
    return rnn(torch.zeros(3, 2, 1, dtype=torch.float64), torch.ones(2, 2, dtype=torch.float64).requires_grad_())[0], rnn.stats


@pytest.fixture(autouse=True)
def short_sequences(monkeypatch):
    monkeypatch.setattr(written_kernels, "MOST_IN_VAIN", math.inf)


@pytest.mark.parametrize("way", WATCHED)
def test_what_can_be_watched_is_compared(way):
    number, change = WATCHED[way]
    field, reads, h = Field(number), GlobalReads(), torch.ones(2, 2)

    def seen():
        return torch.get_default_dtype(), attributes_of(field).values, reads.now().values

    with reads.noted():
        field.flow(torch.ones(2, 1), h)
    before = seen()
    field.flow(torch.ones(2, 1), h)
    assert seen() == before
    with Changed(field) as patch:
        change(patch)
        assert seen() != before


@pytest.mark.slow  # two kernels each
@pytest.mark.parametrize("way", WATCHED)
def test_kernels_notice_what_has_changed(way):
    number, change = WATCHED[way]
    field = Field(number)
    with Changed(field) as patch:
        assert states(field)[1]["engine"] == "compiled"
        change(patch)
        after, stats = states(field)
        assert stats["engine"] == "compiled"
        assert_close(after, states(field, fused=False)[0], rtol=1e-12, atol=1e-12)  # three steps, to rounding


@pytest.mark.parametrize("way", UNWATCHED)
def test_what_cannot_be_watched_is_not_compiled(way):
    number, change = UNWATCHED[way]
    field = Field(number)
    with Changed(field) as patch:
        before, stats = states(field)
        assert stats["engine"] == "steps"
        assert re.search("its code asks for `|of which no copy can be made|by no name|cannot be read", stats["engine_why"]), (
            stats["engine_why"]
        )
        change(patch)
        after = states(field)[0]
        assert torch.equal(after, states(field, fused=False)[0])
        assert not torch.equal(after, before)


@pytest.mark.parametrize("way", DRAWN)
def test_what_is_drawn_is_drawn_as_often_as_the_steps_do(way):
    found = []
    for fused in (False, True):
        seed()
        found.append((states(Field(DRAWN[way]), fused)[0], sources()))
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


ORDINARY = {
    "a layer by a name that is computed": lambda self, h: getattr(self, self.name)(h).mean(),
    "a layer of a list": lambda self, h: sum(getattr(layer, "weight").mean() for layer in self.layers),  # noqa: B009
    "a function of torch by a name": lambda self, h: getattr(torch, self.function)(h),
    "the same of a module within": lambda self, h: getattr(torch.nn.functional, self.function)(h),
    "an attribute of its own that is called grad": lambda self, h: self.grad,
    "a strided layer": lambda self, h: self.stride.stride,
    "the smallest number": lambda self, h: torch.finfo(h.dtype).eps + sys.float_info.epsilon,
    "zeros like the state": lambda self, h: torch.zeros(h.shape, dtype=h.dtype, device=h.device) + 1,
    "the default type of numbers": lambda self, h: torch.ones((), dtype=torch.get_default_dtype()),
    "a gradient within": lambda self, h: derivative(h),
    "a decorated function": lambda self, h: without_gradients(h).mean(),
    "functions of other libraries": lambda self, h: np.tanh(1.0) + operator.add(math.pi, 1) + functools.reduce(max, [1, 2]),
    "a method of its class": lambda self, h: type(self).doubled(1.0) + self.state_size,
    "a container": lambda self, h: {**NUMBERS, "more": [*range(3)]}["scale"] + len(sorted({1, 2})),
    "a lock that it keeps in its class": lambda self, h: 1.0,
}


@torch.no_grad()
def without_gradients(h):
    return h.tanh()


def derivative(h):
    with torch.enable_grad():
        at = h.detach().requires_grad_()
        return torch.autograd.grad((at**2).sum(), at)[0]


class Layered(Field):
    lock = threading.Lock()

    def __init__(self, number):
        super().__init__(number)
        self.scale, self.layers = nn.Linear(2, 2), nn.ModuleList([nn.Linear(2, 2)])
        self.function, self.grad, self.stride = "tanh", 1.0, nn.Conv1d(1, 1, 1)
        self.stride.stride = 1.0

    @staticmethod
    def doubled(x):
        return 2 * x


@pytest.mark.parametrize("way", ORDINARY)
def test_ordinary_code_is_not_refused(way):
    reads = GlobalReads()
    with reads.noted():
        Layered(ORDINARY[way]).flow(torch.ones(2, 1), torch.ones(2, 2).requires_grad_())
    assert not isinstance(reads.now(), str)
    assert not isinstance(attributes_of(Layered(ORDINARY[way])), str)


class Doubling(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        return 2 * found if function is torch.tanh else found


def test_a_mode_that_changes_functions_reaches_the_field(monkeypatch):
    none = written_kernels._Made("none today", GlobalReads(), "", ())
    monkeypatch.setattr(written_kernels, "_attempt", lambda *_: none)
    field = Field(lambda self, h: torch.tanh(h))
    with Doubling():
        doubled, stats = states(field)
        assert_close(doubled, states(field, fused=False)[0], rtol=0, atol=0)
    assert stats["engine_why"] == "a function mode looks at each operation"
    with torch.device("cpu"):
        assert states(field)[1]["engine_why"] == "none today"


def test_what_runs_as_an_object_dies_is_not_taken_for_the_code_s_own():
    kept, known = [torch.ones(())], weakref.WeakValueDictionary()  # which forgets it by a function of its own
    known["it"] = kept[0]

    def flow(h):
        kept.clear()
        return 2 * h

    reads = GlobalReads()
    with reads.noted():
        flow(torch.ones(2))
    assert "it" not in known


class Importing(ctrnn.VectorField):
    def flow(self, projected, h):
        from imported_by_a_flow import scaled  # noqa: PLC0415

        return scaled(h)


def test_what_a_module_runs_as_it_is_imported_is_not_the_code_s_own(tmp_path, monkeypatch):
    lines = "import sys", "SCALE = float(len(sys._getframe().f_code.co_name))", "scaled = lambda h: SCALE - h"
    (tmp_path / "imported_by_a_flow.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    rnn = DiscreteRNN(Importing(1, 2), fused="always")
    output, _ = rnn(torch.zeros(3, 2, 1))
    assert rnn.stats["engine"] == "compiled", rnn.stats["engine_why"]
    assert_close(output, torch.full((3, 2, 2), 8.0))  # the length of <module>
    sys.modules["imported_by_a_flow"].SCALE = 3.0
    assert_close(rnn(torch.zeros(3, 2, 1))[0], torch.full((3, 2, 2), 3.0))
    del sys.modules["imported_by_a_flow"]


def test_packages_are_installed_wherever_pip_has_put_them(tmp_path, monkeypatch):
    (tmp_path / "target" / "some-1.0.dist-info").mkdir(parents=True)
    (tmp_path / "own").mkdir()
    for name in ("target", "own"):
        monkeypatch.syspath_prepend(tmp_path / name)
    monkeypatch.setattr(watched, "_folders_of_packages", watched._folders_of_packages.__wrapped__)
    assert watched.is_installed.__wrapped__(str(tmp_path / "target" / "some" / "code.py"))
    assert not watched.is_installed.__wrapped__(str(tmp_path / "own" / "code.py"))
    assert watched.is_installed("/usr/lib/python3/dist-packages/some.py")
    assert not watched.is_installed(None)


def notes_the_time(phase, info):
    TIMES.append(time.perf_counter())


class NotesTheTime:
    def __call__(self, phase, info):
        notes_the_time(phase, info)

    note = __call__


TIMES = []
OF_THE_COLLECTOR = {
    "a function": notes_the_time,
    "a partial function": functools.partial(notes_the_time),
    "an object": NotesTheTime(),
    "a method": NotesTheTime().note,
}


@pytest.mark.parametrize("what", OF_THE_COLLECTOR)
def test_what_the_garbage_collector_calls_meanwhile_is_no_code_of_the_field(what):
    reads, before = GlobalReads(), gc.get_threshold()
    gc.callbacks.append(OF_THE_COLLECTOR[what])
    TIMES.clear()
    try:
        gc.set_threshold(10)
        with reads.noted():
            allocates()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.pop()
    assert TIMES
    assert [code.co_name for code in reads.reads if not code.co_name.startswith("<")] == ["allocates"]


def allocates():
    return [[number] for number in range(1000)]
