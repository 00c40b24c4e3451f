r"""The phi functions of exponential integrators, accurate near 0 and in float32.

    phi_0(z) = e^z        phi_k(z) = (phi_k-1(z) - 1/(k - 1)!) / z = sum over n of z^n / (n + k)!
    phi_1 = (e^z - 1)/z        phi_2 = (e^z - 1 - z)/z^2        phi_3 = (e^z - 1 - z - z^2/2)/z^3

With h' = F(h) and z = -L dt, h + dt phi_1(z) F(h) is the solution over dt where F(h) = N - L h with constant N and L.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["phi", "phi_matrix"]

# Between them the series is taken: to the left of -2 it cancels, to the right of 5 it is long.
SERIES = (-2.0, 5.0)


def phi(k: int, z: Tensor) -> Tensor:
    r"""phi_k, elementwise; k = 0, 1, 2, 3.

    Relative error at most a few units in the last place for real z, of the value and of the derivative that autograd takes.

    Shape:   z (...), real -> (...).
    Source:  Cox and Matthews 2002; the recurrence and the series are the definition's.
    """
    if z.dtype in (torch.float16, torch.bfloat16):
        return phi(k, z.float()).to(z.dtype)
    if k == 0:
        return torch.exp(z)
    low, high = SERIES
    near = (z > low) & (z < high)
    # Neither branch may see the other's arguments: 0 times their infinite slope would be nan.
    apart = torch.where(near, torch.full_like(z, low), z)
    value = torch.expm1(apart) / apart
    for j in range(1, k):
        value = (value - 1 / math.factorial(j)) / apart
    return torch.where(near, _series(k, torch.where(near, z, torch.zeros_like(z))), value)


def _series(k: int, z: Tensor) -> Tensor:
    terms = 34 if z.dtype == torch.float64 else 20  # z^n / (n + k)! below a tenth of the last place at z = 5
    total = torch.full_like(z, 1 / math.factorial(terms + k))
    for n in reversed(range(terms)):
        total = total * z + 1 / math.factorial(n + k)
    return total


def phi_matrix(A: Tensor, v: Tensor) -> Tensor:
    r"""phi_1(A) v, by one exponential of the matrix [[A, v], [0, 0]].

    Units are scaled first: rounding of the exponential is relative to the largest of its entries, whatever their units. It also
    grows with the largest of A, for e^A = (e^(A/n))^n: beside a unit with a decay of 1e4 a step others would keep three digits in
    float32, which is computed in float64.

    Shape:   A (..., n, n), v (..., n) -> (..., n).
    Source:  Hochbruck and Ostermann 2010; the augmented matrix is Saad's (1992), the scaling Osborne's (1960).
    """
    if v.dtype == torch.float32:
        return phi_matrix(A.double(), v.double()).to(v.dtype)
    d = _balance(A.detach())
    A, v = A / d.unsqueeze(-1) * d.unsqueeze(-2), v / d
    size = _power_of_two(v.detach().abs().amax(-1, keepdim=True))
    top = torch.cat([A, (v / size).unsqueeze(-1)], -1)
    return torch.linalg.matrix_exp(torch.cat([top, torch.zeros_like(top[..., :1, :])], -2))[..., :-1, -1] * d * size


def _balance(A: Tensor) -> Tensor:
    """Return d, powers of two, such that rows and columns of d_i^-1 A_ij d_j are about as large: (..., n, n) -> (..., n)."""
    one = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    sizes, d = A.abs() * (1 - one), torch.ones_like(A[..., 0])
    for _ in range(2):
        now = sizes / d.unsqueeze(-1) * d.unsqueeze(-2)
        rows, columns = (torch.where(found > 0, found, 1.0) for found in (now.amax(-1), now.amax(-2)))
        d = _power_of_two(d * (rows / columns).sqrt())
    return d


def _power_of_two(size: Tensor) -> Tensor:
    return torch.where((size > 0) & torch.isfinite(size), torch.exp2(torch.log2(size).round()), 1.0)
