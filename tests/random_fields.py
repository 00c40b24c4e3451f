"""Random fields, for the tests of written kernels: a list of instructions, each of which reads what came before."""

import torch
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import silu, softplus

import ctrnn

UNARY = [torch.tanh, torch.sigmoid, torch.sin, softplus, silu, torch.relu, torch.square, torch.neg, lambda v: v.roll(1, -1)]
BINARY = [torch.add, torch.sub, torch.mul, torch.maximum, lambda a, b: torch.where(a > b, a, torch.sigmoid(b))]
BINARY += [lambda a, b: torch.cat([a[..., 2:], b[..., :2]], -1), lambda a, b: a * b.sum(-1, keepdim=True) / 7]


def of_axes(function):
    """A function of a sample's six numbers in two axes."""
    return lambda v: function(v.unflatten(-1, (2, 3))).flatten(-2)


UNARY += map(
    of_axes,
    [
        lambda v: v.transpose(-1, -2),
        lambda v: v - v.mean(-2, keepdim=True),
        lambda v: torch.softmax(v, -1) * v.amax(-2, keepdim=True),
        lambda v: v.flip(-1) / (1 + v.var(-1, keepdim=True)),
        lambda v: torch.cat([v[..., 2:], v[..., :2].flip(-2)], -1),
        lambda v: torch.tanh(v @ v.transpose(-1, -2)) @ v,
        lambda v: torch.stack(v.unbind(-1), -2).roll((1, 1), (-1, -2)).transpose(-1, -2),
        lambda v: nn.functional.pad(v[..., ::2], (0, 1)) + v[..., 1:2].expand_as(v),
    ],
)
INSTRUCTIONS = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=12)


class Random(ctrnn.VectorField):
    def __init__(self, instructions):
        super().__init__(2, 6)
        self.instructions = instructions
        self.of_x, self.of_h = nn.Linear(2, 6), nn.ModuleList(nn.Linear(6, 6, bias=k % 2 > 0) for k in range(3))
        self.vector, self.number = nn.Parameter(torch.linspace(-1, 1, 6)), nn.Parameter(torch.tensor(0.3))
        self.of_block, self.of_pair = nn.Parameter(torch.rand(2, 3, 3) - 0.5), nn.Parameter(torch.rand(6, 6) - 0.5)

    def block_by_block(self, v):
        return torch.einsum("...hi,hij->...hj", v.unflatten(-1, (2, 3)), self.of_block).flatten(-2)

    def each_alike(self, v):
        return (v.unflatten(-1, (2, 3)) @ self.of_block[0]).flatten(-2)

    def all_against_all(self, v):
        return (torch.sigmoid(self.of_pair * v.unsqueeze(-1)) * (1 - v).unsqueeze(-2)).sum(-2)

    def project(self, x):
        return self.of_x(x)

    def flow(self, projected, h):
        values = [h, projected, self.of_h[0](h)]
        for how, i, j in self.instructions:
            a, b = values[-1 - i % len(values)], values[-1 - j % len(values)]
            functions = [*BINARY, *UNARY, *self.of_h, lambda v: v * self.vector.exp(), lambda v: self.number - v]
            functions += [self.block_by_block, self.each_alike, self.all_against_all]
            function = functions[how % len(functions)]
            values.append(function(a, b) if how % len(functions) < len(BINARY) else function(a))
        return torch.tanh(sum(values[-3:])) - h
