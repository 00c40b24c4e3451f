r"""Equality of the torch code and the papers' equations, proved for all weights.

    torch field -> recorded by torch -> graph of tensor operations -> each read as SymPy arithmetic -> dh/dt, for all weights

Every parameter entry is a letter, so an equality that is proved holds for all weights. A float in the code is the rational
number that it is, an int stays an int. Arithmetic is that of the real numbers: rounding is not part of the comparison.
Only this file and the room `derivations.tracing` see torch; the twins come from `derivations.twins.fields`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import sympy
import torch
from sympy import ImmutableDenseMatrix, Integer

import ctrnn
from ctrnn.fields.field import VectorField
from derivations.prover.identity import Identity
from derivations.tracing.readings.values import exact
from derivations.tracing.symbolic import symbolic
from derivations.twins import fields
from derivations.twins.fields import SymbolicField

__all__ = ["agreement_identities"]


def agreement_identities() -> Iterator[Identity]:
    r"""Every named field of ctrnn, as coded, against its twin from the papers with the parameters matched.

    Returns: identities one at a time, for each is traced when asked for.
    Source:  this project.
    """
    for name, coded, twin, match in _named():
        traced = symbolic(coded)
        written = twin.substitute(**match(traced.parameters))
        yield Identity(
            f"{name} as coded", "this project", f"ctrnn's {name} field, traced from its torch code, is the paper's equation.",
            traced.flow, written.flow.xreplace(dict(zip(written.state, traced.state, strict=True))), label=f"code, {name}",
        )  # fmt: skip


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
