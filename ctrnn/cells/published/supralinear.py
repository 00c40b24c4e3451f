r"""The stabilized supralinear network: rates that grow faster than their input, held by inhibition.

tau dr/dt = -r + k [W r + Wx x + b]^n        [a] = max(0, a);  n around 2
"""

from __future__ import annotations

from typing import Unpack, overload

import torch
from torch import Tensor

from ctrnn import checks
from ctrnn.cells.stack import Stack, layered
from ctrnn.fields.decays import LinearDecay
from ctrnn.fields.parts import Affine, WeightSettings
from ctrnn.fields.rates import rate_of
from ctrnn.fields.relaxation import Relaxation

__all__ = ["PowerLawCandidate", "ssn"]


class PowerLawCandidate(Affine):
    r"""k max(0, Wx x + Wh h + b)^n.

    Args:    input_size, hidden_size; k: > 0; n: >= 1; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., hidden).
    Raises:  ValueError for a k that is not positive, or n below 1.
    Source:  Rubin, Van Hooser and Miller 2015, "The stabilized supralinear network", eq. (1).
    """

    k: float
    n: float

    def __init__(
        self, input_size: int, hidden_size: int, k: float = 0.04, n: float = 2.0, **settings: Unpack[WeightSettings]
    ) -> None:
        super().__init__(input_size, hidden_size, hidden_size, **settings)
        self.k, self.n = checks.positive_number("k", k), checks.positive_number("n", n)
        if self.n < 1:
            raise ValueError(f"`n` must be at least 1, got {n}: below, the slope at 0 is infinite.")

    def function(self, argument: Tensor) -> Tensor:
        return self.k * torch.relu(argument).pow(self.n)

    @property
    def formula(self) -> str:
        return f"{{k}} relu({self.affine_formula})^{self.n:g}"


@overload
def ssn(
    input_size: int,
    hidden_size: int,
    tau: float | Tensor = ...,
    k: float = ...,
    n: float = ...,
    *,
    learn_tau: bool = ...,
    **settings: Unpack[WeightSettings],
) -> Relaxation: ...
@overload
def ssn(
    input_size: int,
    hidden_size: int,
    tau: float | Tensor = ...,
    k: float = ...,
    n: float = ...,
    *,
    learn_tau: bool = ...,
    num_layers: int,
    **settings: Unpack[WeightSettings],
) -> Relaxation | Stack: ...
def ssn(
    input_size: int,
    hidden_size: int,
    tau: float | Tensor = 1.0,
    k: float = 0.04,
    n: float = 2.0,
    *,
    learn_tau: bool = False,
    num_layers: int = 1,
    **settings: Unpack[WeightSettings],
) -> Relaxation | Stack:
    r"""tau dr/dt = -r + k [W r + Wx x + b]^n, the stabilized supralinear network; signs by `ctrnn.parts.Dale`.

    Args:    input_size, hidden_size: features and units; tau: time constants, a number or (hidden,), shorter for units that
             inhibit, 10 ms beside 20 ms; k, n: of the power law; learn_tau: whether tau is learned; num_layers: above 1, a
             `Stack` of so many; bias, dtype, device, generator as in torch.nn.
    Shape:   a field x (..., input), r (..., hidden) -> dr/dt (..., hidden).
    Raises:  TypeError, ValueError for a tau or k that is not positive, and n below 1.
    Source:  Rubin, Van Hooser and Miller 2015, "The stabilized supralinear network", eq. (1).
    """

    def build(read: int) -> Relaxation:
        candidate = PowerLawCandidate(read, hidden_size, k, n, **settings)
        return Relaxation(candidate, rate_of(tau, hidden_size, learn_tau, **settings), LinearDecay())

    return layered(build, input_size, hidden_size, num_layers)
