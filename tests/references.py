"""Solutions by SciPy, restarted at every knot and requested time; nothing of ctrnn's paths or discretize is used."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from scipy.integrate import solve_ivp
from torch import Tensor

import ctrnn


def held(xs: Tensor, knots: Tensor) -> Callable[[int, float], Tensor]:
    """Sample k throughout interval k."""
    return lambda k, t: xs[k]


def linear(xs: Tensor, knots: Tensor) -> Callable[[int, float], Tensor]:
    """From sample k to sample k + 1 in interval k."""

    def at(k: int, t: float) -> Tensor:
        share = (t - float(knots[k])) / float(knots[k + 1] - knots[k])
        return (1 - share) * xs[k] + share * xs[k + 1]

    return at


def dop853(field: ctrnn.VectorField, signal: Callable[[int, float], Tensor], knots: Tensor, h0: Tensor, ts: Tensor) -> Tensor:
    """States at `ts`; `signal(k, t)` is the input on [knots[k], knots[k + 1]]."""
    return _solved(field, signal, knots, h0, ts, "DOP853")


def radau(field: ctrnn.VectorField, signal: Callable[[int, float], Tensor], knots: Tensor, h0: Tensor, ts: Tensor) -> Tensor:
    """The same for stiff fields."""
    return _solved(field, signal, knots, h0, ts, "Radau")


@torch.no_grad()
def _solved(
    field: ctrnn.VectorField,
    signal: Callable[[int, float], Tensor],
    knots: Tensor,
    h0: Tensor,
    ts: Tensor,
    method: str,
) -> Tensor:
    h, states = h0.detach().numpy().ravel(), [h0.detach()]
    edges = sorted(set(ts.tolist()) | {t for t in knots.tolist() if ts[0] < t < ts[-1]})
    wanted = set(ts.tolist())
    for start, end in pairwise(edges):
        k = sum(knot <= start for knot in knots.tolist()) - 1

        def slope(t: float, y: np.ndarray, k: int = k) -> np.ndarray:
            return field.flow(field.project(signal(k, t)), torch.from_numpy(y).reshape(h0.shape)).numpy().ravel()

        h = solve_ivp(slope, (start, end), h, method=method, rtol=1e-11, atol=1e-13).y[:, -1]
        if end in wanted:
            states.append(torch.from_numpy(h).reshape(h0.shape))
    return torch.stack(states)
