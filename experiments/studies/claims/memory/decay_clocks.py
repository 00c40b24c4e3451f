r"""Tests which decay |h|^r h, and which integrator, keep a recording that is played slower or faster.

Euler         h + c'g (f - |h|^r h)                        forgets by 1 - c'g (r + 1)|h|^r
splitting     h (1 + r c'g |h|^r)^(-1/r) + c'g f           r = 0: h e^(-c'g) + c'g f
exact         dh/dt = g (f - |h|^r h) for c' units

case          "given": at the fastest speed, a case for each integrator;  "hidden": the mean over speeds and integrators
gain          the fall of r = 0 less that of r = 2, means over seeds, with an interval
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
from matplotlib.figure import Figure

from discretize import SequenceModel
from experiments.models.integrators import EXACT, under
from experiments.reports.spreads import NotEnoughError, Spread, difference, number, paired
from experiments.runs.configuration import Configuration
from experiments.studies.claims.ohno.har import GAIN
from experiments.studies.claims.recordings import SOURCES, check_learned, figure_at_speeds, folders_found, row_at, with_falls
from experiments.studies.claims.training import by_adam
from experiments.studies.clocks.accuracies import run_as_trained
from experiments.studies.clocks.figures import clock_words
from experiments.studies.clocks.rollout import FINE
from experiments.studies.results import Results, groups, spreads, where
from experiments.studies.specs import Drawing, Table, across, in_order
from experiments.studies.study import Point, Row, Run, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison
from experiments.tasks.recorded.recordings import Recorded

__all__ = ["SPEEDS", "DecayClocks"]

SPEEDS = {"vowels": (0.25, 0.5, 1.0, 2.0, 4.0), "har": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)}
TITLES = {name: SOURCES[name].name for name in SPEEDS}
CELLS = {"leaky-power": "leaky", "gated-power": "gated"}
WAYS = {"euler": "Euler", "splitting": "splitting", EXACT: "exact"}
HIDDEN = "hidden"
CASES = {way: f"given, {words}" for way, words in WAYS.items()} | {HIDDEN: "hidden, mean"}
NETWORK = ["recording", "cell", "exponent", "seed"]
EXPONENTS = (0.0, 1.0, 2.0)
ALPHA = 0.2  # where leaky units start: 25/128 is what the study of HAR chose
FALL = 0.1


def in_words(rows: pd.DataFrame) -> pd.DataFrame:
    """Add "known", whether the clock is given; `words` of a table would take r = 1 for True."""
    return rows if rows.empty else rows.assign(known=rows["clock_given"].map({True: "given", False: "hidden"}))


def table_of(name: str) -> Table:
    return Table(
        f"{TITLES[name]}: test accuracy, run as trained; mean (least–largest) over seeds.",
        by={"clock": "known", "units": "cell", "r": "exponent", "trained and run": "way"},
        columns=across("clock", {f"c = {clock_words(c)}": c for c in SPEEDS[name]}, "accuracy"),
        data=lambda results: in_words(where(run_as_trained(results.rows), recording=name)),
        sort=in_order(None, CELLS, None, WAYS),
        words=CELLS | WAYS,
        empty=SOURCES[name].left_out.format(TITLES[name]),
    )


def at_the_fastest(rows: pd.DataFrame) -> pd.DataFrame:
    """Select the rows at the fastest speed of each recording."""
    return rows if rows.empty else rows[rows["clock"] == rows["recording"].map({name: cs[-1] for name, cs in SPEEDS.items()})]


def by_case(rows: pd.DataFrame) -> pd.DataFrame:
    """Return recording, cell, exponent, seed, case and fall, of rows with falls that are run as they were trained."""
    if rows.empty:
        return rows
    given, hidden = at_the_fastest(where(rows, clock_given=True)), where(rows, clock_given=False)
    hidden = hidden[hidden["clock"] != 1].groupby(NETWORK, sort=False, as_index=False).agg({"fall": "mean"})
    return pd.concat([given[[*NETWORK, "fall"]].assign(case=given["way"]), hidden.assign(case=HIDDEN)], ignore_index=True)


def gain(rows: pd.DataFrame) -> Spread:
    """Compute how much more r = 0 falls than r = 2; its low and high are those of the 95 % interval (Welch) over seeds."""
    leaky, slow = (where(rows, exponent=r)["fall"] for r in (0.0, 2.0))
    return difference(leaky, slow)


def exchanged(results: Results) -> pd.DataFrame:
    """Select the rows with the clock given, at the fastest speed; "exactly" is the steepest of the same weights run exactly."""
    rows = at_the_fastest(where(results.rows, clock_given=True))
    return rows if rows.empty else rows.assign(exactly=rows["key"].map(where(rows, way=EXACT).set_index("key")["steepest"]))


def steepest_cell(rows: pd.DataFrame) -> str:
    known = where(rows, way=EXACT)["exactly"].dropna()
    return "×" if known.empty else number(known.max(), 2)


def gain_cell(rows: pd.DataFrame) -> str:
    return f"{gain(rows):.3f}" if {0.0, 2.0} <= {*rows["exponent"]} else "–"


def drawing_of(recording: str, cell: str) -> Drawing:
    def draw(results: Results) -> Figure:
        rows = where(run_as_trained(results.rows), recording=recording, cell=cell)
        if len(rows):
            rows = rows.sort_values(["exponent", "clock_given"], ascending=[True, False], kind="stable")
        return figure_at_speeds(rows, lambda rows: rows["exponent"].map(lambda r: f"r = {r:g}"))

    return Drawing(
        f"{TITLES[recording]}, {CELLS[cell]} units: test accuracy at other speeds, by the decay |h|^r h (rows), of weights "
        "trained at the shaded speed, each run as trained.",
        draw,
    )


class DecayClocks(Study):
    """Trains leaky and gated networks with the decay |h|^r h on recordings at one speed, and runs them at others."""

    name = "decay-clocks"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.7, "small": 25, "paper": 1500}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=8, steps=6, rate=4e-3, sequences=64, seeds=1, cells=["leaky-power"], exponents=[0.0, 2.0]),
        "small": Sizes(hidden=32, steps=400, rate=4e-3, sequences=3000, seeds=3, cells=list(CELLS), exponents=EXPONENTS),
        "paper": Sizes(hidden=128, steps=3000, rate=1e-3, sequences=3000, seeds=5, cells=list(CELLS), exponents=EXPONENTS),
    }
    may_diverge = True
    needs = tuple(SOURCES[name].folder for name in SPEEDS)
    tables = (
        Table(
            "Fall of accuracy from c = 1, run as trained: given the clock, at the fastest speed; hidden, the mean over speeds "
            "and integrators. Mean (least–largest) over seeds; the difference with a 95 % interval.",
            by={"recording": "recording", "units": "cell", "clock": "case"},
            columns={**across("exponent", {f"r = {r:g}": r for r in EXPONENTS}, "fall"), "r = 0 less r = 2": gain_cell},
            data=lambda results: by_case(with_falls(run_as_trained(results.rows))),
            sort=in_order(TITLES, CELLS, CASES),
            words={**TITLES, **CELLS, **CASES},
        ),
        *(table_of(name) for name in TITLES),
        Table(
            "Weights exchanged between integrators: test accuracy at the fastest speed, c = 8 (HAR) and 4 (vowels), the clock "
            "given; and the largest c′g (r + 1)|h|^r of the exact run there.",
            by={"recording": "recording", "units": "cell", "r": "exponent", "trained": "trained"},
            columns={**across("way", {f"run {words}": way for way, words in WAYS.items()}, "accuracy"), "largest": steepest_cell},
            data=exchanged,
            words={**TITLES, **CELLS, **WAYS},
            sort=in_order(TITLES, CELLS, None, WAYS),
        ),
    )
    figures: ClassVar = {
        f"{recording}-{words}": drawing_of(recording, cell) for recording in TITLES for cell, words in CELLS.items()
    }

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the points of the recordings that are there; none without a folder of them."""
        there = [name for name in TITLES if name in folders_found()]
        return grid(seed=range(sizes.seeds), recording=there, cell=sizes.cells, exponent=sizes.exponents, trained=WAYS)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        recording, chrono = point["recording"], point["cell"] == "gated-power"
        model = {"field": point["cell"], "exponent": point["exponent"], "integrator": point["trained"], "alpha": ALPHA}
        if chrono:
            model |= {"init": "chrono", "t_max": SOURCES[recording].longest}
        return by_adam(point, sizes, task=recording, data=str(folders_found()[recording]), **model, threads=1)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        task, training = run.configuration.task, run.configuration.training
        assert isinstance(task, Recorded)
        speeds, rows = SPEEDS[run.configuration.task_name], []
        for way in WAYS:
            network, own = under(model, way, FINE), way == run.point["trained"]
            for speed in speeds if own else speeds[-1:]:
                for given in (True, False) if own and speed != 1 else (True,):
                    row = row_at(dataclasses.replace(task, speed=speed, clock_given=given), network, training)
                    both = (True, False) if speed == 1 else (given,)  # at c = 1 they are the same
                    rows += [{"way": way, "clock_given": one, "clock": speed, **row} for one in both]
        return rows

    def verdict(self, results: Results) -> ClaimVerdict:
        rows = with_falls(run_as_trained(results.rows))
        here = [name for name in TITLES if not where(rows, recording=name).empty]
        found = groups(rows, ["recording", "exponent", "trained"])
        wanted = [(name, r, way) for name in here or TITLES for r in (0.0, 2.0) for way in WAYS]
        if any(one not in found for one in wanted):
            raise NotEnoughError("runs with r = 0 and r = 2, by every integrator, are needed.")
        for name in here:
            check_learned(rows, name)
        given = where(rows, clock_given=True)
        euler = spreads(at_the_fastest(where(given, way="euler")), ["recording", "cell", "exponent", "clock"], "fall")
        hidden = groups(where(by_case(rows), case=HIDDEN), ["recording", "cell"])
        parts = [
            *(
                ClaimPart(f"given the clock, {words} keeps every decay", *_kept(where(given, way=way)))
                for way, words in ((EXACT, "exact integration"), ("splitting", "the splitting step"))
            ),
            ClaimPart(
                "Euler’s step loses every decay at the fastest speed",
                _each(at_the_fastest(where(given, way="euler")), absent=False),
                _least_and_most(euler),
            ),
            *(
                ClaimPart(
                    f"not given the clock, r = 2 loses less than r = 0, {_named(key)}", Compared(gain(same), GAIN, printed=False)
                )
                for key, same in hidden.items()
            ),
        ]
        return ClaimVerdict(parts, {f"Euler, {_named(key)}: fall from c = 1": str(fall) for key, fall in euler.items()})


def _kept(rows: pd.DataFrame) -> tuple[EveryComparison, str]:
    falls = spreads(rows, ["recording", "cell", "exponent", "clock"], "fall")
    worst = max(falls, key=lambda key: falls[key].mean)
    return _each(rows, absent=True), f"the largest fall is {falls[worst]}, {_named(worst)}"


def _each(rows: pd.DataFrame, *, absent: bool) -> EveryComparison:
    """Compare the falls of every case with what counts."""
    cases = groups(rows, ["recording", "cell", "exponent", "clock"])
    return EveryComparison(
        {_named(key): Compared(paired(same["fall"]), FALL, absent, printed=False) for key, same in cases.items()}
    )


def _least_and_most(falls: dict[Any, Spread]) -> str:
    least, most = (choose(falls, key=lambda key: falls[key].mean) for choose in (min, max))
    return f"falls from {falls[least]}, {_named(least)}, to {falls[most]}, {_named(most)}"


def _named(key: tuple[Any, ...]) -> str:
    recording, cell, *others = key
    words = [f"{name} = {clock_words(value)}" for name, value in zip("rc", others, strict=False)]
    return ", ".join([TITLES[recording], CELLS[cell], *words])
