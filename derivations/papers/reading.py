r"""Makes SymPy's expressions of formulas in LaTeX, left as they are written: h/h is not 1 here."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from lark import Tree
from sympy import (  # fmt: skip
    Abs,
    Add,
    Derivative,
    Dummy,
    E,
    Expr,
    Function,
    Integer,
    Integral,
    Limit,
    Mul,
    NumberSymbol,
    Pow,
    Rational,
    Subs,
    Sum,
    Symbol,
    atan,
    cosh,
    erf,
    exp,
    log,
    oo,
    pi,
    sinh,
    sqrt,
    tan,
)
from sympy.core.function import AppliedUndef

from derivations.grammar import Node, Values, Word
from derivations.papers.letters import Letter, logit
from derivations.papers.meaning import differentiated, name_of_value
from derivations.papers.tokens import Token, Unread
from derivations.twins.written import ELEMENTWISE

__all__ = ["CONSTANTS", "FUNCTIONS", "Order", "FormulaReader"]

FUNCTIONS: dict[str, Callable[[Expr], Expr]] = {
    **{name: ELEMENTWISE[name] for name in ("tanh", "exp", "log", "sin", "cos")},
    **{"ln": log, "tan": tan, "sinh": sinh, "cosh": cosh, "arctan": atan, "erf": erf, "diag": lambda e: e},
}
LARGEST = 1000  # of an exponent, and of a number of digits
LONGEST_NUMBER = 30
CONSTANTS = {"e": E, "pi": pi}
Order = Function("O")


class FormulaReader(Values):
    """Makes an expression of each rule; `bound` are the letters of integrals, sums and limits, by name."""

    def __init__(self, letters: Mapping[str, Letter], functions: Mapping[str, Any], defined: Container[str]) -> None:
        self.letters, self.functions, self.defined = letters, functions, defined
        self.bound: dict[str, Symbol] = {}
        self.objection = self.sizes = ""

    def fail(self, place: Word | Node, reason: str, add: str = "") -> NoReturn:
        place = getattr(place, "meta", place)
        raise Unread(Token("", "", getattr(place, "line", 1), getattr(place, "column", 1)), reason, add=add)

    def infinity(self, _: Node) -> Expr:
        return oo

    def minus_infinity(self, _: Node) -> Expr:
        return -oo

    def added(self, terms: Sequence[Expr]) -> Expr:
        return Add(*terms)

    def negative(self, value: Expr) -> Expr:
        return -oo if value == oo else _times(Integer(-1), value)

    def term(self, tree: Node) -> Expr:
        return self._product([part for part in tree.children if part is not None])

    def over(self, tree: Node) -> Expr:
        *above, sign, below = tree.children
        return self._over(self._product(above), self.visit(below), sign)

    def _product(self, parts: Sequence[Any]) -> Expr:
        factors, sign = list[Expr](), ""
        for k, part in enumerate(parts):
            if isinstance(part, Word):
                sign = str(part)
                self.sizes = self.sizes or ("one unit" if sign in (r"\odot", r"\circ") else "")
                continue
            if part.data in ("round", "square") and k and not isinstance(parts[k - 1], Word):
                self._check_no_argument(parts[k - 1], part)
            factors.append(self.visit(part))
            if sign == r"\circ" and any(isinstance(f, AppliedUndef) for f in factors[-2:]):
                self.fail(part, r"is \circ a product, or one function of the other? write \odot or brackets")
            sign = ""
        if len(factors) > 1 and any(factor == 0 for factor in factors):
            self.fail(parts[0], "a factor 0 would hide where the others are undefined; leave the product out")
        return _times(*factors)

    def _check_no_argument(self, before: Node, bracket: Node) -> None:
        """Refuse a bracket that may be an argument: h^2(t), and a(t) where a is a letter and t one that functions are of."""
        inside = list(_words_of(bracket))
        if len(inside) == 1 and inside[0].isdigit() and bracket.data == "round":
            self.fail(bracket, "is this number a factor, or that of the equation? write \\cdot, or \\tag")
        base = before.children[0] if before.data == "raised" else before
        if before.data == "raised" and isinstance(base, Tree) and base.data in ("value", "primed") and base.children[1] is None:
            self.fail(before, "is this a value at another place, or a product? write the argument before the exponent, or \\cdot")
        times = {name for letter in self.letters.values() for name in letter.arguments}
        if before.data == "letter" and len(inside) == 1 and inside[0].type == "LETTER" and str(inside[0]) in times:
            name = before.children[0]
            self.fail(before, f"is this {name} at {inside[0]}, or a product? declare a function, or write \\cdot")

    def number(self, tree: Node) -> Expr:
        (word,) = tree.children
        if len(word) > LONGEST_NUMBER:
            self.fail(tree, f"a number of more than {LONGEST_NUMBER} digits is not read")
        return Rational(str(word))

    def raised(self, tree: Node) -> Expr:
        base, sign, above = tree.children
        value, exponent = self.visit(base), self.visit(above)
        if value != E and above.data == "braced" and _is_bracket(above.children[0]):
            self.fail(sign, "an index in brackets is no power; write an index below, and a power without brackets")
        return self._power(value, exponent, sign)

    def digit(self, tree: Node) -> Expr:
        (word,) = tree.children
        if len(word) > 1:
            self.fail(word, "braces are missing: LaTeX takes the first digit only")
        return Rational(str(word))

    def between(self, tree: Node) -> Expr:
        return Abs(self.visit(tree.children[0]))

    def one(self, _: Node) -> Expr:
        self.sizes = "one unit"
        return Integer(1)

    def transposed(self, tree: Node) -> Expr:
        self.sizes = "one unit"
        return self.visit(tree.children[0])

    def order_of(self, tree: Node) -> Expr:
        return Order(self.visit(tree.children[0]))

    def call(self, tree: Node) -> Expr:
        """Read a function of what follows."""
        word, _, above, of = tree.children
        name = str(word)
        function = self.functions[name] if name in self.functions else FUNCTIONS[name]
        power = self.visit(above) if above is not None else None
        self.sizes = "one unit" if name == "diag" and name not in self.functions else self.sizes
        if power == -1 and function is ELEMENTWISE["sigma"]:
            function, power = logit, None
        if power is not None and not (power.is_Integer and power > 1):
            self.fail(word, f"an exponent of {name} is a whole number above 1; an inverse function has its own name")
        value = self.visit(of)
        if function in (exp, sinh, cosh):
            self._check_size(value, word)
        value = function(value)
        return value if power is None else Pow(value, power)

    def root(self, tree: Node) -> Expr:
        return sqrt(self.visit(tree.children[0]))

    def fraction(self, tree: Node) -> Expr:
        above, below = tree.children
        return self._over(self.visit(above), self.visit(below), tree)

    def letter(self, tree: Node) -> Expr:
        (word,) = tree.children
        name = str(word)
        if inside := [k for k in self.bound if k in name.partition("_")[2]]:
            self.fail(
                word, f"{name} at the bound {inside[0]} is no letter; declare a function of {inside[0]}, and write its argument"
            )
        if name in self.bound:
            return self.bound[name]
        if name in self.letters:
            return self.letters[name].symbol
        if name not in CONSTANTS:
            self.fail(word, f"{name} is not declared: say in the front matter what it is", f"{name}: real")
        return CONSTANTS[name]

    def value(self, tree: Node) -> Expr:
        word, *rest = tree.children
        if str(word) in self.bound:
            return self.bound[str(word)]
        return self._value(self.letters[str(word)], word, [part for part in rest if isinstance(part, Tree)])

    def primed(self, tree: Node) -> Expr:
        word, *rest = tree.children
        bare = str(word).rstrip("'")
        return self._value(self.letters[bare], word, [p for p in rest if isinstance(p, Tree)], len(word) - len(bare))

    def _value(self, letter: Letter, word: Any, written: Sequence[Node], order: int = 0) -> Expr:
        """Read the value of a function, at its own argument if none is written, or that of its derivative."""
        if not written and letter.in_full and not all(name in self.letters for name in letter.arguments):
            self.fail(word, f"{letter.name} is always written with its argument")
        arguments = [self.bound.get(name) or self._implied(name) for name in letter.arguments if not written]
        if written:
            arguments = [self.visit(argument) for argument in written]
            if len(arguments) != len(letter.arguments):
                self.fail(word, f"{letter.name} is a function of {' and '.join(letter.arguments)}")
            if (
                len(arguments) == 1
                and not letter.in_full
                and not self._is_argument(arguments[0], written[0], letter.arguments[0])
            ):
                self.fail(word, f"is this {letter.name} at another place, or a product? for a product write \\cdot")
        function = letter.symbol
        if not order:
            return function(*arguments)
        place = Dummy(letter.arguments[0], real=True)
        there = Derivative(function(place), (place, order))
        at = arguments[0]
        return Derivative(function(at), (at, order)) if isinstance(at, Symbol) else Subs(there, place, at)

    def _implied(self, name: str) -> Expr:
        letter = self.letters[name]
        return letter.symbol(*map(self._implied, letter.arguments)) if letter.arguments else letter.symbol

    def _is_argument(self, e: Expr, written: Node, name: str) -> bool:
        """Return whether a bracket behind a function can only be its argument: a number, or what the function is one of."""
        if self.letters[name].arguments or e.is_Number or isinstance(e, Symbol):
            return True
        if any(tree.data in ("value", "primed") and tree.children[-1] is None for tree in written.iter_subtrees()):
            return False
        letters = {str(word) for word in _words_of(written) if word.type == "LETTER"}
        return any(u in self.bound or u == name or u.startswith(f"{name}_") for u in letters)

    def quotient(self, tree: Node) -> Expr:
        """Read dh/dt, and dh/dt (t)."""
        sign, order, target, by, place = tree.children
        value, variables = self.visit(target), self.visit(by)
        if place is not None and (len(variables) > 1 or self.visit(place) != variables[0][0]):
            self.fail(place, "is this the derivative at a place, or a product? write h'(0), or \\cdot")
        return self._derivative(value, variables, order, sign)

    def slope_of(self, tree: Node) -> Expr:
        """Read d/dt of what follows."""
        sign, order, by, target = tree.children
        variables = self.visit(by)
        return self._derivative(self.visit(target), variables, order, sign)

    def by(self, tree: Node) -> list[tuple[Expr, int]]:
        parts = tree.children
        return [
            (self.visit(v), 1 if order is None else self.visit(order)) for v, order in zip(parts[1::3], parts[2::3], strict=True)
        ]

    def order(self, tree: Node) -> int:
        order = self.visit(tree.children[1])
        return int(order) if order.is_Integer and 0 < order < 10 else self.fail(tree, "an order is a whole number")

    def _derivative(self, target: Expr, variables: Sequence[tuple[Expr, int]], order: Node | None, sign: Word) -> Expr:
        if isinstance(target, NumberSymbol):
            self.fail(sign, f"{str(target).lower()} is a number here; declare it to be a letter, or a function")
        if sum(n for _, n in variables) != (1 if order is None else self.visit(order)):
            self.fail(sign, "the orders above and below the line differ")
        self._check_derivative(target, [v for v, _ in variables], sign)
        return differentiated(target, *variables)

    def _check_derivative(self, target: Expr, variables: Sequence[Expr], sign: Word) -> None:
        """Object to a total derivative of what depends on several letters, and a partial one of what holds functions."""
        reason = ""
        for v in variables:
            values = [f for f in target.atoms(AppliedUndef) if v in f.args]
            named = {u for u in target.atoms(Symbol, AppliedUndef) if u.free_symbols != {v} or isinstance(u, Symbol)}
            if sign.type == "PARTIAL" and not isinstance(v, Symbol):
                if not (isinstance(target, AppliedUndef) and v in target.args):
                    reason = f"\\partial by {v}, a value, is read of a function that is declared as one of it"
            elif sign.type == "PARTIAL" and any(
                name_of_value(u) in self.defined for u in named if not v.has(u) and v not in u.args
            ):
                reason = "\\partial of what is defined elsewhere: write it out"
            elif sign.type == "DIFF" and (not isinstance(v, Symbol) or any(len(f.args) > 1 for f in values)):
                reason = "d or \\partial? what depends on several letters has partial derivatives"
            elif sign.type == "PARTIAL" and values and not isinstance(target, AppliedUndef):
                reason = f"\\partial by {v} of what holds functions of {v}: d is meant, or letters in their place"
        if reason and not self.objection:
            self.objection = f"line {sign.line}, column {sign.column}: {reason}"

    def integral(self, tree: Node) -> Expr:
        low, _, high, body, _, word = tree.children
        limits = self.visit(low), self.visit(high)
        letter = self._bind(word, real=True)
        return Integral(self._within(body, word, letter), (letter, *limits))

    def _bind(self, word: Any, **assumptions: bool) -> Symbol:
        if str(word) in self.bound:
            self.fail(word, f"{word} is bound twice")
        return Dummy(str(word), **assumptions)

    def series(self, tree: Node) -> Expr:
        word, sign, low, _, high, body = tree.children
        if sign != "=":
            self.fail(sign, "a sum begins with a letter that is a number, \\sum_{k=1}^{n}")
        letter = self._bind(word, integer=True)
        return Sum(self._within(body, word, letter), (letter, self.visit(low), self.visit(high)))

    def limit(self, tree: Node) -> Expr:
        word, point, body = tree.children
        declared = self.letters.get(str(word))
        at, side = self.visit(point)
        letter = self._bind(word, **(declared.assumptions if declared else {"real": True}))
        low, high = declared.ends[1:3] if declared and declared.ends else (-oo, oo)
        default = "+" if at in (oo, -oo, low) else "-" if at == high else "+-"  # from within what is declared
        return Limit(self._within(body, word, letter), letter, at, side or default)

    def point(self, tree: Node) -> tuple[Expr, str]:
        parts = [part for part in tree.children if part is not None]
        minus = isinstance(parts[0], Word) and parts[0].type == "MINUS"
        what = parts[minus]
        value = oo if isinstance(what, Word) else self.visit(what)
        side = {"PLUS": "+", "MINUS": "-"}[parts[-1].type] if len(parts) > minus + 1 else ""
        return (self.negative(value) if minus else value), side

    def _within(self, body: Node, word: Any, letter: Symbol) -> Expr:
        outer, self.bound = self.bound, {**self.bound, str(word): letter}
        value = self.visit(body)
        self.bound = outer
        return value

    def _over(self, above: Expr, below: Expr, sign: Any) -> Expr:
        if below == 0:
            self.fail(sign, "a division by 0")
        if isinstance(below, Rational):
            return _times(Rational(below.q, below.p), above) if above != 1 else Rational(below.q, below.p)
        return Pow(below, Integer(-1)) if above == 1 else _times(above, Pow(below, Integer(-1)))

    def _power(self, base: Expr, exponent: Expr, sign: Any) -> Expr:
        if exponent == 0:
            self.fail(sign, "the exponent 0 would hide where the base is undefined; write 1")
        self._check_size(exponent, sign)
        if base == E:
            return exp(exponent)
        if not base.free_symbols and not exponent.free_symbols and base != 0:
            self._check_size(_times(log(Abs(base)), exponent), sign)
        return Pow(base, exponent)

    def _check_size(self, e: Expr, place: Any) -> None:
        """Refuse numbers that nobody could compute with."""
        if e.free_symbols or e.has(AppliedUndef, Integral, Sum, Limit, Derivative):
            return
        try:
            size = abs(_number(e))
        except OverflowError:
            size = math.inf
        except (ValueError, ZeroDivisionError):  # no number at all
            return
        if not size <= LARGEST:
            self.fail(place, f"an exponent beyond {LARGEST} is not read")


def _is_bracket(tree: Any) -> bool:
    """Return whether a sum is one bracket."""
    while (
        isinstance(tree, Tree) and tree.data in ("sum", "term") and len(parts := [p for p in tree.children if p is not None]) == 1
    ):
        (tree,) = parts
    return isinstance(tree, Tree) and tree.data in ("round", "square")


def _words_of(tree: Node) -> Iterator[Word]:
    return tree.scan_values(lambda part: part is not None)


def _number(e: Expr) -> complex:
    """Compute a number roughly."""
    parts = [_number(part) for part in e.args]
    if not parts:
        return complex(e)
    if e.is_Add or e.is_Mul:
        return sum(parts) if e.is_Add else math.prod(parts)
    if e.is_Pow:
        return parts[0] ** parts[1]
    return getattr(cmath, type(e).__name__, abs)(parts[0])


def _times(*factors: Expr) -> Expr:
    """Build a product, numbers first multiplied into one."""
    flat = [part for factor in factors for part in (factor.args if isinstance(factor, Mul) else (factor,))]
    if len(flat) > 1 and all(isinstance(part, Rational) for part in flat[:2]):
        p, q = flat[0].p * flat[1].p, flat[0].q * flat[1].q
        return _times(*([Rational(p, q)] if p != q or len(flat) == 2 else []), *flat[2:])
    return Mul(*flat, evaluate=False) if len(flat) > 1 else flat[0]
