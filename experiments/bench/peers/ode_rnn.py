r"""ODE-RNN as one writes it by hand with torchdiffeq, and how long an epoch takes with it and with `discretize.ode_rnn`.

    dh/ds = (t_k - t_k-1) net(h), s from 0 to 1      so that one call solves a batch whose stamps differ

python -m experiments.bench.peers.ode_rnn FOLDER
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import torch
import torchdiffeq
from torch import Tensor, nn

from discretize import Euler, SequenceModel, ode_rnn
from experiments.tasks.recorded.patients import VALUES, Patients

__all__ = ["CLASSES", "ODERNNByHand", "epoch_seconds"]

CLASSES = Patients.output_size
LOOSE = {"rtol": 1e-3, "atol": 1e-4}


class ODERNNByHand(nn.Module):
    r"""What `SequenceModel(ode_rnn(values, hidden, units), CLASSES)` computes, called like it.

    Args:    values, hidden, units as for `ode_rnn`; settings: of `torchdiffeq.odeint`.
    Source:  Rubanova, Chen and Duvenaud 2019, algorithm 1.
    """

    def __init__(self, values: int, hidden: int, units: int = 50, **settings: object) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(hidden, units), nn.Tanh(), nn.Linear(units, hidden))
        self.cell, self.read_out, self.settings = nn.GRUCell(2 * values, hidden), nn.Linear(hidden, CLASSES), settings

    def forward(self, xs: Tensor, ts: Tensor, lengths: Tensor) -> Tensor:
        h, states = xs.new_zeros(xs.shape[1], self.cell.hidden_size), []
        whole, seen = torch.tensor([0.0, 1.0]).to(xs), xs.chunk(2, -1)[1].any(-1)
        for k, x in enumerate(xs):
            going = k < lengths
            if k:
                length = torch.where(going, ts[k] - ts[k - 1], 0.0).to(xs)[:, None]
                h = torchdiffeq.odeint(lambda s, h, length=length: length * self.net(h), h, whole, **self.settings)[-1]
            h = torch.where((going & seen[k])[:, None], self.cell(x, h), h)
            states.append(h)
        outputs: Tensor = self.read_out(torch.stack(states))
        return outputs


def epoch_seconds(models: Sequence[nn.Module], task: Patients, batch: int = 64, batches: int | None = None) -> list[float]:
    """Seconds of one epoch of training, each batch by one model after the other; of the first `batches` only, scaled."""
    optimizers = [torch.optim.Adam(model.parameters(), 1e-3) for model in models]
    seconds, steps = [0.0] * len(models), -(-len(task.recorded("train").labels) // batch)
    read = [task.batch_at(k, batch, seed=0) for k in range(steps)[:batches]]
    for each in read:
        for k, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            begin = time.perf_counter()
            optimizer.zero_grad()
            task.loss(model(each.xs, ts=each.ts, lengths=each.lengths), each).backward()
            optimizer.step()
            seconds[k] += time.perf_counter() - begin
    return [found * steps / len(read) for found in seconds]


def main(words: Sequence[str] | None = None) -> None:
    about = argparse.ArgumentParser(description="Seconds that an epoch of ODE-RNN takes on PhysioNet 2012.")
    about.add_argument("folder", help="that holds physionet2012_set-a_set-b.tar.xz")
    about.add_argument("--hidden", type=int, default=48)
    about.add_argument("--batches", type=int, default=None, help="(default: all)")
    given = about.parse_args(words)
    task = Patients(data=given.folder)
    chosen: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("euler", {"method": Euler()}, {"method": "euler"}),
        ("dopri5", LOOSE, LOOSE),
    ]
    for name, own, by_hand in chosen:
        ours = SequenceModel(ode_rnn(VALUES, given.hidden, **own), CLASSES)
        theirs = ODERNNByHand(VALUES, given.hidden, **by_hand)
        found = epoch_seconds([ours, theirs], task, batches=given.batches)
        print(f"{name:<8} discretize.ode_rnn {found[0]:.1f} s, torchdiffeq {found[1]:.1f} s an epoch", flush=True)


if __name__ == "__main__":
    main()
