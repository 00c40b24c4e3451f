r"""A cell in a file of yours, proved equal to equations in a file of yours."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from derivations.tracing.proof import verify
from derivations.tracing.reading import UnknownOperation
from derivations.tracing.symbolic import symbolic
from experiments.usage import UsageError, nearest

__all__ = ["run"]


def run(cell: str, equations: str) -> bool:
    r"""Print the verdict; whether the cell is proved equal to the equations.

    Args:    cell: FILE.py:NAME of a module, or of what makes one without arguments; equations: FILE.py:NAME of anything that
             `derivations.verify` takes, or of a function that makes it, of nothing or of `symbolic(cell)`.
    Raises:  UsageError where there is no such file or name, or the equations do not fit the cell.
    """
    files: dict[Path, ModuleType] = {}
    module = _named(cell, files)
    if callable(module) and not isinstance(module, nn.Module):
        module = _called(cell, module)
    if not isinstance(module, nn.Module):
        raise UsageError(f"{cell} is no torch.nn.Module, nor makes one without arguments.")
    written = _named(equations, files)
    try:
        if inspect.isfunction(written):
            written = _called(equations, written, *([symbolic(module)] if inspect.signature(written).parameters else []))
        with _no_exit(cell):
            verdict = verify(module, written)
    except UnknownOperation as unknown:
        print(f"undecided: {unknown}")
        return False
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    print(verdict.verdict)
    print(f"  {verdict.evidence}")
    if verdict.defined_on:
        print(f"  defined where {' and '.join(map(str, verdict.defined_on))}")
    if verdict.counterexample is not None:
        print("  " + str(verdict.replay()).replace("\n", "\n  "))
    return bool(verdict)


@contextmanager
def _no_exit(place: str) -> Iterator[None]:
    """Code that ends the program ends it with a code of its own, which would be taken for the verdict."""
    try:
        yield
    except SystemExit as error:
        raise UsageError(f"{place} ends the program: SystemExit: {error}") from error


def _called(place: str, made_by: Callable[..., Any], *arguments: Any) -> Any:
    try:
        with _no_exit(place):
            return made_by(*arguments)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{place} could not be called: {_line(error)}") from error


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _named(place: str, files: dict[Path, ModuleType]) -> Any:
    """What a file of the user's calls by a name; a file is run once."""
    file, colon, name = place.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise UsageError(f"{place!r} is not of the form FILE.py:NAME.")
    path = Path(file).resolve()
    if not path.is_file():
        raise UsageError(f"there is no file {file}.")
    if path not in files:
        files[path] = _imported(path)
    if name not in vars(files[path]):
        raise UsageError(f"{file} has no {nearest(name, [n for n in vars(files[path]) if not n.startswith('_')])}")
    return vars(files[path])[name]


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        with _no_exit(str(path)):
            spec.loader.exec_module(module)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{path} could not be run: {_line(error)}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module
