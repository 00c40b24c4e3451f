"""Batches that a collate makes of ragged, stamped, partly missing sequences, against each sequence alone."""

import pickle

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, mse_loss
from torch.testing import assert_close
from torch.utils.data import DataLoader

import ctrnn
import discretize
from discretize import Batch, Collate, ContinuousRNN, DiscreteRNN, ExponentialEuler, Layers

LENGTHS = (3, 1, 5, 2)
ROUNDING = {"rtol": 0, "atol": 1e-12}
SOLVED = {"rtol": 0, "atol": 1e-10}  # every sequence takes steps of its own
OPEN = {"open_interval": 0.5}  # one stamp does not say how long its sample acts
RNNS = {
    "stepped": lambda n, first: DiscreteRNN(ctrnn.gru(n, 4), ExponentialEuler(), batch_first=first, **OPEN),
    "solved": lambda n, first: ContinuousRNN(ctrnn.gated(n, 4), batch_first=first, **OPEN),
    "both directions": lambda n, first: Layers.of(ctrnn.lstm, n, 4, 2, bidirectional=True, batch_first=first, **OPEN),
}


def sequences(edges=False, holes=False):
    """Samples (n, 3), of which some may be nan, and as many stamps, or one more, that begin anywhere."""
    for n in LENGTHS:
        x = torch.randn(n, 3)
        x[torch.rand(n, 3) < (0.4 if holes else 0.0)] = torch.nan
        yield x, 10 * torch.rand(()) + (0.1 + torch.rand(n + edges)).cumsum(0)


def assert_each_is_as_alone(rnn, batch, alone, tolerance):
    """`alone`: of each sequence what the module reads of it, (n, features), and its times."""
    output, h_n = rnn(batch.xs, ts=batch.ts, lengths=batch.lengths)
    assert batch.size == len(alone)
    for k, (x, ts) in enumerate(alone):
        expected, last = rnn(x, ts=ts)
        assert_close((output[k] if batch.batch_first else output[:, k])[: len(x)], expected, **tolerance)
        assert_close(h_n[:, k], last, **tolerance)
        assert_close(batch.last(output)[k], expected[-1], **tolerance)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("name", RNNS)
def test_a_module_reads_each_sequence_of_a_batch_as_it_does_alone(name, edges, first):
    data, rnn = [*sequences(edges)], RNNS[name](3, first)
    batch = Collate(batch_first=first)([{"x": x, "ts": ts} for x, ts in data])
    assert bool((batch.ts.diff(dim=int(first)) >= 0).all())  # stands still where a sequence is over
    assert_each_is_as_alone(rnn, batch, data, SOLVED if name == "solved" else ROUNDING)


def gru(**settings):
    return DiscreteRNN(ctrnn.gru(6, 4), **settings, **OPEN)


@pytest.mark.parametrize(
    ("missing", "make"),
    [
        ("mask", lambda: discretize.gru_d(3, 4)),
        ("mask", gru),
        ("hold", gru),
        ("hold", lambda: gru(batch_first=True)),
    ],
    ids=["mask, gru-d", "mask, gru", "hold", "hold, batch first"],
)
def test_missing_values_are_masked_or_held_as_in_each_sequence_alone(missing, make):
    rnn, data = make(), [*sequences(holes=True)]
    batch = Collate(missing, batch_first=rnn.batch_first)([(x, ts, 0) for x, ts in data])
    assert not bool(batch.xs.isnan().any())
    alone = []
    for x, ts in data:
        seen = (~x.isnan()).to(x)
        values = x.nan_to_num(0.0) if missing == "mask" else ctrnn.hold_missing(x[:, None])[0][:, 0]
        alone.append((torch.cat([values, seen], -1), ts))
    assert_each_is_as_alone(rnn, batch, alone, ROUNDING)


def test_a_loader_gives_a_target_of_each_sequence():
    whole = [(x.numpy(), np.int64(k)) for k, (x, _) in enumerate(sequences())]
    (batch,) = DataLoader(whole, batch_size=4, collate_fn=pickle.loads(pickle.dumps(Collate())))
    assert (batch.targets.tolist(), batch.lengths.tolist()) == ([0, 1, 2, 3], [*LENGTHS])
    assert batch.ts is batch.counts is None


def of_samples(targets):
    """A batch of sequences with a target of each sample."""
    return Collate(targets="sample")([(torch.randn(n, 2), y) for n, y in zip(LENGTHS, targets, strict=True)])


def scored():
    """Scores of a batch (5, 4, 3), and those that are of no padding."""
    scores = torch.randn(5, 4, 3)
    return scores, torch.cat([scores[:n, k] for k, n in enumerate(LENGTHS)])


def test_losses_of_classes_leave_out_what_is_padded():
    classes, (scores, alone) = [torch.randint(3, (n,)) for n in LENGTHS], scored()
    batch = of_samples(classes)
    assert_close(cross_entropy(scores.movedim(-1, 1), batch.targets), cross_entropy(alone, torch.cat(classes)))


@pytest.mark.parametrize("kind", [torch.uint8, torch.bool])
def test_classes_of_small_types_are_left_out_where_padded_too(kind):
    classes = [torch.randint(3, (n,)) for n in LENGTHS]
    batch, small = of_samples(classes), of_samples([(k > 0).to(kind) for k in classes])
    assert torch.equal(small.targets, torch.where(batch.targets > 0, 1, batch.targets))  # what is ignored stays so


def test_losses_of_numbers_leave_out_what_is_padded():
    numbers, (scores, alone) = [torch.randn(n, 3) for n in LENGTHS], scored()
    batch = of_samples(numbers)
    loss = (mse_loss(scores, batch.targets, reduction="none").mean(-1) * batch.counts).sum() / batch.counts.sum()
    assert_close(loss, mse_loss(alone, torch.cat(numbers)))


def test_a_batch_moves_to_a_device_and_leaves_its_lengths_on_the_cpu():
    batch = of_samples([torch.randn(n, 3) for n in LENGTHS])
    moved = batch.to("meta")
    assert {moved.xs.device.type, moved.targets.device.type, moved.counts.device.type} == {"meta"}
    assert moved.lengths is batch.lengths


def test_a_target_of_samples_has_a_row_for_each():
    with pytest.raises(ValueError, match=r"`target of samples\[0\]` has shape \(2,\); give a row for each of its 3 samples"):
        Collate(targets="sample")([(X, TS[:2])])


def test_missing_values_are_masked_or_held_and_nothing_else():
    with pytest.raises(ValueError, match="`missing` must be one of 'mask', 'hold', got 'zero'"):
        Collate(missing="zero")


def test_samples_without_targets_make_a_batch_without():
    batch = Collate()([X])
    assert isinstance(batch, Batch)
    assert batch.targets is batch.ts is None
    assert_close(batch.xs, X[:, None])


X, TS = torch.zeros(3, 2), torch.arange(3.0)


@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        ([], ValueError, "`samples` is empty"),
        ([X, X[0]], ValueError, r"`x of samples\[1\]` must be \(samples, features\), at least one sample, got shape \(2,\)"),
        ([X, X[:0]], ValueError, r"`x of samples\[1\]` must be .* got shape \(0, 2\)"),
        ([X.long()], TypeError, "must be floating point, got torch.int64; convert it"),
        (["abc"], TypeError, r"`x of samples\[0\]` must be a tensor, an array or numbers, got str"),
        ([X, X[:, :1]], ValueError, r"`x of samples\[1\]` has 1 features, that of samples\[0\] 2"),
        ([X, X.half()], TypeError, r"`x of samples\[1\]` is torch.float16, that of samples\[0\] torch.float"),
        ([(X, TS, 0), (X, -TS, 0)], ValueError, r"`ts of samples\[1\]` must increase strictly, but goes back at index 1"),
        ([(X, TS[:2], 0)], ValueError, r"`ts of samples\[0\]` must have a stamp for each sample, or one edge more, got 2 for 3"),
        ([(X, TS, 0), (X[:2], TS, 0)], ValueError, r"`samples\[1\]` and `samples\[0\]` differ in `ts`: give stamps for all"),
        ([(X, TS, 0), (X, 0)], ValueError, r"`samples\[1\]` has x, target, `samples\[0\]` has x, ts, target"),
        ([{"x": X, "times": TS}], ValueError, r"`samples\[0\]` must be x, \(x, target\), .* got the keys 'x', 'times'"),
        ([(X, TS, 0, 1)], ValueError, "got a tuple of 4"),
        ([(X, TS), (X[:2], TS[:2])], ValueError, r"has shape \(2,\), that of samples\[0\] \(3,\); `targets=\"sample\"` is for"),
    ],
)
def test_samples_that_do_not_fit_are_refused_in_words(samples, error, message):
    with pytest.raises(error, match=message):
        Collate()(samples)


def test_arrays_that_may_not_be_written_to_are_read_without_a_warning():
    """As pandas 3 gives them; a warning is an error here."""
    x, ts, target = np.ones((3, 2)), np.arange(3.0), np.array([1, 0])
    for array in (x, ts, target):
        array.flags.writeable = False
    batch = Collate()([(x, ts, target)])
    assert_close(batch.xs[:, 0], torch.ones(3, 2))
    assert batch.targets.tolist() == [[1, 0]]
    assert batch.ts[:, 0].tolist() == [0, 1, 2]
