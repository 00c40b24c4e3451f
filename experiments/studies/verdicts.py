r"""Judges a claim, part by part, by the intervals that were measured.

effect             the difference in print, or the least one that counts
interval           95 %, of the difference measured; paired where runs are

claimed            yes          the interval excludes what does not count: 0 of an effect in print, else what is below the effect
                   no           it does not come as far as the effect
                   undecided    else
claimed absent     yes          the interval is within the effect on both sides of 0
                   no           it is beyond the effect on one side
                   undecided    else

of several         yes          each: yes
                   no           one: no, at a level for as many as they are

verdict            reproduced        every part: yes
                   not reproduced    every part: no
                   partly            some yes, some no
                   undecided         else: by what the undecided parts are, it would be one or the other

Levels of a study's differences are by Holm's step-down method, the surest of n at 1 - 0.05/n, the next at 1 - 0.05/(n - 1), ...,
from the first that is undecided on all at its level: at least one answer is wrong by chance in one study of twenty at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from experiments.reports.spreads import NotEnoughError, Spread, difference, number

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Answer",
    "ClaimPart",
    "ClaimVerdict",
    "Compared",
    "EveryComparison",
    "NoVerdict",
    "Part",
    "Verdict",
    "compared",
    "need_intervals",
    "partial_words",
]

Answer = Literal["yes", "no", "undecided"]
Word = Literal["reproduced", "partly", "not reproduced", "undecided"]
ERROR = 0.05  # of an interval of 95 %
HALVINGS, SMALLEST = 60, -1000.0  # of the binary logarithm of a chance of error, and where it begins


@dataclass(frozen=True)
class Compared:
    """Compares a measured difference with the effect that is claimed.

    Args:    measured: the difference, from low to high its 95 % interval;  effect: its size in print, or the least that
             counts, with the sign that is claimed;  absent: whether the claim is that there is none of that size;
             printed: whether the effect is in print;  error: the chance by which the interval that answers errs.
    Raises:  ValueError for an effect of 0, which nothing could be told from.
    """

    measured: Spread
    effect: float
    absent: bool = False
    printed: bool = True
    error: float = ERROR

    def __post_init__(self) -> None:
        if not abs(self.effect) > 0:
            raise ValueError(
                f"an effect of {self.effect} cannot be told from none; give its size in print, or the least one that counts."
            )

    @property
    def answer(self) -> Answer:
        return self.erring(self.error)

    def erring(self, chance: float) -> Answer:
        """Answer by the interval that errs by a chance.

        A wider one than the 95 % takes answers back, and gives no other: of an effect in print it may hold 0 and not the effect,
        where the 95 % holds neither.
        """
        found = self._by(self.measured.erring(chance))
        return found if chance >= ERROR or found == self._by(self.measured) else "undecided"

    def _by(self, measured: Spread) -> Answer:
        # In units of the effect; whatever is not a number is in no interval, and decides nothing.
        low, high = sorted((measured.low / self.effect, measured.high / self.effect))
        if self.absent:
            return "yes" if low > -1 and high < 1 else "no" if low >= 1 or high <= -1 else "undecided"
        return "yes" if low > (0 if self.printed else 1) else "no" if high < 1 else "undecided"

    def __str__(self) -> str:
        """Write "0.0287, 95 % -0.0063 to 0.0637, which holds both 0 and the 0.01 in print"."""
        low, high = self.measured.low, self.measured.high
        if not (math.isfinite(low) or math.isfinite(high)):
            return f"{_places(self.measured.mean)}, without an interval, which needs two runs of each that are not all alike"
        wide = self.measured.erring(self.error)
        size = f"{abs(self.effect) if self.absent else self.effect:.3g} {'in print' if self.printed else 'that counts'}"
        holds_none, by_itself = wide.low <= 0 <= wide.high, self._by(wide) != "undecided"
        why = {
            (False, "yes"): "which does not hold 0" if self.printed else f"which is beyond the {size}",
            (True, "yes"): f"which is within the {size}",
            (False, "no"): f"which does not come to the {size}",
            (True, "no"): f"which is beyond the {size}",
        }.get(
            (self.absent, self.answer),
            "which holds 0" if by_itself else f"which holds both 0 and the {size}" if holds_none else f"which holds the {size}",
        )
        among = f" (among others {100 * (1 - self.error):.4g} %: {_ends(wide, low, high)})" if self.error < ERROR else ""
        return f"{_places(self.measured.mean, low, high)}, 95 % {_ends(self.measured)}{among}, {why}"


def _ends(interval: Spread, *beside: float) -> str:
    """Write "-0.0063 to 0.0637"; of an interval that is open on one side "0.0200 or more"."""
    low, high = (_places(value, *(beside or (interval.low, interval.high))) for value in (interval.low, interval.high))
    if math.isfinite(interval.low) and math.isfinite(interval.high):
        return f"{low} to {high}"
    return f"{low} or more" if math.isfinite(interval.low) else f"{high} or less"


def _places(value: float, *beside: float) -> str:
    """Write a difference with four decimals, or with three digits of the largest where these would not show two."""
    largest = max((abs(each) for each in (value, *beside) if math.isfinite(each)), default=0.0)
    if not 0 < largest < 1e-3:
        return f"{value:.4f}"
    return f"{value:.{2 - math.floor(math.log10(largest))}f}" if largest > 1e-6 else f"{value:.2e}"


@dataclass(frozen=True)
class EveryComparison:
    """Holds several comparisons by name, all of which have to hold: the best or the worst alone decides nothing."""

    of: Mapping[str, Compared]
    error: float = ERROR

    @property
    def answer(self) -> Answer:
        return self.erring(self.error)

    def erring(self, chance: float) -> Answer:
        """Answer by intervals that err by a chance: yes if all are yes, no if one is no by a chance divided by their number."""
        if self.of and all(one.erring(chance) == "yes" for one in self.of.values()):
            return "yes"
        strict = chance / max(1, len(self.of))
        return "no" if any(one.erring(strict) == "no" for one in self.of.values()) else "undecided"

    def __str__(self) -> str:
        return "; ".join(f"{name} {replace(one, error=self.error)}" for name, one in self.of.items())


@dataclass(frozen=True)
class ClaimPart:
    """Says of one part of a claim whether it holds, and by which numbers.

    Args:    holds: whether it does; or comparisons, which answer by intervals; or None where nothing that was run decides.
    Raises:  TypeError for anything else, which would count as true.
    """

    claim: str
    holds: bool | Compared | EveryComparison | None
    evidence: str = ""

    def __post_init__(self) -> None:
        if not (self.holds is None or isinstance(self.holds, Compared | EveryComparison) or self.holds in (True, False)):
            raise TypeError(f"`holds` of a part is True, False, None or a Compared; got {self.holds!r} for {self.claim!r}.")

    @property
    def answer(self) -> Answer:
        if isinstance(self.holds, Compared | EveryComparison):
            return self.holds.answer
        return "undecided" if self.holds is None else "yes" if self.holds else "no"

    @property
    def numbers(self) -> str:
        """Write the evidence, and the difference where one answers."""
        return "; ".join(
            filter(
                None, (self.evidence, f"difference {self.holds}" if isinstance(self.holds, Compared | EveryComparison) else "")
            )
        )

    @property
    def begun(self) -> str:
        """Write the claim as a sentence begins."""
        words = self.claim[:2].isalpha() or (self.claim[:2] == "a " and self.claim[2:4].isalpha())  # never r = 2
        return self.claim[0].upper() + self.claim[1:] if words else self.claim

    def __str__(self) -> str:
        return f"{self.begun}: {self.answer}{f' ({self.numbers})' if self.numbers else ''}."


def compared(
    claim: str, ours: pd.Series, theirs: pd.Series, effect: float, more: str = "", *, absent: bool = False, printed: bool = True
) -> ClaimPart:
    """Make a part on the difference between two means over seeds, with both means as evidence.

    Args:    more: follows them;  effect, absent, printed: as `Compared` has them.
    """
    evidence = f"{number(float(ours.mean()))} against {number(float(theirs.mean()))}{more}"
    return ClaimPart(claim, Compared(difference(ours, theirs), effect, absent, printed), evidence)


def need_intervals(parts: Iterable[ClaimPart]) -> None:
    """Refuse differences that have no interval. Raises: NotEnoughError."""
    compared = [part.holds for part in parts if isinstance(part.holds, Compared | EveryComparison)]
    each = [one for holds in compared for one in (holds.of.values() if isinstance(holds, EveryComparison) else [holds])]
    measured = [one.measured for one in each]
    if not all(math.isfinite(one.low) or math.isfinite(one.high) for one in measured):
        raise NotEnoughError("an interval needs two seeds of each")


def partial_words(runs: str) -> str:
    """Say behind a verdict that a part of the runs is one."""
    return f" This is from {runs}."


@dataclass(frozen=True)
class ClaimVerdict:
    """Judges a claim of several parts, in a word that follows from their answers.

    The levels of its comparisons are adjusted by Holm's method.

    Args:    numbers: ours, by what they are;  summary: a sentence in place of the parts, one after the other;  another: in what
             the experiment is another one than that of the claim, which it then leaves undecided, whatever was found.
    """

    parts: Sequence[ClaimPart]
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    summary: str = ""
    another: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _together(self.parts))

    @property
    def word(self) -> Word:
        answers = {part.answer for part in self.parts}
        if self.another or not answers:
            return "undecided"
        if {"yes", "no"} <= answers:
            return "partly"
        return "undecided" if "undecided" in answers else "reproduced" if "yes" in answers else "not reproduced"

    @property
    def heading(self) -> str:
        """Return the word, as a page begins with it."""
        return "Partly reproduced" if self.word == "partly" else self.word.capitalize()

    @property
    def sentence(self) -> str:
        words = self.summary.strip() or " ".join(map(str, self.parts))
        return f"{self.another} What was found in it: {words}" if self.another else words


def _together(parts: Sequence[ClaimPart]) -> list[ClaimPart]:
    """Give the comparisons of a study the chances of error by which they are judged beside one another."""
    comparisons = [part.holds for part in parts if isinstance(part.holds, Compared | EveryComparison)]
    held = errors_by_holm([least_error(lambda error, of=one: of.erring(error) != "undecided") for one in comparisons])  # type: ignore[misc]
    left = iter([replace(one, error=error) for one, error in zip(comparisons, held, strict=True)])
    return [replace(part, holds=next(left)) if isinstance(part.holds, Compared | EveryComparison) else part for part in parts]


def errors_by_holm(errors: Sequence[float]) -> list[float]:
    """Return the chance of error that each difference is judged by, from the least by which they would be decided."""
    found, failed = [ERROR] * len(errors), False
    error = ERROR
    for place, k in enumerate(sorted(range(len(errors)), key=errors.__getitem__)):
        error = error if failed else ERROR / (len(errors) - place)
        failed = failed or errors[k] > error
        found[k] = error
    return found


def least_error(decides: Callable[[float], bool]) -> float:
    """Find the least chance of error by which an interval decides: `decides(chance)` turns from no to yes as the chance rises.

    Its logarithm is halved, so that the least of chances are told apart, too.
    """
    low, high = SMALLEST, 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if decides(2.0**middle) else (middle, high)
    return 2.0**high


@dataclass(frozen=True)
class NoVerdict:
    """Takes the place of a verdict where none can be given, and says why. `final`: none will be, whatever is run."""

    heading: str
    sentence: str
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    word: Literal[""] = ""
    final: bool = False


# As `ctrnn_experiments` names them; one a line, for type checkers read no alias in a pair.
Part = ClaimPart
Verdict = ClaimVerdict
