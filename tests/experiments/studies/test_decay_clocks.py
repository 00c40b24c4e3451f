"""Decays |h|^r h on recordings played at other speeds: what is measured, against autograd, and verdicts on made-up records."""

import dataclasses
from pathlib import Path

import pytest
import torch
from fake_studies import draws, records_of, tables_of

from experiments.models.integrators import EXACT
from experiments.reports.spreads import NotEnoughError
from experiments.runs.configuration import configuration
from experiments.studies.claims.memory.decay_clocks import SPEEDS, DecayClocks
from experiments.studies.claims.recordings import row_at
from experiments.studies.clocks.rollout import roll_out
from experiments.studies.results import Results
from experiments.studies.study import DATA, Run

STUDY = DecayClocks()


@pytest.mark.parametrize("r", [0.0, 2.0])
def test_the_steepest_forgetting_is_that_of_autograd(r):
    made = configuration(task="har", data="stand-in", field="leaky-power", exponent=r, integrator="euler", hidden=5, speed=2,
                         clock_given=True, alpha=0.3, evaluation=20, threads=1)  # fmt: skip
    model, steepest = made.untrained_model(), 0.0
    batch = next(iter(made.task.evaluation("test", 20, 20, 0)))
    h = torch.zeros(batch.size, 5, dtype=torch.float32)
    for x in batch.xs.float():
        before = h.clone().requires_grad_()
        (slope,) = torch.autograd.grad(model.field.decay(before).sum(), before)
        steepest = max(steepest, float(2.0 * 0.3 * slope.max()))
        with torch.no_grad():
            h = h + 2.0 * model.field(x, h)
    # Single precision over 64 steps, by sums in another order.
    assert row_at(made.task, model, made.training)["steepest"] == pytest.approx(steepest, rel=1e-4)


def test_weights_are_run_as_trained_on_every_clock_and_by_the_others_on_the_fastest():
    made = configuration(task="har", data="stand-in", field="leaky-power", exponent=2.0, integrator="splitting", hidden=5,
                         alpha=0.05, evaluation=20, threads=1)  # fmt: skip
    model = made.untrained_model()
    rows = STUDY.measure(Run("one", {"recording": "har", "trained": "splitting"}, made), model, Path())
    found = {(row["way"], row["clock_given"], row["clock"]): row["loss"] for row in rows}
    own = {("splitting", given, c) for given in (True, False) for c in SPEEDS["har"]}
    assert len(rows) == len(found)
    assert found.keys() == own | {("euler", True, 8.0), (EXACT, True, 8.0)}
    field = model.field
    for (way, given, c), loss in found.items():
        if way == EXACT:
            continue
        batch = next(iter(dataclasses.replace(made.task, speed=c, clock_given=given).evaluation("test", 20, 20, 0)))
        h, s = torch.zeros(batch.size, 5, dtype=torch.float32), 0.05 * (c if given else 1.0)
        with torch.no_grad():
            for x in batch.xs.float():
                f = field.flow(field.project(x), h) / 0.05 + h**3
                h = s * f + (h / (1 + 2 * s * h**2).sqrt() if way == "splitting" else h - s * h**3)
            expected = torch.nn.functional.cross_entropy(model.read_out(h), batch.targets)
        # Single precision over up to 512 steps, by sums in another order.
        assert loss == pytest.approx(float(expected), rel=1e-4), (way, given, c)


def test_states_before_samples_begin_with_zero():
    made = configuration(task="har", data="stand-in", field="gated-power", exponent=2.0, integrator="euler", hidden=5,
                         evaluation=9, init="chrono", t_max=9, threads=1)  # fmt: skip
    found = roll_out(made.untrained_model(), next(iter(made.task.evaluation("test", 9, 9, 0))), 1.0)
    before = found.before.reshape(found.states.shape)
    assert torch.equal(before, torch.cat([torch.zeros_like(before[:1]), found.states[:-1]]))


@pytest.fixture
def recordings(tmp_path, monkeypatch):
    for folder in ("uci_har", "japanese_vowels"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv(DATA, str(tmp_path))


def clock_rows(point, falls):
    """Accuracy 0.9 at c = 1, with a fall at the fastest clock; hidden at all others."""
    r, speeds = point["exponent"], SPEEDS[point["recording"]]
    rows = []
    for way in ("euler", "splitting", EXACT):
        own = way == point["trained"]
        for given, c in [(g, c) for g in (True, False) for c in speeds if own or (g and c == speeds[-1])]:
            if given:
                fall = falls.get(way, 0.0) if c == speeds[-1] else 0.0
            else:
                fall = 0.0 if c == 1 else falls.get(r, 0.0) + point["seed"] / 100
            rows.append({"way": way, "clock_given": given, "clock": c, "steepest": c, "finite": True,
                         "accuracy": 0.9 - fall - point["seed"] / 1000})  # fmt: skip
    return rows


@pytest.mark.parametrize(
    ("falls", "answers"),
    [
        ({"euler": 0.5, 0.0: 0.3, 2.0: 0.1}, ["yes", "yes", "yes", "yes"]),
        ({"euler": 0.5, EXACT: 0.2, 0.0: 0.3}, ["no", "yes", "yes", "yes"]),
        ({"euler": 0.5, "splitting": 0.2, 0.0: 0.3}, ["yes", "no", "yes", "yes"]),
        ({"euler": 0.05, 0.0: 0.3}, ["yes", "yes", "no", "yes"]),
        ({"euler": 0.5, 0.0: 0.1, 2.0: 0.3}, ["yes", "yes", "yes", "no"]),
        ({"euler": 0.5, 0.0: 0.11, 2.0: 0.1}, ["yes", "yes", "yes", "undecided"]),  # -0.013 to 0.033, and 0.007 is what counts
    ],
)
def test_decays_on_clocks_are_judged_by_their_falls(falls, answers, recordings):
    records = records_of(STUDY, "small", lambda run: ({"accuracy": 0.9}, clock_rows(run.point, falls)))
    results = Results(records)
    verdict = STUDY.verdict(results)
    # The last part is of two recordings and two kinds of units.
    assert [part.answer for part in verdict.parts] == [*answers, *answers[-1:] * 3], verdict.sentence
    vowels = Results(one for one in records if one["point"]["recording"] == "vowels")
    assert "HAR" not in STUDY.verdict(vowels).sentence


def test_falls_are_told_with_their_interval_and_accuracies_as_run(recordings):
    falls = {"euler": 0.5, 0.0: 0.3, 2.0: 0.1}
    records = records_of(STUDY, "small", lambda run: ({"accuracy": 0.9}, clock_rows(run.point, falls)))
    results = Results(records)
    tables = tables_of(STUDY, results)
    # Hidden, fall by 0.3 and 0.1, and 0, 0.01 or 0.02 for the seed: Welch's interval of the difference of two means of three
    # is t(0.975, 4 degrees of freedom) sqrt(2 / 3) 0.01 = 2.776 * 0.00816 = 0.0227 to both sides.
    hidden = "0.310 (0.300–0.320) | 0.010 (0.000–0.020) | 0.110 (0.100–0.120) | 0.200 (0.177 to 0.223)"
    assert f"| UCI HAR | leaky | hidden, mean | {hidden} |" in tables
    assert "| JapaneseVowels | gated | given, Euler | 0.500 | 0.500 | 0.500 |" in tables
    assert "| given | leaky | 0 | Euler | 0.8990 (0.8980–0.9000) |" in tables
    assert draws(STUDY.figures["har-gated"], results) is not None
    vowels = Results(one for one in records if one["point"]["recording"] == "vowels")
    assert "UCI HAR: left out" in tables_of(STUDY, vowels)


def test_decays_are_not_judged_without_the_control_or_where_nothing_was_learned(recordings):
    def judged(keep, lower=0.0):
        made = records_of(STUDY, "small", lambda run: ({}, clock_rows(run.point, {"euler": lower, EXACT: lower})))
        for one in made:
            for row in one["rows"]:
                row["accuracy"] -= lower
        return STUDY.verdict(Results(filter(keep, made)))

    for keep in (lambda one: one["point"]["exponent"], lambda one: one["point"]["trained"] != "splitting", lambda one: False):
        with pytest.raises(NotEnoughError, match="r = 0 and r = 2"):
            judged(keep)
    with pytest.raises(NotEnoughError, match="no run is done"):  # of gated units r = 2 is still to come
        judged(lambda one: one["point"]["cell"] == "leaky-power" or not one["point"]["exponent"])
    with pytest.raises(NotEnoughError, match="no model has learned JapaneseVowels"):
        judged(lambda one: True, lower=0.5)
