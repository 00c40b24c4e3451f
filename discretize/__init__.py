"""From vector fields to sequences of states: one-step maps, sequence modules, exact integration."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from discretize.cell import DiscreteCell as DiscreteCell
    from discretize.errors import SolverError as SolverError
    from discretize.rnn import ContinuousRNN as ContinuousRNN
    from discretize.rnn import DiscreteRNN as DiscreteRNN
    from discretize.solve import integrate as integrate
    from discretize.steps.euler import Euler as Euler
    from discretize.steps.step import Step as Step
    from discretize.trajectory import Trajectory as Trajectory
    from discretize.unrolling import unroll as unroll

# The public names in the order one would learn them, by the file they live in.
_HOMES = {
    "steps.euler": ("Euler",),
    "steps.step": ("Step",),
    "cell": ("DiscreteCell",),
    "unrolling": ("unroll",),
    "rnn": (
        "DiscreteRNN",
        "ContinuousRNN",
    ),
    "solve": ("integrate",),
    "trajectory": ("Trajectory",),
    "errors": ("SolverError",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
