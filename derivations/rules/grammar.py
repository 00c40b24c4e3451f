r"""Check a certificate's data before any rule reads it: exact numbers, terms of known shapes, facts that agree.

A letter is bound once on the way to it and free nowhere else, so that nothing put in for another letter is captured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd
from typing import Any

from derivations.rules.quotients import Facts, NotShown
from derivations.rules.signs import OF_FACTS
from derivations.rules.terms import BINDERS, INFINITY, Term, free_letters, is_term, subterms

__all__ = ["SHAPES", "check_data", "check_facts", "check_terms"]

# What follows the head: n a name, t a term, e a term or an infinity, o orders of derivatives, s a side, c coefficients and
# k a whole number, 0 or above; * as many terms as there are.
SHAPES = {
    "v": "n", "pi": "", "i": "", "+": "*", "*": "*", "^": "tt", "piece": "tttt", "expint": "tt", "lambertw": "tt",
    "int": "ntee", "sum": "ntee", "product": "ntee", "lim": "ntes", "diff": "nt", "at": "ntt", "call": "no*", "known": "no*",
    "croot": "ck", "oo": "", "-oo": "",
    **dict.fromkeys(("exp", "log", "tanh", "sinh", "cosh", "sin", "cos", "atan", "erf", "gamma"), "t"),
}  # fmt: skip
WORDS = {*OF_FACTS, "real", "integer", "other"}


def check_data(data: object) -> None:
    """Raise NotShown for a float in the data, or a fraction that is not in lowest terms."""
    if isinstance(data, float) or (isinstance(data, tuple | list) and tuple(data[:1]) == ("q",) and not _is_fraction(data)):
        raise NotShown(f"{data} is no exact number")
    if isinstance(data, Mapping):
        data = (*data.keys(), *data.values())
    for part in data if isinstance(data, tuple | list) else ():
        check_data(part)


def _is_fraction(term: Any) -> bool:
    return len(term) == 3 and all(type(k) is int for k in term[1:]) and term[2] > 0 and gcd(term[1], term[2]) == 1


def check_facts(facts: Facts) -> None:
    """Raise NotShown unless facts are known words about letters and values of functions that do not contradict each other."""
    for term, words in facts.items():
        if term[0] not in ("v", "call", "known") or not all(map(_has_shape, subterms(term))) or not words <= WORDS:
            raise NotShown(f"{words} are no facts of {term}")
        if not frozenset({-1, 0, 1}).intersection(*(OF_FACTS[word] for word in words & OF_FACTS.keys())):
            raise NotShown(f"the facts of {term} contradict each other")


def check_terms(terms: Iterable[Term]) -> None:
    """Raise NotShown unless these, the terms of one claim, have known shapes and bind each letter once."""
    terms = list(terms)
    free = set().union(*map(free_letters, terms))
    for part in (part for term in terms for part in subterms(term)):
        if not _has_shape(part):
            raise NotShown(f"{part} is no term")
        if part[0] in BINDERS:
            _check_bound(part, free)


def _has_shape(term: Term) -> bool:
    shape, rest = SHAPES.get(term[0]), term[1:]
    if shape is None:
        return term[0] == "q" and _is_fraction(term)
    if shape.endswith("*"):
        count = len(rest) - len(shape) + 1
        if "o" in shape and len(rest) > 1 and len(rest[1]) != count:
            return False
        shape = shape[:-1] + "t" * count
    return len(rest) == len(shape) and all(_fits(kind, part) for kind, part in zip(shape, rest, strict=True))


def _fits(kind: str, part: object) -> bool:
    match kind:
        case "n":
            return isinstance(part, str)
        case "t" | "e":
            return is_term(part) and (kind == "e" or part not in INFINITY)
        case "o" | "c":
            return isinstance(part, tuple) and all(type(k) is int and (k >= 0 or kind == "c") for k in part)
        case "s":
            return part in ("+", "-", "+-")
    return type(part) is int and part >= 0


def _check_bound(term: Term, free: set[str]) -> None:
    """Raise NotShown if a bound letter is free anywhere, stands in its own ends, or is bound again inside."""
    x, body, *ends = term[1:]
    inside = {part[1] for part in subterms(body) if part[0] in BINDERS}
    if x in free | inside or any(x in free_letters(end) for end in ends if is_term(end)):
        raise NotShown(f"the letter {x} has two meanings")
