"""coRNN and UnICORNN against what is known of oscillators, and LEM's time scales."""

import math

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize


def silent(field):
    """Without force: what is left is the oscillator."""
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.zero_()
    return field


def at(t):
    return ctrnn.HeldPath(torch.zeros(1, 1, 3), torch.tensor([0.0, t])), torch.tensor([0.0, t])


def test_without_force_cornn_is_the_damped_oscillation():
    gamma, epsilon, t = 1.7, 0.3, 4.0
    field, (path, ts) = silent(ctrnn.cornn(3, 1, gamma, epsilon)), at(t)
    h = discretize.integrate(field, path, torch.tensor([[1.0, 0.0]]), ts, rtol=1e-11, atol=1e-12).hs[-1]
    w = math.sqrt(gamma - epsilon**2 / 4)
    expected = math.exp(-epsilon / 2 * t) * (math.cos(w * t) + epsilon / (2 * w) * math.sin(w * t))
    assert_close(h[0, 0].item(), expected, rtol=0, atol=1e-9)


def test_unicornn_keeps_the_energy_of_each_unit_while_its_input_is_held():
    field, x, h0 = ctrnn.unicornn(3, 5, alpha=0.7), torch.randn(1, 3), torch.randn(1, 10)
    path = ctrnn.HeldPath(x[None], torch.tensor([0.0, 9.0]))
    hs = discretize.integrate(field, path, h0, torch.linspace(0, 9, 7), rtol=1e-11, atol=1e-12).hs.detach()
    y, z = hs.chunk(2, -1)
    w, push = field.weight_h.detach(), field.project(x).detach()
    energy = z**2 / 2 + 0.7 * y**2 / 2 + torch.log(torch.cosh(w * y + push)) / w
    assert_close(energy, energy[:1].expand_as(energy), rtol=1e-8, atol=0)


def test_the_published_step_of_unicornn_converges_to_its_exact_solution_with_order_1():
    field, xs = ctrnn.unicornn(3, 5), torch.randn(4, 2, 3)
    with torch.no_grad():
        exact = discretize.ContinuousRNN(field, rtol=1e-11, atol=1e-12)(xs)[0]
        steps = [discretize.DiscreteRNN(field, discretize.SymplecticEuler(), substeps=n)(xs)[0] for n in (32, 64)]
    off = [float((stepped - exact).abs().max()) for stepped in steps]
    assert math.log2(off[0] / off[1]) == pytest.approx(1, abs=0.05)


def test_the_jacobian_of_unicornn_is_that_of_its_flow_and_costs_one_evaluation():
    field, x, h = ctrnn.unicornn(3, 5), torch.randn(4, 3), torch.randn(4, 10)
    theirs = ctrnn.VectorField.jacobian(field, field.project(x), h)
    assert_close(field.jacobian(field.project(x), h), theirs, rtol=0, atol=1e-14)
    assert discretize.ExponentialRosenbrock().cost(field) == 2
    stiff = discretize.ContinuousRNN(field, method="rodas5p", rtol=1e-8)(x[None])[0]  # which compares it with `flow`
    assert_close(stiff, discretize.ContinuousRNN(field, rtol=1e-8, atol=1e-10)(x[None])[0], rtol=0, atol=1e-7)


def test_weights_start_as_in_the_code_of_the_authors():
    generator = torch.Generator().manual_seed(0)
    cornn, unicornn = (make(30, 400, generator=generator) for make in (ctrnn.cornn, ctrnn.unicornn))
    for weights in cornn.force.parameters():
        assert_close(weights.abs().max().item(), 830**-0.5, rtol=0.01, atol=0)
    assert_close(unicornn.weight_x.abs().max().item(), math.sqrt(6 / (65 * 30)), rtol=0.003, atol=0)
    assert_close(
        torch.stack([unicornn.weight_h.min(), unicornn.weight_h.max()]).detach(), torch.tensor([0.0, 1.0]), rtol=0, atol=0.02
    )
    assert_close(unicornn.c.abs().max().item(), 0.1, rtol=0.02, atol=0)
    assert not unicornn.bias.any()


def test_chrono_sets_the_gates_of_both_states_of_lem():
    field = ctrnn.init.chrono_(ctrnn.lem(3, 200), 40, t_min=10, generator=torch.Generator().manual_seed(0))
    rates = field.leak(field.project(torch.zeros(1, 3)), field.initial_state(1))[0].detach()
    times = 1 / rates
    assert_close(times[:200], ctrnn.timescales(field), rtol=1e-14, atol=0)
    assert 10 <= times.min() < 10.5
    assert 39.5 < times.max() <= 40
    assert_close(times.mean().item(), 25.0, rtol=0.1, atol=0)  # of 400 draws


@pytest.mark.parametrize("field", [ctrnn.cornn(3, 5), ctrnn.unicornn(3, 5)])
def test_oscillators_have_no_time_scales(field):
    with pytest.raises(TypeError, match="have no leak at rest, and so no forgetting time"):
        ctrnn.timescales(field)
    with pytest.raises(TypeError, match="whose leak at rest no bias of its own sets"):
        ctrnn.init.chrono_(field, 100)


@pytest.mark.parametrize(("make", "name"), [(ctrnn.cornn, "gamma"), (ctrnn.cornn, "epsilon"), (ctrnn.unicornn, "alpha")])
def test_negative_constants_are_refused(make, name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least 0"):
        make(3, 5, **{name: -1.0})
