r"""Whether expressions are equal wherever they are defined: by the prover in every case of signs, or numbers that refute it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, count

import sympy
from flint import fmpq
from sympy import Abs, Basic, Dummy, Expr, Max, Min, Ne, Piecewise, Rational, S, Symbol, sign
from sympy.core.evalf import PrecisionExhausted
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational

from derivations.prover.identity import Identity, check
from derivations.prover.reading import Reading, Unreadable, as_sympy
from derivations.prover.verdict import FAILS, HOLDS, HOLDS_ASSUMING, UNDECIDED, Verdict
from derivations.rules.numbers import differs
from derivations.rules.quotients import NotShown
from derivations.rules.terms import ZERO, subterms
from derivations.tracing.guarded import assuming, ordered

__all__ = ["corners", "decide"]

TRIALS = 300
LARGE = 100  # operations on a side, from which on functions that both sides share are taken for letters first
FUNCTIONS = (sympy.exp, sympy.log, sympy.tanh, sympy.erf, sympy.sin, sympy.cos, sympy.atan)
LONGEST = 200  # letters of two sides that are shown
DIGITS = 30
# Far above the error of 30 digits, far below any difference that means something.
NOTICEABLE = Rational(1, 10**20)


def decide(
    left: Sequence[Expr],
    right: Sequence[Expr],
    conditions: Iterable[Basic] = (),
    doing: Callable[[str], object] = lambda words: None,
) -> Verdict:
    """Whether two lists of real expressions are equal wherever certain conditions hold; one refuted unit refutes all.

    `doing` is told what is done next, in words.
    """
    return _Question(left, right, set(conditions)).decide(doing)


class _Question:
    """Whether two lists of expressions are equal where certain conditions hold."""

    def __init__(self, left: Sequence[Expr], right: Sequence[Expr], conditions: set[Basic]) -> None:
        # Plain letters for h_1(t), ...: at one time they are as free.
        values = set().union(*(e.atoms(AppliedUndef) for e in (*left, *right, *conditions)))
        plain = {u: Symbol(str(u), real=True) for u in values}
        if len(set(plain.values())) < len(plain):  # two that are written the same are still two
            plain = {u: Dummy(str(u), real=True) for u in values}
        self.plain = [c.xreplace(plain) for c in conditions]
        carried, self.uncarried = assuming(self.plain)
        self.meaning = {v: u for u, v in plain.items()}
        self.meaning = {**self.meaning, **{v: self.meaning.get(u, u) for u, v in carried.items()}}
        self.names = {**{u: carried.get(v, v) for u, v in plain.items()}, **carried}
        self.conditions, self.reading = conditions, Reading()
        self.left, self.right = ([e.xreplace(plain).xreplace(carried) for e in side] for side in (left, right))
        self.uncarried = {c.xreplace(carried) for c in self.uncarried}

    def decide(self, doing: Callable[[str], object]) -> Verdict:
        if not self._is_defined_somewhere():
            return self._verdict(UNDECIDED, "no numbers were found at which both sides are defined")
        units = [(f"at unit {n} of {len(self.left)}", n, a, b) for n, a, b in zip(count(1), self.left, self.right, strict=False)]
        proofs, open_units = list[Verdict](), list[str]()
        for words, unit, a, b in units:  # a few numbers for each before the first proof, which may take long
            doing(f"{words}, while it was computed at numbers")
            if (refutation := self._refuted(a, b, 3)) is not None:
                return self._fails(unit, *refutation)
        for words, unit, a, b in units:
            doing(f"{words}, while it was proved equal")
            if proof := self._proof(a, b):
                proofs.append(proof)
                continue
            doing(f"{words}, while numbers were sought at which it differs")
            if (refutation := self._refuted(a, b, TRIALS)) is not None:
                return self._fails(unit, *refutation)
            open_units.append(f"unit {unit}: {self._why_open(a, b)}")
        return self._verdict(UNDECIDED, "; ".join(open_units)) if open_units else self._proved(proofs)

    def _why_open(self, a: Expr, b: Expr) -> str:
        for side, words in ((a, "the code"), (b, "the equation")):
            try:
                self.reading.term(side)
            except Unreadable as unknown:
                return f"{unknown}, in {words}, is not read by the checker, and no numbers were found at which the sides differ"
        sides = f": {a} and {b}" if len(f"{a}{b}") < LONGEST else ""
        return f"neither proved equal nor found different where both are defined{sides}"

    def _proved(self, proofs: Sequence[Verdict]) -> Verdict:
        """Where both sides are defined: by the code's conditions, and by those that a proof had to make."""
        back = {**{v: u for u, v in self.names.items()}, **self.meaning}
        made = {c.xreplace(back) for proof in proofs for c in proof.defined_on}
        evidence = "; ".join(dict.fromkeys(proof.evidence for proof in proofs))
        verdict = self._verdict(HOLDS_ASSUMING if self.conditions | made else HOLDS, evidence)
        certificates = tuple(step for proof in proofs for step in proof.certificate)
        return replace(verdict, defined_on=ordered(self.conditions | made), certificate=certificates)

    def _is_defined_somewhere(self) -> bool:
        """Whether all conditions hold together at some point: of what is nowhere defined anything is true."""
        letters, dice = sorted(set().union(*(c.free_symbols for c in self.plain)), key=str), random.Random(0)
        for _ in range(TRIALS if self.plain else 0):
            point = {u: _draw(u, dice) for u in letters}
            if all(c.xreplace(point) == S.true for c in self.plain):
                return True
        return not self.plain

    def _verdict(self, word: str, evidence: str) -> Verdict:
        return Verdict(word, 0.0, evidence, defined_on=ordered(self.conditions))

    def _proof(self, a: Expr, b: Expr) -> Verdict:
        """The prover's verdict: of letters first for large parts that both sides share, and last for all that they share."""
        large = min(a.count_ops(), b.count_ops()) >= LARGE
        if large and (verdict := self._of_letters(a, b, nested=True)):
            return verdict
        verdict = self._of_prover(a, b)
        return verdict if verdict.holds is not None else self._of_letters(a, b, nested=False) or verdict

    def _of_letters(self, a: Expr, b: Expr, nested: bool) -> Verdict | None:
        """The proof that is one whatever the functions (of functions) are that both sides share."""
        shared = _shared(a, b, nested)
        if not shared or not (verdict := self._of_prover(a.xreplace(shared), b.xreplace(shared))):
            return None
        back = {letter: part for part, letter in shared.items()}
        made = tuple(c.xreplace(back) for c in verdict.defined_on)
        return replace(verdict, evidence=f"{verdict.evidence}, whatever the functions are that they share", defined_on=made)

    def _of_prover(self, a: Expr, b: Expr) -> Verdict:
        """The prover's verdict; a corner that is outside of the conditions is left out."""
        known = {_primitive(k * d) for d in corners([a, b]) for k in (1, -1)}
        outside = ordered(c for c in self.uncarried if isinstance(c, Ne) and _primitive(c.lhs - c.rhs) in known)
        nowhere = sympy.Add(*(Piecewise((0, c), evaluate=False) for c in outside))
        verdict = check(Identity("as coded", "this project", "The torch code is the equations.", a + nowhere, b + nowhere))
        excluded = {_primitive(sympy.expand(k * (c.lhs - c.rhs))) for c in outside for k in (1, -1)}
        made = (c for c in verdict.defined_on if not isinstance(c, Ne) or _primitive(sympy.expand(c.lhs - c.rhs)) not in excluded)
        return replace(verdict, defined_on=tuple(made))

    def _fails(self, unit: int, counterexample: Mapping[Expr, Expr], difference: Expr) -> Verdict:
        point = {self.meaning.get(u, u): value for u, value in counterexample.items()}
        evidence = f"entry {unit}: code - equation = {difference.evalf(8)} at the counterexample"
        return replace(self._verdict(FAILS, evidence), counterexample=point)

    def _refuted(self, a: Expr, b: Expr, trials: int) -> tuple[dict[Expr, Expr], Expr] | None:
        """Numbers, as plain as can be found, at which both sides are defined and differ."""
        dice, difference = random.Random(0), a - b
        letters = sorted(difference.free_symbols, key=str)
        for point in (*self._near_corners(a, b, letters), *({u: _draw(u, dice, n) for u in letters} for n in range(trials))):
            value = self._difference(difference, point)
            if value is not None:
                return self._plainer(difference, point, value)
            if not letters:
                break
        return None

    def _near_corners(self, a: Expr, b: Expr, letters: Sequence[Expr]) -> Iterator[dict[Expr, Expr]]:
        """Points at which the sides look at signs, all at once where they can be, and beside these."""
        looked_at, dice = [e for e in corners([a, b]) if e.free_symbols <= set(letters)], random.Random(0)
        for beside in (S.Zero, S.One, S.NegativeOne, Rational(1, 1000), Rational(-1, 1000)) if looked_at else ():
            point: dict[Expr, Expr] = {}
            for corner in looked_at:
                rest = corner.xreplace(point)
                for u in sorted(rest.free_symbols - point.keys(), key=str):
                    slope = rest.diff(u)
                    there = {v: point.get(v, _draw(v, dice)) for v in rest.free_symbols if v != u}
                    if slope.has(u) or not (root := -(rest.xreplace({u: S.Zero}) / slope).xreplace(there)).is_Rational:
                        continue
                    if _allowed(u, root + beside):
                        point |= {**there, u: root + beside}
                        break
            yield {u: point.get(u, _draw(u, dice)) for u in letters}

    def _plainer(self, difference: Expr, point: dict[Expr, Expr], value: Expr) -> tuple[dict[Expr, Expr], Expr]:
        """Zeros, ones and whole numbers wherever the sides still differ as visibly."""
        for u, drawn in point.items():
            for simple in (S.Zero, S.One, S.NegativeOne, S(round(drawn))):
                trial = {**point, u: simple}
                gap = self._difference(difference, trial) if _allowed(u, simple) else None
                if gap is not None and abs(gap) > min(abs(value), Rational(1, 100)):
                    point, value = trial, gap
                    break
        return point, value

    def _difference(self, difference: Expr, point: Mapping[Expr, Expr]) -> Expr | None:
        """The difference at a point where all conditions hold; None if it is 0 or the point is outside."""
        for condition in self.uncarried:
            filled = condition.xreplace({u: point.get(u, S.One) for u in condition.free_symbols})
            if filled != S.true:
                return None
        return self._certain(difference, point)

    def _certain(self, e: Expr, point: Mapping[Expr, Expr]) -> Expr | None:
        """The value of an expression if it is real, finite and certainly not 0."""
        try:
            term = self.reading.term(e)
            if not any(part[0] == "known" for part in subterms(term)):
                numbers = {self.reading.term(u): fmpq(int(value.p), int(value.q)) for u, value in point.items()}
                return as_sympy(differs(term, ZERO, self.reading.facts, numbers))
        except Unreadable:
            pass
        except NotShown:
            return None
        return _by_sympy(e.xreplace(dict(point)))


def _shared(a: Expr, b: Expr, nested: bool) -> dict[Expr, Expr]:
    """Letters for functions that stand on both sides; `nested`: for those of functions alone.

    Letters of their own: two parts that are written the same are still two.
    """
    both = a.atoms(*FUNCTIONS) & b.atoms(*FUNCTIONS)
    taken = (e for e in both if not nested or any(arg.atoms(*FUNCTIONS) for arg in e.args))
    return {e: Dummy(str(e), real=True, positive=True if isinstance(e, sympy.exp) else None) for e in taken}


def _by_sympy(number: Expr) -> Expr | None:
    """The number to 30 digits, for functions of which the checker has none."""
    try:
        value = number if number.is_Rational else number.evalf(DIGITS, strict=True)
    except (PrecisionExhausted, NotImplementedError, ValueError):
        return None
    return value if value.is_number and value.is_real and value.is_finite and abs(value) > NOTICEABLE else None


def corners(expressions: Sequence[Expr]) -> list[Expr]:
    """The differences at whose signs |u|, sign u, max(u, v) and inequalities look, each once, innermost first."""
    differences: dict[Expr, None] = {}
    for node in (node for e in expressions for node in sympy.postorder_traversal(e)):
        for difference in map(_primitive, _looks_at(node)):
            if not difference.is_number and _primitive(-difference) not in differences:
                differences.setdefault(difference)
    return list(differences)


def _looks_at(node: Basic) -> tuple[Expr, ...]:
    if isinstance(node, Abs | sign):
        return (node.args[0],)
    if isinstance(node, Max | Min):
        return tuple(a - b for a, b in combinations(sorted(node.args, key=str), 2))
    return (node.lhs - node.rhs,) if isinstance(node, Relational) else ()


def _primitive(difference: Expr) -> Expr:
    """Without a positive rational factor."""
    return difference.as_content_primitive()[1]


def _draw(letter: Expr, dice: random.Random, trial: int = 0) -> Rational:
    """Draw a number as plain as can be, and at every fifth trial a large or a small one."""
    while True:
        value = Rational(dice.randint(-24, 24), dice.choice((1, 2, 4, 5)))
        value *= Rational(10) ** (dice.randint(-6, 6) if trial % 5 == 4 else 0)
        if _allowed(letter, value):
            return value


def _allowed(letter: Expr, value: Expr) -> bool:
    return all(getattr(value, f"is_{fact}", None) in (truth, None) for fact, truth in letter.assumptions0.items())
