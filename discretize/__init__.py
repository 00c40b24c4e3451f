"""From vector fields to sequences of states: one-step maps, sequence modules, exact integration."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from discretize.analysis.monitor import LongStep as LongStep
    from discretize.analysis.monitor import Monitor as Monitor
    from discretize.analysis.monitor import Record as Record
    from discretize.analysis.monitor import StepWarning as StepWarning
    from discretize.analysis.refine import Refinement as Refinement
    from discretize.analysis.refine import refine as refine
    from discretize.analysis.stability import REGIONS as REGIONS
    from discretize.analysis.stability import Growth as Growth
    from discretize.analysis.stability import growth as growth
    from discretize.analysis.stability import regions as regions
    from discretize.errors import KernelWarning as KernelWarning
    from discretize.errors import SolverError as SolverError
    from discretize.errors import SolverWarning as SolverWarning
    from discretize.errors import StepError as StepError
    from discretize.sequences.cell import DiscreteCell as DiscreteCell
    from discretize.sequences.integrate import integrate as integrate
    from discretize.sequences.rnn import ContinuousRNN as ContinuousRNN
    from discretize.sequences.rnn import DiscreteRNN as DiscreteRNN
    from discretize.sequences.unroll import unroll as unroll
    from discretize.steps.euler import Euler as Euler
    from discretize.steps.euler import Taylor2 as Taylor2
    from discretize.steps.exponential import ETD2 as ETD2
    from discretize.steps.exponential import ETDRK4 as ETDRK4
    from discretize.steps.exponential import ExponentialEuler as ExponentialEuler
    from discretize.steps.frozen import FrozenBackwardEuler as FrozenBackwardEuler
    from discretize.steps.frozen import FrozenTrapezoid as FrozenTrapezoid
    from discretize.steps.implicit import BackwardEuler as BackwardEuler
    from discretize.steps.implicit import Trapezoid as Trapezoid
    from discretize.steps.rosenbrock import ExponentialRosenbrock as ExponentialRosenbrock
    from discretize.steps.runge_kutta import Heun as Heun
    from discretize.steps.runge_kutta import Midpoint as Midpoint
    from discretize.steps.runge_kutta import RungeKutta4 as RungeKutta4
    from discretize.steps.splitting import Splitting as Splitting
    from discretize.steps.splitting import StrangSplitting as StrangSplitting
    from discretize.steps.step import Step as Step
    from discretize.trajectory import Trajectory as Trajectory

# The public names in the order one would learn them, by the file they live in.
_HOMES = {
    "steps.euler": ("Euler", "Taylor2"),
    "steps.exponential": ("ExponentialEuler", "ETD2", "ETDRK4"),
    "steps.runge_kutta": ("Midpoint", "Heun", "RungeKutta4"),
    "steps.implicit": ("BackwardEuler", "Trapezoid"),
    "steps.frozen": ("FrozenBackwardEuler", "FrozenTrapezoid"),
    "steps.rosenbrock": ("ExponentialRosenbrock",),
    "steps.splitting": ("Splitting", "StrangSplitting"),
    "steps.step": ("Step",),
    "sequences.cell": ("DiscreteCell",),
    "sequences.unroll": ("unroll",),
    "sequences.rnn": (
        "DiscreteRNN",
        "ContinuousRNN",
    ),
    "sequences.integrate": ("integrate",),
    "analysis.stability": ("regions", "REGIONS", "growth", "Growth"),
    "analysis.monitor": ("Monitor", "Record", "LongStep", "StepWarning"),
    "analysis.refine": ("refine", "Refinement"),
    "trajectory": ("Trajectory",),
    "errors": ("SolverError", "SolverWarning", "StepError", "KernelWarning"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
