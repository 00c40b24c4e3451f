"""The minimal gated unit is a gated field, and its time scales are those of the gate."""

import torch
from torch.testing import assert_close

import ctrnn


def test_chrono_sets_the_gate_and_timescales_read_it_back():
    field = ctrnn.init.chrono_(ctrnn.mgu(3, 50, num_layers=2), 40, t_min=10, generator=torch.Generator().manual_seed(0))
    found = ctrnn.timescales(field)
    assert found.shape == (100,)
    assert 10 <= found.min() < 15
    assert 35 < found.max() <= 40
    bottom = field.fields[0]
    assert_close(1 / torch.sigmoid(bottom.rate.bias).detach(), found[50:], rtol=1e-12, atol=0)


def test_with_an_open_gate_it_is_the_plain_field():
    field, x, h = ctrnn.mgu(3, 5), torch.randn(4, 3), torch.randn(4, 5)
    with torch.no_grad():
        field.rate.weight_x.zero_()
        field.rate.weight_h.zero_()
        field.rate.bias.fill_(40.0)  # sigma(40) is 1 in float64
    plain = ctrnn.Relaxation(field.candidate, ctrnn.FixedRate(1.0), ctrnn.LinearDecay())
    assert_close(field(x, h), plain(x, h), rtol=0, atol=1e-15)
