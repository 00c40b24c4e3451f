r"""Identities lhs = rhs, and the decision: proved by a certificate, refuted by rational numbers, or undecided.

lhs = rhs holds    when a certificate shows it that the checker accepts, where both sides are defined, which numbers show
                   to be so somewhere
it fails           when rational numbers are found at which both sides are defined and certainly differ
otherwise          it is undecided, which is never a yes
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from sympy import Derivative, Expr, Float, ImmutableDenseMatrix, MatrixBase, Symbol

from derivations.finding.equality import constant_gap, evaluated, prove_equal
from derivations.finding.numbers import TRIALS, on_the_surface, refuted
from derivations.prover.reading import Reading, Unreadable, as_sympy
from derivations.prover.verdict import FAILS, HOLDS, HOLDS_ASSUMING, SECONDS, UNDECIDED, Verdict, condition_words, timed
from derivations.rules.conclusions import guarded, is_one_as_written, somewhere, with_values
from derivations.rules.terms import Term, add, number

__all__ = ["DIFFERENCE", "Identity", "check", "check_terms", "column", "entries_of", "jacobian", "proved_where", "says"]

TRIALS_BEFORE = 4
ONE_EXPRESSION = "both sides are one expression"
# What stands in a counterexample when there are no letters to give numbers to.
DIFFERENCE = Symbol("difference")
Condition: TypeAlias = tuple[str, Term]


@dataclass(frozen=True)
class Identity:
    r"""lhs = rhs, entry by entry where both are matrices.

    Args:    name: a few words, unique; source: stem of the literature file, or "this project"; statement: what it says,
             in words; lhs, rhs: expressions or matrices of one shape, without floats; assumptions: in words. What is
             assumed is carried by the letters themselves (`alpha` is positive); label: where it stands, as "eq. 5"; where:
             what letters and values of functions stand for, put in by the checker and not by SymPy.
    Raises:  TypeError for what is not SymPy's, ValueError for floats and for matrices of different shapes.
    """

    name: str
    source: str
    statement: str
    lhs: Expr | MatrixBase
    rhs: Expr | MatrixBase
    assumptions: tuple[str, ...] = ()
    label: str = ""
    where: Mapping[Expr, Expr] = field(default_factory=dict)

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
        return [left - right for left, right in zip(entries_of(self.lhs), entries_of(self.rhs), strict=True)]

    def holds(self) -> bool | None:
        """True if proved, False if refuted, None if neither."""
        return check(self).holds


def check(identity: Identity, seconds: float | None = SECONDS) -> Verdict:
    r"""Prove or refute an identity, or say that neither was possible.

    Args:    identity: what is claimed; seconds: after which it is undecided, None for no limit.
    Returns: a `Verdict` with its certificate; one refuted entry of a matrix refutes it, one undecided entry leaves it
             undecided. What is proved is said where both sides are defined: `defined_on` names what the letters'
             assumptions do not say of that.
    """
    return replace(timed(partial(_checked, identity), "identity", seconds), statement=identity.statement)


def _checked(identity: Identity) -> Verdict:
    reading = Reading()
    pairs, where, unread = _read(identity, reading)
    verdict = check_terms(reading, [with_values(pair, where) for pair in pairs if pair is not None])
    if unread and verdict.holds is not False:
        return Verdict(UNDECIDED, 0.0, "; ".join(unread))
    if verdict.evidence == ONE_EXPRESSION and is_one_as_written({"pairs": pairs, "where": where}):
        verdict = replace(verdict, evidence=f"{ONE_EXPRESSION} as written, by definition")
    return replace(verdict, verdict=HOLDS_ASSUMING) if identity.assumptions and verdict else verdict


def says(identity: Identity) -> dict[str, Any]:
    """Read an identity as `concludes` takes it, derivatives not taken; None in place of an entry that cannot be read."""
    reading = Reading()
    pairs, where, _ = _read(identity, reading)
    return {"kind": "equal", "pairs": pairs, "where": where, "facts": reading.facts}


def _read(identity: Identity, reading: Reading) -> tuple[list[tuple[Term, Term] | None], dict[Term, Term], list[str]]:
    """Read the entries as pairs of terms, and the values to be put in; say what cannot be read."""
    pairs: list[tuple[Term, Term] | None] = []
    unread = []
    try:
        where = {reading.term(letter): reading.term(value) for letter, value in identity.where.items()}
    except Unreadable as unknown:
        return [None], {}, [f"{unknown} is not read by the checker"]
    for n, sides in enumerate(zip(entries_of(identity.lhs), entries_of(identity.rhs), strict=True), 1):
        try:
            lhs, rhs = map(reading.term, sides)
            with_values((lhs, rhs), where)
            pairs.append((lhs, rhs))
        except (Unreadable, ValueError) as unknown:
            pairs.append(None)
            unread.append(f"entry {n}: {unknown} is not read by the checker")
    return pairs, where, unread


def check_terms(reading: Reading, pairs: Sequence[tuple[Term, Term]], given: Iterable[Condition] = ()) -> Verdict:
    """Prove that all pairs of terms are equal where the conditions given are true, or refute one."""
    certificates: list[dict[str, Any]] = []
    given = tuple(given)
    conditions = dict.fromkeys(given)
    undecided = []
    for n, (lhs, rhs) in enumerate(pairs, 1):
        claim: dict[str, Any] = {"lhs": lhs, "rhs": rhs, "facts": reading.facts}
        there: dict[str, Any] = {**claim, "lhs": guarded(lhs, given)}
        # A few numbers before the costly proof, which a wrong identity should not have to wait for; more after it failed.
        refutation, proof = refuted(**there, trials=range(TRIALS_BEFORE)), None
        if refutation is None:
            proof = prove_equal(lhs, rhs, reading.facts, reading.antiderivative)
            # The conditions of a proof may leave out places where both sides are defined: x^(2 a) has a value at x = -1, a = 1/2.
            refutation = refuted(**there, trials=range(TRIALS_BEFORE, TRIALS)) if proof is None or proof[1] else None
        if refutation is not None:
            numbers, value = refutation
            seen = {*on_the_surface(there["lhs"]), *on_the_surface(rhs)}
            shown = {reading.expression(letter): as_sympy(x) for letter, x in numbers.items() if letter in seen}
            difference = as_sympy(value)
            evidence = f"entry {n}: lhs - rhs = {difference.evalf(8)} at the counterexample"
            certificate = {"rule": "differs", **there, "numbers": numbers}
            return Verdict(FAILS, 0.0, evidence, counterexample=shown or {DIFFERENCE: difference}, certificate=(certificate,))
        gap = None if proof or given else constant_gap(lhs, rhs, reading.facts, reading.antiderivative)
        if gap is not None:
            difference, shifted = as_sympy(gap[0]), add(rhs, number(int(gap[0].p), int(gap[0].q)))
            certificate = {"rule": "equal", **claim, "rhs": shifted, "proof": gap[1]}
            evidence = f"entry {n}: lhs - rhs = {difference} everywhere"
            return Verdict(FAILS, 0.0, evidence, counterexample={DIFFERENCE: difference}, certificate=(certificate,))
        if proof is None and not given and (by_value := _refuted_by_value(lhs, rhs, reading)) is not None:
            numbers, value, steps = by_value
            shown = {reading.expression(letter): as_sympy(x) for letter, x in numbers.items() if letter in {*on_the_surface(rhs)}}
            evidence = (
                f"entry {n}: lhs - rhs = {as_sympy(value).evalf(8)} at the counterexample, by the value of an integral or sum"
            )
            return Verdict(FAILS, 0.0, evidence, counterexample=shown or {DIFFERENCE: as_sympy(value)}, certificate=steps)
        if proof is None:
            undecided.append(f"{_sides(n, len(pairs))} are neither proved equal, nor were numbers found at which they differ")
            continue
        certificates.append({"rule": "equal", **claim, "proof": proof[0]})
        conditions.update(dict.fromkeys(proof[1]))
    if undecided:
        return Verdict(UNDECIDED, 0.0, "; ".join(undecided))
    return proved_where(reading, conditions, _how(certificates), certificates)


def _refuted_by_value(lhs: Term, rhs: Term, reading: Reading) -> tuple[dict[Term, Any], Any, tuple[dict[str, Any], ...]] | None:
    """Refute by what integrals and sums of a side are proved to be: numbers, the difference there, and the steps."""
    sides, steps, conditions = [lhs, rhs], list[dict[str, Any]](), dict[Condition, None]()
    for k, side in enumerate(sides):
        if (value := evaluated(side, reading.facts, reading.antiderivative)) is None:
            continue
        if (proof := prove_equal(side, value, reading.facts, reading.antiderivative)) is None:
            return None
        steps.append({"rule": "equal", "lhs": side, "rhs": value, "facts": reading.facts, "proof": proof[0]})
        conditions.update(dict.fromkeys(proof[1]))
        sides[k] = value
    there: dict[str, Any] = {"lhs": guarded(sides[0], conditions), "rhs": sides[1], "facts": reading.facts}
    if not steps or (found := refuted(**there)) is None:
        return None
    return *found, (*steps, {"rule": "differs", **there, "numbers": found[0]})


def proved_where(reading: Reading, conditions: Iterable[Condition], evidence: str, steps: Iterable[Any]) -> Verdict:
    """Answer that a statement is proved under conditions, if numbers are found at which these are true."""
    conditions = tuple(conditions)
    if not conditions:
        return Verdict(HOLDS, 0.0, evidence, None, (), tuple(steps))
    try:
        relations = tuple(reading.relation(*condition) for condition in conditions)
    except Unreadable as unknown:
        return Verdict(UNDECIDED, 0.0, f"proved only where {unknown} is in its domain")
    lhs, rhs = somewhere(conditions)
    if (found := refuted(lhs, rhs, reading.facts)) is None:
        where = " and ".join(condition_words(relations))
        return Verdict(UNDECIDED, 0.0, f"proved only where {where}, and no numbers were found at which that is so")
    step = {"rule": "differs", "lhs": lhs, "rhs": rhs, "facts": reading.facts, "numbers": found[0]}
    return Verdict(HOLDS, 0.0, evidence, None, relations, (*steps, step))


def _sides(n: int, of: int) -> str:
    return "both sides" if of == 1 else f"both sides of part {n} of {of}"


def _how(certificates: list[Any]) -> str:
    cases = max((len(c["proof"]["cases"]) for c in certificates), default=1)
    if all(c["lhs"] == c["rhs"] for c in certificates):
        return ONE_EXPRESSION
    return "both sides are one quotient of polynomials" + (f", in each of {cases} cases of sign" if cases > 1 else "")


def _shape(side: Expr | MatrixBase) -> tuple[int, ...]:
    return tuple(side.shape) if isinstance(side, MatrixBase) else ()


def entries_of(side: Expr | MatrixBase) -> list[Expr]:
    return list(side) if isinstance(side, MatrixBase) else [side]


def column(*entries: Expr) -> ImmutableDenseMatrix:
    """Make a column of expressions, one identity of several entries."""
    return ImmutableDenseMatrix(list(entries))


def jacobian(of: MatrixBase, by: MatrixBase) -> ImmutableDenseMatrix:
    """Make the Jacobian of a column by another, derivatives not taken: that is left to the check."""
    return ImmutableDenseMatrix(len(of), len(by), lambda i, j: Derivative(of[i], by[j]))
