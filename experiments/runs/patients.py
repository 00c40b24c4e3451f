r"""Train one of `OBSERVED` on the patients, epoch by epoch, and keep the weights of the best AUROC on "validation".

python -m experiments.runs.patients FOLDER gru-d ode-rnn --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import copy
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from discretize import SequenceModel
from experiments.models.observed import CLASSES, OBSERVED
from experiments.runs.training import evaluate
from experiments.seeds import generator
from experiments.tasks.recorded.patients import VALUES, Patients

__all__ = ["EpochSettings", "EpochsTrained", "observed_model", "train_epochs"]

ALL = 1 << 30  # sequences of a split


@dataclass(frozen=True)
class EpochSettings:
    r"""How it is trained: by Adam.

    Args:    epochs: at most; patience: epochs without a better AUROC after which it ends; batch: sequences; rate: of learning;
             clip: largest norm of the gradient.
    """

    epochs: int = 15
    patience: int = 4
    batch: int = 64
    rate: float = 2e-3
    clip: float = 1.0


@dataclass(frozen=True)
class EpochsTrained:
    r"""What came of it.

    Args:    test: measures of the weights of the best epoch, counted from 1; validation: its AUROC; epochs: taken in all;
             seconds: that an epoch took, without evaluations, in the mean.
    """

    test: dict[str, float]
    validation: float
    best: int
    epochs: int
    seconds: float


def observed_model(name: str, hidden: int, seed: int) -> nn.Module:
    """An untrained model, a function of its name, size and seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SequenceModel(OBSERVED[name](VALUES, hidden), CLASSES)


def train_epochs(model: nn.Module, task: Patients, seed: int = 0, settings: EpochSettings | None = None) -> EpochsTrained:
    """Train in place, until the AUROC on "validation" gets no better; the model is left with the best weights."""
    settings = settings or EpochSettings()
    optimizer = torch.optim.Adam(model.parameters(), settings.rate)
    best, place, kept, seconds, epoch = -math.inf, 0, copy.deepcopy(model.state_dict()), 0.0, 0
    while epoch < settings.epochs and epoch - place < settings.patience:
        begin = time.perf_counter()
        for batch in task.epoch(settings.batch, generator(seed, "epoch", epoch)):
            loss = task.loss(model(batch.xs, batch.ts, batch.lengths), batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
            optimizer.step()
        epoch, seconds = epoch + 1, seconds + time.perf_counter() - begin
        if (found := evaluate(model, task, "validation", ALL)["auroc"]) > best:
            best, place, kept = found, epoch, copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    return EpochsTrained(evaluate(model, task, "test", ALL), best, place, epoch, seconds / epoch)


def main(words: Sequence[str] | None = None) -> None:
    about = argparse.ArgumentParser(description="Train models of irregular observations on PhysioNet 2012.")
    about.add_argument("folder", help="that holds physionet2012_set-a_set-b.tar.xz")
    about.add_argument("models", nargs="+", choices=list(OBSERVED), help="which ones")
    about.add_argument("--seeds", nargs="+", type=int, default=[0])
    about.add_argument("--hidden", type=int, default=48)
    about.add_argument("--epochs", type=int, default=EpochSettings.epochs)
    given = about.parse_args(words)
    for name in given.models:
        task = Patients(data=given.folder, clock_given=name != "gru")
        for seed in given.seeds:
            model = observed_model(name, given.hidden, seed)
            found = train_epochs(model, task, seed, EpochSettings(epochs=given.epochs))
            print(
                f"{name:<15} seed {seed}  test AUROC {found.test['auroc']:.3f}  validation {found.validation:.3f} in epoch "
                f"{found.best} of {found.epochs}  {found.seconds:.2f} s an epoch  {sum(p.numel() for p in model.parameters())} "
                "parameters",
                flush=True,
            )


if __name__ == "__main__":
    main()
