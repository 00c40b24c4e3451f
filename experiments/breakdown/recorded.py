r"""A recording played faster and faster, so that c'(t) g crosses 1 and 2 by itself.

read     x(c(k)), k = 0, 1, 2, ...: one step of a discrete cell for each, however much of the recording has passed
step     c(k + 1) - c(k) units of the field's own time
exact    the field solved over the same held samples: what differs is the step and nothing else
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

import ctrnn
import discretize
from derivations.processes.interruption import checkpoint
from experiments.breakdown import figures
from experiments.breakdown.maps import MAPS
from experiments.breakdown.networks import LOST, error_in_words, root_mean_square
from experiments.breakdown.one_unit import GRID, bars_of_maps, limit_failures
from experiments.breakdown.rows import frame
from experiments.data.recording import Recording
from experiments.reports.report import Section

__all__ = ["FASTEST", "SLOWEST", "Played", "accelerating", "crossing", "excerpt_section", "field_for", "play", "recorded_section"]

UNITS, SEED = 8, 1
SLOWEST, FASTEST = 0.15, 6.0
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 50.0)
FEWEST_STEPS, MOST_STEPS = 4, 48
FIELD = "gated, softplus"
SHOWN = ("Euler", "RungeKutta4", "ExponentialEuler", "BackwardEuler")
EXCERPT = 300  # samples
BOUNDED = ("ExponentialEuler", "BackwardEuler", "FrozenBackwardEuler")
LISTED = ("Euler", "RungeKutta4", "ExponentialEuler", "ETDRK4", "BackwardEuler", "Trapezoid", "FrozenBackwardEuler")


def field_for(channels: int) -> ctrnn.VectorField:
    """A gated field with softplus rates, about 1 for a quiet input."""
    generator = torch.Generator().manual_seed(SEED)
    field = ctrnn.gated(channels, UNITS, rate="softplus", dtype=torch.float64, generator=generator)
    with torch.no_grad():
        field.get_parameter("rate.bias").fill_(math.log(math.e - 1))  # softplus of it is 1
    return field


def accelerating(samples: int) -> np.ndarray:
    """c(k): what the clock shows at each step, from the slowest speed to the fastest by a constant factor a step."""
    rate = math.log(FASTEST / SLOWEST)
    steps = max(8, int((samples - 1) * rate / (FASTEST - SLOWEST)))
    k = np.arange(steps + 1)
    return (samples - 1) * np.expm1(rate * k / steps) / math.expm1(rate)


@dataclass(frozen=True)
class Played:
    """States after each step, (steps, units), exact and by map; c'g along the exact ones; and what a monitor counted."""

    clock: np.ndarray
    g: np.ndarray
    exact: np.ndarray
    states: dict[str, np.ndarray]
    shares: dict[str, dict[str, float]]


@torch.no_grad()
def play(recording: Recording, clock: np.ndarray, maps: tuple[str, ...]) -> Played:
    """The recording on a clock, by maps and exactly."""
    field = field_for(len(recording.channels))
    path = ctrnn.LinearPath(torch.from_numpy(recording.xs)[:, None])
    ts = torch.from_numpy(clock)
    xs: Tensor = path(ts[:-1])
    exact = discretize.ContinuousRNN(field, method="dopri8", rtol=1e-7, atol=1e-7)(xs, ts=ts)[0][:, 0]
    before = torch.cat([field.initial_state(1), exact[:-1]])
    g = ts.diff()[:, None] * field.leak(field.project(xs[:, 0]), before)
    states, shares = {}, {}
    for name in maps:
        checkpoint()
        rnn = discretize.DiscreteRNN(field, MAPS[name], allow_overshoot=True)
        with discretize.Monitor(rnn, warn="never") as monitor:
            try:
                states[name] = rnn(xs, ts=ts)[0][:, 0].numpy()
            except discretize.StepError:
                states[name] = np.full(exact.shape, np.nan)
        shares[name] = monitor.records[""].shares
    return Played(clock, g.numpy(), exact.numpy(), states, shares)


def crossing(run: Played) -> tuple[int, int]:
    """The first steps, counted from 1, at which half of the units are past c'g = 1, and past 2."""
    median = np.median(run.g, 1)
    return int(np.argmax(median > 1)) + 1, int(np.argmax(median > 2)) + 1


def _drawn(run: Played, unit: int) -> Figure:
    """One unit along a run, exact and by each map."""
    states = {name: states[:, unit] for name, states in run.states.items()}
    return figures.played(np.arange(1, len(run.exact) + 1), run.g[:, unit], run.exact[:, unit], states, unit)


def recorded_section(recording: Recording, say: Callable[[str], None]) -> Section:
    """One run that accelerates, and one at each of several speeds."""
    run = play(recording, accelerating(len(recording.xs)), SHOWN)
    unit = int(np.argmax(np.nanmean(np.square(np.clip(np.nan_to_num(run.states["Euler"], nan=9), -9, 9) - run.exact), 0)))
    speeds = [speed for speed in SPEEDS if FEWEST_STEPS * speed <= len(recording.xs) - 1]
    steady = {speed: play(recording, _steady(recording, speed), LISTED) for speed in speeds}
    errors = pd.DataFrame({speed: _errors(one) for speed, one in steady.items()})
    shares = pd.DataFrame({speed: _shares(one.g) for speed, one in steady.items()})
    say(f"  {recording.name}: share of units and steps outside 0 <= c'g <= 1, and r.m.s. errors")
    say(f"  {'speed':>6}{'overshoot':>11}{'diverge':>9}" + "".join(f"{name:>20}" for name in LISTED))
    for speed in speeds:
        cells = "".join(f"{error_in_words(errors[speed][name], '.2g'):>20}" for name in LISTED)
        say(f"  {speed:>6g}{shares[speed]['overshooting']:>11.1%}{shares[speed]['divergent']:>9.1%}{cells}")
    one, two = crossing(run)
    return Section.from_template(
        "breakdown/recorded.html.jinja",
        "recording",
        figures={"played": _drawn(run, unit)},
        numbers={
            "rows": pd.concat([*_accelerating_rows(run), *_steady_rows(errors)]),
            "crossing": [one, two],
            "errors": {
                f"{name}, speed {speed:g}": value if math.isfinite(value := errors[speed][name]) else None
                for speed in speeds
                for name in LISTED
            },
        },
        failures=[
            f"{name} is off by {errors[speeds[-1]][name]:.2g} on a clock {speeds[-1]:g} times as fast."
            for name in BOUNDED
            if not errors[speeds[-1]][name] < 1
        ],
        name=recording.name,
        slowest=SLOWEST,
        fastest=FASTEST,
        speeds=speeds,
        counted=run.shares["Euler"],
        fast=errors[speeds[-1]],
        lost=LOST,
        shares={region: [f"{share:.0%}" for share in shares.loc[region]] for region in ("overshooting", "divergent")},
        lines=[[name, *map(error_in_words, errors.loc[name])] for name in LISTED],
    )


@torch.no_grad()
def excerpt_section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Play a beginning of the recording faster and faster, and say which of two steps follow; it takes seconds."""
    excerpt = replace(recording, xs=recording.xs[:EXCERPT])
    run = play(excerpt, accelerating(len(excerpt.xs)), ("Euler", "ExponentialEuler"))
    off, (one, two) = _errors(run), crossing(run)
    say(f"  from {SLOWEST:g} to {FASTEST:g} samples a step; half of the units pass c'g = 1 at step {one}, 2 at {two}")
    for name, error in off.items():
        say(f"  {name:<18} r.m.s. deviation {error:.3g}")
    exponential = off["ExponentialEuler"]
    lost = [] if exponential < 1 else [f"ExponentialEuler deviates by {exponential:.2g} on the recording played faster."]
    return Section.from_template(
        "breakdown/excerpt.html.jinja",
        "breakdown",
        figures={
            "faster": _drawn(run, int(np.argmax(np.std(run.exact, 0)))),
            "regions": figures.region_bars(bars_of_maps(GRID[GRID <= 50]), "g dt"),
        },
        numbers={
            "rms_deviation": {name: error if math.isfinite(error) else None for name, error in off.items()},
            "crossing": [one, two],
        },
        failures=[*lost, *limit_failures()],
        samples=len(excerpt.xs),
        slowest=SLOWEST,
        fastest=FASTEST,
        off=off,
    )


def _errors(run: Played) -> dict[str, float]:
    return {name: root_mean_square(states - run.exact) for name, states in run.states.items()}


def _accelerating_rows(run: Played) -> Iterator[pd.DataFrame]:
    for name, states in run.states.items():
        off = [root_mean_square(row) for row in states - run.exact]
        yield frame("recording, accelerating", FIELD, name, np.median(run.g, 1), "error of the states", off)


def _steady_rows(errors: pd.DataFrame) -> Iterator[pd.DataFrame]:
    for speed, column in errors.items():
        yield frame("recording, steady", FIELD, column.index, speed, "error over the run", column.to_numpy())


def _steady(recording: Recording, speed: float) -> np.ndarray:
    return speed * np.arange(min(MOST_STEPS, int((len(recording.xs) - 1) / speed)) + 1)


def _shares(g: np.ndarray) -> dict[str, float]:
    return {"overshooting": float(np.mean((g > 1) & (g <= 2))), "divergent": float(np.mean(g > 2))}
