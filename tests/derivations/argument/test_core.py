"""Every identity holds, and stops holding when it is tampered with."""

import dataclasses
import itertools

import pytest
from sympy import Add, Derivative, Function, MatrixBase, Pow, Rational, Subs, Symbol, exp
from sympy.core.function import AppliedUndef

import derivations
from derivations import Identity, check, check_all, core_identities


@pytest.fixture(scope="module")
def core():
    return core_identities()


LONGEST = "warped lstm, read out"  # two fifths of the time of all


# The ledger has them too: by default those that are displayed, and what changed, see `test_book.py`.
@pytest.mark.slow
@pytest.mark.parametrize("longest", [False, True])
def test_every_identity_of_the_core_holds(core, subtests, longest):
    chosen = [identity for identity in core if (identity.name == LONGEST) == longest]
    assert len(chosen) == (1 if longest else len(core) - 1)
    for identity in chosen:
        with subtests.test(identity.name):
            verdict = check(identity)
            wanted = "holds under the stated assumptions" if identity.assumptions else "holds"
            assert (verdict.verdict, verdict.counterexample) == (wanted, None)


# Every day the sign of the whole, and of what stands within; the slow run has factors and exponents too.
@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_identities_tampered_with_fail_by_numbers_that_break_them(core, subtests, every):
    assert all(any(tampered(identity, every)) for identity in core)
    for identity in core:
        left = entries(identity.lhs, identity.where)
        for wrong in tampered(identity, every):
            with subtests.test(f"{wrong.name}, {wrong.rhs}"[:100]):
                verdict = check(wrong)
                assert verdict.verdict == "does not hold as printed"
                # Each side by itself, so that nothing of how the difference was simplified is used.
                both = (left, entries(wrong.rhs, wrong.where))
                lefts, rights = ([e.xreplace(verdict.counterexample).evalf(40) for e in side] for side in both)
                assert max(abs(a - b) for a, b in zip(lefts, rights, strict=True) if (a - b).is_number) > 1e-20
                assert all(value.is_Rational for value in verdict.counterexample.values())


def test_what_a_letter_assumes_is_stated_by_its_identity(core):
    for identity in core:
        letters = (identity.lhs.free_symbols | identity.rhs.free_symbols) - identity.where.keys()
        signed = {u.name for u in letters if u.is_nonnegative}
        assert signed <= {assumption.split()[0] for assumption in identity.assumptions}, identity.name


def variants(e):
    """The expression with one sign flipped, one factor doubled or one exponent raised, at any depth."""
    yield -e
    yield 2 * e
    yield from inner_variants(e)


def inner_variants(e):
    if isinstance(e, AppliedUndef | Derivative | Subs) or not e.args:
        return
    if isinstance(e, Add):
        yield e.func(-e.args[-1], *e.args[:-1])
    if isinstance(e, Pow) and e.base != 1:
        yield e.base ** (e.exp + 1)
    if isinstance(e, Function | exp):
        yield e.func(2 * e.args[0])
    for i, argument in enumerate(e.args):
        for variant in inner_variants(argument):
            yield e.func(*e.args[:i], variant, *e.args[i + 1 :])


def tampered(identity, every):
    """A few identities, or every second of them, with a changed right-hand side; where that is 0, with 1 in its place."""
    if isinstance(identity.rhs, MatrixBase):
        entry = next((e for e in identity.rhs if e != 0), None)
        position = list(identity.rhs).index(entry) if entry is not None else 0
    else:
        entry, position = identity.rhs, 0
    for variant in itertools.islice(variants(entry), 0, 4, every) if entry else [Rational(1)]:
        if isinstance(identity.rhs, MatrixBase):
            rhs = identity.rhs.as_mutable()
            rhs[position] = variant
        else:
            rhs = variant
        yield dataclasses.replace(identity, rhs=rhs)


def entries(side, where):
    sides = side.doit() if isinstance(side, MatrixBase) else [side.doit()]
    return [e.xreplace(where).doit() for e in sides]


def test_names_of_the_core_are_unique_and_each_source_has_a_label_once(core):
    everything = [*core, *derivations.misprints()]
    assert len({identity.name for identity in everything}) == len(everything)
    assert len({(identity.source, identity.label) for identity in everything}) == len(everything)
    assert {identity.source for identity in everything} == {"tallec-ollivier-2018", "ohno-kumagai-2021", "this project"}
    assert all(identity.label and identity.statement.endswith(".") for identity in everything)


def test_every_equation_from_2_to_10_and_the_lstm_is_in_the_core(core):
    labels = {identity.label for identity in core}
    assert {f"eq. {k}" for k in (2, 4, 5, 6, 7, 8, 9, 10, 13, 15, 19, 20, 23)} | {"footnote 2", "footnote 3"} <= labels


def test_identities_are_handed_out_one_at_a_time():
    x = Symbol("x", real=True)
    started = []

    def claims():
        for k in range(3):
            started.append(k)
            yield Identity(f"claim {k}", "this project", "Nothing.", x, x)

    running = check_all(claims())
    assert started == []
    identity, verdict = next(running)
    assert (identity.name, verdict.holds, started) == ("claim 0", True, [0])
    assert verdict.seconds > 0


@pytest.mark.slow
def test_a_full_run_is_the_core_and_the_torch_code_and_all_of_it_holds(core):
    run = list(check_all())
    assert [identity.name for identity, _ in run[: len(core)]] == [identity.name for identity in core]
    assert all(identity.name.endswith(("as coded", "as stepped")) for identity, _ in run[len(core) :])
    assert len(run) >= len(core) + 19
    assert [identity.name for identity, verdict in run if not verdict.holds] == []
    assert sum(verdict.seconds for _, verdict in run) < 60  # some ten seconds on an idle machine
