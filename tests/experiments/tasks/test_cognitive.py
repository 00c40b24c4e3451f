"""Tasks of neuroscience: trials read off as a person would, at any step, and their scores."""

import dataclasses
import math

import pytest
import torch
from torch.testing import assert_close

from experiments.seeds import generator
from experiments.tasks.cognitive import Context, Decision, DelayedMatch, FlipFlop, ReadySetGo, Rhythm, WorkingMemory
from experiments.tasks.task import MeasuresOfBatches

TASKS = [FlipFlop(), Decision(), Context(), DelayedMatch(kinds=3), WorkingMemory(), ReadySetGo(), Rhythm()]
CHOICES = TASKS[1:5]


def trials(task, dt=1.0, noise=0.0, size=40):
    """A slot a sample, without noise."""
    return dataclasses.replace(task, dt=dt, input_noise=noise).batch(size, generator(0))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_one_seed_is_the_same_trials_at_any_step_and_targets_of_any_score(task):
    coarse, fine = trials(task), trials(task, dt=0.2)
    assert torch.equal(coarse.xs.repeat_interleave(5, 0), fine.xs)
    # What is asked for at the end of a slot is the same.
    assert_close(coarse.targets, fine.targets[4::5], rtol=0, atol=1e-9)
    assert_close(fine.ts[-1], torch.tensor(1.0 * len(coarse.xs), dtype=torch.float64))
    perfect, silent = task.measures(coarse.targets, coarse), task.measures(torch.zeros_like(coarse.targets), coarse)
    assert perfect["loss"] == 0
    score = perfect.get("accuracy", perfect.get("r2"))
    assert score == 1
    assert silent["loss"] > 0
    assert silent.get("accuracy", silent.get("r2")) < 0.6


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_one_seed_is_the_same_trials_in_either_dtype(task):
    batches = []
    for dtype in (torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        batches.append(task.batch(6, generator(0)))
    wide, narrow = batches
    for name in ("xs", "targets", "counts"):
        assert_close(getattr(narrow, name).double(), getattr(wide, name), rtol=0, atol=1e-5)  # a sine of turns in float32


@pytest.mark.parametrize("task", TASKS[:6], ids=lambda task: type(task).__name__)
@pytest.mark.parametrize("dt", [1.0, 0.2])
def test_noise_is_white_whatever_the_step(task, dt):
    noisy, clean = trials(task, dt, noise=0.3, size=200), trials(task, dt, size=200)
    noise = noisy.xs - clean.xs
    total = noise.sum(0) * dt  # over a time T: variance 0.09 T
    expected = 0.09 * dt * len(noise)
    assert abs(float(total.var()) / expected - 1) < 5 * math.sqrt(2 / total.numel())


def test_a_flip_flop_keeps_the_last_pulse_of_each_line():
    batch = trials(FlipFlop(bits=2, length=30, pulses=0.2))
    kept = torch.zeros(40, 2)
    for x, target in zip(batch.xs, batch.targets, strict=True):
        kept = torch.where(x != 0, x, kept)
        assert torch.equal(target, kept)
    assert (batch.xs[0] != 0).all()
    assert abs(float((batch.xs[1:] != 0).double().mean()) - 0.2) < 0.03


def test_a_ramp_takes_as_long_as_the_pulses_are_apart():
    batch = trials(ReadySetGo())
    ready, set_ = batch.xs.argmax(0).unbind(-1)
    ramp = batch.targets[..., 0]
    reached = (ramp >= 1 - 1e-12).to(torch.int64).argmax(0)
    assert torch.equal(reached + 1 - set_, set_ - ready)
    assert_close(ramp.diff(dim=0).clamp(min=0).amax(0), 1 / (set_ - ready).double(), rtol=0, atol=1e-12)
    late = torch.cat([torch.zeros_like(batch.targets[:1]), batch.targets[:-1]])
    interval = (set_ - ready).double()
    half = (interval / 2).ceil()  # the slot in which a half is passed
    assert_close(ReadySetGo().measures(late, batch)["timing"], float((1 / half).mean()), rtol=0, atol=1e-9)
    assert ReadySetGo().measures(torch.zeros_like(batch.targets), batch)["timing"] == 1


def test_a_rhythm_has_the_period_that_is_held():
    batch = trials(Rhythm(shortest=4.0, longest=4.0), dt=0.1)
    t = 0.1 * torch.arange(1, len(batch.xs) + 1)
    assert_close(batch.targets[:, 0, 0], torch.sin(2 * math.pi * t / 4), rtol=0, atol=1e-9)
    held = trials(Rhythm(), dt=0.1)
    periods = 8 + 16 * held.xs[0, :, 0]
    assert_close(held.targets[-1, :, 0], torch.sin(2 * math.pi * 40 / periods), rtol=0, atol=1e-9)


@pytest.mark.parametrize("task", CHOICES, ids=lambda task: type(task).__name__)
def test_choices_are_asked_for_when_the_fixation_light_is_off_and_are_fair(task):
    batch = trials(task, size=400)
    asked = (batch.targets[..., 0] != 0) & (batch.counts > 0)
    assert torch.equal(asked, (batch.xs[..., 0] == 0) & (batch.counts > 0))
    assert (asked.sum(0) == 2).all()
    choice = (batch.targets[..., 0] * batch.counts).sum(0).sign()
    assert abs(float(choice.mean())) < 0.2
    shown = batch.xs[..., 1:]
    if isinstance(task, Decision):
        assert torch.equal(shown.sum(0)[:, 0].sign(), choice)
    elif isinstance(task, Context):
        named = shown[..., 2:].sum(0).argmax(-1)
        assert torch.equal(shown[..., :2].sum(0).gather(1, named[:, None])[:, 0].sign(), choice)
    elif isinstance(task, WorkingMemory):
        sizes = [column[column != 0] for column in shown[..., 0].T]
        assert torch.equal(torch.stack([(s[0] - s[-1]).sign() for s in sizes]), choice)
        assert min(float((s[0] - s[-1]).abs()) for s in sizes) >= 0.2 - 1e-12
    else:
        kinds = [row.argmax(-1)[row.sum(-1) > 0] for row in shown.transpose(0, 1)]
        assert torch.equal(torch.stack([2.0 * (k[0] == k[-1]) - 1 for k in kinds]), choice)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: FlipFlop(dt=0.3), "`dt` must be 1 over a whole number"),
        (lambda: Decision(input_noise=-1.0), "`input_noise`"),
        (lambda: Decision(coherences=()), "`coherences` must be above 0"),
        (lambda: Context(coherences=(0.1, -0.1)), "`coherences` must be above 0"),
        (lambda: DelayedMatch(least=5, most=4), "more than `most`"),
        (lambda: WorkingMemory(apart=1.0), "`apart` must be between"),
        (lambda: Rhythm(shortest=9.0, longest=8.0), "in this order"),
    ],
)
def test_wrong_settings_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_measures_are_the_same_however_sequences_are_cut_into_batches(task):
    dice = torch.Generator().manual_seed(0)
    batch = task.batch(7, dice)
    outputs = batch.targets + 4 * torch.randn(batch.targets.shape, generator=dice)  # of which some signs are wrong
    sums = MeasuresOfBatches(task)
    for part in (slice(0, 1), slice(1, 5), slice(5, 7)):
        sums.add(outputs[:, part], task.part(batch, part))
    assert sums.measures() == pytest.approx(task.measures(outputs, batch), rel=1e-5)
