"""Trains and compares from Python: `compare`, as `ctrnn compare` does at the prompt.

The package `experiments` is found here whatever else is called so, a folder of the user's say; its other modules are imported as
`experiments.runs.training` after this one.
"""

import sys
from pathlib import Path

from ctrnn_command import HERE, ours_first

ours_first()
_places = getattr(sys.modules.get("experiments"), "__path__", [HERE / "experiments"] if "experiments" not in sys.modules else [])
if HERE / "experiments" not in {Path(place).resolve() for place in _places}:
    raise ImportError(
        "another `experiments`, of your own, was imported first, and a process has one package of a name: import "
        "ctrnn_experiments before it, or compare at the prompt, `ctrnn compare`."
    )

from experiments.compare.command import compare  # noqa: E402

__all__ = ["compare"]
