"""Slow forgetting by thirty seeds: what is trained, whose windows are right, and what few seeds would have said."""

import numpy as np
import pandas as pd
import pytest
import torch
from fake_studies import draws, records_of, tables_of

from experiments.reports.spreads import NotEnoughError
from experiments.studies.claims.ohno.seeds import over_people, picked_by
from experiments.studies.registry import study_named
from experiments.studies.results import Results

PEOPLE = range(2, 11)


@pytest.fixture
def study(tmp_path, monkeypatch):
    (tmp_path / "uci_har").mkdir()
    monkeypatch.setenv("CTRNN_DATA", str(tmp_path))
    return study_named("ohno-har-seeds")


@pytest.fixture
def few_draws(monkeypatch):
    """Resamples of which the verdict and the tables say the same."""
    monkeypatch.setattr("experiments.studies.claims.ohno.seeds.DRAWS", 200)


def persons(gains, seeds=5, noise=0.0):
    """Of 100 windows of each person 80 are right with r = 0, and so many more with r = 2."""
    draw = np.random.default_rng(1)
    return pd.DataFrame(
        {"exponent": r, "seed": seed, "person": person, "windows": 100, "right": 80 + gain * (r > 0) + noise * draw.normal()}
        for r in (0.0, 2.0)
        for seed in range(seeds)
        for person, gain in zip(PEOPLE, gains, strict=True)
    )


def test_an_interval_over_people_is_as_wide_as_they_and_the_seeds_differ():
    alike = over_people(persons([2] * 9))
    assert (alike.mean, alike.low, alike.high, alike.count) == pytest.approx((0.02, 0.02, 0.02, 9))
    one = over_people(persons([18] + [0] * 8))
    assert one.mean == pytest.approx(0.02)
    # A resample has that person k times, k binomial of 9 and 1/9: none in 35 % of the draws, and 3 at 97.5 %.
    assert (one.low, one.high) == pytest.approx((0.0, 0.06))
    few, many = (over_people(persons([0] * 9, seeds, noise=5.0)) for seeds in (3, 300))
    assert few.high - few.low > 3 * (many.high - many.low)
    with pytest.raises(NotEnoughError):
        over_people(persons([2] * 9).query("exponent == 0"))


def test_few_seeds_are_their_best_one_in_validation():
    draw = np.random.default_rng(2)
    runs = pd.DataFrame(
        {"exponent": r, "seed": seed, "c": c, "validation": abs(c - best) + 0.01 * loss, "accuracy": c / 100 - 0.01 * loss}
        for r, best in ((0.0, 5), (2.0, 25))
        for seed in range(30)
        for c in (1, 5, 25)
        for loss in draw.normal(size=1)
    )
    found, (ours, theirs) = picked_by(runs, 4)
    assert theirs == {1: 0, 5: pytest.approx(1), 25: 0}
    assert ours == {1: 0, 5: 0, 25: pytest.approx(1)}
    # The accuracy falls as the loss of the chosen c rises: that of the best of four is the mean of the best of four drawn.
    best = [
        runs[(runs["exponent"] == r) & (runs["c"] == c)]["accuracy"].to_numpy()[draw.integers(30, size=(20_000, 4))].max(1).mean()
        for r, c in ((2.0, 25), (0.0, 5))
    ]
    assert found.mean() == pytest.approx(best[0] - best[1], abs=1e-3)
    with pytest.raises(NotEnoughError, match="31 seeds"):
        picked_by(runs, 31)


def test_the_last_weights_are_measured_beside_those_that_are_kept(study, tmp_path, monkeypatch):
    kept, home = torch.nn.Linear(1, 1, bias=False), "experiments.studies.claims.ohno.seeds."
    torch.nn.init.ones_(kept.weight)
    monkeypatch.setattr(home + "by_person", lambda _, model, what: [{"what": what, "weight": model.weight.item()}])
    monkeypatch.setattr(
        home + "read_state", lambda path: {"model": {"weight": torch.full((1, 1), 2.0)}, "kept": kept.state_dict()}
    )
    (tmp_path / "metrics.csv").write_text("evaluation_loss,evaluation_accuracy\n0.4,0.8\n0.2,0.9\n0.3,0.9\n")
    best, *rows = study.measure(study.runs("smoke")[0], kept, tmp_path)
    assert best == {"what": "best", "epoch": 2, "validation": 0.2}
    assert rows == [{"what": "person", "weight": 1.0}, {"what": "person, last weights", "weight": 2.0}]
    assert kept.weight.item() == 1


def test_runs_are_those_of_the_paper_by_thirty_seeds(study):
    small = study.runs("small")
    assert len(small) == 30 * (4 + 5 * 3)
    long = [run.configuration for run in small if run.point["part"] == "long"]
    assert {one.training.steps for one in long} == {200 * 59}
    assert {(one.training.rate, one.training.clip, one.training.keep) for one in long} == {(5e-3, 5.0, "best")}
    assert [run.point["seed"] for run in small] == sorted(run.point["seed"] for run in small)


def measured(gain, at_5=0.0):
    """r = 2 has so much more, in long runs at c = 5 more still; the last weights of all have 0.01 more."""

    def of(run):
        point, noise = run.point, np.random.default_rng(hash((run.point["seed"], run.point["exponent"] > 0)) % 2**32).normal()
        slow = gain * (point["exponent"] == 2.0) - 0.05 * (point["exponent"] == 4.0)
        accuracy = 0.9 + slow - (at_5 if point["part"] == "long" else 0.1) * (point["c"] != 25) + 0.005 * noise
        people = [
            {"what": f"person{kind}", "person": k, "windows": 300, "right": 300 * (accuracy + more)}
            for k in PEOPLE
            for kind, more in (("", 0.0), (", last weights", 0.01))
        ]
        validation = 0.2 + 0.01 * (point["c"] != (5 if point["part"] == "long" and point["exponent"] == 0 else 25))
        return {"accuracy": accuracy}, [{"what": "best", "epoch": 5, "validation": validation}, *people]

    return of


@pytest.mark.parametrize(
    ("gain", "at_5", "answers"),
    [
        (0.02, 0.0, ["yes"] * 7),
        (0.0, 0.0, ["no"] * 5 + ["yes"] * 2),
        (-0.02, 0.0, ["no"] * 5 + ["yes"] * 2),
        (0.0, 0.1, ["no", "no", "yes", "no", "no", "yes", "yes"]),  # by the c of leaky units that validation chooses
    ],
)
@pytest.mark.usefixtures("few_draws")
def test_the_verdict_on_seeds_follows_the_accuracies(study, gain, at_5, answers):
    results = Results(records_of(study, "small", measured(gain, at_5)))
    assert [part.answer for part in study.verdict(results).parts] == answers


@pytest.mark.usefixtures("few_draws")
def test_tables_and_figures_of_seeds_are_by_person_and_by_the_weights_that_were_kept(study):
    results = Results(records_of(study, "small", measured(0.0, 0.1)))
    text = tables_of(study, results)
    assert "| long | 2 | 25 | 0." in text
    assert "| 0% 1, 0% 5, 100% 25 |" in text
    row = next(line for line in text.splitlines() if line.startswith("| long | 2 | 25 |")).split(" | ")
    assert float(row[7][:5]) == pytest.approx(float(row[3][:5]) + 0.01, abs=2e-3)
    above, below = draws(study.figures["people"], results).axes
    assert len(above.containers) == 5
    assert [label.get_text() for label in below.get_xticklabels()] == [str(person) for person in PEOPLE]
    assert draws(study.figures["people"], Results([])) is None


def test_no_verdict_on_seeds_comes_from_runs_that_diverged_or_are_missing(study):
    lost = records_of(study, "small", lambda run: ({}, []))[:3]
    for one in lost:
        one["diverged"] = 7
    assert [table.filled(Results(lost)).lines for table in study.tables] == [(), ()]
    with pytest.raises(NotEnoughError, match="no run that did not diverge"):
        study.verdict(Results(lost))
    with pytest.raises(NotEnoughError, match="r = 4, short"):
        study.verdict(Results(one for one in records_of(study, "small", measured(0.0)) if one["point"]["exponent"] != 4.0))
