r"""SequenceModel: a recurrent network and a linear read-out of its visible state.

outputs_k = W h_k + b          h_k the state after sample k
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from ctrnn import VectorField
from discretize import ContinuousRNN, DiscreteRNN
from experiments.models.integrators import IntegratorSettings, sequence_module

__all__ = ["SequenceModel"]


class SequenceModel(nn.Module):
    r"""A sequence of inputs -> a sequence of outputs, by any field under any integrator.

    Args:    rnn: the field with its integrator, shared, not copied; output_size: numbers read out after every sample;
             generator: for the read-out's weights, which start as those of torch.nn.Linear.
    Call:    model(xs, ts=None, lengths=None), both as for the rnn; xs in any dtype, read in the model's.
    Shape:   xs (time, batch, input) -> (time, batch, output_size).
    Source:  Tallec and Ollivier 2018, sec. 3.
    """

    def __init__(self, rnn: DiscreteRNN | ContinuousRNN, output_size: int, generator: object = None) -> None:
        super().__init__()
        self.rnn = rnn
        hidden, bound = rnn.field.hidden_size, 1 / math.sqrt(rnn.field.hidden_size)
        self.read_out: nn.Linear = nn.utils.skip_init(  # what torch.nn.Linear draws, from a generator of our own
            nn.Linear, hidden, output_size, dtype=rnn.field.dtype, device=rnn.field.device or "cpu"
        )
        for parameter in self.read_out.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)  # type: ignore[arg-type]

    def forward(self, xs: Tensor, ts: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        weight = self.read_out.weight
        states, _ = self.rnn(xs.to(weight), ts=ts, lengths=lengths)
        return self.read_out(states)

    @property
    def field(self) -> VectorField:
        """The vector field, without its integrator."""
        return self.rnn.field

    def under(self, integrator: str, settings: IntegratorSettings | None = None) -> SequenceModel:
        r"""The same weights, shared, under another integrator; training the one trains the other.

        Raises:  UsageError for a name that no integrator has.
        """
        moved = SequenceModel.__new__(SequenceModel)
        nn.Module.__init__(moved)
        moved.rnn = sequence_module(integrator, self.field, settings or IntegratorSettings())
        moved.read_out = self.read_out
        return moved.train(self.training)
