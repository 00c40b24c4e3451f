r"""Discrete cells over a whole sequence, float32: every named field by every engine, beside torch's own and a loop in Python.

    forward              states for (T, B, I, H), nothing kept
    forward + backward   and gradients to x and to every parameter, for a cotangent drawn once

The plain, GRU and LSTM fields have the weights of torch's modules, and compute what those do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import ctrnn
import discretize
from experiments.bench.interleaved import interleaved
from experiments.bench.peers.engines import ENGINES, cell_engine
from experiments.bench.rows import BACKWARD, FORWARD, Row

__all__ = ["COUNTERPARTS", "FIELDS", "CellSizes", "Unrolled", "candidates", "measured"]

PATIENCE = 2.5  # seconds: where a run takes one, three of them are enough
EULER, EXPONENTIAL = discretize.Euler(), discretize.ExponentialEuler()


@dataclass(frozen=True)
class CellSizes:
    time: int
    batch: int
    inputs: int
    hidden: int

    def __str__(self) -> str:
        return f"T {self.time}, B {self.batch}, I {self.inputs}, H {self.hidden}"


@dataclass(frozen=True)
class Unrolled:
    """A cell over a sequence: (time, batch, input) -> (time, batch, hidden), and what gradients go to besides x."""

    name: str
    engine: str
    run: Callable[[Tensor], Tensor]
    parameters: list[nn.Parameter]

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.run(x)

    def backward(self, x: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(self.run(x), [x, *self.parameters], cotangent)


Peers = dict[str, nn.RNNBase]
FIELDS: dict[str, tuple[Callable[[CellSizes, Peers], ctrnn.VectorField], discretize.Step]] = {
    "plain": (lambda s, peers: ctrnn.from_torch(peers["RNN"]), EULER),
    "leaky": (lambda s, peers: ctrnn.leaky(s.inputs, s.hidden, per_unit=True), EULER),
    "gated": (lambda s, peers: ctrnn.gated(s.inputs, s.hidden), EULER),
    "gated, one gate for all": (lambda s, peers: ctrnn.gated(s.inputs, s.hidden, gate="global"), EULER),
    "gated, power decay": (lambda s, peers: ctrnn.gated(s.inputs, s.hidden, decay=ctrnn.PowerDecay(2.0)), EULER),
    "gated, exponential Euler": (lambda s, peers: ctrnn.gated(s.inputs, s.hidden), EXPONENTIAL),
    "GRU": (lambda s, peers: ctrnn.from_torch(peers["GRU"]), EULER),
    "LSTM": (lambda s, peers: ctrnn.from_torch(peers["LSTM"]), EULER),
}  # fmt: skip
COUNTERPARTS = {"plain": "RNN", "GRU": "GRU", "LSTM": "LSTM"}
KINDS: dict[str, Callable[[int, int], nn.RNNBase]] = {"RNN": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM}


def candidates(
    sizes: CellSizes,
    x: Tensor,
    fields: Sequence[str] = tuple(FIELDS),
    peers: Sequence[str] = ("torch", "loop"),
    engines: Sequence[str] = ENGINES,
    skip: Callable[[str, str], None] = lambda name, why: None,
) -> list[Unrolled]:
    """Torch's GRU and the counterparts of the fields first; then every field by every engine that has it. Weights as torch
    draws them after seed 0."""
    torch.manual_seed(0)
    modules = {name: kind(sizes.inputs, sizes.hidden).to(x) for name, kind in KINDS.items()}
    found = []
    if "torch" in peers:
        wanted = {"GRU", *(COUNTERPARTS[name] for name in fields if name in COUNTERPARTS)}
        theirs = {name: rnn for name, rnn in modules.items() if name in wanted}
        found += [Unrolled(f"torch.nn.{name}", "torch", _output(rnn), list(rnn.parameters())) for name, rnn in theirs.items()]
    if "loop" in peers:
        found.append(_loop(modules["GRU"]))
    for name in fields:
        make, step = FIELDS[name]
        field = make(sizes, modules).to(x)
        for engine in engines:
            run = cell_engine(field, step, engine, x)
            if isinstance(run, str):
                skip(f"cells: {name}, {engine}", run)
            else:
                found.append(Unrolled(f"{name}, {engine}", engine, run, list(field.parameters())))
    return found


def _output(rnn: nn.RNNBase) -> Callable[[Tensor], Tensor]:
    return lambda x: rnn(x)[0]


def _loop(gru: nn.RNNBase) -> Unrolled:
    """What is written where a module of one's own is wanted: a cell called in a loop, with the same weights."""
    cell = nn.GRUCell(gru.input_size, gru.hidden_size).to(next(gru.parameters()))
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in gru.state_dict().items()})

    def run(x: Tensor) -> Tensor:
        h, hs = x.new_zeros(x.shape[1], gru.hidden_size), []
        for row in x:
            h = cell(row, h)
            hs.append(h)
        return torch.stack(hs)

    return Unrolled("loop over torch.nn.GRUCell", "steps", run, list(cell.parameters()))


def measured(
    sizes: CellSizes,
    found: Sequence[Unrolled],
    x: Tensor,
    rounds: int,
    tell: Callable[[str], None],
    works: Sequence[str] = (FORWARD, BACKWARD),
    part: str = "cells",
    facts: dict | None = None,
    settle: Callable[[], None] = lambda: None,
) -> Iterator[Row]:
    """All of them in the same rounds. `settle` waits for the device."""
    cotangent = torch.randn(sizes.time, sizes.batch, sizes.hidden, device=x.device, dtype=x.dtype)

    def job(candidate: Unrolled, work: str) -> Callable[[], object]:
        def run() -> None:
            settle()
            candidate.forward(x) if work == FORWARD else candidate.backward(x, cotangent)
            settle()

        return run

    jobs = {(candidate.name, work): job(candidate, work) for candidate in found for work in works}
    times = interleaved(jobs, rounds, patience=PATIENCE, tell=lambda key: tell(f"{part}: {sizes}: {', '.join(key)}"))
    engines = {candidate.name: candidate.engine for candidate in found}
    for (name, work), values in times.items():
        yield Row(part, str(sizes), name, work, values, facts={"engine": engines[name], **(facts or {})})


def samples(sizes: CellSizes, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(sizes.time, sizes.batch, sizes.inputs, generator=generator, dtype=dtype).to(device)
