"""The step maps of the atlas, by family, and the gate that each makes of dh/dt = g (f - h)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from markupsafe import Markup
from scipy.optimize import bisect
from torch import Tensor

from discretize import Step
from discretize.steps.catalog import steps

__all__ = ["FAMILIES", "GATES", "MAPS", "Limits", "limits"]

MAPS: dict[str, Step] = {name: kind() for name, kind in steps().items() if kind.equation}
FAMILIES: dict[str, tuple[str, ...]] = {
    family: tuple(name for name, step in MAPS.items() if step.family == family)
    for family in dict.fromkeys(step.family for step in MAPS.values())
}


def _typeset(gate: str) -> str:
    """A gate as HTML: 1 - exp(-g) with e to the power of -g."""
    gate = re.sub(r"exp\(([^()]*)\)", r"e<sup>\1</sup>", gate).replace("-", "−")
    gate = re.sub(r"\bg\b", "<i>g</i>", gate)  # before the powers, whose signs are letters to \b
    return re.sub(r"\^(\d)", lambda power: "⁰¹²³⁴⁵"[int(power[1])], gate)


def _gate(step: Step) -> Markup:
    if step.keeps_and_writes is None:
        return Markup(_typeset(step.gate))
    keeps, writes = map(_typeset, step.keeps_and_writes)
    return Markup(f"forgets 1 − {keeps}, writes {writes}")


GATES = {name: _gate(step) for name, step in MAPS.items()}


@dataclass(frozen=True)
class Limits:
    """The g dt from which a map overshoots, and from which it diverges, on a held target; None: for no g dt up to 10^6."""

    overshoots: float | None
    diverges: float | None


def limits(step: Step) -> Limits:
    r"""Find where R(-g) turns negative, and where |R| passes 1.

    Source: found on a grid of g and then bisected, so that the map itself is asked and no table of its limits.
    """
    return Limits(_first(step, lambda R: R < -1e-9), _first(step, lambda R: ~(R.abs() <= 1 + 1e-9)))


def _first(step: Step, beyond: Callable[[Tensor], Tensor]) -> float | None:
    grid = torch.logspace(-3, 6, 2001, dtype=torch.float64)
    hits = torch.nonzero(beyond(step.stability(-grid)))[:, 0].tolist()
    if not hits:
        return None

    def side(g: float) -> float:
        return 0.5 - float(beyond(step.stability(torch.tensor([-g], dtype=torch.float64))))

    return float(bisect(side, float(grid[hits[0] - 1]), float(grid[hits[0]])))
