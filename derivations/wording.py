r"""Writes formulas for readers, in text and in LaTeX: derivatives of functions of which nothing is known as books write them.

    h'(t), h''(t), h^(4)(t)    of a function of one letter, and F'(g(t)) at any place
    (dF/dx)(x, h)              of several letters, by one of them; (d^2F/dx dh)(x, h)
    D_2 F(x, g(t))             by the second argument, at any place
    (d/dt x h(t))              of anything else

Nothing is read back from these words.
"""

# ruff: noqa: N802 - printers of SymPy find their methods by these names.
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sympy import Derivative, Eq, Expr, Integer, Ne, Subs, Symbol
from sympy.core.function import AppliedUndef
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

__all__ = ["InLatex", "plain"]

MOST_PRIMES = 3


def plain(e: object) -> str:
    """Write an expression or a relation in one line for a reader: h'(t) = -h(t)^2."""
    return str(_InText({"order": None}).doprint(e))


class _Slope:
    """The derivative of a function of which nothing is known, by its arguments: how often by each, and where."""

    def __init__(self, e: Derivative | Subs) -> None:
        inner: Any = e.expr if isinstance(e, Subs) else e
        self.function = inner.expr.func
        self.orders = [sum(int(n) for v, n in inner.variable_count if v == a) for a in inner.expr.args]
        places = dict(zip(e.variables, e.point, strict=True)) if isinstance(e, Subs) else {}
        self.arguments = [a.xreplace(places) for a in inner.expr.args]

    @property
    def by_letters(self) -> bool:
        """Return whether it is taken by letters that stand once among the arguments."""
        taken = [a for a, n in zip(self.arguments, self.orders, strict=True) if n]
        return all(isinstance(a, Symbol) and sum(b.has(a) for b in self.arguments) == 1 for a in taken)


def _slope(e: Expr) -> _Slope | None:
    """Return a derivative by arguments of a function; None for one of anything else, or of an order that is a letter."""
    inner = e.expr if isinstance(e, Subs) else e
    if not (isinstance(inner, Derivative) and isinstance(inner.expr, AppliedUndef)):
        return None
    arguments = inner.expr.args
    if not all(isinstance(n, Integer) and arguments.count(v) == 1 for v, n in inner.variable_count):
        return None
    if any(other.has(v) for v in inner.variables for other in arguments if other != v):
        return None
    return _Slope(e) if not isinstance(e, Subs) or {*e.variables} <= {*arguments} else None


def _primes(order: int) -> str:
    return "'" * order if order <= MOST_PRIMES else f"^({order})"


class _InText(StrPrinter):
    """Writes powers with ^, sides of an equation with =, bounds of integrals in words."""

    def _print_Pow(self, expr: Expr, rational: bool = False) -> str:
        return str(super()._print_Pow(expr, rational=rational)).replace("**", "^")

    def _print_Relational(self, expr: Any) -> str:
        sign = "=" if isinstance(expr, Eq) else "!=" if isinstance(expr, Ne) else expr.rel_op
        return f"{self._print(expr.lhs)} {sign} {self._print(expr.rhs)}"

    def _print_Dummy(self, expr: Symbol) -> str:
        return expr.name.lstrip("_")

    def _print_Abs(self, expr: Any) -> str:
        return f"|{self._print(expr.args[0])}|"

    def _print_Derivative(self, expr: Any) -> str:
        if (slope := _slope(expr)) is not None:
            return self._of(slope)
        by = " ".join(f"d{self._print(v)}" + (f"^{n}" if n != 1 else "") for v, n in expr.variable_count)
        order = sum(n for _, n in expr.variable_count)
        return f"(d{f'^{order}' if order != 1 else ''}/{by} {self.parenthesize(expr.expr, PRECEDENCE['Mul'])})"

    def _of(self, slope: _Slope) -> str:
        name, at = slope.function.__name__, self.stringify(slope.arguments, ", ")
        if len(slope.orders) == 1:
            return f"{name}{_primes(slope.orders[0])}({at})"
        if not slope.by_letters:
            return "".join(f"D_{k} " * n for k, n in enumerate(slope.orders, 1)) + f"{name}({at})"
        order = sum(slope.orders)
        by = (f"d{self._print(a)}" + (f"^{n}" if n > 1 else "") for a, n in zip(slope.arguments, slope.orders, strict=True) if n)
        return f"(d{f'^{order}' if order > 1 else ''}{name}/{' '.join(by)})({at})"

    def _print_Subs(self, expr: Any) -> str:
        if (slope := _slope(expr)) is not None:
            return self._of(slope)
        return f"({self._print(expr.expr)} at {_equations(self, zip(expr.variables, expr.point, strict=True))})"

    def _print_Integral(self, expr: Any) -> str:
        words = self._print(expr.function)
        for x, *ends in expr.limits:
            words = f"the integral of {words} d{self._print(x)}" + (
                " from {} to {}".format(*map(self._print, ends)) if ends else ""
            )
        return f"({words})"

    def _print_Limit(self, expr: Any) -> str:
        e, x, point, side = expr.args
        beside = {"+": " from above", "-": " from below"}.get(str(side), "") if point.is_finite else ""
        return f"(the limit of {self._print(e)} as {self._print(x)} goes to {self._print(point)}{beside})"

    def _print_Sum(self, expr: Any) -> str:
        return self._total("sum", expr)

    def _print_Product(self, expr: Any) -> str:
        return self._total("product", expr)

    def _total(self, word: str, expr: Any) -> str:
        ends = (f"{self._print(k)} = {self._print(low)} to {self._print(high)}" for k, low, high in expr.limits)
        return f"(the {word} of {self._print(expr.function)} for {' and '.join(ends)})"

    def _print_Piecewise(self, expr: Any) -> str:
        cases = (f"{self._print(e)} {f'if {self._print(where)}' if where.args else 'otherwise'}" for e, where in expr.args)
        return f"({'; '.join(cases)})"

    def _print_Exp1(self, _: Any) -> str:
        return "e"

    def _print_Infinity(self, _: Any) -> str:
        return "infinity"

    def _print_NegativeInfinity(self, _: Any) -> str:
        return "-infinity"


def _equations(printer: Any, pairs: Iterable[tuple[Expr, Expr]]) -> str:
    return ", ".join(f"{printer.doprint(x)} = {printer.doprint(value)}" for x, value in pairs)


class InLatex(LatexPrinter):
    r"""Writes LaTeX as SymPy does, and F'(g(t)) and \partial_{2} F(x, g(t)) for derivatives at a place that is no letter."""

    def _print_Subs(self, expr: Any) -> str:
        slope = _slope(expr)
        return str(super()._print_Subs(expr)) if slope is None else self._of(slope)

    def _print_Derivative(self, expr: Any) -> str:
        slope = None if all(isinstance(v, Symbol) for v in expr.variables) else _slope(expr)
        return str(super()._print_Derivative(expr)) if slope is None else self._of(slope)

    def _of(self, slope: _Slope) -> str:
        name = self._hprint_Function(slope.function.__name__)
        at = rf"{{\left({','.join(map(self._print, slope.arguments))} \right)}}"
        if len(slope.orders) == 1:
            (order,) = slope.orders
            return name + ("'" * order if order <= MOST_PRIMES else f"^{{({order})}}") + at
        parts = (rf"\partial_{{{k}}}" + (f"^{{{n}}}" if n > 1 else "") for k, n in enumerate(slope.orders, 1) if n)
        return f"{' '.join(parts)} {name}{at}"
