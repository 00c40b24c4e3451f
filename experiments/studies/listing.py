"""Says what `ctrnn study list` says of each study: of ours out of listing.json, for importing them all takes seconds.

python -m experiments.studies.listing       writes listing.json anew, after a study has changed
"""

from __future__ import annotations

import json
import os
import textwrap
from functools import cache
from pathlib import Path
from typing import TypedDict

from experiments.studies.registry import OWN, study_named
from experiments.studies.study import DATA, SCALES, data_path

__all__ = ["LISTED", "listed", "listing"]

LISTED = Path(__file__).with_suffix(".json")


class Listing(TypedDict):
    """What is said of a study where none of the data are that it needs."""

    needs: list[str]
    text: str


def listed(name: str) -> str:
    """Say what a study claims and what it costs; one with data that are here is imported, for they add runs."""
    kept = _kept().get(name)
    return kept["text"] if kept and not any(map(data_path, kept["needs"])) else listing(name)["text"]


def listing(name: str) -> Listing:
    """Import a study, and say so of it."""
    study = study_named(name)
    lines = [study.question, f"“{study.claim}” {study.source}"]
    lines = [textwrap.fill(line, 100, initial_indent="  ", subsequent_indent="  ") for line in lines]
    counts = {scale: len(study.runs(scale)) for scale in SCALES}
    costs = [f"{scale} {f'{_runs(n)}, ' if n else ''}{_minutes(study.minutes[scale])}" for scale, n in counts.items()]
    left_out = study.left_out()
    return {
        "needs": list(study.needs),
        "text": "\n".join([*lines, f"  {'; '.join(costs)}", *([f"  {left_out}"] if left_out else [])]),
    }


@cache
def _kept() -> dict[str, Listing]:
    kept: dict[str, Listing] = json.loads(LISTED.read_text(encoding="utf-8"))
    return kept


def _runs(count: int) -> str:
    return f"{count} run{'s' * (count != 1)}"


def _minutes(minutes: float) -> str:
    if minutes < 1:
        return f"about {60 * minutes:.0f} s"
    return f"about {minutes:.0f} min" if minutes < 120 else f"about {minutes / 60:.0f} h"


if __name__ == "__main__":
    os.environ.pop(DATA, None)
    LISTED.write_text(json.dumps({name: listing(name) for name in OWN}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
