r"""Discrete cells over a whole sequence, float32: every named field by every engine, torch's modules and a loop in Python.

    forward              states for (T, B, I, H), nothing kept
    forward + backward   and gradients to x and to every parameter, for a cotangent drawn once

The plain, GRU and LSTM fields have the weights of torch's modules, and compute the same. So do layers of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import product

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import ctrnn
import discretize
from discretize.kernels.price import without_building
from experiments.bench.rows import BACKWARD, FORWARD, WORKS, Row
from experiments.bench.session import COMPILED, ENGINES, Job, Session, wrong_engine

__all__ = [
    "BY_DEFAULT",
    "COUNTERPARTS",
    "FIELDS",
    "LOOP",
    "CellCandidate",
    "CellSizes",
    "by_default",
    "cell_candidates",
    "cell_engine",
    "cell_rows",
    "ensemble_rows",
    "layer_rows",
    "samples",
]

PATIENCE = 2.5  # seconds: where a run takes one, three of them are enough
EULER, EXPONENTIAL = discretize.Euler(), discretize.ExponentialEuler()
LOOP = "loop over torch.nn.GRUCell"
BY_DEFAULT = "by default, at first"


@dataclass(frozen=True)
class CellSizes:
    """Sizes of a batch of sequences and of the cell that reads them."""

    time: int
    batch: int
    inputs: int
    hidden: int

    def __str__(self) -> str:
        return f"T {self.time}, B {self.batch}, I {self.inputs}, H {self.hidden}"


@dataclass(frozen=True)
class CellCandidate:
    """A cell over a sequence, (time, batch, input) -> (time, batch, hidden), and its parameters."""

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


Modules = dict[str, nn.RNNBase]
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


def cell_rows(
    session: Session, sizes: CellSizes, fields: Sequence[str], part: str = "cells", works: Sequence[str] = WORKS, **facts: object
) -> Iterator[Row]:
    """Time all candidates for these fields."""
    x = samples(sizes, session.device)
    found = cell_candidates(session, sizes, x, fields)
    if part == "cells":
        found += [by_default(name, sizes, x) for name in fields if name in COUNTERPARTS]
    jobs = _jobs(found, x, works, **facts)
    yield from session.rows(part, str(sizes), list(jobs), PATIENCE)


def layer_rows(session: Session, sizes: CellSizes) -> Iterator[Row]:
    """Time two layers of torch's GRU and LSTM in both directions, on a packed batch, and the same converted."""
    if "torch" not in session.peers:
        session.skip("layers", "they are compared with torch.nn's")
        return
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint((sizes.time + 1) // 2, sizes.time + 1, (sizes.batch,), generator=generator)
    lengths[0] = sizes.time
    packed = pack_padded_sequence(samples(sizes, session.device), lengths, enforce_sorted=False)
    for name in ("GRU", "LSTM"):
        torch.manual_seed(0)
        theirs = KINDS[name](sizes.inputs, sizes.hidden, num_layers=2, bidirectional=True).to(packed.data)
        ours = discretize.from_torch(theirs)
        for rnn in ours.modules():
            if isinstance(rnn, discretize.DiscreteRNN):
                rnn.fused = "always"
        ours(packed)
        found = [
            _packed_candidate(f"torch.nn.{name}", "torch", theirs, packed),
            _packed_candidate(f"{name} by `discretize.from_torch`", ours.stats["engine"], ours, packed),
        ]
        at_first = discretize.from_torch(theirs)
        for rnn in at_first.modules():
            if isinstance(rnn, discretize.DiscreteRNN):
                rnn.field.__class__ = _without_kernel(type(rnn.field))
        with without_building():
            at_first(packed)
        found.append(_packed_candidate(f"{name}, {BY_DEFAULT}", at_first.stats["engine"], at_first, packed))
        yield from session.rows("layers", f"{name}, {sizes}", list(_jobs(found, packed.data)), PATIENCE)


def ensemble_rows(session: Session, sizes: CellSizes, networks: int) -> Iterator[Row]:
    """Time networks of one size on the same samples: one after another, and by `discretize.ensemble`."""
    x = samples(sizes, session.device)
    cotangent = torch.randn(networks, sizes.time, sizes.batch, sizes.hidden, device=x.device)
    jobs = []
    if "torch" in session.peers:
        theirs = [nn.GRU(sizes.inputs, sizes.hidden).to(x.device) for _ in range(networks)]
        jobs += list(_looped("torch.nn.GRU in a loop", theirs, x, cotangent))
    for name in ("gated", "GRU", "gated, in code of one's own"):
        make, step = FIELDS[name]
        each: list[Modules] = [{"GRU": nn.GRU(sizes.inputs, sizes.hidden)} for _ in range(networks)]
        ours = [discretize.DiscreteRNN(make(sizes, modules).to(x.device), step, fused="always") for modules in each]
        many = discretize.ensemble(ours)
        many(x)
        facts, parameters = {"engine": many.stats["engine"]}, list(many.parameters())
        whole = CellCandidate(f"{name} in one call", "", lambda x, many=many: many(x)[0], parameters)  # type: ignore[misc]
        jobs += list(_looped(f"{name} in a loop", ours, x, cotangent))
        jobs.append(Job(whole.name, FORWARD, partial(whole.forward, x), facts))
        jobs.append(Job(whole.name, BACKWARD, partial(_gradients, whole, x, cotangent), facts))
    yield from session.rows("ensembles", f"{networks} networks, {sizes}", jobs, 4 * PATIENCE)


def _looped(name: str, modules: Sequence[nn.Module], x: Tensor, cotangent: Tensor) -> Iterator[Job]:
    each = [CellCandidate(name, "", lambda x, m=module: m(x)[0], list(module.parameters())) for module in modules]  # type: ignore[misc]
    pairs = list(zip(each, cotangent.unbind(), strict=True))
    yield Job(name, FORWARD, lambda: [one.forward(x) for one in each])
    yield Job(name, BACKWARD, lambda: [_gradients(one, x, given) for one, given in pairs])


def _gradients(candidate: CellCandidate, x: Tensor, cotangent: Tensor) -> tuple[Tensor, ...]:
    """Differentiate by the parameters."""
    return torch.autograd.grad(candidate.run(x), candidate.parameters, cotangent)


def _packed_candidate(name: str, engine: str, module: nn.Module, packed: PackedSequence) -> CellCandidate:
    """Run a module over the values of a packed batch."""

    def run(x: Tensor) -> Tensor:
        with without_building() if name.endswith(BY_DEFAULT) else nullcontext():
            output: Tensor = module(packed._replace(data=x))[0].data
        return output

    return CellCandidate(name, engine, run, list(module.parameters()))


def _jobs(found: Sequence[CellCandidate], x: Tensor, works: Sequence[str] = WORKS, /, **facts: object) -> Iterator[Job]:
    cotangent = torch.randn_like(found[0].forward(x))
    for candidate, work in product(found, works):
        run = partial(candidate.forward, x) if work == FORWARD else partial(candidate.backward, x, cotangent)
        yield Job(candidate.name, work, run, {"engine": candidate.engine, **facts})


def samples(sizes: CellSizes, device: str = "cpu", dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw a random input (time, batch, input)."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(sizes.time, sizes.batch, sizes.inputs, generator=generator, dtype=dtype).to(device)


def cell_candidates(session: Session, sizes: CellSizes, x: Tensor, fields: Sequence[str] = tuple(FIELDS)) -> list[CellCandidate]:
    """Make torch's GRU and the counterparts of the fields, and every field by every engine that has it; weights of seed 0."""
    torch.manual_seed(0)
    modules = {name: kind(sizes.inputs, sizes.hidden).to(x) for name, kind in KINDS.items()}
    found = []
    if "torch" in session.peers:
        wanted = {"GRU", *(COUNTERPARTS[name] for name in fields if name in COUNTERPARTS)}
        found += [_module(name, rnn) for name, rnn in modules.items() if name in wanted]
    if "loop" in session.peers:
        found.append(_loop(modules["GRU"]))
    for name in fields:
        make, step = FIELDS[name]
        field = make(sizes, modules).to(x)
        for engine in ENGINES:
            run = cell_engine(field, step, engine, x)
            if isinstance(run, str):
                session.skip(f"cells: {name}, {engine}", run)
            else:
                found.append(CellCandidate(f"{name}, {engine}", engine, run, list(field.parameters())))
    return found


def cell_engine(field: ctrnn.VectorField, step: discretize.Step, engine: str, x: Tensor) -> Callable[[Tensor], Tensor] | str:
    """Return a function x (time, batch, input) -> output (time, batch, hidden) of that engine, or why there is none."""
    rnn = discretize.DiscreteRNN(field, step, fused="always" if engine == COMPILED else False)

    def run(x: Tensor) -> Tensor:
        return rnn(x)[0]

    with torch.no_grad():
        run(x[:, :2])  # compiles, if the engine does, and if there are steps enough
    return wrong_engine(rnn.stats, engine) or run


def by_default(name: str, sizes: CellSizes, x: Tensor) -> CellCandidate:
    """Make a field's run as it is called by default, while no kernel is there and calls have not paid for one; weights of
    seed 0."""
    torch.manual_seed(0)
    make, step = FIELDS[name]
    field = make(sizes, {kind: module(sizes.inputs, sizes.hidden) for kind, module in KINDS.items()}).to(x)
    field.__class__ = _without_kernel(type(field))
    rnn = discretize.DiscreteRNN(field, step)

    def run(x: Tensor) -> Tensor:
        with without_building():
            return rnn(x)[0]

    with torch.no_grad():
        run(x[:, :2])
    return CellCandidate(f"{name}, {BY_DEFAULT}", rnn.stats["engine"], run, list(field.parameters()))


def _without_kernel(kind: type) -> type:
    """Make a class of the same code, which no kernel has been made for."""
    return type(kind.__name__, (kind,), {})


def _module(name: str, rnn: nn.RNNBase) -> CellCandidate:
    return CellCandidate(f"torch.nn.{name}", "torch", lambda x: rnn(x)[0], list(rnn.parameters()))


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
