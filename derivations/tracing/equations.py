r"""Equations as people write them, matched to the units of a module by their left sides.

    Eq(h_1(t).diff(t), F_1), ...      a field, in any order            Eq(h_1', F_1), ...     a discrete cell
    {h_1(t): F_1, ...}                the same, by unit                [F_1, F_2, ...]        in the order of the state

Letters are those of `symbolic(module)`, the same by name with other assumptions, or given by `letters`. Floats are read as the
rational numbers that they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sympy
from sympy import (
    Basic,
    Derivative,
    Eq,
    Expr,
    Float,
    Integral,
    Limit,
    MatrixBase,
    MatrixSymbol,
    Rational,
    S,
    Symbol,
)
from sympy.core.function import AppliedUndef, Subs
from sympy.logic.boolalg import BooleanAtom

from derivations.prover import symbols
from derivations.tracing.guarded import GuardedValue, certain, conditions_of, exact
from derivations.twins.fields import SymbolicField, SymbolicStep

__all__ = ["Letters", "Matched", "has_derivatives", "match"]

Letters = Mapping[Any, Any]
System = SymbolicField | SymbolicStep
SIGNS = {"positive": sympy.Gt, "negative": sympy.Lt, "nonnegative": sympy.Ge, "nonpositive": sympy.Le, "nonzero": sympy.Ne}
UNREAL = (S.NaN, S.Infinity, S.NegativeInfinity)
UNREAD = (Integral, Derivative, Limit, Subs, sympy.Sum, sympy.Product, sympy.Lambda)


@dataclass(frozen=True)
class Matched:
    """The right sides in the order of the state, in the letters of the module, and what was done to read them, in words; what is
    assumed of letters: given as relations, and carried by the letters of the equations."""

    right: tuple[GuardedValue, ...]
    notes: tuple[str, ...]
    given: tuple[Basic, ...] = ()
    assumed: tuple[Basic, ...] = ()


def has_derivatives(equations: object) -> bool:
    """Whether the left sides are those of a field."""
    return any(isinstance(e, Eq) and e.lhs.has(Derivative) for e in _listed(equations) if isinstance(e, Basic))


def match(equations: object, system: System, letters: Letters, assumptions: Iterable[Basic] = ()) -> Matched:
    r"""The given equations, one for each unit of the module.

    Raises:  ValueError for left sides that are missing, twice, unknown or of second order, for unknown letters, and for
             assumptions that are no inequalities.
    """
    notes: list[str] = []
    rename = _Renaming(system, letters)
    by_unit: dict[int, Any] = {}
    listed = _listed(equations)
    _check_times(listed)
    bare = [e for e in listed if not isinstance(e, Eq | tuple)]
    if bare and len(bare) < len(listed):
        raise ValueError("some of the equations have left sides and others have none; give all or none of them one.")
    if bare:
        if len(bare) != len(system):
            raise ValueError(f"`equations` must be one for each of the {len(system)} units, got {len(bare)}.")
        notes.append(f"equations without left sides, read in the order {', '.join(map(str, system.state))}")
    for place, equation in enumerate(listed):
        left, right = (
            (equation.lhs, equation.rhs)
            if isinstance(equation, Eq)
            else equation
            if isinstance(equation, tuple)
            else (None, equation)
        )
        unit = place if left is None else rename.unit(left, by_key=isinstance(equation, tuple))
        if unit in by_unit:
            raise ValueError(f"there are two equations for {system.state[unit]}.")
        by_unit[unit] = right
    if missing := [str(u) for k, u in enumerate(system.state) if k not in by_unit]:
        raise ValueError(f"there is no equation for {', '.join(missing)}: one is needed for each of the {len(system)} units.")
    right = tuple(rename.right(by_unit[k]) for k in range(len(system)))
    given = tuple(map(rename.assumption, assumptions))
    return Matched(right, (*notes, *rename.notes), given, tuple(rename.carried))


def _listed(equations: object) -> list[Any]:
    """Equations, (unit, right side) pairs, or right sides."""
    if isinstance(equations, SymbolicField | SymbolicStep):
        return list(equations)
    if isinstance(equations, Mapping):
        return [(left, _expression(right)) for left, right in equations.items()]
    if isinstance(equations, str) or not isinstance(equations, Basic | MatrixBase | Iterable):
        raise TypeError(f"`equations` must be SymPy's, a list or a dict of them, or UnitEquations, got {equations!r}.")
    listed = (
        [equations]
        if isinstance(equations, Basic) and not isinstance(equations, MatrixBase)
        else list(map(_expression, equations))
    )
    if any(isinstance(e, BooleanAtom) for e in listed):
        raise ValueError("an equation has become True or False by itself; write it as Eq(left, right, evaluate=False).")
    return listed


def _expression(e: object) -> Basic:
    """An equation or a right side; strings are not evaluated."""
    try:
        expression: Basic = sympy.sympify(e, strict=True)
    except sympy.SympifyError:
        expression = None
    if isinstance(expression, Expr | Eq | BooleanAtom) and not expression.is_Matrix and not expression.has(*UNREAL):
        return expression
    raise ValueError(f"`equations` have {e!r}, which is no equation between real expressions of SymPy.")


def _check_times(listed: Iterable[object]) -> None:
    parts = [part for e in listed for part in (e if isinstance(e, tuple) else (e,)) if isinstance(part, Basic)]
    times = {a for part in parts for f in part.atoms(AppliedUndef) for a in f.args if isinstance(a, Symbol)}
    if len(times) > 1:
        raise ValueError(f"the equations take functions at the times {_list(times)}; a field or cell has one.")


def _name(e: Basic) -> str | None:
    """h_1 of h_1 and of h_1(t); weight[0,1] of the entry of a matrix or of an indexed letter."""
    if isinstance(e, AppliedUndef) and all(isinstance(a, Symbol) for a in e.args):
        return e.func.__name__
    if isinstance(e, Symbol):
        return e.name
    if isinstance(e, sympy.matrices.expressions.matexpr.MatrixElement | sympy.Indexed):
        return f"{e.args[0]}[{','.join(str(i) for i in e.args[1:])}]"
    return None


class _Renaming:
    """Letters of the equations -> letters of the module."""

    def __init__(self, system: System, letters: Letters) -> None:
        self.system, self.notes, self.carried = system, list[str](), dict[Basic, None]()
        own = [*system.state, *system.inputs, *(u for matrix in system.parameters.values() for u in matrix)]
        self.own = {u for e in own for u in ({e} if _name(e) else e.free_symbols)}
        self.own |= {symbols.t} if isinstance(system, SymbolicField) else set()
        self.by_name = {str(_name(u)): u for u in self.own}
        self.by_name |= {name[:-1] + ",0]": u for name, u in self.by_name.items() if name.endswith("]") and "," not in name}
        if not isinstance(letters, Mapping):
            raise TypeError(f"`letters` must be a dict from letters of the equations to letters of the module, got {letters!r}.")
        self.given = {(Symbol(key) if isinstance(key, str) else key): self._target(value) for key, value in letters.items()}

    def _target(self, value: object) -> Basic:
        """A letter of the module by its name, or an expression."""
        return self.by_name[value] if isinstance(value, str) and value in self.by_name else _expression(value)

    def unit(self, left: Expr, by_key: bool) -> int:
        """Which unit an equation is for."""
        field = isinstance(self.system, SymbolicField)
        if isinstance(left, Derivative):
            if not field:
                raise ValueError(
                    f"{left} is a derivative, and the module a discrete cell; give `field=True` if it answers with dh/dt."
                )
            if left.derivative_count != 1:
                raise ValueError(
                    f"{left} is of order {left.derivative_count}; write a system of first order, one equation for each unit."
                )
            return self._place(left.expr, left)
        if by_key:
            return self._place(left, left)
        if field:
            raise ValueError(
                f"the left side {left} is no derivative: write Eq({self.system.left_sides[0]}, ...), or a dict by units."
            )
        return self._place(left, left, {str(u): k for k, u in enumerate(self.system.left_sides)})

    def _place(self, unit: object, left: object, names: Mapping[str, int] | None = None) -> int:
        unit = self.given.get(Symbol(unit) if isinstance(unit, str) else unit, unit)
        names = names or {str(_name(u)): k for k, u in enumerate(self.system.state)}
        name = unit if isinstance(unit, str) else str(_name(unit))
        if name not in names:
            raise ValueError(
                f"the left side {left} is of no unit of the module, which has {', '.join(map(str, names))}; say which by "
                f"`letters`, as letters={{{unit}: {self.system.state[0]}}}."
            )
        return names[name]

    def right(self, e: Any) -> GuardedValue:
        matrices = {key: value for key, value in self.given.items() if isinstance(key, MatrixSymbol)}
        written = sympy.sympify(e, strict=True)
        e = written.subs(matrices).doit()
        if e.has(*UNREAD):
            raise ValueError(f"{next(iter(e.atoms(*UNREAD)))} is no function of the letters at one time.")
        # Before anything is evaluated, too: h/h is 1 where h is not 0, and exp(log(h)) is h where h is positive.
        where = conditions_of(written) | conditions_of(e)
        if floats := e.atoms(Float):
            self._note(
                f"floats read as the rationals that they are ({min(floats)} and others)"
                if len(floats) > 1
                else f"the float {min(floats)} read as the rational that it is"
            )
        numbers = {f: _number(f) for f in floats.union(*(c.atoms(Float) for c in where))}
        e, where = e.xreplace(numbers), frozenset(c.xreplace(numbers) for c in where)
        renamed = {u: self._own(u) for u in _letters_in(e).union(*map(_letters_in, where))}
        # Of letters without assumptions less is certain than of the module's, which are real.
        return GuardedValue(e.xreplace(renamed), frozenset(c for c in (c.xreplace(renamed) for c in where) if not certain(c)))

    def assumption(self, condition: Basic) -> Basic:
        """A relation between letters of the module."""
        if isinstance(condition, BooleanAtom | bool):
            raise ValueError(
                f"an assumption is {condition} by itself, for its letter carries assumptions already: write it with letters of "
                "`symbolic(module)`."
            )
        if not isinstance(condition, sympy.Gt | sympy.Ge | sympy.Lt | sympy.Le | sympy.Ne):
            raise ValueError(f"`assumptions` are relations as tau > 0, got {condition!r}.")
        exact = {f: Rational(f) for f in condition.atoms(Float)}
        return condition.xreplace(exact).xreplace({u: self._own(u) for u in _letters_in(condition)})

    def _own(self, letter: Expr) -> Expr:
        if letter in self.given:
            value = self.given[letter]
            if strangers := _letters_in(value) - self.own:
                raise ValueError(f"`letters` takes {letter} to {value}, where {_list(strangers)} is no letter of the module.")
            return value
        if letter in self.own:
            return letter
        if Symbol(str(_name(letter))) in self.given:
            return self.given[Symbol(str(_name(letter)))]
        if (same := self.by_name.get(str(_name(letter)))) is None:
            raise ValueError(
                f"`equations` use {letter}, which the module has not; write them in the letters of `symbolic(module)`, or say by "
                f"`letters` which it is."
            )
        for fact, relation in SIGNS.items():
            if getattr(letter, f"is_{fact}") and not getattr(same, f"is_{fact}"):
                self.carried.setdefault(relation(same, 0))
                break
        self._note(f"the letters of the equations are the module's by name, whatever is assumed of them ({letter})")
        return same

    def _note(self, note: str) -> None:
        if note not in self.notes and not any(n.split("(")[0] == note.split("(", maxsplit=1)[0] for n in self.notes):
            self.notes.append(note)


def _number(f: Float) -> Expr:
    return exact(float(f)) if Rational(f) == Rational(*float(f).as_integer_ratio()) else Rational(f)


def _letters_in(e: Basic) -> set[Expr]:
    """Values of functions of time, entries of matrices, and the letters outside of these."""
    if _name(e) is not None or isinstance(e, AppliedUndef):
        return {e}
    return set().union(*(_letters_in(a) for a in e.args)) if e.args else set()


def _list(letters: Iterable[Basic]) -> str:
    return ", ".join(sorted(map(str, letters)))
