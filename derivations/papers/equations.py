r"""Reads the formulas of a paper, and keeps what is known of its letters as its lines are gone through."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sympy import Basic, Derivative, Expr, Mul, Pow, Symbol, evaluate
from sympy.core.function import AppliedUndef

from derivations.claim import Entry
from derivations.papers.grammar import Chain, new_letter, read_chain
from derivations.papers.letters import FrontMatter
from derivations.papers.meaning import Anew, Definition, Known
from derivations.papers.names import mentioned
from derivations.papers.reading import CONSTANTS
from derivations.papers.tokens import RELATIONS, Display, Labelled, Token, Unread, formulas, tokens
from derivations.papers.units import Unit
from derivations.prover.verdict import UNDECIDED, Verdict

__all__ = ["WRONG", "Equation", "NotRead", "Paper", "cut", "read_all", "solved"]

# What SymPy raises, too, for expressions that it has no answer to.
WRONG = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, NotImplementedError, RecursionError)


@dataclass(frozen=True)
class NotRead:
    """Stands for a formula that is not read, or not judged, and says why: it is undecided."""

    reason: str
    kind: str = "not read"

    def formulas(self) -> tuple[Basic, ...]:
        return ()

    def says(self) -> None:
        return None

    def decide(self) -> Verdict:
        return Verdict(UNDECIDED, 0.0, self.reason)


@dataclass
class Equation:
    """A formula of the paper: where it stands, its labels, and what was read of it, or why nothing was."""

    display: int
    found: Sequence[Token]
    labels: dict[Token, str]
    chain: Chain | None = None
    unread: NotRead | None = None

    @property
    def place(self) -> Token:
        return self.found[0]

    @property
    def label(self) -> str:
        return next(iter(self.labels.values()), f"line {self.place.line}")

    def label_of(self, n: int) -> str:
        """Return the label of a relation of the chain, which may stand in a row of its own."""
        assert self.chain is not None
        return self.labels.get(self.chain.relations[n], self.label)

    def definition(self, *, supposed: bool = False) -> Definition:
        """Return what the first equation of the chain says of its left side."""
        assert self.chain is not None
        left, right = solved(*self.chain.sides[:2])
        firm = RELATIONS[self.chain.relations[0].text] == ":="
        return Definition(left, right, self.label_of(0), supposed, firm, self.chain.sizes)


@dataclass
class Paper:
    """Holds what was read of a paper: claims, not decided yet; definitions and suppositions; displays that say nothing.

    doubtful: letters of which a line that is not read may say something, with its place; anew: what gives a letter again;
    named: labels of equations that stand by themselves; apart: letters that these give, with the label.
    """

    name: str
    front: FrontMatter
    known: Known
    equations: list[Equation] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    said: list[Definition] = field(default_factory=list)
    skipped: int = 0
    mentioned: set[str] = field(default_factory=set)
    units: dict[str, Unit | None] = field(default_factory=dict)
    doubtful: dict[str, str] = field(default_factory=dict)
    anew: dict[str, list[Anew]] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    apart: dict[str, str] = field(default_factory=dict)

    def labelled(self, label: str, line: Token) -> Equation:
        """Return the equation of a label. Raises: Unread if there is none, or several."""
        found = [e for e in self.equations if label in e.labels.values() or e.label == label]
        if len(found) != 1:
            raise Unread(line, f"there {'are several equations' if found else 'is no equation'} with the label {label}")
        return found[0]

    def doubt(self, names: Iterable[str], place: Token) -> None:
        for name in names:
            self.doubtful.setdefault(name, f"line {place.line}, column {place.column}")


def cut(n: int, display: Display) -> list[Equation]:
    """Cut a display into formulas."""
    found = [Token("place", "", display.begin.line, display.begin.column)]
    try:
        found = tokens(display.text, display.begin) or found
        if display.unread:
            raise Unread(display.begin, f"the environment {display.unread} is not read; write equation or align")
        parts: list[Labelled] = list(formulas([t for t in found if t.kind != "place"], display.labelled_rows))
        return [Equation(n, [t for t, _ in part], {t: label for t, label in part if label}) for part in parts]
    except Unread as unread:
        labels = {t: t.text if t.kind == "label" else f"({t.text})" for t in found if t.kind in ("label", "tag")}
        return [Equation(n, found, labels, unread=NotRead(str(unread), unread.kind))]


def read_all(paper: Paper) -> None:
    """Read all formulas: letters that a line defines are known in all of them."""
    letters, defined = dict(paper.front.letters), set[str]()
    for equation in paper.equations:
        if equation.unread is None and (letter := new_letter(equation.found, letters, paper.front.functions)):
            letters.setdefault(letter.name, letter)
    for equation in paper.equations:
        if equation.unread is None:
            own = not paper.named.isdisjoint({equation.label, *equation.labels.values()})
            try:
                equation.chain = read_chain(equation.found, letters, paper.front.functions, () if own else defined)
                if equation.chain.defines and not own:
                    defined.add(equation.chain.defines.name)
            except WRONG as error:
                kind = error.kind if isinstance(error, Unread) else "not read"
                at = "" if isinstance(error, Unread) else f"line {equation.place.line}, column {equation.place.column}: "
                equation.unread, equation.chain = NotRead(f"{at}{error}", kind), None
            if own and equation.chain is not None:
                left = solved(*equation.chain.sides[:2])[0] if equation.chain.relations else equation.chain.sides[0]
                value = left.expr if isinstance(left, Derivative) else left
                if isinstance(value, AppliedUndef | Symbol):
                    paper.apart[str(getattr(value, "name", value.func))] = equation.label
        if equation.unread is not None:
            paper.doubt(mentioned(equation.found) - CONSTANTS.keys(), equation.place)
            if letter := new_letter(equation.found, {}, {}):
                paper.doubt([letter.name], equation.place)
        elif (
            equation.chain and equation.chain.objection and (letter := new_letter(equation.found, letters, paper.front.functions))
        ):
            paper.doubt([letter.name], equation.place)


def solved(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Divide by what stands before a derivative: tau dh/dt = F is dh/dt = F/tau."""
    slopes = [factor for factor in left.args if isinstance(factor, Derivative)] if isinstance(left, Mul) else []
    if len(slopes) != 1 or not isinstance(slopes[0].expr, AppliedUndef):
        return left, right
    with evaluate(False):
        others = [factor for factor in left.args if factor is not slopes[0]]
        return (left, right) if any(f.has(Derivative) for f in others) else (slopes[0], Mul(right, *(Pow(f, -1) for f in others)))
