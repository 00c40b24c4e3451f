r"""The named fields over a whole sequence by a compiled kernel, from the samples on: kernels/cells.cpp.

The input is projected where it is used, sample by sample, and its weights' gradients are summed in the same place: neither
the projection of the sequence nor its gradient is ever written down. What a sample gets has the same bits in any batch and
with any number of threads.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from discretize.fused.kernel_spec import CellInputs, Kind
from discretize.fused.libraries import address, cells_library

__all__ = ["backward", "forward"]


def forward(kind: Kind, step: str, substeps: int, inputs: CellInputs, keep: bool) -> tuple[Tensor, ...]:
    """The states after samples; and if `keep` what the backward pass reads. MemoryError where there is no room for it."""
    xs, h0, dt, weight_x, bias, weight_h, bias_h, rates = _contiguous(inputs)
    kernel = cells_library(kind, step, xs.dtype)
    hidden = weight_h.shape[1]
    steps, batch = len(xs) * substeps, xs.shape[1]
    states = xs.new_empty(len(xs), batch, h0.shape[1])
    kept = xs.new_empty(steps, batch, kernel.ctrnn_cells_kept(hidden)) if keep else None
    ran_out = kernel.ctrnn_cells_forwards(
        *(len(xs), batch, xs.shape[2], hidden, substeps),
        *map(address, (xs, h0, weight_x, bias, weight_h, bias_h, rates)),
        *(kind.exponent, *_strides(dt), torch.get_num_threads()),
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
    steps, batch = len(xs) * substeps, xs.shape[1]
    of_xs = xs.new_empty(steps, batch, xs.shape[2]) if needed.xs else None
    of_dt = xs.new_empty(steps, batch) if needed.dt else None
    of_weights = [None if tensor is None else torch.empty_like(tensor) for tensor in weights]
    of_h0, grad = torch.empty_like(inputs.h0, memory_format=torch.contiguous_format), grad.contiguous()
    ran_out = cells_library(kind, step, xs.dtype).ctrnn_cells_backwards(
        *(len(xs), batch, xs.shape[2], inputs.weight_h.shape[1], substeps),
        *map(address, (xs, *weights)),
        *(kind.exponent, *_strides(dt), torch.get_num_threads()),
        *map(address, (kept[0], grad, of_xs, *of_weights, of_h0, of_dt)),
    )
    if ran_out:
        raise MemoryError(f"There is no memory for the gradients of {steps} steps of {batch} samples; take smaller batches.")
    if of_xs is not None and substeps > 1:
        of_xs = of_xs.unflatten(0, (-1, substeps)).sum(1)
    if of_dt is not None:
        of_dt = of_dt.unflatten(0, (-1, substeps)).sum(1)[..., None].sum_to_size(dt.shape)
    return CellInputs(of_xs, of_h0, of_dt, *of_weights)


def _contiguous(inputs: CellInputs) -> list[Any]:
    """The inputs as the kernel reads them; of dt it takes the strides."""
    dt = inputs.dt if isinstance(inputs.dt, Tensor) else inputs.xs.new_tensor(inputs.dt)
    laid_out = (None if tensor is None else tensor.detach().contiguous() for tensor in inputs._replace(dt=None))
    return list(CellInputs(*laid_out)._replace(dt=dt))


def _strides(dt: Tensor) -> tuple[int, int, int]:
    """The address of the step lengths, and their strides in time and over the batch; 0 where all are one."""
    time, batch = (0, 0) if dt.dim() == 0 else (dt.stride(i) if dt.shape[i] > 1 else 0 for i in (0, 1))
    return dt.data_ptr(), time, batch
