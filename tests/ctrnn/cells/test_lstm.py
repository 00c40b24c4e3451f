"""The LSTM's field against the paper's gates, written again in NumPy."""

from functools import partial

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize

GATES = (torch.sigmoid, torch.sigmoid, torch.tanh, torch.sigmoid)


def gates_by_hand(field, x, h):
    w = {name: value.detach().numpy() for name, value in field.named_parameters()}
    z = x.numpy() @ w["gates.weight_x"].T + h.numpy() @ w["gates.weight_h"].T + w.get("gates.bias", 0.0)
    i, f, g, o = np.split(z, 4, -1)
    i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
    return i, f, np.tanh(g), o


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch", [1, 4, 5])
def test_the_field_is_its_equations(bias, batch):
    field = ctrnn.lstm(3, 5, bias=bias)
    x, h, c = torch.randn(batch, 3), torch.randn(batch, 5), torch.randn(batch, 5)
    i, f, g, o = gates_by_hand(field, x, h)
    H, C = h.numpy(), c.numpy()
    dc = (f - 1) * C + i * g
    dh = o * np.tanh(f * C + i * g) - H
    expected = torch.from_numpy(np.concatenate([dh, dc], -1))
    assert_close(field(x, torch.cat([h, c], -1)), expected, rtol=0, atol=1e-14)  # rounding of a dozen terms


def test_the_leak_is_one_for_h_and_one_minus_f_for_c():
    field = ctrnn.lstm(3, 5)
    x, h, c = torch.randn(4, 3), torch.randn(4, 5), torch.randn(4, 5)
    i, f, g, o = gates_by_hand(field, x, h)
    leak = field.leak(field.project(x), torch.cat([h, c], -1))
    assert_close(leak, torch.from_numpy(np.concatenate([np.ones((4, 5)), 1 - f], -1)), rtol=0, atol=1e-14)  # rounding
    rest = field(x, torch.cat([h, c], -1)) + leak * torch.cat([h, c], -1)
    expected = np.concatenate([o * np.tanh(f * c.numpy() + i * g), i * g], -1)
    assert_close(rest, torch.from_numpy(expected), rtol=0, atol=1e-14)  # rounding


def test_the_leak_keeps_its_digits_where_the_gate_is_almost_open():
    field = ctrnn.lstm(3, 1, dtype=torch.float32)
    with torch.no_grad():
        field.gates.weight_x.zero_()
        field.gates.weight_h.zero_()
        field.gates.bias.fill_(20.0)
    leak = field.leak(field.project(torch.zeros(1, 3, dtype=torch.float32)), field.initial_state(1))
    assert_close(leak[0, 1].item(), 1 / (1 + np.exp(20.0)), rtol=1e-6, atol=0)  # float32; 1 - f would be 0


def test_a_forget_gate_tied_to_the_input_gate_gives_the_product_form():
    field = ctrnn.lstm(3, 5)
    with torch.no_grad():  # f = 1 - i: the rows of f are those of i with the other sign
        for weight in field.gates.parameters():
            weight[5:10] = -weight[:5]
    x, h, c = torch.randn(4, 3), torch.randn(4, 5), torch.randn(4, 5)
    i, _, g, _ = gates_by_hand(field, x, h)
    dc = field(x, torch.cat([h, c], -1))[:, 5:]
    assert_close(dc, torch.from_numpy(i * (g - c.numpy())), rtol=0, atol=1e-14)  # rounding


def test_the_state_is_twice_the_visible_units():
    field = ctrnn.LSTMField(3, 5)
    assert (field.hidden_size, field.state_size) == (5, 10)
    with pytest.raises(ValueError, match=r"`h` has 5 units.*keeps 10"):
        field(torch.zeros(4, 3), torch.zeros(4, 5))


@pytest.mark.parametrize("exponent", [0.5, 2.0])
def test_under_a_power_decay_the_cell_forgets_by_it_and_h_follows_the_new_cell(exponent):
    field = ctrnn.lstm(3, 5, decay=ctrnn.PowerDecay(exponent))
    x, h, c = torch.randn(4, 3), torch.randn(4, 5), torch.randn(4, 5)
    i, f, g, o = gates_by_hand(field, x, h)
    H, C = h.numpy(), c.numpy()
    dc = i * g - (1 - f) * np.abs(C) ** exponent * C
    expected = torch.from_numpy(np.concatenate([o * np.tanh(C + dc) - H, dc], -1))
    state = torch.cat([h, c], -1)
    assert_close(field(x, state), expected, rtol=0, atol=1e-14)  # rounding of a dozen terms
    projected = field.project(x)
    leak = torch.from_numpy(np.concatenate([np.ones((4, 5)), (1 - f) * np.abs(C) ** exponent], -1))
    assert_close(field.leak(projected, state), leak, rtol=0, atol=1e-14)  # rounding
    assert_close(field.flow_without_leak(projected, state), expected + leak * state, rtol=0, atol=1e-14)  # rounding


def test_the_power_0_is_the_lstm_to_the_last_bit():
    usual = ctrnn.lstm(3, 5)
    ours = ctrnn.lstm(3, 5, decay=ctrnn.PowerDecay(0))
    ours.load_state_dict(usual.state_dict())
    x, state = torch.randn(7, 3), torch.randn(7, 10)
    i, f, g, _ = (gate(z) for gate, z in zip(GATES, usual.gates(x, state[:, :5]).chunk(4, -1), strict=True))
    carried = f * state[:, 5:] + i * g
    for field in (usual, ours):
        assert bool((field(x, state)[:, 5:] == carried - state[:, 5:]).all())
        assert bool((field(x, state) == usual(x, state)).all())


def test_a_cell_that_nothing_is_written_into_forgets_by_the_closed_form():
    field = ctrnn.lstm(3, 5, decay=ctrnn.PowerDecay(2.0))
    with torch.no_grad():
        for weight in field.gates.parameters():
            weight.zero_()  # f = 1/2, g = 0
    c = torch.randn(4, 5)
    state = torch.cat([torch.zeros(4, 5), c], -1)
    left = discretize.Splitting().advance(field, field.project(torch.zeros(4, 3)), state, 40.0)[:, 5:]
    assert_close(left, c / (1 + 2 * 20 * c**2).sqrt(), rtol=1e-13, atol=0)  # a root and a power


def test_the_time_scale_of_a_cell_is_that_of_one_of_size_1():
    field = ctrnn.init.chrono_(ctrnn.lstm(3, 5, decay=ctrnn.PowerDecay(2.0)), 40, t_min=40)
    assert_close(ctrnn.timescales(field), torch.full((5,), 40.0), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("decay", "error", "message"),
    [
        (2.0, TypeError, r"`decay` must be a ctrnn.parts.Decay, got float; make one, such as `ctrnn.parts.PowerDecay\(2.0\)`"),
        (ctrnn.PowerDecay(2.0, learnable=True, hidden_size=4), ValueError, "`decay` has hidden_size 4, `gates` has 5"),
        (ctrnn.PowerDecay(2.0, learnable=True, dtype=torch.float32), TypeError, "`decay` has parameters of torch.float32"),
    ],
)
def test_a_decay_that_is_none_for_these_cells_is_refused(decay, error, message):
    with pytest.raises(error, match=message):
        ctrnn.lstm(3, 5, decay=decay)


@pytest.mark.slow
@pytest.mark.parametrize(
    "decay", [ctrnn.PowerDecay(2.0), ctrnn.PowerDecay(0.5, learnable=True, hidden_size=5, dtype=torch.float64)]
)
def test_kernels_are_written_for_its_code_for_sequences_and_for_solves(decay):
    field, samples = ctrnn.lstm(3, 5, decay=decay), torch.randn(1100, 2, 3)
    for make in (partial(discretize.DiscreteRNN, field, discretize.Splitting()), partial(discretize.ContinuousRNN, field)):
        gradients = []
        for fused, engine in (("always", "compiled"), (False, "steps")):
            module = make(fused=fused)
            states, _ = module(samples)
            assert module.stats["engine"] == engine
            gradients.append(torch.autograd.grad(states.sum(), list(field.parameters())))
        for ours, theirs in zip(*gradients, strict=True):
            assert_close(ours, theirs, rtol=1e-9, atol=1e-9 * float(theirs.abs().max()))  # sums of a thousand steps
