"""The phi functions against mpmath with 40 digits, with their derivatives, and at 0."""

import math

import mpmath
import numpy as np
import pytest
import torch

from discretize.steps.algebra.phi import phi, phi_matrix

# phi_k(z) = 1F1(1; k + 1; z)/k!, and its n-th derivative is n! 1F1(n + 1; n + k + 1; z)/(n + k)!.
NEGATIVE, POSITIVE = -np.logspace(-12, 3, 121), np.logspace(-12, math.log10(30), 121)
POINTS = np.concatenate([NEGATIVE, POSITIVE, np.linspace(-6, 8, 141)])


def exact(k: int, n: int, z: float) -> float:
    with mpmath.workdps(40):
        return mpmath.hyp1f1(n + 1, n + k + 1, mpmath.mpf(z)) * mpmath.factorial(n) / mpmath.factorial(n + k)


def largest_relative_error(values: torch.Tensor, k: int, n: int, points: np.ndarray) -> float:
    truth = [exact(k, n, z) for z in points]
    return max(float(abs(mpmath.mpf(v) - t) / abs(t)) for v, t in zip(values.tolist(), truth, strict=True))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_values_and_derivatives_are_right_to_1e_14_from_minus_1000_to_30(k):
    z = torch.tensor(POINTS, requires_grad=True)
    value = phi(k, z)
    (slope,) = torch.autograd.grad(value.sum(), z)
    assert largest_relative_error(value.detach(), k, 0, POINTS) < 1e-15  # 2.4e-16 seen
    assert largest_relative_error(slope, k, 1, POINTS) < 1e-14  # 2.4e-15 seen


@pytest.mark.parametrize("k", [1, 2, 3])
def test_float32_is_right_to_its_own_rounding(k):
    z = torch.tensor(POINTS, dtype=torch.float32, requires_grad=True)
    value = phi(k, z)
    (slope,) = torch.autograd.grad(value.sum(), z)
    points = z.detach().double().numpy()
    assert value.dtype == torch.float32
    assert largest_relative_error(value.detach(), k, 0, points) < 3e-7  # 2.4 roundings
    assert largest_relative_error(slope, k, 1, points) < 2e-6


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_at_0_they_are_one_over_k_factorial_with_all_their_derivatives(k, dtype):
    z = torch.zeros(3, dtype=dtype, requires_grad=True)
    value = phi(k, z)
    (slope,) = torch.autograd.grad(value.sum(), z, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), z)
    eps = torch.finfo(dtype).eps
    for n, found in enumerate((value, slope, bend)):
        torch.testing.assert_close(found, torch.full_like(z, math.factorial(n) / math.factorial(n + k)), rtol=2 * eps, atol=0)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_far_out_nothing_overflows_that_need_not(k):
    z = torch.tensor([-1e300, -1e8, -745.0], requires_grad=True)
    value = phi(k, z)
    (slope,) = torch.autograd.grad(value.sum(), z)
    # phi_k(z) = -1 / ((k - 1)! z) and phi_k'(z) = 1 / ((k - 1)! z^2), to 1/z of them but for k = 1
    torch.testing.assert_close(value, -1 / (math.factorial(k - 1) * z), rtol=3e-3, atol=0)
    torch.testing.assert_close(slope, 1 / (math.factorial(k - 1) * z) / z, rtol=1e-2, atol=0)


def test_forward_mode_sees_the_same_derivative():
    z = torch.linspace(-4, 7, 45)
    _, forward = torch.func.jvp(lambda z: phi(2, z), (z,), (torch.ones_like(z),))
    backward = torch.func.grad(lambda z: phi(2, z).sum())(z)
    torch.testing.assert_close(forward, backward, rtol=1e-13, atol=0)


def test_phi_of_a_singular_matrix_is_defined():
    A, v = torch.zeros(3, 3), torch.randn(3)
    torch.testing.assert_close(phi_matrix(A, v), v, rtol=0, atol=1e-15)


@pytest.mark.parametrize("scale", [1e-9, 0.1, 3.0, 200.0])
def test_phi_of_a_matrix_is_phi_of_its_eigenvalues(scale):
    rotation, _ = torch.linalg.qr(torch.randn(2, 4, 4))
    eigenvalues = -scale * torch.rand(2, 4)
    A = rotation @ torch.diag_embed(eigenvalues) @ rotation.mT
    v = torch.randn(2, 4)
    expected = (rotation @ (phi(1, eigenvalues).unsqueeze(-1) * (rotation.mT @ v.unsqueeze(-1)))).squeeze(-1)
    torch.testing.assert_close(phi_matrix(A, v), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("fast", [1e2, 1e4, 1e6])
def test_phi_of_a_matrix_keeps_the_digits_of_a_slow_unit_beside_a_fast_one(fast):
    A, v = torch.tensor([[-0.5, 0.3], [0.2 * fast, -fast]], dtype=torch.float32), torch.tensor([0.7, 0.1], dtype=torch.float32)
    eigenvalues, vectors = torch.linalg.eig(A.double())
    weights = torch.linalg.solve(vectors, v.to(vectors.dtype))
    expected = (vectors * phi(1, eigenvalues.real) @ weights).real.float()
    torch.testing.assert_close(phi_matrix(A, v), expected, rtol=4 * torch.finfo(torch.float32).eps, atol=0)
