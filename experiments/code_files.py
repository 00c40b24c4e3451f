"""Runs Python files of the user's, and says in words what goes wrong in them."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from experiments.usage import UsageError

__all__ = ["SIZES", "called", "file_of", "imported", "named_in", "no_exit", "required"]

SIZES = ("input_size", "hidden_size")  # that a class of cells wants, and that are chosen where none are given


def imported(file: str) -> ModuleType:
    """Import a file as a module; it is run once in a process, and again if it was changed. Raises: UsageError."""
    path = Path(file).resolve()
    if not path.is_file():
        raise UsageError(f"{file} is a folder; name a file in it." if path.is_dir() else f"there is no file {file}.")
    name = f"ctrnn_file_{path.stem}_{abs(hash((path, path.stat().st_mtime_ns))):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their type hints up there
    sys.path.insert(0, str(path.parent))
    try:
        with no_exit(str(path)):
            spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, UsageError) or not isinstance(error, Exception):
            raise
        raise UsageError(f"{path} could not be run: {_line(error)}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def file_of(place: str) -> str:
    """Return FILE.py of FILE.py:NAME, or of FILE.py itself."""
    return place.rpartition(":")[0] if named_in(place) else place


def named_in(place: str) -> str:
    """Return NAME of FILE.py:NAME; "" of a file itself."""
    file, _, name = place.rpartition(":")
    return name if file.endswith(".py") and name.isidentifier() else ""


def called(place: str, made_by: Callable[..., object], *arguments: object, **keywords: object) -> Any:
    """Call a function of the user's. Raises: UsageError where it fails."""
    try:
        with no_exit(place):
            return made_by(*arguments, **keywords)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{place} could not be called: {_line(error)}") from error


def required(maker: Callable[..., object]) -> list[str]:
    """Return the names of arguments that have no default; none of what is not called, or not written in Python."""
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):
        return []
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [each.name for each in parameters if each.kind in by_name and each.default is each.empty]


@contextmanager
def no_exit(place: str) -> Iterator[None]:
    """Refuse code that ends the program: its exit code would be taken for the verdict."""
    try:
        yield
    except SystemExit as error:
        raise UsageError(f"{place} ends the program: SystemExit: {error}") from error


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
