"""Steps for noise, their generator and the Brownian tree beside laws known in closed form; tolerances are standard errors."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch.testing import assert_close

import ctrnn
import discretize
from discretize.noise.brownian import cell_terms
from discretize.noise.generator import noise_keys, normals
from discretize.steps.catalog import stochastic_step_names

HERE = Path(__file__).parent
STEPS = {name: getattr(discretize.steps, name)() for name in stochastic_step_names()}
SIGMAS = 4.5  # of a hundred tests one in 1500 would fail at another seed
COUNT = 200_000


@pytest.fixture
def noise(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    import noise  # noqa: PLC0415 - beside this file

    return noise


def check_rest(noise, step, dt, chains, time):
    found = noise.at_rest(step, dt, 1, chains, time)
    variance, left = noise.at_rest_exactly(step, dt)
    expected = variance * left ** torch.arange(len(found.covariances))
    assert ((found.covariances - expected).abs() < SIGMAS * found.errors).all()
    assert found.effective > chains * time / 4  # and the errors are small: a bound of nothing holds nothing


@pytest.mark.parametrize("name", STEPS)
def test_variance_and_autocovariance_at_rest_are_the_steps_closed_forms(noise, name):
    check_rest(noise, STEPS[name], 1.0, 1024, 40)


@pytest.mark.slow
@pytest.mark.parametrize("dt", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("name", STEPS)
def test_variance_at_rest_at_coarse_steps(noise, name, dt):
    check_rest(noise, STEPS[name], dt, 8192, 200)


def problem(noise, step, samples):
    """An equation whose strong order a step shows, and levels at which the next order is small beside it."""
    if step.of == "additive":
        return noise.Bent(samples), {"levels": (5, 6, 7), "finest": 10}
    return noise.Geometric(samples), {"levels": (5, 6, 7, 8)}


@pytest.mark.parametrize("name", STEPS)
def test_single_paths_converge_with_the_strong_order(noise, name):
    field, levels = problem(noise, STEPS[name], 1000)
    strong, _ = noise.orders(field, STEPS[name], 2, **levels)
    # The fit is a little above the order: the next one is half an order higher, and still there.
    assert strong.low - 0.1 < STEPS[name].strong_order < strong.high + 0.1
    assert strong.high - strong.low < 0.25


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_means_converge_with_the_order(noise, name):
    step = STEPS[name]
    field = noise.Geometric(50_000) if name in ("Milstein", "StratonovichHeun") else noise.Bent(50_000)
    _, weak = noise.orders(field, step, 3, levels=(2, 3, 4), finest=8)
    # At these steps terms of the next order are still there, and may be of the same sign.
    assert step.order - 0.15 < weak.high
    assert weak.low < step.order + 0.4


def test_escape_takes_the_mean_time_of_the_map(noise):
    found = noise.escape(0.2, 0.1, 0.0, 4, 400)
    expected = noise.escape_of_the_map(0.2, 0.1, 0.0)
    assert abs(found.value - expected) < SIGMAS * (found.high - found.value) / 1.96
    assert found.high - found.low < 0.3 * expected


@pytest.mark.slow
def test_escape_comes_to_that_of_the_equation_with_a_border_moved_by_discrete_looks(noise):
    for dt in (0.1, 0.05, 0.02, 0.01):
        moved = noise.escape_by_quadrature(0.2, noise.MONITORED * (0.4 * dt) ** 0.5)
        assert noise.escape_of_the_map(0.2, dt, 0.0) == pytest.approx(moved, rel=0.6 * dt)
        found = noise.escape(0.2, dt, 0.0, 5, 4096)
        assert abs(found.value - noise.escape_of_the_map(0.2, dt, 0.0)) < SIGMAS * (found.high - found.value) / 1.96


def drawn(cells, nodes, samples, units, dtype=torch.float64):
    keys = noise_keys(7, samples)[None, None, :]
    return normals(keys, torch.arange(cells)[:, None, None], torch.arange(nodes)[None, :, None], units, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_are_normal(dtype):
    found = drawn(5, 4, 250, 40, dtype).flatten().double().numpy()
    assert stats.kstest(found, "norm").pvalue > 1e-5
    bins = stats.norm.cdf(found) * 400
    assert stats.chisquare(np.bincount(bins.astype(int), minlength=400)).pvalue > 1e-5
    tail = (np.abs(found) > 4).sum()  # 12.7 of 200,000
    assert stats.poisson.sf(tail - 1, len(found) * 2 * stats.norm.sf(4)) > 1e-5
    assert stats.poisson.cdf(tail, len(found) * 2 * stats.norm.sf(4)) > 1e-5


def together(one, other):
    """How unlikely the numbers of two places are if they know nothing of each other: of a table of 16 by 16, and products."""
    one, other = (each.flatten().numpy() for each in (one, other))
    rows, columns = ((stats.norm.cdf(each) * 16).astype(int) for each in (one, other))
    table = np.bincount(rows * 16 + columns, minlength=256)
    root = len(one) ** 0.5
    # Of squares, too: sizes that go together have no covariance.
    products = [abs((f(one) * f(other)).mean()) * root for f in (lambda n: n, lambda n: (n**2 - 1) / 2**0.5)]
    return min(stats.chisquare(table).pvalue, *(2 * stats.norm.sf(z) for z in products))


@pytest.mark.parametrize("axis", ["cells", "nodes", "samples", "units"])
@pytest.mark.parametrize("apart", [1, 2, 4])
def test_numbers_know_nothing_of_their_neighbours(axis, apart):
    place = ["cells", "nodes", "samples", "units"].index(axis)
    sizes = [6, 5, 40, 40]
    sizes[place] = 32
    found = drawn(*sizes).movedim(place, 0)
    assert together(found[:-apart], found[apart:]) > 1e-5


@pytest.mark.parametrize("other", [8, 6, 7 + (1 << 32), -8])
def test_neighbouring_seeds_have_nothing_in_common(other):
    one, two = (normals(noise_keys(seed, 1000), torch.tensor(0), torch.tensor(0), 100, torch.float64) for seed in (7, other))
    assert together(one, two) > 1e-5


def test_increments_at_any_times_have_the_brownian_law():
    edges = torch.tensor([0.0, 0.1, 0.35, 0.6, 1.0, 1.7, 1.9, 2.0])
    path = discretize.BrownianPath(1, torch.tensor([0.0, 1.0, 2.0]), 100, COUNT // 1000)
    w, z = (each.flatten(1) for each in path.increments(edges))
    d, found = edges.diff(), torch.cat([w, z]).cov(correction=0)
    between = torch.diag(d**2 / 2)
    expected = torch.cat([torch.cat([torch.diag(d), between], 1), torch.cat([between, torch.diag(d**3 / 3)], 1)])
    sizes = expected.diag()
    error = ((sizes[:, None] * sizes + expected**2) / w.shape[1]).sqrt()  # of a covariance of normal numbers
    assert ((found - expected).abs() < SIGMAS * error).all()
    standard = torch.cat([w / d[:, None] ** 0.5, z / (d[:, None] ** 3 / 3) ** 0.5])
    assert min(stats.kstest(each.numpy(), "norm").pvalue for each in standard) > 1e-5


def test_below_the_depth_of_the_tree_a_path_lacks_a_twelfth_of_the_variance_at_most():
    length, share = 2.0**-20, torch.linspace(0, 1, 9)[1:-1]
    path = discretize.BrownianPath(3, torch.tensor([0.0, 1.0]), 20_000, 1)
    w = path(0.5 + length * torch.cat([torch.zeros(1), share]))[:, 0]
    found = ((w[1:] - w[0]) ** 2).mean(1) / length
    q = share * (1 - share)
    missing = q * (1 - 3 * q)  # of a parabola with the right w and H; at most 1/12
    assert ((found - (share - missing)).abs() < SIGMAS * (2 / 20_000) ** 0.5 * share).all()


def test_noise_of_a_unit_that_depends_on_another_is_refused_whichever_they_are():
    for units in (1, 2, 5, 8):
        for reader, read in itertools.product(range(units), repeat=2):
            if reader == read:
                discretize.DiscreteCell(Knowing(units, reader, read), discretize.Milstein())
            else:
                with pytest.raises(ValueError, match="depends on others"):
                    discretize.DiscreteCell(Knowing(units, reader, read), discretize.Milstein())


@pytest.mark.parametrize("parts", [1, 2, 8, 32])
def test_parts_of_a_cell_have_the_brownian_covariances_to_rounding(parts):
    # Sums of coefficients times independent numbers, one for each node: covariances are products of the coefficients.
    terms, d = cell_terms(parts, True), 1 / parts
    w, z = (torch.zeros(parts, 2 * parts).scatter_add(1, terms.nodes, each) for each in (terms.of_w, terms.of_integral))
    assert_close(w @ w.mT, d * torch.eye(parts), rtol=0, atol=1e-15)
    assert_close(w @ z.mT, d**2 / 2 * torch.eye(parts), rtol=0, atol=1e-15)
    assert_close(z @ z.mT, d**3 / 3 * torch.eye(parts), rtol=0, atol=1e-15)


class Knowing(ctrnn.VectorField):
    """The noise of one unit reads another."""

    def __init__(self, units, reader, read):
        super().__init__(1, units)
        self.reader, self.read = reader, read

    def flow(self, projected, h):
        return -h

    def diffusion(self, projected, h):
        return 1 + 0.1 * h**2 + 0.1 * torch.eye(h.shape[-1])[self.reader] * h[..., self.read : self.read + 1]
