"""A call like one that torch's own function has run is run so by a plan, layers by one call; what has changed since is seen."""

import copy
import math
import sys
import threading
from collections import OrderedDict
from contextlib import contextmanager, nullcontext
from functools import partial

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import functionalize, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import parametrize, prune
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

import ctrnn
from discretize import DiscreteRNN, Euler, ExponentialEuler, Layers, Monitor, layers_from_torch
from discretize.kernels import jointly, price, registry
from discretize.kernels.record.guards import counts_writes
from discretize.kernels.record.program import StepModule
from discretize.kernels.torchs_own import TorchRun

DICE = torch.Generator().manual_seed(0)
X, OTHER = (torch.randn(time, 4, 3, generator=DICE, dtype=torch.float64) for time in (5, 7))
LENGTHS = torch.tensor([2, 5, 1, 4])
KINDS = {"plain": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM}


@pytest.fixture(autouse=True)
def _before_kernels(monkeypatch):
    monkeypatch.setattr(registry, "is_on_disk", lambda *_: False)
    monkeypatch.setattr(registry, "_made", OrderedDict())  # by other tests
    monkeypatch.setattr(price, "PRICE", 1e9)


def seeded(kind, *sizes, **settings):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return KINDS[kind](*sizes, dtype=torch.float64, **settings)


def one(kind="GRU"):
    return DiscreteRNN(ctrnn.from_torch(seeded(kind, 3, 5)))


def stacked(kind="GRU", **settings):
    return layers_from_torch(seeded(kind, 3, 5, num_layers=2, bidirectional=True, **settings))


MAKE = {"one layer": one, "two layers in both directions": stacked}


def packed(x=X, lengths=LENGTHS):
    return pack_padded_sequence(x, lengths, enforce_sorted=False)


def flat(answer):
    output, h_n = answer
    return [output.data if isinstance(output, PackedSequence) else output, *(h_n if isinstance(h_n, tuple) else [h_n])]


def by_steps(module, *given):
    twin = copy.deepcopy(module)
    for part in twin.modules():
        if isinstance(part, DiscreteRNN):
            part.fused, part.watch.allowed = False, True
    return twin(*given)


class BegunError(Exception):
    """Raised when a function begins that a call should not come to."""


def comes_to(names, module, *given):
    """Whether a call of a module comes to a function of one of these names, where it ends. Classes stay as they are: plans look
    at those."""

    def profile(frame, event, _):
        if event == "call" and frame.f_code.co_name in names:
            raise BegunError

    sys.setprofile(profile)
    try:
        module(*given)
    except BegunError:
        return True
    finally:
        sys.setprofile(None)
    return False


def runs_by_plan(module, *given):
    """Whether a call's arguments are not read in full once more."""
    return not comes_to(("_read", "_read_packed"), module, *given)


def planned(make, *given):
    module = make()
    for part in module.modules():
        if isinstance(part, DiscreteRNN):
            part.watch.allowed = True
    for _ in range(3):  # by steps of one layer after another, by plans, and kept
        module(*given)
    assert runs_by_plan(module, *given)
    return module


def fields(module):
    return [part for part in module.modules() if isinstance(part, ctrnn.VectorField)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("given", [X, packed()], ids=["padded", "packed"])
@pytest.mark.parametrize("starts", [False, True], ids=["from zero", "from a start"])
def test_states_gradients_and_second_derivatives_are_those_of_the_steps(kind, make, given, starts):
    module, answers = make(kind), []
    width = fields(module)[0].state_size
    h = torch.rand(len(fields(module)), 4, width, generator=DICE, dtype=torch.float64).requires_grad_() if starts else None
    values = given.data.clone().requires_grad_()
    x = given._replace(data=values) if given is not X else values
    module(x, h)
    assert runs_by_plan(module, x, h)
    sought = [values, *([h] if starts else [])]
    stepped = copy.deepcopy(module)
    for part in rnns(stepped):
        part.fused = False
    for run in (module, stepped):
        weights = [*run.parameters()]
        found = flat(run(x, h))
        first = torch.autograd.grad(sum(each.pow(3).sum() for each in found), [*sought, *weights], create_graph=True)
        second = torch.autograd.grad(sum(each.square().sum() for each in first), [*sought, *weights])
        answers.append([*found, *first, *second])
    assert_close(*answers, rtol=1e-12, atol=1e-12)  # rounding: second derivatives reach thousands


def test_stats_of_planned_calls_are_those_of_others():
    for given in (X, packed()):
        for make in MAKE.values():
            module, told = make(), []
            module(given)
            for planned in (True, False):
                if not planned:
                    module._repeats = None
                    for part in module.modules():
                        if isinstance(part, DiscreteRNN):
                            part._plan = part._repeats = None
                module(given)
                told.append([part.stats | {"engine_why": None} for part in module.modules() if isinstance(part, DiscreteRNN)])
            assert told[0] == told[1]
            assert told[0][0]["engine"] == "torch"


def test_layers_that_kernels_run_are_not_read_for_torchs_function(monkeypatch):
    module, asked = stacked(), []
    for _ in range(2):
        module(X)
    monkeypatch.setattr(jointly, "run_jointly", lambda *_: asked.append(1))
    module._jointly(X, None)
    assert asked == [1]
    for part in rnns(module):
        part._plan.found = part._plan.found._replace(kernel=object())
    assert module._jointly(X, None) is None
    assert asked == [1]


def test_layers_are_one_call_of_torchs_function(monkeypatch):
    calls, gru = [], torch.gru
    monkeypatch.setattr(torch, "gru", lambda *given: calls.append(given) or gru(*given))
    module = stacked()
    module(X)
    before = len(calls)
    module(X)
    assert (before, len(calls)) == (4, 5)


@pytest.mark.parametrize("given", [X, packed()], ids=["padded", "packed"])
@pytest.mark.parametrize("kind", KINDS)
def test_dropout_between_layers_is_drawn_as_by_torchs_module(kind, given):
    theirs = seeded(kind, 3, 5, num_layers=2, bidirectional=True, dropout=0.5)
    ours = layers_from_torch(theirs)
    for _ in range(3):  # the first of which no plan fits
        found = []
        for module in (theirs, ours):
            torch.manual_seed(1)
            found.append((*flat(module(given)), torch.get_rng_state()))
        assert_close(*found)
    assert runs_by_plan(ours, given)
    ours.eval()
    for _ in range(2):
        assert_close(flat(ours(given)), flat(theirs.eval()(given)))


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_drawn_once_where_states_are_looked_at_for_they_are_not_finite(kind):
    theirs = seeded(kind, 3, 5, num_layers=2, dropout=0.5, bias=False)
    ours = layers_from_torch(theirs)
    for finite in (True, True, False):
        if not finite:
            for module in (theirs, ours):
                next(module.parameters()).data[0] = math.nan
        found = []
        for module in (theirs, ours):
            torch.manual_seed(1)
            with nullcontext() if finite or module is theirs else pytest.warns(UserWarning, match="not finite"):
                found.append((*flat(module(X)), torch.get_rng_state()))
        assert_close(*found, rtol=0, atol=1e-12, equal_nan=True)


def part_of(module):
    return fields(module)[-1].candidate.reset


def replace_a_parameter(module):
    part_of(module).weight_h = nn.Parameter(part_of(module).weight_h.detach() / 2)


def replace_data(module):
    part_of(module).weight_h.data = part_of(module).weight_h.detach() / 2


def write_data(module):
    part_of(module).weight_h.data.mul_(2.0)


def write_by_numpy(module):
    part_of(module).bias.detach().numpy()[:] = 0.3


def transpose_data(module):
    part_of(module).weight_h.data = part_of(module).weight_h.detach().T


def no_bias(module):
    part_of(module).bias = None


def parametrized(module):
    parametrize.register_parametrization(part_of(module), "weight_h", nn.Softplus())


def pruned(module):
    prune.random_unstructured(part_of(module), "weight_h", 0.5)
    prune.remove(part_of(module), "weight_h")


def method_of_the_object(module):
    fields(module)[-1].flow = lambda projected, h: 0.1 - h


def method_of_a_part(module):
    fields(module)[-1].candidate.flow = lambda projected, h: 0.1 * h


class Halved(type(one().field)):
    def flow(self, projected, h):
        return super().flow(projected, h) / 2


def other_class(module):
    fields(module)[-1].__class__ = Halved


def frozen(module):
    module.requires_grad_(False)


def loaded(module):
    module.load_state_dict({name: tensor / 3 for name, tensor in module.state_dict().items()})


def assigned(module):
    module.load_state_dict({name: tensor / 3 for name, tensor in module.state_dict().items()}, assign=True)


def rnns(module):
    return [part for part in module.modules() if isinstance(part, DiscreteRNN)]


def other_field(module):
    rnns(module)[-1].field = ctrnn.gated(rnns(module)[-1].field.input_size, 5, dtype=torch.float64)


def other_step(module):
    rnns(module)[-1].step = ExponentialEuler()


def shorter_samples(module):
    rnns(module)[-1].dt = 0.5


def more_steps(module):
    rnns(module)[-1].substeps = 2


class OwnRNN(DiscreteRNN):
    def _run(self, *given):
        output, end = super()._run(*given)
        return output * 2, end


def subclass(module):
    rnns(module)[-1].__class__ = OwnRNN


CHANGES = [
    *(replace_a_parameter, replace_data, write_data, write_by_numpy, transpose_data, no_bias, parametrized, pruned),
    *(method_of_the_object, method_of_a_part, other_class, frozen, loaded, assigned),
    *(other_field, other_step, shorter_samples, more_steps, subclass),
]


@pytest.mark.each_value
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("change", CHANGES)
def test_what_has_changed_is_seen(change, make):
    module = planned(make, X)
    before = flat(module(X))
    change(module)
    for _ in range(2):
        assert_close(flat(module(X)), flat(by_steps(module, X)), rtol=0, atol=1e-12)
    if change is not frozen:
        assert not torch.allclose(before[0], module(X)[0])
    assert module(X)[0].requires_grad == by_steps(module, X)[0].requires_grad


def runs_at_once(module, *given):
    """Whether a call repeats one that was kept: no plan is asked. Tests that ask are for a Python by which calls are kept."""
    if not counts_writes():
        pytest.skip("this Python does not count writes into objects")
    return not comes_to(("_as_planned", "_run_anew"), module, *given)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_calls_with_samples_of_one_shape_are_repeated_at_once(mode, make, kind):
    module = make(kind)
    expected = by_steps(module, X)
    with mode():
        for _ in range(4):
            module(X)
        assert runs_at_once(module, X)
        assert_close(flat(module(X)), flat(expected), rtol=0, atol=1e-12)
    assert not runs_at_once(module, OTHER)
    assert not runs_at_once(copy.deepcopy(module), X)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_where_no_kernel_may_be_built_calls_are_repeated_too_however_long_they_take(monkeypatch, make):
    with price.without_building():
        module = planned(make, X)
        assert runs_at_once(module, X)
        why = "a live step builds no kernel"
        assert all(part.stats["engine_why"].startswith(why) for part in rnns(module))
        monkeypatch.setattr(price, "PRICE", 0.0)
        assert runs_at_once(module, X)
        assert all(part.stats["engine_why"].startswith(why) for part in rnns(module))
        assert_close(flat(module(X)), flat(by_steps(module, X)), rtol=0, atol=1e-12)
    assert not runs_at_once(module, X)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_whose_method_was_exchanged_is_none_of_torchs_function(monkeypatch, kind):
    module, advance = planned(partial(one, kind), X), Euler.advance
    monkeypatch.setattr(Euler, "advance", lambda *given: advance(*given) / 2)
    for each in (module, one(kind)):  # by a plan, and anew
        assert_close(flat(each(X)), flat(by_steps(each, X)), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "name"), [(DiscreteRNN, "forward"), (type(ctrnn.gru(1, 1).candidate), "forward"), (Euler, "counted")]
)
def test_calls_are_repeated_again_once_a_method_that_is_inherited_was_exchanged_and_put_back(kind, name, monkeypatch):
    assert name not in vars(kind)
    module, method = planned(partial(one, "GRU"), X), getattr(kind, name)

    def other(*given, **how):
        return method(*given, **how)

    monkeypatch.setattr(kind, name, other)  # which takes it out again at the end
    module(X)
    assert not runs_at_once(module, X)
    setattr(kind, name, method)
    for _ in range(12):
        module(X)
    assert runs_at_once(module, X)
    assert_close(flat(module(X)), flat(by_steps(module, X)), rtol=0, atol=1e-12)


def start(module, kind, form):
    """States to begin with, as a tensor or as torch gives an LSTM's; none."""
    number = len(fields(module))
    h, c = (0.1 + torch.rand(number, 4, 5, generator=DICE, dtype=torch.float64) for _ in range(2))
    if form == "pair" and kind == "LSTM":
        return (h, c)
    return None if form == "none" else torch.cat([h, c], -1) if kind == "LSTM" else h


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("form", ["none", "tensor", "pair"])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
def test_calls_of_packed_samples_and_from_given_states_are_repeated_at_once(mode, form, make, kind):
    for samples in (X, packed(), packed(lengths=torch.tensor([5, 4, 4, 2])), packed(OTHER, torch.tensor([1, 1, 7, 3]))):
        module = make(kind)
        h_0 = start(module, kind, form)
        with mode():
            for _ in range(4):
                module(samples, h_0)
            assert runs_at_once(module, samples, h_0)
            assert_close(flat(module(samples, h_0)), flat(by_steps(module, samples, h_0)), rtol=0, atol=1e-12)
            if samples is not X:  # of other lengths, in another order
                again = packed(OTHER, torch.tensor([7, 2, 3, 3]))
                assert runs_at_once(module, again, h_0)
                assert_close(flat(module(again, h_0)), flat(by_steps(module, again, h_0)), rtol=0, atol=1e-12)


def test_calls_with_the_batch_first_are_repeated_at_once():
    for make in MAKE.values():
        module, x = make(), X.transpose(0, 1).contiguous()
        module.batch_first = True
        for _ in range(4):
            module(x)
        assert runs_at_once(module, x)
        assert_close(flat(module(x)), flat(by_steps(module, x)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_given_states_of_other_sizes_kinds_and_numbers_are_not_those_of_a_call_before(make, kind):
    module = make(kind)
    h_0, pair = (start(module, kind, form) for form in ("tensor", "pair"))
    for samples in (X, packed()):
        for given in (h_0, pair):
            for _ in range(4):
                module(samples, given)
        infinite = h_0.clone()
        infinite[0, 1, 2] = torch.inf  # one alone, whose tanh is 1 a step later
        wrongs = [h_0[:, :2], h_0[..., :2], h_0.float(), (h_0, h_0, h_0), (h_0, None), (None, None), infinite]
        if kind == "LSTM":
            wrongs.append((infinite[..., :5].clone(), pair[1]))
        for wrong in wrongs:
            with pytest.raises((TypeError, ValueError)) as expected:
                by_steps(module, samples, wrong)
            with pytest.raises(type(expected.value)) as found:
                module(samples, wrong)
            assert str(found.value) == str(expected.value)


def test_packed_samples_that_do_not_fit_their_sizes_are_refused_as_before():
    for make in MAKE.values():
        module, given = make(), packed()
        for _ in range(4):
            module(given)
        assert runs_at_once(module, given)
        assert not runs_at_once(module, given._replace(data=given.data[:-1]))
        assert not runs_at_once(module, given._replace(batch_sizes=given.batch_sizes.clone().clamp(max=3)))
        assert not runs_at_once(module, packed(X * torch.nan))


def test_stats_of_repeated_packed_calls_are_those_of_others():
    for make in MAKE.values():
        module, told = make(), []
        for _ in range(4):
            module(packed())
        module(packed(OTHER, torch.tensor([7, 2, 3, 3])))
        told.append([part.stats | {"engine_why": None} for part in rnns(module)])
        fresh = make()
        fresh(packed(OTHER, torch.tensor([7, 2, 3, 3])))
        told.append([part.stats | {"engine_why": None} for part in rnns(fresh)])
        assert told[0] == told[1]


def test_weights_that_are_joined_for_a_call_are_written_by_no_other():
    module, seen = planned(one, X), []
    with torch.no_grad():
        for _ in range(3):
            module(X)
        assert runs_at_once(module, X)
        (kept,) = [each for (*_, learns), each in module._repeats.items() if not learns]
        gru = kept.function

        def meanwhile(x, start, weights, *settings):
            before = [weight.clone() for weight in weights]
            if not seen:
                seen.append(1)
                part_of(module).weight_h.data.mul_(2.0)
                module(X)
            assert_close(weights, before, rtol=0, atol=0)
            return gru(x, start, weights, *settings)

        kept.function = meanwhile
        module(X)
        assert seen
        kept.function = gru
        assert_close(flat(module(X)), flat(by_steps(module, X)), rtol=0, atol=1e-12)


def test_memory_of_joined_weights_records_no_gradient():
    module = planned(one, X)
    for mode in (torch.no_grad, torch.enable_grad):  # of which the second shares it once nothing learns
        with mode():
            for _ in range(12):
                module(X)
            assert runs_at_once(module, X)
            assert_close(flat(module(X)), flat(by_steps(module, X)), rtol=0, atol=1e-12)
        module.requires_grad_(False)


def test_memory_of_joined_weights_is_of_their_dtype():
    module = one()
    with torch.no_grad():
        for dtype in (torch.float64, torch.float32, torch.float64):
            module.to(dtype)
            for given in (X.to(dtype), packed(X.to(dtype)), OTHER.to(dtype)):
                for _ in range(12):
                    found = module(given)
                assert_close(flat(found), flat(by_steps(module, given)))


def test_a_call_whose_steps_are_looked_at_is_not_kept_anew():
    module = planned(one, X)
    (kept,) = module._repeats.values()
    for _ in range(100):
        module(X)
    assert [*module._repeats.values()] == [kept]
    assert runs_at_once(module, X)


class DispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, given=(), named=None):
        return function(*given, **(named or {}))


class Looking(TorchFunctionMode):
    def __torch_function__(self, function, types, given=(), named=None):
        return function(*given, **(named or {}))


@contextmanager
def global_hook():
    handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
    yield
    handle.remove()


@contextmanager
def other_dtype():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    yield
    torch.set_default_dtype(before)


@contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def hook_in_the_table(module):
    part_of(module)._forward_hooks[0] = lambda *_: None


def another_dict(module):
    part_of(module).__dict__ = vars(part_of(module)) | {"forward": None}


def buffer_for_a_parameter(module):
    weight = part_of(module)._parameters.pop("weight_h")
    part_of(module).register_buffer("weight_h", weight.detach())


def own_attribute(module):
    vars(rnns(module)[-1])["forward"] = rnns(module)[-1].forward


@pytest.mark.each_value
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("change", [*CHANGES, hook_in_the_table, another_dict, buffer_for_a_parameter, own_attribute])
def test_what_has_changed_is_not_repeated(change, make):
    module = planned(make, X)
    assert runs_at_once(module, X)
    change(module)
    assert runs_at_once(module, X) == (change in (write_data, write_by_numpy, replace_data, loaded))


@pytest.mark.each_value
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
@pytest.mark.parametrize(
    "mode",
    [
        *(
            FakeTensorMode,
            forward_ad.dual_level,
            torch.inference_mode,
            torch.no_grad,
            price.kernels_at_once,
            price.without_building,
        ),
        *(DispatchMode, Looking, partial(torch.autocast, "cpu", torch.bfloat16), global_hook, other_dtype, deterministic),
    ],
)
def test_what_is_around_a_call_is_seen(mode, make):
    module = planned(make, X)
    assert runs_at_once(module, X)
    with mode():
        assert not runs_at_once(module, X)


def test_an_object_with_the_attributes_of_another_repeats_none_of_its_calls():
    module, other = planned(one, X), one()
    vars(other).update(vars(module) | {"_modules": dict(vars(other)["_modules"])})
    other.field.requires_grad_(False).candidate.reset.weight_h.mul_(2.0)
    assert_close(flat(other(X)), flat(by_steps(other, X)), rtol=0, atol=1e-12)


def test_a_method_that_is_exchanged_in_a_class_is_seen(monkeypatch):
    module = planned(one, X)
    monkeypatch.setattr(type(module.field.candidate), "flow", lambda self, projected, h: 0.1 * h)
    assert_close(flat(module(X)), flat(by_steps(module, X)), rtol=0, atol=1e-12)


def test_other_layers_and_what_a_stack_does_otherwise_are_seen():
    module = planned(stacked, X)
    module.layers[1][0] = DiscreteRNN(ctrnn.gated(10, 5, dtype=torch.float64))
    assert_close(flat(module(X)), flat(by_steps(module, X)), rtol=0, atol=1e-12)
    module = planned(stacked, X)
    output = module(X)[0]
    module._run = lambda *given: (torch.zeros(1), torch.zeros(1))
    assert module(X)[0].sum() == 0
    del module._run

    class Doubled(Layers):
        def _run(self, *given):
            output, h_n = super()._run(*given)
            return 2 * output, h_n

    module.__class__ = Doubled
    assert_close(module(X)[0], 2 * output, rtol=0, atol=1e-12)


@pytest.mark.parametrize("place", ["module", "field", "every module"])
def test_hooks_run_or_are_refused(place):
    module, seen = planned(stacked, X), []

    def hook(*_):
        seen.append(1)

    inner = rnns(module)[-1]
    if place == "module":
        handle = inner.register_forward_hook(hook)
    elif place == "field":
        handle = inner.field.register_forward_hook(hook)
    else:
        handle = nn.modules.module.register_module_forward_hook(hook)
    if place == "field":  # whose `flow` is called, and not the field
        with pytest.raises(TypeError, match="has a hook"):
            module(X)
        handle.remove()
        return
    module(X)
    seen_of_plain = len(seen)
    seen.clear()
    module._repeats = None
    for part in rnns(module):
        part._plan = part._repeats = None
    module(X)
    handle.remove()
    assert len(seen) == seen_of_plain
    assert seen


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_modes_transforms_tangents_autocast_and_settings_are_seen(monkeypatch, make):
    module = planned(make, X)
    expected = by_steps(module, X)[0]

    class Looks(TorchFunctionMode):
        names = ()

        def __torch_function__(self, function, types, given=(), named=None):
            self.names = (*self.names, function)
            return function(*given, **(named or {}))

    with Looks() as mode:
        assert_close(module(X)[0], expected)
    assert torch.gru not in mode.names
    assert_close(vmap(lambda x: module(x)[0])(torch.stack([X, X])), torch.stack([expected] * 2))
    _, slope = jvp(lambda x: module(x)[0], (X,), (torch.ones_like(X),))
    with forward_ad.dual_level():
        assert_close(forward_ad.unpack_dual(module(forward_ad.make_dual(X, torch.ones_like(X)))[0]).tangent, slope)
        part_of(module).weight_h.data.mul_(1.0)
    with torch.autocast("cpu", torch.bfloat16):
        assert_close(module(X)[0], expected)
        assert module.stats["engine"] == "steps"
    monkeypatch.setenv("CTRNN_FUSED", "0")
    module(X)
    assert module.stats["engine"] == "steps"
    monkeypatch.delenv("CTRNN_FUSED")
    assert runs_by_plan(module, X)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_samples_of_unknown_size_are_recorded_after_calls_too(make):
    module = planned(make, X)
    how = {"tracing_mode": "symbolic", "_allow_non_fake_inputs": True}
    recorded = make_fx(functionalize(lambda x: module(x)[0]), **how)(X)
    assert_close(recorded(X), by_steps(module, X)[0], rtol=0, atol=1e-12)


def test_a_move_to_another_dtype_is_seen():
    module = planned(stacked, X)
    module.float()
    with pytest.raises(TypeError, match=r"`x` is torch.float64"):
        module(X)
    assert_close(flat(module(X.float())), flat(by_steps(module, X.float())))


def test_axes_one_sequence_and_lengths_are_read_as_before():
    for make in MAKE.values():
        module = planned(make, X)
        assert runs_by_plan(module, X[:, 0])
        assert_close(flat(module(X[:, 0])), flat(by_steps(module, X[:, 0])), rtol=0, atol=1e-12)
        assert_close(flat(module(X, None, None, LENGTHS)), flat(by_steps(module, X, None, None, LENGTHS)), rtol=0, atol=1e-12)
        module.batch_first = True
        for _ in range(2):
            assert_close(flat(module(X)), flat(by_steps(module, X)), rtol=0, atol=1e-12)


NAN = X.clone()
NAN[1, 2, 0] = torch.nan
BAD = {
    "a nan": (NAN,),
    "too many features": (torch.cat([X, X], -1),),
    "another dtype": (X.float(),),
    "a nan in the start": (X, torch.full((1, 4, 5), torch.nan, dtype=torch.float64)),
    "a start of another size": (X, torch.zeros(3, 4, 5, dtype=torch.float64)),
    "a start of another dtype": (X, torch.zeros(1, 4, 5)),
    "a pair": (X, (torch.zeros(1, 4, 5), torch.zeros(1, 4, 5))),
    "one axis": (X[0, 0],),
    "a packed nan": (packed(NAN, torch.tensor([5, 5, 5, 5])),),
    "packed, too many features": (packed(torch.cat([X, X], -1)),),
    "packed, another dtype": (packed(X.float()),),
}


@pytest.mark.parametrize("given", BAD.values(), ids=BAD)
def test_bad_input_is_refused_as_before(given):
    for make in MAKE.values():
        module = planned(make, X)
        with pytest.raises((TypeError, ValueError)) as expected:
            by_steps(module, *given)
        with pytest.raises(type(expected.value)) as found:
            module(*given)
        assert str(found.value) == str(expected.value)


def test_the_end_of_a_planned_call_is_not_a_view_of_its_output():
    for kind in KINDS:
        for make in MAKE.values():
            module = planned(partial(make, kind), X)
            output, *ends = flat(module(X))
            expected = [end.detach().clone() for end in ends]
            with torch.no_grad():
                output.zero_()
            assert_close(ends, expected)


def test_a_plan_ends_when_its_calls_have_paid_for_a_kernel_or_another_has_been_made(monkeypatch):
    module = planned(one, X)
    uses = registry.uses_of(module.field, StepModule, Euler)
    before = uses.seconds
    module(X)
    assert before < uses.seconds
    assert runs_by_plan(module, X)
    with monkeypatch.context() as patch:
        patch.setattr(price, "PRICE", uses.seconds / 2)
        assert not runs_by_plan(module, X)
    assert runs_by_plan(module, X)
    uses.made += 1
    assert not runs_by_plan(module, X)


def test_layers_wait_together_and_count_their_seconds_once(monkeypatch):
    module = planned(stacked, X)
    uses = registry.uses_of(fields(module)[0], StepModule, Euler)
    calls, clock = [], iter(range(100))
    monkeypatch.setattr(registry.time, "perf_counter", lambda: calls.append(1) or float(next(clock)))
    before = uses.seconds
    with torch.no_grad():
        module(X)  # without a gradient it is another plan
        calls.clear()
        before = uses.seconds
        module(X)
    assert len(calls) == 2
    assert uses.seconds == before + 1


def test_steps_that_overshoot_are_warned_of_after_planned_calls_too():
    module = DiscreteRNN(ctrnn.from_torch(seeded("plain", 3, 5)))
    for _ in range(3):
        module(X)
    assert module.watch.calls == 3
    with Monitor(module) as monitor:
        module(X)
    (record,) = monitor.records.values()
    assert record.counts.sum() == X.shape[0] * X.shape[1] * 5
    layers = planned(stacked, X)
    for _ in range(46):
        layers(X)
    assert {part.watch.calls for part in rnns(layers)} == {50}
    assert not runs_by_plan(layers, X)  # the 51st call is looked at


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_states_that_are_not_finite_are_said_at_once(make):
    module = planned(make, X)
    next(module.parameters()).data[0] = math.nan
    with pytest.warns(UserWarning, match="not finite"):
        module(X)


@pytest.mark.parametrize("kind", KINDS)
def test_what_begins_at_zero_begins_there_in_any_batch_and_mode(kind):
    module = DiscreteRNN(ctrnn.from_torch(seeded(kind, 3, 5)))
    stepped = DiscreteRNN(module.field, fused=False)
    for batch in (2, 4, 2):
        x = X[:, :1].repeat(1, batch, 1)
        for mode in (torch.inference_mode, torch.no_grad, nullcontext):
            with mode():
                assert_close(module(x), stepped(x), rtol=0, atol=1e-12)
        torch.autograd.grad(module(x)[0].sum(), [*module.parameters()])


def test_a_call_of_another_batch_meanwhile_changes_no_start(monkeypatch):
    module = DiscreteRNN(ctrnn.from_torch(seeded("LSTM", 3, 5)))
    stepped = DiscreteRNN(module.field, fused=False)
    module(X)
    begun, other, threads = TorchRun.begun, X[:, :1], []

    def after_others(run):
        if not threads:  # come two of another batch, between what is decided and what is run
            threads.append(threading.Thread(target=lambda: [module(other), module(other)]))
            threads[0].start()
            threads[0].join()
        return partial(begun, run)

    monkeypatch.setattr(TorchRun, "begun", property(after_others))
    assert_close(module(X), stepped(X), rtol=0, atol=1e-12)
    assert threads


def test_a_copy_of_layers_plans_for_itself():
    module = planned(stacked, X)
    twin = copy.deepcopy(module)
    assert not runs_by_plan(twin, X)
    with torch.no_grad():
        part_of(twin).weight_h.mul_(2)
    assert_close(flat(twin(X)), flat(by_steps(twin, X)), rtol=0, atol=1e-12)
    assert_close(flat(module(X)), flat(by_steps(module, X)), rtol=0, atol=1e-12)
