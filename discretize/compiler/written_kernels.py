r"""Written kernels as Python has them: made once for a module's code, and what all of them are given and give back."""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from ctypes import Structure, c_size_t, c_void_p
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from discretize.compiler.attributes import attributes_of
from discretize.compiler.program import FlowModule, Program, StepModule, program_of
from discretize.compiler.zones import Unknown
from discretize.fused.build import Source, Unavailable, library
from discretize.fused.eligibility import warn_once
from discretize.fused.libraries import KERNELS, REALS

__all__ = ["HERE", "GivenProgram", "ProgramStructure", "Sums", "SumsStructure", "kernel_of", "products", "written_source"]

HERE = Path(__file__).parent / "kernels"
INCLUDES = (HERE / "rows.h", *(KERNELS / name for name in ("packed.h", "parallel.h", "simd.h")))
PRODUCTS = Source(HERE / "shared_products.cpp", tuple(KERNELS / name for name in ("packed.h", "products.h", "simd.h")))
MOST_KEPT = 256  # kernels that a process remembers

Kernel = TypeVar("Kernel")


class ProgramStructure(Structure):
    """`CtrnnProgram` of kernels/rows.h, field by field."""

    _fields_ = [
        *((name, c_size_t) for name in ("sizes", "kept_values", "vectors", "matrices")),
        *((name, c_void_p) for name in ("size", "kept_widths", "vector_widths", "depths", "widths", "vector", "matrix")),
        *((name, c_void_p) for name in ("multiply", "outer")),
    ]


class SumsStructure(Structure):
    """`CtrnnSums`."""

    _fields_ = [("sums", c_size_t), *((name, c_void_p) for name in ("heights", "widths", "sum"))]


class _Made(NamedTuple):
    kernel: Any
    alive: tuple[Any, ...]  # objects of the module that are known by their ids


_made: OrderedDict[tuple[Any, ...], _Made] = OrderedDict()


def kernel_of(
    module: StepModule | FlowModule, wanted: Mapping[str, bool], dtype: torch.dtype, make: Callable[[Program], Kernel | str]
) -> Kernel | str:
    r"""The kernel of a module's code, made of its program by `make` where there is none yet, or why there is none.

    Args:    wanted, dtype: as for `program_of`.
    """
    attributes = attributes_of(module)
    if isinstance(attributes, str):
        return attributes
    key = (attributes.values, *wanted.items(), dtype)
    if key not in _made:
        _made[key] = _Made(_attempt(module, wanted, dtype, make), attributes.objects)
        while len(_made) > MOST_KEPT:
            _made.popitem(last=False)
    _made.move_to_end(key)
    found: Kernel | str = _made[key].kernel
    return found


def _attempt(
    module: StepModule | FlowModule, wanted: Mapping[str, bool], dtype: torch.dtype, make: Callable[[Program], Kernel | str]
) -> Kernel | str:
    try:
        return make(program_of(module, wanted, dtype))
    except (Unknown, ValueError) as error:
        return str(error)
    except Unavailable as error:
        return warn_once(str(error))


def written_source(path: Path, program: Program, more: tuple[Path, ...] = (), flags: tuple[str, ...] = ()) -> Source:
    """A file of C++ with the program that it includes; `more`: further headers."""
    return Source(path, (*INCLUDES, *more), (("program.h", program.written.text),), flags)


def products(dtype: torch.dtype) -> dict[str, int]:
    """The addresses of the functions in kernels/shared_products.cpp. Raises `Unavailable`."""
    found = library(PRODUCTS, {"REAL": REALS[dtype]})
    return {name: ctypes.cast(found[f"ctrnn_{name}"], c_void_p).value or 0 for name in ("multiply", "outer")}


class GivenProgram:
    """A program with the numbers of its weights, laid out as kernels read them."""

    def __init__(self, program: Program, products: Mapping[str, int], weights: Sequence[Tensor]) -> None:
        with torch.no_grad():
            vectors, matrices = program.before(*weights, *program.nobody, *program.constants)
        columns = [matrix if matrix.dim() == 2 else matrix[:, None] for matrix in matrices]
        text, arrays = (
            program.written,
            {
                "vector_widths": [vector.numel() for vector in vectors],
                "depths": [matrix.shape[0] for matrix in columns],
                "widths": [matrix.shape[1] for matrix in columns],
                "vector": [vector.data_ptr() for vector in vectors],
                "matrix": [matrix.data_ptr() for matrix in columns],
            },
        )
        arrays |= {"size": text.sizes, "kept_widths": text.kept}
        self.alive = vectors, matrices, {name: _array(numbers) for name, numbers in arrays.items()}
        self.structure = ProgramStructure(
            sizes=len(text.sizes),
            kept_values=len(text.kept),
            vectors=len(vectors),
            matrices=len(matrices),
            **{name: array.ctypes.data for name, array in self.alive[2].items()},
            **products,
        )


class Sums:
    """Room for a program's sums over samples, and the weights' gradients that they make."""

    def __init__(self, program: Program, like: Tensor) -> None:
        self.program, self.tensors = program, [like.new_empty(shape) for shape in program.sums]
        heights, widths = (_array([size[side] for size in program.written.sums]) for side in (0, 1))
        self.alive = heights, widths, _array([tensor.data_ptr() for tensor in self.tensors])
        self.structure = SumsStructure(len(self.tensors), *(array.ctypes.data for array in self.alive))

    def gradients(self, weights: Sequence[Tensor]) -> list[Tensor | None]:
        with torch.no_grad():
            found: list[Tensor | None] = self.program.after(
                *weights, *self.program.nobody, *self.program.constants, *self.tensors
            )
        return found


def _array(numbers: Any) -> np.ndarray:
    return np.array(numbers, dtype=np.uint64)
