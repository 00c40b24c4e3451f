r"""Find the files of these packages that a module depends on: its own, and those that these import, also within functions.

Imports are read in the texts, so that nothing is loaded: a line in a docstring that looks like one counts too. A name that a
package resolves on first use is looked up in its stub; `import ctrnn` alone stands for all of the package.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ctrnn.lazy import homes_of, public_names

__all__ = ["PACKAGES", "files_behind", "module_of", "text_of"]

# Found without importing the packages, for a file that imports a package depends on all of it.
PACKAGES = {"ctrnn": Path(public_names.__code__.co_filename).parent, "discretize": Path(__file__).parents[2]}
SOURCES = (".py", ".h", ".cpp")
OURS = rf"(?:{'|'.join(PACKAGES)})\b[\w.]*"
IMPORT = re.compile(rf"^[ \t]*(?:from[ \t]+({OURS})[ \t]+import[ \t]+(\([^)]*\)|.*)|import[ \t]+(.*))", re.MULTILINE)
WORD = re.compile(r"\w+")


def files_behind(names: Iterable[str]) -> list[Path]:
    """The files of modules of these packages, or of all that is in a `folder.*`, and all that they import of these packages."""
    files, waiting = set[Path](), [path for name in names for path in _files_of(name)]
    while waiting:
        path = waiting.pop()
        if path not in files:
            files.add(path)
            waiting += _imported(path)
    return sorted(files)


def module_of(file: str) -> str | None:
    """The name of the module of these packages that is in a file."""
    for package, place in PACKAGES.items():
        if file.startswith(os.path.join(place, "")):
            return ".".join([package, *Path(file).relative_to(place).with_suffix("").parts]).removesuffix(".__init__")
    return None


@cache
def text_of(path: Path) -> str:
    """Digest of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    if path.suffix != ".py":
        return ()
    names = set[str]()
    for module, words, bare in IMPORT.findall(path.read_text(encoding="utf-8")):
        of_module = {f"{module}.{word}" for word in WORD.findall(words)} if module else set()
        names |= of_module or {f"{word}.*" for word in re.findall(OURS, bare)}
    return tuple(file for name in names for file in _files_of(name))


@cache
def _files_of(name: str) -> tuple[Path, ...]:
    """Those of `module` or `module.name`, where the package that it is in may find it in another module; of `folder.*` all."""
    package, _, word = name.rpartition(".")
    if word == "*":
        return *_modules(package), *(path for path in _place(package).rglob("*") if path.suffix in SOURCES)
    stub = _place(package) / "__init__.pyi" if package else None
    home = homes_of(str(stub.with_suffix(".py"))).get(word, package) if stub and stub.is_file() else package
    return _modules(name if home == package else home)


@cache
def _modules(name: str) -> tuple[Path, ...]:
    """The file of a module, or of what is in a module, and those of the packages above it, which run before it."""
    parts = name.split(".")
    places = [_place(".".join(parts[:count])) for count in range(1, len(parts) + 1)]
    files = [place / "__init__.py" if place.is_dir() else place.with_suffix(".py") for place in places]
    return tuple(file for file in files if file.is_file())


def _place(name: str) -> Path:
    package, *parts = name.split(".")
    return PACKAGES[package].joinpath(*parts)
