"""Sequences of random fields with noise: kernels and steps against the formulas of the steps, written out a second time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from fuzz.dice import NOISE, Dice, Difference, NoAnswer, compared, noisy
from fuzz.fields import random_field
from fuzz.sequences import engine_is_honest, kernels_for_all, with_gradients
from torch import Tensor, nn

import ctrnn
import discretize
from discretize.noise.generator import noise_keys

__all__ = ["noise_of_sequences"]

EXACT = 1e-11  # of a case of condition 1


class Growing(ctrnn.VectorField):
    """Noise that grows with the state, that of a unit with its own."""

    def __init__(self, field: ctrnn.VectorField) -> None:
        super().__init__(field.input_size, field.hidden_size, field.state_size)
        self.field, self.sigma = field, nn.Parameter(torch.tensor(0.4, dtype=torch.float64))

    def project(self, x: Tensor) -> Tensor:
        return self.field.project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.flow(projected, h)

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.field.leak(projected, h)

    def visible(self, state: Tensor) -> Tensor:
        return self.field.visible(state)

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.sigma * (1 + h**2).sqrt()


class Shared(Growing):
    """The same for two motions that all units share."""

    channels = 2

    def diffusion(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.sigma * torch.stack([torch.cos(h), torch.sin(2 * h)], -1)


def noise_of_sequences(dice: Dice) -> list[Difference]:
    """States and gradients, sigma's too, with substeps, times, lengths and resets, of each sample by its key."""
    field, step = _with_a_step(dice)
    engine, substeps = dice.one_of("engine", ["kernel", "steps", "steps"]), dice.count("substeps", 1, 8)
    time, batch, dt = dice.count("time", 2, 7), dice.count("batch", 1, 4), dice.one_of("dt", [1.0, 0.5, 0.3])
    keys = noise_keys(dice.count("seed", 0, 1 << 40), batch)
    call: dict[str, Any] = {}
    edges = dt * torch.arange(time + 1.0, dtype=torch.float64)[:, None].expand(-1, batch)
    if dice.chance("times", 0.4):
        call["ts"] = edges = dice.times(time + 1, batch)
    lengths = torch.full((batch,), time)
    if dice.chance("lengths", 0.4):
        call["lengths"] = lengths = torch.from_numpy(dice.rng.integers(1, time + 1, batch))
    reset = torch.zeros(time, batch, dtype=torch.bool)
    if dice.chance("resets", 0.3):
        call["reset"] = reset = torch.from_numpy(dice.rng.random((time, batch)) < 0.3)
    x, h_0 = dice.normal(time, batch, field.input_size), 0.5 * dice.normal(batch, field.state_size)

    def ours() -> dict[str, Tensor]:
        given = {name: tensor.clone().requires_grad_() for name, tensor in (("x", x), ("h_0", h_0))}
        fused = "always" if engine == "kernel" else False
        rnn = discretize.DiscreteRNN(field, step, dt=dt, substeps=substeps, fused=fused, allow_overshoot=True)
        output, h_n = rnn(given["x"], given["h_0"][None], seed=keys, **call)
        engine_is_honest(rnn.stats)
        return with_gradients(output, h_n, given, field)

    def by_hand(moved: float) -> dict[str, Tensor]:
        given = {name: noisy(tensor, moved).requires_grad_() for name, tensor in (("x", x), ("h_0", h_0))}
        states, ends = [], []
        for b in range(batch):
            h, own = given["h_0"][b : b + 1], [torch.zeros(1, field.state_size, dtype=x.dtype)] * time
            for k in range(int(lengths[b])):
                h = torch.zeros_like(h) if reset[k, b] else h
                h = own[k] = _by_formula(
                    field, step, given["x"][k, b : b + 1], h, keys[b : b + 1], k, edges[k : k + 2, b], substeps
                )
            states.append(torch.stack(own))
            ends.append(h)
        over = torch.arange(time)[:, None, None] >= lengths[:, None]
        output = torch.where(over, 0.0, field.visible(torch.cat(states, 1)))
        return with_gradients(output, torch.cat(ends)[None], given, field)

    with kernels_for_all():
        return compared(ours(), by_hand, EXACT, NOISE[torch.float64])


def _with_a_step(dice: Dice) -> tuple[ctrnn.VectorField, discretize.StochasticStep]:
    """A field with noise, and a step that is for it."""
    inputs = dice.count("inputs", 1, 3)
    field = random_field(dice, inputs, torch.float64, smooth=True, own_code=0.1)
    units, draw = field.state_size, torch.from_numpy
    made: dict[str, Callable[[], ctrnn.VectorField]] = {
        "number": lambda: ctrnn.Noisy(field, ctrnn.Noise(0.3)),
        "per unit": lambda: ctrnn.Noisy(field, ctrnn.Noise(draw(dice.rng.random(units)))),
        "matrix": lambda: ctrnn.Noisy(field, ctrnn.Noise(0.4 * dice.normal(units, dice.count("motions", 1, 3)))),
        "growing": lambda: Growing(field),
        "shared": lambda: Shared(field),
        "colored": lambda: ctrnn.ColoredInput(field, draw(dice.rng.random(inputs)), dice.number(0.3, 2.0)),
    }
    kind = dice.one_of("noise", list(made))
    fits = [discretize.EulerMaruyama, discretize.StratonovichHeun, discretize.ExponentialEulerMaruyama]
    fits += [discretize.SRA1] if kind not in ("growing", "shared") else []
    fits += [discretize.Milstein] if kind not in ("matrix", "shared") else []
    return made[kind](), dice.one_of("step", {step.__name__: step for step in fits})()


def _by_formula(
    field: ctrnn.VectorField,
    step: discretize.StochasticStep,
    x: Tensor,
    h: Tensor,
    keys: Tensor,
    cell: int,
    edges: Tensor,
    substeps: int,
) -> Tensor:
    """The state after a sample of one sequence, by the increments of its path."""
    path = discretize.BrownianPath(keys, edges, field.noise_channels, first=cell)
    fine = edges[0] + (edges[1] - edges[0]) * torch.linspace(0, 1, substeps + 1, dtype=torch.float64)
    fine[-1] = edges[1]
    dt, p = float(edges[1] - edges[0]) / substeps, field.project(x)

    def f(h: Tensor) -> Tensor:
        return field.flow(p, h)

    def g(h: Tensor, w: Tensor) -> Tensor:
        found = field.diffusion(p, h)
        return (found * w[..., None, :]).sum(-1) if found.dim() > h.dim() else found * w

    for w, z in zip(*path.increments(fine), strict=True):
        name = type(step).__name__
        if name == "EulerMaruyama":
            h = h + dt * f(h) + g(h, w)
        elif name == "Milstein":
            with torch.enable_grad():
                at = h if h.requires_grad else h.clone().requires_grad_()
                noise = field.diffusion(p, at) + 0 * at
                slope = torch.autograd.grad(noise.sum(), at, create_graph=True)[0]
            h = h + dt * f(h) + noise * w + noise * slope * (w**2 - dt) / 2
        elif name == "StratonovichHeun":
            ahead = h + dt * f(h) + g(h, w)
            h = h + (dt * f(h) + dt * f(ahead) + g(h, w) + g(ahead, w)) / 2
        elif name == "SRA1":
            ahead = h + 0.75 * dt * f(h) + 1.5 / dt * g(h, z)
            h = h + dt * (f(h) + 2 * f(ahead)) / 3 + g(h, w)
        else:
            y = field.leak(p, h) * dt
            h = h + dt * _shares(y) * f(h) + _shares(2 * y).sqrt() * g(h, w)
        if not bool(h.isfinite().all()):
            raise NoAnswer("the states run away")
    return h


def _shares(y: Tensor) -> Tensor:
    """(1 - e^-y)/y, 1 at 0."""
    small = y.abs() < 1e-5
    return torch.where(small, 1 - y / 2 + y**2 / 6, -torch.expm1(-y) / torch.where(small, 1.0, y))
