"""Jacobians of relaxations in closed form are those of forward mode, with their derivatives, for every part."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.testing import assert_close

import ctrnn
from ctrnn.fields.parts import Affine
from ctrnn.fields.rates import RATES, SIGMOID
from ctrnn.forward import jacobian_of
from ctrnn.own_code import own_code
from ctrnn.parts import (
    AdditiveCandidate,
    ConstantRate,
    Dropout,
    FixedRate,
    FunctionCandidate,
    LayerNorm,
    LinearDecay,
    PowerDecay,
    ReluCandidate,
    ResetCandidate,
    ResetStateCandidate,
    TanhCandidate,
)

SIZES = 2, 4


class Mixing(TanhCandidate):
    """Changes what a part of ours computes: its units are no longer each their own function."""

    def function(self, argument):
        return torch.softmax(argument, -1)


class Quicker(PowerDecay):
    """Forgets by all units' sizes, which no decay should, and none is kept from."""

    def forward(self, h):
        return h * h.square().sum(-1, keepdim=True)

    def leak(self, h):
        return h.square().sum(-1, keepdim=True).expand_as(h)


def reset_by(part):
    candidate = ResetCandidate(*SIZES)
    candidate.reset = part
    return candidate


CANDIDATES = {
    "tanh": lambda: TanhCandidate(*SIZES),
    "relu, without bias": lambda: ReluCandidate(*SIZES, bias=False),
    **{word: lambda word=word: FunctionCandidate(*SIZES, word) for word in ("softplus", "sigmoid", "retanh")},
    "a user's, mixed": lambda: FunctionCandidate(*SIZES, lambda a: torch.softmax(a, -1)),
    "a user's class": lambda: Mixing(*SIZES),
    "additive": lambda: AdditiveCandidate(*SIZES),
    "reset": lambda: ResetCandidate(*SIZES),
    "reset by another part": lambda: reset_by(TanhCandidate(*SIZES)),
    "reset state": lambda: ResetStateCandidate(*SIZES),
    "normalized": lambda: LayerNorm(TanhCandidate(*SIZES)),
    "dropped out": lambda: Dropout(TanhCandidate(*SIZES), 0.3),
}
RATE_PARTS = {
    "fixed": lambda: FixedRate(0.7),
    "one for each": lambda: ConstantRate(torch.tensor([0.1, 0.2, 0.4, 1.0])),
    **{constant.__name__: lambda constant=constant: constant(0.4) for constant, _, _ in RATES.values()},
    **{gate.__name__: lambda gate=gate: gate(*SIZES) for _, *gates in RATES.values() for gate in gates},
}
DECAYS = {
    "linear": LinearDecay,
    "power": lambda: PowerDecay(0.5),
    "learned powers": lambda: PowerDecay(torch.tensor([0.5, 1.0, 2.0, 3.0]), learnable=True, hidden_size=4),
    "a user's class": lambda: Quicker(1.0),
}
FIELDS = [
    *((candidate, "GateRate", "power") for candidate in CANDIDATES),
    *(("tanh", rate, "linear") for rate in RATE_PARTS),
    *(("tanh", "GlobalGateRate", decay) for decay in DECAYS),
    *(("a user's class", "fixed", decay) for decay in DECAYS),
]


def field_of(candidate, rate, decay):
    return ctrnn.Relaxation(CANDIDATES[candidate](), RATE_PARTS[rate](), DECAYS[decay]()).double().eval()


@pytest.mark.parametrize(("candidate", "rate", "decay"), FIELDS)
def test_the_jacobian_is_that_of_forward_mode_and_so_is_what_autograd_makes_of_it(candidate, rate, decay):
    field = field_of(candidate, rate, decay)
    h = torch.cat([torch.zeros(1, 4), torch.randn(4, 4)]).requires_grad_()  # sequences start at 0
    projected = field.project(torch.randn(5, 2)).detach()
    found, expected = field.jacobian(projected, h), jacobian_of(lambda u: field.flow(projected, u), h)
    assert_close(found, expected, rtol=1e-13, atol=1e-14)
    weights, direction = list(field.parameters()), torch.randn_like(found)
    of = [
        torch.autograd.grad((each * direction).sum(), [h, *weights], allow_unused=True, retain_graph=True)
        for each in (found, expected)
    ]
    for mine, theirs in zip(*of, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert_close(mine, theirs, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    ("candidate", "rate"),
    [("tanh", "fixed"), ("softplus", "GlobalGateRate"), ("relu, without bias", "ConstantRate"), ("reset", "GateRate")],
)
def test_known_parts_take_no_direction_for_each_unit(candidate, rate, monkeypatch):
    def refused(*_):
        raise AssertionError("a direction for each unit")

    monkeypatch.setattr("ctrnn.fields.derivatives.jacobian_of", refused)
    field = field_of(candidate, rate, "power")
    assert field.jacobian(field.project(torch.randn(2)), torch.randn(4)).shape == (4, 4)
    mixed = field_of("a user's class", rate, "power")
    projected = mixed.project(torch.randn(2))
    with pytest.raises(AssertionError, match="direction"):
        mixed.jacobian(projected, torch.randn(4))


def test_networks_beside_one_another_have_their_jacobians():
    fields = [field_of("tanh", "GateRate", "learned powers") for _ in range(3)]
    stacked, _ = torch.func.stack_module_state(fields)
    h, projected = torch.randn(5, 4), torch.randn(5, 8)

    def one(weights):
        return torch.func.functional_call(Called(fields[0]), {f"field.{name}": w for name, w in weights.items()}, (projected, h))

    assert_close(torch.func.vmap(one)(stacked), torch.stack([field.jacobian(projected, h) for field in fields]))


@pytest.mark.parametrize("where", ["class", "object", "class, later", "class that calls ours"])
def test_another_flow_has_the_jacobian_of_its_own(where):
    class Pushed(ctrnn.Relaxation):
        def flow(self, projected, h):
            return super().flow(projected, h) + h**3

    class Counted(Pushed):
        def jacobian(self, projected, h):
            return ctrnn.Relaxation.jacobian(self, projected, h)

    class Plain(ctrnn.Relaxation):
        pass

    parts = TanhCandidate(*SIZES), FixedRate(1.0), LinearDecay()
    kinds = {"class": Pushed, "object": ctrnn.Relaxation, "class, later": Plain, "class that calls ours": Counted}
    field = kinds[where](*parts)
    if where == "object":
        field.flow = lambda projected, h: ctrnn.Relaxation.flow(field, projected, h) + h**3
    if where == "class, later":
        Plain.flow = lambda self, projected, h: ctrnn.Relaxation.flow(self, projected, h) + h**3
    projected, h = torch.randn(4), torch.randn(4)
    assert_close(field.jacobian(projected, h), jacobian_of(lambda u: field.flow(projected, u), h))


@pytest.mark.parametrize("part", ["candidate", "rate"])
def test_another_function_of_a_part_may_mix_its_units(part):
    field = field_of("softplus", "GateRate", "linear")
    if part == "candidate":
        field.candidate.applied = lambda a: torch.softmax(a, -1)
    else:
        field.rate.activation = replace(SIGMOID, function=lambda a: torch.softmax(a, -1))
    projected, h = field.project(torch.randn(2)).detach(), torch.randn(4)
    assert_close(field.jacobian(projected, h), jacobian_of(lambda u: field.flow(projected, u), h))


EXCHANGED = {
    "flow of a candidate": (TanhCandidate, "flow", lambda self, projected, h: projected + h.roll(1, -1) ** 2),
    "function of a candidate": (TanhCandidate, "function", lambda self, a: torch.softmax(a, -1)),
    "function of a candidate, a library's": (TanhCandidate, "function", staticmethod(partial(torch.softmax, dim=-1))),
    "preactivation of all": (Affine, "preactivation", lambda self, projected, h: projected + h.roll(1, -1) ** 2),
    "flow of a rate": (FixedRate, "flow", lambda self, projected, h: 1 + h.square()),
    "decay": (PowerDecay, "forward", lambda self, h: h * h.square().sum(-1, keepdim=True)),
    "function of another of ours": (TanhCandidate, "function", ReluCandidate.function),
    "function of a base": (TanhCandidate, "function", vars(Affine)["function"]),
}


@pytest.mark.parametrize("what", EXCHANGED)
def test_a_method_that_is_exchanged_on_our_class_has_the_jacobian_of_its_own(what, monkeypatch):
    kind, name, method = EXCHANGED[what]
    field = field_of("tanh", "fixed", "power")
    projected, h = field.project(torch.randn(2)).detach(), torch.rand(4) + 0.1
    before = field.jacobian(projected, h)
    monkeypatch.setattr(kind, name, method)
    assert own_code(part_of(field, kind), type(part_of(field, kind))) == f"`{kind.__name__}.{name}`, exchanged on the class"
    assert_close(field.jacobian(projected, h), jacobian_of(lambda u: field.flow(projected, u), h))
    monkeypatch.undo()
    assert_close(field.jacobian(projected, h), before, rtol=0, atol=0)


def part_of(field, kind):
    return next(part for part in (field.candidate, field.rate, field.decay) if isinstance(part, kind))


class Called(torch.nn.Module):
    """Calls the Jacobian of a field, as modules are called."""

    def __init__(self, field):
        super().__init__()
        self.field = field

    def forward(self, projected, h):
        return self.field.jacobian(projected, h)
