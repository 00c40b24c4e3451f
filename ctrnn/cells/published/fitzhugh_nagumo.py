r"""FitzHugh and Nagumo's excitable units: a fast voltage, a slow recovery, and a recurrent current.

    dv/dt = v - v^3/3 - w + I        dw/dt = epsilon (v + a - b w)        I = Wx x + Wv v + c

Alone a unit rests for a small constant I, and beyond a threshold fires again and again. There is no published discrete step:
the equations are solved.
"""

from __future__ import annotations

from typing import Unpack, overload

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.cells.stack import Stack, layered
from ctrnn.fields.field import VectorField
from ctrnn.fields.parts import Affine, WeightSettings, affine

__all__ = ["FitzHughNagumoField", "fitzhugh_nagumo"]


class FitzHughNagumoField(VectorField):
    r"""dv/dt = v - v^3/3 - w + Wx x + Wv v + c and dw/dt = epsilon (v + a - b w); v is visible.

    Its leak is [v^2/3, epsilon b]: the cube is a forgetting that grows with v, and the recovery forgets linearly.

    Args:    input_size, hidden_size; a, b: of the recovery, b >= 0; epsilon: its rate, > 0;
             bias (c), dtype, device, generator as in torch.nn.
    Shape:   x (..., input), state [v, w] (..., 2 hidden) -> (..., 2 hidden).
    Raises:  ValueError for a negative b, and an epsilon that is not positive.
    Source:  FitzHugh 1961, "Impulses and physiological states in theoretical models of nerve membrane", and Nagumo, Arimoto and
             Yoshizawa 1962, with the signs in use today; the current as a recurrent network's is this project's.
    """

    a: float
    b: float

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        a: float = 0.7,
        b: float = 0.8,
        epsilon: float = 0.08,
        **settings: Unpack[WeightSettings],
    ) -> None:
        super().__init__(input_size, hidden_size, 2 * hidden_size)
        self.a, self.b = checks.finite_number("a", a), checks.non_negative_number("b", b)
        self.epsilon: float = checks.positive_number("epsilon", epsilon)
        self.current: Affine = Affine(input_size, hidden_size, hidden_size, **settings)

    formula = "dh/dt = h - h^3/3 - w + {current}\ndw/dt = {epsilon} (h + {a} - {b} w)"

    @affine
    def project(self, x: Tensor) -> Tensor:
        return self.current.project(x)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        v, w = h.chunk(2, -1)
        fast = v - v**3 / 3 - w + self.current.flow(projected, v)
        return torch.cat([fast, self.epsilon * (v + self.a - self.b * w)], -1)

    def leak(self, projected: Tensor, h: Tensor) -> Tensor:
        v, w = h.chunk(2, -1)
        return torch.cat([v**2 / 3, torch.full_like(w, self.epsilon * self.b)], -1)


@overload
def fitzhugh_nagumo(
    input_size: int, hidden_size: int, a: float = ..., b: float = ..., epsilon: float = ..., **settings: Unpack[WeightSettings]
) -> FitzHughNagumoField: ...
@overload
def fitzhugh_nagumo(
    input_size: int,
    hidden_size: int,
    a: float = ...,
    b: float = ...,
    epsilon: float = ...,
    *,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> FitzHughNagumoField | Stack: ...
def fitzhugh_nagumo(
    input_size: int,
    hidden_size: int,
    a: float = 0.7,
    b: float = 0.8,
    epsilon: float = 0.08,
    *,
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> FitzHughNagumoField | Stack:
    r"""dv/dt = v - v^3/3 - w + Wx x + Wv v + c, dw/dt = epsilon (v + a - b w): a network of excitable units.

    Args:    input_size, hidden_size: features and visible units; a, b: of the recovery, b >= 0; epsilon: its rate, > 0;
             num_layers: above 1, a `Stack` of so many; bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), [v, w] (..., 2 hidden) -> (..., 2 hidden).
    Raises:  ValueError for a negative b, and an epsilon that is not positive.
    Source:  as `FitzHughNagumoField`.
    """
    return layered(
        lambda read: FitzHughNagumoField(read, hidden_size, a, b, epsilon, **settings), input_size, hidden_size, num_layers
    )
