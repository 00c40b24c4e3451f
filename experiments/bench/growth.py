r"""How cost grows: forward + backward over one size at a time, all else held, with the exponent of the power law that fits.

    seconds ~ x^p      p is the slope of log(seconds) over log(x), least squares over all points of the sweep

Cells over length, batch and hidden size; solves over these, over the error asked for, and over stiffness: the ratio of the
largest to the smallest rate of a leaky field. Every solve is at the loosest tolerance that meets its error, here too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

import ctrnn
from experiments.bench import cells, solves
from experiments.bench.cells import CellSizes
from experiments.bench.rows import BACKWARD, Row
from experiments.bench.solves import Candidate, Problem

__all__ = ["Sweep", "cell_growth", "exponent", "solve_growth", "stiff_problem", "sweeps"]

Words = Callable[[str], None]


@dataclass(frozen=True)
class Sweep:
    """A name, what x is, and the points; a word of `Problem.gated` and `CellSizes` is varied, or "error" or "stiffness"."""

    varied: str
    points: tuple[float, ...]


def cell_growth(
    sweep: Sweep, base: CellSizes, peers: Sequence[str], rounds: int, *, device: str, skip: Callable[[str, str], None],
    tell: Words, settle: Callable[[], None],
) -> Iterator[Row]:  # fmt: skip
    """The gated cell by every engine, torch.nn.GRU, and the loop."""
    for point in sweep.points:
        sizes = replace(base, **{sweep.varied: int(point)})
        x = cells.samples(sizes, device)
        found = cells.candidates(sizes, x, ("gated",), peers, skip=skip)
        facts = {"sweep": f"cells over {sweep.varied}", "x": point, "base": str(base)}
        yield from cells.measured(sizes, found, x, rounds, tell, (BACKWARD,), "growth", facts, settle)


def solve_growth(
    sweep: Sweep, base: dict[str, int], candidates: Sequence[Candidate], rounds: int, *, device: str,
    skip: Callable[[str, str], None], tell: Words, settle: Callable[[], None],
) -> Iterator[Row]:  # fmt: skip
    """The candidates at equal measured error."""
    for point in sweep.points:
        target = point if sweep.varied == "error" else 1e-6
        if sweep.varied == "stiffness":
            problem = stiff_problem(point, **base, device=device)
        else:
            varied = {} if sweep.varied == "error" else {sweep.varied: int(point)}
            problem = Problem.gated(**{**base, **varied}, device=device)
        facts: dict[str, Any] = {"sweep": f"solves over {sweep.varied}", "x": point, "base": _words(base)}
        yield from solves.measured(
            replace(problem, name=f"{problem.name}, error {target:g}"), candidates, rounds,
            skip=skip, tell=tell, target=target, works=(BACKWARD,), part="growth", facts=facts, settle=settle,
        )  # fmt: skip


def stiff_problem(ratio: float, time: int, batch: int, hidden: int, device: str = "cpu") -> Problem:
    """A leaky field whose rates go from 1 to `ratio`, evenly in their logarithm."""
    generator = torch.Generator().manual_seed(0)
    field: Any = ctrnn.leaky(4, hidden, alpha=1.0, per_unit=True, dtype=torch.float64, generator=generator)
    with torch.no_grad():
        field.rate.log_alpha.copy_(torch.linspace(0, math.log(ratio), hidden, dtype=torch.float64))
    xs = torch.randn(time, batch, 4, dtype=torch.float64, generator=generator)
    name = f"rates 1 to {ratio:g}, T {time}, B {batch}, H {hidden}"
    return Problem.of(name, field.to(device), xs.to(device))


def sweeps(rows: Iterable[Row]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """sweep -> candidate -> (x, median seconds), by x."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in rows:
        if row.part == "growth":
            lines = found.setdefault(row.facts["sweep"], {})
            lines.setdefault(row.candidate, []).append((row.facts["x"], row.median))
    return {sweep: {name: sorted(points) for name, points in lines.items()} for sweep, lines in found.items()}


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """p of seconds ~ x^p; None for fewer than two points."""
    if len({x for x, _ in points}) < 2:
        return None
    return statistics.linear_regression([math.log(x) for x, _ in points], [math.log(y) for _, y in points]).slope


def _words(base: dict[str, int]) -> str:
    letters = {"time": "T", "batch": "B", "hidden": "H"}
    return ", ".join(f"{letters[key]} {value}" for key, value in base.items())
