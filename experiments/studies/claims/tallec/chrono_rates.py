r"""Asks whether figure 4 of Tallec and Ollivier 2018 is of its learning rate: each start has a rate of its own here.

    choice     4 rates, 2 seeds           the rate with the fewest steps to the error, on average, of each start at each T
    judged     that rate, 5 other seeds   lead = log2(steps of another start / steps of chrono), paired by seeds
    again      that rate, 10 more seeds   the largest T of small: whether any lead is left
    pairs      that rate, 30 more seeds   there, standard and chrono: how many of each come to the error in half of the steps
    printed    1e-3, the seeds of judged  the largest T, standard and chrono

ctrnn study run chrono-rates --scale small --out DIR             choice
python -m experiments.studies.claims.tallec.chrono_rates DIR     writes chrono_rates.csv, what was tried
ctrnn study run chrono-rates --scale small --out DIR             judged, and printed
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pandas as pd

from discretize import SequenceModel
from experiments.reports.shares import exact_share
from experiments.reports.spreads import NotEnoughError, number, paired
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.studies.claims.tallec import fig4
from experiments.studies.claims.tallec.fig4 import ERRORS, SOLVED, SPEEDUP, bounded
from experiments.studies.claims.tallec.tried import TriedRates
from experiments.studies.claims.training import learning_curve, started, steps_in_words
from experiments.studies.folder import records_in
from experiments.studies.results import Results, groups, once, where
from experiments.studies.specs import Bands, Table, across, in_order, run_count
from experiments.studies.study import Point, Record, Row, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison

__all__ = ["ChronoRates"]

STARTS = (*fig4.STARTS, "uniform-gates")
SHOWN = {"standard": "standard", "constant": "one large bias", "chrono": "chrono", "uniform-gates": "uniform gates"}
NAMES = {"standard": "standard", "constant": "one large bias for all units", "uniform-gates": "uniform gates", "chrono": "it"}
CHOICE, JUDGED, AGAIN, PAIRS = 100, 200, 300, 400  # the first seeds of each, of which none trained figure 4
RATES, PRINTED = (3e-3, 1e-2, 3e-2, 1e-1), 1e-3
BEYOND, BEYOND_AT = 3e-1, (100,)  # tried where the largest was the best
COUNTS, AT_ALL, SMALLER = math.log2(SPEEDUP), math.log2(1.1), 0.5  # doublings
TOLD = (
    ("chrono", "standard"),
    ("chrono", "constant"),
    ("chrono", "uniform-gates"),
    ("uniform-gates", "standard"),
)  # by more seeds
OFTENER = 1.1 / 2.1 - 0.5  # of the seeds at which one start alone is there, by a tenth more for one than for the other
OWN = "own rate"
LATE = "A run that did not get there counts with the steps that it was given."
TRIED = TriedRates(Path(__file__).with_suffix(".csv"), "steps")


@once
def reached(results: Results) -> pd.DataFrame:
    """Say of each run, for each error, at which step it was there, and of which part of the study it is."""
    rows = results.rows
    if rows.empty:
        return rows
    parts = [
        CHOICE if seed < JUDGED else PRINTED if rate == PRINTED else OWN if seed < AGAIN else AGAIN if seed < PAIRS else PAIRS
        for seed, rate in zip(rows["seed"], rows["rate"], strict=True)
    ]
    return rows.assign(part=parts)


def there_in_words(rows: pd.DataFrame) -> str:
    """Write of how many runs so many are there, and their share with its exact 95 % interval."""
    there = int((~rows["late"].astype(bool)).sum())
    return f"{there} of {len(rows)}, {exact_share(there, len(rows)):.3f}"


def _steps_there(rows: pd.DataFrame) -> str | None:
    there = rows[~rows["late"].astype(bool)]
    return None if there.empty else steps_in_words(there)


def of_part(part: object, error: float | None = None) -> Callable[[Results], pd.DataFrame]:
    """Select the runs of one part of the study, at all errors or one."""

    def rows(results: Results) -> pd.DataFrame:
        return where(reached(results), part=part, **({} if error is None else {"error": error}))

    return rows


def tried(results: Results) -> pd.DataFrame:
    """Select the steps to the error of the claim at rates that are not a start's own by choice."""
    rows = where(reached(results), error=SOLVED)
    return rows if rows.empty else rows[~rows["part"].isin((OWN, AGAIN, PAIRS))]


class ChronoRates(Study):
    """Trains LSTMs on the adding task from three starts, each at the learning rate at which it learns soonest."""

    name = "chrono-rates"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 76, "paper": 1700}
    may_diverge = True
    sizes: ClassVar = {
        "smoke": Sizes(
            hidden=8,
            steps={12: 40},
            rates=(1e-2,),
            tried=40,
            every=10,
            held_out=100,
            choosing=1,
            seeds=1,
            again=1,
            pairs=1,
            half=40,
        ),
        "small": Sizes(
            hidden=64,
            steps={200: 16_000, 150: 8000, 100: 4800, 50: 4800},
            rates=RATES,
            tried=5000,
            every=50,
            held_out=500,
            choosing=2,
            seeds=5,
            again=10,
            pairs=30,
            half=8000,
        ),
        "paper": Sizes(
            hidden=128,
            steps={200: 20_000, 750: 20_000},
            rates=RATES,
            tried=10_000,
            every=50,
            held_out=1000,
            choosing=2,
            seeds=5,
            again=0,
            pairs=0,
            half=10_000,
        ),
    }
    tables = (
        Table(
            f"Each start at its own rate: steps until an error on held-out sequences, mean (least–largest) over seeds. {LATE}",
            by={"T": "T", "start": "start", "rate": "rate"},
            columns={**across("error", {f"steps to {error}": error for error in ERRORS}, steps_in_words), "runs": run_count},
            data=of_part(OWN),
            words=SHOWN | {rate: f"{rate:g}" for rate in (*RATES, BEYOND)},
            sort=in_order(None, STARTS, None),
        ),
        Table(
            f"The choice: steps to {SOLVED} at each rate, of two other seeds.",
            by={"T": "T", "start": "start"},
            columns=across("rate", {f"rate {rate:g}": rate for rate in (*RATES, BEYOND)}, steps_in_words),
            data=of_part(CHOICE, SOLVED),
            words=SHOWN,
            sort=in_order(None, STARTS),
        ),
        Table(
            f"At the printed rate, {PRINTED:g}, the seeds of the first table.",
            by={"T": "T", "start": "start"},
            columns={**across("error", {f"steps to {error}": error for error in ERRORS}, steps_in_words), "runs": run_count},
            data=of_part(PRINTED),
            words=SHOWN,
            sort=in_order(None, STARTS),
        ),
        Table(
            "Ten more seeds, each start at its own rate.",
            by={"T": "T", "start": "start", "rate": "rate"},
            columns={**across("error", {f"steps to {error}": error for error in ERRORS}, steps_in_words), "runs": run_count},
            data=of_part(AGAIN),
            words=SHOWN | {rate: f"{rate:g}" for rate in RATES},
            sort=in_order(None, STARTS, None),
        ),
        Table(
            f"Thirty more seeds of two starts: how many are there, at {SOLVED}, in half of the steps.",
            by={"T": "T", "start": "start", "rate": "rate"},
            columns={"there": there_in_words, "steps of these": _steps_there, "runs": run_count},
            data=of_part(PAIRS, SOLVED),
            words=SHOWN | {rate: f"{rate:g}" for rate in RATES},
            sort=in_order(None, STARTS, None),
        ),
    )
    figures: ClassVar = {
        "rates": Bands(
            f"Steps until the error on held-out sequences is at most {SOLVED}, at each rate: the mean over the two seeds of the "
            f"choice, at {PRINTED:g} over those that are compared, and a band from the least to the largest. {LATE}",
            x="rate",
            y="steps",
            panels=("T", "T = {}"),
            lines=("start", SHOWN),
            data=tried,
            x_label="learning rate",
            y_label="steps",
            x_log=True,
            y_log=True,
        ),
        "own": Bands(
            f"Steps to {SOLVED}, each start at its own rate: the mean over five other seeds, and a band from the least to the "
            f"largest. {LATE}",
            x="T",
            y="steps",
            lines=("start", SHOWN),
            data=of_part(OWN, SOLVED),
            x_label="T",
            y_label="steps",
            y_log=True,
        ),
    }

    def points(self, sizes: Sizes) -> list[Point]:
        judged = range(JUDGED, JUDGED + sizes.seeds)
        printed = [
            {"T": max(sizes.steps), "start": start, "rate": PRINTED, "seed": seed}
            for seed in judged
            for start in ("chrono", "standard")
        ]
        longest = [max(sizes.steps)]
        again = _judged_points(sizes, longest, range(AGAIN, AGAIN + sizes.again))
        pairs = _judged_points(sizes, longest, range(PAIRS, PAIRS + sizes.pairs), ("standard", "chrono"))
        return [*_chosen(sizes), *printed, *again, *pairs]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        T, most = point["T"], sizes.tried if point["seed"] < JUDGED else sizes.half if point["seed"] >= PAIRS else math.inf
        model = {"field": "lstm", "integrator": "euler", "hidden": sizes.hidden, "alpha": 2 / T, **started(point["start"], T)}
        training = {"steps": min(sizes.steps[T], most), "batch": 50, "goal": SOLVED, "checkpoint_every": 500, "threads": 1}
        looks = {"evaluate_every": sizes.every, "evaluation": sizes.held_out}
        return shared_configuration(task="adding", T=T, **model, **training, **looks, lr=point["rate"], seed=point["seed"])

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        return self._reached(run, folder)

    @staticmethod
    def _reached(run: Run, folder: Path) -> list[Row]:
        """Read off the learning curve when each error was first reached; one that was not is late, at the last step given."""
        curve, last = learning_curve(folder), run.configuration.training.steps
        found = {error: [int(str(row["step"])) for row in curve if float(str(row["loss"])) <= error] for error in ERRORS}
        return [{"error": error, "steps": min(steps, default=last), "late": not steps} for error, steps in found.items()]

    def measure_diverged(self, run: Run, folder: Path) -> list[Row]:
        """Count what was not reached before as late, as of a training that took all steps in vain."""
        return self._reached(run, folder)

    def headline(self, record: Record) -> str:
        solved = next(row for row in record["rows"] if row["error"] == SOLVED)
        return f"{'more than ' if solved['late'] else ''}{solved['steps']} steps to {SOLVED}"

    def verdict(self, results: Results) -> ClaimVerdict:
        rows = where(reached(results), error=SOLVED)
        own = where(rows, part=OWN)
        Ts = sorted({T for (T, start), _ in groups(own, ["T", "start"]).items() if start != "chrono"}, reverse=True)
        if not Ts or leads(own, Ts[0], "standard").empty:
            raise NotEnoughError("no T has both a standard and a chrono run at rates of their own yet")
        parts = [
            *(_sooner(f"at T = {T}, each at its own rate, chrono is there twice as soon as standard", own, T) for T in Ts),
            _always("at every T it is there sooner than standard at all, by a tenth", own, Ts, "standard", AT_ALL),
            _always("at every T it is there twice as soon as one large bias for all units", own, Ts, "constant", COUNTS),
            _smaller(own, where(rows, part=PRINTED), Ts[0]),
            *_again(where(rows, part=AGAIN)),
            _always("at every T uniform gates are there twice as soon as standard", own, Ts, "standard", COUNTS, "uniform-gates"),
            *_oftener(where(rows, part=PAIRS)),
        ]
        numbers = {
            f"steps, T = {T}, {start}, rate {rate:g}": steps_in_words(same)
            for (T, start, rate), same in groups(own, ["T", "start", "rate"]).items()
        }
        return ClaimVerdict(parts, numbers)


def _chosen(sizes: Sizes) -> Iterator[Point]:
    """Yield the points of the choice, and those judged where the choice is made: seed by seed, all starts of each."""
    for seed in range(CHOICE, CHOICE + sizes.choosing):
        yield from ({**point, "seed": seed} for point in _to_be_tried(sizes))
    yield from _judged_points(sizes, sizes.steps, range(JUDGED, JUDGED + sizes.seeds))


def _judged_points(sizes: Sizes, Ts: Iterable[int], seeds: Iterable[int], starts: Sequence[str] = STARTS) -> Iterator[Point]:
    for seed in seeds:
        for point in grid(T=Ts, start=reversed(starts)):
            if (rate := rate_of(sizes, point["T"], point["start"])) is not None:
                yield {**point, "rate": rate, "seed": seed}


def _to_be_tried(sizes: Sizes) -> list[Point]:
    return [point for T in sizes.steps for point in grid(T=[T], start=reversed(STARTS), rate=_rates(sizes, T))]


def _rates(sizes: Sizes, T: int) -> tuple[float, ...]:
    return (*sizes.rates, BEYOND) if T in BEYOND_AT and sizes.rates == RATES else sizes.rates


def rate_of(sizes: Sizes, T: int, start: str) -> float | None:
    """Return the rate of the fewest steps, of equals the smallest; None as long as one of the rates is not tried."""
    return TRIED.best(sizes.hidden, T, start, _rates(sizes, T))


def leads(rows: pd.DataFrame, T: int, start: str, sooner: str = "chrono") -> pd.Series:
    """Compute by seeds how many doublings sooner than from a start it is there from chrono, or another."""
    other, ours = (where(rows, T=T, start=name).set_index("seed")["steps"] for name in (start, sooner))
    return (other / ours).dropna().map(math.log2)


def _sooner(claim: str, rows: pd.DataFrame, T: int) -> ClaimPart:
    lead = leads(rows, T, "standard")
    if lead.empty:
        return ClaimPart(claim, None, f"not run yet: T = {T}")
    runs = {name: where(rows, T=T, start=name) for name in ("standard", "chrono")}
    steps = ", ".join(f"{name} {steps_in_words(same)} at {same['rate'].iloc[0]:g}" for name, same in runs.items())
    evidence = f"{steps}; {_times(lead, where(rows, T=T), 'standard')} as soon, by leads in doublings"
    return _judged(claim, Compared(paired(lead), COUNTS, printed=False), evidence, where(rows, T=T), "standard")


def _always(claim: str, rows: pd.DataFrame, Ts: Sequence[int], start: str, effect: float, sooner: str = "chrono") -> ClaimPart:
    found = {T: leads(rows, T, start, sooner) for T in Ts}
    if any(lead.empty for lead in found.values()):
        return ClaimPart(claim, None, f"not run yet: {start if sooner == 'chrono' else sooner} at some T")
    each = {f"T = {T}": Compared(paired(lead), effect, printed=False) for T, lead in found.items()}
    times = ", ".join(f"{_times(lead, where(rows, T=T), start, sooner)} at T = {T}" for T, lead in found.items())
    return _judged(claim, EveryComparison(each), f"{times}; in doublings", rows, start, sooner)


def _times(lead: pd.Series, rows: pd.DataFrame, start: str, sooner: str = "chrono") -> str:
    """Write how many times as soon it is there, which is a bound where runs of one of the two are late."""
    other, own = (bool(where(rows, start=name)["late"].any()) for name in (start, sooner))
    return f"{bounded(2 ** lead.mean(), other, own)} times"


def _judged(
    claim: str, judged: Compared | EveryComparison, evidence: str, rows: pd.DataFrame, start: str, sooner: str = "chrono"
) -> ClaimPart:
    """Answer by leads over a start, which are longer than measured where its runs did not come to the error."""
    late = {name: where(rows, start=name, late=True) for name in (start, sooner)}
    if len(late[sooner]) or (len(late[start]) and judged.answer == "no"):
        return ClaimPart(claim, None, f"{evidence}: {judged}, but runs were not there")
    return ClaimPart(claim, judged, evidence)


def _smaller(own: pd.DataFrame, printed: pd.DataFrame, T: int) -> ClaimPart:
    claim = f"at T = {T}, the lead over standard is smaller than at {PRINTED:g}"
    at_print, at_own = leads(printed, T, "standard"), leads(own, T, "standard")
    change = (at_print - at_own).dropna()
    if len(change) < 2:
        return ClaimPart(claim, None, f"not run yet: two seeds at {PRINTED:g}")
    before, now = _times(at_print, printed, "standard"), _times(at_own, where(own, T=T), "standard")
    evidence = f"{before} as soon at {PRINTED:g}, {now} at rates of their own; in doublings"
    judged = Compared(paired(change), SMALLER, printed=False)
    if any(where(own, T=T, start=start)["late"].any() for start in ("standard", "chrono")):
        return ClaimPart(claim, None, f"{evidence}: {judged}, but runs were not there")
    return _judged(claim, judged, evidence, printed, "standard")


def _again(rows: pd.DataFrame) -> list[ClaimPart]:
    """Judge by more seeds, where there are any, whether a lead is left at all, and say how long a one they would have shown."""
    if rows.empty:
        return []
    T, parts = rows["T"].max(), []
    for sooner, start in TOLD:
        claim = f"at T = {T}, by more seeds, {NAMES[sooner]} {'is' if sooner == 'chrono' else 'are'} there sooner than "
        by_seeds = leads(rows, T, start, sooner)
        claim, lead = f"{claim}{NAMES[start]} at all, by a tenth", paired(by_seeds)
        if lead.count < 2:
            parts.append(ClaimPart(claim, None, f"not run yet: two more seeds of {start if sooner == 'chrono' else sooner}"))
            continue
        shown = number(2 ** (AT_ALL + lead.told_apart()))
        seen = f"a lead of {shown} times is one that {lead.count} seeds show in four cases of five"
        evidence = f"{_times(by_seeds, rows, start, sooner)}; {seen}; in doublings"
        parts.append(_judged(claim, Compared(lead, AT_ALL, printed=False), evidence, rows, start, sooner))
    return parts


def _oftener(rows: pd.DataFrame) -> list[ClaimPart]:
    """Judge, where there are pairs, by those of which one alone is there, whether that is chrono oftener than standard."""
    if rows.empty or rows["start"].nunique() < 2:
        return []
    T = rows["T"].max()
    claim = f"at T = {T}, it is there in half of the steps at more seeds than standard, by a tenth"
    late = rows.pivot(index="seed", columns="start", values="late").reindex(columns=["standard", "chrono"]).dropna().astype(bool)
    alone = {
        "chrono": int((late["standard"] & ~late["chrono"]).sum()),
        "standard": int((late["chrono"] & ~late["standard"]).sum()),
    }
    each = ", ".join(f"{start} at {there_in_words(where(rows, start=start))}" for start in ("standard", "chrono"))
    least = number(least_share(len(late)))
    seen = (
        f"were chrono always there, {len(late)} pairs would show in four cases of five that standard is not at {least} of seeds"
    )
    evidence = f"{each}; alone chrono at {alone['chrono']} and standard at {alone['standard']}; {seen}"
    if not any(alone.values()):
        return [ClaimPart(claim, None, evidence)]
    share = exact_share(alone["chrono"], sum(alone.values()), 0.5)
    return [
        ClaimPart(claim, Compared(share, OFTENER, printed=False), f"{evidence}; the share of these that is chrono's beyond 1/2")
    ]


def least_share(pairs: int, power: float = 0.8) -> float:
    """Return the share of seeds at which one start must fail, the other never, for so many pairs to show it by themselves."""
    needed = next(k for k in itertools.count(1) if exact_share(k, k, 0.5).low > OFTENER)
    return exact_share(0, pairs).share_of(needed, power)


def main(folder: Path) -> None:
    """Write what the choice found: the mean steps at each rate, of those tried by all of its seeds."""
    asked, records = records_in(folder)
    sizes = ChronoRates.sizes[asked["scale"]]
    rows = of_part(CHOICE, SOLVED)(Results(records))
    lines = [
        [sizes.hidden, T, start, f"{rate:g}", f"{same['steps'].mean():g}", int(same["late"].sum())]
        for (T, start, rate), same in groups(rows, ["T", "start", "rate"]).items()
        if len(same) == sizes.choosing
    ]
    TRIED.write(lines, "late")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
