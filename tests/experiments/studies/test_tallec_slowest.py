"""Figure 1 at symbols of 100 samples: what is trained, and verdicts as intervals over pairs of a seed say."""

import pytest
from fake_studies import draws, records_of, tables_of

from experiments.reports.spreads import NotEnoughError
from experiments.runs.evaluation import evaluate
from experiments.studies.claims.tallec.fig1 import PANELS, TESTED
from experiments.studies.claims.training import MODELS
from experiments.studies.registry import study_named
from experiments.studies.results import Results

STUDY = study_named("tallec-fig1-slowest")
LOSSES = dict.fromkeys([(panel, "plain") for panel in PANELS], 1.0)
LOSSES |= {(panel, "leaky"): 1e-8 if panel.startswith("uniform") else 0.05 for panel in PANELS}
LOSSES |= {(panel, "gated"): 1e-9 for panel in PANELS}


def results(losses=(), seeds=(1, 2, 3)):
    """Records with a test loss of each clock and model, or one for each seed; in halves of it on the way."""
    of = LOSSES | dict(losses)

    def measured(run):
        loss = of[run.point["panel"], run.point["model"]]
        loss = loss[run.point["seed"] - 1] if isinstance(loss, tuple) else loss * (1 + 0.1 * run.point["seed"])
        curve = [{"what": "curve", "step": step, "loss": loss * times} for step, times in ((100, 4), (200, 2), (300, 1))]
        row = {"what": "test", "loss": loss, "accuracy": 0.5, "memoryless": 2.2}
        return ({"loss": loss}, [*curve, row]) if run.point["seed"] in seeds else None

    return Results(records_of(STUDY, "small", measured))


def answers(*said):
    return [part.answer for part in STUDY.verdict(results(*said)).parts]


def test_what_is_trained_is_as_printed_at_the_end_of_the_axis():
    runs = [run for run in STUDY.runs("paper") if run.point["seed"] < 5]  # the seeds of figure 1 are 0 to 4, of this 1 to 5
    printed = {run.key: run for run in study_named("tallec-fig1").runs("paper")}
    assert (len(runs), len(STUDY.runs("small"))) == (4 * 3 * 4, 4 * 3 * 3)
    for run in runs:
        point, rate = run.point, run.configuration.training.rate
        same = printed[f"100-{point['panel'].replace(' ', '-')}-{point['model']}-{rate:g}-{point['seed']}"]
        assert run.configuration.to_json() == same.configuration.to_json()
    slower = {(run.point["model"], run.point["panel"]) for run in runs if run.configuration.training.rate == 3e-3}
    assert slower == {("plain", "uniform padding"), ("plain", "variable padding"), ("gated", "variable padding")}


def test_what_is_measured_is_the_curve_and_a_test_of_more_sequences(tmp_path):
    (tmp_path / "metrics.csv").write_text("step,evaluation_loss\n5,2.5\n6,\n10,2.25\n")
    run = STUDY.runs("smoke")[0]
    model, task = run.configuration.untrained_model(), run.configuration.task
    *curve, row = STUDY.measure(run, model, tmp_path)
    assert [(one["what"], one["step"], one["loss"]) for one in curve] == [("curve", 5, 2.5), ("curve", 10, 2.25)]
    expected = evaluate(model, task, "test", TESTED * 32, run.point["seed"], run.configuration.training.batch)
    assert (row["what"], row["loss"], row["memoryless"]) == ("test", expected["loss"], task.baselines()["memoryless"])


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ({}, ["yes", "yes", "yes", "yes"]),
        ({("uniform padding", "plain"): 1e-5}, ["no", "yes", "yes", "yes"]),  # both below what is told apart
        ({("uniform padding", "plain"): 0.0}, ["no", "yes", "yes", "yes"]),  # which has no logarithm
        ({("uniform padding", "plain"): (0.001, 1.0, 1.0)}, ["undecided", "yes", "yes", "yes"]),
        ({("variable padding", "leaky"): 0.0012}, ["yes", "yes", "no", "yes"]),
        ({("variable warping", "leaky"): 0.0012}, ["yes", "yes", "no", "yes"]),
        ({("uniform warping", "leaky"): 0.5}, ["yes", "no", "yes", "yes"]),
        ({("uniform padding", "leaky"): 0.5}, ["yes", "no", "yes", "yes"]),
        ({("uniform warping", "leaky"): (0.01, 0.2, 0.01)}, ["yes", "undecided", "yes", "yes"]),
        ({("variable padding", "gated"): 0.6}, ["no", "yes", "no", "no"]),
    ],
)
def test_parts_are_answered_by_intervals_and_by_whether_every_run_is_there(losses, expected):
    assert answers(losses) == expected


def test_a_verdict_waits_for_two_runs_of_each():
    assert [part.answer for part in STUDY.verdict(results(seeds=(1, 2))).parts] == ["yes"] * 4
    with pytest.raises(NotEnoughError, match="uniform warping, plain; uniform warping, leaky"):
        STUDY.verdict(results(seeds=(1,)))


def test_tables_and_the_figure_show_each_model_on_each_clock():
    found = results({("variable padding", "plain"): (0.15, 0.05, 0.01)})
    text = tables_of(STUDY, found)
    assert "| uniform warping | 1.20 (1.10–1.30) |" in text
    assert "| variable padding | > 200 (100–300), 1 of 3 not there | 300 | 100 |" in text
    figure = draws(STUDY.figures["curves"], found)
    assert [axes.get_title("left") for axes in figure.axes] == list(PANELS)
    assert all({line.get_label() for line in axes.get_lines()} >= {*MODELS} for axes in figure.axes[:1])
