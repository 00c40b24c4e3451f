"""The decision network chooses as its closed form says, by each way to step."""

import pytest

from experiments.noise import decision


@pytest.mark.parametrize(("name", "dt"), [(name, 1.0) for name in decision.STEPS] + [("SRA1", 0.5)])
def test_choices_follow_the_closed_form_of_each_step(name, dt):
    trials, steep = 500, decision.steepness(name, dt)
    found = decision.choices(decision.STEPS[name], dt, trials)
    for coherence, right, low, high in zip(decision.COHERENCES, *found, strict=True):
        p = decision.probability(coherence, steep)
        # 4.5 standard errors, and 0.01 for what tanh makes of units that are no longer small.
        assert abs(right - p) < 4.5 * (p * (1 - p) / trials) ** 0.5 + 0.01
        assert low < right < high or right == pytest.approx(high) == 1


@pytest.mark.parametrize(("name", "way"), decision.STEPS.items())
def test_every_way_with_noise_by_the_root_of_the_step_has_the_choices_of_the_equation_as_its_limit(name, way):
    # d' = d + 2 c with noise of variance 2 s^2: d exp(-t) has the mean 2 c and the variance s^2.
    assert (abs(decision.steepness(name, 1e-6) - 1) < 1e-5) == way.scaled


def test_noise_that_does_not_know_of_the_step_is_right_at_one_step_alone():
    name = next(name for name, way in decision.STEPS.items() if not way.scaled)
    euler = decision.steepness("Euler and Maruyama", decision.CALIBRATED)
    assert decision.steepness(name, decision.CALIBRATED) == pytest.approx(euler)
    assert decision.steepness(name, 0.05) == pytest.approx(2 * decision.steepness("Euler and Maruyama", 0.05))
