"""The notebooks of the docs: valid, run from top to bottom without Jupyter, and showing what stands in the file."""

import json
import re
import runpy
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
TOOL = runpy.run_path(str(ROOT / "tools" / "run_notebooks.py"))
NOTEBOOKS = TOOL["NOTEBOOKS"]
# Compared to the letter. Tables and figures have numbers and letters of the machine in them: that they are there is compared.
EXACT = {"text/latex", "text/plain"}


def kinds_and_texts(output):
    if output["output_type"] == "stream":
        return output["name"], output["text"]
    return {kind: text if kind in EXACT else None for kind, text in output["data"].items()}


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
def test_cells_show_what_the_notebook_says(file):
    notebook = json.loads(file.read_text(encoding="utf-8"))
    torch.set_default_dtype(torch.float32)  # as in a process of its own; `_same_start` puts it back
    torch.seed()  # what is shown must not hang on a seed that readers do not see
    for number, (cell, outputs) in enumerate(zip(TOOL["code_cells"](notebook), TOOL["run"](notebook), strict=True), 1):
        shown, found = ([kinds_and_texts(output) for output in each] for each in (cell["outputs"], outputs))
        assert found == shown, f"{file.name}, cell {number}: python tools/run_notebooks.py writes it down anew"
        assert cell["execution_count"] == number


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
def test_the_file_is_what_nbformat_4_5_says(file):
    text = file.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert {"name", "display_name"} <= set(notebook["metadata"]["kernelspec"])
    keys = {
        "markdown": {"cell_type", "id", "metadata", "source"},
        "code": {"cell_type", "id", "metadata", "source", "execution_count", "outputs"},
    }
    own = {
        "stream": {"output_type", "name", "text"},
        "execute_result": {"output_type", "data", "metadata", "execution_count"},
    }
    for cell in notebook["cells"]:
        assert set(cell) == keys[cell["cell_type"]]
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", cell["id"])
        assert isinstance(cell["metadata"], dict)
        assert all(isinstance(line, str) for line in cell["source"])
        assert all(set(output) == own[output["output_type"]] for output in cell.get("outputs", []))
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert len(text) < 300_000


def test_there_are_two_with_formulas_tables_and_figures():
    notebooks = [json.loads(file.read_text(encoding="utf-8")) for file in NOTEBOOKS]
    outputs = [output for notebook in notebooks for cell in TOOL["code_cells"](notebook) for output in cell["outputs"]]
    shown = {kind for output in outputs for kind in output.get("data", {})}
    assert len(NOTEBOOKS) == 2
    assert {"text/latex", "text/html", "image/png"} <= shown
