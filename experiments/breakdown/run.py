r"""`ctrnn breakdown`: the parts of the atlas one after the other, the page, the figures' files and the numbers as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

from derivations.processes.pool import Work, WorkerPool, in_order
from experiments.breakdown.chart import chart_section
from experiments.breakdown.cost import cost_section
from experiments.breakdown.networks import networks_section
from experiments.breakdown.one_unit import held_section, power_section
from experiments.breakdown.recorded import recorded_section
from experiments.breakdown.rhythm import rhythm_section
from experiments.breakdown.rows import as_csv
from experiments.data.recording import Recording
from experiments.files import ready_folder
from experiments.reports.report import Section, SectionMaker, conclude, facts, progress, say
from experiments.reports.svg import with_colours

__all__ = ["PARTS", "begin", "run"]

# In the order of the page, each with the line that announces it in the terminal.
PARTS: tuple[tuple[str, SectionMaker], ...] = (
    ("One unit, held target", held_section),
    ("One unit, power decay", power_section),
    ("One unit, what becomes of it", chart_section),
    ("Networks of several units", networks_section),
    ("A rotation, and a trained rhythm", rhythm_section),
    ("A recording played faster and faster", recorded_section),
    ("What accuracy costs", cost_section),
)
QUICK = (held_section, power_section)
WORKERS = 2
PLAN = "ctrnn breakdown: every step map on five fields and a recording, in two processes; 1 to 2 minutes"
PACKAGES = ("ctrnn", "torch", "torchdiffeq")


def run(out: Path, recording: Recording, command: str) -> bool:
    r"""Make the atlas; True if every check passed.

    Args:    out: folder of index.html, breakdown.csv and the figures; recording: what is played; command: what was typed.
    Raises:  UsageError for a folder that cannot be written.
    """
    ready_folder(out)
    start, sections, seconds = perf_counter(), list[Section](), dict[str, float]()
    say(f"{PLAN}\n")
    with progress("all parts at once, the longest first"):
        for number, ((words, _), (section, lines, took)) in enumerate(zip(PARTS, _made(recording), strict=True), 1):
            sections.append(section)
            seconds[section.key] = took
            for line in [f"{number}/{len(PARTS)} {words}", *lines, ""]:
                say(line)
    rows = as_csv(section.numbers["rows"] for section in sections)
    files = {
        f"{section.key}-{number}.svg": with_colours(svg) for section in sections for number, svg in enumerate(section.svgs, 1)
    }
    numbers = rows.count("\n") - 1
    say(f"{numbers} numbers in {out / 'breakdown.csv'}")
    made = facts(command, recording.credit, seconds, PACKAGES)
    files["breakdown.csv"] = rows
    return conclude(out, sections, "breakdown/page.html.jinja", made, files, perf_counter() - start)


def _made(recording: Recording) -> Iterator[tuple[Section, list[str], float]]:
    """The sections in the order of the page, made by two processes, the longest ones first."""
    first = sorted(range(len(PARTS)), key=lambda number: PARTS[number][1] in QUICK)
    pool = WorkerPool(WORKERS, Work("experiments.breakdown.run:begin", (recording,)))
    yield from in_order(pool.carry_out(first), range(len(PARTS)))


def begin(recording: Recording) -> Callable[[int], tuple[Section, list[str], float]]:
    """A function that makes the part of a number: its section, what it says, and its seconds."""

    def make(number: int) -> tuple[Section, list[str], float]:
        lines: list[str] = []
        start = perf_counter()
        return PARTS[number][1](recording, lines.append), lines, perf_counter() - start

    return make
