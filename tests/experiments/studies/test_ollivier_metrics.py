"""Metrics and dampenings compared: pairs by seed, and runs that start alike however activities are written."""

import numpy as np
import pandas as pd
import pytest
from fake_studies import draws, records_of, tables_of
from scipy.stats import ttest_rel

from experiments.reports.spreads import NotEnoughError
from experiments.studies.claims.metrics import DAMPENINGS, METRICS, WRITTEN, MetricRun, paired
from experiments.studies.registry import study_named
from experiments.studies.results import Results


def test_differences_are_of_pairs():
    draw = np.random.default_rng(0)
    hard = 100 * draw.normal(size=8)  # which both of a seed share
    one, other = hard + draw.normal(size=8), hard + 3 + draw.normal(size=8)
    rows = pd.DataFrame(
        {"seed": seed, "kind": kind, "training": value}
        for kind, values in (("a", one), ("b", [*other, 50.0]))  # a ninth of one kind alone
        for seed, value in enumerate(values)
    )
    found, expected = paired(rows, "kind", "a", "b"), ttest_rel(one, other).confidence_interval(0.95)
    assert (found.mean, found.low, found.high) == pytest.approx(((one - other).mean(), *expected))
    assert found.count == 8
    with pytest.raises(NotEnoughError, match="both a and c"):
        paired(rows, "kind", "a", "c")


def test_the_verdict_follows_the_bits():
    study = study_named("ollivier-metrics")

    def measured(cost, gap, gain):
        def of(run):
            given, noise = run.configuration, np.random.default_rng(run.point["seed"]).normal()
            bits = 30 + 100 * noise + cost * (given.dampening == "sequences") - gain * (given.metric == "natural")
            bits += (
                gap * (given.dampening == "paper") * (given.written == "logistic")
                + 0.01
                * np.random.default_rng(
                    [run.point["seed"], len(given.dampening), METRICS[0].index(given.metric) if given.metric in METRICS[0] else 2]
                ).normal()
            )
            rows = [{"step": step, "training": bits, "validation": bits + 5} for step in (1, 5, 20, 100)]
            return {"training": bits}, rows

        return of

    for cost, gap, gain, answers in (
        (0.0, 20.0, 10.0, ["yes"] * 10),
        (0.0, 0.0, 0.0, ["no", *["yes"] * 5, *["no"] * 4]),
        (30.0, 20.0, -10.0, ["yes", "yes", *["no"] * 8]),
    ):
        results = Results(records_of(study, "small", measured(cost, gap, gain)))
        assert [part.answer for part in study.verdict(results).parts] == answers
    assert tables_of(study, results).count("| natural | none |") == 3
    assert [ax.get_title(loc="left") for ax in draws(study.figures["regrets"], results).axes] == list(DAMPENINGS.values())
    with pytest.raises(NotEnoughError):
        study.verdict(Results(one for one in results.records if one["point"]["dampening"] != "sequences"))


def test_runs_of_one_seed_start_alike_and_other_sequences_keep_them_so(tmp_path):
    study, found = study_named("ollivier-metrics"), {}
    for run in study.runs("smoke"):
        given = run.configuration
        assert MetricRun.from_json(given.to_json()) == given
        if given.seed == 0 and given.metric == "rbpm":
            found[given.dampening, given.written] = pd.DataFrame(study.carry_out(run, tmp_path).rows)
    assert {len(rows) for rows in found.values()} == {3}  # 1, 5 and 20 steps
    for dampening in DAMPENINGS:
        one, other = (found[dampening, written][["training", "validation"]] for written in WRITTEN)
        gap = (one - other).abs().to_numpy()
        assert (gap.max() < 1e-3) == (dampening == "sequences") or dampening == "none"
    assert found["paper", "tanh"]["training"].is_monotonic_decreasing
