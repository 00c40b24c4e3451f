"""Comparisons: the same starts and batches, each model run each way, differences seed by seed; and what is typed wrong."""

import dataclasses
import itertools
import json
import math
import shutil

import numpy as np
import pytest
import scipy.stats
import torch
from pages import read
from torch.testing import assert_close

import ctrnn
import discretize
from ctrnn.inputs.held import Hold
from ctrnn_experiments import compare
from discretize import Batch
from experiments.__main__ import main
from experiments.compare.cells import ComparisonLayout, interval
from experiments.compare.command import comparison
from experiments.compare.comparison import Comparison, Crossed
from experiments.compare.differences import ALIKE, OTHERWISE, conclusion, differences, paired
from experiments.compare.figure import _look, scores_figure
from experiments.compare.tables import CostTable, CrosswiseTable, DifferencesTable, rows_csv
from experiments.models.integrators import IntegratorSettings, under
from experiments.reports.spreads import NotEnoughError, holm
from experiments.runs.evaluation import evaluate
from experiments.runs.folder import load
from experiments.studies.clocks.crosswise import own_time_of
from experiments.studies.clocks.rollout import Rollout, roll_out
from experiments.studies.registry import loaded
from experiments.studies.results import Results
from experiments.tasks.cognitive import Rhythm
from experiments.tasks.warps.clocked import ClockedRecall
from experiments.usage import UsageError

TASK = ClockedRecall(characters=3, repeats=4, alphabet=4)
SMALL = {"steps": 2, "hidden": 3, "evaluation": 8, "batch": 4, "lr": 0.3}
WAYS = ["euler", "euler dt=1/2", "exact"]


def compared(folder, **given):
    asked = {"integrator": ("euler", "exact"), "dt": (1, 0.5), "speeds": (1, 2), "seeds": 2, **SMALL, **given}
    return compare(asked.pop("task", TASK), out=folder, **asked)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    return folder, compared(folder)


def measured(report, *but):
    return [{name: value for name, value in row.items() if name not in but} for row in report.results.rows.to_dict("records")]


# ---- what is run


def test_each_is_trained_each_way_and_run_each_way_at_each_speed(whole):
    rows = whole[1].results.rows
    found = set(rows[["trained", "run_as", "speed", "seed"]].itertuples(index=False, name=None))
    assert found == set(itertools.product(WAYS, WAYS, (1.0, 2.0), (0, 1)))
    assert len(rows) == len(found)


def test_all_ways_of_training_have_the_same_starts_and_the_same_batches(whole):
    by_seed = [[run.configuration for run in whole[1].study.runs() if run.point["seed"] == seed] for seed in (0, 1)]
    weights = [[torch.cat([p.flatten() for p in one.untrained_model().parameters()]) for one in same] for same in by_seed]
    batches = [[one.task.batch_at(1, 4, one.training.seed).xs for one in same] for same in by_seed]
    for kind in (weights, batches):
        assert all(torch.equal(one, same[0]) for same in kind for one in same)
        assert not torch.equal(kind[0][0], kind[1][0])


def test_each_way_of_training_takes_its_own_steps(whole):
    made = {run.point["trained"]: run.configuration for run in whole[1].study.runs()}
    assert {name: (one.integrator, one.integrator_settings.substeps) for name, one in made.items()} == {
        "euler": ("euler", 1),
        "euler dt=1/2": ("euler", 2),
        "exact": ("exact", 1),
    }


@pytest.mark.parametrize("way", WAYS)
def test_a_score_is_that_of_the_same_weights_under_the_other_integrator(whole, way):
    folder, report = whole
    model, _ = load(folder / "runs" / "gated-euler-1")
    name, settings = ("exact", IntegratorSettings(rtol=1e-5, atol=1e-7)) if way == "exact" else ("euler", None)
    settings = settings or IntegratorSettings(substeps=1 + (way != "euler"))
    played = dataclasses.replace(TASK, clocks=(2.0,))
    expected = evaluate(under(model, name, settings), played, "test", 8, 1, 512)
    row = report.results.rows.query("key == 'gated-euler-1' and speed == 2 and run_as == @way").iloc[0]
    assert row["accuracy"] == expected["accuracy"]
    assert row["loss"] == pytest.approx(expected["loss"], rel=1e-6)


def test_steps_have_their_own_settings_in_training_and_in_running(tmp_path):
    given = {"speeds": (), "dt": 1, "seeds": 1, "lr": 3.0, "steps": 4}
    found = {}
    for cap in (0.05, 1.0):
        report = compared(tmp_path / str(cap), integrator=[discretize.steps.CappedEuler(cap=cap), "exact"], **given)
        assert report.study.base.integrator_settings.cap == cap
        found[cap] = report.results.rows.query("run_as == 'capped-euler' and trained == 'exact'")["loss"].iloc[0]
    assert found[0.05] != pytest.approx(found[1.0], rel=1e-3)  # of the same weights
    steps = [discretize.steps.CappedEuler(cap=cap) for cap in (0.5, 1.0)]
    with pytest.raises(UsageError, match=r"two steps have cap = 0.5 and 1.0"):
        compared(tmp_path / "two", integrator=steps, **given)


@torch.no_grad()
def test_a_score_is_that_of_a_plain_loop_of_euler_steps(whole):
    folder, report = whole
    model, _ = load(folder / "runs" / "gated-exact-0")
    rows = report.results.rows.query("key == 'gated-exact-0' and speed == 2")
    found = rows.set_index("run_as")["loss"]
    batch = next(iter(dataclasses.replace(TASK, clocks=(2.0,)).evaluation("test", 8, 512, 0)))
    for way, n in (("euler", 1), ("euler dt=1/2", 2)):
        h, losses = torch.zeros(8, 3, dtype=torch.float32), []
        for k, x in enumerate(batch.xs):
            dt = float(batch.ts[k + 1] - batch.ts[k]) / n
            for _ in range(n):
                h = h + dt * model.field(x.float(), h)
            losses.append(torch.nn.functional.cross_entropy(model.read_out(h), batch.targets[k], reduction="none"))
        counts = batch.counts if batch.counts is not None else torch.ones(len(losses), 8)
        expected = float((torch.stack(losses) * counts).sum() / counts.sum())
        assert found[way] == pytest.approx(expected, rel=1e-5)


def test_what_was_lost_is_done_again_with_the_same_numbers(whole, tmp_path):
    folder, report = whole
    again = tmp_path / "again"
    shutil.copytree(folder, again)
    shutil.rmtree(again / "runs" / "gated-exact-1")
    (again / "runs" / "gated-euler-0" / "rows.json").unlink()  # trained, and killed as it was measured
    time = ("seconds",)
    assert measured(compared(again), *time) == measured(report, *time)


def test_more_seeds_are_added_to_what_is_done_and_other_speeds_are_refused(whole, tmp_path, capsys):
    again = tmp_path / "again"
    shutil.copytree(whole[0], again)
    assert len(compared(again, seeds=3).results.runs) == 9
    assert "6 done before, 3 missing" in capsys.readouterr().err
    with pytest.raises(Exception, match=r"measured.speeds is .*choose another folder"):
        compared(again, speeds=(1, 4))


def test_the_address_makes_the_same_comparison_in_another_process(whole):
    made = loaded(whole[1].study.address)
    assert [(one.key, one.configuration, one.measured) for one in made.runs()] == [
        (one.key, one.configuration, one.measured) for one in whole[1].study.runs()
    ]


def test_page_table_and_rows_say_what_was_found(whole):
    folder, report = whole
    page, table = (folder / "index.html").read_text(), (folder / "table.md").read_text()
    assert report.verdict.sentence in table
    assert "accuracy (higher is better)" in page
    assert "Each seed is tested on 8 sequences of its own" in page
    read(page)  # whole, and loads nothing
    lines = (folder / "rows.csv").read_text().splitlines()
    assert len(lines) == 1 + len(report.results.rows)


@pytest.mark.parametrize(
    ("given", "every"),
    [
        ({}, 300),
        ({"schedule": "cosine", "keep": "last", "patience": None}, 300),
        ({"schedule": "plateau"}, 100),
        ({"keep": "best"}, 100),
        ({"patience": 3}, 100),
        ({"goal": 0.1}, 100),
        ({"keep": "best", "evaluate_every": 30}, 30),
    ],
)
@pytest.mark.parametrize("typed", [False, True])
def test_trainings_that_read_evaluations_have_more_than_the_one_at_the_end(given, every, typed):
    words = {key: "none" if value is None else str(value) for key, value in given.items()} if typed else given
    task = "clocked-recall" if typed else TASK
    asked = {"dt": ("1",), "speeds": (), "clock": ("given",), "seeds": 1, "score": None}
    made = comparison(task, ["gated"], ["euler"], settings=words, as_text=typed, **asked)
    assert made.base.training.evaluate_every == every


# ---- how far states are apart


def summed(scale=1.0, padded=0):
    draw = torch.Generator().manual_seed(0)
    exact, off = (scale * torch.randn(5 + padded, 4, 3, generator=draw, dtype=torch.float64) for _ in range(2))
    lengths = torch.tensor([5, 3, 2, 5])
    states = exact + 0.1 * off
    xs = torch.zeros(5 + padded, 4, 1)
    batch = Batch(xs, torch.zeros(4, dtype=torch.long), lengths=lengths)
    one = Crossed(Counted(), None)
    outputs = torch.zeros(5 + padded, 4, 2)
    empty = torch.zeros(0)
    one.add(batch, Rollout(outputs, states, empty, empty), Rollout(outputs, exact, empty, empty))
    read = (torch.arange(5 + padded)[:, None] < lengths).numpy()
    return one.row()["apart"], exact.numpy()[read], states.numpy()[read]


class Counted:
    def weight(self, batch):
        return float(batch.size)

    def means(self, outputs, batch):
        return {"loss": (float(outputs.abs().mean()), self.weight(batch))}

    def measures_of(self, means):
        return means


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_states_are_apart_by_a_share_of_their_spread_in_any_unit(scale):
    apart, exact, states = summed(scale, padded=2)
    expected = np.sqrt(((states - exact) ** 2).mean() / ((exact - exact.mean(0)) ** 2).mean())
    assert apart == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("mean", [0.0, 1.0, 1e9])
def test_the_spread_of_states_is_that_about_their_mean_however_large_this_is_and_however_they_are_cut(mean):
    draw, empty = np.random.default_rng(0), torch.zeros(0)
    exact = mean + draw.normal(size=(6, 9, 3)) * [1.0, 2.0, 3.0] + np.arange(9)[:, None]  # each batch has a mean of its own
    states = exact + 0.1 * draw.normal(size=exact.shape)
    one = Crossed(Counted(), None)
    for k in (slice(0, 1), slice(1, 5), slice(5, 9)):
        batch = Batch(torch.zeros(*exact[:, k].shape[:2], 1), torch.zeros(exact[:, k].shape[1], dtype=torch.long))
        outputs = torch.zeros(*exact[:, k].shape[:2], 2)
        one.add(batch, *(Rollout(outputs, torch.tensor(part[:, k]), empty, empty) for part in (states, exact)))
    about = exact - exact.mean((0, 1))
    about -= about.mean((0, 1))  # the second pass takes what rounding left of the mean
    assert one.row()["apart"] == pytest.approx(np.sqrt(((states - exact) ** 2).mean() / (about**2).mean()), rel=1e-7)


@pytest.mark.parametrize("lost", [0, 1])
def test_states_are_not_said_to_be_apart_by_the_batches_alone_on_which_the_reference_goes_on(lost):
    one, empty, draw = Crossed(Counted(), None), torch.zeros(0), torch.Generator().manual_seed(0)
    batch = Batch(torch.zeros(2, 3, 1), torch.zeros(3, dtype=torch.long))
    for k in range(2):
        states, exact = (Rollout(torch.zeros(2, 3, 2), torch.randn(2, 3, 1, generator=draw), empty, empty) for _ in range(2))
        one.add(batch, states, None if k == lost else exact)
    assert one.row()["finite"]
    assert one.row()["apart"] is None


class Begun(ctrnn.Relaxation):
    def initial_state(self, batch):
        return super().initial_state(batch) + 2


def test_gates_at_the_first_sample_are_those_of_the_state_that_the_field_starts_from():
    made = ctrnn.gated(1, 3)
    field = Begun(made.candidate, made.rate, made.decay)
    model, xs = discretize.SequenceModel(discretize.DiscreteRNN(field), 1), torch.randn(4, 2, 1)
    found = roll_out(model, Batch(xs, torch.zeros(2)), 1.0)
    first = found.g_dt.reshape(4, 2, 3)[0]
    assert_close(first, field.rate(xs[0], field.initial_state(2)))
    assert not torch.allclose(first, field.rate(xs[0], torch.zeros(2, 3)))


def test_what_is_not_finite_has_no_score():
    one, empty = Crossed(Counted(), None), torch.zeros(0)
    batch = Batch(torch.zeros(2, 3, 1), torch.zeros(3, dtype=torch.long))
    one.add(batch, Rollout(torch.zeros(2, 3, 2), torch.zeros(2, 3, 1), empty, empty), None)
    one.add(batch, Rollout(torch.full((2, 3, 2), math.nan), torch.zeros(2, 3, 1), empty, empty), None)
    row = one.row()
    assert row["finite"] is False
    assert row["loss"] is None


def test_what_is_not_finite_from_the_first_batch_on_has_no_score_of_a_variance_either():
    task, empty = Rhythm(), torch.zeros(0)
    batch = task.batch(2, torch.Generator().manual_seed(0))
    one = Crossed(task, None)
    one.add(batch, Rollout(torch.full_like(batch.targets, math.nan), torch.zeros(1, 2, 1), empty, empty), None)
    row = one.row()
    assert row["finite"] is False
    assert "r2" not in row


# ---- differences


def test_a_paired_difference_is_that_of_scipy():
    ours, theirs = [0.9, 0.8, 0.95, 0.85], [0.7, 0.75, 0.7, 0.8]
    found, p = paired(ours, theirs)
    theirs_test = scipy.stats.ttest_rel(ours, theirs)
    low, high = theirs_test.confidence_interval(0.95)
    assert (found.mean, found.low, found.high, p) == pytest.approx((0.1375, low, high, theirs_test.pvalue))


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("apart", "ends"), [(0.0, (0.0, 0.0)), (0.25, (-math.inf, math.inf))])
def test_differences_that_are_all_alike_but_for_rounding_are_no_test(apart, ends, unit):
    found, p = paired([unit * (0.5 + apart), unit * (0.75 + apart + 5e-8)], [unit * 0.5, unit * 0.75])
    assert math.isnan(p)
    assert (found.low, found.high) == ends


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_samples_last_by_their_stamps_as_long_as_a_model_holds_them(direction):
    lengths, hold = torch.tensor([4, 2, 1]), Hold(direction, 0.5)
    ts = torch.rand(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).cumsum(0)
    stopped = ts.gather(0, torch.arange(4)[:, None].clamp(max=lengths - 1))  # as batches have them
    lasting = own_time_of(Batch(torch.zeros(4, 3, 1, dtype=torch.float64), ts=stopped, lengths=lengths), hold)
    for k, n in enumerate(lengths):
        assert_close(lasting[:n, k, 0], hold.edges(ts[:n, k]).diff())
    shared = own_time_of(Batch(torch.zeros(4, 3, 1, dtype=torch.float64), ts=ts[:, 0]), hold)
    assert_close(shared[:, 0, 0], hold.edges(ts[:, 0]).diff())
    assert own_time_of(Batch(torch.zeros(4, 3, 1), ts=ts), Hold()) is None


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_differences_that_only_rounding_tells_apart_are_alike(unit):
    # Accuracies as float32 has them: 24 and 23 of 30 right against 29 and 28, which is 5 of 30 on both seeds.
    right = lambda count: unit * float(torch.tensor([1.0] * count + [0.0] * (30 - count)).mean())  # noqa: E731
    found, p = paired([right(24), right(23)], [right(29), right(28)])
    assert math.isnan(p)
    assert (found.low, found.high) == (-math.inf, math.inf)
    found, p = paired([right(24), right(29)], [right(24) * (1 + 1e-8), right(29) * (1 - 2e-8)])
    assert (found.mean, found.low, found.high) == (0.0, 0.0, 0.0)
    assert interval([right(24), right(24) * (1 + 1e-8)]).low == pytest.approx(right(24), rel=1e-7)


def test_p_values_are_adjusted_as_holm_did():
    assert holm([0.01, 0.04, math.nan, 0.03]) == pytest.approx([0.03, 0.06, math.nan, 0.06], nan_ok=True)


LAYOUT = ComparisonLayout("loss", "lower", ("gated",), ("euler", "exact"), (1.0,), (True,))


def records(scores, diverged=(), lost=()):
    """Make records of euler and exact: scores[trained][run] is a list over seeds."""
    made = []
    for trained, by_run in scores.items():
        for seed in range(len(next(iter(by_run.values())))):
            gone = (trained, seed) in diverged
            rows = [
                {
                    "run_as": run,
                    "clock_given": True,
                    "speed": 1.0,
                    "finite": (trained, run, seed) not in lost,
                    "loss": None if (trained, run, seed) in lost else values[seed],
                    "apart": 0.5,
                }
                for run, values in by_run.items()
            ]
            about = {"key": f"gated-{trained}-{seed}", "point": {"field": "gated", "trained": trained, "seed": seed}}
            more = {"measures": {}, "seconds": 1.0, "diverged": 7 if gone else None, "rows": [] if gone else rows}
            made.append(about | more)
    return Results(made)


SCORES = {
    "euler": {"euler": [1.0, 1.1, 0.9, 1.05], "exact": [2.0, 2.1, 1.95, 2.0]},
    "exact": {"euler": [1.0, 1.2, 0.8, 1.0], "exact": [1.01, 1.09, 0.91, 1.04]},
}


def test_what_the_sentence_says_follows_from_the_differences():
    found = {(each.family, each.ours): each for each in differences(records(SCORES), LAYOUT)}
    assert found[OTHERWISE, "trained euler, run exact"].told_apart
    assert not found[ALIKE, "euler"].told_apart
    said = conclusion(records(SCORES), LAYOUT)
    assert said.heading == "1 of 3 differences told apart"
    assert "Trained and run one way: the one difference is not told apart" in said.sentence
    assert "trained euler, run exact is above run euler by 1" in said.sentence


@pytest.mark.parametrize(
    ("gone", "cell"),
    [
        ({"diverged": [("euler", 2)]}, "× 1 of 4; the others 1.05 (0.93–1.17) [0.50]"),
        ({"lost": [("euler", "euler", 2)]}, "× 1 of 4; the others 1.05 (0.93–1.17) [0.50]"),
        ({"diverged": [("euler", k) for k in range(4)]}, "× 4 of 4"),
    ],
)
def test_what_diverged_is_counted_and_never_averaged_away(gone, cell):
    results = records(SCORES, **gone)
    (line,) = [line for line in CrosswiseTable(LAYOUT).filled(results).lines if line[0] == "euler"]
    assert line[1] == cell
    (alike,) = [each for each in differences(results, LAYOUT) if each.family == ALIKE]
    assert alike.measured is None
    assert alike.lost
    assert "diverged" in conclusion(results, LAYOUT).sentence
    assert "on " in DifferencesTable(LAYOUT, ALIKE).filled(results).lines[0][1]


def test_the_cost_of_a_training_is_that_of_the_quickest_seed_without_the_wait_for_kernels():
    results = records(SCORES)
    results.records[0]["seconds"] = 30.0
    assert [line[1] for line in CostTable(LAYOUT).filled(results).lines] == ["1", "1"]


def test_a_training_that_diverged_is_a_row():
    rows = rows_csv(records(SCORES, diverged=[("euler", 2)])).splitlines()
    assert len(rows) == 1 + 2 * 8 - 1
    assert any(line.startswith('"gated-euler-2"') and ",7," in line for line in rows)


def test_one_seed_has_no_differences():
    with pytest.raises(NotEnoughError, match="--seeds 5"):
        differences(records({name: {run: each[:1] for run, each in by.items()} for name, by in SCORES.items()}), LAYOUT)


# ---- what is typed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--field", "gatd"], "there is no field 'gatd'; did you mean 'gated'?"),
        (["--field", "gated,gated"], "--field has gated twice; each is compared once."),
        (["--integrator", "euler,exct"], "there is no integrator 'exct'; did you mean 'exact'?"),
        (["--integrator", "euler,euler"], "--integrator has euler twice; each is compared once."),
        (["--integrator", "euler,"], "--integrator takes one word or several with commas between, none of them empty"),
        (["--speeds", "1,2"], "the sequences of Recall are not played at other speeds; leave --speeds out."),
        (["--dt", "0"], "--dt takes numbers from 1/1000 on with commas between, such as 1,1/2; got '0'."),
        (["--dt", "2"], "--dt is how long a step is, as a share of its sample: 1, or 1 over a whole number, such as 1/2; got 2."),
        (["--dt", "1,1.0"], "--dt has 1 twice; each is compared once."),
        (["--seeds", "0"], "--seeds is how many, at least 1"),
        (["--clock", "told"], "there is no clock 'told'; there is given, hidden."),
        (["--score", "auroc"], "there is no score 'auroc'; did you mean 'accuracy'?"),
        (["--set", "seed=3"], "a comparison has several values of seed: say which by --seeds, and leave out seed=3."),
        (["--set", "substeps=2"], "a comparison has several values of substeps: say which by --dt, and leave out substeps=2."),
        (["--set", "hiden=3"], "there is no setting 'hiden'; did you mean 'hidden'?"),
        (["--set", "alpha=0.5"], "`alpha` = 0.5 changes nothing here"),
        (["--task", "vowels"], "vowels reads recordings: --data DIR names the folder with japanese_vowels/ in it"),
        (["--workers", "0"], "--workers is a number of processes, at least 1; got 0."),
        (["--on", "moon"], "--on is here, ray, ray:ADDRESS or slurm; got 'moon'."),
        (["--field", "nowhere.py:Net"], "there is no file nowhere.py."),
    ],
)
def test_what_is_typed_wrong_is_said_before_anything_is_trained(words, said, tmp_path, capsys):
    assert main(["compare", "--task", "recall", "--out", str(tmp_path / "out"), *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_fields_of_ones_own_come_from_a_file(tmp_path):
    (tmp_path / "mine.py").write_text("import ctrnn\ndef Leaky(inputs, hidden):\n    return ctrnn.leaky(inputs, hidden)\n")
    given = {"integrator": "euler", "seeds": 1, "speeds": (1,), "dt": 1}
    report = compared(tmp_path / "out", field=["gated", f"{tmp_path / 'mine.py'}:Leaky"], **given)
    assert list(report.results.rows["field"].unique()) == ["gated", "mine.leaky"]
    assert report.verdict.heading == "Not decided yet"
    assert "mine.py" in json.loads((tmp_path / "out" / "study.json").read_text())["code"]


def test_a_folder_of_another_study_is_refused(tmp_path):
    (tmp_path / "study.json").write_text(json.dumps({"study": "unwarped", "scale": "smoke", "commands": [], "runs": {}}))
    with pytest.raises(Exception, match=r"holds the study 'unwarped' at scale 'smoke', not 'compare'; choose another folder"):
        compared(tmp_path, seeds=1)


def test_a_comparison_has_a_sentence_of_what_it_is(whole):
    assert isinstance(whole[1].study, Comparison)
    assert whole[1].study.about.startswith("Task clocked-recall, played 1, 2 times as fast; 3 units of gated; trained and run by")


def test_a_figure_marks_seeds_that_diverged_and_tells_nine_ways_apart():
    ways = tuple(f"euler dt=1/{n}" for n in range(1, 10))
    looks = {(colour, look["fillstyle"], look["marker"]) for colour, _, look in map(_look, range(len(ways)))}
    assert len(looks) == len(ways)
    figure = scores_figure(records(SCORES, diverged=[("euler", 2)]), dataclasses.replace(LAYOUT, speeds=(1.0,)))
    crosses = [line for ax in figure.axes for line in ax.get_lines() if line.get_marker() == "x"]
    assert len(crosses) == 2  # run as euler and as exact, of the training that has a seed less


@pytest.mark.parametrize(("largest", "scale"), [(2.0, "linear"), (2e3, "log")])
def test_losses_of_another_order_are_drawn_on_a_logarithmic_axis(largest, scale):
    scores = {"euler": {"euler": [1.0, 1.1], "exact": [largest, largest]}, "exact": SCORES["exact"]}
    assert scores_figure(records(scores), LAYOUT).axes[0].get_yscale() == scale


# ---- where it stands


def test_the_folder_of_a_comparison_is_drawn_by_its_own_command(whole, capsys):
    assert main(["study", "plot", str(whole[0])]) == 2
    assert "is a comparison, whose own command writes its page again: compare(..., out=" in capsys.readouterr().err


@pytest.mark.slow
def test_two_worker_processes_find_the_same_numbers(whole, tmp_path):
    found = compared(tmp_path, workers=2)
    order = ["key", "run_as", "speed"]
    ours, theirs = (one.results.rows.drop(columns="seconds").sort_values(order, ignore_index=True) for one in (whole[1], found))
    assert ours.equals(theirs)
