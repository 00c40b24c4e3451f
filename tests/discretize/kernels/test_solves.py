"""What kernels for solves promise beside the states, gradients and steps of solves in torch, which are test_conformance.py's."""

import gc
import math
import weakref
from collections import OrderedDict

import pytest
import torch
from conformance import ROUNDING, agree, kernels_for_all, solve
from own_fields import Own
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import ContinuousRNN, SolverError, SolverWarning, integrate
from discretize.kernels import registry as written_kernels
from discretize.kernels.cpp import solving as kernel_run

SAME = {"rtol": 1e-10, "atol": 1e-10}  # the same steps, other sums
TIGHT = {"rtol": 1e-6, "atol": 1e-6}


@pytest.fixture(autouse=True)
def short_solves():
    with kernels_for_all("compiled"):
        yield


class Pulled(nn.Module):
    """dh/dt = tanh(W [h, t]) cos(k t) - h."""

    def __init__(self):
        super().__init__()
        self.linear, self.k = nn.Linear(3, 2), 2.0

    def forward(self, t, h):
        return torch.tanh(self.linear(torch.cat([h, t], -1))) * torch.cos(self.k * t) - h


def test_a_plain_equation_reads_the_time():
    f, h0 = Pulled(), torch.randn(4, 2, requires_grad=True)
    check_equation(f, h0, torch.tensor([0.0, 1.0, 2.5]))
    f.k = 3.0  # is looked at in every call
    check_equation(f, h0, torch.tensor([[0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0]]))


def test_neighbours_and_threads_change_no_bit_of_a_sample():
    torch.manual_seed(2)
    field, ts, threads = Own(10), torch.arange(4.0), torch.get_num_threads()
    x, h0 = torch.randn(3, 40, 10, requires_grad=True), torch.randn(40, 10)
    field.project = lambda x: x  # from the projected input on, which is here the input
    found = []
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            found.append(integrate(field, ctrnn.HeldPath(x, ts), h0, ts, **TIGHT).hs)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)


def test_neighbours_do_not_change_a_bit_of_a_stiff_sample():
    field, xs, h0 = reading("gated"), normal(4, 21, 10).requires_grad_(), normal(21, 5).requires_grad_()
    cotangent = normal(5, 21, 5, seed=7)
    together, found = solved_in_bits(field, xs, h0, cotangent)
    for row in (0, 7, 20):
        own = slice(row, row + 1)
        alone, found_alone = solved_in_bits(
            field, *(tensor.detach()[..., own, :].requires_grad_() for tensor in (xs, h0)), cotangent[:, own]
        )
        assert alone.stats["steps_of_samples"] == [together.stats["steps_of_samples"][row]]
        for one, all_of_them in zip(found_alone[:3], found[:3], strict=True):  # states, and gradients to xs and h0
            assert torch.equal(one, all_of_them[..., own, :])


def test_one_stiff_sample_costs_its_own_steps_only():
    field = ctrnn.Relaxation(ctrnn.TanhCandidate(2, 4), ctrnn.ExponentialRate(2, 4), ctrnn.LinearDecay())
    with torch.no_grad():
        field.rate.weight_h.zero_()
        field.rate.weight_x.copy_(torch.tensor([1.0, 0.0]).expand(4, 2))
        field.candidate.weight_x.copy_(torch.tensor([0.0, 1.0]).expand(4, 2))  # the projection is exact, as above
    xs = normal(3, 64, 2)
    xs[..., 0] = 0.0
    ts, h0 = torch.arange(4.0), field.initial_state(64)
    quiet = integrate(field, ctrnn.HeldPath(xs), h0, ts, rtol=1e-4)
    xs[:, 17, 0] = math.log(400.0)
    mixed = integrate(field, ctrnn.HeldPath(xs), h0, ts, rtol=1e-4)
    others = [row for row in range(64) if row != 17]
    assert mixed.stats["engine"] == "compiled"
    assert torch.equal(mixed.hs[:, others], quiet.hs[:, others])
    steps = mixed.stats["steps_of_samples"]
    assert [steps[row] for row in others] == [quiet.stats["steps_of_samples"][row] for row in others]
    assert steps[17] > 20 * max(steps[row] for row in others)
    assert mixed.stats["nfe_samples"] < quiet.stats["nfe_samples"] + 7 * (steps[17] + 3)


def check_equation(f, h0, ts):
    agree("compiled", solve(f, lambda x: (None, None), torch.empty(0), h0, ts, **TIGHT), 100 * ROUNDING[torch.float64])


RATE = torch.ones(2, requires_grad=True)
REFUSED = {
    "sizes": (lambda t, h: h.new_zeros(len(h), 2) - h, "makes a number of the size of the batch"),
    "closure": (lambda t, h: -RATE * h, "a tensor with a gradient that is no parameter"),
    "branch": (lambda t, h: -h if h.sum() > 0 else h, "branches on the values of tensors"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_code_without_a_kernel_is_solved_in_torch_and_says_why(name):
    f, why = REFUSED[name]
    stats = integrate(f, None, torch.ones(2, 2), [0.0, 1.0]).stats
    assert (stats["engine"], why in stats["engine_why"]) == ("steps", True)


# Of named fields, and most with samples that require gradients: one program for several tests.


def made(name="gated", inputs=3, hidden=5):
    return getattr(ctrnn, name)(inputs, hidden, generator=torch.Generator().manual_seed(0))


def normal(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def both(field, path, h0, ts, **settings):
    """The solve by the kernel and by the engine."""
    fused, stepped = (integrate(field, path(), h0, ts, fused=fused, **settings) for fused in (True, False))
    assert fused.stats["engine"] == "compiled", fused.stats["engine_why"]
    assert stepped.stats["engine"] == "steps"
    return fused, stepped


def weighted(hs):
    """A sum over states in which each counts differently."""
    return (hs * torch.linspace(-1, 1, hs.numel(), dtype=hs.dtype).view_as(hs)).sum()


# What is promised to the bit begins at the projected input: the projection is a product of torch's, which may be summed in
# another order for another batch or number of threads. So here it is by weights of 0 and 1, exact in any order.


def reading(name, hidden=5):
    """A field whose projected input is its input, but for the bias, to the last bit."""
    columns = {"gated": 2, "gru": 3}[name] * hidden
    field = made(name, columns, hidden)
    rows = [part for part in field.modules() if getattr(part, "weight_x", None) is not None]
    with torch.no_grad():
        for part, rows_of_eye in zip(rows, torch.eye(columns).split(hidden), strict=True):
            part.weight_x.copy_(rows_of_eye)
    return field


def solved_in_bits(field, xs, h0, cotangent=None, **settings):
    """States, and the gradients that the kernel sums: not those of the weights and biases of the projection."""
    solved = integrate(field, ctrnn.HeldPath(xs), h0, torch.arange(len(xs) + 1.0), **settings)
    assert solved.stats["engine"] == "compiled"
    weights = [weight for name, weight in field.named_parameters() if name.endswith(("weight_h", "bias_h"))]
    cotangent = torch.linspace(-1, 1, solved.hs.numel(), dtype=xs.dtype).view_as(solved.hs) if cotangent is None else cotangent
    return solved, [solved.hs, *torch.autograd.grad(solved.hs, [xs, h0, *weights], cotangent)]


def test_a_second_backward_pass_is_the_first_one_again():
    field, xs = made("gated"), normal(4, 5, 3).requires_grad_()
    solved = integrate(field, ctrnn.HeldPath(xs), field.initial_state(5), torch.arange(5.0))
    first = torch.autograd.grad(weighted(solved.hs), [xs, *field.parameters()], retain_graph=True)
    again = torch.autograd.grad(weighted(solved.hs), [xs, *field.parameters()])
    for one, other in zip(first, again, strict=True):
        assert_close(one, other, rtol=0, atol=1e-14)  # not to the bit: some of it are torch's products


def test_gradients_come_only_where_they_are_wanted():
    field, xs = made("gated"), normal(4, 5, 3)
    field.candidate.weight_x.requires_grad_(False)
    solved = integrate(field, ctrnn.HeldPath(xs), field.initial_state(5), torch.arange(5.0))
    solved.hs.sum().backward()
    assert field.candidate.weight_x.grad is None
    assert field.rate.weight_x.grad is not None
    with torch.no_grad():
        assert not integrate(field, ctrnn.HeldPath(xs), field.initial_state(5), torch.arange(5.0)).hs.requires_grad


def test_a_user_may_write_on_states():
    field, xs = made("gated"), normal(4, 5, 3).requires_grad_()
    start, ts = field.initial_state(5), torch.arange(5.0)
    solved = integrate(field, ctrnn.HeldPath(xs), start, ts)
    expected = torch.autograd.grad(weighted(solved.hs), field.candidate.weight_h, retain_graph=True)[0]
    loss = weighted(solved.hs)
    with torch.no_grad():
        solved.hs.zero_()
    assert_close(torch.autograd.grad(loss, field.candidate.weight_h)[0], expected)


def test_weights_written_between_forward_and_backward_are_refused():
    field = made()
    solved = integrate(field, ctrnn.HeldPath(normal(4, 5, 3).requires_grad_()), field.initial_state(5), torch.arange(5.0))
    assert solved.stats["engine"] == "compiled"
    with torch.no_grad():
        field.candidate.weight_h.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        solved.hs.sum().backward()


def test_transforms_of_torch_func_see_the_steps():
    field, xs = made("gated"), normal(3, 2, 3).requires_grad_()
    ts, h0 = torch.arange(4.0), field.initial_state(2)
    weights = dict(field.named_parameters())

    def loss(weights):
        rnn = torch.nn.Module()
        rnn.field = field
        rnn.forward = lambda: weighted(integrate(field, ctrnn.HeldPath(xs), h0, ts).hs)
        return torch.func.functional_call(rnn, {f"field.{name}": weight for name, weight in weights.items()}, ())

    found = torch.func.grad(loss)(weights)
    expected = torch.autograd.grad(weighted(integrate(field, ctrnn.HeldPath(xs), h0, ts).hs), list(weights.values()))
    for ours, theirs in zip(found.values(), expected, strict=True):
        assert_close(ours, theirs, rtol=1e-11, atol=1e-13)


def failures(field, path, h0, ts, **settings):
    raised = []
    for fused in (True, False):
        with pytest.raises(SolverError) as caught:
            integrate(field, path(), h0, ts, fused=fused, **settings)
        raised.append(caught.value)
    assert raised[0].trajectory.stats["engine"] == "compiled"
    return raised


def test_failures_are_reported_as_the_engine_reports_them():
    field, xs, ts = ctrnn.gated(3, 5, rate="exponential"), normal(6, 9, 3).requires_grad_(), torch.arange(7.0)
    h0 = field.initial_state(9)
    field.rate.bias.data[2] = math.nan
    for failing, limits in ((field, {}), (made("gated"), {"max_num_steps": 5})):
        ours, theirs = failures(failing, lambda: ctrnn.HeldPath(xs), h0, ts, rtol=1e-6, **limits)
        assert (ours.cause, ours.sample) == (theirs.cause, theirs.sample)
        assert ours.time == pytest.approx(theirs.time)  # the sum of steps, each rounded otherwise
        assert str(ours)[-100:] == str(theirs)[-100:]
        assert_close(ours.trajectory.hs, theirs.trajectory.hs, rtol=0, atol=1e-13)


def test_a_failure_late_in_one_sample_keeps_what_all_of_them_reached():
    field, xs, ts = ctrnn.gated(3, 5, rate="exponential"), 0.1 * normal(6, 20, 3), torch.arange(7.0)
    xs[4, 13] = 1e6
    xs.requires_grad_()
    ours, theirs = failures(field, lambda: ctrnn.HeldPath(xs), field.initial_state(20), ts)
    assert ours.sample == theirs.sample == 13
    assert ours.time == pytest.approx(theirs.time)
    assert str(ours)[-100:] == str(theirs)[-100:]
    assert len(ours.trajectory.hs) == len(theirs.trajectory.hs) == 5
    assert_close(ours.trajectory.hs, theirs.trajectory.hs, rtol=0, atol=1e-13)
    target = field.candidate.weight_h
    gradients = [torch.autograd.grad(weighted(error.trajectory.hs), target)[0] for error in (ours, theirs)]
    assert_close(*gradients, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("hidden", [3, 9])  # in lanes, and in rows
def test_a_tolerance_for_each_unit_takes_the_steps_of_the_engine(hidden):
    field, xs, ts = ctrnn.gated(3, hidden, dtype=torch.float64), 3 * normal(4, 5, 3), torch.arange(5.0)
    atol = torch.logspace(-9, -2, hidden, dtype=torch.float64)
    h0 = field.initial_state(5)
    ours, theirs = both(field, lambda: ctrnn.HeldPath(xs), h0, ts, rtol=1e-9, atol=atol)
    assert ours.stats["steps_of_samples"] == theirs.stats["steps_of_samples"]
    assert ours.stats["steps_of_samples"] != integrate(field, ctrnn.HeldPath(xs), h0, ts, rtol=1e-9).stats["steps_of_samples"]
    assert_close(ours.hs, theirs.hs, rtol=1e-11, atol=1e-13)


def test_steps_forced_at_their_minimum_are_counted_alike():
    field, xs, ts = made("gated"), (3 * normal(6, 9, 3)).requires_grad_(), torch.arange(7.0)
    with pytest.warns(SolverWarning):
        ours, theirs = both(field, lambda: ctrnn.HeldPath(xs), field.initial_state(9), ts, rtol=1e-9, atol=1e-9, min_step=0.4)
    assert ours.stats["num_forced_steps"] == theirs.stats["num_forced_steps"] > 0
    assert_close(ours.hs, theirs.hs, rtol=1e-11, atol=1e-12)


def test_calls_without_a_kernel_are_solved_in_torch_and_say_why(monkeypatch):
    field, xs = made("gated"), normal(6, 4, 3)
    ts, h0 = torch.arange(6.0), field.initial_state(4)

    def why(field=field, path=None, ts=ts, **settings):
        solved = integrate(field, path or ctrnn.HeldPath(xs), h0, ts, **settings)
        assert solved.stats["engine"] == "steps"
        return solved.stats["engine_why"]

    assert "`fused` is False" in why(fused=False)
    assert "StepDoubling" in why(method=discretize.StepDoubling("etdrk4"))
    assert "sees the input or its clock move" in why(method="rk4", path=ctrnn.LinearPath(xs), max_step=0.1)
    assert "fewer than 4 segments" in why(method="rk4", ts=ts[:3])
    assert "fixed steps one by one" in why(method="rk4", gradient=discretize.Checkpointed(1e6))
    assert "FunctionPath" in why(path=ctrnn.FunctionPath(lambda t: normal(4, 3) / (1e-4 + (t - 2.2) ** 2), (0, 5), 3))
    assert "speed" in why(path=ctrnn.HeldPath(xs), speed=lambda t: 1 / (1e-4 + (t - 2.2) ** 2), rtol=1e-1, atol=1e-1)
    assert "Adjoint" in why(gradient=discretize.Adjoint())
    monkeypatch.setenv("CTRNN_FUSED", "0")
    assert "CTRNN_FUSED is 0" in why()


@pytest.mark.usefixtures("only_new_garbage")
def test_an_interrupted_solve_gives_its_memory_back(monkeypatch):
    field, xs = made("gated"), normal(6, 4, 3).requires_grad_()
    tasks = []

    def interrupted(self):
        tasks.append(weakref.ref(self.task))
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel_run, "SLICE", 0.0)
    monkeypatch.setattr(kernel_run.KernelRun, "_progress", interrupted)
    with pytest.raises(KeyboardInterrupt):
        integrate(field, ctrnn.HeldPath(xs), field.initial_state(4), torch.arange(7.0))
    gc.collect()
    assert tasks[0]() is None


def test_slices_of_time_do_not_change_a_bit(monkeypatch):
    field, xs, h0 = reading("gated"), normal(6, 40, 10).requires_grad_(), normal(40, 5).requires_grad_()
    found = []
    for seconds in (1000.0, 1e-3):
        monkeypatch.setattr(kernel_run, "SLICE", seconds)
        found.append(solved_in_bits(field, xs, h0, rtol=1e-9)[1])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.records
def test_a_solve_whose_kernel_is_wrong_runs_by_steps_and_says_so(monkeypatch):
    backward = kernel_run.KernelRun.backward
    monkeypatch.setattr(written_kernels, "_made", OrderedDict())
    monkeypatch.setattr(kernel_run.KernelRun, "backward", lambda run, grad: backward(run, 1.001 * grad))
    rnn = ContinuousRNN(made())
    rnn(normal(4, 2, 3).requires_grad_())
    assert rnn.stats["engine"] == "steps"
    assert "its kernel differs from torch by" in rnn.stats["engine_why"]
