"""One unit that forgets slowly, dh/dt = -g |h|^r h: which maps overshoot and diverge, and their errors."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
import torch

from experiments.breakdown import figures
from experiments.breakdown.maps import MAPS
from experiments.breakdown.one_unit import EXPONENT, bars, decay_factor, regions_of
from experiments.breakdown.rows import frame
from experiments.data.recording import Recording
from experiments.reports.report import Section

__all__ = ["power_section"]

LABEL = f"g dt |h|^r, r = {EXPONENT:g}"


@torch.no_grad()
def power_section(recording: Recording, say: Callable[[str], None]) -> Section:
    """What one step leaves of h under the power decay, by every map."""
    y = torch.logspace(-2, math.log10(50), 61, dtype=torch.float64)
    exact = (1 + EXPONENT * y) ** (-1 / EXPONENT)
    factors = {name: decay_factor(step, y) for name, step in MAPS.items()}
    regions = {name: regions_of(found, y) for name, found in factors.items()}
    off = {name: (found - exact).abs().clamp(min=1e-17) for name, found in factors.items()}
    largest = {name: float(values.max()) for name, values in off.items()}
    say(f"  r = {EXPONENT:g}: largest error of a step for g dt |h|^r up to 50")
    for name, worst in largest.items():
        say(f"  {name:<22}{worst:>10.3g}")
    first, growing = 2 / (EXPONENT + 1), float(y[regions["Taylor2"].index("divergent")])
    return Section.from_template(
        "breakdown/power.html.jinja",
        "power",
        figures={
            "power-regions": figures.region_bars({name: bars(y, found) for name, found in regions.items()}, LABEL),
            "power": figures.by_family(
                y.tolist(),
                {name: values.nan_to_num(torch.inf, torch.inf).tolist() for name, values in off.items()},
                LABEL,
                "error of one step, in units of |h|",
                (1e-9, 10),
            ),
        },
        numbers={
            "rows": pd.concat(
                frame(
                    "one unit, power decay",
                    f"-g |h|^{EXPONENT:g} h",
                    name,
                    y.numpy(),
                    "factor of one step",
                    found.numpy(),
                    regions[name],
                )
                for name, found in factors.items()
            ),
            "largest_error": largest,
        },
        failures=[
            *([f"Splitting is off by {largest['Splitting']:.1e} under the power decay."] if largest["Splitting"] > 1e-14 else []),
            *([f"Taylor2 grows from {growing:.3g}."] if not 1 < growing / first < 1.2 else []),
        ],
        first=first,
        splitting=max(largest["Splitting"], 1e-17),
    )
