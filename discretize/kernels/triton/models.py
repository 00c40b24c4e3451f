"""A field as kernels of adaptive solves in Triton know it: a text, the programs that it is made of, and their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ctrnn import VectorField
from discretize.kernels.cpp.solves import WrittenField, total
from discretize.kernels.record.program import FlowModule, Program
from discretize.kernels.triton.lines import WEIGHTS
from discretize.kernels.triton.solving.writing import SolveText
from discretize.solvers.detached import ModuleSettings

__all__ = ["SolveKernel", "TritonModel"]

Weights = Sequence[Tensor | None]


@dataclass(frozen=True)
class SolveKernel:
    """A text, and the programs that it is made of; `stored`: the dtype of matrices, of states given back and of those kept, None
    for that of h0."""

    programs: Sequence[Program]
    text: SolveText
    stored: torch.dtype | None

    def read(self, weights: Weights, h0: Tensor) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """The vectors and matrices that the text reads, by number."""
        vectors, matrices = dict[int, Tensor](), dict[int, Tensor]()
        for program, first in zip(self.programs, range(0, len(self.programs) * WEIGHTS, WEIGHTS), strict=True):
            with torch.no_grad():
                found = program.before(*weights, *program.nobody, *program.constants)
            vectors |= {first + k: vector.to(h0.device) for k, vector in enumerate(found[0])}
            matrices |= {first + k: matrix.to(h0.device, self.stored or h0.dtype) for k, matrix in enumerate(found[1])}
        return vectors, matrices

    def gradients(self, weights: Weights, sums: Sequence[Sequence[Tensor]]) -> list[Tensor | None]:
        """To the weights, from each program's sums."""
        with torch.no_grad():
            found = [
                program.after(*weights, *program.nobody, *program.constants, *mine)
                for program, mine in zip(self.programs, sums, strict=True)
            ]
        return [total(each) for each in zip(*found, strict=True)]


@dataclass(frozen=True)
class TritonModel:
    """A kernel, its weights those of `module`, whose `settings` are as they were at the call."""

    kernel: SolveKernel
    module: FlowModule
    settings: ModuleSettings

    def field(self, *weights: Any) -> VectorField:
        with self.settings.restored():
            return WrittenField(self.module, weights)
