"""What it means to hold: 0 exactly, refuted by numbers, or undecided."""

import pytest
from sympy import (
    Abs,
    Derivative,
    Eq,
    Float,
    Function,
    Integral,
    Matrix,
    Rational,
    S,
    Symbol,
    atan,
    cos,
    exp,
    log,
    pi,
    sign,
    sin,
    sqrt,
)

from derivations import Identity, check
from derivations.prover import identity, symbols

x, y, p = Symbol("x", real=True), Symbol("y", real=True), Symbol("p", positive=True)
n = Symbol("n", integer=True, positive=True)
t, h = symbols.t, symbols.state(1)[0]


def claim(lhs, rhs, *assumptions):
    return Identity("a claim", "this project", "lhs = rhs", lhs, rhs, assumptions)


VERDICTS = [
    ("holds", claim((x + y) ** 2, x**2 + 2 * x * y + y**2)),
    ("holds under the stated assumptions", claim(sqrt(p**2), p, "p > 0")),
    ("does not hold as printed", claim(sqrt(x**2), x, "x > 0")),  # stating an assumption does not make it so
    ("does not hold as printed", claim(x + Rational(1, 10**40), x)),
    ("does not hold as printed", claim(Abs(x) * x, x**2)),  # the negative side
    ("holds under the stated assumptions", claim(log(x**2), 2 * log(x))),  # where x > 0
    ("does not hold as printed", claim(h.diff(t), h)),
    ("holds", claim(exp(h) * exp(-h) * h.diff(t), h.diff(t))),
    ("holds", claim(Derivative(t * h, t), h + t * h.diff(t))),
    ("holds", claim(Integral(2 * x, (x, 0, p)), p**2)),
]


@pytest.mark.parametrize(("word", "stated"), [pytest.param(*case, id=f"{case[1].lhs} is {case[1].rhs}") for case in VERDICTS])
def test_verdicts_of_identities_are_what_is_so(word, stated):
    verdict = check(stated)
    assert verdict.verdict == word
    assert stated.holds() is verdict.holds
    assert bool(verdict.counterexample) == (verdict.holds is False)


def test_without_the_assumption_on_its_letter_an_identity_is_refuted_and_the_number_breaks_it():
    verdict = check(claim(sqrt(x**2), x))
    assert verdict.verdict == "does not hold as printed"
    assert verdict.holds is False
    assert verdict.counterexample[x] < 0


def test_an_undecided_entry_leaves_a_matrix_undecided_and_a_false_one_refutes_it():
    hard, easy, wrong = atan(p) + atan(1 / p) - pi / 2, (p + 1) ** 2 - p**2 - 2 * p - 1, p - 1
    assert check(claim(Matrix([easy, hard]), Matrix([0, 0]))).holds is None
    assert check(claim(Matrix([easy, hard, wrong]), Matrix([0, 0, 0]))).holds is False
    assert check(claim(Matrix([easy, easy]), Matrix([0, 0]))).holds is True


def test_absolute_values_are_decided_case_by_case():
    verdict = check(claim(sign(x) * Abs(x) ** Rational(3, 2), sqrt(Abs(x)) * x))
    assert verdict.holds is True
    assert "3 cases of sign" in verdict.evidence


def test_numbers_that_refute_respect_what_the_letters_are():
    verdict = check(claim(p + n, 2 * p + n))
    assert verdict.counterexample[p] > 0
    assert verdict.counterexample.get(n, S.One).is_integer


def test_one_function_at_two_times_has_two_values_but_one_at_one_time():
    g = Function("g", real=True)
    verdict = check(claim(g(x), g(y)))
    assert verdict.holds is False
    # g(x) = g(y) could not be broken by x = y; equal arguments written in two ways are one value.
    assert check(claim(g((x + y) ** 2 - x**2), g(2 * x * y + y**2))).holds is True


f = Function("f", real=True)


@pytest.mark.parametrize(
    ("left", "right"),
    [((x + 1) ** 2, x**2 + 2 * x + 1), (sin(x) ** 2, 1 - cos(x) ** 2), (f((x + 1) ** 2), f(x**2 + 2 * x + 1))],
    ids=str,
)
def test_one_value_under_two_names_refutes_nothing(left, right):
    assert check(claim(f(left), f(right))).holds is not False
    assert check(claim(f(left).diff(x), f(right).diff(x))).holds is not False


def test_an_unknown_function_is_not_the_same_at_two_places():
    assert check(claim(f(x + 1), f(x + 2))).holds is False
    assert check(claim(f(f(x)), f(f(x) + 1))).holds is False


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        (atan(p) + atan(1 / p), pi / 2),  # true, by a rule that SymPy does not use
        (4 * atan(Rational(1, 5)) - atan(Rational(1, 239)), pi / 4),  # Machin's formula: true, no letter in it
    ],
)
def test_what_sympy_cannot_decide_is_undecided_however_close_the_numbers_are(lhs, rhs):
    verdict = check(claim(lhs, rhs))
    assert (verdict.verdict, verdict.holds, verdict.counterexample) == ("undecided", None, None)


def test_a_case_split_does_not_forget_zero(monkeypatch):
    # True for x > 0 and for x < 0, and 0 = 1 at x = 0; no number may help the proof to see it.
    monkeypatch.setattr(identity, "TRIALS_BEFORE", 0)
    assert check(claim(sign(x) ** 2, S.One)).holds is not True


def test_sides_must_be_sympy_exact_and_of_one_shape():
    with pytest.raises(TypeError, match="`rhs` must be a SymPy expression"):
        claim(x, "x")
    with pytest.raises(TypeError, match="`lhs`"):
        claim(Eq(x, y), x)
    with pytest.raises(ValueError, match="write it as a Rational"):
        claim(x, Float("0.1") * x)
    with pytest.raises(ValueError, match="differ in shape"):
        claim(Matrix([x]), Matrix([x, x]))
    with pytest.raises(ValueError, match="differ in shape"):
        claim(Matrix([x]), x)
