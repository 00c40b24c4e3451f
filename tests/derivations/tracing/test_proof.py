"""Equations matched by their left sides, proved where both sides are defined, refuted by numbers that torch confirms."""

import pytest
import torch
from sympy import (
    Abs,
    Derivative,
    Eq,
    Function,
    Integral,
    Mul,
    Piecewise,
    Pow,
    Rational,
    S,
    Sum,
    Symbol,
    exp,
    log,
    sign,
    sqrt,
    symbols,
    tanh,
)
from torch import nn

import ctrnn
import discretize
from derivations import symbolic, verify
from derivations.rules.replay import as_data, from_data, replay
from derivations.tracing.decision import decide


class Rotation(ctrnn.VectorField):
    """dq/dt = p, dp/dt = -q."""

    def __init__(self):
        super().__init__(1, 2)

    def flow(self, projected, h):
        q, p = h.chunk(2, -1)
        return torch.cat([p, -q], -1)


class Step(nn.Module):
    def __init__(self, code, **parameters):
        super().__init__()
        self.code, self.input_size, self.hidden_size = code, 1, 2
        for name, value in parameters.items():
            self.register_parameter(name, nn.Parameter(torch.as_tensor(value)))

    def forward(self, x, h):
        return self.code(self, x, h)


rotation = Rotation()
t = Symbol("t", real=True)
q, p = Function("h_1")(t), Function("h_2")(t)  # as `symbolic` names them


def test_a_proof_carries_certificates_that_the_checker_accepts():
    cell = Step(lambda _, x, h: torch.where(h > 0, h, 0 * h) / (1 + torch.exp(-x)))
    system = symbolic(cell, field=False)
    states, (x,) = system.state, system.inputs
    verdict = verify(cell, [(u + Abs(u)) / 2 * (1 + tanh(x / 2)) / 2 for u in states], field=False)
    assert verdict
    assert [len(step["proof"]["cases"]) for step in verdict.certificate] == [3, 3]  # for both units, every case of its sign
    for step in verdict.certificate:
        assert step["rule"] == "equal"
        replay(from_data(as_data(step)))


def test_equations_are_matched_by_their_left_sides_in_any_order():
    right = [Eq(q.diff(t), p), Eq(p.diff(t), -q)]
    assert verify(rotation, right)
    assert verify(rotation, right[::-1])
    assert verify(rotation, {p: -q, q: p})
    assert verify(rotation, [p, -q])
    assert "in the order h_1(t), h_2(t)" in verify(rotation, [p, -q]).evidence


def test_letters_of_any_assumptions_are_matched_by_name_or_as_told_and_it_is_said():
    scaled = Step(lambda self, x, h: self.a * h + 0.1 * x, a=2.0)
    h1, h2, x1, a = symbols("h_1 h_2 x_1 a")
    by_name = verify(scaled, [a * h1 + 0.1 * x1, a * h2 + 0.1 * x1])
    assert by_name
    assert "by name" in by_name.evidence
    assert "rational" in by_name.evidence
    k, y = Symbol("k", positive=True), Symbol("y")
    told = verify(
        scaled,
        [k * h1 + exact(0.1) * x1, k * y + exact(0.1) * x1],
        letters={k: Symbol("a", real=True), "y": symbolic(scaled).state[1]},
    )
    assert told
    assert not verify(scaled, [a * h1 + Rational(1, 10) * x1, a * h2 + Rational(1, 10) * x1])  # a float is no decimal
    with pytest.raises(ValueError, match="no letter of the module"):
        verify(scaled, [k * h1, k * h2], letters={k: Symbol("c")})


WRONG = {
    "two equations for h_1": [Eq(q.diff(t), p), Eq(q.diff(t), p)],
    "no equation for h_2": [Eq(q.diff(t), p)],
    "is of order 2": [Eq(q.diff(t, 2), p), Eq(p.diff(t), -q)],
    "of no unit": [Eq(q.diff(t), p), Eq(p.diff(t), -q), Eq(Function("k")(t).diff(t), q)],
    "is no derivative": [Eq(q, p), Eq(p, -q)],
    "others have none": [Eq(q.diff(t), p), -q],
    "one for each of the 2 units, got 3": [p, -q, q],
    "no function of the letters": [Integral(p, t), -q],
    "which the module has not": [p + Symbol("k"), -q],
    "has become True": [Eq(q, q), Eq(p.diff(t), -q)],
    "at the times": [p.subs(t, Symbol("s")), -q],
}


@pytest.mark.parametrize("words", list(WRONG))
def test_equations_that_do_not_fit_are_refused_in_words(words):
    with pytest.raises(ValueError, match=words):
        verify(rotation, WRONG[words])


def exact(number):
    return Rational(*number.as_integer_ratio())


h1, h2 = symbols("h_1 h_2", real=True)
K = Symbol("k", integer=True)
PARTLY = {
    "sqrt(h) sqrt(h) = h": (lambda self, x, h: h.sqrt() * h.sqrt(), lambda h: h, lambda h: h >= 0),
    "exp(log h) = h": (lambda self, x, h: h.log().exp(), lambda h: h, lambda h: h > 0),
    "h/h = 1": (lambda self, x, h: h / h, lambda h: 1, lambda h: ~Eq(h, 0)),
    "h^-2 h^3 = h": (lambda self, x, h: h**-2 * h**3, lambda h: h, lambda h: ~Eq(h, 0)),
    "(h^0.5)^2 = |h|": (lambda self, x, h: (h**0.5) ** 2, Abs, lambda h: h >= 0),
}


@pytest.mark.parametrize("name", PARTLY)
def test_what_holds_only_where_the_code_is_defined_says_where(name):
    code, equation, condition = PARTLY[name]
    verdict = verify(Step(code), [equation(h1), equation(h2)])
    assert verdict.holds is True
    assert verdict.verdict == "holds under the stated assumptions"
    assert set(verdict.defined_on) == {condition(h1), condition(h2)}
    assert verdict.evidence.startswith("where ") or "; where " in verdict.evidence


UNEVALUATED = {
    "h/h": (lambda self, x, h: h * 0 + 1, lambda h: Mul(h, Pow(h, -1, evaluate=False), evaluate=False), lambda h: ~Eq(h, 0)),
    "sqrt(h)^2": (lambda self, x, h: 1 * h, lambda h: Pow(sqrt(h), 2, evaluate=False), lambda h: h >= 0),
    "exp(log h)": (lambda self, x, h: 1 * h, lambda h: exp(log(h), evaluate=False), lambda h: h > 0),
    "0 log h": (lambda self, x, h: 0 * h, lambda h: Mul(0, log(h), evaluate=False), lambda h: h > 0),
    "a sum": (lambda self, x, h: h + 1 / h, lambda h: Sum(h ** (2 * K - 1), (K, 0, 1)), lambda h: ~Eq(h, 0)),
}


@pytest.mark.parametrize("name", UNEVALUATED)
def test_equations_are_defined_where_they_are_as_written(name):
    code, equation, condition = UNEVALUATED[name]
    verdict = verify(Step(code), [equation(h1), equation(h2)])
    assert verdict.verdict == "holds under the stated assumptions"
    assert set(verdict.defined_on) == {condition(h1), condition(h2)}


def test_what_is_defined_everywhere_has_no_conditions():
    safe = Step(lambda self, x, h: (1 + h.square()).sqrt() / (2 + h.tanh()) + (h.exp() + 1).log())
    written = [sqrt(1 + h**2) / (2 + tanh(h)) + log(1 + exp(h)) for h in (h1, h2)]
    verdict = verify(safe, written)
    assert verdict.verdict == "holds"
    assert verdict.defined_on == ()


NOWHERE = {
    "log h + log(-1 - h)": lambda self, x, h: h.log() + (-1 - h).log(),
    "1/(h - h)": lambda self, x, h: (h - h).reciprocal(),
    "sqrt(-1 - h^2)": lambda self, x, h: (-1 - h**2).sqrt(),
}


@pytest.mark.parametrize("name", NOWHERE)
def test_of_what_is_defined_nowhere_nothing_is_proved(name):
    nowhere = Step(NOWHERE[name])
    assert verify(nowhere, list(symbolic(nowhere).flow)).holds is None


def test_where_the_equations_are_undefined_is_said_too():
    verdict = verify(Step(lambda self, x, h: h), [exp(log(h1) + 1) / exp(1), h2 + log(h2) - log(h2)])
    assert verdict.defined_on == (h1 > 0,) or verdict.holds is True


def test_a_root_in_the_case_that_is_not_taken_needs_no_condition():
    guarded = Step(lambda self, x, h: torch.where(h > 0, h.sqrt(), -h))
    assert verify(guarded, [Piecewise((sqrt(h), h > 0), (-h, True)) for h in (h1, h2)]).defined_on == ()


@pytest.mark.parametrize(("value", "defined"), [(-2, True), (Rational(-1, 2), False), (4, True)])
def test_a_root_in_the_case_that_is_taken_needs_its_condition_there(value, defined):
    conditions = symbolic(rooted).defined_on
    assert all(condition.subs({h1: value, h2: value}) == True for condition in conditions) is defined  # noqa: E712


rooted = Step(lambda self, x, h: torch.where(h > -1, h.sqrt(), -h))


def test_what_a_proof_must_assume_beside_conditions_of_the_code_is_assumed_by_the_verdict():
    verdict = decide([Mul(h1, Pow(h1, -1, evaluate=False), evaluate=False)], [S.One])
    assert verdict.verdict == "holds under the stated assumptions"
    assert verdict.defined_on == (~Eq(h1, 0),)


def test_numbers_at_which_the_code_is_undefined_refute_nothing():
    # They differ for h < 0, where torch says nan.
    assert verify(Step(lambda self, x, h: h.sqrt() * h.sqrt()), [Abs(h1), Abs(h2)]).holds is True


def test_numbers_refute_nothing_where_two_letters_tell_where_the_code_is_defined():
    code = Step(lambda self, x, h: (h - h.flip(-1)).sqrt().square() * torch.tensor([1.0, 0.0]))
    assert verify(code, [Abs(h1 - h2), 0 * h1]).holds is not False


class Stepped(nn.Module):
    def __init__(self, field, step):
        super().__init__()
        self.field, self.step, self.input_size, self.hidden_size = field, step, 1, 1

    def forward(self, x, h):
        return self.step(self.field, x, h, 1.0)


# The slow run has the rate in an exponential of an exponential, which takes the numbers that refute it seconds.
@pytest.mark.parametrize("field", [ctrnn.leaky, pytest.param(ctrnn.gated, marks=pytest.mark.slow)])
def test_one_step_map_is_not_another_and_numbers_tell_them_apart(field):
    euler = Stepped(field(1, 1), discretize.Euler())
    verdict = verify(Stepped(euler.field, discretize.ExponentialEuler()), symbolic(euler))
    assert verdict.holds is False
    assert verdict.replay().differs
    assert verify(euler, symbolic(euler))


def test_counterexamples_are_plain_and_torch_confirms_them():
    code = Step(lambda self, x, h: torch.tanh(self.w * h + x), w=torch.randn(2))
    w, x = list(symbolic(code).parameters["w"]), symbolic(code).inputs[0]
    verdict = verify(code, [tanh(w[0] * h1 + x), tanh(w[1] * h2 - x)])
    assert verdict.holds is False
    replayed = verdict.replay()
    assert replayed.differs
    assert all(value in (-1, 0, 1) for value in verdict.counterexample.values())
    assert "torch" in str(replayed)
    assert replayed.torch[0] == pytest.approx(replayed.equations[0])


def test_torch_confirms_numbers_for_code_with_a_weight_of_no_axes():
    code = Step(lambda self, x, h: self.a * h, a=2.0)
    replayed = verify(code, [Symbol("a") * h1, 2 * Symbol("a") * h2]).replay()
    assert replayed.differs
    assert replayed.equations[1] == pytest.approx(2 * replayed.torch[1])
    assert replayed.torch[1] != 0


def test_a_verdict_without_counterexample_has_nothing_to_replay():
    with pytest.raises(ValueError, match="nothing to replay"):
        verify(rotation, [p, -q]).replay()


def test_equations_with_their_left_sides_exchanged_are_refuted():
    exchanged = verify(rotation, [Eq(p.diff(t), p), Eq(q.diff(t), -q)])
    assert exchanged.holds is False
    assert exchanged.replay().differs


def test_equations_that_differ_at_one_point_only_are_refuted_there():
    code = Step(lambda self, x, h: torch.where(h >= 0, 1.0, -1.0))
    verdict = verify(code, [sign(h) for h in (h1, h2)])
    assert verdict.holds is False
    assert verdict.replay().differs


def test_a_case_that_sympy_leaves_open_is_not_proved():
    one = torch.tensor(1.0)
    code = Step(lambda self, x, h: torch.where(one.sin() ** 2 + one.cos() ** 2 >= 1, h.abs(), -h.abs()))
    assert not verify(code, [-Abs(h1), -Abs(h2)])


def test_a_difference_too_small_to_see_is_found_exactly():
    assert verify(rotation, [p * (1 + Rational(1, 10**12)), -q]).holds is False


def test_a_module_answers_with_a_derivative_if_the_left_sides_do():
    code = Step(lambda self, x, h: -h)
    time = Symbol("t")
    y = [Function(f"h_{k}")(time) for k in (1, 2)]
    assert verify(code, [Eq(u.diff(time), -u) for u in y])
    with pytest.raises(ValueError, match="a derivative, and the module a discrete cell"):
        verify(code, [Eq(u.diff(time), -u) for u in y], field=False)


def test_equations_show_in_notebooks():
    assert symbolic(rotation)._repr_latex_().startswith("$\\displaystyle")
    assert isinstance(symbolic(rotation)[0].lhs, Derivative)
