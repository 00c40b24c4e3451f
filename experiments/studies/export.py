r"""Writes the records of a study as files for other programs.

    OUT/runs.csv, OUT/rows.csv       what was measured, see `tables`
    OUT/models/KEY.safetensors       the trained model, as `ctrnn.load` reads it

A run without a model, as one whose record alone was copied here, or that diverged in its first step, has its rows only.
"""

from __future__ import annotations

from pathlib import Path

import ctrnn
from experiments.files import not_writable, ready_folder
from experiments.runs.checkpoints import NEWEST, PREVIOUS
from experiments.runs.folder import CONFIG, load
from experiments.studies.folder import place_of, records_in
from experiments.studies.tables import write_tables

__all__ = ["export"]


def export(folder: Path, out: Path) -> str:
    """Write what the records of a study's folder say, and its models, into another folder; return in words what was written."""
    asked, records = records_in(folder)
    ready_folder(out)
    with_models = [one["key"] for one in records if _has_model(place_of(folder, one["key"]))]
    try:
        write_tables(out, asked, records)
        (out / "models").mkdir(exist_ok=True)
        for key in with_models:
            ctrnn.save(out / "models" / f"{key}.safetensors", load(place_of(folder, key))[0])
    except OSError as error:
        raise not_writable(out, error) from None
    runs = f"{len(records)} of {len(asked['runs'])} runs"
    rows = sum(len(one["rows"]) for one in records)
    return f"{out}: {runs} in runs.csv, {rows} rows in rows.csv, {len(with_models)} models in models/"


def _has_model(place: Path) -> bool:
    return (place / CONFIG).exists() and any((place / name).exists() for name in (NEWEST, PREVIOUS))
