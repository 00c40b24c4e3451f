r"""Where the Taylor step stops being the field: the core of `ctrnn breakdown`, which says more and takes longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

import discretize
from experiments.breakdown import figures
from experiments.breakdown.held import GRID, bars
from experiments.breakdown.maps import MAPS, limits
from experiments.breakdown.networks import root_mean_square
from experiments.breakdown.recorded import FASTEST, SLOWEST, accelerating, play
from experiments.data.recording import Recording
from experiments.reports.page import scientific
from experiments.reports.section import Picture, Section
from experiments.reports.svg import inline_svg

__all__ = ["section"]

SHOWN = ("Euler", "ExponentialEuler")
EXCERPT = 300  # samples


@torch.no_grad()
def section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Play the recording faster and faster, and say which steps follow."""
    excerpt = replace(recording, xs=recording.xs[:EXCERPT])
    run = play(excerpt, accelerating(len(excerpt.xs)), SHOWN)
    off = {name: root_mean_square(torch.from_numpy(states - run.exact)) for name, states in run.states.items()}
    euler, exponential = limits(MAPS["Euler"]), limits(MAPS["ExponentialEuler"])
    crossing = [int(np.argmax(np.median(run.g, 1) > mark)) for mark in (1, 2)]
    say(
        f"The recording played faster, from {SLOWEST:g} to {FASTEST:g} samples a step; c'g passes 1 at step "
        f"{crossing[0]}, 2 at {crossing[1]}"
    )
    for name, error in off.items():
        say(f"  {name:<18} r.m.s. deviation {error:.3g}")
    say("")
    failures = [f"{name} deviates by {off[name]:.2g} on the recording played faster." for name in SHOWN[1:] if not off[name] < 1]
    if (round(euler.overshoots or 0, 6), round(euler.diverges or 0, 6)) != (1.0, 2.0):
        failures.append(f"Euler overshoots from {euler.overshoots} and diverges from {euler.diverges}, not from 1 and 2.")
    if exponential.overshoots is not None or exponential.diverges is not None:
        failures.append("Exponential Euler leaves its target, which it never should.")
    gone = "is lost" if not off["Euler"] < 10 else f"deviates by {scientific(off['Euler'])}"
    unit = int(np.argmax(np.std(run.exact, 0)))
    g = GRID[GRID <= 50]
    return Section(
        key="breakdown",
        title="Where the step stops being the field",
        lead="A Taylor step of the rate <i>g</i> goes past its target once <i>c</i>′<i>g</i> is above 1, and away from it "
        "above 2. An exponential step of the same field, at the same cost, does neither.",
        body=f"<p>Here the first {len(excerpt.xs)} samples speed up from {SLOWEST:g} to {FASTEST:g} samples a step, and rates "
        "are softplus(…) of the input, about 1. <code>ctrnn breakdown</code> draws the whole atlas: fifteen steps, five "
        "fields, slow forgetting, what accuracy costs.</p>\n",
        pictures=(
            Picture(
                inline_svg(
                    figures.played(
                        np.arange(1, len(run.exact) + 1), run.g[:, unit], run.exact[:, unit],
                        {name: states[:, unit] for name, states in run.states.items()}, unit,
                    ),
                    "figure-faster", "The recording played faster and faster",
                    "Above, c'g of one unit rising through the regions monotone, overshooting and divergent. Below, Euler swings "
                    "about the exact state once c'g has passed 1 and leaves the panel beyond 2; exponential Euler "
                    "stays near it.",
                ),
                "<b>The recording played faster and faster.</b> Half of the units are past 1 from step "
                f"{crossing[0]} and past 2 from step {crossing[1]}; Euler (orange) leaves the exact state (dark), "
                "exponential Euler stays near it.",
            ),
            Picture(
                inline_svg(
                    figures.region_bars(
                        {name: bars(g, [discretize.REGIONS[int(r)] for r in discretize.regions(step, g)])
                         for name, step in MAPS.items()},
                        "g dt",
                    ),
                    "figure-regions", "Where each step overshoots and diverges",
                    "A bar for each step map over g dt from 0.01 to 50; only the explicit ones diverge.",
                ),
                "<b>Where each step overshoots and diverges</b>, on a target that is held: only the explicit maps leave it.",
            ),
        ),
        numbers={
            "rms_deviation": {name: error if np.isfinite(error) else None for name, error in off.items()},
            "crossing": crossing,
        },
        verdict=f"Played faster and faster, the Taylor step {gone}; exponential Euler deviates by "
        f"{scientific(off['ExponentialEuler'])}.",
        failures=tuple(failures),
    )  # fmt: skip
