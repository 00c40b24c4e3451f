r"""Check a certificate by the check of its rule, and convert certificates to data that JSON can carry and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from flint import fmpq

from derivations.rules.definedness import Certificate, Conditions, undefined
from derivations.rules.equality import equal
from derivations.rules.grammar import check_data, check_facts, check_terms
from derivations.rules.inequalities import less, not_less
from derivations.rules.limits import coefficients, limit_conditions
from derivations.rules.numbers import differs, rounds
from derivations.rules.quotients import Facts, NotShown
from derivations.rules.terms import Term

__all__ = ["RULES", "as_data", "from_data", "replay"]


def replay(certificate: Certificate) -> Conditions:
    r"""Check a certificate.

    Returns: the conditions under which it shows what it says.
    Raises:  NotShown where it does not.
    """
    check_data(certificate)
    check_facts(certificate.get("facts", {}))
    check_terms(_claimed(certificate))
    if certificate["rule"] not in RULES:
        raise NotShown(f"there is no rule {certificate['rule']!r}")
    check, names = RULES[certificate["rule"]]
    shown = check(*(certificate[name] for name in names))
    return shown if isinstance(shown, tuple) else ()  # else the numbers at which it is so


def _claimed(c: Certificate) -> Iterator[Term]:
    """Yield the terms that a certificate's claim is about."""
    yield from (c[key] for key in ("lhs", "rhs", "lower", "upper", "term", "letter", "point", "value", "low", "high") if key in c)
    yield from (*c.get("values", ()), *c.get("numbers", ()))
    yield from (part for letter_and_ends in c.get("region", ()) for part in letter_and_ends)


def _series(term: Term, x: Term, point: Term, values: Sequence[Term], facts: Facts, proof: Certificate) -> Conditions:
    arithmetic, found, conditions = coefficients(term, x, point, facts, proof, len(values))
    for value, coefficient in zip(values, found, strict=True):
        if not arithmetic.reduced((arithmetic.value(value) - coefficient).above).is_zero():
            raise NotShown(f"{value} is not the coefficient")
    return (*conditions, *(condition for value in values for condition in undefined(arithmetic, value)))


def _rounds(value: Term, low: Term, high: Term, right: bool) -> None:
    if rounds(value, low, high) is not right:
        raise NotShown("the number is on the other side")


# The check of each rule, and the parts of a certificate that it reads.
RULES: dict[str, tuple[Callable[..., object], Sequence[str]]] = {
    "equal": (equal, ("lhs", "rhs", "facts", "proof")),
    "differs": (differs, ("lhs", "rhs", "facts", "numbers")),
    "less": (less, ("lower", "upper", "strict", "region", "facts", "proof")),
    "not less": (not_less, ("lower", "upper", "strict", "region", "facts", "numbers")),
    "limit": (limit_conditions, ("term", "letter", "point", "side", "value", "facts", "proof")),
    "series": (_series, ("term", "letter", "point", "values", "facts", "proof")),
    "rounds": (_rounds, ("value", "low", "high", "right")),
}


def as_data(x: Any) -> Any:
    """Convert to data for JSON: tables with terms as keys become pairs, sets and fractions are marked."""
    if isinstance(x, Mapping):
        if all(isinstance(key, str) for key in x):
            return {key: as_data(value) for key, value in x.items()}
        return {"pairs": [[as_data(key), as_data(value)] for key, value in x.items()]}
    if isinstance(x, tuple | list):
        return [as_data(part) for part in x]
    if isinstance(x, frozenset):
        return {"set": sorted(x)}
    if isinstance(x, fmpq):
        return {"fraction": [int(x.p), int(x.q)]}
    return x if isinstance(x, str | bool | None) else int(x)


def from_data(x: object) -> Any:
    """Convert back what `as_data` gave, lists as tuples."""
    if isinstance(x, list):
        return tuple(map(from_data, x))
    if isinstance(x, float):
        raise NotShown("a float is no exact number")
    if not isinstance(x, dict):
        return x
    match list(x):
        case ["pairs"]:
            table = {from_data(key): from_data(value) for key, value in x["pairs"]}
            if len(table) != len(x["pairs"]):
                raise NotShown("a table has one key twice")
            return table
        case ["set"]:
            return frozenset(x["set"])
        case ["fraction"]:
            return fmpq(*x["fraction"])
    return {key: from_data(value) for key, value in x.items()}
