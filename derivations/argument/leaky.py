r"""A constant clock speed gives the leaky cell.

h' = tanh(Wx x + Wh h + b) - h              (3)    its unit Euler step is the RNN                     (2)
on c(t) = alpha t                           (1)    h' = alpha tanh(...) - alpha h                     (4)
unit Euler step of (4)                             h_{t+1} = alpha tanh(...) + (1 - alpha) h_t        (5)
no input, b = 0, Wh = 0                            h(t) = exp(-alpha (t - t0)) h(t0)                  footnote 3
"""

from __future__ import annotations

from typing import Any

from sympy import Derivative, Expr, ImmutableDenseMatrix, exp, tanh, zeros

from derivations.argument.clocks import on_clock
from derivations.argument.taylor import steps_to
from derivations.prover import symbols
from derivations.prover.identity import Identity, column
from derivations.twins import fields
from derivations.twins.fields import SymbolicField

__all__ = ["candidate", "identities", "free", "residual", "solved"]

PAPER = "tallec-ollivier-2018"
POSITIVE = ("alpha > 0",)


def candidate(field: SymbolicField, i: int) -> Expr:
    """tanh(sum_j Wx_ij x_j + sum_j Wh_ij h_j + b_i), the sums written out."""
    from_input = sum(w * x for w, x in zip(field.parameters["W_x"].row(i), field.inputs, strict=True))
    from_state = sum(w * h for w, h in zip(field.parameters["W_h"].row(i), field.state, strict=True))
    return tanh(from_input + from_state + field.parameters["b"][i])


def free(field: SymbolicField) -> SymbolicField:
    """The field without input, recurrent weights and bias: x(t) = 0, Wh = 0, b = 0."""
    shapes = {name: field.parameters[name].shape for name in ("W_h", "b")}
    quiet = field.substitute(**{name: ImmutableDenseMatrix(zeros(*shape)) for name, shape in shapes.items()})
    flow = quiet.flow.xreplace(dict.fromkeys(quiet.inputs, 0))
    return SymbolicField(field.name, field.source, field.state, (), {}, flow)


def residual(field: SymbolicField, solution: ImmutableDenseMatrix, time: Expr) -> ImmutableDenseMatrix:
    """d(solution)/dt minus the flow at the solution: 0 where it solves the field's equation."""
    return solution.diff(time) - field.flow.xreplace(dict(zip(field.state, solution, strict=True)))


def solved(field: SymbolicField, solution: ImmutableDenseMatrix, time: Expr) -> dict[str, Any]:
    """d(solution)/dt = the flow at the solution, both for the checker to find: as an `Identity` takes it."""
    slopes = column(*(Derivative(path, time) for path in solution))
    return {"lhs": slopes, "rhs": field.flow, "where": dict(zip(field.state, solution, strict=True))}


def identities() -> list[Identity]:
    """Eqs. (2) to (5) and what the constant means: a forgetting time of 1/alpha."""
    t, alpha, beta = symbols.t, symbols.alpha, symbols.beta
    plain, leaky = fields.plain(), fields.leaky()
    units = range(len(plain))
    tanhs, h = [candidate(plain, i) for i in units], plain.state
    starts = ImmutableDenseMatrix([symbols.h0, 2 * symbols.h0])  # two sizes: forgetting must not care
    forgetting = exp(-alpha * symbols.s) * starts
    return [
        Identity(
            "the RNN", PAPER, "The unit Euler step of the plain field (3) is the ordinary RNN.",
            **steps_to(plain, tanhs), label="eq. 2",
        ),
        Identity(
            "time rescaled", PAPER, "On the clock c(t) = alpha t the plain field (3) becomes the leaky field.",
            **on_clock(plain, alpha * t, [alpha * tanhs[i] - alpha * h[i] for i in units]),
            assumptions=POSITIVE, label="eq. 4",
        ),
        Identity(
            "the leaky RNN", PAPER, "The unit Euler step of the leaky field (4) is the leaky RNN.",
            **steps_to(leaky, [alpha * tanhs[i] + (1 - alpha) * h[i] for i in units]),
            assumptions=POSITIVE, label="eq. 5",
        ),
        Identity(
            "leaky fields are closed", PAPER, "On the clock beta t the leaky field alpha is the leaky field alpha beta.",
            **on_clock(leaky, beta * t, leaky.substitute(alpha=alpha * beta).flow),
            assumptions=("alpha > 0", "beta > 0"), label="below eq. 5",
        ),
        Identity(
            "free forgetting", PAPER, "exp(-alpha (t - t0)) h(t0) solves the leaky field without input, Wh and b.",
            **solved(free(leaky), forgetting, symbols.s), assumptions=(*POSITIVE, "s = t - t0 >= 0"), label="footnote 3",
        ),
    ]  # fmt: skip
