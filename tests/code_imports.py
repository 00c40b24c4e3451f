"""Reads the code of the packages: what each file imports, wherever it says so. Each file is parsed once for all tests."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ["ctrnn", "discretize", "derivations", "experiments"]  # a file imports from its own or from the left of it
FILES = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
BY_CALL = re.compile(r"\b_?import_module\(|\b__import__\(")  # most files have none, and need not be looked through for calls


def top(module: str) -> str:
    return module.partition(".")[0]


@functools.cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(), str(file))


def statements(file: Path) -> Iterator[ast.stmt]:
    """Every statement, in functions and branches too: a tenth of the nodes."""
    left: list[ast.AST] = [tree(file)]
    while left:
        node = left.pop()
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            below = getattr(node, block, None)
            if isinstance(below, list):  # `body` of a lambda or an expression is none
                left += below
        if isinstance(node, ast.stmt):
            yield node


def names_imported(file: Path, root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """(module, name) of every import wherever it stands; the name is empty for a whole module, also by `import_module`."""
    for node in statements(file):
        if isinstance(node, ast.Import):
            yield from ((name.name, "") for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = file.parent.relative_to(root).parts
            home = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*home, *([node.module] if node.module else [])])
            yield from ((module, name.name) for name in node.names)
    for node in ast.walk(tree(file)) if BY_CALL.search(file.read_text()) else ():
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "_import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.args[0].value, ""


@functools.cache
def imported_modules(file: Path, root: Path = ROOT) -> set[str]:
    """Every module that a file names in an import; `from derivations import agreement` names one by its second half."""
    return {full for module, name in names_imported(file, root) for full in (module, f"{module}.{name}".rstrip("."))}
