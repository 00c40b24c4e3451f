"""Fields as users write them, for the tests of written kernels."""

import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm, leaky_relu, linear, silu, softplus

import ctrnn


class Own(ctrnn.VectorField):
    """A gate with a leak of its own, a normalization, a mask, one number for all, and the LSTM's way with the state."""

    def __init__(self, input_size=3, hidden_size=5, dtype=torch.float64):
        super().__init__(input_size, hidden_size, 2 * hidden_size)
        self.to_gates = nn.Linear(input_size, 2 * hidden_size)
        self.of_state, self.unused = nn.Linear(hidden_size, 2 * hidden_size, bias=False), nn.Parameter(torch.ones(2))
        self.rate, self.scale = nn.Parameter(torch.zeros(hidden_size)), nn.Parameter(torch.tensor(0.5))
        self.register_buffer("mask", (torch.arange(2 * hidden_size)[:, None] % 3 > 0).to(dtype))
        self.power = 2
        self.to(dtype)

    def project(self, x):
        return self.to_gates(x)

    def flow(self, projected, h):
        seen, carried = h.chunk(2, -1)
        a, b = (projected + linear(seen, self.of_state.weight * self.mask)).chunk(2, -1)
        gate = torch.sigmoid(a) * torch.exp(self.rate)
        pull = layer_norm(b, b.shape[-1:]) + self.scale * carried.pow(self.power).sum(-1, keepdim=True)
        return torch.cat([gate * torch.tanh(carried) - seen, gate * (torch.tanh(pull) - carried)], -1)

    def leak(self, projected, h):
        seen, _ = h.chunk(2, -1)
        a, _ = (projected + linear(seen, self.of_state.weight * self.mask)).chunk(2, -1)
        return torch.cat([torch.ones_like(seen), torch.sigmoid(a) * torch.exp(self.rate)], -1)


class Powers(Own):
    def flow(self, projected, h):
        return self.scale * h**self.power - h


class Many(Own):
    """One of each kind of operation."""

    def flow(self, projected, h):
        a, b = projected.chunk(2, -1)
        u, v = h[:, : self.hidden_size], h[..., self.hidden_size :]
        w = torch.where(u > 0, softplus(v), leaky_relu(u)) + gelu(a) * silu(b).clamp(-0.5, 0.5)
        w = w + torch.softmax(v, -1) - torch.sin(u) * torch.log1p(v * v) / torch.sqrt(1 + u.abs()) ** 3
        first = torch.stack([u[:, 0] * v[:, 1], u.mean(-1), u.std(-1), torch.logsumexp(v, -1), u.amax(-1)], -1)
        mixed = self.of_state.weight[: self.hidden_size] @ u.t()
        return torch.cat([torch.tanh(w) - u, torch.roll(first, 1, -1) + mixed.t() - torch.maximum(v, u)], -1)


class Lorenz(ctrnn.VectorField):
    """No weights."""

    def __init__(self):
        super().__init__(1, 3)

    def flow(self, projected, h):
        x, y, z = h.unbind(-1)
        return 0.01 * torch.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)


class Axes(ctrnn.VectorField):
    """A sample's numbers in several axes: heads with weights of their own, what is read by columns, and all against all."""

    def __init__(self, heads=2, depth=3):
        super().__init__(2, heads * depth)
        self.heads, self.depth = heads, depth
        self.of_head = nn.Parameter(torch.rand(heads, depth, depth) - 0.5)
        self.to_all, self.of_one = nn.Parameter(torch.rand(depth, depth) - 0.5), nn.Parameter(torch.rand(depth, 1))
        self.pairs = nn.Parameter(torch.rand(heads * depth, heads * depth) - 0.5)
        self.to_heads = nn.Linear(2, heads)

    def project(self, x):
        return self.to_heads(x)

    def flow(self, projected, h):
        parts = h.unflatten(-1, (self.heads, self.depth))
        own = torch.einsum("...hi,hij->...hj", parts, self.of_head)
        same = torch.tanh(parts @ self.to_all + own) * projected.unsqueeze(-1)
        likeness = torch.softmax(parts @ parts.transpose(-1, -2), -1) @ same
        first, *rest = parts.transpose(-1, -2).unbind(-2)
        columns = torch.stack([first, *rest[::-1]], -1) + (parts - parts.mean(-1, keepdim=True)) / (
            1 + parts.var(-1, keepdim=True)
        )
        turned = parts.flip(-1) * torch.cat([parts[..., 1:], parts[..., :1] * (parts @ self.of_one)], -1).amax(-2, keepdim=True)
        among = (torch.sigmoid(self.pairs * h.unsqueeze(-1)) * h.unsqueeze(-2)).sum(-2)
        steps = torch.nn.functional.pad(parts[..., ::2].sum(-2, keepdim=True), (1, 0)).expand_as(parts)
        return torch.tanh((likeness + columns + turned + steps).flatten(-2) + among) - h


class Constant(ctrnn.VectorField):
    """A slope that reads nothing at all."""

    def __init__(self):
        super().__init__(1, 3)
        self.slope = nn.Parameter(torch.linspace(-1, 1, 3))

    def flow(self, projected, h):
        return self.slope.expand_as(h)
