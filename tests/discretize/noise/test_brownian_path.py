"""A Brownian path has the law of one, and is one path wherever it is read."""

import math

import pytest
import torch
from torch.testing import assert_close

from discretize import BrownianPath
from discretize.noise.brownian import cell_terms
from discretize.noise.generator import noise_keys, normals

ROUNDING = {"rtol": 0, "atol": 1e-13}  # of sums along the path, and of what is computed in lanes or alone


def path(batch=3, units=2, seed=0, knots=(0.0, 1.0, 1.5, 4.0), **settings):
    return BrownianPath(seed, torch.tensor(knots), units, batch, **settings)


def test_the_path_and_its_integral_have_the_covariance_of_brownian_motion():
    # cov(W(s), W(t)) = min(s, t); the integral I of W has cov(I(s), W(t)) = s t - s^2/2 for s <= t, and s^2/2 with a = min
    # beyond; var I(t) = t^3/3. Edges are at knots, within cells at a half, and at no dyadic number.
    n, ends = 5000, torch.tensor([0.0, 0.3, 0.5, 1.0, 1.2, 2.75, 4.0])
    found = path(n, 1)
    w, z = (each[..., 0] for each in found.increments(ends))
    d = ends.diff()
    lengths = torch.cat([d.sqrt(), (d**3 / 3).sqrt()])[:, None]
    scaled = torch.cat([w, z]) / lengths
    wanted = torch.eye(12)
    wanted[range(6), range(6, 12)] = wanted[range(6, 12), range(6)] = 3**0.5 / 2  # cov(w, z) = d^2/2
    assert scaled.mean(1).abs().max() < 5 / n**0.5
    assert (scaled @ scaled.mT / n - wanted).abs().max() < 5 * (2 / n) ** 0.5


def test_increments_add_up_to_the_path_and_its_integral():
    found, ends = path(), torch.linspace(0, 4, 41)
    w, z = found.increments(ends)
    assert_close(torch.cat([torch.zeros(1, 3, 2), w.cumsum(0)]), found(ends), rtol=0, atol=1e-12)
    whole_w, whole_z = found.increments(torch.tensor([0.0, 4.0]))
    assert_close(w.sum(0), whole_w[0], rtol=0, atol=1e-12)
    inside = z + found(ends)[:-1] * ends.diff()[:, None, None]  # from int (W - W(a)) to int W
    assert_close(inside.sum(0), whole_z[0], rtol=0, atol=1e-12)


def test_the_integral_is_that_of_the_path():
    # The trapezoid rule on 2^12 points misses a variance of h^2/12 of each unit of time: 4 sigma of that.
    found, n = path(batch=1, units=4), 4096
    ends = torch.linspace(0, 4, n + 1)
    w, h = found(ends), 4 / n
    _, z = found.increments(torch.tensor([0.0, 4.0]))
    assert_close(torch.trapezoid(w, dx=h, dim=0), z[0], rtol=0, atol=4 * h * (4 / 12) ** 0.5)


def test_below_the_deepest_bridge_the_path_is_a_parabola():
    # Between neighbours of 2^-20 of a cell it is its conditional mean: what is missing has a variance of 2^-20/12 at most.
    found, h = path(1, 1, knots=(0.0, 1.0)), 2.0**-20
    a, middle, b = found(torch.tensor([0, h / 2, h]))[:, 0, 0].tolist()
    _, z = found.increments(torch.tensor([0, h]))
    assert abs(z.item() / h - (a / 6 + 4 * middle / 6 + b / 6)) < 1e-12 * abs(b)  # Simpson's rule, exact for it
    assert abs(b) < 5 * h**0.5


def test_a_finer_reading_is_of_the_same_path():
    found, fine = path(), torch.linspace(0, 4, 257)
    whole = found(fine)
    for stride in (2, 16, 128):
        assert_close(found(fine[::stride]), whole[::stride], **ROUNDING)
    assert_close(found(fine[[100]]), whole[[100]], **ROUNDING)
    assert_close(found(fine.flip(0)), whole.flip(0), **ROUNDING)


def test_a_sample_is_read_alone_as_in_a_batch():
    keys, ends = noise_keys(2, 5), torch.linspace(0, 4, 33)
    together = path(None, seed=keys)(ends)
    order = torch.tensor([4, 0, 2])
    assert_close(path(None, seed=keys[order])(ends), together[:, order], **ROUNDING)
    assert_close(path(5, seed=2)(ends), together, **ROUNDING)


def test_each_sample_has_knots_and_times_of_its_own():
    keys = noise_keys(2, 2)
    knots, ends = torch.tensor([[0.0, 1.0], [2.0, 1.5], [3.0, 7.0]]), torch.tensor([[0.5, 1.2], [2.9, 6.0]])
    together = BrownianPath(keys, knots, 3)(ends)
    for k in range(2):
        assert_close(BrownianPath(keys[k : k + 1], knots[:, k], 3)(ends[:, k])[:, 0], together[:, k], **ROUNDING)


def test_first_says_where_a_path_goes_on_from_another():
    keys, knots = noise_keys(2, 3), torch.tensor([0.0, 1.0, 1.5, 4.0])
    rest, ends = BrownianPath(keys, knots[1:], 2, first=1), torch.tensor([1.0, 1.3, 2.2, 4.0])
    for ours, theirs in zip(rest.increments(ends), BrownianPath(keys, knots, 2).increments(ends), strict=True):
        assert_close(ours, theirs, rtol=0, atol=1e-13)
    each_its_own = BrownianPath(keys, knots[1:], 2, first=torch.tensor([1, 0, 1])).increments(ends)[0]
    assert_close(each_its_own[:, 0], rest.increments(ends)[0][:, 0], **ROUNDING)
    assert (each_its_own[:, 1] - rest.increments(ends)[0][:, 1]).abs().max() > 0.01


def test_a_path_far_from_0_is_read_at_the_same_nodes():
    # Parts of a cell are told to 1e-7 there, and a path read beside a node would be off by the root of that.
    far, knots = 1e9, torch.tensor([0.0, 0.7, 1.6])
    ends = torch.cat([0.7 * torch.arange(9) / 8, 0.7 + 0.9 * torch.arange(1, 5) / 4])
    here, there = BrownianPath(7, knots, 3, 2), BrownianPath(7, far + knots, 3, 2)
    assert_close(there(far + ends), here(ends), rtol=0, atol=2e-6)


@pytest.mark.parametrize("own", [False, True])
def test_a_path_that_remembers_its_nodes_reads_the_same_numbers(own):
    dice = torch.Generator().manual_seed(4)
    knots = torch.rand(4, 3, generator=dice, dtype=torch.float64).cumsum(0) if own else torch.tensor([0.0, 1.0, 1.5, 4.0])
    remembered = BrownianPath(9, knots, 5, 3)
    kept, first, last = remembered.remembering(), knots[0], knots[-1]
    for dyadic in (True, False, True, True, False):
        share = torch.rand(6, 3, generator=dice, dtype=torch.float64).sort(0).values
        share = (share * 64).round() / 64 if dyadic else share
        edges = first + share * (last - first)
        for found, expected in zip(kept.increments(edges), remembered.increments(edges), strict=True):
            assert torch.equal(found, expected)


@pytest.mark.parametrize("parts", [1, 2, 8, 64])
def test_terms_of_a_cell_are_what_the_path_reads_there(parts):
    keys, length = noise_keys(2, 3), 0.75  # its parts are exact: a rounding of the time moves the path by 1000 times that
    terms = cell_terms(parts, True)
    numbers = torch.stack([normals(keys, torch.tensor(0), node, 2, torch.float64) for node in terms.nodes.flatten()])
    numbers = numbers.unflatten(0, terms.nodes.shape)  # (parts, terms, batch, units)
    w = (terms.of_w[..., None, None] * numbers).sum(1) * length**0.5
    z = (terms.of_integral[..., None, None] * numbers).sum(1) * length**1.5
    ends = torch.linspace(0, length, parts + 1)
    read = BrownianPath(keys, torch.tensor([0.0, length]), 2).increments(ends)
    assert_close(w, read[0], rtol=0, atol=1e-13)
    assert_close(z, read[1], rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: path(knots=(0.0, 2.0, 1.0)), ValueError, "`knots`"),
        (lambda: path(knots=(0.0,)), ValueError, "`knots` must be two times at least, .* got 1"),
        (lambda: path(units=0), ValueError, "`units`"),
        (lambda: path(seed=0.5), TypeError, "`seed` must be a whole number, got 0.5"),
        (lambda: path(4, seed=noise_keys(0, 3)), ValueError, r"a key for each sample, shape \(4,\), got \(3,\)"),
        (lambda: BrownianPath(noise_keys(0, 3), torch.rand(4, 2).cumsum(0), 1), ValueError, "`knots` are for 2 samples"),
        (lambda: path()(torch.tensor([4.5])), ValueError, r"\b4.5\b"),
        (lambda: path()(torch.tensor([-1.0])), ValueError, r"-1\b"),
        (lambda: path()(torch.rand(4, 2)), ValueError, "Times are for 2 samples, and the path has 3"),
        (lambda: path()(torch.tensor([math.nan])), ValueError, "nan|finite"),
    ],
)
def test_what_does_not_fit_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
