"""Measure part after part, and write down what was found in the form asked for."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from discretize import KernelWarning, SolverWarning
from experiments.bench import cells, solves
from experiments.bench.first_use import first_rows
from experiments.bench.growth import cell_growth, solve_growth
from experiments.bench.memory import memory_rows
from experiments.bench.output import tables
from experiments.bench.output.files import write
from experiments.bench.peers.registry import named, solver_candidates
from experiments.bench.rows import Row
from experiments.bench.scales import SCALES, Scale
from experiments.bench.solves import Problem
from experiments.bench.stiff import stiff_rows
from experiments.reports import machine
from experiments.usage import UsageError

__all__ = ["measure", "run"]

FEWER = 2  # rounds are enough for what is told without quartiles


@dataclass
class _Notes:
    """What is said on the way, and what was left out, each word once."""

    skipped: dict[str, str] = field(default_factory=dict)

    def tell(self, line: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{line[: os.get_terminal_size(sys.stderr.fileno()).columns - 1]}", end="", file=sys.stderr, flush=True)

    def skip(self, name: str, why: str) -> None:
        self.skipped.setdefault(name, why)

    def clear(self) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def run(
    peers: tuple[str, ...], out: Path | None, scale: str, threads: int | None, repeats: int | None, device: str, command: str
) -> bool:
    """Measure; then a table on stdout, or the file."""
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch finds no GPU here; leave it out to measure on the CPU.")
    record = measure(peers, scale, threads, repeats, device, command)
    if out is None:
        print(tables.document(record), end="")
    else:
        write(out, record)
        print(f"Written to {out}.", file=sys.stderr)
    return True


def measure(
    peers: tuple[str, ...], scale: str, threads: int | None, repeats: int | None, device: str, command: str
) -> dict[str, Any]:
    """Everything, as it goes into the JSON file."""
    notes, rows, seconds = _Notes(), [], {}
    with machine.limited(threads):
        rounds = repeats or SCALES[scale].rounds
        record = {"command": command, "scale": scale, "repeats": rounds, "machine": machine.facts(device)}
        parts = _parts(peers, SCALES[scale], rounds, device, notes)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SolverWarning)  # that a stiff field takes many steps is the point
                warnings.simplefilter("ignore", KernelWarning)  # without a compiler: said among what is left out
                for part, found in parts.items():
                    begin = time.perf_counter()
                    rows += [row.as_json() for row in found]
                    seconds[part] = time.perf_counter() - begin
        finally:
            notes.clear()
    return {**record, "seconds": seconds, "skipped": list(notes.skipped.items()), "rows": rows}


def _parts(peers: tuple[str, ...], scale: Scale, rounds: int, device: str, notes: _Notes) -> dict[str, Iterable[Row]]:
    """Each part as rows to come."""
    settle: Callable[[], None] = torch.cuda.synchronize if device == "cuda" else lambda: None
    common: dict[str, Any] = {"device": device, "skip": notes.skip, "tell": notes.tell, "settle": settle}
    quick: dict[str, Any] = {"skip": notes.skip, "tell": notes.tell}
    if device == "cuda" and "diffrax" in peers:
        peers = tuple(peer for peer in peers if peer != "diffrax")
        notes.skip("diffrax", "on a GPU it is not compared here")

    fewer = min(rounds, FEWER)

    def unrolled() -> Iterator[Row]:
        for sizes, fields in scale.cells:
            x = cells.samples(sizes, device)
            found = cells.candidates(sizes, x, fields, peers, skip=notes.skip)
            yield from cells.measured(sizes, found, x, rounds, notes.tell, settle=settle)

    def solved() -> Iterator[Row]:
        found = named(solver_candidates(peers, scale.methods, notes.skip), "`integrate`", *scale.peer_solves)
        problem = Problem.gated(*scale.solve, device=device)
        yield from solves.measured(problem, found, rounds, **quick, settle=settle)

    def grown() -> Iterator[Row]:
        for sweep in scale.cell_sweeps:
            yield from cell_growth(sweep, scale.cell_base, peers, fewer, **common)
        found = named(solver_candidates(peers, ("tsit5",), notes.skip), *scale.swept)
        for sweep in scale.solve_sweeps:
            yield from solve_growth(sweep, scale.solve_base, found, fewer, **common)
        methods = ("tsit5",) if scale.few else ("tsit5", "rodas5p")
        found = named(solver_candidates(peers, methods, notes.skip, stiff=True), *scale.swept)
        yield from solve_growth(scale.stiffness, scale.stiff_base, found, fewer, **common)

    def mixed() -> Iterator[Row]:
        found = named(solver_candidates(peers, ("tsit5",), notes.skip, stiff=True), *scale.swept)
        found = [candidate for candidate in found if "kvaerno" not in candidate.name]  # it does not share its pace either
        yield from stiff_rows(scale.stiff, found, fewer, **common)

    threads = torch.get_num_threads()
    return {
        "cells": unrolled(),
        "solves": solved(),
        "growth": grown(),
        "stiff": mixed(),
        "memory": memory_rows(
            scale.lengths, scale.long, peers, device=device, threads=threads, few=scale.few, begin=scale.swept, **quick
        ),
        "first use": first_rows(
            min(rounds, scale.first_rounds), peers, scale.first_calls, device=device, threads=threads, tell=notes.tell
        ),
    }
