r"""`ctrnn breakdown`: the parts of the atlas one after the other, the page, the figures' files and the numbers as CSV."""

from __future__ import annotations

import multiprocessing
import platform
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

from experiments.breakdown.cost import cost_section
from experiments.breakdown.held import held_section, power_section
from experiments.breakdown.networks import networks_section
from experiments.breakdown.recorded import recorded_section
from experiments.breakdown.rows import as_csv
from experiments.data.recording import Recording
from experiments.files import not_writable, ready_folder, write_atomically
from experiments.interruption import checkpoint
from experiments.reports.page import Heading, page
from experiments.reports.section import Section, SectionMaker
from experiments.reports.svg import with_colours

__all__ = ["PARTS", "run"]

HEADING = Heading(
    kicker="ctrnn breakdown",
    title="Where the Taylor step stops being the field",
    description="Which one-step maps follow a recurrent vector field at which rates, and which to take instead.",
    text="A recurrent cell is a differential equation, and its discrete form a step of it. Tallec and Ollivier use the "
    "Taylor step and say that it holds when the gate is not much above 1. This atlas says what happens beyond, for fifteen "
    "steps, five fields and any <i>g</i>: which steps overshoot, which diverge, what is lost, and what to take instead.",
)
PARTS: tuple[SectionMaker, ...] = (held_section, power_section, networks_section, recorded_section, cost_section)
QUICK = (held_section, power_section)
WORKERS = 2


def run(out: Path, recording: Recording, command: str) -> bool:
    r"""Make the atlas; True if every check passed.

    Args:    out: folder of index.html, breakdown.csv and the figures; recording: what is played; command: what was typed.
    Raises:  UsageError for a folder that cannot be written.
    """
    ready_folder(out)
    began, sections = perf_counter(), []
    seconds: dict[str, float] = {}
    for section, lines, took in _made(recording):
        sections.append(section)
        seconds[section.key] = took
        for line in [*lines, ""]:
            _say(line)
    failures = [failure for section in sections for failure in section.failures]
    rows = [row for section in sections for row in section.numbers["rows"]]
    try:
        write_atomically(out / "breakdown.csv", as_csv(rows))
        for section in sections:
            for number, picture in enumerate(section.pictures, 1):
                write_atomically(out / f"{section.key}-{number}.svg", with_colours(picture.svg))
        write_atomically(out / "index.html", page(sections, _facts(recording, command, seconds), HEADING))
    except OSError as error:
        raise not_writable(out, error) from None
    for failure in failures:
        _say(f"FAILED  {failure}")
    _say("A check failed; the page says which." if failures else f"All checks passed, in {perf_counter() - began:.0f} s.")
    _say(f"{out / 'index.html'}, and {len(rows)} numbers in {out / 'breakdown.csv'}")
    return not failures


def _made(recording: Recording) -> Iterator[tuple[Section, list[str], float]]:
    """The sections in the order of the page, made by two processes, the longest ones first."""
    # Started afresh, not forked: a fork of a process in which torch has threads may hang.
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn"), initializer=_prepare_worker) as pool:
        try:
            first = {part: pool.submit(_make, part, recording) for part in sorted(PARTS, key=lambda part: part in QUICK)}
            for part in PARTS:
                yield first[part].result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - others:
                child.terminate()
            raise


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to answer
    import torch  # noqa: PLC0415

    torch.set_num_threads(1)


def _make(part: SectionMaker, recording: Recording) -> tuple[Section, list[str], float]:
    lines: list[str] = []
    start = perf_counter()
    return part(recording, lines.append), lines, perf_counter() - start


def _say(line: str) -> None:
    checkpoint()
    print(line, flush=True)


def _facts(recording: Recording, command: str, seconds: Mapping[str, float]) -> dict[str, str]:
    versions = {"python": platform.python_version(), **{name: version(name) for name in ("ctrnn", "torch", "torchdiffeq")}}
    return {
        "Command": command,
        "Date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        "Time": ", ".join(f"{key} {value:.1f} s" for key, value in seconds.items()),
        "Versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "Data": recording.credit,
        "Numbers": "breakdown.csv in the same folder: part, field, step, x, quantity, value, region.",
        "Theory": "C. Tallec and Y. Ollivier, Can recurrent neural networks warp time?, ICLR 2018, sec. 1; the theorems are "
        "in the ledger (ctrnn derive), results 1 to 7 and the step maps of this project.",
    }
