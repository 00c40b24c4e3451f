"""Analyses of random networks in other units and beside wild neighbours, which say the same as of the network itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from fuzz.dice import Dice, Difference, NoAnswer
from torch import Tensor

import discretize
from discretize import Flow, Map

__all__ = ["branches_in_other_units", "points_beside_wild_neighbours", "points_in_other_units"]

Function = Callable[[Tensor, Tensor], Tensor]


class _Network:
    """tanh(gain W h + b) - h, its rates between 1 and a hundredth, with a parameter as its gain."""

    def __init__(self, dice: Dice) -> None:
        self.units = dice.count("units", 1, 4)
        self.W, self.b = dice.normal(self.units, self.units), 0.3 * dice.normal(self.units)
        self.rates = 10 ** (-2 * torch.from_numpy(dice.rng.random(self.units)))
        self.gain = dice.number(0.5, 2.5)

    def __call__(self, p: Tensor, h: Tensor) -> Tensor:
        return self.rates * (torch.tanh((self.gain + p) * (h @ self.W.T) + self.b) - h)


def _units(dice: Dice, count: int) -> tuple[Tensor, float]:
    """Draw new units: a common size of up to 1e9, sizes of each unit's own, and a unit of time."""
    size = 10.0 ** dice.count("size 1e", -9, 9)
    own = 10.0 ** torch.from_numpy(dice.rng.integers(-3, 4, count)) if dice.chance("each unit its own", 0.5) else 1.0
    return size * own * torch.ones(count, dtype=torch.float64), 10.0 ** dice.count("time 1e", -6, 6)


def _in_units(f: Function, s: Tensor, c: float) -> Function:
    return lambda p, h: s / c * f(p, h / s)


def _points(system: Flow | Map, starts: Tensor) -> Tensor:
    found = discretize.fixed_points(system, starts)
    if bool((found.rates.abs() < 1e-3 * found.rates.abs().amax()).any()):
        raise NoAnswer  # nearly a bifurcation: from which starts Newton's method gets there hangs on roundings
    return found.h.detach()


def _same_points(what: str, ours: Tensor, theirs: Tensor) -> list[Difference]:
    count = [Difference(f"number of {what}", abs(len(ours) - len(theirs)), 0)]
    if len(ours) != len(theirs):
        return count
    return [*count, Difference(what, float((ours[:, None] - theirs).abs().amax(-1).amin(1).amax()) if len(ours) else 0.0, 1e-9)]


def points_in_other_units(dice: Dice) -> list[Difference]:
    """Fixed points and their growth, and orbits of a long Euler step, in units of another size."""
    network, starts = _Network(dice), torch.from_numpy(dice.rng.uniform(-1, 1, (40, 4)))
    starts = starts[:, : network.units]
    s, c = _units(dice, network.units)
    plain, other = Flow(network), Flow(_in_units(network, s, c))
    ours, theirs = _points(other, starts * s) / s, _points(plain, starts)
    if len(ours) != len(theirs):  # sizes are counted to a power of two: Newton's method may end elsewhere, from a start between
        starts = torch.cat([starts, ours, theirs])
        ours, theirs = _points(other, starts * s) / s, _points(plain, starts)
    found = _same_points("fixed points", ours, theirs)
    if len(ours) != len(theirs):
        return found
    growths = [discretize.fixed_points(system, h).growth.sort().values for system, h in ((plain, starts), (other, starts * s))]
    found.append(Difference("growth", float((growths[1] * c - growths[0]).abs().amax()) if len(growths[0]) else 0.0, 1e-7))
    dt = dice.number(1.0, 3.0)

    def step(f: Function, length: float) -> Map:
        return Map(lambda p, h: h + length * f(p, h))

    orbits = [
        discretize.periodic_orbits(step(f, length), 2, h)
        for f, length, h in ((network, dt, starts), (_in_units(network, s, c), dt * c, starts * s))
    ]
    if not any(abs(float(orbit.growth)) < 1e-2 for orbit in orbits[0]):
        for period in (1, 2):
            ours, theirs = (sum(orbit.period == period for orbit in each) for each in orbits)
            found.append(Difference(f"orbits of period {period}", abs(ours - theirs), 0))
    return found


def points_beside_wild_neighbours(dice: Dice) -> list[Difference]:
    """Fixed points beside starts that are far away, and beside units that are not coupled."""
    network, starts = _Network(dice), torch.from_numpy(dice.rng.uniform(-1, 1, (60, 4)))
    starts, units = starts[:, : network.units], network.units
    far = 10.0 ** dice.count("far 1e", 2, 8)
    plain = _points(Flow(network), starts)
    # Far starts may find more points; those that were found stay as they are.
    among = _points(Flow(network), torch.cat([starts, far * dice.normal(5, units)]))
    near = (plain[:, None] - among).abs().amax(-1).amin(1)
    found = [Difference("points beside far starts", float(near.amax()) if len(plain) else 0.0, 1e-9)]
    speed, rest = 10.0 ** dice.count("rate 1e", -3, 3), far * dice.number(-1, 1)

    def wild(p: Tensor, h: Tensor) -> Tensor:
        return torch.cat([network(p, h[..., :units]), speed * (rest - h[..., units:])], -1)

    # At rest: on its way there it would share its line search, and from one start or another Newton's method would end elsewhere.
    beside = discretize.fixed_points(Flow(wild), torch.cat([starts, torch.full((60, 1), rest, dtype=torch.float64)], -1))
    return [*found, *_same_points("points beside a unit", beside.h.detach()[:, :units], plain)]


def branches_in_other_units(dice: Dice) -> list[Difference]:
    """Bifurcations of a branch of fixed points over the gain."""
    network = _Network(dice)
    s, c = _units(dice, network.units)
    start = torch.from_numpy(dice.rng.uniform(-1, 1, (20, network.units)))
    points = discretize.fixed_points(Flow(network), start)
    if not len(points):
        raise NoAnswer
    h = points.h[0].detach()
    plain = discretize.continuation(Flow(network), h, 0.0, (-0.4, 0.4))
    other = discretize.continuation(Flow(_in_units(network, s, c)), h * s, 0.0, (-0.4, 0.4))
    found = [Difference("number of bifurcations", abs(len(plain.bifurcations) - len(other.bifurcations)), 0)]
    for a, b in zip(plain.bifurcations, other.bifurcations, strict=False):
        found.append(Difference(f"{a.kind} named {b.kind}", float(a.kind != b.kind), 0))
        found.append(Difference(a.kind, abs(a.p - b.p), 1e-7))
    last = abs(float(plain.p[-1]) - float(other.p[-1]))
    return [*found, Difference("end of the branch", last if math.isfinite(last) else math.inf, 1e-9)]
