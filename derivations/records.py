r"""Records of the ledger's claims, and which claims have to be proved anew.

A claim's record is its verdict, and the digest of what is displayed of it (`derivations.contents`). It is made of its chapter, a
file of `derivations/texts`, and of what that imports, and is good as long as these digests of it are what they were:

    text      the chapter, other texts and arguments that it is made of
    rules     what finds and checks proofs: the rooms rules, finding and prover, SymPy and python-flint
    reader    all else of derivations: what a claim is, twins, the tracing of torch code
    code      of cells and steps, where a claim is of that

`python -m experiments.derive.markdown` proves what changed, and writes the records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from derivations.contents import SOURCES, recorded

__all__ = ["changed", "digest", "followed", "made_of", "written"]

ROOT = Path(__file__).resolve().parents[1]
TEXTS = Path(__file__).with_name("texts")
PARTS = {"texts": "text", "argument": "text", "rules": "rules", "finding": "rules", "prover": "rules"}
OURS = r"(?:ctrnn|discretize|derivations|experiments)"
IMPORT = re.compile(rf"^ *(?:from ({OURS}\b[\w.]*) import (\([^)]*\)|.*)|import ({OURS}\b[\w.]*))", re.MULTILINE)
BY_NAME = re.compile(rf'import_module\("({OURS}[\w.]+)"\)')
# What is imported for torch modules of a user's: classes of a text are closed as twins, without torch.
LEFT_OUT = {"derivations/closure.py": "derivations/tracing/symbolic.py"}
# Whose entries a text asks `derivations.book` for.
QUOTED = {"derivations/texts/tallec_ollivier_summary.py": SOURCES["tallec-ollivier-2018"]}


def changed() -> dict[str, tuple[str, ...]]:
    """Return the chapters whose records are made of something else by now, and what that is, of the parts above."""
    before = recorded()["made of"]
    found = {}
    for chapter in (chapter for chapters in SOURCES.values() for chapter in chapters):
        now = made_of(TEXTS / f"{chapter}.py")
        if other := tuple(part for part, digest in now.items() if before.get(chapter, {}).get(part) != digest):
            found[chapter] = other
    return found


def made_of(file: Path) -> dict[str, str]:
    """Compute the digests of a file and all of ours that it imports, by the parts above."""
    files: dict[str, list[Path]] = {"text": [], "rules": [], "reader": [], "code": []}
    for each in sorted(followed(file)):
        package, room, *_ = each.relative_to(ROOT).parts
        files[PARTS.get(room, "reader") if package == "derivations" else "code"].append(each)
    versions = {"rules": f"{version('sympy')} {version('python-flint')}"}
    return {part: digest(paths, versions.get(part, "")) for part, paths in files.items()}


def written(verdicts: Mapping[str, Mapping[str, tuple[str, str]]]) -> str:
    """Write the records: (digest, verdict) by source and label, a claim a line, and what chapters are made of."""
    digests = {chapter: made_of(TEXTS / f"{chapter}.py") for chapters in SOURCES.values() for chapter in chapters}
    claims = ",\n".join(f"{json.dumps(source)}: {{\n{_lines(claims)}\n}}" for source, claims in verdicts.items())
    return f'{{\n"claims": {{\n{claims}\n}},\n"made of": {{\n{_lines(digests)}\n}}\n}}\n'


def _lines(table: Mapping[str, object]) -> str:
    return ",\n".join(f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value)}" for key, value in table.items())


def followed(file: Path) -> set[Path]:
    """Find a file and all files of ours that it imports, that these import, and so on."""
    files, new = {file}, [file]
    while new:
        inside = _imported(new.pop()) - files
        files |= inside
        new += inside
    return files


@cache
def _imported(file: Path) -> frozenset[Path]:
    """Find the files of ours that a file imports anywhere, by regular expressions: to parse them all would take seconds."""
    text, place = file.read_text(encoding="utf-8"), file.relative_to(ROOT).as_posix()
    names = set(BY_NAME.findall(text) if file.is_relative_to(TEXTS) else ())
    for module, imported, plain in IMPORT.findall(text):
        words = re.findall(r"\w+", re.sub("#.*", "", imported))
        inside = {f"{module}.{name}" for name in words} | {_home(module, name) for name in words if name in _homes(module)}
        names |= {plain or module, *inside} if any(_files(name) == [] for name in inside) or plain else inside
    names |= {f"derivations.texts.{chapter}" for chapter in QUOTED.get(place, ())}
    files = {found for name in names for found in _files(name)}
    if file.name in ("catalog.py", "core.py"):  # they import by name what is in their folders
        files |= {*file.parent.rglob("*.py")}
    elif file.is_relative_to(TEXTS.parent):  # names of a package are imported when they are used, from where its stub says
        files |= {stub for found in files if (stub := found.with_suffix(".pyi")).is_file()}
    return frozenset(files - {file, ROOT / LEFT_OUT.get(place, "")})


@cache
def _homes(package: str) -> dict[str, str]:
    """Read from a package's stub where its names are, which are imported when they are used."""
    stub = ROOT.joinpath(*package.split("."), "__init__.pyi")
    lines = IMPORT.findall(stub.read_text(encoding="utf-8")) if stub.is_file() else ()
    return {name: module for module, imported, _ in lines for name in re.findall(r"\w+", imported)}


def _home(package: str, name: str) -> str:
    while (home := _homes(package).get(name, package)) != package:
        package = home
    return package


def _files(name: str) -> list[Path]:
    place = ROOT.joinpath(*name.split("."))
    return [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()]


def digest(files: Iterable[Path], more: str = "") -> str:
    """Digest the names and contents of files, and further words."""
    hashed = sha256(more.encode())
    for file in files:
        hashed.update(f"\n{file.relative_to(ROOT).as_posix()} {_of_file(file)}".encode())
    return hashed.hexdigest()[:20]


@cache
def _of_file(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()
