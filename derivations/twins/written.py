r"""Reads equations from text into SymPy: the `formula` of a field, a published recurrence, or a step map.

    sum      = term (("+" | "-") term)*          term    = factor (("*" | "/") factor)*       elementwise
    factor   = power power*                      a product: matrix with column, number with anything, else elementwise
    power    = "-" power | atom ("^" atom)?      h^3, |h|^r, W^T
    atom     = number | name | name "(" sum, ... ")" | "(" sum ")" | "|" sum "|" | "[" sum, ... "]"     [y, z] is one column

A line gives one or several names, "i, f = ...", by a column that is cut into equal parts, or by as many right sides. Lines may be
in any order, and may use one another. Values are arrays of SymPy's expressions: (), (units,) or (rows, columns).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
from sympy import Abs, Expr, Integer, Max, Rational, S, cos, exp, log, sin, sqrt, tanh

__all__ = ["ELEMENTWISE", "Array", "Equations", "columns"]

Array: TypeAlias = npt.NDArray[np.object_]
Operand: TypeAlias = Array | Expr
TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(?P<name>d[A-Za-z]\w*(?:\^\w+)?/dt|[A-Za-z]\w*(?:\^[A-Za-z]\w*)?'*)(?P<call>\()?"
    r"|(?P<sign>[-+*/^()|\[\],]))"
)


def _sigma(a: Expr) -> Expr:
    return 1 / (1 + exp(-a))


ELEMENTWISE: dict[str, Callable[[Expr], Expr]] = {
    "tanh": tanh,
    "exp": exp,
    "log": log,
    "sqrt": sqrt,
    "sin": sin,
    "cos": cos,
    "abs": Abs,
    "sigma": _sigma,
    "softplus": lambda a: log(1 + exp(a)),
    "relu": lambda a: Max(S.Zero, a),
}


def _layer_norm(a: Array, eps: Expr = Rational(*(1e-5).as_integer_ratio())) -> Array:  # noqa: B008 - a number
    centred = a - sum(a) / len(a)
    return centred / sqrt(sum(centred**2) / len(a) + eps)


def columns(values: Iterable[Operand]) -> Array:
    """Return the values as a column of expressions."""
    return np.array([*values], dtype=object)


class Equations:
    r"""Evaluates lines of text, each of which defines names, for given values of their letters.

    Args:    text: the lines; known: arrays by letter; functions: further ones, by name, of arrays.
    Raises:  ValueError for text that is not of this grammar, for a name that nothing gives, and for sizes that do not fit.
    """

    def __init__(
        self, text: str, known: Mapping[str, Operand], functions: Mapping[str, Callable[..., Operand]] | None = None
    ) -> None:
        self._known, self._open = dict(known), set[tuple[str, ...]]()
        self._functions = {"norm": _layer_norm, **(functions or {})}
        self._lines: dict[tuple[str, ...], str] = {}
        self.names = list[str]()
        for line in text.splitlines():
            left, sign, right = line.partition(" = ")
            if not sign:
                raise ValueError(f"{line!r} is no equation: write name = expression.")
            names = left.split(", ")
            if twice := [name for name in names if name in self._known or name in self.names]:
                raise ValueError(
                    f"{twice[0]} is given twice, or is a weight, a state or an input too; call one of them otherwise."
                )
            self._lines[tuple(names)] = right
            self.names += names

    def __getitem__(self, name: str) -> Operand:
        if name in self._known:
            return self._known[name]
        for names, right in self._lines.items():
            if name in names:
                if names in self._open:
                    raise ValueError(f"{name} is given by itself: {', '.join(names)} = {right}.")
                self._open.add(names)
                self._known.update(zip(names, self._values(names, right), strict=True))
                return self._known[name]
        raise ValueError(
            f"the equations do not say what {name} is: it is no weight, no state and no input, and no line gives it."
        )

    def _values(self, names: tuple[str, ...], right: str) -> list[Operand]:
        values = _Reader(right, self).all()
        if len(values) == len(names):
            return values
        if len(values) != 1:
            raise ValueError(f"{', '.join(names)} = {right} has {len(values)} right sides for {len(names)} names.")
        return np.split(values[0], len(names))

    def call(self, name: str, arguments: list[Operand]) -> Operand:
        """Call a function, or contract a weight: W(x, a)_j = sum of W_kji x_k a_i, b(x)_j = sum of b_kj x_k."""
        if name in self._functions:
            return self._functions[name](*arguments)
        if name in ELEMENTWISE:
            function = np.frompyfunc(ELEMENTWISE[name], 1, 1)
            return function(*arguments)
        if name not in self._known and name not in self.names:
            raise ValueError(f"{name}(...) is no weight and no function that is known: {', '.join(ELEMENTWISE)}, norm.")
        weight = self[name]
        if np.ndim(weight) != len(arguments) + 1:
            raise ValueError(f"{name}(...) is no function that this grammar has, which are {', '.join(ELEMENTWISE)}.")
        if len(arguments) > 1:
            weight = weight @ arguments[-1]
        return arguments[0] @ weight


class _Reader:
    """Reads one right side, from left to right."""

    def __init__(self, text: str, equations: Equations) -> None:
        self.text, self.place, self.equations = text, 0, equations
        self.bars = 0

    def all(self) -> list[Operand]:
        values = self.list()
        if self.text[self.place :].strip():
            self.fail("an operator is missing")
        return values

    def list(self) -> list[Operand]:
        values = [self.sum()]
        while self.takes(","):
            values.append(self.sum())
        return values

    def sum(self) -> Operand:
        value = self.term()
        while sign := self.takes("+", "-"):
            following = self.term()
            value = value + following if sign == "+" else value - following
        return value

    def term(self) -> Operand:
        value = self.factor()
        while sign := self.takes("*", "/"):
            following = self.power()
            if sign == "/" and self.begins_atom():
                self.fail("several factors follow the /; write brackets about them, or * before this one")
            value = value / following if sign == "/" else value * self.product(following)
        return value

    def factor(self) -> Operand:
        return self.product(self.power())

    def product(self, first: Operand) -> Operand:
        factors = [first]
        while self.begins_atom():
            factors.append(self.power())
        return reduce(lambda right, left: _applied(left, right), factors[::-1])

    def power(self) -> Operand:
        if self.takes("-"):
            return -self.power()
        value = self.atom()
        return value ** self.atom() if self.takes("^") else value

    def atom(self) -> Operand:
        token = TOKEN.match(self.text, self.place)
        if token is None:
            self.fail("a value is missing")
        self.place = token.end()
        if token["number"]:
            return _number(token["number"])
        if token["call"]:
            arguments = self.list()
            self.expect(")")
            return self.equations.call(token["name"], arguments)
        if token["name"]:
            return self.named(token["name"])
        self.place = token.start()
        return self.bracket()

    def bracket(self) -> Operand:
        if self.takes("("):
            return self.closed(self.sum(), ")")
        if self.takes("["):
            return self.closed(np.concatenate([np.atleast_1d(part) for part in self.list()]), "]")
        if self.takes("|"):
            self.bars += 1
            value = np.frompyfunc(Abs, 1, 1)(self.sum())
            self.bars -= 1
            return self.closed(value, "|")
        self.fail("a value is missing")

    def named(self, name: str) -> Operand:
        matrix, power, above = name.partition("^")
        return self.equations[matrix].T if power and above == "T" else self.equations[name]

    def closed(self, value: Operand, sign: str) -> Operand:
        self.expect(sign)
        return value

    def begins_atom(self) -> bool:
        token = TOKEN.match(self.text, self.place)
        return bool(
            token
            and (token["number"] or token["name"] or token["sign"] in ("(", "[") or (token["sign"] == "|" and not self.bars))
        )

    def takes(self, *signs: str) -> str:
        token = TOKEN.match(self.text, self.place)
        if token is None or token["sign"] not in signs:
            return ""
        self.place = token.end()
        return str(token["sign"])

    def expect(self, sign: str) -> None:
        if not self.takes(sign):
            self.fail(f"{sign} is missing")

    def fail(self, reason: str) -> NoReturn:
        raise ValueError(f"in {self.text!r}, before {self.text[self.place :].strip()!r}: {reason}.")


def _applied(left: Operand, right: Operand) -> Operand:
    try:
        return left @ right if np.ndim(left) == 2 and np.ndim(right) >= 1 else left * right
    except ValueError:
        raise ValueError(f"a product of sizes {np.shape(left)} and {np.shape(right)}, which do not fit.") from None


def _number(text: str) -> Expr:
    """Return a whole number, or the rational number that a float is: a formula writes the numbers of its module."""
    return Integer(text) if text.isdigit() else Rational(*float(text).as_integer_ratio())
