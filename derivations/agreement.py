r"""Equality of the torch code and the equations that each cell shows, proved for all weights.

    torch field -> recorded by torch -> graph of tensor operations -> each read as SymPy arithmetic -> dh/dt, for all weights
    the class's `formula`, text -> parsed by a grammar of one page -> SymPy arithmetic -> dh/dt, for all weights

Every parameter entry is a letter, so an equality that is proved holds for all weights. A float in the code is the rational
number that it is, an int stays an int. Arithmetic is that of the real numbers: rounding is not part of the comparison.
Of published cells the paper's recurrence is compared too, with a step map of their field whose length is a letter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from sympy import ImmutableDenseMatrix
from torch import Tensor, nn

import discretize
from ctrnn.cells.catalog import variants
from ctrnn.fields.field import VectorField
from ctrnn.formulas import Formula, formula_of, recurrence_of
from derivations.prover.identity import Identity
from derivations.tracing.formula import of_formula, right_sides, states_of
from derivations.tracing.symbolic import symbolic

__all__ = ["agreement_identities"]

SIZES = {"glnn": (2, 2), "gnn": (2, 2)}  # two symbols, to see that each selects its weights
SETTINGS: dict[str, dict[str, Any]] = {  # where a default is 1, or the proof would be long
    "antisymmetric": {"gamma": 0.25},
    "cornn": {"gamma": 0.25, "epsilon": 0.5},
    "unicornn": {"alpha": 0.25},
    "rhn": {"depth": 2},
}


def agreement_identities() -> Iterator[Identity]:
    r"""Every cell of ctrnn, as coded, against its formula, and published cells as they are stepped against their papers' print.

    Returns: identities one at a time, for each is traced when asked for.
    """
    for name, label, constructor in variants():
        field = constructor(*SIZES.get(name, (1, 2)), **SETTINGS.get(name, {}), dtype=torch.float64)
        if (formula := formula_of(field)) is not None:
            yield _shown(label, field, formula)
        if (published := recurrence_of(field)) is not None:
            yield _stepped(label, field, *published)


def _shown(label: str, field: VectorField, formula: Formula) -> Identity:
    traced = symbolic(field)
    return Identity(
        name=f"{label} as coded",
        source="this project",
        statement=f"ctrnn's {label} field, traced from its torch code, is the equation that it shows.",
        lhs=traced.flow,
        rhs=ImmutableDenseMatrix(of_formula(field, traced)),
        assumptions=_numbers(formula),
        label=f"code, {label}",
    )


class _Stepped(nn.Module):
    """A field's next state by a step map, whose length is a parameter, so that what is proved is proved of every length."""

    def __init__(self, field: VectorField, step: discretize.Step) -> None:
        super().__init__()
        self.field, self.step, self.dt = field, step, nn.Parameter(torch.ones((), dtype=torch.float64))
        self.input_size, self.hidden_size = field.input_size, field.state_size

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        return self.step.advance(self.field, self.field.project(x), h, self.dt)


def _stepped(label: str, field: VectorField, step: str, recurrence: Formula) -> Identity:
    module = _Stepped(field, getattr(discretize, step)())
    traced, formula = symbolic(module), formula_of(field)
    assert formula is not None
    lines = {f"{state}'": state for state in states_of(formula)}
    return Identity(
        name=f"{label} as stepped",
        source="this project",
        statement=f"The {step} step of ctrnn's {label} field, traced from its torch code, is the paper's recurrence, for every "
        "length dt.",
        lhs=traced.flow,
        rhs=ImmutableDenseMatrix(right_sides(recurrence.below("field"), lines, module, traced, dt=traced.parameters["dt"][0])),
        assumptions=_numbers(recurrence),
        label=f"code, {label}, {step}",
    )


def _numbers(formula: Formula) -> tuple[str, ...]:
    """The constants that are numbers in the proof, in words."""
    words = ", ".join(f"{name} = {value:g}" for name, value in formula.numbers.items())
    return (words,) if words else ()
