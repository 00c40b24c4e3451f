"""Sequences drawn from a model: their frequencies beside the probabilities that the model gives them."""

import math

import pytest
import torch

import ctrnn
import discretize

LENGTH, DRAWN = 3, 20_000


def model_of(make):
    model = discretize.SymbolModel(make(2, 3, generator=torch.Generator().manual_seed(0)))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    return model


@pytest.mark.parametrize("make", [ctrnn.glnn, ctrnn.gnn, ctrnn.lstm])
def test_words_come_as_often_as_the_model_says(make):
    model = model_of(make)
    words = torch.cartesian_prod(*[torch.arange(2)] * LENGTH)
    expected = torch.cat([model.log_likelihood(word[:, None])[None] for word in words]).exp().detach()
    drawn = model.sample(LENGTH, DRAWN, torch.Generator().manual_seed(1))
    often = (drawn.mT @ torch.tensor([4, 2, 1])).bincount(minlength=8)
    chi_squared = ((often - DRAWN * expected) ** 2 / (DRAWN * expected)).sum()
    assert chi_squared < 24.3  # 7 degrees of freedom: more in one of 1000 draws, and this one is seeded
    assert expected.sum() == pytest.approx(1)


def test_what_was_read_before_counts():
    model, before = model_of(ctrnn.glnn), torch.tensor([[1], [0], [1]])
    zero = model(torch.cat([before, torch.zeros(1, 1, dtype=torch.int64)]))[-1, 0].softmax(-1)[0].item()
    drawn = model.sample(1, DRAWN, torch.Generator().manual_seed(2), after=before.expand(-1, DRAWN))
    deviation = math.sqrt(zero * (1 - zero) / DRAWN)
    assert abs((drawn == 0).double().mean().item() - zero) < 4 * deviation


def test_what_cannot_be_drawn_is_refused():
    model = model_of(ctrnn.glnn)
    with pytest.raises(ValueError, match="`length`"):
        model.sample(0)
    with pytest.raises(ValueError, match="`after` has 2 sequences, `batch` is 1"):
        model.sample(3, after=torch.zeros(4, 2, dtype=torch.int64))
    torch.nn.init.constant_(model.read_out.bias, math.inf)
    with pytest.raises(ValueError, match="not finite"):
        model.sample(3)
