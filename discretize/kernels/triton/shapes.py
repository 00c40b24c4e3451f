r"""Choose how many samples a program takes, and by how many warps, from estimates of a multiprocessor's cycles a step.

    few samples    so many programs share a multiprocessor as its registers hold; a step waits `FEW_WAIT` cycles for what one
                   thread needs of others, and besides issues two instructions for 128 numbers of float32, and some for each warp
    16 samples     a step takes `MANY_WAIT` cycles and `MANY_TIMES` a number of the matrices: on an H200, steps of gated cells and
                   GRUs with 64, 128 and 256 units took 4 to 77 us

Those for few samples are read off the instructions that Triton compiles (docs/kernels.md), not measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from discretize.kernels.triton.lines import Needs
from discretize.kernels.triton.products import SUMMED

__all__ = ["Shape", "many", "multiprocessors", "shape_of"]

ROWS = 16  # samples of a tile: the fewest that `tl.dot` takes
WARPS, MANY_WARPS, WIDE = 4, 8, 64  # of more units, four have too few registers
FEW_WARPS = (4, 8, 16)
# Numbers of matrices in the registers of a thread, by the samples of a program: with more, ptxas spills (tools/triton_table.py).
# Programs of one sample take 96, where there are no more warps.
HELD = {1: 48, 2: 32, 4: 16}
FEW_WAIT, MANY_WAIT, MANY_TIMES = 600, 5000, 0.7
REGISTERS, OTHERS = 1 << 16, 48  # of a multiprocessor; of a thread, beside matrices
PRODUCTS, READ = 256, 32  # bytes of numbers multiplied in a cycle, and of matrices read from the cache that all share
FEW_ISSUES = 25  # cycles of a warp's other instructions


@dataclass(frozen=True)
class Shape:
    """Of a program: whether it is one for few samples, how many these are, and how many warps compute them."""

    few: bool
    rows: int
    warps: int

    @property
    def options(self) -> dict[str, int]:
        """For Triton. One stage: loads of what a pass itself stores must not be brought forward."""
        # Without being told ptxas may take fewer registers than there are, and spill the rest.
        most = {"maxnreg": REGISTERS // (32 * self.warps)} if self.warps > MANY_WARPS else {}
        return {"num_warps": self.warps, "num_stages": 1} | most


@cache
def multiprocessors(device: torch.device) -> int:
    """How many programs run side by side; the interpreter takes one after the other."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def many(width: int) -> Shape:
    """For 16 samples; width: of the widest vector."""
    return Shape(False, ROWS, MANY_WARPS if width > WIDE else WARPS)


def shape_of(few: Needs, width: int, batch: int, bytes_each: int, processors: int) -> Shape:
    """The quickest by the estimates; few: what a program for few samples needs; bytes_each: of a number."""
    numbers, words = few.resident + few.streamed, bytes_each // 4

    def few_shape(rows: int) -> Shape | None:
        held = (few.resident + min(few.streamed, SUMMED)) * words
        enough = (warps for warps in FEW_WARPS if held <= 32 * warps * HELD[rows])
        warps = next(enough, FEW_WARPS[-1] if rows == 1 else None)
        return None if warps is None else Shape(True, rows, warps)

    def few_cycles(shape: Shape) -> float:
        programs = -(-batch // shape.rows)
        room = max(1, REGISTERS // (few.resident * words + OTHERS * 32 * shape.warps))
        beside = min(room, -(-programs // processors))
        work = shape.rows * numbers * bytes_each / PRODUCTS + few.streamed * bytes_each / READ + FEW_ISSUES * shape.warps
        return -(-programs // (processors * beside)) * (FEW_WAIT + beside * work)

    rounds = -(-batch // (ROWS * processors))
    cycles = {shape: few_cycles(shape) for rows in HELD if (shape := few_shape(rows))}
    cycles[many(width)] = rounds * (MANY_WAIT + MANY_TIMES * numbers * words)
    return min(cycles, key=cycles.__getitem__)
