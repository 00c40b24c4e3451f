"""What gates without a bound come to: measures against closed forms, verdicts on records that are made up."""

import math

import pytest
import torch
from fake_studies import draws, records_of, tables_of
from scipy.stats import t

from experiments.models.integrators import EXACT
from experiments.reports.spreads import NotEnoughError, paired
from experiments.studies.claims.beyond_one import SPEEDS, GatesBeyondOne, _apart, _g_dt
from experiments.studies.clocks.rollout import Rollout
from experiments.studies.results import Results
from experiments.tasks.task import Batch

JITTER = (0.0, 0.01, -0.01, 0.02, -0.02)  # of seeds


def made(lost, ahead, sigmoid_lost=0.0, sigmoid_ahead=0.0, share=0.4, scatter=1):
    """Measures of a run at small, by what Euler's weights lose where solved, and by how far exact runs are ahead at speeds."""

    def measured(run):
        gate, trained, noise = run.point["gate"], run.point["trained"], scatter * JITTER[run.point["seed"]]
        off, behind = (lost, ahead) if gate == "softplus" else (sigmoid_lost, sigmoid_ahead)
        off = off + noise if off and trained == "euler" else 0.0
        cost = {"kind": "cost", "finite": True, "own": 0.9, "exact": 0.9 - off, "apart": 0.5}
        cost |= {"median": 0.7, "largest": 3.0, "above 1": 0.0 if gate == "sigmoid" else share + noise, "above 2": 0.1}
        accuracies = {s: 0.9 - (behind + noise if s > 1 and behind and trained == "euler" else 0.0) for s in SPEEDS}
        rows = [
            {"kind": "speed", "way": way, "length": s, "accuracy": accuracies[s]} for way in ("own", "solved") for s in SPEEDS
        ]
        curve = [{"kind": "training", "step": step, "g_dt_high": 1.0 + step} for step in (1, 2) if trained != EXACT]
        return {"loss": 0.1, "accuracy": 0.9}, [cost, *rows, *curve]

    return records_of(GatesBeyondOne(), "small", measured)


def without_model(records, **point):
    """The same, with the trainings of these points diverged."""
    gone = [all(record["point"][axis] == value for axis, value in point.items()) for record in records]
    lost = {"measures": {}, "rows": [], "diverged": 9}
    return [record | lost if away else record for record, away in zip(records, gone, strict=True)]


def answers(records):
    """For recall, the answers of the five parts that each task has."""
    return [part.answer for part in GatesBeyondOne().verdict(Results(records)).parts][:5]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (made(0.2, 0.4), ["yes", "yes", "yes", "yes", "yes"]),
        (made(0.2, 0.4, sigmoid_lost=0.2, sigmoid_ahead=0.4), ["yes", "yes", "no", "yes", "no"]),  # the control refutes it
        (made(0.0, 0.0), ["yes", "no", "no", "no", "no"]),
        (made(0.03, 0.09, share=0.05, scatter=3), ["undecided"] * 5),  # ahead, and not surely by 0.1
        (made(0.2, 0.4, share=0.0), ["no", "yes", "yes", "yes", "yes"]),
    ],
)
def test_the_parts_follow_from_the_intervals_of_pairs_of_seeds_and_from_the_control(records, expected):
    assert answers(records) == expected


def test_the_share_is_judged_beside_the_differences():
    share = GatesBeyondOne().verdict(Results(made(0.2, 0.4))).parts[0]
    assert "of g dt is above 1" in share.claim
    assert share.holds.error < 0.02


def test_a_training_that_diverged_is_no_pair_and_is_counted_in_the_table():
    records = without_model(made(0.2, 0.4), task="tones", gate="softplus", trained="euler", seed=1)
    records = without_model(records, gate="exponential", trained="euler")
    results = Results(records)
    last = GatesBeyondOne().verdict(results).parts[-1]
    assert (last.claim.startswith("exponential gates"), last.answer) == (True, "yes")
    tables = tables_of(GatesBeyondOne(), results)
    assert "| tones | softplus | Euler | 1 of 5 |" in tables
    assert "| recall | exponential | Euler | 5 of 5 | – |" in tables
    assert "| recall | exponential | Euler, capped at 1 | 0 of 5 |" in tables
    assert all(draws(figure, results) for figure in GatesBeyondOne().figures.values())


@pytest.mark.parametrize("left", [0, 1])
def test_where_fewer_than_two_trainings_are_left_of_a_task_the_others_are_judged(left):
    records = made(0.2, 0.4)
    for seed in range(left, 5):
        records = without_model(records, task="tones", gate="softplus", trained="euler", seed=seed)
    assert answers(records) == ["yes"] * 5
    tones = [part for part in GatesBeyondOne().verdict(Results(records)).parts if part.claim.startswith("tones")]
    assert [part.answer for part in tones] == ["undecided"]
    assert f"{5 - left} of 5 trainings diverged" in tones[0].evidence


def test_where_capped_steps_diverge_too_it_is_said_and_where_none_diverges_nothing_is():
    records = without_model(made(0.2, 0.4), gate="exponential")
    assert GatesBeyondOne().verdict(Results(records)).parts[-1].answer == "no"
    assert GatesBeyondOne().verdict(Results(made(0.2, 0.4))).parts[-1].answer == "undecided"


@pytest.mark.parametrize("left_out", [{"gate": "sigmoid"}, {"gate": "softplus"}])
def test_without_the_control_or_the_gates_there_is_no_verdict(left_out):
    ((axis, value),) = left_out.items()
    with pytest.raises(NotEnoughError):
        GatesBeyondOne().verdict(Results([record for record in made(0.2, 0.4) if record["point"][axis] != value]))


def test_one_seed_gives_no_interval():
    with pytest.raises(NotEnoughError, match="two seeds"):
        GatesBeyondOne().verdict(Results([record for record in made(0.2, 0.4) if record["point"]["seed"] == 0]))


def rollout(states, g_dt=(0.5, 1.5)):
    return Rollout(states, states, torch.tensor(g_dt), states)


def test_states_apart_are_a_share_of_their_spread_and_padding_is_none_of_it():
    solved = torch.tensor([1.0, -1.0, 1.0, -1.0])[:, None, None].expand(4, 2, 3).clone()  # a deviation of 1 in each unit
    stepped = solved + 0.5
    stepped[2:, 1] = 1e6
    batch = Batch(torch.zeros(4, 2, 1), torch.zeros(2), lengths=torch.tensor([4, 2]))
    assert _apart([batch], [rollout(stepped)], [rollout(solved)]) == pytest.approx(0.5)
    assert _apart([batch], [None], [rollout(solved)]) is None


def test_g_dt_that_is_no_number_is_above_every_level_and_not_the_largest():
    row = _g_dt([rollout(torch.zeros(1, 1, 1), (0.5, 1.5, 3.0, math.nan, math.inf))])
    assert (row["above 1"], row["above 2"], row["largest"]) == (0.8, 0.6, 3.0)


def test_the_interval_of_pairs_is_that_of_student():
    differences = [0.1, 0.3, 0.2, 0.25]
    found, mean = paired(differences), sum(differences) / 4
    half = t.ppf(0.975, 3) * (sum((value - mean) ** 2 for value in differences) / 3 / 4) ** 0.5
    assert (found.mean, found.low, found.high) == pytest.approx((mean, mean - half, mean + half))
    assert paired([0.1, 0.1]) == paired([0.1] * 2)
    assert (paired([0.1, 0.1]).low, paired([0.1]).low) == (0.1, -math.inf)
    assert math.isnan(paired([]).mean)
