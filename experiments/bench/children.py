"""Runs functions and imports in processes of their own: a worker of the pool, and for imports an interpreter that has none.

A worker has imported what the pool needs: there `import ctrnn` takes nothing in place of 0.06 s of the processor, and `import
torch` 0.90 in place of 1.00 (medians of 5 on an AMD EPYC).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from derivations.processes.pool import Work, run_alone

__all__ = ["begin", "call_in_process", "seconds_of_import"]

ROOT = Path(__file__).resolve().parents[2]
CODE = "import time; begin = time.perf_counter(); {statement}; print(time.perf_counter() - begin)"


def call_in_process(function: str, arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Any:
    """Return what a function, module:name, returns for these arguments. Raises: RuntimeError, for whatever is raised there."""
    work = Work("experiments.bench.children:begin", (function, tuple((environment or {}).items())), arguments.get("threads", 1))
    end = run_alone(work, tuple(arguments.items()))
    if end.error is not None:
        kind = "" if isinstance(end.error, RuntimeError) else f"{type(end.error).__name__}: "
        raise RuntimeError(f"{kind}{end.error}") from end.error
    return end.result


def begin(function: str, environment: tuple[tuple[str, str], ...]) -> Callable[[tuple[tuple[str, Any], ...]], Any]:
    """Return the function, imported where these variables are set, called with names and values."""
    os.environ.update(environment)
    call = resolve_name(function)
    return lambda arguments: call(**dict(arguments))


def seconds_of_import(statement: str) -> float:
    """Time an import in an interpreter of its own. Raises: RuntimeError, with the last line that it says."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", CODE.format(statement=statement)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1])
    return float(done.stdout.splitlines()[-1])
