r"""Equations that code is but for rounding: a float read as the number that it is nearest to, torch's softplus without threshold.

    3.141592653589793 in the code, pi in the equation       the float is Python's value of the number, or of a product, quotient,
                                                            power or function of such; a short decimal is the fraction it shows
    0.3333333333333333, and 0.09999999999999999 = 0.3/3     the float is Python's value of a fraction, or of one times a power of
                                                            the step's dt, which itself is the fraction it shows, or left as it is
    u where u > 20, else log(1 + e^u)                       torch's softplus, as documented, is log(1 + e^u) to e^-20

Floats of the equations are read as those of the code are. Nothing else is exchanged, and nothing that tells where code jumps. Of
each exchange the largest difference is said, of the number or the softplus and not of what is made of it, and the checker sees
that it is no larger: of a number by balls around it, of softplus by an inequality for all u > 20. What is then proved equal is
proved as all else is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import sympy
from sympy import Add, Dummy, Expr, Mul, Pow, Rational, S, Symbol, exp, log, oo, preorder_traversal

from derivations.prover.inequalities import Less
from derivations.prover.reading import Reading, Unreadable
from derivations.prover.verdict import BUT_FOR_ROUNDING, Verdict
from derivations.rules.replay import replay
from derivations.rules.terms import number
from derivations.tracing.guarded import exchanged
from derivations.twins.fields import SymbolicField, SymbolicStep

__all__ = ["but_for_rounding"]

System = SymbolicField | SymbolicStep
JUMPS = (sympy.sign, sympy.Heaviside, sympy.floor, sympy.ceiling)
SHORT = 8  # digits of a decimal that is read as a fraction
# Largest denominators of other fractions: with a hundred times as many of them, a float would be near one by chance.
LARGEST_DENOMINATORS = {"float": 10**5, "float32": 100}
LARGEST_SHARE = 1000  # denominator of a share of dt
POWERS = (1, 2, 3, -1)  # of dt
SMALLEST_REST = Rational(1, 10)  # of which 1 - (1 - c) is c to a few roundings
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
    read: Callable[[], System],
    claimed: Callable[[], Sequence[Expr]],
    decide: Callable[[System, Sequence[Expr]], Verdict],
    length: float | None = None,
) -> tuple[Verdict, float] | None:
    r"""Prove that code is its equations where floats are the numbers that they round; None where that is not proved.

    Args:    read: reads the code's equations; claimed: reads the right sides that are claimed; decide: whether equations are
             these; length: dt of the code, where it is a step.
    Returns: the verdict, and the largest of the differences that it says.
    """
    with exchanged({}) as seen:
        read()
        right = claimed()
    readings = list(_readings(seen.floats, right, length))
    softened = seen.softplus and not any(e.has(sympy.Piecewise) for e in right)
    trials = [*((*each, False) for each in readings), ({}, False, softened), *((*each, softened) for each in readings)]
    for numbers, both, soft in (trial for k, trial in enumerate(trials) if trial not in trials[:k]):
        if not numbers and not soft:
            continue
        with exchanged(numbers, softplus=soft) as used:
            system, equations = read(), claimed() if both else right
        if _jumps(read, numbers, soft):
            continue
        exchanges = [*map(_of_number, *zip(*_used(used.floats, numbers), strict=True))] if numbers else []
        exchanges += [_of_softplus(beta) for beta in sorted(used.betas, key=str)] if soft else []
        if exchanges and all(exchanges) and (verdict := decide(system, equations)):
            words = "; ".join(each.words for each in exchanges if each)
            steps = tuple(step for each in exchanges if each for step in each.certificate)
            verdict = replace(verdict, evidence=f"{verdict.evidence}; {words}", certificate=(*verdict.certificate, *steps))
            return replace(verdict, verdict=BUT_FOR_ROUNDING), max(each.most for each in exchanges if each)
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


def _readings(
    floats: Collection[Rational], right: Sequence[Expr], length: float | None
) -> Iterator[tuple[dict[Rational, Expr], bool]]:
    """Yield what floats stand for, and whether those of the equations do too: in the code alone numbers of the equations, and
    multiples of dt as it is; or on both sides what they show, where 0.3 is 3/10 and 0.3/3 is 1/10."""
    values = [(value, c) for c in _numbers(right) for value in _values(c) if math.isfinite(value)]
    written = {a: c for a in floats for value, c in values[::-1] if Rational(*value.as_integer_ratio()) == a}
    shown = {a: c for a in floats if (c := _fraction(a)) is not None}
    in_code, on_both = shown | written, written | shown
    if length is not None:
        dt = Rational(*length.as_integer_ratio())
        in_code = shown | _shares(floats, length, dt) | written
        on_both = written | _shares(floats, length, _fraction(dt) or dt) | shown
    yield {a: c for a, c in in_code.items() if c != a}, False
    yield {a: c for a, c in on_both.items() if c != a}, True


def _fraction(a: Rational) -> Rational | None:
    """The fraction that a float shows as a short decimal, or whose value it is."""
    if len(repr(float(a)).replace(".", "").replace("-", "").strip("0")) <= SHORT:
        return Rational(repr(float(a)))
    c = _near(a, LARGEST_DENOMINATORS[_kind(a)])
    return c if float(a) in _values(c) else None


def _near(a: Rational, largest: int) -> Rational:
    return Rational(Fraction(int(a.p), int(a.q)).limit_denominator(largest))


def _shares(floats: Iterable[Rational], length: float, dt: Rational) -> dict[Rational, Expr]:
    """Pair floats with the multiples of a power of dt that they are Python's value of, where no fraction alone is as simple."""
    multiples: dict[Rational, Expr] = {}
    for a in floats:
        shares = {n: _near(a / Rational(*length.as_integer_ratio()) ** n, LARGEST_SHARE) for n in POWERS}
        fitting = [n for n, share in shares.items() if share != 0 and float(a) in _values_of_share(length, n, share)]
        n = min(fitting, key=lambda n: _size(shares[n]), default=None)
        alone = _fraction(a)
        if n is not None and (alone is None or _size(shares[n]) < _size(alone)):
            multiples[a] = shares[n] * dt**n
    return multiples


def _size(c: Rational) -> int:
    return int(abs(c.p) * c.q)


def _values_of_share(length: float, n: int, share: Rational) -> set[float]:
    """The floats that Python has for a fraction times a power of dt."""
    floats = {float(Rational(*length.as_integer_ratio()) ** n * share)}
    if n < 0:
        return floats | _joined(True, 1 / length, share) | {value / length for value in _values(share)}
    for power in (length**n, math.prod([length] * n)):
        floats |= _joined(True, power, share) | {power / value for value in _values(1 / share)}
    return floats


def _numbers(right: Iterable[Expr]) -> dict[Expr, None]:
    """The numbers in equations that are not whole, the longest first, and their negatives."""
    numbers: dict[Expr, None] = {}
    for part in (part for e in right for part in preorder_traversal(e)):
        numeric = [a for a in part.args if a.is_number] if isinstance(part, Add | Mul) else []
        for c in (part, *([part.func(*numeric)] if numeric else [])):
            if isinstance(c, Expr) and c.is_number and c.is_finite and c.is_real and not c.is_Integer:
                numbers |= dict.fromkeys((c, -c) if c.is_Rational else (c, -c, 1 / c))
    return numbers


def _values(c: Expr) -> set[float]:
    """The floats that Python has for a number: the nearest, and what it computes from those of its parts."""
    floats = set[float]()
    with suppress(ValueError, OverflowError, ZeroDivisionError, TypeError):
        floats.add(float(c if c.is_Rational else c.evalf(40)))
        if c.is_Rational:
            floats |= {int(c.p) * (1 / int(c.q))} | ({1 - float(1 - c)} if SMALLEST_REST < c < 1 else set())
        floats |= {float(np.float32(value)) for value in floats if abs(value) < np.finfo(np.float32).max}
    if c.is_Rational:
        return floats
    with suppress(ValueError, OverflowError, ZeroDivisionError, TypeError):
        if isinstance(c, Pow):
            floats |= {value for base in _values(c.base) for value in _powers(base, c.exp)}
        elif type(c) in FUNCTIONS:
            floats |= {FUNCTIONS[type(c)](value) for value in _values(c.args[0])}
        elif isinstance(c, Mul | Add) and len(c.args) <= MOST_PARTS:
            for k, last in enumerate(c.args):
                rest = _values(c.func(*c.args[:k], *c.args[k + 1 :]))
                floats |= {value for a in rest for value in _joined(isinstance(c, Mul), a, last)}
        square = c**2
        if c > 0 and _has_root(c) and not _has_root(square):  # 3^-1/2, which SymPy writes as 3^1/2 / 3
            floats |= {root for value in _values(square) for root in _powers(value, Rational(1, 2))}
            floats |= {root for value in _values(1 / square) for root in _powers(value, Rational(-1, 2))}
    return floats


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
    floats = {a * value for value in _values(last)}
    if last.is_Rational:
        floats |= {a * int(last.p) / int(last.q), a / int(last.q) * int(last.p)}
    if isinstance(last, Pow) and last.exp.is_negative:
        floats |= {a / value for value in _values(1 / last)}
    return floats


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
    words = f"but for rounding: {c} stands for the {_kind(a)} {float(a)!r}, less than {float(bound):.1e} away from it"
    return Exchange(words, float(bound), (step,))


def _kind(a: Rational) -> str:
    return "float" if float(np.float32(float(a))) != float(a) else "float32"


def _of_softplus(beta: Expr) -> Exchange | None:
    u = Symbol("u", real=True)
    steps = list[Any]()
    for low, high in ((S.Zero, log(1 + exp(u)) - u), (log(1 + exp(u)) - u, LARGEST)):  # beta divides both
        verdict = Less(low, high, strict=True, region={u: (20, oo)}).decide()
        if not verdict:
            return None
        steps += verdict.certificate
    over = "" if beta == 1 else f"/{beta}"
    return Exchange(
        f"but for rounding: log(1 + e^u){over} stands for torch's softplus, which is u{over} where u > 20, less than "
        f"{float(LARGEST / beta):.1e} away from it",
        float(LARGEST / beta),
        tuple(steps),
    )
