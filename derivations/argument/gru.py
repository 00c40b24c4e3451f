r"""The GRU is a unit Euler step.

    h' = (1 - z) (n - h)      =>      h_{t+1} = (1 - z) n + z h_t          torch.nn.GRU: z multiplies the old state

The rate is 1 - z, and 1 - sigma(a) = sigma(-a): it is a gate with all signs turned.
"""

from __future__ import annotations

from sympy import Expr, tanh

from derivations.argument.taylor import steps_to
from derivations.prover import symbols
from derivations.prover.identity import Identity, column
from derivations.twins import fields
from derivations.twins.fields import SymbolicField, sigma

__all__ = ["identities", "total"]


def total(field: SymbolicField, x_name: str | None, h_name: str | None, b_name: str, i: int) -> Expr:
    """sum_j Wx_ij x_j + sum_j Wh_ij h_j + b_i, either sum left out where its name is None."""
    value = field.parameters[b_name][i]
    if x_name is not None:
        value += sum(w * x for w, x in zip(field.parameters[x_name].row(i), field.inputs, strict=True))
    if h_name is not None:
        hidden = field.state[: field.parameters[h_name].cols]
        value += sum(w * h for w, h in zip(field.parameters[h_name].row(i), hidden, strict=True))
    return value


def cell(field: SymbolicField, i: int) -> Expr:
    r"""(1 - z) n + z h for unit i, as torch computes it. Source: torch.nn.GRUCell's equations."""
    r = sigma(total(field, "W_xr", "W_hr", "b_r", i))
    z = sigma(total(field, "W_xz", "W_hz", "b_z", i))
    n = tanh(total(field, "W_xn", None, "b_n", i) + r * total(field, None, "W_hn", "b_hn", i))
    return (1 - z) * n + z * field.state[i]


def identities() -> list[Identity]:
    """The GRU as a unit Euler step of rate 1 - z, and that rate as a gate."""
    field, a = fields.gru(), symbols.h0
    units = range(len(field))
    z = column(*(sigma(total(field, "W_xz", "W_hz", "b_z", i)) for i in units))
    turned = z.xreplace({w: -w for name in ("W_xz", "W_hz", "b_z") for w in field.parameters[name]})
    return [
        Identity(
            "a gate turned round", "this project", "1 - sigma(a) = sigma(-a).",
            1 - sigma(a), sigma(-a), label="sigmoid",
        ),
        Identity(
            "the GRU", "this project", "The unit Euler step of h' = (1 - z) (n - h) is torch.nn.GRU, (1 - z) n + z h.",
            **steps_to(field, [cell(field, i) for i in units]), label="torch.nn.GRU",
        ),
        Identity(
            "the GRU's rate", "this project", "The GRU's rate 1 - z is a gate: that of z with all weights and biases negated.",
            column(*(1 - z[i] for i in units)), turned, label="torch.nn.GRU, rate",
        ),
    ]  # fmt: skip
