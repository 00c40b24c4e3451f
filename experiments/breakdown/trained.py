r"""`ctrnn breakdown --run RUN`: of a trained model on its data, whether it is its equation or its step.

DIR/index.html    the page                DIR/breakdown.txt    the same in words
DIR/steps.csv     the table of steps      DIR/sequences.csv    what is known of each sequence
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

import ctrnn
from discretize import Batch, Breakdown, ContinuousRNN, DiscreteRNN, SolverError, breakdown
from discretize.analysis.breakdown.figure import drawn
from discretize.analysis.breakdown.report import VERDICTS
from discretize.analysis.breakdown.substitutes import STEPS
from experiments.code_files import imported
from experiments.data.untrusted import check_file
from experiments.files import ready_folder, write_files
from experiments.models.integrators import EXACT, INTEGRATORS
from experiments.reports.colours import COLOURS
from experiments.reports.report import Section, facts, page, progress, say
from experiments.reports.svg import with_colours
from experiments.runs.folder import load
from experiments.usage import UsageError

__all__ = ["of_files", "of_run"]

SEQUENCES, SHOWN = 32, 10  # of the test, and in the table
COLUMNS = {  # what is known of a sequence: its heading, and the form of its numbers
    "states_apart": ("States apart", ".2%"),
    "answers_changed": ("Answers that differ", ".0%"),
    "score_stepped": ("{} as stepped", ".4g"),
    "score_solved": ("{} solved", ".4g"),
    "held_stepped": ("Held, under the steps", ""),
    "held_solved": ("Held, in the equation", ""),
}
NAMES = ("xs", "targets", "counts", "ts", "lengths")
PACKAGES = ("ctrnn", "torch")


def of_run(folder: Path, out: Path, command: str, plugins: Sequence[str] = ()) -> None:
    """Look at the model of a run on sequences of its test. Raises: UsageError for a folder without one, or without steps."""
    model, configuration = load(folder, plugins)
    task, training = configuration.task, configuration.training
    if not isinstance(model.rnn, DiscreteRNN | ContinuousRNN):
        raise UsageError(f"{folder} holds a model of {type(model.rnn).__name__}, which has no steps of its own to look at.")
    how = f"trained by {configuration.integrator}"
    if isinstance(model.rnn, ContinuousRNN):
        model, how = model.stepped("euler"), f"{how}, and stepped by Euler here"
    size = min(SEQUENCES, training.evaluation)
    batch = next(iter(task.evaluation("test", size, size, training.seed)))
    name = "accuracy" if "accuracy" in task.measured else "loss"

    def measured(outputs: torch.Tensor, part: Batch) -> float:
        return float(task.loss(outputs, part)) if name == "loss" else task.measures(outputs, part)[name]

    def metric(outputs: torch.Tensor, _: object) -> tuple[float, list[float]]:
        each = (slice(k, k + 1) for k in range(batch.size))
        return measured(outputs, batch), [measured(outputs[:, one], task.part(batch, one)) for one in each]

    credit = f"{batch.size} sequences of the test of {configuration.task_name}"
    integrator = "euler" if configuration.integrator == EXACT else configuration.integrator
    guesses = task.baselines() if name == "loss" else task.baseline_accuracies()
    guess = (min if name == "loss" else max)(guesses.values(), default=None)
    _write(model, batch, metric, name, f"{folder.name}, {how}", credit, out, command, integrator, guess)


def of_files(model: Path, data: Path, out: Path, command: str, plugins: Sequence[str] = ()) -> None:
    """Look at a model that `ctrnn.save` wrote, on tensors of one file; plugins: files with classes of yours that are in it, which
    are run. Raises: UsageError for what cannot be read."""
    check_file(model)
    check_file(data)
    own = [(module.__name__, kind) for module in map(imported, plugins) for kind in vars(module).values()]
    known = {kind.__name__: kind for name, kind in own if isinstance(kind, type) and kind.__module__ == name}
    try:
        found, tensors = ctrnn.load(model, known), load_file(data)
    except (OSError, ValueError, SafetensorError) as error:
        raise UsageError(str(error)) from None
    if "xs" not in tensors or not tensors.keys() <= set(NAMES):
        raise UsageError(
            f"{data} must hold `xs` (time, batch, input), and perhaps {', '.join(NAMES[1:])}, as a discretize.sequences.Batch "
            f"has them; it holds {', '.join(tensors) or 'nothing'}."
        )
    targets = tensors.get("targets")
    name = "" if targets is None else "mean squared error" if targets.is_floating_point() else "accuracy"
    parts: dict[str, Any] = dict(tensors)
    _write(found, Batch(**parts), None, name, model.name, data.name, out, command)


def _write(
    model: nn.Module,
    batch: Batch,
    metric: Callable[..., Any] | None,
    name: str,
    what: str,
    credit: str,
    out: Path,
    command: str,
    integrator: str = "",
    guess: float | None = None,
) -> None:
    ready_folder(out)
    start = perf_counter()
    with progress("the same weights at shorter steps, under others, and solved"), torch.random.fork_rng(()):
        torch.manual_seed(0)  # from which noise has its keys: the same page again
        try:
            report = breakdown(model, batch, metric=metric, steps=STEPS)
        except (TypeError, ValueError, SolverError) as error:
            raise UsageError(str(error)) from None
    took = perf_counter() - start
    say(f"{report}\n")
    # At the prompt steps have names; of a model that was trained elsewhere nothing is typed.
    to_type = ""
    if integrator and (cure := report.cure) is not None and report.verdict != VERDICTS[0]:
        to_type = f"--integrator {cure.step if cure.step in INTEGRATORS else integrator} --set substeps={cure.substeps}"
        say(f"ctrnn train with {to_type} does so.\n")
    learned = ""
    if guess is not None and report.refinement.metrics is not None:
        score = report.refinement.metrics[0]
        if not (score < guess if name == "loss" else score > guess):
            learned = (
                f"The {name} of {score:.4g} is no better than that of a guess without memory, {guess:.4g}: these weights have "
                "learned little that a step could change."
            )
            say(f"{learned}\n")
    section = _section(report, name, what, to_type, learned)
    files = {
        "breakdown.txt": f"{report}\n",
        "steps.csv": pd.DataFrame([vars(other) for other in report.others]).to_csv(index=False, lineterminator="\n"),
        "sequences.csv": pd.DataFrame(_by_sequence(report)).to_csv(index_label="sequence", lineterminator="\n"),
        "breakdown.svg": with_colours(section.svgs[0]),
    }
    made = facts(command, credit, {"looking": took}, PACKAGES)
    files["index.html"] = page([section], made, "breakdown/trained_page.html.jinja")
    write_files(out, files)
    say(f"{out / 'index.html'}, in {took:.0f} s")


def _by_sequence(found: Breakdown) -> dict[str, list[Any]]:
    """Return the columns of what is known of each sequence."""
    scores, size = found.scores, len(found.by_sequence)
    columns: dict[str, list[Any]] = {"states_apart": found.by_sequence.tolist()}
    known = {"answers_changed": scores.changed, "score_stepped": scores.stepped, "score_solved": scores.exact}
    columns |= {name: values.tolist() for name, values in known.items() if values is not None}
    for name, fates in zip(("held_stepped", "held_solved"), found.held or (), strict=False):
        columns[name] = [*fates, *[""] * (size - len(fates))]
    return columns


def _section(found: Breakdown, name: str, what: str, to_type: str, learned: str) -> Section:
    scored = found.refinement.metrics is not None
    rows: list[list[Any]] = []
    for other in found.others:
        share = "refused" if other.refused else f"{other.share:.2%}" if other.share < float("inf") else "diverges"
        rows.append(
            [other.step, other.substeps, other.evaluations, share, *([f"{other.score:.4g}"] if other.score is not None else [])]
        )
    columns = _by_sequence(found)
    furthest = sorted(range(len(found.by_sequence)), key=lambda k: -columns["states_apart"][k])
    changed = columns.get("answers_changed")
    if changed is not None:  # first those that answer otherwise
        furthest.sort(key=lambda k: not changed[k] > 0)
    sequences = [[k, *(format(values[k], COLUMNS[each][1]) for each, values in columns.items())] for k in furthest[:SHOWN]]
    # One panel below the other, in the colours that the page puts in place of these.
    figure = drawn(found, {name: placeholder for name, (placeholder, *_) in COLOURS.items()}, "none", 1)
    head = ["Step", "Substeps", "Evaluations", "States apart", *([name] if scored else [])]
    return Section.from_template(
        "breakdown/trained.html.jinja",
        "trained",
        {"trained": figure},
        found=found,
        rows=rows,
        head=head,
        what=what,
        to_type=to_type,
        learned=learned,
        sequences=sequences,
        sequences_head=["Sequence", *(COLUMNS[each][0].format(name) for each in columns)],
    )
