r"""`ctrnn demo`: the sections one after the other, the page, and the numbers.

A new section is a function (recording, say) -> Section with a template, and an entry in `SECTIONS`.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter

import torch

from experiments.breakdown.recorded import excerpt_section
from experiments.data.recording import Recording
from experiments.demo import clocks, proofs, recorded, steps, trained
from experiments.files import ready_folder
from experiments.reports.report import Section, SectionMaker, conclude, facts, failures_of, progress, say, versions

__all__ = ["SECTIONS", "run"]

# What the page shows, in order, each with the line that announces it in the terminal.
SECTIONS: list[tuple[str, SectionMaker]] = [
    ("The theorem: from a clock to a gate, proved", proofs.theorem),
    ("The recording", recorded.section),
    ("The theorem on four clocks: the recording played on each, with its speed and without", clocks.section),
    (
        f"Trained twice from the same start, as steps and as a differential equation: {trained.STEPS} batches each",
        trained.section,
    ),
    ("Euler steps against the exact solution, same weights, slowed down by n", steps.section),
    ("The recording played faster and faster: where steps stop being the field", excerpt_section),
    ("Every equation, proved", proofs.section),
]
PLAN = "ctrnn demo: a theorem, a recording on five clocks, a cell trained both ways, and proofs; 1 to 3 minutes"
PACKAGES = ("ctrnn", "torch", "torchdiffeq", "sympy", "matplotlib")


def run(out: Path, recording: Recording, command: str, verbose: bool = False) -> bool:
    r"""Make the page; True if every check passed.

    Args:    out: folder of index.html and numbers.json; recording: what is played; command: what was typed; verbose: whether the
             terminal has a line for each proof, and not for those alone that fail.
    Raises:  UsageError for a folder that cannot be written.
    """
    ready_folder(out)
    # One sample at a time is no work for several threads; where the processor is shared they wait for one another.
    torch.set_num_threads(1)
    sections: list[Section] = []
    seconds: dict[str, float] = {}
    say(f"{PLAN}\n")
    for number, (words, make) in enumerate(SECTIONS, 1):
        start, label = perf_counter(), f"{number}/{len(SECTIONS)}"
        say(f"{label} {words}")
        with progress(f"section {label}"):
            section = make(recording, say, **({"verbose": verbose} if make is proofs.section else {}))
        say("")
        sections.append(section)
        seconds[section.key] = perf_counter() - start
    numbers = {
        **{section.key: section.numbers for section in sections},
        "failures": failures_of(sections),
        "seconds": seconds,
        "versions": versions(*PACKAGES),
        "command": command,
    }
    files = {"numbers.json": json.dumps(numbers, indent=1, ensure_ascii=False, allow_nan=False) + "\n"}
    made = facts(command, recording.credit, seconds, PACKAGES)
    return conclude(out, sections, "demo/page.html.jinja", made, files, sum(seconds.values()))
