"""One sample at a time: `live_step` beside torch's cells, with the same weights where torch has the cell."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import itemgetter
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

import ctrnn
import discretize
from experiments.bench.parts.cells import CellSizes
from experiments.bench.rows import FORWARD, Row
from experiments.bench.session import Job, Session

__all__ = ["live_rows"]

PATIENCE = 5.0  # seconds
MORE = 2  # times as many rounds as elsewhere: each takes milliseconds
STREAMS = 8  # of a round: the median of all their samples counts, for other processes stop some
MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


class Balanced(ctrnn.VectorField):
    """Excitation and inhibition in code of one's own: tau dh/dt = relu(Wx x + |W| s relu(h) + b) - h, s the sign of a unit."""

    sign: Tensor

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.read = nn.Linear(input_size, hidden_size)
        self.recurrent, self.tau = nn.Linear(hidden_size, hidden_size, bias=False), nn.Parameter(torch.rand(hidden_size) + 1)
        self.register_buffer("sign", torch.where(torch.arange(hidden_size) < 0.8 * hidden_size, 1.0, -1.0))

    def project(self, x: Tensor) -> Tensor:
        return self.read(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        weights = self.recurrent.weight.abs() * self.sign
        return (torch.relu(projected + linear(torch.relu(h), weights)) - h) / self.tau


def live_rows(session: Session, sizes: CellSizes) -> Iterator[Row]:
    """Time the samples of streams; the value of a round is the median of one."""
    x = torch.randn(sizes.time, sizes.batch, sizes.inputs, device=session.device)
    theirs = [nn.GRUCell, nn.LSTMCell, nn.RNNCell]
    runs: dict[str, tuple[tuple[Callable[..., Any], Callable[[Any], Any]], str | None]] = {}

    def stepped(module: discretize.DiscreteCell | discretize.DiscreteRNN | discretize.ContinuousRNN) -> Any:
        return module.live_step, itemgetter(1)

    for kind in theirs:
        cell, name = kind(sizes.inputs, sizes.hidden).to(x), f"`torch.nn.{kind.__name__}`"
        field = ctrnn.from_torch(cell)
        word = name.strip("`").removeprefix("torch.nn.").removesuffix("Cell")
        runs[name] = (cell, lambda given: given), name
        runs[f"{word}, `DiscreteCell`"] = stepped(discretize.DiscreteCell(field)), name
        runs[f"{word}, `DiscreteRNN`"] = stepped(discretize.DiscreteRNN(field)), name
    gated, own = ctrnn.gated(sizes.inputs, sizes.hidden).to(x), Balanced(sizes.inputs, sizes.hidden).to(x)
    runs["gated, `DiscreteRNN`"] = stepped(discretize.DiscreteRNN(gated)), None
    runs["code of one's own, `DiscreteRNN`"] = stepped(discretize.DiscreteRNN(own, dt=0.2)), None
    runs["gated, `ContinuousRNN`, compiled"] = stepped(discretize.ContinuousRNN(gated, fused="always")), None
    for mode, entered in MODES.items():
        seconds: dict[str, list[float | None]] = {name: [] for name in runs}

        def run(name: str, entered: Callable[[], AbstractContextManager[Any]] = entered, seconds: Any = seconds) -> None:
            with entered():
                streams = [_latencies(*runs[name][0], x.clone()) for _ in range(STREAMS)]
                seconds[name].append(median(chain.from_iterable(streams)))

        problem = f"B {sizes.batch}, I {sizes.inputs}, H {sizes.hidden}, {mode}"
        jobs = [Job(name, FORWARD, partial(run, name), {"beside": beside}) for name, (_, beside) in runs.items()]
        often = replace(session, rounds=MORE * session.rounds)
        for row in often.rows("live", problem, jobs, PATIENCE):
            yield replace(row, values=seconds[row.candidate][1:])  # without the warm-up


def _latencies(call: Callable[..., Any], recurrent: Callable[[Any], Any], x: Tensor) -> list[float]:
    """Return the seconds that each sample of a stream takes; `recurrent`: the state in what a call gives."""
    found, state = [], None
    for sample in x.unbind():
        begin = time.perf_counter()
        given = call(sample, state)
        found.append(time.perf_counter() - begin)
        state = recurrent(given)
    return found
