r"""A rate network with noise over a sequence, float32: by every engine, without its noise, in a loop, and by other libraries.

dh = alpha (tanh(Wx x + Wh h + b) - h) dt + sigma dW      Euler and Maruyama's step, dt = 1: the same map for everyone

forward              states for (T, B, I, H), noise drawn anew at each call
forward + backward   and gradients to x, to every weight and to sigma
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

import ctrnn
import discretize
from experiments.bench.parts.cells import CellCandidate, CellSizes, cell_engine, samples
from experiments.bench.rows import BACKWARD, FORWARD, Row
from experiments.bench.session import ENGINES, Job, Session

__all__ = ["NoisyCandidate", "Weights", "noise_candidates", "noise_rows", "torch_loop"]

PATIENCE = 10.0  # seconds


NAMES = (
    "field.candidate.weight_x",
    "field.candidate.weight_h",
    "field.candidate.bias",
    "field.rate.log_alpha",
    "noise.sigma",
)


class Weights(NamedTuple):
    """What gradients are taken to, beside x."""

    weight_x: nn.Parameter
    weight_h: nn.Parameter
    bias: nn.Parameter
    log_alpha: nn.Parameter
    sigma: nn.Parameter


class NoisyCandidate(Protocol):
    """A way to run the network: states (time, batch, hidden), or gradients to x and to the weights, in their order."""

    @property
    def name(self) -> str: ...
    def forward(self, x: Tensor) -> Tensor: ...
    def backward(self, x: Tensor, cotangent: Tensor) -> Sequence[Tensor]: ...


Peers = Callable[[Session, Weights], Sequence[NoisyCandidate]]


def noise_rows(session: Session, sizes: CellSizes, peers: Peers) -> Iterator[Row]:
    """Time ours, and those of the peers, in the same rounds."""
    x = samples(sizes, session.device)
    cotangent, jobs = torch.randn(sizes.time, sizes.batch, sizes.hidden, device=x.device), []
    for candidate in noise_candidates(session, sizes, x, peers)[0]:
        jobs.append(Job(candidate.name, FORWARD, partial(candidate.forward, x)))
        jobs.append(Job(candidate.name, BACKWARD, partial(candidate.backward, x, cotangent)))
    yield from session.rows("noise", str(sizes), jobs, PATIENCE)


def noise_candidates(session: Session, sizes: CellSizes, x: Tensor, peers: Peers) -> tuple[list[NoisyCandidate], Weights]:
    """Make ours and those of the peers, and the weights that all of them have, of seed 0."""
    network = ctrnn.leaky(sizes.inputs, sizes.hidden, generator=torch.Generator().manual_seed(0)).to(x)
    noisy = ctrnn.Noisy(network, ctrnn.Noise(0.1))
    of = dict(noisy.named_parameters())
    weights = Weights(*(of[name] for name in NAMES))
    steps: list[tuple[str, ctrnn.VectorField, discretize.Step, Sequence[nn.Parameter]]] = [
        ("`EulerMaruyama`", noisy, discretize.EulerMaruyama(), weights),
        ("`Euler`, no noise", network, discretize.Euler(), weights[:-1]),
    ]
    found: list[NoisyCandidate] = []
    for name, field, step, learned in steps:
        for engine in ENGINES:
            run = cell_engine(field, step, engine, x)
            if isinstance(run, str):
                session.skip(f"noise: {name}, {engine}", run)
            else:
                found.append(CellCandidate(f"{name}, {engine}", engine, run, list(learned)))
    return [*found, *peers(session, weights)], weights


def torch_loop(weights: Weights) -> CellCandidate:
    """The recurrence as one writes it in torch, its normal numbers drawn in one call."""

    def run(x: Tensor) -> Tensor:
        alpha, pulled = weights.log_alpha.exp(), x @ weights.weight_x.T + weights.bias
        h, hs = x.new_zeros(x.shape[1], len(weights.bias)), []
        for drive, noise in zip(pulled, weights.sigma * torch.randn_like(pulled), strict=True):
            h = h + alpha * (torch.tanh(drive + h @ weights.weight_h.T) - h) + noise
            hs.append(h)
        return torch.stack(hs)

    return CellCandidate("loop in torch, `randn`", "torch", run, list(weights))
