"""Makes the site: a page for each public name and for the command, trees of pages, links of names, formulas as MathML."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import re
import shutil
from pathlib import Path

from docutils import nodes
from extensions import notebooks, reading
from latex2mathml.converter import convert
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_refnode
from sphinx.writers.html5 import HTML5Translator

from experiments.__main__ import COMMANDS, main
from experiments.reports.pages import short_paragraphs
from experiments.studies.command import COMMANDS as STUDIES

__all__ = ["setup"]

NAMES = reading.public_names()
BARE = {name.rpartition(".")[2]: name for name in reversed(NAMES)}  # two packages: the one that is learned first wins
FOREIGN = {name: f"torch.{name}" for name in ("Tensor", "Generator", "device", "dtype")}  # as annotations name them
TITLES = {page: file for file, page in reading.MOVED.items()}
MADE = ("api/", "project/")  # folders of docs/ that are written here, and that git ignores


# Pages that are written


def write_pages(app: Sphinx) -> None:
    """Write the pages that are made from code, and those of the root, into folders of their own."""
    for folder in MADE:
        shutil.rmtree(reading.DOCS / folder, ignore_errors=True)
        (reading.DOCS / folder).mkdir()
    written = [*sorted(reading.DOCS.rglob("*.md")), reading.ROOT / "README.md", reading.ROOT / "CONTRIBUTING.md"]
    uses = reading.uses([*written, *sorted(reading.DOCS.rglob("*.ipynb"))])
    texts = {page.relative_to(reading.ROOT).as_posix(): page.read_text(encoding="utf-8") for page in written}
    pages = {}
    for name, thing in NAMES.items():
        named = [file for file in reading.named_in(name, texts) if file not in uses.get(name, {}) and file != "docs/names.md"]
        pages[reading.file_of(name, NAMES)] = name_page(name, thing, uses.get(name, {}), named)
    for file, page in reading.MOVED.items():
        pages[page] = reading.for_site((reading.ROOT / file).read_text(encoding="utf-8"), file, page)
    for heading, (text, members) in reading.groups(NAMES).items():
        page, tree = (
            f"api/{reading.heading_slug(heading)}",
            [f"{name.rpartition('.')[2]} </{reading.file_of(name, NAMES)}>" for name in members],
        )
        pages[page] = reading.for_site(f"# {heading}\n\n{text}\n", "docs/names.md", page) + toctree(tree)
    for page, text in {**pages, "api/command": command_page()}.items():
        (reading.DOCS / f"{page}.md").write_text(text, encoding="utf-8")


def name_page(name: str, thing: object, uses: dict[str, list[str]], named: list[str]) -> str:
    """Write the page of a name; what its docstring says is put in by the directive."""
    parts = [f"# {name}", f"```{{public}} {name}\n```"]
    if not callable(thing) and not inspect.ismodule(thing):
        row = re.search(rf"^\|[^|]*`{re.escape(name)}`[^|]*\|(.*)\|$", (reading.DOCS / "names.md").read_text(), re.MULTILINE)
        parts += [row[1].strip().capitalize() + "."] if row else []
    if methods := reading.public_methods(thing):
        parts += ["## Functions" if inspect.ismodule(thing) else "## Methods"]
        parts += [f"```{{public}} {name}.{method}\n```" for method in methods]
    if uses:
        parts += ["## Used in", "\n".join(used_in(file, headings) for file, headings in uses.items())]
    if named:
        parts += ["## Named in", ", ".join(used_in(file, []).removeprefix("- ") for file in named) + "."]
    return "\n\n".join(parts) + "\n"


def used_in(file: str, headings: list[str]) -> str:
    page = f"/{reading.MOVED[file]}.md" if file in reading.MOVED else "/" + file.removeprefix("docs/")
    links = [f"[{heading}]({page}#{reading.heading_slug(heading)})" for heading in headings if heading]
    return f"- [{TITLES.get(page[1:-3], '')}]({page}){': ' * bool(links)}{', '.join(links)}"


def command_page() -> str:
    """Write the help of `ctrnn` and of its commands, as a terminal shows it."""
    parts = ["# The command ctrnn", "This is what `ctrnn --help` says, and the help of each command."]
    os.environ["COLUMNS"] = "100"
    for words in [[], *([name] for name in COMMANDS), *(["study", name] for name in STUDIES)]:
        shown = io.StringIO()  # no terminal: neither colours nor boxes
        with contextlib.redirect_stdout(shown):
            main([*words, "--help"])
        text = "\n".join(line.rstrip() for line in shown.getvalue().splitlines())
        parts += [f"## {' '.join(['ctrnn', *words])}" if words else "## All commands", f"```text\n{text}\n```"]
    return "\n\n".join(parts) + "\n"


def read_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Give a page its links within the site, and its tree of pages."""
    file = reading.DOCS / f"{docname}.md"
    if not file.exists() or docname.startswith(MADE):
        return
    text = reading.for_site(source[0], f"docs/{docname}.md", docname)
    title, _, rest = text.partition("\n")
    text = title + offered(docname) + "\n" + rest
    grouped = [f"api/{reading.heading_slug(heading)}" for heading in reading.groups(NAMES)]
    pages = grouped if docname == "names" else app.config.trees.get(docname, "").split()
    there = [page for page in pages if "*" not in page or set(reading.DOCS.glob(f"{page}.*")) - {file}]
    lines = [f"{TITLES[page]} </{page}>" if page in TITLES else f"/{page}" for page in there]
    source[0] = text + toctree(lines)


def toctree(lines: list[str]) -> str:
    return "\n".join(["", "```{toctree}", ":glob:", ":hidden:", "", *lines, "```", ""]) if lines else ""


def copy_explorer(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and (reading.DOCS / "explorer").is_dir():
        shutil.copytree(reading.DOCS / "explorer", Path(app.outdir) / "explorer", dirs_exist_ok=True)


def write_notebooks(app: Sphinx, exception: Exception | None) -> None:
    """Write a notebook of each page with code that `Learn` leads to, which the page offers."""
    for file, page in notebooks.NOTEBOOKS.items() if exception is None else ():
        there = Path(app.outdir) / file
        there.parent.mkdir(exist_ok=True)
        there.write_text(json.dumps(notebooks.notebook_of(page), indent=1), encoding="utf-8")


def offered(docname: str) -> str:
    """Return the line of a page that offers its notebook; of the gallery, those of its programs."""
    mine = [file for file, page in notebooks.NOTEBOOKS.items() if page == reading.DOCS / f"{docname}.md"]
    programs = [file for file, page in notebooks.NOTEBOOKS.items() if docname == "gallery" and page.suffix == ".py"]
    links = [
        f'<a href="{os.path.relpath(file, Path(docname).parent)}" download>{Path(file).name}</a>' for file in mine + programs
    ]
    return f"\n\n*As a notebook:* {', '.join(links)}\n" if links else ""


def lead_back(app: Sphinx, exception: Exception | None) -> None:
    """Lead from code to the names on their pages: viewcode knows one place for all names of a file."""
    names = {reading.file_of(name, NAMES): name for name in NAMES}

    def turned(link: re.Match[str]) -> str:
        name = names.get(link[2], "")
        return f'{link[1]}{link[2]}.html#{name}{link[3].partition(name.rpartition(".")[2])[2]}"' if name else link[0]

    for page in Path(app.outdir).glob("_modules/**/*.html") if exception is None else ():
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r'(href="[./]*)(api/[\w.]+)\.html#([\w.]+)"', turned, text), encoding="utf-8")


# What a docstring says


class Public(SphinxDirective):
    """The signature of a public name, a link to its code, and its docstring."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        owner, _, last = name.rpartition(".")
        thing = NAMES[name] if name in NAMES else reading.public_methods(NAMES[owner])[last]
        of_class = inspect.isclass(NAMES.get(owner))
        module = owner.rpartition(".")[0] if of_class else owner
        if inspect.ismodule(thing):
            fence = [f"```{{py:module}} {name}"]
        elif isinstance(thing, property):
            fence = [f"```{{py:property}} {name.removeprefix(f'{module}.')}", f":module: {module}"]
        elif not callable(thing):
            fence = [f"```{{py:data}} {last}", f":module: {module}", f":value: {thing!r}"]
        else:
            kind = "class" if inspect.isclass(thing) else "method" if of_class else "function"
            fence = [f"```{{py:{kind}}} {name.removeprefix(f'{module}.')}{reading.signature(thing)}", f":module: {module}"]
        made = self.parse_text_to_nodes("\n".join([*fence, "```"]))
        if ":value:" not in fence[-1]:  # a value's docstring is that of its type
            described = [node for node in made if isinstance(node, addnodes.desc)]
            body = docstring_nodes(inspect.getdoc(thing) or "", module, reading.argument_names(thing))
            (described[0][-1] if described else made).extend(body)
        return made


def docstring_nodes(text: str, package: str, names: list[str]) -> list[nodes.Node]:
    """Make paragraphs and code of a docstring, and a definition list of its sections."""
    made: list[nodes.Node] = []
    sections = nodes.definition_list(classes=["sections"])
    for head, words in reading.paragraphs(text):
        if head == "code":
            made.append(nodes.literal_block(words, words, language="pycon" if words.startswith(">>>") else "text"))
        elif not head:
            made += prose(words, package)
        elif head == "Example":
            sections += entry([nodes.Text(head)], nodes.literal_block(words, words, language="python"))
        else:
            call, about = reading.call_of(words) if head == "Call" else ("", words)
            items = reading.listed(about, names) if head in ("Args", "Attributes") else [("", about)]
            inner: list[nodes.Node] = [part for key, said in items if not key for part in prose(said, package)]
            pairs = [(key, said) for key, said in items if key]
            if pairs:
                terms = nodes.definition_list()
                terms += [entry([nodes.literal("", key)], *prose(said, package)) for key, said in pairs]
                inner.append(terms)
            inner = [nodes.literal_block(call, call, language="python", classes=["call"]), *inner] if call else inner
            sections += entry([nodes.Text(head)], *inner)
    return [*made, sections] if len(sections) else made


def entry(term: list[nodes.Node], *body: nodes.Node) -> nodes.definition_list_item:
    return nodes.definition_list_item("", nodes.term("", "", *term), nodes.definition("", *body))


def prose(text: str, package: str) -> list[nodes.Node]:
    """Make paragraphs of at most 120 words, but for a sentence that alone has more."""
    return [nodes.paragraph("", "", *inline(part, package)) for part in short_paragraphs(text, 120)]


def inline(text: str, package: str) -> list[nodes.Node]:
    """Make code of what stands in backquotes, with links from public names, and from pages of docs/."""
    made: list[nodes.Node] = []
    for part in re.split(r"(`[^`]+`|docs/[\w-]+\.md)", text):
        if part.startswith("`"):
            code = part.strip("`")
            page = page_of(code) or page_of(f"{package}.{code}") or page_of(BARE.get(code, ""))
            made.append(to_page(page, nodes.literal(code, code)) if page else nodes.literal(code, code))
        elif part.startswith("docs/"):
            made.append(to_page(part.removeprefix("docs/").removesuffix(".md"), nodes.inline(part, part)))
        elif part:
            made.append(nodes.Text(part))
    return made


# Links and formulas


def page_of(name: str) -> str | None:
    """Return the page of a public name, or of what has a method or function of that name."""
    owner, _, last = name.rpartition(".")
    if name not in NAMES and owner in NAMES and last in reading.public_methods(NAMES[owner]):
        name = owner
    return reading.file_of(name, NAMES) if name in NAMES else None


def to_page(page: str, shown: nodes.Element) -> addnodes.pending_xref:
    return addnodes.pending_xref("", shown, refdomain="", reftype="page", reftarget=page)


def link_names(app: Sphinx, document: nodes.document) -> None:
    """Lead from `package.name` in a page to the page of that name, and from `ctrnn --help` to that of the command."""
    for literal in list(document.findall(nodes.literal)):
        text = literal.astext()
        page = "api/command" if text == "ctrnn --help" else page_of(text.partition("(")[0])
        within = isinstance(literal.parent, (nodes.reference, addnodes.pending_xref, nodes.title))
        if not within and re.fullmatch(r"(torch|numpy|np|nn)(\.\w+)+", text):
            literal.replace_self(addnodes.pending_xref("", literal.deepcopy(), refdomain="py", reftype="obj", reftarget=text))
        elif page and not within and page != app.env.docname:
            literal.replace_self(to_page(page, literal.deepcopy()))


def index_words(app: Sphinx, document: nodes.document) -> None:
    """Let the search find a page first by the words of docs/look-up/words.md: they become its main entries in the index."""
    sections = {section.get("slug"): section["ids"][0] for section in document.findall(nodes.section)}
    mine = [(word, anchor) for word, page, anchor in reading.words() if page == app.env.docname]
    entries = [("single", word, sections.get(anchor, ""), "main", None) for word, anchor in mine]
    if entries:
        document.insert(0, addnodes.index(entries=entries))


def resolve(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, shown: nodes.Element) -> nodes.Node | None:
    """Lead to a page, and from a type in a signature to a public name of another package, or by its whole name to intersphinx."""
    if node["refdomain"] == "py":
        package, _, last = node["reftarget"].rpartition(".")
        if package not in ("torch", "torch.nn", "nn", "numpy", "np") and (name := BARE.get(last)):
            return make_refnode(app.builder, env.docname, reading.file_of(name, NAMES), name, shown)
        node["reftarget"] = FOREIGN.get(
            node["reftarget"], re.sub(r"^nn\.", "torch.nn.", re.sub(r"^np\.", "numpy.", node["reftarget"]))
        )
        return None
    there = node["reftype"] == "page" and node["reftarget"] in env.all_docs
    return make_refnode(app.builder, env.docname, node["reftarget"], None, shown) if there else None  # None: Sphinx warns


def leave(app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, shown: nodes.Element) -> nodes.Node | None:
    """Leave unknown names as text, without a warning: without a network there are no inventories of other projects."""
    return shown if node["refdomain"] == "py" else None


def module_of(app: Sphinx, package: str, name: str) -> str | None:
    """Return the module whose code has a public name, or the class of a method or property."""
    return getattr(NAMES.get(f"{package}.{name.partition('.')[0]}"), "__module__", package)


def visit_math(self: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    block = isinstance(node, nodes.math_block)
    made = mathml(node, "block" if block else "inline")
    self.body.append(f'<div class="math">{made}</div>\n' if block else made)
    raise nodes.SkipNode


def mathml(node: nodes.Element, display: str) -> str:
    text = re.sub(r"\\label\{[^}]*\}", "", node.astext())
    text = re.sub(r"\\tag\{([^}]*)\}", r"\\qquad (\1)", text)
    text = re.sub(r"\\(begin|end)\{aligned\}", r"\\\1{align*}", text)  # latex2mathml knows align*, not aligned
    try:
        made = convert(text, display=display)
    except Exception as error:  # latex2mathml's errors have no common base
        made = repr(error)
    if unread := re.search(r"^[^<].*|<mi>(\\|&(?!#))[^<]*", made):
        logging.getLogger(__name__).warning("latex2mathml does not read %s: %s", text, unread[0], location=node)
    return made


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("trees", {}, "env")
    app.add_directive("public", Public)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
    app.connect("builder-inited", write_pages)
    app.connect("source-read", read_source)
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", index_words)
    app.connect("missing-reference", resolve, priority=400)  # intersphinx has 500
    app.connect("missing-reference", leave, priority=600)
    app.connect("viewcode-follow-imported", module_of)
    app.connect("build-finished", copy_explorer)
    app.connect("build-finished", write_notebooks)
    app.connect("build-finished", lead_back)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
