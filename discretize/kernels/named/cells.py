r"""A discrete cell over a whole sequence in one call: by the compiled engine, the plain-torch one, or not at all, and then why.

    compiled     compiled_cells.py: one kernel for the sequence, on the CPU; where it cannot be had, one warning says so
    torch        plain_torch/relaxations.py, plain_torch/lstm.py: the same in plain torch, with a backward pass of its own
    steps        the step map, sample by sample, which takes any field and any step, and is what the others are compared with

A fused form is taken where it is known to be the same: of a named field, by exact type, under the Euler and the exponential
Euler step. Whatever looks into the steps gets them: a monitor, a transform, a trace.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ctrnn import VectorField
from discretize.kernels.build import Unavailable
from discretize.kernels.cpp.libraries import cells_library
from discretize.kernels.eligibility import (
    autocast_reason,
    device_reason,
    maps_networks,
    setting_reason,
    tensor_reason,
    tracing_reason,
    transform_reason,
    warn_once,
)
from discretize.kernels.named import compiled_cells, reference
from discretize.kernels.named.kernel_spec import CellInputs, Kind, StackedWeights, kind_of, stacked_weights
from discretize.kernels.named.plain_torch import lstm as torch_lstm
from discretize.kernels.named.plain_torch import relaxations as torch_relaxations
from discretize.steps.euler import Euler
from discretize.steps.exponential import ExponentialEuler
from discretize.steps.step import Step

__all__ = ["compiled_engine", "graph_kind", "run", "run_engine", "run_in_graph", "torch_engine", "torch_states"]

STEPS: dict[type[Step], str] = {Euler: "euler", ExponentialEuler: "exponential"}


def run(
    field: VectorField, step: Step, xs: Tensor, h0: Tensor, dt: float | Tensor, substeps: int, fused: bool
) -> tuple[Tensor | None, dict[str, Any]]:
    r"""The state after each sample, None if they are to be had step by step only; and "engine" and "engine_why" of the run.

    Shape:   xs (time, batch, input), h0 (batch, state), dt a number, or (time, 1, 1) or (time, batch, 1) -> (time, batch, state).
    Raises:  ValueError for a CTRNN_FUSED that says nothing.
    """
    kind = _eligible_kind(field, step, [xs, h0, *([dt] if isinstance(dt, Tensor) else [])], fused)
    if isinstance(kind, str):
        return None, {"engine": "steps", "engine_why": kind}
    name = STEPS[type(step)]
    engine, why = compiled_engine(kind, name, xs)
    if engine is None and maps_networks():
        return None, {"engine": "steps", "engine_why": why}
    states = run_engine(engine or torch_engine(kind), kind, name, stacked_weights(field), xs, h0, dt, substeps)
    return states, {"engine": "torch" if engine is None else "compiled", "engine_why": why}


def torch_states(
    field: VectorField, step: Step, xs: Tensor, h0: Tensor, dt: float | Tensor, substeps: int, fused: bool
) -> tuple[Tensor | None, dict[str, Any]]:
    """As `run`, in plain torch although there may be a kernel."""
    kind = _eligible_kind(field, step, [xs, h0, *([dt] if isinstance(dt, Tensor) else [])], fused)
    if isinstance(kind, str):
        return None, {"engine": "steps", "engine_why": kind}
    states = run_engine(torch_engine(kind), kind, STEPS[type(step)], stacked_weights(field), xs, h0, dt, substeps)
    return states, {"engine": "torch", "engine_why": None}


def graph_kind(field: VectorField, step: Step, like: Tensor, fused: bool) -> Kind | str:
    """What `run_in_graph` takes, or why a graph cannot hold the sequence; asked while it is traced, and not by it."""
    if why := setting_reason(fused) or transform_reason() or device_reason(like) or autocast_reason(like):
        return why
    if type(step) not in STEPS:
        return f"{type(step).__name__} is not Euler or ExponentialEuler itself"
    kind = kind_of(field)
    return kind if isinstance(kind, str) else compiled_engine(kind, STEPS[type(step)], like)[1] or kind


def run_in_graph(field: VectorField, kind: Kind, step: Step, xs: Tensor, h0: Tensor, dt: float, substeps: int) -> Tensor:
    """As `run`, with the kernel as a node of a graph of torch.compile."""
    return compiled_cells.operator(kind, STEPS[type(step)], stacked_weights(field), xs, h0, dt, substeps)


def run_engine(
    engine: Any, kind: Kind, step: str, weights: StackedWeights, xs: Tensor, h0: Tensor, dt: float | Tensor, substeps: int
) -> Tensor:
    r"""The state after each sample, with gradients to samples, h0, weights and dt, and theirs by way of `reference`.

    Args:    engine: of `compiled_engine` or `torch_engine`; kind, weights: the field's; step: "euler" or "exponential"; dt: >= 0,
             the time a sample takes, in `substeps` equal steps; where it is 0 a state stays as it is, to the last bit.
    Shape:   xs (time, batch, input), h0 (batch, state), dt a number, or (time, 1, 1) or (time, batch, 1) of the state's
             dtype -> (time, batch, state).
    Source:  this project.
    """
    inputs = CellInputs(xs, h0, dt, *weights)
    learns = torch.is_grad_enabled() and any(isinstance(tensor, Tensor) and tensor.requires_grad for tensor in inputs)
    if learns or maps_networks():
        states: Tensor = _Cells.apply(engine, kind, step, substeps, *inputs)[0]
        return states
    with torch.no_grad():
        return engine.forward(kind, step, substeps, inputs, keep=False)[0]


def torch_engine(kind: Kind) -> Any:
    """The module whose `forward` and `backward` run that kind of field in plain torch."""
    return torch_lstm if kind.candidate == "lstm" else torch_relaxations


def compiled_engine(kind: Kind, step: str, like: Tensor) -> tuple[Any, str | None]:
    """The module whose `forward` and `backward` call the kernel; or None, and why if there is something to say."""
    if why := device_reason(like):
        return None, why
    try:
        library = cells_library(kind, step, like.dtype)
    except Unavailable as error:
        return None, warn_once(str(error))
    ours, theirs = partial(_by_kernel, kind, step), partial(_by_steps, kind, step)
    if why := reference.disagreement(library, kind, like.dtype, ours, theirs):
        return None, warn_once(why)
    return compiled_cells, None


def _by_kernel(kind: Kind, step: str, inputs: CellInputs) -> list[Tensor]:
    """States and gradients of their sum, to be compared."""
    states, *kept = compiled_cells.forward(kind, step, 1, inputs, keep=True)
    needed = CellInputs(*(isinstance(given, Tensor) for given in inputs))
    found = compiled_cells.backward(kind, step, 1, inputs, (kept[0],), torch.ones_like(states), needed)
    return [states, *(gradient for gradient, need in zip(found, needed, strict=True) if need)]


def _by_steps(kind: Kind, step: str, inputs: CellInputs) -> list[Tensor]:
    states = reference.cell_states(kind, step, 1, inputs)
    return [states, *torch.autograd.grad(states.sum(), [given for given in inputs if isinstance(given, Tensor)])]


def _eligible_kind(field: VectorField, step: Step, given: list[Tensor], fused: bool) -> Kind | str:
    """What the field is to a kernel, or why the steps are taken one by one."""
    if why := tracing_reason(networks=True) or setting_reason(fused):
        return why
    if type(step) not in STEPS:
        return f"{type(step).__name__} is not Euler or ExponentialEuler itself"
    kind = kind_of(field)
    if isinstance(kind, str):
        return kind
    return tensor_reason([*given, *field.parameters(), *field.buffers()]) or kind


class _Cells(torch.autograd.Function):
    """An engine, what it runs, and its inputs -> the states after samples, and what its backward pass reads."""

    @staticmethod
    def forward(engine: Any, kind: Kind, step: str, substeps: int, *inputs: Any) -> tuple[Tensor, ...]:
        return engine.forward(kind, step, substeps, CellInputs(*inputs), keep=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        dt = CellInputs(*inputs[4:]).dt
        ctx.settings, ctx.number = inputs[:4], None if isinstance(dt, Tensor) else dt
        ctx.set_materialize_grads(False)  # what is kept would get gradients full of zeros
        ctx.mark_non_differentiable(*output[1:])
        # Not the states: they are the user's, to write on.
        ctx.save_for_backward(*(given if isinstance(given, Tensor) else None for given in inputs[4:]), *output[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        (engine, kind, step, substeps), needed = ctx.settings, CellInputs(*ctx.needs_input_grad[4:])
        if grad is None:
            return (None,) * len(ctx.needs_input_grad)
        saved = ctx.saved_tensors  # read once: those of `torch.utils.checkpoint` are given once
        inputs, kept = CellInputs(*saved[: len(needed)]), saved[len(needed) :]
        inputs = inputs if ctx.number is None else inputs._replace(dt=ctx.number)
        found: Any
        if reference.needs_graph(grad):
            found = reference.gradients(partial(_states_by_steps, kind, step, substeps), inputs, needed, grad)
        else:
            with torch.autocast(grad.device.type, enabled=False):
                found = engine.backward(kind, step, substeps, inputs, kept, grad, needed)
        return None, None, None, None, *(gradient if need else None for gradient, need in zip(found, needed, strict=True))

    @staticmethod
    def vmap(
        info: Any, axes: tuple[Any, ...], engine: Any, kind: Kind, step: str, substeps: int, *inputs: Any
    ) -> tuple[tuple[Tensor], tuple[int]]:
        """Over the networks of an ensemble: all in one run of the kernel."""
        given = CellInputs(*(t if axis is None else t.movedim(axis, 0) for t, axis in zip(inputs, axes[4:], strict=True)))
        same = CellInputs(*axes[4:])._asdict()
        every = {
            name: t.expand(info.batch_size, *t.shape)
            for name, t in given._asdict().items()
            if t is not None and same[name] is None and name not in ("xs", "dt")
        }
        xs, h0, dt, *weights = given._replace(**every)
        return (run_engine(engine, kind, step, StackedWeights(*weights), xs, h0, dt, substeps),), (0,)


def _states_by_steps(kind: Kind, step: str, substeps: int, *given: Any) -> Tensor:
    """Step by step, of one network or several."""
    inputs = CellInputs(*given)
    if inputs.weight_h.dim() == 2:
        return reference.cell_states(kind, step, substeps, inputs)
    shared = {"xs": inputs.xs.dim() < 4, "dt": not isinstance(inputs.dt, Tensor) or inputs.dt.dim() < 4}
    axes = [None if tensor is None or shared.get(name) else 0 for name, tensor in inputs._asdict().items()]
    states: Tensor = torch.func.vmap(lambda *one: reference.cell_states(kind, step, substeps, CellInputs(*one)), tuple(axes))(
        *inputs
    )
    return states
