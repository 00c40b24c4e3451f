"""Figure 7 of Tallec and Ollivier 2018: what is trained, and verdicts as the numbers say."""

import math

import pytest
from fake_studies import draws, records_of, tables_of

from experiments.reports.spreads import NotEnoughError
from experiments.studies.registry import study_named
from experiments.studies.results import Results

NORMALIZED = "lstm-batch-norm"
BITS = {
    (NORMALIZED, "standard"): 2.1,
    (NORMALIZED, "chrono"): 2.05,
    ("lstm", "standard"): 2.20,
    ("lstm", "chrono"): 2.17,
    ("rhn", "standard"): 2.3,
    ("rhn", "chrono"): 2.31,
}


@pytest.fixture
def study(tmp_path, monkeypatch):
    for name in ("tinyshakespeare/input.txt", "text8/text8"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("a")
    monkeypatch.setenv("CTRNN_DATA", str(tmp_path))
    return study_named("tallec-fig7")


def measured(bits, late=0.0, apart=1e-3):
    """Evaluations come down to the end; at the first standard ones are `late` bits above what they would be."""

    def of(run):
        end = bits[run.point["model"], run.point["start"]] + apart * run.point["seed"]
        first = end + 1 + late * (run.point["start"] == "standard")
        return {"loss": end * math.log(2)}, [{"step": k, "loss": b * math.log(2)} for k, b in ((1, first), (2, end))]

    return of


def test_the_runs_are_those_printed(study):
    runs = study.runs("paper")
    assert len(runs) == 2 * 3 * 2
    for one in runs:
        settings, training = one.configuration.field_settings, one.configuration.training
        longest = {"lstm": 8, NORMALIZED: 8, "rhn": 11}[one.configuration.field]
        assert settings.t_max == (longest if settings.init == "chrono" else None)
        assert (settings.hidden, one.configuration.task.length) == (2000, 180)
        assert (training.optimizer, training.rate, training.clip, training.batch) == ("adam", 1e-3, 1.0, 128)


def test_a_verdict_waits_for_every_model_and_two_seeds(study):
    records = records_of(study, "small", measured(BITS))
    with pytest.raises(NotEnoughError, match=r"no run with normalized LSTM, standard; .*; RHN, standard; RHN, chrono is done"):
        study.verdict(Results([one for one in records if one["point"]["model"] == "lstm"]))
    with pytest.raises(NotEnoughError, match="two seeds"):
        study.verdict(Results([one for one in records if one["point"]["seed"] == 0]))


def test_the_page_shows_bits_of_characters(study):
    results = Results(records_of(study, "small", measured(BITS)))
    assert "| LSTM | chrono | 2.1710 (2.1700–2.1720) | 2.1710 (2.1700–2.1720) | 3 |" in tables_of(study, results)
    assert draws(study.figures["curves"], results) is not None


@pytest.mark.parametrize(
    ("changed", "late", "answers"),
    [
        ({}, 0, ["yes"] * 5),
        ({}, -0.1, ["no", "yes", "no", "yes", "yes"]),  # behind at the first evaluation
        ({("lstm", "chrono"): 2.0}, 0, ["yes", "yes", "no", "yes", "yes"]),  # no small margin
        ({("lstm", "chrono"): 2.1999}, 0, ["yes", "yes", "no", "no", "yes"]),  # not by what is in print
        ({(NORMALIZED, "chrono"): 1.9}, 0, ["no", "yes", "yes", "yes", "yes"]),
        ({(NORMALIZED, "chrono"): 2.0999}, 0, ["no", "no", "yes", "yes", "yes"]),
        ({("rhn", "chrono"): 2.45}, 0, ["yes"] * 4 + ["no"]),
    ],
)
def test_each_part_is_answered_by_its_numbers(study, changed, late, answers):
    verdict = study.verdict(Results(records_of(study, "small", measured(BITS | changed, late))))
    assert [part.answer for part in verdict.parts] == answers, verdict.sentence


def test_a_start_that_is_behind_by_less_than_runs_differ_is_left_open(study):
    records = records_of(study, "small", measured(BITS | {("lstm", "chrono"): 2.22}, apart=0.02))
    parts = study.verdict(Results(records)).parts
    assert [part.answer for part in parts[:4]] == ["undecided"] * 4
    assert (
        "below at 0 of 2 evaluations in the mean, by its 95 % interval at 0, above by it at 0; by -0.0200 (" in parts[2].numbers
    )
