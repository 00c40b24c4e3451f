"""Trains a network of the gallery, runs it, and says and draws what was found."""

import argparse
import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure
from scipy.optimize import minimize
from torch import Tensor
from torch.nn.utils.parametrize import register_parametrization
from torch.special import log_ndtr

import ctrnn
from ctrnn.storage.files import write_atomically
from ctrnn_experiments import Decision, Training, TrainingSettings, Trials, generator, svg
from discretize import DiscreteCell, DiscreteRNN, SequenceModel, unroll

__all__ = ["Found", "Psychometric", "psychometric", "show", "states", "trained"]

FIGURES = Path(__file__).resolve().parents[1] / "figures"
Found = tuple[dict[str, float], bool, Figure]  # numbers, whether they show the finding, and its figure


def trained(
    task: Trials, field: ctrnn.VectorField, steps: int, lr: float = 2e-3, seed: int = 0, read: Tensor | None = None
) -> SequenceModel:
    """Train a field under Euler's step, and a linear read-out, of all units or those in `read`, by Adam, 64 trials a step."""
    model = SequenceModel(DiscreteRNN(field, dt=task.dt), task.output_size, generator(seed, "read-out"))
    if read is not None:
        register_parametrization(model.read_out, "weight", ctrnn.parts.Mask(read.expand_as(model.read_out.weight)))
    if steps:
        how = {"optimizer": "adam", "lr": lr, "schedule": "halved-twice", "clip": 1.0}
        Training(model, task, TrainingSettings(steps=steps, batch=64, seed=seed, evaluate_every=steps + 1, **how)).run()
    return model


@torch.no_grad()
def states(model: SequenceModel, xs: Tensor, h0: Tensor | None = None) -> Tensor:
    """Return the states before the first sample and after each: (time + 1, batch, hidden)."""
    return unroll(DiscreteCell(model.field, dt=model.rnn.dt), xs.to(next(model.parameters())), h0).hs


class Psychometric(NamedTuple):
    """Signed coherences c, the share of choices +1 at each, and the fit Phi(slope c + bias)."""

    coherences: Tensor
    shares: Tensor
    slope: float
    bias: float


@torch.no_grad()
def psychometric(model: SequenceModel, task: Decision, trials: int) -> Psychometric:
    """Ask a network about evidence of several strengths, so many trials each, and fit by maximum likelihood."""
    signed, shares = [], []
    for k, c in enumerate((0.025, 0.05, 0.1, 0.2, 0.4)):
        batch = replace(task, coherences=(c,)).batch(2 * trials, generator(1, "psychometric", k))
        sign = batch.targets.sum(0)[:, 0].sign()
        chosen = (model(batch.xs, ts=batch.ts) * batch.targets.abs()).sum(0)[:, 0] > 0
        signed += [-c, c]
        shares += [float(chosen[sign == each].double().mean()) for each in (-1, 1)]
    c, p = torch.tensor(signed, dtype=torch.float64), torch.tensor(shares, dtype=torch.float64)

    def lost(fit: tuple[float, float]) -> float:
        z = fit[0] * c + fit[1]
        return -float((p * log_ndtr(z) + (1 - p) * log_ndtr(-z)).sum())

    slope, bias = minimize(lost, (1.0, 0.0), bounds=((-20, 20), (-5, 5))).x
    return Psychometric(c, p, float(slope), float(bias))


def show(main: Callable[..., Found]) -> None:
    """Print what a script found, and write its figure to docs/figures."""
    parser = argparse.ArgumentParser(description=inspect.getmodule(main).__doc__)
    parser.add_argument("--small", action="store_true", help="train for a few steps, to see that it runs, and draw nothing")
    small = parser.parse_args().small
    numbers, shown, figure = main(small)
    for name, value in numbers.items():
        print(f"{name:<60}{value:.3g}")
    print("This is the finding." if shown else "This is not the finding.")
    if not small:
        name = Path(inspect.getfile(main)).stem
        drawn = svg.inline_svg(figure, f"gallery-{name}", name, "docs/gallery.md says what to see.")
        write_atomically(FIGURES / f"gallery-{name}.svg", svg.with_colours(drawn))
