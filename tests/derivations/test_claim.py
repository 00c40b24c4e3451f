"""Entries become claims: false needs numbers, a correction needs a proof, and a mutation must turn the verdict."""

import pytest
from sympy import Function, Symbol, cosh, exp

from derivations.claim import Correction, Mutation, Source, changed, decided, flips
from derivations.prover.inequalities import Less
from derivations.prover.statements import Equal
from derivations.prover.verdict import AT_SIZES, FAILS, HOLDS, HOLDS_ASSUMING, REINTERPRETED, UNDECIDED

x = Symbol("x", real=True)
g = Symbol("g", positive=True)
TRUE, ALSO_TRUE, FALSE = Equal((x + 1) ** 2, x**2 + 2 * x + 1), Equal(x + x, 2 * x), Equal(x, -x)
OPEN = Less(cosh(x), exp(x**2 / 2))  # true, and it does not show
MUTATION = Mutation("a sign", FALSE)


def entry(*statements, given=(), sizes="", **more):
    return Source("this project")("a label", given=given, sizes=sizes).says("Words.", *statements, **more)


def test_a_verdict_needs_all_statements_and_falsehoods_have_numbers():
    # What is false has numbers and what is right.
    claim = decided(entry(FALSE, correction=Correction("x = x, with its sign.", TRUE)))
    assert (claim.verdict, claim.as_recorded) == (FAILS, True)
    assert "counterexample: x = " in claim.evidence
    assert claim.counterexample
    assert claim.correction.startswith("x = x, with its sign. | Eq(")
    # A kinder reading saves what is false as printed and must be proved.
    saved = entry(FALSE, reading=Correction("x is meant to be 0.", ALSO_TRUE))
    claim = decided(saved)
    assert (claim.verdict, claim.as_recorded) == (REINTERPRETED, True)
    assert claim.correction.startswith("x is meant to be 0. | ")
    assert claim.counterexample
    assert flips(saved)
    assert decided(entry(FALSE, reading=Correction("Wrong too.", FALSE))).verdict == UNDECIDED
    assert decided(entry(TRUE, reading=Correction("Not needed.", TRUE))).verdict == HOLDS
    with pytest.raises(ValueError, match="by a reading or corrected, not both"):
        entry(FALSE, reading=Correction("One.", TRUE), correction=Correction("Two.", TRUE))
    # A verdict needs all statements and another than recorded is seen.
    # All statements must be proved.
    assert decided(entry(TRUE, ALSO_TRUE, mutation=MUTATION)).verdict == HOLDS
    assert decided(entry(TRUE, OPEN, mutation=MUTATION)).verdict == UNDECIDED
    assert decided(entry(TRUE, OPEN, FALSE, mutation=MUTATION)).verdict == FAILS
    # A verdict other than recorded is seen.
    assert not decided(entry(FALSE, mutation=MUTATION)).as_recorded
    assert not decided(entry(TRUE, recorded=UNDECIDED)).as_recorded
    assert decided(entry(OPEN, recorded=UNDECIDED)).as_recorded


@pytest.mark.parametrize("wrong", [FALSE, OPEN])
def test_a_correction_without_proof_leaves_the_claim_undecided(wrong):
    claim = decided(entry(FALSE, correction=Correction("Wrong again.", wrong)))
    assert (claim.verdict, claim.as_recorded) == (UNDECIDED, False)


def test_mutations_are_named_and_statements_have_words_and_assumptions():
    # A mutation is named refuted and of the first statement that has its parts.
    # A mutation must be refuted and not merely undecided.
    assert flips(entry(TRUE, mutation=MUTATION))
    assert not flips(entry(TRUE, mutation=Mutation("nothing", ALSO_TRUE)))
    assert not flips(entry(TRUE, mutation=Mutation("out of reach", OPEN)))
    assert flips(entry(FALSE, correction=Correction("Right.", TRUE)))
    assert not flips(entry(FALSE, correction=Correction("Wrong.", FALSE)))
    # A mutation may change parts of the first statement that has them.
    assert entry(TRUE, OPEN, ALSO_TRUE, mutation=changed("3 x", rhs=3 * x)).mutation == Mutation("3 x", Equal(TRUE.lhs, 3 * x))
    assert entry(TRUE, OPEN, mutation=changed("above", upper=g)).mutation == Mutation("above", Less(cosh(x), g))
    with pytest.raises(ValueError, match="above: no statement of the entry has upper"):
        entry(TRUE, mutation=changed("above", upper=g))
    # A decided entry must name its mutation.
    with pytest.raises(ValueError, match="name a mutation"):
        entry(TRUE)
    with pytest.raises(ValueError, match="at least one statement"):
        entry(mutation=MUTATION)
    # A statement is words and formula with assumptions and sizes.
    # Assumptions and sizes are said in the verdict.
    claim = decided(entry(TRUE, given=("x > 0",), mutation=MUTATION))
    assert (claim.verdict, claim.scope, claim.as_recorded) == (HOLDS_ASSUMING, "all sizes", True)
    claim = decided(entry(TRUE, sizes="2 units", given="x > 0", mutation=MUTATION))
    assert (claim.verdict, claim.scope, claim.as_recorded) == (AT_SIZES, "2 units", True)
    assert claim.provided == ("x > 0", "2 units")
    # The statement is words and formula unless it is too long to read.
    assert decided(entry(TRUE, mutation=MUTATION)).statement == "Words. | Eq((x + 1)**2, x**2 + 2*x + 1)"
    letters = [Symbol(f"a_rather_long_name_{k}") for k in range(30)]
    claim = decided(entry(Equal(g * sum(letters), sum(g * letter for letter in letters)), mutation=MUTATION))
    assert claim.statement == "Words."
    assert claim.formulas[0].text.startswith("Eq(")
    assert 0 < claim.seconds < 60
    # A claim of an unknown function is decided by what is known of it.
    f = Function("f", real=True)
    assert decided(entry(Equal(f(x) - f(x) + g, g), mutation=MUTATION)).verdict == HOLDS
