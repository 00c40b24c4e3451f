"""Ohno and Kumagai 2021 on MNIST, pixel by pixel: what is trained, and verdicts as the numbers say."""

import pytest
from fake_studies import draws, records_of, tables_of

from experiments.reports.spreads import NotEnoughError
from experiments.studies.registry import study_named
from experiments.studies.results import Results

AS_PRINTED = {("rows", 0.0): 0.946, ("rows", 2.0): 0.924, ("permuted", 0.0): 0.907, ("permuted", 2.0): 0.917}


@pytest.fixture
def study(tmp_path, monkeypatch):
    (tmp_path / "mnist").mkdir()
    monkeypatch.setenv("CTRNN_DATA", str(tmp_path))
    return study_named("ohno-pixels")


def measured(accuracy, best=25):
    """c = `best` has the lowest validation loss; tests of other c's are wrong by 0.3."""

    def of(run):
        found = accuracy[run.point["order"], run.point["exponent"]] + run.point["seed"] / 1000
        found -= 0.3 * (run.point["c"] != 25)
        rows = [{"what": "epoch", "epoch": k, "loss": abs(run.point["c"] - best) + k, "accuracy": found} for k in (1, 2)]
        return {"accuracy": found, "loss": 1.0}, rows

    return of


def test_the_runs_are_those_of_table_1(study):
    runs = study.runs("paper")
    assert len(runs) == 2 * 2 * 3 * 3 * 2 * 4
    for one in runs:
        task, field, training = one.configuration.task, one.configuration.field_settings, one.configuration.training
        assert (task.side, field.hidden, field.recurrent_gain, one.configuration.field) == (28, 128, 0.1, "leaky-power")
        assert (training.optimizer, training.batch, training.schedule, training.keep) == ("rmsprop", 100, "halved-twice", "best")
        assert training.steps == 200 * training.batches == 200 * 500
    assert {round(one.configuration.field_settings.alpha * 784) for one in runs} == {1, 5, 25}
    assert {(one.configuration.task.order, one.configuration.field_settings.exponent) for one in runs} == set(AS_PRINTED)


def test_an_interval_with_nothing_and_the_printed_effect_leaves_the_claim_undecided(study):
    # Differences are known to 2.776 sqrt(2 / 3) 0.015 = 0.034 to both sides, and 0.010 and -0.022 are printed.
    records = records_of(study, "small", measured({("rows", 0.0): 0.846, ("rows", 2.0): 0.858, ("permuted", 0.0): 0.773,
                                                   ("permuted", 2.0): 0.802}))  # fmt: skip
    for one in records:
        one["measures"]["accuracy"] += 0.014 * (one["point"]["seed"] - 1)
    verdict = study.verdict(Results(records))
    assert [part.answer for part in verdict.parts] == ["undecided", "undecided"]
    assert verdict.word == "undecided"
    assert "which holds both 0 and the 0.01 in print" in verdict.sentence


def test_settings_are_chosen_by_validation_and_never_by_the_test(study):
    verdict = study.verdict(Results(records_of(study, "small", measured(AS_PRINTED, best=5))))
    assert verdict.numbers["accuracy, rows, r = 0"].startswith("0.647")  # 0.946 - 0.3, and 0.001 for the mean of seeds


def test_the_tables_have_the_figures_of_the_paper_beside_ours(study):
    results = Results(records_of(study, "small", measured(AS_PRINTED)))
    table = tables_of(study, results)
    assert "| permuted | 2 | 0.922 (0.917–0.928) | 25 | 0.00500 | 0 of 18 | 0.917 |" in table
    assert "| rows | 0 | 5 | 0.6470 (0.6460–0.6480) | 21 |" in table
    assert draws(study.figures["accuracy"], results) is not None
    rows = [one for one in results.records if one["point"]["order"] == "rows"]
    with pytest.raises(NotEnoughError, match="no run with permuted, r = 0; permuted, r = 2 is done yet"):
        study.verdict(Results(rows))


@pytest.mark.parametrize(
    ("changed", "answers"),
    [
        ({}, ["yes", "yes"]),
        ({("permuted", 2.0): 0.9072}, ["no", "yes"]),
        ({("rows", 2.0): 0.9458}, ["yes", "no"]),
        ({("permuted", 2.0): 0.89, ("rows", 2.0): 0.96}, ["no", "no"]),
    ],
)
def test_each_part_is_answered_by_the_interval_of_its_difference(study, changed, answers):
    verdict = study.verdict(Results(records_of(study, "small", measured(AS_PRINTED | changed))))
    assert [part.answer for part in verdict.parts] == answers, verdict.sentence
