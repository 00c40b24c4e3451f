r"""Equality of the torch code and the papers' equations, proved for all weights.

    torch field -> recorded by torch -> graph of tensor operations -> each read as SymPy arithmetic -> dh/dt, for all weights

Every parameter entry is a letter, so an equality that is proved holds for all weights. A float in the code is the rational
number that it is, an int stays an int. Arithmetic is that of the real numbers: rounding is not part of the comparison.
Only this file and the room `derivations.tracing` see torch; the twins come from `derivations.twins`. Of published cells it is
the recurrence that is compared, with a step map of their field whose length is a letter.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import sympy
import torch
from sympy import Expr, ImmutableDenseMatrix, Integer, Rational
from torch import Tensor, nn

import ctrnn
import discretize
from ctrnn.fields.field import VectorField
from derivations.prover.identity import Identity
from derivations.tracing.readings.values import exact
from derivations.tracing.symbolic import symbolic
from derivations.twins import fields, recurrences
from derivations.twins.fields import SymbolicField

__all__ = ["agreement_identities"]


def agreement_identities() -> Iterator[Identity]:
    r"""Every named field of ctrnn, as coded, against its twin from the papers with the parameters matched, and published cells
    as they are stepped against what their papers print.

    Returns: identities one at a time, for each is traced when asked for.
    Source:  this project.
    """
    for name, coded, twin, match in _named():
        traced = symbolic(coded)
        written = twin.substitute(**match(traced.parameters))
        yield Identity(
            f"{name} as coded", "this project", f"ctrnn's {name} field, traced from its torch code, is its source's equation.",
            traced.flow, written.flow.xreplace(dict(zip(written.state, traced.state, strict=True))), label=f"code, {name}",
        )  # fmt: skip
    yield from itertools.starmap(_published, _recurrences())


Parameters = Mapping[str, ImmutableDenseMatrix]
Match = Callable[[Parameters], dict[str, ImmutableDenseMatrix]]


def _named() -> Iterator[tuple[str, VectorField, SymbolicField, Match]]:
    """Name, torch field, twin, and the twin's parameters in the torch field's letters."""
    float64: dict[str, Any] = {"dtype": torch.float64}
    yield "plain", ctrnn.plain(1, 2, **float64), fields.plain(), _candidate
    yield "leaky", ctrnn.leaky(1, 2, **float64), fields.leaky(), _leaky
    yield "gated", ctrnn.gated(1, 2, **float64), fields.gated(), _gated
    yield "gated, global", ctrnn.gated(1, 2, "global", **float64), fields.gated(gate="global"), _gated
    yield "gated, network", ctrnn.gated(1, 2, "network", **float64), fields.gated(gate="network"), _network_gated
    for exponent, word in ((2.0, "2"), (0.5, "1/2"), (0.0, "0")):
        decay, twin = ctrnn.PowerDecay(exponent), fields.power_decay(exact(exponent))
        yield f"leaky, |h|^{word} h", ctrnn.leaky(1, 2, decay=decay, **float64), fields.leaky(decay=twin), _leaky
    decay, twin = ctrnn.PowerDecay(2.0), fields.power_decay(Integer(2))
    yield "gated, |h|^2 h", ctrnn.gated(1, 2, decay=decay, **float64), fields.gated(decay=twin), _gated
    for rate in ("softplus", "exponential"):
        yield f"gated, {rate}", ctrnn.gated(1, 2, rate=rate, **float64), fields.gated(rate=rate), _gated
    yield "gru", ctrnn.gru(1, 2, **float64), fields.gru(), _gru
    yield "lstm", ctrnn.lstm(1, 2, **float64), fields.lstm(), _lstm
    yield "lstm, |c|^2 c", ctrnn.lstm(1, 2, decay=ctrnn.PowerDecay(2.0), **float64), fields.lstm(decay=twin), _lstm


def _candidate(p: Parameters) -> dict[str, ImmutableDenseMatrix]:
    return {"W_x": p["candidate.weight_x"], "W_h": p["candidate.weight_h"], "b": p["candidate.bias"]}


def _leaky(p: Parameters) -> dict[str, ImmutableDenseMatrix]:
    return {**_candidate(p), "alpha": p["rate.log_alpha"].applyfunc(sympy.exp)}


def _gated(p: Parameters) -> dict[str, ImmutableDenseMatrix]:
    return {**_candidate(p), "W_gx": p["rate.weight_x"], "W_gh": p["rate.weight_h"], "b_g": p["rate.bias"]}


def _network_gated(p: Parameters) -> dict[str, ImmutableDenseMatrix]:
    own = {"V_x": p["network.candidate.weight_x"], "V_h": p["network.candidate.weight_h"], "v": p["network.candidate.bias"]}
    return {**_gated(p), **own}


def _gru(p: Parameters) -> dict[str, ImmutableDenseMatrix]:
    reset, pull = "candidate.reset", "candidate.pull"
    return {
        "W_xr": p[f"{reset}.weight_x"], "W_hr": p[f"{reset}.weight_h"], "b_r": p[f"{reset}.bias"],
        "W_xn": p[f"{pull}.weight_x"], "W_hn": p[f"{pull}.weight_h"], "b_n": p[f"{pull}.bias"], "b_hn": p["candidate.bias_h"],
        # torch's z multiplies the old state, ctrnn's rate is 1 - z: all signs turn.
        "W_xz": -p["rate.weight_x"], "W_hz": -p["rate.weight_h"], "b_z": -p["rate.bias"],
    }  # fmt: skip


def _lstm(p: Parameters) -> dict[str, ImmutableDenseMatrix]:
    n = p["gates.weight_h"].cols
    # torch's g is the papers' tanh(W_xc x + W_hc h + b_c).
    return {
        f"{twin}{letter}": p[f"gates.{torch_name}"][k * n : (k + 1) * n, :]
        for k, letter in enumerate("ifco")
        for twin, torch_name in (("W_x", "weight_x"), ("W_h", "weight_h"), ("b_", "bias"))
    }


Recurrence = Callable[[Parameters, ImmutableDenseMatrix, ImmutableDenseMatrix, Expr], ImmutableDenseMatrix]


class _Stepped(nn.Module):
    """A field's next state by a step map, whose length is a parameter, so that what is proved is proved of every length."""

    def __init__(self, field: VectorField, step: discretize.Step) -> None:
        super().__init__()
        self.field, self.step, self.dt = field, step, nn.Parameter(torch.ones((), dtype=torch.float64))
        self.input_size, self.hidden_size = field.input_size, field.state_size

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        return self.step.advance(self.field, self.field.project(x), h, self.dt)


def _published(name: str, field: VectorField, step: discretize.Step, printed: Recurrence, constants: str) -> Identity:
    traced = symbolic(_Stepped(field, step))
    letters = {key.removeprefix("field."): value for key, value in traced.parameters.items()}
    state, inputs = ImmutableDenseMatrix(traced.state), ImmutableDenseMatrix(traced.inputs)
    kind = type(step).__name__
    return Identity(
        f"{name} as stepped", "this project",
        f"The {kind} step of ctrnn's {name} field, traced from its torch code, is the paper's recurrence, for every length dt.",
        traced.flow, printed(letters, inputs, state, letters["dt"][0]), label=f"code, {name}, {kind}",
        assumptions=(constants,) if constants else (),
    )  # fmt: skip


def _recurrences() -> Iterator[tuple[str, VectorField, discretize.Step, Recurrence, str]]:
    """Name, torch field, the step map that the paper takes, what it prints, and the constants that are numbers here."""
    float64: dict[str, Any] = {"dtype": torch.float64}
    euler, symplectic = discretize.Euler(), discretize.SymplecticEuler()
    quarter, half = Rational(1, 4), Rational(1, 2)
    yield "mgu", ctrnn.mgu(1, 2, **float64), euler, recurrences.mgu, ""
    for depth in (1, 2):
        deep = ctrnn.rhn(1, 2, depth, **float64)
        yield f"rhn of depth {depth}", deep, euler, partial(recurrences.rhn, depth=depth), ""
    yield "glnn", ctrnn.glnn(2, 2, **float64), euler, recurrences.glnn, ""
    yield "gnn", ctrnn.gnn(2, 2, **float64), euler, recurrences.gnn, ""
    for name, gated, printed in (
        ("antisymmetric", False, recurrences.antisymmetric), ("gated antisymmetric", True, recurrences.gated_antisymmetric),
    ):  # fmt: skip
        field = ctrnn.antisymmetric(1, 2, 0.25, gated, **float64)
        yield name, field, euler, partial(printed, gamma=quarter), "gamma = 1/4"
    coupled = ctrnn.cornn(1, 2, 0.25, 0.5, **float64)
    printed = partial(recurrences.cornn, gamma=quarter, epsilon=half)
    yield "cornn", coupled, symplectic, printed, "gamma = 1/4, epsilon = 1/2"
    alone = ctrnn.unicornn(1, 2, 0.25, **float64)
    yield "unicornn", alone, symplectic, partial(recurrences.unicornn, alpha=quarter), "alpha = 1/4"
    yield "lem", ctrnn.lem(1, 2, **float64), symplectic, recurrences.lem, ""
