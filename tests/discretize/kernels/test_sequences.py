"""Kernels that are written for a field's code: against the steps one by one, and against what they promise."""

import math
import threading
import warnings
from collections import OrderedDict
from contextvars import ContextVar, copy_context
from dataclasses import replace

import cases
import pytest
import torch
from own_fields import Axes, Lorenz, Many, Own, Powers
from torch import nn
from torch.nn.functional import leaky_relu, silu, softplus
from torch.nn.utils import parametrizations
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import DiscreteRNN, Euler, ExponentialEuler
from discretize.kernels import registry as written_kernels
from discretize.kernels import sequences
from discretize.kernels.build import Unavailable
from discretize.kernels.record import stored

each = pytest.mark.parametrize
EXACT = {"rtol": 1e-11, "atol": 1e-11}


@pytest.fixture(autouse=True)
def short_sequences(monkeypatch):
    monkeypatch.setattr(written_kernels, "MOST_IN_VAIN", math.inf)


def both(field, step, x, h_0=None, **how):
    """States and gradients by the kernel, and step by step."""
    x = x.detach().requires_grad_()
    h_0 = (torch.zeros(x.shape[1], field.state_size, dtype=x.dtype) if h_0 is None else h_0).requires_grad_()
    answers = []
    for fused in (True, False):
        rnn = DiscreteRNN(field, step, fused=fused, allow_overshoot=True, dt=0.5, **how.get("settings", {}))
        ts = how["ts"].detach().requires_grad_() if "ts" in how else None
        output, h_n = rnn(x, h_0, ts, **{k: v for k, v in how.items() if k in ("lengths", "reset")})
        assert rnn.stats["engine"] == ("compiled" if fused else "steps"), rnn.stats
        total = (output * torch.linspace(-1, 1, output.numel()).reshape(output.shape).to(output)).sum() + h_n.square().sum()
        sources = [each for each in (x, h_0, ts, *field.parameters()) if each is not None and each.requires_grad]
        gradients = torch.autograd.grad(total, sources, allow_unused=True, materialize_grads=True) if sources else ()
        answers.append([output, h_n, *gradients])
    return zip(*answers, strict=True)


BRIEFLY = {(Euler, "lengths"), (ExponentialEuler, "times of each")}  # each is a kernel of its own, seconds to build


@each(
    "step, how",
    [
        pytest.param(step, how, marks=() if (type(step), how) in BRIEFLY else pytest.mark.slow)
        for step in (Euler(), ExponentialEuler(), discretize.ETDRK4())
        for how in ("numbers", "lengths", "times of each")
    ],
    ids=repr,
)
def test_states_and_gradients_are_those_of_the_steps_one_by_one(step, how):
    torch.manual_seed(0)
    x, times = torch.randn(7, 4, 3), torch.rand(8, 4).cumsum(0)
    given = {"numbers": {}, "lengths": {"lengths": torch.tensor([7, 2, 5, 1])}, "times of each": {"ts": times}}[how]
    for mine, theirs in both(Own(), step, x, settings={"substeps": 2}, **given):
        assert_close(mine, theirs, **EXACT)


@each("field", [Many, Axes, pytest.param(Lorenz, marks=pytest.mark.slow)])
def test_every_kind_of_operation(field):
    torch.manual_seed(1)
    made = field().double()
    x, h_0 = torch.randn(4, 6, made.input_size), torch.randn(6, made.state_size)
    for mine, theirs in both(made, Euler(), x, h_0):
        assert_close(mine, theirs, **EXACT)


@pytest.mark.slow
@each("step", ["ETD2", "Heun", "Midpoint", "RungeKutta4", "Splitting", "StrangSplitting", "FrozenTrapezoid"])
def test_every_explicit_step(step):
    torch.manual_seed(2)
    for mine, theirs in both(Own(), getattr(discretize, step)(), torch.randn(5, 3, 3)):
        assert_close(mine, theirs, **EXACT)


@pytest.mark.slow
def test_float32_is_right_to_its_rounding():
    torch.manual_seed(3)
    for mine, theirs in both(Own(dtype=torch.float32), Euler(), torch.randn(9, 4, 3, dtype=torch.float32)):
        assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


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


def test_derivatives_of_gradients_are_those_of_the_steps():
    rnn, x = DiscreteRNN(Own(), allow_overshoot=True), torch.randn(3, 2, 3, requires_grad=True)
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(lambda x: rnn(x)[0], x, fast_mode=True)
    assert rnn.stats["engine"] == "compiled"


def test_unroll_runs_by_the_same_kernel():
    cell, x = discretize.DiscreteCell(Own(), allow_overshoot=True), torch.randn(3, 2, 3)
    found, stepped = discretize.unroll(cell, x), discretize.unroll(cell, x, fused=False)
    assert (found.stats["engine"], stepped.stats["engine"]) == ("compiled", "steps")
    assert_close(found.hs, stepped.hs, **EXACT)


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
    for mine, theirs in both(field, Euler(), torch.randn(4, 2, 3)):
        assert_close(mine, theirs, **EXACT)


def test_weights_are_read_at_every_call():
    field, x = Own(), torch.randn(5, 2, 3, requires_grad=True)
    rnn, slow = (DiscreteRNN(field, allow_overshoot=True, fused=fused) for fused in (True, False))
    optimizer = torch.optim.SGD(field.parameters(), 0.1)
    for _ in range(3):
        assert_close(rnn(x)[0], slow(x)[0], **EXACT)
        optimizer.zero_grad()
        rnn(x)[0].square().sum().backward()
        optimizer.step()
    assert field.unused.grad is None or not field.unused.grad.any()
    field.to_gates.requires_grad_(False)
    rnn(x)[0].sum().backward()
    with torch.no_grad():
        assert_close(rnn(x)[0], slow(x)[0], **EXACT)


def test_a_state_that_rests_is_the_same_to_the_last_bit():
    field, x = Own(), torch.randn(4, 2, 3, requires_grad=True)
    output, _ = DiscreteRNN(field, allow_overshoot=True)(x, lengths=torch.tensor([2, 4]))
    full, _ = DiscreteRNN(field, allow_overshoot=True)(x)
    lengths = torch.tensor([[1.0, 1.0], [0.0, 1.0], [0.0, 0.5], [1.0, 1.0]])[..., None]
    states, _ = sequences.run_written(field, Euler(), x, torch.zeros(2, 10), lengths, 1, True)
    assert torch.equal(states[0, 0], states[2, 0])
    assert not torch.equal(states[0, 1], states[2, 1])
    assert torch.equal(output[:2, 0], full[:2, 0])
    with torch.no_grad():
        x[1:3, 0] = math.nan  # of samples over which nothing moves
    assert torch.equal(sequences.run_written(field, Euler(), x, torch.zeros(2, 10), lengths, 1, True)[0][:, 1], states[:, 1])
    assert torch.equal(sequences.run_written(field, Euler(), x, torch.zeros(2, 10), lengths, 1, True)[0][:3, 0], states[:3, 0])


def test_nan_stays_where_it_comes_from():
    x = torch.randn(4, 3, 3)
    h_0 = torch.zeros(3, 10)
    module = sequences.StepModule(Own(), Euler())
    x[2, 1] = math.nan
    states, _ = sequences.run_written(module.field, module.step, x.requires_grad_(), h_0, 1.0, 1, True)
    assert states[:2].isfinite().all()
    assert states[:, [0, 2]].isfinite().all()
    assert states[2:, 1].isnan().any(-1).all()


class Lonely(Own):
    def flow(self, projected, h):
        return -h if h.shape[0] == 1 else -2 * h


class Branching(Own):
    def flow(self, projected, h):
        return -h if h.sum() > 0 else h


class Averaging(Own):
    def flow(self, projected, h):
        return h.sum(0) - h


class Drawing(Own):
    def flow(self, projected, h):
        return torch.rand_like(h) - h


class Sorting(Own):
    def flow(self, projected, h):
        return torch.sort(h, -1).values - h


class Halving(Own):
    def flow(self, projected, h):
        return (-h.float()).double()


class Counting(Own):
    calls = 0

    def flow(self, projected, h):
        self.calls += 1
        return -h


class Closing(Own):
    def __init__(self):
        super().__init__()
        self.act = lambda v: v * self.scale  # not of a copy of the field

    def flow(self, projected, h):
        return -self.act(h)


REFUSED = {
    Branching: r"branches on the values of tensors \(.*test_sequences.py, line",
    Lonely: "its code treats a sample alone otherwise than among others|makes a number of the size of the batch",
    Averaging: "uses sub, and it mixes samples: File .*test_sequences.py",
    Drawing: "uses rand_like, and no kernel is written for it: File .*test_sequences.py",
    Sorting: "uses sort, and no kernel is written for it: File .*return torch.sort",
    Halving: "uses _to_copy, and it computes in float32: File .*test_sequences.py",
    Counting: "its code changes what the field keeps",
    Closing: "its code reads a tensor with a gradient that is no parameter",
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
        hidden = torch.tanh(linear(h) * linear.weight.diagonal()) * self.constant * torch.arange(10) / 10
        return torch.where(self.seen, hidden, -h * self.kept["a"]) + 0.1 * super().flow(projected, h)


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
    field, given = ReadingGlobals(), (torch.randn(4, 2, 3), torch.randn(2, 10))
    for name, value in (("FACTOR", 2.0), ("SLOPE", 3.0)):  # the second is read in the backward pass alone
        monkeypatch.setitem(globals(), name, value)
        for share in (0.5, 0.2):
            context = copy_context()
            context.run(SHARE.set, share)
            for mine, theirs in context.run(both, field, Euler(), *given):
                assert_close(mine, theirs, **EXACT)


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
        for mine, theirs in both(Own(), Euler(), x):
            assert_close(mine, theirs, **EXACT)


def test_threads_record_and_run_at_once(monkeypatch):
    monkeypatch.setattr(written_kernels, "_made", OrderedDict())
    field, x = Bent(), torch.randn(5, 3, 3)
    other, found = DiscreteRNN(ctrnn.gru(3, 4).double()), []
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


def test_a_number_that_changes_at_every_call_gets_no_kernel_of_its_own_each_time(monkeypatch):
    monkeypatch.setattr(written_kernels, "MOST_IN_VAIN", 2)
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
    torch.tanh,
    torch.sigmoid,
    torch.exp,
    torch.expm1,
    torch.log,
    torch.log1p,
    torch.sqrt,
    torch.rsqrt,
    torch.abs,
    torch.sign,
]
OF_ONE += [torch.relu, torch.sin, torch.atan, torch.erf, torch.floor, torch.round, torch.trunc, torch.reciprocal, softplus]
OF_ONE += [silu, lambda v: v**2, lambda v: v**3, lambda v: v**-2, lambda v: v**0.5, lambda v: v**1.5, lambda v: 2**v]
OF_ONE += [
    torch.isfinite,
    lambda v: v.clamp(-1, 1),
    lambda v: torch.clamp(v, max=1),
    lambda v: v % 0.3,
    lambda v: v.bool(),
    torch.nan_to_num,
]
OF_ONE += [lambda v: torch.where(v > 0, v, -1), lambda v: v.long() if math.nan else v, lambda v: torch.round(v, decimals=1)]
OF_ONE += [lambda v: torch.maximum(v, v.new_tensor(0.3)), lambda v: (v >= 0) + (v != 1), lambda v: ~(v == 0.5), leaky_relu]


class Special(ctrnn.VectorField):
    def __init__(self):
        super().__init__(1, len(OF_ONE))

    def flow(self, projected, h):
        return torch.cat([function(projected).to(projected) for function in OF_ONE], -1)


def test_functions_of_every_kind_of_number_are_torchs():
    x = torch.tensor(SPECIAL, dtype=torch.float64)[None, :, None]
    h = torch.zeros(len(SPECIAL), len(OF_ONE), dtype=torch.float64)
    whole = OF_ONE.index(next(f for f in OF_ONE if "long" in getattr(getattr(f, "__code__", None), "co_names", ())))
    states, stats = sequences.run_written(Special(), Euler(), x, h, 1.0, 1, True)
    assert states is not None, stats
    expected = Special().flow(x[0], h)
    known = torch.ones_like(h, dtype=torch.bool)
    known[x[0, :, 0].abs().nan_to_num(1e300) > 2**62, whole] = False  # not said by torch
    for name, mine, theirs, at in zip(OF_ONE, states[0].T, expected.T, known.T, strict=True):
        close = {"rtol": 1e-13, "atol": 1e-300, "equal_nan": True}
        assert_close(mine[at], theirs[at], **close, msg=lambda said, name=name: f"{name}: {said}")


@cases.each("field", REFUSED)
def test_code_without_a_kernel_runs_step_by_step_and_says_the_line(field):
    rnn = DiscreteRNN(field(), allow_overshoot=True)
    with warnings.catch_warnings():  # one takes a mean over the batch
        warnings.filterwarnings("ignore", "In this module dh/dt of a sample changes with")
        rnn(torch.randn(3, 4, 3))
    assert rnn.stats["engine"] == "steps"
    with pytest.raises(AssertionError, match=REFUSED[field]):
        raise AssertionError(rnn.stats["engine_why"])


@cases.each("step", [discretize.Taylor2(), discretize.BackwardEuler()])
def test_steps_that_differentiate_or_iterate_have_none(step):
    rnn = DiscreteRNN(Own(), step, allow_overshoot=True)
    rnn(torch.randn(2, 2, 3))
    assert rnn.stats["engine"] == "steps"


def test_a_kernel_that_gives_other_numbers_is_not_used(monkeypatch):
    written = stored.program_of

    def wrong(*given):
        program = written(*given)
        text = program.written.text.replace("hyperbolic_tangent(", "logistic(")
        return replace(program, written=replace(program.written, text=text))

    monkeypatch.setattr(stored, "program_of", wrong)
    monkeypatch.setattr(stored, "program_key", lambda *_: None)  # nothing is kept, nor found
    monkeypatch.setattr(written_kernels, "_made", OrderedDict())
    rnn = DiscreteRNN(Bent(), allow_overshoot=True)
    rnn(torch.randn(2, 2, 3))
    assert rnn.stats["engine"] == "steps"
    assert "its kernel differs from the steps one by one by" in rnn.stats["engine_why"]


def test_without_a_compiler_the_steps_are_taken_one_by_one(monkeypatch):
    def none(*_):
        raise Unavailable("No C++ compiler")

    monkeypatch.setattr("discretize.kernels.cpp.programs.library", none)
    monkeypatch.setattr(written_kernels, "_made", OrderedDict())
    monkeypatch.setattr("discretize.kernels.eligibility._warned", True)
    rnn = DiscreteRNN(Bent(), allow_overshoot=True)
    rnn(torch.randn(2, 2, 3))
    assert (rnn.stats["engine"], "No C++ compiler" in rnn.stats["engine_why"]) == ("steps", True)
