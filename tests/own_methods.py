"""Methods as users write them, by code, for the tests of their kernels: `METHODS`, `STIFF` that solve with Jacobians, and a pair
by any tableau."""

import math

import torch
from torch import Tensor

from discretize import Attempt, EmbeddedMethod, StepDoubling
from discretize.solvers.pairs import EXPLICIT_PAIRS
from discretize.solvers.rodas import Rodas5P


class HeunByHand(EmbeddedMethod):
    """Heun and Euler; the slope at the start may be given."""

    order, evaluations = 2, 2

    def attempt(self, slope, tau, dt, h, start):
        first, step = slope(tau, h) if start is None else start, dt.to(h)
        second = slope(tau + dt, h + step * first)
        return Attempt(h + step / 2 * (first + second), step / 2 * (second - first))


class TableByHand(EmbeddedMethod):
    """A tableau as tensors, in a loop: other numbers are the same code."""

    def __init__(self, a: Tensor, b: Tensor, e: Tensor, order: int = 1) -> None:
        self.a, self.b, self.e, self.nodes = a, b, e, a.sum(1).tolist()
        self.order, self.evaluations = order, len(b)

    def attempt(self, slope, tau, dt, h, start):
        step, ks = dt.to(h), [start]
        for i in range(1, len(self.nodes)):
            ks.append(slope(tau + self.nodes[i] * dt, h + step * sum(self.a[i, j] * ks[j] for j in range(i))))
        return Attempt(h + step * sum(w * k for w, k in zip(self.b, ks, strict=True)), step * sum(map(torch.mul, self.e, ks)))


class Limited(EmbeddedMethod):
    """The midpoint rule with slopes that are squashed where they are large, at states that are held within bounds."""

    order, evaluations = 2, 2

    def __init__(self, most: float = 4.0) -> None:
        self.most = most

    def attempt(self, slope, tau, dt, h, start):
        step = dt.to(h)
        middle = slope(tau + dt / 2, (h + step / 2 * start).clamp(-self.most, self.most))
        least = torch.where(middle.abs() > 3, middle / (1 + middle.abs()) * 4, middle)
        return Attempt(h + step * least, step * (least - self.most * torch.tanh(start / self.most)))


class Relaxed(EmbeddedMethod):
    """Heun's step, a little longer or shorter by a quotient of sums over the units; its end is where the next one starts."""

    order, evaluations = 1, 3

    def attempt(self, slope, tau, dt, h, start):
        step = dt.to(h)
        second = slope(tau + dt, h + step * start)
        alike = (start * second).sum(-1, keepdim=True) / (1 + (start * start + second * second).sum(-1, keepdim=True))
        following = h + (1 + alike * step / 10) * step / 2 * (start + second)
        return Attempt(following, step / 2 * (second - start), slope(tau + dt, following))


class Late(EmbeddedMethod):
    """Ralston's step from a third of it on: the slope at the start is not read."""

    order, evaluations, reads_start = 1, 2, False

    def attempt(self, slope, tau, dt, h, start):
        step = dt.to(h)
        first = slope(tau + dt / 3, h)
        second = slope(tau + 2 * dt / 3, h + 2 * step / 3 * first)
        return Attempt(h + step * (first + 3 * second) / 4, step * (second - first) / 4)


class Extrapolated(EmbeddedMethod):
    """One, two and three steps of Euler, extrapolated to none: Aitken and Neville's table."""

    order, evaluations = 3, 4

    def attempt(self, slope, tau, dt, h, start):
        rows = []
        for j, n in enumerate((1, 2, 3)):
            y, step = h, dt.to(h) / n
            for i in range(n):
                y = y + step * (slope(tau + i * dt / n, y) if i else start)
            row = [y]
            for k in range(j):
                row.append(row[k] + (row[k] - rows[-1][k]) * (n - k - 1) / (k + 1))
            rows.append(row)
        return Attempt(rows[-1][-1], rows[-1][-1] - rows[-1][-2])


class Blind(EmbeddedMethod):
    """The first of its slopes counts for what it is, and not for how it changes: nothing is to go back through it."""

    order, evaluations = 1, 3

    def attempt(self, slope, tau, dt, h, start):
        step = dt.to(h)
        first = slope(tau + dt / 4, h + step / 4 * start).detach()
        second = slope(tau + dt / 2, h + step / 2 * first)
        return Attempt(h + step * second, step * (second - first) / 4)


class Mixed(EmbeddedMethod):
    """Heun's step by functions of all units and slopes at once: products with matrices, sums and largest ones, other orders."""

    order, evaluations = 1, 2

    def attempt(self, slope, tau, dt, h, start):
        step, units = dt.to(h), h.shape[-1]
        second = slope(tau + dt, h + step * torch.linspace(0.9, 1.1, units).to(h) * start)
        slopes = torch.stack([start, second], -1)
        mean, turned = slopes @ torch.tensor([0.4, 0.6]).to(h), slopes.flip(-1).sum(-1) / 2
        both = torch.cat([mean, turned], -1).reshape(*h.shape[:-1], 2, units).mean(-2)
        mixed = both @ (torch.eye(units) + torch.linspace(-0.1, 0.1, units**2).reshape(units, units)).to(h)
        largest = torch.tanh(slopes.amax(-1).amax(-1, keepdim=True))
        following = h + step * (mixed + largest * h.mean(-1, keepdim=True) / 9)
        return Attempt(following, step * (second - start) / 2)


class Dopri5ByHand(type(EXPLICIT_PAIRS["dopri5"])):
    """The attempt of dopri5 as code."""

    def attempt(self, slope, tau, dt, h, start):
        return super().attempt(slope, tau, dt, h, start)


class Tsit5ByHand(type(EXPLICIT_PAIRS["tsit5"])):
    """The attempt of tsit5 as code."""

    def attempt(self, slope, tau, dt, h, start):
        return super().attempt(slope, tau, dt, h, start)


METHODS = {type(each).__name__: each for each in (HeunByHand(), Limited(), Relaxed(), Late(), Extrapolated(), Blind())}
METHODS |= {"dopri5": Dopri5ByHand(), "tsit5": Tsit5ByHand(), "doubled rk4": StepDoubling("rk4")}


class Ros2(EmbeddedMethod):
    """Verwer's of order 2, L-stable; Rosenbrock's of order 1 tells the error."""

    order, evaluations, jacobians = 2, 2, 1
    gamma = 1 + 1 / math.sqrt(2)

    def attempt(self, slope, tau, dt, h, start):
        step, first = dt.to(h), slope(tau, h) if start is None else start
        matrix = torch.eye(h.shape[-1]).to(h) - self.gamma * step[..., None] * slope.jacobian(tau, h)
        moved = self.gamma * step * slope.time_derivative(tau, dt, h)
        one = torch.linalg.solve(matrix, first + moved)
        two = torch.linalg.solve(matrix, slope(tau + dt, h + step * one) - 2 * one - moved)
        return Attempt(h + step * (3 * one + two) / 2, step * (one + two) / 2)


class Ros3p(EmbeddedMethod):
    """Lang and Verwer's of order 3: two stages at one place and time, which are one call."""

    order, evaluations, jacobians = 3, 2, 1
    gamma, a = 0.7886751345948129, 1.267949192431123
    couplings = ((), (-1.607695154586736,), (-3.464101615137755, -1.732050807568877))
    from_time = (0.7886751345948129, -0.2113248654051871, -1.077350269189626)
    weights, others = (2.0, 0.5773502691896258, 0.4226497308103742), (2.113248654051871, 1.0, 0.4226497308103742)

    def attempt(self, slope, tau, dt, h, start):
        step, us = dt.to(h), []
        factors, pivots = torch.linalg.lu_factor(
            torch.eye(h.shape[-1]).to(h) - (self.gamma * step)[:, :, None] * slope.jacobian(tau, h)
        )
        drift, value = step * slope.time_derivative(tau, dt, h), start
        for row, from_time in zip(self.couplings, self.from_time, strict=True):
            right = self.gamma * (step * (value + from_time * drift) + sum(c * u for c, u in zip(row, us, strict=True)))
            us.append(torch.linalg.lu_solve(factors, pivots, right[..., None])[..., 0])
            value = slope(tau + dt, h + self.a * us[0]) if len(us) == 1 else value
        end, other = (h + sum(w * u for w, u in zip(each, us, strict=True)) for each in (self.weights, self.others))
        return Attempt(end, end - other)


class AnyMatrix(EmbeddedMethod):
    """A W-method of order 1, right for any matrix: the Jacobian is held for what it is, in products too; numbers at random."""

    order, evaluations, jacobians = 1, 3, 1

    def __init__(self, seed: int = 0) -> None:
        dice = torch.Generator().manual_seed(seed)
        self.a, self.c = (torch.rand(3, 3, generator=dice, dtype=torch.float64).tril(-1).tolist() for _ in range(2))
        self.b = (torch.rand(3, generator=dice, dtype=torch.float64) + 0.1).tolist()
        self.gamma = 0.5 + float(torch.rand((), generator=dice))

    def attempt(self, slope, tau, dt, h, start):
        step, ks = dt.to(h), []
        held = slope.jacobian(tau, h).detach()
        inverse = torch.linalg.inv(torch.eye(h.shape[-1], dtype=h.dtype, device=h.device) / self.gamma - held * step[..., None])
        for i in range(3):
            at = h + step * sum((a * k for a, k in zip(self.a[i], ks, strict=False)), torch.zeros_like(h))
            value = slope(tau + min(1.0, sum(self.a[i])) * dt, at) if ks else start
            coupled = step * sum((c * k for c, k in zip(self.c[i], ks, strict=False)), torch.zeros_like(h))
            ks.append((inverse @ (value[..., None] + held @ coupled[..., None]))[..., 0] / self.gamma)
        mean = sum(b * k for b, k in zip(self.b, ks, strict=True)) / sum(self.b)
        return Attempt(h + step * mean, step * (mean - ks[0]))


class Sdirk2(EmbeddedMethod):
    """Alexander's of order 2, L-stable: three steps of Newton's with one Jacobian for each of its two equations."""

    order, evaluations, jacobians = 2, 7, 1
    gamma = 1 - 1 / math.sqrt(2)

    def attempt(self, slope, tau, dt, h, start):
        step = dt.to(h)
        matrix = slope.jacobian(tau, h) * (-self.gamma * step[..., None]) + torch.eye(h.shape[-1]).type_as(h)
        first = self._stage(slope, tau + self.gamma * dt, step, matrix, h, start)
        second = self._stage(slope, tau + dt, step, matrix, h + (1 - self.gamma) * step * first, first)
        return Attempt(h + step * ((1 - self.gamma) * first + self.gamma * second), step * (second - first) / 2)

    def _stage(self, slope, at, step, matrix, h, k):
        for _ in range(3):
            k = k - torch.linalg.solve(matrix, k - slope(at, h + self.gamma * step * k))
        return k


class Rodas5PByHand(Rodas5P):
    """The attempt of rodas5p as code."""

    def attempt(self, slope, tau, dt, h, start):
        return super().attempt(slope, tau, dt, h, start)


STIFF = {type(each).__name__: each for each in (Ros2(), Ros3p(), AnyMatrix(), Sdirk2(), Rodas5PByHand())}
