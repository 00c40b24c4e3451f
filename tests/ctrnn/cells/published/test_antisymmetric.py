"""What antisymmetric weights are for: the recurrence neither grows nor forgets, but by gamma."""

import math

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize


def test_the_recurrence_has_eigenvalues_with_the_real_part_of_minus_gamma():
    field, zero = ctrnn.antisymmetric(3, 6, gamma=0.2), torch.zeros(1, 3)
    eigenvalues = torch.linalg.eigvals(field.jacobian(field.project(zero), field.initial_state(1)))[0]  # at h = 0, tanh' = 1
    assert_close(eigenvalues.real, torch.full((6,), -0.2), rtol=0, atol=1e-14)
    assert eigenvalues.imag.abs().max() > 0.1


def test_without_diffusion_an_undriven_state_of_two_units_keeps_its_energy():
    # dh/dt = tanh(w [h_2, -h_1]) has the invariant log cosh(w h_1) + log cosh(w h_2).
    field = ctrnn.antisymmetric(1, 2, gamma=0.0, bias=False)
    w = (field.weight_h - field.weight_h.T)[0, 1].detach()
    ts, h0 = torch.tensor([0.0, 3.0, 8.0]), torch.tensor([[0.9, -0.4]])
    path = ctrnn.HeldPath(torch.zeros(1, 1, 1), torch.tensor([0.0, 8.0]))
    hs = discretize.integrate(field, path, h0, ts, rtol=1e-10, atol=1e-12).hs
    energy = torch.log(torch.cosh(w * hs)).sum(-1)
    assert_close(energy, energy[:1].expand_as(energy), rtol=1e-8, atol=0)
    assert (hs[1] - hs[0]).abs().max() > 0.1


def test_the_antisymmetric_network_forgets_by_its_damping_which_no_bias_sets():
    field = ctrnn.antisymmetric(3, 5, gamma=0.02)
    torch.nn.init.zeros_(field.bias)
    assert_close(ctrnn.timescales(field), torch.full((5,), 1 / math.tanh(0.02)))
    with pytest.raises(ValueError, match="no bias makes the leak 1/T for T = "):
        ctrnn.init.chrono_(field, 100)


def test_a_negative_diffusion_and_a_gate_that_is_no_flag_are_refused():
    with pytest.raises(ValueError, match=r"`gamma` must be at least 0, got -0\.1"):
        ctrnn.antisymmetric(3, 5, gamma=-0.1)
    with pytest.raises(TypeError, match="`gated` must be True or False, got 'unit'"):
        ctrnn.antisymmetric(3, 5, gated="unit")


@pytest.mark.parametrize("gated", [False, True])
def test_sums_of_weights_start_with_variance_1(gated):
    field = ctrnn.antisymmetric(100, 400, gated=gated, generator=torch.Generator().manual_seed(0))
    assert_close(field.weight_h.std().item(), 400**-0.5, rtol=0.01, atol=0)  # of 160000 draws
    assert_close(field.weight_x.std().item(), 0.1, rtol=0.01, atol=0)
    assert not field.bias.any()
