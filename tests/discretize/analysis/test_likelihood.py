"""Likelihoods of paths: Ornstein and Uhlenbeck's transitions, Gaussian laws of whole paths, martingales, and rates recovered."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import MultivariateNormal, Normal, kl_divergence
from torch.testing import assert_close

import ctrnn
import discretize
from discretize import path_divergence, path_log_likelihood, path_log_ratio

STEPS, DT = 20, 0.05
TS = DT * torch.arange(STEPS + 1, dtype=torch.float64)
SIGMA = torch.tensor([[0.5, 0.2, -0.3], [0.0, 0.4, 0.6]], dtype=torch.float64)  # of two units and three Brownian motions


class OU(ctrnn.VectorField):
    """dh/dt = -rate h, without an input."""

    def __init__(self, rate, units=1):
        super().__init__(0, units)
        self.rate = nn.Parameter(torch.tensor(rate))

    def flow(self, projected, h):
        return -self.rate * h


class Driven(ctrnn.VectorField):
    """dh/dt = A h + B x."""

    def __init__(self, a, b):
        super().__init__(b.shape[1], len(a))
        self.a, self.b = a, b

    def flow(self, projected, h):
        return h @ self.a.mT + projected @ self.b.mT


class Multiplied(ctrnn.VectorField):
    """dh/dt = pull - h with noise in proportion to the state: no constant."""

    def __init__(self, pull):
        super().__init__(0, 2)
        self.pull = pull

    def flow(self, projected, h):
        return self.pull - h

    def diffusion(self, projected, h):
        return 0.2 + 0.3 * h.abs()


class Turned(Multiplied):
    """Noise in proportion to the state, shared by two units: another matrix in each state."""

    def diffusion(self, projected, h):
        mixed = torch.tensor([[1.0, 0.5], [-0.4, 0.8]])
        return (0.2 + 0.3 * h.abs())[..., None] * mixed


def noisy(field, sigma):
    return ctrnn.Noisy(field, ctrnn.Noise(sigma))


def stepped(field, h0, seed, ts=TS, xs=None):
    """States (time + 1, batch, state) by Euler and Maruyama, in a loop of the test's own."""
    path = discretize.BrownianPath(seed, ts, field.noise_channels, batch=len(h0))
    h, hs = h0, [h0]
    for k, w in enumerate(path.increments(ts)[0]):
        projected = field.project(h.new_zeros(len(h), 0) if xs is None else xs[k])
        h = h + (ts[k + 1] - ts[k]) * field.flow(projected, h) + field.diffuse(projected, h, w)
        hs.append(h)
    return torch.stack(hs).detach()


def law_of_paths(a, sigma, h0, steps=STEPS, dt=DT):
    """The Gaussian law of h_1, ..., h_n together, by powers of the step's matrix."""
    step = torch.eye(len(a)) + dt * a
    powers = [torch.linalg.matrix_power(step, k) for k in range(steps + 1)]
    zero = torch.zeros_like(a)
    back = torch.cat([torch.cat([powers[i - j] if j <= i else zero for j in range(steps)], 1) for i in range(steps)])
    each = torch.block_diag(*[dt * sigma @ sigma.mT] * steps)
    return MultivariateNormal(torch.cat([power @ h0 for power in powers[1:]]), back @ each @ back.mT)


@pytest.mark.parametrize("sigma", [SIGMA, SIGMA[:, :2], SIGMA[0, :2], SIGMA[0, 0]])
def test_the_likelihood_is_that_of_the_gaussian_law_of_the_whole_path(sigma):
    a, h0 = torch.tensor([[-1.0, 0.7], [-0.4, -0.5]]), torch.tensor([0.3, -0.8])
    field = noisy(Driven(a, torch.zeros(2, 1)), sigma)
    xs = torch.randn(STEPS, 6, 1)
    hs = stepped(field, h0.expand(6, -1), 1, xs=xs)
    law = law_of_paths(a, sigma if sigma.dim() == 2 else torch.diag(sigma.expand(2)), h0)
    found = path_log_likelihood(field, xs, hs, TS)
    assert_close(found, law.log_prob(hs[1:].transpose(0, 1).flatten(1)), rtol=1e-9, atol=1e-9)
    assert_close(path_log_likelihood(field, xs[:, :1], hs[:, :1], TS[:, None]), found[:1], rtol=1e-12, atol=0)


def test_the_likelihood_comes_to_that_of_ornstein_and_uhlenbeck_as_intervals_shrink():
    rate, sigma, field = 1.5, 0.7, noisy(OU(1.5), 0.7)
    away = []
    for parts in (10, 40, 160):
        ts = torch.linspace(0, 1, parts + 1)
        dt = 1 / parts
        keep, spread = math.exp(-rate * dt), sigma * math.sqrt((1 - math.exp(-2 * rate * dt)) / (2 * rate))
        h, hs = torch.randn(500, 1), []
        for _ in range(parts + 1):
            hs.append(h)
            h = keep * h + spread * torch.randn_like(h)
        hs = torch.stack(hs)
        exact = Normal(keep * hs[:-1], spread).log_prob(hs[1:]).sum((0, 2))
        away.append((path_log_likelihood(field, None, hs, ts) - exact).detach().square().mean().sqrt())
    # Each of n = 1/dt transitions is off by rate dt (z^2 - 1)/2, z normal: rate sqrt(dt/2) for the path.
    for parts, found in zip((10, 40, 160), away, strict=True):
        assert float(found) == pytest.approx(rate * math.sqrt(1 / (2 * parts)), rel=0.2 if parts == 10 else 0.13)


def test_the_ratio_is_a_martingale_of_mean_one_under_the_other_law():
    posterior, prior = (noisy(OU(rate, 2), 0.8) for rate in (0.2, 1.0))
    hs = stepped(prior, 0.5 * torch.ones(4000, 2), 5)
    found = path_log_ratio(posterior, prior, None, hs, TS).detach().exp()
    error = float(found.std()) / math.sqrt(len(found))
    assert 0.005 < error < 0.05
    assert abs(float(found.mean()) - 1) < 4 * error


def test_the_mean_divergence_is_that_of_the_gaussian_laws():
    a, b, h0 = torch.tensor([[-1.0, 0.7], [-0.4, -0.5]]), torch.tensor([[-0.5, 0.0], [0.3, -1.0]]), torch.tensor([0.3, -0.8])
    shared = ctrnn.Noise(SIGMA)
    posterior, prior = (ctrnn.Noisy(Driven(each, torch.zeros(2, 1)), shared) for each in (a, b))
    xs = torch.zeros(STEPS, 2000, 1)
    hs = stepped(posterior, h0.expand(2000, -1), 7, xs=xs)
    exact = kl_divergence(law_of_paths(a, SIGMA, h0), law_of_paths(b, SIGMA, h0))
    for measure in (path_divergence, path_log_ratio):
        found = measure(posterior, prior, xs, hs, TS)
        found = found.detach()
        error = float(found.std()) / math.sqrt(len(found))
        assert abs(float(found.mean() - exact)) < 4 * error
    assert 0.01 < float(exact) < 1


@pytest.mark.parametrize("kind", [Multiplied, Turned])
def test_the_likelihood_of_noise_that_reads_the_state_is_that_of_each_transition(kind):
    field = kind(0.5)
    hs = stepped(field, torch.randn(5, 2), 3)
    h, empty = hs[:-1], hs[:-1, :, :0]
    g = field.diffusion(empty, h)
    g = torch.diag_embed(g) if g.dim() == h.dim() else g
    law = MultivariateNormal(h + DT * field.flow(empty, h), DT * g @ g.mT)
    assert_close(path_log_likelihood(field, None, hs, TS), law.log_prob(hs[1:]).sum(0), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("noise", ["units", "matrix", "own"])
def test_the_ratio_is_the_difference_of_two_likelihoods(noise):
    if noise == "own":
        fields = [Multiplied(0.5), Multiplied(-1.0)]
    else:
        shared = ctrnn.Noise(SIGMA if noise == "matrix" else torch.tensor([0.3, 0.6]))
        fields = [ctrnn.Noisy(OU(rate, 2), shared) for rate in (0.5, 2.0)]
    hs = stepped(fields[0], torch.randn(5, 2), 3)
    ratio = path_log_ratio(*fields, None, hs, TS)
    one, two = (path_log_likelihood(field, None, hs, TS) for field in fields)
    assert_close(ratio, one - two, rtol=0, atol=1e-11)  # of terms of some tens
    assert_close(path_log_ratio(fields[1], fields[0], None, hs, TS), -ratio, rtol=0, atol=1e-11)
    assert ratio.abs().min() > 1e-3


def test_a_prior_reads_the_first_features_of_its_posterior():
    shared = ctrnn.Noise(0.5)
    a, b = -torch.eye(2), torch.randn(2, 3)
    posterior, short = ctrnn.Noisy(Driven(a, b), shared), ctrnn.Noisy(Driven(a, b[:, :1]), shared)
    silent = ctrnn.Noisy(Driven(a, b * torch.tensor([1.0, 0.0, 0.0])), shared)
    xs = torch.randn(STEPS, 3, 3)
    hs = stepped(posterior, torch.zeros(3, 2), 2, xs=xs)
    assert_close(path_log_ratio(posterior, short, xs, hs, TS), path_log_ratio(posterior, silent, xs, hs, TS))
    drift = short.field  # without noise of its own
    assert_close(path_divergence(posterior, drift, xs, hs, TS), path_divergence(posterior, silent, xs, hs, TS))


def test_the_most_likely_rate_and_strength_are_those_of_the_data():
    rate, sigma, batch = 1.2, 0.6, 200
    hs = stepped(noisy(OU(rate), sigma), torch.randn(batch, 1) * sigma / math.sqrt(2 * rate), 11)
    field = noisy(OU(0.5), 1.0)
    optimizer = torch.optim.LBFGS(field.parameters(), max_iter=60, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def loss():
        optimizer.zero_grad()
        value = -path_log_likelihood(field, None, hs, TS).mean()
        value.backward()
        return value

    optimizer.step(loss)
    # In closed form: the regression of the changes on the states, and what is left.
    before, moved = hs[:-1], hs.diff(dim=0)
    slope = -(before * moved).sum() / (before.square().sum() * DT)
    rest = ((moved + slope * before * DT).square().mean() / DT).sqrt()
    assert_close(torch.stack([field.field.rate, field.noise.sigma.abs()]), torch.stack([slope, rest]), rtol=1e-6, atol=0)
    time = batch * STEPS * DT
    assert abs(float(slope) - rate) < 4 * math.sqrt(2 * rate / time)  # the inverse of Fisher's information
    assert abs(float(rest) - sigma) < 4 * sigma / math.sqrt(2 * batch * STEPS)


def test_the_likelihood_is_differentiated_to_all_it_reads():
    field = noisy(ctrnn.leaky(2, 2), SIGMA)
    xs, hs = torch.randn(3, 2, 2, requires_grad=True), torch.randn(4, 2, 2, requires_grad=True)
    ts = torch.tensor([0.0, 0.4, 0.7, 1.5], dtype=torch.float64, requires_grad=True)
    places = (xs, hs, ts, field.noise.sigma)

    def found(xs, hs, ts, sigma):
        return torch.func.functional_call(Likelihood(field), {"field.noise.sigma": sigma}, (xs, hs, ts))

    assert torch.autograd.gradcheck(found, places, fast_mode=True)


class Likelihood(nn.Module):
    def __init__(self, field):
        super().__init__()
        self.field = field

    def forward(self, xs, hs, ts):
        return path_log_likelihood(self.field, xs, hs, ts)


@pytest.mark.parametrize(("one", "other"), [(0.3, 0.3 * torch.eye(2)), (0.3 * torch.eye(2), torch.full((2,), 0.3))])
def test_a_noise_of_units_and_one_that_is_shared_are_two(one, other):
    hs, xs = torch.randn(4, 2, 2), torch.randn(3, 2, 2)
    with pytest.raises(ValueError, match="another noise"):
        path_log_ratio(noisy(ctrnn.leaky(2, 2), one), noisy(ctrnn.leaky(2, 2), other), xs, hs)


def test_what_has_no_density_is_refused_in_words():
    hs, xs = torch.randn(4, 2, 2), torch.randn(3, 2, 2)
    with pytest.raises(ValueError, match="The field has no noise, so its paths have no density"):
        path_log_likelihood(ctrnn.leaky(2, 2), xs, hs)
    with pytest.raises(ValueError, match=r"Unit 1 has no noise"):
        path_log_likelihood(noisy(ctrnn.leaky(2, 2), torch.tensor([0.1, 0.0])), xs, hs)
    with pytest.raises(ValueError, match=r"1 Brownian motions drive 2 units: G G\^T is singular"):
        path_log_likelihood(noisy(ctrnn.leaky(2, 2), torch.ones(2, 1)), xs, hs)
    with pytest.raises(ValueError, match=r"^G G\^T is singular"):
        path_log_likelihood(noisy(ctrnn.leaky(2, 2), torch.tensor([[0.1, 0.3], [0.2, 0.6]])), xs, hs)
    with pytest.raises(ValueError, match="Unit 0 has no noise"):
        path_log_likelihood(ctrnn.ColoredInput(ctrnn.leaky(2, 1), torch.ones(2), 1.0), xs, torch.randn(4, 2, 3))
    field = noisy(ctrnn.leaky(2, 2), 0.3)
    with pytest.raises(ValueError, match="`other` has another noise"):
        path_log_ratio(field, noisy(ctrnn.leaky(2, 2), 0.4), xs, hs)
    with pytest.raises(ValueError, match="as many features or the first ones"):
        path_divergence(field, ctrnn.leaky(3, 2), xs, hs)
    with pytest.raises(ValueError, match=r"a path of 3 intervals has as many samples"):
        path_log_likelihood(field, xs[1:], hs)
    with pytest.raises(ValueError, match=r"give the time of each, \(4,\) or \(4, 2\)"):
        path_log_likelihood(field, xs, hs, torch.arange(3.0))
    with pytest.raises(ValueError, match=r"`hs` must be \(time \+ 1, batch, state\)"):
        path_log_likelihood(field, xs, hs[0])
