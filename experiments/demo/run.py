r"""`ctrnn demo`: the sections one after the other, the page, and the numbers.

A new section is a function (recording, say) -> Section and an entry in `SECTIONS`.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import torch

from experiments.data.recording import Recording
from experiments.demo import breakdown, clocks, proofs, recorded, steps, trained
from experiments.files import not_writable, ready_folder, write_atomically
from experiments.interruption import checkpoint
from experiments.reports.page import page
from experiments.reports.section import Section, SectionMaker

__all__ = ["SECTIONS", "run"]


def run(out: Path, recording: Recording, command: str) -> bool:
    r"""Make the page; True if every check passed.

    Args:    out: folder of index.html and numbers.json; recording: what is played; command: what was typed.
    Raises:  UsageError for a folder that cannot be written.
    """
    ready_folder(out)
    # One sample at a time is no work for several threads; where the processor is shared they wait for one another.
    torch.set_num_threads(1)
    sections: list[Section] = []
    seconds: dict[str, float] = {}
    for maker in SECTIONS:
        start = perf_counter()
        with _progress(f"section {len(sections) + 1} of {len(SECTIONS)}"):
            section = maker(recording, _say)
        sections.append(section)
        seconds[section.key] = perf_counter() - start
    failures = [failure for section in sections for failure in section.failures]
    numbers = {
        **{section.key: section.numbers for section in sections},
        "failures": failures, "seconds": seconds, "versions": _versions(), "command": command,
    }  # fmt: skip
    target = out / "index.html"
    try:
        write_atomically(out / "numbers.json", json.dumps(numbers, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        write_atomically(target, page(sections, _facts(recording, command, seconds)))
    except OSError as error:
        raise not_writable(out, error) from None
    for failure in failures:
        _say(f"FAILED  {failure}")
    _say("A check failed; the page says which." if failures else f"All checks passed, in {sum(seconds.values()):.0f} s.")
    _say(f"{target}")
    return not failures


# What the page shows, in order.
SECTIONS: list[SectionMaker] = [
    recorded.section, proofs.section, clocks.section, steps.section, breakdown.section, trained.section,
]  # fmt: skip


def _say(line: str) -> None:
    checkpoint()
    print(line, flush=True)


@contextmanager
def _progress(label: str) -> Iterator[None]:
    """A line on stderr while a section is worked on, where that is a terminal; solves say more for themselves."""
    if not sys.stderr.isatty():
        yield
        return
    sys.stderr.write(f"{label} ...\r")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\x1b[K")
        sys.stderr.flush()


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ("ctrnn", "torch", "torchdiffeq", "sympy", "matplotlib")},
    }


def _facts(recording: Recording, command: str, seconds: Mapping[str, float]) -> dict[str, str]:
    return {
        "Command": command,
        "Date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        "Time": ", ".join(f"{key} {value:.1f} s" for key, value in seconds.items()),
        "Versions": ", ".join(f"{name} {number}" for name, number in _versions().items()),
        "Data": recording.credit,
        "Theory": "C. Tallec and Y. Ollivier, Can recurrent neural networks warp time?, ICLR 2018; "
        "K. Ohno and A. Kumagai, Recurrent neural networks for learning long-term temporal dependencies with reanalysis of "
        "time scale representation, 2021.",
    }
