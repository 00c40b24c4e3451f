r"""Figure 5 of Tallec and Ollivier 2018: trained on warps up to w, tested on slower clocks, up to ten times slower.

    trained    warps 1 .. w
    tested     warps 2w .. M for M = 2w .. 10w, on sequences of length 10 M, so that each has ten symbols at least
    accuracy   of the answers after the first run, which is said without having seen anything; guessing is right in 1/8

The caption says uniform warps, the text a variable warping task. Both readings are tried:

    a warp for each sequence    uniform on 1 .. w, the same all along
    a warp for each symbol      uniform on 1 .. w
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from experiments.studies.records import NotEnoughError, Record, Spread, grouped, markdown, number, spread
from experiments.studies.study import Run, Study, Verdict
from experiments.studies.tallec import MODELS, PAPER, STEPS, TRAINING_SET, Part, judged, trained
from experiments.tasks.any_warp import AnyWarp

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.models.sequence_model import SequenceModel

__all__ = ["TallecFigure5", "tests"]

READINGS = {"sequence": "a warp for each sequence", "symbol": "a warp for each symbol"}
SYMBOLS = 10  # at least, in a test's sequence
TIMES = (2, 3, 4, 5, 6, 7, 8, 9, 10)  # the slowest test in multiples of the slowest clock in training; 2 is also the fastest
PERFECT, DECENT, PLAINS = 0.95, 0.65, 0.8
Accuracies = Mapping[str, Mapping[str, Mapping[int, Spread]]]  # reading -> model -> times as slow (1: as in training)


class Sizes(NamedTuple):
    """How much of everything; `batches` None: fresh sequences at every step."""

    hidden: int
    length: int
    warp: int
    rate: float
    steps: int
    every: int
    held_out: int
    seeds: int
    batches: int | None


SCALES = {
    "smoke": Sizes(16, 24, 2, 1e-2, 10, 5, 16, 1, None),
    "small": Sizes(64, 200, 30, 3e-3, 1500, 100, 256, 3, None),
    "paper": Sizes(64, 500, 50, 1e-3, STEPS, 100, 1000, 5, TRAINING_SET),
}


def tests(trained: AnyWarp) -> list[tuple[int, AnyWarp]]:
    """How many times as slow, and the task; 1 is the range of the training."""
    w = trained.warp
    ranges = [(1, 1, w), *((k, TIMES[0] * w, k * w) for k in TIMES)]
    return [
        (k, replace(trained, least=least, warp=most, length=max(trained.length, SYMBOLS * most), first=False))
        for k, least, most in ranges
    ]


class TallecFigure5(Study):
    """Plain, leaky and gated networks on clocks slower than any they were trained on."""

    name = "tallec-fig5"
    question = "How far beyond the clocks of its training does a network still recall the character before?"
    claim = (
        "All networks display reasonably good, but not perfect, generalization. Even with warps 10 times longer than the "
        "training set warps, the networks still have decent accuracy, decreasing from 100% to around 75%. [...] overall, gated "
        "RNNs perform better but their generalization performance decreases faster with warps eight to ten times longer than "
        "those seen during training, while plain RNN never have perfect accuracy, below 80% even within the training set "
        "range, but have a flatter performance when going beyond the training set warp range."
    )
    source = f"{PAPER}, app. A and fig. 5."
    resolutions = (
        "Trained on uniform warps between 1 and 50, says the caption; on a variable warping task, says the text. Both: a warp "
        "drawn for each sequence, and one for each symbol. The verdict is on the first, which the figure is said to show.",
        "The length of the tests is not given: ten times the slowest warp, so that at least ten symbols are heard. Accuracy is "
        "without the first run, for which there is nothing to remember.",
        "Up to which warp is not given: from twice to ten times the slowest one of the training, 100 to 500.",
        "The number of runs is not given: five. Everything else is as in figure 1, also what its text leaves open.",
        f"“100%” is at least {PERFECT}, “around 75%” and “decent” at least {DECENT}; “flatter” and “faster” compare what is lost "
        "from the training range to warps ten times longer.",
        "At smaller scales sequences are shorter and fresh at every step, and the slowest warp of the training is 30.",
    )
    minutes: ClassVar = {"smoke": 0.3, "small": 3, "paper": 60}
    captions: ClassVar = {
        "accuracies": "Accuracy on clocks up to so many times slower than the slowest of the training (1: as in training): the "
        "mean over runs, and a band from least to largest. Flat is a network that does not care how slow it is played."
    }

    def runs(self, scale: str) -> list[Run]:
        sizes = SCALES[scale]
        return [
            Run(
                f"{per}-{model}-{seed}",
                trained(
                    AnyWarp(warp=sizes.warp, length=sizes.length, per=per),  # type: ignore[arg-type]
                    model,
                    sizes.warp,
                    sizes,
                    seed,
                ),
            )
            for seed in range(sizes.seeds)
            for per in READINGS
            for model in MODELS
        ]

    def measure(self, run: Run, model: SequenceModel) -> list[dict[str, Any]]:
        """A row a test."""
        from experiments.runs.training import evaluate  # noqa: PLC0415

        task, settings = run.configuration.task, run.configuration.training
        if not isinstance(task, AnyWarp):
            raise TypeError(f"run {run.key} is of {type(task).__name__}, not of recall at any warp.")
        return [
            {
                "times": times,
                "least": slower.least,
                "warp": slower.warp,
                "length": slower.length,
                "memoryless": slower.baseline_accuracies()["memoryless"],
                **evaluate(model, slower, "test", settings.evaluation, settings.seed, settings.batch),
            }
            for times, slower in tests(task)
        ]

    def verdict(self, records: Sequence[Record]) -> Verdict:
        found = self._accuracies(records)["sequence"]
        absent = [model for model in MODELS if not found[model]]
        if absent:
            raise NotEnoughError(f"no run of {', '.join(absent)} with a warp for each sequence is done yet")
        longest = TIMES[-1]
        inside, beyond = ({model: found[model][k] for model in MODELS} for k in (1, longest))
        lost = {model: inside[model].mean - beyond[model].mean for model in MODELS}
        late = {model: found[model][longest - 3].mean - beyond[model].mean for model in MODELS}
        told = {k: ", ".join(f"{model} {of[model]}" for model in MODELS) for k, of in ((1, inside), (longest, beyond))}
        parts = [
            Part(
                f"at warps {longest} times longer accuracies are decent",
                all(beyond[model].mean >= DECENT for model in MODELS),
                told[longest],
            ),
            Part(
                "gated and leaky are perfect within the range of the training, plain is not",
                all(inside[model].mean >= PERFECT for model in ("leaky", "gated")) and inside["plain"].mean < PLAINS,
                told[1],
            ),
            Part(
                "gated is better than plain all along",
                all(found["gated"][k].mean > found["plain"][k].mean for k in (1, *TIMES)),
                f"in {sum(found['gated'][k].mean > found['plain'][k].mean for k in (1, *TIMES))} of {len(TIMES) + 1} tests",
            ),
            Part(
                "plain is flatter, and gated loses more at seven to ten times",
                lost["plain"] < lost["gated"] and late["plain"] < late["gated"],
                f"plain loses {number(lost['plain'])}, gated {number(lost['gated'])}; "
                f"from seven times on {number(late['plain'])} and {number(late['gated'])}",
            ),
        ]
        numbers = {f"accuracy, {model}, {k} times": str(found[model][k]) for model in MODELS for k in (1, TIMES[0], longest)}
        return judged(parts, numbers)

    def table(self, records: Sequence[Record]) -> str:
        accuracies = self._accuracies(records)
        ranges = {row["times"]: (row["least"], row["warp"]) for record in records for row in record["rows"]}
        rows = [
            (READINGS[per], f"{least}–{most}", *(models[model].get(times) for model in MODELS))
            for per, models in accuracies.items()
            if any(models.values())
            for times, (least, most) in sorted(ranges.items())
        ]
        lengths = ", ".join(str(length) for (length,) in grouped(records, "task_settings.length"))
        return f"Accuracy; mean (least–largest) over runs, trained on length {lengths}. Guessing has 0.125.\n\n" + markdown(
            ("trained and tested on", "warps of the test", *MODELS), rows
        )

    def figures(self, records: Sequence[Record]) -> dict[str, Figure]:
        from experiments.reports.bands import bands  # noqa: PLC0415

        panels = {
            READINGS[per]: {
                model: {float(k): value for k, value in by_times.items()} for model, by_times in models.items() if by_times
            }
            for per, models in self._accuracies(records).items()
        }
        label = "slowest warp of the test, over that of the training"
        return {"accuracies": bands(panels, label, "accuracy", y_limits=(0.0, 1.04), levels={"guess": 1 / 8})}

    def headline(self, record: Record) -> str:
        first, last = record["rows"][0], record["rows"][-1]
        return f"accuracy {number(first['accuracy'])} as in training, {number(last['accuracy'])} at {last['times']} times slower"

    @staticmethod
    def _accuracies(records: Sequence[Record]) -> Accuracies:
        found: dict[str, dict[str, dict[int, Spread]]] = {per: {model: {} for model in MODELS} for per in READINGS}
        for (per, model), same in grouped(records, "task_settings.per", "field").items():
            rows = [row for record in same for row in record["rows"]]
            for times in sorted({row["times"] for row in rows}):
                found[per][model][times] = spread(row["accuracy"] for row in rows if row["times"] == times)
        return found
