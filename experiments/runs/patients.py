r"""Train one of `OBSERVED` on the patients, epoch by epoch, and keep the weights of the best AUROC on "validation".

python -m experiments.runs.patients FOLDER gru-d ode-rnn --seeds 0 1 2
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from discretize import SequenceModel
from experiments.models.observed import CLASSES, OBSERVED
from experiments.runs.configuration import TrainingSettings
from experiments.runs.training import Training, evaluate
from experiments.seeds import generator
from experiments.settings import LARGEST
from experiments.tasks.recorded.patients import VALUES, Patients
from experiments.tasks.task import Batch

__all__ = ["SETTINGS", "EpochsTrained", "observed_model", "train_epochs"]

ALL = LARGEST  # sequences of a split
EPOCHS = 15
SETTINGS = TrainingSettings(
    batch=64, optimizer="adam", rate=2e-3, clip=1.0, keep="best", keep_by="auroc", patience=4, evaluation=ALL
)


@dataclass(frozen=True)
class EpochsTrained:
    r"""Holds what training on the patients ended with.

    Args:    test: measures of the weights of the best epoch, counted from 1; validation: its AUROC; epochs: taken in all;
             seconds: that an epoch took, without evaluations, in the mean.
    """

    test: dict[str, float]
    validation: float
    best: int
    epochs: int
    seconds: float


def observed_model(name: str, hidden: int, seed: int) -> SequenceModel:
    """Build an untrained model, a function of its name, size and seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SequenceModel(OBSERVED[name](VALUES, hidden), CLASSES)


def train_epochs(
    model: SequenceModel, task: Patients, seed: int = 0, epochs: int = EPOCHS, settings: TrainingSettings = SETTINGS
) -> EpochsTrained:
    """Train in place, each patient once an epoch; the model is left with the weights of the best one on "validation".

    Args:    settings: with patience in epochs; steps and times of evaluations follow from the number of epochs.
    """

    @lru_cache(1)
    def epoch(k: int) -> list[Tensor]:
        return task.epoch_batches(settings.batch, generator(seed, "epoch", k))

    def batch_at(step: int) -> Batch:
        k, place = divmod(step, steps)
        return task.batch_of("train", epoch(k)[place])

    steps = len(epoch(0))
    run = Training(model, task, replace(settings, steps=epochs * steps, evaluate_every=steps), batch_at=batch_at)
    run.run()
    run.choose()
    taken, best = run.step // steps, int(run.best["step"]) // steps
    return EpochsTrained(evaluate(model, task, "test", ALL), run.best["auroc"], best, taken, run.learned / taken)


def main(words: Sequence[str] | None = None) -> None:
    about = argparse.ArgumentParser(description="Train models of irregular observations on PhysioNet 2012.")
    about.add_argument("folder", help="that holds physionet2012_set-a_set-b.tar.xz")
    about.add_argument("models", nargs="+", choices=list(OBSERVED), help="which ones")
    about.add_argument("--seeds", nargs="+", type=int, default=[0])
    about.add_argument("--hidden", type=int, default=48)
    about.add_argument("--epochs", type=int, default=EPOCHS)
    given = about.parse_args(words)
    for name in given.models:
        task = Patients(data=given.folder, clock_given=name != "gru")
        for seed in given.seeds:
            model = observed_model(name, given.hidden, seed)
            found = train_epochs(model, task, seed, given.epochs)
            print(
                f"{name:<15} seed {seed}  test AUROC {found.test['auroc']:.3f}  validation {found.validation:.3f} in epoch "
                f"{found.best} of {found.epochs}  {found.seconds:.2f} s an epoch  {sum(p.numel() for p in model.parameters())} "
                "parameters",
                flush=True,
            )


if __name__ == "__main__":
    main()
