r"""What a kernel can be given: plain tensors of one dtype on one device, with nobody looking at the single operations."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import unpack_dual

from discretize.errors import KernelWarning

__all__ = ["not_compiled", "told", "traced", "under_autocast", "unusual"]

WHOLE, HALF = (torch.float32, torch.float64), (torch.float16, torch.bfloat16)


def not_compiled(like: Tensor) -> str | None:
    """Why there is no compiled kernel for tensors like this one."""
    if like.device.type == "cpu" and like.dtype in WHOLE:
        return None
    return f"compiled kernels are for float32 and float64 on the CPU, and this is {like.dtype} on {like.device}"


def told(why: str) -> str:
    """Why there is no kernel, said once in the life of the process."""
    global _silent  # noqa: PLW0603
    if not _silent:
        _silent = True
        warnings.warn(f"Sequences run in plain torch, slower than in compiled kernels: {why}", KernelWarning, stacklevel=2)
    return why


_silent = False


def traced() -> str | None:
    """Whether somebody is writing down the steps, or looks at each operation."""
    if torch.compiler.is_compiling():
        return "it is traced by torch.compile or torch.export"
    if torch.jit.is_tracing():
        return "it is traced by torch.jit"
    # These ask of torch what it does not promise to tell: without an answer, torch itself refuses what cannot be.
    if getattr(torch._C, "_are_functorch_transforms_active", bool)():
        return "it runs inside a transform of torch.func"
    if getattr(torch._C, "_len_torch_dispatch_stack", int)():
        return "a dispatch mode looks at each operation"
    return None


def unusual(tensors: Iterable[Tensor]) -> str | None:
    first, *others = tensors
    for tensor in (first, *others):
        if type(tensor) not in (Tensor, nn.Parameter):
            return f"{type(tensor).__name__} is a tensor of a kind of its own"
        if unpack_dual(tensor).tangent is not None:
            return "derivatives are taken in forward mode"
        if tensor.dtype in HALF or tensor.device.type == "meta":
            return f"there is none for {tensor.dtype} on {tensor.device}"
        if tensor.dtype != first.dtype or tensor.device != first.device:
            return "samples, states and weights differ in dtype or device"
    return None if first.numel() else "there are no samples"


def under_autocast(xs: Tensor) -> str | None:
    device = xs.device.type
    if torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) in HALF:
        return f"autocast to {torch.get_autocast_dtype(device)} is on"
    return None
