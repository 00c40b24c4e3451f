"""Every operation that has a reading, against torch's own numbers and against an expression written independently."""

import math

import pytest
import torch
from sympy import (
    Abs,
    And,
    Float,
    Max,
    Min,
    Ne,
    Piecewise,
    Rational,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cos,
    cosh,
    erf,
    exp,
    log,
    pi,
    sign,
    sin,
    sinh,
    sqrt,
    tanh,
)  # fmt: skip
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from derivations import symbolic
from derivations.tracing.decision import decide

pytestmark = pytest.mark.usefixtures("read_alone")


def sigma(a):
    return 1 / (1 + exp(-a))


def cases(*pairs):
    return Piecewise(*pairs)


def all_of(f):
    return lambda h, x, W, b: [f(a) for a in h]


def exactly(number):
    return Rational(*number.as_integer_ratio())


def written(h, x):
    whole = h.clone()
    whole[:, 0] = 2 * h[:, 1]
    whole[:, 1] += x[:, 0]
    whole[:, 2:] = h[:, :1]
    return whole


# name: (torch code on h (batch, 3), x (batch, 2), W (3, 3), b (3), the equations written again)
TABLE = {
    "add, sub with alpha": (
        lambda h, x, W, b: torch.add(h, b, alpha=2) - torch.sub(b, h, alpha=3),
        lambda h, x, W, b: [4 * h[i] + b[i] for i in range(3)],
    ),
    "reversed sub, neg": (lambda h, x, W, b: -(1 - h), all_of(lambda a: a - 1)),
    "mul, div": (lambda h, x, W, b: h * b / 4, lambda h, x, W, b: [h[i] * b[i] / 4 for i in range(3)]),
    "reciprocal": (lambda h, x, W, b: (1 + h**2).reciprocal(), all_of(lambda a: 1 / (1 + a**2))),
    "abs": (lambda h, x, W, b: h.abs(), all_of(Abs)),
    "sign": (lambda h, x, W, b: h.sign(), all_of(sign)),
    "square, pow": (lambda h, x, W, b: h.square() * h.pow(3), all_of(lambda a: a**5)),
    "power of a tensor": (
        lambda h, x, W, b: (1 + h**2) ** (b / 2),
        lambda h, x, W, b: [sqrt(1 + h[i] ** 2) ** b[i] for i in range(3)],
    ),
    "sqrt": (lambda h, x, W, b: (1 + h**2).sqrt(), all_of(lambda a: sqrt(1 + a**2))),
    "rsqrt": (lambda h, x, W, b: (1 + h**2).rsqrt(), all_of(lambda a: 1 / sqrt(1 + a**2))),
    "exp, exp2": (lambda h, x, W, b: h.exp() * torch.exp2(h), all_of(lambda a: exp(a) * 2**a)),
    "expm1": (lambda h, x, W, b: h.expm1(), all_of(lambda a: exp(a) - 1)),
    "log, log1p": (lambda h, x, W, b: (2 + h**2).log() + h.abs().log1p(), all_of(lambda a: log(2 + a**2) + log(1 + Abs(a)))),
    "sin, cos": (lambda h, x, W, b: h.sin() * h.cos(), all_of(lambda a: sin(a) * cos(a))),
    "asin, acos, atan": (
        lambda h, x, W, b: h.tanh().asin() * h.tanh().acos() + h.atan(),
        all_of(lambda a: asin(tanh(a)) * acos(tanh(a)) + atan(a)),
    ),
    "sinh, cosh, asinh": (lambda h, x, W, b: h.sinh() * h.cosh() + h.asinh(), all_of(lambda a: sinh(a) * cosh(a) + asinh(a))),
    "acosh, atanh": (
        lambda h, x, W, b: h.cosh().add(1).acosh() + (h.tanh() / 2).atanh(),
        all_of(lambda a: acosh(1 + cosh(a)) + atanh(tanh(a) / 2)),
    ),
    "erf, erfc": (lambda h, x, W, b: h.erf() - h.erfc(), all_of(lambda a: 2 * erf(a) - 1)),
    "tanh": (lambda h, x, W, b: h.tanh(), all_of(lambda a: (exp(a) - exp(-a)) / (exp(a) + exp(-a)))),
    "sigmoid": (lambda h, x, W, b: h.sigmoid(), all_of(sigma)),
    "logsigmoid": (lambda h, x, W, b: F.logsigmoid(h), all_of(lambda a: log(sigma(a)))),
    "silu": (lambda h, x, W, b: F.silu(h), all_of(lambda a: a * exp(a) / (1 + exp(a)))),
    "mish": (lambda h, x, W, b: F.mish(h), all_of(lambda a: a * tanh(log(1 + exp(a))))),
    "gelu": (lambda h, x, W, b: F.gelu(h), all_of(lambda a: a / 2 + a * erf(a * sqrt(2) / 2) / 2)),
    "gelu by tanh": (
        lambda h, x, W, b: F.gelu(h, approximate="tanh"),
        all_of(lambda a: a / 2 * (1 + tanh(sqrt(2) / sqrt(pi) * (a + exactly(0.044715) * a**3)))),
    ),
    "softplus with beta and threshold": (
        lambda h, x, W, b: F.softplus(h, beta=2.0, threshold=3.0),
        all_of(lambda a: cases((log(1 + exp(2 * a)) / 2, 2 * a <= 3), (a, True))),
    ),
    "relu": (lambda h, x, W, b: h.relu(), all_of(lambda a: (a + Abs(a)) / 2)),
    "relu6, hardsigmoid": (
        lambda h, x, W, b: F.relu6(h) - F.hardsigmoid(h),
        all_of(lambda a: Min(Max(a, 0), 6) - Min(Max(a + 3, 0), 6) / 6),
    ),
    "leaky_relu": (lambda h, x, W, b: F.leaky_relu(h, 0.25), all_of(lambda a: Max(a, 0) + Min(a, 0) / 4)),
    "elu": (lambda h, x, W, b: F.elu(h, alpha=0.5), all_of(lambda a: cases((a, a >= 0), ((exp(a) - 1) / 2, True)))),
    "celu": (lambda h, x, W, b: F.celu(h, alpha=2.0), all_of(lambda a: cases((2 * exp(a / 2) - 2, a < 0), (a, True)))),
    "softsign": (lambda h, x, W, b: F.softsign(h), all_of(lambda a: a / (1 + Abs(a)))),
    "hardtanh": (lambda h, x, W, b: F.hardtanh(h), all_of(lambda a: (Abs(a + 1) - Abs(a - 1)) / 2)),
    "clamp": (
        lambda h, x, W, b: h.clamp(-1, 2) + h.clamp(min=0.5) + h.clamp_max(3),
        all_of(lambda a: Max(-1, Min(a, 2)) + Max(a, Rational(1, 2)) + Min(a, 3)),
    ),
    "clamp between tensors": (
        lambda h, x, W, b: h.clamp(max=b),
        lambda h, x, W, b: [(h[i] + b[i] - Abs(h[i] - b[i])) / 2 for i in range(3)],
    ),
    "maximum, minimum": (
        lambda h, x, W, b: torch.maximum(h, b) + torch.minimum(h, b),
        lambda h, x, W, b: [h[i] + b[i] for i in range(3)],
    ),
    "where, comparisons": (
        lambda h, x, W, b: torch.where(h > b, h, b) + torch.where(h == b, h, b) * (h <= 1),
        lambda h, x, W, b: [Max(h[i], b[i]) + b[i] * cases((1, h[i] <= 1), (0, True)) for i in range(3)],
    ),
    "logical operations": (
        lambda h, x, W, b: ((h > 0) & ~(h >= 1) | torch.logical_and(h < -1, h != -2)).to(h.dtype),
        all_of(lambda a: cases((1, And(a > 0, a < 1)), (1, And(a < -1, Ne(a, -2))), (0, True))),
    ),
    "masked_fill": (
        lambda h, x, W, b: h.masked_fill(h < 0, 0.0) + h.clone().masked_fill_(h > 0, 0.0),
        all_of(lambda a: Max(a, 0) + Min(a, 0)),
    ),
    "lerp, addcmul": (
        lambda h, x, W, b: torch.lerp(h, b, 0.25) + torch.addcmul(h, b, b, value=2),
        lambda h, x, W, b: [h[i] * Rational(7, 4) + b[i] / 4 + 2 * b[i] ** 2 for i in range(3)],
    ),
    "lerp of a product, which torch has not under autocast": (
        lambda h, x, W, b: torch.lerp(h, F.linear(h, W), 0.25),
        lambda h, x, W, b: [h[i] * Rational(3, 4) + sum(W[i, j] * h[j] for j in range(3)) / 4 for i in range(3)],
    ),
    "softmax": (lambda h, x, W, b: h.softmax(-1), lambda h, x, W, b: [1 / sum(exp(a - c) for a in h) for c in h]),
    "log_softmax": (lambda h, x, W, b: h.log_softmax(-1), lambda h, x, W, b: [c - log(sum(map(exp, h))) for c in h]),
    "logsumexp": (
        lambda h, x, W, b: h.logsumexp(-1, keepdim=True) * b,
        lambda h, x, W, b: [c * log(sum(map(exp, h))) for c in b],
    ),
    "sum, mean, prod": (
        lambda h, x, W, b: (h.sum(-1) + h.mean(1) + h.prod(-1)).unsqueeze(-1) * b,
        lambda h, x, W, b: [c * (sum(h) * Rational(4, 3) + h[0] * h[1] * h[2]) for c in b],
    ),
    "max, amax, amin": (
        lambda h, x, W, b: h[:, :2].amax(-1, keepdim=True) + h[:, :2].amin(-1, keepdim=True) + x.max(-1, keepdim=True)[0] * b,
        lambda h, x, W, b: [h[0] + h[1] + (x[0] + x[1] + Abs(x[0] - x[1])) / 2 * c for c in b],
    ),
    "var, std": (
        lambda h, x, W, b: h.var(-1, keepdim=True) + b * (1 + h.var(-1, correction=0, keepdim=True)),
        lambda h, x, W, b: [sum((a - sum(h) / 3) ** 2 for a in h) * (Rational(1, 2) + c / 3) + c for c in b],
    ),
    "norm": (
        lambda h, x, W, b: h.norm(dim=-1, keepdim=True) * b,
        lambda h, x, W, b: [c * sqrt(h[0] ** 2 + h[1] ** 2 + h[2] ** 2) for c in b],
    ),
    "layer_norm": (
        lambda h, x, W, b: F.layer_norm(h, (3,), b, eps=0.5),
        lambda h, x, W, b: [
            c * (a - sum(h) / 3) / sqrt(sum((k - sum(h) / 3) ** 2 for k in h) / 3 + Rational(1, 2))
            for a, c in zip(h, b, strict=True)
        ],
    ),
    "cumsum, flip": (lambda h, x, W, b: h.flip(-1).cumsum(-1), lambda h, x, W, b: [h[2], h[1] + h[2], h[0] + h[1] + h[2]]),
    "linear": (
        lambda h, x, W, b: F.linear(h, W, b),
        lambda h, x, W, b: [sum(W[i, k] * h[k] for k in range(3)) + b[i] for i in range(3)],
    ),
    "matmul with a transpose": (
        lambda h, x, W, b: h @ W.T + h.matmul(W.mT),
        lambda h, x, W, b: [2 * sum(W[i, k] * h[k] for k in range(3)) for i in range(3)],
    ),
    "weights first": (
        lambda h, x, W, b: (W @ h.T).T,
        lambda h, x, W, b: [sum(W[i, k] * h[k] for k in range(3)) for i in range(3)],
    ),
    "matrix times column": (
        lambda h, x, W, b: (W @ h.unsqueeze(-1)).squeeze(-1),
        lambda h, x, W, b: [sum(W[i, k] * h[k] for k in range(3)) for i in range(3)],
    ),
    "einsum": (
        lambda h, x, W, b: torch.einsum("bi,ij,bk->bj", h, W, x),
        lambda h, x, W, b: [sum(x) * sum(h[i] * W[i, j] for i in range(3)) for j in range(3)],
    ),
    "addmm, bmm": (
        lambda h, x, W, b: torch.addmm(b, h, W) + torch.bmm(h[:, None], W.expand(h.shape[0], 3, 3)).squeeze(1),
        lambda h, x, W, b: [b[j] + 2 * sum(h[i] * W[i, j] for i in range(3)) for j in range(3)],
    ),
    "outer, permute": (
        lambda h, x, W, b: torch.einsum("bi,bj->bij", h, h).permute(0, 2, 1).sum(1),
        lambda h, x, W, b: [sum(h) * h[i] for i in range(3)],
    ),
    "expand, reshape": (lambda h, x, W, b: h.unsqueeze(1).expand(-1, 2, -1).reshape(-1, 6)[:, 3:], all_of(lambda a: a)),
    "stack, unbind": (lambda h, x, W, b: torch.stack(h.unbind(-1)[::-1], -1), lambda h, x, W, b: h[::-1]),
    "cat, slice with a step, select": (
        lambda h, x, W, b: torch.cat([h[:, ::2], h[:, 1:2] * x[:, :1]], -1) * x[:, 1, None],
        lambda h, x, W, b: [x[1] * h[0], x[1] * h[2], x[1] * h[1] * x[0]],
    ),
    "chunk, split": (
        lambda h, x, W, b: torch.cat([*h.chunk(2, -1)[::-1]], -1) + torch.cat(h.split([1, 2], -1)[::-1], -1),
        lambda h, x, W, b: [h[2] + h[1], h[0] + h[2], h[1] + h[0]],
    ),
    "index, roll": (lambda h, x, W, b: h[:, [2, 0, 0]] + h.roll(1, -1), lambda h, x, W, b: [2 * h[2], 2 * h[0], h[0] + h[1]]),
    "tril, diag": (
        lambda h, x, W, b: h @ W.tril() + torch.eye(3, dtype=h.dtype).sum(0),
        lambda h, x, W, b: [1 + sum(h[i] * W[i, j] for i in range(j, 3)) for j in range(3)],
    ),
    "full, zeros, ones, arange": (
        lambda h, x, W, b: h * torch.full_like(h, 2) + torch.zeros(h.shape[0], 3) + torch.ones_like(b) * torch.arange(3),
        lambda h, x, W, b: [2 * h[i] + i for i in range(3)],
    ),
    "in place on its own": (
        lambda h, x, W, b: h.clone().mul_(2).add_(b).tanh_().clamp_(min=0),
        lambda h, x, W, b: [Max(tanh(2 * h[i] + b[i]), 0) for i in range(3)],
    ),
    "columns written in place": (
        lambda h, x, W, b: written(h, x),
        lambda h, x, W, b: [2 * h[1], h[1] + x[0], h[0]],
    ),
    "sort, topk, median": (
        lambda h, x, W, b: torch.cat([h[:, :2].sort(-1)[0], h[:, 1:].topk(1)[0]], -1) + h[:, :2].median(-1, keepdim=True)[0],
        lambda h, x, W, b: [2 * Min(h[0], h[1]), h[0] + h[1], Max(h[1], h[2]) + Min(h[0], h[1])],
    ),
    "gather": (
        lambda h, x, W, b: h.gather(-1, torch.tensor([2, 0, 0]).expand(h.shape[0], 3)),
        lambda h, x, W, b: [h[2], h[0], h[0]],
    ),
    "logaddexp, logaddexp2, hypot": (
        lambda h, x, W, b: torch.stack(
            [torch.logaddexp(h[:, 0], b[0]), torch.logaddexp2(h[:, 1], b[1]), h[:, 2].hypot(b[2])], -1
        ),
        lambda h, x, W, b: [log(exp(h[0]) + exp(b[0])), log(2 ** h[1] + 2 ** b[1], 2), sqrt(h[2] ** 2 + b[2] ** 2)],
    ),
    "glu": (
        lambda h, x, W, b: F.glu(torch.cat([h, b.expand_as(h)], -1), -1),
        lambda h, x, W, b: [h[i] * sigma(b[i]) for i in range(3)],
    ),
}


THIRDS = [dict([*TABLE.items()][part::3]) for part in range(3)]


class Table(nn.Module):
    """A third of all operations in one module, so that torch records them once: three units of state for each."""

    def __init__(self, operations):
        super().__init__()
        self.operations = [code for code, _ in operations.values()]
        self.input_size, self.hidden_size = 2, 3 * len(operations)
        self.W, self.b = nn.Parameter(torch.randn(3, 3)), nn.Parameter(torch.randn(3))

    def forward(self, x, h):
        parts = h.split(3, -1)
        return torch.cat([code(part, x, self.W, self.b) for part, code in zip(parts, self.operations, strict=True)], -1)


@pytest.fixture(params=range(3))
def table(request):
    module = Table(THIRDS[request.param]).double()
    return module, symbolic(module), THIRDS[request.param]


def numbers(system, module, x, h):
    letters = [*system.inputs, *system.state, *(u for matrix in system.parameters.values() for u in matrix)]
    values = [*x.tolist(), *h.tolist(), *module.W.flatten().tolist(), *module.b.tolist()]
    return {letter: Float(value, 20) for letter, value in zip(letters, values, strict=True)}


# The first to ask for the table, whose operations take seconds to record.
@pytest.mark.by_default(1)
def test_every_reading_gives_torch_s_numbers(table):
    module, system, operations = table
    for _ in range(2):
        x, h = torch.randn(2).double(), 2 * torch.randn(len(system)).double()
        computed, values = module(x[None], h[None])[0].tolist(), numbers(system, module, x, h)
        for k, (read, number) in enumerate(zip(system.flow, computed, strict=True)):
            # float64 rounding of a few operations
            assert math.isclose(read.xreplace(values).evalf(), number, rel_tol=1e-12, abs_tol=1e-13), list(operations)[k // 3]
    assert system.defined_on == ()


@pytest.mark.slow
def test_every_operation_is_proved_equal_to_an_expression_written_independently(table):
    _, system, operations = table
    W, b = system.parameters["W"], list(system.parameters["b"])
    written = []
    for k, (_, equation) in enumerate(operations.values()):
        written += equation(list(system.state[3 * k : 3 * k + 3]), list(system.inputs), W, b)
    verdict = decide(list(system.flow), written)
    assert verdict.holds is True, verdict.evidence
    assert verdict.verdict == "holds"
    assert len(TABLE) >= 38


class Sorted(nn.Module):
    input_size, hidden_size = 1, 4

    def forward(self, x, h):
        return h.sort(-1, descending=True)[0] + h.topk(2)[0].sum(-1, keepdim=True) + h.median(-1, keepdim=True)[0]


def test_four_units_are_sorted_as_torch_sorts_them():
    system = symbolic(Sorted())
    for _ in range(4):
        h = torch.randint(-3, 4, (4,)).double()  # equal ones too
        values = dict(zip(system.state, map(int, h), strict=True))
        assert [int(e.xreplace(values)) for e in system.flow] == Sorted()(h, h[None])[0].int().tolist()
