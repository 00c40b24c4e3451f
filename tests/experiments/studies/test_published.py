"""Published networks: their trials and trainings in our code, beside torch's gradients and what is known of a trial."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from experiments.reports.spreads import NotEnoughError
from experiments.seeds import generator
from experiments.studies.claims.published import sine
from experiments.studies.claims.published.flipflop import pulses
from experiments.studies.claims.published.networks import FOLDER, PUBLISHED
from experiments.studies.claims.published.study import BITS, SINE, PublishedSteps
from experiments.studies.claims.published.trials import DRAWN, Drawn
from experiments.studies.results import Results
from experiments.studies.study import DATA

# Trials ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", DRAWN)
def test_what_is_wanted_is_right_and_its_opposite_wrong_in_every_trial(task):
    drawn = DRAWN[task](64, generator(0, task))
    assert bool(drawn.right(drawn.wanted).all())
    assert not bool(drawn.right(-drawn.wanted).any())
    assert drawn.loss(drawn.wanted) == 0
    assert bool((drawn.choices(drawn.wanted) == drawn.condition.sign()).all())
    assert {*drawn.condition.sign().tolist()} == {1.0, -1.0}
    assert bool((drawn.asked.sum(1) > 0).all())


@pytest.mark.parametrize("task", DRAWN)
def test_trials_are_a_function_of_the_seed(task):
    one, same, other = (DRAWN[task](8, generator(seed, task)) for seed in (0, 0, 1))
    assert_close(one.xs, same.xs, rtol=0, atol=0)
    assert not torch.equal(one.xs, other.xs)


def test_the_signal_of_a_context_is_the_one_that_is_named():
    drawn = DRAWN["context"](400, generator(0, "context"))
    shown, named = drawn.xs[:, 22:62, :2].mean(1), drawn.xs[:, 30, 2:].argmax(-1)
    told = shown.gather(1, named[:, None])[:, 0].sign()
    assert (told == drawn.condition.sign()).double().mean() > 0.99  # the mean of 40 samples in noise
    assert (shown.gather(1, 1 - named[:, None])[:, 0].sign() == drawn.condition.sign()).double().mean() < 0.6


def test_the_loss_is_a_mean_over_what_is_asked_in_each_trial():
    asked = torch.tensor([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    drawn = Drawn(torch.zeros(2, 3, 1), torch.zeros(2, 3, 1), asked, torch.ones(2))
    assert drawn.loss(torch.tensor([[9.0, 1.0, 2.0], [9.0, 9.0, 3.0]])[..., None]) == pytest.approx((2.5 + 9) / 2)


def test_bits_are_the_last_pulse_of_each_line():
    xs, wanted = pulses(20, generator(0, "bits"))
    last = torch.zeros(20, 3)
    for x, y in zip(xs, wanted, strict=True):
        last = torch.where(x == 0, last, x)
        assert torch.equal(last, y)


# The sine --------------------------------------------------------------------------------------------------------------------


def test_a_sine_starts_with_signs_without_itself_balanced_and_of_radius_one_and_a_half():
    weight = sine.Sine(0).weight
    assert np.abs(np.linalg.eigvals(weight)).max() == pytest.approx(1.5)
    assert (weight[:, :80] >= 0).all()
    assert (weight[:, 80:] <= 0).all()
    assert (np.diagonal(weight) == 0).all()
    assert weight[:, :80].sum() == pytest.approx(-weight[:, 80:].sum(), rel=0.1)  # drawn


def by_torch(net, noise):
    """The weights after an update, by torch's gradients: of the loss, and of the regularizer with all but W held."""
    linked, signs = torch.from_numpy(net.linked), torch.from_numpy(net.signs)
    v, out, bias = (torch.from_numpy(np.array(part)).requires_grad_() for part in (net.v, net.out, net.bias))
    out_bias = torch.tensor(net.out_bias, dtype=torch.float64, requires_grad=True)
    weight, x, xs = (linked * v).relu() * signs, torch.from_numpy(net.start), []
    for drawn in torch.from_numpy(noise):
        x = (1 - sine.ALPHA) * x + sine.ALPHA * (weight @ x.relu() + bias) + drawn
        x.retain_grad()
        xs.append(x)
    z = torch.stack(xs).relu() @ (out.relu() * signs) + out_bias
    (z - torch.from_numpy(sine.TARGET)).square().mean().backward()
    to_x, states = torch.stack([one.grad for one in xs]), torch.stack(xs).detach()
    fresh = (linked * v).relu() * signs
    ratio = ((1 - sine.ALPHA) * to_x + (sine.ALPHA * to_x) @ fresh * (states > 0)).square().sum(1) / to_x.square().sum(1)
    (sine.OMEGA * (ratio - 1).square().mean()).backward()
    parts = (v, out, bias, out_bias)
    norm = torch.sqrt(sum(one.grad.square().sum() for one in parts))
    return [(one - sine.RATE * min(1.0, sine.CLIP / float(norm)) * one.grad).detach().numpy() for one in parts]


class Given:
    def __init__(self, numbers):
        self.numbers = numbers

    def normal(self, size):
        return self.numbers.reshape(size)


@pytest.mark.parametrize("clip", [1.0, 1e-3])
def test_an_update_of_the_sine_is_that_of_torchs_gradients(clip, monkeypatch):
    monkeypatch.setattr(sine, "CLIP", clip)
    net = sine.Sine(0)
    for _ in range(3):
        net.update()
    numbers = np.random.default_rng(1).normal(size=(sine.STEPS, sine.UNITS))
    wanted = by_torch(net, sine.NOISE * numbers)
    net.dice = Given(numbers)
    net.update()
    for found, expected in zip((net.v, net.out, net.bias, net.out_bias), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


# The study -------------------------------------------------------------------------------------------------------------------


def test_another_file_than_that_of_the_commit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv(DATA, str(tmp_path))
    one = PUBLISHED["rdm_lr_fig2"]
    place = tmp_path / FOLDER / one.home[0] / one.path
    place.parent.mkdir(parents=True)
    arrays = {"wi": torch.ones(1, 2), "si": torch.ones(1), "m": torch.ones(2, 1), "n": torch.ones(2, 1)}
    torch.save({**arrays, "wo": torch.ones(2, 1), "so": torch.ones(1), "h0": torch.zeros(2)}, place)
    with pytest.raises(ValueError, match=r"rdm_lr_fig2.pt is not models/rdm_lr_fig2.pt of adrian-valente/populations"):
        one.read()
    model, start = replace(one, digest=hashlib.sha256(place.read_bytes()).hexdigest()).read()
    assert (model.field.hidden_size, start) == (2, None)
    assert [run.point["network"] for run in PublishedSteps().runs("smoke")] == [BITS, "rdm_lr_fig2", SINE]


def records(**changed):
    """Records in which all that is claimed holds, but for what is changed of a network."""
    score = {"kind": "score", "own": 1.0, "exact": 1.0, "noisy": 1.0, "noisy fine": 1.0, "flips": 0.0}
    held = {"kind": "held", "rests": 3, "stable": 2, "stable under the step": 2, "made stable": 0, "made unstable": 0}
    rhythm = {"kind": "rhythm", "own": 0.99, "exact": 0.5, "amplitude": 0.9, "exact amplitude": 0.6}
    rows = {"published": [score, held], BITS: [{**score, "exact": 0.9}, held], SINE: [rhythm]}
    return Results(
        {
            "key": f"{network}-{seed}",
            "point": {"network": network, "seed": seed},
            "measures": {},
            "rows": [{**row, **changed.get(network, {}).get(row["kind"], {}), "jitter": seed} for row in one],
        }
        for network, one in rows.items()
        for seed in range(3)
    )


def test_the_verdict_on_published_networks_is_that_each_part_holds_where_it_does():
    assert [part.answer for part in PublishedSteps().verdict(records()).parts] == ["yes"] * 8


@pytest.mark.parametrize(
    ("network", "kind", "values", "part"),
    [
        ("published", "score", {"exact": 0.9}, 0),
        ("published", "score", {"noisy fine": 0.9}, 1),
        ("published", "score", {"flips": 0.1}, 2),
        ("published", "held", {"made stable": 1}, 3),
        (SINE, "rhythm", {"exact": 0.99}, 4),
        (SINE, "rhythm", {"exact amplitude": 0.9}, 5),
        (BITS, "held", {"stable": 3}, 6),
        (BITS, "score", {"exact": 1.0}, 7),
    ],
)
def test_each_part_of_the_verdict_on_published_networks_can_fail(network, kind, values, part):
    answers = [one.answer for one in PublishedSteps().verdict(records(**{network: {kind: values}})).parts]
    assert [k for k, answer in enumerate(answers) if answer == "no"] == [part]


def test_a_network_that_is_not_as_good_as_published_does_not_count_and_alone_decides_nothing():
    with pytest.raises(NotEnoughError, match="two times of each published network"):
        PublishedSteps().verdict(records(published={"score": {"own": 0.7}}))
