"""Trajectories as tables: every state that there is in its place, and none that there is not."""

import math
import pickle

import numpy as np
import pytest
import torch

import ctrnn
import discretize
from discretize import Event, ExponentialEuler, integrate


def decay(t, h):
    return -h


def solved(ts=(0.0, 1.0, 2.5), batch=3, width=2, dtype=torch.float32):
    h0 = 1 + torch.arange(batch * width, dtype=dtype).reshape(batch, width)
    return integrate(decay, None, h0, torch.as_tensor(ts, dtype=torch.float64), method="rk4")


def ragged(stamps):
    rnn = discretize.ContinuousRNN(ctrnn.gated(1, 2, generator=torch.Generator().manual_seed(0)), method="rk4")
    x = torch.randn(5, 3, 1, generator=torch.Generator().manual_seed(1))
    ts = torch.tensor([[0.0, 1.0, 2.0]] * 6) + torch.arange(6.0)[:, None] * torch.tensor([1.0, 0.5, 2.0]) if stamps else None
    return rnn.trajectory(x, ts=ts, lengths=torch.tensor([5, 3, 1])), [6, 4, 2]


@pytest.fixture
def xarray():
    return pytest.importorskip("xarray", reason="pip install '.[xarray]'")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_table_has_every_state_to_the_bit_at_its_sample_and_time(dtype):
    trajectory = solved(dtype=dtype)
    frame = trajectory.to_pandas()
    assert list(frame) == ["h[0]", "h[1]"]
    assert frame.index.names == ["sample", "time"]
    assert frame.index.get_level_values("time").dtype == np.float64
    back = torch.from_numpy(frame.to_numpy().reshape(3, 3, 2).copy()).transpose(0, 1)
    assert back.dtype == dtype
    assert back.equal(trajectory.hs)
    for k in range(3):
        assert frame.loc[k].index.tolist() == [0.0, 1.0, 2.5]


def test_backwards_in_time_rows_are_in_the_order_of_the_solve():
    frame = solved(ts=[2.0, 0.5, 0.0]).to_pandas()
    assert frame.loc[1].index.tolist() == [2.0, 0.5, 0.0]
    assert frame.loc[1, "h[0]"].tolist() == pytest.approx([3, 3 * math.exp(1.5), 3 * math.exp(2)], rel=0.1)  # one step each


@pytest.mark.parametrize("stamps", [False, True])
def test_a_sequence_that_is_over_has_no_rows_beyond_its_end(stamps):
    trajectory, counts = ragged(stamps)
    frame = trajectory.to_pandas()
    assert frame.groupby("sample").size().tolist() == counts
    for k, count in enumerate(counts):
        part = frame.loc[k]
        assert part.index.tolist() == trajectory.ts[:count, k].tolist()
        assert torch.from_numpy(part.to_numpy().copy()).equal(trajectory.hs[:count, k].detach())


def test_a_state_that_failed_is_missing_and_no_number():
    h0, times = torch.tensor([[0.1], [1.0]]), torch.tensor([0.0, 0.5, 2.0])  # h^2 is infinite at t = 1 from 1 on
    trajectory = integrate(lambda t, h: h * h, None, h0, times, on_failure="keep", max_num_steps=50)
    assert trajectory.to_pandas()["h[0]"].isna().tolist() == [False] * 5 + [True]


def test_events_stand_before_the_states_of_their_time_and_end_what_they_end():
    fires = Event(lambda t, h: h[..., 0] - 2, reset=lambda t, h: 0 * h)
    stops = Event(lambda t, h: t[..., 0] - 2.5 + 0 * h[..., 0], terminal=True)
    h0 = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    times = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0])
    trajectory = integrate(lambda t, h: 0 * h + 1, None, h0, times, events=[fires, stops], method="rk4")
    for one in (trajectory, pickle.loads(pickle.dumps(trajectory))):
        frame = one.to_pandas(["v"])
        assert list(frame) == ["event", "v"]
        first, second = frame.loc[0], frame.loc[1]
        assert first.index.tolist() == pytest.approx([0.0, 1.0, 2.0, 2.0, 2.5])
        assert second.index.tolist() == pytest.approx([0.0, 1.0, 1.0, 2.0, 2.5])
        assert first["v"].tolist() == pytest.approx([0.0, 1.0, 2.0, 0.0, 0.5])  # as it fires, and from where it goes on
        assert first["event"].fillna(-1).tolist() == [-1, -1, 0, -1, 1]
    assert "event" in integrate(decay, None, h0, times, events=fires).to_pandas()  # asked for, and none was crossed


def test_backwards_in_time_too_a_sample_ends_at_its_event():
    stops = Event(lambda t, h: h[..., 0] - 2.5, terminal=True)
    times = torch.tensor([4.0, 3.0, 2.0, 1.0, 0.0])
    trajectory = integrate(lambda t, h: 0 * h + 1, None, torch.tensor([[4.0], [6.0]]), times, events=stops, method="rk4")
    frame = trajectory.to_pandas(["v"])
    assert frame.loc[0].index.tolist() == pytest.approx([4.0, 3.0, 2.5])
    assert frame.loc[1].index.tolist() == pytest.approx([4.0, 3.0, 2.0, 1.0, 0.5])
    assert frame["v"].tolist() == pytest.approx([4.0, 3.0, 2.5, 6.0, 5.0, 4.0, 3.0, 2.5])


def test_parts_of_a_state_are_columns_by_name_and_place():
    starts = torch.ones(2, 1), torch.arange(12.0).reshape(2, 2, 3)
    trajectory = integrate(lambda t, h: (-h[0], 0 * h[1]), None, starts, torch.tensor([0.0, 1.0]), method="rk4")
    frame = trajectory.to_pandas(["v", "w"])
    assert list(frame) == ["v[0]", "w[0,0]", "w[0,1]", "w[0,2]", "w[1,0]", "w[1,1]", "w[1,2]"]
    assert frame["w[1,0]"].tolist() == [3, 3, 9, 9]
    assert list(trajectory.to_pandas())[:2] == ["h0[0]", "h1[0,0]"]


def test_a_run_of_a_cell_in_bfloat16_with_a_graph_is_a_table_too():
    cell = discretize.DiscreteCell(ctrnn.gated(1, 2, dtype=torch.bfloat16), step=ExponentialEuler())
    trajectory = discretize.unroll(cell, torch.ones(3, 2, 1, dtype=torch.bfloat16))
    frame = trajectory.to_pandas()
    assert torch.from_numpy(frame.loc[1].to_numpy().copy()).equal(trajectory.hs[:, 1].detach().float())


@pytest.mark.parametrize("names", [["v"], ["v", "v"], ["v", "event"], "vw", ["v", "w", "x"], 2])
def test_names_are_as_many_as_units(names):
    with pytest.raises(ValueError, match="one name for each unit of the state, 2"):
        solved().to_pandas(names)


@pytest.mark.parametrize("stamps", [False, True])
def test_a_data_set_has_the_rows_of_the_table_and_nan_elsewhere(stamps, xarray):
    trajectory, counts = ragged(stamps)
    data, frame = trajectory.to_xarray(), trajectory.to_pandas()
    assert data["h"].dims == ("step", "sample", "unit")
    assert data["h"].dtype == trajectory.hs.numpy(force=True).dtype
    assert data["time"].notnull().sum("step").values.tolist() == counts
    for k, count in enumerate(counts):
        assert np.array_equal(data["h"].values[:count, k], frame.loc[k].to_numpy())
        assert np.isnan(data["h"].values[count:, k]).all()
        assert data["time"].values[:count, k].tolist() == frame.loc[k].index.tolist()


def test_a_data_set_of_shared_times_is_read_back_from_its_file_with_names_and_statistics(xarray):
    trajectory = solved()
    data = trajectory.to_xarray(["v", "w"])
    assert data["h"].dims == ("time", "sample", "unit")
    assert data["h"].sel(time=1.0, sample=2, unit="w").item() == trajectory.hs[1, 2, 1].item()
    back = xarray.load_dataset(bytes(data.to_netcdf(engine="scipy")), engine="scipy")
    assert np.array_equal(back["h"].values, trajectory.hs.numpy())
    assert (back.attrs["status"], back.attrs["method"], back.attrs["nfe"]) == ("completed", "rk4", trajectory.stats["nfe"])


def test_a_data_set_has_events_and_parts(xarray):
    fires = Event(lambda t, h: h[0][..., 0] - 2, reset=lambda t, h: (0 * h[0], h[1]))
    starts = torch.tensor([[0.0], [1.0]], dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)
    trajectory = integrate(
        lambda t, h: (0 * h[0] + 1, 0 * h[1]), None, starts, torch.tensor([0.0, 1.5, 2.5]), events=fires, method="rk4"
    )
    data = trajectory.to_xarray(["v", "w"])
    assert data["v"].dims == ("time", "sample", "v_axis0")
    assert data["w"].sizes["w_axis0"] == 3
    assert data["event_sample"].values.tolist() == [0, 1]
    assert data["event_time"].values.tolist() == pytest.approx([2.0, 1.0])
    assert data["v_at_event"].values.tolist() == [[pytest.approx(2.0)]] * 2
    assert data["w_at_event"].dims == ("crossing", "w_axis0")
