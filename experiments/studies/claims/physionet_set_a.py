r"""Trains models on the patients of set A of PhysioNet 2012, those of the tables in print, each tested in one of five folds.

no times, the gap a value, held    a GRU
jumps                              ODE-RNN, GRU-D, and GRU-ODE-Bayes with the likelihood of what it sees and without
"""

from __future__ import annotations

from typing import ClassVar

from experiments.studies.claims.physionet_folds import JUMPING, LIKELY, SLOWEST, PhysioNetFolds
from experiments.studies.study import Sizes, words_beside
from experiments.tasks.recorded.patients import FOLDS

__all__ = ["PhysioNetSetA"]

COMPARED = ("gru", "gru-gap", "gru-exponential", *JUMPING[:2], *SLOWEST)


class PhysioNetSetA(PhysioNetFolds):
    """Trains seven models in five folds of 4000 patients."""

    name = "physionet-set-a"
    sets: ClassVar = "a"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 100, "paper": 500}
    sizes: ClassVar = {
        "smoke": Sizes(hidden=4, batch=16, batches=2, epochs=1, patience=1, folds=2, stages=[(("gru", LIKELY), "all", 1)]),
        "small": Sizes(hidden=48, batch=64, batches=40, epochs=30, patience=4, folds=FOLDS, stages=[
            (COMPARED, "all", 1), (COMPARED, "all", 2), (COMPARED, "all", 3),
        ]),
        "paper": Sizes(hidden=48, batch=64, batches=40, epochs=60, patience=8, folds=FOLDS, stages=[(COMPARED, "all", 5)]),
    }  # fmt: skip
