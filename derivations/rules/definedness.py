"""Find the conditions under which a term is defined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from derivations.rules.quotients import Case, NotShown, Signs
from derivations.rules.terms import BINDERS, Term, add, free_letters, is_term, number, power

__all__ = ["ALLOWED", "Certificate", "Conditions", "agree", "needed", "undefined"]

Conditions = tuple[tuple[str, Term], ...]
Certificate: TypeAlias = Mapping[str, Any]  # or a part of one: a claim, a proof, a case
ALLOWED: Mapping[str, Signs] = {">": frozenset({1}), ">=": frozenset({0, 1}), "!=": frozenset({-1, 1})}


def agree(case: Case) -> None:
    """Raise NotShown if what is assumed in a case is seen to be false, or to contradict itself."""
    for term in case.assumed:
        if not case.signs(term):
            raise NotShown(f"what is assumed of {term} is true nowhere")


def undefined(case: Case, term: Term) -> Iterator[tuple[str, Term]]:
    """Yield the conditions for a term to be defined that are not seen to hold: pairs of a relation to 0 and a term."""
    if term[0] == "piece":
        yield from undefined(case, term[1])
        for sign in case.signs(term[1]):
            yield from undefined(case, term[3 + sign])
        return
    wanted = needed(case, term)
    if wanted is not None and not case.signs(wanted[1]) <= ALLOWED[wanted[0]]:
        yield wanted
    for part in term[1:]:
        if is_term(part):
            # What is bound has no value to make a condition of: an integral that is infinite is not defined, and that is all.
            yield from (c for c in undefined(case, part) if term[0] not in BINDERS or term[1] not in free_letters(c[1]))


def needed(case: Case, term: Term) -> tuple[str, Term] | None:
    """Return the condition for a function to be defined where its arguments are."""
    match term[0]:
        case "log":
            return (">", term[1])
        case "^" if term[2][0] == "q" and term[2][2] == 1:
            return ("!=", term[1]) if term[2][1] < 0 else None
        case "^" if term[2][0] == "q":
            return (">=" if term[2][1] > 0 else ">", term[1])
        case "^":
            return _of_symbolic_power(case, term[1], term[2])
        case "gamma" | "expint":
            return (">", term[-1])
        case "tanh" if not case.reads_real(term[1]):
            return ("!=", ("cosh", term[1]))
        case "atan" if not case.reads_real(term[1]):
            return ("!=", add(number(1), power(term[1], number(2))))
        case "lambertw":
            return (">=", add(term[2], ("exp", number(-1)))) if term[1] == number(0) else ("!=", number(0))
    return None


def _of_symbolic_power(case: Case, base: Term, exponent: Term) -> tuple[str, Term] | None:
    rises = case.signs(exponent) <= {1}
    if case.is_integer(exponent):
        return None if rises else ("!=", base)
    return (">=" if rises else ">", base)
