"""Fields as users write them, for the tests of written kernels."""

import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm, leaky_relu, linear, silu, softplus

import ctrnn
from ctrnn.fields.parts import affine


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


class Attractor(ctrnn.VectorField):
    """Lorenz's equations with three numbers to learn, and no input."""

    def __init__(self):
        super().__init__(0, 3)
        self.numbers = nn.Parameter(torch.tensor([10.0, 28.0, 8 / 3]))

    def flow(self, projected, h):
        (x, y, z), (s, r, b) = h.unbind(-1), self.numbers
        return torch.stack([s * (y - x), x * (r - z) - y, x * y - b * z], -1)


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


class Reading(ctrnn.VectorField):
    """Six units that read samples by a linear map to so many columns, and weights of any sizes by name."""

    def __init__(self, columns=6, **weights):
        super().__init__(3, 6)
        self.of_x = nn.Linear(3, columns)
        for name, sizes in weights.items():
            setattr(self, name, nn.Parameter(torch.randn(sizes) / 2))

    def project(self, x):
        return self.of_x(x)


class PerSample(Reading):
    """A matrix for each sample, made of its input."""

    def __init__(self):
        super().__init__(36)

    def flow(self, projected, h):
        matrices = projected.unflatten(-1, (6, 6))
        return torch.tanh((matrices @ h.unsqueeze(-1)).squeeze(-1)) + (h.unsqueeze(-2) @ matrices).squeeze(-2) / 9 - h


class Joining(Reading):
    def __init__(self):
        super().__init__(weight=(6, 18), bias=(6,))

    def flow(self, projected, h):
        read = torch.cat([projected, h, h.roll(1, -1) * h], -1)
        return torch.cat([torch.tanh(linear(read, self.weight, self.bias))[..., 1:], projected[..., :1]], -1) - h


class Strided(Reading):
    """Parts of one matrix that are read by columns, by every other row, and mirrored."""

    def __init__(self):
        super().__init__(weight=(13, 12))

    def flow(self, projected, h):
        w = self.weight
        pulled = linear(h, w[:12:2, 1::2]) + h @ w[1:7].t()[::2] + torch.tanh(h @ w.t()[6:, 7:].flip(0))
        return torch.tanh(pulled + projected * w.t()[3, :6]) * w[12, 3:9].exp() - h


class Convolving(Reading):
    """Units on a ring and on a line."""

    def __init__(self):
        super().__init__(kernel=(1, 1, 3), kernels=(2, 1, 3))

    def flow(self, projected, h):
        ring = nn.functional.conv1d(nn.functional.pad(h.unsqueeze(-2), (1, 1), "circular"), self.kernel)
        line = nn.functional.conv1d(h.unsqueeze(-2), self.kernels, padding=1)
        return torch.tanh(ring.squeeze(-2) + projected) + line.prod(-2) - h


class Indexing(Reading):
    def __init__(self):
        super().__init__(weight=(4, 6))
        self.register_buffer("places", torch.tensor([5, 0, 0, 3, 2, 4]))

    def flow(self, projected, h):
        table = self.weight[[2, 0, 3, 1, 1, 0]]
        gathered = h[..., self.places] * projected.index_select(-1, self.places)
        return torch.tanh(linear(gathered, table) + h[:, [1, 1, 4, 0, 5, 2]]) - h


class Reducing(Reading):
    def flow(self, projected, h):
        a, b = h.chunk(2, -1)
        first = torch.stack([h.sum(-1), h.amax(-1), h.std(-1)], -1) * b.softmax(-1)
        second = torch.stack([a.prod(-1), torch.logsumexp(h, -1), h.square().mean(-1).sqrt()], -1) + (-h).amax(-1, keepdim=True)
        return torch.tanh(torch.cat([first, second], -1) + projected.cumsum(-1)) - h


class Attending(Reading):
    """Each unit attends to all: queries, keys and values of four numbers."""

    def __init__(self):
        super().__init__(query=(6, 4), key=(6, 4), value=(4, 4), out=(4,))

    def flow(self, projected, h):
        q, k = h.unsqueeze(-1) * self.query, projected.unsqueeze(-1) * self.key + h.unsqueeze(-1)
        weights = torch.softmax(q @ k.transpose(-1, -2) / 2, -1)
        return torch.tanh(weights @ (k @ self.value)) @ self.out - h


class Normalizing(Reading):
    def __init__(self):
        super().__init__(weight=(6, 6), gain=(6,))
        self.norm = nn.LayerNorm(6)

    def flow(self, projected, h):
        scaled = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 0.1) * self.gain
        return torch.tanh(self.norm(linear(scaled, self.weight) + projected)) - h


class Reshaping(Reading):
    def __init__(self):
        super().__init__(weight=(2, 3, 3), other=(3, 2))

    def flow(self, projected, h):
        grid, (left, right) = h.reshape(-1, 2, 3), projected.view(-1, 3, 2).unbind(-1)
        turned = grid.permute(0, 2, 1) + torch.stack([left, right], -1)
        mixed = torch.einsum("bih,hij->bjh", turned, self.weight) * self.other
        outer = torch.einsum("bi,bj->bij", left, right)[:, :2].transpose(1, 2).contiguous()
        return torch.tanh(mixed + outer).swapaxes(-1, -2).reshape(h.shape) + grid.flip(1).flatten(1).tanh() / 2 - h


class LowRank(Reading):
    """Mastrogiuseppe and Ostojic 2018: a connectivity of rank two."""

    def __init__(self):
        super().__init__(m=(6, 2), n=(6, 2))

    def flow(self, projected, h):
        return (torch.tanh(h) @ self.n) @ self.m.t() + projected - h


class Signed(Reading):
    """Dale's law: a unit excites or inhibits all others."""

    def __init__(self):
        super().__init__(weight=(6, 6))
        self.register_buffer("signs", torch.tensor([1.0, 1, 1, 1, -1, -1]))

    def flow(self, projected, h):
        return torch.relu(projected + h) @ (self.weight.abs() * self.signs).t() / 3 - h


class Powering(Reading):
    def __init__(self):
        super().__init__(exponent=(6,), base=())

    def flow(self, projected, h):
        grown = (0.1 + h.abs()).pow(self.exponent.exp()) * h
        return torch.sin(projected) * (2 + self.base.tanh()) ** (-h.square()) - grown - h**3 / 9 + torch.rsqrt(1 + h * h)


class Cornered(Reading):
    def flow(self, projected, h):
        bounded = torch.where(projected > h, h.clamp(-0.3, 0.4), torch.maximum(h, projected / 2))
        return nn.functional.hardtanh(2 * projected - h) + bounded * (h > 0) + torch.minimum(h, h.new_tensor(0.1)).abs() - h


class Several(Reading):
    """Matrices read in several ways, places, powers and corners, in one program."""

    def __init__(self):
        super().__init__()
        self.others = nn.ModuleList([Strided(), Indexing(), Powering(), Cornered()])

    def flow(self, projected, h):
        return sum(other.flow(projected, h) for other in self.others) / 4


class Coupled(Reading):
    """Kuramoto's oscillators: each by the sines of its differences to all."""

    def __init__(self):
        super().__init__(weight=(6, 6))

    def flow(self, projected, h):
        return projected / 4 + (self.weight * torch.sin(h.unsqueeze(-2) - h.unsqueeze(-1))).sum(-1)


class Mixing(Reading):
    """Linear maps of the state that the sample mixes."""

    def __init__(self):
        super().__init__(3, maps=(3, 6, 6))

    def flow(self, projected, h):
        return torch.tanh(torch.einsum("be,eij,bj->bi", torch.softmax(projected, -1), self.maps, h)) - h


class Layered(Reading):
    """A network of its own in a loop."""

    def __init__(self):
        super().__init__(4)
        self.first, self.last = nn.Linear(10, 7), nn.Sequential(nn.SiLU(), nn.Linear(7, 6), nn.Softsign())
        self.between = nn.ModuleList(nn.Linear(7, 7) for _ in range(2))

    def flow(self, projected, h):
        value = self.first(torch.cat([h, projected], -1))
        for layer in self.between:
            value = value + gelu(layer(value)) / 2
        return self.last(value) - h


class Bilinear(Reading):
    def __init__(self):
        super().__init__(3, weight=(6, 3, 6), bias=(6,))

    def flow(self, projected, h):
        return torch.tanh(nn.functional.bilinear(projected, h, self.weight, self.bias)) - h


class Bent(ctrnn.VectorField):
    """Its projection bends straight lines, so that it is a part of the flow."""

    def __init__(self, inputs=3):
        super().__init__(inputs, 5)
        self.of_x, self.of_h = nn.Linear(inputs, 5), nn.Linear(5, 5)

    def project(self, x):
        return torch.tanh(self.of_x(x))

    def flow(self, projected, h):
        return torch.sin(projected + self.of_h(h)) - h


class Soft(Bent):
    """The same, read as it is."""

    @affine
    def project(self, x):
        return self.of_x(x)


class Stiff(ctrnn.VectorField):
    """Gates, a reset, and rates from 1 to 300."""

    def __init__(self):
        super().__init__(3, 5)
        self.to_gates, self.of_state = nn.Linear(3, 10), nn.Linear(5, 10, bias=False)
        self.speed = nn.Parameter(torch.linspace(0, 5.7, 5))

    def project(self, x):
        return self.to_gates(x)

    def flow(self, projected, h):
        a, b = projected.chunk(2, -1)
        w, v = self.of_state.weight.chunk(2)
        return self.speed.exp() * (torch.tanh(b + (torch.sigmoid(a + h @ w.t()) * h) @ v.t()) - h**3 - h)
