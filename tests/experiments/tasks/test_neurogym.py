"""Environments of neurogym as tasks: the trials that they give themselves, at any step, and trained."""

import dataclasses

import pytest
import torch

from experiments.runs.configuration import configuration_from_words
from experiments.runs.training import Training
from experiments.seeds import generator
from experiments.tasks.registry import task_named
from experiments.usage import UsageError

neurogym = pytest.importorskip("neurogym", reason="pip install '.[tasks]'")
make = task_named("neurogym")
pytestmark = pytest.mark.filterwarnings("ignore:.*render_modes")  # gymnasium warns of metadata of neurogym's


def test_a_batch_is_the_trials_of_the_environment_padded_and_a_function_of_the_generator():
    task = make(env="ReadySetGo-v0", dt=40, tau=80.0)
    batch, again, other = (task.batch(6, generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(batch.xs, again.xs)
    assert batch.xs.shape != other.xs.shape or not torch.equal(batch.xs, other.xs)
    assert (batch.xs.shape[2], task.output_size) == (task.input_size, 2)
    theirs = neurogym.make("ReadySetGo-v0", dt=40).unwrapped
    for k, seed in enumerate(torch.randint(2**31, (6,), generator=generator(0)).tolist()):
        theirs.seed(seed)
        theirs.new_trial()
        length = int(batch.counts[:, k].sum())
        assert length == len(theirs.ob)
        assert torch.equal(batch.xs[:length, k].float(), torch.as_tensor(theirs.ob))
        assert batch.targets[:length, k].tolist() == theirs.gt.tolist()
        assert not batch.counts[length:, k].any()
        assert not batch.xs[length:, k].any()
    assert float(batch.ts[1]) == 0.5  # 40 ms of 80


def test_a_finer_step_is_as_long_in_time_and_asks_for_as_much():
    coarse, fine = (make(dt=dt).batch(3, generator(0)) for dt in (100, 20))
    assert float(coarse.ts[-1]) == pytest.approx(float(fine.ts[-1]))
    assert len(fine.xs) == 5 * len(coarse.xs)
    assert torch.equal(make(dt=100, weight_asked=5.0).batch(3, generator(0)).counts, 1 + 4.0 * (coarse.targets != 0))
    asked = [float((each.targets != 0).sum() * each.ts[1]) for each in (coarse, fine)]
    assert asked[0] == pytest.approx(asked[1])


def test_choices_are_scored_where_an_action_is_asked_for():
    task = make(dt=100)
    batch = task.batch(8, generator(0))
    right = torch.nn.functional.one_hot(batch.targets, 3).double()
    assert task.measures(10 * right, batch)["choice"] == 1
    fixating = torch.zeros_like(right)
    fixating[..., 0] = 1
    found = task.measures(fixating, batch)
    assert found["choice"] == 0 < found["accuracy"]


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("PerceptualDecisionmaking-v0", "did you mean 'PerceptualDecisionMaking-v0'"),
        ("Bandit-v0", "no trials with right actions"),
        ("ReachingDelayResponse-v0", "must number its actions"),
        ("AnnubesEnv-v0", "cannot be made"),
    ],
)
def test_environments_that_do_not_fit_are_refused_in_words(env, words):
    with pytest.raises(ValueError, match=words):
        make(env=env)
    with pytest.raises(UsageError, match=words):
        configuration_from_words("neurogym", "additive", "euler", [f"env={env}"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "least"), [("PerceptualDecisionMaking-v0", 0.75), ("DelayComparison-v0", 0.9), ("AntiReach-v0", 0.9)]
)
def test_a_network_learns_three_of_them(env, least):
    words = [f"env={env}", "dt=50", "weight_asked=5", "hidden=64", "steps=1200", "optimizer=adam", "rate=0.005", "clip=1"]
    run = configuration_from_words("neurogym", "additive", "euler", words)
    training = Training(run.untrained_model(), run.task, dataclasses.replace(run.training, evaluate_every=2000))
    untrained = training.measured("test")["choice"]
    training.run()
    assert training.measured("test")["choice"] > max(least, untrained + 0.2)
