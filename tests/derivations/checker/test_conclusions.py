"""A certificate shows its own statement and no other; comparisons are of numbers, texts and lists."""

import pytest
from flint import fmpq
from sympy import Derivative, Function, I, Integer, Mod, Mul, Pow, Rational, Sum, Symbol, exp, log, oo, sin, sqrt

from derivations.prover.cases import Every
from derivations.prover.inequalities import Less
from derivations.prover.limits import Expands, Tends
from derivations.prover.statements import Equal, Fails, Rounds
from derivations.rules.conclusions import concludes, is_one_as_written, is_true
from derivations.rules.quotients import NotShown

x, u, k = Symbol("x", real=True), Symbol("u", positive=True), Symbol("k", positive=True)
R = Function("R", real=True)
TRUE = [
    Equal((x + 1) ** 2, x**2 + 2 * x + 1),
    Equal((x + 1) ** 2, R(x) + 1, {R(x): x * (x + 2)}),
    Less(0 * x, x**2 + 1, True),
    Less(0 * x, x, True, {x: (0, 1)}),
    Tends(u / (u + k), u, 0, 0 * k),
    Tends((1 + u) / u, u, oo, 1 + 0 * u),
    Tends(1 / u, u, 0, oo),
    Expands(exp(x), x, 1 + x + x**2 / 2, 3),
    Expands(log(x + 3), x, log(4), 1, 1),
    Rounds(sqrt(2), "1.414"),
    Fails(Equal(x, -x)),
    Every("squares", lambda: (({"n": n}, (n, "<=", n**2)) for n in range(9))),
]
FALSE = [
    Equal(x + x, x),
    Equal(sin(x) ** 2, sin(x) ** 2 + 1),
    Less(x, x**2),
    Tends(u / (u + k), u, 0, k),
    Tends(1 / u, u, 0, k),
    Tends(u / (u + k), u, 0, oo),
    Expands(exp(x), x, 1 + x + x**2, 3),
    Rounds(sqrt(2), "1.415"),
    Rounds(Rational(35, 10), "3"),
    Fails(Less(0 * x, x**2)),
    Every("squares", lambda: (({"n": n}, (n**2, "<=", 9)) for n in range(9))),
]


def test_a_certificate_shows_its_statement_and_no_other(subtests):
    for statement in (*TRUE, *FALSE):
        with subtests.test(statement=type(statement).__name__):
            steps = statement.decide().certificate
            assert concludes(statement.says(), steps).true is (statement in TRUE)
            for other in (*TRUE, *FALSE):
                # What refutes one value of a limit shows another.
                if other is not statement and getattr(other, "expression", other) != getattr(statement, "expression", statement):
                    with pytest.raises(NotShown):
                        concludes(other.says(), steps)


TO_FIRST, TO_SECOND = Expands(exp(x), x, 1 + x, 2), Expands(exp(x), x, 1 + x, 3)  # the second is wrong
ABOVE, BELOW = (Tends(1 / x, x, 0, oo, side) for side in "+-")  # the second is wrong


@pytest.mark.parametrize(
    ("statement", "other", "words"),
    [
        pytest.param(TO_FIRST, TO_SECOND, "another order", id="a longer series"),
        pytest.param(TO_SECOND, TO_FIRST, "another order", id="a shorter series"),
        pytest.param(ABOVE, BELOW, "other sides", id="from below"),
        pytest.param(BELOW, ABOVE, "other sides", id="from above"),
    ],
)
def test_what_is_shown_to_another_order_or_from_another_side_shows_nothing(statement, other, words):
    steps = other.decide().certificate
    assert concludes(other.says(), steps).true is (other in (TO_FIRST, ABOVE))
    with pytest.raises(NotShown, match=words):
        concludes(statement.says(), steps)


CONDITIONAL = [
    Equal(Mul(x, Pow(x, -1, evaluate=False), evaluate=False), 1 + 0 * x),
    Equal(Mul(0, log(x), evaluate=False), 0 * x),
    Equal(log(x * k), log(x) + log(k)),
    Equal(Derivative(x * u + log(x), u), x + 0 * u),
    Equal(Derivative(log(x), x), 1 / x),
    Less(0 * x, 1 / x**2, True),
    Tends(log(x * u), u, 1, log(x)),
    Expands(log(x + u), u, log(x) + u / x, 2),
]


@pytest.mark.parametrize("statement", CONDITIONAL)
def test_a_proof_with_conditions_says_them_and_where_they_are_true(statement):
    verdict = statement.decide()
    assert verdict.verdict == "holds under the stated assumptions"
    assert verdict.defined_on
    found = concludes(statement.says(), verdict.certificate)
    assert found.true
    assert len(found.conditions) == len(verdict.defined_on)
    with pytest.raises(NotShown, match="conditions can be true"):
        concludes(statement.says(), verdict.certificate[:-1])


@pytest.mark.parametrize(
    "statement",
    [Less(0 * x, 1 / sqrt(x), True), Equal(Mul(sqrt(x), Pow(x, -Rational(1, 2), evaluate=False), evaluate=False), 1 + 0 * x)],
)
def test_an_inverse_root_is_defined_above_0_alone(statement):
    verdict = statement.decide()
    assert verdict.holds
    conditions = concludes(statement.says(), verdict.certificate).conditions
    assert any(relation in (">", "!=") for relation, _ in conditions)
    for value, defined in ((0, False), (1, True)):
        assert all(condition.subs(x, value) == True for condition in verdict.defined_on) is defined  # noqa: E712


def test_what_may_not_be_real_has_no_order():
    z = Symbol("z")
    assert Less(z, z + 1, True).decide().evidence.startswith("z is not said to be real")
    assert Less(I * x, I * x + 1, True).decide().holds is None


def test_what_is_summed_is_defined_as_it_is_written():
    n = Symbol("n", integer=True)
    ones = Sum(Mul(n, Pow(n, -1, evaluate=False), evaluate=False), (n, 0, 3))  # 0/0 at n = 0
    assert Equal(ones, Integer(4)).decide().holds is not True
    assert Equal(Sum(Mul(0, log(x - n), evaluate=False), (n, 1, 3)), Integer(0)).decide().holds is not True
    assert Equal(Sum(n, (n, 1, 3)), Integer(6)).decide().holds
    assert "is not read by the checker" in Equal(Mod(n**2, 3), Integer(1)).decide().evidence


def test_what_holds_nowhere_is_undecided():
    root = sqrt(-2 - sin(x))
    assert Equal(Mul(root, Pow(root, -1, evaluate=False), evaluate=False), 1 + 0 * x).decide().holds is None


def test_a_proof_on_a_part_of_the_domain_does_not_hide_the_rest():
    a = Symbol("a", real=True)
    found = Equal((x**2) ** a, x ** (2 * a)).decide()  # proved for x > 0; at x = -1, a = 1/2 they are 1 and -1
    assert found.holds is False
    assert found.counterexample[x] < 0


def test_a_certificate_of_other_facts_is_refused():
    statement = Less(0 * u, u, True)
    with pytest.raises(NotShown):
        concludes(Less(0 * x, x.subs(x, Symbol("u", real=True)), True).says(), statement.decide().certificate)


def test_derivatives_are_taken_and_values_put_in_when_a_certificate_is_checked():
    statement = Equal(Derivative(x * R(x), x), R(x) + x, {R(x).diff(x): 1 + 0 * x})
    steps = statement.decide().certificate
    assert concludes(statement.says(), steps) == (True, ())
    with pytest.raises(NotShown):
        concludes({**statement.says(), "where": {}}, steps)


def test_no_more_is_supposed_of_letters_than_is_said():
    statement = Less(0 * u, u, True)
    steps, says = statement.decide().certificate, statement.says()
    assert concludes(says, steps).true
    for facts in ({}, {("v", "u"): frozenset({"real"})}):
        with pytest.raises(NotShown, match="other facts"):
            concludes({**says, "facts": facts}, steps)


@pytest.mark.parametrize(
    ("statement", "as_written"),
    [
        (Equal(x + x, 2 * x), True),
        (Equal(R(x), x**2, {R(x): x**2}), True),
        (Equal((x + 1) ** 2, x**2 + 2 * x + 1), False),
        (Equal(Derivative(x**2, x), 2 * x), False),
        (Equal(k, 2 * x, {k: Derivative(x**2, x)}), False),
        (Equal(k, Derivative(x**2, x), {k: Derivative(x**2, x)}), True),
        (Equal(x + R(x), k, {R(x): k - x}), False),
        (Less(0 * x, x**2), False),
    ],
)
def test_what_is_one_expression_as_written_is_told_from_what_is_computed(statement, as_written):
    assert is_one_as_written(statement.says()) is as_written
    assert ("by definition" in statement.decide().evidence) is as_written


COMPARISONS = [
    (fmpq(1, 2), "<", 1),
    ("ab", "=", "ab"),
    ("a", "in", "ab"),
    (2, "in", (1, 2)),
    ((1, "<", 2), "=", (3, "<=", 3)),
    ((1, 2), "!=", (2,)),
]


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_comparisons_are_true_or_false(comparison):
    assert is_true(comparison)
    opposite = {"=": "!=", "!=": "="}.get(comparison[1])
    assert opposite is None or not is_true((comparison[0], opposite, comparison[2]))


@pytest.mark.parametrize("nothing", [True, (1, 2), ("a", "<", "b"), (1, "~", 1)])
def test_what_is_no_comparison_is_refused(nothing):
    with pytest.raises(NotShown):
        is_true(nothing)
