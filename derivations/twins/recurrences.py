r"""Published recurrent cells as their papers print them: the next state, of letters that are given.

    mgu             (1 - f) h + f tanh(Wx x + Wh (f h) + b)                  Zhou et al. 2016
    antisymmetric   h + epsilon tanh((W - W^T - gamma) h + V x + b)          Chang et al. 2019, and gated
    cornn           z' = z + dt (tanh(...) - gamma y - epsilon z)            Rusch and Mishra 2021, y' = y + dt z'
    unicornn        z' = z - dt g (tanh(w y + V x + b) + alpha y)            Rusch and Mishra 2021, y' = y + dt g z'
    lem             z' = (1 - dt g1) z + dt g1 tanh(Wz y + Vz x + bz)        Rusch et al. 2022, y' likewise, by z'
    rhn             s_l = t_l tanh(a_l) + (1 - t_l) s_(l-1), s_0 = h         Zilly et al. 2017, carry gates 1 - t
    glnn            V_j + sum_i tau_ijx s(V_i)                               Ollivier 2013, eq. (13), i = 0 always on
    gnn             s(sum_i tau_ijx a_i)                                     Ollivier 2013, eqs. (10), (11)

Matrices are called as the parameters of ctrnn's fields. Nothing is shared with the code that computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from sympy import Expr, ImmutableDenseMatrix, diag, tanh, zeros

from derivations.twins.fields import sigma

__all__ = ["antisymmetric", "cornn", "gated_antisymmetric", "glnn", "gnn", "lem", "mgu", "rhn", "unicornn"]

Column: TypeAlias = ImmutableDenseMatrix
Parameters: TypeAlias = Mapping[str, ImmutableDenseMatrix]


def mgu(p: Parameters, x: Column, h: Column, dt: Expr) -> Column:
    """The gate stands before the product, in h~ = tanh(W [f h, x] + b); the paper's dt is 1."""
    f = _affine(p, "rate", x, h).applyfunc(sigma)
    new = _affine(p, "candidate", x, diag(*f) * h).applyfunc(tanh)
    return h + dt * (diag(*f) * new - diag(*f) * h)


def antisymmetric(p: Parameters, x: Column, h: Column, dt: Expr, gamma: Expr) -> Column:
    """dt is the paper's epsilon."""
    return h + dt * (_turned(p, h, gamma) + p["weight_x"] * x + p["bias"]).applyfunc(tanh)


def gated_antisymmetric(p: Parameters, x: Column, h: Column, dt: Expr, gamma: Expr) -> Column:
    """The rows of V are those of the tanh, then those of the gate."""
    n, read = h.rows, p["weight_x"] * x + p["bias"]
    z = (_turned(p, h, gamma) + read[n:, :]).applyfunc(sigma)
    return h + dt * diag(*z) * (_turned(p, h, gamma) + read[:n, :]).applyfunc(tanh)


def cornn(p: Parameters, x: Column, state: Column, dt: Expr, gamma: Expr, epsilon: Expr) -> Column:
    """z by the old y and z, and y by the new z: the paper's scheme with explicit damping."""
    y, z = _halves(state)
    force = _affine(p, "force", x, state).applyfunc(tanh)
    z_next = z + dt * force - dt * gamma * y - dt * epsilon * z
    return _joined(y + dt * z_next, z_next)


def unicornn(p: Parameters, x: Column, state: Column, dt: Expr, alpha: Expr) -> Column:
    """With 1/2 + tanh(c/2)/2, the paper's, for the speed of a unit."""
    y, z = _halves(state)
    speed = diag(*((1 + tanh(c / 2)) / 2 for c in p["c"]))
    pulled = (diag(*p["weight_h"]) * y + p["weight_x"] * x + p["bias"]).applyfunc(tanh)
    z_next = z - dt * speed * (pulled + alpha * y)
    return _joined(y + dt * speed * z_next, z_next)


def lem(p: Parameters, x: Column, state: Column, dt: Expr) -> Column:
    """z first, then y by the new z; both time steps, dt times a gate, by the old y."""
    y, z = _halves(state)
    n, read = y.rows, _affine(p, "gates", x, y)
    of_y, of_z = (diag(*gate.applyfunc(sigma)) for gate in (read[:n, :], read[n : 2 * n, :]))
    pull = read[2 * n :, :].applyfunc(tanh)
    z_next = z - dt * of_z * z + dt * of_z * pull
    return _joined(y - dt * of_y * y + dt * of_y * _affine(p, "candidate", x, z_next).applyfunc(tanh), z_next)


def rhn(p: Parameters, x: Column, h: Column, dt: Expr, depth: int) -> Column:
    """Transform and carry gates as two; x is read in the first layer. The paper's dt is 1."""
    n, carried = h.rows, h
    for k in range(depth):
        read = p[f"layers.{k}.weight_h"] * carried + p[f"layers.{k}.bias"]
        read = read + p["layers.0.weight_x"] * x if k == 0 else read
        transform = read[n:, :].applyfunc(sigma)
        carry = transform.applyfunc(lambda t: 1 - t)
        carried = diag(*transform) * read[:n, :].applyfunc(tanh) + diag(*carry) * carried
    return (1 - dt) * h + dt * carried


def glnn(p: Parameters, x: Column, h: Column, dt: Expr) -> Column:
    """dt is 1 in eq. (13), and stands before the sum in eq. (12)."""
    return h + dt * _heard(p, "incoming", x, h.applyfunc(tanh))


def gnn(p: Parameters, x: Column, h: Column, dt: Expr) -> Column:
    """The paper's dt is 1."""
    return h + dt * (_heard(p, "candidate", x, h).applyfunc(tanh) - h)


def _heard(p: Parameters, part: str, x: Column, a: Column) -> Column:
    """sum_i tau_ijx a_i, i = 0 among them: the rows of tau are all units j for the first symbol, then for the next."""
    n, tau, always_on = a.rows, p[f"{part}.weight"], p[f"{part}.bias"]
    of_symbols = (x[k] * (tau[k * n : (k + 1) * n, :] * a + always_on[k, :].T) for k in range(x.rows))
    return sum(of_symbols, zeros(n, 1))


def _affine(p: Parameters, part: str, x: Column, h: Column) -> Column:
    return p[f"{part}.weight_x"] * x + p[f"{part}.weight_h"] * h + p[f"{part}.bias"]


def _turned(p: Parameters, h: Column, gamma: Expr) -> Column:
    W = p["weight_h"]
    return W * h - W.T * h - gamma * h


def _halves(state: Column) -> tuple[Column, Column]:
    return state[: state.rows // 2, :], state[state.rows // 2 :, :]


def _joined(first: Column, second: Column) -> Column:
    return ImmutableDenseMatrix([*first, *second])
