r"""The equations of a field's own formula, in the letters of its code: what `verify` proves where no equations are given."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sympy import Expr, ImmutableDenseMatrix, diag
from torch import nn

from ctrnn.formulas import SEVERAL, Formula, Weight, formula_of, recurrence_of
from derivations.tracing.guarded import exact
from derivations.tracing.stepped import SteppedField
from derivations.twins.fields import SymbolicField, SymbolicStep
from derivations.twins.written import Array, Equations, columns

__all__ = ["OWN_FORMULA", "OwnFormula", "noise_of_formula", "of_formula", "right_sides", "states_of"]


class OwnFormula:
    """Stands for the equations of a module's own `formula`, and not None, which a function without a return gives."""

    def __repr__(self) -> str:
        return "the module's own formula"


OWN_FORMULA = OwnFormula()


def of_formula(module: nn.Module, system: SymbolicField | SymbolicStep) -> list[Expr]:
    r"""Return the right sides that the formula of a field writes, in the order of its state.

    Args:    module: a field whose class has a `formula`, or a step of one with a `published` recurrence; system: the equations
             of its code, for their letters.
    Raises:  ValueError for a module without a formula, for one that this grammar cannot read, and for sizes that do not fit.
    """
    if isinstance(module, SteppedField):
        return _published(module, system)
    name, formula = type(module).__name__, formula_of(module)
    if formula is None:
        raise ValueError(f"`equations` were not given, and {name} has no `formula` of its own; give one of them.")
    try:
        return right_sides(formula, {f"d{state}/dt": state for state in states_of(formula)}, module, system)
    except ValueError as error:
        raise ValueError(f"the formula of {name} is no equation that could be proved: {error}") from error


def _published(module: SteppedField, system: SymbolicField | SymbolicStep) -> list[Expr]:
    """The recurrence that the field's class prints, if it is the one of this step; dt is the step's length, or its letter."""
    name, formula, published = type(module.field).__name__, formula_of(module.field), recurrence_of(module.field)
    if formula is None or published is None:
        raise ValueError(f"`equations` were not given, and {name} has no `formula` with a `published` recurrence of its own.")
    step, recurrence = published
    if type(module.step).__name__ != step:
        raise ValueError(f"what {name} has as `published` is its {step} step, not {module.step!r}; give `equations` of that.")
    letter = system.parameters.get("dt")
    dt = exact(float(module.dt)) if letter is None else letter[0]
    try:
        lines = {f"{state}'": state for state in states_of(formula)}
        return right_sides(recurrence.below("field"), lines, module, system, dt=dt)
    except ValueError as error:
        raise ValueError(f"the recurrence of {name} is no equation that could be proved: {error}") from error


def noise_of_formula(module: nn.Module, system: SymbolicField | SymbolicStep) -> ImmutableDenseMatrix | None:
    r"""Return G as the formula of a field writes it, (state, channels); None where it says nothing of it. Raises: as above."""
    formula = formula_of(module)
    left_sides = (
        {name for line in formula.text.splitlines() for name in line.partition(" = ")[0].split(", ")} if formula else set()
    )
    names = {f"G{state.removeprefix('h')}": f"d{state}/dt" for state in states_of(formula)} if formula else {}
    if formula is None or not left_sides & names.keys():
        return None
    flow, inputs = ImmutableDenseMatrix(of_formula(module, system)), ImmutableDenseMatrix(system.inputs)
    slope = np.array(flow.jacobian(inputs).tolist(), dtype=object) if system.inputs else 0
    lines = {line: line[1:].removesuffix("/dt") for line in names.values()}
    equations, units = _read(formula, lines, module, system, Fx=slope)
    values = [equations[name] if name in left_sides else 0 for name in names]
    if any(np.ndim(value) == 2 for value in values):
        return ImmutableDenseMatrix(np.concatenate(values))
    spread = [np.broadcast_to(value, part.shape) for value, part in zip(values, units, strict=True)]
    return ImmutableDenseMatrix(diag(*np.concatenate(spread)))


def states_of(formula: Formula) -> list[str]:
    """Return the names of the parts of a field's state, in their order: h where a line gives dh/dt."""
    return [line.partition("/dt = ")[0][1:] for line in formula.text.splitlines() if "/dt = " in line]


def right_sides(
    formula: Formula,
    lines: Mapping[str, str],
    module: nn.Module,
    system: SymbolicField | SymbolicStep,
    **further: object,
) -> list[Expr]:
    """Evaluate a formula for each part of the state, in the letters of the code.

    `lines` says which line belongs to which part, {"dh/dt": "h"}, in the order of the state; `further` are values by letter.
    """
    equations, units = _read(formula, lines, module, system, **further)
    return [e for line, part in zip(lines, units, strict=True) for e in np.broadcast_to(equations[line], part.shape)]


def _read(
    formula: Formula, lines: Mapping[str, str], module: nn.Module, system: SymbolicField | SymbolicStep, **further: object
) -> tuple[Equations, list[Array]]:
    """The equations, and the letters of each part of the state, of equal size but where the field's `part_sizes` say else."""
    sizes = getattr(module, "part_sizes", None)
    if not lines or (len(system.state) % len(lines) and sizes is None):
        raise ValueError(f"{len(lines)} lines give a derivative, for {len(system.state)} numbers of the state.")
    units = np.split(columns(system.state), len(lines) if sizes is None else np.cumsum(sizes)[:-1])
    if several := [letter for letter, weight in formula.letters.items() if weight == SEVERAL]:
        raise ValueError(f"two weights are called {several[0]}; give one of their parts an index, as {{part:2}}.")
    weights = {letter: _array(module, system, weight) for letter, weight in formula.letters.items()}
    known = {"I": np.eye(len(units[0]), dtype=int).astype(object), **weights, "x": columns(system.inputs), **further}
    return Equations(formula.text, known | dict(zip(lines.values(), units, strict=True)), number=exact), units


def _array(module: nn.Module, system: SymbolicField | SymbolicStep, weight: Weight) -> Array:
    home, _, name = weight.path.rpartition(".")
    if (tensor := getattr(module.get_submodule(home), name, None)) is None:
        raise ValueError(f"a letter stands for {weight.path}, which is not there.")
    entries = system.parameters.get(weight.path)
    values = columns(entries if entries is not None else map(exact, tensor.flatten().tolist())).reshape(tensor.shape)
    return values if weight.blocks == 1 else np.split(values, weight.blocks, weight.axis)[weight.block]
