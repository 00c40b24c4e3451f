"""Run a comparison part by part, and write its record in the form that the output file's ending names."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ctrnn.storage.files import write_atomically
from discretize import KernelWarning, SolverWarning
from experiments.bench.declared import PARTS
from experiments.bench.output.page import document
from experiments.bench.rows import Row
from experiments.bench.scales import SCALES, Scale
from experiments.bench.session import Session
from experiments.files import write_json
from experiments.reports import machine
from experiments.usage import UsageError

__all__ = ["measure", "run"]


def run(
    peers: tuple[str, ...], out: Path | None, scale: str, threads: int | None, repeats: int | None, device: str, command: str
) -> bool:
    """Measure, and write the file, or the tables to stdout."""
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch finds no GPU here; leave it out to measure on the CPU.")
    record = measure(peers, scale, threads, repeats, device, command)
    if out is None:
        print(document(record), end="")
    else:
        _write(out, record)
        print(f"Written to {out}.", file=sys.stderr)
    return True


def _write(out: Path, record: dict[str, Any]) -> None:
    """Write the whole record, the tables, or the figure, by the file's ending."""
    if out.suffix == ".json":
        write_json(out, record)
    elif out.suffix == ".md":
        write_atomically(out, document(record))
    else:
        from experiments.bench.output.figures import overview, save  # noqa: PLC0415 - matplotlib

        save(overview(record), out)


def measure(
    peers: tuple[str, ...], scale: str, threads: int | None, repeats: int | None, device: str, command: str
) -> dict[str, Any]:
    """Return the record of a comparison, as it goes into the JSON file."""
    session = Session(peers, device, repeats or SCALES[scale]["rounds"])
    rows, seconds = [], dict.fromkeys(PARTS, 0.0)
    if device == "cuda" and "diffrax" in peers:
        session.peers = tuple(peer for peer in peers if peer != "diffrax")
        session.skip("diffrax", "on a GPU it is not compared here")
    with machine.limited(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)  # a stiff field is meant to take many steps
        warnings.simplefilter("ignore", KernelWarning)  # engines without a compiler are listed as left out
        facts = machine.facts(device)
        try:
            begin = time.perf_counter()
            for row in _rows(session, SCALES[scale]):
                rows.append(vars(row))
                seconds[row.part] += time.perf_counter() - begin
                begin = time.perf_counter()
        finally:
            session.show()
    return {
        "command": command,
        "scale": scale,
        "repeats": session.rounds,
        "machine": facts,
        "seconds": seconds,
        "skipped": list(session.skipped.items()),
        "rows": rows,
    }


def _rows(session: Session, scale: Scale) -> Iterator[Row]:
    """The rows of all parts, in turn."""
    for name, part in PARTS.items():
        for sizes in scale[name]:
            yield from part.rows(session, *sizes)
