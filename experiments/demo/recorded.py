"""The first section: the recording that the cell is given."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from experiments.data.recording import MOST_SAMPLES, Recording
from experiments.demo.cell import UNITS
from experiments.reports import plots
from experiments.reports.section import Picture, Section
from experiments.reports.svg import inline_svg

__all__ = ["section"]

MOST_CHANNELS_DRAWN = 8


def section(recording: Recording, say: Callable[[str], None]) -> Section:
    """Show the recording, and say what was done to it."""
    length, channels = recording.xs.shape
    cut = length < recording.total
    size = f"{length} samples of {channels} channel{'s' if channels > 1 else ''}"
    lasts = f"{recording.seconds:.4g} s at {recording.rate:g} samples per second"
    say(f"The recording: {recording.name}, {size}, {lasts}")
    if cut:
        say(f"  only the first {MOST_SAMPLES} of its {recording.total} samples are used")
    say(f"  every channel standardized{_constant(recording)}")
    say("")
    only = f" Only the first {MOST_SAMPLES} of the file’s {recording.total:,} samples are used." if cut else ""
    name = escape(recording.name) if recording.shipped else f"<code>{escape(recording.name)}</code>"
    return Section(
        key="recording",
        title="The recording",
        lead=f"{name[:1].upper() + name[1:] if recording.shipped else name}: {size}, {lasts}.",
        body="<p>Every channel is standardized: its mean is 0 and its standard deviation 1"
        f"{escape(_constant(recording))}. Time is counted in samples from here on.{only} The cell has {UNITS} units, and its "
        "weights are drawn at random from a fixed seed; nothing is trained before the last section.</p>",
        pictures=(_picture(recording),),
        numbers={
            "name": recording.name,
            "samples": length,
            "total_samples": recording.total,
            "channels": list(recording.channels),
            "rate": recording.rate,
            "seconds": recording.seconds,
            "constant_channels": list(recording.constant),
        },
    )


def _picture(recording: Recording) -> Picture:
    length, channels = recording.xs.shape
    drawn = recording.channels[:MOST_CHANNELS_DRAWN]
    some = f"the first {len(drawn)} of {channels} channels" if len(drawn) < channels else "every channel"
    svg = inline_svg(
        plots.recording(recording.xs[:, : len(drawn)], recording.rate, drawn),
        "figure-recording",
        "The recording",
        f"{len(drawn)} traces of {length} samples, one above the other, against time in samples and in seconds.",
    )
    return Picture(svg, f"<b>The recording</b>, {some}, standardized, one above the other; this is what drives the cell.")


def _constant(recording: Recording) -> str:
    if not recording.constant:
        return ""
    names = ", ".join(recording.constant)
    return (
        f"; channel {names} is constant and becomes 0"
        if len(recording.constant) == 1
        else f"; channels {names} are constant and become 0"
    )
