"""Public names of a package that are imported when first used, listed once, in the package's stub `__init__.pyi`."""

import ast
import difflib
import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ctrnn.calls import answered, answered_class

__all__ = ["public_names"]


def public_names(package: str, file: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` (PEP 562) of the package whose `__init__.py` is `file`.

    The stub is what type checkers read in its place; each line is `from home import name as name`, in the order of learning.
    A module of the package itself is an attribute, but is not in `__all__`, as an import of it would bind it anyway.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    homes = {alias.name: str(node.module) for node in imports for alias in node.names}
    exported = [name for name, home in homes.items() if home != package]

    def get(name: str) -> object:
        if name not in homes:
            near = "" if name.startswith("_") else _nearest(name, list(homes))
            raise AttributeError(f"module {package!r} has no attribute {name!r}{near}")
        if homes[name] == package:
            return import_module(f"{package}.{name}")
        return _entrance(import_module(homes[name]), name)

    return exported, get, lambda: sorted(homes)


def _entrance(home: ModuleType, name: str) -> object:
    """What the public name stands for; a wrong call is answered in words, by the name it has here."""
    value = getattr(home, name)
    if inspect.isclass(value):
        return answered_class(value)
    if inspect.isfunction(value) and not hasattr(value, "answers"):
        setattr(home, name, answered(value))  # where pickle looks for it
    return getattr(home, name)


def _nearest(name: str, known: list[str]) -> str:
    lower = {other.lower(): other for other in known}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.7)
    return f"; did you mean {lower[near[0]]!r}?" if near else ""
