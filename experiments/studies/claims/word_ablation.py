r"""Tests the lecture's picture on words: units that are given times of an inverse-gamma law, asked by words that are taken out.

    1/T ~ Gamma(0.56)        sigma(b_f) = e^(-1/T), b_i = -b_f       kept as they are, or learned from there on
    standard                 b_f = 1

What is set and measured is that of `lecture_ablation`; beside it, what a word costs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.studies.claims.lecture_ablation import AGREES, agreements, memory_of_units, middle_of_third
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Table, at_end, run_count
from experiments.studies.study import Point, Row, Run, Sizes, Study, data_path, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, compared, need_intervals

__all__ = ["WIKITEXT", "WordAblation"]

WIKITEXT = "wikitext2/"
ARMS = {"kept": "of the law, kept", "learned": "of the law, learned", "standard": "as usual"}
BY_LAW = ("kept", "learned")
COUNTS = 0.01  # nats a word


class WordAblation(Study):
    """Trains LSTMs on words, with times of an inverse-gamma law and without, and correlates set and measured times."""

    name = "word-ablation"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 11, "paper": 200_000}
    sizes: ClassVar = scales(
        kinds=(50, 1000, 10_000),
        hidden=(8, 64, 1150),
        length=(20, 70, 70),
        steps=(5, 3000, 50_000),
        batch=(4, 20, 20),
        horizon=(20, 200, 400),
        evaluation=(8, 500, 5000),
        seeds=(1, 3, 5),
    )
    needs = (WIKITEXT,)
    another: ClassVar = {
        "small": "The printed claim is of three layers, 33,278 kinds of words and dropouts; tried was another experiment, one "
        "small layer and a thousand kinds.",
        "paper": "The printed claim is of three layers, 33,278 kinds of words and dropouts; tried was another experiment, one "
        "layer and ten thousand kinds.",
    }
    tables = (
        Table(
            "Set and measured forgetting times, in words, and those of the trained gates; medians over the units of a third. "
            "Test loss in nats a word. Mean (least–largest) over seeds.",
            by={"times": "times"},
            columns={
                "rank correlation at the start": lambda rows: spread(agreements(rows, "measured before")),
                "trained": lambda rows: spread(agreements(rows)),
                "gates and measured": lambda rows: spread(agreements(rows, said="gates")),
                "third set shortest": lambda rows: middle_of_third(rows, longest=False),
                "third set longest": lambda rows: middle_of_third(rows, longest=True),
                "test loss": at_end("loss"),
                "runs": run_count,
            },
            data=lambda results: results.rows_with("loss"),
            words=ARMS,
        ),
    )

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the points; none without the text."""
        return [] if data_path(WIKITEXT) is None else grid(seed=range(sizes.seeds), times=ARMS)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        task = {"task": "next-word", "data": str(data_path(WIKITEXT)), "kinds": sizes.kinds, "length": sizes.length}
        start = {"init": "inverse-gamma" if point["times"] in BY_LAW else "standard"}
        training: dict[str, Any] = {"steps": sizes.steps, "batch": sizes.batch, "evaluation": sizes.evaluation}
        training |= {"evaluate_every": sizes.steps, "frozen": "*.field.gates.bias" if point["times"] == "kept" else ""}
        by_adam = {"optimizer": "adam", "rate": 2e-3, "clip": 1.0, "seed": point["seed"], "threads": 1}
        return shared_configuration(**task, field="lstm", integrator="euler", hidden=sizes.hidden, **start, **training, **by_adam)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        """Return a row a unit, as `lecture-ablation` has them."""
        horizon = next(sizes.horizon for sizes in self.sizes.values() if sizes.kinds == run.configuration.task.kinds)
        return memory_of_units(run.configuration, model, horizon)

    def verdict(self, results: Results) -> ClaimVerdict:
        losses = {times: runs["loss"] for times, runs in groups(results.runs, "times").items()}
        if missing := [words for times, words in ARMS.items() if times not in losses]:
            raise NotEnoughError(f"no run with times {'; '.join(missing)} is done yet")
        order = {times: agreements(where(results.rows, times=times)) for times in BY_LAW}
        parts = [
            ClaimPart(
                f"times {ARMS[times]}: after training units forget in the order that was set",
                all(one >= AGREES for one in found),
                f"rank correlation of set and measured times {spread(found)}",
            )
            for times, found in order.items()
        ]
        fewer = "times of the law that are kept cost fewer nats a word than those as usual"
        parts.append(compared(fewer, losses["kept"], losses["standard"], -COUNTS, printed=False))
        need_intervals(parts)
        return ClaimVerdict(parts, {f"test loss, {ARMS[times]}": str(spread(found)) for times, found in losses.items()})
