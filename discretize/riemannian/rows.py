r"""Gradient steps for the rows of an affine layer, V_j = sum_k theta_jk u_k with u_0 = 1, in a metric for each row.

    G_j = sum_s B_sj u_s          M_j = sum_s m_sj u_s u_s^T          step_j = (M_j + dampening)^-1 G_j

over samples s, times and sequences alike: B is the derivative of what is to grow in V, m the modulus, which says how much a
change of V matters. Nothing here knows what the layer is: read-outs, transitions, gates.

    full       M_j as it is
    quasi      all u_k with k > 0 uncorrelated: exact for each of them with u_0; affine changes of each u_k change nothing
    diagonal   all u_k orthogonal, u_0 among them; of affine changes only scalings of u_k change nothing

and as baselines, whose steps depend on how u is written:

    gradient   G_j
    frequency  G_jk over the number of samples with u_k not 0, so that weights of rare symbols learn as fast as others
    rms        each G_jk over its root mean square over samples, but for the same factor for all, which is the rate's

Shapes: B and m (samples, rows); u (samples, k), one for all rows, or (samples, rows, k); steps (rows, k).
Source: Ollivier 2013, eqs. (18)-(21), (25)-(27), (34), (35), sec. 4, reference RNN training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["BASELINES", "REDUCTIONS", "Centred", "Moments", "RowStep", "quotient", "weighted_sum"]

MOST_INPUTS = 2**24  # numbers, 128 MB in float64


def weighted_sum(weights: Tensor, inputs: Tensor) -> Tensor:
    """Compute sum_s weights_sj u_sk, or u_sjk: (rows, k)."""
    return weights.mT @ inputs if inputs.dim() == 2 else torch.einsum("sj,sjk->jk", weights, inputs)


@dataclass(frozen=True)
class Centred:
    """What a full matrix is made of: sum m (rows,), means of u weighted by m, 0 of unit 0, sum B (u - mean), both (rows, k), and
    sum m (u - mean)(u - mean)^T (rows, k, k)."""

    total: Tensor
    mean: Tensor
    slopes: Tensor
    squares: Tensor

    @staticmethod
    def of(values: Tensor, moduli: Tensor, inputs: Tensor) -> Centred:
        """Sum so many rows at once that their inputs, less a mean that each row has of its own, fit into memory."""
        at_once = max(1, MOST_INPUTS // max(1, inputs.shape[0] * inputs.shape[-1]))
        pieces = torch.arange(values.shape[1], device=values.device).split(at_once)
        rows = [_centred(values[:, p], moduli[:, p], inputs if inputs.dim() == 2 else inputs[:, p]) for p in pieces]
        return Centred(*map(torch.cat, zip(*rows, strict=True)))


def _centred(values: Tensor, moduli: Tensor, inputs: Tensor) -> tuple[Tensor, ...]:
    mean = quotient(weighted_sum(moduli, inputs), moduli.sum(0)[:, None])
    mean[:, 0] = 0
    by_row = (inputs if inputs.dim() == 3 else inputs[:, None]) - mean
    by_row = by_row.transpose(0, 1)
    slopes = (values.mT[:, None] @ by_row)[:, 0]
    return moduli.sum(0), mean, slopes, (moduli.mT[..., None] * by_row).mT @ by_row


@dataclass(frozen=True)
class Moments:
    """sum B u, sum m u, sum m u^2 and sum B^2 u^2 of each row, and how often u_k is not 0: (rows, k) each."""

    slopes: Tensor
    first: Tensor
    own: Tensor
    gradients: Tensor
    often: Tensor

    @staticmethod
    def of(values: Tensor, moduli: Tensor, inputs: Tensor) -> Moments:
        squares, often = inputs**2, (inputs != 0).sum(0).to(values)
        first, own = weighted_sum(moduli, inputs), weighted_sum(moduli, squares)
        gradients = weighted_sum(values**2, squares)
        return Moments(weighted_sum(values, inputs), first, own, gradients, often.expand(values.shape[1], -1))


@dataclass(frozen=True)
class RowStep:
    """A step from sums over samples and from what is added to the diagonals: (rows, k) from sums and (rows,)."""

    sums: type[Centred] | type[Moments]
    solved: Callable[[Any, Tensor], Tensor]

    def __call__(self, values: Tensor, moduli: Tensor, inputs: Tensor, dampening: Tensor) -> Tensor:
        return self.solved(self.sums.of(values, moduli, inputs), dampening)


def full(sums: Centred, dampening: Tensor) -> Tensor:
    """Eq. (27), solved for inputs less their means, which unit 0 takes up, and divided by their deviations: the same but for
    rounding, which would depend on how activities are written. Where a matrix has no inverse, it is the pseudoinverse of
    that. An input that was the same all the time says no more than unit 0, and gets no step."""
    mean = sums.mean
    shift = torch.eye(mean.shape[1], device="cpu").to(mean).repeat(len(mean), 1, 1)
    shift[:, :, 0] -= mean  # u less its mean is this times u
    squares = sums.squares + dampening[:, None, None] * shift @ shift.mT
    own = squares.diagonal(dim1=-2, dim2=-1)
    left = _unless_rounding(own, own + mean**2 * sums.total[:, None])
    scale = quotient(torch.ones_like(left), left.sqrt())
    inverse = torch.linalg.pinv(scale[:, :, None] * squares * scale[:, None], hermitian=True)
    step = scale * (inverse @ (scale * sums.slopes)[..., None])[..., 0]
    step[:, 0] -= (mean * step).sum(-1)
    return step


def quasi_diagonal(sums: Moments, dampening: Tensor) -> Tensor:
    """Eqs. (34), (35), and for read-outs (20), (21): the diagonal is dampened, the row of unit 0 is not."""
    first, own, slopes = sums.first, sums.own + dampening[:, None], sums.slopes
    ratio = quotient(first[:, 1:], own[:, :1])
    left = _unless_rounding(own[:, 1:] - first[:, 1:] * ratio, own[:, 1:])
    steps = quotient(slopes[:, 1:] - slopes[:, :1] * ratio, left)
    constant = quotient(slopes[:, :1], own[:, :1]) - (ratio * steps).sum(-1, keepdim=True)
    return torch.cat([constant, steps], -1)


def diagonal(sums: Moments, dampening: Tensor) -> Tensor:
    return quotient(sums.slopes, sums.own + dampening[:, None])


def gradient(sums: Moments, dampening: Tensor) -> Tensor:
    return sums.slopes


def frequency_adjusted(sums: Moments, dampening: Tensor) -> Tensor:
    return quotient(sums.slopes, sums.often)


def rms(sums: Moments, dampening: Tensor) -> Tensor:
    return quotient(sums.slopes, sums.gradients.sqrt())


REDUCTIONS = {
    "full": RowStep(Centred, full),
    "quasi": RowStep(Moments, quasi_diagonal),
    "diagonal": RowStep(Moments, diagonal),
}
BASELINES = {
    "gradient": RowStep(Moments, gradient),
    "frequency": RowStep(Moments, frequency_adjusted),
    "rms": RowStep(Moments, rms),
}


def _unless_rounding(left: Tensor, whole: Tensor) -> Tensor:
    """Return what is left of the whole, 0 if that is no more than rounding."""
    return torch.where(left > whole * 16 * torch.finfo(left.dtype).eps, left, 0)


def quotient(over: Tensor, under: Tensor) -> Tensor:
    """Divide; 0 where there is nothing to divide by: no sample, or none that matters."""
    return torch.where(under > 0, over / torch.where(under > 0, under, 1), 0)
