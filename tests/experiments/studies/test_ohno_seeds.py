"""Slow forgetting by thirty seeds: what is trained, whose windows are right, and what few seeds would have said."""

import numpy as np
import pandas as pd
import pytest
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


def test_few_seeds_choose_by_validation_and_their_differences_spread_as_those_of_drawn_seeds():
    draw = np.random.default_rng(2)
    runs = pd.DataFrame(
        {"exponent": r, "seed": seed, "c": c, "validation": abs(c - 5) + 0.01 * loss, "accuracy": c / 100 + 0.01 * right}
        for r in (0.0, 2.0)
        for seed in range(30)
        for c in (1, 5, 25)
        for loss, right in [draw.normal(size=2)]
    )
    found, chosen = picked_by(runs, 4)
    assert chosen == {1: 0, 5: pytest.approx(1), 25: 0}
    right = runs[runs["c"] == 5].pivot_table(index="seed", columns="exponent", values="accuracy")
    assert found.mean() == pytest.approx(right[2.0].mean() - right[0.0].mean(), abs=5e-4)
    expected = (right.var(ddof=0).sum() / 4) ** 0.5
    assert found.std() == pytest.approx(expected, rel=0.06)
    with pytest.raises(NotEnoughError, match="31 seeds"):
        picked_by(runs, 31)


def test_runs_are_the_papers_and_verdicts_follow_the_accuracies(study):
    small = study.runs("small")
    assert len(small) == 30 * (3 + 5 * 3)
    long = [run.configuration for run in small if run.point["part"] == "long"]
    assert {one.training.steps for one in long} == {200 * 59}
    assert {(one.training.rate, one.training.clip, one.training.keep) for one in long} == {(5e-3, 5.0, "best")}
    assert [run.point["seed"] for run in small] == sorted(run.point["seed"] for run in small)

    def measured(gain):
        def of(run):
            point, noise = run.point, np.random.default_rng(hash((run.point["seed"], run.point["exponent"] > 0)) % 2**32).normal()
            slow = gain * (point["exponent"] == 2.0) - 0.05 * (point["exponent"] == 4.0)
            accuracy = 0.9 + slow - 0.1 * (point["c"] != 25) + 0.005 * noise
            people = [{"what": "person", "person": k, "windows": 300, "right": 300 * accuracy} for k in PEOPLE]
            best = {"what": "best", "epoch": 5, "validation": 0.2 + 0.01 * (point["c"] != 25)}
            return {"accuracy": accuracy}, [best, *people]

        return of

    answers = {}
    for gain in (0.02, 0.0, -0.02):
        results = Results(records_of(study, "small", measured(gain)))
        answers[gain] = [part.answer for part in study.verdict(results).parts]
    assert answers[0.02] == ["yes", "yes", "yes", "yes", "yes", "no"]
    assert answers[0.0][:3] == ["no"] * 3
    assert answers[-0.02][:3] == ["no"] * 3
    text = tables_of(study, results)
    assert "| long | 2 | 25 |" in text
    assert "0% 1, 0% 5, 100% 25 |" in text
    above, below = draws(study.figures["people"], results).axes
    assert len(above.containers) == 5
    assert [label.get_text() for label in below.get_xticklabels()] == [str(person) for person in PEOPLE]
    assert draws(study.figures["people"], Results([])) is None
    with pytest.raises(NotEnoughError, match="r = 4, short"):
        study.verdict(Results(one for one in results.records if one["point"]["exponent"] != 4.0))
