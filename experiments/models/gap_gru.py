r"""A GRU of torch that reads the time since the sample before as one more number: the habit that a run is compared with.

nn.GRU([x_k, t_k - t_(k-1)])  ->  nn.Linear
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from experiments.seeds import drawing

__all__ = ["GapGRU"]


class GapGRU(nn.Module):
    r"""Reads samples and the gaps before them by `torch.nn.GRU`, and outputs by `torch.nn.Linear`, as torch draws them.

    Shape:   xs (time, batch, input), ts None or (times,) or (times, batch) -> (time, batch, output). The first gap is 0.
    """

    rnn: Any

    def __init__(self, input_size: int, hidden_size: int, output_size: int, generator: torch.Generator) -> None:
        super().__init__()
        with drawing(generator):
            self.rnn = nn.GRU(input_size + 1, hidden_size, dtype=torch.float32)
            self.read_out = nn.Linear(hidden_size, output_size, dtype=torch.float32)
        self.rnn.stats = {}  # no engine of ours

    def forward(self, xs: Tensor, ts: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """Answer at every sample; what is behind the end of a sequence is not asked for."""
        xs = xs.to(self.read_out.weight)
        gaps = xs.new_zeros(*xs.shape[:2], 1)
        if ts is not None:
            before = ts[: len(xs)].reshape(len(xs), -1, 1)
            gaps = before.diff(dim=0, prepend=before[:1]).to(xs).expand_as(gaps)
        states: Tensor = self.rnn(torch.cat([xs, gaps], -1))[0]
        outputs: Tensor = self.read_out(states)
        return outputs
