"""What the figures of noise measure is what closed forms say."""

import math

import pytest

import discretize
from experiments.noise import laws


def test_means_of_tanh_are_those_of_its_expansion_and_of_a_sign():
    assert laws.mean_tanh(0.0) == pytest.approx(math.tanh(1))
    s, t = 0.01, math.tanh(1)
    assert laws.mean_tanh(s) == pytest.approx(t - t * (1 - t * t) * s * s, rel=1e-6)
    assert laws.mean_tanh(300.0) == pytest.approx(math.erf(1 / 300 / 2**0.5), rel=1e-3)


def test_a_colored_input_has_one_mean_and_white_noise_another_at_each_step():
    flat = laws.mean_tanh(laws.WHITE / laws.COLOUR**0.5)
    for dt in (0.5, 0.1):
        # 400 samples over 8 units of time, correlated over two, of a deviation below 0.5: five standard errors.
        within = 5 * 0.5 / (400 * 4) ** 0.5
        assert laws.mean_response(dt, colored=True) == pytest.approx(flat, abs=within)
        assert laws.mean_response(dt, colored=False) == pytest.approx(laws.mean_tanh(laws.WHITE * (2 / dt) ** 0.5), abs=within)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (discretize.EulerMaruyama(), 2.0),  # 1/(1 - dt/2)
        (discretize.ExponentialEulerMaruyama(), 1.0),
    ],
)
def test_the_variance_at_rest_of_many_samples_is_that_of_the_step(step, expected):
    # Of 4000 samples the variance has a deviation of sqrt(2/4000), 2.2 %: five of them.
    assert laws.variance(step, 1.0) == pytest.approx(expected, rel=0.11)


@pytest.mark.parametrize("step", [discretize.Milstein(), discretize.StratonovichHeun()])
def test_errors_of_paths_of_either_calculus_fall_with_the_step(step, monkeypatch):
    monkeypatch.setattr(laws, "HALVINGS", (2, 5))
    errors = laws.strong_errors(step, "multiplied", 100)
    assert list(errors) == [2.0**-2, 2.0**-5]
    assert math.log2(errors[2.0**-2] / errors[2.0**-5]) / 3 == pytest.approx(1, abs=0.25)


@pytest.mark.slow  # all orders, also of added noise, and those of one half and three
@pytest.mark.parametrize(
    ("name", "kind", "order"),
    [
        ("EulerMaruyama", "multiplied", 0.5),
        ("ExponentialEulerMaruyama", "multiplied", 0.5),
        ("Milstein", "multiplied", 1.0),
        ("StratonovichHeun", "multiplied", 1.0),
        ("EulerMaruyama", "added", 1.0),
        ("ExponentialEulerMaruyama", "added", 1.0),
        ("StratonovichHeun", "added", 1.0),
        ("SRA1", "added", 1.5),
    ],
)
def test_single_paths_converge_with_the_order_that_the_page_says(name, kind, order):
    errors = list(laws.strong_errors(getattr(discretize, name)(), kind, 300).values())
    slope = math.log2(errors[1] / errors[-1]) / (len(errors) - 2)
    assert slope == pytest.approx(order, abs=0.2)
