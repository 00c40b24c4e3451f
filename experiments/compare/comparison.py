r"""Declares a comparison as a study: fields and ways to run them, each trained under each, each run under each.

    a run       one field, trained one way from the start and on the batches of one seed     ->  that model, run every way
    a way       Euler, exponential Euler, ... by steps of a share dt of each sample, or exact: solved
    the rows    field x trained x seed x run as x speed of the test: score, how far states are from the solved ones, cost

Starts and batches are functions of the seed, so that differences between ways are taken seed by seed.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from discretize import SequenceModel
from discretize.kernels.price import kernels_at_once
from experiments.compare.cells import ComparisonLayout
from experiments.compare.differences import FAMILIES, conclusion
from experiments.compare.figure import scores_figure
from experiments.compare.tables import CostTable, CrosswiseTable, DifferencesTable, GateTable, rows_csv
from experiments.models.integrators import EXACT, IntegratorSettings, under
from experiments.reports.spreads import number
from experiments.runs.configuration import Configuration
from experiments.runs.evaluation import noise_of, torch_defaults
from experiments.runs.loop import sign_of
from experiments.settings import words_of
from experiments.studies.clocks.crosswise import Way, crosswise, ways_to_run
from experiments.studies.clocks.figures import clock_words
from experiments.studies.clocks.rollout import FINE, Rollout, largest_magnitude
from experiments.studies.results import Results
from experiments.studies.specs import Drawing
from experiments.studies.study import COMPARISON, Point, Record, Row, Run, Sizes, Study
from experiments.studies.verdicts import ClaimVerdict
from experiments.tasks.task import Batch, MeasuresOfBatches, Task

__all__ = ["Comparison"]


class Comparison(Study):
    r"""Compares fields and ways to run them on a task.

    Args:    base: a `Configuration` as JSON, of which each run changes field, integrator, steps a sample and seed; fields: names;
             ways: pairs of an integrator and its steps a sample, each once; seeds: how many, counted from 0; speeds: at which the
             test is played, () for as it is; clocks: whether samples then say how long they last; score: the measure by which
             ways are compared.
    """

    name, claim, source = COMPARISON, "", ""
    question = "Is what was trained one way still good when it is run another way?"
    minutes: ClassVar = {}
    sizes: ClassVar = {"": Sizes()}
    may_diverge = True
    templates = "compare/page.html.jinja", "compare/section.html.jinja"

    def __init__(
        self,
        base: Mapping[str, Any],
        fields: Sequence[str],
        ways: Sequence[Sequence[Any]],
        seeds: int,
        speeds: Sequence[float] = (),
        clocks: Sequence[bool] = (True,),
        score: str = "loss",
    ) -> None:
        self.base, self.fields, self.seeds = Configuration.from_json(dict(base)), tuple(fields), seeds
        self.ways = {str(way): way for way in (Way(*each) for each in ways)}
        self.speeds, self.clocks, self.score = tuple(speeds), tuple(clocks) if speeds else (True,), score
        self.asked: dict[str, Any] = {"ways": [list(each) for each in ways], "speeds": list(speeds), "clocks": list(self.clocks)}
        self.better = "lower" if sign_of(score) > 0 else "higher"
        layout = self.layout = ComparisonLayout(score, self.better, self.fields, tuple(self.ways), self.speeds, self.clocks)
        told = [DifferencesTable(layout, family) for family in FAMILIES]
        tables = CrosswiseTable(layout), *told, GateTable(layout), CostTable(layout)
        vars(self).update(tables=tables, figures={name: self._drawing(field) for field, name in self._figures().items()})

    @property
    def address(self) -> str:
        """Return what `loaded` makes this comparison of, in any process."""
        given = {"base": self.base.to_json(), "fields": self.fields, **self.asked, "seeds": self.seeds, "score": self.score}
        return f"experiments.compare.comparison:Comparison {json.dumps(given)}"

    def _figures(self) -> dict[str, str]:
        """Return the name of each field's figure."""
        return {field: "scores" if len(self.fields) == 1 else f"scores-{field}" for field in self.fields}

    def _drawing(self, field: str) -> Drawing:
        layout = dataclasses.replace(self.layout, fields=(field,))
        several = f"{field}: " * (len(self.fields) > 1)
        return Drawing(f"{several}{self._caption()}", lambda found: scores_figure(found, layout))

    def _caption(self) -> str:
        trained = f"Each panel: weights trained in one way, run in {len(self.ways)}"
        marks = "95 % intervals over seeds; a cross on the lower edge: some seed diverged."
        if len(self.speeds) < 2:
            about = "of weights trained in one way (marks), run in each (columns)"
            return f"{self.score} ({self.better} is better) {about}, with {marks}"
        return (
            f"{self.score} ({self.better} is better) over the speed c at which the test is played. {trained}: where lines of a "
            f"panel lie on one another, the way of running does not matter. Bands: {marks}"
        )

    def points(self, sizes: Sizes) -> list[Point]:
        return [
            {"field": field, "trained": name, "seed": seed}
            for seed in range(self.seeds)
            for field in self.fields
            for name in self.ways
        ]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        way, base = self.ways[point["trained"]], self.base
        return dataclasses.replace(
            base,
            field=point["field"],
            integrator=way.integrator,
            integrator_settings=dataclasses.replace(base.integrator_settings, substeps=way.substeps),
            training=dataclasses.replace(base.training, seed=point["seed"]),
        ).as_read()

    @cached_property
    def _runs(self) -> list[Run]:
        runs = []
        for point in self.points(self.sizes[""]):
            key = f"{point['field']}-{self.ways[point['trained']].key}-{point['seed']}"
            runs.append(Run(key, point, self.configuration(point, self.sizes[""]), self.asked))
        return runs

    def runs(self, scale: str = "") -> list[Run]:
        return list(self._runs)

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        fine = self._fine(self.base.integrator_settings)
        ways = ways_to_run(model, [*self.ways.values()], fine)
        reference = None
        if not noise_of(model, 1, 0):  # an equation with noise has no one solution to compare with
            reference = ways[EXACT] if EXACT in ways else under(model, EXACT, fine)
        task, training = run.configuration.task, run.configuration.training
        with torch_defaults(torch.get_num_threads(), torch.float32), kernels_at_once():  # the task draws its test as in training
            rows = crosswise(task, ways, training, Crossed, self.speeds or (None,), self.clocks, reference)
        return [
            {"run_as": row.pop("way"), "clock_given": row.pop("clock_given"), "speed": row.pop("clock"), **row} for row in rows
        ]

    def headline(self, record: Record) -> str:
        return f"{self.score} {record['measures'].get(self.score, math.nan):.4g} run as trained"

    def verdict(self, results: Results) -> ClaimVerdict:
        return conclusion(results, self.layout)

    def files(self, results: Results) -> dict[str, str]:
        return {"rows.csv": rows_csv(results)}

    def markdown(self) -> str:
        return self.about

    @property
    def looked(self) -> str:
        """Return what was understood of the user's own data, "" of none."""
        return "; ".join(self.base.task.look().splitlines())

    @property
    def guesses(self) -> str:
        """Return what guesses without memory score, "" where none is known."""
        task = self.base.task
        known = {"accuracy": task.baseline_accuracies, "loss": task.baselines}.get(self.score, dict)()
        return ", ".join(f"{name} {number(float(value))}" for name, value in known.items())

    @property
    def tolerance(self) -> str:
        fine = self._fine(self.base.integrator_settings)
        return f"rtol {fine.rtol:g}, atol {fine.atol:g}"

    @property
    def settings_in_words(self) -> str:
        """Write the settings of all runs that are not the defaults of `ctrnn train`."""
        parts: tuple[Any, ...] = (self.base.task, self.base.field_settings, self.base.integrator_settings, self.base.training)
        given = [(part, each) for part in parts for each in dataclasses.fields(part) if each.init]
        changed = [(each.name, getattr(part, each.name)) for part, each in given if getattr(part, each.name) != each.default]
        return ", ".join(f"{name}={words_of(value)}" for name, value in changed if name != "seed")

    @staticmethod
    def _fine(settings: IntegratorSettings) -> IntegratorSettings:
        """Return how fine the equation is solved where models are run: as in training, and at least as in `FINE`."""
        finest = {name: min(getattr(FINE, name), getattr(settings, name)) for name in ("rtol", "atol")}
        return dataclasses.replace(settings, **finest)

    @property
    def about(self) -> str:
        """Say in a few sentences what is compared, and on what."""
        base, training = self.base, self.base.training
        played = f", played {', '.join(map(clock_words, self.speeds))} times as fast" if self.speeds else ""
        return (
            f"Task {base.task_name}{played}; {base.field_settings.hidden} units of {', '.join(self.fields)}; trained "
            f"and run by {', '.join(self.ways)}; {training.steps} steps of {training.optimizer} on batches of {training.batch}, "
            f"{self.seeds} seed{'s' * (self.seeds > 1)}."
        )


class Crossed:
    r"""Sums up one way to run on a test: the task's measures, and how far states are from those of the reference.

    apart    the root mean square of state - reference, over all units and samples, as a share of the reference's spread: its
             root mean square about the mean of each unit; None where the reference could not go on, on any batch

    Source:  Chan, Golub and LeVeque 1983, for the spread over batches: by sums of squares a mean that is large beside it would
             take its digits.
    """

    def __init__(self, task: Task, model: SequenceModel) -> None:
        self.task, self.finite, self.largest = task, True, 0.0
        self.measures = MeasuresOfBatches(task)
        self.weight = self.off = self.seconds = 0.0
        self.evaluations = self.samples = self.count = 0
        self.known_g_dt = self.compared = True
        # Of the reference: the mean of each unit, and the sums of squares about it.
        self.mean: Tensor | float = 0.0
        self.squares: Tensor | float = 0.0

    def add(self, batch: Batch, found: Rollout | None, reference: Rollout | None) -> None:
        if found is None or not found.finite:
            self.finite = False
            return
        self.weight += self.task.weight(batch)
        self.measures.add(found.outputs, batch)
        self.evaluations += found.evaluations
        self.samples += len(batch.xs)
        self.seconds += found.seconds
        self.known_g_dt &= found.g_dt.numel() > 0
        if found.g_dt.numel():
            largest = largest_magnitude(found.g_dt)
            self.largest = max(self.largest, math.inf if largest is None else largest)
        if reference is None or not reference.finite:
            self.compared = False
            return
        states, exact = (_of_samples(one.states, batch).double() for one in (found, reference))
        self.off += float((states - exact).square().sum())
        mean, before = exact.mean(0), self.count
        self.count += len(exact)
        moved = mean - self.mean
        self.mean = self.mean + moved * (len(exact) / self.count)
        self.squares = self.squares + (exact - mean).square().sum(0) + moved.square() * (before * len(exact) / self.count)

    def row(self) -> Row:
        fine = self.finite and self.weight > 0
        measures = {name: value if fine else None for name, value in self.measures.measures().items()}
        if not all(value is None or math.isfinite(value) for value in measures.values()):
            fine, measures = False, dict.fromkeys(measures)
        return {
            "finite": fine,
            **measures,
            "apart": self._apart() if fine else None,
            "largest_g_dt": self.largest if fine and self.known_g_dt and math.isfinite(self.largest) else None,
            "evaluations": self.evaluations / self.samples if fine else None,
            "seconds": self.seconds if fine else None,
        }

    def _apart(self) -> float | None:
        if not self.compared or not isinstance(self.squares, Tensor):
            return None
        spread = float(self.squares.sum())
        return math.sqrt(self.off / spread) if spread > 0 else None


def _of_samples(states: Tensor, batch: Batch) -> Tensor:
    """Return the states after samples that were read, (samples, hidden)."""
    if batch.lengths is None:
        return states.flatten(0, 1)
    return states[torch.arange(len(states), device=states.device)[:, None] < batch.lengths]
