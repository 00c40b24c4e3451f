r"""The named fields over a whole sequence by a compiled kernel, from the samples on: kernels/cells.cpp.

The input is projected where it is used, sample by sample, and its weights' gradients are summed in the same place: neither
the projection of the sequence nor its gradient is ever written down. What a sample gets has the same bits in any batch and
with any number of threads.

    ctrnn::cells              samples, state, weights -> states after samples, and what the backward pass reads
    ctrnn::cells_backward     the cotangents of the states -> those of the inputs that need one

The same as operators of torch, for the graphs of torch.compile. They are given the kind of field and the step in plain words,
and find the library in the process. Outside of graphs the kernels are called without them, which saves 20 to 80 us a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from discretize.kernels.cpp.libraries import address, cells_library
from discretize.kernels.named.kernel_spec import CellInputs, Kind, StackedWeights

__all__ = ["backward", "forward", "operator", "strides"]

TENSORS = "Tensor xs, Tensor h0, Tensor weight_x, Tensor? bias, Tensor weight_h, Tensor? bias_h, Tensor? rates"
NUMBERS = "float dt, str candidate, str rate, bool shared, float exponent, str step, int substeps"


def forward(kind: Kind, step: str, substeps: int, inputs: CellInputs, keep: bool) -> tuple[Tensor, ...]:
    """The states after samples; and if `keep` what the backward pass reads. MemoryError where there is no room for it."""
    xs, h0, dt, weight_x, bias, weight_h, bias_h, rates = _contiguous(inputs)
    kernel = cells_library(kind, step, xs.dtype)
    networks, (steps, batch, hidden) = weight_h.shape[:-2], inputs.sizes(substeps)
    states = xs.new_empty(*networks, *xs.shape[-3:-1], h0.shape[-1])
    rests = not (isinstance(inputs.dt, Tensor) and inputs.dt.requires_grad)  # of a step of no length only dt has a gradient
    kept = xs.new_empty(*networks, steps, batch, kernel.ctrnn_cells_kept(hidden)) if keep else None
    ran_out = kernel.ctrnn_cells_forwards(
        *_samples(inputs, substeps, xs),
        *map(address, (h0, weight_x, bias, weight_h, bias_h, rates)),
        *(kind.exponent, *strides(dt), torch.get_num_threads(), rests),
        *(address(states), address(kept)),
    )
    if ran_out:
        raise MemoryError(f"There is no memory for {steps} steps of {batch} samples; take shorter pieces or smaller batches.")
    return (states,) if kept is None else (states, kept)


def backward(
    kind: Kind, step: str, substeps: int, inputs: CellInputs, kept: tuple[Tensor], grad: Tensor, needed: CellInputs
) -> CellInputs:
    """From the cotangents of the states after samples those of the inputs."""
    xs, _, dt, *weights = _contiguous(inputs)
    networks, (steps, batch, _) = inputs.weight_h.shape[:-2], inputs.sizes(substeps)
    of_xs = xs.new_empty(*networks, steps, batch, xs.shape[-1]) if needed.xs else None
    of_dt = xs.new_empty(*networks, steps, batch) if needed.dt else None
    of_weights = [None if tensor is None else torch.empty_like(tensor) for tensor in weights]
    of_h0, grad = torch.empty_like(inputs.h0, memory_format=torch.contiguous_format), grad.contiguous()
    ran_out = cells_library(kind, step, xs.dtype).ctrnn_cells_backwards(
        *_samples(inputs, substeps, xs),
        *map(address, weights),
        *(kind.exponent, *strides(dt), torch.get_num_threads()),
        *map(address, (kept[0], grad, of_xs, *of_weights, of_h0, of_dt)),
    )
    if ran_out:
        raise MemoryError(f"There is no memory for the gradients of {steps} steps of {batch} samples; take smaller batches.")
    if of_xs is not None:
        of_xs = of_xs.unflatten(-3, (-1, substeps)).sum(-3) if substeps > 1 else of_xs
        of_xs = of_xs.sum_to_size(xs.shape)
    if of_dt is not None:
        of_dt = of_dt.unflatten(-2, (-1, substeps)).sum(-2)[..., None].sum_to_size(dt.shape)
    return CellInputs(of_xs, of_h0, of_dt, *of_weights)


def _samples(inputs: CellInputs, substeps: int, xs: Tensor) -> list[Any]:
    """Of how many networks, sizes, and where the samples lie, of each network its own or the same for all."""
    networks, (time, batch, features) = inputs.weight_h.shape[:-2].numel(), xs.shape[-3:]
    apart = time * batch * features if xs.dim() > 3 else 0
    return [networks, time, batch, features, inputs.weight_h.shape[-1], substeps, address(xs), apart]


def _contiguous(inputs: CellInputs) -> list[Any]:
    """The inputs as the kernel reads them; of dt it takes the strides."""
    dt = inputs.dt if isinstance(inputs.dt, Tensor) else inputs.xs.new_tensor(inputs.dt)
    laid_out = (None if tensor is None else tensor.detach().contiguous() for tensor in inputs._replace(dt=None))
    return list(CellInputs(*laid_out)._replace(dt=dt))


def strides(dt: Tensor) -> tuple[int, int, int, int]:
    """The address of the step lengths, and their strides over networks, in time and over the batch; 0 where all are one."""
    dt = dt if dt.dim() else dt[None, None, None]
    network, time, batch = (dt.stride(i) if dt.dim() + i >= 0 and dt.shape[i] > 1 else 0 for i in (-4, -3, -2))
    return dt.data_ptr(), network, time, batch


def operator(kind: Kind, step: str, weights: StackedWeights, xs: Tensor, h0: Tensor, dt: float, substeps: int) -> Tensor:
    """The states after samples, as one node of the graph that is traced."""
    keep = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in (xs, h0, *weights))
    numbers = (dt, kind.candidate, kind.rate, kind.shared, kind.exponent, step, substeps)
    states: Tensor = torch.ops.ctrnn.cells(xs, h0, *weights, *numbers, keep)[0]
    return states


def _read(given: Sequence[Any]) -> tuple[Kind, str, int, CellInputs]:
    """What `forward` takes, from an operator's arguments."""
    xs, h0, *weights, dt, candidate, rate, shared, exponent, step, substeps = given
    return Kind(candidate, rate, shared, exponent), step, substeps, CellInputs(xs, h0, dt, *weights)


torch.library.define("ctrnn::cells", f"({TENSORS}, {NUMBERS}, bool keep) -> (Tensor, Tensor)")
torch.library.define("ctrnn::cells_backward", f"(Tensor grad, Tensor kept, bool[] needed, {TENSORS}, {NUMBERS}) -> Tensor[]")


@torch.library.impl("ctrnn::cells", "cpu")
def _cells(*given: Any) -> tuple[Tensor, Tensor]:
    *read, keep = given
    states, *kept = forward(*_read(read), keep)
    return states, kept[0] if keep else states.new_empty(0)


@torch.library.register_fake("ctrnn::cells")
def _cells_like(*given: Any) -> tuple[Tensor, Tensor]:
    *read, keep = given
    kind, step, substeps, inputs = _read(read)
    steps, batch, hidden = inputs.sizes(substeps)
    kept = [steps, batch, cells_library(kind, step, inputs.xs.dtype).ctrnn_cells_kept(hidden)] if keep else [0]
    return inputs.xs.new_empty(len(inputs.xs), batch, inputs.h0.shape[1]), inputs.xs.new_empty(kept)


@torch.library.impl("ctrnn::cells_backward", "cpu")
def _cells_backward(grad: Tensor, kept: Tensor, needed: Sequence[bool], *given: Any) -> list[Tensor]:
    wanted = CellInputs(needed[0], needed[1], False, *needed[2:])
    found = backward(*_read(given), (kept,), grad, wanted)
    return [gradient for gradient, need in zip(found, wanted, strict=True) if need]


@torch.library.register_fake("ctrnn::cells_backward")
def _cells_backward_like(grad: Tensor, kept: Tensor, needed: Sequence[bool], *given: Any) -> list[Tensor]:
    return [tensor.new_empty(tensor.shape) for tensor, need in zip(given, needed, strict=False) if need]


def _keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *read, _ = inputs
    ctx.numbers = read[7:]
    ctx.save_for_backward(*read[:7], output[1])


def _gradients(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    *tensors, kept = ctx.saved_tensors
    needed = list(ctx.needs_input_grad[:7])
    found = iter(torch.ops.ctrnn.cells_backward(grad, kept, needed, *tensors, *ctx.numbers))
    return *(next(found) if need else None for need in needed), *(None for _ in ctx.needs_input_grad[7:])


torch.library.register_autograd("ctrnn::cells", _gradients, setup_context=_keep_for_backward)
