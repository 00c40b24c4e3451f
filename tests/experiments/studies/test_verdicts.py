"""Verdicts: each answer is what the interval says, and the word is what the answers say."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t, ttest_1samp, ttest_ind

from experiments.reports.spreads import NotEnoughError, Spread, difference, paired
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison, least_error, need_intervals

HALF = t.ppf(0.975, 10)  # of a standard error of 1
YES, NO, UNDECIDED = ClaimPart("a", True, "1"), ClaimPart("b", False, "2"), ClaimPart("c", None, "3")


def interval(low, high):
    return Spread((low + high) / 2, low, high, 3)


def test_a_difference_has_the_interval_of_welch():
    found = difference([3.0, 4.0, 5.0], [1.0, 2.0, 2.0])
    assert found.mean == pytest.approx(4 - 5 / 3)
    variance, other = 1 / 3, (1 / 3) / 3
    freedom = (variance + other) ** 2 / (variance**2 / 2 + other**2 / 2)

    half = t.ppf(0.975, freedom) * math.sqrt(variance + other)
    assert (found.low, found.high) == (pytest.approx(found.mean - half), pytest.approx(found.mean + half))
    assert difference([1.0], [0.5]).low == -math.inf
    with pytest.raises(NotEnoughError, match="no run is done"):
        difference([1.0, 2.0], [])


@pytest.mark.parametrize("effect", [0.0, math.nan])
def test_an_effect_of_nothing_can_be_told_from_nothing_by_no_interval(effect):
    with pytest.raises(ValueError, match="cannot be told from none; give its size in print, or the least one that counts"):
        Compared(interval(0.1, 0.2), effect)


@pytest.mark.parametrize(
    ("low", "high", "effect", "answer"),
    [
        (0.001, 0.03, 0.01, "yes"),
        (0.001, 0.002, 0.01, "yes"),  # there is one, if a smaller one
        (-0.024, 0.025, 0.007, "undecided"),  # three seeds, and what the paper prints
        (-0.001, 0.01, 0.01, "undecided"),  # just reached
        (0.0, 0.02, 0.01, "undecided"),
        (-0.024, 0.006, 0.007, "no"),
        (-0.03, -0.01, 0.007, "no"),  # the other way about
        (-0.03, -0.01, -0.007, "yes"),
        (-0.03, 0.01, -0.02, "undecided"),
        (-0.01, 0.03, -0.02, "no"),
        (-math.inf, math.inf, 0.01, "undecided"),
        (math.nan, math.nan, 0.01, "undecided"),
    ],
)
def test_an_effect_is_undecided_where_the_interval_holds_both_nothing_and_what_is_printed(low, high, effect, answer):
    assert Compared(interval(low, high), effect).answer == answer
    assert ClaimPart("a", Compared(interval(low, high), effect)).answer == answer


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (-0.07, 0.086, "yes"),
        (0.01, 0.02, "yes"),  # clearly there, and smaller than what counts
        (-0.07, 0.2, "undecided"),
        (-0.2, 0.07, "undecided"),
        (-0.1, 0.05, "undecided"),  # just as large
        (0.01, 0.2, "undecided"),  # there, and of a size that may not count
        (-0.2, -0.01, "undecided"),
        (0.1, 0.2, "no"),
        (-0.2, -0.1, "no"),
        (-math.inf, math.inf, "undecided"),
        (math.nan, math.nan, "undecided"),
    ],
)
def test_that_there_is_no_effect_is_undecided_where_the_interval_holds_nothing_and_one_that_counts(low, high, answer):
    assert {Compared(interval(low, high), effect, absent=True).answer for effect in (0.1, -0.1)} == {answer}


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [(0.001, 0.03, "undecided"), (0.001, 0.002, "no"), (0.011, 0.03, "yes"), (-0.03, 0.02, "undecided"), (-0.03, 0.005, "no")],
)
def test_where_the_effect_is_the_least_that_counts_less_than_it_is_no_yes(low, high, answer):
    assert Compared(interval(low, high), 0.01, printed=False).answer == answer
    assert Compared(interval(-high, -low), -0.01, printed=False).answer == answer


def test_a_level_widens_an_interval_as_students_law_does():
    ours, theirs = [3.0, 4.0, 5.5, 4.5], [1.0, 2.0, 2.0]
    for found, test in (
        (difference(ours, theirs), ttest_ind(ours, theirs, equal_var=False)),
        (paired(ours), ttest_1samp(ours, 0.0)),
    ):
        for level in (0.5, 0.95, 0.99):
            expected, at_level = test.confidence_interval(level), found.erring(1 - level)
            assert (at_level.low, at_level.high) == pytest.approx((expected.low, expected.high))
    assert difference([1.0], [0.5]).erring(0.01).low == -math.inf


@pytest.mark.parametrize("size", [2.0, 30.0, 1e3, 1e9])
def test_the_least_error_of_a_difference_is_the_p_of_its_t_test(size):
    found = Compared(Spread(size, size - HALF, size + HALF, 11, 10), 1e-12)
    assert least_error(lambda error: found.erring(error) == "yes") == pytest.approx(2 * t.sf(size, 10), rel=1e-6, abs=0)


def test_of_differences_beyond_all_doubt_the_surer_one_has_the_smaller_error():
    sizes = (1e3, 1e5, 1e4)  # chances of 1e-25, 1e-45 and 1e-35, of which 1 - p is 1
    parts = [ClaimPart("a", Compared(Spread(size, size - HALF, size + HALF, 11, 10), 0.1)) for size in sizes]
    assert [part.holds.error for part in ClaimVerdict(parts).parts] == [0.05, 0.05 / 3, 0.05 / 2]


def test_differences_of_one_study_are_judged_by_holms_steps():
    chances = [2 * t.sf(size, 10) for size in (2.3, 4.0, 3.0)]
    reject = dict(zip(range(3), multipletests(chances), strict=True))
    parts = [ClaimPart("a", Compared(Spread(size, size - HALF, size + HALF, 11, 10), 0.1)) for size in (2.3, 4.0, 3.0)]
    assert [part.answer == "yes" for part in ClaimVerdict(parts).parts] == [reject[k] for k in range(3)]
    assert [part.answer for part in ClaimVerdict([parts[0]]).parts] == ["yes"]  # alone it is one of one


def multipletests(chances):
    """Holm's adjusted p-values against 0.05."""
    largest, answers = 0.0, [False] * len(chances)
    for place, k in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        largest = max(largest, (len(chances) - place) * chances[k])
        answers[k] = largest <= 0.05
    return answers


def test_a_wider_interval_takes_an_answer_back_and_gives_no_other():
    smaller = Compared(Spread(0.4, 0.1, 0.7, 6, 5), 1.0)
    assert smaller.answer == "yes"
    wide = replace(smaller, error=0.01)
    assert wide.measured.erring(0.01).low < 0 < wide.measured.erring(0.01).high < 1
    assert wide.answer == "undecided"
    assert str(wide).endswith("(among others 99 %: -0.0706 to 0.8706), which holds 0")
    unsure = ClaimPart("b", Compared(Spread(0.0, -2.0, 2.0, 6, 5), 1.0))
    assert [part.answer for part in ClaimVerdict([ClaimPart("a", smaller), *[unsure] * 4]).parts] == ["undecided"] * 5


def test_words_are_of_the_interval_that_answers():
    wide = Compared(Spread(0.2, 0.06, 0.34, 6, 5), 0.05, printed=False, error=0.01)
    assert str(wide).endswith("(among others 99 %: -0.0196 to 0.4196), which holds both 0 and the 0.05 that counts")


def test_a_verdict_made_again_of_its_own_parts_is_the_same():
    parts = [ClaimPart("a", Compared(interval(low, low + 0.02), 0.5)) for low in (0.001, 0.003, 0.02)]
    once = ClaimVerdict(parts)
    assert ClaimVerdict(once.parts).parts == once.parts == replace(once, another="more").parts


@pytest.mark.parametrize(
    ("highs", "answer"),
    [((0.05, 0.06), "yes"), ((0.05, 0.3), "undecided"), ((0.05,), "yes"), ((), "undecided")],
)
def test_of_several_each_has_to_hold(highs, answer):
    several = EveryComparison({str(high): Compared(interval(-0.01, high), 0.1, absent=True, printed=False) for high in highs})
    assert several.answer == ClaimPart("a", several).answer == answer
    if answer == "undecided" and highs:
        assert "0.05 " in str(several)
        gone = EveryComparison({**several.of, "gone": Compared(interval(0.5, 0.52), 0.1, absent=True, printed=False)})
        assert gone.answer == "no"


def test_the_word_is_the_one_that_undecided_parts_could_not_change():
    for count in (1, 2, 3, 4):
        for parts in itertools.product((YES, NO, UNDECIDED), repeat=count):
            answers = itertools.product(*(("yes", "no") if part is UNDECIDED else (part.answer,) for part in parts))
            words = {
                "reproduced" if "no" not in one else "not reproduced" if "yes" not in one else "partly"
                for one in map(set, answers)
            }
            assert ClaimVerdict(parts).word == (words.pop() if len(words) == 1 else "undecided"), parts
    assert ClaimVerdict([]).word == "undecided"


def test_what_is_neither_true_nor_false_is_no_answer():
    for holds in ("no", math.nan, [], 0.5):
        with pytest.raises(TypeError, match=r"is True, False, None or a Compared; got .* for 'a'"):
            ClaimPart("a", holds)
    assert [ClaimPart("a", np.bool_(holds)).answer for holds in (True, False)] == ["yes", "no"]  # as comparisons of pandas are


def test_a_verdict_on_another_experiment_is_undecided_whatever_its_parts_say():
    for parts in ([YES], [NO], [YES, NO], [UNDECIDED]):
        assert ClaimVerdict(parts, another="It is of more.").word == "undecided"
    assert ClaimVerdict([NO], another="It is of more.").sentence == "It is of more. What was found in it: B: no (2)."


@pytest.mark.parametrize(
    ("measured", "answer", "words"),
    [
        (Spread(0.03, 0.02, math.inf, 3), "yes", "0.0300, 95 % 0.0200 or more, which does not hold 0"),
        (Spread(0.03, -0.02, math.inf, 3), "undecided", "0.0300, 95 % -0.0200 or more, which holds both 0 and the 0.01 in print"),
        (Spread(0.0, -math.inf, 0.002, 3), "no", "0.0000, 95 % 0.0020 or less, which does not come to the 0.01 in print"),
        (Spread(-2e-4, -math.inf, -1e-4, 3), "no", "-0.000200, 95 % -0.000100 or less, which does not come to the 0.01 in print"),
    ],
)
def test_an_interval_that_is_open_on_one_side_says_its_one_end(measured, answer, words):
    compared = Compared(measured, 0.01)
    assert (compared.answer, str(compared)) == (answer, words)
    need_intervals([ClaimPart("a", compared)])


def test_an_open_interval_among_others_says_its_one_end_at_both_levels():
    words = "0.0300, 95 % 0.0200 or more (among others 99 %: 0.0169 or more), which does not hold 0"
    assert str(Compared(Spread(0.03, 0.02, math.inf, 3), 0.01, error=0.01)) == words


def test_a_sentence_says_which_interval_holds_what():
    assert ClaimVerdict([YES, NO, UNDECIDED]).sentence == "A: yes (1). B: no (2). C: undecided (3)."
    assert ClaimVerdict([YES], summary="It holds. ").sentence == "It holds."
    assert str(ClaimPart("r = 2 is better", True)) == "r = 2 is better: yes."  # not R
    assert [ClaimVerdict(parts).heading for parts in ([NO], [YES, NO])] == ["Not reproduced", "Partly reproduced"]
    said = {
        Compared(interval(-0.02, 0.03), 0.917 - 0.907): "-0.0200 to 0.0300, which holds both 0 and the 0.01 in print",
        Compared(interval(0.02, 0.03), 0.01): "0.0200 to 0.0300, which does not hold 0",
        Compared(interval(-0.02, 0.0), 0.007, printed=False): "-0.0200 to 0.0000, which does not come to the 0.007 that counts",
        Compared(interval(-0.02, 0.03), 0.1, absent=True): "-0.0200 to 0.0300, which is within the 0.1 in print",
        Compared(interval(0.02, 0.3), 0.1, absent=True): "0.0200 to 0.3000, which holds the 0.1 in print",
        Compared(interval(0.2, 0.3), 0.1, absent=True): "0.2000 to 0.3000, which is beyond the 0.1 in print",
        Compared(interval(0.2, 0.3), 0.1, printed=False): "0.2000 to 0.3000, which is beyond the 0.1 that counts",
        Compared(
            interval(-0.1, 0.3), 0.1, error=0.01
        ): "-0.1000 to 0.3000 (among others 99 %: -0.1628 to 0.3628), which holds both 0 and the 0.1 in print",
    }
    for compared, words in said.items():
        mean = f"{compared.measured.mean:.4f}, 95 %"
        assert str(ClaimPart("so", compared, "here")) == f"So: {compared.answer} (here; difference {mean} {words})."
    alone = "0.5000, without an interval, which needs two runs of each that are not all alike"
    assert str(ClaimPart("so", Compared(difference([1.0], [0.5]), 0.1))) == f"So: undecided (difference {alone})."


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (Spread(0.0287, -0.0063, 0.0637, 3), "0.0287, 95 % -0.0063 to 0.0637"),
        (Spread(2.87e-4, -6.3e-5, 6.37e-4, 3), "0.000287, 95 % -0.000063 to 0.000637"),
        (Spread(2.87e-5, -6.3e-6, 6.37e-5, 3), "0.0000287, 95 % -0.0000063 to 0.0000637"),
        (Spread(2.87e-9, -6.3e-10, 6.37e-9, 3), "2.87e-09, 95 % -6.30e-10 to 6.37e-09"),
    ],
)
def test_a_small_difference_is_written_in_digits_that_say_something(measured, words):
    assert str(Compared(measured, 1e-9)).startswith(words)


@pytest.mark.parametrize(
    ("found", "text"),
    [(Spread(0.12, 0.1, 0.144, 5), "0.12 (0.10 to 0.14)"), (Spread(0.5, 0.5, 0.5, 5), "0.50"), (paired([0.25]), "0.25")],
)
def test_an_interval_is_written_behind_its_mean_with_as_many_places_where_there_is_one(found, text):
    assert f"{found:.2f}" == text


def test_a_mean_that_far_beyond_a_bound_is_shown_to_be_in_four_cases_of_five():
    draws = np.random.default_rng(0).normal(size=(4000, 6))
    found = [paired(row) for row in draws[:40]]
    beyond = np.array([one.told_apart() / ((one.high - one.low) / 2) for one in found])
    assert np.ptp(beyond) < 1e-9  # in half widths a number of the degrees of freedom alone
    sizes, half = draws.std(1, ddof=1) / math.sqrt(6), t.ppf(0.975, 5)
    true = beyond[0] * half / math.sqrt(6)  # of a standard deviation of 1
    assert np.mean(draws.mean(1) + true - half * sizes > 0) == pytest.approx(0.8, abs=0.02)
    assert paired([0.5, 0.5]).told_apart() == 0.0


BEGUN = {
    "a symbol lasts": "A symbol lasts",
    "on words": "On words",
    "r = 2 learns": "r = 2 learns",
    "a = 2 learns": "a = 2 learns",
}


@pytest.mark.parametrize("claim", BEGUN)
def test_a_part_begins_with_a_capital_but_for_a_symbol(claim):
    assert ClaimPart(claim, True).begun == BEGUN[claim]
