"""Functions that are recorded as others: their numbers and derivatives are torch's, and kernels take them."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.testing import assert_close

import ctrnn
import discretize
from ctrnn.rewriting import Rewritten
from discretize.kernels.record.program import jvp_in_reverse
from discretize.kernels.record.rewriting import OF_DERIVATIVES, RULES

H = torch.tensor([[0.3, -1.2, 0.7, 2.0, -0.4, 1.1], [0.9, 0.2, -0.6, -1.5, 0.8, 0.1], [0.0, 0.5, 1.0, -0.3, 0.0, 2.2]]).double()
W = torch.linspace(-1, 1, 36, dtype=torch.float64).reshape(6, 6).sin()
LARGE = W + 4 * torch.eye(6)
INDEX = torch.tensor([4, 0, 0, -1, 2, 3, 3])
PAIRS = torch.tensor([[1, 2], [0, 5], [-2, 3]])


def along(axes, **settings):
    """A convolution of a sample's numbers in 2 channels, over so many axes."""
    function = getattr(functional, f"conv{axes}d")
    channels = 2 // settings.get("groups", 1)
    kernel = W.flatten()[: 2 * channels * 2**axes].reshape(2, channels, *[2] * axes)
    shape = (2, 3) if axes == 1 else (2, *[1] * (axes - 2), 3, 1)
    return lambda h: function(h.unflatten(-1, shape), kernel, W[0, :2], **settings).flatten(1)


CASES = {
    "a list": lambda h: h[..., [1, 0, 2, 2]],
    "an index": lambda h: h[:, INDEX],
    "an index of pairs": lambda h: h[..., PAIRS].mean(-1),
    "an index between": lambda h: h.unflatten(-1, (3, 2))[:, torch.tensor([2, 0]), 1:].flatten(1),
    "an index that begins": lambda h: W[INDEX] @ h.sum(0),
    "a mask by an index": lambda h: torch.where((W[0] > 0)[INDEX[:6]], h, -h),
    "a mask": lambda h: h[..., torch.tensor([True, False, True, True, False, False])],
    "two lists": lambda h: h[torch.tensor([0, 1]), torch.tensor([2, 2])],
    "a piece": lambda h: h[..., 1:4],
    "index_select": lambda h: h.index_select(-1, INDEX % 6),
    "index_add": lambda h: (h**2).index_add(-1, INDEX[3:] % 6, h[:, :4], alpha=0.5),
    "conv1d": along(1),
    "conv1d, same": along(1, padding="same", dilation=2),
    "conv1d, valid": along(1, padding="valid"),
    "conv1d, in groups": along(1, groups=2, padding=1, stride=2),
    "conv2d": along(2, padding=(1, 2), stride=(2, 1)),
    "conv3d": along(3, padding=1),
    "circular": lambda h: functional.conv1d(functional.pad(h[:, None], (1, 1), mode="circular"), W[:2, None, :3]).flatten(1),
    "bilinear": lambda h: functional.bilinear(h[:, :2], h[:, 3:], W.reshape(6, 6)[:, :6].reshape(6, 2, 3)),
    "prod": lambda h: h.prod(-1, keepdim=True) + h.unflatten(-1, (2, 3)).prod(1),
    "prod of all": torch.prod,
    "amin": lambda h: h.amin(-1, keepdim=True) * h + torch.amin(h.unflatten(-1, (2, 3)), dim=(1, 2))[:, None],
    "abs": lambda h: abs(h) * h.abs() + torch.absolute(h),
    "sign": lambda h: torch.sign(h) * h**2 + h * h.sgn(),
    "softsign": functional.softsign,
    "glu": lambda h: functional.glu(h) + functional.glu(h.unflatten(-1, (2, 3)), 1).flatten(1),
    "layer_norm": lambda h: functional.layer_norm(h, (6,)) + nn.LayerNorm((2, 3))(h.unflatten(-1, (2, 3))).flatten(1),
    "instance_norm": lambda h: functional.instance_norm(h.unflatten(-1, (2, 3))).flatten(1),
    "solve": lambda h: torch.linalg.solve(4 * torch.eye(6) + h[:, None] * h[..., None], h),
    "solve, columns": lambda h: torch.linalg.solve(LARGE, h.mT) * torch.linalg.solve(LARGE, h, left=False).mT,
    "std": lambda h: h.std(-1, keepdim=True) * h + torch.std(h, dim=1, correction=0, keepdim=True) + h.std(1, False)[:, None],
    "sinc": lambda h: torch.sinc(h + 0.05) + (h + 0.1).sinc(),
    "logarithms": lambda h: torch.log2(h**2 + 1) * torch.log10(h**2 + 2),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_and_both_derivatives_are_torchs(name):
    def answers():
        h = H.clone().requires_grad_()
        value = CASES[name](h)
        (first,) = torch.autograd.grad(
            (value * torch.linspace(1, 2, value.numel()).reshape(value.shape)).sum(), h, create_graph=True
        )
        second = [torch.zeros(())]
        if first.requires_grad:
            second = torch.autograd.grad(first.sin().sum(), h, allow_unused=True, materialize_grads=True)
        return value, first, second[0]

    expected = answers()
    with Rewritten(RULES | OF_DERIVATIVES):
        found = answers()
    for mine, torchs in zip(found, expected, strict=True):
        assert_close(mine.broadcast_to(torchs.shape), torchs, rtol=1e-12, atol=1e-12)


def test_derivatives_along_a_vector_are_those_of_torch_where_units_are_equal_or_zero():
    for function in (lambda h: h.std(-1, keepdim=True) * W[0], torch.sinc):
        for h in (torch.zeros(2, 6).double(), torch.ones(2, 6).double()):
            expected = torch.func.jvp(function, (h,), (W[:2],))[1]
            assert_close(jvp_in_reverse(function, h, W[:2]), expected, rtol=0, atol=1e-14)


def test_every_rule_is_used_by_one_of_these():
    used, rules = set(), RULES | OF_DERIVATIVES
    noted = {n: lambda *given, n=n, rule=rule, **how: used.add(n) or rule(*given, **how) for n, rule in rules.items()}
    with Rewritten(noted):
        for case in CASES.values():
            case(H)
    assert used == set(rules)


class Sheet(ctrnn.VectorField):
    """A neural field on a ring, with far connections by a list, others to all but itself, and a tensor that is written into."""

    def __init__(self):
        super().__init__(2, 6)
        self.to_units, self.near = nn.Linear(2, 6), nn.Conv1d(1, 2, 3, padding=1, padding_mode="circular")
        self.register_buffer("far", PAIRS.repeat(2, 1))
        self.weights, self.others = nn.Parameter(W[:, :2].clone()), nn.Parameter(W.clone() / 9)

    def flow(self, projected, h):
        near = functional.silu(self.near(h.unsqueeze(-2))).prod(-2)
        far = (torch.tanh(h)[..., self.far] * self.weights).sum(-1)
        far = far - h.unflatten(-1, (2, 3)).amin(1).amin(-1, keepdim=True)
        own = torch.empty_like(h)
        own[..., :3], own[..., 3:] = functional.softsign(h[..., 3:]), h[..., :3].abs()
        far = far + functional.linear(h, self.others - torch.diag(self.others.diagonal()))
        return near + far + own + self.to_units(projected) - 3 * h


@pytest.mark.kernels
def test_a_neural_field_is_compiled():
    # Seconds, in which so much code and its derivatives are recorded.
    field, xs = Sheet().double(), torch.randn(20, 3, 2)
    found = []
    for fused in ("always", False):
        ran = discretize.unroll(discretize.DiscreteCell(field, discretize.Euler(), 0.1), xs, H / 9, fused=fused)
        found.append([ran.hs, *torch.autograd.grad(ran.hs.square().sum(), field.parameters())])
        assert ran.stats["engine"] == ("compiled" if fused else "steps"), ran.stats["engine_why"]
    for mine, theirs in zip(*found, strict=True):
        assert_close(mine, theirs, rtol=1e-9, atol=1e-9)
    field.far[0, 0] = 6
    with pytest.raises(IndexError, match="index 6 is out of bounds for dimension 0 with size 6"):
        discretize.DiscreteRNN(field, discretize.Euler(), 0.1)(xs)


@pytest.mark.slow
def test_so_is_its_jacobian():
    field, path, found = Sheet().double(), ctrnn.LinearPath(torch.randn(4, 3, 2)), []
    for fused in (True, False):
        ran = discretize.integrate(field, path, H / 9, path.knots, method="rodas5p", fused=fused)
        found.append([ran.hs, *torch.autograd.grad(ran.hs.square().sum(), field.parameters())])
        assert ran.stats["engine"] == ("compiled" if fused else "steps"), ran.stats["engine_why"]
    for mine, theirs in zip(*found, strict=True):
        assert_close(mine, theirs, rtol=1e-7, atol=1e-7)
