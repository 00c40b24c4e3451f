r"""Repeats table II and figures 2, 4 and 5 of Ohno and Kumagai 2021 on UCI HAR: the decay |h|^r h, by r and by integrator.

dh/dt = alpha (tanh(U h + W x + b) - |h|^r h)        r = 0: leaky        alpha starts at c/T, T = 128

chosen     c, rate and clip with the lowest validation loss, for each r and integrator
memory     norms of dL/dx_t, and the law by which dh_T/dh_t falls, before training and after
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch

import discretize
from discretize import ContinuousRNN, DiscreteRNN, SequenceModel
from experiments.reports.spreads import NotEnoughError, difference, number, spread
from experiments.runs.configuration import Configuration, shared_configuration
from experiments.seeds import generator
from experiments.studies.claims.laws import MOMENTS, law_numbers, laws_in_words
from experiments.studies.claims.training import curve_of_epochs, in_epochs
from experiments.studies.results import Results, best_settings, groups, where
from experiments.studies.specs import Bands, Table, across
from experiments.studies.study import Point, Row, Run, Sizes, Study, data_path, grid, scales, words_beside
from experiments.studies.verdicts import ClaimPart, ClaimVerdict, Compared, EveryComparison, compared

__all__ = ["EPOCH", "GAIN", "HAR", "OHNO", "PRINTED", "T", "OhnoHAR", "chosen", "of_chosen"]

HAR = "uci_har/"
OHNO = {"field": "leaky-power", "recurrent_gain": 0.1}  # settings of all networks of the paper
T, EPOCH = 128, 59
EXPONENTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
DRAWN = {r: f"r = {r:g}" for r in EXPONENTS if r != 0.25}
INTEGRATORS = {"euler": "Euler", "splitting": "splitting", "exact": "exact"}
PRINTED = {0.0: 0.914, 2.0: 0.921}  # table II
GAIN = PRINTED[2.0] - PRINTED[0.0]
LAWS, GRADIENTS = 16, 100  # sequences
EVERY = 4  # time steps of a gradient that are kept


def chosen(results: Results, by: Sequence[str] = ("integrator", "exponent")) -> pd.DataFrame:
    """Select the runs of the settings with the lowest mean of validation losses, and count those that diverged."""
    if not results.records:
        return results.rows
    curves = where(results.rows, what="epoch")
    runs = results.runs.assign(diverged=results.runs["key"].isin(list(results.diverged)))
    runs = runs.merge(curves.groupby("key")["loss"].min().rename("validation"), on="key", how="left")
    tried = runs.groupby(list(by))["diverged"].agg(lost="sum", tried="size")
    # One that diverged has no validation loss, and its settings are not chosen.
    return best_settings(runs, by, ["c", "rate", "clip"], "validation").merge(tried, on=list(by))


def of_chosen(results: Results, what: str, by: Sequence[str] = ("integrator", "exponent")) -> pd.DataFrame:
    """Select the rows of a kind, of the runs of the settings that were chosen."""
    rows = where(results.rows, what=what)
    return rows[rows["key"].isin(chosen(results, by)["key"])]


def of_euler(results: Results, what: str) -> pd.DataFrame:
    return where(of_chosen(results, what), integrator="euler")


class OhnoHAR(Study):
    """Trains slow forgetting on UCI HAR, with exponents from 0 to 4, stepped and solved, and measures what is remembered."""

    name = "ohno-har"
    question, claim, source, prior_work, *resolutions = words_beside(__file__)
    minutes: ClassVar = {"smoke": 0.5, "small": 20, "paper": 2400}
    sizes: ClassVar = scales(
        hidden=(4, 64, 64),
        epochs=(1, 10, 200),
        starts=([5], [1, 5, 25], [1, 5, 25]),
        others=([5], [5], [1, 5, 25]),
        rates=([5e-3], [5e-3], [1e-3, 5e-3, 1e-4]),
        clips=([5.0], [5.0], [1.0, 5.0]),
        seeds=(1, 3, 4),
        held_out=(60, 3000, 3000),
    )
    may_diverge = True
    needs = (HAR,)
    tables = (
        Table(
            "Test accuracy with the settings chosen by validation, mean (least–largest) over seeds, and how many of all "
            "trainings by Euler steps diverged.",
            by={"r": "exponent"},
            columns={
                **across("integrator", {words: name for name, words in INTEGRATORS.items()}, "accuracy"),
                "c chosen, Euler": lambda rows: number(where(rows, integrator="euler")["c"].iloc[0]),
                "diverged": lambda rows: "{lost} of {tried}".format(**where(rows, integrator="euler").iloc[0]),
            },
            data=chosen,
            sort=lambda r: r,
        ),
        Table(
            "How the norm of dh_T/dh_t falls with T − t, by Euler steps: the laws found, and κ, mean (least–largest) over seeds. "
            "κ = 0 is exponential.",
            by={"r": "exponent"},
            columns=across("when", {words: moment for moment, words in MOMENTS.items()}, laws_in_words),
            data=lambda results: of_euler(results, "law"),
            sort=lambda r: r,
        ),
    )
    figures: ClassVar = {
        "accuracy": Bands(
            "Validation accuracy after each epoch, Euler steps, settings chosen by validation: the mean over seeds, and a band "
            "from the least to the largest. The paper has r = 2 above r = 0 early on, and r = 4 below.",
            x="epoch",
            y="accuracy",
            lines=("exponent", DRAWN),
            x_label="epoch",
            y_label="validation accuracy",
            data=lambda results: of_euler(results, "epoch"),
        ),
        "gradients": Bands(
            "Norm of dL/dx_t, the geometric mean over 100 sequences; a band over seeds. Exponentials are straight lines here. "
            "Every r above 0 keeps early samples in sight before training, r = 4 most and r = 1 least; after it all do.",
            x="t",
            y="norm",
            lines=("exponent", DRAWN),
            panels=("when", MOMENTS),
            y_log=True,
            x_label="t, samples",
            y_label="norm of dL/dx_t",
            data=lambda results: of_euler(results, "gradient"),
        ),
    }

    def points(self, sizes: Sizes) -> list[Point]:
        """Return the points; none without the recordings."""
        if data_path(HAR) is None:
            return []
        settings: dict[str, Any] = {"exponent": EXPONENTS, "rate": sizes.rates, "clip": sizes.clips}
        stepped = grid(integrator=["euler"], seed=range(sizes.seeds), c=sizes.starts, **settings)
        return stepped + grid(seed=range(sizes.seeds), integrator=["exact", "splitting"], c=sizes.others, **settings)

    def configuration(self, point: Point, sizes: Sizes) -> Configuration:
        network = {**OHNO, "exponent": point["exponent"], "hidden": sizes.hidden, "alpha": point["c"] / T}
        training = {"seed": point["seed"], "rate": point["rate"], "clip": point["clip"], "evaluation": sizes.held_out}
        return shared_configuration(
            task="har",
            data=str(data_path(HAR)),
            classes="fastgrnn",
            integrator=point["integrator"],
            **network,
            **training,
            **in_epochs(EPOCH, sizes.epochs),
        )

    def measure(self, run: Run, model: SequenceModel, folder: Path) -> list[Row]:
        """Read the learning curve, and measure before and after training what loss and last state know of the past."""
        moments = {"start": run.configuration.untrained_model(), "trained": model}
        return curve_of_epochs(folder) + [
            row for moment, each in moments.items() for row in remembered(run.configuration, each, moment)
        ]

    def verdict(self, results: Results) -> ClaimVerdict:
        accuracies = {r: same["accuracy"] for r, same in groups(where(chosen(results), integrator="euler"), "exponent").items()}
        if missing := [f"{r:g}" for r in (0.0, 1.0, 2.0, 4.0) if r not in accuracies]:
            raise NotEnoughError(f"no run by Euler steps with r = {', '.join(missing)} is done yet")
        laws = groups(where(of_euler(results, "law"), when="start"), "exponent")
        curves = {r: rows.groupby("key")["accuracy"].mean() for r, rows in groups(of_euler(results, "epoch"), "exponent").items()}
        lost = results.runs[results.runs["key"].isin(list(results.diverged))]
        below, above = lost[(lost["exponent"] > 0) & (lost["exponent"] < 1)], lost[lost["exponent"] >= 1]
        tried = results.runs[(results.runs["exponent"] > 0) & (results.runs["exponent"] < 1)]
        said = "; ".join(f"r = {r:g}: {laws_in_words(rows)}" for r, rows in sorted(laws.items()))
        parts = [
            ClaimPart(
                "at the start memory falls exponentially for r = 0 and polynomially for r > 0",
                all(set(rows["law"]) == {"polynomial" if r else "exponential"} for r, rows in laws.items()),
                said,
            ),
            compared(
                "r = 2 classifies better than r = 0",
                accuracies[2.0],
                accuracies[0.0],
                GAIN,
                f", in the paper {PRINTED[2.0]} against {PRINTED[0.0]}",
            ),
            ClaimPart(
                "training is unstable below r = 1",
                len(below) > 0 and above.empty,
                f"{len(below)} of {len(tried)} trainings with r = 0.25 and 0.5 diverged, and {len(above)} with r from 1 on",
            ),
            ClaimPart(
                "r = 4 learns more slowly in the mean than r = 1 and 2",
                EveryComparison(
                    {f"from r = {r:g}": Compared(difference(curves[4.0], curves[r]), -GAIN, printed=False) for r in (1.0, 2.0)}
                ),
                ", ".join(f"r = {r:g}: {number(float(curves[r].mean()))} over epochs" for r in (1.0, 2.0, 4.0)),
            ),
            *(
                compared(f"r = 4 classifies worse than r = {r:g}", accuracies[4.0], accuracies[r], -GAIN, printed=False)
                for r in (1.0, 2.0)
            ),
        ]
        return ClaimVerdict(parts, {f"accuracy, r = {r:g}": str(spread(found)) for r, found in sorted(accuracies.items())})


def remembered(configuration: Configuration, model: SequenceModel, moment: str) -> list[Row]:
    """Measure what is remembered in double precision, as it falls below the rounding of single."""
    batch = configuration.task.batch(GRADIENTS, generator(configuration.training.seed, "memory"), "test")
    exact, xs = copy.deepcopy(model).double(), batch.xs.double()

    def loss(outputs: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(batch.last(outputs), batch.targets, reduction="none")

    assert isinstance(exact.rnn, DiscreteRNN | ContinuousRNN)
    norms = discretize.input_gradients(exact, xs, loss).clamp_min(1e-300).log().mean(1).exp()
    law = discretize.decay_law(discretize.state_jacobians(exact.rnn, xs[:, :LAWS]).flip(0))
    rows: list[Row] = [
        {"what": "gradient", "when": moment, "t": t + 1, "norm": float(norms[t])} for t in range(EVERY - 1, len(norms), EVERY)
    ]
    return [*rows, {"what": "law", "when": moment, **law_numbers(law)}]
