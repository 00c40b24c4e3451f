r"""Exact arithmetic: compute the quotient that a term is, by the lines of a certificate.

A certificate names the generators and, for every exp, log, root and power in its terms, the product or sum of generators that
it is; each such line is checked when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import factorial, prod
from typing import Any

from flint import fmpq_mpoly

from derivations.rules import signs as sign_rules
from derivations.rules.integrals import integral
from derivations.rules.quotients import LONGEST, Case, Facts, NotShown, Quotient, Signs
from derivations.rules.sums import summation
from derivations.rules.terms import BINDERS, ZERO, Term, add, is_term, mul, number

__all__ = ["Arithmetic", "arithmetic_of"]


class Arithmetic(Case):
    """Terms as quotients in the generators of a certificate, and their signs, under facts about letters; each found once."""

    def value(self, term: Term) -> Quotient:
        if term not in self.values:
            self.values[term] = _value(self, term)
        return self.values[term]

    def signs(self, term: Term) -> Signs:
        if term not in self.signs_read:
            self.signs_read[term] = sign_rules.ANY  # while it is being read, nothing is known of it
            self.signs_read[term] = sign_rules.of_term(self, term)
        return self.signs_read[term]

    def by_structure(self, term: Term) -> Signs:
        return sign_rules.by_structure(self, term)

    def is_real(self, term: Term) -> bool:
        return sign_rules.is_real(self, term)

    def of_polynomial(self, p: fmpq_mpoly) -> Signs:
        return sign_rules.of_polynomial(self, p)


def arithmetic_of(
    facts: Facts, case: Mapping[str, Any], signs: Mapping[Term, Signs] | None = None, tends: Callable[..., object] | None = None
) -> Arithmetic:
    """Make the arithmetic that one case of a certificate describes."""
    return Arithmetic(facts, case.get("generators", ()), dict(case.get("lines", ())), signs, tends)


def _value(case: Case, term: Term) -> Quotient:
    match term[0]:
        case "q":
            return case.constant(term[1], term[2])
        case "+":
            return _sum(case, [case.value(part) for part in term[1:]])
        case "*":
            if ZERO in term[1:]:  # wherever the other factors are defined, which `undefined` says
                return case.constant(0)
            return prod((case.value(part) for part in term[1:]), start=case.constant(1))
        case "^":
            return _power(case, *term[1:])
        case "tanh" | "sinh" | "cosh" | "sin" | "cos":
            return _by_exponentials(case, *term)
        case "exp":
            return _exp(case, term)
        case "log":
            return _log(case, term)
        case "piece":
            return _piece(case, term)
        case "gamma" if term[1][0] == "q" and term[1][2] == 1 and 0 < term[1][1] < LONGEST:
            return case.constant(factorial(term[1][1] - 1))
        case "gamma" if term in case.lines:
            return _gamma(case, term)
        case "int" if term in case.lines:
            return integral(case, term, case.lines[term])
        case "sum" if term in case.lines:
            return summation(case, term, case.lines[term])
    return _same(case, term) if term in case.lines else case.generator(term)


def _sum(case: Case, values: list[Quotient]) -> Quotient:
    # Over one denominator first: most sums have few of them.
    by_denominator: dict[str, Quotient] = {}
    for value in values:
        key = str(value.below)
        by_denominator[key] = by_denominator[key] + value if key in by_denominator else value
    return sum(by_denominator.values(), start=case.constant(0))


def _by_exponentials(case: Case, name: str, a: Term) -> Quotient:
    one, half = case.constant(1), case.constant(1, 2)
    match name:
        case "tanh":
            double = case.value(("exp", a)) ** 2
            return (double - one) * (double + one) ** -1
        case "sinh" | "cosh":
            e = case.value(("exp", a))
            return (e - e**-1 if name == "sinh" else e + e**-1) * half
    e, i = case.value(("exp", mul(("i",), a))), case.generator(("i",))
    return (e + e**-1) * half if name == "cos" else (e**-1 - e) * half * i


def _piece(case: Case, term: Term) -> Quotient:
    if not case.reads_real(term[1]):
        raise NotShown(f"{term[1]} has no sign: it may not be real")
    signs = case.signs(term[1])
    if len(signs) != 1:
        raise NotShown("the case of a piece is open")
    (sign,) = signs
    return case.value(term[3 + sign])


def _power(case: Case, base: Term, exponent: Term) -> Quotient:
    if exponent[0] == "q" and exponent[2] == 1:
        value = case.value(base)
        plain = all(len(p) == 1 and abs(p.leading_coefficient()) == 1 for p in (value.above, value.below))
        if not plain and abs(exponent[1]) > LONGEST:
            raise NotShown("the power is too high to be multiplied out")
        return value ** exponent[1]
    if case.value(base).above.is_zero():
        case.require(exponent, {1}, "0 is raised to a power that may not be positive")
        return case.constant(0)
    line = case.lines.get(("^", base, exponent))
    if line is None:
        raise NotShown(f"nothing is said of {base} ^ {exponent}")
    kind, *rest = line
    if kind not in POWERS:
        raise NotShown(f"there is no reading {kind} of a power")
    return POWERS[kind](case, base, exponent, *rest)


def _by_roots(case: Case, base: Term, exponent: Term, factors: Sequence[tuple[Term, int]]) -> Quotient:
    """base = product f_i^k_i, f_i >= 0; base^(p/n) = product (f_i^(1/n))^(k_i p)."""
    p, n = exponent[1], exponent[2]
    _is_product(case, case.value(base), factors)
    # The base is not negative where its root is defined, so one real factor needs no sign if the others are positive.
    unknown = [f for f, k in factors if not case.signs(f) <= {0, 1}]
    if len(unknown) > 1 or (unknown and (dict(factors)[unknown[0]] % 2 == 0 or not case.is_real(unknown[0]))):
        raise NotShown(f"factors under a root may be negative: {unknown}")
    for f, _ in factors if unknown else ():
        if f != unknown[0]:
            case.require(f, {1}, "a factor under a root may be 0")
    powers = (case.value(f) ** (k * p // n) if k * p % n == 0 else _root(case, f, n) ** (k * p) for f, k in factors)
    return prod(powers, start=case.constant(1))


def _by_logarithm(case: Case, base: Term, exponent: Term) -> Quotient:
    """base > 0; base^exponent = exp(exponent log base)."""
    case.require(base, {1}, "the base of a power may not be positive")
    return case.value(("exp", mul(exponent, ("log", base))))


def _by_whole_steps(
    case: Case, base: Term, exponent: Term, same_base: Term, whole: int, multiples: Sequence[tuple[Term, int]]
) -> Quotient:
    """exponent = whole + sum k_i m_i; base^exponent = base^whole product (base^m_i)^k_i.

    b^(m + n) = b^m b^n for every m where b^m is defined, if n is whole; (b^m)^k takes a whole m as well.
    """
    case.equal(base, same_base)
    case.equal(exponent, add(number(whole), *(mul(number(k), m) for m, k in multiples)))
    if [k for _, k in multiples] != [1] and not all(case.is_integer(m) for m, _ in multiples):
        raise NotShown(f"one of {multiples} may be no integer")
    powers = (case.generator(("power", same_base, m)) ** k for m, k in multiples)
    return prod(powers, start=case.value(base) ** whole)


def _by_positive_part(case: Case, base: Term, exponent: Term, u: Term, factors: Sequence[tuple[Term, int]]) -> Quotient:
    """base = u product f_i^k_i, f_i > 0; base^exponent = u^exponent exp(exponent sum k_i log f_i)."""
    _is_product(case, case.value(base), [(u, 1), *factors])
    for f, _ in factors:
        case.require(f, {1}, "a factor of the base may not be positive")
    logs = add(*(mul(number(k), ("log", f)) for f, k in factors))
    return case.value(("^", u, exponent)) * case.value(("exp", mul(exponent, logs)))


POWERS: Mapping[str, Callable[..., Quotient]] = {
    "root": _by_roots,
    "exp": _by_logarithm,
    "integer": _by_whole_steps,
    "split": _by_positive_part,
}


def _root(case: Case, f: Term, n: int) -> Quotient:
    return case.value(f) if n == 1 else case.generator(("root", f, n))


def _exp(case: Case, term: Term) -> Quotient:
    """exp(a) = product exp(m_i)^k_i product f_j^k_j, where a = sum k_i m_i + sum k_j log f_j and f_j > 0."""
    if term not in case.lines:
        return case.constant(1) if case.is_zero(term[1]) else case.generator(term)
    exponentials, factors = case.lines[term]
    total = [mul(number(k), m) for m, k in exponentials] + [mul(number(*k), ("log", f)) for f, k in factors]
    case.equal(term[1], add(*total))
    for f, _ in factors:
        case.require(f, {1}, "the argument of a logarithm may not be positive")
    product = prod((case.generator(("exp", m)) ** k for m, k in exponentials), start=case.constant(1))
    return prod((_root(case, f, n) ** p for f, (p, n) in factors), start=product)


def _log(case: Case, term: Term) -> Quotient:
    """log(a) = sum k_i log |f_i| where a = +- product f_i^k_i, all real."""
    if term not in case.lines:
        raise NotShown(f"nothing is said of {term}")
    factors = case.lines[term]
    for f, _ in factors:
        if not case.is_real(f):
            raise NotShown(f"{f} in a logarithm may not be real")
    _is_product(case, case.value(term[1]), factors, up_to_sign=True)
    return _sum(case, [case.constant(k) * _log_of(case, f) for f, k in factors])


def _log_of(case: Case, f: Term) -> Quotient:
    if f[0] == "exp":
        return case.value(f[1])
    if f[0] == "root":
        return case.generator(("logabs", f[1])) * case.constant(1, f[2])
    return case.generator(("logabs", f))


def _gamma(case: Case, term: Term) -> Quotient:
    """Gamma(a + k) = Gamma(a) a (a + 1) ... (a + k - 1)."""
    other, k = case.lines[term]
    case.equal(term[1], add(other[1], number(k)))
    low = other[1] if k >= 0 else term[1]
    # At a pole of Gamma(a) the product would be 0 by one of its factors.
    case.require(low, {1}, "the argument of gamma may not be positive")
    steps = prod((case.value(add(low, number(j))) for j in range(abs(k))), start=case.constant(1))
    return case.generator(other) * (steps if k >= 0 else steps**-1)


def _is_product(case: Case, value: Quotient, factors: Sequence[tuple[Term, int]], up_to_sign: bool = False) -> None:
    """Check that a quotient in lowest terms is the product of the factors, none of which cancels or is 0 where it is defined."""
    up, down = (prod((case.value(f) ** abs(k) for f, k in factors if k * way > 0), start=case.constant(1)) for way in (1, -1))
    if not (up.below.is_constant() and down.below.is_constant() and up.above.gcd(down.above).is_constant()):
        raise NotShown("the factors are no polynomials, or cancel")
    product = Quotient(up.above, down.above)
    if not _is_one(value, product, up_to_sign) and not _is_one(case.without_powers(value), product, up_to_sign):
        raise NotShown("a product of factors is another one")


def _is_one(value: Quotient, product: Quotient, up_to_sign: bool) -> bool:
    return bool((value - product).above.is_zero() or (up_to_sign and (value + product).above.is_zero()))


def _same(case: Case, term: Term) -> Quotient:
    """Return the generator that is the same function's value at an equal place."""
    other = case.lines[term]
    heads = [tuple(part for part in t if not is_term(part)) for t in (term, other)]
    arguments = [[part for part in t if is_term(part)] for t in (term, other)]
    if heads[0] != heads[1] or len(arguments[0]) != len(arguments[1]) or term[0] in BINDERS:
        raise NotShown(f"{term} and {other} are not one function's values")
    for a, b in zip(*arguments, strict=True):
        case.equal(a, b)
    return case.generator(other)
