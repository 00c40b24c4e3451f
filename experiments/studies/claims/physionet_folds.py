r"""Trains models on the patients of PhysioNet 2012, each tested in one of five folds, and compares them on resampled patients.

times        a GRU that sees none; the gap as one more value; held samples and stamps; the same, the gaps mixed up
exactness    one field by Euler's step, by the exponential one, and solved: trained so, and on the same weights
controls     labels mixed up in training and test; the number of measurements alone
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from scipy.stats import rankdata

from discretize import SequenceModel, StepWarning
from experiments.models.integrators import EXACT, under
from experiments.reports import plots
from experiments.reports.bands import LOOKS
from experiments.reports.plots import MUTED, PAPER
from experiments.reports.spreads import NotEnoughError, Spread, number, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.runs.folder import read_result
from experiments.studies.resampling import ByFold, auroc_drawn, difference_drawn, fold_differences, mean_drawn, seed_deviation
from experiments.studies.results import Results, where
from experiments.studies.specs import Drawing, Table, across, first
from experiments.studies.study import Point, Record, Row, Run, Sizes, Study, data_path, distinct, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared
from experiments.tasks.recorded.patients import FOLDS, VALUES, Patients

__all__ = ["COMPARISONS", "JUMPING", "LIKELY", "MODELS", "SLOWEST", "PhysioNetFolds"]

DATA = "physionet2012/"
EXPONENTIAL, EULER = "exponential-euler", "euler"
STEPS, FIELDS = (EULER, EXPONENTIAL, EXACT), ("gru", "gated")
HOUR = 1.0  # to which gaps are cut


def _held(field: str, integrator: str, **settings: object) -> dict[str, Any]:
    return {"field": field, "integrator": integrator, "hold": "backward", **settings}


def _no_times(field: str, **settings: object) -> dict[str, Any]:
    return {"field": field, "integrator": EULER, "clock_given": False, **settings}


LIKELY, BAYES = "gru-ode-bayes-likelihood", dict[str, Any](field="gru-ode-bayes", integrator=EXPONENTIAL)
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gru": ("GRU, no times", _no_times("gru")),
    "gru-gap": ("GRU, the gap a value", _no_times("gru", gap_given=True)),
    "gru-euler": ("GRU, held, Euler", _held("gru", EULER)),
    "gru-euler-cut": ("GRU, held, Euler, gaps cut", _held("gru", EULER, longest=HOUR)),
    "gru-exponential": ("GRU, held, exponential Euler", _held("gru", EXPONENTIAL)),
    "gru-exact": ("GRU, held, solved", _held("gru", EXACT)),
    "gru-mixed-gaps": ("GRU, held, gaps mixed up", _held("gru", EXPONENTIAL, shuffled="gaps")),
    "gru-mixed-labels": ("GRU, no times, labels mixed up", _no_times("gru", shuffled="labels")),
    "gated": ("gated, no times", _no_times("gated")),
    "gated-euler": ("gated, held, Euler", _held("gated", EULER)),
    "gated-euler-cut": ("gated, held, Euler, gaps cut", _held("gated", EULER, longest=HOUR)),
    "gated-exponential": ("gated, held, exponential Euler", _held("gated", EXPONENTIAL)),
    "gated-exact": ("gated, held, solved", _held("gated", EXACT)),
    "gated-mixed-gaps": ("gated, held, gaps mixed up", _held("gated", EXPONENTIAL, shuffled="gaps")),
    "ode-rnn": ("ODE-RNN", {"field": "ode-rnn", "integrator": EULER}),
    "gru-d": ("GRU-D", {"field": "gru-d", "integrator": EXACT}),
    "cfc": ("CfC", _held("cfc", EXACT)),
    "gru-ode-bayes": ("GRU-ODE-Bayes", BAYES),
    LIKELY: ("GRU-ODE-Bayes, its likelihood too", BAYES | {"likelihood": 1.0}),
}
NAMES = {model: title for model, (title, _) in MODELS.items()}
SOLVED, JUMPING, SLOWEST = ("gru-exact", "gated-exact"), ("ode-rnn", "gru-d", "cfc"), ("gru-ode-bayes", LIKELY)
QUICK = tuple(name for name in MODELS if name not in (*SOLVED, *JUMPING, *SLOWEST))
DRIVEN = tuple(f"{field}-{step}" for field in FIELDS for step in ("euler", "euler-cut", "exponential"))
TIMED = ("gru", "gru-gap", "gru-exponential", "gated", "gated-exponential")
KEPT = {"all": 1.0, "a third": 1 / 3}  # of the stamps after the first
# How weights are run, or what is ranked: cut is a clock that stops an hour after each stamp.
TRAINED, MIXED, CUT, COUNT = "as trained", "gaps mixed up", "gaps of 1 hour at most", "number of measurements"
ENOUGH = 3  # folds: in fewer nothing is decided
COUNTS = 0.01  # of AUROC, the least difference that counts
LEFT = -0.06  # where the figure begins
CHANCE, FAR = 0.5, 0.03  # AUROC where labels are mixed up, and how far from it something must be wrong
Read = tuple[str, str, str]  # model, stamps, how the weights are run
LABELS, NUMBER = ("gru-mixed-labels", "all", TRAINED), ("gru", "all", COUNT)


class ModelComparison(NamedTuple):
    """Claims that one model is better than another, by an AUROC in print or by the least that counts."""

    about: str
    ours: str
    theirs: str
    effect: float = COUNTS
    stamps: str = "all"
    read: str = TRAINED  # how the weights of the first are run

    @property
    def sides(self) -> tuple[Read, Read]:
        return (self.ours, self.stamps, self.read), (self.theirs, self.stamps, TRAINED)

    @property
    def words(self) -> str:
        if self.read != TRAINED:
            return f"{NAMES[self.ours]}: weights run solved – as trained"
        return f"{NAMES[self.ours]} – {NAMES[self.theirs]}" + (f", {self.stamps} of stamps" if self.stamps != "all" else "")


AGAINST_NONE = (("gru-exponential", "gru"), ("gated-exponential", "gated"), ("gru-gap", "gru"))
MIXED_UP = (("gru-exponential", "gru-mixed-gaps"), ("gated-exponential", "gated-mixed-gaps"))
STEPPED = [f"{field}-{step}" for field in FIELDS for step in ("exponential", "euler")]
PAIRS = (
    ("exact", "exponential"),
    ("exact", "euler"),
    ("exponential", "euler"),
    ("euler-cut", "euler"),
    ("exponential", "euler-cut"),
)
BY_STEPS = [(f"{field}-{ours}", f"{field}-{theirs}") for field in FIELDS for ours, theirs in PAIRS]
COMPARISONS = (
    *(ModelComparison("times", *pair) for pair in (*AGAINST_NONE, *MIXED_UP)),
    *(ModelComparison("times, fewer stamps", *pair, stamps="a third") for pair in AGAINST_NONE),
    *(ModelComparison("steps", *pair) for pair in BY_STEPS),
    *(ModelComparison("steps, one training", model, model, read=EXACT) for model in STEPPED),
    ModelComparison("jumps", "ode-rnn", "gru-gap", 0.833 - 0.787),
    ModelComparison("jumps", "gru-d", "gru-gap", 0.818 - 0.787),
    *(ModelComparison("jumps", model, "gru") for model in (*JUMPING, *SLOWEST)),
    ModelComparison("jumps", LIKELY, "gru-ode-bayes"),
)


@functools.lru_cache(2)
def drawn(results: Results) -> dict[Read, ByFold]:
    """Compute the AUROCs of all that was ranked, of the patients of each fold as they are and drawn anew."""
    rows = results.rows.to_dict("records")
    died = {row["key"]: row["died"] for row in rows if row["read"] == TRAINED}
    found: dict[Read, dict[int, list[np.ndarray]]] = {}
    for row in rows:
        if row["ranks"]:
            folds = found.setdefault((row["model"], row["stamps"], row["read"]), {})
            folds.setdefault(row["fold"], []).append(auroc_drawn(row["ranks"], died[row["key"]], row["fold"]))
    return {read: {fold: np.array(seeds) for fold, seeds in folds.items()} for read, folds in found.items()}


def over_seeds(results: Results) -> float:
    """Compute the deviation over seeds of all models but the controls."""
    return seed_deviation(folds for (model, _, read), folds in drawn(results).items() if read == TRAINED and "mixed" not in model)


def parts_found(results: Results) -> list[tuple[ModelComparison, ClaimPart, Spread]]:
    """Answer the comparisons beside one another; undecided is what was run in too few folds, left out what was in none."""
    found, answers = drawn(results), []
    for one in COMPARISONS:
        with suppress(NotEnoughError):
            ours, theirs = (found.get(side, {}) for side in one.sides)
            deviation = over_seeds(results) if one.read == TRAINED else 0.0  # nan where it is not known yet
            measured = difference_drawn(ours, theirs, deviation)
            enough = measured.count >= ENOUGH and deviation >= 0
            compared = Compared(measured, one.effect, printed=one.effect != COUNTS) if enough else None
            answers.append((one, ClaimPart(one.words, compared), measured))
    judged = ClaimVerdict([part for _, part, _ in answers]).parts
    return [(one, part, measured) for (one, _, measured), part in zip(answers, judged, strict=True)]


def in_words(about: str, parts: Sequence[tuple[ModelComparison, ClaimPart, Spread]]) -> str:
    """Say of one question which differences are there, and how many of the others are not or are not told apart."""
    yes = [f"{one.words} {measured.mean:.4f}" for one, part, measured in parts if part.answer == "yes"]
    others = [(part.answer, measured.mean) for _, part, measured in parts if part.answer != "yes"]
    words = [f"yes, {'; '.join(yes)}"] if yes else []
    if others:
        counts = Counter(answer for answer, _ in others)
        low, high = (some(mean for _, mean in others) for some in (min, max))
        between = f"{low:.4f}" + (f" to {high:.4f}" if len(others) > 1 else "")
        words.append(f"{' and '.join(f'{count} {answer}' for answer, count in counts.items())}, {between}")
    return f"{about[0].upper()}{about[1:]}: {'; '.join(words)}."


def of_models(results: Results) -> pd.DataFrame:
    """Make a row for each model and share of stamps: its AUROC, and what its trainings took."""
    found = []
    for (model, stamps, read), folds in drawn(results).items():
        if read in (TRAINED, COUNT):
            rows = where(results.rows, model=model, stamps=stamps, read=read)
            row: dict[str, str | None] = {"model": NAMES[model] if read == TRAINED else COUNT, "stamps": stamps}
            row["AUROC"] = f"{mean_drawn(folds, over_seeds(results) if read == TRAINED else 0.0):.4f}"
            if read == TRAINED:
                told = {name: str(spread(rows[name])) for name in ("best epoch", "seconds an epoch")}
                row |= {"trainings": f"{len(rows)} in {len(folds)} folds", **told}
            found.append(row)
    return pd.DataFrame(found).astype(object).replace(np.nan, None)


def of_comparisons(results: Results) -> pd.DataFrame:
    """Make a row for each comparison."""
    found = drawn(results)
    return pd.DataFrame(
        {"about": one.about, "words": one.words, "difference": f"{measured:.4f}", "folds": measured.count,
         "in each fold": str(spread(fold_differences(*map(found.__getitem__, one.sides)))),
         "effect": number(one.effect, 2), "answer": part.answer}
        for one, part, measured in parts_found(results)
    )  # fmt: skip


def of_reads(results: Results) -> pd.DataFrame:
    """Make a row for each other way of running trained weights: what it adds to the AUROC."""
    found = drawn(results)
    return pd.DataFrame(
        {"model": NAMES[model], "stamps": stamps, "read": read,
         "difference": f"{difference_drawn(folds, found[model, stamps, TRAINED]):.4f}"}
        for (model, stamps, read), folds in found.items() if read not in (TRAINED, COUNT)
    )  # fmt: skip


def figure_of(results: Results) -> Figure:
    """Draw the difference of each comparison below its words, with lines at none and at the least that counts."""
    found = parts_found(results)
    if not found:
        raise NotEnoughError("there is no point to draw yet")
    abouts = list(dict.fromkeys(one.about for one, _, _ in found))
    with plots.style():
        figure, (ax,) = plots.panels(1, 0.9 + 0.36 * len(found))
        for row, (one, _, measured) in enumerate(found):
            colour = LOOKS[abouts.index(one.about)][0]
            ax.plot([measured.low, measured.high], [row, row], color=colour, linewidth=1.6, solid_capstyle="butt")
            ax.plot(measured.mean, row, "o", color=colour, markersize=4.5)
            paper = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.0}
            ax.text(0.01, row - 0.36, one.words, transform=ax.get_yaxis_transform(), fontsize=8.5, va="center", bbox=paper)
        for at, dashes in ((0.0, "-"), (COUNTS, "--"), (-COUNTS, "--")):
            ax.axvline(at, color=MUTED, linewidth=0.9, linestyle=dashes, zorder=0)
        ax.set_ylim(len(found) - 0.5, -0.8)
        ax.set_xlim(left=max(LEFT, ax.get_xlim()[0]))
        ax.set_yticks([])
        ax.set_xlabel("difference of AUROC")
        return figure


@torch.no_grad()
def ranked(model: SequenceModel, task: Patients) -> list[int]:
    """Rank the patients of the test by the model's score of a death, times two, so that ties are whole; [] if it overflows."""
    (batch,) = task.evaluation("test", task.count("test"), 1, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepWarning)  # what Euler's step does over gaps of hours is asked here
        last = batch.last(model(batch.xs.to(next(model.parameters()).dtype), ts=batch.ts, lengths=batch.lengths))
    return _ranks(last[:, 1] - last[:, 0])


def _ranks(scores: torch.Tensor) -> list[int]:
    return (2 * rankdata(scores)).astype(int).tolist() if bool(scores.isfinite().all()) else []


class PhysioNetFolds(Study):
    """Trains nineteen models in five folds, and asks what times, exactness and jumps are worth."""

    name = "physionet-folds"
    sets: ClassVar = "ab"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 120, "paper": 800}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=4, batch=16, batches=2, epochs=1, patience=1, folds=2, stages=[(("gru", "gated-exact"), "all", 1)]),
        "small": Sizes(hidden=48, batch=64, batches=80, epochs=30, patience=4, folds=FOLDS, stages=[
            (QUICK, "all", 1), (SOLVED, "all", 1), (JUMPING[:2], "all", 1), (TIMED, "a third", 1), (TIMED, "all", 2),
            (DRIVEN, "all", 3),
            (JUMPING, "all", 1), (SLOWEST, "all", 1), (QUICK, "all", 3), (TIMED, "a third", 3), (SOLVED, "all", 3),
            (JUMPING, "all", 3),
        ]),
        "paper": Sizes(hidden=48, batch=64, batches=80, epochs=60, patience=8, folds=FOLDS, stages=[
            (tuple(MODELS), "all", 5), (tuple(MODELS), "a third", 5),
        ]),
    }  # fmt: skip
    may_diverge = True
    needs = (DATA,)
    tables = (
        Table(
            "AUROC, each patient tested once: the mean over folds and seeds, and its 95 % interval over patients and seeds. Rows "
            "of fewer than five folds are compared with others in the next table only, on the folds of both. The epoch whose "
            "weights were kept, and seconds an epoch with its evaluation, of one thread on a machine that was shared.",
            by={"model": "model", "stamps": "stamps"},
            columns={name: first(name) for name in ("AUROC", "trainings", "best epoch", "seconds an epoch")},
            data=of_models,
        ),
        Table(
            "How much larger the AUROC of the first is, both models on the same patients drawn anew, with 95 % intervals; the "
            "answer is by wider ones, for as many as there are: yes above the least that counts, or above 0 where an effect is "
            "in print; no where they do not come to the effect; else undecided.",
            by={"about": "about", "models": "words"},
            columns={name: first(name) for name in ("difference", "folds", "in each fold", "effect", "answer")},
            data=of_comparisons,
        ),
        Table(
            "Trained weights run otherwise: how much larger the AUROC is than as trained; – where that is the same, is not "
            "asked, or has states that overflow.",
            by={"model": "model", "stamps": "stamps"},
            columns=across("read", {MIXED: MIXED, CUT: CUT, "Euler": EULER, "exponential Euler": EXPONENTIAL, "solved": EXACT},
                           first("difference")),
            data=of_reads,
        ),
    )  # fmt: skip
    figures: ClassVar = {
        "differences": Drawing(
            "How much larger the AUROC of one model is than that of another, and its 95 % interval over patients and seeds. "
            f"Dashed: the least that counts. What is below {LEFT:g} lies outside.",
            figure_of,
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the points stage by stage, each with so many seeds; none without the patients."""
        if data_path(DATA) is None:
            return []
        points = [
            {"model": model, "stamps": stamps, "fold": fold, "seed": seed}
            for models, stamps, seeds in sizes.stages
            for seed in range(seeds)
            for fold in range(sizes.folds)
            for model in models
        ]
        return distinct(points)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        settings = MODELS[point["model"]][1] | {
            "fold": point["fold"],
            "kept": KEPT[point["stamps"]],
            "data": str(data_path(DATA)),
            "sets": self.sets,
        }
        every = {"evaluate_every": sizes.batches, "checkpoint_every": sizes.batches, "steps": sizes.epochs * sizes.batches}
        best = {"keep": "best", "keep_by": "auroc", "patience": sizes.patience, "evaluation": 10_000}
        adam = {"optimizer": "adam", "rate": 2e-3, "clip": 1.0, "batch": sizes.batch, "threads": 1}
        return shared_configuration("physionet", hidden=sizes.hidden, seed=point["seed"], **settings, **every, **best, **adam)

    def headline(self, record: Record) -> str:
        return f"AUROC {number(record['measures']['auroc'])}" if "auroc" in record["measures"] else ""

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        """Rank the patients of the test by the trained model, by the same weights run otherwise, and once by a count alone."""
        task, integrator = run.configuration.task, run.configuration.integrator
        assert isinstance(task, Patients)
        (batch,) = task.evaluation("test", task.count("test"), 1, 0)
        result, every = read_result(folder) or {}, run.configuration.training.evaluate_every
        best, epochs = result["best"], result["steps"] / every
        about = {"died": batch.targets.nonzero()[:, 0].tolist(), "epochs": epochs, "seconds an epoch": result["seconds"] / epochs}
        told: Row = {"read": TRAINED, **about, "best epoch": best["step"] / every, "validation": best["auroc"]}
        rows: list[Row] = [told | {"ranks": ranked(model, task)}]
        if (task.clock_given or task.gap_given) and task.shuffled == "nothing":
            rows.append({"read": MIXED, "ranks": ranked(model, dataclasses.replace(task, shuffled="gaps"))})
        if run.configuration.field in FIELDS and task.clock_given and task.shuffled == "nothing":
            rows += [{"read": step, "ranks": ranked(under(model, step), task)} for step in STEPS if step != integrator]
            if task.longest > HOUR:
                rows.append({"read": CUT, "ranks": ranked(model, dataclasses.replace(task, longest=HOUR))})
        if run.point["model"] == "gru" and task.kept == 1:
            rows.append({"read": COUNT, "ranks": _ranks(batch.xs[..., VALUES:].sum((0, 2)))})
        return rows

    def verdict(self, results: Results) -> ClaimVerdict:
        found, parts = drawn(results), parts_found(results)
        if not parts:
            raise NotEnoughError("of two models that are compared no fold is done")
        controls = {
            name: mean_drawn(found[read]) for name, read in (("labels mixed up", LABELS), (COUNT, NUMBER)) if read in found
        }
        if (mixed := controls.get("labels mixed up")) and abs(mixed.mean - CHANCE) > FAR:
            raise NotEnoughError(f"with labels mixed up the AUROC is {mixed:.4f}, so that something tells them")
        said = [in_words(about, list(some)) for about, some in groupby(parts, lambda each: each[0].about)]
        numbers = {name: f"{value:.4f}" for name, value in controls.items()}
        said += [f"Control, {name}: AUROC {words} by patients alone." for name, words in numbers.items()]
        said.append(f"Deviation over seeds in one fold: {number(over_seeds(results), 2)}." if over_seeds(results) > 0 else "")
        return ClaimVerdict([part for _, part, _ in parts], numbers, " ".join(said))
