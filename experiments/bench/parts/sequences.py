r"""The same sequence, float32, by other calls: a tutorial's loop, every door, layers, ensembles, noise.

tutorial    a loop over Euler steps as tutorials have it, and what `discretize.from_ctrnn` reads of it
doors       one Euler run of the same weights by every call that can make it: what each adds to the kernel
layers      two layers of torch's GRU and LSTM in both directions, on a packed batch, and the same converted
ensembles   networks of one size on the same samples: one after another, and by `discretize.ensemble`
noise       dh = alpha (tanh(Wx x + Wh h + b) - h) dt + sigma dW, Euler and Maruyama's step, dt = 1: one map for everyone;
            noise is drawn anew at each call, and gradients are taken to sigma, too
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import ctrnn
import discretize
from experiments.bench.parts.cells import (
    BY_DEFAULT,
    FIELDS,
    KINDS,
    CellCandidate,
    CellSizes,
    SequenceCandidate,
    by_engine,
    samples,
    sequence_rows,
    set_engine,
)
from experiments.bench.peers.registry import of_peers
from experiments.bench.rows import BACKWARD, FORWARD, Row
from experiments.bench.session import COMPILED, ENGINES, Job, Session
from experiments.models.tutorial import TutorialLoop

__all__ = ["Weights", "door_rows", "ensemble_rows", "layer_rows", "noise_candidates", "noise_rows", "tutorial_rows"]


def tutorial_rows(session: Session, sizes: CellSizes) -> Iterator[Row]:
    """Time the loop, and what is read of it by each engine."""
    torch.manual_seed(0)
    x = samples(sizes, session.device)
    loop = TutorialLoop(sizes.inputs, sizes.hidden).to(x)
    candidates = [CellCandidate("the tutorial's loop", "torch", loop, list(loop.parameters()))]
    for engine in ENGINES:
        one = by_engine("`from_ctrnn`", engine, discretize.from_ctrnn(loop, form="rates"), x[:2])
        if isinstance(one, str):
            session.skip(f"tutorial: {engine}", one)
        else:
            candidates.append(one)
    yield from sequence_rows(session, "tutorial", str(sizes), candidates, x, 5.0)


def door_rows(session: Session, sizes: CellSizes) -> Iterator[Row]:
    """Time all doors."""
    x = samples(sizes, session.device)
    field = ctrnn.gated(sizes.inputs, sizes.hidden, generator=torch.Generator().manual_seed(0)).to(x)
    h0, ts = x.new_zeros(sizes.batch, sizes.hidden), torch.arange(sizes.time + 1, dtype=torch.float64)
    fused: dict[str, Any] = {"fused": "always"}  # else what a call takes at first decides which engine it has later
    euler: dict[str, Any] = {"method": discretize.Euler(), "max_step": 1.0, **fused}
    rnn, cell = discretize.DiscreteRNN(field, **fused), discretize.DiscreteCell(field)
    ensemble = discretize.ensemble([rnn])
    modules: dict[str, nn.Module] = {
        "`DiscreteRNN`": rnn,
        "`ContinuousRNN`, `method=Euler()`": discretize.ContinuousRNN(field, **euler),
        '`ContinuousRNN`, `method="euler"`': discretize.ContinuousRNN(field, **euler | {"method": "euler"}),
        "`Layers` of one": discretize.Layers([rnn]),
    }
    calls: dict[str, Callable[[Tensor], Tensor]] = {
        "`unroll`": lambda x: discretize.unroll(cell, x, h0, **fused).hs[1:],
        "`integrate`": lambda x: discretize.integrate(field, ctrnn.HeldPath(x, ts), h0, ts, **euler).hs[1:],
    }
    candidates = [CellCandidate.of(name, "", module) for name, module in modules.items()]
    candidates += [CellCandidate(name, "", call, list(field.parameters())) for name, call in calls.items()]
    candidates.append(CellCandidate("`ensemble` of one", "", lambda x: ensemble(x)[0][0], list(ensemble.parameters())))
    yield from sequence_rows(session, "doors", str(sizes), candidates, x, 20.0)


def layer_rows(session: Session, sizes: CellSizes) -> Iterator[Row]:
    """Time torch's layers, and the same converted, by kernels and as they are called at first."""
    if "torch" not in session.peers:
        session.skip("layers", "they are compared with torch.nn's")
        return
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint((sizes.time + 1) // 2, sizes.time + 1, (sizes.batch,), generator=generator)
    lengths[0] = sizes.time
    packed = pack_padded_sequence(samples(sizes, session.device), lengths, enforce_sorted=False)
    for kind in ("GRU", "LSTM"):
        torch.manual_seed(0)
        theirs = KINDS[kind](sizes.inputs, sizes.hidden, num_layers=2, bidirectional=True).to(packed.data)
        ways = {f"{kind} by `discretize.from_torch`": COMPILED, f"{kind}, {BY_DEFAULT}": BY_DEFAULT}
        modules: dict[str, Any] = {f"torch.nn.{kind}": theirs, **{name: discretize.from_torch(theirs) for name in ways}}
        candidates = []
        for name, module in modules.items():
            run = partial(_packed_output, module, set_engine(module, ways.get(name, "torch")), packed)
            run(packed.data)
            engine = getattr(module, "stats", {"engine": "torch"})["engine"]
            candidates.append(CellCandidate(name, engine, run, list(module.parameters())))
        yield from sequence_rows(session, "layers", f"{kind}, {sizes}", candidates, packed.data, 2.5)


def _packed_output(module: nn.Module, context: Callable[[], Any], packed: PackedSequence, x: Tensor) -> Tensor:
    with context():
        output: Tensor = module(packed._replace(data=x))[0].data
    return output


def ensemble_rows(session: Session, sizes: CellSizes, networks: int) -> Iterator[Row]:
    """Time networks one after another and all in one call; gradients are taken to their parameters."""
    x = samples(sizes, session.device)
    cotangent = torch.randn(networks, sizes.time, sizes.batch, sizes.hidden, device=x.device)
    jobs: list[Job] = []

    def time(name: str, modules: Sequence[nn.Module], given: Sequence[Tensor], **facts: object) -> None:
        each = [CellCandidate.of(name, "", module) for module in modules]
        pairs = [*zip(each, given, strict=True)]
        jobs.append(Job(name, FORWARD, lambda: [one.forward(x) for one in each], facts))
        jobs.append(Job(name, BACKWARD, lambda: [torch.autograd.grad(a.run(x), a.parameters, g) for a, g in pairs], facts))

    if "torch" in session.peers:
        theirs = [nn.GRU(sizes.inputs, sizes.hidden).to(x.device) for _ in range(networks)]
        time("torch.nn.GRU in a loop", theirs, cotangent.unbind())
    for name in ("gated", "GRU", "gated, in code of one's own"):
        make, step = FIELDS[name]
        fields = (make(sizes, {"GRU": nn.GRU(sizes.inputs, sizes.hidden)}).to(x.device) for _ in range(networks))
        ours = [discretize.DiscreteRNN(field, step, fused="always") for field in fields]
        many = discretize.ensemble(ours)
        many(x)
        time(f"{name} in a loop", ours, cotangent.unbind())
        time(f"{name} in one call", [many], [cotangent], engine=many.stats["engine"])
    yield from session.rows("ensembles", f"{networks} networks, {sizes}", jobs, patience=10.0)


class Weights(NamedTuple):
    """What gradients are taken to, beside x, in a network with noise."""

    weight_x: nn.Parameter
    weight_h: nn.Parameter
    bias: nn.Parameter
    log_alpha: nn.Parameter
    sigma: nn.Parameter


def noise_candidates(session: Session, sizes: CellSizes, x: Tensor) -> tuple[list[SequenceCandidate], Weights]:
    """Make ours and those of the peers, and the weights that all of them have, of seed 0."""
    network: Any = ctrnn.leaky(sizes.inputs, sizes.hidden, generator=torch.Generator().manual_seed(0)).to(x)
    noisy = ctrnn.Noisy(network, ctrnn.Noise(0.1))
    candidate, sigma = network.candidate, dict(noisy.named_parameters())["noise.sigma"]
    weights = Weights(candidate.weight_x, candidate.weight_h, candidate.bias, network.rate.log_alpha, sigma)
    steps: list[tuple[str, ctrnn.VectorField, discretize.Step, Sequence[nn.Parameter]]] = [
        ("`EulerMaruyama`", noisy, discretize.EulerMaruyama(), weights),
        ("`Euler`, no noise", network, discretize.Euler(), weights[:-1]),
    ]
    candidates: list[SequenceCandidate] = []
    for name, field, step, learned in steps:
        for engine in ENGINES:
            one = by_engine(name, engine, discretize.DiscreteRNN(field, step), x[:, :2])
            if isinstance(one, str):
                session.skip(f"noise: {name}, {engine}", one)
            else:
                candidates.append(replace(one, parameters=list(learned)))
    if "loop" in session.peers:
        candidates.append(CellCandidate("loop in torch, `randn`", "torch", partial(_noisy_loop, weights), list(weights)))
    return [*candidates, *of_peers(session, "noise", weights)], weights


def noise_rows(session: Session, sizes: CellSizes) -> Iterator[Row]:
    """Time ours, and those of the peers."""
    x = samples(sizes, session.device)
    yield from sequence_rows(session, "noise", str(sizes), noise_candidates(session, sizes, x)[0], x, 10.0)


def _noisy_loop(weights: Weights, x: Tensor) -> Tensor:
    """The recurrence as one writes it in torch, its normal numbers drawn in one call."""
    alpha, pulled = weights.log_alpha.exp(), x @ weights.weight_x.T + weights.bias
    h, hs = x.new_zeros(x.shape[1], len(weights.bias)), []
    for drive, noise in zip(pulled, weights.sigma * torch.randn_like(pulled), strict=True):
        h = h + alpha * (torch.tanh(drive + h @ weights.weight_h.T) - h) + noise
        hs.append(h)
    return torch.stack(hs)
