r"""Slow forgetting: closed form and half-life of h' = -|h|^r h.

    h(t) = h0 (1 + r |h0|^r (t - t0))^(-1/r)           for r > 0 and h0 of either sign; exp(-(t - t0)) h0 as r -> 0
    half of h0 is left after                           (2^r - 1) / (r |h0|^r)
    dh(t)/dh(t0) = (1 + r h0^r (t - t0))^(-(r+1)/r)    eq. (21) prints this without the r before h0^r

The cell is the unit Euler step of alpha (tanh(...) - |h|^r h): eq. (23) from eq. (22).
"""

from __future__ import annotations

from sympy import Abs, Derivative, Expr, S, exp, limit

from derivations.argument.leaky import candidate, free, residual
from derivations.argument.taylor import steps_to
from derivations.prover import symbols
from derivations.prover.identity import Identity, column
from derivations.twins import fields

__all__ = ["closed_form", "half_life", "identities", "misprints"]

PAPER = "ohno-kumagai-2021"
ELAPSED, EXPONENT = "s = t - t0 >= 0", "r > 0"


def closed_form(h0: Expr, r: Expr, s: Expr) -> Expr:
    """h0 (1 + r |h0|^r s)^(-1/r). Source: Ohno and Kumagai 2021, eq. (20), for h0 of either sign."""
    return h0 * (1 + r * Abs(h0) ** r * s) ** (-1 / r)


def half_life(h0: Expr, r: Expr) -> Expr:
    """(2^r - 1) / (r |h0|^r)."""
    return (2**r - 1) / (r * Abs(h0) ** r)


def as_printed(h0: Expr, r: Expr, s: Expr) -> Expr:
    """(r s + 1/h0^r)^(-1/r), for h0 > 0. Source: Ohno and Kumagai 2021, eq. (20)."""
    return (r * s + 1 / h0**r) ** (-1 / r)


def identities() -> list[Identity]:
    """The closed form, its half-life and limit, eq. (20) and its derivative, and eq. (23) from (22)."""
    h0, up, r, s, alpha = symbols.h0, symbols.positive_h0, symbols.r, symbols.s, symbols.alpha
    field = fields.leaky(decay=fields.power_decay(r))
    unit_rate = free(field.substitute(alpha=S.One))
    solution = column(closed_form(h0, r, s), closed_form(-h0, r, s))
    units, h = range(len(field)), field.state
    return [
        Identity(
            "slow forgetting", PAPER, "h0 (1 + r |h0|^r (t - t0))^(-1/r) solves h' = -|h|^r h and is h0 at t0, for either sign.",
            column(*residual(unit_rate, solution, s), closed_form(h0, r, S.Zero)), column(0, 0, h0),
            assumptions=(EXPONENT, ELAPSED), label="eq. 19",
        ),
        Identity(
            "the solution as printed", PAPER, "For h0 > 0 it is (r (t - t0) + 1/h0^r)^(-1/r).",
            closed_form(up, r, s), as_printed(up, r, s), assumptions=(EXPONENT, "h_0 > 0", ELAPSED), label="eq. 20",
        ),
        Identity(
            "memory of the start", "this project", "dh(t)/dh(t0) = (1 + r h0^r (t - t0))^(-(r+1)/r): eq. (21) with its r.",
            Derivative(as_printed(up, r, s), up), (1 + r * up**r * s) ** (-(r + 1) / r),
            assumptions=(EXPONENT, "h_0 > 0", ELAPSED), label="eq. 21, corrected",
        ),
        Identity(
            "half-life", "this project", "After (2^r - 1) / (r |h0|^r) half of h0 is left.",
            closed_form(up, r, s), up / 2, where={s: half_life(up, r)}, assumptions=(EXPONENT, "h_0 > 0"), label="half-life",
        ),
        Identity(
            "the exponential limit", PAPER, "As r -> 0 the closed form becomes exp(-(t - t0)) h0.",
            limit(closed_form(up, r, s), r, 0, "+"), up * exp(-s), assumptions=("h_0 > 0", ELAPSED), label="eq. 20, r to 0",
        ),
        Identity(
            "the slowly forgetting RNN", PAPER, "The unit Euler step of (22) is h + alpha (tanh(...) - |h|^r h).",
            **steps_to(field, [h[i] + alpha * (candidate(field, i) - Abs(h[i]) ** r * h[i]) for i in units]),
            assumptions=("alpha > 0", EXPONENT), label="eq. 23",
        ),
    ]  # fmt: skip


def misprints() -> list[Identity]:
    """Eq. (21) as the paper prints it, without the r before h0^r: it fails, but for r = 1."""
    up, r, s = symbols.positive_h0, symbols.r, symbols.s
    return [
        Identity(
            "memory of the start, as printed", PAPER, "dh(t)/dh(t0) = (1 + h0^r (t - t0))^(-(r+1)/r).",
            Derivative(as_printed(up, r, s), up), (1 + up**r * s) ** (-(r + 1) / r),
            assumptions=(EXPONENT, "h_0 > 0", ELAPSED), label="eq. 21",
        ),
    ]  # fmt: skip
