"""`ctrnn train` as it is typed: what it answers, by which exit code, and what it leaves in the folder."""

import csv
import io
import json
import math
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pages
import pytest
import scipy.stats
import torch

from experiments.__main__ import main
from experiments.runs import command, training
from experiments.runs.checkpoints import read_state
from experiments.runs.configuration import configuration_from_words
from experiments.runs.page import _answered, _guess, _smoothed, write_page
from experiments.runs.sweep import _in_words, behind_the_first, compared
from experiments.runs.training import train
from experiments.tasks.task import Batch
from experiments.tasks.warps.recall import Recall
from experiments.usage import UsageError

ROOT = Path(__file__).resolve().parents[3]
WORDS = ["train", "--task", "recall", "--field", "gated", "--integrator", "euler"]
SETTINGS = [
    "--set",
    "warp=3",
    "length=12",
    "hidden=5",
    "--set",
    "batch=4",
    "evaluation=6",
    "steps=8",
    "checkpoint_every=3",
    "threads=1",
]


def typed(folder, *more, settings=SETTINGS):
    return [*WORDS, "--out", str(folder), *settings, *more]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)


def test_a_run_leaves_its_folder_and_says_how_it_went(tmp_path, capsys):
    assert main(typed(tmp_path / "run")) == 0
    said = capsys.readouterr()
    assert said.err == ""  # no terminal, no progress
    assert said.out.startswith("recall, gated under euler, 8 steps in ")
    assert " s by 1 thread(s): test " in said.out
    kept = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert kept == [".lock", "checkpoint.pt", "config.json", "metrics.csv", "previous.pt", "result.json"]
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    first = 3 / 12  # the share of the first run, whose target is the dummy; afterwards 8 of 10 symbols are as likely
    without = -first * math.log(first) - (1 - first) * math.log((1 - first) / 8)
    measures = result["measures"]
    assert f"test loss {measures['loss']:.4g}, accuracy {measures['accuracy']:.4g} (memoryless {without:.4g})" in said.out
    assert (result["steps"], result["split"]) == (8, "test")
    with (tmp_path / "run" / "metrics.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file)] == [str(step) for step in range(1, 9)]
    weights = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)["state"]["model"]
    assert weights["rnn.field.rate.bias"].shape == (5,)


def test_the_integrator_is_euler_if_it_is_left_out(tmp_path, capsys):
    assert main(["train", "--task", "recall", "--field", "gated", "--out", str(tmp_path), *SETTINGS]) == 0
    assert "recall, gated under euler, 8 steps" in capsys.readouterr().out


def test_a_sweep_may_give_what_one_of_its_runs_reads_and_what_is_as_it_would_be(tmp_path, capsys):
    given = ["init=standard,chrono", "t_max=50", "alpha=0.1", "steps=1", "hidden=5", "batch=2", "evaluation=2"]
    assert main(typed(tmp_path, settings=["--set", *given])) == 0
    assert "changes nothing" not in capsys.readouterr().err


# Of each: the field and the integrator, what is set, and what is said of it.
UNREAD = [
    (
        "gru",
        "euler",
        "alpha=0.1,0.3,0.9",
        "`alpha` = 0.3 changes nothing here: it is for leaky fields that do not start by chrono",
    ),
    ("gated", "euler", "rtol=0.1", "`rtol` = 0.1 changes nothing here: it is for the integrator exact. Leave it out."),
    ("gated", "exact", "method=rk4 rtol=0.1", "`rtol` = 0.1 changes nothing here: it is for methods that choose their steps."),
    ("gated", "exact", "substeps=3", "`substeps` = 3 changes nothing here: it is for step maps."),
    ("lstm", "euler", "exponent=1.5", "`exponent` = 1.5 changes nothing here: it is for fields with a power decay."),
    ("leaky-power-autograd", "euler", "exponents=learned", "it is for fields with a power decay that can learn it"),
    ("leaky-power", "euler", "one_alpha=true", "`one_alpha` = true changes nothing here: it is for the field leaky."),
    ("gated", "euler", "t_max=20", "`t_max` = 20.0 changes nothing here: it is for init=chrono, or slow-decay."),
    ("gated", "euler", "init=slow-decay t_min=3", "`t_min` = 3.0 changes nothing here: it is for init=chrono. Leave it out."),
    ("gated", "euler", "init=slow-decay t_max=1e16", "`t_max` must be at most 2^53 for `init` slow-decay"),
    ("gated", "euler", "hold=backward", "`hold` = backward changes nothing here: it is for tasks whose samples have stamps."),
    ("ode-rnn", "euler", "hold=backward", "`hold` = backward changes nothing here: it is for fields, and for cfc"),
    ("gru-d", "euler", "dale=0.8", "`dale` = 0.8 changes nothing here: it is for fields, not for models that jump, or modules"),
    ("cfc", "euler", "recurrent_gain=0.5", "`recurrent_gain` = 0.5 changes nothing here: it is for fields"),
    ("gru-d", "exact", "atol=0.1", "`atol` = 0.1 changes nothing here: it is for what has an equation to solve"),
    (
        "gated",
        "euler",
        "init=standard,chrono t_max=20,30",
        "init-standard-t_max-30 `t_max` = 30.0 changes nothing here; give it to",
    ),
    ("gated", "euler", "schedule=plateau steps=5", "there is no evaluation in 5 steps: `evaluate_every` is 100"),
    ("gated", "euler", "clip=none,None", "--set clip=none,None: each value is given once"),
]


@pytest.mark.parametrize(("field", "integrator", "given", "words"), UNREAD, ids=[" ".join(each[:3]) for each in UNREAD])
def test_settings_that_no_run_reads_are_refused(tmp_path, capsys, field, integrator, given, words):
    run = ["train", "--task", "recall", "--field", field, "--integrator", integrator, "--out", str(tmp_path / "run")]
    assert main([*run, "--set", *given.split()]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_run_that_was_begun_with_a_setting_that_nothing_reads_goes_on_without_it(tmp_path):
    assert main(typed(tmp_path)) == 0
    config = json.loads((tmp_path / "config.json").read_text())
    config["configuration"]["field_settings"]["alpha"] = 0.5  # as earlier versions let it be
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main(typed(tmp_path, "--resume")) == 0


def test_where_no_terminal_is_a_line_now_and_then_says_where_the_run_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "BETWEEN_LINES", 0.0)
    assert main(typed(tmp_path)) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 8
    assert lines[-1].startswith("step 8 of 8: loss ")
    assert lines[-1].endswith("about 0 s left")


def test_a_run_of_the_time_when_lr_was_called_rate_goes_on(tmp_path):
    words = typed(tmp_path, "--set", "rate=0.1,0.2", settings=SETTINGS)
    assert main(words) == 0
    for folder in (tmp_path / "rate-0.1", tmp_path / "rate-0.2"):  # named by the word that was typed
        config = json.loads((folder / "config.json").read_text())
        training = config["configuration"]["training"]
        training["rate"] = training.pop("lr")
        (folder / "config.json").write_text(json.dumps(config))
    assert main([*words, "--resume"]) == 0


@pytest.mark.parametrize("other", ["rate=0.1", "learning_rate=0.1"])
def test_two_words_for_the_learning_rate_are_refused(other, tmp_path, capsys):
    assert main(typed(tmp_path, "--set", "lr=0.1", other)) == 2
    assert f"{other.partition('=')[0]} is another word for lr, and both are given" in capsys.readouterr().err


def test_lr_may_be_swept_and_auto_is_the_cpu_where_there_is_no_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert main(typed(tmp_path, "--set", "lr=0.1,0.2", "steps=1", "--device", "auto", settings=SETTINGS[:-4])) == 0
    for value in (0.1, 0.2):
        config = json.loads((tmp_path / f"lr-{value}" / "config.json").read_text())
        assert config["configuration"]["training"]["lr"] == value
        assert config["configuration"]["training"]["device"] == "auto"
        assert "device" not in config["machine"]
        assert config["threads"] == 1  # none was given, and the model is small


@pytest.mark.parametrize(
    ("words", "settings"),
    [(["train", "--help"], ["lr=0.001", "rtol=0.001", "hidden=64"]), ([*WORDS, "--help"], ["warp=1"])],
)
def test_help_lists_the_settings_of_every_run_and_of_a_task_that_is_named(capsys, words, settings):
    assert main(words) == 0
    assert set(settings) <= set(capsys.readouterr().out.split())


def test_help_on_a_misspelt_task_names_what_is_near(capsys):
    assert main(["train", "--task", "recal", "--help"]) == 2
    assert "did you mean 'recall'?" in capsys.readouterr().err


def page_of(folder, words):
    """What is printed on stdout by a command that writes a page, and the page, which is sound and loads nothing."""
    said = io.StringIO()
    with redirect_stdout(said):
        assert main(words) == 0
    return said.getvalue(), pages.read((folder / "index.html").read_text())


def rows_of(page, words):
    """The rows of the table whose caption has these words, by what stands first in each."""
    (table,) = [each for each in page.all("table") if words in each.text]
    (body,) = [child for child in table.children if child.tag == "tbody"]
    cells = [[cell.text for cell in row.children] for row in body.children]
    return {row[0]: row[1:] for row in cells}


@pytest.fixture(scope="module")
def of_steps(tmp_path_factory):
    """A run of steps with its page: its folder, what was printed, the page."""
    folder = tmp_path_factory.mktemp("recall")
    words = ["--set", "warp=3", "length=6", "hidden=3", "batch=4", "evaluation=3", "steps=4", "evaluate_every=2", "threads=1"]
    with pytest.MonkeyPatch.context() as patch:
        for name, samples in {"WAIT": 250, "MOST": 500}.items():  # states are held for once, not until they have settled
            patch.setattr(f"discretize.analysis.refine.{name}", samples)
        return folder, *page_of(folder, typed(folder, "--page", settings=words))


@pytest.fixture(scope="module")
def of_a_solve(tmp_path_factory):
    """A finished run of numbers, solved exactly, of which a page was asked for afterwards."""
    folder = tmp_path_factory.mktemp("adding")
    words = ["train", "--task", "adding", "--field", "lstm", "--integrator", "exact", "--out", str(folder)]
    words += ["--set", "T=8", "hidden=4", "batch=4", "steps=2", "evaluation=8", "rtol=0.1"]
    assert main(words) == 0
    assert not (folder / "index.html").exists()
    return folder, *page_of(folder, [*words, "--resume", "--page"])


def test_the_page_of_a_run_is_named_last(of_steps):
    folder, said, _ = of_steps
    assert said.endswith(f"{folder / 'index.html'}\n")


def test_a_page_shows_the_measures_of_the_test(of_steps):
    folder, _, page = of_steps
    measures = json.loads((folder / "result.json").read_text())["measures"]
    shown = rows_of(page, "On the test")
    assert {name: float(shown[name][0]) for name in measures} == pytest.approx(measures, rel=1e-3)  # of four digits


def test_a_page_has_the_curves_and_the_time_scales(of_steps):
    drawn = ["Loss over steps", "Forgetting times", "g dt over steps of training"]
    assert [svg.children[0].text for svg in of_steps[2].all("svg")] == drawn


def test_a_page_counts_every_answer_of_the_test_once(of_steps):
    counts = rows_of(of_steps[2], "How often each class")
    assert sum(int(count) for row in counts.values() for count in row) == 3 * 6
    assert {len(row) for row in counts.values()} == {len(counts)} == {10}


def test_a_page_says_whether_the_steps_are_their_equation(of_steps):
    (said,) = [p.text for p in of_steps[2].all("section")[-1].children if "Are its steps its equation?" in p.text]
    assert said.split("? ")[1].split(":")[0] in ("Yes", "Nearly", "No", "Not known")


def test_a_page_tells_the_largest_rate_times_step_of_training(of_steps):
    folder, _, page = of_steps
    largest = json.loads((folder / "result.json").read_text())["largest_g_dt"]
    assert f"the largest g dt, the rate of a unit times its step, was {largest:.2f}" in " ".join(
        page.all("section")[-1].text.split()
    )


def test_a_page_of_a_run_with_noise_tells_its_moments_along_the_same_paths(tmp_path):
    words = ["train", "--task", "adding", "--field", "plain", "--integrator", "euler-maruyama", "--out", str(tmp_path), "--page"]
    words += ["--set", "T=3", "hidden=3", "batch=4", "steps=1", "evaluation=4", "noise=0.2"]
    _, page = page_of(tmp_path, words)
    shown = rows_of(page, "along the same paths")
    assert [*shown] == ["1", "2", "4", "8", "16"]
    off = [float(row[0]) for row in shown.values()]  # of means, which come nearer
    assert off[-1] < off[0] / 4
    section = " ".join(page.all("section")[-1].text.split())
    assert "256 times as many steps stand for the solution" in section
    assert "are not refined" not in section
    assert page_of(tmp_path, [*words, "--resume"])[1].all("section")[-1].text == page.all("section")[-1].text  # the same noise


def test_a_page_of_a_finished_run_can_be_asked_for_later_and_compares_numbers(of_a_solve):
    _, said, page = of_a_solve
    assert "nothing was left to do" in said
    assert "Said and right" in [svg.children[0].text for svg in page.all("svg")]


def test_a_model_that_is_solved_is_said_to_be_its_equation(of_a_solve):
    assert "The model is its equation, solved to a tolerance." in of_a_solve[2].all("section")[-1].text


def test_a_loss_that_is_not_below_a_guess_is_a_failure_on_the_page(of_a_solve):
    folder, _, page = of_a_solve
    loss = json.loads((folder / "result.json").read_text())["measures"]["loss"]
    guesses = [float(cells[0]) for name, cells in rows_of(page, "On the test").items() if name.startswith("loss of a guess")]
    assert loss > min(guesses)  # two steps learn nothing
    assert f"The loss on the test is {loss:.4g}, no less than the {min(guesses):.4g} of a guess." in page.elements[0].text


def test_the_machine_of_a_page_is_said_by_names_and_a_guess_once(of_a_solve):
    folder, _, page = of_a_solve
    machine = json.loads((folder / "config.json").read_text())["machine"]
    assert all(f"{name} {value}" in page.elements[0].text for name, value in machine.items())
    assert (_guess("accuracy of a guess", "guess"), _guess("loss", "blind")) == ("accuracy of a guess", "loss: blind")


def test_a_long_curve_is_of_means_of_neighbours_at_the_last_of_their_steps():
    rows = [{"step": str(k), "loss": str(k**2)} for k in range(1, 122)]
    steps, losses = _smoothed(rows, "loss")
    assert steps == [*range(3, 121, 3), 121]
    assert losses == pytest.approx([(k - 1) ** 2 + 2 / 3 for k in range(3, 121, 3)] + [121**2], rel=1e-12)
    nothing = {"step": "2", "loss": "nan"}  # nothing counted
    assert _smoothed([rows[0], nothing, rows[2]], "loss") == ([1.0, 3.0], [1.0, 9.0])
    assert _smoothed([nothing], "loss") == ([], [])


def test_a_folder_without_a_completed_run_has_no_page(tmp_path):
    with pytest.raises(UsageError, match="holds no completed run"):
        write_page(tmp_path)


def test_a_sweep_ends_with_a_table_over_seeds_and_says_what_is_not_told_apart(tmp_path, capsys):
    swept = ["--set", "hidden=3,5", "seed=0,1", "steps=4", "evaluate_every=2", "warp=3", "length=12", "batch=4", "evaluation=6"]
    assert main(typed(tmp_path, settings=swept)) == 0
    table = capsys.readouterr().out.partition("\n\n")[2].splitlines()
    with (tmp_path / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["folder"], row["hidden"], row["seed"]) for row in rows] == [
        (f"hidden-{hidden}-seed-{seed}", hidden, seed) for hidden in "35" for seed in "01"
    ]
    for row in rows:
        result = json.loads((tmp_path / row["folder"] / "result.json").read_text())
        assert float(row["test accuracy"]) == result["measures"]["accuracy"]
        assert float(row["held-out loss"]) == result["best"]["loss"]
    means = {key: sum(float(row["held-out loss"]) for row in rows if row["hidden"] == key) / 2 for key in "35"}
    assert [line.split()[0] for line in table[1:3]] == [f"hidden={key}" for key in sorted(means, key=means.get)]
    assert table[0].split()[:2] == ["settings", "runs"]
    assert table[3].startswith("Not told apart from the best by these seeds: ")
    assert table[4] == str(tmp_path / "runs.csv")
    assert main(typed(tmp_path / "once", settings=[*swept[:1], *swept[3:], "hidden=3,5"])) == 0
    assert "With one run of each, what is ahead may be so by chance" in capsys.readouterr().out


def test_of_settings_that_are_equal_none_is_told_apart_from_the_best():
    """Some interval of nineteen excludes 0 where nothing differs; what is told apart has all pairs in view."""
    scores = np.random.default_rng(0).normal(size=(20, 3))
    rows = [
        {"folder": f"{k}-{seed}", "hidden": str(k), "seconds": 1.0, "test loss": score}
        for k, found in enumerate(scores)
        for seed, score in enumerate(found)
    ]
    table = _in_words(rows, ["hidden"], "loss")
    best = min(scores, key=lambda found: found.mean())
    assert any(scipy.stats.ttest_ind(found, best, equal_var=False).pvalue < 0.05 for found in scores)
    assert "with all 190 pairs in view: " + "; ".join(line.split()[0] for line in table.splitlines()[2:21]) in table
    for row in rows[:3]:
        row["test loss"] -= 1000.0
    assert _in_words(rows, ["hidden"], "loss").endswith("with all 190 pairs in view: none.")


def test_the_best_of_a_sweep_is_tested_by_welch_and_holm():
    best, near, far = [0.0, 0.1, 0.3], [0.2, 0.3, 0.5], [2.0, 2.3, 2.2]
    ps = [scipy.stats.ttest_ind(a, b, equal_var=False).pvalue for a, b in [(best, near), (best, far), (near, far)]]
    assert behind_the_first([best, near, far]) == pytest.approx([ps[0], 3 * ps[1]], rel=1e-9)
    assert [math.isnan(p) for p in behind_the_first([[0.1] * 3, [0.3] * 3, [0.2], best])] == [True, True, False]


def test_a_score_that_is_no_number_is_the_last_of_a_sweep():
    scores = {"3": math.nan, "5": 0.2, "7": math.nan, "9": 0.1}
    rows = [{"folder": hidden, "hidden": hidden, "seconds": 1.0, "test loss": score} for hidden, score in scores.items()]
    table = _in_words(rows, ["hidden"], "loss").splitlines()
    assert [line.split()[0] for line in table[1:3]] == ["hidden=9", "hidden=5"]


def test_one_value_written_in_two_ways_is_not_two_runs(tmp_path, capsys):
    assert main(typed(tmp_path / "run", "--set", "seed=1,01")) == 2
    assert "asks for one run twice, seed-1 and seed-01" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.fixture
def one_start(monkeypatch):
    """Workers are forked from one new process that has torch already, so that it is imported once for all of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["experiments.runs.training", "torch._dynamo"])
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: context)


@pytest.mark.usefixtures("one_start")
def test_workers_train_a_sweep_to_the_same_bits_and_go_on_where_it_was(tmp_path, capfd):
    words = ["--set", "seed=0,1,2", "hidden=3", "steps=4", "warp=3", "length=12", "batch=4", "evaluation=6", "threads=1"]
    assert main(typed(tmp_path / "one", settings=words)) == 0
    shutil.copytree(tmp_path / "one" / "seed-0", tmp_path / "several" / "seed-0")
    capfd.readouterr()
    assert main(typed(tmp_path / "several", "--workers", "2", "--resume", settings=words)) == 0
    said = capfd.readouterr()
    assert "3 runs of 4 steps, 2 at a time" in said.err
    assert said.out.count("is finished; nothing was left to do") == 1
    for seed in (1, 2):
        assert f"seed-{seed}: recall, gated under euler, 4 steps" in said.out
        weights = [read_state(tmp_path / each / f"seed-{seed}" / "checkpoint.pt")["model"] for each in ("one", "several")]
        assert weights[0].keys() == weights[1].keys()
        assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_workers_do_not_begin_a_sweep_where_a_run_is_already(tmp_path, capsys):
    words = ["--set", "seed=0,1", "hidden=3", "steps=1", "warp=3", "length=6", "batch=2", "evaluation=2", "threads=1"]
    assert main(typed(tmp_path / "seed-0", settings=[words[0], "seed=0", *words[2:]])) == 0
    capsys.readouterr()
    assert main(typed(tmp_path, "--workers", "2", settings=words)) == 2
    assert "seed-0 holds a run already" in capsys.readouterr().err
    assert not (tmp_path / "seed-1").exists()


def test_what_differs_by_more_than_its_seeds_is_told_apart_and_runs_without_a_result_are_counted(tmp_path):
    def run(name, seed, hidden, accuracy):
        if accuracy is not None:
            (tmp_path / name).mkdir()
            result = {"measures": {"loss": 1.0}, "seconds": 1.0, "steps": 2, "best": {"step": 2, "accuracy": accuracy}}
            (tmp_path / name / "result.json").write_text(json.dumps(result))
        words = [f"seed={seed}", f"hidden={hidden}", "keep_by=accuracy"]
        return name, configuration_from_words("recall", "gated", "euler", words)

    reached = {3: (0.5, 0.51, 0.52), 4: (0.8, 0.81, 0.83), 5: (0.7, 0.81, 0.92), 6: (0.9, None, None)}
    runs = [run(f"{h}-{k}", k, h, value) for h, values in reached.items() for k, value in enumerate(values)]
    lines = compared(tmp_path, runs, ["hidden", "seed"]).splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["hidden=6", "hidden=4", "hidden=5", "hidden=3"]  # most is best
    assert lines[5] == "2 of 12 runs are not finished, and not in the table."
    assert "hidden=3" not in compared(tmp_path, runs[:9], ["hidden", "seed"]).splitlines()[-1]
    assert "hidden=5" in compared(tmp_path, runs[:9], ["hidden", "seed"]).splitlines()[-1]


def test_of_classes_a_row_is_the_right_one_and_a_column_the_answer():
    task = Recall(length=4)
    targets, said = torch.tensor([[0, 0], [0, 1], [1, 1], [2, 2]]), torch.tensor([[2, 2], [2, 1], [1, 1], [2, 2]])
    counts = torch.ones(4, 2)
    counts[3, 1] = 0  # is not asked
    batch = Batch(torch.zeros(4, 2, 10), targets, counts)
    body = _answered(task, [(batch, torch.nn.functional.one_hot(said, 10).float())]).body
    rows = rows_of(pages.Reader(f"<div>{body}</div>"), "How often each class")
    assert [rows[name][:3] for name in "123"] == [["0", "0", "3"], ["0", "3", "0"], ["0", "0", "1"]]
    scores = torch.nn.functional.one_hot(said, 10).float()
    scores[0] = torch.nan  # of which the largest is the first
    lost = _answered(task, [(batch, scores)])
    rows = rows_of(pages.Reader(f"<div>{lost.body}</div>"), "How often each class")
    assert sum(int(cell) for row in rows.values() for cell in row) == 5
    assert lost.failures == ("2 of 7 answers on the test are no number: states left all bounds there.",)


def test_config_json_says_what_and_where(tmp_path):
    assert main(typed(tmp_path)) == 0
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["configuration"]["task_settings"]["warp"] == 3
    assert config["configuration"]["training"]["steps"] == 8
    assert config["versions"]["torch"] == version("torch")
    assert set(config["versions"]) == {"python", "ctrnn", "torch", "torchdiffeq", "numpy"}
    assert config["threads"] == 1
    assert config["command"].startswith(
        f"ctrnn train --task recall --field gated --integrator euler --out {tmp_path} --set warp=3"
    )
    assert config["commit"] is None or len(config["commit"]) == 40


def test_a_folder_that_holds_a_run_is_wrong_usage_and_with_resume_it_is_read_result(tmp_path, capsys):
    assert main(typed(tmp_path)) == 0
    first = capsys.readouterr().out
    assert main(typed(tmp_path)) == 2
    said = capsys.readouterr().err
    assert said == f"ctrnn train: {tmp_path} holds a run already; go on with it by --resume, or choose another --out DIR.\n"
    assert main(typed(tmp_path, "--resume")) == 0
    assert capsys.readouterr().out == f"{tmp_path} is finished; nothing was left to do.\n{first}"


@pytest.mark.parametrize(("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGUSR1, 138, "told to end")])
def test_an_interrupted_run_says_how_to_go_on_and_that_works(tmp_path, capsys, monkeypatch, number, code, word):
    out = tmp_path / "a folder"
    with monkeypatch.context() as patch:
        interrupt = lambda step, loss, rate: signal.raise_signal(number) if step == 5 else None  # noqa: E731
        patch.setattr(training, "train", lambda *given, progress, **more: train(*given, progress=interrupt, **more))
        assert main(typed(out)) == code
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Go on with: ctrnn train --task recall")
    assert lines[1].startswith(f"ctrnn train: {word}")
    assert read_state(out / "checkpoint.pt")["step"] == 5
    import shlex  # noqa: PLC0415

    assert main(shlex.split(lines[0].removeprefix("Go on with: "))[1:]) == 0
    assert read_state(out / "checkpoint.pt")["step"] == 8


@pytest.mark.parametrize("task", ["repeat-text", "har", "vowels", "physionet"])
def test_a_misspelt_path_leaves_no_folder_so_that_the_next_command_begins(tmp_path, capsys, task):
    key = "text" if task == "repeat-text" else "data"
    words = ["train", "--task", task, "--field", "gated", "--integrator", "euler", "--out", str(tmp_path / "run")]
    assert main([*words, "--set", f"{key}={tmp_path / 'mispelt'}"]) == 2
    said = capsys.readouterr().err
    assert "mispelt" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()


def _a_directory(path):
    path.unlink()
    path.mkdir()


def _an_invalid_byte(path):
    data = path.read_bytes()
    path.write_bytes(data[:-100] + b"\xff" + data[-99:])


def _json(**changes):
    return lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("name", "damage", "code", "message"),
    [
        ("checkpoint.pt", _a_directory, 1, "checkpoint.pt cannot be read (it is a folder, not a file); nothing was changed."),
        ("metrics.csv", _an_invalid_byte, 1, "is not text). Nothing was changed; mend that line"),
        ("metrics.csv", _a_directory, 1, "cannot write to"),
        ("config.json", _a_directory, 2, "config.json cannot be read"),
        ("config.json", _json(threads="one"), 2, "config.json: threads is a whole number from 1 to 1024, got 'one'."),
        ("config.json", _json(versions=[1]), 0, ""),
        ("result.json", _json(measures={"loss": "small"}), 0, ""),
        ("result.json", _json(steps=3), 0, ""),
    ],
)
def test_what_is_damaged_is_told_in_one_line_or_measured_again(tmp_path, capsys, name, damage, code, message):
    assert main(typed(tmp_path)) == 0
    first, before = capsys.readouterr().out, (tmp_path / "checkpoint.pt").read_bytes()
    true = json.loads((tmp_path / "result.json").read_text())
    if name != "result.json":
        (tmp_path / "result.json").unlink()
    damage(tmp_path / name)
    damaged = (tmp_path / name).is_dir() or (tmp_path / name).read_bytes()
    assert main(typed(tmp_path, "--resume")) == code
    said = capsys.readouterr()
    assert message in said.err
    assert said.err.count("\n") == bool(message)
    assert said.out == ("" if code else first)
    if code:
        assert ((tmp_path / name).is_dir() or (tmp_path / name).read_bytes()) == damaged
    else:
        assert json.loads((tmp_path / "result.json").read_text()) == true
    assert name == "checkpoint.pt" or (tmp_path / "checkpoint.pt").read_bytes() == before


def test_a_loss_that_is_nan_is_1(tmp_path, capsys, monkeypatch):
    from experiments.tasks.warps.recall import Recall  # noqa: PLC0415

    with monkeypatch.context() as patch:
        patch.setattr(Recall, "loss", lambda task, outputs, batch: outputs.sum() * float("nan"))
        assert main(typed(tmp_path)) == 1
    said = capsys.readouterr().err
    assert said.startswith("ctrnn train: the loss is nan at step 1;")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--task", "recal"], "there is no task 'recal'; did you mean 'recall'?"),
        (["--field", "gatd"], "there is no field 'gatd'; did you mean 'gated'?"),
        (["--integrator", "exakt"], "there is no integrator 'exakt'; did you mean 'exact'?"),
        (["--set", "stepz=3"], "there is no setting 'stepz'; did you mean 'steps'?"),
        (["--set", "steps=3.5"], "steps is a whole number, got '3.5'."),
        (["--set", "warp=0"], "`warp` must be at least 1, got 0."),
        (["--set", "init=chrono"], "`init` is chrono, which needs `t_max`"),
        (["--field", "plain", "--set", "init=chrono", "t_max=9"], "the field plain has no time scale that chrono could set"),
        (["--integrator", "exact", "--set", "method=dopri55"], "method"),
        (["--set", "steps=3", "--set", "steps=4"], "--set gives steps twice"),
        (
            ["--integrator", "heun", "--set", "noise=0.1"],
            "noise is 0.1, and the integrator heun is for equations without; take",
        ),
        (["--integrator", "exact", "--set", "noise=0.1"], "noise is 0.1, and the integrator exact is for equations without"),
        (["--integrator", "milstein"], "the integrator milstein is for fields with noise; say how much, --set noise=0.1."),
        (["--field", "gru-d", "--set", "noise=0.1"], "gru-d jumps at its samples, and models that jump run without noise"),
        (["--set", "noise=-1"], "`noise` must be at least 0"),
    ],
)
def test_wrong_usage_is_2_in_one_line_and_leaves_no_folder(tmp_path, capsys, words, message):
    given = dict(zip(WORDS[1::2], WORDS[2::2], strict=True)) | {"--out": str(tmp_path / "run")}
    names = {words[0]: words[1]} if words[0] != "--set" else {}
    more = words if words[0] == "--set" else words[2:]
    assert main(["train", *(word for pair in (given | names).items() for word in pair), *more]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("ctrnn train: ")
    assert message in said.err
    assert said.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_process_that_is_terminated_saves_and_goes_on(tmp_path):
    kept = [word for word in SETTINGS if not word.startswith(("steps=", "checkpoint_every="))]
    settings = [*kept, "steps=1000000", "checkpoint_every=1000000"]
    words = [sys.executable, "-m", "experiments", *typed(tmp_path, settings=settings)]
    running = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    rows = tmp_path / "metrics.csv"
    while not rows.exists() or rows.read_text().count("\n") < 4:
        assert running.poll() is None, running.communicate()
        time.sleep(0.02)
    running.terminate()
    out, err = running.communicate()
    assert running.returncode == 143
    assert out == ""
    assert next(line for line in err.splitlines() if "compiling kernels" not in line).endswith("--resume")
    assert read_state(tmp_path / "checkpoint.pt")["step"] == rows.read_text().count("\n") - 1


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def fileno(self):
        return 0


def test_progress_is_one_line_on_a_terminal_and_gone_in_the_end(tmp_path, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert main(typed(tmp_path)) == 0
    lines = [line for line in screen.getvalue().split("\r") if line.strip()]
    assert "0/8" in lines[0]
    assert screen.getvalue().count("\n") == 0
    assert screen.getvalue().split("\r")[-1].strip() == ""
