r"""Write terms in letters that run through all values of another letter, part by part.

    within     the letters of a region: low + u, high - u, or (low + high u)/(1 + u)
    covering   sides   x = m + u, m, m - u, or m (1 + u), m, m/(1 + u) where x and m are positive
               root    x = u^n, where x is not negative
               next    x = 1 + u, where x is a positive whole number
    settled    the branches of pieces whose case is known

In all of them u is positive, or has the facts that are said with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from derivations.rules.definedness import Certificate, undefined
from derivations.rules.quotients import Case, Facts, NotShown, Signs
from derivations.rules.rational import arithmetic_of
from derivations.rules.terms import (
    BINDERS,
    ONE,
    Term,
    add,
    divide,
    free_letters,
    mul,
    neg,
    number,
    power,
    rebuilt,
    substitute,
    subterms,
)

__all__ = ["Region", "Way", "covering", "settled", "within"]

Region = Sequence[tuple[Term, Term, Term]]
# What stands for a letter, and the facts of the new letter in it; none where there is no new one.
Way = tuple[Term, Facts]


def within(region: Region, facts: Facts, terms: Sequence[Term]) -> tuple[list[Term], Facts]:
    r"""Write terms on a region (letter, from, to) in positive letters, in real ones where it has no ends.

    low + u, high - u, or (low + high u)/(1 + u), which runs through all between. Ends may hold other letters.
    """
    listed, known = list(terms), dict(facts)
    for place, (letter, low, high) in enumerate(region):
        if letter[0] != "v":
            raise NotShown(f"{letter} is no letter to run through a region")
        u = ("v", f"{letter[1]}+")
        infinite = (low == ("-oo",), high == ("oo",))
        if u in known or any(u in subterms(term) for term in (*listed, *(end for _, *ends in region for end in ends))):
            raise NotShown(f"the name {u[1]} is taken")
        known[u] = frozenset({"real"}) if all(infinite) else frozenset({"real", "positive"})
        between = (
            u if all(infinite) else add(high, neg(u)) if infinite[0] else add(low, u) if infinite[1]
            else divide(add(low, mul(high, u)), add(ONE, u))
        )  # fmt: skip
        for _, *ends in region[place + 1 :]:
            if letter in (part for end in ends for part in subterms(end)):
                raise NotShown(f"the ends of a later letter hold {letter}")
        listed = [substitute(term, {letter: between}) for term in listed]
        put = {letter: between}
        region = [(x, substitute(start, put), substitute(end, put)) for x, start, end in region]
    return listed, known


def covering(terms: Sequence[Term], facts: Facts, proof: Certificate, assumed: Mapping[Term, Signs]) -> list[Way]:
    r"""Return what a letter of terms may be put to, so that every value it can have is among them.

    Raises:  NotShown where the letter may have others.
    """
    x = proof["letter"]
    if x[0] != "v" or "real" not in facts.get(x, ()):
        raise NotShown(f"{x} is no real letter")
    u = ("v", f"{x[1]}+")
    if u in facts or any(u in subterms(term) for term in (*terms, *assumed)):
        raise NotShown(f"the name {u[1]} is taken")
    match proof["by"]:
        case "root" if type(proof["degree"]) is int and proof["degree"] > 0 and facts[x] & {"positive", "nonnegative"}:
            return [(power(u, number(proof["degree"])), {u: facts[x] & {"real", "positive", "nonnegative"}})]
        case "next" if facts[x] >= {"integer", "positive"}:
            return [(add(ONE, u), {u: frozenset({"real", "integer", "nonnegative"})})]
        case "sides":
            return _sides(x, u, facts, proof, assumed)
    raise NotShown(f"{x} is not covered")


def _sides(x: Term, u: Term, facts: Facts, proof: Certificate, assumed: Mapping[Term, Signs]) -> list[Way]:
    """Return what is above a point, the point, and what is below, without those that cannot be."""
    m, arithmetic = proof["point"], arithmetic_of(facts, proof, assumed)
    if x[1] in free_letters(m) or u in subterms(m) or not arithmetic.is_real(m) or any(undefined(arithmetic, m)):
        raise NotShown(f"{m} is no point for {x}")
    above, below = add(m, u), add(m, neg(u))
    if proof["scaled"]:
        if "positive" not in facts[x] or not arithmetic.signs(m) <= {1}:
            raise NotShown(f"{x} or {m} may not be positive")
        above, below = mul(m, add(ONE, u)), divide(m, add(ONE, u))
    ways = {1: (above, {u: frozenset({"real", "positive"})}), 0: (m, {}), -1: (below, {u: frozenset({"real", "positive"})})}
    possible = arithmetic.signs(add(x, neg(m)))
    return [way for sign, way in ways.items() if sign in possible]


def settled(term: Term, case: Case) -> Term:
    """Return a term with the branch of each piece whose case is known; it is defined wherever the term is, and equal."""
    if term[0] in BINDERS:  # what is bound has no one case
        return term
    term = rebuilt(term, lambda part: settled(part, case))
    if term[0] != "piece" or not case.reads_real(term[1]):
        return term
    signs = case.signs(term[1])
    return term[3 + next(iter(signs))] if len(signs) == 1 else term
