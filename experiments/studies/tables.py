r"""Writes the records of a study as files for other programs, and reads its tables again.

    tables.json    name and scale of the study, and the commands that made it
    runs.csv       a row a run: axes, measures, seconds, and by which machine and versions
    rows.csv       a row a row that was measured
    models/KEY.safetensors       the trained model, as `ctrnn.load` reads it

Words are in quotation marks and numbers are not, so that "1" stays a word; what was not measured is empty, a list is words.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ctrnn.storage.files import read_file
from experiments.files import MOST_JSON, not_writable, ready_folder, write_json
from experiments.studies.folder import configuration_of, kept, opened, place_of, records_in
from experiments.studies.registry import study_named
from experiments.studies.study import Record, Study, data_presumed, data_root
from experiments.usage import UsageError

__all__ = ["ABOUT_TABLES", "csv_text", "export", "read_tables", "restore", "write_tables"]

ABOUT_TABLES = "tables.json"  # not study.json: tables may be written into the folder of the study itself
ABOUT = ("study", "scale", "commands")
OF_RUNS = ("seconds", "diverged")  # columns of runs.csv that are no measure


def write_tables(out: Path, asked: Mapping[str, Any], records: Sequence[Record], digits: int | None = None) -> None:
    """Write records; `digits`: to how many significant ones numbers are rounded, None for all."""
    axes = list(dict.fromkeys(axis for one in records for axis in one["point"]))
    runs = [
        {"key": one["key"], **one["point"], **one["measures"], **{name: one[name] for name in OF_RUNS}, **one["made"]}
        for one in records
    ]
    rows = [{"key": one["key"], **one["point"], **row} for one in records for row in one["rows"]]
    write_json(out / ABOUT_TABLES, {name: asked[name] for name in ABOUT})
    for name, lines in (("runs.csv", runs), ("rows.csv", rows)):
        (out / name).write_text(csv_text(lines, ["key", *axes], digits), encoding="utf-8", newline="")


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = (), digits: int | None = None) -> str:
    """Write rows as text, those columns first."""
    columns, text = list(dict.fromkeys([*columns, *(name for row in rows for name in row)])), io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(name), digits) for name in columns] for row in rows)
    return text.getvalue()


def _cell(value: Any, digits: int | None) -> Any:
    if isinstance(value, list | tuple):
        return json.dumps([_cell(one, digits) for one in value])
    if isinstance(value, bool):
        return int(value)
    return float(f"{value:.{digits}g}") if isinstance(value, float) and digits is not None else value


def read_tables(folder: Path, study: Study | None = None) -> tuple[dict[str, Any], list[Record]]:
    """Read what `write_tables` wrote, as `records_in` reads a folder. Raises: UsageError for what is no such folder."""
    try:
        asked = json.loads(read_file(folder / ABOUT_TABLES, MOST_JSON))
        if sorted(asked) != sorted(ABOUT):
            raise ValueError
        runs, rows = _read(folder / "runs.csv"), _read(folder / "rows.csv")
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(
            f"{folder} has no tables of a study, tables.json, runs.csv and rows.csv, that can be read: {error}"
        ) from None
    study = study_named(asked["study"]) if study is None else study
    with data_presumed():
        expected = {run.key: run for run in study.runs(asked["scale"])}
    asked["runs"] = {key: configuration_of(run) for key, run in expected.items()}
    return asked, list(_records(expected, runs, rows))


def _records(expected: Mapping[str, Any], runs: Iterable[dict[str, Any]], rows: Iterable[dict[str, Any]]) -> Iterator[Record]:
    measured: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        measured.setdefault(row["key"], []).append(row)
    for line in runs:
        run = expected.get(line["key"])
        if run is None:
            raise UsageError(f"the tables have a run {line['key']!r}, which the study has no more.")
        known = {"key", *run.point, *OF_RUNS}
        values = {name: value for name, value in line.items() if name not in known}
        yield {
            "key": run.key,
            "point": run.point,
            "configuration": configuration_of(run),
            "measures": {name: value for name, value in values.items() if not isinstance(value, str)},
            "rows": [{name: value for name, value in row.items() if name not in known} for row in measured.get(run.key, [])],
            "seconds": line["seconds"],
            "diverged": None if line.get("diverged") is None else int(line["diverged"]),
            "made": {name: value for name, value in values.items() if isinstance(value, str)},
        }


def _read(file: Path) -> list[dict[str, Any]]:
    text = io.StringIO(read_file(file, MOST_JSON).decode(), newline="")
    columns, *lines = csv.reader(text, quoting=csv.QUOTE_NONNUMERIC)
    return [{name: _value(cell) for name, cell in zip(columns, line, strict=True) if cell != ""} for line in lines]


def _value(cell: Any) -> Any:
    return json.loads(cell) if isinstance(cell, str) and cell.startswith("[") else cell


def restore(tables: Path, out: Path) -> str:
    """Write the folder that tables are of, without its models, so that `ctrnn study run` goes on in it; say so in words.

    Records that are there already stay: they have all their digits. Data need not be there: `run` takes them from the folder of
    --data, else from data, and from no other.
    """
    asked, records = read_tables(tables)
    study = study_named(asked["study"])
    command = asked["commands"][0] if asked["commands"] else ""
    out.mkdir(parents=True, exist_ok=True)
    with data_presumed():
        runs = study.runs(asked["scale"])
    opened(out, study.name, asked["scale"], runs, {"command": command})
    for record in records:
        if kept(out, record["key"], record["configuration"]) is not None:
            continue
        place_of(out, record["key"]).mkdir(parents=True, exist_ok=True)
        write_json(place_of(out, record["key"]) / "rows.json", record)
    left = study.left_out()
    more = f"; to go on, put its data into {data_root()}, or restore it with --data DIR" if left else ""
    return f"{out}: {len(records)} of {len(asked['runs'])} runs of {study.name}, {asked['scale']}{more}"


def export(folder: Path, out: Path) -> str:
    """Write what the records of a study's folder say, and its models, into another folder; return in words what was written.

    A run without a model, as one whose record alone was copied here, or that diverged in its first step, has its rows only.
    """
    import ctrnn  # noqa: PLC0415
    from experiments.models.fields import MODULES  # noqa: PLC0415
    from experiments.runs.checkpoints import NEWEST, PREVIOUS  # noqa: PLC0415 (torch)
    from experiments.runs.folder import CONFIG, load  # noqa: PLC0415

    asked, records = records_in(folder)
    ready_folder(out)
    places = {one["key"]: place_of(folder, one["key"]) for one in records}
    models = {key: here for key, here in places.items() if (here / CONFIG).exists()}
    models = {key: here for key, here in models.items() if (here / NEWEST).exists() or (here / PREVIOUS).exists()}
    try:
        write_tables(out, asked, records)
        (out / "models").mkdir(exist_ok=True)
        trained = {key: load(here) for key, here in models.items()}
        named = {key: model for key, (model, configuration) in trained.items() if configuration.field not in MODULES}
        for key, model in named.items():
            ctrnn.save(out / "models" / f"{key}.safetensors", model)
    except OSError as error:
        raise not_writable(out, error) from None
    runs = f"{len(records)} of {len(asked['runs'])} runs"
    rows = sum(len(one["rows"]) for one in records)
    left = f"; {len(models) - len(named)} are modules of torch, which no file names" if len(named) < len(models) else ""
    return f"{out}: {runs} in runs.csv, {rows} rows in rows.csv, {len(named)} models in models/{left}"
