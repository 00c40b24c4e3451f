r"""Cost of forward + backward over one size at a time, all else held, and the exponent of the power law that fits.

    seconds ~ x^p      p is the slope of log(seconds) over log(x), least squares over all points of the sweep

Cells over length, batch and hidden size; solves over these, over the error wanted, and over stiffness: the ratio of the
largest to the smallest rate of a leaky field. Every solve is at the loosest tolerance that meets its error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from experiments.bench.parts.cells import CellSizes, cell_rows
from experiments.bench.parts.problems import Problem, stiff_problem
from experiments.bench.parts.solves import TARGET, SolveCandidate, solve_rows
from experiments.bench.rows import BACKWARD, Row, medians
from experiments.bench.session import Session

__all__ = ["Sweep", "cell_growth", "exponent", "solve_growth", "sweeps"]

LETTERS = {"time": "T", "batch": "B", "hidden": "H"}


@dataclass(frozen=True)
class Sweep:
    """Points of one size: a name of `Problem.gated` or `CellSizes`, or "error" or "stiffness"."""

    varied: str
    points: tuple[float, ...]


def cell_growth(session: Session, sweep: Sweep, base: CellSizes) -> Iterator[Row]:
    """Time the gated cell by every engine, torch.nn.GRU, and the loop."""
    for x in sweep.points:
        sizes = replace(base, **{sweep.varied: int(x)})
        facts = {"sweep": f"cells over {sweep.varied}", "x": x, "base": str(base)}
        yield from cell_rows(session, sizes, ("gated",), "growth", (BACKWARD,), **facts)


def solve_growth(session: Session, sweep: Sweep, base: Mapping[str, int], candidates: Sequence[SolveCandidate]) -> Iterator[Row]:
    """Time the candidates at equal measured error."""
    words = ", ".join(f"{LETTERS[key]} {value}" for key, value in base.items())
    for x in sweep.points:
        target = x if sweep.varied == "error" else TARGET
        if sweep.varied == "stiffness":
            problem = stiff_problem(x, **base, device=session.device)
        else:
            sizes = {key: int(x) if key == sweep.varied else size for key, size in base.items()}
            problem = Problem.gated(**sizes, device=session.device)
        problem = replace(problem, name=f"{problem.name}, error {target:g}")
        facts = {"sweep": f"solves over {sweep.varied}", "x": x, "base": words}
        yield from solve_rows(session, problem, candidates, target, "growth", (BACKWARD,), **facts)


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
