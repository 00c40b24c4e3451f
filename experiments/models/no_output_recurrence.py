r"""The LSTM whose output gate does not read the state: o = sigma(Wx x + b) instead of sigma(Wx x + Wh h + b).

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
    """The rows of i, f and g as they are, those of o zero."""

    def forward(self, weight: Tensor) -> Tensor:
        kept = 3 * len(weight) // 4
        return torch.cat([weight[:kept], torch.zeros_like(weight[kept:])])


def remove_output_recurrence(field: LSTMField) -> LSTMField:
    r"""Take the recurrent weights of the output gate away, in place and for good: they are zero and stay so in training.

    Source:  this project, result 10.
    """
    parametrize.register_parametrization(field.gates, "weight_h", _WithoutLastQuarter())
    return field
