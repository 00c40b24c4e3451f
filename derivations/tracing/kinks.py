r"""Expressions with corners and jumps, case by case: |u|, sign u, max(u, v), and cases by inequalities.

Each of these looks at the signs of a few differences d_1, ..., d_k. In each of the 3^k cases d_i > 0, d_i = 0, d_i < 0 they
are smooth expressions; where a sign tells the sign or the value of a letter, that is put in. What is shown in every case is
shown; a case that cannot be, and is not seen to be none, is one too many and does no harm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, product

from sympy import Abs, Basic, Dummy, Expr, Max, Min, Piecewise, S, Symbol, sign
from sympy.core.relational import Relational

__all__ = ["kinks", "smooth_cases"]


class _Impossible(Exception):  # noqa: N818 - no error: a case that is none
    """The signs contradict one another."""


def kinks(expressions: Sequence[Expr]) -> list[Expr]:
    """The differences at whose signs the expressions look, each once, innermost first."""
    found: dict[Expr, None] = {}
    for e in expressions:
        for node in _postorder(e):
            for difference in map(_primitive, _looks_at(node)):
                if not difference.is_number and _primitive(-difference) not in found:
                    found.setdefault(difference)
    return list(found)


def smooth_cases(expressions: Sequence[Expr], never_zero: Collection[Expr] = ()) -> Iterator[list[Expr]]:
    """The expressions in every case of the signs of their kinks, some of which may be known not to be 0."""
    never = {_primitive(k * d) for d in never_zero for k in (1, -1)}
    differences = kinks(expressions)
    for signs in product(*((1, -1) if d in never else (1, -1, 0) for d in differences)):
        known = dict(zip(differences, signs, strict=True))
        try:
            resolved = [_resolve(e, known) for e in expressions]
            signed = [(_resolve(d, known), k) for d, k in known.items()]
            _check_ranges(signed)
        except _Impossible:
            continue
        # What is 0 first: it tells a letter's value, and then the letter is gone.
        for place, _ in enumerate(signed := sorted(signed, key=lambda d: d[1] != 0)):
            values = _substitution(*signed[place])
            resolved = [e.xreplace(values) for e in resolved]
            signed = [(d.xreplace(values), k) for d, k in signed]
        if all(_sign_of(d, {}) in (None, k) for d, k in signed):
            yield resolved


def _looks_at(node: Basic) -> tuple[Expr, ...]:
    if isinstance(node, Abs | sign):
        return (node.args[0],)
    if isinstance(node, Max | Min):
        return tuple(a - b for a, b in combinations(sorted(node.args, key=str), 2))
    if isinstance(node, Relational):
        return (node.lhs - node.rhs,)
    return ()


def _postorder(e: Basic) -> Iterator[Basic]:
    for argument in e.args:
        yield from _postorder(argument)
    yield e


def _primitive(difference: Expr) -> Expr:
    """Without a positive rational factor."""
    return difference.as_content_primitive()[1]


def _resolve(e: Basic, known: Mapping[Expr, int]) -> Basic:
    if not e.has(Abs, sign, Max, Min, Piecewise, Relational):
        return e
    if isinstance(e, Piecewise):
        return _first_true(e, known)
    if isinstance(e, Relational):
        k = _sign_of(e.lhs - e.rhs, known)
        return e if k is None else e.func(k, 0)
    if isinstance(e, Abs | sign):
        k = _sign_of(e.args[0], known)
        return e if k is None else k * _resolve(e.args[0], known) if isinstance(e, Abs) else S(k)
    if isinstance(e, Max | Min):
        largest = _largest(e.args, known, 1 if isinstance(e, Max) else -1)
        return e if largest is None else _resolve(largest, known)
    return e.func(*(_resolve(a, known) for a in e.args))


def _first_true(e: Piecewise, known: Mapping[Expr, int]) -> Basic:
    for value, test in e.args:
        found = _resolve(test, known)
        if found == S.true:
            return _resolve(value, known)
        if found != S.false:
            return e  # a test of numbers alone, as sin(1)^2 + cos(1)^2 >= 1, which SymPy leaves open
    raise _Impossible  # or it is defined nowhere here, which is among its conditions


def _largest(numbers: Sequence[Expr], known: Mapping[Expr, int], wanted: int) -> Expr | None:
    """The largest or smallest; None where the signs do not tell."""
    told = True
    for a in numbers:
        signs = [_sign_of(a - b, known) for b in numbers if b != a]
        if all(k is not None and k * wanted >= 0 for k in signs):
            return a
        told = told and None not in signs
    if told:
        raise _Impossible
    return None


def _sign_of(difference: Expr, known: Mapping[Expr, int]) -> int | None:
    there, back = _primitive(difference), _primitive(-difference)
    if there in known or back in known:
        return known[there] if there in known else -known[back]
    return 1 if difference.is_positive else -1 if difference.is_negative else 0 if difference.is_zero else None


def _line(difference: Expr) -> tuple[Symbol, Expr, Expr] | None:
    """A letter u, its rational factor and the rest, for a difference that is linear in u; a lone letter goes first."""
    letters = sorted(difference.free_symbols, key=lambda u: (u.is_real is not True, str(u)))
    for u in letters:
        slope = difference.diff(u)
        if slope.is_Rational and slope != 0:
            return u, slope, difference.xreplace({u: S.Zero})
    return None


def _substitution(difference: Expr, k: int) -> dict[Expr, Expr]:
    """What the sign k of a difference says of one letter: its value, or that it is beyond a threshold."""
    line = _line(difference)
    if line is None or (k != 0 and not line[2].is_Rational):
        return {}
    u, slope, rest = line
    beyond = k * Dummy(u.name, positive=True) if k else S.Zero
    return {u: (beyond - rest) / slope}


def _check_ranges(signed: Sequence[tuple[Expr, int]]) -> None:
    """Raise where no number is on the sides of its thresholds that the case says."""
    least: dict[Symbol, tuple[Expr, bool]] = {}
    most: dict[Symbol, tuple[Expr, bool]] = {}
    seen: dict[Expr, int] = {}
    for difference, k in signed:
        before = _sign_of(difference, seen)
        seen[_primitive(difference)] = k
        if before not in (None, k) or (k == 0 and difference.is_zero is False):
            raise _Impossible
        if (line := _line(difference)) is None or not line[2].is_Rational:
            continue
        u, at, side = line[0], -line[2] / line[1], k * (1 if line[1] > 0 else -1)
        if side >= 0:
            least[u] = max(least.get(u, (at, side == 0)), (at, side == 0), key=lambda bound: (bound[0], not bound[1]))
        if side <= 0:
            most[u] = min(most.get(u, (at, side == 0)), (at, side == 0), key=lambda bound: (bound[0], bound[1]))
    for u in least.keys() & most.keys():
        (low, low_in), (high, high_in) = least[u], most[u]
        if low > high or (low == high and not (low_in and high_in)):
            raise _Impossible
