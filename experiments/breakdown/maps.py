"""The step maps of the atlas, by family, and the gate that each makes of dh/dt = g (f - h)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from markupsafe import Markup
from torch import Tensor

import discretize
from discretize import Step

__all__ = ["FAMILIES", "GATES", "MAPS", "Limits", "limits"]

FAMILIES: dict[str, tuple[str, ...]] = {
    "Taylor and Runge-Kutta": ("Euler", "Taylor2", "Midpoint", "Heun", "RungeKutta4"),
    "exponential": ("ExponentialEuler", "ETD2", "ETDRK4", "FittedMidpoint", "ExponentialRosenbrock"),
    "implicit and frozen": ("BackwardEuler", "Trapezoid", "FrozenBackwardEuler", "FrozenTrapezoid"),
    "splitting": ("Splitting", "StrangSplitting"),
}
MAPS: dict[str, Step] = {name: getattr(discretize, name)() for names in FAMILIES.values() for name in names}
# Derived in derivations/twins/step_maps.py.
_GATES = {
    **dict.fromkeys(("Euler",), "<i>g</i>"),
    **dict.fromkeys(("Taylor2", "Midpoint", "Heun"), "<i>g</i> − <i>g</i>²/2"),
    "RungeKutta4": "<i>g</i> − <i>g</i>²/2 + <i>g</i>³/6 − <i>g</i>⁴/24",
    **dict.fromkeys(
        ("ExponentialEuler", "ETD2", "ETDRK4", "FittedMidpoint", "ExponentialRosenbrock"), "1 − e<sup>−<i>g</i></sup>"
    ),
    **dict.fromkeys(("BackwardEuler", "FrozenBackwardEuler"), "<i>g</i>/(1 + <i>g</i>)"),
    **dict.fromkeys(("Trapezoid", "FrozenTrapezoid"), "<i>g</i>/(1 + <i>g</i>/2)"),
    "Splitting": "forgets 1 − e<sup>−<i>g</i></sup>, writes <i>g</i>",
    "StrangSplitting": "forgets 1 − e<sup>−<i>g</i></sup>, writes <i>g</i> e<sup>−<i>g</i>/2</sup>",
}
GATES = {name: Markup(gate) for name, gate in _GATES.items()}


@dataclass(frozen=True)
class Limits:
    """The g dt from which a map overshoots, and from which it diverges, on a held target; None: for no g dt up to 10^6."""

    overshoots: float | None
    diverges: float | None


def limits(step: Step) -> Limits:
    r"""Where R(-g) turns negative, and where |R| passes 1.

    Source: found on a grid of g and then bisected, so that the map itself is asked and no table of its limits.
    """
    return Limits(_first(step, lambda R: R < -1e-9), _first(step, lambda R: ~(R.abs() <= 1 + 1e-9)))


def _first(step: Step, beyond: Callable[[Tensor], Tensor]) -> float | None:
    grid = torch.logspace(-3, 6, 2001, dtype=torch.float64)
    hits = torch.nonzero(beyond(step.stability(-grid)))
    if len(hits) == 0:
        return None
    k = int(hits[0])
    low, high = float(grid[max(0, k - 1)]), float(grid[k])
    for _ in range(60):
        middle = (low + high) / 2
        if bool(beyond(step.stability(torch.tensor([-middle], dtype=torch.float64)))):
            high = middle
        else:
            low = middle
    return high
