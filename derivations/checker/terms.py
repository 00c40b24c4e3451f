r"""Terms: formulas as nested tuples that JSON can carry, with substitution and derivatives.

    ("q", p, r)                  the rational number p/r            ("pi",) ("i",)   constants
    ("v", name)                  a letter                           ("+", a, ...) ("*", a, ...) ("^", base, exponent)
    ("exp", a) ("log", a) ...    a named function of one argument; ("gamma", a), ("expint", n, a), ("lambertw", k, a)
    ("piece", u, a, b, c)        a where u < 0, b where u = 0, c where u > 0
    ("call", f, orders, a, ...)  the value of an undefined function, or of its partial derivative of these orders
    ("int", x, body, lo, hi)     an integral over the bound letter x; so are "sum" and "product"; ("lim", x, body, point, side)
    ("diff", x, body)            a derivative not yet taken, and ("at", x, body, value): a value not yet put in

Bound letters are named by their depth, "$0", "$1", ..., so that renaming one changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["BINDERS", "ONE", "ZERO", "Term", "add", "differentiate", "divide", "free_letters", "mul", "neg", "number", "parts",
           "power", "subterms", "substitute", "taken", "variable"]  # fmt: skip


Term = tuple[Any, ...]
BINDERS = ("int", "sum", "product", "lim")


def number(p: int, r: int = 1) -> Term:
    return ("q", p, r)


ZERO, ONE = number(0), number(1)


def variable(name: str) -> Term:
    return ("v", name)


def add(*terms: Term) -> Term:
    kept = [term for term in terms if term != ZERO]
    return ZERO if not kept else kept[0] if len(kept) == 1 else ("+", *kept)


def mul(*terms: Term) -> Term:
    if ZERO in terms:
        return ZERO
    kept = [term for term in terms if term != ONE]
    return ONE if not kept else kept[0] if len(kept) == 1 else ("*", *kept)


def neg(term: Term) -> Term:
    return mul(number(-1), term)


def power(base: Term, exponent: Term) -> Term:
    return base if exponent == ONE else ("^", base, exponent)


def divide(above: Term, below: Term) -> Term:
    return mul(above, power(below, number(-1)))


def parts(term: Term) -> tuple[Term, ...]:
    """The terms that a term is made of."""
    return tuple(part for part in term[1:] if isinstance(part, tuple) and (not part or isinstance(part[0], str)) and part)


def subterms(term: Term) -> Iterator[Term]:
    yield term
    for part in parts(term):
        yield from subterms(part)


def free_letters(term: Term) -> set[str]:
    """The names of the letters that are not bound."""
    if term[0] == "v":
        return {term[1]}
    found = set().union(*map(free_letters, parts(term)))
    return found - {term[1]} if term[0] in (*BINDERS, "at") else found


def _rebuilt(term: Term, change: Any) -> Term:
    return tuple(change(part) if isinstance(part, tuple) and part and isinstance(part[0], str) else part for part in term)


def substitute(term: Term, values: Mapping[Term, Term]) -> Term:
    """Values in place of letters or of whole terms, all at once. Bound letters have names that no value has."""
    if term in values:
        return values[term]
    return _rebuilt(term, lambda part: substitute(part, values)) if parts(term) else term


def taken(term: Term) -> Term:
    """All derivatives taken and all values put in."""
    term = _rebuilt(term, taken) if parts(term) else term
    if term[0] == "diff":
        return differentiate(term[2], term[1])
    if term[0] == "at":
        return substitute(term[2], {variable(term[1]): term[3]})
    return term


# d/da of the named functions of one argument.
def _slope(name: str, a: Term) -> Term:
    square = power(a, number(2))
    match name:
        case "exp":
            return ("exp", a)
        case "log":
            return power(a, number(-1))
        case "tanh":
            return add(ONE, neg(power(("tanh", a), number(2))))
        case "sinh":
            return ("cosh", a)
        case "cosh":
            return ("sinh", a)
        case "sin":
            return ("cos", a)
        case "cos":
            return neg(("sin", a))
        case "atan":
            return power(add(ONE, square), number(-1))
        case "erf":
            return mul(number(2), power(("pi",), number(-1, 2)), ("exp", neg(square)))
    raise ValueError(f"no derivative is known of {name}")


def differentiate(term: Term, name: str) -> Term:
    r"""The derivative by a letter; pieces are differentiated piece by piece, and have no derivative at their corners.

    Raises:  ValueError where no rule applies.
    """
    match term[0]:
        case "v":
            return ONE if term[1] == name else ZERO
        case "+":
            return add(*(differentiate(part, name) for part in term[1:]))
        case "*":
            factors = term[1:]
            return add(*(mul(differentiate(f, name), *factors[:k], *factors[k + 1 :]) for k, f in enumerate(factors)))
        case "^":
            base, exponent = term[1:]
            less_one = number(exponent[1] - exponent[2], exponent[2]) if exponent[0] == "q" else add(exponent, number(-1))
            by_base = mul(exponent, power(base, less_one), differentiate(base, name))
            by_exponent = differentiate(exponent, name)
            return by_base if by_exponent == ZERO else add(by_base, mul(term, ("log", base), by_exponent))
        case "piece":
            below, at, above = (differentiate(part, name) for part in term[2:])
            return ("piece", term[1], below, divide(ONE, ZERO) if name in free_letters(term[1]) else at, above)
        case "call":
            f, orders, arguments = term[1], term[2], term[3:]
            return add(
                *(mul(("call", f, _raised(orders, k), *arguments), differentiate(a, name)) for k, a in enumerate(arguments))
            )
        case "int":
            x, body, low, high = term[1:]
            ends = [mul(substitute(body, {variable(x): end}), differentiate(end, name)) for end in (high, low)]
            within = differentiate(body, name)
            return add(ends[0], neg(ends[1]), ZERO if within == ZERO else ("int", x, within, low, high))
        case "expint":
            if term[1][0] != "q" or term[1][2] != 1:
                raise ValueError(f"no derivative is known of {term}")
            lower = term[1][1] - 1
            before = ("expint", number(lower), term[2]) if lower else divide(("exp", neg(term[2])), term[2])
            return mul(neg(before), differentiate(term[2], name))
    if name not in free_letters(term):
        return ZERO
    if len(term) != 2:
        raise ValueError(f"no derivative is known of {term[0]}")
    return mul(_slope(term[0], term[1]), differentiate(term[1], name))


def _raised(orders: tuple[int, ...], k: int) -> tuple[int, ...]:
    return (*orders[:k], orders[k] + 1, *orders[k + 1 :])
