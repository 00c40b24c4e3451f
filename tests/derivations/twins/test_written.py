"""Equations as text: what each piece of the grammar means, by numbers, and what is refused."""

import numpy as np
import pytest
from sympy import Abs, Rational, Symbol, exp, sqrt, symbols, tanh

from derivations.twins.written import Equations, columns

h1, h2, x1, r = symbols("h_1 h_2 x_1 r", real=True)
W = columns(symbols("w:4")).reshape(2, 2)
U, b = columns(symbols("u:2")).reshape(2, 1), columns(symbols("b:2"))
T = columns(symbols("t:4")).reshape(1, 2, 2)
KNOWN = {"h": columns([h1, h2]), "x": columns([x1]), "W": W, "U": U, "b": b, "T": T, "r": r, "dt": Symbol("dt")}
h, x, dt = KNOWN["h"], KNOWN["x"], KNOWN["dt"]
READINGS = {
    "W h + U x + b": W @ h + U @ x + b,
    "W^T h - h": W.T @ h - h,
    "b W h": b * (W @ h),
    "2 h * b / 3": 2 * h * b / 3,
    "-h^2": -(h**2),
    "-2 h^3 * h": -2 * h**4,
    "1/2 + h": Rational(1, 2) + h,
    "0.1 h": Rational(*(0.1).as_integer_ratio()) * h,
    "dt (b * W h)": dt * (b * (W @ h)),
    "(1 - dt) h": (1 - dt) * h,
    "dt h * W h": dt * h * (W @ h),
    "(W * b) h": W @ (b * h),
    "|h - b|^r h": columns([Abs(a) ** r * c for a, c in zip(h - b, h, strict=True)]),
    "tanh(exp(h)) b": columns([tanh(exp(c)) * d for c, d in zip(h, b, strict=True)]),
    "|b| + |h|": columns([Abs(c) + Abs(d) for c, d in zip(h, b, strict=True)]),
    "[h, x]": columns([h1, h2, x1]),
    "T(x, h)": x1 * (T[0] @ h),
    "sigma(h)": columns([1 / (1 + exp(-c)) for c in h]),
    "|h| b - 2 |b - |h||": columns([Abs(c) * d - 2 * Abs(d - Abs(c)) for c, d in zip(h, b, strict=True)]),
    "h - -0.5 b": h + b / 2,
    "h / 2 * W b / r": h / 2 * (W @ b) / r,
    "(W - 2)^(r - 1) h": (W - 2) ** (r - 1) @ h,
    "norm(h, 1)": (h - (h1 + h2) / 2) / sqrt(((h - (h1 + h2) / 2) ** 2).sum() / 2 + 1),
}


@pytest.mark.parametrize("text", READINGS)
def test_each_piece_of_the_grammar_is_read_as_it_is_meant(text):
    found, expected = (np.atleast_1d(each) for each in (Equations(f"y = {text}", KNOWN)["y"], READINGS[text]))
    assert [(a - b).expand() for a, b in zip(found, expected, strict=True)] == [0] * len(found)


def test_lines_use_one_another_in_any_order_and_give_several_names():
    equations = Equations("y = p * q\np, q = [h, b]\nu, v = h, b\nz = u - v", KNOWN)
    assert (equations["y"] == h * b).all()
    assert (equations["z"] == h - b).all()
    assert equations.names == ["y", "p", "q", "u", "v", "z"]


REFUSED = {
    "tanh(W z)": "do not say what z is",
    "tanh(W y)": "y is given by itself",
    "h / 2 h": "several factors follow the /",
    "U h": "a product of sizes",
    "sin(W h": r"\) is missing",
    "W h +": "a value is missing",
    "W h ~ 2": "an operator is missing",
    "f(h)": "f.* is no weight and no function that is known: tanh, exp",
    "b(h, h)": "b.* is no function",
    "|h": r"\| is missing",
    "h 2": r"the number stands behind a factor; write \* before it",
    "h^-1": "an exponent of several signs stands in brackets",
    "|h |b| h|": r"not certain which \| opens and which closes",
    "W + h": r"a sum of sizes \(2, 2\) and \(2,\)",  # NumPy adds h to each row
    "b * W": "a product of sizes",
    "tanh(h, b)": "a function of one argument, and has 2",  # NumPy writes tanh(h) into b
    "h / (1 - 1)": "a division by 0",
    "1e400 h": "beyond what a float holds",
    f"{'(' * 50}h{')' * 50}": "more than 40 brackets",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_right_side_is_refused_with_its_reason(text):
    with pytest.raises(ValueError, match=REFUSED[text]):
        Equations(f"y = {text}", KNOWN)["y"]


@pytest.mark.parametrize("line", ["y", "y=h", " = h", "2 = h", "y,u = h, b", "tanh( = h"])
def test_a_line_without_names_and_an_equality_is_no_equation(line):
    with pytest.raises(ValueError, match="is no equation: write name = expression"):
        Equations(line, KNOWN)


@pytest.mark.parametrize("text", ["y = h\ny = b", "y = W h\nW = h"])  # the line would be passed over
def test_a_name_that_stands_for_something_already_is_refused(text):
    with pytest.raises(ValueError, match="is given twice, or is a weight"):
        Equations(text, KNOWN)


def test_names_without_a_right_side_are_refused():
    with pytest.raises(ValueError, match="2 right sides for 3 names"):
        Equations("y, z, u = h, b", KNOWN)["y"]
    with pytest.raises(ValueError, match=r"a size of \(2,\), for 3 names"):
        Equations("y, z, u = h", KNOWN)["y"]
    with pytest.raises(ValueError, match="y is given twice"):
        Equations("y, y = [h, b]", KNOWN)
