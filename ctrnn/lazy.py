"""Public names of a package: listed once, in its stub `__init__.pyi`, and imported when first used (PEP 562).

    line of a stub                                    the name is
    `from ctrnn.cells.named import gated as gated`    one that a newcomer meets: in `__all__` and `dir()`
    `from ctrnn import parts as parts`                a module of the package: in `dir()`
    `from ctrnn.parts import Affine as Affine`        in such a module, its place: found here too, not shown
    `to_torch = layers_to_torch`                      another's name before: found here too, not shown

Lines are in the order of learning.
"""

import ast
import difflib
import inspect
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

from ctrnn.calls import answered
from ctrnn.extras import needed_by

__all__ = ["homes_of", "place_of", "places_of", "public_names"]


@cache
def homes_of(file: str) -> dict[str, str]:
    """Return the public names of the package whose `__init__.py` is `file`, and the module with each; import nothing."""
    lines, aliases = _listed(file)
    inner = {room: homes_of(stub) for room, stub in _rooms(file).items() if Path(stub).with_suffix(".pyi").exists()}
    homes = {name: inner[home][name] if home in inner else home for name, home in lines.items()}
    homes |= {new: homes[old] for new, old in aliases.items()}
    return homes | {name: home for names in inner.values() for name, home in names.items() if name not in homes}


def places_of(file: str) -> dict[str, str]:
    """Return where a reader is told to find each public name: "ctrnn" of `gated`, "ctrnn.parts" of `Affine`."""
    package, rooms = Path(file).parent.name, _rooms(file)
    places = {name: home if home in rooms else package for name, home in _listed(file)[0].items() if home != package}
    inner = {room: homes_of(stub) for room, stub in rooms.items() if Path(stub).with_suffix(".pyi").exists()}
    return {**places, **{name: room for room, names in inner.items() for name in names if name not in places}}


def place_of(kind: type) -> str:
    """Return where a reader is told to find a class: of this library's public ones `places_of`, else its package."""
    package = "torch.nn" if kind.__module__.startswith("torch.nn.") else kind.__module__.partition(".")[0]
    file = str(getattr(sys.modules.get(package), "__file__", ""))
    return places_of(file).get(kind.__name__, package) if Path(file).with_suffix(".pyi").is_file() else package


def _rooms(file: str) -> dict[str, str]:
    """Return the modules that a stub names of its own package, and where their `__init__.py` would be."""
    place = Path(file).parent
    names = [name for name, home in _listed(file)[0].items() if home == place.name]
    return {f"{place.name}.{name}": str(place / name / "__init__.py") for name in names}


@cache
def _listed(file: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return names with the module that a stub's line takes each from, and names before with those of now."""
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body
    imports = [node for node in stub if isinstance(node, ast.ImportFrom)]
    aliases = {ast.unparse(node.targets[0]): ast.unparse(node.value) for node in stub if isinstance(node, ast.Assign)}
    return {alias.name: str(node.module) for node in imports for alias in node.names}, aliases


def public_names(package: str, file: str) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of the package whose `__init__.py` is `file`.

    The package keeps what a name stands for; of a function that is an `answered` one, and the one in its home stays as it is. A
    module of the package itself is an attribute, but is not in `__all__`, as an import of it would bind it anyway.
    """
    homes, aliases = _listed(file)
    modules = [name for name, home in homes.items() if home == package]
    rooms = [f"{package}.{name}" for name in modules]
    first = [name for name, home in homes.items() if home not in (package, *rooms)]

    def get(name: str) -> object:
        if name in aliases:
            return getattr(sys.modules[package], aliases[name])
        if name not in homes:
            top = Path(file).parents[package.count(".")] / "__init__.py"
            places = {each.lower(): f"{place}.{each}" for each, place in places_of(str(top)).items()}
            places |= {each.lower(): each for each in (*first, *modules)}
            near = [] if name.startswith("_") else difflib.get_close_matches(name.lower(), places, n=1, cutoff=0.7)
            hint = f"; did you mean {places[near[0]]!r}?" if near else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        home = homes[name]
        with needed_by(package):
            value: object = import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)
        if inspect.isfunction(value) and home not in rooms:  # which answer theirs
            value = answered(value)
            value.__module__ = package  # where pickle looks for it
        setattr(sys.modules[package], name, value)
        return value

    return first, get, lambda: sorted([*first, *modules])
