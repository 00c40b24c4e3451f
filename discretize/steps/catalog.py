"""The library's step maps, read from its public names: one more file in this folder, with its line in the stub, is one more."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import discretize.steps
from ctrnn.lazy import homes_of

__all__ = ["dashed", "step_names", "steps", "stochastic_step_names", "stochastic_steps"]

if TYPE_CHECKING:
    from discretize.steps.step import Step
    from discretize.steps.stochastic import StochasticStep

NO_MAPS = ("Step", "StochasticStep", "Zoneout")  # the interfaces, and a wrapper of other steps
NOISE = "discretize.steps.stochastic"


def step_names() -> list[str]:
    """The names of the classes, in the order of the public names; nothing is loaded for it."""
    homes = homes_of(str(discretize.steps.__file__))
    return [
        name for name, home in homes.items() if home.startswith("discretize.steps.") and home != NOISE and name not in NO_MAPS
    ]


def stochastic_step_names() -> list[str]:
    """Of the steps for fields with noise."""
    homes = homes_of(str(discretize.steps.__file__))
    return [name for name, home in homes.items() if home == NOISE and name not in NO_MAPS]


def steps() -> dict[str, type[Step]]:
    """All step maps by the names of their classes."""
    return {name: getattr(discretize.steps, name) for name in step_names()}


def stochastic_steps() -> dict[str, type[StochasticStep]]:
    """Those for fields with noise by the names of their classes."""
    return {name: getattr(discretize.steps, name) for name in stochastic_step_names()}


def dashed(name: str) -> str:
    """A class's name as commands have it: exponential-euler, runge-kutta4, etdrk4."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
