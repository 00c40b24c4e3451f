r"""Translate SymPy expressions to terms, with the facts that their letters carry, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from flint import acb, arb, fmpq
from sympy import (
    Abs,
    Basic,
    ComplexRootOf,
    Derivative,
    Dummy,
    E,
    Eq,
    Expr,
    Float,
    Function,
    Ge,
    GreaterThan,
    Gt,
    Heaviside,
    I,
    Integer,
    Integral,
    LambertW,
    Le,
    Limit,
    Lt,
    Max,
    Min,
    Ne,
    Piecewise,
    Product,
    Rational,
    StrictGreaterThan,
    Subs,
    Sum,
    Symbol,
    Unequality,
    acos,
    acosh,
    acoth,
    acsch,
    asech,
    asinh,
    atan,
    atanh,
    cos,
    cosh,
    cot,
    erf,
    evaluate,
    exp,
    expint,
    gamma,
    integrate,
    log,
    oo,
    pi,
    preorder_traversal,
    sign,
    sin,
    sinh,
    summation,
    tan,
    tanh,
)
from sympy.core.function import AppliedUndef
from sympy.logic.boolalg import ITE, And, BooleanFalse, BooleanTrue, Not, Or

from derivations.rules.terms import ONE, ZERO, Term, add, divide, mul, neg, number, power, variable
from derivations.wording import plain

__all__ = ["Reading", "Unreadable", "as_sympy"]

NAMED = {exp: "exp", log: "log", tanh: "tanh", sinh: "sinh", cosh: "cosh", sin: "sin", cos: "cos", atan: "atan", erf: "erf",
         gamma: "gamma"}  # fmt: skip
FACTS = ("real", "positive", "negative", "nonnegative", "nonpositive", "nonzero", "integer")
# Of these the checker has no fact: where SymPy knows more of one than the facts say, no number is free to be chosen.
OTHER = (*FACTS, "zero", "even", "odd", "prime", "composite", "irrational", "imaginary", "infinite")
INVERSE = (asinh, acosh, atanh, acoth, asech, acsch)  # of hyperbolic functions: logarithms
BINDERS = {Integral: "int", Sum: "sum", Product: "product"}


class Unreadable(ValueError):  # noqa: N818 - said of the expression
    """Raised for an expression that has no term."""


class Reading:
    """Translates expressions to terms: each letter gets one name, and its assumptions become facts."""

    def __init__(self) -> None:
        self.facts: dict[Term, frozenset[str]] = {}
        self.letters: dict[Term, Expr] = {}
        self._names: dict[Any, str] = {}
        self._bound_letters: dict[Any, Dummy] = {}
        self._read: dict[Expr, Term] = {}
        self.integrands: dict[Term, tuple[Expr, Symbol]] = {}

    def term(self, e: object) -> Term:
        r"""Translate an expression.

        Raises:  Unreadable, naming the part that has none.
        """
        try:
            return self._term(e, 0)
        except RecursionError:  # SymPy writes Mod and floor by one another
            raise Unreadable(f"{plain(e)}, which has no end as it is rewritten,") from None

    def _term(self, e: Expr, depth: int) -> Term:
        if depth:
            return self._new(e, depth)
        if e not in self._read:
            self._read[e] = self._new(e, depth)
        return self._read[e]

    def _new(self, e: Expr, depth: int) -> Term:
        if e.is_commutative is False:
            raise Unreadable(f"{plain(e)}, whose products have an order,")
        if isinstance(e, Rational):
            return number(int(e.p), int(e.q))
        if isinstance(e, Symbol):
            return self._noted(variable(self._name(e)), e)
        if e.is_Add:
            return add(*self._all(e.args, depth))
        if e.is_Mul:
            factors = self._all(e.args, depth)
            return ("*", *factors) if ZERO in factors else mul(*factors)  # 0 log h is defined where log h is
        if e.is_Pow:
            base, exponent = self._all((e.base, e.exp), depth)
            return ("exp", exponent) if e.base == E else power(base, exponent)
        if e in (pi, I):
            return ("pi",) if e == pi else ("i",)
        if e == E:
            return ("exp", ONE)
        if type(e) in NAMED and len(e.args) == 1:
            return (NAMED[type(e)], self._term(e.args[0], depth))
        if isinstance(e, AppliedUndef | Derivative | Subs):
            return self._value(e, depth)
        if isinstance(e, Piecewise | Abs | sign | Max | Min | Heaviside):
            return self._pieces(e, depth)
        if type(e) in BINDERS or isinstance(e, Limit):
            return self._bound(e, depth)
        return self._other(e, depth)

    def _all(self, es: Iterable[Expr], depth: int) -> list[Term]:
        return [self._term(e, depth) for e in es]

    def _name(self, letter: Any) -> str:
        """Name a letter or function; two of one name and different assumptions get two names."""
        if letter not in self._names:
            taken, name = set(self._names.values()), letter.name if isinstance(letter, Symbol) else letter.__name__
            if name[-1:] in ("~", "+") or name.startswith(("$", "-")):  # names that the checker gives
                name = f"[{name}]"
            while name in taken:
                name = f"[{name}]"
            self._names[letter] = name
        return self._names[letter]

    def _noted(self, term: Term, e: Expr) -> Term:
        facts = frozenset(fact for fact in FACTS if getattr(e, f"is_{fact}"))
        same = Symbol("same", **dict.fromkeys(facts, True))
        self.facts[term] = facts | {"other" for fact in OTHER if getattr(e, f"is_{fact}") != getattr(same, f"is_{fact}")}
        self.letters[term] = e
        return term

    def _value(self, e: Expr, depth: int) -> Term:
        """Translate the value of an undefined function or of its derivative; other derivatives are left for the check to take."""
        if isinstance(e, AppliedUndef):
            return self._noted(("call", self._name(e.func), (0,) * len(e.args), *self._all(e.args, depth)), e)
        inner = e.expr if isinstance(e, Subs) else e
        if (
            isinstance(inner, Derivative)
            and isinstance(inner.expr, AppliedUndef)
            and set(inner.variables) <= set(inner.expr.args)
        ):
            applied = inner.expr
            if applied.is_integer or any(not isinstance(n, Integer) for _, n in inner.variable_count):
                raise Unreadable(f"{plain(e)} of steps, or of an order that is a letter,")
            if all(applied.args.count(v) == 1 and not _elsewhere(v, applied.args) for v in inner.variables):
                orders = tuple(sum(int(n) for v, n in inner.variable_count if v == a) for a in applied.args)
                places = dict(zip(e.variables, e.point, strict=True)) if isinstance(e, Subs) else {}
                arguments = [_replaced(a, places) for a in applied.args]
                return self._noted(("call", self._name(applied.func), orders, *self._all(arguments, depth)), e)
        if isinstance(e, Derivative):
            if any(not isinstance(n, Integer) for _, n in e.variable_count):
                raise Unreadable(f"{plain(e)} of an order that is a letter")
            # By the value of a function: by a letter in its place, but not inside of another derivative or integral.
            values = [v for v in e.variables if not isinstance(v, Symbol)]
            if any(inner.has(v) for v in values for inner in e.expr.atoms(Derivative, Subs, Integral)):
                raise Unreadable(f"{plain(e)} by the value of a function that stands in a derivative")
            letters = {v: v if isinstance(v, Symbol) else Symbol(f"[{v}]", real=v.is_extended_real) for v in e.variables}
            term = self._term(_replaced(e.expr, {v: u for v, u in letters.items() if v != u}), depth)
            for letter, times in e.variable_count:
                for _ in range(int(times)):
                    term = ("diff", self._name(letters[letter]), term)
            for value, letter in letters.items():
                if value != letter:
                    term = ("at", self._name(letter), term, self._term(value, depth))
            return term
        term = self._term(e.expr, depth)
        for letter, value in zip(e.variables, e.point, strict=True):
            term = ("at", self._name(letter), term, self._term(value, depth))
        return term

    def _bound(self, e: Expr, depth: int) -> Term:
        """Translate an integral, sum, product or limit; bound letters get the name of their depth."""
        if isinstance(e, Limit):
            body, letter, point, side = e.args
            own = self._own(letter, depth)
            return (
                "lim",
                self._name(own),
                self._term(_replaced(body, {letter: own}), depth + 1),
                self.end(point, depth),
                str(side),
            )
        body, term_of_body = e.function, None
        limits = list(e.limits)
        if any(len(limit) != 3 for limit in limits):
            raise Unreadable(f"{plain(e)} without limits")
        own = [self._own(limit[0], depth + k) for k, limit in enumerate(limits)]
        body = _replaced(body, {limit[0]: new for limit, new in zip(limits, own, strict=True)})
        term_of_body = self._term(body, depth + len(own))
        for k, (limit, new) in enumerate(zip(limits, own, strict=True)):
            inner = body
            later = {other[0]: name for other, name in zip(limits[k + 1 :], own[k + 1 :], strict=True)}
            ends = [self.end(end.xreplace(later), depth + len(own)) for end in limit[1:]]
            term_of_body = (BINDERS[type(e)], self._name(new), term_of_body, *ends)
            if isinstance(e, Sum | Integral):
                self.integrands[term_of_body] = (inner, new)
                body = type(e)(inner, (new, *(end.xreplace(later) for end in limit[1:])))
        return term_of_body

    def _own(self, letter: Symbol, depth: int) -> Dummy:
        """Return the letter that stands for a bound one at a depth, the same for the same assumptions."""
        key = (depth, tuple(sorted(letter.assumptions0.items())))
        if key not in self._bound_letters:
            self._bound_letters[key] = own = Dummy(f"${depth}", **letter.assumptions0)
            taken = set(self._names.values())
            self._names[own] = next(name for k in range(len(taken) + 1) if (name := f"${depth}" + "'" * k) not in taken)
        return self._bound_letters[key]

    def end(self, end: Expr, depth: int = 0) -> Term:
        """Translate an expression, or an infinity."""
        if end in (oo, -oo):
            return ("oo",) if end == oo else ("-oo",)
        return self._term(end, depth)

    def _pieces(self, e: Expr, depth: int) -> Term:
        if isinstance(e, Abs | sign | Heaviside):
            u = self._term(e.args[0], depth)
            if isinstance(e, Abs):
                return ("piece", u, neg(u), ZERO, u)
            if isinstance(e, sign):
                return ("piece", u, number(-1), ZERO, ONE)
            return ("piece", u, ZERO, self._term(e.args[1], depth), ONE)
        if isinstance(e, Max | Min):
            found, *others = self._all(sorted(e.args, key=str), depth)
            for other in others:
                gap = add(found, neg(other))
                found = ("piece", gap, other, found, found) if isinstance(e, Max) else ("piece", gap, found, found, other)
            return found
        found = ("^", ZERO, number(-1))  # where no case is met
        for value, condition in reversed(e.args):
            found = self._if(condition, self._term(value, depth), found, depth)
        return found

    def _if(self, condition: Any, then: Term, otherwise: Term, depth: int) -> Term:
        if isinstance(condition, BooleanTrue | BooleanFalse):
            return then if condition else otherwise
        if isinstance(condition, And | Or):
            for part in condition.args:
                if isinstance(condition, And):
                    then = self._if(part, then, otherwise, depth)
                else:
                    otherwise = self._if(part, then, otherwise, depth)
            return then if isinstance(condition, And) else otherwise
        if isinstance(condition, Not):
            return self._if(condition.args[0], otherwise, then, depth)
        if isinstance(condition, ITE):  # a condition on a value that has cases itself
            asked, *cases = condition.args
            first, second = (self._if(case, then, otherwise, depth) for case in cases)
            return self._if(asked, first, second, depth)
        table = {Gt: "+", Ge: "0+", Lt: "-", Le: "-0", Eq: "0", Ne: "-+"}
        if type(condition) not in table:
            raise Unreadable(f"the condition {plain(condition)}")
        u, true = self._term(condition.lhs - condition.rhs, depth), table[type(condition)]
        return ("piece", u, *(then if mark in true else otherwise for mark in "-0+"))

    def _other(self, e: Expr, depth: int) -> Term:
        if isinstance(e, tan | cot):
            a = self._term(e.args[0], depth)
            return divide(("sin", a), ("cos", a)) if isinstance(e, tan) else divide(("cos", a), ("sin", a))
        if isinstance(e, expint):
            return ("expint", *self._all(e.args, depth))
        if isinstance(e, LambertW):
            branch = e.args[1] if len(e.args) > 1 else Rational(0)
            return ("lambertw", self._term(branch, depth), self._term(e.args[0], depth))
        if isinstance(e, ComplexRootOf) and e.is_real:
            return ("croot", tuple(int(c) for c in reversed(e.poly.all_coeffs())), e.index)
        if isinstance(e, INVERSE):
            place = Dummy()
            return self._term(_replaced(e.func(place).rewrite(log), {place: e.args[0]}), depth)
        if isinstance(e, Function) and (new := e.rewrite(exp)) != e and not isinstance(e, acos):
            return self._term(new, depth)
        if isinstance(e, Function):
            if (meant := e.doit()) != e:
                return self._term(meant, depth)
            # A function of SymPy's own, or one that knows values, is not free to have any.
            known = type(e).__module__.startswith("sympy.") or "eval" in vars(type(e))
            head = "known" if known else "call"
            return self._noted((head, self._name(type(e)), (0,) * len(e.args), *self._all(e.args, depth)), e)
        raise Unreadable(f"{type(e).__name__} in {plain(e)}")

    def antiderivative(self, whole: Term) -> Term | None:
        """Ask SymPy for what an integral's or a sum's body is the slope or the steps of, to be checked; None if it finds none."""
        if whole not in self.integrands:
            return None
        body, letter = self.integrands[whole]
        try:
            if whole[0] == "sum":
                last = Dummy("last", integer=True, positive=True)
                total = summation(body.doit(), (letter, 0, last - 1)).xreplace({last: letter})
            else:
                total = integrate(body.doit(), letter)
            return None if total.has(Integral, Sum) else self._term(total, 1)
        except (NotImplementedError, ValueError, RecursionError):  # Unreadable among them
            return None

    def numbers(self, found: Mapping[Term, fmpq]) -> dict[Expr, Expr]:
        """Translate numbers for terms to numbers for expressions."""
        return {self.expression(term): as_sympy(value) for term, value in found.items()}

    def end_expression(self, term: Term) -> Expr:
        """Translate a term back, or an infinity."""
        return {("oo",): oo, ("-oo",): -oo}.get(term) or self.expression(term)

    def relation(self, sign: str, term: Term) -> Basic:
        """Translate a condition to a SymPy relation to 0."""
        kinds = {">": StrictGreaterThan, ">=": GreaterThan, "!=": Unequality}
        return kinds[sign](self.expression(term), 0, evaluate=False)

    def expression(self, term: Term) -> Expr:
        """Translate a term of this reading back."""
        if term in self.letters:
            return self.letters[term]
        match term[0]:
            case "q":
                return Rational(term[1], term[2])
            case "+":
                return sum((self.expression(part) for part in term[1:]), start=Rational(0))
            case "*":
                product = Rational(1)
                for part in term[1:]:
                    product = product * self.expression(part)
                return product
            case "^":
                return self.expression(term[1]) ** self.expression(term[2])
            case "pi" | "i":
                return pi if term[0] == "pi" else I
            case "piece":
                u, a, b, c = map(self.expression, term[1:])
                return Piecewise((a, u < 0), (b, Eq(u, 0)), (c, True))
            case "call":  # with arguments that were put in
                function = next(function for function, name in self._names.items() if name == term[1])
                places, values = [Dummy() for _ in term[3:]], [*map(self.expression, term[3:])]
                orders = [(place, n) for place, n in zip(places, term[2], strict=True) if n]
                return Subs(Derivative(function(*places), *orders), places, values).doit() if orders else function(*values)
        if term[0] == "expint":
            return expint(self.expression(term[1]), self.expression(term[2]))
        for function, name in NAMED.items():
            if name == term[0]:
                return function(self.expression(term[1]))
        raise Unreadable(f"the term {term}")


def _replaced(e: Expr, values: Mapping[Any, Expr]) -> Expr:
    """Put values in place of parts; what SymPy has not evaluated stays as it is, for x/x is 1 only where x is not 0."""
    if not values:
        return e
    parts = (part for whole in (e, *values.values()) for part in preorder_traversal(whole))
    as_written = any(part.args and part.func(*part.args) != part for part in parts)
    with evaluate(not as_written):
        return e.xreplace(values)


def _elsewhere(letter: Expr, arguments: tuple[Expr, ...]) -> bool:
    return any(a != letter and a.has(letter) for a in arguments)


def as_sympy(x: fmpq | arb | acb) -> Expr:
    """Convert a rational number exactly, another one to 8 digits."""
    if isinstance(x, fmpq):
        return Rational(int(x.p), int(x.q))
    middle = x.real if isinstance(x, acb) and x.real != 0 else x.imag if isinstance(x, acb) else x
    return Float(middle.mid().str(8, radius=False), 8)
