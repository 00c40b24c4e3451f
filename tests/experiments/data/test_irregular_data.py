"""Batches of recorded sequences, of natural lengths and at times of their own, against the same sequences one at a time.

On made files; on the real ones where CTRNN_DATA names a folder with japanese_vowels/ and physionet2012/ in it.
"""

from itertools import islice

import pytest
import torch
from datasets import folder_of, make_patients, make_vowels
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence, pad_sequence
from torch.testing import assert_close

import ctrnn
from discretize import ContinuousRNN, DiscreteRNN, ExponentialEuler, RungeKutta4
from experiments.data.japanese_vowels import read_japanese_vowels
from experiments.data.physionet2012 import read_physionet2012

# Matrix products of other shapes: 3e-16 measured on both the real and the made files.
ROUNDING = {"rtol": 0, "atol": 1e-12}
# Each sequence takes steps of its own, the same in a batch and alone, so that only rounding differs, 3e-15 measured on real
# and made files; where rounding makes the difference between accepting a step and not, it would be the tolerance, 1e-4.
SOLVED = {"rtol": 0, "atol": 1e-10}
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}
every_field = pytest.mark.parametrize(
    "make", [pytest.param(ctrnn.gated, marks=pytest.mark.slow), ctrnn.lstm], ids=["gated", "lstm"]
)


@pytest.fixture
def series(tmp_path):
    """Six of different speakers."""
    read = read_japanese_vowels(folder_of("japanese_vowels", tmp_path, make_vowels))
    chosen = [xs for xs, _ in read[:: len(read) // 6][:6]]
    assert len(chosen) == 6
    assert len({len(xs) for xs in chosen}) > 3
    return chosen


class Patients:
    """Five records as one padded batch: hours, and what was last observed, standardized, beside whether it was observed."""

    def __init__(self, folder):
        records = list(islice((p for p in read_physionet2012(folder, limit=20) if len(p.ts) > 1), 5))
        self.lengths = [len(p.ts) for p in records]
        self.ts = pad_sequence([p.ts for p in records], padding_value=torch.nan)
        xs = pad_sequence([p.xs for p in records], padding_value=torch.nan)
        mean = xs.nanmean((0, 1))
        spread = (xs - mean).square().nanmean((0, 1)).sqrt()
        # A parameter that nobody was measured for, or always the same, stays missing or zero.
        values, observed = ctrnn.hold_missing((xs - mean) / torch.where(spread > 0, spread, 1))
        self.x = torch.cat([values, observed], -1)
        self.queries = self.ts[0] + torch.rand(6, 5) * (torch.stack([p.ts[-1] for p in records]) - self.ts[0])

    def alone(self, i):
        """Samples and stamps of one, without what is padded."""
        return self.x[: self.lengths[i], i : i + 1], self.ts[: self.lengths[i], i : i + 1]


@pytest.fixture
def patients(tmp_path):
    read = Patients(folder_of("physionet2012", tmp_path, make_patients))
    assert len(read.lengths) == 5
    assert len(set(read.lengths)) > 3
    return read


def assert_read_as_alone(rnn, series, tolerance):
    """By `lengths` and packed."""
    lengths = [len(xs) for xs in series]
    output, h_n = rnn(pad_sequence(series, padding_value=torch.nan), lengths=lengths)
    packed, packed_n = rnn(pack_sequence(series, enforce_sorted=False))
    unpacked, found = pad_packed_sequence(packed)
    assert found.tolist() == lengths
    for i, xs in enumerate(series):
        expected, expected_n = rnn(xs)
        for outputs, ends in ((output, h_n), (unpacked, packed_n)):
            assert_close(outputs[: len(xs), i], expected, **tolerance)
            assert_close(ends[:, i], expected_n, **tolerance)
            assert (outputs[len(xs) :, i] == 0).all()


@every_field
@pytest.mark.parametrize("step", [{}, {"step": ExponentialEuler(), "dt": 0.7, "substeps": 2}], ids=["euler", "exponential"])
def test_recorded_series_of_natural_lengths_are_unrolled_as_alone(series, make, step):
    assert_read_as_alone(DiscreteRNN(make(12, 8), **step), series, ROUNDING)


@every_field
def test_recorded_series_of_natural_lengths_are_solved_as_alone(series, make):
    assert_read_as_alone(ContinuousRNN(make(12, 8), **TOLERANCE), series, SOLVED)


@every_field
def test_patients_with_stamps_of_their_own_are_solved_as_alone_also_between_the_stamps(patients, make):
    rnn = ContinuousRNN(make(74, 8), **TOLERANCE)
    with torch.no_grad():
        output, h_n = rnn(patients.x, ts=patients.ts, lengths=patients.lengths)
        trajectory = rnn.trajectory(patients.x, ts=patients.ts, lengths=patients.lengths)
        between = trajectory(patients.queries)
        for i in sorted(range(5), key=patients.lengths.__getitem__)[::2]:  # the shortest, the longest and one between
            length, (x, ts) = patients.lengths[i], patients.alone(i)
            alone = rnn.trajectory(x, ts=ts)
            assert_close(trajectory.hs[: length + 1, i : i + 1], alone.hs, **SOLVED)
            assert_close(trajectory.ts[: length + 1, i : i + 1], alone.ts, rtol=0, atol=0)
            assert_close(output[:length, i : i + 1], rnn.field.visible(alone.hs[1:]), **SOLVED)
            assert_close(h_n[0, i], alone.hs[-1, 0], **SOLVED)
            assert_close(between[:, i : i + 1], alone(patients.queries[:, i : i + 1]), **SOLVED)
            # Shared times are solved for from the stamp before, those of each from the start: within the tolerance; at
            # one of 1e-6, 2e-8 was measured on the real files.
            shared = rnn.trajectory(x, ts=ts[:, 0])(patients.queries[:, i])
            assert_close(between[:, i : i + 1], shared, rtol=0, atol=TOLERANCE["atol"])


@every_field
@pytest.mark.slow
def test_a_solve_of_patients_is_what_many_small_steps_say(patients, make):
    field, first = make(74, 8), 20  # stamps: some end before
    x, how = patients.x[:first], {"ts": patients.ts[: first + 1], "lengths": [min(n, first) for n in patients.lengths]}
    with torch.no_grad():
        solved, _ = ContinuousRNN(field, rtol=1e-6, atol=1e-6)(x, **how)
        stepped, _ = DiscreteRNN(field, RungeKutta4(), substeps=16)(x, **how)
    assert_close(solved, stepped, rtol=0, atol=1e-4)  # of fourth order in steps of up to 1/4 h


@pytest.mark.slow
@every_field
def test_gradients_of_patients_are_finite_and_those_of_each_alone(patients, make):
    rnn = ContinuousRNN(make(74, 8), rtol=1e-3, atol=1e-3)
    x, ts = patients.x.requires_grad_(), patients.ts.requires_grad_()
    leaves = [x, ts, *rnn.parameters()]
    trajectory = rnn.trajectory(x, ts=ts, lengths=patients.lengths)
    # Where a sequence is over, its state is that of its end, over and over.
    loss = trajectory(patients.queries).square().sum() + trajectory.hs.mean(0).square().sum()
    found = torch.autograd.grad(loss, leaves)
    expected = [torch.zeros_like(leaf) for leaf in leaves]
    for i in range(len(patients.lengths)):
        alone = rnn.trajectory(patients.alone(i)[0], ts=patients.alone(i)[1])
        ending = alone.hs[-1:].expand(len(trajectory) - len(alone), -1, -1)
        loss = alone(patients.queries[:, i : i + 1]).square().sum() + torch.cat([alone.hs, ending]).mean(0).square().sum()
        expected = [total + grad for total, grad in zip(expected, torch.autograd.grad(loss, leaves), strict=True)]
    for grad, total in zip(found, expected, strict=True):
        assert grad.isfinite().all()
        assert (grad != 0).any()
        assert_close(grad, total, rtol=0, atol=1e-10 * float(total.abs().max()))
    for i, length in enumerate(patients.lengths):
        assert (found[0][length:, i] == 0).all()
        assert (found[1][length:, i] == 0).all()
