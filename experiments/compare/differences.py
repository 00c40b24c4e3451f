r"""Takes differences of scores seed by seed, and says which are told apart.

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

from experiments.compare.cells import ROUNDING, Layout, Place, Seeds, cells
from experiments.reports import spreads
from experiments.reports.spreads import NotEnoughError, Spread
from experiments.studies.results import Results

__all__ = ["ALIKE", "FAMILIES", "LEVEL", "OTHERWISE", "Difference", "differences", "holm", "paired"]

LEVEL = 0.05
ALIKE, OTHERWISE, FIELDS = "trained and run one way", "the same weights run another way", "fields"
FAMILIES = (ALIKE, OTHERWISE, FIELDS)


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


def differences(results: Results, layout: Layout) -> list[Difference]:
    """Take all differences of a comparison, family by family. Raises: NotEnoughError where no two seeds are done."""
    known = cells(results, layout)
    pairs = (pair for pair in _pairs(layout) if not _once_more(layout.score, pair[-2:], known))
    found = [_difference(layout.score, *pair, known) for pair in pairs]
    told = []
    for family in FAMILIES:
        mine = [each for each in found if each is not None and each.family == family]
        told += [replace(each, holm=p) for each, p in zip(mine, holm([each.p for each in mine]), strict=True)]
    if not told:
        raise NotEnoughError("an interval needs two seeds of each; with one, what is ahead may be so by chance: --seeds 5")
    return told


def _pairs(layout: Layout) -> Iterator[tuple[str, str, str, Place, Place]]:
    """Yield the family, both in words, and both places of every difference."""
    for field, clock, speed in layout.settings():
        for one, other in combinations(layout.ways, 2):
            yield ALIKE, one, other, Place(field, one, one, clock, speed), Place(field, other, other, clock, speed)
        for trained, run in permutations(layout.ways, 2):
            places = Place(field, trained, run, clock, speed), Place(field, trained, trained, clock, speed)
            yield OTHERWISE, f"trained {trained}, run {run}", f"run {trained}", *places
        for other in layout.fields[layout.fields.index(field) + 1 :]:
            for way in layout.ways:
                places = Place(field, way, way, clock, speed), Place(other, way, way, clock, speed)
                yield FIELDS, f"{way}: {field}", other, *places


def _once_more(score: str, places: tuple[Place, ...], known: dict[Place, Seeds]) -> bool:
    """Return whether these are the numbers of the clock given once more, as at speed 1 of what has no stamps."""
    for place in places:
        given = known.get(place._replace(clock_given=True), {})
        if place.speed != 1 or place.clock_given or not given:
            return False
        if any(given[k].get(score) != one.get(score) for k, one in known[place].items()):
            return False
    return True


def _difference(
    score: str, family: str, ours: str, theirs: str, one: Place, other: Place, known: dict[Place, Seeds]
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
    found = spreads.paired(each)
    return replace(found, mean=mean), found.p


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust the p of tests that are made together (Holm 1979); a nan is no test, and stays."""
    tested, found, largest = sorted((p, k) for k, p in enumerate(ps) if not math.isnan(p)), list(ps), 0.0
    for rank, (p, k) in enumerate(tested):
        largest = max(largest, min(1.0, p * (len(tested) - rank)))
        found[k] = largest
    return found
