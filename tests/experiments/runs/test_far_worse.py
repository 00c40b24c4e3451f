"""A run that ends far worse than a guess without memory says so; chance in its test does not."""

import json
import math
from dataclasses import dataclass

import pytest
import torch
from torch.testing import assert_close

from experiments.__main__ import main
from experiments.runs.far_worse import _standard_error, far_worse
from experiments.seeds import generator
from experiments.tasks.adding import Adding
from experiments.tasks.copying import Copy
from experiments.tasks.next_character import NextCharacter
from experiments.tasks.task import Batch, NumbersAtTheEnd
from experiments.tasks.warps.recall import AnyWarp

SMALL = ["hidden=4", "batch=4", "evaluation=40", "threads=1"]


def trained(folder, task, *settings):
    words = ["train", "--task", task, "--field", "plain", "--integrator", "euler", "--out", str(folder), "--resume"]
    return main([*words, "--set", *SMALL, *settings])


def test_a_run_whose_rate_is_too_large_says_so_last_with_the_numbers_and_in_its_record(tmp_path, capsys):
    diverged = ["T=10", "steps=3", "optimizer=adam", "rate=3"]
    assert trained(tmp_path, "adding", *diverged) == 0
    said = capsys.readouterr()
    result = json.loads((tmp_path / "result.json").read_text())
    last = said.err.splitlines()[-1]
    assert last == f"ctrnn train: {result['far_worse']}"
    guess, loss = Adding(T=10).baselines()["memoryless"], result["measures"]["loss"]
    assert loss > 1.5 * guess
    assert f"its test loss is {loss:.4g}, with a standard error of " in last
    assert f"the predictor `memoryless` loses {guess:.4g}" in last
    assert all(words in last for words in ("--set lr=", "--set clip=1", "--set steps=", "--out DIR"))
    assert trained(tmp_path, "adding", *diverged) == 0  # finished, and still what it is
    assert capsys.readouterr().err.splitlines()[-1] == last


def test_a_run_that_has_learned_says_nothing(tmp_path, capsys):
    assert trained(tmp_path, "adding", "T=10", "steps=100", "optimizer=adam", "rate=0.02") == 0
    assert capsys.readouterr().err == ""
    assert "far_worse" not in json.loads((tmp_path / "result.json").read_text())


def test_a_guess_that_is_as_good_as_the_task_allows_is_never_far_worse_by_chance():
    # Tests of 20 sequences, whose squared errors are those of the guess: 1.5 times as much in one of twelve.
    losses = torch.randn(2000, 20, generator=generator(0)).square()
    assert (losses.mean(1) > 1.5).float().mean() > 0.05
    assert not any(says(row.tolist()) for row in losses[losses.mean(1) > 1.5])


@dataclass(frozen=True)
class Errors(NumbersAtTheEnd):
    """One number, whose outputs below are the errors themselves."""

    known: tuple[tuple[str, float], ...] = ()
    input_size, output_size = 1, 1

    def drawn(self, size, generator, split):
        return Batch(torch.zeros(1, size, 1), torch.zeros(size, 1))

    def baselines(self):
        return dict(self.known)


def answered(*losses):
    """One batch in which each sequence has that loss."""
    return [(Batch(torch.zeros(1, len(losses), 1), torch.zeros(len(losses), 1)), torch.tensor(losses).sqrt()[None, :, None])]


def says(losses, known=(("memoryless", 1.0),)):
    return far_worse(Errors(known), sum(losses) / len(losses), answered(*losses))


@pytest.mark.parametrize(
    ("losses", "known", "said"),
    [
        ([1.4] * 50, {"memoryless": 1.0}, False),  # not 1.5 times as much, for sure as it is
        ([2.0] * 50, {"memoryless": 1.0}, True),
        ([0.0, 0.0, 0.0, 8.0], {"memoryless": 1.0}, False),  # 2, with a standard error of 2
        ([0.0, 0.0, 0.0, 900.0], {"memoryless": 1.0}, True),  # 225, and a standard error of 225
        ([2.0], {"memoryless": 1.0}, False),  # one sequence tells no error
        ([101.0], {"memoryless": 1.0}, True),
        ([2.0] * 50, {}, False),
        ([2.0] * 50, {"memoryless": 0.0}, False),
        ([2.0] * 50, {"memoryless": 1.0, "constant": 1.9}, True),
        ([2.0] * 50, {"best": 0.1, "blind": 1.9}, False),
        ([2.0] * 50, {"best": 0.1, "blind": 1.0}, True),
    ],
)
def test_chance_is_no_reason_and_no_baseline_says_nothing(losses, known, said):
    assert bool(says(losses, tuple(known.items()))) == said


@pytest.mark.parametrize("task", [AnyWarp(length=7, warp=4, first=False), Copy(T=3, count=2), NextCharacter(length=5)])
def test_the_standard_error_is_that_of_a_mean_weighted_by_what_counts(task):
    batch = task.batch(6, generator(0))
    outputs = torch.randn(*batch.xs.shape[:2], task.output_size)
    parts = [task.part(batch, slice(k, k + 1)) for k in range(6)]
    weights = torch.tensor([task.weight(part) for part in parts])
    losses = torch.tensor([float(task.loss(outputs[:, k : k + 1], part)) for k, part in enumerate(parts)])
    mean = (weights * losses).sum() / weights.sum()
    assert_close(mean.item(), float(task.loss(outputs, batch)))
    variance = (weights * (losses - mean)).square().sum() / weights.sum() ** 2 * 6 / 5
    halves = [(task.part(batch, half), outputs[:, half]) for half in (slice(0, 2), slice(2, 6))]
    assert _standard_error(task, halves) == pytest.approx(variance.sqrt().item())
    if len(set(weights.tolist())) == 1:
        assert _standard_error(task, halves) == pytest.approx((losses.std() / math.sqrt(6)).item())
