r"""Where the Taylor step stops being the field: the core of `ctrnn breakdown`, which says more and takes longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from experiments.breakdown import figures
from experiments.breakdown.networks import root_mean_square
from experiments.breakdown.one_unit import GRID, bars_of_maps, limit_failures
from experiments.breakdown.recorded import FASTEST, SLOWEST, accelerating, crossing, drawn, play
from experiments.data.recording import Recording
from experiments.reports.report import Section

__all__ = ["section"]

SHOWN = ("Euler", "ExponentialEuler")
EXCERPT = 300  # samples


@torch.no_grad()
def section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Play the recording faster and faster, and say which steps follow."""
    excerpt = replace(recording, xs=recording.xs[:EXCERPT])
    run = play(excerpt, accelerating(len(excerpt.xs)), SHOWN)
    off = {name: root_mean_square(states - run.exact) for name, states in run.states.items()}
    one, two = crossing(run)
    say(f"  from {SLOWEST:g} to {FASTEST:g} samples a step; half of the units pass c'g = 1 at step {one}, 2 at {two}")
    for name, error in off.items():
        say(f"  {name:<18} r.m.s. deviation {error:.3g}")
    failures = [f"{name} deviates by {off[name]:.2g} on the recording played faster." for name in SHOWN[1:] if not off[name] < 1]
    return Section.from_template(
        "demo/breakdown.html.jinja",
        "breakdown",
        figures={
            "faster": drawn(run, int(np.argmax(np.std(run.exact, 0)))),
            "regions": figures.region_bars(bars_of_maps(GRID[GRID <= 50]), "g dt"),
        },
        numbers={
            "rms_deviation": {name: error if np.isfinite(error) else None for name, error in off.items()},
            "crossing": [one, two],
        },
        failures=[*failures, *limit_failures()],
        samples=len(excerpt.xs),
        slowest=SLOWEST,
        fastest=FASTEST,
        one=one,
        two=two,
        off=off,
    )
