r"""Writes docs/time-steps.md, the study as a short paper, every number of it from the records.

python -m experiments.studies.claims.time_steps.page            from the tables in docs/tables/ctrnn-steps
python -m experiments.studies.claims.time_steps.page DIR        from the folder of a study, whose tables it writes there first
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

import discretize
from experiments.reports.pages import write_pages
from experiments.reports.spreads import Spread, number
from experiments.reports.templates import ENVIRONMENT
from experiments.studies.claims.time_steps import measures
from experiments.studies.claims.time_steps.design import EULER, RHYTHM, SAMPLED, SLOW, TASKS, TUTORIAL
from experiments.studies.claims.time_steps.normal_form import left_in_equation
from experiments.studies.claims.time_steps.prediction import eigenvalue, predicted_r2
from experiments.studies.claims.time_steps.tables import NAMES, gone, how_many, in_words, learned, lost, resting, spread_of
from experiments.studies.folder import records_in
from experiments.studies.found import Found
from experiments.studies.report import StudyReport, report_of
from experiments.studies.results import Results, where
from experiments.studies.tables import write_tables
from experiments.tasks.cognitive import Rhythm

__all__ = ["PAGE", "TABLES", "text"]

DOCS = Path(__file__).resolve().parents[4] / "docs"
PAGE, TABLES = DOCS / "time-steps.md", DOCS / "tables" / "ctrnn-steps"
DIGITS = 5


@dataclass(frozen=True)
class Cell:
    """Holds the networks of one cell of the design, under their step and under their equation."""

    rows: pd.DataFrame

    @property
    def own(self) -> Spread | str:
        return spread_of(learned(self.rows), "own") or "–"

    @property
    def exact(self) -> Spread | str:
        return spread_of(learned(self.rows), "exact") or "–"

    @property
    def fall(self) -> str:
        """Say from what to what the mean score falls."""
        own, exact = (spread_of(learned(self.rows), name) for name in ("own", "exact"))
        return f"{number(own.mean)} to {exact.mean:.2f}" if own and exact else "–"

    @property
    def lost(self) -> str:
        return in_words(lost(self.rows))

    @property
    def learned(self) -> str:
        return how_many(self.rows)

    @property
    def size(self) -> str:
        return str(spread_of(learned(self.rows), "size") or "–")


@dataclass(frozen=True)
class HeldInput:
    """Holds what the networks of one cell do while an input is held."""

    rows: pd.DataFrame

    def mean(self, column: str) -> str:
        found = spread_of(self.rows, column)
        return f"{found.mean:.2f}" if found else "–"

    def spread(self, column: str) -> str:
        return str(spread_of(self.rows, column) or "–")

    def total(self, column: str) -> int:
        return int(self.rows[column].sum())

    @property
    def resting(self) -> str:
        return resting(self.rows) or "–"

    @property
    def gone(self) -> str:
        return gone(self.rows)

    @property
    def sizes(self) -> tuple[str, str, str]:
        """Write what the equation keeps of the amplitude, what is foretold by the growth at the rest point, how far apart."""
        rows = self.rows[self.rows["amplitude"] > measures.MOVING].dropna(subset=["a", "stepped a"])
        kept = rows["exact amplitude"].fillna(0) / rows["amplitude"]
        # 0 also where neither grows: of two rest points that are stable the quotient is positive, and says nothing.
        foretold = (rows["a"].clip(lower=0) / rows["stepped a"]).clip(lower=0) ** 0.5
        return tuple(f"{float(column.median()):.2f}" for column in (kept, foretold, (kept - foretold).abs()))  # type: ignore[return-value]

    @property
    def moving(self) -> str:
        """Write the shares of trajectories that move on, by the step and in the equation."""
        return f"{self.mean('moving')}, {self.mean('exact moving')}"


def text(found: StudyReport) -> str:
    """Write the page of a report."""
    results: Results = found.results

    def cell(task: str, step: str, dt: float, units: str = "tanh") -> Cell:
        return Cell(where(results.rows, kind="score", task=task, step=step, dt=dt, units=units))

    def most_lost(step: str, dt: float) -> str:
        found = {task: lost(cell(task, step, dt).rows).mean for task in TASKS[:-1] if len(learned(cell(task, step, dt).rows))}
        task = max(found, key=found.__getitem__)
        return f"{found[task]:.3f} ({task})"

    def held(step: str, dt: float, task: str = RHYTHM, units: str = "tanh", x: str | None = None) -> HeldInput:
        chosen = {} if x is None else {"held": x}
        return HeldInput(where(results.rows, kind="held", task=task, step=step, dt=dt, units=units, **chosen))

    return ENVIRONMENT.get_template("studies/claims/time_steps/page.md.jinja").render(
        found=found,
        cell=cell,
        most_lost=most_lost,
        sampled=SAMPLED,
        held=held,
        predicted=lambda step, dt: f"{predicted_r2(step, dt, Rhythm()):.2f}",
        eigenvalue=eigenvalue,
        left=left_in_equation,
        published=Found.read(TABLES.with_name("published-steps")),
        euler_step=discretize.Euler(),
        all_gone=gone(where(results.rows, kind="held", task=RHYTHM, step=EULER, held="0")),
        fixed=HeldInput(where(results.rows, kind="held", step=EULER)),
        tables={number: table.markdown() for number, table in enumerate(found.filled)},
        tasks=TASKS,
        dts=measures.DTS,
        names=NAMES,
        euler=EULER,
        rhythm=RHYTHM,
        slow=SLOW,
        tutorial=TUTORIAL,
        number=number,
    )


def main(folder: Path | None = None) -> None:
    """Write the tables of a folder, if one is given, and the page of the tables."""
    if folder is not None:
        asked, records = records_in(folder)
        TABLES.mkdir(parents=True, exist_ok=True)
        write_tables(TABLES, asked, records, DIGITS)
    write_pages({PAGE: text(report_of(TABLES))})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
