"""Forgetting times: against the solved field, the closed form of slow decay, and what a discrete cell keeps."""

import math

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from ctrnn.cells.timescales import remembered


def alone(field, bias=None):
    """Without weights and without a candidate: what is left of a state is all there is."""
    with torch.no_grad():
        for name, parameter in field.named_parameters():
            if "weight" in name or name == "candidate.bias":
                parameter.zero_()
        if bias is not None:
            field.rate.bias.copy_(torch.as_tensor(bias))
    return field


def left(field, time, start=1.0):
    """The state after so long, solved."""
    path = ctrnn.HeldPath(torch.zeros(1, 1, field.input_size), torch.tensor([0.0, time]))
    h0 = torch.full((1, field.state_size), start)
    with torch.no_grad():
        return discretize.integrate(field, path, h0, [0.0, time], method="dopri8", rtol=1e-10, atol=1e-12, fused=False).hs[-1, 0]


@pytest.mark.parametrize("gate", ["unit", "global", "network"])
@pytest.mark.parametrize("rate", ["sigmoid", "softplus", "exponential"])
def test_after_its_time_scale_one_over_e_is_left(gate, rate):
    field = alone(ctrnn.gated(2, 3, gate, rate=rate), -2.0)
    T = ctrnn.timescales(field)
    assert T.shape == (3,)
    assert_close(field.visible(left(field, float(T[0]))), torch.full((3,), math.exp(-1)), rtol=1e-8, atol=0)


def test_every_unit_has_its_own_time_scale_and_a_gate_for_all_gives_all_the_same():
    assert_close(ctrnn.timescales(alone(ctrnn.gated(2, 3), [0.0, -math.log(4), -math.log(49)])), torch.tensor([2.0, 5.0, 50.0]),
                 rtol=1e-14, atol=0)  # fmt: skip
    assert len(set(ctrnn.timescales(ctrnn.gated(2, 3, "global")).tolist())) == 1
    assert_close(ctrnn.timescales(ctrnn.leaky(2, 3, 0.1)), torch.full((3,), 10.0), rtol=1e-14, atol=0)
    assert_close(ctrnn.timescales(ctrnn.plain(2, 3)), torch.ones(3), rtol=0, atol=0)
    assert_close(ctrnn.timescales(ctrnn.gated(2, 3, bias=False)), torch.full((3,), 2.0), rtol=0, atol=0)


def test_the_time_scale_of_an_lstm_is_that_of_its_cell():
    field = ctrnn.lstm(2, 3)
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.zero_()
        field.gates.bias[3:6] = torch.tensor([0.0, math.log(4), math.log(49)])
    T = ctrnn.timescales(field)
    assert_close(T, torch.tensor([2.0, 5.0, 50.0]), rtol=1e-13, atol=0)
    for k in range(3):
        assert_close(left(field, float(T[k]))[3 + k], torch.tensor(math.exp(-1)), rtol=1e-8, atol=0)


def test_time_scales_of_a_stack_are_in_the_order_of_its_state():
    layers = [ctrnn.gated(2, 4), ctrnn.lstm(4, 3), ctrnn.gru(3, 2)]
    stack = ctrnn.Stack(layers)
    bottom, middle, top = (ctrnn.timescales(layer) for layer in layers)
    assert torch.equal(ctrnn.timescales(stack), torch.cat([top, middle, bottom]))
    assert torch.equal(stack.visible(ctrnn.timescales(stack)), top)
    state = torch.arange(float(stack.state_size))  # top 2, then h and c of 3 each, then 4
    assert remembered(stack, state).tolist() == [0, 1, 5, 6, 7, 8, 9, 10, 11]
    assert remembered(layers[1], state[:6]).tolist() == [3, 4, 5]
    assert remembered(ctrnn.gated(2, 3, "network"), state[:6]).tolist() == [0, 1, 2]


def test_a_field_of_the_user_may_say_its_leak():
    assert torch.equal(ctrnn.timescales(Known(2, 3, 5)), torch.full((3,), 4.0))


def test_time_scales_have_the_dtype_of_the_field_and_no_gradient():
    T = ctrnn.timescales(ctrnn.gated(2, 3, dtype=torch.float32))
    assert T.dtype == torch.float32
    assert not T.requires_grad


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, 3.0])
def test_under_slow_decay_it_is_the_time_scale_of_a_state_of_size_one(exponent):
    field = alone(ctrnn.gated(1, 1, decay=ctrnn.PowerDecay(exponent)), -3.0)
    T = ctrnn.timescales(field).item()
    assert pytest.approx(1 + math.exp(3), rel=1e-13) == T
    for size in (1.0, 0.5):  # of size |h| it is |h|^-r of it
        half = (2**exponent - 1) / exponent * T * size**-exponent
        assert float(left(field, half, size)) == pytest.approx(size / 2, rel=1e-8)
        tenth = (math.e**exponent - 1) / exponent * T * size**-exponent
        assert float(left(field, tenth, size)) == pytest.approx(size / math.e, rel=1e-8)
        assert (size - float(left(field, 1e-4 * T, size))) / size == pytest.approx(1e-4 * size**exponent, rel=1e-3)


@pytest.mark.parametrize("T", [2.0, 5.0, 50.0])
def test_the_discrete_cell_gets_there_earlier_by_the_factor_that_is_documented(T):
    field = alone(ctrnn.gated(1, 1), -math.log(T - 1))
    assert float(ctrnn.timescales(field)) == pytest.approx(T, rel=1e-13)
    hs, _ = discretize.DiscreteRNN(field)(torch.zeros(10, 1, 1), torch.ones(1, 1))
    steps = -10 / math.log(hs[-1].item())
    assert steps == pytest.approx(1 / math.log(T / (T - 1)), rel=1e-12)
    assert steps == pytest.approx(T - 1 / 2 - 1 / (12 * T), abs=1 / (12 * T**2))


class Own(ctrnn.VectorField):
    def flow(self, projected, h):
        return -0.25 * h


class Known(Own):
    def leak(self, projected, h):
        return torch.full_like(h, 0.25)


@pytest.mark.parametrize("other", [None, torch.nn.LSTM(2, 3), 50.0])
def test_what_is_no_field_is_refused_and_sent_to_from_torch(other):
    with pytest.raises(TypeError, match=r"`field` must be a ctrnn.VectorField.*from_torch"):
        ctrnn.timescales(other)
