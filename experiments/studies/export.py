r"""Writes the records of a study as files for other programs.

    OUT/runs.csv                     a row a run: axes, measures, seconds, and by which machine and versions
    OUT/rows.csv                     a row a row that was measured
    OUT/models/KEY.safetensors       the trained model, as `ctrnn.load` reads it

A run without a model, as one whose record alone was copied here, has its rows only.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import ctrnn
from experiments.files import not_writable, ready_folder
from experiments.runs.folder import load
from experiments.studies.folder import place_of, records_in
from experiments.studies.results import Results

__all__ = ["export"]


def export(folder: Path, out: Path) -> str:
    """Write what the records of a study's folder say, and its models, into another folder; return in words what was written."""
    asked, records = records_in(folder)
    found = Results(records)
    more = pd.DataFrame([{"seconds": one["seconds"], "diverged": one["diverged"], **one["made"]} for one in records])
    ready_folder(out)
    with_models = [one["key"] for one in records if (place_of(folder, one["key"]) / "config.json").exists()]
    try:
        pd.concat([found.runs, more], axis=1).to_csv(out / "runs.csv", index=False)
        found.rows.to_csv(out / "rows.csv", index=False)
        (out / "models").mkdir(exist_ok=True)
        for key in with_models:
            ctrnn.save(out / "models" / f"{key}.safetensors", load(place_of(folder, key))[0])
    except OSError as error:
        raise not_writable(out, error) from None
    runs = f"{len(records)} of {len(asked['runs'])} runs"
    return f"{out}: {runs} in runs.csv, {len(found.rows)} rows in rows.csv, {len(with_models)} models in models/"
