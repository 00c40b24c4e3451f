"""Derivatives along a direction, in forward mode: `torch.func.jvp`, without what torch warns of itself when it first loads it."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import torch

__all__ = ["jvp"]


def jvp(f: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...], **settings: Any) -> Any:
    """As `torch.func.jvp`."""
    if not torch.compiler.is_compiling():
        _load()
    return torch.func.jvp(f, primals, tangents, **settings)


@functools.cache
def _load() -> None:
    # torch.autograd.forward_ad scripts its decompositions at the first use, and torch.jit.script is deprecated: with -W error
    # the first stiff solve of a process would fail.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.func.jvp(torch.sin, (torch.zeros(()),), (torch.ones(()),))
