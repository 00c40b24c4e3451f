r"""Programs of methods for kernels in Triton: attempts of tableaus, and attempts given as code, which are recorded."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from discretize.kernels.cpp.methods import MethodEngine, WrittenMethod
from discretize.kernels.record.attempt import START, AttemptModule, FieldCalls
from discretize.kernels.record.program import Program
from discretize.kernels.record.stored import Recorder
from discretize.kernels.record.tableau import ExplicitTableau, RosenbrockTableau
from discretize.kernels.triton.attempts import METHOD, AttemptText, attempt_text
from discretize.kernels.triton.lines import WEIGHTS

__all__ = ["TRITON", "TritonMethod"]

MOST_TABLEAUS = 64  # whose texts a process remembers


class TritonMethod:
    """The text of methods of one code, a `MethodKernel`; program: what reads their tensors, None for a tableau."""

    key: str | None = None
    read: tuple[list[bytes], FieldCalls] | None = None

    def __init__(self, text: AttemptText, program: Program[AttemptText] | None, calls: FieldCalls, reads_start: bool) -> None:
        self.text, self.program, self.calls, self.reads_start = text, program, calls, reads_start
        self.differs: weakref.WeakKeyDictionary[Any, str | None] = weakref.WeakKeyDictionary()

    def operands(self, tensors: Sequence[Tensor], device: torch.device) -> tuple[dict[int, Tensor], dict[int, Tensor]]:
        """The vectors and matrices that the text reads, by number."""
        if self.program is None:
            return {}, {}
        vectors, matrices = ({METHOD * WEIGHTS + k: t.to(device) for k, t in enumerate(ts)} for ts in self.program.read(tensors))
        return vectors, matrices


def _made(
    module: AttemptModule, calls: FieldCalls, dtype: torch.dtype, program: Program[AttemptText], _: Recorder
) -> TritonMethod:
    reads_start = module.reads_start or START in calls.slopes or "drift" in calls.derivatives
    return TritonMethod(program.written, program, calls, reads_start)


@lru_cache(MOST_TABLEAUS)
def _of_tableau(pair: ExplicitTableau | RosenbrockTableau, state: int, dtype: torch.dtype) -> WrittenMethod:
    method = TritonMethod(attempt_text(pair.values(state)), None, pair.calls, True)
    return WrittenMethod(method, (), pair.calls)


TRITON = MethodEngine(attempt_text, _made, _of_tableau)
