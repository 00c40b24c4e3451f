"""Decays against their closed forms, and their slopes where h = 0."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import ctrnn

EXPONENTS = [0.0, 0.5, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("r", EXPONENTS)
def test_power_decay_is_its_formula(r):
    h = torch.tensor([-3.0, -1.0, -0.01, 0.0, 0.2, 1.0, 5.0])
    expected = torch.from_numpy(np.abs(h.numpy()) ** r * h.numpy())
    assert_close(ctrnn.PowerDecay(r)(h), expected, rtol=1e-15 * 8, atol=0)  # a few ulp of pow


@pytest.mark.parametrize("r", EXPONENTS)
def test_the_leak_times_the_state_is_the_decay(r):
    decay, h = ctrnn.PowerDecay(r), torch.cat([torch.randn(50), torch.zeros(1)])
    assert bool((decay.leak(h) >= 0).all())
    assert_close(decay.leak(h) * h, decay(h), rtol=1e-14, atol=0)  # two powers, a few ulp each
    at_rest = 1.0 if r == 0 else 0.0
    assert float(decay.leak(torch.zeros(()))) == at_rest


@pytest.mark.parametrize("r", EXPONENTS)
def test_the_slope_is_r_plus_one_times_the_power_also_at_zero(r):
    h = torch.tensor([-2.0, -0.3, 0.0, 0.5, 1.7], requires_grad=True)
    (slope,) = torch.autograd.grad(ctrnn.PowerDecay(r)(h).sum(), h)
    expected = (r + 1) * np.abs(h.detach().numpy()) ** r  # numpy's 0**0 is 1, as the linear decay's slope
    assert_close(slope, torch.from_numpy(expected), rtol=1e-14, atol=0)  # a few ulp of pow


@pytest.mark.parametrize("r", [*EXPONENTS, 0.01, 0.99, 1.01])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_where_every_sequence_starts(r, dtype):
    decay = ctrnn.PowerDecay(r)
    for f in (decay, decay.leak, lambda h: decay.leak(h) * h):
        h = torch.zeros(3, dtype=dtype, requires_grad=True)
        value = f(h).sum()
        if value.requires_grad:
            (slope,) = torch.autograd.grad(value, h)
            assert bool(torch.isfinite(slope).all())


@pytest.mark.parametrize("r", [0.5, 1.0, 2.0, 3.0])
def test_gradcheck_of_decay_and_leak(r):
    h = torch.tensor([-2.0, -0.3, 0.5, 1.7], requires_grad=True)
    assert torch.autograd.gradcheck(ctrnn.PowerDecay(r), (h,))
    assert torch.autograd.gradcheck(ctrnn.PowerDecay(r).leak, (h,))


@pytest.mark.parametrize(
    ("exponent", "error", "message"),
    [
        (-0.5, ValueError, "`exponent` must be at least 0, got -0.5: .* unbounded at h = 0"),
        (float("nan"), ValueError, "`exponent` must be finite, got nan"),
        ("2", TypeError, "`exponent` must be a number, got '2'"),
    ],
)
def test_an_exponent_that_is_no_exponent_is_refused(exponent, error, message):
    with pytest.raises(error, match=message):
        ctrnn.PowerDecay(exponent)


def test_linear_decay_is_the_state_itself():
    h = torch.randn(4, 5)
    assert_close(ctrnn.LinearDecay()(h), h, rtol=0, atol=0)
    assert_close(ctrnn.LinearDecay().leak(h), torch.ones(4, 5), rtol=0, atol=0)


def test_the_exponent_can_be_read_off():
    assert repr(ctrnn.PowerDecay(2)) == "PowerDecay(2)"
    assert ctrnn.PowerDecay(2).exponent == 2.0
    learned = ctrnn.PowerDecay(2, learnable=True, hidden_size=3)
    assert repr(learned) == "PowerDecay(learnable=True, hidden_size=3)"
    assert_close(learned.exponent, torch.full((3,), 2.0), rtol=1e-15, atol=0)
    assert ctrnn.gated(2, 3, decay=learned).equations[0] == "dh/dt = g * (tanh(Wx x + Wh h + b) - |h|^(softplus(r)) h)"


def test_a_learned_exponent_is_the_fixed_one_and_each_unit_has_its_own():
    h, starts = torch.randn(6, 3), torch.tensor([0.5, 1.0, 3.0])
    learned = ctrnn.PowerDecay(starts, learnable=True, hidden_size=3)
    for unit, r in enumerate(starts.tolist()):
        fixed, own = ctrnn.PowerDecay(r), h[:, unit]
        for ours, theirs in ((learned(h), fixed(own)), (learned.leak(h), fixed.leak(own))):
            assert_close(ours[:, unit], theirs, rtol=1e-13, atol=0)  # a logarithm and its inverse
        assert_close(learned.after(h, torch.tensor(3.0))[:, unit], fixed.after(own, torch.tensor(3.0)), rtol=1e-13, atol=0)


def test_the_gradient_to_a_learned_exponent_is_that_of_finite_differences():
    decay, h = ctrnn.PowerDecay(0.8, learnable=True), torch.tensor([-2.0, -0.3, 0.5, 1.7], requires_grad=True)

    def all_of_it(argument, h):
        return torch.func.functional_call(decay, {"exponent_argument": argument}, (h,))

    assert torch.autograd.gradcheck(all_of_it, (decay.exponent_argument, h))


def test_a_learned_exponent_has_the_dtype_and_the_device_it_is_given():
    decay = ctrnn.PowerDecay(1.0, learnable=True, dtype=torch.float32, device="meta")
    assert (decay.exponent_argument.dtype, decay.exponent_argument.device.type) == (torch.float32, "meta")
    assert ctrnn.leaky(2, 3, decay=ctrnn.PowerDecay(1.0, learnable=True), dtype=torch.float64).dtype == torch.float64


def test_an_exponent_for_other_units_is_refused():
    message = "`decay` has hidden_size 4, `candidate` has 3; they read the same x and h."
    with pytest.raises(ValueError, match=message):
        ctrnn.gated(2, 3, decay=ctrnn.PowerDecay(1.0, learnable=True, hidden_size=4))
    with pytest.raises(ValueError, match="`hidden_size` is for exponents that are learned"):
        ctrnn.PowerDecay(1.0, hidden_size=4)
    for wrong in (0.0, torch.tensor([1.0, -1.0])):
        with pytest.raises(ValueError, match="`exponent` must be positive and finite where it is learned"):
            ctrnn.PowerDecay(wrong, learnable=True, hidden_size=2)


def test_a_decay_of_the_user_is_followed_with_the_leak_it_starts_with():
    class Stiff(ctrnn.Decay):
        def leak(self, h):
            return 1 + h**2

    h = torch.randn(5)
    assert_close(Stiff().after(h, torch.full((5,), 0.5)), h * torch.exp(-0.5 * (1 + h**2)))


@pytest.mark.parametrize("size", [None, 4])
def test_a_learned_exponent_stays_above_0_however_long_it_is_pushed_down(size):
    decay, h = ctrnn.PowerDecay(0.3, learnable=True, hidden_size=size), torch.linspace(-2, 2, 4)
    optimizer = torch.optim.SGD(decay.parameters(), lr=1.0)
    for _ in range(50):
        optimizer.zero_grad()
        decay.exponent.sum().backward()
        optimizer.step()
    assert bool((decay.exponent > 0).all())
    assert_close(decay(h), ctrnn.PowerDecay(decay.exponent.min().item())(h), rtol=1e-13, atol=0)


@pytest.mark.parametrize("decay", [ctrnn.LinearDecay(), *(ctrnn.PowerDecay(r) for r in (0, 0.5, 1, 2, 7.5))])
def test_what_is_left_after_a_while_solves_the_decay(decay):
    h, s = torch.randn(50), torch.rand(50) * 5
    left, slope = torch.func.jvp(lambda s: decay.after(h, s), (s,), (torch.ones(50),))
    assert_close(slope, -decay(left), rtol=1e-12, atol=1e-15)
    assert_close(decay.after(h, torch.zeros(())), h, rtol=0, atol=0)
    assert_close(decay.after(decay.after(h, s), 2 * s), decay.after(h, 3 * s), rtol=1e-13, atol=0)


@pytest.mark.parametrize("r", [0.3, 1.0, 2.0])
def test_what_is_left_of_nothing_is_nothing_with_a_finite_gradient(r):
    h = torch.zeros(1, requires_grad=True)
    left = ctrnn.PowerDecay(r).after(h, torch.ones(1))
    assert left == 0
    (slope,) = torch.autograd.grad(left, h)
    assert slope == 1


@pytest.mark.parametrize("learnable", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_left_in_half_precision_is_that_of_float64_to_its_rounding(dtype, learnable):
    decay, h = ctrnn.PowerDecay(2.0, learnable), torch.tensor([-300.0, -2.0, 0.0, 0.03, 0.5, 1.0, 20.0, 255.0])
    for s in (1e-3, 0.1, 3.0):
        exact = decay.after(h, torch.full_like(h, s))
        found = decay.to(dtype).after(h.to(dtype), torch.full_like(h, s, dtype=dtype))
        assert found.dtype == dtype
        # h, s and r are rounded before, and what is left after.
        assert_close(found.double(), exact, rtol=4 * torch.finfo(dtype).eps, atol=0)
        decay = decay.double()
