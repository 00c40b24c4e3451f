r"""Constrains recurrent weights, as parametrizations of torch: signs by Dale's law, masks, rank, spectral radius.

    torch.nn.utils.parametrize.register_parametrization(field.candidate, "weight_h", ctrnn.parts.Dale(signs))

A weight W_ij goes from unit j to unit i: Dale's law gives each column one sign. Several are applied in the order in which they
are registered. Weights are computed once for a whole sequence or solve; kernels, equations and proofs read what comes out.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ctrnn import checks
from ctrnn.calls import AnsweredInit

__all__ = ["Dale", "LowRank", "Mask", "SpectralRadius", "ZeroDiagonal"]


class Dale(AnsweredInit, nn.Module):
    r"""Gives each column of a matrix one sign: units that excite all that they reach, and units that inhibit.

    Args:    signs: 1 or -1 for each column; by: how sizes are kept positive: "abs", |W|; "softplus", log(1 + e^W), never 0;
             "clip", max(0, sign W), whose gradient is 0 where a weight is.
    Shape:   signs (columns,); W (rows, columns) -> (rows, columns).
    Raises:  TypeError, ValueError for other signs.
    Source:  Song, Yang and Wang 2016, "Training excitatory-inhibitory recurrent neural networks for cognitive tasks", eq. (10).
    """

    signs: Tensor

    def __init__(self, signs: Tensor, by: Literal["abs", "softplus", "clip"] = "abs") -> None:
        super().__init__()
        given = checks.is_tensor("signs", signs)
        if given.dim() != 1 or not checks.holds(given.abs() == 1):
            came = f"{given.tolist()}" if given.dim() == 1 else f"shape {tuple(given.shape)}"
            raise ValueError(f"`signs` must be 1 or -1 for each column, (columns,), got {came}.")
        self.by: str = checks.one_of("by", by, ("abs", "softplus", "clip"))
        self.register_buffer("signs", given.detach().to(torch.get_default_dtype()))

    def forward(self, weight: Tensor) -> Tensor:
        signs = self.signs.to(weight)
        if weight.shape[-1] != len(signs):
            raise ValueError(
                f"`signs` are for {len(signs)} columns, and the weight is {tuple(weight.shape)}; give one for each column."
            )
        if self.by == "clip":
            return torch.relu(weight * signs) * signs
        return (weight.abs() if self.by == "abs" else softplus(weight)) * signs

    def right_inverse(self, weight: Tensor) -> Tensor:
        """Keep the sizes of given weights, whatever their signs were."""
        size = weight.abs()
        if self.by == "softplus":
            size = size.clamp(min=torch.finfo(size.dtype).eps)
            return size + torch.log(-torch.expm1(-size))
        return size * self.signs.to(size) if self.by == "clip" else size

    def extra_repr(self) -> str:
        return f"{len(self.signs)} columns, by={self.by!r}"


class Mask(AnsweredInit, nn.Module):
    r"""Multiplies a matrix by a mask: connections that are not there, or are scaled.

    Args:    mask: like the weight, finite.
    Shape:   W (rows, columns) -> (rows, columns).
    Raises:  TypeError, ValueError for what is no such mask.
    """

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        given = checks.is_tensor("mask", mask).detach()
        given = given.clone() if given.is_floating_point() else given.to(torch.get_default_dtype())
        checks.is_finite("mask", given, "connections that are not there are 0")
        self.register_buffer("mask", given)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.shape != self.mask.shape:
            raise ValueError(f"`mask` is {tuple(self.mask.shape)}, and the weight is {tuple(weight.shape)}; make them equal.")
        return weight * self.mask.to(weight)

    def right_inverse(self, weight: Tensor) -> Tensor:
        """Take weights as they are; the mask is from then on in their dtype, which their device has."""
        self.mask = self.mask.to(weight)
        return weight

    def extra_repr(self) -> str:
        return f"{tuple(self.mask.shape)}"


class ZeroDiagonal(AnsweredInit, nn.Module):
    r"""Takes away the diagonal of a square matrix: no unit reaches itself.

    Shape:   W (units, units) -> (units, units).
    """

    def forward(self, weight: Tensor) -> Tensor:
        _check_square(self, weight)
        return weight - torch.diag_embed(weight.diagonal())

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight


class LowRank(AnsweredInit, nn.Module):
    r"""M N^T in place of a matrix, M (rows, rank) and N (columns, rank): the first parametrization of a weight.

    From given weights it starts with their best approximation of that rank.

    Args:    rank: at least 1.
    Shape:   M, N -> (rows, columns).
    Source:  Mastrogiuseppe and Ostojic 2018, "Linking connectivity, dynamics, and computations in low-rank recurrent neural
             networks", up to their factor 1/units.
    """

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank: int = checks.positive_size("rank", rank)

    def forward(self, m: Tensor, n: Tensor) -> Tensor:
        return m @ n.mT

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        if self.rank > min(weight.shape):
            raise ValueError(f"`rank` is {self.rank}, and the weight is {tuple(weight.shape)}; give at most {min(weight.shape)}.")
        u, s, vh = torch.linalg.svd(weight, full_matrices=False)
        root = s[: self.rank].sqrt()
        return u[:, : self.rank] * root, vh[: self.rank].mT * root

    def extra_repr(self) -> str:
        return f"rank={self.rank}"


class SpectralRadius(AnsweredInit, nn.Module):
    r"""Scales a square matrix so that its largest eigenvalue has a given size.

    Args:    value: > 0.
    Shape:   W (units, units) -> (units, units).
    Raises:  ValueError for a matrix that no factor gives that radius: all its eigenvalues are 0.
    Source:  Jaeger 2001, "The echo state approach to analysing and training recurrent neural networks".
    """

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value: float = checks.positive_number("value", value)

    def forward(self, weight: Tensor) -> Tensor:
        _check_square(self, weight)
        radius = torch.linalg.eigvals(weight).abs().amax()
        if not checks.holds(radius > 0):
            raise ValueError(f"The weight has no eigenvalue but 0, and {self!r} cannot scale it.")
        return weight * (self.value / radius)

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight

    def extra_repr(self) -> str:
        return f"{self.value:g}"


def _check_square(of: nn.Module, weight: Tensor) -> None:
    if weight.dim() != 2 or weight.shape[0] != weight.shape[1]:
        raise ValueError(
            f"{type(of).__name__} is for square matrices, and the weight is {tuple(weight.shape)}; put it on recurrent weights, "
            "`weight_h`."
        )
