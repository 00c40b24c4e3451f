"""Forecasts of what is looked at more often while it lasts: the best predictors, in closed form and on sequences."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.linalg import expm
from torch.testing import assert_close

from experiments.models.integrators import IntegratorSettings, under
from experiments.runs.configuration import configuration
from experiments.seeds import generator
from experiments.tasks.forecast import Forecast

RATES = st.floats(0.05, 10)


def matrices(task):
    looks = torch.diag(torch.tensor([task.seldom, task.often]))
    return torch.tensor([[-task.onset, task.onset], [task.end, -task.end]]), looks


@pytest.mark.parametrize("task", [Forecast(), Forecast(onset=1.0, end=0.4, seldom=2.0, often=0.3)])
def test_the_best_predictors_lose_on_drawn_sequences_what_is_said(task):
    batch, (changes, looks) = task.batch(60, generator(0), "test"), matrices(task)
    seen, following = batch.xs.argmax(-1)[:-1].flatten(), batch.targets[:-1].flatten()
    told = torch.as_tensor(expm(((changes - looks) * batch.ts.diff(dim=0).flatten()[:, None, None]).numpy())) @ looks
    guesses = {"next time unknown": torch.linalg.solve(looks - changes, looks).expand(len(seen), 2, 2), "next time known": told}
    rows = torch.arange(len(seen))
    for name, guess in guesses.items():
        probable = guess[rows, seen] / guess[rows, seen].sum(-1, keepdim=True)
        losses = -probable[rows, following].log()
        assert abs(float(losses.mean()) - task.baselines()[name]) < 4 * float(losses.std()) / math.sqrt(len(seen) / 4)
        right = (probable.argmax(-1) == following).double()
        assert abs(float(right.mean()) - task.baseline_accuracies()[name]) < 4 * 0.5 / math.sqrt(len(seen) / 4)


def test_every_look_sees_the_episode_on_equally_often_the_first_one_too():
    task = Forecast(length=3)
    changes, looks = matrices(task)
    shares, rows = torch.linalg.eig(torch.linalg.solve(looks - changes, looks).T)
    steady = rows[:, shares.real.argmax()].real
    on = float(steady[1] / steady.sum())
    batch = task.batch(10_000, generator(0))
    assert torch.equal(batch.targets[:-1], batch.xs.argmax(-1)[1:])
    assert batch.counts.sum(1).tolist() == [10_000.0] * 2 + [0.0]  # the last look has no next
    assert bool((batch.ts.diff(dim=0) > 0).all())
    seen = batch.xs[..., 1].double().mean(1)
    assert_close(seen, torch.full_like(seen, on), rtol=0, atol=4 * math.sqrt(on * (1 - on) / 10_000))


@pytest.mark.parametrize(("change", "look"), [(0.5, 1.0), (0.2, 3.0), (4.0, 0.5)])
def test_where_all_is_symmetric_losses_are_those_of_the_telegraph_process(change, look):
    def entropy(p):
        return -p * math.log(p) - (1 - p) * math.log(1 - p)

    def at(t):  # it is as it was with probability (1 + e^(-2 change t)) / 2; looks come at times that say nothing else
        return look * math.exp(-look * t) * entropy((1 + math.exp(-2 * change * t)) / 2) if t > 0 else 0.0

    found = Forecast(change, change, look, look).baselines()
    assert_close(found["next time unknown"], entropy((look + change) / (look + 2 * change)), rtol=0, atol=1e-14)
    assert_close(found["next time known"], quad(at, 0, 40 / look, limit=200)[0], rtol=0, atol=1e-6)


@given(RATES, RATES, RATES, RATES)
def test_to_know_when_is_never_worse(onset, end, seldom, often):
    task = Forecast(onset, end, seldom, often)
    losses, accuracies = task.baselines(), task.baseline_accuracies()
    assert losses["next time known"] <= losses["next time unknown"] + 1e-6
    assert accuracies["next time known"] >= accuracies["next time unknown"] - 1e-5


@pytest.mark.parametrize("integrator", ["exponential-euler", "exact"])
def test_forward_reads_the_stamp_of_what_it_is_to_forecast_and_backward_does_not(integrator):
    batch = Forecast(length=6).batch(3, generator(0))
    later = batch.ts.clone()
    later[4:] += 0.5
    for hold in ("forward", "backward"):
        model = configuration("forecast", "gru", integrator, hidden=4, hold=hold).untrained_model().double()
        outputs, others = model(batch.xs, ts=batch.ts), model(batch.xs, ts=later)
        assert torch.equal(outputs[:3], others[:3])
        assert torch.allclose(outputs[3], others[3]) == (hold == "backward")
        assert not torch.allclose(outputs[4], others[4])
        fine = under(model, "exact", IntegratorSettings(rtol=1e-6, atol=1e-8))
        assert torch.allclose(fine(batch.xs, ts=batch.ts)[3], fine(batch.xs, ts=later)[3]) == (hold == "backward")


def test_settings_that_make_no_process_are_refused():
    for settings, words in (({"onset": 0.0}, "`onset` must be positive"), ({"length": 1}, "`length` must be at least 2")):
        with pytest.raises(ValueError, match=words):
            Forecast(**settings)
    with pytest.raises(ValueError, match="`hold` must be 'forward' or 'backward', got 'both'"):
        IntegratorSettings(hold="both")
