r"""Cost of forward + backward over one size at a time, all else held, and the exponent of the power law that fits.

    seconds ~ x^p      p is the slope of log(seconds) over log(x), least squares over all points of the sweep

Cells over length, batch and hidden size; solves over these, over the error wanted, and over stiffness: the ratio of the
largest to the smallest rate of a leaky field. Every solve is at the loosest tolerance that meets its error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from experiments.bench.parts.cells import CellSizes, cell_rows
from experiments.bench.parts.problems import gated, stiff_problem
from experiments.bench.parts.solves import FEWER, solve_rows, solver_candidates
from experiments.bench.peers.registry import named
from experiments.bench.rows import BACKWARD, Row, medians
from experiments.bench.session import Session

__all__ = ["cell_growth", "exponent", "growth_rows", "solve_growth", "sweeps"]

LETTERS = {"time": "T", "batch": "B", "hidden": "H"}


def growth_rows(session: Session, what: str, varied: str, points: Sequence[float], *more: object) -> Iterator[Row]:
    """Time "cells" or "solves" over these points of a size, or of "error" or "stiffness"."""
    grown = {"cells": cell_growth, "solves": solve_growth}[what]
    session = replace(session, rounds=min(session.rounds, FEWER))  # shares what is skipped
    yield from grown(session, varied, points, *more)  # type: ignore[operator]


def cell_growth(session: Session, varied: str, points: Sequence[float], base: CellSizes) -> Iterator[Row]:
    """Time the gated cell by every engine, torch.nn.GRU, and the loop."""
    for x in points:
        facts = {"sweep": f"cells over {varied}", "x": x, "base": str(base)}
        yield from cell_rows(session, replace(base, **{varied: int(x)}), ("gated",), "growth", (BACKWARD,), **facts)


def solve_growth(
    session: Session,
    varied: str,
    points: Sequence[float],
    base: Mapping[str, int],
    methods: Sequence[str] = ("tsit5",),
    names: Sequence[str] = ("",),
) -> Iterator[Row]:
    """Time the candidates at equal measured error."""
    stiff = varied == "stiffness"
    candidates = named(solver_candidates(session, methods, "stiff" if stiff else "held"), *names)
    words = ", ".join(f"{LETTERS[key]} {value}" for key, value in base.items())
    for x in points:
        sizes = {key: int(x) if key == varied else size for key, size in base.items()}
        problem = stiff_problem(x, **sizes, device=session.device) if stiff else gated(**sizes, device=session.device)
        target = x if varied == "error" else problem.target
        problem = replace(problem, name=f"{problem.name}, error {target:g}", target=target)
        facts = {"sweep": f"solves over {varied}", "x": x, "base": words}
        yield from solve_rows(session, problem, candidates, "growth", (BACKWARD,), **facts)


def sweeps(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Tabulate median seconds, candidates by x, for each sweep."""
    growing = rows[rows["part"] == "growth"]
    return {str(sweep): medians(same, "x") for sweep, same in growing.groupby("sweep", sort=False)} if len(growing) else {}


def exponent(seconds: pd.Series) -> float | None:
    """Fit p of seconds ~ x^p; None for fewer than two points."""
    known = seconds.dropna()
    if len(known) < 2:
        return None
    return float(np.polyfit(np.log(known.index.to_numpy(float)), np.log(known.to_numpy(float)), 1)[0])
