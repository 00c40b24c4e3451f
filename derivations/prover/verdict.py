r"""What can be found about a statement: the words of the verdicts, and a verdict with its evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sympy import Basic, Expr

from derivations.prover.notebook import COLOURS, Cells, Shown, certificate_words, counterexample_cells

__all__ = ["AT_SIZES", "FAILS", "HOLDS", "HOLDS_ASSUMING", "REINTERPRETED", "UNDECIDED", "Verdict"]

HOLDS = "holds"
HOLDS_ASSUMING = "holds under the stated assumptions"
AT_SIZES = "holds at the sizes computed"
REINTERPRETED = "holds after reinterpretation"
FAILS = "does not hold as printed"
UNDECIDED = "undecided"


@dataclass(frozen=True)
class Verdict(Shown):
    r"""What was found about a statement, in how many seconds, by what evidence; true only if it is proved.

    Args:    verdict: one of the words above; seconds; evidence: in words; counterexample: numbers for letters that refute
             it; defined_on: what must be true besides the letters' assumptions for both sides to be defined, as relations:
             outside of it the verdict says nothing; certificate: what the checker needs to see the same; replays: computes
             both sides at the counterexample, for `replay`; statement: what was asked, in words. Notebooks show a table.
    Source:  this project.
    """

    verdict: str
    seconds: float
    evidence: str
    counterexample: Mapping[Expr, Expr] | None = None
    defined_on: tuple[Basic, ...] = ()
    certificate: tuple[Any, ...] = field(default=(), repr=False)
    replays: Callable[[], Any] | None = field(default=None, compare=False, repr=False)
    statement: str = field(default="", compare=False, repr=False)

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
        """Both sides computed at the counterexample.

        Raises:  ValueError where there is none, or nothing to compute it with.
        """
        if self.replays is None:
            raise ValueError("there is nothing to replay: only counterexamples that come with code are computed.")
        return self.replays()

    def __bool__(self) -> bool:
        return self.holds is True
