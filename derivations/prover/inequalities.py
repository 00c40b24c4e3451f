r"""Inequalities on a region, proved by a certificate of sign, refuted by rational points."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from flint import fmpq
from sympy import Basic, Expr, LessThan, S, StrictLessThan, Symbol, oo

from derivations.certificates.equality import prove_equal
from derivations.certificates.numbers import as_sympy, free_quantities, random_numbers
from derivations.certificates.reading import Reading, Unreadable
from derivations.certificates.signs import prove_sign
from derivations.checker.numbers import exact
from derivations.checker.quotients import NotShown
from derivations.checker.rules import NOT_NEGATIVE, POSITIVE, Region, less, not_less, within
from derivations.checker.terms import Term, add, neg, taken
from derivations.prover.identity import DIFFERENCE
from derivations.prover.verdict import FAILS, HOLDS, UNDECIDED, Verdict

__all__ = ["Less"]

# Points tried against an inequality, before its proof and in all.
POINTS_BEFORE, POINTS = 12, 200


@dataclass(frozen=True)
class Less:
    r"""lower <= upper (lower < upper if strict) for all letters as their assumptions and `region` allow.

    The proof is one of sign: that of upper - lower, or of the expression it is `rewritten` to, shows in its factors, or a
    factor starts at 0 or above and rises in a positive letter, as its derivative is proved positive in the same way.

    Args:    lower, upper; strict; region: (from, to) for letters, ends not included; rewritten: an expression equal to
             upper - lower; rising: letters to take derivatives in first.
    Source:  this project.
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

    def says(self) -> dict[str, Any] | None:
        reading = Reading()
        try:
            return {"kind": "less", **self._read(reading)}
        except (Unreadable, ValueError):
            return None

    def _read(self, reading: Reading) -> dict[str, Any]:
        lower, upper = taken(reading.term(S(self.lower))), taken(reading.term(S(self.upper)))
        region = [(reading.term(x), reading.end(S(low)), reading.end(S(high))) for x, (low, high) in (self.region or {}).items()]
        return {"lower": lower, "upper": upper, "strict": self.strict, "region": region, "facts": reading.facts}

    def decide(self) -> Verdict:
        start, reading = perf_counter(), Reading()

        def verdict(word: str, evidence: str, **more: Any) -> Verdict:
            return Verdict(word, perf_counter() - start, evidence, **more)

        try:
            claim = self._read(reading)
            lower, upper, region = claim["lower"], claim["upper"], claim["region"]
            gap = add(upper, neg(lower)) if self.rewritten is None else reading.term(S(self.rewritten))
        except (Unreadable, ValueError) as unknown:
            return verdict(UNDECIDED, f"{unknown} is not read by the checker")
        # A few points before the costly proof, which a wrong inequality should not have to wait for; the rest after it failed.
        found = self._refuted(lower, upper, region, reading, range(POINTS_BEFORE))
        proof = None if found else self._proof(lower, upper, gap, region, reading)
        found = (
            self._refuted(lower, upper, region, reading, range(POINTS_BEFORE, POINTS))
            if found is None and proof is None
            else found
        )
        if found is not None:
            numbers, value = found
            shown = {reading.letters[letter]: as_sympy(x) for letter, x in numbers.items()}
            gap_there = as_sympy(value)
            evidence = f"upper - lower = {gap_there.evalf(8)} at the counterexample"
            certificate = {"rule": "not less", **claim, "numbers": numbers}
            return verdict(FAILS, evidence, counterexample=shown or {DIFFERENCE: gap_there}, certificate=(certificate,))
        if proof is None:
            return verdict(UNDECIDED, "the sign of upper - lower does not show, and no numbers refute it")
        conditions = less(lower, upper, self.strict, region, reading.facts, proof)
        evidence = f"upper - lower is {'positive' if self.strict else 'not negative'}: {_how(proof)}"
        defined_on = tuple(reading.relation(*condition) for condition in conditions)
        return verdict(HOLDS, evidence, defined_on=defined_on, certificate=({"rule": "less", **claim, "proof": proof},))

    def _proof(self, lower: Term, upper: Term, gap: Term, region: Region, reading: Reading) -> dict[str, Any] | None:
        try:
            (gap_there, given), facts = within(region, reading.facts, [gap, add(upper, neg(lower))])
        except NotShown:
            return None
        rising = tuple(reading.term(x) for x in self.rising)
        rising = (*(("v", f"{x[1]}+") for x in rising), *rising)
        wanted = POSITIVE if self.strict else NOT_NEGATIVE
        proof = prove_sign(gap_there, wanted, facts, rising)
        if proof is not None and gap_there != given:
            same = prove_equal(given, gap_there, reading, facts)
            if same is None:
                return None
            proof = {"how": "same", "other": gap_there, "equal": same[0], "proof": proof}
        try:
            if proof is not None:
                less(lower, upper, self.strict, region, reading.facts, proof)
            return proof
        except NotShown:
            return None

    def _refuted(
        self, lower: Term, upper: Term, region: Region, reading: Reading, trials: range
    ) -> tuple[dict[Term, fmpq], Any] | None:
        """A point of the region at which the inequality is certainly false, and upper - lower there; the same in every run."""
        quantities = free_quantities([lower, upper, *(end for _, *ends in region for end in ends), *(x for x, *_ in region)])
        for trial in trials:
            dice = random.Random(trial)
            numbers = random_numbers(quantities, reading.facts, dice, trial)
            if numbers is None:
                return None
            try:
                self._move_inside(numbers, region, dice)
                return numbers, not_less(lower, upper, self.strict, region, reading.facts, numbers)
            except NotShown:
                continue
        return None

    def _move_inside(self, numbers: dict[Term, fmpq], region: Region, dice: random.Random) -> None:
        for letter, low, high in region:
            below = None if low == ("-oo",) else exact(low, numbers)
            above = None if high == ("oo",) else exact(high, numbers)
            part = fmpq(dice.randint(1, 12), 13)
            if below is not None and above is not None:
                numbers[letter] = below + (above - below) * part
            elif below is not None or above is not None:
                far = part / (1 - part)
                numbers[letter] = below + far if below is not None else above - far  # type: ignore[operator]


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
        case "rises":
            return f"it starts at 0 or above and rises in {proof['letter'][1].rstrip('+')}"
        case _:
            return "factor by factor" + "".join(
                f", one as {how}" for how in {_how(p) for *_, p in proof["factors"]} - {"its sign shows"}
            )
