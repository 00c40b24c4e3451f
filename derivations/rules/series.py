r"""Power series in one letter y > 0 at 0, with exact coefficients, and the limits that follow from them.

A term is expanded by the series of exp, log and powers; its coefficients are quotients in generators that hold no y. One of
these may be L = -log y, which grows more slowly than every power of 1/y, so that

    log(y^s (a + ...)) = -s L + log(a + ...)         exp(-k L + b + ...) = y^k exp(b + ...)

and the leading power of y decides, then its coefficient as L -> oo. A function of which nothing is known is smooth, as where its
derivatives are taken:

    F(a_0 + r) = F(a_0) + F'(a_0) r + F''(a_0) r^2/2 + ...       r = a_1 y + ...
"""

from __future__ import annotations

from math import factorial

from flint import fmpq

from derivations.rules.definedness import undefined
from derivations.rules.quotients import LONGEST, NotShown, Quotient
from derivations.rules.rational import Arithmetic
from derivations.rules.terms import ONE, Term, add, divide, mul, neg, number, power, subterms

__all__ = ["LOG", "Expansion", "Series", "Unnamed", "signs_of"]

# L, the letter for -log y.
LOG: Term = ("v", "-log")


class Unnamed(NotShown):
    """Raised where the certificate lacks the exp, log, power, function or sign of a leading coefficient.

    Args: head: exp, log, ^, call, or a relation to 0; start: the coefficient; whole: what is wanting, x for the coefficient.
    """

    def __init__(self, head: str, start: Quotient, whole: Term = ()) -> None:
        super().__init__(f"{head} of a leading coefficient is not in the certificate")
        self.head, self.start, self.whole = head, start, whole


class Series:
    """coefficients[k] x^(start + k) + O(x^(start + len)); exact zeros are kept."""

    def __init__(self, start: int, coefficients: list[Quotient]) -> None:
        self.start, self.coefficients = start, coefficients

    @property
    def end(self) -> int:
        return self.start + len(self.coefficients)

    def at(self, power: int) -> Quotient | None:
        """Return the coefficient of a power below the end; None for those below the start, which are 0."""
        return self.coefficients[power - self.start] if power >= self.start else None


class Expansion:
    """Expands terms as series in a letter, under an arithmetic in which the letter stands nowhere but in x itself.

    Args: arithmetic: has generators for all that holds no x, and L among them where logarithms are met; x: the letter y above;
          order: terms beyond x^order are dropped;
          analytic: on both sides of 0, so that |x| is no root of x^2. E1(x) is a coefficient too: it grows as L does.
    """

    def __init__(self, arithmetic: Arithmetic, x: Term, order: int, analytic: bool = False) -> None:
        self.arithmetic, self.x, self.order, self.analytic = arithmetic, x, order, analytic
        self._known: dict[Term, Series] = {}
        self.conditions: dict[tuple[str, Term], None] = {}  # under which the coefficients are defined

    def _constant(self, value: Quotient) -> Series:
        zero = self.arithmetic.constant(0)
        return Series(0, [value, *[zero] * self.order])

    def of(self, term: Term) -> Series:
        r"""Expand a term at y = 0+.

        Raises:  NotShown where there is none, or where it may not be defined.
        """
        if term not in self._known:
            self._known[term] = self._of(term)
        return self._known[term]

    def _of(self, term: Term) -> Series:
        if term == ("log", self.x) and LOG in self.arithmetic.place:
            return self._constant(self.arithmetic.value(neg(LOG)))
        if term == LOG or term == ("expint", number(1), self.x):
            return self._constant(self.arithmetic.value(term))
        if not {self.x, LOG} & {*subterms(term)}:
            self.conditions.update(dict.fromkeys(undefined(self.arithmetic, term)))
            return self._constant(self.arithmetic.value(term))
        if term == self.x:
            zero = self.arithmetic.constant(0)
            return Series(1, [self.arithmetic.constant(1), *[zero] * self.order])
        match term[0]:
            case "+":
                series = self.of(term[1])
                for part in term[2:]:
                    series = self._sum(series, self.of(part))
                return series
            case "*":
                series = self.of(term[1])
                for part in term[2:]:
                    series = self._product(series, self.of(part))
                return series
            case "^":
                return self._power(*term[1:])
            case "exp":
                return self._exp(self.of(term[1]), term[1])
            case "log":
                return self._log(term[1])
            case "tanh" | "sinh" | "cosh" | "sin" | "cos":
                return self.of(_by_exponentials(*term))
            case "call":
                return self._call(term)
        raise NotShown(f"{term} has no series here")

    def _sum(self, a: Series, b: Series) -> Series:
        start, end = min(a.start, b.start), min(a.end, b.end)
        zero = self.arithmetic.constant(0)
        return Series(start, [(a.at(k) or zero) + (b.at(k) or zero) for k in range(start, end)])

    def _product(self, a: Series, b: Series) -> Series:
        a, b = self.trimmed(a), self.trimmed(b)
        n = min(len(a.coefficients), len(b.coefficients))
        zero = self.arithmetic.constant(0)
        coefficients = [sum((a.coefficients[j] * b.coefficients[k - j] for j in range(k + 1)), start=zero) for k in range(n)]
        return Series(a.start + b.start, coefficients)

    def trimmed(self, a: Series) -> Series:
        """Drop leading coefficients that are 0."""
        k = next((k for k, c in enumerate(a.coefficients) if not self._is_zero(c)), len(a.coefficients))
        return Series(a.start + k, a.coefficients[k:]) if k < len(a.coefficients) else a

    def _is_zero(self, c: Quotient) -> bool:
        return bool(self.arithmetic.reduced(c.above).is_zero())

    def _inverse(self, a: Series) -> Series:
        a = self.trimmed(a)
        self._must_not_vanish(a)
        first = a.coefficients[0] ** -1
        coefficients = [first]
        for k in range(1, len(a.coefficients)):
            total = sum((a.coefficients[j] * coefficients[k - j] for j in range(1, k + 1)), start=self.arithmetic.constant(0))
            coefficients.append(total * first * self.arithmetic.constant(-1))
        return Series(-a.start, coefficients)

    def _must_not_vanish(self, a: Series) -> None:
        """A leading coefficient with letters in it could be 0 for some of them, and then another term would lead."""
        if 0 in signs_of(self.arithmetic, a.coefficients[0]):
            raise Unnamed("!=", a.coefficients[0])

    def _power(self, base: Term, exponent: Term) -> Series:
        if exponent[0] == "q" and exponent[2] == 1:
            a, n = self.of(base), exponent[1]
            if abs(n) > LONGEST:
                raise NotShown("the power is too high to be multiplied out")
            product = self._constant(self.arithmetic.constant(1))
            for _ in range(abs(n)):
                product = self._product(product, a)
            return self._inverse(product) if n < 0 else product
        if exponent[0] == "q":
            return self._root(self.trimmed(self.of(base)), exponent)
        return self._exp(self._product(self.of(exponent), self._log(base)), mul(exponent, ("log", base)))

    def _root(self, a: Series, exponent: Term) -> Series:
        """(a_0 y^s (1 + r))^q = a_0^q y^(s q) (1 + r)^q, a_0 > 0."""
        q = fmpq(exponent[1], exponent[2])
        if (q * a.start).q != 1 or (self.analytic and a.start != 0 and (a.start % 2 or (q * a.start).p % 2 != 0)):
            raise NotShown("a root has no series")
        if not signs_of(self.arithmetic, a.coefficients[0]) <= {1}:
            raise Unnamed(">", a.coefficients[0])
        first, zero = a.coefficients[0] ** -1, self.arithmetic.constant(0)
        ratio = [c * first for c in a.coefficients]
        coefficients = [self._named("^", a.coefficients[0], (exponent,))]
        for k in range(1, len(ratio)):  # k f_k = sum (q j - (k - j)) r_j f_(k-j)
            weights = [q * j - (k - j) for j in range(1, k + 1)]
            parts = [
                self.arithmetic.constant(int(w.p), int(w.q)) * ratio[j] * coefficients[k - j] for j, w in enumerate(weights, 1)
            ]
            coefficients.append(sum(parts, start=zero) * self.arithmetic.constant(1, k))
        return Series(int((q * a.start).p), coefficients)

    def _exp(self, a: Series, term: Term) -> Series:
        """exp(a_0 + a_1 y + ...) = exp(a_0) exp(a_1 y + ...), without negative powers in it."""
        a = self.trimmed(a)
        if a.start < 0:
            raise NotShown(f"exp of {term} has no series")
        shift, constant = self._value_at_start(a)
        zero = self.arithmetic.constant(0)
        rest = [zero, *[a.at(k) or zero for k in range(1, a.end)]]
        coefficients = [self.arithmetic.constant(1)]
        for k in range(1, len(rest)):  # k e_k = sum j r_j e_(k-j)
            total = sum((self.arithmetic.constant(j) * rest[j] * coefficients[k - j] for j in range(1, k + 1)), start=zero)
            coefficients.append(total * self.arithmetic.constant(1, k))
        return Series(shift, [constant * c for c in coefficients])

    def _value_at_start(self, a: Series) -> tuple[int, Quotient]:
        """exp(a_0) as y^k exp(b), where a_0 = -k L + b, k is whole and b has no L in it."""
        first = a.at(0) if a.start <= 0 < a.end else None
        if first is None:
            return 0, self.arithmetic.constant(1)
        k = 0
        if LOG in self.arithmetic.place:
            place = self.arithmetic.place[LOG]
            slope = Quotient(first.above.derivative(place), first.below)  # where L is in the numerator only
            if slope.above.is_constant() and slope.below.is_constant() and not slope.above.is_zero():
                times = slope.above.leading_coefficient() / slope.below.leading_coefficient()
                if times.q != 1:
                    raise NotShown("a power of y that is not whole")
                k = -int(times.p)
                first = first + self.arithmetic.value(LOG) * self.arithmetic.constant(k)
        slow = [k for k, g in enumerate(self.arithmetic.generators) if {LOG, self.x} & {*subterms(g)}]
        if any(p.degrees()[j] for p in (first.above, first.below) if not p.is_constant() for j in slow):
            raise NotShown("an exponential that may grow as fast as powers")
        return k, self._named("exp", first)

    def _call(self, term: Term) -> Series:
        """F(a_0 + r) = F(a_0) + F'(a_0) r + ... of a smooth function, whose other arguments hold no y."""
        (head, name, orders), arguments = term[:3], term[3:]
        places = [k for k, a in enumerate(arguments) if {self.x, LOG} & {*subterms(a)}]
        inner = self.of(arguments[places[0]])
        if len(places) > 1 or inner.start < 0:
            raise NotShown(f"{term} has no series here")
        (place,), zero = places, self.arithmetic.constant(0)
        start, rest = inner.at(0) or zero, Series(1, [inner.at(k) or zero for k in range(1, inner.end)])
        total, powers = self._constant(zero), self._constant(self.arithmetic.constant(1))
        for k in range(inner.end):
            if powers.start >= inner.end:
                break
            raised = (*orders[:place], orders[place] + k, *orders[place + 1 :])
            slope = self._value_of((head, name, raised, *arguments[:place], self.x, *arguments[place + 1 :]), 3 + place, start)
            slope = slope * self.arithmetic.constant(1, factorial(k))
            total = self._sum(total, Series(powers.start, [c * slope for c in powers.coefficients]))
            powers = self._product(powers, rest)
        return total

    def _value_of(self, whole: Term, place: int, start: Quotient) -> Quotient:
        """The value of a function at a coefficient, as the certificate has it."""
        for line in self.arithmetic.generators:
            same = line[0] == whole[0] and (*line[:place], *line[place + 1 :]) == (*whole[:place], *whole[place + 1 :])
            if same and self._is_zero(self.arithmetic.value(line[place]) - start):
                return self.arithmetic.value(line)
        raise Unnamed("call", start, whole)

    def _named(self, head: str, start: Quotient, exponent: Term = ()) -> Quotient:
        """exp, log or a power of a coefficient, as the certificate has it."""
        if head == "exp" and self._is_zero(start):
            return self.arithmetic.constant(1)
        if head != "exp" and self._is_zero(start - self.arithmetic.constant(1)):
            return self.arithmetic.constant(0 if head == "log" else 1)
        for line in self.arithmetic.lines:
            if line[0] == head and line[2:] == exponent:
                try:
                    gap = self.arithmetic.value(line[1]) - start
                except NotShown:
                    continue
                if self._is_zero(gap):
                    return self.arithmetic.value(line)
        raise Unnamed(head, start, (head, self.x, *exponent))

    def _log(self, base: Term) -> Series:
        """log(y^s (a_0 + a_1 y + ...)) = -s L + log(a_0) + log(1 + ...), a_0 > 0."""
        a = self.trimmed(self.of(base))
        if a.start and LOG not in self.arithmetic.place:
            raise NotShown(f"the logarithm of {base} has no series")
        if not signs_of(self.arithmetic, a.coefficients[0]) <= {1}:
            raise Unnamed(">", a.coefficients[0])
        first, zero = a.coefficients[0] ** -1, self.arithmetic.constant(0)
        ratio = [c * first for c in a.coefficients]
        start = self._named("log", a.coefficients[0])
        if a.start:
            start = start + self.arithmetic.value(LOG) * self.arithmetic.constant(-a.start)
        coefficients = [start]
        for k in range(1, len(ratio)):  # k l_k = k r_k - sum j l_j r_(k-j)
            total = sum((self.arithmetic.constant(j) * coefficients[j] * ratio[k - j] for j in range(1, k)), start=zero)
            coefficients.append(ratio[k] - total * self.arithmetic.constant(1, k))
        return Series(0, coefficients)


def signs_of(arithmetic: Arithmetic, value: Quotient) -> frozenset[int]:
    """Return the signs that a coefficient can have."""
    above, below = arithmetic.of_polynomial(arithmetic.reduced(value.above)), arithmetic.of_polynomial(value.below) - {0}
    return frozenset(a * b for a in above for b in below)


def _by_exponentials(name: str, a: Term) -> Term:
    """Write a hyperbolic or trigonometric function in exponentials."""
    half, minus = number(1, 2), number(-1)
    match name:
        case "tanh":
            double = ("exp", mul(number(2), a))
            return divide(add(double, minus), add(double, ONE))
        case "sinh" | "cosh":
            other = ("exp", neg(a))
            return mul(half, add(("exp", a), other if name == "cosh" else neg(other)))
    e = ("exp", mul(("i",), a))
    inverse = power(e, minus)
    return mul(half, add(e, inverse)) if name == "cos" else mul(half, ("i",), add(inverse, neg(e)))
