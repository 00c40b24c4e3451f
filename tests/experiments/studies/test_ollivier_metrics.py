"""Metrics and dampenings compared: pairs by seed, and runs that start alike however activities are written."""

import dataclasses
import functools
import math

import numpy as np
import pandas as pd
import pytest
import torch
from fake_studies import draws, records_of, tables_of
from scipy.stats import ttest_rel

import ctrnn
import discretize
from experiments.reports.spreads import NotEnoughError
from experiments.seeds import generator
from experiments.studies.claims.metrics import DAMPENINGS, WRITTEN, MetricRun, difference
from experiments.studies.registry import study_named
from experiments.studies.results import Results
from experiments.symbols.laws.equal_blocks import EqualBlocks
from experiments.symbols.scores import bits


def test_differences_are_of_pairs():
    draw = np.random.default_rng(0)
    hard = 100 * draw.normal(size=8)  # which both of a seed share
    one, other = hard + draw.normal(size=8), hard + 3 + draw.normal(size=8)
    rows = pd.DataFrame(
        {"seed": seed, "kind": kind, "training": value}
        for kind, values in (("a", one), ("b", [*other, 50.0]))  # a ninth of one kind alone
        for seed, value in enumerate(values)
    )
    found, expected = difference(rows, "kind", "a", "b"), ttest_rel(one, other).confidence_interval(0.95)
    assert (found.mean, found.low, found.high) == pytest.approx(((one - other).mean(), *expected))
    assert found.count == 8
    with pytest.raises(NotEnoughError, match="both a and c"):
        difference(rows, "kind", "a", "c")


def measured(gap, other_gap):
    """Records in which the writings are so many bits apart by the paper's dampening, and by that of other sequences."""

    def of(run):
        given, noise = run.configuration, np.random.default_rng(run.point["seed"]).normal()
        bits = 130 + 100 * noise + 30 * (given.dampening == "sequences") - 10 * (given.metric == "natural")
        bits += {"paper": gap, "sequences": other_gap}.get(given.dampening, 0.0) * (given.written == "logistic")
        rows = [{"step": step, "training": bits, "validation": bits + 5} for step in (1, 5, 20, 100)]
        return {"training": bits}, rows

    return Results(records_of(study_named("ollivier-metrics"), "small", of))


@pytest.mark.parametrize(("gaps", "answers"), [((20.0, 1.0), ["yes", "yes"]), ((1.0, 20.0), ["no", "no"])])
def test_the_verdict_follows_the_bits(gaps, answers):
    assert [part.answer for part in study_named("ollivier-metrics").verdict(measured(*gaps)).parts] == answers


def test_tables_and_figures_compare_seed_by_seed():
    study, results = study_named("ollivier-metrics"), measured(1.0, 20.0)
    text = tables_of(study, results)
    paired = "| RBPM | 0.01 of the metric of random symbols | tanh | 30 (30 to 30) |"  # so that seeds make no interval
    assert paired in text
    assert "| RBPM | 0.01 of the metric of random symbols | logistic | 49 (49 to 49) |" in text
    assert "| 1, as in the paper | RUOP | tanh | -10 (-10 to -10) |" in text
    assert "| RUOP | 0.01 | 0 (0) |" in text
    assert "| natural | 0.01 |" not in text
    assert [ax.get_title(loc="left") for ax in draws(study.figures["regrets"], results).axes] == list(DAMPENINGS.values())
    with pytest.raises(NotEnoughError):
        study.verdict(Results(one for one in results.records if one["point"]["dampening"] != "sequences"))


def by_hand(given):
    """The regrets after one step, from the settings in print."""
    source = EqualBlocks(least=given.least, most=given.most)
    train, validation = source.draw(given.seed), source.draw(given.seed, "validation")
    draws = generator(given.seed, "metrics")
    sizes = {"edges": given.edges, "activation": given.written, "dtype": torch.float64, "generator": draws}
    model = discretize.SymbolModel(ctrnn.glnn(3, given.units, **sizes))
    model.begin(train.symbols[:, None], generator=draws)
    others = torch.randint(3, train.symbols[:, None].shape, generator=draws)
    number, others = {"paper": (1.0, None), "weak": (0.01, None), "none": (0.0, None), "sequences": (0.01, others)}[
        given.dampening
    ]
    settings = {"dampening": number, "read_out_dampening": number, "dampened_by": others}
    nats = discretize.RiemannianAscent(model, given.metric, **settings).step(train.symbols[:, None])
    with torch.no_grad():
        found = bits(model(validation.symbols[:, None])[:, 0].log_softmax(-1), *validation)
    laws = [float(source.bits(each.symbols).sum()) for each in (train, validation)]
    return [-nats / math.log(2) - laws[0], float(found.sum()) - laws[1]]


@functools.cache
def carried_out(dampening, written):
    """The settings of a run of five steps, and its rows."""
    study = study_named("ollivier-metrics")
    wanted = {"seed": 0, "metric": "rbpm", "dampening": dampening, "written": written}
    (run,) = (run for run in study.runs("smoke") if {name: getattr(run.configuration, name) for name in wanted} == wanted)
    given = dataclasses.replace(run.configuration, steps=5)
    return given, pd.DataFrame(study.carry_out(dataclasses.replace(run, configuration=given), None).rows)


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("dampening", DAMPENINGS)
def test_the_regrets_after_one_step_are_those_by_hand(dampening, written):
    given, rows = carried_out(dampening, written)
    assert rows["step"].tolist() == [1, 5]
    assert rows[["training", "validation"]].iloc[0].tolist() == pytest.approx(by_hand(given))
    assert MetricRun.from_json(given.to_json()) == given


@pytest.mark.parametrize("dampening", ["paper", "sequences"])
def test_runs_of_one_seed_go_on_alike_in_both_writings_by_other_sequences_and_not_by_the_paper(dampening):
    one, other = (carried_out(dampening, written)[1][["training", "validation"]] for written in WRITTEN)
    gap = float((one - other).abs().max().max())
    assert gap < 1e-3 if dampening == "sequences" else gap > 0.1


def test_regrets_fall_step_by_step():
    assert carried_out("paper", "tanh")[1]["training"].is_monotonic_decreasing
