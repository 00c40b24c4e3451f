"""Figures of trajectories: what is drawn is what the trajectory holds, read back from the lines of the figure."""

import dataclasses

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import ctrnn
import discretize


def solved(batch=2, **settings):
    field = ctrnn.gated(1, 8, generator=torch.Generator().manual_seed(0))
    path = ctrnn.HeldPath(torch.sin(torch.arange(12.0) / 2)[:, None, None].expand(-1, batch, -1).contiguous())
    h0 = 0.1 * torch.arange(batch)[:, None] + field.initial_state(batch)
    return discretize.integrate(field, path, h0, torch.arange(13.0), **settings)


def lines(ax, marker="None"):
    return [line.get_xydata() for line in ax.get_lines() if str(line.get_marker()) == marker]


def test_lines_are_the_states_between_and_dots_those_asked_for():
    trajectory = solved()
    (ax,) = trajectory.plot(sample=1, units=[2, 0]).axes
    for unit, drawn, dots in zip((2, 0), lines(ax), lines(ax, "o"), strict=True):
        assert_array_equal(dots, np.stack([trajectory.ts, trajectory.hs[:, 1, unit].detach()], 1))
        assert len(drawn) > 400
        times = torch.from_numpy(np.ascontiguousarray(drawn[:, 0]))
        assert_allclose(drawn[:, 1], trajectory(times)[:, 1, unit].detach(), rtol=0, atol=1e-14)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time", "state")
    assert ax.get_title(loc="left") == "dopri5, sample 1 of 2, 2 of 8 units"
    (legend,) = ax.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["h₃", "h₁"]


def test_steps_drawn_are_those_counted():
    trajectory = solved(fused=False)
    for sample in (0, 1):
        (ax,) = trajectory.plot("steps", sample=sample).axes
        assert ax.get_yscale() == "log"
        lengths, ends, _ = ax.patches[0].get_data()
        assert len(lengths) == trajectory.stats["accepted_steps_of_samples"][sample]
        assert_allclose([ends[0], ends[-1], lengths.sum()], [0, 12, 12])
    shortest = [min(trajectory.plot("steps", sample=k).axes[0].patches[0].get_data()[0]) for k in (0, 1)]
    assert_allclose(min(shortest), trajectory.stats["smallest_step"])


def test_discrete_steps_are_as_long_as_dt_and_straight_lines_join_their_states():
    cell = discretize.DiscreteCell(ctrnn.plain(1, 2), dt=0.5)
    trajectory = discretize.unroll(cell, torch.ones(6, 1, 1))
    above, below = trajectory.plot(["states", "steps"]).axes
    assert_array_equal(below.patches[0].get_data()[0], np.full(6, 0.5))
    assert_array_equal(lines(above)[0], np.stack([trajectory.ts, trajectory.hs[:, 0, 0].detach()], 1))
    assert above.get_title(loc="left") == "Euler()"


def test_the_plane_has_one_unit_against_another_from_the_start_on():
    trajectory = solved(batch=1)
    (ax,) = trajectory.plot("plane", units=[4, 1]).axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("h₅", "h₂")
    dots, start = lines(ax, "o")
    assert_array_equal(dots, trajectory.hs[:, 0, [4, 1]].detach())
    assert_array_equal(start, dots[:1])


def test_events_are_crosses_on_the_line():
    ball = torch.tensor([[1.0, 0.0], [2.0, 0.0]])
    ground = discretize.Event(lambda t, h: h[:, 0], direction=-1, reset=lambda t, h: torch.stack([0 * h[:, 0], -h[:, 1]], 1))
    fall = discretize.integrate(
        lambda t, h: torch.stack([h[:, 1], -2 + 0 * h[:, 1]], 1), None, ball, torch.linspace(0, 2.5, 6), events=ground
    )
    (ax,) = fall.plot(sample=0).axes
    height, speed = lines(ax, "x")
    assert_allclose(height, [[1, 0]], atol=1e-6)  # 1 - t^2, to the tolerance of the solve
    assert_allclose(speed, [[1, -2]], atol=1e-6)
    assert all((lines(ax)[k] == at).all(1).any() for k, at in enumerate((height, speed)))

    copied = dataclasses.replace(fall, between=None, stats={"accepted_steps_of_samples": [5, 5]})  # one each, if none was cut
    with pytest.raises(ValueError, match="not kept"):
        copied.plot("steps")


def test_several_trajectories_share_colours_by_unit_and_have_dashes_of_their_own():
    field, xs = ctrnn.plain(1, 2), torch.ones(5, 1, 1)
    stepped = discretize.unroll(discretize.DiscreteCell(field), xs)
    exact = discretize.integrate(field, ctrnn.HeldPath(xs), field.initial_state(1), stepped.ts)
    figure = discretize.plot({"stepped": stepped, "solved": exact})
    looks = [(line.get_color(), line.get_linestyle()) for line in figure.axes[0].get_lines() if line.get_marker() == "None"]
    assert [looks[0][0], looks[1][0]] == [looks[2][0], looks[3][0]]
    assert looks[0][1] == looks[1][1] != looks[2][1] == looks[3][1]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["h₁", "h₂", "stepped", "solved"]


def test_sequences_with_times_of_their_own_and_solves_that_run_back_are_drawn():
    field = ctrnn.plain(1, 2)
    path = ctrnn.HeldPath(torch.ones(4, 2, 1))
    own = torch.tensor([[0.0, 0.0], [1.0, 0.5], [4.0, 2.0]])
    each = discretize.integrate(field, path, field.initial_state(2), own)
    drawn = lines(each.plot(sample=1, units=[0]).axes[0])[0]
    assert_array_equal(drawn[[0, -1], 0], [0.0, 2.0])
    assert_allclose(drawn[-1, 1], each.hs[-1, 1, 0].detach())
    back = discretize.integrate(field, path, field.initial_state(2), torch.tensor([4.0, 1.0]))
    assert_array_equal(lines(back.plot(units=[0]).axes[0])[0][:, 0], [1.0, 4.0])


def test_a_notebook_shows_the_figure_and_the_facts():
    trajectory = solved()
    assert trajectory.plot()._repr_png_().startswith(b"\x89PNG")
    page = trajectory._repr_html_()
    for words in (
        "<td>dopri5</td>",
        "13 on [0, 12]",
        "8 units of 2 samples",
        f"{trajectory.stats['num_accepted_steps']} accepted",
    ):
        assert words in page
    odd = discretize.Trajectory(trajectory.ts, trajectory.hs, {}, "<b>odd</b>")
    assert "&lt;b&gt;odd" in odd._repr_html_()


def test_what_is_not_there_is_refused():
    trajectory = solved()
    for arguments, words in (
        ({"panels": "state"}, "among 'states', 'plane', 'steps'"),
        ({"sample": 2}, "one of 0 to 1"),
        ({"units": [8]}, "among 0 to 7"),
        ({"panels": "plane", "units": [1]}, "two axes"),
    ):
        with pytest.raises(ValueError, match=words):
            trajectory.plot(**arguments)
    with pytest.raises(ValueError, match="not kept"):
        solved(method="rk4", max_step=0.5).plot("steps")
    taken = {"accepted_steps_of_samples": [3, 5]}
    copied = discretize.Trajectory(torch.arange(4.0), torch.zeros(4, 2, 1), taken)
    assert len(copied.plot("steps", sample=0).axes[0].patches[0].get_data()[0]) == 3
    with pytest.raises(ValueError, match="not kept"):  # more steps than times
        copied.plot("steps", sample=1)
    with pytest.raises(ValueError, match="among 0 to 0"):
        discretize.plot({"wide": trajectory, "narrow": copied}, units=[5])
    with pytest.raises(TypeError, match="got Tensor"):
        discretize.plot(trajectory.hs)
