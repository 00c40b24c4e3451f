r"""Classifiers of values that are seen at times of their own, some of them missing, by name: x_k = [values, seen or not].

    gru-d  ode-rnn  gru-ode-bayes       between stamps the state runs on its own, at each one it jumps
    gru-backward  gated-backward        dh/dt = rate (candidate - h), x_k acting from the stamp before up to its own
    gru                                 one step a stamp, whatever the time between: the control

The field of ODE-RNN takes one Euler step from stamp to stamp, that of GRU-ODE-Bayes an exponential one, as the held ones do.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

import ctrnn
from discretize import DiscreteRNN, Euler, ExponentialEuler, JumpRNN, SequenceModel, gru_d, gru_ode_bayes, ode_rnn
from discretize.sequences.module import SequenceModule

__all__ = ["CLASSES", "OBSERVED", "ObservedJumps"]

CLASSES = 2  # died or not


class ObservedJumps(nn.Module):
    r"""A `JumpRNN` of [values, seen or not], and a read-out of its state after each observation.

    Shape:   xs (time, batch, 2 values) -> (time, batch, outputs); ts and lengths as for the rnn.
    """

    def __init__(self, rnn: JumpRNN, outputs: int = CLASSES) -> None:
        super().__init__()
        self.rnn, self.read_out = rnn, nn.Linear(rnn.hidden_size, outputs)

    def forward(self, xs: Tensor, ts: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        values, seen = xs.chunk(2, -1)
        states, _ = self.rnn(values, ts=ts, lengths=lengths, observed=seen > 0)
        outputs: Tensor = self.read_out(states)
        return outputs


def _held(make: Callable[[int, int], ctrnn.VectorField], values: int, hidden: int) -> nn.Module:
    rnn: SequenceModule = DiscreteRNN(make(2 * values, hidden), ExponentialEuler(), hold="backward", open_interval=1.0)
    return SequenceModel(rnn, CLASSES)


OBSERVED: dict[str, Callable[[int, int], nn.Module]] = {
    "gru-d": lambda values, hidden: ObservedJumps(gru_d(values, hidden)),
    "ode-rnn": lambda values, hidden: ObservedJumps(ode_rnn(values, hidden, method=Euler())),
    "gru-ode-bayes": lambda values, hidden: ObservedJumps(gru_ode_bayes(values, hidden, method=ExponentialEuler())),
    "gru-backward": lambda values, hidden: _held(ctrnn.gru, values, hidden),
    "gated-backward": lambda values, hidden: _held(ctrnn.gated, values, hidden),
    "gru": lambda values, hidden: SequenceModel(DiscreteRNN(ctrnn.gru(2 * values, hidden)), CLASSES),
}
"""Name -> what makes the model of so many values with so many units."""
