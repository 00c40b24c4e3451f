"""The first section: the recording that the cell is given."""

from __future__ import annotations

from collections.abc import Callable

from experiments.data.recording import MOST_SAMPLES, Recording
from experiments.demo import figures
from experiments.demo.warped_runs import UNITS
from experiments.reports.report import Section

__all__ = ["section"]

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
    drawn = recording.channels[:MOST_CHANNELS_DRAWN]
    return Section.from_template(
        "demo/recorded.html.jinja",
        "recording",
        figures={"recording": figures.recording(recording.xs[:, : len(drawn)], recording.rate, drawn)},
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
        drawn=len(drawn),
        units=UNITS,
        constant=_constant(recording),
    )


def _constant(recording: Recording) -> str:
    names = ", ".join(recording.constant)
    if len(recording.constant) > 1:
        return f"; channels {names} are constant and become 0"
    return f"; channel {names} is constant and becomes 0" if names else ""
