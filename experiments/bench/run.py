"""Run a comparison part by part, and write its record in the form that the output file's ending names."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ctrnn.storage.files import write_atomically
from discretize import KernelWarning, SolverWarning
from experiments.bench.output.page import PARTS, document
from experiments.bench.parts.cells import cell_rows, ensemble_rows, layer_rows
from experiments.bench.parts.doors import door_rows
from experiments.bench.parts.drop_in import drop_in_rows
from experiments.bench.parts.first_use import first_rows
from experiments.bench.parts.growth import cell_growth, solve_growth
from experiments.bench.parts.live import live_rows
from experiments.bench.parts.memory import memory_rows
from experiments.bench.parts.noise import noise_rows
from experiments.bench.parts.problems import Delayed, Problem, Starts
from experiments.bench.parts.solves import solve_rows, stiff_rows
from experiments.bench.parts.tutorial import tutorial_rows
from experiments.bench.peers.registry import delay_candidates, named, noisy_peers, solver_candidates
from experiments.bench.rows import Row
from experiments.bench.scales import SCALES, Scale
from experiments.bench.session import Session
from experiments.files import write_json
from experiments.reports import machine
from experiments.usage import UsageError

__all__ = ["measure", "run"]

FEWER = 2  # rounds are enough for what is shown without quartiles


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
    session = Session(peers, device, repeats or SCALES[scale].rounds)
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
    quick = replace(session, rounds=min(session.rounds, FEWER))  # shares what is skipped
    for sizes, fields in scale.cells:
        yield from cell_rows(session, sizes, fields)
    for sizes in scale.tutorial:
        yield from tutorial_rows(session, sizes)
    for sizes in scale.doors:
        yield from door_rows(session, sizes)
    for programs in scale.drop_in:
        yield from drop_in_rows(session, programs)
    for sizes in scale.live:
        yield from live_rows(session, sizes)
    for sizes in scale.layers:
        yield from layer_rows(session, sizes)
    for sizes in scale.ensembles:
        yield from ensemble_rows(session, sizes, scale.networks)
    for sizes in scale.noise:
        yield from noise_rows(session, sizes, noisy_peers)

    found = named(solver_candidates(session, scale.methods), "`integrate`", *scale.peer_solves)
    yield from solve_rows(session, Problem.gated(*scale.solve, device=session.device), found)

    found = named(
        solver_candidates(session, ("tsit5",)), "`integrate`", "torchdiffeq dopri8, a call", "torchdiffeq dopri5, `jump_t`"
    )
    for name in scale.own_solves:
        yield from solve_rows(session, Problem.own(name, *scale.solve, device=session.device), found)

    lorenz, found = Starts.lorenz(scale.starts, session.device), solver_candidates(session, ("tsit5",), "starts")
    yield from solve_rows(session, lorenz, found, Starts.target, "starts")

    for late in scale.delayed:
        problem = Delayed.network(*late, device=session.device)
        yield from solve_rows(session, problem, delay_candidates(session), Delayed.target, "delays")

    for sweep in scale.cell_sweeps:
        yield from cell_growth(quick, sweep, scale.cell_base)
    found = named(solver_candidates(session, ("tsit5",)), *scale.swept)
    for sweep in scale.solve_sweeps:
        yield from solve_growth(quick, sweep, scale.solve_base, found)
    methods = ("tsit5",) if scale.few else ("tsit5", "rodas5p")
    found = named(solver_candidates(session, methods, "stiff"), *scale.swept)
    yield from solve_growth(quick, scale.stiffness, scale.stiff_base, found)

    found = named(solver_candidates(session, ("tsit5",), "stiff"), *scale.swept)
    explicit = [candidate for candidate in found if "kvaerno" not in candidate.name]  # these are slowed by the stiff sample
    yield from stiff_rows(quick, scale.stiff, explicit)

    yield from memory_rows(session, scale.lengths, scale.long, scale.few, scale.swept)
    yield from first_rows(replace(session, rounds=min(session.rounds, scale.first_rounds)), scale.first_calls)
