r"""Removes the recurrent weights of the LSTM's output gate: o = sigma(Wx x + b) instead of sigma(Wx x + Wh h + b).

While its clock stands and x is the same, c is the same and so is h = o tanh(c): the only LSTM that is invariant to clocks which
stop and go.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ctrnn import LSTMField

__all__ = ["remove_output_recurrence"]


class _WithoutLastQuarter(nn.Module):
    """Zeroes the last quarter of rows, those of o."""

    def forward(self, weight: Tensor) -> Tensor:
        kept = 3 * len(weight) // 4
        return torch.cat([weight[:kept], torch.zeros_like(weight[kept:])])

    def right_inverse(self, weight: Tensor) -> Tensor:
        return self(weight)


def remove_output_recurrence(field: LSTMField) -> LSTMField:
    r"""Set the recurrent weights of the output gate to zero in place; they stay zero in training.

    Source:  this project, result 10.
    """
    parametrize.register_parametrization(field.gates, "weight_h", _WithoutLastQuarter())
    return field
