r"""Quotients of polynomials over Q in the generators of a certificate, and the questions about a term that its rules ask.

A generator is a letter, a constant, the value of a function that nothing is known of, or one of

    ("exp", m)         exp of a monomial         ("logabs", f)      log |f|, f real
    ("root", u, n)     u^(1/n), u real, >= 0     ("power", b, m)    b^m, wherever that is defined

Two terms with the same quotient are equal wherever both are defined: a polynomial that divides a denominator there is a
factor of something divided by, and that is not 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cmp_to_key
from math import prod
from typing import Any

from flint import Ordering, arb, fmpq, fmpq_mpoly, fmpq_mpoly_ctx, fmpz_poly

from derivations.rules.terms import Term, add, neg

__all__ = ["LONGEST", "Case", "Facts", "NotShown", "Quotient", "Signs", "real_roots", "univariate", "used"]

Facts = Mapping[Term, frozenset[str]]
Signs = frozenset[int]
# Polynomials of more terms are not asked for their sign, and higher powers not multiplied out: it would take minutes.
LONGEST = 2000
GENERATORS = ("v", "call", "known", "pi", "i", "int", "sum", "product", "lim", "atan", "erf", "gamma", "expint", "lambertw",
              "croot", "exp", "logabs", "root", "power")  # fmt: skip


class NotShown(Exception):  # noqa: N818 - not an error: the certificate does not show what it should
    """Raised where a certificate does not show what it should."""


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


class Case(ABC):
    """One case of a certificate: what is given in it, and what its rules may ask about a term.

    Args: facts: of letters and values; generators; lines: what exp, log, root and power terms are in the generators; signs: of
          terms, assumed in one case of a proof by cases; tends: checks a limit, for integrals to infinity.
    """

    def __init__(
        self,
        facts: Facts,
        generators: Sequence[Term],
        lines: Mapping[Term, Any],
        signs: Mapping[Term, Signs] | None = None,
        tends: Callable[..., object] | None = None,
    ) -> None:
        for term in generators:
            if term[0] not in GENERATORS or (term[0] == "root" and not (type(term[2]) is int and term[2] > 0)):
                raise NotShown(f"{term} is no generator")
        self.facts, self.generators, self.lines = facts, list(generators), lines
        self.assumed, self.tends = dict(signs or {}), tends
        self.ring = fmpq_mpoly_ctx.get([f"g{k}" for k in range(len(self.generators))] or ["none"], Ordering.lex)
        self.polynomials = self.ring.gens()
        self.place = {term: k for k, term in enumerate(self.generators)}
        # What was found before: by term, by number of a generator, and of what is assumed.
        self.values: dict[Term, Quotient] = {}
        self.signs_read: dict[Term, Signs] = {}
        self.signs_of_generators: dict[int, Signs] = {}
        self.real_generators: dict[int, bool] = {}
        self.assumed_polynomials: list[tuple[fmpq_mpoly, Signs]] | None = None
        self._vanishing: list[fmpq_mpoly] | None = None

    @abstractmethod
    def value(self, term: Term) -> Quotient:
        """Return the quotient that a term is. Raises: NotShown where the certificate does not say."""

    @abstractmethod
    def signs(self, term: Term) -> Signs:
        """Return the signs that a term can have, a subset of {-1, 0, 1}: all of them where nothing shows."""

    @abstractmethod
    def is_real(self, term: Term) -> bool:
        """Return whether a term is seen to be real. Raises: NotShown where it has no value."""

    @abstractmethod
    def of_polynomial(self, p: fmpq_mpoly) -> Signs:
        """Return the signs that a polynomial in the generators can have."""

    def other(self, facts: Facts, generators: Sequence[Term], lines: Mapping[Term, Any], signs: Mapping[Term, Signs]) -> Case:
        """Make another case, for the inside of an integral."""
        return type(self)(facts, generators, lines, signs)

    def constant(self, p: int, r: int = 1) -> Quotient:
        return Quotient(self.ring.constant(fmpq(p, r)), self.ring.constant(1))

    def generator(self, term: Term) -> Quotient:
        if term not in self.place:
            raise NotShown(f"{term} is no generator")
        return Quotient(self.polynomials[self.place[term]], self.ring.constant(1))

    def reads_real(self, term: Term) -> bool:
        try:
            return self.is_real(term)
        except NotShown:
            return False

    def is_integer(self, term: Term) -> bool:
        if term[0] in ("+", "*"):
            return all(map(self.is_integer, term[1:]))
        return (term[0] == "q" and term[2] == 1) or "integer" in self.facts.get(term, ())

    def require(self, term: Term, allowed: set[int], otherwise: str) -> None:
        if not self.signs(term) <= allowed:
            raise NotShown(f"{otherwise}: {term}")

    def equal(self, a: Term, b: Term) -> None:
        """Raise NotShown unless a = b."""
        if a != b and not self.is_zero(add(a, neg(b))):
            raise NotShown(f"{a} = {b} does not follow")

    def is_zero(self, term: Term) -> bool:
        return bool(self._remainder(self.reduced(self.value(term).above)).is_zero())

    def _remainder(self, p: fmpq_mpoly) -> fmpq_mpoly:
        """Reduce a polynomial by what is 0 in this case."""
        if self._vanishing is None:
            self._vanishing = []  # while they are being read
            for term in (term for term, signs in self.assumed.items() if signs == {0}):
                zero = self._remainder(self.reduced(self.value(term).above))
                self._vanishing += [] if zero.is_zero() else [zero]
        for zero in () if p.is_zero() else self._vanishing:
            p = divmod(p, zero)[1]
        return p

    def reduced(self, p: fmpq_mpoly) -> fmpq_mpoly:
        """Reduce a polynomial by i^2 = -1, and s^n = u for roots s."""
        for k in used(p):
            term = self.generators[k]
            if term[0] == "i":
                p = self._replaced(p, k, 2, self.ring.constant(-1))
            elif term[0] == "root":
                under = self.value(term[1])
                if not under.below.is_constant():
                    raise NotShown(f"{term} is the root of a quotient")
                p = self._replaced(p, k, term[2], under.above / under.below)
        return p

    def without_powers(self, value: Quotient) -> Quotient:
        """Return a quotient with i^2 and powers of roots replaced, in lowest terms again; it is the same where it is defined."""
        return Quotient(self.reduced(value.above), self.reduced(value.below))

    def _replaced(self, p: fmpq_mpoly, k: int, n: int, by: fmpq_mpoly) -> fmpq_mpoly:
        if not p.is_constant() and p.degrees()[k] >= n:
            kept = self.ring.from_dict({})
            for powers, coefficient in p.terms():
                times, rest = divmod(int(powers[k]), n)
                left = tuple(rest if j == k else int(e) for j, e in enumerate(powers))
                kept += self.ring.from_dict({left: coefficient}) * by**times
            return kept
        return p


def used(p: fmpq_mpoly) -> list[int]:
    """List the numbers of the generators in a polynomial."""
    return [] if p.is_constant() else [k for k, degree in enumerate(p.degrees()) if degree]


def univariate(p: fmpq_mpoly, k: int) -> fmpz_poly:
    """Write a polynomial in one generator with integer coefficients, times a positive number."""
    coefficients = {int(powers[k]): coefficient for powers, coefficient in p.terms()}
    common = prod((int(c.q) for c in coefficients.values()), start=1)
    return fmpz_poly([int((coefficients.get(n, fmpq(0)) * common).p) for n in range(max(coefficients) + 1)])


def real_roots(p: fmpz_poly) -> list[arb]:
    """Isolate the real roots of a polynomial without square factors, from the least."""
    roots: Any = p.complex_roots()
    return sorted((root.real for root, _ in roots if root.imag == 0), key=cmp_to_key(_order))


def _order(a: arb, b: arb) -> int:
    return 1 if a > b else -1
