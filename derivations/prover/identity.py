r"""Identities lhs = rhs, and the decision: proved by SymPy, refuted by rational numbers, or undecided.

    lhs = rhs holds    when every entry of lhs - rhs simplifies to exactly 0
    it fails           when exact rational numbers are found at which lhs - rhs is not 0
    otherwise          it is undecided, which is never a yes

Where |u| or sign(u) of a real letter stands, the proof splits into u > 0, u < 0 and u = 0. Numbers only ever refute.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from time import perf_counter

from sympy import (
    Abs,
    Expr,
    Float,
    ImmutableDenseMatrix,
    MatrixBase,
    Rational,
    Symbol,
    cancel,
    expand,
    expand_mul,
    nan,
    sign,
    simplify,
    zoo,
)

from derivations.prover import symbols
from derivations.prover.refutation import free_values, refuted_at
from derivations.prover.verdict import FAILS, HOLDS, HOLDS_ASSUMING, UNDECIDED, Verdict

__all__ = ["DIFFERENCE", "Identity", "check", "column"]

# A few points before the costly proofs, which a wrong identity should not have to wait for; more after they failed.
TRIALS_BEFORE, TRIALS_AFTER = 3, 24
MOST_SPLIT_LETTERS = 4
# What stands in a counterexample when there are no letters to give numbers to.
DIFFERENCE = Symbol("difference")


@dataclass(frozen=True)
class Identity:
    r"""lhs = rhs, entry by entry where both are matrices.

    Args:    name: a few words, unique; source: stem of the literature file, or "this project"; statement: what it says,
             in words; lhs, rhs: expressions or matrices of one shape, without floats; assumptions: in words. What is
             assumed is carried by the letters themselves (`alpha` is positive); label: where it stands, as "eq. 5".
    Raises:  TypeError for what is not SymPy's, ValueError for floats and for matrices of different shapes.
    Source:  this project.
    """

    name: str
    source: str
    statement: str
    lhs: Expr | MatrixBase
    rhs: Expr | MatrixBase
    assumptions: tuple[str, ...] = ()
    label: str = ""

    def __post_init__(self) -> None:
        for side, value in (("lhs", self.lhs), ("rhs", self.rhs)):
            if not isinstance(value, Expr | MatrixBase):
                raise TypeError(f"`{side}` must be a SymPy expression or matrix, got {type(value).__name__}.")
            if value.atoms(Float):
                raise ValueError(f"`{side}` contains the float {min(value.atoms(Float))}; write it as a Rational.")
        if _shape(self.lhs) != _shape(self.rhs):
            raise ValueError(f"`lhs` and `rhs` differ in shape: {_shape(self.lhs)} and {_shape(self.rhs)}.")

    def differences(self) -> list[Expr]:
        """lhs - rhs, entry by entry."""
        return [left - right for left, right in zip(_entries(self.lhs), _entries(self.rhs), strict=True)]

    def holds(self) -> bool | None:
        """True if proved, False if refuted, None if neither."""
        return check(self).holds


def check(identity: Identity) -> Verdict:
    r"""Prove or refute an identity, or say that neither was possible.

    Args:    identity: what is claimed.
    Returns: a `Verdict`; one refuted entry of a matrix refutes it, one undecided entry leaves it undecided.
    Source:  this project.
    """
    start = perf_counter()

    def verdict(word: str, evidence: str, counterexample: Mapping[Expr, Rational] | None = None) -> Verdict:
        return Verdict(word, perf_counter() - start, evidence, counterexample)

    proofs, undecided = [], []
    for number, difference in enumerate(identity.differences(), 1):
        bare, meanings = _abstract(difference)
        dice = random.Random(0)
        proof = _quick_proof(bare)
        refutation = None if proof else refuted_at(bare, meanings, dice, TRIALS_BEFORE)
        if proof is None and refutation is None:
            proof = _slow_proof(bare)
            refutation = None if proof else refuted_at(bare, meanings, dice, TRIALS_AFTER)
        if refutation is not None:
            counterexample, value = refutation
            return verdict(
                FAILS,
                f"entry {number}: lhs - rhs = {value.evalf(8)} at the counterexample",
                counterexample or {DIFFERENCE: value},
            )
        if proof is None:
            undecided.append(number)
        else:
            proofs.append(proof)
    if undecided:
        return verdict(UNDECIDED, f"SymPy neither reduces lhs - rhs to 0 nor finds it different from 0 (entries {undecided})")
    evidence = "lhs - rhs is 0: " + ", ".join(dict.fromkeys(proofs))
    return verdict(HOLDS_ASSUMING if identity.assumptions else HOLDS, evidence)


def _shape(side: Expr | MatrixBase) -> tuple[int, ...]:
    return tuple(side.shape) if isinstance(side, MatrixBase) else ()


def _entries(side: Expr | MatrixBase) -> list[Expr]:
    return list(side) if isinstance(side, MatrixBase) else [side]


def _abstract(difference: Expr) -> tuple[Expr, dict[Expr, Expr]]:
    """The difference with a letter for each h(t), c'(t), ..., and what the letters stand for.

    At one time the values of a function and of its derivatives are free of one another, so nothing is lost. `doit` first:
    a derivative that can be carried out is not free.
    """
    difference = difference.doit()
    letters = {quantity: symbols.stand_in(quantity) for quantity in free_values(difference)}
    bare = difference.xreplace(letters)
    return bare, {**{v: k for k, v in letters.items()}, **{u: u for u in bare.free_symbols - set(letters.values())}}


def _quick_proof(bare: Expr) -> str | None:
    if bare == 0:
        return "equal as written"
    return "expanded" if expand(bare) == 0 else None


def _slow_proof(bare: Expr) -> str | None:
    unsigned = sorted(_letters_of_unknown_sign(bare), key=str)
    if not unsigned or len(unsigned) > MOST_SPLIT_LETTERS:
        return _reduction(bare)
    for signs in product((1, -1, 0), repeat=len(unsigned)):
        case = bare.subs({u: k * symbols.positive(u) for u, k in zip(unsigned, signs, strict=True)})
        if case.has(nan, zoo) or _reduction(case) is None:
            return None
    return f"in each of {3 ** len(unsigned)} cases of sign"


def _letters_of_unknown_sign(bare: Expr) -> set[Symbol]:
    inside = set().union(*(node.free_symbols for node in bare.atoms(Abs, sign)))
    return {u for u in inside if u.is_real and u.is_nonnegative is None and u.is_nonpositive is None}


def _reduction(bare: Expr) -> str | None:
    # From cheap to costly; `cancel` settles sigmoids, which are rational in exponentials.
    for name, reduced in (("expanded", expand), ("multiplied out", expand_mul), ("cancelled", cancel), ("simplified", simplify)):
        if reduced(bare) == 0:
            return name
    return None


def column(*entries: Expr) -> ImmutableDenseMatrix:
    """A column of expressions, one identity of several entries."""
    return ImmutableDenseMatrix(list(entries))
