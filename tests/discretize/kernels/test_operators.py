"""Kernels as operators of torch: what torch asks of an operator, and the kernels' own numbers."""

import pytest
import torch

import ctrnn
from discretize import DiscreteRNN, ExponentialEuler
from discretize.kernels.named.kernel_spec import kind_of, stacked_weights

MAKERS = {
    "gated": lambda **settings: ctrnn.gated(2, 3, decay=ctrnn.PowerDecay(1.5), **settings),
    "gru": lambda **settings: ctrnn.gru(2, 3, **settings),
    "lstm": lambda **settings: ctrnn.lstm(2, 3, bias=False, **settings),
}


def given(make, grad):
    field = make(dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    x = torch.randn(4, 3, 2, dtype=torch.float64).requires_grad_(grad)
    DiscreteRNN(field, ExponentialEuler())(x)  # compared with torch once in a process
    kind, h0 = kind_of(field), torch.randn(3, field.state_size, dtype=torch.float64)
    weights = [None if w is None else w.detach().requires_grad_(grad) for w in stacked_weights(field)]
    return (x, h0, *weights, 0.7, kind.candidate, kind.rate, kind.shared, kind.exponent, "exponential", 2, grad)


@pytest.mark.slow
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", MAKERS)
def test_kernels_are_operators_as_torch_wants_them(name, grad):
    torch.library.opcheck(torch.ops.ctrnn.cells.default, given(MAKERS[name], grad))


@pytest.mark.parametrize("name", MAKERS)
def test_an_operator_gives_what_the_sequence_gives(name):
    states = torch.ops.ctrnn.cells(*given(MAKERS[name], True))[0]
    x, h0, *_ = given(MAKERS[name], True)
    field = MAKERS[name](dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = DiscreteRNN(field, ExponentialEuler(), dt=0.7, substeps=2)(x, h0)[0]
    torch.testing.assert_close(field.visible(states), expected, rtol=0, atol=0)
