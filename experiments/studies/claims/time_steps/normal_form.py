r"""Computes the cycle around a rest point to leading order, in the equation and under a step, by their normal forms.

    equation, a + iw      z' = (a + iw) z + c |z|^2 z            size^2 = -a / Re c                  turns by w + Im c size^2
    step, mu              z -> mu z (1 + d |z|^2)                size^2 = -log|mu| / Re d, a step    by (arg mu + Im d size^2)/dt

The coefficients are those of the bifurcations of Hopf and of Neimark and Sacker (Kuznetsov 2004, ch. 3 to 5), taken at the rest
point as it is, off the bifurcation, so that they are right to leading order in a and log|mu|. A unit swings by 2 size |q|, q
the eigenvector of norm 1. Where both cycles have nearly the same cubic term in a unit of time, the equation keeps the root of
a / (log|mu|/dt) of the size that a rhythm has under its step.

Of an oscillator that is its normal form, and is trained by Euler's step to have size 1 and a period, all of it is exact:

    a + iw + c = lambda       the eigenvalue of the linear prediction, R(lambda dt) = e^(i omega dt)
    size^2 = 1 - |Re lambda| / |Re c|        gone where the pull to the cycle, |Re c|, is below |Re lambda|, about dt omega^2/2
    turns by Im lambda - |Re lambda| Im c / |Re c|              so that a shear moves the period by as much at any pull
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import jacrev, jvp

from ctrnn import VectorField
from discretize import Step

__all__ = ["Cycle", "cycle_of_equation", "cycle_of_step", "left_in_equation"]

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Cycle:
    """Holds a cycle to leading order: growth at the rest point, amplitudes (state,) and the angle in a unit of time.

    Where there is no cycle, amplitudes are 0 and the angle is nan.
    """

    growth: float
    amplitudes: Tensor
    turns: float


def left_in_equation(eigenvalue: complex, pull: float, shear: float = 0.0) -> tuple[float, float]:
    """Return size and angle in a unit of time, in the equation, of an oscillator that Euler's step keeps at size 1; 0 where gone.

    Args:    eigenvalue: of the linear prediction, at the period that was trained; pull: |Re c| > 0; shear: Im c / |Re c|.
    """
    squared = 1 + eigenvalue.real / pull
    return math.sqrt(max(0.0, squared)), eigenvalue.imag + shear * eigenvalue.real


def cycle_of_equation(field: VectorField, x: Tensor, h: Tensor) -> Cycle:
    """Compute the cycle around the rest point h (state,) of the equation while x (input,) is held."""
    projected = field.project(x)
    value, q, matrix, products = _mode(lambda state: field.flow(projected, state), h, largest=lambda values: values.real)
    eye = torch.eye(len(h)).to(matrix)
    c = products(
        q,
        torch.linalg.solve(-matrix, eye),
        torch.linalg.solve(2j * value.imag * eye - matrix, eye),
    )
    return _cycle(value.real, value.imag, c, q)


def cycle_of_step(field: VectorField, step: Step, x: Tensor, h: Tensor, dt: float) -> Cycle:
    """Compute the cycle around the rest point h (state,) of the step while x (input,) is held."""
    projected = field.project(x)
    value, q, matrix, products = _mode(lambda state: step.advance(field, projected, state, dt), h, largest=torch.abs)
    eye, turned = torch.eye(len(h)).to(matrix), value / abs(value)
    d = products(q, torch.linalg.solve(eye - matrix, eye), torch.linalg.solve(turned**2 * eye - matrix, eye)) / value
    return _cycle(math.log(abs(value)) / dt, math.atan2(value.imag, value.real) / dt, d / dt, q)


def _cycle(growth: float, turns: float, cubic: complex, q: Tensor) -> Cycle:
    squared = -growth / cubic.real if cubic.real else math.nan
    if not (growth > 0 and squared > 0):
        return Cycle(growth, torch.zeros_like(q.real), math.nan)
    return Cycle(growth, 2 * math.sqrt(squared) * q.abs(), turns + cubic.imag * squared)


def _mode(
    function: Function, h: Tensor, largest: Callable[[Tensor], Tensor]
) -> tuple[complex, Tensor, Tensor, Callable[[Tensor, Tensor, Tensor], complex]]:
    """Return the eigenvalue that turns and is largest, its vector q of norm 1, the Jacobian, and how q makes the cubic term."""
    matrix = jacrev(function)(h).detach().to(torch.complex128)
    values, vectors = torch.linalg.eig(matrix)
    turning = values.imag > 0
    if not bool(turning.any()):
        raise ValueError("no mode turns at this rest point, so that there is no cycle around it.")
    k = int(torch.where(turning, largest(values), -torch.inf).argmax())
    q = vectors[:, k] / vectors[:, k].norm()
    p = torch.linalg.inv(vectors)[k] * vectors[:, k].norm()  # p q = 1, no conjugate

    def second(u: Tensor, v: Tensor) -> Tensor:
        return _multilinear(lambda a, b: _derivative(function, h, a, b), u, v)

    def cubic(q: Tensor, flat: Tensor, twice: Tensor) -> complex:
        third = _multilinear(lambda a, b, c: _derivative(function, h, a, b, c), q, q, q.conj())
        whole = third + 2 * second(q, flat @ second(q, q.conj())) + second(q.conj(), twice @ second(q, q))
        return complex(p @ whole) / 2

    return complex(values[k]), q, matrix, cubic


def _derivative(function: Function, h: Tensor, *along: Tensor) -> Tensor:
    """Compute the derivative of as many orders as there are real directions."""
    for direction in along:
        function = _along(function, direction)
    return function(h).detach()


def _along(function: Function, direction: Tensor) -> Function:
    return lambda state: jvp(function, (state,), (direction,))[1]


def _multilinear(real: Callable[..., Tensor], *given: Tensor) -> Tensor:
    """Evaluate what is linear in each real direction at complex ones."""
    total: Tensor | float = 0.0
    for bits in range(2 ** len(given)):
        parts = [(one.imag if bits >> k & 1 else one.real) for k, one in enumerate(given)]
        total = total + 1j ** bits.bit_count() * real(*parts)
    assert isinstance(total, Tensor)
    return total
