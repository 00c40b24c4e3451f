r"""Trains the network of a tutorial on the rhythm as tutorials do: a loop over Euler steps, relu, Adam at 1e-3, nothing clipped.

The class and its training are torch's alone; `discretize.from_ctrnn` reads what it has learned.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import discretize
from derivations.processes.interruption import checkpoint
from discretize import SequenceModel
from experiments.models.tutorial import TutorialLoop
from experiments.seeds import drawing, generator
from experiments.studies.claims.time_steps.design import TUTORIAL_RATE
from experiments.tasks.cognitive import Trials

__all__ = ["TutorialNet", "trained_tutorial"]


class TutorialNet(nn.Module):
    """A loop with a read-out, as tutorials have them."""

    def __init__(self, inputs: int, hidden: int, outputs: int, dt: float) -> None:
        super().__init__()
        self.rnn, self.fc = TutorialLoop(inputs, hidden, dt=dt, tau=1.0), nn.Linear(hidden, outputs)

    def forward(self, xs: Tensor) -> Tensor:
        return self.fc(self.rnn(xs))


def trained_tutorial(task: Trials, hidden: int, steps: int, batch: int, seed: int) -> tuple[SequenceModel, dict[str, float]]:
    """Train one, and return what is read of it, with its loss on held-out trials."""
    with drawing(generator(seed, "tutorial")):
        net = TutorialNet(task.input_size, hidden, task.output_size, task.dt)
    optimizer, draw = torch.optim.Adam(net.parameters(), lr=TUTORIAL_RATE), generator(seed, "trials")
    for _ in range(steps):
        checkpoint()
        trials = task.batch(batch, draw)
        loss = task.loss(net(trials.xs), trials)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model = discretize.from_ctrnn(net, form="rates")
    assert isinstance(model, SequenceModel)
    held_out = task.batch(batch, generator(seed, "held out"), "test")
    with torch.no_grad():
        return model, task.measures(net(held_out.xs), held_out)
