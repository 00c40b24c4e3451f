"""Trains, compares, and makes tasks, sources of symbols and studies from Python: all that documents import beside ctrnn,
discretize and derivations.

It finds the package `experiments`, where these names have their homes, whatever else is called so, a folder of the user's say.
"""

import sys
from importlib import import_module
from pathlib import Path

from ctrnn_command import HERE, ours_first

ours_first()
_places = getattr(sys.modules.get("experiments"), "__path__", [HERE / "experiments"] if "experiments" not in sys.modules else [])
if HERE / "experiments" not in {Path(place).resolve() for place in _places}:
    raise ImportError(
        "another `experiments`, of your own, was imported first, and a process has one package of a name: import "
        "ctrnn_experiments before it, or train and compare at the prompt, `ctrnn train`, `ctrnn compare`."
    )

from ctrnn.extras import needed_by  # noqa: E402
from ctrnn.lazy import homes_of  # noqa: E402
from experiments.usage import nearest  # noqa: E402

_HOMES = homes_of(__file__)  # as ctrnn_experiments.pyi lists them
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {nearest(name, _HOMES)}")
    with needed_by(__name__, "all"):
        home = import_module(_HOMES[name])
        found: object = getattr(home, name, None) or import_module(f"{home.__name__}.{name}")  # a module is no attribute yet
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
