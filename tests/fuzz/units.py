r"""Random problems in other units, and beside wild neighbours: the same answers.

units         h -> s h, t -> c t, to the bit where s and c are powers of two
neighbours    a sample beside others of up to 1e8, another field's units beside it, to the tolerance
drop_in       y in float32 beside tensors of any size, against the same in float64
"""

from __future__ import annotations

import torch
from fuzz.dice import Dice, Difference, NoAnswer
from fuzz.fields import random_field
from torch import Tensor
from units import in_units

import ctrnn
import discretize
from discretize.torchdiffeq import odeint, odeint_adjoint

__all__ = ["drop_in", "neighbours", "units"]

METHODS = ("dopri5", "tsit5", "dopri8", "bosh3", "rodas5p", "rk4")
STEPS = (discretize.Euler, discretize.ExponentialEuler, discretize.Heun, discretize.BackwardEuler, discretize.Trapezoid)


def _off(what: str, found: Tensor, expected: Tensor, allowed: float) -> Difference:
    """The largest difference of any unit, in terms of the largest that this unit is, and of 1."""
    size = expected.detach().abs().flatten(0, -2).amax(0).clamp(min=1.0)
    return Difference(what, float(((found - expected).detach().abs() / size).max()), allowed)


def _run(way: object, field: ctrnn.VectorField, xs: Tensor, h0: Tensor, c: float, atol: Tensor) -> Tensor:
    edges = torch.arange(len(xs) + 1.0, dtype=torch.float64) * c
    if isinstance(way, str):
        path, how = ctrnn.HeldPath(xs, edges), {"max_step": 0.25 * c} if way == "rk4" else {"rtol": 1e-6, "atol": atol}
        return discretize.integrate(field, path, h0, edges, method=way, fused=False, **how).hs
    cell = discretize.DiscreteCell(field, step=way, dt=0.3 * c, allow_overshoot=True)
    return discretize.unroll(cell, xs, h0, fused=False).hs


def _problem(dice: Dice) -> tuple[ctrnn.VectorField, Tensor, Tensor, object]:
    field = random_field(dice, 2, torch.float64, smooth=True, own_code=0.0)
    xs, h0 = dice.normal(dice.count("samples", 2, 6), 2, 2), 0.5 * dice.normal(2, field.state_size)
    way = dice.one_of("way", (*METHODS, *(step() for step in STEPS)))
    return field, xs, h0, way


def units(dice: Dice) -> list[Difference]:
    field, xs, h0, way = _problem(dice)
    binary, alike = dice.chance("powers of two", 0.5), dice.chance("one s", 0.5)
    powers = [dice.number(-9, 9) for _ in range(1 + field.state_size)]
    if binary:
        s, c = torch.tensor([2.0 ** round(3 * p) for p in powers[1:]], dtype=torch.float64), 4.0 ** round(1.5 * powers[0])
    else:
        s, c = torch.tensor([10.0**p for p in powers[1:]], dtype=torch.float64), 10.0 ** powers[0]
    s = s[:1].expand_as(s) if alike else s
    one, atol = torch.ones_like(s), 1e-8
    with torch.no_grad():
        expected = _run(way, in_units(field, one), xs, h0, 1.0, atol * one)
        found = _run(way, in_units(field, s, c), xs, h0 * s, c, atol * s) / s
    solves = not (isinstance(way, str) and way == "rk4") and isinstance(way, str)
    direct = alike or way == "rk4" or isinstance(way, str)  # which has no matrix whose pivots depend on the units
    exact = binary and direct and way != "rodas5p"
    return [_off("states", found, expected, 0.0 if exact else 1e-3 if solves else 1e-8)]


def neighbours(dice: Dice) -> list[Difference]:
    field, xs, h0, way = _problem(dice)
    size = 10.0 ** dice.number(-8, 8)
    dice.note(f"neighbour {size:.2g}")
    wild = torch.cat([xs[:, :1], dice.normal(len(xs), 1, 2)], 1)
    atol = torch.full((field.state_size,), 1e-8, dtype=torch.float64)
    beside = torch.cat([h0[:1], h0[1:] * min(size, 1e3)])  # fields of any kind are followed from there
    with torch.no_grad():
        expected = _run(way, field, xs[:, :1], h0[:1], 1.0, atol)
        try:
            found = _run(way, field, wild, beside, 1.0, atol)[:, :1]
        except (discretize.SolverError, discretize.StepError) as error:  # of the neighbour itself, which ends all
            raise NoAnswer from error
    return [_off("a sample", found, expected, 1e-3 if isinstance(way, str) and way != "rk4" else 1e-8)]


def drop_in(dice: Dice) -> list[Difference]:
    width, size = dice.count("units", 1, 4), 10.0 ** dice.number(-8, 8)
    matrix, y0 = dice.normal(width, width), dice.normal(1, width)
    dice.note(f"beside {size:.2g}")
    solver = dice.one_of("solver", {"odeint": odeint, "odeint_adjoint": odeint_adjoint})
    speed, t = dice.number(0.1, 5.0), torch.tensor([0.0, dice.number(0.5, 3.0)], dtype=torch.float64)

    class F(torch.nn.Module):
        def __init__(self, dtype: torch.dtype) -> None:
            super().__init__()
            self.matrix = torch.nn.Parameter((matrix - matrix.mT - 0.2 * torch.eye(width)).to(dtype))

        def forward(self, t: Tensor, y: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            return torch.tanh(y[0] @ self.matrix.mT), -speed * y[1]

    answers = []
    for dtype in (torch.float64, torch.float32):
        f = F(dtype)
        hs = solver(f, (y0.to(dtype), torch.full((1, 2), size, dtype=dtype)), t, rtol=1e-5, atol=1e-7)
        hs[0][-1].sum().backward()
        answers.append((hs[0][-1].detach().double(), f.matrix.grad.double()))
    (exact, slope), (found, gradient) = answers
    return [_off("states", found, exact, 1e-3), _off("gradients", gradient / slope.abs().max(), slope / slope.abs().max(), 1e-2)]
