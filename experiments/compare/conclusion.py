"""Says in a sentence which ways of a comparison are told apart, and by how much; it follows from the differences alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.compare.cells import BY_RUN, BY_TRAINING, Layout, cells, where_in_words
from experiments.compare.differences import FAMILIES, Difference, differences
from experiments.reports.spreads import number
from experiments.studies.results import Results
from experiments.studies.verdicts import Verdict

__all__ = ["Conclusion", "conclusion"]

MOST = 4  # pairs of a family that are named; the table has all


@dataclass(frozen=True)
class Conclusion(Verdict):
    """Holds what a comparison found; no claim is judged."""

    told: int = 0
    tested: int = 0

    @property
    def heading(self) -> str:
        if not self.tested:
            return "No difference can be taken"
        return f"{self.told or 'None'} of {self.tested} differences told apart"


def conclusion(results: Results, layout: Layout) -> Conclusion:
    """Draw the conclusion. Raises: NotEnoughError where no two seeds are done."""
    found = differences(results, layout)
    said = [f"By {layout.score} ({layout.better} is better), seed by seed."]
    for family in FAMILIES:
        if mine := [each for each in found if each.family == family]:
            said.append(_about(layout, family, mine))
    if lost := list(_lost(results, layout)):
        said += [*lost, "No difference is taken there, as the seeds that are left were not left by chance."]
    tested = sum(each.measured is not None for each in found)
    return Conclusion((), summary=" ".join(said), told=sum(each.told_apart for each in found), tested=tested)


def _about(layout: Layout, family: str, found: Sequence[Difference]) -> str:
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


def _in_words(layout: Layout, ours: str, theirs: str, above: bool, found: Sequence[Difference]) -> str:
    """Write "euler is below exact by 0.41 (95 % 0.3 to 0.5) at c = 4, and at c = 2": the largest first, with its size."""
    first = found[0].measured
    assert first is not None
    low, high = sorted((abs(first.low), abs(first.high)))  # of one sign, or they would not be told apart
    where, *more = (where_in_words(layout, each.field, each.clock, each.speed) for each in found)
    size = f"by {number(abs(first.mean), 2)} (95 % {number(low, 2)} to {number(high, 2)})"
    at = f"{where and ' at '}{where}{''.join(f', and at {place}' for place in more)}"
    return f"{ours} is {'above' if above else 'below'} {theirs} {size}{at}"


def _lost(results: Results, layout: Layout) -> Iterator[str]:
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
