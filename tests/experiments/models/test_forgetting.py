"""Measured forgetting: against closed forms, against two runs by hand, and against the time scales that were set."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from experiments.models.forgetting import forgetting, forgetting_times
from experiments.reports import plots
from experiments.reports.forgetting_figure import SHADES, forgetting_figure
from experiments.reports.svg import inline_svg


def uncoupled(T):
    """Gates of 1/T that nothing moves, and no recurrence: each unit is a leaky average of what it reads."""
    field = ctrnn.gated(2, len(T))
    with torch.no_grad():
        field.candidate.weight_h.zero_(), field.rate.weight_h.zero_(), field.rate.weight_x.zero_()
        field.rate.bias.copy_(-torch.log(torch.as_tensor(T) - 1))
    return field


def written(field, xs, at, null):
    """mean |tanh(Wx x + b) - tanh(Wx null + b)| over the batch and over positions."""

    def target(x):
        return torch.tanh(x @ field.candidate.weight_x.mT + field.candidate.bias)

    return (target(xs[at]) - target(torch.as_tensor(null).expand(2))).abs().mean((0, 1)).detach()


SET = [2.0, 3.0, 8.0, 20.0]


@pytest.mark.parametrize("kind", [discretize.DiscreteRNN, discretize.ContinuousRNN])
@pytest.mark.parametrize(("at", "null"), [([0], 0.0), ([3, 10, 4], 0.0), ([5, 0], [0.5, -1.0])])
def test_without_coupling_influence_is_the_closed_form(at, null, kind):
    exact = kind is discretize.ContinuousRNN
    field, xs, n = uncoupled(SET), torch.randn(28, 3, 2), torch.arange(18.0)[:, None]
    g = 1 / torch.tensor(SET)
    rnn = kind(field, rtol=1e-8, atol=1e-10) if exact else kind(field)
    measured = forgetting(rnn, xs, at, 18, None if null == 0.0 else torch.tensor(null))
    first, kept = (-torch.expm1(-g), torch.exp(-g)) if exact else (g, 1 - g)
    expected = written(field, xs, at, null) * first * kept**n
    assert_close(measured, expected, rtol=1e-4 if exact else 1e-9, atol=1e-8 if exact else 1e-15)


@pytest.mark.parametrize("kind", [discretize.DiscreteRNN, discretize.ContinuousRNN])
def test_measured_times_are_those_that_were_set(kind):
    exact = kind is discretize.ContinuousRNN
    field, xs = uncoupled(SET), torch.randn(32, 3, 2)
    rnn = kind(field, rtol=1e-8, atol=1e-10) if exact else kind(field)
    times = forgetting_times(forgetting(rnn, xs, [0, 6], 26))
    T = ctrnn.timescales(field)
    assert_close(times, T if exact else 1 / torch.log(T / (T - 1)), rtol=1e-5 if exact else 1e-9, atol=0)


def test_of_the_lstm_the_cells_are_measured_as_torch_itself_moves_them():
    theirs, xs, at, horizon = nn.LSTMCell(2, 4), torch.randn(12, 3, 2), 4, 6

    def cells(xs):
        state, seen = (torch.zeros(3, 4), torch.zeros(3, 4)), []
        for x in xs:
            state = theirs(x, state)
            seen.append(state[1])
        return torch.stack(seen)

    without = xs.clone()
    without[at] = 0
    expected = (cells(xs) - cells(without))[at : at + horizon].abs().mean(1).detach()
    for batch_first in (False, True):
        rnn = discretize.DiscreteRNN(ctrnn.from_torch(theirs), batch_first=batch_first)
        assert_close(forgetting(rnn, xs, at, horizon), expected, rtol=0, atol=1e-13)


def network(*sizes):
    return ctrnn.gated(*sizes, "network")


def stack(*sizes):
    return ctrnn.gated(*sizes, num_layers=2)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize(
    ("make", "kind"),
    [(make, discretize.DiscreteRNN) for make in (ctrnn.gru, network, stack)] + [(ctrnn.gru, discretize.ContinuousRNN)],
)
def test_several_positions_at_once_are_the_mean_of_each_alone(make, kind, batch_first):
    settings = {"rtol": 1e-6, "atol": 1e-8} if kind is discretize.ContinuousRNN else {}
    rnn, xs = kind(make(2, 4), batch_first=batch_first, **settings), torch.randn(12, 3, 2)
    kept = xs.clone()
    alone = torch.stack([forgetting(rnn, xs, at, 6) for at in (0, 6, 3)])
    within = {"rtol": 1e-4, "atol": 1e-6} if settings else {"rtol": 1e-12, "atol": 1e-15}
    assert_close(forgetting(rnn, xs, (0, 6, 3), 6), alone.mean(0), **within)
    assert alone.shape[-1] == len(ctrnn.timescales(rnn.field))
    assert torch.equal(xs, kept)
    # By hand, the visible units of two runs.
    without = xs.clone()
    without[3] = 0
    outputs = [rnn(s.transpose(0, 1) if batch_first else s)[0].detach() for s in (xs, without)]
    outputs = [output.transpose(0, 1) if batch_first else output for output in outputs]
    moved = (outputs[0] - outputs[1])[3:9].abs().mean(1)
    assert_close(alone[2, :, :4], moved, **within)


def test_a_null_number_is_taken_in_the_precision_of_the_samples():
    rnn, xs = discretize.DiscreteRNN(ctrnn.gru(2, 4)), torch.full((9, 1, 2), 0.3)
    torch.set_default_dtype(torch.float32)
    try:
        assert not forgetting(rnn, xs, 2, 5, null=0.3).any()  # 0.3 in single precision is another number
    finally:
        torch.set_default_dtype(torch.float64)


def test_a_null_token_that_is_what_stood_there_moves_nothing():
    rnn, xs = discretize.DiscreteRNN(ctrnn.gru(2, 4)), torch.zeros(12, 3, 2)
    influence = forgetting(rnn, xs, 2, 5)
    assert not influence.any()
    assert forgetting_times(influence).isnan().all()
    assert forgetting(rnn, xs, 2, 5, null=1.0).any()


def test_long_time_scales_that_chrono_set_are_seen_in_a_coupled_network():
    field = ctrnn.init.chrono_(ctrnn.lstm(2, 16), 60.0, t_min=2.0)
    with torch.no_grad():
        for name, parameter in field.named_parameters():
            if "weight" in name:
                parameter.mul_(0.3)
    times = forgetting_times(forgetting(discretize.DiscreteRNN(field), torch.randn(260, 8, 2), list(range(0, 100, 20)), 160))
    ratio = times / ctrnn.timescales(field)
    assert times.isfinite().all()
    assert ((ratio > 0.6) & (ratio < 1.4)).all()


def test_times_of_shapes_that_are_not_exponential_are_found():
    n = torch.arange(30.0)
    columns = {
        "exponential": torch.exp(-n / 4),
        "rises first": torch.where(n < 5, n / 5, torch.exp(-(n - 5) / 4)),
        "oscillates": torch.exp(-n / 4) * torch.where(n == 2, 0.1, 1.0),
        "stays": torch.exp(-n / 40),
        "at once": (n == 0).double(),
        "nothing": 0 * n,
        "broken": torch.where(n == 3, math.nan, 1.0),
        "floor": torch.exp(-n / 4) + 1e-6,
    }
    times = dict(zip(columns, forgetting_times(torch.stack(list(columns.values()), 1)).tolist(), strict=True))
    for name in ("exponential", "rises first", "oscillates"):
        assert times[name] == pytest.approx(4, rel=1e-12)
    assert times["floor"] == pytest.approx(4, rel=1e-4)
    assert times["stays"] == math.inf
    assert times["at once"] == 0
    assert math.isnan(times["nothing"])
    assert math.isnan(times["broken"])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"rnn": ctrnn.gru(2, 4)}, TypeError, "`rnn` must be a discretize.DiscreteRNN or ContinuousRNN, got Relaxation"),
        ({"xs": torch.zeros(12, 2, dtype=torch.float64)}, ValueError, r"`xs` must be \(time, batch, input\)"),
        ({"xs": torch.zeros(12, 3, 5, dtype=torch.float64)}, ValueError, "`xs` has shape"),
        ({"at": 8}, ValueError, "`at` has sample 8, and 5 of 12 samples are looked at .* from 0 to 7"),
        ({"at": -1}, ValueError, "`at` has sample -1"),
        ({"at": []}, TypeError, "`at` must be the number of a sample, or a sequence of several"),
        ({"at": [1.5]}, TypeError, "`at` must be the number of a sample"),
        ({"horizon": 0}, ValueError, "`horizon` must be at least 1"),
        ({"horizon": 13}, ValueError, "`at` has sample 2, and 13 of 12 samples"),
        ({"null": torch.zeros(3)}, ValueError, r"`null` must be one number or \(2,\)"),
        ({"null": math.nan}, ValueError, "`null` must be finite"),
    ],
)
def test_what_does_not_fit_a_measure_of_influence_is_refused(change, error, message):
    settings = {"rnn": discretize.DiscreteRNN(ctrnn.gru(2, 4)), "xs": torch.zeros(12, 3, 2), "at": 2, "horizon": 5}
    with pytest.raises(error, match=message):
        forgetting(**(settings | change))


def test_what_is_no_influence_is_refused():
    with pytest.raises(TypeError, match=r"floating point, got torch.int64"):
        forgetting_times(torch.zeros(3, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"must be \(horizon, hidden\), got shape \(3,\)"):
        forgetting_times(torch.zeros(3))
    with pytest.raises(ValueError, match=r"got shapes \(3, 4\) and \(5,\)"):
        forgetting_figure(torch.ones(3, 4), torch.ones(5))


def boxes_of(ax):
    """(row, start, end, shade) of all that is painted."""
    found = []
    for shade, collection in enumerate(ax.collections):
        for path in collection.get_paths():
            (left, low), (right, high) = path.vertices.min(0), path.vertices.max(0)
            found.append((round((low + high) / 2), left + 0.5, right + 0.5, shade))
    return found


def test_the_figure_paints_long_units_on_top_and_each_share_in_its_shade():
    T = torch.tensor([20.0, 2.0, 8.0])
    influence = 3.0 * torch.exp(-torch.arange(50.0)[:, None] / T)
    figure = forgetting_figure(influence, T)
    above, below = figure.axes[0], figure.axes[1]
    assert [tick.get_text() for tick in above.get_yticklabels()] == ["2", "8", "20"]
    painted = np.zeros((3, 50), dtype=int)
    for row, start, end, shade in boxes_of(above):
        painted[row, round(start) : round(end)] = shade + 1
    shares = np.exp(-np.arange(50.0) / np.array([[2.0], [8.0], [20.0]]))
    assert (painted == (shares[..., None] >= np.array(SHADES) - 1e-12).sum(-1)).all()
    (dots,) = (line for line in above.lines if line.get_marker() == "o")
    np.testing.assert_allclose(dots.get_xdata(), [2, 8, 20], rtol=1e-12)
    (points,) = (line for line in below.lines if line.get_marker() == "o")
    np.testing.assert_allclose(points.get_xdata(), points.get_ydata(), rtol=1e-12)
    assert below.get_xscale() == below.get_yscale() == "log"


def test_the_figure_says_which_units_have_not_fallen_and_bears_units_that_did_not_move():
    T = torch.tensor([5.0, 400.0, 9.0])
    influence = torch.exp(-torch.arange(50.0)[:, None] / T)
    influence[:, 2] = 0
    figure = forgetting_figure(influence, T)
    below = figure.axes[1]
    (late,) = (line for line in below.lines if line.get_marker() == "^")
    assert (late.get_xdata(), late.get_ydata()) == ([400.0], [50.0])
    assert {row for row, *_ in boxes_of(figure.axes[0])} == {0, 2}
    forgetting_figure(torch.zeros(4, 2), torch.ones(2))


def test_the_figure_goes_onto_a_page_in_the_colours_of_the_page():
    T = torch.linspace(2, 60, 200)  # more than there are rows
    figure = forgetting_figure(torch.exp(-torch.arange(100.0)[:, None] / T), T)
    svg = inline_svg(figure, "forgetting", "Forgetting", "What is left.")
    assert "var(--blue)" in svg
    assert "<image" not in svg
    assert "#0102" not in svg
    assert len(svg) < 250_000
    assert plots.BLUE not in svg
