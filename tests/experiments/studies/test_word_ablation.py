"""Models of words with times of an inverse-gamma law: what is trained and measured, and verdicts as the numbers say."""

import math

import pytest
import torch
from fake_studies import records_of, tables_of

import ctrnn
from experiments.reports.spreads import NotEnoughError
from experiments.studies.registry import study_named
from experiments.studies.results import Results

LOSSES = {"kept": 4.0, "learned": 4.05, "standard": 4.2}


@pytest.fixture
def study(tmp_path, monkeypatch):
    (tmp_path / "wikitext2").mkdir()
    for name in ("train", "valid", "test"):
        (tmp_path / "wikitext2" / f"wiki.{name}.tokens").write_text("\n = Title = \n" + " a b a c d a e \n" * 60)
    monkeypatch.setenv("CTRNN_DATA", str(tmp_path))
    torch.set_default_dtype(torch.float32)
    yield study_named("word-ablation")
    torch.set_default_dtype(torch.float64)


def measured(losses, order):
    """Nine units a run, forgetting as `order` has it where times are of the law."""

    def of(run):
        times = run.point["times"]
        alike = {"influence": [1.0], "set": 4.0}
        rows = [
            {**alike, "unit": n, "measured before": float(n), "gates": float(n), "measured": float(order.get(times, abs)(n))}
            for n in range(9)
        ]
        if times != "standard":
            rows = [{**row, "set": row["unit"] + 2.0} for row in rows]
        return {"loss": losses[times] + run.point["seed"] / 1000, "accuracy": 0.2}, rows

    return of


def verdict(study, losses=LOSSES, order=None):
    return study.verdict(Results(records_of(study, "small", measured(LOSSES | losses, order or {}))))


def test_times_are_of_the_law_and_kept_where_it_is_said(study):
    runs = {run.point["times"]: run.configuration for run in study.runs("paper")}
    assert {times: run.field_settings.init for times, run in runs.items()} == {
        "kept": "inverse-gamma",
        "learned": "inverse-gamma",
        "standard": "standard",
    }
    assert {times: bool(run.training.frozen) for times, run in runs.items()} == {
        "kept": True,
        "learned": False,
        "standard": False,
    }
    assert {(run.task.kinds, run.task.length, run.field) for run in runs.values()} == {(10_000, 70, "lstm")}


def test_units_are_measured_for_the_words_of_the_scale(study, tmp_path):
    run = study.runs("smoke")[0]
    rows = study.measure(run, run.configuration.untrained_model(), tmp_path)
    assert [row["set"] for row in rows] == ctrnn.timescales(run.configuration.untrained_model().field).tolist()
    assert {len(row["influence"]) for row in rows} == {study.sizes["smoke"].horizon}


@pytest.mark.parametrize(
    ("losses", "order", "answers"),
    [
        ({}, {}, ["yes", "yes", "yes"]),
        ({}, {"kept": lambda n: -n}, ["no", "yes", "yes"]),
        ({}, {"learned": lambda n: [4, 1, 0, 8, 3, 2, 5, 7, 6][n]}, ["yes", "no", "yes"]),
        ({}, {"learned": lambda n: math.inf if n > 6 else n}, ["yes", "yes", "yes"]),
        ({"kept": 4.2}, {}, ["yes", "yes", "no"]),
        ({"kept": 4.189}, {}, ["yes", "yes", "undecided"]),
    ],
)
def test_each_part_is_answered_by_its_numbers(study, losses, order, answers):
    found = verdict(study, losses, order)
    assert [part.answer for part in found.parts] == answers, found.sentence
    assert set(study.another) == {"small", "paper"}


def test_a_verdict_waits_for_all_times_and_the_table_has_them(study):
    records = records_of(study, "small", measured(LOSSES, {}))
    with pytest.raises(NotEnoughError, match="no run with times as usual"):
        study.verdict(Results([one for one in records if one["point"]["times"] != "standard"]))
    assert "| of the law, kept | 1 | 1 | 1 | 1 | 7 | 4.0010 (4.0000–4.0020) | 3 |" in tables_of(study, Results(records))


def test_without_the_text_nothing_is_trained(study, monkeypatch):
    monkeypatch.delenv("CTRNN_DATA")
    assert study.runs("small") == []
    assert "wikitext2/" in study.left_out()
