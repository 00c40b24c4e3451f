r"""A rotation under every map, and a network that was trained by Euler's step to keep a rhythm.

z = dt i w      dh/dt = i w h keeps its size; a step multiplies it by R(z), a growth of log|R(z)|/dt in a unit of time
                Euler's is log(1 + (dt w)^2)/(2 dt), about dt w^2/2; the trapezoid's is 0
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch

import ctrnn
import discretize
from derivations.processes.interruption import checkpoint
from discretize import SequenceModel, Step, StepError
from experiments.breakdown import figures
from experiments.breakdown.maps import MAPS
from experiments.breakdown.rows import frame
from experiments.data.recording import Recording
from experiments.reports.report import Section
from experiments.studies.claims.time_steps.measures import settled

__all__ = ["growth", "rhythm_section"]

PERIOD = 8.0  # time constants
DTS = (0.1, 0.2, 0.5, 1.0)
TRAINED = Path(__file__).with_name(
    "rhythm.safetensors"
)  # of `ctrnn study run ctrnn-steps-rates`, its run rhythm-tanh-euler-0.5-0.001-100
TRAINED_AT = 0.5
HELD = 80.0, 50.0  # time constants before it is looked at, and for how long
LARGE = 1e3


@torch.no_grad()
def growth(step: Step, dt: torch.Tensor, w: float = 2 * math.pi / PERIOD) -> torch.Tensor:
    """Compute how fast a rotation at w grows under a step, per unit of time, of units whose leak is 1: (n,) -> (n,)."""
    return step.stability(1j * w * dt, dt).abs().log() / dt


@torch.no_grad()
def rhythm_section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Compute what steps make of a rotation, and of a trained rhythm."""
    grid, marked = torch.logspace(-2, 0.5, 41, dtype=torch.float64), torch.tensor(DTS, dtype=torch.float64)
    grown = {name: growth(step, grid) for name, step in MAPS.items()}
    at = {name: growth(step, marked).tolist() for name, step in MAPS.items()}
    held, exact = _held(), _settled(None)
    say(f"  growth per time constant of a rotation of {PERIOD:g} tau, at dt/tau {', '.join(f'{dt:g}' for dt in DTS)}")
    for name, found in at.items():
        say(f"  {name:<22}" + "".join(f"{value:>10.4f}" for value in found))
    say(
        f"  a network trained by Euler at dt/tau {TRAINED_AT:g}: amplitude {held['Euler'][0]:.2f}, in the equation {exact[0]:.2f}"
    )
    return Section.from_template(
        "breakdown/rhythm.html.jinja",
        "rhythm",
        figures={
            "growth-of-rotation": figures.by_family(
                grid.tolist(),
                {name: values.abs().clamp(min=1e-12).tolist() for name, values in grown.items()},
                "dt, in time constants",
                "size of the growth rate of a rotation",
                (1e-7, 3),
            )
        },
        numbers={
            "rows": pd.concat(
                [
                    *(
                        frame("rhythm", "i w h", name, grid.numpy(), "growth per unit of time", values.numpy())
                        for name, values in grown.items()
                    ),
                    *(
                        frame("rhythm", "trained", name, [TRAINED_AT], quantity, value)
                        for name, found in {**held, "exact": exact}.items()
                        for quantity, value in zip(("amplitude", "period"), found, strict=True)
                    ),
                ]
            )
        },
        failures=list(_failures(grown, grid, held["Euler"][0], exact[0])),
        rows=[[name, *(f"{value:+.4f}" for value in found), *_in_words(*held[name])] for name, found in at.items()],
        dts=DTS,
        period=PERIOD,
        trained_at=TRAINED_AT,
        exact=_in_words(*exact),
    )


def _held() -> dict[str, tuple[float, float]]:
    rows = {}
    for name, step in MAPS.items():
        checkpoint()
        rows[name] = _settled(step)
    return rows


def _settled(step: Step | None) -> tuple[float, float]:
    """Return amplitude and period of the trained network's output, its shortest period held for so long."""
    model = ctrnn.load(TRAINED)
    assert isinstance(model, SequenceModel)
    model = model.double().requires_grad_(False)
    x = torch.zeros(1, dtype=torch.float64)
    begun = round(40 / TRAINED_AT)
    start = discretize.DiscreteRNN(model.field, dt=TRAINED_AT)(x.expand(begun, 1, -1))[1][0]
    try:
        found = settled(model.field, model.read_out, x, start, step, TRAINED_AT, HELD)
    except StepError:
        return math.inf, math.nan
    return (found.amplitude if found.amplitude < LARGE else math.inf), found.period


def _in_words(amplitude: float, period: float) -> tuple[str, str]:
    return "lost" if not math.isfinite(amplitude) else f"{amplitude:.2f}", "–" if math.isnan(period) else f"{period:.2f}"


def _failures(grown: dict[str, torch.Tensor], grid: torch.Tensor, stepped: float, exact: float) -> list[str]:
    y, failures = 2 * math.pi / PERIOD * grid, []
    known = {"Euler": 1 + y**2, "Heun": 1 + y**4 / 4, "RungeKutta4": 1 - y**6 / 72 + y**8 / 576, "Trapezoid": torch.ones_like(y)}
    for name, square in known.items():
        apart = float((grown[name] - square.log() / (2 * grid)).abs().max())
        if apart > 1e-10:
            failures.append(f"{name} does not turn as result 19 says: {apart:.1e} apart.")
    if not exact < stepped / 2:
        failures.append(f"The trained rhythm has {exact:.2f} in the equation and {stepped:.2f} under its step.")
    return failures
