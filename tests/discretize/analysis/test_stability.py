"""Regions by R(-g dt), and the growth of small differences, against closed forms and finite differences."""

import problems
import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize

every_step = pytest.mark.parametrize("step", problems.STEPS.values())


def names(step, *g):
    return [discretize.REGIONS[int(r)] for r in discretize.regions(step, torch.tensor(g))]


def test_euler_is_monotone_to_1_overshoots_to_2_and_diverges_beyond():
    found = names(discretize.Euler(), 0.0, 1e-12, 0.5, 1.0, 1.0 + 1e-9, 1.9, 2.0, 2.1, 1e300, float("inf"), 5.0)
    assert found == ["monotone"] * 4 + ["overshooting"] * 2 + ["marginal"] + ["divergent"] * 4


def test_other_maps_have_their_own_limits():
    assert names(discretize.Heun(), 1.99, 2.0, 2.01) == ["monotone", "marginal", "divergent"]
    root = 2.785293563405282  # of g^3 - 4 g^2 + 12 g - 24
    assert names(discretize.RungeKutta4(), root - 1e-6, root + 1e-6) == ["monotone", "divergent"]
    assert names(discretize.Trapezoid(), 1.999, 2.001, 1e4) == ["monotone", "overshooting", "overshooting"]


@pytest.mark.parametrize("name", ["ExponentialEuler", "BackwardEuler", "ETDRK4", "Splitting", "FittedMidpoint"])
def test_maps_that_follow_any_rate_are_monotone_everywhere(name):
    step = getattr(discretize, name)()
    assert set(names(step, 1e-9, 0.1, 1.0, 2.0, *torch.linspace(30, 60, 301).tolist(), 1e4)) == {"monotone"}


def test_negative_leaks_and_classes_of_steps_are_refused():
    with pytest.raises(ValueError, match="at least 0"):
        discretize.regions(discretize.Euler(), torch.tensor([-1.0]))
    with pytest.raises(TypeError, match="step map"):
        discretize.regions(discretize.Euler, torch.tensor([1.0]))


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_under_the_power_decay_regions_are_those_of_g_times_h_to_the_r(exponent):
    field = ctrnn.Relaxation(problems.Nowhere(1, 1), ctrnn.FixedRate(1.0), ctrnn.PowerDecay(exponent))
    x, h = torch.zeros(1, 1), torch.tensor([[0.9]])
    for y, region in ((0.5, "monotone"), (1.5, "overshooting"), (2.5, "divergent")):
        dt = y / 0.9**exponent
        assert names(discretize.Euler(), float(dt * field.leak(x[..., :0], h))) == [region]
        factor = float(discretize.Euler()(field, x, h, dt) / h)
        assert factor == pytest.approx(1 - y)
        gone = abs(factor) > 1
        assert gone == (region == "divergent")


@pytest.mark.parametrize("name", problems.thinned(["gated softplus", "gru", "lstm"], ["lstm"]))
@every_step
def test_growth_is_the_jacobian_of_the_step_by_finite_differences(name, step):
    field = problems.NAMED_FIELDS[name](2, 3)
    x, h, dt = torch.randn(2), torch.randn(field.state_size), 1.3
    found = discretize.growth(step, field, x, h, dt)
    moved = torch.eye(field.state_size) * 1e-6
    with torch.no_grad():
        up, down = (step(field, x.expand(field.state_size, 2), h + s * moved, dt) for s in (1, -1))
    assert_close(found.jacobian, (up - down).mT / 2e-6, rtol=0, atol=1e-8)
    assert_close(found.spectral_radius, torch.linalg.eigvals(found.jacobian).abs().max())
    assert_close(found.norm, torch.linalg.matrix_norm(found.jacobian, float("inf")))
    assert found.spectral_radius <= found.norm


@pytest.mark.parametrize("name", ["Euler", "RungeKutta4", "BackwardEuler", "Trapezoid", "ExponentialRosenbrock"])
def test_growth_of_a_linear_field_is_the_stability_function_at_its_eigenvalues(name):
    problem, dt, step = problems.linear(), 1.7, problems.STEPS[name]
    z = dt * torch.linalg.eigvals(problem.field.A)
    radius = discretize.growth(step, problem.field, problem.x[0], problem.h0[0], dt).spectral_radius
    assert_close(radius, step.stability(z).abs().max(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("rate", [0.3, 1.0, 1.8, 3.0])
def test_with_a_constant_gate_the_norm_is_below_the_bound_that_needs_no_state(rate):
    # |1 - g| + g |W|, result 3: guaranteed for every state and input, for tanh' is at most 1.
    candidate = ctrnn.TanhCandidate(2, 6)
    field = ctrnn.Relaxation(candidate, ctrnn.FixedRate(rate), ctrnn.LinearDecay())
    bound = abs(1 - rate) + rate * float(torch.linalg.matrix_norm(candidate.weight_h, float("inf")).detach())
    found = discretize.growth(discretize.Euler(), field, torch.randn(50, 2), 2 * torch.randn(50, 6), 1.0)
    assert (found.norm <= bound + 1e-12).all()
    assert (found.spectral_radius <= found.norm + 1e-12).all()


def test_a_state_that_has_left_all_bounds_grows_without_bound():
    field = ctrnn.gated(1, 2)
    found = discretize.growth(discretize.Euler(), field, torch.zeros(1, 1), torch.full((1, 2), torch.inf), 1.0)
    assert (found.spectral_radius == float("inf")).all()
