r"""Autograd's gradient of a module against the Jacobian that SymPy derives of its code.

    y = F(x, h; w):     for each u among w, x and h     what torch computes backwards from v   =   sum_i v_i dF_i/du

for all v, weights, inputs and states: each is an equation in letters.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import sympy
import torch
from sympy import DiracDelta, Expr, Heaviside, Ne, S, Symbol, sign
from torch import Tensor, nn
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from derivations.prover.verdict import Verdict
from derivations.tracing.decision import decide
from derivations.tracing.kinks import kinks
from derivations.tracing.program import Program, Widths, as_function, decompositions, next_state, trace, widths_of
from derivations.tracing.reading import read
from derivations.tracing.readings.values import Value
from derivations.tracing.symbolic import system_of

__all__ = ["verify_gradient"]


def verify_gradient(module: nn.Module, *, widths: Widths | None = None) -> Verdict:
    r"""Prove that autograd's gradient of a module is the derivative of its equations, in weights, inputs and state.

    Args:    module, widths: as for `symbolic`.
    Returns: a `Verdict`, at the module's sizes; `defined_on` leaves out corners, where there is no derivative, and where the
             code or its gradient is not defined.
    Raises:  what `symbolic` raises; ValueError for a module with buffers.
    Source:  this project.
    """
    start, widths = perf_counter(), dict(widths or widths_of(module))
    program = trace(module, widths)
    system = system_of(program, module, field=False)
    v = [Symbol(f"v_{i}", real=True) for i in range(1, len(system) + 1)]
    backward = _backward(module, program, widths, system, v)
    letters = [*_weights(module, system), *system.inputs, *system.state]
    written = [sympy.Add(*(a * _derivative(f, u) for a, f in zip(v, system.flow, strict=True))) for u in letters]
    corners = [Ne(d, 0) for d in kinks(list(system.flow))]
    conditions = {*system.defined_on, *(c for value in backward for c in value.where), *corners}
    verdict = decide([value.expr for value in backward], written, conditions)
    words = f"{len(letters)} derivatives, for every vector v, at {len(system.inputs)} inputs and {len(system)} units"
    return replace(verdict, seconds=perf_counter() - start, evidence=f"{verdict.evidence}; {words}")


def _derivative(f: Expr, u: Symbol) -> Expr:
    """The derivative away from corners, where a step is (1 + sign)/2 and does not change."""
    found = f.diff(u).replace(DiracDelta, lambda *_: S.Zero)
    return found.replace(Heaviside, lambda d, *_: (1 + sign(d)) / 2)


def _weights(module: nn.Module, system: Any) -> list[Symbol]:
    return [u for name, _ in module.named_parameters() for u in system.parameters[name]]


def _backward(module: nn.Module, program: Program, widths: Any, system: Any, v: Sequence[Symbol]) -> list[Value]:
    """What autograd makes of v, for each weight, input and state, read from the operations that it runs."""
    if list(module.buffers()):
        raise ValueError("the module has buffers; its gradient is not read.")
    names = [name for name, _ in module.named_parameters()]
    weights = [torch.zeros_like(p) for p in module.parameters()]
    split = [(a, isinstance(n, tuple), n if isinstance(n, tuple) else (n,)) for a, n in widths.items()]
    dtype = weights[0].dtype if weights else torch.get_default_dtype()
    columns = [torch.zeros(1, n, dtype=dtype) for _, _, lengths in split for n in lengths]
    like_state = [torch.zeros(1, n, dtype=dtype) for a, _, lengths in split if a == program.state for n in lengths]
    called = as_function(module, {})

    def pulled(weights: list[Tensor], columns: list[Tensor], v: list[Tensor]) -> list[Tensor]:
        inner, outer = ([t.detach().requires_grad_() for t in part] for part in (weights, columns))
        given = iter(outer)
        arguments = tuple(tuple(next(given) for _ in lengths) if several else next(given) for _, several, lengths in split)
        leaves, structure = torch.utils._pytree.tree_flatten(called(tuple(inner), arguments))
        answer, _ = next_state(leaves, structure, len(v))
        found = torch.autograd.grad(list(answer), [*inner, *outer], v, allow_unused=True)
        return [torch.zeros_like(t) if g is None else g for g, t in zip(found, [*inner, *outer], strict=True)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        how: Any = {"decomposition_table": decompositions(), "tracing_mode": "fake"}
        once = make_fx(pulled, **how)(weights, columns, like_state)
        # Once more for what the kernels do in place.
        recorded = make_fx(functionalize(once), **how)(weights, columns, like_state)
    placeholders = [node.name for node in recorded.graph.nodes if node.op == "placeholder"]
    leaves = next(node for node in recorded.graph.nodes if node.op == "output").args[0]
    parameters = dict(zip(placeholders, names, strict=False))
    rest = iter(placeholders[len(names) :])
    letters: dict[str, Any] = {name: _shaped(system.parameters[name], p) for name, p in module.named_parameters()}
    state, inputs = iter(system.state), iter(system.inputs)
    for argument, _, lengths in split:
        for n in lengths:
            letters[next(rest)] = [next(state if argument == program.state else inputs) for _ in range(n)]
    ahead = iter(v)
    letters |= {name: [next(ahead) for _ in range(part.shape[1])] for name, part in zip(rest, like_state, strict=True)}
    order = [*range(len(names)), *_inputs_first(program, split, len(names))]
    whole = Program("gradient", recorded.graph, parameters, {}, {}, frozenset(), "", tuple(leaves[k] for k in order), False)
    return read(whole, letters)


def _inputs_first(program: Program, split: Sequence[Any], start: int) -> list[int]:
    """Where the gradients of inputs and then of the state stand among those of the arguments."""
    places: dict[bool, list[int]] = {False: [], True: []}
    for argument, _, lengths in split:
        for _ in lengths:
            places[argument == program.state].append(start)
            start += 1
    return places[False] + places[True]


def _shaped(matrix: Any, parameter: Tensor) -> Any:
    return np.array(list(matrix), dtype=object).reshape(tuple(parameter.shape))
