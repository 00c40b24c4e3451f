"""Hidden Markov models beside sums over all hidden paths, each written down."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from experiments.symbols.hidden_markov import HiddenMarkov, baum_welch, random_hidden_markov
from experiments.symbols.laws.equal_blocks import EqualBlocks


def drawn(batch, states, size):
    """Models whose every probability is another."""
    weights = [torch.rand(batch, *shape) + 0.05 for shape in ((states,), (states, states), (states, size))]
    return HiddenMarkov(*(each / each.sum(-1, keepdim=True) for each in weights))


def paths(models, k, symbols):
    """Every hidden path of model k with its joint probability with the symbols."""
    initial, transition, emission = (law[k].tolist() for law in (models.initial, models.transition, models.emission))
    for path in itertools.product(range(len(initial)), repeat=len(symbols)):
        p = initial[path[0]]
        for before, after in itertools.pairwise(path):
            p *= transition[before][after]
        yield path, p * math.prod(emission[z][x] for z, x in zip(path, symbols, strict=True))


def test_likelihoods_and_predictions_are_sums_over_paths():
    models, symbols = drawn(3, 3, 4), torch.tensor([0, 3, 3, 1, 0, 2])
    likelihood, log_probs = models.log_likelihood(symbols), models.log_probs(symbols)
    assert log_probs.shape == (6, 3, 4)
    assert_close(log_probs.exp().sum(-1), torch.ones(6, 3))
    for k in range(3):
        sums = [sum(p for _, p in paths(models, k, symbols[:t].tolist())) for t in range(1, 7)]
        assert float(likelihood[k]) == pytest.approx(math.log(sums[-1]), abs=1e-12)
        for t in range(1, 6):
            p = math.exp(float(log_probs[t, k, symbols[t]]))
            assert p == pytest.approx(sums[t] / sums[t - 1], abs=1e-10)
        assert_close(models[k].log_likelihood(symbols), likelihood[k][None])


def test_a_step_of_training_is_the_expected_frequencies_over_paths():
    models, symbols = drawn(2, 3, 3), [0, 2, 1, 1, 0]
    found, likelihood = models.updated(torch.tensor(symbols))
    for k in range(2):
        initial, moves, printed = torch.zeros(3), torch.zeros(3, 3), torch.zeros(3, 3)
        total = sum(p for _, p in paths(models, k, symbols))
        for path, p in paths(models, k, symbols):
            initial[path[0]] += p / total
            for before, after in itertools.pairwise(path):
                moves[before, after] += p
            for z, x in zip(path, symbols, strict=True):
                printed[z, x] += p
        assert_close(found.initial[k], initial)
        assert_close(found.transition[k], moves / moves.sum(-1, keepdim=True))
        assert_close(found.emission[k], printed / printed.sum(-1, keepdim=True))
        assert float(likelihood[k]) == pytest.approx(math.log(total), abs=1e-12)


@settings(max_examples=8)
@given(states=st.integers(1, 5), edges=st.integers(1, 5), seed=st.integers(0, 99))
def test_the_likelihood_never_falls_and_rows_stay_probabilities(states, edges, seed):
    symbols = EqualBlocks(pairs=3, least=2, most=6).draw(seed).symbols
    start = random_hidden_markov(symbols, 3, states, 2, edges, torch.Generator().manual_seed(seed))
    models, history = baum_welch(start, symbols, 12, gain=-math.inf)
    assert history.shape == (12, 2)
    assert bool((history.diff(dim=0) > -1e-9 * history[1:].abs()).all())
    assert bool((models.log_likelihood(symbols) >= history[-1] - 1e-9).all())
    assert bool(((models.transition > 0) <= (start.transition > 0)).all())  # edges that are not there do not come


def test_training_ends_when_nothing_is_gained_and_a_known_law_is_learned():
    symbols = torch.arange(60) % 3
    start = random_hidden_markov(symbols, 3, 3, 4, generator=torch.Generator().manual_seed(1))
    models, history = baum_welch(start, symbols, 300, gain=1e-6)
    assert len(history) < 300
    best = int(history[-1].argmax())
    assert float(history[-1, best]) == pytest.approx(0, abs=1e-3)  # a cycle of three states, which knows its start
    assert bool((models.log_probs(symbols)[:, best].argmax(-1) == symbols).all())


def test_starts_have_edges_drawn_by_the_law_of_jeffreys_and_only_symbols_that_are_there():
    symbols = torch.tensor([0, 0, 3])
    models = random_hidden_markov(symbols, 4, 7, starts=5, edges=3)
    assert bool(((models.transition > 0).sum(-1) == 3).all())
    assert bool((models.transition.diagonal(dim1=-2, dim2=-1) > 0).all())
    assert not models.emission[..., 1:3].any()
    assert len({tuple(rows) for rows in models.transition.flatten(1).tolist()}) == 5
    assert bool((random_hidden_markov(symbols, 4, 2, edges=3).transition > 0).all())
    weights = random_hidden_markov(torch.tensor([0]), 1, 3, starts=2000).transition[:, 0]
    # Dirichlet(1/2, 1/2, 1/2): each mean 1/3, variance (1/3)(2/3)/(3/2 + 1) = 4/45
    assert float(weights[:, 0].mean()) == pytest.approx(1 / 3, abs=5 * math.sqrt(4 / 45 / 2000))
    assert float(weights[:, 0].var()) == pytest.approx(4 / 45, rel=0.15)


def test_an_impossible_symbol_leaves_the_prediction_as_it_was():
    models = HiddenMarkov(
        torch.tensor([[1.0, 0.0]]), torch.tensor([[[0.0, 1], [1, 0]]]), torch.tensor([[[1.0, 0, 0], [0, 1, 0]]])
    )
    log_probs = models.log_probs(torch.tensor([0, 2, 0, 1]))[:, 0]
    assert log_probs.argmax(-1).tolist() == [0, 1, 0, 1]
    assert float(log_probs[1, 2]) == pytest.approx(math.log(1e-12 / 3))
    for symbols in ([0, 2], [0, 2, 0]):
        assert models.log_likelihood(torch.tensor(symbols)).tolist() == [-math.inf]
    with pytest.raises(ValueError, match="impossible for some of the models"):
        models.updated(torch.tensor([0, 2, 0]))
    law = torch.tensor([[0.5, 0.5, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])  # the third state is never visited, and stays as it was
    models = HiddenMarkov(torch.tensor([[0.5, 0.5, 0]]), law[None], torch.tensor([[[0.3, 0.7], [0.6, 0.4], [0.9, 0.1]]]))
    after, _ = models.updated(torch.tensor([0, 1, 1, 0]))
    assert_close(after.transition[0, 2], law[2])
    assert_close(after.emission[0, 2], models.emission[0, 2])


def test_bad_models_and_symbols_are_refused(subtests):
    models, symbols = drawn(1, 2, 3), torch.tensor([0, 1])
    for bad, message in (
        (lambda: HiddenMarkov(models.initial, models.transition[:, :1], models.emission), r"`transition` must be \(1, 2, 2\)"),
        (lambda: HiddenMarkov(models.initial * 2, models.transition, models.emission), "the rows of `initial`"),
        (lambda: models.log_likelihood(symbols[:0]), "at least 1, got 0"),
        (lambda: baum_welch(models, symbols, 0), "`steps` must be at least 1"),
    ):
        with subtests.test(message), pytest.raises(ValueError, match=message):
            bad()


@pytest.mark.slow
def test_ten_steps_of_training_are_those_of_hmmlearn():
    """Likelihoods of some thousand nats, so 1e-9 is a dozen of their last places."""
    hmm = pytest.importorskip("hmmlearn.hmm", reason="pip install '.[judges]'")
    dice = torch.Generator().manual_seed(0)
    symbols = torch.randint(6, (3000,), generator=dice)
    symbols = (symbols + torch.roll(symbols, 1) * (symbols > 2)) % 6
    ours, likelihoods = random_hidden_markov(symbols, 6, 5, generator=dice), []
    theirs = hmm.CategoricalHMM(5, n_iter=10, tol=-math.inf, init_params="", n_features=6, implementation="scaling")
    theirs.startprob_, theirs.transmat_, theirs.emissionprob_ = (
        law[0].numpy() for law in (ours.initial, ours.transition, ours.emission)
    )
    theirs.fit(symbols.numpy()[:, None])
    for _ in range(10):
        ours, likelihood = ours.updated(symbols)
        likelihoods.append(float(likelihood))
    assert likelihoods == pytest.approx(list(theirs.monitor_.history), abs=1e-9)
    for mine, of_theirs in zip(
        (ours.initial, ours.transition, ours.emission), (theirs.startprob_, theirs.transmat_, theirs.emissionprob_), strict=True
    ):
        assert_close(mine[0], torch.from_numpy(of_theirs), rtol=0, atol=1e-12)
