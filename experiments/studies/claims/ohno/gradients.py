r"""Repeats figures 1 and 4 of Ohno and Kumagai 2021: how far back the gradient of the loss reaches, epoch by epoch.

norm       of dL/dx_t for each sample t, over 100 test sequences; its law, from the last sample back
large      samples at which its geometric mean is a tenth of the largest or more, as a part of all

LSTM on images and recordings, leaky units (r = 0) and slow forgetting (r = 2) on recordings
"""

from __future__ import annotations

import copy
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import discretize
from ctrnn.storage.files import write_atomically
from discretize import SequenceModel
from experiments.reports.spreads import NotEnoughError, spread
from experiments.runs.configuration import Configuration, configuration
from experiments.seeds import generator
from experiments.studies.claims.ohno.har import EPOCH, HAR, OHNO, T
from experiments.studies.claims.ohno.pixels import EPOCH as EPOCH_OF_IMAGES
from experiments.studies.claims.ohno.pixels import MNIST
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Bands, Table, across, in_order, run_count
from experiments.studies.study import Measured, Point, Row, Run, Sizes, Study, data_path, grid, scales, words_beside
from experiments.studies.verdicts import Part, Verdict, compared

__all__ = ["OhnoGradients", "reach"]

IMAGES, LSTM, LEAKY, SLOW = "lstm-images", "lstm", {c: f"r0-c{c}" for c in (5, 25)}, {c: f"r2-c{c}" for c in (5, 25)}
RECORDINGS = {
    LSTM: "LSTM, recordings",
    **{name: f"r = 0, c = {c}" for c, name in LEAKY.items()},
    **{name: f"r = 2, c = {c}" for c, name in SLOW.items()},
}
MODELS = {IMAGES: "LSTM, images", **RECORDINGS}
SEQUENCES = 100
LARGE = 0.1  # of the largest norm
COUNTS, TEN = 0.1, 1.0  # the least that counts: of all samples, powers of ten
EPOCHS = (1, 5, 10, 30, 60, 100, 200)  # after which a run is measured, and before the first
EARLY = (0, 1, 10, 60)  # of these are compared: figure 4 has ours ahead up to about 60


def reach(norms: Tensor) -> Row:
    """Measure how norms of dL/dx_t fall from the last sample back: (time, sequences), in double precision."""
    mean = norms.log().mean(1)
    law = discretize.decay_law(norms.flip(0))
    return {
        "large": float((mean >= mean.max() + torch.tensor(LARGE).log()).double().mean()),
        "fall": float((mean[-len(mean) // 10 :].mean() - mean[: max(1, len(mean) // 10)].mean()) / torch.tensor(10.0).log()),
        "law": law.name,
        "bend": law.bend,
    }


class OhnoGradients(Study):
    """Trains an LSTM, leaky units and slow forgetting, and measures after how many epochs which samples matter."""

    name = "ohno-gradients"
    question, claim, source, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 45, "paper": 3000}
    sizes: ClassVar = scales(
        hidden=(4, 64, 64),
        side=(7, 14, 28),
        hidden_of_images=(4, 64, 128),
        epochs=(1, 60, 200),
        epochs_of_images=(1, 5, 200),
        seeds=(1, 5, 4),
        seeds_of_images=(1, 3, 4),
        held_out=(60, 3000, 10_000),
    )
    needs = (HAR, MNIST)
    tables = (
        Table(
            "The part of the samples at which dL/dx_t is a tenth of its largest or more, after so many epochs; mean "
            "(least–largest) over seeds.",
            by={"model": "model"},
            columns={**across("epoch", {f"epoch {k}" if k else "untrained": k for k in EARLY}, "large"), "runs": run_count},
            data=lambda results: where(results.rows, what="reach"),
            words=MODELS,
            sort=in_order(tuple(MODELS)),
        ),
        Table(
            "By how many powers of ten it falls from the last tenth of a sequence to the first, and which law it falls by in how "
            "many runs, untrained and at the end.",
            by={"model": "model"},
            columns={
                "untrained": lambda rows: _at(rows, 0, "fall"),
                "its law": lambda rows: _laws(rows, first=True),
                "trained": lambda rows: _at(rows, rows["epoch"].max(), "fall"),
                "law after it": lambda rows: _laws(rows, first=False),
                "epochs": lambda rows: int(rows["epoch"].max()),
            },
            data=lambda results: where(results.rows, what="reach"),
            words=MODELS,
            sort=in_order(tuple(MODELS)),
        ),
    )
    figures: ClassVar = {
        "norms": Bands(
            "Norm of dL/dx_t after so many epochs, the geometric mean over 100 test sequences, on recordings; a band over seeds. "
            "Exponentials are straight lines here.",
            x="t",
            y="norm",
            lines=("epoch", {k: f"epoch {k}" if k else "untrained" for k in EARLY}),
            panels=("model", RECORDINGS),
            y_log=True,
            x_label="t, samples",
            y_label="norm of dL/dx_t",
            data=lambda results: where(results.rows, what="norm"),
        )
    }

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the points, seed by seed; none of what there is no data for."""
        counts = {model: sizes.seeds_of_images if model == IMAGES else sizes.seeds for model in MODELS}
        there = [model for model in MODELS if data_path(MNIST if model == IMAGES else HAR) is not None]
        seeds = range(max(sizes.seeds, sizes.seeds_of_images))
        return [point for seed in seeds for point in grid(model=[m for m in there if seed < counts[m]], seed=[seed])]

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        model, images = point["model"], point["model"] == IMAGES
        epoch, epochs = (EPOCH_OF_IMAGES, sizes.epochs_of_images) if images else (EPOCH, sizes.epochs)
        task = {"task": "pixels", "data": str(data_path(MNIST)), "order": "rows", "side": sizes.side}
        if not images:
            task = {"task": "har", "data": str(data_path(HAR)), "classes": "fastgrnn"}
        network: dict[str, Any] = {"field": "lstm", "hidden": sizes.hidden_of_images if images else sizes.hidden}
        relaxing = {name: (r, c) for r, names in ((0.0, LEAKY), (2.0, SLOW)) for c, name in names.items()}
        if model in relaxing:
            network |= {**OHNO, "exponent": relaxing[model][0], "alpha": relaxing[model][1] / T}
        steps = epoch * epochs
        training = {"rate": 5e-3, "clip": 5.0, "batch": 100, "batches": epoch, "steps": steps, "evaluate_every": epoch}
        return configuration(
            **task, **network, **training, integrator="euler", seed=point["seed"], evaluation=sizes.held_out, threads=1
        )

    def carry_out(self, run: Run, folder: Path) -> Measured:
        """Train from one of the epochs to the next in the run's folder, and keep there what is measured at each.

        A signal may interrupt it at any time.
        """
        from experiments.runs.training import train  # noqa: PLC0415

        given, begun, before = run.configuration, time.perf_counter(), torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            epoch, rows = given.training.batches or 1, self._measured(given, given.untrained_model(), 0)
            for k in (k for k in EPOCHS if k * epoch <= given.training.steps):
                kept = folder / f"epoch-{k}.json"
                if not kept.exists():
                    stage = replace(given, training=replace(given.training, steps=k * epoch))
                    found = self._measured(given, train(stage, folder, resume=True).model, k)
                    write_atomically(kept, json.dumps(found))
                rows += json.loads(kept.read_text(encoding="utf-8"))
            outcome = train(given, folder, resume=True)
            return Measured(outcome.measures, rows, time.perf_counter() - begun)
        finally:
            torch.set_num_threads(before)

    def verdict(self, results: Results) -> Verdict:
        rows = where(results.rows, what="reach")
        found = groups(rows, "model")
        if missing := [model for model in RECORDINGS if model not in found]:
            raise NotEnoughError(f"no run of {'; '.join(missing)} is done yet")
        parts = []
        for model in (IMAGES, LSTM, LEAKY[25]):
            if model in found:
                name, (untrained, trained) = MODELS[model], (_of(found[model], first) for first in (True, False))
                said = _laws(found[model], first=True), _laws(found[model], first=False)
                parts += [
                    Part(f"{name}: untrained it falls exponentially", _all(untrained["law"], "exponential"), said[0]),
                    Part(f"{name}: trained not exponentially", _all(trained["law"], "exponential", wanted=False), said[1]),
                    compared(f"{name}: and by fewer powers of ten", trained["fall"], untrained["fall"], -TEN, printed=False),
                ]
        for c in LEAKY:
            for epoch in EARLY:
                ours, theirs = (where(found[names[c]], epoch=epoch)["large"] for names in (SLOW, LEAKY))
                if len(ours) and len(theirs):
                    when = f"epoch {epoch}" if epoch else "untrained"
                    parts.append(_wider(f"c = {c}, {when}: large at more samples for r = 2 than r = 0", ours, theirs))
        return Verdict(parts)

    def _measured(self, given: Configuration, model: SequenceModel, epoch: int) -> list[Row]:
        batch = given.task.batch(SEQUENCES, generator(given.training.seed, "memory"), "test")
        exact, xs = copy.deepcopy(model).double(), batch.xs.double()

        def loss(outputs: Tensor) -> Tensor:
            return cross_entropy(batch.last(outputs), batch.targets, reduction="none")

        norms = discretize.input_gradients(exact, xs, loss).clamp_min(1e-300)
        mean = norms.log().mean(1).exp()
        every = max(1, len(mean) // 32)
        curve: list[Row] = [
            {"what": "norm", "epoch": epoch, "t": t + 1, "norm": float(mean[t])} for t in range(every - 1, len(mean), every)
        ]
        return [*curve, {"what": "reach", "epoch": epoch, **reach(norms)}]


def _of(rows: pd.DataFrame, first: bool) -> pd.DataFrame:
    return where(rows, epoch=0 if first else rows["epoch"].max())


def _at(rows: pd.DataFrame, epoch: int, column: str) -> object:
    return spread(where(rows, epoch=epoch)[column])


def _laws(rows: pd.DataFrame, first: bool) -> str:
    counted = _of(rows, first)["law"].value_counts()
    return ", ".join(f"{law} {count}" for law, count in counted.items())


def _wider(claim: str, ours: pd.Series, theirs: pd.Series) -> Part:
    if set(ours) == set(theirs) == {1.0}:
        return Part(claim, False, "at all samples in every run of both")
    return compared(claim, ours, theirs, COUNTS, printed=False)


def _all(laws: pd.Series, law: str, wanted: bool = True) -> bool | None:
    """Return whether all laws are that one, or none of them is; None where some are undecided and the others would do."""
    decided = laws[laws != "undecided"]
    if not ((decided == law) == wanted).all():
        return False
    return True if len(decided) == len(laws) else None
