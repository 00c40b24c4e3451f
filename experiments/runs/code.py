r"""Compute digests of the user's code that a run depends on: the files of --plugin, and what these import.

What they import is what `import` and `from` name anywhere in a file, and what was imported from its folder. Python's own modules,
installed packages and this project are left out: a run has their versions beside its configuration.
"""

from __future__ import annotations

import ast
import hashlib
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from experiments.code_files import file_of
from experiments.usage import UsageError

__all__ = ["check_same_code", "digests_of"]

OURS = [Path(__file__).parents[2] / name for name in ("ctrnn", "discretize", "derivations", "experiments")]


def digests_of(files: Iterable[str]) -> dict[str, str]:
    """Compute the sha256 of each file, and of each module of the user's that it imports, by names as in helpers/cells.py."""
    found: dict[Path, str] = {}
    for file in files:
        path = Path(file_of(file)).resolve()
        found[path] = path.name
        _follow(path, [str(path.parent), *sys.path], found)
        for module in [*sys.modules.values()]:
            place = getattr(module, "__file__", None)
            if place and (there := _resolved(place)).is_relative_to(path.parent) and there not in found and _is_own(there):
                found[there] = there.relative_to(path.parent).as_posix()
    return {name: _digest(path) for path, name in sorted(found.items()) if path.is_file()}


def _follow(file: Path, places: list[str], found: dict[Path, str], package: str = "") -> None:
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):  # importing the file raises the same error to the user
        return
    for name in _imported(tree, package):
        for module, spec in _specs(name, places):
            there = Path(spec.origin).resolve() if spec.origin and spec.has_location else None
            if there is None or there in found or there.suffix != ".py" or not _is_own(there):
                continue
            inner = module if spec.submodule_search_locations else module.rpartition(".")[0]
            found[there] = module.replace(".", "/") + ("/__init__.py" if inner == module else ".py")
            _follow(there, places, found, inner)


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Yield the names of modules, and those of what may be one, in full."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names if base)


def _specs(name: str, places: list[str]) -> Iterator[tuple[str, ModuleSpec]]:
    """Yield where a module and the packages around it are, as far as they are found; nothing is run."""
    inside: list[str] | None = places
    parts = name.split(".")
    for k in range(len(parts)):
        spec = None if inside is None else PathFinder.find_spec(".".join(parts[: k + 1]), inside)
        if spec is None:
            return
        yield ".".join(parts[: k + 1]), spec
        inside = None if spec.submodule_search_locations is None else [*spec.submodule_search_locations]


def _is_own(file: Path) -> bool:
    return "site-packages" not in file.parts and not any(file.is_relative_to(place) for place in (*_installed(), *OURS))


@cache
def _resolved(place: str) -> Path:
    """Resolve the file of a module once: there are thousands, and each asks the disk."""
    return Path(place).resolve()


@cache
def _installed() -> list[Path]:
    places = [*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()]
    return [Path(place).resolve() for place in places if place]


def check_same_code(place: Path, files: Sequence[str], before: object) -> None:
    r"""Refuse to go on by other code than a folder was begun with.

    Args:    place: the file with the digests; files: of --plugin; before: the digests in it, if there are any.
    Raises:  UsageError.
    """
    if not files:
        return
    if not isinstance(before, dict):
        print(
            f"{place} has no digests of {', '.join(files)}: whether they are what they were then is not known.", file=sys.stderr
        )
        return
    now = digests_of(files)
    # What the code imports by words of its own, and has not yet, is looked for in its folder.
    missing = [(name, Path(file_of(file)).resolve().parent / name) for name in before.keys() - now.keys() for file in files]
    now |= {name: _digest(there) for name, there in missing if there.is_file()}
    if changed := sorted(name for name in before if now.get(name) != before[name]):
        raise UsageError(
            f"{place.parent} was begun with other code: {', '.join(changed)} changed since. Put back what was there to go on, or "
            f'choose another --out DIR; if the change does not matter, take "code" out of {place}.'
        )


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
