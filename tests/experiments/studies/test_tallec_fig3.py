"""Figure 3 of Tallec and Ollivier 2018: the plateau that is computed is the printed one, and verdicts are as the numbers say."""

import math

import pytest
from fake_studies import draws, records_of, tables_of

from experiments.reports.spreads import NotEnoughError
from experiments.studies.registry import study_named
from experiments.studies.results import Results

STUDY = study_named("tallec-fig3")


def records(ends, scale="small", never=()):
    """Of runs that go down to the plateau by half of their steps, then to `ends`: (task, T, start) -> part of the plateau; others
    are not there."""

    def measured(run):
        settings, point = run.configuration.training, run.point
        end = ends.get((point["task"], point["T"], point["start"]))
        if end is None or run.key in never:
            return None
        plateau, end = point["T"] / 1e4, end * (1 + 0.01 * point["seed"])
        steps = range(settings.evaluate_every, settings.steps + 1, settings.evaluate_every)
        parts = [(1.02 if end <= 1.5 else 3.0) if 2 * step <= settings.steps else end for step in steps]
        known = [{"of plateau": part, "loss": part * plateau, "plateau": plateau} for part in parts]
        rows = [{"step": step, **row} for step, row in zip(steps, known, strict=True)]
        return {"loss": end * plateau}, rows

    return records_of(STUDY, scale, measured)


def small(chrono, standard, **more):
    return records({("copy", 500, "chrono"): chrono, ("copy", 500, "standard"): standard}, **more)


def judged(found):
    return STUDY.verdict(Results(found))


def test_the_plateau_is_the_printed_one_and_that_of_the_padded_length_where_the_gap_is_drawn(tmp_path):
    (tmp_path / "metrics.csv").write_text("step,evaluation_loss\n100,0.02\n101,\n")
    plateaus = {}
    for run in STUDY.runs("paper"):
        (row,) = STUDY.measure(run, None, tmp_path)
        assert row["of plateau"] == 0.02 / row["plateau"]
        plateaus[run.point["task"], run.point["T"]] = row["plateau"]
    closed = {
        ("copy", 500): 10 * math.log(8) / 520, ("copy", 2000): 10 * math.log(8) / 2020,
        ("variable-copy", 500): 10 * math.log(8) / 521, ("variable-copy", 1000): 10 * math.log(8) / 1021,
    }  # fmt: skip
    assert plateaus == pytest.approx(closed, rel=1e-12)  # sums of a few logarithms
    assert [f"{plateaus['copy', T]:.4f}" for T in (500, 2000)] == ["0.0400", "0.0103"]


def test_the_runs_are_those_printed():
    runs = STUDY.runs("paper")
    assert len(runs) == 4 * 2 * 3
    for run in runs:
        field, training, task = run.configuration.field_settings, run.configuration.training, run.configuration.task
        assert (run.configuration.field, field.hidden, task.letters, task.count) == ("lstm", 128, 8, 10)
        assert (training.optimizer, training.rate, training.clip, training.schedule) == ("rmsprop", 1e-3, None, "constant")
        longest = {"copy": 1.5, "variable-copy": 1.0}[run.configuration.task_name] * task.T
        assert (field.init, field.t_max) in {("chrono", longest), ("standard", None)}


def test_chrono_below_the_plateau_and_standard_at_it_is_what_is_claimed_of_copy():
    verdict = judged(small(0.3, 1.01))
    assert [part.answer for part in verdict.parts] == ["yes", "yes", "yes", "undecided", "undecided"]
    assert verdict.word == "undecided"  # variable copy is not tried
    assert "3 of 3, from step 10200 on" in verdict.sentence


def test_variable_copy_is_judged_where_the_paper_has_a_number_for_it():
    printed = {("variable-copy", 500): (0.1, 0.2), ("variable-copy", 1000): (0.2, 1.0)}
    ends = {("copy", T, start): {"chrono": 0.2, "standard": 1.0}[start] for T in (500, 2000) for start in ("chrono", "standard")}
    ends |= {(*key, start): end for key, both in printed.items() for start, end in zip(("chrono", "standard"), both, strict=True)}
    assert judged(records(ends, "paper")).word == "reproduced"
    ends["variable-copy", 1000, "standard"] = 0.3
    assert [part.answer for part in judged(records(ends, "paper")).parts] == ["yes", "yes", "yes", "yes", "no"]


@pytest.mark.parametrize(
    ("chrono", "standard", "answers"),
    [
        (1.0, 1.01, ["no", "yes", "no"]),  # both stay
        (0.3, 0.4, ["yes", "no", "no"]),  # both leave
        (0.8, 1.0, ["yes", "yes", "no"]),  # left, and not by half
        (2.5, 2.6, ["undecided", "undecided", "no"]),  # none was trained for long enough to come down
        (1.0, 0.4, ["no", "no", "no"]),
    ],
)
def test_the_parts_are_judged_one_by_one(chrono, standard, answers):
    assert [part.answer for part in judged(small(chrono, standard)).parts[:3]] == answers


def test_runs_of_which_one_outperforms_leave_it_open():
    found = small(0.5, 1.01)
    lucky = next(one for one in found if one["key"] == "copy-500-chrono-0")
    lucky["rows"] = [{**row, "loss": 0.1 * row["plateau"], "of plateau": 0.1} for row in lucky["rows"]]
    lucky["measures"]["loss"] = lucky["rows"][-1]["loss"]
    assert [part.answer for part in judged(found).parts[:3]] == ["yes", "yes", "undecided"]


def test_a_part_of_the_runs_is_shown_and_one_start_alone_decides_nothing():
    one = small(0.3, 1.0, never={f"copy-500-standard-{seed}" for seed in range(3)})
    with pytest.raises(NotEnoughError, match="standard and a chrono"):
        judged(one)
    with pytest.raises(NotEnoughError, match="no run"):
        judged([])
    assert "| copy | 500 | chrono | 0.0500 | 0.01515 (0.01500–0.01530) | 3 of 3, from step 10200 on" in tables_of(
        STUDY, Results(one)
    )
    (figure,) = STUDY.figures.values()
    (ax,) = draws(figure, Results(one)).axes
    assert ax.get_title(loc="left") == "copy, T = 500"
    curve = next(line for line in ax.get_lines() if line.get_label() == "chrono")
    assert 12 <= len(curve.get_xdata()) <= 24
    assert curve.get_xdata()[-1] == 20_000
