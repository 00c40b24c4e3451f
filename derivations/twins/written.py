r"""Reads equations from text into SymPy, by the rules of derivations/grammar.lark: a field's `formula`, a step's `equation`.

    W h + 2 h    g * W h    dt/2 * F(h)    beside one another: a matrix with a column, or a number with anything; * is elementwise
    h^3    |h|^(r - 1)    W^T    tanh(h)    T(x, h)    [y, z]    a function; a weight of two columns; one column of several

A line gives one or several names, "i, f = ...", by a column that is cut into equal parts, or by as many right sides. Lines may be
in any order, and may use one another. Values are arrays of SymPy's expressions: (), (units,) or (rows, columns).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from math import inf
from operator import add, matmul, mul, truediv
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sympy import Abs, Expr, Integer, Max, Rational, S, cos, exp, log, sin, sqrt, tanh

from derivations.grammar import Misplaced, Node, Values, Word, parse

__all__ = ["ELEMENTWISE", "Array", "Equations", "columns"]

Array: TypeAlias = npt.NDArray[np.object_]
Operand: TypeAlias = Array | Expr
NAME = r"d[A-Za-z]\w*(?:\^\w+)?/dt|[A-Za-z]\w*(?:\^[A-Za-z]\w*)?'*"
TOKEN = re.compile(rf"(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(?P<name>{NAME})(?P<call>\()?|(?P<sign>\S)", re.ASCII)
OPERATORS = {"+": "PLUS", "-": "MINUS", "*": "TIMES", "/": "DIVIDE"}
SIGNS = {**OPERATORS, "^": "CARET", ",": "_COMMA", "(": "_LPAR", ")": "_RPAR", "[": "_LCOL", "]": "_RCOL", "|": "_LBAR"}
END = ("NUMBER", "LETTER", "_TOP", "_RPAR", "_RCOL", "_RBAR")


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


class Equations(Values):
    r"""Evaluates lines of text, each of which defines names, for given values of their letters.

    Args:    text: the lines; known: arrays by letter; functions: further ones, by name, of arrays; number: what a
             float stands for, if not for the rational number that it is.
    Raises:  ValueError for text that is not of this grammar, for a name that nothing gives, and for sizes that do not fit.
    """

    def __init__(
        self,
        text: str,
        known: Mapping[str, Operand],
        functions: Mapping[str, Callable[..., Operand]] | None = None,
        number: Callable[[float], Expr] = lambda a: Rational(*a.as_integer_ratio()),
    ) -> None:
        self._number = number
        self._known, self._open = dict(known), set[tuple[str, ...]]()
        self._functions = {"norm": _layer_norm, **(functions or {})}
        self._lines: dict[tuple[str, ...], str] = {}
        self.names = list[str]()
        for line in text.splitlines():
            left, sign, right = line.partition(" = ")
            names = left.split(", ")
            if not sign or not all(re.fullmatch(NAME, name, re.ASCII) for name in names):
                raise ValueError(f"{line!r} is no equation: write name = expression, or name, name = expression.")
            if twice := [name for k, name in enumerate(names) if name in self._known or name in (*self.names, *names[:k])]:
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
        values: list[Operand] = self.visit(_tree(right))
        if len(values) == len(names):
            return values
        if len(values) != 1:
            raise ValueError(f"{', '.join(names)} = {right} has {len(values)} right sides for {len(names)} names.")
        if np.ndim(values[0]) == 0 or len(values[0]) % len(names):
            raise ValueError(f"{', '.join(names)} = {right} has a size of {np.shape(values[0])}, for {len(names)} names.")
        return np.split(values[0], len(names))

    def right(self, tree: Node) -> list[Operand]:
        return [self.visit(part) for part in tree.children]

    def term(self, tree: Node) -> Operand:
        """Multiply what stands beside one another, from right to left, and the products elementwise, from left to right."""
        beside, signs = [list[Operand]()], list[str]()
        for part in tree.children:
            if isinstance(part, Word):
                signs.append(part.type)
                beside.append([])
            else:
                beside[-1].append(self.visit(part))
        value, *others = (reduce(lambda right, left: _beside(left, right), factors[::-1]) for factors in beside)
        for sign, other in zip(signs, others, strict=True):
            if sign == "DIVIDE" and np.any(other == 0):
                raise ValueError("a division by 0.")
            value = _fitting(truediv if sign == "DIVIDE" else mul, value, other)
        return value

    def added(self, terms: Sequence[Operand]) -> Operand:
        return reduce(lambda a, b: _fitting(add, a, b), terms)

    def negative(self, value: Operand) -> Operand:
        return -value

    def number(self, tree: Node) -> Expr:
        """Return a whole number, or the rational number that a float is: a formula writes the numbers of its module."""
        text = str(tree.children[0])
        if not text.isdigit() and (float(text) == inf or (float(text) == 0 and re.search("[1-9]", text.partition("e")[0]))):
            raise ValueError(f"{text} is beyond what a float holds.")
        return Integer(text) if text.isdigit() else self._number(float(text))

    digit = number

    def raised(self, tree: Node) -> Operand:
        base, _, exponent = tree.children
        return _fitting(pow, self.visit(base), self.visit(exponent))

    def between(self, tree: Node) -> Operand:
        return np.frompyfunc(Abs, 1, 1)(self.visit(tree.children[0]))

    def column(self, tree: Node) -> Array:
        return np.concatenate([np.atleast_1d(self.visit(part)) for part in tree.children])

    def transposed(self, tree: Node) -> Operand:
        return self.visit(tree.children[0]).T

    def letter(self, tree: Node) -> Operand:
        return self[str(tree.children[0])]

    def value(self, tree: Node) -> Operand:
        """Call a function, or contract a weight: W(x, a)_j = sum of W_kji x_k a_i, b(x)_j = sum of b_kj x_k."""
        name, arguments = str(tree.children[0]), [self.visit(part) for part in tree.children[1:]]
        if name in self._functions:
            return self._functions[name](*arguments)
        if name in ELEMENTWISE and len(arguments) == 1:
            return np.frompyfunc(ELEMENTWISE[name], 1, 1)(*arguments)
        if name in ELEMENTWISE:
            raise ValueError(f"{name}(...) is a function of one argument, and has {len(arguments)}.")
        if name not in self._known and name not in self.names:
            raise ValueError(f"{name}(...) is no weight and no function that is known: {', '.join(ELEMENTWISE)}, norm.")
        weight = self[name]
        if np.ndim(weight) != len(arguments) + 1:
            raise ValueError(f"{name}(...) is no function that this grammar has, which are {', '.join(ELEMENTWISE)}.")
        if len(arguments) > 1:
            weight = _fitting(matmul, weight, arguments[-1])
        return _fitting(matmul, arguments[0], weight)


def _beside(left: Operand, right: Operand) -> Operand:
    return _fitting(matmul if np.ndim(left) == 2 and np.ndim(right) >= 1 else mul, left, right)


def _fitting(operation: Callable[[Any, Any], Operand], left: Operand, right: Operand) -> Operand:
    try:
        scales = operation is mul and np.ndim(left) == 2  # W * a, whose columns a scales
        if operation is not matmul and {np.ndim(left), np.ndim(right)} == {1, 2} and not scales:
            raise ValueError  # NumPy would repeat the column in the rows of the matrix
        return operation(left, right)
    except ValueError:
        kind = {add: "sum", truediv: "quotient", pow: "power"}.get(operation, "product")
        raise ValueError(f"a {kind} of sizes {np.shape(left)} and {np.shape(right)}, which do not fit.") from None


def _tree(text: str) -> Node:
    try:
        return parse(_words(text), "right")
    except Misplaced as error:
        rest = "" if error.word is None else text[error.word.start_pos :]
        raise ValueError(f"in {text!r}, before {rest!r}: {str(error) or 'an operator is missing'}.") from None


def _words(text: str) -> list[Word]:
    """Make words of the grammar: a | closes one that is open if it stands behind a value."""
    words, bars = list[Word](), 0
    for token in TOKEN.finditer(text):
        name, place, before = token[0].removesuffix("("), token.start(), words[-1].type if words else ""
        kind = "NUMBER" if token["number"] else "VALUE" if token["call"] else "LETTER"
        if token["sign"]:
            kind = SIGNS.get(token[0], "OTHER")
            if kind == "MINUS" and before in (*OPERATORS.values(), "NEGATIVE"):
                kind = "NEGATIVE"
            elif kind == "_LPAR" and before == "CARET":
                kind = "_LRAISED"
            elif kind == "_LBAR" and bars and before in END:
                if re.match(r"\s\|[\w(\[|]", text[place - 1 :]):
                    raise ValueError(f"in {text!r}, it is not certain which | opens and which closes; write abs(...).")
                kind = "_RBAR"
            bars += (kind == "_LBAR") - (kind == "_RBAR")
            words.append(Word(kind, name, start_pos=place))
        elif name.endswith("^T") and kind == "LETTER":
            words += [Word(kind, name.removesuffix("^T"), start_pos=place), Word("_TOP", "^T", start_pos=place)]
        else:
            words += [Word(kind, name, start_pos=place), *([Word("_LPAR", "(", start_pos=place)] if token["call"] else [])]
    return words
