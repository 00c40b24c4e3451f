"""The LSTM's field against the paper's gates, written again in NumPy."""

import numpy as np
import pytest
import torch
from cases import each
from torch.testing import assert_close

import ctrnn


def gates_by_hand(field, x, h):
    w = {name: value.detach().numpy() for name, value in field.named_parameters()}
    z = x.numpy() @ w["gates.weight_x"].T + h.numpy() @ w["gates.weight_h"].T + w.get("gates.bias", 0.0)
    i, f, g, o = np.split(z, 4, -1)
    i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
    return i, f, np.tanh(g), o


@each("bias", [True, False])
@each("batch", [1, 4, 5])
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
