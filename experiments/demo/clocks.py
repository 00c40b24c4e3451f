r"""The theorem: on the clock c, with the field times c'(t), the state at the time when the clock shows s is h(s).

dh/dt = f(x(t), h)                      solved once: h
dH/dt = c'(t) f(x(c(t)), H)             solved on each clock: H(t) = h(c(t))
dG/dt = f(x(c(t)), G)                   the field left as it is: G is something else
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

import ctrnn
import discretize
from experiments.data.recording import Recording, load
from experiments.demo.cell import SEED, TOLERANCE, UNITS, field_for, samples
from experiments.files import write_atomically
from experiments.reports import plots
from experiments.reports.page import scientific, table
from experiments.reports.section import Picture, Section
from experiments.reports.svg import inline_svg, standalone_svg

__all__ = ["ALLOWED", "Clock", "ClockRun", "allowed_deviation", "clocks_for", "run_clock", "section", "unwarped", "write_figure"]

ALLOWED = 10  # tolerances
METHOD = "dopri8"
MAX_SPEED = 3.0


@dataclass(frozen=True)
class Clock:
    """A clock with its name and what it does, in HTML."""

    name: str
    what: str
    warp: ctrnn.Warp


@dataclass(frozen=True)
class ClockRun:
    r"""A recording played on a clock.

    Shape:   ts (n,): when the clock shows sample 0, 1, ..., n - 1; with_speed, without (n, units): the states then;
             deviation_with, deviation_without (n,): from the unwarped states, the largest over units.
    """

    clock: Clock
    ts: np.ndarray
    with_speed: np.ndarray
    without: np.ndarray
    deviation_with: np.ndarray
    deviation_without: np.ndarray
    evaluations: int
    seconds: float

    @property
    def largest(self) -> float:
        return float(self.deviation_with.max())

    @property
    def largest_without(self) -> float:
        return float(self.deviation_without.max())


def allowed_deviation() -> float:
    return ALLOWED * TOLERANCE


def clocks_for(length: int) -> list[Clock]:
    """Four clocks for a recording of `length` samples."""
    generator = torch.Generator().manual_seed(SEED)
    lasts = torch.randint(1, 6, (length - 1,), generator=generator).double()
    ts = torch.cat([torch.zeros(1, dtype=torch.float64), lasts.cumsum(0)])
    smooth = ctrnn.SmoothWarp.random(length - 1.0, MAX_SPEED, generator=generator)
    speeds = smooth.speed(torch.linspace(0, length - 1.0, 2001, dtype=torch.float64))
    return [
        Clock("slowed down", "<i>c</i>(<i>t</i>) = <i>t</i>/4", ctrnn.AffineWarp(0.25)),
        Clock("sped up", "<i>c</i>(<i>t</i>) = 3<i>t</i>", ctrnn.AffineWarp(3.0)),
        Clock(
            "variable repeats", "a sample lasts 1 to 5 units, at random", ctrnn.PiecewiseWarp(ts, torch.arange(length).double())
        ),
        Clock("smooth random", f"speeds from {float(speeds.min()):.2f} to {float(speeds.max()):.2f}", smooth),
    ]


@torch.no_grad()
def unwarped(recording: Recording) -> np.ndarray:
    """h at every sample, (n, units)."""
    path = ctrnn.LinearPath(samples(recording))
    return _solve(path, path.knots).hs[:, 0].numpy()


@torch.no_grad()
def run_clock(recording: Recording, clock: Clock, h: np.ndarray) -> ClockRun:
    """The recording on the clock, with c' and without, against the unwarped states h."""
    start = perf_counter()
    straight = ctrnn.LinearPath(samples(recording))
    path, ts = ctrnn.WarpedPath(straight, clock.warp), clock.warp.inverse(straight.knots)
    solved = _solve(path, ts, clock.warp.speed)
    # Two digits are enough to see that this is another solution.
    contrast = discretize.integrate(field_for(len(recording.channels)), path, _rest(), ts, method="rk4", max_step=1.0)
    states, without = solved.hs[:, 0].numpy(), contrast.hs[:, 0].numpy()
    return ClockRun(
        clock, ts.numpy(), states, without, np.abs(states - h).max(1), np.abs(without - h).max(1),
        solved.stats["nfe"], perf_counter() - start,
    )  # fmt: skip


def _solve(path: ctrnn.Path, ts: Tensor, speed: ctrnn.Path | None = None) -> discretize.Trajectory:
    field = field_for(path(path.knots[0]).shape[-1])
    return discretize.integrate(
        field, path, _rest(), ts, method=METHOD, rtol=TOLERANCE, atol=TOLERANCE, speed=speed, progress=True
    )  # fmt: skip


def _rest() -> Tensor:
    return torch.zeros(1, UNITS, dtype=torch.float64)


def section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Run all clocks and say how far each is off."""
    limit = allowed_deviation()
    say(f"The theorem on four clocks: largest deviation from h(c(t)), {len(recording.xs)} times, {UNITS} units")
    say(f"  {'clock':<18}{'times c′':>12}{'without c′':>14}")
    h = unwarped(recording)
    runs = []
    for clock in clocks_for(len(recording.xs)):
        run = run_clock(recording, clock, h)
        runs.append(run)
        say(f"  {clock.name:<18}{run.largest:>12.1e}{run.largest_without:>14.2g}{'' if run.largest <= limit else '  FAILED'}")
    say(f"  allowed: {ALLOWED} tolerances, {limit:.0e}")
    say("")
    failures = [
        f"On the clock {run.clock.name!r} the states deviate by {run.largest:.1e}, more than {ALLOWED} tolerances ({limit:.0e})."
        for run in runs
        if not run.largest <= limit
    ]
    worst, gross = max(run.largest for run in runs), min(run.largest_without for run in runs)
    return Section(
        key="clocks",
        title="The theorem: another clock, the same states",
        lead="Play the recording on another clock <i>c</i>, multiply the field by the clock’s speed <i>c</i>′, and every "
        "unit passes "
        "through the same states, at the times when the clock shows the same sample.",
        body=_body(runs, limit),
        pictures=_pictures(recording, runs, h, limit),
        numbers=_numbers(runs, limit),
        verdict=f"On four clocks all states land within {scientific(worst)} of the unwarped ones; "
        f"without <i>c</i>′ they miss by {scientific(gross)} or more.",
        failures=tuple(failures),
    )


def write_figure(path: Path) -> None:
    """The README's figure: the EEG as recorded and on the clock of variable repeats."""
    recording = load(None, None)
    h = unwarped(recording)
    clock = clocks_for(len(h))[2]
    run = run_clock(recording, clock, h)
    unit = int(np.argmax(np.square(run.without - h).mean(0)))
    write_atomically(
        path, standalone_svg(plots.warp(_trace(run, recording, unit), recording.xs[:, 0], h[:, unit], slice(0, 121)))
    )


def _trace(run: ClockRun, recording: Recording, unit: int) -> plots.ClockTrace:
    return plots.ClockTrace(
        run.clock.name, run.ts, recording.xs[:, 0], run.with_speed[:, unit], run.without[:, unit],
        run.deviation_with, run.deviation_without,
    )  # fmt: skip


def _body(runs: list[ClockRun], limit: float) -> str:
    rows = [
        [
            f"{run.clock.name}<small>{run.clock.what}</small>",
            f"{run.ts[-1]:,.0f}",
            f'{scientific(run.largest)} <span class="{"ok" if run.largest <= limit else "no"}">'
            f"{'✓' if run.largest <= limit else '✗'}</span>",
            scientific(run.largest_without),
        ]
        for run in runs
    ]
    drawn = table(
        f"Largest deviation from the unwarped states over all {len(runs[0].ts)} samples and {UNITS} units; a state lies in "
        "(−1, 1)",
        ["Clock", "Takes, units", "Times <i>c</i>′", "Without <i>c</i>′"],
        rows,
    )
    return (
        "<p>Straight lines between samples make the recording a continuous input <i>x</i>(<i>t</i>). Unwarped, the states obey "
        "<i>dh/dt</i> = <i>f</i>(<i>x</i>(<i>t</i>), <i>h</i>). On the clock <i>c</i> they obey <i>dH/dt</i> = "
        "<i>c</i>′(<i>t</i>) "
        "<i>f</i>(<i>x</i>(<i>c</i>(<i>t</i>)), <i>H</i>), and the theorem says <i>H</i>(<i>t</i>) = "
        "<i>h</i>(<i>c</i>(<i>t</i>)). "
        "The last column leaves <i>c</i>′ out: the input is warped and the field is not.</p>\n"
        f"{drawn}"
        f"<p>The solver ({METHOD}) is asked for a tolerance of {scientific(TOLERANCE)} (1 + |<i>h</i>|) in every step and unit. "
        "Both solutions carry such errors, which add up while the units forget them, so a deviation of at "
        f"most {ALLOWED} tolerances, {scientific(limit)}, counts as equal at the solver’s tolerance; anything more fails.</p>"
    )


def _pictures(recording: Recording, runs: list[ClockRun], h: np.ndarray, limit: float) -> tuple[Picture, ...]:
    last = len(recording.xs) - 1
    window = 0.3 * last
    # The same samples in every row, early enough to be seen in the slowest one.
    marked = (round(0.02 * last), max(round(0.05 * last), round(0.02 * last) + 2))
    unit = int(np.argmax(sum(np.square(run.without - h).mean(0) for run in runs)))
    shown = slice(0, min(121, last + 1))
    traces = [_trace(run, recording, unit) for run in runs]
    names = ", ".join(run.clock.name for run in runs)
    return (
        Picture(
            inline_svg(
                plots.clocks(traces, recording.xs[:, 0], window, marked),
                "figure-clocks",
                "One channel on five clocks",
                f"Five rows over the same {window:.0f} units of time: the channel as recorded, then {names}. The same "
                "samples are "
                "marked in each row and take more or less time.",
            ),
            f"<b>One channel on five clocks</b>, the first {window:.0f} units of time in each. The marked stretch is the same "
            f"samples, {marked[0]} to {marked[1]}, in every row.",
        ),
        Picture(
            inline_svg(
                plots.landing(traces, h[:, unit], shown, unit),
                "figure-landing",
                "The states land on each other",
                f"Four rows: {names}. In each, dots for the warped solution lie on the line of the unwarped one; the dashed "
                "line, "
                "without the clock's speed, does not.",
            ),
            f"<b>The states land on each other.</b> Unit {unit + 1}, read when each clock shows samples 0 to {shown.stop - 1}: "
            "the dots lie on the unwarped line; without <i>c</i>′ the unit goes elsewhere.",
        ),
        Picture(
            inline_svg(
                plots.deviations(traces, limit),
                "figure-deviations",
                "Deviation along the recording",
                "Logarithmic scale. Times the clock's speed, the deviations stay at "
                f"{max(run.largest for run in runs):.0e} or below; without it they are around 0.1 to 1.",
            ),
            "<b>Deviation along the recording</b>, the largest over units and a few neighbouring samples, logarithmic: "
            "errors are "
            "forgotten, so they do not pile up.",
        ),
    )


def _numbers(runs: list[ClockRun], limit: float) -> dict[str, object]:
    return {
        "tolerance": TOLERANCE,
        "allowed": limit,
        "method": METHOD,
        "clocks": [
            {
                "name": run.clock.name,
                "clock": repr(run.clock.warp),
                "units_of_time": float(run.ts[-1]),
                "largest_deviation": run.largest,
                "largest_deviation_without_speed": run.largest_without,
                "field_evaluations": run.evaluations,
                "seconds": run.seconds,
            }
            for run in runs
        ],
    }
