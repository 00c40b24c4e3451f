"""Forgetting times: measured as the equations say, and the verdict as the ranks say."""

import math
from collections.abc import Callable

import pytest
import torch

import ctrnn
from experiments.reports.spreads import NotEnoughError
from experiments.studies.claims.lecture_ablation import LectureAblation
from experiments.studies.results import Results
from experiments.studies.study import Verdict

study = LectureAblation()


@pytest.fixture
def single():
    """Numbers as the command line has them."""
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(torch.float64)


def record(model: str, measured: Callable[[int], float], seed: int = 0) -> dict:
    rows = [
        {"unit": n, "set": float(n + 2), "measured before": float(n), "measured": measured(n), "influence": [1.0, math.exp(-n)]}
        for n in range(9)
    ]
    return {"key": f"{model}-{seed}", "point": {"seed": seed, "model": model}, "configuration": {}, "rows": rows,
            "measures": {"accuracy": 0.9, "loss": 0.1}, "seconds": 1.0, "diverged": None, "made": {}}  # fmt: skip


def verdict(*records: dict) -> Verdict:
    return study.verdict(Results(records))


def table(*records: dict) -> str:
    return study.tables[0].markdown(Results(records))


def test_times_in_the_order_that_was_set_reproduce_the_claim():
    found = verdict(record("lstm", lambda n: n**2.0), record("gated", math.exp))
    assert found.word == "reproduced"
    assert found.numbers == {"rank correlation, LSTM": "1", "rank correlation, gated": "1"}


def test_one_network_whose_order_is_half_lost_makes_it_partly_and_one_turned_round_not():
    ordered = record("lstm", float)
    half = record("gated", lambda n: float([4, 1, 0, 8, 3, 2, 5, 7, 6][n]))
    assert verdict(ordered, half).word == "partly"
    assert verdict(ordered, record("gated", lambda n: -float(n))).word == "not"


def test_a_unit_that_does_not_forget_is_the_slowest_and_one_that_was_not_moved_is_left_out():
    slowest_last = record("lstm", lambda n: math.inf if n == 8 else float(n))
    unmoved = record("gated", lambda n: math.nan if n == 0 else float(n))
    assert verdict(slowest_last, unmoved).word == "reproduced"
    assert "beyond what was looked at" not in table(unmoved)
    assert "beyond what was looked at" in table(record("lstm", lambda n: math.inf if n > 5 else float(n)))


def test_networks_in_which_nothing_is_forgotten_have_no_order_that_could_agree():
    assert verdict(record("lstm", float), record("gated", float), record("gated", lambda n: math.inf, 1)).word == "not"


def test_one_network_alone_decides_nothing():
    with pytest.raises(NotEnoughError, match="gated"):
        verdict(record("lstm", float))


def test_both_networks_are_drawn():
    for figure in study.figures.values():
        assert figure.draw(Results([record("lstm", float), record("gated", float)])).axes
        with pytest.raises(NotEnoughError):
            figure.draw(Results([]))


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
