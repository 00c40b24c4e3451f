"""Formulas in three writings: names as they are, markup that is markup."""

from xml.dom import minidom

from sympy import Abs, Derivative, Eq, Function, ImmutableDenseMatrix, Integral, Limit, StrictLessThan, Sum, Symbol, exp, oo

from derivations.prover import symbols
from derivations.prover.formulas import LONGEST, written
from derivations.twins import fields

g, r = Symbol("g", positive=True), Symbol("r", positive=True)
t = symbols.t


def text_of(mathml):
    tree = minidom.parseString(f"<math>{mathml}</math>")

    def texts(node):
        return "".join(node.data if node.nodeType == node.TEXT_NODE else texts(node) for node in node.childNodes)

    return texts(tree)


def test_names_and_signs_in_markup_are_those_of_the_page():
    for formula, shown in (
        (Symbol("W_{gx,11}"), "Wgx,11"),
        (Symbol("alpha"), "α"),
        (Symbol("g_1'"), "g1′"),
        (Symbol("tau_{1,x}"), "τ1,x"),
        (symbols.flow(t), "F(t)"),
        (Function("h^g_1")(t), "h1g(t)"),
        (Function("O")(g**2), "O(g2)"),
        (symbols.entry("candidate.weight_h", (0, 1)), "candidate.weight_h0,1"),
        (StrictLessThan(0, g, evaluate=False), "0<g"),
        (-g, "−g"),
        (exp(g), "eg"),
    ):
        assert text_of(written(formula).mathml) == shown


def test_the_markup_is_well_formed_and_whole():
    for formula in (
        Eq(Limit(g, g, 0), 0, evaluate=False),
        Eq(Derivative(symbols.c(t), t), Abs(g) ** r, evaluate=False),
        Integral(exp(-g), (g, 0, oo)),
        Sum(g**r, (r, 0, 3)),
        ImmutableDenseMatrix([g, r]),
        *fields.gated().equations,
    ):
        found = written(formula)
        minidom.parseString(f"<math>{found.mathml}</math>")
        assert found.latex, formula
        assert "mathtt" not in found.latex


def test_what_is_too_long_to_read_is_plain_text_only():
    long = sum((symbols.signal(f"f_{k}")(t) for k in range(LONGEST // 6)), g)
    found = written(long)
    assert len(found.text) > LONGEST
    assert (found.latex, found.mathml) == ("", "")


def test_a_prime_is_a_prime_in_latex():
    assert written(Symbol("g_1'") ** 2).latex == "{g_{1}'}^{2}"  # without braces TeX refuses two superscripts


def test_a_greek_letter_is_one_in_latex_however_its_index_is_written():
    assert [written(Symbol(name)).latex for name in ("tau_{1,x}", "beta_c", "c~")] == [r"\tau_{1,x}", r"\beta_{c}", r"\tilde{c}"]
