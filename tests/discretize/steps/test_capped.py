"""Euler's step with g dt capped: Euler's own below the cap, a known mean beyond, and no gradient in the rate there."""

import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import DiscreteCell, DiscreteRNN, Euler
from discretize.steps import CappedEuler


def field(gain: float = 1.0, dtype: torch.dtype = torch.float64) -> ctrnn.Relaxation:
    made = ctrnn.gated(3, 5, rate="softplus", dtype=dtype, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        made.rate.weight_x.mul_(gain)
    return made


def given(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(2)
    return tuple(torch.randn(40, n, generator=draw, dtype=torch.float64).to(dtype) for n in (3, 5))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_where_no_rate_comes_to_the_cap_it_is_eulers_step_to_the_bit(dtype):
    made, (x, h) = field(dtype=dtype), given(dtype)
    largest = float(made.leak(made.project(x), h).detach().max())
    assert_close(CappedEuler(1.01 * 0.7 * largest)(made, x, h, 0.7), Euler()(made, x, h, 0.7), rtol=0, atol=0)


@pytest.mark.parametrize("cap", [0.5, 1.0, 1.9])
def test_the_gate_is_the_smaller_of_g_dt_and_the_cap(cap):
    made, (x, h) = field(gain=20.0), given()
    projected = made.project(x)
    g = made.leak(projected, h)
    target = h + made.flow(projected, h) / g
    assert (0.3 * g > cap).any()
    assert (0.3 * g < cap).any()
    assert_close(CappedEuler(cap)(made, x, h, 0.3), h + (0.3 * g).clamp(max=cap) * (target - h))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("z", [3.0, 30.0, 80.0])  # rates to 5e34, whose square is no number in float32
def test_where_it_is_capped_a_rate_gets_no_gradient_and_the_target_gets_the_cap(z, dtype):
    made = ctrnn.gated(1, 1, rate="exponential", dtype=dtype)
    with torch.no_grad():
        made.rate.bias.fill_(z)
    x, h = torch.full((1, 1), 0.3, dtype=dtype), torch.full((1, 1), 0.2, dtype=dtype)
    after = CappedEuler(0.75)(made, x, h, 1.0)
    rate, target = torch.autograd.grad(after.sum(), [made.rate.bias, made.candidate.bias])
    projected = made.candidate.project(x)
    f = made.candidate.flow(projected, h)
    assert abs(rate.item()) <= 8 * torch.finfo(dtype).eps
    assert_close(target, (0.75 * (1 - f**2)).reshape(-1))


def test_states_of_a_cap_of_1_stay_between_the_targets_however_fast_the_rates():
    made, x = field(gain=1e6), torch.randn(200, 2, 3, dtype=torch.float64)
    states, _ = DiscreteRNN(made, CappedEuler())(x)
    assert float(states.detach().abs().max()) <= 1


class Undeclared(ctrnn.VectorField):
    """Relaxes as fast as its input says, and declares no leak."""

    def flow(self, projected, h):
        return projected.sum(-1, keepdim=True) ** 2 * (1 - h)


def test_a_field_without_a_leak_takes_eulers_step():
    made, (x, h) = Undeclared(3, 5), given()
    assert_close(CappedEuler(1e-3)(made, x, h, 0.1), Euler()(made, x, h, 0.1), rtol=0, atol=0)


@pytest.mark.kernels
def test_a_kernel_takes_the_cap_and_its_gradients():
    made, x = field(gain=20.0), torch.randn(30, 4, 3, dtype=torch.float64)
    ran = {}
    for fused in (False, "always"):
        rnn = DiscreteRNN(made, CappedEuler(0.8), dt=0.5, substeps=2, fused=fused)
        states, _ = rnn(x)
        ran[rnn.stats["engine"]] = states, *torch.autograd.grad(states.pow(2).sum(), list(made.parameters()))
    assert_close(ran["compiled"], ran["steps"])


def test_a_saved_model_keeps_its_cap(tmp_path):
    ctrnn.save(tmp_path / "model.safetensors", DiscreteRNN(field(), CappedEuler(0.6)))
    assert ctrnn.load(tmp_path / "model.safetensors").step.cap == 0.6


def test_the_step_warning_is_silent_where_a_cap_below_2_is_at_work(recwarn):
    DiscreteCell(field(gain=1e3), CappedEuler(1.5))(*given())
    assert not recwarn
    with pytest.warns(discretize.StepWarning, match="g dt up to"):
        DiscreteCell(field(gain=1e3), CappedEuler(2.5))(*given())


@pytest.mark.parametrize("cap", [0, -1.0, float("inf"), float("nan"), True, "1"])
def test_a_cap_is_a_positive_number(cap):
    with pytest.raises((TypeError, ValueError), match="`cap` must be"):
        CappedEuler(cap)


def test_the_dashed_name_is_the_step_with_a_cap_of_1():
    named, x = DiscreteRNN(field(gain=20.0), "capped-euler"), torch.randn(9, 2, 3, dtype=torch.float64)
    assert_close(named(x)[0], DiscreteRNN(named.field, CappedEuler(1.0))(x)[0], rtol=0, atol=0)
