"""What a run of a sequence gives to callers that do not read the state after each sample: torch's LSTM has no more."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import PackedSequence

from discretize.kernels import reference
from discretize.kernels.cpp.memory import lent

__all__ = ["Reads", "Shown", "call_key", "read_of_networks"]


class Reads(NamedTuple):
    """Says that a `Shown` is enough, and of what. dt: how long samples last; lengths: (batch,) on the CPU, None for full ones."""

    dt: float
    lengths: Tensor | None


class Shown(NamedTuple):
    """What is visible after each sample, (time, batch, hidden), and the state after each sequence's last, (1, batch, state)."""

    output: Tensor
    state: Tensor

    def states(self) -> Tensor:
        """States (time, batch, state) that are right where they are visible; what is not is at each time that of the end."""
        hidden = self.output.shape[-1]
        return torch.cat([self.output, self.state[..., hidden:].expand(len(self.output), -1, -1)], -1)


def call_key(x: Tensor | PackedSequence, h_0: object) -> tuple[Any, ...]:
    """What tells kinds of calls from one another that may be repeated: shapes, how sequences are packed, whether gradients are
    recorded. No more than a key: what stands behind it has to be compared."""
    samples = x.shape if isinstance(x, Tensor) else getattr(getattr(x, "sorted_indices", None), "shape", type(x))
    return samples, h_0 if h_0 is None else getattr(h_0, "shape", type(h_0)), torch.is_grad_enabled()


def read_of_networks(states: Tensor, hidden: int) -> tuple[Tensor, Tensor]:
    """States of networks, (networks, time, batch, state), that nothing else reads -> what is visible of each, (..., hidden), in
    the same memory, and the last, (networks, 1, batch, state)."""
    if states.requires_grad and torch.is_grad_enabled():
        output, ends = _ReadOfNetworks.apply(states, hidden)
        return output, ends
    return states[..., :hidden], states[:, -1:].clone()


class _ReadOfNetworks(torch.autograd.Function):
    """Reads with a gradient that lies in memory which is used again: torch's, of a part, is joined with zeros in new memory."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, hidden: int) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.sizes, part = states.shape, states[..., :hidden]
        # No view of the states, for that of a function of one's own is refused what writes into it.
        output = states.new_empty(0).set_(states.untyped_storage(), part.storage_offset(), part.shape, part.stride())
        return output, states[:, -1:].clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, of_ends: Tensor | None) -> tuple[Tensor | None, None]:
        _, time, _, width = ctx.sizes
        if grad is not None and grad.shape[-1] == width and of_ends is None:
            return grad, None
        given = [each for each in (grad, of_ends) if each is not None]
        if not given:
            return None, None
        if any(map(reference.needs_graph, given)):
            wide = [] if grad is None else [pad(grad, (0, width - grad.shape[-1]))]
            late = [] if of_ends is None else [pad(of_ends, (0, 0, 0, 0, time - 1, 0))]
            return torch.stack([*wide, *late]).sum(0), None
        whole = lent(given[0], *ctx.sizes)
        hidden = 0 if grad is None else grad.shape[-1]
        whole[..., hidden:] = 0
        if grad is not None:
            whole[..., :hidden] = grad
        if of_ends is not None:
            whole[:, -1:] += of_ends
        return whole, None
