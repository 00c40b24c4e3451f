r"""Makes claims of a paper's displays: what each step of a chain says follows from what was defined before it.

a letter alone, for the first time, on the left of = or :=     a definition: nothing is proved
dh/dt = F, h(0) = h_0, for the first time                      supposed from there on, and said so
lhs = rhs, <=, <, >=, >, \approx, \lim ... = ..., ... + O(x^n)    a claim
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sympy import Add, Basic, Derivative, Dummy, Eq, Expr, Integral, Limit, Mul, Pow, Subs, Symbol, evaluate, oo
from sympy.core.function import AppliedUndef

from derivations.claim import Entry, Equal, Every, Expands, Less, Rounds, Solves, Tends
from derivations.papers.grammar import COMMANDS, Chain, Order, joined, read_chain
from derivations.papers.letters import FrontMatter, Letter, front_matter
from derivations.papers.meaning import Definition, Known, Meaning, Meant
from derivations.papers.tokens import RELATIONS, Display, Token, Unread, displays, formulas, has_relation, tokens
from derivations.papers.units import Compared, Unit, Units, named
from derivations.prover.statements import Statement
from derivations.prover.verdict import UNDECIDED, Verdict

__all__ = ["NotRead", "Paper", "read_paper"]

UNITS = "the units of both sides, of terms of sums and of arguments"


@dataclass(frozen=True)
class NotRead:
    """Stands for a formula that is not read, and says why: it is undecided."""

    reason: str
    kind = "not read"

    def formulas(self) -> tuple[Basic, ...]:
        return ()

    def says(self) -> None:
        return None

    def decide(self) -> Verdict:
        return Verdict(UNDECIDED, 0.0, self.reason)


@dataclass
class Paper:
    """Holds what was read of a paper: claims, not decided yet; definitions and suppositions; displays that say nothing."""

    name: str
    front: FrontMatter
    known: Known
    entries: list[Entry] = field(default_factory=list)
    said: list[Definition] = field(default_factory=list)
    skipped: int = 0
    labels: set[str] = field(default_factory=set)
    mentioned: set[str] = field(default_factory=set)
    units: dict[str, Unit | None] = field(default_factory=dict)


def read_paper(text: str, name: str, tex: bool) -> Paper:
    r"""Read a paper.

    Args:    text; name: of its file; tex: whether it is TeX, or else Markdown.
    Raises:  Unread for front matter that says nothing, for displays that do not end, and for text that redefines commands.
    """
    front, rest = front_matter(text, tex)
    paper = Paper(name, front, Known(front.letters))
    for display in displays(rest, tex, COMMANDS):
        _Display(paper, display).read()
    if missing := [label for label in front.solves if label not in paper.labels]:
        raise Unread(Token("", "", 1, 1), f"solves: there is no equation with the label {missing[0]}")
    return paper


class _Display:
    """Reads one display into a paper."""

    def __init__(self, paper: Paper, display: Display) -> None:
        self.paper, self.display = paper, display
        self.label = f"line {display.begin.line}"

    def read(self) -> None:
        try:
            if self.display.unread:
                raise Unread(self.display.begin, f"the environment {self.display.unread} is not read; write equation or align")
            found = list(formulas(tokens(self.display.text, self.display.begin)))
        except Unread as unread:
            self._add(self.label, " ".join(self.display.text.split()), NotRead(str(unread)))
            return
        for formula in found:
            self._formula(formula)

    def _formula(self, formula: Sequence[tuple[Token, str]]) -> None:
        found = [token for token, _ in formula]
        if not has_relation(found):
            self.paper.skipped += 1
            return
        self.labels = {token: label for token, label in formula if label}
        self.label = next(iter(self.labels.values()), f"line {found[0].line}")
        self.place, paper = found[0], self.paper
        try:
            if twice := paper.labels & set(self.labels.values()):
                raise ValueError(f"the label {min(twice)} is given twice")
            paper.labels |= set(self.labels.values())
            defined = {*paper.known.definitions}
            self._chain(read_chain(found, paper.known.letters, paper.front.functions, defined))
        except (ValueError, RecursionError) as error:  # Unread among them
            place = "" if isinstance(error, Unread) else f"line {self.place.line}, column {self.place.column}: "
            self._add(self.label, joined(found), NotRead(f"{place}{error}"))

    def _chain(self, chain: Chain) -> None:
        for n, relation in enumerate(chain.relations):
            if RELATIONS[relation.text] == ":=" and (n or chain.defines is None):
                raise Unread(relation, ":= stands behind a new letter, or a function of one, which it defines")
        if not chain.relations:
            raise Unread(self.place, "the relation stands within braces")
        self.place = chain.relations[0]
        start = int(RELATIONS[self.place.text] in ("=", ":=") and self._says(chain))
        if not start and RELATIONS[self.place.text] == ":=":
            raise ValueError(f"{chain.texts[1]} is nothing that a letter is defined as")
        self._compare_units(chain)
        for n in range(start, len(chain.relations)):
            self.place = chain.relations[n]
            self._claim(chain, n)

    def _says(self, chain: Chain) -> bool:
        """Note what the first equation defines or supposes, if it does."""
        left, right = _solved(*chain.sides[:2])
        said = Definition(left, right, self._label(chain, 0))
        if said.label in self.paper.front.solves:
            self._solves(chain, said)
            return True
        if right in (oo, -oo) or right.has(Order):
            return False
        if chain.defines is not None:
            return self._defines(said, chain.defines)
        if isinstance(left, Derivative) and self._is_free(left.expr):
            return self._supposes_slope(said)
        if isinstance(left, AppliedUndef) and not left.free_symbols & _variables(left, self.paper.known) and self._is_free(left):
            return self._supposes_value(said)
        return False

    def _defines(self, said: Definition, letter: Letter) -> bool:
        known = self.paper.known
        if said.name in self._behind(said.value):
            if RELATIONS[self.place.text] == ":=" or said.name not in known.letters:
                raise ValueError(f"{said.name} is defined by itself")
            return False
        self._check_new(said.name, letter)
        known.letters.setdefault(said.name, letter)
        known.definitions[said.name] = said
        self.paper.said.append(said)
        return True

    def _supposes_slope(self, said: Definition) -> bool:
        value, slopes = said.left.expr, said.value.atoms(Derivative)
        if len(value.args) > 1 and slopes:
            return False
        if set(said.left.variables) != set(value.args) or value in {d.expr for d in slopes}:
            raise ValueError(
                f"an equation of {said.name} is read where one derivative, by its one letter, stands alone on the left"
            )
        if sum(start.name == said.name for start in self.paper.known.starts.values()) > 1:
            raise ValueError(f"{said.name} starts at several places")
        self.paper.known.rates[said.name] = replace(said, supposed=True)
        self.paper.said.append(self.paper.known.rates[said.name])
        return True

    def _supposes_value(self, said: Definition) -> bool:
        known = self.paper.known
        if said.name in known.rates and any(start.name == said.name for start in known.starts.values()):
            raise ValueError(f"{said.name} starts elsewhere already; its value here is no further start")
        known.starts[said.left] = replace(said, supposed=True)
        self.paper.said.append(known.starts[said.left])
        return True

    def _check_new(self, name: str, letter: Letter) -> None:
        if given := [d.label for d in (*self.paper.known.rates.values(), *self.paper.known.starts.values()) if d.name == name]:
            raise ValueError(
                f"{name} is restricted already; say `solves: {self.label} is {', '.join(given)}` on top of the paper"
            )
        if name in self.paper.mentioned:
            raise ValueError(f"{name} was used in a claim before this line defines it; put the line before")
        if letter.interval or set(letter.assumptions) - {"real"}:
            raise ValueError(f"{letter.words} is declared, and defined here; leave that out, and claim it of the definition")

    def _is_free(self, value: Expr) -> bool:
        """Return whether nothing is said of a function yet, but perhaps its derivative if this is a value."""
        known, name = self.paper.known, _name(value)
        return (
            isinstance(value, AppliedUndef)
            and name not in known.definitions
            and value not in known.starts
            and (name not in known.rates or not value.free_symbols & _variables(value, known))
        )

    def _behind(self, e: Expr) -> set[str]:
        """Collect the letters of an expression, and of what defines them."""
        found, new = set[str](), _names(e)
        while new:
            found |= new
            given = (self.paper.known.definitions[name].value for name in new & self.paper.known.definitions.keys())
            new = set().union(*map(_names, given)) - found
        return found

    def _check_equation(self, left: Expr, right: Expr) -> None:
        """Refuse an equation that can only be meant to define or to suppose something: it is true of no letters that are free."""
        known = self.paper.known
        for side, other in ((left, right), (right, left)):
            name = _name(side)
            if name and name not in known.definitions and side not in known.starts and name not in self._behind(other):
                if name in known.rates:
                    raise ValueError(
                        f"{name} is given by its derivative; say `solves: LABEL is {known.rates[name].label}` on top"
                    )
                raise ValueError(
                    f"{name} stands alone, and was used before; what defines it stands first, with {name} on the left"
                )
            outside = side.xreplace({e: Dummy() for e in side.atoms(Integral)})
            slopes = {_name(d.expr) for d in outside.atoms(Derivative) if d.expr.args} - {"", *known.definitions, *known.rates}
            if slopes and not other.has(Derivative):
                raise ValueError(f"an equation of {min(slopes)} is read where its derivative stands alone on the left")

    def _solves(self, chain: Chain, path: Definition) -> None:
        if not isinstance(path.left, AppliedUndef):
            raise ValueError("what solves an equation is a function alone on the left, h(t) = ...")
        known, name = self.paper.known, path.name
        self.paper.mentioned |= self._behind(path.value)
        given = {d.label: d for d in (*known.rates.values(), *known.starts.values())}
        labels = self.paper.front.solves[path.label]
        if missing := [label for label in labels if label not in given]:
            raise ValueError(f"there is no equation of a derivative, and no start, with the label {missing[0]} before this one")
        equations = [given[label] for label in labels if isinstance(given[label].left, Derivative)]
        starts = [given[label] for label in labels if not isinstance(given[label].left, Derivative)]
        if (
            not equations
            or len(starts) > 1
            or any(d.name != name for d in (*equations, *starts))
            or path.left.args != equations[0].left.expr.args
        ):
            raise ValueError(f"{path.label} solves equations of {name}, and starts once")
        known.rates.pop(name)
        (time,) = path.left.args
        meaning = Meaning(known, (name, time.name))
        initial = None
        if starts:
            known.starts.pop(starts[0].left)
            initial = (meaning.of(starts[0].left.args[0]), {path.left: meaning.of(starts[0].value)})
        odes = tuple(Eq(d.left, meaning.of(d.value), evaluate=False) for d in equations)
        value, place = meaning.of(path.value), meaning.place(time)
        ranges = _declared(known.letters[name], Subs(value, time, place))
        statements: tuple[Statement, ...] = (Solves(odes, {path.left: value}, initial, place), *ranges)
        printed = tuple(Eq(d.left, d.value, evaluate=False) for d in (path, *equations, *starts))
        words = f"{chain.texts[0]} = {chain.texts[1]} solves {', '.join(labels)}"
        self._add(path.label, words, *(Meant(printed, meant, meaning.within) for meant in statements), meaning=meaning)
        known.definitions[name] = path

    def _claim(self, chain: Chain, n: int) -> None:
        sides, relation = chain.sides[n : n + 2], RELATIONS[chain.relations[n].text]
        meaning = Meaning(self.paper.known)
        if relation == "=" and not any(side in (oo, -oo) or side.has(Order) for side in sides):
            self._check_equation(*sides)
        statement = _statement(sides, relation, chain.texts[n + 1], meaning)
        self.paper.mentioned |= set().union(*map(self._behind, sides))
        by = [Eq(d.left, d.value, evaluate=False) for d in (*meaning.defined.values(), *meaning.supposed.values())]
        formulas = (*_printed(sides, relation, chain.texts[n + 1]), *by)
        printed = Meant(formulas, statement, meaning.within, self._restricted(meaning.values))
        steps = len(chain.relations) > 1
        in_row = len(set(self.labels.values())) > 1 and chain.relations[n] in self.labels
        label = self._label(chain, n) + (f", step {n + 1}" if steps and not in_row else "")
        self._add(label, f"{chain.texts[n]} {chain.relations[n].text} {chain.texts[n + 1]}", printed, meaning=meaning)

    def _restricted(self, values: set[Expr]) -> str:
        """Find the function of which an equation and a start are supposed, or of which values at several places are compared."""
        known = self.paper.known
        for name in known.rates:
            places = {f.args for f in values if _name(f) == name}
            if len(places) > 1 or (places and any(start.name == name for start in known.starts.values())):
                return name
        return ""

    def _label(self, chain: Chain, n: int) -> str:
        return self.labels.get(chain.relations[n], self.label)

    def _add(self, label: str, words: str, *statements: Statement, meaning: Meaning | None = None) -> None:
        labels = {entry.label for entry in self.paper.entries}
        while label in labels:
            label += "'"
        quote, given = words, tuple[str, ...]()
        if meaning is not None:
            assumed = [letter.words for letter in meaning.letters.values() if letter.name not in meaning.known.definitions]
            words += f" for {'; '.join(assumed)}" if assumed else ""
            words += f", by {', '.join(meaning.defined)}" if meaning.defined else ""
            given = tuple(f"{d.left} = {d.value}, {label}" for label, d in meaning.supposed.items())
        entry = Entry(self.paper.name, label, words, statements, given, recorded=UNDECIDED, quote=quote)
        self.paper.entries.append(entry)

    def _compare_units(self, chain: Chain) -> None:
        """Add what must be true of units, where any are declared."""
        letters, found = self.paper.known.letters, self.paper.units
        sides = [side for side in chain.sides if side not in (oo, -oo) and not side.has(Order)]

        def of_letter(name: str) -> Unit | None:
            return found[name] if name in found else letters[name].unit if name in letters else None

        units = Units(of_letter, lambda name: letters[name].arguments if name in letters else ())
        unit = units.same(*sides)
        if chain.defines is not None and chain.defines.unit is None:
            found[chain.defines.name] = unit
        compared = tuple(dict.fromkeys(units.compared))
        if compared and any(map(of_letter, set().union(*map(_names, sides)))):
            words = f"The units agree in {chain.text}"
            self._add(f"{self.label}, units", words, Every(UNITS, lambda: map(_comparison, compared)))


def _comparison(compared: Compared) -> Any:
    term, unit, other, wanted = compared
    return {f"unit of {term}": named(unit), f"unit of {other}": named(wanted)}, (unit, "=", wanted)


def _statement(sides: Sequence[Expr], relation: str, text: str, meaning: Meaning) -> Statement:
    left, right = sides
    if relation == "approx":
        value = meaning.of(left)
        if value.free_symbols or value.atoms(AppliedUndef) or not re.fullmatch(r"-?\d+(\.\d+)?", text):
            raise ValueError("\\approx is checked between a number without letters and its decimals")
        return Rounds(value, text)
    if relation in ("<", "<=", ">", ">="):
        lower, upper = map(meaning.of, sides if relation in ("<", "<=") else reversed(sides))
        return Less(lower, upper, strict=relation in ("<", ">"))
    if right.has(Order):
        return _expands(left, right, meaning)
    meant = meaning.of(left)
    if isinstance(meant, Limit) and not right.has(Order):
        body, letter, point, side = meant.args
        return Tends(body, letter, point, meaning.of(right), str(side))
    if any(side in (oo, -oo) or side.has(Order) for side in sides):
        raise ValueError("\\infty is read as the end of an integral, and as a limit; O(...) as the last term of a right side")
    return Equal(meant, meaning.of(right))


def _expands(left: Expr, right: Expr, meaning: Meaning) -> Statement:
    terms = list(right.args) if isinstance(right, Add) else [right]
    rest = [term for term in terms if term.has(Order)]
    if left.has(Order) or len(rest) != 1 or not isinstance(rest[0], AppliedUndef):
        raise ValueError("O(...) is read as the last term of a right side")
    (power,) = rest[0].args
    letter, order = power.args if isinstance(power, Pow) else (power, 1)
    if not isinstance(letter, Symbol) or not int(order) == order or order < 1 or letter.name in meaning.known.definitions:
        raise ValueError(f"O({power}) is read of a letter to a whole power, as it goes to 0")
    with evaluate(False):
        kept = Add(*(term for term in terms if term not in rest))
    return Expands(meaning.of(left), letter, meaning.of(kept), int(order))


def _declared(letter: Letter, value: Expr) -> Iterator[Less]:
    """Claim of a path what is declared of its function: that it is positive, or in an interval."""
    if letter.assumptions.keys() & {"integer", "nonzero"}:
        raise ValueError(f"{letter.words} is declared, and given by its path here; leave that out, and claim it of the path")
    if letter.ends is not None:
        left, low, high, right = letter.ends
        if low != -oo:
            yield Less(low, value, strict=left == "(")
        if high != oo:
            yield Less(value, high, strict=right == ")")


def _solved(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Divide by what stands before a derivative: tau dh/dt = F is dh/dt = F/tau."""
    slopes = [factor for factor in left.args if isinstance(factor, Derivative)] if isinstance(left, Mul) else []
    if len(slopes) != 1 or not isinstance(slopes[0].expr, AppliedUndef):
        return left, right
    with evaluate(False):
        others = [factor for factor in left.args if factor is not slopes[0]]
        return (left, right) if any(f.has(Derivative) for f in others) else (slopes[0], Mul(right, *(Pow(f, -1) for f in others)))


def _printed(sides: Sequence[Expr], relation: str, text: str) -> tuple[Basic, ...]:
    with evaluate(False):
        left, right = (side.xreplace({u: Symbol(u.name) for u in side.atoms(Dummy)}) for side in sides)
    if relation in ("approx", "="):
        return (Eq(left, Symbol(text) if relation == "approx" else right, evaluate=False),)
    lower, upper = (left, right) if relation in ("<", "<=") else (right, left)
    return Less(lower, upper, strict=relation in ("<", ">")).formulas()


def _name(e: Expr) -> str:
    return str(e.func.__name__) if isinstance(e, AppliedUndef) else e.name if isinstance(e, Symbol) else ""


def _names(e: Expr) -> set[str]:
    return {_name(part) for part in e.atoms(Symbol, AppliedUndef) if not isinstance(part, Dummy)}


def _variables(value: AppliedUndef, known: Known) -> set[Expr]:
    letters = (known.letters[name] for name in known.letters[_name(value)].arguments)
    return {letter.symbol for letter in letters if not letter.arguments}
