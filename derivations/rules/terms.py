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

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["BINDERS", "INFINITY", "ONE", "ZERO", "Term", "add", "differentiate", "divide", "free_letters", "is_term", "mul",
           "neg", "number", "parts", "power", "rebuilt", "subterms", "substitute", "taken", "variable"]  # fmt: skip


Term = tuple[Any, ...]
BINDERS = ("int", "sum", "product", "lim")
INFINITY: tuple[Term, ...] = (("oo",), ("-oo",))
# Functions that are smooth wherever their arguments are, whatever these are.
SMOOTH = ("v", "q", "pi", "i", "+", "*", "exp", "tanh", "sinh", "cosh", "sin", "cos", "atan", "erf", "call")


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


def is_term(part: object) -> bool:
    return isinstance(part, tuple) and bool(part) and isinstance(part[0], str)


def parts(term: Term) -> tuple[Term, ...]:
    """The terms that a term is made of."""
    return tuple(filter(is_term, term[1:]))


def subterms(term: Term) -> Iterator[Term]:
    yield term
    for part in parts(term):
        yield from subterms(part)


def free_letters(term: Term) -> set[str]:
    """The names of the letters that are not bound."""
    if term[0] == "v":
        return {term[1]}
    if term[0] in (*BINDERS, "at"):
        return set().union(free_letters(term[2]) - {term[1]}, *map(free_letters, parts(term)[1:]))
    return set().union(*map(free_letters, parts(term)))


def rebuilt(term: Term, change: Callable[[Term], Term]) -> Term:
    """The term with its parts changed."""
    return tuple(change(part) if is_term(part) else part for part in term)


def substitute(term: Term, values: Mapping[Term, Term]) -> Term:
    r"""Values in place of letters or of whole terms, all at once.

    Raises:  ValueError where a value holds a letter that is bound where it is put.
    """
    if term in values:
        return values[term]
    if term[0] in ("diff", "at"):
        return substitute(taken(term), values)
    if term[0] in BINDERS:
        x, body, *ends = term[1:]
        inside = {key: value for key, value in values.items() if x not in free_letters(key) and key in subterms(body)}
        if any(x in free_letters(value) for value in inside.values()):
            raise ValueError(f"{x} is bound where a value holds it")
        ends = [substitute(end, values) if isinstance(end, tuple) else end for end in ends]
        return (term[0], x, substitute(body, inside), *ends)
    return rebuilt(term, lambda part: substitute(part, values)) if parts(term) else term


def taken(term: Term) -> Term:
    """Take all derivatives and put in all values; a derivative is defined where the function is."""
    term = rebuilt(term, taken) if parts(term) else term
    if term[0] == "diff":
        slope = differentiate(term[2], term[1])
        lost = _lost(term[2], slope)
        return ("+", slope, ("*", ZERO, *lost)) if lost else slope
    if term[0] == "at":
        return substitute(term[2], {variable(term[1]): term[3]})
    return term


def _lost(body: Term, slope: Term) -> list[Term]:
    """List the parts of a term that are not defined everywhere, and of which its derivative does not tell."""
    kept, lost = set(subterms(slope)), dict[Term, None]()
    for part in _always_there(body):
        exponent = part[2] if part[0] == "^" else ZERO
        whole = exponent[0] == "q" and exponent[2] == 1 and exponent[1] >= 0
        lowered = ("^", part[1], _less_one(exponent)) if part[0] == "^" else part
        if (part[0] in ("log", "gamma", "expint", "lambertw") or not whole) and not {part, lowered} & kept:
            lost.setdefault(part)
    return list(lost)


def _always_there(term: Term) -> Iterator[Term]:
    """Yield the parts of a term that no case of a piece and no bound letter leaves out."""
    yield term
    for part in () if term[0] in BINDERS else term[1:2] if term[0] == "piece" else parts(term):
        yield from _always_there(part)


def _less_one(exponent: Term) -> Term:
    return number(exponent[1] - exponent[2], exponent[2]) if exponent[0] == "q" else add(exponent, number(-1))


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
            by_base = mul(exponent, power(base, _less_one(exponent)), differentiate(base, name))
            by_exponent = differentiate(exponent, name)
            return by_base if by_exponent == ZERO else add(by_base, mul(term, ("log", base), by_exponent))
        case "piece":
            below, at, above = (differentiate(part, name) for part in term[2:])
            if name not in free_letters(term[1]):
                return ("piece", term[1], below, at, above)
            smooth = ("piece", term[1], below, divide(ONE, ZERO), above)
            # Where what it goes by has corners or jumps, the term may have them too.
            return ("+", smooth, ("*", ZERO, differentiate(term[1], name))) if _has_pieces(term[1]) else smooth
        case "call":
            f, orders, arguments = term[1], term[2], term[3:]
            return add(
                *(mul(("call", f, _raised(orders, k), *arguments), differentiate(a, name)) for k, a in enumerate(arguments))
            )
        case "int":
            return _of_integral(term, name)
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


def _of_integral(term: Term, name: str) -> Term:
    """By Leibniz' rule, where the ends are finite and the body is smooth."""
    x, body, low, high = term[1:]
    slopes = [ZERO if end in INFINITY else differentiate(end, name) for end in (high, low)]
    if slopes != [ZERO, ZERO] and _has_pieces(body):
        raise ValueError("no derivative is known of an integral by its end, where what is integrated may jump")
    within = ZERO if name == x else differentiate(body, name)
    if within != ZERO and ({low, high} & {*INFINITY} or any(not _is_smooth(part, x) for part in subterms(body))):
        raise ValueError("no derivative is known of an integral whose body may not be smooth, or to infinity")
    ends = [mul(substitute(body, {variable(x): end}), slope) for end, slope in zip((high, low), slopes, strict=True)]
    return add(ends[0], neg(ends[1]), ZERO if within == ZERO else ("int", x, within, low, high))


def _has_pieces(term: Term) -> bool:
    return any(part[0] == "piece" for part in subterms(term))


def _is_smooth(term: Term, x: str) -> bool:
    """Whether a term is a smooth function of its parts, or does not hold the letter."""
    natural = term[0] == "^" and term[2][0] == "q" and term[2][2] == 1 and term[2][1] >= 0
    return natural or term[0] in SMOOTH or x not in free_letters(term)


def _raised(orders: tuple[int, ...], k: int) -> tuple[int, ...]:
    return (*orders[:k], orders[k] + 1, *orders[k + 1 :])
