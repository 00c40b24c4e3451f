"""How a unit's derivative falls under an input, against closed forms; windows of recordings that follow one another."""

import math

import pandas as pd
import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from experiments.studies.claims.laws import NO_LAW, law_over, laws_in_words, recordings_in_pieces, simplify
from experiments.tasks.recorded.recordings import Sequences


def power_unit(alpha, r, units=4):
    field = ctrnn.leaky(2, units, alpha=alpha, decay=ctrnn.PowerDecay(r), dtype=torch.float64)
    return discretize.DiscreteRNN(field, step=discretize.Euler())


def inputs(samples=60, sequences=5):
    draw = torch.Generator().manual_seed(0)
    return torch.randn(samples, sequences, 2, generator=draw, dtype=torch.float64), 0.5 * torch.ones(
        sequences, 4, dtype=torch.float64
    )


@pytest.mark.parametrize("bias", [True, False])
def test_a_leaky_unit_by_itself_forgets_by_one_minus_alpha_whatever_it_hears(bias):
    rnn, (xs, h0) = power_unit(0.1, 0.0), inputs()
    simplify(rnn, bias=bias)
    found = law_over(rnn, xs, h0)
    assert found["law"] == "exponential"
    # Euler's step has (1 - alpha)^n in place of e^(-alpha n); the rest is rounding of products of 60 factors.
    assert found["ratio"] == pytest.approx(-math.log1p(-0.1) / 0.1, rel=1e-10)
    assert found["stepped"] == pytest.approx(1.0, rel=1e-10)


@pytest.mark.parametrize("alpha", [0.1, 0.6])
def test_the_jacobian_of_a_driven_unit_is_the_product_of_its_own_steps(alpha):
    rnn, (xs, h0) = power_unit(alpha, 2.0), inputs()
    assert abs(law_over(rnn, xs, h0)["stepped"] - 1) > 0.05  # with recurrence
    simplify(rnn, bias=True)
    # Products of 60 factors in another order; at alpha = 0.6 some are below 0, as 3 alpha h^2 goes up to 1.8.
    assert law_over(rnn, xs, h0)["stepped"] == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("r", [1.0, 2.0])
def test_a_unit_by_itself_falls_by_the_integral_of_its_own_states_and_one_that_hears_of_others_does_not(r):
    rnn, (xs, h0) = power_unit(1e-4, r), inputs()
    heard = law_over(rnn, xs, h0)["ratio"]
    simplify(rnn, bias=True)
    # ln(1 - z) = -z - z^2/2 with z at most (r + 1) alpha |h|^r, 3e-4: half of that, and it adds no more than that.
    assert law_over(rnn, xs, h0)["ratio"] == pytest.approx(1.0, abs=3e-4)
    assert abs(heard - 1) > 0.05


def test_windows_go_on_where_the_ones_before_them_end():
    signal = torch.arange(80.0)
    windows = torch.stack([signal[start : start + 8] for start in range(0, 44, 4)], 1)[..., None]  # the last starts at 40
    windows[:, 5] += 1000  # of another recording: neither follows nor is followed
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 5, 3, 4, 5, 0])
    before, after = recordings_in_pieces(Sequences(windows, labels), walking=True, count=3)
    assert before[0, :, 0].tolist() == [0, 4, 8]
    assert_close(after[:, :, 0], before[:, :, 0] + 8, rtol=0, atol=0)
    resting, _ = recordings_in_pieces(Sequences(windows, labels), walking=False, count=2)
    assert resting[0, :, 0].tolist() == [24, 28]
    with pytest.raises(ValueError, match="4 windows that others go on from are needed, 3 are there"):
        recordings_in_pieces(Sequences(windows, labels), walking=True, count=4)


def test_a_unit_whose_derivative_a_step_takes_away_has_no_law():
    rnn, (xs, h0) = power_unit(0.5, 1.0), inputs()
    simplify(rnn, bias=False)
    # 1 - 2 alpha |h| is 0 at |h| = 1, and -1e-17 or so beside it.
    gone = law_over(rnn, 0 * xs, torch.ones_like(h0))
    assert gone == {"law": NO_LAW}
    rows = pd.DataFrame([gone, law_over(rnn, xs, h0)])
    assert laws_in_words(rows).startswith(f"{NO_LAW}, ")
    assert "nan" not in laws_in_words(rows)
    assert laws_in_words(rows[:1]) == NO_LAW
