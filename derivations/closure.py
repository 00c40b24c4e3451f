r"""Closure under changes of time: which classes of fields contain their own warped fields.

    the theorem       on the clock c every field is multiplied by c'(t), its whole state at once
    the question      is there, for every member F and every speed c', a member F' of the same class with F' = c' F?

A field is read as a polynomial in *generators*, which stay as they are (h, x, tanh(...), |h|^r h), whose coefficients hold
*slots*, which the class is free to choose: constants (alpha, tau), and gates, which are sigmoids, exponentials or
softplus functions with a parameter of their own. Comparing coefficients gives the new slots:

    every warp    gates take up c'          g' = c' g,  f' = 1 - c' (1 - f)         c' any function of the data
    rescaling     only constants do         alpha' = c' alpha,  tau' = c' tau       c' a constant
    none          a coefficient has no slot: -h stays -h, and -c' h is needed

The first two are proved by putting the witness in. That a class absorbs no more is proved for one unit, on h, x > 0: where
the generators hold no parameters, and where one power of h outgrows all that does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from sympy import (
    Abs,
    Basic,
    Eq,
    Expr,
    S,
    Symbol,
    log,
    powsimp,
    sign,
)

from derivations.prover.verdict import FAILS, HOLDS, UNDECIDED, Verdict
from derivations.slots import EXPONENTIAL, SIGMOID, FieldReading, Slot, speed
from derivations.twins.fields import SymbolicField

__all__ = ["EVERY_WARP", "NONE", "RESCALING", "Closes", "Closure", "UnknownRate", "closed_under"]

EVERY_WARP, RESCALING, NONE = "every warp", "rescaling", "none"


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
        from derivations.tracing.symbolic import symbolic_field  # noqa: PLC0415 - twins are decided without torch

        field = symbolic_field(field)
    reading = FieldReading(field, field.flow)
    # Where h and x are positive |h| is h: fewer generators, none of them the product of others.
    positive = {known: value for u in (*field.state, *field.inputs) for known, value in ((Abs(u), u), (sign(u), S.One))}
    orthant = FieldReading(field, field.flow.xreplace(positive).applyfunc(powsimp))
    if (values := reading.absorbed_by(gates_only=True)) is not None:
        return _closure(reading, EVERY_WARP, values, None)
    values, beyond = reading.absorbed_by(gates_only=False), orthant.obstacle(gates_only=True)
    if values is not None and beyond is not None:
        return _closure(reading, RESCALING, values, beyond[0])
    if values is None and (obstacle := orthant.obstacle(gates_only=False)) is not None:
        unit, equation = obstacle
        return Closure(NONE, "c' is not 1 throughout", (equation,), reading.rates(equation), unit)
    known = "no rate that takes up a clock's speed" if values is None else "only that rescalings are absorbed"
    raise UnknownRate(
        f"of `{field.name}` was found {known}, and it is not proved that there is no more. A rate is a factor outside of "
        f"all other functions, with a parameter of its own: a constant, or a sigmoid, exp or softplus of the data."
    )


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


def _closure(reading: FieldReading, group: str, values: dict[Symbol, Expr], unit: Expr | None) -> Closure:
    changed = [slot for slot in reading.slots if values.get(slot.letter, slot.letter) != slot.letter]
    said = ["c' is a constant" if group == RESCALING else "c' is a function of the data so far"]
    if any(slot.is_gate for slot in changed):
        said.append("a gate may be any function of the data in its range")
    said += [f"0 < {values[slot.letter]} < 1" for slot in changed if slot.kind == SIGMOID]
    witness = tuple(_changed(slot, values[slot.letter]) for slot in changed)
    return Closure(group, "; ".join(said), witness, reading.rates(*witness), unit)


def _changed(slot: Slot, value: Expr) -> Eq:
    """The new value of a slot; of its parameter where the slot is exp of one."""
    if slot.kind == EXPONENTIAL and slot.stands_for.args[0].is_Symbol and value == speed * slot.letter:
        parameter = slot.stands_for.args[0]
        return Eq(Symbol(f"{parameter}'"), parameter + log(speed), evaluate=False)
    return Eq(Symbol(f"{slot.letter}'"), value, evaluate=False)
