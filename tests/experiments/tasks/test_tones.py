"""Tones: their frequencies, at any sampling rate, beside sines and sums written out here."""

import math

import numpy as np
import pytest
import torch

from experiments.seeds import generator
from experiments.tasks.tones import Tones


def drawn(size=64, **settings):
    return Tones(**settings).batch(size, generator(0, "tones"), "test")


def test_a_tone_without_noise_turns_once_a_period():
    batch = drawn(T=40, deviation=1e-12, periods=(8.0, 13.0))
    xs = batch.xs[..., 0].double()
    period = torch.tensor([8.0, 13.0])[batch.targets]
    # x(k + 1) + x(k - 1) = 2 cos(2 pi / period) x(k), whatever the phase.
    assert torch.allclose(xs[2:] + xs[:-2], 2 * (2 * math.pi / period).cos() * xs[1:-1], rtol=0, atol=1e-5)
    assert xs[0].std() > 0.5  # phases differ


def test_no_sample_tells_the_class():
    batch = drawn(size=20_000)
    for k in (0, 20, 47):
        of_class = [np.sort(batch.xs[k, batch.targets == c, 0].numpy()) for c in range(3)]
        quantiles = [np.quantile(one, np.linspace(0.1, 0.9, 9)) for one in of_class]
        np.testing.assert_allclose(quantiles[1:], quantiles[:1] * 2, atol=0.1)


def test_played_faster_the_same_tones_come_as_means_and_slower_as_repeats():
    once, twice, half = (drawn(speed=s, clock_given=True) for s in (1.0, 2.0, 0.5))
    assert torch.equal(once.targets, twice.targets)
    torch.testing.assert_close(twice.xs, (once.xs[::2] + once.xs[1::2]) / 2)
    assert torch.equal(half.xs[::2], once.xs)
    assert torch.equal(half.xs[1::2], once.xs)
    assert [float(batch.ts[-1]) for batch in (once, twice, half)] == [48.0] * 3
    assert drawn(speed=2.0).ts is None


def test_blind_each_tone_is_as_probable():
    count = 5
    task = Tones(periods=tuple(10.0 + 3 * k for k in range(count)))
    assert task.output_size == count
    assert task.baselines()["blind"] == pytest.approx(math.log(count))
