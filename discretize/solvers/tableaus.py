r"""Steps that estimate their own error, and the coefficients of the explicit pairs, as their authors print them.

    h_1 = h + dt sum_i b_i k_i        error = dt sum_i e_i k_i        k_i = f(t + c_i dt, h + dt sum_j a_ij k_j)

    adaptive_heun   2(1)    Heun and Euler
    bosh3           3(2)    Bogacki and Shampine 1989
    dopri5          5(4)    Dormand and Prince 1980
    tsit5           5(4)    Tsitouras 2011, the free parameters chosen anew: smaller errors at the same cost
    dopri8          8(7)    Prince and Dormand 1981, 13 stages

Each sample may take a dt of its own; a dt of 0 leaves it where it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from discretize.solvers.segments import RightHandSide

__all__ = ["EXPLICIT_PAIRS", "Attempt", "EmbeddedMethod", "EmbeddedRungeKutta", "weighted"]


class Attempt(NamedTuple):
    """Holds the state a step leads to, the error it estimates, and dh/dt at its end if known."""

    h: Tensor
    error: Tensor
    end: Tensor | None


class EmbeddedMethod(ABC):
    r"""Takes a step and estimates its error, of size O(dt^order) relative to the solution that goes on.

    `evaluations` of the field in an attempt whose first slope is known; `implicit` methods also need a Jacobian.

    Shape:   tau, dt (1, 1) or (batch, 1), float64; h, start (batch, state) -> (batch, state).
    """

    name: str
    order: int
    evaluations: int
    implicit = False

    @abstractmethod
    def attempt(self, slope: RightHandSide, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor | None) -> Attempt:
        """Take one step from h at tau; `start` is dh/dt there."""

    def cost(self, slope: RightHandSide, state: int) -> int:
        """Return the evaluations of the field in an attempt, a derivative along a vector counting as one."""
        return self.evaluations


@dataclass(frozen=True)
class EmbeddedRungeKutta(EmbeddedMethod):
    r"""Takes the steps of an explicit Runge-Kutta pair, given its tableau.

    Args:    name, order; c: nodes of the stages after the first; a: their rows; b: weights, or None where the last row is
             b and so its slope the next step's first; e: b less the weights of the companion.
    Source:  Butcher's notation.
    """

    name: str
    order: int
    c: Sequence[float]
    a: Sequence[Sequence[float]]
    b: Sequence[float] | None
    e: Sequence[float]

    @property
    def evaluations(self) -> int:  # type: ignore[override]
        return len(self.c)

    def attempt(self, slope: RightHandSide, tau: Tensor, dt: Tensor, h: Tensor, start: Tensor | None) -> Attempt:
        step = dt.to(device=h.device, dtype=h.dtype, non_blocking=True)
        ks = [slope(tau, h) if start is None else start]
        following = h
        for c, row in zip(self.c, self.a, strict=True):
            following = torch.addcmul(h, step, weighted(row, ks))
            ks.append(slope(tau if slope.steady else tau + c * dt, following))
        last_is_next = self.b is None
        if self.b is not None:
            following = torch.addcmul(h, step, weighted(self.b, ks))
        return Attempt(following, step * weighted(self.e, ks), ks[-1] if last_is_next else None)


def weighted(weights: Sequence[float], ks: Sequence[Tensor]) -> Tensor:
    """Return sum_i w_i k_i over the weights that are not 0."""
    total: Tensor | None = None
    for weight, k in zip(weights, ks, strict=False):
        if weight:
            total = weight * k if total is None else torch.add(total, k, alpha=weight)
    assert total is not None
    return total


def _less(b: tuple[float, ...], companion: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(x - y for x, y in zip(b, companion, strict=True))


ADAPTIVE_HEUN = EmbeddedRungeKutta("adaptive_heun", 2, c=(1,), a=((1,),), b=(1 / 2, 1 / 2), e=(-1 / 2, 1 / 2))

BOSH3 = EmbeddedRungeKutta(
    "bosh3",
    3,
    c=(1 / 2, 3 / 4, 1),
    a=((1 / 2,), (0, 3 / 4), (2 / 9, 1 / 3, 4 / 9)),
    b=None,
    e=_less((2 / 9, 1 / 3, 4 / 9, 0), (7 / 24, 1 / 4, 1 / 3, 1 / 8)),
)

DOPRI5 = EmbeddedRungeKutta(
    "dopri5",
    5,
    c=(1 / 5, 3 / 10, 4 / 5, 8 / 9, 1, 1),
    a=(
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    ),
    b=None,
    e=_less(
        (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0),
        (1951 / 21600, 0, 22642 / 50085, 451 / 720, -12231 / 42400, 649 / 6300, 1 / 60),
    ),
)

TSIT5 = EmbeddedRungeKutta(
    "tsit5",
    5,
    c=(0.161, 0.327, 0.9, 0.9800255409045097, 1, 1),
    a=(
        (0.161,),
        (-0.008480655492356989, 0.335480655492357),
        (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
        (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
        (5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383),
        (0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774),
    ),
    b=None,
    e=(
        -0.00178001105222577714,
        -0.0008164344596567469,
        0.007880878010261995,
        -0.1447110071732629,
        0.5823571654525552,
        -0.45808210592918697,
        0.015151515151515152,
    ),
)

_PRINCE_DORMAND = (
    14005451 / 335480064,
    0,
    0,
    0,
    0,
    -59238493 / 1068277825,
    181606767 / 758867731,
    561292985 / 797845732,
    -1041891430 / 1371343529,
    760417239 / 1151165299,
    118820643 / 751138087,
    -528747749 / 2220607170,
    1 / 4,
)
DOPRI8 = EmbeddedRungeKutta(
    "dopri8",
    8,
    c=(
        1 / 18, 1 / 12, 1 / 8, 5 / 16, 3 / 8, 59 / 400, 93 / 200, 5490023248 / 9719169821, 13 / 20, 1201146811 / 1299019798, 1,
        1,
    ),
    a=(
        (1 / 18,),
        (1 / 48, 1 / 16),
        (1 / 32, 0, 3 / 32),
        (5 / 16, 0, -75 / 64, 75 / 64),
        (3 / 80, 0, 0, 3 / 16, 3 / 20),
        (29443841 / 614563906, 0, 0, 77736538 / 692538347, -28693883 / 1125000000, 23124283 / 1800000000),
        (
            16016141 / 946692911, 0, 0, 61564180 / 158732637, 22789713 / 633445777, 545815736 / 2771057229,
            -180193667 / 1043307555,
        ),
        (
            39632708 / 573591083, 0, 0, -433636366 / 683701615, -421739975 / 2616292301, 100302831 / 723423059,
            790204164 / 839813087, 800635310 / 3783071287,
        ),
        (
            246121993 / 1340847787, 0, 0, -37695042795 / 15268766246, -309121744 / 1061227803, -12992083 / 490766935,
            6005943493 / 2108947869, 393006217 / 1396673457, 123872331 / 1001029789,
        ),
        (
            -1028468189 / 846180014, 0, 0, 8478235783 / 508512852, 1311729495 / 1432422823, -10304129995 / 1701304382,
            -48777925059 / 3047939560, 15336726248 / 1032824649, -45442868181 / 3398467696, 3065993473 / 597172653,
        ),
        (
            185892177 / 718116043, 0, 0, -3185094517 / 667107341, -477755414 / 1098053517, -703635378 / 230739211,
            5731566787 / 1027545527, 5232866602 / 850066563, -4093664535 / 808688257, 3962137247 / 1805957418,
            65686358 / 487910083,
        ),
        (
            403863854 / 491063109, 0, 0, -5068492393 / 434740067, -411421997 / 543043805, 652783627 / 914296604,
            11173962825 / 925320556, -13158990841 / 6184727034, 3936647629 / 1978049680, -160528059 / 685178525,
            248638103 / 1413531060, 0,
        ),
    ),
    b=_PRINCE_DORMAND,
    e=_less(
        _PRINCE_DORMAND,
        (
            13451932 / 455176623, 0, 0, 0, 0, -808719846 / 976000145, 1757004468 / 5645159321, 656045339 / 265891186,
            -3867574721 / 1518517206, 465885868 / 322736535, 53011238 / 667516719, 2 / 45, 0,
        ),
    ),
)  # fmt: skip

EXPLICIT_PAIRS = {pair.name: pair for pair in (ADAPTIVE_HEUN, BOSH3, DOPRI5, TSIT5, DOPRI8)}
