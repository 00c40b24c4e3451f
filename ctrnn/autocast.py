r"""Under `torch.autocast` tensors come in half precision; they are read in the field's own, as torch.nn reads them in its.

torch.nn, CPU    x of float32, bfloat16 or float16 alike, products with weights in half precision; float64 is refused
cells            the same, states in the field's dtype whatever x has (nn.GRU gives back that of x, nn.LSTM bfloat16)
solves           nothing in half precision: a solver, and Newton's method, would resolve the rounding of the field
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import torch
from torch import Tensor

__all__ = ["cast_for", "casts", "device_kind", "without_autocast"]

Value = TypeVar("Value")
CAST = (torch.float32, torch.bfloat16, torch.float16)  # not float64, which torch leaves as it is


class HasDtype(Protocol):
    @property
    def dtype(self) -> torch.dtype | None: ...

    @property
    def device(self) -> torch.device | None: ...


def casts(field: HasDtype) -> bool:
    """Return whether autocast is active for a field, in whose dtype tensors then are read."""
    return field.dtype in CAST and torch.is_autocast_enabled(device_kind(field.device))


def cast_for(field: HasDtype, value: Value) -> Value:
    """Convert a tensor to the field's dtype where autocast has made it another; leave all else as it is."""
    if isinstance(value, Tensor) and value.dtype in CAST and value.dtype != field.dtype and casts(field):
        return value.to(field.dtype)  # type: ignore[return-value]
    return value


def without_autocast(device: torch.device | None) -> torch.autocast:
    """Turn autocast off, for solves."""
    return torch.autocast(device_kind(device), enabled=False)


def device_kind(device: torch.device | None) -> str:
    """Return the type of a device as autocast knows it."""
    return "cpu" if device is None or device.type == "meta" else device.type
