"""Tones: their frequencies, at any sampling rate, beside sines and sums written out here."""

import math

import numpy as np
import pytest
import torch

from experiments.seeds import generator
from experiments.tasks.tones import Tones


def drawn(size=64, **settings):
    return Tones(**settings).batch(size, generator(0, "tones"), "test")


def test_tones_turn_once_a_period_at_any_speed_and_no_sample_tells():
    # A tone without noise turns once a period.
    batch = drawn(T=40, deviation=1e-12, periods=(8.0, 13.0))
    xs = batch.xs[..., 0].double()
    period = torch.tensor([8.0, 13.0])[batch.targets]
    # x(k + 1) + x(k - 1) = 2 cos(2 pi / period) x(k), whatever the phase.
    assert torch.allclose(xs[2:] + xs[:-2], 2 * (2 * math.pi / period).cos() * xs[1:-1], rtol=0, atol=1e-5)
    assert xs[0].std() > 0.5  # phases differ
    # No sample tells the class.
    batch = drawn(size=20_000)
    for k in (0, 20, 47):
        of_class = [np.sort(batch.xs[k, batch.targets == c, 0].numpy()) for c in range(3)]
        quantiles = [np.quantile(one, np.linspace(0.1, 0.9, 9)) for one in of_class]
        np.testing.assert_allclose(quantiles[1:], quantiles[:1] * 2, atol=0.1)
    # Played faster the same tones come as means and slower as repeats.
    once, twice, half = (drawn(speed=s, clock_given=True) for s in (1.0, 2.0, 0.5))
    assert torch.equal(once.targets, twice.targets)
    torch.testing.assert_close(twice.xs, (once.xs[::2] + once.xs[1::2]) / 2)
    assert torch.equal(half.xs[::2], once.xs)
    assert torch.equal(half.xs[1::2], once.xs)
    assert [float(batch.ts[-1]) for batch in (once, twice, half)] == [48.0] * 3
    assert drawn(speed=2.0).ts is None
    # Blind each tone is as probable.
    count = 5
    task = Tones(periods=tuple(10.0 + 3 * k for k in range(count)))
    assert task.output_size == count
    assert task.baselines()["blind"] == pytest.approx(math.log(count))
