r"""The letters of the equations, with what is assumed of them.

    t, dt real           time, and a step of it              s >= 0        time elapsed since t0
    alpha, beta > 0      clock speeds (eq. 1)                r > 0         exponent of a decay
    h_i(t), x_j(t)       state and input, real               c(t), d(t)    clocks: real, differentiable, increasing
    g(t), g_i(t)         learned clock speeds, real          W, b          weights and biases, real

SymPy has no word for "increasing": no identity here needs more of a clock than a derivative, and counterexamples
give clocks positive speeds only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sympy import Add, Derivative, Dummy, Expr, Function, ImmutableDenseMatrix, Mul, Symbol
from sympy.core.function import UndefinedFunction

__all__ = [
    "alpha",
    "beta",
    "biases",
    "c",
    "clocks",
    "d",
    "dt",
    "entry",
    "flow",
    "g",
    "h0",
    "inputs",
    "is_odd",
    "latex_name",
    "latex_text",
    "positive",
    "positive_h0",
    "product_of",
    "r",
    "s",
    "signal",
    "signals",
    "stand_in",
    "state",
    "t",
    "together",
    "weights",
]

SPELT = {"\\": r"\backslash{}", "^": r"\hat{}", "~": r"\sim{}"}

t = Symbol("t", real=True)
dt = Symbol("dt", real=True)
s = Symbol("s", nonnegative=True)
alpha, beta = Symbol("alpha", positive=True), Symbol("beta", positive=True)
r = Symbol("r", positive=True)
h0, positive_h0 = Symbol("h_0", real=True), Symbol("h_0", positive=True)


def signal(name: str) -> UndefinedFunction:
    """A real function of time."""
    return Function(name, real=True)


c, d, g = signal("c"), signal("d"), signal("g")
# A vector field with nothing said about it but that it is real.
flow = signal("F")


def signals(letter: str, n: int) -> tuple[Expr, ...]:
    """letter_1(t), ..., letter_n(t)."""
    return tuple(signal(f"{letter}_{i}")(t) for i in range(1, n + 1))


def state(n: int) -> tuple[Expr, ...]:
    return signals("h", n)


def inputs(m: int) -> tuple[Expr, ...]:
    return signals("x", m)


def weights(name: str, rows: int, columns: int) -> ImmutableDenseMatrix:
    """A matrix of real letters: `W_xi` has the entries W_{xi,11}, W_{xi,12}, ..."""
    letter, _, index = name.partition("_")
    return ImmutableDenseMatrix(rows, columns, lambda i, j: Symbol(f"{letter}_{{{index},{i + 1}{j + 1}}}", real=True))


def biases(name: str, rows: int) -> ImmutableDenseMatrix:
    """A column of real letters: `b_i` has the entries b_{i,1}, b_{i,2}, ..., and `b` has b_{1}, b_{2}, ..."""
    letter, _, index = name.partition("_")
    return ImmutableDenseMatrix(rows, 1, lambda i, _: Symbol(f"{letter}_{{{index + ',' if index else ''}{i + 1}}}", real=True))


def entry(name: str, index: tuple[int, ...]) -> Symbol:
    """The entry of a torch parameter, numbered from 0 as torch does: `candidate.weight_h[0,1]`."""
    return Symbol(name + (f"[{','.join(map(str, index))}]" if index else ""), real=True)


def latex_name(symbol: Symbol) -> str | None:
    r"""\mathtt{candidate.weight\_h}_{0,1} for an entry of a torch parameter; None for a letter LaTeX already knows."""
    name, _, index = symbol.name.rstrip("]").partition("[")
    if not index and not re.search(r"\.|^[a-z]+_[a-z]{2,}", name) and not is_odd(name):
        return None
    return rf"\mathtt{{{latex_text(name)}}}" + (f"_{{{index}}}" if index else "")


def is_odd(name: str) -> bool:
    """Return whether a name has signs that LaTeX or HTML would take for commands."""
    return bool(re.search(r'[<>&$#%"\\]', name)) or name.count("{") != name.count("}")


def latex_text(text: str) -> str:
    """Escape the signs that LaTeX would take for commands."""
    return "".join(SPELT.get(sign, rf"\{sign}" if sign in "#$%&_{}" else sign) for sign in text)


def positive(symbol: Symbol) -> Dummy:
    """Make a positive letter of the same name: one case of a case split."""
    return Dummy(symbol.name, positive=True)


def stand_in(leaf: Expr) -> Dummy:
    """Make a letter in place of h(t), c'(t), ... with what SymPy knows of its sign; a real function's derivative is real."""
    if isinstance(leaf, Derivative):
        return Dummy("slope", real=True) if leaf.expr.is_extended_real else Dummy("slope")
    known = {fact: True for fact in ("real", "positive", "nonnegative") if getattr(leaf, f"is_{fact}")}
    return Dummy("value", **known)


def together(*parts: Expr | int) -> Expr:
    """8 + 1 + 1, not added up: that is left to the checker."""
    return Add(*parts, evaluate=False)


def product_of(*factors: Expr | int) -> Expr:
    """28 * 28, not multiplied."""
    return Mul(*factors, evaluate=False)


def clocks(n: int) -> Iterator[UndefinedFunction]:
    """c_1, ..., c_n: a clock for each of n units."""
    return (signal(f"c_{i}") for i in range(1, n + 1))
