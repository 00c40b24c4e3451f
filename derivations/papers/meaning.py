r"""Puts definitions, equations of motion and intervals in place of letters, and lets all else stand as it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sympy import Add, Basic, Derivative, Dummy, Expr, Function, Integer, Integral, Limit, Mul, Subs, Sum, Symbol, evaluate
from sympy.core.function import AppliedUndef

from derivations.papers.letters import Letter
from derivations.prover.statements import Statement
from derivations.prover.verdict import UNDECIDED, Verdict

__all__ = ["Definition", "Known", "Meaning", "Meant"]

MOST_TERMS = 50  # of a sum that is written out
MOST_PARTS = 20_000  # of an expression


@dataclass(frozen=True)
class Definition:
    """What a letter, the value of a function, its derivative or a value at one place is; label: of the line that says so;
    supposed: whether that is no definition, but restricts what a function can be."""

    left: Expr
    value: Expr
    label: str
    supposed: bool = False

    @property
    def name(self) -> str:
        left = self.left.args[0] if isinstance(self.left, Derivative) else self.left
        return str(left.func.__name__ if isinstance(left, AppliedUndef) else left.name)


@dataclass
class Known:
    """Keeps what was said so far: letters, definitions, derivatives of functions, values at places."""

    letters: dict[str, Letter]
    definitions: dict[str, Definition] = field(default_factory=dict)
    rates: dict[str, Definition] = field(default_factory=dict)
    starts: dict[Expr, Definition] = field(default_factory=dict)


class Meaning:
    """Puts in what is known, for one claim, and notes what was used: definitions, what is supposed, letters, and values
    of functions that are left.

    Args:    known; left: letters that stay as they are: a path, and the time by which derivatives are yet to be taken.
    """

    def __init__(self, known: Known, left: Sequence[str] = ()) -> None:
        self.known, self.left = known, frozenset(left)
        self.defined: dict[str, Definition] = {}
        self.supposed: dict[str, Definition] = {}
        self.letters: dict[str, Letter] = {name: known.letters[name] for name in left}
        self.parts, self.values = 0, set[Expr]()
        self.within: dict[Expr, tuple[Expr, Expr]] = {}  # p -> (letter, its value in p)

    def of(self, e: Expr) -> Expr:
        r"""Put in what is known.

        Raises:  ValueError for a derivative of what is not said to depend on its letter.
        """
        with evaluate(False):
            return self._in(e, self.left)

    def place(self, time: Symbol) -> Expr:
        """Return a letter that is left as a value of its interval, if it has one."""
        with evaluate(False):
            return self._inside(time, time.name)

    def value(self, name: str) -> Expr:
        """Return a letter, or the value of a function at its own arguments."""
        letter = self.known.letters[name]
        return letter.symbol(*map(self.value, letter.arguments)) if letter.arguments else letter.symbol

    def _in(self, e: Any, left: frozenset[str] = frozenset()) -> Any:
        """Put in all but for the letters that are left: those that derivatives are taken by."""
        self.parts += 1
        if self.parts > MOST_PARTS:
            raise ValueError(f"it has more than {MOST_PARTS} parts when definitions are put in")
        if isinstance(e, Derivative):
            return self._derivative(e, left)
        if isinstance(e, Symbol | AppliedUndef):
            return self._letter(e, left)
        found = e.func(*(self._in(part, left) for part in e.args)) if e.args else e
        if isinstance(e, Integral | Sum | Limit):
            self._check_bound(e, found.args[0])
        return _terms(found) if isinstance(found, Sum) else found

    def _check_bound(self, e: Expr, body: Expr) -> None:
        bound = {u.name for u in e.atoms(Dummy)}
        if caught := {u.name for u in body.free_symbols if not isinstance(u, Dummy)} & bound:
            raise ValueError(
                f"what stands under {type(e).__name__.lower()} depends on {min(caught)}, which is bound; write it out"
            )

    def _letter(self, e: Expr, left: frozenset[str]) -> Expr:
        name = e.func.__name__ if isinstance(e, AppliedUndef) else e.name
        if isinstance(e, Dummy) or name in left:
            return e
        if name in self.known.letters:
            self.letters[name] = self.known.letters[name]
        if e in self.known.starts:
            return self._in(self._noted(self.supposed, self.known.starts[e]).value, left)
        if name in self.known.definitions:
            definition = self._noted(self.defined, self.known.definitions[name])
            return self._at(self._in(definition.value, left | self._arguments(definition)), definition, e, left)
        if isinstance(e, AppliedUndef):
            e = e.func(*(self._in(argument, left) for argument in e.args))
            self.values.add(e)
        return self._inside(e, name)

    def _arguments(self, definition: Definition) -> frozenset[str]:
        return frozenset(a.name for a in definition.left.args if isinstance(a, Symbol))

    def _at(self, value: Expr, definition: Definition, e: Expr, left: frozenset[str]) -> Expr:
        """Return the value of a function that is defined, at the arguments that are written."""
        for argument, written in zip(definition.left.args, e.args, strict=True):
            there = self._in(written, left)
            if there != argument:
                value = Subs(value, argument, there) if value.has(Derivative, Subs) else value.xreplace({argument: there})
        return value

    def _inside(self, e: Expr, name: str) -> Expr:
        """Write a letter of an interval by one that is positive."""
        letter = self.known.letters.get(name)
        if letter is None or letter.interval is None:
            return e
        value, assumptions, _ = letter.interval
        p = Function(f"p({name})", **assumptions)(*e.args) if e.args else Symbol(f"p({name})", **assumptions)
        value = value.xreplace({Symbol("p"): p})
        self.within[p] = (e, value)
        return value

    def _derivative(self, e: Derivative, left: frozenset[str]) -> Expr:
        target, variables = e.args[0], [(v, int(n)) for v, n in e.variable_count]
        names = {v.name for v, _ in variables if isinstance(v, Symbol)}
        if strange := names & self.known.definitions.keys():
            raise ValueError(f"a derivative by {min(strange)}, which is defined, is not read")
        name = target.func.__name__ if isinstance(target, AppliedUndef) else ""
        if name in self.known.rates and len(variables) == 1:
            (v, n), (t, least) = variables[0], self.known.rates[name].left.variable_count[0]
            if target.args == (v,) and n >= int(least):
                further = self._noted(self.supposed, self.known.rates[name]).value.xreplace({t: v})
                return self._in(further if n == int(least) else Derivative(further, (v, n - int(least))), left)
        inner = self._in(target, left | names)
        free = isinstance(target, Symbol | AppliedUndef) and (name or target.name) not in self.known.definitions
        if free and (others := [v for v, _ in variables if not inner.has(v)]):
            raise ValueError(f"a derivative by {others[0]} of {target}, which is not declared as a function of {others[0]}")
        found = self._by_chain(inner, *variables[0], left) if len(variables) == 1 else None
        if found is None:
            found = Derivative(inner, *variables)
        for v, _ in variables:
            if isinstance(v, Symbol) and v.name not in left and (there := self._inside(v, v.name)) != v:
                found = Subs(found, v, there)
        return found

    def _by_chain(self, inner: Expr, v: Expr, n: int, left: frozenset[str]) -> Expr | None:
        """Differentiate an expression that holds functions whose own derivatives are known."""
        values = sorted((f for f in inner.atoms(AppliedUndef) if f.has(v)), key=str)
        rates = [self.known.rates[name].left for f in values if (name := f.func.__name__) in self.known.rates and f.args == (v,)]
        if not rates or isinstance(inner, AppliedUndef):
            return None
        alone = inner.xreplace({f: Dummy() for f in values})
        if n > 1 or alone.has(v) or any(int(rate.variable_count[0][1]) > 1 for rate in rates):
            raise ValueError(
                f"a derivative by {v} of what holds {v} itself beside functions of it, or of higher order, is not read"
            )
        return Add(*(Mul(Derivative(inner, f), self._in(Derivative(f, v), left)) for f in values))

    def _noted(self, where: dict[str, Definition], definition: Definition) -> Definition:
        where[definition.label] = definition
        return definition


def _terms(e: Sum) -> Expr:
    """Write a sum of a few terms out."""
    body, (k, low, high) = e.args
    if not (isinstance(low, Integer) and isinstance(high, Integer) and 0 <= int(high) - int(low) < MOST_TERMS):
        return e
    return Add(*(body.xreplace({k: Integer(n)}) for n in range(int(low), int(high) + 1)))


@dataclass(frozen=True)
class Meant:
    """A statement as printed, decided with what its letters stand for.

    Args:    printed: its formulas; meant: what is decided; within: letters of intervals, by others; restricted: the function
             whose values are no longer free where they are numbers of a counterexample, because it starts somewhere.
    """

    printed: tuple[Basic, ...]
    meant: Statement
    within: Mapping[Expr, tuple[Expr, Expr]]
    restricted: str = ""

    @property
    def kind(self) -> str:
        return self.meant.kind

    def formulas(self) -> tuple[Basic, ...]:
        return self.printed

    def says(self) -> dict[str, Any] | None:
        return self.meant.says()

    def decide(self) -> Verdict:
        found = self.meant.decide()
        if found.counterexample is None:
            named = {p for condition in found.defined_on for p in self.within if condition.has(p)}
            said = (f"{letter} = {value}" for p, (letter, value) in self.within.items() if p in named)
            return replace(found, evidence="; ".join((found.evidence, *said)))
        if self.restricted:
            why = f"it is not so of every {self.restricted}, and whether of the one that is supposed is not seen"
            return Verdict(UNDECIDED, found.seconds, why)
        numbers = dict(found.counterexample)
        for p, (letter, value) in self.within.items():
            if p in numbers:
                numbers[letter] = value.xreplace({p: numbers.pop(p)}).doit()
        return replace(found, counterexample=numbers)
