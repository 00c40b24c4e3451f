r"""The LSTM is a unit Euler step.

    i, f, o = sigma(...)                             (11), (12), (14)
    c_t = f c_{t-1} + i tanh(...)                    (13)      of    dc/dt = (f - 1) c + i g
    h_t = o tanh(c_t)                                (15)      of    dh/dt = o tanh(f c + i g) - h

With f = 1 - i the cell has one gate, and dc/dt = i (g - c): eq. (10) again, of rate i.
"""

from __future__ import annotations

from sympy import Expr, tanh

from derivations.argument.gru import total
from derivations.argument.taylor import steps_to
from derivations.prover.identity import Identity, column
from derivations.twins import fields
from derivations.twins.fields import SymbolicField, sigma

__all__ = ["identities"]

PAPER = "tallec-ollivier-2018"


def gate(field: SymbolicField, letter: str, k: int) -> Expr:
    """sigma(Wx x + Wh h + b) of unit k. Source: Tallec and Ollivier 2018, eqs. (11), (12) and (14)."""
    return sigma(total(field, f"W_x{letter}", f"W_h{letter}", f"b_{letter}", k))


def pull(field: SymbolicField, k: int) -> Expr:
    """tanh(W_xc x + W_hc h + b_c) of unit k. Source: eq. (13)."""
    return tanh(total(field, "W_xc", "W_hc", "b_c", k))


def cell(field: SymbolicField, k: int) -> Expr:
    """c_t of unit k. Source: eq. (13)."""
    c = field.state[len(field) // 2 + k]
    return gate(field, "f", k) * c + gate(field, "i", k) * pull(field, k)


def identities() -> list[Identity]:
    """Eqs. (13) and (15) as unit Euler steps, and the cell with its two gates tied."""
    field = fields.lstm()
    n = len(field) // 2
    units = range(n)
    visible, kept = field.equations[:n], field.equations[n:]
    tied = field.substitute(**{f"{w}f": -field.parameters[f"{w}i"] for w in ("W_x", "W_h", "b_")})
    return [
        Identity(
            "the LSTM's cell", PAPER, "The unit Euler step of dc/dt = (f - 1) c + i g is the LSTM's c_t.",
            **steps_to(kept, [cell(field, k) for k in units]), label="eq. 13",
        ),
        Identity(
            "the LSTM's output", PAPER, "The unit Euler step of dh/dt = o tanh(f c + i g) - h is the LSTM's h_t = o tanh(c_t).",
            **steps_to(visible, [gate(field, "o", k) * tanh(cell(field, k)) for k in units]), label="eq. 15",
        ),
        Identity(
            "gates tied", PAPER, "With f = 1 - i the cell relaxes with one rate: dc/dt = i (g - c).",
            tied.flow[n:, :], column(*(gate(field, "i", k) * (pull(field, k) - field.state[n + k]) for k in units)),
            label="below eq. 10",
        ),
    ]  # fmt: skip
