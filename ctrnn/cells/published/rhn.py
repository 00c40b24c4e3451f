r"""Recurrent highway networks: several gated layers between one sample and the next.

    dh/dt = s_L - h        s_0 = h,  s_l = s_(l-1) + t_l (tanh(a_l) - s_(l-1)),  t_l = sigma(b_l)        l = 1, ..., L

with a_l and b_l affine in s_(l-1), and for l = 1 in x too. Its unit Euler step is the published cell, its carry gates coupled as
c = 1 - t. Each layer is a unit Euler step of a gated field, but their sequence is not time: the weights are each layer's own,
and x is read once. So they stand inside one evaluation, and h relaxes towards where they lead. Of depth 1 it is `ctrnn.gated`.
With one set of weights, and x read in every layer, depth is time: `ctrnn.gated` for a while of L a sample, in L substeps.
"""

from __future__ import annotations

from typing import Unpack, overload

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.cells.stack import Stack, layered
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import Affine, WeightSettings, affine
from ctrnn.formulas import Published

__all__ = ["RHNField", "rhn"]


class RHNField(VectorField):
    r"""s_L - h, where each of L layers moves s towards tanh(a_l) by its gate t_l; its leak is 1 - (1 - t_1) ... (1 - t_L).

    The rows of each layer are those of a_l, then those of its gate, whose bias starts at `gate_bias`: -2 in the authors' code for
    words, -4 for characters. Theirs draws all else uniform on +-0.04, whatever the size; here it starts as in `Affine`.

    Args:    input_size, hidden_size; depth: L, at least 1; gate_bias; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> dh/dt (..., hidden).
    Raises:  TypeError, ValueError for a depth or a bias that is none.
    Source:  Zilly, Srivastava, Koutnik and Schmidhuber 2017, "Recurrent highway networks", and the authors' code;
             as a field, this project.
    """

    depth: int
    gate_bias: float

    def __init__(
        self, input_size: int, hidden_size: int, depth: int = 3, gate_bias: float = -2.0, **settings: Unpack[WeightSettings]
    ) -> None:
        super().__init__(input_size, hidden_size)
        self.depth, self.gate_bias = checks.positive_size("depth", depth), checks.finite_number("gate_bias", gate_bias)
        reads = [input_size] + [0] * (self.depth - 1)
        self.layers: nn.ModuleList = nn.ModuleList(Affine(read, hidden_size, 2 * hidden_size, **settings) for read in reads)
        for layer in self._affine():
            if layer.bias is not None:
                nn.init.constant_(layer.bias[self.hidden_size :], self.gate_bias)

    @property
    def formula(self) -> str:
        lines, carried = list[str](), "h"
        for k in range(1, self.depth + 1):
            read = f"{{layers.{k - 1}:{k}|h={carried}}}"
            lines = [f"s{k} = {carried} + sigma(q{k}) * (tanh(p{k}) - {carried})", f"p{k}, q{k} = {read}", *lines]
            carried = f"s{k}"
        return "\n".join([f"dh/dt = {carried} - h", *lines])

    @property
    def published(self) -> Published:
        """Write the recurrence with transform gates t and carry gates 1 - t; the first layer reads x. The paper's dt is 1."""
        lines, carried = list[str](), "h"
        for k in range(1, self.depth + 1):
            read = f"W{k}h {carried} + b{k}" + " + W1x x" * (k == 1)
            lines += [f"s{k} = sigma(q{k}) * tanh(p{k}) + (1 - sigma(q{k})) * {carried}", f"p{k}, q{k} = {read}"]
            carried = f"s{k}"
        return Published("Euler", "\n".join([f"h' = (1 - dt) h + dt {carried}", *lines]))

    @affine
    def project(self, x: Tensor) -> Tensor:
        return self._affine()[0].project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return RHNField.flow_and_leak(self, projected, h)[0]

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        return RHNField.flow_and_leak(self, projected, h)[1]

    def flow_and_leak(self, projected: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        carried, log_kept = h, torch.zeros_like(h)
        for k, layer in enumerate(self._affine()):
            pull, gate = layer.flow(layer.project(h[..., :0]) if k else projected, carried).chunk(2, -1)
            carried = carried + torch.sigmoid(gate) * (torch.tanh(pull) - carried)
            log_kept = log_kept + nn.functional.logsigmoid(-gate)
        return carried - h, -torch.expm1(log_kept)

    def _affine(self) -> list[Affine]:
        return list(self.layers)  # type: ignore[arg-type]


@overload
def rhn(
    input_size: int, hidden_size: int, depth: int = ..., gate_bias: float = ..., **settings: Unpack[WeightSettings]
) -> RHNField: ...
@overload
def rhn(
    input_size: int,
    hidden_size: int,
    depth: int = ...,
    gate_bias: float = ...,
    *,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> RHNField | Stack: ...
def rhn(
    input_size: int,
    hidden_size: int,
    depth: int = 3,
    gate_bias: float = -2.0,
    *,
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> RHNField | Stack:
    r"""dh/dt = s_L - h, s_L what `depth` highway layers make of h and x; its unit Euler step is the recurrent highway network.

    Args:    input_size, hidden_size: features and units; depth: layers between two samples; gate_bias: where the gates start;
             num_layers: above 1, a `Stack` of so many; bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), h (..., hidden) -> dh/dt (..., hidden).
    Raises:  TypeError, ValueError for a depth or a bias that is none.
    Source:  Zilly, Srivastava, Koutnik and Schmidhuber 2017, "Recurrent highway networks".
    """
    return layered(lambda read: RHNField(read, hidden_size, depth, gate_bias, **settings), input_size, hidden_size, num_layers)
