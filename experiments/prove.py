r"""A cell in a file of yours, proved equal to equations in a file of yours."""

from __future__ import annotations

import importlib.util
import inspect
import sys
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
    module = module if isinstance(module, nn.Module) or not callable(module) else module()
    if not isinstance(module, nn.Module):
        raise UsageError(f"{cell} is no torch.nn.Module, nor makes one without arguments.")
    written = _named(equations, files)
    try:
        if inspect.isfunction(written):
            written = written(*([symbolic(module)] if inspect.signature(written).parameters else []))
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
    if not hasattr(files[path], name):
        raise UsageError(f"{file} has no {nearest(name, [n for n in vars(files[path]) if not n.startswith('_')])}")
    return getattr(files[path], name)


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{path} could not be run: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module
