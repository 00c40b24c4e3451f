r"""Lists the networks of the study: task, field, integrator and step, and the rate at which each learns.

    seven tasks    tanh units, Euler at dt/tau 1, 0.5, 0.2, 0.1; Heun, Runge-Kutta and exact solves at dt = tau
    rhythm         slower learning, relu units, gated ones, noise, exponential steps; a tutorial's network, by its own loop

The rates are those of least validation loss after the whole training, of a seed that is not used otherwise: rates.csv.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from experiments.runs.configuration import Configuration
from experiments.studies.claims.training import by_adam
from experiments.studies.study import Point, Sizes

__all__ = [
    "EULER",
    "RATES_TRIED",
    "RHYTHM",
    "SAMPLED",
    "SLOW",
    "SMOOTH",
    "TABLE",
    "TASKS",
    "TUTORIAL",
    "TUTORIAL_RATE",
    "DesignCell",
    "configured",
    "networks",
    "rate_of",
]

TASKS = ("flip-flop", "decision", "context", "delayed-match", "working-memory", "ready-set-go", "rhythm")
RHYTHM, EULER = "rhythm", "euler"
SLOW, SAMPLED, TUTORIAL = "tanh, slow", "tanh, 5 steps a sample", "tutorial"
SCHEMES: tuple[tuple[str, float], ...] = (
    *((EULER, dt) for dt in (1.0, 0.5, 0.2, 0.1)),
    *((name, 1.0) for name in ("heun", "runge-kutta4", "exact")),
)
OTHERS: tuple[tuple[str, str, float], ...] = (
    *((SLOW, EULER, dt) for dt in (1.0, 0.5, 0.2, 0.1)),
    *((field, EULER, dt) for field in ("relu", "gated", TUTORIAL) for dt in (0.5, 0.2)),
    *(("tanh", name, 1.0) for name in ("exponential-euler", "fitted-midpoint", "etd2")),
    ("noisy", "euler-maruyama", 0.2),
    (SAMPLED, EULER, 1.0),
)
FIELDS: dict[str, dict[str, Any]] = {
    "tanh": {"field": "plain", "recurrent_gain": 1.0},
    SLOW: {"field": "plain", "recurrent_gain": 1.0},  # at the rate of tutorials
    SAMPLED: {"field": "plain", "recurrent_gain": 1.0, "substeps": 5},  # dt/tau = 0.2, on the samples of dt = tau
    "relu": {"field": "plain", "recurrent_gain": 1.0, "nonlinearity": "relu"},
    TUTORIAL: {"field": "plain", "nonlinearity": "relu"},  # for the record: its own loop trains it, see tutorial.py
    "gated": {"field": "gated", "recurrent_gain": 1.0},
    "noisy": {"field": "plain", "recurrent_gain": 1.0, "noise": 0.05 * 2**0.5},  # the usual 0.05 sqrt(2 tau/dt), a step
}
TUTORIAL_RATE = 1e-3
SMOOTH = ("tanh", SLOW, SAMPLED, "gated", "noisy")  # units whose equation has second derivatives
RATES_TRIED = (1e-3, 3e-3, 1e-2)
TABLE = Path(__file__).with_name("rates.csv")


class DesignCell(NamedTuple):
    """Names a cell of the design."""

    task: str
    units: str
    step: str
    dt: float


def networks(tasks: tuple[str, ...]) -> Iterator[DesignCell]:
    """Yield the cells: those of all tasks first."""
    yield from (DesignCell(task, "tanh", *scheme) for scheme in SCHEMES for task in tasks)
    yield from (DesignCell(RHYTHM, *other) for other in OTHERS if RHYTHM in tasks)


@cache
def _tried() -> dict[DesignCell, dict[float, float]]:
    found: dict[DesignCell, dict[float, float]] = {}
    with TABLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            network = DesignCell(row["task"], row["units"], row["step"], float(row["dt"]))
            found.setdefault(network, {})[float(row["rate"])] = float(row["loss"])
    return found


def rate_of(network: DesignCell) -> float:
    """Return the rate of least validation loss; five steps a sample take that of Euler's step of their length."""
    if network.units in (SLOW, TUTORIAL):
        return TUTORIAL_RATE
    tried = _tried()[network if network.units != SAMPLED else DesignCell(network.task, "tanh", EULER, network.dt / 5)]
    return min(tried, key=tried.__getitem__)


def configured(point: Point, sizes: Sizes) -> Configuration:
    """Configure the training at a point, at the point's own rate if it has one, else at the chosen one."""
    network = DesignCell(*(point[name] for name in DesignCell._fields))
    return by_adam(
        point,
        sizes,
        task=network.task,
        dt=network.dt,
        integrator=network.step,
        rate=point.get("rate") or rate_of(network),
        batch=sizes.batch,
        schedule="cosine",
        threads=1,
        **FIELDS[network.units],
    )
