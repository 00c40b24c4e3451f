r"""Exponential steps: dh/dt = N(h) - L h, the leak L solved exactly and N followed.

    L = field.leak at the start of the step, a number for each unit, and z = -L dt; N(u) = F(u) + L u
    exponential Euler      h + dt phi_1(z) F(h)                     N held; the gate 1 - e^(-g dt) of dh/dt = g (f - h)
    ETD2                   a + dt phi_2(z) (N(a) - N(h))            a the step above; N straight from h to a
    ETD-RK4                four stages, with phi_1, phi_2, phi_3
    fitted midpoint        the midpoint rule with other weights, so that e^(-L dt) is exact and slow directions keep their speed

The same rule for every field, by its own `leak`; for a field that declares none these are the Euler, Heun,
Runge-Kutta and midpoint steps. On dh/dt = g (f - h), f and g held, all of them are exact.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn import VectorField
from discretize.steps.algebra.phi import phi
from discretize.steps.step import Step, mode

__all__ = ["ETD2", "ETDRK4", "ExponentialEuler", "FittedMidpoint"]


class ExponentialEuler(Step):
    r"""h + dt phi_1(-L dt) F(h). R = 1 + phi_1(-l) z with l = L dt; e^z where all is leak.

        >>> cell = discretize.DiscreteCell(ctrnn.leaky(1, 3, alpha=0.5), ExponentialEuler(), dt=100.0)
        >>> bool((cell(torch.zeros(1, 1), torch.ones(1, 3)).abs() < 1).all())  # however long the step
        True

    Shape:   as `Step`.
    Source:  Cox and Matthews 2002, ETD1, with L from the field; as the gate 1 - e^-softplus(z), Gu and Dao 2023, Theorem 1.
    """

    title = "exponential Euler"
    family = "exponential"
    equation = "h' = h + dt phi1(-L dt) F(h)"
    gate = "1 - exp(-g)"
    factor = "1 + phi1(-l) z"
    error = "dt^2/2 * (F' + L) F"
    order = 1
    evaluations = 1

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        slope, leak = field.flow_and_leak(projected, h)
        return h + dt * phi(1, -dt * leak) * slope

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        z, leak = mode(z, leak)
        return 1 + phi(1, -leak) * z


class ETD2(Step):
    r"""a + dt phi_2(-L dt) (N(a) - N(h)), a the exponential Euler step.

    Shape:   as `Step`.
    Source:  Cox and Matthews 2002, ETD2RK.
    """

    title = "ETD2"
    family = "exponential"
    equation = "h' = a + dt phi2(-L dt) (N(a) - N(h))\na = h + dt phi1(-L dt) F(h)"
    gate = "1 - exp(-g)"
    factor = "1 + phi1(-l) z + phi2(-l) (z + l) phi1(-l) z"
    error = "dt^3 F ((F' + L) (2 F' + 3 L) - F'' F)/12"
    order = 2
    evaluations = 2

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        slope, leak = field.flow_and_leak(projected, h)
        z = -dt * leak
        moved = dt * phi(1, z) * slope
        # N(a) - N(h) = F(a) - F(h) + L (a - h), without the large L h that would cancel.
        return h + moved + dt * phi(2, z) * (field.flow(projected, h + moved) - slope + leak * moved)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        z, leak = mode(z, leak)
        moved = phi(1, -leak) * z
        return 1 + moved + phi(2, -leak) * (z + leak) * moved


class ETDRK4(Step):
    r"""The fourth-order Runge-Kutta step of N between exact solutions of the leak.

    Shape:   as `Step`.
    Source:  Cox and Matthews 2002, ETD4RK, written with phi_1, phi_2, phi_3 and in differences from h.
    """

    title = "ETD-RK4"
    family = "exponential"
    equation = (
        "h' = exp(-L dt) h + dt (p N(h) + q (N(a) + N(b)) + s N(c))\n"
        "a = k h + m N(h)\n"
        "b = k h + m N(a)\n"
        "c = k a + m (2 N(b) - N(h))\n"
        "k = exp(-L dt/2)\n"
        "m = dt/2 * phi1(-L dt/2)\n"
        "p = phi1(-L dt) - 3 phi2(-L dt) + 4 phi3(-L dt)\n"
        "q = 2 phi2(-L dt) - 4 phi3(-L dt)\n"
        "s = 4 phi3(-L dt) - phi2(-L dt)"
    )
    gate = "1 - exp(-g)"
    factor = (
        "exp(-l) + (z + l) (phi1(-l) - 3 phi2(-l) + 4 phi3(-l) + (2 phi2(-l) - 4 phi3(-l)) (a + b) + (4 phi3(-l) - phi2(-l)) c)\n"
        "a = exp(-l/2) + m\n"
        "b = exp(-l/2) + m a\n"
        "c = exp(-l/2) a + m (2 b - 1)\n"
        "m = phi1(-l/2)/2 * (z + l)"
    )
    error = (
        "-dt^5 F (F^3 F'''' + 2 F^2 F' F''' - 6 F^2 F''^2 + 36 F F'^2 F'' - 24 F'^4 + L m)/2880\n"
        "m = 90 F F' F'' + 49 F F'' L - 90 F'^3 - 116 F'^2 L - 55 F' L^2 - 5 L^3"
    )
    order = 4
    evaluations = 4

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        slope, leak = field.flow_and_leak(projected, h)
        z = -dt * leak
        half = dt / 2 * phi(1, z / 2)

        def nonlinear(moved: Tensor) -> Tensor:
            """N(h + moved) - L h."""
            return field.flow(projected, h + moved) + leak * moved

        to_a = half * slope
        at_a = nonlinear(to_a)
        to_b = half * at_a
        at_b = nonlinear(to_b)
        to_c = to_a + half * (2 * at_b - slope - leak * to_a)
        at_c = nonlinear(to_c)
        first, second, third = phi(1, z), phi(2, z), phi(3, z)
        start, middle, end = first - 3 * second + 4 * third, 2 * second - 4 * third, 4 * third - second
        return h + dt * (start * slope + middle * (at_a + at_b) + end * at_c)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        z, leak = mode(z, leak)
        half, rest = phi(1, -leak / 2) / 2, z + leak
        a = half * z
        b = half * (z + rest * a)
        c = a + half * (2 * rest * b + z - leak * a)
        first, second, third = phi(1, -leak), phi(2, -leak), phi(3, -leak)
        end = 4 * third - second
        return 1 + z * first + rest * ((2 * second - 4 * third) * (a + b) + end * c)


class FittedMidpoint(Step):
    r"""h + dt F(h) + 2 dt phi_2(-L dt) (F(h + dt/2 F(h)) - F(h)). R(z) = 1 + z + phi_2(-l) z^2 with l = L dt.

    A unit whose recurrence cancels its leak keeps what it has, and moves slowly: z = s dt, s near 0. Exponential Euler moves it
    by phi_1(-l) dt s, as if less time passed; here R' = 1 at z = 0 for every leak, also of units that forget at rates of their
    own, and R(-l) = e^-l. This is the one quadratic R that does both. It is bounded by 1 from z = -l to 0 up to l = 4 + sqrt 8;
    no step of two evaluations with R(0) = R'(0) = 1 is beyond l = 8.

    Shape:   as `Step`.
    Source:  this project; exponential fitting is Liniger and Willoughby's (1970).
    """

    title = "the fitted midpoint rule"
    family = "exponential"
    equation = "h' = h + dt ((1 - w) F(h) + w F(h + dt/2 * F(h)))\nw = 2 phi2(-L dt)"
    gate = "1 - exp(-g)"
    factor = "1 + z + phi2(-l) z^2"
    error = "dt^3 F (F'' F + 4 F' (F' + L))/24"
    order = 2
    evaluations = 2

    def advance(self, field: VectorField, projected: Tensor, h: Tensor, dt: float | Tensor) -> Tensor:
        slope, leak = field.flow_and_leak(projected, h)
        bend = field.flow(projected, h + dt / 2 * slope) - slope
        return h + dt * (slope + 2 * phi(2, -dt * leak) * bend)

    def stability(self, z: Tensor, leak: Tensor | None = None) -> Tensor:
        z, leak = mode(z, leak)
        # 1 + z + phi_2(-l) z^2 from its value e^-l at z = -l on: for a large l its terms cancel, perhaps to below 0.
        return torch.exp(-leak) + (z + leak) * (1 + phi(2, -leak) * (z - leak))
