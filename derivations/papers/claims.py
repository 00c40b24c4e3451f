r"""Makes claims of one equation of a paper: what each step of its chain says follows from what was defined before it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sympy import (
    Add,
    Basic,
    Derivative,
    Dummy,
    Eq,
    Expr,
    GreaterThan,
    Integral,
    Limit,
    NumberSymbol,
    Pow,
    StrictGreaterThan,
    Symbol,
    evaluate,
    oo,
)
from sympy.core.function import AppliedUndef

from derivations.claim import Entry, Equal, Every, Expands, Less, Rounds, Tends
from derivations.papers.doubt import WRONG, solved
from derivations.papers.equations import SIDES, About, NotRead, Paper, PaperEquation
from derivations.papers.grammar import RelationChain, joined, new_letter
from derivations.papers.letters import Letter
from derivations.papers.meaning import Definition, Known, Meaning, Meant, name_of_value, names_of
from derivations.papers.names import mentioned
from derivations.papers.reading import Order
from derivations.papers.tokens import RELATIONS, Lacking, Token, Unread
from derivations.papers.units import NO_UNIT, Compared, Unit, Units
from derivations.prover.statements import Printed, Statement
from derivations.prover.verdict import UNDECIDED
from derivations.wording import plain

__all__ = ["Judge"]

COEFFICIENTS = "a coefficient", "as printed"
UNITS = "the units of both sides, of terms of sums and of arguments"


class Unjudged(Lacking):
    """Raised for a formula that is read, and not judged; cause: the place of another one that is why."""

    def __init__(self, reason: str, cause: Token | None = None, add: str = "") -> None:
        super().__init__(reason, add)
        self.cause = cause


class Judge:
    """Makes claims of one equation."""

    def __init__(self, paper: Paper, equation: PaperEquation) -> None:
        self.paper, self.equation, self.label = paper, equation, equation.label

    def judge(self, relate: Any) -> None:
        equation, paper = self.equation, self.paper
        try:
            given = {label for other in paper.equations if other.display < equation.display for label in other.labels.values()}
            if twice := given & set(equation.labels.values()):
                raise ValueError(f"the label {min(twice)} is given twice")
            if equation.unread is not None:
                self.add(equation.label, joined(equation.found), equation.unread)
            elif equation.chain is not None and not equation.chain.relations:
                paper.skipped += 1
            elif equation.chain is not None:
                if equation.chain.objection:
                    raise Unjudged(equation.chain.objection)
                if not relate(paper, equation, self):
                    self._chain(equation.chain)
        except WRONG as error:
            self.add(equation.label, joined(equation.found), replace(NotRead.because(error, equation.place), kind="not read"))
            if letter := new_letter(equation.found, paper.front.letters, paper.front.functions):
                paper.doubt([letter.name], equation.place)
            elif equation.chain:
                name = _given(solved(*equation.chain.sides[:2])[0])
                given = paper.known.given
                paper.doubt({name} - given - {""}, equation.place)

    def _chain(self, chain: RelationChain) -> None:
        for n, relation in enumerate(chain.relations):
            if RELATIONS[relation.text] == ":=" and (n or chain.defines is None):
                raise Unread(relation, ":= stands behind a new letter, or a function of one, which it defines")
        first = RELATIONS[chain.relations[0].text]
        start = int(first in ("=", ":=") and self._says(chain))
        if not start and first == ":=":
            raise ValueError(f"{chain.texts[1]} is nothing that a letter is defined as")
        self.compare_units(chain)
        for n in range(start, len(chain.relations)):
            self.claim(chain, n, Meaning(self.paper.known), own=False)

    def _says(self, chain: RelationChain) -> bool:
        """Note what the first equation defines or supposes, if it does."""
        said = self.equation.definition()
        if said.value in (oo, -oo) or said.value.has(Order):
            return False
        if chain.defines is not None:
            return self._defines(said, chain.defines)
        left, known = said.left, self.paper.known
        if isinstance(left, Derivative) and self._is_free(left.expr):
            return self._supposes_slope(said)
        if isinstance(left, AppliedUndef) and said.name not in known.letters:
            raise Lacking(f"{said.name} is not declared, and no line before gives it", "")
        if not isinstance(left, AppliedUndef) or not self._is_free(left) or said.value.has(left.func):
            return False
        is_place = left.free_symbols.isdisjoint(_variables(left, known)) and not any(a.atoms(AppliedUndef) for a in left.args)
        return is_place and self._supposes_value(said)

    def _defines(self, said: Definition, letter: Letter) -> bool:
        known = self.paper.known
        if said.name in self.behind(said.value):
            if said.firm or said.name not in known.letters:
                raise ValueError(f"{said.name} is defined by itself")
            return False
        self.check_new(said.name, letter)
        known.letters.setdefault(said.name, letter)
        known.definitions[said.name] = said
        self.paper.says(self.equation, said)
        return True

    def _supposes_slope(self, said: Definition) -> bool:
        value, slopes = said.left.expr, said.value.atoms(Derivative)
        if len(value.args) > 1 and slopes:
            return False
        lower = {d for d in slopes if d.expr == value and d.derivative_count < said.left.derivative_count}
        if set(said.left.variables) != set(value.args) or value in {d.expr for d in slopes - lower}:
            raise ValueError(
                f"an equation of {said.name} is read where one derivative, by its one letter, stands alone on the left"
            )
        if sum(start.name == said.name for start in self.paper.known.starts.values()) > 1:
            raise ValueError(f"{said.name} starts at several places")
        self.paper.known.rates[said.name] = replace(said, supposed=True)
        self.paper.says(self.equation, self.paper.known.rates[said.name])
        return True

    def _supposes_value(self, said: Definition) -> bool:
        known = self.paper.known
        if said.name in known.rates and any(start.name == said.name for start in known.starts.values()):
            raise ValueError(f"{said.name} starts elsewhere already; its value here is no further start")
        known.starts[said.left] = replace(said, supposed=True)
        self.paper.says(self.equation, known.starts[said.left])
        return True

    def check_new(self, name: str, letter: Letter) -> None:
        if given := [d.label for d in (*self.paper.known.rates.values(), *self.paper.known.starts.values()) if d.name == name]:
            add = f"solves: {self.label} is {', '.join(given)}"
            raise Lacking(f"{name} is restricted already; say `{add}` on top of the paper", add)
        if name in self.paper.mentioned:
            raise ValueError(f"{name} was used in a claim before this line defines it; put the line before")
        if letter.interval or set(letter.assumptions) - {"real"}:
            raise ValueError(f"{letter.words} is declared, and defined here; leave that out, and claim it of the definition")

    def _is_free(self, value: Expr) -> bool:
        """Return whether nothing is said of a function yet, but perhaps its derivative if this is a value."""
        known, name = self.paper.known, name_of_value(value)
        return (
            isinstance(value, AppliedUndef)
            and name not in known.definitions
            and value not in known.starts
            and (name not in known.rates or not value.free_symbols & _variables(value, known))
        )

    def behind(self, e: Expr) -> set[str]:
        """Collect the letters of an expression, and of what defines them."""
        return self.paper.known.behind(names_of(e))

    def _check_equation(self, left: Expr, right: Expr) -> None:
        """Refuse an equation that can only be meant to define or to suppose something: it is true of no letters that are free."""
        known = self.paper.known
        for side, other in ((left, right), (right, left)):
            name = name_of_value(side)
            if name and name not in known.definitions and side not in known.starts and name not in self.behind(other):
                if name in known.rates:
                    add = f"solves: {self.label} is {known.rates[name].label}"
                    raise Lacking(f"{name} is given by its derivative; say `{add}` on top", add)
                raise ValueError(
                    f"{name} stands alone, and was used before; what defines it stands first, with {name} on the left"
                )
            outside = side.xreplace({e: Dummy() for e in side.atoms(Integral)})
            slopes = {name_of_value(d.expr) for d in outside.atoms(Derivative) if d.expr.args}
            slopes -= {"", *known.definitions, *known.rates}
            if slopes and not other.has(Derivative):
                raise ValueError(f"an equation of {min(slopes)} is read where its derivative stands alone on the left")

    def claim(self, chain: RelationChain, n: int, meaning: Meaning, *, own: bool) -> None:
        """Claim a step of a chain; own: by equations that the front matter names, and by no others of their letters."""
        sides, relation = chain.sides[n : n + 2], RELATIONS[chain.relations[n].text]
        plain = not any(side in (oo, -oo) or side.has(Order) for side in sides)
        if relation in ("=", ":=") and plain and not own:
            self._check_equation(*sides)
        statement = _statement(sides, "=" if relation == ":=" else relation, chain.texts[n + 1], meaning)
        by = [Eq(d.left, d.value, evaluate=False) for d in (*meaning.defined.values(), *meaning.supposed.values())]
        formulas = (*printed_of(sides, relation, chain.texts[n + 1]), *by)
        steps = len(chain.relations) > 1
        in_row = len(set(self.equation.labels.values())) > 1 and chain.relations[n] in self.equation.labels
        label = self.equation.label_of(n) + (f", step {n + 1}" if steps and not in_row else "")
        words = f"{chain.texts[n]} {chain.relations[n].text} {chain.texts[n + 1]}"
        if not own:
            self.paper.mentioned |= set().union(*map(self.behind, sides))
        question = "" if own or n else self._asks(chain)
        about = (
            f"step {n + 1} of {len(chain.relations)}" if steps else f"it follows from {', '.join(meaning.defined)}" if own else ""
        )
        of_sides = SIDES[::-1] if relation in (">", ">=") else COEFFICIENTS if isinstance(statement, Expands) else SIDES
        self.claim_of(label, words, formulas, [statement], meaning, own=own, question=question, sizes=chain.sizes, about=about,
                      of_sides=of_sides)  # fmt: skip
        if (other := _otherwise(sides, relation, chain.texts[n + 1])) is not None:
            label = self.paper.entries[-1].label
            self.paper.about[label] = replace(self.paper.about[label], shown=other)

    def _asks(self, chain: RelationChain) -> str:
        """Ask whether another letter is meant, where one that a line gives stands alone again, with something else."""
        left, right = solved(*chain.sides[:2])
        if isinstance(left, NumberSymbol):
            return f"{_given(left)} is a number here: if it is a letter, declare it"
        known, name = self.paper.known, _given(left)
        given = known.starts.get(left)
        if isinstance(left, Derivative) and name in known.rates and known.rates[name].left == left:
            given = known.rates[name]
        elif name in known.definitions and known.definitions[name].left == left:
            given = known.definitions[name]
        elif chain.defines is not None and name_of_value(left) not in names_of(right):
            words = plain(left)
            return f"{words} is behind its right side: if this is what {words} is, say so before, and write the other one out"
        by_itself = not isinstance(left, Derivative) and name in self.behind(right)
        if given is None or given.firm or given.value == right or by_itself:
            return ""
        return (
            f"{plain(left)} is what {given.label} says, and this is not that: if it is another {name}, say on top which "
            f"equations belong together, `equations: {self.label} is by LABEL`, `is a step of LABEL` or `is LABEL at ...`"
        )

    def claim_of(
        self, label: str, words: str, formulas: Sequence[Basic], statements: Sequence[Statement], meaning: Meaning, *, own: bool,
        question: str = "", sizes: str = "", about: str = "",
        of_sides: tuple[str, str] = SIDES,
    ) -> None:  # fmt: skip
        """Add a claim whose statements are made, with what was put in, unless a line that is not read may say something of it."""
        used, paper = [*meaning.defined.values(), *meaning.supposed.values()], self.paper
        names = {d.name for d in used if d.label not in paper.named}
        names |= set() if own else {*meaning.letters, *(d.name for d in used), *mentioned(self.equation.found)}
        if doubtful := paper.doubted(names):
            name, where = doubtful
            place = f"line {where.line}, column {where.column}"
            add = f"equations: {label} is by {', '.join(meaning.defined)}" if meaning.defined else ""
            raise Unjudged(f"{place}: this is not read, and may say something of {name}, which stands here", where, add)
        known = meaning.known.given
        if apart := sorted(names & paper.apart.keys() - known) if not own else []:
            giving = paper.apart[apart[0]]
            add = f"equations: {label} is by {giving}"
            raise Lacking(f"{apart[0]} is given by {giving}, which stands by itself: say `{add}` on top", add)
        anew = tuple(other for name in sorted(names) for other in paper.anew.get(name, ()))
        restricted, times = self._restricted(meaning), tuple(meaning.times)
        unread = "" if own else self._may_be_restricted(names)
        meanings = [Meant(tuple(formulas), s, meaning.within, restricted, anew, times, question, unread) for s in statements]
        sizes = sizes or next((d.sizes for d in used if d.sizes), "")
        self.add(label, words, *meanings, meaning=meaning, sizes=sizes, about=about, of_sides=of_sides)
        if question:
            left: Any = formulas[0].args[0]
            paper.anew.setdefault(_given(left), []).extend(meanings)

    def _may_be_restricted(self, names: set[str]) -> str:
        """Say which formula may be true of some numbers alone: it is not read, or for another index."""
        name = min((name for name in names if name in self.paper.restricted), default="")
        if not name:
            return ""
        equation = self.paper.restricted[name]
        words = "is not read, and may say" if equation.unread is not None else "is read for another index, and may say"
        return f"line {equation.place.line}, column {equation.place.column}: this {words} of which {name}"

    def _restricted(self, meaning: Meaning) -> str:
        """Find the function of which an equation and a start are supposed, or of which values at several places are compared."""
        known = meaning.known
        for name in {*known.rates, *(start.name for start in known.starts.values())}:
            places = {f.args for f in meaning.values if name_of_value(f) == name and name not in meaning.left}
            if len(places) > 1 or (places and any(start.name == name for start in known.starts.values())):
                return name
        return ""

    def add(
        self, label: str, words: str, *statements: Statement, meaning: Meaning | None = None, sizes: str = "", about: str = "",
        of_sides: tuple[str, str] = SIDES,
    ) -> None:  # fmt: skip
        labels = {entry.label for entry in self.paper.entries}
        label = next(new for k in range(1, len(labels) + 2) if (new := label if k == 1 else f"{label}, row {k}") not in labels)
        quote, given, assumed, by = words, tuple[str, ...](), list[str](), tuple[Definition, ...]()
        if meaning is not None:
            assumed = [letter.words for letter in meaning.letters.values() if letter.name not in meaning.known.definitions]
            words += f" for {'; '.join(assumed)}" if assumed else ""
            words += f", by {', '.join(meaning.defined)}" if meaning.defined else ""
            by = tuple(meaning.defined.values())
            given = tuple(f"{plain(d.left)} = {plain(d.value)}, {label}" for label, d in meaning.supposed.items())
            given += tuple(f"{name} is smooth" for name in sorted({n for s in statements for n in _expanded(s)}))
        entry = Entry(self.paper.name, label, words, statements, given, recorded=UNDECIDED, quote=quote, sizes=sizes)
        unread = next((s for s in statements if isinstance(s, NotRead)), None)
        self.paper.entries.append(entry)
        self.paper.about[label] = About(self.equation, about, tuple(assumed), by, of_sides, unread)

    def compare_units(self, chain: RelationChain) -> None:
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
        names = set().union(*map(names_of, sides), mentioned(self.equation.found))
        if compared and any((unit := of_letter(name)) and not unit.same(NO_UNIT) for name in set().union(*map(names_of, sides))):
            words, label = f"The units agree in {chain.text}", f"{self.label}, units"
            if doubtful := self.paper.doubted(names):
                name, where = doubtful
                reason = f"line {where.line}, column {where.column}: not read, and may say what {name} is"
                self.add(label, words, NotRead(reason, cause=where), about="its units agree")
            elif scaled := [c for c in compared if not c[1].same(c[3]) and c[1].powers == c[3].powers]:
                term, unit, other, wanted = scaled[0]
                factor = unit.factor / wanted.factor
                reason = f"{term} is in {unit} and {other} in {wanted}, {factor} of it: write the factor, or declare one unit"
                self.add(label, words, NotRead(reason, "units"), about="its units agree")
            else:
                self.add(label, words, Every(UNITS, lambda: map(_comparison, compared)), about="its units agree")


def _comparison(compared: Compared) -> Any:
    term, unit, other, wanted = compared
    return {f"unit of {term}": str(unit), f"unit of {other}": str(wanted)}, (_plain(unit), "=", _plain(wanted))


def _plain(unit: Unit) -> Any:
    return (*unit.powers, ("factor", unit.factor))


def _statement(sides: Sequence[Expr], relation: str, text: str, meaning: Meaning) -> Statement:
    left, right = sides
    if relation == "approx":
        value = meaning.of(left)
        if value.free_symbols or value.atoms(AppliedUndef) or not re.fullmatch(r"-?\d+(\.\d+)?", text):
            raise ValueError("\\approx is checked between a number without letters and its decimals")
        return Rounds(value, text)
    if relation in ("<", "<=", ">", ">="):
        if any(side in (oo, -oo) or side.has(Order) for side in sides):
            raise ValueError("\\infty and O(...) are not compared")
        lower, upper = map(meaning.of, sides if relation in ("<", "<=") else reversed(sides))
        return Less(lower, upper, strict=relation in ("<", ">"))
    if right.has(Order):
        return _expands(left, right, meaning)
    meant = meaning.of(left)
    if isinstance(meant, Limit) and not right.has(Order):
        body, letter, point, side = meant.args
        return Tends(body, letter, point, right if right in (oo, -oo) else meaning.of(right), str(side))
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
    if meaning.known.letters[letter.name].interval is not None:
        raise ValueError(f"O({power}) is read of a letter that is declared without an interval")
    with evaluate(False):
        kept = Add(*(term for term in terms if term not in rest))
    return Expands(meaning.of(left), letter, meaning.of(kept), int(order))


def _expanded(statement: Statement) -> set[str]:
    """Return the functions of which nothing is known at whose slopes the coefficients of an expansion are taken."""
    meant = statement.meant if isinstance(statement, Meant) else statement
    if not isinstance(meant, Expands):
        return set()
    values = (f for e in (meant.expression, meant.terms) for f in e.atoms(AppliedUndef))
    return {name_of_value(f) for f in values if f.has(meant.variable)}


def printed_of(sides: Sequence[Expr], relation: str, text: str) -> tuple[Basic, ...]:
    with evaluate(False):
        left, right = (side.xreplace({u: Symbol(u.name) for u in side.atoms(Dummy)}) for side in sides)
    if relation in ("approx", "=", ":="):
        return (Eq(left, Symbol(text) if relation == "approx" else right, evaluate=False),)
    lower, upper = (left, right) if relation in ("<", "<=") else (right, left)
    return Less(lower, upper, strict=relation in ("<", ">")).formulas()


def _otherwise(sides: Sequence[Expr], relation: str, text: str) -> Basic | None:
    """Write a relation as it is printed where the formulas of a ledger have it otherwise: a > b, a number with its digits."""
    if relation not in (">", ">=", "approx"):
        return None
    with evaluate(False):
        left, right = (side.xreplace({u: Symbol(u.name) for u in side.atoms(Dummy)}) for side in sides)
    if relation == "approx":
        return Printed(left, Symbol(text))
    return (StrictGreaterThan if relation == ">" else GreaterThan)(left, right, evaluate=False)


def _given(left: Expr) -> str:
    """Return the letter of which a left side says something; e and pi, which are numbers, too."""
    value = left.expr if isinstance(left, Derivative) else left
    return str(value).lower() if isinstance(value, NumberSymbol) else name_of_value(value)


def _variables(value: AppliedUndef, known: Known) -> set[Expr]:
    letters = (known.letters[name] for name in known.letters[name_of_value(value)].arguments if name in known.letters)
    return {letter.symbol for letter in letters if not letter.arguments}
