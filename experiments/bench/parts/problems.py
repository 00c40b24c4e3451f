r"""Equations that are solved: fields on held inputs, one stiff sample among quiet ones, and one equation from many starts.

    gated    the gated field on noise, float64
    stiff    dh/dt = e^z (tanh(Wx x + Wh h + b) - h),  z the last input: 0 for quiet samples, log 400 for the stiff one
    delayed  dh/dt = tanh(W h(t - 1)) - h, float32, from a state that was held before
    Lorenz   dx/dt = 10 (y - x),   dy/dt = x (28 - z) - y,   dz/dt = x y - 8/3 z,   from t = 0 to 1, without input

Where all samples share their steps, all of them take those of the stiff one. An evaluation of Lorenz's equation is a few
additions, so that what is compared there is the solver itself.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import ctrnn
import discretize
from experiments.bench.parts.cells import FIELDS, CellSizes, samples

__all__ = [
    "VARIANTS",
    "Lorenz",
    "BenchProblem",
    "StiffSizes",
    "delayed",
    "edges",
    "gated",
    "lorenz",
    "own",
    "stiff_problem",
    "with_a_stiff_sample",
]

VARIANTS = {"without": slice(1, None), "with": slice(0, None), "alone": slice(0, 1)}  # samples of the batch
EXACT: dict[str, Any] = {"method": "dopri8", "rtol": 1e-11, "atol": 1e-12, "fused": False}  # none of those compared


@dataclass(frozen=True)
class BenchProblem:
    """A field, its held input (None without one), an initial state and times; the states then, solved far more tightly; the
    tensors gradients are taken to; and the largest error of a candidate that is compared."""

    name: str
    field: Any  # a VectorField, or one with delays
    xs: Any
    h0: Tensor
    times: Tensor
    exact: Tensor
    variables: list[Tensor]
    target: float = 1e-6

    @property
    def path(self) -> ctrnn.Path | None:
        return None if self.xs is None else ctrnn.HeldPath(self.xs)

    def error(self, hs: Tensor) -> float:
        return float((hs.to(self.exact) - self.exact).abs().max())


def edges(xs: Tensor) -> Tensor:
    """Return the times at which the samples of a held input begin and end."""
    return torch.arange(len(xs) + 1, dtype=torch.float64, device=xs.device)


def _on(name: str, field: ctrnn.VectorField, xs: Tensor, device: str) -> BenchProblem:
    """Pose a field on a held input."""
    field, xs = field.to(device), xs.to(device)
    h0 = field.initial_state(xs.shape[1])
    with torch.no_grad():
        solved = discretize.integrate(field, ctrnn.HeldPath(xs), h0, edges(xs), **EXACT)
    return BenchProblem(name, field, xs, h0, edges(xs), solved.hs, list(field.parameters()))


def gated(time: int, batch: int, hidden: int, inputs: int = 10, device: str = "cpu") -> BenchProblem:
    generator = torch.Generator().manual_seed(0)
    field = ctrnn.gated(inputs, hidden, dtype=torch.float64, generator=generator)
    xs = torch.randn(time, batch, inputs, dtype=torch.float64, generator=generator)
    return _on(f"T {time}, B {batch}, I {inputs}, H {hidden}", field, xs, device)


def own(name: str, time: int, batch: int, hidden: int, inputs: int = 10, device: str = "cpu") -> BenchProblem:
    """Pose a field of the cells' comparison that kernels know by its code alone."""
    torch.manual_seed(0)
    sizes = CellSizes(time, batch, inputs, hidden)
    return _on(f"{name}, {sizes}", FIELDS[name][0](sizes, {}).double(), samples(sizes, dtype=torch.float64), device)


class Lorenz(ctrnn.VectorField):
    """Lorenz's equation of 1963 as a field without input."""

    def __init__(self) -> None:
        super().__init__(0, 3)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        x, y, z = h.unbind(-1)
        return torch.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)


def lorenz(batch: int, device: str = "cpu") -> BenchProblem:
    """Pose Lorenz's equation from starts around the middle of the attractor, with a standard deviation of 5 in each direction."""
    dice = torch.Generator().manual_seed(0)
    h0 = 5 * torch.randn(batch, 3, dtype=torch.float64, generator=dice) + torch.tensor([0, 0, 25], dtype=torch.float64)
    h0, times = h0.to(device).requires_grad_(), torch.tensor([0.0, 1.0], dtype=torch.float64, device=device)
    with torch.no_grad():
        exact = discretize.integrate(Lorenz(), None, h0, times, **EXACT | {"atol": 1e-11}).hs
    # The largest error of all starts and coordinates, which are up to 40; some neighbours part by e^4 until the end.
    return BenchProblem(f"Lorenz, {batch:,} starts", Lorenz(), None, h0, times, exact, [h0], target=5e-3)


class Late(ctrnn.DelayedField):
    """A network that hears itself a unit of time ago."""

    def __init__(self, hidden: int) -> None:
        super().__init__(0, hidden, [1.0])
        draw = torch.Generator().manual_seed(0)
        self.weight = torch.nn.Parameter(1.5 * torch.randn(hidden, hidden, generator=draw, dtype=torch.float32) / hidden**0.5)

    def flow(self, projected: Tensor, h: Tensor, past: tuple[Tensor, ...]) -> Tensor:
        return torch.tanh(past[0] @ self.weight.T) - h


def delayed(time: int, batch: int, hidden: int, device: str = "cpu") -> BenchProblem:
    draw = torch.Generator().manual_seed(1)
    h0, field = torch.randn(batch, hidden, generator=draw, dtype=torch.float32).to(device), Late(hidden).to(device)
    times = torch.tensor([0.0, time], dtype=torch.float64, device=device)
    with torch.no_grad():
        exact = discretize.integrate(deepcopy(field).double(), None, h0.double(), times, rtol=1e-9, atol=1e-10).hs
    name = f"a delay of 1, T {time}, B {batch}, H {hidden}"
    return BenchProblem(name, field, None, h0, times, exact, list(field.parameters()), target=1e-4)


def stiff_problem(ratio: float, time: int, batch: int, hidden: int, device: str = "cpu") -> BenchProblem:
    """Pose a leaky field whose rates go from 1 to `ratio`, evenly in their logarithm."""
    generator = torch.Generator().manual_seed(0)
    field: Any = ctrnn.leaky(4, hidden, alpha=1.0, per_unit=True, dtype=torch.float64, generator=generator)
    with torch.no_grad():
        field.rate.log_alpha.copy_(torch.linspace(0, math.log(ratio), hidden, dtype=torch.float64))
    xs = torch.randn(time, batch, 4, dtype=torch.float64, generator=generator)
    return _on(f"rates 1 to {ratio:g}, T {time}, B {batch}, H {hidden}", field, xs, device)


@dataclass(frozen=True)
class StiffSizes:
    """Sizes of the batch and of the field, and the rate of the stiff sample."""

    time: int
    batch: int
    hidden: int
    rate: float = 400.0

    def __str__(self) -> str:
        return f"one sample of rate {self.rate:g} among {self.batch}, T {self.time}, H {self.hidden}"


def with_a_stiff_sample(sizes: StiffSizes, device: str = "cpu") -> dict[str, BenchProblem]:
    """Pose the same field on the batch without its stiff sample, with it, and on that one alone."""
    generator = torch.Generator().manual_seed(0)
    field: Any = ctrnn.gated(4, sizes.hidden, rate="exponential", dtype=torch.float64, generator=generator)
    with torch.no_grad():
        for weights in (field.rate.weight_x, field.rate.weight_h, field.rate.bias, field.candidate.weight_x[:, -1]):
            weights.zero_()
        field.rate.weight_x[:, -1] = 1.0
    xs = torch.randn(sizes.time, sizes.batch, 4, dtype=torch.float64, generator=generator)
    xs[..., -1] = 0.0
    xs[:, 0, -1] = math.log(sizes.rate)
    whole = _on(str(sizes), field, xs, device)
    return {
        variant: replace(whole, xs=xs.to(device)[:, part], h0=whole.h0[part], exact=whole.exact[:, part])
        for variant, part in VARIANTS.items()
    }
