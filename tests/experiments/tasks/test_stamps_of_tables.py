"""Times of tables: how long the row acts whose interval they leave open, and times that the file has rounded."""

import warnings

import numpy as np
import pytest
import torch

from discretize import StampWarning
from experiments.runs.configuration import configuration
from experiments.tasks.recorded.table import TableTask


def write(path, times):
    rng = np.random.default_rng(0)
    np.savez(path, t=times, x=rng.normal(size=len(times)), y=rng.normal(size=len(times)))
    return path


def test_the_row_whose_interval_is_open_acts_for_the_median_time_between_rows(tmp_path):
    # Rows 10 s apart, in a model that counts hours.
    path = write(tmp_path / "table.npz", 10.0 * np.arange(60) + 1e6)
    for hold in ("forward", "backward"):
        settings = {"data": str(path), "time": "t", "target": ("y",), "unit": 3600.0, "hold": hold, "length": 20}
        model = configuration("csv", "gru", "euler", **settings).untrained_model()
        assert model.rnn.hold.open_interval == pytest.approx(10 / 3600)
    assert TableTask(str(path), time="t", target="y").open_interval == 1.0  # in units of the median


@pytest.mark.parametrize(("dtype", "rounded"), [(np.float32, True), (np.float64, False), (np.int64, False)])
def test_times_that_a_file_has_rounded_are_said(tmp_path, dtype, rounded):
    path = write(tmp_path / "table.npz", (150.0 * np.arange(60) + 1.7e9).astype(dtype))
    task = TableTask(str(path), time="t", target="y")
    if rounded:
        with pytest.warns(StampWarning, match=r"t` is in torch.float32, which at 2e\+09 tells times apart that differ by 128"):
            assert task.input_size
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert task.input_size
    assert torch.is_tensor(task.batch(1, torch.Generator()).ts)


@pytest.mark.filterwarnings("ignore::discretize.StampWarning")  # of float16
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8, np.float16, np.float32])
def test_times_are_told_apart_where_the_dtype_of_a_file_does_not_hold_their_differences(tmp_path, dtype):
    least, most = (np.iinfo(dtype).min, np.iinfo(dtype).max) if np.issubdtype(dtype, np.integer) else (-1000, 1000)
    times = np.linspace(least, most, 100).astype(dtype)
    task = TableTask(str(write(tmp_path / "table.npz", times)), time="t", target="y", split="time", unit=1.0)
    found = task._found.parts["train"][0].ts
    np.testing.assert_array_equal(found, times[: len(found)].astype(np.float64) - float(times[0]))
