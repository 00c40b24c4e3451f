r"""Values in a program: an expression, and the conditions under which it is defined.

    1/b     where b != 0             sqrt a   where a >= 0         log a        where a > 0
    a^k     as 1/b for k < 0         a^r      where a >= 0, or a > 0 for r < 0 (r no integer)

SymPy makes h of sqrt(h) sqrt(h) and 1 of h/h; the conditions are kept from before that. What follows from the letters'
assumptions is dropped, all else is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import sympy
from sympy import And, Basic, Dummy, Eq, Expr, Ge, Gt, Integer, Ne, Not, Or, Piecewise, Rational, S, Symbol
from sympy.core.function import AppliedUndef
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanAtom, BooleanFunction

__all__ = [
    "DOMAINS",
    "Entries",
    "GuardedValue",
    "assuming",
    "certain",
    "conditions_of",
    "exact",
    "exchanged",
    "guarded",
    "softplus_everywhere",
    "is_truth",
    "log",
    "number",
    "ordered",
    "partial",
    "power",
]

Entries: TypeAlias = npt.NDArray[np.object_]
Conditions = frozenset[Basic]
MOST_BOUNDED = 4


@dataclass
class Exchanged:
    """Numbers to be put in place of the code's floats, and whether torch's softplus is log(1 + e^u), times a mark; what was met
    of them."""

    numbers: Mapping[Rational, Expr]
    without_threshold: bool
    mark: Expr = S.One
    floats: set[Rational] = field(default_factory=set)
    betas: set[Expr] = field(default_factory=set)

    @property
    def softplus(self) -> bool:
        return bool(self.betas)


_exchanged: ContextVar[Exchanged | None] = ContextVar("exchanged", default=None)


@contextmanager
def exchanged(numbers: Mapping[Rational, Expr], softplus: bool = False, mark: Expr = S.One) -> Iterator[Exchanged]:
    """Read code with other numbers in place of floats, and note which floats it has."""
    token = _exchanged.set(now := Exchanged(numbers, softplus, mark))
    try:
        yield now
    finally:
        _exchanged.reset(token)


def softplus_everywhere(beta: Expr) -> Expr | None:
    """By what log(1 + e^u) is multiplied if torch's softplus, with its documented threshold, is read as that; else None."""
    now = _exchanged.get()
    if now is None:
        return None
    now.betas.add(beta)
    return now.mark if now.without_threshold else None


def exact(constant: object) -> Basic:
    """Convert a float to the rational number that it is; return everything else as it is."""
    if isinstance(constant, float):
        if not isfinite(constant):
            raise ValueError(f"the code contains the constant {constant}, which is no real number.")
        fraction, now = Rational(*constant.as_integer_ratio()), _exchanged.get()
        if now is None or fraction.is_Integer:
            return fraction
        now.floats.add(fraction)
        return now.numbers.get(fraction, fraction)
    if isinstance(constant, bool):
        return S.true if constant else S.false
    return Integer(constant) if isinstance(constant, int) else constant


def number(e: Basic) -> Expr:
    """Convert a truth value to 1 or 0; return a number as it is."""
    return Piecewise((S.One, e), (S.Zero, True)) if is_truth(e) else e


def is_truth(e: Basic) -> bool:
    return isinstance(e, Relational | BooleanFunction | BooleanAtom)  # SymPy's letters are Boolean as well


@dataclass(frozen=True, eq=False)
class GuardedValue:
    """An expression, real where all its conditions hold."""

    expr: Expr
    where: Conditions = frozenset()

    def __add__(self, other: GuardedValue) -> GuardedValue:
        return GuardedValue(number(self.expr) + number(other.expr), self.where | other.where)

    def __mul__(self, other: GuardedValue) -> GuardedValue:
        return GuardedValue(number(self.expr) * number(other.expr), self.where | other.where)


def partial(e: Expr, *conditions: Basic) -> GuardedValue:
    """Make a value with conditions, without those that are certain."""
    return GuardedValue(e, frozenset(c for c in conditions if not certain(c)))


def power(a: Expr, b: Expr) -> GuardedValue:
    """a^b as torch has it: nan for a < 0 and b no integer."""
    return partial(a**b, *_where_power(a, b))


def log(a: Expr) -> GuardedValue:
    return partial(sympy.log(a), Gt(a, 0))


def _where_power(a: Expr, b: Expr) -> tuple[Basic, ...]:
    if b.is_integer:
        return () if b.is_nonnegative else (Ne(a, 0),) if b.is_number else (Or(Ne(a, 0), Ge(b, 0)),)
    if b.is_number:
        return (Ge(a, 0),) if b.is_positive else (Gt(a, 0),)
    return (Or(Gt(a, 0), And(Ge(a, 0), Ge(b, 0))),)


def conditions_of(e: Basic) -> Conditions:
    """Find where an expression is defined as it is written; what stands within a case must be defined only there."""
    if isinstance(e, Piecewise):
        conditions, before = frozenset[Basic](), S.true
        for branch, condition in e.args:
            conditions |= conditions_of(condition) | guarded(And(before, condition), conditions_of(branch))
            before = And(before, Not(condition))
        return conditions if before == S.false else conditions | {Not(before)}
    own: tuple[Basic, ...] = ()
    if isinstance(e, sympy.Pow) and e.base != S.Exp1:
        own = _where_power(e.base, e.exp)
    elif type(e) in DOMAINS:
        own = (DOMAINS[type(e)](e.args[0]),)
    inside = frozenset[Basic]().union(*(conditions_of(a) for a in e.args)) if e.args else frozenset[Basic]()
    if bound := set(getattr(e, "bound_symbols", ())):  # of a sum: what is so for some of its terms is no condition on letters
        inside = frozenset(c for c in inside if not c.free_symbols & bound)
    return inside | {c for c in own if not certain(c)}


DOMAINS: Mapping[type, Callable[[Expr], Basic]] = {
    sympy.log: lambda a: Gt(a, 0),
    sympy.asin: lambda a: And(Ge(1 + a, 0), Ge(1 - a, 0)),
    sympy.acos: lambda a: And(Ge(1 + a, 0), Ge(1 - a, 0)),
    sympy.acosh: lambda a: Ge(a, 1),
    sympy.atanh: lambda a: And(Gt(1 + a, 0), Gt(1 - a, 0)),
    sympy.tan: lambda a: Ne(sympy.cos(a), 0),
}


def guarded(case: Basic, conditions: Iterable[Basic]) -> Conditions:
    """Restrict conditions to one case."""
    uncertain = (c for c in conditions if not certain(c.xreplace(assuming([case])[0])))
    return frozenset(Or(Not(case), c) for c in uncertain) - {S.true}


def certain(condition: Basic) -> bool:
    """Return whether a condition is seen to follow from the letters' assumptions."""
    if condition in (True, False) or condition is S.true or condition is S.false:
        return bool(condition)
    if isinstance(condition, And | Or):
        return (all if isinstance(condition, And) else any)(map(certain, condition.args))
    if not isinstance(condition, Relational) or isinstance(condition, Eq):
        return False
    difference = condition.gts - condition.lts if hasattr(condition, "gts") else condition.lhs - condition.rhs
    fact = {Gt: "is_positive", sympy.Lt: "is_positive", Ne: "is_nonzero"}.get(type(condition), "is_nonnegative")
    return any(getattr(e, fact) for e in (difference, *_bounded(difference)))


def _bounded(e: Expr) -> Iterable[Expr]:
    """Write every bounded function in an expression as a bound plus or minus what is not negative."""
    atoms = sorted(e.atoms(sympy.tanh, sympy.sin, sympy.cos, sympy.erf), key=str)
    if atoms and len(atoms) <= MOST_BOUNDED:
        for signs in itertools.product((1, -1), repeat=len(atoms)):
            rest = (Dummy(positive=True) if isinstance(u, sympy.tanh | sympy.erf) else Dummy(nonnegative=True) for u in atoms)
            yield e.xreplace({u: k * (1 - p) for u, k, p in zip(atoms, signs, rest, strict=True)})


def assuming(conditions: Iterable[Basic]) -> tuple[dict[Expr, Dummy], set[Basic]]:
    """Turn conditions on single letters into assumptions of new letters; return these, and the conditions left."""
    facts: dict[Expr, dict[str, bool]] = {}
    left: set[Basic] = set()
    for condition in (part for whole in conditions for part in _parts(whole)):
        known = _fact(condition)
        if known is None:
            left.add(condition)
        else:
            facts.setdefault(known[0], {}).update({known[1]: True})
    return {u: Dummy(str(u), real=True, **known) for u, known in facts.items() if _consistent(known)}, left


def _parts(condition: Basic) -> Iterable[Basic]:
    """Split a condition; a product is not 0 if no factor is."""
    if isinstance(condition, And):
        return condition.args
    if isinstance(condition, Ne) and condition.rhs == 0 and isinstance(condition.lhs, sympy.Mul):
        return [Ne(factor, 0) for factor in condition.lhs.args if not factor.is_number]
    return (condition,)


def _fact(condition: Basic) -> tuple[Expr, str] | None:
    if not isinstance(condition, Relational) or not {condition.lhs, condition.rhs} & {S.Zero}:
        return None
    letter = condition.lhs if condition.rhs == 0 else condition.rhs
    if not isinstance(letter, Symbol | AppliedUndef):
        return None
    if isinstance(condition, Ne):
        return letter, "nonzero"
    if not hasattr(condition, "gts"):
        return None
    side = "positive" if condition.gts == letter else "negative"
    return letter, side if condition.func in (Gt, sympy.Lt) else {"positive": "nonnegative", "negative": "nonpositive"}[side]


def _consistent(facts: Mapping[str, bool]) -> bool:
    return not ({"positive", "nonnegative"} & set(facts) and {"negative", "nonpositive"} & set(facts))


def ordered(conditions: Iterable[Basic]) -> tuple[Basic, ...]:
    """Sort conditions in an order that does not change from run to run."""
    return tuple(sorted(conditions, key=sympy.default_sort_key))
