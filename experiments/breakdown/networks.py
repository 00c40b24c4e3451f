r"""Networks of several units on a recording: the same weights stepped by every map, against the exact solution.

Each sample is held for dt units of the field's own time: dt = 1 is the familiar cell, dt = 50 a clock fifty times faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

import ctrnn
import discretize
from ctrnn.fields.parts import WeightSettings
from derivations.processes.interruption import checkpoint
from discretize import Step
from experiments.breakdown import figures
from experiments.breakdown.maps import MAPS
from experiments.breakdown.rows import frame
from experiments.data.recording import Recording
from experiments.reports.report import Section
from experiments.reports.templates import scientific

__all__ = [
    "FIELDS",
    "LOST",
    "SAMPLES",
    "error_in_words",
    "exact_states",
    "fields_for",
    "measure",
    "networks_section",
    "root_mean_square",
    "stepped",
]

UNITS, SEED, SAMPLES, GAIN = 8, 0, 12, 0.8
DTS = (0.1, 0.3, 1.0, 1.5, 2.5, 5.0, 50.0)
GROWTH_DTS = (0.1, 0.3, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
LOST = 10.0  # root mean square error from which a run counts as diverged; states are of size 1
QUANTITIES = {"local": "error of one step", "drift": "error over the run", "largest": "largest |h|"}
SAID = ("Euler", "RungeKutta4", "ExponentialEuler", "BackwardEuler")
TABLED = (0.3, 1.0, 1.5, 5.0, 50.0)  # dt
BOUNDED = ("ExponentialEuler", "ExponentialRosenbrock", "BackwardEuler", "FrozenBackwardEuler")
FIELDS = ("plain", "plain, power decay", "gated, softplus", "gru", "lstm")


def fields_for(channels: int) -> dict[str, ctrnn.VectorField]:
    """Make the fields, with random weights from a fixed seed; the recurrence of the first two has the spectral radius 0.8."""
    generator = torch.Generator().manual_seed(SEED)
    settings = WeightSettings(dtype=torch.float64, generator=generator)
    candidate = ctrnn.TanhCandidate(channels, UNITS, **settings)
    with torch.no_grad():
        candidate.weight_h.mul_(GAIN / torch.linalg.eigvals(candidate.weight_h).abs().max())
    return {
        "plain": ctrnn.Relaxation(candidate, ctrnn.FixedRate(1.0), ctrnn.LinearDecay()),
        "plain, power decay": ctrnn.Relaxation(candidate, ctrnn.FixedRate(1.0), ctrnn.PowerDecay(2.0)),
        "gated, softplus": ctrnn.gated(channels, UNITS, rate="softplus", **settings),
        "gru": ctrnn.gru(channels, UNITS, **settings),
        "lstm": ctrnn.lstm(channels, UNITS, **settings),
    }


def exact_states(field: ctrnn.VectorField, xs: Tensor, dt: float) -> Tensor:
    """Solve for the states before and after each sample, (time + 1, batch, state), to a tolerance of 1e-8."""
    path = ctrnn.HeldPath(xs, dt * torch.arange(len(xs) + 1, dtype=torch.float64))
    h0 = field.initial_state(xs.shape[1])
    return discretize.integrate(field, path, h0, path.knots, method="dopri8", rtol=1e-8, atol=1e-8).hs


def stepped(field: ctrnn.VectorField, step: Step, xs: Tensor, dt: float, substeps: int = 1) -> tuple[Tensor, float]:
    """Compute the same by a step map, and its cost in evaluations a sample; states are nan from where a step cannot be taken."""
    h, cost, hs = field.initial_state(xs.shape[1]), 0, [field.initial_state(xs.shape[1])]
    for projected in field.project(xs).unbind(0):
        try:
            for _ in range(substeps):
                h, work = step.counted(field, projected, h, dt / substeps)
                cost += work
        except discretize.StepError:
            break
        hs.append(h)
        if not bool(torch.isfinite(h).all()):
            break
    read = len(hs) - 1
    hs += [torch.full_like(h, math.nan)] * (len(xs) - read)
    return torch.stack(hs), cost / max(1, read)


def one_step(field: ctrnn.VectorField, step: Step, xs: Tensor, exact: Tensor, dt: float) -> Tensor:
    """Take one step from every exact state, all samples at once: (time, batch, state)."""
    try:
        return step.advance(field, field.project(xs), exact[:-1], dt)
    except discretize.StepError:
        return torch.full_like(exact[1:], math.nan)


def root_mean_square(off: Tensor | np.ndarray) -> float:
    """Compute the root mean square; infinite where something is not a number."""
    value = float(torch.as_tensor(off).square().mean().sqrt())
    return value if math.isfinite(value) else math.inf


def error_in_words(error: float, form: str = "") -> str:
    """Write an error as its number, unless the run is lost."""
    return "lost" if not error < LOST else format(error, form) if form else scientific(error)


@torch.no_grad()
def measure(fields: Mapping[str, ctrnn.VectorField], xs: Tensor, dts: Sequence[float] = DTS) -> pd.DataFrame:
    """Run every map on every field at every dt.

    Columns: field, step, dt; leak, the median of L dt along the exact run; local and drift, the root mean square errors after
    one step and over the run; largest |h|; lost.
    """
    runs = []
    for name, field in fields.items():
        for dt in dts:
            checkpoint()
            exact = exact_states(field, xs, dt)
            leak = float((dt * field.leak(field.project(xs), exact[1:])).median())
            for label, step in MAPS.items():
                local = root_mean_square(one_step(field, step, xs, exact, dt) - exact[1:])
                states, _ = stepped(field, step, xs, dt)
                runs.append((name, label, dt, leak, local, root_mean_square(states - exact), float(states.abs().max())))
    table = pd.DataFrame(runs, columns=["field", "step", "dt", "leak", "local", "drift", "largest"])
    return table.assign(lost=~(table.drift < LOST))


@torch.no_grad()
def growth_curves(fields: Mapping[str, ctrnn.VectorField], xs: Tensor) -> pd.DataFrame:
    """Compute the largest spectral radius and norm along the exact run at dt = 1, for steps of other lengths from its states."""
    curves = []
    for name, field in fields.items():
        exact = exact_states(field, xs, 1.0)[:-1]
        for label in ("Euler", "ExponentialEuler"):
            for dt in GROWTH_DTS:
                growth = discretize.growth(MAPS[label], field, xs, exact, dt)
                curves.append((name, label, dt, float(growth.spectral_radius.max()), float(growth.norm.max())))
    return pd.DataFrame(curves, columns=["field", "step", "dt", "radius", "norm"])


def networks_section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Measure, and say which maps survive which speeds."""
    xs = torch.from_numpy(recording.xs[:SAMPLES])[:, None]
    fields = fields_for(len(recording.channels))
    runs, curves = measure(fields, xs), growth_curves(fields, xs)
    by = runs.set_index(["field", "step", "dt"])
    say(f"  r.m.s. error over the run, networks of {UNITS} units on {SAMPLES} samples")
    for field in FIELDS:
        say(f"  {field}")
        say(f"    {'dt':<22}" + "".join(f"{dt:>9g}" for dt in DTS))
        for label in SAID:
            say(f"    {label:<22}" + "".join(f"{error_in_words(by.drift[field, label, dt], '.2g'):>9}" for dt in DTS))
    linear = [field for field in FIELDS if "power" not in field]
    kept = [label for label in MAPS if all(by.drift[field, label, 50.0] < 1 for field in linear)]
    return Section.from_template(
        "breakdown/networks.html.jinja",
        "networks",
        figures={
            **{_key(field): _figure(runs[runs.field == field]) for field in FIELDS},
            "growth": figures.growths(curves[curves.field.isin(("plain", "gru", "lstm"))]),
        },
        numbers={"rows": pd.concat([_run_rows(runs), _growth_rows(curves)]), "bounded_at_50": kept},
        failures=list(_failures(by, curves)),
        rows=[
            [label, *(error_in_words(by.drift["plain", label, dt]) for dt in TABLED), _largest(by.largest["plain", label, 50.0])]
            for label in MAPS
        ],
        shown=[
            (_key(field), field, by.leak[field, "Euler", 1.0], next((dt for dt in DTS if by.lost[field, "Euler", dt]), None))
            for field in FIELDS
        ],
        units=UNITS,
        samples=SAMPLES,
        name=recording.name,
        dts=TABLED,
        lost=LOST,
        maps=len(MAPS),
        linear=len(linear),
    )


def _failures(by: pd.DataFrame, curves: pd.DataFrame) -> Iterator[str]:
    for label in BOUNDED:
        if by.drift["plain", label, 50.0] > 1:
            yield f"{label} is off by {by.drift['plain', label, 50.0]:.2g} on the plain field at dt = 50."
    if not by.lost["plain", "Euler", 50.0]:
        yield "Euler has not diverged on the plain field at dt = 50."
    above = curves[curves.radius > curves.norm * (1 + 1e-9)]
    if len(above):
        yield f"A spectral radius is above the norm that bounds it: {tuple(above.iloc[0][['field', 'step', 'dt']])}."


def _run_rows(runs: pd.DataFrame) -> pd.DataFrame:
    """The three quantities of a run one after the other."""
    found = runs.melt(["field", "step", "dt", "lost"], list(QUANTITIES), ignore_index=False).sort_index(kind="stable")
    region = found.lost.map({True: "divergent", False: ""})
    return frame("networks", found.field, found.step, found.dt, found.variable.map(QUANTITIES), found.value, region)


def _growth_rows(curves: pd.DataFrame) -> pd.DataFrame:
    """For each field and map all spectral radii, then all norms."""
    return pd.concat(
        frame("several units", found.field, found.step, found.dt, f"largest {words}", found[column])
        for _, found in curves.groupby(["field", "step"], sort=False)
        for column, words in (("radius", "spectral radius"), ("norm", "norm"))
    )


def _key(field: str) -> str:
    return field.replace(", ", "-").replace(" ", "-")


def _largest(value: float) -> str:
    return "no number" if not math.isfinite(value) else scientific(value)


def _figure(runs: pd.DataFrame) -> Figure:
    values = {label: runs.drift[runs.step == label].tolist() for label in MAPS}
    return figures.by_family(DTS, values, "dt, in units of the field's own time", "r.m.s. error over the run", (1e-7, 10))
