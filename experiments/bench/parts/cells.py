r"""Discrete cells over a whole sequence, float32: every named field by every engine, torch's modules and a loop in Python.

    forward              states for (T, B, I, H), nothing kept
    forward + backward   and gradients to x and to every parameter, for a cotangent drawn once

The plain, GRU and LSTM fields have the weights of torch's modules, and compute the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Protocol

import torch
from torch import Tensor, nn

import ctrnn
import discretize
from discretize.kernels.price import without_building
from experiments.bench.rows import FORWARD, WORKS, Row
from experiments.bench.session import COMPILED, ENGINES, STEPS, Job, Session, wrong_engine

__all__ = [
    "BY_DEFAULT",
    "COUNTERPARTS",
    "FIELDS",
    "KINDS",
    "LOOP",
    "CellCandidate",
    "CellSizes",
    "SequenceCandidate",
    "by_engine",
    "cell_candidates",
    "cell_rows",
    "samples",
    "sequence_rows",
    "set_engine",
]

PATIENCE = 2.5  # seconds: where a run takes one, three of them are enough
EULER, EXPONENTIAL = discretize.Euler(), discretize.ExponentialEuler()
LOOP = "loop over torch.nn.GRUCell"
FUSED: dict[str, Any] = {COMPILED: "always", STEPS: False}
BY_DEFAULT = "by default, at first"  # while no kernel is there and calls have not paid for one


@dataclass(frozen=True)
class CellSizes:
    """Sizes of a batch of sequences and of the cell that reads them."""

    time: int
    batch: int
    inputs: int
    hidden: int

    def __str__(self) -> str:
        return f"T {self.time}, B {self.batch}, I {self.inputs}, H {self.hidden}"


class SequenceCandidate(Protocol):
    """Runs a sequence, (time, batch, input) -> (time, batch, hidden), or differentiates that by x and the weights."""

    @property
    def name(self) -> str: ...
    def forward(self, x: Tensor) -> Tensor: ...
    def backward(self, x: Tensor, cotangent: Tensor) -> Sequence[Tensor]: ...


@dataclass(frozen=True)
class CellCandidate:
    """A sequence in torch, and the parameters it is differentiated by."""

    name: str
    engine: str
    run: Callable[[Tensor], Tensor]
    parameters: list[nn.Parameter]

    @classmethod
    def of(cls, name: str, engine: str, module: nn.Module) -> CellCandidate:
        """Run a module that returns its states first."""
        return cls(name, engine, lambda x: module(x)[0], list(module.parameters()))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.run(x)

    def backward(self, x: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(self.run(x), [x, *self.parameters], cotangent)


class OwnGated(ctrnn.VectorField):
    """The gated field as a user may write it."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.of_x, self.of_h = nn.Linear(input_size, 2 * hidden_size), nn.Linear(hidden_size, 2 * hidden_size, bias=False)

    def project(self, x: Tensor) -> Tensor:
        return self.of_x(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        candidate, gate = (projected + self.of_h(h)).chunk(2, -1)
        return torch.sigmoid(gate) * (torch.tanh(candidate) - h)


Modules = Mapping[str, nn.RNNBase]
FIELDS: dict[str, tuple[Callable[[CellSizes, Modules], ctrnn.VectorField], discretize.Step]] = {
    "plain": (lambda s, modules: ctrnn.from_torch(modules["RNN"]), EULER),
    "leaky": (lambda s, modules: ctrnn.leaky(s.inputs, s.hidden, per_unit=True), EULER),
    "gated": (lambda s, modules: ctrnn.gated(s.inputs, s.hidden), EULER),
    "gated, one gate for all": (lambda s, modules: ctrnn.gated(s.inputs, s.hidden, gate="global"), EULER),
    "gated, power decay": (lambda s, modules: ctrnn.gated(s.inputs, s.hidden, decay=ctrnn.PowerDecay(2.0)), EULER),
    "gated, exponential Euler": (lambda s, modules: ctrnn.gated(s.inputs, s.hidden), EXPONENTIAL),
    "GRU": (lambda s, modules: ctrnn.from_torch(modules["GRU"]), EULER),
    "LSTM": (lambda s, modules: ctrnn.from_torch(modules["LSTM"]), EULER),
    "gated, in code of one's own": (lambda s, modules: OwnGated(s.inputs, s.hidden), EULER),
    "minimal gated unit": (lambda s, modules: ctrnn.mgu(s.inputs, s.hidden), EULER),
    "LEM": (lambda s, modules: ctrnn.lem(s.inputs, s.hidden), EULER),
    "coRNN": (lambda s, modules: ctrnn.cornn(s.inputs, s.hidden), EULER),
}
COUNTERPARTS = {"plain": "RNN", "GRU": "GRU", "LSTM": "LSTM"}
KINDS: dict[str, Callable[..., nn.RNNBase]] = {"RNN": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM}


def samples(sizes: CellSizes, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw a random input (time, batch, input)."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(sizes.time, sizes.batch, sizes.inputs, generator=generator, dtype=dtype).to(device)


def sequence_rows(
    session: Session,
    part: str,
    problem: str,
    candidates: Sequence[SequenceCandidate],
    x: Tensor,
    patience: float,
    works: Sequence[str] = WORKS,
    /,
    **facts: object,
) -> Iterator[Row]:
    """Time all candidates on the same samples, in the same rounds."""
    cotangent, jobs = torch.randn_like(candidates[0].forward(x)), []
    for one, work in product(candidates, works):
        run = partial(one.forward, x) if work == FORWARD else partial(one.backward, x, cotangent)
        jobs.append(Job(one.name, work, run, {"engine": getattr(one, "engine", ""), **facts}))
    yield from session.rows(part, problem, jobs, patience)


def set_engine(module: nn.Module, engine: str) -> Callable[[], AbstractContextManager[Any]]:
    """Choose the engine of all sequence modules within; returns the context in which they are called."""
    for rnn in module.modules():
        if isinstance(rnn, discretize.DiscreteRNN):
            rnn.fused = FUSED.get(engine, True)
            if engine == BY_DEFAULT:  # a class of the same code, which no kernel has been made for
                rnn.field.__class__ = type(type(rnn.field).__name__, (type(rnn.field),), {})
    return without_building if engine == BY_DEFAULT else nullcontext


def by_engine(name: str, engine: str, rnn: Any, x: Tensor) -> CellCandidate | str:
    """Run a sequence module by this engine; or say why another one runs it, on these samples."""
    context = set_engine(rnn, engine)

    def run(x: Tensor) -> Tensor:
        with context():
            output: Tensor = rnn(x)[0]
        return output

    with torch.no_grad():
        run(x)  # compiles, if the engine does, and if there are steps enough
    ran = rnn.stats["engine"] if engine == BY_DEFAULT else engine
    why = None if engine == BY_DEFAULT else wrong_engine(rnn.stats, engine)
    return why or CellCandidate(f"{name}, {engine}", ran, run, list(rnn.parameters()))


def cell_candidates(
    session: Session,
    sizes: CellSizes,
    x: Tensor,
    fields: Sequence[str] = tuple(FIELDS),
    engines: Sequence[str] = ENGINES,
) -> list[CellCandidate]:
    """Make torch's GRU and the counterparts of the fields, and every field by every engine that has it; weights of seed 0.

    By default at first are run only fields that torch has, too.
    """
    torch.manual_seed(0)
    modules = {name: kind(sizes.inputs, sizes.hidden).to(x) for name, kind in KINDS.items()}
    wanted = {"GRU", *(COUNTERPARTS[name] for name in fields if name in COUNTERPARTS)} if "torch" in session.peers else ()
    candidates = [CellCandidate.of(f"torch.nn.{name}", "torch", rnn) for name, rnn in modules.items() if name in wanted]
    if "loop" in session.peers:
        candidates.append(_loop(modules["GRU"]))
    for name, engine in product(fields, engines):
        if engine == BY_DEFAULT and name not in COUNTERPARTS:
            continue
        make, step = FIELDS[name]
        torch.manual_seed(0)
        one = by_engine(name, engine, discretize.DiscreteRNN(make(sizes, modules).to(x), step), x[:, :2])
        if isinstance(one, str):
            session.skip(f"cells: {name}, {engine}", one)
        else:
            candidates.append(one)
    return candidates


def cell_rows(
    session: Session, sizes: CellSizes, fields: Sequence[str], part: str = "cells", works: Sequence[str] = WORKS, **facts: object
) -> Iterator[Row]:
    """Time all candidates for these fields."""
    x = samples(sizes, session.device)
    engines = (*ENGINES, BY_DEFAULT) if part == "cells" else ENGINES
    candidates = cell_candidates(session, sizes, x, fields, engines)
    yield from sequence_rows(session, part, str(sizes), candidates, x, PATIENCE, works, **facts)


def _loop(gru: nn.RNNBase) -> CellCandidate:
    """torch.nn.GRUCell called in a loop, with the weights of a torch.nn.GRU."""
    cell = nn.GRUCell(gru.input_size, gru.hidden_size).to(next(gru.parameters()))
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in gru.state_dict().items()})

    def run(x: Tensor) -> Tensor:
        h, hs = x.new_zeros(x.shape[1], gru.hidden_size), []
        for row in x:
            h = cell(row, h)
            hs.append(h)
        return torch.stack(hs)

    return CellCandidate(LOOP, "steps", run, list(cell.parameters()))
