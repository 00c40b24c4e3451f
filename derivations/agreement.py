r"""Equality of the torch code and the equations that each cell shows, proved for all weights.

    torch field -> recorded by torch -> graph of tensor operations -> each read as SymPy arithmetic -> dh/dt, for all weights
    the class's `formula`, text -> parsed by a grammar of one page -> SymPy arithmetic -> dh/dt, for all weights

Every parameter entry is a letter, so an equality that is proved holds for all weights. A float in the code is the rational
number that it is, an int stays an int. Arithmetic is that of the real numbers: rounding is not part of the comparison.
Of published cells the paper's recurrence is compared too, with a step map of their field whose length is a letter; and each
step for noise with its `equation`, on a field of one unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, TypeAlias

import torch
from sympy import Expr, ImmutableDenseMatrix, S, Symbol, sin, tanh
from torch import Tensor, nn

import discretize.steps
from ctrnn.cells.catalog import variants
from ctrnn.fields.field import VectorField
from ctrnn.formulas import Formula, formula_of, recurrence_of
from derivations.prover.identity import Identity
from derivations.tracing.formula import of_formula
from derivations.tracing.stepped import SteppedField
from derivations.tracing.symbolic import symbolic, system_of
from derivations.tracing.trace import trace
from derivations.twins.step_maps import stochastic_maps
from discretize.noise.brownian import cell_terms
from discretize.noise.increments import GivenIncrements

__all__ = ["agreement_identities", "bridge_coefficients"]

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
    yield from map(_driven, stochastic_maps())


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


def _of_every_length(field: VectorField, step: str) -> SteppedField:
    return SteppedField(field, getattr(discretize.steps, step)(), nn.Parameter(torch.ones((), dtype=torch.float64)))


def _stepped(label: str, field: VectorField, step: str, recurrence: Formula) -> Identity:
    module = _of_every_length(field, step)
    traced = symbolic(module)
    return Identity(
        name=f"{label} as stepped",
        source="this project",
        statement=f"The {step} step of ctrnn's {label} field, traced from its torch code, is the paper's recurrence, for every "
        "length dt.",
        lhs=traced.flow,
        rhs=ImmutableDenseMatrix(of_formula(module, traced)),
        assumptions=_numbers(recurrence),
        label=f"code, {label}, {step}",
    )


class _NoisyUnit(VectorField):
    """dh = (a tanh(b h) - L h) dt + G(h) dW, of leak L."""

    def __init__(self, noise: Callable[[Tensor], Tensor]) -> None:
        super().__init__(0, 1)
        self.noise = noise
        self.a, self.b, self.L, self.s = (nn.Parameter(torch.ones((), dtype=torch.float64)) for _ in range(4))

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.a * torch.tanh(self.b * h) - self.L * h

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.L.expand_as(h)

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.s * self.noise(h)


def _driven(name: str) -> Identity:
    """A step for noise, of one sample: what differentiates G asks torch for the size of a batch."""
    made, step = stochastic_maps()[name], getattr(discretize.steps, name)()
    additive = made.of == "additive"
    field = _NoisyUnit(torch.ones_like if additive else torch.sin)
    module = _of_every_length(GivenIncrements(field, step.reads_integral), name)
    traced = system_of(trace(module, any_batch=False), module)
    a, b, leak, s = (traced.parameters[f"field.field.{letter}"][0] for letter in "abLs")
    rate, length = Symbol("L", positive=True), Symbol("dt", positive=True)
    # Below 2 the code takes a series of phi1, which is it to rounding.
    beyond = (2 + Symbol("u", nonnegative=True)) / rate if "phi1" in made.equation else length
    put = {leak: rate, traced.parameters["dt"][0]: beyond}
    (h,), (w, *z) = traced.state, traced.inputs

    def noise(u: Expr) -> Expr:
        return s if additive else s * sin(u)

    def drift(u: Expr) -> Expr:
        return a * tanh(b * u) - rate * u

    after = made.driven(drift, noise, lambda u: rate, h, beyond, w, z[0] if z else S.Zero).doit()
    return Identity(
        name=f"{name} as coded",
        source="this project",
        statement=f"A step by {name} of dh = (a tanh(b h) - L h) dt + G dW, G = s{'' if additive else ' sin(h)'}, traced from "
        "its torch code, is its equation, for all increments of the noise and every dt > 0.",
        lhs=traced.flow.xreplace(put),
        rhs=ImmutableDenseMatrix([after]),
        assumptions=("dt is (2 + u)/L with u >= 0",) if beyond != length else (),
        label=f"code, {name}",
    )


Coefficients: TypeAlias = dict[int, Fraction]  # of normal numbers, by their nodes


def bridge_coefficients(parts: int) -> list[tuple[Coefficients, Coefficients]]:
    """Return what the code makes a Brownian path's increments w and z of, over equal parts of a cell of length 1."""
    nodes, w, z = (each.tolist() for each in cell_terms(parts, True))

    def of(row: list[int], terms: list[float]) -> Coefficients:
        return dict(zip(row, map(Fraction, terms), strict=True))

    return [(of(row, one), of(row, other)) for row, one, other in zip(nodes, w, z, strict=True)]


def _numbers(formula: Formula) -> tuple[str, ...]:
    """The constants that are numbers in the proof, in words."""
    words = ", ".join(f"{name} = {value:g}" for name, value in formula.numbers.items())
    return (words,) if words else ()
