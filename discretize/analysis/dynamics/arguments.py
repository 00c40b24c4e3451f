"""Checks of what dynamical systems and their analyses are given: states, parameters, limits, held inputs, and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from ctrnn import VectorField, checks
from ctrnn.fields.field import check_input

__all__ = ["as_limits", "as_parameters", "check_states", "held_input", "weights_at"]


def check_states(name: str, h: object, *, one: bool = False) -> None:
    """Finite states (n, state), at least one, or a single (state,)."""
    states = checks.is_tensor(name, h)
    if states.dim() != (1 if one else 2) or not states.numel() or not states.is_floating_point():
        wanted = "one state (state,)" if one else "states (n, state), one or more,"
        raise ValueError(f"`{name}` must be {wanted} in floating point, got {states.dtype} {tuple(states.shape)}.")
    checks.is_finite(name, states)


def as_parameters(p: object, h: Tensor) -> Tensor:
    """p in the dtype and on the device of the states; 0 where there is none."""
    try:
        return torch.as_tensor(0.0 if p is None else p, dtype=h.dtype, device=h.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"`p` must be a number, or a tensor of numbers, got {p!r}.") from error


def as_limits(limits: object, *units: int) -> Tensor:
    """(low, high), which may be infinite, of so many units: (*units, 2)."""
    try:
        ends = torch.as_tensor(limits, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        ends = torch.empty(0)
    if ends.shape != (*units, 2) or not bool((ends[..., 0] < ends[..., 1]).all()):
        whose = " of each of two units" if units else ""
        raise ValueError(f"`limits` must be (low, high){whose}, with low < high, got {limits!r}.")
    return ends


def held_input(x: object, field: object, samples: tuple[int, ...] = ()) -> Tensor:
    """The input of each sample, (*samples, input); a single one (input,) is that of all."""
    given = checks.is_tensor("x", x)
    if isinstance(field, VectorField):
        check_input(field, given)
    if not given.dim() or given.shape[:-1] not in ((), samples):
        whose = f", or one for each of {tuple(samples)}" if samples else "; of a parameter it is a function, p (n,) -> (n, input)"
        raise ValueError(f"`x` must be one input (input,){whose}; got shape {tuple(given.shape)}.")
    return given.expand(*samples, given.shape[-1])


def weights_at(p: Tensor, weights: Callable[[Tensor], object], field: nn.Module) -> Mapping[str, Tensor]:
    """What `weights` gives at one parameter: values of parameters or buffers of the field."""
    given, known = weights(p), dict(field.named_parameters()) | dict(field.named_buffers())
    if not isinstance(given, Mapping):
        raise TypeError(f"`weights` must give a dict {{name: value}}, got {type(given).__name__}.")
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"`weights` gives {name!r}, and the field has {', '.join(known) or 'no parameters'}.")
        if checks.is_tensor(f"weights(p)[{name!r}]", value).shape != known[name].shape:
            raise ValueError(f"`weights` gives {name!r} as {tuple(value.shape)}, in the field it is {tuple(known[name].shape)}.")
    return given
