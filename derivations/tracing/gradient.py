r"""Autograd's gradient of a module against the Jacobian that SymPy derives of its code.

    y = F(x, h; w):     for each u among w, x and h     what torch computes backwards from v   =   sum_i v_i dF_i/du

for all v, weights, inputs and states: each is an equation in letters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np
import sympy
import torch
from sympy import Derivative, DiracDelta, Expr, Heaviside, Ne, S, Symbol, sign
from torch import Tensor, nn

from derivations.prover.timelimit import OutOfTime, time_limit
from derivations.prover.verdict import HOLDS_ASSUMING, UNDECIDED, Verdict
from derivations.tracing.decision import corners, decide
from derivations.tracing.operations import has_reading
from derivations.tracing.reading import UnknownOperation, read
from derivations.tracing.running import SURROUNDINGS, Conditions, Setting, check_settings, replayed
from derivations.tracing.sizes import Width, Widths, checked_widths, uncompiled
from derivations.tracing.stepped import as_map
from derivations.tracing.symbolic import READ, RECORDED, RUN, SECONDS, as_written, check_distinct, out_of_time, system_of
from derivations.tracing.trace import BATCH, trace
from discretize import compat
from discretize.kernels.record.copies import as_function
from discretize.kernels.record.recording import ModuleRecord, UnknownSizes, decompositions, record

__all__ = ["verify_gradient"]

VECTOR = "the vector v"  # beside the arguments, whose names have no blanks


def verify_gradient(module: nn.Module, *, widths: Widths | None = None, seconds: float | None = SECONDS) -> Verdict:
    r"""Prove that autograd's gradient of a module is the derivative of its equations, in weights, inputs and state.

    Args:    module, widths: as for `symbolic`; seconds: after which it is undecided, None for no limit.
    Returns: a `Verdict`, at the module's sizes; `defined_on` leaves out corners, where there is no derivative, and where the
             code or its gradient is not defined.
    Raises:  what `symbolic` raises; ValueError for a module with buffers.
    """
    module = as_map(uncompiled(module))
    start, at = perf_counter(), list[str]()
    try:
        with time_limit(seconds), as_written():
            verdict = _verified(module, checked_widths(module, widths), at.append)
    except OutOfTime:
        verdict = Verdict(UNDECIDED, 0.0, out_of_time(seconds, at))
    statement = f"What autograd computes for {module._get_name()} is the derivative of its equations."
    return replace(verdict, seconds=perf_counter() - start, statement=statement)


def _verified(module: nn.Module, widths: Mapping[str, Width], doing: Callable[[str], object]) -> Verdict:
    doing(RECORDED)
    program = trace(module, widths)
    doing(READ)
    system = system_of(program, module, field=False)
    v = [Symbol(f"v_{i}", real=True) for i in range(1, len(system) + 1)]
    letters = [*_weights(module, system), *system.inputs, *system.state]
    check_distinct(v, letters)
    recorded, letters_of = _backward(module, program, widths, system, v)
    backward = read(recorded, letters_of)
    doing(RUN)
    calls = as_derived(module, program, recorded)
    doing("while SymPy took derivatives")
    written = [sympy.Add(*(a * _derivative(f, u) for a, f in zip(v, system.flow, strict=True))) for u in letters]
    conditions = {
        *system.defined_on,
        *(c for value in backward for c in value.where),
        *(Ne(d, 0) for d in corners(list(system.flow))),
    }
    verdict = decide([value.expr for value in backward], written, conditions, doing)
    sizes = f"{len(letters)} derivatives, for every vector v, at {len(system.inputs)} inputs and {len(system)} units"
    frozen = [name for name, p in module.named_parameters() if not p.requires_grad]
    without = f"without those in {', '.join(frozen)}, which are frozen" if frozen else ""
    words = "; ".join(filter(None, (verdict.evidence, sizes, without, *calls.words)))
    word = HOLDS_ASSUMING if verdict and calls.assumed else verdict.verdict
    return replace(verdict, verdict=word, evidence=words)


def _derivative(f: Expr, u: Symbol) -> Expr:
    """Differentiate away from corners, where a step is (1 + sign)/2 and does not change."""
    derivative = f.diff(u).replace(DiracDelta, lambda *_: S.Zero)
    if derivative.has(Derivative):
        raise UnknownOperation(f"the derivative of {f} by {u} is not known here.")
    return derivative.replace(Heaviside, lambda d, *_: (1 + sign(d)) / 2)


def _weights(module: nn.Module, system: Any) -> list[Symbol]:
    return [u for name, p in module.named_parameters() if p.requires_grad for u in system.parameters[name]]


def _backward(
    module: nn.Module, program: ModuleRecord, widths: Any, system: Any, v: Sequence[Symbol]
) -> tuple[ModuleRecord, Any]:
    """Record what autograd runs on v, for each weight, input and state; return it with the letters of its placeholders."""
    if list(module.buffers()):
        raise ValueError("the module has buffers; its gradient is not read.")
    for name, p in module.named_parameters():
        if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None):
            raise ValueError(f"the parameter `{name}` has a hook, which may change its gradient; remove it.")
    trained, device = [p.requires_grad for p in module.parameters()], next((p.device for p in module.parameters()), None)
    weights, called = dict(module.named_parameters()), as_function(module)
    state = widths[program.state]
    vectors = {VECTOR: state if isinstance(state, tuple) else (state,)}

    def pulled(weights: list[Tensor], arguments: tuple[Any, ...]) -> list[Tensor]:
        inner = [t.detach().requires_grad_(k) for t, k in zip(weights, trained, strict=True)]
        *outer, v = compat.tree_map_only(Tensor, lambda t: t.detach().requires_grad_(), arguments)
        answer = program.state_of(called(tuple(inner), tuple(outer)))
        return pulled_back(answer, [*(t for t, k in zip(inner, trained, strict=True) if k), *compat.tree_leaves(outer)], v)

    # Read is one sample alone, as gradients of weights add up; but the code may not ask how many there are.
    of_batches, gradient = (
        record(decompositions(has_reading), pulled, weights, {**widths, **vectors}, UnknownSizes(sizes), program.dtype, device)
        for sizes in (BATCH, {})
    )
    if of_batches.asked:
        raise ValueError(
            f"the gradient is of batches of certain sizes only{of_batches.asked_at}; the code must act on each sample by itself."
        )
    letters: dict[str, Any] = {name: _shaped(system.parameters[name], p) for name, p in weights.items()}
    ahead, inputs = {program.state: iter(system.state), VECTOR: iter(v)}, iter(system.inputs)
    for argument, placeholders in gradient.inputs.items():
        for name in placeholders:
            letters[name] = [next(ahead.get(argument, inputs)) for _ in range(gradient.width(name))]
    order = [*range(sum(trained)), *(sum(trained) + k for k in _inputs_first(program))]
    return replace(gradient, name="gradient", returned=tuple(gradient.returned[k] for k in order)), letters


def pulled_back(answer: Sequence[Tensor], of: Sequence[Tensor], v: Sequence[Tensor]) -> list[Tensor]:
    """Pull v back to some tensors by autograd; 0 for those that it does not reach."""
    reached = [(a, b) for a, b in zip(answer, v, strict=True) if a.requires_grad]
    gradients = (
        torch.autograd.grad([a for a, _ in reached], of, [b for _, b in reached], allow_unused=True)
        if reached
        else [None] * len(of)
    )
    return [torch.zeros_like(t) if g is None else g for g, t in zip(gradients, of, strict=True)]


def _inputs_first(program: ModuleRecord) -> list[int]:
    """Return the places of the inputs, then of the state, among all tensors of the arguments."""
    states = [argument == program.state for argument, names in program.inputs.items() for _ in names]
    return sorted(range(len(states)), key=lambda k: states[k])


def as_derived(module: nn.Module, program: ModuleRecord, gradient: ModuleRecord) -> Conditions:
    """Compare autograd's gradient in runs with the record of it, as `as_recorded` does for values."""

    def arguments(setting: Setting) -> list[Tensor]:
        return [setting.arguments[name] for names in program.inputs.values() for name in names]

    def vectors(setting: Setting) -> list[Tensor]:
        states = [setting.arguments[name] for name in program.inputs[program.state]]
        return [torch.linspace(1, 2, t.numel()).reshape(t.shape).to(t) for t in states]

    def ran(setting: Setting) -> list[Tensor]:
        answer = program.state_of(setting.module(*program.packed(setting.arguments)))
        trained = [p for p in setting.module.parameters() if p.requires_grad]
        gradients = pulled_back(answer, [*trained, *arguments(setting)], vectors(setting))
        return [*gradients[: len(trained)], *(gradients[len(trained) + k] for k in _inputs_first(program))]

    def recorded(setting: Setting, dtype: torch.dtype) -> list[Tensor]:
        """Replay sample by sample: gradients of weights add up, those of arguments are rows of a batch."""
        weights, columns = [p.detach() for p in setting.module.parameters()], [*arguments(setting), *vectors(setting)]
        samples = []
        for k in range(len(columns[0])):
            tensors = [*weights, *(column.detach()[k : k + 1] for column in columns)]
            samples.append(replayed(gradient, dict(zip(gradient.placeholders, tensors, strict=True)), dtype))
        trained = sum(p.requires_grad for p in setting.module.parameters())
        return [torch.stack(p).sum(0) if n < trained else torch.cat(p) for n, p in enumerate(zip(*samples, strict=True))]

    return check_settings(module, program, ran, recorded, list(SURROUNDINGS)[:2])


def _shaped(matrix: Any, parameter: Tensor) -> Any:
    return np.array(list(matrix), dtype=object).reshape(tuple(parameter.shape))
