r"""Writes the named fields as the papers do: dh/dt for a few units, with a letter for each weight.

    plain    tanh(Wx x + Wh h + b) - h                            Tallec and Ollivier 2018, eq. (3)
    leaky    alpha (tanh(Wx x + Wh h + b) - h)                    eq. (4)
    gated    g (tanh(Wx x + Wh h + b) - h), g = sigma(...)        eqs. (7), (9), (10)
    gru      (1 - z) (n - h)                                      torch.nn.GRU's r, z, n
    lstm     dc/dt = (f - 1) c + i g, dh/dt = o tanh(f c + i g) - h      eqs. (11)-(15)

`leaky` and `gated` take another decay than h: |h|^r h, Ohno and Kumagai 2021, eq. (22). Nothing is shared with the code
that computes: these are a second reading of the same pages.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import sympy
from sympy import Abs, Basic, Derivative, Eq, Expr, ImmutableDenseMatrix, Symbol, diag, exp, log, tanh

from derivations.prover import symbols
from derivations.prover.formulas import latex_of
from derivations.prover.notebook import Cells, NotebookTable

__all__ = [
    "SymbolicField",
    "SymbolicStep",
    "gated",
    "glnn",
    "gru",
    "leaky",
    "linear_decay",
    "lstm",
    "lstm_read_out",
    "plain",
    "power_decay",
    "sigma",
    "softplus",
]

Decay = Callable[[Expr], Expr]


@dataclass(frozen=True)
class _System(NotebookTable, ABC):
    name: str
    source: str
    state: tuple[Expr, ...]
    inputs: tuple[Expr, ...]
    parameters: Mapping[str, ImmutableDenseMatrix]
    flow: ImmutableDenseMatrix
    defined_on: tuple[Basic, ...] = ()

    @property
    @abstractmethod
    def left_sides(self) -> tuple[Expr, ...]:
        """Return the left sides: dh_i/dt, or the next h_i."""

    @property
    def equations(self) -> tuple[Eq, ...]:
        # Unevaluated: where the flow is 0, Eq would look for a verdict of its own.
        return tuple(Eq(left, right, evaluate=False) for left, right in zip(self.left_sides, self.flow, strict=True))

    def __iter__(self) -> Iterator[Eq]:
        return iter(self.equations)

    def __len__(self) -> int:
        return len(self.state)

    def __getitem__(self, i: int) -> Eq:
        return self.equations[i]

    def latex(self) -> str:
        """Return the equations in LaTeX, one a line, for an `aligned` environment."""
        return " \\\\\n".join(latex_of(equation).replace(" = ", " &= ", 1) for equation in self)

    def _rows(self) -> Iterable[tuple[str, Cells]]:
        yield self.name, self.equations
        yield "defined on", self.defined_on

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle\n\\begin{{aligned}}\n{self.latex()}\n\\end{{aligned}}$"


@dataclass(frozen=True)
class SymbolicField(_System):
    r"""dh/dt = flow, with the letters it is written in; iterating gives the equations Eq(dh_i/dt, flow_i).

    Args:    name, source; state, inputs: functions of time; parameters: a matrix for each name; flow: a column; defined_on:
             the conditions under which it is defined, where the letters' assumptions do not grant it; diffusion: G of a field
             with noise, dh = flow dt + G dW, a column for each Brownian motion.
    """

    diffusion: ImmutableDenseMatrix | None = None

    @property
    def left_sides(self) -> tuple[Expr, ...]:
        return tuple(Derivative(h, symbols.t) for h in self.state)

    def _rows(self) -> Iterable[tuple[str, Cells]]:
        yield from super()._rows()
        if self.diffusion is not None:
            yield "and G dW, G", [self.diffusion]

    def substitute(self, **parameters: Expr | ImmutableDenseMatrix) -> SymbolicField:
        """Return the field with new values for some parameters, each of the old one's shape.

        Raises:  ValueError for a name the field does not have, or a value of another shape.
        """
        values: dict[Expr, Expr] = {}
        for name, given in parameters.items():
            if name not in self.parameters:
                raise ValueError(f"`{self.name}` has the parameters {', '.join(self.parameters)}, not {name!r}.")
            old = self.parameters[name]
            new = given if isinstance(given, sympy.MatrixBase) else ImmutableDenseMatrix([given])
            if new.shape != old.shape:
                raise ValueError(f"`{name}` has shape {old.shape}, got {new.shape}.")
            values.update(zip(old, new, strict=True))
        kept = {name: value for name, value in self.parameters.items() if name not in parameters}
        diffusion = None if self.diffusion is None else self.diffusion.xreplace(values)
        return replace(self, parameters=kept, flow=self.flow.xreplace(values), diffusion=diffusion)


@dataclass(frozen=True)
class SymbolicStep(_System):
    r"""next state = flow: a discrete cell; iterating gives the equations Eq(h_i', flow_i), with h_i' for the next h_i.

    Args:    as for `SymbolicField`, with plain letters for state and inputs.
    """

    @property
    def left_sides(self) -> tuple[Expr, ...]:
        return tuple(Symbol(f"{h}'", real=True) for h in self.state)


def sigma(a: Expr) -> Expr:
    """The logistic sigmoid."""
    return 1 / (1 + exp(-a))


def linear_decay(h: Expr) -> Expr:
    """h: forgets like exp(-t). Source: Tallec and Ollivier 2018, eq. (3)."""
    return h


def power_decay(exponent: Expr) -> Decay:
    """|h|^r h: forgets like t^(-1/r). Source: Ohno and Kumagai 2021, eqs. (19) and (22)."""

    def decay(h: Expr) -> Expr:
        return Abs(h) ** exponent * h

    return decay


class _Letters:
    """Makes the letters of one field: its state, its inputs, and its parameters."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        self.input_size, self.hidden_size = input_size, hidden_size
        self.h = ImmutableDenseMatrix(symbols.state(hidden_size))
        self.x = ImmutableDenseMatrix(symbols.inputs(input_size))
        self.parameters: dict[str, ImmutableDenseMatrix] = {}

    def weight(self, name: str, rows: int, columns: int) -> ImmutableDenseMatrix:
        return self.parameters.setdefault(name, symbols.weights(name, rows, columns))

    def bias(self, name: str, rows: int) -> ImmutableDenseMatrix:
        return self.parameters.setdefault(name, symbols.biases(name, rows))

    def affine(self, x_name: str, h_name: str, b_name: str, rows: int | None = None) -> ImmutableDenseMatrix:
        """Wx x + Wh h + b."""
        n = self.hidden_size if rows is None else rows
        from_input = self.weight(x_name, n, self.input_size) * self.x
        from_state = self.weight(h_name, n, self.hidden_size) * self.h
        return from_input + from_state + self.bias(b_name, n)

    def candidate(self) -> ImmutableDenseMatrix:
        return self.affine("W_x", "W_h", "b").applyfunc(tanh)

    def field(self, name: str, source: str, flow: ImmutableDenseMatrix, rest: tuple[Expr, ...] = ()) -> SymbolicField:
        return SymbolicField(name, source, (*self.h, *rest), tuple(self.x), self.parameters, ImmutableDenseMatrix(flow))


def plain(input_size: int = 1, hidden_size: int = 2) -> SymbolicField:
    r"""tanh(Wx x + Wh h + b) - h. Source: Tallec and Ollivier 2018, eq. (3)."""
    letters = _Letters(input_size, hidden_size)
    return letters.field("plain", "tallec-ollivier-2018", letters.candidate() - letters.h)


def leaky(input_size: int = 1, hidden_size: int = 2, *, decay: Decay = linear_decay) -> SymbolicField:
    r"""alpha tanh(Wx x + Wh h + b) - alpha decay(h).

    Source:  Tallec and Ollivier 2018, eq. (4); with `power_decay`, Ohno and Kumagai 2021, eq. (22).
    """
    letters = _Letters(input_size, hidden_size)
    letters.parameters["alpha"] = ImmutableDenseMatrix([symbols.alpha])
    flow = symbols.alpha * letters.candidate() - symbols.alpha * letters.h.applyfunc(decay)
    return letters.field("leaky", "tallec-ollivier-2018", flow)


def softplus(a: Expr) -> Expr:
    """log(1 + e^a), the rate of which sigma is the gate. Source: Gu and Dao 2023, Theorem 1."""
    return log(1 + exp(a))


SPEEDS: Mapping[str, Callable[[Expr], Expr]] = {"sigmoid": sigma, "softplus": softplus, "exponential": exp}


def gated(
    input_size: int = 1, hidden_size: int = 2, gate: str = "unit", *, rate: str = "sigmoid", decay: Decay = linear_decay
) -> SymbolicField:
    r"""g tanh(Wx x + Wh h + b) - g decay(h) with g = sigma(Wgx x + Wgh h + b_g), one g ("global") or one per unit.

    With "network" the one g reads h^g in place of h, and dh^g/dt = tanh(Vx x + Vh h^g + v) - h^g; the state is [h, h^g].
    With the rates "softplus" and "exponential", log(1 + e^a) and e^a stand in place of sigma(a).

    Raises:  ValueError for another gate or rate.
    Source:  Tallec and Ollivier 2018, eqs. (7), (9) and (10), with h^g the state itself but for "network".
    """
    rows = {"unit": hidden_size, "global": 1, "network": 1}
    if gate not in rows:
        raise ValueError(f"`gate` must be one of {', '.join(map(repr, rows))}, got {gate!r}.")
    if rate not in SPEEDS:
        raise ValueError(f"`rate` must be one of {', '.join(map(repr, SPEEDS))}, got {rate!r}.")
    if gate == "network":
        return _network_gated(input_size, hidden_size, SPEEDS[rate], decay)
    letters = _Letters(input_size, hidden_size)
    g = letters.affine("W_gx", "W_gh", "b_g", rows[gate]).applyfunc(SPEEDS[rate])
    clocks = diag(*(g[i if gate == "unit" else 0] for i in range(hidden_size)))
    flow = clocks * letters.candidate() - clocks * letters.h.applyfunc(decay)
    return letters.field("gated", "tallec-ollivier-2018", flow)


def _network_gated(input_size: int, hidden_size: int, speed: Callable[[Expr], Expr], decay: Decay) -> SymbolicField:
    letters = _Letters(input_size, hidden_size)
    states = symbols.signals("h^g", hidden_size)
    other = ImmutableDenseMatrix(states)
    reads = letters.weight("W_gx", 1, input_size) * letters.x + letters.weight("W_gh", 1, hidden_size) * other
    g = speed((reads + letters.bias("b_g", 1))[0])
    own = letters.weight("V_x", hidden_size, input_size) * letters.x + letters.weight("V_h", hidden_size, hidden_size) * other
    body = g * letters.candidate() - g * letters.h.applyfunc(decay)
    network = (own + letters.bias("v", hidden_size)).applyfunc(tanh) - other
    return letters.field("gated", "tallec-ollivier-2018", ImmutableDenseMatrix([*body, *network]), rest=states)


def glnn(symbols_read: int = 2, hidden_size: int = 2) -> SymbolicField:
    r"""dV_j/dt = sum_x x_x (tau_0jx + sum_i tau_ijx tanh(V_i)): the symbol just read, one-hot in x, picks the weights.

    Source:  Ollivier 2013, eqs. (12) and (13), with the always-activated unit 0 written out and s = tanh.
    """
    letters = _Letters(symbols_read, hidden_size)
    active = letters.h.applyfunc(tanh)
    flow = ImmutableDenseMatrix.zeros(hidden_size, 1)
    for k, x in enumerate(letters.x, 1):
        weights = letters.weight(f"T_{k}", hidden_size, hidden_size)
        flow += x * (weights * active + letters.bias(f"t_{k}", hidden_size))
    return letters.field("glnn", "ollivier-2013-riemannian-metrics-ii", flow)


def gru(input_size: int = 1, hidden_size: int = 2) -> SymbolicField:
    r"""(1 - z) (n - h) with r, z = sigma(...) and n = tanh(Wxn x + b_n + r * (Whn h + b_hn)).

    z multiplies the old state, as in torch.nn.GRU. Its two biases in r and z only ever add; here they are one.

    Source:  torch.nn.GRUCell's equations; Tallec and Ollivier 2018, eq. (10).
    """
    letters = _Letters(input_size, hidden_size)
    r = letters.affine("W_xr", "W_hr", "b_r").applyfunc(sigma)
    z = letters.affine("W_xz", "W_hz", "b_z").applyfunc(sigma)
    past = letters.weight("W_hn", hidden_size, hidden_size) * letters.h + letters.bias("b_hn", hidden_size)
    present = letters.weight("W_xn", hidden_size, input_size) * letters.x + letters.bias("b_n", hidden_size)
    n = (present + diag(*r) * past).applyfunc(tanh)
    return letters.field(
        "gru", "this project", ImmutableDenseMatrix([(1 - z[i]) * (n[i] - letters.h[i]) for i in range(hidden_size)])
    )


def lstm(input_size: int = 1, hidden_size: int = 2, *, decay: Decay = linear_decay) -> SymbolicField:
    r"""dc/dt = i g - (1 - f) decay(c) and dh/dt = o tanh(c + dc/dt) - h, on the state [h, c].

    Source:  Tallec and Ollivier 2018, eqs. (11)-(15), read as a unit Euler step; that reading is this project's.
    """
    letters = _Letters(input_size, hidden_size)
    cells = symbols.signals("c", hidden_size)
    i, f, o = (letters.affine(f"W_x{k}", f"W_h{k}", f"b_{k}").applyfunc(sigma) for k in "ifo")
    g = letters.affine("W_xc", "W_hc", "b_c").applyfunc(tanh)
    units = range(hidden_size)
    dc = [(f[k] - 1) * decay(cells[k]) + i[k] * g[k] for k in units]
    dh = [o[k] * tanh(cells[k] - decay(cells[k]) + f[k] * decay(cells[k]) + i[k] * g[k]) - letters.h[k] for k in units]
    return letters.field("lstm", "tallec-ollivier-2018", ImmutableDenseMatrix([*dh, *dc]), rest=cells)


def lstm_read_out(input_size: int = 1, hidden_size: int = 2) -> SymbolicField:
    r"""dc/dt = (f - 1) c + i g on the state c alone, with h = o tanh(c) read out of it wherever the gates read h.

    The output gate o reads x only: with recurrent weights it would read h, and h would be defined by itself.

    Source:  Tallec and Ollivier 2018, eqs. (11)-(15), read so that (15) holds at all times; the reading is this project's.
    """
    letters = _Letters(input_size, hidden_size)
    cells, units = letters.h, range(hidden_size)
    output = (letters.weight("W_xo", hidden_size, input_size) * letters.x + letters.bias("b_o", hidden_size)).applyfunc(sigma)
    letters.h = ImmutableDenseMatrix([output[k] * tanh(cells[k]) for k in units])
    i, f = (letters.affine(f"W_x{k}", f"W_h{k}", f"b_{k}").applyfunc(sigma) for k in "if")
    g = letters.affine("W_xc", "W_hc", "b_c").applyfunc(tanh)
    letters.h = cells
    flow = ImmutableDenseMatrix([(f[k] - 1) * cells[k] + i[k] * g[k] for k in units])
    return letters.field("lstm, read out", "tallec-ollivier-2018", flow)
