r"""Clocks that compress time: where the Taylor step of a gated model breaks, and what is left of the exact one.

    dh/dt = g(x, h) (f(x, h) - h)       a symbol takes tau units of own time; at clock c it is held for 16 / c samples
    pace    c' g                        c' = tau c / 16 units of own time a sample, where the model is told the clock
            g                           c' = 1, where it is not

Trained on slow clocks and tested on fast ones, and the other way round; by the Taylor step, by exponential Euler and exactly; and
every model is then run in all three ways on the same weights. A sigmoid gate's weights are also run on the softplus clock:

    1 - e^-softplus(z) = sigma(z)       the same cell where a sample takes one unit, another one everywhere else
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

import ctrnn
from experiments.models.fields import FieldSettings
from experiments.models.integrators import EXACT, IntegratorSettings
from experiments.models.sequence_model import SequenceModel
from experiments.runs.configuration import Configuration, TrainingSettings
from experiments.runs.stopping import StoppedError
from experiments.seeds import generator
from experiments.studies.clock_findings import (
    KEPT,
    LOST,
    RATES,
    TRAINED,
    WAYS,
    able_paces,
    accuracy_table,
    breaking,
    breaking_words,
    diverged_step,
    exponential_words,
    invariance,
    kind_of,
    median_of,
    moved_numbers,
    pace_table,
    panels_of,
    place_of,
    rows_of,
    span,
    untold_words,
)
from experiments.studies.records import NotEnoughError, Record, number
from experiments.studies.rollout import Rollout, passed, right
from experiments.studies.study import Carried, Run, Study, Verdict, Word
from experiments.tasks.clocked import ClockedRecall
from experiments.tasks.task import Batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FINE", "Compressed", "carried_or_diverged", "moved"]

CLOCKS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
FINE = IntegratorSettings(rtol=1e-5, atol=1e-7)  # so that what is left between clocks is not the solver's


@dataclass(frozen=True)
class _Size:
    hidden: int
    characters: int
    steps: int
    rate: float
    sequences: int  # in an evaluation, and on every clock
    seeds: int
    told: Mapping[str, tuple[str, ...]]  # rate -> trained on
    untold: Mapping[str, tuple[str, ...]]
    integrators: tuple[str, ...] = ("euler", "exponential-euler", EXACT)


BOTH, ALL = ("slow", "fast"), ("slow", "unit", "fast")
SIZES = {
    "smoke": _Size(12, 4, 12, 4e-3, 16, 1, {"sigmoid": BOTH}, {"sigmoid": ("fast",)}, ("euler", EXACT)),
    "small": _Size(
        48, 10, 400, 4e-3, 128, 1,
        dict.fromkeys(RATES, ALL), dict.fromkeys(("sigmoid", "softplus"), BOTH),
    ),
    "paper": _Size(
        128, 20, 2000, 2e-3, 512, 5,
        dict.fromkeys(RATES, ALL), dict.fromkeys(RATES, BOTH),
    ),
}  # fmt: skip


class Compressed(Study):
    """Gated models trained on slow and on fast clocks, run on all of them, in three ways on the same weights."""

    name = "compressed"
    question = "What is left of a gated model on clocks that compress time, by its Taylor step and by its differential equation?"
    claim = (
        "So discrete-time gated models are invariant to time warpings that stretch time (such as interspersing the data with "
        "blanks or having long-term dependencies), but obviously not to those that make things happen too fast for the model."
    )
    source = "C. Tallec and Y. Ollivier, Can recurrent neural networks warp time?, ICLR 2018, sec. 1; the experiment is ours."
    resolutions = (
        "The paper has no such experiment. Here a symbol is held for 16 / c samples at clock c: 64 at c = 1/4, one at c = 16; "
        "what is to be said is the symbol before, as in the paper's warped recall.",
        "Told: a sample takes c' = 4 c / 16 units of own time, so that a symbol takes 4 on every clock, and the last sample of "
        "each symbol counts: the same moments of own time. Untold: every sample takes one unit and counts.",
        "Slow is c = 1/2 and 1, unit is c = 4, where a told sample takes one unit, as every cell is used, fast is c = 8 and 16.",
        "Accuracy is that at the last sample of each symbol, the first of a sequence left out, which has none before it. "
        "What is not finite is wrong. An accuracy of at least 0.9 is kept, one of at most 0.5 is lost.",
        "Adam, the norm of the gradient at most 1, weights as torch draws them; exact models are trained at relative tolerance "
        "1e-3 and run at 1e-5.",
    )
    minutes: ClassVar = {"smoke": 0.4, "small": 6, "paper": 2400}
    captions: ClassVar = {
        "told-sigmoid": "Sigmoid gates, told the clock: accuracy over clocks c, weights trained in one way (rows) on shaded "
        "clocks and run in three. The dashed line is what is said without memory.",
        "told-softplus": "The same with rates softplus(z), which have no largest one.",
        "untold-sigmoid": "Sigmoid gates that are not told the clock.",
        "pace": "All weights, told the clock, that run exactly keep 0.9 on every clock: accuracy on each clock against the "
        "largest c′ g of the exact run there. Dashed: 1 and 2, where a Taylor step begins to overshoot and to diverge.",
    }

    def runs(self, scale: str) -> list[Run]:
        size = SIZES[scale]
        asked = [
            (rate, integrator, on, told)
            for told, clocks in ((True, size.told), (False, size.untold))
            for rate, ons in clocks.items()
            for on in ons
            for integrator in size.integrators
        ]
        return [_run(size, *one, seed) for seed in range(size.seeds) for one in asked]

    def measure(self, run: Run, model: SequenceModel) -> list[dict[str, Any]]:
        task, training = run.configuration.task, run.configuration.training
        assert isinstance(task, ClockedRecall)
        sequences, seed = training.evaluation, training.seed
        # From the same generator, so of the same symbols.
        batches = {clock: task.at(clock, "all").batch(sequences, generator(seed, "clocks"), "test") for clock in CLOCKS}
        ways = moved(model)
        reference = passed(ways[EXACT], batches[1.0], task.own_time(1.0))
        return [
            {"as": name, "clock": clock, **_row(task, clock, batch, passed(way, batch, task.own_time(clock)), reference)}
            for name, way in ways.items()
            for clock, batch in batches.items()
        ]

    def carry_out(self, run: Run, folder: Path, progress: Callable[..., None] | None = None) -> Carried:
        return carried_or_diverged(lambda: super(Compressed, self).carry_out(run, folder, progress))

    def headline(self, record: Record) -> str:
        stopped = diverged_step(record)
        return super().headline(record) if stopped is None else f"training diverged at step {stopped}"

    def verdict(self, records: Sequence[Record]) -> Verdict:
        rows = rows_of(records)
        told = [row for row in rows if row["told"]]
        ours = [row for row in told if (row["trained"], row["on"], row["as"]) == (EXACT, "slow", EXACT)]
        theirs = [row for row in told if (row["trained"], row["on"], row["as"]) == ("euler", "slow", "euler")]
        if not ours or not theirs:
            raise NotEnoughError("a model trained by Euler steps and one trained exactly, on slow clocks, are needed.")
        if not any(row["accuracy"] >= KEPT for row in [*ours, *theirs] if row["clock"] in TRAINED["slow"]):
            best = max(row["accuracy"] for row in [*ours, *theirs])
            raise NotEnoughError(f"no model has learned the task (the best accuracy is {number(best)}); a larger scale decides.")
        slow, fastest = [row for row in theirs if row["clock"] <= 1], max(row["clock"] for row in theirs)
        change, states = invariance(told)
        keeps = min(row["accuracy"] for row in ours) >= KEPT and change <= 0.02
        stretches = min(row["accuracy"] for row in slow) >= KEPT
        loses = max(row["accuracy"] for row in theirs if row["clock"] == fastest) <= LOST
        word: Word = "reproduced" if keeps and stretches and loses else "partly" if loses and (keeps or stretches) else "not"
        held, lost = breaking(told)
        moved_exactly = [row for row in told if (row["trained"], row["on"], row["as"]) == ("euler", "slow", EXACT)]
        told_words = (
            f"Told the clock, a model trained exactly on slow clocks and run exactly has an accuracy of {span(ours)} on every "
            f"clock; trained and run by Taylor steps it has {span(slow)} where time is stretched and "
            f"{span(row for row in theirs if row['clock'] == fastest)} at c = {fastest:g}, "
        )
        sentence = (
            f"{told_words}and the same weights run exactly {span(moved_exactly)} on every clock; {exponential_words(told)}"
            f"{breaking_words(held, lost)}"
            f"Whatever weights are run exactly, their accuracy differs between clocks by at most {number(change)}. "
            f"{untold_words(rows)}"
        )
        numbers = {
            "exact, told: largest difference of accuracy between clocks": change,
            "exact, told: largest difference of a state between clocks": states,
            "Taylor steps, told: c′g on the fastest clock with an accuracy of 0.9, median of models": median_of(held),
            "Taylor steps, told: c′g on the first faster one with at most 0.5": median_of(lost),
            **moved_numbers(told),
            "trainings that diverged": sum(diverged_step(record) is not None for record in records),
        }
        return Verdict(word, sentence.strip(), numbers)

    def table(self, records: Sequence[Record]) -> str:
        rows = rows_of(records)
        parts = []
        for told, words in ((True, "Told the clock"), (False, "Not told the clock")):
            mine = [row for row in rows if row["told"] is told]
            if mine:
                clocks = sorted({row["clock"] for row in mine})
                parts += [f"{words}: accuracy at the last sample of each symbol; × where numbers were no longer finite.", ""]
                parts += [accuracy_table(mine, clocks), ""]
        paces = [row for row in rows if row["told"] and row["as"] == row["trained"]]
        if paces:
            clocks = sorted({row["clock"] for row in paces})
            parts += ["Told the clock, run as trained: largest pace c′g met, and the median.", "", pace_table(paces, clocks), ""]
        parts += [
            f"{record['key']}: training diverged at step {diverged_step(record)}."
            for record in records
            if diverged_step(record) is not None
        ]
        return "\n".join(parts).strip()

    def figures(self, records: Sequence[Record]) -> dict[str, Figure]:
        from experiments.studies.clock_figures import accuracy_over_clocks, accuracy_over_paces  # noqa: PLC0415

        rows = rows_of(records)
        asked = {"told-sigmoid": (True, "sigmoid"), "told-softplus": (True, "softplus"), "untold-sigmoid": (False, "sigmoid")}
        drawn = {}
        for name, (told, rate) in asked.items():
            panels = panels_of([row for row in rows if row["told"] is told and row["rate"] == rate])
            if panels:
                label = "speed c of the clock: a symbol is held for 16 / c samples"
                shaded = {f"on {on} clocks": clocks for on, clocks in TRAINED.items()}
                diverged = [kind_of(record) for record in records if diverged_step(record) is not None]
                empty = [place_of(one) for one in diverged if (one["told"], one["rate"]) == (told, rate)]
                drawn[name] = accuracy_over_clocks(panels, label, shaded, 1 / 9, dict.fromkeys(empty, "training diverged"))
        paces = able_paces([row for row in rows if row["told"]])
        marks = {
            way: [
                (paces[place], row["accuracy"])
                for row in rows
                if row["as"] == way and (place := (row["key"], row["clock"])) in paces
            ]
            for way in WAYS
            if way != "softplus-clock"
        }
        if any(marks.values()):
            drawn["pace"] = accuracy_over_paces(marks, "largest c′ g of the exact run: own time × rate")
        return drawn


def moved(model: SequenceModel) -> dict[str, SequenceModel]:
    """The same weights under every integrator, and on the softplus clock where the gate is a sigmoid."""
    ways = {name: model.under(name, FINE) for name in ("euler", "exponential-euler", EXACT)}
    field = model.field
    if isinstance(field, ctrnn.Relaxation) and type(field.rate) is ctrnn.GateRate:
        from discretize import DiscreteRNN, ExponentialEuler  # noqa: PLC0415

        on_softplus = model.under("exponential-euler", FINE)
        on_softplus.rnn = DiscreteRNN(ctrnn.softplus_clock(field), step=ExponentialEuler())
        ways["softplus-clock"] = on_softplus
    return ways


def carried_or_diverged(carry_out: Callable[[], Carried]) -> Carried:
    """What a training gave; of one whose numbers ran away, the step at which they did: that is a finding, not a failure."""
    begin = time.perf_counter()
    try:
        return carry_out()
    except StoppedError as error:
        if error.status != "diverged":
            raise
        return Carried({}, [{"diverged": error.step}], time.perf_counter() - begin)


def _run(size: _Size, rate: str, integrator: str, on: str, told: bool, seed: int) -> Run:
    key = f"{'told' if told else 'untold'}-{rate}-{integrator}-{on}-{seed}"
    task = ClockedRecall(TRAINED[on], clock_given=told, counted="last" if told else "all", characters=size.characters)
    training = TrainingSettings(
        steps=size.steps, seed=seed, optimizer="adam", rate=size.rate, clip=1.0, evaluate_every=size.steps,
        evaluation=size.sequences, checkpoint_every=size.steps,
    )  # fmt: skip
    return Run(key, Configuration(task, RATES[rate], integrator, FieldSettings(size.hidden), training=training))


def _row(task: ClockedRecall, clock: float, batch: Batch, found: Rollout | None, reference: Rollout | None) -> dict[str, Any]:
    """What one way of running gave on one clock; beyond its first symbol, which has none before it."""
    if found is None:
        return {"finite": False, "accuracy": 0.0, "accuracy_all": 0.0, **dict.fromkeys(("loss", "largest", "median", "states"))}
    held = task.held(clock)
    ends = slice(2 * held - 1, None, held)
    answers = right(found.outputs, batch.targets).float()
    loss = torch.nn.functional.cross_entropy(found.outputs[ends].flatten(0, 1), batch.targets[ends].flatten())
    apart = None
    if reference is not None and task.clock_given:
        every = task.held(1.0)
        apart = _finite(found.states[held - 1 :: held] - reference.states[every - 1 :: every])
    return {
        "finite": found.finite,
        "accuracy": float(answers[ends].mean()),
        "accuracy_all": float(answers[held:].mean()),
        "loss": float(loss) if bool(loss.isfinite()) else None,
        "largest": _finite(found.paces),
        "median": float(found.paces.nanmedian()) if found.finite else None,
        "states": apart,
    }


def _finite(values: torch.Tensor) -> float | None:
    """The largest absolute value; None where there is none, or where it is more than float32 holds."""
    largest = float(values.abs().max())
    return largest if largest < float("inf") else None
