r"""Which classes of fields contain their own warped fields.

    the theorem       on the clock c every field is multiplied by c'(t), its whole state at once
    the question      is there, for every member F and every speed c', a member F' of the same class with F' = c' F?

A field is read as a polynomial in *leaves*, which stay as they are (h, x, tanh(...), |h|^r h), whose coefficients hold
*slots*, which the class is free to choose: constants (alpha, tau), and gates, which are sigmoids, exponentials or
softplus functions with a parameter of their own. Comparing coefficients gives the new slots:

    every warp    gates take up c'          g' = c' g,  f' = 1 - c' (1 - f)         c' any function of the data
    rescaling     only constants do         alpha' = c' alpha,  tau' = c' tau       c' a constant
    none          a coefficient has no slot: -h stays -h, and -c' h is needed

The first two are proved by putting the witness in. That a class absorbs no more is proved for one unit, on h, x > 0: where
the leaves hold no parameters, and where one power of h outgrows all that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from sympy import (
    Abs,
    Basic,
    Dummy,
    Eq,
    Expr,
    ImmutableDenseMatrix,
    Mul,
    Poly,
    Pow,
    S,
    Symbol,
    cos,
    exp,
    expand,
    log,
    powsimp,
    sign,
    sin,
    solve,
    tanh,
)

from derivations.prover.identity import FAILS, HOLDS, UNDECIDED, Identity, Verdict, check
from derivations.twins.fields import SymbolicField, sigma

__all__ = ["EVERY_WARP", "NONE", "RESCALING", "Closes", "Closure", "UnknownRate", "closed_under"]

EVERY_WARP, RESCALING, NONE = "every warp", "rescaling", "none"
SIGMOID, EXPONENTIAL, SOFTPLUS, NUMBER = "sigmoid", "exponential", "softplus", "number"

speed = Symbol("c'", positive=True)


class UnknownRate(ValueError):  # noqa: N818 - said of the field's rate, as `UnknownOperation` of its operations
    """It is neither found that the class takes up a clock's speed nor proved that it does not."""


@dataclass(frozen=True)
class Closure:
    r"""What a class of fields absorbs.

    Args:    group: "every warp", "rescaling" or "none"; assumption: in words, what the clock and the rates must satisfy;
             witness: for the first two Eq(new value, value in the old ones and c') of each constant and gate that
             changes; for "none" the equation between coefficients that no member of the class meets;
             rates: what the letters of the witness stand for; unit: the unit that stands in the way of more.
    Source:  this project; the question is that of Tallec and Ollivier 2018, sec. 1.
    """

    group: str
    assumption: str
    witness: tuple[Eq, ...]
    rates: dict[Symbol, Expr] = field(default_factory=dict)
    unit: Expr | None = None


def closed_under(field: Any) -> Closure:
    r"""Whether the class of a field (its equations, with all values of its parameters) contains its warped fields.

    Args:    field: a small ctrnn.VectorField, traced from its own code, or a `SymbolicField`.
    Returns: a `Closure`.
    Raises:  TypeError for what is not a field; `UnknownRate` where neither answer is proved; for torch fields also what
             `symbolic` raises.
    Source:  Tallec and Ollivier 2018, sec. 1 and eqs. (4), (7) and (10); the decision is this project's.
    """
    if not isinstance(field, SymbolicField):
        from derivations.agreement import symbolic  # noqa: PLC0415 - twins are decided without torch

        field = symbolic(field)
    reading = _Reading(field, field.flow)
    # Where h and x are positive |h| is h: fewer leaves, none of them the product of others.
    positive = {known: value for u in (*field.state, *field.inputs) for known, value in ((Abs(u), u), (sign(u), S.One))}
    orthant = _Reading(field, field.flow.xreplace(positive).applyfunc(powsimp))
    if (values := reading.absorbed_by(gates_only=True)) is not None:
        return reading.closed(EVERY_WARP, values, None)
    values, beyond = reading.absorbed_by(gates_only=False), orthant.obstacle(gates_only=True)
    if values is not None and beyond is not None:
        return reading.closed(RESCALING, values, beyond[0])
    if values is None and (obstacle := orthant.obstacle(gates_only=False)) is not None:
        unit, equation = obstacle
        return Closure(NONE, "c' is not 1 throughout", (equation,), reading.rates(equation), unit)
    known = "no rate that takes up a clock's speed" if values is None else "only that rescalings are absorbed"
    raise UnknownRate(
        f"of `{field.name}` was found {known}, and it is not proved that there is no more. A rate is a factor outside of "
        f"all other functions, with a parameter of its own: a constant, or a sigmoid, exp or softplus of the data."
    )


@dataclass(frozen=True)
class _Slot:
    letter: Symbol
    stands_for: Expr
    kind: str
    is_gate: bool


class _Reading:
    """A field as polynomials in its leaves, with slots in their coefficients."""

    def __init__(self, field: SymbolicField, flow: ImmutableDenseMatrix) -> None:
        self.state, self.data = field.state, {*field.state, *field.inputs}
        self.parameters = {u for matrix in field.parameters.values() for u in matrix.free_symbols}
        candidates = dict.fromkeys(e for rate in flow for e in self._outermost(rate) if self._kind(e))
        self.slots = self._with_parameters_of_their_own(list(candidates), flow)
        self.leaves: dict[Expr, Symbol] = {}
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
            # A gate may be any function, a combination of leaves too: coefficients count only where there is none.
            terms = self._terms(rate) if self._has_free_leaves(rate) else {} if top is None else {top[0]: top[1]}
            for coefficient in terms.values():
                left, right = coefficient.xreplace(new), speed * coefficient
                if not left.free_symbols & set(new.values()) and expand(left - right) != 0:
                    return h, Eq(left, right, evaluate=False)
        return None

    def closed(self, group: str, values: dict[Symbol, Expr], unit: Expr | None) -> Closure:
        changed = [slot for slot in self.slots if values.get(slot.letter, slot.letter) != slot.letter]
        said = ["c' is a constant" if group == RESCALING else "c' is a function of the data so far"]
        if any(slot.is_gate for slot in changed):
            said.append("a gate may be any function of the data in its range")
        said += [f"0 < {values[slot.letter]} < 1" for slot in changed if slot.kind == SIGMOID]
        witness = tuple(_changed(slot, values[slot.letter]) for slot in changed)
        return Closure(group, "; ".join(said), witness, self.rates(*witness), unit)

    def rates(self, *equations: Eq) -> dict[Symbol, Expr]:
        used = set().union(*(equation.free_symbols for equation in equations))
        return {slot.letter: slot.stands_for for slot in self.slots if slot.letter in used and slot.kind != NUMBER}

    def _primed(self, gates_only: bool) -> dict[Symbol, Symbol]:
        return {slot.letter: Dummy(slot.letter.name) for slot in self.slots if slot.is_gate or not gates_only}

    def _terms(self, rate: Expr) -> dict[Expr, Expr]:
        """Products of leaves, and their coefficients."""
        leaves = list(self.leaves.values())
        if not leaves:
            return {S.One: rate}
        return {Mul(*map(Pow, leaves, powers)): c for powers, c in Poly(rate, *leaves).as_dict().items()}

    def _has_free_leaves(self, rate: Expr) -> bool:
        """Whether leaves hold no parameters and none is a polynomial in others (h, h^r, tanh(h), ...), and there is no gate."""

        def is_free(leaf: Expr) -> bool:
            inner = leaf.base if leaf.is_Pow else leaf.args[0] if leaf.func in (tanh, sin, exp) else leaf
            return inner in self.data

        gates = {slot.letter for slot in self.slots if slot.is_gate}
        return not rate.free_symbols & gates and all(map(is_free, self._leaves_of(rate)))

    def _outgrowing(self, h: Expr, rate: Expr) -> tuple[Expr, Expr] | None:
        """The power of h that outgrows the rest of its rate whatever the parameters, and its coefficient."""
        unbounded_gates = [slot.letter for slot in self.slots if slot.is_gate and slot.kind != SIGMOID]
        growing = [leaf for leaf in self._leaves_of(rate) if leaf.has(h) and not _is_bounded(leaf)]
        if len(growing) != 1 or rate.has(*unbounded_gates):
            return None
        (leaf,) = growing
        if not (leaf == h or (leaf.is_Pow and leaf.base == h and leaf.exp.is_positive)):
            return None
        letter = self.leaves[leaf]
        (power,), coefficient = max(Poly(rate, letter).as_dict().items())
        if not power or coefficient.free_symbols & set(self.leaves.values()):
            return None
        return letter**power, coefficient

    def _leaves_of(self, rate: Expr) -> list[Expr]:
        return [leaf for leaf, letter in self.leaves.items() if letter in rate.free_symbols]

    def _bare(self, e: Expr) -> Expr:
        """The expression with letters for slots and leaves."""
        for slot in self.slots:
            if slot.stands_for == e:
                return slot.letter
        if e.is_number:
            return e
        if _is_arithmetic(e):
            return e.func(*map(self._bare, e.args))
        return self.leaves.setdefault(e, Dummy("leaf"))

    def _outermost(self, e: Expr) -> Iterator[Expr]:
        """What sums, products and powers are made of."""
        if _is_arithmetic(e) and self._kind(e) is None:
            for argument in e.args:
                yield from self._outermost(argument)
        else:
            yield e

    def _with_parameters_of_their_own(self, candidates: list[Expr], flow: ImmutableDenseMatrix) -> list[_Slot]:
        """Only what has a parameter that stands nowhere else can be chosen freely; what has not is a leaf."""
        outermost = list(dict.fromkeys(e for rate in flow for e in self._outermost(rate)))
        kept = candidates
        while True:
            own = {e: (e.free_symbols & self.parameters).difference(*(o.free_symbols for o in outermost if o != e)) for e in kept}
            if all(own.values()):
                break
            kept = [e for e in kept if own[e]]
        slots: list[_Slot] = []
        for e in kept:
            kind, is_gate = self._kind(e), any(e.has(u) for u in self.data)
            letter = e if kind == NUMBER else Symbol(f"g_{1 + sum(s.kind != NUMBER for s in slots)}")
            slots.append(_Slot(letter, e, str(kind), is_gate))
        return slots

    def _kind(self, e: Expr) -> str | None:
        if e in self.parameters:
            return NUMBER
        return _rate_kind(e) if e.free_symbols & self.parameters else None


def _changed(slot: _Slot, value: Expr) -> Eq:
    """The new value of a slot; of its parameter where the slot is exp of one."""
    if slot.kind == EXPONENTIAL and slot.stands_for.args[0].is_Symbol and value == speed * slot.letter:
        parameter = slot.stands_for.args[0]
        return Eq(Symbol(f"{parameter}'"), parameter + log(speed), evaluate=False)
    return Eq(Symbol(f"{slot.letter}'"), value, evaluate=False)


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


def _is_bounded(leaf: Expr) -> bool:
    return leaf.func in (tanh, sin, cos, sign) or _rate_kind(leaf) == SIGMOID


@dataclass(frozen=True)
class Closes:
    r"""The class of a field absorbs this group of clocks: a statement, decided by `closed_under`.

    Args:    field: a symbolic twin; group: as in `Closure`.
    Source:  this project.
    """

    field: SymbolicField
    group: str
    kind = "closure"

    def formulas(self) -> tuple[Basic, ...]:
        return closed_under(self.field).witness

    def decide(self) -> Verdict:
        start = perf_counter()
        try:
            found = closed_under(self.field)
        except UnknownRate as unknown:
            return Verdict(UNDECIDED, perf_counter() - start, str(unknown))
        witness = "; ".join(f"{equation.lhs} = {equation.rhs}" for equation in found.witness)
        evidence = f"it absorbs {found.group if found.group != NONE else 'no clock'}, for {found.assumption}: {witness}"
        if found.unit is not None:
            evidence += f"; no more, because of {found.unit}"
        if found.group == self.group:
            return Verdict(HOLDS, perf_counter() - start, evidence)
        return Verdict(FAILS, perf_counter() - start, evidence, {Symbol("group"): Symbol(found.group)})
