"""Find the limit of a term, or its Taylor coefficients, with the change of the letter that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import lcm
from typing import Any

from derivations.finding.generators import Explained, as_term, explained, written
from derivations.rules.definedness import ALLOWED
from derivations.rules.limits import Y, changed, coefficients, limit, tends
from derivations.rules.quotients import Facts, NotShown, Quotient
from derivations.rules.series import LOG, Unnamed, signs_of
from derivations.rules.terms import (
    INFINITY,
    ZERO,
    Term,
    add,
    differentiate,
    mul,
    neg,
    number,
    parts,
    substitute,
    subterms,
    taken,
)

__all__ = ["find_coefficients", "find_limit"]

ORDERS = (3, 8)
TRIES = 30
Found = tuple[Term, dict[str, Any]]


def find_limit(term: Term, x: Term, to: Term, facts: Facts, depth: int = 4) -> Found | None:
    """Find the limit as x > 0 tends to 0 or infinity, infinite limits included, with a proof for `tends`."""
    for attempt in (_find_continuous, _find_changed, _find_sum):
        for value, proof in attempt(term, x, to, facts, depth):
            try:
                tends(term, x, to, value, facts, proof)
                return value, proof
            except NotShown:
                continue
    return None


def _find_continuous(term: Term, x: Term, to: Term, facts: Facts, depth: int) -> Iterator[Found]:
    if to != ZERO:
        return
    there = substitute(term, {x: ZERO})
    found = explained([there], facts)
    try:
        value = written(as_term(found, found.arithmetic().value(there)))
    except NotShown:
        return
    yield value, {"how": "continuous", **explained([there, value], facts).case()}


def _find_sum(term: Term, x: Term, to: Term, facts: Facts, depth: int) -> Iterator[Found]:
    if term[0] != "+" or depth == 0:
        return
    limits = [find_limit(part, x, to, facts, depth - 1) for part in term[1:]]
    if all(limits) and not any(found[0] in INFINITY for found in limits if found):
        values = [found[0] for found in limits if found]
        total = add(*values)
        inner = [{"value": found[0], "proof": found[1]} for found in limits if found]
        yield total, {"how": "sum", "parts": inner, "equal": explained([total], facts).case()}


def _find_changed(term: Term, x: Term, to: Term, facts: Facts, depth: int) -> Iterator[Found]:
    known = {**facts, LOG: frozenset({"real", "positive"}), Y: frozenset({"real", "positive"})}
    for change in _changes(term, x, to, facts):
        try:
            there = changed(taken(term), x, to, change)
        except (NotShown, ValueError):
            continue
        for order in ORDERS:
            how = {"how": "change", "change": change, "order": order}
            for slow in ((LOG,), ()):
                extra = [change[1]] if change[0] == "exponential" else []
                outcome = _named(there, known, [*slow, *extra], partial(_limit, term, x, to, known, how))
                if outcome is None:
                    continue
                found, (arithmetic, start, leading, _) = outcome
                if start > 0:
                    yield ZERO, {**how, **found.case()}
                elif start < 0:
                    signs = signs_of(arithmetic, leading)
                    if signs in ({1}, {-1}):
                        yield ("oo",) if signs == {1} else ("-oo",), {**how, **found.case()}
                else:
                    yield from _at_power_zero(how, found, leading, known, depth)
                break


def _limit(term: Term, x: Term, to: Term, facts: Facts, how: dict[str, Any], case: dict[str, Any]) -> Any:
    return limit(term, x, to, facts, {**how, **case})


def _counted(term: Term, x: Term, point: Term, facts: Facts, how: dict[str, Any], count: int, case: dict[str, Any]) -> Any:
    return coefficients(term, x, point, facts, {**how, **case}, count)


def _at_power_zero(how: dict[str, Any], found: Explained, leading: Quotient, known: Facts, depth: int) -> Iterator[Found]:
    value = as_term(found, leading)
    if LOG not in subterms(value):
        plain = written(value)
        full = explained([*found.generators_as_terms(), plain], known)
        full.where = found.where
        full.lines.update({line: v for line, v in found.lines.items() if line not in full.lines})
        for proof in ({**how, **found.case()}, {**how, **full.case()}):
            yield plain, proof
        return
    inner = find_limit(written(value), LOG, ("oo",), known, depth - 1) if depth else None
    if inner is not None:
        yield inner[0], {**how, **found.case(), "then": {"term": value, "proof": inner[1]}}


def _named(
    term: Term, facts: Facts, extra: list[Term], attempt: Callable[[dict[str, Any]], object]
) -> tuple[Explained, Any] | None:
    """Repeat an attempt until the certificate names all exponentials, logarithms and powers of leading coefficients."""
    needed = [*_without_y(term), *extra]
    if any(part[0] in ("sin", "cos") for part in subterms(term)):
        needed.append(("i",))
    where: dict[Term, str] = {}
    for _ in range(TRIES):
        found = explained(needed, facts, {term: ALLOWED[relation] for term, relation in where.items()})
        found.where = [(relation, term) for term, relation in where.items()]
        try:
            return found, attempt(found.case())
        except Unnamed as missing:
            if missing.head in ALLOWED:
                new_conditions = _conditions(found, missing)
                if not new_conditions or all(where.get(t) == r for t, r in new_conditions):
                    return None
                where.update(new_conditions)
                continue
            start = written(as_term(found, missing.start))
            new = substitute(missing.whole, {Y: start})
            if new in needed:
                return None
            needed.append(new)
        except (NotShown, ZeroDivisionError, ValueError):
            return None
    return None


def _conditions(found: Explained, missing: Unnamed) -> list[tuple[Term, str]]:
    """Return what must be assumed of a leading coefficient's factors: that they are not 0, or the sign of the open one."""
    arithmetic, open_factors = found.arithmetic(), []
    polynomials = [missing.start.above] + ([missing.start.below] if missing.head == ">" else [])
    for polynomial in polynomials:
        constant, factors = polynomial.factor()
        for factor, _ in factors:
            signs = arithmetic.of_polynomial(factor)
            if 0 in signs or (missing.head == ">" and len(signs) > 1):
                open_factors.append(factor)
    if missing.head == ">":
        if len(open_factors) != 1 or len(missing.start.above.factor()[1]) != 1:
            return []
        constant = missing.start.above.factor()[0]
        term = written(as_term(found, open_factors[0]))
        if missing.start.above.factor()[1][0][1] % 2 == 0:
            return [(term, "!=")] if constant > 0 else []
        return [(term if constant > 0 else neg(term), ">")]
    return [(written(as_term(found, factor)), "!=") for factor in open_factors]


def _without_y(term: Term) -> Iterator[Term]:
    if not {Y, LOG} & {*subterms(term)} or term in (LOG, ("expint", number(1), Y)):
        yield term
    else:
        for part in parts(term):
            yield from _without_y(part)


def _changes(term: Term, x: Term, to: Term, facts: Facts) -> Iterator[tuple[str, Any]]:
    yield ("power", 1)
    if to != ZERO:
        for rate in dict.fromkeys(_rates(term, x, facts)):
            yield ("exponential", rate)
    roots = lcm(*(part[2][2] for part in subterms(term) if part[0] == "^" and part[2][0] == "q" and x in subterms(part[1])))
    if roots > 1:
        yield ("power", roots)


def _rates(term: Term, x: Term, facts: Facts) -> Iterator[Term]:
    """Yield the slopes of exponents that are linear in x, taken positive."""
    for part in subterms(term):
        exponent = (
            part[1]
            if part[0] in ("exp", "tanh", "sinh", "cosh")
            else mul(part[2], ("log", part[1]))
            if part[0] == "^" and x in subterms(part[2])
            else None
        )
        if exponent is None or x not in subterms(exponent):
            continue
        try:
            slope = taken(differentiate(exponent, x[1]))
            found = explained([slope], facts)
            value = written(as_term(found, found.arithmetic().value(slope)))
        except (NotShown, ValueError):
            continue
        if x in subterms(value):
            continue
        signs = explained([value], facts).arithmetic().signs(value)
        if signs in ({1}, {-1}):
            yield value if signs == {1} else neg(value)


def find_coefficients(term: Term, x: Term, point: Term, facts: Facts, count: int) -> tuple[list[Term], dict[str, Any]] | None:
    """Find the first Taylor coefficients as terms, with a proof for `coefficients`."""
    known = {**facts, LOG: frozenset({"real", "positive"}), Y: frozenset({"real", "positive"})}
    there = substitute(taken(term), {x: add(point, Y)})
    for order in (count, count + 4):
        how = {"order": order}
        outcome = _named(there, known, [], partial(_counted, term, x, point, facts, how, count))
        if outcome is not None:
            found, (_, values, _) = outcome
            written_out = [written(as_term(found, value)) for value in values]
            case, more = found.case(), explained(written_out, facts).case()
            generators = list(dict.fromkeys([*case["generators"], *more["generators"]]))
            lines = {**dict(more["lines"]), **dict(case["lines"])}
            return written_out, {**how, **case, "generators": generators, "lines": list(lines.items())}
    return None
