r"""Run a sequence by torch's own function for it, where it is one: unit Euler steps of a plain, GRU or LSTM field.

    plain   torch.rnn_tanh, rnn_relu
    GRU     torch.gru, whose z is 1 - g: the rate's weights turn their signs
    LSTM    torch.lstm, which gives the last c alone: for callers that read no other

It takes the place of steps while a kernel has not been built, and that of a kernel where it was measured to be faster. On the
field's own weights, put in torch's order in the graph. Layers that are all run so are one call of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ctrnn import VectorField
from ctrnn.cells.conversion import TorchWeights, has_own_sizes, torch_kind
from ctrnn.cells.lstm import LSTMField
from ctrnn.fields.candidates import ReluCandidate
from ctrnn.own_code import exchanged_method
from discretize import compat
from discretize.kernels.eligibility import Fused, is_ordinary, tensor_reason
from discretize.kernels.price import builds_at_once
from discretize.kernels.record.attributes import GLOBAL_HOOKS
from discretize.kernels.shown import Reads, Shown
from discretize.steps.along import HeldProblem
from discretize.steps.euler import Euler
from discretize.steps.step import Step, key_of

__all__ = [
    "JoinedWeights",
    "TorchRun",
    "is_lstm_of_networks",
    "joined",
    "learns",
    "lengths_of",
    "loop_reason",
    "quicker_reason",
    "run_networks",
    "run_torchs_own",
    "torchs_run",
]

EULER = key_of(Euler())


class LSTMSizes(NamedTuple):
    """Sizes of an LSTM at which torch's function is faster than the kernel: from so many units on, and where fewer numbers than
    `most` are kept, (time, batch, hidden), or twice as many from WIDE units on."""

    units: int
    most: int


# torch.lstm in float32 is oneDNN's. Without gradients, and with: what it keeps beyond `most` is fetched from the system anew at
# each call, and takes as long as to compute it. Where there are many units, and sequences, products are nearly all, and its own
# are faster. In other dtypes, and of plain and GRU fields, kernels were faster at all sizes (docs/speed.md has the table).
FASTER = {False: LSTMSizes(32, 2_500_000), True: LSTMSizes(1, 250_000)}
WIDE, MANY = 512, 64
# Units from which torch.lstm, network after network, was faster than one kernel for an ensemble, and without gradients only.
UNITS_OF_NETWORKS = 128


def run_torchs_own(problem: HeldProblem, fused: Fused, reads: Reads | None) -> Tensor | Shown | None:
    """The state after each sample, (time, batch, state), or what is read of it; None for what is not torch's, and where something
    has to see single steps."""
    field, step, xs, h0, dt, substeps = problem
    length, tensors = dt if reads is None else reads.dt, [xs, h0, *field.parameters(), *field.buffers()]
    if isinstance(length, Tensor) or not is_ordinary(h0.device, fused) or tensor_reason(tensors):
        return None
    if any(getattr(compat, name, None) for name in GLOBAL_HOOKS) or (run := torchs_run(field, step, length, substeps)) is None:
        return None
    if reads is None:
        return None if run.pair else run(xs, h0[None]).output
    return run(xs, h0[None]) if reads.lengths is None else run.padded(xs, h0[None], reads.lengths)


def quicker_reason(field: VectorField, fused: Fused, time: int, batch: int, learning: bool) -> str | None:
    """Why torch's own function is taken though there may be a kernel, None where it is not: where it was measured to be faster.

    Args:    learning: whether gradients are asked for.
    """
    if not isinstance(field, LSTMField) or field.dtype != torch.float32 or fused is not True or builds_at_once():
        return None
    hidden, (units, most) = field.hidden_size, FASTER[learning]
    kept, wide = time * batch * hidden, hidden >= WIDE
    if hidden < units or (kept >= most * (1 + wide) and not (wide and batch >= MANY)):
        return None
    how = "with gradients" if learning else "without gradients"
    return f"an LSTM's kernel is slower at this size, {how} (docs/speed.md)"


def is_lstm_of_networks(field: VectorField, step: Step, dt: float, substeps: int, networks: int) -> bool:
    """Whether an ensemble's steps are those of torch.lstm with each network's weights, which are stacked in the field."""
    if not _is_torchs(step, dt, substeps) or torch_kind(field) is not nn.LSTMCell:
        return False
    assert isinstance(field, LSTMField)
    gates, rows = field.gates, 4 * field.hidden_size
    sizes = [(networks, rows, field.input_size), (networks, rows, field.hidden_size), (networks, rows)]
    return all(
        part is None or part.shape == size for part, size in zip((gates.weight_x, gates.weight_h, gates.bias), sizes, strict=True)
    )


def loop_reason(field: VectorField, fused: Fused, time: int, batch: int, learning: bool) -> str | None:
    """Why torch.lstm runs an ensemble, network after network, as `quicker_reason`; None where one kernel does."""
    return None if learning or field.hidden_size < UNITS_OF_NETWORKS else quicker_reason(field, fused, time, batch, learning)


def run_networks(field: VectorField, xs: Tensor) -> tuple[Tensor, Tensor]:
    """Run torch.lstm from zero, network after network, without gradients.

    Shape:   xs (time, batch, input), or (networks, time, batch, input)
             -> what is visible, (networks, time, batch, hidden), and the last states, (networks, 1, batch, state).
    """
    assert isinstance(field, LSTMField)
    gates, outputs, ends = field.gates, list[Tensor](), list[Tensor]()
    zeros = xs.new_zeros(1, xs.shape[-2], field.hidden_size)
    biases = [] if gates.bias is None else [gates.bias, torch.zeros_like(gates.bias)]
    for k, weights in enumerate(zip(gates.weight_x, gates.weight_h, *biases, strict=True)):
        given = xs[k] if xs.dim() == 4 else xs
        output, h, c = torch.lstm(given, [zeros, zeros], [*weights], bool(biases), 1, 0.0, False, False, False)
        outputs.append(output)
        ends.append(torch.cat([h, c], -1))
    return torch.stack(outputs), torch.stack(ends)


def learns(tensors: Iterable[Tensor]) -> bool:
    """Whether gradients are recorded of a call that reads these."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


class TorchRun(NamedTuple):
    """Calls torch's function for sequences of one field, or of those of layers, in torch's order, as many `directions` in each.

    pair: whether the state is [h, c], of which it tells the last c alone.
    """

    function: Callable[..., Any]
    pair: bool
    weights: tuple[TorchWeights, ...]
    directions: int = 1

    def __call__(self, xs: Tensor, h0: Tensor, dropout: float = 0.0) -> Shown:
        """(time, batch, input) from (states, batch, state); dropout: of what each layer but the last gives."""
        return self.begun(xs, self.starts(h0), dropout)

    def begun(self, xs: Tensor, starts: Any, dropout: float = 0.0) -> Shown:
        output, *ends = self.function(xs, starts, *self.settings(dropout), False)
        return Shown(output, self._joined(ends))

    def packed(self, data: Tensor, batch_sizes: Tensor, h0: Tensor, dropout: float = 0.0) -> Shown:
        """As for samples that are packed, the longest sequence first."""
        output, *ends = self.function(data, batch_sizes, self.starts(h0), *self.settings(dropout))
        return Shown(output, self._joined(ends))

    def padded(self, xs: Tensor, h0: Tensor, lengths: Tensor) -> Shown:
        """As for sequences of different lengths."""
        given = pack_padded_sequence(xs, lengths, enforce_sorted=False)
        data, ends = self.packed(given.data, given.batch_sizes, h0[:, given.sorted_indices])
        output, _ = pad_packed_sequence(given._replace(data=data), total_length=len(xs))
        return Shown(output, ends[:, given.unsorted_indices])

    def starts(self, h0: Tensor) -> Any:
        """As torch's function reads them."""
        return [part.contiguous() for part in h0.chunk(2, -1)] if self.pair else h0

    def _joined(self, ends: list[Tensor]) -> Tensor:
        return torch.cat(ends, -1) if self.pair else ends[0]

    @property
    def reorders(self) -> bool:
        """Whether torch's weights are joined of several, or have other signs."""
        return any(len(part) > 1 for weights in self.weights for part in weights.parts)

    def settings(self, dropout: float) -> tuple[Any, ...]:
        has_bias = any(weights.has_bias for weights in self.weights)
        joined = [weight for weights in self.weights for weight in weights.joined(has_bias)]
        trains = torch.is_grad_enabled() or dropout > 0  # else oneDNN keeps nothing for a backward pass
        return joined, has_bias, len(self.weights) // self.directions, dropout, trains, self.directions == 2


class JoinedWeights:
    """Puts weights in torch's order where no gradient is recorded: in memory that each call fills anew."""

    def __init__(self, run: TorchRun) -> None:
        with torch.inference_mode(False), torch.no_grad():  # for calls outside of it too; the first one alone records gradients
            self.settings: tuple[Any, ...] = run.settings(0.0)
            parts = [part for weights in run.weights for part in weights.parts[: 4 if self.settings[1] else 2]]
            self.parts = [
                ([tensor for tensor, _ in part], whole, _turned(part, whole))
                for part, whole in zip(parts, self.settings[0], strict=True)
                if len(part) > 1
            ]

    def filled(self) -> tuple[Any, ...]:
        """Return what `TorchRun.settings` does, of weights as they are now."""
        for tensors, whole, turned in self.parts:
            torch.cat(tensors, out=whole)
            for rows in turned:
                rows.neg_()
        return self.settings


def _turned(part: Sequence[tuple[Tensor, int]], whole: Tensor) -> list[Tensor]:
    """Return the rows of a joined tensor whose signs turn."""
    rows = whole.split([len(tensor) for tensor, _ in part])
    return [some for some, (_, sign) in zip(rows, part, strict=True) if sign < 0]


def lengths_of(batch_sizes: Tensor) -> list[int]:
    """Return those of packed sequences, the longest first."""
    counts, lengths = batch_sizes.tolist(), list[int]()
    for time in range(len(counts), 0, -1):
        lengths += [time] * (counts[time - 1] - len(lengths))
    return lengths


def joined(runs: Sequence[TorchRun | None], directions: int) -> TorchRun | None:
    """Those of layers as one; None where torch has no one function for them."""
    first = runs[0]
    if first is None or any(run is None or run.function is not first.function for run in runs):
        return None
    return first._replace(weights=tuple(weights for run in runs if run for weights in run.weights), directions=directions)


def _is_torchs(step: Step, dt: float, substeps: int) -> bool:
    """Whether these are unit Euler steps, by the code that we wrote for them."""
    return substeps == 1 and dt == 1.0 and key_of(step) == EULER and exchanged_method(Euler) is None


def torchs_run(field: VectorField, step: Step, dt: float, substeps: int) -> TorchRun | None:
    """How torch runs these steps of a field; None where it has no function for them."""
    if not _is_torchs(step, dt, substeps) or (kind := torch_kind(field)) is None:
        return None
    if not has_own_sizes(field):
        return None
    weights = (TorchWeights.of(field),)
    if kind is nn.RNNCell:
        return TorchRun(torch.rnn_relu if isinstance(field.candidate, ReluCandidate) else torch.rnn_tanh, False, weights)
    return TorchRun(torch.gru, False, weights) if kind is nn.GRUCell else TorchRun(torch.lstm, True, weights)
