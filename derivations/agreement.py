r"""Equality of the torch code and the papers' equations, proved for all weights.

    torch field -> torch.export -> graph of tensor operations -> each read as SymPy arithmetic -> dh/dt, for all weights

Every parameter entry is a letter, so an equality that is proved holds for all weights. A float in the code is the rational
number that it is, an int stays an int. Arithmetic is that of the real numbers: rounding is not part of the comparison.
This is the only file here that sees torch, and the twins it compares with come from `derivations.twins.fields`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

import numpy as np
import sympy
import torch
from sympy import Eq, ImmutableDenseMatrix, Integer, S
from sympy.core.function import AppliedUndef
from torch.export.graph_signature import InputKind, OutputKind

import ctrnn
from ctrnn.fields.field import VectorField
from derivations.operations import OPERATIONS, Entries, exact
from derivations.prover import symbols
from derivations.prover.identity import Identity, check
from derivations.prover.verdict import Verdict
from derivations.twins import fields
from derivations.twins.fields import SymbolicField

__all__ = ["UnknownOperation", "agreement_identities", "symbolic", "verify"]


class UnknownOperation(NotImplementedError):  # noqa: N818 - said of the operation, as KeyError's kin say it of the key
    """The field's code uses a tensor operation that has no reading in SymPy here."""


def symbolic(field: VectorField) -> SymbolicField:
    r"""The equations of the torch code itself.

    Args:    field: a small field (two units are enough to see all there is to see).
    Returns: a `SymbolicField`: its parameters are the torch names, `parameters["rate.bias"][0]` is the letter rate.bias[0]
             (axes before the last are laid out as rows); iterate for the equations, `.latex()` for the page.
    Raises:  TypeError for what is not a field; `UnknownOperation`, naming the operation and what to do; ValueError for a
             constant that is not finite, or code that changes its buffers.
    Source:  this project.
    """
    if not isinstance(field, VectorField):
        raise TypeError(f"`field` must be a ctrnn.VectorField, got {type(field).__name__}.")
    program = _exported(field)
    letters, x, h = _parameters(field), symbols.inputs(field.input_size), symbols.state(field.state_size)
    given = iter((_array(x)[None, :], _array(h)[None, :]))
    values: dict[str, Entries] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            values[spec.arg.name] = next(given)
        elif spec.kind is InputKind.PARAMETER:
            values[spec.arg.name] = letters[spec.target]
        else:
            values[spec.arg.name] = _constant({**program.state_dict, **program.constants}[spec.target])
    flow = _run(program.graph, values)
    parameters = {name: _matrix(entries) for name, entries in letters.items()}
    column = ImmutableDenseMatrix([S.Zero + e for e in flow.reshape(-1)])
    return SymbolicField(type(field).__name__, "this project", h, x, parameters, column)


def verify(field: VectorField, equations: Iterable[Eq]) -> Verdict:
    r"""Prove that the torch field's own code is the given equations, for all weights, inputs and states.

    Args:    field: as in `symbolic`; equations: Eq(dh_i/dt, F_i), one for each unit in the order of the state, as a
             `SymbolicField` gives them, in the letters of `symbolic(field)` (its inputs and parameters).
    Returns: a `Verdict`: proved, or refuted by numbers for the letters, or undecided.
    Raises:  ValueError if the number of equations is not the number of units, or if they use letters the field has not.
    Source:  this project.
    """
    traced, given = symbolic(field), list(equations)
    if len(given) != len(traced):
        raise ValueError(f"`equations` must be one for each of the field's {len(traced)} units, got {len(given)}.")
    renamed = dict(zip((equation.lhs.expr for equation in given), traced.state, strict=True))
    flow = ImmutableDenseMatrix([equation.rhs.xreplace(renamed) for equation in given])
    _check_letters(flow, traced)
    return check(Identity(f"{traced.name} as coded", "this project", "The torch code is the equations.", traced.flow, flow))


def _check_letters(flow: ImmutableDenseMatrix, traced: SymbolicField) -> None:
    known = {u for matrix in traced.parameters.values() for u in matrix} | {symbols.t, *traced.state, *traced.inputs}
    if strangers := (flow.free_symbols | flow.atoms(AppliedUndef)) - known:
        names = ", ".join(sorted(map(str, strangers)))
        raise ValueError(f"`equations` use {names}, which the field has not; write them in the letters of `symbolic(field)`.")


def _exported(field: VectorField) -> torch.export.ExportedProgram:
    like = {"dtype": field.dtype or torch.get_default_dtype(), "device": field.device}
    x, h = torch.zeros(1, field.input_size, **like), torch.zeros(1, field.state_size, **like)  # type: ignore[arg-type]
    program = torch.export.export(field, (x, h))
    if any(spec.kind is not OutputKind.USER_OUTPUT for spec in program.graph_signature.output_specs):
        raise ValueError("the field changes its buffers or inputs while it is read; a vector field is a function of x and h.")
    return program


def _parameters(field: VectorField) -> dict[str, Entries]:
    """A letter for each entry; a parameter under two names has the letters of the first."""
    letters: dict[str, Entries] = {}
    first: dict[int, str] = {}
    for name, parameter in field.named_parameters(remove_duplicate=False):
        home = first.setdefault(id(parameter), name)
        letters[name] = np.empty(tuple(parameter.shape), dtype=object)
        for index in np.ndindex(*parameter.shape):
            letters[name][index] = symbols.entry(home, index)
    return letters


def _run(graph: torch.fx.Graph, values: dict[str, Any]) -> Entries:
    """Walk the graph in order, each node from the values before it."""

    def read(argument: Any) -> Any:
        return torch.fx.node.map_arg(argument, lambda node: values[node.name])

    for node in graph.nodes:
        if node.op == "call_function":
            operation = operator.getitem if node.target is operator.getitem else OPERATIONS.get(str(node.target))
            if operation is None:
                raise UnknownOperation(
                    f"{node.target} has no reading in SymPy; write the field with the operations that have one "
                    f"({', '.join(sorted(OPERATIONS))}), or add it to OPERATIONS in derivations/operations.py."
                )
            values[node.name] = operation(*read(node.args), **read(node.kwargs))
        elif node.op == "output":
            return cast(Entries, read(node.args[0])[0])
    raise AssertionError("a graph has an output")


def _array(entries: Any) -> Entries:
    array = np.empty(len(entries), dtype=object)
    array[:] = entries
    return array


def _constant(tensor: torch.Tensor) -> Entries:
    entries = [exact(value) for value in tensor.detach().cpu().reshape(-1).tolist()]
    return _array(entries).reshape(tuple(tensor.shape))


def _matrix(entries: Entries) -> ImmutableDenseMatrix:
    columns = entries.shape[-1] if entries.ndim > 1 else 1
    return ImmutableDenseMatrix(entries.size // max(columns, 1), columns, list(entries.reshape(-1)))


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
