r"""Write terms and statements as text, without SymPy: what is shown as checked is read from what was checked.

("+", a, ("*", ("q", -1, 1), b))     a - b              ("piece", u, -u, 0, u)     |u|
("*", a, ("^", b, ("q", -1, 1)))     a/b                ("call", "h", (1,), t)           h'(t)
("call", "F", (0, 1), x, h)          D_2 F(x, h)        ("at", "u", ("diff", "u", e), y) (d/du(e) at u = y)

What is bound under a name that no reader writes is shown under a letter that stands nowhere else in the term. Names come from
the author of a ledger: one that could be read for a formula, a number, a constant or a derivative stands in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain, count
from typing import Any

from derivations.rules.conclusions import terms_of
from derivations.rules.definedness import Certificate
from derivations.rules.grammar import SHAPES
from derivations.rules.terms import BINDERS, INFINITY, ONE, ZERO, Term, is_term, mul, neg, number, power, subterms

__all__ = ["condition_text", "facts_text", "statement_text", "term_text"]

# How closely the parts of a term hold together; what binds less is put in brackets.
SUM, PRODUCT, POWER, ATOM = range(4)
MOST_SHOWN, MOST_PRIMES = 5, 3  # of comparisons, of a derivative
SLOPE = re.compile(r"D_\d+")  # as derivatives are written
PLAIN_NAME = re.compile(r"[A-Za-z_$\[][\w{},'$~\[\]]*", re.ASCII)


def statement_text(says: Certificate) -> list[str]:
    """Write what a statement says, a line for each of its parts."""
    match says["kind"]:
        case "not":
            return [f"not: {line}" for line in statement_text(says["of"])]
        case "equal":
            pairs = [f"{term_text(lhs)} = {term_text(rhs)}" for lhs, rhs in says["pairs"]]
            return [*pairs, *(f"with {term_text(name)} = {term_text(value)}" for name, value in says["where"].items())]
        case "less":
            ends = [" < ".join(map(term_text, (low, x, high))) for x, low, high in says["region"]]
            return [f"{term_text(says['lower'])} {'<' if says['strict'] else '<='} {term_text(says['upper'])}", *ends]
        case "limit":
            sides = {"+": " from above", "-": " from below", "+-": ""}[says["sides"]]
            to = f"{term_text(says['letter'])} -> {term_text(says['point'])}{'' if says['point'] in INFINITY else sides}"
            return [f"{term_text(says['term'])} -> {term_text(says['value'])} as {to}"]
        case "series":
            left, right = map(term_text, says["sides"])
            step = _in_brackets(says["letter"] if says["point"] == ZERO else ("+", says["letter"], neg(says["point"])), ATOM)
            return [f"{left} = {right} + O({step}^{says['order']})"]
        case "rounds":
            left, right = ("<" if says["beyond"] == says[end] else "<=" for end in ("low", "high"))
            return [f"{term_text(says['low'])} {left} {term_text(says['value'])} {right} {term_text(says['high'])}"]
        case "cases":
            shown = ", ".join(map(_comparison, says["comparisons"][:MOST_SHOWN]))
            count = len(says["comparisons"])
            return [f"{count} comparison{'s' * (count != 1)}: {shown}{', ...' * (count > MOST_SHOWN)}"]
        case "closure":
            flow, used = ", ".join(map(term_text, says["flow"])), {part for e in says["flow"] for part in subterms(e)}
            meaning = {**{slot["old"]: slot["stands for"] for slot in says["slots"]}, **says["stands for"]}
            return [
                f"the class absorbs {says['group']}: some values of {_letters(says['slots'])} make the member c' F = ({flow})",
                *(f"with {term_text(u)} = {term_text(e)}" for u, e in meaning.items() if u != e and u in used),
            ]
    raise ValueError(f"there is no statement of kind {says['kind']!r}")


def facts_text(says: Certificate) -> list[str]:
    """Write what is assumed of the letters of a statement: "p positive"."""
    inner = says.get("of", says)
    used = {part for term in terms_of(inner) for part in subterms(term)}
    implied = {"positive": {"nonnegative", "nonzero", "real"}, "negative": {"nonpositive", "nonzero", "real"}}
    lines = []
    for term, facts in inner.get("facts", {}).items():
        plain = facts.difference(*(implied[fact] for fact in facts & implied.keys()))
        plain -= {"real"} if len(plain) > 1 else set()
        if term in used and plain:
            lines.append(f"{term_text(term)} {' and '.join('more' if fact == 'other' else fact for fact in sorted(plain))}")
    return sorted(lines)


def condition_text(relation: str, term: Term) -> str:
    """Write a condition."""
    return f"{term_text(term)} {relation} 0"


def term_text(term: Term) -> str:
    """Write a term in one line."""
    return _written(term)[0]


def _written(term: Term) -> tuple[str, int]:
    """Write a term, and say how closely it holds together."""
    match term[0]:
        case "q":
            text = str(term[1]) if term[2] == 1 else f"{term[1]}/{term[2]}"
            return text, SUM if term[1] < 0 else ATOM if term[2] == 1 else PRODUCT
        case "v":
            return _name(term[1]), ATOM
        case "pi" | "i":
            return term[0], ATOM
        case "oo" | "-oo":
            return term[0], ATOM
        case "+" if len(term) > 1:
            first, *rest = map(_signed, term[1:])
            text = ("-" if first[0] else "") + first[1]
            return text + "".join(f" {'-' if minus else '+'} {part}" for minus, part in rest), SUM
        case "*" if len(term) > 1:
            return _product(term)
        case "^":
            if _is_below(term):
                return _product(("*", term))
            if term[2] == number(1, 2):
                return f"sqrt({term_text(term[1])})", ATOM
            return f"{_in_brackets(term[1], ATOM)}^{_in_brackets(term[2], ATOM)}", POWER
        case "piece":
            u, below, at, above = term[1:]
            if (below, at, above) == (neg(u), ZERO, u):
                return f"|{term_text(u)}|", ATOM
            cases = zip((below, at, above), "<=>", strict=True)
            return f"({'; '.join(f'{term_text(part)} if {term_text(u)} {sign} 0' for part, sign in cases)})", ATOM
        case "call" | "known":
            orders, arguments = term[2], ", ".join(map(term_text, term[3:]))
            if len(orders) == 1:
                return f"{_name(term[1])}{_primes(orders[0])}({arguments})", ATOM
            by = "".join(f"D_{k} " * n for k, n in enumerate(orders, 1))  # by its k-th argument, n times
            return f"{by}{_name(term[1])}({arguments})", POWER if by else ATOM
        case "diff":
            return f"d/d{_name(term[1])}({term_text(term[2])})", ATOM
        case head if head in ("at", *BINDERS) and (not PLAIN_NAME.fullmatch(term[1]) or term[1][0] in "$["):
            return _written(_renamed(term, term[1], _fresh(term)))
        case "at":
            return f"({term_text(term[2])} at {_name(term[1])} = {term_text(term[3])})", ATOM
        case head if head in BINDERS:
            ends = [part if isinstance(part, str) else term_text(part) for part in term[3:]]
            return f"{head}({term_text(term[2])}, {_name(term[1])}, {', '.join(ends)})", ATOM
    inside = (term_text(part) if is_term(part) else str(part) for part in term[1:])
    return f"{term[0]}({', '.join(inside)})", ATOM


def _primes(order: int) -> str:
    return "'" * order if order <= MOST_PRIMES else f"^({order})"


def _fresh(term: Term) -> str:
    """Return a letter that is the name of nothing in a term."""
    taken = {part[1] for part in subterms(term) if len(part) > 1 and isinstance(part[1], str)}
    return next(name for name in chain("uwsyz", (f"u_{k}" for k in count(1))) if name not in taken)


def _renamed(term: Term, old: str, new: str) -> Term:
    """Give what is bound in a term another name; names of functions stay."""
    if term[:2] == ("v", old):
        return ("v", new)
    binds = term[0] in ("diff", "at", *BINDERS)
    parts = (_renamed(part, old, new) if is_term(part) else new if binds and part == old else part for part in term[1:])
    return (term[0], *parts)


def _name(name: str) -> str:
    return name if PLAIN_NAME.fullmatch(name) and name not in SHAPES and not SLOPE.fullmatch(name) else ascii(name)


def _signed(term: Term) -> tuple[bool, str]:
    """Return whether a summand is taken away, and its text without the sign."""
    if term[0] == "q" and term[1] < 0:
        return True, term_text(number(-term[1], term[2]))
    if term[0] == "*" and len(term) > 2 and term[1][0] == "q" and term[1][1] < 0:
        return True, _in_brackets(mul(number(-term[1][1], term[1][2]), *term[2:]), PRODUCT)
    return False, _in_brackets(term, PRODUCT)


def _product(term: Term) -> tuple[str, int]:
    above = [part for part in term[1:] if not _is_below(part)]
    below = [power(part[1], number(-part[2][1], part[2][2])) for part in term[1:] if _is_below(part)]
    sign = "-" if above and above[0][0] == "q" and above[0][1] < 0 else ""
    if sign:
        above = [number(-above[0][1], above[0][2]), *above[1:]]
    above = above[1:] if above[:1] == [ONE] else above
    text = sign + (" ".join(_in_brackets(part, POWER) for part in above) or "1")
    if below:
        under = " ".join(_in_brackets(part, POWER) for part in below)
        text += f"/{under}" if len(below) == 1 else f"/({under})"
    return text, SUM if sign else PRODUCT


def _is_below(part: Term) -> bool:
    return part[0] == "^" and part[2][0] == "q" and part[2][1] < 0


def _in_brackets(term: Term, at_least: int) -> str:
    text, holds = _written(term)
    return text if holds >= at_least else f"({text})"


def _comparison(x: object) -> str:
    if isinstance(x, tuple) and len(x) == 3 and isinstance(x[1], str):
        return f"{_comparison(x[0])} {x[1]} {_comparison(x[2])}"
    return f"({', '.join(map(_comparison, x))})" if isinstance(x, tuple) else str(x)


def _letters(slots: Iterable[Any]) -> str:
    return ", ".join(term_text(slot["new"]) for slot in slots) or "no letters"
