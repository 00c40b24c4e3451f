"""The gallery of findings in docs/gallery: every script runs, says all numbers that the page has, and finds what it says."""

import re
from pathlib import Path

import pytest
import torch

from experiments.code_files import imported

DOCS = Path(__file__).resolve().parents[1] / "docs"
SCRIPTS = [path for path in sorted((DOCS / "gallery").glob("*.py")) if path.stem != "gallery"]
each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


@pytest.mark.by_default(8)
@each_script
def test_a_script_runs_and_its_numbers_are_those_of_the_page(script):
    torch.set_default_dtype(torch.float32)  # as in a process of its own; `_same_start` puts it back
    numbers, _, figure = imported(str(script)).main(small=True)
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    table = page[page.index(f"| `{script.name}` |") :].split("\n\n")[0]
    assert re.findall(r"^\| ([^`|]+) \| -?[\d.e+-]+ \|$", table, re.MULTILINE) == list(numbers)
    assert f"(figures/gallery-{script.stem}.svg)" in page
    assert figure.axes


@pytest.mark.slow
@each_script
def test_a_network_shows_what_was_published(script):
    torch.set_default_dtype(torch.float32)
    numbers, shown, _ = imported(str(script)).main()
    assert shown, numbers
