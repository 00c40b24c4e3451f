"""Candidates against their formulas, written again in NumPy."""

import numpy as np
import pytest
import torch
from cases import each
from torch.testing import assert_close

import ctrnn


def arrays(module):
    return {name: value.detach().numpy() for name, value in module.named_parameters()}


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


@each("bias", [True, False])
def test_the_tanh_candidate_is_its_formula(bias):
    candidate, x, h = ctrnn.TanhCandidate(3, 5, bias=bias), torch.randn(4, 3), torch.randn(4, 5)
    w = arrays(candidate)
    expected = np.tanh(x.numpy() @ w["weight_x"].T + h.numpy() @ w["weight_h"].T + w.get("bias", 0.0))
    assert_close(candidate(x, h), torch.from_numpy(expected), rtol=0, atol=1e-14)  # rounding of a dozen terms


@each("bias", [True, False])
def test_the_reset_candidate_resets_after_the_product(bias):
    candidate, x, h = ctrnn.ResetCandidate(3, 5, bias=bias), torch.randn(4, 3), torch.randn(4, 5)
    if bias:
        torch.nn.init.normal_(candidate.bias_h)  # starts at 0, where its place in the formula cannot be seen
    w = arrays(candidate)
    X, H = x.numpy(), h.numpy()
    r = sigmoid(X @ w["reset.weight_x"].T + H @ w["reset.weight_h"].T + w.get("reset.bias", 0.0))
    pulled = H @ w["pull.weight_h"].T + w.get("bias_h", 0.0)
    expected = np.tanh(X @ w["pull.weight_x"].T + w.get("pull.bias", 0.0) + r * pulled)
    assert_close(candidate(x, h), torch.from_numpy(expected), rtol=0, atol=1e-14)  # rounding of a dozen terms


def test_without_bias_the_reset_candidate_has_weights_only():
    names = set(dict(ctrnn.ResetCandidate(3, 5, bias=False).named_parameters()))
    assert names == {"reset.weight_x", "reset.weight_h", "pull.weight_x", "pull.weight_h"}


def test_a_closed_reset_forgets_the_state():
    candidate, x = ctrnn.ResetCandidate(3, 5), torch.randn(4, 3)
    with torch.no_grad():
        candidate.reset.bias.fill_(-1e3)
    assert torch.equal(candidate(x, torch.randn(4, 5)), candidate(x, torch.zeros(4, 5)))


@each("kind", [ctrnn.TanhCandidate, ctrnn.ResetCandidate])
def test_candidates_stay_within_one(kind):
    assert kind(3, 5)(1e3 * torch.randn(50, 3), 1e3 * torch.randn(50, 5)).abs().max() <= 1


@each("kind", [ctrnn.TanhCandidate, ctrnn.ResetCandidate])
def test_sizes_that_are_no_sizes_are_refused(kind):
    with pytest.raises(ValueError, match="`input_size` must be at least 0, got -1"):
        kind(-1, 5)
    with pytest.raises(TypeError, match=r"`hidden_size` must be a whole number, got 5.5"):
        kind(3, 5.5)
