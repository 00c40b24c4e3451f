r"""Find certificates that two terms are equal, or numbers at which they differ; the checker has the last word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from flint import fmpq

from derivations.certificates.generators import as_term, explained, written
from derivations.certificates.limits import find_limit
from derivations.certificates.reading import Reading, Unreadable
from derivations.checker.limits import approach
from derivations.checker.quotients import Facts, NotShown
from derivations.checker.rational import Arithmetic, arithmetic_of
from derivations.checker.rules import Conditions, equal, in_cases
from derivations.checker.terms import (
    BINDERS,
    INFINITY,
    ONE,
    ZERO,
    Term,
    add,
    free_letters,
    mul,
    neg,
    number,
    power,
    substitute,
    subterms,
    taken,
)

__all__ = ["case_of", "constant_gap", "prove_equal", "splits"]

MOST_SPLIT = 4


def prove_equal(lhs: Term, rhs: Term, reading: Reading, facts: Facts | None = None) -> tuple[dict[str, Any], Conditions] | None:
    """A certificate of lhs = rhs that the checker accepts, and where it says so; None if none is found."""
    facts = facts or reading.facts
    try:
        lhs, rhs = taken(lhs), taken(rhs)
    except ValueError:
        return None
    split = splits((lhs, rhs), facts)
    if len(split) > MOST_SPLIT:
        return None
    cases = []
    for signs in product((-1, 0, 1), repeat=len(split)):
        terms, assumed = in_cases((lhs, rhs), split, signs)
        cases.append({"signs": signs, **case_of(terms, reading, assumed, facts)})
    certificate = {"split": split, "cases": cases}
    try:
        return certificate, equal(lhs, rhs, facts, certificate)
    except NotShown:
        return None


def case_of(
    terms: Iterable[Term], reading: Reading, assumed: Mapping[Term, frozenset[int]] | None = None, facts: Facts | None = None
) -> dict[str, Any]:
    """The generators and lines for terms in one case; an integral whose antiderivative is found is that one's difference."""
    terms, facts, assumed = list(terms), facts or reading.facts, assumed or {}
    lines = {}
    for integral in {part for term in terms for part in subterms(term) if part[0] == "int"}:
        line = _of_integral(integral, reading, assumed, facts)
        if line is not None:
            lines[integral] = line
            terms += [substitute(line[1], {("v", integral[1]): end}) for end in integral[3:] if end not in INFINITY]
            terms += _of_line(line)
    found = explained(terms, facts, assumed, lines)
    return {"generators": found.generators, "lines": list(found.lines.items())}


def _of_line(line: Any) -> list[Term]:
    """Further terms that the value of an integral is written with."""
    match line[0]:
        case "gamma":
            return [("gamma", line[1]), line[4]]
        case "gauss":
            return [("^", ("pi",), number(1, 2)), ("^", line[1], number(-1, 2)), line[4]]
        case "antiderivative":
            return [value for _, (value, _) in line[4]]
    return []


def _of_integral(integral: Term, reading: Reading, assumed: Mapping[Term, frozenset[int]], facts: Facts) -> Any:
    x, body, low, high = integral[1:]
    letter = ("v", x)
    if low == high:
        return ("nothing", ZERO, [], [])
    inside = {**facts, letter: frozenset({"real", "positive"} if low == ZERO else {"real"})}
    within = {
        gap: frozenset({1}) for gap, end in ((add(letter, neg(low)), low), (add(high, neg(letter)), high)) if end not in INFINITY
    }
    if {low, high} & set(INFINITY) and (known := _known_integral(body, letter, {**inside, **_positive(letter)})) is not None:
        kind, a, c, shape = known
        case = case_of([body, c, shape], reading, {**assumed, **within}, inside)
        return (kind, a, case["generators"], case["lines"], c)
    antiderivative = _antiderivative(integral, reading)
    if antiderivative is None:
        return None
    limits = []
    for end in (low, high):
        if end in INFINITY:
            there, u, there_known = approach(antiderivative, letter, end, "+", facts)
            found = find_limit(there, u, ("oo",), there_known)
            if found is None:
                return None
            limits.append((end, found))
    try:
        case = case_of([body, taken(("diff", x, antiderivative))], reading, {**assumed, **within}, inside)
    except ValueError:
        return None
    return ("antiderivative", antiderivative, case["generators"], case["lines"], limits)


def _positive(letter: Term) -> dict[Term, frozenset[str]]:
    return {letter: frozenset({"real", "positive"})}


def _known_integral(body: Term, x: Term, facts: Facts) -> tuple[str, Term, Term, Term] | None:
    """(kind, a, c, the body over c), if the body is c x^(a - 1) e^-x or c e^(-a x^2)."""
    shapes = {
        "gamma": lambda a: mul(power(x, add(a, number(-1))), ("exp", neg(x))),
        "gauss": lambda a: ("exp", mul(number(-1), a, power(x, number(2)))),
    }
    try:
        slope = mul(taken(("diff", x[1], body)), power(body, number(-1)))
        found_a = {"gamma": add(mul(x, slope), x, ONE), "gauss": mul(number(-1, 2), slope, power(x, number(-1)))}
        for kind, a_term in found_a.items():
            a = _without(a_term, x, facts)
            c = _without(mul(body, power(shapes[kind](a), number(-1))), x, facts) if a is not None else None
            if a is not None and c is not None:
                return kind, a, c, shapes[kind](a)
    except (NotShown, ValueError):
        pass
    return None


def _without(term: Term, x: Term, facts: Facts) -> Term | None:
    """The term simplified, if the letter drops out of it."""
    found = explained([term], facts)
    plain = written(as_term(found, found.arithmetic().value(term)))
    return None if x in subterms(plain) else plain


def _antiderivative(integral: Term, reading: Reading) -> Term | None:
    try:
        return reading.antiderivative(integral) if integral in reading.integrands else None
    except (Unreadable, NotImplementedError, ValueError):
        return None


def splits(terms: Iterable[Term], facts: Facts) -> list[Term]:
    """What a proof by cases goes by: the letters in the subject of a piece if it is a product of letters, else the subject."""
    found: dict[Term, None] = {}
    bare = Arithmetic(facts, [], {})
    for subject in dict.fromkeys(u for term in terms for u in _subjects(term, facts)):
        letters = list(_factors_that_are_letters(subject))
        for u in letters or [subject]:
            if len(bare.by_structure(u)) > 1:
                found[u] = None
    return list(found)


def _subjects(term: Term, facts: Facts) -> Iterator[Term]:
    """Whose sign matters: subjects of pieces, and bases of powers that may be 0 or negative."""
    bound = {part[1] for part in subterms(term) if part[0] in BINDERS}
    for part in subterms(term):
        if bound and bound & free_letters(part):
            continue
        if part[0] == "piece" or (
            part[0] == "^" and part[2][0] != "q" and part[1][0] in ("v", "call") and "integer" not in facts.get(part[2], ())
        ):
            yield part[1]


def _factors_that_are_letters(term: Term) -> Iterator[Term]:
    """The letters of a product of numbers, letters and their powers; nothing if it is none."""
    found = []
    for part in term[1:] if term[0] == "*" else (term,):
        base = part[1] if part[0] == "^" and part[2][0] == "q" else part
        if base[0] in ("v", "call"):
            found.append(base)
        elif base[0] not in ("q", "exp"):
            return
    yield from found


def constant_gap(lhs: Term, rhs: Term, reading: Reading) -> tuple[fmpq, dict[str, Any]] | None:
    """A number other than 0 that lhs - rhs is everywhere, with the certificate of that: it refutes what no letters can."""
    try:
        gap = add(taken(lhs), neg(taken(rhs)))
        case = case_of([gap], reading)
        value = arithmetic_of(reading.facts, case).value(gap)
    except (NotShown, ValueError):
        return None
    if not (value.above.is_constant() and value.below.is_constant()) or value.above.is_zero():
        return None
    c = value.above.leading_coefficient() / value.below.leading_coefficient()
    proof = prove_equal(lhs, add(rhs, number(int(c.p), int(c.q))), reading)
    return None if proof is None else (c, proof[0])
