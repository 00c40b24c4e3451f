r"""Trains cells on recordings at known, changing speeds, and asks whether their gates have become the clock.

a clock           of the time of the recording as much passes at every speed: n^0 at speed 1/n
a constant gate   n^1
in its place      the true clock, with each unit's own mean, beside a leaky cell
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, Spread, number, paired, spread
from experiments.runs.configuration import Configuration
from experiments.seeds import generator
from experiments.studies.claims.stop_and_go import NAMES
from experiments.studies.claims.training import by_adam
from experiments.studies.clocks.known_speeds import GATES, HALF, at_known_speeds
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Bands, Table, in_order, only
from experiments.studies.study import Point, Row, Run, Sizes, Study, data_path, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared
from experiments.tasks.recorded.at_speeds import HARAtSpeeds

__all__ = ["CELLS", "TRAININGS", "ClocksOfRecordings"]

CELLS = ("leaky", "gated", "gru", "lstm")
CONSTANT = CELLS[0]
LEARNED, TRUE, *_ = GATES
UNWARPED = "unwarped"
TRAININGS: dict[str, dict[str, object]] = {
    "hidden": {"task": "har-delayed"},
    "shown": {"task": "har-delayed", "shown": True},
    UNWARPED: {"task": "har-delayed", "slowness": (1,)},
    "activity": {"task": "har-at-speeds"},
}
WITH_LSTM = ("hidden", "shown")  # the other trainings are without
WORDS = {"hidden": "speed hidden", "shown": "speed shown", UNWARPED: "unwarped", "activity": "activity asked"}
CLAIMS = ("Gates of {} are the clock", "The true clock stands in the place of gates of {}")
WINDOWS, LONGEST = 256, 64.0


def of_rows(rows: pd.DataFrame, column: str, **which: object) -> Spread | None:
    """Compute the spread of a column over runs; None where no row has it."""
    values = where(rows, **which)[column].dropna() if column in rows else ()
    return spread(values) if len(values) else None


def over_runs(column: str, **which: object) -> Any:
    """Make a cell of the table: the spread of a column over runs, if rows have it."""
    return lambda rows: of_rows(rows, column, **which)


def kept_by(rows: pd.DataFrame, gate: str, leaky: pd.DataFrame) -> pd.Series:
    """Compute what other gates keep of the learned ones' worth: 1 with an error as small, 0 with that of the leaky cell."""
    errors = where(rows, kind="gate").pivot_table(index="seed", columns="gate", values="error")
    without = where(leaky, gate=LEARNED).set_index("seed")["error"]
    return ((without - errors[gate]) / (without - errors[LEARNED])).dropna()


def _more_than_half(values: pd.Series) -> Compared:
    return Compared(paired(values), HALF, printed=False)


class ClocksOfRecordings(Study):
    """Trains four cells on recordings at changing speeds, and on three controls."""

    name = "clocks-of-recordings"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 40, "paper": 1500}
    sizes: ClassVar = scales(
        hidden=(8, 64, 128), steps=(6, 1500, 6000), rate=(1e-2, 1e-2, 2e-3), sequences=(32, 512, 3000), seeds=(1, 3, 5)
    )
    needs = ("uci_har/",)
    tables = (
        Table(
            "Error, at changing speeds; p, by the median over units: at speed 1/8 a gate lets 8^p times as much time pass for a "
            "recorded sample as at speed 1 (a clock: 0; a constant gate: 1), the same by means of logarithms, the same by the "
            "speeds of another sequence, and how many of the {hidden} units have a p between -0.5 and 0.5; correlation of "
            "the logarithms of that time, for each sample, and of speed, by the median over units and of the strongest; R² of a "
            "linear regression of the logarithm of speed on what a gate reads, and the p of a gate that predicts so; shown the "
            "speed, that is the true clock. Then the errors of the same weights with other gates in place of the learned ones.",
            by={"trained": "training", "cell": "cell"},
            columns={
                "error": over_runs("error", gate=LEARNED),
                "p": over_runs("p"),
                "p, mean logs": over_runs("p_logs"),
                "p, another's": over_runs("p_another"),
                "units near 0": over_runs("following"),
                "correlation": over_runs("correlation"),
                "strongest": over_runs("strongest"),
                "R²": over_runs("known"),
                "p, regression": over_runs("p_regression"),
                **{f"error, {gate}": over_runs("error", gate=gate) for gate in GATES[1:]},
            },
            data="rows",
            sort=in_order(TRAININGS, CELLS),
            words=NAMES | WORDS,
            empty="Left out; `--data DIR` names the folder with uci_har/ in it.",
        ),
    )
    figures: ClassVar = {
        "elapsed": Bands(
            "Time that passes on the learned clock while a recorded sample does, by that at speed 1; the median over units, the "
            "mean over seeds and a band from the least to the largest. A clock is flat; a constant gate rises as the slowness.",
            x="slowness",
            y="elapsed",
            panels=("training", WORDS),
            lines=("cell", {cell: NAMES.get(cell, cell) for cell in CELLS if cell != CONSTANT}),
            data=only(kind="speed"),
            x_label="slowness 1/c′",
            y_label="time per recorded sample",
            x_log=True,
            y_log=True,
            levels={"a clock": 1.0},
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        there = data_path(self.needs[0]) is not None
        points = grid(seed=range(sizes.seeds), training=TRAININGS, cell=CELLS) if there else []
        return [point for point in points if point["training"] in WITH_LSTM or point["cell"] != CELLS[-1]]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        task = {"data": str(data_path(self.needs[0])), **TRAININGS[point["training"]]}
        model = {"field": point["cell"], "integrator": "euler", "init": "chrono", "t_max": LONGEST, "threads": 1}
        return by_adam(point, sizes, **task, **model)

    @torch.no_grad()
    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        task, training = run.configuration.task, run.configuration.training
        assert isinstance(task, HARAtSpeeds)
        played = dataclasses.replace(task, slowness=HARAtSpeeds.slowness, clock_given=True)  # whatever it was trained on
        draw, many = generator(training.seed, "known speeds"), min(WINDOWS, training.evaluation)
        batch = played.batch_of("test", torch.randperm(played.count("test"), generator=draw)[:many])
        assert batch.ts is not None
        return at_known_speeds(played, model, batch, batch.ts.diff(dim=0), len(task.slowness) / sum(task.slowness))

    def verdict(self, results: Results) -> ClaimVerdict:
        found = groups(results.rows, ["training", "cell"])
        if absent := [cell for cell in CELLS if ("hidden", cell) not in found]:
            raise NotEnoughError(f"no run of {', '.join(absent)} is done yet")
        judged, ps = dict[tuple[str, str], list[ClaimPart]](), dict[str, list[float]]()
        for training in (training for training in TRAININGS if training != UNWARPED):
            ps[training] = []
            without = found.get((training, CONSTANT), results.rows.iloc[:0])
            leaky = of_rows(without, "error", gate=LEARNED)
            for cell in CELLS[1:]:
                rows = found.get((training, cell))
                if rows is None or leaky is None or spread(where(rows, gate=LEARNED)["error"]).high >= leaky.low:
                    continue
                p = rows["p"].dropna()
                ps[training] += [p.min(), p.max()]
                judged[training, cell] = [
                    ClaimPart(CLAIMS[0].format(cell), _more_than_half(1 - p)),
                    ClaimPart(CLAIMS[1].format(cell), _more_than_half(kept_by(rows, TRUE, without))),
                ]
        parts = ClaimVerdict([part for both in judged.values() for part in both]).parts
        left, said = iter(parts), list[str]()
        answers = {key: [next(left) for _ in both] for key, both in judged.items()}
        for training, its in ps.items():
            mine = {NAMES.get(cell, cell): both for (of, cell), both in answers.items() if of == training}
            found_so = (
                f"p is {number(min(its))} to {number(max(its))}. {in_words(mine)}" if its else "gates are not seen to help."
            )
            said.append(f"{WORDS[training].capitalize()}: {found_so}")
        alone = where(results.rows, training=UNWARPED)
        if control := of_rows(alone, "p"):
            own, clock = (spread(where(alone[alone["cell"] != CONSTANT], gate=gate)["error"]) for gate in (LEARNED, TRUE))
            said.append(
                f"Trained unwarped: p is {number(control.low)} to {number(control.high)}; at changing speeds the error is "
                f"{number(own.low)} to {number(own.high)}, and on the true clock {number(clock.low)} to {number(clock.high)}."
            )
        return ClaimVerdict(parts, summary=" ".join(said))


def in_words(answers: dict[str, list[ClaimPart]]) -> str:
    """Say of each claim for which cells it holds, for which it does not, and for which that is undecided."""
    said = list[str]()
    for claim, same in zip(CLAIMS, zip(*answers.values(), strict=True), strict=True):
        names = dict[str, list[str]]()
        for name, part in zip(answers, same, strict=True):
            names.setdefault(part.answer, []).append(name)
        said += [f"{claim.format(', '.join(of))}: {word}." for word, of in names.items()]
    return " ".join(said)
