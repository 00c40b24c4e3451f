"""Starts that are told no time scale: what is trained, the rate that other seeds choose, and verdicts as the steps say."""

import math

import fake_studies
import pytest
from fake_studies import draws, records_of, tables_of

from experiments.reports.spreads import NotEnoughError
from experiments.studies.claims.tallec import unknown_times
from experiments.studies.claims.tallec.tried import TriedRates
from experiments.studies.claims.tallec.unknown_times import AGAIN, CHOOSING, JUDGED, RATES, STARTS, judged, main
from experiments.studies.registry import study_named
from experiments.studies.results import Results

STUDY = study_named("unknown-times")
# To an error of 0.01, by the best rate.
STEPS = {"slow-decay": 400, "chrono": 350, "too-long": 1500, "too-short": 1600, "standard": 1600}
BEST = {"slow-decay": 2e-3, "chrono": 2e-2, "too-long": 6e-3, "too-short": 4e-2, "standard": 6e-3}


@pytest.fixture(autouse=True)
def chosen(monkeypatch, tmp_path):
    """A table of what was tried, in which each start's best rate is that of BEST."""
    tried = TriedRates(tmp_path / "tried.csv", "error")
    errors = {(start, rate): 0.01 if rate == best else 0.1 for start, best in BEST.items() for rate in RATES}
    tried.write([32, 100, *at, errors[at]] for at in errors)
    monkeypatch.setattr(unknown_times, "TRIED", tried)
    fake_studies._runs.cache_clear()  # which points there are follows from the table
    yield tried
    fake_studies._runs.cache_clear()


def measured(steps, best=BEST, late=(), again=0):
    """Runs reach 0.01 where `steps` says, by the best rate, and a little later for each of three seeds; by others never.

    `again`: how many there are of the seeds that judge too long a time."""

    def of(run):
        if run.point["seed"] >= (AGAIN + again if run.point["seed"] >= AGAIN else JUDGED + 3):
            return None
        start, there = run.point["start"], run.point["rate"] == best[run.point["start"]] and run.point["start"] not in late
        reached = steps[start] + 50 * (run.point["seed"] % CHOOSING)
        return {"loss": 0.1}, [
            {"step": k, "loss": 0.009 if there and k >= reached else 0.15} for k in range(50, 2001, 50)
        ]  # fmt: skip

    return of


def results(steps=STEPS, **more):
    return Results(records_of(STUDY, "small", measured(steps, **more)))


def test_each_start_is_told_what_it_is_called_after():
    runs = STUDY.runs("paper")
    assert {(run.point["T"], run.point["start"]) for run in runs} == {(T, start) for T in (200, 750) for start in STARTS}
    for run in runs:
        field, T = run.configuration.field_settings, run.point["T"]
        told = {"slow-decay": None, "standard": None, "chrono": T, "too-long": 10 * T, "too-short": T / 10}[run.point["start"]]
        assert field.t_max == told
        assert field.init == {"too-long": "chrono", "too-short": "chrono"}.get(run.point["start"], run.point["start"])
        assert (run.configuration.task.T, run.configuration.training.lr) == (T, run.point["rate"])


def test_rates_are_chosen_by_seeds_that_judge_nothing(monkeypatch, chosen, tmp_path):
    records = records_of(STUDY, "small", measured(STEPS))
    for one in records:  # judging seeds do worse by the rate that was chosen, which moves nothing
        if one["point"]["start"] == "chrono" and one["point"]["seed"] >= JUDGED:
            one["rows"] = [{**row, "loss": 0.16} for row in one["rows"]]
    rows = judged(Results(records))
    assert rows.groupby("start")["rate"].unique().map(list).to_dict() == {start: [rate] for start, rate in BEST.items()}
    assert set(rows["seed"]) == {200, 201, 202}
    monkeypatch.setattr(unknown_times, "records_in", lambda folder: ({"scale": "small"}, records))
    before = chosen.file.read_text()
    main(tmp_path)
    assert chosen.file.read_text() != before
    assert {start: chosen.best(32, 100, start, RATES) for start in STARTS} == BEST
    made = {one["key"]: [row["loss"] for row in one["rows"]] for one in records}
    rate = f"{BEST['chrono']:g}"
    of_evaluations = made[f"100-chrono-{rate}-100"] + made[f"100-chrono-{rate}-101"]
    (line,) = [line for line in chosen.file.read_text().splitlines() if line.startswith(f"32,100,chrono,{rate},")]
    assert float(line.split(",")[-1]) == pytest.approx(sum(of_evaluations) / len(of_evaluations), rel=1e-5)
    records.remove(next(one for one in records if one["point"]["start"] == "standard" and one["point"]["seed"] == CHOOSING))
    main(tmp_path)  # one rate is tried by one seed alone
    assert [start for start in STARTS if chosen.best(32, 100, start, RATES) is None] == ["standard"]
    only_choosing = [one for one in records if one["point"]["seed"] < JUDGED]
    with pytest.raises(NotEnoughError, match="of no T"):
        STUDY.verdict(Results(only_choosing))


def test_what_is_judged_has_one_rate_and_is_there_once_all_rates_are_tried(chosen):
    points = [run.point for run in STUDY.runs("small")]
    assert len(points) == 2 * 5 * 5 + 8 * 5 + 8 * 2
    assert {(point["start"], point["seed"]) for point in points if point["seed"] >= AGAIN} == {
        (start, seed) for start in ("chrono", "too-long") for seed in range(300, 308)
    }
    assert {(point["start"], point["rate"]) for point in points if point["seed"] >= JUDGED} == set(BEST.items())
    lines = chosen.file.read_text().splitlines()
    chosen.write(line.split(",") for line in lines[1:] if "too-short,0.08" not in line)
    assert {point["start"] for point in STUDY.points(STUDY.sizes["small"]) if point["seed"] >= JUDGED} == {*BEST} - {"too-short"}
    assert len(STUDY.runs("smoke")) == 2 * 5 + 2  # one rate needs no choice


@pytest.mark.parametrize(
    ("changed", "answers"),
    [
        ({}, ["yes", "yes", "yes", "yes"]),
        ({"slow-decay": 1400}, ["no", "no", "no", "no"]),  # four times as late as chrono
        ({"slow-decay": 500, "chrono": 250}, ["undecided", "yes", "yes", "yes"]),  # twice
        ({"standard": 450}, ["yes", "no", "yes", "yes"]),
        ({"too-short": 450}, ["yes", "yes", "yes", "no"]),
        ({"too-long": 450}, ["yes", "yes", "no", "yes"]),
        ({"slow-decay": 200, "chrono": 1300}, ["no", "yes", "yes", "yes"]),  # far sooner is not as soon
    ],
)
def test_each_part_is_answered_by_how_many_times_as_many_steps_are_taken(changed, answers):
    verdict = STUDY.verdict(results(STEPS | changed))
    assert [part.answer for part in verdict.parts] == answers, verdict.sentence


@pytest.mark.parametrize(
    ("too_long", "late", "answer"),
    [(400, (), "yes"), (920, (), "undecided"), (1500, (), "no"), (400, ("too-long",), "no"), (400, ("chrono",), "undecided")],
)
def test_too_long_a_time_is_judged_by_seeds_of_its_own(too_long, late, answer):
    records = records_of(STUDY, "small", measured(STEPS | {"chrono": 1000, "too-long": too_long}, late=late, again=3))
    usual = records_of(STUDY, "small", measured(STEPS))
    parts = STUDY.verdict(Results([one for one in usual if one["point"]["seed"] < AGAIN] + records[-6:])).parts
    assert [part.answer for part in parts] == ["yes", "yes", "yes", "yes", answer]
    assert {one["point"]["seed"] for one in records[-6:]} == {300, 301, 302}


def test_runs_that_never_get_there_count_with_the_steps_they_were_given():
    verdict = STUDY.verdict(results(late=["standard"]))
    assert "standard > 2000" in verdict.parts[1].evidence
    spread = verdict.parts[1].holds.of["log2 of steps at T = 100"].measured
    expected = sum(math.log2(400 + 50 * k) for k in range(3)) / 3 - math.log2(2000)
    assert spread.mean == pytest.approx(expected)


def test_no_answer_follows_that_a_run_which_was_not_there_could_turn():
    early = STEPS | dict.fromkeys(["chrono", "too-long", "too-short", "standard"], 1900)
    parts = STUDY.verdict(results(early, late=["slow-decay"])).parts
    assert [part.answer for part in parts] == ["undecided", "no", "no", "no"]
    assert "but runs were not there" in parts[0].evidence
    late = STUDY.verdict(results(STEPS | {"slow-decay": 1500}, late=["standard"])).parts
    assert [part.answer for part in late] == ["no", "undecided", "no", "no"]


def test_where_chrono_does_not_learn_either_nothing_is_judged():
    verdict = STUDY.verdict(results(late=["chrono"]))
    assert [part.answer for part in verdict.parts] == ["undecided"] * 4
    assert "not every run of chrono told T comes to an error of 0.1" in verdict.sentence


def test_a_verdict_waits_for_every_start_and_two_seeds():
    records = records_of(STUDY, "small", measured(STEPS))
    for left in ("start", "seed"):
        some = [one for one in records if one["point"][left] not in ("too-long", 201, 202)]
        with pytest.raises(NotEnoughError):
            STUDY.verdict(Results(some))


def test_the_page_shows_the_chosen_rate_and_the_steps():
    found = results()
    assert "| 100 | chrono told T | 0.0200 | 400 (350–450) | 400 (350–450) |" in tables_of(STUDY, found)
    (ax,) = draws(STUDY.figures["curves"], found).axes
    assert {line.get_label() for line in ax.get_lines()} >= {"slow decay", "chrono told T", "chrono told 10 T", "standard"}
