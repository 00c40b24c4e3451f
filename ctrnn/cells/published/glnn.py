r"""Gated leaky neural networks: what a unit hears over an edge is weighted by the symbol that is read.

    dV_j/dt = tau_0jx + sum_i tau_ijx s(V_i)          GLNN, on V; its unit Euler step is eq. 13
    da_j/dt = s(tau_0jx + sum_i tau_ijx a_i) - a_j    GNN, on activities; its unit Euler step is eqs. 10 and 11

x is one-hot, or any vector: the weights are then sum_x x_x tau_x (remark 2). Of units that nothing drives, V stays where it is.
The RNN of eqs. 8 and 9 is the unit Euler step of `ctrnn.plain` on one-hot x.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Unpack, overload

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.cells.edges import GatedCandidate
from ctrnn.cells.stack import Stack, layered
from ctrnn.fields.decays import LinearDecay
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import WeightSettings, affine
from ctrnn.fields.rates import FixedRate
from ctrnn.fields.relaxation import Relaxation
from ctrnn.formulas import Published

__all__ = ["GLNNField", "glnn", "gnn"]


class GLNNField(VectorField):
    r"""dV_j/dt = sum_x x_x (tau_0jx + sum_i tau_ijx s(V_i)); the activities s(V) are visible.

    Weights start as in section 2: loops -1/2, tau_0jy = beta_j + mu_j/4 (u_jy - sum_y' nu_y' u_jy'), all others 0, u uniform on
    [0, 1], mu_j = 1/(j+1), beta_j = -sqrt(1/4 - mu_j/2). Close to `resting_state`, V_j is then a sum over past symbols of
    random numbers that decay by 1 - mu_j a step, so that unit j remembers j + 1/2 samples or so.

    Args:    as `GatedCandidate`.
    Shape:   x (..., input), V (..., hidden) -> dV/dt (..., hidden).
    Raises:  ValueError as `GatedCandidate`.
    Source:  Ollivier 2013, eqs. (12), (13), (31)-(33), appendix A.
    """

    edges: int
    activation: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        edges: int | None = None,
        activation: str = "tanh",
        **settings: Unpack[WeightSettings],
    ) -> None:
        super().__init__(checks.positive_size("input_size", input_size), hidden_size)
        self.incoming: GatedCandidate = GatedCandidate(input_size, hidden_size, edges, activation, **settings)
        self.edges, self.activation = self.incoming.edges, activation
        self.reset_parameters(generator=settings.get("generator"))

    def reset_parameters(self, frequencies: Tensor | None = None, generator: torch.Generator | None = None) -> None:
        """Initialize the weights, with the frequencies nu (input,) of the symbols in the data, all equal if not given."""
        mu, beta = self._memory()
        self.incoming.start_(torch.full_like(mu, -0.5), beta, mu / 4, frequencies, generator)

    def resting_state(self, batch: int) -> Tensor:
        """Return the state V at which units initially rest, s^-1(beta/alpha): (batch, hidden)."""
        return (self.incoming.squash.width * torch.atanh(2 * self._memory()[1])).expand(batch, -1)

    def _memory(self) -> tuple[Tensor, Tensor]:
        """Return mu and beta of eq. (33), with alpha = 1/2."""
        mu = 1 / torch.arange(2, self.hidden_size + 2, dtype=self.dtype, device=self.device)
        return mu, -torch.sqrt(1 / 4 - mu / 2)

    @affine
    def project(self, x: Tensor) -> Tensor:
        return self.incoming.project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return self.incoming.heard(projected, self.incoming.squash(h))

    def visible(self, state: Tensor) -> Tensor:
        return self.incoming.squash(state)

    letters: ClassVar[dict[str, str]] = {"W": "incoming.weight", "b": "incoming.bias"}

    @property
    def formula(self) -> str:
        return f"dh/dt = {self.incoming.heard_formula(f'{self.incoming.squash}(h)')}"

    @property
    def published(self) -> Published:
        return Published("Euler", f"h' = h + dt ({self.incoming.heard_formula(f'{self.incoming.squash}(h)')})")


@overload
def glnn(
    input_size: int,
    hidden_size: int,
    edges: int | None = ...,
    activation: Literal["tanh", "logistic"] = ...,
    **settings: Unpack[WeightSettings],
) -> GLNNField: ...
@overload
def glnn(
    input_size: int,
    hidden_size: int,
    edges: int | None = ...,
    activation: Literal["tanh", "logistic"] = ...,
    *,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> GLNNField | Stack: ...
def glnn(
    input_size: int,
    hidden_size: int,
    edges: int | None = None,
    activation: Literal["tanh", "logistic"] = "tanh",
    *,
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> GLNNField | Stack:
    r"""dV_j/dt = sum_x x_x (tau_0jx + sum_i tau_ijx s(V_i)); its unit Euler step is the gated leaky neural network.

    Args:    input_size, hidden_size: symbols and units; edges: into each unit, drawn at random, its loop counted, all if not
             given; activation: "tanh" or "logistic"; num_layers: above 1, a `Stack` of so many;
             bias: the unit that is always on; dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), V (..., hidden) -> dV/dt (..., hidden); s(V) is visible.
    Raises:  ValueError for another activation, or more edges than units.
    Source:  Ollivier 2013, "Riemannian metrics for neural networks II", eqs. (12)-(13) and remark 2.
    """
    return layered(lambda read: GLNNField(read, hidden_size, edges, activation, **settings), input_size, hidden_size, num_layers)


@overload
def gnn(
    input_size: int,
    hidden_size: int,
    edges: int | None = ...,
    activation: Literal["tanh", "logistic"] = ...,
    **settings: Unpack[WeightSettings],
) -> Relaxation: ...
@overload
def gnn(
    input_size: int,
    hidden_size: int,
    edges: int | None = ...,
    activation: Literal["tanh", "logistic"] = ...,
    *,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> Relaxation | Stack: ...
def gnn(
    input_size: int,
    hidden_size: int,
    edges: int | None = None,
    activation: Literal["tanh", "logistic"] = "tanh",
    *,
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> Relaxation | Stack:
    r"""da_j/dt = s(sum_x x_x (tau_0jx + sum_i tau_ijx a_i)) - a_j; its unit Euler step is the gated neural network.

    Args:    as `glnn`.
    Shape:   a field x (..., input), a (..., hidden) -> da/dt (..., hidden).
    Raises:  ValueError as `glnn`.
    Source:  Ollivier 2013, "Riemannian metrics for neural networks II", eqs. (10), (11) and remark 2.
    """

    def build(read: int) -> Relaxation:
        return Relaxation(GatedCandidate(read, hidden_size, edges, activation, **settings), FixedRate(1.0), LinearDecay())

    return layered(build, input_size, hidden_size, num_layers)
