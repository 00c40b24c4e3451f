r"""Names models of values that are seen at times of their own, some of them missing: x_k = [values, seen or not].

    gru-d  ode-rnn  gru-ode-bayes       between stamps the state runs on its own, at each one it jumps
    gru-backward  gated-backward        dh/dt = rate (candidate - h), x_k acting from the stamp before up to its own
    gru                                 one step a stamp, whatever the time between: the control

The field of ODE-RNN takes one Euler step from stamp to stamp, that of GRU-ODE-Bayes an exponential one, as the held ones do.
"""

from __future__ import annotations

from collections.abc import Callable

import ctrnn
from discretize import DiscreteRNN, Euler, ExponentialEuler, gru_d, gru_ode_bayes, ode_rnn
from discretize.sequences.module import SequenceModule

__all__ = ["CLASSES", "OBSERVED"]

CLASSES = 2  # died or not


def _held(make: Callable[[int, int], ctrnn.VectorField], values: int, hidden: int) -> SequenceModule:
    return DiscreteRNN(make(2 * values, hidden), ExponentialEuler(), hold="backward", open_interval=1.0)


OBSERVED: dict[str, Callable[[int, int], SequenceModule]] = {
    "gru-d": gru_d,
    "ode-rnn": lambda values, hidden: ode_rnn(values, hidden, method=Euler()),
    "gru-ode-bayes": lambda values, hidden: gru_ode_bayes(values, hidden, method=ExponentialEuler()),
    "gru-backward": lambda values, hidden: _held(ctrnn.gru, values, hidden),
    "gated-backward": lambda values, hidden: _held(ctrnn.gated, values, hidden),
    "gru": lambda values, hidden: DiscreteRNN(ctrnn.gru(2 * values, hidden)),
}
"""Name -> what makes the sequence module of so many values with so many units."""
