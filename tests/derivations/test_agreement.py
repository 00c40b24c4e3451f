"""The torch code read as equations, and compared with equations that were written down."""

import numpy as np
import pytest
import torch
from sympy import Abs, Eq, Float, Function, Rational, Symbol, exp, tanh

import ctrnn
import discretize
from ctrnn.cells.catalog import constructors
from ctrnn.formulas import formula_of
from derivations import UnknownOperation, agreement_identities, check, symbolic, verify
from derivations.prover import symbols
from discretize import Euler, SymplecticEuler

pytestmark = pytest.mark.usefixtures("read_alone")


def named():
    return {
        "sigmoid constant": ctrnn.Relaxation(ctrnn.TanhCandidate(2, 2), ctrnn.SigmoidConstantRate(0.3), ctrnn.LinearDecay()),
        "gated, global": ctrnn.gated(1, 2, "global", decay=ctrnn.PowerDecay(0.5)),
        "gru without bias": ctrnn.gru(1, 2, bias=False),
        "lstm": ctrnn.lstm(1, 2),
    }


def numbers(field, x, h):
    """A number for every letter of the traced equations."""
    values = dict(zip([*symbols.inputs(len(x)), *symbols.state(len(h))], [*x.tolist(), *h.tolist()], strict=True))
    for name, parameter in field.named_parameters():
        values.update({symbols.entry(name, index): parameter[index].item() for index in np.ndindex(*parameter.shape)})
    return {letter: Float(value, 20) for letter, value in values.items()}


@pytest.mark.by_default(1)
@pytest.mark.parametrize("name", ["sigmoid constant", "gated, global", "gru without bias", "lstm"])
def test_traced_equations_give_the_numbers_that_torch_gives(name):
    field = named()[name]
    traced = symbolic(field)
    for _ in range(3):
        x, h = torch.randn(field.input_size), torch.randn(field.state_size)
        expected, values = field(x, h).tolist(), numbers(field, x, h)
        for flow, number in zip(traced.flow, expected, strict=True):
            assert abs(flow.xreplace(values) - number) < 1e-14  # float64 rounding of a few sums


@pytest.mark.slow
def test_the_torch_code_of_every_cell_is_the_equation_that_it_shows():
    names = []
    for identity in agreement_identities():
        names.append(identity.label)
        # Some fields have constants that are numbers here, and the identity says which.
        expected = "holds under the stated assumptions" if identity.assumptions else "holds"
        assert check(identity).verdict == expected, identity.name
    shown = {name for name in constructors() if formula_of(constructors()[name](2, 2)) is not None}
    assert {f"code, {name}" for name in shown} <= set(names)
    assert set(constructors()) - shown == {"ltc"}  # its sums over synapses are beyond the grammar
    assert len(shown) >= 15


SWAPPED = "dh/dt = g * ({candidate:|h=z} - h)\ndz/dt = f * (tanh(p) - z)\ng, f = sigma(r), sigma(q)\nq, r, p = {gates:g}"


class Scaled(ctrnn.VectorField):
    """scale tanh(W h + U x) - |h|^(1/2) h - 0.1 h^3, with weights of other names than the library's."""

    formula = "dh/dt = {scale} tanh(W h + U x) - |h|^(1/2) * h - 0.1 h^3"

    def __init__(self):
        super().__init__(1, 2)
        self.scale, self.W, self.U = 0.3, torch.nn.Parameter(torch.randn(2, 2)), torch.nn.Parameter(torch.randn(2, 1))

    def flow(self, projected, h):
        driven = torch.tanh(h @ self.W.mT + projected @ self.U.mT)
        return self.scale * driven - h.abs() ** 0.5 * h - 0.1 * h**3


def with_formula(kind, formula):
    return type(kind.__name__, (kind,), {"formula": formula})


def normalized():
    return ctrnn.Relaxation(ctrnn.LayerNorm(ctrnn.TanhCandidate(1, 2), eps=1e-3), ctrnn.FixedRate(0.3), ctrnn.LinearDecay())


# Two units where weights are read off by rows and columns.
OF_FORMULAS = {
    "plain": lambda: ctrnn.plain(1, 2),
    "leaky": lambda: ctrnn.leaky(1, 2),
    "gated": lambda: ctrnn.gated(1, 2),
    "gru": lambda: ctrnn.gru(1, 2),
    "lstm": lambda: ctrnn.lstm(1, 2),
    "additive": lambda: ctrnn.additive(1, 2),
    "own": Scaled,
    "gated, network": lambda: ctrnn.gated(1, 1, "network"),
    "lstm, power decay": lambda: ctrnn.lstm(1, 1, decay=ctrnn.PowerDecay(2.0)),
    "normalized": normalized,
    "two layers": lambda: ctrnn.gated(1, 1, num_layers=2),
}


OTHERS = ("gated, network", "lstm, power decay", "normalized", "two layers")  # than the named cells, and one of a user's


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in OTHERS)) for name in OF_FORMULAS])
def test_a_field_is_proved_to_be_its_own_formula(name):
    field = OF_FORMULAS[name]()
    verdict = verify(field)
    assert verdict.verdict == "holds", field.equations
    assert verdict.certificate


HALF = ctrnn.TanhCandidate(1, 1), ctrnn.FixedRate(0.5), ctrnn.LinearDecay()
WRONG = {
    "gates swapped": (ctrnn.LEMField, SWAPPED, (1, 1)),
    "transposed": (Scaled, Scaled.formula.replace("W h", "W^T h"), ()),
    "another constant": (Scaled, Scaled.formula.replace("0.1", "0.10000001"), ()),
    "a sign": (ctrnn.Relaxation, "dh/dt = {rate} ({candidate} + {decay})", HALF),
    "a power": (Scaled, Scaled.formula.replace("h^3", "h^2"), ()),
}


@pytest.mark.by_default(2)
@pytest.mark.parametrize("name", WRONG)
def test_a_formula_that_is_not_the_code_is_refuted(name):
    kind, formula, of = WRONG[name]
    assert verify(with_formula(kind, formula)(*of)).verdict == "does not hold as printed"


def test_weights_of_one_letter_are_told():
    with pytest.raises(ValueError, match="two weights are called Wx; give one of their parts an index"):
        verify(Doubled())
    assert "Wx x" in Doubled().equations[0]


def test_weights_of_one_letter_are_not_taken_for_one_another():
    assert verify(with_formula(Doubled, "dh/dt = {first:1} + {second:2} - h")()).holds is False
    assert verify(with_formula(Doubled, "dh/dt = 2 {second} - h")()).holds is True


def test_a_letter_that_stands_for_no_weight_is_refused():
    with pytest.raises(ValueError, match="stands for nowhere, which is not there"):
        verify(type("Lost", (Scaled,), {"formula": "dh/dt = Q h", "letters": {"Q": "nowhere"}})())


def test_a_parameter_under_two_names_has_one_set_of_letters():
    candidate, rate = ctrnn.TanhCandidate(1, 2), ctrnn.GateRate(1, 2)
    rate.weight_h = candidate.weight_h
    traced = symbolic(ctrnn.Relaxation(candidate, rate, ctrnn.LinearDecay()))
    assert traced.parameters["rate.weight_h"] == traced.parameters["candidate.weight_h"]
    assert not any(u.name.startswith("rate.weight_h") for u in traced.flow.free_symbols)


class Doubled(ctrnn.VectorField):
    """Reads one of its parts twice and the other not at all."""

    formula = "dh/dt = {first} + {second} - h"

    def __init__(self):
        super().__init__(1, 2)
        self.first, self.second = ctrnn.TanhCandidate(1, 2), ctrnn.TanhCandidate(1, 2)

    def flow(self, projected, h):
        return 2 * self.second(projected, h) - h


class Minimal(ctrnn.VectorField):
    """A gate of x alone, with what its paper prints."""

    formula = "dh/dt = sigma(U x) * (V x - h)"
    published = "Euler", "h' = (1 - dt sigma(U x)) * h + dt sigma(U x) * V x"

    def __init__(self):
        super().__init__(1, 2)
        self.U, self.V = torch.nn.Parameter(torch.randn(2, 1)), torch.nn.Parameter(torch.randn(2, 1))

    def flow(self, projected, h):
        return torch.sigmoid(projected @ self.U.mT) * (projected @ self.V.mT - h)


@pytest.mark.parametrize("dt", [1.0, 0.3])
def test_a_step_is_the_recurrence_that_its_field_publishes(dt):
    verdict = verify(discretize.DiscreteCell(Minimal(), dt=dt))
    assert verdict
    assert verdict.statement.startswith("The code of Minimal by Euler() is the recurrence that it publishes")


@pytest.mark.by_default(1)
@pytest.mark.parametrize("recurrence", ["h' = (1 - sigma(U x)) * h + sigma(U x) * V x", "h' = h + dt sigma(U x) * (V x - 2 h)"])
def test_a_recurrence_of_another_length_or_another_field_is_refuted(recurrence):
    other = type("Minimal", (Minimal,), {"published": ("Euler", recurrence)})
    verdict = verify(discretize.DiscreteCell(other(), dt=0.5))
    assert not verdict
    off = verdict.replay()
    assert any(abs(a - b) > 1e-3 for a, b in zip(off.torch, off.equations, strict=True))


def test_a_step_has_the_equations_of_its_map_in_the_names_of_the_cell():
    cell = discretize.DiscreteCell(ctrnn.cells.lem(1, 1), "symplectic-euler", dt=0.5)
    moved_at_once = symbolic(discretize.DiscreteCell(cell.field, "euler", dt=0.5))
    assert set(moved_at_once.parameters) == {name for name, _ in cell.named_parameters()}
    assert not verify(cell, moved_at_once)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (lambda: discretize.DiscreteCell(Minimal(), "heun"), "is its Euler step, not Heun"),
        (lambda: discretize.DiscreteCell(Scaled()), "no `formula` with a `published` recurrence"),
        (lambda: discretize.DiscreteCell(Minimal(), "exponential-euler"), "sums a series"),
        (lambda: discretize.DiscreteCell(Minimal(), "backward-euler"), "solves for the next state"),
        (lambda: discretize.DiscreteRNN(Minimal()), "takes many steps"),
        (lambda: discretize.DiscreteCell(ctrnn.Noisy(Minimal(), ctrnn.Noise(0.1)), "euler-maruyama"), "draws noise"),
    ],
)
def test_a_step_that_is_no_recurrence_to_be_proved_is_refused(cell, reason):
    with pytest.raises(ValueError, match=reason):
        verify(cell())


class Doubling(discretize.DiscreteCell):
    """A step and a factor."""

    def forward(self, *arguments, **options):
        return 2 * super().forward(*arguments, **options)


class Following(discretize.DiscreteCell):
    """A step and a factor, by what `forward` calls."""

    def following(self, *arguments):
        return 2 * super().following(*arguments)


def hooked(register):
    cell = discretize.DiscreteCell(Minimal())
    getattr(cell, register)(lambda _, arguments, *answer: 2 * answer[0] if answer else (2 * arguments[0], *arguments[1:]))
    return cell


def put_on_the_object():
    cell = discretize.DiscreteCell(Minimal())
    cell.forward = lambda x, h: 2 * h
    return cell


@pytest.mark.parametrize(
    ("cell", "by"),
    [
        (lambda: Doubling(Minimal()), "Doubling.forward"),
        (lambda: Following(Minimal()), "Following.following"),
        (lambda: hooked("register_forward_hook"), "a hook"),
        (lambda: hooked("register_forward_pre_hook"), "a hook"),
        (put_on_the_object, "`forward`, set on the object"),
    ],
)
def test_a_cell_with_code_of_its_own_is_not_taken_for_its_step(cell, by):
    with pytest.raises(ValueError, match=f"computes more than its step, by .*{by}"):
        verify(cell())


def test_a_cell_that_draws_masks_of_dropout_is_proved_in_evaluation_mode_only():
    candidate = ctrnn.parts.Dropout(ctrnn.TanhCandidate(1, 1), 0.5)
    cell = discretize.DiscreteCell(ctrnn.Relaxation(candidate, ctrnn.GateRate(1, 1), ctrnn.LinearDecay()))
    with pytest.raises(ValueError, match="draws masks of dropout"):
        symbolic(cell)
    verdict = verify(cell.eval(), symbolic(cell))
    assert verdict.verdict == "holds under the stated assumptions"
    assert "in evaluation mode only" in verdict.evidence


def leaky_equations(field, decay=lambda h: h, factor=1):
    """The leaky field written out by hand in the letters of the traced one."""
    traced, units = symbolic(field), range(field.state_size)
    p, (x,) = traced.parameters, traced.inputs
    wx, wh, b, (a,) = p["candidate.weight_x"], p["candidate.weight_h"], p["candidate.bias"], p["rate.log_alpha"]
    pulls = [tanh(wx[i, 0] * x + sum(wh[i, j] * traced.state[j] for j in units) + b[i]) for i in units]
    return [
        Eq(h.diff(symbols.t), factor * exp(a) * pull - exp(a) * decay(h)) for h, pull in zip(traced.state, pulls, strict=True)
    ]


def test_equations_written_by_hand_are_proved_equal():
    field = ctrnn.leaky(1, 2)
    assert verify(field, leaky_equations(field)).verdict == "holds"


@pytest.mark.by_default(1)
@pytest.mark.parametrize("r", [2, Rational(1, 2), 0])
def test_the_power_decay_is_that_of_the_paper_for_either_sign_and_at_0(r):
    field = ctrnn.leaky(1, 1, decay=ctrnn.PowerDecay(float(r)))
    assert verify(field, leaky_equations(field, decay=lambda h: Abs(h) ** r * h)).holds is True


def test_floats_are_the_rationals_they_are_and_ints_stay_ints():
    tenth = symbolic(Custom(lambda self, x, h: 0.1 * h)).flow[0].coeff(symbols.state(1)[0])
    assert tenth == Rational(*(0.1).as_integer_ratio())
    assert tenth != Rational(1, 10)
    assert symbolic(Custom(lambda self, x, h: h / 3)).flow[0] == symbols.state(1)[0] / 3


def test_buffers_are_exact_numbers():
    field = Custom(lambda self, x, h: self.scale * h, scale=torch.tensor([0.5, 3.0]))
    h1, h2 = symbols.state(2)
    assert list(symbolic(field).flow) == [h1 / 2, 3 * h2]


def test_the_traced_field_shows_its_own_names():
    traced = symbolic(ctrnn.leaky(1, 2))
    assert list(traced.parameters) == ["candidate.weight_x", "candidate.weight_h", "candidate.bias", "rate.log_alpha"]
    assert traced.parameters["candidate.weight_h"][0, 1] == Symbol("candidate.weight_h[0,1]", real=True)
    assert r"\mathtt{candidate.weight\_h}_{0,1}" in traced.latex()


@pytest.mark.slow
def test_they_may_be_the_symbolic_field_itself_and_in_other_names_for_the_state():
    field = ctrnn.lstm(1, 1)
    assert verify(field, symbolic(field)).holds is True
    unit = Function("y", real=True)(symbols.t)
    one = ctrnn.plain(1, 1)
    (equation,) = symbolic(one)
    h = symbolic(one).state[0]
    assert verify(one, [equation.xreplace({h: unit})], letters={unit: h}).holds is True


# A decay that is right on one side of 0, another exponent, a millionth more.
@pytest.mark.by_default(1)
@pytest.mark.parametrize("wrong", [{"decay": Abs}, {"decay": lambda h: Abs(h) ** 2 * h}, {"factor": 1 + Rational(1, 10**6)}])
def test_wrong_equations_are_refuted_by_numbers_at_which_torch_itself_differs(wrong):
    field = ctrnn.leaky(1, 1)
    equations = leaky_equations(field, **wrong)
    verdict = verify(field, equations)
    assert verdict.verdict == "does not hold as printed"
    assert set(verdict.counterexample) <= set(numbers(field, torch.zeros(1), torch.zeros(1)))
    parameters = symbolic(field).parameters
    # What the counterexample leaves out may be anything; nothing is left out of what differs.
    x, h = torch.zeros(1), torch.zeros(1)
    with torch.no_grad():
        for name, parameter in [("x", x), ("h", h), *field.named_parameters()]:
            flat = parameter.reshape(-1)
            letters = {"x": symbols.inputs(1), "h": symbols.state(1)}.get(name) or parameters[name]
            for k, letter in enumerate(letters):
                flat[k] = float(verdict.counterexample.get(letter, 0))
        computed = field(x, h)
    claimed = torch.tensor([float(e.rhs.xreplace(numbers(field, x, h))) for e in equations])
    assert (computed - claimed).abs().max() > 1e-9


@pytest.mark.slow
def test_swapped_gates_of_the_lstm_are_refuted():
    field = ctrnn.lstm(1, 1)
    p = symbolic(field).parameters
    rows = [1, 0, 2, 3]  # f for i
    swapped = dict(zip(p["gates.bias"], [p["gates.bias"][k] for k in rows], strict=True))
    assert verify(field, [e.xreplace(swapped) for e in symbolic(field)]).holds is False


@pytest.mark.slow
def test_torch_s_z_is_not_the_rate():
    field = ctrnn.gru(1, 1)
    p = symbolic(field).parameters
    turned = {u: -u for name in ("weight_x", "weight_h", "bias") for u in p[f"rate.{name}"]}
    assert verify(field, [e.xreplace(turned) for e in symbolic(field)]).holds is False


class Custom(ctrnn.VectorField):
    def __init__(self, function, **buffers):
        super().__init__(1, 2)
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def flow(self, projected, h):
        return self.function(self, projected, h)


def test_a_formula_that_the_grammar_cannot_read_is_refused_with_the_name_of_the_class():
    with pytest.raises(ValueError, match=r"the formula of Scaled is no equation that could be proved: .* what y is"):
        verify(with_formula(Scaled, "dh/dt = {scale} tanh(W h + U y)")())


def test_without_a_formula_equations_are_asked_for():
    with pytest.raises(ValueError, match="LTCField has no `formula`"):
        verify(ctrnn.ltc(1, 2))


def test_an_unknown_operation_is_named_with_its_line_and_what_to_do():
    with pytest.raises(UnknownOperation, match=r"(?s)aten\.argmax.*no reading.*test_agreement.*Write it with.*operations\.py"):
        symbolic(Custom(lambda self, x, h: h * h.argmax(-1, keepdim=True)))


def test_constants_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="no real number"):
        symbolic(Custom(lambda self, x, h: h + float("inf")))


class Stepped(torch.nn.Module):
    """coRNN's field, stepped by a length that is a letter."""

    input_size, hidden_size = 1, 2

    def __init__(self, step):
        super().__init__()
        self.field, self.step, self.dt = ctrnn.cornn(1, 1, 0.25, 0.5), step, torch.nn.Parameter(torch.ones(()))

    def forward(self, x, h):
        return self.step.advance(self.field, self.field.project(x), h, self.dt)


@pytest.mark.parametrize(("step", "holds"), [(SymplecticEuler(), True), (Euler(), False)])
def test_the_recurrence_of_cornn_is_the_symplectic_euler_step_and_not_eulers(step, holds):
    cell = Stepped(step)
    traced = symbolic(cell)
    p, (y, z), (x,) = traced.parameters, traced.state, traced.inputs
    (w, u), (v,), (b,), (dt,) = (p[name] for name in ("field.force.weight_h", "field.force.weight_x", "field.force.bias", "dt"))
    z_next = z + dt * (tanh(w * y + u * z + v * x + b) - y / 4 - z / 2)
    printed = [y + dt * z_next, z_next]
    assert verify(cell, [Eq(left, right) for left, right in zip(traced.left_sides, printed, strict=True)]).holds is holds
