"""Runs that diverge: g dt over their steps, what is advised, the page, and steps with a cap that do not diverge."""

import csv
import json
import math
import warnings

import numpy as np
import pages
import pytest
import torch

import ctrnn
import discretize
from experiments.__main__ import main
from experiments.models.integrators import EXACT, FOR_NOISE, INTEGRATORS, IntegratorSettings, sequence_module
from experiments.runs.configuration import TrainingSettings, configuration
from experiments.runs.failures import advice, tries
from experiments.runs.page import passings
from experiments.runs.rates import COLUMNS, GDtSummary
from experiments.runs.stopping import StoppedError
from experiments.runs.training import Training, train
from experiments.usage import UsageError

SMALL = ["length=20", "hidden=12", "batch=8", "evaluation=16", "threads=1", "optimizer=adam", "lr=0.02"]


def command(folder, integrator, *settings):
    words = ["train", "--task", "recall", "--field", "gated-exponential", "--integrator", integrator, "--out", str(folder)]
    return [*words, "--set", *SMALL, *settings]


def table(folder):
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def diverged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diverged") / "run"
    with pytest.warns(discretize.StepWarning):
        assert main(command(folder, "euler", "clip=1", "steps=200")) == 1
    return folder


def test_a_run_that_diverges_leaves_a_page_with_the_steps_and_units_at_which_g_dt_passed_1_and_2(diverged):
    stopped, rows = json.loads((diverged / "stopped.json").read_text()), table(diverged)
    page = pages.read((diverged / "index.html").read_text())
    assert stopped["at"] == len(rows) + 1
    every = [*rows, {"step": str(stopped["at"]), **{name: str(value) for name, value in stopped["g_dt"].items()}}]
    beyond = next(row for row in every if float(row["g_dt_largest"]) > 2)
    cells = {row[0]: row[1:] for row in passings(every)}
    assert cells["2"][:2] == (beyond["step"], f"{float(beyond['g_dt_unit']):.0f}")
    said = " ".join(page.elements[0].text.split())
    assert f"2 at step {beyond['step']} (unit {cells['2'][1]})" in stopped["message"]
    assert stopped["message"] in said
    assert "g dt over steps of training" in [svg.children[0].text for svg in page.all("svg")]


def test_what_is_advised_names_g_dt_and_its_cures_and_not_the_bound_that_is_set(diverged):
    message = json.loads((diverged / "stopped.json").read_text())["message"]
    for words in ("g dt, rate times the length of a step, passed 1", "substeps=4", "exponential-euler", "cap=1", "lr=0.005"):
        assert words in message
    assert "clip" not in message


def test_a_run_that_goes_on_to_its_end_takes_the_page_of_where_it_stopped_away(tmp_path, monkeypatch):
    made = configuration("recall", "gated", length=10, hidden=3, batch=2, evaluation=4, steps=3, threads=1)
    with monkeypatch.context() as patch:
        patch.setattr("experiments.tasks.warps.recall.Recall.loss", lambda task, outputs, batch: outputs.sum() * math.nan)
        with pytest.raises(StoppedError, match="the loss is nan at step 1"):
            train(made, tmp_path)
    (tmp_path / "index.html").write_text("of where it stopped")
    train(made, tmp_path)
    assert not {"index.html", "stopped.json"} & {path.name for path in tmp_path.iterdir()}


def test_a_capped_run_of_the_same_settings_goes_to_its_end_and_says_how_often_the_cap_was_at_work(tmp_path, diverged):
    steps = len(table(diverged)) + 10
    assert main([*command(tmp_path, "capped-euler", "clip=1", f"steps={steps}", "cap=0.8"), "--page"]) == 0
    shares = [float(row["capped"]) for row in table(tmp_path)]
    tested = json.loads((tmp_path / "result.json").read_text())["test_g_dt"]["capped"]
    said = " ".join(pages.read((tmp_path / "index.html").read_text()).elements[0].text.split())
    assert "g dt is capped at 0.8 by the step" in said
    assert f"{100 * sum(shares) / steps:.1f} % of units and samples in training" in said
    assert f"{100 * tested:.1f} % at test" in said
    assert 0 < shares[-1] < 1


def rnn(step="euler", substeps=1):
    return discretize.DiscreteRNN(ctrnn.gated(2, 3, rate="softplus"), step, substeps=substeps)


def seen(largest, cap=math.inf):
    summary = GDtSummary(cap)
    with summary.looking(7):
        summary(torch.tensor([[0.5, largest]]))
    return summary


@pytest.mark.parametrize(
    ("module", "largest", "settings", "said", "not_said"),
    [
        (rnn(), 5.0, {}, ["substeps=4", "exponential-euler", "capped-euler", "lr=0.0003", "clip=1"], ["cap=2", "method"]),
        (rnn(substeps=8), 5.0, {"clip": 1.0}, ["substeps=16", "exponential-euler"], ["substeps=4", "clip"]),
        (rnn(), 1.5, {}, ["lr=", "clip=1"], ["substeps", "exponential", "capped"]),  # past the target, and back
        (rnn("exponential-euler"), 1e6, {}, ["lr=", "clip=1"], ["substeps", "exponential", "capped"]),
        (rnn("rk4"), 2.5, {}, ["lr="], ["substeps"]),
        (rnn("rk4"), 2.9, {}, ["substeps=4", "capped-euler"], []),
        (rnn(discretize.steps.CappedEuler(1.0)), 1e6, {}, ["lr="], ["cap", "substeps", "exponential"]),
        (rnn(discretize.steps.CappedEuler(3.0)), 1e6, {}, ["lower cap (--set cap=1)", "exponential-euler"], ["capped-euler"]),
        (rnn("backward-euler"), 1e6, {"clip": 1.0}, ["lr="], ["method", "tolerances", "clip"]),
        (discretize.ContinuousRNN(ctrnn.gated(2, 3)), 0.0, {"clip": 2.0}, ["method=", "rtol="], ["clip", "exact", "substeps"]),
    ],
)
def test_what_is_advised_fits_the_step_and_is_not_what_the_run_has(module, largest, settings, said, not_said):
    found = " ".join(tries(TrainingSettings(**settings), module, seen(largest)))
    assert [words for words in said if words not in found] == [words for words in not_said if words in found] == []


@pytest.mark.parametrize("step", ["euler", "exponential-euler"])
def test_where_nothing_was_learned_the_model_is_to_blame_and_its_own_step_is_not_advised(step):
    found = advice(TrainingSettings(), rnn(step), seen(0.9), learned=False)
    assert found.startswith("Nothing was learned yet")
    assert ("exponential-euler" in found) == (step == "euler")
    assert all(words in found for words in ("--integrator exact", "substeps=4", "recurrent_gain", "shorter sequences"))


@pytest.mark.parametrize("shape", [(3, 5), (400, 7)])
def test_a_summary_has_the_quantiles_of_numpy_and_names_the_largest_unit(shape):
    draw = torch.Generator().manual_seed(0)
    g_dt = torch.rand(shape, generator=draw).exp()
    summary = GDtSummary(cap=2.0)
    summary(g_dt[:2])
    summary(g_dt[2:])
    row, numbers = summary.row(), g_dt.numpy()
    assert list(row) == list(COLUMNS)
    assert row["g_dt_median"] == pytest.approx(np.quantile(numbers, 0.5), rel=0.05)
    assert row["g_dt_high"] == pytest.approx(np.quantile(numbers, 0.99), rel=0.05)
    assert row["g_dt_largest"] == pytest.approx(numbers.max(), rel=1e-5)
    assert row["g_dt_unit"] == np.unravel_index(numbers.argmax(), shape)[1]
    assert row["capped"] == pytest.approx((numbers > 2).mean(), rel=1e-5)


def test_a_summary_leaves_out_what_is_not_finite_and_counts_it_where_it_is_capped():
    summary = GDtSummary(cap=1.0)
    summary(torch.tensor([[0.5, math.inf, math.nan, 0.75, 0.25]]))
    assert summary.row() == {"g_dt_median": 0.5, "g_dt_high": 0.5, "g_dt_largest": 0.75, "g_dt_unit": 3, "capped": 0.2}
    assert not summary.finite


def test_a_summary_counts_units_that_grow_by_themselves():
    summary = GDtSummary()
    summary(torch.tensor([[-0.5, -0.25, 0.5, 0.75, -1.0]]))  # a leak below 0, as of a field that is read off its code
    assert summary.finite
    assert summary.row() == {"g_dt_median": -0.25, "g_dt_high": 0.5, "g_dt_largest": 0.75, "g_dt_unit": 3, "capped": 0.0}
    summary.clear()
    summary(torch.tensor([[math.nan, math.inf]]))
    summary(torch.tensor([[-0.5, -0.25]]))
    assert (summary.largest, summary.unit, summary.finite) == (-0.25, 1, False)


@pytest.mark.filterwarnings("ignore::discretize.StepWarning")
def test_a_step_that_fails_where_g_dt_was_not_looked_at_is_looked_at_then():
    made = configuration("recall", "gated-softplus", length=12, hidden=3, batch=2, evaluation=4, steps=9, threads=1)
    run = Training(made.untrained_model(), made.task, made.training)
    bias = run.model.field.rate.bias.data
    bias.fill_(-3.0)
    for k in range(3):
        assert ("g_dt_largest" in run.learn()) == (k == 0)
        run.step += 1
    bias.fill_(1e6)  # as one step of learning might have
    run.model.field.rate.weight_h.data.zero_()  # so that states that grow do not close their gate
    with pytest.raises(StoppedError) as stopped:
        run.learn()
    assert "passed 1 at step 4" in str(stopped.value)
    assert run.rates.row()["g_dt_largest"] > 500


@pytest.mark.filterwarnings("ignore::discretize.StepWarning")
@pytest.mark.parametrize("ts", [None, torch.tensor([0.0, 1.0, 1.5, 4.0, 4.5])])
def test_the_listener_of_a_watch_sees_the_steps_of_each_sequence_and_no_padding(ts):
    model, x = rnn(), torch.randn(4, 2, 2)
    model.fused = False
    told = []
    model.watch.listener = told.append
    model(x, ts=ts, lengths=[4, 2])
    together = told.pop()
    for k, length in enumerate((4, 2)):
        model(x[:length, k : k + 1], ts=None if ts is None else ts[: length + 1])
    assert together.shape == (6, 3)
    torch.testing.assert_close(together.sort(0).values, torch.cat(told).sort(0).values)


class Undeclared(ctrnn.VectorField):
    """A field of one's own, whose rate stands in its code alone."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.weight = torch.nn.Linear(input_size + hidden_size, hidden_size)

    def flow(self, projected, h):
        return torch.relu(self.weight(torch.cat([projected, h], -1))) - h


def test_g_dt_of_a_field_that_declares_no_leak_is_not_known_and_not_0(tmp_path):
    made = configuration("recall", Undeclared, length=10, hidden=3, batch=2, evaluation=4, steps=2, threads=1)
    train(made, tmp_path)
    assert all(not row[name] for row in table(tmp_path) for name in COLUMNS)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["largest_g_dt"] is None
    assert "test_g_dt" not in result


class Traced(Undeclared):
    leak = ctrnn.traced_leak


@pytest.mark.parametrize("name", sorted(INTEGRATORS.keys() - FOR_NOISE.keys() - {EXACT, "euler", "symplectic-euler"}))
def test_it_is_said_where_a_step_by_the_leak_is_that_of_euler_for_want_of_one(name):
    field, traced, xs = Undeclared(2, 3), Traced(2, 3), torch.linspace(-1, 1, 20).reshape(5, 2, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found, _ = sequence_module(name, field, IntegratorSettings())(xs)
        said = [str(each.message) for each in caught]
        sequence_module(name, traced, IntegratorSettings())
    assert len(caught) == len(said)
    is_euler = torch.equal(found, discretize.DiscreteRNN(field)(xs)[0])
    assert [f"{name} is Euler's step" in words for words in said] == [True] * is_euler


def test_a_model_is_not_listened_to_after_it_was_trained(tmp_path):
    made = configuration("recall", "gated", length=10, hidden=3, batch=2, evaluation=4, steps=3, threads=1)
    assert train(made, str(tmp_path)).model.rnn.watch.listener is None


def test_a_cap_is_that_of_the_step_map_that_is_given_or_the_setting():
    by_name = configuration("recall", "gated", "capped-euler", cap=0.5)
    assert configuration("recall", "gated", discretize.steps.CappedEuler(0.5)) == by_name
    assert by_name.untrained_model().rnn.step.cap == 0.5
    with pytest.raises(UsageError, match="cap is that of the step map"):
        configuration("recall", "gated", discretize.steps.CappedEuler(0.5), cap=0.5)
    with pytest.raises(UsageError, match=r"`cap` = 0\.5 changes nothing here: it is for the integrator capped-euler"):
        configuration("recall", "gated", "euler", cap=0.5)
    with pytest.raises(UsageError, match="`cap` must be a number above 0, got 0"):
        configuration("recall", "gated", "capped-euler", cap=0.0)
