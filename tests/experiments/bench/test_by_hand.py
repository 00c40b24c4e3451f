"""The measure of what torchdiffeq costs by `ContinuousRNN`: both compute the same."""

import pytest
import torch
from torch.testing import assert_close

import ctrnn
from experiments.bench.peers import by_hand


def test_the_engine_and_the_calls_by_hand_give_the_same_states_and_gradients():
    field, xs = ctrnn.gated(3, 4), torch.randn(6, 2, 3)
    found = [solve(field, xs, field.initial_state(2)) for solve in (by_hand.by_hand, by_hand.by_engine)]
    assert_close(*found, rtol=0, atol=1e-12)
    slopes = [torch.autograd.grad(hs.sin().sum(), list(field.parameters())) for hs in found]
    for mine, theirs in zip(*slopes, strict=True):
        assert_close(mine, theirs, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("only_new_garbage")
def test_it_prints_a_row_for_every_size(capsys, monkeypatch):
    monkeypatch.setattr(by_hand, "SIZES", ((1, 2), (3, 4)))
    by_hand.main(["--samples", "2", "--rounds", "1"])
    assert [line.count("|") for line in capsys.readouterr().out.splitlines()] == [5] * 4
