r"""Exact arithmetic: terms as quotients of polynomials over Q in generators, and the signs that can be read off them.

A generator is a letter, a constant, the value of a function that nothing is known of, or one of

    ("exp", m)         exp of a monomial         ("logabs", f)      log |f|
    ("root", u, n)     u^(1/n), u >= 0           ("power", b, m)    b^m, m an integer, b not 0

A certificate names the generators and, for every exp, log, root and power in its terms, the product or sum of generators that
it is; each such line is checked when it is used. Two terms with the same quotient are equal wherever both are defined:
a polynomial that divides a denominator there is a factor of something divided by, and that is not 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import factorial, prod
from typing import Any

from flint import Ordering, arb, fmpq, fmpq_mpoly, fmpq_mpoly_ctx, fmpz_poly

from derivations.checker.terms import (
    BINDERS,
    Term,
    add,
    differentiate,
    free_letters,
    mul,
    neg,
    number,
    power,
    substitute,
    subterms,
)

__all__ = ["ALLOWED", "ANY", "Arithmetic", "Facts", "NotShown", "Quotient", "arithmetic_of", "real_roots", "undefined"]

Facts = Mapping[Term, frozenset[str]]
Signs = frozenset[int]
# Polynomials of more terms are not asked for their sign, or not letter by letter: it would take minutes.
LONGEST, LONGEST_BY_COEFFICIENTS = 2000, 40
ANY: Signs = frozenset({-1, 0, 1})
OF_FACTS = {
    "positive": frozenset({1}),
    "negative": frozenset({-1}),
    "nonnegative": frozenset({0, 1}),
    "nonpositive": frozenset({-1, 0}),
    "nonzero": frozenset({-1, 1}),
}


# A letter between two ends, whichever is the greater: positive if neither is negative, negative if neither is positive.
INFINITE = (("oo",), ("-oo",))
BETWEEN = (("positive", {0, 1}), ("negative", {-1, 0}))


class NotShown(Exception):  # noqa: N818 - not an error: the certificate does not show what it should
    """A line of a certificate that does not follow."""


class Quotient:
    """A quotient of polynomials without common factor."""

    def __init__(self, above: fmpq_mpoly, below: fmpq_mpoly) -> None:
        common = above.gcd(below) if not below.is_constant() else below
        self.above, self.below = above / common, below / common

    def __add__(self, other: Quotient) -> Quotient:
        if self.below == other.below:
            return Quotient(self.above + other.above, self.below)
        return Quotient(self.above * other.below + other.above * self.below, self.below * other.below)

    def __sub__(self, other: Quotient) -> Quotient:
        return self + Quotient(-other.above, other.below)

    def __mul__(self, other: Quotient) -> Quotient:
        return Quotient(self.above * other.above, self.below * other.below)

    def __pow__(self, n: int) -> Quotient:
        if n >= 0:
            return Quotient(self.above**n, self.below**n)
        if self.above.is_zero():
            raise NotShown("division by 0")
        return Quotient(self.below**-n, self.above**-n)


class Arithmetic:
    """Terms as quotients in the generators of a certificate, under facts about letters.

    Args: facts: of letters and values; generators; lines: what exp, log, root and power terms are in the generators; signs: of
          terms, assumed in one case of a proof by cases; tends: checks a limit, for integrals to infinity.
    """

    def __init__(
        self,
        facts: Facts,
        generators: Sequence[Term],
        lines: Mapping[Term, Any],
        signs: Mapping[Term, Signs] | None = None,
        tends: Callable[..., Any] | None = None,
    ) -> None:
        self.tends = tends
        self.facts, self.generators, self.lines, self.assumed = facts, list(generators), lines, dict(signs or {})
        self.ring = fmpq_mpoly_ctx.get([f"g{k}" for k in range(len(self.generators))] or ["none"], Ordering.lex)
        self.polynomials = self.ring.gens()
        self.place = {term: k for k, term in enumerate(self.generators)}
        self._values: dict[Term, Quotient] = {}
        self._signs: dict[int, Signs] = {}
        self._real: dict[int, bool] = {}
        self._vanishing: list[fmpq_mpoly] | None = None
        self._polynomials: list[tuple[fmpq_mpoly, Signs]] | None = None
        self._read: dict[Term, Signs] = {}

    # Values

    def constant(self, p: int, r: int = 1) -> Quotient:
        return Quotient(self.ring.constant(fmpq(p, r)), self.ring.constant(1))

    def generator(self, term: Term) -> Quotient:
        if term not in self.place:
            raise NotShown(f"{term} is no generator")
        return Quotient(self.polynomials[self.place[term]], self.ring.constant(1))

    def value(self, term: Term) -> Quotient:
        """The quotient that a term is. Raises: NotShown where the certificate does not say."""
        if term not in self._values:
            self._values[term] = self._value(term)
        return self._values[term]

    def _value(self, term: Term) -> Quotient:
        match term[0]:
            case "q":
                return self.constant(term[1], term[2])
            case "+":
                return self._sum([self.value(part) for part in term[1:]])
            case "*":
                return prod((self.value(part) for part in term[1:]), start=self.constant(1))
            case "^":
                return self._power(*term[1:])
            case "tanh":
                double = self.value(("exp", term[1])) ** 2
                return (double - self.constant(1)) * (double + self.constant(1)) ** -1
            case "sinh" | "cosh":
                e = self.value(("exp", term[1]))
                other = self.constant(-1) if term[0] == "sinh" else self.constant(1)
                return (e + other * e**-1) * self.constant(1, 2)
            case "sin" | "cos":
                e, i = self.value(("exp", mul(("i",), term[1]))), self.generator(("i",))
                if term[0] == "cos":
                    return (e + e**-1) * self.constant(1, 2)
                return (e - e**-1) * self.constant(-1, 2) * i
            case "exp":
                return self._exp(term)
            case "log":
                return self._log(term)
            case "piece":
                if not self._reads_real(term[1]):
                    raise NotShown(f"{term[1]} has no sign: it may not be real")
                (sign,) = self._one(self.signs(term[1]), "the case of a piece is open")
                return self.value(term[3 + sign])
            case "gamma" if term[1][0] == "q" and term[1][2] == 1 and 0 < term[1][1] < LONGEST:
                return self.constant(factorial(term[1][1] - 1))
            case "gamma" if term in self.lines:
                return self._gamma(term)
            case "int" if term in self.lines:
                return self.integral(term, self.lines[term])
        if term in self.lines:
            return self._same(term)
        return self.generator(term)

    def _sum(self, values: list[Quotient]) -> Quotient:
        # Over one denominator first: most sums have few of them.
        by_denominator: dict[str, Quotient] = {}
        for value in values:
            key = str(value.below)
            by_denominator[key] = by_denominator[key] + value if key in by_denominator else value
        return sum(by_denominator.values(), start=self.constant(0))

    def _power(self, base: Term, exponent: Term) -> Quotient:
        if exponent[0] == "q" and exponent[2] == 1:
            value = self.value(base)
            if max(len(value.above), len(value.below)) > 1 and abs(exponent[1]) > LONGEST:
                raise NotShown("the power is too high to be multiplied out")
            return value ** exponent[1]
        if self.value(base).above.is_zero():
            self.require(exponent, {1}, "0 is raised to a power that may not be positive")
            return self.constant(0)
        line = self.lines.get(("^", base, exponent))
        if line is None:
            raise NotShown(f"nothing is said of {base} ^ {exponent}")
        kind, *rest = line
        if kind == "root":  # base = product f_i^k_i, f_i >= 0; base^(p/n) = product (f_i^(1/n))^(k_i p)
            (factors,) = rest
            p, n = exponent[1], exponent[2]
            self._is_product(self.value(base), factors)
            # The base is not negative where its root is defined, so one factor needs no sign if the others are positive.
            unknown = [f for f, k in factors if not self.signs(f) <= {0, 1}]
            if len(unknown) > 1 or (unknown and (dict(factors)[unknown[0]] % 2 == 0 or not self.is_real(unknown[0]))):
                raise NotShown(f"factors under a root may be negative: {unknown}")
            for f, _ in factors if unknown else ():
                if f != unknown[0]:
                    self.require(f, {1}, "a factor under a root may be 0")
            return prod((self._root(f, n) ** (k * p) for f, k in factors), start=self.constant(1))
        if kind == "exp":  # base > 0; base^exponent = exp(exponent log base)
            self.require(base, {1}, "the base of a power may not be positive")
            return self.value(("exp", mul(exponent, ("log", base))))
        if kind == "integer":  # exponent = whole + sum k_i m_i, all m_i integers
            same_base, whole, multiples = rest
            self.equal(base, same_base)
            self.equal(exponent, add(number(whole), *(mul(number(k), m) for m, k in multiples)))
            # b^(m + n) = b^m b^n for every m where b^m is defined, if n is whole; (b^m)^k takes a whole m as well.
            if [k for _, k in multiples] != [1] and not all(self.is_integer(m) for m, _ in multiples):
                raise NotShown(f"one of {multiples} may be no integer")
            powers = (self.generator(("power", same_base, m)) ** k for m, k in multiples)
            return prod(powers, start=self.value(base) ** whole)
        if kind == "split":  # base = u product f_i^k_i >= 0, f_i > 0; base^exponent = u^exponent exp(exponent sum k_i log f_i)
            u, factors = rest
            self._is_product(self.value(base), [(u, 1), *factors])
            for f, _ in factors:
                self.require(f, {1}, "a factor of the base may not be positive")
            logs = add(*(mul(number(k), ("log", f)) for f, k in factors))
            return self.value(("^", u, exponent)) * self.value(("exp", mul(exponent, logs)))
        raise NotShown(f"there is no reading {kind} of a power")

    def _root(self, f: Term, n: int) -> Quotient:
        return self.value(f) if n == 1 else self.generator(("root", f, n))

    def _exp(self, term: Term) -> Quotient:
        """exp(a) = product exp(m_i)^k_i product f_j^k_j, where a = sum k_i m_i + sum k_j log f_j and f_j > 0."""
        if term not in self.lines:
            return self.constant(1) if self.is_zero(term[1]) else self.generator(term)
        exponentials, factors = self.lines[term]
        total = [mul(number(k), m) for m, k in exponentials] + [mul(number(*k), ("log", f)) for f, k in factors]
        self.equal(term[1], add(*total))
        for f, _ in factors:
            self.require(f, {1}, "the argument of a logarithm may not be positive")
        product = prod((self.generator(("exp", m)) ** k for m, k in exponentials), start=self.constant(1))
        return prod((self._root(f, n) ** p for f, (p, n) in factors), start=product)

    def _log(self, term: Term) -> Quotient:
        """log(a) = sum k_i log |f_i| where a = +- product f_i^k_i, all real."""
        if term not in self.lines:
            raise NotShown(f"nothing is said of {term}")
        factors = self.lines[term]
        for f, _ in factors:
            if not self.is_real(f):
                raise NotShown(f"{f} in a logarithm may not be real")
        self._is_product(self.value(term[1]), factors, up_to_sign=True)
        return self._sum([self.constant(k) * self._log_of(f) for f, k in factors])

    def _log_of(self, f: Term) -> Quotient:
        if f[0] == "exp":
            return self.value(f[1])
        if f[0] == "root":
            return self.generator(("logabs", f[1])) * self.constant(1, f[2])
        return self.generator(("logabs", f))

    def _gamma(self, term: Term) -> Quotient:
        """Gamma(a + k) = Gamma(a) a (a + 1) ... (a + k - 1)."""
        other, k = self.lines[term]
        self.equal(term[1], add(other[1], number(k)))
        low = other[1] if k >= 0 else term[1]
        if self._zeros():  # at a pole of Gamma(a) the product would be 0 by one of its factors
            self.require(low, {1}, "the argument of gamma may not be positive")
        steps = prod((self.value(add(low, number(j))) for j in range(abs(k))), start=self.constant(1))
        return self.generator(other) * (steps if k >= 0 else steps**-1)

    def integral(self, term: Term, line: Any) -> Quotient:
        """F(high) - F(low), where F' is what is integrated, between the ends; F has no corners, and is defined at both."""
        x, body, low, high = term[1:]
        if low == high:
            return self.constant(0)
        kind, antiderivative, generators, lines, *limits = line
        if any(part[0] in ("piece", "call") for part in subterms(antiderivative)):
            raise NotShown(f"{antiderivative} may have corners")
        letter = ("v", x)
        if low == INFINITE[0] or high == INFINITE[1]:
            raise NotShown("the ends of an integral are reversed")
        ends = [{1} if e == INFINITE[0] else {-1} if e == INFINITE[1] else self.signs(e) for e in (low, high)]
        known = {fact for fact, allowed in BETWEEN if all(signs <= allowed for signs in ends)}
        within = {
            gap: frozenset({1})
            for gap, end in ((add(letter, neg(low)), low), (add(high, neg(letter)), high))
            if end not in INFINITE and (set(INFINITE) & {low, high} or self.signs(add(high, neg(low))) <= {0, 1})
        }
        between = Arithmetic(
            {**self.facts, letter: frozenset({"real", *known})}, generators, dict(lines), {**self.assumed, **within}
        )
        if kind in ("gamma", "gauss"):
            return self._known_integral(term, between, kind, antiderivative, limits[0])
        between.equal(differentiate(antiderivative, x), body)
        for part in (body, antiderivative):
            for condition in undefined(between, part):
                raise NotShown(f"what is integrated may not be defined: {condition}")
        return self._end(antiderivative, letter, high, limits) - self._end(antiderivative, letter, low, limits)

    def _known_integral(self, term: Term, between: Arithmetic, kind: str, a: Term, c: Term) -> Quotient:
        """c x^(a - 1) e^-x over x > 0 is c Gamma(a); c e^(-a x^2) over half the line is c (pi/a)^(1/2)/2, over all twice that."""
        x, body, low, high = term[1:]
        letter = ("v", x)
        if x in free_letters(a) | free_letters(c):
            raise NotShown("a constant of an integral holds its letter")
        self.require(a, {1}, "a constant of an integral may not be positive")
        if kind == "gamma" and (low, high) == (number(0), ("oo",)):
            between.equal(body, mul(c, power(letter, add(a, number(-1))), ("exp", neg(letter))))
            return self.value(mul(c, ("gamma", a)))
        if kind == "gauss" and (low, high) in ((number(0), ("oo",)), (("-oo",), number(0)), (("-oo",), ("oo",))):
            between.equal(body, mul(c, ("exp", mul(number(-1), a, power(letter, number(2))))))
            whole = self.value(mul(c, ("^", ("pi",), number(1, 2)), ("^", a, number(-1, 2))))
            return whole * self.constant(1, 1 if low == ("-oo",) and high == ("oo",) else 2)
        raise NotShown("another integral than those known")

    def _end(self, antiderivative: Term, letter: Term, end: Term, limits: Sequence[Any]) -> Quotient:
        """The antiderivative at an end, or its limit at infinity."""
        if end in INFINITE:
            value, proof = dict(limits[0])[end]
            if value in INFINITE:
                raise NotShown("an integral is infinite")
            if self.tends is None or self.tends(antiderivative, letter, end, "+", value, self.facts, proof):
                raise NotShown("a limit at infinity is not shown here")
            return self.value(value)
        there = substitute(antiderivative, {letter: end})
        for condition in undefined(self, there):
            raise NotShown(f"an antiderivative may not be defined at an end: {condition}")
        return self.value(there)

    def _is_product(self, value: Quotient, factors: Sequence[tuple[Term, int]], up_to_sign: bool = False) -> None:
        """A quotient in lowest terms is the product of the factors, none of which cancels: no factor is 0 where it is defined."""
        up, down = (prod((self.value(f) ** abs(k) for f, k in factors if k * way > 0), start=self.constant(1)) for way in (1, -1))
        if not (up.below.is_constant() and down.below.is_constant() and up.above.gcd(down.above).is_constant()):
            raise NotShown("the factors are no polynomials, or cancel")
        product = Quotient(up.above, down.above)
        if not (value - product).above.is_zero() and not (up_to_sign and (value + product).above.is_zero()):
            raise NotShown("a product of factors is another one")

    def _same(self, term: Term) -> Quotient:
        """Two values of one function at places that are equal."""
        other = self.lines[term]
        heads = [tuple(part for part in t if not _is_term(part)) for t in (term, other)]
        arguments = [[part for part in t if _is_term(part)] for t in (term, other)]
        if heads[0] != heads[1] or len(arguments[0]) != len(arguments[1]) or term[0] in ("int", "sum", "product", "lim"):
            raise NotShown(f"{term} and {other} are not one function's values")
        for a, b in zip(*arguments, strict=True):
            self.equal(a, b)
        return self.generator(other)

    # Equality

    def equal(self, a: Term, b: Term) -> None:
        """Raises: NotShown unless a = b."""
        if a != b and not self.is_zero(add(a, neg(b))):
            raise NotShown(f"{a} = {b} does not follow")

    def is_zero(self, term: Term) -> bool:
        above = self.reduced(self.value(term).above)
        for zero in () if above.is_zero() else self._zeros():
            above = divmod(above, zero)[1]
        return bool(above.is_zero())

    def _zeros(self) -> list[fmpq_mpoly]:
        """What is 0 in this case: a multiple of it is 0 too."""
        if self._vanishing is None:
            self._vanishing = []  # while they are being read
            terms = [term for term, signs in self.assumed.items() if signs == {0}]
            self._vanishing = [p for p in (self.reduced(self.value(term).above) for term in terms) if not p.is_zero()]
        return self._vanishing

    def reduced(self, p: fmpq_mpoly) -> fmpq_mpoly:
        """The polynomial with i^2 = -1 and s^n = u for roots s, until nothing changes."""
        for k in _used(p):
            term = self.generators[k]
            if term[0] == "i":
                p = self._replaced(p, k, 2, self.ring.constant(-1))
            elif term[0] == "root":
                under = self.value(term[1])
                if not under.below.is_constant():
                    raise NotShown(f"{term} is the root of a quotient")
                p = self._replaced(p, k, term[2], under.above / under.below)
        return p

    def _replaced(self, p: fmpq_mpoly, k: int, n: int, by: fmpq_mpoly) -> fmpq_mpoly:
        if not p.is_constant() and p.degrees()[k] >= n:
            kept = self.ring.from_dict({})
            for powers, coefficient in p.terms():
                times, rest = divmod(int(powers[k]), n)
                left = tuple(rest if j == k else int(e) for j, e in enumerate(powers))
                kept += self.ring.from_dict({left: coefficient}) * by**times
            return kept
        return p

    # Signs

    def require(self, term: Term, allowed: set[int], otherwise: str) -> None:
        if not self.signs(term) <= allowed:
            raise NotShown(f"{otherwise}: {term}")

    def _one(self, signs: Signs, otherwise: str) -> Signs:
        if len(signs) != 1:
            raise NotShown(otherwise)
        return signs

    def is_real(self, term: Term) -> bool:
        value = self.value(term)
        return all(self._is_real_generator(k) for p in (value.above, value.below) for k in _used(p))

    def is_integer(self, term: Term) -> bool:
        if term[0] in ("+", "*"):
            return all(map(self.is_integer, term[1:]))
        return (term[0] == "q" and term[2] == 1) or "integer" in self.facts.get(term, ())

    def signs(self, term: Term) -> Signs:
        """The signs that a term can have: a subset of {-1, 0, 1}, all of them where nothing shows."""
        if term not in self._read:
            self._read[term] = ANY  # while it is being read, nothing is known of it
            self._read[term] = self._signs_of(term)
        return self._read[term]

    def _signs_of(self, term: Term) -> Signs:
        found = self.assumed.get(term, ANY) & self.by_structure(term)
        opposite = self.assumed.get(neg(term))
        if opposite is not None:
            found &= frozenset(-s for s in opposite)
        if len(found) > 1:
            try:
                value = self.value(term)
            except NotShown:
                return found
            found &= _times(self.of_polynomial(value.above), self.of_polynomial(value.below) - {0})
        return found

    def by_structure(self, term: Term) -> Signs:
        """What a sum, product or power shows by the signs of its parts, and the facts of a letter."""
        match term[0]:
            case "q":
                return frozenset({(term[1] > 0) - (term[1] < 0)})
            case "v" | "call":
                return frozenset.intersection(ANY, *(OF_FACTS[fact] for fact in self.facts.get(term, ()) if fact in OF_FACTS))
            case "+":
                return _plus([self.signs(part) for part in term[1:]])
            case "*":
                return _product([self.signs(part) for part in term[1:]])
            case "exp":
                return frozenset({1}) if self._reads_real(term[1]) else ANY
            case "pi":
                return frozenset({1})
            case "cosh":
                return frozenset({1}) if self._reads_real(term[1]) else ANY
            case "tanh" | "sinh" | "atan" | "erf":
                return self.signs(term[1])
            case "log":
                return self.signs(add(term[1], number(-1)))
            case "gamma" | "expint":
                return frozenset({1}) if self.signs(term[-1]) <= {1} and self._reads_real(term[1]) else ANY
            case "^":
                return self._signs_of_power(*term[1:])
            case "piece":
                if not self._reads_real(term[1]):
                    return ANY
                branches = [self.signs(term[3 + sign]) for sign in self.signs(term[1])]
                return frozenset().union(*branches)
        return ANY

    def _signs_of_power(self, base: Term, exponent: Term) -> Signs:
        signs = self.signs(base)
        if exponent[0] != "q":
            if not (signs <= {0, 1} and self._reads_real(exponent)):
                return ANY - {0} if 0 not in signs else ANY
            return signs if 0 not in signs or self.signs(exponent) <= {1} else frozenset({0, 1})  # 0^0 = 1
        if not self._reads_real(base):
            return ANY
        if exponent[2] != 1:  # defined where the base is 0 or above
            return signs & {0, 1}
        signs = signs if exponent[1] > 0 else signs - {0}
        return signs if exponent[1] % 2 else frozenset(s * s for s in signs)

    def _reads_real(self, term: Term) -> bool:
        try:
            return self.is_real(term)
        except NotShown:
            return False

    def of_polynomial(self, p: fmpq_mpoly) -> Signs:
        """By its factors, each by its monomials, its real roots, or its monomials with 1 + w in place of what exceeds 1."""
        if p.is_zero():
            return frozenset({0})
        if len(p) > LONGEST or any(not self._is_real_generator(k) for k in _used(p)):
            return ANY
        whole = self._of_factor(p)
        if whole != ANY:
            return whole
        constant, factors = p.factor()
        found = [_of_number(constant)]
        for factor, k in factors:
            signs = self._of_factor(factor)
            found.append(signs if k % 2 else frozenset(s * s for s in signs))
        return _product(found)

    def _of_factor(self, p: fmpq_mpoly) -> Signs:
        for known, signs in self._assumed_polynomials():
            if p in (known, -known):
                return signs if p == known else frozenset(-s for s in signs)
        found = self._of_monomials(p, {})
        if found == ANY:
            found = self._of_coefficients(p)
        if found == ANY and len(_used(p)) == 1:
            found = self._of_one_letter(p)
        above_one = [k for k in _used(p) if self._exceeds_one(k)] if found == ANY else []
        if above_one:
            shifted = [g + 1 if k in above_one else g for k, g in enumerate(self.polynomials)]
            found = self._of_monomials(p.compose(*shifted, ctx=self.ring), dict.fromkeys(above_one, frozenset({1})))
        return found

    def _assumed_polynomials(self) -> list[tuple[fmpq_mpoly, Signs]]:
        """What is assumed of the signs of polynomials in this case, up to a positive factor."""
        if self._polynomials is None:
            self._polynomials = []  # while they are being read
            for term, signs in self.assumed.items():
                try:
                    value = self.value(term)
                except NotShown:
                    continue
                if value.below.is_constant() and not value.above.is_constant():
                    constant, factors = (value.above / value.below).factor()
                    if len(factors) == 1 and factors[0][1] == 1:
                        self._polynomials.append((factors[0][0], _times(_of_number(constant), signs)))
        return self._polynomials

    def _of_monomials(self, p: fmpq_mpoly, instead: Mapping[int, Signs]) -> Signs:
        monomials = []
        for powers, coefficient in p.terms():
            of_powers = [_to_the(instead.get(k, self._of_generator(k)), int(e)) for k, e in enumerate(powers) if e]
            monomials.append(_product([_of_number(coefficient), *of_powers]))
        return _plus(monomials)

    def _of_coefficients(self, p: fmpq_mpoly) -> Signs:
        """As a polynomial in one letter that is not negative, by the signs of its coefficients."""
        for k in _used(p) if 1 < len(p) <= LONGEST_BY_COEFFICIENTS and len(_used(p)) > 1 else ():
            if not self._of_generator(k) <= {0, 1}:
                continue
            by_power: dict[int, dict[tuple[int, ...], Any]] = {}
            for powers, coefficient in p.terms():
                rest = tuple(0 if j == k else int(e) for j, e in enumerate(powers))
                by_power.setdefault(int(powers[k]), {})[rest] = coefficient
            signs = [
                _times(_to_the(self._of_generator(k), n), self.of_polynomial(self.ring.from_dict(part))) if n
                else self.of_polynomial(self.ring.from_dict(part))
                for n, part in by_power.items()
            ]  # fmt: skip
            if (found := _plus(signs)) != ANY:
                return found
        return ANY

    def _of_one_letter(self, p: fmpq_mpoly) -> Signs:
        """Without a real root in its letter's range (0 or above, or all numbers) a polynomial keeps its sign."""
        (k,) = _used(p)
        range_ = self._of_generator(k)
        roots = real_roots(_univariate(p, k))
        if range_ <= {0, 1}:
            at, roots = 1, [root for root in roots if not root < 0]
        elif range_ <= {-1, 0}:
            at, roots = -1, [root for root in roots if not root > 0]
        else:
            at = 0
        if roots:
            return ANY
        point = [fmpq(at) if j == k else fmpq(0) for j in range(len(self.generators))]
        return _of_number(p(*point))

    def _of_generator(self, k: int) -> Signs:
        if k not in self._signs:
            self._signs[k] = ANY
            term = self.generators[k]
            match term[0]:
                case "exp":
                    found = frozenset({1}) if self._is_real_generator(k) else ANY
                case "root":
                    found = self.signs(term[1]) & {0, 1}
                case "power":
                    found = self._signs_of_power(*term[1:])
                case "logabs":
                    found = self.signs(add(term[1], number(-1))) if self.signs(term[1]) <= {1} else ANY
                case _:
                    found = self.by_structure(term) & self.assumed.get(term, ANY)
            self._signs[k] = found
        return self._signs[k]

    def _exceeds_one(self, k: int) -> bool:
        term = self.generators[k]
        if term[0] == "exp":
            return self.signs(term[1]) <= {1}
        return term[0] in ("v", "root") and self.signs(add(term, number(-1)) if term[0] == "v" else add(term[1], number(-1))) <= {
            1
        }

    def _is_real_generator(self, k: int) -> bool:
        if k not in self._real:
            self._real[k] = self._found_real(self.generators[k])
        return self._real[k]

    def _found_real(self, term: Term) -> bool:
        match term[0]:
            case "v" | "call":
                return bool(self.facts.get(term, frozenset()) & {"real", *OF_FACTS})
            case "exp" | "power":
                return self._reads_real(term[1]) and (term[0] == "exp" or self._reads_real(term[2]))
            case "i" | "int" | "sum" | "product" | "lim" | "known" | "lambertw":
                return False
        return all(self._reads_real(part) for part in term[1:] if _is_term(part))


def arithmetic_of(
    facts: Facts, case: Mapping[str, Any], signs: Mapping[Term, Signs] | None = None, tends: Callable[..., Any] | None = None
) -> Arithmetic:
    """The arithmetic that one case of a certificate describes."""
    return Arithmetic(facts, case.get("generators", ()), dict(case.get("lines", ())), signs, tends)


def _is_term(part: Any) -> bool:
    return isinstance(part, tuple) and bool(part) and isinstance(part[0], str)


def _used(p: fmpq_mpoly) -> list[int]:
    return [] if p.is_constant() else [k for k, degree in enumerate(p.degrees()) if degree]


def real_roots(p: fmpz_poly) -> list[arb]:
    """The real roots of a polynomial without square factors, each in a ball of its own, from the least."""
    roots: Any = p.complex_roots()
    return sorted((root.real for root, _ in roots if root.imag == 0), key=float)


def _univariate(p: fmpq_mpoly, k: int) -> fmpz_poly:
    coefficients = {int(powers[k]): coefficient for powers, coefficient in p.terms()}
    common = prod((int(c.q) for c in coefficients.values()), start=1)
    return fmpz_poly([int((coefficients.get(n, fmpq(0)) * common).p) for n in range(max(coefficients) + 1)])


def _of_number(x: Any) -> Signs:
    return frozenset({(x > 0) - (x < 0)})


def _times(a: Signs, b: Signs) -> Signs:
    return frozenset(x * y for x in a for y in b)


def _product(all_signs: Sequence[Signs]) -> Signs:
    found: Signs = frozenset({1})
    for signs in all_signs:
        found = _times(found, signs)
    return found


def _to_the(signs: Signs, n: int) -> Signs:
    return signs if n % 2 else frozenset(s * s for s in signs)


def _plus(all_signs: Sequence[Signs]) -> Signs:
    for good in (1, -1):
        if all(signs <= {0, good} for signs in all_signs):
            strict = any(signs == {good} for signs in all_signs)
            return frozenset({good}) if strict else frozenset({0, good}) if any(good in s for s in all_signs) else frozenset({0})
    return ANY


def undefined(arithmetic: Arithmetic, term: Term) -> Iterator[tuple[str, Term]]:
    """What must be true for a term to be defined and is not seen to be: pairs of a relation to 0 and a term."""
    needed: tuple[str, Term] | None
    match term[0]:
        case "piece":
            yield from undefined(arithmetic, term[1])
            for sign in arithmetic.signs(term[1]):
                yield from undefined(arithmetic, term[3 + sign])
            return
        case "log":
            needed = (">", term[1])
        case "^" if term[2][0] == "q" and term[2][2] == 1:
            needed = ("!=", term[1]) if term[2][1] < 0 else None
        case "^" if term[2][0] == "q" and term[2][2] != 1:
            needed = (">=" if term[2][1] > 0 else ">", term[1])
        case "^":
            needed = _of_symbolic_power(arithmetic, term[1], term[2])
        case "gamma" | "expint":
            needed = (">", term[-1])
        case "lambertw":
            needed = (">=", add(term[2], ("exp", number(-1)))) if term[1] == number(0) else ("!=", number(0))
        case _:
            needed = None
    if needed is not None and not arithmetic.signs(needed[1]) <= ALLOWED[needed[0]]:
        yield needed
    for part in term[1:]:
        if _is_term(part):
            # What is bound has no value to make a condition of: an integral that is infinite is not defined, and that is all.
            yield from (c for c in undefined(arithmetic, part) if term[0] not in BINDERS or term[1] not in free_letters(c[1]))


def _of_symbolic_power(arithmetic: Arithmetic, base: Term, exponent: Term) -> tuple[str, Term] | None:
    rises = arithmetic.signs(exponent) <= {1}
    if arithmetic.is_integer(exponent):
        return None if rises else ("!=", base)
    return (">=" if rises else ">", base)


ALLOWED: Mapping[str, Signs] = {">": frozenset({1}), ">=": frozenset({0, 1}), "!=": frozenset({-1, 1})}
