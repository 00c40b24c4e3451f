"""Unrolled cells against a loop of torch's."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import ctrnn
from discretize import DiscreteCell, unroll


def test_unrolling_starts_at_h0_and_is_the_loop_one_would_write():
    theirs, xs, h = nn.GRUCell(2, 3), torch.randn(6, 4, 2), torch.randn(4, 3)
    trajectory = unroll(DiscreteCell(ctrnn.from_torch(theirs)), xs, h)
    expected = [h]
    for x in xs:
        expected.append(theirs(x, expected[-1]))
    assert_close(trajectory.hs, torch.stack(expected), rtol=0, atol=1e-12)
    assert_close(trajectory.ts, torch.arange(7.0))
    assert trajectory.status == "completed"
    assert trajectory.stats["nfe"] == trajectory.stats["num_steps"] == 6


def test_times_count_in_steps_of_the_cell():
    trajectory = unroll(DiscreteCell(ctrnn.plain(1, 2), dt=0.25), torch.randn(4, 1, 1))
    assert_close(trajectory.ts, torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0]))


def test_a_sequence_of_one_sample_and_a_strided_one_are_fine():
    cell = DiscreteCell(ctrnn.lstm(2, 3))
    xs = torch.randn(4, 2, 5).transpose(1, 2)
    assert not xs.is_contiguous()
    assert_close(unroll(cell, xs).hs, unroll(cell, xs.contiguous()).hs, rtol=0, atol=1e-14)
    assert unroll(cell, xs[:1]).hs.shape == (2, 5, 6)


def test_float32_stays_float32():
    cell = DiscreteCell(ctrnn.gated(2, 3, dtype=torch.float32))
    assert unroll(cell, torch.randn(4, 1, 2, dtype=torch.float32)).hs.dtype == torch.float32


def test_what_does_not_fit_is_refused_by_name():
    cell = DiscreteCell(ctrnn.plain(2, 3))
    with pytest.raises(TypeError, match=r"`cell` must be a discretize\.DiscreteCell, got Relaxation"):
        unroll(ctrnn.plain(2, 3), torch.zeros(4, 1, 2))
    with pytest.raises(ValueError, match=r"`xs` must be \(time, batch, feature\)"):
        unroll(cell, torch.zeros(4, 2))
    with pytest.raises(ValueError, match="`xs` is empty"):
        unroll(cell, torch.zeros(0, 1, 2))
    with pytest.raises(ValueError, match="`xs` must be finite, got nan at index"):
        unroll(cell, torch.full((4, 1, 2), torch.nan))
    with pytest.raises(ValueError, match=r"`h0` must have shape \(batch, state\) = \(1, 3\)"):
        unroll(cell, torch.zeros(4, 1, 2), torch.zeros(2, 3))
