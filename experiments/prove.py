r"""Proves that a cell in a file of yours is equal to equations in a file of yours, or to its own formula."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from derivations.tracing.formula import OWN_FORMULA
from derivations.tracing.proof import verify
from derivations.tracing.reading import UnknownOperation
from derivations.tracing.symbolic import SECONDS, symbolic
from experiments.code_files import SIZES, called, file_of, imported, no_exit, required
from experiments.derive.run import write_report
from experiments.files import check_output
from experiments.settings import assignments, value_of, words_of
from experiments.usage import UsageError, nearest, typed

__all__ = ["run"]


MADE_WITH = dict(zip(SIZES, (2, 3), strict=True))  # of a class that wants them, and is given none


def run(
    cell: str, equations: str | None = None, seconds: float = SECONDS, words: Sequence[str] = (), form: str = "table",
    out: Path | None = None,
) -> bool:  # fmt: skip
    r"""Report the verdict, and return whether the cell is proved equal to the equations.

    Args:    cell: FILE.py:NAME of a module, or of what makes one; words: KEY=VALUE, of its arguments, which may leave out
             input_size and hidden_size; equations: FILE.py:NAME of anything that
             `derivations.verify` takes, or of a function that makes it, of nothing or of `symbolic(cell)`; None for the
             `formula` of the cell's own class; seconds: after which the answer is undecided; form, out: of the report.
    Raises:  UsageError where there is no such file or name, or the equations do not fit the cell.
    """
    if out is not None:
        check_output(out)
        if out.resolve() in [Path(file_of(place)).resolve() for place in (cell, equations) if place is not None]:
            raise UsageError(f"--out {out} is the code itself; name another file.")
    command = typed("prove", cell, equations=equations, set=" ".join(words) or None, out=out)
    module = _named(cell, ", nor a paper, which ends in .md or .tex")
    arguments: dict[str, Any] = {}
    if callable(module) and not isinstance(module, nn.Module):
        arguments = _arguments(cell, module, words)
        module = called(cell, module, **arguments)
    elif words:
        raise UsageError(f"{cell} is not made here, so --set changes nothing; name its class.")
    if not isinstance(module, nn.Module):
        raise UsageError(f"{cell} is no torch.nn.Module, nor makes one.")
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
    made = f"made with {', '.join(f'{key}={words_of(value)}' for key, value in arguments.items())}" if arguments else ""
    if verdict.reports is None:  # nothing was read
        print(verdict.verdict, f"  {verdict.evidence}", *[f"  {made}"] * bool(made), sep="\n")
        return False
    found = verdict.report()
    summary = (verdict.verdict, *[made] * bool(made), f"Exit status {0 if verdict else 1}.")
    if form == "table":  # its first line is the verdict, as it ever was
        found = replace(found, title=summary[0], summary=summary[1:])
    write_report(replace(found, title=cell, summary=summary) if form != "table" else found, form, out, command)
    return bool(verdict)


def _arguments(cell: str, maker: Callable[..., object], words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that make a cell. Raises: UsageError for one that is required and missing, and for unknown ones."""
    given: dict[str, Any] = {key: value_of(text) for key, text in assignments(words).items()}
    try:
        parameters = inspect.signature(maker).parameters.values()
    except ValueError:  # a signature of C code cannot be read
        return given
    named = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    if not any(each.kind is each.VAR_KEYWORD for each in parameters) and (other := given.keys() - {each.name for each in named}):
        raise UsageError(f"{cell} takes no {nearest(min(other), [each.name for each in named])}")
    needed = [name for name in required(maker) if name not in given]
    if missing := [name for name in needed if name not in SIZES]:
        raise UsageError(f"{cell} needs {' and '.join(missing)}: --set {' '.join(f'{name}=...' for name in missing)}")
    return {name: MADE_WITH[name] for name in needed} | given


def _named(place: str, other: str = "") -> Any:
    """Return what a user's file defines under a name."""
    file, colon, name = place.rpartition(":")
    if not colon or not file.endswith(".py"):
        raise UsageError(f"{place!r} is not of the form FILE.py:NAME{other}.")
    found = vars(imported(file))
    if name not in found:
        raise UsageError(f"{file} has no {nearest(name, [n for n in found if not n.startswith('_')])}")
    return found[name]
