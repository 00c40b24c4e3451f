r"""The network of a tutorial, a loop over Euler steps, and what `discretize.from_ctrnn` reads: the same weights, float32.

h <- (1 - dt/tau) h + dt/tau relu(Wx x + bx + Wh h + bh)      dt/tau = 0.2, as in the tutorial's perceptual decisions
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

import discretize
from experiments.bench.parts.cells import CellCandidate, CellSizes, samples
from experiments.bench.rows import BACKWARD, FORWARD, Row
from experiments.bench.session import COMPILED, ENGINES, Job, Session, wrong_engine
from experiments.models.tutorial import TutorialLoop

__all__ = ["tutorial_rows"]

PATIENCE = 5.0  # seconds


def _output(rnn: discretize.DiscreteRNN, x: Tensor) -> Tensor:
    return rnn(x)[0]


def tutorial_rows(session: Session, sizes: CellSizes) -> Iterator[Row]:
    """Time the loop, and what is read of it by each engine, in the same rounds."""
    torch.manual_seed(0)
    x = samples(sizes, session.device)
    loop = TutorialLoop(sizes.inputs, sizes.hidden).to(x)
    found = [CellCandidate("the tutorial's loop", "torch", loop, list(loop.parameters()))]
    for engine in ENGINES:
        rnn = discretize.from_ctrnn(loop, form="rates")
        assert isinstance(rnn, discretize.DiscreteRNN)
        rnn.fused = "always" if engine == COMPILED else False
        rnn(x[:2])  # compiles
        if why := wrong_engine(rnn.stats, engine):
            session.skip(f"tutorial: {engine}", why)
            continue
        found.append(CellCandidate(f"`from_ctrnn`, {engine}", engine, partial(_output, rnn), list(rnn.parameters())))
    cotangent = torch.randn(sizes.time, sizes.batch, sizes.hidden, device=x.device)
    jobs = [Job(one.name, FORWARD, partial(one.forward, x), {"engine": one.engine}) for one in found]
    jobs += [Job(one.name, BACKWARD, partial(one.backward, x, cotangent), {"engine": one.engine}) for one in found]
    yield from session.rows("tutorial", str(sizes), jobs, PATIENCE)
