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
from typing import Any, ClassVar

import torch
from torch import Tensor

import ctrnn
import discretize
from experiments.bench.parts.cells import FIELDS, CellSizes, samples

__all__ = ["VARIANTS", "Delayed", "Late", "Lorenz", "Problem", "Starts", "StiffSizes", "batches", "edges", "stiff_problem"]

VARIANTS = {"without": slice(1, None), "with": slice(0, None), "alone": slice(0, 1)}  # samples of the batch


@dataclass(frozen=True)
class Problem:
    """A field, its held input and an initial state; and the states after each sample, solved far more tightly."""

    name: str
    field: Any  # a VectorField, or one with delays
    xs: Tensor
    h0: Tensor
    exact: Tensor

    @classmethod
    def of(cls, name: str, field: ctrnn.VectorField, xs: Tensor) -> Problem:
        h0 = field.initial_state(xs.shape[1])
        settings: dict[str, Any] = {"method": "dopri8", "rtol": 1e-11, "atol": 1e-12}
        with torch.no_grad():  # step by step: the reference is none of those compared
            solved = discretize.integrate(field, ctrnn.HeldPath(xs), h0, edges(xs), fused=False, **settings)
        return cls(name, field, xs, h0, solved.hs)

    @classmethod
    def gated(cls, time: int, batch: int, hidden: int, inputs: int = 10, device: str = "cpu") -> Problem:
        generator = torch.Generator().manual_seed(0)
        field = ctrnn.gated(inputs, hidden, dtype=torch.float64, generator=generator)
        xs = torch.randn(time, batch, inputs, dtype=torch.float64, generator=generator)
        return cls.of(f"T {time}, B {batch}, I {inputs}, H {hidden}", field.to(device), xs.to(device))

    @classmethod
    def own(cls, name: str, time: int, batch: int, hidden: int, inputs: int = 10, device: str = "cpu") -> Problem:
        """A field of the cells' comparison that kernels know by its code alone."""
        torch.manual_seed(0)
        field = FIELDS[name][0](CellSizes(time, batch, inputs, hidden), {}).double()
        xs = samples(CellSizes(time, batch, inputs, hidden), device, torch.float64)
        return cls.of(f"{name}, T {time}, B {batch}, I {inputs}, H {hidden}", field.to(device), xs)

    def error(self, hs: Tensor) -> float:
        return float((hs.to(self.exact) - self.exact).abs().max())

    @property
    def path(self) -> ctrnn.Path | None:
        return ctrnn.HeldPath(self.xs)

    @property
    def times(self) -> Tensor:
        return edges(self.xs)

    @property
    def variables(self) -> list[Tensor]:
        """What gradients are taken to."""
        return list(self.field.parameters())


def edges(xs: Tensor) -> Tensor:
    """Return the times at which the samples of a held input begin and end."""
    return torch.arange(len(xs) + 1, dtype=torch.float64, device=xs.device)


class Lorenz(ctrnn.VectorField):
    """Lorenz's equation of 1963 as a field without input."""

    def __init__(self) -> None:
        super().__init__(0, 3)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        x, y, z = h.unbind(-1)
        return torch.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)


@dataclass(frozen=True)
class Starts(Problem):
    """The states at the start and at the end."""

    path = None
    # The largest error of all starts and coordinates, which are up to 40; some neighbours part by e^4 until the end.
    target: ClassVar[float] = 5e-3

    @classmethod
    def lorenz(cls, batch: int, device: str = "cpu") -> Starts:
        """Starts drawn around the middle of the attractor, with a standard deviation of 5 in each direction."""
        dice = torch.Generator().manual_seed(0)
        h0 = 5 * torch.randn(batch, 3, dtype=torch.float64, generator=dice) + torch.tensor([0, 0, 25], dtype=torch.float64)
        h0, field = h0.to(device).requires_grad_(), Lorenz()
        found = cls(f"Lorenz, {batch:,} starts", field, h0.new_empty(0), h0, h0)
        with torch.no_grad():  # by another method and step by step: it is none of those compared
            exact = discretize.integrate(field, None, h0, found.times, method="dopri8", rtol=1e-11, atol=1e-11, fused=False)
        return cls(found.name, field, found.xs, h0, exact.hs)

    @property
    def times(self) -> Tensor:
        return torch.tensor([0.0, 1.0], dtype=torch.float64, device=self.h0.device)

    @property
    def variables(self) -> list[Tensor]:
        return [self.h0]


class Late(ctrnn.DelayedField):
    """A network that hears itself a unit of time ago."""

    def __init__(self, hidden: int) -> None:
        super().__init__(0, hidden, [1.0])
        draw = torch.Generator().manual_seed(0)
        self.weight = torch.nn.Parameter(1.5 * torch.randn(hidden, hidden, generator=draw, dtype=torch.float32) / hidden**0.5)

    def flow(self, projected: Tensor, h: Tensor, past: tuple[Tensor, ...]) -> Tensor:
        return torch.tanh(past[0] @ self.weight.T) - h


@dataclass(frozen=True)
class Delayed(Starts):
    """The states at the start and at the end of a network with a delay."""

    target: ClassVar[float] = 1e-4
    end: float = 1.0

    @classmethod
    def network(cls, time: int, batch: int, hidden: int, device: str = "cpu") -> Delayed:
        draw = torch.Generator().manual_seed(1)
        h0, field = torch.randn(batch, hidden, generator=draw, dtype=torch.float32).to(device), Late(hidden).to(device)
        ends = torch.tensor([0.0, time], dtype=torch.float64, device=device)
        with torch.no_grad():
            exact = discretize.integrate(deepcopy(field).double(), None, h0.double(), ends, rtol=1e-9, atol=1e-10)
        name = f"a delay of 1, T {time}, B {batch}, H {hidden}"
        return cls(name, field, h0.new_empty(0), h0, exact.hs, end=float(time))

    @property
    def times(self) -> Tensor:
        return torch.tensor([0.0, self.end], dtype=torch.float64, device=self.h0.device)

    @property
    def variables(self) -> list[Tensor]:
        return list(self.field.parameters())


def stiff_problem(ratio: float, time: int, batch: int, hidden: int, device: str = "cpu") -> Problem:
    """Make a leaky field whose rates go from 1 to `ratio`, evenly in their logarithm."""
    generator = torch.Generator().manual_seed(0)
    field: Any = ctrnn.leaky(4, hidden, alpha=1.0, per_unit=True, dtype=torch.float64, generator=generator)
    with torch.no_grad():
        field.rate.log_alpha.copy_(torch.linspace(0, math.log(ratio), hidden, dtype=torch.float64))
    xs = torch.randn(time, batch, 4, dtype=torch.float64, generator=generator)
    name = f"rates 1 to {ratio:g}, T {time}, B {batch}, H {hidden}"
    return Problem.of(name, field.to(device), xs.to(device))


@dataclass(frozen=True)
class StiffSizes:
    """Sizes of the batch and of the field, and the rate of the stiff sample."""

    time: int
    batch: int
    hidden: int
    rate: float = 400.0

    def __str__(self) -> str:
        return f"one sample of rate {self.rate:g} among {self.batch}, T {self.time}, H {self.hidden}"


def batches(sizes: StiffSizes, device: str = "cpu") -> dict[str, Problem]:
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
    whole = Problem.of(str(sizes), field.to(device), xs.to(device))
    return {
        variant: replace(whole, xs=whole.xs[:, part], h0=whole.h0[part], exact=whole.exact[:, part])
        for variant, part in VARIANTS.items()
    }
