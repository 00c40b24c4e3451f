"""Entries become claims: false needs numbers, a correction needs a proof, and a mutation must turn the verdict."""

import pytest
from sympy import Function, Symbol, cosh, exp

from derivations.claim import Correction, Every, Fails, Mutation, Source, changed, decided, flips, printed
from derivations.prover.inequalities import Less
from derivations.prover.statements import Equal
from derivations.prover.verdict import AT_SIZES, FAILS, HOLDS, HOLDS_ASSUMING, REINTERPRETED, UNDECIDED
from experiments.derive.table import summary

x = Symbol("x", real=True)
g = Symbol("g", positive=True)
TRUE, ALSO_TRUE, FALSE = Equal((x + 1) ** 2, x**2 + 2 * x + 1), Equal(x + x, 2 * x), Equal(x, -x)
OPEN = Less(cosh(x), exp(x**2 / 2))  # true, and it does not show
LISTED = printed("section 3", ("copy", "adding"), "copy")
MUTATION = Mutation("a sign", FALSE)


def entry(*statements, given=(), sizes="", **more):
    return Source("this project")("a label", given=given, sizes=sizes).says("Words.", *statements, **more)


def test_what_is_false_has_numbers_and_says_what_is_right():
    claim = decided(entry(FALSE, correction=Correction("x = x, with its sign.", TRUE)))
    assert (claim.verdict, claim.as_recorded) == (FAILS, True)
    assert "counterexample: x = " in claim.evidence
    assert claim.counterexample
    assert claim.correction.startswith("x = x, with its sign. | Eq(")


def test_a_kinder_reading_saves_what_is_false_as_printed_and_must_be_proved():
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


def test_all_statements_must_be_proved():
    assert decided(entry(TRUE, ALSO_TRUE, mutation=MUTATION)).verdict == HOLDS
    assert decided(entry(TRUE, OPEN, mutation=MUTATION)).verdict == UNDECIDED
    assert decided(entry(TRUE, OPEN, FALSE, mutation=MUTATION)).verdict == FAILS


def test_a_verdict_other_than_recorded_is_seen():
    assert not decided(entry(FALSE, mutation=MUTATION)).as_recorded
    assert not decided(entry(TRUE, recorded=UNDECIDED)).as_recorded
    assert decided(entry(OPEN, recorded=UNDECIDED)).as_recorded


@pytest.mark.parametrize("wrong", [FALSE, OPEN])
def test_a_correction_without_proof_leaves_the_claim_undecided(wrong):
    claim = decided(entry(FALSE, correction=Correction("Wrong again.", wrong)))
    assert (claim.verdict, claim.as_recorded) == (UNDECIDED, False)


def test_a_mutation_must_be_refuted_and_not_merely_undecided():
    assert flips(entry(TRUE, mutation=MUTATION))
    assert not flips(entry(TRUE, mutation=Mutation("nothing", ALSO_TRUE)))
    assert not flips(entry(TRUE, mutation=Mutation("out of reach", OPEN)))
    assert flips(entry(FALSE, correction=Correction("Right.", TRUE)))
    assert not flips(entry(FALSE, correction=Correction("Wrong.", FALSE)))


def test_a_mutation_may_change_parts_of_the_first_statement_that_has_them():
    assert entry(TRUE, OPEN, ALSO_TRUE, mutation=changed("3 x", rhs=3 * x)).mutation == Mutation("3 x", Equal(TRUE.lhs, 3 * x))
    assert entry(TRUE, OPEN, mutation=changed("above", upper=g)).mutation == Mutation("above", Less(cosh(x), g))
    with pytest.raises(ValueError, match="above: no statement of the entry has upper"):
        entry(TRUE, mutation=changed("above", upper=g))


def test_a_decided_entry_must_name_its_mutation():
    with pytest.raises(ValueError, match="name a mutation"):
        entry(TRUE)
    with pytest.raises(ValueError, match="at least one statement"):
        entry(mutation=MUTATION)


def test_assumptions_and_sizes_are_said_in_the_verdict():
    claim = decided(entry(TRUE, given=("x > 0",), mutation=MUTATION))
    assert (claim.verdict, claim.scope, claim.as_recorded) == (HOLDS_ASSUMING, "all sizes", True)
    claim = decided(entry(TRUE, sizes="2 units", given="x > 0", mutation=MUTATION))
    assert (claim.verdict, claim.scope, claim.as_recorded) == (AT_SIZES, "2 units", True)
    assert claim.provided == ("x > 0", "2 units")


@pytest.mark.parametrize(
    ("statements", "is_remark"),
    [
        ((LISTED,), True),
        ((Fails(LISTED),), True),
        ((LISTED, TRUE), False),
        ((Every("both", lambda: (({}, (n, "<", 3)) for n in (1, 2))),), False),
    ],
)
def test_a_claim_that_compares_words_in_print_is_a_remark_and_says_so(statements, is_remark):
    claim = decided(entry(*statements, mutation=MUTATION))
    assert claim.is_remark is is_remark
    assert ("a remark on words in print, no proof" in claim.provided) is is_remark
    assert ("1 of them is a remark on words in print, and no proof" in summary([claim])) is is_remark


def test_the_statement_is_words_and_formula_unless_it_is_too_long_to_read():
    assert decided(entry(TRUE, mutation=MUTATION)).statement == "Words. | Eq((x + 1)**2, x**2 + 2*x + 1)"
    letters = [Symbol(f"a_rather_long_name_{k}") for k in range(30)]
    claim = decided(entry(Equal(g * sum(letters), sum(g * letter for letter in letters)), mutation=MUTATION))
    assert claim.statement == "Words."
    assert claim.formulas[0].text.startswith("Eq(")
    assert 0 < claim.seconds < 60


def test_a_claim_of_an_unknown_function_is_decided_by_what_is_known_of_it():
    f = Function("f", real=True)
    assert decided(entry(Equal(f(x) - f(x) + g, g), mutation=MUTATION)).verdict == HOLDS
