"""Adaptive thresholds and FitzHugh-Nagumo units, against what is known of one such unit."""

import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from torch.testing import assert_close

import ctrnn
import discretize


def lone(make, bias):
    """One unit without input and recurrence, driven by its bias."""
    field = make(1, 1)
    drive = field.drive if isinstance(field, ctrnn.AdaptiveField) else field.current
    with torch.no_grad():
        drive.weight_x.zero_()
        drive.weight_h.zero_()
        drive.bias.fill_(bias)
    return field


def run(field, h0, ts):
    path = ctrnn.HeldPath(torch.zeros(1, 1, 1), ts[[0, -1]])
    return discretize.integrate(field, path, torch.tensor([h0]), ts, method="dopri8", rtol=1e-7, atol=1e-8).hs[:, 0].detach()


def test_a_driven_unit_fires_and_then_adapts_to_its_fixed_point():
    field = lone(lambda *sizes: ctrnn.adaptive(*sizes, rho=0.2), 1.5)
    hs = run(field, [0.0, 0.0], torch.linspace(0, 80, 81))
    rest = brentq(lambda r: r - 1 / (1 + 2.718281828459045 ** -(1.5 - 1.8 * r)), 0, 1)
    assert_close(hs[-1], torch.full((2,), rest), rtol=0, atol=1e-6)
    assert hs[:, 0].max() > rest + 0.05


def test_the_memory_of_adaptive_units_is_that_of_their_thresholds():
    field = ctrnn.init.chrono_(ctrnn.adaptive(3, 50), 40, t_min=10, generator=torch.Generator().manual_seed(0))
    times = ctrnn.timescales(field)
    assert_close(times, torch.exp(-field.adaptation.log_alpha).detach(), rtol=1e-14, atol=0)
    assert len(times.unique()) == 50
    assert (times >= 10).all()
    assert (times <= 40).all()
    assert_close(field.rate.log_alpha.exp().detach(), torch.full((50,), 0.5), rtol=1e-14, atol=0)


def test_a_fitzhugh_nagumo_unit_fires_as_the_solution_of_scipy_does():
    field, ts = lone(ctrnn.fitzhugh_nagumo, 0.5), torch.linspace(0, 80, 81)

    def slope(t, h):
        v, w = h
        return [v - v**3 / 3 - w + 0.5, 0.08 * (v + 0.7 - 0.8 * w)]

    theirs = solve_ivp(slope, (0, 80), [-1.0, 1.0], "DOP853", ts.numpy(), rtol=1e-9, atol=1e-9).y.T
    ours = run(field, [-1.0, 1.0], ts)
    assert_close(ours, torch.from_numpy(theirs.copy()), rtol=0, atol=1e-5)
    v = ours[:, 0]
    assert ((v[1:] > 1) & (v[:-1] <= 1)).sum() == 2  # spikes
    quiet = run(lone(ctrnn.fitzhugh_nagumo, 0.0), [-1.0, 1.0], ts)[40:, 0]
    assert quiet.max() < 0


def test_a_voltage_has_no_time_scale_at_rest():
    with pytest.raises(TypeError, match="whose visible units have no leak at rest"):
        ctrnn.timescales(ctrnn.fitzhugh_nagumo(3, 5))


def test_what_makes_no_such_unit_is_refused():
    with pytest.raises(ValueError, match="`alpha` must be positive, got 0"):
        ctrnn.adaptive(3, 5, alpha=0.0)
    with pytest.raises(ValueError, match="`rho` must be positive, got -1"):
        ctrnn.adaptive(3, 5, rho=-1.0)
    with pytest.raises(ValueError, match="`beta` must be at least 0"):
        ctrnn.adaptive(3, 5, beta=-1.0)
    with pytest.raises(TypeError, match=r"`rate` must be a ctrnn\.parts\.Part, got float"):
        ctrnn.AdaptiveField(ctrnn.Affine(3, 5, 5), 0.5, ctrnn.FixedRate(0.1))
    drive, still = ctrnn.Affine(3, 5, 5), ctrnn.FixedRate(0.1)
    with pytest.raises(TypeError, match="`drive` must have `input_size` and `hidden_size`; FixedRate has not"):
        ctrnn.AdaptiveField(still, still, still)
    with pytest.raises(ValueError, match="`adaptation` has hidden_size 4, `drive` has 5"):
        ctrnn.AdaptiveField(drive, still, ctrnn.GateRate(3, 4))
    with pytest.raises(ValueError, match=r"`drive` gives values of shape \(1, 4\) for one sample of 5 units"):
        ctrnn.AdaptiveField(ctrnn.Affine(3, 5, 4), still, still)
    with pytest.raises(ValueError, match="`epsilon` must be positive"):
        ctrnn.fitzhugh_nagumo(3, 5, epsilon=0.0)
