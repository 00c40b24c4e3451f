r"""Say what keeps a call from a kernel: a setting, a transform of torch, or tensors that a kernel cannot read.

Kernels take plain tensors of one dtype on one device, where no autocast, tracing or functorch is active.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import unpack_dual

from discretize import compat
from discretize.errors import KernelWarning, warn_user
from discretize.kernels.price import builds_at_once, may_build

__all__ = [
    "HALF",
    "Fused",
    "Unsolved",
    "autocast_reason",
    "device_reason",
    "is_fused",
    "is_ordinary",
    "is_plain",
    "maps_networks",
    "networks_mapped",
    "refuse_steps",
    "setting_reason",
    "takes_triton",
    "tangent_reason",
    "tensor_reason",
    "tracing_reason",
    "transform_reason",
    "waits_for_kernels",
    "warn_once",
    "whole",
]

Fused = bool | Literal["always"]  # whether kernels are taken; "always": and built at once

VARIABLE, INTERPRET = "CTRNN_FUSED", "TRITON_INTERPRET"
COUNTS = (torch.bool, torch.int32, torch.int64)  # masks and indices, of any field
TANGENTS = "derivatives are taken in forward mode"
TRANSFORMED = "it runs inside a transform of torch.func"
WHOLE, HALF = (torch.float32, torch.float64), (torch.float16, torch.bfloat16)


def is_fused(name: str, value: Fused) -> Fused:
    """Check that a setting is True, False or "always"."""
    if not isinstance(value, bool) and value != "always":
        raise TypeError(f'`{name}` must be True, False or "always", got {value!r}.')
    return value


def waits_for_kernels(fused: Fused) -> bool:
    """Whether a first call builds its kernel: it is told to, or no call may have other last bits than the one before."""
    wanted = builds_at_once() or torch.are_deterministic_algorithms_enabled()
    return fused == "always" or (bool(fused) and wanted and may_build())


def setting_reason(fused: Fused) -> str | None:
    """Why the settings ask for steps one by one: the argument `fused`, or CTRNN_FUSED, which turns all kernels off.

    Raises:  ValueError for a CTRNN_FUSED other than 0 and 1.
    """
    setting = "1" if (given := _variable(VARIABLE)) is None else given
    if setting not in ("0", "1"):
        raise ValueError(f"The environment variable {VARIABLE} must be 0 (step by step, everywhere) or 1, got {setting!r}.")
    if setting == "0":
        return f"{VARIABLE} is 0"
    if fused is True and not may_build() and torch.are_deterministic_algorithms_enabled():
        return "torch is deterministic, and a live step waits for no kernel"
    return None if fused else "`fused` is False"


class Unsolved(str):
    """Why steps run a call that a kernel has begun: they solve an equation that it did not, or name the sample that has none."""


def refuse_steps(fused: Fused, why: str | None, size: int = 1) -> None:
    """Refuse to run by steps what was to run in a kernel, fused="always".

    Steps are taken where CTRNN_FUSED turns kernels off, and where the call leaves nothing else: torch has to see single
    operations, derivatives are taken in forward mode, a live step reads one sample, an equation is `Unsolved`, or there is little
    to compute (`size` 0).
    """
    if fused != "always" or isinstance(why, Unsolved) or not size or not may_build() or compat.takes_tangents():
        return
    if setting_reason(fused) is None and tracing_reason(networks=True) is None:
        raise ValueError(
            f"`fused`='always', and there is no kernel: {str(why).rstrip('.')}. With True, the default, steps run in its place."
        )


def device_reason(like: Tensor) -> str | None:
    """Why there is no compiled kernel for tensors of this dtype and device."""
    if like.device.type == "cpu" and like.dtype in WHOLE:
        return None
    return f"compiled kernels are for float32 and float64 on the CPU, and this is {like.dtype} on {like.device}"


def tracing_reason(networks: bool = False) -> str | None:
    """Why torch must see single operations: tracing, functorch, or a mode; `networks`: vmap over an ensemble's is allowed."""
    if torch.compiler.is_compiling():
        return "it is traced by torch.compile or torch.export"
    if torch.jit.is_tracing():
        return "it is traced by torch.jit"
    if why := compat.lacks_checks():
        return why
    if compat.transforms_are_active() and not (networks and maps_networks()):
        return TRANSFORMED
    # That of `torch.set_default_device` changes none.
    functions = compat.function_modes() and any(type(mode) is not compat.DeviceContext for mode in compat.function_mode_stack())
    kind = "dispatch" if compat.dispatch_modes() else "function" if functions else None
    return kind and f"a {kind} mode looks at each operation"


def transform_reason() -> str | None:
    """Why a transform of torch.func rules kernels out; None too where this torch cannot tell, and refuses by itself."""
    is_active = compat.missing(["transforms_are_active"]) is None and compat.transforms_are_active()
    return TRANSFORMED if is_active else None


def tensor_reason(tensors: Iterable[Tensor]) -> str | None:
    """Why these tensors cannot be read together: subclasses, tangents, half precision, several dtypes or devices."""
    first, *others = tensors
    for tensor in (first, *others):
        if type(tensor) not in (Tensor, nn.Parameter):
            return f"{type(tensor).__name__} is a tensor of a kind of its own"
        if unpack_dual(tensor).tangent is not None:
            return TANGENTS
        if tensor.is_neg():  # which `contiguous` leaves as it is where it is one number
            return "a tensor is the imaginary part of a conjugate, whose numbers lie in memory with the other sign"
        if tensor.dtype in HALF or tensor.device.type == "meta":
            return f"there is none for {tensor.dtype} on {tensor.device}"
        if tensor.device != first.device or (tensor.dtype != first.dtype and tensor.dtype not in COUNTS):
            return "samples, states and weights differ in dtype or device"
    return None if first.numel() else "there are no samples"


def tangent_reason(tensors: Iterable[Tensor]) -> str | None:
    """Why tensors with forward-mode tangents have no kernel; None without any."""
    return TANGENTS if any(unpack_dual(tensor).tangent is not None for tensor in tensors) else None


def autocast_reason(xs: Tensor) -> str | None:
    """Why autocast to half precision rules kernels out; None where it is off."""
    device = xs.device.type
    if torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) in HALF:
        return f"autocast to {torch.get_autocast_dtype(device)} is on"
    return None


def is_ordinary(device: torch.device, fused: Fused) -> bool:
    """Whether nothing around a call, neither a mode of torch nor a setting, keeps it from a compiled kernel, on the CPU: what
    `tracing_reason`, `setting_reason` and others say in words, in less time."""
    if not fused or device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    raw = getattr(os.environ, "_data", os.environ)
    there = _encoded(VARIABLE) in raw or _encoded(INTERPRET) in raw or not may_build() or compat.lacks_checks()
    if (there or compat.function_modes()) and (setting_reason(fused) or tracing_reason() or _is_interpreted()):
        return False
    modes = compat.transforms_are_active() or compat.dispatch_modes() or compat.takes_tangents()
    return not modes and not torch.is_autocast_enabled("cpu")


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor's values can be read and written: no transform's tensor, no subclass, no tangent on it."""
    if type(tensor) not in (Tensor, nn.Parameter) or unpack_dual(tensor).tangent is not None:
        return False
    if compat.lacks_checks():
        return False
    # The second kind is that of `torch.autograd.grad(..., is_grads_batched=True)`.
    return not compat.transforms_are_active() and not compat.is_legacy_batched(tensor)


@contextmanager
def networks_mapped() -> Iterator[None]:
    """The innermost transform, a vmap, is over an ensemble's networks, which kernels can take at once."""
    token = _maps_networks.set(True)
    try:
        yield
    finally:
        _maps_networks.reset(token)


def maps_networks() -> bool:
    """Whether a vmap over an ensemble's networks is the only active transform."""
    return _maps_networks.get() and compat.lacks_checks() is None and compat.transform_level() == 1


def whole(tensor: Tensor) -> tuple[Tensor, int | None]:
    """Under that vmap: the stacked tensor behind a network's, and its axis of networks; the tensor itself where all share it."""
    return (compat.unbatched(tensor), compat.batched_axis(tensor)) if compat.is_batched(tensor) else (tensor, None)


def takes_triton(device: torch.device) -> bool:
    """Whether kernels in Triton come before others: on a GPU, and anywhere under Triton's interpreter."""
    return device.type == "cuda" or _is_interpreted()


def _is_interpreted() -> bool:
    return (_variable(INTERPRET) or "").lower() in ("1", "true", "on", "yes", "y")


def _variable(name: str) -> str | None:
    """That of the environment; Python's own way to one that is not set raises two errors, and is gone at every call."""
    raw = getattr(os.environ, "_data", None)
    return os.environ.get(name) if raw is None or _encoded(name) in raw else None


@cache
def _encoded(name: str) -> object:
    """The name as a table of the environment has it."""
    return os.environ.encodekey(name) if hasattr(os.environ, "_data") else name


def warn_once(why: str) -> str:
    """Warn that there is no compiled kernel, and why, the first time in a process; returns the reason."""
    global _warned  # noqa: PLW0603
    if not _warned:
        _warned = True
        warn_user(
            "Cells run step by step in PyTorch and not by compiled kernels, about 5 to 7 times slower at the sizes measured in "
            f"docs/speed.md. {why}",
            KernelWarning,
        )
    return why


_warned = False
_maps_networks: ContextVar[bool] = ContextVar("_maps_networks", default=False)
