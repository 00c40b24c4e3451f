r"""Records what studies are made of: digests, by which those are known that have to be judged anew.

    claim    a study's file in `claims`, those of `claims` that it imports, and the words beside them
    judge    all else of experiments that these import: how runs are described, judged and shown

Of a test of studies the same, and `test`, the file itself. Tests of studies and of their tables run every day where one of these
is another one; all of them in the slow run, and once a week. Code of ctrnn and discretize is in no digest: what it computes has
tests of its own, and the runs of a study, which take hours, are not made again with it.

    python -m experiments.studies.records                 judges what changed from docs/tables, and writes records.json
    python -m experiments.studies.records --everything    judges all studies
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import tyro

from derivations.records import digest, followed
from experiments.reports.pages import write_pages
from experiments.studies.found import REPORT, folders_of
from experiments.studies.registry import OWN
from experiments.usage import UsageError

__all__ = ["changed", "made_of", "main", "tests_of_claims"]

HERE = Path(__file__).parent
ROOT, CLAIMS, RECORDS = HERE.parents[1], HERE / "claims", HERE / "records.json"
TESTS = ROOT / "tests" / "experiments" / "studies"
TABLES = ROOT / "docs" / "tables"
# Of the runs of any study, which stand in this folder too.
OF_ANY_STUDY = ("test_cost", "test_export", "test_on_ray", "test_records", "test_slurm", "test_studies", "test_verdicts")


@cache
def changed() -> dict[str, tuple[str, ...]]:
    """Return the studies and tests that are made of something else by now, and what that is, of the parts above."""
    before = json.loads(RECORDS.read_text(encoding="utf-8")) if RECORDS.is_file() else {}
    others = {name: _differs(now, before.get(name, {})) for name, now in made_of().items()}
    return {name: parts for name, parts in others.items() if parts}


def made_of() -> dict[str, dict[str, str]]:
    """Compute the digests of all studies, and of the tests of claims, by the parts above."""
    studies = {name: _digests(_file(name)) for name in OWN}
    return {**studies, **{test.stem: {"test": digest([test]), **_digests(test)} for test in tests_of_claims()}}


def tests_of_claims() -> list[Path]:
    """Return the files of tests that are about some studies, and not about how any study is run."""
    return [test for test in sorted(TESTS.glob("test_*.py")) if test.stem not in OF_ANY_STUDY]


def _differs(now: dict[str, str], before: dict[str, str]) -> tuple[str, ...]:
    return tuple(part for part, value in now.items() if before.get(part) != value)


def _digests(file: Path) -> dict[str, str]:
    named = re.findall(r'study_named\("([\w-]+)"', file.read_text(encoding="utf-8"))
    ours = {each for start in (file, *map(_file, named)) for each in followed(start) if each.is_relative_to(HERE.parent)}
    claims = {each for each in ours if each.is_relative_to(CLAIMS)}
    beside = {text for each in claims for pattern in (f"{each.stem}.*", "*.csv") for text in each.parent.glob(pattern)}
    return {"claim": digest(sorted(claims | beside)), "judge": digest(sorted(ours - claims))}


def _file(study: str) -> Path:
    return ROOT.joinpath(*OWN[study].partition(":")[0].split(".")).with_suffix(".py")


def _judged_otherwise(names: Iterable[str]) -> list[str]:
    """Name the studies whose record is not what the tables of their runs give."""
    from experiments.studies.report import report_of  # noqa: PLC0415 (torch)

    folders = [folder for name in names for folder in folders_of(TABLES / name) if (folder / "runs.csv").is_file()]
    records = {folder: (folder / REPORT).read_text(encoding="utf-8") for folder in folders}
    others = [folder for folder in folders if report_of(folder).found.text() != records[folder]]
    return [folder.relative_to(TABLES).as_posix() for folder in others]


def main(everything: bool = False) -> None:
    """Judge studies from the tables of their runs, and record what they are made of. Raises: UsageError where one is another."""
    if others := _judged_otherwise(OWN if everything else [name for name in OWN if name in changed()]):
        raise UsageError(f"the tables of {', '.join(others)} give another report than docs/tables has of them")
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(parts)}" for name, parts in made_of().items())
    write_pages({RECORDS: f"{{\n{lines}\n}}\n"})


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except UsageError as error:
        sys.exit(f"experiments.studies.records: {error}")
