"""What a run of a sequence gives to callers that do not read the state after each sample: torch's LSTM has no more."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Reads", "Shown"]


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
