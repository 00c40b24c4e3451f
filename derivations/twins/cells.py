r"""Writes discrete cells of other libraries as their papers and documentation do, for the i-th of n units and m inputs.

    rnn     tanh(W_ih x + b_ih + W_hh h + b_hh)                    torch.nn.RNNCell
    gru     (1 - z) n + z h                                        torch.nn.GRUCell
    lstm    c' = f c + i g,  h' = o tanh(c')                       torch.nn.LSTMCell
    cfc     (1 - sigma(t_a t + t_b)) tanh(f) + sigma(...) tanh(g)  Hasani et al. 2022, "Closed-form continuous-time networks"
    ltc     (c v + g v_l + sum w s e)/(c + g + sum w s)            Hasani et al. 2021, "Liquid time-constant networks"

Matrices are called as the parameters of the modules. Nothing is shared with the code that computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Dummy, Eq, Expr, MatrixSymbol, Rational, S, Sum, Symbol, tanh

from derivations.prover.notebook import Cells, NotebookTable
from derivations.twins.fields import sigma

__all__ = ["UnitEquations", "cfc_cell", "gru_cell", "lstm_cell", "ltc_cell", "rnn_cell"]

n, m = Symbol("n", integer=True, positive=True), Symbol("m", integer=True, positive=True)
i = Symbol("i", integer=True, nonnegative=True)


@dataclass(frozen=True)
class UnitEquations(NotebookTable):
    r"""Gives the next state of the i-th unit of a cell of any width.

    Args:    units: for each part of the state, a column of n, the right side; index: i, counted from 0 as torch does; inputs:
             the module's arguments in their order as columns, the state second, a tuple where it is one; unread: parameters
             on which the next state does not depend.
    """

    units: Mapping[MatrixSymbol, Expr]
    index: Symbol
    inputs: tuple[Any, ...]
    unread: tuple[MatrixSymbol, ...] = ()

    def _rows(self) -> Iterable[tuple[str, Cells]]:
        following = (Eq(Symbol(f"{unit}'_{self.index}"), right, evaluate=False) for unit, right in self.units.items())
        yield f"unit {self.index}, from 0 on", list(following)
        yield "not read", self.unread


x, h, c = (MatrixSymbol(name, size, 1) for name, size in (("x", m), ("h", n), ("c", n)))


def _row(matrix: str, rows: Expr, column: MatrixSymbol, place: Expr, columns: Expr | None = None, start: Expr = S.Zero) -> Expr:
    """sum_k W[place, start + k] x[k]; `columns` of W if it reads more than x."""
    k = Dummy("k", integer=True)
    weights = MatrixSymbol(matrix, rows, columns or column.shape[0])
    return Sum(weights[place, start + k] * column[k, 0], (k, 0, column.shape[0] - 1))


def _gates(count: int) -> list[tuple[Expr, Expr]]:
    """W_ih x + b_ih and W_hh h + b_hh of each gate, stacked along the rows as torch has them."""
    rows = count * n
    b_ih, b_hh = MatrixSymbol("bias_ih", rows, 1), MatrixSymbol("bias_hh", rows, 1)
    return [
        (_row("weight_ih", rows, x, g * n + i) + b_ih[g * n + i, 0], _row("weight_hh", rows, h, g * n + i) + b_hh[g * n + i, 0])
        for g in range(count)
    ]


def rnn_cell() -> UnitEquations:
    r"""tanh(W_ih x + b_ih + W_hh h + b_hh). Source: torch.nn.RNNCell's documentation."""
    ((from_input, from_state),) = _gates(1)
    return UnitEquations({h: tanh(from_input + from_state)}, i, (x, h))


def gru_cell() -> UnitEquations:
    r"""(1 - z) n + z h with n = tanh(W x + b + r (W h + b)). Source: torch.nn.GRUCell's documentation."""
    (xr, hr), (xz, hz), (xn, hn) = _gates(3)
    z, candidate = sigma(xz + hz), tanh(xn + sigma(xr + hr) * hn)
    return UnitEquations({h: (1 - z) * candidate + z * h[i, 0]}, i, (x, h))


def lstm_cell() -> UnitEquations:
    r"""c' = f c + i g and h' = o tanh(c'). Source: torch.nn.LSTMCell's documentation."""
    write, forget, candidate, read = (a + b for a, b in _gates(4))
    following = sigma(forget) * c[i, 0] + sigma(write) * tanh(candidate)
    return UnitEquations({h: sigma(read) * tanh(following), c: following}, i, (x, (h, c)))


def cfc_cell() -> UnitEquations:
    r"""tanh(f) (1 - s) + s tanh(g) with s = sigma(t_a t + t_b), of a backbone 1.7159 tanh(0.666 (W [x, h] + b)) of u units.

    Source:  Hasani et al. 2022, eq. (10), with the backbone and the constants of ncps' CfCCell in its default mode.
    """
    u, j = Symbol("u", integer=True, positive=True), Dummy("j", integer=True)
    ts = MatrixSymbol("ts", 1, 1)
    reads = _row("backbone.0.weight", u, x, j, m + n) + _row("backbone.0.weight", u, h, j, m + n, m)
    hidden = _float(1.7159) * tanh(_float(0.666) * (reads + MatrixSymbol("backbone.0.bias", u, 1)[j, 0]))

    def head(name: str) -> Expr:
        return Sum(MatrixSymbol(f"{name}.weight", n, u)[i, j] * hidden, (j, 0, u - 1)) + MatrixSymbol(f"{name}.bias", n, 1)[i, 0]

    share = sigma(head("time_a") * ts[0, 0] + head("time_b"))
    return UnitEquations({h: tanh(head("ff1")) * (1 - share) + share * tanh(head("ff2"))}, i, (x, h, ts))


def ltc_cell() -> UnitEquations:
    r"""One step of the fused solver: (c v + g v_l + sum_j w s e)/(c + g + sum_j w s + 1e-8), s = sigma(sigma_ji (v_j - mu_ji)).

    The sums run over the units and over the inputs a x + b, each with weights of its own; the time step is 1.

    Source:  Hasani et al. 2021, algorithm 1, with the masks of ncps' LTCCell and its constant against division by 0.
    """
    square, of_inputs = (n, n), (m, n)

    def column(name: str, size: Expr = n) -> MatrixSymbol:
        return MatrixSymbol(name, size, 1)

    def synapses(prefix: str, shape: tuple[Expr, Expr], source: Any) -> tuple[Expr, Expr]:
        j = Dummy("j", integer=True)
        w, mu, steep, mask, e = (
            MatrixSymbol(prefix + name, *shape)[j, i] for name in ("w", "mu", "sigma", "sparsity_mask", "erev")
        )
        active = w * sigma(steep * (source(j) - mu)) * mask
        return Sum(active * e, (j, 0, shape[0] - 1)), Sum(active, (j, 0, shape[0] - 1))

    drive, conductance = synapses("", square, lambda j: h[j, 0])
    from_input = synapses("sensory_", of_inputs, lambda j: x[j, 0] * column("input_w", m)[j, 0] + column("input_b", m)[j, 0])
    cm, leak, rest = (column(name)[i, 0] for name in ("cm", "gleak", "vleak"))
    above = cm * h[i, 0] + leak * rest + drive + from_input[0]
    below = cm + leak + conductance + from_input[1] + _float(1e-8)
    return UnitEquations({h: above / below}, i, (x, h), (column("output_w"), column("output_b")))


def _float(number: float) -> Rational:
    """Return the rational number that equals the code's constant."""
    return Rational(*number.as_integer_ratio())
