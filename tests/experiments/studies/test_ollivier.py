"""Table 1: its verdict on records that are made up, and its runs beside what they are made of."""

import math

import pytest
from fake_studies import draws, records_of, tables_of

from experiments.reports.spreads import NotEnoughError
from experiments.studies.claims.ollivier_table1 import BASELINES, METHODS, SOURCES, OllivierTable1
from experiments.studies.cost import cost_of
from experiments.studies.results import Results
from experiments.symbols.table import baseline_rows

STUDY = OllivierTable1()


def results(regrets, scale="small"):
    """With these regrets on every source; a larger network is worse by 10, a seed by its number."""

    def measured(run):
        if run.point["method"] == BASELINES:
            return {}, [{"predictor": "bzip2", "regret": 99.0}]
        if (regret := regrets.get(run.point["method"])) is None:
            return None
        best = regret + run.point["seed"] + 10.0 * (run.point["units"] == 24)
        wrong = {"wrong": 0.5 if "FB" in run.point["method"] else 0.004} if run.point["source"] == "xor" else {}
        return {"best": best, "last": best + 100, "steps": 10 * run.point["units"], "failed": 0, **wrong}, []

    return Results(records_of(STUDY, scale, measured))


def test_invariance_is_judged_model_by_model_at_the_best_size_and_by_both_metrics_together():
    as_printed = {method: 1e5 * 0.5**k for k, method in enumerate(METHODS)}
    verdict = STUDY.verdict(results(as_printed))
    assert (verdict.word, len(verdict.parts)) == ("reproduced", 17)
    assert "GLNN, QDH, RUOP: 49.8 (48.8–50.8); GLNN, QDH, RBPM: 25.4 (24.4–26.4); GLNN, DH, FB: 12501" in verdict.sentence
    mixed = as_printed | {"GNN, DH, FB": 10.0}  # less than GNNs by RBPM, and the least of all
    verdict = STUDY.verdict(results(mixed))
    assert verdict.word == "partly"
    found = {part.claim.partition(": ")[2]: part.answer for part in verdict.parts}
    assert (found["invariance helps GNNs"], found["invariance helps GLNNs"]) == ("no", "yes")
    assert found["GLNNs by the recurrent metrics have the fewest bits"] != "yes"
    between = as_printed | {"GLNN, DH, FB": 30.0}  # the better metric alone is ahead of it, both together are not
    helps = {part.claim.partition(": ")[2]: part.answer for part in STUDY.verdict(results(between)).parts}
    assert helps["invariance helps GLNNs"] != "yes"
    turned = STUDY.verdict(results({m: 10.0 * 2**k for k, m in enumerate(METHODS)}))
    assert [part.claim for part in turned.parts if part.answer == "yes"] == [turned.parts[-1].claim]  # made up apart
    with pytest.raises(NotEnoughError, match="by FB and by an invariant method"):
        STUDY.verdict(results({"GLNN, DH, FB": 3.0}))


def test_tables_show_what_was_chosen_and_what_it_came_to():
    found = results({"GLNN, DH, FB": 3.0, "GLNN, QDH, RUOP": 2.0})
    written = tables_of(STUDY, found)
    assert "| aⁿbⁿ | GLNN, QDH, RUOP | 3.0 (2.0–4.0) | 103.0 (102.0–104.0) | 12 | 120 |" in written
    assert "| music | bzip2 | 99 |" in written
    assert "| GLNN, QDH, RUOP | 0.00400 | 3 of 3 |" in written
    assert "| GLNN, DH, FB | 0.500 | 0 of 3 |" in written
    assert draws(STUDY.figures["regrets-blocks"], found) is not None
    assert draws(STUDY.figures["regrets-blocks"], results({})) is None


def test_runs_given_processor_time_cost_what_they_are_given():
    keys = [run.key for run in STUDY.runs("small")]
    cost, slices = cost_of("ollivier-table1", "small", keys, workers=2, threads=1)
    seconds = 8.0 * 243 + 30.0 * 3 * 14
    assert (cost.runs, cost.seconds, cost.wall, slices) == (243 + 3 * 14, seconds, seconds / 2, {})


@pytest.mark.slow
def test_runs_are_trainings_for_a_time_and_the_best_baselines(tmp_path):
    known, _, *trained = STUDY.runs("smoke")
    rows = {row["predictor"]: row["regret"] for row in STUDY.carry_out(known, tmp_path).rows}
    regrets = {row.name: row.regret for row in baseline_rows(SOURCES["smoke"]["blocks"], 0, states=())}
    assert rows["bzip2"] == regrets["bzip2"]
    assert rows["context tree"] == min(regret for name, regret in regrets.items() if name.startswith("context tree"))
    assert math.isfinite(rows["hidden Markov"])
    done = STUDY.carry_out(trained[0], tmp_path)
    assert done.measures["best"] <= done.measures["last"] < math.inf
    assert (done.measures["failed"], done.seconds) == (0, 0.2)
    assert done.measures["steps"] >= 1
    assert 0 <= STUDY.carry_out(trained[-1], tmp_path).measures["wrong"] <= 1
