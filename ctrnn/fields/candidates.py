r"""Candidates: the values that the state relaxes towards.

tanh     tanh(Wx x + Wh h + b)                          Tallec and Ollivier 2018, eq. (3)
relu     max(0, Wx x + Wh h + b)                        torch.nn.RNN with nonlinearity="relu"
others   f(Wx x + Wh h + b), f of nonlinearities.py     the rate form of a network with time constants
additive Wx x + Wh r(h) + b                             Hopfield 1984, eq. (5); h are potentials, r(h) rates
reset    tanh(Wx x + b + r * (Wh h + b_h)), r a gate    the GRU's, as torch.nn.GRU computes it
state    tanh(Wx x + Wh (r * h) + b), r a gate          the GRU's, as Cho et al. 2014 print it
"""

from __future__ import annotations

from typing import ClassVar, Literal, Unpack

import torch
from torch import Tensor, nn

from ctrnn import checks
from ctrnn.fields.nonlinearities import Function, Nonlinearity, formula_of_function, function_named
from ctrnn.fields.parts import Affine, Part, WeightSettings, affine

__all__ = [
    "AdditiveCandidate",
    "FunctionCandidate",
    "ReluCandidate",
    "ResetCandidate",
    "ResetStateCandidate",
    "TanhCandidate",
    "candidate_of",
]


class TanhCandidate(Affine):
    r"""tanh(Wx x + Wh h + b), a value per unit in (-1, 1).

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., hidden).
    Source:  Tallec and Ollivier 2018, eq. (3).
    """

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__(input_size, hidden_size, hidden_size, **settings)

    def function(self, argument: Tensor) -> Tensor:
        return torch.tanh(argument)

    @property
    def formula(self) -> str:
        return f"tanh({self.affine_formula})"


class ReluCandidate(Affine):
    r"""max(0, Wx x + Wh h + b), a value per unit from 0 on, without an upper bound; so states may grow, as torch's may.

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., hidden).
    Source:  torch.nn.RNN with nonlinearity="relu".
    """

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__(input_size, hidden_size, hidden_size, **settings)

    def function(self, argument: Tensor) -> Tensor:
        return torch.relu(argument)

    @property
    def formula(self) -> str:
        return f"relu({self.affine_formula})"


class AdditiveCandidate(Affine):
    r"""Wx x + Wh r(v) + b, what the potentials v of an additive network relax towards; r(v) are its rates.

    The input enters linearly: noise on it is white noise on the state, `ctrnn.Noise(sigma, on="input")`.

    Args:    input_size, hidden_size; nonlinearity: r, a word or a function of tensors, elementwise; reads: what outputs are
             read from, "rates" r(v) or "potentials" v; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), v (..., hidden) -> (..., hidden).
    Raises:  TypeError, ValueError for what is no function.
    Source:  Hopfield 1984, "Neurons with graded response", eq. (5); Beer 1995, "On the dynamics of small continuous-time
             recurrent neural networks", eq. (1), whose bias stands inside of r, as b here does after v - b is written for v.
    """

    rates: Function

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        nonlinearity: Nonlinearity | Function = "tanh",
        reads: Literal["rates", "potentials"] = "rates",
        **settings: Unpack[WeightSettings],
    ) -> None:
        super().__init__(input_size, hidden_size, hidden_size, **settings)
        self.nonlinearity, self.rates = nonlinearity, function_named(nonlinearity)
        self.reads: str = checks.one_of("reads", reads, ("rates", "potentials"))

    def preactivation(self, projected: Tensor, h: Tensor) -> Tensor:
        return super().preactivation(projected, self.rates(h))

    def visible(self, h: Tensor) -> Tensor:
        return self.rates(h) if self.reads == "rates" else h

    @property
    def affine_formula(self) -> str:
        return super().affine_formula.replace("Wh h", f"Wh {formula_of_function(self.nonlinearity, 'h')}")

    @property
    def formula(self) -> str:
        return self.affine_formula


class FunctionCandidate(Affine):
    r"""f(Wx x + Wh h + b), f a function of each unit: "softplus", "sigmoid", "retanh", or the user's own.

    Args:    input_size, hidden_size; nonlinearity: f; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., hidden).
    Raises:  TypeError, ValueError for what is no function.
    """

    applied: Function

    def __init__(
        self, input_size: int, hidden_size: int, nonlinearity: Nonlinearity | Function, **settings: Unpack[WeightSettings]
    ) -> None:
        super().__init__(input_size, hidden_size, hidden_size, **settings)
        self.nonlinearity, self.applied = nonlinearity, function_named(nonlinearity)

    def function(self, argument: Tensor) -> Tensor:
        return self.applied(argument)

    @property
    def formula(self) -> str:
        return formula_of_function(self.nonlinearity, self.affine_formula)


CANDIDATES: dict[str, type[TanhCandidate] | type[ReluCandidate]] = {"tanh": TanhCandidate, "relu": ReluCandidate}


def candidate_of(
    nonlinearity: Nonlinearity | Function, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]
) -> Affine:
    """Return the candidate whose function a word names, or a function given itself. Raises: as `FunctionCandidate`."""
    if nonlinearity in ("tanh", "relu"):
        return CANDIDATES[nonlinearity](input_size, hidden_size, **settings)
    return FunctionCandidate(input_size, hidden_size, nonlinearity, **settings)


class ResetCandidate(Part):
    r"""tanh(Wx x + b + r * (Wh h + b_h)) with the reset gate r = sigma(Wrx x + Wrh h + b_r).

    The reset comes after the product, as in torch.nn.GRU; before it, `ResetStateCandidate`, it makes another cell.

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., hidden).
    Source:  torch.nn.GRUCell's equations for r and n.
    """

    reset: Affine
    pull: Affine
    input_size: int
    hidden_size: int

    letters: ClassVar[dict[str, str]] = {"Wx": "pull.weight_x", "Wh": "pull.weight_h", "b": "pull.bias", "bh": "bias_h"}

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__()

        def affine() -> Affine:
            return Affine(input_size, hidden_size, hidden_size, **settings)

        self.reset, self.pull = affine(), affine()
        self.input_size, self.hidden_size = self.pull.input_size, self.pull.hidden_size
        # Inside the reset, so that it cannot be merged with b.
        self.bias_h: nn.Parameter | None = nn.Parameter(torch.zeros_like(self.pull.bias)) if self.pull.bias is not None else None
        self.projected_size: int = 2 * self.hidden_size

    @affine
    def project(self, x: Tensor) -> Tensor:
        return torch.cat([self.reset.project(x), self.pull.project(x)], -1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(self.preactivation(projected, h))

    def preactivation(self, projected: Tensor, h: Tensor) -> Tensor:
        """Wx x + b + r * (Wh h + b_h): (..., 2 hidden), (..., hidden) -> (..., hidden)."""
        to_reset, to_pull = projected.chunk(2, -1)
        return to_pull + torch.sigmoid(self.reset.flow(to_reset, h)) * self.recurrent(h)

    def recurrent(self, h: Tensor) -> Tensor:
        """Wh h + b_h, what the gate resets: (..., hidden) -> (..., hidden)."""
        return nn.functional.linear(h, self.pull.weight_h, self.bias_h)

    @property
    def formula(self) -> str:
        biased = self.bias_h is not None
        pulled = "sigma({reset:r}) * (Wh h" + " + bh" * biased + ")"
        return f"tanh({' + '.join(['Wx x'] * (self.input_size > 0) + ['b'] * biased + [pulled])})"


class ResetStateCandidate(Part):
    r"""tanh(Wx x + Wh (r * h) + b) with the reset gate r = sigma(Wrx x + Wrh h + b_r): the state is reset, before the product.

    Args:    input_size, hidden_size; bias, dtype, device, generator as in torch.nn.
    Shape:   x (..., input), h (..., hidden) -> (..., hidden).
    Source:  Cho et al. 2014, Learning phrase representations using RNN encoder-decoder, eq. (8), whose r and h~ have no biases;
             Chung et al. 2014, sec. 3.2; Keras' GRU with `reset_after=False`, and with biases.
    """

    reset: Affine
    pull: Affine
    input_size: int
    hidden_size: int

    letters: ClassVar[dict[str, str]] = {"Wx": "pull.weight_x", "Wh": "pull.weight_h", "b": "pull.bias"}

    def __init__(self, input_size: int, hidden_size: int, **settings: Unpack[WeightSettings]) -> None:
        super().__init__()
        self.reset = Affine(input_size, hidden_size, hidden_size, **settings)
        self.pull = Affine(input_size, hidden_size, hidden_size, **settings)
        self.input_size, self.hidden_size = self.pull.input_size, self.pull.hidden_size
        self.projected_size: int = 2 * self.hidden_size

    @affine
    def project(self, x: Tensor) -> Tensor:
        return torch.cat([self.reset.project(x), self.pull.project(x)], -1)

    def flow(self, projected: Tensor, h: Tensor) -> Tensor:
        to_reset, to_pull = projected.chunk(2, -1)
        return torch.tanh(self.pull.flow(to_pull, torch.sigmoid(self.reset.flow(to_reset, h)) * h))

    @property
    def formula(self) -> str:
        pulled = self.pull.affine_formula.replace("Wh h", "Wh (sigma({reset:r}) * h)")
        return f"tanh({pulled})"
