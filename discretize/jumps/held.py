r"""Each sample makes the state jump, and for as long as it acts the field runs on its own.

h(t_k+) = jump(x_k, observed_k, h(t_k))          output k = h(t_k+1), after dh/dt = F(h) from there
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from ctrnn import VectorField
from ctrnn.inputs.hold import Hold
from discretize.jumps.jump import Jump
from discretize.jumps.rnn import JumpRNN, Jumps, JumpSettings
from discretize.sequences.module import SequenceModule
from discretize.sequences.ragged import Ragged, gone_by

__all__ = ["HeldJumpRNN"]


class HeldJumpRNN(JumpRNN):
    r"""A `JumpRNN` that is read when a sample has acted: output k is the state before the next one.

    Args:    field, jump as for `JumpRNN`; hold, open_interval as for `DiscreteRNN`; the rest as for `JumpRNN`, by name.
    Call:    as for `JumpRNN`, with ts as for `DiscreteRNN`: edges, or stamps from which, or up to which, a sample acts; without
             ts each acts for 1. rnn.jumps(...) gives the states after each jump, and before the next one.
    Shape:   as for `DiscreteRNN`.
    Raises:  as `JumpRNN`.
    Source:  this project.
    """

    reads_at_the_end = False

    def __init__(
        self,
        field: VectorField,
        jump: Jump,
        *,
        hold: str = "forward",
        open_interval: float | None = None,
        **settings: Unpack[JumpSettings],
    ) -> None:
        super().__init__(field, jump, **settings)
        self.hold = Hold(hold, open_interval)

    _edges = SequenceModule._edges

    def _run(self, xs: Tensor, h0: Tensor, edges: Tensor | None, ragged: Ragged | None) -> tuple[Tensor, Tensor]:
        states = self._jumps(xs, h0[0], edges, ragged).before
        return self.field.visible(states), states[-1:].clone() if ragged is None else ragged.final(states)

    def _jumps(self, xs: Tensor, h: Tensor, edges: Tensor | None, ragged: Ragged | None) -> Jumps:
        """As of a `JumpRNN`, up to a last observation of nothing, which moves no state."""
        edges = gone_by(xs, ragged) if edges is None else edges
        read = xs if ragged is None else xs * ragged.read.to(xs)[..., None]
        found = super()._jumps(torch.cat([read, torch.zeros_like(xs[:1])]), h, torch.cat([edges[:1], edges]), None)
        return Jumps(found.before[1:], found.after[:-1])
