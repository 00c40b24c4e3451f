"""The two-sequence problem: its sequences, and its baselines beside quadrature and beside what they say of drawn sequences."""

import math

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

from experiments.seeds import generator
from experiments.tasks.two_sequence import TwoSequence


@pytest.mark.parametrize("task", [TwoSequence(), TwoSequence(T=40, signal=7, deviation=0.3)])
def test_the_class_is_the_sign_of_the_mean_of_the_first_samples_and_the_rest_is_noise(task):
    batch = task.batch(4000, generator(0))
    sign = 2.0 * batch.targets - 1
    noise = batch.xs[..., 0].clone()
    noise[: task.signal] -= sign
    bound = 5 * task.deviation / math.sqrt(4000)  # of 5 standard errors, each of some hundred means
    assert float(noise.mean(1).abs().max()) < bound
    assert float((noise.std(1) / task.deviation - 1).abs().max()) < 0.08
    assert float((noise * sign).mean(1).abs().max()) < bound
    assert abs(float(sign.mean())) < 0.08


def test_where_the_last_sample_carries_the_signal_it_is_worth_one_sample():
    whole, one = TwoSequence(T=5, signal=5, deviation=2.0), TwoSequence(T=1, signal=1, deviation=2.0)
    assert whole.baselines()["memoryless"] == one.baselines()["best"] == one.baselines()["memoryless"] < math.log(2)
    assert whole.baseline_accuracies()["memoryless"] == pytest.approx(norm.cdf(0.5), rel=1e-13)


@pytest.mark.parametrize(
    "task", [TwoSequence(), TwoSequence(T=20, signal=3, deviation=2.0), TwoSequence(T=9, signal=1, deviation=0.5)]
)
def test_the_best_predictor_is_right_and_loses_as_often_as_is_said(task):
    n, spread = task.signal, task.deviation
    accuracy = task.baseline_accuracies()
    assert accuracy["best"] == pytest.approx(norm.cdf(math.sqrt(n) / spread), rel=1e-13)

    def surprise(total):  # of the sum of the first samples, where the class is 1
        return norm.pdf(total, n, math.sqrt(n) * spread) * math.log1p(math.exp(-2 * total / spread**2))

    around = [n - 10 * math.sqrt(n) * spread, n + 10 * math.sqrt(n) * spread]
    assert task.baselines()["best"] == pytest.approx(quad(surprise, *around, epsabs=1e-14, limit=200)[0], rel=1e-6)
    assert task.baselines()["memoryless"] == pytest.approx(math.log(2), rel=1e-12)
    assert accuracy["memoryless"] == 0.5
    batch = task.batch(20_000, generator(1))
    odds = 2 * batch.xs[:n, :, 0].sum(0) / spread**2
    found = task.measures(torch.stack([-odds / 2, odds / 2], -1)[None].expand(task.T, -1, -1), batch)
    for said, measured in ((accuracy["best"], found["accuracy"]), (task.baselines()["best"], found["loss"])):
        assert measured == pytest.approx(said, abs=5 * 0.5 / math.sqrt(20_000))
