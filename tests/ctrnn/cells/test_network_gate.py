"""A gate with a network of its own: against its equations in NumPy, and against fields it contains."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import ctrnn
from ctrnn.cells.network_gate import NetworkGated


def affine(part, x, h):
    w = {name: value.detach().numpy() for name, value in part.named_parameters()}
    return x @ w["weight_x"].T + h @ w["weight_h"].T + w.get("bias", 0.0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("batch", "hidden"), [(1, 5), (4, 5), (5, 5), (2, 1)])
def test_the_field_is_equation_9(batch, hidden, bias):
    field = ctrnn.gated(3, hidden, gate="network", bias=bias)
    x, h, hg = (torch.randn(batch, n).numpy() for n in (3, hidden, hidden))
    g = 1 / (1 + np.exp(-affine(field.rate, x, hg)))
    assert g.shape == (batch, 1)
    dh = g * (np.tanh(affine(field.candidate, x, h)) - h)
    dhg = np.tanh(affine(field.network.candidate, x, hg)) - hg
    found = field(torch.from_numpy(x), torch.from_numpy(np.concatenate([h, hg], -1)))
    assert_close(found, torch.from_numpy(np.concatenate([dh, dhg], -1)), rtol=0, atol=1e-14)  # rounding of a dozen terms


def test_the_main_units_do_not_reach_the_gate():
    field = ctrnn.gated(3, 4, gate="network")
    x, h = torch.randn(2, 3), torch.randn(2, 8, requires_grad=True)
    (slope,) = torch.autograd.grad(field(x, h)[:, 4:].sum(), h)
    assert slope[:, :4].abs().max() == 0
    assert slope[:, 4:].abs().min() > 0


def test_only_the_main_units_are_visible_and_all_start_at_zero():
    field = ctrnn.gated(3, 4, gate="network")
    assert (field.hidden_size, field.state_size) == (4, 8)
    assert field.visible(torch.arange(8.0)).tolist() == [0, 1, 2, 3]
    assert field.initial_state(2).shape == (2, 8)


def test_the_leak_is_the_gate_for_h_and_one_for_its_network():
    field = ctrnn.gated(3, 4, gate="network", decay=ctrnn.PowerDecay(2.0))
    x, h = torch.randn(2, 3), torch.randn(2, 8)
    leak = field.leak(field.project(x), h)
    g = field.rate(x, h[:, 4:])
    assert_close(leak, torch.cat([g * h[:, :4].abs() ** 2, torch.ones(2, 4)], -1), rtol=0, atol=1e-15)
    rest = field(x, h) + leak * h
    assert_close(rest[:, :4], g * field.candidate(x, h[:, :4]), rtol=0, atol=1e-14)  # rounding


def test_with_a_gate_per_unit_it_is_built_from_parts():
    rate = ctrnn.GateRate(3, 4)
    field = ctrnn.NetworkGated(ctrnn.TanhCandidate(3, 4), rate, ctrnn.LinearDecay(), ctrnn.plain(3, 4))
    x, h = torch.randn(2, 3), torch.randn(2, 8)
    assert_close(field(x, h)[:, :4], rate(x, h[:, 4:]) * (field.candidate(x, h[:, :4]) - h[:, :4]), rtol=0, atol=1e-15)


def test_gradients_reach_every_parameter_and_are_right():
    field = ctrnn.gated(2, 3, gate="network")
    x, h = torch.randn(2, 2, requires_grad=True), torch.randn(2, 6, requires_grad=True)
    assert torch.autograd.gradcheck(field, (x, h))
    grads = torch.autograd.grad(field(x, h).square().sum(), list(field.parameters()))
    assert all(grad.abs().max() > 0 for grad in grads)


def test_the_same_generator_gives_the_same_field_and_others_are_as_before():
    def drawn(gate):
        return ctrnn.gated(3, 4, gate=gate, generator=torch.Generator().manual_seed(1)).state_dict()

    first, again, shared = drawn("network"), drawn("network"), drawn("global")
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert all(torch.equal(first[name], shared[name]) for name in shared)


def test_a_network_of_another_size_is_refused():
    parts = (ctrnn.TanhCandidate(3, 4), ctrnn.GateRate(3, 4), ctrnn.LinearDecay())
    with pytest.raises(ValueError, match="`network` has input_size 3 and hidden_size 5"):
        NetworkGated(*parts, ctrnn.plain(3, 5))
    with pytest.raises(TypeError, match=r"`network` must be a ctrnn\.VectorField, got Linear"):
        NetworkGated(*parts, torch.nn.Linear(3, 4))
    with pytest.raises(TypeError, match=r"`network` has parameters of torch\.float32"):
        NetworkGated(*parts, ctrnn.plain(3, 4, dtype=torch.float32))
