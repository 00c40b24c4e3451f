"""Which classes absorb clocks: the named ones, users' own, and that the witnesses do what they say."""

import pytest
import torch
from sympy import Abs, Eq, Heaviside, ImmutableDenseMatrix, Integral, Interval, Max, Symbol, Union, exp, log, oo, sin, sqrt
from torch import nn

import ctrnn
import derivations
from derivations import closure as closure_module
from derivations import slots as slots_module
from derivations.closure import EVERY_WARP, NONE, RESCALING, WITHIN_UNIT, Closes
from derivations.prover import symbols
from derivations.prover.inequalities import Less
from derivations.ranges import POSITIVE, REALS, values_of
from derivations.rules.conclusions import concludes
from derivations.rules.quotients import NotShown
from derivations.rules.replay import as_data, from_data
from derivations.slots import speed as c_speed
from derivations.texts.own_identities import classes
from derivations.twins import fields

pytestmark = pytest.mark.usefixtures("read_alone")

p, q = Symbol("p", real=True), Symbol("q", real=True)
OF_ITS_OWN = "warps of what its gates read that keep these in (0, 1)"
BOUNDED = "rescaling that keeps its rates in (0, 1)"
TWINS = {name: (field, group) for name, field, group, _, _ in classes()}


def relaxation(rate, decay):
    return ctrnn.Relaxation(ctrnn.TanhCandidate(1, 1), rate, decay)


class SoftCount(ctrnn.VectorField):
    """torch's softplus has a threshold, so that a softplus of another asks for a value that has cases."""

    def __init__(self):
        super().__init__(1, 1, 2)
        self.w = nn.Parameter(torch.ones(1))

    def flow(self, x, state):
        h, count = state.chunk(2, -1)
        read = self.w * x - count + nn.functional.softplus(-h)
        return torch.cat([torch.sigmoid(read) - h, nn.functional.softplus(read) - nn.functional.softplus(-h)], -1)


# The twins of these are tested below.
CODED = {
    "gated, network": (lambda: ctrnn.gated(1, 1, "network"), NONE),
    "gru": (lambda: ctrnn.gru(1, 2), WITHIN_UNIT),
    "lstm": (lambda: ctrnn.lstm(1, 1), NONE),
    "a constant gate": (lambda: relaxation(ctrnn.SigmoidConstantRate(0.3), ctrnn.LinearDecay()), BOUNDED),
    "softplus of softplus": (SoftCount, NONE),
    "a fixed rate": (lambda: relaxation(ctrnn.FixedRate(0.3), ctrnn.PowerDecay(2.0)), NONE),
}


@pytest.mark.by_default(2)
@pytest.mark.parametrize("name", CODED)
def test_the_torch_code_absorbs_what_its_twin_does(name):
    field, group = CODED[name]
    assert derivations.closed_under(field()).group == group


@pytest.mark.by_default(3)
@pytest.mark.parametrize("name", [name for name in TWINS if "lstm" not in name])  # the longest by far; the torch code's is above
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


def test_a_sigmoid_gate_must_stay_below_one_when_its_witness_moves_it():
    closure = derivations.closed_under(fields.gated(gate="global"))
    assert "0 < c'*g_1 < 1" in closure.assumption
    assert closure.witness == (Eq(Symbol("g_1'"), Symbol("c'", positive=True) * Symbol("g_1")),)


def test_the_witness_moves_an_exponential_constant_by_the_logarithm_of_the_speed():
    (witness,) = derivations.closed_under(ctrnn.leaky(1, 1)).witness
    assert str(witness) == "Eq(rate.log_alpha', rate.log_alpha + log(c'))"


def test_the_state_of_the_network_is_what_a_gate_of_its_own_cannot_warp():
    closure = derivations.closed_under(fields.gated(gate="network"))
    assert closure.unit.func.__name__.startswith("h^g")
    assert closure.witness == (Eq(-1, -Symbol("c'", positive=True), evaluate=False),)


def test_a_statement_about_closure_can_fail():
    assert Closes(fields.plain(), NONE).decide().holds
    refuted = Closes(fields.leaky(decay=fields.power_decay(symbols.r)), EVERY_WARP).decide()
    assert refuted.holds is False
    assert refuted.counterexample


class Softplus(ctrnn.VectorField):
    """A rate without a ceiling, written by hand."""

    def __init__(self):
        super().__init__(1, 1)
        self.speed, self.pull = nn.Linear(1, 1), nn.Linear(1, 1)

    def flow(self, x, h):
        return torch.log(1 + torch.exp(self.speed(x))) * (torch.tanh(self.pull(h)) - h)


class SoftplusOfAll(Softplus):
    """Its rate reads the state too."""

    def __init__(self):
        super().__init__()
        self.speed = nn.Linear(2, 1)

    def flow(self, x, h):
        both = torch.cat([x, h], -1)
        return torch.log(1 + torch.exp(self.speed(both))) * (torch.tanh(self.pull(h)) - h)


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
    [
        (Softplus, "warps of what its gates read", "c' is a function of x_1(t), which the gates read"),
        (SoftplusOfAll, EVERY_WARP, "the data so far"),
        (Affine, RESCALING, "constant"),
        (Pendulum, NONE, "not 1"),
    ],
)
def test_a_users_own_field_gets_its_verdict(field, group, condition):
    closure = derivations.closed_under(field())
    assert closure.group == group
    assert condition in closure.assumption
    assert "< 1" not in closure.assumption


class Added(ctrnn.VectorField):
    """exp(gate) + h, or with -tanh h: a gate that may be any positive function may make up for c' h."""

    def __init__(self, added):
        super().__init__(1, 1)
        self.gate, self.added = nn.Linear(2, 1), added

    def flow(self, x, h):
        return torch.exp(self.gate(torch.cat([x, h], -1))) + self.added(h)


@pytest.mark.parametrize("added", [lambda h: h, lambda h: -torch.tanh(h)])
def test_where_a_gate_may_make_up_for_a_coefficient_that_stays_nothing_is_proved(added):
    with pytest.raises(derivations.UnknownRate):
        derivations.closed_under(Added(added))


class Pole(ctrnn.VectorField):
    """-h + 1/(1 + ...): beside a pole, -h is not what outgrows the rest."""

    def __init__(self, beside):
        super().__init__(1, 1)
        self.a, self.beside = nn.Parameter(torch.ones(())), beside

    def flow(self, x, h):
        return 1 / (1 + self.beside(self.a * h)) - h


def test_a_state_outgrows_a_sigmoid():
    assert derivations.closed_under(Pole(torch.exp)).group == NONE


@pytest.mark.parametrize("beside", [lambda u: u, lambda u: -torch.exp(u)])
def test_a_state_does_not_outgrow_what_may_have_a_pole(beside):
    with pytest.raises(derivations.UnknownRate):
        derivations.closed_under(Pole(beside))


@pytest.mark.parametrize("field", [Mended, Shared])
def test_where_neither_answer_is_proved_none_is_given(field):
    with pytest.raises(derivations.UnknownRate, match="A rate is a factor outside"):
        derivations.closed_under(field())


class Twice(ctrnn.VectorField):
    """f (tanh(r h + x) - h), where r is the gate f again, or one of its own."""

    def __init__(self, own):
        super().__init__(1, 1)
        self.gate = nn.Linear(2, 1)
        self.reset = nn.Linear(2, 1) if own else self.gate

    def flow(self, x, h):
        f, r = (torch.sigmoid(gate(torch.cat([x, h], -1))) for gate in (self.gate, self.reset))
        return f * (torch.tanh(r * h + x) - h)


def test_of_a_gate_that_is_read_twice_nothing_is_decided_and_a_second_gate_is_named():
    with pytest.raises(derivations.UnknownRate, match=r"in `Twice` no rate was found .*a cell with a second gate in that place"):
        derivations.closed_under(Twice(own=False))
    assert derivations.closed_under(Twice(own=True)).group == WITHIN_UNIT


class Rated(ctrnn.VectorField):
    """rate (tanh(...) - h), the rate as given."""

    def __init__(self, rate):
        super().__init__(1, 1)
        self.pull, self.v = nn.Linear(2, 1), nn.Linear(2, 1)
        self.w, self.b = nn.Parameter(torch.tensor(0.3)), nn.Parameter(torch.tensor(0.1))
        self.register_buffer("kept", torch.tensor(0.5))
        self.rate = rate

    def flow(self, x, h):
        both = torch.cat([x, h], -1)
        return self.rate(self, x, h, self.v(both)) * (torch.tanh(self.pull(both)) - h)


FREE = {
    "|w|": (lambda f, x, h, a: f.w.abs(), RESCALING, ""),
    "e^(w+1)": (lambda f, x, h, a: torch.exp(f.w + 1), RESCALING, ""),
    "w^2": (lambda f, x, h, a: f.w**2, RESCALING, ""),
    "1/w": (lambda f, x, h, a: 1 / f.w, RESCALING, ""),
    "w+k": (lambda f, x, h, a: f.w + f.kept, RESCALING, ""),
    "w^2+1": (
        lambda f, x, h, a: f.w**2 + 1,
        "rescaling that keeps its rates in [0, oo)",
        "0 <= c'*g_1 + c' - 1",
    ),  # w' = sqrt(c' w^2 + c' - 1) is not always real
    "constant^2": (lambda f, x, h, a: torch.sigmoid(f.w) ** 2, BOUNDED, "0 < c'*g_1 < 1"),
    "gate^2": (lambda f, x, h, a: torch.sigmoid(a) ** 2, WITHIN_UNIT, "0 < c'*g_1 < 1"),
    "e^gate": (lambda f, x, h, a: torch.exp(a), EVERY_WARP, ""),
    "gate of x": (lambda f, x, h, a: torch.sigmoid(f.w * x + f.b), OF_ITS_OWN, "0 < c'*g_1 < 1"),
    "e^gate of h": (lambda f, x, h, a: torch.exp(f.w * h + f.b), "warps of what its gates read", ""),
    "buffer": (lambda f, x, h, a: f.kept, NONE, ""),
    "e^buffer": (lambda f, x, h, a: f.kept.exp(), NONE, ""),
}


# The slow run adds a sign, an exponential, a sum, a buffer's exponential, a gate without a bias and another polynomial.
LIKE_OTHERS = ("|w|", "e^(w+1)", "w+k", "e^buffer", "no bias", "w^4+w^2")


def everyday(cases):
    return [pytest.param(name, marks=pytest.mark.slow) if name in LIKE_OTHERS else name for name in cases]


@pytest.mark.by_default(3)
@pytest.mark.parametrize("name", everyday(FREE))
def test_a_rate_is_as_free_as_its_values_are_many(name):
    rate, group, values = FREE[name]
    closure = derivations.closed_under(Rated(rate))
    assert closure.group == group
    assert [part for part in closure.assumption.split("; ") if "<" in part] == [values] * bool(values)


NOT_FREE = {
    "bias only": lambda f, x, h, a: torch.sigmoid(x + f.b),
    "no bias": lambda f, x, h, a: torch.sigmoid(f.w * x),
    "one weight for two": lambda f, x, h, a: torch.sigmoid(f.w * (x + h) + f.b),
    "half of the weights": lambda f, x, h, a: torch.sigmoid(f.w * x + h + f.b),
    "w^4+w^2": lambda f, x, h, a: f.w**4 + f.w**2,
    "w^3+w": lambda f, x, h, a: f.w**3 + f.w,
    "sin": lambda f, x, h, a: torch.sin(f.w),
}


@pytest.mark.by_default(2)
@pytest.mark.parametrize("name", everyday(NOT_FREE))
def test_a_rate_that_cannot_take_all_its_values_is_not_called_free(name):
    with pytest.raises(derivations.UnknownRate):
        derivations.closed_under(Rated(NOT_FREE[name]))


class RateInsideToo(ctrnn.VectorField):
    """a (tanh(a h) - h): c' a (tanh(a h) - h) is no member for another c' than 1."""

    def __init__(self):
        super().__init__(0, 1)
        self.a = nn.Parameter(torch.ones(()))

    def flow(self, projected, h):
        return self.a * (torch.tanh(self.a * h) - h)


@pytest.mark.parametrize("field", [ctrnn.mgu(1, 1), RateInsideToo()])
def test_a_rate_that_stands_inside_of_what_it_multiplies_is_not_free(field):
    with pytest.raises(derivations.UnknownRate):
        derivations.closed_under(field)


def test_lem_absorbs_every_clock_by_its_two_gates():
    lem = derivations.closed_under(ctrnn.lem(1, 1))
    assert lem.group == OF_ITS_OWN
    assert "c' is a function of h_1(t), x_1(t), which the gates read" in lem.assumption
    assert len(lem.witness) == 2


def test_unicornn_absorbs_a_constant_speed():
    assert derivations.closed_under(ctrnn.unicornn(1, 1)).group == BOUNDED


def test_cornn_absorbs_no_clock():
    assert derivations.closed_under(ctrnn.cornn(1, 1)).group == NONE


t, (hidden,), (driven,) = symbols.t, symbols.state(1), symbols.inputs(1)
a, tau, w, bias, target, past = (Symbol(n, real=True, **f) for n, f in (
    ("a", {"positive": True}), ("tau", {"positive": True}), ("w", {}), ("b", {}), ("A", {}), ("s", {})))  # fmt: skip
gate = fields.sigma(w * hidden + bias)
every = exp(p * driven + w * hidden + bias)


def written(flow):
    letters = {u.name: ImmutableDenseMatrix([u]) for u in (a, tau, w, bias, target, p)}
    return fields.SymbolicField("written", "", (hidden,), (driven,), letters, ImmutableDenseMatrix([flow]))


def heard(time):
    return driven.func(time)


READS_TIME = {
    "t": a * (t * driven - hidden),
    "in the gate": every * exp(sin(t)) * (driven - hidden),
    "x'": a * (driven.diff(t) - hidden),
    "x(t - 1)": a * (heard(t - 1) - hidden),
    "x(0)": a * (heard(0) - hidden),
    "a jump": a * (Heaviside(t - 1) * driven - hidden),
    "an integral": every * (Integral(heard(past), (past, 0, t)) - hidden),
    "another signal": every * (symbols.signal("y")(t) - hidden),
    "x at h": a * (heard(hidden) - hidden),
}


@pytest.mark.parametrize("what", READS_TIME)
def test_a_field_that_reads_another_time_is_refused_by_the_finder_and_by_the_checker_alone(what, monkeypatch):
    with pytest.raises(ValueError, match="`written` reads ") as refused:
        derivations.closed_under(written(READS_TIME[what]))
    assert not isinstance(refused.value, derivations.UnknownRate)
    monkeypatch.setattr(closure_module, "_check_reads", lambda field: None)
    with pytest.raises(derivations.UnknownRate, match=r"the checker does not accept .* is another function on the clock|no rate"):
        derivations.closed_under(written(READS_TIME[what]))


@pytest.mark.by_default(1)
@pytest.mark.parametrize(
    ("flow", "group"),
    [
        ((Max(0, w * hidden + driven) - hidden) / tau, RESCALING),
        ((log(1 + exp(w * hidden + p * driven + bias)) - hidden) / tau, "rescaling, at least"),
        (-hidden / tau + gate * (target - hidden), f"{BOUNDED}, at least"),
    ],
    ids=["relu", "softplus", "liquid"],
)
def test_a_rescaling_that_is_proved_is_said_also_where_it_is_open_whether_there_is_more(flow, group):
    found = derivations.closed_under(written(flow))
    assert found.group == group
    assert ("is not proved" in found.assumption) == group.endswith("at least")
    assert not any(
        equation.rhs.has(gate) or "g_1" in str(equation.rhs) for equation in found.witness if equation.lhs.name == "A'"
    )
    assert Closes(written(flow), NONE).decide().holds is False
    assert Closes(written(flow), EVERY_WARP).decide().holds is (None if group.endswith("at least") else False)


def test_the_checker_refuses_a_constant_that_would_read_data_and_a_coefficient_that_is_not_the_members():
    liquid = written(-hidden / tau + gate * (target - hidden))
    reading, orthant = closure_module._readings(liquid, None)
    new = {str(slot.stands_for): slot.new for slot in reading.slots}
    g, k, aim = (slot.letter for slot in sorted(reading.slots, key=lambda slot: (not slot.is_gate, slot.letter == target)))
    moved = c_speed * (g + k) - k
    where = {new[str(gate)]: moved, new["1/tau"]: k, new["A"]: c_speed * g * aim / moved}
    moved_flow = c_speed * ImmutableDenseMatrix(reading.flow)
    proof = derivations.check(derivations.Identity("", "", "", reading.member(), moved_flow, where=where))
    assert proof
    says = closure_module._says(reading, orthant, "rescaling, at least")
    with pytest.raises(NotShown, match="would read data"):
        concludes(says, (slots_module._named(where), *proof.certificate))
    leaky = fields.leaky()
    (rate,) = leaky.parameters["alpha"]
    apart = derivations.check(derivations.Identity("", "", "", rate - rate, -c_speed * rate))
    with pytest.raises(NotShown, match="of another field"):
        concludes(Closes(leaky, NONE).says(), apart.certificate)


def test_what_is_frozen_is_not_free():
    field = ctrnn.leaky(1, 1)
    assert derivations.closed_under(field).group == RESCALING
    assert derivations.closed_under(field, free=["candidate.bias"]).group == NONE
    assert derivations.closed_under(field, free=["rate.log_alpha"]).group == RESCALING
    field.rate.log_alpha.requires_grad_(False)
    assert derivations.closed_under(field).group == NONE
    gated = ctrnn.gated(1, 1)
    for parameter in (gated.rate.weight_x, gated.rate.weight_h):
        parameter.requires_grad_(False)
    with pytest.raises(derivations.UnknownRate):
        derivations.closed_under(gated)
    assert derivations.closed_under(fields.leaky(), free=["W_x"]).group == NONE
    with pytest.raises(ValueError, match="'beta'; `leaky` has the parameters"):
        derivations.closed_under(fields.leaky(), free=["beta"])


def test_a_frozen_number_that_may_be_0_is_a_condition():
    frozen = Rated(lambda f, x, h, a: f.w)
    frozen.w.requires_grad_(False)
    closure = derivations.closed_under(frozen)
    assert closure.group == NONE
    assert "-w is not 0" in closure.assumption


def test_a_frozen_number_is_a_coefficient_and_no_generator():
    class Shifted(ctrnn.VectorField):
        """(a + k) h with k frozen is as good as a h: k h is no other generator than h."""

        def __init__(self):
            super().__init__(1, 1)
            self.a, self.k = nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(()), requires_grad=False)

        def flow(self, x, h):
            return self.a * h + self.k * h

    closure = derivations.closed_under(Shifted())
    assert closure.group == RESCALING
    assert "".join(str(equation.rhs) for equation in closure.witness).count("k")


VALUES = [
    (p, REALS), (Abs(p), Interval(0, oo)), (exp(p + 1), POSITIVE), (1 / p, Union(Interval.open(-oo, 0), POSITIVE)),
    (1 / (1 + exp(-p)), Interval.open(0, 1)), ((1 + exp(-p)) ** -2, Interval.open(0, 1)),
    (-3 / (exp(p) + 1), Interval.open(-3, 0)), (1 - exp(-(p**2)), Interval.Ropen(0, 1)),
    (exp(-Abs(p)), Interval.Lopen(0, 1)), (log(1 + exp(p)), POSITIVE),
    (p + exp(p), None), (p * q, None), (exp(p * q), None), (sin(p), None), (log(p), None), (sqrt(p), None), (p**p, None),
]  # fmt: skip


@pytest.mark.parametrize(("e", "values"), [pytest.param(*case, id=str(case[0])) for case in VALUES])
def test_the_values_that_an_expression_takes_are_known_or_said_to_be_unknown(e, values):
    assert values_of(e, {p}) == values


def test_gates_that_share_their_weights_are_not_free_each():
    class Two(ctrnn.VectorField):
        def __init__(self):
            super().__init__(1, 2)
            self.w, self.b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(2))

        def flow(self, x, h):
            return torch.sigmoid(self.w * x + self.b) * (1 - h)

    with pytest.raises(derivations.UnknownRate):
        derivations.closed_under(Two())


def test_generators_that_depend_on_each_other_prove_nothing():
    class Hidden(ctrnn.VectorField):
        """a h, with sin^2 + cos^2 - 1 added."""

        def __init__(self):
            super().__init__(1, 1)
            self.a = nn.Parameter(torch.ones(()))

        def flow(self, x, h):
            return self.a * h + torch.sin(h) ** 2 + torch.cos(h) ** 2 - 1 + torch.sin(x) ** 2 + torch.cos(x) ** 2 - 1

    with pytest.raises(derivations.UnknownRate):  # and not "none", because 1 sin^2 would have to be c' sin^2
        derivations.closed_under(Hidden())


def test_closure_of_what_is_no_field_is_refused():
    with pytest.raises(TypeError, match=r"must be a ctrnn\.VectorField, got Linear; .*Of a cell that gives the next state it is"):
        derivations.closed_under(nn.Linear(1, 1))


@pytest.mark.by_default(1)
@pytest.mark.parametrize("name", ["plain", "leaky", "gated"])
def test_the_checker_finds_what_a_class_absorbs_from_its_certificate(name):
    (field, group), (other, _) = TWINS[name], TWINS["gru"]
    steps = from_data(as_data(Closes(field, group).decide().certificate))
    for claimed in (EVERY_WARP, WITHIN_UNIT, RESCALING, NONE):
        assert concludes(from_data(as_data(Closes(field, claimed).says())), steps).true is (claimed == group)
    of_less = from_data(as_data(Less(p, p + 1).decide().certificate))
    with pytest.raises(NotShown):
        concludes(from_data(as_data(Closes(field, group).says())), of_less)
    if group != NONE:  # -h has the same coefficient in many fields
        with pytest.raises(NotShown):
            concludes(from_data(as_data(Closes(other, group).says())), steps)
        forged = [{**step, "lhs": step["rhs"]} if step["rule"] == "equal" else step for step in steps]
        with pytest.raises(NotShown):
            concludes(from_data(as_data(Closes(field, group).says())), forged)


class Late(ctrnn.DelayedField):
    """A unit that reads itself a delay ago, at a rate that is a gate of all that it reads, or a constant."""

    def __init__(self, delays, learn=False, gate=True):
        super().__init__(1, 1, delays, learn=learn)
        self.candidate, self.gate = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1) if gate else None
        self.alpha = torch.nn.Parameter(torch.tensor(0.3))

    def flow(self, projected, h, past):
        read = torch.cat([projected, h, past[0]], -1)
        rate = torch.exp(self.alpha if self.gate is None else self.gate(read))
        return rate * (torch.tanh(self.candidate(read)) - h)


LATE = {
    "learned, gated": (lambda: Late([1.0], True), "rescaling", ["d_1' = d_1/c'", "g_1' = c'*g_1"]),
    "learned, constant rate": (lambda: Late([1.0], True, False), "rescaling", ["alpha' = alpha + log(c')", "d_1' = d_1/c'"]),
    "not learned": (lambda: Late([1.0]), "none", ["c(t) - c(-d_1 + t) = d_1"]),
    "of time": (lambda: Late([torch.ones_like]), "every warp", ["d_1'(t) = t - c^-1(c(t) - d_1(c(t)))", "g_1' = c'*g_1"]),
    "no rate": (lambda: Plain([1.0], True), "none", ["-1 = -c'"]),
}


class Plain(Late):
    def flow(self, projected, h, past):
        return torch.tanh(self.candidate(torch.cat([projected, h, past[0]], -1))) - h


@pytest.mark.by_default(2)
@pytest.mark.parametrize("kind", LATE)
def test_a_delay_that_is_a_number_leaves_rescaling_and_one_of_time_every_warp(kind):
    make, group, witness = LATE[kind]
    found = derivations.closed_under(make())
    assert found.group == group
    assert sorted(f"{e.lhs} = {e.rhs}" for e in found.witness) == witness
    assert ("periodic part" in found.assumption) == kind.startswith("learned")
    assert ("are not free" in found.assumption) == (kind == "not learned")
    assert not any("field." in letter.name for rate in found.rates.values() for letter in rate.free_symbols)
