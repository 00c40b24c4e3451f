r"""Builds integrators by name: exact solves, or step maps.

exact               dh/dt = field(x, h) solved over held samples, up to a tolerance
euler ...           one-step maps of discretize, a sample a step, or `substeps` steps a sample
euler-maruyama ...  those for fields with noise
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from inspect import signature, unwrap
from typing import TYPE_CHECKING, Any, Literal

import discretize
import discretize.steps
from discretize.steps.catalog import dashed, step_names, stochastic_step_names
from experiments.settings import Checked, Count
from experiments.usage import UsageError, check_word

__all__ = [
    "EXACT",
    "FOR_NOISE",
    "INTEGRATORS",
    "IntegratorSettings",
    "chooses_steps",
    "integrator_name",
    "sequence_module",
    "step_settings",
    "under",
]

if TYPE_CHECKING:
    from ctrnn import VectorField
    from discretize import JumpRNN, SequenceModel, Step
    from discretize.sequences.module import SequenceModule

EXACT = "exact"
FOR_NOISE = {dashed(name): name for name in stochastic_step_names()}
BY_LEAK = {"exponential-euler", "frozen-backward-euler", "frozen-trapezoid", "splitting", "capped-euler"}
INTEGRATORS = {EXACT: "ContinuousRNN"} | {dashed(name): name for name in step_names()} | FOR_NOISE


@dataclass(frozen=True)
class IntegratorSettings(Checked):
    r"""Sets the accuracy of integration, and when samples act.

    Args:    method, rtol, atol: of the solver, for "exact"; substeps: equal steps a sample is read in, for the step maps;
             cap: the largest g dt, rate times length, of a step of "capped-euler"; hold: "forward" or "backward", for tasks whose
             samples have stamps: from these on, or up to them; samples at which the state jumps do not act for a while.
    Raises:  ValueError for tolerances, counts and caps that are not above 0, and another word.
    """

    method: str = "dopri5"
    rtol: float = 1e-3
    atol: float = 1e-5
    substeps: Count = 1
    cap: float = 1.0
    hold: Literal["forward", "backward"] = "forward"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, number, most in (("rtol", self.rtol, 1.0), ("atol", self.atol, math.inf), ("cap", self.cap, math.inf)):
            if not 0 < number < most:
                below = f" and below {most:g}" if most < math.inf else ""
                raise ValueError(f"`{name}` must be a number above 0{below}, got {number:g}.")


def chooses_steps(method: str) -> bool:
    """Return whether a method of a solver reads tolerances; True for one that there is not, which the solver refuses."""
    from discretize.settings import Settings  # noqa: PLC0415 (torch)

    try:
        return Settings(method).adaptive
    except (TypeError, ValueError):
        return True


def integrator_name(step: Step) -> str:
    """Return the name of a step map. Raises: UsageError for one that has none."""
    kind = type(step).__name__
    found = [
        name for name, known in INTEGRATORS.items() if known == kind and type(step) is getattr(discretize.steps, known, None)
    ]
    if not found:
        raise UsageError(f"integrator is a name, or a step map of discretize, by which a run could find it again; got {step!r}.")
    return found[0]


def step_map(name: str, settings: IntegratorSettings) -> Step:
    """Make the step map of that name, with those of the settings that its class takes."""
    kind = getattr(discretize.steps, INTEGRATORS[name])
    made: Step = kind(**{key: getattr(settings, key) for key in step_settings(kind)})
    return made


def step_settings(kind: type[Step]) -> list[str]:
    """Return the settings that a step map's class takes."""
    taken = signature(kind).parameters
    return [setting.name for setting in dataclasses.fields(IntegratorSettings) if setting.name in taken]


def under(model: SequenceModel, integrator: str, settings: IntegratorSettings | None = None) -> SequenceModel:
    r"""Return a model with the same, shared weights under another integrator, with the same `hold`; training one trains both.

    Raises:  UsageError for a name that no integrator has.
    """
    held: Any = model.rnn.hold
    settings = dataclasses.replace(settings or IntegratorSettings(), hold=held.direction)
    rnn = model.rnn if isinstance(model.rnn, discretize.JumpRNN) else model.field
    return model.under(sequence_module(integrator, rnn, settings, held.open_interval or 1.0))


def sequence_module(
    name: str, field: VectorField | JumpRNN, settings: IntegratorSettings, open_interval: float = 1.0
) -> SequenceModule:
    r"""Return a module that integrates the field by name; for a model that jumps, between its jumps.

    Args:    open_interval: for how long the sample acts whose interval stamps leave open, a task's `open_interval`.
    Raises:  UsageError for a name that no integrator has, for a method that no solver has, for several steps from jump to
             jump, and for noise with what is for equations without, or the other way round.
    """
    from ctrnn import VectorField  # noqa: PLC0415 (torch)
    from discretize.errors import StepWarning, warn_user  # noqa: PLC0415
    from discretize.jumps.cfc import Curve  # noqa: PLC0415
    from discretize.jumps.gru_d import Elapsed  # noqa: PLC0415

    check_word("integrator", name, INTEGRATORS)
    if name in BY_LEAK and isinstance(field, VectorField) and unwrap(type(field).leak) is unwrap(VectorField.leak):
        warn_user(
            f"The field {type(field).__name__} declares no leak, and without one {name} is Euler's step. In a class of your own "
            "`leak = ctrnn.traced_leak` reads it off the code of `flow`.",
            StepWarning,
        )
    held: Any = {"hold": settings.hold, "open_interval": open_interval}
    exact: Any = {"method": settings.method}
    if chooses_steps(settings.method):
        exact |= {"rtol": settings.rtol, "atol": settings.atol}
    how: Any = exact if name == EXACT else {"method": step_map(name, settings)}
    try:
        if isinstance(field, discretize.JumpRNN):
            if settings.substeps != 1:
                raise ValueError(f"`substeps` must be 1 where the state jumps at each sample, got {settings.substeps}.")
            held = held if isinstance(field, discretize.HeldJumpRNN) else {}
            if name == EXACT and isinstance(field.field, Elapsed | Curve):
                how = {"method": discretize.Euler()}  # time alone passes, so one step is exact
            return type(field)(field.field, field.jump, **how, **held)
        if name == EXACT:
            return discretize.ContinuousRNN(field, **how, **held)
        return discretize.DiscreteRNN(field, how["method"], substeps=settings.substeps, **held)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{error}") from error
