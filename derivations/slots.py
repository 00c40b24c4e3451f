r"""A field as a polynomial in generators whose coefficients hold slots: the rates that its class is free to choose.

generator    stays as it is: h, x, tanh(...), |h|^r h
slot         a constant, or a sigmoid, exponential or softplus gate, with a parameter that stands nowhere else
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sympy import Dummy, Eq, Expr, ImmutableDenseMatrix, Mul, Poly, Pow, S, Symbol, cos, exp, expand, log, sign, sin, solve, tanh

from derivations.prover.identity import Identity, check
from derivations.twins.fields import SymbolicField, sigma

__all__ = ["EXPONENTIAL", "NUMBER", "SIGMOID", "SOFTPLUS", "FieldReading", "Slot", "speed"]

SIGMOID, EXPONENTIAL, SOFTPLUS, NUMBER = "sigmoid", "exponential", "softplus", "number"

speed = Symbol("c'", positive=True)


@dataclass(frozen=True)
class Slot:
    """A rate that a class of fields is free to choose: its letter, what it stands for, its kind, and whether it reads data."""

    letter: Symbol
    stands_for: Expr
    kind: str
    is_gate: bool


class FieldReading:
    """A field as polynomials in its generators, with slots in their coefficients."""

    def __init__(self, field: SymbolicField, flow: ImmutableDenseMatrix) -> None:
        self.state, self.data = field.state, {*field.state, *field.inputs}
        self.parameters = {u for matrix in field.parameters.values() for u in matrix.free_symbols}
        candidates = dict.fromkeys(e for rate in flow for e in self._outermost(rate) if self._kind(e))
        self.slots = self._with_parameters_of_their_own(list(candidates), flow)
        self.generators: dict[Expr, Symbol] = {}
        self.flow = [expand(self._bare(rate)) for rate in flow]

    def absorbed_by(self, gates_only: bool) -> dict[Symbol, Expr] | None:
        """New values of slots with F' = c' F, if there are any."""
        new = self._primed(gates_only)
        coefficients = [c for rate in self.flow for c in self._terms(rate).values()]
        equations = [c.xreplace(new) - speed * c for c in coefficients]
        if not new and any(equation != 0 for equation in equations):
            return None
        for solution in solve(equations, list(new.values()), dict=True) if new else [{}]:
            old = {primed: letter for letter, primed in new.items()}
            values = {letter: solution.get(primed, primed).xreplace(old) for letter, primed in new.items()}
            warped = ImmutableDenseMatrix([rate.xreplace(values) for rate in self.flow])
            if check(Identity("", "", "", warped, speed * ImmutableDenseMatrix(self.flow))).holds:
                return values
        return None

    def obstacle(self, gates_only: bool) -> tuple[Expr, Eq] | None:
        """A unit, and an equation between coefficients, that no member of the class meets, with proof; else None."""
        new = self._primed(gates_only)
        for h, rate in zip(self.state, self.flow, strict=True):
            top = self._outgrowing(h, rate)
            # A gate may be any function, a combination of generators too: coefficients count only where there is none.
            terms = self._terms(rate) if self._has_free_generators(rate) else {} if top is None else {top[0]: top[1]}
            for coefficient in terms.values():
                left, right = coefficient.xreplace(new), speed * coefficient
                if not left.free_symbols & set(new.values()) and expand(left - right) != 0:
                    return h, Eq(left, right, evaluate=False)
        return None

    def rates(self, *equations: Eq) -> dict[Symbol, Expr]:
        used = set().union(*(equation.free_symbols for equation in equations))
        return {slot.letter: slot.stands_for for slot in self.slots if slot.letter in used and slot.kind != NUMBER}

    def _primed(self, gates_only: bool) -> dict[Symbol, Symbol]:
        return {slot.letter: Dummy(slot.letter.name) for slot in self.slots if slot.is_gate or not gates_only}

    def _terms(self, rate: Expr) -> dict[Expr, Expr]:
        """Products of generators, and their coefficients."""
        generators = list(self.generators.values())
        if not generators:
            return {S.One: rate}
        return {Mul(*map(Pow, generators, powers)): c for powers, c in Poly(rate, *generators).as_dict().items()}

    def _has_free_generators(self, rate: Expr) -> bool:
        """Whether there is no gate, and generators hold no parameters and none is a polynomial in others (h, tanh(h))."""

        def is_free(generator: Expr) -> bool:
            inner = generator.base if generator.is_Pow else generator.args[0] if generator.func in (tanh, sin, exp) else generator
            return inner in self.data

        gates = {slot.letter for slot in self.slots if slot.is_gate}
        return not rate.free_symbols & gates and all(map(is_free, self._generators_of(rate)))

    def _outgrowing(self, h: Expr, rate: Expr) -> tuple[Expr, Expr] | None:
        """The power of h that outgrows the rest of its rate whatever the parameters, and its coefficient."""
        unbounded_gates = [slot.letter for slot in self.slots if slot.is_gate and slot.kind != SIGMOID]
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
        """The expression with letters for slots and generators."""
        for slot in self.slots:
            if slot.stands_for == e:
                return slot.letter
        if e.is_number:
            return e
        if _is_arithmetic(e):
            return e.func(*map(self._bare, e.args))
        return self.generators.setdefault(e, Dummy("generator"))

    def _outermost(self, e: Expr) -> Iterator[Expr]:
        """What sums, products and powers are made of."""
        if _is_arithmetic(e) and self._kind(e) is None:
            for argument in e.args:
                yield from self._outermost(argument)
        else:
            yield e

    def _with_parameters_of_their_own(self, candidates: list[Expr], flow: ImmutableDenseMatrix) -> list[Slot]:
        """Only what has a parameter that stands nowhere else can be chosen freely; what has not is a generator."""
        outermost = list(dict.fromkeys(e for rate in flow for e in self._outermost(rate)))
        kept = candidates
        while True:
            own = {e: (e.free_symbols & self.parameters).difference(*(o.free_symbols for o in outermost if o != e)) for e in kept}
            if all(own.values()):
                break
            kept = [e for e in kept if own[e]]
        slots: list[Slot] = []
        for e in kept:
            kind, is_gate = self._kind(e), any(e.has(u) for u in self.data)
            letter = e if kind == NUMBER else Symbol(f"g_{1 + sum(s.kind != NUMBER for s in slots)}")
            slots.append(Slot(letter, e, str(kind), is_gate))
        return slots

    def _kind(self, e: Expr) -> str | None:
        if e in self.parameters:
            return NUMBER
        return _rate_kind(e) if e.free_symbols & self.parameters else None


def _is_arithmetic(e: Expr) -> bool:
    return e.is_Add or e.is_Mul or (e.is_Pow and e.exp.is_Integer and e.exp > 0)


def _rate_kind(e: Expr) -> str | None:
    """By what function a positive value is computed."""
    if e.func is exp:
        return EXPONENTIAL
    total = e.base if e.is_Pow and e.exp == -1 else e.args[0] if e.func is log else None
    exponents = [term.args[0] for term in total.args if term.func is exp] if total is not None and total.is_Add else []
    if len(exponents) != 1 or total != 1 + exp(exponents[0]):
        return None
    return SOFTPLUS if e.func is log else SIGMOID if e == sigma(-exponents[0]) else None


def _is_bounded(generator: Expr) -> bool:
    return generator.func in (tanh, sin, cos, sign) or _rate_kind(generator) == SIGMOID
