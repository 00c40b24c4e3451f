"""Fields with noise: what drives which unit how strongly, and how strong a colored input is."""

import math

import pytest
import torch
from problems import LinearField
from torch import nn
from torch.testing import assert_close

import ctrnn
from ctrnn.fields.noise import noise_channels
from discretize import SRA1, DiscreteRNN, EulerMaruyama, ExponentialEulerMaruyama, noise_keys


def linear(inputs=3, units=2):
    return LinearField(torch.randn(units, units) - 2 * torch.eye(units), torch.randn(units, inputs))


SIGMAS = {
    "a number": lambda: torch.tensor(0.3),
    "one of one": lambda: torch.rand(1),
    "one for each unit": lambda: torch.rand(4),
    "a matrix of fewer motions": lambda: torch.randn(4, 2),
    "a matrix of more motions": lambda: torch.randn(4, 6),
}


@pytest.mark.parametrize("name", SIGMAS)
def test_diffuse_is_the_diffusion_times_the_increment(name):
    sigma, h, x = SIGMAS[name](), torch.randn(5, 4), torch.randn(5, 2)
    field = ctrnn.Noisy(ctrnn.gru(2, 4), ctrnn.Noise(sigma))
    projected, w = field.project(x), torch.randn(5, field.noise_channels)
    matrix = sigma if sigma.dim() == 2 else torch.diag(sigma.expand(4))
    assert field.noise_channels == matrix.shape[1]
    assert_close(field.diffuse(projected, h, w), w @ matrix.mT)
    g = field.diffusion(projected, h)
    assert_close(g, matrix.expand(5, -1, -1) if sigma.dim() == 2 else sigma.expand(5, 4))
    assert_close(ctrnn.VectorField.diffuse(field, projected, h, w), w @ matrix.mT)


def test_a_noisy_field_is_the_field_and_shares_its_weights():
    field = ctrnn.lstm(2, 3)
    noisy, x, h = ctrnn.Noisy(field, ctrnn.Noise(0.3)), torch.randn(5, 2), torch.randn(5, 6)
    projected = noisy.project(x)
    for call in ("flow", "leak", "flow_and_leak", "flow_without_leak", "jacobian"):
        assert_close(getattr(noisy, call)(projected, h), getattr(field, call)(projected, h))
    assert_close(noisy.forget(projected, h, h + 1, 0.3), field.forget(projected, h, h + 1, 0.3))
    assert_close(noisy.visible(h), field.visible(h))
    assert (noisy.hidden_size, noisy.state_size) == (3, 6)
    assert [name for name, _ in noisy.named_parameters() if "noise" in name] == ["noise.sigma"]
    assert noisy.field is field


def test_noise_takes_the_dtype_of_its_field():
    field = ctrnn.Noisy(ctrnn.leaky(2, 3).float(), ctrnn.Noise(torch.rand(3, dtype=torch.float64)))
    assert field.noise.sigma.dtype == torch.float32
    output, _ = DiscreteRNN(field, EulerMaruyama())(torch.zeros(2, 4, 2, dtype=torch.float32), seed=noise_keys(1, 4))
    assert output.dtype == torch.float32


def test_a_number_is_exact_whatever_the_dtype_of_the_field():
    assert ctrnn.Noisy(ctrnn.plain(1, 2, dtype=torch.float64), ctrnn.Noise(0.1)).noise.sigma.item() == 0.1
    assert ctrnn.ColoredInput(ctrnn.plain(1, 2, dtype=torch.float64), 0.1, 2.0).sigma.item() == 0.1


def test_a_number_that_was_changed_since_stays_changed():
    noise = ctrnn.Noise(0.1)
    with torch.no_grad():
        noise.sigma.fill_(0.5)
    assert ctrnn.Noisy(ctrnn.plain(1, 2), noise).noise.sigma.item() == 0.5


def test_noise_on_an_input_that_enters_linearly_is_that_of_a_matrix():
    field, sigma = linear(), torch.tensor([0.2, 0.5, 1.0])
    by_input, by_matrix = (
        ctrnn.Noisy(field, noise) for noise in (ctrnn.Noise(sigma, on="input"), ctrnn.Noise(field.B.detach() * sigma))
    )
    x, h, w = torch.randn(6, 4, 3), torch.randn(4, 2), torch.randn(4, 3)
    projected = field.project(x[0])
    assert by_input.noise_channels == 3
    assert_close(by_input.diffuse(projected, h, w), by_matrix.diffuse(projected, h, w))
    assert_close(by_input.diffusion(projected, h), by_matrix.diffusion(projected, h))
    for step in (EulerMaruyama(), SRA1()):
        ours, theirs = (DiscreteRNN(each, step, dt=0.2)(x, seed=3)[0] for each in (by_input, by_matrix))
        assert_close(ours, theirs, rtol=0, atol=1e-12)
    grad = torch.autograd.grad(by_input.diffuse(projected, h, w).sum(), by_input.noise.sigma)[0]
    assert_close(grad, (field.B * w.sum(0)).sum(0))


def test_noise_on_the_input_is_multiplied_as_the_input_is():
    field, h = ctrnn.Noisy(Scaled(), ctrnn.Noise(0.5, on="input")), torch.randn(7, 1)
    assert_close(field.diffuse(torch.randn(7, 1), h, torch.ones(7, 1)), 0.5 * (1 + h * h))
    assert_close(field.diffusion(torch.randn(7, 1), h), 0.5 * (1 + h * h)[..., None])


def test_an_input_that_has_no_weight_yet_is_not_taken_for_a_linear_one():
    field = ctrnn.plain(2, 3)
    torch.nn.init.zeros_(field.candidate.weight_x)
    with pytest.raises(ValueError, match="not linear in it"):
        ctrnn.Noisy(field, ctrnn.Noise(0.1, on="input"))


def test_the_mean_of_a_nonlinearity_under_white_noise_has_no_limit():
    # The numbers that the refusal and the page give, by quadrature.
    law = torch.distributions.Normal(0.0, 1.0)
    xi = torch.linspace(-9, 9, 9001)
    for dt, mean in ((0.5, 0.66), (0.1, 0.47), (0.004, 0.12)):
        found = torch.trapezoid(torch.tanh(1 + 0.3 * (2 / dt) ** 0.5 * xi) * law.log_prob(xi).exp(), xi)
        assert abs(found - mean) < 0.005


class Scaled(ctrnn.VectorField):
    """dh/dt = (1 + h^2) x - h: linear in x, by a factor of the state."""

    def __init__(self):
        super().__init__(1, 1)

    def flow(self, projected, h):
        return (1 + h * h) * projected - h


@pytest.mark.parametrize("make", [ctrnn.leaky, ctrnn.gated, ctrnn.gru, ctrnn.lstm, ctrnn.lem])
def test_noise_on_an_input_inside_of_a_nonlinearity_is_refused_with_what_to_do(make):
    with pytest.raises(ValueError, match=r"not linear in it: .* `ctrnn.cells.ColoredInput.*hold it"):
        ctrnn.Noisy(make(2, 3), ctrnn.Noise(0.1, on="input"))


def test_a_colored_input_is_the_field_at_a_moved_input_and_a_process_that_forgets():
    field = ctrnn.lstm(2, 3)
    colored = ctrnn.ColoredInput(field, torch.tensor([0.2, 0.4]), 0.5)
    x, state, u = torch.randn(5, 2), torch.randn(5, 6), torch.randn(5, 2)
    whole, projected = torch.cat([state, u], -1), colored.project(x)
    assert_close(colored(x, whole), torch.cat([field(x + u, state), -u / 0.5], -1))
    assert_close(
        colored.leak(projected, whole), torch.cat([field.leak(field.project(x + u), state), torch.full((5, 2), 2.0)], -1)
    )
    assert_close(colored.diffusion(projected, whole)[0], torch.cat([torch.zeros(6), torch.tensor([0.4, 0.8])]))
    assert_close(colored.visible(whole), field.visible(state))
    assert colored.noise_channels == colored.state_size == 8


@pytest.mark.parametrize("dt", [0.1, 1.0, 3.0])
def test_a_colored_input_has_its_deviation_and_forgets_in_its_time_at_any_step(dt):
    n, sigma, tau = 4000, torch.tensor([0.5, 2.0]), 1.5
    field = ctrnn.ColoredInput(linear(2, 1), sigma, tau)
    start = torch.cat([torch.zeros(n, 1), sigma * torch.randn(n, 2)], -1)  # at rest from the first sample on
    states = []
    rnn = DiscreteRNN(field, ExponentialEulerMaruyama(), dt=dt)
    h = start
    for k in range(2):
        _, h = rnn(torch.zeros(3, n, 2), h, seed=k)
        states.append(h[0, :, 1:] / sigma)
    # Errors of a variance, and of a product, of n numbers: roots of 2/n and of (1 + r^2)/n, with two of each.
    for u in states:
        assert (u.square().mean(0) - 1).abs().max() < 5 * (2 / n) ** 0.5
    found = (states[0] * states[1]).mean(0)
    assert (found - math.exp(-3 * dt / tau)).abs().max() < 5 * (2 / n) ** 0.5


def test_a_unit_with_the_noise_of_the_docstring_has_the_deviation_that_it_says():
    # tau dv = -v dt + ..., sigma = s sqrt(2/tau): deviation s, by Ito's law of the second moment, d E[v^2] = 0 at rest.
    s, tau = 0.7, 4.0
    field = ctrnn.Noisy(ctrnn.leaky(0, 1, alpha=1 / tau), ctrnn.Noise(s * (2 / tau) ** 0.5))
    with torch.no_grad():
        for weight in field.field.candidate.parameters():
            weight.zero_()
    v = torch.tensor([[s]])
    g = field.diffusion(field.project(torch.zeros(1, 0)), v)
    assert_close(2 * v * field(torch.zeros(1, 0), v) + g * g, torch.zeros(1, 1), rtol=0, atol=1e-12)


def test_noise_of_a_part_is_counted_where_it_is_handed_on_and_refused_where_it_is_lost():
    assert noise_channels(ctrnn.leaky(2, 3)) == 0
    assert noise_channels(HandsOn()) == 3
    with pytest.raises(ValueError, match="noise in a part, Noisy in Inner, which does not hand it on"):
        noise_channels(Inner())
    with pytest.raises(ValueError, match="take noise around the whole"):
        ctrnn.Stack([HandsOn().inner, ctrnn.leaky(3, 3)])


class Inner(ctrnn.VectorField):
    """A field that holds another and hands its flow on, without its noise."""

    def __init__(self):
        super().__init__(2, 3)
        self.inner = ctrnn.Noisy(ctrnn.leaky(2, 3), ctrnn.Noise(0.1))

    def flow(self, projected, h):
        return self.inner.flow(self.inner.project(projected), h)


class HandsOn(Inner):
    def diffusion(self, projected, h):
        return self.inner.diffusion(projected, h)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ctrnn.Noise("loud"), TypeError, "`sigma`"),
        (lambda: ctrnn.Noise(math.inf), ValueError, "`sigma`"),
        (lambda: ctrnn.Noise(torch.tensor([1.0, math.nan])), ValueError, "`sigma`"),
        (lambda: ctrnn.Noise(torch.tensor([1])), TypeError, "`sigma` must be floating point, got torch.int64"),
        (lambda: ctrnn.Noise(0.1, on="output"), ValueError, "`on`"),
        (lambda: ctrnn.Noise(torch.ones(2, 2, 2)), ValueError, r"`sigma` on the state .* or a matrix .* got shape \(2, 2, 2\)"),
        (lambda: ctrnn.Noise(torch.ones(2, 2), on="input"), ValueError, "`sigma` on the input must be a number, one for each f"),
        (lambda: ctrnn.Noisy(nn.Linear(2, 3), ctrnn.Noise(0.1)), TypeError, "`field` must be a ctrnn.VectorField"),
        (lambda: ctrnn.Noisy(ctrnn.leaky(2, 3), 0.1), TypeError, "`noise`"),
        (
            lambda: ctrnn.Noisy(HandsOn().inner, ctrnn.Noise(0.1)),
            ValueError,
            "`field` has noise already, Noisy; a matrix `sigma`",
        ),
        (lambda: ctrnn.Noisy(ctrnn.leaky(2, 3), ctrnn.Noise(torch.ones(2))), ValueError, r"shape \(2,\), .* has 3 units"),
        (
            lambda: ctrnn.Noisy(ctrnn.leaky(0, 3), ctrnn.Noise(0.1, on="input")),
            ValueError,
            "on the input, and the field has none; put it on the state",
        ),
        (lambda: ctrnn.ColoredInput(ctrnn.leaky(0, 3), 0.1, 1.0), ValueError, "no input that noise could be on"),
        (lambda: ctrnn.ColoredInput(ctrnn.leaky(2, 3), torch.ones(3), 1.0), ValueError, r"\(3,\), .* has 2 input features"),
        (lambda: ctrnn.ColoredInput(ctrnn.leaky(2, 3), 0.1, 0.0), ValueError, "`correlation_time`"),
        (lambda: ctrnn.ColoredInput(HandsOn(), 0.1, 1.0), ValueError, "`field` has noise already, HandsOn; give one without"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(make, error, words):
    with pytest.raises(error, match=words):
        make()
