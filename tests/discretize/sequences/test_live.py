"""Live steps: a stream that is read one sample at a time is the sequence of its samples."""

import pytest
import torch
from streams import BATCH, FIELDS, INPUT, JUMPS, MODULES, NOISY, TIME, UNITS, off, samples, streamed, whole
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import DiscreteCell, DiscreteRNN, Euler
from discretize.sequences.unit_steps import unit_step


@pytest.mark.each_value
@pytest.mark.parametrize("batch", [None, 1, BATCH, 0])
@pytest.mark.parametrize("name", MODULES)
def test_a_stream_is_the_sequence_of_its_samples(name, batch):
    module, xs = MODULES[name](), samples(batch)
    assert_close(streamed(module, xs), whole(module, xs), rtol=0, atol=off(module))


@pytest.mark.parametrize("name", MODULES)
def test_each_sample_takes_the_time_that_it_is_given_and_each_sequence_its_own(name):
    module, xs = MODULES[name](), samples()
    dt = torch.rand(TIME, dtype=torch.float64) + 0.5
    edges = torch.cat([dt.new_zeros(1), dt.cumsum(0)])
    found = streamed(module, xs, dt=dt.tolist())
    assert_close(found, whole(module, xs, ts=edges), rtol=0, atol=off(module))
    own = torch.rand(TIME, BATCH, dtype=torch.float64) + 0.5
    edges = torch.cat([own.new_zeros(1, BATCH), own.cumsum(0)])
    assert_close(streamed(module, xs, dt=own), whole(module, xs, ts=edges), rtol=0, atol=off(module))


@pytest.mark.parametrize("name", MODULES)
def test_a_sequence_begins_anew_where_it_is_reset(name):
    module, xs, reset = MODULES[name](), samples(), torch.rand(TIME, BATCH) < 0.4
    assert_close(streamed(module, xs, reset=reset), whole(module, xs, reset=reset), rtol=0, atol=off(module))


def test_a_reset_of_all_is_a_start_also_of_a_state_that_is_not_finite():
    module, x = MODULES["DiscreteRNN of gru"](), samples()[0]
    module.live_step(x)
    state = torch.full((1, BATCH, UNITS), torch.nan)
    assert_close(module.live_step(x, state, reset=True), module.live_step(x), rtol=0, atol=0)


@pytest.mark.parametrize("name", MODULES)
def test_steps_and_calls_go_on_from_one_another(name):
    module, xs = MODULES[name](), samples()
    first, state = whole(module, xs[:2])
    second, state = streamed(module, xs[2:4], state)
    turned = xs[4:].transpose(0, 1) if module.batch_first else xs[4:]
    third, state = module(turned, state)
    third = third.transpose(0, 1) if module.batch_first else third
    assert_close((torch.cat([first, second, third]), state), whole(module, xs), rtol=0, atol=off(module))


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("batch", [(), (BATCH,)])
def test_a_cell_steps_as_it_is_called_and_shows_what_is_seen(name, batch):
    field = FIELDS[name](INPUT, UNITS)
    cell, x = DiscreteCell(field), torch.randn(*batch, INPUT)
    h = torch.randn(*batch, field.state_size)
    for dt in (None, 0.5, 1):
        for _ in range(2):  # the second by the plan alone
            output, state = cell.live_step(x, h, dt)
            assert_close(state, cell(x, h, dt), rtol=0, atol=1e-14)
            assert_close(output, field.visible(state), rtol=0, atol=0)
    assert_close(cell.live_step(x)[1], cell(x), rtol=0, atol=1e-14)
    assert_close(cell.live_step(x, h, reset=True)[1], cell(x), rtol=0, atol=1e-14)


@pytest.mark.parametrize("theirs", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
def test_the_fields_that_torch_has_cells_for_are_stepped_by_its_functions(theirs):
    theirs = theirs(INPUT, UNITS)
    rnn, x, h = DiscreteRNN(ctrnn.from_torch(theirs)), torch.randn(BATCH, INPUT), torch.randn(BATCH, UNITS)
    assert unit_step(rnn.field) is not None
    given = (h, torch.randn(BATCH, UNITS)) if isinstance(theirs, nn.LSTMCell) else h
    state = torch.cat(given, -1) if isinstance(given, tuple) else h
    wanted = theirs(x, given)
    for _ in range(2):
        output, after = rnn.live_step(x, state[None])
        assert_close(output, wanted[0] if isinstance(wanted, tuple) else wanted, rtol=0, atol=1e-15)
        assert_close(after[0], torch.cat(wanted, -1) if isinstance(wanted, tuple) else wanted, rtol=0, atol=1e-15)


@pytest.mark.parametrize("batch", [None, 1, BATCH])
@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("gate", ["unit", "global"])
def test_gated_fields_are_stepped_by_its_functions_too(gate, nonlinearity, batch):
    candidate = {"tanh": ctrnn.parts.TanhCandidate, "relu": ctrnn.parts.ReluCandidate}[nonlinearity](INPUT, UNITS)
    rate = {"unit": ctrnn.parts.GateRate, "global": ctrnn.parts.GlobalGateRate}[gate](INPUT, UNITS)
    rnn, xs = DiscreteRNN(ctrnn.Relaxation(candidate, rate, ctrnn.parts.LinearDecay())), samples(batch)
    assert unit_step(rnn.field) is not None
    assert unit_step(ctrnn.Relaxation(candidate, rate, ctrnn.PowerDecay(1.0))) is None
    gradients = []
    for run in (streamed, whole):
        rnn.zero_grad()
        run(rnn, xs)[0].square().sum().backward()
        gradients.append([p.grad for p in rnn.parameters()])
    assert_close(*gradients, rtol=0, atol=1e-12)
    assert_close(streamed(rnn, xs), whole(rnn, xs), rtol=0, atol=1e-14)


@pytest.mark.parametrize("settings", [{"dt": 0.5}, {"substeps": 2}, {"step": "heun"}])
def test_other_steps_of_such_a_field_are_not_torchs_cell(settings):
    module, xs = DiscreteRNN(ctrnn.gru(INPUT, UNITS), **settings), samples()
    assert_close(streamed(module, xs), module(xs), rtol=0, atol=1e-13)
    module.step, module.dt, module.substeps = Euler(), 1.0, 1  # settings are looked at, not kept
    assert_close(streamed(module, xs), module(xs), rtol=0, atol=1e-13)


@pytest.mark.each_value
@pytest.mark.parametrize("seed", ["number", "keys"])
@pytest.mark.parametrize("name", NOISY)
def test_a_stream_with_seed_and_places_draws_the_noise_of_its_sequence(name, seed):
    module, xs = NOISY[name](), samples()
    seed = 7 if seed == "number" else discretize.noise_keys(3, BATCH)
    found = streamed(module, xs, seed=[seed] * TIME, place=range(TIME))
    assert_close(found, module(xs, seed=seed), rtol=0, atol=1e-13)


def test_sequences_of_a_batch_may_be_at_places_of_their_own():
    module, xs, keys = NOISY["DiscreteRNN"](), samples(), discretize.noise_keys(3, BATCH)
    _, state = module(xs[:2], seed=keys)
    wanted, _ = module(xs[:3], seed=keys)
    output, _ = module.live_step(xs[2], state, seed=keys, place=torch.tensor([2, 2, 0]))
    assert_close(output[:2], wanted[2, :2], rtol=0, atol=1e-13)
    assert (output[2] - wanted[2, 2]).abs().min() > 1e-6


def test_without_a_seed_each_step_draws_anew_from_the_generator_of_torch():
    module, x = NOISY["DiscreteRNN"](), samples()[0]
    torch.manual_seed(1)
    one, other = module.live_step(x)[0], module.live_step(x)[0]
    torch.manual_seed(1)
    assert torch.equal(module.live_step(x)[0], one)
    assert (one - other).abs().min() > 1e-8


@pytest.mark.parametrize("name", JUMPS)
def test_a_stream_of_observations_is_their_sequence(name):
    module, xs, seen = JUMPS[name](), samples(), torch.rand(TIME, BATCH, INPUT) < 0.6
    held = isinstance(module, discretize.HeldJumpRNN)
    ts = torch.rand(TIME + held, dtype=torch.float64).cumsum(0)
    since = ts.diff().tolist() if held else [None, *ts.diff().tolist()]  # nothing before the first one
    assert_close(streamed(module, xs, dt=since), module(xs, ts=ts), rtol=0, atol=1e-6)
    assert_close(streamed(module, xs, observed=seen), module(xs, observed=seen), rtol=0, atol=1e-6)
    reset = torch.rand(TIME, BATCH) < 0.4
    assert_close(streamed(module, xs, reset=reset), module(xs, reset=reset), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", [*MODULES, "ODE-RNN"])
def test_gradients_of_a_stream_are_those_of_its_sequence(name):
    module, xs = (MODULES | JUMPS)[name](), samples().requires_grad_()
    learned = [xs, *module.parameters()]
    found, wanted = (
        torch.autograd.grad(run(module, xs)[0].square().sum(), learned, allow_unused=True, materialize_grads=True)
        for run in (streamed, whole)
    )
    assert_close(found, wanted, rtol=0, atol=1e-6 if name in JUMPS else off(module) * 1e2)


@pytest.mark.parametrize("name", ["DiscreteRNN of gru", "DiscreteRNN of lstm", "layers"])
def test_a_gradient_is_cut_where_the_state_is_detached(name):
    module, xs = MODULES[name](), samples()
    with torch.no_grad():
        _, start = streamed(module, xs[:3])
    output, _ = streamed(module, xs[3:], start)
    short, _ = module(xs[3:], start)
    found, wanted = (torch.autograd.grad(y.square().sum(), [*module.parameters()]) for y in (output, short))
    assert_close(found, wanted, rtol=0, atol=1e-12)


def test_a_length_that_is_a_tensor_has_a_gradient():
    module, x, h = DiscreteRNN(ctrnn.gated(INPUT, UNITS), "heun"), samples()[0], torch.randn(1, BATCH, UNITS)
    module.live_step(x, h)
    dt = (torch.rand(BATCH) + 0.5).requires_grad_()
    assert torch.autograd.gradcheck(lambda dt: module.live_step(x, h, dt)[0], dt)
