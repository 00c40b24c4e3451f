"""Forgetting times: measured as the equations say, and the verdict as the ranks say."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

import ctrnn
import discretize
from experiments.models.forgetting import times_of_gates
from experiments.reports.spreads import NotEnoughError
from experiments.runs.training import train
from experiments.studies.claims.lecture_ablation import LectureAblation, unseen
from experiments.studies.results import Results
from experiments.studies.verdicts import ClaimVerdict
from experiments.usage import UsageError

study = LectureAblation()


@pytest.fixture
def single():
    """Numbers as the command line has them."""
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(torch.float64)


def record(model: str, measured: Callable[[int], float], seed: int = 0, biases: str = "learned", task: str = "repeats") -> dict:
    rows = [
        {
            "unit": n,
            "set": float(n + 2),
            "measured before": float(n),
            "measured": measured(n),
            "gates": float(-n),
            "influence": [1.0, math.exp(-n)],
        }
        for n in range(9)
    ]  # fmt: skip
    point = {"seed": seed, "task": task, "model": model, "biases": biases}
    return {"key": f"{task}-{model}-{biases}-{seed}", "point": point, "configuration": {}, "rows": rows,
            "measures": {"accuracy": 0.9, "loss": 0.1}, "seconds": 1.0, "diverged": None, "made": {}}  # fmt: skip


def verdict(*records: dict) -> ClaimVerdict:
    return study.verdict(Results(records))


def table(*records: dict) -> str:
    return study.tables[0].markdown(Results(records))


def test_times_in_the_order_that_was_set_reproduce_the_claim():
    found = verdict(record("lstm", lambda n: n**2.0), record("gated", math.exp))
    assert found.word == "reproduced"
    asked = "rank correlation, character before, repeated"
    assert found.numbers == {f"{asked}, LSTM": "1", f"{asked}, gated": "1"}


def test_one_network_whose_order_is_half_lost_or_turned_round_makes_it_partly_and_two_of_them_not():
    ordered = record("lstm", float)
    half = record("gated", lambda n: float([4, 1, 0, 8, 3, 2, 5, 7, 6][n]))
    turned = record("gated", lambda n: -float(n))
    for lost in (half, turned):
        assert [part.answer for part in verdict(ordered, lost).parts] == ["yes", "no"]
    assert verdict(record("lstm", lambda n: -float(n)), turned).word == "not reproduced"


def test_a_unit_that_does_not_forget_is_the_slowest_and_one_that_was_not_moved_is_left_out():
    slowest_last = record("lstm", lambda n: math.inf if n == 8 else float(n))
    unmoved = record("gated", lambda n: math.nan if n == 0 else float(n))
    assert verdict(slowest_last, unmoved).word == "reproduced"
    never = verdict(record("lstm", float), record("gated", float), record("gated", lambda n: math.inf, 1))
    assert [part.answer for part in never.parts] == ["yes", "no"]  # where nothing is forgotten no order could agree
    assert "beyond what was looked at" not in table(unmoved)
    assert "beyond what was looked at" in table(record("lstm", lambda n: math.inf if n > 5 else float(n)))


def test_a_text_counts_where_it_is_there_and_only_whole():
    repeats = [record(model, float) for model in ("lstm", "gated")]
    turned = [record(model, lambda n: -float(n), task="next") for model in ("lstm", "gated")]
    found = verdict(*repeats, *turned)
    assert [part.answer for part in found.parts] == ["yes", "yes", "no", "no"]
    assert "Next character, LSTM: after training units forget in the order that was set: no (rank correlation" in found.sentence
    with pytest.raises(NotEnoughError, match="no run of gated, next character is done yet"):
        verdict(*repeats, turned[0])


@pytest.mark.parametrize(("name", "factor"), [("lstm", 1.0), ("gated", 2.0)])
def test_the_figure_of_each_network_has_the_times_of_its_own_units(name, factor):
    records = [record("lstm", float), record("gated", float)]
    for one, times in zip(records, (1.0, 2.0), strict=True):
        for n, row in enumerate(one["rows"]):
            row["influence"] = [math.exp(-k / (times * (n + 1))) for k in range(60)]
    results = Results(records)
    _, below = study.figures[name].draw(results).axes[:2]
    (points,) = (line for line in below.lines if line.get_marker() == "o")
    assert sorted(points.get_xdata()) == [n + 2 for n in range(9)]
    assert sorted(points.get_ydata()) == pytest.approx([factor * (n + 1) for n in range(9)], rel=1e-4)  # single precision
    with pytest.raises(NotEnoughError):
        study.figures[name].draw(Results([]))


def test_one_network_alone_decides_nothing():
    with pytest.raises(NotEnoughError, match="gated"):
        verdict(record("lstm", float))
    assert set(study.another) == {"small", "paper"}  # models of characters say nothing of the slides' models of words


def test_frozen_biases_and_gates_are_told_beside_and_decide_nothing():
    ordered = [record(model, float) for model in ("lstm", "gated")]
    turned = [record(model, lambda n: -float(n), biases="frozen") for model in ("lstm", "gated")]
    found = verdict(*ordered, *turned)
    assert found.word == "reproduced"
    assert (
        found.sentence.count("set and measured times 1; with biases that stay as they were set -1; of the trained gates on") == 2
    )
    assert found.sentence.count("on data and measured times -1).") == 2
    assert "| character before, repeated | LSTM | learned | 1 | 1 | -1 | -1 |" in table(*ordered, *turned)


@pytest.mark.usefixtures("single")
def test_models_of_a_text_are_measured_on_its_test_part(tmp_path, monkeypatch):
    (tmp_path / "tinyshakespeare").mkdir()
    (tmp_path / "tinyshakespeare" / "input.txt").write_text("the quick brown fox jumps over the lazy dog. " * 400)
    monkeypatch.delenv("CTRNN_DATA", raising=False)
    assert {run.point["task"] for run in study.runs("smoke")} == {"repeats"}
    assert "tinyshakespeare/input.txt; --data DIR" in study.left_out()
    monkeypatch.setenv("CTRNN_DATA", str(tmp_path))
    assert not study.left_out()
    run = next(run for run in study.runs("smoke") if run.key == "next-gated-learned-0")
    xs = unseen(run.configuration, 30)
    assert xs.shape == (30, 32, run.configuration.task.input_size)
    rows = study.measure(run, run.configuration.untrained_model(), tmp_path)
    assert [row["unit"] for row in rows] == list(range(16))
    assert len(rows[0]["influence"]) == 30


@pytest.mark.usefixtures("single")
def test_uncoupled_units_are_measured_to_forget_in_the_time_of_their_discrete_cell(tmp_path):
    """Without recurrent weights (1 - 1/T)^n is left, 1/e of it after -1/log(1 - 1/T) steps."""
    run = next(run for run in study.runs("smoke") if run.configuration.field == "gated")
    model = run.configuration.untrained_model()
    with torch.no_grad():
        model.field.candidate.weight_h.zero_()
        model.field.rate.weight_h.zero_()
        model.field.rate.weight_x.zero_()
    rows = study.measure(run, model, tmp_path)
    assert len(rows) == run.configuration.field_settings.hidden
    for row in rows:
        assert row["measured"] == pytest.approx(-1 / math.log1p(-1 / row["set"]), rel=1e-3)
        assert len(row["influence"]) == 60


@pytest.mark.usefixtures("single")
def test_what_was_set_is_of_the_start_and_what_the_biases_say_now_of_the_trained_network(tmp_path):
    run = study.runs("smoke")[0]
    start, model = run.configuration.untrained_model(), run.configuration.untrained_model()
    with torch.no_grad():
        model.field.gates.bias += 1.0
    rows = study.measure(run, model, tmp_path)
    assert [row["set"] for row in rows] == ctrnn.timescales(start.field).tolist()
    assert [row["by the trained biases"] for row in rows] == ctrnn.timescales(model.field).tolist()
    assert all(row["set"] < row["by the trained biases"] for row in rows)


@pytest.mark.usefixtures("single")
def test_the_gates_are_those_that_torch_has_on_the_same_data():
    """The forget gate written out from the weights, beside states that the module gave."""
    run = next(run for run in study.runs("smoke") if run.point["model"] == "lstm")
    model, xs = run.configuration.untrained_model(), unseen(run.configuration, 30)
    lstm = discretize.layers_to_torch(model.rnn)
    with torch.no_grad():
        hs = torch.cat([torch.zeros(1, xs.shape[1], lstm.hidden_size), lstm(xs)[0][:-1]])
        forget = (xs @ lstm.weight_ih_l0.t() + hs @ lstm.weight_hh_l0.t() + lstm.bias_ih_l0 + lstm.bias_hh_l0).chunk(4, -1)[1]
    torch.testing.assert_close(times_of_gates(model.rnn, xs), 1 / (1 - forget.sigmoid()).mean((0, 1)), rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("single")
def test_frozen_parameters_stay_and_others_learn(tmp_path):
    run = next(run for run in study.runs("smoke") if run.point["biases"] == "frozen")
    found = train(run.configuration, tmp_path / "run")
    start = run.configuration.untrained_model().state_dict()
    same = {name for name, value in found.model.state_dict().items() if torch.equal(value, start[name])}
    assert same == {"rnn.field.gates.bias"}
    wrong = replace(run.configuration, training=replace(run.configuration.training, frozen="*.gate.bias"))
    with pytest.raises(UsageError, match=r"no parameter is called so; there is rnn\.field\.gates"):
        train(wrong, tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()
