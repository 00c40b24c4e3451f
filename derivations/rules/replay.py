r"""Check a certificate, and convert certificates to data that JSON can carry and back.

equal      lhs, rhs, proof                      differs    lhs, rhs, numbers
less       lower, upper, strict, region, proof  not less   the same with numbers
limit      term, letter, point, side, value     series     term, letter, point, values
rounds     value, low, high, right
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flint import fmpq

from derivations.rules.definedness import Certificate, Conditions, undefined
from derivations.rules.equality import equal
from derivations.rules.grammar import check_data, check_facts, check_terms
from derivations.rules.inequalities import less, not_less
from derivations.rules.limits import coefficients, limit_conditions
from derivations.rules.numbers import differs, rounds
from derivations.rules.quotients import NotShown
from derivations.rules.terms import Term

__all__ = ["as_data", "from_data", "replay"]


def replay(certificate: Certificate) -> Conditions:
    r"""Check a certificate.

    Returns: the conditions under which it shows what it says.
    Raises:  NotShown where it does not.
    """
    c = certificate
    check_data(c)
    check_facts(c.get("facts", {}))
    check_terms(_claimed(c))
    match c["rule"]:
        case "equal":
            return equal(c["lhs"], c["rhs"], c["facts"], c["proof"])
        case "differs":
            differs(c["lhs"], c["rhs"], c["facts"], c["numbers"])
        case "less":
            return less(c["lower"], c["upper"], c["strict"], c["region"], c["facts"], c["proof"])
        case "not less":
            not_less(c["lower"], c["upper"], c["strict"], c["region"], c["facts"], c["numbers"])
        case "limit":
            return limit_conditions(c["term"], c["letter"], c["point"], c["side"], c["value"], c["facts"], c["proof"])
        case "series":
            return _series(c)
        case "rounds":
            if rounds(c["value"], c["low"], c["high"]) is not c["right"]:
                raise NotShown("the number is on the other side")
        case rule:
            raise NotShown(f"there is no rule {rule!r}")
    return ()


def _claimed(c: Certificate) -> Iterator[Term]:
    """Yield the terms that a certificate's claim is about."""
    yield from (c[key] for key in ("lhs", "rhs", "lower", "upper", "term", "letter", "point", "value", "low", "high") if key in c)
    yield from (*c.get("values", ()), *c.get("numbers", ()))
    yield from (part for letter_and_ends in c.get("region", ()) for part in letter_and_ends)


def _series(c: Certificate) -> Conditions:
    arithmetic, found, conditions = coefficients(c["term"], c["letter"], c["point"], c["facts"], c["proof"], len(c["values"]))
    for value, coefficient in zip(c["values"], found, strict=True):
        if not arithmetic.reduced((arithmetic.value(value) - coefficient).above).is_zero():
            raise NotShown(f"{value} is not the coefficient")
    return (*conditions, *(condition for value in c["values"] for condition in undefined(arithmetic, value)))


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
