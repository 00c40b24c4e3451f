"""What a network keeps of its own calls, in an ensemble as in a loop over the networks, or refused by name."""

import contextvars
import copy
import enum
import functools
import importlib
import queue
import random
import re
import sys
import threading
import types
from array import array
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.random as by_numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from discretize import ensemble

ROUNDING = {"rtol": 1e-9, "atol": 1e-10}  # sums in another order, through several batches of 5 that are normalized


class Count(nn.Module):
    """A buffer that is written in place, and read afterwards."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return x * self.count


class Mean(nn.Module):
    """A buffer in whose place another is put."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        self.mean = 0.5 * self.mean + x.detach().mean(0)
        return x - self.mean


class Last(nn.Module):
    """A buffer that there is none of before the first call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("last", None)

    def forward(self, x):
        before, self.last = self.last, x.detach().mean(0)
        return x if before is None else x + before


class Reads(nn.Module):
    """The value of a tensor decides, which keeps torch from doing all networks at once."""

    def forward(self, x):
        return x if float(x.detach().sum()) < 0 else x.tanh()


class Twice(nn.Module):
    """One part with two names."""

    def __init__(self):
        super().__init__()
        self.first = self.second = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    def forward(self, x):
        return self.second(self.first(x).tanh())


class Tied(nn.Module):
    """Two parts with one weight, and one buffer."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.b.weight = self.a.weight
        self.register_buffer("count", torch.zeros(()))
        self.counting = Count()
        self.counting.count = self.count

    def forward(self, x):
        return self.counting(self.b(self.a(x).tanh())) / self.count


class Bounded(nn.Module):
    """A weight that each call moves back between bounds."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad():
            self.linear.weight.copy_(self.linear.weight.clamp(-0.3, 0.3))
        return self.linear(x)


PARTS = {
    "linear": lambda: nn.Linear(3, 3),
    "normalized": lambda: nn.BatchNorm1d(3),
    "spectral": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)),
    "count": Count,
    "mean": Mean,
    "last": Last,
    "reads": Reads,
    "twice": Twice,
    "tied": Tied,
    "bounded": Bounded,
}


def networks_of(names, count=3):
    torch.manual_seed(1)
    return [nn.Sequential(nn.Linear(3, 3), *(PARTS[name]() for name in names)) for _ in range(count)]


def assert_a_loop(networks, calls=3):
    """An ensemble and the networks themselves: outputs, gradients, buffers and weights after each of some calls."""
    many = ensemble(networks)
    optimizers = [torch.optim.SGD(module.parameters(), lr=0.1) for module in (many, *networks)]
    for call in range(calls):
        xs = torch.randn(len(networks), 5, 3)
        found, expected = many(xs, each="input"), torch.stack([one(x) for one, x in zip(networks, xs, strict=True)])
        assert_close(found, expected, **ROUNDING)
        for optimizer, output in zip(optimizers, (found, *expected), strict=True):
            optimizer.zero_grad()
            output.square().sum().backward(retain_graph=True)
        assert_same_tensors(many, networks)
        for optimizer in optimizers:
            optimizer.step()
        if call == 1:
            for module in (many, *networks):
                module.eval()
    alone, x = many.separate(), torch.randn(5, 3)
    assert_same_tensors(many, networks)
    for mine, theirs in zip(alone, networks, strict=True):
        assert_close(mine(x), theirs(x), **ROUNDING)
    return many


def assert_same_tensors(many, networks):
    names = dict.fromkeys([*networks[0].state_dict(), *many.stacked.state_dict()])
    for name in names:
        mine, theirs = many.stacked.state_dict(keep_vars=True)[name], [one.state_dict(keep_vars=True)[name] for one in networks]
        assert_close(mine, torch.stack(theirs), **ROUNDING)
        if theirs[0].grad is not None:
            assert_close(mine.grad, torch.stack([one.grad for one in theirs]), **ROUNDING)


@pytest.mark.each_value
@pytest.mark.parametrize("name", [name for name in PARTS if name != "bounded"])
@pytest.mark.parametrize("alone", [False, True])
def test_the_state_that_a_network_keeps_is_that_of_a_loop(name, alone):
    many = assert_a_loop(networks_of([name, *["reads"] * alone]))
    assert not alone or "one after another" in many.stats["engine_why"]


@settings(max_examples=8, deadline=None)
@given(
    names=st.lists(st.sampled_from([name for name in PARTS if name != "bounded"]), min_size=1, max_size=4),
    count=st.integers(1, 3),
)
def test_networks_of_random_parts_are_a_loop(names, count):
    assert_a_loop(networks_of(names, count))


def test_a_call_that_fails_leaves_buffers_as_they_were():
    networks = networks_of(["normalized", "mean", "last", "count"])
    many, x = ensemble(networks), torch.randn(5, 3)
    before = copy.deepcopy(many.state_dict())
    many.stacked.append(nn.Linear(4, 4, device="meta"))  # whose weights have no axis of networks
    with pytest.raises(ValueError, match=r"`stacked\.5\.weight` needs a first axis of 3 networks, got shape \(4, 4\)"):
        many(x)
    many.stacked[5] = Fails()
    with pytest.raises(RuntimeError, match="at the end"):
        many(x)
    assert_close(dict(many.state_dict()), dict(before), rtol=0, atol=0)
    del many.stacked[5]
    assert_close(many(x), torch.stack([one(x) for one in networks]), **ROUNDING)


def test_buffers_keep_their_identity_and_weights_may_be_written_between_calls():
    networks = networks_of(["normalized", "count"])
    many, x = ensemble(networks), torch.randn(5, 3)
    mean = many.stacked[1].running_mean
    for k in range(4):
        assert_close(many(x), torch.stack([one(x) for one in networks]), **ROUNDING)
        assert many.stacked[1].running_mean is mean
        values = torch.randn(3, 3, 3)
        if k == 0:
            many.stacked[0].weight.data = values
        elif k == 1:
            with torch.no_grad():
                many.stacked[0].weight.copy_(values)
        else:
            many.load_state_dict({**many.state_dict(), "stacked.0.weight": values}, assign=k == 2)
            mean = many.stacked[1].running_mean
        for one, value in zip(networks, values, strict=True):
            with torch.no_grad():
                one[0].weight.copy_(value)


def test_outputs_before_stay_as_they_were_where_a_buffer_is_the_output():
    networks = [KeepsOutput() for _ in range(2)]
    many, x = ensemble(networks), torch.randn(5, 3)
    first = many(x)
    kept = first.clone()
    many(x)
    assert torch.equal(first, kept)


def test_what_a_call_leaves_as_it_was_is_no_state():
    def borrows(module, x):
        module.kept = x
        float(x.detach().sum())  # where torch stops, in the midst of it
        module.kept = None

    networks = [Keeps(None, borrows) for _ in range(2)]
    many, x = ensemble(networks), torch.randn(5, 3)
    assert_close(many(x), torch.stack([one(x) for one in networks]), **ROUNDING)
    assert "one after another" in many.stats["engine_why"]


class Fails(nn.Module):
    def forward(self, x):
        raise RuntimeError("at the end")


class KeepsOutput(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("last", torch.zeros(5, 3))

    def forward(self, x):
        self.last = (self.linear(x) + self.last).detach()
        return self.last


class Keeps(nn.Module):
    """A module that keeps something, and does something with it at each call."""

    def __init__(self, kept, at_each_call, reads=False):
        super().__init__()
        self.linear, self.kept, self.at_each_call = nn.Linear(3, 3), kept, at_each_call
        self.reads = Reads() if reads else nn.Identity()

    def forward(self, x):
        x = self.reads(self.linear(x))
        self.at_each_call(self, x)
        return x


class Tracker:
    def __init__(self):
        self.n = 0

    def add(self):
        self.n += 1


def replaces(module, x):
    module.kept = x


def appends(module, x):
    module.kept.append(x)


def writes(module, x):
    module.kept[0] = float(x.detach().sum())


def writes_unseen(module, x):
    module.kept.data[0] = 1


def puts(module, x):
    module.kept["last"] = len(module.kept)


def tracks(module, x):
    module.kept.add()


def nexts(module, x):
    next(module.kept)


def draws(module, x):
    x + torch.rand(3, generator=module.kept)


def turns(module, x):
    module.linear.train(not module.linear.training)


def grows(module, x):
    module.linear.more = nn.Linear(3, 3)


def counts_in_the_class(module, x):
    type(module).calls = getattr(type(module), "calls", 0) + 1


COUNTED = {"calls": 0}
LARGE, NEVER_READ = [*range(20_001)], iter(())


def counts_in_a_global(module, x):
    _count_in_a_global()


def _count_in_a_global():
    COUNTED["calls"] += 1


class Counted:
    calls = 0


def counts_in_another_class(module, x):
    Counted.calls += 1


elsewhere = types.ModuleType("elsewhere")
elsewhere.calls = 0


def counts_in_a_module(module, x):
    elsewhere.calls += 1


def remembers(module, x, calls=[]):  # noqa: B006
    calls.append(len(calls))


IN_THREADS, NUMBERS = threading.local(), array("d", [0.0])
IN_THREADS.calls = 0


def numbers():
    number = 0
    while True:
        number += 1
        yield number


RUNNING = numbers()


@functools.lru_cache
def cached_list():
    return []


@functools.cache
def cached_dict(name):
    return {name: 0}


cached_list(), cached_dict("calls")


def counts_in_a_thread(module, x):
    IN_THREADS.calls += 1


def counts_in_a_generator(module, x):
    next(RUNNING)


def counts_in_an_array(module, x):
    NUMBERS[0] += 1


def counts_in_a_cached_list(module, x):
    cached_list().append(1)


def counts_in_a_cached_dict(module, x):
    cached_dict("calls")["calls"] += 1


QUEUE, SIMPLE_QUEUE = queue.Queue(), queue.SimpleQueue()


IN_CONTEXT = contextvars.ContextVar("in_context", default=[])  # noqa: B039 - which is what is looked for


def counts_in_a_context(module, x):
    IN_CONTEXT.get().append(1)


class Guarded:
    """A cache of one's own, which a lock keeps from being copied."""

    def __init__(self):
        self.lock, self.results = threading.Lock(), {}


GUARDED = Guarded()


def counts_in_a_queue(module, x):
    QUEUE.put(QUEUE.qsize())


def counts_in_a_simple_queue(module, x):
    SIMPLE_QUEUE.put(SIMPLE_QUEUE.qsize())


def counts_in_a_guarded_cache(module, x):
    with GUARDED.lock:
        GUARDED.results[len(GUARDED.results)] = 1


@functools.cache
def filled_list():
    return []


def counts_in_a_list_that_a_call_fills(module, x):
    filled_list().append(1)


STATE = {
    "a tensor": (lambda: None, replaces, "kept"),
    "a list": (list, appends, "kept"),
    "a list of much": (lambda: list(range(20_001)), appends, "kept"),
    "a tensor in place": (lambda: torch.zeros(3), writes, "kept"),
    "a tensor's data": (lambda: torch.full((3,), torch.nan), writes_unseen, "kept"),
    "an array": (lambda: np.zeros(3), writes, "kept"),
    "a dict": (dict, puts, "kept"),
    "an object": (Tracker, tracks, "kept"),
    "an iterator": (lambda: iter([1, 2, 3, 4, 5, 6, 7, 8]), nexts, "kept"),
    "torch's random numbers": (lambda: torch.Generator().manual_seed(1), draws, "kept"),
    "the mode": (lambda: None, turns, "linear.training"),
    "a part": (lambda: None, grows, "linear.more"),
    "a class": (lambda: None, counts_in_the_class, "Keeps.calls"),
    "a global": (lambda: None, counts_in_a_global, re.escape(f"{__name__}.COUNTED")),
    "another class": (lambda: None, counts_in_another_class, r"Counted\.calls"),
    "a module": (lambda: None, counts_in_a_module, r"elsewhere\.calls"),
    "a default": (lambda: None, remembers, "at_each_call"),
    "what a thread keeps": (lambda: None, counts_in_a_thread, re.escape(f"{__name__}.IN_THREADS")),
    "a generator": (lambda: None, counts_in_a_generator, re.escape(f"{__name__}.RUNNING")),
    "a global array": (lambda: None, counts_in_an_array, re.escape(f"{__name__}.NUMBERS")),
    "the default of a context": (lambda: None, counts_in_a_context, re.escape(f"{__name__}.IN_CONTEXT")),
    "a queue": (lambda: None, counts_in_a_queue, re.escape(f"{__name__}.QUEUE")),
    "a simple queue": (lambda: None, counts_in_a_simple_queue, re.escape(f"{__name__}.SIMPLE_QUEUE")),
    "a list that a call fills": (
        filled_list.cache_clear,
        counts_in_a_list_that_a_call_fills,
        re.escape(f"{__name__}.filled_list"),
    ),
    "a cache of one's own": (lambda: None, counts_in_a_guarded_cache, re.escape(f"{__name__}.GUARDED")),
    "a cached list": (lambda: None, counts_in_a_cached_list, re.escape(f"{__name__}.cached_list")),
    "a cached dict": (lambda: None, counts_in_a_cached_dict, re.escape(f"{__name__}.cached_dict")),
}


@pytest.mark.parametrize("name", list(STATE))
@pytest.mark.parametrize("alone", [False, True])
def test_state_in_plain_attributes_is_refused_by_name(name, alone):
    make, at_each_call, where = STATE[name]
    networks = [Keeps(make(), at_each_call, alone) for _ in range(2)]
    many, x = ensemble(networks), torch.randn(5, 3)
    for _ in range(2):  # at each call
        with pytest.raises(ValueError, match=rf"A call of the networks changes `{where}`.*register_buffer.*in a loop"):
            many(x)
    many.stacked.at_each_call = lambda module, x: None
    if name == "a tensor":  # undone
        many(x)


def test_state_in_the_default_of_a_method_is_refused_by_name():
    class Remembers(nn.Linear):
        def forward(self, x, calls=[]):  # noqa: B006
            calls.append(len(calls))
            return super().forward(x) * len(calls)

    with pytest.raises(ValueError, match=r"changes `Remembers\.forward`"):
        ensemble([Remembers(3, 3) for _ in range(2)])(torch.randn(5, 3))


def draws_by_python():
    return random.random()


def draws_by_numpy():
    return np.random.rand()


def draws_by_another_name():
    return by_numpy.normal()


@functools.lru_cache(2)
def cached_table(size):
    return torch.eye(size)


def test_results_that_a_call_adds_to_a_cache_are_no_state():
    class Reads(nn.Linear):
        def forward(self, x):
            return super().forward(x) @ cached_table(x.shape[-1])

    networks, x = [Reads(3, 3) for _ in range(2)], torch.randn(5, 3)
    many = ensemble(networks)
    cached_table.cache_clear()
    for _ in range(2):
        assert_close(many(x), torch.stack([network(x) for network in networks]))
    for size in (4, 5):  # which takes the place of what was there
        cached_table(size)
    assert_close(many(x), torch.stack([network(x) for network in networks]))


EXECUTOR, EXECUTORS = ThreadPoolExecutor(1), {"mine": ThreadPoolExecutor(1)}


def submits(module, x):
    return EXECUTOR.submit(torch.neg, x).result()


def submits_to_one_of_several(module, x):
    return EXECUTORS["mine"].submit(torch.neg, x).result()


class CountingExecutor(ThreadPoolExecutor):
    calls = 0

    def submit(self, function, /, *given):
        self.calls += 1
        return super().submit(function, *given)


COUNTING_EXECUTOR = CountingExecutor(1)


def submits_and_counts(module, x):
    return COUNTING_EXECUTOR.submit(torch.neg, x).result()


@pytest.mark.parametrize("submit", [submits, submits_to_one_of_several])
def test_threads_and_queues_of_an_executor_are_no_state(submit):
    networks, x = [Keeps(None, submit, False) for _ in range(2)], torch.randn(5, 3)
    many = ensemble(networks)
    for _ in range(2):  # of which the first starts a thread
        assert_close(many(x), torch.stack([network(x) for network in networks]))


def test_what_an_executor_of_ones_own_counts_is_refused_by_name():
    with pytest.raises(ValueError, match=r"changes `.*COUNTING_EXECUTOR`"):
        ensemble([Keeps(None, submits_and_counts, False) for _ in range(2)])(torch.randn(5, 3))


class Flagged(nn.Linear):
    """A layer that reads, and changes, what is set on its weight and its buffer."""

    def __init__(self, of_weight=2.0, change=lambda weight: None):
        super().__init__(3, 3)
        self.register_buffer("mask", torch.ones(3))
        self.weight.factor, self.mask.factors, self.change = of_weight, [3.0], change

    def forward(self, x):
        self.change(self.weight)
        return super().forward(x) * getattr(self.weight, "factor", 1.0) * self.mask * getattr(self.mask, "factors", [1.0])[0]


def test_attributes_of_weights_and_buffers_come_along():
    networks, x = [Flagged() for _ in range(2)], torch.randn(5, 3)
    many = ensemble(networks)
    for _ in range(2):
        assert_close(many(x), torch.stack([network(x) for network in networks]))
        assert_close(many[1](x), networks[1](x))
        many.stacked.weight.factor = networks[0].weight.factor = networks[1].weight.factor = 5.0
    with pytest.raises(ValueError, match=r"differs from `networks\[0\]` in `weight.factor`: it is 4.0"):
        ensemble([Flagged(), Flagged(4.0)])


def sets_another(weight):
    weight.factor = 7.0


def sets_a_new_one(weight):
    weight.calls = 1


def appends_to_one(weight):
    weight.log.append(1)


@pytest.mark.parametrize("change", [sets_another, sets_a_new_one, appends_to_one])
def test_a_call_that_changes_attributes_of_a_weight_is_refused_by_name(change):
    networks = [Flagged(change=change) for _ in range(2)]
    for network in networks:
        network.weight.log = []
    many = ensemble(networks)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"A call of the networks changes `weight.(factor|calls|log)`"):
            many(torch.randn(5, 3))


@functools.cache
def cached_offsets(size):
    return [float(k) for k in range(size)]


@functools.cache
def first_seen():
    return {}


def test_lists_that_a_call_adds_to_a_cache_are_no_state_unless_it_writes_into_them():
    class Reads(nn.Linear):
        def forward(self, x):
            return super().forward(x) + cached_offsets(x.shape[-1])[1] * torch.rand(3)

    class Keeps(nn.Linear):
        def forward(self, x):
            return super().forward(x) * first_seen().setdefault("scale", self.weight.sum())

    cached_offsets.cache_clear()
    first_seen.cache_clear()
    x, many = torch.randn(5, 3), ensemble([Reads(3, 3) for _ in range(2)])
    for _ in range(2):  # of which the first looks again, and draws no other numbers
        torch.manual_seed(0)
        first, before = many(x), torch.get_rng_state()
        torch.manual_seed(0)
        assert_close(many(x), first, rtol=0, atol=0)
        assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(ValueError, match="first_seen"):
        ensemble([Keeps(3, 3) for _ in range(2)])(x)


def test_globals_and_closures_that_stay_as_they_are_are_no_state():
    import math  # noqa: PLC0415 - in a closure

    table, scale = {"a": nn.Tanh(), "b": LARGE}, torch.ones(3)

    class Reads(nn.Linear):
        def forward(self, x, factor=math.pi):
            return table["a"](super().forward(x)) * scale * math.sqrt(factor) * len(LARGE) * COUNTED["calls"]

        def loader(self):
            return NEVER_READ

    networks, x = [Reads(3, 3) for _ in range(3)], torch.randn(5, 3)
    COUNTED["calls"] = 2
    many = ensemble(networks)
    for _ in range(2):
        assert_close(many(x), torch.stack([one(x) for one in networks]), **ROUNDING)
    assert many.stats["engine_why"] is None


def test_caches_of_installed_packages_are_no_state(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    code = "KINDS = {}\n\ndef doubled(x):\n    KINDS.setdefault(type(x), len(KINDS))\n    return 2 * x\n"
    (folder / "doubles.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    doubled = importlib.import_module("doubles").doubled
    monkeypatch.delitem(sys.modules, "doubles")

    class Doubles(nn.Linear):
        def forward(self, x):
            return doubled(super().forward(x))

    networks, x = [Doubles(3, 3) for _ in range(3)], torch.randn(5, 3)
    assert_close(ensemble(networks)(x), torch.stack([one(x) for one in networks]), **ROUNDING)


def test_classes_that_stay_as_they_are_are_no_state():
    class Mode(enum.Flag):
        A, B = 1, 2

    class Scale:
        factors = (1.0, 2.0)

    class Scaled(nn.Linear):
        def forward(self, x):
            return super().forward(x) * (Mode.A | Mode.B).value * Scale.factors[1]

    networks, x = [Scaled(3, 3) for _ in range(3)], torch.randn(5, 3)
    assert_close(ensemble(networks)(x), torch.stack([one(x) for one in networks]), **ROUNDING)


@pytest.mark.parametrize("draw", [draws_by_python, draws_by_numpy, draws_by_another_name])
@pytest.mark.parametrize("reads", [False, True])
def test_networks_that_draw_global_random_numbers_are_a_loop(draw, reads):
    class Scaled(nn.Linear):
        def forward(self, x):
            scale = draw()
            float(x.sum() + self.weight.detach().sum()) if reads else None  # where torch stops, after the draw
            return super().forward(x) * scale

    networks, x = [Scaled(3, 3) for _ in range(3)], torch.randn(5, 3)
    many = ensemble(networks)
    for _ in range(2):
        states = random.getstate(), np.random.get_state()
        outputs = many(x)
        random.setstate(states[0])
        np.random.set_state(states[1])
        assert_close(outputs, torch.stack([one(x) for one in networks]), **ROUNDING)
        assert "one after another" in many.stats["engine_why"]


def views():
    module = nn.Linear(3, 3)
    module.register_buffer("diagonal", module.weight.detach().diagonal())
    return module


def views_of_buffers():
    module = nn.Linear(3, 3)
    module.register_buffer("all", torch.zeros(4))
    module.register_buffer("one", module.all[1:2])
    return module


def shares_data():
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    module[1].weight = nn.Parameter(module[0].weight.data)
    return module


def keeping(make):
    def made():
        module = nn.Linear(3, 3)
        module.kept = make(module)
        return module

    return made


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (views, "`weight` and `diagonal` are views of the same memory"),
        (views_of_buffers, "`all` and `one` are views of the same memory"),
        (shares_data, r"`0\.weight` and `1\.weight` are views of the same memory"),
        (keeping(lambda module: {"w": module.weight}), "`kept` keeps `weight`, or a view of it"),
        (keeping(lambda module: [module.weight.detach().T]), "`kept` keeps `weight`, or a view of it"),
        (keeping(lambda module: lambda x: x @ module.weight), "`kept` keeps `weight`, or a view of it"),
        (keeping(lambda module: [nn.Linear(3, 3)]), "`kept` keeps a tensor with a gradient, which is no parameter"),
        (keeping(lambda module: threading.Lock()), r"`kept`, a lock, cannot be copied \(cannot pickle"),
        (keeping(lambda module: (k for k in range(3))), "`kept`, a generator, cannot be copied"),
        (keeping(lambda module: module.weight * 2), "`kept`, a Tensor, cannot be copied"),
        (lambda: nn.LazyLinear(3), "`weight` has no size yet; call the module once before"),
        (lambda: nn.Sequential(nn.LSTM(3, 3)), "`0` is one of torch's, .*`discretize.layers_from_torch` gives the same network"),
        (lambda: nn.GRU(3, 3), "it is one of torch's, .*`discretize.layers_from_torch` gives the same network"),
    ],
)
@pytest.mark.parametrize("count", [1, 2])
def test_what_cannot_be_stacked_is_refused_by_name(make, words, count):
    with pytest.raises(ValueError, match=r"`networks\[0\]` cannot be in an ensemble: " + words):
        ensemble([make() for _ in range(count)])


@pytest.mark.parametrize("make", [lambda numbers: dict.fromkeys(numbers, 1), lambda numbers: [numbers, [[0]]]])
def test_settings_of_any_length_are_compared(make):
    numbers = [*range(20_001)]
    networks = [Keeps(make(given), lambda module, x: None) for given in (numbers, numbers, [*numbers[:-1], -1])]
    with pytest.raises(ValueError, match=r"`networks\[2\]` differs from `networks\[0\]` in `kept`"):  # and the second does not
        ensemble(networks)


def test_hooks_that_note_activations_are_refused_by_name():
    networks, noted = networks_of(["linear"]), []
    many = ensemble(networks)
    many.stacked[1].register_forward_hook(lambda module, given, output: noted.append(output))
    with pytest.raises(ValueError, match=r"changes `1\._forward_hooks\[0\]`"):
        many(torch.randn(5, 3))


def test_settings_of_one_content_and_two_classes_differ():
    import dataclasses  # noqa: PLC0415

    one, other = (dataclasses.make_dataclass(name, ["x"])(1) for name in ("One", "Other"))
    with pytest.raises(ValueError, match=r"`kept\.__class__`: it is Other, and it is One there"):
        ensemble([Keeps(one, replaces), Keeps(other, replaces)])


def test_parameters_that_a_call_replaces_are_refused_by_name():
    class Renormed(nn.Linear):
        def forward(self, x):
            self.weight.data = self.weight.data.clamp(-0.1, 0.1)
            return super().forward(x)

    many = ensemble([Renormed(3, 3) for _ in range(2)])
    with pytest.raises(ValueError, match="puts another tensor in the place of the parameter `weight`; write into it instead"):
        many(torch.randn(5, 3))


def test_weights_that_a_call_writes_are_of_each_network_or_refused_by_name():
    assert_a_loop(networks_of(["bounded"]))
    many = ensemble(networks_of(["bounded", "reads"]))  # one by one
    with pytest.raises(ValueError, match=r"writes into the parameter `1\.linear\.weight`, and they run one by one"):
        many(torch.randn(5, 3))

    class Shrinks(nn.Linear):
        def forward(self, x):
            with torch.no_grad():
                self.weight.mul_(0.9)
            return super().forward(x) * float(x.sum() + self.weight.detach().sum() > 1e9)

    many = ensemble([Shrinks(3, 3) for _ in range(2)])
    for _ in range(2):
        with pytest.raises(ValueError, match="writes into the parameter `weight`"):
            many(torch.randn(5, 3))


def test_buffers_that_no_longer_stack_are_refused_by_name():
    class Grows(nn.Linear):
        def forward(self, x):
            self.kept = torch.zeros(int(x[0, 0]))
            return super().forward(x)

    networks = [Grows(3, 3) for _ in range(2)]
    for one in networks:
        one.register_buffer("kept", torch.zeros(2))
    many = ensemble(networks)
    with pytest.raises(ValueError, match=r"buffers `kept` cannot be stacked after a call, their sizes are \(1,\) .*, \(2,\) "):
        many(torch.ones(2, 5, 3) * torch.tensor([1.0, 2.0])[:, None, None], each="x")
    assert many.stacked.kept.shape == (2, 2)


@pytest.mark.parametrize("reads", [False, True])
def test_buffers_that_a_call_makes_views_are_refused_by_name(reads):
    class Starts(nn.Linear):
        def forward(self, x):
            if self.state is None:
                self.state = self.start[:2] if reads else self.start
            self.start += 1  # and the state with it
            if reads:
                float(x.sum() + self.weight.detach().sum())
            return super().forward(x) + self.state.sum()

    networks = [Starts(3, 3) for _ in range(2)]
    for one in networks:
        one.register_buffer("start", torch.zeros(3))
        one.register_buffer("state", None)
    with pytest.raises(ValueError, match="A call of the networks makes `state` and `start` views of the same memory"):
        ensemble(networks)(torch.randn(5, 3))
