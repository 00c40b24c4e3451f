r"""torchsde: a rate network with noise by `sdeint`, the input projected once and found in the field.

as it is given      a Brownian motion made at each call, without a hint
`dt` said           `BrownianInterval(dt=1)`, whose tree is laid out for that step

Gradients go through the steps, which took less time here than `sdeint_adjoint`.
"""

from __future__ import annotations

from functools import partial

import torch
import torchsde
from torch import Tensor

from experiments.bench.parts.cells import CellCandidate
from experiments.bench.parts.sequences import Weights

__all__ = ["CANDIDATES"]


class _Network:
    noise_type, sde_type = "diagonal", "ito"

    def __init__(self, weights: Weights, x: Tensor) -> None:
        self.weights, self.alpha = weights, weights.log_alpha.exp()
        self.pulled = (x @ weights.weight_x.T + weights.bias).unbind(0)

    def f(self, t: Tensor, h: Tensor) -> Tensor:
        return self.alpha * (torch.tanh(self.pulled[int(t)] + h @ self.weights.weight_h.T) - h)

    def g(self, t: Tensor, h: Tensor) -> Tensor:
        return self.weights.sigma.expand_as(h)


def _run(weights: Weights, hint: float | None, x: Tensor) -> Tensor:
    h, ts = x.new_zeros(x.shape[1], len(weights.bias)), torch.arange(len(x) + 1.0).to(x)
    motion = (
        None
        if hint is None
        else torchsde.BrownianInterval(0.0, float(len(x)), tuple(h.shape), dtype=x.dtype, device=x.device, dt=hint)
    )
    hs: Tensor = torchsde.sdeint(_Network(weights, x), h, ts, bm=motion, method="euler", dt=1.0)
    return hs[1:]


def _noisy(weights: Weights) -> list[CellCandidate]:
    """Euler's method, that of Maruyama."""
    hints = {"torchsde euler": None, "torchsde euler, `BrownianInterval(dt=1)`": 1.0}
    return [CellCandidate(name, "torch", partial(_run, weights, hint), list(weights)) for name, hint in hints.items()]


CANDIDATES = {"noise": _noisy}
