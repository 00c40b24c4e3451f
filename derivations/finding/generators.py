r"""Find the generators in which terms are quotients of polynomials, and what each exp, log, root and power is in them.

Level by level, from the inside: the arguments of what stands innermost are quotients in letters; their exponentials, split
into exponentials of monomials with a common divisor of the coefficients, are generators for the next level.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import gcd
from typing import Any

from flint import fmpq, fmpq_mpoly, fmpz

from derivations.rules.quotients import Facts, NotShown, Quotient
from derivations.rules.rational import Arithmetic
from derivations.rules.terms import ONE, Term, add, mul, number, parts, power, rebuilt

__all__ = ["Explained", "as_term", "explained", "written"]

LEAVES = ("v", "call", "pi", "i", "int", "sum", "product", "lim", "atan", "erf", "gamma", "expint", "lambertw", "known")
LEVELS = 40


class Explained:
    """Collects the generators and lines of a certificate."""

    def __init__(self, facts: Facts, signs: Mapping[Term, frozenset[int]]) -> None:
        self.facts, self.assumed = facts, signs
        self.generators: list[Term] = []
        self.lines: dict[Term, Any] = {}
        self.where: list[tuple[str, Term]] = []  # conditions that go with them
        self.basis: dict[tuple[str, str], tuple[Term, Fraction]] = {}

    def arithmetic(self) -> Arithmetic:
        return Arithmetic(self.facts, self.generators, self.lines, self.assumed)

    def case(self) -> dict[str, Any]:
        """Return the generators and lines as data of a certificate."""
        case = {"generators": self.generators, "lines": list(self.lines.items())}
        return {**case, "where": self.where} if self.where else case

    def generators_as_terms(self) -> list[Term]:
        return [written(term) for term in self.generators]

    def add_generator(self, term: Term) -> None:
        if term not in self.generators:
            self.generators.append(term)


def explained(
    terms: Iterable[Term],
    facts: Facts,
    signs: Mapping[Term, frozenset[int]] | None = None,
    lines: Mapping[Term, Any] | None = None,
) -> Explained:
    """Find generators and lines for terms, beside those known. What is not found is left out, and the check will fail."""
    found = Explained(facts, signs or {})
    found.lines.update(lines or {})
    if any(part[0] in ("sin", "cos") for term in terms for part in _all(term)):
        found.add_generator(("i",))
    todo = [part for part in dict.fromkeys(part for term in terms for part in _needs(term)) if part not in found.lines]
    for _ in range(LEVELS):
        arithmetic = found.arithmetic()
        ready = [part for part in todo if not any(inner in todo and inner != part for inner in _inside(part))]
        if not ready:
            break
        more: list[Term] = []
        for part in ready:
            try:
                more += _explain(found, arithmetic, part)
            except NotShown:  # something in it waits for its own turn
                more.append(part)
        _exponentials(found, [part for part in ready if part[0] == "exp"], arithmetic)
        todo = list(dict.fromkeys([*(part for part in todo if part not in ready), *more]))
        todo += [part for part in ready if part[0] == "exp" and part not in found.lines and part not in todo]
        todo = [part for part in todo if part not in found.lines and part not in found.generators]
    return found


def _all(term: Term) -> Iterable[Term]:
    yield term
    for part in parts(term):
        yield from _all(part)


def _inside(term: Term) -> Iterable[Term]:
    for part in parts(term):
        yield from _needs(part)


def _needs(term: Term) -> Iterable[Term]:
    """Yield the parts of a term that must be generators or have a line, innermost first."""
    if term[0] in ("int", "sum", "product", "lim"):
        yield term
        return
    for part in parts(term):
        yield from _needs(part)
    match term[0]:
        case "tanh" | "sinh" | "cosh":
            yield ("exp", term[1])
        case "sin" | "cos":
            yield ("exp", mul(("i",), term[1]))
        case "exp" | "log":
            yield term
        case "^" if not (term[2][0] == "q" and term[2][2] == 1):
            yield term
        case head if head in LEAVES:
            yield term


def _explain(found: Explained, arithmetic: Arithmetic, term: Term) -> list[Term]:
    """Give one term its line or make it a generator; return further terms that this needs."""
    match term[0]:
        case "exp":
            return []
        case "log":
            factors = _factors(found, _plain(arithmetic, arithmetic.value(term[1])))
            found.lines[term] = factors
            for f, _ in factors:
                if f[0] != "exp":
                    found.add_generator(("logabs", f[1] if f[0] == "root" else f))
            return []
        case "^":
            return _power(found, arithmetic, *term[1:])
    if term[0] == "gamma":
        return _gamma(found, arithmetic, term)
    if term[0] == "call" and (twin := _twin(found, arithmetic, term)) is not None:
        found.lines[term] = twin
    else:
        found.add_generator(term)
    return []


def _plain(arithmetic: Arithmetic, value: Quotient) -> Quotient:
    """Return a quotient with powers of roots replaced, as far as these are known."""
    try:
        return arithmetic.without_powers(value)
    except (NotShown, ZeroDivisionError):
        return value


def _twin(found: Explained, arithmetic: Arithmetic, term: Term) -> Term | None:
    """Find a generator that is the same function's value at an equal place."""
    for other in found.generators:
        if other[:3] == term[:3] and other != term and len(other) == len(term) and other[0] == "call":
            try:
                for a, b in zip(term[3:], other[3:], strict=True):
                    arithmetic.equal(a, b)
                return other
            except NotShown:
                pass
    return None


def _gamma(found: Explained, arithmetic: Arithmetic, term: Term) -> list[Term]:
    """Write Gamma(a + k) as Gamma(a) a (a + 1) ... (a + k - 1), where Gamma(a) is a generator already."""
    for other in (g for g in found.generators if g[0] == "gamma"):
        gap = arithmetic.value(add(term[1], mul(number(-1), other[1])))
        if gap.above.is_constant() and gap.below.is_constant():
            steps = _fraction((gap.above / gap.below).leading_coefficient() if not gap.above.is_zero() else fmpq(0))
            if steps.denominator == 1:
                found.lines[term] = (other, int(steps))
                return []
    found.add_generator(term)
    return []


def _power(found: Explained, arithmetic: Arithmetic, base: Term, exponent: Term) -> list[Term]:
    term = ("^", base, exponent)
    if exponent[0] == "q":
        factors = _under_root(found, arithmetic, _plain(arithmetic, arithmetic.value(base)))
        found.lines[term] = ("root", factors)
        for f, _ in factors:
            found.add_generator(("root", f, exponent[2]))
        return []
    arithmetic.value(base)
    if arithmetic.signs(base) <= {1}:
        found.lines[term] = ("exp",)
        return [("log", base), ("exp", mul(exponent, ("log", base)))]
    if arithmetic.is_zero(base):
        return []
    if (split := _positive_part(found, arithmetic, arithmetic.value(base))) is not None:
        u, factors = split
        found.lines[term] = ("split", u, factors)
        logs = add(*(mul(number(k), ("log", f)) for f, k in factors))
        return [("^", u, exponent), *(("log", f) for f, _ in factors), ("exp", mul(exponent, logs))]
    whole = 0
    multiples: list[tuple[Term, Any]] = []
    value = arithmetic.value(exponent)
    for monomial, coefficient in _monomials(found, value):
        if monomial == ONE:
            whole = int(coefficient)
        else:
            multiples.append((monomial, coefficient))
    if all(k.denominator == 1 and arithmetic.is_integer(m) for m, k in multiples):
        multiples = [(m, int(k)) for m, k in multiples]
    else:
        rest = as_term(found, arithmetic.value(add(exponent, number(-whole))))
        multiples = [(rest, 1)]
    same_base = as_term(found, arithmetic.value(base))
    found.lines[term] = ("integer", same_base, whole, multiples)
    for m, _ in multiples:
        found.add_generator(("power", same_base, m))
    return []


def _positive_part(found: Explained, arithmetic: Arithmetic, value: Quotient) -> tuple[Term, list[tuple[Term, int]]] | None:
    """Split a quotient into positive factors and the rest; None where either is missing."""
    factors = _factors(found, value)
    positive = [(f, k) for f, k in factors if arithmetic.signs(f) <= {1}]
    rest = [(f, k) for f, k in factors if (f, k) not in positive]
    if not positive or any(k < 0 for _, k in rest):
        return None
    product = mul(*(power(f, number(k)) for f, k in factors))
    sign = 1 if arithmetic.is_zero(add(as_term(found, value), mul(number(-1), product))) else -1
    return mul(number(sign), as_term(found, arithmetic.value(mul(*(power(f, number(k)) for f, k in rest))))), positive


def _exponentials(found: Explained, terms: list[Term], arithmetic: Arithmetic) -> None:
    """Find lines for exponentials together: their monomials get the largest common divisors of the coefficients."""
    split: dict[Term, tuple[list[tuple[tuple[str, str], Fraction]], list[tuple[Term, tuple[int, int]]]]] = {}
    for term in terms:
        try:
            value = arithmetic.value(term[1])
        except NotShown:
            continue
        pieces: list[tuple[tuple[str, str], Fraction]] = []
        factors: list[tuple[Term, tuple[int, int]]] = []
        for monomial, coefficient in _monomials(found, value):
            if monomial[0] == "log" and len(signs := arithmetic.signs(monomial[1])) == 1:
                positive = monomial[1] if signs == {1} else mul(number(-1), monomial[1])
                factors.append((positive, (coefficient.numerator, coefficient.denominator)))
                found.lines.setdefault(("log", positive), [(monomial[1], 1)])
                if coefficient.denominator > 1:
                    found.add_generator(("root", positive, coefficient.denominator))
                continue
            opaque = ("logabs", monomial[1]) if monomial[0] == "log" else monomial
            key = (str(opaque), "")
            _refine(found, arithmetic, key, opaque, coefficient)
            pieces.append((key, coefficient))
        split[term] = (pieces, factors)
    for term, (pieces, factors) in split.items():
        line = []
        for key, coefficient in pieces:
            monomial, unit = found.basis[key]
            line.append((mul(_rational(unit), monomial), int(coefficient / unit)))
        found.lines[term] = (line, factors)


def _refine(found: Explained, arithmetic: Arithmetic, key: tuple[str, str], monomial: Term, coefficient: Fraction) -> None:
    """Make the unit of a monomial divide the coefficient; lines in the old unit are rewritten in the new one."""
    if key not in found.basis:
        away = -1 if arithmetic.signs(mul(_rational(coefficient), monomial)) <= {-1} else 1
        sign = away if coefficient > 0 else -away
        found.basis[key] = (monomial, sign * abs(coefficient))
        found.add_generator(("exp", mul(_rational(found.basis[key][1]), monomial)))
        return
    _, unit = found.basis[key]
    common = Fraction(gcd(abs(unit.numerator) * coefficient.denominator, abs(coefficient.numerator) * unit.denominator),
                      unit.denominator * coefficient.denominator)  # fmt: skip
    if common == abs(unit):
        return
    new = common if unit > 0 else -common
    old_term, new_term = mul(_rational(unit), monomial), mul(_rational(new), monomial)
    times = int(unit / new)
    found.basis[key] = (monomial, new)
    found.generators[found.generators.index(("exp", old_term))] = ("exp", new_term)
    for term, line in found.lines.items():
        if term[0] == "exp":
            found.lines[term] = ([(new_term, k * times) if m == old_term else (m, k) for m, k in line[0]], line[1])


def _rational(x: Fraction) -> Term:
    return number(x.numerator, x.denominator)


def _monomials(found: Explained, value: Quotient) -> list[tuple[Term, Fraction]]:
    """Write a quotient as a sum of coefficients times monomials over the denominator; log |f| alone is ("log", f)."""
    result = []
    ring = value.above.context()
    for powers, coefficient in value.above.terms():
        part = Quotient(ring.from_dict({powers: 1}), value.below)
        scale = _fraction(coefficient) * _fraction(part.above.leading_coefficient()) / _fraction(part.below.leading_coefficient())
        above, below = part.above / part.above.leading_coefficient(), part.below / part.below.leading_coefficient()
        monomial = as_term(found, Quotient(above, below))
        result.append((("log", monomial[1]) if monomial[0] == "logabs" else monomial, scale))
    return result


def _fraction(x: Any) -> Fraction:
    return Fraction(int(x.p), int(x.q))


def _monomial(found: Explained, powers: Iterable[int]) -> Term:
    return mul(*(power(found.generators[k], number(int(e))) for k, e in enumerate(powers) if e))


def as_term(found: Explained, value: Quotient | fmpq_mpoly) -> Term:
    """Write out a polynomial or quotient as a term."""
    if isinstance(value, Quotient):
        above = as_term(found, value.above)
        return above if value.below == 1 else mul(above, power(as_term(found, value.below), number(-1)))
    return add(*(mul(number(int(c.p), int(c.q)), _monomial(found, powers)) for powers, c in value.terms()))


def _factors(found: Explained, value: Quotient) -> list[tuple[Term, int]]:
    """Factor a quotient into irreducible factors and primes with exponents, without the sign."""
    result: dict[Term, int] = {}
    for polynomial, way in ((value.above, 1), (value.below, -1)):
        constant, factors = polynomial.factor()
        for whole, turn in ((int(constant.p), way), (int(constant.q), -way)):
            for prime, k in fmpz(abs(whole)).factor():
                result[number(int(prime))] = result.get(number(int(prime)), 0) + turn * k
        for factor, k in factors:
            term = as_term(found, factor)
            result[term] = result.get(term, 0) + way * int(k)
    return [(f, k) for f, k in result.items() if k]


def _under_root(found: Explained, arithmetic: Arithmetic, value: Quotient) -> list[tuple[Term, int]]:
    """Split a radicand into factors that are not negative; those of unknown sign are one factor together."""
    sign, rest, kept = 1, [], []
    for f, k in _factors(found, value):
        signs = arithmetic.signs(f)
        if signs <= {0, 1}:
            kept.append((f, k))
        elif signs <= {-1, 0}:
            kept.append((mul(number(-1), f), k))
            sign *= (-1) ** k
        else:
            rest.append((f, k))
    product = mul(*(power(f, number(k)) for f, k in [*kept, *rest]))
    if not arithmetic.is_zero(add(as_term(found, value), mul(number(-1), product))):
        rest.append((number(-1), 1))
    if rest:
        whole = mul(*(power(f, number(k)) for f, k in rest))
        kept.append((as_term(found, arithmetic.value(whole)), 1))
    return kept


def written(term: Term) -> Term:
    """Write generators as functions that have derivatives: log |f| as log f, roots and powers as powers."""
    match term[0]:
        case "logabs":
            return ("log", written(term[1]))
        case "root":
            return ("^", written(term[1]), number(1, term[2]))
        case "power":
            return ("^", written(term[1]), written(term[2]))
    return rebuilt(term, written)
