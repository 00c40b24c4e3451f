"""Public names of a package: listed once, in its stub `__init__.pyi`, and imported when first used (PEP 562)."""

import ast
import difflib
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from ctrnn.calls import answered
from ctrnn.extras import needed_by

__all__ = ["homes_of", "public_names"]


def homes_of(file: str) -> dict[str, str]:
    """Return the public names of the package whose `__init__.py` is `file`, and the module of each; import nothing."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def public_names(package: str, file: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of the package whose `__init__.py` is `file`.

    Each line of the stub is `from home import name as name`, in the order of learning. The package keeps what a name stands for;
    of a function that is an `answered` one, and the one in its home stays as it is. A module of the package itself is an
    attribute, but is not in `__all__`, as an import of it would bind it anyway.
    """
    homes = homes_of(file)

    def get(name: str) -> object:
        if name not in homes:
            lower = {other.lower(): other for other in homes}
            near = [] if name.startswith("_") else difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.7)
            hint = f"; did you mean {lower[near[0]]!r}?" if near else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        home = homes[name]
        with needed_by(package):
            value: object = import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)
        if inspect.isfunction(value):
            value = answered(value)
            value.__module__ = package  # where pickle looks for it
        setattr(sys.modules[package], name, value)
        return value

    return [name for name, home in homes.items() if home != package], get, lambda: sorted(homes)
