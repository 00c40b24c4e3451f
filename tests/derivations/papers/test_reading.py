"""Random formulas are read as what they are: their LaTeX is computed again by plain arithmetic on floats."""

import math
import random

import pytest
from sympy import Symbol, lambdify

from derivations.papers.grammar import read_chain
from derivations.papers.letters import Letter
from derivations.papers.tokens import Token, Unread, tokens

VALUES = {"x": 0.7, "y": -1.3, "alpha": 2.1}
LETTERS = {name: Letter(name) for name in VALUES}
START = Token("place", "", 1, 1)


def read(text):
    """The one side of a formula without relations."""
    return read_chain(tokens(text, START), LETTERS, {}, set()).sides[0]


def grouped(part, at_least):
    """A part's LaTeX, in brackets if it binds less tightly."""
    text, _, tight = part
    return text if tight >= at_least else f"({text})"


# Of two parts (LaTeX, value, how tightly it binds: 0 a sum, 1 a quotient by /, 2 a product, 3 an atom) another one.
WAYS = (
    lambda a, b: (f"{a[0]} + {b[0]}", a[1] + b[1], 0),
    lambda a, b: (f"{a[0]} - {grouped(b, 1)}", a[1] - b[1], 0),
    lambda a, b: (f"{grouped(a, 2)} {f'[{b[0]}]' if b[0][0].isdigit() else grouped(b, 3)}", a[1] * b[1], 2),
    lambda a, b: (rf"{grouped(a, 2)} \cdot {grouped(b, 2)}", a[1] * b[1], 2),
    lambda a, b: (f"{grouped(a, 2)} / {grouped(b, 3)}", a[1] / b[1], 1) if b[1] else a,
    lambda a, b: (rf"\frac{{{a[0]}}}{{{b[0]}}}", a[1] / b[1], 3) if b[1] else a,
    lambda a, b: (f"({a[0]})^2", a[1] ** 2, 3),
    lambda a, b: (rf"\sin({a[0]} + {b[0]})", math.sin(a[1] + b[1]), 3),
    lambda a, b: (rf"\tanh\left[ {a[0]} \right]", math.tanh(a[1]), 3),
    lambda a, b: (rf"\left| {a[0]} \right|", abs(a[1]), 3),
    lambda a, b: (rf"\sqrt{{({a[0]})^2 + 1}}", math.sqrt(a[1] ** 2 + 1), 3),
    lambda a, b: (rf"e^{{-\cos({a[0]})}}", math.exp(-math.cos(a[1])), 3),
)
LEAVES = [("2", 2.0, 3), ("0.5", 0.5, 3), ("12", 12.0, 3), *((rf"\{n} "[n in "xy" :], v, 3) for n, v in VALUES.items())]


def formula(rng, depth):
    """A random formula."""
    return rng.choice(WAYS)(formula(rng, depth - 1), formula(rng, rng.randrange(depth))) if depth else rng.choice(LEAVES)


def test_random_formulas_have_the_value_that_is_computed():
    rng = random.Random(0)
    letters = [Symbol(name, real=True) for name in VALUES]
    formulas = [formula(rng, rng.randint(1, 4)) for _ in range(300)]
    for text, value, _ in formulas:
        found = lambdify(letters, read(text), "math")(*VALUES.values())
        assert found == pytest.approx(value, rel=1e-9, abs=1e-9), text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-x^2", -0.49),
        ("2x y", 2 * 0.7 * -1.3),
        ("x - y - x", 1.3),
        ("-x + y", -2.0),
        ("2^{x + 1}", 2**1.7),
        ("x/2 + y", 0.35 - 1.3),
        (r"\frac12 x", 0.35),
        (r"\frac xy", 0.7 / -1.3),
        (r"2 \sin x", 2 * math.sin(0.7)),
        (r"\sin^2 (x) y", math.sin(0.7) ** 2 * -1.3),
        (r"\sin(x)^2", math.sin(0.7) ** 2),
        (r"|x| |y|", 0.91),
        (r"|x - |y||", 0.6),
        (r"x e^{y}", 0.7 * math.exp(-1.3)),
        (r"\pi x", math.pi * 0.7),
        (r"\left[ x - (y) \right] \alpha", 2.0 * 2.1),
        (r"\sum_{k=1}^{3} k^2", 14.0),
        (r"\int_0^1 s^2 \, ds", 1 / 3),
        (r"\frac{d}{dx}(x^3)", 3 * 0.49),
    ],
)
def test_what_could_be_misread_has_the_value_it_has_in_print(text, value):
    found = read(text).doit().subs({Symbol(name, real=True): number for name, number in VALUES.items()})
    assert complex(found.evalf()) == pytest.approx(value, rel=1e-12)


REFUSED = [
    r"x\cdot -y", "x/yz", "x--y", "x^y_1", r"\frac{x}23", r"|x|y|\alpha|", r"\sin -x", r"\ln x/y",
    r"\sum_{k=1}^3 k x + y", "3 . 5", "1,5", "x_1", "x^{2}{y}", "(x+y]", "{x}", "x'", "--x", "+x", "x^-1", "x/2y",
    "{x^y}^2", "e^{x}^2", r"\exp x^2", r"\exp{x}^2", "x10^2", "2x3", r"x\quad y", "x!y", r"x\%", r"x \mod y", "x:y",
    r"x^\prime", r"\sqrt 12", "x^12", "x_12", r"\mathbf{2} x", "x(6)", r"\frac{d}{dx} x y",
]  # fmt: skip
OTHERS = {
    r"\sqrt x y": math.sqrt(0.7) * -1.3,
    r"x^y\alpha": 0.7**-1.3 * 2.1,
    r"\frac{x}2y": 0.35 * -1.3,
    "x|y|": 0.91,
    r"x\sin y + \alpha": 0.7 * math.sin(-1.3) + 2.1,
    r"x/\ln 2": 0.7 / math.log(2),
    r"y + \sum_{k=1}^3 k x": -1.3 + 6 * 0.7,
    r"\sum_{k=1}^3 \sum_{j=1}^2 k j": 18.0,
    r"\int_0^1 s^2 ds y": -1.3 / 3,
    r"\int_0^1 s + y ds": 0.5 - 1.3,
    r"\boxed{x + y} \alpha": -0.6 * 2.1,
    r"\mathbf{1} x \odot y": -0.91,
    "-x^2y": 0.49 * 1.3,
    "x/(2y)": 0.7 / -2.6,
    "x^{-1}y": -1.3 / 0.7,
    r"2\cdot3^2": 18.0,
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_can_be_taken_for_two_things_is_refused(text):
    with pytest.raises(Unread):
        read(text)


@pytest.mark.parametrize("text", OTHERS)
def test_what_is_read_has_the_value_that_it_has_in_print(text):
    test_what_could_be_misread_has_the_value_it_has_in_print(text, OTHERS[text])
