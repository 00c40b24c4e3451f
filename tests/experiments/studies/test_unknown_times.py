"""Starts that are told no time scale: what is trained, the rate that other seeds choose, and verdicts as the steps say."""

import math

import pytest
from fake_studies import draws, records_of, tables_of

from experiments.reports.spreads import NotEnoughError
from experiments.studies.claims.tallec.unknown_times import CHOOSING, judged
from experiments.studies.registry import study_named
from experiments.studies.results import Results

STUDY = study_named("unknown-times")
STEPS = {"slow-decay": 400, "chrono": 350, "too-long": 1500, "standard": 1600}  # to an error of 0.01 by the best rate
BEST = {"slow-decay": 2e-3, "chrono": 2e-2, "too-long": 6e-3, "standard": 6e-3}


def measured(steps, best=BEST, late=()):
    """Runs reach 0.01 where `steps` says, by the best rate, and a little later for each seed; by others never."""

    def of(run):
        start, there = run.point["start"], run.point["rate"] == best[run.point["start"]] and run.point["start"] not in late
        reached = steps[start] + 50 * (run.point["seed"] % CHOOSING)
        return {"loss": 0.1}, [
            {"step": k, "loss": 0.009 if there and k >= reached else 0.15} for k in range(50, 2001, 50)
        ]  # fmt: skip

    return of


def results(steps=STEPS, **more):
    return Results(records_of(STUDY, "small", measured(steps, **more)))


def test_each_start_is_told_what_it_is_called_after():
    for run in STUDY.runs("paper"):
        field, T = run.configuration.field_settings, run.point["T"]
        told = {"slow-decay": None, "standard": None, "chrono": T, "too-long": 10 * T}[run.point["start"]]
        assert field.t_max == told
        assert field.init == {"too-long": "chrono"}.get(run.point["start"], run.point["start"])
        assert (run.configuration.task.T, run.configuration.training.lr) == (T, run.point["rate"])


def test_rates_are_chosen_by_seeds_that_judge_nothing():
    records = records_of(STUDY, "small", measured(STEPS))
    for one in records:  # judging seeds of chrono do best by another rate than the choosing ones
        if one["point"]["start"] == "chrono" and one["point"]["seed"] < CHOOSING and one["point"]["rate"] == 2e-3:
            one["rows"] = [{**row, "loss": 1e-4} for row in one["rows"]]
    rows = judged(Results(records))
    assert rows.groupby("start")["rate"].unique().map(list).to_dict() == {start: [rate] for start, rate in BEST.items()}
    assert set(rows["seed"]) == {0, 1, 2}
    only_judging = [one for one in records if one["point"]["seed"] < CHOOSING]
    assert judged(Results(only_judging)).empty
    with pytest.raises(NotEnoughError, match="of no T"):
        STUDY.verdict(Results(only_judging))


@pytest.mark.parametrize(
    ("changed", "answers"),
    [
        ({}, ["yes", "yes", "yes"]),
        ({"slow-decay": 1400}, ["no", "no", "no"]),  # four times as late as chrono
        ({"slow-decay": 500, "chrono": 250}, ["undecided", "yes", "yes"]),  # twice
        ({"standard": 450}, ["yes", "no", "yes"]),
        ({"too-long": 450}, ["yes", "yes", "no"]),
        ({"slow-decay": 100, "chrono": 1000}, ["no", "yes", "yes"]),  # far sooner is not as soon
    ],
)
def test_each_part_is_answered_by_how_many_times_as_many_steps_are_taken(changed, answers):
    verdict = STUDY.verdict(results(STEPS | changed))
    assert [part.answer for part in verdict.parts] == answers, verdict.sentence


def test_runs_that_never_get_there_count_with_the_steps_they_were_given():
    verdict = STUDY.verdict(results(late=["standard"]))
    assert "standard > 2000" in verdict.parts[1].evidence
    spread = verdict.parts[1].holds.of["log2 of steps at T = 100"].measured
    expected = sum(math.log2(400 + 50 * k) for k in range(3)) / 3 - math.log2(2000)
    assert spread.mean == pytest.approx(expected)


def test_no_answer_follows_that_a_run_which_was_not_there_could_turn():
    early = STEPS | dict.fromkeys(["chrono", "too-long", "standard"], 1900)
    parts = STUDY.verdict(results(early, late=["slow-decay"])).parts
    assert [part.answer for part in parts] == ["undecided", "no", "no"]
    assert "but runs were not there" in parts[0].evidence
    late = STUDY.verdict(results(STEPS | {"slow-decay": 1500}, late=["standard"])).parts
    assert [part.answer for part in late] == ["no", "undecided", "no"]


def test_where_chrono_does_not_learn_either_nothing_is_judged():
    verdict = STUDY.verdict(results(late=["chrono"]))
    assert [part.answer for part in verdict.parts] == ["undecided"] * 3
    assert "not every run of chrono told T comes to an error of 0.1" in verdict.sentence


def test_a_verdict_waits_for_every_start_and_two_seeds():
    records = records_of(STUDY, "small", measured(STEPS))
    for left in ("start", "seed"):
        some = [one for one in records if one["point"][left] not in ("too-long", 1, 2)]
        with pytest.raises(NotEnoughError):
            STUDY.verdict(Results(some))


def test_the_page_shows_the_chosen_rate_and_the_steps():
    found = results()
    assert "| 100 | chrono told T | 0.0200 | 400 (350–450) | 400 (350–450) |" in tables_of(STUDY, found)
    (ax,) = draws(STUDY.figures["curves"], found).axes
    assert {line.get_label() for line in ax.get_lines()} >= {"slow decay", "chrono told T", "chrono told 10 T", "standard"}
