"""Context trees beside the sum over all trees, each written down, and beside Krichevsky and Trofimov's own formula."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from experiments.symbols.context_tree import ContextTree
from experiments.symbols.laws.equal_blocks import EqualBlocks
from experiments.symbols.table import chain_log_probs


def trees(size, depth, node=()):
    """(2^-cost, leaves) of every tree below a node; a node is the symbols before, the last first, and `size` those before all."""
    if len(node) == depth:
        yield 1.0, [node]
        return
    yield 0.5, [node]
    children = [list(trees(size, depth, (*node, symbol))) for symbol in range(size + 1)]
    for chosen in itertools.product(*children):
        yield 0.5 * math.prod(weight for weight, _ in chosen), [leaf for _, leaves in chosen for leaf in leaves]


def probability(sequence, leaves, size, alpha):
    """Of a sequence, each leaf learning by itself."""
    counts, p = {leaf: Counter() for leaf in leaves}, 1.0
    for t, x in enumerate(sequence):
        past = (*reversed(sequence[:t]), *[size] * 9)
        (leaf,) = [leaf for leaf in leaves if past[: len(leaf)] == leaf]
        p *= (counts[leaf][x] + alpha) / (counts[leaf].total() + alpha * size)
        counts[leaf][x] += 1
    return p


def weighted(sequence, size, depth, alpha):
    return sum(weight * probability(sequence, leaves, size, alpha) for weight, leaves in trees(size, depth))


@pytest.mark.parametrize(("size", "depth", "alpha"), [(2, 0, 0.5), (2, 2, 0.5), (3, 2, 1 / 3), (1, 2, 0.5), (4, 1, 0.2)])
def test_a_sequence_has_the_weighted_probability_of_all_trees(size, depth, alpha):
    assert sum(weight for weight, _ in trees(size, depth)) == pytest.approx(1)
    sequence = torch.randint(size, (12,)).sort()[0].roll(5)  # runs, so that deep contexts matter
    log_probs = ContextTree(size, depth, alpha).read(sequence)
    assert_close(log_probs.exp().sum(-1), torch.ones(12))
    for t in (5, 12):
        found = log_probs[:t].gather(1, sequence[:t, None]).sum()
        assert float(found) == pytest.approx(math.log(weighted(tuple(sequence[:t].tolist()), size, depth, alpha)), abs=1e-10)


@pytest.mark.slow
def test_a_deep_binary_tree_is_the_mean_of_730_trees():
    sequence = torch.randint(2, (14,))
    assert len(list(trees(2, 3))) == 730
    found = ContextTree(2, 3).read(sequence).gather(1, sequence[:, None]).sum()
    assert float(found) == pytest.approx(math.log(weighted(tuple(sequence.tolist()), 2, 3, 0.5)), abs=1e-10)


def test_depth_0_is_the_estimate_of_krichevsky_and_trofimov():
    sequence = torch.tensor([0, 2, 2, 1, 2, 0, 2])
    counts = torch.bincount(sequence, minlength=3) + 0.5
    closed = counts.lgamma().sum() - torch.tensor(7 + 1.5).lgamma() - 3 * math.lgamma(0.5) + math.lgamma(1.5)
    assert_close(ContextTree(3, 0).read(sequence).gather(1, sequence[:, None]).sum(), closed)


def test_reading_goes_on_where_it_ended_and_predicts_without_looking():
    source = EqualBlocks(pairs=6, least=3, most=9)
    first, second = source.draw(0).symbols, source.draw(0, "validation").symbols
    whole, split = ContextTree(3, 5), ContextTree(3, 5)
    together = whole.read(torch.cat([first, second]))
    assert torch.equal(torch.cat([split.read(first), split.read(second)]), together)
    other = second.clone()
    other[20:] = 0
    again = ContextTree(3, 5)
    again.read(first)
    assert torch.equal(again.read(other)[:21], together[len(first) : len(first) + 21])


def test_nothing_overflows_where_one_depth_has_all_the_weight():
    for sequence in (torch.arange(2500) % 2, torch.randint(2, (2500,))):
        log_probs = ContextTree(2, 3).read(sequence)
        assert torch.isfinite(log_probs).all()
        assert_close(log_probs.exp().sum(-1), torch.ones(2500))
    assert log_probs[-1000:].gather(1, sequence[-1000:, None]).sum() == pytest.approx(-1000 * math.log(2), rel=0.02)


def test_bad_trees_chains_and_symbols_are_refused(subtests):
    symbols = torch.tensor([0, 1])
    for bad, message in (
        (lambda: ContextTree(2, -1), "`depth` must be at least 0"),
        (lambda: ContextTree(2, alpha=0.0), "`alpha` must be above 0"),
        (lambda: ContextTree(2).read(symbols + 1), "from 0 to 1, got 1 to 2"),
        (lambda: ContextTree(2).read(symbols.int()), "must be int64"),
        (lambda: chain_log_probs(symbols, symbols, 2, 1, alpha=-1.0), "`alpha` must be above 0"),
    ):
        with subtests.test(message), pytest.raises(ValueError, match=message):
            bad()


@pytest.mark.parametrize("order", [0, 1, 3])
def test_a_chain_is_counted_on_the_training_sequence(order):
    train, symbols = torch.randint(3, (50,)), torch.randint(3, (20,))

    def context(sequence, t):
        return tuple(([3] * order + sequence.tolist())[t : t + order])

    counts = Counter((context(train, t), x) for t, x in enumerate(train.tolist()))
    found = chain_log_probs(train, symbols, 3, order, alpha=0.4)
    for t in range(20):
        n = np.array([counts[context(symbols, t), y] for y in range(3)]) + 0.4
        assert_close(found[t].exp(), torch.from_numpy(n / n.sum()))
