"""Public names of a package that are imported when first used, listed once, in the package's stub `__init__.pyi`."""

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

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
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(homes[name]), name)

    return exported, get, lambda: sorted(homes)
