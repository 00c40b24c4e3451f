r"""Functions of torch that are called as others: where torch has no derivative of a derivative, or a wrong one.

    layer_norm       torch 2.13 takes mean and deviation for constants in the derivative of (df/dh) v; instance_norm too
    linalg.solve     and its factors, of a matrix that moves
    glu              of which it has none

Each is the same number and derivative to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["TWICE", "Exchangeable", "Rewritten", "Rules"]

F = TypeVar("F", bound=Callable[..., Any])
Rules = Mapping[str, Callable[..., Tensor]]


class Exchangeable(Generic[F]):
    """Tells a function of this project whether another is to be called in its place, as while code is recorded for a kernel."""

    def __init__(self, name: str) -> None:
        self._other: ContextVar[F | None] = ContextVar(name, default=None)

    @property
    def other(self) -> F | None:
        """The function that is to be called; None without one, and where torch.compile reads the code."""
        return None if torch.compiler.is_dynamo_compiling() else self._other.get()

    @contextmanager
    def by(self, other: F) -> Iterator[None]:
        """Have another function called while the context is entered."""
        before = self._other.set(other)
        try:
            yield
        finally:
            self._other.reset(before)


class Rewritten(TorchFunctionMode):
    r"""While it is entered, functions of torch are called as `rules` have them, by their names.

    A rule answers NotImplemented, or raises TypeError, for arguments that it is not for; then torch's function is called.
    """

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self.rules = rules

    def __torch_function__(self, function: Any, types: object, arguments: Any = (), settings: Any = None) -> Any:
        rule = self.rules.get(getattr(function, "__name__", ""))
        if rule is not None:
            try:
                result: Any = rule(*arguments, **(settings or {}))
            except TypeError:
                result = NotImplemented
            if result is not NotImplemented:
                return result
        return function(*arguments, **(settings or {}))


def _layer_norm(
    given: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: object,
) -> Tensor:
    normed = _normalized(given, tuple(range(-len(normalized_shape), 0)), eps)
    normed = normed if weight is None else normed * weight
    return normed if bias is None else normed + bias


def _instance_norm(
    given: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if running_mean is not None or not use_input_stats:
        return NotImplemented
    normed, ones = _normalized(given, tuple(range(2, given.dim())), eps), (1,) * (given.dim() - 2)
    normed = normed if weight is None else normed * weight.unflatten(0, (-1, *ones))
    return normed if bias is None else normed + bias.unflatten(0, (-1, *ones))


def _normalized(given: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    variance, mean = torch.var_mean(given, axes, correction=0, keepdim=True)
    return (given - mean) * torch.rsqrt(variance + eps)


def _solve(matrix: Tensor, right: Tensor, *, left: bool = True) -> Tensor:
    if not left:
        return NotImplemented
    inverse = torch.linalg.inv(matrix)
    is_vector = right.dim() == 1 or right.shape == matrix.shape[:-1]
    return (inverse @ right.unsqueeze(-1)).squeeze(-1) if is_vector else inverse @ right


def _glu(given: Tensor, dim: int = -1) -> Tensor:
    one, other = given.chunk(2, dim)
    return one * torch.sigmoid(other)


TWICE: dict[str, Callable[..., Tensor]] = {
    "layer_norm": _layer_norm,
    "instance_norm": _instance_norm,
    "linalg_solve": _solve,
    "glu": _glu,
}
