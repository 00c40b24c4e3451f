"""Trainings for the table of regrets: what they report beside the same model scored anew, and the table's arithmetic."""

import dataclasses
import itertools
import math

import pytest
import torch

from discretize.kernels.price import builds_at_once
from experiments.seeds import generator
from experiments.symbols.laws.equal_blocks import EqualBlocks
from experiments.symbols.trained.methods import METHODS
from experiments.symbols.trained.runs import TrainedPredictor, _TimedLoop, read_runs, trained
from experiments.symbols.trained.table import main, table

SOURCE = EqualBlocks(pairs=3, least=2, most=5)


def scored(learner, sequence, mixed):
    """Bits, symbol by symbol."""
    needed = 0.0
    for t, (p, x) in enumerate(zip(learner.logits(sequence).softmax(-1), sequence.tolist(), strict=True)):
        share = 1 / (t + 2) if mixed else 0.0
        needed -= math.log2((1 - share) * p[x].item() + share / 3)
    return needed


@pytest.mark.parametrize("method", METHODS)
def test_a_run_reports_what_its_model_needs(method, monkeypatch):
    monkeypatch.setattr("experiments.symbols.trained.runs.EVERY", math.inf)  # looked at after the first step, and at the end
    run, learner = trained(SOURCE, method, 3, 2, seed=4, seconds=1e-9)
    train, validation = SOURCE.draw(4).symbols, SOURCE.draw(4, "validation").symbols
    assert run.steps == 1
    assert not run.failed
    assert run.last == pytest.approx(scored(learner, validation, True) - 6, rel=1e-9)  # three lengths of 2 bits
    assert run.train == pytest.approx(scored(learner, train, False) - 6, rel=1e-9)
    untrained = METHODS[method].learner(3, 3, 2, SOURCE.draw(4), generator(4, "trained", method, 3, 2))
    assert scored(learner, train, False) < scored(untrained, train, False)


def test_evaluations_are_spread_over_the_time_and_the_best_and_the_last_are_told(monkeypatch):
    monkeypatch.setattr("experiments.symbols.trained.runs.EVERY", 0.25)
    ticks = itertools.count()
    monkeypatch.setattr("time.process_time", lambda: float(next(ticks)))  # a step takes a second

    class Still:
        def step(self):
            pass

    found = iter([5.0, 3.0, 4.0, 6.0])  # after the steps 1, 4, 7 and 10
    loop = _TimedLoop(Still(), 10.0, lambda: next(found))
    loop.run()
    assert (loop.step, loop.best, loop.last, next(found, None)) == (10, {"step": 4, "loss": 3.0}, 6.0, None)


@pytest.mark.parametrize("method", ["GLNN, QDH, RBPM", "LSTM, Adam 0.01"])
def test_a_prediction_knows_only_the_symbols_before(method):
    _, learner = trained(SOURCE, method, 3, 2, seed=0, seconds=1e-9)
    one, other = torch.tensor([0, 1, 2, 0]), torch.tensor([0, 1, 1, 1])
    torch.testing.assert_close(learner.logits(one)[:3], learner.logits(other)[:3], rtol=1e-6, atol=1e-6)
    assert not torch.equal(learner.logits(one)[3], learner.logits(other)[3])


def test_a_row_has_the_best_of_all_runs_and_the_medians():
    runs = [
        TrainedPredictor("EqualBlocks", "RNN, DH, FB", units, 3, 0, 1.0, 10, 0.0, best, best + 7, False)
        for units, best in zip((4, 8, 16), (9, 5, 30), strict=True)
    ]
    assert table(runs).splitlines()[-1] == "| RNN, DH, FB | 5.0 | 8 | 9 | 16 | 10 | 3 | 0 |"


def test_a_run_that_ends_in_no_number_is_counted(monkeypatch):
    def broken(self):
        raise ValueError

    monkeypatch.setattr("experiments.symbols.trained.methods.Ascending.step", broken)
    run, _ = trained(SOURCE, "GLNN, QDH, RBPM", 3, 2, seed=0, seconds=1.0)
    assert run.failed
    assert run.best == math.inf
    assert table([run]).splitlines()[-1] == "| GLNN, QDH, RBPM | inf | 3 | inf | inf | 1 | 1 | 1 |"


def test_the_command_keeps_its_runs_and_lets_a_model_speak(tmp_path, capsys):
    out, words = tmp_path / "runs.jsonl", ["blocks", "--units", "3", "--seeds", "0", "--seconds", "1e-9", "--out"]
    main([*words, str(out), "--methods", "GNN, QDH, RUOP", "GLNN, QDH, RBPM", "--sample", "20", "--undamped"])
    *printed, drawn = capsys.readouterr().out.split("\n", 4)
    assert [line.split(" | ")[0] for line in printed[2:4]] == ["| GNN, QDH, RUOP", "| GLNN, QDH, RBPM"]
    assert len(drawn) == 20 + 1
    assert set(drawn) <= set("ab\n")
    runs = read_runs(out)
    assert [dataclasses.replace(run, damped=True) != run for run in runs] == [True, True]
    main(["--show", str(out)])
    assert capsys.readouterr().out.splitlines() == printed
    with pytest.raises(SystemExit):
        main(["blocks", "--methods", "RNN, Adam 0.01", "--sample", "20"])
    with pytest.raises(SystemExit):
        main([])
    assert "--sample is for discretize.sequences.SymbolModel" in capsys.readouterr().err


@pytest.mark.parametrize("method", ["LSTM, Adam 0.01", "gated, Adam 0.01"])
def test_layers_have_their_kernel_from_the_first_step(method):
    """Steps before it was built would round otherwise, and end elsewhere."""
    learner = METHODS[method].learner(3, 4, 2, EqualBlocks(pairs=2, least=2, most=3).draw(0), generator(0))
    at_once = []
    learner.layer.register_forward_pre_hook(lambda *_: at_once.append(builds_at_once()))
    learner.step()
    assert at_once == [True]
