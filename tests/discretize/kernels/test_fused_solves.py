"""Exact solves by the compiled kernel: the same steps, states and gradients as the engine that is written in torch."""

import copy
import gc
import math
import weakref
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import ctrnn
import discretize
from discretize.errors import SolverError, SolverWarning
from discretize.kernels.build import Unavailable
from discretize.kernels.cpp import solving as kernel_run
from discretize.kernels.cpp.libraries import named_solves_library
from discretize.kernels.named.kernel_spec import Kind

FIELDS = {
    "plain": ctrnn.plain,
    "leaky": partial(ctrnn.leaky, alpha=0.7, per_unit=True),
    "gated": ctrnn.gated,
    "global": partial(ctrnn.gated, gate="global"),
    "exponential": partial(ctrnn.gated, rate="exponential"),
    "softplus": partial(ctrnn.gated, gate="global", rate="softplus"),
    "slow": partial(ctrnn.gated, decay=ctrnn.PowerDecay(1.5)),
    "slow softplus": partial(ctrnn.gated, gate="global", rate="softplus", decay=ctrnn.PowerDecay(1.5)),
    "gru": ctrnn.gru,
    "lstm": ctrnn.lstm,
}


@pytest.fixture(autouse=True)
def compiler():
    try:
        named_solves_library(Kind("tanh", "sigmoid", False, 0.0), torch.float64)
    except Unavailable as error:
        pytest.skip(str(error))


def made(name, inputs=3, hidden=5, seed=0, dtype=torch.float64, **settings):
    return FIELDS[name](inputs, hidden, dtype=dtype, generator=torch.Generator().manual_seed(seed), **settings)


def normal(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def both(field, path, h0, ts, **settings):
    """The solve by the kernel and by the engine."""
    fused, stepped = (discretize.integrate(field, path(), h0, ts, fused=fused, **settings) for fused in (True, False))
    assert fused.stats["engine"] == "compiled", fused.stats["engine_why"]
    assert stepped.stats["engine"] == "steps"
    return fused, stepped


def weighted(hs):
    """A sum over states in which each counts differently."""
    return (hs * torch.linspace(-1, 1, hs.numel(), dtype=hs.dtype).view_as(hs)).sum()


def agree(fused, stepped, targets, rtol=1e-12):
    assert_close(fused.hs, stepped.hs, rtol=0, atol=1e-13)
    gradients = [torch.autograd.grad(weighted(solved.hs), targets, retain_graph=True) for solved in (fused, stepped)]
    for ours, theirs in zip(*gradients, strict=True):
        assert_close(ours, theirs, rtol=rtol, atol=rtol * float(theirs.abs().max()))


# Every kind of part, and every method; the others of these pairs are `slow`.
PAIRS = {("plain", "dopri5"), ("leaky", "tsit5"), ("gated", "dopri8"), ("exponential", "tsit5"), ("slow softplus", "dopri5")}
PAIRS |= {("gru", "dopri8"), ("gru", "tsit5"), ("lstm", "tsit5"), ("lstm", "dopri5")}


@pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param(name, method, marks=[] if (name, method) in PAIRS else pytest.mark.slow)
        for name in FIELDS
        for method in ("dopri5", "tsit5", "dopri8")
    ],
)
def test_the_kernel_takes_the_very_steps_of_the_engine_and_has_its_gradients(name, method):
    field, ts = made(name), torch.tensor([0.3, 1.0, 2.5, 4.0, 4.9], dtype=torch.float64)
    xs, h0 = normal(6, 11, 3).requires_grad_(), (0.3 * normal(11, field.state_size, seed=2)).requires_grad_()
    for path in (ctrnn.HeldPath, ctrnn.LinearPath):
        solved = both(field, lambda path=path: path(xs), h0, ts, method=method)
        agree(*solved, [xs, h0, *field.parameters()])
        ours, theirs = (each.stats for each in solved)
        for count in ("steps_of_samples", "num_steps", "num_accepted_steps", "num_rejected_steps", "hint"):
            assert ours[count] == theirs[count]
        assert ours["smallest_step"] == pytest.approx(theirs["smallest_step"], rel=1e-9)
        assert ours["nfe_backward"] >= {"dopri5": 6, "tsit5": 6, "dopri8": 13}[method] * ours["num_accepted_steps"]
        # A sample that has landed is not asked to wait.
        assert ours["nfe_samples"] <= theirs["nfe_samples"]


@given(
    time=st.integers(1, 6),
    batch=st.integers(1, 19),
    inputs=st.integers(1, 5),
    hidden=st.integers(1, 19),
    name=st.sampled_from(["gated", "gru"]),
    bias=st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_any_size_agrees(time, batch, inputs, hidden, name, bias):
    field = made(name, inputs, hidden, bias=bias)
    xs, h0 = normal(time, batch, inputs).requires_grad_(), field.initial_state(batch).requires_grad_()
    fused, stepped = both(field, lambda: ctrnn.HeldPath(xs), h0, torch.linspace(0, time, 4, dtype=torch.float64), rtol=1e-3)
    agree(fused, stepped, [xs, h0, *field.parameters()])


def test_samples_may_lie_in_memory_in_any_way():
    field, ts = made("gated"), torch.arange(5.0, dtype=torch.float64)
    whole = normal(7, 8, 6)
    for xs in (whole[:, ::2, :3].transpose(0, 1), whole[::2, :, 3:], whole[:4, :1, :3].expand(4, 6, 3)):
        h0 = normal(2, 5)[:1].expand(xs.shape[1], 5)
        agree(*both(field, lambda xs=xs: ctrnn.HeldPath(xs), h0, ts), list(field.parameters()))


@pytest.mark.parametrize("path", [ctrnn.HeldPath, ctrnn.LinearPath])
def test_every_sequence_may_have_times_of_its_own(path):
    field, xs, h0 = made("gated"), normal(5, 9, 3).requires_grad_(), normal(9, 5, seed=3)
    edges = torch.cat([torch.zeros(1, 9), torch.rand(4, 9, generator=torch.Generator().manual_seed(4)).cumsum(0)]).double()
    asked = edges[-1] * torch.linspace(0, 1, 6, dtype=torch.float64)[:, None]
    asked[3] = asked[2]  # a time may be asked for twice
    fused, stepped = both(field, lambda: path(xs, edges), h0, asked)
    agree(fused, stepped, [xs, *field.parameters()])
    assert fused.stats["steps_of_samples"] == stepped.stats["steps_of_samples"]


def test_lengths_and_stamps_of_modules_agree():
    field, xs = made("lstm"), normal(6, 5, 3).requires_grad_()
    ts = torch.rand(6, 5, generator=torch.Generator().manual_seed(4)).double().cumsum(0)
    outputs = []
    for fused in (True, False):
        rnn = discretize.ContinuousRNN(field, rtol=1e-6, fused=fused)
        output, h_n = rnn(xs, ts=ts, lengths=[6, 1, 3, 5, 2])
        gradients = torch.autograd.grad(weighted(output) + h_n.sum(), [xs, *field.parameters()])
        outputs.append((output, h_n, *gradients))
        assert rnn.stats["engine"] == ("compiled" if fused else "steps")
    for ours, theirs in zip(*outputs, strict=True):
        assert_close(ours, theirs, rtol=1e-12, atol=1e-13)


def test_in_float32_the_two_agree_to_its_rounding():
    field = made("gated", dtype=torch.float32)
    xs, h0 = normal(6, 11, 3, dtype=torch.float32), field.initial_state(11)
    fused, stepped = both(field, lambda: ctrnn.HeldPath(xs), h0, torch.arange(7.0, dtype=torch.float64), rtol=1e-4, atol=1e-5)
    assert fused.hs.dtype == torch.float32
    assert_close(fused.hs, stepped.hs, rtol=0, atol=2e-6)


# What is promised to the bit begins at the projected input: the projection is a product of torch's, which may be summed in
# another order for another batch or number of threads. So here it is by weights of 0 and 1, exact in any order.


def reading(name, hidden=5):
    """A field whose projected input is its input, but for the bias, to the last bit."""
    columns = {"gated": 2, "gru": 3}[name] * hidden
    field = made(name, columns, hidden)
    rows = [part for part in field.modules() if getattr(part, "weight_x", None) is not None]
    with torch.no_grad():
        for part, rows_of_eye in zip(rows, torch.eye(columns, dtype=torch.float64).split(hidden), strict=True):
            part.weight_x.copy_(rows_of_eye)
    return field


def solved_in_bits(field, xs, h0, cotangent=None, **settings):
    """States, and the gradients that the kernel sums: not those of the weights and biases of the projection."""
    solved = discretize.integrate(field, ctrnn.HeldPath(xs), h0, torch.arange(len(xs) + 1.0, dtype=torch.float64), **settings)
    assert solved.stats["engine"] == "compiled"
    weights = [weight for name, weight in field.named_parameters() if name.endswith(("weight_h", "bias_h"))]
    cotangent = torch.linspace(-1, 1, solved.hs.numel(), dtype=xs.dtype).view_as(solved.hs) if cotangent is None else cotangent
    return solved, [solved.hs, *torch.autograd.grad(solved.hs, [xs, h0, *weights], cotangent)]


def test_the_number_of_threads_does_not_change_a_bit():
    field, before = reading("gru"), torch.get_num_threads()
    for batch in (3, 40, 150):
        xs, h0 = normal(4, batch, 15).requires_grad_(), normal(batch, 5).requires_grad_()
        found = []
        try:
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                found.append(solved_in_bits(field, xs, h0)[1])
        finally:
            torch.set_num_threads(before)
        for one, two, three in zip(*found, strict=True):
            assert torch.equal(one, two), batch
            assert torch.equal(one, three), batch


def test_neighbours_do_not_change_a_bit_of_a_sample():
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
    field = ctrnn.Relaxation(
        ctrnn.TanhCandidate(2, 4, dtype=torch.float64), ctrnn.ExponentialRate(2, 4, dtype=torch.float64), ctrnn.LinearDecay()
    )
    with torch.no_grad():
        field.rate.weight_h.zero_()
        field.rate.weight_x.copy_(torch.tensor([1.0, 0.0]).expand(4, 2))
        field.candidate.weight_x.copy_(torch.tensor([0.0, 1.0]).expand(4, 2))  # the projection is exact, as above
    xs = normal(3, 64, 2)
    xs[..., 0] = 0.0
    ts, h0 = torch.arange(4.0, dtype=torch.float64), field.initial_state(64)
    quiet = discretize.integrate(field, ctrnn.HeldPath(xs), h0, ts, rtol=1e-4)
    xs[:, 17, 0] = math.log(400.0)
    mixed = discretize.integrate(field, ctrnn.HeldPath(xs), h0, ts, rtol=1e-4)
    others = [row for row in range(64) if row != 17]
    assert mixed.stats["engine"] == "compiled"
    assert torch.equal(mixed.hs[:, others], quiet.hs[:, others])
    steps = mixed.stats["steps_of_samples"]
    assert [steps[row] for row in others] == [quiet.stats["steps_of_samples"][row] for row in others]
    assert steps[17] > 20 * max(steps[row] for row in others)
    assert mixed.stats["nfe_samples"] < quiet.stats["nfe_samples"] + 7 * (steps[17] + 3)


def test_a_second_backward_pass_is_the_first_one_again():
    field, xs = made("gated"), normal(4, 5, 3).requires_grad_()
    solved = discretize.integrate(field, ctrnn.HeldPath(xs), field.initial_state(5), torch.arange(5.0, dtype=torch.float64))
    first = torch.autograd.grad(weighted(solved.hs), [xs, *field.parameters()], retain_graph=True)
    again = torch.autograd.grad(weighted(solved.hs), [xs, *field.parameters()])
    for one, other in zip(first, again, strict=True):
        assert_close(one, other, rtol=0, atol=1e-14)  # not to the bit: some of it are torch's products


@pytest.mark.parametrize(
    ("name", "path"),
    [("gated", ctrnn.HeldPath), ("gru", ctrnn.LinearPath), ("lstm", ctrnn.HeldPath), ("slow softplus", ctrnn.LinearPath)],
)
def test_second_derivatives_are_those_of_the_engine(name, path):
    field, xs = made(name, 2, 3), normal(3, 2, 2).requires_grad_()
    h0, ts = (0.5 * normal(2, field.state_size, seed=5)).requires_grad_(), torch.tensor([0.0, 0.7, 1.9], dtype=torch.float64)
    found = []
    for solved in both(field, lambda: path(xs), h0, ts, rtol=1e-4):
        first = torch.autograd.grad(weighted(solved.hs), [xs, h0, *field.parameters()], create_graph=True)
        found.append([*first, *torch.autograd.grad(sum(weighted(g) for g in first), [xs, h0, *field.parameters()])])
    for ours, theirs in zip(*found, strict=True):
        assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_gradients_come_only_where_they_are_wanted():
    field, xs = made("gated"), normal(4, 5, 3)
    field.candidate.weight_x.requires_grad_(False)
    solved = discretize.integrate(field, ctrnn.HeldPath(xs), field.initial_state(5), torch.arange(5.0, dtype=torch.float64))
    solved.hs.sum().backward()
    assert field.candidate.weight_x.grad is None
    assert field.rate.weight_x.grad is not None
    with torch.no_grad():
        assert not discretize.integrate(
            field, ctrnn.HeldPath(xs), field.initial_state(5), torch.arange(5.0, dtype=torch.float64)
        ).hs.requires_grad


def test_states_are_the_users_to_write_on():
    field, xs = made("gated"), normal(4, 5, 3)
    start, ts = field.initial_state(5), torch.arange(5.0, dtype=torch.float64)
    solved = discretize.integrate(field, ctrnn.HeldPath(xs), start, ts)
    expected = torch.autograd.grad(weighted(solved.hs), field.candidate.weight_h, retain_graph=True)[0]
    loss = weighted(solved.hs)
    with torch.no_grad():
        solved.hs.zero_()
    assert_close(torch.autograd.grad(loss, field.candidate.weight_h)[0], expected)


def failures(field, path, h0, ts, **settings):
    raised = []
    for fused in (True, False):
        with pytest.raises(SolverError) as caught:
            discretize.integrate(field, path(), h0, ts, fused=fused, **settings)
        raised.append(caught.value)
    assert raised[0].trajectory.stats["engine"] == "compiled"
    return raised


def test_failures_are_reported_as_the_engine_reports_them():
    field, xs, ts = made("exponential"), normal(6, 9, 3), torch.arange(7.0, dtype=torch.float64)
    h0 = field.initial_state(9)
    field.rate.bias.data[2] = math.nan
    for failing, limits in ((field, {}), (made("gated"), {"max_num_steps": 5})):
        ours, theirs = failures(failing, lambda: ctrnn.HeldPath(xs), h0, ts, rtol=1e-6, **limits)
        assert (ours.cause, ours.sample) == (theirs.cause, theirs.sample)
        assert ours.time == pytest.approx(theirs.time)  # the sum of steps, each rounded otherwise
        assert str(ours)[-100:] == str(theirs)[-100:]
        assert_close(ours.trajectory.hs, theirs.trajectory.hs, rtol=0, atol=1e-13)


def test_a_failure_late_in_one_sample_keeps_what_all_of_them_reached():
    field, xs, ts = made("exponential"), 0.1 * normal(6, 20, 3), torch.arange(7.0, dtype=torch.float64)
    xs[4, 13] = 1e6
    ours, theirs = failures(field, lambda: ctrnn.HeldPath(xs), field.initial_state(20), ts)
    assert ours.sample == theirs.sample == 13
    assert ours.time == pytest.approx(theirs.time)
    assert str(ours)[-100:] == str(theirs)[-100:]
    assert len(ours.trajectory.hs) == len(theirs.trajectory.hs) == 5
    assert_close(ours.trajectory.hs, theirs.trajectory.hs, rtol=0, atol=1e-13)
    target = field.candidate.weight_h
    gradients = [torch.autograd.grad(weighted(error.trajectory.hs), target)[0] for error in (ours, theirs)]
    assert_close(*gradients, rtol=1e-11, atol=1e-13)


def test_steps_forced_at_their_minimum_are_counted_alike():
    field, xs, ts = made("gated"), 3 * normal(6, 9, 3), torch.arange(7.0, dtype=torch.float64)
    with pytest.warns(SolverWarning):
        ours, theirs = both(field, lambda: ctrnn.HeldPath(xs), field.initial_state(9), ts, rtol=1e-9, atol=1e-9, min_step=0.4)
    assert ours.stats["num_forced_steps"] == theirs.stats["num_forced_steps"] > 0
    assert_close(ours.hs, theirs.hs, rtol=1e-11, atol=1e-12)


def test_what_has_no_kernel_is_solved_as_before_and_says_why():
    field, xs = made("gated"), normal(6, 4, 3)
    ts, h0 = torch.arange(6.0, dtype=torch.float64), field.initial_state(4)

    def why(field=field, path=None, ts=ts, **settings):
        solved = discretize.integrate(field, path or ctrnn.HeldPath(xs), h0, ts, **settings)
        assert solved.stats["engine"] == "steps"
        return solved.stats["engine_why"]

    class Mine(ctrnn.Relaxation):
        def flow(self, projected, h):
            return 2 * super().flow(projected, h)

    assert "`fused` is False" in why(fused=False)
    assert "bosh3" in why(method="bosh3")
    assert "fixed" in why(method="rk4", max_step=0.1)
    assert "FunctionPath" in why(path=ctrnn.FunctionPath(lambda t: normal(4, 3) / (1e-4 + (t - 2.2) ** 2), (0, 5), 3))
    assert "speed" in why(path=ctrnn.HeldPath(xs), speed=lambda t: 1 / (1e-4 + (t - 2.2) ** 2), rtol=1e-1, atol=1e-1)
    assert "for each unit" in why(atol=torch.full((5,), 1e-7))
    assert "Adjoint" in why(gradient=discretize.Adjoint())
    assert "knots" in why(path=ctrnn.HeldPath(xs, torch.arange(7.0, dtype=torch.float64).requires_grad_()))
    assert "Mine" in why(field=Mine(field.candidate, field.rate, field.decay))


def test_the_environment_turns_kernels_off(monkeypatch):
    field, xs = made("gated"), normal(6, 4, 3)
    for setting, engine in (("0", "steps"), ("1", "compiled")):
        monkeypatch.setenv("CTRNN_FUSED", setting)
        rnn = discretize.ContinuousRNN(field)
        rnn(xs)
        assert rnn.stats["engine"] == engine


def test_transforms_of_torch_func_see_the_steps():
    field, xs = made("gated", 2, 3), normal(3, 2, 2)
    ts, h0 = torch.arange(4.0, dtype=torch.float64), field.initial_state(2)
    weights = dict(field.named_parameters())

    def loss(weights):
        rnn = torch.nn.Module()
        rnn.field = field
        rnn.forward = lambda: weighted(discretize.integrate(field, ctrnn.HeldPath(xs), h0, ts).hs)
        return torch.func.functional_call(rnn, {f"field.{name}": weight for name, weight in weights.items()}, ())

    found = torch.func.grad(loss)(weights)
    expected = torch.autograd.grad(weighted(discretize.integrate(field, ctrnn.HeldPath(xs), h0, ts).hs), list(weights.values()))
    for ours, theirs in zip(found.values(), expected, strict=True):
        assert_close(ours, theirs, rtol=1e-11, atol=1e-13)


def test_between_requested_times_the_kernel_is_where_the_engine_is():
    field, xs = made("gated"), normal(6, 4, 3)
    ts = torch.tensor([0.0, 2.0, 6.0], dtype=torch.float64)
    fused, stepped = both(field, lambda: ctrnn.HeldPath(xs), field.initial_state(4), ts)
    assert_close(fused(torch.tensor([0.7, 3.3])), stepped(torch.tensor([0.7, 3.3])), rtol=0, atol=1e-13)


def test_an_interrupted_solve_gives_its_memory_back(monkeypatch):
    field, xs = made("gated"), normal(6, 4, 3)
    tasks = []

    def interrupted(self):
        tasks.append(weakref.ref(self.task))
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel_run, "SLICE", 0.0)
    monkeypatch.setattr(kernel_run.KernelRun, "_progress", interrupted)
    with pytest.raises(KeyboardInterrupt):
        discretize.integrate(field, ctrnn.HeldPath(xs), field.initial_state(4), torch.arange(7.0, dtype=torch.float64))
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


def test_modules_are_copied_and_saved_as_before():
    rnn = discretize.ContinuousRNN(made("gated"))
    xs = normal(4, 5, 3)
    output = rnn(xs)[0]
    twin = copy.deepcopy(rnn)
    assert_close(twin(xs)[0], output, rtol=0, atol=1e-14)
    assert list(twin.state_dict()) == list(rnn.state_dict())


def test_changed_weights_between_the_passes_are_noticed():
    field, xs = made("gated"), normal(4, 5, 3)
    solved = discretize.integrate(field, ctrnn.HeldPath(xs), field.initial_state(5), torch.arange(5.0, dtype=torch.float64))
    h0 = field.initial_state(5)
    with torch.no_grad():
        field.candidate.weight_h.mul_(2)
    # The stacked weights are a copy, so what was solved stays what it was.
    stepped = discretize.integrate(made("gated"), ctrnn.HeldPath(xs), h0, torch.arange(5.0, dtype=torch.float64), fused=False)
    assert_close(solved.hs, stepped.hs, rtol=0, atol=1e-13)
