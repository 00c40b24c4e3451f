r"""What `method="torchdiffeq:dopri5"` costs beside torchdiffeq called by hand for each held sample, with the same numbers.

python -m experiments.bench.peers.by_hand
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torchdiffeq
from torch import Tensor

import ctrnn
from discretize import ContinuousRNN
from experiments.bench import rows
from experiments.bench.session import interleaved

__all__ = ["by_engine", "by_hand", "ratio"]

TOLERANCE = 1e-4
SIZES = ((1, 8), (32, 32), (32, 128))  # batch, units
Solve = Callable[[ctrnn.VectorField, Tensor, Tensor], Tensor]


def by_hand(field: ctrnn.VectorField, xs: Tensor, h: Tensor) -> Tensor:
    """Solve sample by sample; states (time, batch, units)."""
    ends, hs = torch.tensor([0.0, 1.0], dtype=torch.float64), []
    settings = {"rtol": TOLERANCE, "atol": TOLERANCE, "method": "dopri5", "options": {"step_t": ends[1:]}}
    for projected in field.project(xs).unbind(0):
        h = torchdiffeq.odeint(lambda t, h, projected=projected: field.flow(projected, h), h, ends, **settings)[-1]
        hs.append(h)
    return torch.stack(hs)


def by_engine(field: ctrnn.VectorField, xs: Tensor, h: Tensor) -> Tensor:
    """Solve as `by_hand` does, by `ContinuousRNN`."""
    states: Tensor = ContinuousRNN(field, "torchdiffeq:dopri5", rtol=TOLERANCE, atol=TOLERANCE)(xs, h[None])[0]
    return states


def ratio(field: ctrnn.VectorField, xs: Tensor, backward: bool, rounds: int) -> float:
    """Return the processor time of the engine as a share of that by hand: the median over rounds."""

    def run(solve: Solve) -> None:
        with torch.set_grad_enabled(backward):
            hs = solve(field, xs, field.initial_state(xs.shape[1]))
            if backward:
                torch.autograd.grad(hs.sum(), list(field.parameters()))

    ways = {solve: partial(run, solve) for solve in (by_hand, by_engine)}
    times = interleaved(ways, rounds, patience=math.inf, clock=time.process_time)
    return rows.ratio(times[by_engine], times[by_hand]).median  # type: ignore[union-attr]


def main(words: Sequence[str] | None = None) -> None:
    about = argparse.ArgumentParser(description="Processor time of torchdiffeq by `ContinuousRNN`, as a share of that by hand.")
    about.add_argument("--samples", type=int, default=100)
    about.add_argument("--rounds", type=int, default=20)
    given = about.parse_args(words)
    torch.set_num_threads(1)
    print("| batch | units | forward | forward and backward |\n|---|---|---|---|")
    for batch, units in SIZES:
        field = ctrnn.gated(10, units, generator=torch.Generator().manual_seed(0))
        xs = torch.randn(given.samples, batch, 10, generator=torch.Generator().manual_seed(1))
        cells = (f"{ratio(field, xs, backward, given.rounds):.2f}" for backward in (False, True))
        print(f"| {batch} | {units} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
