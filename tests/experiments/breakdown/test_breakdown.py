"""The atlas: its numbers against theory, its files, and its checks, which must be able to fail."""

import csv
import io
import math

import numpy as np
import pages
import pandas as pd
import problems
import pytest
import torch

import ctrnn
import discretize
from derivations.processes.pool import End
from experiments import __main__ as command_line
from experiments.breakdown import chart, cost, figures, maps, networks, noise, one_unit, recorded, rhythm, rows, run
from experiments.data.recording import Recording
from experiments.reports import report


def recording(samples: int = 24, channels: int = 2) -> Recording:
    xs = np.random.default_rng(0).standard_normal((samples, channels))
    return Recording("noise.npy", xs, 10.0, ("1", "2")[:channels], samples, (), "noise", False)


def test_every_step_map_of_the_library_is_in_the_atlas():
    # The symplectic Euler step differs from Euler's on hidden units only: it is one for oscillators, and no other gate. The
    # capped one is Euler's up to its cap.
    assert set(maps.MAPS) == set(problems.STEPS) - {"SymplecticEuler", "CappedEuler"} == set(maps.GATES)


def test_limits_are_those_of_the_theorems():
    found = {name: maps.limits(step) for name, step in maps.MAPS.items()}
    assert (found["Euler"].overshoots, found["Euler"].diverges) == (pytest.approx(1), pytest.approx(2))
    for name in ("Taylor2", "Midpoint", "Heun"):
        assert (found[name].overshoots, found[name].diverges) == (None, pytest.approx(2))
    assert found["RungeKutta4"].diverges == pytest.approx(2.785293563405282)
    for name in ("Trapezoid", "FrozenTrapezoid"):
        assert (found[name].overshoots, found[name].diverges) == (pytest.approx(2), None)
    for name in (
        "ExponentialEuler",
        "ETD2",
        "ETDRK4",
        "FittedMidpoint",
        "BackwardEuler",
        "FrozenBackwardEuler",
        "Splitting",
        "StrangSplitting",
    ):
        assert found[name] == maps.Limits(None, None)


def test_every_rate_in_a_gate_is_set_as_a_letter_of_mathematics():
    assert maps.GATES["Taylor2"] == "<i>g</i> − <i>g</i>²/2"
    assert maps.GATES["FrozenTrapezoid"] == "<i>g</i>/(1 + <i>g</i>/2)"


def test_errors_of_a_step_are_measured_from_0_to_a_target_of_1():
    g = torch.tensor([0.5, 1.0, 1.8, 5.0, 50.0, 200.0])
    np.testing.assert_allclose(one_unit.errors(discretize.Euler(), g), (1 - g - torch.exp(-g)).abs(), rtol=1e-13)
    np.testing.assert_allclose(one_unit.errors(discretize.BackwardEuler(), g), (1 / (1 + g) - torch.exp(-g)).abs(), rtol=1e-12)
    np.testing.assert_allclose(one_unit.errors(discretize.Splitting(), g), g + torch.expm1(-g), rtol=1e-13)
    assert (one_unit.errors(discretize.ETDRK4(), g) < 1e-15).all()


@pytest.mark.parametrize("panels", [4, 8, 17])
def test_the_lowest_panel_of_each_column_of_the_chart_has_ticks(panels):
    pictures = {str(k): np.zeros((3, 4), dtype=int) for k in range(panels)}
    drawn = figures.chart(pictures, np.logspace(-1, 1, 4), np.linspace(-30, 2, 3), chart.FATES)
    columns: dict[int, list] = {}
    for ax in (ax for ax in drawn.axes if ax.get_visible()):
        columns.setdefault(ax.get_subplotspec().colspan.start, []).append(ax)
    for column in columns.values():
        *others, lowest = sorted(column, key=lambda ax: ax.get_subplotspec().rowspan.start)
        assert lowest.xaxis.get_tick_params()["labelbottom"]
        assert not any(ax.xaxis.get_tick_params()["labelbottom"] for ax in others)


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("Euler", lambda y, r: 1 - y),
        ("ExponentialEuler", lambda y, r: np.exp(-y)),
        ("FrozenBackwardEuler", lambda y, r: 1 / (1 + y)),
        ("FrozenTrapezoid", lambda y, r: (1 - y / 2) / (1 + y / 2)),
        ("ExponentialRosenbrock", lambda y, r: 1 + np.expm1(-(r + 1) * y) / (r + 1)),
        ("Splitting", lambda y, r: (1 + r * y) ** (-1 / r)),
    ],
)
def test_factors_under_the_power_decay_are_those_of_the_theorems(name, factor):
    y = torch.logspace(-2, 1.5, 30)
    for exponent in (1.0, 2.0, 3.5):
        found = one_unit.decay_factor(maps.MAPS[name], y, exponent)
        np.testing.assert_allclose(found.numpy(), factor(y.numpy(), exponent), rtol=1e-11, atol=1e-13)


def test_bars_cover_the_axis_and_change_where_regions_do():
    g = torch.logspace(-2, 1, 301)
    step = discretize.Euler()
    pieces = one_unit.bars(g, [discretize.REGIONS[int(r)] for r in discretize.regions(step, g)])
    assert [piece[2] for piece in pieces] == ["monotone", "overshooting", "divergent"]
    assert pieces[0][0] == float(g[0])
    assert pieces[-1][1] == float(g[-1])
    assert [pieces[k][1] for k in (0, 1)] == [pieces[k][0] for k in (1, 2)]
    assert pieces[0][1] == pytest.approx(1, rel=0.02)
    assert pieces[1][1] == pytest.approx(2, rel=0.02)


def test_a_single_marginal_point_of_a_bar_is_the_edge_of_what_follows():
    found = one_unit.bars(torch.tensor([1.0, 4.0, 9.0]), ["overshooting", "marginal", "divergent"])
    assert found == [(1.0, 2.0, "overshooting"), (2.0, 9.0, "divergent")]


def test_the_clock_of_the_recording_speeds_up_by_a_constant_factor():
    clock = recorded.accelerating(800)
    speed = np.diff(clock)
    assert clock[0] == 0
    assert clock[-1] == pytest.approx(799)
    np.testing.assert_allclose(speed[1:] / speed[:-1], speed[1] / speed[0], rtol=1e-9)
    assert speed[0] == pytest.approx(recorded.SLOWEST, rel=0.05)
    assert speed[-1] == pytest.approx(recorded.FASTEST, rel=0.05)


def test_playing_counts_what_the_monitor_counts():
    played = recorded.play(recording(60), recorded.accelerating(60), ("ExponentialEuler", "Euler"))
    assert played.exact.shape == played.g.shape == played.states["Euler"].shape
    assert played.shares["ExponentialEuler"]["monotone"] == 1.0
    assert sum(played.shares["Euler"].values()) == pytest.approx(1)


def test_the_clock_passes_1_and_2_where_half_of_the_units_do():
    g = np.array([[0.5, 0.5, 3.0], [0.9, 1.2, 1.5], [1.9, 1.9, 9.0], [0.1, 2.5, 3.0]])  # medians 0.5, 1.2, 1.9 and 2.5
    assert recorded.crossing(recorded.Played(np.arange(5), g, g, {}, {})) == (2, 4)


def test_the_pace_of_the_recording_is_taken_in_the_state_before_the_sample():
    played = recorded.play(recording(20), 2.0 * np.arange(8), ())
    field, xs = recorded.field_for(2), torch.from_numpy(recording(20).xs[:14:2])
    before = torch.cat([torch.zeros(1, recorded.UNITS), torch.from_numpy(played.exact[:-1])])
    gates = torch.nn.functional.softplus(xs @ field.rate.weight_x.mT + before @ field.rate.weight_h.mT + field.rate.bias)
    np.testing.assert_allclose(played.g, 2 * gates.detach(), rtol=1e-10)


@torch.no_grad()
def test_prices_are_evaluations_and_errors_of_runs(monkeypatch):
    monkeypatch.setattr(cost, "MAPS", {"Euler": discretize.Euler()})
    monkeypatch.setattr(cost, "MOST_STEPS", 2)
    monkeypatch.setattr(cost, "POWERS", (3,))
    field, xs = networks.fields_for(2)[cost.FIELD], torch.from_numpy(recording().xs)[:5, None]
    one, two, solved = cost.prices(field, xs, 1.0).itertuples(index=False)
    exact = networks.exact_states(field, xs, 1.0)[1:]
    for n, price in ((1, one), (2, two)):
        states = discretize.DiscreteRNN(field, substeps=n)(xs)[0]
        drift = math.sqrt(float((states - exact).square().sum()) / (6 * 8))  # and of the start, which is the same
        assert price == ("Euler", n, n, pytest.approx(drift, rel=1e-10))
    path = ctrnn.HeldPath(xs, torch.arange(6.0))
    stats = discretize.integrate(field, path, torch.zeros(1, 8), path.knots, rtol=1e-3, atol=1e-3).stats
    assert (solved.step, solved.substeps, solved.cost) == ("dopri5", 3, stats["nfe"] / 5)
    assert solved.drift < 1e-2 < one.drift


def test_growth_is_that_of_the_jacobian_in_the_states_before_samples(monkeypatch):
    monkeypatch.setattr(networks, "GROWTH_DTS", (0.5,))
    field, xs = networks.fields_for(2)["gru"], torch.from_numpy(recording().xs)[:4, None]
    euler, _ = networks.growth_curves({"gru": field}, xs).itertuples(index=False)
    before = networks.exact_states(field, xs, 1.0)[:-1]
    grown = torch.eye(8) + 0.5 * field.jacobian(field.project(xs), before).detach()
    assert (euler.field, euler.step, euler.dt) == ("gru", "Euler", 0.5)
    assert euler.radius == pytest.approx(float(torch.linalg.eigvals(grown).abs().max()), rel=1e-10)
    assert euler.norm == pytest.approx(float(grown.abs().sum(-1).max()), rel=1e-10)  # of the largest difference of a unit


def test_the_step_that_is_called_cheapest_is_the_cheapest():
    listed = [cost.Price("Euler", 1, 1.0, 0.1), cost.Price("Heun", 1, 2.0, 0.01), cost.Price("Euler", 16, 16.0, 0.009)]
    table = pd.DataFrame(listed)
    assert cost.cheapest(table, 0.01, ("Euler", "Heun")) == listed[1]
    assert cost.cheapest(table, 0.01, ("Euler",)) == listed[2]
    assert cost.cheapest(table, 0.009, ("Euler", "Heun")) == listed[2]  # an error of exactly that will do
    assert cost.cheapest(table, 1e-9, ("Euler", "Heun")) is None


def test_what_is_measured_of_networks_are_runs_of_the_sequence_modules(monkeypatch):
    monkeypatch.setenv("CTRNN_FUSED", "0")  # a run of six samples: nothing to build
    xs = torch.from_numpy(recording().xs)[:6, None]
    fields = {"gru": networks.fields_for(2)["gru"]}
    one, dt = networks.measure(fields, xs, (0.7,)).iloc[0], 0.7
    field = fields["gru"]
    edges = dt * torch.arange(7)
    exact = discretize.ContinuousRNN(field, rtol=1e-9, atol=1e-9)(xs, ts=edges)[0]
    stepped = discretize.DiscreteRNN(field, dt=dt)(xs)[0]
    # The state before the first sample counts too, as 0.
    expected = math.sqrt(float((stepped - exact).detach().square().sum()) / (7 * 8))
    assert (one.field, one.step, one.lost) == ("gru", "Euler", False)
    assert one.drift == pytest.approx(expected, rel=1e-5)
    before = torch.cat([torch.zeros(1, 1, 8), exact[:-1]])
    local = discretize.Euler()(field, xs, before, dt) - exact
    assert one.local == pytest.approx(float(local.detach().square().mean().sqrt()), rel=1e-5)
    assert one.leak == pytest.approx(float(dt * field.leak(field.project(xs), exact).detach().median()), rel=1e-5)


@torch.no_grad()
def test_a_run_that_is_lost_is_not_a_number_from_there_on():
    field = ctrnn.leaky(2, 8, alpha=50.0)
    states, _ = networks.stepped(field, discretize.Euler(), 100 * torch.randn(400, 1, 2), 50.0)
    assert len(states) == 401
    assert not torch.isfinite(states[-1]).any()
    assert networks.root_mean_square(states) == math.inf


@pytest.mark.parametrize("name", ["Euler", "ExponentialEuler", "FrozenTrapezoid"])
def test_fates_on_the_chart_are_those_of_counted_values(name):
    g, w = np.meshgrid([0.2, 0.4, 0.9, 1.3, 2.5], [-28.0, -8.0, -2.0, 0.5])
    found, exponent, _ = chart.fates(maps.MAPS[name], torch.tensor(g.ravel()), torch.tensor(w.ravel()))
    counted = chart.expected(chart.count_values(chart.GATES[name](g.ravel()), w.ravel()))
    # One may be a cycle that takes longer to die out than the chart waits.
    assert (found.numpy() == counted).sum() >= len(counted) - 1
    assert {chart.FATES[k] for k in found.tolist()} >= {"rest", "2-cycle", "chaos"}
    assert exponent[found == chart.CHAOS].min() > 0


def test_the_equation_and_backward_euler_rest_where_euler_is_chaotic(monkeypatch):
    monkeypatch.setattr(chart, "SETTLE", 30)
    monkeypatch.setattr(chart, "LONGEST", 3)
    monkeypatch.setattr(chart, "AVERAGED", 100)
    g, w = torch.tensor([0.4, 0.4]), torch.tensor([-28.0, -16.0])
    assert (chart.fates(maps.MAPS["Euler"], g, w)[0] == chart.CHAOS).all()
    for name in ("BackwardEuler", "Trapezoid"):
        assert (chart.fates(maps.MAPS[name], g, w)[0] == chart.REST).all()
    flow = discretize.Flow(chart.ChartUnit(), torch.tensor([-28.0, chart.THETA]))
    rest = discretize.fixed_points(flow, torch.linspace(-1, 1, 9)[:, None])
    assert (len(rest), rest.stable.tolist()) == (1, [True])


def test_a_rest_that_is_not_reached_while_it_settles_is_called_one_by_what_it_comes_near(monkeypatch):
    monkeypatch.setattr(chart, "SETTLE", 5)
    found, exponent, _ = chart.fates(maps.MAPS["Euler"], torch.tensor([0.05]), torch.tensor([-1.0]))
    assert exponent.item() < 0  # not settled, or there would be none
    assert found.item() == chart.REST


def test_a_cycle_longer_than_what_is_looked_for_is_not_called_chaos(monkeypatch):
    monkeypatch.setattr(chart, "SETTLE", 150)
    monkeypatch.setattr(chart, "LONGEST", 16)
    monkeypatch.setattr(chart, "AVERAGED", 150)
    g, w = torch.linspace(0.2, 2.5, 30).repeat(3), torch.tensor([-28.0, -16.0, -8.0]).repeat_interleave(30)
    cycles = chart.fates(maps.MAPS["Euler"], g, w)[0] == chart.FATES.index("longer cycle")
    monkeypatch.setattr(chart, "LONGEST", 2)
    found, exponent, _ = chart.fates(maps.MAPS["Euler"], g[cycles], w[cycles])
    unseen = exponent < -0.05  # of a cycle, and not near where it turns into chaos
    assert unseen.any()
    assert (found[unseen] != chart.CHAOS).all()


def long_exponent(G, w, steps):
    """Of h + G (tanh(w (h - theta)) - h), by its derivative, for many gates at once."""
    h, total = np.full_like(G, chart.START), 0.0
    for k in range(steps + 2000):
        turned = np.tanh(w * (h - chart.THETA))
        total = total + np.log(np.abs(1 - G + G * w * (1 - turned**2))) if k >= 2000 else 0.0
        h = h + G * (turned - h)
    return total / steps


def test_the_largest_exponent_is_that_of_a_long_run_and_not_of_the_luckiest_short_one(monkeypatch):
    monkeypatch.setattr(chart, "LONG", 100)  # 3200 steps in all
    monkeypatch.setattr(chart, "SETTLE", 100)
    monkeypatch.setattr(chart, "LONGEST", 8)
    G = torch.linspace(0.3, 0.35, 12)
    w = torch.full_like(G, -30.0)
    _, short, error = chart.fates(maps.MAPS["Euler"], G, w)
    found, uncertain = chart.largest_exponent(maps.MAPS["Euler"], G, w, short)
    longer = long_exponent(G.numpy(), -30.0, 20_000)
    assert found == pytest.approx(longer.max(), abs=0.02)
    assert 0 < uncertain < 0.01 < error[short.argmax()]
    assert math.isnan(chart.largest_exponent(maps.MAPS["Euler"], G[:1], torch.tensor([-1.0]), torch.tensor([torch.nan]))[0])


@pytest.mark.parametrize("name", ["Euler", "ExponentialEuler", "FrozenBackwardEuler"])
def test_flips_on_the_chart_are_where_the_ledger_says(name):
    """w sech^2 = -(2 - G) / G, by continuation in w at g dt = 0.7."""
    unit = discretize.Flow(chart.ChartUnit(), lambda w: torch.stack([w, torch.full_like(w, chart.THETA)], -1))
    branch = discretize.continuation(unit.stepped(maps.MAPS[name], 0.7), torch.zeros(1), 0.0, (-16.0, 0.0), direction=-1, step=1)
    (flip,) = [b for b in branch.bifurcations if b.kind == "flip"]
    G = float(chart.GATES[name](np.array(0.7)))
    assert flip.p * (1 - float(flip.h) ** 2) == pytest.approx(-(2 - G) / G, abs=1e-8)


class Here:
    """In place of worker processes."""

    def __init__(self, size, work):
        self.do = work.begun()

    def carry_out(self, keys):
        yield from (End(key, self.do(key)) for key in keys)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The parts that take seconds, in this process: another has all to import. The slow test runs what the command does."""
    out, said = tmp_path_factory.mktemp("atlas"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "WorkerPool", Here)
        patch.setattr(run, "PARTS", (("One", one_unit.held_section), ("Two", one_unit.power_section)))
        for module in (run, report):
            patch.setattr(module, "say", said.append)
        done = run.run(out, recording(), "ctrnn breakdown")
    return done, out, said


def test_the_command_writes_a_page_the_figures_and_the_numbers(made):
    done, out, said = made
    assert done
    assert "All checks passed" in said[-2]
    assert sorted(p.name for p in out.iterdir()) == [
        "breakdown.csv",
        "held-1.svg",
        "held-2.svg",
        "index.html",
        "power-1.svg",
        "power-2.svg",
    ]
    page = pages.read((out / "index.html").read_text())
    assert page.all("h1")[0].text == "Where the Taylor step stops being the field"
    assert len(page.all("svg")) == 4
    for picture in out.glob("*.svg"):
        text = picture.read_text()
        assert text.startswith("<svg xmlns=")
        assert "var(--" not in text


def test_the_csv_holds_what_the_page_says(made):
    listed = list(csv.DictReader(io.StringIO((made[1] / "breakdown.csv").read_text())))
    one = {(row["step"], row["quantity"], float(row["x"])): row for row in listed if row["part"] == "one unit, held target"}
    assert float(one["Euler", "factor R(-g dt)", 1.8]["value"]) == pytest.approx(-0.8)
    assert one["Euler", "factor R(-g dt)", 1.8]["region"] == "overshooting"
    assert float(one["BackwardEuler", "error of one step", 5.0]["value"]) == pytest.approx(1 / 6 - math.exp(-5))
    text = rows.as_csv([rows.frame("part", "plain, power decay", "Euler", [0.1], "error", 1 / 3, "divergent")])
    (read,) = csv.DictReader(io.StringIO(text))
    assert (float(read["value"]), read["field"]) == (1 / 3, "plain, power decay")  # every digit is kept


def test_a_folder_that_cannot_be_written_is_told_before_the_work(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert command_line.main(["breakdown", "--out", str(tmp_path / "file" / "atlas")]) == 2
    assert "cannot write to" in capsys.readouterr().err
    assert command_line.main(["breakdown", "--rate", "10"]) == 2
    assert "--input" in capsys.readouterr().err


def test_a_wrong_step_fails_the_atlas(monkeypatch):
    class Late(discretize.Euler):
        def advance(self, field, projected, h, dt):
            return h + 0.9 * dt * field.flow(projected, h)

        def stability(self, z, leak=None):  # Euler's, which is not what it does
            return 1 + z

    monkeypatch.setitem(maps.MAPS, "Euler", Late())
    (failure,) = one_unit._failures(one_unit.softplus_identity())  # the page's other parts have a test above
    assert failure.startswith("Euler does not do what its stability function says")


@pytest.mark.slow
def test_the_whole_atlas_of_a_short_recording_passes_its_checks(tmp_path):
    path = tmp_path / "short.csv"
    np.savetxt(path, recording(40).xs, delimiter=",")
    assert command_line.main(["breakdown", "--out", str(tmp_path / "atlas"), "--input", str(path), "--rate", "10"]) == 0
    parts = {row["part"] for row in csv.DictReader(io.StringIO((tmp_path / "atlas" / "breakdown.csv").read_text()))}
    assert parts == {
        "one unit, chart",
        "one unit, held target",
        "one unit, power decay",
        "one unit, at rest",
        "rhythm",
        "networks",
        "several units",
        "recording, accelerating",
        "recording, steady",
        "cost",
    }


def test_a_step_for_noise_that_does_not_leave_the_variance_it_says_is_a_failure(monkeypatch):
    assert not noise.noise_failures()
    monkeypatch.setattr(discretize.Milstein, "variance", "1")
    assert len(noise.noise_failures()) == len(noise.AT)


@pytest.mark.slow
def test_a_rhythm_under_every_map():
    section = rhythm.rhythm_section(recording(), lambda line: None)
    assert not section.failures
    assert len(section.numbers["rows"].query("field == 'trained'")) == 2 * (len(maps.MAPS) + 1)


def test_a_step_that_turns_otherwise_fails_the_atlas():
    grid = torch.tensor([0.1, 0.2], dtype=torch.float64)
    grown = {name: rhythm.growth(step, grid) for name, step in maps.MAPS.items()} | {"Euler": grid}
    (failure, other) = rhythm._failures(grown, grid, 1.0, 0.9)
    assert "Euler does not turn as result 19 says" in failure
    assert "The trained rhythm" in other


def test_a_rotation_grows_under_each_map_as_its_factor_says_and_the_trained_rhythm_is_that_of_the_step():
    dt = torch.tensor([0.3], dtype=torch.float64)
    assert float(rhythm.growth(discretize.Euler(), dt, 2.0)) == pytest.approx(math.log(1 + 0.36) / 0.6)
    assert float(rhythm.growth(discretize.BackwardEuler(), dt, 2.0)) == pytest.approx(-math.log(1 + 0.36) / 0.6)
    stepped, period = rhythm._settled(discretize.Euler())
    assert stepped > 0.9
    assert rhythm._settled(None)[0] < 0.05
    assert period == pytest.approx(8, abs=0.2)


def test_the_least_chaotic_gate_falls_as_one_over_the_weight_and_is_not_the_edge_of_a_grid():
    gates = np.arange(4.9, 7.7, 0.1)
    found = [chart.least_chaotic(w, gates, steps=3200) for w in (-10.0, -1000.0)]
    assert found == pytest.approx([5.1, 7.6], abs=0.11)  # 5.04 and 7.52 by runs of 100,000 steps
    monotone = np.linspace(0.1, 0.99, 50) * 1000 / 1001  # G |w| <= 1 - G
    assert math.isnan(chart.least_chaotic(-1000.0, monotone, steps=800))
