"""How far back gradients reach: norms whose law is known, what is trained, and verdicts as the numbers say."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from fake_studies import draws, records_of, tables_of

from experiments.reports.spreads import NotEnoughError
from experiments.studies.claims.ohno.gradients import IMAGES, LEAKY, LSTM, RECORDINGS, SLOW, reach
from experiments.studies.registry import study_named
from experiments.studies.results import Results
from experiments.tasks.warps.recall import Recall


@pytest.fixture
def study(tmp_path, monkeypatch):
    for name in ("mnist", "uci_har"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("CTRNN_DATA", str(tmp_path))
    return study_named("ohno-gradients")


def test_the_reach_of_norms_is_that_of_their_law():
    n = torch.arange(100.0, dtype=torch.float64).flip(0)[:, None]  # samples from the last one back
    jitter = 1 + 0.01 * torch.rand(100, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fast = reach(torch.exp(-0.1 * n) * jitter)
    assert (fast["law"], fast["large"]) == ("exponential", pytest.approx(0.24, abs=0.011))  # ln 10 / 0.1 = 23 samples
    assert fast["fall"] == pytest.approx(0.1 * 90 / math.log(10), rel=0.01)
    slow = reach((1 + n) ** -0.5 * jitter)
    assert slow["law"] == "polynomial"
    assert slow["large"] == pytest.approx(0.99, abs=0.011)  # 1 + n = 100 at a tenth
    assert reach(torch.exp(0.1 * n) * jitter)["law"] == "growing"
    one = torch.ones(20, dtype=torch.float64)
    one[0] = 1e6  # a sequence whose loss is far larger weighs no more
    assert reach(torch.exp(-0.1 * n) * jitter * one)["large"] == fast["large"]
    mixed = reach(torch.cat([torch.exp(-0.1 * n).expand(-1, 19), 1e6 * torch.ones(100, 1)], 1))
    assert (mixed["fall of the mean"], mixed["large of the mean"]) == (pytest.approx(0, abs=1e-5), 1.0)  # and is the mean
    assert mixed["fall"] == pytest.approx(0.95 * 0.1 * 90 / math.log(10), rel=0.01)
    assert fast["wide"] == pytest.approx(0.47, abs=0.011)


def test_a_run_goes_on_from_the_epoch_that_was_measured(study, tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.studies.claims.ohno.gradients.EPOCHS", (1, 2))
    run = next(run for run in study.runs("smoke") if run.point["model"] == LSTM)
    task, training = Recall(warp=2, length=8), replace(run.configuration.training, steps=6, batches=3, evaluate_every=3)
    training = replace(training, batch=4, evaluation=4)
    run = replace(run, configuration=replace(run.configuration, task=task, training=training))
    measured = []

    def interrupted(given, model, epoch):
        if len(measured) == 2 and not stopped:
            stopped.append(epoch)
            raise KeyboardInterrupt
        measured.append(epoch)
        return [{"epoch": epoch, "weight": sum(p.sum().item() for p in model.parameters())}]

    monkeypatch.setattr(study, "_measured", interrupted)
    stopped = [0]
    whole = study.carry_out(run, tmp_path / "whole").rows
    measured.clear()
    stopped.clear()
    with pytest.raises(KeyboardInterrupt):
        study.carry_out(run, tmp_path / "parts")
    assert study.carry_out(run, tmp_path / "parts").rows == whole
    assert (stopped, measured) == ([2], [0, 1, 0, 2])
    assert len({row["weight"] for row in whole}) == 3


def test_the_runs_are_the_figures(study):
    runs = study.runs("small")
    assert len(runs) == 5 * 5 + 3
    for run in runs:
        given, network = run.configuration, run.configuration.field_settings
        assert (given.training.schedule, given.training.rate, given.training.clip) == ("constant", 5e-3, 5.0)
        assert given.training.steps == (5 * 500 if run.point["model"] == IMAGES else 60 * 59)
        if run.point["model"] in (*LEAKY.values(), *SLOW.values()):
            c = 25 if "c25" in run.point["model"] else 5
            assert (network.exponent, network.alpha * 128) == (2.0 * (run.point["model"] in SLOW.values()), pytest.approx(c))
        else:
            assert given.field == "lstm"


def measured(gain, trained):
    def of(run):
        model, noise = run.point["model"], 0.01 * np.random.default_rng(run.point["seed"]).normal()
        rows = [{"what": "norm", "epoch": k, "t": t, "norm": 0.1 * t} for k in (0, 1, 10, 60) for t in (4, 8)]
        for k in (0, 1, 5, 10, 30, 60)[: 3 if model == IMAGES else 6]:
            fall = 6.0 / (1 + 0.1 * k) + noise - gain * (model in SLOW.values()) * (k < 60)
            law = "exponential" if k == 0 else trained(run.point["seed"])
            wide = 1.0 if run.point["seed"] < (4 if model in SLOW.values() else 2) else 0.5  # the same two numbers
            row = {
                "fall": fall,
                "fall of the mean": fall - 1,
                "large": 0.3,
                "wide": wide,
                "law": law,
                "bend": 0.0,
                "misfit": 0.1,
            }
            rows.append({"what": "reach", "epoch": k, **row})
        return {"accuracy": 0.9}, rows

    return of


@pytest.mark.parametrize(
    ("gain", "trained", "answers"),
    [
        (2.0, lambda seed: "polynomial", ["yes"] * 6 + ["yes"] * 3 + ["no"]),
        (0.0, lambda seed: "exponential", ["yes", "no", "yes"] * 2 + ["no"] * 4),
        (-2.0, lambda seed: "undecided", ["yes", "undecided", "yes"] * 2 + ["no"] * 4),
        (2.0, lambda seed: "exponential" if seed < 2 else "polynomial", ["yes", "undecided", "yes"] * 2 + ["yes"] * 3 + ["no"]),
    ],
    ids=["slow and farther", "fast and alike", "undecided and nearer", "few seeds fast"],
)
def test_the_verdict_on_gradients_follows_laws_and_falls(study, gain, trained, answers):
    results = Results(records_of(study, "small", measured(gain, trained)))
    assert [part.answer for part in study.verdict(results).parts] == answers


def test_tables_and_figures_of_gradients_are_of_laws_and_falls_by_epoch(study):
    results = Results(records_of(study, "small", measured(2.0, lambda seed: "exponential" if seed < 2 else "polynomial")))
    text = tables_of(study, results)
    assert re.search(r"\| 25 \| 5 \| 10 \| 0 \| 0.20 \(-\S+ to \S+\) \| -2.00 \(-2.01 to -1.99\) \| -2.00", text)
    assert "| LSTM, recordings | exponential, κ 0 | 0.100 | polynomial, exponential, κ 0 | 0.100 | 60 |" in text
    assert [ax.get_title(loc="left") for ax in draws(study.figures["norms"], results).axes] == list(RECORDINGS.values())
    with pytest.raises(NotEnoughError, match=LSTM):
        study.verdict(Results(one for one in results.records if one["point"]["model"] != LSTM))
