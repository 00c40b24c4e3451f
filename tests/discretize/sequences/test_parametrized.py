"""Parametrized weights: computed once a call, with the kernels and gradients of plain ones."""

import pytest
import torch
from conformance import kernels_for_all
from problems import thinned
from torch import nn
from torch.nn.utils import parametrizations
from torch.nn.utils.parametrize import register_parametrization

import ctrnn
from discretize import Adjoint, Checkpointed, ContinuousRNN, DiscreteCell, DiscreteRNN, Heun, RungeKutta4, integrate, unroll


class Doubled(nn.Module):
    """2 w, and how often it was asked."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, w):
        self.calls += 1
        return 2 * w


@pytest.fixture(autouse=True)
def short_sequences():
    with kernels_for_all():
        yield


def field():
    return ctrnn.gated(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def integrated(f, x):
    path = ctrnn.LinearPath(x)
    return integrate(f, path, f.initial_state(x.shape[1]), path.knots).hs


CALLS = {
    "cell": lambda f, x: DiscreteCell(f, RungeKutta4())(x[0]),
    "unroll": lambda f, x: unroll(DiscreteCell(f), x).hs,
    "sequence": lambda f, x: DiscreteRNN(f)(x)[0],
    "steps": lambda f, x: DiscreteRNN(f, Heun())(x)[0],
    "fixed steps": lambda f, x: ContinuousRNN(f, "midpoint")(x)[0],
    "adaptive steps": lambda f, x: ContinuousRNN(f, "bosh3", 1e-2, 1e-2)(x)[0],
    "compiled solve": lambda f, x: ContinuousRNN(f)(x)[0],
    "checkpointed": lambda f, x: ContinuousRNN(f, "dopri5", 1e-2, 1e-2, gradient=Checkpointed(1000))(x)[0],
    "adjoint": lambda f, x: ContinuousRNN(f, "dopri5", 1e-2, 1e-2, gradient=Adjoint())(x)[0],
    "integrate": integrated,
}


# Heun's steps are written in C++, as the fixed steps of a solve are.
@pytest.mark.parametrize("name", thinned(CALLS, set(CALLS) - {"steps"}))
def test_a_parametrization_is_computed_once_and_its_gradients_are_those_of_the_weight(name):
    x = torch.randn(5, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    parametrized, plain, doubled = field(), field(), Doubled()
    register_parametrization(parametrized.candidate, "weight_h", doubled)
    with torch.no_grad():
        plain.candidate.weight_h *= 2
    doubled.calls = 0
    found, expected = CALLS[name](parametrized, x), CALLS[name](plain, x)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    found.square().sum().backward()
    expected.square().sum().backward()
    assert doubled.calls == 1
    of_original = parametrized.candidate.parametrizations.weight_h.original.grad
    torch.testing.assert_close(of_original, 2 * plain.candidate.weight_h.grad, rtol=0, atol=1e-14)
    torch.testing.assert_close(parametrized.rate.weight_x.grad, plain.rate.weight_x.grad, rtol=0, atol=1e-14)


@pytest.mark.parametrize("wrap", [parametrizations.weight_norm, parametrizations.spectral_norm, parametrizations.orthogonal])
def test_parametrizations_of_torch_keep_the_kernels(wrap):
    x = torch.randn(5, 4, 2, dtype=torch.float64)
    module = ContinuousRNN(field())
    wrap(module.field.candidate, "weight_h")
    output, _ = module(x)
    assert module.stats["engine"] == "compiled"
    weight, given = module.field.candidate.weight_h, field()
    if wrap is parametrizations.spectral_norm:  # in training each computation of the weight is one more iteration for its norm
        weight = module.eval().field.candidate.weight_h
        output, _ = module(x)
    with torch.no_grad():
        given.load_state_dict(module.field.state_dict(), strict=False)
        given.candidate.weight_h.copy_(weight)
    torch.testing.assert_close(output, ContinuousRNN(given)(x)[0], rtol=0, atol=1e-12)
    discrete = DiscreteRNN(module.field)
    discrete(x)[0].square().sum().backward()
    assert discrete.stats["engine"] == "compiled"
    assert all(p.grad is not None and bool(p.grad.any()) for p in module.field.candidate.parametrizations.parameters())


def test_weights_replaced_for_one_call_are_those_computed_from():
    x = torch.randn(5, 4, 2, dtype=torch.float64)
    module = ContinuousRNN(field(), gradient=Checkpointed(1000))
    register_parametrization(module.field.candidate, "weight_h", Doubled())
    half = {name: p.detach() / 2 for name, p in module.named_parameters()}
    wanted = half["field.candidate.parametrizations.weight_h.original"].requires_grad_()
    output, _ = torch.func.functional_call(module, half, (x,))
    (found,) = torch.autograd.grad(output.square().sum(), wanted)
    module.load_state_dict(half)
    expected, _ = module(x)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-13)
    original = module.field.candidate.parametrizations.weight_h.original
    torch.testing.assert_close(found, torch.autograd.grad(expected.square().sum(), original)[0], rtol=0, atol=1e-12)
