"""The theorem's section: the recording on four clocks, and how far the states land from the unwarped ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ctrnn.storage.files import write_atomically
from experiments.data.recording import Recording, load
from experiments.demo import figures
from experiments.demo.warped_runs import (
    ALLOWED,
    JUDGE,
    METHOD,
    TOLERANCE,
    UNITS,
    WarpedRun,
    allowed_deviation,
    clocks_for,
    run_clock,
    unwarped,
)
from experiments.reports.report import Section
from experiments.reports.svg import standalone_svg

__all__ = ["section", "write_figure"]

SHOWN = 121  # samples of a figure of states
WINDOW = 0.3  # of the recording, shown on every clock
MARKED = 0.02, 0.05  # of the recording: early enough to be seen on the slowest clock


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
            "clocks": figures.clocks(runs, recording.xs[:, 0], WINDOW * last, marked),
            "landing": figures.landing(runs, h, slice(0, min(SHOWN, last + 1)), unit),
            "deviations": figures.deviations(runs, limit),
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
        apart=apart,
        runs=runs,
        limit=limit,
        tolerance=TOLERANCE,
        allowed=ALLOWED,
        method=METHOD,
        units=UNITS,
        unit=unit + 1,
        last=last,
        window=WINDOW * last,
        marked=marked,
        shown=min(SHOWN, last + 1) - 1,
    )


def write_figure(path: Path) -> None:
    """The README's figure: the EEG as recorded and on the clock of variable repeats."""
    recording = load(None, None)
    h = unwarped(recording)
    run = run_clock(recording, clocks_for(len(h))[2], h)
    write_atomically(path, standalone_svg(figures.warp(run, recording.xs[:, 0], h, slice(0, SHOWN), _contrasting([run], h))))


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
