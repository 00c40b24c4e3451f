"""The site of `make docs`: how docstrings, snippets and links are read for it, and that every link of the built one is good."""

import inspect
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import ctrnn
import discretize

ROOT = Path(__file__).resolve().parents[1]
READING = runpy.run_path(str(ROOT / "docs" / "extensions" / "reading.py"))
# What a newcomer types, and the page that is to come first.
TYPED = {
    "learning rate": "training", "early stopping": "training", "scikit-learn": "estimators", "Colab": "install",
    "install": "install", "GPU": "speed", "batch": "torch", "padding": "sequences", "missing values": "learn/irregular",
    "irregular": "learn/irregular", "dropout": "cells", "save": "sequences", "load": "sequences", "checkpoint": "sequences",
    "ONNX": "torch", "export": "torch", "jax": "look-up/words", "quantization": "look-up/words",
    "transformer": "look-up/words", "TPU": "look-up/words", "pretrained": "look-up/words", "mixed precision": "torch",
    "gradient clipping": "torch", "seed": "training", "NaN": "training", "stiff": "solves", "adjoint": "solves",
    "neural ODE": "solves", "sequence length": "sequences", "pandas": "estimators", "forecasting": "estimators",
    "classification": "estimators", "regression": "estimators", "csv": "tasks", "DataLoader": "torch",
    "torchdiffeq": "torchdiffeq", "bifurcation": "dynamics", "noise": "noise", "delay": "delays", "Keras": "cells",
    "hyperparameters": "training", "cluster": "slurm", "slow": "speed", "event": "solves", "Windows": "promises",
}  # fmt: skip
SEARCH = """
const fs = require("fs"), vm = require("vm"), [site, words] = [process.argv[1], JSON.parse(process.argv[2])];
const read = name => fs.readFileSync(`${site}/_static/${name}`, "utf8");
const element = { firstChild: null };
const context = { DOCUMENTATION_OPTIONS: {}, SPHINX_HIGHLIGHT_ENABLED: false, words, _ready: () => 0, _: text => text };
Object.assign(context, { window: context, document: { getElementById: () => element } });
const ask = "words.map(word => Search._performSearch(...Search._parseQuery(word)).at(-1))";
const code = ["language_data.js", "searchtools.js", "../searchindex.js"].map(read).join(";\\n");
console.log(JSON.stringify(vm.runInNewContext(`${code};${ask}`, context)));
"""
SITE_TOOLS = ("sphinx", "furo", "myst_nb", "sphinx_copybutton")


class Links(HTMLParser):
    """The ids of a page, where it leads, and what it loads."""

    def __init__(self, page):
        super().__init__()
        self.ids, self.targets, self.loaded, self.drawn = set(), [], [], 0
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids |= {found[key] for key in ("id", "name") if found.get(key) and (key == "id" or tag == "a")}
        self.drawn += tag == "math"
        for key in ("href", "src", "srcset", "data", "poster"):
            if found.get(key):
                self.targets.append(found[key])
                self.loaded += [found[key]] * (tag != "a")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    missing = [name for name in SITE_TOOLS if find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: pip install -c constraints.txt -e .[docs]")
    folder = tmp_path_factory.mktemp("site")
    options = ["-W", "--keep-going", "-n", "-q", "-j", "2", "-d", folder / "cache"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, "docs", folder / "html"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


@pytest.mark.slow
def test_no_paragraph_of_the_site_has_more_than_120_words(site):
    long = []
    for page in site.rglob("*.html"):
        for paragraph in re.findall(r"<p[ >].*?</p>", page.read_text(encoding="utf-8"), re.DOTALL):
            words = re.sub(r"<math.*?</math>|<[^>]*>", "", paragraph, flags=re.DOTALL).split()
            long += [f"{page.relative_to(site)}: {' '.join(words[:6])}"] * (len(words) > 120)
    assert not long


@pytest.mark.slow
def test_every_link_and_anchor_of_the_site_leads_somewhere_and_nothing_is_loaded_from_elsewhere(site):
    pages = {page: Links(page) for page in site.rglob("*.html")}
    astray, foreign = [], []
    for page, links in pages.items():
        foreign += [f"{page.relative_to(site)} loads {target}" for target in links.loaded if re.match(r"(https?:)?//", target)]
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            aim = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            there = aim.is_file() and aim.is_relative_to(site)
            if not there or (parts.fragment and aim in pages and unquote(parts.fragment) not in pages[aim].ids):
                astray.append(f"{page.relative_to(site)} leads to {target}")
    assert not astray
    assert not foreign
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text(encoding="utf-8")), style


@pytest.mark.slow
def test_the_site_has_every_page_name_command_and_formula(site):
    written = [page for page in (ROOT / "docs").rglob("*") if page.suffix in (".md", ".ipynb")]
    written = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in written if "explorer" not in page.parts]
    assert [str(page) for page in written if not (site / page).exists()] == []
    names = READING["public_names"]()
    assert len(names) > 200
    for name in names:
        page = (site / f"{READING['file_of'](name, names)}.html").read_text(encoding="utf-8")
        assert f'id="{name}"' in page or f'id="module-{name}"' in page
    command = (site / "api" / "command.html").read_text(encoding="utf-8")
    assert all(option in command for option in ("--integrator NAME", "--check FILE.json", "--shard I/N"))
    assert "\x1b" not in command
    assert Links(site / "papers" / "continuous_gru.html").drawn >= 15
    assert Links(site / "notebooks" / "field.html").drawn >= 3
    assert (site / "explorer" / "index.html").exists() == (ROOT / "docs" / "explorer" / "index.html").exists()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="no node on this machine, which runs the site's own search")
def test_the_search_of_the_site_shows_the_page_of_a_word_first(site):
    pages = {}
    for word, page, _ in READING["words"]():
        pages.setdefault(word, set()).add(page)
    command = ["node", "-e", SEARCH, str(site), json.dumps([*pages])]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    missed = {word: first for word, first in zip(pages, found, strict=True) if not first or first[0] not in pages[word]}
    assert missed == {}


@pytest.mark.parametrize("word", TYPED)
def test_what_a_newcomer_types_has_a_page_or_is_said_not_to_be_provided(word):
    assert TYPED[word] in {page for known, page, _ in READING["words"]() if known.lower() == word.lower()}


def test_every_row_of_the_page_of_words_is_read():
    text = (ROOT / "docs" / "look-up" / "words.md").read_text()
    rows = [row for row in text.splitlines() if row.startswith("| ") and not row.startswith("| word |")]
    assert len(rows) > 60
    assert [row for row in rows if not READING["WORDS"].match(row)] == []
    assert [word for word, *_ in READING["words"]() if ";" in word or word != word.strip()] == []  # Sphinx splits at ;


def test_do_has_a_row_for_every_page_that_learn_and_do_lead_to():
    table = (ROOT / "docs" / "do" / "index.md").read_text()
    rows = [row.strip("|").split(" | ") for row in table.splitlines() if row.startswith("| ") and "| I want |" not in row]
    assert all(len(row) == 3 and all(cell.strip() for cell in row) for row in rows), "I have | I want | page"
    linked = {os.path.normpath(f"do/{target}") for target in re.findall(r"\]\(([^)#]+)", table)}
    trees = runpy.run_path(str(ROOT / "docs" / "conf.py"))["trees"]
    globs = [pattern for door in ("learn/index", "do/index", "papers") for pattern in trees[door].split()]
    files = [file for pattern in globs for file in (ROOT / "docs").glob(f"{pattern}.*") if file.suffix in (".md", ".ipynb")]
    pages = {str(file.relative_to(ROOT / "docs")) for file in files if file.stem != "index"}
    assert len(pages) > 20
    assert pages - linked == set(), "say in docs/do/index.md who wants these pages"


def test_every_public_name_is_in_one_group_of_the_sidebar():
    names = READING["public_names"]()
    grouped = [name for _, members in READING["groups"](names).values() for name in members]
    assert sorted(grouped) == sorted(names)


def test_arguments_of_a_docstring_are_split_at_the_names_of_its_signature():
    sections = dict(READING["paragraphs"](inspect.getdoc(discretize.integrate)))
    assert list(sections) == ["", "code", "Args", "Shape", "Raises", "Source"]
    names = [*inspect.signature(discretize.integrate).parameters]
    found = [name for head, _ in READING["listed"](sections["Args"], names) for name in head.split(", ")]
    assert {"field", "path", "h0", "ts", "method", "seed", "delays", "on_failure"} <= set(found)
    assert len(found) == len(set(found))
    text = "size: how many; a, b: as\nsaid. Or a: 2, b: 3; bias, dtype as in torch.nn."
    items = [("size", "how many"), ("a, b", "as\nsaid. Or a: 2, b: 3"), ("bias, dtype", "as in torch.nn.")]
    assert READING["listed"](text, ["size", "a", "b"]) == items


def test_the_signature_of_a_call_stands_apart_from_what_is_said_of_it():
    call = dict(READING["paragraphs"](inspect.getdoc(discretize.DiscreteRNN)))["Call"]
    signature, words = READING["call_of"](call)
    assert signature == "rnn(x, h_0=None, ts=None, lengths=None, reset=None, seed=None)"
    assert words.startswith("With ts, ")
    assert READING["call_of"]("f(x, each=()), as for g.") == ("f(x, each=())", "As for g.")
    assert READING["call_of"]("path(t) is W(t).") == ("", "path(t) is W(t).")


def test_sections_and_code_of_a_docstring_lose_their_columns():
    text = "One\nparagraph.\n\n    a = 1\n        b\n\nArgs:    a: one,\n         two.\nExample: if a:\n             b\n"
    sections = [("", "One\nparagraph."), ("code", "a = 1\n    b"), ("Args", "a: one,\ntwo."), ("Example", "if a:\n    b")]
    assert list(READING["paragraphs"](text)) == sections


def test_signatures_are_those_of_the_code_without_quotation_marks():
    assert READING["signature"](ctrnn.PowerDecay).startswith("(exponent: float | Tensor, learnable: bool = False, ")
    assert "-> Trajectory" in READING["signature"](discretize.integrate)
    assert "stats: dict[str, Any] = ..." in READING["signature"](discretize.Trajectory)


def test_links_of_files_outside_of_docs_lead_to_their_pages_of_the_site():
    turned = READING["for_site"]
    assert turned("[a](docs/cells.md#b) [c](CHANGELOG.md)", "README.md", "project/readme") == (
        "[a](../cells.md#b) [c](/project/changelog.md)"
    )
    assert turned("[docs/cells.md](docs/cells.md#b)", "README.md", "project/readme") == "[](../cells.md#b)"
    assert turned("[a](../../CONTRIBUTING.md#b) [c](x.svg)", "docs/do/a.md", "do/a") == (
        "[a](/project/contributing.md#b) [c](x.svg)"
    )
    assert turned("[a](docs/explorer/index.html)", "README.md", "project/readme") == '<a href="../explorer/index.html">a</a>'
    kept = "[a](#b) [c](https://d.e)\n```python\nx[0](README.md)\n```\n"
    assert turned(kept, "docs/a.md", "a") == kept


def test_snippets_are_found_by_the_names_that_they_use():
    uses = READING["uses"]([ROOT / "docs" / "index.md", ROOT / "docs" / "notebooks" / "field.ipynb"])
    assert uses["ctrnn.leaky"] == {"docs/index.md": ["Ten lines"], "docs/notebooks/field.ipynb": [""]}


def test_pages_that_name_a_name_outside_of_snippets_are_found():
    pages = {
        "a.md": "`ctrnn.gated(1, 2)` and `Decay`",
        "b.md": "```python\n`ctrnn.gated`\n```\n`gated`",
        "c.md": "`discretize.Decay`",
    }
    assert READING["named_in"]("ctrnn.gated", pages) == ["a.md"]
    assert READING["named_in"]("ctrnn.Decay", pages) == ["a.md"]


def test_no_two_names_share_a_file_on_a_disk_without_capitals():
    names = READING["public_names"]()
    assert len({READING["file_of"](name, names).lower() for name in names}) == len(names)
