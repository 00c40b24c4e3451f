r"""Proves that a cell in a file of yours is equal to equations in a file of yours, or to its own formula."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from derivations.prover.verdict import condition_words
from derivations.tracing.formula import OWN_FORMULA
from derivations.tracing.proof import verify
from derivations.tracing.reading import UnknownOperation
from derivations.tracing.symbolic import SECONDS, symbolic
from experiments.code_files import called, imported, no_exit
from experiments.usage import UsageError, nearest

__all__ = ["run"]


def run(cell: str, equations: str | None = None, seconds: float = SECONDS) -> bool:
    r"""Print the verdict, and return whether the cell is proved equal to the equations.

    Args:    cell: FILE.py:NAME of a module, or of what makes one without arguments; equations: FILE.py:NAME of anything that
             `derivations.verify` takes, or of a function that makes it, of nothing or of `symbolic(cell)`; None for the
             `formula` of the cell's own class; seconds: after which the answer is undecided.
    Raises:  UsageError where there is no such file or name, or the equations do not fit the cell.
    """
    module = _named(cell)
    if callable(module) and not isinstance(module, nn.Module):
        module = called(cell, module)
    if not isinstance(module, nn.Module):
        raise UsageError(f"{cell} is no torch.nn.Module, nor makes one without arguments.")
    written = OWN_FORMULA if equations is None else _named(equations)
    try:
        if equations is not None and inspect.isfunction(written):
            written = called(
                equations, written, *([symbolic(module, seconds=seconds)] if inspect.signature(written).parameters else [])
            )
        with no_exit(cell):
            verdict = verify(module, written, seconds=seconds)
    except (UnknownOperation, TimeoutError) as unknown:
        print(f"undecided: {unknown}")
        return False
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    print(verdict.verdict)
    print(f"  {verdict.evidence}")
    if verdict.defined_on:
        print(f"  defined where {' and '.join(condition_words(verdict.defined_on))}")
    if verdict.counterexample is not None:
        print("  " + str(verdict.replay()).replace("\n", "\n  "))
    return bool(verdict)


def _named(place: str) -> Any:
    """Return what a user's file defines under a name."""
    file, colon, name = place.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise UsageError(f"{place!r} is not of the form FILE.py:NAME.")
    found = vars(imported(file))
    if name not in found:
        raise UsageError(f"{file} has no {nearest(name, [n for n in found if not n.startswith('_')])}")
    return found[name]
