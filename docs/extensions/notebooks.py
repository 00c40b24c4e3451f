"""Makes a notebook of a page, or of a program of the gallery: the same text, figures within, code in cells, no outputs.

Not by jupytext, which would make cells of shell commands too, and would leave out what is done here: figures are attached, since
a notebook travels alone; what a page shows of an output is left to the cell; and links within the site are words.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from extensions import reading

__all__ = ["NOTEBOOKS", "notebook_of"]

PROGRAMS = reading.DOCS / "gallery"
INSTALL = """
# In a new environment or Colab, once: complete one of these lines and take its # away. ctrnn is not on PyPI yet.
# %pip install -q '/folder/of/your/copy/of/the/repository[all]'
# %pip install -q 'ctrnn-ode[all] @ git+URL-of-the-repository'
"""
ATTACHED = {".svg": "image/svg+xml", ".png": "image/png"}
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")


def pages() -> Iterator[Path]:
    """Yield the pages with code that `Learn` leads to, and the programs of the gallery."""
    for target in re.findall(r"\]\(([\w./-]+\.md)\)", (reading.DOCS / "learn" / "index.md").read_text(encoding="utf-8")):
        page = (reading.DOCS / "learn" / target).resolve()
        if "```python\n" in page.read_text(encoding="utf-8"):
            yield page
    yield from (program for program in sorted(PROGRAMS.glob("*.py")) if program.stem != "gallery")


NOTEBOOKS = {f"as-notebook/{page.stem}.ipynb": page for page in dict.fromkeys(pages())}  # where each is in the site


def notebook_of(page: Path) -> dict[str, Any]:
    """Return the notebook of a page of docs/, or of a program of its gallery, as nbformat 4.5 has it."""
    cells = [*(of_program(page) if page.suffix == ".py" else of_page(page))]
    about = {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "language_info": {"name": "python"}}
    for number, cell in enumerate(cells):
        cell |= {"id": f"{re.sub(r'[^a-z]', '-', page.stem)}-{number}", "metadata": {}}
    return {
        "cells": cells,
        "metadata": about,
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def of_page(page: Path) -> Iterator[dict[str, Any]]:
    text, end, after_code = page.read_text(encoding="utf-8"), 0, False
    words, install = "", [code(INSTALL)]
    for fence in reading.FENCE.finditer(text):
        between = text[end : fence.start()]
        shown = after_code and fence[1] == "text" and not between.strip()  # what the cell prints when it is run
        words += between + ("" if shown or fence[1] == "python" else fence[0])
        if fence[1] == "python":
            yield from markdown(words, page)
            yield from (*install, code(fence[2]))
            words, install = "", []
        end, after_code = fence.end(), fence[1] == "python"
    yield from markdown(words + text[end:], page)


def of_program(program: Path) -> Iterator[dict[str, Any]]:
    """The section of the gallery, what all programs share as a file beside the notebook, and the program with what it shows."""
    gallery = (reading.DOCS / "gallery.md").read_text(encoding="utf-8")
    section = next(part for part in re.split(r"^(?=## )", gallery, flags=re.MULTILINE) if f"`{program.name}`" in part)
    text = program.read_text(encoding="utf-8").partition('if __name__ == "__main__":')[0]
    yield from markdown(section.removeprefix("#"), reading.DOCS / "gallery.md")
    yield code(INSTALL)
    yield code("%%writefile gallery.py\n" + (PROGRAMS / "gallery.py").read_text(encoding="utf-8"))
    yield code(text)
    yield code("numbers, shown, figure = main()\nprint('the finding' if shown else 'not the finding', numbers)\nfigure")


def code(text: str) -> dict[str, Any]:
    return {"cell_type": "code", "source": text.strip("\n"), "execution_count": None, "outputs": []}


def markdown(text: str, page: Path) -> Iterator[dict[str, Any]]:
    """A cell of words with its figures attached; none where nothing is said."""
    attached = {}

    def inside(image: re.Match[str]) -> str:
        figure = (page.parent / image[2]).resolve()
        kept = base64.b64encode(figure.read_bytes()).decode()
        attached[figure.name] = {ATTACHED[figure.suffix]: kept}
        return f"![{image[1]}](attachment:{figure.name})"

    def word(link: re.Match[str]) -> str:
        return link[0] if re.match(r"([a-z]+:|attachment:)", link[2]) else link[1]

    text = reading.LINK.sub(word, IMAGE.sub(inside, text)).strip("\n")
    if text:
        yield {"cell_type": "markdown", "source": text} | ({"attachments": attached} if attached else {})
