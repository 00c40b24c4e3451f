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
    runs: dict[str, tuple[Callable[..., Any], str | None]] = {}  # and the cell of torch's that it stands beside
    for kind in (nn.GRUCell, nn.LSTMCell, nn.RNNCell):
        cell, name = kind(sizes.inputs, sizes.hidden).to(x), f"`torch.nn.{kind.__name__}`"
        field, word = ctrnn.from_torch(cell), kind.__name__.removesuffix("Cell")
        runs[name] = cell, name
        runs[f"{word}, `DiscreteCell`"] = discretize.DiscreteCell(field).live_step, name
        runs[f"{word}, `DiscreteRNN`"] = discretize.DiscreteRNN(field).live_step, name
    gated, own = ctrnn.gated(sizes.inputs, sizes.hidden).to(x), Balanced(sizes.inputs, sizes.hidden).to(x)
    runs["gated, `DiscreteRNN`"] = discretize.DiscreteRNN(gated).live_step, None
    runs["code of one's own, `DiscreteRNN`"] = discretize.DiscreteRNN(own, dt=0.2).live_step, None
    runs["gated, `ContinuousRNN`, compiled"] = discretize.ContinuousRNN(gated, fused="always").live_step, None
    for mode, entered in MODES.items():
        seconds: dict[str, list[float | None]] = {name: [] for name in runs}

        def run(name: str, entered: Callable[[], AbstractContextManager[Any]] = entered, seconds: Any = seconds) -> None:
            call, beside = runs[name]
            state: Callable[[Any], Any] = itemgetter(1) if name != beside else lambda output: output
            with entered():
                streams = [_latencies(call, state, x.clone()) for _ in range(STREAMS)]
                seconds[name].append(median(chain.from_iterable(streams)))

        problem = f"B {sizes.batch}, I {sizes.inputs}, H {sizes.hidden}, {mode}"
        jobs = [Job(name, FORWARD, partial(run, name), {"beside": beside}) for name, (_, beside) in runs.items()]
        often = replace(session, rounds=MORE * session.rounds)
        for row in often.rows("live", problem, jobs, PATIENCE):
            yield replace(row, values=seconds[row.candidate][1:])  # without the warm-up


def _latencies(call: Callable[..., Any], recurrent: Callable[[Any], Any], x: Tensor) -> list[float]:
    """Return the seconds that each sample of a stream takes; `recurrent`: the state in what a call returns."""
    seconds, state = [], None
    for sample in x.unbind():
        begin = time.perf_counter()
        output = call(sample, state)
        seconds.append(time.perf_counter() - begin)
        state = recurrent(output)
    return seconds
