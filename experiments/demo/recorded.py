"""The first section: the recording that the cell is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure

from experiments.data.recording import MOST_SAMPLES, Recording
from experiments.demo.clocks import UNITS
from experiments.reports.plots import BLUE, panels, style
from experiments.reports.report import Section

__all__ = ["drawn", "section"]

MOST_CHANNELS_DRAWN = 8


def section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Show the recording, and say what was done to it."""
    length, channels = recording.xs.shape
    size = f"{length} samples of {channels} channel{'s' if channels > 1 else ''}"
    lasts = f"{recording.seconds:.4g} s at {recording.rate:g} samples per second"
    say(f"  {recording.name}, {size}, {lasts}")
    if length < recording.total:
        say(f"  only the first {MOST_SAMPLES} of its {recording.total} samples are used")
    say(f"  every channel standardized{_constant(recording)}")
    shown = recording.channels[:MOST_CHANNELS_DRAWN]
    return Section.from_template(
        "demo/recorded.html.jinja",
        "recording",
        figures={"recording": drawn(recording.xs[:, : len(shown)], recording.rate, shown)},
        numbers={
            "name": recording.name,
            "samples": length,
            "total_samples": recording.total,
            "channels": list(recording.channels),
            "rate": recording.rate,
            "seconds": recording.seconds,
            "constant_channels": list(recording.constant),
        },
        recording=recording,
        size=size,
        lasts=lasts,
        used=MOST_SAMPLES,
        drawn=len(shown),
        units=UNITS,
        constant=_constant(recording),
    )


def _constant(recording: Recording) -> str:
    names = ", ".join(recording.constant)
    if len(recording.constant) > 1:
        return f"; channels {names} are constant and become 0"
    return f"; channel {names} is constant and becomes 0" if names else ""


def drawn(xs: np.ndarray, rate: float, names: Sequence[str]) -> Figure:
    """Draw channels one above the other; xs (time, channels), standardized."""
    with style():
        figure, (ax,) = panels(1, 0.9 + 0.52 * len(names))
        apart = 6.0
        for k, name in enumerate(names):
            ax.plot(np.arange(len(xs)), xs[:, k] - apart * k, color=BLUE, linewidth=0.8, label=name)
        ax.set_yticks([-apart * k for k in range(len(names))], names, parse_math=False)  # a "$" in a name is a "$"
        ax.set(ylabel="channel", xlabel="time in samples", xlim=(0, len(xs) - 1))
        ax.tick_params(left=False)
        ax.spines["left"].set_visible(False)
        seconds = ax.secondary_xaxis("top", functions=(lambda t: np.asarray(t) / rate, lambda s: np.asarray(s) * rate))
        seconds.set_xlabel("time in seconds")
        return figure
