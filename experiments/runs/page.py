r"""Writes the page of a run from its folder: curves, what the model answers, time scales, and whether the steps are the equation;
of one that diverged, how its loss and g dt came there, and what to try.

DIR/index.html      one file that loads nothing
"""

from __future__ import annotations

import csv
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ctrnn import timescales
from discretize import DiscreteRNN, SequenceModel, StepWarning, breakdown, refine
from discretize.analysis.breakdown.scores import said_classes
from discretize.errors import SolverError
from experiments.files import read_json, write_files
from experiments.models.fields import MODULES
from experiments.reports.plots import BLUE, DASHES, GREEN, INK, MUTED, ORANGE, PURPLE, decades, legend, log_ticks, panels, style
from experiments.reports.report import Section, page
from experiments.runs.configuration import Configuration
from experiments.runs.evaluation import answers
from experiments.runs.folder import CONFIG, METRICS, PAGE, RESULT, STOPPED, load, read_configuration, read_result
from experiments.runs.rates import LEVELS
from experiments.tasks.task import Batch, Task
from experiments.usage import UsageError

__all__ = ["write_page"]

MOST_CLASSES = 12  # in a table of all by all
REFINED = 16  # sequences on which steps are refined
FAR_APART = 20
SMOOTHED = 40  # points of a curve of losses


def write_page(folder: Path) -> Path:
    """Write the page of a run that is completed, or diverged; return where it is. Raises: UsageError for a folder without one, or
    not writable."""
    result, stopped = read_result(folder), read_json(folder / STOPPED)
    if result is None and stopped is None:
        raise UsageError(f"{folder} holds no completed run, of which there could be a page; there is no {RESULT}.")
    with (folder / METRICS).open() as file:
        rows = list(csv.DictReader(file))
    if result is None:
        assert stopped is not None
        configuration = read_configuration(folder)
        assert configuration is not None
        model, result = configuration.untrained_model(), stopped
        sections = [_stopped(rows, stopped)]
    else:
        model, configuration = load(folder)
        training = configuration.training
        with torch.no_grad():
            given = list(answers(model, configuration.task, "test", training.evaluation, training.seed, training.batch))
            sections = [
                _learned(rows, configuration, result),
                _answered(configuration.task, given),
                _stepped(model, configuration, given[0][0], result, rows),
            ]
    config = json.loads((folder / CONFIG).read_text())
    facts = {
        "Command": config["command"],
        "Begun": config["begun"],
        "Time": f"{result['seconds']:.1f} s for {result['steps']} steps, {config['threads']} thread(s)",
        "Engine": ", ".join(result["engines"]),
        "Machine": ", ".join(f"{name} {value}" for name, value in config["machine"].items()),
        "Versions": ", ".join(f"{name} {number}" for name, number in config["versions"].items()),
    }
    parameters = sum(parameter.numel() for parameter in model.parameters())
    write_files(folder, {PAGE: page(sections, facts, "runs/page.html.jinja", run=configuration, parameters=parameters)})
    return folder / PAGE


def _stopped(rows: Sequence[dict[str, str]], stopped: Mapping[str, Any]) -> Section:
    """Show how a training diverged: losses and g dt over its steps, and what to try."""
    last = {"step": str(stopped["at"]), **{name: str(value) for name, value in stopped["g_dt"].items()}}
    figures = {}
    if rows:
        with style():
            figure, axes = panels(2, 4.4, sharex=True)
            for name, words, ax in (("loss", "loss", axes[0]), ("gradient_norm", "norm of gradient", axes[1])):
                steps, values = _smoothed(rows, name)
                ax.plot(steps, values, color=INK, linewidth=1)
                ax.set_ylabel(words)
                _logarithmic(ax, values)
            axes[-1].set_xlabel("step")
        figures["curves"] = figure
    if drawn := g_dt_over_steps([*rows, last], diverged=True):
        figures["g-dt"] = drawn
    return Section.from_template(
        "runs/stopped.html.jinja", "stopped", figures, failures=[stopped["message"]], at=stopped["at"], drawn=list(figures),
        passed=passings([*rows, last]),
    )  # fmt: skip


def _learned(rows: Sequence[Mapping[str, str]], configuration: Configuration, result: Mapping[str, Any]) -> Section:
    guesses = configuration.task.baselines()
    accuracies = configuration.task.baseline_accuracies()
    measured = [row for row in rows if row["evaluation_loss"]]
    classes = bool(measured and measured[0]["evaluation_accuracy"])
    other: Mapping[str, float] = result.get("beside") or {}  # measures of `torch.nn.GRU`
    with style():
        figure, axes = panels(3 if classes else 2, 6.0 if classes else 4.4, sharex=True)
        steps, losses = _smoothed(rows, "loss")
        axes[0].plot(steps, losses, color=MUTED, linewidth=1, label="training")
        shown = [("evaluation_loss", "loss", axes[0], guesses)]
        shown += [("evaluation_accuracy", "accuracy", axes[1], accuracies)] if classes else []
        for name, words, ax, marked in shown:
            ax.plot([int(row["step"]) for row in measured], [float(row[name]) for row in measured], color=BLUE, label="held out")
            for (guess, value), colour in zip(marked.items(), (ORANGE, GREEN, INK), strict=False):
                ax.axhline(value, color=colour, linewidth=1, linestyle=(0, (4, 2)), label=_guess("guess", guess))
            if words in other:
                ax.axhline(other[words], color=PURPLE, linewidth=1, linestyle=(0, (1, 1.5)), label="nn.GRU beside, on the test")
            ax.set_ylabel(words)
        _logarithmic(axes[0], losses)
        steps, norms = _smoothed(rows, "gradient_norm")
        axes[-1].plot(steps, norms, color=INK, linewidth=1)
        axes[-1].set_ylabel("norm of gradient")
        _logarithmic(axes[-1], norms)
        axes[-1].set_xlabel("step")
        legend(figure, axes[0])
    best = result.get("best") or {}
    every = {**result["measures"], **other}
    listed = [
        [name, *(f"{found[name]:.4g}" if name in found else "–" for found in (result["measures"], other))] for name in every
    ]
    listed += [[_guess("loss of a guess", name), f"{value:.4g}", ""] for name, value in guesses.items()]
    listed += [[_guess("accuracy of a guess", name), f"{value:.4g}", ""] for name, value in accuracies.items()]
    loss, lowest = result["measures"]["loss"], min(guesses.values(), default=math.inf)
    failures = [f"The loss on the test is {loss:.4g}, no less than the {lowest:.4g} of a guess."] if not loss < lowest else []
    return Section.from_template(
        "runs/learned.html.jinja", "learned", {"curves": figure}, failures=failures, best=best, loss=loss,
        listed=listed if other else [row[:2] for row in listed], other=other, asked=configuration.training.beside,
        kept=configuration.training.keep, guessed=bool(guesses), lowest=lowest, steps=result["steps"],
    )  # fmt: skip


def _guess(what: str, name: str) -> str:
    """Name a predictor that learns nothing; one that is called "guess" needs no second name."""
    return what if name == "guess" else f"{what}: {name}"


def _logarithmic(ax: Axes, values: Sequence[float]) -> None:
    """Make the axis of values logarithmic where they are above 0 and far apart."""
    if min(values) > 0 and max(values) > FAR_APART * min(values):
        ax.set_yscale("log")
        log_ticks(ax.yaxis, [k * 10.0**n for n in range(-9, 10) for k in (1, 3)])


def _smoothed(rows: Sequence[Mapping[str, str]], name: str) -> tuple[list[float], list[float]]:
    """Take means of as many neighbours as leave some points; a step in which nothing counts has no loss."""
    width = max(1, len(rows) // SMOOTHED)
    counted = [row for row in rows if not math.isnan(float(row[name]))]
    groups = [counted[k : k + width] for k in range(0, len(counted), width)]
    return [float(g[-1]["step"]) for g in groups], [math.fsum(float(row[name]) for row in g) / len(g) for g in groups]


def _answered(task: Task, given: Sequence[tuple[Batch, Tensor]]) -> Section:
    """Show what the model says on the test: classes beside the right ones, or numbers."""
    numbers = given[0][0].targets.dtype.is_floating_point
    names = list(task.output_names) or [f"{'output ' * numbers}{k + 1}" for k in range(task.output_size)]
    if numbers:
        return _numbers(given[0][0], task.in_target_units(given[0][1]), names)
    pairs = torch.cat([_of_classes(batch, outputs) for batch, outputs in given])
    count = len(names)
    said = pairs[pairs[:, 1] >= 0]
    confusion = torch.bincount(said[:, 0] * count + said[:, 1], minlength=count**2).view(count, count)
    wrong = [(int(confusion[a, b]), names[a], names[b]) for a in range(count) for b in range(count) if a != b and confusion[a, b]]
    none = len(pairs) - len(said)
    failures = [f"{none} of {len(pairs)} answers on the test are no number: states left all bounds there."] if none else []
    return Section.from_template(
        "runs/classes.html.jinja", "classes", {}, small=count <= MOST_CLASSES, count=count, asked=len(pairs),
        right=float(confusion.diagonal().sum()) / len(pairs), names=names,
        confusion=confusion.tolist(), wrong=sorted(wrong, reverse=True)[:10], failures=failures,
    )  # fmt: skip


def _of_classes(batch: Batch, outputs: Tensor) -> Tensor:
    """Return (n, 2): the right classes and those that score most, -1 of scores that say none, where something is asked."""
    targets, scores = batch.targets, outputs if batch.targets.dim() == 2 else batch.last(outputs)
    asked = targets >= 0
    if targets.dim() == 2 and batch.counts is not None:
        asked &= batch.counts > 0
    return torch.stack([targets[asked], said_classes(scores)[asked]], 1)


def _numbers(batch: Batch, outputs: Tensor, names: Sequence[str]) -> Section:
    """Draw the numbers of one sequence over its samples, or, where they are asked for at the end, against the right ones."""
    with style():
        if batch.targets.dim() == 3:
            length = len(outputs) if batch.lengths is None else int(batch.lengths[0])
            width = min(3, outputs.shape[-1])
            figure, axes = panels(width, 1.2 + 1.5 * width, sharex=True)
            ts = np.arange(length) if batch.ts is None else batch.ts.reshape(len(batch.ts), -1)[:length, 0].numpy()
            for k, ax in enumerate(axes):
                ax.plot(ts, batch.targets[:length, 0, k], color=INK, linewidth=1, label="right")
                ax.plot(ts, outputs[:length, 0, k], color=ORANGE, linewidth=1, linestyle=(0, (4, 1.5)), label="said")
                ax.set_ylabel(names[k])
            axes[-1].set_xlabel("time" if batch.ts is not None else "sample")
            legend(figure, axes[0])
        else:
            figure, (ax,) = panels(1, 3.6)
            asked = batch.targets.isfinite()
            right, said = batch.targets[asked], batch.last(outputs)[asked]
            ends = [float(right.min()), float(right.max())]
            ax.plot(ends, ends, color=MUTED, linewidth=1, linestyle=(0, (4, 2)), label="right")
            ax.plot(right, said, "o", color=BLUE, markersize=3, label="said")
            ax.set_xlabel("the right number")
            ax.set_ylabel("said")
            legend(figure, ax)
    return Section.from_template("runs/numbers.html.jinja", "numbers", {"numbers": figure}, every=batch.targets.dim() == 3)


def _stepped(
    model: SequenceModel, configuration: Configuration, batch: Batch, result: Mapping[str, Any], rows: Sequence[Mapping[str, str]]
) -> Section:
    """Say for how long units remember before and after training, and whether the model is the equation that it steps."""
    figures: dict[str, Figure] = {}
    try:
        before, after = (timescales(each.field).double().flatten() for each in (configuration.untrained_model(), model))
        if after.isfinite().all() and (after > 0).all():
            figures["timescales"] = _remembered(before, after)
    except (TypeError, RuntimeError, AttributeError):  # a field that forgets nothing, or no field
        pass
    if drawn := g_dt_over_steps(rows):
        figures["g-dt"] = drawn
    verdict, noise = "", tuple[Any, ...]()
    if isinstance(model.rnn, DiscreteRNN):
        few = configuration.task.part(batch, slice(0, REFINED))
        metric = lambda outputs: float(configuration.task.loss(outputs, few))  # noqa: E731
        try:
            with warnings.catch_warnings(), torch.random.fork_rng(()):
                warnings.simplefilter("ignore", StepWarning)
                torch.manual_seed(configuration.training.seed)  # from which noise has its keys
                if model.rnn.noisy:
                    report = breakdown(model, replace(few, targets=None), metric=metric, steps=())
                    verdict, noise = report.refinement.verdict, report.noise or ()
                else:
                    verdict = refine(model, few.xs, ts=few.ts, lengths=few.lengths, metric=metric).verdict
        except (SolverError, ValueError, TypeError) as error:
            verdict = f"Not known: {error}"
    largest = result.get("largest_g_dt") if configuration.integrator == "euler" else None
    if largest:
        largest = f"{largest:.2f}" if math.isfinite(largest) else "beyond all numbers"
    return Section.from_template(
        "runs/stepped.html.jinja", "stepped", figures, refined=verdict, noise=noise, largest=largest,
        integrator=configuration.integrator, module=configuration.field in MODULES,
        drawn=list(figures), passed=passings(rows), capped=_capped(configuration, rows, result), few=min(REFINED, batch.size),
    )  # fmt: skip


def _capped(
    configuration: Configuration, rows: Sequence[Mapping[str, str]], result: Mapping[str, Any]
) -> dict[str, float] | None:
    """Return the cap of the step, and on which share of units and samples it was at work: in training, at its end, at test."""
    shares = [float(row["capped"]) for row in rows if row.get("capped")]
    if configuration.integrator != "capped-euler" or not shares:
        return None
    return {
        "cap": configuration.integrator_settings.cap,
        "training": math.fsum(shares) / len(shares),
        "last": shares[-1],
        "test": result.get("test_g_dt", {}).get("capped", math.nan),
    }


def passings(rows: Sequence[Mapping[str, str]]) -> list[tuple[str, str, str, str]]:
    """List the levels that the largest g dt passed: level, and step, unit and g dt where it first did."""
    known = [row for row in rows if row.get("g_dt_largest")]
    found = ((level, next((row for row in known if float(row["g_dt_largest"]) > level), None)) for level in LEVELS)
    return [
        (f"{level:g}", row["step"], f"{float(row['g_dt_unit']):.0f}", f"{float(row['g_dt_largest']):.3g}")
        for level, row in found
        if row is not None
    ]


def g_dt_over_steps(rows: Sequence[Mapping[str, str]], diverged: bool = False) -> Figure | None:
    """Draw median, 99 % and largest g dt over the steps of training; None where nothing is known of it."""
    known = [row for row in rows if row.get("g_dt_largest") and row.get("g_dt_median")]
    if not known:
        return None
    steps = [int(row["step"]) for row in known]
    with style():
        figure, (ax,) = panels(1, 3.2)
        lines = (("g_dt_largest", "largest", ORANGE), ("g_dt_high", "99 % are below", BLUE), ("g_dt_median", "median", GREEN))
        for (name, words, colour), dashes in zip(lines, DASHES, strict=False):
            ax.plot(steps, [float(row[name]) for row in known], color=colour, linewidth=1.2, linestyle=dashes, label=words)
        for level in LEVELS:
            ax.axhline(level, color=MUTED, linewidth=0.8)
        if diverged:
            ax.plot(steps[-1:], [float(known[-1]["g_dt_largest"])], "x", color=ORANGE, markersize=8, label="diverged")
        values = [float(row[name]) for row in known for name, *_ in lines]
        if min(values) > 0:
            ax.set_yscale("log")
            decades(ax)
        ax.set_ylabel("g dt")
        ax.set_xlabel("step")
        legend(figure, ax)
    return figure


def _remembered(before: Tensor, after: Tensor) -> Figure:
    with style():
        figure, (ax,) = panels(1, 3.0)
        for values, colour, name in ((before, MUTED, "before training"), (after, BLUE, "after")):
            ax.plot(range(1, len(values) + 1), values.sort().values, "o-", color=colour, markersize=3, linewidth=1, label=name)
        _logarithmic(ax, torch.cat([before, after]).tolist())
        ax.set_xlabel("units, from the fastest to the slowest")
        ax.set_ylabel("forgetting time, in units of time")
        legend(figure, ax)
    return figure
