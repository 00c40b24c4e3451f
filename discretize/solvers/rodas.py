r"""A Rosenbrock pair for stiff fields: no equation to iterate on, one Jacobian and one factorization a step.

    (1 - gamma dt J) u_i = gamma (dt f(t + c_i dt, h + sum_j a_ij u_j) + sum_j C_ij u_j + d_i dt^2 df/dt)
    h_1 = h + sum_j a_8j u_j + u_8          error = u_8

L-stable and stiffly accurate: a unit that forgets fast ends a step of any length where it should be.

Products with C, which are up to 147, all but cancel. They are summed in double precision: in float32 their rounding is an error
of 1e-5 of dt f, for which steps were shortened.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ctrnn import checks
from discretize.solvers.segments import SlopeFunction
from discretize.solvers.tableaus import Attempt, EmbeddedMethod, weighted

__all__ = ["Rodas5P"]

GAMMA = 0.21193756319429014
NODES = (0.0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664, 1.0, 1.0, 1.0)
FROM_TIME = (GAMMA, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734, 2.325825639765069, 0.0, 0.0, 0.0)
SIXTH = (-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946)
STAGES: tuple[tuple[float, ...], ...] = (
    (),
    (3.0,),
    (2.849394379747939, 0.45842242204463923),
    (-6.954028509809101, 2.489845061869568, -10.358996098473584),
    (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
    SIXTH,
    (*SIXTH, 1.0),
    (*SIXTH, 1.0, 1.0),
)
COUPLINGS: tuple[tuple[float, ...], ...] = (
    (),
    (-14.155112264123755,),
    (-17.97296035885952, -2.859693295451294),
    (147.12150275711716, -1.41221402718213, 71.68940251302358),
    (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
    (24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125, -0.6610691825249471),
    (30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783, -19.097331116725623, -28.087943162872662),
    (
        37.80277123390563,
        -3.2571969029072276,
        112.26918849496327,
        66.9347231244047,
        -40.06618937091002,
        -54.66780262877968,
        -9.48861652309627,
    ),
)


class Rodas5P(EmbeddedMethod):
    r"""Order 5 with an error estimate of order 4; its order does not sink on stiff problems with a moving equilibrium.

    The Jacobian is that of `VectorField.jacobian`, in every step; gradients of a solve go through it. A diagonal one is solved
    elementwise, one with other bandwidths by the dense factorization.

    Source:  Steinebach 2023, Construction of Rosenbrock-Wanner method Rodas5P, BIT 63, 27; the form without products with
             J is that of Hairer and Wanner, Solving ODEs II, sec. IV.7.
    """

    name, order = "rodas5p", 5
    evaluations, jacobians = 8, 1

    def attempt(self, slope: SlopeFunction, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor | None) -> Attempt:
        step = dt.to(device=h.device, dtype=h.dtype, non_blocking=True)
        first = slope(tau, h) if start is None else start
        jacobian = _jacobian(slope, tau, h)
        solve = _solver(GAMMA * step, jacobian)
        # Code that is recorded for a kernel has a name for a Jacobian, and one precision.
        precision = checks.time_dtype(h.device) if isinstance(jacobian, Tensor) else h.dtype
        drift = None if slope.steady else step * slope.time_derivative(tau, dt, h)
        us: list[Tensor] = []
        at = h
        for node, row, couplings, from_time in zip(NODES, STAGES, COUPLINGS, FROM_TIME, strict=True):
            at = h + weighted(row, us) if us else h
            value = slope(tau if slope.steady else tau + node * dt, at) if us else first
            if drift is not None and from_time:
                value = torch.add(value, drift, alpha=from_time)
            us.append(solve(GAMMA * _coupled(step * value, couplings, us, precision)))
        return Attempt(at + us[-1], us[-1], None)

    def attempt_cost(self, slope: SlopeFunction, state: int) -> int:
        return super().attempt_cost(slope, state) + (not slope.steady)


def _coupled(right: Tensor, couplings: tuple[float, ...], us: list[Tensor], precision: torch.dtype) -> Tensor:
    """Return right + sum_j C_j u_j, summed in this precision."""
    if not us:
        return right
    total = right.to(precision)
    for coupling, u in zip(couplings, us, strict=True):
        total = torch.add(total, u.to(total.dtype), alpha=coupling)
    return total.to(right.dtype)


def _solver(step: Tensor, jacobian: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a solver of (1 - step J) u = right, (..., state); J (..., state, state), or (..., state), its diagonal."""
    if jacobian.dim() == step.dim():
        diagonal = 1 - step * jacobian
        return lambda right: right / diagonal
    unit = torch.eye(jacobian.shape[-1], dtype=jacobian.dtype, device=jacobian.device)
    # The transpose, as in kernels: so rounding is relative to the largest number of a row, and a slow unit's keeps its digits
    # beside a stiff one's. A singular matrix gives what is not finite, and the step is tried again, shorter.
    factors, pivots, _ = torch.linalg.lu_factor_ex((unit - step[..., None] * jacobian).transpose(-2, -1))
    return lambda right: torch.linalg.lu_solve(factors, pivots, right[..., None], adjoint=True)[..., 0]


def _jacobian(slope: SlopeFunction, tau: Tensor, h: Tensor) -> Tensor:
    try:
        return slope.jacobian(tau, h)
    except (RuntimeError, NotImplementedError) as error:
        raise TypeError(
            "`rodas5p` differentiates the field's `flow` by torch.func, which cannot follow it here; write it with torch's "
            "functions of h, without .item(), .numpy() and branches on values, give the field a `jacobian` of its own, or take "
            "an explicit method such as dopri5."
        ) from error
