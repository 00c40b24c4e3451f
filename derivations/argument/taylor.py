r"""The Taylor step, and what it drops.

    h(t + dt) = h(t) + dt F(x(t), h(t)) + dt^2/2 (F_x x'(t) + F_h F) + O(dt^3)

Cut after the first order it is the Euler step, and with dt = 1 a discrete cell; it is no equality but for dt -> 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sympy import Derivative, Eq, Expr, ImmutableDenseMatrix, S, Subs, Symbol, exp, factorial, series

from derivations.prover import symbols
from derivations.prover.identity import Identity, column
from derivations.twins import fields
from derivations.twins.fields import SymbolicField

__all__ = ["along", "dropped", "euler_step", "identities", "motion", "steps_to", "taylor_sum"]


def euler_step(equations: Iterable[Eq], dt: Expr = S.One) -> ImmutableDenseMatrix:
    r"""h + dt F: the Taylor expansion of h(t + dt) cut after its first order.

    Args:    equations: Eq(dh_i/dt, F_i), as a `SymbolicField` gives them; dt: the step, 1 for a discrete cell.
    Source:  Tallec and Ollivier 2018, below eq. (3).
    """
    return column(*(equation.lhs.expr + dt * equation.rhs for equation in equations))


def steps_to(equations: Iterable[Eq], right: Iterable[Expr], dt: Expr = S.One) -> dict[str, Any]:
    r"""h + dt F = right, as an `Identity` or a statement takes it: F is put in by the checker, which adds up.

    Args:    equations, dt: as `euler_step`; right: the step that is claimed.
    """
    listed = list(equations)
    rates = [Symbol(f"F_{i}", real=True) for i, _ in enumerate(listed, 1)]
    step = column(*(equation.lhs.expr + dt * rate for equation, rate in zip(listed, rates, strict=True)))
    return {"lhs": step, "rhs": column(*right), "where": dict(zip(rates, (equation.rhs for equation in listed), strict=True))}


def dropped(equations: Iterable[Eq], dt: Expr = symbols.dt) -> ImmutableDenseMatrix:
    r"""Exact minus truncated: h(t + dt) as a series along solutions, less the Euler step, up to O(dt^3).

    SymPy expands h(t + dt); h' is then replaced by F, and h'' by dF/dt along the solution.
    """
    listed = list(equations)
    rates = motion(listed)
    t = listed[0].lhs.variables[0]
    bend = {Derivative(h.expr, (t, 2)): rate.diff(t).xreplace(rates) for h, rate in rates.items()}
    exact = [series(h.expr.subs(t, t + dt), dt, 0, 3).removeO().doit().xreplace(bend).xreplace(rates) for h in rates]
    return column(*exact) - euler_step(listed, dt)


def motion(equations: Iterable[Eq]) -> dict[Expr, Expr]:
    """h' = F, to be put in."""
    return {equation.lhs: equation.rhs for equation in equations}


def along(equations: Iterable[Eq]) -> ImmutableDenseMatrix:
    """dF/dt, the second derivative of a solution, not taken: that is the checker's, who puts in h' = F."""
    return column(*(Derivative(equation.rhs, equation.lhs.variables[0]) for equation in equations))


def taylor_sum(e: Expr, dt: Symbol, order: int) -> Expr:
    """The terms of the Taylor series at 0 below this order, their derivatives not taken."""
    u = Symbol("u", real=True)
    return sum((Subs(Derivative(e.xreplace({dt: u}), (u, k)), u, 0) * dt**k / factorial(k) for k in range(order)), S.Zero)


def second_order(field: SymbolicField) -> ImmutableDenseMatrix:
    """F_x x' + F_h F, the second derivative of a solution, by Jacobians."""
    x, h = ImmutableDenseMatrix(field.inputs), ImmutableDenseMatrix(field.state)
    return field.flow.jacobian(x) * x.diff(symbols.t) + field.flow.jacobian(h) * field.flow


def identities() -> list[Identity]:
    r"""The order and the leading term of what the Taylor step drops, in general and for free forgetting."""
    field, alpha, dt = fields.plain(), symbols.alpha, symbols.dt
    free = exp(-alpha * dt) - (1 - alpha * dt)
    return [
        Identity(
            "what the Taylor step drops", "this project",
            "h(t + dt) minus its Taylor step is dt^2/2 (F_x x' + F_h F), and smaller terms: O(dt^2).",
            along(field) * dt**2 / 2, dt**2 / 2 * second_order(field), label="below eq. 3", where=motion(field),
        ),
        Identity(
            "what free forgetting drops", "this project",
            "exp(-alpha dt) minus its Taylor step 1 - alpha dt begins with alpha^2 dt^2 / 2.",
            taylor_sum(free, dt, 3), alpha**2 * dt**2 / 2, assumptions=("alpha > 0",), label="footnote 3, step",
        ),
    ]  # fmt: skip
