r"""Reads formulas in LaTeX as SymPy's expressions, left as they are written: h/h is not 1 here.

    chain    = sum (relation sum)*                              = := \le \ge < > \approx
    sum      = "-"? term (("+" | "-") term)*                    the last term may be O(x^n)
    term     = product ("/" factor)?                            a/b c, a/b/c are refused
    product  = factor ((\cdot | \times | *)? factor)*           a number stands first, or after a \cdot
    factor   = atom ("^" exponent)?
    atom     = number | letter | h(t) | ( sum ) | [ sum ] | |sum| | \frac{}{} | \sqrt{} | f factor | d/dt | \int | \sum | \lim

What can be taken for two things is refused, with the place, and not guessed.
"""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sympy import (
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
    Pow,
    Rational,
    Subs,
    Sum,
    Symbol,
    atan,
    cosh,
    erf,
    evaluate,
    exp,
    log,
    oo,
    pi,
    sinh,
    sqrt,
    tan,
)
from sympy.core.function import AppliedUndef

from derivations.papers.letters import Letter
from derivations.papers.names import ACCENTS, DEEPEST, GREEK, WORDS, Cursor
from derivations.papers.tokens import RELATIONS, Token, Unread
from derivations.twins.written import ELEMENTWISE

__all__ = ["COMMANDS", "Chain", "Order", "joined", "read_chain"]

FUNCTIONS: dict[str, Callable[[Expr], Expr]] = {
    **{rf"\{name}": ELEMENTWISE[name] for name in ("tanh", "exp", "log", "sin", "cos")},
    **{r"\ln": log, r"\tan": tan, r"\sinh": sinh, r"\cosh": cosh, r"\arctan": atan, r"\erf": erf},
}
BRACKETS = {"(": ")", "[": "]", r"\lvert": r"\rvert", "|": "|"}
TIMES = (r"\cdot", r"\times", "*")
DERIVATIVES = {r"\dot": 1, r"\ddot": 2}
FRACTIONS = (r"\frac", r"\dfrac", r"\tfrac")
OTHERS = (*FRACTIONS, r"\sqrt", r"\int", r"\sum", r"\lim", r"\to", r"\infty", r"\partial")
# Every command that is read, spaces and brackets apart.
COMMANDS = {
    *FUNCTIONS, *ACCENTS, *WORDS, *TIMES[:2], *DERIVATIVES, *OTHERS, *(rf"\{name}" for name in GREEK),
    *(command for command in RELATIONS if command.startswith("\\")),
}  # fmt: skip
LARGEST = 1000  # of an exponent, and of a number of digits
LONGEST_NUMBER = 30
CONSTANTS = {"e": E, "pi": pi}
Order = Function("O")


@dataclass(frozen=True)
class Chain:
    """Holds sides, the relations between them with places, the sides as printed, and the letter that the first one defines."""

    sides: tuple[Expr, ...]
    relations: tuple[Token, ...]
    texts: tuple[str, ...]
    defines: Letter | None

    @property
    def text(self) -> str:
        """Return the whole as printed."""
        return self.texts[0] + "".join(f" {sign} {text}" for sign, text in zip(self.relations, self.texts[1:], strict=True))


def read_chain(
    found: Sequence[Token], letters: Mapping[str, Letter], functions: Mapping[str, Any], defined: Container[str]
) -> Chain:
    r"""Read a formula.

    Args:    found: its tokens; letters, functions: what is declared, by name; defined: names of those that earlier lines
             define.
    Raises:  Unread, with the place and the reason.
    """
    reader = _Reader(found, letters, functions, defined)
    with evaluate(False):
        return reader.chain()


class _Reader(Cursor):
    """Reads one formula; `bound` are the letters of integrals, sums and limits, by name."""

    def __init__(
        self, found: Sequence[Token], letters: Mapping[str, Letter], functions: Mapping[str, Any], defined: Container[str]
    ) -> None:
        super().__init__(found, found[0])
        self.letters, self.functions, self.defined = dict(letters), functions, defined
        self.bound: dict[str, Symbol] = {}
        self.bars = 0
        self.closed: dict[int, int] = {}  # where a bracket opens -> where it closes

    def chain(self) -> Chain:
        letter = self.new_letter()
        sides, relations, begins = list[Expr](), list[Token](), [0]
        while True:
            sides.append(self.side())
            if self.next.text not in RELATIONS:
                break
            relations.append(self.take())
            begins.append(self.at)
        if self.next.kind != "end":
            side_by_side = self.next.text in (",", ";", "&", r"\quad", r"\qquad")
            self.fail(f"{self.next.text} is not read here" + "; write one formula a row" * side_by_side)
        ends = [*(begin - 1 for begin in begins[1:]), self.at]
        texts = tuple(joined(self.found[a:b]) for a, b in zip(begins, ends, strict=True))
        return Chain(tuple(sides), tuple(relations), texts, letter)

    def new_letter(self) -> Letter | None:
        """Return the letter that stands alone on the left side of = or :=, if it is not defined before."""
        try:
            name = self.name()
            argument = self.name() if self.takes("(") else ""
            if argument:
                self.expect(")")
        except Unread:
            argument, name = "", ""
        sign, self.at = self.next, 0
        if not name or RELATIONS.get(sign.text) not in ("=", ":=") or name in self.functions or self.is_primed(name):
            return None
        if name in self.defined:
            return None if sign.text == "=" else self.fail(f"{name} is defined before", sign)
        if name not in self.letters and (argument or name not in CONSTANTS):
            if argument and argument not in self.letters:
                self.fail(f"{argument} is not declared")
            self.letters[name] = Letter(name, arguments=(argument,) if argument else (), in_full=bool(argument))
        letter = self.letters.get(name)
        return letter if letter and (not argument or letter.arguments == (argument,)) else None

    def is_primed(self, name: str) -> bool:
        """Return whether a name with primes is that of the derivative of a function."""
        bare = name.rstrip("'")
        return bare != name not in self.letters and bare in self.letters and len(self.letters[bare].arguments) == 1

    def side(self) -> Expr:
        following = self.found[self.at + 1 : self.at + 2]
        if self.next.text == r"\infty" and (not following or following[0].text in RELATIONS):
            self.take()
            return oo
        return self.sum()

    def sum(self) -> Expr:
        terms = [_negative(self.term()) if self.takes("-") else self.term()]
        while sign := self.takes("+", "-"):
            terms.append(_negative(self.term()) if sign == "-" else self.term())
        return Add(*terms) if len(terms) > 1 else terms[0]

    def term(self) -> Expr:
        value = self.product()
        if self.next.text == "/":
            sign = self.take()
            below = self.factor()
            if self.begins_factor() or self.next.text in (*TIMES, "/"):
                self.fail("several factors follow the /; write brackets, or \\frac")
            value = self.over(value, below, sign)
        return value

    def product(self) -> Expr:
        factors = [self.factor()]
        while (sign := self.takes(*TIMES)) or self.begins_factor():
            if not sign and self.next.kind == "number":
                self.fail(f"the number {self.next.text} stands behind a factor; write \\cdot before it")
            if not sign and self.next.text == "|" and self.found[self.at - 1].text != "|":
                self.fail("it is not certain which | opens and which closes; write \\lvert and \\rvert")
            factors.append(self.factor())
        if len(factors) > 1 and any(factor == 0 for factor in factors):
            self.fail("a factor 0 would hide where the others are undefined; leave the product out")
        return _times(*factors)

    def begins_factor(self) -> bool:
        token = self.next
        if token.kind == "command":
            return token.text in COMMANDS - {*RELATIONS, *TIMES, r"\to", r"\partial", r"\infty"}
        letter_or_number = token.kind in ("letter", "number") and token.text != "d"
        return letter_or_number or token.text in ("(", "[", "{", r"\lvert") or (token.text == "|" and not self.bars)

    def factor(self) -> Expr:
        begin, value = self.next, self.atom()
        is_value = isinstance(value, AppliedUndef) and self.found[self.at - 1].text != ")"
        if self.next.text != "^":
            return value
        sign, start = self.take(), self.at
        exponent = self.exponent()
        if self.next.text in ("^", "'", "_"):
            self.fail("a second exponent, or an index after the exponent; write brackets")
        if value != E and self.closed.get(start + 1) == self.at - 2:
            self.fail("an index in brackets is no power; write an index below, and a power without brackets", sign)
        if is_value and self.next.text == "(":
            self.fail(f"is this {begin.text} at another place, or a product? write the argument before the exponent, or \\cdot")
        return self.power(value, exponent, sign)

    def exponent(self) -> Expr:
        token = self.next
        if token.text != "{" and token.kind not in ("number", "letter") and token.text[1:] not in GREEK:
            self.fail(f"the exponent {token.text} is not read; write braces around it")
        return self.group()

    def group(self) -> Expr:
        """Read what stands in braces, or the one sign that LaTeX takes without them."""
        if self.takes("{"):
            value = self.sum()
            self.expect("}")
            return value
        if self.next.kind == "number" and len(self.next.text) > 1:
            self.fail("braces are missing: LaTeX takes the first digit only")
        return self.number(self.take()) if self.next.kind == "number" else self.letter(index=False)

    def atom(self) -> Expr:
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(f"more than {DEEPEST} brackets within one another are not read")
        value = self.inner_atom()
        self.depth -= 1
        return value

    def inner_atom(self) -> Expr:
        token = self.next
        if token.kind == "number":
            return self.number(self.take())
        if token.text in BRACKETS:
            return self.bracket()
        if token.text == "{":  # not seen in print, so there must be nothing that they hold together
            self.take()
            value = self.factor()
            if self.next.text != "}":
                self.fail("braces do not show in print; write brackets", token)
            self.take()
            return value
        if token.text in FUNCTIONS:
            self.take()
            return self.call(token, FUNCTIONS[token.text])
        read = {r"\sqrt": self.root, r"\int": self.integral, r"\sum": self.series, r"\lim": self.limit,
                **dict.fromkeys(DERIVATIVES, self.dotted), **dict.fromkeys(FRACTIONS, self.fraction)}  # fmt: skip
        return read.get(token.text, self.letter)()

    def number(self, token: Token) -> Expr:
        if len(token.text) > LONGEST_NUMBER:
            self.fail(f"a number of more than {LONGEST_NUMBER} digits is not read", token)
        return Rational(token.text)

    def bracket(self) -> Expr:
        start, bars, opening = self.at, self.bars, self.take()
        self.bars = 1 if opening.text == "|" else 0
        value = self.sum()
        self.expect(BRACKETS[opening.text])
        self.bars, self.closed[start] = bars, self.at - 1
        return Abs(value) if opening.text in ("|", r"\lvert") else value

    def call(self, token: Token, function: Callable[[Expr], Expr]) -> Expr:
        """Read the argument of a function: in brackets, or one factor behind which none follows."""
        power = None
        if self.takes("^"):
            power = self.exponent()
            if not (power.is_Integer and power > 1):
                self.fail(f"an exponent of {token.text} is a whole number above 1; an inverse function has its own name", token)
        if self.next.text == "_":
            self.fail(f"{token.text} is read without an index; write the logarithm of another base as a quotient")
        if self.next.text in BRACKETS:
            argument = self.bracket()
        elif self.next.text == "{" or self.begins_factor():
            argument = self.group() if self.next.text == "{" else self.atom()
            if self.begins_factor() or self.next.text in (*TIMES, "/", "^"):
                self.fail(f"how far does the argument of {token.text} reach? write brackets", token)
        else:
            self.fail(f"the argument of {token.text} is missing")
        if function in (exp, sinh, cosh):
            self.check_size(argument, token)
        value = function(argument)
        return value if power is None else Pow(value, power)

    def root(self) -> Expr:
        self.take()
        if self.next.text == "[":
            self.fail("roots other than the square root are not read; write a power")
        return sqrt(self.group())

    def letter(self, *, index: bool = True) -> Expr:
        begin = self.next
        if begin.text == "d":
            self.fail("d is read in derivatives and integrals only")
        name = self.name() if index else self.base()
        if inside := [k for k in self.bound if k in name.partition("_")[2]]:
            self.fail(
                f"{name} at the bound {inside[0]} is no letter; declare a function of {inside[0]}, and write its argument", begin
            )
        bare = name.rstrip("'")
        if name in self.bound:
            return self.bound[name]
        if name in self.functions:
            return self.call(begin, self.functions[name])
        if name in self.letters:
            letter = self.letters[name]
            return self.value(letter, begin) if letter.arguments else letter.symbol
        if self.is_primed(name):
            return self.value(self.letters[bare], begin, len(name) - len(bare))
        if name == "O" and self.next.text == "(":
            return Order(self.bracket())
        if name not in CONSTANTS:
            self.fail(f"{name} is not declared: say in the front matter what it is, as in `{name}: real`", begin)
        return CONSTANTS[name]

    def value(self, letter: Letter, begin: Token, order: int = 0) -> Expr:
        """Read the value of a function, at its own argument if none is written, or that of its derivative."""
        arguments = [self.bound.get(name) or self.implied(name) for name in letter.arguments]
        if self.next.text == "(":
            self.take()
            arguments = [self.sum()]
            while self.takes(","):
                arguments.append(self.sum())
            self.expect(")")
            if len(arguments) != len(letter.arguments):
                self.fail(f"{letter.name} is a function of {' and '.join(letter.arguments)}", begin)
            if len(arguments) == 1 and not letter.in_full and not self.is_argument(arguments[0], letter.arguments[0]):
                self.fail(f"is this {letter.name} at another place, or a product? for a product write \\cdot", begin)
        function = letter.symbol
        if not order:
            return function(*arguments)
        place = Dummy(letter.arguments[0], real=True)
        there = Derivative(function(place), (place, order))
        at = arguments[0]
        return Derivative(function(at), (at, order)) if isinstance(at, Symbol) else Subs(there, place, at)

    def implied(self, name: str) -> Expr:
        letter = self.letters[name]
        return letter.symbol(*map(self.implied, letter.arguments)) if letter.arguments else letter.symbol

    def is_argument(self, e: Expr, name: str) -> bool:
        """Return whether a bracket behind a function can only be its argument: a number, or what the function is one of."""
        if self.letters[name].arguments or e.is_Number or isinstance(e, Symbol):
            return True
        return not e.has(AppliedUndef) and any(
            u in self.bound.values() or u.name == name or u.name.startswith(f"{name}_") for u in e.free_symbols
        )

    def dotted(self) -> Expr:
        token = self.take()
        braces = self.takes("{")
        name = self.name() if braces else self.base()
        if braces:
            self.expect("}")
        name += f"_{self.index()}" if self.takes("_") else ""
        letter = self.letters.get(name)
        if letter is None or len(letter.arguments) != 1:
            self.fail(f"{token.text} is read over a function of one letter; {name} is not declared as one", token)
        return self.value(letter, token, DERIVATIVES[token.text])

    def fraction(self) -> Expr:
        sign, following = self.take(), self.found[self.at + 1 : self.at + 2]
        if self.next.text == "{" and following and following[0].text in ("d", r"\partial"):
            return self.derivative()
        if re.fullmatch(r"\d\d", self.next.text):  # \frac12
            digits = self.take().text
            return self.over(Rational(digits[0]), Rational(digits[1]), sign)
        return self.over(self.group(), self.group(), sign)

    def derivative(self) -> Expr:
        begin = self.take()
        sign, order, target = self.take().text, self.order(), None
        if not self.takes("}"):
            target = self.factor()
            self.expect("}")
        self.expect("{")
        variables = list[tuple[Expr, int]]()
        while not self.takes("}"):
            self.expect(sign)
            variables.append((self.letter(), self.order()))
        if sum(n for _, n in variables) != order:
            self.fail("the orders above and below the line differ", begin)
        if target is None:
            target = self.bracket() if self.next.text in BRACKETS else self.atom()
            if self.begins_factor() or self.next.text in (*TIMES, "/", "^"):
                self.fail("how far does the derivative reach? write brackets", begin)
        elif self.next.text == "(":
            inside = joined(self.found[self.at + 1 : self.at + 2])
            if len(variables) > 1 or inside != str(variables[0][0]) or self.found[self.at + 2].text != ")":
                self.fail("is this the derivative at a place, or a product? write h'(0), or \\cdot")
            self.at += 3
        self.check_derivative(target, [v for v, _ in variables], sign, begin)
        return Derivative(target, *variables)

    def order(self) -> int:
        if not self.takes("^"):
            return 1
        order = self.exponent()
        return int(order) if order.is_Integer and 0 < order < 10 else self.fail("an order is a whole number")

    def check_derivative(self, target: Expr, variables: Sequence[Expr], sign: str, begin: Token) -> None:
        """Refuse a total derivative of what depends on several letters, and a partial one of what depends through functions."""
        for v in variables:
            values = [f for f in target.atoms(AppliedUndef) if v in f.args]
            if sign != "d" and any(u.name in self.defined for u in target.atoms(Symbol) if u != target):
                self.fail("\\partial of what is defined elsewhere: write it out", begin)
            if sign == "d" and (not isinstance(v, Symbol) or any(len(f.args) > 1 for f in values)):
                self.fail("d or \\partial? what depends on several letters has partial derivatives", begin)
            if sign != "d" and values and not isinstance(target, AppliedUndef):
                self.fail(f"\\partial by {v} of what holds functions of {v}: d is meant, or letters in their place", begin)

    def integral(self) -> Expr:
        begin = self.take()
        low, high = self.ends(begin)
        name, letter = self.bind(self.closing(begin), begin, real=True)
        outer, self.bound = self.bound, {**self.bound, name: letter}
        body = self.sum()
        self.expect("d")
        self.name()
        self.bound = outer
        return Integral(body, (letter, low, high))

    def closing(self, begin: Token) -> int:
        """Find the d that closes an integral."""
        depth, open_ones = 0, 1
        for place in range(self.at, len(self.found)):
            text = self.found[place].text
            depth += (text in "({[") - (text in ")}]")
            open_ones += (text == r"\int") - (text == "d" and depth == 0)
            if not open_ones:
                return place + 1
        return self.fail("the d of the integral is missing, as in \\int_0^1 x dx", begin)

    def bind(self, place: int, begin: Token, **assumptions: bool) -> tuple[str, Symbol]:
        """Make the letter that is bound, whose name stands at a place."""
        here, self.at = self.at, place
        name, self.at = self.name(), here
        if name in self.bound:
            self.fail(f"{name} is bound twice", begin)
        return name, Dummy(name, **assumptions)

    def ends(self, begin: Token) -> tuple[Expr, Expr]:
        if not self.takes("_"):
            self.fail(f"{begin.text} is read from one end to another, {begin.text}_a^b", begin)
        low = self.reach()
        self.expect("^")
        return low, self.reach()

    def reach(self) -> Expr:
        braces = self.takes("{")
        sign = self.takes("-", "+") if braces else ""
        if self.takes(r"\infty"):
            value = -oo if sign == "-" else oo
        elif not braces:
            return self.group()
        else:
            value = _negative(self.sum()) if sign == "-" else self.sum()
        self.expect("}") if braces else None
        return value

    def series(self) -> Expr:
        begin = self.take()
        self.expect("_")
        self.expect("{")
        name, letter = self.bind(self.at, begin, integer=True)
        self.name()
        self.expect("=")
        low = self.sum()
        self.expect("}")
        self.expect("^")
        high = self.reach()
        return Sum(self.body(begin, name, letter), (letter, low, high))

    def limit(self) -> Expr:
        begin = self.take()
        self.expect("_")
        self.expect("{")
        declared = self.letters.get(self.name_ahead())
        name, letter = self.bind(self.at, begin, **(declared.assumptions if declared else {"real": True}))
        self.name()
        self.expect(r"\to")
        minus = self.takes("-")
        point = oo if self.takes(r"\infty") else self.atom()
        point = _negative(point) if minus else point
        side = "+" if point in (oo, -oo) or (point == 0 and letter.is_nonnegative) else "+-"
        if self.takes("^"):
            side = self.takes("+", "-") or self.fail("a limit is from ^+ or from ^-")
        self.expect("}")
        return Limit(self.body(begin, name, letter), letter, point, side)

    def name_ahead(self) -> str:
        here, name = self.at, self.name()
        self.at = here
        return name

    def body(self, begin: Token, name: str, letter: Symbol) -> Expr:
        """Read what a sum or limit is taken of, which reaches to the end of the term."""
        outer, self.bound = self.bound, {**self.bound, name: letter}
        value = self.term()
        self.bound = outer
        if self.next.text in ("+", "-"):
            self.fail(f"how far does {begin.text} reach? write brackets about what follows it, or about all of it", begin)
        return value

    def over(self, above: Expr, below: Expr, sign: Token) -> Expr:
        if below == 0:
            self.fail("a division by 0", sign)
        if isinstance(below, Rational):
            return _times(Rational(below.q, below.p), above) if above != 1 else Rational(below.q, below.p)
        return Pow(below, Integer(-1)) if above == 1 else _times(above, Pow(below, Integer(-1)))

    def power(self, base: Expr, exponent: Expr, sign: Token) -> Expr:
        if exponent == 0:
            self.fail("the exponent 0 would hide where the base is undefined; write 1", sign)
        self.check_size(exponent, sign)
        if base == E:
            return exp(exponent)
        if not base.free_symbols and not exponent.free_symbols and base != 0:
            self.check_size(_times(log(Abs(base)), exponent), sign)
        return Pow(base, exponent)

    def check_size(self, e: Expr, place: Token) -> None:
        """Refuse numbers that nobody could compute with."""
        if e.free_symbols or e.has(AppliedUndef, Integral, Sum, Limit, Derivative):
            return
        try:
            size = abs(_value(e))
        except OverflowError:
            size = math.inf
        except (ValueError, ZeroDivisionError):  # no number at all
            return
        if not size <= LARGEST:
            self.fail(f"an exponent beyond {LARGEST} is not read", place)


def _value(e: Expr) -> complex:
    """Compute a number roughly."""
    parts = [_value(part) for part in e.args]
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


def _negative(e: Expr) -> Expr:
    return -oo if e == oo else _times(Integer(-1), e)


def joined(found: Sequence[Token]) -> str:
    """Write tokens as LaTeX again, with the spaces that it needs."""
    text, before = "", ""
    for token in found:
        text += (" " if before == "command" and token.text[:1].isalpha() else "") + token.text
        before = token.kind
    return text
