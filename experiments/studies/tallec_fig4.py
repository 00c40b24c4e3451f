r"""Figure 4 of Tallec and Ollivier 2018: how soon an LSTM learns to add two numbers far apart, by how its gates start.

    standard   b_f = 1                                  chrono    b_f = log u, b_i = -b_f, u uniform on 1 .. T - 1        eq. (16)

    speed      steps until the mean squared error on held-out sequences is at most m, for the smallest m of 0.01, 0.02, 0.05
               and 0.1 that every chrono run reaches; without memory it is 1/6

A run that never gets there has taken more steps than it was given, and so counts as faster than it is.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from experiments.models.fields import FieldSettings
from experiments.runs.configuration import Configuration, TrainingSettings
from experiments.studies.records import NotEnoughError, Record, Spread, grouped, markdown, measure_of, number, spread
from experiments.studies.study import Carried, Run, Study, Verdict
from experiments.studies.tallec import PAPER, Part, judged
from experiments.tasks.adding import Adding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["TallecFigure4", "curve", "reached"]

STARTS = ("standard", "chrono")
ERRORS = (0.01, 0.02, 0.05, 0.1)
SOLVED = ERRORS[0]
SPEEDUP = 2.0  # "significantly"
LONG, PRINTED = 750, 7.0  # "7 times faster for T = 750"
POINTS = 24  # of a curve that are drawn


class Sizes(NamedTuple):
    """How much of everything."""

    hidden: int
    Ts: tuple[int, ...]
    steps: int
    every: int
    held_out: int
    seeds: int


SCALES = {
    "smoke": Sizes(8, (12,), 40, 10, 100, 1),
    "small": Sizes(64, (200,), 4800, 100, 500, 3),
    "paper": Sizes(128, (200, 750), 20_000, 100, 1000, 3),
}


class TallecFigure4(Study):
    """LSTMs on the adding task, with forget biases of 1 and with chrono initialization."""

    name = "tallec-fig4"
    question = "Does an LSTM whose gates start at the time scales of the task learn to add sooner?"
    claim = (
        "For all T's, chrono initialization significantly speeds up learning. Notably it converges 7 times faster for T = 750."
    )
    source = f"{PAPER}, sec. 3 and fig. 4."
    resolutions = (
        "The batch size and the number of sequences are not given: 50, fresh at every step.",
        f"“Converges” is an error of {SOLVED} on held-out sequences. Where not every chrono run gets there, the smallest of "
        f"{', '.join(map(str, ERRORS[1:]))} that all of them reach is compared.",
        f"“Significantly speeds up” is at least {SPEEDUP:g} times as fast, with every chrono run there before any standard one; "
        f"or that no standard run comes to {ERRORS[-1]} at all in the steps that it is given, and every chrono run does.",
        f"“{PRINTED:g} times” is judged as at least {PRINTED:g} times, of the mean numbers of steps.",
        "How long is trained is not given: 20,000 steps. How often is not given: three runs.",
        "At the small scale only T = 200 is tried, with 64 units in place of 128.",
    )
    minutes: ClassVar = {"smoke": 0.3, "small": 8, "paper": 430}
    captions: ClassVar = {
        "curves": "Mean squared error on held-out sequences while learning: the mean over runs, a band from least to largest, "
        "and the error of saying 1 always."
    }

    def runs(self, scale: str) -> list[Run]:
        sizes = SCALES[scale]
        return [
            Run(
                f"{start}-{T}-{seed}",
                Configuration(
                    Adding(T=T),
                    "lstm",
                    "euler",
                    FieldSettings(hidden=sizes.hidden, init=start, t_max=float(T) if start == "chrono" else None),  # type: ignore[arg-type]
                    training=TrainingSettings(
                        steps=sizes.steps,
                        batch=50,
                        seed=seed,
                        evaluate_every=sizes.every,
                        evaluation=sizes.held_out,
                    ),
                ),
            )
            for seed in range(sizes.seeds)
            for T in reversed(sizes.Ts)
            for start in reversed(STARTS)
        ]

    def carry_out(self, run: Run, folder: Path, progress: Callable[..., None] | None = None) -> Carried:
        """The rows are the learning curve."""
        carried = super().carry_out(run, folder, progress)
        return Carried(carried.measures, curve(folder / "metrics.csv"), carried.seconds)

    def verdict(self, records: Sequence[Record]) -> Verdict:
        found = _grouped(records)
        runs = {T: {start: found.get((T, start), []) for start in STARTS} for T, _ in found}
        whole = {T: by_start for T, by_start in sorted(runs.items()) if all(by_start.values())}
        if not whole:
            raise NotEnoughError("no T has both a standard and a chrono run yet")
        races = {T: Race.of(by_start) for T, by_start in whole.items()}
        parts = [
            Part(
                "chrono significantly speeds up learning",
                all(race.significant for race in races.values()),
                "; ".join(f"T = {T}, {race}" for T, race in races.items()),
            ),
            Part(
                f"{PRINTED:g} times faster at T = {LONG}",
                races[LONG].ratio >= PRINTED if LONG in races else None,
                races[LONG].times if LONG in races else f"no run has T = {LONG}",
            ),
        ]
        numbers = {f"steps, T = {T}, {start}": race.told[start] for T, race in races.items() for start in STARTS}
        return judged(parts, numbers)

    def table(self, records: Sequence[Record]) -> str:
        rows = [
            (
                T,
                start,
                *(_told(same, error) for error in ERRORS),
                spread(measure_of(record, "loss") for record in same),
                len(same),
            )
            for (T, start), same in sorted(_grouped(records).items())
        ]
        return (
            "Steps until an error on held-out sequences, mean (least–largest) over runs, and the error at the end. A run that "
            "did not get there counts with the steps that it was given.\n\n"
            + markdown(("T", "start", *(f"steps to {error}" for error in ERRORS), "error at the end", "runs"), rows)
        )

    def figures(self, records: Sequence[Record]) -> dict[str, Figure]:
        from experiments.reports.bands import bands  # noqa: PLC0415

        found = _grouped(records)
        panels = {
            f"T = {T}": {start: _drawn(found[T, start]) for start in STARTS if (T, start) in found}
            for T in sorted({T for T, _ in found})
        }
        return {"curves": bands(panels, "steps", "mean squared error", y_limits=(0.0, 0.2), levels={"without memory": 1 / 6})}

    def headline(self, record: Record) -> str:
        at = reached(record, SOLVED)
        return f"error {number(measure_of(record, 'loss'))}" + (f", at most {SOLVED} from step {at} on" if at else "")


class Race(NamedTuple):
    """Standard against chrono at one T: to which error, how soon, and by how much."""

    error: float | None
    told: Mapping[str, str]
    ratio: float
    open: bool  # whether some standard run never got there, so that the ratio is larger
    first: bool  # whether every chrono run was there before any standard one
    stuck: bool  # whether no standard run came to even the largest of the errors

    @classmethod
    def of(cls, runs: Mapping[str, Sequence[Record]]) -> Race:
        error = next((m for m in ERRORS if all(reached(record, m) for record in runs["chrono"])), None)
        told = {start: _told(same, ERRORS[-1] if error is None else error) for start, same in runs.items()}
        if error is None:
            return cls(None, told, 0.0, False, False, False)
        steps = {start: spread(_counted(record, error) for record in same) for start, same in runs.items()}
        there = [reached(record, error) for record in runs["standard"]]
        first = all(at is None or steps["chrono"].high < at for at in there)
        stuck = not any(reached(record, ERRORS[-1]) for record in runs["standard"])
        return cls(error, told, steps["standard"].mean / steps["chrono"].mean, None in there, first, stuck)

    @property
    def significant(self) -> bool:
        return self.first and (self.ratio >= SPEEDUP or self.stuck)

    @property
    def times(self) -> str:
        return f"{'more than ' * self.open}{number(self.ratio, 2)} times"

    def __str__(self) -> str:
        if self.error is None:
            return f"not every chrono run comes to an error of {ERRORS[-1]}"
        return f"to an error of {self.error}: chrono {self.told['chrono']} steps, standard {self.told['standard']}, {self.times}"


def curve(metrics: Path) -> list[dict[str, float]]:
    """What the evaluations found on the way: a run's metrics.csv has them at some of its steps."""
    with metrics.open(newline="", encoding="utf-8") as file:
        return [
            {"step": int(row["step"]), "loss": float(row["evaluation_loss"])}
            for row in csv.DictReader(file)
            if row["evaluation_loss"]
        ]


def reached(record: Record, error: float) -> int | None:
    """The first step after which an evaluation found no more than that error; None if none did."""
    return next((int(row["step"]) for row in record["rows"] if row["loss"] <= error), None)


def _counted(record: Record, error: float) -> int:
    return reached(record, error) or int(record["rows"][-1]["step"])


def _told(records: Sequence[Record], error: float) -> str:
    """Steps in words; "> 4800" where no run got there."""
    late = sum(reached(record, error) is None for record in records)
    if late == len(records):
        return f"> {max(_counted(record, error) for record in records)}"
    steps = spread(_counted(record, error) for record in records)
    words = f"{steps.mean:.0f}" + (f" ({steps.low:.0f}–{steps.high:.0f})" if steps.high > steps.low else "")
    return f"> {words}, {late} of {len(records)} not there" if late else words


def _grouped(records: Sequence[Record]) -> dict[tuple[int, str], list[Record]]:
    return grouped(records, "task_settings.T", "field_settings.init")


def _drawn(records: Sequence[Record]) -> dict[float, Spread]:
    """The curve over runs, at no more points than can be told apart."""
    by_step: dict[int, list[float]] = {}
    for record in records:
        for row in record["rows"]:
            by_step.setdefault(int(row["step"]), []).append(float(row["loss"]))
    steps = sorted(by_step)[::-1][:: max(1, -(-len(by_step) // POINTS))]
    return {float(step): spread(by_step[step]) for step in reversed(steps)}
