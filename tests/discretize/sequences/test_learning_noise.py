"""Noise is learned like the weights: derivatives along one path, by autograd, torch.func and central differences."""

import copy
import pickle

import pytest
import torch
from cases import crossed
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.utils import parametrize
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import EulerMaruyama, ExponentialEulerMaruyama, Milstein, StratonovichHeun

TS = torch.tensor([0.0, 0.3, 0.7, 1.2], dtype=torch.float64)


def relaxation_linear_in_x():
    return ctrnn.Relaxation(ctrnn.Affine(2, 3, 3), ctrnn.FixedRate(0.5), ctrnn.LinearDecay())


FIELDS = {
    "a number": lambda: ctrnn.Noisy(ctrnn.leaky(2, 3), ctrnn.Noise(0.3)),
    "one for each unit": lambda: ctrnn.Noisy(ctrnn.gru(2, 3), ctrnn.Noise(torch.tensor([0.1, 0.3, 0.5]))),
    "a matrix": lambda: ctrnn.Noisy(ctrnn.leaky(2, 3), ctrnn.Noise(torch.tensor([[0.1, 0.3], [0.5, 0.2], [0.0, -0.4]]))),
    "on the input": lambda: ctrnn.Noisy(relaxation_linear_in_x(), ctrnn.Noise(0.3, on="input")),
    "a colored input": lambda: ctrnn.ColoredInput(ctrnn.leaky(2, 3), 0.3, 2.0),
}
STEPS = {kind: kind() for kind in (EulerMaruyama, Milstein, StratonovichHeun, discretize.SRA1, ExponentialEulerMaruyama)}


def drawn(field, time=3, batch=2):
    return torch.randn(time, batch, field.input_size), torch.randn(batch, field.state_size)


def of_weights(module, *arguments, **keywords):
    """The call as a function of the arguments and of all parameters, and where to differentiate it."""
    names, weights = zip(*module.named_parameters(), strict=True)

    def called(*given):
        own = dict(zip(names, given[len(arguments) :], strict=True))
        return functional_call(module, own, given[: len(arguments)], keywords)

    return called, tuple(each.detach().clone().requires_grad_() for each in (*arguments, *weights))


def assert_differentiated(loss, places, step=1e-5):
    """First and second derivatives along one direction, drawn, in all places at once: gradcheck takes a hundred times longer."""
    way = [torch.randn_like(place) for place in places]

    def along(share):
        moved = [(place + share * step * w).detach().requires_grad_() for place, w in zip(places, way, strict=True)]
        value = loss(*moved)
        slope = sum((g * w).sum() for g, w in zip(torch.autograd.grad(value, moved, create_graph=True), way, strict=True))
        bent = torch.autograd.grad(slope, moved, allow_unused=True, materialize_grads=True)
        return value.detach(), slope.detach(), sum((g * w).sum() for g, w in zip(bent, way, strict=True))

    before, here, after = along(-1), along(0), along(1)
    for k in (0, 1):
        # The error of central differences is step^2 times a third derivative, and rounding over step.
        assert_close((after[k] - before[k]) / (2 * step), here[k + 1], rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize(("kind", "noise"), crossed(STEPS, FIELDS))
def test_derivatives_along_a_path_are_central_differences(noise, kind):
    field = FIELDS[noise]()
    if kind is Milstein and field.channels:
        pytest.skip("it is for diagonal noise")
    xs, h0 = drawn(field)
    substeps = 3 if noise == "a number" else 2  # read ahead of time, and drawn by terms
    rnn = discretize.DiscreteRNN(field, STEPS[kind], substeps=substeps, fused=False)
    called, places = of_weights(rnn, xs, h0, TS, seed=5)
    assert_differentiated(lambda *given: called(*given)[0].sin().sum(), places)


def test_the_cell_and_unroll_have_the_derivatives_of_the_module():
    field = FIELDS["one for each unit"]()
    xs, h0 = drawn(field)
    rnn, cell = (make(field, EulerMaruyama(), 0.5) for make in (discretize.DiscreteRNN, discretize.DiscreteCell))
    path = discretize.BrownianPath(3, 0.5 * torch.arange(4), 3, batch=2)
    h = h0
    for x, w in zip(xs, path.increments(path.knots)[0], strict=True):
        h = cell(x, h, w=w)
    found = [torch.autograd.grad(last.square().sum(), [*field.parameters()]) for last in (
        rnn(xs, h0, seed=3)[1][0], discretize.unroll(cell, xs, h0, seed=3).hs[-1], h
    )]  # fmt: skip
    for other in found[1:]:
        assert_close(other, found[0], rtol=1e-12, atol=1e-14)


def test_solves_have_derivatives_along_a_path():
    field = FIELDS["one for each unit"]()
    xs, h0 = drawn(field)
    called, places = of_weights(discretize.ContinuousRNN(field, method=StratonovichHeun(), max_step=0.35), xs, h0, TS, seed=5)
    assert_differentiated(lambda *given: called(*given)[0].sin().sum(), places)


def test_torch_func_differentiates_each_sample_along_its_own_key():
    rnn = discretize.DiscreteRNN(FIELDS["one for each unit"](), EulerMaruyama(), fused=False)
    xs, _ = drawn(rnn.field)
    keys, weights = discretize.noise_keys(3, 2), dict(rnn.named_parameters())

    def loss(weights, x, key):
        return functional_call(rnn, weights, (x[:, None],), {"seed": key[None]})[0].square().sum()

    each = vmap(grad(loss), in_dims=(None, 1, 0))(weights, xs, keys)
    whole = torch.autograd.grad(rnn(xs, seed=keys)[0].square().sum(), [*weights.values()])
    assert each["field.noise.sigma"].abs().min() > 0
    assert_close([part.sum(0) for part in each.values()], [*whole], rtol=1e-12, atol=1e-14)


def test_a_sigma_that_a_parametrization_keeps_above_zero_is_that_sigma_and_is_learned():
    class Positive(nn.Module):
        def forward(self, z):
            return z.exp()

        def right_inverse(self, sigma):
            return sigma.log()

    field = FIELDS["one for each unit"]()
    xs, h0 = drawn(field)
    rnn = discretize.DiscreteRNN(field, EulerMaruyama(), fused=False)
    before = rnn(xs, h0, seed=1)[0]
    (slope,) = torch.autograd.grad(before.sum(), field.noise.sigma)
    sigma = field.noise.sigma.detach().clone()
    parametrize.register_parametrization(field.noise, "sigma", Positive())
    after = rnn(xs, h0, seed=1)[0]
    assert_close(after, before, rtol=0, atol=1e-14)
    after.sum().backward()
    assert_close(field.noise.parametrizations.sigma.original.grad, slope * sigma, rtol=1e-12, atol=1e-14)


TWINS = [
    (EulerMaruyama, discretize.Euler),
    (StratonovichHeun, discretize.Heun),
    (ExponentialEulerMaruyama, discretize.ExponentialEuler),
]


@pytest.mark.parametrize(("kind", "twin"), TWINS)
def test_without_a_strength_noise_changes_nothing(kind, twin):
    plain = ctrnn.gru(2, 3)
    xs, h0 = drawn(plain)
    silent = discretize.DiscreteRNN(ctrnn.Noisy(plain, ctrnn.Noise(0.0)), kind(), 0.5)(xs, h0)[0]
    assert_close(silent, discretize.DiscreteRNN(plain, twin(), 0.5)(xs, h0)[0], rtol=0, atol=1e-14)


@pytest.mark.parametrize("noise", FIELDS)
def test_copies_and_dtypes_run_along_the_same_path(noise):
    rnn = discretize.DiscreteRNN(FIELDS[noise](), StratonovichHeun(), 0.5, fused=False)
    xs, h0 = drawn(rnn.field)
    states = rnn(xs, h0, seed=4)[0]
    for copied in (copy.deepcopy(rnn), pickle.loads(pickle.dumps(rnn))):
        assert torch.equal(copied(xs, h0, seed=4)[0], states)
    single = copy.deepcopy(rnn).float()(xs.float(), h0.float(), seed=4)[0]
    assert single.dtype == torch.float32
    assert_close(single.double(), states, rtol=1e-5, atol=1e-5)  # rounding of a few steps


def test_networks_of_an_ensemble_share_a_seed_and_may_have_their_own():
    networks = [discretize.DiscreteRNN(ctrnn.Noisy(ctrnn.leaky(2, 3), ctrnn.Noise(s)), EulerMaruyama()) for s in (0.1, 0.3)]
    xs, _ = drawn(networks[0].field)
    together, keys = discretize.ensemble(networks), torch.stack([discretize.noise_keys(k, 2) for k in (3, 4)])
    alone = torch.stack([rnn(xs, seed=7)[0] for rnn in networks])
    assert_close(together(xs, seed=7)[0], alone, rtol=1e-12, atol=1e-14)
    own = torch.stack([rnn(xs, seed=key)[0] for rnn, key in zip(networks, keys, strict=True)])
    assert_close(together(xs, seed=keys, each="seed")[0], own, rtol=1e-12, atol=1e-14)
    twins = discretize.ensemble([networks[0], copy.deepcopy(networks[0])])(xs)[0]
    assert not torch.equal(*twins)  # without a seed each network draws its own


def test_equations_show_the_noise():
    noisy = ctrnn.Noisy(ctrnn.lstm(2, 3), ctrnn.Noise(0.3))
    assert noisy.equations[:2] == (
        "dh/dt = o * tanh(f * c + i * g) - h + G dW/dt", "dc/dt = (f - 1) * c + i * g + Gc dW/dt"
    )  # fmt: skip
    assert noisy.equations[-1] == "G, Gc = sigma, sigma"
    assert r"+ G \frac{dW}{dt}" in noisy._repr_latex_()
    colored = ctrnn.ColoredInput(ctrnn.plain(2, 3), 0.3, 2.0)
    assert colored.equations == (
        "dh/dt = tanh(Wx (x + u) + Wh h + b) - h", "du/dt = -u/2 + Gu dW/dt", "Gu = sigma * sqrt(2/2)"
    )  # fmt: skip
    assert repr(noisy.noise) == "Noise(sigma=0.3, on='state')"
