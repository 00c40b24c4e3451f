"""The same Euler run of the same weights, one step a sample, by every call that can make it: what each adds to the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor, nn

import ctrnn
import discretize
from experiments.bench.parts.cells import CellCandidate, CellSizes, samples
from experiments.bench.rows import BACKWARD, FORWARD, Row
from experiments.bench.session import Job, Session

__all__ = ["door_rows"]

PATIENCE = 20.0  # seconds


def door_rows(session: Session, sizes: CellSizes) -> Iterator[Row]:
    """Time all doors in the same rounds."""
    x = samples(sizes, session.device)
    field = ctrnn.gated(sizes.inputs, sizes.hidden, generator=torch.Generator().manual_seed(0)).to(x)
    weights = list(field.parameters())
    h0, ts = x.new_zeros(sizes.batch, sizes.hidden), torch.arange(sizes.time + 1, dtype=torch.float64)
    settings = {"fused": "always"}  # else what a call takes at first decides which engine it has later
    euler = {"method": discretize.Euler(), "max_step": 1.0, **settings}
    rnn = discretize.DiscreteRNN(field, **settings)  # type: ignore[arg-type]
    modules: dict[str, nn.Module] = {
        "`DiscreteRNN`": rnn,
        "`ContinuousRNN`, `method=Euler()`": discretize.ContinuousRNN(field, **euler),  # type: ignore[arg-type]
        '`ContinuousRNN`, `method="euler"`': discretize.ContinuousRNN(field, **euler | {"method": "euler"}),  # type: ignore[arg-type]
        "`Layers` of one": discretize.Layers([rnn]),
    }
    ensemble, cell = discretize.ensemble([rnn]), discretize.DiscreteCell(field)

    def unrolled(x: Tensor) -> Tensor:
        return discretize.unroll(cell, x, h0, fused="always").hs[1:]

    def integrated(x: Tensor) -> Tensor:
        return discretize.integrate(field, ctrnn.HeldPath(x, ts), h0, ts, **euler).hs[1:]  # type: ignore[arg-type]

    found = [CellCandidate(name, "", partial(_output, module), weights) for name, module in modules.items()]
    found += [CellCandidate("`unroll`", "", unrolled, weights), CellCandidate("`integrate`", "", integrated, weights)]
    found.append(CellCandidate("`ensemble` of one", "", lambda x: ensemble(x)[0][0], list(ensemble.parameters())))
    cotangent = torch.randn(sizes.time, sizes.batch, sizes.hidden, device=x.device)
    jobs = [Job(one.name, FORWARD, partial(one.forward, x)) for one in found]
    jobs += [Job(one.name, BACKWARD, partial(one.backward, x, cotangent)) for one in found]
    yield from session.rows("doors", str(sizes), jobs, PATIENCE)


def _output(module: nn.Module, x: Tensor) -> Tensor:
    output: Tensor = module(x)[0]
    return output
