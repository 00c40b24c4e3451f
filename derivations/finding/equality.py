"""Find how two terms are one quotient of polynomials: the cases of signs, the generators, and what integrals and sums are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, TypeAlias

from flint import fmpq

from derivations.finding.generators import Explained, as_term, explained, written
from derivations.finding.limits import find_limit
from derivations.rules.definedness import Conditions
from derivations.rules.equality import equal, in_cases, possible_signs
from derivations.rules.limits import approach
from derivations.rules.quotients import Facts, NotShown, Quotient
from derivations.rules.rational import Arithmetic, arithmetic_of
from derivations.rules.terms import (
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

__all__ = ["Antiderivative", "constant_gap", "evaluated", "prove_equal"]

MOST_SPLIT = 6
# Gives a term whose derivative may be the body of an integral, or None.
Antiderivative: TypeAlias = Callable[[Term], Term | None]


def prove_equal(lhs: Term, rhs: Term, facts: Facts, hint: Antiderivative) -> tuple[dict[str, Any], Conditions] | None:
    """Find a certificate of lhs = rhs that the check accepts, and the conditions it returns; None if none is found."""
    try:
        lhs, rhs = taken(lhs), taken(rhs)
    except ValueError:
        return None
    plain, further = (_splits((lhs, rhs), facts, below) for below in (False, True))
    found = _in_split(lhs, rhs, plain, facts, hint)
    return _in_split(lhs, rhs, further, facts, hint) if found is None and further != plain else found


def _in_split(
    lhs: Term, rhs: Term, split: list[Term], facts: Facts, hint: Antiderivative
) -> tuple[dict[str, Any], Conditions] | None:
    if len(split) > MOST_SPLIT:
        return None
    cases = []
    for signs in possible_signs(facts, split):
        terms, assumed = in_cases((lhs, rhs), split, signs)
        cases.append({"signs": signs, **_case_of(terms, facts, hint, assumed)})
    certificate = {"split": split, "cases": cases}
    try:
        return certificate, equal(lhs, rhs, facts, certificate)
    except NotShown:
        return None


def _case_of(terms: Iterable[Term], facts: Facts, hint: Antiderivative, assumed: Mapping[Term, frozenset[int]]) -> dict[str, Any]:
    """Find generators and lines for terms in one case, integrals and sums by antiderivatives or else by their parts."""
    terms, lines = list(terms), {}
    starts: dict[Term, Term] = {}
    todo = [part for term in terms for part in subterms(term) if part[0] in ("int", "sum")]
    while todo:
        whole = todo.pop(0)
        if whole in lines:
            continue
        terms += [end for end in whole[3:] if whole[0] == "sum" and end not in INFINITY]
        line = (_of_integral if whole[0] == "int" else _of_sum)(whole, facts, hint, assumed)
        if line is None and (by_parts := _by_parts(whole, facts, hint, assumed, starts)) is not None:
            line, more = by_parts
            terms += more
            todo += [part for term in more for part in subterms(term) if part[0] in ("int", "sum")]
        elif line is not None:
            terms += [substitute(line[1], {("v", whole[1]): end}) for end in _ends(whole) if end not in INFINITY]
            terms += _of_line(line)
        if line is not None:
            lines[whole] = line
    return explained(terms, facts, assumed, lines).case()


def _ends(whole: Term) -> list[Term]:
    """List where the antiderivative of an integral or a sum is needed."""
    low, high = whole[3:]
    return [low, high] if whole[0] == "int" else [low, add(high, ONE)]


def _of_sum(whole: Term, facts: Facts, hint: Antiderivative, assumed: Mapping[Term, frozenset[int]]) -> Any:
    x, body, low, _ = whole[1:]
    letter = ("v", x)
    steps = hint(whole)
    if steps is None or any(part[0] == "piece" for part in subterms(steps)):
        return None
    after = substitute(steps, {letter: add(letter, ONE)})
    case = _case_of([body, steps, after], _counted(letter, low, facts), hint, assumed)
    return ("steps", steps, case["generators"], case["lines"])


def _counted(letter: Term, low: Term, facts: Facts) -> Facts:
    sign = Arithmetic(facts, [], {}).by_structure(low)
    return {
        **facts,
        letter: frozenset({"real", "integer", *(["positive"] if sign <= {1} else ["nonnegative"] if sign <= {0, 1} else [])}),
    }


def _by_parts(
    whole: Term, facts: Facts, hint: Antiderivative, assumed: Mapping[Term, frozenset[int]], starts: dict[Term, Term]
) -> tuple[Any, list[Term]] | None:
    """Find a line that takes an integral or a sum apart, with the terms that it is written with."""
    kind, x, body, low, high = whole
    letter = ("v", x)
    inside = {**facts, letter: frozenset({"real"})} if kind == "int" else _counted(letter, low, facts)
    with suppress(NotShown, ValueError):
        term = explained([body], inside, assumed)
        parts = _linear(term, term.arithmetic().value(body), letter)
        if parts and parts != [(ONE, body)]:
            case = _case_of([body, *chain.from_iterable(parts)], inside, hint, assumed)
            line = ("linear", parts, case["generators"], case["lines"])
            return line, [part for c, f in parts for part in (c, (kind, x, f, low, high))]
        if kind == "sum":
            return _sum_by_parts(whole, facts, starts)
        if low in INFINITY:
            return None
        m = starts.setdefault(body, low)
        ends = (_plainly(low, facts), high if high in INFINITY else _plainly(high, facts))
        if low != m or ends[1] != high:
            written_anew = [end for pair in zip((low, high), ends, strict=True) if pair[0] != pair[1] for end in pair]
            return ("from", m, *ends), [m, *written_anew, *(("int", x, body, m, end) for end in ends if end != m)]
    return None


def _sum_by_parts(whole: Term, facts: Facts, starts: dict[Term, Term]) -> tuple[Any, list[Term]] | None:
    """Find a line that takes a sum apart by its ends: a start before all others, and an end a number before its own."""
    _, x, body, low, high = whole
    m = starts.setdefault(body, low)
    before, end = _plainly(add(low, number(-1)), facts), _plainly(high, facts)
    if low != m or end != high:
        return ("from", m, before, end), [("sum", x, body, m, e) for e in (before, end) if low != m or e == end]
    last = starts.setdefault(("sum", x, body, low), high)
    gap = _plainly(add(high, neg(last)), facts)
    if gap[0] == "q" and gap[2] == 1 and gap[1] > 0:
        parts = [substitute(body, {("v", x): add(last, number(k))}) for k in range(1, gap[1] + 1)]
        return ("last", last, gap[1]), [*parts, ("sum", x, body, low, last)]
    return None


def _plainly(term: Term, facts: Facts) -> Term:
    found = explained([term], facts)
    return written(as_term(found, found.arithmetic().value(term)))


def _linear(found: Explained, value: Quotient, letter: Term) -> list[tuple[Term, Term]]:
    """Write a quotient as a sum of constants times functions of a letter."""
    below = as_term(found, value.below)
    over = [] if below == ONE else [power(below, number(-1))]
    outside, inside = ([], over) if letter in subterms(below) else (over, [])
    by_function: dict[Term, list[Term]] = {}
    for powers, coefficient in value.above.terms():
        split: tuple[list[Term], list[Term]] = ([], [])
        for g, e in zip(found.generators, powers, strict=False):  # a polynomial without generators has one letter all the same
            if e:
                split[letter in subterms(g)].append(power(written(g), number(int(e))))
        constant = mul(number(int(coefficient.p), int(coefficient.q)), *split[0], *outside)
        by_function.setdefault(written(mul(*split[1], *inside)), []).append(written(constant))
    return [(add(*coefficients), f) for f, coefficients in by_function.items()]


def _of_line(line: Any) -> list[Term]:
    """List further terms that the value of an integral is written with."""
    match line[0]:
        case "gamma":
            return [("gamma", line[1]), line[4]]
        case "gauss":
            return [("^", ("pi",), number(1, 2)), ("^", line[1], number(-1, 2)), line[4]]
        case "antiderivative":
            return [value for _, (value, _) in line[4]]
    return []


def evaluated(term: Term, facts: Facts, hint: Antiderivative) -> Term | None:
    """Write integrals and sums as values of antiderivatives and limits; None where there are none, or one has no such value."""
    found = dict[Term, Term]()
    for whole in subterms(term):
        if whole[0] in ("int", "sum") and not any(whole in subterms(other) for other in found):
            value = _evaluated(whole, facts, hint)
            if value is None:
                return None
            found[whole] = value
    return substitute(term, found) if found else None


def _evaluated(whole: Term, facts: Facts, hint: Antiderivative) -> Term | None:
    kind, x, _, low, high = whole
    line = (_of_integral if kind == "int" else _of_sum)(whole, facts, hint, {})
    if line is None:
        if (by_parts := _by_parts(whole, facts, hint, {}, {})) is None or by_parts[0][0] != "linear":
            return None
        parts = [(c, _evaluated((kind, x, f, low, high), facts, hint)) for c, f in by_parts[0][1]]
        return None if any(value is None for _, value in parts) else add(*(mul(c, value) for c, value in parts if value))
    if line[0] == "gamma":
        return mul(line[4], ("gamma", line[1]))
    if line[0] == "gauss":
        root = mul(line[4], ("^", ("pi",), number(1, 2)), ("^", line[1], number(-1, 2)))
        return root if {low, high} == {*INFINITY} else mul(number(1, 2), root)
    limits = {end: value for end, (value, _) in line[4]} if line[0] == "antiderivative" else {}
    start, end = (limits.get(at) or substitute(line[1], {("v", x): at}) for at in _ends(whole))
    return add(end, neg(start))


def _of_integral(integral: Term, facts: Facts, hint: Antiderivative, assumed: Mapping[Term, frozenset[int]]) -> Any:
    x, body, low, high = integral[1:]
    letter = ("v", x)
    if low == high:
        return ("nothing", ZERO, [], [])
    positive = {letter: frozenset({"real", "positive"})}
    inside = {**facts, letter: frozenset({"real"})} if low != ZERO else {**facts, **positive}
    within = {
        gap: frozenset({1}) for gap, end in ((add(letter, neg(low)), low), (add(high, neg(letter)), high)) if end not in INFINITY
    }
    if {low, high} & set(INFINITY) and (known := _known_integral(body, letter, {**inside, **positive})) is not None:
        kind, a, c, shape = known
        case = _case_of([body, c, shape], inside, hint, {**assumed, **within})
        return (kind, a, case["generators"], case["lines"], c)
    antiderivative = hint(integral)
    if antiderivative is None:
        return None
    limits = []
    for end in (low, high):
        if end in INFINITY:
            there, u, there_known = approach(antiderivative, letter, end, "+", facts)
            limit = find_limit(there, u, ("oo",), there_known)
            if limit is None:
                return None
            limits.append((end, limit))
    try:
        case = _case_of([body, taken(("diff", x, antiderivative))], inside, hint, {**assumed, **within})
    except ValueError:
        return None
    return ("antiderivative", antiderivative, case["generators"], case["lines"], limits)


def _known_integral(body: Term, x: Term, facts: Facts) -> tuple[str, Term, Term, Term] | None:
    """Return (kind, a, c, the body over c) if the body is c x^(a - 1) e^-x or c e^(-a x^2)."""
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
    """Simplify a term; return None unless the letter drops out of it."""
    found = explained([term], facts)
    plain = written(as_term(found, found.arithmetic().value(term)))
    return None if x in subterms(plain) else plain


def _splits(terms: Iterable[Term], facts: Facts, below: bool) -> list[Term]:
    """Find what to split by: the letters in the subject of a piece if it is a product of letters, else the subject, and the
    letters that divide in it if `below`."""
    found: dict[Any, Term] = {}
    subjects = list(dict.fromkeys(u for term in terms for u in _subjects(term, facts)))
    letters = dict.fromkeys(part for u in subjects for part in subterms(u) if part[0] in ("v", "call"))
    arithmetic = Arithmetic(facts, list(letters), {})
    for subject in subjects:
        for u in list(_factors_that_are_letters(subject)) or [*(_letters_below(subject) if below else ()), subject]:
            if len(Arithmetic(facts, [], {}).by_structure(u)) > 1:
                found.setdefault(_up_to_a_number(arithmetic, u), u)
    # What holds others comes after them, for their signs tell its own.
    return sorted(found.values(), key=lambda u: sum(1 for _ in subterms(u)))


def _up_to_a_number(arithmetic: Arithmetic, term: Term) -> Any:
    """Return a key that is equal for polynomials that are multiples of each other: the sign of one gives the other's."""
    try:
        value = arithmetic.value(term)
    except NotShown:
        return term
    return str(value.above / value.above.leading_coefficient()) if value.below.is_constant() and value.above else term


def _subjects(term: Term, facts: Facts) -> Iterator[Term]:
    """Yield the terms whose sign matters: subjects of pieces, and bases of powers that may be 0 or negative."""
    bound = {part[1] for part in subterms(term) if part[0] in BINDERS}
    for part in subterms(term):
        if bound and bound & free_letters(part):
            continue
        if part[0] == "piece" or (
            part[0] == "^" and part[2][0] != "q" and part[1][0] in ("v", "call") and "integer" not in facts.get(part[2], ())
        ):
            yield part[1]


def _factors_that_are_letters(term: Term) -> Iterator[Term]:
    """Yield the letters of a product of numbers, letters and their powers; nothing for another term."""
    letters = []
    for part in _factors(term):
        base = part[1] if part[0] == "^" and part[2][0] == "q" else part
        if base[0] in ("v", "call"):
            letters.append(base)
        elif base[0] not in ("q", "exp"):
            return
    yield from letters


def _factors(term: Term) -> Iterator[Term]:
    """Yield the factors of a product, and of the products in it."""
    if term[0] != "*":
        yield term
    else:
        for part in term[1:]:
            yield from _factors(part)


def _letters_below(term: Term) -> Iterator[Term]:
    """Yield the letters whose odd powers divide: their signs tell that of a sum with such quotients."""
    for part in subterms(term):
        if part[0] == "^" and part[1][0] in ("v", "call") and part[2][0] == "q" and part[2][1] < 0 and part[2][1] % 2:
            yield part[1]


def constant_gap(lhs: Term, rhs: Term, facts: Facts, hint: Antiderivative) -> tuple[fmpq, dict[str, Any]] | None:
    """Find a number other than 0 that lhs - rhs is everywhere, with its certificate: it refutes what has no letters."""
    try:
        gap = add(taken(lhs), neg(taken(rhs)))
        value = arithmetic_of(facts, _case_of([gap], facts, hint, {})).value(gap)
    except (NotShown, ValueError):
        return None
    if not (value.above.is_constant() and value.below.is_constant()) or value.above.is_zero():
        return None
    c = value.above.leading_coefficient() / value.below.leading_coefficient()
    proof = prove_equal(lhs, add(rhs, number(int(c.p), int(c.q))), facts, hint)
    return None if proof is None else (c, proof[0])
