r"""Proofs that a module's own code is the equations somebody has in mind, or numbers at which it is not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from sympy import Basic, Expr, Rational, S, Symbol, exp
from sympy.core.function import AppliedUndef
from sympy.functions.elementary.hyperbolic import HyperbolicFunction
from torch import nn

from ctrnn.fields.field import VectorField
from derivations.prover.identity import Identity, check
from derivations.prover.refutation import NOTICEABLE, certain_value
from derivations.prover.verdict import FAILS, HOLDS, HOLDS_ASSUMING, UNDECIDED, Verdict
from derivations.tracing.equations import Letters, has_derivatives, match
from derivations.tracing.kinks import kinks, smooth_cases
from derivations.tracing.program import Widths, trace
from derivations.tracing.replay import Replay
from derivations.tracing.symbolic import system_of
from derivations.tracing.values import assuming, ordered

__all__ = ["decide", "verify"]

MOST_KINKS = 6
TRIALS = 300


def verify(
    module: nn.Module, equations: Any, letters: Letters | None = None, *, widths: Widths | None = None, field: bool | None = None
) -> Verdict:
    r"""Prove that a module's own code is the given equations, for all weights, inputs and states.

    Args:    module, widths, field: as for `symbolic`; equations: Eq with left sides dh_i/dt or the next h_i' (as `symbolic`
             gives them, in any order), a dict {unit: right side}, or right sides in the order of the state; letters: which
             letter of the equations is which of `symbolic(module)`, or which expression in them, where names do not tell.
    Returns: a `Verdict`, true only if proved: `evidence` says how and at which sizes, `defined_on` where both sides are
             defined if that is not everywhere; where refuted, `replay()` computes both sides in torch.
    Raises:  what `symbolic` raises; ValueError if the equations do not fit the module.
    Source:  this project.
    """
    start, letters = perf_counter(), letters or {}
    program = trace(module, widths)
    if field is None:
        field = isinstance(module, VectorField) or has_derivatives(equations)
    system = system_of(program, module, field)
    if system_of(trace(module, widths, any_batch=False), module, field).flow != system.flow:
        raise ValueError(
            "the code treats a batch of one sample otherwise than one of several; it must act on each sample by itself."
        )
    matched = match(equations, system, letters)
    conditions = {*system.defined_on, *(c for value in matched.right for c in value.where)}
    verdict = decide(list(system.flow), [value.expr for value in matched.right], conditions)
    sizes = (
        ", ".join(f"{name} {width}" for name, width in (widths or {}).items())
        or f"{len(system.inputs)} inputs, {len(system)} units"
    )
    notes = [f"at these sizes ({sizes})", *matched.notes, *([program.note] if program.note else [])]
    if verdict.defined_on:
        notes.insert(0, f"where {' and '.join(map(str, verdict.defined_on))}")
    evidence = "; ".join([verdict.evidence, *notes])
    replays: Callable[[], Any] | None = None
    if verdict.counterexample is not None:
        replays = Replay(module, program, system, [v.expr for v in matched.right], verdict.counterexample)
    return replace(verdict, seconds=perf_counter() - start, evidence=evidence, replays=replays)


def decide(left: Sequence[Expr], right: Sequence[Expr], conditions: Iterable[Basic] = ()) -> Verdict:
    """Whether two lists of real expressions are equal wherever certain conditions hold."""
    return _Question(left, right, set(conditions)).decide()


class _Question:
    """Whether two lists of expressions are equal where certain conditions hold."""

    def __init__(self, left: Sequence[Expr], right: Sequence[Expr], conditions: set[Basic]) -> None:
        # Plain letters for h_1(t), ...: at one time they are as free.
        values = set().union(*(e.atoms(AppliedUndef) for e in (*left, *right, *conditions)))
        plain = {u: Symbol(str(u), real=True) for u in values}
        carried, self.uncarried = assuming(c.xreplace(plain) for c in conditions)
        self.meaning = {v: u for u, v in plain.items()}
        self.meaning = {**self.meaning, **{v: self.meaning.get(u, u) for u, v in carried.items()}}
        self.names = {**{u: carried.get(v, v) for u, v in plain.items()}, **carried}
        self.conditions = conditions
        self.left, self.right = ([e.xreplace(plain).xreplace(carried) for e in side] for side in (left, right))
        self.uncarried = {c.xreplace(carried) for c in self.uncarried}

    def decide(self) -> Verdict:
        proofs: list[str] = []
        for unit, (a, b) in enumerate(zip(self.left, self.right, strict=True), 1):
            if (refutation := self._refuted(a, b, 3)) is not None:
                return self._fails(unit, *refutation)
            proof = self._proof(a, b)
            if proof is None:
                refutation = self._refuted(a, b, TRIALS)
                if refutation is None:
                    return self._verdict(
                        UNDECIDED, f"unit {unit}: neither proved equal nor found different where both are defined"
                    )
                return self._fails(unit, *refutation)
            proofs.append(proof)
        return self._verdict(HOLDS_ASSUMING if self.conditions else HOLDS, "; ".join(dict.fromkeys(proofs)))

    def _verdict(self, word: str, evidence: str) -> Verdict:
        return Verdict(word, 0.0, evidence, defined_on=ordered(self.conditions))

    def _proof(self, a: Expr, b: Expr) -> str | None:
        if a == b:
            return "equal as written"
        corners = kinks([a, b])
        cases = [[a, b]] if not corners or len(corners) > MOST_KINKS else list(smooth_cases([a, b]))
        words = []
        for left, right in cases:
            if (proof := _by_the_prover(left, right)) is None:
                return None
            words.append(proof)
        return f"in each of {len(cases)} cases of sign" if corners else words[0]

    def _fails(self, unit: int, counterexample: Mapping[Expr, Expr], difference: Expr) -> Verdict:
        found = {self.meaning.get(u, u): value for u, value in counterexample.items()}
        evidence = f"entry {unit}: code - equation = {difference.evalf(8)} at the counterexample"
        return replace(self._verdict(FAILS, evidence), counterexample=found)

    def _refuted(self, a: Expr, b: Expr, trials: int) -> tuple[dict[Expr, Expr], Expr] | None:
        """Numbers, as plain as can be found, at which both sides are defined and differ."""
        dice, difference = random.Random(0), a - b
        letters = sorted(difference.free_symbols, key=str)
        for _ in range(trials):
            point = {u: _draw(u, dice) for u in letters}
            value = self._difference(difference, point)
            if value is not None:
                return self._plainer(difference, point, value)
            if not letters:
                break
        return None

    def _plainer(self, difference: Expr, point: dict[Expr, Expr], value: Expr) -> tuple[dict[Expr, Expr], Expr]:
        """Zeros, ones and whole numbers wherever the sides still differ as visibly."""
        for u, drawn in point.items():
            for simple in (S.Zero, S.One, S.NegativeOne, S(round(drawn))):
                trial = {**point, u: simple}
                found = self._difference(difference, trial) if _allowed(u, simple) else None
                if found is not None and abs(found) > min(abs(value), Rational(1, 100)):
                    point, value = trial, found
                    break
        return point, value

    def _difference(self, difference: Expr, point: Mapping[Expr, Expr]) -> Expr | None:
        """The difference at a point where all conditions hold; None if it is 0 or the point is outside."""
        for condition in self.uncarried:
            filled = condition.xreplace({u: point.get(u, S.One) for u in condition.free_symbols})
            if filled != S.true:
                return None
        value = certain_value(difference.xreplace(dict(point)))
        return value if value is not None and (abs(value) > NOTICEABLE or (value.is_Rational and value != 0)) else None


def _by_the_prover(left: Expr, right: Expr) -> str | None:
    """Evidence that two smooth expressions are equal, as they are or with hyperbolic functions written by exponentials."""
    for by_exp in (False, True):
        if by_exp and not (left.has(HyperbolicFunction) or right.has(HyperbolicFunction)):
            return None
        sides = [e.rewrite(exp) if by_exp else e for e in (left, right)]
        verdict = check(Identity("as coded", "this project", "The torch code is the equations.", *sides))
        if verdict.holds is True:
            return verdict.evidence
    return None


def _draw(letter: Expr, dice: random.Random) -> Rational:
    while True:
        value = Rational(dice.randint(-24, 24), dice.choice((1, 2, 4, 5)))
        if _allowed(letter, value):
            return value


def _allowed(letter: Expr, value: Expr) -> bool:
    return all(getattr(value, f"is_{fact}", None) in (truth, None) for fact, truth in letter.assumptions0.items())
