r"""Which engine runs a discrete cell over a sequence: "compiled", "torch", or none of them, and then why.

compiled     one kernel for the sequence, on the CPU; where it cannot be had, one warning says so
torch        the same in plain torch, with a backward pass of its own: torch_cells.py
steps        the step map, sample by sample, which takes any field and any step, and is what the others are compared with

A fused form is taken where it is known to be the same: of a named field, by exact type, under the Euler and the exponential
Euler step. Whatever looks into the steps gets them: a monitor, a transform, a trace.
"""

from __future__ import annotations

import importlib
from typing import Any

from torch import Tensor

from ctrnn import VectorField
from discretize.fused.build import Unavailable
from discretize.fused.eligibility import not_compiled, told, traced, under_autocast, unusual
from discretize.fused.kernel_spec import KernelSpec, Kind, kernel_spec_of, kind_of
from discretize.fused.switch import unwanted
from discretize.fused.torch_cells import cells
from discretize.steps.euler import Euler
from discretize.steps.exponential import ExponentialEuler
from discretize.steps.step import Step

__all__ = ["run"]

STEPS: dict[type[Step], str] = {Euler: "euler", ExponentialEuler: "exponential"}
COMPILED = "discretize.fused.compiled_cells"


def run(
    field: VectorField, step: Step, xs: Tensor, h0: Tensor, dt: float | Tensor, substeps: int, fused: bool
) -> tuple[Tensor | None, dict[str, Any]]:
    r"""The state after each sample, None if they are to be had step by step only; and "engine" and "engine_why" of the run.

    Shape:   xs (time, batch, input), h0 (batch, state), dt a number, or (time, 1, 1) or (time, batch, 1) -> (time, batch, state).
    Raises:  ValueError for a CTRNN_FUSED that says nothing.
    """
    kind = _covered(field, step, [xs, h0, *([dt] if isinstance(dt, Tensor) else [])], fused)
    if isinstance(kind, str):
        return None, {"engine": "steps", "engine_why": kind}
    recipe = kernel_spec_of(field, kind)
    states, why = _compiled(recipe, STEPS[type(step)], xs, h0, dt, substeps)
    if states is not None:
        return states, {"engine": "compiled", "engine_why": None}
    return cells(recipe, STEPS[type(step)], xs, h0, dt, substeps), {"engine": "torch", "engine_why": why}


def _covered(field: VectorField, step: Step, given: list[Tensor], fused: bool) -> Kind | str:
    """What the field is to a kernel, or why the steps are taken one by one."""
    if why := traced() or unwanted(fused):
        return why
    if type(step) not in STEPS:
        return f"{type(step).__name__} is not Euler or ExponentialEuler itself"
    kind = kind_of(field)
    if isinstance(kind, str):
        return kind
    return unusual([*given, *field.parameters(), *field.buffers()]) or under_autocast(given[0]) or kind


def _compiled(
    recipe: KernelSpec, step: str, xs: Tensor, h0: Tensor, dt: float | Tensor, substeps: int
) -> tuple[Tensor | None, str | None]:
    """The states from the compiled kernel; or None, and why if there is something to say."""
    if why := not_compiled(xs):
        return None, why
    try:
        made = importlib.import_module(COMPILED)
    except ImportError as error:
        if error.name == COMPILED:
            return None, None
        return None, told(str(error))
    try:
        return made.compiled_cells(recipe, step, xs, h0, dt, substeps), None
    except Unavailable as error:
        return None, told(str(error))
