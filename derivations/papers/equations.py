r"""Reads the formulas of a paper, and keeps what is known of its letters as its lines are gone through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sympy import Basic, Derivative, Symbol
from sympy.core.function import AppliedUndef

from derivations.claim import Entry
from derivations.papers.doubt import WRONG, Doubt, in_row, lacking, may_say, solved
from derivations.papers.grammar import RelationChain, new_letter, read_chain
from derivations.papers.letters import FrontMatter, Letter
from derivations.papers.meaning import Definition, Known, Meant, name_of_value
from derivations.papers.names import mentioned
from derivations.papers.tokens import RELATIONS, Display, Labelled, Token, Unread, formulas, tokens
from derivations.papers.units import Unit
from derivations.prover.verdict import UNDECIDED, Verdict

__all__ = ["SIDES", "About", "PaperEquation", "NotRead", "Paper", "cut", "read_all"]


SIDES = ("left side", "right side")


@dataclass(frozen=True)
class NotRead:
    """Stands for a formula that is not read, or not judged, and says why: it is undecided.

    place: of what is wrong; add: a line on top of the paper by which it would be judged; cause: the place of another formula
    that is not read, and may say something of a letter of this one; printed: what is read of it.
    """

    reason: str
    kind: str = "not read"
    place: Token | None = None
    add: str = ""
    cause: Token | None = None
    printed: tuple[Basic, ...] = ()

    @classmethod
    def because(cls, error: Exception, place: Token) -> NotRead:
        """Say why a formula at a place is not read: in the error's own words, behind its place unless they have one."""
        kind, found = getattr(error, "kind", "not read"), getattr(error, "place", None)
        at = "" if found or hasattr(error, "cause") else f"line {place.line}, column {place.column}: "
        return cls(f"{at}{error}", kind, found, getattr(error, "add", ""), getattr(error, "cause", None))

    def formulas(self) -> tuple[Basic, ...]:
        return self.printed

    def says(self) -> None:
        return None

    def decide(self) -> Verdict:
        return Verdict(UNDECIDED, 0.0, self.reason)


@dataclass
class PaperEquation:
    """A formula of the paper: where it stands, its labels, and what was read of it, or why nothing was."""

    display: int
    found: Sequence[Token]
    labels: dict[Token, str]
    chain: RelationChain | None = None
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


@dataclass(frozen=True)
class About:
    """Holds what a report shows of a claim beside its verdict.

    Args:    equation: whose claim it is; words: how it is related to others, or which step it is of several, "" if there is
             nothing to be said; letters: what is declared of those in it; by: definitions that were put in; sides: what the
             two sides are called that the statement compares; unread: why it is not judged; shown: its relation as printed,
             where the ledger turns it.
    """

    equation: PaperEquation
    words: str = ""
    letters: tuple[str, ...] = ()
    by: tuple[Definition, ...] = ()
    sides: tuple[str, str] = SIDES
    unread: NotRead | None = None
    shown: Basic | None = None


@dataclass
class Paper:
    """Holds what was read of a paper: claims, not decided yet; definitions and suppositions; displays that say nothing.

    doubtful: letters of which a line that is not read may say something, with its place; restricted: those that a formula may be
    true of for some numbers alone; anew: what gives a letter again;
    named: labels of equations that stand by themselves; apart: letters that these give, with the label; about: claims, by label;
    stated: equations that define or suppose something, each with what it says; lines: of the text.
    """

    name: str
    front: FrontMatter
    known: Known
    equations: list[PaperEquation] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    said: list[Definition] = field(default_factory=list)
    skipped: int = 0
    mentioned: set[str] = field(default_factory=set)
    units: dict[str, Unit | None] = field(default_factory=dict)
    doubtful: dict[str, Token] = field(default_factory=dict)
    restricted: dict[str, PaperEquation] = field(default_factory=dict)
    anew: dict[str, list[Meant]] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    apart: dict[str, str] = field(default_factory=dict)
    about: dict[str, About] = field(default_factory=dict)
    stated: list[tuple[PaperEquation, Definition]] = field(default_factory=list)
    lines: Sequence[str] = ()

    def labelled(self, label: str, line: Token) -> PaperEquation:
        """Return the equation of a label. Raises: Unread if there is none, or several."""
        equations = [e for e in self.equations if label in e.labels.values() or e.label == label]
        if len(equations) != 1:
            raise Unread(line, f"there {'are several equations' if equations else 'is no equation'} with the label {label}")
        return equations[0]

    def doubt(self, names: Iterable[str], place: Token) -> None:
        for name in names:
            self.doubtful.setdefault(name, place)

    def doubted(self, names: Iterable[str]) -> tuple[str, Token] | None:
        """Return a letter of which a formula that is not read may say something, and the place of that."""
        name = min((name for name in names if name in self.doubtful), default="")
        return (name, self.doubtful[name]) if name else None

    def says(self, equation: PaperEquation, said: Definition) -> None:
        """Note what an equation defines or supposes."""
        self.said.append(said)
        self.stated.append((equation, said))


def cut(n: int, display: Display) -> list[PaperEquation]:
    """Cut a display into formulas."""
    found = [Token("place", "", display.begin.line, display.begin.column)]
    try:
        found = tokens(display.text, display.begin) or found
        if display.unread:
            raise Unread(display.begin, f"the environment {display.unread} is not read; write equation or align")
        parts: list[Labelled] = list(formulas([t for t in found if t.kind != "place"], display.labelled_rows))
        return [PaperEquation(n, [t for t, _ in part], {t: label for t, label in part if label}) for part in parts]
    except Unread as unread:
        labels = {t: t.text if t.kind == "label" else f"({t.text})" for t in found if t.kind in ("label", "tag")}
        return [PaperEquation(n, found, labels, unread=NotRead.because(unread, display.begin))]


def read_all(paper: Paper) -> None:
    """Read all formulas: letters that a line defines are known in all of them."""
    letters, defined = dict(paper.front.letters), set[str]()
    doubts = dict[int, Doubt]()
    for equation in paper.equations:
        if equation.unread is None and (letter := new_letter(equation.found, letters, paper.front.functions)):
            letters.setdefault(letter.name, letter)
    for n, equation in enumerate(paper.equations):
        if equation.unread is None:
            own = not paper.named.isdisjoint({equation.label, *equation.labels.values()})
            try:
                equation.chain = read_chain(equation.found, letters, paper.front.functions, () if own else defined)
                if equation.chain.defines and not own:
                    defined.add(equation.chain.defines.name)
            except WRONG as error:
                equation.unread, equation.chain = NotRead.because(error, equation.place), None
                if names := lacking(equation.found, letters, paper.front):
                    equation.unread = replace(equation.unread, add=f"{', '.join(names)}: real")
            if own and equation.chain is not None:
                left = solved(*equation.chain.sides[:2])[0] if equation.chain.relations else equation.chain.sides[0]
                value = left.expr if isinstance(left, Derivative) else left
                if isinstance(value, AppliedUndef | Symbol):
                    paper.apart[str(getattr(value, "name", value.func))] = equation.label
        if equation.unread is not None:
            doubts[n] = may_say(equation.found, letters, paper.front)
            paper.doubt(doubts[n].defines, equation.place)
            if letter := new_letter(equation.found, {}, {}):
                paper.doubt([letter.name], equation.place)
        elif (
            equation.chain and equation.chain.objection and (letter := new_letter(equation.found, letters, paper.front.functions))
        ):
            paper.doubt([letter.name], equation.place)
    _restrict(paper, doubts, letters)


def _restrict(paper: Paper, doubts: Mapping[int, Doubt], letters: Mapping[str, Letter]) -> None:
    """Note the letters of formulas that are not read, or are for another index, which are perhaps true of some numbers alone."""
    given = {n: _given(equation) for n, equation in enumerate(paper.equations)} | {n: d.gives for n, d in doubts.items()}
    for n, doubt in doubts.items():
        others = {name for m, name in given.items() if m != n and name}
        restricted = doubt.restricted(letters, others)
        for name in restricted | {name for name in letters for other in restricted | doubt.defines if in_row(other, name)}:
            paper.restricted.setdefault(name, paper.equations[n])
    defined = {name for name in given.values() if name}
    for equation in paper.equations:
        for name in _row(equation, letters) - defined:
            paper.restricted.setdefault(name, equation)


def _row(equation: PaperEquation, letters: Iterable[str]) -> set[str]:
    """Collect the letters that an equation gives with the one that it defines: x_1 with x_k, but for those of its right side and,
    if there are any of the row, the first one."""
    if equation.chain is None or equation.chain.defines is None:
        return set()
    name, own = equation.chain.defines.name, mentioned(equation.found)
    starts = any(in_row(name, other) for other in own)
    return {other for other in letters if in_row(name, other) and other not in own and not (starts and other.endswith("_0"))}


def _given(equation: PaperEquation) -> str:
    """Return the letter that an equation gives, or whose derivative: not what gives its value at one place."""
    if equation.chain is None or not equation.chain.relations or RELATIONS[equation.chain.relations[0].text] not in ("=", ":="):
        return ""
    left = solved(*equation.chain.sides[:2])[0]
    value = left.expr if isinstance(left, Derivative) else left
    return "" if any(not a.is_Symbol for a in value.args) else name_of_value(value)
