r"""Networks as the metrics read them: V(t+1) = carry V(t) + tau_0jx + sum_i tau_ijx s(V_i(t)).

carry is 1 for GLNNs and 0 for GNNs and RNNs. Of an RNN tau_ij is the same for all symbols, and tau_0jx is rho_jx + b_j.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from ctrnn import GLNNField, LinearDecay, Relaxation, TanhCandidate, VectorField
from ctrnn.cells.edges import ACTIVATIONS, GatedCandidate, Sigmoidal
from ctrnn.fields.rates import FixedRate
from ctrnn.own_code import computes_as
from discretize.kernels.eligibility import Fused
from discretize.riemannian import compiled
from discretize.riemannian.rows import RowStep

__all__ = ["PIECE", "Directions", "Network", "always_on", "network_of", "with_constant"]

PIECE = 256  # samples whose weights, one for each edge, are gathered at once: many small operations would cost more

Directions = dict[Tensor, Tensor]  # for each parameter by how much it is to be moved


class GatedEdges:
    """Those of GLNNs and GNNs, as they have them."""

    part: GatedCandidate
    squash: Sigmoidal
    bias: nn.Parameter
    weight: nn.Parameter
    sources: Tensor
    loops: Tensor

    def __init__(self, part: GatedCandidate) -> None:
        self.part, self.squash, self.bias = part, part.squash, always_on(part.bias)
        self.weight, self.sources, self.loops = part.weight, part.sources, part.loops
        self.parameters: list[nn.Parameter] = [part.weight, self.bias]
        self.span: float = abs(part.squash.size)  # how far activities go from their centre

    def stacked(self, values: Directions) -> Tensor:
        """Put the parameters' values side by side, a row for each symbol and unit, the constant's first: (rows, k)."""
        return torch.cat([values[self.bias][..., None], values[self.weight]], -1).flatten(0, 1)

    def directions(
        self, step: RowStep, dampening: float, values: Tensor, moduli: Tensor, read: Tensor, heard: Tensor, kernel: bool
    ) -> Directions:
        """Symbol by symbol, for the parameters of different symbols are orthogonal, eqs. (25)-(28)."""
        if kernel:
            sums = compiled.sums(step.sums, self, values, moduli, read, heard)
            moved = step.solved(sums, values.new_full((self.bias.numel(),), dampening)).unflatten(0, self.bias.shape)
            return {self.weight: moved[..., 1:], self.bias: moved[..., 0]}
        dampened = values.new_full((values.shape[-1],), dampening)
        weight, bias = torch.zeros_like(self.weight), torch.zeros_like(self.bias)
        for y in read.unique().tolist():
            at = read == y
            signals = heard[at] if self.sources.shape[0] == self.sources.shape[1] else heard[at][:, self.sources]
            moved = step(values[at], moduli[at], with_constant(signals), dampened)
            bias[y], weight[y] = moved[:, 0], moved[:, 1:]
        return {self.weight: weight, self.bias: bias}


class PlainEdges:
    """tanh(Wx x + Wh a + b) in that form, with the same weights for all symbols."""

    part: TanhCandidate
    constant: nn.Parameter

    squash: Sigmoidal = ACTIVATIONS["tanh"]
    span: float = 1.0

    def __init__(self, part: TanhCandidate) -> None:
        self.part, self.constant, n = part, always_on(part.bias), part.hidden_size
        self.sources: Tensor = torch.arange(n, device=self.constant.device).expand(n, n)
        self.loops: Tensor = torch.eye(n, dtype=torch.bool, device=self.constant.device)
        self.parameters: list[nn.Parameter] = [part.weight_x, part.weight_h, self.constant]

    def stacked(self, values: Directions) -> Tensor:
        """Put the parameters' values side by side, a row for each unit, the constant's first: (rows, k)."""
        return torch.cat([values[self.constant][:, None], values[self.part.weight_x], values[self.part.weight_h]], -1)

    @property
    def weight(self) -> Tensor:
        return self.part.weight_h.expand(self.part.input_size, -1, -1)

    @property
    def bias(self) -> Tensor:
        return self.part.weight_x.mT + self.constant

    def directions(
        self, step: RowStep, dampening: float, values: Tensor, moduli: Tensor, read: Tensor, heard: Tensor, kernel: bool
    ) -> Directions:
        """All symbols at once, by products of torch's in any case: a row reads the unit that is always on, the symbol, one-hot,
        and the units. The parameters of two symbols have no product, but both have one with the units' (docs/derivations.md,
        sec. 3.4, RNNs)."""
        symbols = self.part.input_size
        inputs = with_constant(torch.cat([one_hot(read, symbols).to(heard), heard], -1))
        dampened = values.new_full((values.shape[-1],), dampening)
        moved = step(values.flatten(0, 1), moduli.flatten(0, 1), inputs.flatten(0, 1), dampened)
        constant, of_symbols, of_units = moved.split([1, symbols, moved.shape[1] - 1 - symbols], -1)
        return {self.part.weight_x: of_symbols, self.part.weight_h: of_units, self.constant: constant[:, 0]}


@dataclass(frozen=True)
class Network:
    """What a unit Euler step of a field is: V <- carry V + what is heard. `on_v`: the state is V, else the activity s(V).
    `fused`: long sequences go through compiled kernels, where there are any."""

    edges: GatedEdges | PlainEdges
    carry: float
    on_v: bool
    fused: Fused = True

    def engine(self, symbols: Tensor, *given: Tensor) -> tuple[str, str | None]:
        """Return what its passes over these symbols run by, "compiled" or "steps", and why not the first."""
        return compiled.engine(symbols, [self.edges.bias, self.edges.weight, *given], self.fused)

    def activities(self, symbols: Tensor, start: Tensor) -> Tensor:
        """Compute s(V) before each symbol is read, from the start: (time, batch), (hidden,) -> (time, batch, hidden)."""
        if self.engine(symbols, start)[0] == "compiled":
            return compiled.activities(self.edges, self.carry, self.on_v, symbols, start)
        edges, weights, biases = self.edges, self.edges.weight, self.edges.bias
        v, ends = start.expand(symbols.shape[1], -1), edges.sources.flatten()
        every, activity = edges.sources.shape[0] == edges.sources.shape[1], edges.squash(v) if self.on_v else v
        values = [activity]
        for piece in symbols[:-1].split(PIECE) if len(symbols) > 1 else ():
            for weight, bias in zip(weights[piece].unbind(), biases[piece].unbind(), strict=True):
                signals = activity[:, None] if every else activity.index_select(1, ends).view_as(weight)
                heard = (weight * signals).sum(-1)
                v = heard + bias + v if self.on_v else heard + bias
                activity = edges.squash(v)
                values.append(activity)
        return torch.stack(values)


def network_of(field: VectorField, fused: Fused = True) -> Network | None:
    """Return None for a field that is neither GLNN, GNN nor RNN. Raises: ValueError without a unit that is always on."""
    if computes_as(field, GLNNField):
        return Network(GatedEdges(field.incoming), 1.0, on_v=True, fused=fused)
    if computes_as(field, Relaxation) and computes_as(field.rate, FixedRate) and computes_as(field.decay, LinearDecay):
        candidate, unit_rate = field.candidate, field.rate.alpha == 1
        if computes_as(candidate, GatedCandidate) and unit_rate:
            return Network(GatedEdges(candidate), 0.0, on_v=False, fused=fused)
        if type(candidate) is TanhCandidate and computes_as(candidate, TanhCandidate) and unit_rate:
            return Network(PlainEdges(candidate), 0.0, on_v=False, fused=fused)
    return None


def always_on(bias: nn.Parameter | None) -> nn.Parameter:
    """Return the weights of unit 0. Raises: ValueError without any."""
    if bias is None:
        raise ValueError("`model` has a field with `bias=False`; the metrics need the unit that is always on.")
    return bias


def with_constant(inputs: Tensor) -> Tensor:
    """Put unit 0, always on, before the others: (..., k) -> (..., 1 + k)."""
    return torch.cat([torch.ones_like(inputs[..., :1]), inputs], -1)
