r"""Equations that code is but for rounding: a float read as the number that it is nearest to, torch's softplus without threshold.

    3.141592653589793 in the code, pi in the equation       the float is Python's value of the number, or of a product, quotient,
                                                            power or function of such; a short decimal is the fraction it shows
    u where u > 20, else log(1 + e^u)                       torch's softplus, as documented, is log(1 + e^u) to e^-20

Nothing else is exchanged, and nothing that tells where code jumps. Of each exchange the largest difference is said, of the number
or the softplus and not of what is made of it, and the checker sees that it is no larger: of a number by balls around it, of
softplus by an inequality for all u > 20. What is then proved equal is proved as all else is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy
from sympy import Add, Dummy, Expr, Mul, Pow, Rational, S, Symbol, exp, log, oo, preorder_traversal

from derivations.prover.inequalities import Less
from derivations.prover.verdict import BUT_FOR_ROUNDING, Verdict
from derivations.rules.reading import Reading, Unreadable
from derivations.rules.replay import replay
from derivations.rules.terms import number
from derivations.tracing.values import exchanged
from derivations.twins.fields import SymbolicField, SymbolicStep

__all__ = ["but_for_rounding"]

System = SymbolicField | SymbolicStep
JUMPS = (sympy.sign, sympy.Heaviside, sympy.floor, sympy.ceiling)
SHORT = 8  # digits of a decimal that is read as a fraction
FUNCTIONS = {exp: math.exp, log: math.log, sympy.sin: math.sin, sympy.cos: math.cos, sympy.tanh: math.tanh, sympy.erf: math.erf}
MOST_PARTS = 5  # of a product or sum whose values are looked for
LARGEST = Rational(207, 10**11)  # log(1 + e^-20) is 2.0612e-9


@dataclass(frozen=True)
class Exchange:
    """In words what was put in place of what, how far apart they are at most, and the steps that show it."""

    words: str
    most: float
    certificate: tuple[Any, ...]


def but_for_rounding(
    read: Callable[[], System], right: Sequence[Expr], decide: Callable[[System], Verdict]
) -> tuple[Verdict, float] | None:
    r"""Prove that code is its equations where floats are the numbers that they round; None where that is not proved.

    Args:    read: reads the code's equations; right: the right sides that are claimed; decide: whether equations are these.
    Returns: the verdict, and the largest of the differences that it says.
    """
    with exchanged({}) as seen:
        read()
    named = dict(_named(seen.floats, right))
    softened = seen.softplus and not any(e.has(sympy.Piecewise) for e in right)
    for numbers, soft in ((named, False), ({}, softened), (named, softened)):
        if not numbers and not soft:
            continue
        with exchanged(numbers, softplus=soft) as used:
            system = read()
        if _jumps(read, numbers, soft):
            continue
        exchanges = [*map(_of_number, *zip(*_used(used.floats, numbers), strict=True))] if numbers else []
        exchanges += [_of_softplus(beta) for beta in sorted(used.betas, key=str)] if soft else []
        if exchanges and all(exchanges) and (found := decide(system)):
            words = "; ".join(each.words for each in exchanges if each)
            steps = tuple(step for each in exchanges if each for step in each.certificate)
            found = replace(found, evidence=f"{found.evidence}; {words}", certificate=(*found.certificate, *steps))
            return replace(found, verdict=BUT_FOR_ROUNDING), max(each.most for each in exchanges if each)
    return None


def _jumps(read: Callable[[], System], numbers: Mapping[Rational, Expr], soft: bool) -> bool:
    """Whether what is exchanged tells where code jumps: there a difference of rounding is one of 1, and as wide as it likes."""
    marks = {a: Dummy(positive=True) * sympy.sign(a) for a in numbers}
    with exchanged(marks, softplus=soft, mark=(mark := Dummy(positive=True))):
        flow = read().flow
    letters = {mark, *(u for value in marks.values() for u in value.free_symbols)}
    parts = {part for e in flow for part in preorder_traversal(e) if isinstance(part, (*JUMPS, sympy.core.relational.Relational))}
    for part in parts:
        if not part.free_symbols & letters:
            continue
        looked_at = part.lhs - part.rhs if isinstance(part, sympy.core.relational.Relational) else part.args[0]
        bare = looked_at.xreplace(dict.fromkeys(letters, S.One))
        # A positive factor leaves the sign as it is.
        if isinstance(part, sympy.floor | sympy.ceiling) or not _is_positive_in(looked_at / bare, letters):
            return True
    return False


def _is_positive_in(ratio: Expr, letters: set[Expr]) -> bool:
    ratio = ratio.simplify()
    return ratio.free_symbols <= letters and bool(ratio.is_positive)


def _used(floats: Iterable[Rational], numbers: Mapping[Rational, Expr]) -> list[tuple[Rational, Expr]]:
    return [(a, numbers[a]) for a in sorted(floats) if a in numbers]


def _named(floats: Iterable[Rational], right: Sequence[Expr]) -> Iterator[tuple[Rational, Expr]]:
    """Pair floats with numbers of the equations that they are values of, or with the fraction that they show."""
    values = [(value, c) for c in _numbers(right) for value in _values(c) if math.isfinite(value)]
    for a in floats:
        c = next((c for value, c in values if Rational(*value.as_integer_ratio()) == a), None)
        if c is None and len(repr(float(a)).replace(".", "").replace("-", "").strip("0")) <= SHORT:
            c = Rational(repr(float(a)))
        if c is not None and c != a:
            yield a, c


def _numbers(right: Iterable[Expr]) -> dict[Expr, None]:
    """The numbers in equations that are not whole, the longest first, and their negatives."""
    found: dict[Expr, None] = {}
    for part in (part for e in right for part in preorder_traversal(e)):
        numeric = [a for a in part.args if a.is_number] if isinstance(part, Add | Mul) else []
        for c in (part, *([part.func(*numeric)] if numeric else [])):
            if isinstance(c, Expr) and c.is_number and c.is_finite and c.is_real and not c.is_Integer:
                found |= dict.fromkeys((c, -c) if c.is_Rational else (c, -c, 1 / c))
    return found


def _values(c: Expr) -> set[float]:
    """The floats that Python has for a number: the nearest, and what it computes from those of its parts."""
    found = set[float]()
    with suppress(ValueError, OverflowError, ZeroDivisionError, TypeError):
        found.add(float(c if c.is_Rational else c.evalf(40)))
        found |= {float(np.float32(value)) for value in found if abs(value) < np.finfo(np.float32).max}
    if c.is_Rational:
        return found
    with suppress(ValueError, OverflowError, ZeroDivisionError, TypeError):
        if isinstance(c, Pow):
            found |= {value for base in _values(c.base) for value in _powers(base, c.exp)}
        elif type(c) in FUNCTIONS:
            found |= {FUNCTIONS[type(c)](value) for value in _values(c.args[0])}
        elif isinstance(c, Mul | Add) and len(c.args) <= MOST_PARTS:
            for k, last in enumerate(c.args):
                rest = _values(c.func(*c.args[:k], *c.args[k + 1 :]))
                found |= {value for a in rest for value in _joined(isinstance(c, Mul), a, last)}
        square = c**2
        if c > 0 and _has_root(c) and not _has_root(square):  # 3^-1/2, which SymPy writes as 3^1/2 / 3
            found |= {root for value in _values(square) for root in _powers(value, Rational(1, 2))}
            found |= {root for value in _values(1 / square) for root in _powers(value, Rational(-1, 2))}
    return found


def _has_root(c: Expr) -> bool:
    return any(part.exp.is_Rational and part.exp.q == 2 for part in c.atoms(Pow))


def _powers(base: float, n: Expr) -> set[float]:
    if n == Rational(1, 2):
        return {math.sqrt(base), base**0.5}
    if n == Rational(-1, 2):
        return {1 / math.sqrt(base), base**-0.5, math.sqrt(1 / base)}
    if n.is_Integer:
        return {base ** int(n), 1 / base ** -int(n)} if n < 0 else {base ** int(n)}
    return {base**value for value in _values(n)}


def _joined(product_of: bool, a: float, last: Expr) -> set[float]:
    """A product or sum with its last part; by a fraction it is multiplied and divided too."""
    if not product_of:
        return {a + value for value in _values(last)}
    found = {a * value for value in _values(last)}
    if last.is_Rational:
        found |= {a * int(last.p) / int(last.q), a / int(last.q) * int(last.p)}
    if isinstance(last, Pow) and last.exp.is_negative:
        found |= {a / value for value in _values(1 / last)}
    return found


def _of_number(a: Rational, c: Expr) -> Exchange | None:
    """That a float is not further than so much from a number, which lies between two others."""
    away = abs(a - c).evalf(20)
    digits = math.floor(math.log10(float(away))) - 1
    bound = Rational(math.ceil(float(away) / 10.0**digits * (1 + 1e-9)), 10**-digits)
    ends = (number(int(e.p), int(e.q)) for e in (a - bound, a + bound))
    try:
        step = dict(zip(("rule", "value", "low", "high", "right"), ("rounds", Reading().term(c), *ends, True), strict=True))
        replay(step)
    except (Unreadable, ValueError):  # NotShown among them
        return None
    kind = "float" if float(np.float32(float(a))) != float(a) else "float32"
    words = f"but for rounding: {c} stands for the {kind} {float(a)!r}, less than {float(bound):.1e} away from it"
    return Exchange(words, float(bound), (step,))


def _of_softplus(beta: Expr) -> Exchange | None:
    u = Symbol("u", real=True)
    steps = list[Any]()
    for low, high in ((S.Zero, log(1 + exp(u)) - u), (log(1 + exp(u)) - u, LARGEST)):  # beta divides both
        found = Less(low, high, strict=True, region={u: (20, oo)}).decide()
        if not found:
            return None
        steps += found.certificate
    over = "" if beta == 1 else f"/{beta}"
    return Exchange(
        f"but for rounding: log(1 + e^u){over} stands for torch's softplus, which is u{over} where u > 20, less than "
        f"{float(LARGEST / beta):.1e} away from it",
        float(LARGEST / beta),
        tuple(steps),
    )
