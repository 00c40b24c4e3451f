r"""Gated networks as the metrics read them: V(t+1) = carry V(t) + tau_0jx + sum_i tau_ijx s(V_i(t)).

carry is 1 for GLNNs and 0 for GNNs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ctrnn import GLNNField, LinearDecay, Relaxation, VectorField
from ctrnn.cells.edges import GatedCandidate
from ctrnn.fields.rates import FixedRate

__all__ = ["PIECE", "Network", "network_of"]

PIECE = 256  # samples whose weights, one for each edge, are gathered at once: many small operations would cost more


@dataclass(frozen=True)
class Network:
    """What a unit Euler step of a field is: V <- carry V + what is heard. `on_v`: the state is V, else the activity s(V)."""

    incoming: GatedCandidate
    carry: float
    on_v: bool

    def activities(self, symbols: Tensor, start: Tensor) -> Tensor:
        """s(V) before each symbol is read, from the state at the start: (time, batch), (hidden,) -> (time, batch, hidden)."""
        part = self.incoming
        assert part.bias is not None  # `network_of` has refused that
        v, ends = start.expand(symbols.shape[1], -1), part.sources.flatten()
        every, activity = part.edges == part.hidden_size, part.squash(v) if self.on_v else v
        found = [activity]
        for piece in symbols[:-1].split(PIECE) if len(symbols) > 1 else ():
            for weight, bias in zip(part.weight[piece].unbind(), part.bias[piece].unbind(), strict=True):
                signals = activity[:, None] if every else activity.index_select(1, ends).view_as(weight)
                heard = (weight * signals).sum(-1)
                v = heard + bias + v if self.on_v else heard + bias
                activity = part.squash(v)
                found.append(activity)
        return torch.stack(found)


def network_of(field: VectorField) -> Network:
    """Raises: TypeError for a field that is neither GLNN nor GNN, ValueError without a unit that is always on."""
    if isinstance(field, GLNNField):
        network = Network(field.incoming, 1.0, on_v=True)
    elif (
        isinstance(field, Relaxation)
        and isinstance(field.candidate, GatedCandidate)
        and isinstance(field.rate, FixedRate)
        and field.rate.alpha == 1
        and isinstance(field.decay, LinearDecay)
    ):
        network = Network(field.candidate, 0.0, on_v=False)
    else:
        raise TypeError(f"`model` must have a field of ctrnn.glnn or ctrnn.gnn, in one layer, got {type(field).__name__}.")
    if network.incoming.bias is None:
        raise ValueError("`model` has a field with `bias=False`; the metrics need the unit that is always on.")
    return network
