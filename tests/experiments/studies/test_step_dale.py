"""Networks under Dale's law and beside it: how they start, what is told of one that is known, and verdicts on made-up records."""

import pytest
import torch
from fake_studies import records_of, tables_of
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError
from experiments.studies.claims.time_steps.dale import DALE, FREED, RATE, USUAL, DaleSteps, forbidden, looked_at
from experiments.studies.results import Results
from experiments.tasks.cognitive import Rhythm

STUDY = DaleSteps()
# What is lost, invented, and swings, by the kind of network.
CLAIMED = {DALE: (0.5, 0.6, 0.9), FREED: (0.2, 0.1, 0.4), USUAL: (0.3, 0.2, 0.5)}


def records(changed=None, seeds=5, without=(), own=0.95):
    """Records in which numbers of a seed are a little apart from those of others; `changed`: (task, dt, column) -> a number."""

    def measured(run):
        at = run.point
        if at["seed"] >= seeds or at["units"] in without:
            return None
        lost, invented, swings = (value + (0.01 if at["units"] == DALE else 0.0) * at["seed"] for value in CLAIMED[at["units"]])
        row = {"own": own, "exact": own - lost, "lost": lost, "invented": invented, "swings": swings, "validation": 0.1}
        for (task, dt, column), value in (changed or {}).items():
            if at["units"] == DALE and task in (at["task"], "") and dt in (at["dt"], 0):
                row[column] = value + 0.001 * at["seed"]
        return {}, [row | {"verdict": "the step's"}]

    return Results(records_of(STUDY, "small", measured))


def answers(results):
    return [part.answer for part in STUDY.verdict(results).parts]


def test_all_parts_hold_of_records_as_claimed():
    assert answers(records()) == ["yes"] * 8


@pytest.mark.parametrize(
    ("changed", "no"),
    [
        ({("rhythm", 1.0, "lost"): 0.2}, [0]),
        ({("rhythm", 0.5, "lost"): 0.2}, [1]),
        ({("rhythm", 0.2, "lost"): 0.1}, [2]),
        ({("decision", 0, "lost"): 0.2, ("delayed-match", 0, "lost"): 0.2}, [3]),
        ({("", 0, "invented"): 0.1}, [4, 6]),
        ({("", 0, "swings"): 0.4}, [5, 7]),
    ],
)
def test_each_part_can_fail(changed, no):
    assert [k for k, answer in enumerate(answers(records(changed))) if answer == "no"] == no


def test_losses_of_networks_that_learned_nothing_are_not_compared():
    assert answers(records(own=0.5)) == ["undecided"] * 4 + ["yes"] * 4


@pytest.mark.parametrize("missing", [{"seeds": 1}, {"without": (FREED,)}, {"without": (DALE,)}, {"without": (USUAL,)}])
def test_one_seed_or_one_side_decides_nothing(missing):
    with pytest.raises(NotEnoughError, match="two seeds of each kind"):
        STUDY.verdict(records(**missing))


def test_tables_name_networks_by_their_signs_and_count_verdicts():
    shown = tables_of(STUDY, records())
    assert "same start, free signs" in shown
    assert "5 the step's" in shown


def test_networks_of_one_seed_start_alike_with_and_without_the_law():
    runs = {run.point["units"]: run.configuration for run in STUDY.runs("smoke")}
    starts = {units: asked.untrained_model() for units, asked in runs.items()}
    kept, free = (dict(starts[units].field.candidate.named_parameters()) for units in (DALE, FREED))
    assert "weight_h" in free
    assert "parametrizations.weight_h.original" in kept
    for units in (DALE, FREED):
        model = starts[units]
        assert_close(model.field.candidate.weight_h, starts[DALE].field.candidate.weight_h, rtol=0, atol=0)
        assert_close(model.read_out.weight, starts[DALE].read_out.weight, rtol=0, atol=0)
        assert forbidden(model) == 0.0
    assert forbidden(starts[USUAL]) > 0.2


def test_a_step_that_turns_round_is_told_to_invent_what_moves(monkeypatch):
    for name, samples in (("WAIT", 25), ("LOOK", 25), ("MOST", 200)):
        monkeypatch.setattr(f"discretize.analysis.refine.{name}", samples)
    # h' = relu(1 - 3 h) - h rests at 1/4, where Euler's step at dt = 1 multiplies a difference by -3.
    field = ctrnn.plain(1, 2, nonlinearity="relu")
    with torch.no_grad():
        for name, value in (("weight_x", 0.0), ("weight_h", 0.0), ("bias", 1.0)):
            getattr(field.candidate, name).fill_(value)
        field.candidate.weight_h.fill_diagonal_(-3.0)
    model = SequenceModel(discretize.DiscreteRNN(field), 1)
    found = looked_at(model, Rhythm(dt=1.0, length=6), seed=0)
    assert (found["invented"], found["swung"], found["missed"], found["without bound"]) == (1.0, 1.0, 0.0, 0.0)
    assert found["swings"] > 0
    assert found["verdict"] == "the step's"


def test_other_rates_are_tried_by_one_seed():
    tried = {(point["rate"], point["seed"]) for point in STUDY.points(STUDY.sizes["small"])}
    assert {rate for rate, _ in tried} == {1e-3, RATE, 1e-2, 3e-2}
    assert {seed for rate, seed in tried if rate != RATE} == {0}
    assert {seed for rate, seed in tried if rate == RATE} == set(range(5))
