"""A sequence that begins later than others is solved as it is alone."""

import pytest
import torch
from torch.testing import assert_close

import ctrnn
from discretize import integrate


@pytest.mark.parametrize("late", [1e-6, 1.0, 30.0])
def test_a_sample_that_begins_later_takes_the_steps_that_it_takes_alone(late):
    field = ctrnn.gated(1, 3, generator=torch.Generator().manual_seed(0))
    x = torch.randn(2, 2, 1, generator=torch.Generator().manual_seed(1))
    h0 = torch.zeros(2, 3)
    # Sample 1 waits at its start while sample 0 is solved over another unit of time.
    ts = torch.tensor([[0.0, 0.0], [late, 0.0], [late * 2, 1.0]])
    solve = {"method": "dopri5", "rtol": 1e-6, "atol": 1e-9, "fused": False}
    both = integrate(field, ctrnn.HeldPath(x, torch.tensor([[0.0, 0.0], [late, 0.5], [late * 2, 1.0]])), h0, ts, **solve)
    alone = integrate(field, ctrnn.HeldPath(x[:, 1:], torch.tensor([0.0, 0.5, 1.0])), h0[1:], torch.tensor([0.0, 1.0]), **solve)
    assert both.stats["steps_of_samples"][1] == alone.stats["steps_of_samples"][0]
    assert_close(both.hs[-1, 1], alone.hs[-1, 0], rtol=0, atol=1e-14)
