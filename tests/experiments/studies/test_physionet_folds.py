"""Patients in folds: the intervals beside DeLong's formula and a loop, the models, and what the study says of its records."""

import dataclasses

import numpy as np
import pytest
import torch
from datasets import make_patients
from fake_studies import draws, records_of, tables_of
from scipy.stats import rankdata
from torch.testing import assert_close

from experiments.reports.spreads import NotEnoughError
from experiments.runs.configuration import configuration
from experiments.studies.claims.physionet_folds import (
    COMPARISONS,
    COUNT,
    CUT,
    MIXED,
    MODELS,
    STEPS,
    TRAINED,
    PhysioNetFolds,
    drawn,
    parts_found,
    ranked,
)
from experiments.studies.resampling import auroc_drawn, difference_drawn, mean_drawn, seed_deviation
from experiments.studies.results import Results, where
from experiments.tasks.ranking import auroc
from experiments.tasks.recorded.patients import Patients


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    made = tmp_path_factory.mktemp("data")
    (made / "physionet2012").mkdir()
    make_patients(made / "physionet2012", 50)
    return made


@pytest.fixture(autouse=True)
def there(data, monkeypatch):
    monkeypatch.setenv("CTRNN_DATA", str(data))


def scores_of(patients, better, seed=0):
    """Two scores of the same patients that are related, with ties, and whether each patient died."""
    draw = np.random.default_rng(seed)
    died = draw.random(patients) < 0.2
    shared = draw.normal(size=patients) + died
    return [(10 * (shared + 0.5 * draw.normal(size=patients) + gain * died)).round() for gain in (better, 0.0)], died


def components(scores, died):
    """Of each patient who died, and each other one, the share of the others who stand on the right side."""
    above = (scores[died][:, None] > scores[~died]) + (scores[died][:, None] == scores[~died]) / 2
    return above.mean(1), above.mean(0)


def test_the_interval_of_a_paired_difference_is_that_of_delong():
    both, died = scores_of(1200, 0.3)
    drawn_aurocs = [auroc_drawn(scores, np.flatnonzero(died), 0, 4000)[None] for scores in both]
    (of_ones, of_zeros), (other_ones, other_zeros) = (components(scores, died) for scores in both)
    apart = of_ones - other_ones, of_zeros - other_zeros
    expected = np.sqrt(sum(values.var(ddof=1) / len(values) for values in apart))
    found = difference_drawn({0: drawn_aurocs[0]}, {0: drawn_aurocs[1]})
    assert found.mean == pytest.approx(apart[0].mean(), abs=1e-6)  # in single precision
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * expected, rel=0.08)  # 4000 draws
    # Unpaired it would be wider: the draws are the same for both.
    assert found.high - found.low < 0.9 * (mean_drawn({0: drawn_aurocs[0]}).high - mean_drawn({0: drawn_aurocs[0]}).low)


def test_a_draw_is_the_auroc_of_the_patients_as_often_as_they_are_drawn():
    (scores, _), died = scores_of(60, 0.0)
    found = auroc_drawn(scores, np.flatnonzero(died), 3, 5)
    assert found[0] == pytest.approx(auroc(torch.tensor(scores), torch.tensor(died).long()), abs=1e-6)
    draw = np.random.default_rng(3)
    times = [draw.multinomial(int(some.sum()), np.full(int(some.sum()), 1 / some.sum()), size=5) for some in (died, ~died)]
    for k in range(5):
        again = np.concatenate([np.repeat(scores[some], often[k]) for some, often in zip((died, ~died), times, strict=True)])
        labels = np.repeat([1, 0], [died.sum(), (~died).sum()])
        assert found[1 + k] == pytest.approx(auroc(torch.tensor(again), torch.tensor(labels)), abs=1e-6)
    with pytest.raises(NotEnoughError, match="who died and patients who did not"):
        auroc_drawn([1, 2], [], 0)


def test_noise_of_seeds_is_added_by_the_root_of_how_many_there_are():
    aurocs = {fold: np.full((2, 4001), 0.8) for fold in range(5)}
    for fold, values in aurocs.items():
        values[:, 0] += [-0.01 * fold, 0.01 * fold]
    # Deviations of two numbers 2 a apart: a sqrt(2), pooled over folds.
    deviation = seed_deviation([aurocs])
    assert deviation == pytest.approx(0.01 * np.sqrt(2 * np.mean([0, 1, 4, 9, 16])))
    one = {fold: values[:1] for fold, values in aurocs.items()}
    assert np.isnan(seed_deviation([one]))
    found = difference_drawn(aurocs, one, 0.02)
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * 0.02 * np.sqrt((1 / 2 + 1) / 5), rel=0.08)
    assert difference_drawn(one, one, float("nan")).high == 0


@pytest.mark.filterwarnings("ignore::discretize.StepWarning")
def test_models_see_no_later_sample_and_without_times_no_stamp():
    for name, (_, settings) in MODELS.items():
        chosen = configuration("physionet", hidden=4, data="unused", **settings)
        task, model = chosen.task, chosen.untrained_model().double()
        seen = (torch.rand(6, 3, task.input_size // 2) < 0.5).double()
        xs = torch.cat([torch.randn(seen.shape) * seen, seen], -1)
        ts = torch.tensor([0.0, 0.5, 1.0, 4.0, 6.0, 9.0])[:, None].expand(6, 3)
        later = xs.clone()
        later[4:] = 1.0
        clocks = [ts, torch.cat([ts[:4], ts[4:] + 1])] if task.clock_given else [None, None]
        first, second = (model(given, ts=stamps)[:4] for given, stamps in zip((xs, later), clocks, strict=True))
        assert_close(first, second, rtol=0, atol=1e-12, msg=name)
        if task.clock_given:
            assert not torch.allclose(model(xs, ts=ts)[4:], model(xs, ts=clocks[1])[4:]), name


@torch.no_grad()
def test_held_states_forget_exponentially_and_the_first_sample_has_acted_for_an_hour():
    model = configuration("physionet", hidden=4, data="unused", **MODELS["gated-exponential"][1]).untrained_model().double()
    x, field, h = torch.randn(2, 1, 82), model.field, torch.zeros(1, 4)
    for sample, hours in zip(x, (1.0, 2.5), strict=True):
        kept = torch.exp(-field.rate(sample, h) * hours)
        h = kept * h + (1 - kept) * field.candidate(sample, h)
    assert_close(model.rnn(x, ts=torch.tensor([[0.0], [2.5]]))[0][-1], h, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["gru", "gated-exponential"])
def test_ranks_have_the_auroc_of_the_training_and_of_the_same_weights_run_otherwise(name, tmp_path, monkeypatch):
    study = PhysioNetFolds()
    monkeypatch.setitem(study.sizes["smoke"].__dict__, "stages", [((name,), "all", 1)])
    run = study.runs("smoke")[1]
    assert run.configuration.task.fold == 1
    done = study.carry_out(run, tmp_path / name)
    rows = {row["read"]: row for row in done.rows}
    assert set(rows) == ({TRAINED, COUNT} if name == "gru" else {TRAINED, MIXED, CUT, *STEPS} - {"exponential-euler"})
    labels = run.configuration.task.recorded("test").labels
    died = rows[TRAINED]["died"]
    assert died == labels.nonzero()[:, 0].tolist()
    found = auroc_drawn(rows[TRAINED]["ranks"], died, 1, 1)[0]
    assert found == pytest.approx(done.measures["auroc"], abs=1e-6)
    assert rows[TRAINED]["epochs"] == rows[TRAINED]["best epoch"] == 1
    if name == "gru":
        counts = [int((~x.isnan()).sum()) for x in run.configuration.task.recorded("test").xs]
        assert np.argsort(rows[COUNT]["ranks"], kind="stable").tolist() == np.argsort(counts, kind="stable").tolist()


@torch.no_grad()
def test_longer_gaps_are_taken_to_be_that_long():
    task = PhysioNetFolds().runs("smoke")[0].configuration.task
    model = configuration("physionet", hidden=4, data="unused", **MODELS["gated-exponential"][1]).untrained_model()
    (batch,) = dataclasses.replace(task, clock_given=True).evaluation("test", task.count("test"), 1, 0)
    ts = batch.ts.clone()
    for k in range(1, len(ts)):
        ts[k] = ts[k - 1] + (batch.ts[k] - batch.ts[k - 1]).clamp(max=0.5)
    last = batch.last(model(batch.xs.float(), ts=ts, lengths=batch.lengths))
    found = ranked(model, dataclasses.replace(task, clock_given=True, longest=0.5))
    assert found == (2 * rankdata(last[:, 1] - last[:, 0])).astype(int).tolist()
    assert not torch.equal(ts, batch.ts)


def test_scores_that_overflow_have_no_ranks():
    model = configuration("physionet", hidden=4, data="unused", **MODELS["gru"][1]).untrained_model()
    with torch.no_grad():
        model.read_out.weight.fill_(float("inf"))
    assert ranked(model, PhysioNetFolds().runs("smoke")[0].configuration.task) == []


def made_up(gains, folds=5, seeds=2, labels=0.5):
    """Records of scores: a model's are larger for the dead by its gain; `labels`: the AUROC of the control."""

    def measured(run):
        name, fold, seed = run.point["model"], run.point["fold"], run.point["seed"]
        if name not in gains or fold >= folds or seed >= seeds or run.point["stamps"] != "all":
            return None
        draw = np.random.default_rng(fold)
        died = draw.random(400) < 0.2
        scores = draw.normal(size=400) + gains[name] * died + 0.05 * np.random.default_rng(seed).normal(size=400)
        if name == "gru-mixed-labels":
            scores = np.where(draw.random(400) < 2 * labels - 1, died, draw.normal(size=400))
        about = {"epochs": 3.0, "best epoch": 2.0, "seconds an epoch": 1.0, "validation": 0.8}
        rows = [{"read": TRAINED, "ranks": scores.tolist(), "died": np.flatnonzero(died).tolist(), **about}]
        if name == "gru":
            rows.append({"read": COUNT, "ranks": (died + 0.1 * draw.normal(size=400)).tolist()})
        return {"auroc": 0.8, "loss": 0.3}, rows

    return Results(records_of(PhysioNetFolds(), "small", measured))


def test_what_is_better_is_told_from_what_is_not_and_from_what_was_not_run():
    study = PhysioNetFolds()
    results = made_up({"gru": 1.0, "gru-exponential": 1.3, "gru-mixed-gaps": 1.3, "gru-mixed-labels": 0, "gated": 1.0})
    verdict = study.verdict(results)
    answers = {part.claim: part.answer for part in verdict.parts}
    assert len(answers) == 2
    assert [answers[one.words] for one in COMPARISONS if one.words in answers] == ["yes", "no"]
    assert verdict.word == "partly"
    assert [part for _, part, _ in parts_found(results)] == list(verdict.parts)  # the table's answers are judged so, too
    assert mean_drawn(drawn(results)["gru", "all", COUNT]).mean > 0.99
    text = tables_of(study, results)
    assert "| number of measurements | all | 1" in text
    assert "| GRU, no times | all | 0." in text
    assert "10 in 5 folds" in text
    assert draws(study.figures["differences"], results).axes
    assert len(where(results.rows, read=COUNT)) == 10


@pytest.mark.parametrize("fewer", [{"folds": 2}, {"seeds": 1}])
def test_two_folds_decide_nothing_nor_does_one_seed(fewer):
    partial = PhysioNetFolds().verdict(made_up({"gru": 1.0, "gru-exponential": 1.3}, **fewer))
    assert [part.answer for part in partial.parts] == ["undecided"]


def test_nothing_is_decided_where_mixed_labels_are_predicted_or_no_fold_is_done():
    study = PhysioNetFolds()
    with pytest.raises(NotEnoughError, match="with labels mixed up the AUROC is 0"):
        study.verdict(made_up({"gru": 1.0, "gru-exponential": 1.3, "gru-mixed-labels": 0}, labels=0.8))
    with pytest.raises(NotEnoughError, match="no fold is done"):
        study.verdict(made_up({"gru": 1.0}))


def test_without_the_patients_nothing_is_run(monkeypatch):
    monkeypatch.delenv("CTRNN_DATA")
    assert not PhysioNetFolds().runs("small")
    assert "physionet2012/" in PhysioNetFolds().left_out()
    assert isinstance(Patients(data="unused", fold=4), Patients)
