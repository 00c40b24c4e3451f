r"""The widths of a module's arguments: as given, or as its attributes tell them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import nn

__all__ = ["INPUT_WIDTHS", "STATE_WIDTHS", "Width", "Widths", "checked_widths"]

# The width of one tensor, or of each of several: {"x": 2, "h": (3, 3)}.
Width: TypeAlias = "int | tuple[int, ...]"
Widths: TypeAlias = Mapping[str, Width]

INPUT_WIDTHS = ("input_size", "in_features", "sensory_size")
STATE_WIDTHS = ("state_size", "hidden_size")


def checked_widths(module: nn.Module, widths: Widths | None) -> dict[str, Width]:
    r"""The widths given, or the module's own.

    Raises:  TypeError for what is no module, or has no Python code; ValueError for widths that do not fit its arguments.
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"`module` must be a torch.nn.Module, got {type(module).__name__}.")
    if isinstance(module, torch.jit.ScriptModule):
        raise TypeError("`module` is compiled by torch.jit, and has no Python code to record; give the module it was made of.")
    if widths is None:
        return _own_widths(module)
    if not isinstance(widths, Mapping) or not all(_is_width(width) for width in widths.values()):
        raise ValueError(f'`widths` must be as {{"x": 2, "h": 3}}, a number from 1 on or a tuple of them each, got {widths!r}.')
    signature = inspect.signature(module.forward)
    fixed = [a.name for a in signature.parameters.values() if a.kind is not a.VAR_POSITIONAL]
    try:
        fits = all(name == given for name, given in signature.bind(*widths).arguments.items() if name in fixed)
    except TypeError:
        fits = False
    if not fits:
        raise ValueError(
            f"`widths` names {', '.join(map(str, widths))}; {type(module).__name__} is called with {', '.join(fixed)}."
        )
    return dict(widths)


def _is_width(width: Any) -> bool:
    return all(isinstance(n, int) and n > 0 for n in (width if isinstance(width, tuple) else (width,)))


def _own_widths(module: nn.Module) -> dict[str, Width]:
    """The widths of a module's two arguments, input and state, where its attributes tell them.

    Raises:  ValueError where they do not.
    """
    arguments = list(inspect.signature(module.forward).parameters.values())
    open_ended = [a.name for a in arguments[2:] if a.default is a.empty and a.kind is a.POSITIONAL_OR_KEYWORD]
    known = [next((getattr(module, name) for name in names if isinstance(getattr(module, name, None), int)), None)
             for names in (INPUT_WIDTHS, STATE_WIDTHS)]  # fmt: skip
    named = [a.name for a in arguments[:2] if a.kind is a.POSITIONAL_OR_KEYWORD]
    two = len(named) == 2 and not open_ended
    if not two or None in known:
        attributes = "keep them as its attributes `input_size` and `hidden_size`, or " if two else ""
        raise ValueError(
            f"the widths of {type(module).__name__}'s arguments ({', '.join(a.name for a in arguments)}) are not known; "
            f"{attributes}give them as `widths`, the state's second: "
            f"widths={{{', '.join(f'{a.name!r}: 3' for a in arguments)}}}."
        )
    x, h = known
    return {arguments[0].name: x, arguments[1].name: (h, h) if isinstance(module, nn.LSTMCell) else h}  # type: ignore[dict-item]
