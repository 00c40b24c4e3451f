r"""Written kernels as Python has them: made once for a module's code, and what all of them are given and give back."""

from __future__ import annotations

import ctypes
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from ctypes import Structure, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.random import fork_rng
from torch.utils._pytree import tree_flatten, tree_unflatten

from discretize.kernels.build import Source, Unavailable, library
from discretize.kernels.cpp.libraries import KERNELS, REALS
from discretize.kernels.cpp.rows import written
from discretize.kernels.eligibility import warn_once
from discretize.kernels.record.attributes import Attributes, GlobalReads, attributes_of
from discretize.kernels.record.program import FlowModule, Program, StepModule, Writer, program_of, weights_of, with_weights
from discretize.kernels.record.watched import Unwatched
from discretize.kernels.record.zones import Unknown

__all__ = [
    "DRIVERS",
    "HERE",
    "ROUNDING",
    "ROWS",
    "GivenProgram",
    "ProgramStructure",
    "Sums",
    "SumsStructure",
    "kernel_of",
    "functions_of",
]

HERE = Path(__file__).parent / "source"
ROWS = (HERE / "rows.h", *(KERNELS / name for name in ("packed.h", "scratch.h", "simd.h")))
DRIVERS = (*ROWS, HERE / "driver.h", KERNELS / "parallel.h")
PRODUCTS = Source(HERE / "shared_products.cpp", tuple(KERNELS / name for name in ("packed.h", "products.h", "simd.h")))
# Relative to the largest number of each result.
ROUNDING = {torch.bfloat16: 3e-2, torch.float16: 4e-3, torch.float32: 1e-3, torch.float64: 1e-9}
MOST_KEPT = 256  # kernels that a process remembers
MOST_IN_VAIN = 8  # kernels of fields of the same parts that served fewer than LEAST_USE calls each
LEAST_USE = 4  # calls in a row, from there on, before another one is made

Kernel = TypeVar("Kernel")


class ProgramStructure(Structure):
    """`CtrnnProgram` of kernels/rows.h, field by field."""

    _fields_ = [
        *((name, c_size_t) for name in ("sizes", "kept_values", "vectors", "matrices", "products", "forth")),
        *((name, c_void_p) for name in ("size", "kept_widths", "vector_widths", "depths", "widths", "product")),
        *((name, c_void_p) for name in ("vector", "matrix")),
        *((name, c_void_p) for name in ("multiply", "outer", "forward", "backward", "columns", "lane_flow", "lane_return")),
        ("lane_sums", c_size_t),
    ]


class SumsStructure(Structure):
    """`CtrnnSums`."""

    _fields_ = [("sums", c_size_t), *((name, c_void_p) for name in ("heights", "widths", "sum"))]


@dataclass
class _Made:
    """A kernel, or why there is none, and what it was made for."""

    kernel: Any
    reads: GlobalReads
    globals: Attributes | str
    alive: tuple[Any, ...]  # objects of the module that are known by their ids

    @property
    def is_current(self) -> bool:
        now = self.reads.now()
        return (now if isinstance(now, str) else now.values) == (
            self.globals if isinstance(self.globals, str) else self.globals.values
        )


@dataclass
class _Uses:
    """How many calls found a kernel and how many did not, and what the last of those asked for, so many times in a row."""

    found: int = 0
    missed: int = 0
    asked: Any = None
    times: int = 0

    def in_vain(self, key: Any) -> bool:
        """Count a call that found none; whether a kernel for it would probably serve no other."""
        self.missed += 1
        self.times = self.times + 1 if key == self.asked else 1
        self.asked = key
        return self.missed > MOST_IN_VAIN and self.found < LEAST_USE * self.missed and self.times < LEAST_USE


_made: OrderedDict[tuple[Any, ...], _Made] = OrderedDict()
_uses: dict[tuple[type, ...], _Uses] = {}  # of fields of the same parts
_locks: dict[int, Lock] = {}  # by process: a child forked meanwhile must not wait for a thread that it has not got


def kernel_of(
    module: StepModule | FlowModule,
    attributes: Attributes,
    wanted: Mapping[str, bool],
    dtype: torch.dtype,
    make: Callable[[Program], Kernel | str],
    write: Writer = written,
) -> Kernel | str:
    r"""The kernel of a module's code, made of its program by `make` where there is none yet, or why there is none.

    Args:    attributes: of the module; wanted, dtype, write: as for `program_of`.
    """
    key = (attributes.values, *wanted.items(), dtype, torch.get_default_dtype(), write)
    uses = _uses.setdefault(tuple(map(type, module.modules())), _Uses())
    with _locks.setdefault(os.getpid(), Lock()):
        if key in _made and _made[key].is_current:
            uses.found += 1
        else:
            if uses.in_vain(key):
                return "its attributes change from call to call, and a kernel is written for their values; make tensors of them"
            _made[key] = _attempt(module, wanted, dtype, make, attributes, write)
            while len(_made) > MOST_KEPT:
                _made.popitem(last=False)
        _made.move_to_end(key)
        found: Kernel | str = _made[key].kernel
    return found


def _attempt(
    module: StepModule | FlowModule,
    wanted: Mapping[str, bool],
    dtype: torch.dtype,
    make: Callable[[Program], Kernel | str],
    attributes: Attributes,
    write: Writer,
) -> _Made:
    reads = GlobalReads()

    def seen() -> list[Any]:
        return [found if isinstance(found, str) else found.values for found in (reads.now(), attributes_of(module))]

    def made() -> Kernel | str:
        with torch.autograd.set_detect_anomaly(False):
            with reads.noted():  # before the recording, which would be of what cannot be watched, and takes three times as long
                same = _is_the_same_alone(module, dtype)
            before = seen()
            program = program_of(module, wanted, dtype, write)
            if not same:
                raise Unknown("its code treats a sample alone otherwise than among others")
            kernel = make(program)
            if seen() != before:
                raise Unknown("its code changes what it reads outside of the field, in a closure, a default, a class or a global")
        return kernel

    try:
        # In a thread of its own: in no mode of torch that is on in this one, and under no profiler. Context variables come along.
        # What is drawn there is drawn again by the steps.
        devices = [device] if (device := module.field.device) is not None and device.type == "cuda" else []
        with fork_rng(devices), ThreadPoolExecutor(1) as thread:
            kernel = thread.submit(copy_context().run, made).result()
    except Unwatched as error:
        kernel = str(error)
    except (Unknown, ValueError) as error:
        kernel = str(error)
    except Unavailable as error:
        kernel = warn_once(str(error))
    except Exception as error:  # torch records much and not all, and without a kernel nothing is missing
        kernel = f"its code cannot be read: {type(error).__name__}: {error}"
    now = reads.now()
    return _Made(now if isinstance(now, str) else kernel, reads, now, attributes.objects)


def _is_the_same_alone(module: StepModule | FlowModule, dtype: torch.dtype) -> bool:
    """Whether code, which is recorded for batches of two or more, gives a sample the same numbers when it is alone."""
    dice = torch.Generator().manual_seed(0)
    device = module.field.device
    samples = [torch.rand((3, width), generator=dice, dtype=dtype).to(device) + 0.1 for width in module.samples.values()]
    # Copies: under inference_mode weights may be such that autograd refuses.
    module = with_weights(module, [w.detach().clone().requires_grad_(w.requires_grad) for w in weights_of(module)])
    together = module(*(sample.requires_grad_() for sample in samples))
    if together.requires_grad:  # backward, too, for what that code reads
        torch.autograd.grad(together.sum(), samples, allow_unused=True)
    with torch.no_grad():
        alone = torch.cat([module(*(sample[k : k + 1] for sample in samples)) for k in range(3)])
    return torch.allclose(together, alone, ROUNDING[dtype], ROUNDING[dtype], equal_nan=True)


def functions_of(program: Program, dtype: torch.dtype) -> dict[str, int]:
    """The addresses of products and of a program's passes. Raises `Unavailable`."""
    # -O2: no loops are left to unroll. It compiles in 0.8 times what -O3 takes, and runs in 0.7 times what -O1 makes.
    name = "lane_program.cpp" if program.written.lanes else "program.cpp"
    written = Source(HERE / name, ROWS, (("program.h", program.written.text),), ("-O2",))
    if program.written.lanes:
        names: dict[Source, tuple[str, ...]] = {written: ("lane_flow", "lane_return")}
    else:
        passes = ("forward", "backward", *(["columns"] if program.written.columns else []))
        names = {PRODUCTS: ("multiply", "outer"), written: passes}
    found = {source: library(source, {"REAL": REALS[dtype]}) for source in names}
    return {name: ctypes.cast(found[source][f"ctrnn_{name}"], c_void_p).value or 0 for source in names for name in names[source]}


class GivenProgram:
    """A program with the numbers of its weights, laid out as kernels read them; of `networks`, if given, each with its own."""

    def __init__(
        self, program: Program, functions: dict[str, int], weights: Sequence[Tensor], networks: int | None = None
    ) -> None:
        with torch.no_grad():
            vectors, matrices = _of_networks(program.before, program, weights, (), networks)
        columns = [matrix if matrix.dim() == 2 + (networks is not None) else matrix[..., None] for matrix in matrices]
        text, count = program.written, networks or 1
        numbers = {
            "size": text.sizes,
            "kept_widths": text.kept,
            "vector_widths": [vector.numel() // count for vector in vectors],
            "depths": [matrix.shape[-2] for matrix in columns],
            "widths": [matrix.shape[-1] for matrix in columns],
            "product": text.products,
        }
        arrays = {name: _array(given) for name, given in numbers.items()}
        places = {"vector": _addresses(vectors, count), "matrix": _addresses(columns, count)}
        self.alive = vectors, matrices, arrays, places
        shared = functions | {name: array.ctypes.data for name, array in arrays.items()}
        lengths = (len(text.sizes), len(text.kept), len(vectors), len(matrices), *text.counts)
        self.structures = (ProgramStructure * count)(
            *(
                ProgramStructure(
                    *lengths,
                    lane_sums=sum(height * width for height, width in text.sums),
                    **shared,
                    **{name: array[k].ctypes.data for name, array in places.items()},
                )
                for k in range(count)
            )
        )
        self.structure = self.structures[0]


class Sums:
    """Room for a program's sums over samples, and the weights' gradients that they make; of `networks`, if given."""

    def __init__(self, program: Program, like: Tensor, networks: int | None = None) -> None:
        self.program, self.networks = program, networks
        first = () if networks is None else (networks,)
        self.tensors = [like.new_empty(*first, *shape) for shape in program.sums]
        heights, widths = (_array([size[side] for size in program.written.sums]) for side in (0, 1))
        places = _addresses(self.tensors, networks or 1)
        self.alive = heights, widths, places
        sizes = len(self.tensors), heights.ctypes.data, widths.ctypes.data
        self.structures = (SumsStructure * len(places))(*(SumsStructure(*sizes, row.ctypes.data) for row in places))
        self.structure = self.structures[0]

    def gradients(self, weights: Sequence[Tensor]) -> list[Tensor | None]:
        with torch.no_grad():
            found: list[Tensor | None] = _of_networks(self.program.after, self.program, weights, self.tensors, self.networks)
        return found


def _of_networks(
    graph: Callable[..., Any], program: Program, weights: Sequence[Tensor], sums: Sequence[Tensor], networks: int | None
) -> Any:
    """What a graph of a program gives, for all networks at once."""
    if networks is None:
        return graph(*weights, *program.nobody, *program.constants, *sums)
    structures = list[Any]()

    def one(weights: Sequence[Tensor], sums: Sequence[Tensor], _: Tensor) -> list[Tensor]:
        leaves, structure = tree_flatten(graph(*weights, *program.nobody, *program.constants, *sums))
        structures.append((structure, [leaf is not None for leaf in leaves]))
        return [leaf for leaf in leaves if leaf is not None]

    found = iter(torch.func.vmap(one)(list(weights), list(sums), torch.empty(networks)))
    structure, there = structures[0]
    return tree_unflatten([next(found).contiguous() if is_there else None for is_there in there], structure)


def _addresses(tensors: Sequence[Tensor], networks: int) -> np.ndarray:
    """Where the numbers of each network lie, (networks, tensors)."""
    first = [tensor.data_ptr() for tensor in tensors]
    apart = [tensor.numel() // networks * tensor.element_size() for tensor in tensors]
    return np.array(first, np.uint64) + np.arange(networks, dtype=np.uint64)[:, None] * np.array(apart, np.uint64)


def _array(numbers: Any) -> np.ndarray:
    return np.array(numbers, dtype=np.uint64)
