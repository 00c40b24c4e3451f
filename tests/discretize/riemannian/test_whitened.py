"""Steps in a metric of all weights: alike however units are described, and those of the generalized eigenvectors."""

import pytest
import torch
from scipy.linalg import block_diag, eigh
from torch.testing import assert_close

from discretize.riemannian.whitened import whitened_step

ROWS, K = 5, 4  # a constant and three inputs each; and two numbers that are rows of their own
SIZE = ROWS * K + 2
WEIGHTS, NUMBERS = torch.arange(ROWS * K).view(ROWS, K), torch.arange(ROWS * K, SIZE)[:, None]
KINDS = [(WEIGHTS, 1.0), (NUMBERS, 1.0)]


def alone(root):
    return root


def dead_input(root):
    root[:, [1, K + 2]] = 0
    return root


def constant_input(root):
    """It says no more than the constant does."""
    root[:, 1], root[:, K + 2] = 3 * root[:, 0], -0.7 * root[:, K]
    return root


def saturated_input(root):
    """It says more than the constant does, by less than rounding lets one see in some writings."""
    root[:, 1] = 3 * root[:, 0] + 1e-9 * root[:, 1]
    root[:, K + 2] = 1e-9 * root[:, K + 2]
    return root


def repeated_input(root):
    """One input is another one, in other numbers, and one of a second row is a sum of the others."""
    root[:, 2] = 3 * root[:, 1] - 2 * root[:, 0]
    root[:, K + 3] = root[:, K + 1] - 0.5 * root[:, K + 2] + root[:, K]
    return root


def dead_row(root):
    root[:, K : 2 * K] = 0
    root[:, -1] = 0
    return root


def repeated_row(root):
    """What two units do is the same, so that only the sum of their steps matters."""
    root[:, K : 2 * K] = root[:, :K]
    return root


def nearly_repeated_row(root):
    """The same, but for differences on both sides of the cut-off."""
    for row, apart in enumerate((1e-3, 1e-7)):
        at = slice((2 * row + 1) * K, (2 * row + 2) * K)
        root[:, at] = root[:, 2 * row * K : (2 * row + 1) * K] + apart * root[:, at]
    return root


DEGENERATE = [dead_input, constant_input, saturated_input, repeated_input, dead_row, repeated_row, nearly_repeated_row]


def rewriting(generator):
    """theta = J theta': inputs a = c + s a', which move weights into the constant, and units V = d V'."""

    def uniform(*size):
        return 2 * torch.rand(size, generator=generator) - 1

    sizes = 10 ** (1.5 * uniform(SIZE)) * uniform(SIZE).sign()
    J = torch.eye(SIZE)
    for row in range(ROWS):
        J[row * K, row * K + 1 : (row + 1) * K] = 3 * uniform(K - 1)
    spans = sizes[WEIGHTS[:, 1:]] / sizes[WEIGHTS[:, :1]]  # of what was 1
    return J * sizes, [(WEIGHTS, spans.abs()), (NUMBERS, 1.0)]


@pytest.mark.parametrize("in_range", [True, False], ids=["gradient", "gradient-with-null-space"])
@pytest.mark.parametrize("samples", [40, SIZE, 9])
@pytest.mark.parametrize("change", [alone, *DEGENERATE])
def test_steps_are_the_same_however_units_are_described(change, samples, in_range, subtests):
    for seed in range(4):
        with subtests.test(seed=seed):
            generator = torch.Generator().manual_seed(seed)
            root = change(torch.randn(samples, SIZE, generator=generator))
            gradient = torch.randn(samples, generator=generator) @ root
            if not in_range:
                gradient = gradient + torch.randn(SIZE, generator=generator)
            J, kinds = rewriting(generator)
            step = whitened_step(root, gradient, KINDS)
            assert step.abs().max() > 1e-2
            # Rounding of J, 1e-16, over the smallest eigenvalues that are kept, 1e-6.
            assert_close(J @ whitened_step(root @ J, J.mT @ gradient, kinds), step, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("change", [alone, repeated_row, nearly_repeated_row])
def test_steps_are_those_of_the_eigenvectors_of_the_metric_relative_to_its_blocks(change):
    root = change(torch.randn(40, SIZE))
    gradient, metric = torch.randn(SIZE), root.mT @ root
    blocks = block_diag(*(metric[i : i + K, i : i + K] for i in range(0, ROWS * K, K)), metric[-2, -2], metric[-1, -1])
    values, vectors = eigh(metric.numpy(), blocks)
    assert values.max() > 1
    kept = values > 1e-10 * values.max()
    assert kept.sum() == SIZE - (0 if change is alone else K)
    expected = vectors[:, kept] @ ((vectors[:, kept].T @ gradient.numpy()) / values[kept])
    # SciPy's are of the metric itself, whose rounding is divided by the smallest one kept, 1e-6.
    assert_close(whitened_step(root, gradient, KINDS), torch.from_numpy(expected), rtol=1e-3, atol=1e-5)


def test_without_small_eigenvalues_a_step_solves_for_the_gradient():
    root, gradient = torch.randn(40, SIZE), torch.randn(SIZE)
    assert_close(whitened_step(root, gradient, KINDS), torch.linalg.solve(root.mT @ root, gradient), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("samples", [40, 9])
@pytest.mark.parametrize("change", [alone, dead_input, constant_input, repeated_input, dead_row, repeated_row])
def test_a_gradient_that_the_metric_reaches_is_reached(change, samples):
    root = change(torch.randn(samples, SIZE))
    gradient = torch.randn(samples) @ root
    assert_close(root.mT @ (root @ whitened_step(root, gradient, KINDS)), gradient, rtol=1e-7, atol=1e-9)


def test_what_the_metric_does_not_see_gets_no_step():
    root = dead_row(constant_input(torch.randn(40, SIZE)))
    step = whitened_step(root, torch.randn(SIZE), KINDS)
    still = [1, *range(K, 2 * K), SIZE - 1]
    assert (step[still] == 0).all()
    assert (step[[i for i in range(SIZE) if i not in still]] != 0).all()
    assert (whitened_step(0 * root, torch.randn(SIZE), KINDS) == 0).all()


def test_of_less_digits_more_is_cut_off():
    root = nearly_repeated_row(torch.randn(40, SIZE)).float()
    J, kinds = rewriting(torch.Generator().manual_seed(0))
    J, gradient = J.float(), torch.randn(40).float() @ root
    step = whitened_step(root, gradient, KINDS)
    assert step.dtype == torch.float32
    assert_close(J @ whitened_step(root @ J, J.mT @ gradient, kinds), step, rtol=0, atol=0.03 * step.abs().max().item())
