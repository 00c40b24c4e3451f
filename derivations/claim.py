r"""A claim: what a text says, how it is decided, and what is right where the text is wrong.

    Source    whose claims are judged: `source("eq. 7").says(words, statement, mutation=...)` writes an entry down
    Entry     what is written down: source, label, statements as printed, the correction, a mutation
    Claim     what was found: the entry's verdict with its evidence

and, for whoever writes entries, the kinds of statement: see `derivations.prover.statements`.

An entry's printed statements must all be proved for it to hold; one refuted statement refutes it. An entry found false
comes with a correction, itself proved; where a kinder reading of the same words saves it, with that reading, itself proved.
A mutation is a change of the formula that must turn the verdict: it shows that the check can fail. Where the print is
wrong, the corrected statement is that mutation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from derivations.prover.cases import IN_PRINT, Cases, Every, Measured, printed, said, spelt
from derivations.prover.formulas import PrintedFormula, written
from derivations.prover.inequalities import Less
from derivations.prover.limits import Expands, Tends
from derivations.prover.notebook import COLOURS, Cells, NotebookTable, certificate_words, counterexample_cells
from derivations.prover.statements import Equal, Fails, Rounds, Solves, Statement
from derivations.prover.verdict import AT_SIZES, FAILS, HOLDS, HOLDS_ASSUMING, REINTERPRETED, UNDECIDED, Verdict, condition_words
from derivations.wording import plain

__all__ = [
    "ALL_SIZES",
    "Claim",
    "Correction",
    "Entry",
    "Mutation",
    "Place",
    "Source",
    "changed",
    "decided",
    "flips",
    "Cases",
    "Equal",
    "Every",
    "Expands",
    "Fails",
    "Less",
    "Measured",
    "Rounds",
    "Solves",
    "Tends",
    "printed",
    "said",
    "spelt",
]

LONGEST_FORMULA, LONGEST_CONDITION = 400, 100
ALL_SIZES = "all sizes"
REMARK = "a remark on words in print, no proof"


@dataclass(frozen=True, init=False)
class Correction:
    """What is right, in words, and the statements that say so."""

    words: str
    statements: tuple[Statement, ...]

    def __init__(self, words: str, *statements: Statement) -> None:
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "statements", statements)


@dataclass(frozen=True)
class Mutation:
    """A change of the formula, in words, and the statement so changed: it must get the opposite verdict."""

    words: str
    statement: Statement


def changed(words: str, **parts: object) -> Callable[[tuple[Any, ...]], Mutation]:
    """A mutation that changes parts of the entry's first statement that has them: `changed("1/g read as g", rhs=g)`."""

    def of(statements: tuple[Any, ...]) -> Mutation:
        for statement in statements:
            if all(hasattr(statement, part) for part in parts):
                return Mutation(words, replace(statement, **parts))
        raise ValueError(f"{words}: no statement of the entry has {', '.join(parts)}.")

    return of


@dataclass(frozen=True)
class Entry:
    r"""One claim of a text, to be decided.

    Args:    source: stem of the literature file, or "this project"; label: "eq. 21", "footnote 7", "sec. 3, copy"; words:
             what the text says; statements: the same, to be decided as printed; assumptions: what must be assumed
             beyond what the letters carry by nature; mutation: must flip the verdict (a corrected entry needs none);
             correction: where the print is wrong; reading: where the print is wrong as it stands and right as a kinder
             reader takes it, that reading; remark: on the text (a garbled extraction, a reading chosen);
             recorded: the verdict expected, where the fields above do not say it (undecided entries, say);
             quote: the span of the text that is judged, as the literature file has it but for line breaks;
             sizes: where the text speaks of every size and the statements of some, which: "2 units, 1 input";
             prior_work: of a result of our own, who had it first, or what was looked for in vain.
    """

    source: str
    label: str
    words: str
    statements: tuple[Statement, ...]
    assumptions: tuple[str, ...] = ()
    mutation: Mutation | None = None
    correction: Correction | None = None
    remark: str = ""
    recorded: str = ""
    quote: str = ""
    sizes: str = ""
    reading: Correction | None = None
    prior_work: str = ""

    def __post_init__(self) -> None:
        if not self.statements:
            raise ValueError(f"{self.source}, {self.label}: an entry needs at least one statement.")
        if not isinstance(self.mutation, Mutation | None):
            raise TypeError(f"{self.source}, {self.label}: `mutation` is a Mutation or made by `changed`, got {self.mutation!r}.")
        if self.correction is not None and self.reading is not None:
            raise ValueError(f"{self.source}, {self.label}: a print is saved by a reading or corrected, not both.")
        if self.expected != UNDECIDED and self.mutation is None and self.right is None:
            raise ValueError(f"{self.source}, {self.label}: name a mutation that must flip the verdict.")

    @property
    def expected(self) -> str:
        if self.recorded:
            return self.recorded
        if self.right is not None:
            return FAILS if self.reading is None else REINTERPRETED
        return self.word_for_proved

    @property
    def right(self) -> Correction | None:
        """What is right where the print as it stands is not: the correction, or the reading."""
        return self.correction or self.reading

    @property
    def word_for_proved(self) -> str:
        return AT_SIZES if self.sizes else HOLDS_ASSUMING if self.assumptions else HOLDS


@dataclass(frozen=True)
class Source:
    """A text, or this project, by its name in the ledger: `source(label)` is a place in it, whose `says` writes an entry.

    Args:    as those of `Entry`; given: its assumptions, one as a string or several as a tuple;
             prior_work: by the beginnings of labels, the longest one counts.
    """

    name: str
    prior_work: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __call__(self, label: str, *, given: str | tuple[str, ...] = (), sizes: str = "") -> Place:
        return Place(self.name, label, (given,) if isinstance(given, str) else given, sizes, self.prior_work_of(label))

    def prior_work_of(self, label: str) -> str:
        """Return the line of the longest key that a label begins with, by whole words; "" if there is none."""
        beginnings = [start for start in self.prior_work if label == start or label.startswith((f"{start},", f"{start} "))]
        return self.prior_work[max(beginnings, key=len)] if beginnings else ""


@dataclass(frozen=True)
class Place:
    """A label in a source, and what its claim is said of."""

    source: str
    label: str
    assumptions: tuple[str, ...]
    sizes: str
    prior_work: str = ""

    def says(
        self,
        words: str,
        *statements: Statement,
        mutation: Mutation | Callable[[tuple[Any, ...]], Mutation] | None = None,
        correction: Correction | None = None,
        reading: Correction | None = None,
        remark: str = "",
        recorded: str = "",
        quote: str = "",
    ) -> Entry:
        """The entry. Args: as those of `Entry`; mutation: also one made by `changed`."""
        return Entry(
            self.source,
            self.label,
            words,
            statements,
            self.assumptions,
            mutation=mutation(statements) if callable(mutation) else mutation,
            correction=correction,
            reading=reading,
            remark=remark,
            recorded=recorded,
            quote=quote,
            sizes=self.sizes,
            prior_work=self.prior_work,
        )

    def repeats(self, entry: Entry, quote: str, words: str = "") -> Entry:
        """The entry of another place, said here once more, perhaps in other words."""
        return replace(entry, source=self.source, label=self.label, quote=quote, words=words or entry.words)


@dataclass(frozen=True)
class Claim(NotebookTable):
    r"""A claim and its verdict.

    Args:    source, label; statement: in words, with its formula; assumptions; verdict: one of the six of verdict.py;
             correction: what is right where the print is wrong, or the kinder reading that saves it, else None; evidence: how
             it was decided, with the counterexample of what is false; seconds it took.
             Beyond these: words and formulas, the statement in its two halves; right: the correction's formulas;
             recorded: the verdict expected; mutation: the change that must flip the verdict; counterexample: numbers by
             letter; quote: the span of the text that is judged; scope: all sizes, or which; defined_on: where the proofs hold,
             if that is not for all values that the letters' assumptions allow; certificates: for each statement what it says
             and the steps that show it, see `derivations.rules.conclusions`; remark: on the text, the end of the evidence;
             where: `defined_on` in a reader's notation.
             prior_work: of a result of our own, who had it first, or what was looked for in vain.
    """

    source: str
    label: str
    statement: str
    assumptions: tuple[str, ...]
    verdict: str
    correction: str | None
    evidence: str
    seconds: float
    words: str = ""
    formulas: tuple[PrintedFormula, ...] = ()
    right: tuple[PrintedFormula, ...] = ()
    recorded: str = ""
    mutation: str = ""
    counterexample: dict[Any, Any] = field(default_factory=dict)
    quote: str = ""
    scope: str = ALL_SIZES
    defined_on: tuple[str, ...] = ()
    certificates: tuple[Any, ...] = field(default=(), repr=False)
    remark: str = ""
    where: tuple[str, ...] = ()
    prior_work: str = ""

    @property
    def corrected_by(self) -> str:
        """Return what stands before a correction: "read as" where a kinder reading saves the print, else "right is"."""
        return "read as" if self.verdict == REINTERPRETED else "right is"

    @property
    def corrected(self) -> str:
        """Return the words of the correction, without its formula; "" where the print is not wrong."""
        return (self.correction or "").partition(" | ")[0]

    def _rows(self) -> Iterable[tuple[str, Cells]]:
        yield "verdict", [self.verdict]
        yield f"{self.source}, {self.label}", [self.words or self.statement, *self.formulas]
        yield "for", self.provided
        yield self.corrected_by, [*([self.corrected] if self.corrected else []), *self.right]
        yield "evidence", self.evidence.split("; ")
        yield "counterexample", counterexample_cells(self.counterexample)
        yield "prior work", [self.prior_work] if self.prior_work else []
        yield "to be checked", certificate_words(self.certificates)

    def _colour(self) -> str:
        return COLOURS[{FAILS: False, REINTERPRETED: False, UNDECIDED: None}.get(self.verdict, True)]

    @property
    def provided(self) -> tuple[str, ...]:
        """List what the verdict is for: the assumptions, where both sides are defined, the sizes, and whether it is a remark."""
        where = f"where {' and '.join(self.where)}"
        where = where if len(where) <= LONGEST_CONDITION else "where both sides are defined"
        sizes = [] if self.scope == ALL_SIZES else [self.scope]
        return (*self.assumptions, *[where] * bool(self.where), *sizes, *[REMARK] * self.is_remark)

    @property
    def is_remark(self) -> bool:
        """Return whether all that is stated compares words of the print with words: that is looked up, and not proved."""
        return bool(self.certificates) and all(IN_PRINT in statement["kind"] for statement in self.certificates)

    @property
    def numbers(self) -> tuple[str, ...]:
        """List the numbers of the counterexample, for readers."""
        return tuple(f"{plain(letter)} = {plain(value)}" for letter, value in self.counterexample.items())

    @property
    def as_recorded(self) -> bool:
        """Return whether the verdict is the one expected, if one is."""
        return self.recorded in ("", self.verdict)


def decided(entry: Entry) -> Claim:
    r"""Decide an entry.

    Returns: a `Claim`. False needs a counterexample, and a correction needs a proof: without either it is undecided.
    """
    start = perf_counter()
    verdicts = [statement.decide() for statement in entry.statements]
    verdict, evidence = _verdict(entry, verdicts), _evidence(entry.statements, verdicts)
    refuted = next((v for v in verdicts if v.holds is False), None)
    numbers = {} if refuted is None else dict(refuted.counterexample or {})
    if numbers:
        evidence += "; counterexample: " + ", ".join(f"{k} = {v}" for k, v in numbers.items())
    correction: str | None = None
    right: tuple[PrintedFormula, ...] = ()
    certificates = _certificates("print", entry.statements, verdicts)
    conditions = tuple(dict.fromkeys(condition for v in verdicts for condition in v.defined_on))
    defined_on = tuple(dict.fromkeys(condition_words(conditions)))
    if verdict == HOLDS and defined_on:
        verdict = HOLDS_ASSUMING
    if entry.right is not None:
        proofs = [statement.decide() for statement in entry.right.statements]
        certificates += _certificates("reading" if entry.reading else "right", entry.right.statements, proofs)
        right = _formulas(entry.right.statements)
        correction = _said(entry.right.words, right)
        if not all(proofs):
            verdict = UNDECIDED
        elif entry.reading is not None and verdict == FAILS:
            verdict = REINTERPRETED
        evidence += f"; {'reading' if entry.reading else 'correction'}: " + _evidence(entry.right.statements, proofs)
    formulas = _formulas(entry.statements)
    return Claim(
        entry.source,
        entry.label,
        _said(entry.words, formulas),
        entry.assumptions,
        verdict,
        correction,
        evidence + (f"; {entry.remark}" if entry.remark else ""),
        perf_counter() - start,
        words=entry.words,
        formulas=formulas,
        right=right,
        recorded=entry.expected,
        mutation=entry.mutation.words if entry.mutation else "as corrected" if entry.right else "",
        counterexample=numbers,
        quote=entry.quote,
        scope=entry.sizes or ALL_SIZES,
        defined_on=() if verdict in (FAILS, REINTERPRETED) else defined_on,
        certificates=certificates,
        remark=entry.remark,
        where=() if verdict in (FAILS, REINTERPRETED) else tuple(dict.fromkeys(map(plain, conditions))),
        prior_work=entry.prior_work,
    )


def _certificates(of: str, statements: Iterable[Statement], found: Iterable[Verdict]) -> tuple[Any, ...]:
    pairs = zip(statements, found, strict=True)
    return tuple({"of": of, "kind": s.kind, "holds": v.holds, "says": s.says(), "steps": v.certificate} for s, v in pairs)


def flips(entry: Entry) -> bool:
    r"""Whether the entry's mutation gets the opposite verdict: refuted where the entry holds, proved where it fails."""
    if entry.expected == UNDECIDED:
        return True
    if entry.mutation is not None:
        wanted = entry.expected in (FAILS, REINTERPRETED)
        return entry.mutation.statement.decide().holds is wanted
    assert entry.right is not None
    return all(statement.decide() for statement in entry.right.statements)


def _verdict(entry: Entry, found: Iterable[Verdict]) -> str:
    answers = [verdict.holds for verdict in found]
    if False in answers:
        return FAILS
    if None in answers:
        return UNDECIDED
    return entry.word_for_proved


def _evidence(statements: Iterable[Statement], found: Iterable[Verdict]) -> str:
    return "; ".join(dict.fromkeys(f"{s.kind}: {v.evidence}" for s, v in zip(statements, found, strict=True)))


def _formulas(statements: Iterable[Statement]) -> tuple[PrintedFormula, ...]:
    return tuple(written(formula) for statement in statements for formula in statement.formulas())


def _said(words: str, formulas: Iterable[PrintedFormula]) -> str:
    """Words and formulas in one line; a formula too long to read is left to the code."""
    texts = [formula.text for formula in formulas if len(formula.text) <= LONGEST_FORMULA]
    return words + (" | " + "; ".join(texts) if texts else "")
