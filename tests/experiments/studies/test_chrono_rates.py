"""Chrono's lead with each start at a rate of its own: whose rate is chosen, and what counts as a lead."""

import csv
import math
from typing import ClassVar

import fake_studies
import pandas as pd
import pytest
from fake_studies import draws, records_of, tables_of
from scipy.stats import binom, binomtest

from experiments.reports.spreads import NotEnoughError, number, paired
from experiments.studies.claims.tallec import chrono_rates
from experiments.studies.claims.tallec.chrono_rates import (
    AGAIN,
    CHOICE,
    JUDGED,
    STARTS,
    ChronoRates,
    leads,
    main,
    rate_of,
    reached,
)
from experiments.studies.claims.tallec.tried import TriedRates
from experiments.studies.registry import study_named
from experiments.studies.results import Results, where
from experiments.studies.study import Sizes

EVERY = {"every": 50, "held_out": 500, "choosing": 2, "seeds": 5, "again": 0, "pairs": 0, "half": 8000}


class OneRate(ChronoRates):
    """With a single rate nothing is to be chosen."""

    sizes: ClassVar = {"small": Sizes(hidden=64, steps={200: 16_000, 50: 4800}, rates=(1e-2,), tried=5000, **EVERY)}


def records(steps, late=(), printed=(), printed_late=()):
    """Records in which seed s takes some percent more than the steps of its T and start, those in `late` as many as given;
    `printed`: steps at the printed rate, where they are others."""

    def measured(run):
        T, start, seed = run.point["T"], run.point["start"], run.point["seed"]
        at_print = run.point["rate"] == chrono_rates.PRINTED
        is_late = (T, start, seed) in (printed_late if at_print else late)
        least = dict(printed).get((T, start), steps[T, start]) if at_print else steps[T, start]
        taken = 16_000 if is_late else round(least * (1 + 0.01 * (seed % 10)))
        rows = [{"error": error, "steps": taken, "late": is_late} for error in (0.01, 0.02, 0.05, 0.1)]
        return {"loss": 0.009}, rows

    return records_of(OneRate(), "small", measured)


SOONER = {(T, start): 1000 if start == "chrono" else 3000 for T in (200, 50) for start in STARTS}


def every(start):
    return [(200, start, seed) for seed in range(JUDGED, JUDGED + 5)]


def answers(steps, late=(), **printed):
    """Of chrono's leads; what is asked of uniform gates comes last."""
    return [part.answer for part in OneRate().verdict(Results(records(steps, late, **printed))).parts][:5]


def of_uniform_gates(steps, late=()):
    return OneRate().verdict(Results(records(SOONER | steps, late))).parts[-1].answer


# What is run ---------------------------------------------------------------------------------------------------------------


def test_seeds_that_choose_are_not_those_that_judge_and_all_runs_end_at_the_error():
    runs = study_named("chrono-rates").runs("small")
    for run in runs:
        settings, point = run.configuration.training, run.point
        assert (settings.goal, settings.batch, settings.optimizer, settings.lr) == (0.01, 50, "rmsprop", point["rate"])
        assert point["seed"] in (CHOICE, CHOICE + 1, *range(JUDGED, JUDGED + 5)) or point["T"] == 200
        assert settings.steps == 8000 or not 400 <= point["seed"] < 430
    more = [run.point for run in runs if run.point["seed"] >= 300]
    assert {(point["start"], point["seed"]) for point in more if point["seed"] >= 400} == {
        (start, seed) for start in ("chrono", "standard") for seed in range(400, 430)
    }
    assert {point["seed"] for point in more if point["seed"] < 400} == {*range(300, 310)}
    chosen = [run.point for run in runs if run.point["seed"] < JUDGED]
    assert len({(point["T"], point["start"], point["rate"]) for point in chosen}) == len(chosen) / 2


def test_the_rate_of_a_start_is_that_of_the_fewest_steps_and_of_equals_the_smallest(monkeypatch, tmp_path):
    sizes, tried = Sizes(hidden=64, rates=(1e-2, 3e-2)), TriedRates(tmp_path / "tried.csv", "steps")
    monkeypatch.setattr(chrono_rates, "TRIED", tried)
    assert rate_of(sizes, 200, "chrono") is None  # nothing is
    steps = {("chrono", 3e-2): 1000, ("chrono", 1e-2): 1000, ("standard", 1e-2): 3000, ("standard", 3e-2): 2000}
    tried.write([[64, 200, *at, steps[at], 0] for at in steps] + [[64, 50, "chrono", 1e-2, 500, 0]], "late")
    assert (rate_of(sizes, 200, "chrono"), rate_of(sizes, 200, "standard")) == (1e-2, 3e-2)
    assert rate_of(sizes, 50, "chrono") is None  # one rate is not tried
    assert rate_of(Sizes(hidden=128, rates=sizes.rates), 200, "chrono") is None  # of another size


def test_what_was_tried_is_written_once_both_seeds_have_tried_it(monkeypatch, tmp_path):
    file = tmp_path / "tried.csv"
    monkeypatch.setattr(chrono_rates, "TRIED", TriedRates(file, "steps"))
    made = [one for one in records(SOONER) if one["key"] != "50-chrono-0.01-101"]
    monkeypatch.setattr(chrono_rates, "records_in", lambda folder: ({"scale": "small"}, made))
    main(tmp_path)
    with file.open() as lines:
        found = {(int(row["T"]), row["start"]): float(row["steps"]) for row in csv.DictReader(lines)}
    assert found == {(T, start): 1005.0 if start == "chrono" else 3015.0 for T, start in SOONER if (T, start) != (50, "chrono")}


def test_steps_are_those_of_the_first_evaluation_that_found_the_error(tmp_path):
    curve = "step,evaluation_loss\n49,\n50,0.15\n100,0.04\n150,0.06\n200,0.0099\n"
    (tmp_path / "metrics.csv").write_text(curve)
    run = OneRate().runs("small")[0]
    rows = {row["error"]: (row["steps"], row["late"]) for row in OneRate().measure(run, None, tmp_path)}
    assert rows == {0.1: (100, False), 0.05: (100, False), 0.02: (200, False), 0.01: (200, False)}
    (tmp_path / "metrics.csv").write_text(curve.replace("0.0099", "0.0101"))
    late = {0.1: (100, False), 0.05: (100, False), 0.02: (200, False), 0.01: (5000, True)}  # 5000 were given
    for found in (OneRate().measure(run, None, tmp_path), OneRate().measure_diverged(run, tmp_path)):
        assert {row["error"]: (row["steps"], row["late"]) for row in found} == late


# What is said of it --------------------------------------------------------------------------------------------------------


def test_a_lead_counts_the_doublings_of_pairs_with_one_seed():
    own = where(reached(Results(records(SOONER | {(200, "standard"): 4000}))), error=0.01)
    found = leads(where(own, part=chrono_rates.OWN), 200, "standard")
    assert list(found.index) == list(range(JUDGED, JUDGED + 5))
    assert list(found) == pytest.approx([2.0] * 5, abs=1e-9)


def test_a_verdict_is_of_each_t_and_of_one_large_bias():
    assert answers(SOONER) == ["yes", "yes", "yes", "yes", "no"]
    assert answers(SOONER | {(50, "standard"): 1500}) == ["yes", "no", "yes", "yes", "no"]
    assert answers(SOONER | {(50, "standard"): 1050}) == ["yes", "no", "no", "yes", "no"]
    assert answers(SOONER | {(200, "constant"): 1100}) == ["yes", "yes", "yes", "no", "no"]
    assert "3 times as soon, by leads in doublings" in OneRate().verdict(Results(records(SOONER))).sentence


def test_runs_that_were_not_there_make_a_lead_no_smaller():
    """A standard run that was stopped may be later than twice; of a chrono run that was, nothing follows."""
    near = SOONER | {(200, "standard"): 1500}
    assert answers(near) == ["no", "yes", "yes", "yes", "no"]
    late = [(200, "standard", JUDGED)]
    said = OneRate().verdict(Results(records({**near, (200, "chrono"): 9000, (200, "constant"): 30_000}, late)))
    assert [part.answer for part in said.parts][:5] == ["undecided", "yes", "undecided", "yes", "undecided"]
    assert answers(SOONER, every("chrono")) == ["undecided", "yes", "undecided", "undecided", "undecided"]


def test_late_runs_of_the_sooner_start_make_a_lead_less_than_what_is_counted_and_of_the_other_more():
    own = SOONER | {(200, "uniform-gates"): 9000, (200, "chrono"): 1000}
    parts = parts_of(records(own, [(200, "uniform-gates", JUDGED)]))
    assert parts[-1].evidence.startswith("less than 0.298 times at T = 200, 1 times at T = 50")
    assert "less than" not in "".join(part.evidence for part in parts[:-1])
    (at_200, *_), always = (parts_of(records(SOONER, every(start)))[:4] for start in ("chrono", "standard"))
    assert "less than 0.192 times as soon" in at_200.evidence
    assert always[2].evidence.startswith("more than 15.6 times at T = 200, 3 times at T = 50")
    assert "as counted 1 times as soon" in parts_of(records(SOONER, every("chrono") + every("standard")))[0].evidence


def test_a_lead_that_is_smaller_than_at_the_printed_rate_is_told_by_pairs():
    assert answers(SOONER, printed={(200, "standard"): 16_000})[-1] == "yes"
    assert answers(SOONER, every("uniform-gates"), printed={(200, "standard"): 16_000})[-1] == "yes"  # of two starts alone
    assert answers(SOONER, printed_late=every("standard"))[-1] == "yes"  # and more so, had they been trained to the end
    assert answers(SOONER, printed={(200, "chrono"): 16_000 / 3}, printed_late=every("standard"))[-1] == "undecided"
    assert answers(SOONER, printed={(200, "standard"): 200_000}, printed_late=every("chrono"))[-1] == "undecided"


def test_more_seeds_are_judged_by_themselves_and_say_how_long_a_lead_they_would_have_shown(monkeypatch):
    monkeypatch.setattr(OneRate, "sizes", {"small": Sizes(**{**vars(OneRate.sizes["small"]), "again": 6})})
    fake_studies._runs.cache_clear()
    try:
        found = {"yes": SOONER, "no": SOONER | {(200, "standard"): 1000}}
        for answer, steps in found.items():
            said = OneRate().verdict(Results(records(steps)))
            assert [part.answer for part in said.parts[5:9]] == [answer, "yes", "yes", "no"]
        late = [(200, "standard", 300), (200, "standard", 304)]
        parts = OneRate().verdict(Results(records(SOONER | {(200, "standard"): 1000}, late))).parts
        assert parts[5].answer == "undecided"
        lead = paired(leads(where(reached(Results(records(SOONER, late))), part=AGAIN, error=0.01), 200, "standard"))
        least = 2 ** (math.log2(1.1) + lead.told_apart())
        assert f"a lead of {number(least)} times is one that 6 seeds show" in parts_of(records(SOONER, late))[5].evidence
        assert parts_of(records(SOONER, late))[5].evidence.startswith("more than ")
        assert "| 200 | chrono | 0.01 | 1025 (1000–1050) |" in tables_of(OneRate(), Results(records(SOONER)))
    finally:
        fake_studies._runs.cache_clear()


def test_uniform_gates_are_twice_as_soon_as_standard_where_they_are_at_every_t():
    soon = {(T, "uniform-gates"): 1000 for T in (200, 50)}
    assert of_uniform_gates(soon) == "yes"
    assert of_uniform_gates({**soon, (50, "uniform-gates"): 2000}) == "no"
    assert of_uniform_gates(soon, every("uniform-gates")) == "undecided"
    assert of_uniform_gates(soon, every("standard")) == "yes"  # and more so, had they been trained to the end
    assert of_uniform_gates({**soon, (50, "uniform-gates"): 2000}, every("standard")) == "undecided"


def pairs(standard_late, chrono_late, seeds=30):
    """Rows of pairs, in which so many runs of each start, counted from the ends, were not there."""
    late = {"standard": range(standard_late), "chrono": range(seeds - chrono_late, seeds)}
    return pd.DataFrame(
        {"T": 200, "start": start, "seed": 400 + k, "rate": 0.03, "steps": 1000, "late": k in late[start]}
        for start in late
        for k in range(seeds)
    )


@pytest.mark.parametrize(
    ("late", "answer"), [((6, 0), "yes"), ((5, 0), "undecided"), ((0, 6), "no"), ((0, 0), "undecided"), ((15, 2), "yes")]
)
def test_a_start_is_there_at_more_seeds_by_those_at_which_it_alone_is(late, answer):
    (part,) = chrono_rates._oftener(pairs(*late))
    assert part.answer == answer
    low, high = binomtest(late[0], sum(late)).proportion_ci() if any(late) else (0, 0)
    if any(late):
        assert (part.holds.measured.low + 0.5, part.holds.measured.high + 0.5) == pytest.approx((low, high), abs=1e-9)
    assert f"alone chrono at {late[0]} and standard at {late[1]}" in part.evidence


def test_pairs_at_which_both_starts_fail_or_only_one_is_run_say_nothing():
    both = pairs(30, 30)
    assert chrono_rates._oftener(both)[0].answer == "undecided"
    one_run = both[both["start"] == "standard"].head(1).assign(seed=500, late=True)
    (part,) = chrono_rates._oftener(pd.concat([pairs(5, 0), one_run]))
    assert "alone chrono at 5 and standard at 0" in part.evidence
    assert chrono_rates._oftener(pairs(5, 0).head(0)) == []
    assert chrono_rates._oftener(pairs(5, 0).head(1)) == []  # of standard alone


def test_thirty_pairs_show_a_share_of_a_quarter_in_four_cases_of_five():
    share = chrono_rates.least_share(30)
    assert share == pytest.approx(0.25, abs=0.005)
    assert binom.sf(5, 30, share) == pytest.approx(0.8, abs=1e-9)  # six alone are beyond 1.1/2.1 and five are not
    assert binom.sf(5, 30, 0.2) == pytest.approx(0.57, abs=0.005)


def test_a_table_shows_shares_with_their_exact_intervals():
    assert chrono_rates.there_in_words(pairs(6, 0).query("start == 'standard'")) == "24 of 30, 0.800 (0.614 to 0.923)"
    assert chrono_rates.there_in_words(pairs(6, 0).query("start == 'chrono'")) == "30 of 30, 1.000 (0.884 to 1.000)"


def parts_of(made):
    return OneRate().verdict(Results(made)).parts


def test_nothing_is_judged_before_a_standard_run_at_its_own_rate():
    early = [one for one in records(SOONER) if one["point"]["seed"] < JUDGED]
    with pytest.raises(NotEnoughError):
        OneRate().verdict(Results(early))
    assert "1.00e+03" not in tables_of(OneRate(), Results(early))
    no_constant = [one for one in records(SOONER) if one["point"]["start"] != "constant"]
    assert [part.answer for part in OneRate().verdict(Results(no_constant)).parts][:5] == ["yes", "yes", "yes", "undecided", "no"]
    no_uniform = [one for one in records(SOONER) if one["point"]["start"] != "uniform-gates"]
    assert OneRate().verdict(Results(no_uniform)).parts[5].evidence == "not run yet: uniform-gates at some T"


def test_table_and_figure_show_each_start_at_its_own_rate_and_what_was_tried():
    results = Results(records(SOONER, [(200, "standard", JUDGED)]))
    text = tables_of(OneRate(), results)
    assert "| 200 | standard | 0.01 | > 5660 (3030–16000), 1 of 5 not there |" in text
    assert "| 200 | chrono | – | 1005 (1000–1010) | – | – |" in text  # of the two seeds that choose
    assert "| 200 | chrono | 1020 (1000–1040) | 1020 (1000–1040) | 1020 (1000–1040) | 1020 (1000–1040) | 5 |" in text  # at 1e-3
    assert "uniform-gates" not in text
    rates, own = (draws(figure, results) for figure in OneRate().figures.values())
    legends = [entry.get_text() for figure in (rates, own) for legend in figure.legends for entry in legend.get_texts()]
    assert set(legends) == {"standard", "one large bias", "chrono", "uniform gates"}
    assert [axes.get_title("left") for axes in rates.axes] == ["T = 50", "T = 200"]
    assert sorted(max(line.get_ydata()) for line in own.axes[0].lines) == pytest.approx([1020, 3060, 3060, 5660])
