r"""Prove that a module's own code is the given equations, or find numbers at which it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import perf_counter

import sympy
from sympy import Basic, Expr, ImmutableDenseMatrix
from torch import nn

from ctrnn.fields.computed import with_free_weights
from ctrnn.fields.field import VectorField
from derivations.prover.timelimit import OutOfTime, time_limit
from derivations.prover.verdict import BUT_FOR_ROUNDING, HOLDS_ASSUMING, UNDECIDED, Verdict, condition_words
from derivations.tracing.beside import report_of
from derivations.tracing.blocks import Unwide
from derivations.tracing.decision import decide
from derivations.tracing.equations import Letters, Matched, has_derivatives, match
from derivations.tracing.formula import OWN_FORMULA, noise_of_formula, of_formula
from derivations.tracing.replay import Replay, Replayed
from derivations.tracing.rounding import but_for_rounding
from derivations.tracing.running import as_recorded
from derivations.tracing.sizes import Widths, at_sizes, uncompiled
from derivations.tracing.stepped import SteppedField, as_map
from derivations.tracing.symbolic import READ, RECORDED, RUN, SECONDS, as_written, diffusion_of, out_of_time, system_of
from derivations.tracing.trace import trace
from derivations.tracing.wide import certificates_for_every_width
from derivations.twins.cells import UnitEquations
from derivations.twins.fields import SymbolicField, SymbolicStep
from discretize.kernels.record.recording import ModuleRecord, operation_name
from discretize.progress import progress_bar

__all__ = ["verify"]

BLOWN_UP = 1000  # times of what is off by rounding


def verify(
    module: nn.Module,
    equations: object = OWN_FORMULA,
    letters: Letters | None = None,
    *,
    widths: Widths | None = None,
    field: bool | None = None,
    assumptions: Iterable[Basic] = (),
    seconds: float | None = SECONDS,
    progress: bool = False,
) -> Verdict:
    r"""Prove that a module's own code is the given equations, for all weights, inputs and states.

    Without equations those of a field's own `formula` are proved: `verify(ctrnn.gru(1, 2))` says that the code is what it shows.
    Of a `discretize.DiscreteCell` it is the recurrence that the field's class has as `published`, for the cell's dt.

        >>> bool(verify(ctrnn.gru(1, 2)))  # its code is the formula that it prints
        True

    Args:    module, widths, field: as for `symbolic`; equations: Eq with left sides dh_i/dt or the next h_i' (as `symbolic`
             gives them, in any order), a dict {unit: right side}, right sides in the order of the state, or `UnitEquations`
             for the i-th unit of any width; letters: which letter of the equations is which of `symbolic(module)`, or which
             expression in them, where names do not tell; assumptions: on letters, as tau > 0, beside those that the letters of
             the equations carry, which are made where it is not proved without; seconds: after which it is undecided, None for
             no limit; progress: a bar that counts what was done, recording, reading, and attempts to prove.
    Returns: a `Verdict`, true only if proved: `evidence` says how, and at which sizes or for every width; `defined_on` where
             both sides are defined if that is not everywhere; `certificate` what the checker accepts, one for each unit and,
             for every width, one for the i-th of each part of the state; where refuted, `replay()` computes both sides in
             torch. *Holds but for rounding*, which is not true, says that floats of the code are Python's for numbers of the
             equations, fractions or multiples of a step's dt, or that torch's softplus has its threshold, and how far apart they
             are at most.
    Raises:  what `symbolic` raises; ValueError if the equations or assumptions do not fit the module.
    """
    module = as_map(uncompiled(module))
    if equations is OWN_FORMULA:
        module = with_free_weights(module)  # a letter of the formula is the weight that the code reads, however it is computed
    start, at, verdict = perf_counter(), list[str](), Verdict(UNDECIDED, 0.0, "")

    def doing(what: str) -> None:
        at.append(what)
        show(len(at))

    try:
        with progress_bar("verify", progress, unit="stage") as show, time_limit(seconds), as_written():
            if isinstance(equations, UnitEquations):
                if letters or widths is not None or field or assumptions:
                    raise ValueError(
                        "UnitEquations are of cells, in the module's own names: without `letters`, `widths`, `field` and "
                        "`assumptions`."
                    )
                widths, written = at_sizes(module, equations)
                verdict = _verified(module, written, {}, widths, False, (), doing)
                verdict = _for_every_width(verdict, module, equations) if verdict else verdict
            else:
                chosen = {} if letters is None else letters
                verdict = _verified(module, equations, chosen, widths, field, tuple(assumptions), doing)
    except OutOfTime:
        if verdict:
            verdict = replace(verdict, evidence=f"{verdict.evidence}; at the module's sizes only: out of time")
        else:
            verdict = replace(verdict, evidence=out_of_time(seconds, at))
    own = "its formula" if not isinstance(module, SteppedField) else "the recurrence that it publishes"
    claim = own if equations is OWN_FORMULA else "the equations"
    statement = f"The code of {module._get_name()} is {claim}, for all weights, inputs and states."
    return replace(verdict, seconds=perf_counter() - start, statement=statement)


def _of_softplus(program: ModuleRecord, verdict: Verdict, right: Sequence[Expr]) -> list[str]:
    """Say why log(1 + e^x), which is softplus in every book, is not torch's."""
    taken = any(operation_name(node) == "softplus" for node in program.graph.nodes) and any(e.has(sympy.log) for e in right)
    refuted = taken and not verdict and verdict.verdict != BUT_FOR_ROUNDING
    return (
        ["torch's softplus is x itself where x > 20, or above its threshold, so log(1 + e^x) is not its equation"]
        if refuted
        else []
    )


def _for_every_width(verdict: Verdict, module: nn.Module, equations: UnitEquations) -> Verdict:
    """Add what is proved for all sizes, or why that is not proved."""
    try:
        further, held = certificates_for_every_width(module, equations)
    except Unwide as reason:
        return replace(verdict, evidence=f"{verdict.evidence}; at the module's sizes only: {reason}")
    words = f"{verdict.evidence}; for weights of every width from 2 on{held}"
    return replace(verdict, evidence=words, certificate=(*verdict.certificate, *further))


def _with_noise(
    verdict: Verdict,
    diffusion: ImmutableDenseMatrix,
    claimed: ImmutableDenseMatrix,
    where: Iterable[Basic],
    doing: Callable[[str], object],
) -> Verdict:
    """Add to what is proved of dh/dt what is found of G."""
    if claimed.shape != diffusion.shape:
        raise ValueError(f"the formula's G is {claimed.shape}, and the code's {diffusion.shape}, (state, channels).")
    of_noise = decide(list(diffusion), list(claimed), where, doing)
    if not of_noise:
        return replace(of_noise, evidence=f"of G, its entries one row after the other, {of_noise.evidence}")
    return replace(
        of_noise,
        verdict=max(verdict.verdict, of_noise.verdict, key=len),  # the one with conditions, if any
        evidence=f"{verdict.evidence}; of G, {of_noise.evidence}",
        defined_on=tuple(dict.fromkeys((*verdict.defined_on, *of_noise.defined_on))),
        certificate=(*verdict.certificate, *of_noise.certificate),
    )


def _but_for_rounding(
    read: Callable[[], SymbolicField | SymbolicStep],
    claimed: Callable[[], Sequence[Expr]],
    where: set[Basic],
    doing: Callable[[str], object],
    replay: Callable[[], Replayed] | None,
    length: float | None,
) -> Verdict | None:
    """Prove the equations with floats read as the numbers that they round; None where that is not proved, or where what is off is
    blown up: at the counterexample found, to a thousand times of what was exchanged and a thousandth of the outputs."""
    rounded = None
    with suppress(NotImplementedError, ValueError):  # SymPy may evaluate functions of other numbers, and the code be undefined
        rounded = but_for_rounding(
            read, claimed, lambda system, right: decide(list(system.flow), right, where | {*system.defined_on}, doing), length
        )
    if rounded is None or replay is None:
        return None if rounded is None else rounded[0]
    verdict, most = rounded
    pairs = replay()
    blown_up = any(abs(a - b) > max(BLOWN_UP * most, max(abs(a), abs(b)) / BLOWN_UP)
                   for a, b in zip(pairs.torch, pairs.equations, strict=True))  # fmt: skip
    return None if blown_up else verdict


def _verified(
    module: nn.Module,
    equations: object,
    letters: Letters,
    widths: Widths | None,
    field: bool | None,
    assumptions: Iterable[Basic],
    doing: Callable[[str], object],
) -> Verdict:
    equations = list(equations) if isinstance(equations, Iterator) else equations
    doing(RECORDED)
    program = trace(module, widths)
    if field is None:
        field = isinstance(module, VectorField) or (equations is not OWN_FORMULA and has_derivatives(equations))
    doing(READ)
    system = system_of(program, module, field)
    if system_of(trace(module, widths, any_batch=False), module, field).flow != system.flow:
        raise ValueError("the code treats a batch of one sample otherwise than one of several; it must act on each by itself.")
    doing(RUN)
    conditions = as_recorded(module, program)
    diffusion = diffusion_of(module, system) if field else None
    noise = noise_of_formula(module, system) if diffusion is not None and equations is OWN_FORMULA else None

    def read_equations() -> Matched:
        own = equations is OWN_FORMULA
        written = dict(zip(system.state, of_formula(module, system), strict=True)) if own else equations
        return match(written, system, letters, assumptions)

    matched = read_equations()
    right = [value.expr for value in matched.right]
    claimed = {*(c for value in matched.right for c in value.where), *matched.given}
    where = claimed | {*system.defined_on}
    verdict = decide(list(system.flow), right, where, doing)
    if not verdict and matched.assumed:
        claimed, where = claimed | {*matched.assumed}, where | {*matched.assumed}
        verdict = decide(list(system.flow), right, where, doing)
    if not verdict and diffusion is None:
        at = verdict.counterexample
        replay = None if at is None else Replay(module, program, system, right, at)
        length = module.dt if isinstance(module, SteppedField) and isinstance(module.dt, float) else None
        rounded = _but_for_rounding(
            lambda: system_of(program, module, field),
            lambda: [value.expr for value in read_equations().right],
            claimed,
            doing,
            replay,
            length,
        )
        verdict = verdict if rounded is None else rounded
    refuted = verdict.counterexample  # of dh/dt, which is computed in torch
    left = "of its noise, G dW, nothing is compared" if diffusion is not None and noise is None else ""
    if verdict and diffusion is not None and noise is not None:
        verdict = _with_noise(verdict, diffusion, noise, where, doing)
    sizes = f"at {len(system.inputs)} inputs and {len(system)} units"
    defined = [f"where {' and '.join(condition_words(verdict.defined_on))}"] if verdict.defined_on else []
    notes = [
        verdict.evidence,
        *_of_softplus(program, verdict, right),
        *defined,
        sizes,
        *conditions.words,
        *matched.notes,
        *filter(None, [program.note, left]),
    ]
    replays = None if refuted is None else Replay(module, program, system, right, refuted)
    word = HOLDS_ASSUMING if verdict and conditions.assumed else verdict.verdict
    reports = partial(report_of, module, program, system, right)
    return replace(verdict, verdict=word, evidence="; ".join(notes), replays=replays, reports=reports)
