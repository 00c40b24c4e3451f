r"""Statements that a claim can make, and how each kind is decided.

    Equal      lhs = rhs                                   identity
    Solves     a path satisfies its ODE and starts right   solution of an ODE
    Rounds     a printed decimal is a number, rounded      number
    Fails      another statement is refuted                refutation

and elsewhere:

    Tends      expression -> value as a letter -> a point  limit (limits.py)
    Expands    expression = terms + O(letter^order)        series, with what was dropped (limits.py)
    Less       lower <= upper on a region                  inequality, by a proof of sign (inequalities.py)
    Every      a finite set of cases, all of them          enumeration (cases.py)
    Measured   a mean, with a confidence interval          statistics, for what is random by nature (cases.py)
    Closes     a class of fields absorbs a group of warps  closure (derivations/closure.py)

Every kind answers with a `Verdict`: proved, refuted by numbers, or undecided. Only `Measured` samples; elsewhere numbers
refute and never prove.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

from sympy import Basic, Derivative, Eq, Expr, Function, I, MatrixBase, Rational, S, Subs, Symbol, evaluate
from sympy.core.function import AppliedUndef

from derivations.prover.identity import Identity, check, column, entries_of, says
from derivations.prover.reading import Reading
from derivations.prover.verdict import FAILS, HOLDS, SECONDS, UNDECIDED, ReadStatement, Verdict, timed
from derivations.rules.numbers import rounds
from derivations.rules.quotients import NotShown

__all__ = ["Equal", "Fails", "Printed", "Rounds", "Solves", "Statement"]

Side: TypeAlias = Expr | MatrixBase


class Statement(Protocol):
    """Something that can be decided: its kind in words, its formulas, what it says to the checker, and its verdict."""

    @property
    def kind(self) -> str: ...

    def formulas(self) -> tuple[Basic, ...]: ...

    def says(self) -> dict[str, Any] | None:
        """The statement as `concludes` takes it, read from its formulas and not from a proof; None if the checker has no rule."""
        ...

    def decide(self) -> Verdict: ...


@dataclass(frozen=True)
class Equal:
    r"""lhs = rhs, entry by entry where both are matrices; see `Identity`.

    Args:    lhs, rhs: expressions or matrices of one shape, without floats; where: what letters in them stand for, so that
             long parts of a formula have names.
    """

    lhs: Side
    rhs: Side
    where: Mapping[Expr, Expr] = field(default_factory=dict)
    kind = "identity"

    def formulas(self) -> tuple[Basic, ...]:
        pairs = zip(*map(entries_of, (self.lhs, self.rhs)), strict=True)
        # Where SymPy has made both sides one letter or number, there is nothing left to read.
        sides = (pair for pair in pairs if pair[0] != pair[1] or not pair[0].is_Atom)
        return tuple(Eq(left, right, evaluate=False) for left, right in (*sides, *self.where.items()))

    def says(self) -> dict[str, Any]:
        return says(self._identity())

    def decide(self, seconds: float | None = SECONDS) -> Verdict:
        return check(self._identity(), seconds)

    def _identity(self) -> Identity:
        return Identity("", "", "", self.lhs, self.rhs, where=self.where)


@dataclass(frozen=True)
class Solves:
    r"""The path satisfies the equations, and starts where it should.

    Args:    equations: Eq(h(t).diff(t), F) for each unit; path: h(t) -> an expression in t; initial: (t0, h(t) -> value); at: the
             times at which the equations are to be satisfied, as values of other letters, p/(1 + p) with p > 0 for 0 < t < 1;
             if not given, all that t can be.
    """

    equations: tuple[Eq, ...]
    path: Mapping[Expr, Expr]
    initial: tuple[Expr, Mapping[Expr, Expr]] | None = None
    at: Expr | None = None
    kind = "solution of an ODE"

    def formulas(self) -> tuple[Basic, ...]:
        return (*self.equations, *(Eq(h, value, evaluate=False) for h, value in self.path.items()))

    def says(self) -> dict[str, Any] | None:
        return says(self._identity()) if self._at_one_time() else None

    def decide(self, seconds: float | None = SECONDS) -> Verdict:
        return timed(self._decide, self.kind, seconds)

    def _decide(self) -> Verdict:
        if not self._at_one_time():
            return Verdict(UNDECIDED, 0.0, "the equations hold the path at another time")
        if not any(e.has(I) for e in self.equations) and (unreal := [h for h, path in self.path.items() if path.has(I)]):
            return Verdict(UNDECIDED, 0.0, f"{unreal[0]} is given a path that is not real, by equations that are")
        before = "put into the equation" + ("" if self.initial is None else " and the start") + "; "
        verdict = check(self._identity())
        return replace(verdict, evidence=before + verdict.evidence)

    def _identity(self) -> Identity:
        """Return the equations as an identity: the checker puts in the path, which must be defined itself."""
        (t,) = {t for h in self.path for t in h.args}
        sides = [(e.lhs, self._there(e.rhs, t)) for e in self.equations] + [(h, h) for h in self.path]
        if self.initial is not None:
            t0, values = self.initial
            sides += [(Subs(self.path[h], t, t0), value) for h, value in values.items()]
        slopes = {h.diff(t): Derivative(path, t) for h, path in self.path.items()}
        slopes |= {d: Derivative(self.path[d.expr], *d.variable_count) for d in self._derivatives()}
        where = {letter: self._there(value, t) for letter, value in {**self.path, **slopes}.items()}
        lhs, rhs = zip(*sides, strict=True)
        return Identity("", "", "", column(*lhs), column(*rhs), where=where)

    def _there(self, e: Expr, t: Symbol) -> Expr:
        """Write an expression at the times asked for, derivatives by t taken before; the path stays, to be put in."""
        if self.at is None or self.at == t:
            return e
        kept = {u: u for u in (*self.path, *self._derivatives())}
        with evaluate(False):
            return e.xreplace({d: Subs(d, t, self.at) for d in e.atoms(Derivative, Subs) if d.has(t)} | kept | {t: self.at})

    def _derivatives(self) -> set[Derivative]:
        return {d for e in self.equations for d in e.atoms(Derivative) if d.expr in self.path}

    def _at_one_time(self) -> bool:
        times = {h.args for h in self.path}
        if len(times) != 1 or not all(len(args) == 1 and args[0].is_Symbol for args in times):
            return False
        functions = {h.func for h in self.path}
        found = {u for e in self.equations for u in e.atoms(AppliedUndef) if u.func in functions}
        return found <= self.path.keys() and not any(path.has(*functions) for path in self.path.values())


@dataclass(frozen=True)
class Rounds(ReadStatement):
    r"""The printed decimal is the number to the digits printed: within half a unit of its last place.

    Args:    value: a number, exact; printed: as in the text, "0.167"; within: another margin, where the text says
             "roughly" (state it in the claim's words).
    """

    value: Expr
    printed: str
    within: Expr | None = None
    kind = "number"

    def formulas(self) -> tuple[Basic, ...]:
        return (Printed(self.value, Symbol(self.printed), *([] if self.within is None else [self.within])),)

    def _read(self, reading: Reading) -> dict[str, Any]:
        digits = Decimal(self.printed).as_tuple()
        margin = Rational(10) ** int(digits.exponent) / 2 if self.within is None else self.within
        low, high = (reading.term(Rational(self.printed) + sign * margin) for sign in (-1, 1))
        # A tie goes away from 0, or to the even digit: neither prints an odd digit for what is half a unit beyond it.
        beyond = (low if digits.sign else high) if self.within is None and digits.digits[-1] % 2 else None
        return {"kind": "rounds", "value": reading.term(S(self.value)), "low": low, "high": high, "beyond": beyond}

    def _decided(self, reading: Reading, says: dict[str, Any]) -> Verdict:
        value, beyond = says["value"], says["beyond"]
        certificate = {"rule": "rounds", "value": value, "low": says["low"], "high": says["high"]}
        try:
            right = rounds(value, says["low"], says["high"])
            if right and beyond is not None and rounds(value, beyond, beyond):
                certificate |= {"low": beyond, "high": beyond}
                return Verdict(FAILS, 0.0, f"the number is {self.value}, half a unit beyond {self.printed}",
                               {Symbol("number"): self.value}, certificate=({**certificate, "right": True},))  # fmt: skip
            shown = self.value.evalf(len(self.printed) + 4)
        except NotShown as unknown:
            return Verdict(UNDECIDED, 0.0, f"the digits of the number are not certain: {unknown}")
        numbers = None if right else {Symbol("number"): self.value.evalf(12)}
        evidence = f"the number is {shown}, printed {self.printed}"
        word = HOLDS if right else FAILS
        return Verdict(word, 0.0, evidence, numbers, certificate=({**certificate, "right": right},))


class Printed(Function):
    """Displays a number and its print, -log(49), rounded -3.89, or 1843, printed 2000 (within 200): no equation of the two."""

    def _sympystr(self, printer: Any) -> str:
        value, text, *within = map(printer.doprint, self.args)
        return f"{value}, printed {text} (within {within[0]})" if within else f"{value}, rounded {text}"

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        value, text, *within = map(printer.doprint, self.args)
        if within:
            return rf"{value},\ \text{{printed }} {text}\ (\text{{within }} {within[0]})"
        return rf"{value},\ \text{{rounded }} {text}"


@dataclass(frozen=True)
class Fails:
    r"""The other statement is false, by concrete numbers: what "is not", "need not" and "no longer" say."""

    statement: Statement

    @property
    def kind(self) -> str:
        article = "an" if self.statement.kind[0] in "aei" else "a"
        return f"refutation of {article} {self.statement.kind}"

    def formulas(self) -> tuple[Basic, ...]:
        return tuple(Function("not")(formula) if isinstance(formula, Expr) else ~formula for formula in self.statement.formulas())

    def says(self) -> dict[str, Any] | None:
        inner = self.statement.says()
        return None if inner is None else {"kind": "not", "of": inner}

    def decide(self) -> Verdict:
        inner = self.statement.decide()
        if inner.holds is None:
            return inner
        if inner.holds:
            return Verdict(FAILS, inner.seconds, f"what should fail holds: {inner.evidence}", {Symbol("difference"): S.Zero},
                           inner.defined_on, inner.certificate)  # fmt: skip
        numbers = ", ".join(f"{k} = {v}" for k, v in (inner.counterexample or {}).items())
        evidence = f"refuted, {inner.evidence}" + (f" ({numbers})" if numbers else "")
        return Verdict(HOLDS, inner.seconds, evidence, certificate=inner.certificate)
