r"""A field as a polynomial in generators whose coefficients hold slots: the rates that its class is free to choose.

generator    stays as it is: h, x, tanh(...), |h|^r h
slot         takes a known set of values as a free parameter does that stands nowhere else: a constant without data in it,
             or a positive gate, whose value and whose slopes in all its data can be set
fixed        a constant without free parameters
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from flint import acb_mat
from sympy import (
    Dummy,
    Eq,
    Expr,
    I,
    ImmutableDenseMatrix,
    Mul,
    Poly,
    Pow,
    Rational,
    S,
    Symbol,
    atan,
    cos,
    erf,
    exp,
    expand,
    linsolve,
    sign,
    sin,
    solve,
    sqrt,
    tanh,
)
from sympy import Set as NumberSet
from sympy.core.function import AppliedUndef

from derivations.prover import symbols
from derivations.prover.identity import Identity, check
from derivations.prover.reading import Reading, Unreadable
from derivations.ranges import POSITIVE, REALS, is_cone, values_of
from derivations.rules.numbers import ball
from derivations.rules.quotients import NotShown
from derivations.twins.fields import SymbolicField

__all__ = ["Absorbed", "FieldReading", "Obstacle", "Slot", "speed"]

speed = Symbol("c'", positive=True)
ROOT = {sqrt(speed): Dummy("root", positive=True)}


@dataclass(frozen=True)
class Slot:
    """A rate that a class may choose: a letter, what it stands for, its values, whether it reads data and which, a new letter."""

    letter: Symbol
    stands_for: Expr
    values: NumberSet
    is_gate: bool
    new: Symbol
    reads: frozenset[Expr] = frozenset()

    def may_leave(self, value: Expr) -> bool:
        """Return whether a new value may lie outside of the slot's own."""
        return self.values != REALS and not (value == speed * self.letter and is_cone(self.values))


@dataclass(frozen=True)
class Absorbed:
    """New values of slots, in words what must be true of them, and the equalities F' = c' F of each unit."""

    values: Mapping[Symbol, Expr]
    conditions: tuple[str, ...]
    certificate: tuple[Any, ...]


@dataclass(frozen=True)
class Obstacle:
    """A unit, an equation between coefficients that no member meets, what that supposes, and numbers at which they differ."""

    unit: Expr
    equation: Eq
    conditions: tuple[str, ...]
    certificate: tuple[Any, ...]


class FieldReading:
    """A field as polynomials in its generators, with slots in their coefficients, for a class with these free letters."""

    def __init__(
        self, field: SymbolicField, flow: ImmutableDenseMatrix, free: Set[Symbol], units: Sequence[Expr], there: str = ""
    ) -> None:
        self.units, self.data = units, frozenset({*field.state, *field.inputs})
        self.free, self.given, self._there = free, flow, there  # in the names of letters: a certificate knows letters by name
        drift, noise = flow[: len(field.state), :], flow[len(field.state) :, :]
        self._of_noise = noise.free_symbols - drift.free_symbols
        self.slots: list[Slot] = []
        self.generators: dict[Expr, Symbol] = {}
        self.fixed: dict[Expr, Symbol] = {}
        self.flow = [expand(self._bare(rate)) for rate in flow]

    def absorbed_by(self, gates_only: bool) -> Absorbed | None:
        """New values of slots with F' = c' F, if there are any that are real."""
        new = self.primed(gates_only)
        equations = [c.xreplace(new) - speed * c for c in self.coefficients()]
        if not new and any(equation != 0 for equation in equations):
            return None
        reads = {slot.letter: slot.reads for slot in self.slots}
        solved = self._by_roots(equations, new) or (solve(equations, list(new.values()), dict=True) if new else [{}])
        for solution in (*solved, *self._by_powers(new)):
            old = {primed: letter for letter, primed in new.items()}
            values = {letter: solution.get(primed, primed).xreplace(old) for letter, primed in new.items()}
            if any(value.has(I) or not value.xreplace(ROOT).is_rational_function() for value in values.values()):
                continue  # a root may have no real value, but for that of c' > 0
            if any(not reads.get(u, frozenset()) <= reads[letter] for letter in values for u in values[letter].free_symbols):
                continue  # a constant that would read data, or a gate more of them than it does
            where = {primed: values.get(letter, letter) for letter, primed in self.primed().items()}
            verdict = check(Identity("", "", "", self.member(), speed * ImmutableDenseMatrix(self.flow), where=where))
            if verdict.holds:
                given = {letter: e for e, letter in self.fixed.items()}
                return Absorbed(
                    {letter: value.xreplace(given) for letter, value in values.items()},
                    tuple(str(condition.xreplace(given)) for condition in verdict.defined_on),
                    (_named(where), *verdict.certificate),
                )
        return None

    def _by_roots(self, equations: list[Expr], new: Mapping[Symbol, Symbol]) -> list[dict[Symbol, Expr]]:
        """Solutions in which the amplitudes of the noise, entries of a matrix say, are multiplied by the root of c'."""
        roots = {primed: sqrt(speed) * letter for letter, primed in new.items() if letter in self._of_noise}
        others = [primed for primed in new.values() if primed not in roots]
        left = [e for e in (expand(equation.xreplace(roots)) for equation in equations) if e != 0]
        solutions = solve(left, others, dict=True) if left else [{}]
        return [{**solution, **roots} for solution in solutions] if roots else []

    def _by_powers(self, new: Mapping[Symbol, Symbol]) -> list[dict[Symbol, Expr]]:
        """The solution in which each slot is multiplied by a power of c', so that each product of slots is by c' itself."""
        letters, powers = list(new), [Dummy(f"p{n}") for n in range(len(new))]
        products = {m for c in self.coefficients() for m in (Poly(c, *letters).monoms() if letters and c != 0 else ())}
        (found,) = linsolve([sum(n * p for n, p in zip(m, powers, strict=True)) - 1 for m in products], powers) or (None,)
        chosen = found and found.subs(dict.fromkeys(powers, 0))
        return [{new[u]: speed**power * u for u, power in zip(letters, chosen, strict=True)}] if chosen else []

    def obstacle(self, gates_only: bool) -> Obstacle | None:
        """A unit, and an equation between coefficients, that no member of the class meets, with proof; else None."""
        new, given = self.primed(gates_only), {letter: e for e, letter in self.fixed.items()}
        for h, rate in zip(self.units, self.flow, strict=True):
            top = self._outgrowing(h, rate)
            # A gate may be any function, a combination of generators too: coefficients count only where there is none.
            terms = self._terms(rate) if self._has_free_generators(rate) else {} if top is None else {top[0]: top[1]}
            for coefficient in terms.values():
                left, right = coefficient.xreplace(new), speed * coefficient
                if left.free_symbols & set(new.values()):
                    continue
                apart = check(Identity("", "", "", left, right))
                if apart.holds is False:
                    equation = Eq(left.xreplace(given), right.xreplace(given), evaluate=False)
                    said = () if self._is_not_zero(coefficient) else (f"{coefficient.xreplace(given)} is not 0",)
                    return Obstacle(h, equation, said, apart.certificate)
        return None

    def autonomous(self) -> Obstacle | None:
        """Of a class without gates, a rate that is not 0: with F' = c' F at that point c' is a constant; else None."""
        if any(slot.is_gate for slot in self.slots):
            return None
        for h, rate in zip(self.units, self.given, strict=True):
            apart = check(Identity("", "", "", rate, speed * rate))
            if apart.holds is False:
                return Obstacle(h, Eq(rate, speed * rate, evaluate=False), (), apart.certificate)
        return None

    def coefficients(self) -> list[Expr]:
        """What stands at the products of generators, in all units' rates."""
        return [coefficient for rate in self.flow for coefficient in self._terms(rate).values()]

    def rates(self, *equations: Eq) -> dict[Symbol, Expr]:
        used = set().union(*(equation.free_symbols for equation in equations))
        return {slot.letter: slot.stands_for for slot in self.slots if slot.letter in used and slot.letter != slot.stands_for}

    def primed(self, gates_only: bool = False) -> dict[Symbol, Symbol]:
        """A letter for the new value of each slot."""
        return {slot.letter: slot.new for slot in self.slots if slot.is_gate or not gates_only}

    def member(self) -> ImmutableDenseMatrix:
        """Any member of the class: its rates, in letters for the new values."""
        return ImmutableDenseMatrix([rate.xreplace(self.primed()) for rate in self.flow])

    def _terms(self, rate: Expr) -> dict[Expr, Expr]:
        """Products of generators, and their coefficients."""
        generators = list(self.generators.values())
        if not generators:
            return {S.One: rate}
        return {Mul(*map(Pow, generators, powers)): c for powers, c in Poly(rate, *generators).as_dict().items()}

    def _is_not_zero(self, coefficient: Expr) -> bool:
        """Whether it is not 0 for some member: a polynomial in slots, one coefficient of which is not 0."""
        letters = [slot.letter for slot in self.slots if slot.letter in coefficient.free_symbols]
        parts = Poly(coefficient, *letters).coeffs() if letters else [coefficient]
        return any(part.is_number or part.is_positive or (-part).is_positive for part in parts)

    def _has_free_generators(self, rate: Expr) -> bool:
        """Whether there is no gate, and no products of generators that hold a parameter or depend linearly on each other."""
        gates = {slot.letter for slot in self.slots if slot.is_gate}
        back = {letter: generator for generator, letter in self.generators.items()}
        letters = {u: Dummy(f"u{n}", positive=True) for n, u in enumerate(self.data)}
        products = [term.xreplace(back).xreplace(letters) for term in self._terms(rate)]
        known = all(e.free_symbols <= set(letters.values()) and not e.atoms(AppliedUndef) for e in products)
        return known and not rate.free_symbols & gates and _are_independent(products, list(letters.values()))

    def _outgrowing(self, h: Expr, rate: Expr) -> tuple[Expr, Expr] | None:
        """The power of h that outgrows the rest of its rate whatever the parameters, and its coefficient."""
        unbounded_gates = [slot.letter for slot in self.slots if slot.is_gate and not _is_finite(slot.values)]
        growing = [generator for generator in self._generators_of(rate) if generator.has(h) and not _is_bounded(generator)]
        if len(growing) != 1 or rate.has(*unbounded_gates):
            return None
        (generator,) = growing
        if not (generator == h or (generator.is_Pow and generator.base == h and generator.exp.is_positive)):
            return None
        letter = self.generators[generator]
        (power,), coefficient = max(Poly(rate, letter).as_dict().items())
        if not power or coefficient.free_symbols & set(self.generators.values()):
            return None
        return letter**power, coefficient

    def _generators_of(self, rate: Expr) -> list[Expr]:
        return [generator for generator, letter in self.generators.items() if letter in rate.free_symbols]

    def _bare(self, e: Expr) -> Expr:
        """The expression with letters for slots, generators and fixed constants."""
        if e.is_Rational:
            return e
        if not (e.is_Add or e.is_Mul) and (slot := self._slot(e)) is not None:
            return slot.letter
        if _is_arithmetic(e):
            return e.func(*map(self._bare, e.args))
        if not (self._reads(e) or e.free_symbols & self.free):
            return self.fixed.setdefault(e, Dummy(f"fixed{self._there}_{len(self.fixed)}", real=True, **_positivity(e)))
        return self.generators.setdefault(e, Dummy(f"generator{self._there}_{len(self.generators)}"))

    def _reads(self, e: Expr) -> bool:
        return e.has(symbols.t) or bool(e.atoms(AppliedUndef))

    def _slot(self, e: Expr) -> Slot | None:
        """Only what stands in no generator, and has a free parameter that stands nowhere else, can be chosen freely."""
        for slot in self.slots:
            if slot.stands_for == e:
                return slot
        if not e.free_symbols & self.free:
            return None
        marked = self.given.xreplace({e: (mark := Dummy())})
        if any(_is_within(rate, mark) for rate in marked):
            return None
        own = frozenset(e.free_symbols & self.free) - marked.free_symbols
        values, is_gate = values_of(e, own), self._reads(e)
        if values is None or (is_gate and not (values.is_subset(POSITIVE) and _moves_freely(e, own, self.data))):
            return None
        letter = e if e.is_Symbol else Symbol(f"g_{1 + sum(s.letter != s.stands_for for s in self.slots)}")
        reads = frozenset(u for u in self.data if e.has(u))
        self.slots.append(Slot(letter, e, values, is_gate, Dummy(f"{letter.name}*"), reads))
        return self.slots[-1]


def _named(where: Mapping[Symbol, Expr]) -> dict[str, Any]:
    """New values for a certificate."""
    reading = Reading()
    return {"rule": "values", "values": {reading.term(letter): reading.term(value) for letter, value in where.items()}}


def _is_finite(values: NumberSet) -> bool:
    return bool(values.inf.is_finite and values.sup.is_finite)


def _is_arithmetic(e: Expr) -> bool:
    return e.is_Add or e.is_Mul or (e.is_Pow and e.exp.is_Integer and e.exp > 0)


def _is_within(e: Expr, part: Expr) -> bool:
    """Whether a part stands inside of what is read as a generator, which would change with it."""
    return e != part and (any(_is_within(arg, part) for arg in e.args) if _is_arithmetic(e) else e.has(part))


def _positivity(e: Expr) -> dict[str, bool]:
    values = values_of(e, e.free_symbols)
    positive = e.is_positive if e.is_number else values is not None and values.is_subset(POSITIVE)
    return {"positive": True} if positive else {}


@lru_cache  # a field is read twice, as it is and where state and input are positive: its gates are the same
def _moves_freely(e: Expr, own: frozenset[Symbol], data: frozenset[Expr]) -> bool:
    """Whether at one point the own parameters set a gate's value and its slopes in all its data, each by itself."""
    letters = {u: Dummy(real=True) for u in data if e.has(u)}
    inner = e.xreplace(letters)
    if inner.atoms(AppliedUndef) or inner.has(symbols.t):
        return False
    dice = random.Random(0)
    point = {u: Rational(dice.randint(1, 40), 41) for u in sorted(inner.free_symbols, key=str)}
    # What is no variable of these slopes is a number at once: it would only be carried along.
    inner = inner.xreplace({u: value for u, value in point.items() if u not in own and u not in letters.values()})
    slopes = [inner.diff(w) for w in sorted(own, key=str)]
    rows = ImmutableDenseMatrix([slopes, *([slope.diff(u) for slope in slopes] for u in letters.values())])
    numbers = np.array(rows.xreplace(point).evalf(), dtype=complex)
    if not np.isfinite(numbers).all():
        return False
    for axis in (1, 0):  # slopes in different letters have different units
        sizes = np.linalg.norm(numbers, axis=axis, keepdims=True)
        numbers = numbers / np.where(sizes > 0, sizes, 1.0)
    return int(np.linalg.matrix_rank(numbers, tol=1e-9)) == len(numbers)


def _are_independent(functions: list[Expr], letters: list[Symbol]) -> bool:
    """Whether functions of positive letters are linearly independent: a determinant of their values is proved not to be 0."""
    dice, entries = random.Random(0), []
    try:
        for _ in functions:
            point = {u: Rational(dice.randint(1, 60), 31) for u in letters}
            entries.append([ball(Reading().term(f.xreplace(point)), {}) for f in functions])
    except (Unreadable, NotShown):
        return False
    return not acb_mat(entries).det().contains(0)


def _is_bounded(generator: Expr) -> bool:
    """A bounded function of a real argument, powers of a sigmoid among them."""
    if generator.is_Pow and generator.exp.is_negative and generator.base.is_Add:
        return all(term.func is exp or term.is_positive for term in generator.base.args) and S.One in generator.base.args
    return generator.func in (tanh, sin, cos, sign, atan, erf)
