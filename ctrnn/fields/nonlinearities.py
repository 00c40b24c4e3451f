r"""Names the functions of a unit's argument, elementwise: what a rate is of a potential.

tanh      sigmoid, 1 / (1 + e^-a)      relu, max(0, a)      softplus, log(1 + e^a)      retanh, max(0, tanh a)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ctrnn import checks

__all__ = ["Function", "Nonlinearity", "formula_of_function", "function_named"]

Nonlinearity = Literal["tanh", "relu", "softplus", "sigmoid", "retanh"]
Function = Callable[[Tensor], Tensor]


def _softplus(argument: Tensor) -> Tensor:
    return -logsigmoid(-argument)  # also far to the right, where torch's own is the argument


def _retanh(argument: Tensor) -> Tensor:
    return torch.relu(torch.tanh(argument))


FUNCTIONS: dict[str, tuple[Function, str]] = {
    "tanh": (torch.tanh, "tanh({})"),
    "relu": (torch.relu, "relu({})"),
    "softplus": (_softplus, "softplus({})"),
    "sigmoid": (torch.sigmoid, "sigma({})"),
    "retanh": (_retanh, "relu(tanh({}))"),
}


def function_named(nonlinearity: Nonlinearity | Function) -> Function:
    """Return the function that a word names, or the function itself.

    Raises:  TypeError for what is neither, or ValueError, naming the words.
    """
    if callable(nonlinearity):
        return nonlinearity
    return FUNCTIONS[checks.one_of("nonlinearity", nonlinearity, FUNCTIONS)][0]


def formula_of_function(nonlinearity: Nonlinearity | Function, argument: str) -> str:
    """Write the function of an argument in the grammar of formulas; one of the user's own by its name."""
    if callable(nonlinearity):
        return f"{getattr(nonlinearity, '__name__', type(nonlinearity).__name__).strip('<>_')}({argument})"
    return FUNCTIONS[nonlinearity][1].format(argument)
