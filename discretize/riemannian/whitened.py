r"""Computes steps in a metric of all weights; the cut-off of small eigenvalues is independent of the units of activities.

    M = R^T R          D: the blocks of M, one for each row of weights: what one unit reads, its constant first
    M v = lambda D v, v^T D v = 1          step = sum v (v^T G) / lambda, over those lambda that are not small

Let units be described anew by an affine change of each, a = c + s a', V = d V'. Weights of a row are then theta = J theta' with
a J for each row, so that G' = J^T G, M' = J^T M J and D' = J^T D J. From M v = lambda D v follows M' v' = lambda D' v' with
v' = J^-1 v: the eigenvalues are the same ones, the same are small, and the step is J^-1 times the step.

Where D has no inverse, a row is first written in numbers that no affine change moves, but for signs: what it reads less what its
constant says of that, in units of what is left. Its pseudoinverse there has the shortest steps in those numbers, in any writing.
An input of which the constant says everything gets no step, nor does a row that changes nothing. "Everything" is to a share of
how far the input can go, which is as far in any writing: where a unit saturates, its deviation is less than activities' rounding.

Factors R in place of M halve the digits that rounding takes: eigenvalues are cut off at `cut`^2 of the largest.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn.functional import pad

from discretize.riemannian.rows import quotient

__all__ = ["ReadRows", "whitened_step", "whitening"]

ROUNDING = 1e-5  # of the largest singular value, in a block and of all: below it directions are taken as if they changed nothing

# Rows of weights of one kind: indices (rows, k), that of the constant first, and how far what they read goes from its centre,
# one number or (rows, k - 1); None where no one knows, and then nothing is less than rounding of its own size.
ReadRows = tuple[Tensor, float | Tensor | None]


def whitened_step(root: Tensor, gradient: Tensor, rows: Iterable[ReadRows]) -> Tensor:
    """Return the step: root (any, weights) is R, gradient (weights,); rows have every weight once."""
    # Rounding of a block is divided by its cut-off, and of the whole by the other one: eps/cut^2 is to be small.
    cut = max(ROUNDING, (len(gradient) * torch.finfo(root.dtype).eps) ** 0.5)
    W = whitening(root, rows, cut)
    _, sizes, axes = torch.linalg.svd(root @ W, full_matrices=False)
    kept = sizes > cut * sizes[:1]
    V = W @ axes[kept].mT / sizes[kept]
    return V @ (V.mT @ gradient)


def whitening(root: Tensor, rows: Iterable[ReadRows], cut: float) -> Tensor:
    """Return W of the blocks, W^T D W = 1 but for directions that are cut off, which are 0 in it."""
    W = torch.zeros(root.shape[-1], root.shape[-1], dtype=root.dtype, device=root.device)
    for index, span in rows:
        of_rows = root[:, index].movedim(0, 1)  # (rows, any, k)
        of_rows = pad(of_rows, (0, 0, 0, max(0, of_rows.shape[2] - of_rows.shape[1])))
        triangle = torch.linalg.qr(of_rows, mode="r").R
        constant, said, left = triangle[:, 0, :1], triangle[:, 0, 1:], triangle[:, 1:, 1:]
        one, deviation, whole = constant.abs(), left.norm(dim=1), triangle[:, :, 1:].norm(dim=1)
        far = torch.as_tensor(0.0 if span is None else span).to(one)
        known = torch.maximum(one * far * cut, whole * 16 * torch.finfo(whole.dtype).eps)
        scale = quotient(torch.ones_like(deviation), torch.where(deviation > known, deviation, 0))
        mean = quotient(said * constant.sign(), one)  # what the constant says of each input
        _, sizes, axes = torch.linalg.svd(left * scale[:, None])
        sizes = torch.where(sizes > cut * sizes[:, :1], sizes, 0)
        of_inputs = scale[..., None] * axes.mT * quotient(torch.ones_like(sizes), sizes)[:, None]
        of_constant = torch.cat([quotient(torch.ones_like(one), one)[:, None], -mean[:, None] @ of_inputs], -1)
        W[index[:, :, None], index[:, None]] = torch.cat([of_constant, pad(of_inputs, (1, 0))], 1)
    return W
