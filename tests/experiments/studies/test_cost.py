"""What a study will cost: which runs are alike, sums by hand, budgets, and a slice that is measured."""

import dataclasses

import pytest
import torch

from derivations.processes.pool import End
from experiments.runs.configuration import configuration
from experiments.studies import cost
from experiments.studies.cost import Cost, Slice, Times, check_budget, kind_of, seconds_in
from experiments.studies.registry import check_name, study_named
from experiments.usage import UsageError

TIMES = Times(start=2.0, step=0.5, evaluation=3.0, measures=7.0)
SLICE = Slice(TIMES, Times(1.0, 0.25, 1.0, 2.0), imports=1.5, first=0.5, memory=10**9, disk=1000, row=20.0)


def small(**changed):
    return configuration(task="recall", field="gated", integrator="euler", **{"hidden": 4, "steps": 10, **changed})


def test_runs_that_differ_in_seed_and_starts_only_are_alike():
    same = [{}, {"seed": 1}, {"rate": 0.1}, {"clip": 1.0}, {"init": "chrono", "t_max": 9.0}, {"init": "constant", "alpha": 0.3}]
    assert len({kind_of(small(**changed)) for changed in same}) == 1
    other = [{}, {"hidden": 5}, {"batch": 3}, {"steps": 11}, {"evaluation": 7}, {"substeps": 2}]
    assert len({kind_of(small(**changed)) for changed in other}) == len(other)


def test_a_run_costs_its_start_its_steps_its_evaluations_and_what_is_measured():
    assert TIMES.seconds(small(steps=10, evaluate_every=4)) == 2 + 10 * 0.5 + 3 * 3 + 7  # after 4, after 8, and the test


def test_costs_are_told_as_times_in_words():
    assert list(map(seconds_in, ["3h", "45min", "90s", "1.5d"])) == [10800, 2700, 90, 129600]
    for words in ("3", "h", "-1h", "0s", "3 hours", "1e3s"):
        with pytest.raises(UsageError, match="a time such as 3h"):
            seconds_in(words)


def test_a_budget_is_for_all_workers_together():
    found = Cost(runs=4, kinds=1, workers=2, seconds=8000.0, longest=2000.0, memory=0, disk=0, processor=5000.0)
    check_budget(found, 4000.0)
    assert dataclasses.replace(found, workers=4, longest=3000.0).wall == 3000.0
    with pytest.raises(UsageError, match=r"--budget is 65 min, and these runs will take 66\.7 min"):
        check_budget(found, 3900.0)


def test_a_slice_is_measured_on_the_training_itself():
    found = cost.begin(check_name("unwarped"), "smoke", 1, ())("plain-0")
    weights = sum(p.numel() for p in study_named("unwarped").runs("smoke")[0].configuration.untrained_model().parameters())
    for times in (found.clock, found.processor):
        assert min(times.step, times.evaluation) > 0
    assert found.imports > 0
    assert found.disk > 4 * weights  # a checkpoint of float32
    assert found.row > 10
    assert found.memory > 10**7
    assert torch.get_num_threads() == 1


def test_all_runs_are_summed_and_shared_out(monkeypatch):
    def run_alone(work, key):
        asked.append((work.threads, key))
        return End(key, SLICE)

    asked = []
    monkeypatch.setattr(cost, "run_alone", run_alone)
    address = check_name("unwarped")
    runs = study_named("unwarped").runs("small")  # three fields, three seeds
    lines = []
    found, slices = cost.cost_of(address, "small", [run.key for run in runs[:7]], workers=2, threads=3, told=lines.append)
    each = TIMES.seconds(runs[0].configuration)
    assert (found.runs, found.kinds, found.workers) == (7, 3, 2)
    once = 2 * (1.5 + 0.5) + 1.5  # two workers, and the command
    assert (found.seconds, found.wall, found.longest) == pytest.approx((once + 7 * each, once / 2 + 3.5 * each, each))
    assert found.processor == pytest.approx(once + 7 * SLICE.processor.seconds(runs[0].configuration))
    assert found.disk == 7 * (1000 + 20 * runs[0].configuration.training.steps)
    assert asked == [(3, key) for key in slices]
    assert [line.split()[0] for line in lines] == list(slices)
