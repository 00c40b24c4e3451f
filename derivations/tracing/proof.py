r"""Prove that a module's own code is the given equations, or find numbers at which it is not."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

from torch import nn

from ctrnn.fields.field import VectorField
from derivations.prover.verdict import HOLDS_ASSUMING, Verdict
from derivations.tracing.blocks import Unwide
from derivations.tracing.decision import decide
from derivations.tracing.equations import Letters, has_derivatives, match
from derivations.tracing.formula import OWN_FORMULA, of_formula
from derivations.tracing.program import trace
from derivations.tracing.replay import Replay
from derivations.tracing.running import as_recorded
from derivations.tracing.sizes import Widths, at_sizes
from derivations.tracing.symbolic import system_of
from derivations.tracing.wide import certificates_for_every_width
from derivations.twins.cells import UnitEquations

__all__ = ["verify"]


def verify(
    module: nn.Module,
    equations: object = OWN_FORMULA,
    letters: Letters | None = None,
    *,
    widths: Widths | None = None,
    field: bool | None = None,
) -> Verdict:
    r"""Prove that a module's own code is the given equations, for all weights, inputs and states.

    Without equations those of a field's own `formula` are proved: `verify(ctrnn.gru(1, 2))` says that the code is what it shows.

    Args:    module, widths, field: as for `symbolic`; equations: Eq with left sides dh_i/dt or the next h_i' (as `symbolic`
             gives them, in any order), a dict {unit: right side}, right sides in the order of the state, or `UnitEquations`
             for the i-th unit of any width; letters: which letter of the equations is which of `symbolic(module)`, or which
             expression in them, where names do not tell.
    Returns: a `Verdict`, true only if proved: `evidence` says how, and at which sizes or for every width; `defined_on` where
             both sides are defined if that is not everywhere; `certificate` what the checker accepts, one for each unit and,
             for every width, one for the i-th of each part of the state; where refuted, `replay()` computes both sides in torch.
    Raises:  what `symbolic` raises; ValueError if the equations do not fit the module.
    """
    start = perf_counter()
    if isinstance(equations, UnitEquations):
        if letters or widths is not None or field:
            raise ValueError("UnitEquations are of cells, in the module's own names: without `letters`, `widths` and `field`.")
        widths, written = at_sizes(module, equations)
        verdict = _verified(module, written, {}, widths, False)
        verdict = _for_every_width(verdict, module, equations) if verdict else verdict
    else:
        verdict = _verified(module, equations, {} if letters is None else letters, widths, field)
    said = "its formula" if equations is OWN_FORMULA else "the equations"
    statement = f"The code of {type(module).__name__} is {said}, for all weights, inputs and states."
    return replace(verdict, seconds=perf_counter() - start, statement=statement)


def _for_every_width(verdict: Verdict, module: nn.Module, equations: UnitEquations) -> Verdict:
    """Add what is proved for all sizes, or why that is not proved."""
    try:
        further = certificates_for_every_width(module, equations)
    except Unwide as reason:
        return replace(verdict, evidence=f"{verdict.evidence}; at the module's sizes only: {reason}")
    words = f"{verdict.evidence}; for weights of every width from 2 on"
    return replace(verdict, evidence=words, certificate=(*verdict.certificate, *further))


def _verified(module: nn.Module, equations: object, letters: Letters, widths: Widths | None, field: bool | None) -> Verdict:
    program = trace(module, widths)
    if field is None:
        field = isinstance(module, VectorField) or (equations is not OWN_FORMULA and has_derivatives(equations))
    system = system_of(program, module, field)
    if system_of(trace(module, widths, any_batch=False), module, field).flow != system.flow:
        raise ValueError("the code treats a batch of one sample otherwise than one of several; it must act on each by itself.")
    conditions = as_recorded(module, program)
    if equations is OWN_FORMULA:
        equations = dict(zip(system.state, of_formula(module, system), strict=True))
    matched = match(equations, system, letters)
    right = [value.expr for value in matched.right]
    verdict = decide(list(system.flow), right, {*system.defined_on, *(c for value in matched.right for c in value.where)})
    sizes = f"at {len(system.inputs)} inputs and {len(system)} units"
    where = [f"where {' and '.join(map(str, verdict.defined_on))}"] if verdict.defined_on else []
    notes = [verdict.evidence, *where, sizes, *conditions.words, *matched.notes, *filter(None, [program.note])]
    found = verdict.counterexample
    replays = None if found is None else Replay(module, program, system, right, found)
    word = HOLDS_ASSUMING if verdict and conditions.assumed else verdict.verdict
    return replace(verdict, verdict=word, evidence="; ".join(notes), replays=replays)
