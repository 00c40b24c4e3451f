r"""Draw increments over the parts of cells by an operation of torch's library, which kernels find in what they record.

columns of a step      a key in three parts, see `key_columns`, a cell, and which of its equal parts
-> its increments      w, and int (W - W(start)) dt where that is read, of a cell of length 1
"""

from __future__ import annotations

import torch
from torch import Tensor

from discretize.noise.brownian import cell_terms
from discretize.noise.generator import KEY_COLUMNS, normals_of_columns

__all__ = ["PLACE", "cell_increments"]

PLACE = KEY_COLUMNS + 2  # columns: of a key, a cell and a part


def cell_increments(columns: Tensor, parts: int, integral: bool, width: int) -> Tensor:
    r"""Return the increments of `width` Brownian motions over one of the parts of a cell of length 1.

    Args:    parts: of a cell, a power of two; integral: whether those of the path's integral are wanted beside w.
    Shape:   columns (..., 5) -> (..., 1, width), or (..., 2, width).
    """
    increments: Tensor = torch.ops.ctrnn.increments(columns.detach(), parts, integral, width)  # whole numbers have no derivative
    return increments


# Not `torch.library.custom_op`, whose first call loads the compiler, while it is watched what the code asks for.
torch.library.define("ctrnn::increments", "(Tensor columns, int parts, bool integral, int width) -> Tensor")


@torch.library.impl("ctrnn::increments", "CompositeExplicitAutograd")
def _increments(columns: Tensor, parts: int, integral: bool, width: int) -> Tensor:
    # Kernels are made by running code on any numbers, which need not be the number of a part.
    terms, part = cell_terms(parts, integral), columns[..., -1].to(torch.int64) % parts
    nodes, *coefficients = (each.to(columns.device)[part] for each in terms)
    totals = [columns.new_zeros(*columns.shape[:-1], width) for _ in range(1 + integral)]
    for k in range(nodes.shape[-1]):
        numbers = normals_of_columns(columns[..., :-1], nodes[..., k : k + 1], width)
        totals = [total + each[..., k : k + 1].to(columns) * numbers for total, each in zip(totals, coefficients, strict=False)]
    return torch.stack(totals, -2)


@torch.library.register_fake("ctrnn::increments")
def _(columns: Tensor, parts: int, integral: bool, width: int) -> Tensor:
    return columns.new_empty(*columns.shape[:-1], 1 + integral, width)


@torch.library.register_vmap("ctrnn::increments")
def _(info: object, axes: tuple[int, ...], columns: Tensor, parts: int, integral: bool, width: int) -> tuple[Tensor, int]:
    return torch.ops.ctrnn.increments(columns.movedim(axes[0], 0), parts, integral, width), 0
