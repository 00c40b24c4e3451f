r"""The signs that a term can have: subsets of {-1, 0, 1}, by its structure, and by the polynomials that it is a quotient of.

{-1, 1} says of what may not be real that it is not 0; every other set without all three says that it is real.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flint import fmpq, fmpq_mpoly

from derivations.rules.bounds import bounds, signs_within
from derivations.rules.quotients import LONGEST, Case, NotShown, Signs, real_roots, univariate, used
from derivations.rules.terms import Term, add, is_term, neg, number

__all__ = ["ANY", "OF_FACTS", "by_structure", "is_real", "is_real_generator", "of_polynomial", "of_term", "times"]

ANY: Signs = frozenset({-1, 0, 1})
OF_FACTS = {
    "positive": frozenset({1}),
    "negative": frozenset({-1}),
    "nonnegative": frozenset({0, 1}),
    "nonpositive": frozenset({-1, 0}),
    "nonzero": frozenset({-1, 1}),
}
REAL_OF_REAL = ("+", "*", "exp", "tanh", "sinh", "cosh", "sin", "cos", "atan", "erf")
# Longer polynomials are not tried letter by letter.
LONGEST_BY_COEFFICIENTS = 40


def of_term(case: Case, term: Term) -> Signs:
    """Return the signs of a term by what is assumed, by its structure, and by its value."""
    signs = case.assumed.get(term, ANY) & by_structure(case, term)
    if len(signs) > 1 and term[0] == "+" and (ends := bounds(case, term)) is not None:
        signs &= signs_within(ends)
    opposite = case.assumed.get(neg(term))
    if opposite is not None:
        signs &= frozenset(-s for s in opposite)
    if len(signs) > 1:
        try:
            value = case.value(term)
            vanishes = case.reduced(value.above).is_zero()
        except NotShown:
            return signs
        signs &= frozenset({0}) if vanishes else times(case.of_polynomial(value.above), case.of_polynomial(value.below) - {0})
    return signs


def by_structure(case: Case, term: Term) -> Signs:
    """Return the signs of a term by the signs of its parts, or by the facts of a letter."""
    match term[0]:
        case "q":
            return _of_number(fmpq(term[1], term[2]))
        case "v" | "call":
            return frozenset.intersection(ANY, *(OF_FACTS[fact] for fact in case.facts.get(term, ()) if fact in OF_FACTS))
        case "+":
            if len(term) == 3 and any(_is_root_beyond(case, root, u) for u, root in (term[1:], term[:0:-1])):
                return frozenset({1})
            return _plus([case.signs(part) for part in term[1:]])
        case "*":
            return _product([case.signs(part) for part in term[1:]])
        case "exp" | "cosh":
            return frozenset({1}) if case.reads_real(term[1]) else ANY
        case "pi":
            return frozenset({1})
        case "tanh" | "sinh" | "atan" | "erf":
            return case.signs(term[1]) if case.reads_real(term[1]) else ANY
        case "log":
            return case.signs(add(term[1], number(-1)))
        case "gamma" | "expint":
            return frozenset({1}) if case.signs(term[-1]) <= {1} and case.reads_real(term[1]) else ANY
        case "^":
            return _of_power(case, *term[1:])
        case "piece":
            if not case.reads_real(term[1]):
                return ANY
            known = {sign: {term[1]: sign, neg(term[1]): -sign} for sign in case.signs(term[1])}  # u where u > 0, as in |u|
            branches = [
                frozenset({known[sign][term[3 + sign]]}) if term[3 + sign] in known[sign] else case.signs(term[3 + sign])
                for sign in known
            ]
            return frozenset().union(*branches)
    return ANY


def _of_power(case: Case, base: Term, exponent: Term) -> Signs:
    signs = case.signs(base)
    if exponent[0] != "q":
        if not (signs <= {0, 1} and case.reads_real(exponent)):
            return ANY - {0} if 0 not in signs else ANY
        return signs if 0 not in signs or case.signs(exponent) <= {1} else frozenset({0, 1})  # 0^0 = 1
    if not case.reads_real(base):
        return ANY
    if exponent[2] != 1:  # defined where the base is 0 or above
        return signs & {0, 1}
    if exponent[1] == 0:
        return frozenset({1})  # 0^0 too
    return _to_the(signs if exponent[1] > 0 else signs - {0}, exponent[1])


def of_polynomial(case: Case, p: fmpq_mpoly) -> Signs:
    """Return the signs of a polynomial by its factors' monomials, real roots, or monomials in 1 + w for what exceeds 1."""
    if p.is_zero():
        return frozenset({0})
    if len(p) > LONGEST or any(not is_real_generator(case, k) for k in used(p)):
        return ANY
    whole = _of_factor(case, p)
    if whole != ANY:
        return whole
    constant, factors = p.factor()
    return _product([_of_number(constant), *(_to_the(_of_factor(case, factor), k) for factor, k in factors)])


def _of_factor(case: Case, p: fmpq_mpoly) -> Signs:
    for known, signs in _assumed_polynomials(case):
        factor = p.leading_coefficient() / known.leading_coefficient()
        rest = p - factor * known  # p = factor known + rest
        multiple = times(_of_number(factor), signs)
        found = multiple if rest.is_zero() else _plus([multiple, _of_monomials(case, rest, {})])
        if found != ANY:
            return found
    found = _of_monomials(case, p, {})
    if found == ANY:
        found = _of_coefficients(case, p)
    if found == ANY and len(used(p)) == 1:
        found = _of_one_letter(case, p)
    above_one = {k: signs for k in used(p) if (signs := _less_one(case, k)) <= {0, 1}} if found == ANY else {}
    if above_one:
        shifted = [g + 1 if k in above_one else g for k, g in enumerate(case.polynomials)]
        found = _of_monomials(case, p.compose(*shifted, ctx=case.ring), above_one)
    return found


def _assumed_polynomials(case: Case) -> list[tuple[fmpq_mpoly, Signs]]:
    """What is assumed of the signs of polynomials in this case, up to a positive factor."""
    if case.assumed_polynomials is None:
        case.assumed_polynomials = []  # while they are being read
        for term, signs in case.assumed.items():
            try:
                value = case.value(term)
            except NotShown:
                continue
            below = case.of_polynomial(value.below) - {0}
            if len(below) == 1 and not value.above.is_constant():
                constant, factors = value.above.factor()
                if len(factors) == 1 and factors[0][1] == 1:
                    case.assumed_polynomials.append((factors[0][0], times(times(_of_number(constant), below), signs)))
    return case.assumed_polynomials


def _of_monomials(case: Case, p: fmpq_mpoly, instead: Mapping[int, Signs]) -> Signs:
    monomials = []
    for powers, coefficient in p.terms():
        of_powers = [_to_the(instead.get(k, _of_generator(case, k)), int(e)) for k, e in enumerate(powers) if e]
        monomials.append(_product([_of_number(coefficient), *of_powers]))
    return _plus(monomials)


def _of_coefficients(case: Case, p: fmpq_mpoly) -> Signs:
    """As a polynomial in one letter that is not negative, by the signs of its coefficients."""
    for k in used(p) if 1 < len(p) <= LONGEST_BY_COEFFICIENTS and len(used(p)) > 1 else ():
        if not _of_generator(case, k) <= {0, 1}:
            continue
        by_power: dict[int, dict[tuple[int, ...], Any]] = {}
        for powers, coefficient in p.terms():
            rest = tuple(0 if j == k else int(e) for j, e in enumerate(powers))
            by_power.setdefault(int(powers[k]), {})[rest] = coefficient
        signs = [
            times(_to_the(_of_generator(case, k), n) if n else frozenset({1}), case.of_polynomial(case.ring.from_dict(part)))
            for n, part in by_power.items()
        ]
        if (found := _plus(signs)) != ANY:
            return found
    return ANY


def _of_one_letter(case: Case, p: fmpq_mpoly) -> Signs:
    """Without a real root in its letter's range (0 or above, or all numbers) a polynomial keeps its sign."""
    (k,) = used(p)
    range_ = _of_generator(case, k)
    roots = real_roots(univariate(p, k))
    if range_ <= {0, 1}:
        at, roots = 1, [root for root in roots if not root < 0]
    elif range_ <= {-1, 0}:
        at, roots = -1, [root for root in roots if not root > 0]
    else:
        at = 0
    if roots:
        return ANY
    point = [fmpq(at) if j == k else fmpq(0) for j in range(len(case.generators))]
    return _of_number(p(*point))


def _of_generator(case: Case, k: int) -> Signs:
    if k not in case.signs_of_generators:
        case.signs_of_generators[k] = ANY  # while it is being read, nothing is known of it
        term = case.generators[k]
        match term[0]:
            case "exp":
                signs = frozenset({1}) if is_real_generator(case, k) else ANY
            case "root":
                signs = case.signs(term[1]) & {0, 1}
            case "power":
                signs = _of_power(case, *term[1:])
            case "logabs":
                signs = case.signs(add(term[1], number(-1))) if case.signs(term[1]) <= {1} else ANY
            case _:
                signs = by_structure(case, term) & case.assumed.get(term, ANY)
        case.signs_of_generators[k] = signs
    return case.signs_of_generators[k]


def _less_one(case: Case, k: int) -> Signs:
    """Return the signs of a generator less 1."""
    term = case.generators[k]
    match term[0]:
        case "exp" if case.reads_real(term[1]):
            return case.signs(term[1])
        case "v":
            return case.signs(add(term, number(-1)))
        case "root":
            return case.signs(add(term[1], number(-1)))
    return ANY


def is_real(case: Case, term: Term) -> bool:
    if _is_real_by_parts(case, term):
        return True
    value = case.value(term)
    return all(is_real_generator(case, k) for p in (value.above, value.below) for k in used(p))


def _is_real_by_parts(case: Case, term: Term) -> bool:
    """Return whether a term is a function that is real where its parts are, and they are."""
    if term[0] in REAL_OF_REAL:
        return all(_is_real_by_parts(case, part) for part in term[1:])
    if term[0] == "^" and term[2][0] == "q" and term[2][2] == 1:
        return _is_real_by_parts(case, term[1])
    return term[0] in ("q", "pi") or bool(case.facts.get(term, frozenset()) & {"real", *OF_FACTS})


def is_real_generator(case: Case, k: int) -> bool:
    if k not in case.real_generators:
        case.real_generators[k] = _found_real(case, case.generators[k])
    return case.real_generators[k]


def _found_real(case: Case, term: Term) -> bool:
    match term[0]:
        case "v" | "call":
            return bool(case.facts.get(term, frozenset()) & {"real", *OF_FACTS})
        case "exp" | "power":
            return case.reads_real(term[1]) and (term[0] == "exp" or case.reads_real(term[2]))
        case "i" | "int" | "sum" | "product" | "lim" | "known" | "lambertw":
            return False
    return all(case.reads_real(part) for part in term[1:] if is_term(part))


def _of_number(x: Any) -> Signs:
    return frozenset({(x > 0) - (x < 0)})


def times(a: Signs, b: Signs) -> Signs:
    return frozenset(x * y for x in a for y in b)


def _product(all_signs: Sequence[Signs]) -> Signs:
    found: Signs = frozenset({1})
    for signs in all_signs:
        found = times(found, signs)
    return found


def _to_the(signs: Signs, n: int) -> Signs:
    return signs if n % 2 else frozenset(s * s for s in signs)


def _is_root_beyond(case: Case, root: Term, u: Term) -> bool:
    """Return whether a term is sqrt(u^2 + c), c > 0, u real: it is above |u|, as in asinh u = log(u + sqrt(u^2 + 1))."""
    if root[0] != "^" or root[2] != number(1, 2) or root[1][0] != "+" or len(root[1]) != 3:
        return False
    square = ("^", u, number(2))
    rest = [part for part in root[1][1:] if part != square]
    return len(rest) == 1 and rest[0][0] == "q" and rest[0][1] > 0 and case.reads_real(u)


def _plus(all_signs: Sequence[Signs]) -> Signs:
    for good in (1, -1):
        if all(signs <= {0, good} for signs in all_signs):
            strict = any(signs == {good} for signs in all_signs)
            return frozenset({good}) if strict else frozenset({0, good}) if any(good in s for s in all_signs) else frozenset({0})
    return ANY
