"""The training loop: the same bits however often it is interrupted, and what it says when it cannot go on."""

import csv
import errno
import functools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from conformance import kernels_for_all
from problems import thinned
from torch.testing import assert_close

import ctrnn
import discretize
from ctrnn.storage import files
from derivations.processes.interruption import Interrupted, deferred, interruptible
from experiments.data.text import numbered_text
from experiments.models.fields import FIELDS
from experiments.models.integrators import under
from experiments.runs.checkpoints import Checkpoints, read_state
from experiments.runs.configuration import Configuration, configuration_from_words
from experiments.runs.evaluation import evaluate, noise_of
from experiments.runs.folder import held_folder, load, read_result
from experiments.runs.optimizers import threads_for
from experiments.runs.processes import Processes
from experiments.runs.record import NoRecord
from experiments.runs.stopping import StoppedError
from experiments.runs.training import Training, _batch, train
from experiments.seeds import generator
from experiments.studies.folder import keep
from experiments.studies.study import Run, RunMeasures
from experiments.tasks.task import Batch, ClassAtEverySample, ClassOfTheSequence
from experiments.tasks.warps.recall import Recall
from experiments.usage import UsageError

ROOT = Path(__file__).resolve().parents[3]
SMALL = ["warp=3", "length=6", "hidden=5", "batch=4", "evaluation=6", "threads=1", "checkpoint_every=3", "evaluate_every=4"]


def small(*settings, task="recall", field="gated", integrator="euler"):
    given = {word.partition("=")[0]: word for word in [*(SMALL if task == "recall" else SMALL[2:]), "steps=12", *settings]}
    return configuration_from_words(task, field, integrator, list(given.values()))


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """What is lost when power fails is not what these tests look for, and waiting for a disk takes most of their time."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


class KilledError(Exception):
    """As at a kill: nothing of the process is left but what it wrote."""


def killed_at(*steps):
    def progress(step, loss, rate):
        if step in steps:
            raise KilledError

    return progress


def table(folder):
    """metrics.csv without its seconds."""
    with (folder / "metrics.csv").open() as file:
        return [{name: text for name, text in row.items() if name != "seconds"} for row in csv.DictReader(file)]


def bits(folder):
    state = read_state(folder / "checkpoint.pt")
    return {name: value.numpy().tobytes() for name, value in state["model"].items()}


def assert_same_run(folder, other):
    assert bits(folder) == bits(other)
    assert table(folder) == table(other)
    assert read_result(folder)["measures"] == read_result(other)["measures"]
    assert read_result(folder)["best"] == read_result(other)["best"]
    assert read_result(folder)["largest_g_dt"] == read_result(other)["largest_g_dt"]


CONFIGURATIONS = {
    "plateau": small("schedule=plateau", "evaluate_every=2", "rate=1"),
    "adam": small("optimizer=adam", "clip=0.1"),
    "best": small("length=12", "keep=best", "evaluate_every=3", "rate=0.3", "seed=1"),
    "set": small("batches=4", "accumulate=2", "optimizer=adamw", "weight_decay=0.1", "warmup=5"),
    "bfloat16": small("precision=bfloat16", "rate=0.1"),
    "exact": small("length=4", "rtol=0.1", integrator="exact"),
    "variable": small("warping=variable", "padded=true", field="lstm"),
    "adding": small("T=8", task="adding", field="leaky", integrator="exponential-euler"),
    "stamps": small("length=5", "hold=backward", task="forecast", field="gated-softplus", integrator="exponential-euler"),
    "substeps": small("substeps=3", field="gated-power", integrator="heun"),
    "noise": small("noise=0.3", "substeps=2", field="leaky", integrator="euler-maruyama"),
    "jumps": small("length=5", "rtol=0.01", task="forecast", field="gru-ode-bayes", integrator="exact"),
}

# A rate that moves no weight: no loss is a new lowest, on any processor.
STANDING = small("schedule=plateau", "evaluate_every=2", "rate=1e-30")


@pytest.mark.parametrize("name", thinned(CONFIGURATIONS, ("plateau", "best", "exact", "noise")))
def test_an_interrupted_run_ends_on_the_bits_of_one_that_was_not(name, tmp_path):
    configuration = CONFIGURATIONS[name]
    train(configuration, tmp_path / "whole")
    for step in (1, 4, 5, 9, 11):
        torch.manual_seed(step)  # whoever drew from torch's own generator would draw something else
        with pytest.raises(KilledError):
            train(configuration, tmp_path / "parts", progress=killed_at(step))
    train(configuration, tmp_path / "parts")
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    assert [row["step"] for row in table(tmp_path / "parts")] == [str(step) for step in range(1, 13)]


@pytest.mark.parametrize("name", ["plateau", "best", "set", "noise"])
def test_a_run_that_is_extended_ends_on_the_bits_of_one_that_was_as_long_from_the_start(name, tmp_path):
    shorter = CONFIGURATIONS[name]
    longer = replace(shorter, training=replace(shorter.training, steps=20))
    train(longer, tmp_path / "whole")
    train(shorter, tmp_path / "parts")
    with pytest.raises(KilledError):
        train(longer, tmp_path / "parts", progress=killed_at(17))
    assert read_result(tmp_path / "parts") is None  # that of 12 steps is not one of 20
    train(longer, tmp_path / "parts")
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    with pytest.raises(UsageError, match=r"steps \(20 there, 12 here\)"):
        train(shorter, tmp_path / "parts")
    other = replace(longer, training=replace(longer.training, steps=30, seed=longer.training.seed + 1))
    with pytest.raises(UsageError, match=r"seed \("):
        train(other, tmp_path / "parts")


def test_more_patience_goes_on(tmp_path):
    impatient = replace(STANDING, training=replace(STANDING.training, patience=2))
    assert train(impatient, tmp_path / "run").steps == 6  # the first of three evaluations is the best
    more = replace(STANDING, training=replace(STANDING.training, patience=3, steps=30))
    train(more, tmp_path / "run")
    train(more, tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "run")


@pytest.mark.parametrize("schedule", ["cosine", "halved-twice"])
def test_schedules_that_know_the_end_do_not_go_on_to_another_one(tmp_path, schedule):
    train(small(f"schedule={schedule}"), tmp_path)
    with pytest.raises(UsageError, match="has other rates from its start"):
        train(small(f"schedule={schedule}", "steps=20"), tmp_path)
    assert read_result(tmp_path)["steps"] == 12


def weights_after(*settings):
    """The weights before training, after a step, and the gradients of the batches that it read."""
    configuration = small("steps=1", "rate=0.01", "seed=3", *settings)
    torch.set_default_dtype(torch.float32)
    before, task = configuration.untrained_model(), configuration.task
    run = Training(configuration.untrained_model(), task, configuration.training)
    run.learn()
    gradients = []
    for k in range(configuration.training.accumulate):
        batch = task.batch(4, generator(3, "batch", k))
        gradients.append(torch.autograd.grad(task.loss(before(batch.xs), batch), list(before.parameters())))
    return zip(before.parameters(), run.model.parameters(), *gradients, strict=True)


def test_a_step_of_sgd_goes_down_the_mean_gradient_of_the_batches_that_it_accumulates():
    for before, after, *slopes in weights_after("optimizer=sgd", "accumulate=3"):
        assert len(slopes) == 3
        assert_close(after, before - 0.01 * sum(slopes) / 3, rtol=0, atol=1e-6)  # float32


def test_adamw_shrinks_matrices_and_lets_biases_and_rates_be():
    for before, after, slope in weights_after("optimizer=adamw", "weight_decay=2"):
        shrunk = before * (1 - 0.01 * 2) if before.dim() > 1 else before
        assert_close(after, shrunk - 0.01 * slope / (slope.abs() + 1e-8), rtol=0, atol=2e-5)  # the first step of Adam


def test_the_rate_rises_and_then_follows_half_a_cosine(tmp_path):
    train(small("schedule=cosine", "warmup=4", "rate=0.8"), tmp_path)
    rates = [float(row["rate"]) for row in table(tmp_path)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, *(0.4 * (1 + math.cos(math.pi * k / 8)) for k in range(8))])


@pytest.mark.parametrize("kind", [ClassAtEverySample, ClassOfTheSequence])
def test_smoothed_labels_give_all_classes_a_share(kind):
    class Asked(kind):
        input_size = output_size = 3
        drawn = None

    outputs = torch.randn(6, 4, 3)
    targets = torch.randint(3, (6, 4) if kind is ClassAtEverySample else (4,))
    batch = Batch(torch.zeros(6, 4, 3), targets, lengths=torch.tensor([6, 1, 3, 2]))
    every = -(outputs if kind is ClassAtEverySample else batch.last(outputs)).log_softmax(-1)
    right = every.gather(-1, targets[..., None])[..., 0]
    expected = (0.7 * right + 0.3 * every.mean(-1)).mean()
    assert_close(Asked().loss(outputs, batch, label_smoothing=0.3), expected)


def test_products_in_bfloat16_learn_what_others_do_to_its_rounding(tmp_path):
    plain, mixed = small("steps=40", "rate=0.01", "hidden=16"), small("steps=40", "rate=0.01", "hidden=16", "precision=bfloat16")
    reached = [train(each, tmp_path / str(k)).measures["loss"] for k, each in enumerate((plain, mixed))]
    assert reached[0] != reached[1]
    assert reached[1] == pytest.approx(reached[0], rel=0.05)
    assert all(value.dtype == torch.float32 for value in read_state(tmp_path / "1" / "checkpoint.pt")["model"].values())


def by_hand(tmp_path, update, *settings):
    """Three steps of a run beside `update`, which is called with a parameter, its gradient and what it keeps of it."""
    configuration = small("steps=3", "rate=0.01", "seed=3", *settings)
    train(configuration, tmp_path)
    torch.set_default_dtype(torch.float32)
    model, task = configuration.untrained_model(), configuration.task
    kept = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for step in range(3):
        batch = task.batch(4, generator(3, "batch", step))
        gradients = torch.autograd.grad(task.loss(model(batch.xs), batch), list(model.parameters()))
        with torch.no_grad():
            for parameter, each, slope in zip(model.parameters(), kept, gradients, strict=True):
                update(parameter, each, slope)
    for name, value in model.state_dict().items():
        assert_close(read_state(tmp_path / "checkpoint.pt")["model"][name], value, rtol=0, atol=2e-6)  # float32, another order


def test_rmsprop_is_the_papers(tmp_path):
    """Against its own equations: v <- 0.9 v + 0.1 g^2, w <- w - rate g/(sqrt v + eps)."""

    def update(w, v, g):
        v.mul_(0.9).add_(0.1 * g**2)
        w.sub_(0.01 * g / (v.sqrt() + 1e-8))

    by_hand(tmp_path, update)


def test_sgd_goes_on_with_nine_tenths_of_the_step_before(tmp_path):
    by_hand(tmp_path, lambda w, v, g: w.sub_(0.01 * v.mul_(0.9).add_(g)), "optimizer=sgd")


def test_a_plateau_halves_the_rate_at_every_loss_that_is_no_new_lowest(tmp_path):
    configuration = STANDING
    train(configuration, tmp_path / "plateau")
    rate, lowest, halved = configuration.training.rate, math.inf, []
    for row in table(tmp_path / "plateau"):
        assert float(row["rate"]) == rate
        if row["evaluation_loss"]:
            halved.append(not float(row["evaluation_loss"]) < lowest)
            rate, lowest = (rate / 2 if halved[-1] else rate), min(lowest, float(row["evaluation_loss"]))
    assert halved == [False, *[True] * 5]


def test_rates_are_halved_after_half_and_three_quarters_of_the_steps(tmp_path):
    train(small("schedule=halved-twice", "rate=0.2"), tmp_path)
    assert [float(row["rate"]) for row in table(tmp_path)] == [0.2] * 6 + [0.1] * 3 + [0.05] * 3


def test_a_checkpoint_in_which_a_rate_is_halved_already_is_not_halved_again(tmp_path):
    chosen = small("schedule=halved-twice", "rate=0.8")
    run = Training(chosen.untrained_model(), chosen.task, chosen.training)
    state = run.state() | {"step": 10, "schedule": {"rate": 0.2}}  # as first versions have kept it
    run.load(state, tmp_path)
    assert run.learn()["rate"] == 0.2


def test_the_best_weights_are_kept_tested_and_loaded(tmp_path):
    configuration = CONFIGURATIONS["best"]
    outcome = train(configuration, tmp_path / "whole")
    rows = {int(row["step"]): float(row["evaluation_loss"]) for row in table(tmp_path / "whole") if row["evaluation_loss"]}
    best = min(rows, key=rows.get)
    assert best < 12, "the run must go on to worse weights"
    assert read_result(tmp_path / "whole")["best"]["step"] == best
    until_then = replace(configuration.training, keep="last", steps=best)
    expected = train(replace(configuration, training=until_then), tmp_path / "until then")
    loaded, _ = load(tmp_path / "whole")
    again = train(configuration, tmp_path / "whole")
    for name, value in expected.model.state_dict().items():
        for model in (outcome.model, loaded, again.model):
            assert torch.equal(model.state_dict()[name], value), name
    assert outcome.measures == expected.measures == again.measures


def test_the_best_weights_are_not_kept_where_no_evaluation_is_due():
    with pytest.raises(UsageError, match="there is no evaluation in 12 steps"):
        small("keep=best", "evaluate_every=13")


def test_training_ends_when_evaluations_get_no_better_also_where_it_was_interrupted(tmp_path):
    """By the accuracy: patience counts evaluations since the largest one, and the run is finished at that step."""
    configuration = small("rate=1", "seed=1", "steps=60", "evaluate_every=2", "keep=best", "keep_by=accuracy", "patience=3")
    outcome = train(configuration, tmp_path / "whole")
    rows = {int(row["step"]): float(row["evaluation_accuracy"]) for row in table(tmp_path / "whole") if row["evaluation_loss"]}
    best = max(rows, key=rows.get)  # the first of those that are as large
    assert outcome.steps == max(rows) == best + 6 < 60
    assert read_result(tmp_path / "whole")["best"]["step"] == best
    with pytest.raises(KilledError):
        train(configuration, tmp_path / "parts", progress=killed_at(best + 1))
    train(configuration, tmp_path / "parts")
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    assert train(configuration, tmp_path / "parts").already


@pytest.mark.parametrize("goal", ["goal=0.1", "goal=0.5 keep_by=accuracy"])
def test_training_ends_at_the_first_evaluation_that_comes_to_the_goal_also_where_it_was_interrupted(tmp_path, monkeypatch, goal):
    monkeypatch.setattr(
        Training, "evaluate", lambda run: {} if run.step % 2 else {"loss": 1 / run.step, "accuracy": run.step / 20}
    )
    configuration = small("steps=20", "evaluate_every=2", *goal.split())
    assert train(configuration, tmp_path / "whole").steps == read_result(tmp_path / "whole")["steps"] == 10
    for step in (3, 9):
        with pytest.raises(KilledError):
            train(configuration, tmp_path / "parts", progress=killed_at(step))
    train(configuration, tmp_path / "parts")
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    assert train(configuration, tmp_path / "parts").already


def test_a_run_that_came_to_its_goal_goes_on_to_a_further_one(tmp_path):
    at_once = small("rate=0.01", "evaluate_every=2", "goal=100")
    assert train(at_once, tmp_path / "run").steps == 2
    further = replace(at_once, training=replace(at_once.training, goal=None))
    train(further, tmp_path / "run")
    train(further, tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "run")
    with pytest.raises(UsageError, match=r"goal \("):
        train(at_once, tmp_path / "run")


def test_a_goal_needs_an_evaluation():
    with pytest.raises(UsageError, match="there is no evaluation in 12 steps"):
        small("goal=0.1", "evaluate_every=13")


def test_a_measure_to_keep_by_is_one_of_the_tasks(tmp_path):
    with pytest.raises(UsageError, match="keep_by is 'auroc', and this task measures loss, accuracy"):
        train(small("keep_by=auroc"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("batch", "threads"), [(3, 1), (4, 7)])
def test_products_of_fewer_than_a_million_numbers_are_made_by_one_thread(monkeypatch, batch, threads):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    assert threads_for([torch.empty(2**9, 2**9), torch.empty(2**9)], batch) == threads  # of the largest, times the batch


def test_a_clipped_gradient_moves_the_weights_less(tmp_path):
    free, bound = small("steps=1", "rate=1", "optimizer=adam"), small("steps=1", "rate=1", "optimizer=adam", "clip=1e-9")
    train(free, tmp_path / "free")
    train(bound, tmp_path / "bound")
    moved = {}
    for name in ("free", "bound"):
        start = free.untrained_model().state_dict()
        end = read_state(tmp_path / name / "checkpoint.pt")["model"]
        moved[name] = max(float((end[key] - start[key]).abs().max()) for key in start)
    assert moved["bound"] < 0.2 * moved["free"]  # g/(|g| + eps) with |g| below eps = 1e-8
    assert table(tmp_path / "free")[0]["gradient_norm"] == table(tmp_path / "bound")[0]["gradient_norm"]  # before the clip


def test_a_training_set_is_read_once_an_epoch_in_an_order_of_its_own():
    configuration = small("batches=5")
    read = [_batch(configuration.task, configuration.training, step).xs.numpy().tobytes() for step in range(15)]
    epochs = [read[:5], read[5:10], read[10:]]
    assert all(len(set(epoch)) == 5 and set(epoch) == set(read[:5]) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    fresh = small()
    assert len({_batch(fresh.task, fresh.training, step).xs.numpy().tobytes() for step in range(15)}) == 15


def test_noise_is_of_the_seed_and_the_step_and_is_not_learned():
    chosen = small("noise=0.5", field="leaky", integrator="euler-maruyama")
    batch = chosen.task.batch(4, generator(0))

    def run_at(step):
        run = Training(chosen.untrained_model(), chosen.task, chosen.training, batch_at=lambda step: batch)
        run.step = step
        return run.learn()["loss"], float(run.model.state_dict()["rnn.field.noise.sigma"])

    assert run_at(0) == run_at(0)
    assert run_at(0)[0] != run_at(1)[0]  # of the same weights and batch
    assert run_at(0)[1] == 0.5
    keys = [noise_of(chosen.untrained_model(), 4, seed, "test", 0)["seed"].tolist() for seed in (0, 1)]
    assert keys[0] != keys[1]


def test_a_step_in_which_nothing_counts_is_written_without_a_loss_and_moves_nothing():
    chosen = small("padded=true", "steps=3", "evaluate_every=3")
    batch = chosen.task.batch(4, generator(0))
    nothing = replace(batch, counts=torch.zeros_like(batch.counts))
    run = Training(chosen.untrained_model(), chosen.task, chosen.training, batch_at=lambda k: nothing if k == 1 else batch)
    rows, weights, progress = [], [], []

    class Rows(NoRecord):
        def write_row(self, step, seconds, row, found):
            rows.append(row)
            weights.append([weight.detach().clone() for weight in run.parameters])

    run.run(Rows(), lambda *said: progress.append(said))
    assert [math.isnan(row["loss"]) for row in rows] == [math.isnan(loss) for _, loss, _ in progress] == [False, True, False]
    assert_close(weights[1], weights[0], rtol=0, atol=0)
    assert rows[0]["loss"] != rows[2]["loss"]


def test_smoothing_is_for_classes_and_reaches_the_loss():
    adding = small("T=8", "label_smoothing=0.1", task="adding", field="leaky")
    with pytest.raises(UsageError, match="label_smoothing is for classes"):
        Training(adding.untrained_model(), adding.task, adding.training)
    plain, smoothed = (small("steps=1", f"label_smoothing={share}", "optimizer=sgd") for share in (0, 0.5))
    losses = [Training(each.untrained_model(), each.task, each.training).learn()["loss"] for each in (plain, smoothed)]
    assert losses[0] != losses[1]


def test_evaluations_are_weighted_by_what_counts():
    task = Recall(warping="variable", warp=4, padded=True, length=9)
    model = small("padded=true", "warping=variable", "length=9", "warp=4").untrained_model().double()
    found = evaluate(model, task, "validation", 7, 3, 2)
    losses = counted = right = 0.0
    for batch in task.evaluation("validation", 7, 2, 3):
        scores = model(batch.xs).detach().log_softmax(-1)
        for t in range(9):
            for k in range(batch.xs.shape[1]):
                if batch.counts[t, k]:
                    counted += 1
                    losses -= float(scores[t, k, batch.targets[t, k]])
                    right += int(scores[t, k].argmax()) == int(batch.targets[t, k])
    assert_close(found["loss"], losses / counted, rtol=1e-12, atol=0)
    assert_close(found["accuracy"], right / counted, rtol=1e-12, atol=0)


def test_a_batch_in_which_nothing_counts_is_left_out_of_an_evaluation():
    class Partly(Recall):
        def evaluation(self, split, sequences, size, seed):
            for k, batch in enumerate(super().evaluation(split, sequences, size, seed)):
                yield replace(batch, counts=torch.full(batch.targets.shape, float(k != 1)))

    task, model = Partly(warp=2, length=6), small("warp=2", "length=6").untrained_model().double()
    batches = [batch for k, batch in enumerate(task.evaluation("test", 6, 2, 3)) if k != 1]
    expected = sum(float(task.loss(model(batch.xs).detach(), batch)) for batch in batches) / 2
    assert_close(evaluate(model, task, "test", 6, 3, 2)["loss"], expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("noise", [[], ["noise=0.5"]])
def test_evaluation_batches_and_their_noise_do_not_depend_on_the_step(noise, tmp_path):
    configuration = small("rate=1e-30", "evaluate_every=1", "steps=4", *noise, integrator="sra1" if noise else "euler")
    train(configuration, tmp_path)
    assert len({row["evaluation_loss"] for row in table(tmp_path)}) == 1
    assert {float(row["rate"]) for row in table(tmp_path)} == {1e-30}  # constant, whatever the evaluations find


def test_time_stamps_and_lengths_reach_the_rnn(tmp_path, monkeypatch):
    """The loss of a batch that lasts longer, and of which a sequence ends early, is that of the cell stepped by hand."""
    configuration = small("steps=1", "T=6", task="adding", field="plain")
    lengths, ts = torch.tensor([6, 2, 6, 4]), torch.tensor([0.0, 0.5, 0.6, 1.6, 1.7, 2.0, 2.9], dtype=torch.float64)
    draw = type(configuration.task).batch

    def stamped(task, *given):
        batch = draw(task, *given)
        return type(batch)(batch.xs, batch.targets, ts=ts, lengths=lengths[: batch.xs.shape[1]])

    monkeypatch.setattr(type(configuration.task), "batch", stamped)
    train(configuration, tmp_path)
    torch.set_default_dtype(torch.float32)
    model, batch = configuration.untrained_model(), stamped(configuration.task, 4, generator(0, "batch", 0))
    h = torch.zeros(4, 5)
    last = torch.zeros(4, 5)
    for k, dt in enumerate(ts.diff().float()):
        h = h + dt * model.field(batch.xs[k], h)
        last[lengths == k + 1] = h[lengths == k + 1]
    expected = ((model.read_out(last) - batch.targets) ** 2).mean()
    assert_close(float(table(tmp_path)[0]["loss"]), expected.item(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("damage", ["damaged", "missing"])
def test_a_finished_run_whose_newest_checkpoint_is_lost_gives_the_weights_of_its_measures(tmp_path, damage):
    configuration = small("steps=11")
    whole = train(configuration, tmp_path / "whole")
    train(configuration, tmp_path / "lost")
    newest = tmp_path / "lost" / "checkpoint.pt"
    newest.write_bytes(newest.read_bytes()[:-50]) if damage == "damaged" else newest.unlink()
    assert read_state(tmp_path / "lost" / "previous.pt")["step"] == 9
    again = train(configuration, tmp_path / "lost")
    for ours, theirs in zip(again.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert (again.measures, again.already) == (whole.measures, False)
    assert_same_run(tmp_path / "whole", tmp_path / "lost")
    assert train(configuration, tmp_path / "lost").already


def test_a_training_shows_a_bar_where_it_is_asked_for(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("discretize.progress.DELAY", 0)  # shown at once, however short
    train(small("steps=6"), tmp_path / "quiet")
    assert not capsys.readouterr().err
    train(small("steps=6"), tmp_path / "shown", progress=True)
    assert "train: " in capsys.readouterr().err


def test_a_result_of_other_steps_does_not_finish_a_run(tmp_path):
    # As a run that was begun where another one's result.json was left.
    train(small("steps=6"), tmp_path / "other")
    train(small(), tmp_path / "whole")
    with pytest.raises(KilledError):
        train(small(), tmp_path / "run", progress=killed_at(7))
    shutil.copy(tmp_path / "other" / "result.json", tmp_path / "run")
    assert not train(small(), tmp_path / "run").already
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_a_finished_run_is_not_trained_again_and_one_that_was_killed_before_its_result_is_measured(tmp_path):
    configuration = small()
    before = train(configuration, tmp_path)
    written = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    again = train(configuration, tmp_path, progress=lambda *_: pytest.fail("it was trained again"))
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == written
    assert (again.measures, again.seconds, again.already) == (before.measures, before.seconds, True)
    for ours, theirs in zip(again.model.parameters(), before.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    (tmp_path / "result.json").unlink()
    assert train(configuration, tmp_path, progress=lambda *_: pytest.fail("it was trained again")).measures == before.measures


def test_an_empty_folder_has_no_model_to_load(tmp_path):
    with pytest.raises(UsageError, match=r"holds no trained model: there is no config.json"):
        load(tmp_path)


def test_a_run_is_not_written_into_a_file(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError, match="cannot write to"):
        train(small(), tmp_path / "taken")


@pytest.fixture
def short(tmp_path):
    """A folder with a run of two steps, and what is in its result."""
    train(small("steps=2"), tmp_path)
    return tmp_path, (tmp_path / "result.json").read_bytes()


def test_a_folder_with_a_run_is_refused_where_it_is_not_to_go_on(short):
    folder, result = short
    with pytest.raises(UsageError, match="--resume, or choose another --out"):
        train(small("steps=2"), folder, resume=False)
    assert (folder / "result.json").read_bytes() == result


def test_a_configuration_that_is_torn_is_refused(short):
    folder, result = short
    (folder / "config.json").write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        train(small("steps=2"), folder)
    assert (folder / "result.json").read_bytes() == result


def test_parts_of_a_run_without_its_configuration_are_refused(short):
    folder, result = short
    (folder / "config.json").unlink()
    with pytest.raises(UsageError, match=r"parts of a run, but no config\.json"):
        train(small("steps=2"), folder)
    assert (folder / "result.json").read_bytes() == result


def test_a_trained_model_is_loaded_as_it_was(tmp_path):
    configuration = small("length=4", "rtol=0.1", "steps=4", field="lstm", integrator="exact")
    outcome = train(configuration, tmp_path / "lstm")
    model, same = load(tmp_path / "lstm")
    assert same == configuration
    xs = torch.randn(7, 2, configuration.task.input_size)
    assert torch.equal(model(xs), outcome.model(xs))


def test_other_settings_than_recorded_are_refused_by_their_keys(tmp_path):
    with pytest.raises(KilledError):
        train(small(), tmp_path / "killed", progress=killed_at(5))
    for finish in (False, True):
        with pytest.raises(UsageError, match=r"warp \(3 there, 2 here\), lr \(0.001 there, 0.1 here\)"):
            train(small("warp=2", "rate=0.1"), tmp_path / "killed")
        if not finish:
            train(small(), tmp_path / "killed")


def test_a_checkpoint_of_another_model_is_refused_in_words(tmp_path):
    train(small("hidden=6"), tmp_path / "other")
    with pytest.raises(KilledError):
        train(small(), tmp_path / "run", progress=killed_at(4))
    shutil.copy(tmp_path / "other" / "checkpoint.pt", tmp_path / "run")
    for use in (lambda: train(small(), tmp_path / "run"), lambda: load(tmp_path / "run")):
        with pytest.raises(StoppedError, match=r"does not fit the model that config\.json describes \(size mismatch"):
            use()


@pytest.mark.parametrize(("finish", "text"), [(False, "olleh"), (True, "hello?")])
def test_the_same_command_on_another_text_is_refused(tmp_path, finish, text):
    path, folder = tmp_path / "text", tmp_path / "run"

    def write(text):
        path.write_text(text)
        numbered_text.cache_clear()

    configuration = small(f"text={path}", "length=9", task="repeat-text")
    write("hello")
    if finish:
        train(configuration, folder)
    else:
        with pytest.raises(KilledError):
            train(configuration, folder, progress=killed_at(4))
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    write(text)
    with pytest.raises(UsageError, match="holds a run on other data: what repeat-text reads is not what it was"):
        train(configuration, folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    write("hello")
    config = folder / "config.json"
    told = json.loads(config.read_text())
    assert len(told.pop("data")) == 64
    config.write_text(json.dumps(told))  # as of runs that were begun before there was a digest
    assert train(configuration, folder).steps == 12


@pytest.mark.parametrize("torn", [b"9,0.1,0.0", b"9,\xff\n" + b"9" * 5000 + b",\n"], ids=["half a row", "no text"])
def test_a_torn_row_and_rows_beyond_the_checkpoint_are_cut_off(tmp_path, capsys, torn):
    configuration = small()
    train(configuration, tmp_path / "whole")
    with pytest.raises(KilledError):
        train(configuration, tmp_path / "parts", progress=killed_at(8))
    rows = tmp_path / "parts" / "metrics.csv"
    assert rows.read_text().count("\n") == 9
    rows.write_bytes(rows.read_bytes() + torn)
    train(configuration, tmp_path / "parts")
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    assert capsys.readouterr().err == ""


def test_rows_that_are_lost_are_told(tmp_path, capsys):
    with pytest.raises(KilledError):
        train(small(), tmp_path / "lost", progress=killed_at(8))
    (tmp_path / "lost" / "metrics.csv").unlink()
    train(small(), tmp_path / "lost")
    assert "metrics.csv has 0 of the 6 rows before" in capsys.readouterr().err
    assert [row["step"] for row in table(tmp_path / "lost")] == [str(step) for step in range(7, 13)]


def test_a_second_process_on_a_folder_is_refused(tmp_path):
    def inner(step, loss, rate):
        with pytest.raises(UsageError, match="another process trains in"):
            train(small(), tmp_path)

    train(small("steps=2"), tmp_path, progress=inner)
    with held_folder(tmp_path, small("steps=2"), resume=True):
        pass  # held no longer


def test_the_threads_are_those_of_the_first_start_and_other_versions_are_told(tmp_path, monkeypatch, capsys):
    configuration, before = small("threads=2"), torch.get_num_threads()
    seen = []
    with pytest.raises(KilledError):
        train(configuration, tmp_path, progress=lambda *_: seen.append(torch.get_num_threads()) or killed_at(1)(*_))
    monkeypatch.setattr("experiments.runs.record.cores", lambda: 1)
    recorded = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps({**recorded, "threads": 3, "versions": {**recorded["versions"], "torch": "1.0"}})
    )
    train(configuration, tmp_path, progress=lambda *_: seen.append(torch.get_num_threads()))
    assert seen[:2] == [2, 3]
    assert torch.get_num_threads() == before
    said = capsys.readouterr().err
    assert "begun with 3 threads and goes on with as many, on 1 core(s)" in said
    assert f"begun with torch 1.0, this is {version('torch')}" in said


@pytest.fixture
def short_sequences():
    with kernels_for_all():
        yield


@pytest.mark.kernels
@pytest.mark.usefixtures("short_sequences")
def test_another_engine_is_told_and_the_same_one_is_not(tmp_path, monkeypatch, capsys):
    for step in (4, 7):
        with pytest.raises(KilledError):
            train(small(), tmp_path, progress=killed_at(step))
    (first,) = read_state(tmp_path / "checkpoint.pt")["engines"]
    assert first == "compiled"
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("CTRNN_FUSED", "0")
    train(small(), tmp_path)
    assert capsys.readouterr().err == f"The run was begun with the engine {first}, this is steps: last bits may differ.\n"
    assert read_result(tmp_path)["engines"] == [first, "steps"]


@pytest.mark.kernels
@pytest.mark.usefixtures("short_sequences")
def test_an_engine_is_not_told_where_none_was_recorded_or_nothing_was_interrupted(tmp_path, monkeypatch, capsys):
    with pytest.raises(KilledError):
        train(small(), tmp_path / "old", progress=killed_at(4))
    state = read_state(tmp_path / "old" / "checkpoint.pt")
    del state["engines"]  # as in the checkpoints before there were any
    Checkpoints(tmp_path / "old").save(state)
    train(small(), tmp_path / "old")
    train(small(), tmp_path / "whole", progress=lambda step, *_: monkeypatch.setenv("CTRNN_FUSED", "0") if step == 5 else None)
    assert capsys.readouterr().err == ""
    assert len(read_result(tmp_path / "whole")["engines"]) == 2


def test_a_record_of_a_study_tells_the_threads_that_the_run_was_begun_with(tmp_path):
    run = Run("one", {"seed": 0}, small("steps=1"))
    place = tmp_path / "runs" / "one"
    place.mkdir(parents=True)
    kept = {}
    for threads in (None, "one", 2):
        if threads is not None:
            (place / "config.json").write_text(json.dumps({"threads": threads}))
        keep(tmp_path, run, RunMeasures({}, [], 0.0), {"threads": "1", "cores": "2"})
        kept[threads] = json.loads((place / "rows.json").read_text())["made"]
    assert kept == {threads: {"threads": "2" if threads == 2 else "1", "cores": "2"} for threads in kept}


@contextmanager
def spoiled(spoil, at):
    """The task's loss, spoilt at its `at`-th call."""
    true, calls = Recall.loss, iter(range(1, 10**6))

    def loss(task, outputs, batch):
        found = true(task, outputs, batch)
        return spoil(found, outputs) if next(calls) == at else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recall, "loss", loss)
        yield


@pytest.mark.parametrize(
    ("what", "spoil"),
    [
        ("loss is inf", lambda loss, _: loss * float("inf")),
        ("gradient is nan", lambda loss, outputs: loss + (outputs - outputs.detach()).abs().sum().sqrt()),
    ],
)
def test_numbers_that_are_not_finite_stop_the_run_and_keep_the_last_good_state(tmp_path, what, spoil):
    configuration = small("evaluate_every=100")
    train(configuration, tmp_path / "whole")
    with spoiled(spoil, 8), pytest.raises(StoppedError, match=f"the {what} at step 8; .*--set lr="):
        train(configuration, tmp_path / "parts")
    state = read_state(tmp_path / "parts" / "checkpoint.pt")
    assert state["step"] == 7
    assert all(bool(value.isfinite().all()) for value in state["model"].values())
    train(configuration, tmp_path / "parts")  # it was the task, and that is well again
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_an_evaluation_that_is_not_finite_stops_the_run(tmp_path):
    with spoiled(lambda loss, _: loss * float("nan"), 5), pytest.raises(StoppedError, match="validation loss is nan at step 4"):
        train(small(), tmp_path)  # four steps, then the evaluation
    assert read_state(tmp_path / "checkpoint.pt")["step"] == 3


def test_a_solve_that_fails_is_told_in_words(tmp_path, monkeypatch):
    configuration = small(integrator="exact", field="gated-exponential")
    make = Configuration.untrained_model

    def explosive(given):
        model = make(given)
        with torch.no_grad():
            model.field.rate.bias.fill_(1e30)
        return model

    monkeypatch.setattr("experiments.runs.configuration.Configuration.untrained_model", explosive)
    with pytest.raises(StoppedError, match=r"^step 1: .*Nothing was learned yet.*--set method="):
        train(configuration, tmp_path)


def test_a_batch_that_fits_no_memory_is_told_in_words(tmp_path):
    with pytest.raises(StoppedError, match=r"^step 1: there is not enough memory .*--set hidden="):
        train(small("T=2147483647", "batch=131072", task="adding"), tmp_path)  # 1 PiB, and an address has 47 bits


@pytest.mark.parametrize(
    "allocate",
    [lambda _: torch.empty(2**47), lambda _: torch.empty(2**62, 2**62), lambda _: next(iter(map(fail, [0])))],
    ids=["1 PiB", "more than an address has", "Python's own"],
)
def test_a_model_that_fits_no_memory_is_told_in_words_and_leaves_no_folder(tmp_path, monkeypatch, allocate):
    monkeypatch.setattr("experiments.runs.configuration.Configuration.untrained_model", allocate)
    with pytest.raises(StoppedError, match=r"^step 0: there is not enough memory .*--set hidden="):
        train(small(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def fail(_):
    raise MemoryError


def test_another_error_of_torch_is_not_taken_for_a_lack_of_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(Recall, "batch", lambda *_: torch.ones(2) @ torch.ones(3))
    with pytest.raises(RuntimeError, match="size") as caught:
        train(small(), tmp_path)
    assert caught.type is RuntimeError


def test_a_signal_ends_the_step_saves_and_is_delivered(tmp_path):
    configuration, number = small("checkpoint_every=100"), signal.SIGTERM
    train(configuration, tmp_path / "whole")
    seen = []

    def interrupt(step, loss, rate):
        seen.append(step)
        if step == 5:
            signal.raise_signal(number)
            seen.append("the step is finished")

    with pytest.raises(Interrupted) as caught, interruptible():
        train(configuration, tmp_path / "parts", progress=interrupt)
    assert caught.value.code == 128 + number
    assert seen == [1, 2, 3, 4, 5, "the step is finished"]
    assert read_state(tmp_path / "parts" / "checkpoint.pt")["step"] == 5
    train(configuration, tmp_path / "parts")
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_a_second_ctrl_c_does_not_wait(tmp_path):
    def interrupt(step, loss, rate):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the second one waited")

    with pytest.raises(Interrupted), interruptible():
        train(small(), tmp_path, progress=interrupt)


def test_what_a_batch_system_sends_twice_is_one_signal(tmp_path):
    again = signal.SIGUSR1

    def interrupt(step, loss, rate):
        if step == 5:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(again)

    def trained():
        try:
            train(small("checkpoint_every=100"), tmp_path, progress=interrupt)
        finally:
            signal.raise_signal(again)  # nor does it cut short what is put in order on the way out

    with pytest.raises(Interrupted) as caught, interruptible():
        trained()
    assert caught.value.code == 143
    assert read_state(tmp_path / "checkpoint.pt")["step"] == 5


def test_outside_of_the_command_ctrl_c_is_the_callers(request):
    # A job in the background is started with SIGINT ignored.
    request.addfinalizer(functools.partial(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT)))
    before = signal.default_int_handler
    signal.signal(signal.SIGINT, before)
    waits = []

    def interrupt():
        with deferred() as interrupted:
            waits.append(interrupted())
            signal.raise_signal(signal.SIGINT)
            waits.append(interrupted())

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert waits == [False, True]
    assert signal.getsignal(signal.SIGINT) is before
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with deferred() as interrupted:
        signal.raise_signal(signal.SIGINT)
        assert not interrupted()  # one that is ignored stays ignored


def dropped(inputs, hidden, generator=None, dtype=None):
    field = ctrnn.gated(inputs, hidden, generator=generator, dtype=dtype)
    field.candidate = ctrnn.parts.Dropout(field.candidate, 0.5, inputs=0.3)
    return field


def test_masks_of_dropout_follow_from_seed_and_step_and_no_evaluation_has_any(tmp_path, monkeypatch):
    monkeypatch.setitem(FIELDS._added, "dropped", dropped)
    configuration = small(field="dropped")
    train(configuration, tmp_path / "whole")
    with pytest.raises(KilledError):
        train(configuration, tmp_path / "parts", progress=killed_at(5))
    torch.rand(3)  # of torch's own generator nothing is read
    model = train(configuration, tmp_path / "parts").model
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    measures = [evaluate(each, configuration.task, "test", 6) for each in (model.train(), model, model.eval())]
    assert measures[0] == measures[1] == measures[2]
    assert not model.training
    evaluate(model.train(), configuration.task, "test", 6)
    assert model.training


def test_processes_draw_masks_of_their_own(monkeypatch):
    monkeypatch.setitem(FIELDS._added, "dropped", dropped)
    configuration = small(field="dropped")
    gradients = []
    for rank in (0, 1):
        run = Training(configuration.untrained_model(), configuration.task, configuration.training)
        run.processes = Processes(rank, 2)
        monkeypatch.setattr(Processes, "share", lambda *_: slice(0, 2))  # the same sequences
        run._backward([run.batch_at(0)])
        gradients.append(run.parameters[0].grad)
    assert not torch.equal(*gradients)


@pytest.mark.parametrize("room", [0, 3000])
def test_a_full_disk_is_told_and_costs_nothing_that_was_saved(tmp_path, monkeypatch, room):
    configuration = small()
    train(configuration, tmp_path / "whole")
    with pytest.raises(KilledError):
        train(configuration, tmp_path / "parts", progress=killed_at(7))
    write, left = os.write, [room]

    def scarce(file, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = write(file, bytes(data)[: left[0]])
        left[0] -= taken
        return taken

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "write", scarce)
        with pytest.raises(StoppedError, match=r"No space left .* up to step 6.*--resume$"):
            train(configuration, tmp_path / "parts")
    assert read_state(tmp_path / "parts" / "checkpoint.pt")["step"] == 6
    train(configuration, tmp_path / "parts")
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.fixture
def disk(tmp_path):
    """A file system of its own, of 200 kB."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(options):
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False)
        return done.returncode == 0

    if os.name == "nt" or os.geteuid() != 0 or not mount("size=200k"):
        pytest.skip("nothing can be mounted here")
    yield place, lambda options: mount(f"remount,{options}")
    subprocess.run(["umount", "-l", place], check=True)


def test_a_disk_that_runs_full_and_one_that_is_read_only(disk, tmp_path):
    place, remount = disk
    configuration = small("hidden=40", "checkpoint_every=1")
    train(configuration, tmp_path / "whole")

    def fill():
        for k in range(10):
            train(configuration, place / f"{k}")

    with pytest.raises(StoppedError, match=r"No space left on device"):
        fill()
    folder = max(place.iterdir(), key=lambda path: int(path.name))
    assert remount("size=2m")
    assert remount("ro")
    with pytest.raises(UsageError, match=r"cannot write to .*Read-only file system"):
        train(configuration, folder)
    assert train(configuration, place / "0").measures == read_result(tmp_path / "whole")["measures"]  # reads only
    assert remount("rw")
    train(configuration, folder)
    assert_same_run(tmp_path / "whole", folder)


# A parent that has torch already: it forks runs that kill themselves, so that a start costs milliseconds. Only system calls
# change files, so a kill at any moment is one before, half-way through or after one of them; none depends on a clock.
KILLER = '''
import os, random, signal, sys, traceback
from pathlib import Path
import torch
torch.set_num_threads(1)
from ctrnn.storage import files
from experiments.runs.checkpoints import Checkpoints
from experiments.runs.configuration import configuration_from_words
from experiments.runs.training import train

folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
draw = random.Random(seed)
configuration = configuration_from_words("recall", "gated", "euler", sys.argv[4:])

def child(folder, in_save=False, number=0, when=""):
    """Train; at the `number`-th system call, inside of saves or outside of them, it kills itself before, half-way or after."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        if number:
            calls, inside = iter(range(1, 10**9)), []
            save = Checkpoints.save
            def saving(self, state):
                inside.append(1)
                try:
                    save(self, state)
                finally:
                    inside.pop()
            Checkpoints.save = saving
            files.AT_ONCE = 2000
            def wrapped(call):
                def run(*given):
                    struck = bool(inside) == in_save and next(calls) == number
                    if struck and when == "half" and call is write:
                        call(given[0], bytes(given[1])[:len(given[1]) // 2])
                    if struck and when != "after":
                        os.kill(os.getpid(), signal.SIGKILL)
                    try:
                        return call(*given)
                    finally:  # also where it fails: an exclusive open of a lock's file that is there
                        if struck:
                            os.kill(os.getpid(), signal.SIGKILL)
                return run
            write = os.write
            for name in ("write", "fsync", "replace", "open", "close"):
                setattr(files.os, name, wrapped(getattr(os, name)))
        train(configuration, folder)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)

train(configuration, folder / "whole")  # here, so that what is imported at first use is imported once
for k in range(kills):
    code = child(folder / "parts", bool(k % 2), draw.randrange(1, 25), draw.choice(["before", "half", "after"]))
    assert code == -signal.SIGKILL, code  # it was not finished before
assert child(folder / "parts") == 0
'''


def kill_and_go_on(folder, kills, seed, steps):
    settings = [word for word in SMALL if not word.startswith("evaluate_every")] + [
        f"steps={steps}", "schedule=plateau", "evaluate_every=7", "batches=11", "clip=1", "rate=0.01"
    ]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(folder), str(kills), str(seed), *settings],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "damaged" not in done.stderr
    assert "rows before" not in done.stderr
    assert_same_run(folder / "whole", folder / "parts")
    assert len(table(folder / "parts")) == steps


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="without fork a start costs seconds")
def test_a_run_killed_a_hundred_times_ends_on_the_same_bits(tmp_path):
    kill_and_go_on(tmp_path, 100, 1, 300)  # of which 123 are taken before the last kill


@pytest.mark.slow
def test_recall_on_a_slow_clock_is_learned(tmp_path):
    """The gated cell recalls what a memoryless one cannot: most of what counts at warp 4."""
    configuration = small(
        "warp=4", "length=40", "hidden=32", "batch=32", "steps=300", "rate=0.01", "evaluation=64", "checkpoint_every=300"
    )
    outcome = train(configuration, tmp_path)
    assert outcome.measures["loss"] < 0.1
    assert outcome.measures["loss"] < 0.1 * min(configuration.task.baselines().values())
    assert outcome.measures["accuracy"] > 0.97
    exact = under(outcome.model, "exact")
    assert isinstance(exact.rnn, discretize.ContinuousRNN)
    assert exact.field is outcome.model.field
    assert isinstance(exact.field, ctrnn.VectorField)
    other = evaluate(exact, configuration.task, "test", 64)
    assert other["loss"] != outcome.measures["loss"]
