"""Fixed and slow points from states of trajectories: closed forms, brute force; and states seen from few axes."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import Flow, Map, fixed_points, lyapunov, participation_dimension, state_space

CUBES = Flow(lambda _, h: h - h**3)


def on_a_line(slope, dtype=torch.float64):
    """Eight units that fall onto a line, along which they drift with that slope, and on towards 0 beyond 1."""
    line = torch.linalg.qr(torch.randn(8, 1, dtype=dtype))[0]

    def flow(_, h):
        along = h @ line
        return along @ line.mT - h + (slope - 3 * torch.relu(along.abs() - 1) * along.sign()) @ line.mT

    return Flow(flow), line


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_all_points_of_three_bistable_units_are_found_and_said(dtype):
    found = fixed_points(CUBES, 1.2 * torch.randn(50, 6, 3, dtype=dtype), slow=0.05)
    wanted = torch.tensor(list(itertools.product([-1.0, 0.0, 1.0], repeat=3)), dtype=dtype)
    assert len(found) == 27
    assert bool(found.fixed.all())
    assert_close(torch.cdist(wanted, found.h).amin(1), torch.zeros(27, dtype=dtype), rtol=0, atol=1e-5)
    unstable = (found.h.abs() < 0.5).sum(1)
    lines = str(found).splitlines()
    assert lines[0] == "27 fixed points, 8 of them stable"
    assert lines[-1] == "and 3 more"
    for k, line in enumerate(lines[2:-1]):
        count = int(unstable[k])
        kind = "stable node, 0.5" if not count else ("saddle" if count < 3 else "unstable node") + f", {count} unstable direction"
        assert kind in line
        assert ["-2, -2", "1, -2", "1, 1"][min(count, 2)] in line
    assert_close(found.time_constants.sort(-1).values[unstable == 1], torch.tensor([[0.5, 0.5, 1.0]] * 12, dtype=dtype))


def test_points_that_turn_have_a_period_in_flows_and_in_maps():
    turn = Flow(lambda _, h: torch.stack([-0.5 * h[:, 0] - 2 * h[:, 1], 2 * h[:, 0] - 0.5 * h[:, 1]], -1))
    found = fixed_points(turn, torch.randn(3, 2))
    assert_close(found.periods, torch.full((1, 2), torch.pi), rtol=1e-12, atol=0)
    assert "stable focus, 2, turning in 3.14" in str(found)
    stepped = fixed_points(turn.stepped(discretize.ETDRK4(), 0.1), torch.randn(3, 2))
    assert_close(stepped.periods, torch.full((1, 2), torch.pi / 0.1), rtol=1e-4, atol=0)
    assert_close(stepped.time_constants, torch.full((1, 2), 20.0), rtol=1e-4, atol=0)


def test_points_far_from_all_starts_are_left_out_and_times_are_in_the_unit_of_the_field():
    flow, starts = Flow(lambda _, h: torch.sin(h)), torch.linspace(1.4, 1.7, 7)[:, None]
    assert len(fixed_points(flow, starts)) > 0  # at multiples of pi
    assert len(fixed_points(flow, starts, slow=1e-3)) == 0
    assert len(fixed_points(flow, 4 * starts, slow=1e-3)) == 1
    assert str(fixed_points(flow, 4 * starts[:1], slow=1e-3)).startswith("1 fixed point, 0 of them stable\n")
    assert str(fixed_points(Flow(lambda _, h: 1 + h**2), starts, slow=1e-3)) == "no fixed points"
    field = ctrnn.additive(1, 6, tau=100.0)
    with torch.no_grad():
        field.candidate.weight_h.copy_(2 * torch.eye(6))
        field.candidate.bias.zero_()
    found = fixed_points(Flow(field, torch.zeros(1)), torch.zeros(1, 6))
    assert found.unit == pytest.approx(100.0)
    assert_close(found.growth, torch.tensor([0.01]), rtol=1e-6, atol=0)  # (2 - 1)/tau
    assert "unstable node, 6 unstable directions, 1 tau" in str(found)


def test_the_dimension_is_that_of_what_varies():
    states = torch.randn(20_000, 3) @ torch.diag(torch.tensor([2.0, 2.0, 1.0])) @ torch.linalg.qr(torch.randn(3, 3))[0]
    assert float(participation_dimension(states)) == pytest.approx(81 / 33, rel=0.05)
    line = torch.randn(10, 4, 1) @ torch.randn(1, 30)
    assert_close(participation_dimension(line), torch.tensor(1.0), rtol=1e-9, atol=0)
    rows = torch.randn(6, 30)
    covariance = torch.from_numpy(np.cov(rows.numpy(), rowvar=False))
    values = torch.linalg.eigvalsh(covariance)
    assert_close(participation_dimension(rows), values.sum() ** 2 / values.square().sum(), rtol=1e-9, atol=0)
    for wrong in (torch.randn(5), torch.randn(1, 5), torch.ones(3, 2, dtype=torch.int64)):
        with pytest.raises(ValueError, match="`states` must be two or more"):
            participation_dimension(wrong)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_line_that_drifts_slowly_has_slow_points_along_it_and_a_fast_one_none(dtype):
    starts = torch.randn(200, 8, dtype=dtype)
    slow, line = on_a_line(0.01, dtype)
    found = fixed_points(slow, starts, slow=0.02)
    along, across = found.h @ line, found.h - (found.h @ line) @ line.mT
    assert float(across.norm(dim=1).max()) < 0.02
    assert int((~found.fixed).sum()) >= 5
    assert float(along[~found.fixed].max() - along[~found.fixed].min()) > 1.5
    assert float(found.speed[~found.fixed].max()) <= 0.02 * (1 + 1e-5)
    assert_close(along[found.fixed], torch.tensor([[1 + 0.01 / 3]], dtype=dtype), rtol=1e-4, atol=0)
    near = torch.cdist(found.h, found.h, p=torch.inf) + torch.eye(len(found), dtype=dtype)
    assert float(near.min()) > 0.02 * float((starts - starts.mean(0)).norm(dim=1).max()) * (1 - 1e-6)
    fast = fixed_points(on_a_line(0.1, dtype)[0], starts, slow=0.02)
    assert int((~fast.fixed & (fast.speed > 0.02)).sum()) == 0
    assert bool(fast.fixed.all())


def test_a_picture_has_trajectories_points_by_kind_and_arrows_where_a_plane_holds_the_states():
    torch.manual_seed(0)
    flat = Flow(lambda _, h: torch.cat([h[:, :2] - h[:, :2] ** 3, -5 * h[:, 2:]], -1))
    starts = torch.randn(30, 5) * torch.tensor([1.0, 1.0, 0.05, 0.05, 0.05])
    states = torch.stack([starts * (1 - t) for t in torch.linspace(0, 1, 9)])
    points = fixed_points(flat, starts, slow=0.01)
    figure = state_space(states, points, flat)
    (ax,) = figure.axes
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {"trajectory", "unstable", "stable"}
    assert "principal axis 1" in ax.get_xlabel()
    assert "% of the variance" in ax.get_ylabel()
    assert ax.collections  # stream lines
    own = state_space(states, points, flat, axes=torch.eye(5)[:, [3, 4]])
    assert own.axes[0].get_xlabel() == "axis 1"
    assert not own.axes[0].collections
    for wrong, words in (
        ({"axes": torch.eye(5)}, "`axes` must be two columns"),
        ({"points": fixed_points(CUBES, starts[:, :3])}, "of 3 units"),
    ):
        with pytest.raises(ValueError, match=words):
            state_space(states, **wrong)
    with pytest.raises(ValueError, match="all one"):
        state_space(torch.ones(4, 5))


def test_a_long_run_says_at_the_start_what_all_exponents_cost(monkeypatch):
    monkeypatch.setattr("discretize.analysis.dynamics.exponents.PATIENCE", 0.0)
    with pytest.warns(UserWarning, match=r"3 of 3 exponents over 22 intervals will take about .* s here; `count=1`"):
        lyapunov(CUBES, torch.randn(1, 3), intervals=20, interval=0.05)


def test_what_is_loaded_at_the_first_interval_is_not_in_the_estimate(monkeypatch):
    clock, taken = [0.0], iter([40.0])
    monkeypatch.setattr("discretize.analysis.dynamics.exponents.time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr("discretize.analysis.dynamics.exponents.PATIENCE", 20.0)

    def slow_once(_, h):
        clock[0] += next(taken, 0.1)
        return h / 2

    with pytest.warns(UserWarning, match=r"over 1100 intervals will take about \d+ s"):
        lyapunov(Map(slow_once), torch.randn(1, 3), intervals=1000)  # 0.1 s each, and more than 20 s
    taken = iter([40.0])
    lyapunov(Map(slow_once), torch.randn(1, 3), intervals=100)  # warnings are errors here


@pytest.mark.parametrize("apart", [1e-1, 1e-3, 1e-6])
def test_a_point_beside_starts_that_lie_close_together_is_found(apart):
    starts = 0.9 + apart * torch.linspace(-1, 1, 10, dtype=torch.float64)[:, None].expand(10, 3)
    found = fixed_points(Flow(lambda p, h: h - h**3), starts, slow=1e-3)
    torch.testing.assert_close(found.h[found.fixed], torch.ones(1, 3, dtype=torch.float64), rtol=0, atol=1e-9)
