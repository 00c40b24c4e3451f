"""What is standardized, and what counts as constant: relative to a column's own numbers, in any units."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from experiments.data.scales import scale
from experiments.tasks.recorded.patients import _scale
from experiments.tasks.recorded.recordings import scale_of
from experiments.usage import UsageError

ROUNDED = torch.tensor([1.0, 1.0 + 2.0**-52], dtype=torch.float64).repeat(50)  # one number, and what rounding makes of it


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_features_are_standardized_in_any_units_and_roundings_are_not(size):
    values = torch.randn(100, 1, dtype=torch.float64)
    assert_close(scale_of(values * size, "folder")[1], values.std(0, correction=0) * size)
    with pytest.raises(UsageError, match="feature 1 is the same in every sample"):
        scale_of(torch.cat([values, ROUNDED[:, None]], 1) * size, "folder")
    _, deviation, least, most = _scale(torch.cat([values, ROUNDED[:, None]], 1) * size)
    assert float(deviation[1]) == 1.0
    assert float(deviation[0]) == pytest.approx(float((values * size).clamp(least[0], most[0]).std(correction=0)))


def test_a_column_that_counts_seconds_since_1970_is_no_constant():
    seconds = 1.7e9 + np.arange(3.0)
    assert scale(seconds)[1] == pytest.approx(np.std([0, 1, 2]), rel=1e-6)
    assert scale(np.full(100, 0.1))[1] == scale(ROUNDED.numpy())[1] == 1.0


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_a_deviation_is_judged_beside_its_own_values(size):
    assert scale(size * np.array([1.0, 3.0])) == pytest.approx((2 * size, size), rel=1e-12)
    assert scale(size * ROUNDED.numpy())[1] == 1.0
