"""Numbers of a fit are made on the CPU, whatever torch's default device is."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

__all__ = ["on_the_cpu"]

P = ParamSpec("P")
R = TypeVar("R")


def on_the_cpu(function: Callable[P, R]) -> Callable[P, R]:
    """Have a function make its tensors on the CPU."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        if torch.get_default_device().type == "cpu":
            return function(*args, **kwargs)
        with torch.device("cpu"):
            return function(*args, **kwargs)

    return called
