r"""A learned clock speed gives the gate, global or per unit.

    on a clock c               h' = c'(t) tanh(Wx x + Wh h + b) - c'(t) h                  (6)
    c'(t) learned as g(t)      h' = g(t) tanh(...) - g(t) h                                (7)
    unit Euler step            h_{t+1} = g_t tanh(...) + (1 - g_t) h_t                     (8)
    a gate for each unit       h_{t+1}^i = g_t^i tanh(...) + (1 - g_t^i) h_t^i             (10)

(6) to (8) follow from one change of time. (10) does not: it is the unit Euler step of a field in which every unit has a
speed of its own, a further generalisation. Changing time unit by unit gives that field only if the units do not read one
another, for unit i on the clock c_i would read the others on c_i too; and one clock cannot turn the field's direction,
while gates per unit turn it by (g_1 - g_2) F_1 F_2.
"""

from __future__ import annotations

from sympy import Eq, Expr, ImmutableDenseMatrix

from derivations.argument.clocks import change_of_time, on_clock, right_sides, stacked
from derivations.argument.leaky import candidate
from derivations.argument.taylor import steps_to
from derivations.prover import symbols
from derivations.prover.identity import Identity, column
from derivations.twins import fields
from derivations.twins.fields import SymbolicField, sigma

__all__ = ["gate", "identities"]

PAPER = "tallec-ollivier-2018"


def gate(field: SymbolicField, i: int) -> Expr:
    """sigma(sum_j Wgx_ij x_j + sum_j Wgh_ij h_j + b_gi), the sums written out. Source: eq. (9) with h^g = h."""
    from_input = sum(w * x for w, x in zip(field.parameters["W_gx"].row(i), field.inputs, strict=True))
    from_state = sum(w * h for w, h in zip(field.parameters["W_gh"].row(i), field.state, strict=True))
    return sigma(from_input + from_state + field.parameters["b_g"][i])


def with_speed(speed: Expr) -> tuple[Eq, ...]:
    """The plain field on a clock, its speed then called by another name: (6) read as (7)."""
    c, t = symbols.c, symbols.t
    return tuple(equation.xreplace({c(t).diff(t): speed}) for equation in change_of_time(fields.plain(), c(t)))


def turning(rates: ImmutableDenseMatrix, field: SymbolicField) -> Expr:
    """rates_1 F_2 - rates_2 F_1: 0 where two rates of change point where the field F points."""
    return rates[0] * field.flow[1] - rates[1] * field.flow[0]


def uncoupled() -> list[Eq]:
    """Two units that read neither one another nor the same input: h_i' = F_i(x_i, h_i)."""
    pairs = zip(symbols.state(2), symbols.inputs(2), strict=True)
    return [Eq(h.diff(symbols.t), symbols.signal(f"F_{i}")(x, h)) for i, (h, x) in enumerate(pairs, 1)]


def identities() -> list[Identity]:
    """Eqs. (6) to (10), and what (10) is and is not."""
    t, c, g = symbols.t, symbols.c(symbols.t), symbols.g(symbols.t)
    plain, per_unit, one_for_all = fields.plain(), fields.gated(), fields.gated(gate="global")
    units, h, speed = range(len(plain)), plain.state, c.diff(t)
    tanhs = [candidate(plain, i) for i in units]
    own = [gate(per_unit, i) for i in units]
    clocks = [clock(t) for clock in symbols.clocks(2)]
    alone = uncoupled()
    return [
        Identity(
            "time warped", PAPER, "On a clock c(t) the plain field (3) is multiplied by c'(t).",
            **on_clock(plain, c, [speed * tanhs[i] - speed * h[i] for i in units]), label="eq. 6",
        ),
        Identity(
            "the gated field", PAPER, "With c'(t) in (6) called g(t), the warped field is the gated field.",
            right_sides(with_speed(g)), column(*(g * tanhs[i] - g * h[i] for i in units)), label="eq. 7",
        ),
        Identity(
            "the gated RNN", PAPER, "The unit Euler step of (7) has input gate g and forget gate 1 - g.",
            **steps_to(with_speed(g), [g * tanhs[i] + (1 - g) * h[i] for i in units]), label="eq. 8",
        ),
        Identity(
            "a gate of the state", PAPER, "(7) with g = sigma(Wgx x + Wgh h + b_g), so h^g = h, is the global gated field.",
            right_sides(with_speed(gate(one_for_all, 0))), one_for_all.flow, label="eq. 9",
        ),
        Identity(
            "a gate for each unit", PAPER, "The unit Euler step of the field with a speed g^i for each unit i is (10).",
            **steps_to(per_unit, [own[i] * tanhs[i] + (1 - own[i]) * h[i] for i in units]), label="eq. 10",
        ),
        Identity(
            "clocks of uncoupled units", "this project", "Units that do not read one another may each change time by themselves.",
            **stacked(*(on_clock([alone[i]], clocks[i], [clocks[i].diff(t) * alone[i].rhs]) for i in units)),
            label="eq. 10, clocks",
        ),
        Identity(
            "one clock is not many", "this project",
            "A clock leaves the plain field's direction as it is; gates per unit turn it by (g_1 - g_2) F_1 F_2.",
            column(turning(right_sides(change_of_time(plain, c)), plain), turning(per_unit.flow, plain)),
            column(0, (own[0] - own[1]) * plain.flow[0] * plain.flow[1]), label="eq. 10, one clock",
        ),
    ]  # fmt: skip
