r"""Terms as numbers, and the rules of what differs and of rounding.

Exact rationals where only arithmetic is done, and elsewhere balls that certainly contain the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, permutations
from math import prod
from typing import Any, TypeAlias

from flint import acb, arb, ctx, fmpq, fmpz_poly

from derivations.rules.quotients import Facts, NotShown, real_roots
from derivations.rules.terms import (
    INFINITY,
    ZERO,
    Term,
    add,
    free_letters,
    neg,
    number,
    substitute,
    subterms,
    taken,
)

__all__ = ["HOLDS", "Ball", "Numbers", "ball", "check_places", "differs", "exact", "rounds"]

Numbers = Mapping[Term, fmpq]
Ball: TypeAlias = arb | acb
BITS = 256
# Bits of a rational number that is still computed exactly.
LONGEST = 200_000
MOST_TERMS = 1000  # of a sum that is added up
TOLERANCE, EVALUATIONS = 80, 2000  # bits, and evaluations, of an integral
ENTIRE = ("exp", "tanh", "sinh", "cosh", "sin", "cos", "erf")  # or, tanh, without a value at its poles
HOLDS = {
    "positive": lambda x: x > 0,
    "negative": lambda x: x < 0,
    "nonnegative": lambda x: x >= 0,
    "nonpositive": lambda x: x <= 0,
    "nonzero": lambda x: x != 0,
    "integer": lambda x: x.q == 1,
    "real": lambda x: True,
    "other": lambda x: False,  # an assumption that no fact above says: no number is known to be as assumed
}


def exact(term: Term, numbers: Numbers) -> fmpq | None:
    """Compute a term exactly; None where it is not seen to be a rational number. Raises: NotShown for a division by 0."""
    if term in numbers:
        return numbers[term]
    match term[0]:
        case "q":
            return fmpq(term[1], term[2])
        case "+" | "*":
            values = [exact(part, numbers) for part in term[1:]]
            if term[0] == "*" and fmpq(0) in values:
                ball_of = [ball(part, numbers) for part, value in zip(term[1:], values, strict=True) if value is None]
                return fmpq(0) if all(b.is_finite() for b in ball_of) else None
            total = fmpq(term[0] == "*")
            for value in values:
                if value is None:
                    return None
                total = total * value if term[0] == "*" else total + value
            return total
        case "^":
            base, exponent = exact(term[1], numbers), exact(term[2], numbers)
            if base is None or exponent is None or exponent.q != 1:
                return None
            if abs(exponent.p) * max(abs(base.p), base.q).bit_length() > LONGEST:  # a ball will do
                return None
            if base == 0 and exponent < 0:
                raise NotShown("division by 0")
            return base ** int(exponent.p)
        case "piece":
            return exact(_branch(term, numbers), numbers)
        case "sum" | "product":
            return exact(("+" if term[0] == "sum" else "*", *_counted(term, numbers)), numbers)
        case "exp" | "log":
            inside = exact(term[1], numbers)
            return fmpq(term[0] == "exp") if inside == (0 if term[0] == "exp" else 1) else None
    return None


def ball(term: Term, numbers: Numbers) -> Ball:
    r"""Compute a ball that certainly contains a term's value.

    Raises:  NotShown for what is not real (unless i stands in it) or not finite, and for what has no number.
    """
    value = exact(term, numbers)
    found = arb(value) if value is not None else _inexact(term, numbers)
    if not found.is_finite():
        raise NotShown(f"{term} has no finite value there")
    return found


def _inexact(term: Term, numbers: Numbers) -> Ball:
    match term[0]:
        case "+" | "*":
            total: Ball = arb(0) if term[0] == "+" else arb(1)
            for part in term[1:]:
                total = total + ball(part, numbers) if term[0] == "+" else total * ball(part, numbers)
            return total
        case "^":
            return _power(ball(term[1], numbers), term[2], numbers)
        case "pi":
            return arb.pi()
        case "i":
            return acb(0, 1)
        case "piece":
            return ball(_branch(term, numbers), numbers)
        case "log":
            inside = ball(term[1], numbers)
            if isinstance(inside, acb) or not inside > 0:
                raise NotShown(f"the logarithm of {inside}")
            return inside.log()
        case "exp" | "tanh" | "sinh" | "cosh" | "sin" | "cos" | "atan" | "erf":
            return getattr(ball(term[1], numbers), term[0])()
        case "gamma":
            return ball(term[1], numbers).gamma()
        case "expint":
            order: Any = ball(term[1], numbers)
            return ball(term[2], numbers).expint(order)
        case "croot":  # the k-th of the real roots of a polynomial, from the least
            return real_roots(fmpz_poly(list(term[1])))[term[2]]
        case "sum" | "product":
            return _inexact(("+" if term[0] == "sum" else "*", *_counted(term, numbers)), numbers)
        case "int":
            return _integral(term, numbers)
        case "lambertw" if term[1] in (ZERO, number(-1)):
            return ball(term[2], numbers).lambertw(int(exact(term[1], numbers) or 0))
    raise NotShown(f"{term} has no number")


def _counted(term: Term, numbers: Numbers) -> list[Term]:
    """List the terms of a sum or the factors of a product between whole numbers."""
    x, body, *ends = term[1:]
    low, high = (None if end in INFINITY else exact(end, numbers) for end in ends)
    if low is None or high is None or low.q != 1 or high.q != 1 or not 0 <= high - low + 1 <= MOST_TERMS:
        raise NotShown(f"{term} has no number")
    return [substitute(body, {("v", x): number(k)}) for k in range(int(low.p), int(high.p) + 1)]


def _integral(term: Term, numbers: Numbers) -> Ball:
    """An integral between finite ends of what is analytic around the way between them: Arb's rigorous quadrature."""
    x, body, low, high = term[1:]
    if {low, high} & {*INFINITY} or not all(map(_is_analytic, (part for part in subterms(body) if x in free_letters(part)))):
        raise NotShown(f"{term} has no number")
    start, end = (acb(ball(end, numbers)) for end in (low, high))
    _analytic(body, x, (start + end) / 2, numbers)  # raises here what would be lost within C
    goal = arb(2) ** -TOLERANCE
    try:
        value = acb.integral(
            lambda z, _: _analytic(body, x, z, numbers), start, end, rel_tol=goal, abs_tol=goal, eval_limit=EVALUATIONS
        )
    except SystemError as lost:  # what is raised while flint computes, that time is up, comes as its cause
        raise lost.__cause__ or lost from None
    return value if any(part == ("i",) for part in subterms(body)) else value.real


def _is_analytic(part: Term) -> bool:
    return part[0] in ("v", "+", "*", "^", "log", "atan", *ENTIRE)


def _analytic(term: Term, x: str, z: acb, numbers: Numbers) -> acb:
    """A term at a ball of complex numbers for a letter; no number where it may not be analytic there."""
    if x not in free_letters(term):
        return acb(ball(term, numbers))
    if term[0] == "v":
        return z
    if term[0] in ("+", "*"):
        values = [_analytic(part, x, z, numbers) for part in term[1:]]
        return sum(values, start=acb(0)) if term[0] == "+" else prod(values, start=acb(1))
    inside = _analytic(term[1], x, z, numbers)
    if term[0] in ENTIRE:
        return getattr(inside, term[0])()
    if term[0] == "^" and term[2][0] == "q" and term[2][2] == 1:
        return inside ** int(term[2][1])
    if not (abs(inside.imag) < 1 if term[0] == "atan" else inside.real > 0):  # beside the cuts
        return acb("nan", "nan")
    return inside ** _analytic(term[2], x, z, numbers) if term[0] == "^" else getattr(inside, term[0])()


def _power(base: Ball, exponent_term: Term, numbers: Numbers) -> Ball:
    whole = exact(exponent_term, numbers)
    if whole is not None and whole.q == 1:
        if whole < 0 and not (base != 0):
            raise NotShown(f"division by {base}")
        return base ** int(whole.p)
    if isinstance(base, acb):
        raise NotShown("a power of a number that is not real")
    if base > 0:
        return base ** ball(exponent_term, numbers)
    exponent = arb(whole) if whole is not None else ball(exponent_term, numbers)
    if base.is_zero() and not isinstance(exponent, acb) and exponent > 0:
        return arb(0)
    raise NotShown(f"a power of {base}")


def _branch(term: Term, numbers: Numbers) -> Term:
    value = exact(term[1], numbers)
    subject = arb(value) if value is not None else ball(term[1], numbers)
    if isinstance(subject, acb):
        raise NotShown("the case of a number that is not real")
    sign = 0 if value == 0 else 1 if subject > 0 else -1 if subject < 0 else None
    if sign is None:
        raise NotShown(f"the sign of {subject} is not certain")
    branch: Term = term[3 + sign]
    return branch


def check_places(numbers: Numbers, facts: Facts) -> None:
    r"""Check that the numbers may be chosen: as the facts allow, and one value for a function at one place.

    Raises:  NotShown otherwise.
    """
    whole = {term[1] for term, words in facts.items() if term[0] == "call" and "integer" in words}
    for term, value in numbers.items():
        if term[0] not in ("v", "call") or (term[0] == "call" and any(term[2]) and term[1] in whole):
            raise NotShown(f"{term} is not free to be chosen")
        if type(value) is not fmpq:
            raise NotShown(f"{value} is no rational number")
        for fact in facts.get(term, ()):
            if not HOLDS[fact](value):
                raise NotShown(f"{term} = {value} is not {fact}")
    calls = [term for term in numbers if term[0] == "call"]
    for a, b in permutations(calls, 2):  # where a function that keeps its sign is 0, its slope is not free
        if a[1] == b[1] and any(b[2]) and numbers[a] == 0 and facts.get(a, frozenset()) & {"nonnegative", "nonpositive"}:
            raise NotShown(f"{b} may be 0 where {a} is")
    for a, b in combinations(calls, 2):
        if a[:3] == b[:3] and numbers[a] != numbers[b]:
            apart = any(not _overlap(x, y, numbers) for x, y in zip(a[3:], b[3:], strict=True))
            if not apart:
                raise NotShown(f"{a} and {b} may be one value")


def _overlap(a: Term, b: Term, numbers: Numbers) -> bool:
    p, q = exact(a, numbers), exact(b, numbers)
    other: Any = ball(b, numbers)
    return p == q if p is not None and q is not None else bool(ball(a, numbers).overlaps(other))


def differs(lhs: Term, rhs: Term, facts: Facts, numbers: Numbers) -> fmpq | Ball:
    r"""Compute lhs - rhs at numbers for the letters, which must certainly not be 0.

    Raises:  NotShown where it may be 0, where a side is not defined, or where the numbers may not be chosen.
    """
    lhs, rhs = taken(lhs), taken(rhs)
    check_places(numbers, facts)
    inside = {part for side in (lhs, rhs) for part in subterms(side)}
    for call in (part for part in inside if part[0] == "call" and part in numbers):
        for argument in call[3:]:
            ball(argument, numbers)
    before = ctx.prec
    ctx.prec = BITS
    try:
        left, right = ball(lhs, numbers), ball(rhs, numbers)
        p, q = exact(lhs, numbers), exact(rhs, numbers)
        difference = p - q if p is not None and q is not None else left - right
        if not difference != 0:
            raise NotShown("the difference may be 0")
        return difference
    finally:
        ctx.prec = before


def rounds(value: Term, low: Term, high: Term) -> bool:
    r"""Return True if a number certainly lies within low and high, False if it certainly does not.

    Raises:  NotShown where neither is certain.
    """
    before = ctx.prec
    ctx.prec = BITS
    try:
        above, below = (_sign(add(a, neg(b))) for a, b in ((value, low), (high, value)))
        return above >= 0 and below >= 0
    finally:
        ctx.prec = before


def _sign(term: Term) -> int:
    known = exact(term, {})
    value = arb(known) if known is not None else ball(term, {})
    if isinstance(value, acb):
        raise NotShown("the number may not be real")
    if known == 0 or value > 0:
        return 0 if known == 0 else 1
    if value < 0:
        return -1
    raise NotShown("the digits of the number are not certain")
