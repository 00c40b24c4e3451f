"""Fits against closed forms: estimates, standard errors, what the data do not tell."""

import functools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import curve_fit
from scipy.stats import t as student
from torch import nn

import ctrnn
import discretize
from discretize.errors import SolverError, SolverWarning
from discretize.fitting.uncertainty import uncertainty

T = torch.linspace(0, 2, 6, dtype=torch.float64)
NOISE = torch.tensor([0.3, -1.1, 0.6, 0.9, -0.2, -0.8], dtype=torch.float64) / 20


def decay(t, h, k):
    return -k * h


def fitted(f=decay, data=None, params=None, **settings):
    """A fit of y = 2 exp(-1.3 t), or of what is given; by steps of fixed length, exact to 1e-4 here, in a fifth of the time."""
    data = (T, 2 * torch.exp(-1.3 * T) + NOISE) if data is None else data
    settings = {"h0": {"y": (1.5, 0, 10)}, "method": "rk4"} | settings
    return discretize.fit(f, data, {"k": (1.0, 0, 10)} if params is None else params, **settings)


@functools.cache
def of_decay():
    return fitted(noise=0.05, max_step=0.1)


def test_standard_errors_of_a_decay_are_those_of_its_fisher_information():
    fit = of_decay()
    k, start = fit.params["k"], fit.params["y(0)"]
    J = torch.stack([-start * T * torch.exp(-k * T), torch.exp(-k * T)], 1) / 0.05
    torch.testing.assert_close(fit.covariance, torch.linalg.inv(J.T @ J), rtol=1e-3, atol=0)
    assert fit.stderr == pytest.approx(dict(zip(fit.identified, fit.covariance.diagonal().sqrt().tolist(), strict=True)))
    torch.testing.assert_close(fit.states[:, 0], start * torch.exp(-k * T), rtol=1e-4, atol=0)
    torch.testing.assert_close(fit.residuals[:, 0], 2 * torch.exp(-1.3 * T) + NOISE - fit.states[:, 0])
    assert fit.chi2 == pytest.approx(float((fit.residuals / 0.05).square().sum()), rel=1e-4)
    assert fit.degrees == 4


def test_a_logistic_curve_has_the_estimates_and_errors_of_scipys_curve_fit():
    def curve(t, r, K, y):
        return K / (1 + (K / y - 1) * np.exp(-r * t))

    data = curve(3 * T.numpy(), 1.5, 10.0, 1.0) + 4 * NOISE.numpy()
    fit = fitted(
        lambda t, h, r, K: r * h * (1 - h / K),
        (3 * T, data),
        {"r": (1, 0.1, 10), "K": (8, 1, 100)},
        h0={"y": (0.7, 0, 5)},
        max_step=0.15,
    )
    best, covariance = curve_fit(curve, 3 * T.numpy(), data, [1, 8, 0.7])
    np.testing.assert_allclose(list(fit.params.values()), best, rtol=1e-4)
    np.testing.assert_allclose(fit.covariance, covariance, rtol=3e-3, atol=1e-5)
    assert fit.identified == ["r", "K", "y(0)"]


@pytest.mark.each_value
@pytest.mark.parametrize("size", [1e-6, 1e6])
@pytest.mark.parametrize("what", ["data", "time", "parameters"])
def test_the_fit_is_the_same_in_other_units(what, size):
    value, time, unit = (size if what == kind else 1.0 for kind in ("data", "time", "parameters"))
    data = (T * time, (2 * torch.exp(-1.3 * T) + NOISE) * value)
    fit = fitted(
        lambda t, h, k: -k * h / (unit * time),
        data,
        {"k": (1.0 * unit, 0, 10 * unit)},
        h0={"y": (1.5 * value, 0, 10 * value)},
        noise=0.05 * value,
        max_step=0.1 * time,
    )
    for name, by in (("k", unit), ("y(0)", value)):
        assert fit.params[name] / by == pytest.approx(of_decay().params[name], rel=1e-6)
        assert fit.stderr[name] / by == pytest.approx(of_decay().stderr[name], rel=1e-6)


def test_a_product_is_named_and_has_no_standard_errors_while_what_else_is_there_has():
    fit = fitted(lambda t, h, a, b: -a * b * h, params={"a": (1, 0, 10), "b": (2, 0.1, 10)}, noise=0.05, max_step=0.1)
    assert fit.params["a"] * fit.params["b"] == pytest.approx(of_decay().params["k"], rel=1e-4)
    assert (fit.stderr["a"], fit.stderr["b"], fit.identified) == (None, None, ["y(0)"])
    assert fit.stderr["y(0)"] == pytest.approx(of_decay().stderr["y(0)"], rel=1e-3)
    (along,) = fit.combinations
    assert sorted(along.values()) == pytest.approx([-1, 1], rel=1e-3)
    assert "the data do not change along a " in str(fit)
    assert not {"nan", "inf"} & set(str(fit).split())


def test_a_parameter_that_is_known_badly_is_not_taken_for_one_that_does_not_move():
    J = np.stack([np.ones(9), np.linspace(0, 1, 9), 1e-2 * np.linspace(0, 1, 9) ** 2, np.linspace(0, 1, 9) ** 3], 1)
    J[:, 0] = J[:, 1] + J[:, 2]  # (1, -1, -1, 0) changes nothing, and the third hardly counts in it
    found = uncertainty(J, np.zeros(9), 1.0, 1e-6, np.ones(4), np.ones(4), (np.zeros(4), np.full(4, 9.0)))
    assert found.identified == [3]
    (direction,) = found.directions
    np.testing.assert_allclose(direction / direction[0], [1, -1, -1, 0], atol=1e-6)


def test_a_parameter_that_does_nothing_is_said_to():
    fit = fitted(lambda t, h, k, c: -k * h + 0 * c, params={"k": (1, 0, 10), "c": (1, 0, 2)}, noise=0.05, max_step=0.1)
    assert fit.why == {"c": "the data do not change with it"}
    assert fit.stderr["k"] == pytest.approx(of_decay().stderr["k"], rel=1e-4)


def test_a_parameter_that_is_0_in_data_without_noise_is_known_all_the_same():
    data = (T, 2 * torch.exp(-1.3 * T))
    fit = fitted(
        lambda t, h, k, c: c - k * h, data, {"k": (1, 0, 10), "c": (0.3, -2, 2)}, h0={"y": 2.0}, noise=0.05, max_step=0.1
    )
    assert abs(fit.params["c"]) < 1e-3
    assert fit.identified == ["k", "c"]


def test_a_parameter_at_its_bound_is_said_to_be_there():
    fit = fitted(params={"k": (0.5, 0, 1)}, noise=0.05)
    assert fit.params["k"] == pytest.approx(1, rel=1e-4)
    assert fit.why == {"k": "it is at its upper bound"}


def series(k, v, ts):
    return ts, 2 * torch.exp(-k * v * ts) + NOISE[: len(ts)], {"v": v}


@pytest.mark.parametrize("gaps", ["nan", "mask"])
def test_series_have_times_gaps_and_constants_of_their_own(gaps):
    data = [series(0.6, 1.0, T), series(0.6, 3.0, T[:4] / 2)]
    ts, values, constants = data[0]
    missing = torch.arange(6) == 4
    seen = values.where(~missing, torch.nan) if gaps == "nan" else np.ma.masked_array(values.numpy(), missing.numpy())
    fit = fitted(
        lambda t, h, k, v: -k * v * h, [(ts, seen, constants), data[1]], {"k": (1, 0, 5)}, h0={"y": 2.0}, noise=0.05, max_step=0.1
    )
    v, t = torch.cat([torch.ones(5), 3 * torch.ones(4)]), torch.cat([ts[~missing], data[1][0]])
    y = torch.cat([values[~missing], data[1][1]])
    best, covariance = curve_fit(lambda _, k: 2 * np.exp(-k * (v * t).numpy()), t.numpy(), y.numpy(), [1.0], sigma=0.05 + 0 * y,
                                 absolute_sigma=True)  # fmt: skip
    assert fit.params["k"] == pytest.approx(best[0], rel=1e-4)
    assert fit.stderr["k"] == pytest.approx(math.sqrt(covariance[0, 0]), rel=1e-3)
    assert fit.residuals[0][4].isnan()
    assert [len(each) for each in fit.states] == [6, 4]


def test_noise_levels_are_estimated_output_by_output():
    y = torch.stack([2 * torch.exp(-1.3 * T) + NOISE, 300 * torch.exp(-0.4 * T) + 1000 * NOISE.flip(0)], 1)
    fit = fitted(
        lambda t, h, k, l: torch.cat([-k * h[:, :1], -l * h[:, 1:]], 1),
        (T, y),
        {"k": (1, 0, 9), "l": (1, 0, 9)},
        h0={"a": 2.0, "b": 300.0},
    )
    for i, (name, k) in enumerate({"a": "k", "b": "l"}.items()):
        left = fit.residuals[:, i].square().sum()
        assert fit.noise[name] == pytest.approx(float((left / (6 * (1 - 2 / 12))).sqrt()), rel=1e-4)
        alone = fitted(data=(T, y[:, i]), h0={"y": float(fit.states[0, i])}, noise=fit.noise[name])
        assert fit.params[k] == pytest.approx(alone.params["k"], rel=1e-4)
        assert fit.stderr[k] == pytest.approx(alone.stderr["k"], rel=1e-3)


def test_the_profile_of_a_straight_line_is_the_interval_of_students_t():
    y = 3 + 2 * T + NOISE
    fit = fitted(lambda t, h, c: c + 0 * h, (T, y), {"c": (1, -10, 10)}, h0=None)
    profile = fit.profile("c", level=0.9)
    reach = student.ppf(0.95, 4) * fit.stderr["c"]
    assert profile.interval == pytest.approx((fit.params["c"] - reach, fit.params["c"] + reach), rel=1e-4)
    slope, start = np.polyfit(T.numpy(), y.numpy(), 1)
    assert fit.params == pytest.approx({"c": slope, "h1(0)": start}, rel=1e-6)
    assert len(profile.plot("mV").axes) == 1


def test_a_profile_of_what_is_not_identified_is_flat_and_has_no_ends():
    fit = fitted(lambda t, h, a, b: -a * b * h, params={"a": (1, 0.5, 2), "b": (1.5, 0.1, 10)}, h0={"y": 2.0}, noise=0.05)
    profile = fit.profile("a", [0.6, 1.0, 1.9])
    assert profile.interval == (None, None)
    np.testing.assert_allclose(profile.params.prod(1), fit.params["a"] * fit.params["b"], rtol=1e-3)
    assert abs(profile.chi2).max() < 1e-3


def test_a_profile_ends_in_no_number_where_the_equation_has_no_solution():
    most = of_decay().params["k"] + of_decay().stderr["k"]
    fit = fitted(lambda t, h, k: torch.where(k < most, -k * h, torch.nan), noise=0.05, method="dopri5")
    profile = fit.profile("k")
    assert np.isinf(profile.chi2[profile.values >= most]).all()
    assert profile.interval[0] is not None
    assert profile.interval[1] is None


def test_a_profile_whose_searches_have_not_ended_says_so():
    fit = fitted(h0={"y": (1.5, 0.5, 5.0)}, noise=0.05)
    fit.search.max_nfev = 1
    with pytest.warns(SolverWarning, match="2 of 2 searches of this profile have not ended"):
        fit.profile("k", [0.5, 2.0])


def test_the_log_likelihood_is_flat_at_the_fit_and_has_gradients():
    fit = of_decay()
    values = {name: torch.tensor(value, requires_grad=True) for name, value in fit.params.items()}
    found = fit.log_likelihood(values)
    found.backward()
    exact = torch.distributions.Normal(fit.states, 0.05).log_prob((2 * torch.exp(-1.3 * T) + NOISE)[:, None]).sum()
    assert found.item() == pytest.approx(float(exact), rel=1e-6)
    assert all(abs(float(value.grad)) * fit.stderr[name] < 1e-3 for name, value in values.items())


def test_states_are_there_at_other_times_and_after_the_data():
    fit, ts = of_decay(), torch.tensor([0.31, 4.0])
    assert fit(ts)[:, 0].tolist() == pytest.approx(
        (fit.params["y(0)"] * torch.exp(-fit.params["k"] * ts)).tolist(), rel=1e-4, abs=1e-4
    )
    with pytest.raises(ValueError, match="before series 0"):
        fit([-1.0])


class Decays(nn.Module):
    def __init__(self):
        super().__init__()
        self.k = nn.Parameter(torch.ones(1))
        self.W = nn.Parameter(torch.zeros(2, 2), requires_grad=False)

    def forward(self, t, h):
        return -self.k * h + h @ self.W.T


def test_weights_of_a_module_are_parameters_numbers_or_arrays_and_stay_as_they_are():
    module, ts = Decays(), T[:4]
    W = torch.tensor([[-1.0, 0.5], [-0.7, -0.3]])
    start = torch.tensor([1.0, -2.0])
    data = [(ts, torch.stack([torch.linalg.matrix_exp(t * W) @ h for t in ts])) for h in (start, start.flip(0))]
    fit = fitted(module, data, {"W": (0.1, -3, 3)}, noise=0.1, h0={"a": start, "b": start.flip(0)})
    torch.testing.assert_close(fit.values["W"], W + torch.eye(2), rtol=1e-3, atol=1e-3)
    assert module.W.abs().sum() == 0
    assert list(fit.params) == ["W[0, 0]", "W[0, 1]", "W[1, 0]", "W[1, 1]"]


def test_a_field_of_the_library_is_fitted_by_the_names_of_its_weights():
    field = ctrnn.additive(0, 1, tau=2.0).double()
    (name,) = [name for name, weight in field.named_parameters() if name.endswith("bias")]
    with torch.no_grad():
        for weight in field.parameters():
            weight.zero_()
    # tau dv/dt = -v + b: v = b (1 - exp(-t / 2))
    fit = fitted(field, (T, 0.7 * (1 - torch.exp(-T / 2))), {name: (0.1, -5, 5)}, h0={"v": 0.0}, noise=0.01)
    assert next(iter(fit.params.values())) == pytest.approx(0.7, rel=1e-4)


def swing(t, h, omega):
    q, p = h.unbind(-1)
    return torch.stack([p, -(omega**2) * q], -1)


TS = torch.linspace(0, 8, 17, dtype=torch.float64)
SWUNG = {"data": (TS, torch.cos(1.7 * TS)), "h0": {"q": (0.8, -5, 5), "p": 0.0}, "observe": ["q"], "noise": 0.05, "method": "rk4"}


def test_pieces_find_what_one_solve_from_the_same_start_does_not():
    alone, pieces = (discretize.fit(swing, params={"omega": (0.8, 0.1, 4)}, pieces=k, **SWUNG) for k in (1, 4))
    assert alone.chi2 > 1000
    assert pieces.params == pytest.approx({"omega": 1.7, "q(0)": 1.0}, rel=0.02)
    assert pieces.chi2 < 10


def test_of_several_starts_the_best_end_counts():
    fit = discretize.fit(swing, params={"omega": (1.1, 1.0, 2.0)}, starts=4, **SWUNG)
    ends = fit.stats["chi2_of_starts"]
    assert (len(ends), ends) == (4, sorted(ends))
    assert ends[0] < 10
    assert ends[-1] > 1000
    assert fit.params["omega"] == pytest.approx(1.7, rel=0.02)


def test_a_figure_has_units_a_panel_for_what_is_not_seen_and_what_is_left():
    fit = discretize.fit(swing, params={"omega": (1.6, 0.1, 4)}, **SWUNG)
    figure = fit.plot({"time": "ms", "q": "mV"})
    assert [ax.get_ylabel() for ax in figure.axes] == ["q (mV)", "p", "residual / noise"]
    assert figure.axes[-1].get_xlabel() == "time (ms)"
    with pytest.raises(ValueError, match="'volt'"):
        fit.plot({"volt": "mV"})


def test_a_start_on_its_bound_leaves_it():
    fit = fitted(params={"k": (0.0, 0, 10)}, noise=0.05, max_step=0.1)
    assert fit.params["k"] == pytest.approx(of_decay().params["k"], rel=1e-4)


def test_numbers_are_on_the_cpu_whatever_the_default_device_is():
    with torch.device("meta"):
        fit = fitted(noise=0.05, max_step=0.1)
        states = fit(T)
    assert fit.params == pytest.approx(of_decay().params)
    assert states.device.type == "cpu"


def test_a_search_that_has_not_ended_warns():
    with pytest.warns(SolverWarning, match="has not ended in a minimum"):
        fit = fitted(max_nfev=1)
    assert "has not ended" in str(fit)


def test_an_equation_that_cannot_be_solved_at_the_start_says_where_it_stops():
    with pytest.raises(SolverError, match="The solve stopped at t ="):
        fitted(lambda t, h, k: k * h**3, params={"k": (5.0, 0, 10)}, max_num_steps=30, method="dopri5")


@pytest.mark.slow
def test_nineteen_of_twenty_intervals_hold_the_truth():
    inside, generator = [], torch.Generator().manual_seed(0)
    for _ in range(150):
        y = 2 * torch.exp(-1.3 * T) + 0.05 * torch.randn(6, generator=generator)
        fit = fitted(data=(T, y), noise=0.05)
        inside.append([abs(fit.params[name] - true) < 1.96 * fit.stderr[name] for name, true in (("k", 1.3), ("y(0)", 2.0))])
    shares = np.mean(inside, 0)
    assert (abs(shares - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 150)).all()
