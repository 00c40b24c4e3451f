"""What kernels for sequences promise beside the states and gradients of the steps, which are test_conformance.py's."""

import copy
import math
import re
import threading
import warnings
from collections import OrderedDict
from contextvars import ContextVar, copy_context
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import pytest
import torch
from conformance import ROUNDING, agree, kernels_for_all, sequence
from own_fields import Own, Powers
from torch import nn
from torch.nn.functional import leaky_relu, silu, softplus
from torch.nn.utils import parametrizations
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import ctrnn
import discretize
from discretize import ContinuousRNN, DiscreteRNN, Euler, ExponentialEuler, KernelWarning
from discretize.kernels import eligibility, sequences
from discretize.kernels import registry as written_kernels
from discretize.kernels.build import Unavailable
from discretize.kernels.cpp import sequences as compiled
from discretize.kernels.record import stored
from discretize.kernels.record.program import FlowModule, program_of
from discretize.steps.along import HeldProblem

EXACT = {"rtol": 1e-11, "atol": 1e-11}


@pytest.fixture(autouse=True)
def short_sequences():
    with kernels_for_all("compiled"):
        yield


def is_right(field):
    x, h_0 = torch.randn(4, 2, 3, requires_grad=True), torch.randn(2, field.state_size, requires_grad=True)
    agree("compiled", sequence(field, Euler(), x, h_0, dt=0.5), ROUNDING[torch.float64])


def test_neighbours_and_threads_change_no_bit_of_a_sample():
    torch.manual_seed(4)
    rnn, x = DiscreteRNN(Own(), allow_overshoot=True), torch.randn(5, 70, 3, requires_grad=True)
    threads = torch.get_num_threads()
    try:
        found = []
        for count in (1, 3):
            torch.set_num_threads(count)
            output = rnn(x)[0]
            found.append([output, *torch.autograd.grad(output.sum(), [x, *rnn.field.of_state.parameters()])])
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, three) for one, three in zip(*found, strict=True))
    stepped = DiscreteRNN(rnn.field, fused=False, allow_overshoot=True)(x)[0]
    theirs = torch.autograd.grad(stepped.sum(), [x, *rnn.field.of_state.parameters()])
    for mine, other in zip(found[0], (stepped, *theirs), strict=True):  # sums of groups of samples, too
        assert_close(mine, other, **EXACT)
    alone = rnn(x[:, 41:42])[0]
    assert torch.equal(alone, found[0][0][:, 41:42])
    assert torch.equal(torch.autograd.grad(alone.sum(), x)[0][:, 41], found[0][1][:, 41])


def test_a_state_that_rests_is_the_same_to_the_last_bit():
    field, x = Own(), torch.randn(4, 2, 3, requires_grad=True)
    output, _ = DiscreteRNN(field, allow_overshoot=True)(x, lengths=torch.tensor([2, 4]))
    full, _ = DiscreteRNN(field, allow_overshoot=True)(x)
    lengths = torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, 0.5], [1.0, 1.0]])[..., None]
    problem = HeldProblem(field, Euler(), x, torch.zeros(2, 10), lengths)
    states, _ = sequences.run_written(problem, True)
    assert torch.equal(states[0, 0], states[2, 0])
    assert not torch.equal(states[0, 1], states[2, 1])
    assert torch.equal(output[:2, 0], full[:2, 0])
    with torch.no_grad():
        x[1:3, 0] = math.nan  # of samples over which nothing moves
    assert torch.equal(sequences.run_written(problem, True)[0][:, 1], states[:, 1])
    assert torch.equal(sequences.run_written(problem, True)[0][:3, 0], states[:3, 0])


def test_nan_stays_in_the_sample_that_it_comes_from():
    x = torch.randn(4, 3, 3)
    h_0 = torch.zeros(3, 10)
    module = sequences.StepModule(Own(), Euler())
    x[2, 1] = math.nan
    states, _ = sequences.run_written(HeldProblem(module.field, module.step, x.requires_grad_(), h_0, 1.0), True)
    assert states[:2].isfinite().all()
    assert states[:, [0, 2]].isfinite().all()
    assert states[2:, 1].isnan().any(-1).all()


def test_a_sequence_that_is_over_cannot_leave_all_bounds():
    # 0 times an infinite slope would be nan.
    field = ctrnn.leaky(2, 3, decay=ctrnn.PowerDecay(2.0))
    rnn, h_0 = DiscreteRNN(field, dt=3.0, allow_overshoot=True), torch.full((2, 3), 4.0)
    output, h_n = rnn(torch.randn(30, 2, 2), h_0, lengths=[1, 2])
    assert rnn.stats["engine"] == "compiled"
    assert not rnn(torch.randn(30, 2, 2), h_0)[0].isfinite().all()
    for gradient in torch.autograd.grad(output.sum() + h_n.sum(), list(rnn.parameters())):
        assert gradient.isfinite().all()


def test_other_sizes_have_the_same_library_and_other_attributes_another():
    def kernel(field):
        rnn = DiscreteRNN(field, allow_overshoot=True)
        rnn(torch.randn(2, 3, field.input_size, requires_grad=True))
        return next(reversed(written_kernels._made.values())).kernel

    field = Powers(3, 5)
    first, wider = kernel(field), kernel(Powers(4, 9))
    assert first.library is wider.library
    assert kernel(Powers(3, 5)) is first  # recorded once for all fields of a kind
    field.power = 3
    assert kernel(field) is not first
    is_right(field)


def test_tensors_are_read_at_every_call_wherever_they_are_kept():
    torch.manual_seed(5)
    field, x = Keeping(), torch.randn(4, 2, 3)
    for _ in range(2):
        sources = [field.scale, *field.layers[0].parameters(), *field.of_state.parameters()]
        answers = []
        for fused in (True, False):
            rnn = DiscreteRNN(field, fused=fused, allow_overshoot=True)
            output, _ = rnn(x)
            assert rnn.stats["engine"] == ("compiled" if fused else "steps"), rnn.stats
            answers.append([output, *torch.autograd.grad(output.square().sum(), sources, retain_graph=True)])
        for mine, theirs in zip(*answers, strict=True):
            assert_close(mine, theirs, **EXACT)
        field.constant = torch.rand(1).double().expand(10)
        with torch.no_grad():
            field.seen.logical_not_()
            field.layers[0].weight.add_(0.1)


def test_functions_of_every_kind_of_number_are_those_of_torch():
    x = torch.tensor(SPECIAL, dtype=torch.float64)[None, :, None]
    h = torch.zeros(len(SPECIAL), len(OF_ONE), dtype=torch.float64)
    whole = OF_ONE.index(next(f for f in OF_ONE if "long" in getattr(getattr(f, "__code__", None), "co_names", ())))
    states, stats = sequences.run_written(HeldProblem(Special(), Euler(), x, h, 1.0), True)
    assert states is not None, stats
    expected = Special().flow(x[0], h)
    known = torch.ones_like(h, dtype=torch.bool)
    known[x[0, :, 0].abs().nan_to_num(1e300) > 2**62, whole] = False  # not said by torch
    for name, mine, theirs, at in zip(OF_ONE, states[0].T, expected.T, known.T, strict=True):
        close = {"rtol": 1e-13, "atol": 1e-300, "equal_nan": True}
        assert_close(mine[at], theirs[at], **close, msg=lambda said, name=name: f"{name}: {said}")


class By(Own):
    """dh/dt by a function of the field and the state."""

    def __init__(self, of):
        super().__init__()
        self.of, self.calls, self.known = of, 0, []
        self.act = lambda v: v * self.scale  # not of a copy of the field

    def flow(self, projected, h):
        return self.of(self, h)


def counting(field, h):
    field.calls += 1
    return -h


def counting_in_a_dict(field, h):
    field.of_state.counts = {"calls": getattr(field.of_state, "counts", {"calls": 0})["calls"] + 1}
    return -h


def counting_in_a_list(field, h):
    field.known.append(len(field.known))
    return -h


def counting_on_a_weight(field, h):
    field.scale._calls = getattr(field.scale, "_calls", 0) + 1
    return -h


REFUSED = {
    lambda f, h: -h if h.sum() > 0 else h: r"branches on the values of tensors \(.*test_sequences.py, line",
    lambda f, h: -h if h.shape[0] == 1 else -2 * h: "treats a sample alone otherwise than among others|of the size of the batch",
    lambda f, h: h.sum(0) - h: "uses sub, and it mixes samples: File .*test_sequences.py",
    lambda f, h: torch.rand_like(h) - h: "uses rand_like, and no kernel is written for it: File .*test_sequences.py",
    lambda f, h: torch.sort(h, -1).values - h: "uses sort, and no kernel is written for it: File .*torch.sort",
    lambda f, h: (-h.float()).double(): "uses _to_copy, and it computes in float32: File .*test_sequences.py",
    counting: "its code changes what the field keeps: `field.calls`$",
    counting_in_a_list: "its code changes what the field keeps: `field.known`$",
    counting_in_a_dict: "its code changes what the field keeps: `field.of_state.counts`$",
    counting_on_a_weight: "its code changes what the field keeps: `field.scale._calls`$",
    lambda f, h: h.new_zeros(len(h), 10) - h: r"a number of the size of the batch \(.*test_sequences.py, line .*len",
    lambda f, h: h.flip(0): "it takes some of the samples, or puts others beside them: File .*test_sequences.py",
    lambda f, h: f.of_state.weight.data.mul_(1.0).sum() * h: "or what the field keeps: File .*test_sequences.py.*mul_",
    lambda f, h: -f.act(h): "a tensor with a gradient that is no parameter: File .*test_sequences.py",
    lambda f, h: torch.addmm(h, h, f.of_state.weight @ f.of_state.weight.T, beta=0.5): "uses addmm, and its products are scaled",
}


class Bent(Own):
    def flow(self, projected, h):
        return torch.tanh(self.scale * h) - h


class Keeping(Own):
    """Tensors in places where torch does not look for them, a mask of truths, and weights that are computed."""

    def __init__(self):
        super().__init__()
        self.layers, self.kept, self.constant = [nn.Linear(10, 10).double()], {"a": self.scale * 2}, torch.rand(20).double()[::2]
        self.register_buffer("seen", torch.arange(10) % 3 > 0)
        self.of_state = parametrizations.weight_norm(self.of_state)

    def flow(self, projected, h):
        linear = self.layers[0]
        h.new_zeros(0)  # of no samples, and nothing reads it
        hidden = torch.tanh(linear(h) * linear.weight.diagonal()) * self.constant * torch.arange(10) / 10
        return torch.where(self.seen, hidden, -h * self.kept["a"]) + 0.1 * (self.of_state(h[..., :5]) + projected)


TABLE = torch.ones(10, dtype=torch.float64)


class Attached(Own):
    """A field that reads what is set on its tensors, and on a global one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("whole", torch.ones(10, dtype=torch.float64))

    def flow(self, projected, h):
        scales = [getattr(each, "factor", 1.0) for each in (self.scale, self.whole, TABLE)]
        return -h * self.scale * scales[0] * self.whole * scales[1] * TABLE * scales[2]


@pytest.mark.parametrize("name", ["scale", "whole", "table"])
@pytest.mark.parametrize("value", [0.5, torch.tensor(0.5, dtype=torch.float64)], ids=["number", "tensor"])
def test_attributes_of_tensors_are_read(name, value, monkeypatch):
    field = Attached()
    is_right(field)
    monkeypatch.setattr(TABLE if name == "table" else getattr(field, name), "factor", value, raising=False)
    is_right(field)


FACTOR, SLOPE, SHARE = 1.0, 1.0, ContextVar("SHARE", default=1.0)


class Sloped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h):
        return h.clone()

    @staticmethod
    def backward(ctx, grad):
        return SLOPE * grad


class ReadingGlobals(Own):
    def flow(self, projected, h):
        return -FACTOR * SHARE.get() * Sloped.apply(h)


def test_globals_may_change(monkeypatch):
    field = ReadingGlobals()
    # The second name is read in the backward pass alone.
    for name, value, share in (("FACTOR", 2.0, 1.0), ("FACTOR", 2.0, 0.2), ("SLOPE", 3.0, 0.2)):
        monkeypatch.setitem(globals(), name, value)
        context = copy_context()
        context.run(SHARE.set, share)
        context.run(is_right, field)


@pytest.mark.records
@pytest.mark.slow
def test_a_first_call_in_some_mode_of_torch_is_like_any_other(monkeypatch):
    x = torch.randn(3, 2, 3, dtype=torch.float64)
    modes = [torch.inference_mode(), torch.no_grad(), torch.autograd.set_detect_anomaly(True), torch.autograd.graph.save_on_cpu()]
    for mode in modes:
        monkeypatch.setattr(written_kernels, "_made", OrderedDict())
        with mode:
            rnn = DiscreteRNN(Own(), allow_overshoot=True)
            rnn(x)
        assert rnn.stats["engine"] == "compiled", (mode, rnn.stats)
        is_right(Own())


@pytest.mark.records
def test_threads_record_and_run_at_once(monkeypatch):
    monkeypatch.setattr(written_kernels, "_made", OrderedDict())
    field, x = Bent(), torch.randn(5, 3, 3)
    other, found = DiscreteRNN(ctrnn.gated(3, 4)), []
    expected = DiscreteRNN(field, allow_overshoot=True, fused=False)(x)[0]
    other(x)
    threads = [threading.Thread(target=lambda: found.append(DiscreteRNN(field, allow_overshoot=True)(x)[0])) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        other(x)  # not taken for what is recorded meanwhile
        assert other.stats["engine"] == "compiled"
    for output in found:
        assert_close(output, expected, **EXACT)
    assert (len(found), len(written_kernels._made)) == (3, 2)


@pytest.mark.records
def test_what_is_looked_at_while_another_thread_records_gets_no_kernel_of_its_own(monkeypatch):
    # Torch exchanges nn.Module.__call__ for all threads while it records; here it does while the first call looks at the field.
    monkeypatch.setattr(written_kernels, "_made", OrderedDict())
    look, call = sequences.attributes_of, nn.Module.__call__

    def meanwhile(*given, **how):
        with monkeypatch.context() as patched:
            patched.setattr(nn.Module, "__call__", partial(call))
            return look(*given, **how)

    field, x = Bent(), torch.randn(5, 3, 3)
    for looking in (meanwhile, look, meanwhile, look):
        monkeypatch.setattr(sequences, "attributes_of", looking)
        rnn = DiscreteRNN(field, allow_overshoot=True)
        rnn(x)
        assert rnn.stats["engine"] == "compiled"
        assert len(written_kernels._made) == 1


@patch.object(written_kernels, "MOST_IN_VAIN", 2)  # monkeypatch ends after the fixture, and would leave what that has set
def test_a_number_that_changes_at_every_call_gets_no_kernel_of_its_own_each_time(monkeypatch):
    monkeypatch.setattr(written_kernels, "_uses", {})
    monkeypatch.setattr(written_kernels, "_made", OrderedDict())
    field, x = Powers(3, 5), torch.randn(2, 2, 3, requires_grad=True)
    for power in (2, 3, 4):
        field.power = power
        rnn = DiscreteRNN(field, allow_overshoot=True)
        rnn(x)
    assert "its attributes change from call to call" in rnn.stats["engine_why"]
    field.power = 2
    rnn(x)
    assert rnn.stats["engine"] == "compiled"
    other = DiscreteRNN(Powers(4, 6), allow_overshoot=True)  # of the same parts, and stays as it is
    engines = []
    for _ in range(written_kernels.LEAST_USE):
        other(torch.randn(2, 2, 4, requires_grad=True))
        engines.append(other.stats["engine"])
    assert engines == ["steps"] * (written_kernels.LEAST_USE - 1) + ["compiled"]


SPECIAL = [0.0, 1.0, -1.0, 0.5, -0.5, 1e-300, 1e-9, -3e-7, 2.5, -2.5, 40.0, -40.0, 720.0, -720.0, 1e200, -1e200]
SPECIAL += [math.inf, -math.inf, math.nan]
OF_ONE = [
    *(torch.tanh, torch.sigmoid, torch.exp, torch.expm1, torch.log, torch.log1p, torch.sqrt, torch.rsqrt, torch.abs, torch.sign),
    *(torch.relu, torch.sin, torch.atan, torch.erf, torch.floor, torch.round, torch.trunc, torch.reciprocal, softplus, silu),
    *(lambda v: v**2, lambda v: v**3, lambda v: v**-2, lambda v: v**0.5, lambda v: v**1.5, lambda v: 2**v, torch.isfinite),
    *(lambda v: v.clamp(-1, 1), lambda v: torch.clamp(v, max=1), lambda v: v % 0.3, lambda v: v.bool(), torch.nan_to_num),
    *(lambda v: torch.where(v > 0, v, -1), lambda v: v.long() if math.nan else v, lambda v: torch.round(v, decimals=1)),
    *(lambda v: torch.maximum(v, v.new_tensor(0.3)), lambda v: (v >= 0) + (v != 1), lambda v: ~(v == 0.5), leaky_relu),
]


class Special(ctrnn.VectorField):
    def __init__(self):
        super().__init__(1, len(OF_ONE))

    def flow(self, projected, h):
        return torch.cat([function(projected).to(projected) for function in OF_ONE], -1)


@pytest.mark.parametrize("code", REFUSED)
def test_code_without_a_kernel_runs_step_by_step_and_says_the_line(code):
    rnn = DiscreteRNN(By(code), allow_overshoot=True)
    with warnings.catch_warnings():  # one takes a mean over the batch
        warnings.filterwarnings("ignore", "In this module dh/dt of a sample changes with")
        rnn(torch.randn(3, 4, 3))
    assert rnn.stats["engine"] == "steps"
    with pytest.raises(AssertionError, match=REFUSED[code]):
        raise AssertionError(rnn.stats["engine_why"])


class Counts(discretize.steps.Step):
    """Euler's step, which counts its calls in itself."""

    order, evaluations = 1, 1

    def __init__(self):
        super().__init__()
        self.calls = 0

    def advance(self, field, projected, h, dt):
        self.calls += 1
        return h + dt * field.flow(projected, h)


def test_what_the_code_of_a_step_or_of_a_class_changes_is_named():
    class OfItsClass(ctrnn.VectorField):
        calls = 0

        def flow(self, projected, h):
            type(self).calls += 1
            return -h

    for field, step, name in ((Own(), Counts(), "step.calls"), (OfItsClass(3, 10), Euler(), r"class .*OfItsClass")):
        rnn = DiscreteRNN(field, step, allow_overshoot=True)
        rnn(torch.randn(3, 4, 3))
        assert re.search(f"its code changes what the field keeps: `{name}`$", rnn.stats["engine_why"])


@pytest.mark.records
def test_names_are_looked_for_where_code_changes_something_alone(monkeypatch):
    monkeypatch.setattr("discretize.kernels.record.program._values_by_name", None)  # a third of the time of a recording
    rnn = DiscreteRNN(Own(), Euler())
    rnn(torch.randn(3, 4, 3))
    assert rnn.stats["engine"] == "compiled", rnn.stats["engine_why"]


def test_numbers_at_equal_distances_in_float32_are_those_of_torch_to_the_last_digit():
    # Taken apart they are off by one in the last digit, which is much in a kernel of float64.
    rnn = DiscreteRNN(By(lambda f, h: -h * torch.linspace(0.9, 1.1, 11, dtype=torch.float32)[:10].to(h)), allow_overshoot=True)
    rnn(torch.randn(3, 4, 3))
    assert rnn.stats["engine"] == "compiled", rnn.stats["engine_why"]


def test_what_the_largest_number_was_taken_of_is_saved_and_not_computed_again():
    # Computed with another rounding, as compilers may, it would be equal to none of the numbers.
    module = FlowModule(By(lambda f, h: (h * (h + f.scale)).amax(-1, keepdim=True) - h), 10)
    values = program_of(module, {"x": False}, torch.float64, lambda values: values).written
    (largest,) = (value for value in values.order if value.operation == "amax")
    assert largest.of[0] in values.kept


def test_a_step_that_computes_with_matrices_of_derivatives_has_none():
    rnn = DiscreteRNN(Own(), discretize.ExponentialRosenbrock())
    rnn(torch.randn(2, 2, 3))
    assert rnn.stats["engine"] == "steps"
    assert "it computes with the field's Jacobian as a matrix" in rnn.stats["engine_why"]


def wrong_text(monkeypatch):
    written = stored.program_of

    def wrong(*given):
        program = written(*given)
        text = program.written.text.replace("hyperbolic_tangent(", "logistic(")
        return replace(program, written=replace(program.written, text=text))

    monkeypatch.setattr(stored, "program_of", wrong)
    monkeypatch.setattr(stored, "program_key", lambda *_: None)  # nothing is kept, nor found


def wrong_gradients(monkeypatch):
    right = compiled._CppCall.backward
    monkeypatch.setattr(compiled._CppCall, "backward", lambda call, kept, grad, *rest: right(call, kept, 1.001 * grad, *rest))


@pytest.mark.records
@pytest.mark.parametrize("wrong", [wrong_text, wrong_gradients])
def test_a_kernel_that_gives_other_numbers_is_not_used(wrong):
    rnn = DiscreteRNN(Bent(), allow_overshoot=True)
    with pytest.MonkeyPatch.context() as patch:
        wrong(patch)
        patch.setattr(written_kernels, "_made", OrderedDict())
        rnn(torch.randn(2, 2, 3))
    assert rnn.stats["engine"] == "steps"
    assert "its kernel differs from the steps one by one by" in rnn.stats["engine_why"]


@pytest.fixture
def subnormal_numbers():
    """Some compilers link code to -ffast-math that takes subnormal numbers for 0 in the whole process, from its loading on."""
    yield
    torch.set_flush_denormal(False)


@pytest.mark.slow
@pytest.mark.usefixtures("subnormal_numbers")
def test_fast_arithmetic_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("CTRNN_CXXFLAGS", "-ffast-math")
    monkeypatch.setenv("CTRNN_CACHE", str(tmp_path))
    monkeypatch.setattr(written_kernels, "_made", OrderedDict())
    for rnn in (DiscreteRNN(ctrnn.gated(3, 5)), ContinuousRNN(ctrnn.lstm(3, 5))):
        monkeypatch.setattr(eligibility, "_warned", False)
        with pytest.warns(KernelWarning, match="no -ffast-math"):
            output, _ = rnn(torch.randn(4, 2, 3))
        assert rnn.stats["engine"] == "steps"
        assert output.isfinite().all()


def test_a_kernel_that_cannot_be_had_is_warned_of_once(monkeypatch):
    def none(*_):
        raise Unavailable("there is no compiler")

    monkeypatch.setattr("discretize.kernels.cpp.programs.library", none)
    monkeypatch.setattr(written_kernels, "_made", OrderedDict())
    monkeypatch.setattr(eligibility, "_warned", False)
    rnn, x = DiscreteRNN(ctrnn.gated(2, 3)), torch.randn(4, 3, 2)
    with pytest.warns(KernelWarning, match="there is no compiler"):
        rnn(x)
    assert (rnn.stats["engine"], rnn.stats["engine_why"]) == ("steps", "there is no compiler")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rnn(x)
        DiscreteRNN(ctrnn.gru(2, 3))(x)


# What torch does to a module and its output.


def compiled_rnn(field=None, **settings):
    return DiscreteRNN(ctrnn.gated(2, 3) if field is None else field, **settings)


def test_a_second_backward_pass_finds_what_the_first_one_did():
    rnn, x = compiled_rnn(), torch.randn(4, 3, 2, requires_grad=True)
    output, _ = rnn(x)
    first = torch.autograd.grad(output.square().sum(), [x, *rnn.parameters()], retain_graph=True)
    for again, before in zip(torch.autograd.grad(output.square().sum(), [x, *rnn.parameters()]), first, strict=True):
        assert torch.equal(again, before)


def test_writing_into_the_output_leaves_the_way_back_as_it_was():
    field, x, found = ctrnn.gated(2, 3), torch.randn(4, 3, 2), []
    for fused in (True, False):
        output, _ = DiscreteRNN(field, fused=fused)(x)
        output[:2] = 0
        output.mul_(3)
        found.append(torch.autograd.grad(output.square().sum(), list(field.parameters())))
    for mine, theirs in zip(*found, strict=True):
        assert_close(mine, theirs, **EXACT)


@pytest.mark.filterwarnings("ignore:Samples are:discretize.TimeUnitWarning")
def test_leaks_of_all_sizes_have_the_gradients_of_phi():
    # phi_1' by its difference loses all digits near 0, and by a short series far away.
    field = ctrnn.gated(2, 3, decay=ctrnn.PowerDecay(0.5))  # of the tests below, under which the leak is |h|^-0.5 times a gate
    for size in (1e-30, 1e-8, 1e-3, 1.0, 1e3):
        x, h_0 = torch.randn(2, 3, 2, requires_grad=True), torch.randn(3, 3, requires_grad=True)
        ts = (size * torch.arange(3.0)).requires_grad_()
        agree("compiled", sequence(field, ExponentialEuler(), x, h_0, ts), ROUNDING[torch.float64])


def test_without_gradients_nothing_is_kept_but_the_states():
    field, x, h0 = ctrnn.gated(2, 3), torch.randn(50, 3, 2), torch.zeros(3, 3)
    with torch.no_grad():
        _, kernel = sequences._found(sequences._COMPILED, field, Euler(), {"x": False, "dt": False, "stored": False}, h0, True)
        call = kernel.call(8, True, x, h0, 1.0, list(field.parameters()))
        with Allocated() as allocated:
            states, kept = call.forward(keep=False)
    assert kept is None
    assert allocated.numbers == states.numel()  # none for each of the 400 steps


def test_the_graph_does_not_grow_with_the_sequence():
    def nodes(length):
        output, _ = compiled_rnn()(torch.randn(length, 1, 2))  # kept: torch 2.12 asks a node of a tensor that is gone in vain
        seen, waiting = set(), [output.grad_fn]
        while waiting:
            node = waiting.pop()
            if node is not None and node not in seen:
                seen.add(node)
                waiting.extend(following for following, _ in node.next_functions)
        return len(seen)

    assert nodes(40) == nodes(4)


def test_weights_written_between_forward_and_backward_are_refused():
    rnn = compiled_rnn()
    output, _ = rnn(torch.randn(4, 3, 2))
    with torch.no_grad():
        rnn.field.candidate.weight_h.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize("step", [Euler(), ExponentialEuler()])
def test_a_sample_of_no_time_leaves_the_state_to_the_last_bit_and_no_nan(step):
    field = ctrnn.gated(2, 3, decay=ctrnn.PowerDecay(0.5))
    x, dt, h0 = torch.randn(2, 3, 2, requires_grad=True), torch.zeros(2, 3, 1, requires_grad=True), torch.randn(3, 3)
    h0[0] = 0  # where |h|^r has no slope
    states, stats = sequences.run_written(HeldProblem(field, step, x, h0.requires_grad_(), dt, 2), True)
    assert stats["engine"] == "compiled"
    assert torch.equal(states, torch.stack([h0, h0]))
    for gradient in torch.autograd.grad(states.sum(), [x, h0, dt, *field.parameters()]):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("step", [Euler(), ExponentialEuler()])
def test_gradients_under_the_power_decay_are_those_of_the_steps_where_states_are_almost_nothing(step):
    field, found = ctrnn.gated(2, 3, decay=ctrnn.PowerDecay(0.5)), []
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.zero_()  # else the second step is far from 0
    x, ts = torch.zeros(3, 2, 2, requires_grad=True), (0.8 * torch.arange(4)).requires_grad_()  # as in the test above
    for fused in (True, False):
        h_0 = torch.tensor([[0.0, -0.0, 5e-324], [-1e-310, 1e-300, -0.7]], requires_grad=True)
        rnn = DiscreteRNN(field, step, fused=fused)
        found.append(torch.autograd.grad(rnn(x, h_0, ts)[0].sum(), h_0)[0])
        assert rnn.stats["engine"] == ("compiled" if fused else "steps")
    assert found[0].isfinite().all()
    assert_close(found[0], found[1], rtol=1e-12, atol=0)  # sums in another order


@pytest.mark.usefixtures("subnormal_numbers")
def test_subnormal_numbers_may_count_as_0():
    """As after torch.set_flush_denormal(True). Nothing is less than the least of them there, and a start of 0 is a start of 0."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has subnormal numbers always")
    field = ctrnn.gated(2, 3, decay=ctrnn.PowerDecay(0.5))
    x, h_0 = torch.randn(4, 3, 2, requires_grad=True), torch.zeros(3, 3, requires_grad=True)
    ts = (0.4 * torch.arange(5)).requires_grad_()  # as above
    agree("compiled", sequence(field, Euler(), x, h_0, ts), ROUNDING[torch.float64])


class Allocated(TorchDispatchMode):
    """The numbers in the buffers made."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, kinds, args=(), kwargs=None):
        made = function(*args, **kwargs or {})
        if function.overloadpacket.__name__ in ("empty", "new_empty", "empty_like"):
            self.numbers += made.numel()
        return made


TRANSFORMS = {
    "func.grad": lambda rnn, x: torch.func.grad(lambda x: rnn(x)[0].square().sum())(x),
    "func.vmap": lambda rnn, x: torch.func.vmap(lambda x: rnn(x[:, None])[0], in_dims=1)(x),
    "func.jvp": lambda rnn, x: torch.func.jvp(lambda x: rnn(x)[0], (x,), (torch.cos(x),))[1],
    "func.jacrev": lambda rnn, x: torch.func.jacrev(lambda x: rnn(x)[0])(x),
    "func.hessian": lambda rnn, x: torch.func.hessian(lambda x: rnn(x)[0].square().sum())(x[:2, :1]),
    "autograd.functional.jacobian": lambda rnn, x: torch.autograd.functional.jacobian(lambda x: rnn(x)[0], x),
    "the same, vectorized": lambda rnn, x: torch.autograd.functional.jacobian(lambda x: rnn(x)[0], x, vectorize=True),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_transforms_of_torch_are_those_of_the_steps(transform):
    rnn, x = compiled_rnn(), torch.randn(4, 3, 2)
    assert_close(transform(rnn, x), transform(DiscreteRNN(rnn.field, fused=False), x), rtol=0, atol=1e-12)


def test_transforms_of_torch_func_go_through_the_steps():
    rnn, x = compiled_rnn(), torch.randn(4, 3, 2)
    torch.func.grad(lambda x: rnn(x)[0].sum())(x)
    assert (rnn.stats["engine"], rnn.stats["engine_why"]) == ("steps", "it runs inside a transform of torch.func")


def test_forward_mode_goes_through_the_steps():
    rnn, x = compiled_rnn(), torch.randn(4, 3, 2)
    with torch.autograd.forward_ad.dual_level():
        tangent = torch.autograd.forward_ad.unpack_dual(rnn(torch.autograd.forward_ad.make_dual(x, torch.cos(x)))[0]).tangent
        assert rnn.stats["engine_why"] == "derivatives are taken in forward mode"
    assert_close(tangent, torch.func.jvp(lambda x: rnn(x)[0], (x,), (torch.cos(x),))[1], rtol=0, atol=1e-14)


def test_copies_of_a_module_and_of_what_it_made_stand_on_their_own():
    rnn, x = compiled_rnn(), torch.randn(4, 3, 2)
    output, _ = rnn(x)
    twin, kept = copy.deepcopy(rnn), copy.deepcopy(x)
    assert list(rnn.state_dict()) == list(twin.state_dict()) == [f"field.{name}" for name, _ in rnn.field.named_parameters()]
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    output.sum().backward()  # refused if the original had been written into
    assert all(parameter.grad is None for parameter in twin.parameters())
    assert torch.equal(DiscreteRNN(rnn.field)(kept)[0], output)
    assert torch.equal(twin(x)[0], torch.zeros_like(output))


def test_unrolling_counts_as_it_did():
    cell, x, h0 = discretize.DiscreteCell(ctrnn.gated(2, 3), dt=0.5), torch.randn(4, 3, 2), torch.randn(3, 3)
    fused, stepped = discretize.unroll(cell, x, h0), discretize.unroll(cell, x, h0, fused=False)
    assert fused.stats == stepped.stats | {"engine": "compiled", "engine_why": None}
    assert torch.equal(fused.ts, stepped.ts)
    assert_close(fused.hs, stepped.hs, rtol=0, atol=1e-14)
    assert torch.equal(fused.hs[0], h0)


def test_a_monitor_sees_every_step():
    rnn = compiled_rnn(substeps=2)
    with discretize.Monitor(rnn) as monitor:
        rnn(torch.randn(4, 5, 2))
        assert rnn.stats["engine"] == "steps"
    assert int(monitor.records[""].counts.sum()) == 4 * 2 * 5 * 3
    rnn(torch.randn(4, 5, 2))
    assert rnn.stats["engine"] == "compiled"


def test_unusual_tensors_are_stepped():
    x = torch.randn(4, 3, 2)
    mixed = ctrnn.Relaxation(ctrnn.TanhCandidate(2, 3), ctrnn.ConstantRate(0.5), ctrnn.LinearDecay())
    mixed.rate.float()

    def why(field, x):
        rnn = DiscreteRNN(field)
        rnn(x)
        assert rnn.stats["engine"] == "steps"
        return rnn.stats["engine_why"]

    half = {"dtype": torch.bfloat16}
    assert "bfloat16" in why(ctrnn.gated(2, 3, **half), x.to(**half))
    assert "meta" in why(ctrnn.gated(2, 3, device="meta"), x.to("meta"))
    assert "Tagged" in why(ctrnn.gated(2, 3), x.as_subclass(Tagged))
    assert "dtype" in why(mixed, x)
    with Allocated():
        assert "dispatch mode" in why(ctrnn.gated(2, 3), x)


@pytest.mark.records
def test_a_first_call_may_be_under_checkpointing(monkeypatch):
    """Which counts what is saved for gradients, and must find as much again."""
    monkeypatch.setattr(written_kernels, "_made", OrderedDict())
    rnn, x = compiled_rnn(), torch.randn(4, 3, 2, requires_grad=True)
    output = checkpoint(lambda x: rnn(x)[0], x, use_reentrant=False)
    (found,) = torch.autograd.grad(output.square().sum(), x)
    assert rnn.stats["engine"] == "compiled"
    assert_close(found, torch.autograd.grad(rnn(x)[0].square().sum(), x)[0], rtol=0, atol=1e-14)


def test_the_switch_is_an_argument_and_a_variable(monkeypatch):
    x, cell = torch.randn(4, 3, 2), discretize.DiscreteCell(ctrnn.gated(2, 3))

    def used(fused=True):
        rnn = DiscreteRNN(cell.field, fused=fused)
        rnn(x)
        stats = discretize.unroll(cell, x, fused=fused).stats
        assert rnn.stats == {key: stats[key] for key in rnn.stats}
        return rnn.stats["engine"], rnn.stats["engine_why"]

    assert used() == ("compiled", None)
    assert used(fused=False) == ("steps", "`fused` is False")
    monkeypatch.setenv("CTRNN_FUSED", "1")
    assert used() == ("compiled", None)
    monkeypatch.setenv("CTRNN_FUSED", "0")
    assert used() == ("steps", "CTRNN_FUSED is 0")
    monkeypatch.setenv("CTRNN_FUSED", "yes")
    for call in (lambda: DiscreteRNN(cell.field)(x), lambda: discretize.unroll(cell, x)):
        with pytest.raises(ValueError, match=r"CTRNN_FUSED must be 0 .* or 1, got 'yes'"):
            call()
    for call in (lambda: DiscreteRNN(cell.field, fused=1), lambda: discretize.unroll(cell, x, fused="no")):
        with pytest.raises(TypeError, match="`fused` must be True, False or"):
            call()


class Tagged(torch.Tensor):
    pass


def test_a_large_field_takes_steps_on_a_gpu_unless_kernels_are_asked_for(monkeypatch):
    monkeypatch.setattr(sequences, "MOST_WEIGHTS", 10)
    given = HeldProblem(ctrnn.gated(3, 4), Euler(), torch.randn(2, 2, 3), torch.zeros(2, 4), 1.0)
    states, stats = sequences.run_triton(given, True)
    assert states is None
    assert 'with more than 10 weights kernels for GPUs take longer than steps; fused="always"' in stats["engine_why"]
    assert "take longer" not in str(sequences.run_triton(given, "always")[1]["engine_why"])
    # In half precision no time was measured, and steps are less exact.
    half = given._replace(field=given.field.bfloat16(), xs=given.xs.bfloat16(), h0=given.h0.bfloat16())
    assert "take longer" not in str(sequences.run_triton(half, True)[1]["engine_why"])
