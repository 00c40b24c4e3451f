"""Fields with delays in sequence modules: a plain loop, closed forms, orders, neighbours, doors, and central differences."""

import math
from itertools import pairwise

import pytest
import torch
from cases import crossed
from scipy.special import lambertw
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import ContinuousRNN, DiscreteCell, DiscreteRNN, Euler, RungeKutta4
from discretize.steps import BackwardEuler, Taylor2, Trapezoid

LENGTHS = [6, 3, 5]


class Net(ctrnn.DelayedField):
    """Weights for the present and for each delay."""

    def __init__(self, input_size=2, hidden_size=3, delays=(0.75, 1.1), learn=True):
        super().__init__(input_size, hidden_size, list(delays) if isinstance(delays, tuple) else delays, learn=learn)
        self.weight_x = torch.nn.Linear(input_size, hidden_size)
        self.weights = torch.nn.ParameterList(torch.randn(hidden_size, hidden_size) / 2 for _ in range(1 + self.count))

    def project(self, x):
        return self.weight_x(x)

    def flow(self, projected, h, past):
        return torch.tanh(projected + sum(h @ weight.T for h, weight in zip((h, *past), self.weights, strict=True))) - h


class Fading(ctrnn.DelayedField):
    def __init__(self, delay=1.0, **how):
        super().__init__(0, 1, [delay], **how)

    def flow(self, projected, h, past):
        return -past[0]


def given(seed=0, time=6, delays=(0.75, 1.1)):
    torch.manual_seed(seed)
    return Net(delays=delays), torch.randn(time, 3, 2), torch.randn(3, 3), 0.6 * torch.rand(time + 1, 3).cumsum(0)


def polynomial(t):
    """h' = -h(t - 1), h = 1 before 0, interval by interval."""
    return sum((-1) ** k * (t - (k - 1)) ** k / math.factorial(k) for k in range(int(t) + 2))


def by_a_plain_loop(field, x, h0, edges, delays):
    """Euler's step, one after another, each sample by itself, the past on straight lines between states."""
    rows = []
    for b, start in enumerate(h0):
        times, hs = [float(t) for t in edges[:, b]], [start]

        def before(t, times=times, hs=hs):
            if t <= times[0]:
                return hs[0]
            k = max(k for k in range(len(hs)) if times[k] < t + 1e-12)
            k = min(k, len(hs) - 2)
            share = (t - times[k]) / (times[k + 1] - times[k])
            return hs[k] + share * (hs[k + 1] - hs[k])

        for k, (t, end) in enumerate(pairwise(times)):
            past = tuple(before(t - d)[None] for d in delays)
            hs.append(hs[-1] + (end - t) * field(x[k, b][None], hs[-1][None], past)[0])
        rows.append(torch.stack(hs[1:]))
    return torch.stack(rows, 1)


@pytest.mark.parametrize("delays", [(1.0, 2.0), (0.75, 1.1), (0.2, 3.3)])
@pytest.mark.parametrize("own", [False, True])
def test_euler_steps_read_the_states_that_earlier_steps_ended_with(delays, own):
    _, x, h0, ts = given()
    field, edges = Net(delays=delays), ts if own else 0.5 * torch.arange(7.0)[:, None].expand(-1, 3)
    output, h_n = DiscreteRNN(field, dt=0.5)(x, h0, ts if own else None)
    assert_close(output, by_a_plain_loop(field, x, h0, edges, delays), rtol=0, atol=1e-13)
    assert_close(h_n[0], output[-1])


DOORS = {
    "ContinuousRNN": lambda f, step, x, h0: ContinuousRNN(f, step, max_step=0.25)(x, h0)[0],
    "integrate": lambda f, step, x, h0: discretize.integrate(
        f, ctrnn.HeldPath(x), h0, torch.arange(4.0), method=step, max_step=0.25
    ).hs[1:],
    "unroll": lambda f, step, x, h0: discretize.unroll(DiscreteCell(f, step, 0.25), x.repeat_interleave(4, 0), h0).hs[4::4],
    "unroll_parallel": lambda f, step, x, h0: discretize.unroll_parallel(
        DiscreteCell(f, step, 0.25), x.repeat_interleave(4, 0), h0
    ).hs[4::4],
    "Layers": lambda f, step, x, h0: discretize.Layers([DiscreteRNN(f, step, substeps=4)])(x, h0[None])[0],
    "vmap": lambda f, step, x, h0: torch.func.vmap(lambda x, h: DiscreteRNN(f, step, substeps=4)(x, h)[0])(
        torch.stack([x, x]), torch.stack([h0, h0])
    )[1],
}
STEPS = [Euler(), discretize.Midpoint(), RungeKutta4(), discretize.ExponentialEuler()]


# Doors hand the step on: each by one of them every day.
@pytest.mark.parametrize(("door", "step"), crossed(DOORS, STEPS))
def test_a_run_with_delays_is_the_same_by_every_door(door, step):
    field, x, h0, _ = given(time=3)
    if door == "ContinuousRNN" and isinstance(step, Euler | discretize.Midpoint):
        step = {"Euler()": "euler", "Midpoint()": "midpoint"}[repr(step)]
    there = DOORS[door](field, step, x, h0)
    here = DiscreteRNN(field, {"euler": Euler(), "midpoint": discretize.Midpoint()}.get(str(step), step), substeps=4)(x, h0)[0]
    assert_close(there, here, rtol=0, atol=1e-12)
    mine, theirs = (torch.autograd.grad(hs.square().sum(), [*field.parameters()]) for hs in (here, there))
    assert_close(theirs, mine, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("method", "order"), [("euler", 1), ("midpoint", 2), ("heun2", 2), ("heun3", 3), ("rk4", 4), (RungeKutta4(), 4)], ids=str
)
def test_steps_that_end_on_the_delays_have_their_own_order(method, order):
    ts, off = torch.tensor([0.0, 4.5]), []
    for steps in (8, 16):
        solved = discretize.integrate(Fading(), None, torch.ones(1, 1), ts, method=method, max_step=1 / steps)
        off.append(abs(float(solved.hs[-1]) - polynomial(4.5)))
        assert abs(float(solved(torch.tensor([3.3]))) - polynomial(3.3)) < (2.0 / steps) ** min(order, 3)
    assert abs(math.log2(off[0] / off[1]) - order) < 0.1


@torch.no_grad()
def test_steps_see_an_input_that_moves_and_a_clock_as_without_delays(subtests):
    """Named methods at each stage; step maps hold both where a step begins, though not the past."""
    field, x, h0, _ = given(delays=(0.5, 1.0))
    path, ts = ctrnn.LinearPath(x[:3, :1]), torch.tensor([0.0, 1.5])

    def end(**how):
        speed = {"speed": lambda t: 1 + 0.5 * torch.sin(t)}
        return discretize.integrate(field, path, h0[:1], ts, fused=False, **speed, **how).hs[-1]

    exact = end(rtol=1e-7, atol=1e-8)
    for method, order in (("rk4", 4), ("midpoint", 2), (Euler(), 1), (RungeKutta4(), 1)):
        with subtests.test(method=method):
            off = [float((end(method=method, max_step=0.5 / n) - exact).abs().max()) for n in (2, 4)]
            assert abs(math.log2(off[0] / off[1]) - order) < 0.5


def test_a_step_may_be_longer_than_a_delay_where_it_reads_where_it_begins():
    field, x = Fading(0.25), torch.zeros(3, 1, 0)
    # h(t - d) of steps of 1: h0, then three quarters of the way from one state to the next.
    states = [1.0, 0.0]
    for _ in range(2):
        states.append(states[-1] - (states[-2] + 0.75 * (states[-1] - states[-2])))
    assert_close(DiscreteRNN(field)(x, torch.ones(1, 1))[0].flatten(), torch.tensor(states[1:]), rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match=r"A step of 1 by RungeKutta4\(\) is longer than a delay, and its later stages"):
        DiscreteRNN(field, RungeKutta4())(x)


def test_what_is_read_at_the_end_of_a_step_is_the_state_there_to_the_bit():
    field, x, h0, _ = given()
    solved = discretize.unroll(DiscreteCell(field, RungeKutta4(), 0.1), x, h0)
    assert_close(solved(solved.ts), solved.hs, rtol=0, atol=0)
    later = solved.ts + 1e-15  # as a difference of times may be
    assert_close(solved.between(later), solved.hs, rtol=0, atol=0)


def test_delays_that_are_functions_of_time_are_stepped():
    # h' = (exp(t / 2) h(t / 2) + h) / 2 is exp(t).
    def f(t, h, past):
        return (torch.exp(t / 2) * past[0] + h) / 2

    ts, off = torch.tensor([1.0, 2.0]), []
    for steps in (8, 16):
        solved = discretize.integrate(
            f,
            None,
            torch.full((1, 1), math.e),
            ts,
            delays=[lambda t: t / 2],
            history=lambda t: torch.exp(t).reshape(1, 1),
            method="rk4",
            max_step=1 / steps,
        )
        off.append(abs(float(solved.hs[-1]) - math.exp(2)))
    assert off[0] < 1e-5
    assert math.log2(off[0] / off[1]) > 3.5


MODULES = {
    "euler": lambda f, **how: DiscreteRNN(f, dt=0.5, **how),
    "substeps": lambda f, **how: DiscreteRNN(f, RungeKutta4(), dt=0.9, substeps=2, **how),
    "adaptive": lambda f, **how: ContinuousRNN(f, rtol=1e-2, atol=1e-2, **how),
    "rk4": lambda f, **how: ContinuousRNN(f, "rk4", max_step=0.3, **how),
}


@pytest.mark.each_value
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("module", MODULES)
def test_a_sequence_does_not_see_its_neighbours_lengths_times_and_resets(module, own):
    field, x, h0, ts = given()
    rnn, reset = MODULES[module](field), torch.zeros(6, 3, dtype=torch.bool)
    reset[2, 0] = reset[4, 2] = True
    with torch.no_grad():
        output, h_n = rnn(x, h0, ts if own else None, LENGTHS, reset)
        for b, length in enumerate(LENGTHS):
            begin = int(reset[:length, b].int().argmax())  # of the last piece, which begins anew from 0
            edges = ts[begin : length + 1, b] if own else None
            alone, end = rnn(x[begin:length, b], None if begin else h0[b], edges)
            assert_close(output[begin:length, b], alone, rtol=0, atol=1e-9)
            assert_close(h_n[0, b], end[0], rtol=0, atol=1e-9)
            assert not output[length:, b].any()


@pytest.mark.parametrize("path", ["linear", "hermite"])
def test_paths_through_samples_with_lengths_are_those_of_each_alone(path):
    field, x, h0, ts = given(delays=(0.75,))
    ts = ts[:, [0, 0, 2]]
    rnn = ContinuousRNN(field, rtol=1e-2, atol=1e-2, path=path)
    with torch.no_grad():
        output, _ = rnn(x, h0, ts[:6], LENGTHS)
        for b, length in enumerate(LENGTHS):
            assert_close(output[:length, b], rnn(x[:length, b], h0[b], ts[:length, b])[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("module", MODULES)
def test_packed_sequences_are_those_with_lengths(module):
    field, x, h0, _ = given(delays=(0.9,))
    rnn = MODULES[module](field)
    with torch.no_grad():
        packed, h_n = rnn(pack_padded_sequence(x, torch.tensor(LENGTHS), enforce_sorted=False), h0[None])
        output, end = rnn(x, h0[None], lengths=LENGTHS)
    assert_close(pad_packed_sequence(packed)[0], output, rtol=0, atol=1e-9)
    assert_close(h_n, end, rtol=0, atol=1e-9)


def test_sequences_on_one_clock_are_solved_together_and_states_between_are_those_of_each():
    field, x, h0, ts = given()
    ts = ts[:, [0, 0, 2]]
    rnn = ContinuousRNN(field, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        solved = rnn.trajectory(x, h0, ts, LENGTHS)
        times = ts[0] + 0.4 * (ts[3] - ts[0])
        for b, length in enumerate(LENGTHS):
            alone = rnn.trajectory(x[:length, b : b + 1], h0[b : b + 1], ts[: length + 1, b])
            assert_close(solved(times[None])[0, b], alone(times[b : b + 1])[0, 0], rtol=0, atol=1e-4)
            assert_close(solved.hs[-1, b], alone.hs[-1, 0], rtol=0, atol=1e-4)
    assert len(solved.stats["steps_of_samples"]) == 3


def test_delays_are_learned_from_sequences_of_several_lengths():
    field, x, h0, _ = given(delays=(0.75,))
    rnn = ContinuousRNN(field, rtol=1e-2, atol=1e-2)
    together = rnn(x, h0[None], None, [2, 1, 2])[1].sum()
    alone = sum(rnn(x[:n, b], h0[b])[1].sum() for b, n in enumerate([2, 1, 2]))
    mine, theirs = (torch.autograd.grad(total, [field.delays, field.weights[1]]) for total in (together, alone))
    assert_close(mine, theirs, rtol=0, atol=1e-9)
    assert mine[0].abs() > 1e-3


def test_the_exact_module_is_the_solve_along_its_samples():
    field, x, h0, _ = given(time=3, delays=(0.75,))
    theirs = discretize.integrate(field, ctrnn.HeldPath(x), h0, torch.arange(4.0), rtol=1e-2, atol=1e-2)
    assert_close(ContinuousRNN(field, rtol=1e-2, atol=1e-2)(x, h0)[0], theirs.hs[1:], rtol=0, atol=0)


# Gradients.

GRADIENTS = {
    "euler": lambda f, x, h0, ts: DiscreteRNN(f, fused=False)(x, h0, ts)[0],
    "rk4": lambda f, x, h0, ts: DiscreteRNN(f, RungeKutta4(), fused=False)(x, h0, ts)[0],
    "lengths": lambda f, x, h0, ts: DiscreteRNN(f, substeps=2, fused=False)(x, h0, ts, [4, 2, 3])[0],
}


@pytest.mark.parametrize("kind", GRADIENTS)
def test_gradients_to_inputs_states_times_weights_and_delays_are_central_differences(kind):
    field, x, h0, ts = given(1, 4)

    def run(x, h0, ts, delays, weight):
        placed = {"delays": delays, "weights.1": weight}
        return torch.func.functional_call(
            _Called(field, GRADIENTS[kind]), {f"field.{n}": v for n, v in placed.items()}, (x, h0, ts)
        )

    sources = [each.detach().requires_grad_() for each in (x, h0, ts, field.delays, field.weights[1])]
    assert torch.autograd.gradcheck(run, sources, eps=1e-7, atol=1e-5, rtol=1e-4, fast_mode=True)


class _Called(torch.nn.Module):
    def __init__(self, field, run):
        super().__init__()
        self.field, self.run = field, run

    def forward(self, *arguments):
        return self.run(self.field, *arguments)


@pytest.mark.parametrize("method", ["euler", "rk4"])
def test_gradients_to_the_history_are_central_differences(method):
    field, x, h0, _ = given(2, 3)
    held, slope = torch.randn(3, 3).requires_grad_(), torch.randn(3, 3).requires_grad_()

    def run(held, slope):
        path = ctrnn.HeldPath(x)
        return discretize.integrate(
            field, path, h0, torch.arange(4.0), method=method, max_step=0.5, history=lambda t: held + slope * t, fused=False
        ).hs

    assert torch.autograd.gradcheck(run, [held, slope], fast_mode=True)


def test_a_delay_of_whole_steps_has_the_gradient_of_a_longer_one():
    def end(delay):
        field = Fading(delay, learn=True)
        return field, DiscreteRNN(field, dt=0.25)(torch.zeros(9, 1, 0), torch.ones(1, 1))[1].sum()

    field, total = end(0.5)
    (gradient,) = torch.autograd.grad(total, field.delays)
    assert_close(gradient[0], (end(0.5 + 1e-6)[1] - total).detach() / 1e-6, rtol=1e-5, atol=1e-5)
    assert gradient.abs() > 0.1


@pytest.mark.kernels
@pytest.mark.parametrize(
    "step",
    [RungeKutta4(), BackwardEuler(), *(pytest.param(step, marks=pytest.mark.slow) for step in (Euler(), Taylor2(), Trapezoid()))],
    ids=repr,
)
def test_blocks_of_steps_with_delays_run_in_a_kernel(step):
    # Compiles the kernel and its gradient. The slow run adds steps that read the past where they begin alone.
    field, x, h0, _ = given(delays=(0.6, 1.0))
    found = []
    for fused in ("always", False):
        rnn = DiscreteRNN(field, step, dt=0.25, fused=fused)
        output, _ = rnn(x, h0)
        found.append((output, *torch.autograd.grad(output.square().sum(), [*field.parameters()])))
        assert rnn.stats["engine"] == ("compiled" if fused else "steps"), rnn.stats["engine_why"]
    assert_close(*found, rtol=1e-12, atol=1e-12)


# Units, dtypes, sizes.


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("step", [Euler(), RungeKutta4()], ids=repr)
def test_states_do_not_hang_on_the_unit_of_time(step, unit):
    _, x, h0, ts = given()

    class Scaled(Net):
        def flow(self, projected, h, past):
            return super().flow(projected, h, past) / unit

    torch.manual_seed(0)
    there = Net(delays=(0.6, 1.2))
    here = Scaled(delays=(0.6 * unit, 1.2 * unit))
    here.load_state_dict({name: value for name, value in there.state_dict().items() if name != "delays"}, strict=False)
    for times in (None, ts):
        mine = DiscreteRNN(here, step, dt=0.3 * unit)(x, h0, None if times is None else times * unit)[0]
        assert_close(mine, DiscreteRNN(there, step, dt=0.3)(x, h0, times)[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_narrow_states_are_near_those_of_float64(dtype):
    field, x, h0, ts = given()
    theirs = DiscreteRNN(field, RungeKutta4())(x, h0, ts)[0]
    mine = DiscreteRNN(field.to(dtype), RungeKutta4())(x.to(dtype), h0.to(dtype), ts)[0]
    assert mine.dtype == dtype
    assert_close(mine.double(), theirs.double(), rtol=0, atol=30 * torch.finfo(dtype).eps)


@torch.no_grad()
def test_a_batch_of_none_and_one_sample_are_run():
    field, x, h0, _ = given(delays=(1.0,))
    for rnn in (
        DiscreteRNN(field, dt=0.5),
        ContinuousRNN(field, rtol=1e-2, atol=1e-2),
        ContinuousRNN(field, "rk4", max_step=0.5),
    ):
        assert rnn(x[:, :0])[0].shape == (6, 0, 3)
        assert_close(rnn(x[:1], h0)[0], rnn(x, h0)[0][:1], rtol=0, atol=1e-9)
        assert_close(rnn(x[:, 1], h0[1])[0], rnn(x, h0)[0][:, 1], rtol=0, atol=1e-9)


# Chunks.


@pytest.mark.parametrize("method", ["dopri5", "rk4", Euler()], ids=str)
def test_a_chunk_goes_on_from_the_trajectory_of_the_chunk_before(method):
    field, x, h0, _ = given(delays=(0.75,))
    rnn = ContinuousRNN(field, method, max_step=0.5)
    whole = rnn.trajectory(x[:3], h0)
    first = rnn.trajectory(x[:2], h0)
    rest = rnn.trajectory(x[2:3], first.hs[-1], torch.tensor([2.0, 3.0]), history=first)
    assert_close(rest.hs, whole.hs[2:], rtol=0, atol=1e-4 if method == "dopri5" else 1e-12)
    mine, theirs = (torch.autograd.grad(each.hs[-1].sum(), field.delays, retain_graph=True)[0] for each in (rest, whole))
    assert_close(mine, theirs, rtol=0, atol=1e-3 if method == "dopri5" else 1e-12)


def test_a_chunk_may_be_shorter_than_a_delay():
    field, x, h0, _ = given(delays=(2.3,))
    rnn = ContinuousRNN(field, "rk4", max_step=0.5)
    before = rnn.trajectory(x[:1], h0)
    for k in range(1, 5):
        before = rnn.trajectory(x[k : k + 1], before.hs[-1], torch.tensor([k, k + 1.0]), history=before)
    assert_close(before.hs[-1], rnn.trajectory(x[:5], h0).hs[-1], rtol=0, atol=1e-12)


def test_the_state_at_the_start_is_h0_and_not_the_end_of_the_history():
    # Steps of 1 with a delay of 1: the first reads the history, 5, the second h0.
    ts = torch.arange(3.0)
    hs = discretize.integrate(Fading(), None, torch.ones(1, 1), ts, method="euler", history=torch.full((1, 1), 5.0)).hs
    assert hs.flatten().tolist() == [1.0, -4.0, -5.0]


@torch.no_grad()
@pytest.mark.parametrize(
    "make", [DiscreteRNN, lambda f: ContinuousRNN(f, rtol=0.01, atol=0.01), lambda f: discretize.Layers([DiscreteRNN(f, dt=0.5)])]
)
def test_a_chunk_whose_past_is_not_given_is_said_once(make):
    field, x, h0, _ = given(delays=(1.0,))
    rnn = make(field)
    _, h_n = rnn(x, h0[None])
    with pytest.warns(UserWarning, match="its field has delays: what was before is taken to be these states, held"):
        rnn(x, h_n)
    _, h_n = rnn(x, h0[None])
    rnn(x, h_n)  # warnings are errors


# What else takes modules.


def test_a_model_with_a_delay_learns_to_answer_late():
    """The target is the input three samples ago; the delay is learned from 2.4 on."""
    torch.manual_seed(0)
    field = Net(1, 8, (2.4,))
    model = discretize.SequenceModel(DiscreteRNN(field, dt=0.5, substeps=1), 1)
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.02), []
    for _ in range(40):
        x = torch.randn(10, 16, 1)
        loss = (model(x)[3:] - x[:-3]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-5:]) / 5 < 0.8 * sum(losses[:5]) / 5
    assert abs(float(field.delays.detach()) - 2.4) > 0.01


class Dropping(Net):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.part = ctrnn.Dropout(ctrnn.TanhCandidate(3, 3, dtype=torch.float32), 0.5)

    def flow(self, projected, h, past):
        return self.part.flow(self.part.project(projected), past[0]) - h


def test_a_model_in_single_precision_learns_delays_in_double():
    torch.manual_seed(0)
    field = Dropping()
    for name, weight in field.named_parameters():
        weight.data = weight.data if name == "delays" else weight.data.float()
    model = discretize.SequenceModel(DiscreteRNN(field, dt=0.5), 1)
    assert model.read_out.weight.dtype == torch.float32
    output = model(torch.randn(5, 2, 2))
    assert output.dtype == torch.float32
    output.sum().backward()
    assert field.delays.grad.dtype == torch.float64


def test_layers_in_two_directions_read_each_sequence_from_its_own_end():
    _, x, _, ts = given()
    layers = discretize.Layers.of(Net, 2, 3, num_layers=2, bidirectional=True, dt=0.5)
    output, h_n = layers(x, None, ts, LENGTHS)
    for b, length in enumerate(LENGTHS):
        alone, end = layers(x[:length, b], None, ts[: length + 1, b])
        assert_close(output[:length, b], alone, rtol=0, atol=1e-12)
        assert_close(h_n[:, b], end, rtol=0, atol=1e-12)


def test_an_ensemble_is_its_networks():
    _, x, h0, _ = given()
    networks = [DiscreteRNN(Net(), dt=0.5) for _ in range(3)]
    assert_close(discretize.ensemble(networks)(x, h0)[0], torch.stack([rnn(x, h0)[0] for rnn in networks]), rtol=0, atol=1e-13)


class Kept(Net):
    def __init__(self, input_size, hidden_size, delays, learn):
        super().__init__(input_size, hidden_size, delays, learn)


@pytest.mark.parametrize("learn", [False, True])
def test_a_model_with_delays_comes_back_from_its_file(tmp_path, learn):
    model = discretize.SequenceModel(DiscreteRNN(Kept(2, 3, [0.75, 1.1], learn), RungeKutta4(), dt=0.5), 2)
    ctrnn.save(tmp_path / "model", model, {"Kept": Kept})
    back, x = ctrnn.load(tmp_path / "model", {"Kept": Kept}), torch.randn(4, 2, 2)
    assert_close(back(x), model(x), rtol=0, atol=0)
    assert [name for name, _ in back.named_parameters()] == [name for name, _ in model.named_parameters()]


@pytest.mark.parametrize(
    "module",
    [
        lambda f: DiscreteRNN(f, dt=0.3),
        pytest.param(lambda f: ContinuousRNN(f, "euler", max_step=0.25), marks=pytest.mark.slow),
    ],
    ids=["DiscreteRNN", "ContinuousRNN"],
)
def test_an_exported_graph_carries_the_past_along(module):
    field, x, *_ = given(time=5)
    rnn = module(field)
    graph = torch.export.export(rnn, (x,), strict=False).module()
    other = torch.randn_like(x)
    for mine, theirs in zip(graph(other), rnn(other), strict=True):
        assert_close(mine, theirs, rtol=0, atol=1e-12)


def test_refined_steps_come_to_the_exact_states_at_their_order():
    field, x, *_ = given(time=3)
    for step, order in ((Euler(), 1), (discretize.Heun(), 2)):
        found = discretize.refine(DiscreteRNN(field, step, dt=0.5), x, halvings=3)
        assert abs(found.orders[-1] - order) < 0.3
        assert found.held is None


def test_unroll_parallel_has_the_gradients_of_unroll():
    field, x, h0, _ = given()
    cell = DiscreteCell(field, Euler(), 0.5)
    runs = [run(cell, x, h0) for run in (discretize.unroll, discretize.unroll_parallel)]
    assert runs[1].stats["sequential_samples"] == 0
    assert runs[1].stats["iterations"] > 3  # of all blocks, none of which takes more than 2
    mine, theirs = (torch.autograd.grad(run.hs.square().sum(), [*field.parameters()]) for run in runs)
    assert_close(mine, theirs, rtol=0, atol=1e-10)


# Points of rest.


@pytest.mark.parametrize("delay", [0.2, 1.0, 3.0])
def test_the_modes_around_a_point_of_rest_are_the_characteristic_roots(delay):
    """Of z = -exp(-z d), by Lambert's W; and the growth has a gradient to the delay."""
    field = Fading(delay, learn=True)
    (found,) = [discretize.fixed_points(discretize.Flow(field), torch.ones(1, 1))]
    root = lambertw(-delay, 0) / delay
    assert_close(found.h.detach(), torch.zeros(1, 1), rtol=0, atol=1e-12)
    assert abs(complex(found.eigenvalues[0, 0].detach()) - root) < 1e-8
    assert bool(found.stable) == (delay < math.pi / 2)
    (gradient,) = torch.autograd.grad(found.growth.sum(), field.delays)
    apart = [(lambertw(-(delay + e), 0) / (delay + e)).real for e in (1e-5, -1e-5)]
    assert abs(float(gradient) - (apart[0] - apart[1]) / 2e-5) < 1e-5


def test_a_network_rests_where_it_would_stay_and_its_modes_solve_the_characteristic_equation():
    field, *_ = given()
    x = torch.randn(2)
    found = discretize.fixed_points(discretize.Flow(field, x), torch.randn(4, 3))
    assert len(found)
    h = found.h[:1].detach()
    assert field(x[None], h, (h, h)).abs().max() < 1e-12
    now, *past = torch.autograd.functional.jacobian(lambda *parts: field(x, parts[0], parts[1:]), (h[0], h[0], h[0]))
    value, vector = found.eigenvalues[0, 0].detach(), found.eigenvectors[0, :, 0].detach()
    weights = [torch.exp(-value * d) for d in field.delays.detach()]
    matrix = now + sum(w * p for w, p in zip(weights, past, strict=True))
    assert (matrix @ vector - value * vector).abs().max() < 1e-8


class BesideALongDelay(ctrnn.DelayedField):
    """dh/dt = -gain h(t - short), and beside it a unit that fades by a delay of 4."""

    def __init__(self, short, gain):
        super().__init__(0, 2, [short, 4.0])
        self.delays = self.delays.double()
        self.gain = gain

    def flow(self, projected, h, past):
        return torch.stack([-self.gain * past[0][..., 0], -0.1 * past[1][..., 1]], -1)


@pytest.mark.parametrize("product", [1.5, 1.65])  # stable below pi / 2
def test_a_fast_mode_beside_a_long_delay_is_found(product):
    """In the longest delay it turns by 130 radians, which 24 points do not see."""
    short = 0.05
    found = discretize.fixed_points(discretize.Flow(BesideALongDelay(short, product / short)), torch.ones(1, 2).double())
    root = lambertw(-product, 0) / short
    assert bool(found.stable) == (product < math.pi / 2)
    if root.real > 0:
        assert abs(complex(found.eigenvalues[0, 0]) - root) < 1e-6 * abs(root)


def test_modes_that_may_be_missed_are_said(monkeypatch):
    monkeypatch.setattr("discretize.analysis.dynamics.delayed_modes.MOST_ROWS", 60)
    with pytest.warns(discretize.errors.SolverWarning, match="those above .* may be missed"):
        discretize.fixed_points(discretize.Flow(BesideALongDelay(0.05, 33.0)), torch.ones(1, 2).double())


def test_modes_of_float32_have_its_digits():
    fields = [BesideALongDelay(0.05, 33.0) for _ in range(2)]
    fields[0].delays = fields[0].delays.float()
    growths = [
        discretize.fixed_points(discretize.Flow(field), torch.ones(1, 2, dtype=field.delays.dtype)).growth for field in fields
    ]
    assert growths[0].dtype == torch.float32
    assert_close(growths[0].double(), growths[1], rtol=1e-5, atol=0)


# Refused.

REFUSED = {
    "backwards": ("mathematics refuses it", {"ts": torch.arange(6.0).flip(0)}),
    "torchdiffeq": ("torchdiffeq refuses it", {"method": "torchdiffeq:dopri5"}),
    "Adjoint": ("this version refuses it", {"gradient": discretize.Adjoint()}),
    "Checkpointed": ("this version refuses it", {"gradient": discretize.Checkpointed(1000)}),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_no_run_with_delays_takes_says_why(kind):
    field, x, h0, _ = given()
    words, how = REFUSED[kind]
    with pytest.raises(ValueError, match=words):
        discretize.integrate(field, ctrnn.HeldPath(x), h0, **{"ts": torch.arange(6.0)} | how)


def test_a_run_that_leaves_all_bounds_says_where():
    class Grows(ctrnn.DelayedField):
        def flow(self, projected, h, past):
            return h**3 + 0 * past[0]

    with pytest.raises(discretize.SolverError, match="the state became") as error:
        discretize.integrate(Grows(0, 1, 1.0), None, torch.ones(2, 1), torch.arange(9.0), method="euler", max_step=0.5)
    assert error.value.trajectory.hs.isfinite().all()


def test_steps_for_noise_and_stages_that_are_exported_are_refused():
    with pytest.raises(ValueError, match="noise"):
        DiscreteRNN(Net(), discretize.EulerMaruyama())
    with pytest.raises(TypeError, match="which this version does not export"):
        torch.export.export(DiscreteRNN(Net(), RungeKutta4(), dt=0.3), (torch.randn(4, 1, 2),), strict=False)


@pytest.mark.parametrize("step", [Euler(), RungeKutta4()])
@pytest.mark.parametrize("delay", [1.0, 2.0])
def test_a_delay_that_ends_at_states_moves_what_came_before_them(delay, step):
    field, x, h0, _ = given(delays=(delay,))
    rnn = DiscreteRNN(field, step, fused=False)
    end = rnn(x, h0)[1].sum()
    (slope,) = torch.autograd.grad(end, field.delays)
    with torch.no_grad():
        field.delays += 1e-6
        assert_close(slope.sum(), (rnn(x, h0)[1].sum() - end) / 1e-6, rtol=0, atol=1e-5)


def test_solves_of_several_clocks_tell_the_counts_of_each():
    ts = torch.tensor([[0.0, 5.0], [1.0, 5.1], [2.0, 5.2], [3.0, 5.3]])
    rnn, h0 = ContinuousRNN(Fading(2.0)), torch.ones(3, 1)
    together = rnn.trajectory(torch.zeros(3, 3, 0), h0, ts[:, [0, 1, 0]]).stats
    long, short = (rnn.trajectory(torch.zeros(3, 1, 0), h0[:1], ts[:, b]).stats for b in range(2))
    assert short["smallest_step"] < long["smallest_step"]
    for name in ("smallest_step", "smallest_step_at"):
        assert together[name] == short[name]
    steps = [each["steps_of_samples"][0] for each in (long, short)]
    assert steps[0] != steps[1]
    assert together["steps_of_samples"] == [*steps, steps[0]]
    assert together["nfe"] == long["nfe"] + short["nfe"]
