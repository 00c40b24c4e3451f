"""Clocks of recordings: windows at changing speeds, gates that are a clock and constants, and verdicts on made-up records."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import make_har
from fake_studies import draws, records_of, tables_of

from experiments.reports.spreads import NotEnoughError
from experiments.runs.configuration import configuration
from experiments.studies.claims.clocks_of_recordings import CELLS, ClocksOfRecordings
from experiments.studies.clocks.known_speeds import GATES, at_known_speeds, exponents, follows, predicted
from experiments.studies.results import Results
from experiments.studies.study import DATA
from experiments.tasks.recorded.at_speeds import DelayedHAR, HARAtSpeeds
from experiments.tasks.recorded.har import HAR


def test_windows_are_played_at_each_speed_as_often_and_what_is_said_is_a_fixed_time_of_the_recording_before():
    task = DelayedHAR(data="stand-in", shown=True, clock_given=True, delay=3)
    which = torch.tensor([5, 40])
    batch, recorded = task.batch_of("test", which), HAR(data="stand-in").recorded("test").xs[:, which].numpy()
    speeds, k = batch.ts.diff(dim=0).numpy(), np.arange(128)
    for b in range(2):
        stretches = speeds[np.isin(batch.ts[:-1, b], 16 * np.arange(8)), b]
        assert sorted(stretches) == [0.125, 0.125, 0.25, 0.25, 0.5, 0.5, 1, 1]
        assert speeds[:, b].tolist() == [c for c in stretches for _ in range(round(16 / c))]
        now = np.cumsum(speeds[:, b]) - speeds[:, b]
        for channel in range(9):
            played = np.interp(now, k, recorded[:, b, channel])
            np.testing.assert_allclose(batch.xs[:, b, channel], played, atol=1e-5)  # single precision
        assert batch.xs[:, b, 9].tolist() == np.log2(speeds[:, b]).tolist()
        for channel in range(3):
            before = np.interp(now - 3, k, recorded[:, b, channel])
            np.testing.assert_allclose(batch.targets[:, b, channel], before, atol=1e-5)
        assert batch.counts[:, b].tolist() == (now >= 3).tolist()


def test_a_window_has_its_speeds_whatever_is_beside_it_and_others_in_training_at_every_turn():
    task, which = DelayedHAR(data="stand-in", shown=True, clock_given=True, delay=3), torch.tensor([5, 40])
    assert torch.equal(task.batch_of("test", which[1:]).xs, task.batch_of("test", which).xs[:, 1:])
    one, other = (task.batch(4, torch.Generator().manual_seed(seed)).xs[..., 9] for seed in (0, 1))
    assert not torch.equal(one, other)


def test_an_unwarped_window_is_what_was_recorded():
    which, unwarped = torch.tensor([5, 40]), HARAtSpeeds(data="stand-in", slowness=(1,))
    assert torch.equal(unwarped.batch_of("test", which).xs, HAR(data="stand-in").recorded("test").xs[:, which])
    assert unwarped.baselines() == HAR(data="stand-in").baselines()
    with pytest.raises(ValueError, match=r"`slowness` must be 1, 2, 4 or 8 whole numbers from 1 on, got \(1, 2, 3\)"):
        HARAtSpeeds(data="stand-in", slowness=(1, 2, 3))


@torch.no_grad()
@pytest.mark.parametrize("clock", [True, False])
def test_a_gate_that_is_the_clock_has_exponent_0_and_a_constant_one_1(clock):
    made = configuration(task="har-delayed", data="stand-in", shown=True, field="gated", integrator="euler", hidden=4)
    model, task = made.untrained_model(), replace(made.task, clock_given=True)
    rate = model.field.rate
    for weights in (rate.weight_x, rate.weight_h):
        weights.zero_()
    rate.bias.copy_(torch.tensor([-6.0, -7.0, -8.0, -9.0]))
    if clock:
        rate.weight_x[:, 9] = math.log(2)  # so that -log(1 - g) = log(1 + e^b c') is e^b c', nearly
    batch = task.batch_of("test", torch.arange(12))
    rows = at_known_speeds(task, model, batch, batch.ts.diff(dim=0), usual=4 / 15)
    (units,) = [row for row in rows if row["kind"] == "units"]
    assert units["p"] == pytest.approx(0 if clock else 1, abs=1e-3)
    assert units["following"] == (4 if clock else 0)
    assert {row["slowness"]: row["elapsed"] for row in rows if row["kind"] == "speed"} == {
        n: pytest.approx(1 if clock else n, rel=2e-3) for n in (1, 2, 4, 8)
    }
    errors = {row["gate"]: row["error"] for row in rows if row["kind"] == "gate"}
    assert list(errors) == list(GATES)
    assert errors["learned"] == pytest.approx(errors["true clock" if clock else "constant"], rel=1e-4)
    assert abs(errors["true clock"] - errors["constant"]) > 1e-3
    assert abs(errors["another's"] - errors["true clock"]) > 1e-3
    if clock:
        assert units["correlation"] == pytest.approx(1, abs=1e-5)
        assert abs(units["p_another"] - 1) < 0.3  # of twelve windows
    assert rows[0] == {"kind": "known", "known": pytest.approx(1), "p_regression": pytest.approx(0, abs=1e-6)}  # it is an input
    assert errors["regression"] == pytest.approx(errors["true clock"], rel=1e-4)
    counts = batch.counts[..., None].expand_as(batch.targets).bool()

    def error(outputs):
        return float((outputs - batch.targets)[counts].square().mean() / batch.targets[counts].square().mean())

    assert errors["learned"] == pytest.approx(error(model(batch.xs)), rel=1e-4)
    if not clock:  # trained on windows as they are, it passes E for each recorded sample, and E c' on the true clock
        h, states, into = torch.zeros(12, 4, dtype=torch.float32), [], model.field.candidate
        for x, c in zip(batch.xs.float(), batch.ts.diff(dim=0).float(), strict=True):
            g = 1 - (1 + rate.bias.exp()) ** -c[:, None]
            h = h + g * (torch.tanh(x @ into.weight_x.T + h @ into.weight_h.T + into.bias) - h)
            states.append(h)
        rows = at_known_speeds(task, model, batch, batch.ts.diff(dim=0), usual=1.0)
        (found,) = [row["error"] for row in rows if row.get("gate") == "true clock"]
        assert found == pytest.approx(error(model.read_out(torch.stack(states))), rel=1e-4)


def test_exponents_are_of_each_unit_and_speeds_of_other_sequences_give_that_of_a_constant():
    speeds = 0.5 ** torch.randint(4, (4000, 3)).double()
    wanted = torch.tensor([0.0, 0.3, 1.2])
    elapsed, later = 0.01 * speeds[..., None] ** (1 - wanted), torch.rand(4000, 3) < 0.7
    torch.testing.assert_close(exponents(elapsed, speeds, later), wanted)
    *by_speed, units = follows(elapsed, speeds, later)
    assert [(row["slowness"], row["elapsed"]) for row in by_speed] == [(n, pytest.approx(n**0.3)) for n in (8, 4, 2, 1)]
    assert units["following"] == 2
    assert (units["p"], units["p_logs"]) == (pytest.approx(0.3), pytest.approx(0.3))


def test_moments_in_which_a_gate_is_open_count_little_in_means_of_logarithms():
    speeds = 0.5 ** torch.randint(4, (4000, 3)).double()
    elapsed, later = 0.01 * speeds[..., None] ** (1 - torch.tensor([0.0, 0.3, 1.2])), torch.rand(4000, 3) < 0.7
    moments = torch.where(torch.rand(4000, 3, 1) < 0.01, 100.0, 0.0) * (speeds[..., None] < 1)
    (units,) = [row for row in follows(elapsed * (1 + moments), speeds, later) if row["kind"] == "units"]
    assert units["p"] > units["p_logs"] + 0.1


def test_a_unit_that_runs_too_fast_when_it_is_slow_follows_no_clock():
    speeds, later = 0.5 ** torch.randint(4, (4000, 3)).double(), torch.rand(4000, 3) < 0.7
    (units,) = [row for row in follows(speeds[..., None].expand(-1, -1, 3) ** 2, speeds, later) if row["kind"] == "units"]
    assert (units["p"], units["following"]) == (pytest.approx(-1), 0)
    assert units["p_another"] == pytest.approx(1, abs=0.05)
    assert units["strongest"] == pytest.approx(1)


def test_speeds_are_predicted_by_a_line_that_is_judged_on_other_sequences():
    read, noise, later = torch.randn(500, 40, 3), torch.randn(500, 40), torch.rand(500, 40) < 0.8
    line = read @ torch.tensor([1.0, -2.0, 2.0]) + 5  # of variance 9
    found, share = predicted(read, line, later)
    torch.testing.assert_close(found, line)
    assert share == pytest.approx(1, abs=1e-12)
    assert predicted(read, line + 3 * noise, later)[1] == pytest.approx(0.5, abs=0.03)
    assert predicted(read, noise, later)[1] == pytest.approx(0, abs=0.01)
    noise[:, :20] = line[:, :20]  # of which the others know nothing
    assert predicted(read, noise, later)[1] < -1


def made_records(p, true, leaky=0.5):
    """Runs with gates of these exponents, one for each seed, and this error by the true clock; learned 0.1, constants 0.4."""
    errors = dict(zip(GATES, (0.1, true, 0.4, 0.6, 0.2), strict=True))

    def measured(run):
        if run.point["cell"] == "leaky":
            return {"loss": 1.0}, [{"kind": "gate", "gate": "learned", "error": leaky}]
        rows = [{"kind": "gate", "gate": gate, "error": error} for gate, error in errors.items()]
        return {"loss": 1.0}, [*rows, {"kind": "units", "p": p[run.point["seed"]]}]

    return records_of(ClocksOfRecordings(), "small", measured)


@pytest.fixture
def with_data(monkeypatch, tmp_path):
    (tmp_path / "uci_har").mkdir()
    make_har(tmp_path / "uci_har")
    monkeypatch.setenv(DATA, str(tmp_path))


@pytest.mark.usefixtures("with_data")
def test_gates_are_a_clock_or_none_where_the_interval_over_runs_says_so():
    study = ClocksOfRecordings()

    def judged(*made, **more):
        verdict = study.verdict(Results(made_records(*made, **more)))
        return verdict.word, [part.answer for part in verdict.parts]

    assert judged((0.21, 0.22, 0.23), 0.15) == ("reproduced", ["yes"] * 16)
    assert judged((0.81, 0.82, 0.83), 0.35) == ("not reproduced", ["no"] * 16)
    assert judged((0.81, 0.82, 0.83), 0.15) == ("partly", ["no", "yes"] * 8)
    assert judged((0.4, 0.8, 0.6), 0.15) == ("undecided", ["undecided", "yes"] * 8)
    assert judged((0.1, 0.2, 0.4), 0.15) == ("undecided", ["undecided", "yes"] * 8)  # all below a half, and too far apart
    assert judged((0.1, 0.2, 0.4), 0.15, leaky=0.1) == ("undecided", [])  # gates do not help
    sentence = study.verdict(Results(made_records((0.4, 0.8, 0.6), 0.15))).sentence
    assert "Speed hidden: p is 0.400 to 0.800. Gates of gated, GRU, LSTM are the clock: undecided. The true" in sentence
    with pytest.raises(NotEnoughError, match="lstm"):
        study.verdict(Results([one for one in made_records((0.1,) * 3, 0.15) if one["point"]["cell"] != "lstm"]))


@pytest.mark.usefixtures("with_data")
def test_tables_and_figures_come_from_what_is_measured_of_models():
    study = ClocksOfRecordings()

    def measured(run):
        if run.point["cell"] not in CELLS[:2] or run.point["training"] not in ("hidden", "shown"):
            return None
        rows = study.measure(run, run.configuration.untrained_model(), Path())
        return {"loss": 1.0}, json.loads(json.dumps(rows, allow_nan=False))

    torch.set_num_threads(1)
    records = records_of(study, "smoke", measured)
    assert len(records) == 4
    for part in (records, records[:1], records[1:2]):
        assert tables_of(study, Results(part)).count("|") > 20
        assert all((draws(figure, Results(part)) is None) == (part == records[:1]) for figure in study.figures.values())
    assert study.points(study.sizes["small"])[0] == {"seed": 0, "training": "hidden", "cell": "leaky"}
