"""Find the line where code looks at the values of tensors: what it does then may hang on them."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable
from typing import Any, Self

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from discretize import compat
from discretize.kernels.record.recording import own_line

__all__ = ["Looks", "memory_of"]

FILES = (__file__, os.path.join(os.path.dirname(__file__), "running.py"))  # whose lines no user wrote
# Operations that tell Python a number, or as many entries as numbers say, by what torch notes of them; and methods that do so by
# none.
TELL = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
METHODS = set("tolist numpy __array__ __dlpack__ data_ptr untyped_storage __repr__ __format__ apply_ map_ map2_".split())  # noqa: SIM905
BESIDE_THE_FIRST = ("tensor_split", "_pack_padded_sequence")  # which read lengths from their other tensors


class _Methods(TorchFunctionMode):
    """Notes calls of methods that give Python the numbers of a tensor."""

    def __init__(self, looks: Looks) -> None:
        super().__init__()
        self.looks = looks

    def __torch_function__(self, function: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if name in METHODS or name in BESIDE_THE_FIRST:
            self.looks.note_read((args if name in METHODS else args[1:], kwargs))
        return function(*args, **(kwargs or {}))


class Looks(compat.TorchDispatchMode):
    """Finds the line where code reads values of the given tensors, or of what was computed from them."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()
        self.line, self.methods = "", _Methods(self)
        # The tensors themselves too: memory that is given back would be another tensor's next.
        self.followed = {memory_of(t): t for t in tensors}

    def __enter__(self) -> Self:
        self.methods.__enter__()
        return super().__enter__()

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self.methods.__exit__(*raised)

    def note_read(self, tensors: object) -> None:
        """Note the line of code that reads the value of a tensor followed (.item(), bool)."""
        if any(memory_of(t) in self.followed for t in compat.tree_leaves(tensors) if isinstance(t, Tensor)):
            self.line = self.line or own_line(traceback.extract_stack(), *FILES)

    def __torch_dispatch__(self, function: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        answer = function(*args, **(kwargs or {}))
        if any(memory_of(t) in self.followed for t in compat.tree_leaves((args, kwargs)) if isinstance(t, Tensor)):
            is_index = function.overloadpacket is torch.ops.aten.index  # as many entries as numbers say only by a mask
            if TELL & {*function.tags} and not (is_index and all(t is None or t.dtype != torch.bool for t in args[1])):
                self.note_read((args, kwargs))
            self.followed.update((memory_of(t), t) for t in compat.tree_leaves(answer) if isinstance(t, Tensor))
        return answer

    def check(self, words: str) -> None:
        if self.line:
            raise ValueError(f"the code branches on the values of tensors{self.line} {words}; write it with torch.where.")


def memory_of(t: Tensor) -> int:
    """Return a key that is equal for tensors that share their memory, as long as both live."""
    return t.untyped_storage().data_ptr() or id(t)
