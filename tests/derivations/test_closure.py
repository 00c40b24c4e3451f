"""Which classes absorb clocks: the named ones, users' own, and that the witnesses do what they say."""

import pytest
import torch
from sympy import Eq, Symbol
from torch import nn

import ctrnn
import derivations
from derivations.closure import EVERY_WARP, NONE, RESCALING, Closes
from derivations.prover import symbols
from derivations.texts.own_closure import classes
from derivations.twins import fields

TWINS = {name: (field, group) for name, field, group, _, _ in classes()}


def coded():
    power = ctrnn.PowerDecay(2.0)
    return {
        "plain": (ctrnn.plain(1, 2), NONE),
        "leaky": (ctrnn.leaky(1, 2), RESCALING),
        "leaky, per unit": (ctrnn.leaky(1, 2, per_unit=True), RESCALING),
        "leaky, power decay": (ctrnn.leaky(1, 2, decay=ctrnn.PowerDecay(0.5)), RESCALING),
        "gated": (ctrnn.gated(1, 2), EVERY_WARP),
        "gated, global": (ctrnn.gated(1, 2, "global"), EVERY_WARP),
        "gated, network": (ctrnn.gated(1, 2, "network"), NONE),
        "gated, power decay": (ctrnn.gated(1, 2, decay=power), EVERY_WARP),
        "gru": (ctrnn.gru(1, 2), EVERY_WARP),
        "lstm": (ctrnn.lstm(1, 2), NONE),
        "a constant gate": (constant_gate(), RESCALING),
        "a fixed rate": (ctrnn.Relaxation(ctrnn.TanhCandidate(1, 2), ctrnn.FixedRate(0.3), power), NONE),
    }


def constant_gate():
    return ctrnn.Relaxation(ctrnn.TanhCandidate(1, 2), ctrnn.SigmoidConstantRate(0.3), ctrnn.LinearDecay())


@pytest.mark.parametrize("name", coded())
def test_the_torch_code_absorbs_what_its_twin_does(name):
    field, group = coded()[name]
    assert derivations.closed_under(field).group == group


@pytest.mark.parametrize("name", TWINS)
def test_a_named_class_absorbs_what_the_ledger_says_and_its_witness_multiplies_the_field_by_the_speed(name):
    field, group = TWINS[name]
    closure = derivations.closed_under(field)
    assert closure.group == group
    if group == NONE:  # the witness is an equation that cannot be met
        return
    speed = Symbol("c'", positive=True)
    new = {}
    for equation in closure.witness:
        letter = next((u for u in closure.rates if f"{u}'" == equation.lhs.name), None)
        old = closure.rates[letter] if letter is not None else parameter(field, equation.lhs.name[:-1])
        new[old] = equation.rhs.xreplace(closure.rates)
    warped = field.flow.xreplace(new)
    assert derivations.Identity("w", "this project", "", warped, speed * field.flow).holds()


def parameter(field, name):
    (found,) = {u for matrix in field.parameters.values() for u in matrix if u.name == name}
    return found


def test_a_sigmoid_gate_must_stay_below_one():
    closure = derivations.closed_under(fields.gated(gate="global"))
    assert "0 < c'*g_1 < 1" in closure.assumption
    assert closure.witness == (Eq(Symbol("g_1'"), Symbol("c'", positive=True) * Symbol("g_1")),)


def test_an_exponential_constant_is_moved_by_the_logarithm_of_the_speed():
    (witness,) = derivations.closed_under(ctrnn.leaky(1, 1)).witness
    assert str(witness) == "Eq(rate.log_alpha', rate.log_alpha + log(c'))"


def test_the_networks_own_state_is_what_a_gate_of_its_own_cannot_warp():
    closure = derivations.closed_under(fields.gated(gate="network"))
    assert closure.unit.func.__name__.startswith("h^g")
    assert closure.witness == (Eq(-1, -Symbol("c'", positive=True), evaluate=False),)


class Softplus(ctrnn.VectorField):
    """A rate without a ceiling, written by hand."""

    def __init__(self):
        super().__init__(1, 1)
        self.speed, self.pull = nn.Linear(1, 1), nn.Linear(1, 1)

    def flow(self, x, h):
        return torch.log(1 + torch.exp(self.speed(x))) * (torch.tanh(self.pull(h)) - h)


class Affine(ctrnn.VectorField):
    def __init__(self):
        super().__init__(1, 2)
        self.of_x, self.of_h = nn.Linear(1, 2), nn.Linear(2, 2)

    def flow(self, x, h):
        return self.of_x(x) + self.of_h(h)


class Shared(ctrnn.VectorField):
    """The rate's only parameters are the candidate's too: changing one changes the other."""

    def __init__(self):
        super().__init__(1, 1)
        self.both = nn.Linear(1, 1)

    def flow(self, x, h):
        return torch.sigmoid(self.both(x)) * (torch.tanh(self.both(x)) - h)


class Pendulum(ctrnn.VectorField):
    def __init__(self):
        super().__init__(1, 1, 2)
        self.k = nn.Parameter(torch.ones(()))

    def flow(self, x, h):
        q, p = h.chunk(2, -1)
        return torch.cat([p, x - self.k * torch.sin(q)], -1)


class Mended(ctrnn.VectorField):
    """(a - 1) h on both sides of 0, in a form in which the letters hide it."""

    def __init__(self):
        super().__init__(1, 1)
        self.a = nn.Parameter(torch.ones(()))

    def flow(self, x, h):
        return self.a * h.sign() * h.abs() - h


@pytest.mark.parametrize(
    ("field", "group", "condition"),
    [(Softplus, EVERY_WARP, ""), (Affine, RESCALING, "constant"), (Pendulum, NONE, "not 1")],
)
def test_a_users_own_field_gets_its_verdict(field, group, condition):
    closure = derivations.closed_under(field())
    assert closure.group == group
    assert condition in closure.assumption
    assert "< 1" not in closure.assumption


@pytest.mark.parametrize("field", [Mended, Shared])
def test_where_neither_answer_is_proved_none_is_given(field):
    with pytest.raises(derivations.UnknownRate, match="A rate is a factor outside"):
        derivations.closed_under(field())


def test_a_statement_about_closure_can_fail():
    assert Closes(fields.plain(), NONE).decide().holds
    refuted = Closes(fields.leaky(decay=fields.power_decay(symbols.r)), EVERY_WARP).decide()
    assert refuted.holds is False
    assert refuted.counterexample


def test_what_is_no_field_is_refused():
    with pytest.raises(TypeError, match=r"must be a ctrnn\.VectorField, got Linear"):
        derivations.closed_under(nn.Linear(1, 1))
