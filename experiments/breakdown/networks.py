r"""Networks of several units on a recording: the same weights stepped by every map, against the exact solution.

Each sample is held for dt units of the field's own time: dt = 1 is the familiar cell, dt = 50 a clock fifty times faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import ctrnn
import discretize
from ctrnn.fields.parts import WeightSettings
from discretize import Step
from experiments.breakdown import figures
from experiments.breakdown.maps import MAPS
from experiments.breakdown.rows import Row
from experiments.data.recording import Recording
from experiments.interruption import checkpoint
from experiments.reports.page import scientific, table
from experiments.reports.section import Picture, Section
from experiments.reports.svg import inline_svg

__all__ = ["FIELDS", "Run", "exact_states", "fields_for", "measure", "networks_section", "stepped"]

UNITS, SEED, SAMPLES, GAIN = 8, 0, 12, 0.8
DTS = (0.1, 0.3, 1.0, 1.5, 2.5, 5.0, 50.0)
GROWTH_DTS = (0.1, 0.3, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
LOST = 10.0  # root mean square error from which a run counts as diverged; states are of size 1
FIELDS = ("plain", "plain, power decay", "gated, softplus", "gru", "lstm")


def fields_for(channels: int) -> dict[str, ctrnn.VectorField]:
    """Random weights from a fixed seed; the recurrence of the first two has the spectral radius 0.8."""
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
    """The states before and after each sample, (time + 1, batch, state), to a tolerance of 1e-8."""
    path = ctrnn.HeldPath(xs, dt * torch.arange(len(xs) + 1, dtype=torch.float64))
    h0 = field.initial_state(xs.shape[1])
    return discretize.integrate(field, path, h0, path.knots, method="dopri8", rtol=1e-8, atol=1e-8).hs


def stepped(field: ctrnn.VectorField, step: Step, xs: Tensor, dt: float, substeps: int = 1) -> tuple[Tensor, float]:
    """The same by a step map, and its cost in evaluations a sample; states are nan from where a step cannot be taken."""
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
    """From every exact state one step, all samples at once: (time, batch, state)."""
    try:
        return step.advance(field, field.project(xs), exact[:-1], dt)
    except discretize.StepError:
        return torch.full_like(exact[1:], math.nan)


@dataclass(frozen=True)
class Run:
    """Root mean square errors of one map on one field with one dt, after one step and over the whole run."""

    field: str
    step: str
    dt: float
    leak: float  # median of L dt along the exact run
    local: float
    drift: float
    largest: float  # |h|

    @property
    def lost(self) -> bool:
        return not self.drift < LOST


def root_mean_square(off: Tensor) -> float:
    value = float(off.square().mean().sqrt())
    return value if math.isfinite(value) else math.inf


@torch.no_grad()
def measure(fields: dict[str, ctrnn.VectorField], xs: Tensor, dts: tuple[float, ...] = DTS) -> list[Run]:
    """Every map on every field at every dt."""
    runs = []
    for name, field in fields.items():
        for dt in dts:
            checkpoint()
            exact = exact_states(field, xs, dt)
            leak = float((dt * field.leak(field.project(xs), exact[1:])).median())
            for label, step in MAPS.items():
                local = root_mean_square(one_step(field, step, xs, exact, dt) - exact[1:])
                states, _ = stepped(field, step, xs, dt)
                runs.append(Run(name, label, dt, leak, local, root_mean_square(states - exact), float(states.abs().max())))
    return runs


@torch.no_grad()
def growth_curves(fields: dict[str, ctrnn.VectorField], xs: Tensor) -> dict[str, dict[str, tuple[list[float], list[float]]]]:
    """The largest spectral radius and norm along the exact run at dt = 1, for steps of other lengths from its states."""
    curves: dict[str, dict[str, tuple[list[float], list[float]]]] = {}
    for name, field in fields.items():
        exact = exact_states(field, xs, 1.0)[:-1]
        curves[name] = {}
        for label in ("Euler", "ExponentialEuler"):
            radii, norms = [], []
            for dt in GROWTH_DTS:
                found = discretize.growth(MAPS[label], field, xs, exact, dt)
                radii.append(float(found.spectral_radius.max()))
                norms.append(float(found.norm.max()))
            curves[name][label] = radii, norms
    return curves


def networks_section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Measure, and say which maps survive which speeds."""
    xs = torch.from_numpy(recording.xs[:SAMPLES])[:, None]
    fields = fields_for(len(recording.channels))
    runs = measure(fields, xs)
    curves = growth_curves(fields, xs)
    rows = [
        Row("networks", run.field, run.step, run.dt, quantity, value, "divergent" if run.lost else "")
        for run in runs
        for quantity, value in (("error of one step", run.local), ("error over the run", run.drift), ("largest |h|", run.largest))
    ]
    rows += [
        Row("several units", field, label, dt, quantity, value)
        for field, maps in curves.items()
        for label, (radii, norms) in maps.items()
        for quantity, values in (("largest spectral radius", radii), ("largest norm", norms))
        for dt, value in zip(GROWTH_DTS, values, strict=True)
    ]
    by = {(run.field, run.step, run.dt): run for run in runs}
    say(f"networks of {UNITS} units on {SAMPLES} samples: r.m.s. error over the run")
    for field in FIELDS:
        say(f"  {field}")
        say(f"    {'dt':<22}" + "".join(f"{dt:>9g}" for dt in DTS))
        for label in ("Euler", "RungeKutta4", "ExponentialEuler", "BackwardEuler"):
            say(f"    {label:<22}" + "".join(_number(by[field, label, dt]) for dt in DTS))
    bounded = [
        by["plain", label, 50.0]
        for label in ("ExponentialEuler", "ExponentialRosenbrock", "BackwardEuler", "FrozenBackwardEuler")
    ]
    failures = [f"{run.step} is off by {run.drift:.2g} on the plain field at dt = 50." for run in bounded if run.drift > 1]
    if not by["plain", "Euler", 50.0].lost:
        failures.append("Euler has not diverged on the plain field at dt = 50.")
    above = [
        (field, label, dt)
        for field, maps in curves.items()
        for label, (radii, norms) in maps.items()
        for dt, radius, norm in zip(GROWTH_DTS, radii, norms, strict=True)
        if radius > norm * (1 + 1e-9)
    ]
    failures += [f"A spectral radius is above the norm that bounds it: {above[0]}."] if above else []
    linear = [field for field in FIELDS if "power" not in field]
    kept = [label for label in MAPS if all(by[field, label, 50.0].drift < 1 for field in linear)]
    return Section(
        key="networks",
        title="Networks on a recording",
        lead=f"The same weights, {UNITS} units on {SAMPLES} samples of {recording.name}, stepped by every map and solved. Each "
        "sample is held for d<i>t</i> units of the field’s own time; in the familiar cell d<i>t</i> is 1.",
        body="<p>Where there is recurrence no map is exact, and the leak is not all that moves: an error is made by what the "
        "other units do within the step. Exponential and backward maps, frozen or not, stay where the equation keeps the "
        "states. For long steps backward Euler comes to rest where the equation does, and exponential Euler goes to the "
        "target that it saw from where it was, one turn of the recurrence behind. Splitting writes <i>g</i> <i>f</i> where a "
        "gate would write <i>G</i> <i>f</i>, and so misses the fixed point by more the longer the step; the trapezoid "
        "reflects what it cannot follow.</p>\n"
        + _table(by),
        pictures=(*(_picture(field, by) for field in FIELDS), _growth_picture(curves)),
        numbers={"rows": rows, "bounded_at_50": kept},
        verdict=f"On networks Euler is lost once <i>g</i> d<i>t</i> is past 2; at d<i>t</i> = 50, {len(kept)} of {len(MAPS)} "
        f"maps keep the states of all {len(linear)} fields with the decay <i>h</i>.",
        failures=tuple(failures),
    )  # fmt: skip


def _number(run: Run) -> str:
    return f"{'lost':>9}" if run.lost else f"{run.drift:>9.2g}"


def _table(by: dict[tuple[str, str, float], Run]) -> str:
    shown = (0.3, 1.0, 1.5, 5.0, 50.0)
    rows = []
    for label in MAPS:
        cells = []
        for dt in shown:
            run = by["plain", label, dt]
            cells.append("lost" if run.lost else scientific(run.drift))
        rows.append([label, *cells, _largest(by["plain", label, 50.0].largest)])
    return table(
        "The plain field: root mean square error over the run, and the largest state at d<i>t</i> = 50; “lost” is an error "
        f"above {LOST:g}, or a step that could not be taken",
        ["Step", *(f"d<i>t</i> = {dt:g}" for dt in shown), "Largest |<i>h</i>|"], rows, "wide",
    )  # fmt: skip


def _largest(value: float) -> str:
    return "no number" if not math.isfinite(value) else scientific(value)


def _picture(field: str, by: dict[tuple[str, str, float], Run]) -> Picture:
    values = {label: [by[field, label, dt].drift for dt in DTS] for label in MAPS}
    gone = next((dt for dt in DTS if by[field, "Euler", dt].lost), None)
    fate = f"Euler is lost from d<i>t</i> = {gone:g} on" if gone else "Euler is not lost, for this field’s leak is small"
    leak = by[field, "Euler", 1.0].leak
    return Picture(
        inline_svg(
            figures.by_family(DTS, values, "dt, in units of the field's own time", "r.m.s. error over the run", (1e-7, 10)),
            f"figure-{field.replace(', ', '-').replace(' ', '-')}", f"{field}: error over the run against dt",
            "Both axes logarithmic, a panel for each family of maps: errors rise with dt by the order of the map; "
            f"{gone or 'no'} is where Euler leaves the panel.",
        ),
        f"<b>{field}</b>: error over the run. At d<i>t</i> = 1 the median leak is {leak:.2f}; {fate}.",
    )  # fmt: skip


def _growth_picture(curves: dict[str, dict[str, tuple[list[float], list[float]]]]) -> Picture:
    shown = {name: curves[name] for name in ("plain", "gru", "lstm")}
    return Picture(
        inline_svg(
            figures.growths(GROWTH_DTS, shown), "figure-growth", "Growth of a small difference in one step",
            "For the plain field, the GRU and the LSTM, the largest spectral radius of the step map's Jacobian along the "
            "run, and its norm above it: Euler's passes 1 near dt = 2, exponential Euler's stays below or near 1.",
        ),
        "<b>Several units.</b> The spectral radius of the step’s Jacobian, largest over the run, and the norm that bounds "
        "it: what a small difference may grow by. Above the line at 1 the Euler map tears neighbouring states apart; the "
        "equation does not.",
    )  # fmt: skip
