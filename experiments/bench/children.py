"""Questions for a process of its own: what it takes to be there at all, and how much memory it came to hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["asked", "fresh"]

ROOT = Path(__file__).resolve().parents[2]
CALL = "import json, sys; from {module} import {name}; print(json.dumps({name}(**json.loads(sys.argv[1]))))"


def asked(module: str, name: str, arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Any:
    """What that function returns in a fresh process, by way of JSON."""
    return fresh(CALL.format(module=module, name=name), json.dumps(arguments), environment=environment)


def fresh(code: str, *words: str, environment: Mapping[str, str] | None = None) -> Any:
    """The JSON that this code prints last in a fresh process. Raises: RuntimeError, with the last line of what it said."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    around = {**os.environ, "PYTHONPATH": path, **(environment or {})}
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False, env=around)
    if done.returncode:
        last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise RuntimeError(last.removeprefix("RuntimeError: "))
    return json.loads(done.stdout.splitlines()[-1])
