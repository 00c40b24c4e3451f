r"""A gate that reads a network of its own: the field on the state [h, h^g].

    dh/dt   = g (candidate(x, h) - decay(h))        g = sigma(Wx x + Wh h^g + b)
    dh^g/dt = network(x, h^g)                       a field of its own, which runs on the input's clock

The rate reads h^g where the other gates read h. The network's own field is ungated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.fields.decays import Decay
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import Part, affine
from ctrnn.fields.relaxation import Relaxation, relaxation_formula

__all__ = ["NetworkGated"]


class NetworkGated(VectorField):
    r"""rate(x, h^g) * (candidate(x, h) - decay(h)) for h, network(x, h^g) for h^g; h is visible.

    Args:    candidate, rate, decay: as in `Relaxation`; the rate reads the visible units of the network;
             network: a field of the same input, with as many visible units as the rate reads.
    Shape:   x (..., input), state [h, h^g] (..., hidden + network's state) -> (..., hidden + network's state).
    Raises:  TypeError for what is not a part, a decay or a field, or of another dtype; ValueError for other sizes or devices.
    Source:  Tallec and Ollivier 2018, eqs. (7) and (9).
    """

    network: VectorField

    candidate: Part
    rate: Part
    decay: Decay

    def __init__(self, candidate: Part, rate: Part, decay: Decay, network: VectorField) -> None:
        if not isinstance(network, VectorField):
            raise TypeError(f"`network` must be a ctrnn.VectorField, got {type(network).__name__}.")
        body = Relaxation(candidate, rate, decay)
        super().__init__(body.input_size, body.hidden_size, body.hidden_size + network.state_size)
        if (network.input_size, network.hidden_size) != (body.input_size, body.hidden_size):
            raise ValueError(
                f"`network` has input_size {network.input_size} and hidden_size {network.hidden_size}, the candidate has "
                f"{body.input_size} and {body.hidden_size}; the gate reads the one in place of the other."
            )
        checks.same_settings([("candidate", body), ("network", network)])
        self.candidate, self.rate, self.decay, self.network = candidate, rate, decay, network

    @affine
    def project(self, x: Tensor) -> Tensor:
        return torch.cat([self.candidate.project(x), self.rate.project(x), self.network.project(x)], -1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        to_candidate, to_rate, to_network = self._split(projected)
        own, other = self._states(h)
        speed = self.rate.flow(to_rate, self.network.visible(other))
        pulled = self.candidate.flow(to_candidate, own) - self.decay(own)
        return torch.cat([speed * pulled, self.network.flow(to_network, other)], -1)

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        _, to_rate, to_network = self._split(projected)
        own, other = self._states(h)
        speed = self.rate.flow(to_rate, self.network.visible(other))
        return torch.cat([speed * self.decay.leak(own), self.network.leak(to_network, other)], -1)

    def flow_without_leak(self, projected: Tensor, h: Tensor) -> Tensor:
        to_candidate, to_rate, to_network = self._split(projected)
        own, other = self._states(h)
        speed = self.rate.flow(to_rate, self.network.visible(other))
        pulled = (speed * self.candidate.flow(to_candidate, own)).expand_as(own)
        return torch.cat([pulled, self.network.flow_without_leak(to_network, other)], -1)

    def forget(self, projected: Tensor, h: Tensor, at: Tensor, dt: float | Tensor) -> Tensor:
        _, to_rate, to_network = self._split(projected)
        (own, other), (_, other_at) = self._states(h), self._states(at)
        speed = self.rate.flow(to_rate, self.network.visible(other_at))
        return torch.cat([self.decay.after(own, dt * speed), self.network.forget(to_network, other, other_at, dt)], -1)

    @property
    def formula(self) -> str:
        return relaxation_formula(self.rate, "h^g") + "\n{network:n|h=h^g}"

    def _states(self, h: Tensor) -> tuple[Tensor, Tensor]:
        return h[..., : self.hidden_size], h[..., self.hidden_size :]

    def _split(self, projected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        first, second = self.candidate.projected_size, self.candidate.projected_size + self.rate.projected_size
        return projected[..., :first], projected[..., first:second], projected[..., second:]
