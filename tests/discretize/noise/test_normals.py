"""Numbers of keys and counters are standard normal, and depend on nothing else."""

import math

import pytest
import torch
from torch.testing import assert_close

from discretize.noise.brownian import BrownianPath
from discretize.noise.generator import (
    fresh_keys,
    key_columns,
    keys_of,
    noise_keys,
    normals,
    normals_of_columns,
    other_keys,
    philox,
)
from discretize.noise.operation import cell_increments

ROUNDING = {"rtol": 0, "atol": 1e-14}  # of a logarithm and a cosine, which may be computed in lanes or alone


def addresses(samples):
    """Keys, cells and nodes of as many places."""
    number = torch.arange(samples)
    return noise_keys(7, samples), number % 5, number // 5


def test_numbers_are_standard_normal_and_uncorrelated_between_units_cells_nodes_and_keys():
    n = 20_000
    keys, zero = noise_keys(3, n), torch.zeros(n, dtype=torch.int64)
    rows = [normals(keys, zero + cell, zero + node, 4, torch.float64) for cell, node in ((0, 0), (0, 1), (1, 0))]
    found = torch.cat([*rows, normals(noise_keys(4, n), zero, zero, 4, torch.float64)], -1)  # (n, 16)
    # Standard errors of mean, variance, fourth moment (sqrt(105 - 9)) and correlation of n numbers; 5 of them.
    assert found.mean(0).abs().max() < 5 / n**0.5
    assert (found.square().mean(0) - 1).abs().max() < 5 * (2 / n) ** 0.5
    assert (found**4).mean(0).sub(3).abs().max() < 5 * (96 / n) ** 0.5
    assert (torch.corrcoef(found.mT) - torch.eye(16)).abs().max() < 5 / n**0.5
    # Their squares too: two numbers share a radius, and are independent for all that.
    assert (torch.corrcoef(found.square().mT) - torch.eye(16)).abs().max() < 5 / n**0.5


def test_numbers_are_those_of_box_and_muller_of_the_words():
    key, cell, node = (1 << 62) + 12345, 3, 17
    found = normals(torch.tensor(key), torch.tensor(cell), torch.tensor(node), 8, torch.float64)
    expected = [[], [], [], []]
    for unit in range(2):  # of eight numbers the first are of the first words of each unit of four
        words = [(int(word) + 0.5) / 2**32 for word in philox((unit, cell, node, 0), (key & 0xFFFFFFFF, key >> 32))]
        for pair in range(2):
            size, angle = math.sqrt(-2 * math.log(words[2 * pair])), 2 * math.pi * words[2 * pair + 1]
            expected[2 * pair].append(size * math.cos(angle))
            expected[2 * pair + 1].append(size * math.sin(angle))
    assert_close(found, torch.tensor(expected).flatten(), rtol=0, atol=1e-13)


def test_numbers_follow_the_normal_law_in_every_part_and_in_the_tails():
    n = 50_000
    found = normals(noise_keys(1, n), torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64), 4, torch.float32)
    # Kolmogorov's distance exceeds 2.2/sqrt(n) with a probability of 2 exp(-2 2.2^2) = 1e-4.
    ordered = found.double().flatten().sort().values
    law, steps = torch.special.ndtr(ordered), torch.arange(1, 4 * n + 1) / (4 * n)
    assert max((law - steps).abs().max(), (law - steps + 1 / (4 * n)).abs().max()) < 2.2 / (4 * n) ** 0.5
    beyond = (found.abs() > 3).double().mean()
    p = math.erfc(3 / 2**0.5)
    assert abs(beyond - p) < 5 * (p / (4 * n)) ** 0.5


def test_a_number_depends_on_its_key_cell_node_and_unit_alone():
    keys, cell, node = addresses(12)
    together = normals(keys, cell, node, 7, torch.float64)
    order = torch.randperm(12)
    assert_close(normals(keys[order], cell[order], node[order], 7, torch.float64), together[order], **ROUNDING)
    alone = [normals(keys[k], cell[k], node[k], 7, torch.float64) for k in range(12)]
    assert_close(torch.stack(alone), together, **ROUNDING)
    folded = normals(*(each.reshape(3, 4) for each in (keys, cell, node)), 7, torch.float64)
    assert_close(folded.flatten(0, 1), together, **ROUNDING)
    assert (normals(keys, cell + 1, node, 7, torch.float64) - together).abs().max() > 0.1


@pytest.mark.parametrize(("dtype", "within"), [(torch.float64, 1e-14), (torch.float32, 1e-5)])  # a logarithm and an angle
def test_numbers_of_columns_are_those_of_keys_in_either_precision(dtype, within):
    keys, cell, node = addresses(50)
    columns = torch.cat([key_columns(keys), cell[:, None]], -1).to(dtype)
    found = normals_of_columns(columns, node[:, None].to(dtype), 6)
    assert_close(found.double(), normals(keys, cell, node, 6, torch.float64), rtol=within, atol=within)
    assert_close(found, normals(keys, cell, node, 6, dtype))


def test_keys_go_through_columns_of_float32_unchanged():
    keys = torch.cat([noise_keys(0, 100), torch.tensor([0, 1, (1 << 63) - 1, 1 << 62])])
    assert torch.equal(keys_of(key_columns(keys).float()), keys)


@pytest.mark.parametrize(("parts", "integral"), [(1, True), (4, False), (4, True)])
def test_increments_of_columns_are_those_of_the_path(parts, integral):
    keys, length = noise_keys(3, 5), 0.75
    path = BrownianPath(keys, torch.tensor([0.0, 2.0, 2.0 + length]), 6)  # its second cell
    read = path.increments(2.0 + length * torch.arange(parts + 1) / parts)
    part = torch.arange(parts, dtype=torch.float64)[:, None, None].expand(-1, 5, 1)
    columns = torch.cat([torch.cat([key_columns(keys), torch.ones(5, 1)], -1).expand(parts, -1, -1), part], -1)
    drawn = cell_increments(columns, parts, integral, 6)
    assert drawn.shape == (parts, 5, 1 + integral, 6)
    for k, power in enumerate((0.5, 1.5)[: 1 + integral]):
        assert_close(length**power * drawn[..., k, :], read[k], rtol=0, atol=1e-13)


def test_increments_are_drawn_of_columns_that_are_no_address():
    # Kernels are made by running code on any numbers.
    columns = 5 * torch.randn(50, 5, generator=torch.Generator().manual_seed(0))
    assert cell_increments(columns, 1, True, 6).isfinite().all()


def test_keys_of_a_seed_differ_and_do_not_depend_on_the_batch():
    assert torch.equal(noise_keys(5, 1000)[:7], noise_keys(5, 7))
    every = torch.cat([noise_keys(seed, 1000) for seed in (0, 1, -1, 2**63, 5 + 2**32)])
    assert len(every.unique()) == len(every)
    assert int(every.min()) >= 0
    assert torch.equal(noise_keys(5, 3), noise_keys(5 + 2**64, 3))  # the last 64 bits count


def test_keys_of_layers_are_others_and_each_is_of_its_sample_alone():
    keys = noise_keys(5, 100)
    layers = torch.stack([keys, *(other_keys(keys, place) for place in (1, 2, 3))])
    assert len(layers.unique()) == 400
    assert torch.equal(other_keys(keys[3:5], 2), layers[2, 3:5])


def test_without_a_seed_the_generator_of_torch_draws_the_keys():
    torch.manual_seed(1)
    first, second = fresh_keys(None, 4), fresh_keys(None, 4)
    torch.manual_seed(1)
    assert torch.equal(fresh_keys(None, 4), first)
    assert not torch.equal(first, second)
    assert torch.equal(fresh_keys(first, 4), first)


@pytest.mark.parametrize(
    ("seed", "error", "words"),
    [
        (1.5, TypeError, "`seed` must be a whole number, got 1.5"),
        (True, TypeError, "`seed` must be a whole number, got True"),
        ("5", TypeError, "`seed` must be a whole number, got '5'"),
        (torch.zeros(3), TypeError, "tensor of int64 keys, one for each sample, got torch.float32"),
        (torch.zeros(2, dtype=torch.int64), ValueError, r"a key for each sample, shape \(3,\), got \(2,\)"),
        (torch.tensor([1, -2, 3]), ValueError, "keys of at least 0, got -2"),
    ],
)
def test_what_is_no_seed_is_refused(seed, error, words):
    with pytest.raises(error, match=words):
        fresh_keys(seed, 3)
