"""The notebooks of the docs: valid, run from top to bottom without Jupyter, and showing what stands in the file."""

import importlib
import json
import re
import runpy
import sys
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


# Takes seconds where nothing has imported SymPy and torch's compiler before.
@pytest.mark.usefixtures("few_settings")
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
def test_cells_show_what_the_notebook_says(file):
    notebook = json.loads(file.read_text(encoding="utf-8"))
    torch.set_default_dtype(torch.float32)  # as in a process of its own; `_same_start` puts it back
    torch.seed()  # what is shown must not hang on a seed that readers do not see
    for number, (cell, outputs) in enumerate(zip(TOOL["code_cells"](notebook), TOOL["run"](notebook), strict=True), 1):
        shown, found = ([kinds_and_texts(output) for output in each] for each in (cell["outputs"], outputs))
        assert found == shown, f"{file.name}, cell {number}: python tools/run_notebooks.py writes it down anew"
        assert cell["execution_count"] == number


def test_files_are_what_nbformat_4_5_says_and_show_formulas_tables_and_figures():
    cell_keys = {"cell_type", "id", "metadata", "source"}
    own = {
        "stream": {"output_type", "name", "text"},
        "execute_result": {"output_type", "data", "metadata", "execution_count"},
    }
    shown = set()
    for file in NOTEBOOKS:
        text = file.read_text(encoding="utf-8")
        notebook = json.loads(text)
        assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
        assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
        assert {"name", "display_name"} <= set(notebook["metadata"]["kernelspec"])
        for cell in notebook["cells"]:
            assert set(cell) == cell_keys | ({"execution_count", "outputs"} if cell["cell_type"] == "code" else set())
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", cell["id"])
            assert isinstance(cell["metadata"], dict)
            assert all(isinstance(line, str) for line in cell["source"])
            for output in cell.get("outputs", []):
                assert set(output) == own[output["output_type"]]
                shown |= set(output.get("data", {}))
        assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
        assert len(text) < 300_000
    assert len(NOTEBOOKS) == 2
    assert {"text/latex", "text/html", "image/png"} <= shown


def made_from_pages():
    """The notebooks of the site: where each is, its page, and itself."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        made = importlib.import_module("extensions.notebooks")
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return {file: (page, made.notebook_of(page)) for file, page in made.NOTEBOOKS.items()}


def test_every_page_of_learn_with_code_and_every_program_of_the_gallery_is_a_notebook_with_the_same_code():
    made = made_from_pages()
    names = {Path(file).stem for file in made}
    assert {"first", "irregular", "gru", "prove", "papers", "exact-or-stepped", "time-step", "fitting"} <= names
    assert {"prey", "flip_flop", "spikes"} <= names
    for page, notebook in made.values():
        cells = ["".join(cell["source"]) for cell in TOOL["code_cells"](notebook)]
        assert all(line.startswith("# ") for line in cells[0].splitlines()), "what is not on PyPI is not installed from there"
        assert "# %pip install" in cells[0]
        text = page.read_text(encoding="utf-8")
        if page.suffix == ".md":
            assert cells[1:] == [
                code.strip("\n") for code in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
            ]
        else:
            assert cells[1].startswith("%%writefile gallery.py")
            assert text.startswith(cells[2])


def test_what_a_page_shows_of_an_output_is_left_to_the_cell():
    (notebook,) = (notebook for page, notebook in made_from_pages().values() if page.name == "first.md")
    words = "".join(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    assert "somebody runs" not in words
    assert "```" not in words


def test_notebooks_made_from_pages_carry_their_figures_and_no_links_that_lead_nowhere():
    for page, notebook in made_from_pages().values():
        ids = [cell["id"] for cell in notebook["cells"]]
        assert len(set(ids)) == len(ids)
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                assert set(cell) == {"cell_type", "id", "metadata", "source", "execution_count", "outputs"}
                continue
            words = re.sub(r"^```.*?^```$", "", cell["source"], flags=re.MULTILINE | re.DOTALL)
            for image, target in re.findall(r"(!?)\[[^\[\]]*\]\(([^)\s]+)\)", words):
                assert re.match(r"[a-z]+:", target), f"{page.name}: {target}"
                assert not image or target.removeprefix("attachment:") in cell["attachments"]
