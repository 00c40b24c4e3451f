"""Methods as users write them, by code, for the tests of their kernels: `METHODS`, and a pair by any tableau."""

import torch
from torch import Tensor

from discretize import Attempt, EmbeddedMethod, StepDoubling
from discretize.solvers.pairs import EXPLICIT_PAIRS


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
