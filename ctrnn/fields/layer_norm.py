r"""Layer normalization in a part: what its function is applied to has mean 0 and variance 1 over the units.

f(g * (a - mean(a)) / std(a) + b),   a = Wx x + Wh h + b'
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.fields.parts import Affine, Part, affine
from ctrnn.formulas import Formula, Weight, formula_of

__all__ = ["LayerNorm"]


class LayerNorm(Part):
    r"""A candidate or gate whose Wx x + Wh h + b is normalized over the units, of each sample and time by itself.

    It takes that part's place: `Relaxation(LayerNorm(TanhCandidate(3, 5)), LayerNorm(GateRate(3, 5)), LinearDecay())`, or
    `lstm_field.gates = LayerNorm(lstm_field.gates)`, over all four gates together. Its kernels are written from its code.

    Args:    part: `Affine`, or a candidate or gate made of one, of at least two outputs; eps: added to the variance, which is 0
             where x, h and b are.
    Shape:   as the part; `gain` and `shift` (outputs,), 1 and 0 at the start.
    Raises:  TypeError for other parts, ValueError for one output, which would be normalized to nothing.
    Source:  Ba, Kiros and Hinton 2016, eq. (4).
    """

    part: Affine
    eps: float
    input_size: int
    hidden_size: int
    projected_size: int

    def __init__(self, part: Affine, eps: float = 1e-5) -> None:
        super().__init__()
        if not isinstance(part, Affine):
            came = type(part).__name__
            raise TypeError(f"`part` must be made of one ctrnn.parts.Affine, as TanhCandidate and the gates are, got {came}.")
        if part.overrides_flow:
            raise TypeError(
                f"`part`, a {type(part).__name__}, overrides `flow`; the norm stands between the `preactivation` and the "
                "`function` of a part, so override these instead."
            )
        if part.projected_size == 1:
            raise ValueError(f"`part`, a {type(part).__name__}, has one output, which normalized is always 0; take one per unit.")
        self.part, self.eps = part, checks.positive_number("eps", eps)
        self.input_size, self.hidden_size, self.projected_size = part.input_size, part.hidden_size, part.projected_size
        self.gain: nn.Parameter = nn.Parameter(torch.ones_like(part.weight_x[:, 0]))
        self.shift: nn.Parameter = nn.Parameter(torch.zeros_like(part.weight_x[:, 0]))

    @affine
    def project(self, x: Tensor) -> Tensor:
        return self.part.project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        whole = self.part.preactivation(projected, h)
        return self.part.function(nn.functional.layer_norm(whole, whole.shape[-1:], self.gain, self.shift, self.eps))

    def visible(self, h: Tensor) -> Tensor:
        return self.part.visible(h)

    @property
    def formula(self) -> Formula:
        part, inner = formula_of(self.part) or Formula(f"{type(self.part).__name__}(x, h)"), self.part.affine_formula
        eps = "" if self.eps == 1e-5 else f", {self.eps!r}"
        whole = part.below("part").replace(inner, f"gamma * norm({inner}{eps}) + beta")
        return Formula(whole.text, {**whole.letters, "gamma": Weight("gain"), "beta": Weight("shift")})

    def extra_repr(self) -> str:
        return f"eps={self.eps:g}"
