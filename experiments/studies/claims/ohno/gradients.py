r"""Repeats figures 1 and 4 of Ohno and Kumagai 2021: how far back the gradient of the loss reaches, epoch by epoch.

norm       of dL/dx_t for each sample t, over 100 test sequences: the geometric mean, of a typical sequence, and the arithmetic
           one, which few sequences make; its law, from the last sample back
fall       by how many powers of ten the mean is smaller in the first tenth of a sequence than in the last
large      samples at which it is a tenth of the largest or more, as a part of all; wide: a hundredth

LSTM on images and recordings, leaky units (r = 0) and slow forgetting (r = 2) on recordings
"""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Mapping
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
from experiments.reports.spreads import NotEnoughError, difference, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.seeds import generator
from experiments.studies.claims.laws import laws_in_words
from experiments.studies.claims.ohno.har import EPOCH, HAR, OHNO, T
from experiments.studies.claims.ohno.pixels import EPOCH as EPOCH_OF_IMAGES
from experiments.studies.claims.ohno.pixels import MNIST
from experiments.studies.results import Results, groups, where
from experiments.studies.specs import Bands, Table, across, first, in_order, run_count
from experiments.studies.study import Point, Row, Run, RunMeasures, Sizes, Study, data_path, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, compared

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
TEN = 1.0  # power of ten, the least that counts
PAIRS = ((25, 25), (5, 5), (25, 5))  # c of r = 2 and of r = 0; the last is what validation chooses
COMPARED = ("large", "wide", "fall", "fall of the mean")
EPOCHS = (1, 5, 10, 30, 60, 100, 200)  # after which a run is measured, and before the first
EARLY = (0, 1, 5, 10, 30, 60)  # of these are shown: figure 4 has ours ahead up to about 60


def reach(norms: Tensor) -> Row:
    """Measure how norms of dL/dx_t fall from the last sample back: (time, sequences), in double precision."""
    law, row = discretize.decay_law(norms.flip(0)), dict[str, float]()
    for of, mean in (("", norms.log().mean(1)), (" of the mean", norms.mean(1).log())):
        tenth, below = max(1, len(mean) // 10), mean - mean.max()
        row |= {
            f"large{of}": float((below >= math.log(LARGE)).double().mean()),
            f"wide{of}": float((below >= math.log(LARGE**2)).double().mean()),
            f"fall{of}": float(mean[-tenth:].mean() - mean[:tenth].mean()) / math.log(10),
        }
    return {**row, "law": law.name, "bend": law.bend, "misfit": law.misfit}


def differences(results: Results) -> pd.DataFrame:
    """Compare r = 2 with r = 0 at each epoch, in words: mean difference and its 95 % interval over seeds (Welch)."""
    rows, lines = where(results.rows, what="reach"), []
    for c, other in PAIRS:
        for epoch in sorted(set(rows.get("epoch", ()))):
            ours, theirs = (where(rows, model=model, epoch=epoch) for model in (SLOW[c], LEAKY[other]))
            if len(ours) > 1 and len(theirs) > 1:
                words = {column: _interval(ours[column], theirs[column]) for column in COMPARED}
                lines.append({"ours": c, "theirs": other, "epoch": epoch, **words})
    return pd.DataFrame(lines, columns=["ours", "theirs", "epoch", *COMPARED])


def _interval(ours: pd.Series, theirs: pd.Series) -> str:
    return "0" if len({*ours, *theirs}) == 1 else f"{difference(ours, theirs):.2f}"


def _by_model(caption: str, columns: Mapping[str, Any]) -> Table:
    return Table(
        caption,
        by={"model": "model"},
        columns=columns,
        data=lambda results: where(results.rows, what="reach"),
        words=MODELS,
        sort=in_order(tuple(MODELS)),
    )


AT_EPOCHS = {f"epoch {k}" if k else "untrained": k for k in EARLY}


class OhnoGradients(Study):
    """Trains an LSTM, leaky units and slow forgetting, and measures after how many epochs which samples matter."""

    name = "ohno-gradients"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
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
        _by_model(
            "By how many powers of ten dL/dx_t falls from the last tenth of a sequence to the first, after so many epochs: the "
            "geometric mean over sequences; mean (least–largest) over seeds. In the last column that of the arithmetic mean.",
            {
                **across("epoch", AT_EPOCHS, "fall"),
                "of the mean, last": lambda rows: spread(_of(rows, first=False)["fall of the mean"]),
                "runs": run_count,
            },
        ),
        _by_model(
            "The law by which it falls, κ (exponential at 0), and how far it is from that law in nats, untrained and at the end.",
            {
                "untrained": lambda rows: laws_in_words(_of(rows, first=True)),
                "misfit": lambda rows: spread(_of(rows, first=True)["misfit"]),
                "trained": lambda rows: laws_in_words(_of(rows, first=False)),
                "misfit, trained": lambda rows: spread(_of(rows, first=False)["misfit"]),
                "epochs": lambda rows: int(rows["epoch"].max()),
            },
        ),
        _by_model(
            "The part of the samples at which it is a tenth of its largest or more.",
            across("epoch", AT_EPOCHS, "large"),
        ),
        Table(
            "r = 2 less r = 0: parts of the samples at a tenth of the largest or more, and at a hundredth; powers of ten by "
            "which the geometric and the arithmetic mean fall. Mean difference, 95 % interval over seeds.",
            by={"c of r = 2": "ours", "c of r = 0": "theirs", "epoch": "epoch"},
            columns={column: first(column) for column in COMPARED},
            data=differences,
        ),
    )
    figures: ClassVar = {
        "norms": Bands(
            "Norm of dL/dx_t after so many epochs, the geometric mean over 100 test sequences, on recordings; a band over seeds. "
            "Exponentials are straight lines here.",
            x="t",
            y="norm",
            lines=("epoch", {k: f"epoch {k}" if k else "untrained" for k in (0, 1, 10, 60)}),
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
        return shared_configuration(
            **task, **network, **training, integrator="euler", seed=point["seed"], evaluation=sizes.held_out, threads=1
        )

    def carry_out(self, run: Run, folder: Path) -> RunMeasures:
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
            return RunMeasures(outcome.measures, rows, time.perf_counter() - begun)
        finally:
            torch.set_num_threads(before)

    def verdict(self, results: Results) -> ClaimVerdict:
        rows = where(results.rows, what="reach")
        found = groups(rows, "model")
        if missing := [model for model in RECORDINGS if model not in found]:
            raise NotEnoughError(f"no run of {'; '.join(missing)} is done yet")
        parts = []
        for model in (LSTM, LEAKY[25]):
            name, (untrained, trained) = MODELS[model], (_of(found[model], first) for first in (True, False))
            parts += [
                ClaimPart(f"{name}: untrained it falls exponentially", _all(untrained["law"]), laws_in_words(untrained)),
                ClaimPart(f"{name}: trained not exponentially", _none(trained["law"]), laws_in_words(trained)),
                compared(f"{name}: and by fewer powers of ten", trained["fall"], untrained["fall"], -TEN, printed=False),
            ]
        for epoch in (0, 1, 10, 60):
            ours, theirs = (where(found[names[25]], epoch=epoch)["fall"] for names in (SLOW, LEAKY))
            if len(ours) and len(theirs):
                when = f"after epoch {epoch}" if epoch else "untrained"
                claim = f"c = 25, {when} it falls by fewer powers of ten for r = 2 than for r = 0"
                parts.append(compared(claim, ours, theirs, -TEN, printed=False))
        return ClaimVerdict(parts)

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


def _all(laws: pd.Series) -> bool | None:
    """Return whether all laws are exponential, False where no more than half are, None between."""
    share = float((laws == "exponential").mean())
    return True if share == 1 else False if share <= 0.5 else None


def _none(laws: pd.Series) -> bool | None:
    """Return whether no law is exponential, False where more than half are, None between or where some are undecided."""
    share = float((laws == "exponential").mean())
    return False if share > 0.5 else True if share == 0 and "undecided" not in set(laws) else None
