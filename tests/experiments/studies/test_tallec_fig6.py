"""Figure 6 of Tallec and Ollivier 2018: what is trained, and verdicts as the numbers say."""

import pytest
from fake_studies import draws, records_of, tables_of

from experiments.reports.spreads import NotEnoughError
from experiments.studies.registry import study_named
from experiments.studies.results import Results

AS_PRINTED = {("rows", "standard"): 0.97, ("rows", "chrono"): 0.971}
AS_PRINTED |= {("permuted", "standard"): 0.954, ("permuted", "chrono"): 0.963}


@pytest.fixture
def study(tmp_path, monkeypatch):
    (tmp_path / "mnist").mkdir()
    monkeypatch.setenv("CTRNN_DATA", str(tmp_path))
    return study_named("tallec-fig6")


def measured(accuracy):
    """The best epoch is the second of three."""

    def of(run):
        best = accuracy[run.point["order"], run.point["start"]] + run.point["seed"] / 1000
        rows = [{"what": "epoch", "epoch": k, "loss": 1.0, "accuracy": best - (k != 2) / 10} for k in (1, 2, 3)]
        return {"accuracy": best - 0.001, "loss": 1.0}, rows

    return of


def test_the_runs_are_those_printed(study):
    runs = study.runs("paper")
    assert len(runs) == 2 * 2 * 3
    for one in runs:
        settings, training = one.configuration.field_settings, one.configuration.training
        assert (one.configuration.task.side, settings.hidden, one.configuration.field) == (28, 512, "lstm")
        assert settings.t_max == (784 if settings.init == "chrono" else None)
        assert training.keep == "best"
    assert {(one.configuration.task.order, one.configuration.field_settings.init) for one in runs} == set(AS_PRINTED)


@pytest.mark.parametrize(
    ("changed", "answers"),
    [
        ({}, ["yes", "yes"]),
        ({("permuted", "chrono"): 0.9542}, ["yes", "no"]),
        ({("rows", "chrono"): 0.98}, ["no", "yes"]),
        ({("rows", "chrono"): 0.96, ("permuted", "chrono"): 0.94}, ["no", "no"]),
    ],
)
def test_each_part_is_answered_by_the_interval_of_best_validation_accuracies(study, changed, answers):
    verdict = study.verdict(Results(records_of(study, "small", measured(AS_PRINTED | changed))))
    assert [part.answer for part in verdict.parts] == answers, verdict.sentence


def test_a_verdict_waits_for_every_start_and_two_seeds(study, monkeypatch):
    records = records_of(study, "small", measured(AS_PRINTED))
    with pytest.raises(NotEnoughError, match="no run with permuted, standard; permuted, chrono"):
        study.verdict(Results([one for one in records if one["point"]["order"] == "rows"]))
    with pytest.raises(NotEnoughError, match="two seeds"):
        study.verdict(Results([one for one in records if one["point"]["seed"] == 0]))
    monkeypatch.delenv("CTRNN_DATA")
    assert study.runs("small") == []
    assert "--data DIR" in study.left_out()


def test_the_page_shows_validation_test_and_print(study):
    results = Results(records_of(study, "small", measured(AS_PRINTED)))
    assert "| permuted | chrono | 0.9640 (0.9630–0.9650) | 0.9630 (0.9620–0.9640) | 0.963 | 3 |" in tables_of(study, results)
    assert draws(study.figures["accuracy"], results) is not None
