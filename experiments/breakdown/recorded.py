r"""A recording played faster and faster, so that c'(t) g crosses 1 and 2 by itself.

read     x(c(k)), k = 0, 1, 2, ...: one step of a discrete cell for each, however much of the recording has passed
step     c(k + 1) - c(k) units of the field's own time
exact    the field solved over the same held samples: what differs is the step and nothing else
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

import ctrnn
import discretize
from experiments.breakdown import figures
from experiments.breakdown.maps import MAPS
from experiments.breakdown.networks import root_mean_square
from experiments.breakdown.rows import Row
from experiments.data.recording import Recording
from experiments.interruption import checkpoint
from experiments.reports.page import scientific, table
from experiments.reports.section import Picture, Section
from experiments.reports.svg import inline_svg

__all__ = ["Played", "accelerating", "field_for", "play", "recorded_section"]

UNITS, SEED = 8, 1
SLOWEST, FASTEST = 0.15, 6.0
SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 50.0)
FEWEST_STEPS, MOST_STEPS = 4, 48
SHOWN = ("Euler", "RungeKutta4", "ExponentialEuler", "BackwardEuler")
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
        rnn = discretize.DiscreteRNN(field, MAPS[name])
        with discretize.Monitor(rnn, warn="never") as monitor:
            try:
                states[name] = rnn(xs, ts=ts)[0][:, 0].numpy()
            except discretize.StepError:
                states[name] = np.full(exact.shape, np.nan)
        shares[name] = monitor.records[""].shares
    return Played(clock, g.numpy(), exact.numpy(), states, shares)


def recorded_section(recording: Recording, say: Callable[[str], None]) -> Section:
    """One run that accelerates, and one at each of several speeds."""
    run = play(recording, accelerating(len(recording.xs)), SHOWN)
    unit = int(np.argmax(np.nanmean(np.square(np.clip(np.nan_to_num(run.states["Euler"], nan=9), -9, 9) - run.exact), 0)))
    rows: list[Row] = []
    for name, states in run.states.items():
        off = [root_mean_square(torch.from_numpy(row)) for row in states - run.exact]
        rows += [
            Row("recording, accelerating", "gated, softplus", name, float(np.median(g)), "error of the states", float(e))
            for g, e in zip(run.g, off, strict=True)
        ]
    speeds = [speed for speed in SPEEDS if FEWEST_STEPS * speed <= len(recording.xs) - 1]
    constant = {speed: play(recording, _steady(recording, speed), LISTED) for speed in speeds}
    say(f"{recording.name} played faster: share of units and steps outside 0 <= c'g <= 1, and r.m.s. errors")
    say(f"  {'speed':>6}{'overshoot':>11}{'diverge':>9}" + "".join(f"{name[:16]:>18}" for name in LISTED))
    errors: dict[tuple[str, float], float] = {}
    for speed, played in constant.items():
        share = _shares(played.g)
        for name, states in played.states.items():
            errors[name, speed] = root_mean_square(torch.from_numpy(states - played.exact))
            rows.append(Row("recording, steady", "gated, softplus", name, speed, "error over the run", errors[name, speed]))
        say(f"  {speed:>6g}{share[1]:>11.1%}{share[2]:>9.1%}" + "".join(f"{_plain(errors[name, speed]):>18}" for name in LISTED))
    lines = [
        [told, *(f"{_shares(constant[speed].g)[k]:.0%}" for speed in speeds)]
        for k, told in ((1, "1 &lt; <i>c</i>′<i>g</i> ≤ 2"), (2, "<i>c</i>′<i>g</i> &gt; 2"))
    ]
    lines += [[name, *(_cell(errors[name, speed]) for speed in speeds)] for name in LISTED]
    failures = []
    counted = run.shares["Euler"]
    fast = speeds[-1]
    for name in ("ExponentialEuler", "BackwardEuler", "FrozenBackwardEuler"):
        if not errors[name, fast] < 1:
            failures.append(f"{name} is off by {errors[name, fast]:.2g} on a clock {fast:g} times as fast.")
    crossing = [int(np.argmax(np.median(run.g, 1) > mark)) for mark in (1, 2)]
    return Section(
        key="recording",
        title="A recording played faster and faster",
        lead=f"{recording.name[0].upper() + recording.name[1:]}, read once a step on a clock that speeds up from {SLOWEST:g} "
        f"to {FASTEST:g} samples a step. Nothing is set to cross a limit: <i>c</i>′<i>g</i> does so by itself.",
        body="<p>The rates are softplus(...) of the input, about 1. Each step moves the field by as much of its own time as the "
        "clock moves. Exact is the field solved over the same held samples, so that what differs is the step alone.</p>\n"
        + table(
            "At steady speeds, in samples a step: the share of units and steps beyond 1 and beyond 2, along the exact "
            "states, and the root mean square error of the states by each map",
            ["Speed", *(f"{speed:g}" for speed in speeds)], lines, "wide",
        ),
        pictures=(
            Picture(
                inline_svg(
                    figures.played(np.arange(1, len(run.exact) + 1), run.g[:, unit], run.exact[:, unit],
                                   {name: states[:, unit] for name, states in run.states.items()}, unit),
                    "figure-played", "A recording played faster and faster",
                    "Above, c'g of one unit rising through the regions monotone, overshooting and divergent. Below, a row "
                    "for each of four maps: Euler swings about the exact state once c'g has passed 1 and leaves the panel "
                    "beyond 2; Runge-Kutta holds a little longer; exponential and backward Euler stay on it.",
                ),
                "<b>One unit while the clock speeds up.</b> Half of the units are past 1 from step "
                f"{crossing[0]} and past 2 from step {crossing[1]}.",
            ),
        ),
        after=f"<p>Along Euler’s own run a monitor (<code>discretize.Monitor</code>) counted {counted['monotone']:.1%} of its "
        f"steps as monotone, {counted['overshooting']:.1%} as overshooting and {counted['divergent']:.1%} as divergent.</p>\n",
        numbers={
            "rows": rows, "crossing": crossing,
            "errors": {
                f"{name}, speed {speed:g}": value if math.isfinite(value) else None
                for (name, speed), value in errors.items()
            },
        },
        verdict=f"On a clock {fast:g} times as fast Euler is {'lost' if not errors['Euler', fast] < 10 else 'off'}, and "
        f"exponential Euler off by {scientific(errors['ExponentialEuler', fast])}, backward Euler by "
        f"{scientific(errors['BackwardEuler', fast])}.",
        failures=tuple(failures),
    )  # fmt: skip


def _steady(recording: Recording, speed: float) -> np.ndarray:
    return speed * np.arange(min(MOST_STEPS, int((len(recording.xs) - 1) / speed)) + 1)


def _shares(g: np.ndarray) -> tuple[float, float, float]:
    return float(np.mean(g <= 1)), float(np.mean((g > 1) & (g <= 2))), float(np.mean(g > 2))


def _cell(error: float) -> str:
    return "lost" if not error < 10 else scientific(error)


def _plain(error: float) -> str:
    return "lost" if not error < 10 else f"{error:.2g}"
