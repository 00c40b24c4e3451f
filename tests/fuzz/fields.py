"""Random fields: composed of parts, named, published, and of one's own code, some with corners and some without."""

from __future__ import annotations

from collections.abc import Callable

import torch
from fuzz.dice import Dice
from own_fields import Axes, Many, Own
from problems import PUBLISHED
from torch import Tensor, nn
from torch.nn.functional import pad, silu, softplus

import ctrnn

__all__ = ["Instructions", "random_field"]


def random_field(dice: Dice, inputs: int, dtype: torch.dtype, smooth: bool = False, own_code: float = 0.25) -> ctrnn.VectorField:
    """Any field of that many inputs; `smooth`: without corners, across which no solver's estimate holds; own_code: how many are
    code that no kernel was made for before, which takes a compiler each time."""
    if dice.rng.random() < own_code:
        field = dice.one_of("own", OWN_SMOOTH if smooth else OWN)(dice, inputs)
    else:
        field = dice.one_of("field", {"composed": _composed, "named": _named, "published": _published})(dice, inputs, smooth)
    field = field.to(dtype)
    size = dice.number(0.6, 1.4)
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.mul_(size)
    return field


def _composed(dice: Dice, inputs: int, smooth: bool) -> ctrnn.VectorField:
    sizes, given = (inputs, dice.count("hidden", 1, 6)), {"dtype": torch.float64, "generator": dice.generator()}
    candidates = {"tanh": ctrnn.TanhCandidate, "reset": ctrnn.ResetCandidate, "reset state": ctrnn.ResetStateCandidate}
    candidates |= {} if smooth else {"relu": ctrnn.ReluCandidate}
    candidate = dice.one_of("candidate", candidates)(*sizes, **given)
    # Of one unit the normalized sum is 0, and its derivatives are rounding.
    if sizes[1] > 2 and isinstance(candidate, ctrnn.Affine) and dice.chance("normalized", 0.15):
        candidate = ctrnn.LayerNorm(candidate, eps=0.1)
    rates = {
        **{rate.__name__: rate for rate in (ctrnn.GateRate, ctrnn.GlobalGateRate, ctrnn.SoftplusRate, ctrnn.GlobalSoftplusRate)},
        **{rate.__name__: rate for rate in (ctrnn.ExponentialRate, ctrnn.GlobalExponentialRate)},
    }
    constants = {"fixed": ctrnn.FixedRate, "alpha": ctrnn.ConstantRate, "sigmoid alpha": ctrnn.SigmoidConstantRate}
    constants |= {"softplus alpha": ctrnn.SoftplusConstantRate}
    if dice.chance("of a constant", 0.4):
        rate = dice.one_of("rate", constants)(dice.number(0.1, 0.9))
    else:
        rate = dice.one_of("rate", rates)(*sizes, **given)
    return ctrnn.Relaxation(candidate, rate, _decay(dice, sizes[1], smooth))


def _decay(dice: Dice, hidden: int, smooth: bool) -> ctrnn.Decay:
    if dice.chance("decay h", 0.4):
        return ctrnn.LinearDecay()
    # |h|^r h has all its derivatives at 0 for even r alone.
    exponent = dice.one_of("exponent", [0.0, 2.0] if smooth else [0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
    if exponent and not smooth and dice.chance("learned", 0.3):
        return ctrnn.PowerDecay(exponent, learnable=True, hidden_size=dice.one_of("exponents", [None, hidden]))
    return ctrnn.PowerDecay(exponent)


def _named(dice: Dice, inputs: int, smooth: bool) -> ctrnn.VectorField:
    make = dice.one_of("name", ["plain", "leaky", "gated", "gru", "lstm"])
    given = {"generator": dice.generator(), "num_layers": 2 if dice.chance("two layers", 0.1) else 1}
    if make == "gated":
        given |= {"gate": dice.one_of("gate", ["unit", "global", "network"])}
        given |= {"rate": dice.one_of("rate", ["sigmoid", "softplus", "exponential"])}
    if make == "leaky":
        given |= {"per_unit": dice.chance("per unit", 0.5), "alpha": dice.number(0.1, 0.9)}
    if make != "plain" and given["num_layers"] == 1:
        given |= {"decay": _decay(dice, hidden := dice.count("hidden", 1, 6), smooth)}
        return getattr(ctrnn, make)(inputs, hidden, **given)
    return getattr(ctrnn, make)(inputs, dice.count("hidden", 1, 6), **given)


def _published(dice: Dice, inputs: int, smooth: bool) -> ctrnn.VectorField:
    name = dice.one_of("name", [*PUBLISHED])
    hidden = 2 * dice.count("half of hidden", 1, 2)
    return PUBLISHED[name](inputs, hidden, generator=dice.generator())


def _of_axes(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A function of a sample's six numbers in two axes."""
    return lambda v: function(v.unflatten(-1, (2, 3))).flatten(-2)


SMOOTH = [torch.tanh, torch.sigmoid, torch.sin, softplus, silu, torch.square, torch.neg, lambda v: v.roll(1, -1)]
SMOOTH += map(
    _of_axes,
    [
        lambda v: v.transpose(-1, -2),
        lambda v: v - v.mean(-2, keepdim=True),
        lambda v: v.flip(-1) / (1 + v.var(-1, keepdim=True)),
        lambda v: torch.cat([v[..., 2:], v[..., :2].flip(-2)], -1),
        lambda v: torch.tanh(v @ v.transpose(-1, -2)) @ v,
        lambda v: torch.stack(v.unbind(-1), -2).roll((1, 1), (-1, -2)).transpose(-1, -2),
        lambda v: pad(v[..., ::2], (0, 1)) + v[..., 1:2].expand_as(v),
    ],
)
CORNERED = [*SMOOTH, torch.relu, _of_axes(lambda v: torch.softmax(v, -1) * v.amax(-2, keepdim=True))]
SMOOTH_PAIRS = [torch.add, torch.sub, torch.mul, lambda a, b: torch.cat([a[..., 2:], b[..., :2]], -1)]
SMOOTH_PAIRS += [lambda a, b: a * b.sum(-1, keepdim=True) / 7]
CORNERED_PAIRS = [*SMOOTH_PAIRS, torch.maximum, lambda a, b: torch.where(a > b, a, torch.sigmoid(b))]


class Instructions(ctrnn.VectorField):
    """A list of instructions of torch, each of which reads what came before."""

    def __init__(self, inputs: int, instructions: list[tuple[int, int, int]], smooth: bool, generator: torch.Generator) -> None:
        super().__init__(inputs, 6)
        self.instructions, self.smooth = instructions, smooth
        self.of_x, self.of_h = nn.Linear(inputs, 6), nn.ModuleList(nn.Linear(6, 6, bias=k % 2 > 0) for k in range(3))
        self.vector, self.number = nn.Parameter(torch.linspace(-1, 1, 6)), nn.Parameter(torch.tensor(0.3))
        self.of_block, self.of_pair = nn.Parameter(torch.empty(2, 3, 3)), nn.Parameter(torch.empty(6, 6))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.5, 0.5, generator)

    def block_by_block(self, v: Tensor) -> Tensor:
        return torch.einsum("...hi,hij->...hj", v.unflatten(-1, (2, 3)), self.of_block).flatten(-2)

    def each_alike(self, v: Tensor) -> Tensor:
        return (v.unflatten(-1, (2, 3)) @ self.of_block[0]).flatten(-2)

    def all_against_all(self, v: Tensor) -> Tensor:
        return (torch.sigmoid(self.of_pair * v.unsqueeze(-1)) * (1 - v).unsqueeze(-2)).sum(-2)

    def project(self, x: Tensor) -> Tensor:
        return self.of_x(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        values = [h, projected, self.of_h[0](h)]
        pairs, alone = (SMOOTH_PAIRS, SMOOTH) if self.smooth else (CORNERED_PAIRS, CORNERED)
        alone = [*alone, *self.of_h, lambda v: v * self.vector.exp(), lambda v: self.number - v]
        alone += [self.block_by_block, self.each_alike, self.all_against_all]
        for drawn, i, j in self.instructions:
            a, b, how = values[-1 - i % len(values)], values[-1 - j % len(values)], drawn % (len(pairs) + len(alone))
            values.append(pairs[how](a, b) if how < len(pairs) else alone[how - len(pairs)](a))
        return torch.tanh(sum(values[-3:])) - h


def _instructions(smooth: bool) -> Callable[[Dice, int], ctrnn.VectorField]:
    def made(dice: Dice, inputs: int) -> ctrnn.VectorField:
        count = int(dice.rng.integers(1, 13))
        drawn = [tuple(int(k) for k in dice.rng.integers(0, 100, 3)) for _ in range(count)]
        return Instructions(inputs, drawn, smooth, dice.generator())

    return made


class Leaking(ctrnn.VectorField):
    """One's own field whose leak is read off its code."""

    leak = ctrnn.traced_leak

    def __init__(self, inputs: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__(inputs, hidden)
        self.of_x, self.of_h = nn.Linear(inputs, hidden), nn.Linear(hidden, hidden)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -1, 1, generator)

    def project(self, x: Tensor) -> Tensor:
        return self.of_x(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        gate = torch.sigmoid(projected)
        return gate * (torch.tanh(self.of_h(h)) - h)


def _own(dice: Dice, inputs: int) -> ctrnn.VectorField:
    torch.manual_seed(int(dice.rng.integers(2**31)))
    return Own(inputs, dice.count("hidden", 3, 4))


OWN_SMOOTH = {
    "instructions": _instructions(smooth=True),
    "a gate, a leak and a mask": _own,
    "traced leak": lambda dice, inputs: Leaking(inputs, dice.count("hidden", 1, 6), dice.generator()),
}


def _of_two_inputs(kind: type[ctrnn.VectorField]) -> Callable[[Dice, int], ctrnn.VectorField]:
    """A field that reads two inputs; of more or fewer, the first ones, or again."""

    class Read(kind):
        def __init__(self, inputs: int) -> None:
            super().__init__()
            self.first, self.input_size = self.input_size, inputs

        def project(self, x: Tensor) -> Tensor:
            return super().project(torch.cat([x] * self.first, -1)[..., : self.first])

    def made(dice: Dice, inputs: int) -> ctrnn.VectorField:
        torch.manual_seed(int(dice.rng.integers(2**31)))
        return Read(inputs)

    return made


OWN = OWN_SMOOTH | {
    "instructions with corners": _instructions(smooth=False),
    "many operations": _of_two_inputs(Many),
    "axes": _of_two_inputs(Axes),
}
