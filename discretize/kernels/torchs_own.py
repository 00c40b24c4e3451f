r"""Run a sequence by torch's own function for it, where it is one: unit Euler steps of a plain, GRU or LSTM field.

    plain   torch.rnn_tanh, rnn_relu
    GRU     torch.gru, whose z is 1 - g: the rate's weights turn their signs
    LSTM    torch.lstm, which gives the last c alone: for callers that read no other

It takes the place of steps while a kernel has not been built. On the field's own weights, put in torch's order in the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ctrnn import VectorField
from ctrnn.cells.conversion import has_own_sizes, torch_kind, torch_weights
from ctrnn.cells.lstm import LSTMField
from ctrnn.fields.candidates import ReluCandidate
from discretize import compat
from discretize.kernels.eligibility import Fused, is_ordinary, tensor_reason
from discretize.kernels.price import builds_at_once
from discretize.kernels.record.attributes import GLOBAL_HOOKS
from discretize.kernels.shown import Reads, Shown
from discretize.steps.along import HeldProblem
from discretize.steps.euler import Euler
from discretize.steps.step import Step, key_of

__all__ = ["Run", "is_quicker", "run_torchs_own", "torchs_run"]

EULER = key_of(Euler())


def run_torchs_own(problem: HeldProblem, fused: Fused, reads: Reads | None) -> Tensor | Shown | None:
    """The state after each sample, (time, batch, state), or what is read of it; None for what is not torch's, and where something
    has to see single steps."""
    field, step, xs, h0, dt, substeps = problem
    length, tensors = dt if reads is None else reads.dt, [xs, h0, *field.parameters(), *field.buffers()]
    if isinstance(length, Tensor) or not is_ordinary(h0.device, fused) or tensor_reason(tensors):
        return None
    if any(getattr(compat, name, None) for name in GLOBAL_HOOKS) or (run := torchs_run(field, step, length, substeps)) is None:
        return None
    return None if reads is None and run.pair else run(field, xs, h0, reads and reads.lengths)


def is_quicker(field: VectorField, fused: Fused) -> bool:
    """Whether torch's own function is taken where there is a kernel too: of an LSTM in float32 without gradients, by oneDNN."""
    waits = fused is not True or builds_at_once()
    return isinstance(field, LSTMField) and not waits and field.dtype == torch.float32 and not torch.is_grad_enabled()


class Run(NamedTuple):
    """Calls torch's function for sequences; pair: whether the state is [h, c], of which it tells the last c alone."""

    function: Callable[..., Any]
    pair: bool

    def __call__(self, field: VectorField, xs: Tensor, h0: Tensor, lengths: Tensor | None = None) -> Tensor | Shown:
        weights = torch_weights(field)
        start: Any = [part.contiguous() for part in h0[None].chunk(2, -1)] if self.pair else h0[None]
        how = weights, len(weights) > 2, 1, 0.0, torch.is_grad_enabled(), False
        if lengths is None:
            output, *ends = self.function(xs, start, *how, False)
            return Shown(output, torch.cat(ends, -1)) if self.pair else output
        packed = pack_padded_sequence(xs, lengths, enforce_sorted=False)
        order, back = packed.sorted_indices, packed.unsorted_indices
        start = [part[:, order] for part in start] if self.pair else start[:, order]
        data, *ends = self.function(packed.data, packed.batch_sizes, start, *how)
        output, _ = pad_packed_sequence(packed._replace(data=data), total_length=len(xs))
        return Shown(output, torch.cat(ends, -1)[:, back])


def torchs_run(field: VectorField, step: Step, dt: float, substeps: int) -> Run | None:
    """How torch runs these steps of a field; None where it has no function for them."""
    if key_of(step) != EULER or substeps != 1 or dt != 1.0 or (kind := torch_kind(field)) is None:
        return None
    if not has_own_sizes(field):
        return None
    if kind is nn.RNNCell:
        return Run(torch.rnn_relu if isinstance(field.candidate, ReluCandidate) else torch.rnn_tanh, False)
    return Run(torch.gru, False) if kind is nn.GRUCell else Run(torch.lstm, True)
