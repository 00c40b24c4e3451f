r"""Recall without warping: the ground on which every warped comparison stands, and the smallest example of a study.

    input   A C B A ..        output   - A C B ..        nine characters, neighbours differ

What fails here would fail on every clock, and no failure on a warped sequence would say anything about warps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from experiments.models.fields import FieldSettings
from experiments.runs.configuration import Configuration, TrainingSettings
from experiments.studies.records import NotEnoughError, Record, Spread, grouped, markdown, spreads
from experiments.studies.study import Run, Study, Verdict, Word
from experiments.tasks.recall import Recall

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Unwarped"]

MODELS = ("plain", "leaky", "gated")
SUCCESS = 0.99  # of the answers on held-out sequences
# hidden units, length, rate, steps, steps between evaluations, held-out sequences, seeds, fixed batches
SIZES = {
    "smoke": (32, 50, 5e-3, 200, 100, 64, 1, None),
    "small": (64, 200, 1e-3, 500, 100, 256, 3, None),
    "paper": (64, 500, 1e-3, 4689, 100, 1000, 5, 1563),
}


class Unwarped(Study):
    """Plain, leaky and gated networks on recall at warp 1; success is an accuracy of at least 0.99 in every run."""

    name = "unwarped"
    question = "Do plain, leaky and gated networks all recall the character before when nothing is warped?"
    claim = (
        "Without time warping or padding, this is an extremely easy task and all recurrent architectures are successful. "
        "The only difficulty will come from warping."
    )
    source = "C. Tallec and Y. Ollivier, Can recurrent neural networks warp time?, ICLR 2018, sec. 3."
    resolutions = (
        "Success is not defined: here it is an accuracy of at least 0.99 on held-out sequences, in every run.",
        "The first rate is not given: 1e-3 (smoke: 5e-3), with RMSprop at 0.9 and halving when an evaluation is no new lowest.",
        "The sizes are those of figure 1: 64 units, sequences of length 500, batches of 32, three passes through 50,000 "
        "sequences, five runs. Smaller scales take shorter sequences, fresh ones at every step, and fewer of everything.",
        "Leaky units have alpha = sigma(a) each, from 0.5; gates start at torch's own weights.",
    )
    minutes: ClassVar = {"smoke": 0.3, "small": 1, "paper": 30}
    captions: ClassVar = {
        "accuracy": "Held-out accuracy at warp 1: the mean over seeds, and a bar from the least to the largest."
    }

    def runs(self, scale: str) -> list[Run]:
        hidden, length, rate, steps, every, held_out, seeds, batches = SIZES[scale]
        return [
            Run(
                f"{model}-{seed}",
                Configuration(
                    Recall(warping="uniform", warp=1, length=length),
                    model,
                    "euler",
                    FieldSettings(hidden=hidden, alpha=0.5),
                    training=TrainingSettings(
                        steps=steps,
                        seed=seed,
                        rate=rate,
                        schedule="plateau",
                        evaluate_every=every,
                        evaluation=held_out,
                        batches=batches,
                        threads=1,  # with as many always, the bits are the same however the cores are shared out
                    ),
                ),
            )
            for seed in range(seeds)
            for model in MODELS
        ]

    def verdict(self, records: Sequence[Record]) -> Verdict:
        found = self._spreads(records, "accuracy")
        absent = [model for model in MODELS if model not in found]
        if absent:
            raise NotEnoughError(f"no run of {', '.join(absent)} is done yet")
        successful = [model for model in MODELS if found[model].low >= SUCCESS]
        word: Word = "reproduced" if len(successful) == len(MODELS) else "partly" if successful else "not"
        told = ", ".join(f"{model} {found[model]}" for model in MODELS)
        sentence = f"{len(successful)} of {len(MODELS)} architectures reach an accuracy of {SUCCESS} in every run: {told}."
        return Verdict(word, sentence, {f"accuracy, {model}": str(found[model]) for model in MODELS})

    def table(self, records: Sequence[Record]) -> str:
        accuracies, losses = self._spreads(records, "accuracy"), self._spreads(records, "loss")
        rows = [(model, accuracies[model], losses[model], accuracies[model].count) for model in accuracies]
        lengths = ", ".join(str(length) for (length,) in grouped(records, "task_settings.length"))
        return f"Recall at warp 1, length {lengths}; mean (least–largest) over seeds.\n\n" + markdown(
            ("model", "accuracy", "loss, nats", "runs"), rows
        )

    def figures(self, records: Sequence[Record]) -> dict[str, Figure]:
        from experiments.reports.bands import dots  # noqa: PLC0415

        found = self._spreads(records, "accuracy")
        least = min(model.low for model in found.values())
        rows = {model: {"": found[model]} for model in found}
        return {"accuracy": dots(rows, "accuracy", x_limits=(min(0.95, least - 0.02), 1.002))}

    @staticmethod
    def _spreads(records: Sequence[Record], measure: str) -> dict[str, Spread]:
        return {model: found for (model,), found in spreads(records, ["field"], measure).items()}
