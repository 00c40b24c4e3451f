r"""Verdicts: their words, their evidence, and the statements that are read as terms first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from sympy import Basic, Expr, Ne

from derivations.prover.notebook import COLOURS, Cells, NotebookTable, certificate_words, counterexample_cells
from derivations.prover.reading import Reading
from derivations.prover.timelimit import OutOfTime, time_limit
from derivations.rules.quotients import NotShown

__all__ = [
    "AT_SIZES",
    "BUT_FOR_ROUNDING",
    "FAILS",
    "HOLDS",
    "HOLDS_ASSUMING",
    "REINTERPRETED",
    "SECONDS",
    "UNDECIDED",
    "ReadStatement",
    "Verdict",
    "condition_words",
    "timed",
]

HOLDS = "holds"
HOLDS_ASSUMING = "holds under the stated assumptions"
AT_SIZES = "holds at the sizes computed"
REINTERPRETED = "holds after reinterpretation"
BUT_FOR_ROUNDING = "holds but for rounding"
FAILS = "does not hold as printed"
UNDECIDED = "undecided"
# After these a statement is undecided; the longest of the ledger takes 3.
SECONDS = 120.0


@dataclass(frozen=True)
class Verdict(NotebookTable):
    r"""What was found about a statement, in how many seconds, by what evidence; true only if it is proved as it stands,
    and so not where it *holds but for rounding*.

    Args:    verdict: one of the words above; seconds; evidence: in words; counterexample: numbers for letters that refute
             it; defined_on: what must be true besides the letters' assumptions for both sides to be defined, as relations:
             outside of it the verdict says nothing, and "holds" becomes "holds under the stated assumptions"; certificate:
             what the checker needs to see the same; replays: computes both sides at the counterexample, for `replay`;
             statement: what was asked, in words; reports: makes what `report` gives. Notebooks show a table.
    """

    verdict: str
    seconds: float
    evidence: str
    counterexample: Mapping[Expr, Expr] | None = None
    defined_on: tuple[Basic, ...] = ()
    certificate: tuple[Any, ...] = field(default=(), repr=False)
    replays: Callable[[], Any] | None = field(default=None, compare=False, repr=False)
    statement: str = field(default="", compare=False, repr=False)
    reports: Callable[[Verdict], Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.defined_on and self.verdict == HOLDS:
            object.__setattr__(self, "verdict", HOLDS_ASSUMING)

    def _rows(self) -> Iterable[tuple[str, Cells]]:
        yield "verdict", [self.verdict]
        yield "statement", [self.statement] * bool(self.statement)
        yield "evidence", self.evidence.split("; ")
        yield "defined on", self.defined_on
        yield "counterexample", counterexample_cells(self.counterexample)
        yield "to be checked", certificate_words(self.certificate)

    def _colour(self) -> str:
        return COLOURS[self.holds]

    @property
    def holds(self) -> bool | None:
        """True if proved, False if refuted, None if neither."""
        return {HOLDS: True, HOLDS_ASSUMING: True, AT_SIZES: True, FAILS: False}.get(self.verdict)

    def replay(self) -> Any:
        """Compute both sides at the counterexample.

        Raises:  ValueError where there is none, or nothing to compute it with.
        """
        if self.replays is None:
            raise ValueError("there is nothing to replay: only counterexamples that come with code are computed.")
        return self.replays()

    def report(self) -> Any:
        """Report the verdict beside the lines of the code, with the mathematics read from them; `print` it, or `.markdown()`.

        Raises:  ValueError where the verdict is of no code.
        """
        if self.reports is None:
            raise ValueError("there is no code to report of: only `verify` of a module that could be read gives a report.")
        return self.reports(self)

    def _repr_html_(self) -> str:
        return super()._repr_html_() + (self.reports(self).excerpts_in_html() if self.reports is not None else "")

    def __bool__(self) -> bool:
        return self.holds is True


def condition_words(conditions: Iterable[Basic]) -> list[str]:
    """Write conditions in one line each: 1 - z != 0."""
    return [f"{c.lhs} != {c.rhs}" if isinstance(c, Ne) else str(c) for c in conditions]


def timed(decide: Callable[[], Verdict], what: str = "statement", seconds: float | None = SECONDS) -> Verdict:
    """Decide, and note the seconds that it took; what the checker does not accept, or takes too long, is undecided."""
    start = perf_counter()
    try:
        with time_limit(seconds):
            verdict = decide()
    except NotShown as refused:
        verdict = Verdict(UNDECIDED, 0.0, f"the checker does not accept the proof that was found: {refused}")
    except OutOfTime:
        evidence = f"out of time after {seconds:g} s, while a proof of this {what} was looked for, or numbers against it"
        verdict = Verdict(UNDECIDED, 0.0, evidence)
    return replace(verdict, seconds=perf_counter() - start)


class ReadStatement(ABC):
    """A statement that is read as terms of the checker first: what cannot be read is undecided."""

    def says(self) -> dict[str, Any] | None:
        """Read the statement as `concludes` takes it; None if it cannot be read."""
        try:
            return self._read(Reading())
        except ValueError:  # Unreadable among them
            return None

    kind: str

    def decide(self, seconds: float | None = SECONDS) -> Verdict:
        """Decide; what takes longer than these seconds is undecided, None for no limit."""
        return timed(self._decide, self.kind, seconds)

    def _decide(self) -> Verdict:
        reading = Reading()
        try:
            says = self._read(reading)
        except ValueError as unknown:
            return Verdict(UNDECIDED, 0.0, f"{unknown} is not read by the checker")
        return self._decided(reading, says)

    @abstractmethod
    def _read(self, reading: Reading) -> dict[str, Any]:
        """Read the statement, or raise ValueError that names what cannot be read."""

    @abstractmethod
    def _decided(self, reading: Reading, says: dict[str, Any]) -> Verdict: ...
