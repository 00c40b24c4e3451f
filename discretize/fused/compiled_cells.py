r"""The named fields over a whole sequence by a compiled kernel, from the samples on: kernels/cells.cpp.

The input is projected where it is used, sample by sample, and its weights' gradients are summed in the same place: neither
the projection of the sequence nor its gradient is ever written down.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from discretize.fused.kernel_spec import KernelSpec, Kind
from discretize.fused.libraries import address, cells_library
from discretize.fused.torch_cells import is_plain, reference

__all__ = ["compiled_cells"]


def compiled_cells(recipe: KernelSpec, step: str, xs: Tensor, h0: Tensor, dt: float | Tensor, substeps: int) -> Tensor:
    r"""The state after each sample, with gradients to samples, h0, weights and dt, and theirs by way of `reference`.

    Args:    recipe: the field; step: "euler" or "exponential"; dt: >= 0, the time a sample takes, in `substeps` equal steps.
    Shape:   xs (time, batch, input), h0 (batch, state), dt a number, or (time, 1, 1) or (time, batch, 1) of the state's
             dtype -> (time, batch, state).
    Raises:  `Unavailable` where there is no kernel to be had; MemoryError.
    Source:  this project.
    """
    cells_library(recipe.kind, step, xs.dtype)
    number = dt if isinstance(dt, Tensor) else xs.new_tensor(dt)
    tensors = (xs, recipe.weight_x, recipe.bias, h0, recipe.weight_h, recipe.bias_h, recipe.rates, number)
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
        states: Tensor = _Cells.apply(recipe.kind, step, substeps, *tensors)[0]
        return states
    return _forwards(recipe.kind, step, substeps, tensors, False)[0]


Tensors = tuple[Tensor | None, ...]


def _forwards(kind: Kind, step: str, substeps: int, tensors: Tensors, keep: bool) -> tuple[Tensor, Tensor]:
    """The states after each sample, and what the way back needs."""
    xs, weight_x, bias, h0, weight_h, bias_h, rates, dt = _laid_out(tensors)
    made = cells_library(kind, step, xs.dtype)
    hidden = weight_h.shape[1]
    steps, batch = len(xs) * substeps, xs.shape[1]
    states = xs.new_empty(len(xs), batch, h0.shape[1])
    kept = xs.new_empty(steps, batch, made.ctrnn_cells_kept(hidden) if keep else 0)
    ran_out = made.ctrnn_cells_forwards(
        *(len(xs), batch, xs.shape[2], hidden, substeps),
        *map(address, (xs, h0, weight_x, bias, weight_h, bias_h, rates)),
        *(kind.exponent, *_strided(dt), torch.get_num_threads()),
        *(address(states), address(kept) if keep else None),
    )
    if ran_out:
        raise MemoryError(f"There is no memory for {steps} steps of {batch} samples; take shorter pieces or smaller batches.")
    return states, kept


def _backwards(
    kind: Kind, step: str, substeps: int, tensors: Tensors, kept: Tensor, grad: Tensor, needed: list[bool]
) -> list[Tensor | None]:
    """The gradients to the tensors, of the states after each sample."""
    xs, weight_x, bias, h0, weight_h, bias_h, rates, dt = _laid_out(tensors)
    grad = grad.contiguous()
    steps, batch = len(xs) * substeps, xs.shape[1]
    of_xs = xs.new_empty(steps, batch, xs.shape[2]) if needed[0] else None
    of_dt = xs.new_empty(steps, batch) if needed[-1] else None
    of_weights = [None if tensor is None else torch.empty_like(tensor) for tensor in (weight_x, bias, weight_h, bias_h, rates)]
    of_h0 = torch.empty_like(h0)
    ran_out = cells_library(kind, step, xs.dtype).ctrnn_cells_backwards(
        *(len(xs), batch, xs.shape[2], weight_h.shape[1], substeps),
        *map(address, (xs, weight_x, bias, weight_h, bias_h, rates)),
        *(kind.exponent, *_strided(dt), torch.get_num_threads()),
        *map(address, (kept, grad, of_xs, *of_weights, of_h0, of_dt)),
    )
    if ran_out:
        raise MemoryError(f"There is no memory for the gradients of {steps} steps of {batch} samples; take smaller batches.")
    if of_xs is not None:
        of_xs = of_xs.unflatten(0, (-1, substeps)).sum(1) if substeps > 1 else of_xs
    if of_dt is not None:
        of_dt = of_dt.unflatten(0, (-1, substeps)).sum(1)[..., None].sum_to_size(dt.shape)
    weight_x, bias, *others = of_weights
    return [of_xs, weight_x, bias, of_h0, *others, of_dt]


def _laid_out(tensors: Tensors) -> list[Any]:
    *first, dt = tensors
    return [*(None if tensor is None else tensor.detach().contiguous() for tensor in first), dt]


def _strided(dt: Tensor) -> tuple[int, int, int]:
    """Where the step lengths lie, and how far apart they are in time and over the batch; 0 where all are one."""
    time, batch = (0, 0) if dt.dim() == 0 else (dt.stride(i) if dt.shape[i] > 1 else 0 for i in (0, 1))
    return dt.data_ptr(), time, batch


class _Cells(torch.autograd.Function):
    """The tensors of `compiled_cells` -> the states after each sample, and what was kept."""

    @staticmethod
    def forward(kind: Kind, step: str, substeps: int, *tensors: Tensor | None) -> tuple[Tensor, Tensor]:
        return _forwards(kind, step, substeps, tensors, True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.settings = inputs[:3]
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs[3:], output[1])  # not the states: they are the user's, to write on

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        (kind, step, substeps), needed = ctx.settings, list(ctx.needs_input_grad[3:])
        if grad is None:
            return (None,) * len(ctx.needs_input_grad)
        *tensors, kept = ctx.saved_tensors
        if torch.is_grad_enabled() or not is_plain(grad):
            found = _through_reference(kind, step, substeps, tuple(tensors), needed, grad)
        else:
            found = _backwards(kind, step, substeps, tuple(tensors), kept, grad, needed)
        return None, None, None, *(gradient if need else None for gradient, need in zip(found, needed, strict=True))


def _through_reference(
    kind: Kind, step: str, substeps: int, tensors: Tensors, needed: list[bool], grad: Tensor
) -> list[Tensor | None]:
    """The gradients by differentiating the reference: a graph of their own, if grad mode is on."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views of their own: one of the tensors may have been made of another, and that way is not ours to go.
        given: list[Any] = [None if tensor is None else tensor.view_as(tensor) for tensor in tensors]
        xs, weight_x, bias, h0, weight_h, bias_h, rates, dt = given
        lengths = dt if dt.dim() else dt.expand(len(xs), 1, 1)
        states = reference(kind, step, linear(xs, weight_x, bias), h0, weight_h, bias_h, rates, lengths, substeps)
        sought = [tensor for tensor, need in zip(given, needed, strict=True) if need]
        found = iter(torch.autograd.grad(states, sought, grad, create_graph=again, allow_unused=True))
    return [next(found) if need else None for need in needed]
