r"""Trains recall without warping: every network solves it, so failures on warped sequences are due to warping.

input   A C B A ..        output   - A C B ..        nine characters, neighbours differ
"""

from __future__ import annotations

from typing import ClassVar

from experiments.reports.spreads import NotEnoughError
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.studies.claims.training import MODELS
from experiments.studies.results import Results, spreads
from experiments.studies.specs import Dots, Table
from experiments.studies.study import Point, Sizes, Study, grid, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict

__all__ = ["Unwarped"]

SUCCESS = 0.99  # of the answers on held-out sequences


class Unwarped(Study):
    """Trains plain, leaky and gated networks on recall at warp 1; success is an accuracy of at least 0.99 in every run."""

    name = "unwarped"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.3, "small": 1, "paper": 30}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=32, length=50, rate=5e-3, steps=200, evaluation=64, seeds=1, batches=None),
        "small": Sizes(hidden=64, length=200, rate=1e-3, steps=500, evaluation=256, seeds=3, batches=None),
        "paper": Sizes(hidden=64, length=500, rate=1e-3, steps=4689, evaluation=1000, seeds=5, batches=1563),
    }
    tables = (
        Table(
            "Recall at warp 1, length {length}; mean (least–largest) over seeds.",
            by={"model": "model"},
            columns={"accuracy": "accuracy", "loss, nats": "loss", "runs": len},
        ),
    )
    figures: ClassVar = {
        "accuracy": Dots(
            "Held-out accuracy at warp 1: the mean over seeds, and a bar from the least to the largest.",
            "accuracy",
            "model",
            "accuracy",
            x_limits=lambda least: (min(0.95, least - 0.02), 1.002),
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        return grid(seed=range(sizes.seeds), model=MODELS)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        return shared_configuration(
            task="recall",
            warping="uniform",
            warp=1,
            length=sizes.length,
            field=point["model"],
            integrator="euler",
            hidden=sizes.hidden,
            alpha=0.5,
            seed=point["seed"],
            steps=sizes.steps,
            rate=sizes.rate,
            batches=sizes.batches,
            schedule="plateau",
            evaluate_every=100,
            evaluation=sizes.evaluation,
            threads=1,  # with as many always, the bits are the same however the cores are shared out
        )

    def verdict(self, results: Results) -> ClaimVerdict:
        found = spreads(results.runs, "model", "accuracy")
        if absent := [model for model in MODELS if model not in found]:
            raise NotEnoughError(f"no run of {', '.join(absent)} is done yet")
        parts = [ClaimPart(f"{model} is successful", found[model].low >= SUCCESS, str(found[model])) for model in MODELS]
        summary = (
            f"{sum(part.holds is True for part in parts)} of {len(MODELS)} architectures reach an accuracy of {SUCCESS} in "
            f"every run: {', '.join(f'{model} {found[model]}' for model in MODELS)}."
        )
        return ClaimVerdict(parts, {f"accuracy, {model}": str(found[model]) for model in MODELS}, summary)
