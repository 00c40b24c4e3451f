r"""Make sequences nodes of the graphs of torch.compile, by the kernel that is written for a field and a step.

    ctrnn::steps              samples, state, weights -> states after samples, and what the backward pass reads
    ctrnn::steps_backward     the cotangents of the states -> those of the inputs that need one

A node names its kernel by a digest of what it computes, and the process that traces the graph has made it. What torch.compile
does not look at, the attributes that a kernel was written for, is compared at each call.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ctrnn import VectorField
from ctrnn.fields.computed import with_computed_weights
from discretize.kernels.cpp.sequences import CompiledKernel
from discretize.kernels.cpp.text import CppText
from discretize.kernels.eligibility import autocast_reason, device_reason, setting_reason, tensor_reason, transform_reason
from discretize.kernels.record.attributes import attributes_of
from discretize.kernels.record.program import Program, StepModule
from discretize.kernels.sequences import jacobian_reason, kernel_for
from discretize.steps.step import Step

__all__ = ["Node", "node_for", "run_in_graph"]

WANTED = {"x": True, "dt": False, "stored": False}


class Node(NamedTuple):
    """A kernel's name, and where the field keeps its weights."""

    kernel: str
    weights: tuple[tuple[str, ...], ...]


class _Traced(NamedTuple):
    kernel: CompiledKernel
    field: weakref.ref[VectorField]
    step: Step
    values: tuple[Any, ...]
    kept: int  # numbers of a step and a sample for the backward pass


_traced: dict[str, _Traced] = {}


def node_for(field: VectorField, step: Step, like: Tensor, fused: bool) -> Node | str:
    """The node of a field's sequences, or why a graph cannot hold them; asked while it is traced, and not by it."""
    why = setting_reason(fused) or transform_reason() or device_reason(like) or autocast_reason(like) or jacobian_reason(step)
    module, told = StepModule(with_computed_weights(field), step), attributes_of(StepModule(field, step))
    why = why or (told if isinstance(told, str) else None)
    attributes = why or attributes_of(module)
    if isinstance(attributes, str):
        return attributes
    places = {id(tensor): name for name, tensor in _named_tensors(module.field)}
    if not all(id(tensor) in places for tensor in attributes.tensors):
        return "the field keeps a tensor that is no parameter and no buffer"
    kernel = tensor_reason([like.detach(), *attributes.tensors]) or kernel_for(module, attributes, WANTED, like.dtype)
    if isinstance(kernel, str):
        return kernel
    if kernel.equation is not None:
        return "its step solves an equation, and where that is not solved a graph cannot go on by steps"
    name = f"{_digest(kernel.program)}-{len(_traced)}"
    assert not isinstance(told, str)
    _traced[name] = _Traced(kernel, weakref.ref(field), step, told.values, kernel.kept_of(field.state_size))
    return Node(name, tuple(places[id(tensor)] for tensor in attributes.tensors))


def run_in_graph(node: Node, field: VectorField, xs: Tensor, h0: Tensor, dt: float, substeps: int) -> Tensor:
    """The state after each sample, (time, batch, state), as one node of the graph that is traced."""
    weights = [_at(field, path) for path in node.weights]
    keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (xs, h0, *weights))
    states: Tensor = torch.ops.ctrnn.steps(xs, h0, weights, dt, substeps, node.kernel, keep)[0]
    return states


def _named_tensors(module: nn.Module) -> list[tuple[tuple[str, ...], Tensor]]:
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return [(tuple(name.split(".")), tensor) for name, tensor in named]


def _at(module: object, path: tuple[str, ...]) -> Any:
    for name in path:
        module = getattr(module, name)
    return module


def _digest(program: Program[CppText]) -> str:
    constants = [constant.cpu().numpy().tobytes() for constant in program.constants]
    told = (program.written.text, program.written.sizes, program.before.code, program.after.code, constants)
    return hashlib.sha256(repr(told).encode()).hexdigest()[:32]


def _kernel(name: str) -> CompiledKernel:
    """The kernel of a node. RuntimeError where the field is no longer what it was written for."""
    traced = _traced[name]
    field = traced.field()
    if field is not None:
        now = attributes_of(StepModule(field, traced.step))
        if isinstance(now, str) or now.values != traced.values:
            raise RuntimeError(
                f"The {type(field).__name__} has changed since torch.compile traced it, in what is no tensor and which the graph "
                "does not look at; call `torch._dynamo.reset()` after such a change."
            )
    return traced.kernel


torch.library.define(
    "ctrnn::steps", "(Tensor xs, Tensor h0, Tensor[] weights, float dt, int substeps, str kernel, bool keep) -> (Tensor, Tensor)"
)
torch.library.define(
    "ctrnn::steps_backward",
    "(Tensor grad, Tensor kept, bool[] needed, Tensor xs, Tensor h0, Tensor[] weights, float dt, int substeps, str kernel)"
    " -> Tensor[]",
)


@torch.library.impl("ctrnn::steps", "cpu")
def _steps(
    xs: Tensor, h0: Tensor, weights: Sequence[Tensor], dt: float, substeps: int, kernel: str, keep: bool
) -> tuple[Tensor, Tensor]:
    made = _kernel(kernel)
    states, kept = made.call(substeps, True, xs, h0, dt, weights).forward(keep)
    return states, states.new_empty(0) if kept is None else kept


@torch.library.register_fake("ctrnn::steps")
def _steps_like(
    xs: Tensor, h0: Tensor, weights: Sequence[Tensor], dt: float, substeps: int, kernel: str, keep: bool
) -> tuple[Tensor, Tensor]:
    kept = [xs.shape[0] * substeps, xs.shape[1], _traced[kernel].kept] if keep else [0]
    return xs.new_empty(xs.shape[0], *h0.shape), xs.new_empty(kept)


@torch.library.impl("ctrnn::steps_backward", "cpu")
def _steps_backward(
    grad: Tensor,
    kept: Tensor,
    needed: Sequence[bool],
    xs: Tensor,
    h0: Tensor,
    weights: Sequence[Tensor],
    dt: float,
    substeps: int,
    kernel: str,
) -> list[Tensor]:
    call = _kernel(kernel).call(substeps, True, xs, h0, dt, weights)
    of_x, of_h0, _, *others = call.backward(kept, grad, (needed[0], True, False))
    gradients = zip((of_x, of_h0, *others), (xs, h0, *weights), needed, strict=True)
    return [torch.zeros_like(tensor) if gradient is None else gradient for gradient, tensor, need in gradients if need]


@torch.library.register_fake("ctrnn::steps_backward")
def _steps_backward_like(
    grad: Tensor, kept: Tensor, needed: Sequence[bool], xs: Tensor, h0: Tensor, weights: Sequence[Tensor], *_: object
) -> list[Tensor]:
    return [tensor.new_empty(tensor.shape) for tensor, need in zip((xs, h0, *weights), needed, strict=True) if need]


def _keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    xs, h0, weights, *ctx.numbers, _ = inputs
    ctx.save_for_backward(xs, h0, *weights, output[1])


def _gradients(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
    xs, h0, *weights, kept = ctx.saved_tensors
    needed = [*ctx.needs_input_grad[:2], *ctx.needs_input_grad[2]]
    found = iter(torch.ops.ctrnn.steps_backward(grad, kept, needed, xs, h0, weights, *ctx.numbers))
    of_xs, of_h0, *of_weights = (next(found) if need else None for need in needed)
    return of_xs, of_h0, of_weights, None, None, None, None


torch.library.register_autograd("ctrnn::steps", _gradients, setup_context=_keep_for_backward)
