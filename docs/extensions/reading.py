"""Reads what the site is made of: public names and their docstrings, the snippets of pages, and links between files.

docstring   paragraphs, indented code, and sections: a word, a colon, and text that is aligned in one column
snippet     a fence of Python in a page, or a cell of a notebook; it uses a name as `package.name` or imports it
link        of a page of docs/ or of a page at the root, which the site has in project/
group       a section of docs/names.md: a page of its own, which has the pages of its names below it
word        of docs/look-up/words.md, with the page that the search shows first
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from types import FunctionType

from ctrnn.lazy import places_of

__all__ = ["DOCS", "MOVED", "ROOT", "argument_names", "call_of", "file_of", "for_site", "groups", "heading_slug", "listed"]
__all__ += ["named_in", "paragraphs", "public_methods", "public_names", "signature", "uses", "words"]

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
PACKAGES = ("ctrnn", "discretize", "derivations")
MOVED = {"README.md": "project/readme", "CONTRIBUTING.md": "project/contributing", "CHANGELOG.md": "project/changelog"}
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WORDS = re.compile(r"^\| ([^|]+) \| ([^|]+) \| \[[^\]]*\]\(([^)#]+)\.md#?([^)]*)\) \|$", re.MULTILINE)
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s]+)\)")
HEADS = "Args|Attributes|Call|Example|Gives|Raises|Returns|Shape|Source|State|Weights"
SECTION = re.compile(rf"({HEADS}): +(?=\S)")
GENERIC = ("bias", "dtype", "device", "generator")  # of `**settings`, which a signature does not name


class _Bare(str):
    """Text that a signature shows without quotation marks."""

    def __repr__(self) -> str:
        return str(self)


def public_names() -> dict[str, object]:
    """Return each public object by its name with the package, in the order of learning."""
    files = [str(importlib.import_module(package).__file__) for package in PACKAGES]
    places = [(place, name) for file in files for name, place in places_of(file).items()]
    names = {f"{place}.{name}": getattr(importlib.import_module(place), name) for place, name in places}
    return {**names, "ctrnn.init": importlib.import_module("ctrnn.init")}


def file_of(name: str, names: dict[str, object]) -> str:
    """Return the page of a name; two names that differ by a capital alone have two files on every disk."""
    alike = [other for other in names if other.lower() == name.lower()]
    return f"api/{name}_" if len(alike) > 1 and name != name.lower() else f"api/{name}"


def groups(names: dict[str, object]) -> dict[str, tuple[str, list[str]]]:
    """Return the sections of docs/names.md that have names, by heading: the text, and the names that it is the first to have."""
    found: dict[str, tuple[str, list[str]]] = {}
    left = list(names)
    for section in (DOCS / "names.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        here = [name for name in left if re.search(rf"`{re.escape(name)}\b(?!\.)", text)]
        left = [name for name in left if name not in here]
        if here:
            found[heading] = (text.strip(), here)
    return found


def words() -> list[tuple[str, str, str]]:
    """Return the words of docs/look-up/words.md, with the page and the anchor; what is not provided has that page's own."""
    found = []
    for section in (DOCS / "look-up" / "words.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        here = ("look-up/words", heading_slug(section.partition("\n")[0]))
        for row, said, page, anchor in WORDS.findall(section):
            aim = here if said.startswith("not provided") else (os.path.normpath(f"look-up/{page}"), anchor)
            found += [(word.strip("`"), *aim) for word in row.split(", ")]
    return found


def public_methods(thing: object) -> dict[str, object]:
    """Return functions of a module, or methods and properties that a class defines itself and documents."""
    if inspect.ismodule(thing):
        return {name: getattr(thing, name) for name in thing.__all__}
    found = vars(thing) if inspect.isclass(thing) else {}
    members = {name: getattr(member, "__func__", member) for name, member in found.items() if not name.startswith("_")}
    return {name: it for name, it in members.items() if isinstance(it, (property, FunctionType)) and it.__doc__}


def signature(thing: object) -> str:
    """Write a signature as Python could read it; a default without such a form is an ellipsis."""

    def shown(parameter: inspect.Parameter) -> inspect.Parameter:
        default, kind = parameter.default, parameter.annotation
        if default is not parameter.empty:
            try:
                ast.parse(repr(default), mode="eval")
            except SyntaxError:
                default = _Bare("...")
        return parameter.replace(default=default, annotation=_Bare(kind) if isinstance(kind, str) else kind)

    try:
        found = inspect.signature(thing)  # type: ignore[arg-type]
    except ValueError:  # exceptions without an `__init__` have no signature
        return ""
    gives = found.return_annotation
    gives = found.empty if inspect.isclass(thing) else _Bare(gives) if isinstance(gives, str) else gives
    parameters = [shown(each) for each in found.parameters.values() if each.name != "self"]
    return str(found.replace(parameters=parameters, return_annotation=gives))


def argument_names(thing: object) -> list[str]:
    """Return what a docstring may list: parameters and attributes."""
    try:
        return [*inspect.signature(thing).parameters, *getattr(thing, "__annotations__", {})]  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []


def paragraphs(docstring: str) -> Iterator[tuple[str, str]]:
    """Split a docstring into ("", paragraph), ("code", indented lines) and (head of a section, its text)."""
    for block in re.split(r"\n\s*\n", docstring.strip("\n")):
        if all(line.startswith("    ") for line in block.splitlines()) and not SECTION.match(block):
            yield "code", dedent(block)
            continue
        for part in re.split(rf"\n(?=(?:{HEADS}): +\S)", block):
            head = SECTION.match(part)
            yield (head[1], re.sub(rf"\n {{0,{head.end()}}}", "\n", part[head.end() :])) if head else ("", part)


def call_of(text: str) -> tuple[str, str]:
    """Split "name(...). Prose" and "name(...), prose" of a section Call; "name(...) makes ..." is prose."""
    if found := re.fullmatch(r"(\w+\((?:[^()]|\([^()]*\))*\))[.,:]\s+(.*)", text, re.DOTALL):
        return found[1], found[2][:1].upper() + found[2][1:]
    return "", text


def listed(text: str, names: list[str]) -> list[tuple[str, str]]:
    """Split `name, name: text; name: text. name: text` into (names, text); what stands before the first has no name."""
    known = "|".join(map(re.escape, [*names, *GENERIC]))
    item = rf"(?:^|(?<=[;.] )|(?<=\n))((?:{known})(?:, (?:{known}))*)(?:: |(?= as (?:in|for) ))"
    before, *pairs = re.split(item, re.sub(r"([;.])\n", r"\1 ", text))
    found = [(head, words.strip().removesuffix(";")) for head, words in zip(pairs[::2], pairs[1::2], strict=True)]
    return [("", before.strip()), *found] if before.strip() else found


def heading_slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def snippets(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the heading that a piece of Python stands under, and the code."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        yield from (("", "".join(cell["source"])) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code")
        return
    for fence in FENCE.finditer(text):
        if fence[1] in ("python", "py"):
            above = re.findall(r"^#+ (.*)$", FENCE.sub("", text[: fence.start()]), re.MULTILINE)
            yield above[-1] if above else "", fence[2]


def used(code: str) -> set[str]:
    """Return the public names that a piece of Python reads; none where it is no whole Python."""
    try:
        nodes = list(ast.walk(ast.parse(code)))
    except SyntaxError:
        return set()
    found = [(node.module, name.name) for node in nodes if isinstance(node, ast.ImportFrom) for name in node.names]
    found += [(ast.unparse(node.value), node.attr) for node in nodes if isinstance(node, ast.Attribute)]
    return {f"{package}.{name}" for package, name in found if package.partition(".")[0] in PACKAGES}


def uses(pages: list[Path]) -> dict[str, dict[str, list[str]]]:
    """Return for each name the files with snippets that use it, and the headings that these stand under."""
    found: dict[str, dict[str, list[str]]] = {}
    for page in pages:
        for heading, code in snippets(page):
            for name in used(code):
                headings = found.setdefault(name, {}).setdefault(page.relative_to(ROOT).as_posix(), [])
                headings += [heading] * (heading not in headings)
    return found


def named_in(name: str, pages: dict[str, str]) -> list[str]:
    """Return the files, of these texts, that name it outside of snippets: with its package, or without if it has a capital."""
    place, _, bare = name.rpartition(".")
    package = rf"(?:{re.escape(place)}\.)" + "?" * (bare != bare.lower())
    return [file for file, text in pages.items() if re.search(rf"`{package}{re.escape(bare)}[`(]", FENCE.sub("", text))]


def for_site(text: str, file: str, docname: str) -> str:
    """Turn the links of a file of the repository into those of the page of the site that it becomes."""

    def turned(link: re.Match[str]) -> str:
        path, mark, anchor = link[2].partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return link[0]
        shown = "" if re.fullmatch(r"(docs/)?[\w-]+\.md", link[1]) else link[1]  # empty: the heading that it leads to
        aim = os.path.normpath(Path(file).parent / path)
        if aim in MOVED:
            return f"[{shown}](/{MOVED[aim]}.md{mark}{anchor})"
        target = os.path.relpath(ROOT / aim, (DOCS / docname).parent) + mark + anchor
        if aim.startswith("docs/explorer/"):  # no page of Sphinx: it is copied as it is
            return f'<a href="{target}">{shown}</a>'
        return f"[{shown}]({target})"

    fences = list(FENCE.finditer(text))
    edges = [0, *(edge for fence in fences for edge in fence.span()), len(text)]
    parts = [text[a:b] for a, b in pairwise(edges)]
    return "".join(part if number % 2 else LINK.sub(turned, part) for number, part in enumerate(parts))
