"""Sequence modules along paths through their samples: the same solve by `integrate`, lengths, resets, and what is refused."""

import pytest
import torch
from cases import crossed
from torch.testing import assert_close

import ctrnn
from discretize import ContinuousRNN, DiscreteRNN, Layers, integrate

WITHIN = {"rtol": 0, "atol": 1e-10}
KINDS = {"linear": ctrnn.LinearPath, "hermite": ctrnn.HermitePath}


@pytest.mark.parametrize(("word", "own"), crossed(KINDS, [False, True]))  # the slow run has the other pairs, here and below
def test_output_k_is_the_solution_at_stamp_k(word, own):
    field, x, h_0 = ctrnn.gru(2, 3), torch.randn(5, 4, 2), torch.randn(4, 3)
    ts = torch.cumsum(0.2 + torch.rand(5, 4), 0) if own else torch.cumsum(0.2 + torch.rand(5), 0)
    rnn = ContinuousRNN(field, path=word)
    output, h_n = rnn(x, h_0, ts)
    hs = integrate(field, KINDS[word](x, ts), h_0, ts).hs
    assert_close(output, hs, **WITHIN)
    assert_close(h_n, hs[-1:], **WITHIN)
    assert_close(rnn(x)[0], integrate(field, KINDS[word](x), torch.zeros(4, 3), torch.arange(5.0)).hs, **WITHIN)
    assert_close(rnn.trajectory(x, h_0, ts).hs, hs, **WITHIN)
    assert f"path='{word}'" in repr(rnn)


@pytest.mark.parametrize(("word", "stamped"), crossed(KINDS, [True, False]))
def test_sequences_end_and_begin_anew_as_alone(word, stamped):
    rnn, x, lengths = ContinuousRNN(ctrnn.gated(2, 3), path=word), torch.randn(6, 3, 2), [6, 2, 4]
    ts = torch.cumsum(0.2 + torch.rand(6, 3), 0)
    spoiled, spoiled_ts = x.clone(), ts.clone()
    for i, n in enumerate(lengths):
        spoiled[n:, i], spoiled_ts[n:, i] = torch.nan, torch.nan
    weights = [*rnn.parameters()]
    output, h_n = rnn(spoiled, ts=spoiled_ts if stamped else None, lengths=lengths)
    alone = [rnn(x[:n, i], ts=ts[:n, i] if stamped else None) for i, n in enumerate(lengths)]
    for i, n in enumerate(lengths):
        assert_close(output[:n, i], alone[i][0], **WITHIN)
        assert_close(h_n[:, i], alone[i][1], **WITHIN)
    ours = torch.autograd.grad(h_n.sum(), weights)
    theirs = torch.autograd.grad(sum(last.sum() for _, last in alone), weights)
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b, rtol=0, atol=1e-8)
    reset = torch.zeros(6, 3, dtype=torch.bool)
    reset[3, 0] = True
    cut = rnn(x, ts=ts if stamped else None, reset=reset)[0]
    for part in (slice(0, 3), slice(3, 6)):
        assert_close(cut[part, 0], rnn(x[part, 0], ts=ts[part, 0] if stamped else None)[0], **WITHIN)


@pytest.mark.parametrize("word", KINDS)
def test_nothing_that_comes_later_changes_an_output(word):
    rnn, x, ts = ContinuousRNN(ctrnn.gated(2, 3), path=word), torch.randn(6, 2, 2), torch.cumsum(0.2 + torch.rand(6, 2), 0)
    x, ts = x.requires_grad_(), ts.requires_grad_()
    to_x, to_ts = torch.autograd.grad(rnn(x, ts=ts)[0][3].sum(), (x, ts))
    assert not to_x[4:].any()
    assert not to_ts[4:].any()
    assert to_x[3].all()
    assert to_ts[3].all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f, x: ContinuousRNN(f, path="cubic"), "`path` must be one of 'held', 'linear', 'hermite', got 'cubic'"),
        (lambda f, x: ContinuousRNN(f, path="linear", hold="backward"), "are for held samples, and `path` is 'linear'"),
        (lambda f, x: ContinuousRNN(f, path="linear")(x, ts=torch.arange(5.0)), "has 5 times for 4 samples"),
        (lambda f, x: ContinuousRNN(f, path="hermite")(x[:1]), "at least two samples, got 1"),
        (
            lambda f, x: Layers([DiscreteRNN(f), ContinuousRNN(ctrnn.gated(3, 3), path="linear")]),
            "whose outputs are at the samples",
        ),
    ],
)
def test_what_goes_with_held_samples_alone_is_refused_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call(ctrnn.gated(2, 3), torch.randn(4, 1, 2))


@pytest.mark.parametrize("word", KINDS)
def test_a_trajectory_without_stamps_stays_where_a_sequence_has_ended(word):
    rnn, x = ContinuousRNN(ctrnn.gated(2, 3), path=word), torch.randn(5, 2, 2)
    solved, alone = rnn.trajectory(x, lengths=[5, 3]), rnn.trajectory(x[:3, 1:])
    assert solved.ts[:, 1].tolist() == [0, 1, 2, 2, 2]
    assert_close(solved.hs[2:, 1], alone.hs[-1:, 0].expand(3, -1), **WITHIN)
