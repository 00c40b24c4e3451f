r"""Inequalities on a region, proved by a certificate of sign, refuted by rational points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Basic, Expr, LessThan, S, StrictLessThan, Symbol, oo

from derivations.finding.inequalities import not_less_at, prove_less
from derivations.prover.identity import DIFFERENCE, proved_where
from derivations.prover.reading import Reading, as_sympy
from derivations.prover.verdict import FAILS, UNDECIDED, ReadStatement, Verdict
from derivations.rules.inequalities import less
from derivations.rules.signs import OF_FACTS
from derivations.rules.terms import taken

__all__ = ["Less"]

# Points tried against an inequality, before its proof and in all.
POINTS_BEFORE, POINTS = 12, 200


@dataclass(frozen=True)
class Less(ReadStatement):
    r"""lower <= upper (lower < upper if strict) for all letters as their assumptions and `region` allow.

    The proof is one of sign: that of upper - lower, or of the expression it is `rewritten` to, shows in its factors, or a
    factor starts at 0 or above and rises in a positive letter, as its derivative is proved positive in the same way.

    Args:    lower, upper; strict; region: (from, to) for letters, ends not included; rewritten: an expression equal to
             upper - lower; rising: letters to take derivatives in first.
    """

    lower: Expr
    upper: Expr
    strict: bool = False
    region: Mapping[Symbol, tuple[Expr | int, Expr | int]] | None = None
    rewritten: Expr | None = None
    rising: tuple[Symbol, ...] = ()
    kind = "inequality on a region"

    def formulas(self) -> tuple[Basic, ...]:
        relation = StrictLessThan if self.strict else LessThan
        bounds = [
            StrictLessThan(a, b, evaluate=False)
            for letter, (low, high) in (self.region or {}).items()
            for a, b in ((S(low), letter), (letter, S(high)))
            if a != -oo and b != oo
        ]
        return (relation(self.lower, self.upper, evaluate=False), *bounds)

    def _read(self, reading: Reading) -> dict[str, Any]:
        lower, upper = taken(reading.term(S(self.lower))), taken(reading.term(S(self.upper)))
        region = [(reading.term(x), reading.end(S(low)), reading.end(S(high))) for x, (low, high) in (self.region or {}).items()]
        return {"kind": "less", "lower": lower, "upper": upper, "strict": self.strict, "region": region, "facts": reading.facts}

    def _decided(self, reading: Reading, says: dict[str, Any]) -> Verdict:
        claim = {key: says[key] for key in ("lower", "upper", "strict", "region", "facts")}
        rewritten = None
        if self.rewritten is not None:
            try:
                rewritten = reading.term(S(self.rewritten))
            except ValueError as unknown:
                return Verdict(UNDECIDED, 0.0, f"{unknown} is not read by the checker")
        # A few points before the costly proof, which a wrong inequality should not have to wait for; the rest after it failed.
        refutation, proof = not_less_at(**claim, trials=range(POINTS_BEFORE)), None
        if refutation is None:
            rising = [reading.term(x) for x in self.rising]
            proof = prove_less(**claim, rewritten=rewritten, rising=rising, hint=reading.antiderivative)
            refutation = not_less_at(**claim, trials=range(POINTS_BEFORE, POINTS)) if proof is None else None
        if refutation is not None:
            gap = as_sympy(refutation[1])
            evidence = f"upper - lower = {gap.evalf(8)} at the counterexample"
            certificate = {"rule": "not less", **claim, "numbers": refutation[0]}
            return Verdict(FAILS, 0.0, evidence, reading.numbers(refutation[0]) or {DIFFERENCE: gap}, certificate=(certificate,))
        if proof is None:
            unreal = [str(u) for term, u in reading.letters.items() if not reading.facts[term] & {"real", *OF_FACTS}]
            why = f"{unreal[0]} is not said to be real" if unreal else "the sign of upper - lower does not show"
            return Verdict(UNDECIDED, 0.0, f"{why}, and no numbers refute it")
        evidence = f"upper - lower is {'positive' if self.strict else 'not negative'}: {_how(proof)}"
        return proved_where(reading, less(**claim, proof=proof), evidence, [{"rule": "less", **claim, "proof": proof}])


def _how(proof: Mapping[str, Any]) -> str:
    match proof["how"]:
        case "shows":
            return "its sign shows"
        case "number":
            return "it is a number"
        case "same":
            return f"rewritten, {_how(proof['proof'])}"
        case "falls":
            return f"its negative: {_how(proof['proof'])}"
        case "exponent":
            return "by exponentials of both sides" + _others([proof["proof"]])
        case "rises":
            return f"it starts at 0 or above and rises in {_name(proof)}"
        case "sum":
            return "a square completed" + _others(part for *_, part in proof["parts"])
        case "squares":
            return "by squares of both sides" + _others([proof["of squares"]])
        case "covers":
            at = {"sides": "on both sides of a point in", "root": "with a power in place of", "next": "from 1 on in"}
            return f"{at[proof['by']]} {_name(proof)}{_others(way['proof'] for way in proof['ways'])}"
        case "cases":
            return "in each case of a sign" + _others(way["proof"] for way in proof["ways"])
        case _:
            return "factor by factor" + _others(factor for *_, factor in proof["factors"])


def _name(proof: Mapping[str, Any]) -> str:
    return str(proof["letter"][1].rstrip("+"))


def _others(proofs: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f", one as {how}" for how in dict.fromkeys(map(_how, proofs)) if how != "its sign shows")
