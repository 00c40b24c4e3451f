"""Bits and regrets beside sums written down symbol by symbol."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from experiments.symbols.laws.equal_blocks import EqualBlocks
from experiments.symbols.scores import bits, log_frequencies, missed, regret


def drawn_model(T, A, models=()):
    """Log-probabilities (T, *models, A), symbols (T,), counts (T,)."""
    return torch.randn(T, *models, A).mul(3).log_softmax(-1), torch.randint(A, (T,)), torch.rand(T) < 0.7


def by_hand(log_probs, symbols, counts, mixed):
    total = 0.0
    for t, (row, x, counted) in enumerate(zip(log_probs.exp().tolist(), symbols.tolist(), counts.tolist(), strict=True)):
        p = (1 - 1 / (t + 2)) * row[x] + 1 / (t + 2) / len(row) if mixed else row[x]
        total -= counted * math.log2(p)
    return total


@given(T=st.integers(1, 30), A=st.integers(1, 5), mixed=st.booleans())
def test_bits_are_those_of_the_sum_written_down(T, A, mixed):
    log_probs, symbols, counts = drawn_model(T, A)
    found = bits(log_probs, symbols, counts, mixed=mixed)
    assert float(found.sum()) == pytest.approx(by_hand(log_probs, symbols, counts, mixed), rel=1e-10, abs=1e-10)
    assert not found[~counts].any()


@pytest.mark.parametrize("T", [1, 2, 7, 200])
def test_mixing_costs_at_most_the_logarithm_of_the_length(T):
    log_probs, symbols, _ = drawn_model(T, 3)
    lost = bits(log_probs, symbols).sum() - bits(log_probs, symbols, mixed=False).sum()
    assert lost <= math.log2(T + 1) + 1e-9
    never = torch.full((T, 2), -math.inf)
    never[:, 0] = 0.0  # what comes has probability 0: (t + 2) A
    assert_close(bits(never, torch.ones(T, dtype=torch.int64)), (2.0 * torch.arange(2, T + 2)).log2())
    certain = bits(never, torch.zeros(T, dtype=torch.int64)).sum()
    assert certain <= math.log2(T + 1)
    assert math.isinf(float(bits(never, torch.ones(T, dtype=torch.int64), mixed=False).sum()))


def test_many_models_are_scored_as_one_by_one_in_their_own_precision():
    log_probs, symbols, counts = drawn_model(20, 4, models=(3, 2))
    found = bits(log_probs, symbols, counts)
    assert found.shape == (20, 3, 2)
    assert_close(found[:, 1, 0], bits(log_probs[:, 1, 0], symbols, counts))
    assert bits(log_probs.float(), symbols).dtype == torch.float64
    assert_close(bits(log_probs.float(), symbols), bits(log_probs, symbols), rtol=1e-5, atol=1e-5)
    own = torch.randint(4, (20, 3, 2))
    assert_close(bits(log_probs, own)[:, 2, 1], bits(log_probs[:, 2, 1], own[:, 2, 1]))


def test_regret_is_none_of_the_true_law_and_adds_up_over_time():
    source = EqualBlocks(pairs=4, least=2, most=5)
    symbols, counts = source.draw(1, "validation")
    true = source.bits(symbols)
    assert not regret(bits(source.log_probs(symbols), symbols, counts, mixed=False), true).any()
    uniform = torch.full((len(symbols), 2, 3), -math.log(3))
    curve = regret(bits(uniform, symbols, counts), true)
    assert curve.shape == (len(symbols), 2)
    assert float(curve[-1, 1]) == pytest.approx(len(symbols) * math.log2(3) - 8)


def test_missed_is_where_the_right_symbol_has_at_most_half():
    log_probs = torch.tensor([[0.5, 0.5], [0.4, 0.6], [0.7, 0.3], [0.0, 1.0]]).log()
    symbols = torch.tensor([0, 1, 1, 0])
    assert missed(log_probs, symbols).tolist() == [True, False, True, True]
    assert missed(log_probs, symbols, torch.tensor([False, True, True, True])).tolist() == [False, False, True, True]
    costs = bits(log_probs, symbols, mixed=False)
    assert bool((missed(log_probs, symbols) <= costs).all())


def test_frequencies_are_those_of_what_is_to_be_predicted_and_have_a_floor():
    symbols, counts = torch.tensor([0, 0, 1, 3, 3, 3]), torch.tensor([False, True, True, False, True, True])
    assert_close(log_frequencies(symbols, None, 4).exp(), torch.tensor([2.0, 1, 6e-9, 3]) / 6)
    assert_close(log_frequencies(symbols, counts, 4, floor=1e-4).exp(), torch.tensor([0.25, 0.25, 1e-4, 0.5]))
    assert log_frequencies(symbols, counts, 4).softmax(-1)[2] < 1e-8


def test_what_cannot_be_scored_is_refused(subtests):
    log_probs, symbols, counts = drawn_model(5, 3)
    for bad, message in (
        (lambda: bits(log_probs, symbols[:4]), r"`symbols` must be torch.int64 of shape \(5,\)"),
        (lambda: bits(log_probs, symbols, counts.int()), "`counts` must be torch.bool"),
        (lambda: bits(log_probs, symbols + 3), "`symbols` must be from 0 to 2"),
        (lambda: bits(log_probs * math.nan, symbols), "these sum to nan"),
        (lambda: log_frequencies(symbols, torch.zeros_like(counts), 3), "no symbol is to be predicted"),
    ):
        with subtests.test(message), pytest.raises(ValueError, match=message):
            bad()
