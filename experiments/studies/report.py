"""Reads a folder: the records that are there, and the study's verdict, tables and figures of them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.reports.spreads import NotEnoughError
from experiments.reports.svg import inline_svg, with_colours
from experiments.studies.folder import COMMIT, PROCESSOR_SECONDS, records_in
from experiments.studies.found import Found
from experiments.studies.registry import study_named
from experiments.studies.results import Results
from experiments.studies.specs import FilledTable
from experiments.studies.study import SMOKE, Study
from experiments.studies.tables import ABOUT_TABLES, read_tables
from experiments.studies.verdicts import ClaimVerdict, NoVerdict

__all__ = ["StudyReport", "report_of"]

MACHINE = ("processor", "vectors", "cores", "threads")
VERSIONS = ("python", "ctrnn", "torch", "torchdiffeq", "compiler")


@dataclass(frozen=True)
class StudyReport:
    """Holds a study with its results, its verdict (or why there is none), its tables and its figures."""

    study: Study
    asked: Mapping[str, Any]
    results: Results
    verdict: ClaimVerdict | NoVerdict
    filled: Sequence[FilledTable]
    figures: Mapping[str, Figure]

    @property
    def diverged(self) -> list[str]:
        """Write a sentence for each training whose loss was no longer finite."""
        return [f"{key}: training diverged at step {step}." for key, step in self.results.diverged.items()]

    @property
    def tables(self) -> str:
        """Write the tables, and which trainings diverged, in Markdown."""
        return "\n\n".join(filter(None, [*(table.markdown() for table in self.filled), "\n".join(self.diverged)]))

    @property
    def runs(self) -> str:
        """Write "12 of 40 runs" or "all 40 runs"."""
        done, all_ = len(self.results.records), len(self.asked["runs"])
        return f"all {all_} runs" if done == all_ else f"{done} of {all_} runs"

    @property
    def word(self) -> str:
        """Return the verdict in a word or two."""
        return self.verdict.heading

    @property
    def sentence(self) -> str:
        """Say what was found, or what is missing; a part of the runs is always named as one."""
        return self.found.sentence

    def markdown(self, place: Callable[[str], str]) -> str:
        """Write what was asked, claimed and found; `place` says where the picture of a figure is."""
        return self.found.markdown(self.study, place)

    @property
    def found(self) -> Found:
        """Return what this says without its runs, to be kept."""
        verdict = self.verdict if isinstance(self.verdict, ClaimVerdict) else ClaimVerdict([], summary=self.verdict.sentence)
        return Found(
            heading=self.word,
            parts=[(part.begun, part.answer, part.numbers) for part in verdict.parts],
            summary=verdict.summary.strip(),
            another=verdict.another,
            runs=self.runs,
            partial=len(self.results.records) < len(self.asked["runs"]),
            figures=[*self.figures],
            tables=self.filled,
            diverged=self.results.diverged,
            commands=self.commands,
            cost=self.cost,
            machine=self.machine,
            versions=self.versions,
            commits=self.commits,
        )

    def svg(self, name: str) -> str:
        """Draw a figure as a file of its own."""
        key, caption = f"{self.study.name}-{name}", self.study.figures[name].caption
        return with_colours(inline_svg(self.figures[name], key, caption, self.sentence))

    def _repr_markdown_(self) -> str:
        """Write the whole of it for notebooks, the figures inside."""
        return self.markdown(lambda name: f"data:image/svg+xml;base64,{base64.b64encode(self.svg(name).encode()).decode()}")

    @property
    def commands(self) -> str:
        return "; ".join(self.asked["commands"])

    @property
    def seconds(self) -> float:
        """Sum the seconds of all trainings, whichever ran side by side."""
        return float(sum(record["seconds"] for record in self.results.records))

    @property
    def processor_seconds(self) -> float | None:
        """Sum those of all runs, with what the last call measured after training; None where a record has none."""
        made = [record["made"] for record in self.results.records]
        return sum(float(one[PROCESSOR_SECONDS]) for one in made) if all(PROCESSOR_SECONDS in one for one in made) else None

    @property
    def cost(self) -> str:
        # Of runs that were only measured anew the training is not in it.
        known = self.processor_seconds is not None and self.processor_seconds >= self.seconds
        whole = f"; {self.processor_seconds:,.0f} s of the processor with all tests" if known else ""
        return f"{self.seconds:,.0f} s of training in all{whole}"

    @property
    def machine(self) -> str:
        return self._made(MACHINE)

    @property
    def versions(self) -> str:
        return self._made(VERSIONS)

    @property
    def commits(self) -> str:
        """Return the commits at which runs were begun; "" where one has none."""
        made = [record["made"] for record in self.results.records]
        return ", ".join(dict.fromkeys(one[COMMIT] for one in made)) if all(COMMIT in one for one in made) else ""

    def _made(self, names: tuple[str, ...]) -> str:
        """Return everything of these names that was at work on some run, once."""
        made = [record["made"] for record in self.results.records]
        each = (", ".join(f"{name} {one[name]}" for name in names if name in one) for one in made)
        return "; ".join(dict.fromkeys(each)) or "no run is done"


def report_of(folder: Path, study: Study | None = None) -> StudyReport:
    """Read a folder, or the tables of one, and the study that it is of. Raises: UsageError if it is of none that there is."""
    of_tables = (folder / ABOUT_TABLES).exists() and not (folder / "study.json").exists()
    asked, records = read_tables(folder, study) if of_tables else records_in(folder)
    study = study_named(asked["study"]) if study is None else study
    results = Results(records)
    verdict = _verdict(study, asked["scale"], results)
    if not records:
        return StudyReport(study, asked, results, verdict, (), {})
    filled = [table.filled(results) for table in study.tables]
    return StudyReport(study, asked, results, verdict, filled, _figures(study, results))


def _verdict(study: Study, scale: str, results: Results) -> ClaimVerdict | NoVerdict:
    if scale == SMOKE:
        return NoVerdict("No verdict", "Nothing was trained to decide this.")
    if not results.records:
        return NoVerdict("Not decided yet", "No run is done.")
    try:
        verdict = study.verdict(results)
        return verdict if isinstance(verdict, NoVerdict) else replace(verdict, another=study.another.get(scale, ""))
    except NotEnoughError as error:
        return NoVerdict("Not decided yet", f"{str(error)[:1].upper()}{str(error)[1:].rstrip('.')}.")


def _figures(study: Study, results: Results) -> dict[str, Figure]:
    drawn = {}
    for name, figure in study.figures.items():
        try:
            drawn[name] = figure.draw(results)
        except NotEnoughError:  # the tables say what there is
            continue
    return drawn
