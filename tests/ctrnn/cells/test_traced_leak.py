"""The leak that a field's code has, for fields that do not say it: against those that do, and what sets it."""

import copy

import pytest
import torch
from problems import NAMED_FIELDS
from torch import nn
from torch.testing import assert_close

import ctrnn
import discretize
from ctrnn.cells.traced_leak import rest_leak

PUBLISHED = {"mgu": ctrnn.mgu, "lem": ctrnn.lem, "ltc": ctrnn.ltc, "rhn": ctrnn.rhn, "adaptive": ctrnn.adaptive}
FIELDS = NAMED_FIELDS | PUBLISHED


class Silent(ctrnn.VectorField):
    """Another field's code, and nothing that it declares."""

    def __init__(self, field):
        super().__init__(field.input_size, field.hidden_size, field.state_size)
        self.inner = field

    def project(self, x):
        return self.inner.project(x)

    def flow(self, projected, h):
        return self.inner.flow(projected, h)


def made(make, seed=0):
    """In float64, with biases drawn."""
    field = make(3, 5).double()
    dice = torch.Generator().manual_seed(seed)
    for parameter in field.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=dice, dtype=torch.float64)
    return field


@pytest.mark.parametrize("name", FIELDS)
def test_the_leak_of_the_code_is_the_one_that_fields_declare(name):
    field = made(FIELDS[name])
    if "power" in name:  # of a state of size 1: at 0 there is none
        assert_close(1 / rest_leak(Silent(field))[-5:], ctrnn.timescales(field), rtol=1e-12, atol=0)
    else:
        assert_close(rest_leak(Silent(field)), rest_leak(field), rtol=1e-12, atol=1e-14)


class Traced(Silent):
    leak = ctrnn.traced_leak


@pytest.mark.parametrize("name", [name for name in FIELDS if "power" not in name])  # |h|^r h has no L without the state in it
def test_a_traced_leak_is_the_declared_one_at_every_state_and_has_its_derivatives(name):
    field = made(FIELDS[name])
    x, h = (torch.randn(2, 4, size, dtype=torch.float64) for size in (3, field.state_size))
    h.requires_grad_()
    projected = field.project(x)
    found = [each.leak(projected, h) for each in (field, Traced(field))]
    assert_close(found[1], found[0].expand_as(found[1]), rtol=1e-11, atol=1e-12)
    targets = [h, *field.parameters()]
    derivatives = [
        torch.autograd.grad(leak.expand_as(h).sin().sum(), targets, allow_unused=True, materialize_grads=True, retain_graph=True)
        if leak.requires_grad
        else [torch.zeros_like(target) for target in targets]
        for leak in found
    ]
    for one, other in zip(*derivatives, strict=True):
        assert_close(other, one, rtol=1e-9, atol=1e-11)


def test_exponential_steps_of_a_field_of_the_user_are_those_of_the_named_one():
    field = made(ctrnn.gru)
    xs = torch.randn(6, 2, 3, dtype=torch.float64)
    for step in (discretize.ExponentialEuler(), discretize.ETDRK4(), discretize.StrangSplitting()):
        ours, theirs = (discretize.DiscreteRNN(each, step, dt=2.0)(xs)[0] for each in (Traced(field), field))
        assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


def test_an_lstm_in_code_of_the_user_forgets_as_drawn():
    field = Silent(made(ctrnn.lstm))
    ctrnn.init.chrono_(field, 30, t_min=10)
    T = 1 / rest_leak(field)[5:]
    assert T.min() >= 10 * (1 - 1e-9)
    assert T.max() <= 30 * (1 + 1e-9)
    assert T.unique().numel() == 5


@pytest.mark.kernels
def test_it_is_compiled_with_the_field():
    class Mine(Fused):
        leak = ctrnn.traced_leak

    field, xs = Mine(), torch.randn(100, 2, 3, dtype=torch.float64)
    found = []
    for fused in (True, False):
        rnn = discretize.DiscreteRNN(field, discretize.ExponentialEuler(), fused=fused)
        found.append(rnn(xs)[0])
        assert rnn.stats["engine"] == ("compiled" if fused else "steps"), rnn.stats["engine_why"]
    assert_close(*found, rtol=1e-11, atol=1e-12)


# No bias, one bias for several gates, no rule of its own, and further constants: below.
OTHERWISE = ("plain", "rhn", "ltc", "adaptive", "network")


@pytest.mark.by_default(8)
@pytest.mark.parametrize("name", [name for name in FIELDS if name not in OTHERWISE and "lstm" not in name])
def test_chrono_finds_the_biases_that_it_sets_in_named_fields(name):
    ours = made(FIELDS[name])
    silent = Silent(copy.deepcopy(ours))
    for each in (ours, silent):
        ctrnn.init.chrono_(each, 50, generator=torch.Generator().manual_seed(1))
    for one, other in zip(ours.parameters(), silent.parameters(), strict=True):
        assert_close(other, one, rtol=1e-10, atol=1e-10)


class Fused(ctrnn.VectorField):
    """Two gates of one bias, turned round, a norm, and a constant that all units share."""

    def __init__(self, hidden_size=5):
        super().__init__(3, hidden_size)
        self.to_gates, self.of_state = nn.Linear(3, 2 * hidden_size), nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.scale = nn.Parameter(torch.tensor(0.3))
        self.double()

    def project(self, x):
        return self.to_gates(x)

    def flow(self, projected, h):
        a, b = (projected + self.of_state(h) / (1 + h.square().sum(-1, keepdim=True))).chunk(2, -1)
        return torch.sigmoid(-b.flip(-1)) * (torch.sin(a) * self.scale - h)


def test_entries_are_found_wherever_they_stand():
    field, before = Fused(), Fused().state_dict()
    field.load_state_dict(before)
    ctrnn.init.chrono_(field, 40, t_min=4, generator=torch.Generator().manual_seed(2))
    after = field.state_dict()
    changed = (after["to_gates.bias"] != before["to_gates.bias"]).tolist()
    assert changed == 5 * [False] + 5 * [True]
    assert all(torch.equal(after[name], before[name]) for name in before if name != "to_gates.bias")
    drawn = torch.empty(5, dtype=torch.float64).uniform_(4, 40, generator=torch.Generator().manual_seed(2))
    assert_close(torch.log(drawn - 1), after["to_gates.bias"][5:])  # sigma(-b) = 1/T, entry by entry
    assert_close(ctrnn.timescales(field), drawn.flip(0))


def test_one_constant_for_all_is_drawn_once():
    class Shared(Fused):
        def flow(self, projected, h):
            a, _ = (projected + self.of_state(h)).chunk(2, -1)
            return torch.exp(self.scale) * (a - h)

    field = Shared()
    ctrnn.init.chrono_(field, 40)
    T = ctrnn.timescales(field)
    assert_close(T, T[:1].expand(5))
    assert 2 <= T[0] <= 40


def test_units_that_act_on_one_another_are_asked_for_their_leak():
    class Ring(Fused):
        def flow(self, projected, h):
            return torch.roll(h, 1, -1) - h * torch.roll(h, 1, -1) - h

    for call in (ctrnn.timescales, lambda field: ctrnn.init.chrono_(field, 10)):
        with pytest.raises(TypeError, match="act on one another by more than products with weights; give it a `leak`"):
            call(Ring())


def test_a_time_out_of_reach_changes_nothing():
    class Slow(Fused):
        def flow(self, projected, h):
            a, b = (projected + self.of_state(h)).chunk(2, -1)
            return 0.1 * torch.sigmoid(b) * (a - h)

    field = Slow()
    before = copy.deepcopy(field.state_dict())
    with pytest.raises(ValueError, match="no bias makes the leak 1/T for T = "):
        ctrnn.init.chrono_(field, 8, t_min=2)
    assert all(torch.equal(value, before[name]) for name, value in field.state_dict().items())


def test_without_a_bias_there_is_no_time_to_set():
    class Plain(Fused):
        def flow(self, projected, h):
            return projected[..., : self.hidden_size] - 0.5 * h

    assert_close(ctrnn.timescales(Plain()), torch.full((5,), 2.0, dtype=torch.float64), rtol=1e-14, atol=0)  # to rounding
    with pytest.raises(TypeError, match="whose leak at rest no bias of its own sets"):
        ctrnn.init.chrono_(Plain(), 10)
