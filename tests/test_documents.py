"""The code in README and docs, run; what the pages show, link to and say of the code, compared with what there is."""

import contextlib
import functools
import html
import importlib
import importlib.util
import inspect
import io
import json
import re
import shutil
from itertools import zip_longest
from pathlib import Path

import pytest
import torch
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

import ctrnn
from ctrnn.cells.catalog import constructors
from ctrnn.lazy import places_of
from experiments.breakdown import tables
from experiments.models.fields import FIELDS
from experiments.models.integrators import INTEGRATORS
from experiments.studies.registry import STUDIES
from experiments.tasks.registry import TASKS

ROOT = Path(__file__).resolve().parents[1]
DOORS = [page for door in ("learn", "do", "look-up", "understand") for page in sorted((ROOT / "docs" / door).glob("*.md"))]
PAPERS = sorted((ROOT / "docs" / "papers").glob("*.md"))  # each is read by the command that it shows
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), *DOORS, *PAPERS]
MADE = [page for folder in ("studies", "derivations") for page in sorted((ROOT / "docs" / folder).glob("*.md"))]
LINKED = [*PAGES, ROOT / "CHANGELOG.md", *MADE]
PACKAGES = ["ctrnn", "discretize", "derivations"]
FIGURES = sorted((ROOT / "docs" / "figures").glob("*.svg"))
PART_FILES = ("ctrnn.fields.candidates", "ctrnn.fields.rates", "ctrnn.fields.decays")
COUNTED = (("cells.md", "cells: published"), ("steps.md", "steps: all"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page):
    """(code, what it is shown to print) for every Python block; nothing is shown where no text block follows at once."""
    text = page.read_text()
    fences = list(FENCE.finditer(text))
    for fence, following in zip_longest(fences, fences[1:]):
        if fence[1] == "python":
            adjacent = following is not None and following[1] == "text" and not text[fence.end() : following.start()].strip()
            yield fence[2], following[2] if adjacent else ""


CODE = [page for page in PAGES if "```python" in page.read_text()]
# What these pages show, or what is ten seconds of training without.
BY_KERNELS = {"speed.md", "kernels.md", "tasks.md", "torch.md", "first.md", "irregular.md"}
TRAINED = {
    "estimators.md",
    "gru.md",
    "exact-or-stepped.md",
    "fitting.md",
}  # by kernels, which in a default run are built in a hurry and run ten times as long


# What these pages train, a default run trains for a moment: it compares all that they print but for whether it is True that the
# model has learned. That is looked at with -m slow, and every day on the pages of torch, tasks, delays and solves.
HURRIED = {
    "irregular.md": {"epochs=12": "epochs=1"},
    "first.md": {"epochs=6": "epochs=1"},
    "table.md": {"steps=80": "steps=2", "steps=20": "steps=2"},
    "tasks.md": {"steps=100,": "steps=25,"},
}
LEARNED = re.compile(r"(?<=: )(True|False)$", re.MULTILINE)  # other truths stand on lines of their own


def cases():
    """A page is a test: `-k torchdiffeq.md` runs one. In the slow run those by steps run by kernels too."""
    for page in CODE:
        marks = [pytest.mark.kernels] if page.name in BY_KERNELS else []
        if page.name in TRAINED:
            yield pytest.param(page, {}, marks=pytest.mark.slow, id=page.name)
        else:
            yield pytest.param(page, HURRIED.get(page.name, {}), marks=marks, id=page.name)
            if page.name in HURRIED:
                yield pytest.param(page, {}, marks=[*marks, pytest.mark.slow], id=f"{page.name}, trained")
            elif not marks:
                yield pytest.param(page, {}, marks=pytest.mark.slow, id=f"{page.name}, by kernels")


# Pages that train a model take seconds, and the first one that runs kernels or optimizers imports torch's compiler.
@pytest.mark.parametrize(("page", "hurry"), [*cases()])
def test_code_prints_what_the_page_shows(page, hurry, tmp_path, monkeypatch, few_settings):
    monkeypatch.chdir(tmp_path)
    if page in PAPERS:
        shutil.copy(page, tmp_path)
    torch.set_default_dtype(torch.float32)  # `_same_start` puts it back
    torch.seed()  # what is shown must not hang on a seed that readers do not see
    for registry in (TASKS, FIELDS, STUDIES):  # what a page adds is its own
        monkeypatch.setattr(registry, "_added", {})
    namespace = {"__name__": "__main__"}
    assert not [words for words in hurry if words not in page.read_text()]
    for number, (written, output) in enumerate(blocks(page), 1):
        code, printed = written, io.StringIO()
        for words, fewer in hurry.items():
            code = code.replace(words, fewer)
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{page.name}, block {number}", "exec"), namespace)
        found, shown = (LEARNED.sub("", text) if hurry else text for text in (printed.getvalue(), output))
        assert found == shown, f"{page.name}, block {number}"


def test_the_readme_is_about_ten_lines_of_python_and_two_targets_of_the_makefile():
    readme, makefile = ROOT / "README.md", (ROOT / "Makefile").read_text()
    code, shown = next(blocks(readme))
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    assert shown
    for target in ("demo", "test"):
        assert re.search(rf"^ +make {target}\b", readme.read_text(), re.MULTILINE)
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_links_and_images_lead_somewhere():
    astray = []
    for page in LINKED:
        for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text())):
            path, _, anchor = target.partition("#")
            aim = (page.parent / path).resolve() if path else page
            if not re.match(r"[a-z]+:", target) and not (aim.exists() and (not anchor or anchor in anchors(aim))):
                astray.append(f"{page.name} links to {target}")
    assert not astray


@functools.cache
def anchors(page):
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_no_word_of_a_figure_is_cut_off():
    texts = re.compile(r'font-size: ([\d.]+)px;[^"]*text-anchor: (\w+)[^"]*" x="([\d.-]+)"[^>]*rotate\(-?0 [^>]*>([^<]*)</text>')
    for figure in FIGURES:
        drawn = figure.read_text()
        width = float(re.search(r'viewBox="0 0 ([\d.]+)', drawn)[1])
        for size, anchor, x, words in texts.findall(drawn):
            if text := html.unescape(words).strip():
                font = FontProperties(family="DejaVu Sans", size=float(size))
                wide = text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]
                left = float(x) - {"start": 0, "middle": wide / 2, "end": wide}[anchor]
                assert -2 < left < left + wide < width + 2, (figure.name, text)
    assert len(FIGURES) > 50


def luminance(colour):
    """WCAG's, of #rrggbb."""
    shares = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("figure", FIGURES, ids=lambda path: path.stem)
def test_a_figure_has_its_own_size_and_is_seen_on_light_and_on_dark_pages(figure):
    drawn = figure.read_text()
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn).groups()
    tag = re.search(r"<svg [^>]*>", drawn)[0]
    assert f'width="{width}pt"' in tag
    assert f'height="{height}pt"' in tag
    assert "scale(0.02)" not in drawn, "letters drawn as outlines are scaled by 0.015625, to be as large as their places"
    sheet, body = drawn.split("</style>", 1)
    rules = {(key, colour): dark for key, colour, dark in re.findall(r'"(\w+): (#\w+)"\] \{ \w+: (#\w+) !imp', sheet)}
    dark_paper = re.search(r"prefers-color-scheme: dark\) \{ svg \{ background: (#\w+)", sheet)[1]
    for key, colour in set(re.findall(r"(fill|stroke): (#[0-9a-f]{6})", body)):
        for paper, seen in (("#fdfdfc", colour), (dark_paper, rules.get((key, colour), colour))):
            bright, dim = sorted((luminance(seen), luminance(paper)), reverse=True)
            pale = luminance(colour) > 0.6  # paper, grids and panes
            assert (bright + 0.05) / (dim + 0.05) >= (1 if pale else 2.4), f"{key} {seen} on {paper}"


def test_every_public_name_is_in_the_page_of_names():
    text = (ROOT / "docs/names.md").read_text()
    files = [importlib.import_module(package).__file__ for package in PACKAGES]
    names = [f"{place}.{name}" for file in files for name, place in places_of(file).items()]
    missing = [name for name in names if not re.search(rf"\b{re.escape(name)}\b", text)]
    assert not missing, f"say in docs/names.md what {missing} are"


def has_row(text, name):
    """Whether a line of a table begins with it, in code: `name`, `package.name` or `package.name(...)`, perhaps beside others."""
    return bool(re.search(rf"^\|[^|]*`(\w+\.)*{re.escape(name)}[`(]", text, re.MULTILINE))


def text_of(name):
    return (ROOT / "docs" / name).read_text()


def test_the_page_on_training_lists_what_can_be_typed():
    for option, names in (("task", TASKS.own), ("field", FIELDS.own), ("integrator", INTEGRATORS)):
        row = re.search(rf"^\| `--{option}` \|(.*)", text_of("training.md"), re.MULTILINE)[1]
        missing = [name for name in names if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", row)]
        assert not missing, f"name {missing} in docs/training.md, at --{option}"


def test_every_task_and_every_study_that_was_run_has_a_row():
    assert not [name for name in TASKS.own if not has_row(text_of("tasks.md"), name)], "a row in docs/tasks.md is missing"
    told = [file.parent.name for file in (ROOT / "docs" / "tables").glob("*/report.json")]
    assert len(told) >= 10
    assert not [name for name in told if f"(studies/{name}.md) | " not in text_of("studies.md")], (
        "python -m experiments.studies.docs_page"
    )


def public(package, kind, modules):
    """Public names of a package that are of a kind, and defined in modules that begin so."""
    found = {name: getattr(importlib.import_module(place), name) for name, place in places_of(package.__file__).items()}
    return [name for name, thing in found.items() if kind(thing) and thing.__module__.startswith(modules)]


def test_every_cell_part_and_step_has_a_row():
    cells = [*constructors()]
    parts = public(ctrnn, lambda thing: inspect.isclass(thing) and not inspect.isabstract(thing), PART_FILES)
    assert min(len(cells), len(parts)) >= 10
    assert not [name for name in cells if name != "from_ncps" and not has_row(text_of("cells.md"), name)], "docs/cells.md"
    assert not [name for name in parts if not has_row(text_of("cells.md"), name)], "the table of parts in docs/cells.md"
    for path, page, filled in tables.filled():
        assert page == filled, f"{path.name}: run `python -m experiments.breakdown.tables`"


def counts():
    """How many there are of what README.md and CHANGELOG.md count."""
    rows = {name: text_of(page).split(f"<!-- {name} -->")[1].split("<!-- end -->")[0] for page, name in COUNTED}
    claims = json.loads((ROOT / "derivations" / "records.json").read_text())["claims"].values()
    return {
        "published": len(set(re.findall(r"^\| `ctrnn\.cells\.(\w+)", rows["cells: published"], re.MULTILINE))),
        "steps of fixed length": len(re.findall(r"^\| `", rows["steps: all"], re.MULTILINE)),
        "claims": sum(len(text) for text in claims),
        "studies": len(STUDIES.own),
    }


@pytest.mark.parametrize("what", ["published", "steps of fixed length", "claims", "studies"])
def test_what_the_readme_and_the_changelog_count_is_there_as_often(what):
    pages = [(ROOT / page).read_text() for page in ("README.md", "CHANGELOG.md")]
    told = [int(count) for page in pages for count in re.findall(rf"\b(\d+) {what}\b", page)]
    assert told
    assert {*told} == {counts()[what]}


def is_there(package, name):
    """A public name, or a module, which is an attribute of its package only once something has imported it."""
    return hasattr(importlib.import_module(package), name) or importlib.util.find_spec(f"{package}.{name}") is not None


def test_every_name_the_pages_give_a_package_is_there():
    missing = [
        f"{page.name} names {package}.{name}"
        for page in LINKED
        for package, name in re.findall(rf"\b((?:{'|'.join(PACKAGES)})(?:\.[a-z]+)??)\.([A-Za-z]\w*)(?![.\w/])", page.read_text())
        if name not in ("py", "md") and not is_there(package, name)
    ]
    assert not missing
    assert not is_there("derivations", "no_such_name")


def test_the_citation_file_and_the_changelog_know_the_version():
    citation = (ROOT / "CITATION.cff").read_text()
    values = dict(re.findall(r"^([a-z-]+):(?: |$)(.*)", citation, re.MULTILINE))
    assert {"cff-version", "message", "title", "authors"} <= values.keys()
    assert (values["cff-version"], values["license"]) == ("1.2.0", "Apache-2.0")
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert values["version"] == ctrnn.__version__ == version
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_pages_name_no_package_host_and_tests_that_are_there():
    # No page names a package host.
    host = re.compile(r"https?://[^\s)]*(pypi|anaconda|conda-forge|pytorch\.org|files\.pythonhosted)")
    assert not [page.name for page in LINKED if host.search(page.read_text())]
    # The tests that a promise names are there.
    named = re.findall(r"`(tests/[^`]*)`", (ROOT / "docs" / "promises.md").read_text())
    assert len(named) >= 15
    assert [path for path in named if not (ROOT / path).exists()] == []


def paragraphs(text):
    """(line, words) of every paragraph, item of a list and cell of a table: what a reader takes in without a pause."""
    head = len(text[: text.index("\n---\n", 3)].splitlines()) + 1 if text.startswith("---\n") else 0
    body = FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), "\n".join(text.splitlines()[head:]) + "\n")
    number, block = head, []
    for line in [*body.splitlines(), ""]:
        number += 1
        bare = line.lstrip("> ")
        row = bare.startswith("|")
        if block and (not bare or row or re.match(r"[-*] |\d+\. |#", bare)):
            yield block[0], len(" ".join(block[1:]).split())
            block = []
        if row:
            yield from ((number, len(cell.split())) for cell in bare.split(" | "))
        elif bare and not (line.startswith("    ") and not block):
            block = [*(block or [number]), re.sub(r"\]\([^)]*\)", "", re.sub(r"^([-*]|\d+\.|#+) ", "", bare))]


@pytest.mark.parametrize("page", [*LINKED, *sorted((ROOT / "docs" / "papers").glob("*.md"))], ids=lambda page: page.name)
def test_no_paragraph_has_more_than_120_words(page):
    long = [f"{page.relative_to(ROOT)}:{line} has {words}" for line, words in paragraphs(page.read_text()) if words > 120]
    assert not long, "split them, or say less"


def test_the_reader_of_paragraphs_sees_where_one_ends():
    code = "```\nx x x x x x x\n```\n"
    text = f"---\nt: a b c d\n---\n\n# One two\n\na b\nc [d e](f) g\n\n{code}- h i\n  j\n- k\n\n    code\n\n| l | m n |\n> o p\n"
    assert [*paragraphs(text)] == [(5, 2), (7, 6), (13, 3), (15, 1), (19, 2), (19, 3), (20, 2)]
