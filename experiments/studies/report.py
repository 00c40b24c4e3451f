"""What a folder says: the records that are there, and what the study makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.studies.folder import records_in
from experiments.studies.records import NotEnoughError, Record
from experiments.studies.registry import study_named
from experiments.studies.study import WORDS, Study, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Findings", "gathered"]


@dataclass(frozen=True)
class Findings:
    """A study with its records, its verdict (or why there is none), its table and its figures."""

    study: Study
    asked: Mapping[str, Any]
    records: Sequence[Record]
    verdict: Verdict | None
    undecided: str
    table: str
    figures: Mapping[str, Figure]

    @property
    def runs(self) -> str:
        """ "12 of 40 runs", "all 40 runs"."""
        done, all_ = len(self.records), len(self.asked["runs"])
        return f"all {all_} runs" if done == all_ else f"{done} of {all_} runs"

    @property
    def word(self) -> str:
        """The verdict in a word or two."""
        return WORDS[self.verdict.word] if self.verdict else "Not decided yet"

    @property
    def sentence(self) -> str:
        """What was found, or what is missing; a part of the runs is always named as one."""
        said = self.verdict.sentence if self.verdict else self.undecided
        partial = len(self.records) < len(self.asked["runs"])
        return f"{said} This is from {self.runs}." if partial else said

    @property
    def commands(self) -> str:
        return "; ".join(self.asked["commands"])

    @property
    def seconds(self) -> float:
        """Of all trainings together, whichever ran side by side."""
        return float(sum(record["seconds"] for record in self.records))

    def made(self, *names: str) -> str:
        """Machines, or versions, in words: everything that was at work on some run, once."""
        told = [
            ", ".join(f"{name} {record['made'][name]}" for name in names if name in record["made"]) for record in self.records
        ]
        return "; ".join(dict.fromkeys(told)) or "no run is done"


def gathered(folder: Path, study: Study | None = None) -> Findings:
    """Read a folder, and ask the study that it is of. Raises: UsageError if it is none of a study that there is."""
    asked, records = records_in(folder)
    study = study_named(asked["study"]) if study is None else study
    verdict, undecided, table, figures = None, "No run is done.", "", {}
    if records:
        try:
            verdict = study.verdict(records)
        except NotEnoughError as error:
            undecided = _as_sentence(str(error))
        try:
            figures = study.figures(records)
        except NotEnoughError:  # the table says what there is
            figures = {}
        try:
            table = study.table(records)
        except NotEnoughError as error:
            table = _as_sentence(str(error))
    return Findings(study, asked, records, verdict, undecided, table, figures)


def _as_sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."
