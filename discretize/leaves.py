r"""A chain on leaves: its input replaced by tensors of its own, to find gradients by without the graph behind them.

A part of a solve that is computed again for its gradient must not run back through the projection of the whole sequence
each time: it is differentiated by what it reads, and the rest of the way is gone once.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ctrnn.along import Along
from ctrnn.driven import Course
from discretize.segments import Chain

__all__ = ["OnLeaves", "on_leaves", "once_only", "parameters_of", "refuse_captured"]


class OnLeaves(Along):
    """A path whose segments are made of leaves, set up when they are first read; `leaves[j]` are those of segment j."""

    def __init__(self, path: Along) -> None:
        self.path, self.steady, self.own_times = path, path.steady, path.own_times
        self.leaves: dict[int, list[Tensor]] = {}
        self._segments: dict[int, Along] = {}

    def at(self, j: int, t: Tensor, rows: Tensor | None = None) -> Tensor:
        if j not in self.leaves:
            self.leaves[j] = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in self.path.tensors(j)]
            self._segments[j] = self.path.on(j, self.leaves[j])
        return self._segments[j].at(j, t, rows)


def on_leaves(chain: Chain) -> tuple[Chain, OnLeaves]:
    """The chain with its path on leaves, and that path."""
    course = chain.course
    path = OnLeaves(course.path)
    cut = copy.copy(chain)
    cut.course = Course(course.field, path, course.speed)
    return cut, path


def parameters_of(chain: Chain) -> list[Tensor]:
    """What is learned of the field."""
    field = chain.course.field
    return [p for p in (*field.parameters(), *field.buffers()) if p.requires_grad]


def refuse_captured(chain: Chain, h0: Tensor, setting: str) -> None:
    """Refuse tensors that require a gradient and are neither parameters of the field, nor samples, nor h0."""
    if chain.differentiable or not len(chain):
        return
    cut, path = on_leaves(chain)
    with torch.enable_grad():
        slope = cut.segment(0)(torch.zeros((), dtype=torch.float64, device=h0.device), h0.detach())
    known = {id(tensor) for tensor in (*parameters_of(chain), *path.leaves[0])}
    for leaf in _leaves_behind(slope):
        if id(leaf) not in known:
            raise ValueError(
                f"`{setting}` gives gradients to the field's parameters, the samples of the path and h0, and a tensor of shape "
                f"{tuple(leaf.shape)} that requires one is used besides. Make it a parameter of the field, detach it, or leave "
                f"`{setting.partition('=')[0]}` out: gradients then flow everywhere."
            )


def _leaves_behind(result: Tensor) -> Iterator[Tensor]:
    """The tensors that the graph of a result ends at."""
    if result.grad_fn is None and result.requires_grad:
        yield result
    waiting, seen = [result.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        waiting.extend(following for following, _ in node.next_functions)


def once_only(setting: str, gradients: Sequence[Tensor | None], inputs: Sequence[Tensor]) -> list[Tensor | None]:
    """First derivatives that refuse to be differentiated again, by whichever of the inputs.

    torch's own `once_differentiable` is not asked by `torch.autograd.grad`, which then takes them for constants.
    """
    found = [gradient for gradient in gradients if gradient is not None]
    marked = iter(_OnceOnly.apply(setting, len(found), *found, *inputs))
    return [None if gradient is None else next(marked) for gradient in gradients]


class _OnceOnly(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, setting: str, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.setting = setting
        return tuple(tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        name = ctx.setting
        raise RuntimeError(f"There are no second derivatives with `{name}`; leave it out, and gradients are graphs of their own.")
