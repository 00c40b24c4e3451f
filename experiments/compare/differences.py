r"""Takes differences of scores seed by seed, and says which are told apart, and by how much.

    difference    mean over seeds of (ours - theirs), both of one seed: the same start, the same batches
    interval      95 %, by Student's t of these differences
    told apart    Holm's p is below 0.05: the p of the paired t test, times how many are left of its family, the smallest first

There are three families, each with its own count: ways in which weights were trained and run, the same weights run otherwise,
and fields. Where a training or a run diverged on some seed no difference is taken: the seeds that are left were not left by
chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

from experiments.compare.cells import BY_RUN, BY_TRAINING, ROUNDING, ComparisonLayout, CrosswiseCell, Seeds, cells, where_in_words
from experiments.reports import spreads
from experiments.reports.spreads import NotEnoughError, Spread, holm, number
from experiments.studies.results import Results
from experiments.studies.verdicts import ClaimVerdict

__all__ = [
    "ALIKE",
    "FAMILIES",
    "LEVEL",
    "OTHERWISE",
    "ComparisonOutcome",
    "Difference",
    "conclusion",
    "differences",
    "paired",
]

LEVEL = 0.05
ALIKE, OTHERWISE, FIELDS = "trained and run one way", "the same weights run another way", "fields"
FAMILIES = (ALIKE, OTHERWISE, FIELDS)
MOST = 4  # pairs of a family that are named; the table has all


@dataclass(frozen=True)
class Difference:
    r"""Holds the difference of two scores.

    Args:    family: of those that are tested together; ours, theirs: in words; field, clock, speed: where it is taken;
             measured: mean and 95 % interval, None where none is taken; p: of the paired t test; holm: the same, adjusted; lost:
             on how many seeds one of both has no score.
    """

    family: str
    ours: str
    theirs: str
    field: str
    clock: bool
    speed: float | None
    measured: Spread | None
    p: float = math.nan
    holm: float = math.nan
    lost: int = 0

    @property
    def told_apart(self) -> bool:
        return self.holm < LEVEL


def differences(results: Results, layout: ComparisonLayout) -> list[Difference]:
    """Take all differences of a comparison, family by family. Raises: NotEnoughError where no two seeds are done."""
    known = cells(results, layout)
    pairs = (pair for pair in _pairs(layout) if not _once_more(layout.score, pair[-2:], known))
    tested = [_difference(layout.score, *pair, known) for pair in pairs]
    told = []
    for family in FAMILIES:
        mine = [each for each in tested if each is not None and each.family == family]
        told += [replace(each, holm=p) for each, p in zip(mine, holm([each.p for each in mine]), strict=True)]
    if not told:
        raise NotEnoughError("an interval needs two seeds of each; with one, what is ahead may be so by chance: --seeds 5")
    return told


def _pairs(layout: ComparisonLayout) -> Iterator[tuple[str, str, str, CrosswiseCell, CrosswiseCell]]:
    """Yield the family, both in words, and both places of every difference."""
    for field, clock, speed in layout.settings():
        for one, other in combinations(layout.ways, 2):
            yield (
                ALIKE,
                one,
                other,
                CrosswiseCell(field, one, one, clock, speed),
                CrosswiseCell(field, other, other, clock, speed),
            )
        for trained, run in permutations(layout.ways, 2):
            places = CrosswiseCell(field, trained, run, clock, speed), CrosswiseCell(field, trained, trained, clock, speed)
            yield OTHERWISE, f"trained {trained}, run {run}", f"run {trained}", *places
        for other in layout.fields[layout.fields.index(field) + 1 :]:
            for way in layout.ways:
                places = CrosswiseCell(field, way, way, clock, speed), CrosswiseCell(other, way, way, clock, speed)
                yield FIELDS, f"{way}: {field}", other, *places


def _once_more(score: str, places: tuple[CrosswiseCell, ...], known: dict[CrosswiseCell, Seeds]) -> bool:
    """Return whether these are the numbers of the clock given once more, as at speed 1 of what has no stamps."""
    for place in places:
        given = known.get(place._replace(clock_given=True), {})
        if place.speed != 1 or place.clock_given or not given:
            return False
        if any(given[k].get(score) != one.get(score) for k, one in known[place].items()):
            return False
    return True


def _difference(
    score: str, family: str, ours: str, theirs: str, one: CrosswiseCell, other: CrosswiseCell, known: dict[CrosswiseCell, Seeds]
) -> Difference | None:
    """Take one; None where no two seeds of both are done."""
    about = family, ours, theirs, "" if family == FIELDS else one.field, one.clock_given, one.speed
    both = sorted(known[one].keys() & known[other].keys())
    if len(both) < 2:
        return None
    pairs = [(known[one][seed], known[other][seed]) for seed in both]
    if lost := sum(bool(a["lost"] or b["lost"]) for a, b in pairs):
        return Difference(*about, None, lost=lost)
    return Difference(*about, *paired([a[score] for a, _ in pairs], [b[score] for _, b in pairs]))


def paired(ours: Sequence[float], theirs: Sequence[float]) -> tuple[Spread, float]:
    """Compute the mean difference of two or more pairs, with its 95 % interval, and the p of the paired t test.

    Where all differences are alike, up to the rounding of scores, p is nan, and the interval infinite, or of no length where all
    of them are 0.
    """
    each = [one - other for one, other in zip(ours, theirs, strict=True)]
    mean, rounding = math.fsum(each) / len(each), ROUNDING * max(map(abs, (*ours, *theirs)))
    if abs(mean) <= rounding:
        mean = 0.0
    if max(each) - min(each) <= rounding:
        apart = math.inf if mean else 0.0
        return Spread(mean, mean - apart, mean + apart, len(each)), math.nan
    intervals = spreads.paired(each)
    return replace(intervals, mean=mean), intervals.p


@dataclass(frozen=True)
class ComparisonOutcome(ClaimVerdict):
    """Holds what a comparison found; no claim is judged."""

    told: int = 0
    tested: int = 0

    @property
    def heading(self) -> str:
        if not self.tested:
            return "No difference can be taken"
        return f"{self.told or 'None'} of {self.tested} differences told apart"


def conclusion(results: Results, layout: ComparisonLayout) -> ComparisonOutcome:
    """Draw the conclusion. Raises: NotEnoughError where no two seeds are done."""
    found = differences(results, layout)
    said = [f"By {layout.score} ({layout.better} is better), seed by seed."]
    for family in FAMILIES:
        if mine := [each for each in found if each.family == family]:
            said.append(_about(layout, family, mine))
    if lost := list(_lost(results, layout)):
        said += [*lost, "No difference is taken there, as the seeds that are left were not left by chance."]
    tested = sum(each.measured is not None for each in found)
    return ComparisonOutcome((), summary=" ".join(said), told=sum(each.told_apart for each in found), tested=tested)


def _about(layout: ComparisonLayout, family: str, found: Sequence[Difference]) -> str:
    told, title = [each for each in found if each.told_apart], f"{family[0].upper()}{family[1:]}"
    found = [each for each in found if each.measured is not None]
    if not found:
        return f"{title}: no difference can be taken."
    if not told:
        none = "the one difference is not" if len(found) == 1 else f"none of {len(found)} differences is"
        return f"{title}: {none} told apart."
    pairs: dict[tuple[str, str, bool], list[Difference]] = {}
    for each in sorted(told, key=lambda each: -abs(_mean(each))):
        pairs.setdefault((each.ours, each.theirs, _mean(each) > 0), []).append(each)
    named = [_in_words(layout, *pair, some) for pair, some in list(pairs.items())[:MOST]]
    more = f"; and {len(pairs) - MOST} more pairs, in the table" if len(pairs) > MOST else ""
    count = f"{len(told)} of {len(found)} differences {'is' if len(told) == 1 else 'are'}"
    return f"{title}: {count} told apart: {'; '.join(named)}{more}."


def _mean(one: Difference) -> float:
    return 0.0 if one.measured is None else one.measured.mean


def _in_words(layout: ComparisonLayout, ours: str, theirs: str, above: bool, found: Sequence[Difference]) -> str:
    """Write "euler is below exact by 0.41 (95 % 0.3 to 0.5) at c = 4, and at c = 2": the largest first, with its size."""
    first = found[0].measured
    assert first is not None
    low, high = sorted((abs(first.low), abs(first.high)))  # both ends have one sign, else the two would not be told apart
    where, *more = (where_in_words(layout, each.field, each.clock, each.speed) for each in found)
    size = f"by {number(abs(first.mean), 2)} (95 % {number(low, 2)} to {number(high, 2)})"
    at = f"{where and ' at '}{where}{''.join(f', and at {place}' for place in more)}"
    return f"{ours} is {'above' if above else 'below'} {theirs} {size}{at}"


def _lost(results: Results, layout: ComparisonLayout) -> Iterator[str]:
    """Say which trainings and runs diverged, on how many seeds."""
    known = cells(results, layout)
    trained, ran = dict[str, tuple[int, int]](), dict[str, tuple[int, int]]()
    for place, seeds in known.items():
        name = f"{place.field} by {place.trained}" if len(layout.fields) > 1 else place.trained
        if count := sum(one["lost"] == BY_TRAINING for one in seeds.values()):
            trained[name] = count, len(seeds)
        if count := sum(one["lost"] == BY_RUN for one in seeds.values()):
            most = max(count, ran.get(words := f"trained {name}, run {place.run_as}", (0, 0))[0])
            ran[words] = most, len(seeds)
    for what, found in (("Training", trained), ("A run", ran)):
        if found:
            listed = "; ".join(f"{name}, on {count} of {seeds} seeds" for name, (count, seeds) in found.items())
            yield f"{what} diverged: {listed}."
