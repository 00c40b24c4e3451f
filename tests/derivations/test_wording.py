"""Formulas for readers: derivatives of functions of which nothing is known as books write them, in text, LaTeX and checks."""

import pytest
from sympy import Abs, Derivative, Eq, Function, Integral, Limit, Ne, Piecewise, Product, Subs, Sum, exp, sqrt, symbols

from derivations.prover.formulas import written
from derivations.prover.reading import Reading
from derivations.rules.printing import term_text

F, g = Function("F", real=True), Function("g", real=True)
t, x, h, k = symbols("t x h k", real=True)
SLOPES = {  # text, LaTeX, and as the checker writes what it has read
    g(t).diff(t): ("g'(t)", r"\frac{d}{d t} g{\left(t \right)}", "g'(t)"),
    g(t).diff(t, 4): ("g^(4)(t)", r"\frac{d^{4}}{d t^{4}} g{\left(t \right)}", "g^(4)(t)"),
    g(t).diff(t).subs(t, 0): ("g'(0)", r"g'{\left(0 \right)}", "g'(0)"),
    Derivative(F(g(t)), g(t)): ("F'(g(t))", r"F'{\left(g{\left(t \right)} \right)}", "F'(g(t))"),
    F(x, g(t)).diff(g(t)): ("D_2 F(x, g(t))", r"\partial_{2} F{\left(x,g{\left(t \right)} \right)}", "D_2 F(x, g(t))"),
    F(x, h).diff(x, x, h): (
        "(d^3F/dx^2 dh)(x, h)",
        r"\frac{\partial^{3}}{\partial x^{2}\partial h} F{\left(x,h \right)}",
        "D_1 D_1 D_2 F(x, h)",
    ),
    F(x, h).diff(h).subs(h, 0): ("D_2 F(x, 0)", r"\partial_{2} F{\left(x,0 \right)}", "D_2 F(x, 0)"),
    Derivative(F(x, x), x): ("(d/dx F(x, x))", r"\frac{d}{d x} F{\left(x,x \right)}", "d/dx(F(x, x))"),
    Derivative(g(2 * t), t): ("(d/dt g(2*t))", r"\frac{d}{d t} g{\left(2 t \right)}", "d/dt(g(2 t))"),
    Derivative(x * g(t) ** 2, g(t)): (
        "(d/dg(t) (x*g(t)^2))",
        r"\frac{\partial}{\partial g{\left(t \right)}} x g^{2}{\left(t \right)}",
        "(d/du(x u^2) at u = g(t))",
    ),
}


@pytest.mark.parametrize("e", SLOPES, ids=str)
def test_a_derivative_is_written_as_books_write_it(e):
    found = written(e)
    assert (found.words, found.display, term_text(Reading().term(e))) == SLOPES[e]
    assert found.mathml


OTHERS = {
    Eq(g(t).diff(t), -(g(t) ** 2) / x): "g'(t) = -g(t)^2/x",
    Ne(x, 0): "x != 0",
    Abs(x) * exp(1): "e*|x|",
    sqrt(x) / h: "sqrt(x)/h",
    Piecewise((x, x > 0), (0, True)): "(x if x > 0; 0 otherwise)",
    Integral(F(x), (x, 0, h)): "(the integral of F(x) dx from 0 to h)",
    Sum(x**k, (k, 1, 3)): "(the sum of x^k for k = 1 to 3)",
    Product(x + k, (k, 1, 3)): "(the product of k + x for k = 1 to 3)",
    Limit(F(x), x, 0): "(the limit of F(x) as x goes to 0 from above)",
    Subs(x * h**2, h, 2): "(h^2*x at h = 2)",
}


@pytest.mark.parametrize("e", OTHERS, ids=str)
def test_a_formula_is_one_line_without_names_of_classes(e):
    assert written(e).words == OTHERS[e]


def test_what_is_bound_is_shown_under_a_letter_that_is_free_nowhere():
    u, s = symbols("u s", real=True)
    assert term_text(Reading().term(Derivative(s * u * g(t) ** 2, g(t)))) == "(d/dw(s u w^2) at w = g(t))"
    assert term_text(Reading().term(Integral(F(x * u), (x, 0, s)))) == "int(F(u w), w, 0, s)"


def test_a_letter_that_is_called_like_a_derivative_stands_in_quotes():
    assert term_text(("*", ("v", "D_2"), ("call", "F", (0, 0), ("v", "x"), ("v", "h")))) == "'D_2' F(x, h)"
