"""Functions and code run in a fresh Python process, with their result as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["call_in_process", "run_in_process"]

ROOT = Path(__file__).resolve().parents[2]
CALL = "import json, sys; from {module} import {name}; print(json.dumps({name}(**json.loads(sys.argv[1]))))"


def call_in_process(module: str, name: str, arguments: Mapping[str, object], environment: Mapping[str, str] | None = None) -> Any:
    """What a module's function returns for these arguments."""
    return run_in_process(CALL.format(module=module, name=name), json.dumps(arguments), environment=environment)


def run_in_process(code: str, *words: str, environment: Mapping[str, str] | None = None) -> Any:
    """The JSON in the last line that this code prints. Raises: RuntimeError, with the last line of its stderr."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {**os.environ, "PYTHONPATH": path, **(environment or {})}
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, env=variables)
    if done.returncode:
        last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise RuntimeError(last.removeprefix("RuntimeError: "))
    return json.loads(done.stdout.splitlines()[-1])
