"""Exact intervals of shares, beside SciPy's, the binomial law, and shares that are drawn."""

import math

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from experiments.reports.shares import exact_share
from experiments.reports.spreads import NotEnoughError
from experiments.studies.verdicts import Compared


@pytest.mark.parametrize(("hits", "of"), [(0, 30), (6, 30), (30, 30), (3, 7), (1, 1)])
@pytest.mark.parametrize("chance", [0.05, 0.005, 1e-6])
def test_ends_are_those_of_clopper_and_pearson(hits, of, chance):
    share, theirs = exact_share(hits, of).erring(chance), binomtest(hits, of).proportion_ci(1 - chance)
    assert (share.low, share.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    moved = exact_share(hits, of, 0.5).erring(chance)
    assert (moved.mean, moved.low, moved.high) == pytest.approx((hits / of - 0.5, theirs.low - 0.5, theirs.high - 0.5), abs=1e-9)


def test_chances_may_be_as_small_as_numbers_are():
    assert exact_share(6, 6).erring(2.0**-400).low == pytest.approx(2.0 ** (-401 / 6), rel=1e-9)  # P(6 of 6) = share^6


@pytest.mark.parametrize(("hits", "of", "beyond"), [(6, 6, 0.5), (5, 5, 0.5), (0, 6, 0.5), (3, 6, 0.5), (9, 12, 0.5)])
def test_p_is_that_of_the_test_by_signs(hits, of, beyond):
    assert exact_share(hits, of, beyond).p == pytest.approx(binomtest(hits, of, beyond).pvalue, abs=1e-12)


def test_an_interval_of_95_percent_holds_the_true_share_as_often_at_least():
    for share in (0.02, 0.2, 0.5, 0.93):
        held = [exact_share(k, 30).low <= share <= exact_share(k, 30).high for k in range(31)]
        assert binom.pmf(np.flatnonzero(held), 30, share).sum() >= 0.95


def test_what_is_told_apart_is_so_with_the_chance_that_was_asked_for():
    share = exact_share(3, 20, 0.5)
    truth = 0.5 + share.told_apart(0.8)
    beyond = [exact_share(k, 20, 0.5).low > 0 for k in range(21)]
    assert binom.pmf(np.flatnonzero(beyond), 20, truth).sum() == pytest.approx(0.8, abs=1e-9)
    assert exact_share(3, 5, 0.5).told_apart() == math.inf  # five of five are not yet
    assert exact_share(0, 5).share_of(6, 0.8) == math.inf


def test_a_comparison_answers_by_the_exact_interval():
    assert Compared(exact_share(6, 6, 0.5), 0.02, printed=False).answer == "yes"
    assert Compared(exact_share(5, 5, 0.5), 0.02, printed=False).answer == "undecided"
    assert Compared(exact_share(6, 6, 0.5), 0.02, printed=False).erring(0.01) == "undecided"


def test_a_share_of_nothing_and_hits_beyond_all_are_refused():
    with pytest.raises(NotEnoughError, match="a share of no runs"):
        exact_share(0, 0)
    with pytest.raises(ValueError, match="`hits` must be from 0 to 5, got 6"):
        exact_share(6, 5)
