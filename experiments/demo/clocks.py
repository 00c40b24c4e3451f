r"""The theorem on the recording: on the clock c, with the field times c'(t), the state when the clock shows s is h(s).

dh/dt = f(x(t), h)                      solved once: h
dH/dt = c'(t) f(x(c(t)), H)             solved on each clock: H(t) = h(c(t))
dG/dt = f(x(c(t)), G)                   the field left as it is: G is something else

The cell is one gated field, with the same weights in every section of the page. `python -m experiments.demo.clocks` draws the
README's figure anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from torch import Tensor

import ctrnn
import discretize
from ctrnn.storage.files import write_atomically
from experiments.data.recording import Recording, load
from experiments.reports.plots import BLUE, DASHES, GREEN, GRID, INK, MUTED, ORANGE, PAPER, PURPLE, decades, legend, panels, style
from experiments.reports.report import Section
from experiments.reports.svg import standalone_svg

__all__ = [
    "SEED",
    "SHARED",
    "TOLERANCE",
    "UNITS",
    "WarpedRun",
    "allowed_deviation",
    "clocks_for",
    "field_for",
    "run_clock",
    "samples",
    "section",
    "unwarped",
    "write_figure",
]

FIGURE = Path(__file__).resolve().parents[2] / "docs" / "figures" / "warp.svg"
UNITS = 16
SEED = 0
TOLERANCE = 1e-7  # rtol and atol of every solve
ALLOWED = 10  # tolerances
METHOD = "dopri8"
JUDGE = f"torchdiffeq:{METHOD}"  # a solver that nobody here wrote
MAX_SPEED = 3.0
REPEATS = (1, 5)  # units that a sample lasts on the clock of variable repeats
SHOWN = 121  # samples of a figure of states
WINDOW = 0.3  # of the recording, shown on every clock
MARKED = 0.02, 0.05  # of the recording: early enough to be seen on the slowest clock

BY_CLOCK = (BLUE, ORANGE, GREEN, PURPLE)
ENVELOPE = 80  # points that a line of hundreds is drawn by
SAMPLES = "what the clock shows, in samples"
SHARED = {"sharex": True, "sharey": True}  # axes of panels


@cache
def field_for(channels: int) -> ctrnn.VectorField:
    """Make a gated field with weights drawn from a fixed seed."""
    return ctrnn.gated(channels, UNITS, dtype=torch.float64, generator=torch.Generator().manual_seed(SEED))


def samples(recording: Recording) -> Tensor:
    """Return the recording as a tensor (time, 1, channels)."""
    return torch.from_numpy(recording.xs)[:, None]


@dataclass(frozen=True)
class NamedClock:
    """A clock with its name and what it does."""

    name: str
    what: str
    warp: ctrnn.Warp


@dataclass(frozen=True)
class WarpedRun:
    r"""A recording played on a clock.

    Shape:   ts (n,): when the clock shows sample 0, 1, ..., n - 1; with_speed, without (n, units): the states then;
             deviation_with, deviation_without (n,): from the unwarped states, the largest over units.
    """

    clock: NamedClock
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
    """Return how far two solutions at the solver's tolerance may be apart."""
    return ALLOWED * TOLERANCE


def clocks_for(length: int) -> list[NamedClock]:
    """Make four clocks for a recording of `length` samples."""
    generator = torch.Generator().manual_seed(SEED)
    least, most = REPEATS
    lasts = torch.randint(least, most + 1, (length - 1,), generator=generator).double()
    ts = torch.cat([torch.zeros(1, dtype=torch.float64), lasts.cumsum(0)])
    smooth = ctrnn.SmoothWarp.random(length - 1.0, MAX_SPEED, generator=generator)
    speeds = smooth.speed(torch.linspace(0, length - 1.0, 2001, dtype=torch.float64))
    repeats = ctrnn.PiecewiseWarp(ts, torch.arange(length).double())
    return [
        NamedClock("slowed down", Markup("<i>c</i>(<i>t</i>) = <i>t</i>/4"), ctrnn.AffineWarp(0.25)),
        NamedClock("sped up", Markup("<i>c</i>(<i>t</i>) = 3<i>t</i>"), ctrnn.AffineWarp(3.0)),
        NamedClock("variable repeats", f"a sample lasts {least} to {most} units, at random", repeats),
        NamedClock("smooth random", f"speeds from {float(speeds.min()):.2f} to {float(speeds.max()):.2f}", smooth),
    ]


@torch.no_grad()
def unwarped(recording: Recording, method: str = METHOD) -> np.ndarray:
    """Solve for h at every sample, (n, units)."""
    path = ctrnn.LinearPath(samples(recording))
    return _solve(path, path.knots, method=method).hs[:, 0].numpy()


@torch.no_grad()
def run_clock(recording: Recording, clock: NamedClock, h: np.ndarray) -> WarpedRun:
    """Run the recording on the clock, with c' and without, against the unwarped states h."""
    start = perf_counter()
    straight = ctrnn.LinearPath(samples(recording))
    path, ts = ctrnn.WarpedPath(straight, clock.warp), clock.warp.inverse(straight.knots)
    solved = _solve(path, ts, clock.warp.speed)
    # Two digits are enough to see that this is another solution.
    contrast = discretize.integrate(field_for(len(recording.channels)), path, _rest(), ts, method="rk4", max_step=1.0)
    states, without = solved.hs[:, 0].numpy(), contrast.hs[:, 0].numpy()
    return WarpedRun(
        clock,
        ts.numpy(),
        states,
        without,
        np.abs(states - h).max(1),
        np.abs(without - h).max(1),
        solved.stats["nfe"],
        perf_counter() - start,
    )


def _solve(path: ctrnn.Path, ts: Tensor, speed: ctrnn.Path | None = None, method: str = METHOD) -> discretize.Trajectory:
    field = field_for(path(path.knots[0]).shape[-1])
    return discretize.integrate(
        field, path, _rest(), ts, method=method, rtol=TOLERANCE, atol=TOLERANCE, speed=speed, progress=True
    )


def _rest() -> Tensor:
    return torch.zeros(1, UNITS, dtype=torch.float64)


def section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Run all clocks and say how far each is off."""
    limit, h, runs = allowed_deviation(), unwarped(recording), []
    say(f"  largest deviation from h(c(t)), {len(recording.xs)} times, {UNITS} units")
    say(f"  {'clock':<18}{'times c′':>12}{'without c′':>14}")
    for clock in clocks_for(len(recording.xs)):
        run = run_clock(recording, clock, h)
        runs.append(run)
        say(f"  {clock.name:<18}{run.largest:>12.1e}{run.largest_without:>14.2g}{'' if run.largest <= limit else '  FAILED'}")
    apart = float(np.abs(unwarped(recording, JUDGE) - h).max())
    say(f"  the unwarped states by {JUDGE}: {apart:.1e} apart{'' if apart <= limit else '  FAILED'}")
    say(f"  allowed: {ALLOWED} tolerances, {limit:.0e}")
    last, unit = len(h) - 1, _contrasting(runs, h)
    marked = (round(MARKED[0] * last), max(round(MARKED[1] * last), round(MARKED[0] * last) + 2))
    return Section.from_template(
        "demo/clocks.html.jinja",
        "clocks",
        figures={
            "clocks": _clocks(runs, recording.xs[:, 0], WINDOW * last, marked),
            "landing": _landings(runs, h, slice(0, min(SHOWN, last + 1)), unit),
            "deviations": _deviations(runs, limit),
        },
        numbers={
            "tolerance": TOLERANCE,
            "allowed": limit,
            "method": METHOD,
            "torchdiffeq_apart": apart,
            "clocks": [_numbers(run) for run in runs],
        },
        failures=[
            f"{what} the states deviate by {off:.1e}, more than {ALLOWED} tolerances ({limit:.0e})."
            for what, off in [*((f"On the clock {run.clock.name!r}", run.largest) for run in runs), (f"By {JUDGE}", apart)]
            if not off <= limit
        ],
        runs=runs,
        tolerances=ALLOWED,
        units=UNITS,
        unit=unit + 1,
        last=last,
        window=WINDOW * last,
        marked=marked,
        shown=min(SHOWN, last + 1) - 1,
    )


def write_figure() -> None:
    """Draw the README's figure: the EEG as recorded and on the clock of variable repeats."""
    recording = load(None, None)
    h = unwarped(recording)
    run = run_clock(recording, clocks_for(len(h))[2], h)
    write_atomically(FIGURE, standalone_svg(_warp(run, recording.xs[:, 0], h, slice(0, SHOWN), _contrasting([run], h))))


def _contrasting(runs: list[WarpedRun], h: np.ndarray) -> int:
    """The unit that leaving c' out changes most."""
    return int(np.argmax(sum(np.square(run.without - h).mean(0) for run in runs)))


def _numbers(run: WarpedRun) -> dict[str, object]:
    return {
        "name": run.clock.name,
        "clock": repr(run.clock.warp),
        "units_of_time": float(run.ts[-1]),
        "largest_deviation": run.largest,
        "largest_deviation_without_speed": run.largest_without,
        "field_evaluations": run.evaluations,
        "seconds": run.seconds,
    }


def _clocks(runs: Sequence[WarpedRun], xs: np.ndarray, window: float, marked: tuple[int, int]) -> Figure:
    """Draw one channel xs (time,) on every clock, a row a clock, over the same stretch of time; the same samples are marked."""
    with style():
        figure, axes = panels(len(runs) + 1, 0.55 + 0.78 * (len(runs) + 1), **SHARED)
        rows = [("as recorded", np.arange(len(xs), dtype=float)), *((run.clock.name, run.ts) for run in runs)]
        first, last = marked
        for ax, (name, ts) in zip(axes, rows, strict=True):
            ax.axvspan(ts[first], ts[last], color=GRID, linewidth=0)
            ax.plot(ts, xs, color=MUTED, linewidth=0.9)
            ax.plot(ts[first : last + 1], xs[first : last + 1], color=BLUE, linewidth=1.5)
            _bare(ax, name)
            ax.tick_params(bottom=ax is axes[-1])
        seen = np.concatenate([xs[ts <= window] for _, ts in rows])
        low, high = np.quantile(seen, (0.004, 0.996))  # a rare spike may be cut off, so that the rest has a shape
        axes[0].set(ylim=(low - 0.3, high + 0.3), xlim=(0, window))
        axes[-1].set_xlabel("time t in units")
        return figure


def _landings(runs: Sequence[WarpedRun], unwarped: np.ndarray, shown: slice, unit: int) -> Figure:
    """Draw one unit's state on every clock against what the clock shows: with its speed, without it, and unwarped."""
    with style():
        figure, axes = panels(len(runs), 1.2 + 1.0 * len(runs), **SHARED)
        for ax, run in zip(axes, runs, strict=True):
            _landing(ax, run, unwarped, shown, unit, 30, ("on its clock, without c′", "unwarped", "on its clock, times c′"))
            ax.set_title(run.clock.name, pad=2)
        axes[-1].set_xlabel(SAMPLES)
        figure.supylabel(f"state of unit {unit + 1}", fontsize=10)
        legend(figure, axes[0], order=[1, 2, 0])
        return figure


def _warp(run: WarpedRun, xs: np.ndarray, unwarped: np.ndarray, shown: slice, unit: int) -> Figure:
    """Draw the README's figure: a channel xs (time,) on two clocks, a unit's state on each, and one landing on the other."""
    with style(**{"figure.facecolor": PAPER, "savefig.facecolor": PAPER}):
        figure = Figure(figsize=(8.0, 4.4), layout=ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.1))
        grid = figure.add_gridspec(2, 2, height_ratios=[1, 1.35], hspace=0.08)
        left, right, below = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, :])
        samples = np.arange(len(xs))
        for ax, ts, colour, title in (
            (left, samples[shown], INK, "the recording, x(t)"),
            (right, run.ts[shown], BLUE, "on another clock, x(c(t))"),
        ):
            ax.plot(ts, xs[shown], color=colour, linewidth=1.1)
            _bare(ax, title)
            ax.set(xlim=(ts[0], ts[-1]), xlabel="time t, in units")
        labels = ("warped, without c′(t)", "h: dh/dt = f(x(t), h)", "warped: dh/dt = c′(t) f(x(c(t)), h)")
        _landing(below, run, unwarped, shown, unit, 60, labels)
        below.set_title("the state of one unit, where the clock shows c(t) = s")
        below.set_xlabel("s, in samples")
        legend(figure, below, order=[1, 2, 0], columns=3, place="outside lower center")
        return figure


def _deviations(runs: Sequence[WarpedRun], limit: float) -> Figure:
    """Draw the largest deviation over units along the recording, with and without the clock's speed, and the limit."""
    with style():
        figure, (ax,) = panels(1, 3.5)
        smallest = limit
        for run, colour, dashes in zip(runs, BY_CLOCK, DASHES, strict=True):
            samples, (fine, gross) = _upper_envelope(run.deviation_with, run.deviation_without)
            smallest = min(smallest, float(fine[fine > 0].min(initial=limit)))
            ax.plot(samples, gross, color=colour, linestyle=dashes, linewidth=1.2)
            ax.plot(
                samples, np.where(fine > 0, fine, np.nan), color=colour, linestyle=dashes, linewidth=1.5, label=run.clock.name
            )
        ax.axhline(limit, color=INK, linewidth=0.9)
        last = len(runs[0].ts) - 1
        ax.text(last, limit * 1.5, "allowed", ha="right", va="bottom")
        ax.text(0.02 * last, 8.0, "without c′", ha="left", va="center")
        ax.text(0.02 * last, smallest / 8, "times c′", ha="left", va="center")
        ax.set(yscale="log", ylim=(smallest / 40, 40), xlim=(0, last), xlabel=SAMPLES, ylabel="largest deviation of a unit")
        decades(ax)
        ax.grid(axis="y")
        legend(figure, ax)
        return figure


def _landing(
    ax: Axes, run: WarpedRun, unwarped: np.ndarray, shown: slice, unit: int, dots: int, labels: tuple[str, str, str]
) -> None:
    samples = np.arange(len(unwarped))[shown]
    every = max(1, len(samples) // dots)
    without, states = run.without[shown, unit], run.with_speed[shown, unit]
    ax.plot(samples, without, color=ORANGE, linestyle=(0, (4, 1.5)), linewidth=1.1, label=labels[0])
    ax.plot(samples, unwarped[shown, unit], color=INK, linewidth=1.1, label=labels[1])
    ax.plot(samples[::every], states[::every], "o", color=BLUE, markersize=3.4, label=labels[2])
    ax.set_xlim(samples[0], samples[-1])
    ax.grid(axis="y")


def _bare(ax: Axes, title: str) -> None:
    """A trace whose height says nothing."""
    ax.set_title(title, pad=2)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)


def _upper_envelope(*series: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Every series as the largest of each few neighbours, so that a line of hundreds of points stays a line."""
    length = len(series[0])
    starts = np.arange(0, length, max(1, -(-length // ENVELOPE)))
    return starts, [np.maximum.reduceat(values, starts) for values in series]


if __name__ == "__main__":
    write_figure()
