r"""Closure under changes of time: which classes of fields contain their own warped fields.

    the theorem       on the clock c every field is multiplied by c'(t), its whole state at once
    the question      is there, for every member F and every speed c', a member F' of the same class with F' = c' F?

A field is read as a polynomial in *generators*, which stay as they are (h, x, tanh(...), |h|^r h), whose coefficients hold
*slots*, which the class is free to choose: constants (alpha, tau), and gates, which are sigmoids, exponentials or
softplus functions with a parameter of their own. Comparing coefficients gives the new slots:

    warps         gates take up c'          g' = c' g,  f' = 1 - c' (1 - f)         c' any function of what they read
    rescaling     only constants do         alpha' = c' alpha,  tau' = c' tau       c' a constant
    none          a coefficient has no slot: -h stays -h, and -c' h is needed

Noise, dh = F dt + G dW, becomes sqrt(c') G dW; its law, in Ito's calculus, depends on G G^T alone, which c' multiplies as it
does F: so of a field with noise all of these are compared.

"Every warp" is said of gates that read all data and take any positive multiple; else the group's word has their range, or
that c' may depend on what they read alone: see `derivations.rules.groups`. The first two are proved by putting the
witness in. That a class absorbs no more is proved for speeds that at each time are one number for all states and inputs: of
one unit, on h, x > 0, where the products of generators hold no parameters and are linearly independent, and where one power of
h outgrows all that does; and, that only constants are absorbed, of a class without gates: c' = F'/F at any one point is a
constant. Where rescaling is proved and this is not, the word is "rescaling, at least".

All of this is of fields F(x(t), h(t)): what reads t itself, x'(t), x(t - 1) or an integral over the past is refused, for on the
clock that changes too, and not by a factor c' alone. The checker looks for this, and runs before an answer is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

from sympy import Abs, Basic, Dummy, Eq, Expr, Function, ImmutableDenseMatrix, S, Symbol, exp, log, powsimp, sign, sqrt
from sympy.core.function import AppliedUndef

from derivations.argument.clocks import read_elsewhere
from derivations.prover.notebook import Cells, NotebookTable, certificate_words
from derivations.prover.reading import Reading, Unreadable
from derivations.prover.timelimit import OutOfTime, time_limit
from derivations.prover.verdict import FAILS, HOLDS, SECONDS, UNDECIDED, Verdict, timed
from derivations.ranges import REALS, inside, is_cone, named
from derivations.rules.conclusions import concludes
from derivations.rules.groups import AT_LEAST, EVERY_WARP, NONE, RESCALING, WITHIN_UNIT, group_name
from derivations.rules.quotients import NotShown
from derivations.rules.terms import Term, taken
from derivations.slots import Absorbed, FieldReading, Obstacle, Slot, speed
from derivations.twins.fields import SymbolicField

__all__ = ["EVERY_WARP", "NONE", "RESCALING", "WITHIN_UNIT", "Closes", "Closure", "UnknownRate", "closed_under"]

AMONG = "at each time is one number for all states and inputs"


class UnknownRate(ValueError):  # noqa: N818 - said of the field's rate, as `UnknownOperation` of its operations
    """It is neither found that the class takes up a clock's speed nor proved that it does not."""


@dataclass(frozen=True)
class Closure(NotebookTable):
    r"""Says which changes of time a class of fields absorbs; `print` shows it as text, a notebook as a table.

    Args:    group: "every warp", "rescaling" or "none", or which of them: "warps that keep its gates in (0, 1)", "warps of
             what its gates read", "rescaling that keeps its rates in (0, 1)"; "rescaling, at least", where that is proved, and
             neither that more is absorbed nor that it is not; assumption: in words, what the clock and the
             rates must satisfy, of which c' it is said, and which numbers must not be 0; witness: Eq(new value, value in
             the old ones and c') of each constant and gate that changes; for "none" the equation between coefficients
             that no member of the class meets; rates: what the letters of the witness stand for; unit: the unit that
             stands in the way of more; certificate: the equalities F' = c' F of each unit, and numbers at which
             coefficients differ.
    Source:  this project; the question is that of Tallec and Ollivier 2018, sec. 1.
    """

    group: str
    assumption: str
    witness: tuple[Eq, ...]
    rates: dict[Symbol, Expr] = field(default_factory=dict)
    unit: Expr | None = None
    certificate: tuple[Any, ...] = field(default=(), repr=False)

    def _rows(self) -> Iterable[tuple[str, Cells]]:
        yield "absorbs", [self.group if self.group != NONE else "no clock"]
        yield "for", self.assumption.split("; ")
        yield ("no member meets" if self.group == NONE else "by"), self.witness
        yield "where", [Eq(letter, e, evaluate=False) for letter, e in self.rates.items()]
        yield "no more because of", [self.unit] if self.unit is not None else []
        yield "to be checked", certificate_words(self.certificate)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def closed_under(field: Any, free: Iterable[str] | None = None, seconds: float | None = SECONDS) -> Closure:
    r"""Whether the class of a field (its equations, with all values of its free parameters) contains its warped fields.

        >>> closed_under(ctrnn.leaky(1, 2, alpha=0.4)).group  # alpha absorbs c(t) = a t, and no other clock
        'rescaling'

    Args:    field: a small ctrnn.VectorField or ctrnn.DelayedField, traced from its own code, or a `SymbolicField`; free: names
             of the parameters that the class may choose; if not given, those of a torch field with requires_grad, and all of a
             `SymbolicField`. All others, buffers too, stay as they are; seconds: after which no answer is given, None for no
             limit.
    Returns: a `Closure`, whose certificate the checker has accepted.
    Raises:  TypeError for what is not a field; ValueError for names that are no parameters, and for a field that reads another
             time than now (t itself, x'(t), x(t - 1), an integral), or what is neither state nor input; `UnknownRate` where
             nothing is proved in time; for torch fields also what `symbolic` raises.
    Source:  Tallec and Ollivier 2018, sec. 1 and eqs. (4), (7) and (10); the decision is this project's.
    """
    try:
        with time_limit(seconds):
            return _closed_under(field, free)
    except OutOfTime:
        raise UnknownRate(
            f"out of time after {seconds:g} s, while it was looked for which clocks {type(field).__name__} absorbs."
        ) from None


def _closed_under(field: Any, free: Iterable[str] | None) -> Closure:
    if not isinstance(field, SymbolicField):
        from derivations.tracing.symbolic import symbolic_field, with_past  # noqa: PLC0415 - twins are decided without torch

        if (late := with_past(field)) is not None:
            return _closed_with_delays(late, free)
        traced = symbolic_field(field)
        if free is None:
            free = [name for name, parameter in field.named_parameters() if parameter.requires_grad]
        field = traced
    reading, orthant = _readings(field, free)
    verdict = _decided(field, reading, orthant)
    try:
        accepted = concludes(_says(reading, orthant, verdict.group), verdict.certificate).true
    except (NotShown, Unreadable) as refused:
        raise UnknownRate(f"of `{field.name}` the checker does not accept the proof that was found: {refused}") from None
    assert accepted, verdict.group
    return verdict


def _decided(field: SymbolicField, reading: FieldReading, orthant: FieldReading) -> Closure:
    if (found := reading.absorbed_by(gates_only=True)) is not None:
        return _closure(reading, found, False, None)
    if (found := reading.absorbed_by(gates_only=False)) is not None:
        return _closure(reading, found, True, orthant.obstacle(gates_only=True) or reading.autonomous())
    if (obstacle := orthant.obstacle(gates_only=False)) is not None:
        said = "; ".join((f"c' is not 1 throughout, and {AMONG}", *obstacle.conditions))
        rates = orthant.rates(obstacle.equation)
        return Closure(NONE, said, (obstacle.equation,), rates, obstacle.unit, obstacle.certificate)
    raise UnknownRate(
        f"in `{field.name}` no rate was found that takes up a clock's speed, and it is not proved that there is none. A rate is "
        "a factor outside of all other functions, with a free parameter of its own: a constant, or a sigmoid, exp or softplus "
        "of the data, with free weights for all of them and a free bias. A gate that is read in another function too, as f in "
        "f (tanh(w f h) - h), is not seen as one; a cell with a second gate in that place, as the GRU, is decided."
    )


def _closed_with_delays(late: Any, free: Iterable[str] | None) -> Closure:
    """Find what a field with delays absorbs: its past is an input, read at t - d, and on the clock c at t - c^-1(c(t) - d)."""
    field, names = late.field, [free] if isinstance(free, str) else free
    chosen = [name for name, p in field.named_parameters() if p.requires_grad] if names is None else list(names)
    verdict = _closed_under(late, [f"field.{name}" for name in chosen if name != "delays"])
    read = (*verdict.witness, *verdict.rates.values())
    renamed = {each: Symbol(each.name.removeprefix("field."), **each.assumptions0) for e in read for each in e.free_symbols}
    rates = {rate: stands_for.xreplace(renamed) for rate, stands_for in verdict.rates.items()}
    witness = [Eq(e.lhs.xreplace(renamed), e.rhs.xreplace(renamed), evaluate=False) for e in verdict.witness]
    verdict = replace(verdict, witness=tuple(witness), rates=rates)
    if verdict.group == NONE:
        return verdict
    c, inverse, t = Function("c"), Function("c^-1"), Symbol("t", real=True)
    delays = [Symbol(f"d_{k + 1}", positive=True) for k in range(field.count)]
    if field.of_time:
        moved = [Eq(Function(f"{d}'")(t), t - inverse(c(t) - Function(str(d))(c(t))), evaluate=False) for d in delays]
        said = f"{verdict.assumption}; the delays may be any functions of time"
        return replace(verdict, assumption=said, witness=(*verdict.witness, *moved))
    kept = (
        "a delay stays one number where c(t) - c(t - d') = d at all t: for every d on affine clocks alone, for one d also where "
    )
    if "delays" not in chosen:
        stay = tuple(Eq(c(t) - c(t - d), d, evaluate=False) for d in delays)
        said = f"{kept}c(t) - t has it as a period; the delays are not free, so that no c' but 1 is absorbed at constant speed"
        return replace(verdict, group=NONE, assumption=said, witness=stay, unit=delays[0])
    group = verdict.group.replace(EVERY_WARP, RESCALING).replace("warps", RESCALING)
    scaled = tuple(Eq(Symbol(f"{d}'", positive=True), d / speed, evaluate=False) for d in delays)
    _, *rest = verdict.assumption.split("; ")
    said = "; ".join(["c' is a constant", *rest, f"{kept}c has a periodic part with the period d'"])
    return replace(verdict, group=group, assumption=said, witness=(*verdict.witness, *scaled), unit=delays[0])


def _readings(field: SymbolicField, free: Iterable[str] | None) -> tuple[FieldReading, FieldReading]:
    """The field anywhere, and where its state and input are positive."""
    _check_reads(field)
    chosen = _letters(field, free)
    flow, units = _multiplied(field)
    # There |h| is h: fewer generators, none of them the product of others.
    positive = {known: value for u in (*field.state, *field.inputs) for known, value in ((Abs(u), u), (sign(u), S.One))}
    there = flow.xreplace(positive).applyfunc(powsimp)
    return FieldReading(field, flow, chosen, units), FieldReading(field, there, chosen, units, "_of_positive")


def _check_reads(field: SymbolicField) -> None:
    """Raise ValueError if the field is not one of x(t) and h(t), now, alone."""
    data = {*field.state, *field.inputs}
    times = {u.args[0] if len(u.args) == 1 else u for u in data}
    (t, *others) = sorted(times, key=str)
    flow, _ = _multiplied(field)
    letters = flow.free_symbols
    if others or not (t.is_Symbol and all(isinstance(u, AppliedUndef) for u in data)):
        raise ValueError(f"state and inputs of `{field.name}` must be functions of one time, as h_1(t), x_1(t).")
    if speed in letters:
        raise ValueError(f"`{field.name}` has the letter {speed}, the speed of a clock here; give it another name.")
    twins = (u for u in letters if u.name == t.name and u != t)
    now = [t] if flow.xreplace({u: Dummy() for u in data}).has(t) else []
    read = next(chain(twins, read_elsewhere(flow, data, t), now), None)
    if read is not None:
        raise ValueError(
            f"`{field.name}` reads {read}, and on a clock that is another function of time, not the same one c' times: which "
            "clocks are absorbed is decided for fields of the state and the inputs at the present time alone. Make it an input "
            "of its own, played on the clock as the others are, or a unit of the state with its own equation."
        )


def _multiplied(field: SymbolicField) -> tuple[ImmutableDenseMatrix, tuple[Expr, ...]]:
    """What a clock multiplies by its speed, dh/dt and, of Ito's equation, G G^T, with what each of it is called."""
    if field.diffusion is None:
        return field.flow, field.state
    square, units = field.diffusion * field.diffusion.T, range(len(field))
    entries = {Symbol(f"(G G^T)_{{{i + 1},{j + 1}}}"): square[i, j] for i in units for j in units if i <= j and square[i, j] != 0}
    return ImmutableDenseMatrix([*field.flow, *entries.values()]), (*field.state, *entries)


def _letters(field: SymbolicField, free: Iterable[str] | None) -> frozenset[Symbol]:
    names = list(field.parameters if free is None else [free] if isinstance(free, str) else free)
    if unknown := [name for name in names if name not in field.parameters]:
        raise ValueError(f"`free` names {unknown[0]!r}; `{field.name}` has the parameters {', '.join(field.parameters)}.")
    return frozenset().union(*(field.parameters[name].free_symbols for name in names))


@dataclass(frozen=True)
class Closes:
    r"""The class of a field absorbs this group of clocks: a statement, decided by `closed_under`.

    Args:    field: a symbolic twin; group: as in `Closure`.
    """

    field: SymbolicField
    group: str
    kind = "closure"

    @cached_property
    def _found(self) -> Closure:
        return closed_under(self.field)

    def formulas(self) -> tuple[Basic, ...]:
        return self._found.witness

    def says(self) -> dict[str, Any]:
        return _says(*_readings(self.field, None), self.group)

    def decide(self, seconds: float | None = SECONDS) -> Verdict:
        return timed(self._decide, self.kind, seconds)

    def _decide(self) -> Verdict:
        try:
            found = self._found
        except ValueError as unknown:
            return Verdict(UNDECIDED, 0.0, str(unknown))
        witness = "; ".join(f"{equation.lhs} = {equation.rhs}" for equation in found.witness)
        evidence = f"it absorbs {found.group if found.group != NONE else 'no clock'}, for {found.assumption}: {witness}"
        if found.unit is not None:
            evidence += f"; no more, because of {found.unit}"
        word, numbers = (HOLDS, None) if found.group == self.group else (FAILS, {Symbol("group"): Symbol(found.group)})
        if found.group.endswith(AT_LEAST) and self.group not in (found.group, NONE):
            return Verdict(UNDECIDED, 0.0, evidence)
        return Verdict(word, 0.0, evidence, numbers, certificate=found.certificate)


def _says(reading: FieldReading, orthant: FieldReading, group: str) -> dict[str, Any]:
    """Say, as terms: a member F' of the class and c' F, unit by unit; F and its coefficients, beside c' times each; what each of
    their letters stands for, by which the checker sees what it reads; the values that slots take."""
    terms, data = Reading(), sorted(reading.data, key=str)

    def read(expressions: Iterable[Expr]) -> list[Term]:
        return [taken(terms.term(e)) for e in expressions]

    def both(expressions: Iterable[Expr]) -> list[tuple[Term, ...]]:
        return [tuple(read((e, speed * e))) for e in expressions]

    slots = [
        {"new": new, "old": old, "stands for": e, "range": "" if slot.values == REALS else named(slot.values),
         "is cone": is_cone(slot.values)}
        for slot in reading.slots for new, old, e in [read((slot.new, slot.letter, slot.stands_for))]
    ]  # fmt: skip
    kinds = {slot.letter: slot.is_gate for slot in reading.slots}
    if any(kinds.get(slot.letter) != slot.is_gate for slot in orthant.slots):
        raise NotShown("where state and input are positive, other rates can be chosen")
    letters = [table for r in (reading, orthant) for table in (r.generators, r.fixed)]
    return {
        "kind": "closure", "group": group, "member": read(reading.member()),
        "flow": read(speed * ImmutableDenseMatrix(reading.flow)), "field": both(reading.given),
        "coefficients": both(orthant.coefficients()), "speed": read([speed])[0], "slots": slots,
        "stands for": {terms.term(letter): read([e])[0] for table in letters for e, letter in table.items()},
        "data": read(data), "time": read(data[0].args)[0], "free": read(sorted(reading.free, key=str)),
    }  # fmt: skip


def _closure(reading: FieldReading, found: Absorbed, constant: bool, beyond: Obstacle | None) -> Closure:
    values = found.values
    changed = [slot for slot in reading.slots if values.get(slot.letter, slot.letter) != slot.letter]
    leaving = [slot for slot in changed if slot.may_leave(values[slot.letter])]
    gates = [slot for slot in changed if slot.is_gate]
    reads_all = all(slot.reads == reading.data for slot in gates)
    group = group_name(constant, [named(slot.values) for slot in leaving], reads_all)
    said = ["c' is a constant" if constant else f"c' is a function of {_read_by(reading, gates)}"]
    if gates:
        said.append(f"a gate may be any function of {'the data' if reads_all else 'what it reads'} in its range")
    said += [inside(values[slot.letter], slot.values) for slot in leaving]
    said += found.conditions
    if constant and beyond is None:
        group += AT_LEAST
        said.append("whether other clocks are absorbed is not proved")
    if beyond is not None:
        said += [f"no other c' is absorbed that {AMONG}", *beyond.conditions]
    witness = tuple(_changed(slot, values[slot.letter]) for slot in changed)
    certificate = (*found.certificate, *(beyond.certificate if beyond else ()))
    return Closure(group, "; ".join(said), witness, reading.rates(*witness), beyond and beyond.unit, certificate)


def _read_by(reading: FieldReading, gates: Iterable[Slot]) -> str:
    """Say what all of the gates read: all data, some, or none."""
    common = reading.data.intersection(*(slot.reads for slot in gates))
    if common == reading.data:
        return "the data so far"
    return ", ".join(sorted(map(str, common))) + ", which the gates read" if common else "nothing: a constant"


def _changed(slot: Slot, value: Expr) -> Eq:
    """The new value of a slot; of its parameter where the slot is exp of one, or its square."""
    if slot.stands_for.func is exp and slot.stands_for.args[0].is_Symbol and value == speed * slot.letter:
        parameter = slot.stands_for.args[0]
        return Eq(Symbol(f"{parameter}'"), parameter + log(speed), evaluate=False)
    if slot.stands_for.is_Pow and slot.stands_for.exp == 2 and slot.stands_for.base.is_Symbol and value == speed * slot.letter:
        return Eq(Symbol(f"{slot.stands_for.base}'"), slot.stands_for.base * sqrt(speed), evaluate=False)
    return Eq(Symbol(f"{slot.letter}'"), value, evaluate=False)
