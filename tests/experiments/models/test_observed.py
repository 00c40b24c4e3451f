"""Classifiers of irregular observations: ODE-RNN beside one written with torchdiffeq, and all of them trained a little."""

from dataclasses import replace

import pytest
import torch
from cases import each
from datasets import make_patients
from torch.testing import assert_close

import ctrnn
from discretize import Euler, SequenceModel, ode_rnn
from experiments.bench.peers.ode_rnn import ODERNNByHand, epoch_seconds
from experiments.models.observed import CLASSES, OBSERVED
from experiments.runs import patients
from experiments.runs.patients import SETTINGS, observed_model, train_epochs
from experiments.runs.training import evaluate
from experiments.tasks.recorded.patients import VALUES, Patients


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("patients")
    make_patients(made, 50)
    return str(made)


@each(
    ("ours", "theirs", "tolerance"),
    [
        ({"method": Euler()}, {"method": "euler"}, 1e-12),  # the same sums
        ({"rtol": 1e-8, "atol": 1e-8}, {"rtol": 1e-8, "atol": 1e-8}, 1e-5),  # a thousand tolerances: of up to 70 solves
    ],
)
def test_ode_rnn_written_with_torchdiffeq_gives_the_same_outputs(folder, ours, theirs, tolerance):
    (batch,) = Patients(data=folder, grid=4.0).evaluation("validation", 4, 4, seed=0)
    own, by_hand = SequenceModel(ode_rnn(VALUES, 5, units=4, **ours), CLASSES), ODERNNByHand(VALUES, 5, units=4, **theirs)
    by_hand.net.load_state_dict(own.rnn.field.net.state_dict())
    by_hand.cell.load_state_dict(ctrnn.to_torch(own.rnn.jump.cell.field).state_dict())
    by_hand.read_out.load_state_dict(own.read_out.state_dict())
    found, expected = own(batch.xs, batch.ts, batch.lengths), by_hand(batch.xs, batch.ts, batch.lengths)
    assert_close(batch.last(found), batch.last(expected), rtol=0, atol=tolerance)


def test_models_are_functions_of_their_seed_printed_a_line_each(folder, capsys):
    # Models are functions of their seed and no output depends on the future.
    (batch,) = Patients(data=folder, grid=4.0).evaluation("test", 3, 3, seed=0)
    later = batch.xs.clone()
    later[4:] = 1  # and all of it seen
    for name in OBSERVED:
        model = observed_model(name, 4, seed=1)
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), observed_model(name, 4, 1).parameters(), strict=True))
        ts = None if name == "gru" else batch.ts
        shifted = None if ts is None else torch.cat([ts[:4], ts[4:] + 1])
        outputs = [model(xs, stamps, batch.lengths)[:4] for xs, stamps in ((batch.xs, ts), (later, shifted))]
        assert_close(outputs[0], outputs[1], rtol=0, atol=1e-12)
    # Gradients are cut to the largest norm.
    model = observed_model("gru-backward", 3, 0)
    before = [parameter.clone() for parameter in model.parameters()]
    train_epochs(model, Patients(data=folder, grid=4.0), epochs=1, settings=replace(SETTINGS, clip=1e-29))
    for own, other in zip(model.parameters(), before, strict=True):
        assert_close(own, other, rtol=0, atol=1e-15)  # Adam divides by the gradient plus 1e-8
    # The command prints a line for each model and seed.
    patients.main([folder, "gru-d", "gru", "--hidden", "3", "--epochs", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [["gru-d", "seed", "0"], ["gru", "seed", "0"]]
    assert all("test AUROC 0." in line and "of 1 " in line for line in lines)


@torch.no_grad()
def test_between_stamps_states_forget_exponentially_and_the_first_sample_has_acted_for_an_hour():
    x, seen, ts = torch.randn(2, 1, 3), torch.ones(2, 1, 3), torch.tensor([[0.0], [2.5]])
    held = OBSERVED["gated-backward"](3, 4)
    h, field, read = torch.zeros(1, 4), held.field, torch.cat([x, seen], -1)
    for sample, hours in zip(read, (1.0, 2.5), strict=True):
        kept = torch.exp(-field.rate(sample, h) * hours)
        h = kept * h + (1 - kept) * field.candidate(sample, h)
    assert_close(held(read, ts=ts)[0][-1], h, rtol=0, atol=1e-14)
    rnn = OBSERVED["gru-ode-bayes"](3, 4)
    before, after = rnn.jumps(x, ts=ts)
    h, nothing = after[0], x[0, :, :0]
    kept = torch.exp(-rnn.field.rate(nothing, h) * 2.5)
    assert_close(before[1], kept * h + (1 - kept) * rnn.field.candidate(nothing, h), rtol=0, atol=1e-14)


def test_the_weights_of_the_best_epoch_are_kept(folder, monkeypatch):
    task = Patients(data=folder, grid=4.0)
    model = observed_model("gru-backward", 4, 4)
    seen = []
    monkeypatch.setattr("experiments.runs.training.evaluate", lambda *given: seen.append(evaluate(*given)) or seen[-1])
    found = train_epochs(model, task, 4, epochs=6, settings=replace(SETTINGS, patience=2, batch=8, rate=0.05))
    assert 1 <= found.best <= found.epochs <= 6
    assert found.epochs in (6, found.best + 2)
    assert evaluate(model, task, "validation", 99)["auroc"] == found.validation == max(one["auroc"] for one in seen)
    assert min(seen, key=lambda one: one["loss"])["auroc"] < found.validation  # so the loss would have kept others
    assert evaluate(model, task, "test", 99) == found.test
    assert min(epoch_seconds([model, ODERNNByHand(VALUES, 4, method="euler")], task, 8, batches=1)) > 0
