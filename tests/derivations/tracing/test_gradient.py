"""Autograd's gradient of a module is the derivative of its equations; a backward pass that is wrong is refuted."""

import pytest
import torch
from torch import nn

import ctrnn
from derivations import UnknownOperation, verify_gradient


class Doubling(torch.autograd.Function):
    """Twice the gradient of what it computes."""

    @staticmethod
    def forward(ctx, h):
        return h.clone()

    @staticmethod
    def backward(ctx, v):
        return 2 * v


class OfFew(torch.autograd.Function):
    """No gradient for four samples and more."""

    @staticmethod
    def forward(ctx, h):
        return h.clone()

    @staticmethod
    def backward(ctx, v):
        return v if v.shape[0] < 4 else 0 * v


class Cell(nn.Module):
    def __init__(self, code):
        super().__init__()
        self.input_size, self.hidden_size, self.code = 1, 2, code
        self.w = nn.Parameter(torch.ones(2))

    def forward(self, x, h):
        return self.code(self, x, h)


RIGHT = {
    "RNNCell": nn.RNNCell(1, 2),
    "GRUCell": nn.GRUCell(1, 1),
    "a field": ctrnn.leaky(1, 2),
    "softmax": Cell(lambda self, x, h: torch.softmax(self.w * h, -1) * x),
}


@pytest.mark.by_default(1)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n == "GRUCell" else n for n in RIGHT])
def test_the_gradient_is_the_derivative(name):
    verdict = verify_gradient(RIGHT[name])
    assert verdict.verdict == "holds", verdict.evidence
    assert "every vector v" in verdict.evidence


@pytest.mark.slow
def test_the_gradient_of_the_lstm_is_the_derivative():
    assert verify_gradient(nn.LSTMCell(1, 1)).verdict == "holds"


CORNERS = {
    "relu(w h) + |h|": (lambda self, x, h: torch.relu(self.w * h) + h.abs(), 4),
    "relu(w h + x)": (lambda self, x, h: torch.relu(self.w * h + x), 2),
    "a maximum, each corner once": (lambda self, x, h: torch.maximum(h, h.flip(-1) * self.w), 2),
}


@pytest.mark.by_default(1)
@pytest.mark.parametrize("name", CORNERS)
def test_corners_are_left_out_of_a_gradient(name):
    code, count = CORNERS[name]
    verdict = verify_gradient(Cell(code))
    assert verdict.holds is True
    assert len(verdict.defined_on) == count


def test_conditions_of_a_gradient_are_none_that_are_certain():
    normed = verify_gradient(Cell(lambda self, x, h: h / h.norm(dim=-1, keepdim=True)))
    assert normed.holds is True
    assert not any(condition in (True, False) for condition in normed.defined_on)


def test_a_gradient_of_batches_of_certain_sizes_is_refused():
    with pytest.raises(ValueError, match="certain sizes"):
        verify_gradient(Cell(lambda self, x, h: OfFew.apply(h)))


def test_a_derivative_that_is_not_known_is_refused_by_its_name():
    with pytest.raises(UnknownOperation, match=r"derivative of floor\(h_1\)"):
        verify_gradient(Cell(lambda self, x, h: h.floor()))


@pytest.mark.parametrize(
    "code",
    [lambda self, x, h: Doubling.apply(h) * x, lambda self, x, h: h.detach() * h + self.w * x],
)
def test_a_wrong_gradient_is_refuted(code):
    assert verify_gradient(Cell(code)).holds is False
