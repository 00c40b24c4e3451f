"""A call like an earlier one runs by its plan; whatever has changed since is seen: numbers, errors and `stats` stay the same."""

import copy
import gc
import pickle
import threading
import weakref
from functools import partial

import pytest
import torch
from cases import crossed
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call, jvp, vmap
from torch.nn.utils import parametrize, prune
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

import ctrnn
from discretize import (
    Checkpointed,
    ContinuousRNN,
    DiscreteRNN,
    Euler,
    Event,
    Layers,
    Monitor,
    RungeKutta4,
    SolverError,
    SolverWarning,
    StepWarning,
)

pytestmark = pytest.mark.kernels
DICE = torch.Generator().manual_seed(0)
X, OTHER = (torch.randn(time, 2, 2, generator=DICE, dtype=torch.float64) for time in (5, 7))
H = torch.rand(2, 3, generator=DICE, dtype=torch.float64)
FACTOR = 1.0


class Own(ctrnn.VectorField):
    def __init__(self):
        super().__init__(2, 3)
        self.of_x, self.of_h = (nn.Linear(width, 3, dtype=torch.float64) for width in (2, 3))
        self.register_buffer("mask", torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64))
        self.gain = 1.0

    def project(self, x):
        return self.of_x(x)

    def flow(self, projected, h):
        return torch.tanh(projected + self.gain * self.of_h(h)) * self.mask * FACTOR - h


class Halved(Own):
    def flow(self, projected, h):
        return super().flow(projected, h) / 2


class Half(nn.Module):
    def forward(self, weight):
        return weight / 2


class ScaledEuler(Euler):
    def __init__(self):
        self.scale = 1.0

    def advance(self, field, projected, h, dt):
        return h + self.scale * dt * field.flow(projected, h)


def by_steps(rnn, *given, **named):
    """The same by steps one after another, which are never planned."""
    settings = {"fused": False, "batch_first": rnn.batch_first}
    if isinstance(rnn, ContinuousRNN):
        twin = ContinuousRNN(rnn.field, method=rnn.settings.method, max_step=rnn.settings.max_step, **settings)
    else:
        twin = DiscreteRNN(rnn.field, rnn.step, rnn.dt, rnn.substeps, allow_overshoot=True, **settings)
    return twin(*given, **named)


def planned(kind=DiscreteRNN, field=None, x=X, **settings):
    field = field or Own()
    if kind is DiscreteRNN:
        settings["allow_overshoot"] = True
    kind(field, fused="always", **settings)(x)
    rnn = kind(field, **settings)
    rnn(x)
    assert runs_by_plan(rnn, x)
    return rnn


def runs_by_plan(rnn, *given, **named):
    """Whether a call is not read, and decided on, once more."""
    rnn.__dict__["_read"] = None  # as no module has: put in place of the method for this call alone
    plan = rnn._plan
    if plan is not None:
        plan.names.append("_read")
        plan.values.append(None)
    try:
        rnn(*given, **named)
    except TypeError:
        return False
    finally:
        del rnn.__dict__["_read"]
        if plan is not None:
            plan.names.pop()
            plan.values.pop()
    return True


solved = partial(planned, ContinuousRNN, method=Euler(), max_step=0.5)
chosen = partial(planned, ContinuousRNN)
KINDS = {"DiscreteRNN": planned, "ContinuousRNN": solved, "steps that are chosen": chosen}


@pytest.mark.parametrize(("make", "start"), crossed(KINDS.values(), [None, H, H[None]]))
def test_a_planned_call_is_the_steps_one_by_one_with_gradients_and_second_derivatives(make, start):
    rnn, answers = make(), []
    x, h_0 = OTHER.clone().requires_grad_(), None if start is None else start.clone().requires_grad_()
    rnn(x, h_0)  # with a gradient to x it is another kernel
    rnn(x, h_0)
    rnn(x, h_0)
    assert runs_by_plan(rnn, x, h_0)
    sought = [x, *([] if h_0 is None else [h_0]), *rnn.field.parameters()]
    for run in (rnn, partial(by_steps, rnn)):
        output, h_n = run(x, h_0)
        first = torch.autograd.grad(output.pow(3).sum() + h_n.sum(), sought, create_graph=True)
        answers.append([output, h_n, *first, *torch.autograd.grad(sum(each.square().sum() for each in first), sought)])
    assert_close(*answers, rtol=0, atol=1e-11)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_plan_tells_the_same_stats_of_any_number_of_samples_and_sequences(make):
    rnn = make()
    more = OTHER.repeat(1, 2, 1)
    assert runs_by_plan(rnn, more)
    told = rnn.stats
    rnn._plan = None
    rnn(more)
    assert told == rnn.stats
    assert list(told) == list(rnn.stats)


CHOSEN = {
    "bounds": {"rtol": 1e-3, "max_step": 0.3, "first_step": 0.1},
    "a tolerance for each unit": {"atol": torch.tensor([1e-3, 1e-5, 1e-7])},
    "bounded memory": {"gradient": Checkpointed(3000)},
    "seconds": {"dt": 0.25, "method": "bosh3"},
}


@pytest.mark.parametrize("settings", CHOSEN.values(), ids=CHOSEN)
def test_a_planned_solve_by_chosen_steps_is_that_without_a_plan(settings):
    rnn, answers, x = chosen(**settings), [], OTHER.clone().requires_grad_()
    for _ in range(2):
        rnn(x, H)
    for plan in (rnn._plan, None):
        rnn._plan = plan
        assert runs_by_plan(rnn, x, H) == (plan is not None)
        output, h_n = rnn(x, H)
        stats = dict(rnn.stats)
        gradients = torch.autograd.grad(output.pow(3).sum() + h_n.sum(), [x, *rnn.field.parameters()])
        answers.append((output, h_n, gradients, rnn.stats["nfe_backward"]))
        answers[-1] += ({name: told for name, told in stats.items() if name != "nfe_backward"},)
    assert answers[0][3] == answers[1][3] > 0
    assert answers[0][4] == answers[1][4]
    assert_close(answers[0][:3], answers[1][:3], rtol=0, atol=1e-14)


def test_a_solve_that_was_planned_without_gradients_has_them():
    rnn = ContinuousRNN(Own())
    with torch.no_grad():
        ContinuousRNN(rnn.field, fused="always")(X)
        rnn(X)
        assert runs_by_plan(rnn, X)
    sought = [*rnn.field.parameters()]
    found, expected = (torch.autograd.grad(run(X)[0].square().sum(), sought) for run in (rnn, partial(by_steps, rnn)))
    assert_close(found, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("settings", [{"events": Event(lambda t, h: h[:, 0] - 0.05)}, {"path": "linear"}], ids=["events", "path"])
def test_events_and_joined_samples_are_in_every_call(settings):
    rnn = ContinuousRNN(ctrnn.gated(2, 3, dtype=torch.float64), fused="always", **settings)
    for x in (X, X, X, OTHER):
        output, _ = rnn(x)
    assert rnn.stats["engine"] == "compiled"
    found = [output, *(crossed.times for crossed in rnn.crossed)]
    rnn._plan = None
    assert_close(found, [rnn(OTHER)[0], *(crossed.times for crossed in rnn.crossed)], rtol=0, atol=1e-12)


def test_a_start_that_no_tolerance_measures_is_refused_in_planned_calls():
    field = chosen().field
    rnn = ContinuousRNN(field, atol=0.0)
    rnn(X, H + 1)
    assert runs_by_plan(rnn, X, H + 1)
    with pytest.raises(ValueError, match="`atol` is 0 and so are units of `h0`"):
        rnn(X)


def test_states_within_the_tolerance_are_warned_of_in_planned_calls():
    field = Own()
    for part in (field.of_x, field.of_h):
        nn.init.zeros_(part.bias)
    rnn = chosen(field=field, atol=0.1)
    for _ in range(2):
        with pytest.warns(SolverWarning, match="All states of this solve stay below `atol`=0.1"):
            assert runs_by_plan(rnn, X / 1000)


@pytest.mark.parametrize(
    ("made", "given"),
    [
        ({}, (X[:, 0],)),
        ({"batch_first": True}, (X.transpose(0, 1),)),
        ({"batch_first": True}, (X.transpose(0, 1), H)),
        ({"substeps": 3, "dt": 0.3}, (X, H)),
        ({"step": RungeKutta4()}, (X,)),
        ({"step": "rk4"}, (X,)),
        ({"field": ctrnn.lstm(2, 3, dtype=torch.float64)}, (X, (H[None], H[None] - 1))),
    ],
    ids=["one sequence", "batch first", "batch first from a start", "substeps", "four stages", "by name", "a pair"],
)
def test_a_planned_call_has_the_axes_and_settings_of_the_module(made, given):
    rnn = planned(**made, x=given[0])
    for output, expected in zip(rnn(*given), by_steps(rnn, *given), strict=True):
        assert output.shape == expected.shape
        assert_close(output, expected, rtol=0, atol=1e-12)


def replace_a_parameter(rnn):
    rnn.field.of_h.weight = nn.Parameter(rnn.field.of_h.weight.detach() / 2)


def replace_data(rnn):
    rnn.field.of_h.weight.data = rnn.field.of_h.weight.detach() / 2


def write_data(rnn):
    rnn.field.of_h.weight.data.mul_(2.0)


def write_by_numpy(rnn):
    rnn.field.of_h.bias.detach().numpy()[:] = 0.3


def transpose_data(rnn):
    rnn.field.of_h.weight.data = rnn.field.of_h.weight.detach().T


def swap_a_buffer(rnn):
    rnn.field.mask = torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64)


def share_weights(rnn):
    rnn.field.of_h = nn.Linear(3, 3, dtype=torch.float64)


def parametrized(rnn):
    parametrize.register_parametrization(rnn.field.of_h, "weight", Half())


def freed(rnn):
    parametrized(rnn)
    rnn(X)
    with torch.no_grad():
        rnn.field.of_h.parametrizations.weight.original.mul_(2)


def pruned(rnn):
    prune.random_unstructured(rnn.field.of_h, "weight", 0.5)
    prune.remove(rnn.field.of_h, "weight")


def method_of_the_object(rnn):
    rnn.field.flow = lambda projected, h: projected - h


def method_of_a_part(rnn):
    rnn.field.of_h.forward = lambda h: 0.1 * h


def no_bias(rnn):
    rnn.field.of_x.bias = None


def other_class(rnn):
    rnn.field.__class__ = Halved


def other_step(rnn):
    rnn.step = RungeKutta4()


def other_field(rnn):
    rnn.field = Own()


def fields_setting(rnn):
    rnn.field.gain = 0.5


def frozen(rnn):
    rnn.field.requires_grad_(False)


def stepped(rnn):
    optimizer = torch.optim.SGD(rnn.parameters(), 0.1)
    rnn(X)[0].sum().backward()
    optimizer.step()


def loaded(rnn):
    rnn.load_state_dict({name: tensor / 3 for name, tensor in rnn.state_dict().items()})


def assigned(rnn):
    rnn.load_state_dict({name: tensor / 3 for name, tensor in rnn.state_dict().items()}, assign=True)


OF_FIELDS = [
    *(replace_a_parameter, replace_data, write_data, write_by_numpy, transpose_data, swap_a_buffer, share_weights, parametrized),
    *(freed, pruned, method_of_the_object, method_of_a_part, no_bias, other_class, other_field, fields_setting, frozen, stepped),
    *(loaded, assigned),
]
SET = {"dt": 0.25, "substeps": 2, "step": RungeKutta4(), "fused": False}


# What is looked at before a plan runs is the same code for all kinds.
@pytest.mark.parametrize(("change", "make"), crossed(OF_FIELDS, KINDS.values()))
def test_what_has_changed_in_the_field_is_seen(change, make):
    rnn = make()
    with torch.no_grad():
        rnn(X)
    change(rnn)
    assert_close(rnn(X), by_steps(rnn, X), rtol=0, atol=1e-12)
    assert_close(rnn(X), by_steps(rnn, X), rtol=0, atol=1e-12)


def test_a_global_that_the_fields_code_reads_is_seen(monkeypatch):
    rnn = planned()
    monkeypatch.setitem(globals(), "FACTOR", 0.5)
    assert_close(rnn(X), by_steps(rnn, X), rtol=0, atol=1e-12)


def test_a_method_that_is_exchanged_in_the_fields_class_is_seen(monkeypatch):
    rnn = planned()
    monkeypatch.setattr(Own, "flow", lambda self, projected, h: projected - h)
    assert_close(rnn(X), by_steps(rnn, X), rtol=0, atol=1e-12)


def halved(method):
    """A method whose result, or the first of its results, is half as large."""

    def half(*given):
        result = method(*given)
        return (0.5 * result[0], *result[1:]) if isinstance(result, tuple) else 0.5 * result

    return half


EXCHANGED = {
    "a function": (ctrnn.parts.TanhCandidate, "function", lambda self, a: 0.5 * a),
    "a function of a base": (ctrnn.parts.TanhCandidate, "function", vars(ctrnn.parts.Affine)["function"]),
    "what its flow calls": (ctrnn.parts.Affine, "preactivation", lambda self, projected, h: projected - h),
    "how the step evaluates": (RungeKutta4, "along", halved(RungeKutta4.along)),
    "a tableau": (RungeKutta4, "weights", (0.5, 0.0, 0.0, 0.5)),
    "a method of the module": (DiscreteRNN, "_time_first", halved(DiscreteRNN._time_first)),
}


@pytest.mark.parametrize("what", EXCHANGED)
def test_what_is_exchanged_in_a_class_of_ours_is_seen_each_time(what, monkeypatch):
    rnn, (kind, name, other) = planned(field=ctrnn.leaky(2, 3, dtype=torch.float64), step=RungeKutta4()), EXCHANGED[what]
    before = rnn(X)
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(kind, name, other)
            now = rnn(X)
            assert not torch.allclose(now[0], before[0])
            assert_close(now, by_steps(rnn, X), rtol=0, atol=1e-12)
        assert_close(rnn(X), before, rtol=0, atol=1e-12)
        assert runs_by_plan(rnn, X)


@pytest.mark.parametrize("name", SET)
def test_a_setting_of_the_module_that_has_changed_is_seen(name):
    rnn = planned()
    setattr(rnn, name, SET[name])
    assert_close(rnn(X), by_steps(rnn, X), rtol=0, atol=1e-12)


def test_other_axes_are_seen():
    rnn = planned(x=X[:2])  # as many samples as sequences
    rnn.batch_first = True
    assert_close(rnn(X[:2]), by_steps(rnn, X[:2]), rtol=0, atol=1e-12)


def test_a_number_that_is_changed_in_a_step_is_seen():
    rnn = planned(step=ScaledEuler())
    other = DiscreteRNN(rnn.field, ScaledEuler(), allow_overshoot=True)  # whose step is another object, and as good
    other(X)
    assert runs_by_plan(other, X)
    for module, scale in ((other, 0.25), (rnn, 0.5)):
        module.step.scale = scale
        assert_close(module(X), by_steps(module, X), rtol=0, atol=1e-12)


def test_a_monitor_sees_planned_modules_while_it_watches():
    rnn = planned(field=ctrnn.gated(2, 3, dtype=torch.float64))
    with Monitor(rnn) as monitor:
        rnn(X)
    (record,) = monitor.records.values()
    assert record.counts.sum() == X.shape[0] * X.shape[1] * 3
    assert runs_by_plan(rnn, X)


class Overridden(DiscreteRNN):
    def _states(self, *given):
        return 2 * super()._states(*given)


class Reported(DiscreteRNN):
    def report(self):
        return "a method more"


class Called(DiscreteRNN):
    def forward(self, x):
        return super().forward(x)[0] + 1


def test_what_a_subclass_or_an_object_does_otherwise_is_done():
    field = planned().field
    expected = DiscreteRNN(field, allow_overshoot=True)(X)[0]
    doubled, called, ours = (kind(field, allow_overshoot=True) for kind in (Overridden, Called, Reported))
    for _ in range(3):
        assert_close(doubled(X)[0], 2 * expected, rtol=0, atol=1e-12)
        assert_close(called(X), expected + 1, rtol=0, atol=1e-12)
        assert_close(ours(X)[0], expected, rtol=0, atol=1e-12)
    assert runs_by_plan(ours, X)
    ours._run = lambda *given: (torch.zeros(1), torch.zeros(1))
    assert ours(X)[0].sum() == 0
    del ours._run
    ours.__class__ = Overridden
    assert_close(ours(X)[0], 2 * expected, rtol=0, atol=1e-12)


def test_hooks_of_the_module_run_and_those_of_its_field_are_refused():
    rnn, seen = planned(), []
    handle = rnn.register_forward_hook(lambda *given: seen.append(1))
    rnn(X)
    assert seen == [1]
    handle.remove()
    assert runs_by_plan(rnn, X)
    rnn.field.of_h.register_forward_hook(lambda *given: None)
    with pytest.raises(TypeError, match="The field's Linear has a hook"):
        rnn(X)


def test_dropout_that_begins_or_ends_is_seen():
    field = ctrnn.gated(2, 3, dtype=torch.float64)
    rnn = planned(field=field)
    field.candidate = ctrnn.Dropout(field.candidate, 0.9)
    torch.manual_seed(1)
    one, other = rnn(X)[0], rnn(X)[0]
    assert not torch.equal(one, other)
    rnn.eval()
    assert torch.equal(rnn(X)[0], rnn(X)[0])


def test_the_other_dtype_is_read_after_a_conversion():
    rnn = planned()
    rnn.float()
    with pytest.raises(TypeError, match=r"`x` is torch.float64, the field's parameters are torch.float32"):
        rnn(X)
    found, expected = rnn(X.float()), by_steps(rnn, X.float())
    assert found[0].dtype == torch.float32
    assert_close(found, expected, rtol=0, atol=1e-6)
    rnn.double()
    assert_close(rnn(X), by_steps(rnn, X), rtol=0, atol=1e-12)


def called_with_others(rnn):
    weights = {name: tensor / 2 for name, tensor in rnn.state_dict().items()}
    twin = copy.deepcopy(rnn)
    twin.load_state_dict(weights)
    return functional_call(rnn, weights, (X,)), by_steps(twin, X)


def mapped(rnn):
    xs = torch.stack([X, 2 * X])
    return vmap(rnn)(xs)[0], torch.stack([by_steps(rnn, x)[0] for x in xs])


def pushed(rnn):
    return jvp(lambda x: rnn(x)[0], (X,), (X,)), jvp(lambda x: by_steps(rnn, x)[0], (X,), (X,))


def pushed_of_a_weight(rnn):
    answers = []
    for run in (rnn, partial(by_steps, rnn)):
        with forward_ad.dual_level():
            weight = forward_ad.make_dual(rnn.field.of_h.weight.detach(), torch.ones(3, 3, dtype=torch.float64))
            kept, rnn.field.of_h._parameters["weight"] = rnn.field.of_h.weight, weight
            answers.append(forward_ad.unpack_dual(run(X)[0]))
            rnn.field.of_h._parameters["weight"] = kept
    return answers[0], answers[1]


def pushed_of_a_start(rnn):
    answers = []
    for run in (rnn, partial(by_steps, rnn)):
        with forward_ad.dual_level():
            answers.append(forward_ad.unpack_dual(run(X, forward_ad.make_dual(H, H))[0]))
    return answers[0], answers[1]


def without_gradients(rnn):
    with torch.no_grad():
        output = rnn(X)[0]
    assert not output.requires_grad
    return output, by_steps(rnn, X)[0].detach()


def of_inference(rnn):
    with torch.inference_mode():
        output = rnn(X)[0]
    assert output.is_inference()
    return output.clone(), by_steps(rnn, X)[0].detach()


def a_module_of_inference(rnn):
    with torch.inference_mode():
        rnn.field.of_h.weight = nn.Parameter(rnn.field.of_h.weight.detach() / 2, requires_grad=False)
        found = rnn(X)[0]
        return found, by_steps(rnn, X)[0]


def exported(rnn):
    program = torch.export.export(rnn, (X,))
    return program.module()(OTHER[:5])[0], by_steps(rnn, OTHER[:5])[0]


def expanded(rnn):
    x = X[:1].expand(4, -1, -1)
    return rnn(x)[0], by_steps(rnn, x.contiguous())[0]


def strided(rnn):
    x = X.repeat(1, 1, 2)[::2, :, ::2]
    return rnn(x)[0], by_steps(rnn, x.contiguous())[0]


WAYS = [
    *(called_with_others, mapped, pushed, pushed_of_a_weight, pushed_of_a_start, without_gradients, of_inference),
    *(a_module_of_inference, exported, expanded, strided),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_a_planned_module_is_called_in_any_way_that_another_is(way):
    rnn = planned()
    with torch.no_grad():
        rnn(X)
    found, expected = way(rnn)
    assert_close(found, expected, rtol=0, atol=1e-11)


def test_calls_with_and_without_a_gradient_to_the_samples_take_turns():
    rnn, learned = planned(), X.clone().requires_grad_()
    DiscreteRNN(rnn.field, fused="always", allow_overshoot=True)(learned)
    rnn(learned)
    rnn(X)
    plans = {id(rnn._plan), id(rnn._plan.before)}
    for _ in range(2):
        gradient = torch.autograd.grad(rnn(learned)[0].square().sum(), learned)[0]
        assert_close(gradient, torch.autograd.grad(by_steps(rnn, learned)[0].square().sum(), learned)[0], rtol=0, atol=1e-11)
        assert_close(rnn(X)[0], by_steps(rnn, X)[0], rtol=0, atol=1e-11)
    assert {id(rnn._plan), id(rnn._plan.before)} == plans


def negated(number):
    """One number that lies in memory with the other sign."""
    return torch.full((1, 1, 1), complex(0, number), dtype=torch.complex128).conj().imag


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_one_number_that_lies_in_memory_with_the_other_sign_is_read_with_its_own(make):
    x, h_0, cotangent = negated(0.5), negated(0.3), negated(0.7)
    rnn = make(field=ctrnn.gated(1, 1, dtype=torch.float64), x=x.clone())
    rnn(x.clone(), h_0.clone())
    for given in ((x,), (x.clone(), h_0)):
        found, expected = rnn(*given)[0], by_steps(rnn, *(each.clone() for each in given))[0]
        assert_close(found, expected, rtol=0, atol=1e-12)
    weight = rnn.field.candidate.bias
    gradients = [torch.autograd.grad(rnn(x.clone())[0], weight, grad)[0] for grad in (cotangent, cotangent.clone())]
    assert_close(*gradients, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_a_planned_module_is_compiled():
    rnn = planned()
    assert_close(torch.compile(rnn)(X)[0], by_steps(rnn, X)[0], rtol=0, atol=1e-12)


class Functions(TorchFunctionMode):
    seen = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        Functions.seen += function is torch.tanh
        return function(*args, **kwargs or {})


class Operations(TorchDispatchMode):
    seen = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        Operations.seen += function is torch.ops.aten.tanh.default
        return function(*args, **kwargs or {})


@pytest.mark.parametrize("mode", [Functions, Operations])
def test_a_mode_that_looks_at_each_operation_sees_each(mode):
    rnn = planned()
    with mode():
        rnn(X)
    assert mode.seen == len(X)
    assert rnn.stats["engine"] == "steps"


def test_under_autocast_states_are_in_the_dtype_of_the_field():
    rnn = planned(field=ctrnn.gated(2, 3, dtype=torch.float32), x=X.float())
    rnn(X.float())
    with torch.autocast("cpu", torch.bfloat16):
        for x in (X.float(), X.bfloat16()):
            assert rnn(x)[0].dtype == torch.float32
            assert_close(rnn(x)[0], rnn(x.float())[0])
    with pytest.raises(TypeError, match=r"`x` is torch.bfloat16"):
        rnn(X.bfloat16())


class LowRank(ctrnn.VectorField):
    def __init__(self):
        super().__init__(2, 3)
        self.left, self.right = (nn.Parameter(torch.rand(size, dtype=torch.float32)) for size in ((3, 2), (2, 3)))

    def flow(self, projected, h):
        return torch.tanh(h @ (self.left @ self.right) + projected[..., :1]) - h


def test_products_of_weights_are_not_rounded_under_autocast():
    rnn, x = planned(field=LowRank(), x=X.float()), X.float()
    expected = by_steps(rnn, x)
    with torch.autocast("cpu", torch.bfloat16):
        assert_close(rnn(x), expected, rtol=0, atol=1e-5)


def test_kernels_that_are_turned_off_are_off(monkeypatch):
    rnn = planned()
    monkeypatch.setenv("CTRNN_FUSED", "0")
    rnn(X)
    assert (rnn.stats["engine"], rnn.stats["engine_why"]) == ("steps", "CTRNN_FUSED is 0")
    monkeypatch.setenv("CTRNN_FUSED", "often")
    with pytest.raises(ValueError, match="CTRNN_FUSED must be 0"):
        rnn(X)
    monkeypatch.delenv("CTRNN_FUSED")
    assert runs_by_plan(rnn, X)


NAN, WIDE = X.clone(), torch.full((1, 2, 2), 1e308, dtype=torch.float64)
NAN[2, 1, 0] = torch.nan
BAD = {
    "a nan": (NAN,),
    "a nan in the start": (X, H * torch.nan),
    "too many features": (torch.cat([X, X], -1),),
    "no list": (X.tolist(),),
    "too many axes": (X[None],),
    "one axis": (X[0, 0],),
    "whole numbers": (X.long(),),
    "another dtype": (X.float(),),
    "no samples": (X[:0],),
    "sparse": (X.to_sparse(),),
    "a start of another size": (X, torch.zeros(3, 3, dtype=torch.float64)),
    "a start of another dtype": (X, H.float()),
    "a start that is none": (X, 0.0),
    "a start of two layers": (X, torch.zeros(2, 2, 3, dtype=torch.float64)),
    "a pair": (X, (H, H)),
    "a seed": (X, None, None, None, None, 3),
    "decreasing times": (X, None, torch.arange(5.0, -1.0, -1.0)),
    "lengths that do not fit": (X, None, None, [6, 1]),
    "a mask of numbers": (X, None, None, None, X),
    "on no device": (X.to("meta"),),
}


@pytest.mark.parametrize("given", BAD.values(), ids=BAD)
def test_bad_input_is_refused_in_the_words_of_a_first_call(given):
    rnn = planned()
    with pytest.raises((TypeError, ValueError)) as expected:
        by_steps(rnn, *given)
    with pytest.raises(type(expected.value)) as found:
        rnn(*given)
    assert str(found.value) == str(expected.value)
    assert runs_by_plan(rnn, X)


def test_finite_samples_whose_sum_is_not_are_read():
    rnn = planned()
    assert_close(rnn(WIDE), by_steps(rnn, WIDE), rtol=0, atol=1e-12)


def test_a_batch_of_no_sequences_is_read():
    rnn = planned()
    assert_close(rnn(X[:, :0]), by_steps(rnn, X[:, :0]))


class Growing(Own):
    def flow(self, projected, h):
        return projected.exp() * h.square()


@pytest.mark.parametrize("make", [solved, chosen], ids=["steps of one length", "steps that are chosen"])
def test_a_planned_solve_that_fails_says_where(make):
    rnn = make(Growing())
    with pytest.raises(SolverError) as expected:
        by_steps(rnn, 50 * X.abs() + 100, H)
    with pytest.raises(SolverError) as found:
        rnn(50 * X.abs() + 100, H)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda rnn: pickle.loads(pickle.dumps(rnn))])
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_copy_plans_for_itself(make, copied):
    rnn = make()
    twin = copied(rnn)
    assert twin._plan is None
    assert_close(twin(X), rnn(X), rtol=0, atol=1e-15)
    with torch.no_grad():
        twin.field.of_h.weight.mul_(2)
    assert_close(twin(X), by_steps(twin, X), rtol=0, atol=1e-12)
    assert_close(rnn(X), by_steps(rnn, X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_who_writes_on_a_planned_output_does_not_change_the_state_to_go_on_from(make):
    rnn = make()
    with torch.no_grad():
        (output, h_n), expected = rnn(X), by_steps(rnn, X)[1]
        output.zero_()
    assert_close(h_n, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_planned_module_is_saved_and_comes_back(make, tmp_path):
    rnn = make(field=ctrnn.gated(2, 3, dtype=torch.float64))
    ctrnn.save(tmp_path / "model", rnn)
    assert_close(ctrnn.load(tmp_path / "model")(X), rnn(X), rtol=0, atol=1e-12)


@pytest.mark.usefixtures("only_new_garbage")
def test_a_module_that_is_not_used_any_more_goes_with_its_plan():
    rnn = planned()
    gone = weakref.ref(rnn), weakref.ref(rnn.field)
    del rnn
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_threads_run_one_plan_at_once():
    rnn = planned()
    inputs = [torch.randn(20, k, 2, generator=DICE, dtype=torch.float64) for k in (1, 3)]
    expected, wrong = [by_steps(rnn, x)[0] for x in inputs], []

    def work(k):
        for _ in range(100):
            if not torch.allclose(rnn(inputs[k])[0], expected[k], rtol=0, atol=1e-12):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in (0, 1)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_steps_that_overshoot_are_warned_of_after_planned_calls_too():
    rnn = DiscreteRNN(planned(field=ctrnn.leaky(2, 3, dtype=torch.float64)).field)
    with torch.no_grad():
        rnn.field.rate.log_alpha.fill_(0.0)
        rnn(X[:2])
        assert runs_by_plan(rnn, X[:2])
        rnn.field.rate.log_alpha.fill_(1.0)
        for _ in range(48):
            assert runs_by_plan(rnn, X[:2])
        with pytest.warns(StepWarning, match="takes steps with g dt up to 2.7"):
            rnn(X[:2])
    assert rnn.watch.calls == 51


def test_layers_and_times_read_as_before_beside_plans():
    rnn = planned()
    layers = Layers([rnn])
    assert_close(layers(X)[0], by_steps(rnn, X)[0], rtol=0, atol=1e-12)
    ts = torch.tensor([0.0, 0.5, 1.5, 2.0, 4.0, 4.5])
    assert_close(rnn(X, ts=ts), by_steps(rnn, X, ts=ts), rtol=0, atol=1e-12)
    assert_close(rnn(X, lengths=[5, 2]), by_steps(rnn, X, lengths=[5, 2]), rtol=0, atol=1e-12)
