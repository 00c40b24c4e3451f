r"""Puts definitions, equations of motion and intervals in place of letters, and lets all else stand as it is written."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sympy import Add, Basic, Derivative, Dummy, Expr, Function, Integer, Integral, Limit, Mul, Subs, Sum, Symbol, Tuple, evaluate
from sympy.core.function import AppliedUndef

from derivations.papers.letters import Letter
from derivations.papers.tokens import Lacking
from derivations.prover.inequalities import Less
from derivations.prover.statements import Statement
from derivations.prover.verdict import UNDECIDED, Verdict
from derivations.wording import plain

__all__ = ["Definition", "Known", "Meaning", "Meant", "differentiated", "name_of_value", "names_of", "put"]

MOST_TERMS = 50  # of a sum that is written out
MOST_PARTS = 20_000  # of an expression


@dataclass(frozen=True)
class Definition:
    """What a letter, the value of a function, its derivative or a value at one place is; label: of the line that says so;
    supposed: whether that is no definition, but restricts what a function can be; firm: whether it was written with :=, so that
    no later line can mean another letter; sizes: "one unit" where it is read so; path: whether it is the path of an equation,
    which is continuous where its times begin and end."""

    left: Expr
    value: Expr
    label: str
    supposed: bool = False
    firm: bool = False
    sizes: str = ""
    path: bool = False

    @property
    def name(self) -> str:
        return name_of_value(self.left.args[0] if isinstance(self.left, Derivative) else self.left)


@dataclass
class Known:
    """Keeps what was said so far: letters, definitions, derivatives of functions, values at places."""

    letters: dict[str, Letter]
    definitions: dict[str, Definition] = field(default_factory=dict)
    rates: dict[str, Definition] = field(default_factory=dict)
    starts: dict[Expr, Definition] = field(default_factory=dict)

    def keep(self, definition: Definition) -> None:
        """Keep what an equation says, in place of what was said of the same letter."""
        if not definition.supposed:
            self.rates.pop(definition.name, None)
            self.starts = {left: start for left, start in self.starts.items() if start.name != definition.name}
            self.definitions[definition.name] = definition
        else:
            self.definitions.pop(definition.name, None)
            where: dict[Any, Definition] = self.rates if isinstance(definition.left, Derivative) else self.starts
            where[definition.name if isinstance(definition.left, Derivative) else definition.left] = definition

    @property
    def given(self) -> set[str]:
        """Return the names of which something is said."""
        return {*self.definitions, *self.rates, *(start.name for start in self.starts.values())}

    def behind(self, names: set[str], *, arguments: bool = True) -> set[str]:
        """Collect letters, those that stand in what defines them, perhaps but for its own arguments, and so on."""
        found, new = set[str](), names
        while new:
            found |= new
            said = [self.definitions[name] for name in new & self.definitions.keys()]
            parts = ((d, u) for d in said for u in d.value.atoms(Symbol, AppliedUndef) if not isinstance(u, Dummy))
            new = {name_of_value(u) for d, u in parts if arguments or u not in d.left.args} - found
        return found

    def copy(self) -> Known:
        return Known(dict(self.letters), dict(self.definitions), dict(self.rates), dict(self.starts))


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
        self.times, self.placed = list[tuple[str, Statement]](), set[Expr]()

    def of(self, e: Expr) -> Expr:
        r"""Put in what is known.

        Raises:  ValueError for a derivative of what is not said to depend on its letter.
        """
        with evaluate(False):
            found: Expr = self._in(e, self.left)
        self.values |= {self.within[f][0] if f in self.within else f for f in found.atoms(AppliedUndef)}
        return found

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
        if isinstance(e, Subs) and isinstance(e.expr, Derivative) and (said := self._said(e.expr.expr, left)):  # h'(0)
            letter = said.left.variables[0] if isinstance(said.left, Derivative) else said.left.args[0]
            self.check_place(said, letter, self._in(e.point[0], left))
            self.placed |= set(e.variables)
        fixed = e.args[3:] if isinstance(e, Limit) else ()  # the side
        found = e.func(*(self._in(part, left) for part in e.args[: len(e.args) - len(fixed)]), *fixed) if e.args else e
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
        if isinstance(e, Dummy) or (name in left and not e.args):
            return e
        if name == "O" and name not in self.known.letters:
            raise ValueError("O(...) is read as the last term of a right side")
        if name not in self.known.letters:
            raise Lacking(f"{name} is not declared, and no line before gives it", f"{name}: real")
        self.letters[name] = self.known.letters[name]
        if isinstance(e, AppliedUndef) and name not in self.known.definitions and e not in self.known.starts:
            e = e.func(*(self._in(argument, left) for argument in e.args))
        if name in left:
            return e
        if e in self.known.starts:
            return self._in(self._noted(self.supposed, self.known.starts[e]).value, left)
        if name in self.known.definitions:
            return self._defined(e, self._noted(self.defined, self.known.definitions[name]), left)
        return self._inside(e, name)

    def _defined(self, e: Expr, definition: Definition, left: frozenset[str]) -> Expr:
        """Return what a letter is, or a function that is defined, at the arguments that are written, put in at once."""
        arguments = frozenset(a.name for a in definition.left.args)
        value = self._in(definition.value, left | arguments)
        written = {a: self._in(there, left) for a, there in zip(definition.left.args, e.args, strict=True)}
        moved = {a: there for a, there in written.items() if a != there}
        for name in (
            self.known.definitions.keys() & {name_of_value(u) for u in definition.value.atoms(Symbol, AppliedUndef)}
            if moved
            else ()
        ):
            behind = self.known.behind({name}, arguments=False)
            if caught := {a.name for a in moved} & behind:
                raise ValueError(f"{name}, in what defines {definition.name}, depends on {min(caught)}; write it out")
        for argument, there in moved.items():
            self.check_place(definition, argument, there)
        return put(value, moved)

    def _said(self, value: Expr, left: Container[str]) -> Definition | None:
        """Return what is said of a function of one letter."""
        said = self.known.definitions.get(name_of_value(value)) or self.known.rates.get(name_of_value(value))
        return said if said and name_of_value(value) not in left and (said.supposed or len(said.left.args) == 1) else None

    def check_place(self, said: Definition, letter: Symbol, place: Expr) -> None:
        """Note what must be so of a place for an equation to speak of it: one of t > 0 says nothing of h(-1), nor does a
        definition of f(0); what obeys an equation is continuous, and obeys it at 0.
        """
        declared = self.known.letters.get(letter.name)
        if declared is None or place == letter or place in self.placed:
            return
        words = f"{said.label} is of {declared.words}, and whether {plain(place)} is that is not seen"
        if any(not getattr(place, f"is_{fact}") for fact in declared.assumptions.keys() & {"nonzero", "integer"}):
            raise ValueError(words)
        if declared.ends is None:
            return
        if place.atoms(Dummy) and not place.atoms(Dummy) <= self.within.keys():
            raise ValueError(f"{said.label} is of {declared.words}, and stands here at a bound letter")
        left, low, high, right = declared.ends
        is_continuous = said.supposed or said.path
        place = place.xreplace({u: self._inside(u, u.name) for u in place.atoms(Symbol) if not isinstance(u, Dummy)})
        if low.is_finite:
            self.times.append((words, Less(low, place, strict=left == "(" and not is_continuous)))
        if high.is_finite:
            self.times.append((words, Less(place, high, strict=right == ")" and not is_continuous)))

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
        name = name_of_value(target)
        if name in self.known.rates and name not in left and len(variables) == 1:
            (v, n), (t, least) = variables[0], self.known.rates[name].left.variable_count[0]
            if target.args == (v,) and n >= int(least):
                if v not in self.placed:
                    self.check_place(self.known.rates[name], t, v)
                further = self._noted(self.supposed, self.known.rates[name]).value.xreplace({t: v})
                return self._in(further if n == int(least) else differentiated(further, (v, n - int(least))), left)
        inner = self._in(target, left | names)
        free = isinstance(target, Symbol | AppliedUndef) and name not in self.known.definitions
        if free and (others := [v for v, _ in variables if not inner.has(v)]):
            reason = f"a derivative by {others[0]} of {plain(target)}, which is not declared as a function of {others[0]}"
            raise Lacking(reason, f"{name}: function of {others[0]}")
        derivative = differentiated(inner, *variables)
        if self._rated(inner, names, left):
            if len(variables) > 1:
                raise ValueError("a derivative by several letters of what obeys an equation is not read")
            (v, n), derivative = variables[0], inner
            for _ in range(n):
                derivative = self._by_chain(derivative, v, left)
        for v, _ in variables:
            if isinstance(v, Symbol) and v.name not in left and (there := self._inside(v, v.name)) != v:
                derivative = Subs(derivative, v, there)
        return derivative

    def _rated(self, e: Expr, names: Container[str], left: Container[str]) -> list[Expr]:
        """Find values of functions that obey an equation, at places that depend on letters; none of what is a slope already."""
        rated = [f for f in e.atoms(AppliedUndef) if name_of_value(f) in self.known.rates and name_of_value(f) not in left]
        functions = [f for f in rated if any(u.name in names for u in f.free_symbols if isinstance(u, Symbol))]
        if isinstance(e, AppliedUndef) and functions == [e] and isinstance(e.args[0], Symbol):
            return []  # the slope of h(t) is known, or stays
        return sorted(functions, key=str)

    def _by_chain(self, e: Expr, v: Symbol, left: frozenset[str]) -> Expr:
        """Differentiate, by v, what holds functions that obey equations: with letters in place of their values and slopes."""
        states = dict[Expr, tuple[Dummy, Expr]]()  # a value or slope -> its letter, and its own derivative
        for f in self._rated(e, {v.name}, left):
            rate, place = self.known.rates[name_of_value(f)], f.args[0]
            t, order = rate.left.variable_count[0]
            facts = self.known.letters[name_of_value(f)].assumptions
            if int(order) > 1 and place != v:
                raise ValueError(f"{plain(f)} obeys an equation of order {order}: its slope at another place is not read")
            self._noted(self.supposed, rate)
            self.check_place(rate, t, place)
            slope = put(self._in(rate.value, left | {t.name}), {t: place})
            inner = Integer(1) if place == v else self._by_chain(place, v, left)
            slopes = [f, *(Derivative(f, (v, k)) for k in range(1, int(order))), slope]
            for k, state in enumerate(slopes[:-1]):
                further = slopes[k + 1] if place == v else Mul(slope, inner)
                states[state] = (Dummy(f"value{k}", **(facts if k == 0 else {"real": True})), further)
        alone = e.xreplace({state: letter for state, (letter, _) in states.items()})
        letters, values = Tuple(*(letter for letter, _ in states.values())), Tuple(*states)

        def partly(by: Symbol) -> Expr:
            return Subs(differentiated(alone, (by, 1)), letters, values) if states else differentiated(alone, (by, 1))

        parts = [Mul(partly(letter), further) for letter, further in states.values() if alone.has(letter)]
        parts += [partly(v)] if alone.has(v) else []
        return Add(*parts) if len(parts) != 1 else parts[0]

    def _noted(self, where: dict[str, Definition], definition: Definition) -> Definition:
        where[definition.label] = definition
        return definition


def differentiated(e: Expr, *variables: tuple[Expr, int]) -> Derivative:
    """Write a derivative of what may be one itself, with numbers as orders: not evaluated, SymPy leaves 1 + 1 as it is."""
    derivative = Derivative(e, *variables)
    if all(isinstance(n, Integer) for _, n in derivative.variable_count):
        return derivative
    with evaluate(True):
        orders = [(v, n.doit()) for v, n in derivative.variable_count]
    return Derivative(derivative.expr, *orders)


def put(e: Expr, values: Mapping[Any, Expr]) -> Expr:
    """Put values in place of letters, all at once; a derivative by one of them is taken first."""
    values = {a: there for a, there in values.items() if a != there}
    if not values:
        return e
    if not e.has(Derivative, Subs):
        return e.xreplace(dict(values))
    letters = {a: Dummy(a.name, **a.assumptions0) for a in values}
    return Subs(e.xreplace(letters), Tuple(*letters.values()), Tuple(*(values[a] for a in letters)))


def name_of_value(e: Any) -> str:
    return str(e.func.__name__) if isinstance(e, AppliedUndef) else e.name if isinstance(e, Symbol) else ""


def names_of(e: Expr) -> set[str]:
    return {name_of_value(part) for part in e.atoms(Symbol, AppliedUndef) if not isinstance(part, Dummy)}


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
             whose values are no longer free where they are numbers of a counterexample, because it starts somewhere; anew: the
             equations that give a letter again that is put in here, as far as these are proved; times: what must be so of places
             for a definition or an equation to speak of them, with words; question: of an equation that gives a letter again:
             true if it says the same; else it may mean another letter, which is asked for; unread: which formula that is not
             read may say that it is for some numbers alone, so that others refute nothing.
    """

    printed: tuple[Basic, ...]
    meant: Statement
    within: Mapping[Expr, tuple[Expr, Expr]]
    restricted: str = ""
    anew: tuple[Meant, ...] = ()
    times: tuple[tuple[str, Statement], ...] = ()
    question: str = ""
    unread: str = ""

    @property
    def kind(self) -> str:
        return self.meant.kind

    def formulas(self) -> tuple[Basic, ...]:
        return self.printed

    def says(self) -> dict[str, Any] | None:
        return self.meant.says()

    def decide(self) -> Verdict:
        return self._verdict

    @cached_property
    def _verdict(self) -> Verdict:
        for other in self.anew:
            if not other.decide():
                return Verdict(UNDECIDED, 0.0, other.question)
        for words, statement in self.times:
            if not statement.decide():
                return Verdict(UNDECIDED, 0.0, words)
        verdict = self.meant.decide()
        for_some = f"it is not so of every number, and {self.unread} it is" if self.unread and verdict.holds is False else ""
        if for_some or (self.question and not verdict.holds):
            return Verdict(UNDECIDED, verdict.seconds, self.question or for_some)
        if verdict.counterexample is None:
            named = {p for condition in verdict.defined_on for p in self.within if condition.has(p)}
            said = (f"{letter} = {value}" for p, (letter, value) in self.within.items() if p in named)
            return replace(verdict, evidence="; ".join((verdict.evidence, *said)))
        if self.restricted:
            why = f"it is not so of every {self.restricted}, and whether of the one that is supposed is not seen"
            return Verdict(UNDECIDED, verdict.seconds, why)
        numbers = dict(verdict.counterexample)
        for p, (letter, value) in self.within.items():
            if p in numbers:
                numbers[letter] = value.xreplace({p: numbers.pop(p)}).doit()
        return replace(verdict, counterexample=numbers)
